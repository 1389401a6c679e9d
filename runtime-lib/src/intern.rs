//! Interning: a map from a key of three words to a dense number and a value, which only grows.
//!
//! A hash trie: a table of 4,096 roots, below each a 4-ary tree whose path is the rest of the
//! hash. Nodes never move and never change once they are linked in, and linking in is one
//! compare-and-swap, so readers and writers of all threads, signal handlers and forked children
//! included, need no lock. Memory comes from `mmap` in blocks of doubling size and is never
//! given back: a number stays valid as long as the process.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering, compiler_fence};

use crate::sys;

/// A key: what it means is the caller's business.
pub type Key = [u64; 3];

const ROOTS: usize = 4096;
/// Nodes in the first block; block `k` holds this many times 2ᵏ.
const FIRST_BLOCK: u64 = 1024;
const BLOCKS: usize = 32;

struct Node<V> {
    children: [AtomicPtr<Node<V>>; 4],
    key: Key,
    number: u64,
    value: V,
}

/// A growing map from keys to numbers (from 1 on) and values.
pub struct Interner<V> {
    roots: [AtomicPtr<Node<V>>; ROOTS],
    blocks: [AtomicPtr<Node<V>>; BLOCKS],
    used: AtomicU64,
}

// SAFETY: all shared state is atomic, and nodes are immutable once published.
unsafe impl<V: Sync> Sync for Interner<V> {}

fn hash(key: &Key) -> u64 {
    let mut h = 0x9e37_79b9_7f4a_7c15u64;
    for &word in key {
        h = (h ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        h ^= h >> 32;
    }
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 29)
}

impl<V> Interner<V> {
    /// An empty map.
    pub const fn new() -> Self {
        Self {
            roots: [const { AtomicPtr::new(null_mut()) }; ROOTS],
            blocks: [const { AtomicPtr::new(null_mut()) }; BLOCKS],
            used: AtomicU64::new(0),
        }
    }

    /// The number and value of `key`, if it is there.
    pub fn find(&self, key: &Key) -> Option<(u64, V)>
    where
        V: Copy,
    {
        let (slot, _) = self.seek(key);
        let node = slot.load(Ordering::Acquire);
        // SAFETY: published nodes are initialised, immutable and never freed.
        (!node.is_null()).then(|| unsafe { ((*node).number, (*node).value) })
    }

    /// The number of `key`, which gets `value` and a new number if it is not there yet.
    /// None if there is no memory.
    pub fn insert(&self, key: &Key, value: V) -> Option<u64> {
        self.node(key, || value).map(|node| node.number)
    }

    /// The value of `key`, which gets the one that `make` makes if it is not there yet.
    /// None if there is no memory.
    pub fn value(&self, key: &Key, make: impl FnOnce() -> V) -> Option<&V> {
        self.node(key, make).map(|node| &node.value)
    }

    /// The values of all keys, in the order of their numbers. One that a thread is about to link in may be
    /// among them, and one that lost a race for its key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        (0..self.used.load(Ordering::Acquire)).filter_map(|index| {
            let (block, start) = Self::place(index);
            let base = self.blocks.get(block)?.load(Ordering::Acquire);
            // SAFETY: index - start is less than the block's length; a node that is not yet written is all zero, which
            // its number shows.
            let node = unsafe { base.as_ref().map(|_| base.add((index - start) as usize)) }?;
            // SAFETY: in the block. The number is written last.
            unsafe { ((&raw const (*node).number).read_volatile() != 0).then(|| &(*node).value) }
        })
    }

    fn node(&self, key: &Key, make: impl FnOnce() -> V) -> Option<&Node<V>> {
        let mut make = Some(make);
        let (mut slot, mut rest) = self.seek(key);
        let mut fresh: *mut Node<V> = null_mut();
        loop {
            let seen = slot.load(Ordering::Acquire);
            if !seen.is_null() {
                // SAFETY: as in find().
                let node = unsafe { &*seen };
                if node.key == *key {
                    return Some(node);
                }
                // Another thread put its node here since the slot was found: go on below it.
                slot = &node.children[(rest & 3) as usize];
                rest = rest.rotate_right(2);
                continue;
            }
            if fresh.is_null() {
                let (place, number) = self.allocate()?;
                let value = make.take()?();
                // SAFETY: the place is ours alone until it is published below.
                unsafe {
                    place.write(Node {
                        children: [const { AtomicPtr::new(null_mut()) }; 4],
                        key: *key,
                        number: 0,
                        value,
                    });
                    compiler_fence(Ordering::Release);
                    (&raw mut (*place).number).write_volatile(number);
                }
                fresh = place;
            }
            if slot.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                // SAFETY: written above, and immutable from now on.
                return Some(unsafe { &*fresh });
            }
        }
    }

    /// The slot that holds `key`'s node, or the empty one where it belongs, and the rest of the
    /// hash below that slot.
    fn seek(&self, key: &Key) -> (&AtomicPtr<Node<V>>, u64) {
        let h = hash(key);
        let mut slot = &self.roots[(h % ROOTS as u64) as usize];
        // Rotated, never exhausted: equal hashes of different keys make a chain.
        let mut rest = h / ROOTS as u64;
        loop {
            let node = slot.load(Ordering::Acquire);
            if node.is_null() {
                return (slot, rest);
            }
            // SAFETY: as in find().
            let node = unsafe { &*node };
            if node.key == *key {
                return (slot, rest);
            }
            slot = &node.children[(rest & 3) as usize];
            rest = rest.rotate_right(2);
        }
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
                    // SAFETY: the mapping made above, which nobody else has seen.
                    unsafe { sys::unmap(mapped.cast(), bytes) };
                    base = theirs;
                }
            }
        }
        // SAFETY: index - start is less than the block's length.
        Some((unsafe { base.add((index - start) as usize) }, index + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn equal_keys_share_a_number_and_others_do_not() {
        static MAP: Interner<u64> = Interner::new();
        let mut seen = std::collections::HashMap::new();
        for i in 0..200_000u64 {
            let key = [i % 1000, i / 1000 % 7, i % 13];
            let number = MAP.insert(&key, i).unwrap();
            let first = *seen.entry(key).or_insert((number, i));
            assert_eq!(first.0, number);
            assert_eq!(MAP.find(&key), Some(first));
        }
        let mut numbers: Vec<u64> = seen.values().map(|v| v.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), seen.len());
        assert_eq!(MAP.find(&[1000, 0, 0]), None);
    }

    #[test]
    fn threads_agree_on_numbers() {
        static MAP: Interner<()> = Interner::new();
        let run = || (0..50_000u64).map(|i| MAP.insert(&[i, i * 3, 1], ()).unwrap()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(run)).collect();
        let lists: Vec<Vec<u64>> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(lists.iter().all(|l| *l == lists[0]));
        let mut numbers = lists[0].clone();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50_000);
    }
}
