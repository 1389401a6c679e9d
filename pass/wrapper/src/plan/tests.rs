use super::*;
use crate::args;

const PLUGIN: &str = "-fpass-plugin=/r/libpcce_pass.so";
const LLD: &str = "-fuse-ld=lld -Wl,--undefined-version";
const LTO_LINK: &str = "-Xlinker --load-pass-plugin=/r/libpcce_pass.so -Wl,--fat-lto-objects";
const LINKER: &str = "--ld-path=/p/pcce-ld";
const ID: &str = "-Wl,--build-id";
const ARCHIVE: &str = "-Xlinker /r/libpcce_rt.a";
const SHARED: &str = "-L /r -lpcce_rt -Xlinker -rpath=/r";
const HEADER: &str = "-isystem /i";

/// The exports of executables, by which shared libraries find the one runtime of the process.
struct Exports;
const EXPORTS: Exports = Exports;

impl std::fmt::Display for Exports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "-Xlinker /r/libpcce_libc.a")?;
        let names = exports::RUNTIME.iter().chain(exports::INTERPOSED.iter().map(|(name, _)| name));
        names.into_iter().try_for_each(|name| write!(f, " -Wl,--export-dynamic-symbol={name}"))
    }
}

/// The replacements of libc's functions in static programs.
struct Creates;
const CREATES: Creates = Creates;

impl std::fmt::Display for Creates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "-Wl,-u,__pthread_create,--defsym=__pcce_libc_pthread_create=__pthread_create,")?;
        write!(f, "--defsym=pthread_create=__pcce_other_pthread_create ")?;
        write!(f, "-Wl,-u,__thrd_create,--defsym=__pcce_libc_thrd_create=__thrd_create,")?;
        write!(f, "--defsym=thrd_create=__pcce_other_thrd_create")
    }
}

fn facts() -> Facts {
    Facts {
        files: Files {
            libraries: "/r".into(),
            plugin: "/r/libpcce_pass.so".into(),
            linker: "/p/pcce-ld".into(),
            runpath: Some("/r".into()),
            header: Some(Header::Own("/i".into())),
        },
        working_directory: "/w".into(),
        pass_options: None,
        inputs: Inputs::default(),
    }
}

fn plan_with(facts: &Facts, line: &str) -> Result<Plan, Error> {
    let arguments = args::parse(line.split_whitespace().map(Into::into), |_| None)?;
    plan(arguments, facts)
}

/// The additions of the wrapper to `line`, which must be at the end and in the fence.
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
fn the_output_is_the_last_one_named() {
    for (line, output) in
        [("a.o", "a.out"), ("a.o -o x", "x"), ("-ox a.o -o y", "y"), ("-Xlinker -o a.o -oz", "z")]
    {
        assert_eq!(plan_with(&facts(), line).unwrap().output, Path::new(output), "{line}");
    }
}

#[test]
fn the_table_of_lto_mode() {
    for (line, expected) in [
        // Compilations.
        ("-c a.c", format!("-flto -ffat-lto-objects {HEADER}")),
        ("-c -fPIC -O2 a.c b.c", format!("-flto -ffat-lto-objects {HEADER}")),
        ("-c -fno-fat-lto-objects a.c", format!("-flto {HEADER}")),
        ("-c -fembed-bitcode a.c", format!("-flto {HEADER}")),
        ("-c -flto=thin a.c", HEADER.into()),
        ("-c -flto -ffat-lto-objects a.c", HEADER.into()),
        ("-c -fno-lto a.c", format!("{PLUGIN} {HEADER}")),
        ("-S a.c", format!("{PLUGIN} {HEADER}")),
        ("-S -flto a.c", HEADER.into()),
        ("-S -emit-llvm d/a.c", format!("-flto -o a.ll {HEADER}")),
        ("-c -emit-llvm a.c", format!("-flto -o a.bc {HEADER}")),
        ("-c -emit-llvm a.c -o b", format!("-flto {HEADER}")),
        ("-c -emit-llvm a.c b.c", format!("-flto {HEADER}")),
        ("-c -emit-llvm -flto a.c", HEADER.into()),
        ("-c a.s", HEADER.into()),
        ("-c a.o", String::new()),
        // Links.
        ("a.o -o x", format!("-flto {LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
        ("a.c b.c -o x", format!("-flto {LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS} {HEADER}")),
        ("-fno-lto a.o", format!("{LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
        ("-fno-lto a.c", format!("{PLUGIN} {LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS} {HEADER}")),
        ("-flto=thin a.o", format!("{LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
        ("-fuse-ld=lld a.o", format!("-flto {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
        (
            "-fuse-ld=lld -Wl,--icf=all a.o",
            format!("-flto {LTO_LINK} -Wl,--icf=none {ID} {ARCHIVE} {EXPORTS}"),
        ),
        ("-static a.o", format!("-flto {LLD} {LTO_LINK} {ID} {ARCHIVE} {CREATES}")),
        ("-static-pie a.o", format!("-flto {LLD} {LTO_LINK} {ID} {ARCHIVE} {CREATES}")),
        ("-nostdlib a.o -lc", format!("-flto {LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
        ("-shared a.o", format!("-flto {LLD} {LTO_LINK} {ID} {SHARED}")),
        ("-r a.o", format!("-flto {LLD} {LTO_LINK}")),
        ("-nostdlib -Wl,-r a.o", format!("-flto {LLD} {LTO_LINK}")),
        ("-Wl,--no-undefined-version a.o", format!("-flto -fuse-ld=lld {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
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
        ("-static-pie a.o", format!("{ID} {ARCHIVE} {CREATES}")),
        ("-shared a.o", format!("{ID} {SHARED}")),
        ("-r a.o", String::new()),
    ] {
        assert_eq!(added("module", line), expected, "{line}");
    }
}

#[test]
fn the_table_of_link_mode() {
    for (line, expected) in [
        ("-c a.c", format!("{PLUGIN} {HEADER}")),
        ("a.o -o x", format!("{LINKER} {ID} {ARCHIVE} {EXPORTS}")),
        ("-fuse-ld=gold a.o", format!("{LINKER} {ID} {ARCHIVE} {EXPORTS}")),
        ("-static -r a.o", LINKER.into()),
        // A user's full LTO is as in lto mode, and ThinLTO is instrumented where its code is generated.
        ("-c -flto a.c", HEADER.into()),
        ("-flto a.o", format!("{LLD} {LTO_LINK} {ID} {ARCHIVE} {EXPORTS}")),
        ("-c -flto=thin a.c", HEADER.into()),
        ("-S -flto=thin a.c", HEADER.into()),
        ("-c -flto=thin -fno-lto a.c", format!("{PLUGIN} {HEADER}")),
        ("-flto=thin a.o", format!("{LLD} {LTO_LINK} {LINKER} {ID} {ARCHIVE} {EXPORTS}")),
    ] {
        assert_eq!(added("link", line), expected, "{line}");
    }
}

#[test]
fn commands_without_code_find_the_header_and_nothing_else() {
    for mode in ["lto", "module"] {
        for line in ["-E a.c", "-M a.c", "-fsyntax-only a.c", "-E -", "a.h", "-x c-header -c a.c -o a.gch"] {
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
    let plan =
        plan_with(&facts(), "--pcce-mode=lto -fuse-ld=lld --ld-path=/bin/ld.bfd a.o -fuse-ld=gold").unwrap();
    assert_eq!(plan.argv[..3], ["a.o", "--start-no-unused-arguments", "-flto"]);
    assert!(plan.argv.contains(&"-fuse-ld=lld".into()));
    assert!(plan.argv.contains(&"-Wl,--undefined-version".into()));
    assert_eq!(plan.notes.len(), 1);
    assert!(plan.notes[0].contains("`/bin/ld.bfd`"), "{:?}", plan.notes);
    // No link, no linker to talk about.
    assert_eq!(plan_with(&facts(), "--pcce-mode=lto -c a.c -fuse-ld=gold").unwrap().notes, [""; 0]);
}

#[test]
fn only_what_is_used_is_needed() {
    for (line, needs) in [
        ("--pcce-mode=lto -c a.c", vec![]),
        ("-c a.c", vec!["/r/libpcce_pass.so"]),
        ("--version", vec![]),
        ("-S a.c", vec!["/r/libpcce_pass.so"]),
        ("a.c", vec!["/r/libpcce_pass.so", "/p/pcce-ld", "/r/libpcce_rt.a", "/r/libpcce_libc.a"]),
        ("-shared a.c", vec!["/r/libpcce_pass.so", "/p/pcce-ld", "/r/libpcce_rt.so"]),
        ("-r a.o", vec!["/p/pcce-ld"]),
        ("--pcce-mode=lto -r a.o", vec!["/r/libpcce_pass.so"]),
        ("a.o", vec!["/p/pcce-ld", "/r/libpcce_rt.a", "/r/libpcce_libc.a"]),
        ("-static a.o", vec!["/p/pcce-ld", "/r/libpcce_rt.a"]),
    ] {
        let plan = plan_with(&facts(), line).unwrap();
        assert_eq!(plan.needs, needs.iter().map(PathBuf::from).collect::<Vec<_>>(), "{line}");
    }
    assert!(plan_with(&facts(), "--pcce-mode=lto a.o").unwrap().needs_lld);
    assert!(!plan_with(&facts(), "a.o").unwrap().needs_lld);
}

#[test]
fn programs_that_report_have_what_they_need_for_it() {
    let archive = |facts: &Facts, line: &str| {
        let needs = plan_with(facts, line).unwrap().needs;
        let archive = needs.iter().rfind(|file| !file.ends_with("libpcce_libc.a")).unwrap();
        archive.file_name().unwrap().to_str().unwrap().to_owned()
    };
    let mut facts = facts();
    for line in ["--pcce-verify a.o", "--pcce-profile-generate a.o", "--pcce-verify --pcce-mode=module a.c"] {
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
fn programs_that_record_their_calls_have_the_tracer_in_front_of_the_runtime() {
    let needs = |facts: &Facts, line: &str| {
        let needs = plan_with(facts, line).unwrap().needs;
        needs.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut facts = facts();
    for (line, expected) in [
        ("--pcce-trace --pcce-mode=module a.o", ["libpcce_trace.a", "libpcce_rt.a", "libpcce_libc.a"]),
        (
            "--pcce-trace --pcce-verify --pcce-mode=module a.o",
            ["libpcce_trace.a", "libpcce_verify.a", "libpcce_libc.a"],
        ),
        (
            "--pcce-trace --pcce-heap --pcce-mode=module a.o",
            ["libpcce_trace.a", "libpcce_heap.a", "libpcce_libc.a"],
        ),
    ] {
        assert_eq!(needs(&facts, line), expected, "{line}");
        let argv = plan_with(&facts, line).unwrap().argv;
        let place = |end: &str| argv.iter().position(|word| word.to_str().unwrap().ends_with(end));
        let [tracer, runtime, _] = expected.map(place);
        assert!(tracer.is_some() && tracer < runtime, "{argv:?}");
    }
    let shared = "--pcce-trace --pcce-mode=module -shared a.o";
    assert_eq!(needs(&facts, shared), ["libpcce_trace.so", "pcce_trace_module.o", "libpcce_rt.so"]);
    let argv = plan_with(&facts, shared).unwrap().argv;
    for word in ["-lpcce_trace", "/r/pcce_trace_module.o", "-Wl,-z,now"] {
        assert!(argv.contains(&word.into()), "{word} in {argv:?}");
    }
    // libtool gives the objects that it has seen the compiler add.
    let argv = plan_with(&facts, &format!("{shared} /r/pcce_trace_module.o")).unwrap().argv;
    let modules = argv.iter().filter(|word| word.to_str().unwrap().ends_with("/pcce_trace_module.o"));
    assert_eq!(modules.count(), 1, "{argv:?}");
    assert_eq!(needs(&facts, "--pcce-trace --pcce-mode=module -c a.c"), ["libpcce_pass.so"]);
    assert_eq!(pass_options(&facts, "--pcce-trace -c a.c").as_deref(), Some("trace=calls"));
    facts.pass_options = Some("verify;trace".into());
    assert_eq!(
        needs(&facts, "--pcce-mode=module a.o"),
        ["libpcce_trace.a", "libpcce_verify.a", "libpcce_libc.a"]
    );
}

#[test]
fn a_heap_profile_takes_the_place_of_the_allocator() {
    let command = "--pcce-heap --pcce-mode=module a.o";
    let plan = plan_with(&facts(), command).unwrap();
    assert_eq!(plan.needs, ["/r/libpcce_heap.a", "/r/libpcce_libc.a"].map(PathBuf::from));
    for word in
        ["/r/libpcce_heap.a", "-Wl,--export-dynamic-symbol=malloc", "-Wl,--export-dynamic-symbol=_exit"]
    {
        assert!(plan.argv.contains(&word.into()), "{word} in {:?}", plan.argv);
    }
    assert_eq!(pass_options(&facts(), command).as_deref(), Some("publish;executable"));
    assert_eq!(pass_options(&facts(), "--pcce-heap -c a.c").as_deref(), Some("capture;publish"));
    // A shared library uses the executable's.
    assert_eq!(
        plan_with(&facts(), "--pcce-heap -shared a.o").unwrap().needs,
        ["/p/pcce-ld", "/r/libpcce_rt.so"].map(PathBuf::from)
    );
    let error = plan_with(&facts(), "--pcce-heap -static a.o").unwrap_err().to_string();
    assert!(error.contains("leave out `-static`"), "{error}");
}

#[test]
fn throws_are_kept_in_dynamic_executables() {
    let plan = plan_with(&facts(), "--pcce-thrown --pcce-mode=module a.o").unwrap();
    assert_eq!(plan.needs, ["/r/libpcce_rt.a", "/r/pcce_thrown.o", "/r/libpcce_libc.a"].map(PathBuf::from));
    assert!(plan.argv.contains(&"/r/pcce_thrown.o".into()), "{:?}", plan.argv);
    let error = plan_with(&facts(), "--pcce-thrown -static a.o").unwrap_err().to_string();
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
    for flags in ["-fsanitize=undefined,cfi", "-fsanitize=safe-stack", "-fsanitize=address -fno-sanitize=all"]
    {
        assert!(plan_with(&facts(), &format!("--pcce-heap {flags} a.o")).is_ok(), "{flags}");
    }
}

#[test]
fn split_stacks_are_refused_in_link_mode() {
    let error = plan_with(&facts(), "-fsplit-stack -c a.c").unwrap_err().to_string();
    assert!(error.contains("`-fsplit-stack` does not go together with link mode"), "{error}");
    for allowed in [
        "-fsplit-stack -fno-split-stack -c a.c",
        "--pcce-mode=module -fsplit-stack -c a.c",
        "-fsplit-stack a.o",
    ] {
        assert!(plan_with(&facts(), allowed).is_ok(), "{allowed}");
    }
}

#[test]
fn programs_without_the_c_library_are_refused() {
    for line in [
        "-nostdlib a.c",
        "-static -nostdlib a.o",
        "-nodefaultlibs a.o -lm",
        "-nolibc a.o",
        "-static -nostartfiles a.o",
        "-static -nostdlib a.o -lc",
        "-nostdlib a.o -o libc.so/a",
    ] {
        let error = plan_with(&facts(), line).unwrap_err().to_string();
        assert!(error.contains("without the C library") && error.contains("`-no"), "{line}: {error}");
    }
    for line in [
        "-nostdlib -c a.c",
        "-nostdlib -shared a.o",
        "-nostdlib -r a.o",
        "-nostdlib a.o -lc",
        "-nostdlib a.o -l c",
        "-nostdlib a.o -Wl,-lc",
        "-nostdlib a.o /lib/libc.so.6",
        "-nostdlib -static /lib/crt1.o a.o /lib/libc.a",
        "-nostdlib++ a.o",
        "-nostartfiles a.o",
    ] {
        assert!(plan_with(&facts(), line).is_ok(), "{line}");
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
    for (line, expected) in [
        ("-c a.c", None),
        ("a.o", Some("executable")),
        ("-static-pie a.o", Some("executable")),
        ("-shared a.o", Some("shared")),
        ("-r a.o", Some("relocatable")),
        ("-shared -fPIC -c a.c", None),
    ] {
        let lto = format!("--pcce-mode=lto {line}");
        assert_eq!(pass_options(&facts, &lto).as_deref(), expected, "{lto}");
        let options = expected.map_or("capture".to_owned(), |options| format!("capture;{options}"));
        assert_eq!(pass_options(&facts, line), Some(options), "{line}");
    }
    let own = "--pcce-verify --pcce-no-callback=l --pcce-no-callback=/a/m --pcce-targets=f,@t -shared a.c";
    assert_eq!(
        pass_options(&facts, own).as_deref(),
        Some("verify;target=f;target=@/w/t;no-callback=/w/l;no-callback=/a/m;shared")
    );
    assert_eq!(
        pass_options(&facts, "--pcce-crash-report a.c").as_deref(),
        Some("crash-report=stderr;capture;executable")
    );
    let path = "--pcce-crash-report --pcce-crash-report=log/a -c a.c";
    assert_eq!(pass_options(&facts, path).as_deref(), Some("crash-report=log/a;capture"));
    assert_eq!(
        pass_options(&facts, "--pcce-profile-generate=p.%p --pcce-profile-use=f -c a.c").as_deref(),
        Some("profile-generate=p.%p;profile-use=/w/f;capture")
    );
    assert_eq!(pass_options(&facts, "--pcce-id-bits=32 -c a.c").as_deref(), Some("id-bits=32;capture"));
    assert_eq!(pass_options(&facts, "--pcce-hybrid a.c").as_deref(), Some("hybrid;capture;executable"));
    let fixed = "--pcce-mode=lto --pcce-hybrid -no-pie a.c";
    assert_eq!(pass_options(&facts, fixed).as_deref(), Some("hybrid;no-pie;executable"));
    facts.pass_options = Some("mine".into());
    assert_eq!(pass_options(&facts, "--pcce-mode=module -c a.c"), None);
    assert_eq!(pass_options(&facts, "--pcce-verify a.o").as_deref(), Some("mine;verify;capture;executable"));
    facts.pass_options = Some("".into());
    assert_eq!(pass_options(&facts, "--pcce-verify a.o").as_deref(), Some("verify;capture;executable"));
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let with_list = |list: &str| Facts { pass_options: Some(list.into()), ..facts() };
    for (line, list, refused) in [
        ("--pcce-mode=module --pcce-hybrid -c a.c", "", Some("--pcce-hybrid")),
        ("--pcce-hybrid -flto=thin a.o", "", Some("--pcce-hybrid")),
        ("--pcce-mode=module -c a.c", "hybrid", Some("--pcce-hybrid")),
        ("--pcce-trace-only=f -c a.c", "", Some("--pcce-trace-only")),
        ("--pcce-verify-report=r a.o", "", Some("--pcce-verify-report")),
        ("--pcce-hybrid -c a.c", "", None),
        ("--pcce-hybrid -flto a.o", "", None),
        ("--pcce-hybrid -fno-lto -c a.c", "", None),
        ("--pcce-mode=link -flto --pcce-hybrid a.o", "", None),
        ("--pcce-mode=module --pcce-targets=f -c a.c", "", None),
        ("--pcce-trace-only=f -c a.c", "trace", None),
        ("--pcce-verify-report=r --pcce-verify a.o", "", None),
        ("--pcce-mode=module --pcce-hybrid -print-search-dirs", "", None),
    ] {
        let planned = plan_with(&with_list(list), line);
        let message = planned.err().map(|error| error.to_string());
        let named =
            message.as_deref().and_then(|m| Some(m.strip_prefix('`')?.split_once("` would do nothing: ")?.0));
        assert_eq!(named, refused, "{line}, {list}: {message:?}");
    }
}
