//! The pass's knowledge about the machine for which it compiles. `shim/machine.h` is the part that needs
//! LLVM's C++ interface.

mod aarch64;
mod x86_64;

use pcce_abi::machine as abi;
use pcce_model::bound::Width;

use crate::llvm::Module;

pub trait Machine: Sync {
    /// The properties that pass, runtime and decoder share.
    fn shared(&self) -> &'static abi::Machine;

    /// Assembly that refers to a symbol so that the object needs it. `label`: a numeric label before the
    /// assembly.
    fn reference(&self, how: Refer, symbol: &str, label: &str) -> String;

    /// Returns whether inline assembly may call something; true too often does no harm. Returns count as
    /// calls, and so does every word that contains `call`, macros included, except instructions that enter
    /// the kernel or a hypervisor. Jumps count, except to a label of the assembly itself: a switch of stacks
    /// jumps to an address on the stack.
    fn may_call(&self, assembly: &str) -> bool;

    /// One instruction that adds `symbol + offset` to a word in memory, the operand 0; none if the machine
    /// has no such instruction for values of this width.
    fn add_value(&self, width: Width, symbol: &str, offset: usize) -> Option<InlineAssembly>;

    /// Instructions that add `symbol + offset` to the operand 1, for the other widths. The value is not loaded apart:
    /// LLVM would do that ahead of a loop, and keep all values of a function on the stack.
    fn add_to_register(&self, width: Width, symbol: &str, offset: usize) -> InlineAssembly;

    /// Assembly without instructions that keeps the stores above it from moving below it; none if a fence of LLVM
    /// does.
    fn signal_fence(&self) -> Option<InlineAssembly>;

    /// Instructions that load the address of the function to which the loader has bound a name.
    fn load_bound(&self, name: &str) -> InlineAssembly;

    /// The functions that this machine's code generator calls, besides those of all machines: names as in
    /// `data/inserted.txt`.
    fn inserted_calls(&self) -> &'static str;

    /// An intrinsic that returns an address, and how far the canonical frame address is above that.
    fn canonical_frame_address(&self) -> (&'static str, u64);
}

/// How code refers to a symbol.
pub enum Refer {
    /// By a call.
    Call,
    /// Through the global offset table.
    Data,
    /// As to a thread-local variable, by the model initial-exec.
    ThreadLocal,
    /// Only by a relocation that changes nothing.
    Nothing,
}

/// Inline assembly as LLVM takes it.
pub struct InlineAssembly {
    /// The instructions.
    pub text: String,
    /// The constraints of the operands.
    pub constraints: &'static str,
    /// It does nothing but make its result.
    pub pure: bool,
}

/// Returns whether text begins with a label of the assembly itself: `1f`, `.Lx`, or an operand of `asm goto`.
fn is_own_label(label: &str) -> bool {
    label.starts_with(|c: char| c.is_ascii_digit())
        || label.starts_with(".L")
        || label
            .strip_prefix("${")
            .is_some_and(|rest| rest.split('}').next().is_some_and(|rest| rest.ends_with(":l")))
}

/// All machines. Modules without a target triple, and those of other machines, are taken for modules of the
/// first: code generation reports what it cannot do.
const MACHINES: [&dyn Machine; 2] = [&x86_64::X86_64, &aarch64::AArch64];

impl Module<'_> {
    /// The machine for which the module is compiled.
    pub fn machine(self) -> &'static dyn Machine {
        let triple = self.triple();
        let name = triple.split('-').next().unwrap_or_default();
        MACHINES.into_iter().find(|machine| machine.shared().architecture == name).unwrap_or(MACHINES[0])
    }
}
