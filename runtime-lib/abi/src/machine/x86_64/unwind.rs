//! The facts about x86-64 that the walk over stacks needs.

use gimli::{Register, RegisterRule, UnwindContextStorage, UnwindTableRow, Vendor};

use super::X86_64;
use crate::unwind::{Caller, Process, Registers, Unwind};

/// Numbers of registers in the unwind tables (System V psABI for x86-64).
const RBX: usize = 3;
const RBP: usize = 6;
const RSP: usize = 7;
/// r13 to r15 follow.
const R12: usize = 12;
const RIP: usize = 16;
/// How many registers are followed: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, rip.
const REGISTERS: usize = 17;

impl UnwindContextStorage<usize> for X86_64 {
    type Rules = [(Register, RegisterRule<usize>); REGISTERS + 1];
    type Stack = [UnwindTableRow<usize, Self>; 3];
}

impl Unwind for X86_64 {
    type Values = [u64; REGISTERS];

    const NO_VALUES: Self::Values = [0; REGISTERS];
    const PC: usize = RIP;
    const RETURN_ADDRESS: usize = RIP;
    const SP: usize = RSP;
    const FRAME_POINTER: usize = RBP;
    const PRESERVED: u64 = 1 << RBX | 1 << RBP | 0b1111 << R12;
    // rax and rdx.
    const LANDING_PAD_ARGUMENTS: [Register; 2] = [Register(0), Register(1)];
    // rcx.
    const OTHER_ARGUMENT: Register = Register(2);
    const VENDOR: Vendor = Vendor::Default;

    fn interrupted<'p>(process: &mut impl Process<'p>, context: usize) -> Option<Registers<Self>> {
        // Words from the beginning of the structure on (`<sys/ucontext.h>`: `uc_mcontext.gregs` is at word 5), in the
        // order of the registers' numbers.
        const SAVED: [usize; REGISTERS] = [18, 17, 19, 16, 14, 13, 15, 20, 5, 6, 7, 8, 9, 10, 11, 12, 21];
        const TRAPNO: usize = 25;
        const CR2: usize = 27;
        const PAGE_FAULT: u64 = 14;
        let mut registers = Registers::NONE;
        for (number, word) in SAVED.into_iter().enumerate() {
            registers.set(number, process.word(context.checked_add(word * 8)?)?);
        }
        // The kernel keeps the thread's last exception. Nothing can be executed after a page fault at the next
        // instruction itself, or at an address that no page can have.
        let mut saved = |word: usize| process.word(context.checked_add(word * 8)?);
        let (number, address) = (saved(TRAPNO)?, saved(CR2)?);
        registers.is_astray =
            number == PAGE_FAULT && address as usize == registers.pc() || !is_canonical(registers.pc());
        Some(registers)
    }

    fn signal_context<'p>(_: &Registers<Self>, _: &mut impl Process<'p>) -> Option<usize> {
        None
    }

    fn plain(address: u64) -> u64 {
        address
    }

    fn caller_at_entry<'p>(
        registers: &Registers<Self>,
        process: &mut impl Process<'p>,
    ) -> Option<Caller<Self>> {
        caller_above(registers, 0, process)
    }

    fn caller_of_stub<'p>(
        registers: &Registers<Self>,
        image: &[u8],
        offset: usize,
        process: &mut impl Process<'p>,
    ) -> Option<Caller<Self>> {
        caller_above(registers, stub_words(image, offset)?, process)
    }

    fn calls(code: &[u8], address: u64) -> impl Iterator<Item = u64> {
        const CALL: u8 = 0xe8;
        const CALL_LEN: usize = 5;
        code.windows(CALL_LEN).zip(address + CALL_LEN as u64..).filter_map(|(call, end)| {
            let distance = i32::from_le_bytes([call[1], call[2], call[3], call[4]]);
            (call[0] == CALL).then(|| end.wrapping_add_signed(distance.into()))
        })
    }
}

/// True if there may be memory at an address: its upper bits are all equal.
fn is_canonical(address: usize) -> bool {
    const BITS: u32 = usize::BITS - 57;
    let address = address.cast_signed();
    address << BITS >> BITS == address
}

/// The number of words above the return address, at an instruction of a stub in a procedure linkage table (System V
/// psABI), for which some linkers write no unwind tables. None if it is no such instruction.
fn stub_words(image: &[u8], at: usize) -> Option<usize> {
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
        // In the table's head, after its push.
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

/// The caller of a function that has pushed this number of words and changed nothing else.
fn caller_above<'p>(
    registers: &Registers<X86_64>,
    words: usize,
    process: &mut impl Process<'p>,
) -> Option<Caller<X86_64>> {
    let mut caller = *registers;
    let sp = registers.sp().checked_add(words * 8)?;
    caller.set(RIP, process.word(sp)?);
    let cfa = sp.checked_add(8)?;
    caller.set(RSP, cfa as u64);
    Some(Caller { cfa, registers: caller })
}
