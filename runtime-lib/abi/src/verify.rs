//! Verify mode: the records of activations, and the tables by which the runtime decodes contexts.
//!
//! The tables hold no addresses, but distances. So nothing in them is left for the loader to do. The records of all
//! modules of an image are in one section ([`RECORDS_SECTION`]): those of a module follow each other in the order of
//! its functions, and its open node's comes last.

use core::marker::PhantomData;
use core::slice;

use crate::Link;

/// Name of the section with the [`FunctionRecord`]s of all modules.
pub const RECORDS_SECTION: &str = "pcce_records";

/// The section with the other tables of a program that is encoded at its link.
pub const TABLES_SECTION: &str = "pcce_tables";

/// A pointer that is kept as the distance from its own place, in bytes; 0: null. It must not be moved.
#[repr(transparent)]
pub struct Relative<T> {
    distance: i64,
    target: PhantomData<*const T>,
}

impl<T> Relative<T> {
    #[inline(always)]
    pub fn get(&self) -> *const T {
        let place = (&raw const *self).expose_provenance();
        match self.distance {
            0 => core::ptr::null(),
            distance => core::ptr::with_exposed_provenance(place.wrapping_add_signed(distance as isize)),
        }
    }

    /// The rows that begin there: none if it is null.
    ///
    /// # Safety
    /// There are `count` rows, and they do not change.
    #[inline(always)]
    pub unsafe fn rows(&self, count: u64) -> &[T] {
        // SAFETY: by the contract.
        if self.distance == 0 { &[] } else { unsafe { slice::from_raw_parts(self.get(), count as usize) } }
    }
}

/// One activation of an instrumented function.
#[repr(C)]
pub struct Shadow {
    /// The activation that called this one, as far as instrumented code goes.
    pub prev: *mut Shadow,
    pub function: *const FunctionRecord,
    /// The call site that is being executed; written before every call.
    pub site: *const u8,
    /// Not 0 if a function called there has left its activation to another one, by a tail call: 1 until the other one
    /// begins, then 2.
    pub left: u64,
    /// [`left`](Self::left) of the caller when this activation began. 1: this is the other activation.
    pub replaced: u64,
    /// Interned number of this activation's context; 0 where it did not match, the largest number where it
    /// has none.
    pub context: u64,
    /// `Tls::id` at entry.
    pub id: u64,
    /// `Tls::top` at entry.
    pub top: Link,
    /// Activations from the outermost to this one, both included.
    pub depth: u64,
    /// Pushed frames of the chain from `top` on.
    pub frames: u64,
}

/// The in-edges of a function, for decoding in the process.
#[repr(C)]
pub struct FunctionRecord {
    /// In-edges with additions, in ascending order of `start`.
    pub in_edges: Relative<InEdge>,
    pub in_edge_count: u64,
    /// 1 if the function has the dummy in-edge (id 0 is its root), 0 if not.
    pub entry: u64,
    /// 1 if open calls may reach the function, 0 if not. Ids below the start of the first in-edge are then the open
    /// node's.
    pub reached: u64,
    /// The function's offset: its ids, negated or not, are numbers below its `numCC` plus this, modulo 2^64.
    pub offset: u64,
    /// 1 if the function is silent: its callers do nothing, and their own state is the one found at its entry.
    pub silent: u64,
    /// The linkage name, for messages; ends with a zero byte.
    pub name: Relative<u8>,
    /// The site of the function's own entry where callers may enter it without having pushed, else null.
    pub entry_site: Relative<u8>,
    /// The record of the module's open node, also in that record itself; null in modules without one, whose ids are
    /// negated.
    pub open: Relative<FunctionRecord>,
    /// The module's direct calls that push, in the order of their sites, for those in functions with `open`.
    pub starts: Relative<Start>,
    pub start_count: u64,
    /// 1 if ids stand for several contexts of the function, which stack offsets distinguish (hybrid encoding), 0 if
    /// not.
    pub shared: u64,
    /// The groups of functions that may leave their activations to this one by tail calls, in ascending order
    /// ([`InEdge::group`]); of the open node: the groups that may leave theirs to functions of other modules.
    pub groups: Relative<u64>,
    pub group_count: u64,
}

impl FunctionRecord {
    /// # Safety
    /// The record is one of a loaded module.
    #[inline(always)]
    pub unsafe fn in_edges(&self) -> &[InEdge] {
        // SAFETY: by the contract.
        unsafe { self.in_edges.rows(self.in_edge_count) }
    }

    /// The direct calls that push.
    ///
    /// # Safety
    /// As [`in_edges`](Self::in_edges).
    #[inline(always)]
    pub unsafe fn starts(&self) -> &[Start] {
        // SAFETY: by the contract.
        unsafe { self.starts.rows(self.start_count) }
    }

    /// # Safety
    /// As [`in_edges`](Self::in_edges).
    #[inline(always)]
    pub unsafe fn groups(&self) -> &[u64] {
        // SAFETY: by the contract.
        unsafe { self.groups.rows(self.group_count) }
    }
}

/// The start of the sub-path that a direct call begins.
#[repr(C)]
pub struct Start {
    pub site: Relative<u8>,
    pub function: Relative<FunctionRecord>,
}

/// An in-edge whose call adds to the id.
#[repr(C)]
pub struct InEdge {
    /// The addition value: numbers from here on, up to the next in-edge's start, came over this edge.
    pub start: u64,
    /// The number that the call adds to the id.
    pub constant: u64,
    pub caller: Relative<FunctionRecord>,
    pub site: Relative<u8>,
    /// Open calls: the group of functions that the call may reach and that make tail calls; [`NO_GROUP`] if there are
    /// none.
    pub group: u64,
    /// Open calls: the function that is called by name; else null.
    pub callee: Relative<FunctionRecord>,
}

/// The [`InEdge::group`] of an edge without one.
pub const NO_GROUP: u64 = u64::MAX;
