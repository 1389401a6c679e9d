//! Tests of the functions that are in the place of libc's.

use super::{memcpy, memmove, memset, strlen};
use crate::memory::{bcmp, memcmp};
use std::vec::Vec;

const LENGTHS: std::ops::Range<usize> = 0..200;

fn bytes() -> Vec<u8> {
    (0..600_u32).map(|i| (i * 37 % 251) as u8 + 1).collect()
}

type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;

fn check_copy(copy: Copy, len: usize, from: usize, to: usize) {
    let (mut found, mut expected) = (bytes(), bytes());
    expected.copy_within(from..from + len, to);
    let all = found.as_mut_ptr();
    // SAFETY: in the array; what may not overlap does not.
    unsafe { assert_eq!(copy(all.add(to), all.add(from), len), all.add(to)) };
    assert_eq!(found, expected, "{len} from {from} to {to}");
}

#[test]
fn copies_are_whole_and_no_larger() {
    for len in LENGTHS {
        for (to, from) in [(1, 300), (300, 3), (16, 400), (7, 7 + len.max(1))] {
            check_copy(memcpy, len, from, to);
        }
    }
}

#[test]
fn moves_may_overlap() {
    for len in LENGTHS {
        for (to, from) in [(100, 101), (101, 100), (100, 100), (100, 130), (130, 100), (0, 399), (399, 0)] {
            check_copy(memmove, len, from, to);
        }
    }
}

#[test]
fn memory_is_filled_compared_and_measured() {
    for len in LENGTHS {
        for byte in [0, 1, 0xff, 0x1_80] {
            let (mut found, mut expected) = (bytes(), bytes());
            expected[5..5 + len].fill(byte as u8);
            // SAFETY: in the array.
            unsafe { memset(found.as_mut_ptr().add(5), byte, len) };
            assert_eq!(found, expected, "{len} times {byte}");
        }
        let mut text = bytes();
        text[len] = 0;
        // SAFETY: there is a zero, and both have `len` bytes and one more.
        unsafe {
            assert_eq!(strlen(text.as_ptr().cast()), len);
            let other = bytes();
            assert_eq!(memcmp(text.as_ptr(), other.as_ptr(), len), 0);
            assert!(memcmp(text.as_ptr(), other.as_ptr(), len + 1) < 0);
            assert!(bcmp(other.as_ptr(), text.as_ptr(), len + 1) > 0);
        }
    }
}
