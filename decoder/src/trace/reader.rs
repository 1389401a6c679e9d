//! A trace with the tables of its images.

use std::collections::HashMap;

use pcce_abi::trace::{BEGIN_FORKED, BEGIN_INTERRUPTED};

use super::file::{Image, Stream, TraceFile};
use super::programs::Programs;

/// Bound on the length of a chain of forked processes.
pub(super) const MAX_FORKS: u32 = 64;

/// A trace with the tables of its images.
#[derive(Debug)]
pub struct Reader<'t> {
    pub file: &'t TraceFile,
    pub programs: &'t Programs,
    /// The number in the tables of each image.
    numbers: Vec<Option<u32>>,
    /// The images of a process, in the order in which they were described.
    of_process: HashMap<u32, Vec<usize>>,
    /// The parent of a forked process, and how many libraries the parent had loaded then.
    parents: HashMap<u32, (u32, u64)>,
    /// True if the trace has counts of verify mode.
    pub(super) verify: bool,
}

impl<'t> Reader<'t> {
    pub fn new(file: &'t TraceFile, programs: &'t Programs) -> Self {
        let mut of_process: HashMap<u32, Vec<usize>> = HashMap::new();
        for (number, image) in file.images.iter().enumerate() {
            of_process.entry(image.process).or_default().push(number);
        }
        let forked = file.streams.iter().filter(|stream| forked(stream).is_some());
        let parents = forked.filter_map(|stream| {
            let at_fork = stream.chunks.first()?.loads;
            Some((stream.process, (file.stream(stream.parent)?.process, at_fork)))
        });
        let parents = parents.collect();
        let mut chunks = file.streams.iter().flat_map(|stream| &stream.chunks);
        let verify = chunks.any(|chunk| chunk.events != 0);
        let mut numbers = programs.numbers(file);
        for own in of_process.values() {
            for number in conflicting(file, own) {
                numbers[number] = None;
            }
        }
        Self { file, programs, numbers, of_process, parents, verify }
    }

    /// The numbers in the tables of the images of a process, and of those that have forked it.
    pub(super) fn numbers_of(&self, process: u32) -> Vec<u32> {
        let process = std::iter::successors(Some(process), |process| Some(self.parents.get(process)?.0));
        let images = process.take(MAX_FORKS as usize).filter_map(|process| self.of_process.get(&process));
        let mut numbers: Vec<u32> = images.flatten().filter_map(|&image| self.numbers[image]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// The clock where the trace begins.
    pub fn start(&self) -> u64 {
        let chunks = self.file.streams.iter().flat_map(|stream| &stream.chunks);
        chunks.map(|chunk| chunk.clock).min().unwrap_or_default()
    }

    /// The number in the trace of the image that a process had at an address when it had loaded `loads` libraries.
    pub fn image_at(&self, process: u32, address: u64, loads: u64) -> Option<usize> {
        let (mut process, mut loads) = (process, loads);
        for _ in 0..MAX_FORKS {
            let own = self.of_process.get(&process).map_or(&[][..], Vec::as_slice);
            let covers = |number: &usize| {
                let image = &self.file.images[*number];
                (image.low..image.high).contains(&address) && image.loads <= loads
            };
            if let Some(number) = own.iter().rev().copied().find(covers) {
                return Some(number);
            }
            let (parent, at_fork) = *self.parents.get(&process)?;
            (process, loads) = (parent, loads.min(at_fork));
        }
        None
    }

    /// The traced function at an address.
    pub(super) fn function_at(&self, process: u32, address: u64, loads: u64) -> Option<u32> {
        let (image, address) = self.place_at(process, address, loads)?;
        self.programs.tables.function_at(image, address)
    }

    /// An address as ⟨number of the image in the tables, address in its file⟩.
    pub(super) fn place_at(&self, process: u32, address: u64, loads: u64) -> Option<(u32, u64)> {
        let image = self.image_at(process, address, loads)?;
        Some((self.numbers[image]?, address.wrapping_sub(self.file.images[image].bias)))
    }
}

/// The way in which a forked stream begins; None for other streams.
pub(super) fn forked(stream: &Stream) -> Option<u32> {
    let first = stream.chunks.first().filter(|chunk| chunk.sequence == 0)?;
    [BEGIN_FORKED, BEGIN_INTERRUPTED].contains(&first.begin).then_some(first.begin)
}

/// The images of a process that has become the same program again, at the same addresses, and has then chosen other
/// functions: which choice counts for an address is not known.
fn conflicting(file: &TraceFile, own: &[usize]) -> Vec<usize> {
    let same = |one: &Image, other: &Image| {
        one.build_id == other.build_id && one.low == other.low && one.left_out != other.left_out
    };
    let images = || own.iter().map(|&number| (number, &file.images[number]));
    images()
        .filter(|(_, one)| images().any(|(_, other)| same(one, other)))
        .map(|(number, _)| number)
        .collect()
}
