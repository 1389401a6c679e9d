//! Values of calls that are written into an object after its code was generated.
//!
//! The values that calls add depend on the whole program; the rest of a module's code hardly does. So code is
//! generated from a slice without values ([`Slice::unbind`]), and programs in which a module has other values
//! share its object. The object says where each difference of two values is
//! ([`pcce_abi::skeleton::VALUES_SECTION`]).

use serde::{Deserialize, Serialize};

use crate::slice::{Does, Slice};

/// The width of a value: its magnitude has at most so many bits. It decides between instructions, so it is part of the
/// slice. Only the widths that a machine tells apart occur, so that programs share more objects
/// ([`value_widths`](pcce_abi::machine::objects::ObjectCode::value_widths)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Width(u8);

impl Width {
    /// The width that every value has.
    pub const ANY: Self = Self(64);

    /// The least of these widths, or [`ANY`](Self::ANY), that the value has.
    pub fn of(value: i64, widths: &[u8]) -> Self {
        let bits = u64::BITS - value.unsigned_abs().leading_zeros();
        widths.iter().find(|&&width| bits <= width.into()).map_or(Self::ANY, |&width| Self(width))
    }

    /// The width of a difference of two values.
    pub fn of_difference(one: Self, other: Self) -> Self {
        Self(one.max(other).0.saturating_add(1).min(Self::ANY.0))
    }

    /// The number of bits, from 0 to 64.
    pub fn bits(self) -> u8 {
        self.0
    }
}

impl Slice {
    /// Replaces the values by their places in the list that is returned, whose first value is 0. A call that
    /// adds the same as the call before it has the same place, so that nothing is done between the two. `widths` are
    /// those that the machine tells apart.
    pub fn unbind(&mut self, widths: &[u8]) -> Vec<i64> {
        let mut values = vec![0];
        let mut take = |does: &mut Does, before: Option<i64>| {
            let Does::Add(value) = does else { return None };
            let taken = *value;
            if before != Some(taken) {
                values.push(taken);
            }
            *value = values.len() as i64 - 1;
            Some(taken)
        };
        for function in &mut self.functions {
            function.calls.iter_mut().fold(None, |before, call| take(&mut call.does, before));
        }
        for thunk in &mut self.thunks {
            take(&mut thunk.does.does, None);
        }
        self.widths = Some(values.iter().map(|value| Width::of(*value, widths)).collect());
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unannounced;
    use crate::slice::{Sites, SliceCall, SliceFunction};

    const WIDTHS: [u8; 2] = [7, 30];

    fn slice(rows: &[&[Does]]) -> Slice {
        let call = |(call, does): (usize, &Does)| SliceCall {
            call: call as u32,
            sites: Sites { call: call as u32, creation: None },
            does: *does,
            keeps_frame: false,
            replaceable: false,
            number: None,
            counted: None,
        };
        let function = |row: &&[Does]| SliceFunction {
            kept: true,
            escapes: false,
            labelled: false,
            silent: false,
            unannounced: Unannounced::Never,
            entry: false,
            needs_offset: false,
            begins_stack: false,
            entry_site: None,
            stub: None,
            behind_entry: None,
            calls_behind: Vec::new(),
            silent_calls: Vec::new(),
            kept_tails: Vec::new(),
            own_calls: row.len() as u32,
            calls: row.iter().enumerate().map(call).collect(),
            compared: Vec::new(),
        };
        Slice { functions: rows.iter().map(function).collect(), ..Slice::default() }
    }

    #[test]
    fn slices_without_values_differ_by_widths_only() {
        use Does::{Add, Nothing, Push};
        let rows = |values: [i64; 4]| {
            let [a, b, c, d] = values.map(Add);
            slice(&[&[a, b, Nothing, b], &[b, c, Push, d]])
        };
        let mut one = rows([1, 2, 127, 1 << 40]);
        assert_eq!(one.unbind(&WIDTHS), [0, 1, 2, 2, 2, 127, 1 << 40]);
        let mut same_widths = rows([-7, 100, 3, i64::MIN]);
        let _ = same_widths.unbind(&WIDTHS);
        assert_eq!(one, same_widths);
        for other in [[1, 2, 128, 1 << 40], [1, 2, 127, 1 << 29], [1, 1, 127, 1 << 40]] {
            let mut other = rows(other);
            let _ = other.unbind(&WIDTHS);
            assert_ne!(one, other);
        }
    }

    #[test]
    fn differences_fit_their_width() {
        let values = [0, 1, -1, 127, -127, 128, -128, 0x3fff_ffff, -0x3fff_ffff, 0x4000_0000, i64::MIN];
        let fits = |value: i64, width: Width| width == Width::ANY || value.unsigned_abs() < 1 << width.bits();
        for one in values {
            assert!(fits(one, Width::of(one, &WIDTHS)));
            for other in values {
                let width = Width::of_difference(Width::of(one, &WIDTHS), Width::of(other, &WIDTHS));
                assert!(fits(one.wrapping_sub(other), width), "{one} - {other}");
            }
        }
    }
}
