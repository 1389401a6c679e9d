//! Jumps that are written over a function's first instructions.

/// A jump of five bytes, followed by the distance of its target in four of them.
const JUMP: u8 = 0xe9;
const JUMP_LEN: usize = 5;
/// A jump of two bytes, followed by the distance of its target in one of them.
const SHORT: u8 = 0xeb;

/// The length of the short jump.
pub const JUMPS_LEN: usize = 2;

/// Makes code lead to `to`: from its first instruction on, and from the one that is `behind` bytes further on. Returns
/// false, and changes nothing, if that is too far away.
///
/// # Safety
/// The code can be written, and is not executed. It has room for a jump before that instruction, and two bytes from
/// there on.
pub unsafe fn lead(code: usize, behind: usize, to: usize) -> bool {
    let Ok(distance) = i32::try_from(to.wrapping_sub(code + JUMP_LEN).cast_signed()) else { return false };
    let code = code as *mut u8;
    // SAFETY: by the contract.
    unsafe {
        code.write_volatile(JUMP);
        for (at, byte) in distance.to_le_bytes().into_iter().enumerate() {
            code.add(1 + at).write_volatile(byte);
        }
        code.add(behind).write_volatile(SHORT);
        code.add(behind + 1).write_volatile((behind + JUMPS_LEN).wrapping_neg() as u8);
    }
    true
}

/// Returns whether [`lead`] has made this code lead elsewhere.
///
/// # Safety
/// It is code.
pub unsafe fn leads_away(code: usize, behind: usize) -> bool {
    let there = (code + behind) as *const u8;
    // SAFETY: by the contract.
    unsafe {
        (code as *const u8).read_volatile() == JUMP
            && there.read_volatile() == SHORT
            && there.add(1).read_volatile() == (behind + JUMPS_LEN).wrapping_neg() as u8
    }
}
