//! What a call calls.

use crate::llvm::{Function, LinkageFacts, Operand};

/// What is called.
pub enum Target<'m> {
    /// Inline assembly, with its text.
    Asm(String),
    /// One of LLVM's intrinsics.
    Intrinsic(Function<'m>),
    /// Whatever a pointer leads to.
    Pointer,
    /// A function.
    Function {
        /// It.
        value: Function<'m>,
        /// Whether its definition in this module is the one that runs.
        exact: bool,
    },
}

/// Whether the function's definition in this module is the one that runs.
pub fn is_exact(function: Function<'_>, whole_program: bool) -> bool {
    !function.is_intrinsic() && runs(function.linkage(), whole_program)
}

/// Whether the definition with this linkage is the one that runs.
fn runs(linkage: LinkageFacts, whole_program: bool) -> bool {
    linkage.exact && (linkage.local || !linkage.comdat || whole_program)
}

/// What a called operand is.
pub fn resolve(called: Operand<'_>, whole_program: bool) -> Target<'_> {
    if let Some(text) = called.asm_text() {
        return Target::Asm(text);
    }
    let mut value = called;
    let (mut all_exact, mut own) = (true, false);
    while let Some(alias) = value.as_alias() {
        let linkage = alias.linkage();
        all_exact &= runs(linkage, whole_program);
        // A local name stands for the body in this object, whatever runs by the function's own name.
        own |= all_exact && linkage.local;
        value = alias.aliasee();
    }
    match value.as_function() {
        None => Target::Pointer,
        Some(value) if value.is_intrinsic() => Target::Intrinsic(value),
        Some(value) => {
            Target::Function { value, exact: own || all_exact && runs(value.linkage(), whole_program) }
        }
    }
}

/// The name by which a function is called that another one may replace: that of the alias, where it is one.
pub fn name_of(called: Operand<'_>, function: Function<'_>) -> String {
    called.as_alias().map_or_else(|| function.name(), |alias| alias.name())
}
