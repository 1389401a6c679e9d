//! Skeletons: objects whose code is generated at the link.
//!
//! A skeleton has the symbols, data and references of its module, and instead of each function's code this:
//!
//! | bytes | content |
//! |---|---|
//! | 4 | the mark: an instruction that ends the process, and two letters ([`ObjectCode::mark`]) |
//! | 4 | the function's number in its module, little endian; [`NO_FUNCTION`] of one that the pass leaves alone |
//! | 8 | the module's id, little endian |
//! | | calls of the functions that it calls by name and whose body another module may have, of equal lengths |
//!
//! So a file that any linker makes of skeletons says which body of each function was kept, and which function each call
//! by name reaches.
//!
//! [`ObjectCode::mark`]: crate::machine::objects::ObjectCode::mark

#[cfg(feature = "tables")]
use alloc::{format, string::String};

/// Section of skeletons that linkers keep: for each module [`MODULE_MAGIC`] and its id, 8 bytes each.
pub const MODULE_SECTION: &str = ".pcce.module";
/// The first bytes of a row of [`MODULE_SECTION`].
pub const MODULE_MAGIC: [u8; 8] = *b"PCCEMOD1";
/// As [`MODULE_SECTION`], of objects that have code.
pub const CODE_SECTION: &str = ".pcce.code";
/// The first bytes of a row of [`CODE_SECTION`].
pub const CODE_MAGIC: [u8; 8] = *b"PCCECOD1";
/// Section of generated objects that identifies the inputs of their code: the key that `pcce-ld` gives to the work, as
/// digits. Linkers leave it out.
pub const KEY_SECTION: &str = ".pcce.key";
/// Section of generated objects with how their calls leave the stack, a JSON document, if the program is to have a
/// hybrid encoding. Linkers leave it out.
pub const FRAMES_SECTION: &str = ".pcce.frames";
/// Section of generated objects with the values that are written into their code before they are linked. Each value is
/// two little endian numbers of 32 bits: indexes in the list of the module's values, of which the first value is
/// subtracted from the second. Code refers to it by relocations that say where the value is to be written. Linkers
/// leave it out.
pub const VALUES_SECTION: &str = ".pcce.values";
/// Section with the module's bitcode as code generation gets it. Linkers leave it out, like the next ones.
pub const BITCODE_SECTION: &str = ".pcce.bitcode";
/// Section with what the pass has read of the module: an unlinked record.
pub const FACTS_SECTION: &str = ".pcce.facts";
/// Section with how the module was compiled, a JSON document.
pub const COMMAND_SECTION: &str = ".pcce.command";
/// Section with the module's names of symbols that other modules can define or see, each followed by a zero byte: tools
/// can give an object's symbols other names, and the bitcode keeps its own.
pub const NAMES_SECTION: &str = ".pcce.names";
/// All skeletons refer to this symbol, which only `pcce-ld` gives to a link.
pub const ENCODED_SYMBOL: &str = "__pcce_encoded_by_pcce_ld";

/// The number of bytes before the calls.
pub const HEADER_LEN: usize = 16;
/// The number of functions that the pass leaves alone.
pub const NO_FUNCTION: u32 = u32::MAX;

/// The symbol of the site array of a module.
#[cfg(feature = "tables")]
#[must_use]
pub fn sites_symbol(module: u64) -> String {
    format!("__pcce_sites.{module:016x}")
}

/// The text after the function's own name in a [`function_symbol`].
pub const FUNCTION_SYMBOLS: &str = ".pcce_local.";

/// The symbol by which the tables, and other modules if it is local, refer to a function of a module.
#[cfg(feature = "tables")]
#[must_use]
pub fn function_symbol(name: &str, (module, function): (u64, u32)) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || ['_', '.', '$'].contains(&c);
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    format!("{name}{FUNCTION_SYMBOLS}{module:016x}.{function}")
}

/// The symbol of the place in a function after the event of its entry ([`crate::trace`]). Calls of other modules enter
/// it there if their own event says that they do.
#[cfg(feature = "tables")]
#[must_use]
pub fn entered_symbol(name: &str, place: (u64, u32)) -> String {
    format!("{}.entered", function_symbol(name, place))
}

/// The symbol of the place in a function of a library behind the check of its entry, where calls of the library's other
/// modules enter it.
#[cfg(feature = "tables")]
#[must_use]
pub fn checked_symbol(name: &str) -> String {
    format!("{name}{FUNCTION_SYMBOLS}checked")
}

/// The same for calls of the module of the function, which has this number: a label that is no symbol of the image.
#[cfg(feature = "tables")]
#[must_use]
pub fn checked_label(function: u32) -> String {
    format!(".L__pcce_checked.{function}")
}

/// The symbol of the names of functions that pointers may reach, in a program that counts its calls.
#[cfg(feature = "tables")]
pub const TARGET_NAMES: &str = "__pcce_target_names";

/// The symbol of the records of verify mode of a module's functions.
#[cfg(feature = "tables")]
#[must_use]
pub fn records_symbol(module: u64) -> String {
    format!("__pcce_records.{module:016x}")
}
