//! A stream's words and chunks.
//!
//! All functions here are for a thread's block and the area of its stream, which only signal handlers of the same
//! thread use meanwhile. These leave the block as they found it, and have streams of their own; a [`Busy`] has the
//! position of the stream before it was changed.
//!
//! Other processes read the file while it is being written: what says that something is there is written last, behind a
//! fence.
//!
//! Unless said otherwise, the contract of unsafe functions is that the block is the calling thread's, and the area that
//! of its stream.

use core::ffi::{CStr, c_char};
use core::mem::zeroed;
use core::ptr::null_mut;
use core::sync::atomic::{Ordering, compiler_fence, fence};

use crate::abi::trace::{
    AWAY, BEGIN_LOST, BEGIN_MIDDLE, Block, CHUNK, CHUNK_HEAD, CONTEXT_WORDS, CONTINUED, Chunk, ENDED, FULL,
    Gap, HeadWords, KIND_STREAM, LAST, OPEN, Order, RING_LEAST, Special, TOKEN_LEN, UNIT, checksum_on,
    end_checksum, head_checksum, position, special,
};
use crate::area::{self, Area, DUMMY, From, RING, State, Stream, block};
use crate::ends::Ends;
use crate::forks::{self, Fork};
use crate::parts::{self, Part};
use crate::stacks::Stacks;
use crate::{file, images, sys, weak_address};

/// The number of words for which a chunk has room at any time: at most 5 are written at once, after 2 for the pending
/// bits, one for libraries that were loaded, and one that says why nothing follows; further words whose place is not
/// known come before them. After all of these is room for [`Last`].
const RESERVE: usize = 9 + HERE + LAST as usize / size_of::<u64>();
/// Words after the limit whose place is not known, and the maximum number that [`put_here`] writes at once.
const HERE: usize = 64;
const MAX_HERE: usize = 4;

/// The first word of a chunk.
fn words(chunk: *mut Chunk) -> *mut u64 {
    chunk.wrapping_byte_add(CHUNK_HEAD as usize).cast()
}

/// The number of words in a chunk, by the place of its next word.
pub fn words_in(chunk: *mut Chunk, next: *const u64) -> u64 {
    ((next.addr() - words(chunk).addr()) as u64).div_ceil(8)
}

/// The number of words in the stream's chunk.
unsafe fn written(block: *const Block, area: *const Area) -> u64 {
    // SAFETY: by the caller.
    unsafe {
        let chunk = (*area).stream.chunk;
        if chunk.is_null() { 0 } else { words_in(chunk, (*block).next) }
    }
}

/// The position of the stream.
pub unsafe fn here(block: *const Block, area: *const Area) -> u64 {
    // SAFETY: by the contract.
    unsafe {
        let pending = (&raw const (*block).pending).read_volatile();
        position((*area).stream.sequence, written(block, area), pending.max(1).ilog2())
    }
}

/// Begins a stream: its words get a place.
pub unsafe fn begin(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        (*area).stream.switches = file::switches();
        if file::is_on((*area).stream.switches) { next_chunk(block, area) } else { idle(block, area) }
    }
}

/// Recording was started or stopped since the stream has last looked. A stream that is not recorded goes on later
/// ([`goes_on`]).
///
/// # Safety
/// The area is that of the block's stream, which has begun.
pub unsafe fn switched(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        let switches = file::switches();
        match ((*area).stream.state, file::is_on(switches)) {
            (State::Recording, false) => {
                (*area).stream.switches = switches;
                put(block, area, &[special(Special::Gap, Gap::Stopped as u64)]);
                end(block, area);
            }
            // Events that were to be left out were recorded.
            (State::Recording, true) => {
                (*area).stream.switches = switches;
                rearm(block, area);
            }
            (State::Idle, true) => {}
            (State::Idle | State::New, _) => (*area).stream.switches = switches,
        }
    }
}

/// If the stream is to be recorded again: goes on with a chunk that begins at [`Stream::from`], and says which calls
/// are active there. Returns whether it does.
///
/// # Safety
/// As for [`switched`].
pub unsafe fn goes_on(block: *mut Block, area: *mut Area) -> bool {
    // SAFETY: by the contract.
    unsafe {
        let switches = file::switches();
        let stream = &raw mut (*area).stream;
        if (*stream).state != State::Idle || (*stream).switches == switches || !file::is_on(switches) {
            return false;
        }
        (*stream).switches = switches;
        forks::begin(block, area);
        (*block).pending = 1;
        (*stream).begin = BEGIN_MIDDLE;
        next_chunk(block, area);
        true
    }
}

/// Gives up the stream, whose state is lost. It goes on as another one, whose beginning is not known.
pub unsafe fn lose(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract; nothing else uses the mapping.
    unsafe {
        let stream = &raw mut (*area).stream;
        (*area).fast.limit.store(0, Ordering::Relaxed);
        unmap_chunk(stream);
        parts::give_back(stream);
        (*stream).number = 0;
        (*stream).ring = [0; RING];
        (*stream).begin = BEGIN_LOST;
        (*stream).stacks = Stacks::NONE;
        (*stream).parent = 0;
        (*stream).parent_position = 0;
        (*stream).state = State::New;
        (*stream).ends = Ends::Not;
        (*stream).fork = Fork::NONE;
        (*stream).orphan = false;
        (*stream).busy.store(0, Ordering::Relaxed);
        (*block).pending = 1;
    }
}

/// Gives up the stream if a change of it was ended in the middle, by a cancellation or a jump.
///
/// # Safety
/// As for [`lose`]; no change of the stream goes on.
pub unsafe fn lose_if_changing(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        if (*area).stream.busy.load(Ordering::Relaxed) != 0 {
            lose(block, area);
        }
    }
}

/// Gives up the stream's chunk. A jump or a cancellation may end this anywhere: so the stream forgets the chunk before
/// it is unmapped, and its addresses may be something else's.
unsafe fn unmap_chunk(stream: *mut Stream) {
    // SAFETY: by the caller: nothing else uses the mapping.
    unsafe {
        let (chunk, is_unkept) = ((*stream).chunk, parts::is_unkept(stream));
        (&raw mut (*stream).chunk).write_volatile(null_mut());
        compiler_fence(Ordering::SeqCst);
        if !chunk.is_null() && !is_unkept {
            sys::unmap(chunk.cast(), (*stream).size);
        }
    }
}

/// Has further words go between `next` and `end`.
unsafe fn arm(block: *mut Block, area: *mut Area, next: *mut u64, end: *mut u64) {
    // SAFETY: by the caller.
    unsafe {
        let end = end.wrapping_sub(RESERVE);
        (*block).next = next;
        (*block).end = end;
        (*block).cache = (&raw mut (*area).fast.cache).cast();
        (*area).stream.limit = end.addr();
        (*area).fast.alive.store(1, Ordering::Relaxed);
        (*area).fast.limit.store((*area).stream.limit, Ordering::Relaxed);
        // Either the change of the switches is seen here, or its thread sets the limit to 0 later (`toggle::turn`).
        fence(Ordering::SeqCst);
        if file::switches() != (*area).stream.switches {
            (*area).fast.limit.store(0, Ordering::Relaxed);
        }
    }
}

/// Has further words go on at the present place.
///
/// # Safety
/// The area is that of the block's stream, which has begun.
pub unsafe fn rearm(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe { arm(block, area, (*block).next, (*block).end.wrapping_add(RESERVE)) };
}

/// Has the stream's words written to memory that is not recorded.
///
/// # Safety
/// The area is that of the block's stream, which has no chunk.
pub unsafe fn idle(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        (*area).stream.state = State::Idle;
        let next = (&raw mut (*area).stream.dummy).cast::<u64>();
        arm(block, area, next, next.add(DUMMY));
    }
}

/// The size of a chunk, by its sequence.
fn size(sequence: u64) -> usize {
    let limit = match area::used() {
        0..=32 => 2,
        33..=256 => 1,
        _ => 0,
    };
    (UNIT as usize) << (2 * sequence.min(limit))
}

/// Goes on with a new chunk, if there is one.
unsafe fn next_chunk(block: *mut Block, area: *mut Area) {
    // SAFETY: by the caller; what was mapped is ours alone, and all zero.
    unsafe {
        let stream = &raw mut (*area).stream;
        let sequence = if (*stream).number == 0 { 0 } else { (*stream).sequence + 1 };
        let has_context = sequence > 0 || (*stream).begin == BEGIN_MIDDLE;
        let ring = Ring::wanted();
        let part = Part::wanted();
        let size = match (&ring, part) {
            (Some(ring), _) => ring.size,
            (None, Some(_)) => UNIT as usize,
            (None, None) => size(sequence),
        };
        let place = ring.as_ref().map(|ring| (sequence % ring.count) as usize);
        let taken = match (place.map(|place| (*stream).ring[place]), part) {
            (Some(offset), _) if sequence > 0 && offset > 0 => {
                let mapped = file::again(offset, size as u64, || forks::is_orphan(stream));
                mapped.map(|mapped| (offset, mapped))
            }
            (_, Some(part)) if !part.keeps(sequence) => {
                let unkept = parts::unkept(stream);
                (!unkept.is_null()).then_some((0, unkept))
            }
            _ => file::take(size as u64, || forks::is_orphan(stream)),
        };
        let Some((offset, mapped)) = taken else {
            if !(*stream).chunk.is_null() {
                (*block).next.write_volatile(special(Special::Gap, Gap::Full as u64));
                (*block).next = (*block).next.add(1);
                close(block, area, ENDED);
            } else if (*stream).number == 0 && part.is_none() && !forks::is_orphan(stream) {
                write_missing(block, stream);
            }
            (*stream).switches = file::switches();
            return idle(block, area);
        };
        if !(*stream).chunk.is_null() {
            close(block, area, CONTINUED);
        }
        if part.is_some_and(|part| !parts::begin(stream, part, sequence)) {
            if offset > 0 {
                sys::unmap(mapped.cast(), size);
            }
            (*stream).switches = file::switches();
            return idle(block, area);
        }
        if (*stream).number == 0 {
            (*stream).number = file::stream();
        }
        (*stream).sequence = sequence;
        (*stream).offset = offset;
        if let Some(place) = place {
            (*stream).ring[place] = offset;
        }
        (*stream).size = size;
        if has_context && (*stream).from.pc != 0 {
            // The context has this address. A forked child has described nothing yet if it has only gone on in
            // functions that were active at the fork, and what it would inherit is known by its first chunk alone.
            images::describe((*stream).from.pc);
        }
        let chunk = mapped.cast::<Chunk>();
        chunk.write(head(block, stream));
        (*chunk).head = head_checksum(&*chunk.cast());
        fence(Ordering::Release);
        if !forks::is_orphan(stream) {
            (&raw mut (*chunk).magic).write_volatile(CHUNK);
        }
        if part.is_some() {
            parts::begun(stream, chunk);
        }
        if (*stream).begin == BEGIN_MIDDLE {
            ((*block).events, (*block).hash) = (0, 0);
        }
        (*stream).begin = 0;
        (*stream).chunk = chunk;
        (*stream).state = State::Recording;
        (&raw mut (*area).fast.cache).write_bytes(0, 1);
        (*area).fast.order = Order::new();
        let end = mapped.add(size).cast::<u64>();
        arm(block, area, words(chunk), end);
        if has_context {
            write_context(block, (*stream).from, (*stream).stacks.is_away());
        }
        let stress = file::stress(sequence);
        let room = if stress > 0 { stress } else { part.map_or(0, |_| parts::room(sequence)) };
        if room > 0 {
            let next = (*block).next;
            arm(block, area, next, end.min(next.wrapping_add(room + RESERVE)));
        }
    }
}

/// Returns the head of a stream's next chunk, as it is when the chunk begins, without [`Chunk::magic`] and checksums.
unsafe fn head(block: *mut Block, stream: *mut Stream) -> Chunk {
    // SAFETY: by the caller: this thread's stream; zeros are a head.
    unsafe {
        (*stream).thread = sys::gettid();
        (*stream).block = block;
        (*stream).loads = images::loads();
        Chunk {
            size: (*stream).size as u64,
            kind: KIND_STREAM,
            process: sys::getpid() as u32,
            thread: (*stream).thread as u32,
            level: (*stream).level,
            stream: (*stream).number,
            sequence: (*stream).sequence,
            parent: (*stream).parent,
            parent_position: (*stream).parent_position,
            clock: sys::time(libc::CLOCK_MONOTONIC),
            loads: (*stream).loads,
            begin: (*stream).begin,
            end: OPEN,
            ..zeroed()
        }
    }
}

/// Writes that a stream is missing, by system calls only: there is no memory for its first chunk. A thread or a forked
/// child would not be in the trace, and nothing would say so.
#[cold]
unsafe fn write_missing(block: *mut Block, stream: *mut Stream) {
    // SAFETY: by the caller, as for `head`; heads are words without padding.
    unsafe {
        (*stream).number = file::stream();
        ((*stream).sequence, (*stream).size) = (0, UNIT as usize);
        let mut chunk = head(block, stream);
        let gap = special(Special::Gap, Gap::Full as u64);
        (chunk.magic, chunk.end, chunk.words, chunk.closed) = (CHUNK, ENDED, 1, chunk.clock);
        let words: HeadWords = (&raw const chunk).cast::<HeadWords>().read();
        (chunk.head, chunk.checksum) =
            (head_checksum(&words), checksum_on(end_checksum(ENDED, &words), &[gap]));
        let bytes = core::slice::from_raw_parts((&raw const chunk).cast::<u8>(), size_of::<Chunk>());
        file::put(UNIT, bytes, &gap.to_le_bytes());
        // Should recording begin again, it begins another stream, of which nothing is known.
        (*stream).number = 0;
        ((*stream).begin, (*stream).parent, (*stream).parent_position) = (BEGIN_MIDDLE, 0, 0);
    }
}

/// The chunks of a ring.
struct Ring {
    /// Bytes of each.
    size: usize,
    count: u64,
}

impl Ring {
    /// None if everything is kept.
    fn wanted() -> Option<Self> {
        let bytes = Some(file::ring()).filter(|&bytes| bytes > 0)?;
        // One of the chunks has little in it yet.
        let count = bytes.div_ceil(UNIT).clamp(RING_LEAST, RING as u64 - 1);
        let size = bytes.div_ceil(count).next_multiple_of(UNIT);
        Some(Self { size: size as usize, count: count + 1 })
    }
}

/// Writes the chunk's end, and in a part of a run its row, in case it ends now. `is_over`: it does.
unsafe fn write_end_row(block: *const Block, area: *mut Area, end: u32, is_over: bool) {
    // SAFETY: by the caller: there is a chunk, and the words are in it.
    unsafe {
        let chunk = (*area).stream.chunk;
        let count = written(block, area);
        let text = core::slice::from_raw_parts(words(chunk), count as usize);
        parts::write_row(&raw mut (*area).stream, text, end, is_over);
        if parts::is_unkept(&raw const (*area).stream) {
            return;
        }
        (&raw mut (*chunk).end).write_volatile(OPEN);
        fence(Ordering::Release);
        (*chunk).words = count;
        (*chunk).events = (*block).events;
        (*chunk).hash = (*block).hash;
        (*chunk).closed = sys::time(libc::CLOCK_MONOTONIC);
        (*chunk).checksum = checksum_on(end_checksum(end, &*chunk.cast::<HeadWords>()), text);
        fence(Ordering::Release);
        (&raw mut (*chunk).end).write_volatile(end);
    }
}

/// Ends the chunk, and gives back the space that it does not need.
unsafe fn close(block: *const Block, area: *mut Area, end: u32) {
    // SAFETY: by the caller; the mapping is not in use any more.
    unsafe {
        write_end_row(block, area, end, true);
        let stream = &raw mut (*area).stream;
        if !parts::is_unkept(stream) && (end == ENDED || Part::wanted().is_some()) {
            give_back_behind(block, stream);
        }
        unmap_chunk(stream);
    }
}

/// Gives back the space after the words of the stream's chunk, which is in the file.
///
/// # Safety
/// The stream is the block's.
pub unsafe fn give_back_behind(block: *const Block, stream: *const Stream) {
    // SAFETY: by the contract.
    unsafe {
        if forks::is_orphan(stream) {
            return;
        }
        let used = ((*block).next.addr() - (*stream).chunk.addr()).next_multiple_of(4096) as u64;
        file::give_back((*stream).offset + used, (*stream).offset + (*stream).size as u64);
    }
}

/// Ends the stream, and gives back the space that it does not need. Further words are not recorded.
pub unsafe fn end(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        let stream = &raw mut (*area).stream;
        if !(*stream).chunk.is_null() {
            put(block, area, &[]);
        }
        if !(*stream).chunk.is_null() {
            close(block, area, ENDED);
        }
        parts::give_back(stream);
        idle(block, area);
        // Further calls of the thread are in another stream.
        ((*block).events, (*block).hash, (*block).jumps) = (0, 0, 0);
    }
}

/// The process may end now without another word.
///
/// # Safety
/// The area is that of the block's stream, which has begun.
pub unsafe fn sync(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        put(block, area, &[]);
        if !(*area).stream.chunk.is_null() {
            write_end_row(block, area, ENDED, false);
        }
    }
}

/// Writes the pending bits, and then a special word with those that follow it, or none. Between two handlers the place
/// of emitted code is not known: a chunk that began there could not be read without the chunks before it, so there is
/// room for some more words in the present chunk.
///
/// # Safety
/// The area is that of the block's stream, which has begun; there are at most 5 words.
pub unsafe fn put(block: *mut Block, area: *mut Area, group: &[u64]) {
    // SAFETY: by the contract; there is room.
    unsafe {
        forks::begin(block, area);
        if (*area).stream.state != State::Recording {
            (*block).pending = 1;
            return;
        }
        flush_short(block);
        if !group.is_empty() {
            write_group(block, area, group);
        }
        let stream = &(*area).stream;
        let later = if stream.level > 0 && stream.from.pc == 0 { HERE * size_of::<u64>() } else { 0 };
        if (*block).next.addr() > stream.limit + later {
            next_chunk(block, area);
        }
    }
}

/// Writes the pending bits, and then a special word. The chunk stays the same: the address where emitted code goes on
/// is not known.
///
/// # Safety
/// As for [`put`].
pub unsafe fn put_here(block: *mut Block, area: *mut Area, word: u64) {
    // SAFETY: by the contract; there is room.
    unsafe {
        forks::begin(block, area);
        let limit = (*area).stream.limit + (HERE - MAX_HERE) * size_of::<u64>();
        if (*area).stream.state != State::Recording || (*block).next.addr() > limit {
            return put(block, area, &[word]);
        }
        flush_short(block);
        write_group(block, area, &[word]);
    }
}

/// Writes the pending bits, however few they are.
unsafe fn flush_short(block: *mut Block) {
    // SAFETY: by the caller: there is room.
    unsafe {
        let pending = (*block).pending;
        if pending > 1 {
            write(block, &[special(Special::Short, 0), pending]);
            (*block).pending = 1;
        }
    }
}

/// Writes a special word with those that follow it.
unsafe fn write_group(block: *mut Block, area: *mut Area, group: &[u64]) {
    // SAFETY: by the caller: there is room.
    unsafe {
        let loads = images::loads();
        if (*area).stream.loads != loads {
            (*area).stream.loads = loads;
            write(block, &[special(Special::Loaded, loads)]);
        }
        write(block, group);
        (*area).fast.order = Order::new();
    }
}

/// Writes words, the first one last.
///
/// # Safety
/// There is room for them.
pub unsafe fn write(block: *mut Block, group: &[u64]) {
    // SAFETY: by the contract.
    unsafe {
        for (i, &word) in group.iter().enumerate().rev() {
            if i == 0 {
                fence(Ordering::Release);
            }
            (*block).next.add(i).write_volatile(word);
        }
        (*block).next = (*block).next.add(group.len());
    }
}

/// Writes the pending bits if they fill a word, and begins another chunk if there is no more room.
///
/// # Safety
/// The area is that of the block's stream, which has begun.
pub unsafe fn flush(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe { flush_up_to(block, area, 0) };
}

/// [`flush`] where the address at which emitted code goes on is not known: the chunk stays the same.
///
/// # Safety
/// As for [`flush`].
pub unsafe fn flush_here(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe { flush_up_to(block, area, HERE - MAX_HERE) };
}

/// Writes the pending bits if they fill a word, and begins another chunk if there are more than `more` words behind the
/// limit.
unsafe fn flush_up_to(block: *mut Block, area: *mut Area, more: usize) {
    // SAFETY: by the caller; there is room.
    unsafe {
        forks::begin(block, area);
        let pending = (*block).pending;
        if (*area).stream.state == State::Idle {
            (*block).next = (&raw mut (*area).stream.dummy).cast();
        } else if pending >= FULL {
            write(block, &[pending]);
        }
        if pending >= FULL {
            (*block).pending = 1;
        }
        let limit = (*area).stream.limit + more * size_of::<u64>();
        if (*area).stream.state == State::Recording && (*block).next.addr() > limit {
            next_chunk(block, area);
        }
    }
}

// Marks a stream that is being changed: handlers that interrupt find the position where it was before.

/// The mark, as long as this lives.
pub struct Busy(*mut Area);

impl Busy {
    /// Sets the mark.
    ///
    /// # Safety
    /// The block is that of the thread, the area that of its stream.
    pub unsafe fn new(block: *const Block, area: *mut Area) -> Self {
        // SAFETY: by the contract.
        unsafe { (*area).stream.busy.store(here(block, area) + 1, Ordering::Release) };
        compiler_fence(Ordering::SeqCst);
        Self(area)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: by the contract of new().
        unsafe {
            (*self.0).stream.busy.store(0, Ordering::Release);
            if forks::is_orphan(&raw const (*self.0).stream) && area::of(block()) == self.0 {
                lose(block(), self.0);
            }
        }
    }
}

// The context with which a chunk begins, so that it can be read without the chunks before it.

/// Writes the context of emitted code at a chunk's beginning.
///
/// # Safety
/// The block's chunk is empty.
#[inline(never)]
unsafe fn write_context(block: *mut Block, from: From, is_away: bool) {
    type TokenAt = unsafe extern "C" fn(*mut c_char, usize, usize, usize) -> usize;
    let token_at = weak_address!("pcce_token_at");
    if from.pc == 0 || token_at.is_null() {
        return;
    }
    const FIRST: usize = 1 + CONTEXT_WORDS;
    // A zero follows the token.
    let mut text = [0_u64; FIRST + TOKEN_LEN / 8 + 1];
    // SAFETY: the runtime's function, which may be called at any instruction; the token ends with a zero. By the
    // contract: the chunk has more room.
    unsafe {
        let token_at = core::mem::transmute::<*const u8, TokenAt>(token_at);
        let token = (&raw mut text[FIRST]).cast::<c_char>();
        token_at(token, TOKEN_LEN + 1, from.pc, from.sp);
        let len = CStr::from_ptr(token).count_bytes();
        if len > 0 {
            text[0] = special(Special::Context, len as u64 | if is_away { AWAY } else { 0 });
            text[1..FIRST].copy_from_slice(&[(*block).jumps, from.pc as u64, from.node[0], from.node[1]]);
            text[FIRST + len / 8] &= (1 << (8 * (len % 8))) - 1;
            write(block, &text[..FIRST + len.div_ceil(8)]);
        }
    }
}
