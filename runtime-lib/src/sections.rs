//! Sections that Rust cannot express: the thread's block, constructors, and a note.

use core::arch::global_asm;

use crate::abi::Tls;
use crate::runtimes::KNOWN;

// Rust has no stable way to define an initial-exec thread-local variable with a C name.
// Protected visibility would stop the executable's instance from serving shared libraries.
global_asm!(
    ".section .tbss.__pcce_tls,\"awT\",@nobits",
    ".globl __pcce_tls",
    ".type __pcce_tls,@object",
    ".size __pcce_tls,{size}",
    ".p2align 6",
    "__pcce_tls:",
    ".zero {size}",
    ".text",
    size = const size_of::<Tls>(),
);

// Constructors. They are called by the exported names, so that of several runtimes in a process, the executable's one
// is started. They come before the program's own constructors, which may take contexts: a process that has given
// numbers can no longer share a file of them.
global_asm!(
    ".pushsection .init_array.00001,\"aw\",@init_array",
    ".p2align 3",
    ".quad __pcce_threads_start",
    ".quad __pcce_crash_start",
    ".quad __pcce_sample_start",
    ".quad __pcce_numbers_start",
    ".popsection",
);

// Says where the runtime is ([`crate::runtimes`]): an ELF note, since linkers hide no note.
global_asm!(
    ".pushsection .note.pcce,\"a\",@note",
    ".p2align 2",
    ".long 5, 16, 2",
    ".asciz \"PCCE\"",
    ".p2align 2",
    "1:",
    ".quad {known} - 1b",
    ".weak __ehdr_start",
    ".hidden __ehdr_start",
    ".quad __ehdr_start - 1b",
    ".popsection",
    known = sym KNOWN,
);
