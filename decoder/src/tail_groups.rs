//! Functions that make tail calls which leave no frame: who may stand in the place of what a call has reached.

use std::collections::HashSet;

use pcce_dictionary::Module;

/// The groups of such functions in the modules of an encoding, over which they are numbered.
#[derive(Debug, Default)]
pub(crate) struct TailGroups {
    /// Who may stand in the place of a function of a group: ⟨group, function⟩.
    tails: HashSet<(u32, u32)>,
    /// Groups of which one may leave its activation to a function of another encoding.
    leaving: HashSet<u32>,
}

impl TailGroups {
    /// Of these modules, whose functions are numbered from `first_function` on.
    pub(crate) fn new(modules: &[Module], first_function: u32) -> Self {
        let mut groups = Self::default();
        let functions = modules.iter().flat_map(|module| &module.functions);
        for (number, function) in (first_function..).zip(functions) {
            groups.tails.extend(function.tail_groups.iter().map(|&group| (group, number)));
        }
        groups.leaving.extend(modules.iter().flat_map(|module| &module.leaving_groups));
        groups
    }

    /// Whether one of the group may have left its activation to this function. `inside`: it is one of the encoding.
    pub(crate) fn may_leave(&self, group: u32, function: u32, inside: bool) -> bool {
        self.tails.contains(&(group, function)) || !inside && self.leaving.contains(&group)
    }
}
