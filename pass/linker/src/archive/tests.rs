use std::process::Command;

use object::read::archive::ArchiveFile;

use super::*;

/// A folder with objects: each defines what the source says.
fn folder(objects: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, source) in objects {
        fs::write(folder.path().join("source.s"), source).unwrap();
        fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        run(&folder, "clang-19", &["-c", "source.s", "-o", name]);
    }
    folder
}

fn run(folder: &tempfile::TempDir, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn copy(folder: &tempfile::TempDir, archive: &str, replaced: &[(usize, &str)]) -> Result<(), Error> {
    let path = |name: &str| folder.path().join(name);
    let archive = Archive::read(&path(archive)).unwrap().expect("it is an archive");
    let replaced = replaced.iter().map(|(number, name)| (*number, path(name))).collect();
    archive.copy(&path("copy.a"), &replaced)
}

/// Name; date, owner and rights; content.
type Parts = (Vec<u8>, [Option<u64>; 4], Vec<u8>);

fn members(path: &Path) -> Vec<Parts> {
    let data = fs::read(path).unwrap();
    let archive = ArchiveFile::parse(&*data).unwrap();
    let member = archive.members().map(Result::unwrap);
    let all = member.map(|m| {
        let numbers = [m.date(), m.uid(), m.gid(), m.mode()];
        (m.name().to_vec(), numbers, m.data(&*data).unwrap().to_vec())
    });
    all.collect()
}

const OBJECTS: &[(&str, &str)] = &[
    ("a.o", ".globl one, weak\none:\n.weak weak\nweak:\nlocal: .long undefined"),
    ("a member with a long name.o", ".globl two\ntwo: .byte 1"),
    ("sub/a.o", ".globl three\nthree: .comm common, 4"),
    ("new.o", ".globl four, five\nfour:\nfive: .long 1, 2, 3\n.section .odd,\"\",@progbits\n.byte 1"),
];
const NAMES: &[&str] = &["a.o", "a member with a long name.o", "sub/a.o"];

#[test]
fn a_copy_differs_in_the_replaced_members_only() {
    let folder = folder(OBJECTS);
    for flags in ["qcU", "qcD", "qcSU", "qcTU"] {
        let _ = fs::remove_file(folder.path().join("x.a"));
        run(&folder, "ar", &[&[flags, "x.a"], NAMES].concat());
        fs::write(folder.path().join("none"), "odd").unwrap();
        copy(&folder, "x.a", &[(2, "new.o")]).unwrap();
        let new = members(&folder.path().join("copy.a"));
        let contents: Vec<_> = new.iter().map(|(.., content)| content.clone()).collect();
        let expected = ["a.o", "a member with a long name.o", "new.o"];
        assert!(contents == expected.map(|name| fs::read(folder.path().join(name)).unwrap()), "{flags}");
        if !flags.contains('T') {
            let old = members(&folder.path().join("x.a"));
            for (old, new) in old.iter().zip(&new) {
                assert_eq!((&old.0, old.1), (&new.0, new.1), "{flags}");
            }
        }
        // The index is the same as GNU ar's, or there is none.
        let index = |archive: &str| run(&folder, "nm", &["-s", archive]);
        let expected = "one in a.o\nweak in a.o\ntwo in a member with a long name.o\nfour in ";
        assert_eq!(index("copy.a").contains(expected), !flags.contains('S'), "{}", index("copy.a"));
        // `ranlib` shortens the names of a thin archive.
        if !flags.contains(['S', 'T']) {
            let text = index("copy.a");
            let head = text.split("\n\n").next().unwrap().to_owned();
            run(&folder, "ranlib", &["copy.a"]);
            assert!(index("copy.a").starts_with(&head), "{text}\n{}", index("copy.a"));
        }
    }
}

#[test]
fn the_index_of_what_stays_is_kept() {
    // Symbols that only the archiver could read: bitcode.
    let folder = folder(OBJECTS);
    fs::write(folder.path().join("b.c"), "int in_bitcode(void) { return 1; }").unwrap();
    run(&folder, "clang-19", &["-flto", "-c", "b.c", "-o", "b.o"]);
    run(&folder, "llvm-ar-19", &["qc", "x.a", "b.o", "a.o"]);
    copy(&folder, "x.a", &[(1, "new.o")]).unwrap();
    let index = run(&folder, "llvm-nm-19", &["--print-armap", "copy.a"]);
    assert!(index.contains("in_bitcode in b.o\nfour in a.o\nfive in a.o"), "{index}");
}

#[test]
fn a_copy_of_nothing_new_is_the_same() {
    let folder = folder(OBJECTS);
    run(&folder, "ar", &[&["qcD", "x.a"], NAMES].concat());
    copy(&folder, "x.a", &[]).unwrap();
    assert!(fs::read(folder.path().join("x.a")).unwrap() == fs::read(folder.path().join("copy.a")).unwrap());
    run(&folder, "ar", &["qcD", "empty.a"]);
    copy(&folder, "empty.a", &[]).unwrap();
    assert_eq!(members(&folder.path().join("copy.a")).len(), 0);
}

#[test]
fn what_cannot_be_copied_is_refused() {
    let folder = folder(OBJECTS);
    run(&folder, "llvm-ar-19", &[&["--format=bsd", "qc", "x.a"], NAMES].concat());
    let error = copy(&folder, "x.a", &[(0, "new.o")]).unwrap_err().to_string();
    assert!(error.contains("cannot be copied"), "{error}");
    for damaged in
        [&b"!<arch>\nx"[..], b"!<arch>\n/               0           0     0     0       99999     `\n"]
    {
        fs::write(folder.path().join("x.a"), damaged).unwrap();
        assert!(matches!(Archive::read(&folder.path().join("x.a")), Err(Error::Damaged { .. })));
    }
    fs::write(folder.path().join("x.a"), "!<arc").unwrap();
    assert!(Archive::read(&folder.path().join("x.a")).unwrap().is_none());
}
