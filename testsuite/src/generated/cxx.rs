//! Generator of C++ programs that take contexts, and of these contexts.
//!
//! A program is made as a tree of statements from a seed. The tree is printed as source, in several translation units,
//! and interpreted: the interpreter's own stack, of functions and the lines at which they call, is the context of each
//! place that takes one. So the expected chains come from the meaning of the source alone, and the program contains
//! nothing for this purpose that could change how it is compiled.
//!
//! Programs have direct calls, recursion (also deep, and between units), calls through pointers, tables,
//! `std::function`, virtual functions and thunks, lambdas, callbacks from `qsort` and `std::sort`, functions in several
//! units (`inline`), static initialisers, local objects whose constructors and destructors make calls and take contexts
//! (also while the stack is unwound), exceptions thrown through all of that, caught by type or not, and thrown again,
//! threads, and code that is not instrumented, which calls back, catches, and calls back again.
//!
//! Every function has a parameter `n` that each call makes smaller, and returns at once where `n` is 0, so that
//! programs end whatever they call. Conditions depend on `n` and on counters of loops only: the interpreter knows both.

mod execute;
mod generate;
mod print;
mod syntax;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use self::execute::Interpreter;
use self::generate::Maker;
use self::print::Writer;
use crate::runner::Frame;

pub struct Program {
    /// Names and texts of its files. Those with the extension `cpp` are to be compiled, [`PLAIN_FILE`] without the
    /// pass.
    pub files: Vec<(String, String)>,
    pub model: Model,
}

/// The contexts that a program takes: for each of its threads, by the thread's tag, in their order.
pub struct Model {
    threads: HashMap<u64, Vec<Expected>>,
}

/// An expected context.
pub(crate) struct Expected {
    /// The statement that takes it.
    id: u32,
    frames: Vec<Known>,
}

/// An expected frame.
struct Known {
    /// The start of the function's name.
    start: String,
    /// The end of the name. Between start and end is the compiler's name for a lambda.
    end: &'static str,
    /// `None` for a boundary.
    file: Option<String>,
    /// `None` where a destructor is called: compilers choose between the end of the block and the statement that leaves
    /// it.
    line: Option<u32>,
}

/// The file that is not instrumented.
pub const PLAIN_FILE: &str = "plain.cpp";

/// The interpreter's limits. A program that exceeds them is too large.
const MAX_CONTEXTS: usize = 1500;
const MAX_CALLS: usize = 20_000;
const MAX_THREADS: usize = 24;
/// A program with fewer contexts is not worth its compilation.
const MIN_CONTEXTS: usize = 20;
/// The code that is not instrumented.
const PLAIN: &str = crate::source!("generated/cxx/plain.cpp");

/// The thrown types: two classes, one derived from the other, a third class, and `int`.
const THROWN: [&str; 4] = ["E0", "E1", "E2", "int"];

/// Makes the program of a seed.
pub fn generate(seed: u64) -> Program {
    let mut random = StdRng::seed_from_u64(seed);
    loop {
        let mut program = Maker::new(&mut random).make();
        let mut files = Writer::write(&mut program);
        // The largest start that is not too large.
        for start in (1..=7).rev() {
            if let Ok(threads) = Interpreter::run(&program, start) {
                if threads.values().map(Vec::len).sum::<usize>() < MIN_CONTEXTS {
                    break;
                }
                files[0].1 = files[0].1.replacen("START_VALUE", &start.to_string(), 1);
                return Program { files, model: Model { threads } };
            }
        }
    }
}

impl Model {
    /// The expected contexts for the names that a program has shown, in their order.
    pub(crate) fn order(&self, names: &[String]) -> Result<Vec<&Expected>, String> {
        let mut threads: HashMap<u64, std::slice::Iter<Expected>> =
            self.threads.iter().map(|(tag, shown)| (*tag, shown.iter())).collect();
        let next = |name: &String| {
            let (id, tag) = name.split_once(':').ok_or_else(|| format!("`{name}` is no name"))?;
            let next = tag.parse().ok().and_then(|tag: u64| threads.get_mut(&tag)?.next());
            match next {
                Some(expected) if expected.id.to_string() == id => Ok(expected),
                Some(expected) => Err(format!("{name} was shown where {} should be", expected.id)),
                None => Err(format!("{name} was shown, and should not be")),
            }
        };
        let order = names.iter().map(next).collect::<Result<Vec<_>, String>>()?;
        let left: usize = threads.values().map(ExactSizeIterator::len).sum();
        if left == 0 { Ok(order) } else { Err(format!("{left} contexts were not shown")) }
    }
}

impl Expected {
    /// Compares with a decoded chain of a program whose files are in `folder`; frames of the standard library's headers
    /// are left out. The error is what was found.
    pub(crate) fn compare(&self, found: &[Frame], folder: &Path) -> Result<(), String> {
        let name = |frame: &'_ Frame| frame.text.trim_start_matches("inlined ").to_owned();
        let ours = |frame: &&Frame| match &frame.file {
            Some(file) => {
                Path::new(file).starts_with(folder)
                    && !name(frame).starts_with("_GLOBAL__sub_I_")
                    && !name(frame).contains(" thunk(")
            }
            None => true,
        };
        let mut frames: Vec<&Frame> = found.iter().filter(ours).collect();
        // The complete constructor (destructor) calls the base one.
        let mut i = 1;
        while i < frames.len() {
            let is_member = frames[i].text.contains("::~") || name(frames[i]).starts_with('O');
            if is_member && name(frames[i]) == name(frames[i - 1]) && !frames[i].text.contains("operator()") {
                frames.remove(i);
            } else {
                i += 1;
            }
        }
        let same = |(known, frame): (&Known, &&Frame)| {
            let text = name(frame);
            let file = known.file.as_ref().map(|file| folder.join(file).display().to_string());
            let named = if known.end.is_empty() && known.file.is_some() && !known.start.starts_with("__") {
                text == known.start
            } else {
                text.starts_with(&known.start) && text.ends_with(known.end)
            };
            named && frame.file == file && known.line.is_none_or(|line| frame.line == Some(u64::from(line)))
        };
        if frames.len() == self.frames.len() && self.frames.iter().zip(&frames).all(same) {
            return Ok(());
        }
        let texts: Vec<String> =
            frames.iter().map(|f| format!("{}:{}", f.text, f.line.unwrap_or(0))).collect();
        Err(texts.join(" < "))
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, known) in self.frames.iter().enumerate() {
            let separator = if i == 0 { "" } else { " < " };
            write!(f, "{separator}{}{}:{}", known.start, known.end, known.line.unwrap_or(0))?;
        }
        Ok(())
    }
}
