//! Link mode: code compiled with `-fPIC`, which may end in an executable or in a shared library.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::{artifact, command, folded_with_libraries, run, work_folder};

const HEADER: &str = "#include <pcce.h>\n#include <stdio.h>\n\
    #define API extern \"C\" __attribute__((visibility(\"default\"), noinline))\n\
    #define INNER __attribute__((noinline))\n#define KEEP __asm__ volatile(\"\" ::: \"memory\")\n\
    struct Big { long word[9]; };\ntypedef int (*Function)(int);\n\
    API int one(int, Function);\nAPI int logs(Function, const char *, ...);\n\
    API long sums(long, long, long, long, long, long, long, Big, Function);\nAPI Function choose(int);\n\
    API int throws(int);\nAPI int passes(int, Function);\nAPI int leaves(int, Function);\n\
    int cycle(int, Function);\nint thrower(int);\nint inner(int, Function);\n\
    INNER static int show(const char *what, int n) { printf(\"%s %s\\n\", what, PCCE_TOKEN); KEEP; return n; }\n";

/// Two modules of a library, and a program: calls by name and through pointers, of functions that nothing can be put in
/// front of, and with arguments on the stack; cycles through both modules; exceptions that are caught there, and that
/// leave the library through what pushed for a pointer; tail calls that stay.
const SOURCES: [(&str, &str); 3] = [
    (
        "first",
        "#include <cstdarg>\n\
         API int one(int n, Function f) { int r = inner(n, f) + cycle(2, f); r += inner(n + 1, f); KEEP; return r; }\n\
         API int logs(Function f, const char *what, ...) {\n  va_list list; va_start(list, what);\n  \
           int n = va_arg(list, int); va_end(list);\n  \
           try { n += f(n); n += thrower(n); } catch (int) { n += show(what, n); }\n  \
           n += inner(n, f); KEEP; return n; }\n\
         API long sums(long a, long b, long c, long d, long e, long f, long g, Big big, Function h) {\n  \
           long r = a + b + c + d + e + f + g + big.word[8] + h(1) + inner(2, h); KEEP; return r; }\n\
         int cycle(int n, Function f) { int r = n ? inner(-n, f) : show(\"end\", n); KEEP; return r; }\n",
    ),
    (
        "second",
        "INNER static int chosen(int n) { int r = show(\"chosen\", n) + inner(n, 0); KEEP; return r; }\n\
         API Function choose(int n) { return n ? chosen : throws; }\n\
         int inner(int n, Function f) { int r = n < 0 ? cycle(-n - 1, f) : show(\"inner\", n); \
           if (f) r += f(n); KEEP; return r; }\n\
         int thrower(int n) { if (n) throw n; KEEP; return n; }\n\
         API int throws(int n) { int r = show(\"throws\", n) + thrower(n); KEEP; return r; }\n\
         API int passes(int n, Function f) { int r = 0; try { r = f(n); } catch (char) { r = 1; }\n  \
           r += show(\"passed\", n); KEEP; return r; }\n\
         API int leaves(int n, Function f) { n += show(\"leaves\", n); \
           __attribute__((musttail)) return passes(n, f); }\n",
    ),
    (
        "main",
        "INNER int back(int n) { int r = show(\"back\", n); KEEP; return r; }\n\
         INNER int up(int n) { if (n > 0) throw n; return n; }\n\
         template <class F> F *hidden(F *f) { __asm__ volatile(\"\" : \"+r\"(f)); return f; }\n\
         int main() {\n  Big big = {}; int r = one(1, back); r += hidden(one)(2, back);\n  \
           r += one(3, hidden(one) ? back : 0);\n  \
           r += logs(back, \"byname\", 4); r += hidden(logs)(back, \"bypointer\", 5);\n  \
           r += sums(1, 2, 3, 4, 5, 6, 7, big, back); r += hidden(sums)(1, 2, 3, 4, 5, 6, 7, big, back);\n  \
           r += choose(1)(6); r += hidden(choose)(1)(7); r += leaves(8, back); r += hidden(leaves)(9, back);\n  \
           for (int i = 0; i < 6; i++)\n    try {\n      \
             if (i == 0) throws(1); if (i == 1) hidden(throws)(1); if (i == 2) passes(1, up);\n      \
             if (i == 3) hidden(passes)(1, up); if (i == 4) choose(0)(1); if (i == 5) hidden(leaves)(1, up);\n    \
             } catch (int) { show(\"caught\", i); }\n  \
           one(1, back); return r == 0; }\n",
    ),
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
    let _ = run(clang.args(words.split_whitespace()).current_dir(folder)).expect_success();
}

/// What a program shows. Dictionaries of libraries are in its folder.
fn shown(folder: &Path, program: &str) -> Vec<String> {
    let text = folded_with_libraries(folder, program);
    // What a boundary says of tail calls that stay depends on what the caller knows.
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

/// What module mode shows, which encodes nothing between modules.
fn expected(folder: &Path, level: &str) -> Vec<String> {
    pcce(folder, "module", &format!("{level} -fPIC -shared first.cpp second.cpp -o liblib.so"));
    pcce(folder, "module", &format!("{level} main.cpp -L. -llib -o program"));
    let expected = shown(folder, "program");
    assert_eq!(expected.len(), 62, "{expected:#?}");
    assert!(expected.iter().all(|line| line.contains(" main")), "{expected:#?}");
    expected
}

/// However the library's calls are bound, and in whatever mode the program is.
#[test]
fn libraries_are_encoded_as_images_of_their_own() {
    for verify in ["", "--pcce-verify"] {
        let folder = sources(&format!("link_libraries/images{verify}"));
        for level in ["-O0", "-O2"] {
            let expected = expected(&folder, level);
            for (visibility, linking) in [
                ("", "-fuse-ld=lld"),
                ("-fvisibility=hidden", "-fuse-ld=lld"),
                ("-fvisibility=hidden", "-fuse-ld=bfd"),
                ("", "-fuse-ld=bfd -Wl,-Bsymbolic"),
                (
                    "-ffunction-sections",
                    "-fuse-ld=lld -Wl,-Bsymbolic-functions -Wl,--gc-sections -Wl,--icf=all",
                ),
            ] {
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

/// Functions of other images that ask which image has called them find the library.
#[test]
fn libraries_call_others_by_themselves() {
    let folder = work_folder("link_libraries/callers");
    let library = "#define _GNU_SOURCE\n#include <dlfcn.h>\nint which(void) {\n  \
        int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, \"which\");\n  return 10 + next(); }\n";
    let next = "int which(void) { return 1; }\n";
    let main =
        "#include <stdio.h>\nint which(void);\nint main(void) { printf(\"%d\\n\", which()); return 0; }\n";
    for (name, text) in [("library.c", library), ("next.c", next), ("main.c", main)] {
        fs::write(folder.join(name), text).unwrap();
    }
    let clang = |words: &str| {
        let mut clang = command(artifact("pcce-clang"), &["--pcce-mode=link", "-O1"]);
        let _ = run(clang.args(words.split(' ')).current_dir(&folder)).expect_success();
    };
    clang("-fPIC -shared next.c -o libnext.so");
    clang("-fPIC -shared library.c -o liblibrary.so");
    clang("main.c -L. -llibrary -lnext -o program");
    let output = run(command(folder.join("program"), &[]).env("LD_LIBRARY_PATH", &folder)).expect_success();
    assert_eq!(output.stdout, "11\n");
}

/// A library that is loaded by name finds the program's runtime, whose symbols no library asks the linker for.
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
            // An object that does not say otherwise gives the whole program a stack with code.
            let headers =
                run(command("readelf", &["-lW", "libdata.so"]).current_dir(&folder)).expect_success();
            let stack = headers.stdout.lines().find(|line| line.contains("GNU_STACK"));
            assert!(stack.is_some_and(|line| line.contains(" RW ")), "{mode} {linker}: {stack:?}");
            pcce(&folder, mode, &format!("-fuse-ld={linker} main.cpp -L. -ldata -o program"));
            let mut program = command(folder.join("program"), &[]);
            let _ = run(program.env("LD_LIBRARY_PATH", &folder)).expect_success();
        }
    }
}
