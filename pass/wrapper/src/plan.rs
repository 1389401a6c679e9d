//! What the wrapper adds to a command line: a function from the command and the
//! facts about this machine to the compiler's arguments. It touches no file.
//!
//! | command | `--pcce-mode=lto` | `--pcce-mode=module` |
//! |---|---|---|
//! | compile (`-c`) | bitcode: `-flto` | instrumented: `-fpass-plugin` |
//! | the same with `-fno-lto` | as in module mode | `-fpass-plugin` |
//! | assembler text (`-S`) | as in module mode, since that text becomes machine code | `-fpass-plugin` |
//! | link | lld with the plugin, and the runtime | the runtime |
//! | compile and link | bitcode, then the link as above | both |
//! | preprocess, check, precompile | – | – |
//!
//! Whatever goes through the preprocessor finds `pcce.h`. What is added stands at
//! the end, where warnings about unused options are off: a build that turns those
//! into errors must not see ours.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::args::{Arguments, Mode, OwnFlags};
use crate::command::{Command, Product, UserLinker, UserLto, chooses_linker};
use crate::install::{Files, Header, SHARED_RUNTIME};

/// The environment variable that carries options to the pass: a list separated by
/// `;`. The linker reads its own options before it loads plugins, so the command
/// line cannot carry them.
pub const OPTIONS_VARIABLE: &str = "PCCE_OPTIONS";

/// What the plan depends on beside the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Where the project's files are.
    pub files: Files,
    /// The working directory, absolute.
    pub working_directory: PathBuf,
    /// [`OPTIONS_VARIABLE`] as the user set it.
    pub pass_options: Option<OsString>,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The compiler's arguments, without its name.
    pub argv: Vec<OsString>,
    /// The value for [`OPTIONS_VARIABLE`]; the environment stays as it is if none.
    pub pass_options: Option<OsString>,
    /// What the user should know, once, on standard error.
    pub notes: Vec<String>,
    /// Files of this project that the arguments name.
    pub needs: Vec<PathBuf>,
    /// The arguments let clang look for lld.
    pub needs_lld: bool,
}

/// Decides what to run.
///
/// # Errors
///
/// [`Error::SemicolonInPath`] if [`OPTIONS_VARIABLE`] cannot hold a path.
pub fn plan(arguments: Arguments, facts: &Facts) -> Result<Plan, Error> {
    let command = Command::of(&arguments.words);
    let mut plan = Plan::default();
    let mut added = Added::default();
    let mut replaces_linker = false;

    let links = command.product == Product::Image;
    let whole_program = links && arguments.own.mode == Mode::Lto;
    match compilation(arguments.own.mode, &command) {
        Compilation::Untouched => {}
        Compilation::Bitcode => added.flag("-flto"),
        Compilation::Instrumented => {
            added.path("-fpass-plugin=", &facts.files.plugin());
            plan.needs.push(facts.files.plugin());
        }
    }
    if whole_program {
        match &command.linker {
            UserLinker::Lld => {}
            UserLinker::Unset => plan.needs_lld = true,
            UserLinker::Other(name) => {
                plan.notes.push(format!(
                    "linking with lld, not with `{name}`: whole-program encoding needs it; \
                     `--pcce-mode=module` works with any linker"
                ));
                plan.needs_lld = true;
                replaces_linker = true;
            }
        }
        if plan.needs_lld {
            added.flag("-fuse-ld=lld");
        }
        added.for_linker("--load-pass-plugin=", &facts.files.plugin());
        added.flag("-Wl,--fat-lto-objects");
        plan.needs.push(facts.files.plugin());
    }
    if links {
        add_runtime(&command, &facts.files, &mut added, &mut plan.needs);
    }
    if command.preprocesses && command.product != Product::Information {
        match &facts.files.header {
            Some(Header::Own(folder)) => added.separate("-isystem", folder),
            Some(Header::Shared(folder)) => added.separate("-idirafter", folder),
            None => {}
        }
    }

    plan.argv = arguments.without(|word| replaces_linker && chooses_linker(word));
    if !added.0.is_empty() {
        plan.argv.push("--start-no-unused-arguments".into());
        plan.argv.append(&mut added.0);
        plan.argv.push("--end-no-unused-arguments".into());
    }
    plan.pass_options = pass_options(&arguments.own, &command, facts)?;
    Ok(plan)
}

/// What becomes of the sources.
enum Compilation {
    /// What clang makes of them without the wrapper, or what the user asked for.
    Untouched,
    /// Bitcode, which the link instruments.
    Bitcode,
    /// Code that the pass has seen.
    Instrumented,
}

fn compilation(mode: Mode, command: &Command) -> Compilation {
    let makes_code = matches!(command.product, Product::Assembly | Product::Object | Product::Image);
    // A link takes `-flto` too, for the target's and the optimiser's options.
    if !makes_code || !(command.compiles || command.product == Product::Image) {
        return Compilation::Untouched;
    }
    let real_assembly = command.product == Product::Assembly && !command.emits_llvm;
    match (mode, command.lto) {
        (Mode::Lto, UserLto::On) => Compilation::Untouched,
        (Mode::Lto, UserLto::Unset) if !real_assembly => Compilation::Bitcode,
        _ if command.compiles => Compilation::Instrumented,
        _ => Compilation::Untouched,
    }
}

fn add_runtime(command: &Command, files: &Files, added: &mut Added, needs: &mut Vec<PathBuf>) {
    if command.relocatable {
        return;
    }
    // A dictionary and a token name their build by this.
    if !command.build_id {
        added.flag("-Wl,--build-id");
    }
    if command.shared {
        // Found by name, so that the library records the name and not the path.
        added.separate("-L", &files.libraries);
        added.flag("-lpcce_rt");
        added.for_linker("-rpath=", &files.libraries);
        needs.push(files.libraries.join(SHARED_RUNTIME));
    } else {
        // Not as an input of its own: a `-x c` would make it a source.
        added.for_linker("", &files.archive());
        // One runtime for the process: shared libraries find the executable's.
        added.flag("-Wl,--export-dynamic-symbol=__pcce_*");
        added.flag("-Wl,--export-dynamic-symbol=pcce_*");
        needs.push(files.archive());
    }
}

/// The options of this command line after those of the user's environment.
fn pass_options(own: &OwnFlags, command: &Command, facts: &Facts) -> Result<Option<OsString>, Error> {
    let mut options: Vec<OsString> = Vec::new();
    if own.verify {
        options.push("verify".into());
    }
    for file in &own.no_callback {
        let file = facts.working_directory.join(file);
        if file.as_os_str().as_bytes().contains(&b';') {
            return Err(Error::SemicolonInPath(file));
        }
        options.push(joined("no-callback=", file.as_os_str()));
    }
    if command.product == Product::Image {
        if command.relocatable {
            options.push("relocatable".into());
        } else if command.shared {
            options.push("shared".into());
        }
    }
    if options.is_empty() {
        return Ok(None);
    }
    if let Some(users) = facts.pass_options.as_ref().filter(|users| !users.is_empty()) {
        options.insert(0, users.clone());
    }
    Ok(Some(options.join(OsStr::new(";"))))
}

fn joined(prefix: &str, rest: &OsStr) -> OsString {
    let mut joined = OsString::from(prefix);
    joined.push(rest);
    joined
}

/// The arguments that the wrapper adds.
#[derive(Default)]
struct Added(Vec<OsString>);

impl Added {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    fn path(&mut self, prefix: &str, path: &Path) {
        self.0.push(joined(prefix, path.as_os_str()));
    }

    fn separate(&mut self, flag: &str, path: &Path) {
        self.flag(flag);
        self.path("", path);
    }

    /// As a word for the linker. `-Wl,` would split a path at its commas.
    fn for_linker(&mut self, prefix: &str, path: &Path) {
        self.flag("-Xlinker");
        self.path(prefix, path);
    }
}
