//! Runs every command in the ```` ```console ```` blocks of the user's guide, with an installation of its own, and
//! compares the output with that in the guide.
//!
//! - a line that ends in "this as `NAME`:" writes the block behind it to a file of the page's folder;
//! - behind `<!-- from PATH -->` stands the text of that file, in a block or up to `<!-- end -->`;
//! - tokens, addresses, process numbers and build ids, which differ between runs, are not compared;
//! - the page calls its folder `/home/me/PAGE`, and the installation `/usr/local`;
//! - `PCCE_GUIDE=write` writes the output into the pages, for a review.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use pcce_abi::token::PREFIXES;
use pcce_testsuite::{files, install, repository, run_within, target, work_folder};

/// The time limit for all commands of a page.
const LIMIT: Duration = Duration::from_secs(600);

fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = work_folder("guide-prefix");
        install(&prefix);
        prefix
    })
}

/// A page with the texts of the files that it shows.
fn with_files(page: &str) -> String {
    let mut out = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        out += &format!("{line}\n");
        let Some(path) = line.strip_prefix("<!-- from ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let fence = lines.next_if(|line| line.starts_with("```"));
        let end = if fence.is_some() { "```" } else { "<!-- end -->" };
        let last = lines.find(|line| *line == end).unwrap_or_else(|| panic!("{path}: there is no `{end}`"));
        let (path, anchor) = path.split_once(':').unwrap_or((path, ""));
        let whole = fs::read_to_string(repository().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        let text = match anchor {
            "" => &*whole,
            _ => {
                let (_, rest) = whole.split_once(&format!("<!-- ANCHOR: {anchor} -->\n")).expect("an anchor");
                rest.split_once(&format!("<!-- ANCHOR_END: {anchor} -->")).expect("its end").0
            }
        };
        fence.iter().for_each(|fence| out += &format!("{fence}\n"));
        out += &format!("{text}{last}\n");
    }
    out
}

fn writes() -> bool {
    std::env::var("PCCE_GUIDE").is_ok_and(|value| value == "write")
}

enum Piece<'p> {
    Text(&'p str),
    /// The command with `$ ` in front, and its output.
    Command(Vec<&'p str>, Vec<&'p str>),
}

/// Splits a page into pieces, and writes its files.
fn pieces<'p>(page: &'p str, folder: &Path) -> Vec<Piece<'p>> {
    let mut pieces = Vec::new();
    let mut lines = page.lines().peekable();
    let mut file = None;
    while let Some(line) = lines.next() {
        pieces.push(Piece::Text(line));
        assert!(!line.starts_with("<!-- run:"), "a reader does not see this: {line}");
        if let Some(name) = line.strip_suffix("`:").and_then(|line| line.rsplit_once("this as `")) {
            file = Some(name.1);
        } else if line == "```console" {
            while let Some(line) = lines.next_if(|line| *line != "```") {
                let mut command = vec![line];
                assert!(line.starts_with("$ "), "the block starts with no command: {line}");
                while command.last().is_some_and(|line| line.ends_with('\\')) {
                    command.extend(lines.next());
                }
                let mut output = Vec::new();
                while let Some(line) = lines.next_if(|line| *line != "```" && !line.starts_with("$ ")) {
                    output.push(line);
                }
                pieces.push(Piece::Command(command, output));
            }
            pieces.extend(lines.next().map(Piece::Text));
        } else if line.starts_with("```") {
            let mut content = String::new();
            while let Some(line) = lines.next_if(|line| *line != "```") {
                pieces.push(Piece::Text(line));
                content.push_str(line);
                content.push('\n');
            }
            pieces.extend(lines.next().map(Piece::Text));
            if let Some(name) = file.take() {
                fs::write(folder.join(name), content).expect("can be written");
            }
        }
    }
    pieces
}

/// Options whose values are numbers from the kernel. They may be small.
const NUMBERED: [&str; 5] = ["process: ", "process ", "thread: ", "thread ", "\"process\":"];

/// The part of a line that is the same in each run.
fn lasting(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let word = |of: fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
        let hex = word(|c| c.is_ascii_hexdigit());
        let digits = word(|c| c.is_ascii_digit());
        let length = if PREFIXES.iter().any(|prefix| rest.starts_with(prefix)) {
            word(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '*'))
        } else if let Some(address) = rest.strip_prefix("0x") {
            2 + address.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(address.len())
        } else if hex >= 12 {
            hex
        } else if digits >= 4 || digits > 0 && NUMBERED.iter().any(|kind| out.ends_with(kind)) {
            digits
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.push('…');
        rest = &rest[length..];
    }
    out
}

/// Turns a script shell's message about a program that died into an interactive shell's.
fn as_typed(line: &str) -> &str {
    const DEATH: &str = "Segmentation fault";
    if line.starts_with(".script: line ") && line.contains(DEATH) { DEATH } else { line }
}

/// Runs the commands of a page in a folder called `name`.
fn check(page: &str, name: &str) {
    let path = repository().join(page);
    let page = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let page = if writes() { with_files(&page) } else { page };
    let folder = work_folder(&format!("guide/{name}"));
    let pieces = pieces(&page, &folder);
    let installed = format!("{}/", prefix().display());
    // The folder for core files of this machine is not used.
    let mut script = "ulimit -c 0\n".to_owned();
    for piece in &pieces {
        match piece {
            Piece::Command(command, _) => {
                script += &format!(
                    "echo @@@\n{{ {}\n}} 2>&1 < /dev/null\n",
                    &command.join("\n")[2..].replace("/usr/local/", &installed)
                );
            }
            Piece::Text(_) => {}
        }
    }
    let mut path_variable = prefix().join("bin").into_os_string();
    path_variable.push(":");
    path_variable.push(std::env::var_os("PATH").unwrap_or_default());
    fs::write(folder.join(".script"), script).expect("can be written");
    let mut bash = Command::new("bash");
    bash.arg(".script")
        .current_dir(&folder)
        .env("PATH", path_variable)
        .env("PCCE_SOURCE", repository())
        .env("CARGO_TARGET_DIR", target())
        .env("LC_ALL", "C.UTF-8")
        .env("PREFIX", prefix());
    let printed = run_within(&mut bash, "", LIMIT).unwrap_or_else(|e| panic!("{e}")).stdout;
    let printed = printed
        .replace(&*folder.to_string_lossy(), &format!("/home/me/{name}"))
        .replace(&*prefix().to_string_lossy(), "/usr/local");
    let mut outputs = printed.split("@@@\n").skip(1);
    let write = writes();
    let mut written = String::new();
    for piece in &pieces {
        match piece {
            Piece::Text(line) => written += &format!("{line}\n"),
            Piece::Command(command, expected) => {
                let output = outputs.next().unwrap_or_default();
                let same = |lines: &[&str]| lines.iter().map(|line| lasting(line)).collect::<Vec<_>>();
                let printed: Vec<&str> = output.lines().map(|line| as_typed(line.trim_end())).collect();
                assert!(
                    write || same(&printed) == same(expected),
                    "{}, `{}`, printed\n{output}",
                    path.display(),
                    command.join("\n")
                );
                // The text of the page, if it is the same except for numbers.
                let kept = if same(&printed) == same(expected) { expected } else { &printed };
                command.iter().chain(kept).for_each(|line| written += &format!("{line}\n"));
            }
        }
    }
    if write {
        fs::write(&path, written).expect("can be written");
    }
}

macro_rules! pages {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            let name = stringify!($name);
            check(&format!("docs/guide/src/{name}.md"), name);
        })*
    };
}

pages! {
    start, building, ship, decode, debuggers, logs, numbers, modes, profile, adapt, crash, core, heap, cpu, pictures,
    messages, traces, parts, threads
}

#[test]
fn readme() {
    check("README.md", "readme");
}

/// Pages that are read in the repository show their programs.
#[test]
fn pages_show_the_texts_of_files() {
    let mut seen = 0;
    for path in files(&repository().join("docs/guide/src")).expect("pages") {
        if path.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let page = fs::read_to_string(&path).expect("a page");
        let shown = with_files(&page);
        seen += page.matches("<!-- from ").count();
        // Tests of pages with commands write these.
        if writes() && !page.contains("```console") {
            fs::write(&path, &shown).expect("can be written");
        }
        let written = writes() || shown == page;
        assert!(
            written,
            "{}: a program is another one in its file; PCCE_GUIDE=write writes it",
            path.display()
        );
        let included =
            page.contains("{{#include") && path.file_name().is_some_and(|name| name != "formats.md");
        assert!(
            !included,
            "{}: who reads it in the repository does not see what it includes",
            path.display()
        );
    }
    assert!(seen > 10, "{seen}");
}
