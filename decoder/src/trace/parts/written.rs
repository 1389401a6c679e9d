//! A trace that is written: the streams that others become when they are put together.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, Permissions};
use std::io::{self, Seek, SeekFrom, Write as _};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::rc::Rc;

use pcce_abi::trace::parts::words_behind;
use pcce_abi::trace::{
    CACHE, CHUNK, CHUNK_HEAD, CONTINUED, Chunk, ENDED, FIRST, FULL, HEAD, HeadWords, Image, KIND_IMAGE,
    KIND_STREAM, LAST, Last, MAGIC, MAX_STACK, OPEN, Order, STACK_ENTRY, STACK_OPEN, STREAMS, Special, UNIT,
    USED, VERSION, cache_index, checksum_of_bytes, end_checksum, head_checksum, position, special,
};

use crate::token::from_hex;
use crate::trace::event::End;
use crate::trace::file::{self, u32_at, u64_at};
use crate::trace::tables::NONE;

type HeadBytes = [u8; CHUNK_HEAD as usize];

pub(super) fn set(head: &mut [u8], at: usize, bytes: &[u8]) {
    head[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Has a file written whole, or not at all.
pub(super) fn write_whole<T, E: From<io::Error>>(
    to: &Path,
    write: impl FnOnce(Out) -> Result<T, E>,
) -> Result<T, E> {
    // Others may write to the folder, too, so nobody can guess the file's name. The umask decides who may read it.
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let rights = Permissions::from_mode(0o666);
    let unfinished =
        tempfile::Builder::new().prefix(".pcce-merging-").permissions(rights).tempfile_in(folder)?;
    let done = write(Out::new(unfinished.as_file().try_clone()?))?;
    unfinished.persist(to).map_err(|error| error.error)?;
    Ok(done)
}

/// The file.
#[derive(Debug)]
pub(super) struct Out {
    file: File,
    at: u64,
    /// The number of words in all streams.
    pub(super) words: u64,
}

impl Out {
    fn new(file: File) -> Self {
        Self { file, at: FIRST, words: 0 }
    }

    /// Writes a chunk with the content after its head. `last` goes to its end.
    pub(super) fn chunk(&mut self, head: &mut HeadBytes, content: &[u8], last: &[u8]) -> io::Result<()> {
        let size = (CHUNK_HEAD + (content.len() + last.len()) as u64).next_multiple_of(UNIT);
        set(head, offset_of!(Chunk, magic), &CHUNK.to_le_bytes());
        set(head, offset_of!(Chunk, size), &size.to_le_bytes());
        let words: HeadWords = std::array::from_fn(|at| u64_at(head, 8 * at));
        let sum = checksum_of_bytes(end_checksum(u32_at(head, offset_of!(Chunk, end)), &words), content);
        set(head, offset_of!(Chunk, checksum), &sum.to_le_bytes());
        set(head, offset_of!(Chunk, head), &head_checksum(&words).to_le_bytes());
        self.file.seek(SeekFrom::Start(self.at))?;
        self.file.write_all(head)?;
        self.file.write_all(content)?;
        self.at += size;
        self.file.seek(SeekFrom::Start(self.at - last.len() as u64))?;
        self.file.write_all(last)
    }

    /// Describes an image.
    pub(super) fn image(&mut self, image: &file::Image) -> io::Result<()> {
        let path = image.path.as_os_str().as_bytes();
        let id = from_hex(&image.build_id).unwrap_or_default();
        let mut content = vec![0; size_of::<Image>()];
        set(&mut content, offset_of!(Image, low), &image.low.to_le_bytes());
        set(&mut content, offset_of!(Image, high), &image.high.to_le_bytes());
        set(&mut content, offset_of!(Image, bias), &image.bias.to_le_bytes());
        set(&mut content, offset_of!(Image, build_id_len), &(id.len() as u32).to_le_bytes());
        set(&mut content, offset_of!(Image, path_len), &(path.len() as u32).to_le_bytes());
        set(&mut content, offset_of!(Image, build_id), &id);
        content.extend(path);
        content.extend(image.left_out.iter().flat_map(|function| function.to_le_bytes()));
        let mut head = [0; CHUNK_HEAD as usize];
        set(&mut head, offset_of!(Chunk, kind), &KIND_IMAGE.to_le_bytes());
        set(&mut head, offset_of!(Chunk, process), &image.process.to_le_bytes());
        set(&mut head, offset_of!(Chunk, clock), &image.clock.to_le_bytes());
        set(&mut head, offset_of!(Chunk, loads), &image.loads.to_le_bytes());
        set(&mut head, offset_of!(Chunk, end), &ENDED.to_le_bytes());
        set(&mut head, offset_of!(Chunk, words), &(image.left_out.len() as u64).to_le_bytes());
        self.chunk(&mut head, &content, &[])
    }

    /// Writes the head of the file, after all else.
    pub(super) fn finish(&mut self, streams: u64) -> io::Result<()> {
        let mut head = [0; HEAD as usize];
        set(&mut head, 0, &MAGIC);
        set(&mut head, MAGIC.len(), &VERSION.to_le_bytes());
        set(&mut head, USED as usize, &self.at.to_le_bytes());
        set(&mut head, STREAMS as usize, &streams.to_le_bytes());
        self.file.set_len(self.at)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&head)?;
        self.file.sync_data()
    }
}

/// The places of streams, by the number of the stream and the place in the first part: those in the stream that is
/// written.
pub(super) type Marks = HashMap<(u64, u64), (u64, u64)>;

/// The file to which all streams are written, and the places in them that others name.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) out: RefCell<Out>,
    pub(super) marks: RefCell<Marks>,
}

/// The head of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Its number in the file.
    pub(super) number: u64,
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) level: u32,
    /// Its parent's number in the file, and the place there.
    pub(super) parent: u64,
    pub(super) parent_position: u64,
    pub(super) begin: u32,
}

/// Words after which a chunk ends.
const CHUNK_WORDS: usize = 1 << 16;

/// A stream that is written.
#[derive(Debug)]
pub(in crate::trace) struct Written {
    shared: Rc<Shared>,
    head: Head,
    /// The number in the first part.
    number_there: u64,
    /// By function, its address in the process.
    addresses: Rc<[u64]>,
    sequence: u64,
    words: Vec<u64>,
    /// Bits, below a leading one.
    pending: u64,
    /// By place in the cache, the function.
    cache: Vec<u32>,
    order: Order,
    /// How many libraries had been loaded, where the chunk begins and by the last word.
    loads: (u64, u64),
    clock: u64,
    /// The places that are waited for: in each part.
    places: Vec<Vec<u64>>,
    reached: usize,
}

impl Written {
    pub(super) fn new(
        shared: Rc<Shared>,
        (head, number_there): (Head, u64),
        addresses: Rc<[u64]>,
        places: Vec<Vec<u64>>,
        (clock, loads): (u64, u64),
    ) -> Self {
        Self {
            shared,
            head,
            number_there,
            addresses,
            sequence: 0,
            words: Vec::new(),
            pending: 1,
            cache: vec![NONE; CACHE],
            order: Order::new(),
            loads: (loads, loads),
            clock,
            places,
            reached: 0,
        }
    }

    /// Appends bits, the first one highest.
    pub(in crate::trace) fn bits(&mut self, code: u32, bits: u32) {
        let mut left = bits;
        while left > 0 {
            let room = self.pending.leading_zeros();
            let now = left.min(room);
            left -= now;
            self.pending = self.pending << now | u64::from(code) >> left & ((1 << now) - 1);
            if self.pending.leading_zeros() == 0 {
                self.words.push(self.pending);
                self.pending = 1;
            }
        }
    }

    /// Unknown code enters a function. As the tracer does, writes its place in the cache, or the function itself.
    pub(in crate::trace) fn entered(&mut self, function: u32, loads: u64) {
        let address = self.addresses[function as usize];
        let place = cache_index(address as usize);
        if self.cache[place] != function {
            self.cache[place] = function;
            return self.group(loads, &[special(Special::Entered, address)]);
        }
        let place = place as u8;
        if self.order.expected() == place {
            self.bits(0b11, 2);
        } else {
            self.bits(0b10 << 8 | u32::from(place), 10);
        }
        self.order.enter(place);
    }

    /// Appends a special word of the first part. `function`: that whose address is the first word after it.
    pub(in crate::trace) fn special(
        &mut self,
        kind: Special,
        payload: u64,
        mut words: [u64; 2],
        function: Option<u32>,
        loads: u64,
    ) {
        if let Some(function) = function {
            words[0] = self.addresses[function as usize];
        }
        if kind == Special::Handler {
            let place = self.shared.marks.borrow().get(&(words[0], words[1])).copied().unwrap_or_default();
            words = [place.0, place.1];
        }
        let group = [special(kind, payload), words[0], words[1]];
        self.group(loads, &group[..=words_behind(group[0]).unwrap_or(0)]);
    }

    fn group(&mut self, loads: u64, group: &[u64]) {
        self.flush();
        if loads != self.loads.1 {
            self.loads.1 = loads;
            self.words.push(special(Special::Loaded, loads));
        }
        self.words.extend(group);
        self.order = Order::new();
    }

    /// Writes the pending bits, however few they are.
    fn flush(&mut self) {
        if self.pending >= FULL {
            self.words.push(self.pending);
        } else if self.pending > 1 {
            self.words.extend([special(Special::Short, 0), self.pending]);
        }
        self.pending = 1;
    }

    /// Returns whether the chunk is full.
    pub(in crate::trace) fn is_due(&self) -> bool {
        self.words.len() >= CHUNK_WORDS
    }

    /// Begins another chunk, with these activations, the outermost first: none for unknown code; else a function, and
    /// the number of its last node if it had one. Nothing happens if they are too many. `jumps`: the number of
    /// activations that have called a function that may return several times. `counted`: of verify mode, or 0.
    pub(in crate::trace) fn begin(
        &mut self,
        stack: &[Option<(u32, Option<u32>)>],
        jumps: u64,
        counted: (u64, u64),
        (time, loads): (u64, u64),
    ) -> io::Result<()> {
        if stack.len() > MAX_STACK {
            return Ok(());
        }
        self.flush();
        self.close(CONTINUED, counted, time, None)?;
        self.sequence += 1;
        self.loads = (loads, loads);
        self.cache.fill(NONE);
        self.order = Order::new();
        self.words.extend([special(Special::Stack, stack.len() as u64), jumps]);
        for activation in stack {
            self.words.extend(match *activation {
                None => [STACK_OPEN, 0],
                Some((function, node)) => {
                    [self.addresses[function as usize], node.map_or(STACK_ENTRY, u64::from)]
                }
            });
        }
        Ok(())
    }

    /// Ends the stream.
    pub(in crate::trace) fn end(&mut self, end: End, counted: (u64, u64), time: u64) -> io::Result<()> {
        while self.next_mark().is_some() {
            self.mark();
        }
        match end {
            End::Ended => {
                self.flush();
                self.close(ENDED, counted, time, None)
            }
            End::Stopped => {
                let pending = std::mem::replace(&mut self.pending, 1);
                self.close(OPEN, (0, 0), time, Some(pending))
            }
            End::Open => {
                self.flush();
                self.close(OPEN, (0, 0), time, None)
            }
        }
    }

    fn close(&mut self, end: u32, counted: (u64, u64), time: u64, pending: Option<u64>) -> io::Result<()> {
        let is_open = end == OPEN;
        let count = self.words.len() as u64;
        let mut head = [0; CHUNK_HEAD as usize];
        let Head { number, process, thread, level, parent, parent_position, begin } = self.head;
        let time = time.max(self.clock);
        let clock = std::mem::replace(&mut self.clock, time);
        set(&mut head, offset_of!(Chunk, kind), &KIND_STREAM.to_le_bytes());
        for (at, value) in [
            (offset_of!(Chunk, process), process),
            (offset_of!(Chunk, thread), thread),
            (offset_of!(Chunk, level), level),
            (offset_of!(Chunk, begin), if self.sequence == 0 { begin } else { 0 }),
            (offset_of!(Chunk, end), end),
        ] {
            set(&mut head, at, &value.to_le_bytes());
        }
        for (at, value) in [
            (offset_of!(Chunk, stream), number),
            (offset_of!(Chunk, sequence), self.sequence),
            (offset_of!(Chunk, parent), parent),
            (offset_of!(Chunk, parent_position), parent_position),
            (offset_of!(Chunk, clock), clock),
            (offset_of!(Chunk, words), if is_open { 0 } else { count }),
            (offset_of!(Chunk, events), counted.0),
            (offset_of!(Chunk, hash), counted.1),
            (offset_of!(Chunk, closed), if is_open { 0 } else { time }),
            (offset_of!(Chunk, loads), self.loads.0),
        ] {
            set(&mut head, at, &value.to_le_bytes());
        }
        let content: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let last = pending.map(|pending| Last::new(number, self.sequence, count, pending).to_bytes());
        // Behind the words of an open chunk is a zero.
        let last = last.map_or(vec![0; LAST as usize], |last| [[0; 8].as_slice(), &last].concat());
        let mut out = self.shared.out.borrow_mut();
        out.chunk(&mut head, &content, if is_open { &last } else { &[] })?;
        out.words += count;
        self.words.clear();
        Ok(())
    }

    /// The place that is waited for, in each part.
    pub(in crate::trace) fn next_mark(&self) -> Option<&[u64]> {
        self.places.get(self.reached).map(Vec::as_slice)
    }

    /// It is reached.
    pub(in crate::trace) fn mark(&mut self) {
        let there = self.places[self.reached][0];
        let here = position(self.sequence, self.words.len() as u64, self.pending.ilog2());
        self.shared.marks.borrow_mut().insert((self.number_there, there), (self.head.number, here));
        self.reached += 1;
    }
}
