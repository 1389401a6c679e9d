//! The instructions that the step writes.

use pcce_abi::layout;
use pcce_abi::no_op::{self, ENTRY_LEN};

/// `callq *%r10`, in the five bytes of a direct call.
pub const CALL_R10: [u8; 5] = [0x2e, 0x2e, 0x41, 0xff, 0xd2];

/// `jmpq *%r10`, in the five bytes of a direct jump.
pub const JUMP_R10: [u8; 5] = [0x2e, 0x2e, 0x41, 0xff, 0xe2];

/// How far the id is from the thread pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// So far.
    At(i32),
    /// The word at this address says it, when the image is loaded.
    Word(u64),
}

/// The distance that an instruction that ends at `end` has to `to`.
pub fn distance(end: u64, to: u64) -> [u8; 4] {
    (to.wrapping_sub(end) as i32).to_le_bytes()
}

/// An addition to the id, of `len` bytes at the address `at`.
pub fn addition(at: u64, len: usize, id: Id, change: i32) -> Vec<u8> {
    let mut code = Vec::with_capacity(len);
    match id {
        Id::At(id) => {
            // addq $change, %fs:id, with as many prefixes as there is room for
            code.resize(len - no_op::LEN, 0x64);
            code.extend([0x64, 0x48, 0x81, 0x04, 0x25]);
            code.extend(id.to_le_bytes());
        }
        Id::Word(word) => {
            // movq word(%rip), %r11; addq $change, %fs:(%r11)
            const { assert!(layout::TLS_ID == 0) };
            code.extend([0x4c, 0x8b, 0x1d]);
            code.extend(distance(at + 7, word));
            code.extend([0x64, 0x49, 0x81, 0x03]);
        }
    }
    code.extend(change.to_le_bytes());
    code
}

/// A call of code that does an addition, of `len` bytes at the address `at`.
pub fn call_of_addition(at: u64, len: usize, code: u64) -> Vec<u8> {
    let mut call = vec![0xe8];
    call.extend(distance(at + 5, code));
    // A no-op of the bytes that are left.
    call.resize(len - 8, 0x66);
    call.extend([0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]);
    call
}

/// A stub that pushes, at the address `at`: of this site, with this callee (the one in `%r10` without one), by this
/// routine.
pub fn pushing_stub(at: u64, callee: Option<u64>, site: u64, routine: u64) -> Vec<u8> {
    let mut code = Vec::with_capacity(pcce_abi::stub::LEN);
    if let Some(callee) = callee {
        // leaq callee(%rip), %r10
        code.extend([0x4c, 0x8d, 0x15]);
        code.extend(distance(at + 7, callee));
    }
    // leaq site(%rip), %r11
    code.extend([0x4c, 0x8d, 0x1d]);
    let end = at + code.len() as u64 + 4;
    code.extend(distance(end, site));
    code.push(0xe9);
    let end = at + code.len() as u64 + 4;
    code.extend(distance(end, routine));
    code
}

/// The beginning of a function that is checked where others enter it, from what is there in code.
pub fn checked_entry(entry: &[u8]) -> Option<[u8; ENTRY_LEN]> {
    let mut code: [u8; ENTRY_LEN] = entry.get(..ENTRY_LEN)?.try_into().ok()?;
    code.starts_with(&no_op::ENTRY).then(|| {
        code[..no_op::ENTRY.len()].copy_from_slice(&no_op::CHECKED_ENTRY);
        code
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, Register};

    const AT: u64 = 0x1000;

    fn read(code: &[u8]) -> Vec<Instruction> {
        Decoder::with_ip(64, code, AT, DecoderOptions::NONE).iter().collect()
    }

    fn is_addition(instruction: &Instruction, base: Register, displacement: i64, change: i64) -> bool {
        (instruction.mnemonic(), instruction.memory_segment(), instruction.memory_base())
            == (Mnemonic::Add, Register::FS, base)
            && instruction.memory_size().size() == 8
            && instruction.memory_displacement64() as i64 == displacement
            && instruction.immediate(1) as i64 == change
    }

    /// All code is what the comments say, and fills its room.
    #[test]
    fn code_is_what_it_is_meant_to_be() {
        for len in [no_op::LEN, no_op::LIBRARY_LEN] {
            let code = addition(AT, len, Id::At(-64), 5);
            assert!(code.len() == len && read(&code).len() == 1, "{code:x?}");
            assert!(is_addition(&read(&code)[0], Register::None, -64, 5), "{code:x?}");
            let code = call_of_addition(AT, len, 0x2000);
            let [call, rest] = read(&code)[..] else { panic!("{code:x?}") };
            assert!(code.len() == len && rest.mnemonic() == Mnemonic::Nop, "{code:x?}");
            assert_eq!((call.mnemonic(), call.near_branch_target()), (Mnemonic::Call, 0x2000));
        }
        let code = addition(AT, no_op::LIBRARY_LEN, Id::Word(0x3000), -7);
        let [load, add] = read(&code)[..] else { panic!("{code:x?}") };
        assert_eq!(code.len(), no_op::LIBRARY_LEN);
        assert_eq!((load.op0_register(), load.ip_rel_memory_address()), (Register::R11, 0x3000));
        assert!(is_addition(&add, Register::R11, 0, -7), "{code:x?}");
    }

    #[test]
    fn stubs_say_who_is_called_where() {
        let code = pushing_stub(AT, Some(0x2000), 0x3000, 0x4000);
        let [callee, site, jump] = read(&code)[..] else { panic!("{code:x?}") };
        assert!(code.len() <= pcce_abi::stub::LEN);
        assert_eq!((callee.op0_register(), callee.ip_rel_memory_address()), (Register::R10, 0x2000));
        assert_eq!((site.op0_register(), site.ip_rel_memory_address()), (Register::R11, 0x3000));
        assert_eq!((jump.mnemonic(), jump.near_branch_target()), (Mnemonic::Jmp, 0x4000));
        assert_eq!(read(&pushing_stub(AT, None, 0x3000, 0x4000)).len(), 2);
    }

    #[test]
    fn entries_become_calls_of_their_checks() {
        let entry = [&no_op::ENTRY[..], &0x100_u32.to_le_bytes()].concat();
        assert_eq!(read(&entry).len(), 1);
        let code = checked_entry(&entry).expect("an entry");
        let [nothing, call] = read(&code)[..] else { panic!("{code:x?}") };
        assert_eq!((nothing.mnemonic(), call.near_branch_target()), (Mnemonic::Nop, AT + 8 + 0x100));
        assert_eq!(checked_entry(&code), None);
        assert_eq!(checked_entry(&[0; ENTRY_LEN]), None);
    }
}
