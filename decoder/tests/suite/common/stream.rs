//! Files of traces, written as the format says.

#![allow(dead_code)]

use std::mem::offset_of;

use pcce_abi::trace as abi;

use crate::common::world::World;

/// How much has happened: events that were told, and those of verify mode with their hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    pub told: usize,
    pub events: u64,
    pub hash: u64,
}

/// A chunk.
#[derive(Clone, Debug, Default)]
pub struct ChunkOf {
    pub words: Vec<u64>,
    /// What had happened when the last word was written, and what it says told.
    pub at_end: Settled,
    pub end: u32,
}

/// A stream that is written.
#[derive(Clone, Debug)]
pub struct Writer {
    /// Nothing is written.
    pub silent: bool,
    /// Chunks begin with a context.
    pub ring: bool,
    pending: u64,
    pub done: Vec<ChunkOf>,
    /// Words of a chunk.
    room: usize,
    events: u64,
    hash: u64,
    /// How much was told up to each word.
    pub told: Vec<usize>,
    /// Chunks with words of which it was not said yet what had happened with them.
    unsettled: Vec<usize>,
    /// Bits were appended since; and what was told with the last ones.
    appended: bool,
    told_by_bits: usize,
    /// Where a killed process may have ended: chunk, words of it.
    pub ends: Vec<(usize, usize)>,
}

/// What may be written at once: pending bits, and a special word with two others.
const RESERVE: usize = 6;

impl Writer {
    /// With chunks of so many words.
    pub fn new(room: usize) -> Self {
        assert!(room > RESERVE);
        let done = vec![ChunkOf::default()];
        Self {
            silent: false,
            ring: false,
            pending: 1,
            done,
            room,
            events: 0,
            hash: 0,
            told: Vec::new(),
            unsettled: Vec::new(),
            appended: false,
            told_by_bits: 0,
            ends: vec![(0, 0)],
        }
    }

    /// How many chunks have begun.
    pub fn chunks(&self) -> usize {
        self.done.len()
    }

    pub fn position(&self) -> u64 {
        let bits = 63 - self.pending.leading_zeros();
        abi::position(self.done.len() as u64 - 1, self.done.last().unwrap().words.len() as u64, bits)
    }

    /// A child begins here: what was counted stays.
    pub fn fork(&mut self) {
        self.silent = false;
    }

    /// Appends bits, the first one highest.
    pub fn bits(&mut self, code: u32, bits: u32) {
        if self.silent {
            return;
        }
        // At most so many at a time, as emitted code does.
        self.appended = true;
        let mut left = bits;
        while left > 0 {
            // The tracer appends what stands for a function at once.
            let len = if bits == abi::CACHED_BITS { bits } else { left.min(abi::MOST_BITS) };
            left -= len;
            self.pending = self.pending << len | u64::from(code) >> left & ((1 << len) - 1);
            if self.pending >= abi::FULL {
                let word = std::mem::replace(&mut self.pending, 1);
                self.write(&[word]);
                if left > 0 {
                    // A part of a code tells nothing.
                    self.told.resize(self.words(), self.told_by_bits);
                }
            }
        }
    }

    /// Writes a special word, and those behind it.
    pub fn special(&mut self, words: &[u64]) {
        if self.silent {
            return;
        }
        self.short();
        self.write(words);
    }

    /// Writes the pending bits.
    fn short(&mut self) {
        let pending = std::mem::replace(&mut self.pending, 1);
        if pending != 1 {
            // There is room for both in each chunk.
            self.push(&[abi::special(abi::Special::Short, 0), pending]);
            self.told.resize(self.words(), self.told_by_bits);
        }
    }

    fn words(&self) -> usize {
        self.done.iter().map(|chunk| chunk.words.len()).sum()
    }

    fn push(&mut self, words: &[u64]) {
        let last = self.done.len() - 1;
        self.unsettled.push(last);
        self.done[last].words.extend(words);
        self.ends.push((last, self.done[last].words.len()));
    }

    fn write(&mut self, words: &[u64]) {
        self.push(words);
        let chunk = self.done.last_mut().unwrap();
        if chunk.words.len() + RESERVE > self.room {
            chunk.end = abi::CONTINUED;
            self.done.push(ChunkOf::default());
            if self.ring {
                let token = [u64::from_le_bytes(*b"pcce1.AA"), 0x41_4141];
                let context = [abi::special(abi::Special::Context, 11), 0, 0, 0, 0];
                self.push(&[&context[..], &token].concat());
            }
        }
    }

    /// An event of verify mode.
    pub fn count(&mut self, event: u64) {
        self.events += 1;
        self.hash = abi::hash(self.hash, event);
    }

    /// What was written last is said: so much was told with it.
    pub fn settle(&mut self, settled: Settled) {
        if self.silent {
            return;
        }
        let settled = Settled { events: self.events, hash: self.hash, ..settled };
        if std::mem::take(&mut self.appended) {
            self.told_by_bits = settled.told;
        }
        self.told.resize(self.words(), settled.told);
        for chunk in self.unsettled.drain(..) {
            self.done[chunk].at_end = settled;
        }
    }

    /// The stream ends.
    pub fn end(&mut self, told: usize) {
        self.short();
        self.settle(Settled { told, events: 0, hash: 0 });
        let at_end = Settled { told, events: self.events, hash: self.hash };
        let chunk = self.done.last_mut().unwrap();
        chunk.end = abi::ENDED;
        chunk.at_end = at_end;
    }
}

/// What a stream is.
#[derive(Clone, Copy, Debug)]
pub struct StreamOf {
    pub number: u64,
    pub process: u32,
    pub thread: u32,
    pub level: u32,
    pub parent: u64,
    pub parent_position: u64,
    pub begin: u32,
}

impl StreamOf {
    /// The first thread.
    pub fn first() -> Self {
        Self { number: 1, process: 70, thread: 71, level: 0, parent: 0, parent_position: 0, begin: 0 }
    }

    /// A child that the first thread has forked at a position of its stream.
    pub fn forked(position: u64) -> Self {
        let (number, process, thread) = (2, 80, 80);
        let (parent, parent_position, begin) = (1, position, abi::BEGIN_FORKED);
        Self { number, process, thread, parent, parent_position, begin, ..Self::first() }
    }
}

/// A file.
#[derive(Clone, Debug)]
pub struct FileOf {
    pub bytes: Vec<u8>,
    clock: u64,
}

impl FileOf {
    pub fn new(world: &World) -> Self {
        let mut bytes = vec![0; abi::FIRST as usize];
        bytes[..8].copy_from_slice(&abi::MAGIC);
        bytes[8..12].copy_from_slice(&abi::VERSION.to_le_bytes());
        let mut file = Self { bytes, clock: 1 };
        for image in &world.images {
            let mut content = Vec::new();
            for word in [image.low, image.high, image.bias] {
                content.extend(word.to_le_bytes());
            }
            for len in [image.build_id.len() as u32, image.path.len() as u32] {
                content.extend(len.to_le_bytes());
            }
            content.extend(&image.build_id);
            content.resize(64, 0);
            content.extend(image.path.as_bytes());
            file.chunk(&StreamOf::first(), abi::KIND_IMAGE, 0, &[], &content);
        }
        file
    }

    /// Adds a stream; in verify mode, its chunks say what happened.
    pub fn stream(&mut self, stream: &StreamOf, chunks: &[ChunkOf], verify: bool) {
        for (sequence, chunk) in (0..).zip(chunks) {
            let words = if chunk.end == abi::OPEN { 0 } else { chunk.words.len() as u64 };
            let said = if verify && chunk.end != abi::OPEN { chunk.at_end } else { Settled::default() };
            let tail = [words, said.events, said.hash];
            let content: Vec<u8> = chunk.words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut stream = *stream;
            if sequence > 0 {
                stream.begin = abi::BEGIN_ROOT;
            }
            self.chunk_with(&stream, abi::KIND_STREAM, sequence, chunk.end, &tail, &content);
        }
    }

    fn chunk(&mut self, stream: &StreamOf, kind: u32, sequence: u64, tail: &[u64], content: &[u8]) {
        self.chunk_with(stream, kind, sequence, 0, tail, content);
    }

    fn chunk_with(
        &mut self,
        stream: &StreamOf,
        kind: u32,
        sequence: u64,
        end: u32,
        tail: &[u64],
        content: &[u8],
    ) {
        let size = (abi::CHUNK_HEAD + content.len() as u64).next_multiple_of(abi::UNIT);
        let mut head = Vec::new();
        head.extend(abi::CHUNK.to_le_bytes());
        head.extend(size.to_le_bytes());
        for word in [kind, stream.process, stream.thread, stream.level] {
            head.extend(word.to_le_bytes());
        }
        for word in [stream.number, sequence, stream.parent, stream.parent_position, self.clock] {
            head.extend(word.to_le_bytes());
        }
        self.clock += 1000;
        for word in [stream.begin, end] {
            head.extend(word.to_le_bytes());
        }
        for word in tail {
            head.extend(word.to_le_bytes());
        }
        head.resize(abi::CHUNK_HEAD as usize, 0);
        let at = |at: usize| u64::from_le_bytes(head[8 * at..8 * at + 8].try_into().unwrap());
        let words: abi::HeadWords = std::array::from_fn(at);
        let sum = abi::checksum_of_bytes(abi::end_checksum(end, &words), content);
        let sums = [
            (offset_of!(abi::Chunk, head), abi::head_checksum(&words)),
            (
                offset_of!(abi::Chunk, checksum),
                if end == abi::OPEN && kind == abi::KIND_STREAM { 0 } else { sum },
            ),
        ];
        for (at, sum) in sums {
            head[at..at + 8].copy_from_slice(&sum.to_le_bytes());
        }
        head.extend(content);
        head.resize(size as usize, 0);
        self.bytes.extend(head);
    }
}
