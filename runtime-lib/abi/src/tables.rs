//! Makes verify mode's tables: the tables of a module, which the pass makes as constants, and the tables of a whole
//! program, which the step at the link writes as an object.
//!
//! A table is a row of words ([`Table`]). Words that are distances name their target ([`Place`]); the caller, which
//! knows the addresses, computes the distances.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::mem::{offset_of, size_of};

use crate::{FunctionRecord, InEdge, NO_GROUP, Start};

/// Size of a word, in bytes.
pub const WORD: usize = size_of::<u64>();

/// A function, or the open node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// The linkage name; empty for the open node.
    pub name: String,
    /// True if the function has the dummy in-edge: id 0 is its root. The open node has it.
    pub entry: bool,
    pub reached: bool,
    /// Its offset ([`FunctionRecord::offset`]).
    pub offset: u64,
    pub silent: bool,
    /// True if ids of the function stand for several contexts (hybrid encoding).
    pub shared: bool,
    /// The site of its own entry, where it pushes there.
    pub entry_site: Option<u64>,
    /// The in-edges that add, in any order.
    pub in_edges: Vec<Edge>,
    /// Groups of functions that may leave their activations to it ([`FunctionRecord::groups`]), in ascending order.
    pub groups: Vec<u64>,
}

/// An in-edge whose call adds to the id. The order is that of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The addition value ([`InEdge::start`]).
    pub start: u64,
    /// The number that the call adds to the id ([`InEdge::constant`]).
    pub constant: u64,
    pub caller: usize,
    /// The site, in the numbers of the tables' maker.
    pub site: u64,
    /// Open calls: the group of functions that may have been called and make tail calls.
    pub group: Option<u64>,
    /// Open calls by name: the index of the function called.
    pub callee: Option<usize>,
}

/// The encoding of a program, as tables need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    functions: Vec<Function>,
    open: Option<usize>,
    starts: Vec<(u64, usize)>,
    /// The index after the last row of each function; the first element is 0.
    edges_end: Vec<usize>,
    groups_end: Vec<usize>,
    names_end: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// [`FunctionRecord`]s, in the order of the functions.
    Records,
    /// [`InEdge`]s, function by function.
    InEdges,
    /// [`Start`]s.
    Starts,
    /// Groups, function by function.
    Groups,
}

/// A word of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Number(u64),
    /// A [`Relative`](crate::Relative) to the place; null without one.
    To(Option<Place>),
}

/// The target of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The record of the function with this index.
    Record(usize),
    /// A site, in the numbers of the tables' maker.
    Site(u64),
    /// An in-edge, by its index.
    InEdge(usize),
    /// The first start.
    Starts,
    /// A group, by its index.
    Group(usize),
    /// The byte with this index of the names.
    Name(usize),
}

/// Why there are no tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A function that is named does not exist.
    NoFunction { index: usize, count: usize },
    /// Two direct calls that push have one site.
    SameSite(u64),
    /// The name of a function has a zero in it.
    Name(String),
    /// Not as many records as functions.
    Records { given: usize, needed: usize },
    /// An address that is not a multiple of 8.
    Unaligned(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFunction { index, count } => {
                write!(f, "verify mode's tables name function {index} of {count}")
            }
            Self::SameSite(site) => write!(f, "two direct calls that push have the site {site:#x}"),
            Self::Name(name) => write!(f, "the function name {name:?} has a zero in it"),
            Self::Records { given, needed } => {
                write!(f, "verify mode has {given} records for {needed} functions")
            }
            Self::Unaligned(address) => {
                write!(f, "verify mode's tables cannot be at {address:#x}, which is not a multiple of 8")
            }
        }
    }
}

impl core::error::Error for Error {}

impl Program {
    /// Makes the encoding of functions, among them the open node with the index `open`, if there is one. `starts` are
    /// the direct calls that push, each with its site and the index of the function called. Without an open node there
    /// are none.
    ///
    /// # Errors
    /// [`Error::NoFunction`], [`Error::SameSite`] or [`Error::Name`].
    pub fn new(
        mut functions: Vec<Function>,
        open: Option<usize>,
        mut starts: Vec<(u64, usize)>,
    ) -> Result<Self, Error> {
        let count = functions.len();
        let named = starts.iter().map(|start| start.1).chain(open);
        let edges = functions.iter().flat_map(|function| &function.in_edges);
        let named = named.chain(edges.flat_map(|edge| [Some(edge.caller), edge.callee]).flatten());
        if let Some(index) = named.into_iter().find(|&index| index >= count) {
            return Err(Error::NoFunction { index, count });
        }
        if let Some(function) = functions.iter().find(|function| function.name.contains('\0')) {
            return Err(Error::Name(function.name.clone()));
        }
        starts.sort_unstable();
        if let Some(same) = starts.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::SameSite(same[0].0));
        }
        for function in &mut functions {
            function.in_edges.sort_unstable();
        }
        let ends = |len: fn(&Function) -> usize| {
            let mut ends = Vec::with_capacity(count + 1);
            ends.push(0);
            for function in &functions {
                ends.push(ends[ends.len() - 1] + len(function));
            }
            ends
        };
        let (edges_end, groups_end) = (ends(|f| f.in_edges.len()), ends(|f| f.groups.len()));
        let names_end = ends(|f| f.name.len() + 1);
        Ok(Self { functions, open, starts, edges_end, groups_end, names_end })
    }

    /// How many words a table has.
    pub fn len(&self, table: Table) -> usize {
        match table {
            Table::Records => self.functions.len() * (size_of::<FunctionRecord>() / WORD),
            Table::InEdges => self.edges_end[self.functions.len()] * (size_of::<InEdge>() / WORD),
            Table::Starts => self.starts.len() * (size_of::<Start>() / WORD),
            Table::Groups => self.groups_end[self.functions.len()],
        }
    }

    /// The functions' names, each followed by a zero.
    pub fn names(&self) -> Vec<u8> {
        let mut names = Vec::with_capacity(self.names_end[self.functions.len()]);
        for function in &self.functions {
            names.extend_from_slice(function.name.as_bytes());
            names.push(0);
        }
        names
    }

    /// Gives the words of a table to `write`, in their order.
    pub fn words(&self, table: Table, mut write: impl FnMut(Word)) {
        match table {
            Table::Records => (0..self.functions.len()).flat_map(|i| self.record(i)).for_each(write),
            Table::InEdges => {
                self.functions.iter().flat_map(|f| &f.in_edges).flat_map(in_edge).for_each(write);
            }
            Table::Starts => {
                for &(site, function) in &self.starts {
                    write(Word::To(Some(Place::Site(site))));
                    write(Word::To(Some(Place::Record(function))));
                }
            }
            Table::Groups => {
                self.functions.iter().flat_map(|f| &f.groups).map(|&g| Word::Number(g)).for_each(write);
            }
        }
    }

    /// The words of a [`FunctionRecord`].
    fn record(&self, index: usize) -> [Word; size_of::<FunctionRecord>() / WORD] {
        let function = &self.functions[index];
        let mut words = [Word::Number(0); size_of::<FunctionRecord>() / WORD];
        let mut number = |offset: usize, value: u64| words[offset / WORD] = Word::Number(value);
        number(offset_of!(FunctionRecord, in_edge_count), function.in_edges.len() as u64);
        number(offset_of!(FunctionRecord, entry), function.entry.into());
        number(offset_of!(FunctionRecord, reached), function.reached.into());
        number(offset_of!(FunctionRecord, offset), function.offset);
        number(offset_of!(FunctionRecord, silent), function.silent.into());
        number(offset_of!(FunctionRecord, start_count), self.starts.len() as u64);
        number(offset_of!(FunctionRecord, shared), function.shared.into());
        number(offset_of!(FunctionRecord, group_count), function.groups.len() as u64);
        let mut to = |offset: usize, place: Option<Place>| words[offset / WORD] = Word::To(place);
        let edges = (!function.in_edges.is_empty()).then_some(Place::InEdge(self.edges_end[index]));
        to(offset_of!(FunctionRecord, in_edges), edges);
        to(offset_of!(FunctionRecord, name), Some(Place::Name(self.names_end[index])));
        to(offset_of!(FunctionRecord, entry_site), function.entry_site.map(Place::Site));
        to(offset_of!(FunctionRecord, open), self.open.map(Place::Record));
        to(offset_of!(FunctionRecord, starts), (!self.starts.is_empty()).then_some(Place::Starts));
        let groups = (!function.groups.is_empty()).then_some(Place::Group(self.groups_end[index]));
        to(offset_of!(FunctionRecord, groups), groups);
        words
    }
}

/// The words of an [`InEdge`].
fn in_edge(edge: &Edge) -> [Word; size_of::<InEdge>() / WORD] {
    let mut words = [Word::Number(0); size_of::<InEdge>() / WORD];
    let mut set = |offset: usize, word: Word| words[offset / WORD] = word;
    set(offset_of!(InEdge, start), Word::Number(edge.start));
    set(offset_of!(InEdge, constant), Word::Number(edge.constant));
    set(offset_of!(InEdge, caller), Word::To(Some(Place::Record(edge.caller))));
    set(offset_of!(InEdge, site), Word::To(Some(Place::Site(edge.site))));
    set(offset_of!(InEdge, group), Word::Number(edge.group.unwrap_or(NO_GROUP)));
    set(offset_of!(InEdge, callee), Word::To(edge.callee.map(Place::Record)));
    words
}

/// The tables of a linked program. Its sites are numbered by their addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The bytes at the base: everything but the records.
    pub bytes: Vec<u8>,
    /// The record of each function.
    pub records: Vec<[u8; size_of::<FunctionRecord>()]>,
}

impl Program {
    /// How many bytes [`Linked::bytes`] has, wherever it is.
    pub fn linked_len(&self) -> usize {
        let words = [Table::InEdges, Table::Starts, Table::Groups].map(|table| self.len(table));
        words.iter().sum::<usize>() * WORD + self.names_end[self.functions.len()]
    }

    /// The tables for a program that loads them at `base`; `records`: the addresses of the functions' records. These
    /// addresses and those of the sites are all less the same load bias.
    ///
    /// # Errors
    /// [`Error::Records`] or [`Error::Unaligned`].
    pub fn link(&self, base: u64, records: &[u64]) -> Result<Linked, Error> {
        if records.len() != self.functions.len() {
            return Err(Error::Records { given: records.len(), needed: self.functions.len() });
        }
        let aligned = |address: &&u64| !address.is_multiple_of(WORD as u64);
        if let Some(&address) = core::iter::once(&base).chain(records).find(aligned) {
            return Err(Error::Unaligned(address));
        }
        let after = |start: u64, len: usize| start.wrapping_add(len as u64);
        let edges = base;
        let starts = after(edges, self.len(Table::InEdges) * WORD);
        let groups = after(starts, self.len(Table::Starts) * WORD);
        let names = after(groups, self.len(Table::Groups) * WORD);
        let address = |place: Place| match place {
            Place::Record(function) => records[function],
            Place::Site(site) => site,
            Place::InEdge(row) => after(edges, row * size_of::<InEdge>()),
            Place::Starts => starts,
            Place::Group(row) => after(groups, row * WORD),
            Place::Name(byte) => after(names, byte),
        };
        let value = |word: Word, at: u64| match word {
            Word::Number(number) => number,
            Word::To(None) => 0,
            Word::To(Some(place)) => address(place).wrapping_sub(at),
        };
        let mut bytes = Vec::with_capacity(self.linked_len());
        for table in [Table::InEdges, Table::Starts, Table::Groups] {
            self.words(table, |word| {
                let at = after(base, bytes.len());
                bytes.extend_from_slice(&value(word, at).to_le_bytes());
            });
        }
        bytes.extend_from_slice(&self.names());
        let record = |index: usize| {
            let mut bytes = [0; size_of::<FunctionRecord>()];
            let words = self.record(index).into_iter().zip(bytes.chunks_exact_mut(WORD));
            for (number, (word, place)) in words.enumerate() {
                let at = after(records[index], number * WORD);
                place.copy_from_slice(&value(word, at).to_le_bytes());
            }
            bytes
        };
        Ok(Linked { bytes, records: (0..records.len()).map(record).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    fn function(edges: &[Edge]) -> Function {
        Function { in_edges: edges.to_vec(), ..Function::default() }
    }

    const EDGE: Edge = Edge { start: 0, constant: 0, caller: 0, site: 0x100, group: None, callee: None };

    #[test]
    fn what_does_not_fit_is_an_error() {
        let no_function = |index| Err(Error::NoFunction { index, count: 1 });
        let one = |edge| Program::new(vec![function(&[edge])], None, Vec::new());
        assert_eq!(one(Edge { caller: 1, ..EDGE }), no_function(1));
        assert_eq!(one(Edge { callee: Some(9), ..EDGE }), no_function(9));
        assert_eq!(Program::new(vec![function(&[])], Some(2), Vec::new()), no_function(2));
        assert_eq!(Program::new(vec![function(&[])], None, vec![(0, 3)]), no_function(3));
        let same = Program::new(vec![function(&[])], Some(0), vec![(16, 0), (8, 0), (16, 0)]);
        assert_eq!(same, Err(Error::SameSite(16)));
        let name = Function { name: "a\0b".to_string(), ..Function::default() };
        assert_eq!(Program::new(vec![name], None, Vec::new()), Err(Error::Name("a\0b".to_string())));
        let good = one(EDGE).expect("it is good");
        assert_eq!(good.link(0x1000, &[]), Err(Error::Records { given: 0, needed: 1 }));
        assert_eq!(good.link(0x1001, &[0x2000]), Err(Error::Unaligned(0x1001)));
        assert_eq!(good.link(0x1000, &[0x2004]), Err(Error::Unaligned(0x2004)));
        assert!(good.link(!7, &[0]).is_ok());
    }

    #[test]
    fn bytes_depend_on_distances_only() {
        let program = Program::new(vec![function(&[EDGE]), function(&[])], Some(1), vec![(0x108, 0)]);
        let program = program.expect("it is good");
        let at = |bias: u64| {
            let moved = Program {
                functions: vec![function(&[Edge { site: EDGE.site + bias, ..EDGE }]), function(&[])],
                starts: vec![(0x108 + bias, 0)],
                ..program.clone()
            };
            moved.link(0x4000 + bias, &[0x8000 + bias, 0x8070 + bias])
        };
        assert_eq!(at(0), program.link(0x4000, &[0x8000, 0x8070]));
        assert_eq!(at(0), at(0x5555_0000_0000));
    }
}
