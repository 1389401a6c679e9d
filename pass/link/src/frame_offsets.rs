//! Hybrid encoding of several modules: measured frames of their code, and its description in the dictionary.
//!
//! Frames are known when code has been generated, and the encoding that relies on them changes the code. So
//! each object describes its frames, and the program is encoded again until the code has the frames that its
//! encoding relies on ([`Frames::learn`]).

use pcce_abi::skeleton::FRAMES_SECTION;
use pcce_dictionary as dictionary;
use pcce_encoding::FunctionId;
use pcce_model::Program;
use pcce_model::hybrid::{Measured, Names, Used};

use crate::Error;
use crate::added::Added;
use crate::{Module, Whole};

/// Names functions by the numbers of their modules and their names, since local functions of several modules
/// may share a name.
pub struct InModules<'a> {
    pub modules: &'a [Module],
    /// The places of functions.
    pub added: &'a Added<'a>,
    pub program: &'a Program,
}

fn name(module: usize, name: &str) -> String {
    format!("{module}/{name}")
}

impl Names for InModules<'_> {
    fn of(&self, function: FunctionId) -> String {
        name(self.added.place(function).0, &self.program[function].name)
    }

    fn called(&self, caller: FunctionId, callee: FunctionId) -> String {
        let (caller, _) = self.added.place(caller);
        let (module, number) = self.added.place(callee);
        let is_known =
            || self.modules[module].functions().get(number).is_some_and(|function| function.external);
        // Other modules call a local function by a name that is made for it.
        let known = if caller == module || is_known() { &*self.program[callee].name } else { "/" };
        name(caller, known)
    }
}

/// Joins the frames that the objects of the modules describe.
///
/// # Errors
/// An object has no description of its frames.
pub fn measured(modules: &[Module], objects: &[Vec<u8>]) -> Result<Measured, Error> {
    use object::{Object, ObjectSection};
    let mut all = Measured::default();
    for (m, (module, object)) in modules.iter().zip(objects).enumerate() {
        if module.functions().is_empty() {
            continue;
        }
        let file = object::File::parse(&**object).map_err(|what| Error::NotElf(what.to_string()))?;
        let section = file.section_by_name(FRAMES_SECTION).and_then(|section| section.data().ok());
        let missing = Error::Skeleton { id: module.id, section: FRAMES_SECTION };
        let own: Measured =
            section.and_then(|section| serde_json::from_slice(section).ok()).ok_or(missing)?;
        all.offsets.extend(own.offsets.into_iter().map(|(function, offset)| (name(m, &function), offset)));
        let callee = |callee: String| if callee.is_empty() { callee } else { name(m, &callee) };
        all.jumps.extend(own.jumps.into_iter().map(|(caller, to)| (name(m, &caller), callee(to))));
    }
    Ok(all)
}

/// The dictionary's description of the hybrid encoding. `stack_offsets` are those of the edges.
pub fn rows(whole: &Whole<'_>, used: &Used, stack_offsets: Vec<(u32, u32)>) -> dictionary::Hybrid {
    let order = whole.added.order_of_functions();
    let functions = || (0..).zip(&order);
    let sizes = functions().filter_map(|(number, id)| Some((number, used.frames[id.index()]?)));
    let unknown = functions().filter(|(_, id)| used.hybrid.has_unknown_base(**id));
    dictionary::Hybrid {
        rounds: used.rounds,
        stack_sizes: sizes.collect(),
        unknown_bases: unknown.map(|(number, _)| number).collect(),
        stack_offsets,
    }
}
