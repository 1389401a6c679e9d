//! Link mode with all four linkers: build steps besides compiling and linking. Each shows the contexts of module mode,
//! which has nothing between compiler and linker.

use std::fs;
use std::path::Path;

use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, folded_with_libraries, run, work_folder, write_files};

const LINKERS: [&str; 4] = ["bfd", "gold", "lld", "mold"];

const HEADER: &str = "#pragma once\n#include <pcce.h>\n#include <stdio.h>\n\
    #define NOINLINE __attribute__((noinline))\n#define KEEP __asm__ volatile(\"\" ::: \"memory\")\n\
    static NOINLINE int show(int n) { printf(\"%d %s\\n\", n, PCCE_TOKEN); KEEP; return n + 1; }\n";

/// A name, files with their contents, and the commands that make `program` of them. `$CC` compiles, `$LD` links.
struct Way {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    commands: &'static str,
}

const LIBRARY: &str = "#include \"show.h\"\nNOINLINE int inner(int n) { int r = show(n); KEEP; return r; }\n\
    NOINLINE int outer(int n) { int r = inner(n) + inner(n + 1); KEEP; return r; }\n";
const CALLS_OUTER: &str = "int outer(int);\nint main(void) { return outer(1) + outer(5) == 0; }\n";

const WAYS: [Way; 13] = [
    Way {
        name: "exclude-libs",
        files: &[
            ("a.c", LIBRARY),
            (
                "b.c",
                "#include \"show.h\"\nint outer(int);\nNOINLINE int api(int n) { int r = outer(n); KEEP; return r; }\n",
            ),
            ("main.c", "int api(int);\nint main(void) { return api(1) == 0; }\n"),
        ],
        commands: "$CC -fPIC -c a.c b.c\nar rcs liba.a a.o\n\
            $LD -shared b.o liba.a -Wl,--exclude-libs,ALL -o libapi.so\n\
            if nm -D libapi.so | grep ' T outer'; then exit 1; fi\n\
            $CC -c main.c\n$LD main.o -L. -lapi -o program",
    },
    Way {
        name: "symver",
        files: &[
            (
                "lib.c",
                "#include \"show.h\"\n__asm__(\".symver api_old, api@V1\");\n__asm__(\".symver api_new, api@@V2\");\n\
                 NOINLINE int api_old(int n) { int r = show(n); KEEP; return r; }\n\
                 NOINLINE int api_new(int n) { int r = show(n + 10); KEEP; return r; }\n",
            ),
            ("map", "V1 { global: api; local: *; };\nV2 { global: api; } V1;\n"),
            (
                "main.c",
                "__asm__(\".symver api_first, api@V1\");\nint api_first(int), api(int);\n\
                 int main(void) { return api_first(1) + api(2) == 0; }\n",
            ),
        ],
        commands: "$CC -fPIC -c lib.c\n$LD -shared lib.o -Wl,--version-script=map -o libapi.so\n\
            nm -D libapi.so | grep -q 'api@@V2'\n$CC -c main.c\n$LD main.o -L. -lapi -o program",
    },
    Way {
        name: "ifunc",
        files: &[(
            "main.c",
            "#include \"show.h\"\nstatic int one(int n) { int r = show(n); KEEP; return r; }\n\
             static int two(int n) { int r = show(-n); KEEP; return r; }\n\
             static int (*choose(void))(int) { return sizeof(long) == 8 ? two : one; }\n\
             int pick(int) __attribute__((ifunc(\"choose\")));\n\
             int main(void) { int r = pick(1); KEEP; return r + pick(2) == 0; }\n",
        )],
        commands: "$CC -c main.c\n$LD main.o -o program",
    },
    Way {
        name: "assembly",
        files: &[
            ("a.c", LIBRARY),
            (
                "main.c",
                "int from_assembly(int);\n\
                 __asm__(\".text\\n.globl from_assembly\\nfrom_assembly: sub $8, %rsp\\ncall outer@PLT\\nadd $8, %rsp\\nret\");\n\
                 int main(void) { return from_assembly(3) == 0; }\n",
            ),
        ],
        commands: "$CC -c a.c main.c\n$LD a.o main.o -o program",
    },
    Way {
        // As kernels and tracers do it: rows in a section of their own, which other modules read, and names.
        name: "assembly_in_functions",
        files: &[
            (
                "a.c",
                "#include \"show.h\"\n\
                 static int counted(int n) {\n\
                   __asm__ goto(\"1: nop\\n.pushsection rows,\\\"a\\\"\\n.quad %c0\\n.popsection\" :: \"i\"(7) :: odd);\n\
                   __asm__ volatile(\".globl in_counted\\nin_counted:\" ::: \"memory\");\n\
                   int r = show(n); KEEP; return r;\n\
                 odd: return 1;\n}\n\
                 int outer(int n) { int r = counted(n); KEEP; return r; }\n",
            ),
            (
                "main.c",
                "int outer(int);\nextern const long __start_rows[], __stop_rows[];\nextern const char in_counted[];\n\
                 int main(void) { return __stop_rows - __start_rows != 1 || *__start_rows != 7 || (long)in_counted == 0 || !outer(1) || !outer(5); }\n",
            ),
        ],
        commands: "$CC -c a.c main.c\n$LD a.o main.o -o program",
    },
    Way {
        name: "defsym",
        files: &[("a.c", LIBRARY), ("main.c", "int other(int);\nint main(void) { return other(1) == 0; }\n")],
        commands: "$CC -c a.c main.c\n$LD a.o main.o -Wl,--defsym=other=outer -o program",
    },
    Way {
        name: "unity",
        files: &[
            ("a.c", LIBRARY),
            ("main.c", CALLS_OUTER),
            ("unity.c", "#include \"a.c\"\n#include \"main.c\"\n"),
        ],
        commands: "$CC -c unity.c\n$LD unity.o -o program",
    },
    Way {
        name: "precompiled",
        files: &[("a.c", LIBRARY), ("main.c", CALLS_OUTER)],
        commands: "$CC -x c-header show.h -o show.h.pch\n$CC -include-pch show.h.pch -c a.c main.c\n\
            $LD a.o main.o -o program",
    },
    Way {
        name: "dependencies",
        files: &[("a.c", LIBRARY), ("main.c", CALLS_OUTER)],
        commands: "$CC -MMD -MF a.d -MT made -c a.c\ngrep -q '^made:.*a.c' a.d\ngrep -q show.h a.d\n\
            $CC -c main.c\n$LD a.o main.o -o program",
    },
    Way {
        name: "levels",
        files: &[("a.c", LIBRARY), ("main.c", CALLS_OUTER)],
        commands: "$CC -O0 -c a.c\n$CC -O3 -march=x86-64-v2 -fno-plt -c main.c\n$LD a.o main.o -o program",
    },
    // The files that a linker writes beside the program belong to the program, not to the first link.
    Way {
        name: "maps",
        files: &[("a.c", LIBRARY), ("main.c", CALLS_OUTER)],
        commands: "$CC -c a.c main.c\n$LD a.o main.o -Wl,-Map=program.map -o program\n\
            grep -q outer program.map\n$LD a.o main.o -Wl,-Map=/dev/stdout -o program > log\n\
            grep -q outer log\nif grep -q inputs- log; then exit 1; fi\n\
            $LD a.o main.o -o /dev/null\ntest -c /dev/null",
    },
    // `make` finds every file that the program is made of, and none that is newer.
    Way {
        name: "dependency-file",
        files: &[
            ("a.c", LIBRARY),
            ("main.c", CALLS_OUTER),
            (
                "Makefile",
                "program: a.o main.o\n\t$(LD) a.o main.o -Wl,--dependency-file=deps -o program\n-include deps\n",
            ),
        ],
        commands: "$CC -c a.c main.c\nmake -s LD=\"$LD\"\ngrep -q 'main.o' deps\nmake -q LD=\"$LD\"",
    },
    Way {
        name: "lists",
        files: &[("a.c", LIBRARY), ("main.c", CALLS_OUTER), ("list", "{ inner; };\n")],
        commands: "$CC -c a.c main.c\n$LD a.o main.o -Wl,--dynamic-list=list -o program\n\
            nm -D program | grep -q ' T inner'\nif nm -D program | grep -q ' T outer'; then exit 1; fi",
    },
];

/// Builds in a folder of its own, and returns the contexts that the program shows.
fn shown(folder: &Path, way: &Way, mode: &str, linker: &str) -> String {
    let folder = folder.join(format!("{}-{mode}-{linker}", way.name));
    fs::create_dir_all(&folder).unwrap();
    write_files(&folder, way.files.iter().chain(&[("show.h", HEADER)]).copied());
    let compiler = format!("{} --pcce-mode={mode} --pcce-verify -g -O1 -w", artifact("pcce-clang").display());
    let mut shell = command("sh", &["-e", "-c", way.commands]);
    let linking = format!("{compiler} -fuse-ld={linker}");
    run(shell.current_dir(&folder).env("CC", &compiler).env("LD", linking)).expect_success();
    let text = folded_with_libraries(&folder, "program");
    let report = fs::read_to_string(folder.join("report")).unwrap_or_default();
    assert!(!report.contains("mismatch at"), "{} {mode} {linker}: {report}", way.name);
    text
}

#[test]
fn builds_of_all_kinds_show_the_same_contexts() {
    let folder = work_folder("link_ways");
    for (number, way) in WAYS.iter().enumerate() {
        // A module by itself does not know names that the linker has made.
        let expected = shown(&folder, way, "module", "bfd").replace("<other, not instrumented>;", "");
        assert!(expected.lines().count() >= 2 && expected.contains(" main;"), "{}: {expected}", way.name);
        for linker in in_turn(number, LINKERS) {
            assert_eq!(shown(&folder, way, "link", linker), expected, "{} by {linker}", way.name);
        }
    }
}
