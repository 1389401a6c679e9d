//! Programs in all ways of building them, compared with a backtrace.
//!
//! A program takes contexts at many points, some in a handler of a timer's signal. At each point libgcc's unwinder
//! gives the addresses of the calls, and LLVM's symboliser their functions, lines and inlined calls: the decoded token
//! must say the same. A boundary in it may hide frames, but no frame may be wrong, and none missing without a
//! boundary.
//!
//! `matrix/flags.toml` has the flags, `matrix/attributes.toml` calling conventions and attributes of functions. The
//! programs are those of `matrix/`, one made of the attributes, and generated ones ([`crate::generated::cxx`]).

mod attributes;
mod compare;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;

pub use self::attributes::{Attribute, attributes};
use crate::generated::cxx;
use crate::{Output, artifact, command, llvm, repository, run, run_within};

/// Time limit of a compilation or a run, on a machine with other load.
const LIMIT: Duration = Duration::from_secs(600);

/// A row of `matrix/flags.toml`: flags, and facts about programs built with them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    group: String,
    flags: Vec<String>,
    #[serde(rename = "for")]
    language: Option<String>,
    #[serde(default = "yes")]
    backtrace: bool,
    #[serde(default = "yes")]
    signals: bool,
    #[serde(default = "yes")]
    lines: bool,
    modes: Option<BTreeMap<String, String>>,
    refused: Option<String>,
    #[serde(default = "yes")]
    soak: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flags {
    listed: Listed,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Listed {
    except: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    flags: String,
    #[expect(dead_code, reason = "for readers")]
    why: String,
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let path = folder().join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn folder() -> PathBuf {
    repository().join("testsuite/matrix")
}

/// The way in which the pass is applied to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The whole program when it is linked.
    Lto,
    /// Each module when it is compiled.
    Module,
    /// The first module when the program is linked, the others when they are compiled.
    Mixed,
    /// All modules together, between two links.
    Link,
}

impl Mode {
    pub const ALL: [Self; 4] = [Self::Lto, Self::Module, Self::Mixed, Self::Link];

    fn name(self) -> &'static str {
        match self {
            Self::Lto => "lto",
            Self::Module => "module",
            Self::Mixed => "mixed",
            Self::Link => "link",
        }
    }

    /// The mode of the wrapper for the first module and for others.
    fn of_module(self, first: bool) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Module => "module",
            Self::Mixed if !first => "module",
            Self::Mixed | Self::Lto => "lto",
        }
    }
}

#[derive(Clone, Debug)]
pub enum Program {
    /// `matrix/calls.c`, of two modules.
    Calls,
    Objects,
    /// A function for each of these attributes, in one module, and their callers in another one.
    Attributes(Vec<Attribute>),
    /// The program that the generator of C++ makes from a seed.
    Generated(u64),
}

impl Program {
    fn is_cxx(&self) -> bool {
        matches!(self, Self::Objects | Self::Generated(_))
    }

    /// Its modules. Generated ones are written into `work`.
    fn sources(&self, work: &Path) -> Vec<PathBuf> {
        let write = |name: &str, text: &str| {
            let path = work.join(name);
            fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            path
        };
        match self {
            Self::Calls => vec![folder().join("calls.c"), folder().join("part.c")],
            Self::Objects => vec![folder().join("objects.cpp")],
            Self::Attributes(attributes) => {
                let [header, main, part] = attributes::program(attributes);
                write("attributes.h", &header);
                vec![write("main.c", &main), write("part.c", &part)]
            }
            Self::Generated(seed) => {
                let files = cxx::generate(*seed).files;
                let paths = files.iter().map(|(name, text)| write(name, text));
                paths.filter(|path| path.extension().is_some_and(|e| e == "cpp")).collect()
            }
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls => f.write_str("calls.c"),
            Self::Objects => f.write_str("objects.cpp"),
            Self::Attributes(attributes) if attributes.len() == 1 => f.write_str(&attributes[0].name),
            Self::Attributes(_) => f.write_str("attributes"),
            Self::Generated(seed) => write!(f, "seed {seed}"),
        }
    }
}

/// A way of building a program.
#[derive(Clone, Debug)]
pub struct Case {
    pub program: Program,
    row: Row,
    pub flags: String,
    pub level: &'static str,
    /// True if it is not known whether a plain build accepts these flags.
    listed: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.program, self.level, self.flags)
    }
}

const LEVELS: [&str; 5] = ["-O2", "-O0", "-O1", "-Os", "-O3"];

/// All cases. `seed` selects the levels and generated programs of the rows.
pub fn cases(seed: u64) -> Vec<Case> {
    let Flags { rows, listed } = read("flags.toml");
    let mut cases = Vec::new();
    let mut number = seed;
    for row in &rows {
        for flags in &row.flags {
            let (flags, row) = (flags.clone(), row.clone());
            let takes = |program: &Program| {
                (row.soak || !matches!(program, Program::Generated(_)))
                    && row.language.as_deref().is_none_or(|language| (language == "c++") == program.is_cxx())
            };
            for program in [Program::Calls, Program::Objects, Program::Generated(number)] {
                if takes(&program) {
                    let level = LEVELS[(number % 5) as usize];
                    let (row, flags) = (row.clone(), flags.clone());
                    cases.push(Case { program, row, flags, level, listed: false });
                    number += 1;
                }
            }
        }
    }
    let row = |group: &str| Row {
        group: group.to_owned(),
        flags: Vec::new(),
        language: None,
        backtrace: true,
        signals: true,
        lines: true,
        modes: None,
        refused: None,
        soak: false,
    };
    for level in ["-O0", "-O2"] {
        let program = Program::Attributes(attributes());
        // One of the attributes has an effect only with this flag.
        let (row, flags) = (row("attributes"), "-fcf-protection".to_owned());
        cases.push(Case { program, row, flags, level, listed: false });
    }
    let except: BTreeSet<&str> = listed.except.iter().flat_map(|e| e.flags.split(' ')).collect();
    for flags in listed_flags().into_iter().filter(|flag| !except.contains(flag.as_str())) {
        let mut row = row("listed");
        // Its effect on tables is not known.
        row.signals = false;
        cases.push(Case { program: Program::Calls, row, flags, level: "-O2", listed: true });
    }
    cases
}

/// The flags of a row for a generated program of this seed. Every other seed has none. They do not change the output,
/// and their libraries exist in all modes.
pub fn flags_for(seed: u64, cxx: bool) -> Vec<String> {
    if seed.is_multiple_of(2) {
        return Vec::new();
    }
    let rows = read::<Flags>("flags.toml").rows.into_iter();
    let language = if cxx { "c++" } else { "c" };
    let fit = rows.filter(|row| {
        let generally = row.lines && row.backtrace && row.refused.is_none() && row.modes.is_none();
        generally && row.soak && row.language.as_deref().is_none_or(|wanted| wanted == language)
    });
    // The parts of these programs that are compiled without the pass would get it at the link.
    let all: Vec<String> =
        fit.flat_map(|row| row.flags).filter(|flags| !flags.split(' ').any(|flag| flag == "-flto")).collect();
    // Levels and modes go with the seed as well: a row meets all of them.
    let flags = &all[(seed / 2 % all.len() as u64) as usize];
    flags.split_whitespace().map(str::to_owned).collect()
}

/// The flags of code generation in clang's list that take no value.
fn listed_flags() -> Vec<String> {
    let help = run(&mut command(llvm("clang"), &["--help-hidden"])).expect_success().stdout;
    let flag = |line: &str| {
        let word = line.strip_prefix("  -")?.split_whitespace().next()?;
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.');
        let value = line.split_whitespace().nth(1).is_some_and(|w| w.starts_with(['<', '=']));
        (plain && !value && word.starts_with(['f', 'm'])).then(|| format!("-{word}"))
    };
    help.lines().filter_map(flag).collect()
}

/// The comparisons of a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Instrumented builds.
    pub builds: usize,
    /// Different points.
    pub points: usize,
    /// Points that decode to all frames, without a boundary except signals.
    pub whole: usize,
    /// Points where the unwinder did not get to the end.
    pub lost: usize,
    /// Cases whose flags a plain build refuses.
    pub skipped: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.builds += other.builds;
        self.points += other.points;
        self.whole += other.whole;
        self.lost += other.lost;
        self.skipped += other.skipped;
    }
}

impl Case {
    /// Returns whether it is about attributes of functions, not flags.
    pub fn is_of_attributes(&self) -> bool {
        matches!(self.program, Program::Attributes(_))
    }

    /// Returns whether its flags are in no table, but in clang's list: a plain build may refuse them.
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// Builds the program plain and in the modes, and compares. `work` is emptied first, and stays only if something is
    /// wrong.
    pub fn check(&self, modes: &[Mode], work: &Path) -> Result<Counts, String> {
        let _ = fs::remove_dir_all(work);
        fs::create_dir_all(work).map_err(|e| format!("{}: {e}", work.display()))?;
        let counts = self.compare(modes, work).map_err(|e| format!("{self}: {e}"))?;
        let _ = fs::remove_dir_all(work);
        Ok(counts)
    }

    fn compare(&self, modes: &[Mode], work: &Path) -> Result<Counts, String> {
        let sources = self.program.sources(work);
        let mut counts = Counts::default();
        let plain = work.join("plain");
        let expected = self.build(&sources, None, &plain).and_then(|()| self.run(&plain, work));
        let expected = match (expected, &self.row.refused) {
            (Ok(expected), _) if expected.status == 0 => ordinary_lines(&expected),
            (Err(_), Some(_)) => Vec::new(),
            (Ok(_) | Err(_), _) if self.listed => return Ok(Counts { skipped: 1, ..counts }),
            (Ok(output), _) => return Err(format!("plain: {}", output.describe())),
            (Err(error), _) => return Err(format!("plain: {error}")),
        };
        for &mode in modes {
            if self.row.modes.as_ref().is_some_and(|modes| !modes.contains_key(mode.name())) {
                continue;
            }
            let wrong = |text: String| format!("{}: {text}", mode.name());
            let path = work.join(mode.name());
            let built = self.build(&sources, Some(mode), &path);
            if let Some(refused) = &self.row.refused {
                match built {
                    Err(text) if text.contains(refused) => continue,
                    other => return Err(wrong(format!("not refused: {other:?}"))),
                }
            }
            built.map_err(wrong)?;
            let output = self.run(&path, work).map_err(wrong)?;
            counts.builds += 1;
            let found = ordinary_lines(&output);
            if output.status != 0 || found != expected {
                let text = format!("{}expected {expected:?}\nfound {found:?}", output.describe());
                return Err(wrong(text));
            }
            if self.row.backtrace {
                compare::compare_points(&path, &output, self.row.lines, &mut counts).map_err(wrong)?;
            }
        }
        Ok(counts)
    }

    fn build(&self, sources: &[PathBuf], mode: Option<Mode>, to: &Path) -> Result<(), String> {
        let include = |path: &str| format!("-I{}", repository().join(path).display());
        let mut flags = vec![self.level.to_owned(), "-g".into(), "-w".into(), "-pthread".into()];
        flags.extend([include("runtime-lib/include"), include("testsuite/programs")]);
        if self.row.backtrace {
            flags.push("-DSHOW_BACKTRACE".into());
        }
        if !self.row.signals {
            flags.push("-DSIGNALS=0".into());
        }
        if self.program.is_cxx() {
            flags.push("-std=c++17".into());
        }
        // The generator's programs leave tail calls to the compiler.
        if matches!(self.program, Program::Generated(_)) {
            flags.push("-fno-optimize-sibling-calls".into());
        }
        let of_all = flags.clone();
        flags.extend(self.flags.split_whitespace().map(str::to_owned));
        let name = if self.program.is_cxx() { "clang++" } else { "clang" };
        let compiler = match mode {
            Some(_) => artifact(&format!("pcce-{name}")),
            None => llvm(name),
        };
        let mut objects = Vec::new();
        for (i, source) in sources.iter().enumerate() {
            let object = format!("{}.{i}.o", to.display());
            let mut compile = command(&compiler, &["-c", "-o", &object]);
            let _ = compile.args(&flags).arg(source);
            // A module of the generator that is compiled without the pass in each build.
            match mode {
                _ if source.ends_with(cxx::PLAIN_FILE) => {
                    compile = command(llvm(name), &["-c", "-o", &object]);
                    let _ = compile.args(&of_all).arg("-g0").arg(source);
                }
                Some(mode) => _ = compile.arg(format!("--pcce-mode={}", mode.of_module(i == 0))),
                None => {}
            }
            self.run_compiler(compile)?;
            objects.push(object);
        }
        let mut link = command(&compiler, &["-o"]);
        let _ = link.arg(to).args(&flags).args(&objects);
        // GNU ld places inline functions that it drops at address 0 in the debug information, where other code is. But
        // exceptions do not find their handlers in plain programs with split functions that lld has linked.
        if matches!(self.program, Program::Generated(_)) && !self.flags.contains("-hot-cold-split") {
            let _ = link.arg("-fuse-ld=lld");
        }
        match mode {
            Some(mode) => _ = link.arg(format!("--pcce-mode={}", mode.of_module(true))),
            None => _ = link.arg(artifact("libpcce_rt.a")),
        }
        self.run_compiler(link)
    }

    fn run_compiler(&self, mut compiler: std::process::Command) -> Result<(), String> {
        let output = run_within(&mut compiler, "", LIMIT)?;
        // Flags from clang's list may have no effect, and clang says so.
        let silent = !self.listed || output.stderr.is_empty();
        if output.status == 0 && silent { Ok(()) } else { Err(output.describe()) }
    }

    fn run(&self, program: &Path, work: &Path) -> Result<Output, String> {
        let mut command = command("prlimit", &["--cpu=100:110", "--core=0", "--"]);
        // Reports of sanitizers and profiles go into the folder.
        let _ = command.arg(program).current_dir(work).env("LLVM_PROFILE_FILE", work.join("profile"));
        run_within(&mut command, "", LIMIT)
    }
}

fn ordinary_lines(output: &Output) -> Vec<String> {
    output.stdout.lines().filter(|line| !line.starts_with(['@', '%'])).map(str::to_owned).collect()
}

/// Counts of a run over cases, by group.
pub fn by_group(results: &[(&Case, Counts)]) -> BTreeMap<String, Counts> {
    let mut groups: BTreeMap<String, Counts> = BTreeMap::new();
    for (case, counts) in results {
        *groups.entry(case.row.group.clone()).or_default() += *counts;
    }
    groups
}
