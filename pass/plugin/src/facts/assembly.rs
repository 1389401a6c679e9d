//! Inline assembly, and the names in it.

use pcce_model::slice::Assembly;

use crate::llvm::{Function, Module};

/// Directives that make names of other words, or include text of files.
const MAKING_NAMES: [&str; 4] = [".macro", ".irp", ".altmacro", ".include"];

/// The names that assembly of the module, and in its functions, may use. Too many names do no harm.
pub fn names(module: Module<'_>) -> Assembly {
    let mut assembly = Assembly::default();
    add_names(&module.asm(), &mut assembly);
    for function in module.functions() {
        texts(function).for_each(|text| add_names(&text, &mut assembly));
    }
    assembly
}

/// Returns whether there is assembly with any text in the function.
pub fn is_in(function: Function<'_>) -> bool {
    texts(function).any(|text| !text.is_empty())
}

fn texts(function: Function<'_>) -> impl Iterator<Item = String> {
    let calls = function.instructions().filter_map(|instruction| instruction.as_call());
    calls.filter_map(|call| call.called().asm_text())
}

fn add_names(text: &str, assembly: &mut Assembly) {
    assembly.opaque |= MAKING_NAMES.iter().any(|directive| text.contains(directive));
    // A quoted name may contain any character.
    assembly.names.extend(text.split('"').skip(1).step_by(2).map(str::to_owned));
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
    let words = text.split(|c| !is_name(c)).flat_map(|word| [word, word.trim_start_matches('$')]);
    let begins = |word: &&str| word.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '.' | '$'));
    assembly.names.extend(words.filter(begins).map(str::to_owned));
}
