//! The interned numbers of a process: how keys say what a number stands for, and where readers of core files find them.

use crate::numbers::{Entry, PointEnd};

/// Name of the map, for readers of core files. It begins with the addresses of its blocks and the number of nodes in
/// them.
pub const SYMBOL: &str = "__pcce_chains";
/// How many blocks there are at most. Block `k` has [`FIRST_BLOCK`] times 2ᵏ nodes.
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
/// Set in names of addresses in code, in keys whose last word tells whether they are program counters.
pub const ADDRESS: u64 = 1 << 60;
/// In keys of places of which no more is known than the address, in place of a build id.
pub const NO_IMAGE: u64 = 1;

/// Stands for the site in keys of what cannot be followed; the last word tells whether nobody knows where the sub-path
/// further in starts.
pub const UNKNOWN: u64 = 1;
/// Of the two frames with this site that stand for others: the id of the one for frames of calls that are over.
pub const GONE_ID: u64 = 1;
/// Stands for the site in keys whose last word is a number in a function's range. No address of a site.
pub const RANGE: u64 = 2;
/// Stands for the site in keys whose last word is a stack offset, and whose first one the number of what has it.
pub const OFFSET: u64 = 3;
/// Stands for the site in keys of captures by code that is not instrumented, with the id.
pub const POINT: u64 = 4;
/// Stands for the site in keys whose last word is a [`PointEnd`].
pub const END: u64 = 5;

/// What names of sites have that are numbers of places. Others are addresses, or 0.
pub const INTERNED: u64 = 1 << 63;

/// What the number of a key stands for. `place` gives the number of the place with a name (0: the program's place 0),
/// `is_signal` tells the name of signals' frames. None if a place has no number.
pub fn entry(
    &[first, middle, last]: &[u64; 3],
    is_signal: impl FnOnce(u64) -> bool,
    mut place: impl FnMut(u64) -> Option<u64>,
) -> Option<Entry> {
    if middle & (PLACE | INTERNED) == PLACE {
        let len = (middle ^ PLACE) as u8;
        // An address that nobody could use would tell where the process has its memory.
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
