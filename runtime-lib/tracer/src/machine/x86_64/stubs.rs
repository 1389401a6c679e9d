//! The definition of the thread's block, and the functions of the tracer that are called often, or with registers that
//! must be kept, in assembly. Their stack holds saved registers only, as the `.cfi` directives describe.
//!
//! | path | instructions, with the return |
//! |---|---|
//! | a full word is written | 15 |
//! | the function that is expected is entered | 25 |
//! | another function in the cache is entered | 27 |
//! | another function in the cache is entered, and the word is full | 43 |
//! | a function that is left out has come back | 4 |
//! | an event of verify mode | 13 |
//!
//! A word is stored before [`Block::next`](crate::abi::trace::Block) says so, and this before the pending bits are one
//! again: an interrupting handler that finds the thread at one of [`stored`] knows that the pending bits are written.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::abi::trace::{ALIGN, Block, CACHE, FULL, Order, SIZE};
use crate::area::Fast;
use crate::events::{came_back_slow, enter_slow, flush_slow, landed, returned};

use super::vectors::{detect, vectors};

// Initial-exec, as the runtime's block, and initialised: bits are pending below a leading one.
global_asm!(
    ".section .tdata.__pcce_trace,\"awT\",@progbits",
    ".globl __pcce_trace",
    ".type __pcce_trace,@object",
    ".size __pcce_trace,{size}",
    ".p2align 6",
    "__pcce_trace:",
    ".quad 1, 0, 0, {empty}, 0, 0, 0, 0",
    ".text",
    size = const SIZE,
    empty = sym crate::area::__pcce_trace_empty,
);

const _: () = assert!(
    SIZE == 64
        && ALIGN == 64
        && offset_of!(Block, pending) == 0
        && offset_of!(Block, cache) == 24
        && CACHE == 256
);

global_asm!(
    ".pushsection .text.__pcce_trace_flush,\"ax\",@progbits",
    ".globl __pcce_trace_flush",
    ".type __pcce_trace_flush,@function",
    ".p2align 4",
    "__pcce_trace_flush:",
    ".cfi_startproc",
    "push rax",
    ".cfi_def_cfa_offset 16",
    "push rcx",
    ".cfi_def_cfa_offset 24",
    "mov r11, qword ptr [rip + __pcce_trace@GOTTPOFF]",
    "mov rcx, qword ptr fs:[r11 + {cache}]",
    "mov rax, qword ptr fs:[r11 + {next}]",
    "cmp rax, qword ptr [rcx + {limit}]",
    "jae 2f",
    "mov rcx, qword ptr fs:[r11]",
    "mov qword ptr [rax], rcx",
    "add rax, 8",
    "mov qword ptr fs:[r11 + {next}], rax",
    ".hidden __pcce_trace_stored_flush",
    ".globl __pcce_trace_stored_flush",
    "__pcce_trace_stored_flush:",
    "mov qword ptr fs:[r11], 1",
    ".cfi_remember_state",
    "pop rcx",
    ".cfi_def_cfa_offset 16",
    "pop rax",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_restore_state",
    "2:",
    "push rdx",
    ".cfi_def_cfa_offset 32",
    "lea r11, [rip + {flush_slow}]",
    "jmp __pcce_trace_slow",
    ".cfi_endproc",
    ".hidden __pcce_trace_end_flush",
    ".globl __pcce_trace_end_flush",
    "__pcce_trace_end_flush:",
    ".size __pcce_trace_flush, . - __pcce_trace_flush",
    ".popsection",
    cache = const offset_of!(Block, cache),
    next = const offset_of!(Block, next),
    limit = const offset_of!(Fast, limit),
    flush_slow = sym flush_slow,
);

// 10 more bits fit into the word where the pending bits are below FULL.
global_asm!(
    ".pushsection .text.__pcce_trace_enter,\"ax\",@progbits",
    ".globl __pcce_trace_enter",
    ".type __pcce_trace_enter,@function",
    ".p2align 4",
    "__pcce_trace_enter:",
    ".globl __pcce_trace_enter_library",
    ".type __pcce_trace_enter_library,@function",
    "__pcce_trace_enter_library:",
    ".cfi_startproc",
    "push rax",
    ".cfi_def_cfa_offset 16",
    "push rcx",
    ".cfi_def_cfa_offset 24",
    "push rdx",
    ".cfi_def_cfa_offset 32",
    "mov r11, qword ptr [rip + __pcce_trace@GOTTPOFF]",
    "mov rax, qword ptr fs:[r11 + {cache}]",
    "8:",
    "mov rdx, qword ptr [rsp + 24]",
    "mov ecx, edx",
    "shr ecx, 4",
    "movzx ecx, cl",
    "cmp rdx, qword ptr [rax + 8*rcx]",
    "jne 3f",
    "cmp word ptr fs:[r11 + 6], {nearly_full}",
    "jae 2f",
    "movzx edx, byte ptr [rax + {last}]",
    "mov byte ptr [rax + {last}], cl",
    "cmp cl, byte ptr [rax + rdx + {followed}]",
    "jne 4f",
    "mov rax, qword ptr fs:[r11]",
    "lea rax, [4*rax + 3]",
    "5:",
    "mov qword ptr fs:[r11], rax",
    ".cfi_remember_state",
    "pop rdx",
    ".cfi_def_cfa_offset 24",
    "pop rcx",
    ".cfi_def_cfa_offset 16",
    "pop rax",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_restore_state",
    // Another function than expected.
    "4:",
    "mov byte ptr [rax + rdx + {followed}], cl",
    "mov rax, qword ptr fs:[r11]",
    "shl rax, 10",
    "lea rax, [rax + rcx + 512]",
    "jmp 5b",
    "2:",
    "mov rdx, qword ptr fs:[r11 + {next}]",
    "cmp rdx, qword ptr [rax + {limit}]",
    // The next chunk has an empty cache.
    "jae 3f",
    "mov rcx, qword ptr fs:[r11]",
    "mov qword ptr [rdx], rcx",
    "add rdx, 8",
    "mov qword ptr fs:[r11 + {next}], rdx",
    ".hidden __pcce_trace_stored_enter",
    ".globl __pcce_trace_stored_enter",
    "__pcce_trace_stored_enter:",
    "mov qword ptr fs:[r11], 1",
    "jmp 8b",
    // The function is not in the cache.
    "3:",
    "lea r11, [rip + {enter_slow}]",
    "jmp __pcce_trace_slow",
    ".cfi_endproc",
    ".hidden __pcce_trace_end_enter",
    ".globl __pcce_trace_end_enter",
    "__pcce_trace_end_enter:",
    ".size __pcce_trace_enter, . - __pcce_trace_enter",
    ".popsection",
    cache = const offset_of!(Block, cache),
    next = const offset_of!(Block, next),
    nearly_full = const FULL >> 48,
    limit = const offset_of!(Fast, limit),
    last = const offset_of!(Fast, order) + Order::LAST,
    followed = const offset_of!(Fast, order) + Order::NEXT,
    enter_slow = sym enter_slow,
);

// As emitted code appends a bit: by one instruction, which leaves the highest bit in the flags.
global_asm!(
    ".pushsection .text.__pcce_trace_came_back,\"ax\",@progbits",
    ".globl __pcce_trace_came_back",
    ".type __pcce_trace_came_back,@function",
    ".p2align 4",
    "__pcce_trace_came_back:",
    ".cfi_startproc",
    "mov r11, qword ptr [rip + __pcce_trace@GOTTPOFF]",
    "shl qword ptr fs:[r11], 1",
    "js 2f",
    "ret",
    "2:",
    "push rax",
    ".cfi_def_cfa_offset 16",
    "push rcx",
    ".cfi_def_cfa_offset 24",
    "push rdx",
    ".cfi_def_cfa_offset 32",
    "lea r11, [rip + {came_back_slow}]",
    "jmp __pcce_trace_slow",
    ".cfi_endproc",
    ".size __pcce_trace_came_back, . - __pcce_trace_came_back",
    ".popsection",
    came_back_slow = sym came_back_slow,
);

// Calls the function at %r11 with the return address and the stack pointer of emitted code, and keeps all registers.
// Three are saved already: %rax, %rcx, %rdx. The rest of the stack below the saved registers is for the vector
// registers.
global_asm!(
    ".pushsection .text.__pcce_trace_slow,\"ax\",@progbits",
    ".hidden __pcce_trace_slow",
    ".globl __pcce_trace_slow",
    ".type __pcce_trace_slow,@function",
    ".p2align 4",
    "__pcce_trace_slow:",
    ".cfi_startproc",
    ".cfi_def_cfa_offset 32",
    "push rsi",
    ".cfi_def_cfa_offset 40",
    "push rdi",
    ".cfi_def_cfa_offset 48",
    "push r8",
    ".cfi_def_cfa_offset 56",
    "push r9",
    ".cfi_def_cfa_offset 64",
    "push r10",
    ".cfi_def_cfa_offset 72",
    "push rbp",
    ".cfi_def_cfa_offset 80",
    ".cfi_offset rbp, -80",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push r11",
    "mov eax, dword ptr [rip + {vectors}]",
    "test eax, eax",
    "jne 6f",
    // Code for every processor changes only the lower parts of the first vector registers.
    "sub rsp, 512",
    "and rsp, -64",
    "fxsave64 [rsp]",
    "call {detect}",
    "fxrstor64 [rsp]",
    "lea rsp, [rbp - 8]",
    "mov eax, dword ptr [rip + {vectors}]",
    "6:",
    "mov ecx, dword ptr [rip + {vectors} + 4]",
    "sub rsp, rcx",
    "and rsp, -64",
    "cmp eax, 1",
    "je 7f",
    "xor ecx, ecx",
    "mov qword ptr [rsp + 512], rcx",
    "mov qword ptr [rsp + 520], rcx",
    "mov qword ptr [rsp + 528], rcx",
    "mov qword ptr [rsp + 536], rcx",
    "mov qword ptr [rsp + 544], rcx",
    "mov qword ptr [rsp + 552], rcx",
    "mov qword ptr [rsp + 560], rcx",
    "mov qword ptr [rsp + 568], rcx",
    "xor edx, edx",
    "xsave64 [rsp]",
    "mov rdi, qword ptr [rbp + 72]",
    "lea rsi, [rbp + 80]",
    "call qword ptr [rbp - 8]",
    "mov eax, dword ptr [rip + {vectors}]",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "jmp 8f",
    "7:",
    "fxsave64 [rsp]",
    "mov rdi, qword ptr [rbp + 72]",
    "lea rsi, [rbp + 80]",
    "call qword ptr [rbp - 8]",
    "fxrstor64 [rsp]",
    "8:",
    "mov rsp, rbp",
    ".cfi_def_cfa_register rsp",
    "pop rbp",
    ".cfi_def_cfa_offset 72",
    ".cfi_same_value rbp",
    "pop r10",
    ".cfi_def_cfa_offset 64",
    "pop r9",
    ".cfi_def_cfa_offset 56",
    "pop r8",
    ".cfi_def_cfa_offset 48",
    "pop rdi",
    ".cfi_def_cfa_offset 40",
    "pop rsi",
    ".cfi_def_cfa_offset 32",
    "pop rdx",
    ".cfi_def_cfa_offset 24",
    "pop rcx",
    ".cfi_def_cfa_offset 16",
    "pop rax",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size __pcce_trace_slow, . - __pcce_trace_slow",
    ".popsection",
    vectors = sym vectors,
    detect = sym detect,
);

// Both are jumps to Rust, with the return address and the stack pointer of emitted code after the arguments.
global_asm!(
    ".pushsection .text.__pcce_trace_landed,\"ax\",@progbits",
    ".globl __pcce_trace_landed",
    ".type __pcce_trace_landed,@function",
    ".p2align 4",
    "__pcce_trace_landed:",
    ".cfi_startproc",
    "mov rdx, qword ptr [rsp]",
    "lea rcx, [rsp + 8]",
    "jmp {landed}",
    ".cfi_endproc",
    ".size __pcce_trace_landed, . - __pcce_trace_landed",
    ".globl __pcce_trace_returned",
    ".type __pcce_trace_returned,@function",
    ".p2align 4",
    "__pcce_trace_returned:",
    ".cfi_startproc",
    "mov rcx, qword ptr [rsp]",
    "lea r8, [rsp + 8]",
    "jmp {returned}",
    ".cfi_endproc",
    ".size __pcce_trace_returned, . - __pcce_trace_returned",
    ".popsection",
    landed = sym landed,
    returned = sym returned,
);

// The hash of `abi::trace::hash`.
global_asm!(
    ".pushsection .text.__pcce_trace_event,\"ax\",@progbits",
    ".globl __pcce_trace_event",
    ".type __pcce_trace_event,@function",
    ".p2align 4",
    "__pcce_trace_event:",
    ".cfi_startproc",
    "push rax",
    ".cfi_def_cfa_offset 16",
    "push rcx",
    ".cfi_def_cfa_offset 24",
    "mov r11, qword ptr [rip + __pcce_trace@GOTTPOFF]",
    "inc qword ptr fs:[r11 + {events}]",
    "mov rax, qword ptr fs:[r11 + {hash}]",
    "rol rax, 5",
    "xor rax, rdi",
    "movabs rcx, 0x9e3779b97f4a7c15",
    "imul rax, rcx",
    "mov qword ptr fs:[r11 + {hash}], rax",
    "pop rcx",
    ".cfi_def_cfa_offset 16",
    "pop rax",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size __pcce_trace_event, . - __pcce_trace_event",
    ".popsection",
    events = const offset_of!(Block, events),
    hash = const offset_of!(Block, hash),
);

/// Returns whether a thread at this instruction has stored its pending word, and [`Block::next`] says so, but
/// [`Block::pending`] does not yet.
pub fn stored(instruction: usize) -> bool {
    unsafe extern "C" {
        static __pcce_trace_stored_flush: u8;
        static __pcce_trace_stored_enter: u8;
    }
    [&raw const __pcce_trace_stored_flush, &raw const __pcce_trace_stored_enter]
        .iter()
        .any(|at| at.addr() == instruction)
}

/// Returns whether an instruction is one of those that flush or enter, which have read something of the block.
pub fn within(instruction: usize) -> bool {
    unsafe extern "C" {
        static __pcce_trace_flush: u8;
        static __pcce_trace_end_flush: u8;
        static __pcce_trace_enter: u8;
        static __pcce_trace_end_enter: u8;
    }
    let stubs = [
        (&raw const __pcce_trace_flush, &raw const __pcce_trace_end_flush),
        (&raw const __pcce_trace_enter, &raw const __pcce_trace_end_enter),
    ];
    stubs.iter().any(|(from, to)| (from.addr()..to.addr()).contains(&instruction))
}
