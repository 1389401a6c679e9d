//! Interprets a program: its calls, and the contexts in which it makes them.
use std::collections::HashMap;

use super::syntax::{Action, Callee, Condition, Function, Kind, Statement, Tree};
use super::{Expected, Known, MAX_CALLS, MAX_CONTEXTS, MAX_THREADS};

/// The program takes too many contexts, or too long.
pub(super) struct TooLarge;

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

pub(super) struct Interpreter<'a> {
    tree: &'a Tree,
    shown: HashMap<u64, Vec<Expected>>,
    contexts: usize,
    calls: usize,
    threads: usize,
    thread: Thread,
}

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
    pub(super) fn run(tree: &'a Tree, start: i32) -> Step<HashMap<u64, Vec<Expected>>> {
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

    /// Calls a function. The result is [`Flow::Next`] or [`Flow::Throw`].
    fn function(&mut self, f: usize, n: i32) -> Step<Flow> {
        match self.tree.functions[f].kind {
            Kind::Deep { .. } => unreachable!("has one more parameter"),
            _ => self.activation(What::Function(f), n, &self.tree.functions[f].body),
        }
    }

    /// As [`function`](Self::function), by code that is not instrumented.
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
            // A destructor catches its own exceptions.
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
