//! Link mode: code compiled with `-fPIC`, which may end in an executable or in a shared library.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, folded_with_libraries, run, source, work_folder, write_files};

const HEADER: &str = source!("link/pic_code/header.h");

/// Two modules of a library, and a program: calls by name and through pointers, of functions that cannot have code in
/// front of them, and with arguments on the stack; cycles through both modules; exceptions that are caught there, or
/// leave the library through a push thunk; tail calls that must stay.
const SOURCES: [(&str, &str); 3] = [
    ("first", source!("link/pic_code/first.cpp")),
    ("second", source!("link/pic_code/second.cpp")),
    ("main", source!("link/pic_code/main.cpp")),
];

fn sources(name: &str) -> PathBuf {
    let folder = work_folder(name);
    for (name, text) in SOURCES {
        fs::write(folder.join(format!("{name}.cpp")), format!("{HEADER}{text}")).unwrap();
    }
    folder
}

/// Runs the wrapper in a mode, on words that blanks separate.
fn pcce(folder: &Path, mode: &str, words: &str) {
    let flags = [&format!("--pcce-mode={mode}"), "-g", "-w"];
    let mut clang = command(artifact("pcce-clang++"), &flags);
    run(clang.args(words.split_whitespace()).current_dir(folder)).expect_success();
}

/// The output of a program. The dictionaries of its libraries are in its folder.
fn shown(folder: &Path, program: &str) -> Vec<String> {
    let text = folded_with_libraries(folder, program);
    // The text of a boundary for tail calls that must stay depends on what the caller's module knows.
    let shown = |line: &str| match line.split_once('<') {
        Some((before, after)) => {
            let (boundary, after) = after.split_once('>').unwrap_or_default();
            assert!(boundary.contains("left by a tail call"), "{line}");
            format!("{before}<left>{after}")
        }
        None => line.to_owned(),
    };
    text.lines().map(shown).collect()
}

/// The output in module mode, which encodes nothing between modules.
fn expected(folder: &Path, level: &str) -> Vec<String> {
    pcce(folder, "module", &format!("{level} -fPIC -shared first.cpp second.cpp -o liblib.so"));
    pcce(folder, "module", &format!("{level} main.cpp -L. -llib -o program"));
    let expected = shown(folder, "program");
    assert_eq!(expected.len(), 62, "{expected:#?}");
    assert!(expected.iter().all(|line| line.contains(" main")), "{expected:#?}");
    expected
}

/// The output does not depend on how the library's calls are bound, nor on the mode of the program.
#[test]
fn libraries_are_encoded_as_images_of_their_own() {
    for (v, verify) in ["", "--pcce-verify"].into_iter().enumerate() {
        let folder = sources(&format!("link_libraries/images{verify}"));
        for (l, level) in ["-O0", "-O2"].into_iter().enumerate() {
            let expected = expected(&folder, level);
            let linkings = [
                ("", "-fuse-ld=lld"),
                ("-fvisibility=hidden", "-fuse-ld=lld"),
                ("-fvisibility=hidden", "-fuse-ld=bfd"),
                ("", "-fuse-ld=bfd -Wl,-Bsymbolic"),
                (
                    "-ffunction-sections",
                    "-fuse-ld=lld -Wl,-Bsymbolic-functions -Wl,--gc-sections -Wl,--icf=all",
                ),
            ];
            for (visibility, linking) in in_turn(v + l, linkings) {
                for source in ["first", "second"] {
                    let words = format!("{level} {verify} -fPIC {visibility} -c {source}.cpp -o {source}.o");
                    pcce(&folder, "link", &words);
                }
                let words = format!("{verify} {linking} -shared first.o second.o -o liblib.so");
                pcce(&folder, "link", &words);
                for mode in ["link", "lto", "module"] {
                    pcce(&folder, mode, &format!("{level} {verify} main.cpp -L. -llib -o program"));
                    assert_eq!(shown(&folder, "program"), expected, "{mode} {level} {visibility} {linking}");
                }
                // The same objects in an executable.
                for pie in ["-pie", "-no-pie"] {
                    let words =
                        format!("{level} {verify} {linking} {pie} main.cpp first.o second.o -o program");
                    pcce(&folder, "link", &words);
                    assert_eq!(shown(&folder, "program"), expected, "{pie} {level} {visibility} {linking}");
                }
            }
        }
    }
}

/// Two links of the same objects are the same.
#[test]
fn links_of_libraries_are_reproducible() {
    let folder = sources("link_libraries/bound");
    for source in ["first", "second"] {
        pcce(&folder, "link", &format!("-O2 -fPIC -fvisibility=hidden -c {source}.cpp -o {source}.o"));
    }
    for linker in ["lld", "bfd"] {
        for name in ["one.so", "two.so"] {
            pcce(&folder, "link", &format!("-fuse-ld={linker} -shared first.o second.o -o {name}"));
        }
        assert!(
            fs::read(folder.join("one.so")).unwrap() == fs::read(folder.join("two.so")).unwrap(),
            "{linker}"
        );
    }
    fs::rename(folder.join("one.so"), folder.join("liblib.so")).unwrap();
    let expected = {
        pcce(&folder, "link", "-O2 main.cpp -L. -llib -o program");
        shown(&folder, "program")
    };
    pcce(&folder, "module", "-O2 -fPIC -shared first.cpp second.cpp -o liblib.so");
    assert_eq!(shown(&folder, "program"), expected);
}

/// A function of another image that asks which image has called it finds the library.
#[test]
fn libraries_call_others_by_themselves() {
    let folder = work_folder("link_libraries/callers");
    let library = "#define _GNU_SOURCE\n#include <dlfcn.h>\nint which(void) {\n  \
        int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, \"which\");\n  return 10 + next(); }\n";
    let next = "int which(void) { return 1; }\n";
    let main =
        "#include <stdio.h>\nint which(void);\nint main(void) { printf(\"%d\\n\", which()); return 0; }\n";
    write_files(&folder, [("library.c", library), ("next.c", next), ("main.c", main)]);
    let clang = |words: &str| {
        let mut clang = command(artifact("pcce-clang"), &["--pcce-mode=link", "-O1"]);
        run(clang.args(words.split(' ')).current_dir(&folder)).expect_success();
    };
    clang("-fPIC -shared next.c -o libnext.so");
    clang("-fPIC -shared library.c -o liblibrary.so");
    clang("main.c -L. -llibrary -lnext -o program");
    let output = run(command(folder.join("program"), &[]).env("LD_LIBRARY_PATH", &folder)).expect_success();
    assert_eq!(output.stdout, "11\n");
}

/// A library that is loaded by name uses the program's runtime, although no library makes the linker export the
/// runtime's symbols.
#[test]
fn loaded_libraries_find_the_programs_runtime() {
    let folder = work_folder("link_libraries/loaded");
    let plugin = "#include <pcce.h>\n#include <stdio.h>\nextern \"C\" void plug(void (*f)()) { puts(PCCE_TOKEN); f(); puts(\"\"); }\n";
    let program = "#include <dlfcn.h>\n#include <pcce.h>\n#include <stdio.h>\nvoid f(void) { puts(PCCE_TOKEN); }\n\
         int main(void) { void *plugin = dlopen(\"./plugin.so\", RTLD_NOW);\n  \
           ((void (*)(void (*)(void)))dlsym(plugin, \"plug\"))(f); f(); return 0; }\n";
    fs::write(folder.join("plugin.cpp"), plugin).unwrap();
    fs::write(folder.join("main.cpp"), program).unwrap();
    for mode in ["link", "module"] {
        for linker in ["bfd", "gold", "lld", "mold"] {
            let linker = format!("-fuse-ld={linker}");
            pcce(&folder, mode, &format!("-fPIC -shared {linker} plugin.cpp -o plugin.so"));
            pcce(&folder, mode, &format!("{linker} main.cpp -o program"));
            let shown = folded_with_libraries(&folder, "program");
            let chains: Vec<&str> = shown.lines().filter(|line| line.contains("main")).collect();
            assert_eq!(chains, ["main;plug", "main;plug;f()", "main;f()"], "{mode} {linker}");
        }
    }
}

/// A library of data has no function to instrument.
#[test]
fn libraries_may_have_no_functions() {
    let folder = work_folder("link_libraries/data");
    fs::write(folder.join("data.cpp"), "extern \"C\" { int number = 3; const char *name = \"data\"; }\n")
        .unwrap();
    fs::write(folder.join("main.cpp"), "extern \"C\" int number;\nint main() { return number - 3; }\n")
        .unwrap();
    for mode in ["link", "module"] {
        for linker in ["bfd", "gold", "lld", "mold"] {
            pcce(&folder, mode, &format!("-fPIC -shared -fuse-ld={linker} data.cpp -o libdata.so"));
            // An object without a note about its stack would make the stack of the whole program executable.
            let headers =
                run(command("readelf", &["-lW", "libdata.so"]).current_dir(&folder)).expect_success();
            let stack = headers.stdout.lines().find(|line| line.contains("GNU_STACK"));
            assert!(stack.is_some_and(|line| line.contains(" RW ")), "{mode} {linker}: {stack:?}");
            pcce(&folder, mode, &format!("-fuse-ld={linker} main.cpp -L. -ldata -o program"));
            let mut program = command(folder.join("program"), &[]);
            run(program.env("LD_LIBRARY_PATH", &folder)).expect_success();
        }
    }
}
