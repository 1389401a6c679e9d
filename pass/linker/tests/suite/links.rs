//! Programs and libraries, linked by the four linkers.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::project::{each, run, text};

#[test]
fn objects_get_their_code() {
    each(|project| {
        project.module("main.o", "int a(void), b(void); int main(void) { return a() + b() + VALUE(1); }");
        project.module("a.o", "int a(void) { return VALUE(2); }");
        project.plain("b.o", "int b(void) { return 4; }");
        project.link(&["-o", "program", "start.o", "main.o", "a.o", "b.o"]);
        assert_eq!(project.status(), 7);
        assert_eq!(project.generated(), (1, vec!["a.o".into(), "main.o".into()]));
        assert_eq!(project.told("plain"), ["start.o", "b.o"]);
        // The file that the generator gets has its symbols.
        assert!(fs::read_to_string(project.path("symbols")).unwrap().contains(" main"));
        let mode = fs::metadata(project.path("program")).unwrap().permissions().mode();
        run(project.command(project.linker).args(["-o", "plain", "start.o", "b.o", "--defsym=main=b"]));
        assert_eq!(mode, fs::metadata(project.path("plain")).unwrap().permissions().mode());
    });
}

#[test]
fn without_the_front_a_link_says_what_is_missing() {
    each(|project| {
        project.module("main.o", "int main(void) { return VALUE(1); }");
        let output =
            project.command(project.linker).args(["-o", "program", "start.o", "main.o"]).output().unwrap();
        assert!(!output.status.success() && text(&output.stderr).contains(pcce_linker::MARKER));
    });
}

#[test]
fn members_of_one_name_are_told_apart() {
    each(|project| {
        project.module("main.o", "int a(void), b(void); int main(void) { return a() + b() + VALUE(1); }");
        project.module("one/x.o", "int a(void) { return VALUE(2); }");
        project.module("two/x.o", "int b(void) { return VALUE(4); }");
        project.module("three/x.o", "int c(void) { return VALUE(8); }");
        project.plain("four/a member with a long name.o", "int d(void) { return 1; }");
        project.plain("g.o", "int unused(void) { return 1; }");
        let all = ["three/x.o", "one/x.o", "four/a member with a long name.o", "two/x.o"];
        project.archive("qc", "libx.a", &all);
        project.plain("e.o", "int e(void) { return 1; }");
        project.plain("f.o", "int e(void); int f(void) { return e(); }");
        project.archive("qc", "liby.a", &["g.o", "e.o", "f.o"]);
        let last = ["libx.a", "-u", "f", "./liby.a"];
        project.link(&[&["-o", "program", "start.o", "main.o"][..], &last].concat());
        assert_eq!(project.status(), 7);
        // Members that were not linked are not among the plain objects.
        let mut plain = project.told("plain");
        plain.iter_mut().for_each(|name| *name = name.trim_start_matches("./").to_owned());
        plain.sort();
        assert_eq!(plain, ["liby.a(e.o)", "liby.a(f.o)", "start.o"]);
        let expected = vec!["libx.a(x.o)".to_owned(), "libx.a(x.o)".into(), "main.o".into()];
        assert_eq!(project.generated(), (1, expected));
        // The user's archive is as it was.
        let members = crate::project::members(&project.path("libx.a"));
        for ((_, bytes), file) in members.iter().zip(all) {
            assert_eq!(*bytes, fs::read(project.path(file)).unwrap());
        }
        // Members that are files of their own.
        project.archive("qcT", "libthin.a", &all);
        project.link(&["-o", "program", "start.o", "main.o", "libthin.a"]);
        assert_eq!(project.status(), 7);
        let expected = vec!["libthin.a(one/x.o)".to_owned(), "libthin.a(two/x.o)".into(), "main.o".into()];
        assert_eq!(project.generated(), (1, expected));
    });
}

#[test]
fn libraries_are_found_as_the_linker_finds_them() {
    each(|project| {
        project.module("main.o", "int a(void), b(void); int main(void) { return a() + b() + VALUE(1); }");
        project.module("a.o", "int b(void); int a(void) { return b() + VALUE(2); }");
        project.module("b.o", "int c(void); int b(void) { return c() + VALUE(4); }");
        project.plain("c.o", "int c(void) { return 8; }");
        project.plain("wrong.o", "int a(void) { return 99; }");
        for folder in ["first", "second dir, third", "last"] {
            fs::create_dir(project.path(folder)).unwrap();
        }
        project.archive("qc", "second dir, third/libmods.a", &["a.o"]);
        project.archive("qc", "last/libmods.a", &["wrong.o"]);
        project.archive("qc", "last/others (b).a", &["b.o", "c.o"]);
        symlink("others (b).a", project.path("last/libothers.a")).unwrap();
        let folders = ["-Lfirst", "-L", "second dir, third", "--library-path=last"];
        let libraries = [
            &["-lmods", "-lothers"][..],
            &["-l", "mods", "-l", "others"],
            &["-lothers", "--start-group", "-l:libothers.a", "-lmods", "-lothers", "--end-group"],
            &["-(", "-lmods", "last/others (b).a", "-)"],
            &["-Bstatic", "-lmods", "last/libothers.a", "last/others (b).a", "-Bdynamic"],
        ];
        for libraries in libraries {
            let arguments = [&["-o", "program", "start.o", "main.o"][..], &folders, libraries].concat();
            project.link(&arguments);
            // b() is called twice.
            assert_eq!(project.status(), 1 + 2 + 12 + 12, "{libraries:?}");
            assert_eq!(project.generated().1.len(), 3);
        }
    });
}

#[test]
fn the_first_of_shared_and_static_libraries_is_taken() {
    each(|project| {
        project.module("main.o", "int a(void); int main(void) { return a() + VALUE(1); }");
        project.module("a.o", "int a(void) { return VALUE(2); }");
        project.plain("shared.o", "int a(void) { return 4; }");
        project.archive("qc", "liba.a", &["a.o"]);
        run(project.command(project.linker).args(["-shared", "-o", "liba.so", "shared.o"]));
        let start = ["-o", "program", "start.o", "main.o", "-L."];
        let mold = project.linker == "mold";
        // lld records the loader in programs without libraries, too, and they fail.
        let loader = ["-dynamic-linker", "/lib64/ld-linux-x86-64.so.2"];
        for (libraries, status, shared) in [
            (&["-la"][..], 5, true),
            (&["-Bstatic", "-la"], 3, false),
            (&["-Bstatic", "--push-state", "-Bdynamic", "-la", "--pop-state"], 5, true),
            // mold 1.10 does not take `-Bstatic` back.
            (&["--push-state", "-Bstatic", "--pop-state", "-la"], if mold { 3 } else { 5 }, !mold),
        ] {
            let loader = if shared { &loader[..] } else { &[] };
            project.link(&[&start, libraries, loader].concat());
            assert_eq!(project.status(), status, "{libraries:?}");
            assert_eq!(project.generated().1.len(), if shared { 1 } else { 2 }, "{libraries:?}");
            let told = project.told("shared_libraries");
            assert_eq!(told.iter().any(|name| name.ends_with("liba.so")), shared, "{told:?}");
        }
    });
}

#[test]
fn whole_archives_are_linked_whole() {
    each(|project| {
        project
            .module("main.o", "extern int all[] __attribute__((weak)); int main(void) { return VALUE(1); }");
        project.module("a.o", "int a(void) { return VALUE(2); }");
        project.module("b.o", "int b(void) { return VALUE(4); }");
        project.archive("qc", "libx.a", &["a.o", "b.o"]);
        project.link(&[
            "-o",
            "program",
            "start.o",
            "main.o",
            "--whole-archive",
            "libx.a",
            "--no-whole-archive",
        ]);
        assert_eq!(project.status(), 1);
        assert_eq!(project.generated().1, ["libx.a(a.o)", "libx.a(b.o)", "main.o"]);
    });
}

#[test]
fn functions_of_several_modules_are_linked_once() {
    each(|project| {
        // The first definition wins, even if it is in a plain object.
        let head = "extern \"C\" { int a(); int in(); int replaced(); }";
        let one = format!("{head} extern \"C\" inline int in() {{ return VALUE(2); }}");
        let weak = "extern \"C\" __attribute__((weak)) int replaced() { return VALUE(64); }";
        let main = "int main() { return a() + in() + replaced() + VALUE(1); }";
        project.module("main.o", &format!("{one} {weak} {main}"));
        project.module("a.o", &format!("{one} int a() {{ return in() + VALUE(4); }}"));
        project.plain("plain.o", "int replaced(void) { return 8; }");
        project.link(&["-o", "program", "start.o", "main.o", "a.o", "plain.o"]);
        assert_eq!(project.status(), 1 + 2 + 2 + 4 + 8);
        project.plain("plain.o", &format!("{head} extern \"C\" inline int in() {{ return 16; }} int (*keep)() = in; int replaced() {{ return 8; }}"));
        project.link(&["-o", "program", "start.o", "plain.o", "main.o", "a.o"]);
        assert_eq!(project.status(), 1 + 16 + 16 + 4 + 8);
    });
}

#[test]
fn libraries_and_their_programs_are_linked() {
    each(|project| {
        project.module("a.o", "int hidden(void); int a(void) { return hidden() + VALUE(1); }");
        project.module("b.o", "int hidden(void) { return VALUE(2); }");
        fs::write(project.path("versions"), "V1 { global: a; local: *; };").unwrap();
        project.link(&[
            "-shared",
            "-o",
            "liba.so",
            "--version-script=versions",
            "-soname",
            "liba.so",
            "a.o",
            "b.o",
        ]);
        assert_eq!(project.generated().1, ["a.o", "b.o"]);
        let symbols = run(project.command("nm").args(["-D", "--defined-only", "liba.so"]));
        assert!(symbols.contains("a@@V1") && !symbols.contains("hidden"), "{symbols}");
        project.module("main.o", "int a(void); int main(void) { return a() + VALUE(4); }");
        let loader = ["-dynamic-linker", "/lib64/ld-linux-x86-64.so.2"];
        project.link(&[&["-pie", "-o", "program", "start.o", "main.o", "liba.so"][..], &loader].concat());
        assert_eq!(project.status(), 7);
        assert_eq!(project.generated().1, ["main.o"]);
    });
}

#[test]
fn what_nobody_refers_to_is_left_out() {
    each(|project| {
        project.module(
            "main.o",
            "int a(void); int main(void) { return a() + VALUE(1); } int n(void) { return VALUE(9); }",
        );
        project.module("a.o", "int a(void) { return VALUE(2); }");
        project.module("unused.o", "int unused(void) { return VALUE(4); }");
        project.link(&[
            "-o",
            "program",
            "--gc-sections",
            "--strip-all",
            "start.o",
            "main.o",
            "a.o",
            "unused.o",
        ]);
        assert_eq!(project.status(), 3);
        // All linkers keep the id of an object of which nothing else is left.
        assert_eq!(project.generated().1, ["a.o", "main.o", "unused.o"]);
    });
}

#[test]
fn response_files_hold_any_words() {
    each(|project| {
        project.module("ma in.o", "int a(void); int main(void) { return a() + VALUE(1); }");
        project.module("a,b'c.o", "int a(void) { return VALUE(2); }");
        fs::write(project.path("inner"), "ma\\ in.o\n\"a,b'c.o\"").unwrap();
        fs::write(project.path("outer"), "-o 'program' start.o @inner").unwrap();
        project.link(&["@outer"]);
        assert_eq!(project.status(), 3);
        // The command is so long that the linker gets it in a response file.
        let long: Vec<String> = (0..4000).map(|n| format!("-L{}{n}", "x".repeat(40))).collect();
        fs::write(project.path("long"), long.join("\n")).unwrap();
        project.link(&["@outer", "@long"]);
        assert_eq!(project.status(), 3);
    });
}
