//! Decoded contexts: what a token stands for, innermost call first.

pub(crate) mod frames;
pub(crate) mod threads;

use serde::Serialize;

use crate::token::BuildId;

/// The kinds of frames. All except [`FrameKind::Call`] are boundaries: places where the context says what it
/// does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FrameKind {
    /// A function that was active, and the place that it had reached.
    Call,
    /// Code that is not instrumented was active here; the function is the one that was called, if its name is
    /// known.
    Uninstrumented,
    /// The function was called, and replaced itself by its last callee (a tail call): its activation is gone.
    /// Without a function: one or more did so, or may have done so ([`Frame::certain`]).
    Tail,
    /// A signal interrupted the program here: the frames above are those of the handler.
    Signal,
    /// The thread began here: the frames below are those that created it.
    Thread,
    /// The thread runs a task: the frames above are those of the thread, and those below submitted the task.
    Task,
    /// Frames are missing here; the function, if there is one, was called last before them.
    Unknown,
    /// The code of a shared library was active here whose dictionary was not given. Calls of other modules
    /// that led to it may be missing, too.
    UnknownModule,
    /// The token was cut to fit its buffer: all further frames of the thread are missing. After
    /// [`FrameKind::Thread`] or [`FrameKind::Task`]: the calls that created the thread or submitted the task are
    /// missing.
    Truncated,
    /// The chain of frames on the stack was damaged here, or left for another stack unannounced: all further
    /// frames of the thread are missing.
    Damaged,
}

impl FrameKind {
    /// The name in the JSON form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Uninstrumented => "uninstrumented",
            Self::Tail => "tail",
            Self::Signal => "signal",
            Self::Thread => "thread",
            Self::Task => "task",
            Self::Unknown => "unknown",
            Self::UnknownModule => "unknown-module",
            Self::Truncated => "truncated",
            Self::Damaged => "damaged",
        }
    }
}

/// A frame of a context, which is shown as one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Frame<'d> {
    pub kind: FrameKind,
    /// Name of the function, demangled.
    pub function: Option<&'d str>,
    /// Linkage name of the function.
    #[serde(skip)]
    pub linkage_name: Option<&'d str>,
    pub file: Option<&'d str>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
    /// True if the function was inlined into that of the next frame.
    pub inlined: bool,
    /// For [`FrameKind::Tail`] without a function: it is known that something is missing here. Only text shows it.
    #[serde(skip)]
    pub certain: bool,
    /// For [`FrameKind::UnknownModule`]: the build id of the module, as far as tokens carry it. For
    /// [`FrameKind::Uninstrumented`]: that of the library, if its file was not found: whether the code is instrumented
    /// is not known then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<BuildId>,
}

/// A part of a context whose frames are shown together. The numbers are those of the decoder's symbols.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece {
    Site(u32),
    /// A capture at the place of this site ([`NumberPlace`](pcce_dictionary::NumberPlace)), in any line.
    AnyLine(u32),
    Function(u32),
    Uninstrumented(Option<u32>),
    Tail(Option<u32>),
    /// Functions may have left their activations here.
    MayHaveLeft,
    Signal,
    Thread,
    Task,
    Unknown(Option<u32>),
    /// A place of the machine code of a decoder's image, with the calls inlined there.
    Place(u32, u32),
    /// A frame of this kind, with a name of the machine code of a decoder's image.
    Named(FrameKind, u32, u32),
    /// Index into [`Context::images`].
    UnknownModule(u32),
    /// Code of an image without a dictionary, whose file was not found. Index into [`Context::absent`].
    Absent(u32),
    Truncated,
    Damaged,
}

/// What a piece says about the calls of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceClass {
    /// A call, by its site.
    Call(u32),
    /// A function, or a place in one, that is active without a call site: the innermost one of a point.
    Function,
    /// Code that is not instrumented.
    Outside,
    /// Functions have left their activations to others.
    Left,
    /// A signal handler begins here.
    Handler,
    /// The thread, or the task, begins here.
    Origin,
    /// Calls may be missing here.
    Missing,
}

impl Piece {
    pub(crate) fn class(self) -> PieceClass {
        match self {
            Self::Site(site) => PieceClass::Call(site),
            Self::AnyLine(_) | Self::Function(_) | Self::Place(..) => PieceClass::Function,
            Self::Uninstrumented(_) | Self::Absent(_) | Self::Named(FrameKind::Uninstrumented, ..) => {
                PieceClass::Outside
            }
            Self::Tail(_) | Self::MayHaveLeft | Self::Named(FrameKind::Tail, ..) => PieceClass::Left,
            Self::Named(..) => PieceClass::Function,
            Self::Signal => PieceClass::Handler,
            Self::Thread | Self::Task => PieceClass::Origin,
            Self::Unknown(_) | Self::UnknownModule(_) | Self::Truncated | Self::Damaged => {
                PieceClass::Missing
            }
        }
    }
}

/// The pieces from the end of the run before up to `end`, `count` times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) end: usize,
    pub(crate) count: u64,
}

/// A decoded context. It is compact: repeated frames are held once, so
/// [`Decoder::frames`](crate::Decoder::frames) can give many more frames than the context takes memory.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) runs: Vec<Run>,
    /// The token's images, with the number of the decoder's image where it was given.
    pub(crate) images: Vec<(BuildId, Option<u32>)>,
    /// The instrumented functions of the pieces of interrupted points, by the numbers of the pieces.
    owners: Vec<(usize, u32)>,
    pub(crate) absent: Vec<Absent>,
}

/// Code of an image whose file was not found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absent {
    pub(crate) id: BuildId,
    /// The function that was called there, by the numbers of a decoder's image and of a name of its machine code.
    pub(crate) called: Option<(u32, u32)>,
}

impl Context {
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.runs.clear();
        self.images.clear();
        self.owners.clear();
        self.absent.clear();
    }

    /// Build ids of the libraries whose files were not found: whether they are instrumented is not known.
    pub fn absent(&self) -> impl Iterator<Item = BuildId> {
        self.absent.iter().map(|absent| absent.id)
    }

    /// Build ids of the modules whose dictionary was not given, though the token has frames of them.
    pub fn missing(&self) -> impl Iterator<Item = BuildId> {
        // Images that only code addresses name need no dictionary: they are not known to be instrumented.
        let needed = |number: usize| {
            self.pieces.iter().any(|p| matches!(p, Piece::UnknownModule(n) if *n as usize == number))
        };
        let absent = self.images.iter().enumerate().filter(|(_, (_, image))| image.is_none());
        absent.filter(move |(number, _)| needed(*number)).map(|(_, (id, _))| *id)
    }

    #[inline]
    pub(crate) fn push(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    /// Adds a piece of the machine code of an instrumented function.
    pub(crate) fn push_of(&mut self, piece: Piece, function: u32) {
        // Pieces may have been removed since.
        let number = self.pieces.len();
        let kept = self.owners.partition_point(|&(other, _)| other < number);
        self.owners.truncate(kept);
        self.owners.push((number, function));
        self.push(piece);
    }

    /// The function of a piece that [`push_of`](Self::push_of) has added.
    pub(crate) fn owner(&self, piece: usize) -> Option<u32> {
        let found = self.owners.binary_search_by_key(&piece, |&(number, _)| number).ok()?;
        matches!(self.pieces[piece], Piece::Place(..) | Piece::Named(FrameKind::Call, ..))
            .then(|| self.owners[found].1)
    }

    /// The decoder's image of an image of the token; None if it was not given.
    #[inline]
    pub(crate) fn image(&self, image: u32) -> Option<u32> {
        self.images[image as usize].1
    }

    /// Number of pieces, those of repeated frames as often as they are shown.
    pub(crate) fn pieces_shown(&self) -> u64 {
        self.slices()
            .map(|(pieces, count)| (pieces.len() as u64).saturating_mul(count))
            .fold(0, u64::saturating_add)
    }

    /// The runs' pieces and counts.
    pub(crate) fn slices(&self) -> impl DoubleEndedIterator<Item = (&[Piece], u64)> {
        (0..self.runs.len()).map(|i| {
            let start = if i == 0 { 0 } else { self.runs[i - 1].end };
            (&self.pieces[start..self.runs[i].end], self.runs[i].count)
        })
    }
}
