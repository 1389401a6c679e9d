//! `pcce link`.

use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, bail};

use super::{LinkArgs, Status};

/// The linker that is installed beside this executable.
pub fn own_linker() -> anyhow::Result<PathBuf> {
    let own =
        env::current_exe().and_then(fs::canonicalize).context("cannot tell where this executable is")?;
    let linker = own.with_file_name("pcce-ld");
    if !linker.exists() {
        bail!("{} is missing; install PCCE again", linker.display());
    }
    Ok(linker)
}

/// The names by which compilers look for linkers.
const LINKERS: [&str; 6] = ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "mold"];

/// Runs a command in an environment where `pcce-ld` is found as the linker, and ends with the command's status.
/// gcc and clang look for a linker in the folders of COMPILER_PATH first, other programs in PATH.
pub fn run(LinkArgs { command }: &LinkArgs) -> anyhow::Result<Status> {
    let linker = own_linker()?;
    let folder =
        tempfile::Builder::new().prefix("pcce-link-").tempdir().context("no folder for the linker")?;
    for name in LINKERS {
        symlink(&linker, folder.path().join(name)).with_context(|| folder.path().display().to_string())?;
    }
    let (program, arguments) = command.split_first().context("there is no command behind `--`")?;
    let mut running = Command::new(program);
    for variable in ["COMPILER_PATH", "PATH"] {
        let others = env::var_os(variable).unwrap_or_default();
        let others = env::split_paths(&others).filter(|folder| !folder.as_os_str().is_empty());
        let folders: Vec<PathBuf> = [folder.path().to_owned()].into_iter().chain(others).collect();
        running.env(variable, env::join_paths(folders).context(variable)?);
    }
    let status = running.args(arguments).status();
    let status = status.with_context(|| format!("cannot run `{}`", program.display()))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    // The folder is removed before the process ends.
    drop(folder);
    if code != 0 {
        std::process::exit(code);
    }
    Ok(Status::Done)
}
