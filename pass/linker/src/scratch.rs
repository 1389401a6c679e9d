//! The folder of one link, and the linkers that run in it. A signal removes the folder and ends the linker.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::Error;
use crate::command::write_response_file;
use crate::linked::canonical;

/// Longer commands go into a response file.
const MAX_COMMAND_LEN: usize = 100_000;

/// A folder that is removed when this is dropped, or by a signal.
pub struct Scratch {
    folder: TempDir,
    state: Arc<State>,
    /// For a link that is made again: how programs run.
    pub surroundings: Option<Surroundings>,
}

/// The original folder and environment of programs.
pub struct Surroundings {
    /// A folder of this link.
    pub folder: PathBuf,
    /// Variables. Those without a value are not set.
    pub variables: Vec<(String, Option<OsString>)>,
}

/// The state that a signal handler must clean up.
#[derive(Default)]
struct State {
    /// The running process, or 0.
    runs: AtomicI32,
    /// The output is being written, and not known to be good.
    writes: AtomicBool,
    /// A signal has come.
    ends: AtomicBool,
}

impl Scratch {
    /// Makes the folder for a link with this output.
    pub fn new(output: &Path) -> Result<Self, Error> {
        // Linkers print names without links and dots.
        let place = canonical(&std::env::temp_dir());
        let folder =
            tempfile::Builder::new().prefix("pcce-ld-").tempdir_in(&place).map_err(Error::file(&place))?;
        let state = Arc::new(State::default());
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Error::file(&place))?;
        let (path, output, shared) = (folder.path().to_owned(), output.to_owned(), Arc::clone(&state));
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                shared.ends.store(true, Ordering::SeqCst);
                if let Some(pid) = rustix::process::Pid::from_raw(shared.runs.load(Ordering::SeqCst)) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                }
                if shared.writes.load(Ordering::SeqCst) {
                    take_away(&output);
                }
                let _ = std::fs::remove_dir_all(path);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
        Ok(Scratch { folder, state, surroundings: None })
    }

    /// Marks the output as being written, or as good.
    pub fn writes(&self, writes: bool) {
        self.state.writes.store(writes, Ordering::SeqCst);
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Changes an object by `objcopy`.
    ///
    /// # Errors
    /// There is no `objcopy`, or it fails.
    pub fn objcopy(&self, words: Vec<OsString>) -> Result<(), Error> {
        let result = self.run(Path::new("objcopy"), &words).map_err(|error| match error {
            Error::Run { source, .. } => Error::NoObjcopy(source),
            other => other,
        })?;
        if result.status.success() {
            return Ok(());
        }
        Err(Error::Objcopy(String::from_utf8_lossy(&result.stderr).into_owned()))
    }

    /// Runs a linker, and waits for it.
    ///
    /// # Errors
    /// It cannot run, or a signal has ended it.
    pub fn run(&self, program: &Path, words: &[OsString]) -> Result<Output, Error> {
        self.run_with(program, words, &[])
    }

    /// Runs a linker with further environment variables.
    ///
    /// # Errors
    /// As [`Scratch::run`].
    pub fn run_with(
        &self,
        program: &Path,
        words: &[OsString],
        variables: &[(&'static str, OsString)],
    ) -> Result<Output, Error> {
        let mut command = process::Command::new(program);
        if let Some(Surroundings { folder, variables }) = &self.surroundings {
            command.current_dir(folder);
            for (name, value) in variables {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if words.iter().map(|word| word.len() + 1).sum::<usize>() > MAX_COMMAND_LEN {
            let file = self.path().join("words");
            write_response_file(&file, words).map_err(Error::file(&file))?;
            command.arg([OsStr::new("@"), file.as_os_str()].into_iter().collect::<OsString>());
        } else {
            command.args(words);
        }
        let error = |source| Error::Run { program: program.to_owned(), source };
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(error)?;
        self.state.runs.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
        let output = child.wait_with_output();
        self.state.runs.store(0, Ordering::SeqCst);
        // A signal has ended the linker. This process received it as well, and is about to end by it.
        while self.state.ends.load(Ordering::SeqCst) {
            std::thread::park();
        }
        let output = output.map_err(error)?;
        match output.status.signal() {
            Some(signal) => {
                // Its output may say why.
                let _ = std::io::Write::write_all(&mut std::io::stderr(), &output.stderr);
                Err(Error::Signal { program: program.to_owned(), signal })
            }
            None => Ok(output),
        }
    }
}

/// Removes an output, so that it cannot be mistaken for a good one.
pub fn take_away(output: &Path) {
    if std::fs::metadata(output).is_ok_and(|data| data.is_file()) {
        let _ = std::fs::remove_file(output);
    }
}

/// Replaces file names in a text. No name is a prefix of another one.
pub fn with_names(text: &[u8], names: &[(PathBuf, PathBuf)]) -> Vec<u8> {
    let mut names: Vec<_> =
        names.iter().map(|(from, to)| (from.as_os_str().as_bytes(), to.as_os_str().as_bytes())).collect();
    names.sort_unstable();
    let mut result = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        // All names are absolute. Only the last name that does not sort after the rest of the text can be its
        // beginning.
        let rest = &text[at..];
        let before = if rest[0] == b'/' { names.partition_point(|(from, _)| *from <= rest) } else { 0 };
        match before.checked_sub(1).map(|last| names[last]).filter(|(from, _)| rest.starts_with(from)) {
            Some((from, to)) => {
                result.extend(to);
                at += from.len();
            }
            None => {
                result.push(text[at]);
                at += 1;
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced() {
        let names: Vec<_> =
            (0..12).map(|n| (format!("/t/{n}/x.o").into(), format!("{n}.o").into())).collect();
        let text = b"/t/1/x.o:/t/11/x.o(/t/12/x.o) /u//t/0/x.o/t/1/x";
        let expected = b"1.o:11.o(/t/12/x.o) /u/0.o/t/1/x";
        assert_eq!(with_names(text, &names), expected);
        assert_eq!(with_names(text, &[]), text);
    }
}
