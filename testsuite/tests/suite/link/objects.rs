//! Objects whose code is generated at the link.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use pcce_testsuite::same_code::{Outcome, compare, sets_of};
use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, llvm, run, run_with_input, work_folder, write_files};

/// Sources that exercise code generation, with their flags.
const SOURCES: [(&str, &[&str]); 6] = [
    ("acyclic.c", &[]),
    ("jumps.c", &[]),
    ("callbacks.c", &[]),
    ("exceptions.cpp", &[]),
    ("virtuals.cpp", &[]),
    ("threads.cpp", &["-pthread"]),
];

/// The number of sets of flags for each source: each set meets two or three sources. `make same-code` does the other
/// pairs.
const SETS: usize = 16;

/// Code generated from the unchanged bitcode in an object equals the code that the plain compiler makes from the
/// source.
#[test]
fn bitcode_that_is_kept_gives_the_plain_code() {
    let folder = work_folder("link/code");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let include = artifact("include").into_os_string();
    for (number, (source, own)) in SOURCES.into_iter().enumerate() {
        let compiler = if source.ends_with(".c") { "clang" } else { "clang++" };
        for flags in in_turn(number, sets_of(number, SETS).unwrap()) {
            let mut words = vec!["-I".into(), include.clone(), programs.join(source).into_os_string()];
            words.extend(flags.split(' ').chain(own.iter().copied()).map(OsString::from));
            let outcome = compare(compiler, &words, &folder, &folder);
            assert!(matches!(outcome, Ok(Outcome::Same)), "{source} {flags}: {outcome:?}");
        }
    }
}

/// Joined objects keep their inputs, also when objcopy makes symbols local afterwards. The program is encoded as if it
/// had been linked from the inputs.
#[test]
fn joined_objects_are_encoded() {
    let folder = work_folder("link/joined");
    let sources = [
        ("main.c", "int a(int); int main(int c, char **v) { (void)v; return a(c); }\n"),
        (
            "a.c",
            "int b(int); static int inner(int c) { return b(c) + 1; }\n\
                 int a(int c) { return inner(c) + b(c); }\n",
        ),
        (
            "b.cpp",
            "#include <stdexcept>\nextern \"C\" int b(int c) { try { if (c) throw std::runtime_error(\"x\"); }\n\
                   catch (const std::exception &) { return 2; } return 1; }\n",
        ),
    ];
    let wrapper = artifact("pcce-clang++");
    let own = ["--pcce-mode=link", "--pcce-verify"];
    for (name, text) in sources {
        fs::write(folder.join(name), text).unwrap();
        let compiler = artifact(if name.ends_with(".c") { "pcce-clang" } else { "pcce-clang++" });
        let mut compile = command(compiler, &own);
        run(compile.args(["-O1", "-g", "-fno-inline", "-c", name]).current_dir(&folder)).expect_success();
    }
    for linker in ["bfd", "gold", "lld", "mold"] {
        let link = |words: &[&str]| {
            let mut link = command(&wrapper, &own);
            run(link.arg(format!("-fuse-ld={linker}")).args(words).current_dir(&folder)).expect_success();
        };
        let flags: &[&str] = match linker {
            "bfd" => {
                &["-r", "-Wl,-i", "-Wl,-Ur", "-Wl,-relocatable", "-Xlinker --relocatable", "-Xlinker -i"]
            }
            _ => &["-r", "-Wl,-relocatable", "-Xlinker -r"],
        };
        for flag in flags {
            link(
                &[
                    &flag.split(' ').collect::<Vec<_>>()[..],
                    &["-nostdlib", "-no-pie", "a.o", "b.o", "-o", "joined.o"],
                ]
                .concat(),
            );
            let hide =
                command("objcopy", &["--keep-global-symbol=a", "--keep-global-symbol=main", "joined.o"])
                    .current_dir(&folder)
                    .status();
            assert!(hide.unwrap().success());
            link(&["main.o", "joined.o", "-o", "program"]);
            let mut program = command(folder.join("program"), &[]);
            let report = folder.join("report");
            let _ = fs::remove_file(&report);
            let ran = run(program.env("PCCE_VERIFY_REPORT", &report));
            assert_eq!(ran.status, 5, "{linker} {flag}: {}", ran.describe());
            let report = fs::read_to_string(&report).unwrap();
            assert!(
                report.contains(" 0 mismatches") && !report.contains(" 0 contexts"),
                "{linker} {flag}: {report}"
            );
        }
    }
}

/// Links by other commands than the wrapper's: with `pcce-ld` named, found in a folder, or through `pcce link`.
#[test]
fn links_without_the_wrapper_are_encoded() {
    let folder = work_folder("link/ways");
    let sources = [
        ("main.c", "int a(int); int main(int c, char **v) { (void)v; return a(c); }\n"),
        (
            "a.c",
            "static int inner(int c) { return c + 1; }\nint a(int c) { return inner(c) + inner(c + 1); }\n",
        ),
    ];
    for (name, text) in sources {
        fs::write(folder.join(name), text).unwrap();
        let own = ["--pcce-mode=link", "--pcce-verify", "-O1", "-fno-inline", "-c", name];
        run(command(artifact("pcce-clang"), &own).current_dir(&folder)).expect_success();
    }
    let linker = artifact("pcce-ld").display().to_string();
    fs::create_dir_all(folder.join("bin")).unwrap();
    let _ = fs::remove_file(folder.join("bin/ld"));
    std::os::unix::fs::symlink(&linker, folder.join("bin/ld")).unwrap();
    let clang = llvm("clang").display().to_string();
    let pcce = artifact("pcce").display().to_string();
    let mut ways = vec![vec![clang.clone(), format!("--ld-path={linker}")]];
    for compiler in [&*clang, "gcc"] {
        ways.push(vec![compiler.to_owned(), "-B".to_owned(), "bin".to_owned()]);
        for own in ["bfd", "gold", "lld", "mold"] {
            let words = [&*pcce, "link", "--", compiler];
            let words = words.map(str::to_owned).into_iter().chain([format!("-fuse-ld={own}")]);
            ways.push(words.collect());
        }
    }
    let runtime = ["libpcce_verify.a", "libpcce_libc.a"].map(|name| artifact(name).display().to_string());
    for way in ways {
        let _ = fs::remove_file(folder.join("program"));
        let mut link = command(&way[0], &[]);
        link.args(&way[1..]).args(["main.o", "a.o", "-o", "program", "-Wl,--build-id"]).args(&runtime);
        run(link.current_dir(&folder)).expect_success();
        let report = folder.join("report");
        let _ = fs::remove_file(&report);
        let ran = run(command(folder.join("program"), &[]).env("PCCE_VERIFY_REPORT", &report));
        assert_eq!(ran.status, 5, "{way:?}: {}", ran.describe());
        let report = fs::read_to_string(&report).unwrap();
        assert!(report.contains(" 0 mismatches") && !report.contains(" 0 contexts"), "{way:?}: {report}");
    }
    let failed = run(&mut command(&pcce, &["link", "--", "sh", "-c", "exit 3"]));
    assert_eq!(failed.status, 3, "{}", failed.describe());
}

/// A link that does not go through `pcce-ld` fails, names the missing symbol, and leaves no program.
#[test]
fn other_links_fail() {
    let folder = work_folder("link/other");
    fs::write(folder.join("main.c"), "int main(void) { return 0; }\n").unwrap();
    let wrapper = artifact("pcce-clang");
    let compile = ["--pcce-mode=link", "-c", "main.c"];
    run(command(&wrapper, &compile).current_dir(&folder)).expect_success();
    for linker in ["bfd", "gold", "lld", "mold"] {
        let mut link = command(llvm("clang"), &[&format!("-fuse-ld={linker}"), "main.o", "-o", "program"]);
        let failed = run(link.current_dir(&folder));
        let said = failed.status != 0 && failed.stderr.contains("__pcce_encoded_by_pcce_ld");
        assert!(said, "{linker}: {}", failed.describe());
    }
}

/// Compiler and link have the same flags, or somebody says so.
#[test]
fn flags_that_the_link_lacks_are_named() {
    let folder = work_folder("link/lacking");
    fs::write(folder.join("main.c"), "int main(void) { return 0; }\n").unwrap();
    fs::write(folder.join("other.c"), "int other(void) { return 0; }\n").unwrap();
    let said = |compiler: &str, linker: &str| {
        let clang = |words: &str| {
            let mut clang = command(artifact("pcce-clang"), &words.split(' ').collect::<Vec<_>>());
            run(clang.current_dir(&folder))
        };
        assert_eq!(clang(&format!("{compiler} -c main.c other.c")).expect_success().stderr, "");
        clang(&format!("{linker} main.o other.o -o program")).stderr
    };
    for flag in ["--pcce-trace", "--pcce-targets=main", "-flto"] {
        let refused = said("-g0", flag);
        let expected = "`main.o` was compiled in link mode, and this link is in lto mode, by its flags";
        assert!(refused.contains(expected), "{flag}: {refused}");
        assert_eq!(said(flag, flag), "", "{flag}");
    }
    let warned = said("--pcce-heap", "-g0");
    assert!(warned.starts_with("pcce-ld: warning: main.c was compiled with `--pcce-heap`, and"), "{warned}");
    assert_eq!(said("--pcce-heap", "--pcce-heap"), "");
    assert_eq!(said("--pcce-heap -fPIC", "-shared"), "");
}

/// Targets and lists of functions that do not call back apply to all modules, as in lto mode.
#[test]
fn lists_of_functions_are_for_the_whole_program() {
    let folder = work_folder("link/lists");
    let sources = [
        (
            "main.c",
            "void quiet(int), busy(int), outside(int), store(int);
             __attribute__((noinline)) static void away(int n) { outside(n); }
             int main(int n, char **all) { (void)all; quiet(n); busy(n); away(n); return 0; }",
        ),
        ("store.c", "#include <pcce.h>\nvoid store(int n) { if (n > 9) pcce_context(); }"),
        (
            "ways.c",
            "void store(int); void quiet(int n) { if (n > 7) quiet(n - 1); } void busy(int n) { store(n); }",
        ),
    ];
    write_files(&folder, sources);
    fs::write(folder.join("outside.c"), "void outside(int n) { (void)n; }").unwrap();
    fs::write(folder.join("listed"), "outside\n").unwrap();
    run(command(llvm("clang"), &["-c", "outside.c"]).current_dir(&folder)).expect_success();
    let silent = |mode: &str, flag: &str| {
        let mode = format!("--pcce-mode={mode}");
        for (name, _) in sources {
            let words = ["-O1", "-fno-inline", &mode, flag, "-c", name];
            run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
        }
        let words = [&mode, flag, "main.o", "store.o", "ways.o", "outside.o", "-o", "program"];
        let link = run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
        let output = run(command(artifact("pcce"), &["dict", "program"]).current_dir(&folder));
        let dictionary: serde_json::Value = serde_json::from_str(&output.expect_success().stdout).unwrap();
        let mut silent = Vec::new();
        for module in dictionary["modules"].as_array().unwrap() {
            for function in module["functions"].as_array().unwrap() {
                if function["silent"].as_bool().unwrap() {
                    let name = function["name"].as_u64().unwrap() as usize;
                    silent.push(module["names"][name].as_str().unwrap().to_owned());
                }
            }
        }
        silent.sort();
        (silent, link.stderr)
    };
    for (flag, expected) in [
        ("--pcce-verify", &["quiet"][..]),
        ("--pcce-no-callback=listed", &["away", "quiet"]),
        ("--pcce-targets=busy", &["away", "quiet"]),
    ] {
        for mode in ["lto", "link"] {
            assert_eq!(silent(mode, flag), (expected.iter().map(|&s| s.to_owned()).collect(), String::new()));
        }
    }
    for mode in ["lto", "link"] {
        let (_, said) = silent(mode, "--pcce-targets=busy,missing");
        assert!(
            said.contains("target missing: the program neither") && said.lines().count() == 1,
            "{mode}: {said}"
        );
    }
    // The lists of all modules must be those of the program.
    let words = ["--pcce-mode=link", "-c", "ways.c"];
    run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
    let words = ["--pcce-mode=link", "main.o", "store.o", "ways.o", "outside.o", "-o", "program"];
    let refused = run(command(artifact("pcce-clang"), &words).current_dir(&folder));
    assert!(
        refused.status != 0 && refused.stderr.contains("with other options of the pass"),
        "{}",
        refused.describe()
    );
}

/// Traces of several modules have the events of lto mode, with any linker.
#[test]
fn traces_are_those_of_lto_mode() {
    let folder = work_folder("link/traces");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let include = artifact("include").display().to_string();
    let events = |program: &Path| {
        let trace = folder.join("trace");
        let _ = fs::remove_file(&trace);
        let mut start = command(program, &[]);
        run(start.env("PCCE_TRACE", &trace).env("PCCE_TRACE_STRESS", "1")).expect_success();
        let pcce = |words: &[&str]| {
            let mut pcce = command(artifact("pcce"), words);
            run(pcce.arg(program).arg(&trace)).expect_success().stdout
        };
        let checked = pcce(&["trace", "check"]);
        assert!(checked.contains(", 0 chunks do not match"), "{}: {checked}", program.display());
        // A call of a function in another module has a second line with the same number. Two modules have two names for
        // an alias; the function itself comes last.
        let mut events: Vec<(String, String)> = Vec::new();
        for line in pcce(&["trace", "show"]).lines().filter(|line| !line.starts_with("thread")) {
            let line = line.split(" at ").next().unwrap().trim();
            let (number, name) = line.split_once(' ').unwrap_or((line, ""));
            if events.last().is_some_and(|(last, _)| last == number) {
                events.pop();
            }
            events.push((number.to_owned(), name.trim().to_owned()));
        }
        assert!(events.len() > 50, "{events:?}");
        events
    };
    for (source, parts) in [("modules.c", "parts/other.c"), ("templates.cpp", "parts/templates.cpp")] {
        for what in ["calls", "blocks"] {
            let build = |mode: &str, linker: &str| {
                let compiler = if source.ends_with(".c") { "pcce-clang" } else { "pcce-clang++" };
                let program = folder.join(format!("{source}.{what}.{mode}.{linker}"));
                let flags =
                    [&format!("--pcce-mode={mode}"), &format!("--pcce-trace={what}"), "--pcce-verify"];
                let mut objects = Vec::new();
                for part in [source, parts] {
                    let object = folder.join(format!("{mode}-{}.o", part.replace('/', ".")));
                    let compiler = if part.ends_with(".c") { "pcce-clang" } else { "pcce-clang++" };
                    let mut compile = command(artifact(compiler), &flags);
                    let compile = compile.args(["-g", "-O1", "-w", "-fexceptions", "-I", &include, "-c"]);
                    run(compile.arg(programs.join(part)).arg("-o").arg(&object)).expect_success();
                    objects.push(object);
                }
                let mut link = command(artifact(compiler), &flags);
                let link = link.arg(format!("-fuse-ld={linker}")).args(objects).arg("-o").arg(&program);
                run(link).expect_success();
                events(&program)
            };
            let expected = build("lto", "lld");
            for linker in ["bfd", "gold", "lld", "mold"] {
                assert_eq!(build("link", linker), expected, "{source} {what} {linker}");
            }
        }
    }
}

/// Unsupported options are refused, and so are objects of other modes.
#[test]
fn what_it_does_not_have_is_refused() {
    let folder = work_folder("link/refused");
    fs::write(folder.join("main.c"), "int main(void) { return 0; }\n").unwrap();
    let wrapper = artifact("pcce-clang");
    let late = ["--pcce-mode=link", "-O1", "-c", "main.c", "-o", "early.o"];
    run(command(&wrapper, &late).current_dir(&folder)).expect_success();
    for flag in ["--pcce-verify", "--pcce-heap", "--pcce-id-bits=20"] {
        let words = ["--pcce-mode=link", flag, "early.o", "-o", "x"];
        let refused = run(command(&wrapper, &words).current_dir(&folder));
        let name = flag.split('=').next().unwrap();
        let message = format!("main.c was compiled without `{name}`, which the link has");
        assert!(refused.status != 0 && refused.stderr.contains(&message), "{flag}: {}", refused.describe());
    }
    let of_lto = ["--pcce-mode=lto", "-flto", "-c", "main.c"];
    run(command(&wrapper, &of_lto).current_dir(&folder)).expect_success();
    let refused = run(command(&wrapper, &["--pcce-mode=link", "main.o", "-o", "x"]).current_dir(&folder));
    assert!(refused.status != 0 && refused.stderr.contains("main.o"), "{}", refused.describe());
}

/// A second link that a faulty linker or a changed file has damaged is refused.
#[test]
fn faults_of_the_second_link_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = work_folder("link/faults");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("other.c", "int middle(int n) { return n; }\n");
    write("main.c", "int middle(int n);\nint main(int n, char **v) { return v[n] ? 2 : middle(n - 1); }\n");
    write(
        "middle.c",
        "__attribute__((noinline)) static int inner(int n) { return 7 * n; }\nint middle(int n) { return inner(n) + 1; }\n",
    );
    let build = |compiler: std::path::PathBuf, words: &[&str]| {
        run(command(compiler, words).args(["-O1", "-g"]).current_dir(&folder))
    };
    let _ = build(llvm("clang"), &["-c", "other.c"]).expect_success();
    for source in ["main.c", "middle.c"] {
        let _ = build(artifact("pcce-clang"), &["--pcce-mode=link", "-c", source]).expect_success();
    }
    let address = "nm \"$out\" | sed -n 's/ [tT] inner$//p'";
    let faults = [
        ("nothing", "\"$real\" \"$@\"".to_owned(), None),
        (
            "another body",
            "\"$real\" -z muldefs other.o \"$@\"".to_owned(),
            Some("`middle` leads to another body"),
        ),
        (
            "another byte",
            // Code at fixed addresses, linked by GNU ld.
            format!(
                "\"$real\" \"$@\"; at=$({address}); printf '\\367' | dd of=\"$out\" bs=1 conv=notrunc \
                 seek=$((0x$at - 0x400000)) status=none"
            ),
            Some("other code than was generated"),
        ),
    ];
    for (what, second, expected) in faults {
        let script = format!(
            "#!/bin/sh\nreal=$(command -v ld.bfd)\ncase \" $* \" in *' --trace '*) exec \"$real\" \"$@\";; esac\n\
             out=; last=\nfor word; do [ \"$last\" = -o ] && out=$word; last=$word; done\n{second}\n"
        );
        write("linker", &script);
        fs::set_permissions(folder.join("linker"), fs::Permissions::from_mode(0o755)).unwrap();
        let linker = format!("-fuse-ld={}", folder.join("linker").display());
        let link = ["--pcce-mode=link", "-no-pie", &linker, "main.o", "middle.o", "-o", "program"];
        let linked = build(artifact("pcce-clang"), &link);
        match expected {
            None => assert_eq!(run(&mut command(folder.join("program"), &[])).status, 1, "{what}"),
            Some(said) => {
                assert!(linked.status != 0 && linked.stderr.contains(said), "{what}: {}", linked.describe());
                assert!(!folder.join("program").exists(), "{what}");
            }
        }
    }
}

/// An object can be linked after the folder in which it was compiled is gone.
#[test]
fn the_folder_of_the_compilation_may_be_gone() {
    let folder = work_folder("link/gone");
    let gone = folder.join("gone");
    fs::create_dir(&gone).unwrap();
    fs::write(gone.join("main.c"), "int main(void) { return 3; }\n").unwrap();
    let compile = ["--pcce-mode=link", "-g", "-c", "main.c", "-o", "../main.o"];
    run(command(artifact("pcce-clang"), &compile).current_dir(&gone)).expect_success();
    fs::remove_dir_all(&gone).unwrap();
    let link = ["--pcce-mode=link", "main.o", "-o", "program"];
    run(command(artifact("pcce-clang"), &link).current_dir(&folder)).expect_success();
    assert_eq!(run(&mut command(folder.join("program"), &[])).status, 3);
}

/// One body of an inline function that several modules have is in the program. The generated code of the others lacks
/// it, and everything that only it calls.
#[test]
fn inline_functions_of_several_modules_are_linked_once() {
    let folder = work_folder("link/inline");
    let header = "#include <string>\n#include <vector>\n\
        extern int gone;\nstruct Guard { ~Guard() { gone++; } };\n\
        inline int both(int n) { static int sum; sum += n; Guard guard; std::vector<std::string> v(n, \"x\"); \
        return sum + v.size(); }\nint other(int n);\n";
    let main = "#include \"both.h\"\nint gone;\nint main() { return both(2) + other(3) + gone; }\n";
    let other = "#include \"both.h\"\nint other(int n) { return both(n); }\n";
    write_files(&folder, [("both.h", header), ("main.cpp", main), ("other.cpp", other)]);
    for linker in ["bfd", "gold", "lld", "mold"] {
        for level in ["-O0", "-O2"] {
            let chosen = format!("-fuse-ld={linker}");
            let words = ["--pcce-mode=link", "--pcce-verify", level, &chosen, "main.cpp", "other.cpp"];
            let mut build = command(artifact("pcce-clang++"), &words);
            run(build.args(["-o", "program"]).current_dir(&folder)).expect_success();
            let status = run(&mut command(folder.join("program"), &[])).status;
            assert_eq!(status, 2 + 2 + 5 + 3 + 2, "{linker} {level}");
        }
    }
}

/// Names that stand in quotes in assembly, for clang's own assembler and for GNU as, which takes an `@` in quotes for
/// the beginning of a modifier.
#[test]
fn names_may_need_quotes() {
    let folder = work_folder("link/quoted");
    let sources = [
        (
            "one.c",
            "#include <pcce.h>\n#include <stdio.h>\n#define NAME(text) __asm__(text) __attribute__((noinline))\n\
             void show(void) { char b[512]; pcce_token(b, sizeof b); puts(b); }\n\
             __attribute__((vectorcall, noinline)) int passed(int n) { show(); return n + 1; }\n\
             int at(int) NAME(\"x@y@z\"); int at(int n) { show(); return passed(n) + 1; }\n\
             int other(int) NAME(\"a b$c\"); extern int seen NAME(\"se en\");\n\
             extern _Thread_local int own NAME(\"o-wn\"); int kept NAME(\"k@pt\"); int kept = 3;\n\
             int (*volatile pointer)(int) = at;\n\
             int main(void) { return at(1) + other(1) + pointer(1) + seen + own + kept != 26; }\n",
        ),
        (
            "two.c",
            "void show(void); int other(int) __asm__(\"a b$c\"); int other(int n) { show(); return n + 1; }\n\
             extern int seen __asm__(\"se en\"); int seen = 5;\n\
             extern _Thread_local int own __asm__(\"o-wn\"); _Thread_local int own = 10;\n",
        ),
    ];
    write_files(&folder, sources);
    for assembler in ["-fintegrated-as", "-fno-integrated-as"] {
        for name in ["one", "two"] {
            let mut compile = command(artifact("pcce-clang"), &["-w", "-g", "-O1", assembler, "-c"]);
            run(compile.arg(format!("{name}.c")).current_dir(&folder)).expect_success();
        }
        for linker in ["bfd", "gold", "lld", "mold"] {
            let mut link = command(artifact("pcce-clang"), &["one.o", "two.o", "-o", "program"]);
            run(link.arg(format!("-fuse-ld={linker}")).current_dir(&folder)).expect_success();
            let tokens = run(&mut command(folder.join("program"), &[])).expect_success().stdout;
            let mut decode = command(artifact("pcce"), &["decode", "--format", "folded"]);
            let shown = run_with_input(decode.arg(folder.join("program")), &tokens).expect_success().stdout;
            let lines: Vec<&str> = shown.lines().collect();
            let at = ["main;x@y@z;show 1", "main;x@y@z;passed;show 1"];
            let expected = [at[0], at[1], "main;a b$c;show 1", at[0], at[1]];
            assert_eq!(lines, expected, "{assembler} {linker}");
        }
    }
}
