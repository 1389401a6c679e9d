//! Unwind tables: the ranges of functions, and their landing pads.

use std::collections::{BTreeMap, HashMap};

use gimli::{BaseAddresses, EhFrame, EndianSlice, LittleEndian, Reader, UnwindSection};
use object::{Object, ObjectSection};

use super::elf::content;
use super::flow::LandingPad;

/// The entry of a function in the unwind tables.
pub(super) struct Unwind {
    pub(super) len: u64,
    /// The landing pads. None where they cannot be read.
    pub(super) pads: Option<Vec<LandingPad>>,
}

/// The entries of all functions, by address.
pub(super) fn unwind_tables(file: &object::File<'_>) -> BTreeMap<u64, Unwind> {
    let mut found = BTreeMap::new();
    let Some(section) = file.section_by_name(".eh_frame") else { return found };
    let Ok(data) = content(&section, ".eh_frame") else { return found };
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(text) = file.section_by_name(".text") {
        bases = bases.set_text(text.address());
    }
    let table = file.section_by_name(".gcc_except_table");
    let exceptions = table.as_ref().and_then(|t| Some((t.address(), t.data().ok()?)));
    let frame = EhFrame::new(&data, LittleEndian);
    // Many FDEs share a CIE: each CIE is parsed once.
    let mut common = HashMap::new();
    let mut common = |frame: &EhFrame<_>, bases: &BaseAddresses, offset: gimli::EhFrameOffset<usize>| {
        let parsed = common.entry(offset.0).or_insert_with(|| frame.cie_from_offset(bases, offset));
        parsed.clone()
    };
    // The bytes of call site tables that may still be read. Each function has a table of its own, so this is at
    // most the whole section.
    let mut left = exceptions.map_or(0, |(_, data)| data.len());
    let mut entries = frame.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(&mut common) else { continue };
        let start = fde.initial_address();
        let pads = match (fde.lsda(), exceptions) {
            (None, _) => Some(Vec::new()),
            (Some(gimli::Pointer::Direct(lsda)), Some((base, data))) => {
                let data = lsda.checked_sub(base).and_then(|at| data.get(at as usize..));
                data.and_then(|data| landing_pads(data, lsda, start, &mut left).ok())
            }
            _ => None,
        };
        found.insert(start, Unwind { len: fde.len(), pads });
    }
    found
}

/// Reads the call sites of the language-specific data area at an address, of the range that begins at `start`
/// (the Itanium C++ ABI's, which GCC and LLVM write for all languages). `left`: how many bytes may still be
/// read.
fn landing_pads(data: &[u8], address: u64, start: u64, left: &mut usize) -> gimli::Result<Vec<LandingPad>> {
    let len = data.len();
    let mut data = EndianSlice::new(data, LittleEndian);
    let wrong = |encoding| gimli::Error::UnsupportedPointerEncoding(gimli::DwEhPe(encoding));
    // Where a function has several parts, its landing pads are in one of them.
    let mut base = start;
    match gimli::DwEhPe(data.read_u8()?) {
        gimli::DW_EH_PE_omit => {}
        gimli::DW_EH_PE_absptr => base = data.read_u64()?,
        gimli::DW_EH_PE_pcrel => {
            let here = address.wrapping_add((len - data.len()) as u64);
            base = here.wrapping_add(data.read_u64()?);
        }
        other => return Err(wrong(other.0)),
    }
    if data.read_u8()? != gimli::DW_EH_PE_omit.0 {
        data.read_uleb128()?;
    }
    let encoding = gimli::DwEhPe(data.read_u8()?);
    let len = data.read_uleb128()? as usize;
    *left = left.checked_sub(len).ok_or(gimli::Error::UnexpectedEof(data.offset_id()))?;
    data.truncate(len)?;
    let number = |data: &mut EndianSlice<'_, LittleEndian>| match encoding {
        gimli::DW_EH_PE_uleb128 => data.read_uleb128(),
        gimli::DW_EH_PE_udata4 => data.read_u32().map(u64::from),
        _ => Err(wrong(encoding.0)),
    };
    let mut pads = Vec::new();
    while !data.is_empty() {
        let (from, len, pad) = (number(&mut data)?, number(&mut data)?, number(&mut data)?);
        data.read_uleb128()?;
        let from = start.wrapping_add(from);
        if pad != 0 {
            pads.push(LandingPad { from, to: from.wrapping_add(len), pad: base.wrapping_add(pad) });
        }
    }
    Ok(pads)
}
