//! Link mode: how functions of several modules are reached, whose bodies count, and what is refused.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pcce_testsuite::{
    artifact, command, folded, llvm, run, run_with_input, source, work_folder, write_files,
};

/// Two modules that call each other, by name and through pointers.
const CALLING: [(&str, &str); 2] =
    [("one.c", source!("link/calling/one.c")), ("two.c", source!("link/calling/two.c"))];

/// The linkers, each with executables at fixed addresses or not.
const LINKERS: [&[&str]; 6] = [
    &["-fuse-ld=lld"],
    &["-fuse-ld=lld", "-no-pie"],
    &["-fuse-ld=bfd"],
    &["-fuse-ld=bfd", "-no-pie"],
    &["-fuse-ld=gold"],
    &["-fuse-ld=mold"],
];

fn contexts(folder: &Path, program: &str) -> String {
    let output = run(command(folder.join(program), &[]).current_dir(folder)).expect_success().stdout;
    let tokens = output.lines().filter_map(|line| line.split(' ').next());
    let lines: String = tokens.map(|token| format!("{token}\n")).collect();
    folded(folder, &[program], &lines)
}

/// Without pushes a number names the context in the program by itself, without a file of numbers.
fn numbers_name_contexts(folder: &Path, program: &str) {
    let output = run(command(folder.join(program), &[]).current_dir(folder)).expect_success().stdout;
    let mut by_number = 0;
    for line in output.lines() {
        let (token, number) = line.split_once(' ').expect("a token and a number");
        let [decoded, of_number] = [token, number]
            .map(|name| run(command(artifact("pcce"), &["decode", program, name]).current_dir(folder)));
        if of_number.status == 0 {
            by_number += 1;
            // A number does not tell the line in its function.
            let callers = |shown: &str| shown.split_once('\n').expect("lines").1.to_owned();
            assert_eq!(callers(&of_number.stdout), callers(&decoded.expect_success().stdout), "{line}");
        }
    }
    assert!(by_number >= 3, "{by_number}: {output}");
}

/// Any linker gives a program that is encoded as a whole, and two links of the same objects give the same file.
#[test]
fn executables_are_encoded_as_a_whole() {
    let folder = work_folder("link_mode/whole");
    write_files(&folder, CALLING);
    let clang = |arguments: &[&str]| run(command(artifact("pcce-clang"), arguments).current_dir(&folder));
    let whole = ["--pcce-mode=lto", "-g", "-O2", "one.c", "two.c", "-o", "whole"];
    let _ = clang(&whole).expect_success();
    let expected = contexts(&folder, "whole");
    assert_eq!(expected.lines().count(), 6, "{expected}");
    for object in ["one", "two"] {
        let source = format!("{object}.c");
        let _ = clang(&["--pcce-mode=link", "-g", "-O2", "-c", &source]).expect_success();
    }
    for linker in LINKERS {
        let fixed = ["--pcce-mode=link", "one.o", "two.o", "-o"];
        let _ = clang(&[&fixed[..], &["linked"], linker].concat()).expect_success();
        assert_eq!(contexts(&folder, "linked"), expected, "{linker:?}");
        numbers_name_contexts(&folder, "linked");
        let _ = clang(&[&fixed[..], &["again"], linker].concat()).expect_success();
        let read = |name: &str| fs::read(folder.join(name)).unwrap();
        assert!(read("linked") == read("again"), "{linker:?}: two links of the same objects differ");
    }
    let info =
        run(command(artifact("pcce"), &["info", "linked"]).current_dir(&folder)).expect_success().stdout;
    assert!(info.contains("2 of which were encoded as a whole at the link"), "{info}");
}

/// A program that cannot be encoded is an error with a message, and leaves no executable.
#[test]
fn what_cannot_be_encoded_is_refused() {
    let folder = work_folder("link_mode/refused");
    write_files(&folder, CALLING);
    let clang = |arguments: &[&str]| run(command(artifact("pcce-clang"), arguments).current_dir(&folder));
    let _ = clang(&["--pcce-mode=link", "-g", "-O2", "-c", "one.c"]).expect_success();
    let _ = clang(&["--pcce-mode=link", "--pcce-id-bits=20", "-O2", "-c", "two.c"]).expect_success();
    let mixed = clang(&["--pcce-mode=link", "one.o", "two.o", "-o", "mixed"]);
    assert!(mixed.status != 0 && mixed.stderr.contains("other options of the pass"), "{}", mixed.describe());
    assert!(!folder.join("mixed").exists());
    let _ = clang(&["--pcce-mode=link", "-O2", "-c", "two.c"]).expect_success();
    // An option of the link alone would have no effect.
    for flag in ["--pcce-verify", "--pcce-heap", "--pcce-profile-generate", "--pcce-id-bits=20"] {
        let late = clang(&["--pcce-mode=link", flag, "one.o", "two.o", "-o", "late"]);
        let name = flag.split('=').next().unwrap();
        let message = format!("one.c was compiled without `{name}`, which the link has");
        assert!(late.status != 0 && late.stderr.contains(&message), "{}", late.describe());
        assert!(!folder.join("late").exists());
    }
    // Configure scripts link into /dev/null.
    let _ = clang(&["--pcce-mode=link", "one.o", "two.o", "-o", "/dev/null"]).expect_success();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    // Options for stripping keep their effect.
    for strip in [&["-s"][..], &["-Wl,-O1,-s"], &["-Xlinker", "--strip-all"]] {
        let _ = clang(&[&["--pcce-mode=link", "one.o", "two.o", "-o", "stripped"], strip].concat())
            .expect_success();
        let symbols = run(command(llvm("llvm-nm"), &["stripped"]).current_dir(&folder));
        assert!(symbols.stderr.contains("no symbols"), "{}", symbols.describe());
        fs::remove_file(folder.join("stripped")).expect("is there");
    }
}

/// Only a table of distances reaches the function from another module.
#[test]
fn tables_of_distances_reach_functions() {
    let folder = work_folder("link_mode/distances");
    let show = source!("link/distances/one.c");
    let table = source!("link/distances/two.c");
    fs::write(folder.join("one.c"), show).unwrap();
    fs::write(folder.join("two.c"), table).unwrap();
    let build = ["--pcce-mode=link", "-g", "-O2", "one.c", "two.c", "-o", "program"];
    run(command(artifact("pcce-clang"), &build).current_dir(&folder)).expect_success();
    assert_eq!(contexts(&folder, "program"), "main;caller;hidden\nmain;table;hidden\n");
}

/// A table of distances that count from its beginning, where there is no symbol: in LLVM's language, and in assembly.
#[test]
fn computed_addresses_reach_functions() {
    let folder = work_folder("link_mode/computed");
    let show = source!("link/computed/show.c");
    let table = source!("link/computed/table.ll");
    let assembly = source!("link/computed/table.c");
    fs::write(folder.join("show.c"), show).unwrap();
    for (name, text) in [("table.ll", table), ("table.c", assembly)] {
        fs::write(folder.join(name), text).unwrap();
        for linker in LINKERS {
            let build = ["--pcce-mode=link", "-g", "-O2", "-w", "show.c", name, "-o", "program"];
            let build = [&build[..], linker].concat();
            run(command(artifact("pcce-clang"), &build).current_dir(&folder)).expect_success();
            let expected = "main;caller;hidden\nmain;caller;other;hidden\nmain;table;hidden\n";
            assert_eq!(contexts(&folder, "program"), expected, "{name}, {linker:?}");
        }
    }
}

/// The encoder sees all calls of a function that both modules define. An address taken elsewhere is that of the
/// definition that the linker has kept.
#[test]
fn functions_of_several_modules_are_reached_as_one() {
    let folder = work_folder("link_mode/shared");
    let header = "#include <pcce.h>\n#include <cstdio>\n\
        [[gnu::noinline]] inline int shown(int n) { puts(PCCE_TOKEN); return n; }\n\
        using Function = int (*)(int);\nFunction other();\n";
    let one = "#include \"shared.h\"\n[[gnu::noinline]] int direct(int n) { return shown(n) + 1; }\n\
        int main() { int n = direct(1) + other()(2); return n != 4; }\n";
    let two = "#include \"shared.h\"\nFunction other() { return shown; }\n";
    write_files(&folder, [("shared.h", header), ("one.cpp", one), ("two.cpp", two)]);
    for order in [["one.cpp", "two.cpp"], ["two.cpp", "one.cpp"]] {
        for level in ["-O0", "-O2"] {
            let build = ["--pcce-mode=link", "--pcce-verify", "-g", level, "-o", "program"];
            let build = [&build[..], &order].concat();
            run(command(artifact("pcce-clang++"), &build).current_dir(&folder)).expect_success();
            let expected = "main;direct(int);shown(int)\nmain;shown(int)\n";
            assert_eq!(contexts(&folder, "program"), expected, "{order:?}, {level}");
        }
    }
}

/// An exception from a call of another module passes functions that have landing pads for other calls only, also with
/// interprocedural register allocation (`-enable-ipra`).
#[test]
fn exceptions_pass_calls_of_other_modules() {
    let folder = work_folder("link_mode/thrown");
    let one = source!("link/thrown/one.cpp");
    let two = source!("link/thrown/two.cpp");
    fs::write(folder.join("one.cpp"), one).unwrap();
    fs::write(folder.join("two.cpp"), two).unwrap();
    for flags in [&["-O0"][..], &["-O2"], &["-O3"], &["-O2", "-mllvm", "-enable-ipra"]] {
        let built = |mode: &str| {
            let program = format!("{mode}{}", flags.concat());
            let mode = format!("--pcce-mode={mode}");
            let arguments = [&mode, "-g", "-w", "one.cpp", "two.cpp", "-o", &program];
            let mut clang = command(artifact("pcce-clang++"), flags);
            run(clang.args(arguments).current_dir(&folder)).expect_success();
            contexts(&folder, &program)
        };
        let expected = built("module");
        assert_eq!(expected.lines().filter(|line| line.starts_with("main")).count(), 8, "{expected}");
        assert_eq!(built("link"), expected, "{flags:?}");
    }
}

/// A module that loses a section to garbage collection is encoded like others.
#[test]
fn what_is_collected_is_not_missed() {
    let folder = work_folder("link_mode/collected");
    let show = "#include <pcce.h>\n#include <stdio.h>\nint show(int n) { puts(PCCE_TOKEN); return n; }\n";
    let main = "int two(int n);\nint main(void) { return two(1) + two(2) != 5; }\n";
    let two = "int show(int n);\nint unused(int n) { return show(n + 1); }\nint two(int n) { return show(n) + 1; }\n";
    write_files(&folder, [("show.c", show), ("main.c", main), ("two.c", two)]);
    for linker in LINKERS {
        let flags =
            ["--pcce-mode=link", "-g", "-O2", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"];
        let files = ["main.c", "two.c", "show.c", "-o", "program"];
        let mut clang = command(artifact("pcce-clang"), &[&flags[..], &files, linker].concat());
        run(clang.current_dir(&folder)).expect_success();
        assert_eq!(contexts(&folder, "program"), "main;two;show\nmain;two;show\n", "{linker:?}");
    }
}

/// A silent function that two modules define: the encoder knows which definition the linker has kept.
#[test]
fn the_body_that_was_kept_is_known() {
    let folder = work_folder("link_mode/bodies");
    let header = "#include <pcce.h>\n#include <stdio.h>\n\
        [[gnu::noinline]] inline void take(char *to) { pcce_token(to, 400); }\n";
    let one = "#include \"take.h\"\nvoid other();\nint main() { char t[400]; take(t); puts(t); other(); }\n";
    let two = "#include \"take.h\"\nvoid other() { char t[400]; take(t); puts(t); }\n";
    write_files(&folder, [("take.h", header), ("one.cpp", one), ("two.cpp", two)]);
    for order in [["one.cpp", "two.cpp"], ["two.cpp", "one.cpp"]] {
        for linker in LINKERS {
            let build = [&["--pcce-mode=link", "-g", "-O2", "-o", "program"], &order[..], linker].concat();
            run(command(artifact("pcce-clang++"), &build).current_dir(&folder)).expect_success();
            let expected = "main;take(char*)\nmain;other();take(char*)\n";
            assert_eq!(contexts(&folder, "program"), expected, "{order:?}, {linker:?}");
        }
    }
}

/// Addition values of more than 31 bits.
#[test]
fn values_may_be_wide() {
    const LEVELS: usize = 40;
    let folder = work_folder("link/wide");
    let mut source = "#include <pcce.h>\n#include <stdio.h>\n".to_owned();
    source += &format!("__attribute__((noinline)) static void f{LEVELS}(long n) {{ puts(PCCE_TOKEN); }}\n");
    for level in (0..LEVELS).rev() {
        let next = level + 1;
        source += &format!(
            "__attribute__((noinline)) static void f{level}(long n) {{\n  \
             if (n >> {level} & 1) {{ __asm__ volatile(\"# a\"); f{next}(n); __asm__ volatile(\"# b\"); }}\n  \
             else {{ __asm__ volatile(\"# c\"); f{next}(n); __asm__ volatile(\"# d\"); }}\n}}\n"
        );
    }
    source += "int main(void) { long n = 1; for (int i = 0; i < 200; i++, n = n * 25 + 7) f0(n); }\n";
    fs::write(folder.join("wide.c"), source).unwrap();
    let contexts = |mode: &str, flags: &[&str]| {
        let words = [&["-g", "-w", "-O1", mode, "wide.c", "-o", "wide"], flags].concat();
        run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
        let tokens = run(command(folder.join("wide"), &[]).current_dir(&folder)).expect_success().stdout;
        let decode = ["decode", "wide"];
        run_with_input(command(artifact("pcce"), &decode).current_dir(&folder), &tokens)
            .expect_success()
            .stdout
    };
    let expected = contexts("--pcce-mode=lto", &[]);
    let distinct: BTreeSet<&str> = expected.split("\n\n").collect();
    assert!(distinct.len() > 100 && expected.contains("f39 at "), "{expected}");
    for flags in [&["-pie"][..], &["-no-pie", "-fuse-ld=bfd"], &["-Wl,--gc-sections"], &["--pcce-verify"]] {
        assert_eq!(contexts("--pcce-mode=link", flags), expected, "{flags:?}");
    }
}
