//! Values that calls add, in a module whose values are written into its object after code generation
//! ([`pcce_model::bound`]). The code refers to entries of a section of the object, and relocations say where
//! values belong.

use std::cell::RefCell;
use std::collections::HashMap;

use pcce_abi::skeleton::VALUES_SECTION;
use pcce_model::bound::Width;

use crate::llvm::{Address, Builder, Module, byte_directive};

/// The beginning of the section, for the module's assembly.
const START: &str = ".Lpcce_values";
/// Length of an entry of the section.
const ENTRY: usize = 8;

/// The values of a module, known by their widths only.
pub struct Values {
    widths: Vec<Width>,
    entries: RefCell<Entries>,
}

#[derive(Default)]
struct Entries {
    list: Vec<(u32, u32)>,
    places: HashMap<(u32, u32), usize>,
}

impl Values {
    /// Takes the widths of the values.
    pub fn new(widths: Vec<Width>) -> Self {
        Self { widths, entries: RefCell::default() }
    }

    /// Adds the difference between the values at the places `new` and `old` to a word.
    pub fn add(&self, b: &Builder<'_>, old: u64, new: u64, word: Address<'_>) {
        let width = |place: u64| self.widths.get(place as usize).copied().unwrap_or(Width::ANY);
        let width = match (old, new) {
            (0, value) | (value, 0) => width(value),
            (old, new) => Width::of_difference(width(old), width(new)),
        };
        let at = self.entry((old as u32, new as u32)) * ENTRY;
        let machine = b.module.machine();
        if let Some(assembly) = machine.add_value(width, START, at) {
            b.change_word(assembly, word);
        } else {
            let assembly = machine.add_to_register(width, START, at);
            b.store(b.changed_word(assembly, b.load_word(word)), word);
        }
    }

    fn entry(&self, pair: (u32, u32)) -> usize {
        let Entries { list, places } = &mut *self.entries.borrow_mut();
        *places.entry(pair).or_insert_with(|| {
            list.push(pair);
            list.len() - 1
        })
    }

    /// Writes the section.
    pub fn emit(&self, module: Module<'_>) {
        let entries = &self.entries.borrow().list;
        if entries.is_empty() {
            return;
        }
        let bytes = entries.iter().flat_map(|&(old, new)| [old, new]).flat_map(u32::to_le_bytes);
        let bytes: Vec<u8> = bytes.collect();
        module.append_asm(&format!(
            ".pushsection {VALUES_SECTION},\"e\",@progbits\n{START}:\n{}\n.popsection\n",
            byte_directive(&bytes)
        ));
    }
}
