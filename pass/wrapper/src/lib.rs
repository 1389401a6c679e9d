//! The wrapper compilers `pcce-clang` and `pcce-clang++`: clang with calling
//! context encoding, so that `CC=pcce-clang ./configure && make` instruments
//! an existing program.
//!
//! A run has four steps, each in a module of its own:
//!
//! 1. [`args`] opens response files and takes the wrapper's own flags out;
//! 2. [`command`] finds out what the rest asks clang to do;
//! 3. [`plan`] decides what to add, as a function from values to a value;
//! 4. [`install`] finds clang, the plugin and the runtime on this machine.
//!
//! Then the compiler replaces this process: signals, exit status and standard streams are clang's own, and
//! nothing runs after it. The wrapper reads response files, headers of a link's inputs and, for [`thin_lto`],
//! the files that a link's encoding depends on; it never changes an input.

#[cfg(not(unix))]
compile_error!("pcce-clang replaces itself with clang by exec(), which only Unix has");

pub mod again;
pub mod args;
pub mod command;
pub mod generate;
pub mod inputs;
pub mod install;
mod mode;
pub mod plan;
pub mod recorded;
mod target;
pub mod thin_lto;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use pcce_options::PassOptions;
use plan::{Facts, Plan};

/// The compiler that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `pcce-clang`, which runs `clang`.
    C,
    /// `pcce-clang++`, which runs `clang++`.
    Cxx,
}

impl Language {
    /// The name of the wrapper, as messages show it.
    pub fn wrapper_name(self) -> &'static str {
        match self {
            Language::C => "pcce-clang",
            Language::Cxx => "pcce-clang++",
        }
    }

    /// The name of the compiler without its version.
    fn compiler_name(self) -> &'static str {
        match self {
            Language::C => "clang",
            Language::Cxx => "clang++",
        }
    }
}

/// A reason why the compiler was not run. Each message names the cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The wrapper's own flags.
    #[error(transparent)]
    Flags(#[from] pcce_options::Error),
    /// `--pcce-launch` without a compiler after it.
    #[error(
        "`--pcce-launch` needs a command behind it that runs clang, as `--pcce-launch ccache clang-{version} -c a.c`",
        version = pcce_options::llvm()
    )]
    NothingToLaunch,
    /// A heap profile of a program without shared libraries.
    #[error(
        "`--pcce-heap` needs a dynamic executable: glibc's allocator cannot be replaced in a static one; leave out `-static`"
    )]
    StaticHeap,
    /// Functions of the unwinder cannot be replaced in a static program.
    #[error(
        "--pcce-thrown needs a dynamic executable, since it replaces functions of the unwinder: leave out `-static`"
    )]
    StaticThrown,
    /// A program that the runtime cannot be in.
    #[error(
        "the program is linked or started without the C library (`{0}`), which the runtime needs; build it and its \
         objects with clang, or link the C library (`-lc`; if it is static, with `crt1.o`)"
    )]
    NoLibc(&'static str),
    /// A heap profile of a program that has another allocator.
    #[error(
        "`--pcce-heap` and `{0}` each replace the allocator: the sanitizer would find nothing on the heap any more. Build the program once \
         with the one, and once with the other"
    )]
    HeapAndSanitizer(String),
    /// Code that requests thread-local variables from the compiler's library does not find the runtime's.
    #[error(
        "instrumented code finds its state as a thread-local variable of ELF; leave out `-femulated-tls`, which makes variables \
         of another kind"
    )]
    EmulatedTls,
    /// A link with inputs that only a link in lto mode instruments is in another mode.
    #[error(
        "`{file}` holds bitcode, which a link in lto mode instruments, and a link in {mode} mode would leave without \
         instrumentation; compile it with `--pcce-mode={mode}`, and without `-emit-llvm`, or link with \
         `--pcce-mode=lto`. If it is to stay without: `objcopy --remove-section=.llvm.lto` takes the bitcode out of a file that has machine code, too",
        file = .file.display()
    )]
    BitcodeWithoutLto {
        file: PathBuf,
        /// The mode of the link.
        mode: &'static str,
    },
    /// A link in lto mode has objects that only a link in link mode instruments.
    #[error(
        "`{file}` was compiled in link mode, and this link is in lto mode, by its flags (`--pcce-trace`, `--pcce-targets`, \
         `-flto`) or other inputs; give the compiler and the link the same flags",
        file = .file.display()
    )]
    SkeletonInLto { file: PathBuf },
    /// The compiler's second half would see the skeleton.
    #[error(
        "`-fembed-bitcode` does not go together with link mode, whose objects have bitcode of their own; leave it out, or use \
         `--pcce-mode=module`"
    )]
    EmbeddedBitcode,
    /// Linkers change the code of functions with split stacks.
    #[error(
        "`-fsplit-stack` does not go together with link mode: linkers change the code of functions with split stacks, and link mode \
         lets none change what it has generated; leave it out, or use `--pcce-mode=module`"
    )]
    SplitStack,
    /// There is no clang of the version that the plugin was built for.
    #[error(
        "`{name}-{llvm}` is neither in PATH nor in {bin}; install it, on Debian with `apt-get install clang-{llvm} lld-{llvm}`",
        bin = install::llvm_bin(*llvm).display()
    )]
    NoCompiler {
        /// The name of the executable, without the version.
        name: String,
        /// Its LLVM.
        llvm: u32,
    },
    /// A link of bitcode that this LLVM's linker cannot read.
    #[error(
        "`{file}` holds bitcode of LLVM {found}, which lld {llvm} cannot read (for Rust, `rustc -vV` tells its LLVM); install PCCE for LLVM {found} beside this one \
         (`make install LLVM={found}` in the source tree), and clang-{found} and lld-{found}: the wrapper then takes them for \
         such links by itself",
        file = .file.display()
    )]
    NewerBitcode {
        file: PathBuf,
        /// The LLVM that wrote the bitcode.
        found: u32,
        /// The LLVM that was to read it.
        llvm: u32,
    },
    /// Whole-program builds need lld, and there is none.
    #[error(
        "`ld.lld`, which bitcode is linked with (lto mode, `-flto`), is neither beside clang nor in PATH; install it, on \
         Debian with `apt-get install lld-{0}`, or use `--pcce-mode=link`, without `-flto`"
    )]
    NoLld(u32),
    /// A part of this project is missing.
    #[error(
        "`{file}` is missing; `make build{}` makes it",
        target.as_ref().map(|target| format!(" TARGET={target}")).unwrap_or_default(),
        file = .file.display()
    )]
    MissingFile {
        file: PathBuf,
        /// The machine for which the program is, if it is not this one.
        target: Option<String>,
    },
    /// The operating system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// Runs the wrapper with this process's arguments. Returns only when no
/// compiler was run: after `--pcce-help`, or with a failure.
pub fn main(language: Language) -> ExitCode {
    match run(language) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("{}: error: {error}", language.wrapper_name());
            ExitCode::FAILURE
        }
    }
}

fn run(language: Language) -> Result<ExitCode, Error> {
    let mut words: Vec<OsString> = env::args_os().skip(1).collect();
    let launched = take_launched(&mut words)?;
    let arguments = args::parse(words, |path| fs::read(path).ok())?;
    if arguments.own.help {
        // A reader that closes a pipe early has read enough.
        let help = pcce_options::wrapper_help(language.wrapper_name());
        let _ = io::stdout().write_all(help.as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let system = |what: &str| {
        let what = what.to_owned();
        move |source| Error::System { what, source }
    };
    let executable = env::current_exe()
        .and_then(fs::canonicalize)
        .map_err(system("cannot tell where this executable is"))?;
    let links = command::Command::of(&arguments.words).product == command::Product::Image;
    let inputs = if links { inputs::of(&arguments.words) } else { inputs::Inputs::default() };
    let target = target::Target::of(&arguments.words);
    let files = |llvm| {
        let files = install::Files::beside(&executable, llvm, |path| path.exists());
        match &target {
            Some(target) => files.for_target(&target.folder()),
            None => files,
        }
    };
    let may_choose = launched.is_none() && arguments.own.llvm.is_none();
    let has_plugin = |llvm| may_choose && files(llvm).plugin.exists();
    let llvm = llvm_for(&inputs.bitcode, arguments.own.llvm.unwrap_or(pcce_options::llvm()), has_plugin)?;
    let command = match launched {
        Some(command) => command,
        None => {
            vec![
                install::find_compiler(language.compiler_name(), llvm, env::var_os("PATH").as_deref())?
                    .into_os_string(),
            ]
        }
    };
    if arguments.words.iter().any(|word| word.role == args::Role::Option && word.bytes() == b"--version") {
        return version(&command, &arguments, llvm);
    }
    let compiler = command.last().map(PathBuf::from).unwrap_or_default();
    let facts = Facts {
        inputs,
        files: files(llvm),
        working_directory: env::current_dir().map_err(system("cannot tell the working directory"))?,
        pass_options: env::var_os(pcce_options::VARIABLE),
    };
    let words = arguments.words.clone();
    let mut plan = plan::plan(arguments, &facts)?;
    if let Some(missing) = plan.needs.iter().find(|path| !path.exists()) {
        let target = target.filter(|_| missing.starts_with(&facts.files.libraries));
        return Err(Error::MissingFile {
            file: missing.clone(),
            target: target.map(|target| target.folder()),
        });
    }
    if plan.needs_lld && !install::has_lld(&compiler, llvm, env::var_os("PATH").as_deref()) {
        return Err(Error::NoLld(llvm));
    }
    for note in &plan.notes {
        eprintln!("{}: note: {note}", language.wrapper_name());
    }
    let options = plan.pass_options.clone().or(facts.pass_options).unwrap_or_default();
    // The pass reports wrong options.
    let files = PassOptions::read([&*options.to_string_lossy()]).unwrap_or_default().files;
    if plan.encodes_link {
        say_what_takes_long(language, &facts.inputs.bitcode, &plan.output);
        // Programs that are encoded between two links have keys of their own.
        if plan.linker.is_none() {
            let key = thin_lto::key(&facts.files.plugin, &options, &files, "");
            plan.argv.push([OsStr::new("-Wl,-mllvm,"), &key].into_iter().collect());
        }
    }
    let mut variables: Vec<(&str, OsString)> = Vec::new();
    if plan.captures {
        let options = options.to_string_lossy().replace(";capture", "").replace("capture", "");
        // A linker that compiles makes several objects, and the objects of a command that also links have random names.
        let output = match plan.encodes_link || plan.linker.is_some() {
            true if plan.output.is_absolute() && !plan.encodes_link => Path::new("/"),
            true => Path::new(""),
            false => &*plan.output,
        };
        let recorded = recorded::record(&words, &compiler, llvm, &options, &facts.working_directory, output);
        let recorded = serde_json::to_string(&recorded).expect("text serialises");
        variables.push((pcce_options::COMMAND_VARIABLE, recorded.into()));
        let inputs = words.iter().filter(|word| word.role == args::Role::Input).map(|word| word.bytes());
        if inputs.clone().collect::<HashSet<_>>().len() < inputs.count() {
            variables.push((pcce_options::REPEATED_VARIABLE, "1".into()));
        }
    }
    if let Some(name) = &plan.linker {
        variables.push((pcce_options::ASKED_VARIABLE, plan.asked_for.join(";").into()));
        variables.extend(plan.keep.take().map(|place| (pcce_linker::keep::VARIABLE, place.into())));
        variables.push((
            "PCCE_LINKER",
            real_linker(&command, target.as_ref(), name).map_err(system("cannot find the linker"))?,
        ));
    }
    let source = process(&command, plan, files).envs(variables).exec();
    Err(Error::System { what: format!("cannot run `{}`", Path::new(&command[0]).display()), source })
}

/// The path at which the compiler finds the linker of this name. A path stays as it is.
fn real_linker(
    command: &[OsString],
    target: Option<&target::Target>,
    name: &OsString,
) -> io::Result<OsString> {
    if Path::new(name).is_absolute() {
        return Ok(name.clone());
    }
    let mut flag = OsString::from("-print-prog-name=");
    flag.push(name);
    let target = target.map(target::Target::option);
    let output = Command::new(&command[0]).args(&command[1..]).args(target).arg(flag).output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    if text.starts_with('/') {
        return Ok(text.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(&text)).find(|file| file.exists());
    found.map(PathBuf::into_os_string).ok_or_else(|| io::Error::other(format!("`{text}` is not in PATH")))
}

/// The size in bytes of objects with bitcode from which encoding takes seconds.
const LARGE: u64 = 8 << 20;

/// Explains on a terminal why a link takes long. A log file gets no such line.
fn say_what_takes_long(language: Language, bitcode: &[inputs::Bitcode], output: &Path) {
    let size = |file: &inputs::Bitcode| fs::metadata(&file.file).map_or(0, |data| data.len());
    let bytes: u64 = bitcode.iter().map(size).sum();
    if bytes >= LARGE && io::stderr().is_terminal() {
        let (name, output, files) = (language.wrapper_name(), output.display(), bitcode.len());
        eprintln!("{name}: encoding {output} as a whole: {files} files, {} MB", bytes >> 20);
    }
}

/// The LLVM for a link: the requested one, or the one that wrote the newest bitcode, if its plugin is
/// installed.
fn llvm_for(bitcode: &[inputs::Bitcode], asked: u32, has_plugin: impl Fn(u32) -> bool) -> Result<u32, Error> {
    match bitcode.iter().max_by_key(|file| file.llvm) {
        Some(inputs::Bitcode { file, llvm: Some(found) }) if *found > asked => {
            if has_plugin(*found) {
                return Ok(*found);
            }
            Err(Error::NewerBitcode { file: file.clone(), found: *found, llvm: asked })
        }
        _ => Ok(asked),
    }
}

/// Prints clang's version, and ours after it: build systems look at the first lines.
fn version(command: &[OsString], arguments: &args::Arguments, llvm: u32) -> Result<ExitCode, Error> {
    let status = Command::new(&command[0]).args(&command[1..]).args(arguments.plain()).status();
    let status = status.map_err(|source| Error::System {
        what: format!("cannot run `{}`", Path::new(&command[0]).display()),
        source,
    })?;
    let release = env!("CARGO_PKG_VERSION");
    let _ = writeln!(io::stdout(), "PCCE {release}, with the pass for LLVM {}", llvm);
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Takes `--pcce-launch` and the command after it, up to the compiler, out of the arguments.
fn take_launched(words: &mut Vec<OsString>) -> Result<Option<Vec<OsString>>, Error> {
    let Some(flag) = words.iter().position(|word| word == "--pcce-launch") else { return Ok(None) };
    let is_clang = |word: &OsString| {
        Path::new(word).file_name().is_some_and(|name| name.as_bytes().starts_with(b"clang"))
    };
    let length = words[flag..].iter().position(is_clang).ok_or(Error::NothingToLaunch)?;
    Ok(Some(words.drain(flag..=flag + length).skip(1).collect()))
}

/// The compiler's process, started through a command whose last word is the compiler.
fn process(words: &[OsString], plan: Plan, lists: Vec<PathBuf>) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(plan.argv);
    if words.len() > 1 {
        // ccache does not see the inputs of the pass besides the arguments.
        let files = env::var_os("CCACHE_EXTRAFILES");
        let files = files.iter().flat_map(env::split_paths).chain(plan.needs).chain(lists);
        if let Ok(files) = env::join_paths(files)
            && !files.is_empty()
        {
            command.env("CCACHE_EXTRAFILES", files);
        }
        if let Some(options) = &plan.pass_options {
            command.env("CCACHE_NAMESPACE", options);
        }
    }
    if let Some(options) = plan.pass_options {
        command.env(pcce_options::VARIABLE, options);
    }
    command
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn the_newest_bitcode_decides_where_its_plugin_is() {
        let files = |versions: &[Option<u32>]| -> Vec<inputs::Bitcode> {
            versions.iter().map(|llvm| inputs::Bitcode { file: "a.o".into(), llvm: *llvm }).collect()
        };
        for (versions, installed, expected) in [
            (&[][..], &[22][..], Some(19)),
            (&[Some(19), None, Some(14)], &[22], Some(19)),
            (&[Some(19), Some(22), None], &[22], Some(22)),
            (&[Some(22)], &[], None),
            (&[Some(22), Some(23)], &[22], None),
        ] {
            let chosen = llvm_for(&files(versions), 19, |llvm| installed.contains(&llvm));
            assert_eq!(chosen.ok(), expected, "{versions:?}, {installed:?}");
        }
    }

    #[test]
    fn a_launched_command_ends_with_the_compiler() {
        let take = |line: &str| {
            let mut words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            take_launched(&mut words).map(|command| {
                let command = command.map(|command| command.join(OsStr::new(" ")).into_string().unwrap());
                (command, words.join(OsStr::new(" ")).into_string().unwrap())
            })
        };
        for (line, command, rest) in [
            ("-c clang.c", None, "-c clang.c"),
            (
                "--pcce-verify --pcce-launch /b/clang-19 -c clang.c",
                Some("/b/clang-19"),
                "--pcce-verify -c clang.c",
            ),
            (
                "--pcce-launch env A=b ccache /c/clang++ a.o -o x",
                Some("env A=b ccache /c/clang++"),
                "a.o -o x",
            ),
        ] {
            assert_eq!(take(line).unwrap(), (command.map(str::to_owned), rest.to_owned()), "{line}");
        }
        assert!(matches!(take("--pcce-launch gcc -c a.c"), Err(Error::NothingToLaunch)));
    }
}
