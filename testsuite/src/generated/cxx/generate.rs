//! From random numbers to a program.
use rand::RngExt as _;
use rand::rngs::StdRng;

use super::THROWN;
use super::syntax::{
    Action, Argument, Callee, Condition, Features, Function, Handler, Kind, Statement, Tree,
};

pub(super) struct Maker<'a> {
    random: &'a mut StdRng,
    tree: Tree,
    id: u32,
}

/// The surroundings of a generated statement.
#[derive(Clone)]
struct Place {
    function: usize,
    file: usize,
    depth: u32,
    /// True in a handler, where `throw;` has a meaning.
    handler: bool,
    counters: Vec<u32>,
    /// False in constructors and destructors themselves: a frame of theirs may appear twice (compilers make two
    /// functions of one, and one may call the other), which must not be mistaken for one in the other.
    objects: bool,
}

impl<'a> Maker<'a> {
    pub(super) fn new(random: &'a mut StdRng) -> Self {
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

    pub(super) fn make(mut self) -> Tree {
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
                // Only to a later function: a cycle of tail calls would become a loop, which has no frames.
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
        let max_len = if place.depth < 2 { 5 } else { 3 };
        (0..self.random.random_range(1..=max_len)).map(|_| self.any(place)).collect()
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
