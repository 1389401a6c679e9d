//! Link mode with all four linkers: options of the linker and tools give a name that a module defines and calls to
//! another function.

use std::fs;
use std::path::Path;

use pcce_testsuite::{artifact, command, folded_with_libraries, run, source, work_folder};

const LINKERS: [&str; 4] = ["bfd", "gold", "lld", "mold"];
const OWN: [&str; 5] = ["--pcce-mode=link", "--pcce-verify", "-g", "-O1", "-fno-inline"];

const MAIN: &str = source!("link/replaced_names/main.c");
/// Calls its own `f`, as the compiler sees it.
const OTHER: &str = source!("link/replaced_names/other.c");
/// Defines `f`, too.
const FIRST: &str = source!("link/replaced_names/first.c");

fn compile(folder: &Path, name: &str, text: &str, further: &[&str]) {
    fs::write(folder.join(name), text).unwrap();
    let mut compile = command(artifact("pcce-clang"), &OWN);
    run(compile.args(further).args(["-c", name]).current_dir(folder)).expect_success();
}

fn linked(folder: &Path, linker: &str, words: &[&str]) -> String {
    let mut link = command(artifact("pcce-clang"), &OWN);
    link.arg(format!("-fuse-ld={linker}")).args(words).args(["-o", "program"]);
    run(link.current_dir(folder)).expect_success();
    folded_with_libraries(folder, "program")
}

/// The output if the calls of `f` in the module of `g` reach the function that prints `name`.
fn everywhere(name: &str, function: &str) -> String {
    let chains = ["main;e", "main;e;g", "main;e;g", "main", "main;g", "main;g"];
    chains.map(|chain| format!("{name} {chain};{function}\n")).concat()
}

#[test]
fn a_name_leads_to_what_the_linker_gave_it() {
    let folder = work_folder("link_replaced/names");
    compile(&folder, "main.c", MAIN, &[]);
    compile(&folder, "other.c", OTHER, &[]);
    compile(&folder, "first.c", FIRST, &[]);
    fs::write(folder.join("script"), "f = alt;\n").unwrap();
    let weaken = ["--weaken-symbol=f", "other.o", "weak.o"];
    run(command("objcopy", &weaken).current_dir(&folder)).expect_success();
    for linker in LINKERS {
        let shown = |words: &[&str]| linked(&folder, linker, words);
        assert_eq!(shown(&["main.o", "other.o"]), everywhere("own", "f"), "{linker}");
        assert_eq!(shown(&["main.o", "weak.o", "first.o"]), everywhere("first", "f"), "{linker}");
        let twice = ["-Wl,-z,muldefs", "main.o", "first.o", "other.o"];
        assert_eq!(shown(&twice), everywhere("first", "f"), "{linker}");
        let defined = ["-Wl,--defsym=f=alt", "main.o", "other.o"];
        assert_eq!(shown(&defined), everywhere("alt", "alt"), "{linker}");
        assert_eq!(shown(&["script", "main.o", "other.o"]), everywhere("alt", "alt"), "{linker}");
        // lld also renames references in the module that defines the name.
        let wrapped = match linker {
            "lld" => everywhere("wrap", "__wrap_f"),
            _ => {
                let mut all = everywhere("own", "f");
                for chain in ["main;e", "main"] {
                    all = all.replace(&format!("own {chain};f\n"), &format!("wrap {chain};__wrap_f\n"));
                }
                all
            }
        };
        assert_eq!(shown(&["-Wl,--wrap=f", "main.o", "other.o"]), wrapped, "{linker}");
    }
}

/// Calls within a shared library by local names stay in it.
#[test]
fn a_local_name_leads_to_the_modules_own_function() {
    let folder = work_folder("link_replaced/local");
    compile(&folder, "main.c", MAIN, &[]);
    let position = ["-fPIC", "-fno-semantic-interposition"];
    compile(&folder, "other.c", OTHER, &position);
    compile(&folder, "first.c", FIRST, &position);
    for linker in LINKERS {
        let mut link = command(artifact("pcce-clang"), &OWN);
        link.args(["-shared", "-Wl,-z,muldefs", "first.o", "other.o", "-o", "libother.so"]);
        link.arg(format!("-fuse-ld={linker}"));
        run(link.current_dir(&folder)).expect_success();
        let shown = linked(&folder, linker, &["main.o", "-L.", "-lother", "-Wl,-rpath,$ORIGIN"]);
        let mut expected = everywhere("own", "f");
        for chain in ["main;e", "main"] {
            expected = expected.replace(&format!("own {chain};f\n"), &format!("first {chain};f\n"));
        }
        assert_eq!(shown, expected, "{linker}");
    }
}

/// A module that only calls a function of such a name has no definition to tell the linker, so it must know the
/// replacing names when it is compiled.
#[test]
fn a_function_gets_no_name_of_one_that_does_not_call_back() {
    let folder = work_folder("link_replaced/listed");
    let named = |how: &str| format!("char *own(const char *name) {{ return (char *)name; }}\n{how}\n");
    compile(&folder, "plain.c", &named(""), &["-fPIC"]);
    compile(&folder, "set.c", &named("__asm__(\".globl getenv\\n.set getenv, own\");"), &["-fPIC"]);
    compile(&folder, "version.c", &named("__asm__(\".symver own, getenv@@V1\");"), &["-fPIC"]);
    let alias = "char *getenv(const char *) __attribute__((alias(\"own\")));";
    compile(&folder, "alias.c", &named(alias), &["-fPIC"]);
    let chosen = "static char *(*choose(void))(const char *) { return own; }\n\
                  char *getenv(const char *) __attribute__((ifunc(\"choose\")));";
    compile(&folder, "chosen.c", &named(chosen), &["-fPIC"]);
    fs::write(folder.join("map"), "V1 { global: *; };\n").unwrap();
    for (words, allowed) in [
        (&["plain.o"][..], true),
        (&["alias.o"], true),
        (&["chosen.o"], true),
        (&["plain.o", "-Wl,--defsym=getenv=own"], false),
        (&["set.o"], false),
        (&["version.o", "-Wl,--version-script=map"], false),
    ] {
        for linker in LINKERS {
            let mut link = command(artifact("pcce-clang"), &OWN);
            link.args(["-shared", "-o", "libown.so", &format!("-fuse-ld={linker}")]).args(words);
            let linked = run(link.current_dir(&folder));
            let message = "`own` is called by the name `getenv` in this program";
            let refused = linked.status != 0 && linked.stderr.contains(message);
            assert!(if allowed { linked.status == 0 } else { refused }, "{words:?}: {}", linked.describe());
        }
    }
}

/// A trace names the called function even before the linker has bound the name, so such a link is refused.
#[test]
fn a_trace_of_a_replaced_function_is_refused() {
    let folder = work_folder("link_replaced/traced");
    compile(&folder, "main.c", MAIN, &["--pcce-trace"]);
    compile(&folder, "other.c", OTHER, &["--pcce-trace"]);
    let mut link = command(artifact("pcce-clang"), &OWN);
    link.args(["--pcce-trace", "-Wl,--defsym=f=alt", "main.o", "other.o", "-o", "program"]);
    let refused = run(link.current_dir(&folder));
    let message = "`f` is another function in this program than in the module";
    assert!(refused.status != 0 && refused.stderr.contains(message), "{}", refused.describe());
}
