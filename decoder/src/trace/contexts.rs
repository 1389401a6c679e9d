//! The contexts of a trace's programs: what decodes the tokens at the beginnings of chunks.

use std::path::PathBuf;

use super::tables::Tables;
use crate::Decoder;
use crate::load::load;

/// A file with a dictionary; and the program itself, where that is a debug file.
pub(super) type DictionaryFile = (PathBuf, Option<PathBuf>);

/// Decodes tokens into nodes.
#[derive(Debug)]
pub(super) struct Contexts {
    pub(super) decoder: Decoder,
    /// By the decoder's image, its number in the tables.
    images: Vec<u32>,
}

impl Contexts {
    /// Of these files, in the order of the images in the tables. Those without a dictionary are left out: what it would
    /// tell is unknown.
    pub(super) fn load(files: &[DictionaryFile]) -> Option<Self> {
        let found = (0..).zip(files).filter_map(|(image, file)| Some((load(&file.0).ok()?, file, image)));
        let mut dictionaries = Vec::new();
        let (mut images, mut used) = (Vec::new(), Vec::new());
        for (dictionary, file, image) in found {
            dictionaries.push(dictionary);
            images.push(image);
            used.push(file.clone());
        }
        let mut decoder = Decoder::new(&dictionaries).ok()?;
        for (number, (path, stripped)) in used.into_iter().enumerate() {
            decoder.set_program(number, path, stripped);
        }
        Some(Self { decoder, images })
    }

    /// The node of a call site; None if that is of a function that is not traced.
    pub(super) fn node(&self, tables: &Tables, site: u32) -> Option<u32> {
        let (image, address) = self.decoder.images.symbols.address_of_site(site);
        tables.node_at_site(self.images[image as usize], address)
    }
}
