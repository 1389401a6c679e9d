//! Test programs: small C and C++ files whose leading comments give the expected contexts.
//!
//! A program prints lines `@NAME TOKEN NUMBER PROCESS` with the macro `SHOW("NAME")` of `programs/show.h`. All
//! other lines of its output must be those of the same program compiled by plain clang.
//!
//! | directive | meaning |
//! |---|---|
//! | `//# Chain NAME: f < g < main` | the context shown as NAME, innermost function first. One directive: every such line; several: the n-th directive for the n-th line |
//! | `//# Lines NAME: a < b < c` | the frames' lines, each by a label `//@a` at the end of the source line |
//! | `//# Fixed NAME` | in LTO mode the context's number is the same in every run (below 2^63) |
//! | `//# Flags: …` | more flags for the compiler |
//! | `//# With: parts/a.c …` | further modules, each compiled by itself |
//! | `//# WithModule: parts/a.c …` | further modules, in module mode whatever the program's mode is |
//! | `//# Library: parts/a.c …` | shared libraries that the program is linked with |
//! | `//# PlainLibrary: parts/a.c …` | such shared libraries, compiled by plain clang |
//! | `//# Loaded: parts/a.c …` | shared libraries whose paths are the program's arguments |
//! | `//# Preloaded: parts/a.c …` | shared libraries that are loaded before the others (`LD_PRELOAD`) |
//! | `//# LibraryFlags: …` | more flags for the compiler of shared libraries |
//! | `//# PlainProgram` | the program itself is compiled by plain clang (its library is not) |
//! | `//# ExitStatus: n` | the exit status (0 without it) |
//! | `//# Levels: -O0 …` | optimisation levels (`-O0 -O2` without it) |
//! | `//# Modes: lto module` | the wrapper's modes (`lto`, `module` and `link` without it) |
//! | `//# Shapes` | also without `-g`, and as no-PIE, PIE, static and static-PIE program |
//! | `//# Cut` | it switches stacks unannounced: verify mode cannot compare all entries |
//! | `//# Broken: reason` | the program fails, for a known reason; it is an error if it does not |
//!
//! `Chain`, `Fixed`, `Flags` and `Broken` take conditions: `//# Chain[lto, -O2] NAME: …` holds only there, and has
//! precedence over one without conditions. A condition is a mode (`lto`, `module`, `link`), a level,
//! `verify`, `plain`, or a shape (`hybrid`, `nodebug`, `no-pie`, `pie`, `static`, `static-pie`, `pic`, `pic-no-pie`),
//! or the name of an emulated machine (`aarch64`);
//! `!` before it means the opposite.
//!
//! In a chain, functions have their demangled names, without the parameters where the directive names none.
//! `inlined f` is a frame that was inlined into the next one. `f*3` is three frames. `...` stands for any number of
//! frames (for the insides of the standard library only). Boundaries: `<qsort>`, code that is not
//! instrumented, after a call of `qsort`; `<?>`, code that is not instrumented and not known by
//! name; `<none>`, no context at all (a thread or program in which nothing is instrumented); `<tail f>`, `<unknown f>`,
//! `<unknown>`, `<unknown-module>`, `<truncated>`, `<damaged>`, `<signal>`, `<thread>` (below it, the thread's
//! creation), `<task>` (below it, the task's submission).

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A directive with the conditions under which it holds.
#[derive(Clone, Debug)]
struct Directive {
    key: String,
    conditions: Vec<String>,
    /// The text between the key and the colon.
    name: String,
    value: String,
}

/// The way in which a shared library gets into the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loading {
    /// The program is linked with it.
    Linked,
    /// The program loads it by its path, an argument.
    Loaded,
    /// The dynamic linker loads it before all others.
    Preloaded,
}

/// A shared library of a test program.
#[derive(Clone, Debug)]
pub struct Library {
    pub source: PathBuf,
    pub instrumented: bool,
    /// How it gets into the process.
    pub loading: Loading,
}

#[derive(Clone, Debug)]
pub struct Program {
    /// File name without extension.
    pub name: String,
    pub path: PathBuf,
    directives: Vec<Directive>,
    /// Lines of the labels in all sources of the program.
    labels: HashMap<String, u64>,
}

/// The directives, each with whether a value must follow.
const KEYS: [(&str, bool); 18] = [
    ("Chain", true),
    ("Lines", true),
    ("Fixed", false),
    ("Flags", true),
    ("With", true),
    ("WithModule", true),
    ("Library", true),
    ("PlainLibrary", true),
    ("Loaded", true),
    ("Preloaded", true),
    ("LibraryFlags", true),
    ("PlainProgram", false),
    ("ExitStatus", true),
    ("Levels", true),
    ("Modes", true),
    ("Shapes", false),
    ("Cut", false),
    ("Broken", true),
];

impl Program {
    /// Reads a program's directives.
    ///
    /// # Panics
    /// If there is one that does not exist or lacks its value: it would check nothing.
    pub fn read(path: &Path) -> Self {
        let text = read(path);
        let directives = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("//#"))
            .map(|line| parse(line.trim(), path))
            .collect();
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        let mut program = Self { name, path: path.to_owned(), directives, labels: HashMap::new() };
        for source in program.all_sources() {
            for (i, line) in read(&source).lines().enumerate() {
                if let Some((_, label)) = line.rsplit_once("//@") {
                    let old = program.labels.insert(label.trim().to_owned(), i as u64 + 1);
                    assert!(old.is_none(), "{}: label {label} twice", source.display());
                }
            }
        }
        program
    }

    fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Directive> {
        self.directives.iter().filter(move |d| d.key == key)
    }

    fn words(&self, key: &str) -> Vec<String> {
        self.all(key).flat_map(|d| d.value.split_whitespace().map(str::to_owned)).collect()
    }

    fn words_or(&self, key: &str, default: &[&str]) -> Vec<String> {
        let words = self.words(key);
        if words.is_empty() { default.iter().map(|&s| s.to_owned()).collect() } else { words }
    }

    fn beside(&self, file: &str) -> PathBuf {
        self.path.with_file_name(file)
    }

    /// The program's modules, the main one first, each with more flags of the wrapper.
    pub fn sources(&self) -> Vec<(PathBuf, &'static [&'static str])> {
        let mut sources: Vec<(PathBuf, &'static [&'static str])> = vec![(self.path.clone(), &[])];
        sources.extend(self.words("With").iter().map(|file| (self.beside(file), &[][..])));
        let module: &[&str] = &["--pcce-mode=module"];
        sources.extend(self.words("WithModule").iter().map(|file| (self.beside(file), module)));
        sources
    }

    pub fn libraries(&self) -> Vec<Library> {
        let of = |key: &str, instrumented, loading| {
            let library = |file: &String| Library { source: self.beside(file), instrumented, loading };
            self.words(key).iter().map(library).collect::<Vec<_>>()
        };
        [
            of("Library", true, Loading::Linked),
            of("PlainLibrary", false, Loading::Linked),
            of("Loaded", true, Loading::Loaded),
            of("Preloaded", true, Loading::Preloaded),
        ]
        .concat()
    }

    fn all_sources(&self) -> Vec<PathBuf> {
        let libraries = self.libraries().into_iter().map(|l| l.source);
        self.sources().into_iter().map(|s| s.0).chain(libraries).collect()
    }

    /// Returns whether the program itself is instrumented.
    pub fn is_instrumented(&self) -> bool {
        self.all("PlainProgram").next().is_none()
    }

    /// Returns whether any source is C++.
    pub fn is_cxx(&self) -> bool {
        self.all_sources().iter().any(|path| path.extension().is_some_and(|e| e == "cpp"))
    }

    pub fn flags(&self, facts: &[String]) -> Vec<String> {
        self.flags_of("Flags", facts)
    }

    /// Further flags for the compiler of shared libraries.
    pub fn library_flags(&self, facts: &[String]) -> Vec<String> {
        self.flags_of("LibraryFlags", facts)
    }

    fn flags_of(&self, key: &str, facts: &[String]) -> Vec<String> {
        let lines = self.holding(key, facts).into_iter().flat_map(|(_, lines)| lines);
        lines.flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    pub fn exit_status(&self) -> i32 {
        self.words("ExitStatus").first().map_or(0, |n| n.parse().expect("ExitStatus is a number"))
    }

    pub fn levels(&self) -> Vec<String> {
        self.words_or("Levels", &["-O0", "-O2"])
    }

    pub fn modes(&self) -> Vec<String> {
        self.words_or("Modes", &["lto", "module", "link"])
    }

    /// Returns whether the program is also built in other shapes.
    pub fn has_shapes(&self) -> bool {
        self.all("Shapes").next().is_some()
    }

    /// Returns whether some entries cannot be compared.
    pub fn is_cut(&self) -> bool {
        self.all("Cut").next().is_some()
    }

    /// The directives of a kind that hold under `facts`, by name; those with conditions have precedence.
    fn holding(&self, key: &str, facts: &[String]) -> Vec<(String, Vec<String>)> {
        let mut names: Vec<&str> = Vec::new();
        for d in self.all(key) {
            if !names.contains(&d.name.as_str()) {
                names.push(&d.name);
            }
        }
        let holds = |d: &&Directive| {
            d.conditions.iter().all(|c| match c.strip_prefix('!') {
                Some(c) => !facts.iter().any(|f| f == c),
                None => facts.contains(c),
            })
        };
        let select = |name: &str, conditional: bool| -> Vec<String> {
            self.all(key)
                .filter(|d| d.name == name && d.conditions.is_empty() != conditional)
                .filter(holds)
                .map(|d| d.value.clone())
                .collect()
        };
        names
            .into_iter()
            .map(|name| {
                let values = Some(select(name, true)).filter(|v| !v.is_empty());
                (name.to_owned(), values.unwrap_or_else(|| select(name, false)))
            })
            .filter(|(_, values)| !values.is_empty())
            .collect()
    }

    /// The expected chains under `facts`: names, and a chain for each line or for all.
    pub fn chains(&self, facts: &[String]) -> Vec<(String, Vec<String>)> {
        self.holding("Chain", facts)
    }

    /// The expected line numbers.
    pub fn lines(&self) -> Vec<(String, Vec<u64>)> {
        let number = |label: &str| *self.labels.get(label).unwrap_or_else(|| panic!("no label //@{label}"));
        self.all("Lines").map(|d| (d.name.clone(), d.value.split(" < ").map(number).collect())).collect()
    }

    /// Names whose numbers must be the same in every run.
    pub fn fixed(&self, facts: &[String]) -> Vec<String> {
        self.holding("Fixed", facts).into_iter().map(|(name, _)| name).collect()
    }

    /// The known reason why the program fails under `facts`.
    pub fn broken(&self, facts: &[String]) -> Option<String> {
        self.holding("Broken", facts).into_iter().next().map(|(_, reasons)| reasons.join("; "))
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()))
}

fn parse(line: &str, path: &Path) -> Directive {
    let end = line.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let (conditions, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((list, rest)) => (list.split(',').map(|c| c.trim().to_owned()).collect(), rest),
        None => (Vec::new(), rest),
    };
    let (name, value) = rest.split_once(": ").or(rest.split_once(':')).unwrap_or((rest, ""));
    let known = KEYS.iter().find(|k| k.0 == key);
    assert!(
        known.is_some_and(|&(_, with_value)| with_value != value.trim().is_empty()),
        "{}: `//# {line}` is no directive",
        path.display()
    );
    Directive {
        key: key.to_owned(),
        conditions,
        name: name.trim().to_owned(),
        value: value.trim().to_owned(),
    }
}

/// Returns whether a chain of frames is what a directive describes.
pub fn matches(expected: &str, frames: &[String]) -> bool {
    let mut pattern: Vec<&str> = Vec::new();
    for word in expected.split(" < ") {
        match word.rsplit_once('*') {
            Some((function, count)) if count.parse::<usize>().is_ok() => {
                pattern.extend(std::iter::repeat_n(function, count.parse().unwrap_or(1)));
            }
            _ => pattern.push(word),
        }
    }
    match_from(&pattern, frames)
}

fn match_from(pattern: &[&str], frames: &[String]) -> bool {
    for (i, &word) in pattern.iter().enumerate() {
        let rest = frames.get(i..).unwrap_or_default();
        if word == "..." {
            return (0..=rest.len()).any(|skip| match_from(&pattern[i + 1..], &rest[skip..]));
        }
        if !rest.first().is_some_and(|frame| is_function(word, frame)) {
            return false;
        }
    }
    pattern.len() == frames.len()
}

fn is_function(expected: &str, frame: &str) -> bool {
    if expected == frame {
        return true;
    }
    // The parameter list, with qualifiers after it.
    let without = frame.rfind(')').and_then(|close| {
        let mut depth = 0;
        frame[..=close].rmatch_indices(['(', ')']).find_map(|(i, c)| {
            depth += if c == ")" { 1 } else { -1 };
            (depth == 0).then_some(&frame[..i])
        })
    });
    !expected.contains('(') && without == Some(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(list: &[&str]) -> Vec<String> {
        list.iter().map(|&s| s.to_owned()).collect()
    }

    #[test]
    fn chains_match_whole_and_in_order() {
        let f = frames(&["f(int)", "g", "g", "g", "<qsort>", "main"]);
        assert!(matches("f < g*3 < <qsort> < main", &f));
        assert!(matches("f(int) < g < g < g < <qsort> < main", &f));
        assert!(matches("f < ... < main", &f));
        assert!(matches("f < g < ... < <qsort> < main", &f));
        for wrong in [
            "f < g*2 < <qsort> < main",
            "f < g*4 < <qsort> < main",
            "f < g*3 < <qsort>",
            "g*3 < <qsort> < main",
            "f < g*3 < <qsort> < main < start",
            "f(long) < g*3 < <qsort> < main",
            "f < ... < start",
            "... < f < main",
        ] {
            assert!(!matches(wrong, &f), "{wrong}");
        }
    }

    #[test]
    fn directives_that_do_not_exist_are_refused() {
        for wrong in ["Chan a: b", "Chain a", "Shapes: x", ""] {
            assert!(std::panic::catch_unwind(|| parse(wrong, Path::new("x.c"))).is_err(), "{wrong}");
        }
        let d = parse("Chain[lto, !-O2] a: f < std::g", Path::new("x.c"));
        assert_eq!(d.conditions, ["lto", "!-O2"]);
        assert_eq!((d.name.as_str(), d.value.as_str()), ("a", "f < std::g"));
    }
}
