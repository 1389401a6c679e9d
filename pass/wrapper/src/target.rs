//! The machine for which a command compiles and links.

use std::ffi::OsString;

use crate::args::{Role, Word};

/// Another machine than this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The target, as the user wrote it.
    pub triple: String,
}

impl Target {
    /// The target that a command line names, if it is another machine than this one.
    pub fn of(words: &[Word]) -> Option<Self> {
        Self::for_host(words, std::env::consts::ARCH)
    }

    fn for_host(words: &[Word], host: &str) -> Option<Self> {
        let named = words.iter().enumerate().rev().find_map(|(index, word)| match word.role {
            Role::Option => word.bytes().strip_prefix(b"--target="),
            Role::Value => (words[index - 1].bytes() == b"-target").then_some(word.bytes()),
            Role::Input => None,
        })?;
        let target = Self { triple: String::from_utf8_lossy(named).into_owned() };
        // Clang has more names for the machines that it compiles for on this one (-m32).
        let is_host = target.architecture() == host || host == "x86_64" && target.architecture() == "amd64";
        (!is_host).then_some(target)
    }

    /// The first part of the triple, under the name that clang gives to the machine.
    fn architecture(&self) -> &str {
        match self.triple.split('-').next().unwrap_or_default() {
            "arm64" => "aarch64",
            name => name,
        }
    }

    /// The folder with the runtime for the target, beside this machine's. The vendor is left out.
    pub fn folder(&self) -> String {
        let parts: Vec<&str> = self.triple.split('-').collect();
        let rest = if parts.len() > 3 { &parts[2..] } else { &parts[1..] };
        [&[self.architecture()], rest].concat().join("-")
    }

    /// The option with which clang compiles for the target.
    pub fn option(&self) -> OsString {
        format!("--target={}", self.triple).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn the_last_target_counts_if_it_is_another_machine() {
        let of = |line: &str| {
            let words = args::parse(line.split(' ').map(Into::into), |_| None).unwrap().words;
            Target::for_host(&words, "x86_64").map(|target| (target.folder(), target.option()))
        };
        for line in ["-c a.c", "--target=x86_64-linux-gnu a.c", "-target x86_64-pc-linux-gnu a.c", "--target"]
        {
            assert_eq!(of(line), None, "{line}");
        }
        for (line, folder, triple) in [
            ("--target=aarch64-linux-gnu a.c", "aarch64-linux-gnu", "aarch64-linux-gnu"),
            ("-target aarch64-unknown-linux-gnu a.c", "aarch64-linux-gnu", "aarch64-unknown-linux-gnu"),
            ("--target=x86_64-linux-gnu -target arm64-linux-gnu", "aarch64-linux-gnu", "arm64-linux-gnu"),
            ("--target=riscv64", "riscv64", "riscv64"),
        ] {
            let option = OsString::from(format!("--target={triple}"));
            assert_eq!(of(line), Some((folder.to_owned(), option)), "{line}");
        }
        let words = args::parse(["--target=aarch64-linux-gnu".into()], |_| None).unwrap().words;
        assert_eq!(Target::for_host(&words, "aarch64"), None);
    }
}
