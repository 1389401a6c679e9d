//! The table as the wrapper and the pass read it. The pass must understand what the wrapper writes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pcce_options::{Error, Granularity, Mode, PassOptions, WrapperFlags, cmake_keywords, wrapper_help};

fn flags(line: &str) -> Result<WrapperFlags, Error> {
    WrapperFlags::read(line.split_whitespace().map(OsString::from))
}

/// The options that the pass gets for these flags, as one list.
fn list(line: &str) -> String {
    let entries = flags(line).unwrap().for_pass(Path::new("/w")).unwrap();
    entries.join(";".as_ref()).into_string().unwrap()
}

#[test]
fn flags_of_the_wrapper_are_read() {
    let read = flags(
        "--pcce-mode=module --pcce-verify --pcce-no-callback=x --pcce-targets=f,@g --pcce-no-callback=y \
         --pcce-targets=h --pcce-id-bits=31 --pcce-profile-use=x --pcce-profile-use=y --pcce-profile-generate \
         --pcce-hybrid --pcce-id-bits=32 --pcce-trace",
    )
    .unwrap();
    assert_eq!(read.mode, Some(Mode::Module));
    assert!(
        read.common.verify
            && read.common.hybrid
            && read.common.trace == Some(Granularity::Calls)
            && !read.heap
            && !read.help
    );
    assert_eq!(read.common.targets, ["f", "@g", "h"]);
    assert_eq!(read.common.profile_generate, Some("pcce-calls.%p".into()));
    assert_eq!(read.common.profile_use, Some("y".into()));
    assert_eq!(read.common.id_bits, 32);
    assert_eq!(read.common.no_callback, [PathBuf::from("x"), "y".into()]);
    assert_eq!(read.common.crash_report, None);
    assert_eq!(flags("--pcce-mode=module --pcce-mode=lto").unwrap().mode, Some(Mode::Lto));
    assert_eq!(flags("--pcce-crash-report").unwrap().common.crash_report, Some("stderr".into()));
}

#[test]
fn wrong_flags_are_named() {
    for (flag, reason) in [
        ("--pcce-speed", "unexpected argument '--pcce-speed'"),
        ("--pcce-mod=lto", "a similar argument exists: '--pcce-mode'"),
        ("--pcce-verify=yes", "unexpected value 'yes' for '--pcce-verify'"),
        ("--pcce-", "unexpected argument '--pcce-'"),
        ("--pcce-mode", "'--pcce-mode=<MODE>'"),
        (
            "--pcce-mode=thin",
            "invalid value 'thin' for '--pcce-mode=<MODE>' [possible values: lto, module, link]",
        ),
        ("--pcce-targets=", "'--pcce-targets=<NAME>'"),
        ("--pcce-no-callback=", "'--pcce-no-callback=<FILE>'"),
        ("--pcce-profile-generate=", "'--pcce-profile-generate"),
        ("--pcce-profile-use", "'--pcce-profile-use=<FILE>'"),
        ("--pcce-id-bits=64", "64 is not in 8..=63"),
        ("--pcce-launch=ccache", "--pcce-launch"),
        ("--pcce-basic", "unexpected argument '--pcce-basic'"),
    ] {
        let error = flags(flag).unwrap_err().to_string();
        assert!(error.contains(reason), "{flag}: {error}");
        assert!(error.ends_with("`--pcce-help` lists the wrapper's own flags"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn what_the_wrapper_hands_on_is_what_the_pass_reads() {
    for line in [
        "",
        "--pcce-verify --pcce-verify-report=report",
        "--pcce-targets=f,app::Log::write,@/names --pcce-targets=g",
        "--pcce-profile-generate --pcce-id-bits=12",
        "--pcce-profile-generate=p.%p --pcce-hybrid --pcce-crash-report=log/a",
        "--pcce-no-callback=/a --pcce-no-callback=/b --pcce-profile-use=/c --pcce-crash-report",
    ] {
        let read = PassOptions::read([&*list(line)]).unwrap();
        assert_eq!(read.common, flags(line).unwrap().common, "{line}");
    }
}

#[test]
fn files_that_are_read_become_absolute() {
    assert_eq!(
        list("--pcce-no-callback=l --pcce-no-callback=/a/m --pcce-targets=f,@t --pcce-profile-use=p"),
        "target=f;target=@/w/t;profile-use=/w/p;no-callback=/w/l;no-callback=/a/m"
    );
    // These are files of the program that is built.
    assert_eq!(
        list("--pcce-crash-report=log/a --pcce-profile-generate=p"),
        "profile-generate=p;crash-report=log/a"
    );
}

#[test]
fn a_path_that_the_list_cannot_hold_is_an_error() {
    for (line, named) in
        [("--pcce-crash-report=a;b", "`a;b`"), ("--pcce-no-callback=a;b", "`/w/a;b` contains a `;`")]
    {
        let error = flags(line).unwrap().for_pass(Path::new("/w")).unwrap_err().to_string();
        assert!(error.contains(named) && error.contains("PCCE_OPTIONS"), "{error}");
    }
}

#[test]
fn options_of_the_pass_are_read() {
    let read = PassOptions::read(["verify; no-silent ;; target=Map<int, 4>::put", "executable"]).unwrap();
    assert!(read.common.verify);
    assert!(!read.silent());
    assert_eq!(read.common.targets, ["Map<int, 4>::put"]);
    assert_eq!(read.makes_executable(), Some(true));
    assert_eq!(PassOptions::default().makes_executable(), None);
    assert_eq!(PassOptions::read(["executable;shared"]).unwrap().makes_executable(), Some(false));
    assert!(!PassOptions::read(["basic"]).unwrap().silent());
    assert!(PassOptions::default().silent());
    for wrong in ["speed", "verify=1", "id-bits=64", "no-callback", "mode=lto"] {
        let error = PassOptions::read([wrong]).unwrap_err().to_string();
        assert!(error.contains("there are: verify, verify-report, ") && !error.contains("--pcce"), "{error}");
        assert!(error.contains(wrong.split('=').next().unwrap()), "{error}");
    }
}

#[test]
fn files_that_the_pass_reads_are_known() {
    let list = "no-callback=/a;target=f; target=@/b;profile-use=/c;profile-generate=/d;no-callback=e";
    assert_eq!(PassOptions::read([list]).unwrap().files, ["/b", "/c", "/a", "e"].map(PathBuf::from));
}

#[test]
fn the_options_given_are_described_in_one_order() {
    let described = PassOptions::read(["id-bits=63;verify", "publish"]).unwrap().describe();
    assert_eq!(described, ["verify", "id-bits=63", "publish"]);
}

#[test]
fn help_names_all_flags() {
    let help = wrapper_help("pcce-clang");
    for flag in
        ["--pcce-mode=MODE", "--pcce-targets=NAME,…", "--pcce-crash-report[=PATH]", "--pcce-launch COMMAND"]
    {
        assert!(help.contains(flag), "{help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 110), "{help}");
    assert!(!help.contains("--pcce-basic"), "{help}");
}

#[test]
fn cmake_has_a_keyword_for_each_option() {
    let keywords = cmake_keywords();
    assert!(keywords.contains("set(_PCCE_SWITCHES VERIFY HYBRID NUMBER_LINES HEAP THROWN)"), "{keywords}");
    assert!(keywords.contains("CRASH_REPORT TRACE KEEP)"), "{keywords}");
    assert!(keywords.contains("set(_PCCE_LISTS TARGETS NO_CALLBACK TRACE_SKIP TRACE_ONLY)"), "{keywords}");
    assert!(keywords.contains("set(_PCCE_FILES PROFILE_USE NO_CALLBACK)"), "{keywords}");
}

/// The modes in which each option has an effect. All options are here, so that a new one is not forgotten.
#[test]
fn options_that_do_nothing_are_refused() {
    use Mode::{Link, Lto, Module};
    const ANYWHERE: &[Mode] = &[Link, Lto, Module];
    let table: &[(&str, &[Mode], &str)] = &[
        ("--pcce-mode=link", ANYWHERE, ""),
        ("--pcce-verify", ANYWHERE, ""),
        ("--pcce-verify-report=r", ANYWHERE, "--pcce-verify"),
        ("--pcce-targets=f", &[Link, Lto, Module], ""),
        ("--pcce-profile-generate", ANYWHERE, ""),
        ("--pcce-profile-use=p", ANYWHERE, ""),
        ("--pcce-id-bits=9", ANYWHERE, ""),
        ("--pcce-hybrid", &[Lto, Link], ""),
        // In module mode, and in libraries, numbers always tell lines apart.
        ("--pcce-number-lines", ANYWHERE, ""),
        ("--pcce-no-callback=f", ANYWHERE, ""),
        ("--pcce-crash-report", ANYWHERE, ""),
        ("--pcce-trace", ANYWHERE, ""),
        ("--pcce-trace-skip=f", ANYWHERE, "--pcce-trace"),
        ("--pcce-trace-only=f", ANYWHERE, "--pcce-trace=blocks"),
        ("--pcce-llvm=19", ANYWHERE, ""),
        ("--pcce-heap", ANYWHERE, ""),
        ("--pcce-thrown", ANYWHERE, ""),
        ("--pcce-keep", &[Link], ""),
        ("--pcce-launch=", ANYWHERE, ""),
        ("--pcce-help", ANYWHERE, ""),
    ];
    let help = wrapper_help("pcce-clang");
    let documented = help.lines().filter_map(|line| line.strip_prefix("  --pcce-"));
    let documented: Vec<&str> = documented.filter_map(|flag| flag.split(['=', '[', ' ']).next()).collect();
    let known: Vec<&str> = table
        .iter()
        .map(|(flag, _, _)| flag.trim_start_matches("--pcce-").split('=').next().unwrap_or_default())
        .collect();
    assert_eq!(known, documented);
    let none = PassOptions::default();
    for &(flag, modes, needs) in table.iter().filter(|(flag, _, _)| !flag.starts_with("--pcce-launch")) {
        let whole = flags(&format!("{flag} {needs}")).unwrap();
        let alone = flags(flag).unwrap();
        for mode in ANYWHERE {
            let used = whole.check_used(&none, *mode);
            assert_eq!(used.is_ok(), modes.contains(mode), "{flag} in {mode:?}: {used:?}");
            let used = alone.check_used(&none, *mode).is_ok();
            assert_eq!(used, modes.contains(mode) && needs.is_empty(), "{flag} alone in {mode:?}");
        }
    }
    let list = |text: &str| PassOptions::read([text]).unwrap();
    let error = flags("").unwrap().check_used(&list("verify;hybrid"), Module).unwrap_err().to_string();
    assert!(error.starts_with("`--pcce-hybrid` would do nothing: it needs the code of a whole"), "{error}");
    assert!(flags("--pcce-trace-skip=f").unwrap().check_used(&list("trace=blocks"), Lto).is_ok());
    for (refused, text) in [
        (true, "trace-skip=f"),
        (true, "trace-baseline=fi"),
        (true, "verify-report=r"),
        (false, "hybrid"),
        (false, "target=f"),
        (false, "whole-program;hybrid"),
        (false, "trace;trace-only=f"),
    ] {
        assert_eq!(list(text).check_used().is_err(), refused, "{text}");
    }
    for (told, text, whole_program, executable) in [
        (0, "hybrid", true, true),
        (1, "hybrid", true, false),
        (1, "hybrid", false, false),
        (1, "hybrid;profile-generate=p", true, true),
        (0, "verify;id-bits=9;trace", false, false),
    ] {
        let without_effect = list(text).without_effect(whole_program, executable);
        assert_eq!(without_effect.len(), told, "{text}: {without_effect:?}");
    }
}
