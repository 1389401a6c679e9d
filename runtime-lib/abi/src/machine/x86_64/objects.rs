//! Code in object files of x86-64.

use core::ops::Range;

use crate::machine::objects::{ObjectCode, ThreadSegment};

/// See [`ObjectCode`].
pub const OBJECT_CODE: ObjectCode = ObjectCode {
    // ud2
    mark: [0x0f, 0x0b, b'P', b'C'],
    no_call: &[CALL, 0, 0, 0, 0],
    call_target,
    marks_contents: |_| false,
    written,
    // Immediate operands of 1 and 4 bytes.
    value_widths: &[7, 30],
    value_len,
    write_value,
    thread_storage,
    thread_offset: None,
};

/// `call rel32`: the distance from its end follows.
const CALL: u8 = 0xe8;

// Kinds of relocations, as the psABI numbers them.
const R_64: u32 = 1;
const R_PC32: u32 = 2;
const R_PLT32: u32 = 4;
const R_32: u32 = 10;
const R_32S: u32 = 11;
const R_8: u32 = 14;
const R_DTPOFF64: u32 = 17;
const R_TPOFF64: u32 = 18;
const R_TLSGD: u32 = 19;
const R_TLSLD: u32 = 20;
const R_PC64: u32 = 24;
const R_GOTOFF64: u32 = 25;
const R_GOT64: u32 = 27;
const R_GOTPCREL64: u32 = 28;
const R_GOTPC64: u32 = 29;
const R_PLTOFF64: u32 = 31;
const R_SIZE64: u32 = 33;

fn call_target(call: &[u8], end: u64) -> Option<u64> {
    let &[CALL, ref distance @ ..] = call else { return None };
    let distance = i32::from_le_bytes(distance.try_into().ok()?);
    Some(end.wrapping_add_signed(distance.into()))
}

/// Linkers replace instructions that read the global offset table, or find thread-local variables.
fn written(kind: u32) -> Range<isize> {
    match kind {
        R_64 | R_PC64 | R_GOTOFF64 | R_GOT64 | R_GOTPC64 | R_GOTPCREL64 | R_PLTOFF64 | R_DTPOFF64
        | R_TPOFF64 | R_SIZE64 => 0..8,
        R_TLSGD | R_TLSLD => -4..12,
        R_PC32 | R_PLT32 | R_32 | R_32S => 0..4,
        // Accesses to the global offset table.
        _ => -4..4,
    }
}

fn value_len(kind: u32) -> Option<usize> {
    match kind {
        R_8 => Some(1),
        R_32 | R_32S => Some(4),
        R_64 => Some(8),
        _ => None,
    }
}

/// A value is a little-endian signed number.
fn write_value(_: u32, bytes: &mut [u8], value: i64) -> bool {
    let all = value.to_le_bytes();
    // The bytes that are left out repeat the sign.
    let unused = i64::BITS.saturating_sub(8 * bytes.len() as u32);
    let fits = bytes.len() <= all.len() && value << unused >> unused == value;
    if fits {
        bytes.copy_from_slice(&all[..bytes.len()]);
    }
    fits
}
/// Thread-local storage of a program ends at the thread pointer (System V psABI).
fn thread_storage(segment: &ThreadSegment) -> Option<i64> {
    let end = segment.start.checked_add(segment.size)?.checked_next_multiple_of(segment.align)?;
    Some(((end - segment.start) as i64).wrapping_neg())
}
