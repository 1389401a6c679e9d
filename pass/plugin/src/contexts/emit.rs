//! Puts a module's dictionary fragment into its object file.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pcce_abi as abi;
use pcce_dictionary::code;
use pcce_dictionary::section::{SECTION, SITES_ADDRESS_OFFSET};
use pcce_encoding::FunctionId;

use super::rewrite::Bodies;
use crate::handles::Code;
use crate::llvm::Module;

/// Appends the fragment to the module as assembly. LLVM would give a variable in a section of its own the
/// flags of loaded data, whatever the section's name.
pub fn emit(module: Module<'_>, fragment: &[u8], sites_name: &str) {
    let mut asm = String::with_capacity(fragment.len() * 3 + 256);
    let _ = writeln!(asm, ".pushsection {SECTION},\"\",@progbits");
    bytes(&mut asm, &fragment[..SITES_ADDRESS_OFFSET]);
    let _ = writeln!(asm, ".quad \"{sites_name}\"");
    bytes(&mut asm, &fragment[SITES_ADDRESS_OFFSET + 8..]);
    asm.push_str(".popsection\n");
    module.append_asm(&asm);
}

/// Appends the addresses of the module's functions (`pcce_dictionary::code`), and in another list those of the second
/// bodies. `kept` returns whether the function of a number has code in the object.
pub fn emit_addresses<'m>(
    module: Module<'m>,
    (first, second): Bodies<'_, 'm>,
    sites_name: &str,
    kept: impl Fn(usize) -> bool,
) {
    let mut asm = format!(".pushsection {},\"\",@progbits\n", code::SECTION);
    let mut aliases = Vec::new();
    let mut list = |code: &Code<'m>, label: &str, kept: &dyn Fn(usize) -> bool| {
        let _ = writeln!(asm, ".quad \"{sites_name}\", {}", code.functions().len());
        for (i, function) in code.functions().iter().enumerate() {
            if !kept(i) {
                asm.push_str(".quad 0\n");
                continue;
            }
            let name = format!("{label}.{i}");
            aliases.push(module.add_private_alias(&name, function.value));
            let _ = writeln!(asm, ".quad \"{name}\"");
        }
    };
    list(first, ".L__pcce_function", &kept);
    if let Some(second) = second {
        let has = |number: usize| second.has(FunctionId::new(number as u32));
        list(&second.code, ".L__pcce_second", &|number| kept(number) && has(number));
    }
    asm.push_str(".popsection\n");
    module.append_asm(&asm);
    // Later passes of the compiler must not remove the aliases.
    module.keep_aliases(&aliases);
}

/// Returns whether the name can be quoted in assembly.
pub fn can_be_written(name: &str) -> bool {
    !name.contains(['"', '\\', '\n', '\0'])
}

/// The symbol of the path for crash reports (`runtime-lib/src/crash.rs`).
pub const CRASH_REPORT: &str = "__pcce_crash_report";
/// The symbol of the path for verify mode's report (`runtime-lib/src/verify.rs`).
pub const VERIFY_REPORT: &str = "__pcce_verify_report";

/// Puts a path into the program; the runtime finds it by the symbol.
pub fn emit_path(module: Module<'_>, symbol: &str, path: &Path) {
    let mut asm = format!(".pushsection .rodata.{symbol},\"a\",@progbits\n.weak {symbol}\n");
    let _ = writeln!(asm, ".type {symbol},@object\n{symbol}:");
    bytes(&mut asm, path.as_os_str().as_bytes());
    let _ = writeln!(asm, ".byte 0\n.size {symbol}, . - {symbol}\n.popsection");
    module.append_asm(&asm);
}

/// Marks the program as one with a hybrid encoding (`runtime-lib/src/offset.rs`).
pub fn emit_hybrid(module: Module<'_>) {
    let name = abi::HYBRID_SYMBOL;
    module.append_asm(&format!(
        ".pushsection .rodata.{name},\"a\",@progbits\n.weak {name}\n.type {name},@object\n{name}:\n.byte 1\n\
         .size {name}, . - {name}\n.popsection\n"
    ));
}

/// Appends bytes as assembly.
pub fn bytes(asm: &mut String, bytes: &[u8]) {
    for line in bytes.chunks(4096) {
        asm.push_str(".ascii \"");
        for &b in line {
            match b {
                b'"' | b'\\' => asm.extend(['\\', b.into()]),
                0x20..0x7f => asm.push(b.into()),
                // Three digits, since the next character may be a digit.
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
