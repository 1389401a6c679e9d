//! The file, and the chunks that are taken from it.
//!
//! A process that has the file open holds a shared lock on it: a file on which an exclusive lock can be had is not in
//! use, and is begun again. The lock does not pass to a program that the process becomes by `exec`, so a process that
//! may call `exec` leaves its number in the head.

use core::ffi::{CStr, c_int};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use crate::abi::trace::{self, FIRST, HEAD, MAGIC, STREAMS, SYNCED, USED, VERSION};
use crate::output::{FileName, How, Text, complain};
use crate::shared::{identity, map, out_of_the_way, reserve};
use crate::{choice, output, parts, sys, toggle};

/// The environment variable that names the file.
const VARIABLE: &CStr = c"PCCE_TRACE";

/// This variable says how much of each stream is kept, and gives the file a name if it has no other.
const RING_VARIABLE: &CStr = c"PCCE_TRACE_RING";
const DEFAULT: &CStr = c"pcce-trace.%p";

/// This variable says which part of the run is kept, as `2/6`.
const PART_VARIABLE: &CStr = c"PCCE_TRACE_PART";

/// If this variable is set, recording has to be started first.
const PAUSED_VARIABLE: &CStr = c"PCCE_TRACE_PAUSED";

/// For tests: the maximum number of words that the first chunks of a stream have after their contexts, so that chunks
/// begin at many places.
const STRESS_VARIABLE: &CStr = c"PCCE_TRACE_STRESS";

static RING: AtomicU64 = AtomicU64::new(0);
static STRESS: AtomicU64 = AtomicU64::new(0);
static NAME: FileName = FileName::new();
static FILE: AtomicI32 = AtomicI32::new(-1);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
/// The head, mapped; null if there is no file.
static START: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());
/// How often recording was started or stopped; it is on if this is odd.
static SWITCHES: AtomicU32 = AtomicU32::new(0);

/// For tests: the maximum number of words that this chunk of a stream has after its context; 0: as many as fit.
pub fn stress(sequence: u64) -> usize {
    // Each takes 64 KiB of the file.
    const FIRST: u64 = 200;
    if sequence < FIRST { STRESS.load(Ordering::Relaxed) as usize } else { 0 }
}

/// How often recording was started or stopped.
pub fn switches() -> u32 {
    SWITCHES.load(Ordering::Acquire)
}

/// Returns whether recording is on, after this number of changes.
pub fn is_on(switches: u32) -> bool {
    switches & 1 == 1
}

/// Starts recording, or stops it. False if nothing changes, or there is no file.
pub fn switch(on: bool) -> bool {
    if START.load(Ordering::Acquire).is_null() {
        return false;
    }
    let change = |now: u32| (is_on(now) != on).then_some(now + 1);
    SWITCHES.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
}

/// A word of the head.
fn word(offset: u64) -> Option<&'static AtomicU64> {
    let start = START.load(Ordering::Acquire);
    // SAFETY: the head stays mapped.
    (!start.is_null()).then(|| unsafe { &*start.add((offset / 8) as usize) })
}

/// The number of a new stream.
pub fn stream() -> u64 {
    word(STREAMS).map_or(0, |streams| streams.fetch_add(1, Ordering::Relaxed) + 1)
}

/// The process may become another program now, which is to continue the file.
pub fn announce_exec() {
    if let Some(synced) = word(SYNCED) {
        synced.store(announcement(), Ordering::Relaxed);
    }
}

/// The process, and the time in seconds.
fn announcement() -> u64 {
    (sys::time(libc::CLOCK_MONOTONIC) / 1_000_000_000) << 32 | sys::getpid() as u64
}

/// Returns whether this process has announced itself in the last seconds.
fn announced(by: u64) -> bool {
    let now = announcement();
    by as u32 == now as u32 && (now >> 32).wrapping_sub(by >> 32) < trace::SYNCED_FOR
}

/// Maps new bytes of the file, all zero. Returns their offset in the file, and their address. None if there are none:
/// then recording is off, and the user has got a message. None, too, if the stream is another process's.
pub fn take(size: u64, is_others: impl Fn() -> bool) -> Option<(u64, *mut u8)> {
    let at = place(size)?;
    let file = file()?;
    let reserved = match reserve(file, at, at + size) {
        libc::EOPNOTSUPP => fill(file, at, at + size, &is_others),
        error => error,
    };
    if reserved != 0 {
        stop(b"it cannot grow", reserved);
        return None;
    }
    mapped_at(file, at, size, is_others).map(|mapped| (at, mapped))
}

/// Maps bytes of the file again that [`take`] has given, and makes them zero, the first ones first. None if that fails,
/// or they are another process's.
pub fn again(at: u64, size: u64, is_others: impl Fn() -> bool) -> Option<*mut u8> {
    let mapped = mapped_at(file()?, at, size, is_others)?;
    // SAFETY: of this size, and ours.
    unsafe {
        mapped.cast::<u64>().write_volatile(0);
        fence(Ordering::Release);
        mapped.write_bytes(0, size as usize);
        fence(Ordering::Release);
    }
    Some(mapped)
}

/// Maps bytes of the file. `is_others`: this is a forked child, and they are its parent's.
fn mapped_at(file: c_int, at: u64, size: u64, is_others: impl Fn() -> bool) -> Option<*mut u8> {
    let mapped = map(file, at, size as usize);
    match mapped {
        None => stop(b"there is no memory to map it", 0),
        // SAFETY: of this size, and not in use yet.
        Some(mapped) if is_others() => unsafe { sys::unmap(mapped.cast(), size as usize) },
        Some(_) => return mapped.map(|mapped| mapped.cast()),
    }
    None
}

/// Reserves the space of a chunk again, after a part was given back. False if there is none, as for [`take`].
pub fn take_again(at: u64, size: u64) -> bool {
    let Some(file) = file() else { return false };
    match reserve(file, at, at + size) {
        // A file system that cannot reserve space cannot have lost it.
        0 | libc::EOPNOTSUPP => true,
        error => {
            stop(b"it cannot grow", error);
            false
        }
    }
}

/// The file, and the address of its head, which stays mapped.
pub fn mapped() -> Option<(c_int, usize)> {
    let start = START.load(Ordering::Acquire);
    if start.is_null() { None } else { Some((file()?, start.addr())) }
}

/// Writes a chunk of `size` bytes at once, its first word last: `head`, `more`, and zeros. False if that fails.
pub fn put(size: u64, head: &[u8], more: &[u8]) -> bool {
    let (Some(at), Some(file)) = (place(size), file()) else { return false };
    // A write beyond the limit on the size of files would end the program by a signal.
    if !is_allowed(at + size) {
        stop(b"it cannot grow", libc::EFBIG);
        return false;
    }
    write_at(file, &head[8..], at + 8)
        && (more.is_empty() || write_at(file, more, at + head.len() as u64))
        && write_at(file, &[0], at + size - 1)
        && write_at(file, &head[..8], at)
}

/// Returns whether files may have this size. True if the kernel refuses to say.
fn is_allowed(size: u64) -> bool {
    let mut limits = [u64::MAX; 2];
    let arguments = [0, libc::RLIMIT_FSIZE as usize, 0, limits.as_mut_ptr() as usize, 0, 0];
    // SAFETY: writes both numbers, or nothing.
    unsafe { sys::call(libc::SYS_prlimit64, arguments) };
    size <= limits[0]
}

/// Writes into a chunk that [`take`] has given, without its mapping. There is no message if that fails.
pub fn put_at(bytes: &[u8], at: u64) {
    let file = FILE.load(Ordering::Acquire);
    if file >= 0 && is_it(file) {
        let arguments = [file as usize, bytes.as_ptr() as usize, bytes.len(), at as usize, 0, 0];
        // SAFETY: reads the bytes.
        unsafe { sys::call(libc::SYS_pwrite64, arguments) };
    }
}

/// The offset of the next `size` bytes of the file, which are then taken.
fn place(size: u64) -> Option<u64> {
    word(USED).map(|used| used.fetch_add(size, Ordering::Relaxed))
}

fn write_at(file: c_int, bytes: &[u8], at: u64) -> bool {
    let arguments = [file as usize, bytes.as_ptr() as usize, bytes.len(), at as usize, 0, 0];
    loop {
        // SAFETY: reads the bytes.
        match unsafe { sys::call(libc::SYS_pwrite64, arguments) } {
            error if error == -(libc::EINTR as isize) => {}
            written if written == bytes.len() as isize => return true,
            error => {
                stop(b"it cannot be written", -error as c_int);
                return false;
            }
        }
    }
}

/// Reserves space by writing zeros, where the file system cannot reserve any. Returns 0 or an error number.
fn fill(file: c_int, from: u64, to: u64, is_others: impl Fn() -> bool) -> c_int {
    static ZEROS: [u8; 4096] = [0; 4096];
    for at in (from..to).step_by(ZEROS.len()).take_while(|_| !is_others()) {
        let arguments = [file as usize, ZEROS.as_ptr() as usize, ZEROS.len(), at as usize, 0, 0];
        // SAFETY: reads the bytes.
        let written = unsafe { sys::call(libc::SYS_pwrite64, arguments) };
        if written != ZEROS.len() as isize {
            return if written < 0 { -written as c_int } else { libc::ENOSPC };
        }
    }
    0
}

/// Gives back the space of a part of a chunk that is no longer mapped. Its bytes stay zero.
pub fn give_back(from: u64, to: u64) {
    let Some(file) = file().filter(|_| from < to) else { return };
    let how = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as usize;
    let arguments = [file as usize, how, from as usize, (to - from) as usize, 0, 0];
    // SAFETY: changes a file of ours, where only zeros are.
    unsafe { sys::call(libc::SYS_fallocate, arguments) };
}

fn is_it(file: c_int) -> bool {
    let expected = (DEVICE.load(Ordering::Relaxed), INODE.load(Ordering::Relaxed));
    identity(file).is_ok_and(|(device, inode, _)| (device, inode) == expected)
}

/// The descriptor of the file; -1 if there is none, or the program has closed it. For crash reports.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_trace_file() -> c_int {
    let file = FILE.load(Ordering::Acquire);
    if file >= 0 && is_it(file) { file } else { -1 }
}

/// The open file. None if the program has closed it and its name leads to another file, or if the kernel refuses a
/// call.
fn file() -> Option<c_int> {
    let file = FILE.load(Ordering::Acquire);
    match identity(file) {
        Ok(_) if is_it(file) => return Some(file),
        // Closed, or another file has its number.
        Ok(_) | Err(libc::EBADF | libc::EINVAL) => {}
        Err(error) => {
            stop(b"the system refuses a call that it needs", error);
            return None;
        }
    }
    let again = match NAME.open(How::SharedAgain, 0) {
        Ok(again) => out_of_the_way(again),
        Err(error) => {
            stop(b"the program has closed it, and it cannot be opened again", error);
            return None;
        }
    };
    if !is_it(again) || lock(again, libc::LOCK_SH) != 0 {
        sys::close(again);
        stop(b"the program has closed it, and another one has its name", 0);
        return None;
    }
    FILE.store(again, Ordering::Release);
    Some(again)
}

/// Stops recording, with one message.
#[cold]
fn stop(why: &[u8], error: c_int) {
    if switch(false) {
        tell(why, error);
    }
}

/// Makes recording impossible, with a message.
#[cold]
pub fn give_up(why: &[u8], error: c_int) {
    switch(false);
    START.store(null_mut(), Ordering::Release);
    tell(why, error);
}

fn tell(why: &[u8], error: c_int) {
    let mut message = Text::<256>::new();
    message.put(b"pcce: the trace: ");
    message.put(why);
    if error != 0 {
        message.put(b": ");
        message.error(error);
    }
    message.put(b"; calls are not recorded from here on\n");
    complain(message.bytes());
}

/// Locks a file. Returns 0 or an error number.
fn lock(file: c_int, how: c_int) -> c_int {
    loop {
        // SAFETY: a file of ours.
        match unsafe { sys::call(libc::SYS_flock, [file as usize, how as usize, 0, 0, 0, 0]) } as c_int {
            error if error == -libc::EINTR => {}
            error => return -error,
        }
    }
}

/// Why a file is not taken: an error number.
const NOT_A_TRACE: c_int = libc::EINVAL;

/// The minimum number of bytes that are kept of each stream; 0: all.
pub fn ring() -> u64 {
    RING.load(Ordering::Relaxed)
}

/// Parses a number of bytes, followed by K, M or G for powers of 1024.
fn bytes(text: &[u8]) -> Option<u64> {
    let (digits, shift) = match text.split_last()? {
        (b'K' | b'k', digits) => (digits, 10),
        (b'M' | b'm', digits) => (digits, 20),
        (b'G' | b'g', digits) => (digits, 30),
        _ => (text, 0),
    };
    let digit = |number: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    let number = digits.iter().try_fold(0, digit)?.checked_mul(1 << shift)?;
    (number > 0).then_some(number)
}

/// Opens the file that the environment names, if it names one or a ring's size, and starts recording.
pub fn start() {
    let ask = |name: &CStr| {
        let value = crate::output::variable(name);
        // SAFETY: a text of the environment.
        let value = (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) });
        value.map(CStr::to_bytes).filter(|value| !value.is_empty())
    };
    let ring = ask(RING_VARIABLE);
    if ask(VARIABLE).is_none() && ring.is_none() {
        return;
    }
    STRESS.store(ask(STRESS_VARIABLE).and_then(bytes).unwrap_or(0), Ordering::Relaxed);
    match ring.map(bytes) {
        None => {}
        Some(Some(bytes)) => RING.store(bytes, Ordering::Relaxed),
        Some(None) => {
            let message =
                "pcce: PCCE_TRACE_RING is not a number of bytes, as 65536 or 16M; calls are not recorded\n";
            complain(message.as_bytes());
            return;
        }
    }
    let part = ask(PART_VARIABLE);
    if part.is_some_and(|part| ring.is_some() || !parts::set(part)) {
        let message = "pcce: PCCE_TRACE_PART is no part of a run, as 2/6, or PCCE_TRACE_RING is set, too; calls are not \
                       recorded\n";
        complain(message.as_bytes());
        return;
    }
    NAME.set_from(VARIABLE, Some(DEFAULT));
    NAME.settle();
    let error = match open() {
        Ok(()) => {
            choice::make();
            if ask(PAUSED_VARIABLE).is_none() {
                switch(true);
            }
            let signal = output::variable(toggle::VARIABLE);
            if !signal.is_null() {
                // SAFETY: a text of the environment.
                toggle::on_signal(unsafe { CStr::from_ptr(signal) });
            }
            return;
        }
        // The user has got a message.
        Err(0) => return,
        Err(error) => error,
    };
    let mut message = Text::<256>::new();
    message.put(b"pcce: the file that PCCE_TRACE names ");
    match error {
        NOT_A_TRACE => {
            message.put(b"is there, and no trace of this version; take another name, or delete it");
        }
        error => {
            message.put(b"cannot be used: ");
            message.error(error);
        }
    }
    message.put(b"; calls are not recorded\n");
    complain(message.bytes());
}

/// The first bytes of a file.
fn head() -> [u8; 16] {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head
}

fn open() -> Result<(), c_int> {
    const ATTEMPTS: usize = 100;
    for _ in 0..ATTEMPTS {
        let file = NAME.open(How::Shared, 0).map_err(|_| 0)?;
        let file = out_of_the_way(file);
        match take_into_use(file) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                sys::close(file);
            }
            Err(error) => {
                sys::close(file);
                return Err(error);
            }
        }
    }
    Err(libc::EBUSY)
}

/// Takes the file into use. False if another process has meanwhile replaced it by another file, or has left it
/// unfinished.
fn take_into_use(file: c_int) -> Result<bool, c_int> {
    let (device, inode, size) = identity(file)?;
    match lock(file, libc::LOCK_EX | libc::LOCK_NB) {
        0 => {
            if !NAME.leads_to(file)? {
                return Ok(false);
            }
            if size > 0 && begins_with(file, &MAGIC) != Some(true) {
                return Err(NOT_A_TRACE);
            }
            let goes_on =
                size >= HEAD && begins_with(file, &head()) == Some(true) && announced(read_synced(file));
            if !goes_on {
                // The file is not made shorter: a process that has closed it unknowingly may still have it mapped.
                if size > 0 && NAME.remove() {
                    return Ok(false);
                }
                begin(file)?;
            }
        }
        libc::EWOULDBLOCK => {}
        error => return Err(error),
    }
    match lock(file, libc::LOCK_SH) {
        0 => {}
        error => return Err(error),
    }
    match begins_with(file, &head()) {
        Some(true) if NAME.leads_to(file)? => {}
        Some(false) => return Err(NOT_A_TRACE),
        _ => return Ok(false),
    }
    let start = map(file, 0, HEAD as usize).ok_or(libc::ENOMEM)?;
    DEVICE.store(device, Ordering::Relaxed);
    INODE.store(inode, Ordering::Relaxed);
    FILE.store(file, Ordering::Relaxed);
    START.store(start, Ordering::Release);
    if let Some(kept) = word(trace::RING).filter(|_| ring() > 0) {
        kept.store(ring(), Ordering::Relaxed);
    }
    Ok(true)
}

/// Makes the file an empty trace, with a head.
fn begin(file: c_int) -> Result<(), c_int> {
    // SAFETY: a file of ours.
    unsafe { sys::call(libc::SYS_ftruncate, [file as usize, 0, 0, 0, 0, 0]) };
    let error = match reserve(file, 0, HEAD) {
        libc::EOPNOTSUPP => fill(file, 0, HEAD, || false),
        error => error,
    };
    if error != 0 {
        return Err(error);
    }
    // The first bytes last.
    let written = |bytes: &[u8], at: u64| {
        let arguments = [file as usize, bytes.as_ptr() as usize, bytes.len(), at as usize, 0, 0];
        // SAFETY: reads the bytes.
        unsafe { sys::call(libc::SYS_pwrite64, arguments) == bytes.len() as isize }
    };
    let done = written(&FIRST.to_le_bytes(), USED) && written(&head(), 0);
    done.then_some(()).ok_or(libc::ENOSPC)
}

/// Returns whether the file begins with these bytes. None if it has fewer bytes, or other processes have not yet
/// written them.
fn begins_with(file: c_int, bytes: &[u8]) -> Option<bool> {
    let mut there = [0; 16];
    let arguments = [file as usize, there.as_mut_ptr() as usize, bytes.len(), 0, 0, 0];
    // SAFETY: there is room for these bytes.
    let read = unsafe { sys::call(libc::SYS_pread64, arguments) };
    let there = &there[..bytes.len()];
    (read == bytes.len() as isize && there.iter().any(|&byte| byte != 0)).then_some(there == bytes)
}

fn read_synced(file: c_int) -> u64 {
    let mut there = [0; 8];
    let arguments = [file as usize, there.as_mut_ptr() as usize, 8, SYNCED as usize, 0, 0];
    // SAFETY: there is room for these bytes.
    unsafe { sys::call(libc::SYS_pread64, arguments) };
    u64::from_le_bytes(there)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_numbers_with_a_letter_or_none() {
        let sizes: [(&[u8], _); 4] = [(b"1", 1), (b"64K", 65536), (b"16M", 16 << 20), (b"2g", 2 << 30)];
        for (text, size) in sizes {
            assert_eq!(bytes(text), Some(size));
        }
        let wrong: [&[u8]; 8] =
            [b"", b"K", b"0", b"-1", b"1T", b"1 M", b"99999999999999999999", b"99999999999G"];
        for text in wrong {
            assert_eq!(bytes(text), None, "{text:?}");
        }
    }
}
