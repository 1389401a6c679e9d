//! Lists of functions by name: functions that do not call back, and functions whose contexts are wanted.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use pcce_dictionary::trace::Part;
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

/// The parts of the options that concern the whole program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Further functions that do not call back.
    pub no_callback: BTreeSet<String>,
    /// The functions whose contexts are wanted. All contexts are wanted if there are none.
    pub targets: BTreeSet<String>,
    /// The program counts its calls.
    pub counts_calls: bool,
    /// A profile of calls.
    pub profile: Option<PathBuf>,
    /// The program writes traces.
    pub traces: bool,
    /// The program is one of several that share a trace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub part: Option<Part>,
}

impl Wanted {
    /// Reads the files with lists of names.
    ///
    /// # Errors
    /// A file cannot be read.
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

/// The functions whose contexts are wanted (*targeted mode*): by the plain form of each name, the name as the
/// user gave it.
pub struct Targets(HashMap<String, String>);

impl Targets {
    /// Returns none if no contexts are asked for by name, so that all are wanted. With `publish`, the
    /// contexts of published calls are wanted, which takes no name.
    pub fn new(wanted: &Wanted, publish: bool) -> Option<Self> {
        let names = wanted.targets.iter().map(|name| (plain(name), name.clone()));
        (publish || !wanted.targets.is_empty()).then(|| Self(names.collect()))
    }

    /// Returns whether functions are targets, and not only published calls.
    pub fn are_named(&self) -> bool {
        !self.0.is_empty()
    }

    /// The target that a linkage name matches: the linkage name itself, or the name in the source with its
    /// scopes, with or without parameters (`app::Log::write`).
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

/// The warning for a missing target. It is no error, since the function may have been inlined wherever it was
/// called.
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
    /// True once a function has matched the pattern.
    is_used: Cell<bool>,
}

impl Patterns {
    /// Reads the patterns that an option gives: names, and `@FILE`s with lists of names.
    ///
    /// # Errors
    /// A file cannot be read, or a name is no pattern.
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

    /// Returns whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a pattern matches a function: its linkage name, its name in the source with its
    /// scopes, with or without parameters, the path of its source file, or the last parts of that path.
    pub fn name(&self, linkage: &str, file: Option<&str>) -> bool {
        if self.is_empty() {
            return false;
        }
        let source = demangle(linkage);
        // Patterns do not match return types.
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

    /// The patterns that have matched no function so far.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|pattern| !pattern.is_used.get()).map(|pattern| &*pattern.given)
    }
}

/// The names of a function that patterns may match: its linkage name, and those in the source without parameters.
#[must_use]
pub fn names_of(linkage: &str) -> Vec<String> {
    let [_, bare, short] = forms(&demangle(linkage));
    let mut names = vec![linkage.to_owned()];
    for name in [bare, short].map(|name| name.to_string()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Functions that make streams and conversions that call functions of the program (the last ones are
/// libbsd's).
const STREAM_MAKERS: [&str; 7] = [
    "fopencookie",
    "register_printf_function",
    "register_printf_specifier",
    "register_printf_modifier",
    "register_printf_type",
    "funopen",
    "funopen2",
];

/// Functions that set the handlers that C++'s allocation and exceptions call.
const HANDLER_SETTERS: [&str; 3] =
    ["_ZSt15set_new_handlerPFvvE", "_ZSt13set_terminatePFvvE", "_ZSt14set_unexpectedPFvvE"];

/// Returns whether a function of this name makes streams that call functions of the program.
pub fn makes_streams(name: &str) -> bool {
    STREAM_MAKERS.contains(&name)
}

/// Returns whether a function of this name sets handlers of the program, which take no argument and return
/// nothing.
pub fn sets_handlers(name: &str) -> bool {
    HANDLER_SETTERS.contains(&name)
}

/// Returns whether this is a member of libstdc++'s `std::string` or `std::wstring` that libstdc++ exports:
/// such members call allocation functions, and may throw. Of member templates it exports the instances for
/// pointers to characters. Other instances are the program's, and may call the functions of the types that
/// they are made for.
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

/// The rest of a member's mangled name, after its own name and the beginning of its template arguments; none
/// if the member is no template.
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

/// Functions known not to call back into the program (`data/no-callback.txt`, `data/streams.txt`,
/// `data/cxx.txt`, and the user's files).
pub struct NoCallback {
    names: HashSet<String>,
    /// Functions that call back only through streams of the program's own (`data/streams.txt`).
    streams: HashSet<String>,
    /// True if functions of `streams` do not call back: the executable is built as a whole, and makes no such
    /// streams.
    trusts_streams: bool,
    /// Functions that call back only through handlers of the program's own (`data/cxx.txt`).
    cxx: HashSet<String>,
    /// True if functions of `cxx` do not call back: streams are trusted, and the program sets no handlers.
    trusts_cxx: bool,
    /// True if the C++ library's strings do not call back.
    trusts_strings: bool,
    /// Functions that the C++ library calls by name within its own, besides members of strings
    /// (`data/called-within-cxx.txt`).
    within_cxx: HashSet<&'static str>,
    /// Functions whose calls are published, since they may allocate (`data/allocating.txt`, all of `streams`
    /// and `cxx`, and all of the user's files). Empty without the option `publish`.
    published: HashSet<String>,
}

impl NoCallback {
    /// Makes the lists from the shipped files and the user's.
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

    /// Trusts C++'s functions as well if streams are trusted. The program must set no handlers.
    #[must_use]
    pub fn trusting_cxx(self) -> Self {
        let trusts_cxx = self.trusts_streams;
        Self { trusts_cxx, trusts_strings: trusts_cxx && !self.publishes(), ..self }
    }

    /// Stops trusting the C++ library's strings, since functions that they call may look at the context
    /// ([`Self::look_within_strings`]).
    #[must_use]
    pub fn without_strings(self) -> Self {
        Self { trusts_strings: false, ..self }
    }

    /// Returns whether the C++ library's strings are trusted not to call back. This does not consider the
    /// functions that they call.
    pub fn trusts_strings(&self) -> bool {
        self.trusts_strings
    }

    /// Returns whether the C++ library calls a function of this name within functions that are known not to
    /// call back, or the linker makes it do so (`--wrap`).
    pub fn is_within_cxx(&self, name: &str) -> bool {
        let name = name.strip_prefix("__wrap_").unwrap_or(name);
        self.within_cxx.contains(name) || is_of_string(name)
    }

    /// Returns whether the C++ library's strings call a function of the program that may look at the context,
    /// or reach one that does. Such a function replaces one of the library's own under the library's name for
    /// it. (Functions of a copy of the library's code do not look at the context.)
    pub fn look_within_strings(&self, functions: &[Function]) -> bool {
        // Most programs have none.
        functions.iter().any(|function| self.replaces_within_strings(function)) && {
            let calls_nothing = |name: &str| self.contains(name) || self.is_within_cxx(name);
            let closed = silent::supposing(functions, calls_nothing);
            closed.iter().any(|function| self.replaces_within_strings(function) && !function.silent)
        }
    }

    /// Returns whether other code knows the function by a name that the C++ library's strings call.
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

    /// Returns whether functions of this name do not call back in any program.
    pub fn names_of_c(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns whether the name is on one of the lists, trusted or not.
    pub fn lists(&self, name: &str) -> bool {
        self.names.contains(name) || self.streams.contains(name) || self.is_of_cxx(name)
    }

    /// Returns whether the C++ library has a function of this name that calls back through handlers only.
    fn is_of_cxx(&self, name: &str) -> bool {
        self.cxx.contains(name) || is_of_string(name)
    }

    /// Returns whether calls of this name push, so that a function of this name is entered by a push, unless
    /// the C++ library's functions are trusted.
    pub fn is_entered_by_cxx(&self, name: &str) -> bool {
        !self.names.contains(name)
            && !self.streams.contains(name)
            && (self.is_of_cxx(name) || self.is_within_cxx(name))
    }
}
