//! The pool of libstdc++: a block that it allocates when it is loaded, for exceptions that are thrown when there is no
//! memory left. It is never freed, and would be the largest leak of many programs.

use pcce_system::maps::{Mapping, each_line};
use pcce_system::weak_address;

use super::{Block, Header, POOL};
use crate::image::Image;

/// Gives the block a record of its own. To be called before the program begins.
pub fn name() {
    // The function that allocates from the block.
    let of_library = weak_address!("__cxa_allocate_exception");
    let Some(library) = (!of_library.is_null()).then(|| Image::of(of_library)).flatten() else { return };
    each_line(1, |line| {
        let Some(mapping) = Mapping::parse(line).filter(|mapping| mapping.is_writable) else { return };
        if !library.contains(mapping.low as *const u8) {
            return;
        }
        let count = (mapping.high - mapping.low) / size_of::<usize>();
        // SAFETY: it can be read, and there is one thread.
        let words = unsafe { core::slice::from_raw_parts(mapping.low as *const usize, count) };
        // The library's data hold the first free piece of the block, the block, and its size, one after the other.
        for piece in words.windows(3).filter(|piece| piece[0] != 0 && piece[0] == piece[1] && piece[2] != 0) {
            if let Some((at, block)) = block(piece[0], piece[2])
                && block.record.move_block(&POOL, block.size as u64)
            {
                // SAFETY: its header is in front of it.
                unsafe { Header::write(at.sub(block.offset), Block { record: &POOL, ..block }) };
                return;
            }
        }
    });
}

/// The block of this size at an address, where any memory or none may be.
fn block(at: usize, size: usize) -> Option<(*mut u8, Block)> {
    let mut header = [0; size_of::<Header>()];
    let is_readable =
        at.is_multiple_of(header.len()) && crate::sys::copy_from(at.checked_sub(header.len())?, &mut header);
    // SAFETY: there is memory in front of it.
    let block = is_readable.then(|| unsafe { Header::find(at as *const u8) }).flatten();
    block.filter(|block| block.size == size).map(|block| (at as *mut u8, block))
}
