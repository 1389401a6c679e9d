# The data of `module.s`, which is that of all machines.
    .section .data.rel.ro,"aw",@progbits
    .hidden __pcce_trace_off_at
    .globl __pcce_trace_off_at
    .type __pcce_trace_off_at,@object
    .size __pcce_trace_off_at, 8
    .p2align 3
__pcce_trace_off_at:
    .quad __pcce_trace_off
    .section .init_array.00000,"aw",@init_array
    .p2align 3
    .quad __pcce_trace_module
    .hidden __start_pcce_trace_rows
    .hidden __stop_pcce_trace_rows
    # A row of no function: linkers give the section's bounds only if it is there.
    .section pcce_trace_rows,"a",@progbits
    .p2align 2
    .zero 24
    .section .note.GNU-stack,"",@progbits
