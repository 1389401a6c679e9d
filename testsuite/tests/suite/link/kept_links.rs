//! The record that a link keeps to be made again: without sources, objects and archives, in another folder, and for a
//! stripped program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};
use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{Output, artifact, command, run, source, work_folder};

const LINKERS: [&str; 4] = ["bfd", "gold", "lld", "mold"];

/// The sources, each with its compiler.
const SOURCES: [(&str, &str, &str); 8] = [
    ("main.cc", source!("link/kept/main.cc"), "pcce-clang++"),
    // Two members of one name.
    ("a/same.c", "int leaf(int);\nint one(int n) { return leaf(n) + leaf(n + 1); }\n", "pcce-clang"),
    (
        "b/same.c",
        "int leaf(int);\nint two(int n) { return n > 0 ? two(n - 1) + leaf(n) : 2; }\n",
        "pcce-clang",
    ),
    ("unused.c", "int unused(void) { return 3; }\n", "pcce-clang"),
    ("joined.c", "int leaf(int);\nint joined(int n) { return leaf(n) * 2; }\n", "pcce-clang"),
    ("listed.c", "int leaf(int);\nint listed(int n) { return leaf(n) * 5; }\n", "pcce-clang"),
    ("plain.c", "int plain(int (*call)(int)) { return call(7) + 1; }\n", "gcc"),
    ("odd.S", ".text\n.globl odd\nodd: mov $3, %eax\nret\n.section .note.GNU-stack,\"\",@progbits\n", "gcc"),
];

fn run_in(folder: &Path, program: impl AsRef<std::ffi::OsStr>, words: &str) -> Output {
    let words: Vec<&str> = words.split_whitespace().collect();
    run(command(program, &words).current_dir(folder)).expect_success()
}

fn wrapper(folder: &Path, name: &str, words: &str) {
    let _ = run_in(folder, artifact(name), words);
}

/// Makes objects, an archive, an object that is joined of others, and a script that names one.
fn build(folder: &Path, flags: &str) {
    for (source, text, compiler) in SOURCES {
        let file = folder.join(source);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        let object = Path::new(source).with_extension("o");
        let words = format!("-O2 -c {source} -o {}", object.display());
        if compiler == "gcc" {
            let _ = run_in(folder, "gcc", &format!("-fPIC {words}"));
        } else {
            wrapper(folder, compiler, &format!("{flags} {words}"));
        }
    }
    let _ = fs::remove_file(folder.join("libsame.a"));
    let _ = run_in(folder, "ar", "qc libsame.a a/same.o b/same.o unused.o");
    fs::write(folder.join("liblisted.so"), "/* a script */ INPUT(listed.o)\n").unwrap();
    fs::write(folder.join("versions"), "V1 { global: one; two; leaf; main; local: *; };\n").unwrap();
    wrapper(folder, "pcce-clang", "-r joined.o -o whole.o");
}

/// Removes what `make clean` removes, and more.
fn clean(folder: &Path) {
    for (source, ..) in SOURCES {
        fs::remove_file(folder.join(source)).unwrap();
        fs::remove_file(folder.join(source).with_extension("o")).unwrap();
    }
    for name in ["libsame.a", "liblisted.so", "versions", "whole.o"] {
        fs::remove_file(folder.join(name)).unwrap();
    }
}

fn relink(folder: &Path, words: &str) -> Output {
    let words: Vec<&str> = words.split_whitespace().collect();
    run(command(artifact("pcce"), &["relink"]).args(words).current_dir(folder))
}

const INPUTS: &str = "main.o plain.o odd.o -L. -lsame whole.o -llisted";

/// With the same options the program is the same, bit by bit.
#[test]
fn the_same_program_is_made_again() {
    for (number, (name, compiles, links)) in [
        // The name of the output is in the library: it has versions, and no SONAME.
        ("program", "-g", "-pie -rdynamic -Wl,--version-script=versions"),
        ("static", "--pcce-no-callback=silent", "-static"),
        ("gc", "-ffunction-sections", "-Wl,--gc-sections -Wl,-s -no-pie -pthread"),
        ("hybrid", "--pcce-hybrid", "-Wl,--whole-archive,-lsame,--no-whole-archive"),
        ("library", "-g -fPIC", "-shared -Wl,--version-script=versions -Wl,-soname,libx.so"),
    ]
    .into_iter()
    .enumerate()
    {
        let linkers: Vec<&str> = in_turn(number, LINKERS).collect();
        let base = work_folder(&format!("link_kept/same/{name}"));
        let (folder, away, other) = (base.join("build"), base.join("away"), base.join("other"));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(&other).unwrap();
        fs::write(folder.join("silent"), "puts\n").unwrap();
        build(&folder, compiles);
        for linker in &linkers {
            // `-l` does not find scripts in static links.
            let inputs =
                if name == "static" { INPUTS.replace("-llisted", "liblisted.so") } else { INPUTS.to_owned() };
            let extra = if compiles.contains("hybrid") { compiles } else { "" };
            wrapper(
                &folder,
                "pcce-clang++",
                &format!("--pcce-keep {extra} -fuse-ld={linker} {links} {inputs} -o {linker}"),
            );
        }
        clean(&folder);
        fs::rename(&folder, &away).unwrap();
        for linker in &linkers {
            let said = relink(&other, &format!("../away/{linker}.pcce-kept")).expect_success();
            // Linkers may print warnings.
            assert!(said.stdout.is_empty() && !said.stderr.contains("pcce-ld:"), "{}", said.describe());
            let (first, again) = (away.join(linker), other.join(linker));
            assert!(
                fs::read(&first).unwrap() == fs::read(&again).unwrap(),
                "{name}, {linker}: it is another program"
            );
            if name != "library" {
                assert_eq!(run(&mut Command::new(&again)).status, 0);
            }
        }
        let left: Vec<PathBuf> = pcce_testsuite::files(&other).unwrap();
        assert_eq!(left.len(), linkers.len(), "{left:?}");
    }
}

/// Split debug information is found by the place of the program.
#[test]
fn split_debug_information_is_made_again() {
    let folder = work_folder("link_kept/split");
    build(&folder, "-g -gsplit-dwarf");
    wrapper(&folder, "pcce-clang++", &format!("--pcce-keep -g -gsplit-dwarf {INPUTS} -o program"));
    clean(&folder);
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    let files = pcce_testsuite::files(&folder.join("program_dwo")).unwrap();
    let before: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(before.len() > 4, "{files:?}");
    let program = read("program");
    fs::remove_dir_all(folder.join("program_dwo")).unwrap();
    let said = relink(&folder, "program.pcce-kept -o program").expect_success().stderr;
    assert!(read("program") == program && said.is_empty(), "{said}");
    let after: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(before == after);
    let said = relink(&folder, "program.pcce-kept -o elsewhere").expect_success().stderr;
    assert!(said.contains("elsewhere is not") && said.contains("has another build id"), "{said}");
}

fn build_id(program: &Path) -> Vec<u8> {
    let data = fs::read(program).unwrap();
    object::File::parse(&*data).unwrap().build_id().unwrap().unwrap().to_vec()
}

/// The chains of a program's tokens.
fn chains(program: &Path) -> String {
    let tokens = run(&mut Command::new(program)).expect_success().stdout;
    let tokens: Vec<&str> = tokens.lines().collect();
    assert!(tokens.len() > 8, "{tokens:?}");
    let mut decode = command(artifact("pcce"), &["decode", "--format", "folded"]);
    run(decode.arg(program).args(tokens)).expect_success().stdout
}

fn code(program: &Path) -> Vec<u8> {
    let data = fs::read(program).unwrap();
    let file = object::File::parse(&*data).unwrap();
    file.section_by_name(".text").unwrap().data().unwrap().to_vec()
}

/// With another profile or other targets, a link made again gives another program: its tokens decode, and its code is
/// that of a build with these options. The record is found by the program's build id.
#[test]
fn other_options_make_another_program() {
    let folder = work_folder("link_kept/other");
    let link = |flags: &str, name: &str| {
        build(&folder, &format!("--pcce-mode=link -g {flags}"));
        wrapper(&folder, "pcce-clang++", &format!("--pcce-mode=link {flags} {INPUTS} -o {name}"));
    };
    link("--pcce-profile-generate=calls", "counting");
    run(Command::new(folder.join("counting")).current_dir(&folder)).expect_success();
    let _ = run_in(&folder, artifact("pcce"), "profile merge calls -o profile");
    link("--pcce-profile-use=profile", "with-profile");
    link("--pcce-targets=one", "with-targets");
    link("", "without");
    wrapper(&folder, "pcce-clang++", &format!("--pcce-keep=store {INPUTS} -o program"));
    clean(&folder);
    let path = |name: &str| folder.join(name);
    assert!(fs::read(path("program")).unwrap() == fs::read(path("without")).unwrap());
    let _ = run_in(&folder, "strip", "program -o stripped");
    let chains_before = chains(&path("program"));
    for (options, as_built) in [("--profile-use profile", "with-profile"), ("--targets one", "with-targets")]
    {
        let _ = relink(&folder, &format!("stripped --kept store {options} -o again")).expect_success();
        assert_ne!(build_id(&path("again")), build_id(&path("program")), "{options}");
        assert!(code(&path("again")) == code(&path(as_built)), "{options}: it has other code");
        let (again, built) = (chains(&path("again")), chains(&path(as_built)));
        assert_eq!(again, built, "{options}");
        if as_built == "with-profile" {
            assert_eq!(again, chains_before);
            assert!(code(&path("again")) != code(&path("program")), "{options}: it has the same code");
        }
    }
    // The program's first profile may be gone.
    fs::copy(path("profile"), path("old")).unwrap();
    build(&folder, "--pcce-mode=link -g --pcce-profile-use=old");
    let flags = "--pcce-mode=link --pcce-profile-use=old --pcce-keep";
    wrapper(&folder, "pcce-clang++", &format!("{flags} {INPUTS} -o with-old"));
    fs::remove_file(path("old")).unwrap();
    let said = relink(&folder, "with-old -o again").stderr;
    assert!(said.contains("old is missing: the program was linked with it"), "{said}");
    let _ = relink(&folder, "with-old -o again --profile-use profile").expect_success();
    assert!(code(&path("again")) == code(&path("with-profile")));

    let said = relink(&folder, "program --kept elsewhere -o none").stderr;
    assert!(
        said.contains("nothing was kept of program: there is no program.pcce-kept, and no elsewhere/"),
        "{said}"
    );
    let said = run_in_failing(&folder, "--pcce-relink", "stripped --kept store --pcce-verify");
    assert!(said.contains("`--pcce-verify` matters when a program is compiled"), "{said}");
}

fn run_in_failing(folder: &Path, flag: &str, words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let output = run(command(artifact("pcce-ld"), &[flag]).args(words).current_dir(folder));
    assert_ne!(output.status, 0, "{}", output.describe());
    output.stderr
}

/// An input that has changed since the link is named, and no program is written.
#[test]
fn what_has_changed_is_refused() {
    let folder = work_folder("link_kept/refused");
    build(&folder, "");
    let path = |name: &str| folder.join(name);
    // A library without modules, and an archive.
    let _ = run_in(&folder, "gcc", "-shared -Wl,-soname,libshared.so plain.o -o libshared.so");
    let _ = run_in(&folder, "ar", "qc libplain.a odd.o");
    let linker = path("ld.copy");
    fs::copy("/usr/bin/ld.bfd", &linker).unwrap();
    let inputs = "main.o -L. -lsame whole.o -llisted libshared.so -lplain";
    let words = format!("--pcce-keep -fuse-ld={} {inputs} -o program", linker.display());
    wrapper(&folder, "pcce-clang++", &words);
    let program = fs::read(path("program")).unwrap();
    let again = || relink(&folder, "program.pcce-kept -o again");
    let _ = again().expect_success();
    assert!(fs::read(path("again")).unwrap() == program);
    fs::remove_file(path("again")).unwrap();
    let refused = |output: Output, text: &str| {
        assert!(output.status == 2 && output.stderr.contains(text), "{text}: {}", output.describe());
        assert!(!path("again").exists());
    };
    for input in ["libshared.so", "libplain.a", "ld.copy"] {
        let content = fs::read(path(input)).unwrap();
        let rights = fs::metadata(path(input)).unwrap().permissions();
        let name = path(input).display().to_string();
        fs::remove_file(path(input)).unwrap();
        refused(again(), &format!("{name} is missing: the program was linked with it"));
        fs::create_dir(path(input)).unwrap();
        refused(again(), &format!("{name} is no file"));
        fs::remove_dir(path(input)).unwrap();
        let mut other = content.clone();
        other.push(0);
        fs::write(path(input), other).unwrap();
        fs::set_permissions(path(input), rights.clone()).unwrap();
        let size = content.len();
        let what = if input == "ld.copy" { "is another version" } else { "has other content" };
        refused(again(), &format!("{name} {what} ({} bytes, and {size} then)", size + 1));
        fs::write(path(input), content).unwrap();
    }
    // A compiler that does something else.
    let mut other = command(artifact("pcce"), &["relink", "program.pcce-kept", "-o", "again"]);
    other.env("CCC_OVERRIDE_OPTIONS", "+-mpopcnt").current_dir(&folder);
    refused(run(&mut other), "the compilers of the program do something else than when it was linked");
    // A library in a folder that is searched before the one of the link.
    let _ = again().expect_success();
    fs::remove_file(path("again")).unwrap();
    let _ = run_in(&folder, "gcc", "-shared -Wl,-soname,libplain.so odd.o -o libplain.so");
    refused(again(), "libplain.so is read, and was not");
    fs::remove_file(path("libplain.so")).unwrap();

    // Files that have changed, or belong to another program.
    let kept = fs::read(path("program.pcce-kept")).unwrap();
    let mut spoilt = kept.clone();
    spoilt[kept.len() / 2] ^= 1;
    fs::write(path("spoilt"), &spoilt).unwrap();
    refused(relink(&folder, "spoilt -o again"), "spoilt is damaged: its checksum is another one");
    fs::write(path("cut"), &kept[..kept.len() / 2]).unwrap();
    refused(relink(&folder, "cut -o again"), "cut is damaged");
    refused(relink(&folder, "plain.c -o again"), "plain.c is no file that a link has kept");
    refused(relink(&folder, "nowhere -o again"), "nowhere: No such file");
    let wrong = words.replace("--pcce-keep", "-Wl,-z,now");
    wrapper(&folder, "pcce-clang++", &wrong);
    refused(relink(&folder, "program -o again"), "program.pcce-kept is of another build than program");

    // Inputs that cannot be kept.
    fs::create_dir(path("thin")).unwrap();
    fs::write(path("thin/a.c"), "int main(void) { return 0; }\n").unwrap();
    let refuses = |words: &str, text: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let output = run(command(artifact("pcce-clang"), &words).current_dir(path("thin")));
        assert!(output.status != 0 && output.stderr.contains(text), "{}", output.describe());
        assert!(!path("thin/a.out").exists());
    };
    refuses("--pcce-keep -flto=thin a.c", "`--pcce-keep` and `-flto=thin` do not go together");
    refuses("--pcce-keep -flto a.c", "`--pcce-keep` would do nothing");
    refuses("--pcce-keep --pcce-mode=module a.c", "`--pcce-keep` would do nothing");
    let _ = run_in(&folder, "gcc", "-shared plain.o -o libnameless.so");
    refuses("--pcce-keep a.c ../libnameless.so", "libnameless.so has no SONAME");
    refuses("--pcce-keep=store -Wl,--build-id=none a.c", "has no build id");
    assert!(!path("thin/store").exists());
}
