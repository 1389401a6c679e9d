//! The section [`SECTION`] of object files and programs: records, one after the other.
//!
//! The linker concatenates the sections of the object files. Each record is:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | its magic: what kind of record it is |
//! | 4 | schema version, little endian |
//! | 4 | length of the payload in bytes, little endian |
//! | 8 | address of the module's site array, little endian, written by the linker; of a linked record, the first one's |
//! | 4 | CRC-32 of the payload, little endian |
//! | – | payload: JSON, compressed (zlib) |
//!
//! A name that starts with `.debug` makes `strip` remove the section and `objcopy --only-keep-debug` keep it,
//! as debug information.

use std::io::Write;

use serde::Serialize;

use crate::{DictionaryError, Fragment, Linked, Unlinked, Unpacker, schema};

pub const SECTION: &str = ".debug_pcce";
/// Length of a record's header in bytes.
pub const HEADER_LEN: usize = 28;
/// Offset of the site array's address in the header. The relocation is there.
pub const SITES_ADDRESS_OFFSET: usize = 16;

/// Bound on the compressed bytes of a payload: 1 GiB.
const MAX_PAYLOAD: usize = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Fragment(Fragment),
    /// A module that waits for the link step.
    Unlinked(Unlinked),
    /// The result of the link step for such modules.
    Linked(Linked),
}

/// A record with 0 for the address.
///
/// # Panics
/// If the payload does not serialise, or is larger than 1 GiB when compressed.
pub(crate) fn packed(magic: [u8; 8], payload: &impl Serialize) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN];
    let (len, crc) = append_payload(&mut out, payload);
    out[0..8].copy_from_slice(&magic);
    out[8..12].copy_from_slice(&schema::VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&len.to_le_bytes());
    out[24..28].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Appends a payload in the form of records: JSON, compressed with zlib. Returns its length, and its CRC-32.
///
/// # Panics
/// If it does not serialise, or is larger than 1 GiB when compressed.
pub(crate) fn append_payload(out: &mut Vec<u8>, payload: &impl Serialize) -> (u32, u32) {
    let start = out.len();
    let mut encoder = flate2::write::ZlibEncoder::new(&mut *out, flate2::Compression::fast());
    {
        let mut buffered = std::io::BufWriter::with_capacity(1 << 16, &mut encoder);
        serde_json::to_writer(&mut buffered, payload).expect("a record serialises");
        buffered.flush().expect("writing to memory does not fail");
    }
    encoder.finish().expect("writing to memory does not fail");
    let len = out.len() - start;
    assert!(len <= MAX_PAYLOAD, "a record's payload is over 1 GiB");
    let mut crc = flate2::Crc::new();
    crc.update(&out[start..]);
    (len as u32, crc.sum())
}

/// Reads the records from the content of a program's or an object file's [`SECTION`]. Fragments may be of
/// several versions.
///
/// # Errors
/// [`DictionaryError::Fragment`] for a damaged record, or a second linked one;
/// [`DictionaryError::FragmentVersion`] for one of a newer release. Never panics, whatever the bytes.
pub fn parse(section: &[u8]) -> Result<Vec<Record>, DictionaryError> {
    let mut records = Vec::new();
    let mut unpacker = Unpacker::new(section.len());
    let mut rest = section;
    while !rest.is_empty() {
        let offset = section.len() - rest.len();
        let damaged = |what: String| DictionaryError::Fragment { section: SECTION, offset, what };
        let Some((header, body)) = rest.split_at_checked(HEADER_LEN) else {
            return Err(damaged(format!("{} bytes, too few for a header", rest.len())));
        };
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        let magic: [u8; 8] = header[0..8].try_into().expect("8 bytes");
        if ![fragment::MAGIC, unlinked::MAGIC, linked::MAGIC].contains(&magic) {
            return Err(damaged("no record of a dictionary starts here".to_owned()));
        }
        let version = word(8);
        if !(schema::OLDEST..=schema::VERSION).contains(&version) {
            let reads = format!("{} to {}", schema::OLDEST, schema::VERSION);
            return Err(DictionaryError::FragmentVersion { section: SECTION, offset, found: version, reads });
        }
        let Some((payload, next)) = body.split_at_checked(word(12) as usize) else {
            return Err(damaged(format!("cut: {} of {} bytes are there", body.len(), word(12))));
        };
        let address = header[SITES_ADDRESS_OFFSET..SITES_ADDRESS_OFFSET + 8].try_into().expect("8 bytes");
        let address = u64::from_le_bytes(address);
        let mut crc = flate2::Crc::new();
        crc.update(payload);
        if crc.sum() != word(24) {
            return Err(damaged("the checksum does not match".to_owned()));
        }
        let mut json = unpacker.unpack(payload).map_err(damaged)?;
        if version == schema::OLDEST {
            json = schema::from_version_2(&json).map_err(|error| damaged(error.to_string()))?;
        }
        let record = match magic {
            fragment::MAGIC => fragment::read(&json, address).map(Record::Fragment),
            unlinked::MAGIC => unlinked::read(&json, address).map(Record::Unlinked),
            _ if records.iter().any(|record| matches!(record, Record::Linked(_))) => {
                Err("a second linked record".to_owned())
            }
            _ => linked::read(&json, address).map(Record::Linked),
        };
        records.push(record.map_err(damaged)?);
        rest = next;
    }
    Ok(records)
}

/// Fragments: a module and its encodings inside an object file.
pub mod fragment {
    use serde::Serialize;

    use super::packed;
    use crate::{Encoding, Fragment, Module};

    /// First bytes of each fragment.
    pub const MAGIC: [u8; 8] = *b"PCCEfrag";

    /// The bytes of a module's fragment, with 0 for the address that the linker fills in at
    /// [`SITES_ADDRESS_OFFSET`](super::SITES_ADDRESS_OFFSET).
    ///
    /// # Panics
    /// If the compressed payload is larger than 1 GiB.
    pub fn to_bytes(module: &Module, encodings: &[Encoding]) -> Vec<u8> {
        /// A [`Fragment`] that is borrowed.
        #[derive(Serialize)]
        struct Borrowed<'a> {
            module: &'a Module,
            encodings: &'a [Encoding],
        }
        packed(MAGIC, &Borrowed { module, encodings })
    }

    /// Reads the unpacked payload.
    pub(crate) fn read(json: &[u8], sites_address: u64) -> Result<Fragment, String> {
        let mut fragment: Fragment = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        fragment.module.sites_address = sites_address;
        match fragment
            .encodings
            .iter()
            .find(|encoding| (encoding.first_module, encoding.module_count) != (0, 1))
        {
            Some(encoding) => Err(format!(
                "an encoding of {} modules from number {} on in a fragment, which has one module",
                encoding.module_count, encoding.first_module
            )),
            None => Ok(fragment),
        }
    }
}

/// Unlinked records: a module in an object file of link mode, which is not encoded yet. The link step makes
/// one [linked](super::linked) record of those of a program.
pub mod unlinked {
    use serde::Serialize;

    use super::packed;
    use crate::{Module, Unlinked};

    /// First bytes of each unlinked record.
    pub const MAGIC: [u8; 8] = *b"PCCEunlk";

    /// The bytes of a module's unlinked record, with 0 for the address that the linker fills in at
    /// [`SITES_ADDRESS_OFFSET`](super::SITES_ADDRESS_OFFSET). `facts` are for the link step only.
    ///
    /// # Panics
    /// If the facts do not serialise, or the compressed payload is larger than 1 GiB.
    pub fn to_bytes(module: &Module, facts: &impl Serialize) -> Vec<u8> {
        #[derive(Serialize)]
        struct Borrowed<'a, F> {
            module: &'a Module,
            facts: &'a F,
        }
        packed(MAGIC, &Borrowed { module, facts })
    }

    /// Reads the unpacked payload.
    pub(crate) fn read(json: &[u8], sites_address: u64) -> Result<Unlinked, String> {
        let mut unlinked: Unlinked = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        unlinked.module.sites_address = sites_address;
        Ok(unlinked)
    }
}

/// Linked records: the result of the link step for the [unlinked](super::unlinked) records of a program. A
/// program has at most one. It may also have fragments, of modules that were encoded when they were compiled.
pub mod linked {
    use serde::Serialize;

    use super::packed;
    use crate::{Encoding, Linked, Module};

    /// First bytes of a linked record.
    pub const MAGIC: [u8; 8] = *b"PCCElink";

    /// The bytes of a linked record. The addresses of the site arrays are those of the modules, or count from
    /// the address that the linker writes at [`SITES_ADDRESS_OFFSET`](super::SITES_ADDRESS_OFFSET), and each
    /// encoding's [`first_module`](Encoding::first_module) counts from the first one of `modules`.
    ///
    /// # Panics
    /// If the compressed payload is larger than 1 GiB.
    pub fn to_bytes(modules: &[Module], encodings: &[Encoding]) -> Vec<u8> {
        /// A [`Linked`] that is borrowed.
        #[derive(Serialize)]
        struct Borrowed<'a> {
            modules: &'a [Module],
            encodings: &'a [Encoding],
        }
        packed(MAGIC, &Borrowed { modules, encodings })
    }

    /// Reads the unpacked payload. `base`: the address from which the addresses of site arrays count.
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
}
