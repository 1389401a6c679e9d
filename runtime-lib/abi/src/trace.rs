//! Traces of calls: what emitted code, the tracer and the reader of traces share.
//!
//! A thread writes a *stream* of bits. Emitted code appends a few bits where the reader could not know which event of a
//! function comes next, and after calls whose callee is not known (after casper.txt §3; but a symbol distinguishes the
//! alternatives at one place, not all call sites of the program). Everything else is a *special word*.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | nothing is written here yet |
//! | from 2⁵³ on | bits of the stream: those below the leading one, the first one highest |
//! | other | special: bits 48 to 52 say what it is ([`Special`]), those below are its payload |
//!
//! [`Special::Short`] comes before a special word where bits were pending, so each special word has an exact place in
//! the stream of bits. The words that follow a special word are written before it, so it is there with them, or not at
//! all.

use core::mem::offset_of;

pub mod parts;

/// Name of the thread's block ([`Block`]), initial-exec, one instance a process.
pub const TLS_SYMBOL: &str = "__pcce_trace";

/// Words from this value on are bits. Pending bits, with their leading one, may be written as such a word from this
/// value on.
pub const FULL: u64 = 1 << 53;
/// Pending bits, with their leading one, are always less than this. Emitted code calls [`functions::FLUSH`] when one
/// more bit makes them reach it, and before it appends several bits if these might.
pub const MOST: u64 = 1 << 63;
/// The most bits that emitted code appends at once: they fit where the highest byte is 0.
pub const MOST_BITS: u32 = 7;

#[repr(C, align(64))]
pub struct Block {
    /// Pending bits, below a leading one: 1 in a new thread. Below [`MOST`] except between an append and the flush.
    pub pending: u64,
    /// The place of the next word. In a new thread this and `end` are null.
    pub next: *mut u64,
    /// When `next` has reached this address, a full word needs another chunk.
    pub end: *mut u64,
    /// Functions that were entered from outside, by [`cache_index`]. The cache of a new thread stays empty.
    pub cache: *mut usize,
    /// Verify mode: the number of events.
    pub events: u64,
    /// Verify mode: the hash of the events ([`hash`]).
    pub hash: u64,
    /// The number of activations that have called a function that may return several times.
    pub jumps: u64,
    /// The tracer's own data.
    pub stream: *mut core::ffi::c_void,
}

pub const PENDING: u64 = offset_of!(Block, pending) as u64;
pub const SIZE: u64 = size_of::<Block>() as u64;
pub const ALIGN: u32 = align_of::<Block>() as u32;

/// Number of places in [`Block::cache`]. It is all zero where a chunk begins.
pub const CACHE: usize = 256;
/// The number of bits for a function that is entered again, and is the one that was expected ([`Order`]): two ones.
pub const EXPECTED_BITS: u32 = 2;
/// The number of bits for another function in the cache: a one, a zero, and its place. There is room for them after
/// pending bits below [`FULL`].
pub const CACHED_BITS: u32 = 10;

/// Which functions of the cache have followed which: all zero where a chunk begins, and after each special word.
///
/// A handler may leave the thread by a jump in the middle of an entry, after a part of its bits; then a special word
/// follows.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Order {
    /// By the place of a function, the place of the function that came next when it was the last one.
    next: [u8; CACHE],
    /// The place of the function that was entered last.
    last: u8,
}

impl Order {
    /// Offset of the function that was entered last.
    pub const LAST: usize = offset_of!(Order, last);
    /// Offset of the functions that came next.
    pub const NEXT: usize = offset_of!(Order, next);

    #[must_use]
    pub const fn new() -> Self {
        Self { next: [0; CACHE], last: 0 }
    }

    /// The place of the function that is expected.
    #[must_use]
    pub const fn expected(&self) -> u8 {
        self.next[self.last as usize]
    }

    /// The function at this place is entered.
    pub const fn enter(&mut self, place: u8) {
        self.next[self.last as usize] = place;
        self.last = place;
    }
}

impl Default for Order {
    fn default() -> Self {
        Self::new()
    }
}

/// The place of a function in the cache, by the address at which it was entered.
#[must_use]
pub const fn cache_index(function: usize) -> usize {
    // On x86-64, `functions::ENTER` finds the address after its call, of so many bytes.
    const BEHIND: usize = 5;
    ((function + BEHIND) >> 4) % CACHE
}

/// The kinds of special words. The payload is in bits 0 to 47; further words follow as said here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Special {
    /// The next word holds bits that were pending: those below its leading one, which may be few.
    Short = 1,
    /// Unknown code, or a call through a pointer, has entered the function at the address of the payload. The function
    /// goes into the cache, where it may replace another one.
    Entered = 2,
    /// By unwinding, control has come to a landing pad. Payload: its node; next word: address of its function.
    Landed = 3,
    /// A call has returned again (`longjmp`, `vfork`). Payload: its node; next words: address of its function, and the
    /// number of the activation among those that made such calls in this stream, from 1.
    Again = 4,
    /// A signal handler begins (in a stream of level 1 or more). Payload: the signal; next words: the number of the
    /// interrupted stream, and where it was interrupted ([`position`]); 0 and 0 if it is unknown.
    Handler = 5,
    /// The handler has returned.
    HandlerEnd = 6,
    /// A mark of the program's; next word: its value.
    Mark = 7,
    /// From here on nothing is known until the stream's next chunk: the thread has switched stacks, or recording was
    /// stopped. Payload: why ([`Gap`]).
    Gap = 8,
    /// The first word of a chunk that follows another: the place of the emitted code that has written the word before.
    /// Payload: the number of bytes in the token of its context. Next words: the number of activations that have called
    /// a function that may return several times ([`Block::jumps`]); the address where the code goes on; the address of
    /// a function and a node of it that is over now, or 0 and 0: then the address where the code goes on determines the
    /// node, since it follows a call of [`functions::FLUSH`] or [`functions::ENTER`]. Then the token, in words of 8
    /// bytes, the last one filled with zeros. A chunk that begins without this word can be read only after the chunk
    /// before it.
    Context = 9,
    /// Libraries were loaded since the last address in the stream. Payload: how often that has happened in the process
    /// ([`Chunk::loads`]). Addresses after this word are those of present images.
    Loaded = 10,
    /// `setjmp` was called. Payload: the distance of its caller's stack pointer below the place where the stream has
    /// begun. Where the caller is emitted code, [`Special::Again`] says that `setjmp` returns again.
    Kept = 11,
    /// `longjmp` goes to the place of a [`Special::Kept`] with the same payload.
    Jumped = 12,
    /// The thread leaves its stack for another one. Payload: the node of the call in which it does so; next words: the
    /// address of the node's function, and the number of the stack in this stream, from 1; each is 0 if it is unknown.
    /// Events on the other stack begin with [`Special::Entered`] or [`Special::Back`]: bits before that word belong to
    /// code that was active there already.
    Left = 13,
    /// The thread comes back to the stack with this number. The call of this node has not returned yet; or it calls
    /// nothing back, and has returned. Payload and next words as for [`Special::Left`].
    Back = 14,
    /// All earlier events are in the stream (`pcce_trace_flush`): events that need no bits have happened, up to the
    /// call in which this was written.
    Flushed = 15,
    /// As [`Special::Context`], in a stream that was put together from those of several programs. Payload: the number
    /// of activations, at most [`MAX_STACK`]. Next words: the number of activations that have called a function that
    /// may return several times; then two words for each activation, the outermost first: the address of its function,
    /// or [`STACK_OPEN`] for unknown code; and its node, or [`STACK_ENTRY`] where no event of it has come yet.
    Stack = 16,
}

/// See [`Special::Stack`].
pub const MAX_STACK: usize = 4096;
/// See [`Special::Stack`].
pub const STACK_OPEN: u64 = u64::MAX;
/// See [`Special::Stack`].
pub const STACK_ENTRY: u64 = u64::MAX;

/// Words between a [`Special::Context`] and its token.
pub const CONTEXT_WORDS: usize = 4;
/// In the payload of a [`Special::Context`]: the stack is another one than that on which the stream began, so that the
/// outermost function of the context may have been called by other code.
pub const AWAY: u64 = 1 << 16;
/// The maximum length of tokens of [`Special::Context`], in bytes: longer ones are cut, and say so.
pub const TOKEN_LEN: usize = 2048;

/// The reasons of a [`Special::Gap`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Gap {
    Stopped = 1,
    /// The thread has switched to another stack, and is not recorded any more. Written by releases before
    /// [`Special::Left`].
    Switched = 2,
    /// There was no room in the file.
    Full = 3,
    /// A signal handler was left by a jump: its activations have no more events. The next [`Special::Handler`] of the
    /// stream begins without them.
    Left = 4,
    /// In the stream that such a handler had interrupted, or before a [`Special::Landed`] where the thread may have
    /// been cancelled anywhere: of the events that need no word, those up to the interrupted place have happened, and
    /// those after it have not. The stack is known.
    Interrupted = 5,
    /// The thread was ended in the middle, by `pthread_exit` or a cancellation: none of its activations exists any
    /// more. If no word comes before this one, the number of events in between is unknown.
    Unwound = 6,
    /// Unwinding has come to a landing pad of a function that is left out: the active calls are not known.
    Caught = 7,
}

/// The shift of a special word's kind.
pub const KIND_SHIFT: u32 = 48;

#[must_use]
pub const fn special(kind: Special, payload: u64) -> u64 {
    (kind as u64) << KIND_SHIFT | payload & ((1 << KIND_SHIFT) - 1)
}

/// Functions of the tracer that emitted code calls.
pub mod functions {
    /// Writes the pending bits, and keeps all registers except scratch registers and the flags: emitted code calls it
    /// where nothing else is called.
    pub const FLUSH: &str = "__pcce_trace_flush";
    /// The first instructions of functions that may be entered from outside or through a pointer call it; calls by name
    /// enter after them ([`Machine::entry_len`](crate::machine::Machine)). It finds the function by its return address,
    /// and keeps all registers except scratch registers and the flags.
    pub const ENTER: &str = "__pcce_trace_enter";
    /// [`ENTER`] for shared libraries: the wrapper links a function of that name into each, which jumps here.
    pub const ENTER_LIBRARY: &str = "__pcce_trace_enter_library";
    /// `(const void *function, uint32_t node)`: at a landing pad. This and [`RETURNED`] find where they were called.
    pub const LANDED: &str = "__pcce_trace_landed";
    /// A function that was left out when the process started has returned to one that records. Keeps all registers
    /// except scratch registers and the flags.
    pub const CAME_BACK: &str = "__pcce_trace_came_back";
    /// `(void)`: at a landing pad of a function that is left out.
    pub const CAUGHT: &str = "__pcce_trace_caught";
    /// `(uint64_t *number, const void *function, uint32_t node)`: after a call that may return several times. `number`
    /// is the activation's for this call, 0 before the first such return. `function` is null in a function that is left
    /// out.
    pub const RETURNED: &str = "__pcce_trace_returned";
    /// `(uint64_t event)`, verify mode: an event comes. LLVM's `preserve_most`.
    pub const EVENT: &str = "__pcce_trace_event";
    /// `(void)`: the process may end now without another word.
    pub const SYNC: &str = "__pcce_trace_sync";
    /// `(void)`: after [`SYNC`], the process goes on.
    pub const GOES_ON: &str = "__pcce_trace_goes_on";
    /// `(void)`: `pthread_setcanceltype` was called.
    pub const CANCEL_TYPE: &str = "__pcce_trace_cancel_type";
    /// `(uint64_t *number, const void *function, uint32_t node)`: the thread switches to another stack in the call that
    /// follows. `number` is the activation's; function and node as for [`LANDED`], or null and 0.
    pub const SWITCH: &str = "__pcce_trace_switch";
    /// As [`SWITCH`], where the thread may switch before [`BACK`] is called.
    pub const SAVE: &str = "__pcce_trace_save";
    /// As [`SWITCH`], after such calls: the thread has come back. Called before the bit that says that a call has
    /// returned.
    pub const BACK: &str = "__pcce_trace_back";
}

/// The end of the name of a function's second body, which records.
pub const RECORDING_BODY: &str = ".pcce_recording";
/// The end of the name of a function's way out of the trace ([`Row::outside`]).
pub const OUTSIDE: &str = ".pcce_outside";
/// A byte of the tracer that is not 0 if the process will never record, or if functions were chosen at its start: then
/// functions run their first bodies, except for those that were chosen.
pub const OFF: &str = "__pcce_trace_off";
/// In each image, a pointer to that byte.
pub const OFF_AT: &str = "__pcce_trace_off_at";

/// The section of an image with a [`Row`] for each function that can be chosen at the start.
pub const ROWS: &str = "pcce_trace_rows";

/// A function with two bodies. The places are relative to the row.
///
/// Calls by name enter a body *behind* its first instructions. Both bodies have room for a jump in these, and behind
/// them room for a short jump to there. So the tracer can make one body lead to the other.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Row {
    /// The body that does not record; 0 in a row of no function.
    pub first: i32,
    /// How many bytes of it are skipped by calls by name.
    pub behind: i32,
    /// The body that records. Calls by name skip [`Machine::entry_len`](crate::machine::Machine) bytes.
    pub second: i32,
    /// A function of the same signature that calls the first body, and then [`functions::CAME_BACK`]; 0 if there can be
    /// none. Then the function is recorded, whatever is chosen.
    pub outside: i32,
    /// Its names as a text, one a line: that of the linker, and those of the source.
    pub names: i32,
    /// Its source file as a text; 0 if it is not known.
    pub file: i32,
}

// `module.s` of the tracer has a row of zeros.
const _: () = assert!(size_of::<Row>() == 24);

/// The hash after another event. An event is the module's key, exclusive or ⟨function, node⟩ in 32 bits each.
#[must_use]
pub const fn hash(hash: u64, event: u64) -> u64 {
    (hash.rotate_left(5) ^ event).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The event of a node.
#[must_use]
pub const fn event(key: u64, function: u32, node: u32) -> u64 {
    key ^ ((function as u64) << 32 | node as u64)
}

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"PCCEtrac";
pub const VERSION: u32 = 1;
/// Bytes of a file's head: [`MAGIC`], [`VERSION`] (4), zeros (4), then the words [`USED`], [`STREAMS`], [`SYNCED`] and
/// [`RING`].
pub const HEAD: u64 = 4096;
/// Offset in the head of the number of bytes of the file that are taken, with the head (8 bytes). Processes that share
/// the file add to it.
pub const USED: u64 = 16;
/// Offset in the head of the number of streams (8 bytes).
pub const STREAMS: u64 = 24;
/// Offset in the head of the process that was the last one to come to a point where it may become another program: its
/// number, and in the upper half the time, `CLOCK_MONOTONIC` in seconds (8 bytes).
pub const SYNCED: u64 = 32;
/// The number of seconds for which such a process counts as using the file.
pub const SYNCED_FOR: u64 = 10;
/// Offset in the head of the number of bytes (8 bytes) of each stream that a process keeps if it overwrites its oldest
/// chunks; 0: none does so. The process writes it before its first chunk.
pub const RING: u64 = 40;
/// Chunks begin at multiples of this, and are multiples of it long, in bytes.
pub const UNIT: u64 = 1 << 16;
/// The first chunk of the file begins here.
pub const FIRST: u64 = UNIT;

/// The first bytes of a chunk.
pub const CHUNK: u64 = u64::from_le_bytes(*b"PCCEchnk");

/// The head of a chunk. Its words follow; or an [`Image`] and the path of the image's file; or [`parts::Row`]s.
#[repr(C)]
pub struct Chunk {
    /// [`CHUNK`]; written last, so that a chunk is there whole or not at all.
    pub magic: u64,
    /// Bytes of the chunk, with this head.
    pub size: u64,
    /// [`KIND_STREAM`], [`KIND_IMAGE`] or [`KIND_PART`].
    pub kind: u32,
    pub process: u32,
    pub thread: u32,
    /// 0: the thread itself; else a stream of signal handlers, which interrupt the stream of the level below.
    pub level: u32,
    /// The number of the stream in the file, from 1.
    pub stream: u64,
    /// The number of the chunk in its stream, from 0.
    pub sequence: u64,
    /// The stream that was forked, interrupted, or has created the thread; 0 if it is unknown.
    pub parent: u64,
    /// The place in the parent ([`position`]): a call of `fork`, the interrupted point, or the call that created the
    /// thread.
    pub parent_position: u64,
    /// `CLOCK_MONOTONIC` at the beginning, in nanoseconds.
    pub clock: u64,
    /// How the stream begins: [`BEGIN_ROOT`] and so on.
    pub begin: u32,
    /// How the chunk ends: [`OPEN`] and so on.
    pub end: u32,
    /// Words in it, where it does not end [`OPEN`]. In an image's chunk, the number of functions that are left out:
    /// after the path, there are 4 bytes for each, how far its second body is from the image's lowest byte.
    pub words: u64,
    /// Verify mode: events of the stream, since the last chunk that begins in the middle ([`BEGIN_MIDDLE`]), when this
    /// chunk was closed. Else 0. An event whose code is only partly in the
    /// chunk is included.
    pub events: u64,
    /// Verify mode: the hash of the events.
    pub hash: u64,
    /// In a stream's chunk that does not end [`OPEN`], the checksum of its end and its words ([`end_checksum`]). In an
    /// image's chunk, the checksum of the [`Image`] and of what follows it.
    pub checksum: u64,
    /// `CLOCK_MONOTONIC` when its end was written, in nanoseconds.
    pub closed: u64,
    /// How many traced libraries the process had loaded where the chunk begins, or where the image was described. A
    /// library may be loaded where another one was: an address means the image there that was described last, but not
    /// after more loads than the stream knew of.
    pub loads: u64,
    pub head: u64,
}

/// The head of a chunk, as words.
pub type HeadWords = [u64; CHUNK_HEAD as usize / 8];

/// The checksum of the fields of a head that are written when the chunk begins: all except those about its end.
#[must_use]
pub fn head_checksum(head: &HeadWords) -> u64 {
    const BEGIN: usize = offset_of!(Chunk, begin) / 8;
    let sum = checksum(&head[1..BEGIN]);
    checksum_on(sum, &[head[BEGIN] & u64::from(u32::MAX), head[offset_of!(Chunk, loads) / 8]])
}

/// The checksum of the fields of a head about the chunk's end. It goes on with the chunk's words ([`checksum_on`]).
#[must_use]
pub fn end_checksum(end: u32, head: &HeadWords) -> u64 {
    let fields = [offset_of!(Chunk, words), offset_of!(Chunk, events), offset_of!(Chunk, hash)];
    let [words, events, hash] = fields.map(|at| head[at / 8]);
    checksum(&[end.into(), words, events, hash, head[offset_of!(Chunk, closed) / 8]])
}

/// A place in a stream: the sequence of the chunk, how many words of it are written, and how many bits are pending.
#[must_use]
pub const fn position(sequence: u64, words: u64, bits: u32) -> u64 {
    sequence << 40 | words << 8 | bits as u64
}

pub const CHUNK_HEAD: u64 = size_of::<Chunk>() as u64;
const _: () = assert!(CHUNK_HEAD == 136);

pub const KIND_STREAM: u32 = 1;
/// A chunk that describes an image.
pub const KIND_IMAGE: u32 = 2;
/// A chunk of a part of a run ([`parts`]), which describes all chunks of a stream, also those that the part leaves out.
/// Its head is a copy of the head of the stream's first chunk, except for the fields that describe the chunk itself.
pub const KIND_PART: u32 = 3;

/// The stream begins with code that is not known, which has not called anything yet: a thread's beginning. Chunks that
/// follow others have this, too.
pub const BEGIN_ROOT: u32 = 0;
/// It begins where the parent was: in a call of `fork`.
pub const BEGIN_FORKED: u32 = 1;
/// Recording began in the middle: the active calls are not known.
pub const BEGIN_MIDDLE: u32 = 2;
/// It begins anywhere: where the parent was when a signal's handler, which has called `fork`, interrupted it.
pub const BEGIN_INTERRUPTED: u32 = 3;
/// The thread's stream before this one was given up, since a jump, a cancellation or a fork came in the middle of a
/// change of it: the active calls are not known.
pub const BEGIN_LOST: u32 = 4;

/// The minimum number of chunks of a ring, in which the newest replaces the oldest.
pub const RING_LEAST: u64 = 4;

/// The chunk was being written.
pub const OPEN: u32 = 0;
/// The stream goes on in another chunk, if the process had the time to begin it.
pub const CONTINUED: u32 = 1;
/// The stream has ended: the thread's end, the end of the process by `exit`, or a last word before `_exit` and `exec`,
/// after which there may be more words.
pub const ENDED: u32 = 2;

/// The last bytes of a chunk that ends [`OPEN`], if the process has ended by `exit`, or crashed: which bits the thread
/// had pending then. Nothing else is written there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Last {
    /// How many words the chunk had.
    pub words: u64,
    /// The bits, below a leading one. They count if no words were written since.
    pub pending: u64,
    check: u64,
}

impl Last {
    /// Makes the record of a chunk.
    #[must_use]
    pub fn new(stream: u64, sequence: u64, words: u64, pending: u64) -> Self {
        Self { words, pending, check: checksum(&[stream, sequence, words, pending]) }
    }

    /// The bytes of the record in the file.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; LAST as usize] {
        let mut bytes = [0; LAST as usize];
        for (to, word) in bytes.chunks_exact_mut(8).zip([self.words, self.pending, self.check]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

pub const LAST: u64 = size_of::<Last>() as u64;

#[must_use]
pub fn checksum(words: &[u64]) -> u64 {
    checksum_on(CHUNK, words)
}

/// Continues a checksum with further words.
#[must_use]
pub fn checksum_on(sum: u64, words: &[u64]) -> u64 {
    words.iter().fold(sum, |sum, &word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23))
}

/// Continues a checksum with bytes, filled up with zeros.
#[must_use]
pub fn checksum_of_bytes(sum: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(sum, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        checksum_on(sum, &[u64::from_le_bytes(word)])
    })
}

/// An image of the process, in a chunk of its own.
#[repr(C)]
pub struct Image {
    /// The address of its lowest byte.
    pub low: u64,
    /// The address after its highest byte.
    pub high: u64,
    /// The difference between its addresses and those in its file.
    pub bias: u64,
    /// Length of the build id in bytes, 0 if it has none.
    pub build_id_len: u32,
    /// Length of the path of its file in bytes.
    pub path_len: u32,
    /// The build id, then zeros.
    pub build_id: [u8; 32],
}
