//! Link mode with everything that linkers do, and with code that is built otherwise.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, folded_with_libraries, run, work_folder};

const KEEP: &str = "#define KEEP __asm__ volatile(\"\" ::: \"memory\")\n";
const SHOW: &str = "#include <pcce.h>\n#include <stdio.h>\n\
    __attribute__((noinline)) static void show(const char *what) { printf(\"%s %s\\n\", what, PCCE_TOKEN); }\n";

/// Calls between modules by name and through pointers, recursion, a weak function with a strong definition elsewhere,
/// and a wrapped function.
const SOURCES: [(&str, &str); 8] = [
    (
        "main",
        "int two(int, int (*)(int)); int lib(int, int (*)(int)); int plain(int, int (*)(int)); int wrapped(int);\n\
         int back(int n) { show(\"back\"); return n + 1; }\n\
         int main(void) { int r = two(3, back); KEEP; r += lib(1, back); KEEP; r += plain(2, back); KEEP;\n\
           r += wrapped(1); KEEP; return r == 0; }\n",
    ),
    (
        "two",
        "int back(int); int three(int);\nstatic int down(int n) { return n ? down(n - 1) + back(n) : 0; }\n\
         int two(int n, int (*f)(int)) { int r = f(n) + down(n) + back(n - 3) + three(n); KEEP; return r; }\n\
         int unused(int n) { return back(n) + three(n); }\n",
    ),
    (
        "three",
        "__attribute__((weak)) int weak(int n) { show(\"weak\"); return n; }\n\
         int three(int n) { int r = weak(n); KEEP; return r; }\n",
    ),
    ("weak", "int weak(int n) { show(\"strong\"); return n; }\n"),
    ("wrapped", "int wrapped(int n) { show(\"wrapped\"); return n; }\n"),
    (
        "wrap",
        "int __real_wrapped(int);\n\
         int __wrap_wrapped(int n) { int r = __real_wrapped(n) + 1; KEEP; return r; }\n",
    ),
    (
        "lib",
        "static int inner(int n, int (*f)(int)) { int r = f(n); show(\"inner\"); return r; }\n\
         int lib(int n, int (*f)(int)) { int r = inner(n, f); KEEP; return r; }\n",
    ),
    // Compiled by another compiler.
    ("plain", "int plain(int n, int (*f)(int)) { int r = f(n); KEEP; return r; }\n"),
];

/// The sorted output of the program, if the linker wraps nothing.
const EXPECTED: [&str; 10] = [
    "back main;<plain, not instrumented>;back;show",
    "back main;lib;inner;back;show",
    "back main;two;back;show",
    "back main;two;back;show",
    "back main;two;down;back;show",
    "back main;two;down;down;back;show",
    "back main;two;down;down;down;back;show",
    "inner main;lib;inner;show",
    "strong main;two;three;weak;show",
    "wrapped main;wrapped;show",
];
const WRAPPED: &str = "wrapped main;__wrap_wrapped;wrapped;show";

/// Makes a folder with the sources, and `plain.o`.
fn sources(name: &str) -> PathBuf {
    let folder = work_folder(name);
    for (name, text) in SOURCES {
        let head = if name == "plain" { KEEP.to_owned() } else { format!("{KEEP}{SHOW}") };
        fs::write(folder.join(format!("{name}.c")), head + text).unwrap();
    }
    run(command("gcc", &["-g", "-O2", "-c", "plain.c"]).current_dir(&folder)).expect_success();
    folder
}

/// Runs the wrapper in a mode, on words that blanks separate.
fn pcce(folder: &Path, mode: &str, words: &str) {
    let flags = [&format!("--pcce-mode={mode}"), "-g", "-O2", "-fno-inline", "-w"];
    let mut clang = command(artifact("pcce-clang"), &flags);
    run(clang.args(words.split_whitespace()).current_dir(folder)).expect_success();
}

/// The sorted output of a program. The dictionaries of its libraries are in its folder.
fn shown(folder: &Path, program: &str) -> Vec<String> {
    let text = folded_with_libraries(folder, program);
    let mut shown: Vec<String> = text.lines().map(str::to_owned).collect();
    shown.sort();
    shown
}

/// Archives, relocatable links, discarded sections, wrapped, weak and hidden functions, all kinds of executables.
#[test]
fn all_that_linkers_do() {
    let mode = "link";
    let folder = sources("link_mixtures/linkers");
    let names = ["main", "two", "three", "weak", "wrapped", "wrap", "lib"];
    for name in names {
        pcce(&folder, mode, &format!("-ffunction-sections -c {name}.c"));
    }
    let archive = ["rcs", "all.a", "two.o", "three.o", "weak.o", "wrapped.o", "wrap.o", "lib.o"];
    run(command("ar", &archive).current_dir(&folder)).expect_success();
    fs::write(folder.join("map"), "V { global: back; local: *; };\n").unwrap();
    let objects = "main.o two.o three.o weak.o wrapped.o wrap.o lib.o plain.o";
    let mut expected = EXPECTED.map(str::to_owned).to_vec();
    expected[9] = WRAPPED.to_owned();
    for (place, linker) in ["lld", "bfd", "gold", "mold"].into_iter().enumerate() {
        pcce(&folder, mode, &format!("-fuse-ld={linker} -r two.o three.o weak.o -o some.o"));
        let joined = "main.o some.o wrapped.o wrap.o lib.o plain.o";
        let ways = [
            objects,
            "main.o -Wl,--whole-archive all.a -Wl,--no-whole-archive plain.o",
            joined,
            &format!("{objects} -Wl,--gc-sections"),
            &format!("{objects} -Wl,--version-script=map"),
            &format!("{objects} -rdynamic -Wl,-Bsymbolic"),
            &format!("{objects} -no-pie"),
            &format!("{objects} -static -no-pie"),
            &format!("{objects} -Wl,-x -Wl,-z,now"),
            &format!("{objects} -Wl,--icf=all"),
            &format!("{objects} -Wl,--compress-debug-sections=zlib"),
        ];
        for what in in_turn(place, ways) {
            if linker == "bfd" && what.contains("--icf") {
                continue;
            }
            pcce(&folder, mode, &format!("-fuse-ld={linker} -Wl,--wrap=wrapped {what} -o program"));
            assert_eq!(shown(&folder, "program"), expected, "{linker} {what}");
        }
        // A weak reference takes no member out of an archive.
        pcce(&folder, mode, &format!("-fuse-ld={linker} -Wl,--wrap=wrapped main.o all.a plain.o -o program"));
        let weak: Vec<String> = expected.iter().map(|line| line.replace("strong ", "weak ")).collect();
        assert_eq!(shown(&folder, "program"), weak, "{linker}");
    }
}

/// Objects of link mode beside those of module mode, those with -fPIC, and shared libraries of all modes: contexts and
/// verify mode agree.
#[test]
fn mixtures_of_modes() {
    for verify in ["", " --pcce-verify"] {
        let folder = sources(&format!("link_mixtures/modes{}", verify.trim()));
        for name in ["main", "two", "three", "weak", "wrapped", "lib"] {
            for (kind, mode, flags) in
                [("link", "link", ""), ("module", "module", ""), ("pic", "link", "-fPIC")]
            {
                pcce(&folder, mode, &format!("{flags}{verify} -c {name}.c -o {name}.{kind}.o"));
            }
        }
        let check = |objects: &str, what: &str| {
            pcce(&folder, "link", &format!("{objects}{verify} -o program"));
            assert_eq!(shown(&folder, "program"), EXPECTED, "{what}{verify}");
        };
        for kinds in [
            ["link", "module", "link", "link", "link", "link"],
            ["module", "link", "link", "link", "module", "link"],
            ["link", "pic", "link", "pic", "link", "pic"],
            ["pic", "link", "module", "pic", "link", "module"],
        ] {
            let names = ["main", "two", "three", "weak", "wrapped", "lib"];
            let objects: String = names.iter().zip(kinds).map(|(n, kind)| format!("{n}.{kind}.o ")).collect();
            check(&format!("{objects}plain.o"), &objects);
        }
        let with_library = " -L. -lours -rdynamic";
        for mode in ["link", "module", "lto"] {
            pcce(&folder, mode, &format!("-fPIC{verify} -shared lib.c -o libours.so"));
            let objects = "main.link.o two.link.o three.link.o weak.link.o wrapped.link.o plain.o";
            check(&format!("{objects}{with_library}"), &format!("a library in {mode} mode"));
        }
        let objects = "two.pic.o three.pic.o weak.pic.o wrapped.pic.o lib.pic.o";
        pcce(&folder, "link", &format!("{objects}{verify} -shared -o libours.so"));
        check(&format!("main.link.o plain.o{with_library}"), "nearly all in a library");
    }
}

/// An object can hold bitcode beside machine code. No link may take the machine code, which is not instrumented.
#[test]
fn thin_links_take_the_bitcode_beside_machine_code() {
    let folder = sources("link_mixtures/thin");
    let names = ["main", "two", "three", "weak", "wrapped", "lib"];
    for name in names {
        pcce(&folder, "module", &format!("-c {name}.c -o {name}.module.o"));
        pcce(&folder, "link", &format!("-flto=thin -ffat-lto-objects -c {name}.c -o {name}.thin.o"));
    }
    pcce(&folder, "lto", "-c main.c -o main.lto.o");
    let objects = |kind: &str| names.map(|name| format!("{name}.{kind}.o")).join(" ");
    pcce(&folder, "module", &format!("{} plain.o -o modules", objects("module")));
    pcce(&folder, "link", &format!("-flto=thin {} plain.o -o program", objects("thin")));
    assert_eq!(shown(&folder, "program"), shown(&folder, "modules"));
    // There, bitcode of full LTO is a module of its own.
    let mixed = objects("thin").replace("main.thin.o", "main.lto.o");
    pcce(&folder, "link", &format!("-flto=thin {mixed} plain.o -o mixed"));
    assert_eq!(shown(&folder, "mixed"), shown(&folder, "modules"));
}
