//! Contexts at any instruction: programs are interrupted after each of their instructions, and the tokens must decode
//! to what an independent unwinder (libgcc's) and an independent symboliser (LLVM's) find.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use pcce_testsuite::chain::{Frame, add, decode, decode_with, decoded, show, symbolise};
use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, include, llvm, run, work_folder};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("stepping")
}

/// A function's name without its parameters.
fn simple(name: &str) -> &str {
    name.split('(').next().unwrap_or(name)
}

/// The result of stepping through one program.
pub(crate) struct Counts {
    pub(crate) points: usize,
    pub(crate) unknown: usize,
    /// The output of `llvm-nm`.
    symbols: String,
}

/// Builds a program, steps through it, and compares each point.
fn check(name: &str, source: &str, flags: &[&str], bias: &str, dictionary: bool) -> Counts {
    let work = work_folder(&format!("anywhere/{name}"));
    let program = build(&work.join("program"), source, flags, bias);
    compare(name, &mut command(&program, &[]), &program, &["main"], dictionary)
}

fn build(program: &Path, source: &str, flags: &[&str], bias: &str) -> PathBuf {
    let source = folder().join(source);
    let compiler = if source.extension().is_some_and(|e| e == "cpp") { "pcce-clang++" } else { "pcce-clang" };
    let include = include("runtime-lib/include");
    let bias = format!("-DSTEP_BIAS={bias}");
    let (from, to) = (source.display().to_string(), program.display().to_string());
    // A tail call leaves no frame for an unwinder.
    let own = ["-g", "-Wall", "-fno-optimize-sibling-calls", &include, &bias, &from, "-o", &to];
    run(&mut command(artifact(compiler), &[flags, &own].concat())).expect_success();
    program.to_owned()
}

/// Runs a program that steps through code of `image`. `outer` has the outermost function of that, and the functions of
/// other images that have called it.
fn compare(name: &str, program: &mut Command, image: &Path, outer: &[&str], dictionary: bool) -> Counts {
    let output = run(program).expect_success();
    compare_output(name, &output.stdout, Path::new(program.get_program()), image, outer, dictionary)
}

/// Compares the points that a program has printed.
pub(crate) fn compare_output(
    name: &str,
    output: &str,
    program: &Path,
    image: &Path,
    outer: &[&str],
    dictionary: bool,
) -> Counts {
    let (outermost, callers) = outer.split_first().expect("there is one");
    let lines: Vec<Vec<&str>> = output.lines().map(|l| l.split(' ').collect()).collect();
    // A return address may belong to the next line.
    let lookup = |i: usize, a: &str| {
        u64::from_str_radix(a, 16).expect("hexadecimal digits").wrapping_sub(u64::from(i > 0))
    };
    let addresses: BTreeSet<u64> =
        lines.iter().flat_map(|l| l[2..].iter().enumerate().map(|(i, a)| lookup(i, a))).collect();
    let names = symbolise(image, &addresses);
    let mut given = image.to_owned();
    if dictionary {
        given = image.with_extension("json");
        let to = image.display().to_string();
        let json = given.display().to_string();
        run(&mut command(artifact("pcce"), &["dict", &to, "-o", &json])).expect_success();
    }
    let tokens: String = lines.iter().map(|l| format!("{}\n", l[0])).collect();
    let decoded_lines = match callers {
        [] => decode(&given, &tokens),
        _ => decode_with(program, &[&given], &tokens),
    };
    let nm = run(&mut command(llvm("llvm-nm"), &[&image.display().to_string()])).expect_success();
    let mut counts = Counts { points: 0, unknown: 0, symbols: nm.stdout };
    let mut wrong = Vec::new();
    let mut before = Vec::new();
    let mut unusable = 0;
    for (line, json) in lines.iter().zip(decoded_lines.lines()) {
        let mut expected: Vec<Frame> = Vec::new();
        for (i, address) in line[2..].iter().enumerate() {
            let frames = names.get(&lookup(i, address)).cloned().unwrap_or_else(|| vec![Frame::Plain]);
            let last = frames
                .last()
                .is_some_and(|f| matches!(f, Frame::Call(name, ..) if simple(name) == *outermost));
            frames.into_iter().for_each(|frame| add(&mut expected, frame));
            if last {
                break;
            }
        }
        let mut found = decoded(json);
        counts.points += 1;
        let is_of = |frame: &Frame, of: &str| matches!(frame, Frame::Call(name, ..) if simple(name) == of);
        let inner = found.len().saturating_sub(callers.len());
        if found[inner..].iter().zip(callers).all(|(frame, of)| is_of(frame, of)) {
            found.truncate(inner);
            // In the runtime's `longjmp` the library's caller may be said to have left by a tail call.
            found.pop_if(|frame| !callers.is_empty() && *frame == Frame::Tail(String::new()));
        } else {
            found.push(Frame::Boundary(format!("not called by {callers:?}")));
        }
        let is_main = |f: &Frame| matches!(f, Frame::Call(name, ..) if simple(name) == *outermost);
        if !expected.last().is_some_and(is_main) {
            // The unwinder fails in the linker's stubs, which have no tables. The caller is that of the last call.
            expected = before.clone();
            expected.retain({
                let mut plain = true;
                move |f| {
                    plain &= *f == Frame::Plain;
                    !plain
                }
            });
            expected.insert(0, Frame::Plain);
        } else {
            before.clone_from(&expected);
        }
        if found == expected {
            continue;
        }
        // The decoded chain must contain the unwinder's frames in their order.
        let mut rest = expected.iter();
        let shown = found.iter().filter(|f| matches!(f, Frame::Call(..)));
        let unknown =
            |f: &Frame| matches!(f, Frame::Boundary(kind) if kind == "unknown" || kind == "damaged");
        // The optimiser may have merged calls, and then the symboliser knows no line.
        let same = |f: &Frame, frame: &Frame| match (f, frame) {
            (Frame::Call(name, 0, inlined), Frame::Call(other, _, i)) => name == other && inlined == i,
            _ => f == frame,
        };
        let part = found.iter().any(unknown) && shown.clone().all(|frame| rest.any(|f| same(f, frame)));
        if line[1] == "unwinder" {
            unusable += 1;
            if std::env::var_os("STEP_SHOW").is_some() {
                eprintln!(
                    "{}: in the unwinder\n  expected {}\n  found    {}",
                    line[2],
                    show(&expected),
                    show(&found)
                );
            }
        } else if part {
            counts.unknown += 1;
            if std::env::var_os("STEP_SHOW").is_some() {
                eprintln!("{}: part\n  expected {}\n  found    {}", line[2], show(&expected), show(&found));
            }
        } else {
            wrong.push(format!(
                "at {} ({})\n  expected {}\n  found    {}",
                line[2],
                line[0],
                show(&expected),
                show(&found)
            ));
        }
    }
    println!(
        "{name}: {} points, {} with unknown calls, {unusable} where the unwinder knows nothing, {} wrong",
        counts.points,
        counts.unknown,
        wrong.len()
    );
    assert_eq!(counts.points, decoded_lines.lines().count());
    let first: Vec<_> = wrong.iter().take(10).cloned().collect();
    assert!(wrong.is_empty(), "{name}: {} of {} points\n{}", wrong.len(), counts.points, first.join("\n"));
    assert!(unusable < 100 + counts.points / 25, "{name}: {unusable} points cannot be compared");
    counts
}

/// `STEPS` of step.h.
const MOST_STEPS: usize = 60_000;

const PIE: &str = "(unsigned long)&__executable_start";

#[test]
fn every_point_of_an_optimised_program() {
    for (name, flags, bias) in in_turn(
        0,
        [
            ("lto-O2", ["-O2", "--pcce-mode=lto", "-fPIE", "-pie"], PIE),
            ("module-O2", ["-O2", "--pcce-mode=module", "-fPIE", "-pie"], PIE),
            ("link-O2", ["-O2", "--pcce-mode=link", "-fPIE", "-pie"], PIE),
            ("no-pie-O3", ["-O3", "--pcce-mode=lto", "-fno-pie", "-no-pie"], "0UL"),
            ("Os", ["-Os", "--pcce-mode=module", "-fPIE", "-pie"], PIE),
            ("link-no-inline", ["-O2", "--pcce-mode=link", "-fPIE", "-fno-inline"], PIE),
            ("link-no-pie", ["-O1", "--pcce-mode=link", "-fno-pie", "-no-pie"], "0UL"),
            ("hybrid-no-pie", ["-O2", "--pcce-hybrid", "-fno-pie", "-no-pie"], "0UL"),
            ("hybrid", ["-O2", "--pcce-hybrid", "-fPIE", "-pie"], PIE),
        ],
    ) {
        let counts = check(name, "mixed.c", &flags, bias, name == "lto-O2");
        assert!(counts.points > 10_000, "{name}: only {} points", counts.points);
        assert!(counts.unknown == 0, "{name}: {} points with unknown calls", counts.unknown);
    }
}

#[test]
fn every_point_of_a_program_that_is_not_optimised() {
    for (name, mode) in [("lto-O0", "--pcce-mode=lto"), ("link-O0", "--pcce-mode=link")] {
        let counts = check(name, "mixed.c", &["-O0", mode], PIE, false);
        assert!(counts.points > 10_000 && counts.unknown == 0, "{name}: {} unknown", counts.unknown);
    }
}

#[test]
fn every_point_of_programs_of_other_shapes() {
    for (name, flags, bias) in in_turn(
        0,
        [
            ("no-relax", &["-O2", "-fPIC", "-pie", "--pcce-mode=module", "-Wl,--no-relax"][..], PIE),
            ("no-relax-O0", &["-O0", "-fPIC", "-pie", "--pcce-mode=module", "-Wl,--no-relax"], PIE),
            ("static-pie", &["-O2", "-static-pie", "-fPIE", "--pcce-mode=module"], PIE),
            ("static", &["-O2", "-static", "-fno-pie", "-no-pie"], "0UL"),
            ("link-bfd", &["-Os", "--pcce-mode=link", "-fuse-ld=bfd"], PIE),
            ("bfd", &["-O2", "--pcce-mode=module", "-fuse-ld=bfd"], PIE),
            ("link-static", &["-O2", "--pcce-mode=link", "-static", "-fno-pie", "-no-pie"], "0UL"),
            ("link-pic", &["-O2", "--pcce-mode=link", "-fPIC", "-pie"], PIE),
        ],
    ) {
        let counts = check(name, "mixed.c", flags, bias, false);
        assert!(counts.points > 7_000 && counts.unknown == 0, "{name}: {} unknown", counts.unknown);
    }
}

#[test]
fn every_point_of_a_shared_library() {
    let work = work_folder("anywhere/library");
    for (name, mode, level) in in_turn(
        0,
        [
            ("link", "--pcce-mode=link", "-O2"),
            ("lto", "--pcce-mode=lto", "-O2"),
            ("module", "--pcce-mode=module", "-O0"),
            ("link-O0", "--pcce-mode=link", "-O0"),
        ],
    ) {
        let library = work.join(format!("lib{name}.so"));
        let flags = [mode, level, "-fPIC", "-shared", "-DLIBRARY"];
        let library = build(&library, "mixed.c", &flags, "(unsigned long)&__ehdr_start");
        let main = work.join("main.c");
        let source = "int run(int, char **); int main(int n, char **v) { return run(n, v); }\n";
        std::fs::write(&main, source).expect("the folder is ours");
        let program = work.join(name);
        let path = |p: &Path| p.display().to_string();
        let rpath = format!("-Wl,-rpath,{}", work.display());
        let release = artifact("libpcce_rt.so").parent().expect("a file in a folder").to_owned();
        let (folder, own) = (format!("-L{}", release.display()), format!("-Wl,-rpath,{}", release.display()));
        let (main, program_path) = (path(&main), path(&program));
        let library_path = path(&library);
        let words = [&*main, &library_path, &rpath, &folder, &own, "-lpcce_rt", "-o", &program_path];
        run(&mut command(llvm("clang"), &words)).expect_success();
        let counts = compare(name, &mut command(&program, &[]), &library, &["run"], false);
        assert!(counts.points > 9_000 && counts.unknown == 0, "{name}: {} unknown", counts.unknown);
    }
}

#[test]
fn every_point_with_exceptions() {
    for (name, flags) in in_turn(
        0,
        [
            ("thrown-link", ["-O2", "--pcce-mode=link"]),
            ("thrown-lto", ["-O2", "--pcce-mode=lto"]),
            ("thrown-module", ["-O1", "--pcce-mode=module"]),
            ("thrown-O0", ["-O0", "--pcce-mode=lto"]),
            ("thrown-link-O0", ["-O0", "--pcce-mode=link"]),
            ("thrown-link-pic", ["--pcce-mode=link", "-fPIC"]),
            ("thrown-hybrid", ["-O2", "--pcce-hybrid"]),
        ],
    ) {
        let counts = check(name, "thrown.cpp", &flags, PIE, false);
        assert!(counts.points > 10_000, "{name}: only {} points", counts.points);
        assert_eq!(counts.unknown, 0, "{name}: points with unknown calls");
    }
}

/// Ids of functions that only their module calls may be positive, as those of an executable's open calls are.
#[test]
fn every_point_of_a_library_of_an_encoded_program() {
    let work = work_folder("anywhere/called");
    for (name, mode, library_flags) in in_turn(
        0,
        [
            ("link-link", "--pcce-mode=link", "--pcce-mode=link"),
            ("link-module", "--pcce-mode=link", "--pcce-mode=module --pcce-trace"),
            ("lto-link", "--pcce-mode=lto", "--pcce-mode=link --pcce-trace"),
            ("lto-module", "--pcce-mode=lto", "--pcce-mode=module --pcce-trace"),
        ],
    ) {
        let library = work.join(format!("lib{name}.so"));
        let flags = library_flags.split(' ').chain(["-O2", "-fPIC", "-shared", "-DLIBRARY"]);
        let flags: Vec<&str> = flags.collect();
        let library = build(&library, "mixed.c", &flags, "(unsigned long)&__ehdr_start");
        let mut source = "int run(int, char **);\nint (*volatile pointer)(int, char **) = run;\n".to_owned();
        let numbers = 0..12;
        for number in numbers.clone() {
            source += &format!(
                "__attribute__((noinline)) static int q{number}(int n, char **v) {{ return pointer(n, v) + {number}; }}\n"
            );
        }
        let calls: String = numbers.map(|number| format!(" + q{number}(n, v)")).collect();
        source += &format!("int main(int n, char **v) {{ return n == 1 ? q11(n, v) & 0 : 0{calls}; }}\n");
        let main = work.join("main.c");
        std::fs::write(&main, source).expect("the folder is ours");
        let program = work.join(name);
        let path = |p: &Path| p.display().to_string();
        let rpath = format!("-Wl,-rpath,{}", work.display());
        let words = ["-O1", "-g", mode, &path(&main), &path(&library), &rpath, "-o", &path(&program)];
        run(&mut command(artifact("pcce-clang"), &words)).expect_success();
        let outer = ["run", "q11", "main"];
        let counts = compare(name, &mut command(&program, &[]), &library, &outer, false);
        assert!(counts.points > 9_000 && counts.unknown == 0, "{name}: {} unknown", counts.unknown);
    }
}

/// A function of a traced program has two bodies.
#[test]
fn every_point_of_a_traced_program() {
    for (name, source, flags) in in_turn(
        0,
        [
            ("traced-link", "mixed.c", ["-O2", "--pcce-mode=link"]),
            ("traced-thrown", "thrown.cpp", ["-O2", "--pcce-mode=link"]),
            ("traced-module", "mixed.c", ["-O2", "--pcce-mode=module"]),
            ("traced-lto", "mixed.c", ["-O1", "--pcce-mode=lto"]),
        ],
    ) {
        let work = work_folder(&format!("anywhere/{name}"));
        let program = build(
            &work.join("program"),
            source,
            &[&flags[..], &["--pcce-trace", "-pie", "-fPIE"]].concat(),
            PIE,
        );
        let mut counted = Vec::new();
        for trace in [None, Some(work.join("trace"))] {
            let mut command = command(&program, &[]);
            command.envs(trace.as_ref().map(|trace| ("PCCE_TRACE", trace)));
            let counts = compare(name, &mut command, &program, &["main"], false);
            assert!(counts.points > 7_000 && counts.unknown == 0, "{name}: {} unknown", counts.unknown);
            counted.push(counts.points);
        }
        assert!(counted[1] > counted[0] || counted[1] == MOST_STEPS, "{name}: {counted:?}");
    }
}

/// Code without the pass continues after a call of it has failed.
#[test]
fn every_point_where_other_code_goes_on() {
    let work = work_folder("anywhere/landed");
    let plain = work.join("plain.o").display().to_string();
    let source = folder().join("landed.c").display().to_string();
    let words = ["-O1", "-fno-optimize-sibling-calls", "-DPLAIN", "-c", &source, "-o", &plain];
    run(&mut command(llvm("clang"), &words)).expect_success();
    for (name, level, mode) in in_turn(
        0,
        [
            ("landed-link", "-O2", "--pcce-mode=link"),
            ("landed-lto", "-O2", "--pcce-mode=lto"),
            ("landed-module", "-O1", "--pcce-mode=module"),
            ("landed-lto-O0", "-O0", "--pcce-mode=lto"),
        ],
    ) {
        let counts = check(name, "landed.c", &[level, mode, &plain], PIE, false);
        assert!(counts.points > 10_000 && counts.unknown == 0, "{name}: {} unknown", counts.unknown);
    }
}

/// Compilers split functions: into sections for each basic block, into hot and cold parts, and into sequences of
/// instructions that several functions share and that belong to none of them.
#[test]
fn every_point_of_functions_in_several_parts() {
    let profile = profile_of("mixed.c", &work_folder("anywhere/parts"));
    let sections = ["-O2", "--pcce-mode=module", "-fbasic-block-sections=all"];
    let linked = ["-O2", "--pcce-mode=lto", "-Wl,--lto-basic-block-sections=all"];
    let split = ["-O2", "--pcce-mode=module", "-fsplit-machine-functions", &profile];
    let split_linked = ["-O2", "--pcce-mode=lto", "-fsplit-machine-functions", &profile];
    for (name, source, flags, part) in in_turn(
        0,
        [
            ("sections", "mixed.c", &sections[..], ".__part."),
            (
                "sections-O0",
                "mixed.c",
                &["-O0", "--pcce-mode=module", "-fbasic-block-sections=all"],
                ".__part.",
            ),
            (
                "sections-link",
                "mixed.c",
                &["-O2", "--pcce-mode=link", "-fbasic-block-sections=all"],
                ".__part.",
            ),
            ("sections-lto", "mixed.c", &linked, ".__part."),
            ("split-lto", "mixed.c", &split_linked, ".cold"),
            ("split", "mixed.c", &split, ".cold"),
        ],
    ) {
        let counts = check(name, source, flags, PIE, name == "sections");
        assert!(counts.symbols.contains(part), "{name}: no symbol has {part} in it");
        assert!(counts.points > 9_000 && counts.unknown == 0, "{name}: {} unknown", counts.unknown);
    }
}

/// Within such sequences, and where the optimiser has made functions of parts after the pass, the changes to the id are
/// not known.
#[test]
fn every_point_of_functions_that_share_code() {
    let outliner = "-Wl,-mllvm,-enable-machine-outliner=always";
    let outlined = ["-O2", "-mno-red-zone", "--pcce-mode=lto", outliner];
    let module = ["-O2", "-mno-red-zone", "--pcce-mode=module", "-mllvm", "-enable-machine-outliner=always"];
    let behind = ["-O2", "-mno-red-zone", "--pcce-mode=link", "-mllvm", "-enable-machine-outliner=always"];
    for (name, source, flags, part) in in_turn(
        0,
        [
            ("outlined-thrown", "thrown.cpp", &module[..], "OUTLINED_FUNCTION_"),
            ("outlined-lto", "mixed.c", &outlined, "OUTLINED_FUNCTION_"),
            ("outlined-link", "mixed.c", &behind, "OUTLINED_FUNCTION_"),
            ("outlined-module", "mixed.c", &module, "OUTLINED_FUNCTION_"),
        ],
    ) {
        let counts = check(name, source, flags, PIE, false);
        assert!(counts.symbols.contains(part), "{name}: no symbol has {part} in it");
        assert!(
            counts.points > 9_000 && counts.unknown * 20 < counts.points,
            "{name}: {} unknown",
            counts.unknown
        );
    }
}

/// The option for clang that uses the profile of a run of the program.
fn profile_of(source: &str, work: &Path) -> String {
    let compiler = if source.ends_with(".cpp") { "clang++" } else { "clang" };
    let path = |name: &str| work.join(name).display().to_string();
    let release = artifact("libpcce_rt.so").parent().expect("a file in a folder").display().to_string();
    let own = include("runtime-lib/include");
    let words = [
        "-O2",
        "-g",
        &own,
        "-DSTEP_BIAS=0UL",
        "-fprofile-generate",
        "-fno-optimize-sibling-calls",
        &folder().join(source).display().to_string(),
        &format!("-L{release}"),
        &format!("-Wl,-rpath,{release}"),
        "-lpcce_rt",
        "-o",
        &path("counted"),
    ];
    run(&mut command(llvm(compiler), &words)).expect_success();
    let raw = path("counts.profraw");
    run(command(path("counted"), &[]).env("LLVM_PROFILE_FILE", &raw)).expect_success();
    let merged = path("counts.profdata");
    run(&mut command(llvm("llvm-profdata"), &["merge", &raw, "-o", &merged])).expect_success();
    format!("-fprofile-use={merged}")
}

#[test]
fn every_point_in_targeted_mode() {
    for (name, source, flags) in [
        ("targets-lto", "mixed.c", ["-O2", "--pcce-mode=lto", "--pcce-targets=recursive"]),
        ("targets-module", "mixed.c", ["-O1", "--pcce-mode=module", "--pcce-targets=pcce_none"]),
        ("targets-thrown", "thrown.cpp", ["-O2", "--pcce-mode=lto", "--pcce-targets=Guard::~Guard"]),
    ] {
        let counts = check(name, source, &flags, PIE, false);
        assert!(counts.points > 9_000, "{name}: only {} points", counts.points);
        assert!(counts.unknown == 0, "{name}: {} points with unknown calls", counts.unknown);
    }
}

/// The possible calls in `stepping/storm.c`.
fn calls(caller: &str, callee: &str) -> bool {
    let callees: &[&str] = match caller {
        "inlined" => &["leaf"],
        "sums" => &["leaf", "inlined"],
        "compare" | "jumper" => &["sums"],
        "recursive" => &["recursive", "sums"],
        "calls" => &["sums", "leaf"],
        "work" => &["sums", "recursive", "calls", "jumper"],
        "main" | "thread" => &["work"],
        _ => &[],
    };
    callees.contains(&callee)
}

/// The error in a chain that a handler has seen, if there is one.
fn wrong_with(chain: &[Frame]) -> Option<&'static str> {
    let name = |f: &Frame| match f {
        Frame::Call(name, ..) => name.clone(),
        Frame::Plain => "<plain>".to_owned(),
        Frame::Tail(_) => "<tail>".to_owned(),
        Frame::Boundary(kind) => format!("<{kind}>"),
    };
    let names: Vec<String> = chain.iter().map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rest = &names[..];
    let mut signals = 0;
    // `siglongjmp` lets the next signal through while it is still in the handler.
    loop {
        rest = match rest {
            ["on_timer" | "on_nested", "<signal>", rest @ ..] => rest,
            ["<plain>", "on_timer", "<signal>", rest @ ..] if signals > 0 => rest,
            _ => break,
        };
        signals += 1;
    }
    if signals == 0 {
        return Some("it does not start as the handler's own");
    }
    if !rest.last().is_some_and(|f| matches!(*f, "main" | "thread" | "<plain>")) {
        return Some("it does not end where threads start");
    }
    for pair in rest.windows(2) {
        let known = match (pair[0], pair[1]) {
            // Functions of the C library, at the end and in the middle.
            (_, "<plain>") => pair[0] == "compare" || std::ptr::eq(&pair[1], rest.last().expect("not empty")),
            ("<plain>", caller) => rest[0] == "<plain>" || caller == "work",
            (callee, caller) => calls(caller, callee),
        };
        if !known {
            return Some("a call in it is not in the program");
        }
    }
    None
}

#[test]
fn timers_interrupt_anywhere() {
    let work = work_folder("anywhere/storm");
    let source = folder().join("storm.c").display().to_string();
    let include = include("runtime-lib/include");
    for (name, flags) in [
        ("lto-O2", ["-O2", "--pcce-mode=lto"]),
        ("module-O2", ["-O2", "--pcce-mode=module"]),
        ("link-O2", ["-O2", "--pcce-mode=link"]),
        ("lto-O0", ["-O0", "--pcce-mode=lto"]),
    ] {
        let program = work.join(name);
        let to = program.display().to_string();
        let own = ["-g", "-Wall", "-pthread", "-fno-optimize-sibling-calls", &include, &source, "-o", &to];
        run(&mut command(artifact("pcce-clang"), &[&flags[..], &own].concat())).expect_success();
        let output = run(&mut command(&program, &[])).expect_success();
        let lines: Vec<Vec<&str>> = output.stdout.lines().map(|l| l.split(' ').collect()).collect();
        let tokens: String = lines.iter().map(|l| format!("{}\n", l[1])).collect();
        let traces = decode(&program, &tokens);
        let (mut points, mut unknown, mut interrupted) = (0, 0, BTreeSet::new());
        let mut numbers: HashMap<&str, &str> = HashMap::new();
        for (line, json) in lines.iter().zip(traces.lines()) {
            let chain = decoded(json);
            points += 1;
            if chain.iter().any(|f| {
                matches!(f, Frame::Boundary(kind) if kind != "signal") || matches!(f, Frame::Tail(_))
            }) {
                unknown += 1;
            } else if let Some(what) = wrong_with(&chain) {
                panic!("{name}: {what}: {}\n{}", show(&chain), line[1]);
            }
            interrupted.insert(line[1]);
            // Equal contexts have equal numbers, and different ones different numbers.
            let number = numbers.entry(line[1]).or_insert(line[2]);
            assert_eq!(*number, line[2], "{}", line[1]);
        }
        let distinct: BTreeSet<&str> = numbers.values().copied().collect();
        assert_eq!(distinct.len(), numbers.len(), "{name}: different points have one number");
        println!("{name}: {points} points, {} distinct, {unknown} with unknown calls", interrupted.len());
        assert!(points >= 600 && interrupted.len() > 50 && unknown < 20, "{name}: {unknown} of {points}");
    }
}
