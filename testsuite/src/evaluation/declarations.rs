//! The programs of the evaluation and the builds that are compared, as `testsuite/evaluation` declares them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::store::fingerprint;
use crate::{checked, declaration, files, llvm_of_rustc, llvm_version, repository};

pub fn declarations() -> PathBuf {
    repository().join("testsuite/evaluation")
}

/// The folder with the scripts that programs run.
pub fn workloads() -> PathBuf {
    declarations().join("workloads")
}

/// The origin of a program's sources.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Sources {
    /// Debian's source package of this name.
    Package(String),
    /// This file of `testsuite/evaluation/micro`.
    File { file: String },
    /// A folder, relative to the declaration.
    Folder { folder: PathBuf },
}

impl Sources {
    /// A fingerprint of the sources.
    pub fn fingerprint(&self) -> Result<String> {
        match self {
            Self::Package(name) => Ok(name.clone()),
            Self::File { file } => {
                let path = micro(file);
                Ok(fingerprint([fs::read(&path).with_context(|| path.display().to_string())?]))
            }
            Self::Folder { folder } => {
                let mut find = Command::new("find");
                let listed = find.arg(folder).args(["-type", "f", "-printf", "%P %s %T@\\n"]).output();
                let list = checked("find", listed)?.stdout;
                let mut files: Vec<&[u8]> = list.split(|byte| *byte == b'\n').collect();
                files.sort_unstable();
                Ok(fingerprint(files))
            }
        }
    }
}

/// The file of a microbenchmark.
pub fn micro(name: &str) -> PathBuf {
    declarations().join("micro").join(name)
}

/// Groups of programs, each with means of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Set {
    /// Programs that a rule drew (docs/evaluation-notes.md), and on which nothing is tuned.
    Drawn,
    /// Programs on which the encoding was measured while it was made.
    #[default]
    Tuned,
    /// Programs that were chosen before anything was measured on them. Some later work was done for them.
    Unseen,
    /// Small loops around the most expensive operations.
    Micro,
}

impl Set {
    /// All sets, in the order of the report.
    pub const ALL: [Set; 4] = [Set::Drawn, Set::Tuned, Set::Unseen, Set::Micro];

    /// The name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Drawn => "drawn",
            Self::Tuned => "tuned",
            Self::Unseen => "unseen",
            Self::Micro => "micro",
        }
    }
}

/// A program: a file of `testsuite/evaluation/programs`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name: the file's, without the ending.
    #[serde(skip)]
    pub name: String,
    /// Where its sources come from.
    #[serde(alias = "package")]
    pub sources: Sources,
    /// The programs in whose means it counts.
    #[serde(default)]
    pub set: Set,
    /// True if rustc compiles it: with tools for rustc's LLVM or a newer one, in variants that are built with LTO.
    #[serde(default)]
    pub rust: bool,
    /// Shell commands that make the sources ready for building, in their folder, once for all variants.
    #[serde(default)]
    pub prepare: String,
    /// Shell commands that build it, in a copy of the prepared sources.
    ///
    /// Here and in `prepare`, `$CC` and `$CXX` are compilers with all flags of the variant, so the commands only give
    /// the program's own.
    pub build: String,
    /// The executable that the build leaves.
    pub executable: PathBuf,
    /// The shared libraries of the build, in files of the names by which the program loads them. The libraries of the
    /// same package are measured with the program, except for the counts of calls, which are those of the executable.
    #[serde(default)]
    pub libraries: Vec<PathBuf>,
    pub workload: Workload,
    /// True if capture curves are made with it.
    #[serde(default)]
    pub captures: bool,
}

/// Shell commands that run `$EXE` and print a result that shows that it worked. They start in an empty folder;
/// `$INPUTS` are the generated inputs, `$WORKLOADS` the scripts of `testsuite/evaluation/workloads`, `$SOURCES` the
/// program's prepared sources. The output must be the same in every variant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// A second or two: for times, memory, and verify mode.
    pub run: String,
    /// A small workload of the same kind: for callgrind, which takes fifty times as long.
    pub small: String,
    /// Another one, of which variants that are adapted learn.
    #[serde(default)]
    pub learn: Option<String>,
}

impl Program {
    /// All programs, by name.
    pub fn all() -> Result<Vec<Program>> {
        let folder = declarations().join("programs");
        let mut programs = Vec::new();
        for path in files(&folder)?.into_iter().filter(|path| path.extension().is_some_and(|e| e == "toml")) {
            programs.push(Self::read(&path)?);
        }
        programs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(programs)
    }

    /// The program of this name, or of a declaration whose path ends with `.toml`.
    pub fn named(name: &str) -> Result<Program> {
        if name.ends_with(".toml") {
            let program = Self::read(Path::new(name))?;
            if Self::all()?.iter().any(|known| known.name == program.name) {
                bail!("{name}: the evaluation has a program of this name; give the file another one");
            }
            return Ok(program);
        }
        let path = declarations().join("programs").join(name).with_extension("toml");
        if !path.exists() {
            let all = Self::all()?.into_iter().map(|p| p.name).collect::<Vec<_>>();
            bail!("there is no program `{name}`; there are: {}", all.join(", "));
        }
        Self::read(&path)
    }

    fn read(path: &Path) -> Result<Program> {
        let (name, mut program) = declaration::<Program>(path)?;
        if let Sources::Folder { folder } = &mut program.sources {
            *folder = path.parent().unwrap_or(Path::new("")).join(&*folder);
        }
        Ok(Program { name, ..program })
    }

    /// Returns whether the tools of this build can read its bitcode, which they cannot if rustc's LLVM is newer.
    pub fn has_tools(&self) -> bool {
        !self.rust || llvm_version().parse::<u32>().is_ok_and(|lld| lld >= llvm_of_rustc())
    }

    /// Returns whether it can be built in the variant.
    pub fn takes(&self, variant: &Variant) -> bool {
        !self.rust || (variant.uses_wrapper() && variant.baseline.as_deref() == Some("plain"))
    }

    /// A fingerprint of a workload: its commands, the scripts that they name, the inputs.
    pub fn workload_fingerprint(&self, commands: &str) -> Result<String> {
        let mut parts = vec![commands.as_bytes().to_vec(), super::inputs::version().into_bytes()];
        for entry in fs::read_dir(workloads())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if commands.contains(&name) {
                parts.push(fs::read(&path)?);
            }
        }
        // The order of a folder's entries is not defined.
        parts[2..].sort();
        Ok(fingerprint(parts))
    }
}

/// `testsuite/evaluation/variants.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variants {
    common: String,
    variants: BTreeMap<String, Variant>,
    captures: BTreeMap<String, Variant>,
}

impl Variants {
    fn read() -> Result<Variants> {
        let path = declarations().join("variants.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Compiler {
    /// clang 19 without the pass.
    Clang,
    Pcce,
}

/// What a program is adapted to: how it runs the workload [`Workload::learn`].
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Adapted {
    /// What the program itself has learnt.
    Learnt,
    /// The counts of another build.
    Counted,
    /// The counts of another build for the workload that is measured.
    CountedSame,
}

/// A way to build every program: an entry of `testsuite/evaluation/variants.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The name, with `@` and the folder of the tools if that was given.
    #[serde(skip)]
    pub name: String,
    pub compiler: Compiler,
    /// Flags of every command of the compiler, the common ones included.
    pub flags: String,
    /// The variant that it is compared with. Baselines have none.
    pub baseline: Option<String>,
    /// True if it is built with a profile of its small workload.
    #[serde(default)]
    pub trained: bool,
    /// What `pcce adapt` is given, if it is run on what was built.
    #[serde(default)]
    pub adapted: Option<Adapted>,
    /// If `pcce trace split` is run on what was built: which of the programs it is, from 1, and how many there are.
    #[serde(default)]
    pub part: Option<(u32, u32)>,
    /// True if its runs record a trace of calls.
    #[serde(default)]
    pub records: bool,
    /// The start of the program's command line: a tool that records the program. `$TRACES` is the folder for that.
    #[serde(default)]
    pub through: String,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The description in the report.
    pub note: String,
    /// The folder of `make build` whose wrappers it uses.
    #[serde(skip)]
    pub tools: PathBuf,
}

impl Variant {
    /// The variant of this name, built with the tools in `tools`. `NAME@FOLDER` takes them from there, so that two
    /// builds of the tools can be compared. `NAME:LAYOUT` shuffles the functions, by that number, and those of the
    /// baseline: the layout alone moves times by some percent.
    pub fn named(given: &str, tools: &Path) -> Result<Variant> {
        let Variants { common, mut variants, .. } = Variants::read()?;
        let (name, folder) = match given.split_once('@') {
            Some((name, folder)) => (name, Path::new(folder)),
            None => (given, tools),
        };
        let (name, layout) = match name.split_once(':') {
            Some((name, layout)) => (name, Some(layout)),
            None => (name, None),
        };
        let Some(mut variant) = variants.remove(name) else {
            let all: Vec<&str> = variants.keys().map(String::as_str).collect();
            bail!("there is no variant `{name}`; there are: {}", all.join(", "));
        };
        if let Some(baseline) = &variant.baseline
            && variants.get(baseline).is_none_or(|b| b.baseline.is_some())
        {
            bail!("variants.toml: the baseline of `{name}` must be a variant without one");
        }
        if let Some(layout) = layout {
            let layout: u32 = layout.parse().with_context(|| format!("`{given}`: a layout is a number"))?;
            variant.flags += &format!(" -ffunction-sections -Wl,--shuffle-sections=.text*={layout}");
            variant.baseline.iter_mut().for_each(|baseline| *baseline += &format!(":{layout}"));
        }
        variant.tools = folder
            .canonicalize()
            .with_context(|| format!("{}: no folder with the tools", folder.display()))?;
        given.clone_into(&mut variant.name);
        variant.flags = format!("{common} {}", variant.flags);
        Ok(variant)
    }

    /// The names of the variants that are compared with a baseline.
    pub fn all_names() -> Result<Vec<String>> {
        let all = Variants::read()?.variants;
        Ok(all.into_iter().filter(|(_, v)| v.baseline.is_some()).map(|(name, _)| name).collect())
    }

    /// The ways to capture a context.
    pub fn captures(tools: &Path) -> Result<Vec<Variant>> {
        let Variants { common, captures, .. } = Variants::read()?;
        let complete = |(name, mut variant): (String, Variant)| {
            variant.flags = format!("{common} {}", variant.flags);
            tools.clone_into(&mut variant.tools);
            Variant { name, ..variant }
        };
        Ok(captures.into_iter().map(complete).collect())
    }

    /// Returns whether it is built with the wrapper compilers.
    pub fn uses_wrapper(&self) -> bool {
        self.compiler == Compiler::Pcce
    }

    /// The name as a part of a path.
    pub fn folder_name(&self) -> String {
        self.name.replace(['/', '@', ':'], "_")
    }
}
