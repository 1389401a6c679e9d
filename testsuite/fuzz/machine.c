// A small program with everything that instrumented machine code can have: updates of the id, a push, landing pads,
// stubs, a jump table. The sections of the pass name its functions; FRAGMENT is a file with the dictionary.
typedef unsigned long word;
struct frame { word link, id; const char *site; word handle; };

extern __thread word __pcce_tls[8];
#ifndef SHARED
__thread word __pcce_tls[8];
__attribute__((noinline)) void outside(int number) { __asm__ volatile("" : : "r"(number) : "memory"); }
void _Unwind_Resume(void *exception) { (void)exception; __builtin_trap(); }
void __gcc_personality_v0(void) {}
#else
void outside(int number);
#endif
static const char sites[16] = {1};
volatile int depth;

#define NOINLINE __attribute__((noinline))
void run(int number);

NOINLINE void tail(int number) { outside(number + 1); }

static void restore(word *id) { __pcce_tls[0] = *id; }

NOINLINE void leaf(int number) {
  __attribute__((cleanup(restore))) word id = __pcce_tls[0];
  switch (number) {
  case 0: outside(1); break;
  case 1: outside(depth); break;
  case 2: depth = 7; break;
  case 3: outside(number + depth); break;
  case 4: depth = number; break;
  case 5: tail(2); break;
  default: outside(3);
  }
  struct frame frame = {__pcce_tls[1], id, &sites[4], 0};
  __pcce_tls[1] = (word)&frame;
  __pcce_tls[0] = 0;
  tail(number);
  __pcce_tls[0] = id;
  __pcce_tls[1] = frame.link;
}

NOINLINE void run(int number) {
  leaf(number);
  if (number > 3) {
    struct frame frame = {__pcce_tls[1] | 1, __pcce_tls[0], &sites[3], 0};
    __pcce_tls[1] = (word)&frame | 1;
    run(number - 1);
    __pcce_tls[1] = frame.link & ~1ul;
  }
}

void start(void) {
  __pcce_tls[0] += 1;
  run(depth);
  __pcce_tls[0] += 1;
  run(4);
  __pcce_tls[0] -= 2;
}

void (*volatile const pointers[])(int) = {leaf, run};

// The linker knows the address of `sites`, which has its place in the fragment's header.
__asm__(".section .debug_pcce,\"\",@progbits\n"
        ".incbin \"" FRAGMENT "\", 0, 16\n"
        ".quad sites\n"
        ".incbin \"" FRAGMENT "\", 24\n"
        ".section .debug_pcce_code,\"\",@progbits\n"
        ".quad sites, 4, start, run, leaf, tail\n"
        ".text\n");
