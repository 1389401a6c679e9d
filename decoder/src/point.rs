//! Interrupted points: from the addresses of a token to the function whose id the token holds.
//!
//! The innermost addresses may lie in code that is not instrumented, and in silent functions. The first one in another
//! function is that of the function to which the id belongs, and the machine code says what that function has done to the id there. If
//! the innermost pushed frame is this very activation's, its id is the one that counts.

use pcce_dictionary::code::{Role, State};

use crate::code::table::{self, CodeTable};
use crate::decode::{Above, Begin, DecodeError, Decoder, Distance};
use crate::token::{Point, PointEnd, PushedFrame};
use crate::trace::{FrameKind, Piece, Trace};

/// What is known after the pieces of a point.
pub(crate) struct Joined {
    pub(crate) above: Above,
    /// Whether the next frame of the token was that of the point's own function, and is done with.
    pub(crate) consumed: bool,
}

/// A function that is active at a point.
struct Inner {
    image: u32,
    /// Its linkage name.
    name: String,
    /// Which one it is, if it is instrumented.
    owner: Option<u32>,
}

/// What lies below a point in its token.
pub(crate) struct Below<'t> {
    /// The next frame, if that is one of a call.
    pub(crate) frame: Option<&'t PushedFrame>,
    /// Where the sub-path begins that ends above that frame.
    pub(crate) begin: Begin,
    /// Where the one begins that ends below it.
    pub(crate) behind: Begin,
}

impl Decoder {
    /// Adds the pieces of a point and of the sub-path that led to it. `more`: there is something behind the point. `known`: the point's id is the one that was there.
    pub(crate) fn point(
        &self,
        point: &Point,
        below: &Below<'_>,
        more: bool,
        known: bool,
        trace: &mut Trace,
    ) -> Result<Joined, DecodeError> {
        // Handlers that were not called by the trampoline: what they and their callees have added to the id.
        let last_signal = point.addresses.iter().rposition(|a| a.exact).unwrap_or(0);
        let mut added = Some(0_u64);
        // Nothing is known of the id in a function further in.
        let mut by_addresses = false;
        // Stacks begin in code that is not instrumented: it starts the program, or a thread. There the addresses are all of them, and
        // they can stand for an id that is not known; those of a damaged stack end anywhere.
        let whole = point.end == PointEnd::Outermost && !more && !self.ends_instrumented(point, trace)?;
        // The outermost function met to which the id does not belong, and the pieces up to it.
        let mut outermost: Option<(u32, usize)> = None;
        // The function further in; None where it is not known.
        let mut inner: Option<Inner> = None;
        let stop = |above| Ok(Joined { above, consumed: false });
        for (number, address) in point.addresses.iter().enumerate() {
            if number > 0 && address.exact {
                trace.pieces.push(Piece::Signal);
                inner = None;
            }
            let at = if address.exact { address.address } else { address.address.wrapping_sub(1) };
            let Some(image) = trace.images[address.image as usize].1 else {
                inner = None;
                plain(trace, None);
                continue;
            };
            let Some(code) = self.code(image)? else {
                // Which functions are instrumented is not known.
                return stop(Above::Interrupted);
            };
            let Some(function) = code.function(at) else {
                inner = None;
                plain(trace, None);
                continue;
            };
            let instrumented = matches!(function.role, Role::Instrumented(..));
            if instrumented && !address.exact {
                // The stack was damaged, or the unwinder is about to leave it, where there is no call.
                let Some(callee) = table::callee(function, address.address) else {
                    return stop(Above::Interrupted);
                };
                let last = point.end == PointEnd::Pushed && number + 1 == point.addresses.len();
                let marked = last && below.frame.is_some_and(|frame| frame.left);
                self.left(image, code, callee, inner, marked, trace);
            }
            let owner = match function.role {
                Role::Instrumented(module, row) => Some(self.tables.function_of(image, module, row)),
                _ => None,
            };
            inner = Some(Inner { image, name: code.linkage(function.name).to_owned(), owner });
            let owner = match (function.role, owner) {
                (_, Some(owner)) => owner,
                (Role::Opaque, _) => return stop(Above::Interrupted),
                _ => {
                    plain(trace, Some((image, function.name)));
                    continue;
                }
            };
            if !self.tables.functions[owner as usize].push_thunk {
                let place = table::place(function, at);
                trace.pieces.push(match place {
                    0 => Piece::Named(FrameKind::Call, image, function.name),
                    place => Piece::Place(image, place),
                });
            }
            let state = table::state(function, at);
            if number < last_signal {
                added = match (added, state) {
                    (Some(sum), State::Added(value)) => Some(sum.wrapping_add(value)),
                    _ => None,
                };
                continue;
            }
            if self.tables.functions[owner as usize].silent {
                if state != State::Added(0) {
                    return stop(Above::Interrupted);
                }
                outermost = Some((owner, trace.pieces.len()));
                continue;
            }
            let pushed = point.end == PointEnd::Pushed && number + 1 == point.addresses.len();
            if pushed {
                return self.pushed(owner, below, trace);
            }
            // A stack that ends before the innermost frame is another one than that of the frame.
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
                    outermost = Some((owner, trace.pieces.len()));
                    continue;
                }
                _ => return stop(Above::Interrupted),
            };
            if self.tables.functions[owner as usize].enters {
                return stop(Above::Entered(owner, id));
            }
            let pieces = trace.pieces.len();
            let distance = Distance::OfActivation(address.distance);
            return match self.walk_callers(owner, id, distance, below.begin, trace) {
                Ok(above) => stop(above),
                // Memory may have been damaged before the point was interrupted.
                Err(_) => {
                    trace.pieces.truncate(pieces);
                    stop(Above::Interrupted)
                }
            };
        }
        if let (true, Some((root, pieces))) = (whole, outermost) {
            // What called it is the code that starts programs and threads, or other code without the pass: as where the id of
            // the outermost function is known.
            trace.pieces.truncate(pieces);
            return stop(Above::Root(root));
        }
        match point.end {
            // The owner of the next frame is the last function: that of a signal, or one whose dictionary was not given.
            PointEnd::Pushed | PointEnd::Outermost => stop(Above::Plain(point.end == PointEnd::Outermost)),
            PointEnd::Bound | PointEnd::Lost => stop(Above::Interrupted),
        }
    }

    /// Adds what lies between a call and the function further in. `marked`: what was called is known to have left its
    /// frame to another function.
    fn left(
        &self,
        image: u32,
        code: &CodeTable,
        callee: Option<u32>,
        inner: Option<Inner>,
        marked: bool,
        trace: &mut Trace,
    ) {
        match (callee, inner) {
            (Some(callee), Some(inner)) if inner.name == code.linkage(callee) && !marked => {}
            // Other code calls on as it likes.
            (Some(callee), Some(inner)) if inner.owner.is_some() || code.is_instrumented(callee) => {
                trace.pieces.push(Piece::Named(FrameKind::Tail, image, callee));
            }
            // Code without names: the call has one.
            (Some(callee), None) => {
                if let Some(last @ Piece::Uninstrumented(None)) = trace.pieces.last_mut() {
                    *last = Piece::Named(FrameKind::Uninstrumented, image, callee);
                }
            }
            // Through a pointer. What jumps lead there from other images is not known.
            (None, Some(Inner { image: of, owner: Some(owner), .. }))
                if marked || of != image || self.tables.functions[owner as usize].jumped_to =>
            {
                trace.pieces.push(Piece::Tail(None));
            }
            _ => {}
        }
    }

    /// Whether the outermost address is in an instrumented function.
    fn ends_instrumented(&self, point: &Point, trace: &Trace) -> Result<bool, DecodeError> {
        let Some(last) = point.addresses.last() else { return Ok(false) };
        let Some(image) = trace.images[last.image as usize].1 else { return Ok(false) };
        let at = last.address.wrapping_sub(u64::from(!last.exact));
        let function = self.code(image)?.and_then(|code| code.function(at));
        Ok(function.is_some_and(|f| matches!(f.role, Role::Instrumented(..))))
    }

    /// The sub-path of a function that owns the innermost frame.
    fn pushed(&self, owner: u32, below: &Below<'_>, trace: &mut Trace) -> Result<Joined, DecodeError> {
        let unknown = Ok(Joined { above: Above::Interrupted, consumed: false });
        let Some(frame) = below.frame else { return unknown };
        let Some(image) = trace.images[frame.image as usize].1 else { return unknown };
        let Some(site) = self.tables.site_at(image, frame.site) else { return unknown };
        let site = &self.tables.sites[site as usize];
        if site.function != owner {
            return unknown;
        }
        if site.target == crate::tables::Target::Entry {
            // Inside its own entry's frame the function is a root.
            return Ok(Joined { above: Above::Root(owner), consumed: false });
        }
        let distance = Distance::OfFrame(frame.distance);
        Ok(Joined {
            above: self.walk_callers(owner, frame.id, distance, below.behind, trace)?,
            consumed: true,
        })
    }
}

/// Adds a function that is not instrumented; those without a name are one.
fn plain(trace: &mut Trace, name: Option<(u32, u32)>) {
    match name {
        Some((image, name)) => trace.pieces.push(Piece::Named(FrameKind::Uninstrumented, image, name)),
        None if matches!(trace.pieces.last(), Some(Piece::Uninstrumented(None))) => {}
        None => trace.pieces.push(Piece::Uninstrumented(None)),
    }
}
