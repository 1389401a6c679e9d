//! Crash reports: on a fatal signal, a few lines of text (`docs/formats.md`) with the contexts of all threads, and then
//! the program dies as it would have without.
//!
//! The handler allocates nothing, locks nothing, calls the kernel by itself, and asks before it reads memory that may
//! be damaged; each line is written as soon as it is known. It runs on an alternate stack, where the thread has one:
//! threads get it from [`install`] and at their start ([`alternate`]).
//!
//! At its end the handler puts the signal's former action back and sends the signal to its own thread again, with the
//! same information: the kernel delivers it when the handler returns, at the same instruction. So core dump, exit
//! status and the program's own handlers see what they would have seen.
//!
//! Other threads tell their contexts themselves: the reporting thread sends them one of the signals with a note, one
//! after another, and waits a bounded time for each. A thread that has answered stays in the handler until the process
//! ends.

mod lines;
mod others;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, zeroed};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use self::lines::Out;
use self::others::{NOTE, answer, others, park};
use crate::alternate::{self, STACK, new_stack, use_stack};
use crate::image::Image;
use crate::output::{self, By, Environment, FileName, Text};
use crate::signal::libc_sigaction;
use crate::sys::{self, Action, getpid, gettid};
use crate::thread;
use crate::token::interrupted_token;
use crate::unwind::MAX_ACTIVATIONS;
use pcce_system::weak_address;

/// The signals that are reported.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
/// For cancellation and `setuid`: nobody may block them.
const GLIBC_SIGNALS: [c_int; 2] = [32, 33];
/// The environment variable that asks for reports: a path, or `stderr`.
const VARIABLE: &CStr = c"PCCE_CRASH_REPORT";

/// How long other threads wait for the report.
const PARKED_WAIT: u64 = 15_000_000_000;

/// Room for the context of the thread that crashed.
const OWN_TEXT: usize = 1 << 16;
/// An alternate stack smaller than this is replaced.
const SMALL_STACK: usize = 1 << 15;

/// Memory that whoever the atomics name may use.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: each use says why nobody else uses it.
unsafe impl<T> Sync for Shared<T> {}

/// Whether an action is the one that is installed here.
fn is_ours(action: &Action) -> bool {
    action.handler == handler as *const () as usize
}

/// What was installed before, by the index of the signal. Written before the handler is installed.
static FORMER: Shared<[Action; SIGNALS.len()]> = Shared(UnsafeCell::new([Action::DEFAULT; SIGNALS.len()]));
/// Bit `i`: signal `i` has its former action back.
static RESTORED: AtomicU32 = AtomicU32::new(0);

/// Where reports go: a file descriptor, or -1 for [`FILE`].
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
static FILE: FileName = FileName::new();

/// The thread that reports; 0 while none does. One report a process.
static REPORTER: AtomicI32 = AtomicI32::new(0);
/// Its report is written.
static DONE: AtomicBool = AtomicBool::new(false);
/// It has crashed itself, and says so.
static AGAIN: AtomicBool = AtomicBool::new(false);
/// For the reporting thread: its signal, in case it crashes again.
static FIRST: Shared<MaybeUninit<Crash>> = Shared(UnsafeCell::new(MaybeUninit::uninit()));
/// For the reporting thread.
static TEXT: Shared<[u8; OWN_TEXT]> = Shared(UnsafeCell::new([0; OWN_TEXT]));

/// What the kernel gave to the handler.
#[derive(Clone, Copy)]
struct Crash {
    signal: c_int,
    info: libc::siginfo_t,
    context: *mut libc::ucontext_t,
}

/// Writes a report to `fd` when the program crashes. See the header.
#[unsafe(no_mangle)]
pub extern "C" fn pcce_install_crash_handler(fd: c_int) -> c_int {
    DESCRIPTOR.store(fd, Ordering::Relaxed);
    install()
}

fn install() -> c_int {
    // SAFETY: this thread's own stack; a plain action of ours.
    unsafe {
        if let Some(stack) = sys::alternate_stack() {
            let small = stack.ss_flags & libc::SS_DISABLE != 0 || stack.ss_size < SMALL_STACK;
            if small && stack.ss_flags & libc::SS_ONSTACK == 0 {
                use_stack(new_stack());
            }
        }
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler as *const () as usize;
        // Crashes of the handler itself call it again.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
        // All signals but these, and those that glibc uses itself.
        let ours =
            SIGNALS.into_iter().chain(GLIBC_SIGNALS).fold(0_u64, |set, signal| set | 1 << (signal - 1));
        (&raw mut action.sa_mask).cast::<u64>().write(!ours);
        // Whatever the handler calls of libc is looked up now.
        let _ = Image::of(libc::getauxval(libc::AT_ENTRY) as *const u8);
        alternate::NEEDED.store(true, Ordering::Release);
        for (index, signal) in SIGNALS.into_iter().enumerate() {
            let Some(former) = Action::of(signal) else { return -1 };
            if is_ours(&former) {
                continue;
            }
            FORMER.0.get().cast::<Action>().add(index).write(former);
            if libc_sigaction()(signal, &raw const action, null_mut()) != 0 {
                return -1;
            }
        }
    }
    0
}

/// Installs the handler if the environment or the program asks for reports.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_crash_start(_: c_int, _: *const *const c_char, environment: Environment) {
    // What `--pcce-crash-report` puts into the program.
    let mut asked: *const c_char = weak_address!("__pcce_crash_report").cast();
    // SAFETY: the environment is the constructor's, and its texts end with a zero.
    unsafe {
        let variable = output::variable_at_start(VARIABLE, environment);
        let by = if variable.is_null() { By::Program } else { By::User };
        if !variable.is_null() {
            asked = variable;
        }
        if alternate::NEEDED.load(Ordering::Relaxed) || asked.is_null() || *asked == 0 {
            return;
        }
        let asked = CStr::from_ptr(asked);
        if asked == c"stderr" {
            pcce_install_crash_handler(libc::STDERR_FILENO);
            return;
        }
        FILE.set(asked, by);
        if FILE.is_named() {
            install();
        }
    }
}

/// Nanoseconds since some time.
fn now() -> u64 {
    sys::time(libc::CLOCK_MONOTONIC)
}

/// Waits until something is so, or the time is over; looks every `pause` nanoseconds. Returns whether it is so.
fn wait(nanoseconds: u64, pause: i64, so: impl Fn() -> bool) -> bool {
    let end = now().saturating_add(nanoseconds);
    let pause = libc::timespec { tv_sec: 0, tv_nsec: pause };
    while !so() {
        if now() >= end {
            return so();
        }
        // SAFETY: reads a time.
        unsafe { sys::call(libc::SYS_nanosleep, [&raw const pause as usize, 0, 0, 0, 0, 0]) };
    }
    true
}

/// What the kernel calls.
unsafe extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: what the kernel gave.
    let crash = unsafe { Crash { signal, info: *info, context } };
    // SAFETY: the same.
    unsafe {
        if crash.info.si_code == libc::SI_QUEUE
            && crash.info.si_pid() == getpid()
            && crash.info.si_value().sival_ptr as u64 & !0xffff_ffff == NOTE
        {
            answer(crash.info.si_value().sival_ptr as u64 & 0xffff_ffff, context);
            return;
        }
        let Some(index) = SIGNALS.iter().position(|s| *s == signal) else { return };
        let former = &*FORMER.0.get().cast::<Action>().add(index);
        if former.handler == libc::SIG_IGN && crash.info.si_code <= 0 {
            return;
        }
        let own = gettid();
        let mut default = false;
        match REPORTER.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                FIRST.0.get().write(MaybeUninit::new(crash));
                report(&crash, own);
                DONE.store(true, Ordering::Release);
            }
            Err(_) if DONE.load(Ordering::Acquire) => default = true,
            Err(reporter) if reporter == own => {
                crashed_again(&crash);
                return;
            }
            Err(_) => park(&crash, own),
        }
        hand_on(&crash, index, default);
    }
}

/// Lets the kernel do to the thread what the signal would have done.
///
/// # Safety
/// Called by the handler.
unsafe fn hand_on(crash: &Crash, index: usize, default: bool) {
    let bit = 1 << index;
    // SAFETY: written before the handler was installed.
    let former = unsafe { FORMER.0.get().cast::<Action>().add(index).read() };
    // The kernel ignores no signal that an instruction has caused.
    let forced = former.handler == libc::SIG_IGN;
    if default || forced {
        Action::DEFAULT.set(crash.signal);
    } else if RESTORED.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
        former.set(crash.signal);
    }
    // SAFETY: the information is the kernel's own.
    unsafe {
        // Blocked up to the return from the handler, so that the thread dies where the signal struck.
        let set = 1_u64 << (crash.signal - 1);
        let arguments = [libc::SIG_BLOCK as usize, &raw const set as usize, 0, 8, 0, 0];
        sys::call(libc::SYS_rt_sigprocmask, arguments);
        let info = &raw const crash.info as usize;
        let (process, thread, signal) = (getpid() as usize, gettid() as usize, crash.signal as usize);
        if sys::call(libc::SYS_rt_tgsigqueueinfo, [process, thread, signal, info, 0, 0]) != 0 {
            sys::call(libc::SYS_tgkill, [process, thread, signal, 0, 0, 0]);
        }
    }
}

/// The report's own thread has crashed while it wrote: the program dies of the first crash all the same.
///
/// # Safety
/// Called by the handler, in the reporting thread.
#[cold]
unsafe fn crashed_again(again: &Crash) {
    // Not a third time, of this.
    if !AGAIN.swap(true, Ordering::Relaxed) {
        let mut out = Out::open();
        out.text(b"\nincomplete: the report ends here, since it crashed itself: ");
        out.signal(again.signal, again.info.si_code);
        out.line();
        out.flush();
    }
    DONE.store(true, Ordering::Release);
    // SAFETY: written by this thread; the first context is below on the same stack.
    unsafe {
        let first = (*FIRST.0.get()).assume_init_ref();
        if let Some(index) = SIGNALS.iter().position(|s| *s == first.signal) {
            hand_on(first, index, false);
        }
        // Back to where the first signal struck.
        (*again.context).uc_mcontext.gregs = (*first.context).uc_mcontext.gregs;
        (*again.context).uc_sigmask = (*first.context).uc_sigmask;
    }
}

/// Keeps a thread where it is while another one reports, and then ends the process.
fn stay() {
    const PAUSE: i64 = 5_000_000;
    if wait(PARKED_WAIT, PAUSE, || DONE.load(Ordering::Acquire)) {
        wait(1_000_000_000, PAUSE, || false);
    }
}

/// Writes the token of the point that the signal interrupted, and behind a `+` those of where the thread comes from
/// ([`thread::origin_text`]). Returns the length.
///
/// # Safety
/// `text` can take `size` bytes.
unsafe fn word(text: *mut u8, size: usize, context: *const libc::ucontext_t, overflow: bool) -> usize {
    // SAFETY: by the contract.
    unsafe {
        let whole = interrupted_token(text.cast(), size, context, overflow, MAX_ACTIVATIONS);
        if whole == 0 {
            return 0;
        }
        let len = CStr::from_ptr(text.cast()).count_bytes();
        if len + 2 >= size {
            return len;
        }
        let sp = (*context).uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
        let origin = thread::origin_text(text.add(len + 1), size - len - 1, sp);
        if origin == 0 {
            return len;
        }
        text.add(len).write(b'+');
        len + 1 + origin
    }
}

/// # Safety
/// Called by the handler, in the thread that is in [`REPORTER`].
unsafe fn report(crash: &Crash, own: c_int) {
    let mut out = Out::open();
    out.text(b"pcce-crash-report: 1\nprogram: ");
    out.link(c"/proc/self/exe");
    out.line();
    out.text(b"build-id: ");
    // SAFETY: a plain lookup.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as *const u8;
    match Image::of(entry).map(|image| image.whole_build_id()) {
        Some(id) if !id.is_empty() => id.iter().for_each(|byte| out.hexadecimal((*byte).into(), 2)),
        _ => out.text(b"none"),
    }
    out.line();
    out.text(b"process: ");
    out.decimal(getpid().into());
    out.line();
    let trace = crate::trace::file();
    if trace >= 0 {
        let mut link = Text::<32>::new();
        link.put(b"/proc/self/fd/");
        link.number(trace as u64);
        link.put(b"\0");
        out.text(b"trace: ");
        out.link(CStr::from_bytes_with_nul(link.bytes()).unwrap_or_default());
        out.line();
    }
    out.text(b"signal: ");
    out.signal(crash.signal, crash.info.si_code);
    out.line();
    // SAFETY: by the code, which fields there are.
    unsafe {
        match crash.info.si_code {
            SI_KERNEL => out.text(b"address: unknown\n"),
            1.. => {
                out.text(b"address: 0x");
                out.hexadecimal(crash.info.si_addr() as u64, 1);
                out.line();
            }
            libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL => {
                out.text(b"sent-by: process ");
                out.decimal(crash.info.si_pid().into());
                out.line();
            }
            _ => {}
        }
    }
    // SAFETY: the kernel's; this thread is the only one that reports.
    let context = unsafe {
        let sp = (*crash.context).uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
        let near = crash.info.si_code > 0 && (crash.info.si_addr() as usize).abs_diff(sp) < STACK;
        let text = TEXT.0.get().cast::<u8>();
        out.thread(own);
        out.flush();
        let len = word(text, OWN_TEXT, crash.context, crash.signal == libc::SIGSEGV && near);
        core::slice::from_raw_parts(text, len)
    };
    out.context(context);
    others(&mut out, crash.signal, own);
    out.text(b"end: complete\n");
    out.flush();
}

/// `si_code` of faults for which the processor tells no address.
const SI_KERNEL: c_int = 0x80;
