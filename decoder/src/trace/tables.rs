//! The tables of all images of a trace, as flat arrays: the replay finds everything by index.

use std::collections::{HashMap, HashSet};
use std::num::NonZero;
use std::sync::OnceLock;

use pcce_abi::trace::event;
use pcce_dictionary::trace::{self as files, BEHIND, Kind, Part, Traced, UNVERIFIED, Writers};
use thiserror::Error;

use crate::context::{Frame, FrameKind};
use crate::names;
use crate::source_path::direct;

/// An error in tables.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("module {module}, function {function}: {what}; build the program again")]
pub struct InvalidTables {
    pub module: String,
    /// Linkage name of the function.
    pub function: String,
    /// The error.
    pub what: &'static str,
}

/// No node, function or name.
pub const NONE: u32 = u32::MAX;

/// The operation of the replay at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// A call of a traced function by name.
    Call,
    /// A call of a function that is not traced, and calls nothing back.
    Closed,
    Open,
    ReturnsTwice,
    Return,
    Leave,
    LeaveOpen,
    Resume,
    Landing,
    Block,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) op: Op,
    /// True if a bit follows when the callee has returned. Where the callee has left its activation to unknown
    /// code, it is the bit that says that this has returned.
    pub(super) checked: bool,
    /// The function that is called, if it is traced; else its name.
    pub(super) target: u32,
    /// The choice that follows it.
    pub(super) next: u32,
    /// The landing pad to which an exception leads.
    pub(super) unwinds_to: u32,
    /// Its value in the hash of verify mode.
    pub(super) event: Option<NonZero<u64>>,
    pub(super) function: u32,
    first_location: u32,
    locations: u32,
}

/// The alternatives for the next node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// The number of bits that are looked up at a time; 0 if there is nothing to choose.
    pub(super) width: u32,
    /// The node; or where the table of 2^`width` entries begins.
    pub(super) start: u32,
    /// The parts that have written its bits, if the program is one of several that share a trace.
    pub(super) writers: Writers,
}

/// An entry of a lookup table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) node: u32,
    /// The number of bits of its code; 0 if there is none, or a longer one.
    pub(super) bits: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub(super) name: u32,
    pub(super) first: u32,
    first_node: u32,
    nodes: u32,
    /// True if it was not left out of the trace, by the build or by the process.
    pub(super) is_traced: bool,
}

#[derive(Debug)]
struct Name {
    linkage: Box<str>,
    demangled: OnceLock<Box<str>>,
}

#[derive(Clone, Copy, Debug)]
struct Location {
    name: u32,
    file: u32,
    line: u32,
    column: u32,
}

/// A place in the machine code where a chunk may begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The node whose bits are written there.
    pub(super) node: u32,
    /// True if the node is a call that has returned.
    pub(super) has_returned: bool,
    /// The number of bits of its code that are written after the place.
    pub(super) left: u32,
}

#[derive(Debug, Default)]
pub struct Tables {
    pub(super) functions: Vec<Function>,
    pub(super) nodes: Vec<Node>,
    pub(super) choices: Vec<Choice>,
    pub(super) entries: Vec<Entry>,
    /// By choice with codes longer than a lookup: its codes, the first bit highest, and their nodes.
    long: HashMap<u32, Vec<(u32, Entry)>>,
    /// Functions, by image and address in its file.
    by_address: HashMap<(u32, u64), u32>,
    /// Further functions at such an address.
    again: Vec<((u32, u64), u32)>,
    /// Nodes, by image and address of their call sites.
    by_site: HashMap<(u32, u64), u32>,
    places: HashMap<(u32, u64), Place>,
    /// By image, the length of the call of the tracer at the beginning of functions.
    entry_lens: HashMap<u32, u64>,
    lines: Vec<(u32, u32, u32)>,
    /// By node, the index of its first line. Its lines end where those of the next node begin.
    first_lines: Vec<u32>,
    /// By node, its code and the number of bits of the code.
    codes: Vec<(u32, u32)>,
    names: Vec<Name>,
    numbers: HashMap<Box<str>, u32>,
    files: Vec<Box<str>>,
    locations: Vec<Location>,
    /// Calls of functions of other modules that may not have been added yet.
    unbound: Vec<Unbound>,
    /// The part, if a program is one of several that share a trace.
    pub part: Option<Part>,
}

/// A call of a function of another module.
#[derive(Debug)]
struct Unbound {
    node: u32,
    image: u32,
    /// The function's, in the image's file.
    address: u64,
    module: String,
}

/// Bound on the bits that are looked up at a time.
const MAX_WIDTH: u32 = 8;

impl Tables {
    /// Adds a module of an image.
    ///
    /// # Errors
    /// [`InvalidTables`]: its codes do not distinguish alternatives.
    pub fn add(&mut self, image: u32, module: &Traced) -> Result<(), InvalidTables> {
        let names: Vec<u32> = module.names.iter().map(|name| self.name(name)).collect();
        self.part = self.part.or(module.part);
        let first_file = self.files.len() as u32;
        self.files.extend(module.files.iter().map(|file| Box::from(direct(file))));
        let first_function = self.functions.len() as u32;
        for (number, function) in (0..).zip(&module.functions) {
            let invalid = |what| InvalidTables {
                module: module.name.clone(),
                function: module.names[function.name as usize].clone(),
                what,
            };
            let first_node = self.nodes.len() as u32;
            let first_choice = self.choices.len() as u32;
            for (node_number, node) in (0..).zip(&function.nodes) {
                let name = |name: Option<u32>| name.map_or(NONE, |name| names[name as usize]);
                let (op, target) = match node.kind {
                    Kind::Call(callee) => (Op::Call, first_function + callee),
                    Kind::Other(other) => {
                        let node = first_node + node_number;
                        let address = module.other_addresses[other as usize];
                        self.unbound.push(Unbound { node, image, address, module: module.name.clone() });
                        // Until the function is known.
                        (Op::Closed, NONE)
                    }
                    Kind::Closed(callee) => (Op::Closed, name(Some(callee))),
                    Kind::Open(callee) => (Op::Open, name(callee)),
                    Kind::ReturnsTwice(callee) => (Op::ReturnsTwice, name(callee)),
                    Kind::Return => (Op::Return, NONE),
                    Kind::Leave(callee) => (Op::Leave, first_function + callee),
                    Kind::LeaveOpen(callee) => (Op::LeaveOpen, name(callee)),
                    Kind::Resume => (Op::Resume, NONE),
                    Kind::Landing => (Op::Landing, NONE),
                    Kind::Block => (Op::Block, NONE),
                };
                let checked = matches!(node.kind, Kind::Call(c) if module.functions[c as usize].checked);
                self.nodes.push(Node {
                    op,
                    checked,
                    target,
                    next: first_choice + node.next,
                    unwinds_to: node.unwinds_to.map_or(NONE, |pad| first_node + pad),
                    event: match module.key {
                        UNVERIFIED => None,
                        key => NonZero::new(event(key, number, node_number)),
                    },
                    function: first_function + number,
                    first_location: self.locations.len() as u32,
                    locations: node.locations.len() as u32,
                });
                self.first_lines.push(self.lines.len() as u32);
                self.lines
                    .extend(node.lines.iter().map(|&(file, line, copy)| (first_file + file, line, copy)));
                self.codes.push((node.code, u32::from(node.bits)));
                if let Some(site) = node.site.filter(|_| module.sites != 0) {
                    let site = module.sites.wrapping_add(site.into());
                    self.by_site.entry((image, site)).or_insert(first_node + node_number);
                }
                self.locations.extend(node.locations.iter().map(|location| Location {
                    name: names[location.name as usize],
                    file: first_file + location.file,
                    line: location.line,
                    column: location.column,
                }));
            }
            let classes = module.part.map(|_| files::classes(&function.sets, function.nodes.len()));
            for set in &function.sets {
                let class = classes.as_ref().and_then(|classes| Some(classes[*set.first()? as usize]));
                let name = &module.names[function.name as usize];
                let writers = module.part.zip(class).map(|(part, class)| part.writers(name, class));
                let writers = writers.unwrap_or(Writers { owner: 0, checker: None });
                self.add_choice(function, first_node, set, writers).map_err(invalid)?;
            }
            let address = module.addresses.get(number as usize);
            self.functions.push(Function {
                name: names[function.name as usize],
                first: first_choice + function.first,
                first_node,
                nodes: function.nodes.len() as u32,
                is_traced: address != Some(&0),
            });
            if let Some(&address) = address.filter(|address| **address != 0) {
                // The linker keeps the first body of a function that several modules have. GNU ld resolves the
                // addresses in the others' tables to the body that it kept, if both have the same size.
                let place = (image, address);
                if *self.by_address.entry(place).or_insert(first_function + number) != first_function + number
                {
                    self.again.push((place, first_function + number));
                }
            }
        }
        Ok(())
    }

    /// Resolves the calls of functions of other modules, after all modules of their images were added.
    ///
    /// # Errors
    /// [`InvalidTables`]: there is no such function.
    pub fn bind(&mut self) -> Result<(), InvalidTables> {
        for Unbound { node, image, address, module } in std::mem::take(&mut self.unbound) {
            let callee = self.function_at(image, address);
            let node = &mut self.nodes[node as usize];
            let function = node.function;
            match callee {
                Some(callee) => (node.op, node.target) = (Op::Call, callee),
                // The linker left the caller out, so it may have left the callee out, too.
                None if !self.functions[function as usize].is_traced => {}
                None => {
                    return Err(InvalidTables {
                        module,
                        function: self.linkage_name(self.name_of(function)).to_owned(),
                        what: "it calls a function of another module that has no tables",
                    });
                }
            }
        }
        Ok(())
    }

    /// Adds the places of an image, whose modules were added, and how many bytes of a function its call of the tracer
    /// takes at its beginning. Places in unknown functions are left out.
    pub(super) fn add_places(&mut self, image: u32, entry_len: u64, places: &[files::Place]) {
        self.entry_lens.insert(image, entry_len);
        for place in places {
            let Some(function) = self.function_at(image, place.function) else { continue };
            let number = place.node & !BEHIND;
            let Some(node) = self.node_of(function, number.into()) else { continue };
            let has_returned = place.node != number;
            if place.left > self.codes[node as usize].1 || has_returned && place.left > 0 {
                continue;
            }
            let row = Place { node, has_returned, left: place.left };
            self.places.entry((image, place.address)).or_insert(row);
        }
    }

    /// Leaves out functions of an image, by the addresses of their second bodies in its file: calls of them are calls
    /// of unknown code. To be called after all else was added.
    pub(super) fn leave_out(&mut self, image: u32, addresses: &[u64]) {
        let places: HashSet<(u32, u64)> = addresses.iter().map(|&address| (image, address)).collect();
        if places.is_empty() {
            return;
        }
        let mut left_out: HashSet<u32> =
            places.iter().filter_map(|place| self.by_address.remove(place)).collect();
        left_out
            .extend(self.again.iter().filter(|(place, _)| places.contains(place)).map(|(_, again)| again));
        for &function in &left_out {
            let function = &mut self.functions[function as usize];
            (function.is_traced, function.nodes) = (false, 0);
        }
        let nodes = &self.nodes;
        self.by_site.retain(|_, node| !left_out.contains(&nodes[*node as usize].function));
        self.places.retain(|_, place| !left_out.contains(&nodes[place.node as usize].function));
        for node in &mut self.nodes {
            if node.op == Op::Call && left_out.contains(&node.target) {
                (node.op, node.target) = (Op::Open, self.functions[node.target as usize].name);
            }
        }
    }

    fn add_choice(
        &mut self,
        function: &files::Function,
        first_node: u32,
        set: &[u32],
        writers: Writers,
    ) -> Result<(), &'static str> {
        let node = |number: u32| &function.nodes[number as usize];
        if set.iter().any(|&number| node(number).kind == Kind::Landing) {
            return Err("a landing pad follows an event");
        }
        let single = match set {
            [] => Some(NONE),
            [one] if node(*one).bits == 0 => Some(first_node + one),
            _ => None,
        };
        if let Some(start) = single {
            self.choices.push(Choice { width: 0, start, writers });
            return Ok(());
        }
        let mut codes = Vec::with_capacity(set.len());
        for &number in set {
            let (code, bits) = (node(number).code, u32::from(node(number).bits));
            if bits == 0 || u64::from(code) >> bits != 0 {
                return Err("an event has no code, and others can come in its place");
            }
            codes.push((code << (32 - bits), Entry { node: first_node + number, bits }));
        }
        codes.sort_unstable_by_key(|(code, entry)| (*code, entry.bits));
        // A code that is the beginning of another one is also the beginning of its successor.
        let begins = |pair: &[(u32, Entry)]| (pair[0].0 ^ pair[1].0).leading_zeros() >= pair[0].1.bits;
        if codes.windows(2).any(begins) {
            return Err("two events have codes that begin alike");
        }
        let longest = codes.iter().map(|(_, entry)| entry.bits).max().unwrap_or_default();
        let width = longest.min(set.len().ilog2() + 3).min(MAX_WIDTH);
        let start = self.entries.len();
        self.entries.resize(start + (1 << width), Entry { node: NONE, bits: 0 });
        for (code, entry) in codes.iter().filter(|(_, entry)| entry.bits <= width) {
            let first = start + (code >> (32 - width)) as usize;
            self.entries[first..first + (1 << (width - entry.bits))].fill(*entry);
        }
        if longest > width {
            self.long.insert(self.choices.len() as u32, codes);
        }
        let start = u32::try_from(start).map_err(|_| "there are too many events")?;
        self.choices.push(Choice { width, start, writers });
        Ok(())
    }

    /// The node with a code that `bits` begin with, the first one highest. The code may have more bits than were
    /// read.
    pub(super) fn find_long(&self, choice: u32, bits: u32) -> Option<Entry> {
        let codes = self.long.get(&choice)?;
        let (code, entry) = codes[codes.partition_point(|(code, _)| *code <= bits).checked_sub(1)?];
        ((code ^ bits).leading_zeros() >= entry.bits).then_some(entry)
    }

    /// Returns whether the choice has codes that are longer than a lookup.
    pub(super) fn is_long(&self, choice: u32) -> bool {
        self.long.contains_key(&choice)
    }

    fn name(&mut self, linkage: &str) -> u32 {
        if let Some(&number) = self.numbers.get(linkage) {
            return number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(linkage.into(), number);
        self.names.push(Name { linkage: linkage.into(), demangled: OnceLock::new() });
        number
    }

    /// Returns whether the tables are those of the same functions, with the same events and codes. Addresses may be
    /// others, and so may the part.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let same_nodes = |(one, other): (&Node, &Node)| {
            (one.op, one.checked, one.target, one.next, one.unwinds_to, one.event, one.function)
                == (
                    other.op,
                    other.checked,
                    other.target,
                    other.next,
                    other.unwinds_to,
                    other.event,
                    other.function,
                )
        };
        let same_choices =
            |(one, other): (&Choice, &Choice)| (one.width, one.start) == (other.width, other.start);
        let same_functions = |(one, other): (&Function, &Function)| {
            (one.name, one.first, one.first_node, one.nodes, one.is_traced)
                == (other.name, other.first, other.first_node, other.nodes, other.is_traced)
        };
        let names = |tables: &Self| tables.names.iter().map(|name| name.linkage.clone()).collect::<Vec<_>>();
        self.codes == other.codes
            && self.nodes.len() == other.nodes.len()
            && self.nodes.iter().zip(&other.nodes).all(same_nodes)
            && self.choices.len() == other.choices.len()
            && self.choices.iter().zip(&other.choices).all(same_choices)
            && self.functions.len() == other.functions.len()
            && self.functions.iter().zip(&other.functions).all(same_functions)
            && names(self) == names(other)
    }

    /// By function, its address in the file of its image; 0 for those without.
    pub(super) fn addresses(&self) -> Vec<u64> {
        let mut addresses = vec![0; self.functions.len()];
        let again = self.again.iter().map(|(place, function)| (place, function));
        for (&(_, address), &function) in self.by_address.iter().chain(again) {
            addresses[function as usize] = address;
        }
        addresses
    }

    /// The function at an address of an image's file.
    pub fn function_at(&self, image: u32, address: u64) -> Option<u32> {
        self.by_address.get(&(image, address)).copied()
    }

    /// The function that has called the tracer at its beginning, and goes on at an address of an image's file.
    pub(super) fn entered_before(&self, image: u32, address: u64) -> Option<u32> {
        self.function_at(image, address.checked_sub(*self.entry_lens.get(&image)?)?)
    }

    /// The place at an address of an image's file.
    pub(super) fn place_at(&self, image: u32, address: u64) -> Option<Place> {
        self.places.get(&(image, address)).copied()
    }

    /// The node whose call has its site at an address of an image's file.
    pub(super) fn node_at_site(&self, image: u32, address: u64) -> Option<u32> {
        self.by_site.get(&(image, address)).copied()
    }

    /// The lines that begin after a node: the numbers of the file, of the line, and of the inlined copy to which
    /// the line belongs.
    pub fn lines(&self, node: u32) -> &[(u32, u32, u32)] {
        let end = self.first_lines.get(node as usize + 1).map_or(self.lines.len(), |end| *end as usize);
        &self.lines[self.first_lines[node as usize] as usize..end]
    }

    pub fn file(&self, file: u32) -> &str {
        &self.files[file as usize]
    }

    /// Returns whether blocks are recorded.
    pub fn has_blocks(&self) -> bool {
        self.nodes.iter().any(|node| node.op == Op::Block)
    }

    /// The code of a node, and how many bits it has.
    pub(super) fn code_of(&self, node: u32) -> (u32, u32) {
        self.codes[node as usize]
    }

    /// The number of functions.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The number of names, of functions and others.
    pub fn name_count(&self) -> usize {
        self.names.len()
    }

    pub fn name_of(&self, function: u32) -> u32 {
        self.functions[function as usize].name
    }

    /// A name as the linker knows it.
    pub fn linkage_name(&self, name: u32) -> &str {
        &self.names[name as usize].linkage
    }

    pub fn source_name(&self, name: u32) -> &str {
        let name = &self.names[name as usize];
        name.demangled.get_or_init(|| names::demangle(&name.linkage).into())
    }

    /// The node after this one, if only one can come.
    pub(super) fn only_next(&self, node: u32) -> Option<u32> {
        let choice = self.choices[self.nodes[node as usize].next as usize];
        (choice.width == 0 && choice.start != NONE).then_some(choice.start)
    }

    /// Returns whether the node passes an exception on, or leads through blocks alone to one that does.
    pub(super) fn passes_on(&self, node: u32) -> bool {
        // Each cycle has bits, except in damaged tables.
        let nodes = std::iter::successors(Some(node), |node| self.only_next(*node)).take(64);
        let mut ops = nodes.map(|node| self.nodes[node as usize].op);
        ops.find(|op| *op != Op::Block) == Some(Op::Resume)
    }

    /// The function to which a node belongs.
    pub fn function_of(&self, node: u32) -> u32 {
        self.nodes[node as usize].function
    }

    pub fn number_of(&self, node: u32) -> u32 {
        node - self.functions[self.function_of(node) as usize].first_node
    }

    /// The name of the callee of a call. None for calls through pointers.
    pub fn callee(&self, node: u32) -> Option<u32> {
        let node = &self.nodes[node as usize];
        match node.op {
            Op::Call | Op::Leave => Some(self.name_of(node.target)),
            Op::Closed | Op::Open | Op::ReturnsTwice | Op::LeaveOpen => {
                (node.target != NONE).then_some(node.target)
            }
            Op::Return | Op::Resume | Op::Landing | Op::Block => None,
        }
    }

    /// The traced function that a node calls by name.
    pub fn called_function(&self, node: u32) -> Option<u32> {
        let node = self.nodes.get(node as usize)?;
        matches!(node.op, Op::Call | Op::Leave).then_some(node.target)
    }

    /// Returns whether a node is a call of unknown code by the name of this function. Then an entry of the
    /// function is that call.
    pub fn calls(&self, node: u32, function: u32) -> bool {
        let is_open = self.nodes.get(node as usize).is_some_and(|node| node.op == Op::Open);
        let name = self.functions.get(function as usize).map(|_| self.name_of(function));
        is_open && name.is_some() && self.callee(node) == name
    }

    /// Returns whether a node calls a traced function by name.
    pub fn is_call(&self, node: u32) -> bool {
        self.nodes[node as usize].op == Op::Call
    }

    /// Returns whether a node calls another function than this one by name, so that the activation, which is this
    /// function's now, was left to it by a tail call. [`NONE`]: an unknown one.
    pub fn was_left(&self, node: u32, function: u32) -> bool {
        self.is_call(node) && self.nodes[node as usize].target != function
    }

    /// The node of this number in a function.
    pub(super) fn node_of(&self, function: u32, number: u64) -> Option<u32> {
        let function = &self.functions[function as usize];
        (number < u64::from(function.nodes)).then(|| function.first_node + number as u32)
    }

    pub(super) fn nodes_of(&self, function: u32) -> impl Iterator<Item = u32> {
        let function = &self.functions[function as usize];
        function.first_node..function.first_node + function.nodes
    }

    /// A frame of this kind with a name.
    pub fn frame(&self, kind: FrameKind, name: Option<u32>) -> Frame<'_> {
        Frame {
            kind,
            function: name.map(|name| self.source_name(name)),
            linkage_name: name.map(|name| self.linkage_name(name)),
            file: None,
            line: None,
            column: None,
            inlined: false,
            certain: false,
            build_id: None,
        }
    }

    /// The names of the functions that were inlined at the place of a node, innermost first.
    pub(super) fn inlined_at(&self, node: u32) -> impl Iterator<Item = u32> {
        let row = &self.nodes[node as usize];
        let inlined = (row.locations as usize).saturating_sub(1);
        self.locations[row.first_location as usize..][..inlined].iter().map(|location| location.name)
    }

    /// Returns whether the place of a node in the source is known.
    pub(super) fn has_place(&self, node: u32) -> bool {
        self.nodes[node as usize].locations > 0
    }

    /// The frames of the place of a node, innermost first: those inlined, then its function's.
    pub fn place(&self, node: u32) -> impl Iterator<Item = Frame<'_>> {
        let row = &self.nodes[node as usize];
        let known = |number: u32| (number != 0).then_some(number);
        let locations = &self.locations[row.first_location as usize..][..row.locations as usize];
        let name = self.name_of(row.function);
        let bare = locations.is_empty().then(|| self.frame(FrameKind::Call, Some(name)));
        bare.into_iter().chain(locations.iter().enumerate().map(move |(i, location)| Frame {
            file: Some(&self.files[location.file as usize]),
            line: known(location.line),
            column: known(location.column),
            inlined: i + 1 < locations.len(),
            ..self.frame(FrameKind::Call, Some(location.name))
        }))
    }
}
