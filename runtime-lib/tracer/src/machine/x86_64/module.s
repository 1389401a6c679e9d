# The object that the wrapper links into shared libraries that record their calls.
    .text
    .type __pcce_trace_module,@function
__pcce_trace_module:
    .cfi_startproc
    leaq __pcce_trace_module(%rip), %rdi
    leaq __start_pcce_trace_rows(%rip), %rsi
    leaq __stop_pcce_trace_rows(%rip), %rdx
    jmp __pcce_trace_loaded@PLT
    .cfi_endproc
    .size __pcce_trace_module, . - __pcce_trace_module
    .hidden __pcce_trace_enter
    .globl __pcce_trace_enter
    .type __pcce_trace_enter,@function
__pcce_trace_enter:
    .cfi_startproc
    jmp *__pcce_trace_enter_library@GOTPCREL(%rip)
    .cfi_endproc
    .size __pcce_trace_enter, . - __pcce_trace_enter
    .include "runtime-lib/tracer/src/machine/module_data.s"
