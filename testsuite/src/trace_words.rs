//! The words of a trace in the file, read by code that shares only the constants with the reader of traces. It is for
//! tests, and panics on any error.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pcce_abi::trace::{
    CHUNK, CHUNK_HEAD, CONTEXT_WORDS, CONTINUED, ENDED, FIRST, FULL, Gap, HeadWords, KIND_IMAGE, KIND_SHIFT,
    MAGIC, OPEN, Special, UNIT, USED, VERSION, cache_index, checksum_on, end_checksum, head_checksum,
};

use crate::{Output, artifact, command, llvm, repository, run};

/// Functions of `testsuite/tracer/program.c` that are entered from outside, each of 16 bytes.
const FUNCTIONS: u64 = 300;

/// A chunk of the file: the fields of its head, and its content.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub kind: u32,
    pub process: u32,
    pub thread: u32,
    pub level: u32,
    pub stream: u64,
    pub sequence: u64,
    pub parent: u64,
    pub parent_position: u64,
    pub begin: u32,
    pub end: u32,
    /// Verify mode: events of the stream up to its end, and their hash.
    pub counted: [u64; 2],
    pub words: Vec<u64>,
    /// The content after the head.
    pub body: Vec<u8>,
}

/// A word of the file.
pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Half a word of the file.
pub fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// The chunks of a file. Only chunks that were never begun may be missing.
pub fn chunks(bytes: &[u8]) -> Vec<Chunk> {
    assert_eq!(bytes[..8], MAGIC);
    assert_eq!(half(bytes, 8), VERSION);
    assert_eq!(half(bytes, 12), 0);
    let used = word(bytes, USED as usize) as usize;
    assert!(used.is_multiple_of(UNIT as usize), "{used}");
    let mut found = Vec::new();
    let mut at = FIRST as usize;
    while at + CHUNK_HEAD as usize <= bytes.len() {
        let head = &bytes[at..];
        if word(head, 0) != CHUNK {
            assert_eq!(word(head, 0), 0, "at {at:#x}");
            at += UNIT as usize;
            continue;
        }
        let size = word(head, 8) as usize;
        assert!(
            size.is_multiple_of(UNIT as usize) && at + size <= bytes.len() && at + size <= used,
            "{at:#x}"
        );
        let heads: HeadWords = std::array::from_fn(|at| word(head, 8 * at));
        assert_eq!(word(head, 128), head_checksum(&heads));
        let body = head[CHUNK_HEAD as usize..size].to_vec();
        let mut chunk = Chunk {
            kind: half(head, 16),
            process: half(head, 20),
            thread: half(head, 24),
            level: half(head, 28),
            stream: word(head, 32),
            sequence: word(head, 40),
            parent: word(head, 48),
            parent_position: word(head, 56),
            begin: half(head, 72),
            end: half(head, 76),
            words: Vec::new(),
            counted: [word(head, 88), word(head, 96)],
            body,
        };
        if chunk.kind != KIND_IMAGE {
            let all: Vec<u64> = chunk.body.chunks_exact(8).map(|w| word(w, 0)).collect();
            let last = last(&all);
            assert!(
                all[last..].iter().all(|&word| word == 0) || chunk.end == OPEN,
                "words behind the last one"
            );
            if chunk.end != OPEN {
                assert!(word(head, 80) <= last as u64, "{} of {last} words", word(head, 80));
                let sum = end_checksum(chunk.end, &heads);
                assert_eq!(word(head, 104), checksum_on(sum, &all[..word(head, 80) as usize]));
            }
            chunk.words = all[..last].to_vec();
        }
        found.push(chunk);
        at += size;
    }
    found
}

/// The number of words: up to the first that is 0 and follows no special word.
fn last(words: &[u64]) -> usize {
    let mut at = 0;
    while at < words.len() && words[at] != 0 {
        at += 1 + follow(words[at]);
    }
    at
}

fn kind(word: u64) -> u8 {
    if word >= FULL { 0 } else { (word >> KIND_SHIFT) as u8 }
}

/// The number of words that follow a special one.
fn follow(word: u64) -> usize {
    match kind(word) {
        k if k == Special::Short as u8 || k == Special::Landed as u8 || k == Special::Mark as u8 => 1,
        k if k == Special::Context as u8 => CONTEXT_WORDS + (word & 0xffff).div_ceil(8) as usize,
        k if [Special::Again, Special::Handler, Special::Left, Special::Back]
            .map(|k| k as u8)
            .contains(&k) =>
        {
            2
        }
        _ => 0,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    Bit(bool),
    /// A special word: its kind and payload, and the words that follow.
    Special(u8, u64, [u64; 2]),
    Chunk,
}

/// The chunks of each stream, in order.
pub fn streams(chunks: &[Chunk]) -> BTreeMap<u64, Vec<Chunk>> {
    let mut streams: BTreeMap<u64, Vec<Chunk>> = BTreeMap::new();
    for chunk in chunks.iter().filter(|chunk| chunk.kind != KIND_IMAGE) {
        streams.entry(chunk.stream).or_default().push(chunk.clone());
    }
    for stream in streams.values_mut() {
        stream.sort_by_key(|chunk| chunk.sequence);
        assert!((0..).zip(&*stream).all(|(i, chunk)| chunk.sequence == i && chunk.level == stream[0].level));
        let (_, before) = stream.split_last().expect("a chunk");
        assert!(before.iter().all(|chunk| chunk.end == CONTINUED || chunk.end == ENDED));
    }
    streams
}

fn items(stream: &[Chunk]) -> Vec<Item> {
    let mut items = Vec::new();
    let bits = |items: &mut Vec<Item>, word: u64| {
        items.extend((0..word.ilog2()).rev().map(|bit| Item::Bit(word >> bit & 1 == 1)));
    };
    for chunk in stream {
        items.push(Item::Chunk);
        let mut at = 0;
        while at < chunk.words.len() {
            let word = chunk.words[at];
            let more = follow(word);
            match kind(word) {
                0 => bits(&mut items, word),
                1 => bits(&mut items, chunk.words[at + 1]),
                kind => {
                    let mut words = [0; 2];
                    // The words of a token are left out.
                    let known = more.min(words.len());
                    words[..known].copy_from_slice(&chunk.words[at + 1..=at + known]);
                    items.push(Item::Special(kind, word & ((1 << KIND_SHIFT) - 1), words));
                }
            }
            at += 1 + more;
        }
    }
    items
}

/// Reads a stream as the reader does: entered functions by their place in the cache.
pub struct Reader {
    pub items: Vec<Item>,
    /// The number of items that were read.
    pub at: usize,
    cache: [u64; 256],
    followed: [usize; 256],
    before: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub struct End;

impl Reader {
    pub fn new(stream: &[Chunk]) -> Self {
        Self { items: items(stream), at: 0, cache: [0; 256], followed: [0; 256], before: 0 }
    }

    /// The next item. The contexts of chunks are left out, and so are marks of a handler that has ended the interrupted
    /// code, or of a thread that was ended in the middle.
    pub fn peek(&mut self) -> Result<Item, End> {
        const CONTEXT: u8 = Special::Context as u8;
        const GAP: u8 = Special::Gap as u8;
        const INTERRUPTED: u64 = Gap::Interrupted as u64;
        const UNWOUND: u64 = Gap::Unwound as u64;
        while let Some(
            item @ (Item::Chunk | Item::Special(CONTEXT, ..) | Item::Special(GAP, INTERRUPTED | UNWOUND, _)),
        ) = self.items.get(self.at)
        {
            if *item == Item::Chunk {
                self.cache = [0; 256];
                (self.followed, self.before) = ([0; 256], 0);
            }
            self.at += 1;
        }
        self.items.get(self.at).copied().ok_or(End)
    }

    /// The next `count` bits, the first one highest.
    pub fn bits(&mut self, count: u64) -> Result<u64, End> {
        (0..count).try_fold(0, |bits, _| {
            let Item::Bit(bit) = self.peek()? else { panic!("{:?}, not a bit", self.peek()) };
            self.at += 1;
            Ok(bits << 1 | u64::from(bit))
        })
    }

    /// A special word: its payload, and the words that follow.
    pub fn special(&mut self, kind: Special) -> Result<(u64, [u64; 2]), End> {
        let item = self.peek()?;
        self.at += 1;
        (self.followed, self.before) = ([0; 256], 0);
        match item {
            Item::Special(found, payload, words) if found == kind as u8 => Ok((payload, words)),
            item => panic!("{item:?}, not {kind:?}, item {} of {}", self.at - 1, self.items.len()),
        }
    }

    /// Returns whether an item of this kind comes next.
    pub fn is_special(&mut self, kind: Special) -> bool {
        matches!(self.peek(), Ok(Item::Special(found, ..)) if found == kind as u8)
    }

    /// The function that is entered.
    pub fn entered(&mut self) -> Result<u64, End> {
        if self.is_special(Special::Entered) {
            let (function, _) = self.special(Special::Entered)?;
            self.cache[cache_index(function as usize)] = function;
            return Ok(function);
        }
        // The bits are those of one chunk.
        self.peek()?;
        let cache = self.cache;
        assert_eq!(self.bits(1)?, 1);
        let place = match self.bits(1)? {
            1 => self.followed[self.before],
            _ => self.bits(8)? as usize,
        };
        self.followed[self.before] = place;
        self.before = place;
        Ok(cache[place])
    }

    pub fn mark(&mut self) -> Result<u64, End> {
        Ok(self.special(Special::Mark)?.1[0])
    }

    /// The marks at the beginning of a stream: the seed, which is returned, and the address of the functions.
    pub fn begin(&mut self) -> Result<(u64, u64), End> {
        Ok((self.mark()?, self.mark()?))
    }

    /// The events that `play` of the program plays.
    pub fn play(&mut self, state: &mut u64, functions: u64, events: u64) -> Result<(), End> {
        for _ in 0..events {
            let random = next(state);
            let value = random >> 16 & 0xffff;
            match random & 15 {
                0..11 => {
                    let count = (random >> 8 & 0xff) % 9 + 1;
                    assert_eq!(self.bits(count)?, value & ((1 << count) - 1));
                }
                11..15 => {
                    let number = value % if random >> 32 & 7 != 0 { 20 } else { FUNCTIONS };
                    assert_eq!(self.entered()?, functions + 16 * number);
                }
                _ if value.is_multiple_of(64) => {
                    assert_eq!(self.special(Special::Landed)?, (value, [functions, 0]));
                }
                _ if value % 64 == 1 => assert_eq!(self.mark()?, random),
                _ => {}
            }
        }
        Ok(())
    }

    pub fn expect_end(&mut self) {
        assert_eq!(self.peek(), Err(End), "item {} of {}", self.at, self.items.len());
    }
}

pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Builds a program of `testsuite/tracer` in a folder, with the tracer and the runtime.
pub fn build(folder: &Path, source: &str) -> PathBuf {
    let program = folder.join(source.strip_suffix(".c").expect("C"));
    let sources = repository().join("testsuite/tracer");
    let mut clang = command(llvm("clang"), &["-O2", "-Wall", "-Werror", "-pthread", "-o"]);
    clang.arg(&program).arg(sources.join(source));
    run(clang.args(["libpcce_trace.a", "libpcce_rt.a"].map(artifact))).expect_success();
    program
}

/// Reads a whole stream, and checks the events of its seed. Returns the seed.
pub fn check_plain(stream: &[Chunk], events: impl Fn(u64) -> u64) -> u64 {
    assert_eq!(stream.last().expect("a chunk").end, ENDED);
    let mut reader = Reader::new(stream);
    let (seed, functions) = reader.begin().expect("marks");
    let mut state = seed;
    reader.play(&mut state, functions, events(seed)).expect("all events");
    reader.expect_end();
    seed
}

/// Runs a program that records its calls in a new file.
pub fn traced(program: &Path, file: &Path, arguments: &[&str]) -> Output {
    let _ = fs::remove_file(file);
    run(command(program, arguments).env("PCCE_TRACE", file))
}

pub fn read(file: &Path) -> Vec<Chunk> {
    chunks(&fs::read(file).expect("a trace"))
}

pub fn streams_of(file: &Path) -> BTreeMap<u64, Vec<Chunk>> {
    streams(&read(file))
}
