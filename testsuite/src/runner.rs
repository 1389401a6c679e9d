//! Builds a test program in all its variants, runs it, and compares its output with its directives.

mod build;
mod check;
mod emulated;
mod stepped;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::build::ordinary_lines;
use self::build::run_plain;
pub(crate) use self::build::shown_lines;
use self::check::check_case;
pub(crate) use self::check::{check_report, compare_numbers, decode, show_output_difference};
pub use self::emulated::{AARCH64, Emulated, command_on};
pub use self::stepped::step;
use crate::directives::Program;
use crate::turns::all_cases;
use crate::{command, run_within, work_folder};

/// Shapes of an executable, with the flags that make them.
const SHAPES: [(&str, &[&str]); 5] = [
    ("nodebug", &["-g0"]),
    ("no-pie", &["-fno-pie", "-no-pie"]),
    ("pie", &["-fPIE", "-pie"]),
    ("static", &["-static"]),
    ("static-pie", &["-fPIE", "-static-pie"]),
];

/// Shapes of executables of link mode whose code could be for a library, too.
const PIC: [(&str, &[&str]); 2] =
    [("pic", &["-fPIC"]), ("pic-no-pie", &["-fPIC", "-no-pie", "-Wno-unused-command-line-argument"])];

/// Time limit of a compilation: long, since soak runs with the lowest priority.
const COMPILE_LIMIT: Duration = Duration::from_secs(1800);

/// A way of building a program.
#[derive(Clone, Debug)]
struct Case {
    mode: String,
    level: String,
    verify: bool,
    shape: &'static str,
    flags: Vec<String>,
    /// The machine, if it is another than this one.
    on: Option<&'static Emulated>,
}

impl Case {
    /// The facts that conditions of directives ask for.
    fn facts(&self) -> Vec<String> {
        let mut facts = vec![self.mode.clone(), self.level.clone(), self.shape.to_owned()];
        if self.verify {
            facts.push("verify".to_owned());
        }
        facts.extend(self.on.map(|machine| machine.name.to_owned()));
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

/// A line of the output with a context.
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) token: String,
    /// 0 without a context.
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
/// With all errors, each with its case and the command that showed it.
pub fn check(path: &Path) {
    let program = Program::read(path);
    check_cases(&program, None, cases(&program));
}

/// Runs a program of `programs/` on another machine: in all its variants if all cases are requested ([`all_cases`]),
/// else in one of each mode.
///
/// # Panics
/// As [`check`].
pub fn check_emulated(path: &Path, machine: &'static Emulated) {
    let program = Program::read(path);
    let mut cases = cases(&program);
    if !all_cases() {
        let turn = program.name.len();
        let of_mode = |mode: &String| {
            let own: Vec<Case> = cases.iter().filter(|case| case.mode == *mode).cloned().collect();
            own.get(turn % own.len().max(1)).cloned()
        };
        cases = program.modes().iter().filter_map(of_mode).collect();
    }
    cases.iter_mut().for_each(|case| case.on = Some(machine));
    check_cases(&program, Some(machine), cases);
}

fn check_cases(program: &Program, on: Option<&'static Emulated>, cases: Vec<Case>) {
    let kind = on.map_or("programs".to_owned(), |machine| format!("programs-{}", machine.name));
    let folder = work_folder(&format!("{kind}/{}", program.name));
    // Errors, with the cases in which they occur.
    let mut failures: Vec<(String, Vec<String>)> = Vec::new();
    let mut plain: HashMap<String, (Vec<String>, i32)> = HashMap::new();
    for case in cases {
        let facts = case.facts();
        let expected = plain.entry(case.level.clone()).or_insert_with(|| {
            let output = run_plain(program, &case.level, on, &folder);
            (ordinary_lines(&output), output.status)
        });
        let found = check_case(program, &case, expected, &folder);
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

/// The cases of a program. Over all programs, any two of mode, level, shape and verify mode come together.
///
/// Each program is built in link mode at every second level. Of the other modes, one level takes its turn; of the
/// shapes of each group ([`groups`]), one shape in one mode. Turns differ from program to program, and so does verify
/// mode. If all cases are requested ([`all_cases`]), nothing takes turns.
fn cases(program: &Program) -> Vec<Case> {
    let all = all_cases();
    let turn = program.name.bytes().fold(0, |sum, byte| sum + usize::from(byte));
    let mut cases = Vec::new();
    // Adds the builds of one mode, level and shape.
    let mut add = |mode: &str, level: &str, shape: &'static str, flags: &[&str]| {
        let with = (turn + cases.len()) % 2 == 1;
        let flags: Vec<String> = ["-g"].iter().chain(flags).map(|&flag| flag.to_owned()).collect();
        for verify in [false, true].into_iter().filter(|&verify| all || verify == with) {
            let (mode, level, flags) = (mode.to_owned(), level.to_owned(), flags.clone());
            cases.push(Case { mode, level, verify, shape, flags, on: None });
        }
    };
    let levels = program.levels();
    for (m, mode) in program.modes().iter().enumerate() {
        for (l, level) in levels.iter().enumerate() {
            let (every, first) =
                if mode == "link" { (levels.len().min(2), turn / 2) } else { (levels.len(), turn + m) };
            if all || (first + l) % every == 0 {
                add(mode, level, "", &[]);
            }
        }
    }
    for group in groups(program) {
        for (n, (mode, shape, flags)) in group.iter().enumerate() {
            if all || turn % group.len() == n {
                add(mode, "-O2", shape, flags);
            }
        }
    }
    cases
}

/// A shape of an executable in a mode, with the flags that make it.
type Shaped = (String, &'static str, &'static [&'static str]);

/// The shapes in which a program is built, in groups whose members take turns.
fn groups(program: &Program) -> Vec<Vec<Shaped>> {
    let modes = program.modes();
    let of = |shapes: &[(&'static str, &'static [&'static str])], in_modes: &[&str]| -> Vec<Shaped> {
        let modes = modes.iter().filter(|mode| in_modes.contains(&mode.as_str()));
        modes.flat_map(|mode| shapes.iter().map(|&(shape, flags)| (mode.clone(), shape, flags))).collect()
    };
    let mut of_all = of(&PIC, &["link"]);
    // ThinLTO does not support it.
    if !program.flags(&[]).iter().any(|flag| flag == "-flto=thin") {
        of_all.extend(of(&[("hybrid", &[build::HYBRID])], &["lto", "link"]));
    }
    let mut groups = vec![of_all];
    if program.has_shapes() {
        groups.extend(SHAPES.iter().map(|shape| of(&[*shape], &["lto", "module", "link"])));
    }
    groups.retain(|group| !group.is_empty());
    groups
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
            let mut flags = [flags, &own, &arguments].concat();
            if own.iter().any(|flag| flag == "--pcce-mode=module") {
                flags.retain(|flag| flag != build::HYBRID);
            }
            build_with(compiler, &flags)?;
            *input = object;
        }
    }
    build_with(compiler, &[flags, &inputs, link, &["-o".into(), text(output)]].concat())
}
