//! x86-64, System V psABI.

use pcce_abi::machine::{self as abi, x86_64::MACHINE};
use pcce_model::bound::Width;

use super::{InlineAssembly, Machine, Refer, is_own_label};

pub struct X86_64;

impl Machine for X86_64 {
    fn shared(&self) -> &'static abi::Machine {
        &MACHINE
    }

    fn reference(&self, how: Refer, symbol: &str, label: &str) -> String {
        // GNU as takes the first `@` for the beginning of a modifier, even in quotes. So the instruction
        // `movq symbol@how(%rip), %rax` is written as bytes, in the form that linkers relax.
        let load = |how: &str| format!(".byte 0x48, 0x8b, 5\n.reloc ., {how}, {symbol}-4\n.long 0");
        match how {
            Refer::Call => format!("call {symbol}"),
            Refer::Data => load("R_X86_64_REX_GOTPCRELX"),
            Refer::ThreadLocal => {
                format!(".type {symbol}, @tls_object\n{}", load("R_X86_64_GOTTPOFF"))
            }
            Refer::Nothing => format!(".reloc {label}b, R_X86_64_NONE, {symbol}"),
        }
    }

    fn may_call(&self, assembly: &str) -> bool {
        let is_call = |word: &str| {
            let word = word.to_ascii_lowercase();
            matches!(&*word, "ret" | "retq")
                || word.contains("call")
                    && !matches!(&*word, "syscall" | "vmcall" | "vmmcall" | "tdcall" | "seamcall")
        };
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let jumps_out = |(at, jump): (usize, &str)| {
            let before = assembly[..at].chars().next_back();
            let rest = assembly[at + jump.len()..].trim_start_matches(['q', '\t', ' ']);
            !before.is_some_and(is_word) && !is_own_label(rest)
        };
        assembly.split(|c| !is_word(c)).any(is_call) || assembly.match_indices("jmp").any(jumps_out)
    }

    fn add_value(&self, width: Width, symbol: &str, offset: usize) -> Option<InlineAssembly> {
        // Without the modifier the assembler takes 4 bytes for a value that it does not know.
        let modifier = match width.bits() {
            ..=7 => "@ABS8",
            8..=31 => "",
            _ => return None,
        };
        let text = format!("addq $${symbol}{modifier}+{offset}, $0");
        Some(InlineAssembly { text, constraints: "=*m,*m,~{flags}", pure: false })
    }

    fn inserted_calls(&self) -> &'static str {
        include_str!("../../data/inserted-x86_64.txt")
    }

    fn add_to_register(&self, _: Width, symbol: &str, offset: usize) -> InlineAssembly {
        InlineAssembly {
            text: format!("movabsq $${symbol}+{offset}, $0\naddq $1, $0"),
            constraints: "=&r,r,~{flags}",
            pure: true,
        }
    }

    fn signal_fence(&self) -> Option<InlineAssembly> {
        None
    }

    fn load_bound(&self, name: &str) -> InlineAssembly {
        let name = name.replace('$', "$$");
        InlineAssembly { text: format!("movq {name}@GOTPCREL(%rip), $0"), constraints: "=r", pure: false }
    }

    fn canonical_frame_address(&self) -> (&'static str, u64) {
        ("llvm.addressofreturnaddress.p0", size_of::<u64>() as u64)
    }
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
            assert!(X86_64.may_call(calls), "{calls}");
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
            assert!(!X86_64.may_call(silent), "{silent}");
        }
    }
}
