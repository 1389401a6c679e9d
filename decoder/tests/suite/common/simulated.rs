//! Runs of random programs: what a run does is decided here, written as a program would write it, and kept as the list
//! of events that a reader must find. Shares no code with the reader.

#![allow(dead_code)]

use pcce_abi::trace as abi;
use pcce_dictionary::trace::Kind;

use crate::common::stream::{Settled, Writer};
use crate::common::world::{Random, World};

/// What a reader must tell: the kind's name, the depth, function and node as numbers over all.
pub type Expected = (&'static str, u32, u32, u32);

/// How what was going on in a call has ended.
enum Outcome {
    Returned,
    /// The same, out of unknown code that had taken its place.
    Left,
    /// An exception.
    Thrown,
    /// A `longjmp` to what has this number.
    Jumped(u64),
    /// The process is gone.
    Gone,
}

/// A run of a thread.
pub struct Run<'w> {
    world: &'w World,
    random: Random,
    pub writer: Writer,
    /// What happened.
    pub events: Vec<Expected>,
    /// Events are left for so long.
    budget: u32,
    /// Active calls with a landing pad; numbers of active calls that may return again.
    pads: usize,
    jumps: Vec<u64>,
    count: u64,
    cache: Vec<u64>,
    /// The functions of the cache in their order: by the last one, the next one.
    followed: [usize; 256],
    before: usize,
    chunk: usize,
    /// It is silent up to its fork, at this visit of open code.
    fork: Option<(u64, Random)>,
    visits: u64,
    /// Where the visits were.
    pub positions: Vec<u64>,
    /// Whether the end of the stream is known.
    pub ended: bool,
    depth: u32,
}

const NONE: u32 = u32::MAX;
const MAX_DEPTH: u32 = 40;

impl<'w> Run<'w> {
    pub fn new(world: &'w World, seed: u64, budget: u32, writer: Writer) -> Self {
        Self {
            world,
            random: Random::new(seed),
            writer,
            events: Vec::new(),
            budget,
            pads: 0,
            jumps: Vec::new(),
            count: 0,
            cache: vec![0; abi::CACHE],
            followed: [0; 256],
            before: 0,
            chunk: 0,
            fork: None,
            visits: 0,
            positions: Vec::new(),
            ended: false,
            depth: 0,
        }
    }

    /// The same run up to a visit of open code; from there on, that of the child.
    pub fn forked(mut self, visit: u64, seed: u64) -> Self {
        self.fork = Some((visit, Random::new(seed)));
        self.writer.silent = true;
        self
    }

    /// A thread's beginning and end.
    pub fn thread(&mut self) {
        let outcome = self.open(0);
        if matches!(outcome, Outcome::Returned | Outcome::Left) {
            self.ended = true;
        }
        self.finish();
    }

    /// Signal handlers, one after the other.
    pub fn handlers(&mut self, positions: &[u64]) {
        for &position in positions {
            self.special(&[abi::special(abi::Special::Handler, 10), 9, position]);
            self.tell("signal", 0, NONE, NONE);
            self.settle();
            let before = self.budget;
            self.budget = before.min(20);
            let outcome = self.open(0);
            self.budget = before.saturating_sub(20);
            if matches!(outcome, Outcome::Gone) {
                break;
            }
            let (word, kind) = match outcome {
                Outcome::Thrown | Outcome::Jumped(_) => {
                    (abi::special(abi::Special::Gap, abi::Gap::Left as u64), "signal-left")
                }
                _ => (abi::special(abi::Special::HandlerEnd, 0), "signal-return"),
            };
            self.special(&[word]);
            self.tell(kind, 0, NONE, NONE);
            self.settle();
        }
        self.finish();
    }

    fn finish(&mut self) {
        if self.ended {
            self.writer.end(self.events.len());
        }
    }

    fn tell(&mut self, kind: &'static str, depth: u32, function: u32, node: u32) {
        if !self.writer.silent {
            self.events.push((kind, depth, function, node));
        }
    }

    fn settle(&mut self) {
        self.writer.settle(Settled { told: self.events.len(), events: 0, hash: 0 });
    }

    fn bits(&mut self, code: u32, bits: u32) {
        self.writer.bits(code, bits);
        self.empty_cache();
    }

    fn special(&mut self, words: &[u64]) {
        self.writer.special(words);
        self.empty_cache();
        self.forget_order();
    }

    /// A chunk that has begun has an empty cache.
    fn empty_cache(&mut self) {
        if std::mem::replace(&mut self.chunk, self.writer.chunks()) != self.writer.chunks() {
            self.cache.fill(0);
            self.forget_order();
        }
    }

    fn forget_order(&mut self) {
        (self.followed, self.before) = ([0; 256], 0);
    }

    /// Unknown code that may enter functions at `depth`.
    fn open(&mut self, depth: u32) -> Outcome {
        loop {
            self.visits += 1;
            if self.fork.as_ref().is_some_and(|(visit, _)| *visit == self.visits)
                && let Some((_, random)) = self.fork.take()
            {
                self.random = random;
                self.writer.fork();
                self.cache.fill(0);
                self.forget_order();
            }
            self.positions.push(self.writer.position());
            if self.budget == 0 {
                // The process ends in here.
                self.ended = self.random.percent(50);
                return Outcome::Gone;
            }
            match self.random.below(12) {
                0 if self.pads > 0 => return Outcome::Thrown,
                1 if !self.jumps.is_empty() => {
                    let at = self.random.below(self.jumps.len() as u64) as usize;
                    return Outcome::Jumped(self.jumps[at]);
                }
                2 => {
                    let mark = self.random.below(1000);
                    if mark.is_multiple_of(4) {
                        self.special(&[abi::special(abi::Special::Flushed, 0)]);
                        self.settle();
                    }
                    self.special(&[abi::special(abi::Special::Mark, 0), mark]);
                    self.tell("mark", depth, NONE, NONE);
                    self.settle();
                }
                3..8 if depth < MAX_DEPTH => {
                    let function = self.random.below(self.world.functions.len() as u64) as u32;
                    self.enter(function, depth);
                    match self.run(function, depth, true) {
                        Outcome::Returned | Outcome::Left => {}
                        other => return other,
                    }
                }
                _ if depth > 0 || self.random.percent(10) => return Outcome::Returned,
                _ => {}
            }
        }
    }

    fn enter(&mut self, function: u32, depth: u32) {
        let address = self.world.address(function);
        let index = abi::cache_index(address as usize);
        if self.cache[index] == address {
            let expected = std::mem::replace(&mut self.followed[self.before], index) == index;
            self.before = index;
            if expected { self.bits(3, 2) } else { self.bits(2 << 8 | index as u32, 10) }
        } else {
            self.cache[index] = address;
            self.special(&[abi::special(abi::Special::Entered, address)]);
        }
        self.tell("entered", depth, function, NONE);
        self.settle();
    }

    /// A node comes: its code, then the event.
    fn event(&mut self, kind: &'static str, depth: u32, of: u32, function: u32, number: u32) {
        let node = &self.world.function(of).nodes[number as usize];
        let (code, bits) = (node.code, u32::from(node.bits));
        if bits > 0 {
            self.bits(code, bits);
        }
        self.tell(kind, depth, function, self.world.first_nodes[of as usize] + number);
        let f = self.world.functions[of as usize].2 as u32;
        self.writer.count(abi::event(self.world.module(of).key, f, number));
        self.settle();
    }

    /// An activation at `depth`, whose function may change by tail calls.
    fn run(&mut self, function: u32, depth: u32, entered: bool) -> Outcome {
        let mut function = function;
        let mut set = self.world.function(function).first;
        // The last numbers of its calls that may return again.
        let mut numbers: Vec<(u32, u64)> = Vec::new();
        let outcome = loop {
            let table = self.world.function(function);
            let choice = &table.sets[set as usize];
            // Control does not get there: the process is killed.
            if choice.is_empty() || self.budget == 0 && self.random.percent(30) {
                break Outcome::Gone;
            }
            self.budget = self.budget.saturating_sub(1);
            // At the end returns are preferred.
            let number = match choice.iter().find(|n| table.nodes[**n as usize].kind == Kind::Return) {
                Some(number) if self.budget == 0 || depth >= MAX_DEPTH => *number,
                _ => choice[self.random.below(choice.len() as u64) as usize],
            };
            let node = &table.nodes[number as usize];
            let mut outcome = Outcome::Returned;
            match node.kind {
                Kind::Return => {
                    self.event("return", depth, function, function, number);
                    break Outcome::Returned;
                }
                Kind::Closed(_) => self.event("closed-call", depth + 1, function, NONE, number),
                Kind::Block => self.event("block", depth + 1, function, NONE, number),
                Kind::ReturnsTwice(_) => {
                    self.event("returns-twice", depth + 1, function, NONE, number);
                    self.count += 1;
                    self.forget(&mut numbers, Some(number));
                    numbers.push((number, self.count));
                    self.jumps.push(self.count);
                }
                Kind::Call(callee) | Kind::Other(callee) => {
                    let callee = match node.kind {
                        Kind::Other(_) => self.world.other(function, callee),
                        _ => self.world.sibling(function, callee),
                    };
                    self.event("call", depth + 1, function, callee, number);
                    self.pads += usize::from(node.unwinds_to.is_some());
                    let too_deep = depth > MAX_DEPTH + 20;
                    outcome = if too_deep { Outcome::Gone } else { self.run(callee, depth + 1, false) };
                    self.pads -= usize::from(node.unwinds_to.is_some());
                }
                Kind::Open(_) => {
                    self.event("open-call", depth + 1, function, NONE, number);
                    self.pads += usize::from(node.unwinds_to.is_some());
                    outcome = self.open(depth + 2);
                    self.pads -= usize::from(node.unwinds_to.is_some());
                    if matches!(outcome, Outcome::Returned) {
                        self.bits(0, 1);
                        let node = self.world.first_nodes[function as usize] + number;
                        self.tell("open-return", depth + 1, NONE, node);
                        self.settle();
                    }
                }
                Kind::Leave(callee) => {
                    let callee = self.world.sibling(function, callee);
                    self.event("tail-call", depth, function, callee, number);
                    self.forget(&mut numbers, None);
                    function = callee;
                    set = self.world.function(callee).first;
                    continue;
                }
                Kind::LeaveOpen(_) => {
                    self.event("open-tail-call", depth, function, function, number);
                    self.forget(&mut numbers, None);
                    let outcome = self.open(if entered { depth } else { depth + 1 });
                    break match outcome {
                        Outcome::Returned if !entered => Outcome::Left,
                        other => other,
                    };
                }
                Kind::Resume => {
                    self.event("exception", depth, function, function, number);
                    // Nobody to catch it: the process ends.
                    break if self.pads > 0 { Outcome::Thrown } else { Outcome::Gone };
                }
                Kind::Landing => unreachable!("no set has it"),
            }
            let first = self.world.first_nodes[function as usize];
            match outcome {
                Outcome::Returned | Outcome::Left => {
                    if let Kind::Call(callee) = node.kind {
                        self.called(callee, function, number, depth, matches!(outcome, Outcome::Left));
                    }
                    set = node.next;
                }
                Outcome::Thrown if node.unwinds_to.is_some() => {
                    let pad = node.unwinds_to.expect("there is one");
                    let address = self.world.address(function);
                    self.special(&[abi::special(abi::Special::Landed, u64::from(pad)), address]);
                    self.tell("landed", depth, function, first + pad);
                    self.settle();
                    set = table.nodes[pad as usize].next;
                }
                Outcome::Jumped(to) if numbers.iter().any(|(_, number)| *number == to) => {
                    let at = numbers.iter().find(|(_, number)| *number == to).expect("it is there").0;
                    let address = self.world.address(function);
                    self.special(&[abi::special(abi::Special::Again, u64::from(at)), address, to]);
                    self.tell("returned-again", depth, function, first + at);
                    self.settle();
                    set = table.nodes[at as usize].next;
                }
                other => break other,
            }
        };
        self.forget(&mut numbers, None);
        outcome
    }

    /// A call by name has returned.
    fn called(&mut self, callee: u32, function: u32, number: u32, depth: u32, left: bool) {
        let callee = self.world.sibling(function, callee);
        if !self.world.function(callee).checked {
            return;
        }
        self.bits(0, 1);
        if left {
            let node = self.world.first_nodes[function as usize] + number;
            self.tell("open-return", depth + 1, NONE, node);
        }
        self.settle();
    }

    /// Numbers of a node, or of all, cannot be jumped to any more.
    fn forget(&mut self, numbers: &mut Vec<(u32, u64)>, node: Option<u32>) {
        let jumps = &mut self.jumps;
        numbers.retain(|(of, number)| {
            let goes = node.is_none_or(|node| node == *of);
            if goes {
                jumps.retain(|jump| jump != number);
            }
            !goes
        });
    }
}
