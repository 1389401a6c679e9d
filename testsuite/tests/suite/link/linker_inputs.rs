//! The wrapper's link accepts all that the user's linker accepts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pcce_testsuite::{Output, artifact, command, folded, llvm, run, run_with_input, work_folder};

/// The functions that a shared library exports, with their versions.
fn exported(library: &Path) -> BTreeSet<String> {
    let list =
        command(llvm("llvm-nm"), &["-D", "--defined-only", "--format=just-symbols"]).arg(library).output();
    let list = String::from_utf8(list.expect("llvm-nm runs").stdout).expect("names are text");
    // GNU ld also defines a symbol for each version.
    let is_version = |name: &str| name.split_once("@@").is_some_and(|(name, version)| name == version);
    list.lines().filter(|name| !is_version(name)).map(str::to_owned).collect()
}

/// The version script of zlib names functions that a build may leave out: an error for lld, none for GNU ld.
#[test]
fn version_scripts_may_name_what_is_not_defined() {
    let folder = work_folder("linking/versions");
    fs::write(folder.join("a.c"), "int kept(int n) { return n; }\nint hidden(int n) { return n; }\n")
        .unwrap();
    fs::write(
        folder.join("map"),
        "V_1 { global: kept; left_out; local: *; };\nV_2 { also_left_out; } V_1;\n",
    )
    .unwrap();
    let link = |compiler: &Path, library: &str, flags: &[&str]| -> Output {
        let fixed = ["-shared", "-fPIC", "-Wl,--version-script=map", "a.c", "-o", library];
        run(command(compiler, &[flags, &fixed].concat()).current_dir(&folder))
    };
    let _ = link(&llvm("clang"), "plain.so", &[]).expect_success();
    let expected = exported(&folder.join("plain.so"));
    assert!(expected.iter().any(|name| name.starts_with("kept@")), "{expected:?}");
    assert!(!expected.iter().any(|name| name.starts_with("hidden")), "{expected:?}");
    for mode in ["lto", "module"] {
        let mode = format!("--pcce-mode={mode}");
        let _ = link(&artifact("pcce-clang"), "ours.so", &[&mode]).expect_success();
        assert_eq!(exported(&folder.join("ours.so")), expected, "{mode}");
    }
    // An option for the error, or for the linker that reports it, keeps its effect.
    for flags in [&["-Wl,--no-undefined-version"][..], &["-fuse-ld=lld"]] {
        assert_ne!(link(&llvm("clang"), "refused.so", flags).status, 0, "{flags:?}");
        let refused = link(&artifact("pcce-clang"), "refused.so", flags);
        assert!(
            refused.status != 0 && refused.stderr.contains("left_out"),
            "{flags:?}: {}",
            refused.describe()
        );
    }
}

/// Objects of both modes in one link: all of them are instrumented, or the link is an error.
#[test]
fn a_mix_of_modes_is_instrumented_or_refused() {
    let folder = work_folder("linking/modes");
    let pcce = |lines: &str| format!("#include <pcce.h>\n#include <stdio.h>\n{lines}\n");
    let main =
        "int half(int);\nvoid show(void) { puts(PCCE_TOKEN); }\nint main(void) { return half(8) - 4; }";
    fs::write(folder.join("main.c"), pcce(main)).unwrap();
    let work = "void show(void);\n__attribute__((noinline)) int half(int n) { show(); puts(PCCE_TOKEN); return n / 2; }";
    fs::write(folder.join("work.c"), pcce(work)).unwrap();
    let clang = |arguments: &[&str]| run(command(artifact("pcce-clang"), arguments).current_dir(&folder));
    for mode in ["lto", "module"] {
        for name in ["main", "work"] {
            let (mode_flag, object) = (format!("--pcce-mode={mode}"), format!("{name}.{mode}.o"));
            let _ =
                clang(&["-g", "-O2", &mode_flag, "-c", &format!("{name}.c"), "-o", &object]).expect_success();
        }
    }
    for main in ["lto", "module"] {
        for work in ["lto", "module"] {
            for link in ["lto", "module"] {
                let objects = [format!("main.{main}.o"), format!("work.{work}.o")];
                let name = format!("{main}-{work}-{link}");
                let linked = clang(&[&format!("--pcce-mode={link}"), &objects[0], &objects[1], "-o", &name]);
                if link == "module" && [main, work].contains(&"lto") {
                    assert_eq!(linked.status, 1, "{name}");
                    let culprit = &objects[usize::from(main != "lto")];
                    let expected = format!("`{culprit}` holds bitcode");
                    assert!(linked.stderr.contains(&expected), "{}", linked.describe());
                    continue;
                }
                let _ = linked.expect_success();
                assert_eq!(contexts(&folder.join(&name)), "main;half;show\nmain;half\n", "{name}");
            }
        }
    }
}

/// The contexts that a program prints.
fn contexts(program: &Path) -> String {
    let tokens = run(&mut command(program, &[])).expect_success().stdout;
    folded(Path::new("."), &[program.to_str().unwrap()], &tokens)
}

/// PostgreSQL's build looks at the undefined names of its library, and refuses any that has `exit` in it.
#[test]
fn libraries_refer_to_nothing_that_looks_like_exit() {
    let folder = work_folder("linking/exit");
    fs::write(folder.join("library.c"), "int other(int); int own(int n) { return other(n) + n; }\n").unwrap();
    for mode in ["link", "module", "lto"] {
        let mode = format!("--pcce-mode={mode}");
        for further in [&[][..], &["--pcce-verify"], &["--pcce-trace"], &["--pcce-heap"]] {
            let words = ["-O2", "-fPIC", "-shared", "library.c", "-o", "library.so", &mode];
            let mut clang = command(artifact("pcce-clang"), &[&words, further].concat());
            run(clang.current_dir(&folder)).expect_success();
            let nm = run(command(llvm("llvm-nm"), &["-u", "library.so"]).current_dir(&folder));
            let names = nm.expect_success().stdout;
            assert!(names.contains("other"), "{names}");
            let others = names.lines().filter(|name| !name.contains("__cxa_atexit"));
            assert!(!others.clone().any(|name| name.contains("exit")), "{mode} {further:?}: {names}");
        }
    }
}

/// A build id has any length. lld does not pad it, and it may be the last note of its segment.
#[test]
fn build_ids_have_any_length() {
    let folder = work_folder("linking/build-ids");
    let source = "#include <pcce.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
        __attribute__((noinline)) static void taken(int n) { printf(\"%s\\n\", PCCE_TOKEN); fflush(stdout); if (n > 1) abort(); }\n\
        int main(int n, char **v) { taken(n); return v == 0; }\n";
    fs::write(folder.join("a.c"), source).unwrap();
    for (linker, mode, id) in [
        ("lld", "lto", "0x12"),
        ("lld", "lto", "0x1234"),
        ("lld", "link", "0x123456"),
        ("lld", "module", "0x12345678"),
        ("lld", "lto", "0x1234567890"),
        ("lld", "lto", "0x123456789012345678"),
        ("bfd", "module", "0x1234"),
        ("bfd", "link", "0x12345678901234567890123456789012345678901234"),
    ] {
        let case = format!("{linker}, {mode}, {id}");
        let (by_mode, by_linker) = (format!("--pcce-mode={mode}"), format!("-fuse-ld={linker}"));
        let by_id = format!("-Wl,--build-id={id}");
        let flags = [&*by_mode, &by_linker, &by_id];
        let mut build = command(artifact("pcce-clang"), &flags);
        build.args(["-O1", "-g", "--pcce-crash-report", "a.c", "-o", "a"]).current_dir(&folder);
        run(&mut build).expect_success();
        let program = folder.join("a");
        let token = run(&mut command(&program, &[])).expect_success().stdout;
        let mut decode = command(artifact("pcce"), &["decode"]);
        let decoded = run(decode.arg(&program).arg(token.trim())).expect_success().stdout;
        assert!(decoded.starts_with("#0  taken at "), "{case}: {decoded}");
        let crashed = run(&mut command(&program, &["crash"]));
        let line =
            crashed.stderr.lines().find_map(|line| line.strip_prefix("build-id: ")).unwrap_or_default();
        assert_eq!(line.len(), id.len() - 2, "{case}: {}", crashed.stderr);
        let report = run_with_input(command(artifact("pcce"), &["decode"]).arg(&program), &crashed.stderr);
        assert!(report.stdout.contains("taken at "), "{case}: {}", report.stdout);
    }
}
