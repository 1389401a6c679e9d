//! What was allocated, by context.
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::__libc_single_threaded;
use crate::context;
use crate::intern::Interner;
use crate::profile::Arena;
use crate::state::tls;
use crate::token::__pcce_token;

static TOKENS: Arena = Arena::new();
/// The contexts, by [`context::outside`].
pub(super) static CONTEXTS: Interner<Record> = Interner::new();
/// For blocks whose context could not be numbered, since there was no memory, and for those whose context is not known.
pub(super) static UNKNOWN: Record = Record::new();

/// Bytes that are allocated, and the most that ever were.
static LIVE: AtomicU64 = AtomicU64::new(0);
pub(super) static PEAK: AtomicU64 = AtomicU64::new(0);
/// Counts the peaks: how often [`PEAK`] grew.
static PEAKS: AtomicU64 = AtomicU64::new(0);

/// A token that is longer is cut: its outermost frames are left out.
const MAX_TOKEN: usize = 16 << 10;

/// What was allocated in one context.
pub(super) struct Record {
    pub(super) token: AtomicPtr<u8>,
    pub(super) allocations: AtomicU64,
    pub(super) allocated: AtomicU64,
    pub(super) frees: AtomicU64,
    pub(super) freed: AtomicU64,
    /// The most bytes of this context that were allocated at one time.
    pub(super) own_peak: AtomicU64,
    /// [`PEAKS`] when `peak_blocks` and `peak_bytes` were written.
    peak: AtomicU64,
    /// What was allocated in this context at the peak with the number `peak`. If that is not the last one,
    /// nothing has changed since the last one.
    peak_blocks: AtomicU64,
    /// See `peak_blocks`.
    peak_bytes: AtomicU64,
}

/// Whether no other thread can interfere.
#[inline(always)]
fn single() -> bool {
    // SAFETY: glibc writes it before there is a second thread.
    unsafe { (&raw const __libc_single_threaded).read_volatile() != 0 }
}

/// Adds, and returns the sum. In a process of one thread without the cost of an atomic addition.
#[inline(always)]
fn add(to: &AtomicU64, value: u64) -> u64 {
    if single() {
        let sum = to.load(Ordering::Relaxed).wrapping_add(value);
        to.store(sum, Ordering::Relaxed);
        sum
    } else {
        to.fetch_add(value, Ordering::Relaxed).wrapping_add(value)
    }
}

#[inline(always)]
fn raise(to: &AtomicU64, value: u64) -> bool {
    let old = to.load(Ordering::Relaxed);
    if value <= old {
        return false;
    }
    if single() {
        to.store(value, Ordering::Relaxed);
        true
    } else {
        to.fetch_max(value, Ordering::Relaxed) < value
    }
}

/// Changes [`LIVE`]. The records have been changed already.
#[inline(always)]
pub(super) fn change_live(added: u64, removed: u64) {
    let live = add(&LIVE, added.wrapping_sub(removed));
    if added > removed && raise(&PEAK, live) {
        add(&PEAKS, 1);
    }
}

impl Record {
    const fn new() -> Self {
        Self {
            token: AtomicPtr::new(null_mut()),
            allocations: AtomicU64::new(0),
            allocated: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            own_peak: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            peak_blocks: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
        }
    }

    /// Blocks and bytes that are allocated now.
    fn live(&self) -> (u64, u64) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            get(&self.allocations).wrapping_sub(get(&self.frees)),
            get(&self.allocated).wrapping_sub(get(&self.freed)),
        )
    }

    /// Blocks and bytes that were allocated at the last peak.
    pub(super) fn at_peak(&self) -> (u64, u64) {
        if self.peak.load(Ordering::Relaxed) == PEAKS.load(Ordering::Relaxed) {
            (self.peak_blocks.load(Ordering::Relaxed), self.peak_bytes.load(Ordering::Relaxed))
        } else {
            self.live()
        }
    }

    /// Before anything is changed: keeps what was allocated at the last peak. With several threads, what they do at
    /// that very moment may be in it or not.
    #[inline(always)]
    fn keep_peak(&self) {
        let peaks = PEAKS.load(Ordering::Relaxed);
        if self.peak.load(Ordering::Relaxed) != peaks {
            let (blocks, bytes) = self.live();
            self.peak_blocks.store(blocks, Ordering::Relaxed);
            self.peak_bytes.store(bytes, Ordering::Relaxed);
            self.peak.store(peaks, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn add_block(&self, size: usize) {
        self.keep_peak();
        add(&self.allocations, 1);
        let allocated = add(&self.allocated, size as u64);
        // Signed: another thread may have freed what it found allocated since.
        let live = allocated.wrapping_sub(self.freed.load(Ordering::Relaxed));
        if live as i64 > 0 {
            raise(&self.own_peak, live);
        }
    }

    #[inline(always)]
    pub(super) fn remove_block(&self, size: usize) {
        self.keep_peak();
        add(&self.frees, 1);
        add(&self.freed, size as u64);
    }
}

/// The record of the context in which the program is.
#[inline(always)]
pub(super) fn record() -> &'static Record {
    let Some(key) = context::outside() else { return &UNKNOWN };
    // The innermost activation of instrumented code made a call that was not published, and pushed nothing.
    if key[1] == 0 && key[2] != 0 {
        return &UNKNOWN;
    }
    let Some(record) = CONTEXTS.value(&key, Record::new) else { return &UNKNOWN };
    if record.token.load(Ordering::Relaxed).is_null() {
        name(record);
    }
    record
}

/// Writes the token of the context, which is that of the record.
#[cold]
#[inline(never)]
fn name(record: &Record) {
    let mut buffer = [0; 512];
    // SAFETY: this thread's block; the buffers have their sizes. Two threads write two tokens, and one of them is lost.
    unsafe {
        let site = (*tls()).call;
        let len = __pcce_token(buffer.as_mut_ptr(), buffer.len(), site);
        let size = (len + 1).min(MAX_TOKEN);
        let text = TOKENS.take(size);
        if text.is_null() {
            return;
        }
        if len < buffer.len() {
            text.copy_from_nonoverlapping(buffer.as_ptr().cast(), size);
        } else {
            __pcce_token(text.cast(), size, site);
        }
        let _ = record.token.compare_exchange(null_mut(), text, Ordering::Release, Ordering::Relaxed);
    }
}
