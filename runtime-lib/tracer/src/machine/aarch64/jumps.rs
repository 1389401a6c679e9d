//! Jumps that are written over a function's first instructions.

use core::arch::asm;

/// A jump with the distance of its target, in instructions, in the lower bits.
const JUMP: u32 = 0x1400_0000;
const DISTANCE: u32 = 0x03ff_ffff;

/// The length of a jump.
pub const JUMPS_LEN: usize = 4;

/// The jump from one place to another. None if it does not reach that far: 128 MB.
fn jump(from: usize, to: usize) -> Option<u32> {
    let distance = to.wrapping_sub(from).cast_signed() / JUMPS_LEN as isize;
    let half = (DISTANCE as isize + 1) / 2;
    (-half..half).contains(&distance).then_some(JUMP | distance as u32 & DISTANCE)
}

/// Makes code lead to `to`: from its first instruction on, and from the one that is `behind` bytes further on. Returns
/// false, and changes nothing, if that is too far away.
///
/// # Safety
/// The code can be written, and is not executed. It has room for a jump before that instruction, and for another one
/// from there on.
pub unsafe fn lead(code: usize, behind: usize, to: usize) -> bool {
    let there = code + behind;
    let (Some(first), Some(second)) = (jump(code, to), jump(there, to)) else { return false };
    for (at, jump) in [(code, first), (there, second)] {
        // SAFETY: by the contract. What was written to the data cache is made visible to the fetch of instructions.
        unsafe {
            (at as *mut u32).write_volatile(jump);
            asm!(
                "dc cvau, {at}",
                "dsb ish",
                "ic ivau, {at}",
                "dsb ish",
                "isb",
                at = in(reg) at,
                options(nostack, preserves_flags),
            );
        }
    }
    true
}

/// Returns whether [`lead`] has made this code lead elsewhere.
///
/// # Safety
/// It is code.
pub unsafe fn leads_away(code: usize, behind: usize) -> bool {
    let target = |at: usize| {
        // SAFETY: by the contract.
        let word = unsafe { (at as *const u32).read_volatile() };
        // The distance is signed.
        let distance = ((word & DISTANCE) << 6).cast_signed() >> 6;
        (word & !DISTANCE == JUMP).then(|| at.wrapping_add_signed(distance as isize * JUMPS_LEN as isize))
    };
    target(code).is_some_and(|to| target(code + behind) == Some(to))
}

#[cfg(test)]
mod tests {
    use super::{jump, leads_away};

    #[test]
    fn jumps_lead_as_far_as_they_reach() {
        assert_eq!(jump(0x1000, 0x1008), Some(0x1400_0002));
        assert_eq!(jump(0x1000, 0xffc), Some(0x17ff_ffff));
        assert_eq!(jump(0x1000_0000, 0x1800_0000 - 4), Some(0x15ff_ffff));
        assert_eq!(jump(0x1000_0000, 0x1800_0000), None);
        assert_eq!(jump(0x1000_0000, 0x800_0000), Some(0x1600_0000));
        assert_eq!(jump(0x1000_0000, 0x800_0000 - 4), None);
    }

    #[test]
    fn both_jumps_have_one_target() {
        let code = [0x1400_0003_u32, 0x1400_0002, 0xd65f_03c0];
        let at = code.as_ptr().addr();
        // SAFETY: words.
        unsafe {
            assert!(leads_away(at, 4));
            assert!(!leads_away(at, 8));
            assert!(!leads_away(at + 4, 4));
        }
    }
}
