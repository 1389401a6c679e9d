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

#[cfg(test)]
mod tests {
    use super::*;

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
