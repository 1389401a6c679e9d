//! Programs in all ways of building them, compared with a backtrace.
//!
//! A program takes contexts at many points, some in a handler of a timer's signal. At each point libgcc's unwinder tells the addresses
//! of the calls, and LLVM's symboliser their functions, lines and inlined calls: that is what the decoded token must say.
//! A boundary in it may hide frames, but no frame may be wrong, and none missing without a boundary.
//!
//! `matrix/flags.toml` has the flags, `matrix/attributes.toml` calling conventions and attributes of functions. The programs
//! are those of `matrix/`, one made of the attributes, and generated ones ([`crate::cxx`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::chain::{Frame, add, decoded, is_push_thunk, show, symbol_names, symbolise};
use crate::{Output, artifact, command, cxx, llvm, repository, run, run_with_input, run_within};

/// Time for a compilation or a run, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(600);

/// A row of `matrix/flags.toml`: flags, and what is known of programs built with them.
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

/// A row of `matrix/attributes.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    /// Of the function.
    pub name: String,
    attribute: String,
    #[serde(default)]
    parameters: String,
    #[serde(default)]
    arguments: String,
    first: Option<[String; 2]>,
    #[serde(default)]
    definition: bool,
    #[serde(default = "yes")]
    result: bool,
    #[serde(default)]
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {
    attribute: Vec<Attribute>,
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let path = folder().join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn folder() -> PathBuf {
    repository().join("testsuite/matrix")
}

/// All attributes of the table.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn attributes() -> Vec<Attribute> {
    read::<Attributes>("attributes.toml").attribute
}

/// How the pass gets at a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The whole program when it is linked.
    Lto,
    /// Each module when it is compiled.
    Module,
    /// The first module when the program is linked, the others when they are compiled.
    Mixed,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lto, Self::Module, Self::Mixed];

    fn name(self) -> &'static str {
        match self {
            Self::Lto => "lto",
            Self::Module => "module",
            Self::Mixed => "mixed",
        }
    }

    /// The wrapper's, for the first module and for others.
    fn of_module(self, first: bool) -> &'static str {
        if self == Self::Module || self == Self::Mixed && !first { "module" } else { "lto" }
    }
}

/// A program.
#[derive(Clone, Debug)]
pub enum Program {
    /// `matrix/calls.c`, of two modules.
    Calls,
    /// `matrix/objects.cpp`.
    Objects,
    /// A function for each of these attributes, in one module, and their callers in another one.
    Attributes(Vec<Attribute>),
    /// What the generator of C++ makes of a seed.
    Generated(u64),
}

impl Program {
    fn is_cxx(&self) -> bool {
        matches!(self, Self::Objects | Self::Generated(_))
    }

    /// Its modules. What is generated is written into `work`.
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
                let [header, main, part] = attribute_program(attributes);
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

/// Header, callers, and functions.
fn attribute_program(attributes: &[Attribute]) -> [String; 3] {
    let mut header = String::from(
        "#include \"show.h\"\ntypedef void action(long);\ntypedef float four __attribute__((vector_size(16)));\n\
         struct large { long words[4]; };\nextern volatile long sum;\nextern void *error_result;\n\
         extern long indirect_result;\n",
    );
    let mut main = String::from(
        "#include \"attributes.h\"\nstatic void called(long n) { sum += n; SHOW(\"called\"); KEEP; }\n",
    );
    let mut part = String::from(
        "#include \"attributes.h\"\nvolatile long sum;\nvoid *error_result;\nlong indirect_result;\n",
    );
    let mut calls = String::new();
    for Attribute { name, attribute, parameters, arguments, first, definition, result, body } in attributes {
        let behind = |list: &str| if list.is_empty() { String::new() } else { format!(", {list}") };
        let (parameters, arguments) = (behind(parameters), behind(arguments));
        let in_front = |i: usize| first.as_ref().map_or(String::new(), |first| format!("{}, ", first[i]));
        let (parameter, argument) = (in_front(0), in_front(1));
        let add = if *result { "sum +=" } else { "(void)" };
        let head = format!("long f_{name}({parameter}long n, action *back{parameters})");
        // What must be inlined has to be where it is called.
        let inlined = attribute.contains("always_inline");
        let linkage = if inlined { "static inline " } else { "" };
        let declared = if *definition { "" } else { attribute };
        let _ = writeln!(header, "{linkage}{declared} {head};");
        let to = if inlined { &mut header } else { &mut part };
        let _ = writeln!(
            to,
            "{linkage}{attribute} {head} {{\n  {body}\n  sum += n;\n  SHOW(\"{name}\"); KEEP;\n  \
             if (back) {{ back(n); KEEP; }}\n  \
             if (n > 0) {{ {add} f_{name}({argument}n - 1, back{arguments}); KEEP; }}\n  return sum % 1000;\n}}",
        );
        let _ = writeln!(
            main,
            "static __typeof__(f_{name}) *volatile p_{name} = f_{name};\nNOINLINE static void call_{name}(void) {{\n  \
             {add} f_{name}({argument}2, called{arguments}); KEEP;\n  \
             {add} p_{name}({argument}1, called{arguments}); KEEP;\n}}",
        );
        let _ = writeln!(
            calls,
            "  call_{name}(); KEEP;\n  printf(\"{name} %ld\\n\", sum); fflush(stdout); KEEP;"
        );
    }
    let _ = writeln!(main, "int main(void) {{\n{calls}  return 0;\n}}");
    [header, main, part]
}

/// A way of building a program.
#[derive(Clone, Debug)]
pub struct Case {
    /// The program.
    pub program: Program,
    /// What flags.toml says.
    row: Row,
    /// The flags of the row.
    pub flags: String,
    /// The optimisation level.
    pub level: &'static str,
    /// Nobody has said that a plain build takes these flags.
    listed: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.program, self.level, self.flags)
    }
}

const LEVELS: [&str; 5] = ["-O2", "-O0", "-O1", "-Os", "-O3"];

/// All cases. `seed`: which levels and generated programs the rows get.
#[must_use]
pub fn cases(seed: u64) -> Vec<Case> {
    let Flags { rows, listed } = read("flags.toml");
    let mut cases = Vec::new();
    let mut number = seed;
    for row in &rows {
        for flags in &row.flags {
            let (flags, row) = (flags.clone(), row.clone());
            let takes = |program: &Program| {
                row.language.as_deref().is_none_or(|language| (language == "c++") == program.is_cxx())
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
        // Of which one of the attributes says something.
        let (row, flags) = (row("attributes"), "-fcf-protection".to_owned());
        cases.push(Case { program, row, flags, level, listed: false });
    }
    let except: BTreeSet<&str> = listed.except.iter().flat_map(|e| e.flags.split(' ')).collect();
    for flags in listed_flags().into_iter().filter(|flag| !except.contains(flag.as_str())) {
        let mut row = row("listed");
        // What it does to tables is not known.
        row.signals = false;
        cases.push(Case { program: Program::Calls, row, flags, level: "-O2", listed: true });
    }
    cases
}

/// The flags of a row for a generated program of this seed; none for every other seed. They change nothing that the program prints, and
/// what it is linked with is there in all modes.
#[must_use]
pub fn flags_for(seed: u64, cxx: bool) -> Vec<String> {
    if seed % 2 == 0 {
        return Vec::new();
    }
    let rows = read::<Flags>("flags.toml").rows.into_iter();
    let language = if cxx { "c++" } else { "c" };
    let fit = rows.filter(|row| {
        let generally = row.lines && row.backtrace && row.refused.is_none() && row.modes.is_none();
        generally && row.soak && row.language.as_deref().is_none_or(|wanted| wanted == language)
    });
    let all: Vec<String> = fit.flat_map(|row| row.flags).collect();
    // Levels and modes go with the seed as well: a row meets all of them.
    let flags = &all[(seed / 2 % all.len() as u64) as usize];
    flags.split_whitespace().map(str::to_owned).collect()
}

/// The flags of code generation that clang lists, and that take no value.
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

/// What was compared in a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Instrumented builds.
    pub builds: usize,
    /// Different points.
    pub points: usize,
    /// Those that decode to all frames, without a boundary but signals.
    pub whole: usize,
    /// Those where the unwinder did not get to the end.
    pub lost: usize,
    /// Cases of flags that a plain build does not take.
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
    /// Whether it is about attributes of functions, not flags.
    #[must_use]
    pub fn is_of_attributes(&self) -> bool {
        matches!(self.program, Program::Attributes(_))
    }

    /// Whether its flags are in no table, but in clang's list: a plain build may refuse them.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// Builds the program plain and in the modes, and compares. `work` is made anew, and stays only if something is wrong.
    ///
    /// # Errors
    /// What is wrong.
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
                self.compare_points(&path, &output, &mut counts).map_err(wrong)?;
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
            // A module of the generator that no build instruments is none of ours.
            match mode {
                _ if source.ends_with(cxx::PLAIN_FILE) => {
                    compile = command(llvm(name), &["-c", "-o", &object]);
                    let _ = compile.args(&flags).args(["-g0", "-fno-lto"]).arg(source);
                }
                Some(mode) => _ = compile.arg(format!("--pcce-mode={}", mode.of_module(i == 0))),
                None => {}
            }
            self.run_compiler(compile)?;
            objects.push(object);
        }
        let mut link = command(&compiler, &["-o"]);
        let _ = link.arg(to).args(&flags).args(&objects);
        match mode {
            Some(mode) => _ = link.arg(format!("--pcce-mode={}", mode.of_module(true))),
            None => _ = link.arg(artifact("libpcce_rt.a")),
        }
        self.run_compiler(link)
    }

    fn run_compiler(&self, mut compiler: std::process::Command) -> Result<(), String> {
        let output = run_within(&mut compiler, "", LIMIT)?;
        // What is listed may have no effect, and clang says so.
        let silent = !self.listed || output.stderr.is_empty();
        if output.status == 0 && silent { Ok(()) } else { Err(output.describe()) }
    }

    fn run(&self, program: &Path, work: &Path) -> Result<Output, String> {
        let mut command = command("prlimit", &["--cpu=100:110", "--core=0", "--"]);
        // Reports of others go where nobody looks.
        let _ = command.arg(program).current_dir(work).env("LLVM_PROFILE_FILE", work.join("profile"));
        run_within(&mut command, "", LIMIT)
    }

    fn compare_points(&self, program: &Path, output: &Output, counts: &mut Counts) -> Result<(), String> {
        let lines: BTreeSet<&str> = output.stdout.lines().filter(|line| line.starts_with('%')).collect();
        let mut points = Vec::with_capacity(lines.len());
        let mut all = BTreeSet::new();
        for line in lines {
            let mut words = line.split(' ');
            let (name, token) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let numbers: Result<Vec<u64>, _> = words.map(|word| u64::from_str_radix(word, 16)).collect();
            let addresses = numbers.map_err(|e| format!("torn line `{line}`: {e}"))?;
            all.extend(addresses.iter().copied().filter(|&address| address != 0));
            points.push((name, token, addresses));
        }
        if points.is_empty() {
            return Err("no points to compare".into());
        }
        let tokens: String = points.iter().map(|(_, token, _)| format!("{token}\n")).collect();
        let mut pcce = command(artifact("pcce"), &["decode", "--format", "json"]);
        let output = run_with_input(pcce.arg(program), &tokens);
        if output.status != 0 {
            return Err(output.describe());
        }
        let traces: Vec<Vec<Frame>> = output.stdout.lines().map(decoded).collect();
        let frames = if self.row.lines {
            symbolise(program, &all)
        } else {
            let called = |frame: &Frame| matches!(frame, Frame::Call(..)).then(|| frame.clone());
            let of_traces = traces.iter().flatten().filter_map(called);
            let known: Vec<Frame> = of_traces.map(|frame| simplified(frame, false)).collect();
            let of_name = |name: String| {
                let frame = simplified(Frame::Call(name.clone(), 0, false), false);
                match () {
                    () if is_push_thunk(&name) => Vec::new(),
                    () if known.contains(&frame) => vec![frame],
                    () => vec![Frame::Plain],
                }
            };
            symbol_names(program, &all).into_iter().map(|(address, name)| (address, of_name(name))).collect()
        };
        if traces.len() != points.len() {
            return Err(format!("{} tokens, {} traces", points.len(), traces.len()));
        }
        let mut jumping = None;
        let mut wrong = String::new();
        let mut wrongs = 0;
        for ((name, token, addresses), mut found) in points.iter().zip(traces) {
            let mut expected = Vec::new();
            for address in addresses {
                let plain = [Frame::Plain];
                let of_address = frames.get(address).map_or(&plain[..], Vec::as_slice);
                of_address
                    .iter()
                    .for_each(|frame| add(&mut expected, simplified(frame.clone(), self.row.lines)));
            }
            if !self.row.lines {
                found.retain(|frame| !matches!(frame, Frame::Call(_, _, true)));
            }
            let mut found: Vec<Frame> =
                found.into_iter().map(|frame| simplified(frame, self.row.lines)).collect();
            trim(&mut expected);
            trim(&mut found);
            counts.points += 1;
            if found.iter().all(|f| matches!(f, Frame::Call(..) | Frame::Plain) || is_signal(f)) {
                counts.whole += 1;
            }
            if fits(&expected, &found, &BTreeSet::new())
                || fits(&expected, &found, jumping.get_or_insert_with(|| jumping_functions(program)))
            {
                continue;
            }
            // In the linker's stubs, which have no tables, the unwinder is lost, and where frames are many.
            if !expected.iter().any(|frame| ends_thread(frame)) {
                counts.lost += 1;
                continue;
            }
            wrongs += 1;
            if wrongs <= 3 {
                let (expected, found) = (show(&expected), show(&found));
                let _ = writeln!(wrong, "{name} {token}\n  expected {expected}\n  found    {found}");
            }
        }
        if wrongs == 0 { Ok(()) } else { Err(format!("{wrongs} of {} points:\n{wrong}", points.len())) }
    }
}

fn ordinary_lines(output: &Output) -> Vec<String> {
    output.stdout.lines().filter(|line| !line.starts_with(['@', '%'])).map(str::to_owned).collect()
}

/// A frame with the last part of the function's name: not all demanglers write types the same way.
fn simplified(frame: Frame, lines: bool) -> Frame {
    match frame {
        Frame::Call(name, line, inlined) => {
            Frame::Call(last_part(&name), if lines { line } else { 0 }, inlined)
        }
        other => other,
    }
}

/// The last part of a name, without parameters, arguments of templates, and return type.
fn last_part(name: &str) -> String {
    if name.contains(" thunk") {
        return "thunk".into();
    }
    let mut depth = 0;
    let mut part = String::new();
    for c in name.replace("->", "").chars() {
        match c {
            '(' | '<' | '{' | '[' => depth += 1,
            ')' | '>' | '}' | ']' => depth -= 1,
            _ if depth > 0 => {}
            ':' => part.clear(),
            _ => part.push(c),
        }
    }
    let part = part.strip_suffix(" const").unwrap_or(&part);
    part.rsplit(' ').next().unwrap_or(part).to_owned()
}

/// Takes away what called the outermost function: nobody's code.
fn trim(frames: &mut Vec<Frame>) {
    while frames.last() == Some(&Frame::Plain) {
        frames.pop();
    }
}

fn is_signal(frame: &Frame) -> bool {
    matches!(frame, Frame::Boundary(kind) if kind == "signal")
}

/// The functions in which the programs' threads start, and those that run before and after `main`.
fn ends_thread(frame: &Frame) -> bool {
    let Frame::Call(name, ..) = frame else { return false };
    matches!(&**name, "main" | "thread" | "~Global" | "_M_run") || name.starts_with("_GLOBAL__sub_I")
}

/// Whether two frames are of one call. The line table may have no line for it, where code was moved.
fn is_same(expected: &Frame, found: &Frame) -> bool {
    match (expected, found) {
        (Frame::Call(e, 0, inlined), Frame::Call(f, _, found)) => e == f && inlined == found,
        _ => expected == found,
    }
}

/// The functions with a jump to another function: a tail call, perhaps.
fn jumping_functions(program: &Path) -> BTreeSet<String> {
    let mut objdump = command(llvm("llvm-objdump"), &["-d", "--no-show-raw-insn", "--demangle"]);
    let text = run(objdump.arg(program)).expect_success().stdout;
    let symbol = |line: &str| Some(line.split_once('<')?.1.rsplit_once('>')?.0.to_owned());
    let (mut found, mut function) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        if line.ends_with(">:") {
            function = symbol(line).unwrap_or_default();
        } else if line.contains("\tjmp") {
            let target = symbol(line);
            if target.is_none_or(|to| to.rsplit_once("+0x").map_or(&*to, |(to, _)| to) != function) {
                found.insert(last_part(&function));
            }
        }
    }
    found
}

/// Whether a decoded chain says what is expected, as far as it says something. The functions `jumping` may have left by a tail call:
/// they are no frames then.
fn fits(expected: &[Frame], found: &[Frame], jumping: &BTreeSet<String>) -> bool {
    // Which beginnings of what is expected fit the frames so far.
    let mut ends: BTreeSet<usize> = BTreeSet::from([0]);
    for (i, frame) in found.iter().enumerate() {
        let may_have_left = |of: &Frame| match of {
            Frame::Call(_, _, true) => None,
            Frame::Call(name, ..) => Some(jumping.contains(name)),
            _ => Some(false),
        };
        // With what is inlined into it.
        let left = i > 0 && found[i..].iter().find_map(may_have_left) == Some(true);
        let mut next = BTreeSet::new();
        for &end in &ends {
            match frame {
                Frame::Call(..) => {
                    _ = expected.get(end).is_some_and(|e| is_same(e, frame)).then(|| next.insert(end + 1));
                    _ = left.then(|| next.insert(end));
                }
                // Code that is not instrumented may leave no frame (by a tail call), but hides no other.
                Frame::Plain => {
                    next.insert(end);
                    _ = (expected.get(end) == Some(&Frame::Plain)).then(|| next.insert(end + 1));
                }
                // No frame is left of a tail call.
                Frame::Tail(_) => _ = next.insert(end),
                // The frame that the kernel has made.
                boundary if is_signal(boundary) => {
                    next.insert(end);
                    _ = (expected.get(end) == Some(&Frame::Plain)).then(|| next.insert(end + 1));
                }
                Frame::Boundary(_) => next.extend(end..=expected.len()),
            }
        }
        ends = next;
    }
    ends.contains(&expected.len())
}

/// Counts of a run over cases, by group.
#[must_use]
pub fn by_group(results: &[(&Case, Counts)]) -> BTreeMap<String, Counts> {
    let mut groups: BTreeMap<String, Counts> = BTreeMap::new();
    for (case, counts) in results {
        *groups.entry(case.row.group.clone()).or_default() += *counts;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str) -> Frame {
        Frame::Call(name.to_owned(), 1, false)
    }

    #[test]
    fn names_have_last_parts() {
        for (name, part) in [
            ("f", "f"),
            ("f(int (*)(long))", "f"),
            ("void std::__invoke_impl<void, main::$_0>(std::__invoke_other, main::$_0&&)", "__invoke_impl"),
            ("main::$_0::operator()(int) const", "operator"),
            ("O1::~O1()::'lambda'(int)::operator()(int) const", "operator"),
            ("(anonymous namespace)::C<(int)1>::~C()", "~C"),
            ("non-virtual thunk to V0::walk(int, int)", "thunk"),
        ] {
            assert_eq!(last_part(name), part, "{name}");
        }
    }

    #[test]
    fn boundaries_hide_frames_and_nothing_else_does() {
        let boundary = || Frame::Boundary("unknown".into());
        let chain = [call("f"), call("g"), Frame::Plain, call("main")];
        let good: [&[Frame]; 5] = [
            &chain,
            &[call("f"), boundary(), call("main")],
            &[call("f"), boundary()],
            &[call("f"), call("g"), Frame::Plain, Frame::Tail(String::new()), call("main")],
            &[boundary(), call("g"), boundary()],
        ];
        for found in good {
            assert!(fits(&chain, found, &BTreeSet::new()), "{}", show(found));
        }
        let wrong: [&[Frame]; 7] = [
            &[call("f"), Frame::Plain, call("main")],
            &[call("f"), call("g"), call("main")],
            &[call("f"), call("g"), Frame::Plain],
            &[call("f"), call("h"), boundary()],
            &[call("f"), boundary(), call("f"), boundary()],
            &[call("f"), Frame::Tail(String::new()), Frame::Plain, call("main")],
            &[],
        ];
        for found in wrong {
            assert!(!fits(&chain, found, &BTreeSet::new()), "{}", show(found));
        }
        let jumping = BTreeSet::from(["h".to_owned()]);
        let left = [call("f"), call("h"), call("g"), Frame::Plain, call("main")];
        assert!(!fits(&chain, &left, &BTreeSet::new()) && fits(&chain, &left, &jumping));
        assert!(!fits(&chain, &[call("h"), call("f"), call("g"), Frame::Plain, call("main")], &jumping));
    }
}
