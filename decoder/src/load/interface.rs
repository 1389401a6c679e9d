//! What others see of an executable or shared library: the loader, and images that are linked with it.

use std::collections::BTreeSet;

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, SHF_ALLOC};
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SectionFlags};

/// What others see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The program that loads it.
    pub interpreter: Option<String>,
    /// The libraries that it needs, the folders that it names, and its own name, with the tags that they have.
    pub named: BTreeSet<(u64, String)>,
    /// The dynamic symbols: name, and whether the image has it, and how it is bound.
    pub symbols: BTreeSet<(String, bool, bool)>,
    /// The sections that are loaded.
    pub sections: BTreeSet<String>,
}

impl Interface {
    /// Reads it. None if this is no ELF file that can be read.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let file = ElfFile64::<LittleEndian, _>::parse(bytes).ok()?;
        let endian = LittleEndian;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = file.elf_program_headers().iter();
        let interpreter =
            headers.filter_map(|header| header.interpreter(endian, bytes).ok().flatten()).next().map(text);
        let sections = file.elf_section_table();
        let mut named = BTreeSet::new();
        if let Some((entries, strings)) = sections.dynamic(endian, bytes).ok()? {
            let strings = sections.strings(endian, bytes, strings).ok()?;
            for entry in entries {
                let tag = entry.tag(endian);
                if [DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME].contains(&tag) {
                    named.insert((
                        u64::try_from(tag.0).unwrap_or_default(),
                        text(entry.string(endian, strings).ok()?),
                    ));
                }
            }
        }
        let symbols = file.dynamic_symbols();
        let symbols = symbols
            .map(|symbol| Some((text(symbol.name_bytes().ok()?), symbol.is_undefined(), symbol.is_weak())))
            .collect::<Option<BTreeSet<_>>>()?;
        let is_loaded =
            |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_ALLOC.0 != 0);
        let loaded = file.sections().filter(|section| is_loaded(section.flags()));
        let sections = loaded.filter_map(|section| section.name_bytes().ok().map(text)).collect();
        Some(Self { interpreter, named, symbols, sections })
    }

    /// The first difference to another image, in words.
    #[must_use]
    pub fn difference(&self, new: &Self) -> Option<String> {
        fn sets<T: Ord>(
            what: &str,
            old: &BTreeSet<T>,
            new: &BTreeSet<T>,
            name: impl Fn(&T) -> &str,
        ) -> Option<String> {
            let lost = old.difference(new).next().map(|one| format!("it has not the {what} {}", name(one)));
            let more =
                || new.difference(old).next().map(|one| format!("it has the further {what} {}", name(one)));
            lost.or_else(more)
        }
        if self.interpreter != new.interpreter {
            return Some("it has another interpreter".to_owned());
        }
        sets("dynamic symbol", &self.symbols, &new.symbols, |symbol| &symbol.0)
            .or_else(|| sets("name of a library or folder", &self.named, &new.named, |named| &named.1))
            .or_else(|| sets("section", &self.sections, &new.sections, |section| section))
    }
}
