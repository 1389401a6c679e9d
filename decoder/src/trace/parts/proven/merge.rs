//! Puts parts together: one chunk after the other, each from the part that has it.
//!
//! Numbers of processes, threads and streams, and the places of images are those of the first part's run.
//! Clocks are those of the runs, each counted from its beginning.

use std::collections::HashMap;
use std::io;
use std::mem::offset_of;
use std::path::Path;

use pcce_abi::trace::parts::{fingerprint, names_function, words_behind};
use pcce_abi::trace::{
    CHUNK_HEAD, CONTINUED, Chunk, ENDED, FULL, KIND_SHIFT, KIND_STREAM, Special, checksum_on,
};

use super::compare::{Agreed, compare};
use super::{PartFile, PartsError};
use crate::token::from_hex;
use crate::trace::file::{self, ChunkAt};
use crate::trace::parts::written::{Out, set, write_whole};

/// Counts of what was merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    pub streams: u64,
    pub chunks: u64,
    pub words: u64,
    /// Words that each part had kept.
    pub kept: Vec<u64>,
    /// Streams that no run has ended: the events after their last whole chunk are left out.
    pub open: u64,
}

/// Puts all parts of a run together, in their order. `to` is written whole, or not at all.
pub fn merge(parts: &[PartFile], to: &Path) -> Result<Merged, PartsError> {
    let agreed = compare(parts)?;
    let places = parts.iter().map(Places::new).collect::<Result<Vec<_>, _>>()?;
    let done = Merged { kept: vec![0; parts.len()], ..Merged::default() };
    let write = |out| {
        let mut job = Job { parts, places, out, done };
        job.run(&agreed)?;
        Ok(job.done)
    };
    write_whole(to, write).map_err(|cause| match cause {
        Cause::Part(error) => *error,
        Cause::Output(source) => PartsError::Output { path: to.to_owned(), source },
    })
}

enum Cause {
    Part(Box<PartsError>),
    Output(io::Error),
}

impl From<PartsError> for Cause {
    fn from(error: PartsError) -> Self {
        Self::Part(Box::new(error))
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

struct Job<'p> {
    parts: &'p [PartFile],
    places: Vec<Places<'p>>,
    out: Out,
    done: Merged,
}

impl Job<'_> {
    fn run(&mut self, agreed: &[Agreed]) -> Result<(), Cause> {
        let begun: Vec<u64> = self.parts.iter().map(beginning).collect();
        for image in &self.parts[0].file.images {
            self.out.image(image)?;
        }
        for (stream, agreed) in agreed.iter().enumerate() {
            self.stream(stream, agreed, &begun)?;
        }
        Ok(self.out.finish(agreed.len() as u64)?)
    }

    fn stream(&mut self, number: usize, agreed: &Agreed, begun: &[u64]) -> Result<(), Cause> {
        self.done.streams += 1;
        self.done.open += u64::from(agreed.open);
        let first = &self.parts[0].streams[number];
        let mut so_far = 0;
        let mut clock = begun[0];
        for sequence in 0..agreed.chunks {
            let owner = sequence % self.parts.len();
            let part = &self.parts[owner];
            let row = &part.streams[number].rows[sequence];
            let own = &part.streams[number].stream;
            let chunks = part.file.stream(own.number).map_or(&[][..], |stream| &stream.chunks);
            let chunk = chunks.binary_search_by_key(&(sequence as u64), |chunk| chunk.sequence);
            let chunk = chunk.map(|at| &chunks[at]);
            let chunk = chunk.map_err(|_| part.damaged("a chunk that it should have is missing"))?;
            let mut words = words(part, chunk, row.words)?;
            so_far = fingerprint(
                so_far,
                &words,
                |address| self.places[owner].common(own.process, address),
                |_| {},
            );
            if so_far != row.fingerprint || checksum_on(chunk.ended, &words) != chunk.checksum {
                return Err(part.damaged("a chunk is not what the program wrote").into());
            }
            self.translate(&mut words, owner, own.process)?;
            let in_first = |time: u64| time.saturating_sub(begun[owner]).saturating_add(begun[0]);
            clock = in_first(chunk.clock).max(clock);
            let mut head = [0; CHUNK_HEAD as usize];
            set(&mut head, offset_of!(Chunk, kind), &KIND_STREAM.to_le_bytes());
            set(&mut head, offset_of!(Chunk, process), &first.stream.process.to_le_bytes());
            set(&mut head, offset_of!(Chunk, thread), &first.stream.thread.to_le_bytes());
            set(&mut head, offset_of!(Chunk, level), &first.stream.level.to_le_bytes());
            set(&mut head, offset_of!(Chunk, stream), &(number as u64 + 1).to_le_bytes());
            set(&mut head, offset_of!(Chunk, sequence), &(sequence as u64).to_le_bytes());
            let parent = first.key.parent.map_or(0, |parent| parent as u64 + 1);
            set(&mut head, offset_of!(Chunk, parent), &parent.to_le_bytes());
            set(&mut head, offset_of!(Chunk, parent_position), &first.key.position.to_le_bytes());
            set(&mut head, offset_of!(Chunk, clock), &clock.to_le_bytes());
            set(&mut head, offset_of!(Chunk, begin), &chunk.begin.to_le_bytes());
            let last = sequence + 1 == agreed.chunks;
            let end = if last && !agreed.open { ENDED } else { CONTINUED };
            let end = if row.end == ENDED { ENDED } else { end };
            set(&mut head, offset_of!(Chunk, end), &end.to_le_bytes());
            set(&mut head, offset_of!(Chunk, words), &(words.len() as u64).to_le_bytes());
            set(&mut head, offset_of!(Chunk, events), &chunk.events.to_le_bytes());
            set(&mut head, offset_of!(Chunk, hash), &chunk.hash.to_le_bytes());
            clock = in_first(chunk.closed).max(clock);
            set(&mut head, offset_of!(Chunk, closed), &clock.to_le_bytes());
            let content: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.out.chunk(&mut head, &content, &[])?;
            self.done.chunks += 1;
            self.done.words += words.len() as u64;
            self.done.kept[owner] += words.len() as u64;
        }
        Ok(())
    }

    /// Replaces addresses, and numbers of streams, by those of the first part.
    fn translate(&self, words: &mut [u64], owner: usize, process: u32) -> Result<(), PartsError> {
        let part = &self.parts[owner];
        let there = |address: u64| self.places[owner].in_other(&self.places[0], process, address);
        let needed = |address: u64| {
            there(address)
                .ok_or_else(|| part.damaged("it names code of an image that the first part has not"))
        };
        let mut at = 0;
        while at < words.len() {
            let word = words[at];
            let count = if word < FULL { words_behind(word) } else { Some(0) };
            let count = count.ok_or_else(|| part.damaged("a word is none"))?;
            let rest =
                words.get_mut(at + 1..at + 1 + count).ok_or_else(|| part.damaged("words are missing"))?;
            let kind = if word < FULL { word >> KIND_SHIFT } else { 0 };
            if names_function(kind) {
                rest[0] = if rest[0] == 0 { 0 } else { needed(rest[0])? };
            } else if kind == Special::Handler as u64 {
                let place = part.streams.iter().position(|stream| stream.stream.number == rest[0]);
                rest[0] = place.map_or(0, |place| place as u64 + 1);
            } else if kind == Special::Context as u64 {
                // A place in an unknown image is of no use.
                rest[1] = there(rest[1]).unwrap_or(0);
                rest[2] = if rest[2] == 0 { 0 } else { needed(rest[2])? };
            } else if kind == Special::Entered as u64 {
                let payload = (1 << KIND_SHIFT) - 1;
                words[at] = kind << KIND_SHIFT | needed(word & payload)? & payload;
            }
            at += 1 + count;
        }
        Ok(())
    }
}

/// The words of a chunk.
fn words(part: &PartFile, chunk: &ChunkAt, count: u32) -> Result<Vec<u64>, PartsError> {
    let mut words = Vec::new();
    if u64::from(count) > chunk.there {
        return Err(part.damaged("a chunk was cut off"));
    }
    let read = part.file.words(chunk.words_at, &mut words, count as usize);
    read.map_err(|error| PartsError::Trace { path: part.path.clone(), source: error.into() })?;
    Ok(words)
}

/// The time at which the run of a part began.
fn beginning(part: &PartFile) -> u64 {
    let images = part.file.images.iter().map(|image| image.clock);
    images.chain(part.file.rows.iter().map(|rows| rows.clock)).min().unwrap_or_default()
}

pub(super) struct Places<'p> {
    images: &'p [file::Image],
    /// The index of each process in `order`.
    processes: HashMap<u32, usize>,
    /// The processes in the order of their first streams, each with the index of the process that forked it.
    order: Vec<(u32, Option<usize>)>,
}

impl<'p> Places<'p> {
    pub(super) fn new(part: &'p PartFile) -> Result<Self, PartsError> {
        let images = &*part.file.images;
        for (number, image) in images.iter().enumerate() {
            let mut others = images[..number].iter().filter(|other| other.process == image.process);
            if others.any(|other| other.low < image.high && image.low < other.high) {
                return Err(part.unlike(
                    "a library was loaded where another one was before; which one its addresses mean would not be reported",
                ));
            }
        }
        let mut places = Self { images, processes: HashMap::new(), order: Vec::new() };
        for reported in &part.streams {
            let process = reported.stream.process;
            if !places.processes.contains_key(&process) {
                let parent =
                    reported.key.parent.map(|parent| places.processes[&part.streams[parent].stream.process]);
                places.processes.insert(process, places.order.len());
                places.order.push((process, parent));
            }
        }
        Ok(places)
    }

    /// The image of a process at an address.
    fn image_at(&self, process: u32, address: u64) -> Option<&'p file::Image> {
        let mut place = self.processes.get(&process).copied();
        while let Some((process, parent)) = place.map(|place| self.order[place]) {
            let covers =
                |image: &&file::Image| image.process == process && (image.low..image.high).contains(&address);
            if let Some(image) = self.images.iter().find(covers) {
                return Some(image);
            }
            place = parent;
        }
        None
    }

    /// The form of an address that is the same in all runs.
    pub(super) fn common(&self, process: u32, address: u64) -> u64 {
        let Some(image) = self.image_at(process, address) else { return address };
        let mut id = from_hex(&image.build_id).unwrap_or_default();
        id.resize(8, 0);
        let id = *id.first_chunk().expect("8 bytes");
        pcce_abi::trace::parts::place(address.wrapping_sub(image.bias), id)
    }

    /// The address in another run that corresponds to one of this run; none if that run has no such image.
    pub(super) fn in_other(&self, other: &Places<'_>, process: u32, address: u64) -> Option<u64> {
        let image = self.image_at(process, address)?;
        let mut place = self.processes.get(&process).copied();
        while let Some((process, parent)) = place.map(|place| other.order[place]) {
            let is_it = |found: &&file::Image| {
                found.process == process
                    && found.build_id == image.build_id
                    && found.path == image.path
                    && found.left_out == image.left_out
            };
            if let Some(found) = other.images.iter().find(is_it) {
                return Some(address.wrapping_sub(image.bias).wrapping_add(found.bias));
            }
            place = parent;
        }
        None
    }
}
