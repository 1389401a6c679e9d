//! Routines that push in their callers' place: whoever binds calls of a linked program lets those that must push go
//! through them.
//!
//! The frame lies in an activation of the routine's own, and holds the caller's state. So contexts do not show the
//! routine, as they do not show push thunks. All registers of arguments and results are left alone: there are `%r10`
//! and `%r11` to work with, which nothing holds across a call, and the stack. The callee finds the stack aligned, and
//! has no arguments there. Exceptions and `longjmp` pass: the caller stores the state that it found at its entry.
//!
//! Whoever interrupts finds either no frame on the chain, and the caller's id in the block; or the frame, and then the
//! id in it counts: the routine is the innermost activation, or the callee finds id 0 (a relative push: the frame's).
//! No part of the frame that is on the chain is ever below the stack pointer.
//!
//! | distance from the stack pointer, in bytes | what is there at the call |
//! |---|---|
//! | 0, 8, 16, 24 | the frame: previous, id, site, interned number (anything, as the site is not marked) |
//! | 32 | the callee (relative push), or padding |
//! | 40 | the return address |
//!
//! Without `endbr64`: no image with the runtime asks for indirect branch tracking, as nothing that rustc compiles has
//! these instructions.

use core::arch::global_asm;

use crate::abi::layout;

global_asm!(
    ".pushsection .text.__pcce_push,\"ax\",@progbits",
    ".globl __pcce_push",
    ".type __pcce_push,@function",
    ".p2align 4",
    "__pcce_push:",
    ".cfi_startproc",
    "sub rsp, 16",
    ".cfi_def_cfa_offset 24",
    "push r11",
    ".cfi_def_cfa_offset 32",
    "mov r11, qword ptr [rip + __pcce_tls@GOTTPOFF]",
    "push qword ptr fs:[r11 + {id}]",
    ".cfi_def_cfa_offset 40",
    "push qword ptr fs:[r11 + {top}]",
    ".cfi_def_cfa_offset 48",
    "mov qword ptr fs:[r11 + {top}], rsp",
    "mov qword ptr fs:[r11 + {id}], 0",
    "call r10",
    "mov r11, qword ptr [rip + __pcce_tls@GOTTPOFF]",
    "mov r10, qword ptr [rsp + {frame_id}]",
    "mov qword ptr fs:[r11 + {id}], r10",
    "mov r10, qword ptr [rsp + {frame_prev}]",
    "mov qword ptr fs:[r11 + {top}], r10",
    "add rsp, 40",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size __pcce_push, . - __pcce_push",
    ".popsection",
    id = const layout::TLS_ID,
    top = const layout::TLS_TOP,
    frame_prev = const layout::FRAME_PREV,
    frame_id = const layout::FRAME_ID,
);

global_asm!(
    ".pushsection .text.__pcce_push_relative,\"ax\",@progbits",
    ".globl __pcce_push_relative",
    ".type __pcce_push_relative,@function",
    ".p2align 4",
    "__pcce_push_relative:",
    ".cfi_startproc",
    "push r10",
    ".cfi_def_cfa_offset 16",
    "push r10",
    ".cfi_def_cfa_offset 24",
    "push r11",
    ".cfi_def_cfa_offset 32",
    "mov r11, qword ptr [rip + __pcce_tls@GOTTPOFF]",
    "push qword ptr fs:[r11 + {id}]",
    ".cfi_def_cfa_offset 40",
    "push qword ptr fs:[r11 + {top}]",
    ".cfi_def_cfa_offset 48",
    "lea r10, [rsp + {relative}]",
    "mov qword ptr fs:[r11 + {top}], r10",
    "call qword ptr [rsp + 32]",
    "mov r11, qword ptr [rip + __pcce_tls@GOTTPOFF]",
    "mov r10, qword ptr [rsp + {frame_prev}]",
    "mov qword ptr fs:[r11 + {top}], r10",
    "add rsp, 40",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size __pcce_push_relative, . - __pcce_push_relative",
    ".popsection",
    id = const layout::TLS_ID,
    top = const layout::TLS_TOP,
    frame_prev = const layout::FRAME_PREV,
    relative = const layout::RELATIVE,
);

// The frame is made by pushes.
const _: () = assert!(layout::FRAME_PREV == 0 && layout::FRAME_ID == 8 && layout::FRAME_SITE == 16);
