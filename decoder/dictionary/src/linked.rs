//! Linked records: what the link step writes into a program in the place of its [unlinked](crate::unlinked) records. A
//! program has one at most. Fragments of modules that were encoded when they were compiled may stand beside it.

use serde::Serialize;

use crate::{Encoding, Linked, Module, section};

/// First bytes of a linked record.
pub const MAGIC: [u8; 8] = *b"PCCElink";

/// The bytes of a linked record. The addresses of the site arrays are those of the modules, or count from the address
/// that the linker writes at [`SITES_ADDRESS_OFFSET`](section::SITES_ADDRESS_OFFSET), and each encoding's
/// [`first_module`](Encoding::first_module) counts from the first one of `modules`.
///
/// # Panics
/// If the compressed payload is larger than 1 GiB.
#[must_use]
pub fn to_bytes(modules: &[Module], encodings: &[Encoding]) -> Vec<u8> {
    /// A [`Linked`] that is borrowed.
    #[derive(Serialize)]
    struct Borrowed<'a> {
        modules: &'a [Module],
        encodings: &'a [Encoding],
    }
    section::packed(MAGIC, &Borrowed { modules, encodings })
}

/// Reads the unpacked payload. `base`: what the addresses of site arrays count from.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(json: &[u8], base: u64) -> Result<Linked, String> {
    let mut linked: Linked = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    // Addresses that count from that of the record begin at 0.
    if base != 0 && linked.modules.first().is_some_and(|module| module.sites_address != 0) {
        return Err("a linked record with an address in its header, and others in its modules".to_owned());
    }
    for module in &mut linked.modules {
        module.sites_address = module.sites_address.wrapping_add(base);
    }
    let modules = linked.modules.len();
    let outside = |encoding: &&Encoding| {
        let end = encoding.first_module as usize + encoding.module_count as usize;
        end > modules
    };
    match linked.encodings.iter().find(outside) {
        Some(encoding) => Err(format!(
            "an encoding of {} modules from number {} on in a linked record of {modules}",
            encoding.module_count, encoding.first_module
        )),
        None => Ok(linked),
    }
}
