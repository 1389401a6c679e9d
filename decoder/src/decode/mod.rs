//! From a token to the frames of its context: the paper's DecodeStack (pcce.txt §5) over sub-paths that its
//! Algorithm 2 (§4) decodes.
//!
//! A token is a capture and a chain of pushed frames. Each of them names a site and an id, and these two name
//! exactly one sub-path. If a direct call began it, the function in which it starts is needed, too: the next
//! frame outwards names that function ([`Start`]). The code *between* two sub-paths is known exactly if the
//! push was made for a call of the function in which the inner sub-path starts. Where it is not known, or not
//! instrumented, a boundary says so; nothing is ever filled in.
//!
//! A number of `pcce_context()` names the sub-path that it was taken in, or is one of a [`Numbers`].

mod error;
mod join;
mod point;
mod state;
mod sub_path;

use std::path::PathBuf;

use pcce_dictionary::{Dictionary, SiteKind};

use crate::context::frames::piece_frames;
use crate::context::{Context, Frame, Piece, Run};
use crate::images::Images;
use crate::images::InvalidDictionary;
use crate::images::encodings::Effect;
use crate::images::symbols::Site;
use crate::numbers::Numbers;
use crate::token::{BuildId, Capture, OPEN_SITE, Point, PointEnd, PushedFrame, Token};

pub use error::DecodeError;
pub(crate) use error::MAX_PIECES;
use point::{Below, Joined};
use state::{Above, Begin, Decoding, Distance, Inner, Start};

/// Decodes the tokens of a program and its shared libraries.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) images: Images,
    numbers: Option<Numbers>,
}

impl Decoder {
    /// Makes a decoder from dictionaries, the program's and those of its shared libraries, in any order.
    ///
    /// # Errors
    /// [`InvalidDictionary`] if one of them is not consistent in itself, or two have one build id.
    pub fn new(dictionaries: &[Dictionary]) -> Result<Self, InvalidDictionary> {
        Ok(Self { images: Images::new(dictionaries)?, numbers: None })
    }

    /// Lets the decoder read the machine code from the program of a dictionary (counted from 0, as they were
    /// given to [`Decoder::new`]) if a token needs it and the dictionary does not have it. If `program` is a
    /// separate debug file, `stripped` is the program itself.
    pub fn set_program(&mut self, dictionary: usize, program: PathBuf, stripped: Option<PathBuf>) {
        self.images.set_program(dictionary, program, stripped);
    }

    /// Lets the decoder look up interned numbers.
    pub fn set_numbers(&mut self, numbers: Numbers) {
        self.numbers = Some(numbers);
    }

    /// The interned numbers that can be looked up.
    pub fn numbers(&self) -> Option<&Numbers> {
        self.numbers.as_ref()
    }

    /// Decodes a token into `context`, whose memory is used again.
    ///
    /// # Errors
    /// [`DecodeError`] if the token is of another build, or does not fit the dictionary; then `context` holds
    /// nothing that means anything.
    pub fn decode(&self, token: &Token, context: &mut Context) -> Result<(), DecodeError> {
        self.decoding(context).token(token, false, Inner::Capture)
    }

    /// Decodes a token that a process of this program is known to have made. A thread that is not in the
    /// program yet, or any more, names no known build. [`decode`](Self::decode) refuses its token as one of
    /// another build.
    pub fn decode_of_program(&self, token: &Token, context: &mut Context) -> Result<(), DecodeError> {
        self.decoding(context).token(token, true, Inner::Capture)
    }

    /// Decodes a number that `pcce_context()` returned, where it names function and id, or is one of
    /// [`set_numbers`](Self::set_numbers).
    ///
    /// # Errors
    /// [`DecodeError`] for 0, for an interned number that is not there, and for one that no function has or
    /// several have.
    pub fn decode_number(&self, number: u64, context: &mut Context) -> Result<(), DecodeError> {
        if number < pcce_abi::INTERNED {
            return self.decoding(context).number(number);
        }
        let numbers = self.numbers.as_ref().ok_or(DecodeError::Interned { number })?;
        self.decode_number_of(numbers, number, context)
    }

    /// Decodes an interned number, from 2⁶³ on.
    ///
    /// # Errors
    /// [`DecodeError`] for one that is not there, or does not fit the dictionaries.
    pub fn decode_number_of(
        &self,
        numbers: &Numbers,
        number: u64,
        context: &mut Context,
    ) -> Result<(), DecodeError> {
        let found = numbers.read(number)?;
        let inner = found.range.map_or(Inner::Capture, |range| Inner::Range(range, found.program));
        Decoding { of_number: true, ..self.decoding(context) }.token(&found.token, false, inner)
    }

    /// The parts of a token for which an interned number stands, if it is there.
    pub(crate) fn token_of(&self, number: u64) -> Option<Token> {
        let numbers = self.numbers.as_ref().filter(|_| number >= pcce_abi::INTERNED)?;
        Some(numbers.read(number).ok()?.token)
    }

    /// Decodes the context at the entry of a function, from its id and the record of its chain in a file of
    /// numbers (0: no frame was pushed).
    pub(crate) fn decode_entry(
        &self,
        numbers: &Numbers,
        function: u32,
        id: u64,
        chain: u64,
        context: &mut Context,
    ) -> Result<(), DecodeError> {
        let token = if chain == 0 { Token::default() } else { numbers.chain(chain)? };
        self.decoding(context).token(&token, false, Inner::Entry(function, id))
    }

    /// The frames of a context that this decoder has decoded, innermost first.
    pub fn frames<'d, 'c>(&'d self, context: &'c Context) -> impl Iterator<Item = Frame<'d>> + use<'d, 'c> {
        context
            .slices()
            .flat_map(|(pieces, count)| {
                // Not `count as usize`: that would cut it on a 32-bit machine.
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                std::iter::repeat_n((), count).flat_map(move |()| pieces)
            })
            .flat_map(move |piece| piece_frames(&self.images, context, *piece))
    }

    /// Returns whether a program or library with this whole build id, in hexadecimal digits, is among those
    /// given.
    pub fn has_build(&self, build_id: &str) -> bool {
        !build_id.is_empty() && self.images.symbols.images.iter().any(|image| image.build_id == build_id)
    }

    fn decoding<'d, 'c>(&'d self, context: &'c mut Context) -> Decoding<'d, 'c> {
        context.clear();
        Decoding { images: &self.images, context, other_runtime: false, of_number: false }
    }
}

impl Decoding<'_, '_> {
    fn token(&mut self, token: &Token, of_program: bool, inner: Inner) -> Result<(), DecodeError> {
        self.resolve_images(token, of_program)?;
        self.other_runtime = token.other_runtime;
        if token.with_offsets {
            // The encoding's assumptions must hold, even if this token does not depend on them.
            for number in 0..self.context.images.len() {
                if let Some(image) = self.context.image(number as u32) {
                    self.code(image)?;
                }
            }
        }
        let mut above = match (inner, &token.capture) {
            (Inner::Capture, Some(capture)) => self.capture(token, capture)?,
            (Inner::Capture, None) => Above::NoCapture,
            (Inner::Range(number, program), _) => self.in_range(token, number, program)?,
            (Inner::Entry(function, id), _) => self.entry(token, function, id)?,
        };
        let mut signals = token.signals.iter().peekable();
        // True if one of the next frame's repetitions has been shown.
        let mut consumed = false;
        if let Some(point) = &token.point {
            let incomplete = token.cut || token.damaged;
            let more = incomplete || !token.frames.is_empty() || !token.signals.is_empty();
            let below = self.below_point(token, 0, signals.peek().map(|s| s.0));
            Joined { above, consumed } = self.point(point, &below, more, !token.other_state)?;
        }
        for number in 0..=token.frames.len() {
            let frame = token.frames.get(number);
            while let Some((_, point)) = signals.next_if(|(at, _)| *at == number) {
                self.below_handler(self.called(above));
                self.context.push(Piece::Signal);
                let follows = frame.is_some() || signals.peek().is_some();
                let more = token.cut || token.damaged || follows;
                let known = follows || !token.other_state;
                let below = self.below_point(token, number, signals.peek().map(|s| s.0));
                Joined { above, consumed } = self.point(point, &below, more, known)?;
            }
            let Some(frame) = frame else { break };
            let count = frame.count - u64::from(std::mem::take(&mut consumed));
            // The sub-paths of all but the last start where the frame's own push leads.
            let last = self.begin(token, number + 1, signals.peek().map(|s| s.0));
            let own = if count > 1 { self.pushes_into(token, frame) } else { last };
            above = self.repeated(frame, count, above, [own, last])?;
            if self.context.pieces.len() > MAX_PIECES {
                return Err(DecodeError::TooLong);
            }
        }
        self.end(token, above);
        Ok(())
    }

    fn resolve_images(&mut self, token: &Token, of_program: bool) -> Result<(), DecodeError> {
        // A point whose callers were not found has perhaps no address in an instrumented image.
        let lost = |point: &Point| matches!(point.end, PointEnd::Lost | PointEnd::Bound);
        let mut known = of_program
            || token.images.is_empty()
            || token.frames.is_empty()
                && token.capture.is_none()
                && token.point.iter().chain(token.signals.iter().map(|s| &s.1)).all(lost);
        for id in &token.images {
            let image = self.images.symbols.images.iter().position(|image| image.id == *id);
            known |= image.is_some();
            self.context.images.push((*id, image.map(|image| image as u32)));
        }
        if known { Ok(()) } else { Err(self.other_build(&token.images)) }
    }

    #[cold]
    pub(super) fn other_build(&self, images: &[BuildId]) -> DecodeError {
        if images.iter().all(|id| id.as_bytes().is_empty()) {
            return DecodeError::NoBuildId;
        }
        let token: Vec<_> = images.iter().map(ToString::to_string).collect();
        let given = self.images.symbols.images.iter();
        let dictionaries: Vec<_> =
            given.map(|image| format!("{} ({})", image.build_id, image.program)).collect();
        DecodeError::OtherBuild { token: token.join(", "), dictionaries: dictionaries.join(", ") }
    }

    /// Adds the sub-path that ends where the token was taken.
    fn capture(&mut self, token: &Token, capture: &Capture) -> Result<Above, DecodeError> {
        let Some(image) = self.context.image(capture.image) else {
            self.context.push(Piece::UnknownModule(capture.image));
            return Ok(Above::UnknownModule(capture.image));
        };
        let site = self.site_at(image, capture.site)?;
        match self.kind(site) {
            SiteKind::Capture => {}
            // Taken by code that is not instrumented, in a call that was published.
            SiteKind::External(name) => self.below_external(name, false, Above::NoCapture),
            SiteKind::Direct(_)
            | SiteKind::Replaced(_)
            | SiteKind::Indirect
            | SiteKind::Asm
            | SiteKind::Entry => {
                return Err(self.site_kind(image, capture.site, site, "a capture"));
            }
        }
        let begin = self.begin(token, 0, token.signals.first().map(|s| s.0));
        self.walk(site, capture.id, Distance::OfActivation(capture.distance), begin)
    }

    /// The beginning of the sub-path that ends inside (above) a frame of the token, or after the last frame.
    /// `next_signal`: the number of frames that are further in than the next signal that is not yet shown.
    pub(super) fn begin(&self, token: &Token, number: usize, next_signal: Option<usize>) -> Begin {
        match token.frames.get(number) {
            // A signal handler starts a sub-path.
            _ if next_signal == Some(number) => Begin::BY_ID,
            Some(frame) => self.pushes_into(token, frame),
            None if token.start_missing => Begin { start: Start::Unknown, base: None },
            // `main` starts one: distances count from its activation.
            None => Begin { start: Start::ById, base: (!token.cut && !token.damaged).then_some(0) },
        }
    }

    /// The beginning of the sub-path that the push of a frame began.
    fn pushes_into(&self, token: &Token, frame: &PushedFrame) -> Begin {
        let symbols = &self.images.symbols;
        let image = self.context.image(frame.image).filter(|_| frame.site != OPEN_SITE);
        let Some(number) = image.and_then(|image| symbols.site_at(image, frame.site)) else {
            return Begin::BY_ID;
        };
        let site = &symbols.sites[number as usize];
        let SiteKind::Direct(Some(callee)) = self.kind(number) else { return Begin::BY_ID };
        let encoding = self.images.encoding_of(site.function);
        if encoding.effect(number) != Effect::Other {
            return Begin::BY_ID;
        }
        let base = if token.with_offsets { self.base(encoding, number, site) } else { None };
        Begin { start: Start::In(callee), base }
    }

    /// The frames below an interrupted point with `number` frames further in. `next_signal`: as for
    /// [`Self::begin`].
    fn below_point<'t>(&self, token: &'t Token, number: usize, next_signal: Option<usize>) -> Below<'t> {
        let begin = self.begin(token, number, next_signal);
        // If another signal follows directly, the next frame is not below this point.
        let frame = token.frames.get(number).filter(|_| next_signal != Some(number));
        let outer = match frame {
            Some(frame) if frame.count > 1 => begin,
            _ => self.begin(token, number + 1, next_signal),
        };
        Below { frame, begin, outer }
    }

    /// Adds `count` equal frames. The sub-paths of all but the last begin at `own`.
    fn repeated(
        &mut self,
        frame: &PushedFrame,
        count: u64,
        mut above: Above,
        [own, last]: [Begin; 2],
    ) -> Result<Above, DecodeError> {
        if count > 0 {
            above = self.frame(frame, above, own)?;
        }
        if count > 1 {
            // Only the first one has different code above it: decode two, and repeat the second.
            let once = self.context.pieces.len();
            let same = own == last;
            let equal = if same { count - 1 } else { count - 2 };
            if equal > 0 {
                above = self.frame(frame, above, own)?;
            }
            let end = self.context.pieces.len();
            if end > once {
                self.context.runs.push(Run { end: once, count: 1 });
                self.context.runs.push(Run { end, count: equal });
            }
            if !same {
                above = self.frame(frame, above, last)?;
            }
        }
        Ok(above)
    }

    /// Adds the boundary between `above` and the frame, and the frame's sub-path. `begin`: the beginning of
    /// that sub-path.
    fn frame(&mut self, frame: &PushedFrame, above: Above, begin: Begin) -> Result<Above, DecodeError> {
        if frame.site == OPEN_SITE && frame.id == 0 && !self.is_in_program(begin.start) {
            // The frame of a function that always pushes at its entry, and whose caller had pushed as well.
            // The next frame shows the function, even without the executable's dictionary. The function may have
            // left its activation.
            self.below_entered(frame.left, above);
            return Ok(above);
        }
        let Some(image) = self.context.image(frame.image) else {
            self.below_unknown_module(frame.image, above);
            return Ok(Above::UnknownModule(frame.image));
        };
        if frame.site == OPEN_SITE {
            if self.images.symbols.any_targeted {
                // The id is perhaps that of a function that reaches no target.
                return Ok(Above::Interrupted);
            }
            return self.walk_open(image, frame.id, frame.left, above, begin.start);
        }
        let number = self.site_at(image, frame.site)?;
        let site = &self.images.symbols.sites[number as usize];
        match self.kind(number) {
            SiteKind::Entry => {
                self.below_entry(site.function, above)?;
                // The id belongs to an unknown function: there is no sub-path to decode.
                return Ok(Above::Entered(site.function, frame.id));
            }
            // A direct call leads to no other module: `called` is not needed.
            SiteKind::Direct(_) if self.effect(number) == Effect::Other => {
                self.below_call(number, frame.left, above)
            }
            SiteKind::Capture | SiteKind::Direct(_) => {
                return Err(self.site_kind(image, frame.site, number, "a call that pushes"));
            }
            SiteKind::External(_) | SiteKind::Replaced(_) | SiteKind::Indirect | SiteKind::Asm => {
                self.below_call(number, frame.left, self.called(above));
            }
        }
        self.walk(number, frame.id, Distance::OfFrame(frame.distance), begin)
    }

    /// Adds the boundary after the last frame.
    fn end(&mut self, token: &Token, above: Above) {
        match self.called(above) {
            Above::NoCapture => self.context.push(Piece::Uninstrumented(None)),
            Above::Entered(..) | Above::Interrupted | Above::Plain(false) if !token.cut && !token.damaged => {
                self.context.push(Piece::Unknown(None))
            }
            // The function with which the thread began has left its activation to the root.
            Above::Root(_) if token.left && !token.cut && !token.damaged => self.left(true),
            Above::Entered(..) | Above::Interrupted | Above::Plain(_) => {}
            Above::Root(_) | Above::UnknownModule(_) => {}
        }
        // Only one of the runtimes knows where the thread began.
        if token.other_runtime && !matches!(self.context.pieces.last(), Some(Piece::Unknown(_))) {
            self.context.push(Piece::Unknown(None));
        }
        if token.cut {
            self.context.push(Piece::Truncated);
        }
        if token.damaged {
            self.context.push(Piece::Damaged);
        }
        self.close();
    }

    /// Makes one run of the pieces after the last run.
    pub(super) fn close(&mut self) {
        self.context.runs.push(Run { end: self.context.pieces.len(), count: 1 });
    }

    #[inline]
    fn site_at(&self, image: u32, address: u64) -> Result<u32, DecodeError> {
        self.images.symbols.site_at(image, address).ok_or_else(|| DecodeError::NoSite {
            build_id: self.images.symbols.images[image as usize].build_id.clone(),
            address,
        })
    }

    /// The kind of a site. A call by name that the link has bound to a function of the encoding is a direct
    /// one.
    fn kind(&self, site: u32) -> SiteKind {
        let Site { function, kind, .. } = self.images.symbols.sites[site as usize];
        match kind {
            SiteKind::External(_) => {
                let callee = self.images.encoding_of(function).callee(site);
                callee.map_or(kind, |callee| SiteKind::Direct(Some(callee)))
            }
            kind => kind,
        }
    }

    /// The effect of the call at a site.
    fn effect(&self, site: u32) -> Effect {
        self.images.encoding_of(self.images.symbols.sites[site as usize].function).effect(site)
    }

    #[cold]
    fn site_kind(&self, image: u32, address: u64, site: u32, expected: &'static str) -> DecodeError {
        let found = match self.kind(site) {
            SiteKind::Direct(_) => match self.effect(site) {
                Effect::Other => "a direct call that pushes or is open",
                Effect::Add => "a direct call that adds",
                Effect::None => "a direct call without an edge",
            },
            SiteKind::External(_) | SiteKind::Replaced(_) => "a call of a function outside the module",
            SiteKind::Indirect => "a call through a pointer",
            SiteKind::Asm => "inline assembly",
            SiteKind::Capture => "a capture",
            SiteKind::Entry => "a function's entry",
        };
        let build_id = self.images.symbols.images[image as usize].build_id.clone();
        DecodeError::SiteKind { build_id, address, found, expected }
    }
}
