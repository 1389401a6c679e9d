//! A trace with the tables of its images.

use std::collections::HashMap;

use pcce_abi::trace::BEGIN_FORKED;

use super::file::{Stream, TraceFile};
use super::images::Programs;
use super::machine::{Machine, Snapshot};

/// So many processes are forked one from the other, at most.
const MAX_FORKS: u32 = 64;

/// A trace with the tables of its images.
#[derive(Debug)]
pub struct Reader<'t> {
    /// The trace.
    pub file: &'t TraceFile,
    /// The tables.
    pub programs: &'t Programs,
    /// The number in the tables of each image.
    numbers: Vec<Option<u32>>,
    /// The images of a process, in the order in which they were loaded.
    of_process: HashMap<u32, Vec<usize>>,
    /// The process that a process was forked from.
    parents: HashMap<u32, u32>,
    /// Whether there is something of verify mode in it.
    pub(super) verify: bool,
}

impl<'t> Reader<'t> {
    /// A reader of this trace.
    #[must_use]
    pub fn new(file: &'t TraceFile, programs: &'t Programs) -> Self {
        let mut of_process: HashMap<u32, Vec<usize>> = HashMap::new();
        for (number, image) in file.images.iter().enumerate() {
            of_process.entry(image.process).or_default().push(number);
        }
        let forked = file.streams.iter().filter(|stream| is_forked(stream));
        let parents = forked.filter_map(|s| Some((s.process, file.stream(s.parent)?.process))).collect();
        let mut chunks = file.streams.iter().flat_map(|stream| &stream.chunks);
        let verify = chunks.any(|chunk| chunk.events != 0);
        Self { file, programs, numbers: programs.numbers(file), of_process, parents, verify }
    }

    /// The clock where the trace begins.
    #[must_use]
    pub fn start(&self) -> u64 {
        let chunks = self.file.streams.iter().flat_map(|stream| &stream.chunks);
        chunks.map(|chunk| chunk.clock).min().unwrap_or_default()
    }

    /// Reads a stream from its beginning.
    #[must_use]
    pub fn machine(&self, stream: &'t Stream) -> Machine<'_> {
        let start = if is_forked(stream) { self.start_of(stream, MAX_FORKS) } else { None };
        Machine::new(self, stream, start)
    }

    /// What was active where a stream was forked.
    fn start_of(&self, stream: &Stream, forks: u32) -> Option<Snapshot> {
        let parent = self.file.stream(stream.parent)?;
        let start = match is_forked(parent) {
            true => Some(self.start_of(parent, forks.checked_sub(1)?)?),
            false => None,
        };
        Machine::new(self, parent, start).snapshot_at(stream.parent_position)
    }

    /// The image of a process at an address at some moment from the first to the second clock: its number in the
    /// trace. None if it was one at one time and another one at another: nothing tells which.
    #[must_use]
    pub fn image_at(&self, process: u32, address: u64, (from, to): (u64, u64)) -> Option<usize> {
        let mut process = process;
        for _ in 0..MAX_FORKS {
            let own = self.of_process.get(&process).map_or(&[][..], Vec::as_slice);
            let covers = |number: &usize| {
                let image = &self.file.images[*number];
                (image.low..image.high).contains(&address) && image.clock <= to
            };
            let mut found = own.iter().rev().copied().filter(covers);
            if let Some(number) = found.next() {
                let image = |number: usize| &self.file.images[number];
                let same = |other: &usize| {
                    let (one, other) = (image(number), image(*other));
                    (&one.build_id, &one.path, one.bias) == (&other.build_id, &other.path, other.bias)
                };
                // Down to the one that was there at the first clock.
                let mut clock = image(number).clock;
                let earlier =
                    found.take_while(|other| std::mem::replace(&mut clock, image(*other).clock) > from);
                return earlier.into_iter().all(|other| same(&other)).then_some(number);
            }
            process = *self.parents.get(&process)?;
        }
        None
    }

    /// The traced function at an address.
    pub(super) fn function_at(&self, process: u32, address: u64, clocks: (u64, u64)) -> Option<u32> {
        let (image, address) = self.place_at(process, address, clocks)?;
        self.programs.tables.function_at(image, address)
    }

    /// An address as ⟨number of the image in the tables, address in its file⟩.
    pub(super) fn place_at(&self, process: u32, address: u64, clocks: (u64, u64)) -> Option<(u32, u64)> {
        let image = self.image_at(process, address, clocks)?;
        Some((self.numbers[image]?, address.wrapping_sub(self.file.images[image].bias)))
    }

    /// Reads a stream from a chunk on, which is not the first. `counted`: in verify mode, how many events there were up
    /// to its beginning, and their hash.
    pub(super) fn machine_from(
        &self,
        stream: &'t Stream,
        chunk: usize,
        counted: Option<(u64, u64)>,
    ) -> Machine<'_> {
        Machine::from_chunk(self, stream, chunk, counted)
    }
}

fn is_forked(stream: &Stream) -> bool {
    stream.chunks.first().is_some_and(|chunk| chunk.begin == BEGIN_FORKED && chunk.sequence == 0)
}
