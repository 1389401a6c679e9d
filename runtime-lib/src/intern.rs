//! Interning: a map from a key of three words to a dense number and a value, which only grows.
//!
//! Nodes lie in blocks of doubling size, in the order of their numbers. They never move, and never change once they are
//! linked in, which is one compare-and-swap of a slot of a hash table with open addressing. So readers and writers of all
//! threads, signal handlers and forked children included, need no lock.
//!
//! A table that is filling up gets a successor of twice the size. Who needs that goes through all slots of the old one first:
//! what is there he links into the new one as well, and what is empty he closes for ever. Several threads may do so at
//! once, and a signal handler does not wait for the one that it has interrupted. So nothing is added to a table as long as
//! anything can be added to the one before, and no key gets two numbers.
//!
//! Memory comes from `mmap` and is never given back: a number stays valid as long as the process, and a table for who is
//! still reading it.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering, compiler_fence};

use crate::sys;

/// A key: what it means is the caller's business.
pub type Key = [u64; 3];

/// Nodes in the first block; block `k` holds this many times 2ᵏ.
const FIRST_BLOCK: u64 = 1024;
const BLOCKS: usize = 32;

/// Slots of the first table, as a power of two: it takes a page.
const FIRST_TABLE: u32 = 9;
const TABLES: usize = 32;

/// A slot of a table that is not empty holds the address of a node, and above it some bits of its hash, which are never 0.
const ADDRESS: u64 = (1 << 48) - 1;
/// In a slot that was empty when the table got a successor.
const CLOSED: u64 = 1;

/// A table: its address, which is that of a page, and the number of its slots as a power of two. 0: there is none.
#[derive(Clone, Copy)]
struct Table(u64);

impl Table {
    fn bits(self) -> u32 {
        self.0 as u32 & 63
    }

    fn slots(self) -> u64 {
        1 << self.bits()
    }

    /// Where the slots for a hash begin.
    #[inline(always)]
    fn start(self, hash: u64) -> u64 {
        hash >> (64 - self.bits())
    }

    /// The slot with this number; the first one comes again behind the last.
    fn slot(self, number: u64) -> &'static AtomicU64 {
        // SAFETY: a table has so many slots.
        unsafe { self.slot_in(number & (self.slots() - 1)) }
    }

    /// The slot with this number.
    ///
    /// # Safety
    /// The number is smaller than that of all slots.
    #[inline(always)]
    unsafe fn slot_in(self, number: u64) -> &'static AtomicU64 {
        // SAFETY: by the contract; a table is never freed.
        unsafe { &*((self.0 & !63) as *const AtomicU64).add(number as usize) }
    }
}

/// Every bit depends on every bit of the key, of which the first two words are numbers and addresses that are far from random.
#[inline(always)]
fn hash(key: &Key) -> u64 {
    let outer = key[0] ^ key[1].wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let product = u128::from(outer ^ 0xff51_afd7_ed55_8ccd) * u128::from(key[2] ^ 0xc4ce_b9fe_1a85_ec53);
    product as u64 ^ (product >> 64) as u64
}

/// The bits of a hash that stand above an address.
#[inline(always)]
fn tag(hash: u64) -> u64 {
    (hash | 1) << 48
}

/// If `slot` holds the address of a node with this key: that.
#[inline(always)]
fn linked(slot: u64, key: &Key, hash: u64) -> Option<*const Key> {
    let node = slot ^ tag(hash);
    if node > ADDRESS {
        return None;
    }
    let node = node as *const Key;
    // SAFETY: linked nodes begin with a key, are immutable and never freed; what is no node has no tag.
    let there = unsafe { &*node };
    // Not as one comparison of memory, which would take longer.
    (there[0] == key[0] && there[1] == key[1] && there[2] == key[2]).then_some(node)
}

/// The hash tables, which lead from a key to the node that begins with it.
struct Index {
    /// The table that keys are looked for in.
    current: AtomicU64,
    /// All tables, the smallest one first.
    tables: [AtomicU64; TABLES],
}

impl Index {
    const fn new() -> Self {
        Self { current: AtomicU64::new(0), tables: [const { AtomicU64::new(0) }; TABLES] }
    }

    fn current(&self) -> Table {
        Table(self.current.load(Ordering::Acquire))
    }

    /// The node of `key`, if it is where its slots begin, as most are.
    #[inline(always)]
    fn first(&self, key: &Key, hash: u64) -> Option<*const Key> {
        let table = self.current();
        if table.0 == 0 {
            return None;
        }
        // SAFETY: where slots begin is one of them.
        let slot = unsafe { table.slot_in(table.start(hash)) };
        linked(slot.load(Ordering::Acquire), key, hash)
    }

    /// The node of `key`, if it is there.
    #[inline(never)]
    fn find(&self, key: &Key, hash: u64) -> Option<*const Key> {
        let table = self.current();
        if table.0 == 0 {
            return None;
        }
        let mut number = table.start(hash);
        loop {
            let found = table.slot(number).load(Ordering::Acquire);
            if let Some(node) = linked(found, key, hash) {
                return Some(node);
            }
            // There is always such a slot.
            if found <= CLOSED {
                return None;
            }
            number += 1;
        }
    }

    /// The node of `key`, which was not found. If it is not there, that and its number are what `make` makes, which is called once.
    /// None if there is no memory.
    #[cold]
    #[inline(never)]
    fn add(
        &self,
        key: &Key,
        hash: u64,
        make: &mut dyn FnMut() -> Option<(*const Key, u64)>,
    ) -> Option<*const Key> {
        let mut fresh = None;
        loop {
            let table = self.current();
            if table.0 == 0 {
                let first = self.table(0)?;
                let _ = self.current.compare_exchange(0, first.0, Ordering::AcqRel, Ordering::Acquire);
                continue;
            }
            let mut slot = table.start(hash);
            loop {
                let mut found = table.slot(slot).load(Ordering::Acquire);
                if found == 0 {
                    let (node, number) = match fresh {
                        Some(fresh) => fresh,
                        None => *fresh.insert(make()?),
                    };
                    // All nodes with smaller numbers may be in the table.
                    if number > table.slots() / 4 * 3 {
                        if self.successor(table).is_some() {
                            break;
                        }
                        // One slot stays empty, where looking for a key ends.
                        if number >= table.slots() {
                            return None;
                        }
                    }
                    let new = node as u64 | tag(hash);
                    match table.slot(slot).compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => return Some(node),
                        Err(theirs) => found = theirs,
                    }
                }
                if let Some(node) = linked(found, key, hash) {
                    return Some(node);
                }
                if found == CLOSED {
                    break;
                }
                slot += 1;
            }
            self.leave(table, self.successor(table)?);
        }
    }

    /// Puts all that is in `from` into `to`, which comes next, and makes that the current one.
    fn leave(&self, from: Table, to: Table) {
        for slot in 0..from.slots() {
            if self.current().0 != from.0 {
                return;
            }
            let found = match from.slot(slot).compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) | Err(CLOSED) => continue,
                Err(found) => found,
            };
            // SAFETY: as in linked().
            let hash = hash(unsafe { &*((found & ADDRESS) as *const Key) });
            let mut slot = to.start(hash);
            // Where another thread has linked it in, nothing in front of it is empty, now or then.
            while let Err(there) =
                to.slot(slot).compare_exchange(0, found, Ordering::AcqRel, Ordering::Acquire)
                && there != found
            {
                slot += 1;
            }
        }
        let _ = self.current.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire);
    }

    fn successor(&self, table: Table) -> Option<Table> {
        self.table((table.bits() - FIRST_TABLE) as usize + 1)
    }

    /// The table with this index, which is made if it is not there. None if there is no memory.
    fn table(&self, index: usize) -> Option<Table> {
        let place = self.tables.get(index)?;
        let there = place.load(Ordering::Acquire);
        if there != 0 {
            return Some(Table(there));
        }
        let bits = FIRST_TABLE + index as u32;
        let bytes = size_of::<AtomicU64>() << bits;
        let mapped = sys::map(bytes, libc::MAP_NORESERVE);
        if mapped.is_null() {
            return None;
        }
        let new = mapped as u64 | u64::from(bits);
        match place.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(Table(new)),
            Err(theirs) => {
                // SAFETY: the mapping made above, which nobody else has seen.
                unsafe { sys::unmap(mapped, bytes) };
                Some(Table(theirs))
            }
        }
    }
}

/// What belongs to a key. Begins with it.
#[repr(C)]
struct Node<V> {
    key: Key,
    number: u64,
    value: V,
}

/// A growing map from keys to numbers (from 1 on) and values.
pub struct Interner<V> {
    index: Index,
    blocks: [AtomicPtr<Node<V>>; BLOCKS],
    used: AtomicU64,
}

// SAFETY: all shared state is atomic, and nodes are immutable once they are linked in.
unsafe impl<V: Sync> Sync for Interner<V> {}

impl<V> Interner<V> {
    /// An empty map.
    pub const fn new() -> Self {
        Self {
            index: Index::new(),
            blocks: [const { AtomicPtr::new(null_mut()) }; BLOCKS],
            used: AtomicU64::new(0),
        }
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
        found.map(node).map(|node| (node.number, node.value))
    }

    /// The number of `key`, which gets `value` and a new number if it is not there yet.
    /// None if there is no memory.
    #[inline(never)]
    pub fn insert(&self, key: &Key, value: V) -> Option<u64> {
        self.node(key, || value).map(|node| node.number)
    }

    /// The value of `key`, which gets the one that `make` makes if it is not there yet.
    /// None if there is no memory.
    #[inline]
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

    /// A new node and its number.
    fn write(&self, key: &Key, value: V) -> Option<(*const Key, u64)> {
        let (place, number) = self.allocate()?;
        // SAFETY: the place is ours alone until it is linked in.
        unsafe {
            place.write(Node { key: *key, number: 0, value });
            compiler_fence(Ordering::Release);
            (&raw mut (*place).number).write_volatile(number);
        }
        Some((place.cast_const().cast(), number))
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
    fn keys_with_one_hash_are_told_apart() {
        static MAP: Interner<()> = Interner::new();
        let same = |site: u64| [site.wrapping_mul(0x9e37_79b9_7f4a_7c15), site, 7];
        assert_eq!(hash(&same(1)), hash(&same(2)), "or this test tests nothing");
        let numbers: Vec<u64> = (0..1000).map(|i| MAP.insert(&same(i), ()).unwrap()).collect();
        assert_eq!(numbers, (1..=1000).collect::<Vec<_>>());
        assert!((0..1000).all(|i| MAP.find(&same(i)) == Some((numbers[i as usize], ()))));
    }

    /// Slots that are looked at for each of some keys, on average.
    fn probes(keys: &[Key]) -> f64 {
        let map: Interner<()> = Interner::new();
        keys.iter().for_each(|key| assert!(map.insert(key, ()).is_some()));
        let table = map.index.current();
        let length = |key: &Key| {
            let start = table.start(hash(key));
            let slots = (start..).map(|slot| table.slot(slot).load(Ordering::Relaxed));
            slots.take_while(|&found| linked(found, key, hash(key)).is_none()).count() + 1
        };
        keys.iter().map(length).sum::<usize>() as f64 / keys.len() as f64
    }

    #[test]
    fn keys_as_chains_have_them_are_found_soon() {
        // A fill of three quarters, with random hashes, would make 2.5 of it.
        let few = |keys: Vec<Key>| assert!(probes(&keys) < 3.0, "{}", probes(&keys));
        let site = |i: u64| 0x40_0000 + i;
        few((0..98_000).map(|i| [i, site(0), 0]).collect());
        few((0..98_000).map(|i| [1, site(i), 0]).collect());
        few((0..98_000).map(|i| [1, site(0), i]).collect());
        few((0..98_000).map(|i| [i, site(i), i]).collect());
        few((0..98_000).map(|i| [i / 310, site(i % 310), 5]).collect());
        few((0..98_000).map(|i| [i / 310, site(0), (i % 310) << 40]).collect());
        few((0..98_000).map(|i| [i % 46, site(i / 46 % 46), (i / 2116).wrapping_neg()]).collect());
    }

    fn all_differ(mut numbers: Vec<u64>) -> bool {
        numbers.sort_unstable();
        numbers.windows(2).all(|two| two[0] != two[1])
    }

    #[test]
    fn threads_agree_on_numbers_while_tables_grow() {
        // From new on each time: the first tables are left soonest.
        for keys in [10, 1000, 1000, 1000, 20_000, 20_000, 60_000_u64] {
            let map: Interner<u64> = Interner::new();
            let key = |i: u64| [i, i * 3, 1];
            let run = |order: u64| {
                let turned = |i: u64| (i + keys / 4 * order) % keys;
                let nth = |i: u64| if order.is_multiple_of(2) { turned(i) } else { keys - 1 - turned(i) };
                let mut numbers = std::vec![0; keys as usize];
                for i in (0..keys).map(nth) {
                    numbers[i as usize] = map.insert(&key(i), i).unwrap();
                    assert_eq!(map.find(&key(i)), Some((numbers[i as usize], i)));
                }
                numbers
            };
            let lists: Vec<Vec<u64>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|order| scope.spawn(move || run(order))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(lists.iter().all(|list| *list == lists[0]));
            assert!(all_differ(lists[0].clone()));
            let values: std::collections::BTreeSet<u64> = map.values().copied().collect();
            assert!(values.into_iter().eq(0..keys));
        }
    }

    #[test]
    fn a_signal_handler_agrees_with_what_it_interrupts() {
        const KEYS: u64 = 300_000;
        static MAP: Interner<()> = Interner::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static INTERRUPTED: AtomicU64 = AtomicU64::new(0);
        const fn key(i: u64) -> Key {
            [i, 5, i]
        }
        static FOUND: [AtomicU64; KEYS as usize] = [const { AtomicU64::new(0) }; KEYS as usize];
        fn insert(i: u64) {
            let number = MAP.insert(&key(i), ()).unwrap();
            let before = FOUND[i as usize].swap(number, Ordering::Relaxed);
            assert!(before == 0 || before == number, "{i}: {before} and {number}");
        }
        extern "C" fn handler(_: libc::c_int) {
            // What the thread is inserting, and what it will.
            let next = NEXT.load(Ordering::Relaxed);
            (next..(next + 500).min(KEYS)).for_each(insert);
            INTERRUPTED.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: a handler that allocates nothing, and signals to this thread only, while it runs.
        let thread = unsafe {
            libc::signal(libc::SIGUSR2, handler as extern "C" fn(libc::c_int) as usize);
            libc::pthread_self()
        };
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: the thread waits for this one.
                    unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
                    std::thread::sleep(std::time::Duration::from_micros(20));
                }
            });
            for i in 0..KEYS {
                NEXT.store(i, Ordering::Relaxed);
                insert(i);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(INTERRUPTED.load(Ordering::Relaxed) > 0);
        assert!(all_differ(FOUND.iter().map(|n| n.load(Ordering::Relaxed)).collect()));
        (0..KEYS).for_each(insert);
    }
}
