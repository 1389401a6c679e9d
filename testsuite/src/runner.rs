//! Builds a test program in all its variants, runs it, and compares what it shows with what its directives say.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::program::{Loading, Program, matches};
use crate::{Output, artifact, command, llvm, repository, run, run_with_input, run_within, work_folder};

/// Shapes of an executable, with the flags that make them.
const SHAPES: [(&str, &[&str]); 5] = [
    ("nodebug", &["-g0"]),
    ("no-pie", &["-fno-pie", "-no-pie"]),
    ("pie", &["-fPIE", "-pie"]),
    ("static", &["-static"]),
    ("static-pie", &["-fPIE", "-static-pie"]),
];

/// Time that a compilation may take: much, since soak runs with the lowest priority.
const COMPILE_LIMIT: Duration = Duration::from_secs(1800);

/// A way of building a program.
#[derive(Clone, Debug)]
struct Case {
    mode: String,
    level: String,
    verify: bool,
    shape: &'static str,
    flags: Vec<String>,
}

impl Case {
    /// What conditions of directives ask for.
    fn facts(&self) -> Vec<String> {
        let mut facts = vec![self.mode.clone(), self.level.clone(), self.shape.to_owned()];
        if self.verify {
            facts.push("verify".to_owned());
        }
        facts
    }

    fn name(&self) -> String {
        format!(
            "{}{}{}{}",
            self.mode,
            self.level,
            if self.verify { "-verify" } else { "" },
            if self.shape.is_empty() { String::new() } else { format!("-{}", self.shape) }
        )
    }
}

/// A line that a program showed.
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) token: String,
    /// 0 where there is no context.
    pub(crate) number: u64,
    process: u64,
}

/// A frame of a decoded context.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) text: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u64>,
    inlined: bool,
}

/// Runs a program of `programs/` in all its variants.
///
/// # Panics
/// With all that is wrong, each with its case and the command that showed it.
pub fn check(path: &Path) {
    let program = Program::read(path);
    let folder = work_folder(&format!("programs/{}", program.name));
    // What is wrong, with the cases in which it is.
    let mut failures: Vec<(String, Vec<String>)> = Vec::new();
    let mut plain: HashMap<String, (Vec<String>, i32)> = HashMap::new();
    for case in cases(&program) {
        let facts = case.facts();
        let expected = plain.entry(case.level.clone()).or_insert_with(|| {
            let output = run_plain(&program, &case.level, &folder);
            (ordinary_lines(&output), output.status)
        });
        let found = check_case(&program, &case, expected, &folder);
        let wrong = match (found, program.broken(&facts)) {
            (Ok(()), None) | (Err(_), Some(_)) => continue,
            (Err(wrong), None) => wrong,
            (Ok(()), Some(reason)) => format!("works; take out `Broken: {reason}`"),
        };
        match failures.iter_mut().find(|(text, _)| *text == wrong) {
            Some((_, cases)) => cases.push(case.name()),
            None => failures.push((wrong, vec![case.name()])),
        }
    }
    let describe = |(wrong, cases): (String, Vec<String>)| format!("{}:\n{wrong}", cases.join(" "));
    let failures: Vec<String> = failures.into_iter().map(describe).collect();
    assert!(failures.is_empty(), "\nin {}\n{}", folder.display(), failures.join("\n"));
}

fn cases(program: &Program) -> Vec<Case> {
    let mut cases = Vec::new();
    for mode in program.modes() {
        for level in program.levels() {
            for verify in [false, true] {
                let mode = mode.clone();
                cases.push(Case { mode, level: level.clone(), verify, shape: "", flags: vec!["-g".into()] });
            }
        }
        if mode == "lto" {
            for verify in [false, true] {
                let flags = vec!["-g".into(), "--pcce-hybrid".into()];
                let (mode, level) = (mode.clone(), "-O2".into());
                cases.push(Case { mode, level, verify, shape: "hybrid", flags });
            }
        }
        for (shape, flags) in SHAPES.iter().filter(|_| program.has_shapes()) {
            for verify in [false, true] {
                let flags = ["-g"].iter().chain(*flags).map(|&f| f.to_owned()).collect();
                cases.push(Case { mode: mode.clone(), level: "-O2".into(), verify, shape, flags });
            }
        }
    }
    cases
}

/// Compiles the sources, each by itself if there are several, and links them.
pub(crate) fn compile(
    compiler: &Path,
    sources: &[(PathBuf, &[&str])],
    flags: &[String],
    link: &[String],
    output: &Path,
) -> Result<(), String> {
    let build_with = |compiler: &Path, arguments: &[String]| {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run_within(&mut command(compiler, &words), "", COMPILE_LIMIT)?;
        if output.status == 0 && output.stderr.is_empty() { Ok(()) } else { Err(output.describe()) }
    };
    let text = |path: &Path| path.display().to_string();
    // The C modules of a C++ program.
    let of_c = PathBuf::from(text(compiler).trim_end_matches("++"));
    let mut inputs: Vec<String> = sources.iter().map(|s| text(&s.0)).collect();
    if sources.len() > 1 {
        for (i, input) in inputs.iter_mut().enumerate() {
            let object = format!("{}.{i}.o", output.display());
            let own: Vec<String> = sources[i].1.iter().map(|&f| f.to_owned()).collect();
            let compiler = if input.ends_with(".c") { &of_c } else { compiler };
            let arguments = ["-c".into(), input.clone(), "-o".into(), object.clone()];
            build_with(compiler, &[flags, &own, &arguments].concat())?;
            *input = object;
        }
    }
    build_with(compiler, &[flags, &inputs, link, &["-o".into(), text(output)]].concat())
}

/// The wrapper or clang itself, and the flags that both get.
fn compiler(program: &Program, instrumented: bool) -> PathBuf {
    match (instrumented, program.is_cxx()) {
        (true, false) => artifact("pcce-clang"),
        (true, true) => artifact("pcce-clang++"),
        (false, false) => llvm("clang"),
        (false, true) => llvm("clang++"),
    }
}

/// What was built of a program.
struct Built {
    path: PathBuf,
    /// Its shared libraries, in the order of [`Program::libraries`].
    libraries: Vec<PathBuf>,
}

impl Built {
    /// The command that runs it.
    fn command(&self, program: &Program) -> Command {
        let of = |loading| {
            let all = program.libraries().into_iter().zip(&self.libraries);
            all.filter(move |(l, _)| l.loading == loading).map(|(_, path)| path.as_os_str())
        };
        let mut command = command(&self.path, &[]);
        command.args(of(Loading::Loaded));
        let preloaded: Vec<&OsStr> = of(Loading::Preloaded).collect();
        if !preloaded.is_empty() {
            command.env("LD_PRELOAD", preloaded.join(OsStr::new(":")));
        }
        command
    }
}

/// Builds the program and its libraries into `folder`. `case`: instrumented so, plain without.
fn build(program: &Program, level: &str, case: Option<&Case>, folder: &Path) -> Result<Built, String> {
    // The header's folder is named, since the wrapper finds it only where the target folder is the repository's own.
    let include = format!("-I{}", repository().join("runtime-lib/include").display());
    let common = [level, "-Wall", "-Werror", "-pthread", &include].map(str::to_owned);
    let facts = case.map_or(vec!["plain".to_owned(), level.to_owned()], Case::facts);
    let common = [&common[..], &program.flags(&facts)].concat();
    let own = |case: &Case| {
        let mut flags = [case.flags.clone(), vec![format!("--pcce-mode={}", case.mode)]].concat();
        if case.verify {
            flags.push("--pcce-verify".into());
        }
        flags
    };
    let instrument = |wanted: bool| case.filter(|_| wanted);
    let name = case.map_or(format!("plain{level}"), Case::name);
    let mut link = Vec::new();
    let mut libraries = Vec::new();
    for library in program.libraries() {
        let stem = library.source.file_stem().expect("a file").to_string_lossy().into_owned();
        let path = folder.join(format!("lib{stem}-{name}.so"));
        let case = instrument(library.instrumented);
        let shared = ["-fPIC".into(), "-shared".into()];
        let own = case.map_or(vec!["-g".into()], own);
        let flags = [&common[..], &own, &shared, &program.library_flags(&facts)].concat();
        // A plain library that calls the API finds it in the executable.
        compile(&compiler(program, case.is_some()), &[(library.source, &[])], &flags, &[], &path)?;
        if library.loading == Loading::Linked {
            link.extend([path.display().to_string(), format!("-Wl,-rpath,{}", folder.display())]);
        }
        libraries.push(path);
    }
    let path = folder.join(&name);
    let case_of_program = instrument(program.is_instrumented());
    let flags = match case_of_program {
        Some(case) => own(case),
        None => vec!["-g".into()],
    };
    match (case, case_of_program) {
        (_, Some(_)) => {}
        // The runtime that the instrumented library brought is the process's only one.
        (Some(_), None) => {
            let folder =
                artifact("libpcce_rt.so").parent().expect("a file in a folder").display().to_string();
            // A program that does not call it gets it with a library that it loads.
            link.extend(["-Wl,--as-needed".into(), format!("-L{folder}"), "-lpcce_rt".into()]);
            link.push(format!("-Wl,-rpath,{folder}"));
        }
        (None, None) => {
            let archive = artifact("libpcce_rt.a").display().to_string();
            link.extend(["-Wl,-u,pcce_token".into(), archive, "-Wl,--export-dynamic".into()]);
        }
    }
    let flags = [common, flags].concat();
    let mut sources = program.sources();
    if case_of_program.is_none() {
        sources.iter_mut().for_each(|source| source.1 = &[]);
    }
    compile(&compiler(program, case_of_program.is_some()), &sources, &flags, &link, &path)?;
    Ok(Built { path, libraries })
}

fn run_plain(program: &Program, level: &str, folder: &Path) -> Output {
    let built = build(program, level, None, folder).unwrap_or_else(|e| panic!("{e}"));
    let output = run(&mut built.command(program));
    assert!(output.status == program.exit_status(), "without the pass: {}", output.describe());
    for shown in shown_lines(&output).expect("lines of SHOW") {
        assert!(
            shown.token.is_empty() && shown.number == 0,
            "without the pass there is a context: {}",
            shown.token
        );
    }
    output
}

/// The lines that are the program's own.
#[must_use]
pub fn ordinary_lines(output: &Output) -> Vec<String> {
    output.stdout.lines().filter(|line| !line.starts_with('@')).map(str::to_owned).collect()
}

pub(crate) fn shown_lines(output: &Output) -> Result<Vec<Shown>, String> {
    let shown = |line: &str| {
        let mut words = line.strip_prefix('@')?.split(' ');
        let (name, token) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (number, process) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        words.next().is_none().then_some(Shown { name, token, number, process })
    };
    let lines = output.stdout.lines().filter(|line| line.starts_with('@'));
    lines.map(|line| shown(line).ok_or_else(|| format!("torn line `{line}`"))).collect()
}

fn check_case(
    program: &Program,
    case: &Case,
    (lines, status): &(Vec<String>, i32),
    folder: &Path,
) -> Result<(), String> {
    let built = build(program, &case.level, Some(case), folder)?;
    let report = folder.join(format!("{}.report", case.name()));
    let output = run(built.command(program).env("PCCE_VERIFY_REPORT", &report));
    let mut wrong = String::new();
    if case.verify {
        check_report(&report, program.is_cut(), &mut wrong);
    }
    if output.status != *status || ordinary_lines(&output) != *lines {
        show_output_difference(&output, *status, lines, &mut wrong);
    }
    let shown = shown_lines(&output)?;
    let libraries = program.libraries().into_iter().zip(&built.libraries).filter(|(l, _)| l.instrumented);
    let images: Vec<&Path> = std::iter::once(built.path.as_path())
        .filter(|_| program.is_instrumented())
        .chain(libraries.map(|(_, path)| path.as_path()))
        .collect();
    match decode(&images, &shown) {
        Ok(decoded) => compare(program, case, &shown, &decoded, &mut wrong),
        Err(error) => wrong.push_str(&error),
    }
    if wrong.is_empty() {
        // Hundreds of programs: only those that failed stay to be looked at.
        for file in [&built.path, &report].into_iter().chain(&built.libraries) {
            let _ = fs::remove_file(file);
        }
        Ok(())
    } else {
        Err(wrong)
    }
}

pub(crate) fn show_output_difference(output: &Output, status: i32, lines: &[String], wrong: &mut String) {
    let _ = writeln!(
        wrong,
        "{}without the pass: status {status}, output\n{}\nwith it: output\n{}",
        output.describe(),
        lines.join("\n"),
        ordinary_lines(output).join("\n")
    );
}

/// The report of verify mode: something was compared, and nothing differed; some entries were not compared only where `cut` says so.
/// Returns how much was compared.
pub(crate) fn check_report(path: &Path, cut: bool, wrong: &mut String) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut compared = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["pcce", "verify:", n, "contexts", "compared,", _, "distinct,", "0", "mismatches"] => {
                compared += n.parse().unwrap_or(0);
            }
            ["pcce", "verify:", _, "of", "them", "cut,", ..] if cut => {}
            _ => {
                let _ = writeln!(wrong, "verify report: {line}");
            }
        }
    }
    if compared == 0 {
        let _ = writeln!(wrong, "verify mode compared nothing; its report is `{text}`");
    }
    compared
}

/// The frames of each token or number.
pub(crate) struct Decoded {
    pub(crate) tokens: Vec<Vec<Frame>>,
    /// Of numbers below 2^63.
    numbers: Vec<Option<Vec<Frame>>>,
}

pub(crate) fn decode(images: &[&Path], shown: &[Shown]) -> Result<Decoded, String> {
    let fixed = |number: u64| number != 0 && number < 1 << 63;
    let mut input = String::new();
    for s in shown {
        if !s.token.is_empty() {
            let _ = writeln!(input, "{}", s.token);
        }
        if fixed(s.number) {
            let _ = writeln!(input, "{}", s.number);
        }
    }
    if let Some(s) = shown.iter().find(|s| s.token.is_empty() != (s.number == 0)) {
        return Err(format!("{}: token `{}` and number {}\n", s.name, s.token, s.number));
    }
    let mut pcce = command(artifact("pcce"), &["decode", "--format", "json"]);
    for (i, image) in images.iter().enumerate() {
        if i > 0 {
            pcce.arg("--dict");
        }
        pcce.arg(image);
    }
    let output = run_with_input(&mut pcce, &input);
    let mut lines = output.stdout.lines();
    let mut next = |text: &str| -> Result<Vec<Frame>, String> {
        let line = lines.next().ok_or_else(|| output.describe())?;
        let value: Value = serde_json::from_str(line).map_err(|e| format!("{e}: {line}"))?;
        if value["token"] != *text {
            return Err(format!("asked for {text}, got {line}"));
        }
        value["frames"]
            .as_array()
            .map(|frames| frames.iter().map(frame).collect())
            .ok_or_else(|| line.to_owned())
    };
    let mut decoded = Decoded { tokens: Vec::new(), numbers: Vec::new() };
    for s in shown {
        decoded.tokens.push(if s.token.is_empty() {
            vec![Frame { text: "<none>".to_owned(), file: None, line: None, inlined: false }]
        } else {
            next(&s.token)?
        });
        decoded.numbers.push(match fixed(s.number) {
            true => Some(next(&s.number.to_string())?),
            false => None,
        });
    }
    if output.status == 0 { Ok(decoded) } else { Err(output.describe()) }
}

fn frame(value: &Value) -> Frame {
    let function = value["function"].as_str();
    let inlined = value["inlined"] == true;
    let text = match (value["kind"].as_str().unwrap_or("no kind"), function) {
        ("call", Some(f)) if inlined => format!("inlined {f}"),
        ("call", Some(f)) => f.to_owned(),
        ("uninstrumented", f) => format!("<{}>", f.unwrap_or("?")),
        (kind, Some(f)) => format!("<{kind} {f}>"),
        (kind, None) => format!("<{kind}>"),
    };
    Frame { text, file: value["file"].as_str().map(str::to_owned), line: value["line"].as_u64(), inlined }
}

fn texts(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(|f| f.text.clone()).collect()
}

/// A chain for a message; long runs are shortened.
fn show(frames: &[String]) -> String {
    let mut out: Vec<String> = Vec::new();
    for run in frames.chunk_by(|a, b| a == b) {
        out.push(if run.len() > 1 { format!("{}*{}", run[0], run.len()) } else { run[0].clone() });
    }
    out.join(" < ")
}

fn compare(program: &Program, case: &Case, shown: &[Shown], decoded: &Decoded, wrong: &mut String) {
    let facts = case.facts();
    let debug = case.shape != "nodebug";
    let of_name =
        |name: &str| -> Vec<usize> { (0..shown.len()).filter(|&i| shown[i].name == name).collect() };
    let chains = program.chains(&facts);
    for (name, expected) in &chains {
        let indices = of_name(name);
        if indices.is_empty() || (expected.len() > 1 && expected.len() != indices.len()) {
            let _ =
                writeln!(wrong, "{name}: shown {} times, {} chains expected", indices.len(), expected.len());
            continue;
        }
        for (k, &i) in indices.iter().enumerate() {
            let expected = expected.get(k).unwrap_or(&expected[0]);
            let expected = if debug { expected.clone() } else { without_inlined(expected) };
            let found = texts(&decoded.tokens[i]);
            if !matches(&expected, &found) {
                let _ = writeln!(wrong, "{name}: expected {expected}\n{name}: found    {}", show(&found));
            }
        }
    }
    for s in shown {
        if !chains.iter().any(|(name, _)| *name == s.name) {
            let _ = writeln!(wrong, "{}: there is no Chain directive for it", s.name);
        }
    }
    for (name, expected) in program.lines().into_iter().filter(|_| debug) {
        for i in of_name(&name) {
            let found: Vec<u64> = decoded.tokens[i].iter().map(|f| f.line.unwrap_or(0)).collect();
            if found != expected {
                let _ = writeln!(wrong, "{name}: expected lines {expected:?}, found {found:?}");
            }
        }
    }
    // Where stack offsets tell contexts apart, numbers are interned.
    for name in program.fixed(&facts).into_iter().filter(|_| case.mode == "lto" && case.shape != "hybrid") {
        for i in of_name(&name) {
            if decoded.numbers[i].is_none() {
                let _ = writeln!(wrong, "{name}: its number {} is not a fixed one", shown[i].number);
            }
        }
    }
    compare_numbers(shown, decoded, wrong);
}

fn without_inlined(chain: &str) -> String {
    chain.split(" < ").filter(|word| !word.starts_with("inlined ")).collect::<Vec<_>>().join(" < ")
}

/// Numbers and tokens name the same contexts: equal tokens have equal numbers, equal numbers the same
/// callers (within a process), and a fixed number decodes to what the token decodes to.
pub(crate) fn compare_numbers(shown: &[Shown], decoded: &Decoded, wrong: &mut String) {
    let cut = |i: usize| decoded.tokens[i].last().is_some_and(|f| f.text == "<truncated>");
    let mut number_of: HashMap<(u64, &str), usize> = HashMap::new();
    let mut context_of: HashMap<(u64, u64), usize> = HashMap::new();
    // A number is that of the thread's own part, without its creation.
    let across = |s: &Shown| s.token.contains('+');
    for (i, s) in shown.iter().enumerate().filter(|(i, s)| !cut(*i) && !across(s)) {
        // From the function that shows the context outwards, inlined callees left out: a number
        // names the function, not the place in it.
        let outer = |i: usize| {
            let frames = &decoded.tokens[i];
            let start = frames.iter().position(|f| !f.inlined).unwrap_or(0);
            let mut frames = frames[start..].to_vec();
            (frames[0].file, frames[0].line) = (None, None);
            // Nor does it tell whether a tail call left what the thread began with.
            frames.pop_if(|frame| frame.text == "<tail>");
            frames
        };
        let &mut token_first = number_of.entry((s.process, &s.token)).or_insert(i);
        if shown[token_first].number != s.number {
            let _ = writeln!(
                wrong,
                "{}: one token, two numbers: {} and {}",
                s.name, shown[token_first].number, s.number
            );
        }
        let &mut number_first = context_of.entry((s.process, s.number)).or_insert(i);
        if outer(number_first) != outer(i) {
            let _ = writeln!(
                wrong,
                "number {} is that of two contexts:\n{}\n{}",
                s.number,
                show(&texts(&decoded.tokens[number_first])),
                show(&texts(&decoded.tokens[i]))
            );
        }
        if let Some(frames) = &decoded.numbers[i]
            && texts(frames) != texts(&outer(i))
        {
            let _ = writeln!(
                wrong,
                "{}: number {} decodes to {}, the token to {}",
                s.name,
                s.number,
                show(&texts(frames)),
                show(&texts(&decoded.tokens[i]))
            );
        }
    }
}
