//! Comparisons of pointers with functions that are local to another module, and modules in which everything is local.

use std::fs;

use pcce_testsuite::{artifact, command, llvm, run, run_with_input, source, work_folder, write_files};

/// Two of them have the same name.
const ONE: &str = source!("link/local_functions/one.c");
const OTHER: &str = source!("link/local_functions/other.c");

/// Contexts name the file and line of the called function, even if another one has the same name.
#[test]
fn local_functions_of_one_name_are_distinguished() {
    let folder = work_folder("link_local");
    write_files(
        &folder,
        [("main.c", source!("link/local_functions/main.c")), ("one.c", ONE), ("other.c", OTHER)],
    );
    let include = format!("-I{}", artifact("include").display());
    let frames = |flags: &str| {
        let fixed = ["-g", "-fno-inline", &include, "main.c", "one.c", "other.c", "-o", "program"];
        let mut build = command(artifact("pcce-clang"), &fixed);
        run(build.args(flags.split(' ')).current_dir(&folder)).expect_success();
        let printed = run(&mut command(folder.join("program"), &[])).expect_success().stdout;
        let program = folder.join("program").display().to_string();
        let decoded = run_with_input(&mut command(artifact("pcce"), &["filter", &program]), &printed);
        let decoded = decoded.expect_success().stdout;
        decoded.lines().filter(|line| line.contains('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = frames("-O1 --pcce-mode=module");
    assert!(["one.c:2:", "other.c:3:"].iter().all(|line| expected.iter().any(|frame| frame.contains(line))));
    for linker in ["bfd", "gold", "lld", "mold"] {
        for flags in [
            "-O1",
            "-O1 -no-pie",
            "-O1 --pcce-verify",
            "-O1 -ffunction-sections -Wl,--gc-sections",
            "-O1 --pcce-id-bits=8",
        ] {
            let flags = format!("--pcce-mode=link {flags} -fuse-ld={linker}");
            assert_eq!(frames(&flags), expected, "{flags}");
            let symbols = run(command(llvm("llvm-nm"), &["program"]).current_dir(&folder)).expect_success();
            let compared = symbols.stdout.lines().filter(|line| line.contains(" step.pcce_local."));
            assert_eq!(compared.count(), 2, "{flags}: {}", symbols.stdout);
        }
    }
}

/// One command may compile a source twice and link both objects, if all its definitions are local or weak.
#[test]
fn a_source_may_be_there_twice() {
    let folder = work_folder("relink/twice");
    let twice = "#include <pcce.h>\n#include <stdio.h>\nstatic int times;\n\
        static void shows(void) { puts(PCCE_TOKEN); }\n\
        __attribute__((constructor)) static void begins(void) { times++; shows(); }\n";
    fs::write(folder.join("twice.c"), twice).unwrap();
    fs::write(folder.join("main.c"), "int main(void) { return 0; }\n").unwrap();
    let mut link = command(artifact("pcce-clang"), &["--pcce-mode=link", "--pcce-verify", "-O0", "-g"]);
    run(link.args(["main.c", "twice.c", "twice.c", "-o", "program"]).current_dir(&folder)).expect_success();
    let report = folder.join("report");
    let _ = fs::remove_file(&report);
    let output =
        run(command(folder.join("program"), &[]).env("PCCE_VERIFY_REPORT", &report)).expect_success();
    let report = fs::read_to_string(&report).unwrap();
    assert!(report.contains(" 0 mismatches") && !report.contains(" 0 contexts"), "{report}");
    let tokens: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(tokens.len(), 2, "{}", output.stdout);
    for token in tokens {
        let decoded = run(command(artifact("pcce"), &["decode", "program", token]).current_dir(&folder));
        let (shows, begins) = (decoded.stdout.find("shows"), decoded.stdout.find("begins"));
        assert!(shows.is_some() && shows < begins, "{}", decoded.describe());
    }
}
