//! The instructions by which emitted code appends bits (`shim/machine/aarch64.cpp` of the pass): the pending bits are
//! loaded, shifted, perhaps added to, and stored.

use crate::image::Image;

/// Bits of a register's number.
const REGISTER: u32 = 0x1f;

/// Returns whether the instruction is one of these, and the pending bits were loaded. Other code may look the same.
pub fn within(instruction: usize) -> bool {
    const LEN: usize = 4;
    /// The instructions after the load.
    const MOST: usize = 3;
    let Some(image) = Image::of(instruction as *const u8) else { return false };
    (1..=MOST).any(|back| {
        let load = instruction.wrapping_sub(back * LEN);
        let mut words = [0; MOST + 1];
        if !instruction.is_multiple_of(LEN) || load < image.start.addr() {
            return false;
        }
        for (at, word) in words.iter_mut().enumerate() {
            let there = (load + at * LEN) as *const u32;
            // Words behind the instruction count only if they are those of the sequence.
            if !image.contains(there.cast()) {
                break;
            }
            // SAFETY: code of the image, which was being executed near by.
            *word = unsafe { there.read_volatile() };
        }
        store(words).is_some_and(|store| back <= store)
    })
}

/// The index of the store, if these words begin with the sequence.
fn store(words: [u32; 4]) -> Option<usize> {
    let [load, shift, ref rest @ ..] = words;
    let to = load & REGISTER;
    let changes = |word: u32| word & REGISTER == to && word >> 5 & REGISTER == to;
    // ldr to, [from]
    let loads = load & 0xffff_fc00 == 0xf940_0000;
    // lsl to, to, #n: an `ubfm` that rotates by 64 - n, and keeps 64 - n bits.
    let (rotation, last) = (shift >> 16 & 0x3f, shift >> 10 & 0x3f);
    let shifts = shift & 0xffc0_0000 == 0xd340_0000 && changes(shift) && last + 1 == rotation;
    // add to, to, #n
    let adds = rest[0] & 0xffc0_0000 == 0x9100_0000 && changes(rest[0]);
    // str to, [from]
    let stores = load & !0x0040_0000;
    let at = usize::from(adds);
    (loads && shifts && rest[at] == stores).then_some(2 + at)
}

#[cfg(test)]
mod tests {
    use super::store;

    #[test]
    fn the_store_is_found() {
        let [load, shift, add, stores] = [0xf940_0109, 0xd37d_f129, 0x9100_1529, 0xf900_0109];
        // ldr x9, [x8]; lsl x9, x9, #3; add x9, x9, #5; str x9, [x8]
        assert_eq!(store([load, shift, add, stores]), Some(3));
        assert_eq!(store([load, shift, stores, 0]), Some(2));
        // lsl x9, x9, #1
        assert_eq!(store([load, 0xd37f_f929, stores, 0]), Some(2));
        // lsr x9, x9, #3; another register; another address
        for other in
            [[load, 0xd343_fd29, stores, 0], [load, shift, 0xf900_0108, 0], [load, shift, 0xf900_0129, 0]]
        {
            assert_eq!(store(other), None);
        }
    }
}
