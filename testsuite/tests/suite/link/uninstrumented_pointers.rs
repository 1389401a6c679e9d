//! Pointers to instrumented functions in code without the pass, wherever they are, and programs with more contexts of a
//! function than fit 31 bits.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use pcce_testsuite::{artifact, command, run, source, work_folder};

const HANDLE: &str = source!("link/uninstrumented/handle.c");

/// Code that calls `handle` through a pointer, or by a call that is not visible as one by name in the object, with the
/// flags that it is compiled with, and whether a shared library can hold it.
const OUTSIDE: [(&str, &str, &str, bool); 4] = [
    (
        "odd.c",
        "extern __attribute__((visibility(\"hidden\"))) void handle(int);\n\
         struct __attribute__((packed)) odd { char before; void (*call)(int); } table[2] = {{1, handle}, {2, handle}};\n\
         void outside(void) { for (volatile int i = 0; i < 1; i++) table[1 - i].call(0); }\n",
        "-O2 -fno-pic",
        false,
    ),
    (
        "short.S",
        ".text\n.globl outside\noutside: sub $8, %rsp\nmovl table+1(%rip), %eax\nxor %edi, %edi\ncall *%rax\n\
         add $8, %rsp\nret\n.section .rodata\ntable: .byte 1\n.long handle\n\
         .section .note.GNU-stack,\"\",@progbits\n",
        "",
        false,
    ),
    (
        "called.c",
        "extern __attribute__((visibility(\"hidden\"))) void handle(int);\nvoid outside(void) { handle(0); __asm__ volatile(\"\"); }\n",
        "-O2 -fPIC -mcmodel=large",
        true,
    ),
    (
        "taken.c",
        "extern __attribute__((visibility(\"hidden\"))) void handle(int);\nvoid (*volatile taken)(int);\n\
         void outside(void) { taken = handle; taken(0); }\n",
        "-O2 -fPIC -mcmodel=large",
        true,
    ),
];

fn compile(compiler: impl AsRef<std::ffi::OsStr>, folder: &Path, words: &str) {
    let words: Vec<&str> = words.split_whitespace().collect();
    run(command(compiler, &words).current_dir(folder)).expect_success();
}

/// The chains in which `handle` shows a token, innermost function first.
fn chains(folder: &Path, program: &str, library: Option<&str>) -> Vec<String> {
    let shown = run(command(folder.join(program), &[]).current_dir(folder)).expect_success().stdout;
    let lines: Vec<(&str, &str)> = shown.lines().map(|line| line.split_once(' ').unwrap()).collect();
    let mut decode = command(artifact("pcce"), &["decode", "--format", "json", program]);
    decode
        .args(library.iter().flat_map(|library| ["--dict", library]))
        .args(lines.iter().map(|(_, token)| token))
        .current_dir(folder);
    let decoded = run(&mut decode).expect_success().stdout;
    let chain = |line: &str| {
        let frames: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = |frame: &serde_json::Value| frame["function"].as_str().unwrap_or("?").to_owned();
        let frames: Vec<String> = frames["frames"].as_array().unwrap().iter().map(name).collect();
        frames.join(" < ")
    };
    let found = lines.iter().zip(decoded.lines()).map(|((what, _), line)| format!("{what}: {}", chain(line)));
    found.collect()
}

/// The caller from outside is `outside`, and no function from an earlier call.
#[test]
fn pointers_anywhere_lead_to_the_right_frames() {
    let folder = work_folder("link_outside/pointers");
    fs::write(folder.join("start.c"), source!("link/uninstrumented/main.c")).unwrap();
    fs::write(folder.join("handle.c"), HANDLE).unwrap();
    fs::write(folder.join("main.c"), "void start(void);\nint main(void) { start(); return 0; }\n").unwrap();
    let wrapper = artifact("pcce-clang");
    let own = |name: &str| format!("{name} < start < main");
    let second = ["first: show < handle < first < second", "second: show < handle < second"].map(own);
    let first = own("first: show < handle < first");
    for pic in ["-fno-pic", "-fPIC"] {
        for source in ["start", "handle", "main"] {
            compile(
                &wrapper,
                &folder,
                &format!("--pcce-mode=link -O1 -g {pic} -c {source}.c -o {source}{pic}.o"),
            );
        }
    }
    for (source, text, flags, for_library) in OUTSIDE {
        fs::write(folder.join(source), text).unwrap();
        compile("gcc", &folder, &format!("{flags} -c {source} -o outside.o"));
        for linker in ["bfd", "gold", "lld", "mold"] {
            let (program, library) = (format!("{source}.{linker}"), format!("./lib{source}.{linker}.so"));
            let expected = |outside: &str| {
                let outside = format!("outside: show < handle < {outside} < start < main");
                [&second[..], &[first.clone(), outside], &second[..]].concat()
            };
            let modules = "start-fno-pic.o handle-fno-pic.o main-fno-pic.o";
            let words =
                format!("--pcce-mode=link -no-pie -fuse-ld={linker} {modules} outside.o -o {program}");
            compile(&wrapper, &folder, &words);
            assert_eq!(chains(&folder, &program, None), expected("outside"), "{program}");
            if !for_library {
                continue;
            }
            let words =
                format!("-shared -fuse-ld={linker} start-fPIC.o handle-fPIC.o outside.o -o {library}");
            compile(&wrapper, &folder, &format!("--pcce-mode=link {words}"));
            let words = format!("main-fPIC.o {library} -Wl,-rpath,$ORIGIN -o {program}");
            compile(&wrapper, &folder, &format!("--pcce-mode=link -fuse-ld={linker} {words}"));
            assert_eq!(chains(&folder, &program, Some(&library)), expected("outside"), "{library}");
        }
    }
}

/// The number of layers of functions, and of functions in a layer.
const LAYERS: usize = 44;
const WIDTH: usize = 3;
const FILES: usize = 4;

/// A program of four files: each function calls functions of the next layer four times. Each fourth function ends with
/// a tail call.
fn wide(folder: &Path) {
    let mut state = 12_345_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) % below) as usize
    };
    let mut header =
        "unsigned below(unsigned);\nvoid show(const char *);\nint enter(const char *); void leave(int);\n"
            .to_owned();
    let mut files = vec!["#include \"wide.h\"\n".to_owned(); FILES];
    for layer in 0..LAYERS {
        for f in 0..WIDTH {
            let name = format!("f{layer}_{f}");
            let _ = writeln!(header, "int {name}(int n);");
            let mut calls = [0; 4].map(|_| format!("f{}_{}", layer + 1, random(WIDTH as u64)));
            if layer + 1 == LAYERS {
                calls = calls.map(|_| "last".to_owned());
            }
            let [a, b, c, d] = calls;
            let body = if random(4) == 0 {
                format!(
                    "enter(\"~{name}\"); switch (below(4)) {{ case 0: return {a}(n + 1); case 1: return {b}(n + 2); case 2: return {c}(n ^ 3); \
                     default: return {d}(n); }}"
                )
            } else {
                format!(
                    "int before = enter(\"{name}\"); switch (below(4)) {{ case 0: n += {a}(n + 1); break; case 1: n += {b}(n + 2); break; \
                     case 2: n += {c}(n ^ 3); break; default: n += {d}(n); }} leave(before); return n;"
                )
            };
            let _ = writeln!(files[random(FILES as u64)], "int {name}(int n) {{ {body} }}");
        }
    }
    header += "int last(int n);\n";
    files[0] += "int last(int n) { int before = enter(\"last\"); show(\"\"); leave(before); return n; }\n\
        int main(void) { int sum = 0; enter(\"main\"); for (int i = 0; i < 200; i++) { sum += f0_0(i); leave(1); \
        sum += f0_1(i); leave(1); sum += f0_2(i); leave(1); } return sum == 1; }\n";
    fs::write(folder.join("wide.h"), header).unwrap();
    for (number, text) in files.iter().enumerate() {
        fs::write(folder.join(format!("wide{number}.c")), text).unwrap();
    }
    // The program keeps its real calls in a list without the pass. A mark precedes functions that end with a call.
    let list = "#include <stdio.h>\nstatic const char *chain[256]; static int depth;\n\
        unsigned below(unsigned n) { static unsigned long s = 7; s = s * 6364136223846793005ul + 1; return (s >> 40) % n; }\n\
        int enter(const char *name) { chain[depth] = name; return depth++; }\nvoid leave(int before) { depth = before; }\n\
        void print(const char *token) { printf(\"%s \", token); for (int i = depth; i-- > 0;) printf(\"%s%s\", chain[i], i ? \";\" : \"\\n\"); }\n";
    fs::write(folder.join("list.c"), list).unwrap();
    let show = "#include <pcce.h>\nvoid print(const char *);\n\
        void show(const char *no) { char token[4096]; (void)no; pcce_token(token, sizeof token); print(token); }\n";
    fs::write(folder.join("show.c"), show).unwrap();
}

/// The programs build, have wide ids, and each context is that of the program's own list.
#[test]
fn wide_programs_build_and_are_right() {
    let folder = work_folder("link_outside/wide");
    wide(&folder);
    let wrapper = artifact("pcce-clang");
    compile("gcc", &folder, "-O2 -c list.c");
    for level in ["-O1", "-O2"] {
        for verify in ["", "--pcce-verify"] {
            let sources = "wide0.c wide1.c wide2.c wide3.c show.c";
            compile(&wrapper, &folder, &format!("--pcce-mode=link {verify} -g {level} -c {sources}"));
            let objects = sources.replace(".c", ".o");
            compile(&wrapper, &folder, &format!("--pcce-mode=link {verify} {objects} list.o -o program"));
            let report = folder.join("report");
            let _ = fs::remove_file(&report);
            let ran = run(command(folder.join("program"), &[]).env("PCCE_VERIFY_REPORT", &report));
            let shown = ran.expect_success().stdout;
            if !verify.is_empty() {
                let report = fs::read_to_string(&report).unwrap();
                assert!(
                    report.contains(" 0 mismatches") && !report.contains(" 0 contexts"),
                    "{level}: {report}"
                );
            }
            let expected: Vec<(&str, &str)> =
                shown.lines().map(|line| line.split_once(' ').unwrap()).collect();
            assert_eq!(expected.len(), 600);
            let mut decode = command(artifact("pcce"), &["decode", "--format", "json", "program"]);
            decode.args(expected.iter().map(|(token, _)| token)).current_dir(&folder);
            let decoded = run(&mut decode).expect_success().stdout;
            for ((token, expected), line) in expected.iter().zip(decoded.lines()) {
                let frames: serde_json::Value = serde_json::from_str(line).unwrap();
                let names = frames["frames"].as_array().unwrap().iter().skip(1);
                let names: Vec<&str> = names.map(|frame| frame["function"].as_str().unwrap()).collect();
                let mut next = names.iter().peekable();
                // Only a function that has left by a tail call may be missing.
                for name in expected.split(';') {
                    let plain = name.trim_start_matches('~');
                    let found = next.next_if(|next| **next == plain).is_some();
                    assert!(
                        found || plain != name,
                        "{level} {verify} {token}: {names:?}, and not {expected}"
                    );
                }
                assert_eq!(next.next(), None, "{level} {verify} {token}: {names:?}, and not {expected}");
            }
            let info =
                run(command(artifact("pcce"), &["info", "program"]).current_dir(&folder)).expect_success();
            let most = info.stdout.lines().find_map(|line| line.strip_prefix("max numCC")).unwrap();
            let most: u64 = most.split_whitespace().next().unwrap().parse().unwrap();
            assert!(most > 1 << 40, "{most}");
        }
    }
}

/// Names of objects and members may contain line breaks, and end with blanks.
#[test]
fn names_of_objects_have_line_breaks_and_blanks() {
    let folder = work_folder("link_outside/names");
    fs::write(folder.join("f.c"), "int f(int n) { return n; }\n").unwrap();
    let main = "#include <pcce.h>\n#include <stdio.h>\nint f(int);\nint main(void) { puts(PCCE_TOKEN); return f(0); }\n";
    fs::write(folder.join("main.c"), main).unwrap();
    let clang = |words: &[&str]| {
        let mut clang = command(artifact("pcce-clang"), &["--pcce-mode=link"]);
        run(clang.args(words).current_dir(&folder)).expect_success();
    };
    clang(&["-c", "main.c", "-o", "ma\nin.o"]);
    clang(&["-c", "f.c", "-o", "a.o "]);
    run(command("ar", &["rc", "l.a", "a.o "]).current_dir(&folder)).expect_success();
    for linker in ["bfd", "gold", "lld", "mold"] {
        clang(&[&format!("-fuse-ld={linker}"), "ma\nin.o", "l.a", "-o", "program"]);
        let token = run(&mut command(folder.join("program"), &[])).expect_success().stdout;
        let mut pcce = command(artifact("pcce"), &["decode", "program", token.trim()]);
        let decoded = run(pcce.current_dir(&folder)).expect_success();
        assert!(decoded.stdout.contains("main"), "{linker}: {}", decoded.describe());
    }
}
