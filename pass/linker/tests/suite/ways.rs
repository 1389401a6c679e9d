//! Options and scripts that go by the names of files, and links by clang.

use std::fs;
use std::process::Command;

use crate::project::{Project, each, run, text};

const CALLS_A: &str = "int a(void); int main(void) { return a() + VALUE(1); }";

#[test]
fn options_for_archives_find_their_copies() {
    each(|project| {
        project.module("lib.o", "int a(void); int b(void) { return a() + VALUE(1); }");
        project.module("a.o", "int a(void) { return VALUE(2); }");
        fs::create_dir(project.path("sub")).unwrap();
        project.archive("qc", "sub/libx.a", &["a.o"]);
        for library in [&["-Lsub", "-lx"][..], &["sub/libx.a"]] {
            let flags = ["-shared", "-o", "libb.so", "lib.o", "--exclude-libs", "libx.a"];
            project.link(&[&flags, library].concat());
            let symbols = run(project.command("nm").args(["-D", "--defined-only", "libb.so"]));
            assert!(symbols.contains(" b") && !symbols.contains(" a"), "{symbols}");
        }
    });
}

#[test]
fn files_that_scripts_name_get_their_code() {
    each(|project| {
        project.module(
            "main.o",
            "int a(void), b(void), d(void); int main(void) { return a() + b() + d() + VALUE(1); }",
        );
        project.module("parts/a.o", "int c(void); int a(void) { return VALUE(2) + c(); }");
        project.module("parts/b.o", "int b(void) { return VALUE(4); }");
        project.module("parts/c.o", "int c(void) { return VALUE(8); }");
        project.module("unused.o", "int unused(void) { return VALUE(1); }");
        project.plain("parts/with space.o", "int d(void) { return 16; }");
        project.archive("qc", "parts/libb.a", &["unused.o", "parts/b.o"]);
        project.archive("qc", "parts/libc.a", &["parts/c.o"]);
        let write = |name: &str, text: &str| fs::write(project.path(name), text).unwrap();
        let words = ["-o", "program", "start.o", "main.o"];
        let generated = |from: &[&str]| {
            assert_eq!(project.status(), 31, "{from:?}");
            let (rounds, mut modules) = project.generated();
            modules.sort();
            modules.iter_mut().for_each(|name| *name = name.rsplit('/').next().unwrap().to_owned());
            modules.sort();
            assert_eq!(
                (rounds, modules),
                (1, ["a.o", "libb.a(b.o)", "libc.a(c.o)", "main.o"].map(Into::into).into())
            );
        };
        // Scripts as inputs, found by `-l`, and named by another script; names in quotes and by `-l`.
        write(
            "all",
            "/* INPUT(unused.o) */ INPUT(parts/a.o) GROUP ( parts/libb.a -lc \"parts/with space.o\" )",
        );
        project.link(&[&words[..], &["-Lparts", "all"]].concat());
        generated(&["all"]);
        write("parts/libscript.so", "INPUT(-lc)");
        write("parts/libmore.so", "GROUP(a.o libb.a AS_NEEDED(-lscript)) INPUT(\"with space.o\")");
        project.link(&[&words[..], &["-Lparts", "-lmore"]].concat());
        generated(&["libmore.so"]);
        // As the script of the whole link.
        if project.linker == "ld.bfd" || project.linker == "ld.lld-19" {
            for option in [&["-T", "whole"][..], &["--script=whole"]] {
                write(
                    "whole",
                    "INPUT(parts/a.o) GROUP(parts/libb.a parts/libc.a) INPUT(\"parts/with space.o\") ENTRY(_start)\n\
                       SECTIONS { . = 0x400000; .text : { *(.text*) } .data : { *(.data*) *(.got*) } }",
                );
                project.link(&[&words[..], option].concat());
                generated(option);
            }
        }
        // A name of a file beside the script leads to the same file, and so does a name in a folder.
        write("parts/beside", "INPUT(a.o libb.a libc.a \"with space.o\")");
        let beside = project.try_link(&[&words[..], &["-Lparts", "parts/beside"]].concat());
        assert!(beside.status.success(), "{}", crate::project::text(&beside.stderr));
        generated(&["beside"]);
        // A script and the command line name one file.
        write("twice", "GROUP(parts/libb.a parts/libc.a)");
        project.link(&[&words[..], &["parts/a.o", "parts/with space.o", "twice", "parts/libb.a"]].concat());
        generated(&["twice"]);
    });
}

#[test]
fn scripts_find_files_by_their_names() {
    each(|project| {
        // mold knows no scripts with sections.
        if project.linker == "mold" {
            return;
        }
        project.module(
            "main.o",
            "int a(void); int first(void); int main(void) { return a() + first() + VALUE(1); }",
        );
        project.module("a.o", "int a(void) { return VALUE(2); }");
        project.module("first.o", "int first(void) { return VALUE(4); }");
        project.archive("qc", "libx.a", &["a.o", "first.o"]);
        let script = "ENTRY(_start) SECTIONS { . = 0x400000; .text : { begin = .; *first.o(.text*) middle = .; *libx.a:a.o(.text*) \
                      end = .; *(.text*) } .data : { *(.data*) *(.got*) } .bss : { *(.bss*) } }";
        fs::write(project.path("script"), script).unwrap();
        project.link(&["-T", "script", "-o", "program", "start.o", "main.o", "libx.a"]);
        assert_eq!(project.status(), 7);
        // The result is as if the code had been there from the beginning.
        fs::create_dir(project.path("plain")).unwrap();
        for (number, name) in ["main.o", "a.o", "first.o"].into_iter().enumerate() {
            let generated = project.path(&format!("generated/{number}.o"));
            fs::rename(generated, project.path("plain").join(name)).unwrap();
        }
        let plain = || {
            let mut command = project.command(project.linker);
            command.current_dir(project.path("plain"));
            command
        };
        run(Command::new("ar").args(["qc", "libx.a", "a.o", "first.o"]).current_dir(project.path("plain")));
        run(plain().args(["-T", "../script", "-o", "program", "../start.o", "main.o", "libx.a"]));
        let symbols = |program: &str| run(project.command("nm").args(["-n", program]));
        assert_eq!(symbols("program"), symbols("plain/program"));
        if project.linker != "ld.gold" {
            let names: Vec<String> =
                symbols("program").lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
            let at = |name: &str| names.iter().position(|n| n == name).unwrap();
            assert!(at("first") < at("a") && at("a") < at("main"), "{names:?}");
        }
    });
}

#[test]
fn names_are_bound_as_the_options_say() {
    each(|project| {
        project.module("main.o", "int a(void); int b(void); int main(void) { return a() + b() + VALUE(1); }");
        project.module("a.o", "int a(void) { return VALUE(2); }");
        let wrap = "int __real_a(void); int __wrap_a(void) { return __real_a() + VALUE(4); }";
        project.module("wrap.o", wrap);
        project.link(&["-o", "program", "start.o", "main.o", "a.o", "wrap.o", "--wrap=a", "--defsym=b=a"]);
        let expected = run(project.command("sh").arg("-c").arg(format!(
            "{} -o plain start.o generated/0.o generated/1.o generated/2.o --wrap=a --defsym=b=a; ./plain; echo $?",
            project.linker
        )));
        assert_eq!(format!("{}\n", project.status()), expected);
    });
}

#[test]
fn equal_code_is_not_folded() {
    each(|project| {
        project.module("main.o", "int a(void); int b(void); int main(void) { return a() + b() + VALUE(1); }");
        project.module("a.o", "int a(void) { return VALUE(2); }");
        project.module("b.o", "int b(void) { return VALUE(4); }");
        let fold = if project.linker == "ld.bfd" { "--gc-sections" } else { "--icf=all" };
        for flags in
            [&["--strip-all"][..], &["-s", "-x"], &["-S", "--emit-relocs"], &["--build-id", "--stats"]]
        {
            // gold 1.16 has an internal error, and mold 1.10 ends by a signal.
            if ["ld.gold", "mold"].contains(&project.linker) && flags.contains(&"-S") {
                continue;
            }
            project.link(&[&["-o", "program", fold, "start.o", "main.o", "a.o", "b.o"][..], flags].concat());
            assert_eq!(project.status(), 7, "{flags:?}");
        }
        project.module("c.o", "int a(void) { return VALUE(2); }");
        project.module("d.o", "int b(void) { return VALUE(2); }");
        for flags in [&[fold][..], &["-icf=safe"], &["--icf", "all"]] {
            if project.linker == "ld.bfd" && flags != [fold] || project.linker == "ld.gold" && flags.len() > 1
            {
                continue;
            }
            project.link(&[&["-o", "program", "start.o", "main.o", "c.o", "d.o"][..], flags].concat());
            let symbols = run(project.command("nm").arg("program"));
            // mold makes all symbols local.
            let address = |name: &str| {
                let mut lines = symbols.lines().filter_map(|line| line.strip_suffix(name)?.split_once(' '));
                lines.find_map(|(address, kind)| kind.eq_ignore_ascii_case("t ").then_some(address))
            };
            let (a, b) = (address("a"), address("b"));
            assert!(a.is_some() && b.is_some() && a != b, "{flags:?}: {symbols}");
        }
    });
}

#[test]
fn objects_in_the_manner_of_archives_are_linked() {
    each(|project| {
        if project.linker == "ld.bfd" {
            return;
        }
        project.module("main.o", CALLS_A);
        project.module("a.o", "int further(void); int a(void) { return VALUE(2); }");
        project.module("b.o", "int b(void) { return VALUE(4); }");
        project.plain("further.o", "int further(void) { return 1; }");
        project.extra.borrow_mut().push(project.path("further.o"));
        project.link(&["-o", "program", "start.o", "--start-lib", "b.o", "a.o", "main.o", "--end-lib"]);
        assert_eq!((project.status(), project.generated().1), (3, vec!["a.o".into(), "main.o".into()]));
        assert!(run(project.command("nm").arg("program")).contains("further"));
    });
}

#[test]
fn thin_archives_elsewhere_are_found() {
    each(|project| {
        project.module("main.o", CALLS_A);
        project.module("src/deep/a.o", "int b(void); int a(void) { return b() + VALUE(2); }");
        project.module("src/b.o", "int b(void) { return VALUE(4); }");
        fs::create_dir(project.path("lib dir")).unwrap();
        project.archive("qcT", "lib dir/libx.a", &["src/deep/a.o", "src/b.o"]);
        project.link(&["-o", "program", "start.o", "main.o", "-Llib dir", "-lx"]);
        assert_eq!(project.status(), 7);
        let absolute = project.path("src/b.o");
        project.archive("qcT", "libabs.a", &["src/deep/a.o", absolute.to_str().unwrap()]);
        project.link(&["-o", "program", "start.o", "main.o", "libabs.a"]);
        assert_eq!(project.status(), 7);
        // The same object by its own name, and the archive that has it.
        project.link(&["-o", "program", "start.o", "main.o", "src/b.o", "lib dir/libx.a"]);
        assert_eq!(project.status(), 7);
        assert_eq!(project.generated().1.len(), 3);
    });
}

#[test]
fn bitcode_is_linked_beside_it() {
    each(|project| {
        let plugin = "/usr/lib/llvm-19/lib/LLVMgold.so";
        let plugin = if project.linker == "ld.lld-19" { &[][..] } else { &["-plugin", plugin] };
        project.module("main.o", CALLS_A);
        project.module("b.o", "int b(void) { return VALUE(4); }");
        fs::write(project.path("a.c"), "int b(void); int a(void) { return b() + 2; }").unwrap();
        run(project.command("clang-19").args(["-flto", "-c", "a.c"]));
        run(project.command("llvm-ar-19").args(["qc", "libx.a", "b.o", "a.o"]));
        project.link(&[&["-o", "program"][..], plugin, &["start.o", "main.o", "libx.a"]].concat());
        assert_eq!((project.status(), project.generated().1.len()), (7, 2));
        // gold does not say which bitcode it links.
        let told = project.told("plain").contains(&"libx.a(a.o)".to_owned());
        assert_eq!(told, project.linker != "ld.gold", "{:?}", project.told("plain"));
    });
}

#[test]
fn programs_of_other_machines_are_linked() {
    each(|project| {
        fs::write(project.path("a.c"), "void _start(void) { for (;;); }").unwrap();
        run(project.command("clang-19").args(["-m32", "-c", "a.c"]));
        project.link(&["-m", "elf_i386", "-o", "program", "a.o"]);
        assert_eq!(fs::read(project.path("program")).unwrap()[4], 1);
    });
}

#[test]
fn the_linker_is_the_first_ld_that_is_another_program() {
    let project = Project::new("ld.bfd");
    project.module("main.o", "int main(void) { return VALUE(1); }");
    // Writes the answer.
    project.link(&["--version"]);
    fs::create_dir(project.path("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pcce-ld-command"), project.path("bin/ld")).unwrap();
    let path = format!("{}:{}", project.path("bin").display(), std::env::var("PATH").unwrap());
    let arguments = ["-o", "program", "start.o", "main.o"];
    run(project.linking().env_remove("PCCE_LINKER").env("PATH", path).args(arguments));
    assert_eq!(project.status(), 1);
    for name in ["ld.bfd", project.path("bin/ld").to_str().unwrap()] {
        let output = project.linking().env("PCCE_LINKER", name).args(arguments).output().unwrap();
        assert!(!output.status.success() && text(&output.stderr).contains("must be the whole path"));
    }
    let output = project.linking().env("PCCE_LINKER", "/nowhere/ld").args(arguments).output().unwrap();
    assert!(!output.status.success() && text(&output.stderr).contains("cannot run the linker"));
}

#[test]
fn links_by_clang_are_linked() {
    each(|project| {
        let main = "extern \"C\" int a(int); extern \"C\" int printf(const char*, ...); struct thrown {}; \
                    int main() { try { a(0); } catch (thrown) { printf(\"%d\\n\", VALUE(1)); } }";
        project.module("main.o", main);
        let thrower =
            "extern \"C\" int a(int); struct thrown {}; int a(int x) { if (!x) throw thrown(); return x; }";
        project.module("a.o", thrower);
        project.archive("qc", "liba.a", &["a.o"]);
        // Writes the answer.
        let _ = project.try_link(&["--version"]);
        let program = |project: &Project, flags: &[&str]| {
            let mut command = Command::new("clang++-19");
            let front = format!("--ld-path={}", env!("CARGO_BIN_EXE_pcce-ld-command"));
            let linking = project.linking();
            let environment = linking.get_envs().filter_map(|(name, value)| value.map(|value| (name, value)));
            command.current_dir(project.path("")).envs(environment).arg(front).args(flags);
            let output = command.args(["main.o", "-L.", "-la", "-o", "program"]).output().unwrap();
            assert!(output.status.success(), "{}: {flags:?}: {}", project.linker, text(&output.stderr));
            run(&mut project.command(project.path("program")))
        };
        for flags in [
            &[][..],
            &["-static"],
            &["-no-pie", "-Wl,--gc-sections", "-s"],
            &["-rdynamic", "-pthread", "-Wl,--as-needed", "-Wl,-z,now"],
        ] {
            assert_eq!(program(&project, flags), "1\n", "{flags:?}");
        }
    });
}
