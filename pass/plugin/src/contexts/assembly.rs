//! The assembly of link mode: stubs, and the check of an entry.

use std::sync::LazyLock;

use pcce_abi::{self as abi, layout};

/// How a stub goes on behind its no-op, for a call by name and for one through a pointer: the first with room for what
/// a push needs.
pub const JUMPS: [&str; 2] = ["{disp32} jmp ${0:p}\n.byte 0xcc,0xcc", "jmp *%r10"];
/// Of a stub that can add, with room for that (`pcce_abi::stub`), and unwind tables for what will be there.
pub const ADDING_JUMPS: [&str; 2] = ["{disp32} jmp ${0:p}\n", "jmp *%r10\n.byte 0xcc,0xcc\n"];
pub const ADDING_ROOM: &str = ".cfi_def_cfa_offset 16\n.skip 20,0xcc\n.cfi_def_cfa_offset 8\n.byte 0xcc";

/// The check of a function's entry: who found by it that an open call has entered goes to the thunk, with what was on
/// the stack.
pub static CHECK: LazyLock<String> = LazyLock::new(|| {
    let (block, id, top, tag) = (abi::TLS_SYMBOL, layout::TLS_ID, layout::TLS_TOP, layout::RELATIVE);
    format!(
        "movq {block}@GOTTPOFF(%rip), %r11\ncmpq $$0, %fs:{id}(%r11)\njg 1f\ntestb $${tag}, %fs:{top}(%r11)\njne 1f\n\
         retq\n1:\naddq $$8, %rsp\njmp ${{0:p}}"
    )
});
