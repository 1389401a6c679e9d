//! Another machine, whose programs run under an emulator.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{artifact, command};

/// A machine that is emulated.
#[derive(Debug, PartialEq, Eq)]
pub struct Emulated {
    /// Its name, a condition of directives.
    pub name: &'static str,
    /// The target for which clang compiles.
    pub triple: &'static str,
    /// The emulator of processes.
    emulator: &'static str,
    /// The folder with the system's libraries for the machine.
    root: &'static str,
}

pub const AARCH64: Emulated = Emulated {
    name: "aarch64",
    triple: "aarch64-linux-gnu",
    emulator: "qemu-aarch64",
    root: "/usr/aarch64-linux-gnu",
};

impl Emulated {
    /// A file of the runtime, by its name.
    pub fn artifact(&self, name: &str) -> PathBuf {
        artifact(&format!("{}/{name}", self.triple))
    }

    /// The flag of the compiler.
    pub fn flag(&self) -> String {
        format!("--target={}", self.triple)
    }
}

/// The command that runs a program on a machine, or on this one. The program gets further variables, which the emulator
/// must not have.
pub fn command_on(machine: Option<&Emulated>, program: &Path, variables: &[(&str, OsString)]) -> Command {
    let Some(machine) = machine else {
        let mut command = command(program, &[]);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        return command;
    };
    let mut emulator = command(machine.emulator, &["-L", machine.root]);
    for (name, value) in variables {
        let mut variable = OsString::from(format!("{name}="));
        variable.push(value);
        emulator.arg("-E").arg(variable);
    }
    emulator.arg(program);
    emulator
}
