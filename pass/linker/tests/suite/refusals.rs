//! Links that fail, links that the linker does alone, and links that generated code changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::project::{Project, each, run, text};

const CALLS_A: &str = "int a(void); int main(void) { return a() + VALUE(1); }";

#[test]
fn what_links_no_image_is_the_linkers() {
    each(|project| {
        project.module("main.o", CALLS_A);
        project.module("a.o", "int a(void) { return VALUE(2); }");
        // Modules that have lost their objects.
        run(project.command(project.linker).args(["-r", "-o", "joined.o", "main.o", "a.o"]));
        let said = project.fails(&["-o", "program", "start.o", "joined.o"]);
        assert!(said.contains("joined.o holds 2 modules"), "{said}");

        let version = run(project.command(project.linker).arg("--version"));
        assert_eq!(project.link(&["--version"]), version);
        assert_eq!(project.link(&["-v"]), run(project.command(project.linker).arg("-v")));
        project.plain("plain.o", "int main(void) { return 5; }");
        project.link(&["-o", "program", "start.o", "plain.o"]);
        assert_eq!((project.status(), project.generated().0), (5, 0));
    });
}

#[test]
fn a_link_that_fails_says_what_the_linker_says() {
    each(|project| {
        project.module("main.o", CALLS_A);
        let said = project.fails(&["-o", "program", "start.o", "main.o"]);
        assert!(said.contains("main.o") && !said.contains(pcce_linker::MARKER), "{said}");
        assert_eq!(project.generated().0, 0);
        let said = project.fails(&["-o", "program", "start.o", "main.o", "-lnowhere"]);
        assert!(said.contains("nowhere"), "{said}");
        let code = project.try_link(&["-o", "program", "main.o", "--no-such-option"]).status.code();
        let own =
            project.command(project.linker).args(["-o", "x", "main.o", "--no-such-option"]).output().unwrap();
        assert_eq!(code, own.status.code());
    });
}

#[test]
fn messages_of_the_second_link_name_the_users_files() {
    each(|project| {
        let generated = "int nowhere(void); int main(void) { return nowhere(); }";
        project.module_of_two("main.o", "int main(void) { return VALUE(1); }", generated);
        fs::write(project.path("program"), "old").unwrap();
        let said = project.fails(&["-o", "program", "start.o", "main.o"]);
        assert!(said.contains("nowhere") && said.contains("main.o"), "{said}");
        assert!(!said.contains("pcce-ld-"), "{said}");
    });
}

#[test]
fn side_files_are_those_of_the_second_link_and_name_the_users_files() {
    each(|project| {
        project.module("main.o", CALLS_A);
        project.module("a.o", "int a(void) { return VALUE(2); }");
        fs::create_dir(project.path("a folder")).unwrap();
        project.archive("qc", "a folder/libx.a", &["a.o"]);
        let files = ["--dependency-file=deps", "-Map", "map"];
        let inputs = ["start.o", "main.o", "a folder/libx.a"];
        project.link(&[&["-o", "program"][..], &inputs, &files].concat());
        assert_eq!(project.status(), 3);
        let deps = fs::read_to_string(project.path("deps")).unwrap();
        fs::rename(project.path("generated/0.o"), project.path("main.o")).unwrap();
        fs::rename(project.path("generated/1.o"), project.path("a.o")).unwrap();
        project.archive("rc", "a folder/libx.a", &["a.o"]);
        run(project.command(project.linker).args(["-o", "program", files[0]]).args(inputs));
        assert_eq!(deps, fs::read_to_string(project.path("deps")).unwrap());
        let map = fs::read_to_string(project.path("map")).unwrap();
        assert!(map.contains("libx.a(a.o)"), "{map}");
        assert!(!deps.contains("pcce-ld-") && !map.contains("pcce-ld-"), "{deps}{map}");
    });
}

#[test]
fn one_module_is_not_linked_twice() {
    each(|project| {
        let source = "__attribute__((weak)) int main(void) { return VALUE(1); }";
        project.module("main.o", source);
        fs::copy(project.path("main.o"), project.path("copy.o")).unwrap();
        let said = project.fails(&["-o", "program", "start.o", "main.o", "copy.o"]);
        assert!(said.contains("main.o was linked 2 times"), "{said}");
        // Archives with the same member, of which one is linked.
        project.module("a.o", "int a(void) { return VALUE(2); }");
        project.module("calls.o", CALLS_A);
        project.archive("qc", "libone.a", &["a.o"]);
        project.archive("qc", "libtwo.a", &["main.o", "a.o"]);
        project.link(&["-o", "program", "start.o", "calls.o", "libone.a", "libtwo.a"]);
        assert_eq!(project.status(), 3);
    });
}

#[test]
fn what_generated_code_links_gets_code_as_well() {
    each(|project| {
        let generated = "int late(void); int main(void) { return late() + VALUE(1); }";
        project.module_of_two("main.o", "int main(void) { return VALUE(1); }", generated);
        project.module("late.o", "int last(void); int late(void) { return last() + VALUE(2); }");
        project.module("last.o", "int last(void) { return VALUE(4); }");
        project.module("not.o", "int not(void) { return VALUE(8); }");
        project.archive("qc", "libx.a", &["late.o", "not.o", "last.o"]);
        project.link(&["-o", "program", "start.o", "main.o", "libx.a"]);
        assert_eq!(project.status(), 7);
        let expected = ["libx.a(last.o)".to_owned(), "libx.a(late.o)".into(), "main.o".into()];
        assert_eq!(project.generated(), (2, expected.to_vec()));
        // The generator reads the skeletons of all modules.
        let sections = fs::read_to_string(project.path("sections")).unwrap();
        assert!(sections.contains(".pcce.module") && !sections.contains(".pcce.code"), "{sections}");
        // A member with code of its own, or a further object, needs the module.
        project.plain("late.o", "int last(void); int late(void) { return last() + 2; }");
        project.archive("qc", "liby.a", &["late.o", "last.o"]);
        project.plain("further.o", "int last(void); int further(void) { return last(); }");
        for further in [false, true] {
            project.extra.replace(if further { vec![project.path("further.o")] } else { Vec::new() });
            project.link(&["-o", "program", "start.o", "main.o", "liby.a"]);
            assert_eq!(project.status(), 7);
            assert_eq!(project.generated(), (2, vec!["liby.a(last.o)".into(), "main.o".into()]));
            let sections = fs::read_to_string(project.path("sections")).unwrap();
            assert!(!sections.contains(".pcce.code"), "{sections}");
        }
    });
}

#[test]
fn what_never_comes_to_an_end_is_refused() {
    each(|project| {
        let generated = "int late(void); int main(void) { return late() + VALUE(1); }";
        project.module_of_two("main.o", "int main(void) { return VALUE(1); }", generated);
        let generated = "int last(void); int late(void) { return last() + VALUE(2); }";
        project.module_of_two("late.o", "int late(void) { return VALUE(2); }", generated);
        project.module("last.o", "int last(void) { return VALUE(4); }");
        project.archive("qc", "libx.a", &["late.o", "last.o"]);
        let said = project.fails(&["-o", "program", "start.o", "main.o", "libx.a"]);
        assert!(said.contains("is linked as well"), "{said}");
        assert_eq!(project.generated().0, 2);
    });
}

#[test]
fn further_objects_are_linked_before_the_libraries() {
    each(|project| {
        let generated = "int further(void); int main(void) { return further() + VALUE(1); }";
        project.module_of_two("main.o", "int main(void) { return VALUE(1); }", generated);
        project.plain("further.o", "int needed(void); int further(void) { return needed() + 2; }");
        project.plain("needed.o", "int needed(void) { return 4; }");
        project.archive("qc", "libx.a", &["needed.o"]);
        project.extra.borrow_mut().push(project.path("further.o"));
        project.link(&["-o", "program", "start.o", "main.o", "libx.a"]);
        assert_eq!(project.status(), 7);
        // The same holds if the module is in a library itself.
        project.archive("qc", "libm.a", &["main.o"]);
        project.link(&["-o", "program", "start.o", "libx.a", "libm.a"]);
        assert_eq!(project.status(), 7);
    });
}

#[test]
fn code_of_another_module_is_refused() {
    each(|project| {
        project.module("main.o", CALLS_A);
        project.module("a.o", "int a(void) { return VALUE(2); }");
        fs::copy(project.path("generated/0.o"), project.path("generated/1.o")).unwrap();
        let said = project.fails(&["-o", "program", "start.o", "main.o", "a.o"]);
        assert!(said.contains("the code generated for a.o"), "{said}");
    });
}

#[test]
fn files_that_nobody_names_are_refused() {
    each(|project| {
        project.module("main.o", CALLS_A);
        project.module("a.o", "int a(void) { return VALUE(2); }");
        project.archive("qc", "libreal.a", &["a.o"]);
        // Scripts that a script includes are not read; gold knows no such scripts.
        if project.linker == "ld.gold" || project.linker == "mold" {
            return;
        }
        fs::write(project.path("inner"), "INPUT(libreal.a)").unwrap();
        fs::write(project.path("libx.so"), "INCLUDE inner").unwrap();
        let said = project.fails(&["-o", "program", "start.o", "main.o", "-L.", "-lx"]);
        assert!(said.contains("libreal.a") && said.contains("name it on the command line"), "{said}");
        project.link(&["-o", "program", "start.o", "main.o", "-L.", "libreal.a", "-lx"]);
    });
}

#[test]
fn an_output_that_is_no_file_stays() {
    each(|project| {
        project.module("main.o", "int main(void) { return VALUE(1); }");
        project.link(&["-o", "/dev/null", "start.o", "main.o"]);
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    });
}

#[test]
fn a_damaged_id_is_an_error() {
    each(|project| {
        project.module("main.o", "int main(void) { return VALUE(1); }");
        let object = project.path("main.o");
        let mut bytes = fs::read(&object).unwrap();
        let at = bytes.windows(8).position(|bytes| bytes == b"PCCEMOD1").unwrap();
        bytes[at + 7] = b'9';
        fs::write(&object, bytes).unwrap();
        let said = project.fails(&["-o", "program", "start.o", "main.o"]);
        assert!(said.contains(".pcce.module"), "{said}");
    });
}

/// A linker that runs a script.
fn linker(project: &Project, script: &str) {
    fs::write(project.path("linker"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(project.path("linker"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_linker_that_is_ended_by_a_signal_is_told() {
    let project = Project::new("ld.bfd");
    linker(&project, "kill -9 $$");
    let mut command = project.linking();
    command.env("PCCE_LINKER", project.path("linker")).args(["-o", "program", "start.o"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 9));
    assert!(text(&output.stderr).contains("was ended by signal 9"));
}

#[test]
fn a_signal_ends_the_linker_and_leaves_nothing() {
    // In the first link, and in the second.
    for (link, before) in [(1, "true"), (2, "case \"$*\" in *--trace*) exec ld.bfd \"$@\" ;; esac")] {
        let project = Project::new("ld.bfd");
        project.module("main.o", "int main(void) { return VALUE(1); }");
        // Writes the answer.
        project.link(&["--version"]);
        linker(&project, &format!("{before}\necho > program; echo $$ > new; mv new started; exec sleep 100"));
        let mut command = project.linking();
        command.env("PCCE_LINKER", project.path("linker")).args(["-o", "program", "start.o", "main.o"]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let begin = Instant::now();
        while !project.path("started").exists() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(10));
        }
        run(project.command("kill").arg(child.id().to_string()));
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        assert_eq!(fs::read_dir(project.path("tmp")).unwrap().count(), 0);
        assert_eq!(project.path("program").exists(), link == 1);
        let linker = fs::read_to_string(project.path("started")).unwrap();
        let name = format!("/proc/{}/comm", linker.trim());
        while fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep") {
            assert!(begin.elapsed() < Duration::from_secs(60), "the linker runs on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
