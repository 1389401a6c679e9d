//! `pcce adapt`: makes images again, encoded for what is known of their use (dacce.txt §3, §4, between runs).
//!
//! Files of `--learnt` have tokens, of any version of the images. The calls in their contexts become a profile.
//! `pcce-ld` makes each image again with it, and the new images replace the old ones when all of them are checked.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use pcce::filter::{Words, tokens};
use pcce::learn::fit::Fit;
use pcce::learn::{Learnt, Sites};
use pcce::load::interface::Interface;
use pcce::store;
use pcce::{Context, Decoder, Token};
use pcce_dictionary::Dictionary;
use pcce_dictionary::calls::Calls;
use serde::{Deserialize, Serialize};

use super::link::own_linker;
use super::{AdaptArgs, Status, dict, note};

/// The ending of the name of the file beside an image that tells how it was adapted.
const RECORD: &str = ".pcce-adapted";
/// The folder for dictionaries that is used without `--dicts`, beside the first image.
const DICTIONARIES: &str = "pcce-dicts";
/// A token that is not of a sample stands for so many nanoseconds.
const EVENT: f64 = 1e6;

/// How an image was adapted: the file beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The build ids of all versions, the first one and the present one included.
    pub versions: Vec<String>,
    /// The files that it was last learnt from.
    pub learnt: Vec<PathBuf>,
    /// How the version before fitted what was learnt, and how the present one does; none if calls were counted.
    pub fit: Option<(Fit, Fit)>,
}

impl Record {
    /// The record of an image, if it is about this build.
    pub fn of(image: &Path, build_id: &str) -> Option<Self> {
        let text = fs::read(beside(image, RECORD)).ok()?;
        let record: Self = serde_json::from_slice(&text).ok()?;
        record.versions.last().filter(|last| *last == build_id)?;
        Some(record)
    }

    /// The lines of `pcce info`.
    pub fn lines(&self) -> Vec<String> {
        let learnt: Vec<String> = self.learnt.iter().map(|file| file.display().to_string()).collect();
        let mut lines = vec![
            format!(
                "adapted     version {}; the first one has build id {}",
                self.versions.len(),
                self.versions[0]
            ),
            format!("learnt      from {}", learnt.join(", ")),
        ];
        if let Some((before, after)) = self.fit {
            let percent = |share: f64| share * 100.0;
            lines.push(format!(
                "fit         {:.1} % of the learnt calls are in the program",
                percent(after.found)
            ));
            lines.push(format!(
                "calls       by learnt time, {:.1} % pushed and {:.1} % added; now {:.1} % push and {:.1} % add",
                percent(before.push),
                percent(before.add),
                percent(after.push),
                percent(after.add)
            ));
        }
        lines
    }
}

/// A file beside an image.
fn beside(image: &Path, ending: &str) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// An image that is adapted.
struct Image {
    /// Where links have led.
    path: PathBuf,
    dictionary: Dictionary,
    record: Record,
}

/// An image that was made again, and is not yet in place.
struct New {
    file: tempfile::TempPath,
    dictionary: Dictionary,
    fit: Option<(Fit, Fit)>,
}

/// Adapts images.
pub fn run(args: &AdaptArgs) -> anyhow::Result<Status> {
    let images = args.images.iter().map(|path| open(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let folder = images[0].path.parent().unwrap_or(Path::new("/")).join(DICTIONARIES);
    let dicts = args.dicts.as_ref().unwrap_or(&folder);
    for image in &images {
        dict::keep(dicts, &image.dictionary)?;
    }
    let known = Known::read(args, &images, dicts)?;
    let versions = match &known {
        Known::Counted(_) => Vec::new(),
        Known::Learnt(versions, _) => versions.iter().map(Sites::new).collect(),
    };
    let mut made = Vec::new();
    for image in &images {
        made.push(make(image, &known, &versions, args).with_context(|| image.path.display().to_string())?);
    }
    for (image, new) in images.iter().zip(made) {
        put(image, new, args, dicts).with_context(|| image.path.display().to_string())?;
    }
    Ok(Status::Done)
}

fn open(path: &Path) -> anyhow::Result<Image> {
    let path = fs::canonicalize(path).with_context(|| path.display().to_string())?;
    let dictionary = dict::dictionary(&path)?;
    let own = || Record { versions: vec![dictionary.build_id.clone()], learnt: Vec::new(), fit: None };
    let record = Record::of(&path, &dictionary.build_id).unwrap_or_else(own);
    Ok(Image { path, dictionary, record })
}

/// Facts about the use of images.
enum Known {
    /// Calls were counted.
    Counted(Calls),
    /// All versions of the images, and the edges that contexts of them have shown.
    Learnt(Vec<Dictionary>, Learnt),
}

impl Known {
    fn read(args: &AdaptArgs, images: &[Image], dicts: &Path) -> anyhow::Result<Self> {
        let mut counted: Option<Calls> = None;
        let mut weights: HashMap<String, f64> = HashMap::new();
        for path in &args.learnt {
            let text =
                pcce::load::read_file(path).with_context(|| format!("{}: cannot be read", path.display()))?;
            if text.starts_with(b"{\"profile\":\"calls\"") {
                let calls = Calls::read(&text).with_context(|| path.display().to_string())?;
                counted.get_or_insert_default().functions.extend(calls.functions);
            } else {
                weigh(&text, &mut weights);
            }
        }
        match counted {
            Some(_) if !weights.is_empty() => {
                bail!(
                    "--learnt: counts of calls and contexts do not go together; give the ones or the others"
                )
            }
            Some(calls) => Ok(Self::Counted(calls.merged())),
            None => Self::decoded(&weights, images, dicts),
        }
    }

    fn decoded(weights: &HashMap<String, f64>, images: &[Image], dicts: &Path) -> anyhow::Result<Self> {
        let mut versions: Vec<Dictionary> = Vec::new();
        for image in images {
            versions.push(image.dictionary.clone());
            let earlier = image.record.versions.iter().filter(|id| **id != image.dictionary.build_id);
            for file in earlier.map(|id| store::place(dicts, id)) {
                match pcce::load::load(&file) {
                    Ok(dictionary) => versions.push(dictionary),
                    Err(error) => note(&format!("{error}: what was learnt of that version is left out")),
                }
            }
        }
        let mut decoder = Decoder::new(&versions)?;
        for (number, version) in versions.iter().enumerate() {
            if let Some(image) = images.iter().find(|image| image.dictionary.build_id == version.build_id) {
                decoder.set_program(number, image.path.clone(), None);
            }
        }
        let (mut learnt, mut all, mut read) = (Learnt::default(), 0.0, 0.0);
        let (mut token, mut context, mut scratch) = (Token::default(), Context::default(), Vec::new());
        for (text, &weight) in weights {
            all += weight;
            // The token of the thread's creation follows after a `+`.
            let own = text.split('+').next().unwrap_or_default();
            if token.parse_into(own.as_bytes(), &mut scratch).is_ok()
                && decoder.decode(&token, &mut context).is_ok()
            {
                read += weight;
                learnt.add(&decoder, &context, weight);
            }
        }
        if learnt.edges.is_empty() {
            bail!(
                "--learnt: no call of {} is there; let this build run with PCCE_LEARN, for some seconds of processor time",
                images[0].path.display()
            );
        }
        if read < all {
            note(&format!(
                "{:.1} % of what was learnt is of other builds, or damaged, and left out",
                (all - read) / all * 100.0
            ));
        }
        Ok(Self::Learnt(versions, learnt))
    }
}

/// Adds the weights of the tokens in a text: those of lines of a CPU profile, or one for each token. Lines of a profile
/// that are not whole are left out: a process was killed as it wrote them.
fn weigh(text: &[u8], weights: &mut HashMap<String, f64>) {
    #[derive(Deserialize)]
    struct Line {
        token: Option<String>,
        nanoseconds: f64,
        samples: f64,
    }
    let mut add = |token: String, weight: f64| *weights.entry(token).or_default() += weight;
    for line in text.split(|&byte| byte == b'\n') {
        if line.starts_with(b"{\"token\":") && line.ends_with(b"}") {
            if let Ok(Line { token: Some(token), nanoseconds, samples }) = serde_json::from_slice(line) {
                // A sandbox may have refused the clock.
                add(token, if nanoseconds > 0.0 { nanoseconds } else { samples * EVENT });
                continue;
            }
        } else if line.starts_with(b"{\"token\":") {
            continue;
        }
        for range in tokens(line, Words::Tokens) {
            add(String::from_utf8_lossy(&line[range]).into_owned(), EVENT);
        }
    }
}

/// Makes an image again, beside the old one, and checks it. `versions`: those of all images.
fn make(
    image: &Image,
    known: &Known,
    versions: &[Sites<'_>],
    args: &AdaptArgs,
) -> anyhow::Result<Option<New>> {
    let folder = image.path.parent().unwrap_or(Path::new("/"));
    let mut profile =
        tempfile::Builder::new().prefix("pcce-learnt-").tempfile().context("a file for the profile")?;
    let is_own = |dictionary: &Dictionary| image.record.versions.contains(&dictionary.build_id);
    match known {
        Known::Counted(calls) => calls.write(&mut profile)?,
        Known::Learnt(_, learnt) => learnt.calls(versions, is_own).write(&mut profile)?,
    }
    let file = tempfile::Builder::new().prefix(".pcce-").tempfile_in(folder)?.into_temp_path();
    let flag: OsString =
        [OsStr::new("--pcce-profile-use="), profile.path().as_os_str()].into_iter().collect();
    let mut command = Command::new(own_linker()?);
    command.arg("--pcce-relink").arg(&image.path).arg("-o").arg(&file).arg(flag);
    command.args(args.kept.iter().flat_map(|folder| [OsStr::new("--kept"), folder.as_os_str()]));
    command.args(["--of", &image.record.versions[0]]);
    let status = command.status().context("pcce-ld cannot be run")?;
    if !status.success() {
        bail!(
            "it was not made again, and is as before; link it with --pcce-keep, and give --kept DIR if it keeps there"
        );
    }
    let dictionary = dict::dictionary(&file)?;
    if dictionary.build_id == image.dictionary.build_id {
        return Ok(None);
    }
    check(&image.path, &file)?;
    let fit = match known {
        Known::Counted(_) => None,
        Known::Learnt(_, learnt) => {
            let fit = |version: &Dictionary| {
                learnt.fit(versions, |image| is_own(image.dictionary), &Sites::new(version))
            };
            Some((fit(&image.dictionary), fit(&dictionary)))
        }
    };
    let dictionary = Dictionary { program: image.dictionary.program.clone(), ..dictionary };
    Ok(Some(New { file, dictionary, fit }))
}

/// Checks that a new image can take the place of an old one: others see the same of both, and the loader loads it with
/// all that it binds.
fn check(old: &Path, new: &Path) -> anyhow::Result<()> {
    let interface = |path: &Path| {
        let bytes = pcce::load::read_file(path)?;
        Interface::read(&bytes).with_context(|| format!("{}: no ELF file that can be read", path.display()))
    };
    let (before, after) = (interface(old)?, interface(new)?);
    if let Some(difference) = before.difference(&after) {
        bail!("the new image is not taken: {difference}");
    }
    if let Some(loader) = &before.interpreter {
        let list = |image: &Path| {
            Command::new(loader).arg("--list").arg(image).env("LD_BIND_NOW", "1").env("LD_WARN", "1").output()
        };
        let was = match list(old) {
            Err(error) if error.kind() == ErrorKind::NotFound || is_for_other_machine(&error) => {
                let name = old.display();
                note(&format!(
                    "{name}: whether it can be loaded is not known here: cannot run `{loader}`: {error}"
                ));
                return Ok(());
            }
            listed => listed.with_context(|| format!("cannot run `{loader}`"))?,
        };
        let is = list(new).with_context(|| format!("cannot run `{loader}`"))?;
        if was.status.success() && !is.status.success() {
            let said = String::from_utf8_lossy(&is.stderr);
            bail!("the new image is not taken: it cannot be loaded: {}", said.trim());
        }
    }
    Ok(())
}

/// Returns whether a program cannot be run since it is for another machine.
fn is_for_other_machine(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error())
}

/// Puts a new image into the place of the old one, which is put aside if it was the first version.
fn put(image: &Image, new: Option<New>, args: &AdaptArgs, dicts: &Path) -> anyhow::Result<()> {
    let name = image.path.display();
    let Some(New { file, dictionary, fit }) = new else {
        note(&format!("{name}: it is encoded for this use already"));
        return Ok(());
    };
    dict::keep(dicts, &dictionary)?;
    let rights = fs::metadata(&image.path)?;
    let owner = fs::metadata(&file)?;
    if (rights.uid(), rights.gid()) != (owner.uid(), owner.gid()) {
        chown(&file, Some(rights.uid()), Some(rights.gid()))
            .context("the new image cannot have the owner of the old one")?;
    }
    fs::set_permissions(&file, rights.permissions())?;
    let mut record = image.record.clone();
    record.versions.retain(|id| *id != dictionary.build_id || *id == image.record.versions[0]);
    record.versions.push(dictionary.build_id.clone());
    record.learnt = args.learnt.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
    record.fit = fit;
    let aside = beside(&image.path, pcce_options::PUT_ASIDE);
    if image.record.versions.len() == 1 {
        // The name leads to a whole file at any time.
        let copy = tempfile::Builder::new()
            .prefix(".pcce-")
            .tempfile_in(aside.parent().unwrap_or(Path::new("/")))?;
        let copy = copy.into_temp_path();
        fs::remove_file(&copy)?;
        fs::hard_link(&image.path, &copy)?;
        copy.persist(&aside)?;
    }
    let text = serde_json::to_string(&record)? + "\n";
    let path = beside(&image.path, RECORD);
    fs::write(&path, text).with_context(|| format!("{}: cannot be written", path.display()))?;
    file.persist(&image.path)?;
    note(&format!("{name}: version {}; the first one is {}", record.versions.len(), aside.display()));
    Ok(())
}
