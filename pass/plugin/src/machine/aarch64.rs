//! AArch64, AAPCS64.

use pcce_abi::machine::{self as abi, aarch64::MACHINE};
use pcce_model::bound::Width;

use super::{InlineAssembly, Machine, Refer, is_own_label};

pub struct AArch64;

impl Machine for AArch64 {
    fn shared(&self) -> &'static abi::Machine {
        &MACHINE
    }

    fn reference(&self, how: Refer, symbol: &str, label: &str) -> String {
        match how {
            Refer::Call => format!("bl {symbol}"),
            Refer::Data => format!("adrp x0, :got:{symbol}\nldr x0, [x0, :got_lo12:{symbol}]"),
            Refer::ThreadLocal => format!(
                ".type {symbol}, %tls_object\nadrp x0, :gottprel:{symbol}\nldr x0, [x0, :gottprel_lo12:{symbol}]"
            ),
            Refer::Nothing => format!(".reloc {label}b, R_AARCH64_NONE, {symbol}"),
        }
    }

    fn may_call(&self, assembly: &str) -> bool {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let mut rest = assembly;
        while let Some(start) = rest.find(is_word) {
            let word = &rest[start..];
            let (word, behind) = word.split_at(word.find(|c| !is_word(c)).unwrap_or(word.len()));
            rest = behind;
            let word = word.to_ascii_lowercase();
            // Returns, calls and jumps to an address in a register, with a signature or without.
            let begins = ["ret", "bl", "br", "braa", "brab"].iter().any(|op| word.starts_with(op));
            let is_data = matches!(&*word, "bls" | "brk" | "brb");
            if word.contains("call") || begins && !is_data {
                return true;
            }
            // The label is the last operand.
            let jumps =
                word == "b" || word.starts_with("b.") || matches!(&*word, "cbz" | "cbnz" | "tbz" | "tbnz");
            let line = behind.split(['\n', ';']).next().unwrap_or_default();
            let label = line.rsplit([',', ' ', '\t']).find(|operand| !operand.is_empty()).unwrap_or_default();
            if jumps && behind.starts_with([' ', '\t']) && !is_own_label(label) {
                return true;
            }
        }
        false
    }

    fn add_value(&self, _: Width, _: &str, _: usize) -> Option<InlineAssembly> {
        None
    }

    fn add_to_register(&self, width: Width, symbol: &str, offset: usize) -> InlineAssembly {
        let value = format!("{symbol}+{offset}");
        let (text, constraints) = match width.bits() {
            ..=12 => (format!("add $0, $1, :lo12:{value}"), "=r,r"),
            // The assembler refuses the modifier in the first one. The value's writer tells the second one from the
            // addition above by the kind of its relocation.
            13..=24 => (
                format!(
                    ".reloc ., R_AARCH64_ADD_ABS_LO12_NC, {value}\nadd $0, $1, #0, lsl #12\n\
                     .reloc ., R_AARCH64_LDST8_ABS_LO12_NC, {value}\nadd $0, $0, #0"
                ),
                "=r,r",
            ),
            25..=31 => (
                format!("movz $0, #:abs_g1_s:{value}\nmovk $0, #:abs_g0_nc:{value}\nadd $0, $0, $1"),
                "=&r,r",
            ),
            _ => (
                format!(
                    "movz $0, #:abs_g3:{value}\nmovk $0, #:abs_g2_nc:{value}\n\
                     movk $0, #:abs_g1_nc:{value}\nmovk $0, #:abs_g0_nc:{value}\nadd $0, $0, $1"
                ),
                "=&r,r",
            ),
        };
        InlineAssembly { text, constraints, pure: true }
    }

    fn signal_fence(&self) -> Option<InlineAssembly> {
        // The pass that joins two stores moves one of them over LLVM's fence.
        Some(InlineAssembly { text: String::new(), constraints: "~{memory}", pure: false })
    }

    fn load_bound(&self, name: &str) -> InlineAssembly {
        let name = name.replace('$', "$$");
        InlineAssembly {
            text: format!("adrp $0, :got:{name}\nldr $0, [$0, :got_lo12:{name}]"),
            constraints: "=r",
            pure: false,
        }
    }

    fn inserted_calls(&self) -> &'static str {
        include_str!("../../data/inserted-aarch64.txt")
    }

    fn canonical_frame_address(&self) -> (&'static str, u64) {
        ("llvm.sponentry.p0", 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembly_that_may_call_is_found() {
        for calls in [
            "bl f",
            "\tblr $0\n",
            "BLRAAZ x1",
            "ret",
            "mov x0, x1\nretaa",
            "br x16",
            "nop; b f",
            "b\tf",
            "b.eq f",
            "cbz x0, f",
            "tbnz x0, #3, f",
            "mycall $0",
            "svc #0; bl f",
        ] {
            assert!(AArch64.may_call(calls), "{calls}");
        }
        for silent in [
            "",
            "svc #0",
            "hvc #0",
            "b 1f\n1:",
            "b .Lend",
            "2: b.ne 2b",
            "cbz x0, 1f\n1:",
            "b ${2:l}",
            "brk #1",
            "yield",
            "// b",
            "dmb ish",
            "bic x0, x1, x2",
            "mrs x0, tpidr_el0",
            "1: ldaxr x0, [x1]\nstlxr w2, x0, [x1]\ncbnz w2, 1b",
        ] {
            assert!(!AArch64.may_call(silent), "{silent}");
        }
    }
}
