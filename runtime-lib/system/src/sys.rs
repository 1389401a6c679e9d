//! System calls without libc. libc's functions would change `errno`, may be cancellation points, or the program's own;
//! and each would be a symbol that the loader looks up. All system calls here exist on every machine; calls such as
//! `unlink` or `readlink` exist on x86-64 only.
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;

pub use crate::machine::call;
use crate::output::Text;

/// A system call with up to three arguments.
///
/// # Safety
/// As the system call.
#[inline]
unsafe fn call3(number: libc::c_long, a: usize, b: usize, c: usize) -> isize {
    // SAFETY: by the contract.
    unsafe { call(number, [a, b, c, 0, 0, 0]) }
}

/// New memory, all zero; null if there is none. `more`: flags of `mmap` besides those for private memory.
pub fn map(size: usize, more: c_int) -> *mut c_void {
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | more) as usize;
    // SAFETY: a new mapping, no address given.
    let at = unsafe { call(libc::SYS_mmap, [0, size, access, flags, usize::MAX, 0]) };
    if at < 0 { null_mut() } else { at as *mut c_void }
}

/// Gives memory back.
///
/// # Safety
/// It is of [`map`], and not in use.
pub unsafe fn unmap(at: *mut c_void, size: usize) {
    // SAFETY: by the contract.
    unsafe { call3(libc::SYS_munmap, at as usize, size, 0) };
}

/// The number of the calling thread; negative if the kernel refuses, as in a sandbox.
pub fn gettid() -> c_int {
    number_of(libc::SYS_gettid, c"/proc/thread-self")
}

/// The number of the process; negative if the kernel refuses.
pub fn getpid() -> c_int {
    number_of(libc::SYS_getpid, c"/proc/self")
}

/// Returns whether this is the process with a number, and not a child of it. True if the kernel refuses to say.
pub fn is_process(number: c_int) -> bool {
    let own = getpid();
    own == number || own < 0
}

/// The number that a system call returns, or else the number at the end of a link's target.
fn number_of(asked: libc::c_long, link: &CStr) -> c_int {
    // SAFETY: a plain system call.
    let number = unsafe { call3(asked, 0, 0, 0) as c_int };
    if number > 0 {
        return number;
    }
    let mut text = [0_u8; 64];
    let len = read_link(link, &mut text);
    let text = usize::try_from(len).ok().and_then(|len| text.get(..len)).unwrap_or_default();
    let digits = text.rsplit(|&c| c == b'/').next().unwrap_or_default();
    match digits.iter().try_fold(0_i32, |n, c| c.is_ascii_digit().then(|| n * 10 + i32::from(c - b'0'))) {
        Some(found @ 1..) => found,
        _ => number,
    }
}

/// The time of a clock in nanoseconds; 0 if the kernel refuses.
pub fn time(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a time.
    unsafe { call3(libc::SYS_clock_gettime, clock as usize, &raw mut time as usize, 0) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Opens a file. Returns its descriptor, or a negative error number.
///
/// # Safety
/// The path ends with a zero.
pub unsafe fn open(path: *const c_char, flags: c_int, mode: usize) -> isize {
    let folder = libc::AT_FDCWD as usize;
    // SAFETY: by the contract.
    unsafe { call(libc::SYS_openat, [folder, path as usize, flags as usize, mode, 0, 0]) }
}

/// Removes a name. Returns 0, or a negative error number.
///
/// # Safety
/// The path ends with a zero.
pub unsafe fn unlink(path: *const c_char) -> isize {
    // SAFETY: by the contract.
    unsafe { call3(libc::SYS_unlinkat, libc::AT_FDCWD as usize, path as usize, 0) }
}

/// Reads the target of a symbolic link. Returns its length, or a negative error number.
pub fn read_link(link: &CStr, to: &mut [u8]) -> isize {
    let folder = libc::AT_FDCWD as usize;
    let arguments = [folder, link.as_ptr() as usize, to.as_mut_ptr() as usize, to.len(), 0, 0];
    // SAFETY: writes at most `to.len()` bytes.
    unsafe { call(libc::SYS_readlinkat, arguments) }
}

/// Reads from a file. Returns the number of bytes, or a negative error number.
pub fn read(file: c_int, to: &mut [u8]) -> isize {
    // SAFETY: writes at most `to.len()` bytes.
    unsafe { call3(libc::SYS_read, file as usize, to.as_mut_ptr() as usize, to.len()) }
}

/// Writes to a file. Returns the number of bytes, or a negative error number.
pub fn write(file: c_int, bytes: &[u8]) -> isize {
    // SAFETY: reads the bytes.
    unsafe { call3(libc::SYS_write, file as usize, bytes.as_ptr() as usize, bytes.len()) }
}

/// Reads the beginning of a file below `/proc/self/task/THREAD/`. Returns its length; 0 if there is none.
pub fn read_of_thread(thread: c_int, name: &[u8], to: &mut [u8]) -> usize {
    let mut path = Text::<64>::new();
    path.put(b"/proc/self/task/");
    path.number(thread as u64);
    path.put(b"/");
    path.put(name);
    path.put(b"\0");
    // SAFETY: the path ends with a zero.
    let file = unsafe { open(path.bytes().as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
    if file < 0 {
        return 0;
    }
    let len = read(file as c_int, to);
    close(file as c_int);
    usize::try_from(len).unwrap_or(0).min(to.len())
}

/// Calls `each` with the number of each thread of the process. The error is the kernel's, negative.
#[inline(always)]
pub fn each_thread(mut each: impl FnMut(c_int)) -> Result<(), isize> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: opens a folder.
    let folder = unsafe { open(c"/proc/self/task".as_ptr(), flags, 0) };
    if folder < 0 {
        return Err(folder);
    }
    let mut entries = [0_u64; 256];
    let end = loop {
        // SAFETY: writes at most that many bytes.
        let len = unsafe {
            call3(libc::SYS_getdents64, folder as usize, entries.as_mut_ptr() as usize, size_of_val(&entries))
        };
        let Ok(len @ 1..) = usize::try_from(len) else { break len };
        // SAFETY: written by the kernel.
        let bytes = unsafe { core::slice::from_raw_parts(entries.as_ptr().cast::<u8>(), len) };
        let mut at = 0;
        // `struct linux_dirent64`: the length at byte 16, the name from byte 19 on.
        while let Some(entry) = bytes.get(at..).filter(|entry| entry.len() > 19) {
            let size = u16::from_ne_bytes([entry[16], entry[17]]) as usize;
            if size < 20 || size > entry.len() {
                break;
            }
            at += size;
            let digits = entry[19..size].iter().take_while(|c| c.is_ascii_digit());
            let thread = digits.fold(0_i32, |n, c| n.wrapping_mul(10).wrapping_add((c - b'0').into()));
            if thread != 0 {
                each(thread);
            }
        }
    };
    close(folder as c_int);
    if end < 0 { Err(end) } else { Ok(()) }
}

/// Copies bytes from an address of the process, readable or not. False if not all of them are.
pub fn copy_from(address: usize, to: &mut [u8]) -> bool {
    let (own, there) = ([to.as_mut_ptr() as usize, to.len()], [address, to.len()]);
    let arguments = [getpid() as usize, own.as_ptr() as usize, 1, there.as_ptr() as usize, 1, 0];
    // SAFETY: writes at most `to.len()` bytes; two `struct iovec`.
    unsafe { call(libc::SYS_process_vm_readv, arguments) == to.len() as isize }
}

/// Closes a file of ours.
pub fn close(file: c_int) {
    // SAFETY: a plain system call.
    unsafe { call3(libc::SYS_close, file as usize, 0, 0) };
}

/// Writes the working directory, with a final zero, and returns its length; 0 if it is not known.
pub fn working_directory(to: &mut [u8]) -> usize {
    // SAFETY: writes at most `to.len()` bytes.
    let size = unsafe { call3(libc::SYS_getcwd, to.as_mut_ptr() as usize, to.len(), 0) };
    // The kernel counts the zero, and gives a directory that is not below the root without the slash.
    if size > 1 && to[0] == b'/' { size as usize - 1 } else { 0 }
}

/// `struct sigaction` of the kernel: the action that is installed, which sanitizers may hide from the program.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Action {
    pub handler: usize,
    /// `SA_SIGINFO` and so on.
    pub flags: u64,
    /// The address to which a handler returns.
    pub restorer: usize,
    /// The signals that are blocked while it runs.
    pub mask: u64,
}

impl Action {
    /// The kernel's default action.
    pub const DEFAULT: Self = Self { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };

    /// The action of a signal.
    pub fn of(signal: c_int) -> Option<Self> {
        let mut action = Self::DEFAULT;
        let arguments = [signal as usize, 0, &raw mut action as usize, 8, 0, 0];
        // SAFETY: writes one action.
        (unsafe { call(libc::SYS_rt_sigaction, arguments) } == 0).then_some(action)
    }

    /// Makes this the action of a signal. False if the kernel refuses.
    pub fn set(&self, signal: c_int) -> bool {
        let arguments = [signal as usize, &raw const *self as usize, 0, 8, 0, 0];
        // SAFETY: what the kernel gave before, or the default, or a handler of ours in one of them.
        unsafe { call(libc::SYS_rt_sigaction, arguments) == 0 }
    }

    /// Returns whether it is a function.
    pub fn is_function(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }
}

/// The thread's alternate stack for signals. None if the kernel refuses.
pub fn alternate_stack() -> Option<libc::stack_t> {
    let mut stack = MaybeUninit::<libc::stack_t>::uninit();
    // SAFETY: writes a stack.
    unsafe {
        (call3(libc::SYS_sigaltstack, 0, stack.as_mut_ptr() as usize, 0) == 0).then(|| stack.assume_init())
    }
}

/// Gives the thread an alternate stack for signals. False if the kernel refuses.
///
/// # Safety
/// The stack is the thread's own, as long as it has it.
pub unsafe fn set_alternate_stack(stack: &libc::stack_t) -> bool {
    // SAFETY: by the contract.
    unsafe { call3(libc::SYS_sigaltstack, &raw const *stack as usize, 0, 0) == 0 }
}

/// A number at the beginning of a text, as `atoi` reads it where it is not negative; 0 if there is none.
pub fn number(text: &CStr) -> c_int {
    let digits = text.to_bytes().iter().take_while(|c| c.is_ascii_digit());
    digits.fold(0_i32, |n, c| n.saturating_mul(10).saturating_add((c - b'0').into()))
}

/// A handler as `pthread_atfork` gets it.
pub type ForkHandler = Option<extern "C" fn()>;

/// Has `prepare` called before each `fork`, and `child` in the child before its code goes on, but not in a child of
/// `vfork`. Unlike handlers of `pthread_atfork`, they stay when the destructors of an executable have run: handlers of
/// `exit` may fork.
pub fn around_fork(prepare: ForkHandler, child: extern "C" fn()) {
    type Handler = ForkHandler;
    unsafe extern "C" {
        fn __register_atfork(prepare: Handler, parent: Handler, child: Handler, dso: *mut c_void) -> c_int;
    }
    // SAFETY: plain handlers, which are never unloaded.
    unsafe { __register_atfork(prepare, None, Some(child), null_mut()) };
}

unsafe extern "C" {
    /// `__cxa_atexit`.
    #[link_name = "__pcce_at_exit"]
    pub fn at_exit(f: extern "C" fn(*mut c_void), arg: *mut c_void, dso: *mut c_void) -> c_int;
    /// Has a function called by `quick_exit`.
    #[link_name = "__cxa_at_quick_exit"]
    pub fn at_quick_exit(f: extern "C" fn(*mut c_void), dso: *mut c_void) -> c_int;
    /// `fflush`.
    #[link_name = "__pcce_flush"]
    pub fn flush(stream: *mut c_void) -> c_int;
}
