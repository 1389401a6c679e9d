//! The symbols that the runtime's archives define, and that programs and shared libraries find there. `build-runtime`
//! keeps them when it makes the archives.

use crate::{MAIN_BASE_SYMBOL, REPLACED, SIGNAL_SITE_SYMBOL, TLS_SYMBOL, VERSION_SYMBOL, functions};

/// Symbols that every archive defines for the C API, for the start of the program, and for code of the pass.
pub const RUNTIME: [&str; 42] = [
    "pcce_context",
    "pcce_numbers",
    "pcce_token",
    "pcce_token_at",
    "pcce_install_crash_handler",
    "pcce_thread_token",
    "pcce_fiber_save",
    "pcce_fiber_restore",
    "pcce_fiber_run",
    "pcce_task_capture",
    functions::TASK_RUN,
    "pcce_trace_start",
    "pcce_trace_stop",
    "pcce_trace_mark",
    "pcce_trace_flush",
    "__pcce_threads_start",
    "__pcce_crash_start",
    "__pcce_sample_start",
    "__pcce_numbers_start",
    // For the tracer.
    "__pcce_thread_is_left",
    VERSION_SYMBOL,
    TLS_SYMBOL,
    SIGNAL_SITE_SYMBOL,
    crate::chains::SYMBOL,
    MAIN_BASE_SYMBOL,
    functions::CONTEXT,
    functions::TOKEN,
    functions::CONTEXT_BELOW,
    functions::TOKEN_BELOW,
    functions::TOKEN_AT,
    functions::TASK_CAPTURE,
    functions::PTHREAD_CREATE,
    functions::THRD_CREATE,
    functions::STD_THREAD,
    // For `libpcce_libc.a`.
    CREATES[0].1,
    CREATES[1].1,
    functions::SETJMP,
    functions::LONGJMP,
    // For `libpcce_libc.a`.
    "__pcce_find",
    // `signal`, `sysv_signal`, `sigaction`.
    REPLACED[0].1,
    REPLACED[3].1,
    REPLACED[5].1,
];

/// Further symbols of `libpcce_verify.a`: verify mode, and counts of calls.
pub const VERIFY: [&str; 9] = [
    functions::VERIFY_ENTER,
    functions::VERIFY_RETURN,
    functions::VERIFY_LEAVE,
    functions::VERIFY_RESUME,
    functions::VERIFY_NUMBER,
    functions::COUNTS_START,
    functions::COUNTS_TARGET,
    functions::COUNTS_END,
    crate::REPLACED_ENDS[0].1,
];

/// Symbols that the tracer (`libpcce_trace.a`) defines for programs and shared libraries.
pub const TRACE: [&str; 18] = [
    crate::trace::TLS_SYMBOL,
    crate::trace::OFF,
    crate::trace::functions::FLUSH,
    crate::trace::functions::ENTER_LIBRARY,
    crate::trace::functions::LANDED,
    crate::trace::functions::CAME_BACK,
    crate::trace::functions::CAUGHT,
    crate::trace::functions::RETURNED,
    crate::trace::functions::EVENT,
    crate::trace::functions::SYNC,
    crate::trace::functions::GOES_ON,
    crate::trace::functions::CANCEL_TYPE,
    crate::trace::functions::SWITCH,
    crate::trace::functions::SAVE,
    crate::trace::functions::BACK,
    "__pcce_trace_start",
    "__pcce_trace_end",
    // For traced shared libraries, when they are loaded.
    "__pcce_trace_loaded",
];

/// Symbols that the tracer defines for the image that it is in. They are hidden, so that linkers have nothing to
/// export.
pub const TRACE_WITHIN: [&str; 14] = [
    crate::trace::functions::ENTER,
    crate::trace::OFF_AT,
    // For the runtime.
    "__pcce_trace_handler",
    "__pcce_trace_handler_end",
    "__pcce_trace_now",
    "__pcce_trace_record",
    "__pcce_trace_mark",
    "__pcce_trace_here",
    "__pcce_trace_kept",
    "__pcce_trace_jump",
    "__pcce_trace_file",
    "__pcce_trace_last",
    "__pcce_trace_thread",
    "__pcce_trace_unwound",
];

/// Functions that `libpcce_libc.a` defines instead of libc, each with the function of the runtime to which it leads.
pub const INTERPOSED: [(&str, &str); 15] = [
    ("setjmp", functions::SETJMP),
    ("_setjmp", functions::SETJMP),
    ("__sigsetjmp", functions::SETJMP),
    ("longjmp", functions::LONGJMP),
    ("_longjmp", functions::LONGJMP),
    ("siglongjmp", functions::LONGJMP),
    ("__longjmp_chk", functions::LONGJMP),
    REPLACED[0],
    REPLACED[1],
    REPLACED[2],
    REPLACED[3],
    REPLACED[4],
    REPLACED[5],
    CREATES[0],
    CREATES[1],
];

/// The functions of [`INTERPOSED`] that static programs have, too. Libc's own function of the name is `__NAME` there.
pub const CREATES: [(&str, &str); 2] =
    [("pthread_create", "__pcce_other_pthread_create"), ("thrd_create", "__pcce_other_thrd_create")];

/// Functions that the heap profiler defines instead of libc, each with the name that it has until the archive is made.
pub const ALLOCATION: [(&str, &str); 13] = [
    ("malloc", "__pcce_malloc"),
    ("calloc", "__pcce_calloc"),
    ("realloc", "__pcce_realloc"),
    ("reallocarray", "__pcce_reallocarray"),
    ("free", "__pcce_free"),
    ("memalign", "__pcce_memalign"),
    ("aligned_alloc", "__pcce_aligned_alloc"),
    ("posix_memalign", "__pcce_posix_memalign"),
    ("valloc", "__pcce_valloc"),
    ("pvalloc", "__pcce_pvalloc"),
    ("malloc_usable_size", "__pcce_malloc_usable_size"),
    ("_exit", "__pcce_exit_now"),
    ("_Exit", "__pcce_exit_at_once"),
];
