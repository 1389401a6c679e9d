//! Contexts that a program in verify mode has written (`PCCE_VERIFY_CONTEXTS`): decodes each from its id and
//! the number of its chain, and compares the result with the calls of the shadow stack.
//!
//! The shadow stack does not depend on encodings. The program has written it as a tree: each context has a line,
//! with the number of its caller's line and the place of the call. The sequences of call sites are compared, from
//! the innermost call to the outermost one.

pub mod captures;

use std::collections::HashMap;
use std::io::{self, BufRead};

use crate::Decoder;
use crate::context::{Context, PieceClass};
use crate::images::symbols::Symbols;
use crate::numbers::Numbers;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Lines, each a context that differs from all others.
    pub contexts: u64,
    /// Contexts of silent functions, in which no number is taken: their state is that of their caller.
    pub silent: u64,
    /// Contexts that were decoded.
    pub decoded: u64,
    /// Decoded contexts with a boundary at which calls may be missing.
    pub partly: u64,
    /// Calls of all decoded contexts.
    pub calls: u64,
    /// Contexts with another call than the shadow stack has, or that could not be decoded.
    pub wrong: u64,
    pub first: Option<String>,
}

impl Verified {
    /// Adds a context that has the calls of the shadow stack.
    fn add(&mut self, equal: Equal) {
        self.calls += equal.calls;
        self.partly += u64::from(!equal.whole);
    }
}

/// A context that has the calls of the shadow stack.
struct Equal {
    calls: u64,
    /// True if no calls can be missing.
    whole: bool,
}

/// The state of a function's entry in a line.
#[derive(Clone, Copy)]
struct State {
    id: u64,
    /// The record of the chain of frames; 0 if there is none.
    chain: u64,
}

/// A node of the tree of shadow stacks.
#[derive(Clone, Copy, Default)]
struct Node {
    /// 0 for an outermost node.
    caller: u64,
    place: u64,
}

struct Checker<'d> {
    decoder: &'d Decoder,
    numbers: &'d Numbers,
    nodes: Vec<Node>,
    /// Sites, by the record of their place; None for those that no dictionary has.
    sites: HashMap<u64, Option<u32>>,
    functions: Functions,
    context: Context,
}

/// Functions by their names: local ones of several modules may share one.
struct Functions(HashMap<String, Vec<u32>>);

impl Functions {
    fn new(symbols: &Symbols) -> Self {
        let mut functions: HashMap<String, Vec<u32>> = HashMap::new();
        for function in 0..symbols.functions.len() as u32 {
            functions.entry(symbols.function_name(function).to_owned()).or_default().push(function);
        }
        Self(functions)
    }

    /// The functions that a name may mean. When modules are linked, LLVM adds a full stop and a number to local
    /// names.
    fn named(&self, name: &str) -> &[u32] {
        let renamed =
            || name.rsplit_once('.').filter(|(_, end)| end.bytes().all(|byte| byte.is_ascii_digit()));
        let found = self.0.get(name).or_else(|| self.0.get(renamed()?.0));
        found.map_or(&[], Vec::as_slice)
    }
}

/// Checks every `step`-th line.
///
/// # Errors
/// If the text cannot be read, or was not written by a program.
pub fn check(decoder: &Decoder, numbers: &Numbers, text: impl BufRead, step: u64) -> io::Result<Verified> {
    let functions = Functions::new(&decoder.images.symbols);
    let (nodes, sites) = (Vec::new(), HashMap::new());
    let mut checker = Checker { decoder, numbers, nodes, sites, functions, context: Context::default() };
    let (mut verified, mut late) = (Verified::default(), Vec::new());
    for line in text.lines() {
        let line = line?;
        let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("no context: {line}"));
        let mut words = line.splitn(6, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let numbers = [number(), number(), number(), number(), number()];
        let [Some(number), Some(caller), Some(place), Some(id), Some(chain)] = numbers else {
            return Err(bad());
        };
        let name = words.next().ok_or_else(bad)?;
        let index = usize::try_from(number).map_err(|_| bad())?;
        // Threads write a line some time after taking its number, so lines may be out of order.
        if caller >= number || index > checker.nodes.len() + (1 << 20) {
            return Err(bad());
        }
        if checker.nodes.len() <= index {
            checker.nodes.resize(index + 1, Node::default());
        }
        checker.nodes[index] = Node { caller, place };
        verified.contexts += 1;
        if verified.contexts % step != 0 {
            continue;
        }
        if checker.is_silent(name) {
            verified.silent += 1;
            continue;
        }
        verified.decoded += 1;
        match checker.compare(number, name, State { id, chain }) {
            Ok(right) => verified.add(right),
            // The caller's line may come later, if its thread had the number and had not written the line.
            Err(_) => late.push((line.clone(), number, State { id, chain })),
        }
    }
    for (line, number, state) in late {
        let name = line.splitn(6, ' ').last().unwrap_or_default();
        match checker.compare(number, name, state) {
            Ok(right) => verified.add(right),
            // Among local functions of one name, it may have been the one in which no number is taken.
            Err(_) if checker.may_be_silent(name) => {
                verified.silent += 1;
                verified.decoded -= 1;
            }
            Err(what) => {
                verified.wrong += 1;
                verified.first.get_or_insert_with(|| format!("{line}: {what}"));
            }
        }
    }
    Ok(verified)
}

impl Checker<'_> {
    fn is_silent(&self, name: &str) -> bool {
        let functions = &self.decoder.images.symbols.functions;
        let named = self.functions.named(name);
        !named.is_empty() && named.iter().all(|&function| functions[function as usize].silent)
    }

    fn may_be_silent(&self, name: &str) -> bool {
        let functions = &self.decoder.images.symbols.functions;
        self.functions.named(name).iter().any(|&function| functions[function as usize].silent)
    }

    /// Decodes a context in each of the functions with a name, and compares it, until one is equal.
    fn compare(&mut self, number: u64, name: &str, state: State) -> Result<Equal, String> {
        let mut result = Err("no function has this name".to_owned());
        for function in self.functions.named(name).to_vec() {
            result = self.compare_in(number, function, state);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Decodes a context and compares it.
    fn compare_in(&mut self, number: u64, function: u32, state: State) -> Result<Equal, String> {
        let mut context = std::mem::take(&mut self.context);
        let decoded = self.decoder.decode_entry(self.numbers, function, state.id, state.chain, &mut context);
        decoded.map_err(|error| error.to_string())?;
        let mut node = number;
        let (mut calls, mut whole) = (0, true);
        for (pieces, count) in context.slices() {
            for piece in (0..count).flat_map(|_| pieces) {
                match piece.class() {
                    PieceClass::Call(site) => {
                        calls += 1;
                        // After a boundary, calls may be missing, but the others are the same.
                        loop {
                            let Some(expected) = self.next(&mut node)? else {
                                return Err(format!("call {calls} is none of the shadow stack"));
                            };
                            if expected == site {
                                break;
                            }
                            if whole {
                                return Err(format!("call {calls} is site {site}, and should be {expected}"));
                            }
                        }
                    }
                    PieceClass::Function | PieceClass::Outside | PieceClass::Left => {}
                    PieceClass::Handler | PieceClass::Origin | PieceClass::Missing => whole = false,
                }
            }
        }
        if whole && self.next(&mut node)?.is_some() {
            return Err(format!("calls of the shadow stack are missing behind the first {calls}"));
        }
        self.context = context;
        Ok(Equal { calls, whole })
    }

    /// The next call outwards that contexts do not leave out; None after the last one.
    fn next(&mut self, node: &mut u64) -> Result<Option<u32>, String> {
        let symbols = &self.decoder.images.symbols;
        loop {
            let Node { caller, place } = self.nodes[*node as usize];
            if caller == 0 {
                return Ok(None);
            }
            *node = caller;
            let site = *self.sites.entry(place).or_insert_with(|| {
                let (id, address) = self.numbers.place(place)?;
                let image = symbols.images.iter().position(|image| image.id == id)?;
                symbols.site_at(image as u32, address)
            });
            let site = site.ok_or_else(|| format!("no dictionary has the call of record {place}"))?;
            if !symbols.is_left_out(site) {
                return Ok(Some(site));
            }
        }
    }
}
