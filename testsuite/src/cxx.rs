//! Generator of C++ programs that take contexts, and of what these contexts are.
//!
//! A program is made as a tree of statements from a seed. The tree is printed as source, in several
//! translation units, and interpreted: the interpreter's own stack, of functions and the lines at which they call, is
//! the context of each place that takes one. So the expected chains come from the meaning of the source alone, and the
//! program carries nothing for it that could change how it is compiled.
//!
//! What a program has: direct calls, recursion (also deep, and between units), calls through pointers, tables, `std::function`,
//! virtual functions and thunks, lambdas, callbacks from `qsort` and `std::sort`, functions in several units (`inline`),
//! static initialisers, local objects whose constructors and destructors call on and take contexts (also while the
//! stack is unwound), exceptions thrown through all of that, caught by type or not, and thrown again, threads, and code that
//! is not instrumented, which calls back, catches, and calls back again.
//!
//! Every function has a parameter `n` that each call makes smaller and returns at once where `n` is 0, so that programs end
//! whatever they call. Conditions depend on `n` and on counters of loops only: the interpreter knows both.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::runner::Frame;

/// A generated program.
pub struct Program {
    /// Names and texts of its files. Those with the extension `cpp` are to be compiled, [`PLAIN_FILE`] without the pass.
    pub files: Vec<(String, String)>,
    /// The contexts that it takes.
    pub model: Model,
}

/// The contexts that a program takes: for each of its threads, by the thread's tag, in their order.
pub struct Model {
    threads: HashMap<u64, Vec<Expected>>,
}

/// A context that must come out.
pub(crate) struct Expected {
    /// The statement that takes it.
    id: u32,
    /// Innermost first.
    frames: Vec<Known>,
}

/// A frame that must come out.
struct Known {
    /// The function's name starts so.
    start: String,
    /// And it ends so: what is between is the compiler's name for a lambda.
    end: &'static str,
    /// A boundary has none.
    file: Option<String>,
    /// Not known where a destructor is called: compilers choose between the end of the block and the statement that leaves it.
    line: Option<u32>,
}

/// The file that is not instrumented.
pub const PLAIN_FILE: &str = "plain.cpp";

/// What the interpreter may do with a program before it is too large.
const MAX_CONTEXTS: usize = 1500;
const MAX_CALLS: usize = 20_000;
const MAX_THREADS: usize = 24;
/// A program with fewer is not worth its compilation.
const MIN_CONTEXTS: usize = 20;
/// The code that is not instrumented.
const PLAIN: &str = "\
extern \"C\" unsigned through(unsigned (*f)(int, int), int n, int s) { return f(n, s) + 1; }
extern \"C\" unsigned caught(unsigned (*f)(int, int), unsigned (*g)(int, int), int n, int s) {
  unsigned r = 0;
  try { r = f(n, s); } catch (...) { r = 5; }
  return r + g(n, s);
}
";

/// The thrown types: two classes, one derived from the other, a third class, and `int`.
const THROWN: [&str; 4] = ["E0", "E1", "E2", "int"];

/// Makes the program of a seed.
#[must_use]
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

// ---- The tree.

struct Tree {
    functions: Vec<Function>,
    /// The functions of `table`.
    table: Vec<usize>,
    /// For each class with virtual functions: `run`, and `walk`, which it has from a second base class.
    virtuals: Vec<(usize, usize)>,
    /// For each class of local objects: constructor and destructor.
    objects: Vec<(usize, usize)>,
    /// Translation units; the files are numbered from 0, which is the common header.
    units: usize,
    features: Features,
}

/// What a program may use; each costs compile time for its header.
#[derive(Clone, Copy)]
struct Features {
    functions: bool,
    sort: bool,
    threads: bool,
}

struct Function {
    kind: Kind,
    /// 0: in the header.
    file: usize,
    is_static: bool,
    noinline: bool,
    body: Vec<Statement>,
    /// Line of the call in a deep function, and of the initialiser of a start function.
    line: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Free,
    /// Calls another deep function so many times, and does something only then.
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

struct Statement {
    /// Unique in the program; names what the statement declares, and is an argument of its calls, so that no two calls
    /// are the same for the compiler.
    id: u32,
    line: u32,
    action: Action,
}

enum Action {
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

struct Handler {
    /// Index in [`THROWN`]; `catch (...)` without.
    thrown: Option<usize>,
    body: Vec<Statement>,
}

enum Callee {
    Function(usize),
    Deep(usize, i32),
    Pointer(usize),
    /// Called back by code that is not instrumented.
    Through(usize),
    /// The same: the first one's exceptions are caught, then the second one is called.
    Caught(usize, usize),
    Std(usize),
    Table(i32),
    Run(i32),
    Walk(i32),
}

#[derive(Clone, Copy)]
enum Argument {
    Minus(i32),
    Half,
}

impl Argument {
    fn of(self, n: i32) -> i32 {
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
struct Condition {
    counter: Option<u32>,
    add: i32,
    modulo: i32,
    equals: i32,
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

// ---- Making a tree.

struct Maker<'a> {
    random: &'a mut StdRng,
    tree: Tree,
    id: u32,
}

/// Where a statement is made.
#[derive(Clone)]
struct Place {
    function: usize,
    file: usize,
    depth: u32,
    /// In a handler, where `throw;` has a meaning.
    handler: bool,
    counters: Vec<u32>,
    /// Not in constructors and destructors themselves: a frame of theirs may come out twice (compilers make two functions
    /// of one, and one may call the other), which must not be mistaken for one in the other.
    objects: bool,
}

impl<'a> Maker<'a> {
    fn new(random: &'a mut StdRng) -> Self {
        let features = Features {
            functions: random.random_bool(0.4),
            sort: random.random_bool(0.3),
            threads: random.random_bool(0.4),
        };
        let units = random.random_range(1..=3);
        let tree = Tree {
            functions: Vec::new(),
            table: Vec::new(),
            virtuals: Vec::new(),
            objects: Vec::new(),
            units,
            features,
        };
        Self { random, tree, id: 0 }
    }

    fn make(mut self) -> Tree {
        for _ in 0..self.random.random_range(4..=12) {
            let file = self.random.random_range(0..=self.tree.units);
            let is_static = file > 0 && self.random.random_bool(0.5);
            let f = self.declare(Kind::Free, file, is_static);
            if !is_static {
                self.tree.table.push(f);
            }
        }
        if self.tree.table.is_empty() {
            let f = self.declare(Kind::Free, 1, false);
            self.tree.table.push(f);
        }
        let first = self.tree.functions.len();
        let deep = self.random.random_range(0..=2);
        for i in 0..deep {
            let file = self.random.random_range(1..=self.tree.units);
            self.declare(Kind::Deep { next: first + (i + 1) % deep }, file, false);
        }
        for class in 0..self.random.random_range(0..=3) {
            let file = self.random.random_range(0..=self.tree.units);
            let run = self.declare(Kind::Run(class), file, false);
            let walk = self.declare(Kind::Walk(class), file, false);
            self.tree.virtuals.push((run, walk));
        }
        for class in 0..self.random.random_range(0..=3) {
            let file = self.random.random_range(0..=self.tree.units);
            let constructor = self.declare(Kind::Constructor(class), file, false);
            let destructor = self.declare(Kind::Destructor(class), file, false);
            self.tree.objects.push((constructor, destructor));
        }
        for _ in 0..self.random.random_range(0..=2) {
            let file = self.random.random_range(1..=self.tree.units);
            self.declare(Kind::Compare, file, false);
        }
        for _ in 0..self.random.random_range(0..=2) {
            let file = self.random.random_range(1..=self.tree.units);
            self.declare(Kind::Start, file, true);
        }
        self.declare(Kind::Main, 1, false);
        for f in 0..self.tree.functions.len() {
            self.tree.functions[f].body = self.body(f);
        }
        self.tree
    }

    fn declare(&mut self, kind: Kind, file: usize, is_static: bool) -> usize {
        let noinline = self.random.random_bool(0.4);
        self.tree.functions.push(Function { kind, file, is_static, noinline, body: Vec::new(), line: 0 });
        self.tree.functions.len() - 1
    }

    fn statement(&mut self, action: Action) -> Statement {
        self.id += 1;
        Statement { id: self.id, line: 0, action }
    }

    fn body(&mut self, f: usize) -> Vec<Statement> {
        let Function { kind, file, .. } = self.tree.functions[f];
        let objects = !matches!(kind, Kind::Constructor(_) | Kind::Destructor(_));
        let place = Place { function: f, file, depth: 0, handler: false, counters: Vec::new(), objects };
        match kind {
            // Leaves: some that take a context, some that do not.
            Kind::Free | Kind::Run(_) if self.random.random_bool(0.2) => {
                let action = if self.random.random_bool(0.7) { Action::Show } else { Action::Compute };
                vec![self.statement(action)]
            }
            Kind::Destructor(_) | Kind::Start => vec![self.guarded(&place)],
            Kind::Main => (0..self.random.random_range(2..=4)).map(|_| self.guarded(&place)).collect(),
            _ => {
                let mut body = self.block(&place);
                // To a later function only: a cycle of tail calls would be made a loop, which has no frames.
                let later: Vec<usize> = (f + 1..self.tree.functions.len())
                    .filter(|&g| self.tree.functions[g].kind == Kind::Free && self.sees(file, g))
                    .collect();
                if kind == Kind::Free && !later.is_empty() && self.random.random_bool(0.3) {
                    let callee = later[self.random.random_range(0..later.len())];
                    let argument = self.argument(&place);
                    body.push(self.statement(Action::Tail(callee, argument)));
                }
                body
            }
        }
    }

    /// A block whose exceptions are all caught.
    fn guarded(&mut self, place: &Place) -> Statement {
        let inner = Place { depth: place.depth + 1, ..place.clone() };
        let body = self.block(&inner);
        let show = self.statement(Action::Show);
        self.statement(Action::Try(body, vec![Handler { thrown: None, body: vec![show] }]))
    }

    fn sees(&self, file: usize, f: usize) -> bool {
        !self.tree.functions[f].is_static || self.tree.functions[f].file == file
    }

    fn argument(&mut self, place: &Place) -> Argument {
        match (self.tree.functions[place.function].kind, self.random.random_range(0..6)) {
            (Kind::Main, _) => Argument::Minus(0),
            (_, 0) => Argument::Half,
            (_, 1) => Argument::Minus(2),
            _ => Argument::Minus(1),
        }
    }

    fn condition(&mut self, place: &Place) -> Condition {
        let counter = match place.counters.last() {
            Some(&id) if self.random.random_bool(0.7) => Some(id),
            _ => None,
        };
        let modulo = self.random.random_range(2..=4);
        Condition {
            counter,
            add: self.random.random_range(0..4),
            modulo,
            equals: self.random.random_range(0..modulo),
        }
    }

    fn block(&mut self, place: &Place) -> Vec<Statement> {
        let most = if place.depth < 2 { 5 } else { 3 };
        (0..self.random.random_range(1..=most)).map(|_| self.any(place)).collect()
    }

    fn any(&mut self, place: &Place) -> Statement {
        let nested = place.depth < 3;
        let inner = Place { depth: place.depth + 1, ..place.clone() };
        // Where the caller's handlers and counters are out of reach.
        let other = Place { counters: Vec::new(), objects: true, ..inner.clone() };
        let compare: Vec<usize> = (0..self.tree.functions.len())
            .filter(|&f| self.tree.functions[f].kind == Kind::Compare)
            .collect();
        let features = self.tree.features;
        let action = match self.random.random_range(0..100) {
            25..35 if nested => {
                let condition = self.condition(place);
                let then = self.block(&inner);
                let otherwise = if self.random.random_bool(0.5) { self.block(&inner) } else { Vec::new() };
                Action::If(condition, then, otherwise)
            }
            35..39 if nested => {
                // Its own id is that of its counter.
                self.id += 1;
                let id = self.id;
                let mut inner = inner;
                inner.counters.push(id);
                let body = self.block(&inner);
                return Statement {
                    id,
                    line: 0,
                    action: Action::Loop(self.random.random_range(2..=3), body),
                };
            }
            39..51 if nested => {
                let body = self.block(&inner);
                let inner = Place { handler: true, ..inner };
                let mut handlers: Vec<Handler> = Vec::new();
                // A class before its base.
                for thrown in [1, 0, 2, 3] {
                    if self.random.random_bool(0.35) {
                        handlers.push(Handler { thrown: Some(thrown), body: self.block(&inner) });
                    }
                }
                if handlers.is_empty() || self.random.random_bool(0.3) {
                    handlers.push(Handler { thrown: None, body: self.block(&inner) });
                }
                Action::Try(body, handlers)
            }
            51..58 => Action::Throw(self.condition(place), self.random.random_range(0..THROWN.len())),
            58..63 if place.handler => Action::Rethrow(self.condition(place)),
            63..70 if place.objects && !self.tree.objects.is_empty() => {
                let class = self.random.random_range(0..self.tree.objects.len());
                Action::Object(class, self.argument(place))
            }
            70..76 if nested => Action::Lambda {
                body: self.block(&other),
                argument: self.argument(place),
                noinline: self.random.random_bool(0.4),
                function: features.functions && self.random.random_bool(0.5),
            },
            76..79 if !compare.is_empty() => {
                let f = compare[self.random.random_range(0..compare.len())];
                Action::Qsort(f, self.argument(place))
            }
            79..82 if nested && features.sort => Action::Sort(self.block(&other), self.argument(place)),
            82..85 if nested && features.threads => {
                let place = Place { handler: false, ..other };
                let workers = self.random.random_range(1..=2);
                let mut worker = || {
                    let guarded = self.guarded(&place);
                    self.id += 1;
                    (self.id, vec![guarded])
                };
                Action::Threads((0..workers).map(|_| worker()).collect())
            }
            85..87 => Action::Compute,
            0..25 => Action::Show,
            _ => self.call(place),
        };
        self.statement(action)
    }

    fn call(&mut self, place: &Place) -> Action {
        let argument = self.argument(place);
        let visible = |kind: fn(&Kind) -> bool, maker: &Self| -> Vec<usize> {
            (0..maker.tree.functions.len())
                .filter(|&f| kind(&maker.tree.functions[f].kind) && maker.sees(place.file, f))
                .collect()
        };
        let free = visible(|k| *k == Kind::Free, self);
        let deep = visible(|k| matches!(k, Kind::Deep { .. }), self);
        let add = self.random.random_range(0..4);
        let virtuals = !self.tree.virtuals.is_empty();
        let callee = match self.random.random_range(0..22) {
            0..2 if !deep.is_empty() => {
                Callee::Deep(deep[self.random.random_range(0..deep.len())], self.random.random_range(1..=40))
            }
            2..4 => Callee::Table(add),
            4..7 if virtuals => Callee::Run(add),
            7..9 if virtuals => Callee::Walk(add),
            choice => {
                let f = free[self.random.random_range(0..free.len())];
                match choice {
                    0 | 1 => Callee::Pointer(f),
                    2 | 3 if self.tree.features.functions => Callee::Std(f),
                    20 => Callee::Through(f),
                    21 => Callee::Caught(f, free[self.random.random_range(0..free.len())]),
                    _ => Callee::Function(f),
                }
            }
        };
        Action::Call(callee, argument)
    }
}

// ---- Printing a tree.

impl Tree {
    fn file_name(&self, file: usize) -> String {
        if file == 0 { "common.h".to_owned() } else { format!("unit{file}.cpp") }
    }

    /// The function's name as it is demangled.
    fn demangled(&self, f: usize) -> String {
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

#[derive(Default)]
struct Writer {
    text: String,
    lines: u32,
    indent: usize,
    table: usize,
    virtuals: usize,
}

impl Writer {
    /// The files of a program; notes in the tree on which lines its statements are.
    fn write(tree: &mut Tree) -> Vec<(String, String)> {
        let (table, virtuals) = (tree.table.len(), tree.virtuals.len());
        let mut files = Vec::new();
        for file in 0..=tree.units {
            let mut writer = Self { table, virtuals, ..Self::default() };
            if file == 0 {
                writer.header(tree);
            } else {
                writer.line("#include \"common.h\"");
            }
            for (f, function) in tree.functions.iter().enumerate() {
                if function.is_static && function.file == file {
                    writer.line(&format!("{};", signature(f, function)));
                }
            }
            for (f, function) in tree.functions.iter_mut().enumerate() {
                if function.file == file {
                    writer.function(f, function);
                }
            }
            if file == 1 {
                writer.definitions(tree);
            }
            files.push((tree.file_name(file), writer.text));
        }
        files.push((PLAIN_FILE.to_owned(), PLAIN.to_owned()));
        files
    }

    fn line(&mut self, text: &str) -> u32 {
        let _ = writeln!(self.text, "{:1$}{text}", "", 2 * self.indent);
        self.lines += 1;
        self.lines
    }

    fn open(&mut self, text: &str) -> u32 {
        let line = self.line(text);
        self.indent += 1;
        line
    }

    fn close(&mut self, text: &str) {
        self.indent -= 1;
        self.line(text);
    }

    fn header(&mut self, tree: &Tree) {
        let features = tree.features;
        self.line("#pragma once");
        self.line("#define START START_VALUE");
        self.line("#include \"show.h\"");
        self.line("#include <cstdlib>");
        for (wanted, header) in
            [(features.functions, "functional"), (features.sort, "algorithm"), (features.threads, "thread")]
        {
            if wanted {
                self.line(&format!("#include <{header}>"));
            }
        }
        self.line(
            "// Which thread this is: made of its creator's tag, and which of the creator's threads it is.",
        );
        self.line("extern __thread unsigned long long tag, children;");
        self.line("static inline unsigned long long next_tag() { return tag * 1000003 + ++children; }");
        self.line(
            "#define S(id) do { char name_[64]; snprintf(name_, sizeof name_, \"%d:%llu\", id, tag); SHOW(name_); } while (0)",
        );
        self.line("struct E0 { int value; E0(int v) : value(v) {} };");
        self.line("struct E1 : E0 { using E0::E0; };");
        self.line("struct E2 { int value; E2(int v) : value(v) {} };");
        self.line("struct V { virtual unsigned run(int n, int s) = 0; };");
        self.line("struct W { virtual unsigned walk(int n, int s) = 0; };");
        for class in 0..tree.virtuals.len() {
            self.line(&format!(
                "struct V{class} : V, W {{ unsigned run(int n, int s) override; unsigned walk(int n, int s) override; }};"
            ));
        }
        for class in 0..tree.objects.len() {
            self.line(&format!("struct O{class} {{ int n; O{class}(int v); ~O{class}(); }};"));
        }
        self.line("extern unsigned (*table[])(int, int);");
        self.line("extern \"C\" unsigned through(unsigned (*f)(int, int), int n, int s);");
        self.line(
            "extern \"C\" unsigned caught(unsigned (*f)(int, int), unsigned (*g)(int, int), int n, int s);",
        );
        self.line("extern V *objects[];");
        self.line("extern W *walkers[];");
        for (f, function) in tree.functions.iter().enumerate() {
            if matches!(function.kind, Kind::Free | Kind::Deep { .. } | Kind::Compare) && !function.is_static
            {
                self.line(&format!("{};", signature(f, function)));
            }
        }
    }

    /// The data of the program.
    fn definitions(&mut self, tree: &Tree) {
        self.line("__thread unsigned long long tag = 1, children;");
        let list = |names: Vec<String>| names.join(", ");
        self.line(&format!(
            "unsigned (*table[])(int, int) = {{{}}};",
            list(tree.table.iter().map(|f| format!("f{f}")).collect())
        ));
        for class in 0..self.virtuals {
            self.line(&format!("static V{class} v{class};"));
        }
        // A null pointer, so that there is something where there are no classes.
        let objects: String = (0..self.virtuals).map(|class| format!("&v{class}, ")).collect();
        self.line(&format!("V *objects[] = {{{objects}nullptr}};"));
        self.line(&format!("W *walkers[] = {{{objects}nullptr}};"));
    }

    fn function(&mut self, f: usize, function: &mut Function) {
        let Function { kind, body, line, .. } = function;
        let head = signature_of(f, *kind, function.file, function.is_static, function.noinline, true);
        self.open(&format!("{head} {{"));
        let (early, end) = match kind {
            Kind::Free | Kind::Deep { .. } | Kind::Run(_) | Kind::Walk(_) => ("return s;", "return r;"),
            Kind::Compare => {
                self.line("int n = *(const int *)x;");
                ("return 0;", "return 0;")
            }
            Kind::Constructor(_) | Kind::Destructor(_) => ("return;", ""),
            Kind::Start => {
                self.line("int n = 2;");
                ("return 0;", "return r;")
            }
            Kind::Main => {
                self.line("volatile int start = START;");
                self.line("int n = start;");
                ("return 1;", "printf(\"%u\\n\", r);")
            }
        };
        self.line(&format!("if (n <= 0) {early}"));
        self.line("unsigned r = n;");
        if let Kind::Deep { next } = kind {
            self.open("if (depth <= 0) {");
            self.block(body);
            self.line("return r + s;");
            self.close("}");
            *line = self.line(&format!("r += f{next}(n, s + 1, depth - 1); KEEP;"));
        } else {
            self.block(body);
        }
        if matches!(kind, Kind::Free | Kind::Run(_) | Kind::Walk(_)) {
            self.line("r ^= s;");
        }
        if !end.is_empty() {
            self.line(end);
        }
        self.close("}");
        if *kind == Kind::Start {
            *line = self.line(&format!("static unsigned init{f} = start{f}();"));
        }
    }

    fn block(&mut self, block: &mut [Statement]) {
        for statement in block {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &mut Statement) {
        let Statement { id, line, action } = statement;
        match action {
            Action::Show => *line = self.line(&format!("S({id});")),
            Action::Compute => *line = self.line("r = r * 31 + n; KEEP;"),
            Action::Call(callee, argument) => {
                let text = match callee {
                    Callee::Function(f) => format!("r += f{f}({argument}, {id}); KEEP;"),
                    Callee::Deep(f, depth) => format!("r += f{f}({argument}, {id}, {depth}); KEEP;"),
                    Callee::Pointer(f) => format!(
                        "{{ unsigned (*volatile p{id})(int, int) = f{f}; r += p{id}({argument}, {id}); KEEP; }}"
                    ),
                    Callee::Through(f) => format!("r += through(f{f}, {argument}, {id}); KEEP;"),
                    Callee::Caught(f, g) => format!("r += caught(f{f}, f{g}, {argument}, {id}); KEEP;"),
                    Callee::Std(f) => format!(
                        "{{ std::function<unsigned(int, int)> g{id} = f{f}; r += g{id}({argument}, {id}); KEEP; }}"
                    ),
                    Callee::Table(add) => {
                        format!("r += table[(n + {add}) % {}]({argument}, {id}); KEEP;", self.table)
                    }
                    Callee::Run(add) => {
                        format!("r += objects[(n + {add}) % {}]->run({argument}, {id}); KEEP;", self.virtuals)
                    }
                    Callee::Walk(add) => format!(
                        "r += walkers[(n + {add}) % {}]->walk({argument}, {id}); KEEP;",
                        self.virtuals
                    ),
                };
                *line = self.line(&text);
            }
            Action::Tail(f, argument) => *line = self.line(&format!("return f{f}({argument}, {id});")),
            Action::If(condition, then, otherwise) => {
                *line = self.open(&format!("if ({condition}) {{"));
                self.block(then);
                if !otherwise.is_empty() {
                    self.close("} else {");
                    self.indent += 1;
                    self.block(otherwise);
                }
                self.close("}");
            }
            Action::Loop(count, body) => {
                *line = self.open(&format!("for (int i{id} = 0; i{id} < {count}; i{id}++) {{"));
                self.block(body);
                self.close("}");
            }
            Action::Try(body, handlers) => {
                *line = self.open("try {");
                self.block(body);
                for Handler { thrown, body } in handlers {
                    self.indent -= 1;
                    match thrown {
                        Some(3) => {
                            self.open("} catch (int e) {");
                            self.line("r += e;");
                        }
                        Some(thrown) => {
                            self.open(&format!("}} catch ({} &e) {{", THROWN[*thrown]));
                            self.line("r += e.value;");
                        }
                        None => {
                            self.open("} catch (...) {");
                        }
                    }
                    self.block(body);
                }
                self.close("}");
            }
            Action::Throw(condition, thrown) => {
                *line = self.line(&format!("if ({condition}) throw {}(n);", THROWN[*thrown]));
            }
            Action::Rethrow(condition) => *line = self.line(&format!("if ({condition}) throw;")),
            Action::Object(class, argument) => {
                *line = self.line(&format!("O{class} o{id}({argument}); KEEP;"))
            }
            Action::Lambda { body, argument, noinline, function } => {
                let noinline = if *noinline { " NOINLINE" } else { "" };
                self.open(&format!("auto l{id} = [&](int n){noinline} -> unsigned {{"));
                self.line("if (n <= 0) return 1;");
                self.line("unsigned r = n;");
                self.block(body);
                self.line("return r;");
                self.close("};");
                *line = self.line(&if *function {
                    format!("{{ std::function<unsigned(int)> g{id} = l{id}; r += g{id}({argument}); KEEP; }}")
                } else {
                    format!("r += l{id}({argument}); KEEP;")
                });
            }
            Action::Qsort(f, argument) => {
                *line = self.line(&format!(
                    "{{ int a{id}[2] = {{{argument}, {argument}}}; qsort(a{id}, 2, sizeof(int), compare{f}); KEEP; }}"
                ));
            }
            Action::Sort(body, argument) => {
                self.line(&format!("int a{id}[2] = {{2, 1}}, m{id} = {argument}; bool once{id} = true;"));
                self.open(&format!("auto l{id} = [&](int, int) -> bool {{"));
                self.line(&format!("int n = m{id};"));
                self.line(&format!("if (n <= 0 || !once{id}) return false;"));
                self.line(&format!("once{id} = false;"));
                self.line("unsigned r = n;");
                self.block(body);
                self.line("return false;");
                self.close("};");
                *line = self.line(&format!("std::sort(a{id}, a{id} + 2, l{id}); KEEP;"));
            }
            Action::Threads(workers) => {
                for (id, body) in workers.iter_mut() {
                    self.open(&format!("std::thread t{id}([n = n, next = next_tag()] {{"));
                    self.line("tag = next;");
                    self.line("unsigned r = n;");
                    self.block(body);
                    self.close("});");
                }
                let joins: String = workers.iter().map(|(id, _)| format!("t{id}.join(); ")).collect();
                *line = self.line(joins.trim_end());
            }
        }
    }
}

/// A function's declaration.
fn signature(f: usize, function: &Function) -> String {
    signature_of(f, function.kind, function.file, function.is_static, function.noinline, false)
}

fn signature_of(
    f: usize,
    kind: Kind,
    file: usize,
    is_static: bool,
    noinline: bool,
    definition: bool,
) -> String {
    let member = matches!(kind, Kind::Run(_) | Kind::Walk(_) | Kind::Constructor(_) | Kind::Destructor(_));
    let mut text = String::new();
    if is_static {
        text += "static ";
    }
    if file == 0 {
        text += "inline ";
    }
    if noinline && kind != Kind::Main {
        text += "NOINLINE ";
    }
    debug_assert!(definition || !member, "members are declared in their classes");
    text + &match kind {
        Kind::Free => format!("unsigned f{f}(int n, int s)"),
        Kind::Deep { .. } => format!("unsigned f{f}(int n, int s, int depth)"),
        Kind::Run(class) => format!("unsigned V{class}::run(int n, int s)"),
        Kind::Walk(class) => format!("unsigned V{class}::walk(int n, int s)"),
        Kind::Constructor(class) => format!("O{class}::O{class}(int v) : n(v)"),
        Kind::Destructor(class) => format!("O{class}::~O{class}()"),
        Kind::Compare => format!("int compare{f}(const void *x, const void *)"),
        Kind::Start => format!("unsigned start{f}()"),
        Kind::Main => "int main()".to_owned(),
    }
}

// ---- Interpreting a tree.

/// The program takes too many contexts, or too long.
struct TooLarge;

type Step<T> = Result<T, TooLarge>;

enum Flow {
    Next,
    Return,
    Throw(usize),
}

/// An activation on the interpreter's stack.
#[derive(Clone)]
struct Activation {
    what: What,
    line: Option<u32>,
}

#[derive(Clone, Copy)]
enum What {
    Function(usize),
    /// A lambda in a function, with the end of its name.
    Lambda(usize, &'static str),
    /// The initialiser that calls a start function.
    Initialiser(usize),
    /// Code that is not instrumented.
    Boundary(&'static str),
}

/// A thread of the interpreted program.
struct Thread {
    tag: u64,
    children: u64,
    stack: Vec<Activation>,
    caught: Vec<usize>,
}

impl Thread {
    fn new(tag: u64) -> Self {
        Self { tag, children: 0, stack: Vec::new(), caught: Vec::new() }
    }
}

struct Interpreter<'a> {
    tree: &'a Tree,
    shown: HashMap<u64, Vec<Expected>>,
    contexts: usize,
    calls: usize,
    threads: usize,
    thread: Thread,
}

/// An activation's variables.
struct Variables {
    n: i32,
    /// Loop counters, by the loop's id.
    counters: Vec<(u32, i32)>,
}

impl Variables {
    fn new(n: i32) -> Self {
        Self { n, counters: Vec::new() }
    }

    fn holds(&self, condition: &Condition) -> bool {
        let counter = condition
            .counter
            .map_or(0, |id| self.counters.iter().rev().find(|c| c.0 == id).map_or(0, |c| c.1));
        (self.n + counter + condition.add) % condition.modulo == condition.equals
    }
}

impl<'a> Interpreter<'a> {
    fn run(tree: &'a Tree, start: i32) -> Step<HashMap<u64, Vec<Expected>>> {
        let mut interpreter =
            Self { tree, shown: HashMap::new(), contexts: 0, calls: 0, threads: 0, thread: Thread::new(1) };
        // Static initialisers run unit by unit, in the order of the link.
        for unit in 1..=tree.units {
            for (f, function) in tree.functions.iter().enumerate() {
                if function.kind == Kind::Start && function.file == unit {
                    let line = Some(function.line);
                    interpreter.thread.stack.push(Activation { what: What::Initialiser(f), line });
                    interpreter.function(f, 2)?;
                    interpreter.thread.stack.pop();
                }
            }
        }
        let main = tree.functions.len() - 1;
        interpreter.function(main, start)?;
        Ok(interpreter.shown)
    }

    /// Calls a function. What comes back is [`Flow::Next`] or [`Flow::Throw`].
    fn function(&mut self, f: usize, n: i32) -> Step<Flow> {
        match self.tree.functions[f].kind {
            Kind::Deep { .. } => unreachable!("has one more parameter"),
            _ => self.activation(What::Function(f), n, &self.tree.functions[f].body),
        }
    }

    /// The same by code that is not instrumented.
    fn called_back(&mut self, by: &'static str, f: usize, n: i32) -> Step<Flow> {
        self.thread.stack.push(Activation { what: What::Boundary(by), line: None });
        let flow = self.function(f, n);
        self.thread.stack.pop();
        flow
    }

    fn deep(&mut self, f: usize, n: i32, depth: i32) -> Step<Flow> {
        let Function { kind: Kind::Deep { next }, ref body, line, .. } = self.tree.functions[f] else {
            unreachable!("is a deep one")
        };
        if depth <= 0 || n <= 0 {
            return self.activation(What::Function(f), n, body);
        }
        self.calls += 1;
        self.thread.stack.push(Activation { what: What::Function(f), line: Some(line) });
        let flow = self.deep(next, n, depth - 1);
        self.thread.stack.pop();
        flow
    }

    fn activation(&mut self, what: What, n: i32, body: &[Statement]) -> Step<Flow> {
        self.calls += 1;
        if self.calls > MAX_CALLS {
            return Err(TooLarge);
        }
        if n <= 0 {
            return Ok(Flow::Next);
        }
        self.thread.stack.push(Activation { what, line: None });
        let flow = self.block(body, &mut Variables::new(n))?;
        self.thread.stack.pop();
        Ok(match flow {
            Flow::Throw(thrown) => Flow::Throw(thrown),
            Flow::Next | Flow::Return => Flow::Next,
        })
    }

    fn at(&mut self, line: Option<u32>) {
        if let Some(activation) = self.thread.stack.last_mut() {
            activation.line = line;
        }
    }

    fn block(&mut self, block: &[Statement], variables: &mut Variables) -> Step<Flow> {
        // Class and `n` of the objects of this block.
        let mut objects: Vec<(usize, i32)> = Vec::new();
        let mut flow = Flow::Next;
        for statement in block {
            self.at(Some(statement.line));
            flow = self.statement(statement, variables, &mut objects)?;
            if !matches!(flow, Flow::Next) {
                break;
            }
        }
        for &(class, n) in objects.iter().rev() {
            self.at(None);
            // It catches what it throws.
            self.function(self.tree.objects[class].1, n)?;
        }
        Ok(flow)
    }

    fn statement(
        &mut self,
        statement: &Statement,
        variables: &mut Variables,
        objects: &mut Vec<(usize, i32)>,
    ) -> Step<Flow> {
        let n = variables.n;
        match &statement.action {
            Action::Show => self.show(statement.id)?,
            Action::Compute => {}
            Action::Call(callee, argument) => {
                let index = |add: i32, len: usize| (n + add) as usize % len;
                let m = argument.of(n);
                return match *callee {
                    Callee::Function(f) | Callee::Pointer(f) | Callee::Std(f) => self.function(f, m),
                    Callee::Through(f) => self.called_back("<through>", f, m),
                    Callee::Caught(f, g) => {
                        self.called_back("<caught>", f, m)?;
                        self.called_back("<caught>", g, m)
                    }
                    Callee::Deep(f, depth) => self.deep(f, m, depth),
                    Callee::Table(add) => {
                        self.function(self.tree.table[index(add, self.tree.table.len())], m)
                    }
                    Callee::Run(add) => {
                        self.function(self.tree.virtuals[index(add, self.tree.virtuals.len())].0, m)
                    }
                    Callee::Walk(add) => {
                        self.function(self.tree.virtuals[index(add, self.tree.virtuals.len())].1, m)
                    }
                };
            }
            Action::Tail(f, argument) => {
                return Ok(match self.function(*f, argument.of(n))? {
                    Flow::Throw(thrown) => Flow::Throw(thrown),
                    Flow::Next | Flow::Return => Flow::Return,
                });
            }
            Action::If(condition, then, otherwise) => {
                let block = if variables.holds(condition) { then } else { otherwise };
                return self.block(block, variables);
            }
            Action::Loop(count, body) => {
                for i in 0..*count {
                    variables.counters.push((statement.id, i));
                    let flow = self.block(body, variables)?;
                    variables.counters.pop();
                    if !matches!(flow, Flow::Next) {
                        return Ok(flow);
                    }
                }
            }
            Action::Try(body, handlers) => {
                let counters = variables.counters.len();
                let flow = self.block(body, variables)?;
                let Flow::Throw(thrown) = flow else { return Ok(flow) };
                variables.counters.truncate(counters);
                // E1 is an E0.
                let catches =
                    |handler: Option<usize>| handler.is_none_or(|h| h == thrown || (h == 0 && thrown == 1));
                let Some(handler) = handlers.iter().find(|h| catches(h.thrown)) else { return Ok(flow) };
                self.thread.caught.push(thrown);
                let flow = self.block(&handler.body, variables)?;
                self.thread.caught.pop();
                return Ok(flow);
            }
            Action::Throw(condition, thrown) => {
                if variables.holds(condition) {
                    return Ok(Flow::Throw(*thrown));
                }
            }
            Action::Rethrow(condition) => {
                if variables.holds(condition) {
                    let thrown = self.thread.caught.last();
                    return Ok(Flow::Throw(*thrown.expect("stands in a handler")));
                }
            }
            Action::Object(class, argument) => {
                let n = argument.of(n);
                let flow = self.function(self.tree.objects[*class].0, n)?;
                if matches!(flow, Flow::Next) {
                    objects.push((*class, n));
                }
                return Ok(flow);
            }
            Action::Lambda { body, argument, .. } => {
                return self.activation(self.lambda("operator()(int) const"), argument.of(n), body);
            }
            Action::Qsort(f, argument) => {
                return self.called_back("<qsort>", *f, argument.of(n));
            }
            Action::Sort(body, argument) => {
                return self.activation(self.lambda("operator()(int, int) const"), argument.of(n), body);
            }
            Action::Threads(workers) => {
                for (_, body) in workers {
                    self.threads += 1;
                    if self.threads > MAX_THREADS {
                        return Err(TooLarge);
                    }
                    self.thread.children += 1;
                    let tag = self.thread.tag.wrapping_mul(1_000_003).wrapping_add(self.thread.children);
                    let what = self.lambda("operator()() const");
                    let creator = std::mem::replace(&mut self.thread, Thread::new(tag));
                    self.activation(what, n, body)?;
                    self.thread = creator;
                }
            }
        }
        Ok(Flow::Next)
    }

    /// A lambda in the function that is active.
    fn lambda(&self, end: &'static str) -> What {
        match self.thread.stack.last().map(|a| a.what) {
            Some(What::Function(f) | What::Lambda(f, _)) => What::Lambda(f, end),
            _ => unreachable!("statements are in functions"),
        }
    }

    fn show(&mut self, id: u32) -> Step<()> {
        self.contexts += 1;
        if self.contexts > MAX_CONTEXTS {
            return Err(TooLarge);
        }
        let known = |activation: &Activation| {
            let (start, end, f) = match activation.what {
                What::Function(f) => (self.tree.demangled(f), "", Some(f)),
                What::Lambda(f, end) => (self.tree.demangled(f), end, Some(f)),
                What::Initialiser(f) => ("__cxx_global_var_init".to_owned(), "", Some(f)),
                What::Boundary(name) => (name.to_owned(), "", None),
            };
            let file = f.map(|f| self.tree.file_name(self.tree.functions[f].file));
            Known { start, end, file, line: activation.line }
        };
        let frames = self.thread.stack.iter().rev().map(known).collect();
        self.shown.entry(self.thread.tag).or_default().push(Expected { id, frames });
        Ok(())
    }
}

// ---- Comparing with what came out.

impl Model {
    /// What is expected for each of the names that a program has shown, in their order.
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
    /// Compares with a decoded chain of a program whose files are in `folder`; frames of the standard library's headers are left out.
    /// The error is what was found.
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
