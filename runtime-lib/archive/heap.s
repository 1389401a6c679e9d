# The constructor and the destructor of the heap profiler.
    .section .init_array,"aw"
    .quad __pcce_heap_start
    .section .fini_array,"aw"
    .quad __pcce_heap_end
    .section .note.GNU-stack,"",@progbits
