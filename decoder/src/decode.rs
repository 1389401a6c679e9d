//! From a token to the frames of its context: the paper's DecodeStack (pcce.txt §5) over sub-paths
//! that its Algorithm 2 (§4) decodes.
//!
//! A token is a capture and a chain of pushed frames. Each of them names a site and an id, and these
//! two name exactly one sub-path, together with the function where it starts if a direct call tells: then the next frame
//! outwards names that ([`Start`]). What lies *between* two sub-paths is known exactly if the push was
//! made for a call of the function in which the inner sub-path starts. Where it is not known, or not
//! instrumented, a boundary says so; nothing is ever filled in.

use std::path::PathBuf;

use thiserror::Error;

use pcce_dictionary::Dictionary;
use pcce_encoding::FunctionId;
use pcce_encoding::decode::{Call, PathError};

use crate::code::table::{CodeTable, Source};
use crate::point::{Below, Joined};
use crate::tables::{InvalidDictionary, Module, Site, Tables, Target};
use crate::token::{BuildId, Point, PointEnd, PushedFrame, Token};
use crate::trace::{Piece, Run, Trace};

/// Site of frames that a function pushes at its entry when an open call of the executable's reached it.
const OPEN_SITE: u64 = 0;

/// A trace longer than this (in calls, repetitions not counted) is refused.
pub(crate) const MAX_PIECES: usize = 1 << 26;

/// Why a token or number cannot be decoded with the dictionaries given.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// None of the token's images has a dictionary.
    #[error(
        "the token is of another build: it has build id {token}, and the dictionary given has {dictionaries}; give the dictionary of that build"
    )]
    OtherBuild {
        /// Build ids in the token, as far as it carries them.
        token: String,
        /// Build ids of the dictionaries, with the names of their programs.
        dictionaries: String,
    },
    /// The token was made by an image without a build id.
    #[error("the token names no build: the program has no build id; link it with -Wl,--build-id")]
    NoBuildId,
    /// No site has the address.
    #[error(
        "the token does not fit the dictionary: build {build_id} has no site at address {address:#x}; {DAMAGED}"
    )]
    NoSite {
        /// Build id of the image.
        build_id: String,
        /// The address.
        address: u64,
    },
    /// A frame of an open call, and the program has no open node with that id.
    #[error(
        "the token does not fit the dictionary: build {build_id} has no open call with id {id}; {DAMAGED}"
    )]
    NoOpenNode {
        /// Build id of the image.
        build_id: String,
        /// The id.
        id: u64,
    },
    /// The site's kind is not allowed there.
    #[error(
        "the token does not fit the dictionary: the site at address {address:#x} of build {build_id} is {found}, and {expected} is expected there; {DAMAGED}"
    )]
    SiteKind {
        /// Build id of the image.
        build_id: String,
        /// The site's address.
        address: u64,
        /// What the site is.
        found: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The function has no such id.
    #[error(
        "the token does not fit the dictionary: function {function} has no id {id}, its ids are below {num_cc}; {DAMAGED}"
    )]
    NoId {
        /// Linkage name of the function.
        function: String,
        /// The id.
        id: u64,
        /// Number of ids of the function.
        num_cc: u64,
    },
    /// The frame that a function pushes at its entry lies under the sub-path of another function.
    #[error(
        "the token does not fit the dictionary: function {function} pushed at its entry, and the calls it made start in {found}; {DAMAGED}"
    )]
    NotEntered {
        /// Linkage name of the function that pushed.
        function: String,
        /// Linkage name of the function in which the sub-path starts, or what else is there.
        found: String,
    },
    /// The table of the machine code cannot be used.
    #[error("the dictionary of {program}: {cause}")]
    Code {
        /// Name of the program.
        program: String,
        /// What is wrong.
        cause: String,
    },
    /// Dictionary and token together make a trace that is too long.
    #[error("the trace has more than {MAX_PIECES} calls; {DAMAGED}")]
    TooLong,
    /// The number 0.
    #[error(
        "0 is no context: pcce_context() gives it where there is none (a program built without the pass)"
    )]
    NoContext,
    /// A number that one process gave to a chain of pushed frames.
    #[error(
        "number {number} is an interned one: it has a meaning only in the process that gave it; log pcce_token() there instead"
    )]
    Interned {
        /// The number.
        number: u64,
    },
    /// No function has the number.
    #[error(
        "no function of the dictionary has number {number} in its range; give the dictionary of the build that printed it"
    )]
    NoRange {
        /// The number.
        number: u64,
    },
    /// The functions of several modules have the number.
    #[error(
        "number {number} is a context of {first} and of {second}, in modules compiled apart; log pcce_token() instead, or build with --pcce-mode=lto"
    )]
    Ambiguous {
        /// The number.
        number: u64,
        /// Linkage name of one function.
        first: String,
        /// Linkage name of another function.
        second: String,
    },
}

const DAMAGED: &str = "write the dictionary again with `pcce dict`, and if this stays, please report it";

/// Decodes the tokens of a program and its shared libraries.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) tables: Tables,
}

/// What lies inside (above) the frame that is looked at.
#[derive(Clone, Copy)]
pub(crate) enum Above {
    /// A sub-path that starts in this function.
    Root(u32),
    /// Nothing: the token was taken by code that is not instrumented.
    NoCapture,
    /// A sub-path in this image of the token, which has no dictionary.
    UnknownModule(u32),
    /// This function, which pushed this id at its entry; who called it is not known yet.
    Entered(u32, u64),
    /// A point that was interrupted, and it is not known how control had come there.
    Interrupted,
    /// Code that is not instrumented, which is shown already; whether it has no callers.
    Plain(bool),
}

/// What is known of the start of a sub-path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// It is where the ids say: whoever entered it there was no direct call, or the thread began there.
    ById,
    /// It is in this function, which a direct call with a push entered.
    In(u32),
    /// Nothing: the frame that would tell is missing in the token.
    Unknown,
}

/// The beginning of a sub-path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begin {
    /// What is known of its start.
    pub(crate) start: Start,
    /// Where its first activation begins, less the place from which the token's distances count, in bytes; None if that is not known.
    pub(crate) base: Option<i64>,
}

/// How far an activation is below the place from which distances count.
#[derive(Clone, Copy)]
pub(crate) enum Distance {
    /// Its canonical frame address, in words; 0: it is not known.
    OfActivation(u64),
    /// The frame that it has pushed, likewise.
    OfFrame(u64),
}

impl Decoder {
    /// Makes a decoder from dictionaries, the program's and those of its shared libraries, in any order.
    ///
    /// # Errors
    /// [`InvalidDictionary`] if one of them is not consistent in itself, or two have one build id.
    pub fn new(dictionaries: &[Dictionary]) -> Result<Self, InvalidDictionary> {
        Ok(Self { tables: Tables::new(dictionaries)? })
    }

    /// Lets the decoder read the machine code from the program of a dictionary (counted from 0, as they were given to
    /// [`Decoder::new`]) if a token needs it and the dictionary does not have it. If `program` is a separate debug file,
    /// `stripped` is the program itself.
    pub fn set_program(&mut self, dictionary: usize, program: PathBuf, stripped: Option<PathBuf>) {
        let image = &mut self.tables.images[dictionary];
        if matches!(image.code_source, Source::None) {
            image.code_source = Source::Program(program, stripped);
        }
    }

    /// The machine code of an image; None if it is not at hand.
    pub(crate) fn code(&self, image: u32) -> Result<Option<&CodeTable>, DecodeError> {
        self.tables.code(image).map_err(|cause| DecodeError::Code {
            program: self.tables.images[image as usize].program.clone(),
            cause: cause.to_owned(),
        })
    }

    /// Decodes a token into `trace`, whose memory is used again.
    ///
    /// # Errors
    /// [`DecodeError`] if the token is of another build, or does not fit the dictionary; then
    /// `trace` holds nothing that means anything.
    pub fn decode(&self, token: &Token, trace: &mut Trace) -> Result<(), DecodeError> {
        self.decode_from(token, false, trace)
    }

    /// Decodes a token of which it is known that a process of this program has made it. A thread that is not in the program yet, or any
    /// more, names no build that is known: there [`decode`](Self::decode) refuses its token as one of another build.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_of_program(&self, token: &Token, trace: &mut Trace) -> Result<(), DecodeError> {
        self.decode_from(token, true, trace)
    }

    /// Whether a program or library with this whole build id, in hexadecimal digits, is among those given.
    #[must_use]
    pub fn has_build(&self, build_id: &str) -> bool {
        !build_id.is_empty() && self.tables.images.iter().any(|image| image.build_id == build_id)
    }

    fn decode_from(&self, token: &Token, of_program: bool, trace: &mut Trace) -> Result<(), DecodeError> {
        trace.clear();
        self.resolve_images(token, of_program, trace)?;
        if token.with_offsets {
            // What the encoding relies on must be so, whether or not this token depends on it.
            for image in trace.images.iter().filter_map(|image| image.1) {
                self.code(image)?;
            }
        }
        let mut above = Above::NoCapture;
        if let Some(capture) = &token.capture {
            above = match trace.images[capture.image as usize].1 {
                Some(image) => {
                    let site = self.site_at(image, capture.site)?;
                    match self.tables.sites[site as usize].target {
                        Target::Capture => {}
                        // Taken by code that is not instrumented, in a call that was published.
                        Target::External(symbol) => {
                            self.below_external(symbol, false, Above::NoCapture, trace)
                        }
                        _ => return Err(self.site_kind(image, capture.site, site, "a capture")),
                    }
                    let next_signal = token.signals.first().map(|s| s.0);
                    let begin = self.begin(token, 0, next_signal, trace);
                    self.walk(site, capture.id, Distance::OfActivation(capture.distance), begin, trace)?
                }
                None => {
                    trace.pieces.push(Piece::UnknownModule(capture.image));
                    Above::UnknownModule(capture.image)
                }
            };
        }
        let mut signals = token.signals.iter().peekable();
        // Whether one of the next frame's repetitions is done with.
        let mut consumed = false;
        if let Some(point) = &token.point {
            let behind = token.cut || token.damaged;
            let more = behind || !token.frames.is_empty() || !token.signals.is_empty();
            let below = self.below_point(token, 0, signals.peek().map(|s| s.0), trace);
            Joined { above, consumed } = self.point(point, &below, more, !token.other_state, trace)?;
        }
        for number in 0..=token.frames.len() {
            let frame = token.frames.get(number);
            while let Some((_, point)) = signals.next_if(|(at, _)| *at == number) {
                self.below_handler(self.called(above), trace);
                trace.pieces.push(Piece::Signal);
                let more = token.cut || token.damaged || frame.is_some() || signals.peek().is_some();
                let below = self.below_point(token, number, signals.peek().map(|s| s.0), trace);
                Joined { above, consumed } = self.point(point, &below, more, true, trace)?;
            }
            let Some(frame) = frame else { break };
            let count = frame.count - u64::from(std::mem::take(&mut consumed));
            // The sub-paths of all but the last start where the frame's own push leads.
            let last = self.begin(token, number + 1, signals.peek().map(|s| s.0), trace);
            let own = if count > 1 { self.pushes_into(token, frame, trace) } else { last };
            if count > 0 {
                above = self.frame(frame, above, own, trace)?;
            }
            if count > 1 {
                // What lies above differs for the first one only: decode twice, and repeat the second.
                let once = trace.pieces.len();
                let same = own == last;
                let equal = if same { count - 1 } else { count - 2 };
                if equal > 0 {
                    above = self.frame(frame, above, own, trace)?;
                }
                let end = trace.pieces.len();
                if end > once {
                    trace.runs.push(Run { end: once, count: 1 });
                    trace.runs.push(Run { end, count: equal });
                }
                if !same {
                    above = self.frame(frame, above, last, trace)?;
                }
            }
            if trace.pieces.len() > MAX_PIECES {
                return Err(DecodeError::TooLong);
            }
        }
        match self.called(above) {
            Above::NoCapture => trace.pieces.push(Piece::Uninstrumented(None)),
            Above::Entered(..) | Above::Interrupted | Above::Plain(false) if !token.cut && !token.damaged => {
                trace.pieces.push(Piece::Unknown(None))
            }
            // What the thread began with has left its frame to the root.
            Above::Root(_) if token.left && !token.cut && !token.damaged => {
                trace.pieces.push(Piece::Tail(None))
            }
            _ => {}
        }
        if token.cut {
            trace.pieces.push(Piece::Truncated);
        }
        if token.damaged {
            trace.pieces.push(Piece::Damaged);
        }
        trace.runs.push(Run { end: trace.pieces.len(), count: 1 });
        Ok(())
    }

    /// Decodes a number that `pcce_context()` returned, where it names function and id.
    ///
    /// # Errors
    /// [`DecodeError`] for 0, for an interned number, and for one that no function has or several have.
    pub fn decode_number(&self, number: u64, trace: &mut Trace) -> Result<(), DecodeError> {
        trace.clear();
        if number == 0 {
            return Err(DecodeError::NoContext);
        }
        if number >= pcce_abi::INTERNED {
            return Err(DecodeError::Interned { number });
        }
        let mut functions = self.tables.in_ranges(number);
        let (function, id) = functions.next().ok_or(DecodeError::NoRange { number })?;
        if let Some((other, _)) = functions.next() {
            let (first, second) = (self.linkage_of(other), self.linkage_of(function));
            return Err(DecodeError::Ambiguous { number, first, second });
        }
        trace.pieces.push(Piece::Function(function));
        self.walk_number(function, id, None, None, trace)?;
        trace.runs.push(Run { end: trace.pieces.len(), count: 1 });
        Ok(())
    }

    fn resolve_images(&self, token: &Token, of_program: bool, trace: &mut Trace) -> Result<(), DecodeError> {
        // A point whose callers were not found has perhaps no address in an instrumented image.
        let lost = |point: &Point| matches!(point.end, PointEnd::Lost | PointEnd::Bound);
        let mut known = of_program
            || token.images.is_empty()
            || token.frames.is_empty()
                && token.capture.is_none()
                && token.point.iter().chain(token.signals.iter().map(|s| &s.1)).all(lost);
        for id in &token.images {
            let image = self.tables.images.iter().position(|image| image.id == *id);
            known |= image.is_some();
            trace.images.push((*id, image.map(|image| image as u32)));
        }
        if known { Ok(()) } else { Err(self.other_build(&token.images)) }
    }

    #[cold]
    fn other_build(&self, images: &[BuildId]) -> DecodeError {
        if images.iter().all(|id| id.as_bytes().is_empty()) {
            return DecodeError::NoBuildId;
        }
        let token: Vec<_> = images.iter().map(ToString::to_string).collect();
        let dictionaries: Vec<_> = self
            .tables
            .images
            .iter()
            .map(|image| format!("{} ({})", image.build_id, image.program))
            .collect();
        DecodeError::OtherBuild { token: token.join(", "), dictionaries: dictionaries.join(", ") }
    }

    /// An executable in targeted mode may have called a function of another module without a push, from functions that
    /// reach no target: what called that one is not known.
    fn called(&self, above: Above) -> Above {
        match above {
            Above::Root(root)
                if self.tables.targeted.is_some_and(|m| self.tables.functions[root as usize].module != m) =>
            {
                Above::Interrupted
            }
            above => above,
        }
    }

    /// Where the sub-path begins that ends inside (above) a frame of the token, or behind the last one. `next_signal`: how many frames are
    /// further in than the next signal that is not yet shown.
    fn begin(&self, token: &Token, number: usize, next_signal: Option<usize>, trace: &Trace) -> Begin {
        match token.frames.get(number) {
            // A handler starts one.
            _ if next_signal == Some(number) => Begin { start: Start::ById, base: None },
            Some(frame) => self.pushes_into(token, frame, trace),
            None if token.start_missing => Begin { start: Start::Unknown, base: None },
            // `main` does: distances count from its activation.
            None => Begin { start: Start::ById, base: (!token.cut && !token.damaged).then_some(0) },
        }
    }

    /// Where a sub-path begins that the frame began.
    fn pushes_into(&self, token: &Token, frame: &PushedFrame, trace: &Trace) -> Begin {
        let image = trace.images[frame.image as usize].1.filter(|_| frame.site != OPEN_SITE);
        let site = image.and_then(|image| self.tables.site_at(image, frame.site));
        let Some(site) = site.map(|site| &self.tables.sites[site as usize]) else {
            return Begin { start: Start::ById, base: None };
        };
        let Target::Push(callee) = site.target else { return Begin { start: Start::ById, base: None } };
        let base = site.frame.filter(|_| token.with_offsets).and_then(|below| {
            // The callee's activation begins where the stack pointer is at the call.
            Some(i64::from(self.frame_position(site.function)?) - i64::from(below))
        });
        Begin { start: Start::In(callee), base }
    }

    /// How far below the canonical frame address of a function the frame is that it pushes, by its machine code.
    fn frame_position(&self, function: u32) -> Option<u32> {
        let module = self.module_of(function);
        let code = self.code(module.image).ok()??;
        code.of(module.number, function - module.first_function)?.frame_position
    }

    /// How far below the beginning of its sub-path an activation of the function begins.
    pub(crate) fn offset(&self, function: u32, distance: Distance, begin: Begin) -> Option<u64> {
        let (Distance::OfActivation(words) | Distance::OfFrame(words)) = distance;
        let code = self.code(self.module_of(function).image).ok()??;
        let own = match distance {
            _ if words == 0 || !code.frames_hold => return None,
            Distance::OfActivation(_) => 0,
            Distance::OfFrame(_) => self.frame_position(function)?,
        };
        let bytes = i64::try_from(words).ok()?.checked_mul(8)?;
        u64::try_from(bytes.checked_add(begin.base?)?.checked_sub(own.into())?).ok()
    }

    /// What lies below an interrupted point, with so many frames further in. `next_signal`: as for [`Self::start`].
    fn below_point<'t>(
        &self,
        token: &'t Token,
        number: usize,
        next_signal: Option<usize>,
        trace: &Trace,
    ) -> Below<'t> {
        let begin = self.begin(token, number, next_signal, trace);
        // Another signal, with no frame in between, has none of a call behind it.
        let frame = token.frames.get(number).filter(|_| next_signal != Some(number));
        let behind = match frame {
            Some(frame) if frame.count > 1 => begin,
            _ => self.begin(token, number + 1, next_signal, trace),
        };
        Below { frame, begin, behind }
    }

    /// Adds what lies between `above` and the frame, and the frame's sub-path. `begin`: where that one begins.
    fn frame(
        &self,
        frame: &PushedFrame,
        above: Above,
        begin: Begin,
        trace: &mut Trace,
    ) -> Result<Above, DecodeError> {
        if frame.site == OPEN_SITE && frame.id == 0 && !self.is_in_program(begin.start) {
            // Of a function that pushes at its entry always, and whose caller had pushed as well: the next frame tells which
            // one, whether or not the executable's dictionary is there. But it has left its activation, perhaps.
            if frame.left && matches!(above, Above::Root(_)) {
                trace.pieces.push(Piece::Tail(None));
            }
            return Ok(above);
        }
        let Some(image) = trace.images[frame.image as usize].1 else {
            match self.called(above) {
                Above::UnknownModule(image) if image == frame.image => return Ok(above),
                Above::NoCapture => trace.pieces.push(Piece::Uninstrumented(None)),
                Above::Entered(..) | Above::Interrupted | Above::Plain(true) => {
                    trace.pieces.push(Piece::Unknown(None));
                }
                Above::Root(_) | Above::UnknownModule(_) | Above::Plain(false) => {}
            }
            trace.pieces.push(Piece::UnknownModule(frame.image));
            return Ok(Above::UnknownModule(frame.image));
        };
        if frame.site == OPEN_SITE {
            if self.tables.targeted.is_some() {
                // The id is perhaps that of a function that reaches no target.
                return Ok(Above::Interrupted);
            }
            return self.below_open(image, frame, above, begin.start, trace);
        }
        let site_index = self.site_at(image, frame.site)?;
        let site = &self.tables.sites[site_index as usize];
        match site.target {
            Target::Signal => {
                self.below_handler(self.called(above), trace);
                trace.pieces.push(Piece::Signal);
                // The id belongs to the function that was interrupted, which is not known.
                return Ok(Above::Interrupted);
            }
            Target::Entry => {
                self.below_entry(site.function, above, trace)?;
                // The id belongs to an unknown function: there is no sub-path to decode.
                return Ok(Above::Entered(site.function, frame.id));
            }
            Target::Capture | Target::Add | Target::NoEdge => {
                return Err(self.site_kind(image, frame.site, site_index, "a call that pushes"));
            }
            // Other code has no part in a direct call.
            Target::Push(_) => self.below_call(site, frame.left, above, trace),
            _ => self.below_call(site, frame.left, self.called(above), trace),
        }
        self.walk(site_index, frame.id, Distance::OfFrame(frame.distance), begin, trace)
    }

    /// What lies above a call that does not tell by itself what runs next: one that pushed, or an open one. `left`:
    /// what was called is known to
    /// have left its frame to another function.
    fn below_call(&self, site: &Site, left: bool, above: Above, trace: &mut Trace) {
        match site.target {
            Target::Push(callee) => match above {
                Above::Root(root) if root == callee && !left && self.tables.may_leave(site, root) => {
                    trace.pieces.push(Piece::Tail(None));
                }
                _ => self.below_push(callee, left, above, trace),
            },
            Target::External(symbol) => self.below_external(symbol, left, above, trace),
            _ => match above {
                Above::Root(_) if left => trace.pieces.push(Piece::Tail(None)),
                // What was called may have left its frame to the root.
                Above::Root(root)
                    if self.tables.functions[root as usize].tail_called
                        || self.tables.may_leave(site, root) =>
                {
                    if !matches!(trace.pieces.last(), Some(Piece::Tail(_))) {
                        trace.pieces.push(Piece::Tail(None));
                    }
                }
                // The target is known only as the root above.
                Above::Root(_) | Above::UnknownModule(_) => {}
                Above::NoCapture => trace.pieces.push(Piece::Uninstrumented(None)),
                // The call may have reached the entered function, or another one at id 0 that called
                // it through code that does not push.
                Above::Entered(..) | Above::Interrupted | Above::Plain(_) => {
                    trace.pieces.push(Piece::Unknown(None));
                }
            },
        }
    }

    /// What lies above an open call of the executable's, and the sub-path of the call. The id is one of its open node.
    fn below_open(
        &self,
        image: u32,
        frame: &PushedFrame,
        above: Above,
        start: Start,
        trace: &mut Trace,
    ) -> Result<Above, DecodeError> {
        let image = &self.tables.images[image as usize];
        let id = frame.id;
        let no_open_node = || DecodeError::NoOpenNode { build_id: image.build_id.clone(), id };
        let module_number = image.open_module.ok_or_else(no_open_node)?;
        let module = &self.tables.modules[module_number as usize];
        let open_node = module.open_node.ok_or_else(no_open_node)?;
        let start = match self.start_in(module_number, start) {
            Start::Unknown => return Ok(Above::Interrupted),
            Start::In(start) => Some(start),
            Start::ById => None,
        };
        let number = id.wrapping_add(start.map_or(0, |start| self.tables.functions[start as usize].offset));
        let (mut above, mut left) = (above, frame.left);
        let end = Self::path(module, open_node, number, start, None, |call| {
            above = self.call(module, call, std::mem::take(&mut left), above, trace);
        });
        match end {
            Ok(()) => {}
            Err(PathError::Ambiguous) => return Ok(Above::Interrupted),
            Err(_) => return Err(no_open_node()),
        }
        // The frame says nothing but this: who was called has pushed, too.
        if left && matches!(above, Above::Root(_)) {
            trace.pieces.push(Piece::Tail(None));
        }
        match (start, above) {
            (Some(start), Above::Root(root)) if !self.may_start(start, root) => Err(no_open_node()),
            _ => Ok(above),
        }
    }

    /// What that says of a sub-path of this module.
    fn start_in(&self, module: u32, start: Start) -> Start {
        match start {
            Start::In(start) if self.tables.functions[start as usize].module != module => Start::ById,
            // Only in a program that is built as a whole do other starts than the outermost not show by the ids.
            Start::Unknown if self.tables.modules[module as usize].open_node.is_none() => Start::ById,
            start => start,
        }
    }

    /// Whether a direct call of a program that is built as a whole began the sub-path. Then no call but an open one leads to another
    /// module, whatever the id is.
    fn is_in_program(&self, start: Start) -> bool {
        matches!(start, Start::In(start) if self.module_of(start).open_node.is_some())
    }

    fn module_of(&self, function: u32) -> &Module {
        &self.tables.modules[self.tables.functions[function as usize].module as usize]
    }

    /// Whether a sub-path that is known to start in `start` may turn out to start in `root`: a function that replaced it by a tail
    /// call. These are entered with their own offset 0.
    fn may_start(&self, start: u32, root: u32) -> bool {
        start == root || self.tables.functions[start as usize].offset == 0
    }

    /// Adds a call of a sub-path, and what lies between it and `above`.
    #[inline]
    fn call(&self, module: &Module, call: Call, left: bool, above: Above, trace: &mut Trace) -> Above {
        let number = module.first_site + call.site;
        let site = &self.tables.sites[number as usize];
        if site.target != Target::Add {
            self.below_call(site, left, above, trace);
        }
        trace.pieces.push(Piece::Site(number));
        Above::Root(module.first_function + call.caller.index() as u32)
    }

    /// What lies above the frame that was pushed for a signal handler.
    fn below_handler(&self, above: Above, trace: &mut Trace) {
        match above {
            // Whatever the handler is: it was called through its address.
            Above::Root(_) | Above::UnknownModule(_) | Above::Plain(false) => {}
            Above::NoCapture => trace.pieces.push(Piece::Uninstrumented(None)),
            Above::Entered(..) | Above::Interrupted | Above::Plain(true) => {
                trace.pieces.push(Piece::Unknown(None));
            }
        }
    }

    /// What lies above a direct call that pushed.
    fn below_push(&self, callee: u32, left: bool, above: Above, trace: &mut Trace) {
        let symbol = Some(self.tables.functions[callee as usize].symbol);
        match above {
            Above::Root(root) if root == callee && !left => {}
            Above::Entered(function, 0) if function == callee => {}
            // The callee's own frame is gone, and what it called last runs in its place.
            Above::Root(_) => trace.pieces.push(Piece::Tail(symbol)),
            // The module may have been entered without a push, too.
            Above::Entered(..) | Above::UnknownModule(_) | Above::Interrupted | Above::Plain(_) => {
                trace.pieces.push(Piece::Unknown(symbol));
            }
            Above::NoCapture => {
                trace.pieces.extend([Piece::Uninstrumented(None), Piece::Unknown(symbol)]);
            }
        }
    }

    /// What lies above a call of a name outside the module.
    fn below_external(&self, symbol: u32, left: bool, above: Above, trace: &mut Trace) {
        let is_callee = |index: u32| {
            let function = &self.tables.functions[index as usize];
            (function.external && function.symbol == symbol) || self.tables.is_alias(symbol, index)
        };
        // A name that an instrumented function has must not be called "not instrumented".
        let defined = self.tables.is_defined(symbol);
        let symbol = Some(symbol);
        match above {
            Above::Root(root) if is_callee(root) && !left => {}
            Above::Entered(function, 0) if is_callee(function) => {}
            Above::Root(_) if defined => trace.pieces.push(Piece::Tail(symbol)),
            Above::Root(_) => trace.pieces.push(Piece::Uninstrumented(symbol)),
            // The function called may be the one in which the unknown sub-path starts.
            Above::UnknownModule(_) => {}
            // The function called, or another one that it called back, may have called the entered
            // function through code that does not push.
            Above::Entered(..) | Above::Interrupted | Above::Plain(_) => {
                trace.pieces.push(Piece::Unknown(symbol));
            }
            Above::NoCapture if defined => {
                trace.pieces.extend([Piece::Uninstrumented(None), Piece::Unknown(symbol)]);
            }
            Above::NoCapture => trace.pieces.push(Piece::Uninstrumented(symbol)),
        }
    }

    /// What lies above the frame that `function` pushed at its entry: the sub-path that starts in it.
    fn below_entry(&self, function: u32, above: Above, trace: &mut Trace) -> Result<(), DecodeError> {
        let not_entered = |found| DecodeError::NotEntered { function: self.linkage_of(function), found };
        let symbol = Some(self.tables.functions[function as usize].symbol);
        match above {
            Above::Root(root) if root == function => {}
            Above::Root(root) => return Err(not_entered(self.linkage_of(root))),
            Above::UnknownModule(_) => return Err(not_entered("another module".to_owned())),
            Above::Entered(..) | Above::Interrupted | Above::Plain(_) => {
                trace.pieces.push(Piece::Unknown(symbol));
            }
            Above::NoCapture => {
                trace.pieces.extend([Piece::Uninstrumented(None), Piece::Unknown(symbol)]);
            }
        }
        Ok(())
    }

    /// Adds the sub-path of a site and an id; returns the function in which it starts.
    #[inline]
    fn walk(
        &self,
        site: u32,
        id: u64,
        distance: Distance,
        begin: Begin,
        trace: &mut Trace,
    ) -> Result<Above, DecodeError> {
        let function = self.tables.sites[site as usize].function;
        // No sub-path goes on through a thunk.
        if !self.tables.functions[function as usize].push_thunk {
            trace.pieces.push(Piece::Site(site));
        }
        self.walk_callers(function, id, distance, begin, trace)
    }

    /// Adds the sub-path of a function and an id, without the function itself.
    #[inline]
    pub(crate) fn walk_callers(
        &self,
        function: u32,
        id: u64,
        distance: Distance,
        begin: Begin,
        trace: &mut Trace,
    ) -> Result<Above, DecodeError> {
        let module = self.tables.functions[function as usize].module;
        let start = match self.start_in(module, begin.start) {
            Start::Unknown => return Ok(Above::Interrupted),
            Start::In(start) => Some(start),
            Start::ById => None,
        };
        let number = self.tables.number(function, id, start);
        let by_stack = self.tables.modules[module as usize].paths.use_stack_offsets();
        let offset = if by_stack { self.offset(function, distance, begin) } else { None };
        self.walk_number(function, number, offset, start, trace)
    }

    #[inline]
    fn walk_number(
        &self,
        function: u32,
        number: u64,
        offset: Option<u64>,
        start: Option<u32>,
        trace: &mut Trace,
    ) -> Result<Above, DecodeError> {
        let module = self.module_of(function);
        let mut root = function;
        let end = Self::path(module, module.local(function), number, start, offset, |call| {
            self.call(module, call, false, Above::Root(root), trace);
            root = module.first_function + call.caller.index() as u32;
        });
        match (end, start) {
            (Err(PathError::Ambiguous), _) => Ok(Above::Interrupted),
            (Err(_), _) => Err(self.no_id(function, number)),
            (Ok(()), Some(start)) if !self.may_start(start, root) => Err(self.no_id(function, number)),
            (Ok(()), _) => Ok(Above::Root(root)),
        }
    }

    /// Goes through the calls of a sub-path of a module.
    #[inline]
    fn path(
        module: &Module,
        function: FunctionId,
        number: u64,
        start: Option<u32>,
        offset: Option<u64>,
        call: impl FnMut(Call),
    ) -> Result<(), PathError> {
        let start = start.map(|start| module.local(start));
        module.paths.path_from(start, function, number, offset, call)
    }

    #[inline]
    fn site_at(&self, image: u32, address: u64) -> Result<u32, DecodeError> {
        self.tables.site_at(image, address).ok_or_else(|| DecodeError::NoSite {
            build_id: self.tables.images[image as usize].build_id.clone(),
            address,
        })
    }

    fn linkage_of(&self, function: u32) -> String {
        self.tables.linkage(self.tables.functions[function as usize].symbol).to_owned()
    }

    #[cold]
    fn no_id(&self, function: u32, id: u64) -> DecodeError {
        let num_cc = self.tables.functions[function as usize].num_cc;
        DecodeError::NoId { function: self.linkage_of(function), id, num_cc }
    }

    #[cold]
    fn site_kind(&self, image: u32, address: u64, site: u32, expected: &'static str) -> DecodeError {
        let found = match self.tables.sites[site as usize].target {
            Target::Push(_) => "a direct call that pushes or is open",
            Target::Add => "a direct call that adds",
            Target::NoEdge => "a direct call without an edge",
            Target::External(_) => "a call of a function outside the module",
            Target::Indirect => "a call through a pointer",
            Target::Asm => "inline assembly",
            Target::Capture => "a capture",
            Target::Signal => "the installation of a signal handler",
            Target::Entry => "a function's entry",
        };
        let build_id = self.tables.images[image as usize].build_id.clone();
        DecodeError::SiteKind { build_id, address, found, expected }
    }
}
