//! Values of calls that are written into an object after its code was generated.
//!
//! The values that calls add depend on the whole program; the rest of a module's code hardly does. So code is
//! generated from a slice without values ([`Slice::unbind`]), and programs in which a module has other values
//! share its object. The object says where each difference of two values is
//! ([`pcce_abi::skeleton::VALUES_SECTION`]).

use serde::{Deserialize, Serialize};

use crate::slice::{Does, Slice};

/// The width of a value. It decides between instructions, so it is part of the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Width {
    /// The value and its negation fit a signed byte.
    Byte,
    /// The value fits 32 signed bits, and so does a difference of two such values.
    Word,
    /// Any value.
    Long,
}

impl Width {
    /// The width of a value.
    pub fn of(value: i64) -> Self {
        match value.unsigned_abs() {
            0..=0x7f => Self::Byte,
            0x80..=0x3fff_ffff => Self::Word,
            _ => Self::Long,
        }
    }

    /// The width of a difference of two values.
    pub fn of_difference(one: Self, other: Self) -> Self {
        match one.max(other) {
            Self::Long => Self::Long,
            Self::Byte | Self::Word => Self::Word,
        }
    }
}

impl Slice {
    /// Replaces the values by their places in the list that is returned, whose first value is 0. A call that
    /// adds the same as the call before it has the same place, so that nothing is done between the two.
    pub fn unbind(&mut self) -> Vec<i64> {
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
        self.widths = Some(values.iter().map(|value| Width::of(*value)).collect());
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unannounced;
    use crate::slice::{Sites, SliceCall, SliceFunction};

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
        assert_eq!(one.unbind(), [0, 1, 2, 2, 2, 127, 1 << 40]);
        let mut same_widths = rows([-7, 100, 3, i64::MIN]);
        let _ = same_widths.unbind();
        assert_eq!(one, same_widths);
        for other in [[1, 2, 128, 1 << 40], [1, 2, 127, 1 << 29], [1, 1, 127, 1 << 40]] {
            let mut other = rows(other);
            let _ = other.unbind();
            assert_ne!(one, other);
        }
    }

    #[test]
    fn differences_fit_their_width() {
        let values = [0, 1, -1, 127, -127, 128, -128, 0x3fff_ffff, -0x3fff_ffff, 0x4000_0000, i64::MIN];
        let least = |width| match width {
            Width::Byte => i64::from(i8::MIN)..=i64::from(i8::MAX),
            Width::Word => i64::from(i32::MIN)..=i64::from(i32::MAX),
            Width::Long => i64::MIN..=i64::MAX,
        };
        for one in values {
            assert!(least(Width::of(one)).contains(&one));
            assert!(least(Width::of(one)).contains(&one.wrapping_neg()));
            for other in values {
                let width = Width::of_difference(Width::of(one), Width::of(other));
                assert!(least(width).contains(&one.wrapping_sub(other)), "{one} - {other}");
            }
        }
    }
}
