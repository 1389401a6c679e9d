/* Calls the tracer with all registers full, and looks that they are kept. Prints how often, and with which ones. */
#include "../../../tracer/emitted.h"
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

/* Functions that begin as the pass makes them. */
__asm__(".text\n.p2align 4\nfirst: mov x17, x30\nbl __pcce_trace_enter\nret\n"
        ".p2align 4\nsecond: mov x17, x30\nbl __pcce_trace_enter\nret\n");
void first(void), second(void), __pcce_trace_came_back(void);

enum { GENERAL = 29, VECTORS = 32, MASKS = 17, LONGEST = 256 };

struct registers {
  uint64_t general[32];
  unsigned char vectors[VECTORS][LONGEST];
  unsigned char masks[MASKS][LONGEST / 8];
};

#define EACH_16(line) ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n" line "\n.endr\n"
#define EACH_32(line) \
  EACH_16(line) ".irp n,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n" line "\n.endr\n"
/* x16 and x17 are not kept. */
#define EACH_GENERAL(line) EACH_16(line) ".irp n,18,19,20,21,22,23,24,25,26,27,28\n" line "\n.endr\n"

/* Fills the registers from `from`, calls, and writes them to `to`. Vectors and masks begin behind 32 words, at fixed
   places. */
#define PROBE(name, load, store)                                                                             \
  void name(const struct registers *from, struct registers *to, void (*function)(void));                     \
  __asm__(".arch_extension sve\n.text\n.p2align 4\n" #name ":\n"                                             \
          "stp x29, x30, [sp, #-192]!\nstp x19, x20, [sp, #16]\nstp x21, x22, [sp, #32]\n"                   \
          "stp x23, x24, [sp, #48]\nstp x25, x26, [sp, #64]\nstp x27, x28, [sp, #80]\n"                      \
          "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"                      \
          "stp d14, d15, [sp, #144]\nstp x1, x18, [sp, #160]\nmov x16, x2\nmov x17, x0\n" load               \
          EACH_GENERAL("ldr x\\n, [x17, #8 * \\n]") "blr x16\nldr x17, [sp, #160]\n"                         \
          EACH_GENERAL("str x\\n, [x17, #8 * \\n]") store                                                    \
          "ldr x18, [sp, #168]\nldp x19, x20, [sp, #16]\nldp x21, x22, [sp, #32]\n"                          \
          "ldp x23, x24, [sp, #48]\nldp x25, x26, [sp, #64]\nldp x27, x28, [sp, #80]\n"                      \
          "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"                      \
          "ldp d14, d15, [sp, #144]\nldp x29, x30, [sp], #192\nret\n")

/* The places of vectors and masks: by x0 on, which is filled or written already. */
#define VECTORS_AT(line) "add x0, x17, #256\n" EACH_32(line "\nadd x0, x0, #256")
#define MASKS_AT(line) "add x0, x17, #256\nadd x0, x0, #8192\n" EACH_16(line "\nadd x0, x0, #32")

PROBE(neon, VECTORS_AT("ldr q\\n, [x0]"), VECTORS_AT("str q\\n, [x0]"));
/* The last mask goes into the register of first faults by way of p0. */
PROBE(sve,
      MASKS_AT("ldr p\\n, [x0]") "ldr p0, [x0]\nwrffr p0.b\nsub x0, x0, #512\nldr p0, [x0]\n"
      VECTORS_AT("ldr z\\n, [x0]"),
      VECTORS_AT("str z\\n, [x0]") MASKS_AT("str p\\n, [x0]") "rdffr p0.b\nstr p0, [x0]\n");

static uint64_t state = 1, calls;

typedef void probe_function(const struct registers *, struct registers *, void (*)(void));

/* `from_register`: those below may change. */
static void check(const char *what, probe_function *probe, void (*function)(void), int from_register, int bytes,
                  int masks) {
  static struct registers from, to;
  unsigned char *all = (unsigned char *)&from;
  for (unsigned i = 0; i < sizeof from; i++)
    all[i] = (state = state * 6364136223846793005 + 1442695040888963407) >> 56;
  /* The first faults are in a register whose bits are set from the lowest one on. */
  for (int i = 0; i < LONGEST / 8; i++)
    from.masks[16][i] = i < 1 ? 0x3f : 0;
  memset(&to, 0, sizeof to);
  probe(&from, &to, function);
  calls++;
  for (int i = from_register; i < GENERAL; i++)
    if (i != 16 && i != 17 && from.general[i] != to.general[i])
      printf("%s: x%d\n", what, i);
  for (int i = 0; i < VECTORS; i++)
    if (memcmp(from.vectors[i], to.vectors[i], bytes))
      printf("%s: vector register %d\n", what, i);
  for (int i = 0; i < MASKS && masks; i++)
    if (memcmp(from.masks[i], to.masks[i], bytes / 8))
      printf("%s: mask %d\n", what, i);
}

int main(void) {
  const int has_sve = getauxval(AT_HWCAP) >> 22 & 1;
  int bytes = 16;
  if (has_sve) {
    uint64_t len;
    __asm__(".arch_extension sve\nrdvl %0, #1" : "=r"(len));
    bytes = (int)len;
  }
  probe_function *probe = has_sve ? sve : neon;
  void (*flush)(void) = (void (*)(void))__pcce_trace_flush;
  /* The first call of a thread, misses, hits, full words, and several chunks. */
  for (int i = 0; i < 6000; i++) {
    void (*function)(void) = i % 5 ? first : second;
    if (i % 7 == 0)
      __pcce_trace.cache[(((uintptr_t)first + 5) >> 4) % 256] = 0;
    check("enter", probe, function, 0, bytes, has_sve);
    check("flush", probe, flush, 0, bytes, has_sve);
    check("event", probe, (void (*)(void))__pcce_trace_event, 9, bytes, has_sve);
    if (i % 3 == 0)
      check("came back", probe, __pcce_trace_came_back, 0, bytes, has_sve);
    if (i < 100 && __pcce_trace.pending >> 53)
      printf("a full word\n");
  }
  printf("%lu calls, %s\n", (unsigned long)calls, has_sve ? "sve" : "neon");
  return 0;
}
