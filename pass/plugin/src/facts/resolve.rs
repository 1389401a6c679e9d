//! The callees of calls.

use crate::llvm::{Function, LinkageFacts, Operand};

/// The callee of a call.
pub enum Target<'m> {
    /// Inline assembly, with its text.
    Asm(String),
    /// One of LLVM's intrinsics.
    Intrinsic(Function<'m>),
    /// Any function that a pointer may lead to.
    Pointer,
    Function {
        /// The function.
        value: Function<'m>,
        /// True if its definition in this module is the one that runs.
        exact: bool,
    },
}

/// The authority that decides which definition of a name runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// The module. It is the whole program after link-time resolution, so a definition in a comdat group is
    /// the one that was kept.
    Program,
    /// The definition's linkage.
    Linkage,
    /// The linker. It binds the skeleton's calls as it will bind those of the code. Options and tools may
    /// bind a name that the module defines to another function (`-z muldefs`, `--defsym`, `objcopy
    /// --weaken`).
    Linker,
}

/// Returns whether the function's definition in this module is the one that runs.
pub fn is_exact(function: Function<'_>, binding: Binding) -> bool {
    !function.is_intrinsic() && runs(function.linkage(), binding)
}

/// Returns whether the definition with this linkage is the one that runs.
fn runs(linkage: LinkageFacts, binding: Binding) -> bool {
    linkage.exact
        && (linkage.local
            || match binding {
                Binding::Program => true,
                Binding::Linkage => !linkage.comdat,
                Binding::Linker => linkage.by_local_name,
            })
}

/// The callee of an operand.
pub fn resolve(called: Operand<'_>, binding: Binding) -> Target<'_> {
    if let Some(text) = called.asm_text() {
        return Target::Asm(text);
    }
    let mut value = called;
    let (mut all_exact, mut own) = (true, false);
    while let Some(alias) = value.as_alias() {
        let linkage = alias.linkage();
        all_exact &= runs(linkage, binding);
        // A local name means the body in this object, whatever function runs by the body's other name.
        own |= all_exact && linkage.local;
        value = alias.aliasee();
    }
    match value.as_function() {
        None => Target::Pointer,
        Some(value) if value.is_intrinsic() => Target::Intrinsic(value),
        Some(value) => Target::Function { value, exact: own || all_exact && runs(value.linkage(), binding) },
    }
}

/// The name by which a call names a function that may be replaced: the alias's name, if it goes through one.
pub fn name_of(called: Operand<'_>, function: Function<'_>) -> String {
    called.as_alias().map_or_else(|| function.name(), |alias| alias.name())
}
