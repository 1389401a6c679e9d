//! Inline assembly: whether it may call, and what it names.

use pcce_model::slice::Assembly;

use crate::llvm::Module;

/// Directives that make names of other words, or text of files.
const MAKING_NAMES: [&str; 4] = [".macro", ".irp", ".altmacro", ".include"];

/// What the assembly of the module, and in its functions, may name. Words too many do no harm.
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
    // A name in quotes holds what it likes.
    assembly.names.extend(text.split('"').skip(1).step_by(2).map(str::to_owned));
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
    let words = text.split(|c| !is_name(c)).flat_map(|word| [word, word.trim_start_matches('$')]);
    let begins = |word: &&str| word.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '.' | '$'));
    assembly.names.extend(words.filter(begins).map(str::to_owned));
}

/// Whether the assembly may call something: any word with `call` in it, macros included, but for instructions that
/// enter the kernel or a hypervisor; and jumps to what is no label of its own, or to an address on the stack, as a
/// switch of stacks does. A push too many does no harm.
pub fn may_call(text: &str) -> bool {
    let is_call = |word: &str| {
        let word = word.to_ascii_lowercase();
        matches!(&*word, "ret" | "retq")
            || word.contains("call")
                && !matches!(&*word, "syscall" | "vmcall" | "vmmcall" | "tdcall" | "seamcall")
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let jumps_out = |(at, jump): (usize, &str)| {
        let before = text[..at].chars().next_back();
        let rest = text[at + jump.len()..].trim_start_matches(['q', '\t', ' ']);
        // `1f`, `.Lx`, and labels that are operands of `asm goto`.
        let label = rest.starts_with(|c: char| c.is_ascii_digit())
            || rest.starts_with(".L")
            || rest
                .strip_prefix("${")
                .is_some_and(|r| r.split('}').next().is_some_and(|r| r.ends_with(":l")));
        !before.is_some_and(is_word) && !label
    };
    text.split(|c| !is_word(c)).any(is_call) || text.match_indices("jmp").any(jumps_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembly_that_may_call_is_found() {
        for calls in [
            "call f",
            "\tcallq *$0\n",
            "lcall *(%rax)",
            "CALL_NOSPEC rax",
            "mycall $0",
            "jmp *$0",
            "nop; jmpq *%rax",
            "push $1\njmp\tf",
            "syscall; call f",
        ] {
            assert!(may_call(calls), "{calls}");
        }
        for silent in [
            "",
            "# nothing",
            "syscall",
            "vmcall",
            "jmp 1f\n1:",
            "jmp .Lend",
            "2: jmpq 2b",
            "jmp ${2:l}",
            "fjmp x",
        ] {
            assert!(!may_call(silent), "{silent}");
        }
    }
}
