//! The wrapper executables against the real clang: `-###` shows the commands that clang would run, without
//! the plugin being loaded. The test suite checks what instrumented programs do.
//!
//! The executables are linked into a folder with empty stand-ins for the plugin and the runtime, which `-###`
//! never opens.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::{fs, str};

struct Wrapper {
    folder: tempfile::TempDir,
}

impl Wrapper {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let bin = folder.path().join("prefix/bin");
        let libraries = folder.path().join("prefix/lib/pcce");
        let llvm = libraries.join(format!("llvm-{}", pcce_options::llvm()));
        let include = folder.path().join("prefix/include");
        for directory in [&bin, &llvm, &include] {
            fs::create_dir_all(directory).unwrap();
        }
        // Links, not copies: another thread of the tests, about to run a program, could hold a written file
        // open.
        fs::hard_link(env!("CARGO_BIN_EXE_pcce-clang"), bin.join("pcce-clang")).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_pcce-clangxx"), bin.join("pcce-clang++")).unwrap();
        fs::hard_link(env!("CARGO_BIN_EXE_pcce-ld"), bin.join("pcce-ld")).unwrap();
        fs::write(llvm.join("libpcce_pass.so"), "").unwrap();
        for file in ["libpcce_rt.a", "libpcce_libc.a", "libpcce_rt.so"] {
            fs::write(libraries.join(file), "").unwrap();
        }
        fs::write(include.join("pcce.h"), "#define PCCE_FOUND 1\n").unwrap();
        fs::write(
            folder.path().join("a.c"),
            "#include <pcce.h>\nint main(void) { return PCCE_FOUND - 1; }\n",
        )
        .unwrap();
        Wrapper { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.path("prefix/bin").join(name));
        command.current_dir(self.folder.path()).env_remove("PCCE_OPTIONS");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command("pcce-clang").args(arguments).output().unwrap()
    }

    fn succeed(&self, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    }

    /// The commands that clang would run, one a line.
    fn jobs(&self, arguments: &[&str]) -> Vec<String> {
        let (_, stderr) = self.succeed(&[&["-###"], arguments].concat());
        stderr.lines().filter(|line| line.starts_with(" \"")).map(str::to_owned).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    str::from_utf8(bytes).unwrap().to_owned()
}

#[test]
fn a_whole_program_is_instrumented_once_by_the_linker() {
    let jobs = Wrapper::new().jobs(&["--pcce-mode=lto", "-O2", "a.c", "-o", "x"]);
    let [compile, link] = jobs.as_slice() else { panic!("{jobs:#?}") };
    assert!(compile.contains("\"-flto=full\"") && !compile.contains("libpcce_pass"), "{compile}");
    assert!(link.contains("ld.lld\""), "{link}");
    for part in [
        "--load-pass-plugin=",
        "lib/pcce/libpcce_rt.a\"",
        "\"--build-id\"",
        "\"--export-dynamic-symbol=pcce_token\"",
    ] {
        assert!(link.contains(part), "no {part}: {link}");
    }
}

#[test]
fn a_module_is_instrumented_by_the_compiler() {
    let jobs = Wrapper::new().jobs(&["--pcce-mode=module", "a.c", "-o", "x"]);
    let [compile, link] = jobs.as_slice() else { panic!("{jobs:#?}") };
    assert!(compile.contains("\"-fpass-plugin=") && !compile.contains("-flto"), "{compile}");
    assert!(link.contains("libpcce_rt.a") && !link.contains("libpcce_pass"), "{link}");
}

#[test]
fn where_no_mode_is_named_the_users_linker_links_behind_our_front() {
    let wrapper = Wrapper::new();
    let jobs = wrapper.jobs(&["a.c", "-o", "x"]);
    let [compile, link] = jobs.as_slice() else { panic!("{jobs:#?}") };
    assert!(compile.contains("\"-fpass-plugin=") && !compile.contains("-flto"), "{compile}");
    assert!(link.contains("/bin/pcce-ld\"") && !link.contains("libpcce_pass"), "{link}");
    // A question of a configure script, which leaves nothing to encode.
    let version = wrapper.succeed(&["-Wl,--version", "-o", "x"]).0;
    assert!(version.contains("GNU ld"), "{version}");
}

#[test]
fn the_runtime_stays_an_archive_under_a_language_option() {
    let jobs = Wrapper::new().jobs(&["-x", "c", "a.c", "-o", "x"]);
    assert_eq!(jobs.len(), 2, "{jobs:#?}");
    let runtime = jobs[1].find("libpcce_rt.a").unwrap();
    assert!(runtime < jobs[1].find("\"-lc\"").unwrap(), "the runtime needs libc after it: {}", jobs[1]);
}

#[test]
fn shared_libraries_get_the_shared_runtime_by_name() {
    let jobs = Wrapper::new().jobs(&["-shared", "-fPIC", "a.c", "-o", "x.so"]);
    let link = jobs.last().unwrap();
    assert!(link.contains("\"-lpcce_rt\"") && link.contains("\"-rpath="), "{link}");
    assert!(!link.contains("libpcce_rt.a"), "{link}");
}

#[test]
fn nothing_we_add_is_reported_as_unused() {
    let wrapper = Wrapper::new();
    fs::write(wrapper.path("s.s"), "").unwrap();
    for arguments in [
        ["-c", "--pcce-mode=lto", "a.c"].as_slice(),
        &["-c", "s.s"],
        &["-c", "--pcce-mode=lto", "s.s"],
        &["-E", "a.c"],
        &["-M", "a.c"],
        &["-fsyntax-only", "a.c"],
        &["-###", "a.c"],
        &["-###", "-shared", "a.c"],
        &["-###", "-r", "a.c"],
        &["-###", "--pcce-mode=lto", "a.c"],
        &["-###", "--pcce-mode=lto", "-shared", "a.c"],
        &["-###", "--pcce-mode=lto", "-r", "a.c"],
        &["-###", "s.s"],
        &["-c", "--pcce-mode=module", "s.s"],
        &["-###", "--pcce-mode=module", "a.c"],
        &["-###", "--pcce-mode=module", "-static", "a.c"],
    ] {
        let (_, stderr) = wrapper.succeed(&[&["-Werror=unused-command-line-argument"], arguments].concat());
        assert!(
            !stderr.contains("argument unused") && !stderr.contains("input unused"),
            "{arguments:?}: {stderr}"
        );
    }
}

#[test]
fn compilations_in_lto_mode_work_without_the_plugin() {
    let wrapper = Wrapper::new();
    let compile = |arguments: &[&str]| wrapper.succeed(&[&["--pcce-mode=lto"], arguments].concat()).0;
    compile(&["-c", "a.c", "-MD", "-MF", "a.d", "-o", "a.o"]);
    assert!(fs::read_to_string(wrapper.path("a.d")).unwrap().contains("pcce.h"));
    compile(&["-c", "a.c", "-o", "/dev/null"]);
    let preprocessed = compile(&["-E", "a.c"]);
    assert!(preprocessed.contains("return 1 - 1;"), "{preprocessed}");
    compile(&["-x", "c-header", "a.c", "-o", "a.gch"]);
    assert!(fs::metadata(wrapper.path("a.gch")).unwrap().len() > 0);
}

#[test]
fn object_files_show_their_symbols_to_tools_without_bitcode() {
    let wrapper = Wrapper::new();
    wrapper.succeed(&["-c", "--pcce-mode=lto", "a.c", "-o", "a.o"]);
    let object = fs::read(wrapper.path("a.o")).unwrap();
    assert_eq!(object[..4], *b"\x7fELF");
    assert!(object.windows(9).any(|part| part == b".llvm.lto"));
}

#[test]
fn questions_are_answered_as_clang_does() {
    let wrapper = Wrapper::new();
    let version = format!("{}.", pcce_options::llvm());
    let told = wrapper.succeed(&["--version"]).0;
    assert!(told.lines().next().unwrap().contains(&format!("clang version {version}")), "{told}");
    let llvm = pcce_options::llvm();
    assert!(
        told.ends_with(&format!(", with the pass for LLVM {llvm}\n")) && told.contains("\nPCCE 0."),
        "{told}"
    );
    assert!(wrapper.succeed(&["-v"]).1.contains(&format!("clang version {version}")));
    assert!(wrapper.succeed(&["-dumpversion"]).0.starts_with(&version));
    assert!(wrapper.succeed(&["-print-search-dirs"]).0.contains("libraries:"));
    assert!(wrapper.succeed(&["--pcce-verify", "-dumpmachine"]).0.contains('-'));
    let output = wrapper.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no input files"));
}

#[test]
fn the_second_wrapper_is_a_cxx_compiler() {
    let wrapper = Wrapper::new();
    let output = wrapper.command("pcce-clang++").args(["-###", "x.o"]).output().unwrap();
    assert!(text(&output.stderr).contains("\"-lstdc++\""), "{}", text(&output.stderr));
}

#[test]
fn response_files_reach_clang() {
    let wrapper = Wrapper::new();
    fs::write(wrapper.path("plain"), "-O1 --pcce-mode=lto 'a.c'\n").unwrap();
    fs::write(wrapper.path("own"), "@plain --pcce-mode=module -o 'a b'").unwrap();
    assert!(wrapper.jobs(&["@plain"])[1].contains("--load-pass-plugin="));
    let jobs = wrapper.jobs(&["@own"]);
    assert!(jobs[0].contains("\"-O1\"") && jobs[0].contains("-fpass-plugin="), "{jobs:#?}");
    assert!(jobs[1].contains("\"a b\""), "{jobs:#?}");
}

#[test]
fn a_missing_part_is_named_with_the_cure() {
    let wrapper = Wrapper::new();
    fs::remove_file(wrapper.path("prefix/lib/pcce/libpcce_rt.a")).unwrap();
    let output = wrapper.run(&["a.c"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(
        stderr.starts_with("pcce-clang: error: `") && stderr.contains("lib/pcce/libpcce_rt.a"),
        "{stderr}"
    );
    assert!(stderr.contains("make build"), "{stderr}");
    wrapper.succeed(&["-c", "--pcce-mode=lto", "a.c"]);
}

#[test]
fn unknown_flags_of_ours_are_refused() {
    let output = Wrapper::new().run(&["--pcce-sped", "-c", "a.c"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("unexpected argument '--pcce-sped'"));
}

#[test]
fn help_lists_every_flag() {
    let (stdout, _) = Wrapper::new().succeed(&["--pcce-help"]);
    for flag in ["--pcce-mode=MODE", "--pcce-verify", "--pcce-no-callback=FILE", "--pcce-help"] {
        assert!(stdout.contains(flag), "{stdout}");
    }
}

#[test]
fn symbolic_links_to_the_wrapper_find_its_files() {
    let wrapper = Wrapper::new();
    let link = wrapper.path("cc");
    std::os::unix::fs::symlink(wrapper.path("prefix/bin/pcce-clang"), &link).unwrap();
    let output = Command::new(&link).args(["-###", "x.o"]).output().unwrap();
    let libraries = fs::canonicalize(wrapper.path("prefix/lib/pcce")).unwrap();
    assert!(text(&output.stderr).contains(libraries.to_str().unwrap()), "{}", text(&output.stderr));
}

#[test]
fn bitcode_in_a_link_in_module_mode_is_an_error() {
    let wrapper = Wrapper::new();
    wrapper.succeed(&["-c", "--pcce-mode=lto", "a.c", "-o", "fat.o"]);
    wrapper.succeed(&["-c", "--pcce-mode=lto", "-fno-fat-lto-objects", "a.c", "-o", "bare.o"]);
    let ar = |arguments: &[&str]| {
        assert!(
            Command::new("ar").args(arguments).current_dir(wrapper.folder.path()).status().unwrap().success()
        );
    };
    ar(&["rcs", "libfat.a", "fat.o"]);
    ar(&["rcsT", "libthin.a", "bare.o"]);
    for (inputs, culprit) in [
        (["fat.o"].as_slice(), "fat.o"),
        (&["bare.o", "-fuse-ld=lld"], "bare.o"),
        (&["-r", "fat.o"], "fat.o"),
        (&["-L.", "-lfat"], "libfat.a"),
        (&["-Wl,--whole-archive,libthin.a"], "libthin.a"),
    ] {
        let output = wrapper.run(&[&["--pcce-mode=module", "-o", "x"], inputs].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{inputs:?}: {stderr}");
        assert!(
            stderr.contains(culprit)
                && stderr.contains("holds bitcode")
                && stderr.contains("without `-emit-llvm`"),
            "{inputs:?}: {stderr}"
        );
        // Without a named mode, bitcode is linked in lto mode.
        let jobs = wrapper.jobs(inputs);
        assert!(jobs.iter().any(|job| job.contains("--load-pass-plugin=")), "{jobs:#?}");
    }
    let words = ["fat.o", "bare.o", "libfat.a", "libthin.a", "a.c"].map(|name| wrapper.path(name).into());
    let words = pcce_wrapper::args::parse(words, |_| None).unwrap().words;
    let found = pcce_wrapper::inputs::of(&words).bitcode;
    let llvm: u32 = pcce_options::llvm();
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|file| file.llvm == Some(llvm)), "{found:?}");
}

/// rustc's bitcode, where its LLVM is newer than this build's: an error with the cure, or the other LLVM.
#[test]
fn newer_bitcode_is_linked_by_its_own_llvm() {
    let wrapper = Wrapper::new();
    fs::write(wrapper.path("a.rs"), "pub fn f() {}\n").unwrap();
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--crate-type=lib", "--emit=llvm-bc", "a.rs", "-o", "rust.o"])
        .current_dir(wrapper.folder.path());
    assert!(rustc.status().unwrap().success());
    let words = pcce_wrapper::args::parse([wrapper.path("rust.o").into()], |_| None).unwrap().words;
    let newer = pcce_wrapper::inputs::of(&words).bitcode[0].llvm.unwrap();
    let own = pcce_options::llvm();
    if newer <= own {
        eprintln!("not tested: rustc's LLVM {newer} is not newer than {own}");
        return;
    }
    let output = wrapper.run(&["rust.o"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains(&format!("bitcode of LLVM {newer}, which lld {own} cannot read")), "{stderr}");
    assert!(stderr.contains(&format!("make install LLVM={newer}")), "{stderr}");

    // A stand-in for the other compiler, which prints its arguments.
    let plugin = wrapper.path(&format!("prefix/lib/pcce/llvm-{newer}/libpcce_pass.so"));
    fs::create_dir_all(plugin.parent().unwrap()).unwrap();
    fs::write(&plugin, "").unwrap();
    let folder = wrapper.path(&format!("llvm-{newer}/bin"));
    fs::create_dir_all(&folder).unwrap();
    for name in [format!("clang-{newer}"), "ld.lld".to_owned()] {
        let program = folder.join(name);
        fs::write(&program, "#!/bin/sh\necho \"$0 $@\"\n").unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let run = |arguments: &[&str]| {
        wrapper.command("pcce-clang").args(arguments).env("PATH", &path).output().unwrap()
    };
    let printed = text(&run(&["rust.o"]).stdout);
    assert!(printed.contains(&format!("/clang-{newer} ")), "{printed}");
    assert!(printed.contains(&format!("--load-pass-plugin={}", plugin.display())), "{printed}");
    // A user who asks for one LLVM gets that one.
    assert_eq!(run(&[&format!("--pcce-llvm={own}"), "rust.o"]).status.code(), Some(1));
    let asked = text(&run(&[&format!("--pcce-llvm={newer}"), "-###", "a.c"]).stdout);
    assert!(asked.contains(&format!("/clang-{newer} ")), "{asked}");
}
