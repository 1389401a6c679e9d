# The object that the wrapper links into shared libraries that record their calls.
    .text
    .type __pcce_trace_module,@function
    .p2align 2
__pcce_trace_module:
    .cfi_startproc
    adr x0, __pcce_trace_module
    adrp x1, __start_pcce_trace_rows
    add x1, x1, :lo12:__start_pcce_trace_rows
    adrp x2, __stop_pcce_trace_rows
    add x2, x2, :lo12:__stop_pcce_trace_rows
    b __pcce_trace_loaded
    .cfi_endproc
    .size __pcce_trace_module, . - __pcce_trace_module
    .hidden __pcce_trace_enter
    .globl __pcce_trace_enter
    .type __pcce_trace_enter,@function
    .p2align 2
# The caller's return address is in x17, as `stubs.rs` has it.
__pcce_trace_enter:
    .cfi_startproc
    .cfi_return_column x16
    .cfi_register x16, x30
    .cfi_register x30, x17
    adrp x16, :got:__pcce_trace_enter_library
    ldr x16, [x16, :got_lo12:__pcce_trace_enter_library]
    br x16
    .cfi_endproc
    .size __pcce_trace_enter, . - __pcce_trace_enter
    .include "runtime-lib/tracer/src/machine/module_data.s"
