//! Files that processes share, and map: space is reserved before it is written to, so that a full disk is an error and
//! no signal; and programs close files that they do not know.

use core::ffi::c_int;
use core::sync::atomic::AtomicU64;

use crate::sys;

/// Reserves space in the file, from one offset to another. Returns 0 or an error number: `EOPNOTSUPP` if the file
/// system cannot.
pub fn reserve(file: c_int, from: u64, to: u64) -> c_int {
    // If the file became larger than the process may write, the kernel would send a signal.
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let arguments = [0, libc::RLIMIT_FSIZE as usize, 0, &raw mut limit as usize, 0, 0];
    // SAFETY: writes a limit.
    if unsafe { sys::call(libc::SYS_prlimit64, arguments) } == 0 && to > limit.rlim_cur {
        return libc::EFBIG;
    }
    loop {
        let arguments = [file as usize, 0, from as usize, (to - from) as usize, 0, 0];
        // SAFETY: changes a file of ours.
        match unsafe { sys::call(libc::SYS_fallocate, arguments) } as c_int {
            error if error == -libc::EINTR => {}
            // A sandbox refuses the call.
            error if error == -libc::EPERM || error == -libc::ENOSYS => return libc::EOPNOTSUPP,
            error => return -error,
        }
    }
}

/// Maps a part of a file, which other processes see at once. None if that fails.
pub fn map(file: c_int, offset: u64, size: usize) -> Option<*mut AtomicU64> {
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let arguments = [0, size, access, libc::MAP_SHARED as usize, file as usize, offset as usize];
    // SAFETY: a new mapping, no address given.
    let at = unsafe { sys::call(libc::SYS_mmap, arguments) };
    (at > 0).then_some(at as *mut AtomicU64)
}

/// The device, number, and size of a file. An error number if the kernel refuses; `EINVAL` if the file cannot be
/// mapped.
pub fn identity(file: c_int) -> Result<(u64, u64, u64), c_int> {
    let mut about = core::mem::MaybeUninit::<libc::stat>::uninit();
    let to = about.as_mut_ptr() as usize;
    // SAFETY: writes what it has.
    unsafe {
        let error = sys::call(libc::SYS_fstat, [file as usize, to, 0, 0, 0, 0]);
        // A sandbox may refuse one of these.
        let by_path = [file as usize, c"".as_ptr() as usize, to, libc::AT_EMPTY_PATH as usize, 0, 0];
        if error != 0 && sys::call(libc::SYS_newfstatat, by_path) != 0 {
            return Err(-error as c_int);
        }
        let about = about.assume_init();
        let regular = about.st_mode & libc::S_IFMT == libc::S_IFREG;
        regular.then_some((about.st_dev, about.st_ino, about.st_size as u64)).ok_or(libc::EINVAL)
    }
}

/// Moves a file of ours to a number that the program will not get, or expect to get.
pub fn out_of_the_way(file: c_int) -> c_int {
    match copy(file) {
        Ok(copy) => {
            sys::close(file);
            copy
        }
        Err(_) => file,
    }
}

/// Another descriptor of a file, with a high number; or an error number.
pub fn copy(file: c_int) -> Result<c_int, c_int> {
    let copy = |least: usize| {
        let arguments = [file as usize, libc::F_DUPFD_CLOEXEC as usize, least, 0, 0, 0];
        // SAFETY: a plain system call.
        let copy = unsafe { sys::call(libc::SYS_fcntl, arguments) } as c_int;
        if copy < 0 { Err(-copy) } else { Ok(copy) }
    };
    copy(1000).or_else(|_| copy(200)).or_else(|_| copy(3))
}
