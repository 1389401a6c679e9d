//! The names in inline assembly.

use pcce_model::slice::Assembly;

use crate::llvm::Module;

/// Directives that make names of other words, or include text of files.
const MAKING_NAMES: [&str; 4] = [".macro", ".irp", ".altmacro", ".include"];

/// The names that assembly of the module, and in its functions, may use. Too many names do no harm.
pub fn names(module: Module<'_>) -> Assembly {
    let mut assembly = Assembly::default();
    add_names(&module.asm(), &mut assembly);
    for function in module.functions() {
        for call in function.instructions().filter_map(|instruction| instruction.as_call()) {
            if let Some(text) = call.called().asm_text() {
                add_names(&text, &mut assembly);
            }
        }
    }
    assembly
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
