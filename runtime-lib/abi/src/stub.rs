//! Stubs of link mode: what calls go through whose callee or addition the step behind the link decides.
//!
//! A stub begins with a no-op that names it ([`crate::no_op`]), and a jump to the callee ([`JUMP`]). The step lets it
//! push in that place. One of a call that may be a jump has room for more, and can add ([`adding`]). Its unwind tables,
//! which the object has already, are those of that code.

use crate::no_op;

/// Where the jump to the callee is.
pub const JUMP: usize = no_op::LEN;
/// The length of a stub of a call by name in bytes.
pub const LEN: usize = JUMP + 7;
/// The length of a stub that can add.
pub const ADDING_LEN: usize = 2 * no_op::LEN + 13;

/// Whom a stub calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// What the instruction reaches by this distance from its end.
    At(i32),
    /// What `%r10` holds.
    Pointer,
}

/// Where the call of [`adding`] ends.
pub const CALL_END: usize = no_op::LEN + 10;

/// The code of a stub that adds: `enter` and `leave` change the id before and after the call. The stack is aligned for
/// the callee, and no argument is on it. The callee's result is left alone.
pub fn adding(enter: &[u8; no_op::LEN], callee: Callee, leave: &[u8; no_op::LEN]) -> [u8; ADDING_LEN] {
    let mut code = [0; ADDING_LEN];
    code[..JUMP].copy_from_slice(enter);
    // pushq %rax; with prefixes that do nothing, so that it ends where the jump did.
    code[JUMP..JUMP + 5].copy_from_slice(&[0x2e, 0x2e, 0x2e, 0x2e, 0x50]);
    match callee {
        Callee::At(distance) => {
            code[JUMP + 5] = 0xe8;
            code[JUMP + 6..CALL_END].copy_from_slice(&distance.to_le_bytes());
        }
        // callq *%r10
        Callee::Pointer => code[JUMP + 5..CALL_END].copy_from_slice(&[0x2e, 0x2e, 0x41, 0xff, 0xd2]),
    }
    code[CALL_END..CALL_END + no_op::LEN].copy_from_slice(leave);
    // popq %r11; retq
    code[CALL_END + no_op::LEN..].copy_from_slice(&[0x41, 0x5b, 0xc3]);
    code
}

/// Whether these bytes are such code, whatever it adds.
pub fn is_adding(code: &[u8]) -> bool {
    let Some(code) = code.get(..ADDING_LEN) else { return false };
    let zero = [0; no_op::LEN];
    let blank = |callee| {
        let mut blank = adding(&zero, callee, &zero);
        blank[..JUMP].copy_from_slice(&code[..JUMP]);
        blank[CALL_END..CALL_END + no_op::LEN].copy_from_slice(&code[CALL_END..CALL_END + no_op::LEN]);
        blank
    };
    let distance = code[JUMP + 6..CALL_END].try_into().map_or(0, i32::from_le_bytes);
    code == blank(Callee::Pointer) || code == blank(Callee::At(distance))
}

/// The site of a stub that pushes, by its distance from the stub's beginning: it hands that to the routine which pushes
/// in its place. None if these bytes are no such code.
pub fn pushed_site(code: &[u8]) -> Option<i64> {
    // leaq callee(%rip), %r10, if the call's caller does not say whom it calls.
    let by_name = code.starts_with(&[0x4c, 0x8d, 0x15]);
    let at = if by_name { 7 } else { 0 };
    // leaq site(%rip), %r11; jmp routine
    let [0x4c, 0x8d, 0x1d, distance @ .., 0xe9] = code.get(at..at + 8)? else { return None };
    Some(i64::from(i32::from_le_bytes(distance.try_into().ok()?)) + at as i64 + 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_that_push_tell_their_site() {
        let by_pointer = [0x4c, 0x8d, 0x1d, 0xf0, 0xff, 0xff, 0xff, 0xe9, 0, 0, 0, 0];
        assert_eq!(pushed_site(&by_pointer), Some(7 - 16));
        let by_name = [&[0x4c, 0x8d, 0x15, 1, 2, 3, 4][..], &by_pointer].concat();
        assert_eq!(pushed_site(&by_name), Some(14 - 16));
        for wrong in [&by_name[1..], &by_name[..14], &[]] {
            assert_eq!(pushed_site(wrong), None);
        }
    }

    #[test]
    fn stubs_that_add_are_known() {
        for callee in [Callee::At(-0x1234), Callee::Pointer] {
            let mut code = adding(&[1; no_op::LEN], callee, &[2; no_op::LEN]).to_vec();
            assert!(is_adding(&code) && !is_adding(&code[1..]), "{code:x?}");
            code.push(0);
            assert!(is_adding(&code));
            code[JUMP + 4] ^= 1;
            assert!(!is_adding(&code));
        }
    }
}
