//! Functions of a library that another image may replace: the library's own calls of them reach whatever the loader has
//! bound the names to.

use std::path::Path;

use pcce_testsuite::{artifact, command, folded, llvm, run, source, work_folder, write_files};

const SOURCES: [(&str, &str); 5] = [
    ("library.h", source!("link/replaceable/library.h")),
    ("first.cpp", source!("link/replaceable/first.cpp")),
    ("second.cpp", source!("link/replaceable/second.cpp")),
    ("main.cpp", source!("link/replaceable/main.cpp")),
    ("other.cpp", source!("link/replaceable/other.cpp")),
];

/// How the program is run: what is loaded before the library, and the program's arguments.
const RUNS: [(&str, &[&str]); 11] = [
    ("", &[]),
    ("./libother.so", &[]),
    ("./libplain.so", &[]),
    ("", &["now", "./libcopy.so", "./libcopy2.so"]),
    ("", &["close", "./libcopy.so", "./libcopy2.so", "./libcopy.so"]),
    ("", &["deep", "./libcopy.so"]),
    ("./libother.so", &["deep", "./libcopy.so", "./libcopy2.so"]),
    ("./libother.so", &["lazy", "./libcopy.so"]),
    ("./libplain.so", &["close", "./libcopy.so", "./libcopy2.so", "./libcopy.so"]),
    ("", &["namespace", "./libcopy.so"]),
    ("./libplain.so", &["namespace", "./libcopy.so"]),
];

fn pcce(folder: &Path, flags: &str, words: &str) {
    let mut clang = command(artifact("pcce-clang++"), &["-g", "-w"]);
    let clang = clang.args(flags.split_whitespace()).args(words.split_whitespace());
    run(clang.current_dir(folder)).expect_success();
}

/// The output of each run, with the contexts of its tokens. Verify mode cannot compare calls between two runtimes.
fn outputs(folder: &Path, program: &str, verify: bool) -> Vec<String> {
    let has_one_runtime = |words: &[&str]| !words.iter().any(|word| ["deep", "namespace"].contains(word));
    let output = |&(preload, words): &(&str, &[&str])| {
        let mut process = command(folder.join(program), words);
        let process = process.current_dir(folder).env("LD_LIBRARY_PATH", folder).env("LD_PRELOAD", preload);
        let lines = run(process).expect_success().stdout;
        let contexts = folded(folder, &[program, "--dicts", "."], &lines);
        // Beside another runtime, a call through a pointer is known only if the pointer was compared.
        format!("{preload} {words:?}\n{}", contexts.replace(";<unknown calls>", ""))
    };
    RUNS.iter().filter(|(_, words)| !verify || has_one_runtime(words)).map(output).collect()
}

/// Compares the library in these modes with that of module mode, which pushes for each of these calls.
fn compare(folder: &str, modes: &[&str], flags: &str, linking: &str) {
    let folder = work_folder(&format!("link_replaceable/{folder}"));
    write_files(&folder, SOURCES);
    let plain = ["-O1", "-w", "-fPIC", "-shared", "-DPLAIN", "other.cpp", "-o", "libplain.so", "-I"];
    let mut plain = command(llvm("clang++"), &plain);
    run(plain.arg(artifact("include")).current_dir(&folder)).expect_success();
    let built = |mode: &str| {
        let flags = format!("{flags} --pcce-mode={mode}");
        pcce(&folder, &flags, &format!("{linking} -fPIC -shared first.cpp second.cpp -o liblib.so"));
        pcce(&folder, &flags, &format!("{linking} -fPIC -shared other.cpp -o libother.so"));
        for copy in ["libcopy.so", "libcopy2.so"] {
            std::fs::copy(folder.join("liblib.so"), folder.join(copy)).unwrap();
        }
        for (program, pie) in [("program", "-pie"), ("fixed", "-no-pie -fno-pic")] {
            pcce(&folder, &flags, &format!("{linking} {pie} main.cpp -L. -llib -o {program}"));
        }
        ["program", "fixed"].map(|program| outputs(&folder, program, flags.contains("verify")))
    };
    let expected = built("module");
    for mode in modes {
        for (expected, found) in expected.iter().flatten().zip(built(mode).iter().flatten()) {
            let first = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
            assert_eq!(first, None, "{mode} {flags} {linking}\n{expected}");
            assert_eq!(found, expected, "{mode} {flags} {linking}");
        }
    }
    let replaced = expected[0][1].lines().filter(|line| line.starts_with("other ")).count();
    let bound_by_link = linking.contains("symbolic");
    assert!(replaced > if bound_by_link { 0 } else { 20 }, "{}", expected[0][1]);
}

#[test]
fn calls_reach_what_the_loader_has_bound() {
    for (number, (flags, linking)) in [
        ("-O2", "-fuse-ld=lld"),
        ("-O2 --pcce-verify", "-fuse-ld=bfd -Wl,-z,now -Wl,-z,relro"),
        ("-O0 --pcce-verify", "-fuse-ld=gold -Wl,-z,lazy"),
        ("-O1 -fno-plt -fcf-protection=full", "-fuse-ld=mold -Wl,-z,now"),
        ("-O2 -fno-semantic-interposition --pcce-verify", "-fuse-ld=lld -Wl,--gc-sections"),
        ("-Os -ffunction-sections -fdata-sections", "-fuse-ld=bfd -Wl,-Bsymbolic-functions"),
    ]
    .into_iter()
    .enumerate()
    {
        compare(&number.to_string(), &["link"], flags, linking);
    }
}

/// LTO takes the library's functions for its own unless it is told otherwise.
#[test]
fn calls_reach_what_the_loader_has_bound_with_lto() {
    for (number, flags) in ["-O2", "-O2 --pcce-verify", "-O0 --pcce-verify"].into_iter().enumerate() {
        let flags = format!("{flags} -fsemantic-interposition");
        compare(&format!("lto{number}"), &["lto", "link"], &flags, "-fuse-ld=lld");
    }
}

/// `--wrap` binds a name otherwise in other modules than in the function's own.
#[test]
fn wrapped_names_reach_their_wrappers() {
    let folder = work_folder("link_replaceable/wrapped");
    let own = "#include <stdio.h>\nvoid f(int x) { printf(\"f %d\\n\", x); }\nvoid in_own(void) { f(1); }\n";
    let other = "void f(int);\nvoid in_other(void) { f(2); f(3); }\n";
    let wrapper = "#include <stdio.h>\nvoid __real_f(int);\nvoid __wrap_f(int x) { printf(\"wrapped \"); __real_f(x); }\n";
    let main = "void in_own(void), in_other(void);\nint main(void) { in_own(); in_other(); return 0; }\n";
    write_files(&folder, [("own.c", own), ("other.c", other), ("wrapper.c", wrapper), ("main.c", main)]);
    for linker in ["bfd", "gold", "lld", "mold"] {
        let output = |compiler: &Path| {
            let clang = |words: &str| {
                let mut clang = command(compiler, &["-O1", "-fno-inline", "-fsemantic-interposition"]);
                run(clang.args(words.split(' ')).current_dir(&folder)).expect_success();
            };
            let link =
                format!("-fuse-ld={linker} -Wl,--wrap=f -fPIC -shared own.c other.c wrapper.c -o liblib.so");
            clang(&link);
            clang("main.c -L. -llib -o program");
            let mut program = command(folder.join("program"), &[]);
            run(program.env("LD_LIBRARY_PATH", &folder)).expect_success().stdout
        };
        let expected = output(&llvm("clang"));
        assert!(expected.contains("wrapped f 2"), "{linker}: {expected}");
        assert_eq!(output(&artifact("pcce-clang")), expected, "{linker}");
    }
}

/// A function that does not throw is replaced by one that does. The compiler may have relied on the first one, but its
/// code happens to pass the exception on.
#[test]
fn replacements_may_throw() {
    let folder = work_folder("link_replaceable/thrown");
    let sources = [
        ("library.cpp", source!("link/thrown_replaced/library.cpp")),
        ("main.cpp", source!("link/thrown_replaced/main.cpp")),
    ];
    write_files(&folder, sources);
    let modes = ["--pcce-mode=link", "--pcce-mode=lto", "--pcce-mode=module", "-flto=thin -fuse-ld=lld"];
    for (mode, level) in modes.iter().flat_map(|mode| ["-O0", "-O2"].map(|level| (mode, level))) {
        let flags = format!("{level} {mode}");
        pcce(&folder, &flags, "-fPIC -shared library.cpp -o liblibrary.so");
        pcce(&folder, &flags, "main.cpp -L. -llibrary -o program");
        let mut program = command(folder.join("program"), &[]);
        let output = run(program.env("LD_LIBRARY_PATH", &folder)).expect_success().stdout;
        assert_eq!(output, "caught\n", "{flags}");
    }
}
