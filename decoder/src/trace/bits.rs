//! A stream as its replay reads it: bits, and at exact places among them special words and the bounds of chunks.

use std::io;

use pcce_abi::trace::{
    AWAY, CONTEXT_WORDS, CONTINUED, ENDED, FULL, KIND_SHIFT, MAX_STACK, OPEN, Special, TOKEN_LEN,
    checksum_on, position,
};

use super::file::{ChunkAt, Stream, TraceFile};

/// The next item where no bits are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Bits,
    /// A special word with its payload, and the words after it.
    Special(Special, u64, [u64; 2]),
    /// All words of a chunk were read.
    ChunkEnd(ChunkAt),
    /// A chunk begins; whether it follows the one before without a gap.
    Begin(ChunkAt, bool),
    /// A word without a meaning, or a special word that is not whole where it must be. Nothing else is read of the
    /// chunk.
    Damaged,
    /// A chunk whose checksum does not match. It is left out.
    BadChunk,
    /// The stream's end; true if the stream itself says that it ends here.
    End(bool),
}

/// The number of words that are read at a time.
const BLOCK: usize = 1 << 13;
/// A value of [`Bits::block_at`]: nothing else is read of the chunk.
const SKIPPED: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Bits<'t> {
    file: &'t TraceFile,
    chunks: &'t [ChunkAt],
    /// Index of the chunk that is read next.
    next: usize,
    chunk: Option<ChunkAt>,
    /// The number of words that the chunk certainly has. If the chunk is not closed, others follow, up to the
    /// first zero.
    sure: u64,
    /// The block, which word of the chunk its first one is, and which word of the block comes next.
    block: Vec<u64>,
    block_at: u64,
    at: usize,
    /// Bits of the word that is read, the next one highest, and how many there are.
    pub(super) bits: u64,
    pub(super) left: u32,
    /// The number of bits that the word had.
    had: u32,
    /// The index of the word in the chunk, and the number of words that the item takes.
    word_at: u64,
    word_len: u64,
    item: Option<Item>,
    /// The pending bits at the end of the chunk ([`ChunkAt::last`]).
    last: Option<(u64, u64)>,
    /// True if the pending bits were read.
    has_stopped: bool,
    /// True if the end of the last chunk was reported.
    reported: bool,
    /// True if words after the certain ones were read.
    more: bool,
    /// The numbers of bits, and of words that are no bits, that were read.
    taken: u64,
    specials: u64,
    loads: u64,
    /// The place ([`position`]) from which on nothing is read, and whether reading has come there.
    limit: u64,
    at_limit: bool,
    pub(super) error: Option<io::Error>,
}

impl<'t> Bits<'t> {
    /// Reads a stream from a chunk on.
    pub(super) fn new(file: &'t TraceFile, stream: &'t Stream, chunk: usize) -> Self {
        Self {
            file,
            chunks: &stream.chunks,
            next: chunk,
            chunk: None,
            sure: 0,
            block: Vec::new(),
            block_at: 0,
            at: 0,
            bits: 0,
            left: 0,
            had: 0,
            word_at: 0,
            word_len: 0,
            item: None,
            last: None,
            has_stopped: false,
            reported: true,
            more: false,
            taken: 0,
            specials: 0,
            loads: 0,
            limit: u64::MAX,
            at_limit: false,
            error: None,
        }
    }

    /// Reads nothing from this place of the stream on.
    pub(super) fn stop_at(&mut self, position: u64) {
        self.limit = position;
    }

    /// Returns whether everything before the place where reading stops was read.
    pub(super) fn is_at_limit(&self) -> bool {
        self.at_limit && self.left == 0
    }

    /// The place in the stream ([`position`]).
    pub(super) fn position(&self) -> u64 {
        let sequence = self.chunk.map_or(0, |chunk| chunk.sequence);
        match (self.left, self.had) {
            // The special word was read, and not taken yet.
            (0, _) if matches!(self.item, Some(Item::Special(..))) => position(sequence, self.word_at, 0),
            (0, _) => position(sequence, self.word_at + self.word_len, 0),
            (left, had) => position(sequence, self.word_at, had - left),
        }
    }

    /// The approximate time, by `CLOCK_MONOTONIC`, at which the last item was written: interpolated between
    /// the clocks at the chunk's beginning and end, by how much of it was read.
    pub(super) fn time(&self) -> u64 {
        let Some(chunk) = self.chunk else { return 0 };
        let span = chunk.closed.saturating_sub(chunk.clock);
        // Less than 584 years in all: what is read of a chunk has less than 2^20 words, or it is no whole
        // one.
        let part = span.saturating_mul(self.word_at.min(chunk.words)) / chunk.words.max(1);
        chunk.clock.saturating_add(part)
    }

    /// The number of libraries that had been loaded at this place of the stream
    /// ([`pcce_abi::trace::Chunk::loads`]).
    pub(super) fn loads(&self) -> u64 {
        self.loads
    }

    /// The numbers of bits, and of other words, that were read so far.
    pub(super) fn read(&self) -> (u64, u64) {
        (self.taken - u64::from(self.left), self.specials)
    }

    /// The next item. To be called only where no bits are left. The item stays until it is taken.
    #[inline]
    pub(super) fn peek(&mut self) -> Item {
        match self.item {
            Some(item) => item,
            None => self.load(),
        }
    }

    /// Drops the bits that are left: they mean nothing.
    pub(super) fn drop_bits(&mut self) {
        self.left = 0;
    }

    /// Removes the item that [`Self::peek`] has returned.
    pub(super) fn take(&mut self) {
        self.item = None;
    }

    /// Reads nothing else of the chunk.
    pub(super) fn skip_chunk(&mut self) {
        self.left = 0;
        self.item = None;
        self.last = None;
        self.sure = 0;
        self.block.clear();
        self.at = 0;
        self.block_at = SKIPPED;
    }

    fn load(&mut self) -> Item {
        debug_assert_eq!(self.left, 0);
        let item = self.next_item();
        if item != Item::Bits {
            self.item = Some(item);
        }
        item
    }

    fn next_item(&mut self) -> Item {
        loop {
            // A word without bits is skipped.
            match self.next_word() {
                Item::Bits if self.left == 0 => {}
                item => return item,
            }
        }
    }

    fn next_word(&mut self) -> Item {
        let start = self.word_index();
        if self.block_at != SKIPPED && self.here(start, 0).is_some_and(|here| here >= self.limit) {
            self.at_limit = true;
            return Item::End(false);
        }
        let Some(word) = self.word() else {
            return match self.last.take().filter(|(words, _)| *words == start) {
                Some((_, pending)) => {
                    self.has_stopped = true;
                    (self.word_at, self.word_len) = (start, 1);
                    self.fill(pending)
                }
                None => self.next_chunk(),
            };
        };
        (self.word_at, self.word_len) = (start, 1);
        if word >= FULL {
            return self.fill(word);
        }
        let kind = (word >> KIND_SHIFT) as u8;
        let payload = word & ((1 << KIND_SHIFT) - 1);
        let (special, count) = match kind {
            1 => (Special::Short, 1),
            2 => (Special::Entered, 0),
            3 => (Special::Landed, 1),
            4 => (Special::Again, 2),
            5 => (Special::Handler, 2),
            6 => (Special::HandlerEnd, 0),
            7 => (Special::Mark, 1),
            8 => (Special::Gap, 0),
            // If the state is unknown, the context was read already. Otherwise it says nothing new.
            9 if payload & !AWAY <= TOKEN_LEN as u64 => {
                return self.skip_words(CONTEXT_WORDS as u64 + (payload & !AWAY).div_ceil(8));
            }
            16 if payload <= MAX_STACK as u64 => return self.skip_words(1 + 2 * payload),
            10 => {
                self.loads = payload;
                return self.skip_words(0);
            }
            11 => (Special::Kept, 0),
            12 => (Special::Jumped, 0),
            13 => (Special::Left, 2),
            14 => (Special::Back, 2),
            15 => (Special::Flushed, 0),
            _ => return self.damaged(),
        };
        let mut words = [0; 2];
        for after in &mut words[..count] {
            // These words were written before the special word: they are there, zero or not, if the file is not
            // cut.
            match self.any_word() {
                Some(word) => *after = word,
                None if self.is_cut() => return self.next_chunk(),
                None => return self.damaged(),
            }
            self.word_len += 1;
        }
        if special == Special::Short {
            return if words[0] == 0 { self.damaged() } else { self.fill(words[0]) };
        }
        (self.bits, self.left, self.had) = (0, 0, 0);
        self.specials += self.word_len;
        Item::Special(special, payload, words)
    }

    /// Takes the bits of a word: those below its leading one.
    fn fill(&mut self, word: u64) -> Item {
        let bits = 63 - word.leading_zeros();
        let cut = self.here(self.word_at, bits).is_some_and(|end| end > self.limit);
        // Only a part of the word was pending where reading stops.
        self.had = if cut { bits.min((self.limit & 0xff) as u32) } else { bits };
        self.left = self.had;
        self.taken += u64::from(self.had);
        self.bits = if self.had == 0 { 0 } else { word << (64 - bits) };
        Item::Bits
    }

    fn here(&self, words: u64, bits: u32) -> Option<u64> {
        self.chunk.map(|chunk| position(chunk.sequence, words, bits))
    }

    fn skip_words(&mut self, words: u64) -> Item {
        for _ in 0..words {
            if self.any_word().is_none() {
                return if self.is_cut() { self.next_chunk() } else { self.damaged() };
            }
            self.word_len += 1;
        }
        (self.bits, self.left, self.had) = (0, 0, 0);
        Item::Bits
    }

    /// At the end: returns whether the file is known to lack a part of the stream. For a thread that was killed,
    /// that is not known.
    pub(super) fn lacks_more(&self) -> bool {
        self.is_cut() || self.chunk.is_some_and(|chunk| chunk.end == CONTINUED)
    }

    /// At the end: returns whether the process has written down how far the thread had come.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// Returns whether the file ends in the chunk.
    fn is_cut(&self) -> bool {
        self.chunk.is_some_and(|chunk| chunk.there < chunk.room)
    }

    fn damaged(&mut self) -> Item {
        self.skip_chunk();
        Item::Damaged
    }

    /// The index in the chunk of the next word.
    fn word_index(&self) -> u64 {
        self.block_at.saturating_add(self.at as u64)
    }

    /// The next word of the chunk, if one is written there.
    #[inline]
    fn word(&mut self) -> Option<u64> {
        let sure = self.word_index() < self.sure;
        let word = self.any_word()?;
        if !sure {
            if word == 0 {
                self.at -= 1;
                return None;
            }
            self.more = true;
        }
        Some(word)
    }

    /// The content of the chunk's next word, written or not.
    #[inline]
    fn any_word(&mut self) -> Option<u64> {
        if self.at == self.block.len() && !self.read_block() {
            return None;
        }
        self.at += 1;
        Some(self.block[self.at - 1])
    }

    fn read_block(&mut self) -> bool {
        let Some(chunk) = self.chunk else { return false };
        let index = self.word_index();
        let end = if chunk.end == CONTINUED { self.sure } else { chunk.there };
        let Some(most) = end.checked_sub(index).filter(|most| *most > 0) else { return false };
        let most = most.min(BLOCK as u64) as usize;
        if let Err(error) = self.file.words(chunk.words_at + 8 * index, &mut self.block, most) {
            self.error = Some(error);
            self.block.clear();
        }
        self.block_at = index;
        self.at = 0;
        !self.block.is_empty()
    }

    fn next_chunk(&mut self) -> Item {
        if self.error.is_some() {
            return Item::End(false);
        }
        if !std::mem::replace(&mut self.reported, true)
            && let Some(chunk) = self.chunk
        {
            return Item::ChunkEnd(chunk);
        }
        let Some(&chunk) = self.chunks.get(self.next) else {
            let ended = |chunk: ChunkAt| chunk.end == ENDED && chunk.words <= chunk.there;
            return Item::End(!self.more && self.chunk.is_some_and(ended));
        };
        if position(chunk.sequence, 0, 0) > self.limit {
            // The place where reading stops is in a chunk that is missing.
            return Item::End(false);
        }
        self.next += 1;
        match self.is_sound(&chunk) {
            Ok(true) => {}
            Ok(false) => return Item::BadChunk,
            Err(error) => {
                self.error = Some(error);
                return Item::End(false);
            }
        }
        // The stream's first chunk follows nothing. After a chunk that was not filled, words may be missing.
        let follows = match self.chunk {
            None => chunk.sequence == 0,
            Some(before) => {
                let filled = before.end == CONTINUED || self.word_index() >= before.room;
                filled && before.sequence.checked_add(1) == Some(chunk.sequence)
            }
        };
        self.chunk = Some(chunk);
        self.loads = chunk.loads;
        self.last = chunk.last;
        self.sure = if chunk.end == OPEN { 0 } else { chunk.words.min(chunk.there) };
        self.block.clear();
        (self.block_at, self.at, self.reported, self.more) = (0, 0, false, false);
        (self.word_at, self.word_len, self.had) = (0, 0, 0);
        Item::Begin(chunk, follows)
    }

    /// Checks the words of a chunk against its checksum, as far as it has one.
    fn is_sound(&self, chunk: &ChunkAt) -> io::Result<bool> {
        let cut = chunk.there < chunk.words && chunk.words <= chunk.room;
        if chunk.end == OPEN || cut {
            return Ok(true);
        }
        if chunk.words > chunk.room {
            return Ok(false);
        }
        let mut sum = chunk.ended;
        let mut words = Vec::new();
        let mut at = 0;
        while at < chunk.words {
            let most = (chunk.words - at).min(BLOCK as u64) as usize;
            self.file.words(chunk.words_at + 8 * at, &mut words, most)?;
            if words.is_empty() {
                return Ok(false);
            }
            sum = checksum_on(sum, &words);
            at += words.len() as u64;
        }
        Ok(sum == chunk.checksum)
    }
}
