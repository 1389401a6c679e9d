//! Addresses of one run as those of another: images are elsewhere in each.

use std::collections::HashMap;

use super::{PartFile, PartsError};
use crate::trace::file::Image;

/// The images of a part's processes.
pub(super) struct Places<'p> {
    images: &'p [Image],
    /// By process, its place among those of all streams.
    processes: HashMap<u32, usize>,
    /// By that place: the process, and that from which it was forked.
    order: Vec<(u32, Option<usize>)>,
}

impl<'p> Places<'p> {
    pub(super) fn new(part: &'p PartFile) -> Result<Self, PartsError> {
        let images = &*part.file.images;
        for (number, image) in images.iter().enumerate() {
            let mut others = images[..number].iter().filter(|other| other.process == image.process);
            if others.any(|other| other.low < image.high && image.low < other.high) {
                return Err(part.unlike(
                    "a library was loaded where another one was before; which one its addresses mean would not be told",
                ));
            }
        }
        let mut places = Self { images, processes: HashMap::new(), order: Vec::new() };
        for told in &part.streams {
            let process = told.stream.process;
            if !places.processes.contains_key(&process) {
                let parent =
                    told.key.parent.map(|parent| places.processes[&part.streams[parent].stream.process]);
                places.processes.insert(process, places.order.len());
                places.order.push((process, parent));
            }
        }
        Ok(places)
    }

    /// The image of a process at an address.
    fn image_at(&self, process: u32, address: u64) -> Option<&'p Image> {
        let mut place = self.processes.get(&process).copied();
        while let Some((process, parent)) = place.map(|place| self.order[place]) {
            let covers =
                |image: &&Image| image.process == process && (image.low..image.high).contains(&address);
            if let Some(image) = self.images.iter().find(covers) {
                return Some(image);
            }
            place = parent;
        }
        None
    }

    /// What an address is in all runs.
    pub(super) fn common(&self, process: u32, address: u64) -> u64 {
        let Some(image) = self.image_at(process, address) else { return address };
        let mut id = [0; 8];
        for (to, from) in id.iter_mut().zip(image.build_id.as_bytes().chunks_exact(2)) {
            *to =
                std::str::from_utf8(from).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(0);
        }
        pcce_abi::trace::parts::place(address.wrapping_sub(image.bias), id)
    }

    /// What an address of this run is in another one; none if that run has no such image.
    pub(super) fn in_other(&self, other: &Places<'_>, process: u32, address: u64) -> Option<u64> {
        let image = self.image_at(process, address)?;
        let mut place = self.processes.get(&process).copied();
        while let Some((process, parent)) = place.map(|place| other.order[place]) {
            let is_it = |found: &&Image| {
                found.process == process && found.build_id == image.build_id && found.path == image.path
            };
            if let Some(found) = other.images.iter().find(is_it) {
                return Some(address.wrapping_sub(image.bias).wrapping_add(found.bias));
            }
            place = parent;
        }
        None
    }
}
