# A program has its own requests for reports and its own tracer, or none: no loader need look for one in its libraries.
    .section .rodata.unused,"a",@progbits
    .irp name, file, handler, handler_end, here, jump, kept, last, mark, now, record, thread, unwound
    .weak __pcce_trace_\name
    .hidden __pcce_trace_\name
    .quad __pcce_trace_\name
    .endr
    .section .rodata.unused,"a",@progbits
    .weak __pcce_crash_report
    .hidden __pcce_crash_report
    .quad __pcce_crash_report
    .weak __pcce_verify_report
    .hidden __pcce_verify_report
    .quad __pcce_verify_report
    .weak __pcce_hybrid
    .hidden __pcce_hybrid
    .quad __pcce_hybrid
    .irp name, unpoison, memcpy
    .weak __pcce_msan_\name
    .hidden __pcce_msan_\name
    .quad __pcce_msan_\name
    .endr
    .irp name, signal, __sysv_signal, sigaction, pthread_create, thrd_create
    .weak __pcce_libc_\name
    .hidden __pcce_libc_\name
    .quad __pcce_libc_\name
    .endr
    .section .note.GNU-stack,"",@progbits
