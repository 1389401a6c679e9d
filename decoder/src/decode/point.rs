//! Interrupted points: from the addresses of a token to the function whose id the token holds.
//!
//! The innermost addresses may lie in code that is not instrumented, and in silent functions. The first one
//! in another function is that of the function to which the id belongs, and the machine code says what that
//! function has done to the id there. If the innermost pushed frame is this very activation's, its id is the
//! one that counts.

use pcce_abi::functions;
use pcce_dictionary::SiteKind;
use pcce_dictionary::code::{Role, State};

use crate::code::table::{self, CodeTable, Thunk};
use crate::context::{Absent, Context, FrameKind, Piece};
use crate::images::symbols::Site;
use crate::token::{OPEN_SITE, Point, PointEnd, PushedFrame};

use super::error::DecodeError;
use super::state::{Above, Begin, Decoding, Distance};

/// The state after the pieces of a point.
pub(super) struct Joined {
    pub(super) above: Above,
    /// True if the next frame of the token was that of the point's own function, and was decoded with it.
    pub(super) consumed: bool,
}

/// The frames below a point in its token.
pub(super) struct Below<'t> {
    /// The next frame, if no signal comes before it.
    pub(super) frame: Option<&'t PushedFrame>,
    /// The beginning of the sub-path that ends above that frame.
    pub(super) begin: Begin,
    /// The beginning of the sub-path that ends below it.
    pub(super) outer: Begin,
}

/// A function that is active at a point.
struct Inner<'d> {
    image: u32,
    /// The number of its name, which distinguishes it from local functions of the same name.
    number: u32,
    /// Its linkage name.
    name: &'d str,
    /// The function's number, if it is instrumented.
    owner: Option<u32>,
    /// True if a jump may have led to it.
    jumped_to: bool,
}

impl Inner<'_> {
    /// Returns whether a call in an image that names its callee reaches this function.
    fn is_called(&self, image: u32, callee: u32, code: &CodeTable) -> bool {
        if self.image == image { self.number == callee } else { self.name == code.linkage(callee) }
    }
}

/// The kind of code at an address of a point.
enum Active<'d> {
    /// Code that is not instrumented.
    Plain,
    /// The runtime's `longjmp`: the state may be the one that it puts back.
    Jump,
    /// A thunk for this function. `is_stub`: see [`table::Thunk`].
    Thunk { inner: Inner<'d>, of: u32, is_stub: bool },
    /// Unknown.
    Lost,
    /// The call there does not lead to the function further in: the pieces since the last instruction are
    /// wrong.
    Misfit,
    /// This function, with the state of the id there.
    Instrumented(u32, State),
}

/// A call that an activation has made.
struct CallAt<'d> {
    image: u32,
    code: &'d CodeTable,
    /// The name of the callee, if it is known.
    callee: Option<u32>,
    /// True if the callee is known to have left its activation to another function.
    marked: bool,
}

impl<'d> Decoding<'d, '_> {
    /// Adds the pieces of a point and of the sub-path that led to it. `more`: further frames or signals follow
    /// the point, or the token is incomplete. `known`: the point's id is the one that was there.
    pub(super) fn point(
        &mut self,
        point: &Point,
        below: &Below<'_>,
        more: bool,
        known: bool,
    ) -> Result<Joined, DecodeError> {
        // Addresses up to the last signal belong to handlers that the trampoline has not called. `added` is what
        // they and their callees have added to the id.
        let last_signal = point.addresses.iter().rposition(|a| a.exact).unwrap_or(0);
        let mut added = Some(0_u64);
        // True if nothing is known of the id in a function further in.
        let mut by_addresses = false;
        // Stacks begin in code that is not instrumented: it starts the program, or a thread. There the
        // addresses are complete, and can replace an id that is not known. Those of a damaged stack end anywhere.
        let whole = point.end == PointEnd::Outermost && !more && !self.ends_instrumented(point)?;
        // The outermost function met to which the id does not belong, the number of its address, and the pieces up to
        // it.
        let mut outermost: Option<(u32, usize, usize)> = None;
        // The function further in; None where it is not known.
        let mut inner: Option<Inner<'d>> = None;
        let stop = |above| Ok(Joined { above, consumed: false });
        // True if the activation with an address owns the innermost frame.
        let is_owner = |number: usize| point.ends_at(number, PointEnd::Pushed);
        // The pieces up to the last address that is no return address.
        let mut certain = self.context.pieces.len();
        for (number, address) in point.addresses.iter().enumerate() {
            if number.checked_sub(1).is_some_and(|before| point.addresses[before].exact) {
                certain = self.context.pieces.len();
            }
            if point.left_out.is_some_and(|(first, last)| (first..=last).contains(&number)) {
                self.context.push(Piece::Unknown(None));
                inner = None;
            }
            let before = self.context.pieces.len();
            let (owner, state) = match self.active(point, number, below, &mut inner)? {
                Active::Plain => continue,
                Active::Jump => {
                    by_addresses = true;
                    continue;
                }
                Active::Thunk { of, is_stub: true, .. } if is_owner(number) => return self.pushed(of, below),
                Active::Thunk { of, .. } if is_owner(number) => return stop(Above::Root(of)),
                // The thunk has not pushed yet, or has popped already.
                Active::Thunk { inner: thunk, .. } => {
                    inner = Some(thunk);
                    continue;
                }
                Active::Lost => return stop(Above::Interrupted),
                // Compilers' unwind tables are wrong in places, and do not know what assembly does.
                Active::Misfit => {
                    self.context.pieces.truncate(certain);
                    return stop(Above::Interrupted);
                }
                Active::Instrumented(owner, state) => (owner, state),
            };
            if number < last_signal {
                added = match (added, state) {
                    (Some(sum), State::Added(value)) => Some(sum.wrapping_add(value)),
                    _ => None,
                };
                continue;
            }
            if self.images.symbols.functions[owner as usize].silent {
                if state != State::Added(0) {
                    return stop(Above::Interrupted);
                }
                outermost = Some((owner, number, self.context.pieces.len()));
                continue;
            }
            // The frames of code without unwind tables are not found. But this function has pushed, and none
            // further in has.
            let no_tables = point.ends_at(number, PointEnd::Lost);
            let seen = point.left_out.is_none() && added.is_some();
            if is_owner(number) || no_tables && seen && state == State::Pushed {
                return self.pushed(owner, below);
            }
            // The frame belongs to this activation, or to another one of the function.
            let may_have_pushed = matches!(state, State::Added(0) | State::Unknown);
            if no_tables && may_have_pushed && self.has_pushed(owner, below.frame) {
                self.context.pieces.truncate(before);
                return stop(Above::Interrupted);
            }
            // A stack that ends before the innermost frame is not the stack of that frame.
            if point.end == PointEnd::Outermost && more {
                return stop(Above::Interrupted);
            }
            let id = match (state, added) {
                (State::Added(value), Some(sum)) if known && !by_addresses => {
                    point.id.wrapping_sub(value).wrapping_sub(sum)
                }
                // The addresses go on up to the owner of the innermost frame, or the end of the stack.
                _ if point.end == PointEnd::Pushed
                    || whole && (by_addresses || !known || state == State::Unknown) =>
                {
                    by_addresses = true;
                    outermost = Some((owner, number, self.context.pieces.len()));
                    continue;
                }
                _ => return stop(Above::Interrupted),
            };
            return stop(self.owned(owner, id, address.distance, below.begin));
        }
        if let (true, Some((root, number, pieces))) = (whole, outermost) {
            // The root's caller is the code that starts programs and threads, or other code without the pass, as
            // where the id of the outermost function is known.
            self.context.pieces.truncate(pieces);
            // Further activations are left out, and it is not known which of them came first.
            if point.left_out.is_some_and(|(_, last)| last > number) {
                return stop(Above::Interrupted);
            }
            if self.images.symbols.functions[root as usize].jumped_to {
                self.left(false);
            }
            return stop(Above::Root(root));
        }
        match point.end {
            PointEnd::Outermost if self.ends_instrumented(point)? => stop(Above::Interrupted),
            // The owner of the next frame is the last function: that of a signal, or one whose dictionary was
            // not given.
            PointEnd::Pushed | PointEnd::Outermost => stop(Above::Plain(point.end == PointEnd::Outermost)),
            PointEnd::Bound | PointEnd::Lost => stop(Above::Interrupted),
        }
    }

    /// Adds the piece of an address of the point, and the boundary between it and the function further in.
    fn active(
        &mut self,
        point: &Point,
        number: usize,
        below: &Below<'_>,
        inner: &mut Option<Inner<'d>>,
    ) -> Result<Active<'d>, DecodeError> {
        let address = &point.addresses[number];
        if number > 0 && address.exact {
            self.context.push(Piece::Signal);
            *inner = None;
        }
        // The handler returns here, to the code that lets the kernel go on: no function has called it.
        let follows = !point.left_out.is_some_and(|(first, last)| (first..=last).contains(&(number + 1)));
        if !address.exact && follows && point.addresses.get(number + 1).is_some_and(|outer| outer.exact) {
            self.below_plain(inner.take());
            return Ok(Active::Plain);
        }
        let at = if address.exact { address.address } else { address.address.wrapping_sub(1) };
        let Some(image) = self.context.image(address.image) else {
            // The address may be none of code.
            if !address.exact && point.ends_at(number, PointEnd::Lost) {
                return Ok(Active::Lost);
            }
            self.below_plain(inner.take());
            self.plain_of(address.image);
            return Ok(Active::Plain);
        };
        // Without the code's table it is not known which functions are instrumented.
        let Some(code) = self.code(image)? else { return Ok(Active::Lost) };
        let Some(function) = code.function(at) else {
            self.below_plain(inner.take());
            self.plain(None);
            return Ok(Active::Plain);
        };
        let owner = match function.role {
            Role::Instrumented(module, row) => Some(self.images.symbols.function_of(image, module, row)),
            _ => None,
        };
        let state = table::state(function, at);
        if owner.is_some() && !address.exact {
            // The stack was damaged, or the unwinder is about to leave it, where there is no call.
            let Some(callee) = table::callee(function, address.address) else { return Ok(Active::Lost) };
            let is_owner = point.ends_at(number, PointEnd::Pushed);
            let marked = is_owner && below.frame.is_some_and(|frame| frame.left);
            let call = CallAt { image, code, callee, marked };
            if self.misfits(&call, inner.as_ref()) {
                return Ok(Active::Misfit);
            }
            self.below_address(&call, inner.take());
        }
        let jumped_to = owner.is_some_and(|owner| self.images.symbols.functions[owner as usize].jumped_to);
        let name = code.linkage(function.name);
        if let Some(Thunk { of: (module, row), is_stub }) = code.thunk(function) {
            let of = self.images.symbols.function_of(image, module, row);
            let jumped_to = self.images.symbols.functions[of as usize].jumped_to;
            let number = function.name;
            // A thread in an open thunk is in the thunk's function, and nothing is active further in.
            let shown = code.of(module, row).filter(|_| address.exact && !is_stub);
            if let Some(function) = shown {
                self.context.push_of(Piece::Named(FrameKind::Call, image, function.name), of);
            }
            let inner = Inner { image, number, name, owner: Some(of), jumped_to };
            return Ok(Active::Thunk { inner, of, is_stub });
        }
        let found = Inner { image, number: function.name, name, owner, jumped_to };
        if function.role == Role::Plain {
            self.below_plain(inner.take());
            if found.name == functions::LONGJMP {
                self.plain(Some((image, function.name)));
                *inner = Some(found);
                return Ok(Active::Jump);
            }
            // The trampoline called the handler instead of the kernel.
            if found.name == functions::SIGNAL_TRAMPOLINE && !address.exact {
                *inner = None;
                return Ok(Active::Plain);
            }
        }
        // The loader's code that binds a call has no name, and is not what was called.
        *inner = Some(found).filter(|found| !found.name.is_empty());
        let Some(owner) = owner else {
            if function.role == Role::Opaque {
                return Ok(Active::Lost);
            }
            self.plain(Some((image, function.name)));
            return Ok(Active::Plain);
        };
        if !self.images.symbols.functions[owner as usize].push_thunk {
            let piece = match table::place(function, at) {
                0 => Piece::Named(FrameKind::Call, image, function.name),
                place => Piece::Place(image, place),
            };
            self.context.push_of(piece, owner);
        }
        Ok(Active::Instrumented(owner, state))
    }

    /// Returns whether a call cannot have led to the function further in: it calls another one, which never
    /// leaves its activation to others.
    fn misfits(&self, call: &CallAt<'_>, inner: Option<&Inner<'_>>) -> bool {
        let CallAt { image, code, callee, marked } = *call;
        let (Some(callee), Some(inner)) = (callee, inner) else { return false };
        // A call in a library may lead to another library's function of the name.
        let is_bound_by_link = self.images.open_encoding_of(image).is_some();
        is_bound_by_link && !marked && code.stays(callee) && !inner.is_called(image, callee, code)
    }

    /// Adds the boundary between a call and the function further in.
    fn below_address(&mut self, call: &CallAt<'_>, inner: Option<Inner<'_>>) {
        let CallAt { image, code, callee, marked } = *call;
        let functions = &self.images.symbols.functions;
        match (callee, inner) {
            (Some(callee), Some(inner)) if inner.is_called(image, callee, code) && !marked => {
                // The inner activation is the one that the call has made, or one that jumps have led to since.
                let comes_back = inner.owner.is_some_and(|owner| functions[owner as usize].comes_back);
                self.context.pieces.extend(comes_back.then_some(Piece::MayHaveLeft));
            }
            // Code without the pass may call anything in between.
            (Some(callee), Some(inner)) if inner.owner.is_some() || code.is_instrumented(callee) => {
                self.context.push(Piece::Named(FrameKind::Tail, image, callee));
            }
            // The code further in has no name. It gets that of the callee. But an instrumented callee has left its
            // activation to this code; in a library, the code may also be the loader's, which binds the call.
            (Some(callee), None) => match self.context.pieces.last_mut() {
                Some(Piece::Uninstrumented(None) | Piece::Absent(_)) if code.is_instrumented(callee) => {
                    let is_bound_by_link = self.images.open_encoding_of(image).is_some();
                    if is_bound_by_link {
                        self.context.push(Piece::Named(FrameKind::Tail, image, callee));
                    } else if !code.stays(callee) {
                        self.context.push(Piece::MayHaveLeft);
                    }
                }
                Some(last @ Piece::Uninstrumented(None)) => {
                    *last = Piece::Named(FrameKind::Uninstrumented, image, callee);
                }
                Some(Piece::Absent(number)) => {
                    self.context.absent[*number as usize].called = Some((image, callee));
                }
                _ => {}
            },
            // A call through a pointer. It is not known which jumps of other images lead to the function.
            (None, Some(inner)) if inner.owner.is_some() => {
                let may_have_left = inner.jumped_to || marked || inner.image != image;
                self.context.pieces.extend(may_have_left.then_some(if marked {
                    Piece::Tail(None)
                } else {
                    Piece::MayHaveLeft
                }));
            }
            // A call of code without the pass, or of a function that has left its activation to such code.
            (None, _) if self.is_in_plain() && self.may_leave() => self.context.push(Piece::MayHaveLeft),
            _ => {}
        }
    }

    /// Returns whether the last piece is code without the pass.
    fn is_in_plain(&self) -> bool {
        let last = self.context.pieces.last();
        let of_plain = |piece: &Piece| {
            matches!(
                piece,
                Piece::Uninstrumented(_) | Piece::Absent(_) | Piece::Named(FrameKind::Uninstrumented, ..)
            )
        };
        last.is_some_and(of_plain)
    }

    /// Returns whether an instrumented function of the process may leave its activation to code without the pass.
    fn may_leave(&self) -> bool {
        let mut images = self.context.images.iter().filter_map(|image| image.1);
        // Functions of code that cannot be read may leave.
        let may_leave = |image| self.images.code(image).map(|code| code.is_some_and(|code| code.may_leave));
        images.any(|image| may_leave(image).unwrap_or(true))
    }

    /// Adds the boundary between code that is not instrumented and the function that it has called.
    fn below_plain(&mut self, inner: Option<Inner<'_>>) {
        if inner.is_some_and(|inner| inner.owner.is_some() && inner.jumped_to) {
            self.left(false);
        }
    }

    /// Returns whether the outermost address is in an instrumented function.
    fn ends_instrumented(&self, point: &Point) -> Result<bool, DecodeError> {
        let Some(last) = point.addresses.last() else { return Ok(false) };
        let Some(image) = self.context.image(last.image) else { return Ok(false) };
        let at = last.address.wrapping_sub(u64::from(!last.exact));
        let function = self.code(image)?.and_then(|code| code.function(at));
        Ok(function.is_some_and(|f| matches!(f.role, Role::Instrumented(..))))
    }

    /// Adds the sub-path of the function to which the point's id belongs.
    fn owned(&mut self, owner: u32, id: u64, distance: u64, begin: Begin) -> Above {
        // A program built as a whole has called it by an open call, and it has not pushed for that yet: the
        // id is the program's, as the function is about to find (ARCHITECTURE.md shows how ids of both are
        // distinguished).
        let symbols = &self.images.symbols;
        // Functions that only their module calls have ids of either sign.
        let encoding = self.images.encoding_of(owner);
        let is_opened = encoding.open_node.is_none()
            && encoding.is_entered(owner)
            && (id.cast_signed() > 0 || self.is_in_program(begin.start));
        if is_opened {
            let pieces = self.context.pieces.len();
            let mut images = self.context.images.iter().filter_map(|image| image.1);
            let program = images.find(|image| self.images.open_encoding_of(*image).is_some());
            // The id is perhaps that of a function that reaches no target.
            let program = program.filter(|_| !symbols.any_targeted);
            let above = program
                .and_then(|program| self.walk_open(program, id, false, Above::Root(owner), begin.start).ok());
            return above.unwrap_or_else(|| {
                self.context.pieces.truncate(pieces);
                Above::Interrupted
            });
        }
        if self.images.symbols.functions[owner as usize].enters {
            return Above::Entered(owner, id);
        }
        let pieces = self.context.pieces.len();
        match self.walk_callers(owner, id, Distance::OfActivation(distance), begin) {
            Ok(above) => above,
            // Memory may have been damaged before the point was interrupted.
            Err(_) => {
                self.context.pieces.truncate(pieces);
                Above::Interrupted
            }
        }
    }

    /// Returns whether a function has pushed this frame.
    fn has_pushed(&self, function: u32, frame: Option<&PushedFrame>) -> bool {
        frame.and_then(|frame| self.site_of(frame)).is_some_and(|site| site.function == function)
    }

    fn site_of(&self, frame: &PushedFrame) -> Option<&'d Site> {
        let (symbols, image) = (&self.images.symbols, self.context.image(frame.image)?);
        Some(&symbols.sites[symbols.site_at(image, frame.site)? as usize])
    }

    /// Adds the sub-path of a function that owns the innermost frame.
    fn pushed(&mut self, owner: u32, below: &Below<'_>) -> Result<Joined, DecodeError> {
        let unknown = Ok(Joined { above: Above::Interrupted, consumed: false });
        let Some(frame) = below.frame else { return unknown };
        if frame.site == OPEN_SITE {
            // The function pushed at its entry, for an open call: no thunk can do that for it.
            return Ok(Joined { above: Above::Root(owner), consumed: false });
        }
        let Some(site) = self.site_of(frame).filter(|site| site.function == owner) else { return unknown };
        if site.kind == SiteKind::Entry {
            // Inside its own entry's frame the function is a root.
            return Ok(Joined { above: Above::Root(owner), consumed: false });
        }
        let distance = Distance::OfFrame(frame.distance);
        Ok(Joined { above: self.walk_callers(owner, frame.id, distance, below.outer)?, consumed: true })
    }

    /// Adds code of an image without a dictionary.
    fn plain_of(&mut self, image: u32) {
        let id = self.context.images[image as usize].0;
        if id.as_bytes().is_empty() || self.images.is_plain(&id) {
            return self.plain(None);
        }
        let Context { pieces, absent, .. } = &mut *self.context;
        match (pieces.last(), absent.last()) {
            (Some(Piece::Absent(_)), Some(last)) if last.id == id && last.called.is_none() => {}
            _ => {
                pieces.push(Piece::Absent(absent.len() as u32));
                absent.push(Absent { id, called: None });
            }
        }
    }

    /// Adds a function that is not instrumented. Neighbours without a name are one piece.
    fn plain(&mut self, name: Option<(u32, u32)>) {
        match name {
            Some((image, name)) => self.context.push(Piece::Named(FrameKind::Uninstrumented, image, name)),
            None if matches!(self.context.pieces.last(), Some(Piece::Uninstrumented(None))) => {}
            None => self.context.push(Piece::Uninstrumented(None)),
        }
    }
}
