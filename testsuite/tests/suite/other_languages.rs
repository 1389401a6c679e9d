//! The runtime in programs of other languages and without the pass, and the machine code of a direct call.

use std::fs;
use std::path::Path;

use pcce_abi::exports::INTERPOSED;
use pcce_testsuite::{artifact, command, include, llvm, machine, repository, run, source, work_folder};

fn archive() -> String {
    artifact("libpcce_rt.a").display().to_string()
}

fn headers() -> String {
    include("runtime-lib/include")
}

/// Compiles a source with the command's words, runs the program, and returns what it printed.
fn build_and_run(folder: &Path, file: &str, source: &str, compiler: &str, flags: &[&str]) -> String {
    let path = folder.join(file);
    fs::write(&path, source).expect("the folder is ours");
    let program = path.with_extension("out");
    // The archive comes after the objects that need it.
    let mut build = command(compiler, &[]);
    build.arg(&path).arg("-o").arg(&program).args(flags);
    run(&mut build).expect_success();
    run(&mut command(program, &[])).expect_success().stdout
}

const EMPTY_ANSWERS: &str = source!("languages/empty_answers.c");
const EMPTY_OUTPUT: &str = "0 '' 0 0\n0 '' 0 ''\n";

#[test]
fn a_plain_c_program_gets_empty_answers() {
    let folder = work_folder("clash/c");
    let clang = llvm("clang").display().to_string();
    let variants: [&[&str]; 4] =
        [&["-O0", "-std=c11"], &["-O2", "-std=c11"], &["-static"], &["-fno-pie", "-no-pie", "-O2"]];
    let (include, archive) = (headers(), archive());
    for flags in variants {
        for compiler in [clang.as_str(), "gcc"] {
            let flags = [flags, &["-Wall", "-Werror", "-pedantic", &include, &archive]].concat();
            let printed = build_and_run(&folder, "main.c", EMPTY_ANSWERS, compiler, &flags);
            assert_eq!(printed, EMPTY_OUTPUT, "{compiler} {flags:?}");
        }
    }
    // The shared library gives the same answers.
    let release = artifact("libpcce_rt.so").parent().expect("a file in a folder").display().to_string();
    let flags = [include, format!("-L{release}"), "-lpcce_rt".into(), format!("-Wl,-rpath,{release}")];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    assert_eq!(build_and_run(&folder, "main.c", EMPTY_ANSWERS, &clang, &flags), EMPTY_OUTPUT);
}

#[test]
fn a_plain_cxx_program_gets_empty_answers() {
    let folder = work_folder("clash/cxx");
    let source = source!("languages/empty_answers.cpp");
    for compiler in [llvm("clang++").display().to_string(), "g++".to_owned()] {
        for (standard, more) in
            [("-std=c++11", "-O2"), ("-std=c++11", "-static"), ("-std=c++98", "-Wno-long-long")]
        {
            let flags = [standard, "-Wall", "-Werror", "-pedantic", more, &headers(), &archive()];
            assert_eq!(
                build_and_run(&folder, "main.cpp", source, &compiler, &flags),
                "thrown 0 '' 0\n",
                "{flags:?}"
            );
        }
    }
}

const RUST: &str = source!("languages/empty_answers.rs");

#[test]
fn a_rust_program_links_the_archive() {
    let folder = work_folder("clash/rust");
    // Bare `rustc` on PATH may be another toolchain than the one that runs this test.
    for level in ["0", "3"] {
        let flags =
            ["--edition=2021", "-C", &format!("opt-level={level}"), "-C", &format!("link-arg={}", archive())];
        assert_eq!(build_and_run(&folder, "main.rs", RUST, "rustc", &flags), "true 0 0 0\n", "{flags:?}");
    }
    // Fat LTO merges the standard library's own definitions with everything else.
    let flags = [
        "--edition=2021",
        "-O",
        "-C",
        "lto=fat",
        "-C",
        "panic=unwind",
        "-C",
        &format!("link-arg={}", archive()),
    ];
    assert_eq!(build_and_run(&folder, "main.rs", RUST, "rustc", &flags), "true 0 0 0\n");
}

#[test]
fn the_guides_rust_takes_numbers() {
    let page = fs::read_to_string(repository().join("docs/guide/src/numbers.md")).expect("is there");
    let mut blocks = page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let block = blocks.next().expect("the page has Rust");
    let main = "fn main() {
        let mut latencies = Default::default();
        (0..3).for_each(|_| timed(&mut latencies, || ()));
        for (context, Latency { calls, sum }) in latencies {
            println!(\"{context} {calls} {}\", sum.as_secs() < 60);
        }
    }";
    let flags = ["--edition=2024", "-C", &format!("link-arg={}", archive())];
    let folder = work_folder("clash/rust-numbers");
    // Without the pass there is no context.
    assert_eq!(build_and_run(&folder, "main.rs", &format!("{block}{main}"), "rustc", &flags), "0 3 true\n");
}

#[test]
fn an_instrumented_program_with_a_rust_staticlib() {
    let folder = work_folder("clash/staticlib");
    let library = folder.join("part.rs");
    let source = source!("languages/calls_back.rs");
    fs::write(&library, source).expect("the folder is ours");
    let part = folder.join("libpart.a").display().to_string();
    let mut rustc = command("rustc", &["--edition=2021", "--crate-type=staticlib", "-O", "-o", &part]);
    run(rustc.arg(&library)).expect_success();
    let main = folder.join("main.c");
    let source = source!("languages/called_back.c");
    fs::write(&main, source).expect("the folder is ours");
    for mode in ["lto", "module"] {
        let program = folder.join(mode).display().to_string();
        let main = main.display().to_string();
        let mode = format!("--pcce-mode={mode}");
        let words =
            [&mode, "-g", "-O2", &headers(), &main, &part, "-o", &program, "-lpthread", "-ldl", "-lm"];
        run(&mut command(artifact("pcce-clang"), &words)).expect_success();
        let output = run(&mut command(&program, &[])).expect_success();
        assert_eq!(output.stdout, "2\n1\n");
        let token = output.stderr.lines().last().expect("a token");
        let decoded = run(&mut command(artifact("pcce"), &["decode", "--format", "folded", &program, token]));
        assert_eq!(decoded.expect_success().stdout, "main;<from_rust, not instrumented>;callback 1\n");
    }
}

#[test]
fn only_names_of_the_project_are_visible() {
    for (file, flags) in
        [("libpcce_rt.a", ["-g", "--defined-only"]), ("libpcce_rt.so", ["-D", "--defined-only"])]
    {
        let output = run(command(llvm("llvm-nm"), &flags).arg(artifact(file))).expect_success();
        let names: Vec<&str> = output.stdout.lines().filter_map(|l| l.split_whitespace().nth(2)).collect();
        for expected in
            ["pcce_token", "pcce_context", "__pcce_token", "__pcce_context", "__pcce_tls", "__pcce_abi_v9"]
        {
            assert!(names.contains(&expected), "{file} has no {expected}: {names:?}");
        }
        for name in names {
            // These are for programs that are started with the library in front of libc.
            let is_libcs = file == "libpcce_rt.so" && INTERPOSED.iter().any(|(libcs, _)| *libcs == name);
            let is_own = name.starts_with("pcce_") || name.starts_with("__pcce_");
            assert!(is_own || is_libcs, "{file} defines {name}");
        }
    }
}

#[test]
fn the_archive_needs_only_the_c_library() {
    let output = run(command(llvm("llvm-nm"), &["-u"]).arg(artifact("libpcce_rt.a"))).expect_success();
    for name in output.stdout.lines().filter_map(|line| line.trim().strip_prefix("U ")) {
        for rust in ["rust", "_ZN", "_R", "_Unwind", "malloc"] {
            assert!(!name.starts_with(rust), "the archive needs {name}");
        }
    }
}

#[test]
fn the_runtime_costs_small_programs_little() {
    let folder = work_folder("clash/start");
    let source = folder.join("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").expect("the folder is ours");
    let source = source.display().to_string();
    let build = |name: &str, compiler: &Path| {
        let program = folder.join(name).display().to_string();
        run(&mut command(compiler, &["-O2", "-fuse-ld=lld", &source, "-o", &program])).expect_success();
        program
    };
    let programs = [build("plain", &llvm("clang")), build("instrumented", &artifact("pcce-clang"))];
    let words = |tool: &str, flags: &[&str], program: &str, part: &str, word: usize| -> Vec<String> {
        let output = run(command(llvm(tool), flags).arg(program)).expect_success();
        let lines = output.stdout.lines().filter(|line| line.contains(part));
        lines.filter_map(|line| line.split_whitespace().nth(word)).map(str::to_owned).collect()
    };
    // Symbols that the loader binds before the program starts come from the toolchain, and so do the loaded libraries.
    for (flag, part, word) in [("--relocs", machine::LOOKED_UP_AT_START, 4), ("--dynamic", "(NEEDED)", 4)] {
        let [plain, instrumented] =
            programs.each_ref().map(|program| words("llvm-readelf", &[flag, "--wide"], program, part, word));
        assert!(!plain.is_empty());
        assert_eq!(instrumented, plain);
    }
    let code = words("llvm-size", &["-A"], &programs[1], ".text ", 1);
    let code: usize = code.first().and_then(|size| size.parse().ok()).expect("a size");
    assert!((10_000..74_000).contains(&code), "{code} bytes of machine code");
}

#[test]
fn a_direct_call_has_one_instruction_before_and_one_after() {
    let is_call = |line: &str| {
        line.split_whitespace().next().and_then(machine::transfer) == Some(machine::Transfer::Call)
    };
    let folder = work_folder("clash/objdump");
    let source = folder.join("main.c");
    fs::write(&source, source!("languages/direct_calls.c")).expect("the folder is ours");
    let source = source.display().to_string();
    for shape in [["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]] {
        let program = folder.join(shape[1]).display().to_string();
        let words = ["-O2", shape[0], shape[1], &headers(), &source, "-o", &program];
        run(&mut command(artifact("pcce-clang"), &words)).expect_success();
        let functions = "--disassemble-symbols=main,a,b";
        let output =
            run(command(llvm("llvm-objdump"), &["-d", "--no-show-raw-insn", "--no-leading-addr", functions])
                .arg(&program));
        let code: Vec<&str> = output.stdout.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let updates: Vec<usize> =
            (0..code.len()).filter(|&i| code[i].contains(machine::THREAD_LOCAL)).collect();
        let calls: Vec<usize> = (0..code.len()).filter(|&i| is_call(code[i])).collect();
        assert_eq!(calls.len(), 10, "{shape:?}: {}", output.stdout);
        // Every update is one addition in memory beside its call. No other instruction takes part in it.
        for &i in &updates {
            let word = code[i].split_whitespace().next().unwrap_or("");
            assert!(machine::adds(word), "{shape:?}: {}", code[i]);
        }
        // At most two updates stand between two calls: one after the first call and one before the second. In front of
        // the first call of a function, and after its last one, stands at most one.
        let borders = |i: &usize| is_call(code[*i]) || code[*i].starts_with('<');
        let borders: Vec<usize> = (0..code.len()).filter(borders).chain([code.len()]).collect();
        for pair in borders.windows(2) {
            let at_calls = pair.iter().filter(|i| calls.contains(i)).count();
            let between = updates.iter().filter(|&&i| pair[0] < i && i < pair[1]).count();
            assert!(between <= at_calls, "{shape:?}: {}\n{}", code[pair[0]], output.stdout);
        }
        // Seven of the ten calls are not the first in-edges of their callees: they add values, some of them with one
        // instruction for two calls.
        assert!(updates.len() >= 10, "{shape:?}: too few updates\n{}", output.stdout);
    }
}

#[test]
fn copies_of_inline_functions_go_with_what_belongs_to_them() {
    const INLINE: &str = "
extern \"C\" int elsewhere(int);
__attribute__((noinline)) inline int shared(int n) {
  if (__builtin_expect(n > 9, 0)) return elsewhere(n) + 1;
  return n;
}
";
    let folder = work_folder("clash/inline");
    let mut words = vec!["--pcce-mode=module".to_owned(), "-O2".to_owned(), headers(), "-o".to_owned()];
    let program = folder.join("program");
    words.push(program.display().to_string());
    for (name, text) in [
        (
            "main.cpp",
            format!(
                "{INLINE}int other(int);\nint main(int n, char **) {{ return shared(n) + other(n) - 2; }}\n"
            ),
        ),
        ("other.cpp", format!("{INLINE}int other(int n) {{ return shared(n); }}\n")),
        ("elsewhere.cpp", "extern \"C\" int elsewhere(int n) { return n; }\n".to_owned()),
    ] {
        let file = folder.join(name);
        fs::write(&file, text).expect("the folder is ours");
        words.push(file.display().to_string());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    run(&mut command(artifact("pcce-clang++"), &words)).expect_success();
    run(&mut command(&program, &[])).expect_success();
    let symbols = run(command(llvm("llvm-nm"), &[]).arg(&program)).expect_success().stdout;
    for name in ["_Z6sharedi", "_Z6sharedi.pcce_open", "_Z6sharedi.pcce_push"] {
        let count = symbols.lines().filter(|line| line.split(' ').next_back() == Some(name)).count();
        assert_eq!(count, 1, "{name}\n{symbols}");
    }
}
