//! The two links of a command.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Output};

use crate::again::Before;
use crate::command::{Command, Meaning, Word};
use crate::inputs::{Inputs, files_of};
use crate::linked::{Linked, Place, canonical};
use crate::scratch::{Scratch, with_names};
use crate::{Error, FirstLink, Generate, Generated, MARKER, compiled, elf, keep, partial, trace};

/// A command that is linked twice.
pub struct Links<'a> {
    /// The real linker.
    pub linker: &'a Path,
    /// The file that the link writes.
    pub output: PathBuf,
    /// The user's final output, if the output is moved there later.
    pub target: PathBuf,
    /// The user's command.
    pub command: &'a Command,
    /// The folder of the link.
    pub scratch: Scratch,
    /// The place for the link's kept inputs.
    pub keeps: Option<keep::Place>,
    /// The kept link that is made again.
    pub before: Option<Before<'a>>,
    /// Files of this link, with the user's names for them.
    pub names: Vec<(PathBuf, PathBuf)>,
}

/// The end of a link.
enum Ended {
    Well(Box<Linked>),
    /// The linker has failed, and says why.
    Failed(Output),
}

impl<'a> Links<'a> {
    /// A link by the user's command.
    pub fn new(linker: &'a Path, command: &'a Command) -> Result<Self, Error> {
        let output = command.output();
        let (scratch, target) = (Scratch::new(&output)?, output.clone());
        let keeps = keep::Place::of_environment();
        Ok(Self { linker, output, target, command, scratch, keeps, before: None, names: Vec::new() })
    }

    /// Links twice. Returns the linker's status; none if nothing is to be generated, so that an ordinary link
    /// remains to be done.
    pub fn run(&self, generate: &dyn Generate) -> Result<Option<ExitCode>, Error> {
        let scratch = &self.scratch;
        let image = scratch.path().join("linked");
        let skeletons = Inputs::of(self.command);
        let mut linked = match self.first(&skeletons, &image, &[])? {
            Ended::Well(linked) => *linked,
            Ended::Failed(result) => {
                self.say(&result.stderr, &[(image, self.target.clone())], &mut std::io::stderr());
                return Ok(Some(code(&result)));
            }
        };
        if linked.modules.is_empty() {
            return Ok(None);
        }
        if let Some(refused) = self.command.refused() {
            return Err(Error::Refused(refused.texts[0].clone()));
        }
        if is_no_file(&self.output) {
            return Ok(Some(ExitCode::SUCCESS));
        }
        if self.keeps.is_some() && self.command.compiles() {
            return Err(Error::KeepsBitcode);
        }
        let (mut repeated, mut lays_out_anew) = (false, false);
        for round in 0.. {
            let folder = scratch.path().join(format!("code-{round}"));
            fs::create_dir(&folder).map_err(Error::file(&folder))?;
            let first = FirstLink {
                output: &image,
                target: &self.target,
                is_library: self.command.is_library(),
                arguments: self.command.words.iter().flat_map(|word| word.texts.clone()).collect(),
                modules: &linked.modules,
                plain: &linked.plain,
                shared_libraries: &linked.shared_libraries,
                others: &linked.others,
                folder: &folder,
                lays_out_anew,
            };
            let generated = generate.generate(&first).map_err(Error::Generate)?;
            check(&linked, &generated)?;
            let copies = scratch.path().join(format!("inputs-{round}"));
            let inputs = Inputs::replaced(self.command, &linked, &generated, scratch, &copies)?;
            let result = self.second(&inputs, &generated.variables)?;
            let mut difference = None;
            if result.status.success() {
                difference = self.compare(&linked)?;
                if difference.is_none() {
                    if let Some(check) = &generated.check
                        && let Some(what) = check(&self.output).map_err(Error::Generate)?
                    {
                        return Err(Error::OtherCode(what));
                    }
                    if let Some(before) = &self.before {
                        before.check(&linked, &generated)?;
                    }
                    self.finish(&inputs, &result)?;
                    if let Some(place) = &self.keeps {
                        let (linker, output, command) = (self.linker, &*self.output, self.command);
                        let (linked, generated, scratch) = (&linked, &generated, scratch.path());
                        keep::Done { command, linker, output, linked, generated, scratch }.keep(place)?;
                    }
                    scratch.writes(false);
                    return Ok(Some(ExitCode::SUCCESS));
                }
            }
            // Either the linker refuses the command, or the code has changed what is linked: a further member
            // without code makes the linker fail, too.
            let now = match self.first(&inputs, &scratch.path().join("with-code"), &[])? {
                Ended::Well(now) => Some(now),
                Ended::Failed(_) => None,
            };
            difference = difference.or_else(|| now.as_ref().and_then(|now| further(&linked, now)));
            match (difference, now) {
                // All steps are repeated, with the members that the code has called for.
                (Some(difference), Some(now)) if !repeated => {
                    repeated = true;
                    let forced = called_for(&linked, &now, &inputs, &generated)?;
                    linked = match self.first(&skeletons, &image, &forced)? {
                        Ended::Well(linked) => *linked,
                        Ended::Failed(_) => return Err(Error::Unstable(difference)),
                    };
                }
                (Some(difference), _) => return Err(Error::Unstable(difference)),
                (None, _) if generated.relies_on_layout => lays_out_anew = true,
                (None, _) => {
                    self.finish(&inputs, &result)?;
                    return Ok(Some(code(&result)));
                }
            }
        }
        unreachable!("the third round is the last")
    }

    /// Joins objects. Returns the linker's status; none if no object has modules, so that an ordinary link
    /// remains to be done.
    pub fn join(&self) -> Result<Option<ExitCode>, Error> {
        let scratch = &self.scratch;
        let inputs = Inputs::of(self.command);
        let Ended::Well(linked) = self.first(&inputs, &scratch.path().join("joined.o"), &[])? else {
            return Ok(None);
        };
        if linked.modules.is_empty() || is_no_file(&self.output) {
            return Ok(None);
        }
        if let Some(refused) = self.command.refused() {
            return Err(Error::Refused(refused.texts[0].clone()));
        }
        let content = scratch.path().join("inputs");
        fs::write(&content, partial::pack(self.command, &linked, self.linker)?)
            .map_err(Error::file(&content))?;
        let result = self.second(&inputs, &[])?;
        self.finish(&inputs, &result)?;
        if result.status.success() {
            let not_joined = |what| Error::NotJoined { file: self.output.clone(), what };
            let mut ids: Vec<u64> = linked.modules.iter().map(|module| module.id).collect();
            let (mut modules, _) = elf::ids_of_file(&self.output, &self.output)?;
            modules.sort_unstable();
            ids.sort_unstable();
            if modules != ids {
                return Err(not_joined(
                    "it has not the modules of its inputs; a script has left their sections out",
                ));
            }
            partial::attach(&self.output, &content, scratch)?;
            scratch.writes(false);
        }
        Ok(Some(code(&result)))
    }

    /// Links into a scratch file, and finds out what was linked. `forced` are words that call for further
    /// members.
    fn first(&self, inputs: &Inputs, image: &Path, forced: &[OsString]) -> Result<Ended, Error> {
        let scratch = &self.scratch;
        let mut words: Vec<OsString> = ["-o".into(), image.into()].into();
        words.extend(["--trace", "--trace"].map(OsString::from));
        words.extend(forced.iter().cloned());
        let joins = self.command.joins_objects();
        if !joins {
            words.push(format!("--defsym={MARKER}=0").into());
        }
        let kept = |word: &Word| {
            !matches!(
                word.meaning(),
                Some(
                    Meaning::Output
                        | Meaning::SecondOnly
                        | Meaning::SecondReads
                        | Meaning::SideText
                        | Meaning::Dependencies
                        | Meaning::SideFile
                        | Meaning::Objects
                        | Meaning::Quoting
                        | Meaning::Folding
                        | Meaning::Refused
                )
            )
        };
        words.extend(inputs.words.iter().filter(|(word, _)| kept(word)).flat_map(|(_, texts)| texts.clone()));
        let folder = |prefix: &str| {
            let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(scratch.path());
            Ok(folder.map_err(Error::file(scratch.path()))?.keep())
        };
        let compiled = self.command.compiles().then(|| folder("compiled-")).transpose()?;
        if let Some(folder) = &compiled {
            words.push(compiled::into(folder));
        }
        // With this option, mold 1.10 leaves out all symbols.
        let mold = canonical(self.linker).file_name().is_some_and(|n| n.to_string_lossy().contains("mold"));
        let without_debug = [&["--strip-debug".into()], &*words].concat();
        let with_debug = mold || joins;
        let mut result = scratch.run(self.linker, if with_debug { &words } else { &without_debug })?;
        if !with_debug && result.status.success() && trace::names_too_many(&result.stdout) {
            result = scratch.run(self.linker, &words)?;
        }
        if !result.status.success() {
            return Ok(Ended::Failed(result));
        }
        if !elf::is_elf64(image) {
            return Ok(Ended::Well(Box::default()));
        }
        let (modules, with_code) = elf::ids_of_file(image, &self.output)?;
        if modules.is_empty() && with_code.is_empty() {
            return Ok(Ended::Well(Box::default()));
        }
        let mut traced = trace::read(&result.stdout);
        // mold prints nothing when it joins objects.
        let says_too_much = trace::names_too_many(&result.stdout) || mold && joins;
        if mold && joins {
            traced = trace::of_files(&files_of(self.command))?;
        }
        // If copies replace inputs, the inputs count.
        let originals: HashMap<&PathBuf, &PathBuf> =
            inputs.copies.iter().map(|(copy, file)| (copy, file)).collect();
        for traced in &mut traced {
            if let Some(original) = originals.get(&traced.file).copied() {
                traced.file.clone_from(original);
            }
        }
        traced.retain(|traced| !inputs.extra.contains(&traced.file));
        let named = self.command.words.iter().filter_map(Word::input).map(Path::to_owned).collect();
        let ids: Vec<u64> = modules.into_iter().chain(with_code).collect();
        let compiled = compiled.map_or(Ok(Vec::new()), |folder| compiled::objects(&folder))?;
        if joins && !compiled.is_empty() {
            return Err(Error::JoinsBitcode(self.output.clone()));
        }
        let mut linked = Linked::find(&ids, &traced, &named, compiled, &folder("joined-")?)?;
        // Without garbage collection, the image has a symbol of each linked member.
        let collects = |word: &Word| word.texts[0].as_bytes().ends_with(b"-gc-sections");
        if says_too_much && !self.command.words.iter().any(collects) {
            linked.leave_out_what_is_not_in(image)?;
        }
        Ok(Ended::Well(Box::new(linked)))
    }

    /// Links into the user's output.
    fn second(&self, inputs: &Inputs, variables: &[(&'static str, OsString)]) -> Result<Output, Error> {
        let is_left_out = |word: &Word| matches!(word.meaning(), Some(Meaning::Quoting | Meaning::Folding));
        let kept = inputs.words.iter().filter(|(word, _)| !is_left_out(word));
        let words = kept.flat_map(|(word, texts)| match word.is_map_on_output() {
            true => word.with_value(self.map_for_output().as_os_str()),
            false => texts.clone(),
        });
        let words: Vec<OsString> = words.collect();
        self.scratch.writes(true);
        self.scratch.run_with(self.linker, &words, variables)
    }

    /// The file with the map that the user wants on standard output. The linker's standard output is a pipe,
    /// and GNU ld writes no map into a pipe.
    fn map_for_output(&self) -> PathBuf {
        self.scratch.path().join("map")
    }

    /// Passes on the output of the second link, with the names of the user's files.
    fn finish(&self, inputs: &Inputs, result: &Output) -> Result<(), Error> {
        self.say(&result.stdout, &inputs.copies, &mut std::io::stdout());
        let map = self.map_for_output();
        if map.is_file() {
            let text = fs::read(&map).map_err(Error::file(&map))?;
            self.say(&text, &inputs.copies, &mut std::io::stdout());
        }
        self.say(&result.stderr, &inputs.copies, &mut std::io::stderr());
        for (file, is_for_make) in self.command.side_texts() {
            let mut names = inputs.copies.clone();
            if is_for_make {
                // The added files depend on the user's files, and are gone when `make` looks for them.
                let first = names.first().map(|(_, file)| file.clone()).into_iter();
                names.extend(
                    first.flat_map(|first| inputs.extra.iter().map(move |e| (e.clone(), first.clone()))),
                );
                // Some linkers do not escape names for `make`.
                let escaped: Vec<_> = names.iter().map(|(c, file)| (for_make(c), for_make(file))).collect();
                names.extend(escaped);
            }
            if fs::metadata(&file).is_ok_and(|data| data.is_file()) {
                let text = fs::read(&file).map_err(Error::file(&file))?;
                fs::write(&file, with_names(&text, &names)).map_err(Error::file(&file))?;
            }
        }
        Ok(())
    }

    /// Passes on the linker's messages. `names` are files that replaced others.
    fn say(&self, text: &[u8], names: &[(PathBuf, PathBuf)], to: &mut impl Write) {
        let text = with_names(&with_names(text, names), &self.names);
        let _ = to.write_all(&text).and_then(|()| to.flush());
    }

    /// The difference between the modules of the output and the modules of the first link.
    fn compare(&self, linked: &Linked) -> Result<Option<String>, Error> {
        let (modules, with_code) = elf::ids_of_file(&self.output, &self.output)?;
        let shown = |id: &u64| {
            let known = linked.modules.iter().find(|module| module.id == *id);
            known.map_or_else(|| format!("module {id:016x}"), |module| module.shown.clone())
        };
        if let Some(id) = modules.first() {
            return Ok(Some(format!("{} is linked as well", shown(id))));
        }
        let mut seen = HashSet::new();
        if let Some(id) = with_code.iter().find(|id| !seen.insert(**id)) {
            return Ok(Some(format!("{} is linked twice", shown(id))));
        }
        if let Some(module) = linked.modules.iter().find(|module| !seen.remove(&module.id)) {
            return Ok(Some(format!("{} is linked no more", module.shown)));
        }
        Ok(seen.iter().next().map(|id| format!("{} is linked as well", shown(id))))
    }
}

/// Returns whether the output is discarded: a test of a configure script.
fn is_no_file(output: &Path) -> bool {
    fs::metadata(output).is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// A module that was linked now, but not in the first link.
fn further(before: &Linked, now: &Linked) -> Option<String> {
    let known: HashSet<u64> = before.modules.iter().map(|module| module.id).collect();
    let module = now.modules.iter().find(|module| !known.contains(&module.id))?;
    Some(format!("{} is linked as well", module.shown))
}

/// Words that make a link of skeletons include the members that `now` has and `before` lacks: names that
/// generated code refers to and that these members define.
fn called_for(
    before: &Linked,
    now: &Linked,
    inputs: &Inputs,
    generated: &Generated,
) -> Result<Vec<OsString>, Error> {
    let known: HashSet<&Place> = before.objects.iter().map(|object| &object.place).collect();
    let mut defined = HashSet::new();
    for object in now.objects.iter().filter(|object| !object.by_linker && !known.contains(&object.place)) {
        defined.extend(elf::defined(&*object.bytes()?, false, &object.shown)?);
    }
    let mut words = Vec::new();
    for file in generated.objects.iter().map(|(_, file)| file).chain(&inputs.extra) {
        let data = fs::read(file).map_err(Error::file(file))?;
        for name in elf::undefined(&*data, &file.display().to_string())? {
            if defined.remove(&name) {
                words.extend(["-u".into(), OsString::from_vec(name)]);
            }
        }
    }
    Ok(words)
}

/// Checks that each module has its code, and that each object belongs to its module.
fn check(linked: &Linked, generated: &Generated) -> Result<(), Error> {
    let objects: HashMap<u64, &PathBuf> = generated.objects.iter().map(|(id, file)| (*id, file)).collect();
    for module in linked.modules.iter().filter(|module| !module.by_linker) {
        let object = objects.get(&module.id).ok_or_else(|| Error::NotGenerated(module.shown.clone()))?;
        let data = fs::read(object).map_err(Error::file(object))?;
        let (modules, with_code) = elf::all_ids(&*data, &object.display().to_string())?;
        if !modules.is_empty() || with_code != [module.id] {
            let cause = format!("{} has ids {with_code:x?}, and not {:x}", object.display(), module.id);
            return Err(Error::WrongCode { file: module.shown.clone(), cause });
        }
    }
    Ok(())
}

/// A name, escaped for a makefile.
fn for_make(name: &Path) -> PathBuf {
    let mut text = Vec::new();
    for byte in name.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'#' => text.push(b'\\'),
            b'$' => text.push(b'$'),
            _ => {}
        }
        text.push(*byte);
    }
    OsString::from_vec(text).into()
}

fn code(result: &Output) -> ExitCode {
    let code = result.status.code().unwrap_or(1);
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}
