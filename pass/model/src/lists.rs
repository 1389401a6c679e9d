//! Lists of functions by their names: those that do not call back, and those whose contexts are wanted.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use pcce_names::{demangle, forms, plain, without_type};
use pcce_options::Common;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::program::Function;
use crate::silent;

/// The names of a list: one or more a line, `#` begins a comment.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
}

fn add_names(text: &str, to: &mut HashSet<String>) {
    to.extend(names(text).map(str::to_owned));
}

fn read(file: &Path, option: &'static str) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(|cause| Error::Unreadable { file: file.to_owned(), option, cause })
}

/// What options want of the whole program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Further functions that do not call back.
    pub no_callback: BTreeSet<String>,
    /// Those whose contexts are wanted; all are, if there are none.
    pub targets: BTreeSet<String>,
    /// The program counts its calls.
    pub counts_calls: bool,
    /// A profile of calls.
    pub profile: Option<PathBuf>,
    /// The program writes traces.
    pub traces: bool,
}

impl Wanted {
    /// Reads the files with lists of names.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn read(options: &Common) -> Result<Self, Error> {
        let mut wanted = Self {
            counts_calls: options.profile_generate.is_some(),
            profile: options.profile_use.clone(),
            traces: options.trace.is_some(),
            ..Self::default()
        };
        for file in &options.no_callback {
            wanted.no_callback.extend(names(&read(file, "no-callback")?).map(str::to_owned));
        }
        for name in &options.targets {
            match name.strip_prefix('@') {
                Some(file) => {
                    wanted.targets.extend(names(&read(Path::new(file), "target")?).map(str::to_owned));
                }
                None => _ = wanted.targets.insert(name.clone()),
            }
        }
        Ok(wanted)
    }
}

/// The functions whose contexts are wanted (*targeted mode*): what tells their names apart, and these as they were
/// given.
pub struct Targets(HashMap<String, String>);

impl Targets {
    /// None if no contexts are asked for by name, and all are wanted. `publish`: those of the calls that are published
    /// are wanted, which takes no name.
    pub fn new(wanted: &Wanted, publish: bool) -> Option<Self> {
        let names = wanted.targets.iter().map(|name| (plain(name), name.clone()));
        (publish || !wanted.targets.is_empty()).then(|| Self(names.collect()))
    }

    /// The target that the function of this linkage name is: by that, or by its name in the source with its scopes,
    /// with or without parameters (`app::Log::write`).
    fn named(&self, linkage: &str) -> Option<&str> {
        let source = demangle(linkage);
        let mut forms = [linkage, &source].into_iter().map(plain).chain(forms(&source));
        forms.find_map(|form| self.0.get(&form)).map(String::as_str)
    }

    /// Returns whether the function of this linkage name is a target.
    pub fn contains(&self, linkage: &str) -> bool {
        self.named(linkage).is_some()
    }

    /// The targets that are not among these linkage names, in alphabetical order.
    pub fn missing(&self, names: impl Iterator<Item = String>) -> Vec<&str> {
        let mut missing: BTreeSet<&str> = self.0.values().map(String::as_str).collect();
        for name in names {
            if let Some(target) = self.named(&name) {
                missing.remove(target);
            }
        }
        missing.into_iter().collect()
    }
}

/// That a target is missing: no error, since the function may have been inlined wherever it was called.
pub fn missing_target(missing: &str) -> String {
    format!(
        "target {missing}: the program neither defines nor calls a function of this name, or all its calls were \
         inlined; C++ names are written with their scopes and without parameters, as app::Log::write"
    )
}

/// Names of functions and of source files, in which `*` stands for any characters and `?` for one.
pub struct Patterns(Vec<Pattern>);

struct Pattern {
    given: String,
    glob: glob::Pattern,
    /// Some function has the name.
    is_used: Cell<bool>,
}

impl Patterns {
    /// From names and `@FILE`s with lists of them, which the option has given.
    ///
    /// # Errors
    /// A file that cannot be read; a name that is no pattern.
    pub fn load(given: &[String], option: &'static str) -> Result<Self, Error> {
        let mut patterns = Vec::new();
        for name in given {
            let text = match name.strip_prefix('@') {
                Some(file) => &read(Path::new(file), option)?,
                None => name,
            };
            for name in names(text) {
                let invalid = |cause: glob::PatternError| Error::Pattern {
                    name: name.to_owned(),
                    option,
                    cause: cause.msg,
                };
                let glob = glob::Pattern::new(&plain(name)).map_err(invalid)?;
                patterns.push(Pattern { given: name.to_owned(), glob, is_used: Cell::new(false) });
            }
        }
        Ok(Self(patterns))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a function has one of the names: its linkage name, its name in the source with its scopes,
    /// with or without parameters, or the path of its source file, or the last parts of that.
    pub fn name(&self, linkage: &str, file: Option<&str>) -> bool {
        if self.is_empty() {
            return false;
        }
        let source = demangle(linkage);
        // A pattern is not for what the function returns.
        let whole = plain(without_type(&source));
        let [_, bare, short] = forms(&source);
        let paths = file.into_iter().flat_map(|file| {
            std::iter::once(file).chain(file.match_indices('/').map(|(at, _)| &file[at + 1..]))
        });
        let names: Vec<&str> = [linkage, &bare, &short].into_iter().chain(paths).collect();
        let fits = |pattern: &&Pattern| {
            names.iter().any(|name| pattern.glob.matches(name))
                || pattern.given.contains('(') && pattern.glob.matches(&whole)
        };
        self.0.iter().filter(fits).inspect(|pattern| pattern.is_used.set(true)).count() > 0
    }

    /// Those that none of the functions had that were asked for.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|pattern| !pattern.is_used.get()).map(|pattern| &*pattern.given)
    }
}

/// What makes streams and conversions that call functions of the program (the last ones: libbsd's).
const STREAM_MAKERS: [&str; 7] = [
    "fopencookie",
    "register_printf_function",
    "register_printf_specifier",
    "register_printf_modifier",
    "register_printf_type",
    "funopen",
    "funopen2",
];

/// What sets the handlers that C++'s allocation and exceptions call.
const HANDLER_SETTERS: [&str; 3] =
    ["_ZSt15set_new_handlerPFvvE", "_ZSt13set_terminatePFvvE", "_ZSt14set_unexpectedPFvvE"];

/// Returns whether a function of this name makes streams that call functions of the program.
pub fn makes_streams(name: &str) -> bool {
    STREAM_MAKERS.contains(&name)
}

/// Returns whether a function of this name sets handlers of the program, which take no argument and return nothing.
pub fn sets_handlers(name: &str) -> bool {
    HANDLER_SETTERS.contains(&name)
}

/// Returns whether this is a member of `std::string` or `std::wstring`, of libstdc++: those that it exports call what
/// allocates, and may throw. Of member templates it exports those for pointers to characters; others are the program's,
/// and may call what they are made for.
fn is_of_string(name: &str) -> bool {
    let Some(name) = name.strip_prefix("_ZN") else { return false };
    let name = name.strip_prefix('K').unwrap_or(name);
    let Some(name) = name.strip_prefix("St7__cxx1112basic_stringI") else { return false };
    let classes = ["cSt11char_traitsIcESaIcEE", "wSt11char_traitsIwESaIwEE"];
    classes.iter().find_map(|class| name.strip_prefix(class)).is_some_and(|member| {
        template_arguments(member).is_none_or(|arguments| {
            let of = arguments.strip_prefix("N9__gnu_cxx17__normal_iteratorI").unwrap_or(arguments);
            ["Pc", "PKc", "Pw", "PKw", "Lb"].iter().any(|argument| of.starts_with(argument))
        })
    })
}

/// What stands in the mangled name of a member behind its own name and the beginning of its template arguments; None if
/// it is no template.
fn template_arguments(member: &str) -> Option<&str> {
    let digits = member.bytes().take_while(u8::is_ascii_digit).count();
    // Names of operators, constructors and destructors have two letters.
    let length = if digits == 0 { 2 } else { digits + member[..digits].parse::<usize>().ok()? };
    member.get(length..)?.strip_prefix('I')
}

/// The functions that libraries call by name within functions that are known not to call back
/// (`data/called-within.txt`).
pub fn called_within() -> HashSet<&'static str> {
    names(include_str!("../data/called-within.txt")).collect()
}

/// Functions known not to call back into the program (`data/no-callback.txt`, `data/streams.txt`, `data/cxx.txt`, and
/// the user's files).
pub struct NoCallback {
    names: HashSet<String>,
    /// Those that may call back through a program's own streams (`data/streams.txt`).
    streams: HashSet<String>,
    /// True if calls of these do not call back: in an executable built as a whole that makes no such streams.
    trusts_streams: bool,
    /// Those that may call back through a program's own handlers (`data/cxx.txt`).
    cxx: HashSet<String>,
    /// True if calls of these do not call back: in such an executable that sets no handlers, either.
    trusts_cxx: bool,
    /// True if calls of the C++ library's strings do not call back.
    trusts_strings: bool,
    /// What the C++ library calls by name within these, besides members of strings (`data/called-within-cxx.txt`).
    within_cxx: HashSet<&'static str>,
    /// Those whose calls are published: that may allocate (`data/allocating.txt`, all of `streams` and `cxx`, and all
    /// of the user's files). Empty without the option `publish`.
    published: HashSet<String>,
}

impl NoCallback {
    /// The shipped lists, and the user's.
    pub fn new(trusts_streams: bool, wanted: &Wanted, publish: bool) -> Self {
        let (mut names, mut published) = (HashSet::new(), HashSet::new());
        let (mut streams, mut cxx) = (HashSet::new(), HashSet::new());
        add_names(include_str!("../data/no-callback.txt"), &mut names);
        add_names(include_str!("../data/streams.txt"), &mut streams);
        add_names(include_str!("../data/cxx.txt"), &mut cxx);
        if publish {
            add_names(include_str!("../data/allocating.txt"), &mut published);
            published.extend(streams.iter().chain(&cxx).cloned());
        }
        names.extend(wanted.no_callback.iter().cloned());
        if publish {
            published.extend(wanted.no_callback.iter().cloned());
        }
        let within_cxx = self::names(include_str!("../data/called-within-cxx.txt")).collect();
        let (trusts_cxx, trusts_strings) = (false, false);
        Self { names, streams, trusts_streams, cxx, trusts_cxx, trusts_strings, within_cxx, published }
    }

    /// The same where streams are trusted and the program sets no handlers.
    #[must_use]
    pub fn trusting_cxx(self) -> Self {
        let trusts_cxx = self.trusts_streams;
        Self { trusts_cxx, trusts_strings: trusts_cxx && !self.publishes(), ..self }
    }

    /// The same where what the C++ library's strings call may look at the context ([`Self::look_within_strings`]).
    #[must_use]
    pub fn without_strings(self) -> Self {
        Self { trusts_strings: false, ..self }
    }

    /// Returns whether calls of the C++ library's strings do not call back, as far as is known without a look at the
    /// functions.
    pub fn trusts_strings(&self) -> bool {
        self.trusts_strings
    }

    /// Returns whether the C++ library calls a function of this name within those that are known not to call back, or
    /// the linker lets it call this one instead (`--wrap`).
    pub fn is_within_cxx(&self, name: &str) -> bool {
        let name = name.strip_prefix("__wrap_").unwrap_or(name);
        self.within_cxx.contains(name) || is_of_string(name)
    }

    /// Returns whether one of the functions may look at the context, or reach one that may, that the C++ library's
    /// strings call in the place of its own: one that others know by such a name. (Those of a copy of the library's
    /// code do not.)
    pub fn look_within_strings(&self, functions: &[Function]) -> bool {
        // Most programs have none.
        functions.iter().any(|function| self.replaces_within_strings(function)) && {
            let calls_nothing = |name: &str| self.contains(name) || self.is_within_cxx(name);
            let closed = silent::supposing(functions, calls_nothing);
            closed.iter().any(|function| self.replaces_within_strings(function) && !function.silent)
        }
    }

    /// Returns whether others know the function by a name that the C++ library's strings call.
    pub fn replaces_within_strings(&self, function: &Function) -> bool {
        let by_name = function.external || function.otherwise_used;
        let names = function.aliases.iter().chain(by_name.then_some(&function.name));
        names.map(String::as_str).any(|name| self.is_within_cxx(name))
    }

    /// Returns whether calls that may allocate are published.
    pub fn publishes(&self) -> bool {
        !self.published.is_empty()
    }

    /// Returns whether calls of this function are published.
    pub fn is_published(&self, name: &str) -> bool {
        self.published.contains(name)
    }

    /// Returns whether a function of this name is known not to call back.
    pub fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
            || self.trusts_streams && self.streams.contains(name)
            || self.trusts_cxx && self.cxx.contains(name)
            || self.trusts_strings && is_of_string(name)
    }

    /// Returns whether functions of this name are known not to call back in every program.
    pub fn names_of_c(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns whether the name is on one of the lists, whoever may call back.
    pub fn lists(&self, name: &str) -> bool {
        self.names.contains(name) || self.streams.contains(name) || self.is_of_cxx(name)
    }

    /// Returns whether the C++ library has a function of this name that calls back through handlers only.
    fn is_of_cxx(&self, name: &str) -> bool {
        self.cxx.contains(name) || is_of_string(name)
    }

    /// Returns whether a function of this name is entered without a push only where the C++ library's functions are
    /// trusted.
    pub fn is_entered_by_cxx(&self, name: &str) -> bool {
        !self.names.contains(name)
            && !self.streams.contains(name)
            && (self.is_of_cxx(name) || self.is_within_cxx(name))
    }
}
