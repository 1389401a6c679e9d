//! Unlinked records: what the pass has read of a module of link mode, in a section of its object file. It is not
//! encoded yet. The link step makes one [linked](crate::linked) record of those of a program.

use serde::Serialize;

use crate::{Module, Unlinked, section};

/// First bytes of each unlinked record.
pub const MAGIC: [u8; 8] = *b"PCCEunlk";

/// The bytes of a module's unlinked record, with 0 for the address that the linker fills in at
/// [`SITES_ADDRESS_OFFSET`](section::SITES_ADDRESS_OFFSET). `facts` is what the link step needs to know beside the
/// module, and nobody else reads.
///
/// # Panics
/// If the facts do not serialise, or the compressed payload is larger than 1 GiB.
#[must_use]
pub fn to_bytes(module: &Module, facts: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Borrowed<'a, F> {
        module: &'a Module,
        facts: &'a F,
    }
    section::packed(MAGIC, &Borrowed { module, facts })
}

/// Reads the unpacked payload.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(json: &[u8], sites_address: u64) -> Result<Unlinked, String> {
    let mut unlinked: Unlinked = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    unlinked.module.sites_address = sites_address;
    Ok(unlinked)
}
