//! Puts the streams of parts together, one after the other.
//!
//! Numbers of processes and threads, and the places of images are those of the first part's run; so is the time.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::rc::Rc;

use pcce_abi::trace::BEGIN_FORKED;

use super::written::{Head, Out, Shared, Written, write_whole};
use super::{Difference, PartFile, PartsError, Split};
use crate::show::style::Style;
use crate::trace::event::{End, EventKind};
use crate::trace::file::{Image, Stream};
use crate::trace::reader::Reader;
use crate::trace::replay::{Apart, Replay};
use crate::trace::{context, heading};

/// Counts of what was merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    pub words: u64,
    /// Words that each part has written.
    pub kept: Vec<u64>,
    /// Streams that no run has ended.
    pub open: u64,
}

/// Puts all parts together, in their order. `to` is written whole, or not at all.
///
/// # Errors
/// The parts are not those of runs that did the same; or a file cannot be read or written.
pub fn merge(split: &Split, parts: &[PartFile], to: &Path) -> Result<Merged, PartsError> {
    write_whole(to, |out| Job::new(split, parts, out)?.run()).map_err(|cause| match cause {
        Cause::Parts(error) => *error,
        Cause::Output(source) => PartsError::Output { path: to.to_owned(), source },
    })
}

enum Cause {
    Parts(Box<PartsError>),
    Output(io::Error),
}

impl From<PartsError> for Cause {
    fn from(error: PartsError) -> Self {
        Self::Parts(Box::new(error))
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

struct Job<'p> {
    split: &'p Split,
    parts: &'p [PartFile],
    readers: Vec<Reader<'p>>,
    shared: Rc<Shared>,
    /// The addresses of the program's functions in the processes, which have it at the same place.
    addresses: Rc<[u64]>,
    done: Merged,
}

impl<'p> Job<'p> {
    fn new(split: &'p Split, parts: &'p [PartFile], out: Out) -> Result<Self, PartsError> {
        let readers = parts.iter().zip(&split.parts);
        let readers = readers.map(|(part, program)| Reader::new(&part.file, &program.programs)).collect();
        let kept = parts.iter().map(PartFile::words).collect();
        let shared = Rc::new(Shared { out: out.into(), marks: HashMap::new().into() });
        let first = &parts[0];
        let image = first.file.images.iter().find(|image| image.build_id == split.parts[0].build_id);
        let bias = image.map(|image| image.bias).ok_or_else(|| PartsError::NoPart(first.path.clone()))?;
        let addresses = split.addresses.iter().map(|address| address.wrapping_add(bias)).collect();
        let count = parts[0].streams.len();
        if let Some(other) = parts.iter().find(|part| part.streams.len() != count) {
            let what =
                "it has another number of threads, processes and handlers of signals than the first part";
            return Err(PartsError::Unlike { path: other.path.clone(), what: what.to_owned() });
        }
        Ok(Self { split, parts, readers, shared, addresses, done: Merged { kept, ..Merged::default() } })
    }

    fn run(mut self) -> Result<Merged, Cause> {
        let program = &self.split.parts[0].build_id;
        for image in &self.parts[0].file.images {
            let own = (image.build_id == *program).then(|| Image {
                build_id: self.split.build_id.clone(),
                path: self.split.path.clone(),
                high: image.high.max(image.bias.wrapping_add(self.split.high)),
                ..image.clone()
            });
            self.shared.out.borrow_mut().image(own.as_ref().unwrap_or(image))?;
        }
        for stream in 0..self.parts[0].streams.len() {
            self.stream(stream)?;
        }
        let mut out = self.shared.out.borrow_mut();
        self.done.words = out.words;
        out.finish(self.parts[0].streams.len() as u64)?;
        drop(out);
        Ok(self.done)
    }

    /// The stream of this index in each part.
    fn of_parts(&self, index: usize) -> Vec<(&Reader<'p>, &'p Stream)> {
        self.readers.iter().zip(self.parts).map(|(reader, part)| (reader, part.stream(index))).collect()
    }

    /// The state of the parent where a stream was forked.
    fn replay(&self, index: usize, out: Option<Written>) -> Result<Replay<'_>, PartsError> {
        let key = self.parts[0].streams[index].key;
        let start = match (key.begin, key.parent) {
            (BEGIN_FORKED, Some(parent)) => {
                let positions: Vec<u64> =
                    self.parts.iter().map(|part| part.stream(index).parent_position).collect();
                let found = self.replay(parent, None)?.woven_snapshot_at(&positions);
                Some(found.ok_or_else(|| self.differ(parent, Vec::new()))?)
            }
            _ => None,
        };
        Ok(Replay::woven(&self.of_parts(index), start, out))
    }

    fn stream(&mut self, index: usize) -> Result<(), Cause> {
        let first = &self.parts[0];
        let (key, stream) = (first.streams[index].key, first.stream(index));
        if self.parts.iter().any(|part| {
            let other = part.streams[index].key;
            (other.parent, other.level, other.begin) != (key.parent, key.level, key.begin)
        }) {
            return Err(self.differ(index, Vec::new()).into());
        }
        let (parent, parent_position) = {
            let marks = self.shared.marks.borrow();
            marks.get(&(stream.parent, stream.parent_position)).copied().unwrap_or_default()
        };
        let head = Head {
            number: index as u64 + 1,
            process: stream.process,
            thread: stream.thread,
            level: stream.level,
            parent,
            parent_position,
            begin: key.begin,
        };
        let places = self.places(index)?;
        let begun = stream.chunks[0];
        let out = Written::new(
            Rc::clone(&self.shared),
            (head, stream.number),
            Rc::clone(&self.addresses),
            places,
            (begun.clock, begun.loads),
        );
        let mut replay = self.replay(index, Some(out))?;
        let mut last = End::Open;
        while let Some(event) = replay.next() {
            match event.kind {
                EventKind::End(end) => last = end,
                _ => replay.begin_chunk()?,
            }
            if replay.apart().is_some() {
                break;
            }
        }
        if let Some(apart) = replay.apart() {
            let tables = &self.split.parts[0].programs.tables;
            let frames = replay.innermost().map(|event| context(tables, &event, replay.stack()));
            let place = frames.iter().flatten().map(|frame| Style::default().line(frame)).collect();
            return Err(match apart {
                Apart::Differ => self.differ(index, place),
                Apart::Lost(cause) => {
                    PartsError::Lost { thread: heading(&self.readers[0], stream), cause, place }
                }
            }
            .into());
        }
        let verified = replay.verified();
        if verified.mismatches > 0 {
            return Err(self.differ(index, Vec::new()).into());
        }
        replay
            .finish()
            .map_err(|source| PartsError::Trace { path: first.path.clone(), source: source.into() })?;
        replay.end(last)?;
        drop(replay);
        self.done.open += u64::from(last != End::Ended);
        Ok(())
    }

    fn differ(&self, index: usize, place: Vec<String>) -> PartsError {
        let thread = heading(&self.readers[0], self.parts[0].stream(index));
        PartsError::Differ(Box::new(Difference { thread, place }))
    }

    /// The places of a stream that others name, in each part: where they have begun, or handlers have interrupted it.
    fn places(&self, index: usize) -> Result<Vec<Vec<u64>>, PartsError> {
        let of_parts: Vec<_> = self.parts.iter().map(|part| part.named_places(index)).collect();
        if of_parts.iter().any(|places| places.len() != of_parts[0].len()) {
            return Err(self.differ(index, Vec::new()));
        }
        Ok((0..of_parts[0].len()).map(|at| of_parts.iter().map(|places| places[at]).collect()).collect())
    }
}
