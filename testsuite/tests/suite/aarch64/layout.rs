//! Where the thread's block is: in link mode, code takes the place that it has in the first link.

use std::path::Path;

use pcce_testsuite::runner::{AARCH64, command_on};
use pcce_testsuite::{artifact, command, include, llvm, run, work_folder};

/// An archive's member that only generated code calls for moves the block, so the code is generated once more.
#[test]
fn the_second_link_may_have_further_thread_local_storage() {
    let work = work_folder("aarch64-layout");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("layout");
    let mut plain = command(llvm("clang"), &[&AARCH64.flag(), "-O1", "-fno-builtin", "-c", "-o", "copy.o"]);
    run(plain.arg(sources.join("copy.c")).current_dir(&work)).expect_success();
    run(command(llvm("llvm-ar"), &["rcs", "libcopy.a", "copy.o"]).current_dir(&work)).expect_success();
    for (name, flags) in [("alone", &[][..]), ("moved", &["-L.", "-lcopy"])] {
        for linker in ["bfd", "lld"] {
            let output = format!("{name}-{linker}");
            let fixed = ["-O2", "-g", &AARCH64.flag(), &format!("-fuse-ld={linker}"), "-o", &output];
            let mut build = command(artifact("pcce-clang"), &fixed);
            build.arg(include("runtime-lib/include")).arg(sources.join("copying.c")).args(flags);
            run(build.current_dir(&work)).expect_success();
            let program = work.join(&output);
            let shown = run(&mut command_on(Some(&AARCH64), &program, &[])).expect_success();
            let tokens: Vec<&str> = shown.stdout.lines().collect();
            let mut decode = command(artifact("pcce"), &["decode", "--format", "folded"]);
            let contexts = run(decode.arg(&program).args(&tokens)).expect_success();
            assert_eq!(contexts.stdout, "main;through;report 1\nmain;report 1\n", "{output}");
            // A relocation in this section fails if the block is elsewhere than the code believes.
            let symbols = run(command(llvm("llvm-nm"), &[]).arg(&program)).expect_success();
            let checked = symbols.stdout.contains(" __pcce_tls_place");
            assert_eq!(checked, name == "alone", "{output}");
        }
    }
}
