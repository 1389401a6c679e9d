//! Files that processes share, and map: space is taken before it is written to, so that a full disk is an error and no
//! signal; and programs close files that they do not know.

use core::ffi::c_int;
use core::sync::atomic::AtomicU64;

use crate::sys;

/// Takes space in the file, from an offset to another. Returns 0 or an error number: `EOPNOTSUPP` if the file system
/// cannot.
pub fn reserve(file: c_int, from: u64, to: u64) -> c_int {
    // A larger file than the process may write would be a signal.
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
            error => return -error,
        }
    }
}

/// Maps a part of a file, which others see at once. None if that cannot be.
pub fn map(file: c_int, offset: u64, size: usize) -> Option<*mut AtomicU64> {
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let arguments = [0, size, access, libc::MAP_SHARED as usize, file as usize, offset as usize];
    // SAFETY: a new mapping, no address given.
    let at = unsafe { sys::call(libc::SYS_mmap, arguments) };
    (at > 0).then_some(at as *mut AtomicU64)
}

/// What a file is: device, number, size. None if it is none that can be mapped.
pub fn identity(file: c_int) -> Option<(u64, u64, u64)> {
    let mut about = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: writes what it has.
    unsafe {
        let arguments = [file as usize, about.as_mut_ptr() as usize, 0, 0, 0, 0];
        if sys::call(libc::SYS_fstat, arguments) != 0 {
            return None;
        }
        let about = about.assume_init();
        let regular = about.st_mode & libc::S_IFMT == libc::S_IFREG;
        regular.then_some((about.st_dev, about.st_ino, about.st_size as u64))
    }
}

/// Moves a file of ours to a number that the program will not get, or expect to get.
pub fn out_of_the_way(file: c_int) -> c_int {
    match copy(file) {
        Some(copy) => {
            sys::close(file);
            copy
        }
        None => file,
    }
}

/// Another descriptor of a file, with a high number.
pub fn copy(file: c_int) -> Option<c_int> {
    [1000, 200, 3].into_iter().find_map(|least| {
        let arguments = [file as usize, libc::F_DUPFD_CLOEXEC as usize, least, 0, 0, 0];
        // SAFETY: a plain system call.
        c_int::try_from(unsafe { sys::call(libc::SYS_fcntl, arguments) }).ok().filter(|&copy| copy >= 0)
    })
}
