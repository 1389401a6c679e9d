//! From a function and an id to the calls of the sub-path that led there (pcce.txt §4, Algorithm 2).

use pcce_encoding::decode::{Call, PathError};

use crate::context::Piece;
use crate::images::encodings::{Effect, Encoding, InRange};
use crate::images::symbols::Site;
use crate::token::{BuildId, Token};

use super::error::DecodeError;
use super::state::{Above, Begin, Decoding, Distance, Start};

impl<'d> Decoding<'d, '_> {
    /// Adds the sub-path of a site and an id; returns the function in which it starts.
    #[inline]
    pub(super) fn walk(
        &mut self,
        site: u32,
        id: u64,
        distance: Distance,
        begin: Begin,
    ) -> Result<Above, DecodeError> {
        let symbols = &self.images.symbols;
        let function = symbols.sites[site as usize].function;
        // No sub-path goes on through a thunk, or a stub.
        if !symbols.is_left_out(site) {
            let any_line = self.of_number && self.images.encodings.is_of_several_lines(site);
            self.context.push(if any_line { Piece::AnyLine(site) } else { Piece::Site(site) });
        }
        self.walk_callers(function, id, distance, begin)
    }

    /// Adds the sub-path of a function and an id, without the function itself.
    #[inline]
    pub(super) fn walk_callers(
        &mut self,
        function: u32,
        id: u64,
        distance: Distance,
        begin: Begin,
    ) -> Result<Above, DecodeError> {
        let encoding = self.images.encoding_of(function);
        let start = match self.start_in(encoding, begin.start) {
            Start::Unknown => return Ok(Above::Interrupted),
            Start::In(start) => Some(start),
            Start::ById => None,
        };
        let number = encoding.number(function, id, start);
        let by_stack = encoding.paths.use_stack_offsets();
        let offset = if by_stack { self.stack_offset(function, distance, begin) } else { None };
        self.walk_number(function, number, offset, start)
    }

    /// Adds the sub-path of a function with a number, without the function itself.
    #[inline]
    pub(super) fn walk_number(
        &mut self,
        function: u32,
        number: u64,
        stack_offset: Option<u64>,
        start: Option<u32>,
    ) -> Result<Above, DecodeError> {
        let encoding = self.images.encoding_of(function);
        let mut root = function;
        let local_start = start.map(|start| encoding.local(start));
        let local = encoding.local(function);
        let end = encoding.paths.path_from(local_start, local, number, stack_offset, |call| {
            self.call(encoding, call, false, Above::Root(root));
            root = encoding.function(call.caller);
        });
        match (end, start) {
            (Err(PathError::Ambiguous), _) => Ok(Above::Interrupted),
            (Err(_), _) => Err(self.no_id(encoding, function, number)),
            (Ok(()), Some(start)) if !may_start(encoding, start, root) => {
                Err(self.no_id(encoding, function, number))
            }
            (Ok(()), _) => Ok(Above::Root(root)),
        }
    }

    /// Adds the boundary above an open call of the executable's, and the sub-path of the call. `id` is one of
    /// its open node. `left`: the callee is known to have left its activation to another function.
    pub(super) fn walk_open(
        &mut self,
        image: u32,
        id: u64,
        left: bool,
        above: Above,
        start: Start,
    ) -> Result<Above, DecodeError> {
        let build_id = &self.images.symbols.images[image as usize].build_id;
        let no_open_node = || DecodeError::NoOpenNode { build_id: build_id.clone(), id };
        let encoding = self.images.open_encoding_of(image).ok_or_else(no_open_node)?;
        let open_node = encoding.open_node.ok_or_else(no_open_node)?;
        let start = match self.start_in(encoding, start) {
            Start::Unknown => return Ok(Above::Interrupted),
            Start::In(start) => Some(start),
            Start::ById => None,
        };
        let number = id.wrapping_add(start.map_or(0, |start| encoding.id_offset(start)));
        let local_start = start.map(|start| encoding.local(start));
        let (mut above, mut left) = (above, left);
        let end = encoding.paths.path_from(local_start, open_node, number, None, |call| {
            above = self.call(encoding, call, std::mem::take(&mut left), above);
        });
        match end {
            Ok(()) => {}
            Err(PathError::Ambiguous) => return Ok(Above::Interrupted),
            Err(_) => return Err(no_open_node()),
        }
        self.below_entered(left, above);
        match (start, above) {
            (Some(start), Above::Root(root)) if !may_start(encoding, start, root) => Err(no_open_node()),
            _ => Ok(above),
        }
    }

    /// Adds a call of a sub-path, and the boundary between it and `above`.
    #[inline]
    fn call(&mut self, encoding: &Encoding, call: Call, left: bool, above: Above) -> Above {
        let number = encoding.site(call.site);
        if encoding.effect(number) != Effect::Add {
            self.below_call(number, left, above);
        }
        self.context.push(Piece::Site(number));
        Above::Root(encoding.function(call.caller))
    }

    /// The start of a sub-path of this encoding.
    pub(super) fn start_in(&self, encoding: &Encoding, start: Start) -> Start {
        match start {
            Start::In(start) if !std::ptr::eq(self.images.encoding_of(start), encoding) => Start::ById,
            // The ids show all starts, except in a program that is built as a whole: there they show only the
            // outermost one.
            Start::Unknown if encoding.open_node.is_none() => Start::ById,
            start => start,
        }
    }

    /// Returns whether a direct call of a program that is built as a whole began the sub-path. Then only an
    /// open call leads to another module, whatever the id is.
    pub(super) fn is_in_program(&self, start: Start) -> bool {
        matches!(start, Start::In(start) if self.images.encoding_of(start).open_node.is_some())
    }

    #[cold]
    fn no_id(&self, encoding: &Encoding, function: u32, id: u64) -> DecodeError {
        DecodeError::NoId { function: self.name_of(function), id, num_cc: encoding.num_cc(function) }
    }
}

/// Returns whether a sub-path that is known to start in `start` may turn out to start in `root`: a function
/// that replaced it by a tail call. These are entered with their own id offset 0.
fn may_start(encoding: &Encoding, start: u32, root: u32) -> bool {
    start == root || encoding.id_offset(start) == 0
}

impl Decoding<'_, '_> {
    /// Decodes a number that names function and id.
    pub(super) fn number(&mut self, number: u64) -> Result<(), DecodeError> {
        if number == 0 {
            return Err(DecodeError::NoContext);
        }
        let mut functions = self.images.encodings.in_ranges(number);
        let InRange { function, id, place } = functions.next().ok_or(DecodeError::NoRange { number })?;
        if let Some(other) = functions.next() {
            let (first, second) = (self.name_of(other.function), self.name_of(function));
            return Err(DecodeError::Ambiguous { number, first, second });
        }
        self.context.push(place);
        self.walk_number(function, id, None, None)?;
        self.close();
        Ok(())
    }

    /// Adds the sub-path for which a number in a range of the program stands, inside of the frames of a
    /// token.
    pub(super) fn in_range(
        &mut self,
        token: &Token,
        number: u64,
        program: BuildId,
    ) -> Result<Above, DecodeError> {
        let images = &self.images.symbols.images;
        let image = images.iter().position(|image| image.id == program);
        let image = image.ok_or_else(|| self.other_build(&[program]))? as u32;
        let encoding = self.images.open_encoding_of(image).ok_or(DecodeError::NoRange { number })?;
        let begin = self.begin(token, 0, token.signals.first().map(|signal| signal.0));
        let start = match self.start_in(encoding, begin.start) {
            // Its number is that of the public function.
            Start::Unknown => return Err(DecodeError::NoRange { number }),
            Start::In(start) => Some(start),
            Start::ById => None,
        };
        // The id in the number counts from the id with which the sub-path starts.
        let whole = number.wrapping_add(start.map_or(0, |start| encoding.id_offset(start)));
        let of_program = |function: u32| std::ptr::eq(self.images.encoding_of(function), encoding);
        let found = self.images.encodings.in_ranges(whole).find(|found| of_program(found.function));
        let InRange { function, id, place } = found.ok_or(DecodeError::NoRange { number })?;
        self.context.push(place);
        self.walk_number(function, id, None, start)
    }

    /// Adds the sub-path that ends at the entry of a function, inside of the frames of a token.
    pub(super) fn entry(&mut self, token: &Token, function: u32, id: u64) -> Result<Above, DecodeError> {
        let begin = self.begin(token, 0, token.signals.first().map(|signal| signal.0));
        self.context.push(Piece::Function(function));
        self.walk_callers(function, id, Distance::OfActivation(0), begin)
    }
}

/// Hybrid encodings (pcce.txt §6): from the distances in a token to the stack offsets that distinguish sub-paths of
/// one number.
impl Decoding<'_, '_> {
    /// The distance from the beginning of its sub-path down to an activation of the function.
    pub(super) fn stack_offset(&self, function: u32, distance: Distance, begin: Begin) -> Option<u64> {
        let (Distance::OfActivation(words) | Distance::OfFrame(words)) = distance;
        let code = self.code(self.images.symbols.module_of(function).image).ok()??;
        let own = match distance {
            _ if words == 0 || !code.frames_hold => return None,
            Distance::OfActivation(_) => 0,
            Distance::OfFrame(_) => self.frame_position(function)?,
        };
        let bytes = i64::try_from(words).ok()?.checked_mul(8)?;
        u64::try_from(bytes.checked_add(begin.base?)?.checked_sub(own.into())?).ok()
    }

    /// The place where the activation of a call with a push begins, less the place of the pushed frame.
    pub(super) fn base(&self, encoding: &Encoding, number: u32, site: &Site) -> Option<i64> {
        // The callee's activation begins where the stack pointer is at the call.
        let below = encoding.stack.offset(number)?;
        Some(i64::from(self.frame_position(site.function)?) - i64::from(below))
    }

    /// The distance from the canonical frame address of a function down to the frame that it pushes, by its
    /// machine code.
    fn frame_position(&self, function: u32) -> Option<u32> {
        let module = self.images.symbols.module_of(function);
        let code = self.code(module.image).ok()??;
        code.of(module.number, function - module.first_function)?.frame_position
    }
}
