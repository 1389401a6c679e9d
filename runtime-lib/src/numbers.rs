//! The file of numbers (`docs/formats.md`): with it, interned numbers are decoded when the process is over, and
//! elsewhere. Lucce (lucce.txt §5) does the same with a log of its call graph's changes; here each *new* link of a
//! chain is a record, and a link that was seen before costs nothing.
//!
//! The file is mapped, and a number is the index of its record: writing one is three stores, the last of which says
//! that all is there. The counter of numbers is in the file, too, so all processes that share the file get different
//! numbers: after a `fork`, and other or later programs that are given the same name. Nothing here locks: signal
//! handlers call this, and a process may die at any point. Space is reserved before it is written to: a full disk is
//! then an error, and no signal.

use core::ffi::{CStr, c_char, c_int};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering, fence};

use crate::abi::numbers::{END, GIVEN, HEAD, RECORD, head, offset};
use crate::chains::{self, CHAINS};
use crate::intern::Key;
use crate::output::{self, Environment, FileName, How, Text, complain};
use crate::sys;
use pcce_system::shared::{copy, identity, map, out_of_the_way, reserve};

/// The environment variable that names the file.
const VARIABLE: &CStr = c"PCCE_NUMBERS";

/// Records in the first block of the mapping; block `k` has 2ᵏ times as many. A multiple of pages.
const FIRST_BLOCK: u64 = 4096;
const BLOCKS: usize = 28;
/// The minimum and the maximum of further records for which space is reserved.
const STEP: [u64; 2] = [1024, 1 << 16];
/// Room for the numbers that other threads take while the file is being taken into use.
const BETWEEN: u64 = 1024;
/// The value of [`OWN`] when it gives no numbers any more.
const CLOSED: u64 = 1 << 62;

/// How many numbers this process has given, as long as there is no file.
static OWN: AtomicU64 = AtomicU64::new(0);
/// The count for all processes that use the file, in its head; null as long as there is no file.
static SHARED: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());
/// Set by the thread that opens the file. It takes it back, by a release, if that fails: the next one stores later.
static STARTED: AtomicBool = AtomicBool::new(false);
/// True if no more records are written.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// The file system does not reserve space: each record is written by a system call.
static UNRESERVED: AtomicBool = AtomicBool::new(false);
/// The mapped blocks of the file.
static MAPPED: [AtomicPtr<AtomicU64>; BLOCKS] = [const { AtomicPtr::new(null_mut()) }; BLOCKS];
/// There is space for records up to this number.
static COVERED: AtomicU64 = AtomicU64::new(0);
static NAME: FileName = FileName::new();
static FILE: AtomicI32 = AtomicI32::new(-1);
/// The identity of the file: programs close files that they do not know, and open others.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);

/// A number that no chain has.
pub fn next() -> Option<u64> {
    let shared = SHARED.load(Ordering::Acquire);
    // SAFETY: a word of the head, which stays mapped.
    let given = unsafe { shared.as_ref() }.unwrap_or(&OWN);
    Some(given.fetch_add(1, Ordering::Relaxed) + 1).filter(|&number| number < END)
}

/// Writes the record of a number, if there is a file. False if the number belongs to another key, and must not be
/// given.
pub fn written(key: &Key, number: u64) -> bool {
    if SHARED.load(Ordering::Acquire).is_null() || STOPPED.load(Ordering::Relaxed) {
        return true;
    }
    let Some(record) = chains::record(key) else { return false };
    write(number, record.words(number))
}

fn write(number: u64, words: [u64; 3]) -> bool {
    if !cover(number) {
        return true;
    }
    if UNRESERVED.load(Ordering::Relaxed) {
        return write_by_call(number, words);
    }
    let Some(slot) = slot(number) else {
        stop(b"there is no memory to map it", 0);
        return true;
    };
    // SAFETY: three words of the mapping.
    let slot = unsafe { [&*slot, &*slot.add(1), &*slot.add(2)] };
    let there = slot[2].load(Ordering::Acquire);
    if there == 0 {
        for (word, value) in slot.into_iter().zip(words) {
            word.store(value, Ordering::Release);
        }
        return true;
    }
    // While the file is taken into use, two threads may write the same record.
    let same = slot.into_iter().zip(words).all(|(word, value)| word.load(Ordering::Relaxed) == value);
    if !same {
        stop(b"it is damaged: a number is taken that was not given", 0);
    }
    same
}

/// [`write`] where the file system cannot reserve space.
#[cold]
#[inline(never)]
fn write_by_call(number: u64, words: [u64; 3]) -> bool {
    let Ok(file) = file() else { return true };
    // SAFETY: three words.
    let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), RECORD as usize) };
    let error = output::write_all_at(file, bytes, offset(number));
    if error != 0 {
        stop(b"it cannot be written", error as isize);
    }
    true
}

/// Reserves space for records up to a number, and for some more. False if there is none.
#[inline]
fn cover(number: u64) -> bool {
    number <= COVERED.load(Ordering::Acquire) || grow(number)
}

#[cold]
fn grow(number: u64) -> bool {
    if UNRESERVED.load(Ordering::Relaxed) {
        return true;
    }
    let from = COVERED.load(Ordering::Acquire);
    let to = number + (number / 8).clamp(STEP[0], STEP[1]);
    if STOPPED.load(Ordering::Relaxed) {
        return false;
    }
    let file = match file() {
        Ok(file) => file,
        Err((why, error)) => {
            stop(why, error as isize);
            return false;
        }
    };
    match reserve(file, offset(from + 1), offset(to + 1)) {
        0 => {
            COVERED.fetch_max(to, Ordering::AcqRel);
            true
        }
        libc::EOPNOTSUPP => {
            UNRESERVED.store(true, Ordering::Relaxed);
            true
        }
        error => {
            stop(b"it cannot grow", error as isize);
            false
        }
    }
}

/// The address of the record of a number. None if it cannot be mapped.
fn slot(number: u64) -> Option<*const AtomicU64> {
    let index = number - 1;
    let block = (index / FIRST_BLOCK + 1).ilog2() as usize;
    let start = FIRST_BLOCK * ((1 << block) - 1);
    let place = MAPPED.get(block)?;
    let mut at = place.load(Ordering::Acquire);
    if at.is_null() {
        let size = (RECORD * (FIRST_BLOCK << block)) as usize;
        let mapped = map(file().ok()?, offset(start + 1), size)?;
        match place.compare_exchange(null_mut(), mapped, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => at = mapped,
            Err(theirs) => {
                // SAFETY: the mapping made above, which no other thread has seen.
                unsafe { sys::unmap(mapped.cast(), size) };
                at = theirs;
            }
        }
    }
    // SAFETY: in the block.
    Some(unsafe { at.add((index - start) as usize * (RECORD / 8) as usize) })
}

/// The open file; or why there is none, and the kernel's error.
fn file() -> Result<c_int, (&'static [u8], c_int)> {
    let is_it = |(device, inode, _)| {
        (device, inode) == (DEVICE.load(Ordering::Relaxed), INODE.load(Ordering::Relaxed))
    };
    let file = FILE.load(Ordering::Acquire);
    match identity(file) {
        Ok(found) if is_it(found) => return Ok(file),
        // Closed, or another file has its number.
        Ok(_) | Err(libc::EBADF | libc::EINVAL) => {}
        Err(error) => return Err((b"the system refuses a call that it needs", error)),
    }
    const GONE: &[u8] = b"the program has closed it, and it cannot be opened again";
    let again = NAME.open(How::SharedAgain, 0).map_err(|error| (GONE, error))?;
    if !identity(again).is_ok_and(is_it) {
        sys::close(again);
        return Err((GONE, 0));
    }
    let again = out_of_the_way(again);
    FILE.store(again, Ordering::Release);
    Ok(again)
}

/// Writes no more, and says so once.
#[cold]
fn stop(why: &[u8], error: isize) {
    if STOPPED.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut message = Text::<256>::new();
    message.put(b"pcce: the file of numbers: ");
    message.put(why);
    if error != 0 {
        message.put(b": ");
        message.error(error as c_int);
    }
    message.put(b"; numbers of contexts that are new from here on cannot be decoded\n");
    complain(message.bytes());
}

/// Why a file is not taken: an error number.
const NOT_NUMBERS: c_int = libc::EINVAL;
const OTHERS: c_int = libc::EEXIST;

/// Takes a file into use, whose descriptor stays open.
fn start(file: c_int) -> Result<(), c_int> {
    let (device, inode, size) = identity(file)?;
    let put = |bytes: &[u8], at: u64| match output::write_all_at(file, bytes, at) {
        0 => Ok(()),
        error => Err(error),
    };
    let take = || match reserve(file, 0, HEAD) {
        0 => Ok(()),
        libc::EOPNOTSUPP => {
            UNRESERVED.store(true, Ordering::Relaxed);
            Ok(())
        }
        error => Err(error),
    };
    if size == 0 {
        take()?;
        // Another process may be doing the same, with the same bytes.
        put(&head(), 0)?;
    }
    let mut there = [0; 16];
    let arguments = [file as usize, there.as_mut_ptr() as usize, 16, 0, 0, 0];
    // SAFETY: writes 16 bytes.
    if unsafe { sys::call(libc::SYS_pread64, arguments) } != 16 || there != head() {
        return Err(NOT_NUMBERS);
    }
    if size != 0 {
        take()?;
    }
    if UNRESERVED.load(Ordering::Relaxed) && size < HEAD {
        // The head is mapped with its whole length.
        put(&[0], HEAD - 1)?;
    }
    let head = map(file, 0, HEAD as usize).ok_or(libc::ENOMEM)?;
    // SAFETY: in the head's mapping.
    let given = unsafe { &*head.add((GIVEN / 8) as usize) };
    FILE.store(file, Ordering::Relaxed);
    DEVICE.store(device, Ordering::Relaxed);
    INODE.store(inode, Ordering::Relaxed);
    let new = OWN.compare_exchange(0, CLOSED, Ordering::SeqCst, Ordering::SeqCst);
    let first = match new {
        Ok(_) => given.load(Ordering::Relaxed),
        // The numbers that this process has given already are valid only in a new file.
        Err(own) => {
            let taken = own + BETWEEN;
            given.compare_exchange(0, taken, Ordering::SeqCst, Ordering::SeqCst).map_err(|_| OTHERS)?
        }
    };
    COVERED.store(first, Ordering::Relaxed);
    SHARED.store((&raw const *given).cast_mut(), Ordering::SeqCst);
    fence(Ordering::SeqCst);
    for (key, number) in CHAINS.nodes() {
        written(key, number);
    }
    Ok(())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn pcce_numbers(fd: c_int) -> c_int {
    if STARTED.swap(true, Ordering::Acquire) {
        return libc::EBUSY;
    }
    let file = match copy(fd) {
        Ok(file) => file,
        Err(error) => {
            STARTED.store(false, Ordering::Release);
            return error;
        }
    };
    match start(file) {
        Ok(()) => 0,
        Err(error) => {
            sys::close(file);
            STARTED.store(false, Ordering::Release);
            error
        }
    }
}

/// Opens the file if the environment names one.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_numbers_start(_: c_int, _: *const *const c_char, environment: Environment) {
    // SAFETY: the environment is the constructor's, and its texts end with a zero.
    unsafe {
        let value = output::variable_at_start(VARIABLE, environment);
        if value.is_null() || *value == 0 || STARTED.swap(true, Ordering::Acquire) {
            return;
        }
    }
    NAME.set_from(VARIABLE, None);
    let Ok(file) = NAME.open(How::Shared, 0) else { return };
    let file = out_of_the_way(file);
    let Err(error) = start(file) else { return };
    sys::close(file);
    let mut message = Text::<256>::new();
    message.put(b"pcce: the file that PCCE_NUMBERS names ");
    match error {
        NOT_NUMBERS => {
            message.put(b"is there, and no file of numbers of this version; take another name, or delete it")
        }
        OTHERS => message.put(b"has numbers of others, and this process has given the same ones already"),
        error => {
            message.put(b"cannot be used: ");
            message.error(error);
        }
    }
    message.put(b"; numbers of this process cannot be decoded later\n");
    complain(message.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::numbers::Record;
    use std::vec;
    use std::vec::Vec;

    /// A new file that ends with the process.
    fn new_file() -> c_int {
        // SAFETY: a plain call.
        unsafe { libc::memfd_create(c"numbers".as_ptr(), 0) }
    }

    fn content(file: c_int) -> Vec<u8> {
        let (.., size) = identity(file).expect("a file");
        let mut bytes = vec![0; size as usize];
        // SAFETY: there is room for these bytes.
        let read = unsafe { libc::pread(file, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        assert_eq!(read, size as isize);
        bytes
    }

    fn record(bytes: &[u8], number: u64) -> Option<Record> {
        let at = offset(number) as usize;
        let word =
            |i: usize| Some(u64::from_le_bytes(bytes.get(at + 8 * i..at + 8 * i + 8)?.try_into().ok()?));
        Record::read(number, [word(0)?, word(1)?, word(2)?]).ok()
    }

    /// The only test of this process that takes a file into use; others number chains at the same time.
    #[test]
    fn what_was_numbered_before_and_what_comes_later_is_in_the_file() {
        let key = |i: u64| [i, chains::RANGE, 0x1234_5678_9abc_def0];
        let mut numbers: Vec<u64> = (1..500).map(|i| CHAINS.insert(&key(i), ()).expect("memory")).collect();
        assert_eq!(pcce_numbers(-1), libc::EBADF);
        let mut pipe = [0; 2];
        // SAFETY: room for two.
        unsafe { libc::pipe(pipe.as_mut_ptr()) };
        assert_eq!(pcce_numbers(pipe[1]), NOT_NUMBERS);
        let other = new_file();
        output::write_all(other, b"something else, of more than sixteen bytes");
        assert_eq!(pcce_numbers(other), NOT_NUMBERS);
        assert_eq!(content(other), b"something else, of more than sixteen bytes", "not touched");
        let used = new_file();
        let mut head = vec![0; HEAD as usize];
        head[..16].copy_from_slice(&super::head());
        head[GIVEN as usize] = 7;
        output::write_all(used, &head);
        assert_eq!(pcce_numbers(used), OTHERS);

        let file = new_file();
        assert_eq!(pcce_numbers(file), 0);
        assert_eq!(pcce_numbers(file), libc::EBUSY);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    (500..50_000).map(|i| CHAINS.insert(&key(i), ()).expect("memory")).collect::<Vec<u64>>()
                })
            })
            .collect();
        let later: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("it ends")).collect();
        assert!(later.iter().all(|numbers| *numbers == later[0]));
        numbers.extend(&later[0]);
        let bytes = content(file);
        let given = u64::from_le_bytes(bytes[GIVEN as usize..][..8].try_into().expect("8"));
        for (i, &number) in (1..).zip(&numbers) {
            assert!(number <= given);
            let found = record(&bytes, number).expect("a record").entry;
            assert_eq!(found, crate::abi::numbers::Entry::Range { outer: i, number: 0x1234_5678_9abc_def0 });
        }
        // No number is given whose record is taken.
        let next = given + 1000;
        assert!(write(next, [1, 2, 3]) && write(next, [1, 2, 3]));
        assert!(!write(next, [1, 2, 4]));
        assert!(STOPPED.load(Ordering::Relaxed));
    }
}
