//! Every program of `programs/` in all its variants. The directives: [`pcce_testsuite::directives`].

use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// One test for each program, so that they run side by side and fail apart.
macro_rules! programs {
    ($($(#[$attribute:meta])* $name:ident . $extension:ident),* $(,)?) => {
        $(#[test]
        $(#[$attribute])*
        fn $name() {
            let file = concat!(stringify!($name), ".", stringify!($extension));
            pcce_testsuite::runner::check(&folder().join(file));
        })*

        const LISTED: &[&str] = &[$(concat!(stringify!($name), ".", stringify!($extension))),*];
    };
}

programs! {
    acyclic.c,
    allocating.cpp,
    arguments.c,
    assembly.c,
    attributes.c,
    both_modes.c,
    builtin_jumps.c,
    by_value.c,
    callbacks.c,
    catching.cpp,
    children.c,
    coverage.c,
    coroutines.cpp,
    creation.c,
    coroutines_deep.cpp,
    deep.c,
    definitions.c,
    diverted.cpp,
    exceptions.cpp,
    fibers.c,
    fibers_unannounced.c,
    fibers_unwinding.cpp,
    forced.cpp,
    generated_code.c,
    goto_assembly.c,
    handled.c,
    handlers_reset.c,
    handlers.cpp,
    hooks.c,
    hooks_inlined.c,
    interposed.c,
    foreign_catch.cpp,
    interrupts.c,
    joined.c,
    jump_pending.c,
    jumps.c,
    jumps_no_builtin.c,
    known.c,
    landed.c,
    leaf.c,
    left.c,
    left_apart.c,
    left_library.c,
    leaving.cpp,
    leaving_c.c,
    library.c,
    library_only.c,
    library_plain.c,
    loading.c,
    loading_only.c,
    logging.c,
    logging_streams.cpp,
    memory.c,
    modules.c,
    musttail.c,
    names.c,
    nested_jumps.c,
    noreturn.c,
    numbers.c,
    numbers_inlined.c,
    numbers_unrolled.c,
    objects.cpp,
    offsets.c,
    offsets_varying.c,
    operators.cpp,
    outside.c,
    pointers.c,
    processes.c,
    profiled.c,
    recursion.c,
    relative.c,
    replaced.c,
    replaced_tail.c,
    runtime_calls.c,
    same_name.c,
    signals.c,
    startup.cpp,
    streams.c,
    strings.cpp,
    streams_library.c,
    table_only.c,
    tailcalls.c,
    targets.c,
    targets_cxx.cpp,
    targets_library.c,
    tasks.c,
    tasks_pool.cpp,
    templates.cpp,
    thread_end.c,
    thread_exit.cpp,
    thread_other.c,
    thread_starters.c,
    thread_stress.cpp,
    thin.cpp,
    thread_local.cpp,
    threads.cpp,
    throwers.cpp,
    thunks.c,
    threads_creation.cpp,
    traps.c,
    virtuals.cpp,
    wide_numbers.c,
}

#[test]
fn every_program_is_listed() {
    let files = std::fs::read_dir(folder()).expect("the folder is there");
    for file in files.map(|f| f.expect("can be read").path()) {
        if file.extension().is_some_and(|e| e == "c" || e == "cpp") {
            let name = file.file_name().expect("a file").to_string_lossy().into_owned();
            assert!(LISTED.contains(&name.as_str()), "{name} is not in the list of tests/suite/programs.rs");
        }
    }
}
