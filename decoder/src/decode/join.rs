//! The boundary between two sub-paths: none, if the outer one's call is known to have reached the function in
//! which the inner one starts; otherwise a boundary that says what is not known.

use pcce_dictionary::SiteKind;

use crate::context::Piece;

use super::error::DecodeError;
use super::state::{Above, Decoding};

impl Decoding<'_, '_> {
    /// An executable in targeted mode may have called a function of another module without a push, from
    /// functions that reach no target: the caller of that function is not known.
    pub(super) fn called(&self, above: Above) -> Above {
        match above {
            Above::Root(root) if self.images.symbols.called_unseen(root) => Above::Interrupted,
            above => above,
        }
    }

    /// Adds the boundary above a call that does not itself determine the function that runs next: one that pushed,
    /// or an open one. `left`: the callee is known to have left its activation to another function.
    pub(super) fn below_call(&mut self, site: u32, left: bool, above: Above) {
        let symbols = &self.images.symbols;
        let kind = self.kind(site);
        let site = &symbols.sites[site as usize];
        match kind {
            SiteKind::Direct(Some(callee)) => match above {
                Above::Root(root) if root == callee && !left && self.images.may_leave(site, root) => {
                    self.left(false)
                }
                _ => self.below_push(callee, left, above),
            },
            SiteKind::External(name) | SiteKind::Replaced(name) => self.below_external(name, left, above),
            SiteKind::Direct(None)
            | SiteKind::Indirect
            | SiteKind::Asm
            | SiteKind::Capture
            | SiteKind::Entry => match above {
                // The callee has left its activation to the root, or may have done so.
                Above::Root(root) if left || self.images.may_leave(site, root) => self.left(left),
                // The target may be one of an image with another runtime.
                Above::Root(_) if self.other_runtime => self.context.push(Piece::Unknown(None)),
                // The target is known only as the root above.
                Above::Root(_) | Above::UnknownModule(_) => {}
                Above::NoCapture => self.context.push(Piece::Uninstrumented(None)),
                // The call may have reached the entered function, or another one at id 0 that called it
                // through code that does not push.
                Above::Entered(..) | Above::Interrupted | Above::Plain(_) => {
                    self.context.push(Piece::Unknown(None));
                }
            },
        }
    }

    /// Adds the boundary above a frame that says only that the function entered there has pushed, too, and whether
    /// it has left its activation to another one. The next frame shows its caller.
    pub(super) fn below_entered(&mut self, left: bool, above: Above) {
        if left && matches!(above, Above::Root(_)) {
            self.left(true);
        }
    }

    /// Adds one boundary for all functions that have left their activations here, or may have done so.
    pub(super) fn left(&mut self, certainly: bool) {
        match self.context.pieces.last_mut() {
            Some(Piece::Tail(_)) => {}
            Some(last @ Piece::MayHaveLeft) if certainly => *last = Piece::Tail(None),
            Some(Piece::MayHaveLeft) => {}
            _ => self.context.push(if certainly { Piece::Tail(None) } else { Piece::MayHaveLeft }),
        }
    }

    /// Adds the boundary above a direct call that pushed.
    fn below_push(&mut self, callee: u32, left: bool, above: Above) {
        let name = Some(self.images.symbols.functions[callee as usize].name);
        match above {
            Above::Root(root) if root == callee && !left => {}
            Above::Entered(function, 0) if function == callee => {}
            // The callee's own activation is gone, and the function that it called last runs in its place.
            Above::Root(_) if left || self.images.function_may_have_left(callee) => {
                self.context.push(Piece::Tail(name));
            }
            // The active function is of another image, which the loader has searched first.
            Above::Root(_) => self.context.push(Piece::Uninstrumented(name)),
            // The module may have been entered without a push, too.
            Above::Entered(..) | Above::UnknownModule(_) | Above::Interrupted | Above::Plain(_) => {
                self.context.push(Piece::Unknown(name));
            }
            Above::NoCapture => {
                self.context.pieces.extend([Piece::Uninstrumented(None), Piece::Unknown(name)])
            }
        }
    }

    /// Adds the boundary above a call of a name outside the module.
    pub(super) fn below_external(&mut self, name: u32, left: bool, above: Above) {
        let symbols = &self.images.symbols;
        // A name that an instrumented function has must not be called "not instrumented".
        let defined = symbols.is_defined(name);
        match above {
            Above::Root(root) if symbols.is_called(root, name) && !left => {}
            Above::Entered(function, 0) if symbols.is_called(function, name) => {}
            Above::Root(_) if defined && self.other_runtime => self.context.push(Piece::Unknown(Some(name))),
            Above::Root(_) if defined && left || self.images.may_have_left(name) => {
                self.context.push(Piece::Tail(Some(name)));
            }
            Above::Root(_) => self.context.push(Piece::Uninstrumented(Some(name))),
            // The function called may be the one in which the unknown sub-path starts.
            Above::UnknownModule(_) => {}
            // The function called, or another one that it called back, may have called the entered function
            // through code that does not push.
            Above::Entered(..) | Above::Interrupted | Above::Plain(_) => {
                self.context.push(Piece::Unknown(Some(name)));
            }
            Above::NoCapture if defined => {
                self.context.pieces.extend([Piece::Uninstrumented(None), Piece::Unknown(Some(name))]);
            }
            Above::NoCapture => self.context.push(Piece::Uninstrumented(Some(name))),
        }
    }

    /// Adds the boundary above the frame that was pushed for a signal handler.
    pub(super) fn below_handler(&mut self, above: Above) {
        match above {
            // The handler was called through its address, so it may be any function.
            Above::Root(_) | Above::UnknownModule(_) | Above::Plain(false) => {}
            Above::NoCapture => self.context.push(Piece::Uninstrumented(None)),
            Above::Entered(..) | Above::Interrupted | Above::Plain(true) => {
                self.context.push(Piece::Unknown(None));
            }
        }
    }

    /// Adds the boundary above the frame that `function` pushed at its entry: the sub-path there starts in
    /// it.
    pub(super) fn below_entry(&mut self, function: u32, above: Above) -> Result<(), DecodeError> {
        let not_entered = |found| DecodeError::NotEntered { function: self.name_of(function), found };
        let name = Some(self.images.symbols.functions[function as usize].name);
        match above {
            Above::Root(root) if root == function => {}
            Above::Root(root) => return Err(not_entered(self.name_of(root))),
            Above::UnknownModule(_) => return Err(not_entered("another module".to_owned())),
            Above::Entered(..) | Above::Interrupted | Above::Plain(_) => {
                self.context.push(Piece::Unknown(name));
            }
            Above::NoCapture => {
                self.context.pieces.extend([Piece::Uninstrumented(None), Piece::Unknown(name)])
            }
        }
        Ok(())
    }

    /// Adds the boundary above a frame of an image without dictionary, and that image. Neighbouring frames of
    /// one image are shown once.
    pub(super) fn below_unknown_module(&mut self, image: u32, above: Above) {
        match self.called(above) {
            Above::UnknownModule(inner) if inner == image => return,
            Above::NoCapture => self.context.push(Piece::Uninstrumented(None)),
            Above::Entered(..) | Above::Interrupted | Above::Plain(true) => {
                self.context.push(Piece::Unknown(None));
            }
            Above::Root(_) | Above::UnknownModule(_) | Above::Plain(false) => {}
        }
        // Code further in may have shown the same image already.
        let id = self.context.images[image as usize].0;
        let absent = &self.context.absent;
        let same = |piece: &mut Piece| matches!(piece, Piece::Absent(n) if absent[*n as usize].id == id);
        let _ = self.context.pieces.pop_if(same);
        self.context.push(Piece::UnknownModule(image));
    }
}
