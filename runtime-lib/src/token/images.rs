//! The images that a token names.

use core::mem::MaybeUninit;

use super::writer::Writer;
use crate::image::Image;
use pcce_system::kept::auxiliary;

/// Images that one token can name; one with more is cut.
const MAX_IMAGES: usize = 64;

/// The images named so far in the token that is being written.
pub(super) struct Images {
    list: [MaybeUninit<Image>; MAX_IMAGES],
    count: usize,
}

impl Images {
    pub(super) const fn new() -> Self {
        Self { list: [const { MaybeUninit::uninit() }; MAX_IMAGES], count: 0 }
    }

    /// The number of the image that holds `address`, and whether it is new. None if there are too many, or no
    /// image holds it and `any` is false.
    pub(super) fn number(&mut self, address: *const u8, any: bool) -> Option<(usize, bool)> {
        for i in 0..self.count {
            if self.get(i).contains(address) {
                return Some((i, false));
            }
        }
        let image = Image::of(address).or(any.then_some(Image::NONE))?;
        // One stands for all that is in no file.
        if image.is_none()
            && let Some(i) = (0..self.count).find(|&i| self.get(i).is_none())
        {
            return Some((i, false));
        }
        if self.count == MAX_IMAGES {
            return None;
        }
        self.list[self.count].write(image);
        self.count += 1;
        Some((self.count - 1, true))
    }

    pub(super) fn is_full(&self) -> bool {
        self.count == MAX_IMAGES
    }

    fn get(&self, i: usize) -> &Image {
        debug_assert!(i < self.count);
        // SAFETY: the first `count` entries are initialised.
        unsafe { self.list[i].assume_init_ref() }
    }

    /// The image's name, if it is new in the token.
    pub(super) fn name(&self, number: usize, new: bool, out: &mut Writer) {
        if new {
            let id = self.get(number).name();
            out.byte(id.len() as u8);
            for &byte in id {
                out.byte(byte);
            }
        }
    }

    /// The address in the file of the image. 0 where there is none: nobody could use it, and it would tell where the
    /// process has its memory.
    pub(super) fn offset(&self, number: usize, address: usize) -> usize {
        let image = self.get(number);
        if image.is_none() { 0 } else { address.wrapping_sub(image.load_bias) }
    }
}

/// An address in the image of a site. The open node of the executable, whose site is null, has site 0 there.
pub(super) fn place(site: *const u8) -> *const u8 {
    if !site.is_null() {
        return site;
    }
    // The program headers are part of a segment.
    auxiliary(libc::AT_PHDR) as *const u8
}
