//! The interned numbers of a dead process, from its core file.

use pcce_abi::chains::{BLOCKS, FIRST_BLOCK, INTERNED, NODE, SYMBOL, entry};
use pcce_abi::numbers::{Entry, Record};

use super::Core;
use crate::numbers::{NumberError, Numbers, Source};
use crate::token::BuildId;

/// Bound on the numbers that are read.
const MAX_NUMBERS: u64 = 1 << 26;
/// The bit that marks a number made here for a place, instead of one that the process gave. The other bits are an
/// address of the process, or 0 for the place 0 of the program.
const ADDRESS: u64 = 1 << 63;

/// The nodes of the process, and its images.
#[derive(Debug)]
struct Chains {
    /// ⟨number, key⟩, by number.
    nodes: Vec<(u64, [u64; 3])>,
    /// ⟨start, end, load bias, build id⟩; the first one is the program.
    images: Vec<(u64, u64, u64, BuildId)>,
    signal_site: Option<u64>,
    hybrid: bool,
}

impl Core {
    /// The interned numbers of the process; none if they are not in the core file. `debug` is the content of
    /// the program's debug file, if it has one.
    pub fn numbers(&self, debug: Option<&[u8]>) -> Option<Numbers> {
        let main = &self.images[0];
        let files = debug.into_iter().chain([&*main.bytes]);
        let chains = files
            .filter_map(|bytes| main.symbol(bytes, SYMBOL))
            .next()
            .or_else(|| self.images.iter().find_map(|image| image.symbol(&image.bytes, SYMBOL)))?;
        let places = self.places(debug)?;
        let word = |address: u64, index: u64| self.word(address.wrapping_add(8 * index));
        let used = word(chains, BLOCKS as u64)?.min(MAX_NUMBERS);
        let mut nodes = Vec::new();
        let mut left = used;
        for block in 0..BLOCKS as u64 {
            let count = (FIRST_BLOCK << block).min(left);
            let base = word(chains, block)?;
            left -= count;
            if base == 0 || count == 0 {
                continue;
            }
            for node in (0..count).map(|index| base.wrapping_add(8 * NODE as u64 * index)) {
                // Pages that the process had not written to are not there.
                let words = [word(node, 0), word(node, 1), word(node, 2), word(node, 3)];
                if let [Some(first), Some(middle), Some(last), Some(number)] = words
                    && number != 0
                {
                    nodes.push((number, [first, middle, last]));
                }
            }
        }
        nodes.sort_unstable();
        let images = self.images.iter().map(|i| (i.start, i.end(), i.bias, i.build_id)).collect();
        let (signal_site, hybrid) = (places.signal_site, places.hybrid);
        Some(Numbers::new(Chains { nodes, images, signal_site, hybrid }))
    }
}

impl Chains {
    fn key(&self, number: u64) -> Option<[u64; 3]> {
        let at = self.nodes.binary_search_by_key(&number, |node| node.0).ok()?;
        Some(self.nodes[at].1)
    }

    /// The place at an address of the process.
    fn place(&self, address: u64) -> Entry {
        let image = match address {
            0 => self.images.first(),
            _ => self.images.iter().find(|image| (image.0..image.1).contains(&address)),
        };
        let (build_id, address) = match image {
            Some((.., id)) if address == 0 => (*id, 0),
            Some((.., bias, id)) => (*id, address.wrapping_sub(*bias)),
            None => (BuildId::default(), 0),
        };
        let mut bytes = [0; 8];
        bytes[..build_id.as_bytes().len()].copy_from_slice(build_id.as_bytes());
        Entry::Place { build_id: bytes, len: build_id.as_bytes().len() as u8, address }
    }

    /// Returns whether a name is the one of the frames of signals.
    fn is_signal(&self, name: u64) -> bool {
        let Some(site) = self.signal_site else { return false };
        if name & INTERNED == 0 {
            return name == site;
        }
        let Some([id, middle, address]) = self.key(name ^ INTERNED) else { return false };
        let named = entry(&[id, middle, address], |_| false, |_| None);
        named == Some(self.place(site))
    }
}

impl Source for Chains {
    fn record(&self, record: u64) -> Result<Record, NumberError> {
        if record & ADDRESS != 0 {
            return Ok(Record { entry: self.place(record ^ ADDRESS), hybrid: self.hybrid });
        }
        let key = self.key(record).ok_or(NumberError::NotInCore { record })?;
        let place = |name: u64| Some(if name & INTERNED != 0 { name ^ INTERNED } else { name | ADDRESS });
        let entry = entry(&key, |name| self.is_signal(name), place);
        let entry = entry.ok_or(NumberError::Malformed { record, what: "it is of no kind that there is" })?;
        Ok(Record { entry, hybrid: self.hybrid })
    }
}
