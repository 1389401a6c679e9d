// Nothing is wrong here, though assembly wipes out the mark of a tail call.
__attribute__((used)) int outermost(int count, char **arguments) { leaf(count); puts("end"); return arguments == 0; }
// Assembly on the way of the tail call, which wipes the mark out.
__attribute__((naked)) int wipe(int count, char **arguments) {
  __asm__("movq __pcce_tls@gottpoff(%rip), %rax; andb $-3, %fs:8(%rax); jmp outermost");
}
int (*volatile next)(int, char **) = wipe;
int main(int count, char **arguments) { __attribute__((musttail)) return next(count, arguments); }
