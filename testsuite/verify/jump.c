// Nobody restores the state behind this jump.
static jmp_buf buffer;
// It returns twice without saying so, under a name that does not call back either. (Clang knows all of
// setjmp's, and the runtime puts the state back.)
__asm__(".text\n.globl strcoll\nstrcoll: pop %rdx; mov %rbx, (%rdi); mov %rbp, 8(%rdi); mov %r12, 16(%rdi)\n"
        "mov %r13, 24(%rdi); mov %r14, 32(%rdi); mov %r15, 40(%rdi); mov %rsp, 48(%rdi); mov %rdx, 56(%rdi)\n"
        "xor %eax, %eax; jmp *%rdx\n"
        ".globl strxfrm\nstrxfrm: mov (%rdi), %rbx; mov 8(%rdi), %rbp; mov 16(%rdi), %r12; mov 24(%rdi), %r13\n"
        "mov 32(%rdi), %r14; mov 40(%rdi), %r15; mov 48(%rdi), %rsp; mov %esi, %eax; jmp *56(%rdi)\n");
extern int hidden(void *) __asm__("strcoll");
extern void back(void *, int) __asm__("strxfrm");
NOINLINE static void fall(int n) { __pcce_tls.id += 7; back(buffer, n); }
NOINLINE static void jumped(void) { if (hidden(buffer) == 0) fall(3); leaf(1); KEEP; }
int main(void) { jumped(); puts("end"); return 0; }
