//! The parts of a program: functions and statements.
use std::fmt;

pub(super) struct Tree {
    pub(super) functions: Vec<Function>,
    /// The functions of `table`.
    pub(super) table: Vec<usize>,
    /// For each class with virtual functions: `run`, and `walk`, which it has from a second base class.
    pub(super) virtuals: Vec<(usize, usize)>,
    /// For each class of local objects: constructor and destructor.
    pub(super) objects: Vec<(usize, usize)>,
    /// Translation units; the files are numbered from 0, which is the common header.
    pub(super) units: usize,
    pub(super) features: Features,
}

/// The features that a program may use. Each costs compile time for its header.
#[derive(Clone, Copy)]
pub(super) struct Features {
    pub(super) functions: bool,
    pub(super) sort: bool,
    pub(super) threads: bool,
}

pub(super) struct Function {
    pub(super) kind: Kind,
    /// 0 for the header.
    pub(super) file: usize,
    pub(super) is_static: bool,
    pub(super) noinline: bool,
    pub(super) body: Vec<Statement>,
    /// Line of the call in a deep function, and of the initialiser of a start function.
    pub(super) line: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Free,
    /// Calls another deep function until its parameter `depth` is 0, and only then does something.
    Deep {
        next: usize,
    },
    Run(usize),
    Walk(usize),
    Constructor(usize),
    Destructor(usize),
    Compare,
    /// Called by a static initialiser.
    Start,
    Main,
}

pub(super) struct Statement {
    /// Unique in the program. Names the declarations of the statement, and is an argument of its calls, so that all
    /// calls differ for the compiler.
    pub(super) id: u32,
    pub(super) line: u32,
    pub(super) action: Action,
}

pub(super) enum Action {
    Show,
    Compute,
    Call(Callee, Argument),
    /// `return f(…)`, last in a function.
    Tail(usize, Argument),
    If(Condition, Vec<Statement>, Vec<Statement>),
    Loop(i32, Vec<Statement>),
    Try(Vec<Statement>, Vec<Handler>),
    Throw(Condition, usize),
    Rethrow(Condition),
    Object(usize, Argument),
    Lambda {
        body: Vec<Statement>,
        argument: Argument,
        noinline: bool,
        function: bool,
    },
    Qsort(usize, Argument),
    Sort(Vec<Statement>, Argument),
    Threads(Vec<(u32, Vec<Statement>)>),
}

pub(super) struct Handler {
    /// Index in [`THROWN`]. `None` for `catch (...)`.
    pub(super) thrown: Option<usize>,
    pub(super) body: Vec<Statement>,
}

pub(super) enum Callee {
    Function(usize),
    Deep(usize, i32),
    Pointer(usize),
    /// Called back by code that is not instrumented.
    Through(usize),
    /// Called back by code that is not instrumented: it catches the first one's exceptions, and then calls the second.
    Caught(usize, usize),
    Std(usize),
    Table(i32),
    Run(i32),
    Walk(i32),
}

#[derive(Clone, Copy)]
pub(super) enum Argument {
    Minus(i32),
    Half,
}

impl Argument {
    pub(super) fn of(self, n: i32) -> i32 {
        match self {
            Self::Minus(k) => n - k,
            Self::Half => n / 2,
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minus(k) => write!(f, "n - {k}"),
            Self::Half => f.write_str("n / 2"),
        }
    }
}

/// `(n + counter + add) % modulo == equals`
pub(super) struct Condition {
    pub(super) counter: Option<u32>,
    pub(super) add: i32,
    pub(super) modulo: i32,
    pub(super) equals: i32,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(n + ")?;
        if let Some(id) = self.counter {
            write!(f, "i{id} + ")?;
        }
        write!(f, "{}) % {} == {}", self.add, self.modulo, self.equals)
    }
}

impl Tree {
    pub(super) fn file_name(&self, file: usize) -> String {
        if file == 0 { "common.h".to_owned() } else { format!("unit{file}.cpp") }
    }

    /// The function's name as it is demangled.
    pub(super) fn demangled(&self, f: usize) -> String {
        match self.functions[f].kind {
            Kind::Free => format!("f{f}(int, int)"),
            Kind::Deep { .. } => format!("f{f}(int, int, int)"),
            Kind::Run(class) => format!("V{class}::run(int, int)"),
            Kind::Walk(class) => format!("V{class}::walk(int, int)"),
            Kind::Constructor(class) => format!("O{class}::O{class}(int)"),
            Kind::Destructor(class) => format!("O{class}::~O{class}()"),
            Kind::Compare => format!("compare{f}(void const*, void const*)"),
            Kind::Start => format!("start{f}()"),
            Kind::Main => "main".to_owned(),
        }
    }
}
