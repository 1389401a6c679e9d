//! What the wrapper adds to a command line: a function from the command and the
//! facts about this machine to the compiler's arguments. It touches no file.
//!
//! | command | `--pcce-mode=lto` | `--pcce-mode=module` |
//! |---|---|---|
//! | compile (`-c`) | bitcode, in an object file that `nm` and `ar` understand | instrumented: `-fpass-plugin` |
//! | the same with `-fno-lto` | as in module mode | `-fpass-plugin` |
//! | assembler text (`-S`) | as in module mode, since that text becomes machine code | `-fpass-plugin` |
//! | link | lld with the plugin, and the runtime | the runtime |
//! | compile and link | bitcode, then the link as above | both |
//! | preprocess, check, precompile | – | – |
//! | `-flto` given by the user | kept as given | taken back |
//!
//! Whatever goes through the preprocessor finds `pcce.h`. What is added stands at
//! the end, where warnings about unused options are off: a build that turns those
//! into errors must not see ours.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pcce_options::{Mode, WrapperFlags};

use crate::Error;
use crate::args::Arguments;
use crate::command::{Command, Product, UserLinker, UserLto, chooses_linker};
use crate::install::{Files, Header, SHARED_RUNTIME};

/// What the plan depends on beside the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Where the project's files are.
    pub files: Files,
    /// The working directory, absolute.
    pub working_directory: PathBuf,
    /// [`pcce_options::VARIABLE`] as the user set it.
    pub pass_options: Option<OsString>,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The compiler's arguments, without its name.
    pub argv: Vec<OsString>,
    /// The value for [`pcce_options::VARIABLE`]; the environment stays as it is if none.
    pub pass_options: Option<OsString>,
    /// What the user should know, once, on standard error.
    pub notes: Vec<String>,
    /// Files of this project that the arguments name.
    pub needs: Vec<PathBuf>,
    /// The arguments let clang look for lld.
    pub needs_lld: bool,
    /// The pass runs in the link.
    pub encodes_link: bool,
}

/// Decides what to run.
///
/// # Errors
///
/// [`pcce_options::Error::Semicolon`] if [`pcce_options::VARIABLE`] cannot hold a path; flags that instrumented code cannot be built with.
pub fn plan(arguments: Arguments, facts: &Facts) -> Result<Plan, Error> {
    let command = Command::of(&arguments.words);
    let mut plan = Plan::default();
    let mut added = Added::default();
    let mut replaces_linker = false;

    let links = command.product == Product::Image;
    if command.emulated_tls && !matches!(command.product, Product::Information | Product::NoCode) {
        return Err(Error::EmulatedTls);
    }
    let whole_program = links && arguments.own.mode == Mode::Lto;
    if arguments.own.mode == Mode::Module && command.lto == UserLto::On {
        // The pass instruments what becomes machine code there and then. Said once a
        // program: configure scripts take words on standard error for warnings.
        added.flag("-fno-lto");
        command.needs_lto.iter().for_each(|opposite| added.flag(opposite));
        if links {
            plan.notes.push(
                "`--pcce-mode=module` takes back `-flto`; use `--pcce-mode=lto`, the default, for it".into(),
            );
        }
    }
    match compilation(arguments.own.mode, &command) {
        Compilation::Untouched => {}
        Compilation::Bitcode => {
            added.flag("-flto");
            // Builds look into object files with tools that know no bitcode: configure
            // scripts and libtool with `nm`, and `ar` writes an index. They get machine
            // code to look at; the link takes the bitcode beside it.
            if command.product == Product::Object && !command.emits_llvm && !command.fat_objects {
                added.flag("-ffat-lto-objects");
            }
        }
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
            // What lld takes for an error by itself, and the linker in whose place it stands takes as it is.
            if !command.no_undefined_version {
                added.flag("-Wl,--undefined-version");
            }
        }
        added.for_linker("--load-pass-plugin=", &facts.files.plugin());
        added.flag("-Wl,--fat-lto-objects");
        plan.needs.push(facts.files.plugin());
        plan.encodes_link = true;
    }
    if links {
        if arguments.own.heap && command.r#static && !command.relocatable {
            return Err(Error::StaticHeap);
        }
        if let Some(sanitizer) = command.allocator.as_ref().filter(|_| arguments.own.heap) {
            return Err(Error::HeapAndSanitizer(sanitizer.clone()));
        }
        add_runtime(&command, &arguments.own, facts, &mut added, &mut plan.needs);
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

impl Facts {
    /// Whether the user's own options for the pass ask for verify mode, or for counts of calls.
    fn users_program_reports(&self) -> bool {
        let options = self.pass_options.as_deref().unwrap_or_default().as_bytes();
        options.split(|&byte| byte == b';').any(|o| o == b"verify" || o.starts_with(b"profile-generate="))
    }
}

fn add_runtime(
    command: &Command,
    own: &WrapperFlags,
    facts: &Facts,
    added: &mut Added,
    needs: &mut Vec<PathBuf>,
) {
    if command.relocatable {
        return;
    }
    let files = &facts.files;
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
        let archive = if own.heap {
            files.heap_archive()
        } else if own.common.verify || own.common.profile_generate.is_some() || facts.users_program_reports()
        {
            files.verify_archive()
        } else {
            files.archive()
        };
        added.for_linker("", &archive);
        needs.push(archive);
        // One runtime for the process: shared libraries find the executable's. Where
        // there are none, exporting does harm: a static-pie program with an exported
        // thread-local variable crashes at its start when GNU ld 2.40 linked it.
        if !command.r#static {
            added.flag("-Wl,--export-dynamic-symbol=__pcce_*");
            added.flag("-Wl,--export-dynamic-symbol=pcce_*");
            if own.heap {
                // Shared libraries must find them even where the linker knows of none that asks.
                for (name, _) in pcce_abi::exports::ALLOCATION {
                    added.flag(&format!("-Wl,--export-dynamic-symbol={name}"));
                }
            }
        }
    }
}

/// The options of this command line after those of the user's environment.
fn pass_options(own: &WrapperFlags, command: &Command, facts: &Facts) -> Result<Option<OsString>, Error> {
    let mut options = own.for_pass(&facts.working_directory)?;
    if own.heap {
        options.push("publish".into());
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

    /// As a word for the linker. `-Wl,` would split a path at its commas.
    fn for_linker(&mut self, prefix: &str, path: &Path) {
        self.flag("-Xlinker");
        self.path(prefix, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    const PLUGIN: &str = "-fpass-plugin=/r/libpcce_pass.so";
    const LLD: &str = "-fuse-ld=lld -Wl,--undefined-version";
    const LTO_LINK: &str = "-Xlinker --load-pass-plugin=/r/libpcce_pass.so -Wl,--fat-lto-objects";
    const ID: &str = "-Wl,--build-id";
    const ARCHIVE: &str = "-Xlinker /r/libpcce_rt.a";
    const EXPORTS: &str = "-Wl,--export-dynamic-symbol=__pcce_* -Wl,--export-dynamic-symbol=pcce_*";
    const SHARED: &str = "-L /r -lpcce_rt -Xlinker -rpath=/r";
    const HEADER: &str = "-isystem /i";

    fn facts() -> Facts {
        Facts {
            files: Files { libraries: "/r".into(), header: Some(Header::Own("/i".into())) },
            working_directory: "/w".into(),
            pass_options: None,
        }
    }

    fn plan_with(facts: &Facts, line: &str) -> Result<Plan, Error> {
        let arguments = args::parse(line.split_whitespace().map(Into::into), |_| None)?;
        plan(arguments, facts)
    }

    /// What the wrapper adds to `line`, which must stand at the end and in the fence.
    fn added(mode: &str, line: &str) -> String {
        let plan = plan_with(&facts(), &format!("--pcce-mode={mode} {line}")).unwrap();
        let argv = plan.argv.join(OsStr::new(" ")).into_string().unwrap();
        let rest = argv.strip_prefix(line).unwrap_or_else(|| panic!("`{line}` became `{argv}`"));
        if rest.is_empty() {
            return String::new();
        }
        let fenced = rest
            .strip_prefix(" --start-no-unused-arguments ")
            .and_then(|rest| rest.strip_suffix(" --end-no-unused-arguments"));
        fenced.unwrap_or_else(|| panic!("no fence: `{argv}`")).to_owned()
    }

    fn pass_options(facts: &Facts, line: &str) -> Option<String> {
        plan_with(facts, line).unwrap().pass_options.map(|options| options.into_string().unwrap())
    }

    #[test]
    fn the_table_of_lto_mode() {
        for (line, expected) in [
            // Compilations.
            ("-c a.c", format!("-flto -ffat-lto-objects {HEADER}")),
            ("-c -fPIC -O2 a.c b.c", format!("-flto -ffat-lto-objects {HEADER}")),
            ("-c -fno-fat-lto-objects a.c", format!("-flto {HEADER}")),
            ("-c -flto=thin a.c", HEADER.into()),
            ("-c -flto -ffat-lto-objects a.c", HEADER.into()),
            ("-c -fno-lto a.c", format!("{PLUGIN} {HEADER}")),
            ("-S a.c", format!("{PLUGIN} {HEADER}")),
            ("-S -flto a.c", HEADER.into()),
            ("-S -emit-llvm a.c", format!("-flto {HEADER}")),
            ("-c -emit-llvm a.c", format!("-flto {HEADER}")),
            ("-c a.s", HEADER.into()),
            ("-c a.o", String::new()),
            // Links.
            ("a.o -o x", format!("-flto {LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
            ("a.c b.c -o x", format!("-flto {LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS} {HEADER}")),
            ("-fno-lto a.o", format!("{LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
            ("-fno-lto a.c", format!("{PLUGIN} {LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS} {HEADER}")),
            ("-flto=thin a.o", format!("{LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
            ("-fuse-ld=lld a.o", format!("-flto {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
            ("-static a.o", format!("-flto {LLD} {LTO_LINK} {ID} {ARCHIVE}")),
            ("-static-pie a.o", format!("-flto {LLD} {LTO_LINK} {ID} {ARCHIVE}")),
            ("-nostdlib a.o", format!("-flto {LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
            ("-shared a.o", format!("-flto {LLD} {LTO_LINK} {ID} {SHARED}")),
            ("-r a.o", format!("-flto {LLD} {LTO_LINK}")),
            ("-nostdlib -Wl,-r a.o", format!("-flto {LLD} {LTO_LINK}")),
            (
                "-Wl,--no-undefined-version a.o",
                format!("-flto -fuse-ld=lld {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}"),
            ),
            ("-Wl,--build-id=none a.o", format!("-flto {LLD} {LTO_LINK} {ARCHIVE} {EXPORTS}")),
        ] {
            assert_eq!(added("lto", line), expected, "{line}");
        }
    }

    #[test]
    fn the_table_of_module_mode() {
        for (line, expected) in [
            ("-c a.c", format!("{PLUGIN} {HEADER}")),
            ("-S a.c", format!("{PLUGIN} {HEADER}")),
            ("-c -flto a.c", format!("-fno-lto {PLUGIN} {HEADER}")),
            (
                "-c -flto -fwhole-program-vtables a.c",
                format!("-fno-lto -fno-whole-program-vtables {PLUGIN} {HEADER}"),
            ),
            ("-flto=thin a.o -o x", format!("-fno-lto {ID} {ARCHIVE} {EXPORTS}")),
            ("-c -emit-llvm a.c", format!("{PLUGIN} {HEADER}")),
            ("-c a.S", HEADER.into()),
            ("a.o -o x", format!("{ID} {ARCHIVE} {EXPORTS}")),
            ("a.c -o x", format!("{PLUGIN} {ID} {ARCHIVE} {EXPORTS} {HEADER}")),
            ("-fuse-ld=gold a.o", format!("{ID} {ARCHIVE} {EXPORTS}")),
            ("-static-pie a.o", format!("{ID} {ARCHIVE}")),
            ("-shared a.o", format!("{ID} {SHARED}")),
            ("-r a.o", String::new()),
        ] {
            assert_eq!(added("module", line), expected, "{line}");
        }
    }

    #[test]
    fn commands_without_code_find_the_header_and_nothing_else() {
        for mode in ["lto", "module"] {
            for line in
                ["-E a.c", "-M a.c", "-fsyntax-only a.c", "-E -", "a.h", "-x c-header -c a.c -o a.gch"]
            {
                assert_eq!(added(mode, line), HEADER, "{line}");
            }
            for line in ["-v", "--version", "-dumpmachine", "-print-search-dirs", "", "--version a.c", "-E"] {
                assert_eq!(added(mode, line), "", "{line}");
            }
        }
    }

    #[test]
    fn an_installed_header_comes_after_all_others() {
        let mut facts = facts();
        facts.files.header = Some(Header::Shared("/usr/include".into()));
        let argv = plan_with(&facts, "-E a.c").unwrap().argv;
        assert_eq!(argv[3..5], ["-idirafter", "/usr/include"]);
        facts.files.header = None;
        assert_eq!(plan_with(&facts, "-E a.c").unwrap().argv, ["-E", "a.c"]);
    }

    #[test]
    fn another_linker_gives_way_to_lld_and_is_named() {
        let plan = plan_with(&facts(), "-fuse-ld=lld --ld-path=/bin/ld.bfd a.o -fuse-ld=gold").unwrap();
        assert_eq!(plan.argv[..3], ["a.o", "--start-no-unused-arguments", "-flto"]);
        assert!(plan.argv.contains(&"-fuse-ld=lld".into()));
        assert!(plan.argv.contains(&"-Wl,--undefined-version".into()));
        assert_eq!(plan.notes.len(), 1);
        assert!(plan.notes[0].contains("`/bin/ld.bfd`"), "{:?}", plan.notes);
        // No link, no linker to talk about.
        assert_eq!(plan_with(&facts(), "-c a.c -fuse-ld=gold").unwrap().notes, [""; 0]);
    }

    #[test]
    fn only_what_is_used_is_needed() {
        for (line, needs) in [
            ("-c a.c", vec![]),
            ("--version", vec![]),
            ("-S a.c", vec!["/r/libpcce_pass.so"]),
            ("a.c", vec!["/r/libpcce_pass.so", "/r/libpcce_rt.a"]),
            ("-shared a.c", vec!["/r/libpcce_pass.so", "/r/libpcce_rt.so"]),
            ("-r a.o", vec!["/r/libpcce_pass.so"]),
            ("--pcce-mode=module a.o", vec!["/r/libpcce_rt.a"]),
        ] {
            let plan = plan_with(&facts(), line).unwrap();
            assert_eq!(plan.needs, needs.iter().map(PathBuf::from).collect::<Vec<_>>(), "{line}");
        }
        assert!(plan_with(&facts(), "a.o").unwrap().needs_lld);
        assert!(!plan_with(&facts(), "--pcce-mode=module a.o").unwrap().needs_lld);
    }

    #[test]
    fn programs_that_report_have_what_they_need_for_it() {
        let archive = |facts: &Facts, line: &str| {
            let needs = plan_with(facts, line).unwrap().needs;
            needs.last().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
        };
        let mut facts = facts();
        for line in
            ["--pcce-verify a.o", "--pcce-profile-generate a.o", "--pcce-verify --pcce-mode=module a.c"]
        {
            assert_eq!(archive(&facts, line), "libpcce_verify.a", "{line}");
        }
        assert_eq!(archive(&facts, "--pcce-verify --pcce-heap a.o"), "libpcce_heap.a");
        assert_eq!(archive(&facts, "--pcce-verify -shared a.o"), "libpcce_rt.so");
        for options in ["verify", "publish;verify", "profile-generate=p"] {
            facts.pass_options = Some(options.into());
            assert_eq!(archive(&facts, "a.o"), "libpcce_verify.a", "{options}");
        }
        facts.pass_options = Some("no-callback=verify".into());
        assert_eq!(archive(&facts, "a.o"), "libpcce_rt.a");
    }

    #[test]
    fn a_heap_profile_takes_the_place_of_the_allocator() {
        let command = "--pcce-heap --pcce-mode=module a.o";
        let plan = plan_with(&facts(), command).unwrap();
        assert_eq!(plan.needs, [PathBuf::from("/r/libpcce_heap.a")]);
        for word in
            ["/r/libpcce_heap.a", "-Wl,--export-dynamic-symbol=malloc", "-Wl,--export-dynamic-symbol=_exit"]
        {
            assert!(plan.argv.contains(&word.into()), "{word} in {:?}", plan.argv);
        }
        assert_eq!(pass_options(&facts(), command).as_deref(), Some("publish;executable"));
        assert_eq!(pass_options(&facts(), "--pcce-heap -c a.c").as_deref(), Some("publish"));
        // A shared library uses the executable's.
        assert_eq!(
            plan_with(&facts(), "--pcce-heap -shared a.o").unwrap().needs[1..],
            [PathBuf::from("/r/libpcce_rt.so")]
        );
        let error = plan_with(&facts(), "--pcce-heap -static a.o").unwrap_err().to_string();
        assert!(error.contains("leave out `-static`"), "{error}");
    }

    #[test]
    fn heap_profiles_and_sanitizers_with_allocators_are_refused() {
        for (flags, named) in [
            ("-fsanitize=address", "-fsanitize=address"),
            ("-fsanitize=undefined,leak", "-fsanitize=leak"),
            ("-fsanitize=memory -fno-sanitize=address", "-fsanitize=memory"),
            ("-fsanitize=thread", "-fsanitize=thread"),
            ("-fsanitize=hwaddress", "-fsanitize=hwaddress"),
            ("-fsanitize=scudo", "-fsanitize=scudo"),
            ("-fmemory-profile", "-fmemory-profile"),
        ] {
            let error = plan_with(&facts(), &format!("--pcce-heap {flags} a.o")).unwrap_err().to_string();
            assert!(error.contains(&format!("`{named}`")), "{flags}: {error}");
            assert!(plan_with(&facts(), &format!("{flags} a.o")).is_ok());
        }
        for flags in
            ["-fsanitize=undefined,cfi", "-fsanitize=safe-stack", "-fsanitize=address -fno-sanitize=all"]
        {
            assert!(plan_with(&facts(), &format!("--pcce-heap {flags} a.o")).is_ok(), "{flags}");
        }
    }

    #[test]
    fn emulated_thread_local_variables_are_refused() {
        for command in ["-femulated-tls -c a.c", "-femulated-tls a.o"] {
            let error = plan_with(&facts(), command).unwrap_err().to_string();
            assert!(error.contains("leave out `-femulated-tls`"), "{error}");
        }
        assert!(plan_with(&facts(), "-femulated-tls -fno-emulated-tls -c a.c").is_ok());
        assert!(plan_with(&facts(), "-femulated-tls -E a.c").is_ok());
    }

    #[test]
    fn options_for_the_pass_travel_in_one_variable() {
        let mut facts = facts();
        assert_eq!(pass_options(&facts, "-c a.c"), None);
        assert_eq!(pass_options(&facts, "a.o").as_deref(), Some("executable"));
        assert_eq!(pass_options(&facts, "-static-pie a.o").as_deref(), Some("executable"));
        assert_eq!(pass_options(&facts, "-shared a.o").as_deref(), Some("shared"));
        assert_eq!(pass_options(&facts, "-r a.o").as_deref(), Some("relocatable"));
        assert_eq!(pass_options(&facts, "-shared -fPIC -c a.c"), None);
        let own =
            "--pcce-verify --pcce-no-callback=l --pcce-no-callback=/a/m --pcce-targets=f,@t -shared a.c";
        assert_eq!(
            pass_options(&facts, own).as_deref(),
            Some("verify;target=f;target=@/w/t;no-callback=/w/l;no-callback=/a/m;shared")
        );
        assert_eq!(
            pass_options(&facts, "--pcce-crash-report a.c").as_deref(),
            Some("crash-report=stderr;executable")
        );
        let path = "--pcce-crash-report --pcce-crash-report=log/a -c a.c";
        assert_eq!(pass_options(&facts, path).as_deref(), Some("crash-report=log/a"));
        assert_eq!(
            pass_options(&facts, "--pcce-profile-generate=p.%p --pcce-profile-use=f -c a.c").as_deref(),
            Some("profile-generate=p.%p;profile-use=/w/f")
        );
        assert_eq!(pass_options(&facts, "--pcce-id-bits=32 -c a.c").as_deref(), Some("id-bits=32"));
        assert_eq!(pass_options(&facts, "--pcce-hybrid a.c").as_deref(), Some("hybrid;executable"));
        let fixed = "--pcce-hybrid -no-pie a.c";
        assert_eq!(pass_options(&facts, fixed).as_deref(), Some("hybrid;no-pie;executable"));
        facts.pass_options = Some("mine".into());
        assert_eq!(pass_options(&facts, "-c a.c"), None);
        assert_eq!(pass_options(&facts, "--pcce-verify a.o").as_deref(), Some("mine;verify;executable"));
        facts.pass_options = Some("".into());
        assert_eq!(pass_options(&facts, "--pcce-verify a.o").as_deref(), Some("verify;executable"));
    }
}
