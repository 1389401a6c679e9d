//! Fragments: a module and its encodings inside an object file, in a record of the [`section`](crate::section).

use serde::Serialize;

use crate::{Encoding, Fragment, Module, section};

/// First bytes of each fragment.
pub const MAGIC: [u8; 8] = *b"PCCEfrag";

/// The bytes of a module's fragment, with 0 for the address that the linker fills in at
/// [`SITES_ADDRESS_OFFSET`](section::SITES_ADDRESS_OFFSET).
///
/// # Panics
/// If the compressed payload is larger than 1 GiB.
#[must_use]
pub fn to_bytes(module: &Module, encodings: &[Encoding]) -> Vec<u8> {
    /// A [`Fragment`] that is borrowed.
    #[derive(Serialize)]
    struct Borrowed<'a> {
        module: &'a Module,
        encodings: &'a [Encoding],
    }
    section::packed(MAGIC, &Borrowed { module, encodings })
}

/// Reads the unpacked payload.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(json: &[u8], sites_address: u64) -> Result<Fragment, String> {
    let mut fragment: Fragment = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    fragment.module.sites_address = sites_address;
    match fragment.encodings.iter().find(|encoding| (encoding.first_module, encoding.module_count) != (0, 1))
    {
        Some(encoding) => Err(format!(
            "an encoding of {} modules from number {} on in a fragment, which has one module",
            encoding.module_count, encoding.first_module
        )),
        None => Ok(fragment),
    }
}
