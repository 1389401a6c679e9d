//! Link mode: executables that are encoded behind their link.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use object::{Object as _, ObjectSection as _};
use pcce_dictionary::section::{self, Record};
use pcce_dictionary::{Unlinked, fragment};
use pcce_testsuite::{artifact, command, llvm, run, run_with_input, work_folder};

/// Two modules that call each other, by name and through pointers.
const CALLING: [(&str, &str); 2] = [
    (
        "one.c",
        "#include <pcce.h>\n#include <stdio.h>\nint two(int n, int (*f)(int));\n\
         __attribute__((noinline)) int show(int n) {\n\
           printf(\"%s %llu\\n\", PCCE_TOKEN, (unsigned long long)pcce_context());\n\
           return n + 1;\n\
         }\n\
         int main(void) { return two(3, show) + show(1) != 16; }\n",
    ),
    (
        "two.c",
        "int show(int n);\n\
         __attribute__((noinline)) static int down(int n) { return n ? down(n - 1) + show(n) : 0; }\n\
         int two(int n, int (*f)(int)) { return f(n) + down(n) + show(n - 3); }\n",
    ),
];

/// The linkers that must do, and whether their executables are at fixed addresses.
const LINKERS: [&[&str]; 4] =
    [&["-fuse-ld=lld"], &["-fuse-ld=lld", "-no-pie"], &["-fuse-ld=bfd"], &["-fuse-ld=bfd", "-no-pie"]];

fn contexts(folder: &Path, program: &str) -> String {
    let output = run(command(folder.join(program), &[]).current_dir(folder)).expect_success().stdout;
    let tokens = output.lines().filter_map(|line| line.split(' ').next());
    let lines: String = tokens.map(|token| format!("{token}\n")).collect();
    let mut filter = command(artifact("pcce"), &["filter", program, "--format", "folded"]);
    run_with_input(filter.current_dir(folder), &lines).expect_success().stdout
}

/// Without pushes a number stands for the context in the program alone, without a file of numbers.
fn numbers_name_contexts(folder: &Path, program: &str) {
    let output = run(command(folder.join(program), &[]).current_dir(folder)).expect_success().stdout;
    let mut by_number = 0;
    for line in output.lines() {
        let (token, number) = line.split_once(' ').expect("a token and a number");
        let [decoded, of_number] = [token, number]
            .map(|name| run(command(artifact("pcce"), &["decode", program, name]).current_dir(folder)));
        if of_number.status == 0 {
            by_number += 1;
            // It does not tell where in its function it was taken.
            let callers = |shown: &str| shown.split_once('\n').expect("lines").1.to_owned();
            assert_eq!(callers(&of_number.stdout), callers(&decoded.expect_success().stdout), "{line}");
        }
    }
    assert!(by_number >= 3, "{by_number}: {output}");
}

/// Behind any linker, the step encodes the program, by the wrapper or by `pcce link`; two links of the same objects are
/// the same file.
#[test]
fn executables_are_encoded_behind_any_link() {
    let folder = work_folder("link_mode/behind");
    for (name, text) in CALLING {
        fs::write(folder.join(name), text).unwrap();
    }
    let clang = |arguments: &[&str]| run(command(artifact("pcce-clang"), arguments).current_dir(&folder));
    let whole = ["-g", "-O2", "one.c", "two.c", "-o", "whole"];
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
    // A link without the step: nothing is decoded until it has run.
    let words = ["one.o", "two.o", "-Wl,--build-id", "-o", "forgotten"];
    let mut plain = command(llvm("clang"), &words);
    let _ = run(plain.arg(artifact("libpcce_rt.a")).current_dir(&folder)).expect_success();
    let pcce = |arguments: &[&str]| run(command(artifact("pcce"), arguments).current_dir(&folder));
    let refused = pcce(&["dict", "forgotten"]);
    assert!(refused.status == 2 && refused.stderr.contains("run `pcce link"), "{}", refused.describe());
    let _ = pcce(&["link", "forgotten"]).expect_success();
    assert_eq!(contexts(&folder, "forgotten"), expected);
    let twice = pcce(&["link", "forgotten"]);
    assert!(twice.status == 2 && twice.stderr.contains("has run already"), "{}", twice.describe());
}

/// What the step cannot encode is an error in words, and leaves no executable.
#[test]
fn what_cannot_be_encoded_behind_the_link_is_refused() {
    let folder = work_folder("link_mode/refused");
    for (name, text) in CALLING {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::write(folder.join("no_pic.c"), "int one(int); int two(int n) { return one(n) + 1; }\n").unwrap();
    let clang = |arguments: &[&str]| run(command(artifact("pcce-clang"), arguments).current_dir(&folder));
    let _ = clang(&["--pcce-mode=link", "-g", "-O2", "-c", "one.c"]).expect_success();
    let _ = clang(&["--pcce-mode=link", "--pcce-id-bits=20", "-O2", "-c", "two.c"]).expect_success();
    let mixed = clang(&["--pcce-mode=link", "one.o", "two.o", "-o", "mixed"]);
    assert!(mixed.status != 0 && mixed.stderr.contains("other options of the pass"), "{}", mixed.describe());
    assert!(!folder.join("mixed").exists());
    let _ = clang(&["--pcce-mode=link", "-O2", "-c", "two.c"]).expect_success();
    // What only the link was asked for would not be done.
    for flag in ["--pcce-verify", "--pcce-heap", "--pcce-profile-generate", "--pcce-id-bits=20"] {
        let late = clang(&["--pcce-mode=link", flag, "one.o", "two.o", "-o", "late"]);
        let name = flag.split('=').next().unwrap();
        let message = format!("one.c was compiled without `{name}`, which the link has");
        assert!(late.status != 0 && late.stderr.contains(&message), "{}", late.describe());
        assert!(!folder.join("late").exists());
    }
    // Configure scripts link to nowhere.
    let _ = clang(&["--pcce-mode=link", "one.o", "two.o", "-o", "/dev/null"]).expect_success();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    // What the linker is asked to take away is taken away behind the step.
    for strip in [&["-s"][..], &["-Wl,-O1,-s"], &["-Xlinker", "--strip-all"]] {
        let _ = clang(&[&["--pcce-mode=link", "one.o", "two.o", "-o", "stripped"], strip].concat())
            .expect_success();
        let symbols = run(command(llvm("llvm-nm"), &["stripped"]).current_dir(&folder));
        assert!(symbols.stderr.contains("no symbols"), "{}", symbols.describe());
        fs::remove_file(folder.join("stripped")).expect("is there");
    }
    // Code of executables is none of shared libraries.
    let library = ["--pcce-mode=link", "-fPIE", "-O2", "-shared", "-Wl,-Bsymbolic", "-fvisibility=hidden"];
    let library = clang(&[&library[..], &["no_pic.c", "-o", "lib.so"]].concat());
    assert!(library.status != 0 && library.stderr.contains("recompile with -fPIC"), "{}", library.describe());
    assert!(!folder.join("lib.so").exists());
}

/// Nothing but a table of distances reaches the function from another module.
#[test]
fn tables_of_distances_reach_functions() {
    let folder = work_folder("link_mode/distances");
    let show = "#include <pcce.h>\n#include <stdio.h>\nint table(int);\n#define KEEP __asm__ volatile(\"\" ::: \"memory\")\n\
        __attribute__((noinline)) int hidden(int n) { puts(PCCE_TOKEN); return n; }\n\
        __attribute__((noinline)) int caller(int n) { int r = hidden(n); KEEP; return r; }\n\
        int main(void) { int r = caller(0) + table(0); KEEP; return r; }\n";
    let table = "__asm__(\".section .rodata\\n.globl rel\\nrel: .long hidden - rel\\n.text\");\n\
        extern const int rel[1];\n\
        int table(int n) { n += ((int (*)(int))((const char *)rel + rel[0]))(n);\n\
        __asm__ volatile(\"\" ::: \"memory\"); return n; }\n";
    fs::write(folder.join("one.c"), show).unwrap();
    fs::write(folder.join("two.c"), table).unwrap();
    let build = ["--pcce-mode=link", "-g", "-O2", "one.c", "two.c", "-o", "program"];
    let _ = run(command(artifact("pcce-clang"), &build).current_dir(&folder)).expect_success();
    assert_eq!(contexts(&folder, "program"), "main;caller;hidden\nmain;table;hidden\n");
}

/// A table of distances that count from its beginning, where no symbol is: the scan of the program's data does not see
/// whom it reaches, but the modules say so. In LLVM's own terms, and in assembly.
#[test]
fn addresses_that_only_modules_know_reach_functions() {
    let folder = work_folder("link_mode/computed");
    let show = "#include <pcce.h>\n#include <stdio.h>\nint table(int);\n#define KEEP __asm__ volatile(\"\" ::: \"memory\")\n\
        __attribute__((noinline)) int hidden(int n) { puts(PCCE_TOKEN); return n; }\n\
        __attribute__((noinline)) int other(int n) { int r = hidden(n); KEEP; return r; }\n\
        __attribute__((noinline)) int caller(int n) { int r = hidden(n) + other(n); KEEP; return r; }\n\
        int main(void) { int r = caller(0) + table(0); KEEP; return r; }\n";
    let table = "target triple = \"x86_64-pc-linux-gnu\"\n\
        @rel = private constant [3 x i32] [i32 0, i32 1, i32 trunc (\
            i64 sub (i64 ptrtoint (ptr @hidden to i64), i64 ptrtoint (ptr @rel to i64)) to i32)]\n\
        declare i32 @hidden(i32)\n\
        define i32 @table(i32 %n) {\n\
          %at = getelementptr i32, ptr @rel, i32 2\n\
          %distance = load volatile i32, ptr %at\n\
          %function = getelementptr i8, ptr @rel, i32 %distance\n\
          %r = call i32 %function(i32 %n)\n\
          call void asm sideeffect \"\", \"~{memory}\"()\n\
          ret i32 %r\n\
        }\n";
    let assembly = "__asm__(\".section .rodata\\n.globl first\\nfirst: .long 7, 8\\n.Lrel: .long 0, hidden - .Lrel\\n\
        .globl second\\nsecond: .long 9, .Lrel - second\\n.text\");\n\
        extern const int second[2];\n\
        int table(int n) {\n\
          const char *rel = (const char *)second + second[1];\n\
          n += ((int (*)(int))(rel + ((const int *)rel)[1]))(n);\n\
          __asm__ volatile(\"\" ::: \"memory\");\n\
          return n;\n\
        }\n";
    fs::write(folder.join("show.c"), show).unwrap();
    for (name, text) in [("table.ll", table), ("table.c", assembly)] {
        fs::write(folder.join(name), text).unwrap();
        for linker in LINKERS {
            let build = ["--pcce-mode=link", "-g", "-O2", "-w", "show.c", name, "-o", "program"];
            let build = [&build[..], linker].concat();
            let _ = run(command(artifact("pcce-clang"), &build).current_dir(&folder)).expect_success();
            let expected = "main;caller;hidden\nmain;caller;other;hidden\nmain;table;hidden\n";
            assert_eq!(contexts(&folder, "program"), expected, "{name}, {linker:?}");
        }
    }
}

/// Nothing but calls that the step sees reaches a function that both modules define; who takes its address elsewhere
/// reaches the one that the linker has kept.
#[test]
fn functions_of_several_modules_are_reached_as_one() {
    let folder = work_folder("link_mode/shared");
    let header = "#include <pcce.h>\n#include <cstdio>\n\
        [[gnu::noinline]] inline int shown(int n) { puts(PCCE_TOKEN); return n; }\n\
        using Function = int (*)(int);\nFunction other();\n";
    let one = "#include \"shared.h\"\n[[gnu::noinline]] int direct(int n) { return shown(n) + 1; }\n\
        int main() { int n = direct(1) + other()(2); return n != 4; }\n";
    let two = "#include \"shared.h\"\nFunction other() { return shown; }\n";
    for (name, text) in [("shared.h", header), ("one.cpp", one), ("two.cpp", two)] {
        fs::write(folder.join(name), text).unwrap();
    }
    for order in [["one.cpp", "two.cpp"], ["two.cpp", "one.cpp"]] {
        for level in ["-O0", "-O2"] {
            let build = ["--pcce-mode=link", "--pcce-verify", "-g", level, "-o", "program"];
            let build = [&build[..], &order].concat();
            let _ = run(command(artifact("pcce-clang++"), &build).current_dir(&folder)).expect_success();
            let expected = "main;direct(int);shown(int)\nmain;shown(int)\n";
            assert_eq!(contexts(&folder, "program"), expected, "{order:?}, {level}");
        }
    }
}

/// A stub's own code promises nothing of the calls that go through it: what they throw passes functions that have
/// landing pads for other calls only, and they keep no register that the callee does not (`-enable-ipra`).
#[test]
fn code_generation_knows_nothing_of_stubs() {
    let folder = work_folder("link_mode/stubs");
    let one = "#include <pcce.h>\n#include <cstdio>\nint thrower(int, int, int);\n\
               __attribute__((noinline)) static int middle(int n, int a, int b) {\n  int sum = thrower(n, 0, a);\n  \
               try { sum += thrower(n - 1, a, b); } catch (char) { std::puts(PCCE_TOKEN); }\n  return sum + a * b;\n}\n\
               int main(int count, char **) {\n  for (int n = 0; n < 8; n++)\n    \
               try { std::printf(\"%d\\n\", middle(n, count + 2, n)); }\n    \
               catch (...) { std::puts(PCCE_TOKEN); }\n}\n";
    let two = "int thrower(int n, int a, int b) {\n  if (n == 4) throw (char)n;\n  if (n % 2 == 0) throw n;\n  \
               int more[4] = {n, a, b, n};\n  __asm__ volatile(\"\" : : \"r\"(more) : \"memory\", \"rsi\", \"rdi\", \
               \"rcx\", \"rdx\", \"r8\", \"r9\");\n  return n + a + b;\n}\n";
    fs::write(folder.join("one.cpp"), one).unwrap();
    fs::write(folder.join("two.cpp"), two).unwrap();
    for flags in [&["-O0"][..], &["-O2"], &["-O3"], &["-O2", "-mllvm", "-enable-ipra"]] {
        let built = |mode: &str| {
            let program = format!("{mode}{}", flags.concat());
            let mode = format!("--pcce-mode={mode}");
            let arguments = [&mode, "-g", "-w", "one.cpp", "two.cpp", "-o", &program];
            let mut clang = command(artifact("pcce-clang++"), flags);
            let _ = run(clang.args(arguments).current_dir(&folder)).expect_success();
            contexts(&folder, &program)
        };
        let expected = built("module");
        assert_eq!(expected.lines().filter(|line| line.starts_with("main")).count(), 8, "{expected}");
        assert_eq!(built("link"), expected, "{flags:?}");
    }
}

/// A module whose code refers to none of its call sites is a module like others.
#[test]
fn linkers_keep_the_sites_of_what_they_keep() {
    let folder = work_folder("link_mode/collected");
    let show = "#include <pcce.h>\n#include <stdio.h>\nint show(int n) { puts(PCCE_TOKEN); return n; }\n";
    let main = "int two(int n);\nint main(void) { return two(1) + two(2) != 5; }\n";
    let two = "int show(int n);\nint unused(int n) { return show(n + 1); }\nint two(int n) { return show(n) + 1; }\n";
    for (name, text) in [("show.c", show), ("main.c", main), ("two.c", two)] {
        fs::write(folder.join(name), text).unwrap();
    }
    for linker in LINKERS {
        let flags =
            ["--pcce-mode=link", "-g", "-O2", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"];
        let files = ["main.c", "two.c", "show.c", "-o", "program"];
        let mut clang = command(artifact("pcce-clang"), &[&flags[..], &files, linker].concat());
        let _ = run(clang.current_dir(&folder)).expect_success();
        assert_eq!(contexts(&folder, "program"), "main;two;show\nmain;two;show\n", "{linker:?}");
    }
}

/// A function that two modules define, and that has neither updates nor stubs: which body the linker has kept is seen
/// by the sites that it names, also where the linker gives the other body the same address (GNU ld).
#[test]
fn the_body_that_was_kept_is_known_by_its_sites() {
    let folder = work_folder("link_mode/bodies");
    let header = "#include <pcce.h>\n#include <stdio.h>\n\
        [[gnu::noinline]] inline void take(char *to) { pcce_token(to, 400); }\n";
    let one = "#include \"take.h\"\nvoid other();\nint main() { char t[400]; take(t); puts(t); other(); }\n";
    let two = "#include \"take.h\"\nvoid other() { char t[400]; take(t); puts(t); }\n";
    for (name, text) in [("take.h", header), ("one.cpp", one), ("two.cpp", two)] {
        fs::write(folder.join(name), text).unwrap();
    }
    for order in [["one.cpp", "two.cpp"], ["two.cpp", "one.cpp"]] {
        for linker in LINKERS {
            let build = [&["--pcce-mode=link", "-g", "-O2", "-o", "program"], &order[..], linker].concat();
            let _ = run(command(artifact("pcce-clang++"), &build).current_dir(&folder)).expect_success();
            let expected = "main;take(char*)\nmain;other();take(char*)\n";
            assert_eq!(contexts(&folder, "program"), expected, "{order:?}, {linker:?}");
        }
    }
}

/// What an object of link mode carries.
fn unlinked(object: &Path) -> Unlinked {
    let data = fs::read(object).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let content = file.section_by_name(section::SECTION).unwrap().uncompressed_data().unwrap();
    match section::parse(&content).unwrap().remove(0) {
        Record::Unlinked(unlinked) => unlinked,
        _ => panic!("no unlinked record"),
    }
}

/// The name of a module in its no-ops, once its source is called so.
fn short_name(module: &Unlinked, source: &str) -> u64 {
    let symbols = pcce_dictionary::Module { name: source.to_owned(), ..module.module.clone() };
    let content = fragment::to_bytes(&symbols, &[]);
    let bytes = source.bytes().chain(content);
    bytes.fold(0xcbf2_9ce4_8422_2325, |h: u64, x| (h ^ u64::from(x)).wrapping_mul(0x0100_0000_01b3)) >> 38
}

/// Names in no-ops have 26 bits: of many modules two may have the same one.
#[test]
fn modules_with_the_same_short_name_are_told_apart() {
    let folder = work_folder("link_mode/names");
    for (name, text) in CALLING {
        fs::write(folder.join(name), text).unwrap();
    }
    let clang = |arguments: &[&str]| run(command(artifact("pcce-clang"), arguments).current_dir(&folder));
    let compile = |source: &str| {
        let _ =
            clang(&["--pcce-mode=link", "-O2", "-c", source, "-o", &format!("{source}.o")]).expect_success();
        unlinked(&folder.join(format!("{source}.o")))
    };
    let (one, two) = (compile("one.c"), compile("two.c"));
    let names: HashMap<u64, u32> =
        (0..1 << 13).map(|i| (short_name(&one, &format!("one{i}.c")), i)).collect();
    let same = (0..1_u32 << 20)
        .find_map(|i| Some((*names.get(&short_name(&two, &format!("two{i}.c")))?, i)))
        .expect("two of so many are the same");
    let sources = [format!("one{}.c", same.0), format!("two{}.c", same.1)];
    let mut found = Vec::new();
    for (source, (_, text)) in sources.iter().zip(CALLING) {
        fs::write(folder.join(source), text).unwrap();
        let facts: serde_json::Value = serde_json::from_str(&compile(source).facts).unwrap();
        found.push(facts["module"].as_u64());
    }
    assert!(found[0].is_some() && found[0] == found[1], "{found:?}");
    let link = |objects: [&str; 2], to: &str| {
        let objects = objects.map(|source| format!("{source}.o"));
        let _ = clang(&["--pcce-mode=link", &objects[0], &objects[1], "-o", to]).expect_success();
        contexts(&folder, to)
    };
    assert_eq!(link([&sources[0], &sources[1]], "same"), link(["one.c", "two.c"], "other"));
}

/// Values of more than 31 bits within a module that calls nothing else: it leaves room for them.
#[test]
fn wide_values_have_room() {
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
        let _ = run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
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

/// Values that are wide only where two modules come together, so that neither has room for them: they are in the places
/// of stubs that are not needed, but not of those that are too short.
#[test]
fn wide_values_are_put_where_stubs_were() {
    const LEVELS: usize = 20;
    let folder = work_folder("link/wide_stubs");
    let module = |name: &str, other: &str, last: &str| {
        let mut source = format!(
            "#include <pcce.h>\n#include <stdio.h>\nextern int (*volatile pointer)(int);\n\
             int {other}_helper(int n);\nint {name}_helper(int n) {{ return n + 1; }}\nvoid b0(long n);\n\
             __attribute__((noinline)) static void {name}{LEVELS}(long n) {{ {last} }}\n"
        );
        for level in (0..LEVELS).rev() {
            let next = level + 1;
            let linkage = if level == 0 { "" } else { "static " };
            source += &format!(
                "__attribute__((noinline)) {linkage}void {name}{level}(long n) {{\n  \
                 if (pointer({other}_helper(1)) == (n >> 60)) return;\n  \
                 if (n >> {level} & 1) {{ __asm__ volatile(\"# a\"); {name}{next}(n); __asm__ volatile(\"# b\"); }}\n  \
                 else {{ __asm__ volatile(\"# c\"); {name}{next}(n); __asm__ volatile(\"# d\"); }}\n}}\n"
            );
        }
        source
    };
    let last = "if (n & 1) { b0(n >> 20); puts(\"odd\"); } else { b0(n >> 20); puts(\"even\"); }";
    let main = "static int own(int n) { puts(PCCE_TOKEN); return n; }\nint (*volatile pointer)(int) = own;\n\
         int main(void) { unsigned long n = 1; for (int i = 0; i < 20; i++, n = n * 2862933555777941757ul + 7)\n  \
         a0((long)(n >> 4)); }\n";
    fs::write(folder.join("a.c"), module("a", "b", last) + main).unwrap();
    fs::write(folder.join("b.c"), module("b", "a", "puts(PCCE_TOKEN);")).unwrap();
    let contexts = |mode: &str, flags: &[&str]| {
        let words = [&["-g", "-w", "-O1", mode, "a.c", "b.c", "-o", "wide"], flags].concat();
        let _ = run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
        let tokens = run(command(folder.join("wide"), &[]).current_dir(&folder)).expect_success().stdout;
        let decode = ["filter", "wide", "--format", "folded"];
        run_with_input(command(artifact("pcce"), &decode).current_dir(&folder), &tokens)
            .expect_success()
            .stdout
    };
    let expected = contexts("--pcce-mode=module", &[]);
    assert!(expected.contains(";b20") && expected.contains(";own"), "{expected}");
    for flags in [&["-pie"][..], &["-no-pie", "-fuse-ld=bfd"], &["-Wl,--gc-sections"], &["--pcce-verify"]] {
        assert_eq!(contexts("--pcce-mode=link", flags), expected, "{flags:?}");
    }
    // They are there.
    let words = ["-d", "--no-show-raw-insn", "wide"];
    let code = run(command(llvm("llvm-objdump"), &words).current_dir(&folder)).expect_success().stdout;
    assert!(code.lines().filter(|line| line.contains("movabsq")).count() > 10, "{code}");
}

/// A cycle of one module that goes through a pointer: the call through it pushes in the code, and those by name add.
#[test]
fn cycles_through_pointers_push_there() {
    let folder = work_folder("link/cold");
    let source = "#include <pcce.h>\n#include <stdio.h>\nstatic int work(int n);\nint (*volatile f)(int) = work;\n\
        __attribute__((noinline)) int hot(int n) {\n  int sum = 0;\n  for (int i = 0; i < n; i++) sum += f(i);\n  \
        return sum;\n}\n\
        __attribute__((noinline, cold)) static int rare(int n) { puts(PCCE_TOKEN); return hot(n - 1) + 1; }\n\
        static int work(int n) { if (__builtin_expect(n == 2, 0)) return rare(n) + 1; return n; }\n\
        int main(void) { return hot(4) + hot(3) == 0; }\n";
    fs::write(folder.join("cold.c"), source).unwrap();
    let contexts = |mode: &str, flags: &[&str]| {
        let words = [&["-g", "-w", "-O1", mode, "cold.c", "-o", "cold"], flags].concat();
        let _ = run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
        let tokens = run(command(folder.join("cold"), &[]).current_dir(&folder)).expect_success().stdout;
        let words = ["filter", "cold", "--format", "folded"];
        run_with_input(command(artifact("pcce"), &words).current_dir(&folder), &tokens)
            .expect_success()
            .stdout
    };
    let expected = contexts("--pcce-mode=module", &[]);
    assert_eq!(expected, "main;hot;work;rare\n".repeat(2));
    for flags in [&["-pie"][..], &["-no-pie", "-fuse-ld=bfd"], &["--pcce-verify"], &["-O2"]] {
        assert_eq!(contexts("--pcce-mode=link", flags), expected, "{flags:?}");
    }
    let code = |function: &str| {
        let words = ["-d", "--no-show-raw-insn", &format!("--disassemble-symbols={function}"), "cold"];
        run(command(llvm("llvm-objdump"), &words).current_dir(&folder)).expect_success().stdout
    };
    assert!(!code("hot").contains("*%r10"), "no stub pushes: {}", code("hot"));
    let by_name = [code("work").contains("<rare>"), code("rare").contains("<hot>")];
    assert_eq!(by_name, [true; 2], "none of them pushes: {}{}", code("work"), code("rare"));
}
