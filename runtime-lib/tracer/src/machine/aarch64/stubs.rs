//! The definition of the thread's block, and the functions of the tracer that are called often, or with registers that
//! must be kept, in assembly. They may change x16 and x17, which the linker's stubs change, and the flags.
//!
//! | path | instructions, with the return |
//! |---|---|
//! | a full word is written | 17 |
//! | the function that is expected is entered | 29 |
//! | another function in the cache is entered | 31 |
//! | another function in the cache is entered, and the word is full | 46 |
//! | a function that is left out has come back | 9 |
//! | an event of verify mode | 17 |
//!
//! `__pcce_trace_enter` is called where the caller has not saved its own return address yet, which is in x17, and comes
//! back in x30. So the unwind tables have a column of its own, that of x16, for the place where a stub returns to.
//!
//! The frame that all of them have ([`SLOW`]): x0 to x3, the value of x30 after the return, and the place where it
//! returns to.
//!
//! A word is stored before [`Block::next`](crate::abi::trace::Block) says so, and this before the pending bits are one
//! again: an interrupting handler that finds the thread at one of [`stored`] knows that the pending bits are written.

use core::arch::global_asm;
use core::mem::offset_of;

use crate::abi::trace::{ALIGN, Block, CACHE, FULL, Order, SIZE};
use crate::area::Fast;
use crate::events::{came_back_slow, enter_slow, flush_slow, landed, returned};

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
        && FULL == 1 << 53
);

/// The thread's block into x16, by way of x17.
macro_rules! block {
    () => {
        "mrs x16, tpidr_el0
        adrp x17, :gottprel:__pcce_trace
        ldr x17, [x17, :gottprel_lo12:__pcce_trace]
        add x16, x16, x17"
    };
}

global_asm!(
    ".pushsection .text.__pcce_trace_flush,\"ax\",@progbits",
    ".globl __pcce_trace_flush",
    ".type __pcce_trace_flush,@function",
    ".p2align 4",
    "__pcce_trace_flush:",
    ".cfi_startproc",
    ".cfi_return_column x16",
    ".cfi_register x16, x30",
    "stp x0, x1, [sp, #-48]!",
    ".cfi_def_cfa_offset 48",
    block!(),
    "ldr x0, [x16, {cache}]",
    "ldr x17, [x16, {next}]",
    "ldr x0, [x0, {limit}]",
    "cmp x17, x0",
    "b.hs 2f",
    "ldr x0, [x16]",
    "mov x1, #1",
    "str x0, [x17], #8",
    "str x17, [x16, {next}]",
    ".hidden __pcce_trace_stored_flush",
    ".globl __pcce_trace_stored_flush",
    "__pcce_trace_stored_flush:",
    "str x1, [x16]",
    ".cfi_remember_state",
    "ldp x0, x1, [sp], #48",
    ".cfi_def_cfa_offset 0",
    "ret",
    ".cfi_restore_state",
    "2:",
    "stp x2, x3, [sp, #16]",
    "stp x30, x30, [sp, #32]",
    "adrp x16, {flush_slow}",
    "add x16, x16, :lo12:{flush_slow}",
    "b __pcce_trace_slow",
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

// 10 more bits fit into the word where the pending bits are below FULL. The place in the cache is that of
// `abi::trace::cache_index`: the address of the function is 8 bytes before the one in x30, and a multiple of 4.
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
    ".cfi_return_column x16",
    ".cfi_register x16, x30",
    ".cfi_register x30, x17",
    "stp x0, x1, [sp, #-48]!",
    ".cfi_def_cfa_offset 48",
    "stp x2, x3, [sp, #16]",
    "stp x17, x30, [sp, #32]",
    ".cfi_offset x30, -16",
    ".cfi_offset x16, -8",
    block!(),
    "ldr x0, [x16, {cache}]",
    "sub x1, x30, #4",
    "ubfx x1, x1, #4, #8",
    "8:",
    "ldr x2, [x0, x1, lsl #3]",
    "cmp x2, x30",
    "b.ne 3f",
    "ldr x3, [x16]",
    "lsr x2, x3, #53",
    "cbnz x2, 2f",
    "ldrb w2, [x0, {last}]",
    "strb w1, [x0, {last}]",
    "add x2, x0, x2",
    "ldrb w17, [x2, {followed}]",
    "cmp w17, w1",
    "b.ne 4f",
    "lsl x3, x3, #2",
    "orr x3, x3, #3",
    "5:",
    "str x3, [x16]",
    ".cfi_remember_state",
    "ldp x2, x3, [sp, #16]",
    "ldp x30, x16, [sp, #32]",
    ".cfi_same_value x16",
    ".cfi_same_value x30",
    "ldp x0, x1, [sp], #48",
    ".cfi_def_cfa_offset 0",
    "ret x16",
    ".cfi_restore_state",
    // Another function than expected.
    "4:",
    "strb w1, [x2, {followed}]",
    "lsl x3, x3, #10",
    "add x3, x3, x1",
    "add x3, x3, #512",
    "b 5b",
    "2:",
    "ldr x2, [x16, {next}]",
    "ldr x17, [x0, {limit}]",
    "cmp x2, x17",
    // The next chunk has an empty cache.
    "b.hs 3f",
    "str x3, [x2], #8",
    "mov x3, #1",
    "str x2, [x16, {next}]",
    ".hidden __pcce_trace_stored_enter",
    ".globl __pcce_trace_stored_enter",
    "__pcce_trace_stored_enter:",
    "str x3, [x16]",
    "b 8b",
    // The function is not in the cache.
    "3:",
    "adrp x16, {enter_slow}",
    "add x16, x16, :lo12:{enter_slow}",
    "b __pcce_trace_slow",
    ".cfi_endproc",
    ".hidden __pcce_trace_end_enter",
    ".globl __pcce_trace_end_enter",
    "__pcce_trace_end_enter:",
    ".size __pcce_trace_enter, . - __pcce_trace_enter",
    ".popsection",
    cache = const offset_of!(Block, cache),
    next = const offset_of!(Block, next),
    limit = const offset_of!(Fast, limit),
    last = const offset_of!(Fast, order) + Order::LAST,
    followed = const offset_of!(Fast, order) + Order::NEXT,
    enter_slow = sym enter_slow,
);

global_asm!(
    ".pushsection .text.__pcce_trace_came_back,\"ax\",@progbits",
    ".globl __pcce_trace_came_back",
    ".type __pcce_trace_came_back,@function",
    ".p2align 4",
    "__pcce_trace_came_back:",
    ".cfi_startproc",
    ".cfi_return_column x16",
    ".cfi_register x16, x30",
    block!(),
    "ldr x17, [x16]",
    "lsl x17, x17, #1",
    "str x17, [x16]",
    ".hidden __pcce_trace_end_came_back",
    ".globl __pcce_trace_end_came_back",
    "__pcce_trace_end_came_back:",
    "tbnz x17, #63, 2f",
    "ret",
    "2:",
    "stp x0, x1, [sp, #-48]!",
    ".cfi_def_cfa_offset 48",
    "stp x2, x3, [sp, #16]",
    "stp x30, x30, [sp, #32]",
    "adrp x16, {came_back_slow}",
    "add x16, x16, :lo12:{came_back_slow}",
    "b __pcce_trace_slow",
    ".cfi_endproc",
    ".size __pcce_trace_came_back, . - __pcce_trace_came_back",
    ".popsection",
    came_back_slow = sym came_back_slow,
);

/// The bytes that `__pcce_trace_slow` adds to the frame, below x0 to x3: the frame record, the function's address, x18,
/// and x4 to x15.
const SLOW: usize = 128;

/// An instruction for each register of a kind, of which there are 16 or 32.
macro_rules! each {
    (16, $instruction:literal) => {
        concat!(".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n", $instruction, "\n.endr")
    };
    (32, $instruction:literal) => {
        concat!(
            ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, ",
            "16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31\n",
            $instruction,
            "\n.endr"
        )
    };
}

/// Calls the function of `__pcce_trace_slow`.
macro_rules! call {
    () => {
        "ldr x0, [x29, {slow} + 40]
        add x1, x29, {slow} + 48
        ldr x16, [x29, #16]
        blr x16"
    };
}

// Calls the function at x16 with the return address and the stack pointer of emitted code, and keeps all registers. The
// upper part of the frame is there already. The stack below it is for the vector registers: if they are scalable, both
// code for every processor and the kernel change the parts that they do not know.
//
// `getauxval` reads a variable that is set before any code of the program runs. It is not called through the procedure
// linkage table, since binding its name would change registers.
global_asm!(
    ".pushsection .text.__pcce_trace_slow,\"ax\",@progbits",
    ".arch_extension sve",
    ".hidden __pcce_trace_slow",
    ".globl __pcce_trace_slow",
    ".type __pcce_trace_slow,@function",
    ".p2align 4",
    "__pcce_trace_slow:",
    ".cfi_startproc",
    ".cfi_return_column x16",
    ".cfi_def_cfa_offset 48",
    ".cfi_offset x30, -16",
    ".cfi_offset x16, -8",
    "sub sp, sp, {slow}",
    ".cfi_def_cfa_offset 48 + {slow}",
    "stp x29, x30, [sp]",
    ".cfi_offset x29, -48 - {slow}",
    "mov x29, sp",
    ".cfi_def_cfa_register x29",
    "stp x16, x18, [sp, #16]",
    "stp x4, x5, [sp, #32]",
    "stp x6, x7, [sp, #48]",
    "stp x8, x9, [sp, #64]",
    "stp x10, x11, [sp, #80]",
    "stp x12, x13, [sp, #96]",
    "stp x14, x15, [sp, #112]",
    "mov w0, {hwcap}",
    "adrp x16, :got:getauxval",
    "ldr x16, [x16, :got_lo12:getauxval]",
    "blr x16",
    "tbnz x0, {sve}, 6f",
    "sub sp, sp, #512",
    each!(32, "str q\\n, [sp, #16 * \\n]"),
    call!(),
    each!(32, "ldr q\\n, [sp, #16 * \\n]"),
    "b 8f",
    // The predicates and the register of first faults take less than 3 vectors.
    "6:",
    "addvl sp, sp, #-32",
    "addvl sp, sp, #-3",
    each!(16, "str p\\n, [sp, #\\n, mul vl]"),
    "rdffr p0.b",
    "str p0, [sp, #16, mul vl]",
    each!(32, "str z\\n, [sp, #3 + \\n, mul vl]"),
    call!(),
    each!(32, "ldr z\\n, [sp, #3 + \\n, mul vl]"),
    "ldr p0, [sp, #16, mul vl]",
    "wrffr p0.b",
    each!(16, "ldr p\\n, [sp, #\\n, mul vl]"),
    "8:",
    "mov sp, x29",
    "ldp x14, x15, [sp, #112]",
    "ldp x12, x13, [sp, #96]",
    "ldp x10, x11, [sp, #80]",
    "ldp x8, x9, [sp, #64]",
    "ldp x6, x7, [sp, #48]",
    "ldp x4, x5, [sp, #32]",
    "ldr x18, [sp, #24]",
    "ldr x29, [sp]",
    ".cfi_same_value x29",
    "add sp, sp, {slow}",
    ".cfi_def_cfa sp, 48",
    "ldp x2, x3, [sp, #16]",
    "ldp x30, x16, [sp, #32]",
    ".cfi_same_value x16",
    ".cfi_same_value x30",
    "ldp x0, x1, [sp], #48",
    ".cfi_def_cfa_offset 0",
    "ret x16",
    ".cfi_endproc",
    ".size __pcce_trace_slow, . - __pcce_trace_slow",
    ".popsection",
    slow = const SLOW,
    hwcap = const libc::AT_HWCAP,
    sve = const libc::HWCAP_SVE.trailing_zeros(),
);

// Both are jumps to Rust, with the return address and the stack pointer of emitted code after the arguments.
global_asm!(
    ".pushsection .text.__pcce_trace_landed,\"ax\",@progbits",
    ".globl __pcce_trace_landed",
    ".type __pcce_trace_landed,@function",
    ".p2align 4",
    "__pcce_trace_landed:",
    ".cfi_startproc",
    "mov x2, x30",
    "mov x3, sp",
    "b {landed}",
    ".cfi_endproc",
    ".size __pcce_trace_landed, . - __pcce_trace_landed",
    ".globl __pcce_trace_returned",
    ".type __pcce_trace_returned,@function",
    ".p2align 4",
    "__pcce_trace_returned:",
    ".cfi_startproc",
    "mov x3, x30",
    "mov x4, sp",
    "b {returned}",
    ".cfi_endproc",
    ".size __pcce_trace_returned, . - __pcce_trace_returned",
    ".popsection",
    landed = sym landed,
    returned = sym returned,
);

// The hash of `abi::trace::hash`. The convention leaves x0 to x8 to the callee.
global_asm!(
    ".pushsection .text.__pcce_trace_event,\"ax\",@progbits",
    ".globl __pcce_trace_event",
    ".type __pcce_trace_event,@function",
    ".p2align 4",
    "__pcce_trace_event:",
    ".cfi_startproc",
    block!(),
    "ldr x17, [x16, {events}]",
    "add x17, x17, #1",
    "str x17, [x16, {events}]",
    "ldr x17, [x16, {hash}]",
    "ror x17, x17, #64 - 5",
    "eor x17, x17, x0",
    "mov x1, #0x7c15",
    "movk x1, #0x7f4a, lsl #16",
    "movk x1, #0x79b9, lsl #32",
    "movk x1, #0x9e37, lsl #48",
    "mul x17, x17, x1",
    "str x17, [x16, {hash}]",
    "ret",
    ".cfi_endproc",
    ".size __pcce_trace_event, . - __pcce_trace_event",
    ".popsection",
    events = const offset_of!(Block, events),
    hash = const offset_of!(Block, hash),
);

/// Returns whether an instruction is one of those that come back, which have read something of the block.
pub fn comes_back(instruction: usize) -> bool {
    unsafe extern "C" {
        static __pcce_trace_came_back: u8;
        static __pcce_trace_end_came_back: u8;
    }
    let [from, to] = [&raw const __pcce_trace_came_back, &raw const __pcce_trace_end_came_back];
    (from.addr()..to.addr()).contains(&instruction)
}
