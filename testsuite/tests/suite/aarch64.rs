//! Programs of `programs/` for AArch64, in an emulator of processes. Their contexts are decoded on this machine.

mod cores;
mod debugger;
mod stepping;

use std::path::Path;

use pcce_testsuite::generated::{Builds, Generator, Verdict, check};
use pcce_testsuite::runner::{AARCH64, check_emulated};
use pcce_testsuite::target;
use pcce_testsuite::turns::all_cases;

/// One test for each program, so that they run side by side and fail apart.
macro_rules! programs {
    ($($(#[$attribute:meta])* $name:ident . $extension:ident),* $(,)?) => {
        $(#[test]
        $(#[$attribute])*
        fn $name() {
            let file = concat!("programs/", stringify!($name), ".", stringify!($extension));
            check_emulated(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), &AARCH64);
        })*
    };
}

programs! {
    acyclic.c,
    #[ignore]
    allocating.cpp,
    #[ignore]
    arguments.c,
    assembly.c,
    #[ignore]
    attributes.c,
    #[ignore]
    both_modes.c,
    #[ignore]
    by_value.c,
    callbacks.c,
    #[ignore]
    catching.cpp,
    #[ignore]
    coverage.c,
    coroutines.cpp,
    creation.c,
    #[ignore]
    coroutines_deep.cpp,
    #[ignore]
    deep.c,
    definitions.c,
    diverted.cpp,
    exceptions.cpp,
    fibers.c,
    #[ignore]
    fibers_unannounced.c,
    fibers_unwinding.cpp,
    forced.cpp,
    handled.c,
    #[ignore]
    handlers_reset.c,
    #[ignore]
    handlers.cpp,
    #[ignore]
    hooks.c,
    #[ignore]
    hooks_inlined.c,
    #[ignore]
    interposed.c,
    #[ignore]
    foreign_catch.cpp,
    #[ignore]
    joined.c,
    #[ignore]
    jump_pending.c,
    jumps.c,
    #[ignore]
    jumps_no_builtin.c,
    #[ignore]
    known.c,
    #[ignore]
    landed.c,
    #[ignore]
    leaf.c,
    #[ignore]
    left.c,
    #[ignore]
    left_apart.c,
    left_library.c,
    #[ignore]
    leaving.cpp,
    #[ignore]
    leaving_c.c,
    library.c,
    #[ignore]
    library_only.c,
    library_plain.c,
    #[ignore]
    logging.c,
    #[ignore]
    logging_streams.cpp,
    #[ignore]
    memory.c,
    modules.c,
    musttail.c,
    #[ignore]
    names.c,
    nested_jumps.c,
    #[ignore]
    noreturn.c,
    numbers.c,
    #[ignore]
    numbers_inlined.c,
    #[ignore]
    numbers_unrolled.c,
    #[ignore]
    objects.cpp,
    offsets.c,
    #[ignore]
    offsets_varying.c,
    #[ignore]
    operators.cpp,
    #[ignore]
    pointers.c,
    #[ignore]
    processes.c,
    recursion.c,
    relative.c,
    replaced.c,
    #[ignore]
    replaced_tail.c,
    runtime_calls.c,
    #[ignore]
    same_name.c,
    signals.c,
    #[ignore]
    startup.cpp,
    #[ignore]
    streams.c,
    #[ignore]
    strings.cpp,
    #[ignore]
    streams_library.c,
    #[ignore]
    table_only.c,
    tailcalls.c,
    #[ignore]
    targets_library.c,
    tasks.c,
    #[ignore]
    tasks_pool.cpp,
    templates.cpp,
    #[ignore]
    thread_end.c,
    thread_exit.cpp,
    #[ignore]
    thread_other.c,
    #[ignore]
    thread_starters.c,
    #[ignore]
    thread_stress.cpp,
    #[ignore]
    thin.cpp,
    #[ignore]
    thread_local.cpp,
    threads.cpp,
    #[ignore]
    throwers.cpp,
    #[ignore]
    thunks.c,
    #[ignore]
    threads_creation.cpp,
    #[ignore]
    traps.c,
    virtuals.cpp,
    wide_numbers.c,
}

/// Generated programs, with samples of their processor time: points at which signals strike. With the variable for all
/// cases, some dozen of each generator.
#[test]
fn generated() {
    let few = [(Generator::Csmith, 3..=3), (Generator::Cxx, 1..=1), (Generator::Outside, 2..=2)];
    let mut different = Vec::new();
    for (generator, few) in few {
        for seed in if all_cases() { 1..=24 } else { few } {
            let name = format!("generated-aarch64/{}-{seed}", generator.name());
            let verdict = check(generator, seed, Builds::Emulated, &target().join("testsuite").join(&name));
            // Some of csmith's programs do not end.
            let is_same = matches!(verdict, Verdict::Same { compared: 1.., .. })
                || generator == Generator::Csmith && verdict == Verdict::Skipped;
            different.extend((!is_same).then(|| format!("{name}: {verdict:?}")));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
