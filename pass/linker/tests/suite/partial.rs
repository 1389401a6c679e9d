//! Partial links: objects that are joined of several modules, and objects that tools have changed.

use std::fs;
use std::process::Command;

use crate::project::{Project, each, run};

const CALLS_A: &str = "int a(void); int main(void) { return a() + VALUE(1); }";

/// A program of two modules and a plain object, of which one module is in an archive.
fn program(project: &Project) {
    project.module("main.o", CALLS_A);
    project.module("a.o", "int b(void); int a(void) { return b() + VALUE(2); }");
    project.module("unused.o", "int unused(void) { return VALUE(64); }");
    project.plain("b.o", "int b(void) { return 4; }");
    project.archive("qc", "libx.a", &["unused.o", "a.o", "b.o"]);
}

/// Joins by the real linker alone.
fn join_by_linker(project: &Project, inputs: &[&str]) {
    run(project.command(project.linker).args(["-r", "-o", "joined.o"]).args(inputs));
}

#[test]
fn joined_objects_are_linked_with_the_code_of_their_modules() {
    each(|project| {
        program(&project);
        fs::create_dir(project.path("sub")).unwrap();
        for inputs in [
            &["main.o", "libx.a"][..],
            &["-L.", "main.o", "-lx"],
            &["--start-group", "libx.a", "main.o", "--end-group"],
        ] {
            for flag in ["-r", "-relocatable"] {
                project.link(&[&[flag, "-o", "sub/joined.o", "-Map", "map"], inputs].concat());
                assert_eq!(project.generated().0, 0);
                // The joined object contains its inputs.
                for gone in ["main.o", "libx.a"] {
                    fs::rename(project.path(gone), project.path(&format!("{gone}.away"))).unwrap();
                }
                let _ = fs::remove_file(project.path("map"));
                project.link(&["-o", "program", "start.o", "sub/joined.o"]);
                assert!(!project.path("map").exists());
                assert_eq!(project.status(), 7, "{inputs:?}");
                let names = project.generated().1;
                assert!(names.len() == 2 && names[0].ends_with("libx.a(a.o))"), "{names:?}");
                assert_eq!(names[1], "sub/joined.o(main.o)");
                assert!(
                    project.told("plain").iter().any(|name| name.contains("b.o")),
                    "{:?}",
                    project.told("plain")
                );
                for gone in ["main.o", "libx.a"] {
                    fs::rename(project.path(&format!("{gone}.away")), project.path(gone)).unwrap();
                }
            }
        }
    });
}

#[test]
fn joined_objects_are_joined_again_and_stand_in_archives() {
    each(|project| {
        program(&project);
        project.link(&["-r", "-o", "inner.o", "a.o", "b.o"]);
        project.link(&["-r", "-o", "outer.o", "inner.o", "main.o"]);
        project.link(&["-o", "program", "start.o", "outer.o"]);
        assert_eq!((project.status(), project.generated().1.len()), (7, 2));
        // The object contains the inputs of its inputs once.
        let size = |name: &str| fs::metadata(project.path(name)).unwrap().len();
        assert!(
            size("outer.o") < 2 * (size("inner.o") + size("main.o")),
            "{}: {}",
            project.linker,
            size("outer.o")
        );
        project.archive("qc", "libjoined.a", &["inner.o"]);
        project.link(&["-o", "program", "start.o", "main.o", "libjoined.a"]);
        assert_eq!((project.status(), project.generated().1.len()), (7, 2));
        project.archive("qcT", "libthin.a", &["inner.o"]);
        project.link(&["-r", "-o", "outer.o", "--whole-archive", "libthin.a", "main.o"]);
        project.link(&["-o", "program", "start.o", "outer.o"]);
        assert_eq!((project.status(), project.generated().1.len()), (7, 2));
    });
}

#[test]
fn joined_objects_of_one_module_keep_what_else_is_in_them() {
    each(|project| {
        program(&project);
        project.link(&["-r", "-o", "joined.o", "a.o", "b.o"]);
        project.link(&["-o", "program", "start.o", "main.o", "joined.o"]);
        assert_eq!(project.status(), 7);
        // Here, the inputs were not kept.
        join_by_linker(&project, &["a.o", "b.o"]);
        let said = project.fails(&["-o", "program", "start.o", "main.o", "joined.o"]);
        assert!(said.contains("joined.o: `ld -r` has joined it with other objects"), "{said}");
        project.link(&["-r", "-o", "ours.o", "main.o", "a.o"]);
        project.plain("silent.o", "__attribute__((constructor)) static void at_start(void) {}");
        for with in ["silent.o", "unused.o"] {
            join_by_linker(&project, &["ours.o", with]);
            let said = project.fails(&["-o", "program", "start.o", "joined.o", "b.o"]);
            assert!(said.contains("`ld -r` has joined"), "{with}: {said}");
        }
    });
}

#[test]
fn options_and_scripts_of_a_partial_link_are_used_again() {
    each(|project| {
        // mold knows no scripts with sections, and gold none with `-r`.
        if ["mold", "ld.gold"].contains(&project.linker) {
            return;
        }
        program(&project);
        fs::write(project.path("script"), "SECTIONS { .own : { begin = .; *(.text*) *(.data*) end = .; } }")
            .unwrap();
        project.link(&["-r", "-T", "script", "--defsym=other=a", "-o", "joined.o", "main.o", "a.o", "b.o"]);
        fs::remove_file(project.path("script")).unwrap();
        project.link(&["-o", "program", "start.o", "joined.o"]);
        assert_eq!(project.status(), 7);
        let names = run(project.command("nm").arg("program"));
        assert!(
            names.contains(" begin\n") && names.contains(" end\n") && names.contains(" other\n"),
            "{names}"
        );
    });
}

#[test]
fn plain_objects_are_joined_by_the_linker_alone() {
    each(|project| {
        program(&project);
        project.plain("c.o", "int c(void) { return 8; }");
        for flag in ["-r", "-relocatable"] {
            project.link(&[flag, "-o", "joined.o", "b.o", "c.o"]);
            run(project.command(project.linker).args([flag, "-o", "expected.o", "b.o", "c.o"]));
            let read = |name: &str| fs::read(project.path(name)).unwrap();
            assert!(read("joined.o") == read("expected.o"));
        }
        let code = project.try_link(&["-r", "-o", "joined.o", "nowhere.o"]).status.code();
        assert_ne!(code, Some(0));
        project.link(&["-r", "-o", "/dev/null", "main.o", "a.o"]);
    });
}

#[test]
fn a_damaged_section_of_inputs_is_an_error() {
    each(|project| {
        program(&project);
        project.link(&["-r", "-o", "joined.o", "main.o", "a.o", "b.o"]);
        let bytes = fs::read(project.path("joined.o")).unwrap();
        let at = bytes.windows(8).position(|bytes| bytes == b"PCCEINP1").unwrap();
        for (offset, value) in [(7, b'2'), (8, 0), (8, 255), (15, 255), (20, b'}')] {
            let mut damaged = bytes.clone();
            damaged[at + offset] = value;
            fs::write(project.path("joined.o"), damaged).unwrap();
            let said = project.fails(&["-o", "program", "start.o", "joined.o"]);
            assert!(said.contains("joined.o: section .pcce.inputs"), "{said}");
        }
    });
}

#[test]
fn symbols_that_tools_have_bound_otherwise_are_bound_so_in_the_code() {
    each(|project| {
        program(&project);
        project.link(&["-r", "-o", "joined.o", "a.o", "b.o"]);
        let names = |flags: &[&str], from: &str| {
            run(project.command("objcopy").args(flags).args([from, "changed.o"]));
            project.link(&["-o", "program", "start.o", "main.o", "changed.o", "b.o"]);
            assert_eq!(project.status(), 7);
            run(project.command("nm").arg("program"))
        };
        for flag in ["--localize-symbol=b", "--keep-global-symbol=a"] {
            let names = names(&[flag], "joined.o");
            assert_eq!(names.matches(" b\n").count(), 2, "{flag}: {names}");
            assert!(names.contains(" t b\n"), "{flag}: {names}");
        }
        // mold makes all of them local in a program without shared libraries.
        let weak = if project.linker == "mold" { " t a\n" } else { " W a\n" };
        for from in ["a.o", "joined.o"] {
            let names = names(&["--weaken-symbol=a", "--weaken-symbol=b"], from);
            assert!(names.contains(weak), "{from}: {names}");
        }
    });
}

#[test]
fn symbols_with_other_names_are_refused() {
    each(|project| {
        program(&project);
        for object in ["main.o", "a.o"] {
            let changed = format!("changed-{object}");
            run(Command::new("objcopy")
                .args(["--redefine-sym", "a=other"])
                .args([project.path(object), project.path(&changed)]));
        }
        let said = project.fails(&["-o", "program", "start.o", "changed-main.o", "changed-a.o", "b.o"]);
        assert!(said.contains("symbol `other` is no name of its module"), "{said}");
    });
}

#[test]
fn a_partial_link_that_cannot_be_done_again_is_told() {
    each(|project| {
        // mold takes the first of two here.
        if project.linker == "mold" {
            return;
        }
        program(&project);
        let generated = "int a(void) { return VALUE(2); }";
        project.module_of_two(
            "first.o",
            "int first(void) { return VALUE(2); }",
            &format!("int first(void) {{ return 1; }} {generated}"),
        );
        project.link(&["-r", "-o", "joined.o", "first.o", "a.o", "b.o"]);
        let said = project.fails(&["-o", "program", "start.o", "main.o", "joined.o"]);
        assert!(said.contains("joined.o is linked again by the command"), "{said}");
    });
}
