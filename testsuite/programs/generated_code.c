// Code that is in no file: the program makes it while it runs. It is interrupted; nothing tells where it
// lies, nor where its caller's frame is. A call that pushed goes on.
//# Chain[module] interrupted: on_trap < <signal> < <?> < <unknown> < generating < main
//# Chain[lto] interrupted: on_trap < <signal> < <?> < <unknown>
//# Chain[link] interrupted: on_trap < <signal> < <?> < <unknown>
//# Chain called: called < generating < main
#include "show.h"
#include <signal.h>
#include <sys/mman.h>

static void on_trap(int signal) { (void)signal; SHOW("interrupted"); KEEP; }
NOINLINE static void called(void) { SHOW("called"); KEEP; }

// A trap; then a call of what the argument points to.
static const unsigned char code[] = {0xcc, 0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3};

NOINLINE static void generating(void) {
  void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(made, code, sizeof code);
  ((void (*)(void (*)(void)))made)(called);
  KEEP;
}

int main(void) {
  signal(SIGTRAP, on_trap);
  generating();
  KEEP;
  return 0;
}
