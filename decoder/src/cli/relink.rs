//! `pcce relink`: `pcce-ld` makes the program.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use anyhow::Context;

use super::link::own_linker;
use super::{RelinkArgs, Status};

/// Makes a program again.
pub fn run(args: &RelinkArgs) -> anyhow::Result<Status> {
    let linker = own_linker()?;
    let mut words: Vec<OsString> = vec!["--pcce-relink".into(), args.file.clone().into()];
    words.extend(args.output.iter().flat_map(|output| ["-o".into(), output.into()]));
    words.extend(args.kept.iter().flat_map(|folder| ["--kept".into(), folder.into()]));
    let flag = |name: &str, value: &OsStr| [OsStr::new(name), value].into_iter().collect::<OsString>();
    words.extend(args.profile_use.iter().map(|file| flag("--pcce-profile-use=", file.as_os_str())));
    words.extend(args.targets.iter().map(|names| flag("--pcce-targets=", names)));
    let status = Command::new(&linker).args(words).status();
    let status = status.with_context(|| format!("cannot run `{}`", linker.display()))?;
    Ok(if status.success() { Status::Done } else { Status::Failed })
}
