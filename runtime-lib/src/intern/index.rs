//! The hash tables, which lead from a key to the node that begins with it.

use core::sync::atomic::{AtomicU64, Ordering};

use super::Key;
use crate::sys;

/// Slots of the first table, as a power of two: it takes a page.
const FIRST_TABLE: u32 = 9;
const TABLES: usize = 32;

/// A slot of a table that is not empty holds the address of a node, and above it some bits of its hash, which are never
/// 0.
const ADDRESS: u64 = (1 << 48) - 1;
/// The value of a slot that was empty when the table got a successor.
const CLOSED: u64 = 1;

/// A table: its address, which is that of a page, and the number of its slots as a power of two. 0: there is none.
#[derive(Clone, Copy)]
pub(super) struct Table(u64);

impl Table {
    fn bits(self) -> u32 {
        self.0 as u32 & 63
    }

    fn slots(self) -> u64 {
        1 << self.bits()
    }

    /// The first slot for a hash.
    #[inline(always)]
    pub(super) fn start(self, hash: u64) -> u64 {
        hash >> (64 - self.bits())
    }

    /// The slot with this number; after the last slot, numbers begin again at the first.
    pub(super) fn slot(self, number: u64) -> &'static AtomicU64 {
        // SAFETY: the masked number is smaller than that of all slots.
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

/// The hash of a key. Every bit depends on every bit of the key: its first two words are numbers and addresses that are
/// far from random.
#[inline(always)]
pub(super) fn hash(key: &Key) -> u64 {
    let outer = key[0] ^ key[1].wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let product = u128::from(outer ^ 0xff51_afd7_ed55_8ccd) * u128::from(key[2] ^ 0xc4ce_b9fe_1a85_ec53);
    product as u64 ^ (product >> 64) as u64
}

/// The bits of a hash that a slot holds above an address.
#[inline(always)]
fn tag(hash: u64) -> u64 {
    (hash | 1) << 48
}

/// The node whose address `slot` holds, if it has this key.
#[inline(always)]
pub(super) fn linked(slot: u64, key: &Key, hash: u64) -> Option<*const Key> {
    let node = slot ^ tag(hash);
    if node > ADDRESS {
        return None;
    }
    let node = node as *const Key;
    // SAFETY: linked nodes begin with a key, are immutable and never freed; a slot without a node has no tag.
    let there = unsafe { &*node };
    // Not as one comparison of memory, which would take longer.
    (there[0] == key[0] && there[1] == key[1] && there[2] == key[2]).then_some(node)
}

/// The hash tables, which lead from a key to the node that begins with it.
pub(super) struct Index {
    /// The table in which keys are looked for.
    current: AtomicU64,
    /// All tables, the smallest one first.
    tables: [AtomicU64; TABLES],
}

impl Index {
    pub(super) const fn new() -> Self {
        Self { current: AtomicU64::new(0), tables: [const { AtomicU64::new(0) }; TABLES] }
    }

    pub(super) fn current(&self) -> Table {
        Table(self.current.load(Ordering::Acquire))
    }

    /// The node of `key`, if it is in the first of its slots, as most are.
    #[inline(always)]
    pub(super) fn first(&self, key: &Key, hash: u64) -> Option<*const Key> {
        let table = self.current();
        if table.0 == 0 {
            return None;
        }
        // SAFETY: the first slot for a hash is one of the table.
        let slot = unsafe { table.slot_in(table.start(hash)) };
        linked(slot.load(Ordering::Acquire), key, hash)
    }

    /// The node of `key`, if it is there.
    #[inline(never)]
    pub(super) fn find(&self, key: &Key, hash: u64) -> Option<*const Key> {
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
            // There is always an empty or a closed slot.
            if found <= CLOSED {
                return None;
            }
            number += 1;
        }
    }

    /// The node of `key`, which was not found. If it is still not there, `make`, which is called at most once, makes
    /// the node, and returns the count of nodes including it. None if there is no memory.
    #[cold]
    #[inline(never)]
    pub(super) fn add(
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
                    let (node, count) = match fresh {
                        Some(fresh) => fresh,
                        None => *fresh.insert(make()?),
                    };
                    // All earlier nodes may be in the table.
                    if count > table.slots() / 4 * 3 {
                        if self.successor(table).is_some() {
                            break;
                        }
                        // One slot stays empty, at which a search for a key ends.
                        if count >= table.slots() {
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

    /// Links all nodes of `from` into `to`, the next table, and makes `to` the current one.
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
            // If another thread has linked the node in, no slot before it was empty at that time, or is empty now.
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
                // SAFETY: the mapping made above, which no other thread has seen.
                unsafe { sys::unmap(mapped, bytes) };
                Some(Table(theirs))
            }
        }
    }
}
