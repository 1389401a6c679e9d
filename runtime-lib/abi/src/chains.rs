//! The interned numbers of a process: how keys say what a number stands for, and where readers of core files find them.

use crate::numbers::{Entry, PointEnd};

/// Name of the map, for readers of core files. It begins with the addresses of its blocks and the number of nodes in
/// them.
pub const SYMBOL: &str = "__pcce_chains";
/// The maximum number of blocks. Block `k` has [`FIRST_BLOCK`] times 2ᵏ nodes.
pub const BLOCKS: usize = 32;
/// Nodes in the first block.
pub const FIRST_BLOCK: u64 = 1024;
/// Words of a node: the key and the number, which is 0 as long as the node is not whole.
pub const NODE: usize = 4;

/// Set in the name of a site in keys of frames whose function has left its activation to another one. No name has
/// this bit.
pub const LEFT: u64 = 1 << 62;
/// Set in the middle word of keys of places: (first bytes of the build id, how many, address in the image).
pub const PLACE: u64 = 1 << 61;
/// A bit of names of addresses in code. The last word of such a key says whether the address is a program counter.
pub const ADDRESS: u64 = 1 << 60;
/// Replaces the build id in keys of places of which only the address is known.
pub const NO_IMAGE: u64 = 1;

/// Stands for the site in keys of chains that cannot be followed. The last word says whether the start of the sub-path
/// further in is unknown.
pub const UNKNOWN: u64 = 1;
/// Two frames with this site stand for others: the one for frames of calls that are over has this id.
pub const GONE_ID: u64 = 1;
/// Stands for the site in keys whose last word is a number in a function's range. No address of a site.
pub const RANGE: u64 = 2;
/// Stands for the site in keys whose last word is a stack offset, and whose first word is the number of the frame or
/// capture that has the offset.
pub const OFFSET: u64 = 3;
/// Stands for the site in keys of captures by code that is not instrumented, with the id.
pub const POINT: u64 = 4;
/// Stands for the site in keys whose last word is a [`PointEnd`].
pub const END: u64 = 5;

/// A bit of names of sites that are numbers of places. Other names are addresses, or 0.
pub const INTERNED: u64 = 1 << 63;

/// The entry for which the number of a key stands. `place` returns the number of the place with a name (0: the
/// program's place 0), `is_signal` whether a name is the site of signals' frames. None if a place has no number.
pub fn entry(
    &[first, middle, last]: &[u64; 3],
    is_signal: impl FnOnce(u64) -> bool,
    mut place: impl FnMut(u64) -> Option<u64>,
) -> Option<Entry> {
    if middle & (PLACE | INTERNED) == PLACE {
        let len = (middle ^ PLACE) as u8;
        // Such an address is of no use, and would disclose where the process has its memory.
        let known = len > 0 || first != NO_IMAGE;
        let (build_id, address) = if known { (first.to_le_bytes(), last) } else { ([0; 8], 0) };
        return Some(Entry::Place { build_id, len, address });
    }
    let outer = if first == 0 { place(0)? } else { first };
    let name = middle & !(LEFT | ADDRESS);
    Some(match middle {
        UNKNOWN => Entry::Unknown { outer, start_missing: last != 0 },
        RANGE => Entry::Range { outer, number: last },
        OFFSET => Entry::Offset { outer, distance: last },
        POINT => Entry::Point { outer, id: last },
        END => Entry::End { outer, end: PointEnd::from_bits(last)? },
        _ if middle & ADDRESS != 0 => Entry::Address { outer, place: place(name)?, exact: last != 0 },
        _ if is_signal(name) => Entry::Signal { outer, id: last },
        _ => Entry::Site { outer, place: place(name)?, id: last, left: middle & LEFT != 0 },
    })
}
