//! Puts a module's dictionary fragment into its object file.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pcce_abi::{self as abi, layout, no_op};
use pcce_dictionary::code;
use pcce_dictionary::section::{SECTION, SITES_ADDRESS_OFFSET};
use pcce_model::link::Facts;

use crate::code::Code;
use crate::llvm::{Module, byte_directive};

/// Appends the fragment to the module, as assembly: LLVM gives a variable in a section of
/// its own the flags of loaded data, whatever the section's name.
pub fn emit(module: Module<'_>, fragment: &[u8], sites_name: &str) {
    let mut asm = String::with_capacity(fragment.len() * 3 + 256);
    let _ = writeln!(asm, ".pushsection {SECTION},\"\",@progbits");
    bytes(&mut asm, &fragment[..SITES_ADDRESS_OFFSET]);
    let _ = writeln!(asm, ".quad \"{sites_name}\"");
    bytes(&mut asm, &fragment[SITES_ADDRESS_OFFSET + 8..]);
    asm.push_str(".popsection\n");
    module.append_asm(&asm);
}

/// Appends the row of addresses of the module's functions (`pcce_dictionary::code`). `kept`: whether the function of
/// this number has code in the object.
pub fn emit_addresses<'m>(
    module: Module<'m>,
    functions: &Code<'m>,
    sites_name: &str,
    kept: impl Fn(usize) -> bool,
) {
    let mut asm = format!(".pushsection {},\"\",@progbits\n", code::SECTION);
    let _ = writeln!(asm, ".quad \"{sites_name}\", {}", functions.functions().len());
    let mut aliases = Vec::with_capacity(functions.functions().len());
    for (i, function) in functions.functions().iter().enumerate() {
        if !kept(i) {
            asm.push_str(".quad 0\n");
            continue;
        }
        let name = format!(".L__pcce_function.{i}");
        aliases.push(module.add_private_alias(&name, function.value));
        let _ = writeln!(asm, ".quad \"{name}\"");
    }
    asm.push_str(".popsection\n");
    module.append_asm(&asm);
    // What the compiler does after the pass must not take them away.
    module.keep_aliases(&aliases);
}

/// Appends the addresses of what the module reaches otherwise than by calls that are bound behind the link
/// (`pcce_dictionary::code`), by the names in object files. The references keep nothing in the program.
pub fn emit_reached(module: Module<'_>, names: &[String]) {
    let mut asm = format!(".pushsection {},\"\",@progbits\n", code::REACHED_SECTION);
    for (i, name) in names.iter().enumerate() {
        let _ = writeln!(asm, ".weakref .L__pcce_reached.{i}, \"{name}\"\n.quad .L__pcce_reached.{i}");
    }
    asm.push_str(".popsection\n");
    if !names.is_empty() {
        module.append_asm(&asm);
    }
}

/// Room for the module's additions of more than 31 bits, which the step behind the link fills in, and updates call.
pub fn emit_room(module: Module<'_>, facts: &Facts) {
    if facts.room == 0 {
        return;
    }
    let stubs = facts.calls.iter().flatten().filter(|call| call.stub.is_some()).count();
    let name = no_op::Name { kind: no_op::Kind::Stub, module: facts.module, index: stubs as u32 };
    let rest = facts.room as usize * no_op::WIDE_LEN - no_op::LEN;
    module.append_asm(&format!(
        ".pushsection .text.__pcce_room,\"axR\",@progbits\n.cfi_startproc\n{}\n.skip {rest},0xcc\n.cfi_endproc\n\
         .popsection\n",
        byte_directive(&name.to_bytes())
    ));
}

/// Whether [`emit_reached`] can write the name.
pub fn can_be_written(name: &str) -> bool {
    !name.contains(['"', '\\', '\n', '\0'])
}

/// Gives an image routines of its own that push in their callers' place, which all its modules share. They do what the
/// runtime's do (`runtime-lib/src/x86_64/push.rs`). In an executable the linker knows where the block is, so that they
/// need no register for that; what may be a shared library has only the one that stores 0.
pub fn emit_push_routines(module: Module<'_>, for_library: bool) {
    let block = abi::TLS_SYMBOL;
    let (id, top) = (layout::TLS_ID, layout::TLS_TOP);
    let (frame_prev, frame_id, relative) = (layout::FRAME_PREV, layout::FRAME_ID, layout::RELATIVE);
    if for_library {
        let load = format!("movq {block}@GOTTPOFF(%rip), %r11");
        let (id, top) = (format!("%fs:{id}(%r11)"), format!("%fs:{top}(%r11)"));
        let push = format!("movq %rsp, {top}\nmovq $0, {id}");
        let pop = format!(
            "{load}\nmovq {frame_id}(%rsp), %r10\nmovq %r10, {id}\nmovq {frame_prev}(%rsp), %r10\n\
             movq %r10, {top}\naddq $40, %rsp"
        );
        push_routine(module, abi::functions::PUSH_HERE, [&load, &id, &top, &push, &pop]);
        return;
    }
    // The frame is off the chain by the instruction that takes its first word off the stack.
    const { assert!(layout::FRAME_PREV == 0) };
    let (id, top) = (format!("%fs:{block}@TPOFF+{id}"), format!("%fs:{block}@TPOFF+{top}"));
    let pop = format!("popq {top}\n.cfi_def_cfa_offset 40\naddq $32, %rsp");
    let push = format!("movq %rsp, {top}\nmovq $0, {id}");
    let pop_id = format!("movq {frame_id}(%rsp), %r10\nmovq %r10, {id}\n{pop}");
    push_routine(module, abi::functions::PUSH_HERE, ["", &id, &top, &push, &pop_id]);
    let push = format!("leaq {relative}(%rsp), %r11\nmovq %r11, {top}");
    push_routine(module, abi::functions::PUSH_RELATIVE_HERE, ["", &id, &top, &push, &pop]);
}

/// One of these routines: `load` readies what the operands `id` and `top` need, `push` puts the frame on the chain,
/// and `pop` takes it off, and off the stack.
fn push_routine(module: Module<'_>, name: &str, [load, id, top, push, pop]: [&str; 5]) {
    module.append_asm(&format!(
        ".pushsection .text.{name},\"axGR\",@progbits,{name},comdat\n.weak {name}\n.hidden {name}\n\
         .type {name},@function\n.p2align 4\n{name}:\n.cfi_startproc\nsubq $16, %rsp\n.cfi_def_cfa_offset 24\npushq %r11\n\
         .cfi_def_cfa_offset 32\n{load}\npushq {id}\n.cfi_def_cfa_offset 40\npushq {top}\n.cfi_def_cfa_offset 48\n\
         {push}\ncallq *%r10\n{pop}\n.cfi_def_cfa_offset 8\nretq\n\
         .cfi_endproc\n.size {name}, . - {name}\n.popsection\n"
    ));
}

/// Says where a table of the module's is, for the step behind the link: in this section.
pub fn emit_table_address(module: Module<'_>, section: &str, sites_name: &str, table_name: &str) {
    let rows = format!(".quad \"{sites_name}\", \"{table_name}\"");
    module.append_asm(&format!(".pushsection {section},\"\",@progbits\n{rows}\n.popsection\n"));
}

/// The symbol of the path for crash reports (`runtime-lib/src/crash.rs`).
pub const CRASH_REPORT: &str = "__pcce_crash_report";
/// That of the path for verify mode's report (`runtime-lib/src/verify.rs`).
pub const VERIFY_REPORT: &str = "__pcce_verify_report";

/// Puts a path into the program, where the runtime finds it by the symbol.
pub fn emit_path(module: Module<'_>, symbol: &str, path: &Path) {
    let mut asm = format!(".pushsection .rodata.{symbol},\"a\",@progbits\n.weak {symbol}\n");
    let _ = writeln!(asm, ".type {symbol},@object\n{symbol}:");
    bytes(&mut asm, path.as_os_str().as_bytes());
    let _ = writeln!(asm, ".byte 0\n.size {symbol}, . - {symbol}\n.popsection");
    module.append_asm(&asm);
}

/// Says that the program has a hybrid encoding (`runtime-lib/src/offset.rs`).
pub fn emit_hybrid(module: Module<'_>) {
    let name = abi::HYBRID_SYMBOL;
    module.append_asm(&format!(
        ".pushsection .rodata.{name},\"a\",@progbits\n.weak {name}\n.type {name},@object\n{name}:\n.byte 1\n\
         .size {name}, . - {name}\n.popsection\n"
    ));
}

/// Appends bytes, as assembly.
pub fn bytes(asm: &mut String, bytes: &[u8]) {
    for line in bytes.chunks(4096) {
        asm.push_str(".ascii \"");
        for &b in line {
            match b {
                b'"' | b'\\' => asm.extend(['\\', b.into()]),
                0x20..0x7f => asm.push(b.into()),
                // Always three digits: what follows may be a digit.
                _ => asm.extend([
                    '\\',
                    (b'0' + (b >> 6)).into(),
                    (b'0' + (b >> 3 & 7)).into(),
                    (b'0' + (b & 7)).into(),
                ]),
            }
        }
        asm.push_str("\"\n");
    }
}
