//! Objects whose code is generated at the link.

use std::fs;
use std::path::Path;

use pcce_testsuite::{artifact, command, llvm, run, work_folder};

/// Sources with all that code generation can do something about, by their flags.
const SOURCES: [(&str, &[&str]); 6] = [
    ("acyclic.c", &[]),
    ("jumps.c", &[]),
    ("callbacks.c", &[]),
    ("exceptions.cpp", &[]),
    ("virtuals.cpp", &[]),
    ("threads.cpp", &["-pthread"]),
];

/// Flags of which code generation sees something.
const FLAGS: [&str; 24] = [
    "-O0",
    "-O1",
    "-O2",
    "-O3",
    "-Os",
    "-Oz",
    "-O2 -g",
    "-O2 -gdwarf-4 -gz",
    "-O2 -fPIC",
    "-O2 -fno-pic",
    "-O2 -fPIC -fvisibility=hidden",
    "-O2 -ffunction-sections -fdata-sections",
    "-O2 -fcf-protection",
    "-O2 -fstack-protector-all",
    "-O2 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer",
    "-O2 -march=x86-64-v3",
    "-O2 -mcmodel=medium",
    "-O2 -fno-plt -fPIC",
    "-O2 -ffast-math",
    "-O2 -fno-unwind-tables -fno-asynchronous-unwind-tables",
    "-O2 -mllvm -x86-asm-syntax=intel",
    "-O2 -fsanitize=undefined",
    "-O2 -fwrapv -fno-strict-aliasing -fno-jump-tables",
    "-O2 -fpatchable-function-entry=4",
];

/// The code of an object, with its relocations.
fn code(object: &Path) -> String {
    let words = ["-d", "-r", "--no-show-raw-insn", object.to_str().unwrap()];
    let text = run(&mut command(llvm("llvm-objdump"), &words)).expect_success().stdout;
    text.lines().filter(|line| !line.contains("file format")).collect::<Vec<_>>().join("\n")
}

/// What an object keeps is what code generation gets: bitcode that nothing is changed in gives the code that the plain
/// compiler makes of the source.
#[test]
fn bitcode_that_is_kept_gives_the_plain_code() {
    let folder = work_folder("relink/code");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let include = artifact("include").display().to_string();
    for (source, own) in SOURCES {
        let compiler = if source.ends_with(".c") { "clang" } else { "clang++" };
        for flags in FLAGS {
            let words: Vec<&str> = flags.split(' ').chain(own.iter().copied()).collect();
            let place = |name: &str| folder.join(name).display().to_string();
            let source = programs.join(source).display().to_string();
            let build = |compiler: std::path::PathBuf, extra: &[&str], output: &str| {
                let mut clang = command(compiler, extra);
                let clang = clang.args(&words).args(["-w", "-c", &source, "-o", output]);
                let _ = run(clang.current_dir(&folder)).expect_success();
            };
            build(llvm(compiler), &["-I", &include], &place("plain.o"));
            build(artifact(&format!("pcce-{compiler}")), &["--pcce-mode=relink"], &place("skeleton.o"));
            for section in ["bitcode", "command"] {
                let dump = format!("--dump-section=.pcce.{section}={}", place(section));
                let _ = run(&mut command("objcopy", &[&dump, &place("skeleton.o"), "/dev/null"]))
                    .expect_success();
            }
            let recorded: serde_json::Value =
                serde_json::from_slice(&fs::read(folder.join("command")).unwrap()).unwrap();
            let mut again = command(recorded["compiler"].as_str().unwrap(), &[]);
            again.args(recorded["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
            again.args(["-w", "-Qunused-arguments", "-Xclang", "-disable-llvm-passes", "-c", "-x", "ir"]);
            again.args([&place("bitcode"), "-o", &place("again.o")]);
            let _ = run(again.current_dir(&folder)).expect_success();
            assert_eq!(code(&folder.join("again.o")), code(&folder.join("plain.o")), "{source} {flags}");
        }
    }
}

/// Objects that the wrapper joins keep their inputs, also when symbols are made local behind it, and the program is
/// encoded as if it had been linked of the inputs.
#[test]
fn joined_objects_are_encoded() {
    let folder = work_folder("relink/joined");
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
    let own = ["--pcce-mode=relink", "--pcce-verify"];
    for (name, text) in sources {
        fs::write(folder.join(name), text).unwrap();
        let compiler = artifact(if name.ends_with(".c") { "pcce-clang" } else { "pcce-clang++" });
        let mut compile = command(compiler, &own);
        let _ =
            run(compile.args(["-O1", "-g", "-fno-inline", "-c", name]).current_dir(&folder)).expect_success();
    }
    for linker in ["bfd", "gold", "lld", "mold"] {
        let link = |words: &[&str]| {
            let mut link = command(&wrapper, &own);
            let _ =
                run(link.arg(format!("-fuse-ld={linker}")).args(words).current_dir(&folder)).expect_success();
        };
        let flags: &[&str] = match linker {
            "bfd" => {
                &["-r", "-Wl,-i", "-Wl,-Ur", "-Wl,-relocatable", "-Xlinker --relocatable", "-Xlinker -i"]
            }
            _ => &["-r", "-Wl,-relocatable", "-Xlinker -r"],
        };
        // mold 1.10 ends by a signal where it reads what it has joined of code with landing pads, also without PCCE.
        let (parts, rest) =
            if linker == "mold" { (["a.o", "main.o"], "b.o") } else { (["a.o", "b.o"], "main.o") };
        for flag in flags {
            link(
                &[
                    &flag.split(' ').collect::<Vec<_>>()[..],
                    &["-nostdlib", "-no-pie", parts[0], parts[1], "-o", "joined.o"],
                ]
                .concat(),
            );
            let hide =
                command("objcopy", &["--keep-global-symbol=a", "--keep-global-symbol=main", "joined.o"])
                    .current_dir(&folder)
                    .status();
            assert!(hide.unwrap().success());
            link(&[rest, "joined.o", "-o", "program"]);
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
    let folder = work_folder("relink/ways");
    let sources = [
        ("main.c", "int a(int); int main(int c, char **v) { (void)v; return a(c); }\n"),
        (
            "a.c",
            "static int inner(int c) { return c + 1; }\nint a(int c) { return inner(c) + inner(c + 1); }\n",
        ),
    ];
    for (name, text) in sources {
        fs::write(folder.join(name), text).unwrap();
        let own = ["--pcce-mode=relink", "--pcce-verify", "-O1", "-fno-inline", "-c", name];
        let _ = run(command(artifact("pcce-clang"), &own).current_dir(&folder)).expect_success();
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
        let _ = run(link.current_dir(&folder)).expect_success();
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

/// A link that does not go through `pcce-ld` says what is missing, and leaves no program.
#[test]
fn other_links_fail() {
    let folder = work_folder("relink/other");
    fs::write(folder.join("main.c"), "int main(void) { return 0; }\n").unwrap();
    let wrapper = artifact("pcce-clang");
    let compile = ["--pcce-mode=relink", "-c", "main.c"];
    let _ = run(command(&wrapper, &compile).current_dir(&folder)).expect_success();
    for linker in ["bfd", "gold", "lld", "mold"] {
        let mut link = command(llvm("clang"), &[&format!("-fuse-ld={linker}"), "main.o", "-o", "program"]);
        let failed = run(link.current_dir(&folder));
        let said = failed.status != 0 && failed.stderr.contains("__pcce_encoded_by_pcce_ld");
        assert!(said, "{linker}: {}", failed.describe());
    }
}

/// Options that this mode does not have are refused, and so are objects of other modes.
#[test]
fn what_it_does_not_have_is_refused() {
    let folder = work_folder("relink/refused");
    fs::write(folder.join("main.c"), "int main(void) { return 0; }\n").unwrap();
    let wrapper = artifact("pcce-clang");
    for flag in
        ["-gsplit-dwarf", "--pcce-hybrid", "--pcce-trace", "--pcce-targets=f", "--pcce-profile-generate"]
    {
        let words = ["--pcce-mode=relink", "-g", flag, "-c", "main.c"];
        let refused = run(command(&wrapper, &words).current_dir(&folder));
        let name = flag.split('=').next().unwrap();
        assert!(refused.status != 0 && refused.stderr.contains(name), "{flag}: {}", refused.describe());
    }
    for (mode, flags) in [("link", ""), ("lto", "-flto")] {
        let words = [&format!("--pcce-mode={mode}"), "-c", "main.c"];
        let mut compile = command(&wrapper, &words);
        let _ = run(compile.args(flags.split_whitespace()).current_dir(&folder)).expect_success();
        let refused =
            run(command(&wrapper, &["--pcce-mode=relink", "main.o", "-o", "x"]).current_dir(&folder));
        assert!(refused.status != 0 && refused.stderr.contains("main.o"), "{mode}: {}", refused.describe());
    }
}
