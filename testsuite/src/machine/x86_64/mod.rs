//! x86-64: instructions in AT&T syntax, as objdump and llvm-objdump write them.

mod registers;

pub use self::registers::{Registers, SYSTEM_CALL};
use super::{Class, Transfer};

/// The operand of the stack protector's word.
const STACK_GUARD: &str = "%fs:0x28";

/// The target triple of modules in LLVM's language.
pub const TRIPLE: &str = "x86_64-pc-linux-gnu";
/// LLVM's library that generates code for this machine.
pub const CODE_GENERATOR: &str = "X86CodeGen";
/// The relocation of a symbol's address that the loader looks up before the program starts.
pub const LOOKED_UP_AT_START: &str = "R_X86_64_GLOB_DAT";
pub const STACK_POINTER: gimli::Register = gimli::X86_64::RSP;
/// The start of operands in thread-local storage.
pub const THREAD_LOCAL: &str = "%fs:";

/// Sets of flags of code generation that only this machine's compilers take.
pub const CODE_GENERATION: [&str; 9] = [
    "-O2 -fcf-protection",
    "-O2 -march=x86-64-v3",
    "-O3 -march=x86-64-v4 -mprefer-vector-width=512",
    "-O2 -mtune=znver3 -falign-functions=64 -falign-loops=32",
    "-O2 -mcmodel=medium",
    "-O2 -mno-red-zone",
    "-O2 -mretpoline",
    "-O2 -Wa,-mrelax-relocations=no",
    "-O2 -mllvm -x86-asm-syntax=intel",
];

/// How an instruction transfers control, by its mnemonic; `None` if it does not.
pub fn transfer(mnemonic: &str) -> Option<Transfer> {
    match mnemonic {
        "call" | "callq" => Some(Transfer::Call),
        "jmp" | "jmpq" => Some(Transfer::Jump),
        _ => mnemonic.starts_with('j').then_some(Transfer::Branch),
    }
}

/// The class of an instruction. All thread-local storage except the stack protector's word counts as the thread's
/// block: the plain build has other accesses, too.
pub fn class(mnemonic: &str, operands: &str) -> Class {
    if operands.contains(THREAD_LOCAL) && !operands.contains(STACK_GUARD) {
        let is_target = operands.rsplit(',').next().is_some_and(|last| last.contains(THREAD_LOCAL));
        return if is_target && adds(mnemonic) { Class::Addition } else { Class::State };
    }
    match mnemonic {
        "push" | "pushq" | "pop" | "popq" | "leave" => Class::Stack,
        "ret" | "retq" => Class::Control,
        _ if operands.ends_with(",%rsp") => Class::Stack,
        _ if transfer(mnemonic).is_some() => Class::Control,
        _ if mnemonic.starts_with("mov") || mnemonic.starts_with("lea") => Class::Move,
        _ => Class::Other,
    }
}

/// Returns whether a word before a mnemonic is a prefix that changes nothing here.
pub fn is_prefix(word: &str) -> bool {
    word == "cs"
}

/// Returns whether a call or jump with this operand goes through a pointer.
pub fn is_through_pointer(operand: &str) -> bool {
    operand.starts_with('*')
}

/// Returns whether an instruction adds to its last operand, or subtracts from it.
pub fn adds(mnemonic: &str) -> bool {
    matches!(mnemonic, "add" | "addq" | "sub" | "subq" | "incq" | "decq")
}

/// Returns whether an instruction reads its operands only.
pub fn only_reads(mnemonic: &str) -> bool {
    mnemonic.starts_with("cmp") || mnemonic.starts_with("test")
}

/// Returns whether an instruction stores two neighbouring words at once: from a vector register.
pub fn stores_two_words(mnemonic: &str, operands: &str) -> bool {
    mnemonic.starts_with("mov") && operands.starts_with("%xmm")
}

/// The operand of a word in thread-local storage, by its distance from the thread pointer.
pub fn thread_local_operand(distance: u64) -> String {
    format!("{THREAD_LOCAL}{distance:#x}")
}

/// The distance of the executable's thread-local storage from the thread pointer, by the size and the alignment of its
/// segment: the storage ends at the thread pointer (variant II of the psABI).
pub fn thread_local_start(size: u64, alignment: u64) -> u64 {
    size.next_multiple_of(alignment.max(1)).wrapping_neg()
}
