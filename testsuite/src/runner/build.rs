//! Builds a test program and its libraries.
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Case, Emulated, Shown, command_on, compile};
use crate::directives::{Loading, Program};
use crate::{Output, artifact, llvm, repository, run};

/// The compiler, the wrapper or clang itself, and the flags of both.
fn compiler(program: &Program, instrumented: bool) -> PathBuf {
    match (instrumented, program.is_cxx()) {
        (true, false) => artifact("pcce-clang"),
        (true, true) => artifact("pcce-clang++"),
        (false, false) => llvm("clang"),
        (false, true) => llvm("clang++"),
    }
}

/// The files that were built for a program.
pub(super) struct Built {
    pub(super) path: PathBuf,
    /// Its shared libraries, in the order of [`Program::libraries`].
    pub(super) libraries: Vec<PathBuf>,
    on: Option<&'static Emulated>,
}

impl Built {
    /// The command that runs it.
    pub(super) fn command(&self, program: &Program) -> Command {
        let of = |loading| {
            let all = program.libraries().into_iter().zip(&self.libraries);
            all.filter(move |(l, _)| l.loading == loading).map(|(_, path)| path.as_os_str())
        };
        let preloaded: Vec<&OsStr> = of(Loading::Preloaded).collect();
        let variables = [("LD_PRELOAD", preloaded.join(OsStr::new(":")))];
        let variables = if preloaded.is_empty() { &[][..] } else { &variables };
        let mut command = command_on(self.on, &self.path, variables);
        command.args(of(Loading::Loaded));
        command
    }
}

/// An option that only executables of lto and link mode have.
pub(crate) const HYBRID: &str = "--pcce-hybrid";

/// Builds the program and its libraries into `folder`, instrumented as `case` says, or plain without one.
pub(super) fn build(
    program: &Program,
    level: &str,
    case: Option<&Case>,
    on: Option<&'static Emulated>,
    folder: &Path,
) -> Result<Built, String> {
    // The header's folder is named, since the wrapper finds it only if the target folder is in the repository.
    let include = format!("-I{}", repository().join("runtime-lib/include").display());
    let common = [level, "-Wall", "-Werror", "-pthread", &include].map(str::to_owned);
    let facts = case.map_or(vec!["plain".to_owned(), level.to_owned()], Case::facts);
    let target: Vec<String> = on.map(Emulated::flag).into_iter().collect();
    let common = [&target[..], &common, &program.flags(&facts)].concat();
    let artifact = |name: &str| on.map_or_else(|| artifact(name), |machine| machine.artifact(name));
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
        let mut own = case.map_or(vec!["-g".into()], own);
        // The wrapper refuses this option for a library.
        own.retain(|flag| flag != HYBRID);
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
        // The process has no other runtime than that of the instrumented library.
        (Some(_), None) => {
            let folder =
                artifact("libpcce_rt.so").parent().expect("a file in a folder").display().to_string();
            // A program that does not call the runtime gets it with a library that it loads.
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
    Ok(Built { path, libraries, on })
}

pub(super) fn run_plain(
    program: &Program,
    level: &str,
    on: Option<&'static Emulated>,
    folder: &Path,
) -> Output {
    let built = build(program, level, None, on, folder).unwrap_or_else(|e| panic!("{e}"));
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
