//! The folder of one link, and the linkers that run in it. A signal ends both.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::Error;
use crate::command::write_response_file;
use crate::linked::canonical;

/// Longer commands stand in a response file.
const LONG: usize = 100_000;

/// A folder that is taken away when this is dropped, or by a signal.
pub struct Scratch {
    folder: TempDir,
    /// The process that runs, or 0.
    runs: Arc<AtomicI32>,
}

impl Scratch {
    /// A new one.
    pub fn new() -> Result<Self, Error> {
        // Linkers print names without links and dots.
        let place = canonical(&std::env::temp_dir());
        let folder =
            tempfile::Builder::new().prefix("pcce-ld-").tempdir_in(&place).map_err(Error::file(&place))?;
        let runs = Arc::new(AtomicI32::new(0));
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Error::file(&place))?;
        let (path, process) = (folder.path().to_owned(), Arc::clone(&runs));
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                if let Some(pid) = rustix::process::Pid::from_raw(process.load(Ordering::SeqCst)) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                }
                let _ = std::fs::remove_dir_all(path);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
        Ok(Scratch { folder, runs })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a linker, and waits for it.
    ///
    /// # Errors
    /// It cannot run, or a signal has ended it.
    pub fn run(&self, program: &Path, words: &[OsString]) -> Result<Output, Error> {
        let mut command = process::Command::new(program);
        if words.iter().map(|word| word.len() + 1).sum::<usize>() > LONG {
            let file = self.path().join("words");
            write_response_file(&file, words).map_err(Error::file(&file))?;
            command.arg([OsStr::new("@"), file.as_os_str()].into_iter().collect::<OsString>());
        } else {
            command.args(words);
        }
        let error = |source| Error::Run { program: program.to_owned(), source };
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(error)?;
        self.runs.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
        let output = child.wait_with_output();
        self.runs.store(0, Ordering::SeqCst);
        let output = output.map_err(error)?;
        match output.status.signal() {
            Some(signal) => Err(Error::Signal { program: program.to_owned(), signal }),
            None => Ok(output),
        }
    }
}

/// A text with some file names in the place of others.
pub fn with_names(text: &[u8], names: &[(PathBuf, PathBuf)]) -> Vec<u8> {
    // The names of copies differ in a number, of which one can begin with another.
    let mut names: Vec<_> = names.iter().map(|(from, to)| (from.as_os_str(), to.as_os_str())).collect();
    names.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    let mut result = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let found = names.iter().find(|(from, _)| text[at..].starts_with(from.as_encoded_bytes()));
        match found {
            Some((from, to)) => {
                result.extend(to.as_encoded_bytes());
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
