//! What a call calls.

use crate::llvm::Value;

/// What is called.
pub enum Target {
    /// Inline assembly, with its text.
    Asm(String),
    /// One of LLVM's intrinsics.
    Intrinsic(Value),
    /// Whatever a pointer leads to.
    Pointer,
    /// A function.
    Function {
        /// It.
        value: Value,
        /// Whether its definition in this module is the one that runs.
        exact: bool,
    },
}

/// Whether the function's definition in this module is the one that runs.
pub fn is_exact(function: Value, whole_program: bool) -> bool {
    matches!(resolve(function, whole_program), Target::Function { exact: true, .. })
}

/// What a called operand is.
pub fn resolve(called: Value, whole_program: bool) -> Target {
    if let Some(text) = called.asm_text() {
        return Target::Asm(text);
    }
    let exact = |v: Value| {
        let facts = v.linkage();
        facts.exact && (facts.local || !facts.comdat || whole_program)
    };
    let mut value = called;
    let mut all_exact = true;
    while let Some(aliasee) = value.aliasee() {
        all_exact &= exact(value);
        value = aliasee;
    }
    if !value.is_function() {
        Target::Pointer
    } else if value.is_intrinsic() {
        Target::Intrinsic(value)
    } else {
        Target::Function { value, exact: all_exact && exact(value) }
    }
}
