//! Hybrid encodings (pcce.txt §6): from the distances in a token to stack offsets, which tell sub-paths with one number
//! apart.

use crate::encodings::Encoding;
use crate::symbols::Site;

use super::state::{Begin, Decoding, Distance};

impl Decoding<'_, '_> {
    /// How far below the beginning of its sub-path an activation of the function begins.
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

    /// Where the activation begins that a call with a push has made, less the place of the pushed frame.
    pub(super) fn base(&self, encoding: &Encoding, number: u32, site: &Site) -> Option<i64> {
        // The callee's activation begins where the stack pointer is at the call.
        let below = encoding.stack.offset(number)?;
        Some(i64::from(self.frame_position(site.function)?) - i64::from(below))
    }

    /// How far below the canonical frame address of a function the frame is that it pushes, by its machine code.
    fn frame_position(&self, function: u32) -> Option<u32> {
        let module = self.images.symbols.module_of(function);
        let code = self.code(module.image).ok()??;
        code.of(module.number, function - module.first_function)?.frame_position
    }
}
