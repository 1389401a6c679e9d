//! The tables of a module that the reader of a trace needs: for each function, the events that may follow each
//! other, and the bits that distinguish them. The pass writes the tables into the section [`SECTION`] of each
//! object file, which is not loaded; the linker concatenates the records.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 4 | [`VERSION`], little endian |
//! | 4 | number of functions, and of those of other modules |
//! | 4 | length of the payload in bytes |
//! | 4 | CRC-32 of the payload |
//! | 8 each | addresses of the functions, written by the linker; 0 for those that it left out |
//! | 8 each | addresses of the functions of other modules that [`Kind::Other`] calls |
//! | 8 | address of the module's site array, or 0 |
//! | – | payload: [`Traced`] as JSON, compressed (zlib) |
//!
//! The section [`PLACES`] has a row for each call of the tracer where a chunk may begin.

use serde::{Deserialize, Serialize};

use crate::section::append_payload;
use crate::{DictionaryError, Location, Unpacker};

/// The key of modules whose events are not counted.
pub const UNVERIFIED: u64 = 0;

pub const SECTION: &str = ".debug_pcce_trace";
/// Name of the section of places. A row has 24 bytes, little endian: the address after a call that writes the
/// pending bits (8), the address of the function (8), a node of the function (4), and the number of bits of the
/// node's code that are written after the first address (4). If the node has [`BEHIND`], it is a call that has
/// returned, and no bits of it follow. Rows with the address 0 are of code that the linker left out.
pub const PLACES: &str = ".debug_pcce_trace_at";
/// See [`PLACES`].
pub const BEHIND: u32 = 1 << 31;
/// Bytes of a row of [`PLACES`].
pub const PLACE_LEN: usize = 24;
/// First bytes of a record.
pub const MAGIC: [u8; 8] = *b"PCCEtcfg";
pub const VERSION: u32 = 3;
pub const HEADER_LEN: usize = 24;

/// One of several programs that share a trace (distributed-program-tracing.txt): it writes its share of the bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// From 0.
    pub number: u32,
    /// The number of programs.
    pub count: u32,
    /// Which program writes which bits depends on it.
    pub seed: u64,
}

/// The largest number of programs that share a trace.
pub const MAX_PARTS: u32 = 1000;

impl std::fmt::Display for Part {
    /// For example `2/6:0`: the second program of six, with seed 0.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}:{}", self.number + 1, self.count, self.seed)
    }
}

impl std::str::FromStr for Part {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (part, seed) = text.split_once(':')?;
            let (number, count) = part.split_once('/')?;
            let (number, count): (u32, u32) = (number.parse().ok()?, count.parse().ok()?);
            let part = Self { number: number.checked_sub(1)?, count, seed: seed.parse().ok()? };
            (part.number < count && count <= MAX_PARTS).then_some(part)
        };
        parse().ok_or("a part is named as 2/6:0, by its number, how many there are, and a seed")
    }
}

/// The programs, from 0, that write the bits of a class ([`classes`]). Readers compare what both have written, so that
/// no event depends on one run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writers {
    pub owner: u32,
    /// Another one, if there are several programs.
    pub checker: Option<u32>,
}

impl Writers {
    /// Returns whether a program, by its number from 0, is one of them.
    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        self.owner == number || self.checker == Some(number)
    }
}

impl Part {
    /// The programs that write the bits of a class of a function with this linkage name.
    #[must_use]
    pub fn writers(&self, function: &str, class: u32) -> Writers {
        // FNV-1a, then the finalizer of SplitMix64, since the lowest bits count.
        let bytes = function.bytes().chain(class.to_le_bytes()).chain(self.seed.to_le_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let hash = hash ^ hash >> 31;
        let count = u64::from(self.count);
        let owner = hash % count;
        let checker = (count > 1).then(|| (owner + 1 + hash / count % (count - 1)) % count);
        Writers { owner: owner as u32, checker: checker.map(|checker| checker as u32) }
    }
}

/// The class of each of a function's nodes: the least node that is in a set with it, or in a set with one that is, and
/// so on. A reader that knows which set comes next so knows the class, whose bits are all in one place (Theorem 2 of
/// distributed-program-tracing.txt: any assignment of such classes can be merged).
#[must_use]
pub fn classes(sets: &[Vec<u32>], nodes: usize) -> Vec<u32> {
    fn find(least: &mut [u32], node: u32) -> u32 {
        let mut root = node;
        while least[root as usize] != root {
            root = least[root as usize];
        }
        least[node as usize] = root;
        root
    }
    let mut least: Vec<u32> = (0..nodes as u32).collect();
    for pair in sets.iter().flat_map(|set| set.windows(2)) {
        let (a, b) = (find(&mut least, pair[0]), find(&mut least, pair[1]));
        least[a.max(b) as usize] = a.min(b);
    }
    (0..nodes as u32).map(|node| find(&mut least, node)).collect()
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traced {
    /// The module's identifier in LLVM, usually the source file.
    pub name: String,
    /// The key that distinguishes its events from those of other modules in the hash of verify mode.
    /// [`UNVERIFIED`] if it is not in verify mode.
    pub key: u64,
    /// File names.
    pub files: Vec<String>,
    /// Linkage names.
    pub names: Vec<String>,
    pub functions: Vec<Function>,
    /// The part, if the program is one of several that share a trace. The bits of other parts' classes are in the
    /// tables, too, and are not written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub part: Option<Part>,
    /// The number of functions of other modules that [`Kind::Other`] calls.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub others: u32,
    /// The addresses of these functions in the image's file, from the record's row.
    #[serde(skip)]
    pub other_addresses: Vec<u64>,
    /// The addresses of the functions in the image's file, from the record's row.
    #[serde(skip)]
    pub addresses: Vec<u64>,
    /// The address of the module's site array ([`Node::site`]); 0 if there is none.
    #[serde(skip)]
    pub sites: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A function: its call site control flow graph (casper.txt, Definition 1), after inlining.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Linkage name: index into [`Traced::names`].
    pub name: u32,
    /// The set of events that may come first: index into [`Function::sets`].
    pub first: u32,
    pub nodes: Vec<Node>,
    /// Sets of nodes, ascending, of which one comes next. The nodes of a set have different codes, and none is the
    /// beginning of another. A set is empty where control does not arrive.
    pub sets: Vec<Vec<u32>>,
    /// True if a bit, 0, is written after a call of it by name, as after calls of unknown functions: the function
    /// may leave its activation to an unknown one.
    pub checked: bool,
}

/// An event, or a landing pad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub kind: Kind,
    /// The bits that are written before it, the first one highest; before a return, too.
    pub code: u32,
    /// The number of these bits; 0 if there are none.
    pub bits: u8,
    /// The set of events that may come after it: index into [`Function::sets`]. Without meaning if the
    /// activation ends.
    pub next: u32,
    /// For a call: the node of the landing pad to which an exception leads.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unwinds_to: Option<u32>,
    /// For a call: the number of its call site in the module's site array, if contexts know it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub site: Option<u32>,
    /// For a call: its locations, innermost first, as in [`crate::Site::locations`]. For a block: those of
    /// its beginning.
    pub locations: Vec<Location>,
    /// If blocks are events: the lines of the block's code that begin after this event of the block, and before
    /// the next one. Those of a call are executed if it returns. Each is an index into [`Traced::files`], a number
    /// from 1, and the number of the inlined copy: from 1 in each function, and 0 for the function's own code.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub lines: Vec<(u32, u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A call by name of the module's function of this number, which is entered after its first instruction.
    Call(u32),
    /// A call by name of a recorded function of another module of the image, which is entered in the same way: its
    /// number among [`Traced::others`].
    Other(u32),
    /// A call of a function that is not traced and calls no function back: its linkage name.
    Closed(u32),
    /// A call of a function of which nothing is known; its linkage name, if that is known. When it returns, a bit 0 is
    /// written. All functions that are entered until then are called from there.
    Open(Option<u32>),
    /// A call that can return two times, and calls no function back. No bit is written when it returns; when it
    /// returns again, a special word is written.
    #[serde(rename = "twice")]
    ReturnsTwice(Option<u32>),
    Return,
    /// The function leaves its activation to the module's function of this number (a tail call).
    Leave(u32),
    /// The function leaves its activation to a function of which nothing is known.
    LeaveOpen(Option<u32>),
    /// An exception leaves the function, and goes on.
    Resume,
    /// A block of the function's code begins.
    Block,
    /// A landing pad. It is in no set: a special word says that control has come there.
    Landing,
}

/// The bytes of a record, with 0 for the addresses.
///
/// # Panics
/// If the payload does not serialise, or is larger than 1 GiB when compressed.
pub fn to_bytes(traced: &Traced) -> Vec<u8> {
    let addresses = traced.functions.len() + traced.others as usize;
    let mut out = vec![0; HEADER_LEN + addresses_len(addresses)];
    let (len, crc) = append_payload(&mut out, traced);
    out[0..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&(addresses as u32).to_le_bytes());
    out[16..20].copy_from_slice(&len.to_le_bytes());
    out[20..24].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Bytes of the addresses in a record of `functions` functions, including those of other modules.
pub const fn addresses_len(functions: usize) -> usize {
    8 * (functions + 1)
}

/// A row of [`PLACES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address in the image's file at which the code goes on.
    pub address: u64,
    pub function: u64,
    /// A node of the function, with or without [`BEHIND`].
    pub node: u32,
    /// The number of bits of the node's code that are written after the place.
    pub left: u32,
}

/// Reads the rows of a section [`PLACES`], except those of code that the linker left out.
///
/// # Errors
/// [`DictionaryError::Fragment`] for a row that is cut. Never panics, whatever the bytes. The functions and nodes of
/// the rows may not exist.
pub fn parse_places(section: &[u8]) -> Result<Vec<Place>, DictionaryError> {
    let (rows, rest) = section.as_chunks::<PLACE_LEN>();
    if !rest.is_empty() {
        let (offset, what) = (section.len() - rest.len(), format!("a row of {} bytes is cut", rest.len()));
        return Err(DictionaryError::Fragment { section: PLACES, offset, what });
    }
    let places = rows.iter().map(|row| Place {
        address: u64::from_le_bytes(row[..8].try_into().expect("8 bytes")),
        function: u64::from_le_bytes(row[8..16].try_into().expect("8 bytes")),
        node: u32::from_le_bytes(row[16..20].try_into().expect("4 bytes")),
        left: u32::from_le_bytes(row[20..].try_into().expect("4 bytes")),
    });
    Ok(places.filter(|place| place.address != 0).collect())
}

/// Reads the records of a section.
///
/// # Errors
/// [`DictionaryError::Fragment`] for a damaged record; [`DictionaryError::FragmentVersion`] for one of
/// another version. All indices of the result are in their ranges. Never panics, whatever the bytes.
pub fn parse(section: &[u8]) -> Result<Vec<Traced>, DictionaryError> {
    let mut records = Vec::new();
    let mut unpacker = Unpacker::new(section.len());
    let mut rest = section;
    while !rest.is_empty() {
        let offset = section.len() - rest.len();
        let damaged = |what: String| DictionaryError::Fragment { section: SECTION, offset, what };
        let Some((header, body)) = rest.split_at_checked(HEADER_LEN) else {
            return Err(damaged(format!("{} bytes, too few for a header", rest.len())));
        };
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        if header[..8] != MAGIC {
            return Err(damaged("no record of a trace's tables starts here".to_owned()));
        }
        if word(8) != VERSION {
            let (found, reads) = (word(8), VERSION.to_string());
            return Err(DictionaryError::FragmentVersion { section: SECTION, offset, found, reads });
        }
        let cut = || damaged(format!("cut: {} bytes are there", body.len()));
        let (addresses, body) = body.split_at_checked(addresses_len(word(12) as usize)).ok_or_else(cut)?;
        let (payload, next) = body.split_at_checked(word(16) as usize).ok_or_else(cut)?;
        let mut crc = flate2::Crc::new();
        crc.update(payload);
        if crc.sum() != word(20) {
            return Err(damaged("the checksum does not match".to_owned()));
        }
        let json = unpacker.unpack(payload).map_err(damaged)?;
        let mut traced: Traced = serde_json::from_slice(&json).map_err(|e| damaged(e.to_string()))?;
        let addresses = addresses.chunks_exact(8).map(|a| u64::from_le_bytes(a.try_into().expect("8 bytes")));
        traced.addresses = addresses.collect();
        traced.sites = traced.addresses.pop().unwrap_or_default();
        traced.other_addresses =
            traced.addresses.split_off(traced.functions.len().min(traced.addresses.len()));
        traced.check().map_err(damaged)?;
        records.push(traced);
        rest = next;
    }
    Ok(records)
}

impl Traced {
    /// Checks that all indices are in their ranges.
    fn check(&self) -> Result<(), String> {
        if self.addresses.len() != self.functions.len() {
            return Err(format!("{} functions and {} addresses", self.functions.len(), self.addresses.len()));
        }
        if self.other_addresses.len() != self.others as usize {
            let found = self.other_addresses.len();
            return Err(format!("{} functions of other modules and {found} addresses", self.others));
        }
        for (number, function) in self.functions.iter().enumerate() {
            let fits = self.fits(function);
            if !fits {
                return Err(format!("function {number} refers to what is not there"));
            }
        }
        Ok(())
    }

    fn fits(&self, function: &Function) -> bool {
        let name = |name: u32| (name as usize) < self.names.len();
        let set = |set: u32| (set as usize) < function.sets.len();
        let kind = |kind: Kind| match kind {
            Kind::Call(callee) | Kind::Leave(callee) => (callee as usize) < self.functions.len(),
            Kind::Other(other) => other < self.others,
            Kind::Closed(n) => name(n),
            Kind::Open(n) | Kind::ReturnsTwice(n) | Kind::LeaveOpen(n) => n.is_none_or(name),
            Kind::Return | Kind::Resume | Kind::Block | Kind::Landing => true,
        };
        let location = |l: &Location| name(l.name) && (l.file as usize) < self.files.len();
        name(function.name)
            && set(function.first)
            && function.sets.iter().flatten().all(|&node| (node as usize) < function.nodes.len())
            && function.nodes.iter().all(|node| {
                kind(node.kind)
                    && (set(node.next)
                        || matches!(
                            node.kind,
                            Kind::Return | Kind::Leave(_) | Kind::LeaveOpen(_) | Kind::Resume
                        ))
                    && node.bits <= 32
                    && node.unwinds_to.is_none_or(|pad| (pad as usize) < function.nodes.len())
                    && node.locations.iter().all(location)
                    && node.lines.iter().all(|&(file, ..)| (file as usize) < self.files.len())
            })
            && self.part.is_none_or(|part| part.number < part.count && part.count <= MAX_PARTS)
    }
}
