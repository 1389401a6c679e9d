//! Interning: a map from a key of three words to a dense number and a value, which only grows.
//!
//! Nodes lie in blocks of doubling size, in the order in which they came. They never move, and never change once they
//! are linked in, which is one compare-and-swap of a slot of a hash table with open addressing. So readers and writers
//! of all threads, signal handlers and forked children included, need no lock.
//!
//! A table that is filling up gets a successor of double size. A thread that needs the successor goes through all slots
//! of the old table first: it links their nodes into the new table as well, and closes empty slots for ever. Several
//! threads may do so at once, and a signal handler does not wait for the one that it has interrupted. So nothing is
//! added to a table as long as anything can be added to the table before it, and no key gets two numbers.
//!
//! Memory comes from `mmap` and is never given back: a number stays valid as long as the process, and a table as long
//! as it may still be read.

mod index;
#[cfg(test)]
mod tests;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use self::index::{Index, hash};
use crate::abi::chains::{BLOCKS, FIRST_BLOCK, NODE};
use crate::sys;

/// A key, whose meaning is the caller's business.
pub type Key = [u64; 3];

/// The entry of a key. It begins with the key.
#[repr(C)]
struct Node<V> {
    key: Key,
    /// 0 until the rest is written.
    number: AtomicU64,
    value: V,
}

impl<V> Node<V> {
    /// The number of a node that was found.
    #[inline(always)]
    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

const _: () = assert!(size_of::<Node<()>>() == NODE * size_of::<u64>());

/// The source of numbers, and a function that records them, for a map whose numbers are known outside of the process.
pub struct Numbering {
    /// A number that was never given before. None if there is none.
    pub next: fn() -> Option<u64>,
    /// Called for each new node before its number is known elsewhere; the number is not given if this returns false.
    /// From now on [`Interner::nodes`] has the node.
    pub written: fn(&Key, u64) -> bool,
}

/// A growing map from keys to numbers (from 1 on) and values.
#[repr(C)]
pub struct Interner<V> {
    // Readers of core files look for nodes here.
    blocks: [AtomicPtr<Node<V>>; BLOCKS],
    used: AtomicU64,
    index: Index,
    numbering: Option<Numbering>,
}

// SAFETY: all shared state is atomic, and nodes are immutable once they are linked in.
unsafe impl<V: Sync> Sync for Interner<V> {}

impl<V> Interner<V> {
    /// An empty map that counts its keys.
    pub const fn new() -> Self {
        Self {
            blocks: [const { AtomicPtr::new(null_mut()) }; BLOCKS],
            used: AtomicU64::new(0),
            index: Index::new(),
            numbering: None,
        }
    }

    /// An empty map that gets its numbers from elsewhere.
    pub const fn numbered(numbering: Numbering) -> Self {
        Self { numbering: Some(numbering), ..Self::new() }
    }

    /// The number and value of `key`, if it is there.
    #[inline(always)]
    pub fn find(&self, key: &Key) -> Option<(u64, V)>
    where
        V: Copy,
    {
        // SAFETY: linked nodes are initialised, immutable and never freed.
        let node = |at: *const Key| unsafe { &*at.cast::<Node<V>>() };
        let hash = hash(key);
        let found = self.index.first(key, hash).or_else(|| self.index.find(key, hash));
        found.map(node).map(|node| (node.number(), node.value))
    }

    /// The number of `key`, which gets `value` and a new number if it is not there yet.
    /// None if there is no memory.
    #[inline(never)]
    pub fn insert(&self, key: &Key, value: V) -> Option<u64> {
        self.node(key, || value).map(Node::number)
    }

    /// The value of `key`. A key that is not there yet gets the value that `make` returns.
    /// None if there is no memory.
    #[inline]
    pub fn value(&self, key: &Key, make: impl FnOnce() -> V) -> Option<&V> {
        self.node(key, make).map(|node| &node.value)
    }

    /// The values of all keys, in the order in which they came. They may include one that a thread is about to link in,
    /// and one that lost a race for its key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.all().map(|node| &node.value)
    }

    /// Returns whether a value of the map is at an address.
    pub fn holds(&self, value: *const V) -> bool {
        let node = (value as usize).wrapping_sub(core::mem::offset_of!(Node<V>, value));
        let used = self.used.load(Ordering::Acquire);
        (0..).zip(&self.blocks).any(|(block, base)| {
            let base = base.load(Ordering::Acquire) as usize;
            let start = FIRST_BLOCK * ((1 << block) - 1);
            let size = used.saturating_sub(start).min(FIRST_BLOCK << block) as usize * size_of::<Node<V>>();
            let distance = node.wrapping_sub(base);
            base != 0 && distance < size && distance.is_multiple_of(size_of::<Node<V>>())
        })
    }

    /// All keys with their numbers, as [`values`](Self::values).
    pub fn nodes(&self) -> impl Iterator<Item = (&Key, u64)> {
        self.all().map(|node| (&node.key, node.number()))
    }

    fn all(&self) -> impl Iterator<Item = &Node<V>> {
        (0..self.used.load(Ordering::Acquire)).filter_map(|index| {
            let (block, start) = Self::place(index);
            let base = self.blocks.get(block)?.load(Ordering::Acquire);
            // SAFETY: index - start is less than the block's length; a node that is not yet written is all zero, which
            // its number shows.
            let node = unsafe { base.as_ref().map(|_| base.add((index - start) as usize)) }?;
            // SAFETY: in the block. The number is written last, so a thread that sees it sees the rest.
            unsafe { ((*node).number.load(Ordering::Acquire) != 0).then(|| &*node) }
        })
    }

    #[inline(always)]
    fn node(&self, key: &Key, make: impl FnOnce() -> V) -> Option<&Node<V>> {
        let hash = hash(key);
        match self.index.first(key, hash) {
            // SAFETY: as in find().
            Some(node) => Some(unsafe { &*node.cast() }),
            None => self.further(key, hash, make),
        }
    }

    #[inline(never)]
    fn further(&self, key: &Key, hash: u64, make: impl FnOnce() -> V) -> Option<&Node<V>> {
        let node = self.index.find(key, hash).or_else(|| {
            let mut make = Some(make);
            self.index.add(key, hash, &mut || self.write(key, make.take()?()))
        })?;
        // SAFETY: as in find().
        Some(unsafe { &*node.cast() })
    }

    /// Writes a new node. Returns it, and the number of nodes with it.
    fn write(&self, key: &Key, value: V) -> Option<(*const Key, u64)> {
        let (place, count) = self.allocate()?;
        let number = match &self.numbering {
            None => count,
            Some(numbering) => (numbering.next)()?,
        };
        // SAFETY: the place is ours alone until it has a number, and is all zero.
        unsafe {
            (&raw mut (*place).key).write(*key);
            (&raw mut (*place).value).write(value);
            (*place).number.store(number, Ordering::Release);
        }
        if let Some(numbering) = &self.numbering {
            // Either a thread that begins to look at all nodes sees this one, or its earlier writes are seen here.
            fence(Ordering::SeqCst);
            if !(numbering.written)(key, number) {
                return None;
            }
        }
        Some((place.cast_const().cast(), count))
    }

    /// The block of an index, and the first index in it: block k starts at index FIRST_BLOCK * (2^k - 1).
    fn place(index: u64) -> (usize, u64) {
        let block = (index / FIRST_BLOCK + 1).ilog2() as usize;
        (block, FIRST_BLOCK * ((1u64 << block) - 1))
    }

    fn allocate(&self) -> Option<(*mut Node<V>, u64)> {
        let index = self.used.fetch_add(1, Ordering::Relaxed);
        let (block, start) = Self::place(index);
        let head = self.blocks.get(block)?;
        let mut base = head.load(Ordering::Acquire);
        if base.is_null() {
            let bytes = (FIRST_BLOCK << block) as usize * size_of::<Node<V>>();
            let mapped = sys::map(bytes, libc::MAP_NORESERVE).cast::<Node<V>>();
            if mapped.is_null() {
                return None;
            }
            match head.compare_exchange(null_mut(), mapped, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => base = mapped,
                Err(theirs) => {
                    // SAFETY: the mapping made above, which no other thread has seen.
                    unsafe { sys::unmap(mapped.cast(), bytes) };
                    base = theirs;
                }
            }
        }
        // SAFETY: index - start is less than the block's length.
        Some((unsafe { base.add((index - start) as usize) }, index + 1))
    }
}
