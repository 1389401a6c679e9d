//! Comparisons of a call's pointer with functions that it probably leads to, which are then called directly
//! (the paper, §7; DACCE, §3.2, takes them from profiles).
//!
//! A direct call adds, or does nothing, where a call through a pointer would have to push because it closes a
//! cycle. Most calls through pointers seem to, since the open node stands for all targets. Comparing pays if
//! the targets are few. A profile knows them. Without one, they are guessed: functions of the call's type
//! whose address is taken, if there are few, such as the allocator that Lua calls through a pointer, or the
//! page cache of sqlite3. All other targets still get the push, so a wrong guess does no harm.

use std::collections::HashMap;

use pcce_encoding::{Encoding, Options};

use crate::handles::Code;
use pcce_model::{CallKind, NoCallback, Profile, Program};

use crate::facts::{Binding, is_exact};
use crate::llvm::{Function, Module, Signature};

/// A call with more guesses is not compared.
const MAX_GUESSES: usize = 3;

/// Compares calls through pointers that push with the functions that they probably reach. Returns whether the
/// module was changed, so that it must be read again.
pub fn compare_guessed<'m>(
    module: Module<'m>,
    no_callback: &NoCallback,
    program: &Program,
    code: &Code<'m>,
    encoding: &Encoding,
) -> bool {
    let mut guesses: HashMap<Signature<'m>, Vec<Function<'m>>> = HashMap::new();
    for function in module.functions() {
        let direct = if function.has_body() {
            is_exact(function, Binding::Program)
        } else {
            !function.is_intrinsic() && no_callback.contains(&function.name())
        };
        if direct && function.has_address_taken() {
            guesses.entry(function.signature()).or_default().push(function);
        }
    }
    let mut changed = false;
    for (id, function) in program.iter() {
        for (c, call) in function.calls.iter().enumerate() {
            let pushes = call.edge.is_some_and(|edge| encoding.edge(edge).pushes());
            if !pushes || call.kind != CallKind::Indirect {
                continue;
            }
            let call = code.call(id, c);
            let guesses = guesses.get(&call.signature()).filter(|guesses| guesses.len() <= MAX_GUESSES);
            for &target in guesses.into_iter().flatten() {
                changed |= module.compare_target(call, target).is_some();
            }
        }
    }
    changed
}

/// Compares calls through pointers that push with the functions that they reach most according to the
/// profile, and inserts the new calls into the profile. Returns whether the module was changed, so that it
/// must be read again.
pub fn compare_counted(
    profile: &mut Profile,
    program: &Program,
    code: &Code<'_>,
    encoding: &Encoding,
    options: &Options,
    binding: Binding,
) -> bool {
    let candidates = profile
        .candidates(program, encoding, options, |function| is_exact(code.function(function).value, binding));
    let compared = candidates.into_iter().filter(|candidate| {
        let call = code.call(candidate.function, candidate.call);
        code.compare_target(call, candidate.callee)
    });
    let compared: Vec<_> = compared.collect();
    profile.insert(program, &compared);
    !compared.is_empty()
}
