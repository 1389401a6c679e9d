//! The additions of the wrapper to a command line: a function from the command and the facts about this
//! machine to the compiler's arguments. It touches no file.
//!
//! | command | in lto mode | in module mode, link mode |
//! |---|---|---|
//! | compile (`-c`) | bitcode, in an object file that `nm` and `ar` understand | instrumented: `-fpass-plugin` |
//! | the same with `-fno-lto` | as in module mode | `-fpass-plugin` |
//! | assembler text (`-S`) | as in module mode, since that text becomes machine code | `-fpass-plugin` |
//! | link | lld with the plugin, and the runtime | the runtime; in link mode `pcce-ld` is the linker |
//! | compile and link | bitcode, then the link as above | both |
//! | preprocess, check, precompile | – | – |
//! | `-flto` given by the user | kept as given | taken back; in link mode as in lto mode |
//! | `-flto=thin`, link mode | | bitcode, and `pcce-ld` with lld and the plugin |
//!
//! Every input that goes through the preprocessor finds `pcce.h`. The additions come at the end, where
//! warnings about unused options are off: a build that turns those into errors must not see ours.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pcce_abi::exports;
use pcce_options::{Mode, PassOptions, WrapperFlags};

use crate::Error;
use crate::args::{Arguments, Role, Word};
use crate::command::{Command, Product, UserLinker, UserLto, chooses_linker};
use crate::inputs::Inputs;
use crate::install::{Files, Header, SHARED_RUNTIME, SHARED_TRACER};
use crate::mode;

/// The inputs of the plan besides the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The places of the project's files.
    pub files: Files,
    /// The working directory, absolute.
    pub working_directory: PathBuf,
    /// [`pcce_options::VARIABLE`] as the user set it.
    pub pass_options: Option<OsString>,
    /// The contents of a link's inputs.
    pub inputs: Inputs,
}

/// The command to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The compiler's arguments, without its name.
    pub argv: Vec<OsString>,
    /// The value of [`pcce_options::VARIABLE`]; if none, the environment stays as it is.
    pub pass_options: Option<OsString>,
    /// A message for the user on standard error.
    pub notes: Vec<String>,
    /// Files of this project that the arguments name.
    pub needs: Vec<PathBuf>,
    /// The arguments let clang look for lld.
    pub needs_lld: bool,
    /// The pass runs in the link.
    pub encodes_link: bool,
    /// The file that the command writes.
    pub output: PathBuf,
    /// The code of the compilation is generated at the link, so its command must be recorded.
    pub captures: bool,
    /// For a link through `pcce-ld`: the user's linker, as clang names it.
    pub linker: Option<OsString>,
    /// The place for the link's kept inputs.
    pub keep: Option<PathBuf>,
    /// The link's options of the pass that all its inputs must have been compiled with.
    pub asked_for: Vec<String>,
}

/// Decides what to run.
///
/// # Errors
///
/// [`pcce_options::Error::Semicolon`] if [`pcce_options::VARIABLE`] cannot hold a path; flags that do not go
/// with instrumented code.
pub fn plan(arguments: Arguments, facts: &Facts) -> Result<Plan, Error> {
    let command = Command::of(&arguments.words);
    let mut plan = Plan::default();
    let mut added = Added::default();
    let mut replaces_linker = false;

    let links = command.product == Product::Image;
    let list = facts.pass_options.as_deref().unwrap_or_default().to_string_lossy();
    let mode = mode::of(&command, &arguments.own, &facts.inputs, &list);
    if command.product != Product::Information {
        // The pass reports wrong options.
        let list = PassOptions::read([&*list]).unwrap_or_default();
        // With ThinLTO, lto mode encodes each file by itself. No mode sees the frames of such code.
        let thin = command.lto == UserLto::Thin;
        let hybrid = arguments.own.common.hybrid || list.common.hybrid;
        let by_module = thin && (mode == Mode::Lto || mode == Mode::Link && hybrid);
        arguments.own.check_used(&list, if by_module { Mode::Module } else { mode })?;
    }
    let makes = !matches!(command.product, Product::Information | Product::NoCode);
    if command.emulated_tls && makes {
        return Err(Error::EmulatedTls);
    }
    let output = output(&arguments.words);
    plan.output = output.clone().unwrap_or_else(|| "a.out".into());
    if mode == Mode::Link && command.compiles && command.embeds_bitcode {
        return Err(Error::EmbeddedBitcode);
    }
    if mode == Mode::Link && command.compiles && command.splits_stack {
        return Err(Error::SplitStack);
    }
    let whole_program = links && mode == Mode::Lto;
    // The linker generates the code, so the pass runs there, in each module.
    let thin = links && mode == Mode::Link && command.lto == UserLto::Thin;
    let linker_compiles = whole_program || thin;
    if let Some(file) = facts.inputs.bitcode.first().filter(|_| links && !linker_compiles) {
        return Err(Error::BitcodeWithoutLto { file: file.file.clone(), mode: mode.name() });
    }
    if let Some(file) = facts.inputs.skeleton.clone().filter(|_| links && mode == Mode::Lto) {
        return Err(Error::SkeletonInLto { file });
    }
    if mode == Mode::Module && matches!(command.lto, UserLto::Full | UserLto::Thin) {
        // The pass instruments the code during compilation. The note comes once for each program, at the
        // link: configure scripts take words on standard error for warnings.
        added.flag("-fno-lto");
        command.needs_lto.iter().for_each(|opposite| added.flag(opposite));
        if links {
            plan.notes.push("`--pcce-mode=module` takes back `-flto`; leave the mode out for it".into());
        }
    }
    match compilation(mode, &command) {
        Compilation::Untouched => {}
        Compilation::Bitcode => {
            added.flag("-flto");
            if let Some(file) = output_of_llvm(&arguments.words, &command).filter(|_| output.is_none()) {
                added.separate("-o", &file);
            }
            // Builds examine object files with tools that cannot read bitcode: configure scripts and libtool
            // with `nm`, and `ar` writes an index. They get machine code to look at; the link uses the
            // bitcode beside it.
            if command.product == Product::Object && !command.emits_llvm && !command.fat_objects {
                added.flag("-ffat-lto-objects");
            }
        }
        Compilation::Instrumented => {
            added.path("-fpass-plugin=", &facts.files.plugin);
            plan.needs.push(facts.files.plugin.clone());
        }
    }
    if linker_compiles {
        match &command.linker {
            UserLinker::Lld(_) => {}
            UserLinker::Unset => plan.needs_lld = true,
            UserLinker::Other(file) => {
                plan.notes.push(format!(
                    "linking with lld, not with `{file}`: {} needs it; `--pcce-mode=link`, without `-flto`, works with any linker",
                    if thin { "instrumenting in the link" } else { "whole-program encoding" }
                ));
                plan.needs_lld = true;
                replaces_linker = true;
            }
        }
        if plan.needs_lld {
            added.flag("-fuse-ld=lld");
            // Some things are errors for lld, but not for the linker that it replaces.
            if !command.no_undefined_version {
                added.flag("-Wl,--undefined-version");
            }
        }
        added.for_linker("--load-pass-plugin=", &facts.files.plugin);
        // Machine code beside bitcode is not instrumented.
        added.flag("-Wl,--fat-lto-objects");
        plan.needs.push(facts.files.plugin.clone());
        plan.encodes_link = true;
    }
    plan.captures = mode == Mode::Link && matches!(command.product, Product::Object | Product::Image);
    // The link writes split debug information; here its file would be empty.
    let splits_later =
        plan.captures && command.compiles && command.split_dwarf && command.lto != UserLto::Thin;
    if links && mode == Mode::Link {
        plan.linker = Some(match &command.linker {
            UserLinker::Lld(file) => file.into(),
            _ if thin => "ld.lld".into(),
            UserLinker::Unset => "ld".into(),
            UserLinker::Other(file) => file.into(),
        });
        added.path("--ld-path=", &facts.files.linker);
        plan.keep.clone_from(&arguments.own.keep);
        plan.needs.push(facts.files.linker.clone());
    } else if links && command.folds {
        // If functions are folded, the active one is not known. In link mode `pcce-ld` leaves the flag out.
        added.flag("-Wl,--icf=none");
    }
    if links {
        if let Some(option) = command.without_libc.filter(|_| !command.shared && !command.relocatable) {
            return Err(Error::NoLibc(option));
        }
        if arguments.own.heap && command.r#static && !command.relocatable {
            return Err(Error::StaticHeap);
        }
        if arguments.own.thrown && command.r#static && !command.relocatable {
            return Err(Error::StaticThrown);
        }
        if let Some(sanitizer) = command.allocator.as_ref().filter(|_| arguments.own.heap) {
            return Err(Error::HeapAndSanitizer(sanitizer.clone()));
        }
        add_runtime(&command, &arguments, facts, &mut added, &mut plan.needs);
    }
    if command.preprocesses && command.product != Product::Information {
        match &facts.files.header {
            Some(Header::Own(folder)) => added.separate("-isystem", folder),
            Some(Header::Shared(folder)) => added.separate("-idirafter", folder),
            None => {}
        }
    }

    if links && mode == Mode::Link {
        plan.asked_for = arguments.own.names();
        plan.asked_for.extend(arguments.own.heap.then(|| "heap".to_owned()));
    }
    plan.argv = arguments.with(|index| match &arguments.words[index] {
        word if replaces_linker && chooses_linker(word) => None,
        word if splits_later && is_split_dwarf(word) => None,
        word => Some(word.text.clone()),
    });
    if splits_later {
        // Options that `-gsplit-dwarf` implies, unless a later word overrides them.
        let pubnames = ["--start-no-unused-arguments", "-ggnu-pubnames", "--end-no-unused-arguments"];
        plan.argv.splice(0..0, pubnames.map(Into::into));
    }
    if !added.0.is_empty() {
        plan.argv.push("--start-no-unused-arguments".into());
        plan.argv.append(&mut added.0);
        plan.argv.push("--end-no-unused-arguments".into());
    }
    plan.pass_options = pass_options(&arguments.own, mode, &command, facts)?;
    Ok(plan)
}

fn is_split_dwarf(word: &Word) -> bool {
    word.role == Role::Option && word.bytes().starts_with(b"-gsplit-dwarf")
}

/// The file of the last `-o`.
fn output(words: &[Word]) -> Option<PathBuf> {
    let values = words.iter().enumerate().rev().filter_map(|(index, word)| match word.role {
        Role::Value => (words[index - 1].bytes() == b"-o").then_some(word.bytes()),
        Role::Option => word.bytes().strip_prefix(b"-o").filter(|value| !value.is_empty()),
        Role::Input => None,
    });
    values.map(OsStr::from_bytes).next().map(PathBuf::from)
}

/// The file that clang writes for `-emit-llvm` and one input, if the command does not name one. With `-flto`, clang
/// would write another file.
fn output_of_llvm(words: &[Word], command: &Command) -> Option<PathBuf> {
    let ending = match command.product {
        Product::Object => "bc",
        Product::Assembly => "ll",
        _ => return None,
    };
    if !command.emits_llvm || command.lto != UserLto::Unset {
        return None;
    }
    let mut inputs = words.iter().filter(|word| word.role == Role::Input);
    let input = inputs.next().filter(|_| inputs.next().is_none())?;
    let name = Path::new(OsStr::from_bytes(input.bytes())).file_name().filter(|name| *name != "-")?;
    Some(Path::new(name).with_extension(ending))
}

/// The result of compiling the sources.
enum Compilation {
    /// The same as without the wrapper.
    Untouched,
    /// Bitcode, which the link instruments.
    Bitcode,
    /// Code that the pass has instrumented.
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
        (Mode::Lto, UserLto::Full) | (Mode::Lto | Mode::Link, UserLto::Thin) => Compilation::Untouched,
        (Mode::Lto, UserLto::Unset) if !real_assembly => Compilation::Bitcode,
        _ if command.compiles => Compilation::Instrumented,
        _ => Compilation::Untouched,
    }
}

impl Facts {
    /// Returns whether the user's own options for the pass ask for verify mode, or for counts of calls.
    fn users_program_reports(&self) -> bool {
        self.users_options().any(|o| o == b"verify" || o.starts_with(b"profile-generate="))
    }

    /// Returns whether the program is to have a trace of its calls.
    fn traces(&self, own: &WrapperFlags) -> bool {
        let traces = |option: &[u8]| option == b"trace" || option.starts_with(b"trace=");
        own.common.trace.is_some() || self.users_options().any(traces)
    }

    /// The user's own options for the pass.
    fn users_options(&self) -> impl Iterator<Item = &[u8]> {
        let options = self.pass_options.as_deref().unwrap_or_default().as_bytes();
        options.split(|&byte| byte == b';')
    }
}

fn add_runtime(
    command: &Command,
    arguments: &Arguments,
    facts: &Facts,
    added: &mut Added,
    needs: &mut Vec<PathBuf>,
) {
    if command.relocatable {
        return;
    }
    let own = &arguments.own;
    let files = &facts.files;
    let trace = facts.traces(own);
    // Dictionaries and tokens identify their build by it.
    if !command.build_id {
        added.flag("-Wl,--build-id");
    }
    if command.shared {
        // The library is found by name, so that the program records the name and not the path.
        added.separate("-L", &files.libraries);
        if trace {
            added.flag("-lpcce_trace");
            // The tracer's functions keep registers that lazy binding would overwrite.
            added.flag("-Wl,-z,now");
            // libtool gives the objects that it has seen the compiler add.
            let module = files.trace_module();
            let is_module = |word: &Word| word.role == Role::Input && Path::new(&word.text) == module;
            if !arguments.words.iter().any(is_module) {
                added.for_linker("", &module);
            }
            needs.extend([files.libraries.join(SHARED_TRACER), files.trace_module()]);
        }
        added.flag("-lpcce_rt");
        if let Some(folder) = &files.runpath {
            added.for_linker("-rpath=", folder);
        }
        needs.push(files.libraries.join(SHARED_RUNTIME));
    } else {
        // Archives are no inputs of their own, since a `-x c` would make them sources.
        if trace {
            added.for_linker("", &files.trace_archive());
            // Only the code that link mode generates calls the tracer, and its first link has to know where the
            // thread-local variables are.
            added.flag(&format!("-Wl,-u,{}", pcce_abi::trace::TLS_SYMBOL));
            needs.push(files.trace_archive());
        }
        let archive = if own.heap {
            files.heap_archive()
        } else if own.common.verify || own.common.profile_generate.is_some() || facts.users_program_reports()
        {
            files.verify_archive()
        } else {
            files.archive()
        };
        added.for_linker("", &archive);
        needs.push(archive.clone());
        if own.thrown && !command.r#static {
            added.for_linker("", &files.thrown_object());
            needs.push(files.thrown_object());
        }
        // The runtime tells MemorySanitizer what it has written.
        if command.allocator.as_deref() == Some("-fsanitize=memory") {
            for name in ["unpoison", "memcpy"] {
                added.flag(&format!("-Wl,--defsym=__pcce_msan_{name}=__msan_{name}"));
            }
        }
        // One runtime for the process: shared libraries find the executable's. In static programs exporting
        // does harm: a static-pie program with an exported thread-local variable crashes at its start if GNU
        // ld 2.40 linked it.
        if command.r#static {
            for (name, leads_to) in exports::CREATES {
                added.flag(&format!(
                    "-Wl,-u,__{name},--defsym=__pcce_libc_{name}=__{name},--defsym={name}={leads_to}"
                ));
            }
        } else {
            added.for_linker("", &files.libc_archive());
            needs.push(files.libc_archive());
            // gold accepts no patterns, and no linker objects to a name that does not exist.
            let mut names = exports::RUNTIME.to_vec();
            names.extend(exports::VERIFY.iter().filter(|_| archive != files.archive()));
            names.extend(exports::TRACE.iter().filter(|_| trace));
            names.extend(exports::INTERPOSED.iter().map(|(name, _)| *name));
            for name in names {
                added.flag(&format!("-Wl,--export-dynamic-symbol={name}"));
            }
            if own.heap {
                // Shared libraries must find these functions even if the linker sees no library that needs
                // them.
                for (name, _) in exports::ALLOCATION {
                    added.flag(&format!("-Wl,--export-dynamic-symbol={name}"));
                }
            }
        }
    }
}

/// The options of this command line, after those of the user's environment.
fn pass_options(
    own: &WrapperFlags,
    mode: Mode,
    command: &Command,
    facts: &Facts,
) -> Result<Option<OsString>, Error> {
    let mut options = own.for_pass(&facts.working_directory)?;
    if mode == Mode::Link && matches!(command.product, Product::Object | Product::Image) {
        options.push("capture".into());
    }
    if own.heap {
        options.push(pcce_options::OF_HEAP.into());
    }
    if own.common.hybrid && command.product == Product::Image && command.no_pie {
        options.push("no-pie".into());
    }
    if command.product == Product::Image {
        options.push(
            match (command.relocatable, command.shared) {
                (true, _) => "relocatable",
                (false, true) => "shared",
                (false, false) => "executable",
            }
            .into(),
        );
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

    /// A word for the linker. `-Wl,` would split a path at its commas.
    fn for_linker(&mut self, prefix: &str, path: &Path) {
        self.flag("-Xlinker");
        self.path(prefix, path);
    }
}

#[cfg(test)]
mod tests;
