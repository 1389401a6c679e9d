//! The images whose addresses are in the file: each has a chunk there, before the chunks with its addresses.

use core::ffi::CStr;
use core::mem::{MaybeUninit, offset_of};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::abi::trace::{
    CHUNK, CHUNK_HEAD, Chunk, ENDED, Image, KIND_IMAGE, UNIT, checksum_of_bytes, checksum_on, end_checksum,
    head_checksum,
};
use crate::image::Image as Loaded;
use crate::{area, choice, file, sys};

/// An image that the file has.
struct Known {
    low: AtomicUsize,
    high: AtomicUsize,
    /// The first bytes of its build id: another library may come to the same place.
    id: AtomicU64,
}

const MAX_KNOWN: usize = 512;
static KNOWN: [Known; MAX_KNOWN] =
    [const { Known { low: AtomicUsize::new(0), high: AtomicUsize::new(0), id: AtomicU64::new(0) } };
        MAX_KNOWN];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The bounds of the program itself, once the file has it: it is never unloaded, so its functions need no further look.
static OWN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// The number of traced libraries that were loaded.
static LOADS: AtomicU64 = AtomicU64::new(0);

/// See [`Chunk::loads`].
pub fn loads() -> u64 {
    LOADS.load(Ordering::Acquire)
}

/// The path of the program's file.
static PROGRAM: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// Finds the path of the program's file, which the program may move later.
pub fn start() {
    let [to, size] = [PROGRAM.as_ptr().addr(), size_of_val(&PROGRAM) - 1];
    let arguments = [libc::AT_FDCWD as usize, c"/proc/self/exe".as_ptr().addr(), to, size, 0, 0];
    // SAFETY: writes at most `size` bytes; the last one stays zero.
    unsafe { sys::call(libc::SYS_readlinkat, arguments) };
}

/// Forgets all images, in a new process: the file has none of them.
pub fn forget() {
    OWN[1].store(0, Ordering::Relaxed);
    COUNT.store(0, Ordering::Relaxed);
    KNOWN.iter().for_each(|known| known.high.store(0, Ordering::Relaxed));
}

/// Writes the image of an address into the file, unless it is there, or there is none.
pub fn describe(address: usize) {
    // Functions that are not in the cache come here often.
    // The end is written last: a thread that sees it sees the start.
    let end = OWN[1].load(Ordering::Acquire);
    if (OWN[0].load(Ordering::Relaxed)..end).contains(&address) {
        return;
    }
    let Some(image) = Loaded::of(address as *const u8) else { return };
    let id = u64::from_le_bytes(image.build_id);
    let count = COUNT.load(Ordering::Acquire).min(MAX_KNOWN);
    let is_it = |known: &Known| {
        known.high.load(Ordering::Acquire) == image.end.addr()
            && known.low.load(Ordering::Relaxed) == image.start.addr()
            && known.id.load(Ordering::Relaxed) == id
    };
    if KNOWN[..count].iter().any(is_it) || !write(&image) {
        return;
    }
    let known = &KNOWN[COUNT.fetch_add(1, Ordering::AcqRel) % MAX_KNOWN];
    known.high.store(0, Ordering::Relaxed);
    known.id.store(id, Ordering::Release);
    known.low.store(image.start.addr(), Ordering::Release);
    known.high.store(image.end.addr(), Ordering::Release);
    if is_program(&image) {
        OWN[0].store(image.start.addr(), Ordering::Relaxed);
        OWN[1].store(image.end.addr(), Ordering::Release);
    }
}

/// An image with this address was loaded, perhaps at the place of another one: its functions must not be taken for
/// those of the other. Called before its constructors, by the object `pcce_trace_module.o` (`module.s` of the machine).
/// It has the rows of its functions from `begin` to `end`.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_trace_loaded(address: usize, begin: usize, end: usize) {
    let Some(image) = Loaded::of(address as *const u8) else { return };
    choice::add(&image, begin, end);
    LOADS.fetch_add(1, Ordering::AcqRel);
    let inside = |address: usize| (image.start.addr()..image.end.addr()).contains(&address);
    for known in KNOWN.iter().filter(|known| known.high.load(Ordering::Acquire) != 0) {
        let (low, high) = (known.low.load(Ordering::Relaxed), known.high.load(Ordering::Relaxed));
        if low < image.end.addr() && image.start.addr() < high {
            known.high.store(0, Ordering::Release);
        }
    }
    for area in area::all() {
        // SAFETY: areas stay where they are; threads take a function for another only if its address is there.
        let cache = unsafe { &(*area).fast.cache };
        for entry in cache {
            let function = entry.load(Ordering::Relaxed);
            if inside(function) {
                let _ = entry.compare_exchange(function, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

/// Returns whether an image is the program, which has no name among the images.
fn is_program(image: &Loaded) -> bool {
    // SAFETY: it ends with a zero.
    image.file.is_null() || unsafe { CStr::from_ptr(image.file) }.is_empty()
}

fn path(image: &Loaded) -> &[u8] {
    let name = if is_program(image) { PROGRAM.as_ptr().cast() } else { image.file };
    // SAFETY: both end with a zero.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

/// The head of an image's chunk, and the image that follows it.
#[repr(C)]
struct Head {
    chunk: Chunk,
    image: Image,
}

const _: () = assert!(offset_of!(Head, image) == CHUNK_HEAD as usize);

fn write(image: &Loaded) -> bool {
    let path = path(image);
    let path = &path[..path.len().min(4096)];
    let count = choice::left_out(image).count();
    let len = path.len() + 4 * count;
    let memory: *mut u8 = sys::map(len.max(1), 0).cast();
    if memory.is_null() {
        return false;
    }
    // SAFETY: memory of ours, of this size.
    let content = unsafe { core::slice::from_raw_parts_mut(memory, len) };
    let (to, list) = content.split_at_mut(path.len());
    to.iter_mut().zip(path).for_each(|(to, from)| *to = *from);
    for (to, function) in list.as_chunks_mut::<4>().0.iter_mut().zip(choice::left_out(image)) {
        *to = ((function - image.start.addr()) as u32).to_le_bytes();
    }
    let written = write_with(image, (path.len(), count), content);
    // SAFETY: nothing uses it any more.
    unsafe { sys::unmap(memory.cast(), len.max(1)) };
    written
}

/// Writes an image's chunk. `content`: its path, of that length, and the functions that are left out, so many.
fn write_with(image: &Loaded, (path_len, left_out): (usize, usize), content: &[u8]) -> bool {
    let id = image.whole_build_id();
    let id = &id[..id.len().min(32)];
    let mut head = MaybeUninit::<Head>::zeroed();
    // SAFETY: zeros are a head.
    let head = unsafe { head.assume_init_mut() };
    head.chunk.magic = CHUNK;
    let size = ((size_of::<Head>() + content.len()) as u64).next_multiple_of(UNIT);
    head.chunk.size = size;
    head.chunk.kind = KIND_IMAGE;
    head.chunk.process = sys::getpid() as u32;
    head.chunk.thread = sys::gettid() as u32;
    head.chunk.clock = sys::time(libc::CLOCK_MONOTONIC);
    head.chunk.end = ENDED;
    head.chunk.words = left_out as u64;
    head.chunk.loads = loads();
    head.image.low = image.start.addr() as u64;
    head.image.high = image.end.addr() as u64;
    head.image.bias = image.load_bias as u64;
    head.image.build_id_len = id.len() as u32;
    head.image.path_len = path_len as u32;
    for (to, from) in head.image.build_id.iter_mut().zip(id) {
        *to = *from;
    }
    // SAFETY: words, without padding between them.
    let words: [u64; size_of::<Head>() / 8] = unsafe { (&raw const *head).cast::<[u64; _]>().read() };
    let (words, image) = words.split_first_chunk().expect("it has a head");
    let sum = checksum_on(end_checksum(ENDED, words), image);
    (head.chunk.head, head.chunk.checksum) = (head_checksum(words), checksum_of_bytes(sum, content));
    // SAFETY: the same.
    let bytes = unsafe { core::slice::from_raw_parts((&raw const *head).cast::<u8>(), size_of::<Head>()) };
    file::put(size, bytes, content)
}
