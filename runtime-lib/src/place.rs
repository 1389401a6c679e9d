//! Names of addresses in loaded images that stay right when libraries are unloaded and loaded again.
//!
//! A number that is interned for a site must not be that of another library's site that is loaded where the first one
//! was, and the same library may come back at another address. So the library's build id and the offset name an address
//! in a shared library. The program itself stays where it is.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::abi::token::BUILD_ID_LEN;
use crate::chains::{CHAINS, INTERNED, NO_IMAGE, PLACE};
use crate::image::Image;
use crate::intern::Key;

/// The address range of the program itself; empty until it is known.
static PROGRAM_START: AtomicUsize = AtomicUsize::new(UNKNOWN);
static PROGRAM_END: AtomicUsize = AtomicUsize::new(0);

/// The number added to the addresses in the program's file, its build id's first bytes, and their number. Written
/// before the start.
static PROGRAM_BIAS: AtomicUsize = AtomicUsize::new(0);
static PROGRAM_ID: AtomicU64 = AtomicU64::new(0);
static PROGRAM_ID_LEN: AtomicUsize = AtomicUsize::new(0);

const UNKNOWN: usize = usize::MAX;

/// The name of an address in a module's data: equal names mean the same byte of the same build. None if there is no
/// memory.
#[inline]
pub fn name(address: *const u8) -> Option<u64> {
    name_in_program(address).or_else(|| name_in_library(address))
}

/// The name of an address in the program itself; None for other addresses, and as long as the program's range is not
/// known.
#[inline(always)]
pub fn name_in_program(address: *const u8) -> Option<u64> {
    let place = address as usize;
    // The end is written first: a thread that sees a start sees its end.
    let inside =
        PROGRAM_START.load(Ordering::Acquire) <= place && place < PROGRAM_END.load(Ordering::Relaxed);
    inside.then_some(place as u64)
}

fn find_program() {
    if PROGRAM_START.load(Ordering::Acquire) != UNKNOWN {
        return;
    }
    if let Some(program) = Image::program() {
        PROGRAM_BIAS.store(program.load_bias, Ordering::Relaxed);
        PROGRAM_ID.store(u64::from_le_bytes(program.build_id), Ordering::Relaxed);
        PROGRAM_ID_LEN.store(program.build_id_len.into(), Ordering::Relaxed);
        PROGRAM_END.store(program.end as usize, Ordering::Relaxed);
        PROGRAM_START.store(program.start as usize, Ordering::Release);
    }
}

/// The key of a place whose name is no interned number. The name is an address in the program, or outside of all images
/// with a build id, or 0, which stands for the place 0 of the program. None if the program's range is not known.
#[cold]
pub fn key(name: u64) -> Option<Key> {
    find_program();
    if PROGRAM_START.load(Ordering::Acquire) == UNKNOWN {
        return None;
    }
    let bias = PROGRAM_BIAS.load(Ordering::Relaxed) as u64;
    let in_program = |address: u64| {
        let id = PROGRAM_ID.load(Ordering::Relaxed);
        [id, PLACE | PROGRAM_ID_LEN.load(Ordering::Relaxed) as u64, address]
    };
    Some(match name {
        0 => in_program(0),
        _ if name_in_program(name as *const u8).is_some() => in_program(name.wrapping_sub(bias)),
        _ => [NO_IMAGE, PLACE, name],
    })
}

#[cold]
fn name_in_library(address: *const u8) -> Option<u64> {
    find_program();
    // The range may have become known since the caller checked.
    if let Some(name) = name_in_program(address) {
        return Some(name);
    }
    let start = Image::start_of(address);
    let place = match start.and_then(known) {
        Some(id) => (id, BUILD_ID_LEN, start?.addr()),
        None => match Image::of(address) {
            Some(image) if image.build_id_len > 0 => {
                remember(&image);
                (u64::from_le_bytes(image.build_id), image.build_id_len.into(), image.load_bias)
            }
            _ => return Some(address as u64),
        },
    };
    let (id, id_len, bias) = place;
    let key = [id, PLACE | id_len as u64, address.addr().wrapping_sub(bias) as u64];
    CHAINS.insert(&key, ()).map(|number| number | INTERNED)
}

/// The build ids of libraries. The first word is the start of the library, which is the address of a page and its load
/// bias, plus the place of the id in that page; the second word is the id. Two words of different libraries do no harm:
/// the bytes at the place are compared with the id.
static KNOWN: [(AtomicUsize, AtomicU64); 64] = [const { (AtomicUsize::new(0), AtomicU64::new(0)) }; 64];
const PAGE: usize = 0x1000;

fn slot(start: usize) -> &'static (AtomicUsize, AtomicU64) {
    &KNOWN[((start / PAGE) ^ (start / PAGE / 64)) % KNOWN.len()]
}

/// The build id of the library that begins at an address of an image's first page, if it was remembered.
fn known(start: *const u8) -> Option<u64> {
    let (place, id) = slot(start.addr());
    let (place, id) = (place.load(Ordering::Relaxed), id.load(Ordering::Relaxed));
    if place & !(PAGE - 1) != start.addr() {
        return None;
    }
    // SAFETY: the place is one in the first page of a loaded image, with room for the id.
    let there = unsafe { start.with_addr(place).cast::<u64>().read_unaligned() };
    (there == id).then_some(id)
}

fn remember(image: &Image) {
    let place = image.whole_build_id().as_ptr();
    let offset = place.addr().wrapping_sub(image.start.addr());
    let is_plain = usize::from(image.build_id_len) == BUILD_ID_LEN && image.load_bias == image.start.addr();
    if is_plain && offset <= PAGE - BUILD_ID_LEN {
        let (known_place, known_id) = slot(image.start.addr());
        known_place.store(place.addr(), Ordering::Relaxed);
        known_id.store(u64::from_le_bytes(image.build_id), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static BYTES: [u8; 2] = [1, 2];

    #[test]
    fn the_program_keeps_its_addresses_and_libraries_get_names() {
        assert_eq!(name(core::ptr::null()), Some(0));
        for byte in &BYTES {
            assert_eq!(name(byte), Some(&raw const *byte as u64));
        }
        let (abs, qsort) = (libc::abs as *const u8, libc::qsort as *const u8);
        assert_eq!(name(abs), name(abs));
        assert_ne!(name(abs), name(qsort));
        assert!(name(abs).is_some_and(|n| n & INTERNED != 0), "libc has a build id");
    }
}
