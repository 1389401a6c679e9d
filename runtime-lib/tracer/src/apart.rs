//! Keeps a forked child from writing to its parent's chunks: interrupted code of the tracer may go on in both.

use core::ffi::c_int;

use crate::abi::trace::HEAD;
use crate::{file, sys};
use pcce_system::maps::{Mapping, each_line};

/// Interrupted code of the tracer may still write to the parent's chunks. From here on such writes have no effect: the
/// mapped parts of the file are copies, except for the head.
pub fn keep() {
    let Some((file, head)) = file::mapped() else { return };
    // The line with the head says which file it is.
    let mut which = None;
    each_line(2, |line| {
        let Some(mapping) = Mapping::parse(line) else { return };
        match which {
            None if (mapping.low..mapping.high).contains(&head) => which = Some(mapping.file),
            Some(ours) if ours == mapping.file && mapping.is_shared => copy(mapping, file, head),
            _ => {}
        }
    });
}

/// Replaces the mapping by a copy, except for the head.
fn copy(mapping: Mapping<'_>, file: c_int, head: usize) {
    let parts = match (mapping.low..mapping.high).contains(&head) {
        true => [(mapping.low, head), (head + HEAD as usize, mapping.high)],
        false => [(mapping.low, mapping.high), (0, 0)],
    };
    for (low, high) in parts.into_iter().filter(|(low, high)| low < high) {
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let how = (libc::MAP_PRIVATE | libc::MAP_FIXED) as usize;
        let offset = mapping.offset + (low - mapping.low);
        // SAFETY: what is mapped there is the same, and no reference leads to it.
        unsafe { sys::call(libc::SYS_mmap, [low, high - low, access, how, file as usize, offset]) };
    }
}
