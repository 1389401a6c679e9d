// The program of the core files: it writes what a core file would hold of it to standard output, as a row of 64-bit
// words, and ends. Without a C library and at fixed addresses, it is small, and the same each time.
//
// The words: rip, rsp, rbp, fs_base; the address of `stack`, the number of its words, they; the same of `block`.
typedef unsigned long word;
typedef struct frame { struct frame *prev; word id; const char *site; word handle; } frame;

#define NOINLINE __attribute__((noinline))
enum { ROOM = 160 };

// As the runtime library has them.
__thread word __pcce_tls[8] __attribute__((aligned(64)));
const char __pcce_signal_site = 1;

static const char sites[4] = {1, 2, 3, 4};
word stack[ROOM] __attribute__((aligned(16)));
// The thread-local block ends at the thread pointer, whose word names itself.
static word block[9] __attribute__((aligned(64)));

static long call(long number, long a, const void *b, long c) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}

NOINLINE static void dump(frame *top) {
  __pcce_tls[0] = 7;
  __pcce_tls[1] = (word)top;
  word state[4];
  __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                   : "=r"(state[0]), "=r"(state[1]), "=r"(state[2]));
  state[3] = (word)&block[8];
  word of_stack[2] = {(word)stack, ROOM}, of_block[2] = {(word)block, 9};
  call(1, 1, state, sizeof state);
  call(1, 1, of_stack, sizeof of_stack);
  call(1, 1, stack, sizeof stack);
  call(1, 1, of_block, sizeof of_block);
  call(1, 1, block, sizeof block);
  call(60, 0, 0, 0);
}

NOINLINE static void handler(frame *outer) {
  frame top = {outer, 3, &sites[2], 0};
  dump(&top);
  __asm__ volatile("" ::: "memory");
}

// Calls the handler as if a signal had interrupted its caller: with a frame, and a `ucontext_t` behind it.
NOINLINE static void interrupted(frame *outer) {
  word context[24] = {0};
  word *own = __builtin_frame_address(0);
  context[15] = own[0];           // rbp
  context[20] = (word)(own + 2);  // rsp
  context[21] = own[1];           // rip
  struct { frame frame; word *context; } signal = {{outer, 5, &__pcce_signal_site, 0}, context};
  __asm__ volatile("" ::: "memory");
  handler(&signal.frame);
  __asm__ volatile("" : : "r"(context) : "memory");
}

NOINLINE static void recursive(int n, frame *outer) {
  frame top = {outer, 1, &sites[1], 0};
  if (n > 0) recursive(n - 1, &top); else interrupted(&top);
  __asm__ volatile("" ::: "memory");
}

__attribute__((used)) static void start(void) {
  block[8] = (word)&block[8];
  call(158, 0x1002, &block[8], 0); // arch_prctl(ARCH_SET_FS)
  __pcce_tls[5] = (word)stack;
  __pcce_tls[6] = (word)(stack + ROOM);
  recursive(3, 0);
  __asm__ volatile("" ::: "memory");
}

__asm__(".globl _start\n"
        "_start: .cfi_startproc\n"
        ".cfi_undefined rip\n"
        "lea stack + 160 * 8(%rip), %rsp\n"
        "xor %ebp, %ebp\n"
        "call start\n"
        "ud2\n"
        ".cfi_endproc\n");
