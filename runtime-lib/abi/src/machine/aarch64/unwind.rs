//! The facts about AArch64 that the walk over stacks needs.

use gimli::{Register, RegisterRule, UnwindContextStorage, UnwindTableRow, Vendor};

use super::AArch64;
use crate::unwind::{Caller, Process, Registers, Unwind};

/// Numbers of registers in the unwind tables (DWARF for the Arm 64-bit Architecture). x0 to x30 come first.
const FRAME_POINTER: usize = 29;
const LINK: usize = 30;
/// The stack pointer.
pub const SP: usize = 31;
/// The program counter.
pub const PC: usize = 32;
/// How many registers are followed.
const REGISTERS: usize = 33;
/// The largest number of rules in a row: of these, of eight vector registers, and of whether the return address is
/// signed.
const RULES: usize = REGISTERS + 8 + 1;
/// x19 to x29.
const PRESERVED: u64 = 0x7ff << 19;

/// The instructions to which signal handlers return, in the vDSO or in the C library: `mov x8, #139; svc #0`. (The
/// unwind tables of the vDSO do not say where the registers are.)
pub const SIGNAL_RETURN: u64 = 0xd400_0001_d280_1168;
/// How far the context is above the stack pointer where a handler begins and returns to: behind the information about
/// the signal.
pub const SIGNAL_CONTEXT: usize = 128;

impl UnwindContextStorage<usize> for AArch64 {
    type Rules = [(Register, RegisterRule<usize>); RULES];
    type Stack = [UnwindTableRow<usize, Self>; 3];
}

impl Unwind for AArch64 {
    type Values = [u64; REGISTERS];

    const NO_VALUES: Self::Values = [0; REGISTERS];
    const PC: usize = PC;
    const SP: usize = SP;
    const RETURN_ADDRESS: usize = LINK;
    const FRAME_POINTER: usize = FRAME_POINTER;
    const PRESERVED: u64 = PRESERVED;
    const LANDING_PAD_ARGUMENTS: [Register; 2] = [Register(0), Register(1)];
    // The address of a large result.
    const OTHER_ARGUMENT: Register = Register(8);
    const VENDOR: Vendor = Vendor::AArch64;

    fn interrupted<'p>(process: &mut impl Process<'p>, context: usize) -> Option<Registers<Self>> {
        // Words from the beginning of the structure on (`<sys/ucontext.h>`): `uc_mcontext` begins with the address of
        // the last fault; x0 to x30, the stack pointer and the program counter follow.
        const FAULT_ADDRESS: usize = 22;
        let mut registers = Registers::NONE;
        for number in 0..REGISTERS {
            let word = FAULT_ADDRESS + 1 + number;
            registers.set(number, process.word(context.checked_add(word * 8)?)?);
        }
        // The kernel keeps the thread's last fault. Nothing can be executed after a fault at the next instruction
        // itself, or at an address that no instruction can have.
        let address = process.word(context.checked_add(FAULT_ADDRESS * 8)?)?;
        let pc = registers.pc();
        registers.is_astray =
            address as usize == pc || !pc.is_multiple_of(4) || plain(pc as u64) != pc as u64;
        Some(registers)
    }

    fn signal_context<'p>(registers: &Registers<Self>, process: &mut impl Process<'p>) -> Option<usize> {
        let pc = registers.pc();
        let instructions = match pc % 8 {
            0 => process.word(pc)?,
            4 => process.word(pc - 4)? >> 32 | process.word(pc.checked_add(4)?)? << 32,
            _ => return None,
        };
        (instructions == SIGNAL_RETURN).then(|| registers.sp().checked_add(SIGNAL_CONTEXT)).flatten()
    }

    fn plain(address: u64) -> u64 {
        plain(address)
    }

    fn caller_at_entry<'p>(
        registers: &Registers<Self>,
        process: &mut impl Process<'p>,
    ) -> Option<Caller<Self>> {
        caller_above(registers, 0, process.signed_bits())
    }

    fn caller_of_stub<'p>(
        registers: &Registers<Self>,
        image: &[u8],
        offset: usize,
        process: &mut impl Process<'p>,
    ) -> Option<Caller<Self>> {
        caller_above(registers, stub_words(image, offset)?, process.signed_bits())
    }

    fn calls(code: &[u8], address: u64) -> impl Iterator<Item = u64> {
        code.chunks_exact(4).zip(1..).filter_map(move |(call, count)| {
            (super::MACHINE.objects.call_target)(call, address.wrapping_add(count * 4))
        })
    }
}

/// The address without a signature (pointer authentication), and without a tag. Addresses of programs have 48 bits,
/// unless a program asks for others.
fn plain(address: u64) -> u64 {
    address & ((1 << 48) - 1)
}

/// The number of words on the stack, at an instruction of a linker's stub: one of a procedure linkage table, or one
/// that reaches a function far away. Linkers write no unwind tables for them. None if it is no such instruction.
fn stub_words(image: &[u8], at: usize) -> Option<usize> {
    // stp x16, x30, [sp, #-16]!
    const PUSH: u32 = 0xa9bf_7bf0;
    // The head of a table has so many instructions behind that one.
    const HEAD: usize = 4;
    let instruction = |at: usize| {
        let bytes = image.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let in_stub = |code: u32| {
        let matches = |mask: u32, value: u32| code & mask == value;
        // adrp x16; ldr x17, [x16, …]; add x16, x16, …; ldr x16, …
        matches(0x9f00_001f, 0x9000_0010)
            || matches(0xffc0_03ff, 0xf940_0211)
            || matches(0xffc0_03ff, 0x9100_0210)
            || matches(0xff00_001f, 0x5800_0010)
            // br x16; br x17; bti c; autia1716
            || [0xd61f_0200, 0xd61f_0220, 0xd503_245f, 0xd503_219f].contains(&code)
    };
    let code = instruction(at)?;
    if code == PUSH {
        return Some(0);
    }
    if !in_stub(code) {
        return None;
    }
    for back in 1..=HEAD {
        match at.checked_sub(back * 4).and_then(instruction) {
            Some(PUSH) => return Some(2),
            Some(before) if in_stub(before) && ![0xd61f_0200, 0xd61f_0220].contains(&before) => {}
            _ => break,
        }
    }
    Some(0)
}

/// The caller of a function that has pushed this number of words, and has not changed the register with the return
/// address.
fn caller_above(registers: &Registers<AArch64>, words: usize, signed_bits: u64) -> Option<Caller<AArch64>> {
    let mut caller = *registers;
    let cfa = registers.sp().checked_add(words * 8)?;
    caller.set(PC, plain(registers.get(LINK)?) & !signed_bits);
    caller.set(SP, cfa as u64);
    caller.forget(LINK);
    caller.is_astray = false;
    Some(Caller { cfa, registers: caller })
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn stubs_are_told_from_other_code() {
        // The head of a table and a stub, as GNU ld writes them; then a return.
        let words: [u32; 11] = [
            0xa9bf_7bf0, // stp x16, x30, [sp, #-16]!
            0xb000_0190, // adrp x16, …
            0xf947_fe11, // ldr x17, [x16, #4088]
            0x913f_e210, // add x16, x16, #4088
            0xd61f_0220, // br x17
            0xd503_201f, // nop
            0xd000_0190, // adrp x16, …
            0xf940_0211, // ldr x17, [x16]
            0x9100_0210, // add x16, x16, #0
            0xd61f_0220, // br x17
            0xd65f_03c0, // ret
        ];
        let image: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let words: Vec<Option<usize>> = (0..words.len()).map(|word| stub_words(&image, word * 4)).collect();
        let (push, none) = (Some(2), Some(0));
        assert_eq!(words, [none, push, push, push, push, None, none, none, none, none, None]);
        assert_eq!(stub_words(&image, image.len()), None);
    }

    #[test]
    fn signatures_are_left_out() {
        assert_eq!(plain(0x0034_5555_0000_1234), 0x5555_0000_1234);
        assert_eq!(plain(0xff00_0000_0000_1000), 0x1000);
    }

    /// Words of memory from this address on.
    struct Memory(usize, Vec<u64>);

    impl Process<'static> for Memory {
        fn word(&mut self, address: usize) -> Option<u64> {
            let at = address.checked_sub(self.0).filter(|at| at % 8 == 0)?;
            self.1.get(at / 8).copied()
        }

        fn image(&mut self, _: usize) -> Option<crate::unwind::Tables<'static>> {
            None
        }
    }

    #[test]
    fn handlers_return_to_known_instructions() {
        let mut memory = Memory(0x1000, vec![SIGNAL_RETURN, SIGNAL_RETURN << 32, SIGNAL_RETURN >> 32, 0]);
        let mut context = |pc: usize| AArch64::signal_context(&Registers::at(pc, 0x7000), &mut memory);
        assert_eq!(context(0x1000), Some(0x7080));
        assert_eq!(context(0x100c), Some(0x7080));
        for other in [0x1004, 0x1002, 0x1018, 0x2000] {
            assert_eq!(context(other), None);
        }
    }

    #[test]
    fn registers_of_an_interrupted_point_are_read() {
        // x0 is 100, x1 is 101 and so on; the program counter follows the stack pointer.
        let words = (0..22).map(|_| 7).chain([0]).chain(100..133).collect();
        let registers = AArch64::interrupted(&mut Memory(0x1000, words), 0x1000).unwrap();
        assert_eq!((registers.get(0), registers.get(LINK)), (Some(100), Some(130)));
        assert_eq!((registers.sp(), registers.pc(), registers.is_astray), (131, 132, false));
        assert!(AArch64::interrupted(&mut Memory(0x1000, vec![0; 55]), 0x1000).is_none());
    }
}
