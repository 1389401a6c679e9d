//! The context with which a chunk begins, so that it can be read without those before.

use core::ffi::{CStr, c_char};

use crate::abi::trace::{AWAY, Block, CONTEXT_WORDS, Special, TOKEN_LEN, special};
use crate::area::From;
use crate::{stream, weak_address};

/// Writes the context of emitted code at a chunk's beginning.
///
/// # Safety
/// The block's chunk is empty.
#[inline(never)]
pub unsafe fn write(block: *mut Block, from: From, is_away: bool) {
    type TokenAt = unsafe extern "C" fn(*mut c_char, usize, usize, usize) -> usize;
    let token_at = weak_address!("pcce_token_at");
    if from.pc == 0 || token_at.is_null() {
        return;
    }
    const FIRST: usize = 1 + CONTEXT_WORDS;
    // Behind the token there is a zero.
    let mut text = [0_u64; FIRST + TOKEN_LEN / 8 + 1];
    // SAFETY: the runtime's function, which may be called at any instruction; the token ends with a zero. By the
    // contract: the chunk has more room.
    unsafe {
        let token_at = core::mem::transmute::<*const u8, TokenAt>(token_at);
        let token = (&raw mut text[FIRST]).cast::<c_char>();
        token_at(token, TOKEN_LEN + 1, from.pc, from.sp);
        let len = CStr::from_ptr(token).count_bytes();
        if len > 0 {
            text[0] = special(Special::Context, len as u64 | if is_away { AWAY } else { 0 });
            text[1..FIRST].copy_from_slice(&[(*block).jumps, from.pc as u64, from.node[0], from.node[1]]);
            text[FIRST + len / 8] &= (1 << (8 * (len % 8))) - 1;
            stream::write(block, &text[..FIRST + len.div_ceil(8)]);
        }
    }
}
