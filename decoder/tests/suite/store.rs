//! Dictionaries that are found by build id: in folders, and by debuginfod's client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pcce_abi::INTERNED;
use pcce_abi::numbers::{Entry, GIVEN, HEAD, Record, head, pair};
use pcce_dictionary::Dictionary;

use crate::common::elf;
use crate::common::{APP, LIB, app, lib, site, token};

struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("store").join(test);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("store")).unwrap();
        fs::write(folder.join("app"), elf::program(&app(), &APP)).unwrap();
        Self(folder)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcce"));
        command.args(args).current_dir(&self.0).env_remove("DEBUGINFOD_URLS");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""), "{args:?}");
        text(&output.stdout)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The program as another build has it: with another id, and another name of its innermost function.
fn other_app() -> (Dictionary, [u8; 20]) {
    let mut id = APP;
    id[0] = 0xc0;
    let mut dictionary = app();
    for name in dictionary.modules.iter_mut().flat_map(|module| &mut module.names) {
        if name == "leaf" {
            *name = "changed".to_owned();
        }
    }
    (dictionary, id)
}

fn leaf_of(id: &[u8]) -> String {
    let mut token = token(Some((site::LEAF_CAPTURE, 1)), &[]);
    token.images[0] = pcce::token::BuildId::from_prefix(id);
    token.encode()
}

#[test]
fn tokens_of_many_builds_are_decoded_in_one_command() {
    let folder = Folder::new("builds");
    let (other, other_id) = other_app();
    fs::write(folder.0.join("other"), elf::program(&other, &other_id)).unwrap();
    folder.ok(&["dict", "--store", "store", "app", "other"]);
    let (one, two) = (leaf_of(&APP), leaf_of(&other_id));
    let log = format!("a {one}\nb {two}\nc {one}\n");
    fs::write(folder.0.join("log"), &log).unwrap();
    let expected = log
        .replace(&one, "main;app::run(int);leaf;helper")
        .replace(&two, "main;app::run(int);changed;helper");
    assert_eq!(folder.ok(&["filter", "--dicts", "store", "--format", "folded", "log"]), expected);
    assert_eq!(
        folder.ok(&["decode", "--dicts", "store", "--format", "folded", &one, &two]).lines().count(),
        2
    );
    let separated = folder.ok(&["decode", "--dicts", "store", &one, &two, &one]);
    assert_eq!(separated.split("\n\n").count(), 3, "{separated}");
    assert!(separated.contains("changed at") && separated.contains("leaf at"), "{separated}");
    // What was given counts, and the rest is looked for.
    let given = folder.ok(&["decode", "--dicts", "store", "--format", "folded", "app", &one, &two]);
    assert!(given.contains("changed") && given.contains("leaf"), "{given}");
}

/// A number from 2⁶³ on tells its build, if its file is there.
#[test]
fn numbers_of_many_builds_are_decoded_in_one_command() {
    let folder = Folder::new("numbers");
    let (other, other_id) = other_app();
    fs::write(folder.0.join("other"), elf::program(&other, &other_id)).unwrap();
    folder.ok(&["dict", "--store", "store", "app", "other"]);
    let place = |id: [u8; 20], address| {
        let build_id = *id.first_chunk().unwrap();
        Entry::Place { build_id, len: 8, address }
    };
    let site = |outer| Entry::Site { outer, place: outer + 1, id: 1, left: false };
    let entries = [
        place(APP, 0),
        place(APP, site::LEAF_CAPTURE),
        site(1),
        place(other_id, 0),
        place(other_id, site::LEAF_CAPTURE),
        site(4),
        // A push, for what has a number in the range of the program.
        Entry::Site { outer: 4, place: 8, id: 1, left: false },
        place(other_id, site::LEAF_POINTER),
    ];
    let mut bytes = vec![0; HEAD as usize];
    bytes[..16].copy_from_slice(&head());
    bytes[GIVEN as usize] = entries.len() as u8;
    for (number, entry) in (1..).zip(entries) {
        bytes.extend(
            (Record { entry, hybrid: false }).words(number).iter().flat_map(|word| word.to_le_bytes()),
        );
    }
    fs::write(folder.0.join("file"), bytes).unwrap();
    let numbers = [INTERNED | 3, INTERNED | 6, pair(7, 2).unwrap()].map(|number| number.to_string());
    let [one, two, three] = &numbers;
    let decode = ["decode", "--dicts", "store", "--numbers", "file", "--format", "folded"];
    let expected = [
        "main;app::run(int);leaf;helper 1",
        "main;app::run(int);changed;helper 1",
        "main;app::run(int);changed;app::run(int) 1",
    ];
    let found = folder.ok(&[&decode[..], &[one, two, three]].concat());
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    // In a log, beside a token.
    fs::write(folder.0.join("log"), format!("a pcce:{one} {}\nb {three}\n", leaf_of(&other_id))).unwrap();
    let filtered =
        folder.ok(&["filter", "--dicts", "store", "--numbers", "file", "--format", "folded", "log"]);
    let [first, second, third] = expected.map(|line| line.strip_suffix(" 1").unwrap());
    assert_eq!(filtered, format!("a {first} {second}\nb {third}\n"));
    // The reason stands there once.
    let output = folder.run(&["decode", "--numbers", "missing", "app", one]);
    assert_eq!(
        text(&output.stderr),
        "error: missing: cannot be read: No such file or directory (os error 2)\n"
    );
    // A number of no build that is there, and those whose build nobody knows.
    fs::remove_dir_all(folder.0.join("store/.build-id/a0")).unwrap();
    for (args, expected) in [
        (&[&decode[..], &[one]].concat()[..], "no dictionary was found for build id a001020304050607"),
        (&["decode", one], "give it with --numbers FILE"),
        (&[&decode[..], &["7"]].concat(), "number 7 is of no program that was given"),
    ] {
        let output = folder.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(expected), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn files_of_any_name_and_debug_files_are_found() {
    let folder = Folder::new("names");
    let decode = || folder.run(&["decode", "--dicts", "store", &leaf_of(&APP)]);
    let output = decode();
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    for part in
        ["no dictionary was found for build id a001020304050607", "store, /usr/lib/debug", "--dicts DIR"]
    {
        assert!(message.contains(part), "{message}");
    }
    fs::copy(folder.0.join("app"), folder.0.join("store/app-1.0")).unwrap();
    assert_eq!(decode().status.code(), Some(0));
    fs::remove_file(folder.0.join("store/app-1.0")).unwrap();
    let by_id = folder.0.join("store/.build-id/a0");
    fs::create_dir_all(&by_id).unwrap();
    fs::copy(folder.0.join("app"), by_id.join("0102030405060708090a0b0c0d0e0f10111213.debug")).unwrap();
    assert_eq!(decode().status.code(), Some(0));
    // The name alone does not make it this build's.
    let (other, other_id) = other_app();
    fs::write(by_id.join("0102030405060708090a0b0c0d0e0f10111213.debug"), elf::program(&other, &other_id))
        .unwrap();
    assert_eq!(decode().status.code(), Some(2));
    // What is damaged is named.
    fs::write(by_id.join("01020304050607.pcce.json"), "{\"version\":2,\"build_id\":\"a001020304050607\",")
        .unwrap();
    let message = text(&decode().stderr);
    assert!(message.contains("01020304050607.pcce.json: "), "{message}");
}

#[test]
fn a_library_is_found_beside_the_program_that_was_given() {
    let folder = Folder::new("library");
    fs::write(folder.0.join("library"), elf::program(&lib(), &LIB)).unwrap();
    let sites = [(site::MALLOC_ENTRY, 0), (site::LIB_MALLOC, 0), (site::LEAF_LIB_RUN, 1)];
    let both = token(Some((site::MALLOC_CAPTURE, 0)), &sites).encode();
    assert_eq!(folder.run(&["decode", "app", &both]).status.code(), Some(2));
    let expected = folder.ok(&["decode", "app", "--dict", "library", &both]);
    for name in ["liblib.so.1", "plugins/lib.so"] {
        let place = folder.0.join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::rename(folder.0.join("library"), &place).unwrap();
        assert_eq!(folder.ok(&["decode", "app", &both]), expected, "{name}");
        fs::rename(&place, folder.0.join("library")).unwrap();
    }
    folder.ok(&["dict", "--store", "store", "library"]);
    assert_eq!(folder.ok(&["decode", "--dicts", "store", "app", &both]), expected);
}

/// A stand-in for elfutils' client: it knows one build id.
#[test]
fn debuginfod_is_asked() {
    let folder = Folder::new("debuginfod");
    let client = folder.0.join("debuginfod-find");
    let script =
        "#!/bin/sh\necho \"$@\" >> asked\n[ \"$*\" = 'debuginfo a001020304050607' ] && echo $PWD/app\n";
    fs::write(&client, script).unwrap();
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap());
    let mut short = APP.to_vec();
    short.truncate(8);
    fs::write(folder.0.join("app"), elf::program(&app(), &short)).unwrap();
    let run = |urls: &str| {
        let token = leaf_of(&short);
        folder
            .command(&["decode", &token, &token])
            .env("DEBUGINFOD_URLS", urls)
            .env("PATH", &path)
            .output()
            .unwrap()
    };
    assert_eq!(run("").status.code(), Some(2));
    assert!(!folder.0.join("asked").exists());
    let output = run("http://localhost:1");
    assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""));
    assert_eq!(fs::read_to_string(folder.0.join("asked")).unwrap().lines().count(), 1);
}

#[test]
fn what_is_given_is_told_apart() {
    let folder = Folder::new("arguments");
    for (args, expected) in [
        (["decode", "17"].as_slice(), "number 17 is of no program that was given"),
        (&["decode", "--dicts", "nowhere", "pcce1.A"], "--dicts nowhere: there is no such folder"),
        (&["dict", "app", "app"], "several programs need --store DIR"),
    ] {
        let output = folder.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(expected), "{args:?}: {}", text(&output.stderr));
    }
}
