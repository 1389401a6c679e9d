//! Writes the values that calls add into a module's object ([`pcce_model::bound`]). Relocations against the
//! section [`VALUES_SECTION`] say where values belong. They are removed, so that linkers see ordinary code.

use object::elf::{self, FileHeader64, Rela64, SectionHeader64};
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};
use object::{Endianness, U64, pod};
use pcce_abi::machine::Machine;
use pcce_abi::skeleton::VALUES_SECTION;

/// The length of an entry of the section.
const ENTRY: u64 = 8;

/// A change of the object's bytes.
type Change = (u64, Vec<u8>);

/// Writes the values into an object.
///
/// # Errors
/// The object is not one of the pass. The error describes the difference.
pub fn bind(object: &mut [u8], values: &[i64]) -> Result<(), String> {
    for (at, bytes) in changes(object, values)? {
        let place = usize::try_from(at).ok().and_then(|at| object.get_mut(at..)?.get_mut(..bytes.len()));
        place.ok_or("a value lies behind its end")?.copy_from_slice(&bytes);
    }
    Ok(())
}

fn changes(object: &[u8], values: &[i64]) -> Result<Vec<Change>, String> {
    let damaged = |error: object::read::Error| error.to_string();
    let endian = Endianness::Little;
    let header = FileHeader64::<Endianness>::parse(object).map_err(damaged)?;
    let e_machine = header.e_machine(endian).0;
    let machine = Machine::of_elf(e_machine).ok_or_else(|| format!("it is for the machine {e_machine}"))?;
    let sections = header.sections(endian, object).map_err(damaged)?;
    let Some((own, section)) = sections.section_by_name(endian, VALUES_SECTION.as_bytes()) else {
        return Ok(Vec::new());
    };
    let entries = section.data(endian, object).map_err(damaged)?;
    let symbols = sections.symbols(endian, object, elf::SHT_SYMTAB).map_err(damaged)?;
    let difference = |at: u64| {
        let entry = entries
            .get(usize::try_from(at).ok()?..)?
            .first_chunk::<8>()
            .filter(|_| at.is_multiple_of(ENTRY))?;
        let place = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize);
        let value = |bytes: &[u8]| values.get(place(bytes)?).copied();
        Some(value(&entry[4..])?.wrapping_sub(value(&entry[..4])?))
    };
    let mut changes = Vec::new();
    for (index, relocations) in sections.enumerate() {
        let Some((list, _)) = relocations.rela(endian, object).map_err(damaged)? else { continue };
        let target = sections.section(relocations.info_link(endian)).map_err(damaged)?;
        let mut left: Vec<Rela64<Endianness>> = Vec::with_capacity(list.len());
        for relocation in list {
            let section_of = |index| {
                let symbol = symbols.symbol(index)?;
                Ok((symbol, symbols.symbol_section(endian, symbol, index)?))
            };
            let symbol = relocation.symbol(endian, false).map(section_of).transpose().map_err(damaged)?;
            let Some((symbol, _)) = symbol.filter(|(_, section)| *section == Some(own)) else {
                left.push(*relocation);
                continue;
            };
            let place = symbol.st_value(endian).wrapping_add_signed(relocation.r_addend.get(endian));
            let value = difference(place).ok_or_else(|| format!("it has no value at {place:#x}"))?;
            let kind = relocation.r_type(endian, false);
            let length = (machine.objects.value_len)(kind.0)
                .ok_or_else(|| format!("a value has a relocation of kind {kind:?}"))?;
            let at = relocation.r_offset.get(endian);
            if at.checked_add(length as u64).is_none_or(|end| end > target.sh_size(endian)) {
                return Err("a value lies behind the end of its section".to_owned());
            }
            let at = target.sh_offset(endian).wrapping_add(at);
            let bytes = usize::try_from(at).ok().and_then(|at| object.get(at..)?.get(..length));
            let mut bytes = bytes.ok_or("a value lies behind its end")?.to_vec();
            if !(machine.objects.write_value)(kind.0, &mut bytes, value) {
                return Err(format!("the value {value} is too wide for its place"));
            }
            changes.push((at, bytes));
        }
        if left.len() < list.len() {
            let size = pod::bytes_of_slice(&left).len() as u64;
            let headers = header.e_shoff(endian);
            let own = headers + (index.0 * size_of::<SectionHeader64<Endianness>>()) as u64;
            let field = std::mem::offset_of!(SectionHeader64<Endianness>, sh_size) as u64;
            changes.push((own + field, pod::bytes_of(&U64::new(endian, size)).to_vec()));
            changes.push((relocations.sh_offset(endian), pod::bytes_of_slice(&left).to_vec()));
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// An object with these words in its code, and an entry for each pair of places.
    fn assembled(code: &str, entries: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            ".pushsection .pcce.values,\"e\",@progbits\n.Lvalues:\n.long {entries}\n.popsection\n\
             .text\n{code}\n.long other\n.section .rodata\n.quad .text + 1\n"
        );
        fs::write(folder.path().join("a.s"), text).unwrap();
        let status = Command::new("as").args(["a.s", "-o", "a.o"]).current_dir(&folder).status().unwrap();
        assert!(status.success());
        fs::read(folder.path().join("a.o")).unwrap()
    }

    /// The code, and the names of what it still refers to.
    fn code(object: &[u8]) -> (Vec<u8>, Vec<String>) {
        use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
        let file = object::File::parse(object).unwrap();
        let text = file.section_by_name(".text").unwrap();
        let names = text.relocations().map(|(_, relocation)| match relocation.target() {
            RelocationTarget::Symbol(symbol) => {
                file.symbol_by_index(symbol).unwrap().name().unwrap().to_owned()
            }
            other => format!("{other:?}"),
        });
        (text.data().unwrap().to_vec(), names.collect())
    }

    const CODE: &str = ".byte 9, .Lvalues, .Lvalues + 8\n.long before, .Lvalues + 8\n.quad .Lvalues + 16";

    #[test]
    fn values_stand_where_the_code_refers_to_them() {
        let mut object = assembled(CODE, "0, 1, 1, 0, 2, 1");
        let length = object.len();
        bind(&mut object, &[0, -100, 1 << 40]).unwrap();
        assert_eq!(object.len(), length);
        let difference = (-100_i64 - (1 << 40)).to_le_bytes();
        let words = [&[9, 156, 100][..], &[0; 4], &[100, 0, 0, 0], &difference, &[0; 4]].concat();
        assert_eq!(code(&object), (words, vec!["before".to_owned(), "other".to_owned()]));
        // The object has no places any more, so that nothing else can be written.
        let bound = object.clone();
        bind(&mut object, &[]).unwrap();
        assert!(object == bound);
        // Code that adds nothing.
        let mut plain = assembled(".byte 9", "0, 0");
        let before = plain.clone();
        bind(&mut plain, &[0]).unwrap();
        assert!(plain == before);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |code: &str, entries: &str, values: &[i64], said: &str| {
            let mut object = assembled(code, entries);
            let before = object.clone();
            let what = bind(&mut object, values).unwrap_err();
            assert!(what.contains(said), "{what}");
            assert!(object == before);
        };
        let wide = "is too wide for its place";
        refused(CODE, "0, 1, 1, 0, 2, 1", &[0, 128, 1], wide);
        refused(".long .Lvalues", "0, 1", &[0, 1 << 31], wide);
        refused(CODE, "0, 1, 1, 0, 2, 3", &[0, 1, 1], "no value");
        refused(CODE, "0, 1", &[0, 1], "no value");
        refused(".long .Lvalues + 4", "0, 1, 0", &[0, 1], "no value");
        refused(".word .Lvalues", "0, 1", &[0, 1], "of kind");
        refused(".long .Lvalues - .", "0, 1", &[0, 1], "of kind");
    }
}
