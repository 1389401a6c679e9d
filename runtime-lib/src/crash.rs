//! Crash reports: on a fatal signal, a few lines of text (`docs/formats.md`) with the contexts of all threads, and then
//! the program dies as it would have without.
//!
//! The handler allocates nothing, locks nothing, and makes system calls without libc. It checks memory that may be
//! damaged before it reads it, and writes each line as soon as it is known. It runs on an alternate stack, where the
//! thread has one: threads get it from [`install`] and at their start ([`alternate`]).
//!
//! At its end the handler restores the signal's former action and sends the signal to its own thread again, with the
//! same information: the kernel delivers it when the handler returns, at the same instruction. So core dump, exit
//! status and the program's own handlers are what they would have been without the report.
//!
//! Other threads write their contexts themselves: the reporting thread sends them one of the signals with a note, one
//! after another, and waits a bounded time for each. A thread that has answered stays in the handler until the process
//! ends.

mod lines;
mod memory;
mod others;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, zeroed};
use core::sync::atomic::Ordering;

use self::lines::Out;
use self::memory::{OWN_TEXT, settings, state};
use self::others::{NOTE, answer, others, park};
use crate::alternate::{self, STACK, new_stack, use_stack};
use crate::fault::go_back;
use crate::image::Image;
use crate::machine::{fault_of, interrupted_pc, interrupted_sp, set_interrupted, sound_thread};
use crate::output::{self, By, Environment, Text, complain};
use crate::own;
use crate::signal::set_action;
use crate::sys::{self, Action, getpid, gettid};
use crate::thread;
use crate::token::interrupted_token;
use crate::unwind::MAX_ACTIVATIONS;
use pcce_system::settled::remember_auxiliary;
use pcce_system::weak_address;

/// The signals that are reported.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
/// glibc's signals for cancellation and `setuid`, which must not be blocked.
const GLIBC_SIGNALS: [c_int; 2] = [32, 33];
/// The environment variable that asks for reports: a path, or `stderr`.
const VARIABLE: &CStr = c"PCCE_CRASH_REPORT";

/// How long other threads wait for the report.
const PARKED_WAIT: u64 = 15_000_000_000;

/// An alternate stack smaller than this is replaced.
const SMALL_STACK: usize = 1 << 15;
/// The kernel's frame of the handler is not further away than this.
const NEAR: usize = 1 << 18;

/// A set with these signals, as the kernel represents it.
fn set_of(signals: impl IntoIterator<Item = c_int>) -> u64 {
    signals.into_iter().fold(0, |set, signal| set | 1 << (signal - 1))
}

/// Returns whether an action is the one that is installed here.
fn is_ours(action: &Action) -> bool {
    action.handler == handler as *const () as usize
}

/// The arguments of the handler.
#[derive(Clone, Copy)]
struct Crash {
    signal: c_int,
    info: libc::siginfo_t,
    context: *mut libc::ucontext_t,
    /// The kernel has removed the handler, and refuses to install it again.
    is_reset: bool,
}

impl Crash {
    /// Returns whether an instruction has caused the signal.
    fn is_fault(&self) -> bool {
        self.info.si_code > 0
    }
}

/// Writes a report to `fd` when the program crashes. See the header.
#[unsafe(no_mangle)]
pub extern "C" fn pcce_install_crash_handler(fd: c_int) -> c_int {
    // SAFETY: the program does not call this from several threads at once.
    unsafe { memory::settle(|settings| settings.set_descriptor(fd)) };
    if install().is_ok() { 0 } else { -1 }
}

/// The message where a handler cannot be installed.
const NO_HANDLER: &[u8] = b"pcce: crashes are not reported: the system refuses a handler for signals\n";
const NO_STACK: &[u8] =
    b"pcce: a stack that is full is not reported: the system refuses another one for its handler\n";

fn install() -> Result<(), ()> {
    // SAFETY: this thread's own stack; a plain action of ours.
    unsafe {
        // Reads now what the handler needs of other modules, and looks up the functions of libc that it calls.
        remember_auxiliary();
        let _ = Image::program();
        let stack = sys::alternate_stack();
        let small = |stack: libc::stack_t| {
            let small = stack.ss_flags & libc::SS_DISABLE != 0 || stack.ss_size < SMALL_STACK;
            small && stack.ss_flags & libc::SS_ONSTACK == 0
        };
        if stack.is_none_or(small) && !use_stack(new_stack()) {
            complain(NO_STACK);
        }
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler as *const () as usize;
        // Crashes of the handler itself call it again.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
        // All signals except the reported ones, and those that glibc uses itself.
        let ours = set_of(SIGNALS.into_iter().chain(GLIBC_SIGNALS));
        (&raw mut action.sa_mask).cast::<u64>().write(!ours);
        alternate::NEEDED.store(true, Ordering::Release);
        for (index, signal) in SIGNALS.into_iter().enumerate() {
            let former = Action::of(signal).ok_or(())?;
            if is_ours(&former) {
                continue;
            }
            memory::settle(|settings| settings.set_former(index, former));
            state().restored.fetch_and(!(1 << index), Ordering::AcqRel);
            if !set_action(signal, &action) {
                return Err(());
            }
        }
        // No instruction causes this signal. If a sandbox later refuses to change its action, the signal must still end
        // the process: so the kernel resets the action by itself.
        if let Some(mut abort) = Action::of(libc::SIGABRT).filter(is_ours) {
            abort.flags |= libc::SA_RESETHAND as u64;
            memory::settle(|settings| settings.abort = abort);
            abort.set(libc::SIGABRT);
        }
    }
    Ok(())
}

/// Installs the handler if the environment or the program asks for reports.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_crash_start(_: c_int, _: *const *const c_char, environment: Environment) {
    // The name that `--pcce-crash-report` puts into the program.
    let mut asked: *const c_char = weak_address!("__pcce_crash_report").cast();
    // SAFETY: the environment is the constructor's, and its texts end with a zero. There is no other thread yet.
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
        memory::settle(|settings| match asked == c"stderr" {
            true => settings.set_descriptor(libc::STDERR_FILENO),
            false => settings.file.set(asked, by),
        });
    }
    if (settings().descriptor().is_some() || settings().file.is_named()) && install().is_err() {
        complain(NO_HANDLER);
    }
}

/// The monotonic time in nanoseconds.
fn now() -> u64 {
    sys::time(libc::CLOCK_MONOTONIC)
}

/// Waits until `condition` is true, or the time is over; checks every `pause` nanoseconds. Returns whether it is true.
fn wait(nanoseconds: u64, pause: i64, condition: impl Fn() -> bool) -> bool {
    let start = now();
    let time = libc::timespec { tv_sec: 0, tv_nsec: pause };
    let mut pauses = 0;
    while !condition() {
        // Without a clock, which a sandbox may refuse, only pauses count.
        let waited = if start == 0 { pauses * pause as u64 } else { now().saturating_sub(start) };
        if waited >= nanoseconds {
            return condition();
        }
        // SAFETY: reads a time.
        unsafe { sys::call(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
        pauses += 1;
    }
    true
}

/// The number of the thread. If the kernel refuses it: a negative number, made of the address of the alternate stack.
fn own_number(context: *const libc::ucontext_t) -> c_int {
    match gettid() {
        // SAFETY: what the kernel gave.
        ..=0 => !((unsafe { (*context).uc_stack.ss_sp.addr() } >> 12) as c_int & c_int::MAX),
        number => number,
    }
}

/// Installs the handler of `SIGABRT` again, after the kernel has removed it. False if the kernel refuses.
fn keep_abort() -> bool {
    let abort = settings().abort;
    let restored = SIGNALS
        .iter()
        .position(|&signal| signal == libc::SIGABRT)
        .is_some_and(|index| state().restored.load(Ordering::Acquire) & 1 << index != 0);
    restored || !abort.is_function() || abort.set(libc::SIGABRT)
}

/// The signal handler.
unsafe extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: what the kernel gave.
    let crash =
        unsafe { Crash { signal, info: *info, context, is_reset: signal == libc::SIGABRT && !keep_abort() } };
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
        if settings().former(index).handler == libc::SIG_IGN && !crash.is_fault() {
            return;
        }
        let own = own_number(context);
        let state = state();
        let mut again = false;
        match state.reporter.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                state.first.0.get().write(MaybeUninit::new(crash));
                report(&crash, own);
                state.done.store(true, Ordering::Release);
            }
            Err(_) if state.done.load(Ordering::Acquire) => again = true,
            Err(reporter) if reporter == own => {
                crashed_again(&crash);
                return;
            }
            Err(_) => park(&crash, own),
        }
        hand_on(&crash, index, again);
    }
}

/// Has the kernel treat the thread as it would have done without the handler, once the handler has returned. `again`:
/// the report is over, so the handler should not have been called.
///
/// # Safety
/// Called by the handler.
unsafe fn hand_on(crash: &Crash, index: usize, again: bool) {
    let bit = 1 << index;
    let former = settings().former(index);
    let restored = state().restored.fetch_or(bit, Ordering::AcqRel) & bit != 0;
    // The kernel ignores no signal that an instruction has caused.
    let default = former.handler == libc::SIG_IGN || again && restored;
    let settled = match () {
        () if default => Action::DEFAULT.set(crash.signal),
        () => restored || former.set(crash.signal),
    } || crash.is_reset && !former.is_function();
    // SAFETY: the information is the kernel's own. The former handler is called as the kernel would.
    unsafe {
        if settled && send_again(crash) {
            return go_back(crash.context, crash.signal, NEAR);
        }
        // A sandbox refuses to send it. The instruction will cause the same signal again.
        if settled && crash.is_fault() {
            return;
        }
        if former.is_function() {
            type Handler = unsafe extern "C" fn(c_int, *const libc::siginfo_t, *mut c_void);
            let former = core::mem::transmute::<usize, Handler>(former.handler);
            former(crash.signal, &raw const crash.info, crash.context.cast());
            return;
        }
        // Where the signal of a fault is blocked, the kernel calls no handler, and ends the process.
        let mask = (&raw mut (*crash.context).uc_sigmask).cast::<u64>();
        mask.write(mask.read() | set_of(SIGNALS));
        if !crash.is_fault() {
            fault_of(crash.signal, crash.context);
        }
    }
}

/// Sends the signal to this thread again. The kernel delivers it when the handler has returned, so that the thread dies
/// where the signal struck. False if the kernel refuses.
///
/// # Safety
/// The information is the kernel's own.
unsafe fn send_again(crash: &Crash) -> bool {
    let set = set_of([crash.signal]);
    let info = &raw const crash.info as usize;
    let (process, thread, signal) = (getpid() as usize, gettid() as usize, crash.signal as usize);
    // SAFETY: by the contract.
    unsafe {
        let arguments = [libc::SIG_BLOCK as usize, &raw const set as usize, 0, 8, 0, 0];
        sys::call(libc::SYS_rt_sigprocmask, arguments);
        sys::call(libc::SYS_rt_tgsigqueueinfo, [process, thread, signal, info, 0, 0]) == 0
            || sys::call(libc::SYS_tgkill, [process, thread, signal, 0, 0, 0]) == 0
    }
}

/// The reporting thread has crashed while it wrote: the program still dies of the first crash.
///
/// # Safety
/// Called by the handler, in the reporting thread.
#[cold]
unsafe fn crashed_again(again: &Crash) {
    // One message only, however often this happens.
    if !state().again.swap(true, Ordering::Relaxed) {
        let mut out = Out::open();
        out.text(b"\nincomplete: the report ends here, since it crashed itself: ");
        out.signal(again.signal, again.info.si_code);
        out.line();
        out.flush();
    }
    state().done.store(true, Ordering::Release);
    // SAFETY: written by this thread; the first context is below on the same stack.
    unsafe {
        let first = (*state().first.0.get()).assume_init_ref();
        if let Some(index) = SIGNALS.iter().position(|s| *s == first.signal) {
            hand_on(first, index, false);
        }
        // Back to where the first signal struck.
        set_interrupted(again.context, first.context);
        (*again.context).uc_sigmask = (*first.context).uc_sigmask;
    }
}

/// Returns whether a thread of the process has crashed and writes, or has written, the report.
pub fn reports() -> bool {
    state().reporter.load(Ordering::Relaxed) != 0
}

/// Keeps a thread where it is while another one reports, and then ends the process.
fn stay() {
    const PAUSE: i64 = 5_000_000;
    if wait(PARKED_WAIT, PAUSE, || state().done.load(Ordering::Acquire)) {
        wait(1_000_000_000, PAUSE, || false);
    }
}

/// Writes the token of the point that the signal interrupted, and after a `+` the tokens of the thread's origin
/// ([`thread::origin_text`]). Returns the length.
///
/// # Safety
/// `text` can take `size` bytes.
unsafe fn word(text: *mut u8, size: usize, context: *const libc::ucontext_t, overflow: bool) -> usize {
    // SAFETY: by the contract.
    unsafe {
        let _sound = sound_thread();
        let whole = interrupted_token(text.cast(), size, context, overflow, MAX_ACTIVATIONS);
        if whole == 0 {
            return 0;
        }
        let len = CStr::from_ptr(text.cast()).count_bytes();
        if len + 2 >= size {
            return len;
        }
        let sp = interrupted_sp(context);
        let origin = thread::origin_text(text.add(len + 1), size - len - 1, sp);
        if origin == 0 {
            return len;
        }
        text.add(len).write(b'+');
        len + 1 + origin
    }
}

/// Writes the report.
///
/// # Safety
/// Called by the handler, in the thread whose number is in `State::reporter`.
unsafe fn report(crash: &Crash, own: c_int) {
    own::MAY_FAIL.store(true, Ordering::Relaxed);
    let mut out = Out::open();
    out.text(b"pcce-crash-report: 1\nprogram: ");
    out.link(c"/proc/self/exe");
    out.line();
    out.text(b"build-id: ");
    match Image::program().map(|image| image.whole_build_id()) {
        Some(id) if !id.is_empty() => id.iter().for_each(|byte| out.hexadecimal((*byte).into(), 2)),
        _ => out.text(b"none"),
    }
    out.line();
    out.text(b"process: ");
    out.number(getpid());
    out.line();
    let trace = crate::tracer::file();
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
    // SAFETY: the code says which fields there are.
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
        let sp = interrupted_sp(crash.context);
        let near = crash.info.si_code > 0 && (crash.info.si_addr() as usize).abs_diff(sp) < STACK;
        let text = state().text.0.get().cast::<u8>();
        out.thread(own);
        out.flush();
        let len = word(text, OWN_TEXT, crash.context, crash.signal == libc::SIGSEGV && near);
        core::slice::from_raw_parts(text, len)
    };
    out.context(context);
    // SAFETY: the kernel's.
    crate::tracer::write_last(unsafe { interrupted_pc(crash.context) });
    others(&mut out, crash.signal, own);
    out.text(b"end: complete\n");
    out.flush();
    out.tell();
}

/// `si_code` of faults for which the processor gives no address.
const SI_KERNEL: c_int = 0x80;
