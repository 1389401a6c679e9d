//! A folder in which `pcce` runs.

#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::elf::{self, Compression, Kind};
use crate::common::{APP, LIB, app, lib, site, token};

/// A folder of this test's own, with the files that most tests need.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty folder, but for the program, a library and the program's dictionary.
    pub fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let folder = Self(folder);
        folder.write("app", &elf::program(&app(), &APP));
        folder.write(
            // Files with names of libraries would be found.
            "library",
            &elf::elf(Some(&elf::section(&lib())), Some(&LIB), Compression::Zlib, Kind::Shared),
        );
        folder.write("app.json", &pcce_dictionary::to_json(&app()));
        folder
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).unwrap();
    }

    /// `pcce` with arguments, in the folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcce"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    /// Runs `pcce`.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs `pcce` with a text on its standard input.
    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        self.write("input", input);
        let input = fs::File::open(self.0.join("input")).unwrap();
        self.command(args).stdin(input).output().unwrap()
    }

    /// Runs a command that must succeed in silence; its output.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!((output.status.code(), &*err(&output)), (Some(0), ""));
        out(&output)
    }

    /// Runs a command that must fail with one message of one line, and nothing on standard output; the message.
    pub fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let message = err(&output);
        assert_eq!((output.status.code(), &*out(&output)), (Some(2), ""), "{message}");
        assert!(message.starts_with("error: ") && message.lines().count() == 1, "{message}");
        message
    }
}

/// Standard output.
pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error.
pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A token of `leaf`.
pub fn leaf() -> String {
    token(Some((site::LEAF_CAPTURE, 1)), &[]).encode()
}

/// Its context.
pub const LEAF_TRACE: &str = "#0  helper at /src/helper.h:7:9 [inlined]
#1  leaf at /src/main.c:35:5
#2  app::run(int) at /src/main.c:20:5
#3  main at /src/main.c:10:5
";
