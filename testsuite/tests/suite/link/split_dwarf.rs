//! Split debug information (`-gsplit-dwarf`), which links write: readers find all of it, and it fits the code of each
//! program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol};
use pcce_testsuite::{artifact, command, llvm, run, source, work_folder};

/// Two programs have different code for this library: `one` calls `work` at three places, and `two` at one.
const LIBRARY: &str = source!("link/split_dwarf/library.c");
const LEAF: &str = source!("link/split_dwarf/leaf.c");
const TWO: &str = source!("link/split_dwarf/two.c");

fn sources(folder: &Path) {
    for (name, text) in [
        ("library.c", LIBRARY),
        ("leaf.c", LEAF),
        ("one.c", source!("link/split_dwarf/one.c")),
        ("two.c", TWO),
    ] {
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("src").join(name), text).unwrap();
    }
}

fn wrapper(folder: &Path, words: &[&str]) -> Command {
    let mut clang = command(artifact("pcce-clang"), words);
    clang.current_dir(folder).env("PCCE_CACHE", folder.join("cache"));
    clang
}

fn build(folder: &Path, words: &str) {
    let words: Vec<&str> = words.split_whitespace().collect();
    run(&mut wrapper(folder, &words)).expect_success();
}

/// A reader's answer for each byte of the functions: the lines, and what is inlined there. Names of folders are left
/// out.
fn symbolized(program: &Path, words: &[&str]) -> String {
    let data = fs::read(program).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let mut addresses = Vec::new();
    for name in ["leaf", "deep", "work", "main"] {
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
        addresses.extend((symbol.address()..symbol.address() + symbol.size()).map(|a| format!("{a:#x}")));
    }
    assert!(addresses.len() > 100, "{addresses:?}");
    let mut reader = command(llvm("llvm-symbolizer"), &["--basenames", "--addresses"]);
    reader.args(words).arg("-e").arg(program).args(addresses).current_dir(program.parent().unwrap());
    let said = run(&mut reader).expect_success().stdout;
    for line in ["inner\nlibrary.c:2:", "outer\nlibrary.c:3:", "work\nlibrary.c:7:", "leaf\nleaf.c:2:"] {
        assert!(said.contains(line), "{line} is missing: {said}");
    }
    said
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The names of split files in a program.
fn called(program: &Path) -> Vec<String> {
    let words = ["--debug-info", "-r", "0"];
    let said = run(command(llvm("llvm-dwarfdump"), &words).arg(program)).expect_success().stdout;
    let names = said.lines().filter_map(|line| line.trim().strip_prefix("DW_AT_dwo_name"));
    let mut names: Vec<String> =
        names.map(|name| name.trim().trim_matches(['(', ')', '"']).to_owned()).collect();
    names.sort();
    names
}

/// Readers give the same answers as for the same program with everything in one file, with each option for split files.
#[test]
fn readers_find_what_the_link_has_written() {
    let folder = work_folder("split_dwarf/ways");
    sources(&folder);
    let apart = |flags: &str| {
        for (source, output) in [("one", "obj/one.o"), ("library", "obj/library.c.o"), ("leaf", "obj/leaf.o")]
        {
            build(&folder, &format!("-g -O1 {flags} -c src/{source}.c -o {output}"));
        }
        fs::create_dir_all(folder.join("bin")).unwrap();
        build(&folder, &format!("{flags} obj/one.o obj/library.c.o obj/leaf.o -o bin/program"));
    };
    fs::create_dir_all(folder.join("obj")).unwrap();
    let program = folder.join("bin/program");
    apart("-no-integrated-as");
    let other = symbolized(&program, &[]);
    apart("");
    let expected = symbolized(&program, &[]);
    let relative = ["leaf", "library", "one"].map(|name| format!("bin/program_dwo/{name}.dwo"));
    let compilation = format!("-gsplit-dwarf -fdebug-compilation-dir={}", folder.display());
    let mapped = format!("-gsplit-dwarf -fdebug-prefix-map={}=/nowhere", folder.display());
    for flags in [
        "-gsplit-dwarf",
        "-gsplit-dwarf=single",
        "-gsplit-dwarf -gz",
        "-gsplit-dwarf -gdwarf-4",
        "-gsplit-dwarf -dumpdir nowhere/",
        "-gsplit-dwarf -no-integrated-as",
        &compilation,
        &mapped,
    ] {
        let _ = fs::remove_dir_all(folder.join("bin"));
        apart(flags);
        assert_eq!(names(&folder.join("obj")), ["leaf.o", "library.c.o", "one.o"], "{flags}");
        assert_eq!(names(&folder.join("bin/program_dwo")), ["leaf.dwo", "library.dwo", "one.dwo"], "{flags}");
        if !flags.contains("dwarf-4") {
            assert_eq!(called(&program), relative, "{flags}");
        }
        assert_eq!(run(&mut command(&program, &[])).status, 3, "{flags}");
        if flags == mapped {
            continue;
        }
        // GNU's assembler writes other line tables.
        let expected = if flags.contains("-no-integrated-as") { &other } else { &expected };
        assert!(symbolized(&program, &[]) == *expected, "{flags}");
        // One package file, as packagers make it.
        if !flags.contains("-gz") {
            let package = folder.join("bin/all.dwp");
            let mut dwp = command(llvm("llvm-dwp"), &["-e"]);
            run(dwp.arg(&program).arg("-o").arg(&package).current_dir(&folder)).expect_success();
            fs::remove_dir_all(folder.join("bin/program_dwo")).unwrap();
            let named = format!("--dwp={}", package.display());
            assert!(symbolized(&program, &[&named]) == *expected, "{flags}, in a package");
        }
    }
    // One command in the folder of the sources: no objects stay, and names are absolute.
    let whole = folder.join("elsewhere");
    build(
        &folder,
        &format!("-g -O1 -gsplit-dwarf src/one.c src/library.c src/leaf.c -o {}", whole.display()),
    );
    let files = ["leaf", "library", "one"].map(|name| folder.join(format!("elsewhere_dwo/{name}.dwo")));
    assert_eq!(called(&whole), files.map(|file| file.display().to_string()));
    assert!(symbolized(&whole, &[]) == expected);
    // With the option taken back, the information is in the program.
    build(&folder, "-g -O1 -gsplit-dwarf -gno-split-dwarf src/one.c src/library.c src/leaf.c -o back");
    assert!(!folder.join("back_dwo").exists() && called(&folder.join("back")).is_empty());
    // A lost file is not searched for.
    build(&folder, "-g -gsplit-dwarf src/one.c src/library.c src/leaf.c -o /dev/null");
}

/// A debugger shows variables, and `pcce decode` shows lines and inlined functions.
#[test]
fn debuggers_show_variables() {
    let folder = work_folder("split_dwarf/gdb");
    sources(&folder);
    build(&folder, "-g -O1 -gsplit-dwarf src/one.c src/library.c src/leaf.c -o program");
    let mut gdb = command("gdb", &["-q", "-nx", "-batch", "-ex", "break leaf", "-ex", "run"]);
    gdb.args(["-ex", "backtrace", "-ex", "frame 3", "-ex", "info locals", "-ex", "kill", "program"]);
    let said = run(gdb.current_dir(&folder)).stdout;
    for text in ["in inner (k=0)", "work (n=", "src/library.c:7", "sum = "] {
        assert!(said.contains(text), "{text}: {said}");
    }
    fs::write(
        folder.join("src/leaf.c"),
        "#include <stdio.h>\n#include <pcce.h>\nint leaf(int n) { char t[4096]; if (n == 0) { pcce_token(t, sizeof t); puts(t); } \
         return 2 * n; }\n",
    )
    .unwrap();
    build(&folder, "-g -O1 -gsplit-dwarf src/one.c src/library.c src/leaf.c -o program");
    let tokens = run(command(folder.join("program"), &[]).current_dir(&folder)).stdout;
    let mut decode = command(artifact("pcce"), &["decode", "program"]);
    let said = run(decode.arg(tokens.lines().next().unwrap()).current_dir(&folder)).expect_success().stdout;
    for text in ["leaf at", "inner at", "outer at", "library.c:3:", "[inlined]", "work at", "main at"] {
        assert!(said.contains(text), "{text}: {said}");
    }
}

/// Two programs have different code for an archive's members, and each finds the file that fits, wherever the archive
/// is.
#[test]
fn each_program_has_its_own() {
    let folder = work_folder("split_dwarf/archive");
    sources(&folder);
    let make = |split: &str, base: &Path| {
        fs::create_dir_all(base.join("built")).unwrap();
        for source in ["one", "two", "library", "leaf"] {
            let words = format!("-g -O1 {split} -c ../src/{source}.c -o built/{source}.o");
            build(base, &words);
        }
        let mut ar = command(llvm("llvm-ar"), &["qc", "libshared.a", "built/library.o", "built/leaf.o"]);
        run(ar.current_dir(base)).expect_success();
        // The archive is elsewhere, and its sources and objects are gone.
        fs::create_dir_all(base.join("moved")).unwrap();
        fs::rename(base.join("libshared.a"), base.join("moved/libshared.a")).unwrap();
        for program in ["one", "two"] {
            fs::rename(base.join(format!("built/{program}.o")), base.join(format!("{program}.o"))).unwrap();
        }
        fs::remove_dir_all(base.join("built")).unwrap();
    };
    let link = |base: &Path, program: &str| {
        build(base, &format!("{program}.o moved/libshared.a -o {program}"));
        base.join(program)
    };
    let (split, whole) = (folder.join("split"), folder.join("whole"));
    make("-gsplit-dwarf", &split);
    make("", &whole);
    let expected = ["one", "two"].map(|program| symbolized(&link(&whole, program), &[]));
    // The code differs, so one file for both would be wrong for one of them.
    assert_ne!(expected[0].lines().count(), expected[1].lines().count());
    for order in [["one", "two"], ["two", "one"]] {
        let programs = order.map(|program| link(&split, program));
        for (program, name) in programs.iter().zip(order) {
            let expected = &expected[usize::from(name == "two")];
            assert!(symbolized(program, &[]) == *expected, "{name} of {order:?}");
        }
    }
    // Files that the cache has are written again.
    let entries = |base: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        let folders = names(&base.join("cache")).into_iter().map(|name| base.join("cache").join(name));
        let files = folders.flat_map(|folder| names(&folder).into_iter().map(move |name| folder.join(name)));
        files.map(|file| (file.clone(), fs::read(&file).unwrap())).collect()
    };
    let kept = entries(&split);
    let files = |base: &Path| -> Vec<Vec<u8>> {
        let folder = base.join("one_dwo");
        names(&folder).into_iter().map(|name| fs::read(folder.join(name)).unwrap()).collect()
    };
    let first = files(&split);
    assert_eq!(first.len(), 3);
    fs::remove_dir_all(split.join("one_dwo")).unwrap();
    assert!(symbolized(&link(&split, "one"), &[]) == expected[0]);
    assert!(files(&split) == first && entries(&split) == kept);
    // A lost entry is made again.
    let lost = kept.iter().find(|(_, entry)| first.iter().any(|file| entry.ends_with(file))).unwrap();
    fs::write(&lost.0, b"PCCEOBJ1").unwrap();
    fs::remove_dir_all(split.join("one_dwo")).unwrap();
    assert!(symbolized(&link(&split, "one"), &[]) == expected[0]);
    assert!(files(&split) == first && entries(&split) == kept);
    // Two modules of one name have two files.
    fs::create_dir_all(folder.join("src/other")).unwrap();
    fs::write(folder.join("src/other/leaf.c"), "int further(int n) { return n; }\n").unwrap();
    build(&folder, "-g -O1 -gsplit-dwarf src/one.c src/other/leaf.c src/library.c src/leaf.c -o both");
    assert_eq!(names(&folder.join("both_dwo")), ["leaf.1.dwo", "leaf.dwo", "library.dwo", "one.dwo"]);
    let _ = symbolized(&folder.join("both"), &[]);
    // If the files cannot be written, there is no program.
    fs::write(folder.join("none_dwo"), "").unwrap();
    let none = ["-g", "-gsplit-dwarf", "src/one.c", "src/library.c", "src/leaf.c", "-o", "none"];
    let refused = run(&mut wrapper(&folder, &none));
    let said = "debug information cannot be written to ";
    assert!(refused.status != 0 && refused.stderr.contains(said), "{}", refused.describe());
    assert!(!folder.join("none").exists());
}
