//! Fragments: a module's part of the dictionary inside an object file.
//!
//! The section [`SECTION`] of a linked program is the concatenation of the fragments of its
//! modules, each of them:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 4 | schema version, little endian |
//! | 4 | length of the payload in bytes, little endian |
//! | 8 | address of the module's site array, little endian, written by the linker |
//! | 4 | CRC-32 of the payload, little endian |
//! | – | payload: a [`Fragment`] as JSON, compressed (zlib) |
//!
//! A name that starts with `.debug` makes `strip` remove the section and
//! `objcopy --only-keep-debug` keep it, as debug information.

use std::io::Write;

use serde::Serialize;

use crate::{DictionaryError, Encoding, Fragment, Module, SCHEMA_VERSION, Unpacker, upgrade, v1, v2};

/// Name of the section.
pub const SECTION: &str = ".debug_pcce";
/// First bytes of each fragment.
pub const MAGIC: [u8; 8] = *b"PCCEfrag";
/// Length of a fragment's header in bytes.
pub const HEADER_LEN: usize = 28;
/// Offset of the site array's address in the header: where the relocation goes.
pub const SITES_ADDRESS_OFFSET: usize = 16;

/// A payload larger than this (compressed bytes, 1 GiB) is refused.
const MAX_PAYLOAD: usize = 1 << 30;

/// The bytes of a module's fragment, with 0 for the address that the linker fills in at
/// [`SITES_ADDRESS_OFFSET`].
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
    let bytes = packed(SCHEMA_VERSION, &Borrowed { module, encodings });
    assert!(
        bytes.len() - HEADER_LEN <= MAX_PAYLOAD,
        "the dictionary fragment of {} is over 1 GiB",
        module.name
    );
    bytes
}

/// A fragment of this version.
fn packed(version: u32, payload: &impl Serialize) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN];
    let mut encoder = flate2::write::ZlibEncoder::new(&mut out, flate2::Compression::fast());
    {
        let mut buffered = std::io::BufWriter::with_capacity(1 << 16, &mut encoder);
        serde_json::to_writer(&mut buffered, payload).expect("a module always serialises");
        buffered.flush().expect("writing to memory does not fail");
    }
    encoder.finish().expect("writing to memory does not fail");
    let mut crc = flate2::Crc::new();
    crc.update(&out[HEADER_LEN..]);
    let (payload, crc) = ((out.len() - HEADER_LEN) as u32, crc.sum());
    out[0..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&version.to_le_bytes());
    out[12..16].copy_from_slice(&payload.to_le_bytes());
    out[24..28].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Reads the fragments from the content of a program's [`SECTION`], which may be of several versions.
///
/// # Errors
/// [`DictionaryError::Fragment`] for a damaged fragment, [`DictionaryError::FragmentVersion`] for one of a
/// newer release. Never panics, whatever the bytes.
pub fn parse_section(section: &[u8]) -> Result<Vec<Fragment>, DictionaryError> {
    let mut fragments = Vec::new();
    let mut unpacker = Unpacker::new(section.len());
    let mut rest = section;
    while !rest.is_empty() {
        let offset = section.len() - rest.len();
        let damaged = |what: String| DictionaryError::Fragment { section: SECTION, offset, what };
        let Some((header, body)) = rest.split_at_checked(HEADER_LEN) else {
            return Err(damaged(format!("{} bytes, too few for a header", rest.len())));
        };
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        if header[0..8] != MAGIC {
            return Err(damaged("no fragment starts here".to_owned()));
        }
        let version = word(8);
        if !matches!(version, v1::VERSION | v2::VERSION) {
            return Err(DictionaryError::FragmentVersion { section: SECTION, offset, found: version });
        }
        let Some((payload, next)) = body.split_at_checked(word(12) as usize) else {
            return Err(damaged(format!("cut: {} of {} bytes are there", body.len(), word(12))));
        };
        let address = header[SITES_ADDRESS_OFFSET..SITES_ADDRESS_OFFSET + 8].try_into();
        let mut crc = flate2::Crc::new();
        crc.update(payload);
        if crc.sum() != word(24) {
            return Err(damaged("the checksum does not match".to_owned()));
        }
        let json = unpacker.unpack(payload).map_err(damaged)?;
        let mut fragment = payload_of(version, &json).map_err(damaged)?;
        fragment.module.sites_address = u64::from_le_bytes(address.expect("8 bytes"));
        fragments.push(fragment);
        rest = next;
    }
    Ok(fragments)
}

/// Reads the unpacked payload of a version.
fn payload_of(version: u32, json: &[u8]) -> Result<Fragment, String> {
    if version == v1::VERSION {
        let module = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        return upgrade::fragment(module).map_err(|what| format!("of schema version 1: {what}"));
    }
    let fragment: Fragment = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    match fragment.encodings.iter().find(|encoding| (encoding.first_module, encoding.module_count) != (0, 1))
    {
        Some(encoding) => Err(format!(
            "an encoding of {} modules from number {} on in a fragment, which has one module",
            encoding.module_count, encoding.first_module
        )),
        None => Ok(fragment),
    }
}
