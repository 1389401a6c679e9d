//! `pcce-ld --pcce-relink`: makes a program again from the file that its link has kept
//! ([`pcce_linker::again`]), with changed options if some are given. `pcce relink` runs it.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use pcce_dictionary::trace::Part;
use pcce_link::Wanted;
use pcce_linker::again::{Other, again, find};
use pcce_options::{PREFIX, WrapperFlags};

use crate::generate::sizes::Sizes;
use crate::generate::{Failure, Generator};

/// The first word of such a command. The file follows, `-o`, `--kept` and `--of` (the build id that the program had
/// when it was linked, if it has another one now), `--part` (of a trace, as [`Part`] has it), `--sizes`
/// ([`Generator::sizes`], a file) and `--sizes-to` ([`Generator::sizes_to`]) with their values, and options of the
/// wrapper.
pub const FLAG: &str = "--pcce-relink";
/// The options that the link step takes, by their names in lists of the pass.
const OF_THE_STEP: [&str; 2] = ["profile-use", "target"];

/// Runs the command, whose words are those after [`FLAG`].
pub fn main(generator: Generator, words: impl Iterator<Item = OsString>) -> ExitCode {
    run(generator, words).unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "pcce-ld: error: {error}");
        ExitCode::FAILURE
    })
}

fn run(mut generator: Generator, mut words: impl Iterator<Item = OsString>) -> Result<ExitCode, Failure> {
    let (mut file, mut output, mut of, mut folders, mut flags) = (None, None, None, Vec::new(), Vec::new());
    let mut part: Option<Part> = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().map(PathBuf::from).ok_or("a value is missing");
        match word.as_bytes() {
            b"-o" => output = Some(value()?),
            b"--kept" => folders.push(value()?),
            b"--of" => of = Some(value()?.display().to_string()),
            b"--sizes" => generator.sizes = Some(Sizes::read(&value()?)?),
            b"--sizes-to" => generator.sizes_to = Some(value()?),
            b"--part" => part = Some(value()?.display().to_string().parse()?),
            bytes if bytes.starts_with(PREFIX.as_bytes()) => flags.push(word),
            _ => file = Some(PathBuf::from(word)),
        }
    }
    let flags = WrapperFlags::read(flags)?;
    if let Some(other) = flags.names().iter().find(|name| !OF_THE_STEP.contains(&name.as_str())) {
        return Err(format!("`{PREFIX}{other}` matters when a program is compiled, and not here").into());
    }
    generator.instead = Wanted::read(&flags.common)?;
    generator.instead.part = part;
    let profile = &mut generator.instead.profile;
    *profile = profile.as_deref().map(std::path::absolute).transpose()?;
    let kept = find(&file.ok_or("no file is named")?, of, &folders)?;
    let any = !flags.names().is_empty() || part.is_some();
    let other = Other { profile: generator.instead.profile.is_some(), any };
    Ok(again(&kept, output, other, &generator)?)
}
