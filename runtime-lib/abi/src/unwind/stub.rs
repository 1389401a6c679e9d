//! Steps where there are no unwind tables: the linker's stubs of x86-64, and calls that led nowhere.
use super::registers::{RIP, RSP};
use super::{Process, Registers, Step};

/// How many words are above the return address, at an instruction of a stub in a procedure linkage table (System V
/// psABI), for which some linkers write no unwind tables. None if it is no such instruction.
pub(super) fn stub_words(image: &[u8], at: usize) -> Option<usize> {
    // Instructions: jump and push through a word of the image, push of a number, jump.
    const JUMP_THROUGH: &[u8] = &[0xff, 0x25];
    const PUSH_THROUGH: &[u8] = &[0xff, 0x35];
    const PUSH: u8 = 0x68;
    const JUMP: u8 = 0xe9;
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    let code = image.get(at..at.checked_add(16)?)?;
    let before = |len: usize| at.checked_sub(len).map(|start| &image[start..at]);
    let is_before = |len: usize, start: &[u8]| before(len).is_some_and(|code| code.starts_with(start));
    if code.starts_with(ENDBR64) && (code[4..].starts_with(JUMP_THROUGH) || code[4] == PUSH) {
        Some(0)
    } else if code.starts_with(JUMP_THROUGH) {
        // In the table's head, behind its push.
        Some(if is_before(6, PUSH_THROUGH) { 2 } else { 0 })
    } else if code[0] == PUSH && code[5] == JUMP {
        Some(0)
    } else if (code[0] == JUMP && is_before(5, &[PUSH]))
        || (code.starts_with(PUSH_THROUGH) && code[6..].starts_with(JUMP_THROUGH))
    {
        Some(1)
    } else {
        None
    }
}

/// The step from a function that has pushed so many words and changed nothing else.
pub(super) fn called<'p>(
    registers: &Registers,
    words: usize,
    process: &mut impl Process<'p>,
) -> Option<Step> {
    let mut caller = *registers;
    let sp = registers.sp().checked_add(words * 8)?;
    caller.set(RIP, process.word(sp)?);
    let cfa = sp.checked_add(8)?;
    caller.set(RSP, cfa as u64);
    Some(Step { cfa, caller, signal: false })
}
