//! The folder of a collection: the plan, and the files that each run leaves.
//!
//! | file | content |
//! |---|---|
//! | `plan.json` | the command that is run |
//! | `input` | standard input of each run |
//! | `part-2.trace` | the part of the trace |
//! | `part-2.out`, `part-2.err` | output and errors of the program |
//! | `part-2.log` | output of the engine |
//! | `part-2.ended` | how the program ended; it is written last, so a part that has it is whole |
//! | `part-2` | the folder in which it ran, if each has one |

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use super::CollectArgs;
use super::run::Ended;

/// The command that is run for each part, and its surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) parts: u32,
    /// The sameness of the runs is proven, so the parts are of the program itself.
    pub(super) prove: bool,
    /// The program's file.
    pub(super) program: PathBuf,
    /// Its length, and the checksum of its content.
    content: (u64, u32),
    pub(super) arguments: Vec<String>,
    /// The folder in which it is run; None if each run has one of its own.
    pub(super) folder: Option<PathBuf>,
    pub(super) environment: Vec<(String, String)>,
}

/// Variables that are set for each run.
const OWN: [&str; 3] = ["PCCE_TRACE", "PCCE_TRACE_PART", "PCCE_TRACE_RING"];

impl Plan {
    pub(super) fn new(args: &CollectArgs) -> anyhow::Result<Self> {
        let [program, arguments @ ..] = &args.command[..] else { bail!("there is no command") };
        let program = find(program)?;
        let here = std::env::current_dir().context("the working directory")?;
        let mut environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| !OWN.contains(&&**name))
            .collect();
        environment.sort();
        Ok(Self {
            parts: args.parts,
            prove: args.prove,
            content: content(&program)?,
            program,
            arguments: arguments.to_vec(),
            folder: (!args.own_folders).then_some(here),
            environment,
        })
    }

    /// Names the first difference to another plan. The environment does not count: a later command uses that of the
    /// first.
    fn other(&self, other: &Self) -> Option<&'static str> {
        [
            (self.parts != other.parts, "the number of parts"),
            (self.prove != other.prove, "`--prove`"),
            (self.program != other.program, "the program"),
            (self.content != other.content, "the program's content"),
            (self.arguments != other.arguments, "the arguments"),
            (self.folder != other.folder, "the folder in which it runs"),
        ]
        .into_iter()
        .find_map(|(is_other, what)| is_other.then_some(what))
    }
}

/// The file of a command.
fn find(command: &str) -> anyhow::Result<PathBuf> {
    let path = if command.contains('/') {
        std::path::absolute(command)?
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut found = std::env::split_paths(&path).map(|folder| folder.join(command));
        found.find(|file| file.is_file()).with_context(|| format!("{command}: there is no such command"))?
    };
    ensure!(path.is_file(), "{}: there is no such program", path.display());
    Ok(path)
}

/// The length and the checksum of a file.
fn content(path: &Path) -> anyhow::Result<(u64, u32)> {
    let read = || {
        let mut file = File::open(path)?;
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 20];
        let mut len = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok((len, hasher.finalize())),
                read => {
                    hasher.update(&buffer[..read]);
                    len += read as u64;
                }
            }
        }
    };
    read().map_err(|error: io::Error| anyhow::anyhow!("{}: {error}", path.display()))
}

/// The folder beside a trace.
pub(super) fn beside(output: &Path) -> anyhow::Result<PathBuf> {
    let mut name = std::path::absolute(output)?.into_os_string();
    name.push(".parts");
    Ok(name.into())
}

/// The folder of a collection.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) plan: Plan,
}

impl Folder {
    /// The folder, if it exists.
    pub(super) fn existing(path: &Path) -> anyhow::Result<Option<Self>> {
        let file = path.join("plan.json");
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        };
        let plan = serde_json::from_slice(&text)
            .with_context(|| format!("{}: it is damaged; delete {}", file.display(), path.display()))?;
        Ok(Some(Self { path: path.to_owned(), plan }))
    }

    /// Makes the folder, or continues the collection in it.
    pub(super) fn open(path: PathBuf, plan: Plan) -> anyhow::Result<Self> {
        if let Some(folder) = Self::existing(&path)? {
            let other = folder.plan.other(&plan).map(str::to_owned);
            let other = other.or(folder.other_input()?.then(|| "standard input".to_owned()));
            if let Some(other) = other {
                bail!(
                    "{}: it is of another collection, since {other} is not the same; finish that one with its own \
                     command, or delete the folder",
                    path.display()
                );
            }
            return Ok(folder);
        }
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&path);
        made.with_context(|| format!("{}: cannot be made", path.display()))?;
        let folder = Self { path, plan };
        if has_input() {
            folder.keep_input("input")?;
        }
        folder.write("plan.json", &serde_json::to_vec_pretty(&folder.plan)?)?;
        Ok(folder)
    }

    fn keep_input(&self, name: &str) -> anyhow::Result<PathBuf> {
        let to = self.path.join(name);
        let copied = File::create(&to).and_then(|mut file| io::copy(&mut io::stdin().lock(), &mut file));
        copied.with_context(|| format!("standard input cannot be copied to {}", to.display()))?;
        Ok(to)
    }

    /// Returns whether there is standard input now that differs from that of the collection.
    fn other_input(&self) -> anyhow::Result<bool> {
        if !has_input() {
            return Ok(false);
        }
        let now = self.keep_input("input.now")?;
        let is_other = match self.input() {
            Some(input) => content(&input)? != content(&now)?,
            None => content(&now)?.0 > 0,
        };
        fs::remove_file(&now).with_context(|| now.display().to_string())?;
        Ok(is_other)
    }

    /// The file with standard input, if there is one.
    pub(super) fn input(&self) -> Option<PathBuf> {
        Some(self.path.join("input")).filter(|input| input.exists())
    }

    /// Writes a file whole, or not at all.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let (unfinished, file) = (self.path.join(format!("{name}.new")), self.path.join(name));
        let written = fs::write(&unfinished, content).and_then(|()| fs::rename(&unfinished, &file));
        written.with_context(|| format!("{}: cannot be written", file.display()))
    }

    /// A part's number, in as many digits as the last one has: the runs have arguments and variables of one
    /// length.
    pub(super) fn number(&self, part: u32) -> String {
        let width = self.plan.parts.to_string().len();
        format!("{part:0width$}")
    }

    fn of(&self, part: u32, ending: &str) -> PathBuf {
        self.path.join(format!("part-{}{ending}", self.number(part)))
    }

    pub(super) fn trace(&self, part: u32) -> PathBuf {
        self.of(part, ".trace")
    }

    pub(super) fn out(&self, part: u32) -> PathBuf {
        self.of(part, ".out")
    }

    pub(super) fn err(&self, part: u32) -> PathBuf {
        self.of(part, ".err")
    }

    pub(super) fn log(&self, part: u32) -> PathBuf {
        self.of(part, ".log")
    }

    pub(super) fn own(&self, part: u32) -> PathBuf {
        self.of(part, "")
    }

    fn end(&self, part: u32) -> PathBuf {
        self.of(part, ".ended")
    }

    /// How a part's program ended; None if it did not yet.
    pub(super) fn ended(&self, part: u32) -> Option<Ended> {
        serde_json::from_slice(&fs::read(self.end(part)).ok()?).ok()
    }

    /// Records how a part's program ended.
    pub(super) fn set_ended(&self, part: u32, ended: Ended) -> anyhow::Result<()> {
        let file = self.end(part);
        let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
        self.write(name, &serde_json::to_vec(&ended)?)
    }

    /// Forgets how a part's program ended, so that the part is run again.
    pub(super) fn forget(&self, part: u32) {
        let _ = fs::remove_file(self.end(part));
    }

    /// Makes a part be run again, and removes its trace, which is of no use: other parts need the room.
    pub(super) fn run_again(&self, part: u32) -> anyhow::Result<()> {
        self.forget(part);
        let trace = self.trace(part);
        if trace.exists() {
            fs::remove_file(&trace).with_context(|| trace.display().to_string())?;
        }
        Ok(())
    }

    /// The tracer's message that it stopped recording for lack of room; None if it did not.
    pub(super) fn stopped(&self, part: u32) -> Option<String> {
        let lines = BufReader::new(File::open(self.err(part)).ok()?).split(b'\n');
        let mut lines = lines.map_while(Result::ok).map(|line| String::from_utf8_lossy(&line).into_owned());
        lines
            .find(|line| line.starts_with("pcce: the trace: ") && line.ends_with("not recorded from here on"))
    }

    /// The parts that are to be run: those that have not ended, and those of which a file is gone.
    pub(super) fn missing(&self, parts: u32) -> Vec<u32> {
        let has_ended = |part| self.ended(part).is_some_and(|ended| !ended.is_from_outside());
        let is_whole =
            |part| [self.trace(part), self.out(part), self.err(part)].iter().all(|file| file.exists());
        (1..=parts).filter(|&part| !has_ended(part) || !is_whole(part)).collect()
    }

    /// The log that says what happened to a part, with its last line; empty if there is none.
    pub(super) fn say_log(&self, part: u32) -> String {
        for file in [self.err(part), self.log(part)] {
            let text = fs::read(&file).unwrap_or_default();
            let text = String::from_utf8_lossy(&text[text.len().saturating_sub(4096)..]).into_owned();
            if let Some(line) = text.lines().rfind(|line| !line.trim().is_empty()) {
                return format!(" ({}: {})", file.display(), line.trim());
            }
        }
        String::new()
    }
}

/// Returns whether standard input has something for the program.
fn has_input() -> bool {
    let stdin = io::stdin();
    let kind = fs::metadata("/dev/stdin").map(|metadata| metadata.file_type());
    !stdin.is_terminal() && kind.is_ok_and(|kind| !kind.is_char_device())
}
