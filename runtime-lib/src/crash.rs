//! Crash reports: on a fatal signal, a few lines of text (`docs/formats.md`) with the contexts of all threads, and then the
//! program dies as it would have without.
//!
//! The handler allocates nothing, locks nothing, calls the kernel by itself, and asks before it reads memory that may be damaged;
//! each line is written as soon as it is known. It runs on an alternate stack, where the thread has one: threads get it from
//! [`install`] and at their start ([`begin_thread`]).
//!
//! At its end the handler puts the signal's former action back and sends the signal to its own thread again, with the same
//! information: the kernel delivers it when the handler returns, at the same instruction. So core dump, exit status and the
//! program's own handlers see what they would have seen.
//!
//! Other threads tell their contexts themselves: the reporting thread sends them one of the signals with a note, one after
//! another, and waits a bounded time for each. A thread that has answered stays in the handler until the process ends.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, zeroed};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::digits::Decimal;
use crate::image::Image;
use crate::output::{self, By, Environment, FileName, How};
use crate::sys::{self, Action, getpid, gettid};
use crate::thread;
use crate::token::interrupted_token;

/// The signals that are reported.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
/// For cancellation and `setuid`: nobody may block them.
const GLIBC_SIGNALS: [c_int; 2] = [32, 33];
/// The environment variable that asks for reports: a path, or `stderr`.
const VARIABLE: &CStr = c"PCCE_CRASH_REPORT";

/// Size of an alternate stack, without what the kernel writes to it.
const STACK: usize = 1 << 16;
/// An alternate stack smaller than this is replaced.
const SMALL_STACK: usize = 1 << 15;
/// Room for the context of the thread that crashed, and for that of another one.
const OWN_TEXT: usize = 1 << 16;
const OTHER_TEXT: usize = 1 << 13;

/// How long one thread is waited for, and all of them, in nanoseconds.
const ONE_WAIT: u64 = 500_000_000;
const ALL_WAIT: u64 = 5_000_000_000;
/// How long other threads wait for the report.
const PARKED_WAIT: u64 = 15_000_000_000;

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
static INSTALLED: AtomicBool = AtomicBool::new(false);

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

/// A thread that crashed while another one was reporting.
struct Other {
    thread: AtomicI32,
    signal: AtomicI32,
    code: AtomicI32,
    context: AtomicPtr<libc::ucontext_t>,
}

static OTHERS: [Other; 16] = [const {
    Other {
        thread: AtomicI32::new(0),
        signal: AtomicI32::new(0),
        code: AtomicI32::new(0),
        context: AtomicPtr::new(null_mut()),
    }
}; 16];

/// Where a thread that is asked writes its context.
struct Slot {
    state: AtomicU32,
    len: AtomicUsize,
    text: Shared<[u8; OTHER_TEXT]>,
}

const FREE: u32 = 0;
const ASKED: u32 = 1;
const ANSWERING: u32 = 2;
const ANSWERED: u32 = 3;

/// One is lost with each thread that begins to answer and does not end.
static SLOTS: [Slot; 4] = [const {
    Slot {
        state: AtomicU32::new(FREE),
        len: AtomicUsize::new(0),
        text: Shared(UnsafeCell::new([0; OTHER_TEXT])),
    }
}; 4];

/// The question that may be answered: its number, and in the lowest byte the slot.
static QUESTION: AtomicU64 = AtomicU64::new(0);
/// In the note of each question.
const NOTE: u64 = 0x7063_6365_0000_0000;

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
        INSTALLED.store(true, Ordering::Release);
        for (index, signal) in SIGNALS.into_iter().enumerate() {
            let Some(former) = Action::of(signal) else { return -1 };
            if is_ours(&former) {
                continue;
            }
            FORMER.0.get().cast::<Action>().add(index).write(former);
            if libc::sigaction(signal, &raw const action, null_mut()) != 0 {
                return -1;
            }
        }
    }
    0
}

// Behind the program's loading. By the exported name, so that of several runtimes in a process, the
// executable's one is started.
core::arch::global_asm!(
    ".pushsection .init_array,\"aw\",@init_array",
    ".p2align 3",
    ".quad __pcce_crash_start",
    ".popsection",
    // What `--pcce-crash-report` puts into the program.
    ".weak __pcce_crash_report",
);

/// Installs the handler if the environment or the program asks for reports.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_crash_start(_: c_int, _: *const *const c_char, environment: Environment) {
    let mut asked: *const c_char;
    // SAFETY: the address of a text that ends with a zero, or null where the program has none.
    unsafe {
        core::arch::asm!("mov {}, qword ptr [rip + __pcce_crash_report@GOTPCREL]", out(reg) asked,
            options(nostack, readonly, preserves_flags));
    }
    // SAFETY: the environment is the constructor's, and its texts end with a zero.
    unsafe {
        let variable = output::variable_at_start(VARIABLE, environment);
        let by = if variable.is_null() { By::Program } else { By::User };
        if !variable.is_null() {
            asked = variable;
        }
        if INSTALLED.load(Ordering::Relaxed) || asked.is_null() || *asked == 0 {
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

/// Memory for an alternate stack, with a page below it that nobody may touch. Null if there is none.
fn new_stack() -> *mut c_void {
    let size = stack_size() + PAGE;
    let stack = sys::map(size, libc::MAP_NORESERVE);
    if !stack.is_null() {
        let arguments = [stack as usize, PAGE, libc::PROT_NONE as usize, 0, 0, 0];
        // SAFETY: the first page of what was just made.
        unsafe { sys::call(libc::SYS_mprotect, arguments) };
    }
    stack
}

const PAGE: usize = 4096;

fn stack_size() -> usize {
    /// What the kernel writes (`AT_MINSIGSTKSZ`).
    const FRAME: libc::c_ulong = 51;
    // SAFETY: a plain lookup.
    (STACK + unsafe { libc::getauxval(FRAME) } as usize).next_multiple_of(PAGE)
}

/// # Safety
/// A stack of [`new_stack`], or null.
unsafe fn use_stack(stack: *mut c_void) {
    if stack.is_null() {
        return;
    }
    // SAFETY: by the contract.
    unsafe {
        let stack = libc::stack_t { ss_sp: stack.add(PAGE), ss_flags: 0, ss_size: stack_size() };
        sys::set_alternate_stack(&stack);
    }
}

/// An alternate stack for a new thread, if crashes are reported; null if not.
pub fn begin_thread() -> *mut c_void {
    if !INSTALLED.load(Ordering::Acquire) {
        return null_mut();
    }
    let stack = new_stack();
    // SAFETY: just made.
    unsafe { use_stack(stack) };
    stack
}

/// Gives the alternate stack of an ending thread back.
///
/// # Safety
/// `stack` is what [`begin_thread`] gave in this thread.
pub unsafe fn end_thread(stack: *mut c_void) {
    if stack.is_null() {
        return;
    }
    let Some(current) = sys::alternate_stack() else { return };
    // SAFETY: by the contract; the program may have another alternate stack meanwhile.
    unsafe {
        if current.ss_sp == stack.add(PAGE) {
            if current.ss_flags & libc::SS_ONSTACK != 0 {
                return;
            }
            let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            sys::set_alternate_stack(&none);
        }
        sys::unmap(stack, stack_size() + PAGE);
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

/// Waits for the report of another thread, which asks this one for its context.
fn park(crash: &Crash, own: c_int) {
    let free = |o: &&Other| o.thread.compare_exchange(0, -1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if let Some(place) = OTHERS.iter().find(free) {
        place.signal.store(crash.signal, Ordering::Relaxed);
        place.code.store(crash.info.si_code, Ordering::Relaxed);
        place.context.store(crash.context, Ordering::Relaxed);
        place.thread.store(own, Ordering::Release);
    }
    stay();
}

/// Keeps a thread where it is while another one reports, and then ends the process.
fn stay() {
    const PAUSE: i64 = 5_000_000;
    if wait(PARKED_WAIT, PAUSE, || DONE.load(Ordering::Acquire)) {
        wait(1_000_000_000, PAUSE, || false);
    }
}

/// Writes the context of this thread to where the reporting thread reads it.
///
/// # Safety
/// `context` is what the kernel gave to the handler.
unsafe fn answer(question: u64, mut context: *mut libc::ucontext_t) {
    if QUESTION.load(Ordering::Acquire) != question {
        return;
    }
    let slot = &SLOTS[question as usize & 0xff];
    if slot.state.compare_exchange(ASKED, ANSWERING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    let own = gettid();
    let crashed = OTHERS.iter().find(|o| o.thread.load(Ordering::Acquire) == own);
    if let Some(crashed) = crashed {
        context = crashed.context.load(Ordering::Relaxed);
    }
    // SAFETY: the slot is this thread's until it has answered.
    let len = unsafe { word(slot.text.0.get().cast(), OTHER_TEXT, context, false) };
    slot.len.store(len, Ordering::Relaxed);
    slot.state.store(ANSWERED, Ordering::Release);
    // What the signal interrupted may be a wait: going on, the program might even end before it has crashed.
    if crashed.is_none() {
        stay();
    }
}

/// Writes the token of the point that the signal interrupted, and behind a `+` that of the thread's creation. Returns the
/// length.
///
/// # Safety
/// `text` can take `size` bytes.
unsafe fn word(text: *mut u8, size: usize, context: *const libc::ucontext_t, overflow: bool) -> usize {
    // SAFETY: by the contract.
    unsafe {
        let whole = interrupted_token(text.cast(), size, context, overflow);
        if whole == 0 {
            return 0;
        }
        let len = CStr::from_ptr(text.cast()).count_bytes();
        if len + 2 >= size {
            return len;
        }
        let creation = thread::creation_text(text.add(len + 1), size - len - 1);
        if creation == 0 {
            return len;
        }
        text.add(len).write(b'+');
        len + 1 + creation
    }
}

/// # Safety
/// Called by the handler, in the thread that is in [`REPORTER`].
unsafe fn report(crash: &Crash, own: c_int) {
    let mut out = Out::open();
    out.text(b"pcce-crash-report: 1\nprogram: ");
    let mut path = [0_u8; 1024];
    let arguments = [c"/proc/self/exe".as_ptr() as usize, path.as_mut_ptr() as usize, path.len(), 0, 0, 0];
    // SAFETY: writes at most that many bytes.
    let len = unsafe { sys::call(libc::SYS_readlink, arguments) };
    out.name(if len > 0 { &path[..len as usize] } else { b"unknown" });
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

/// The contexts of all threads but this one.
fn others(out: &mut Out, signal: c_int, own: c_int) {
    // Not the signal that is about to have its former action back.
    let ours = |s: &c_int| Action::of(*s).is_some_and(|action| is_ours(&action));
    let mut candidates = SIGNALS.into_iter().rev();
    let question_signal = candidates.find(|s| *s != signal && ours(s)).or(Some(signal).filter(ours));
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: opens a folder.
    let folder = unsafe { sys::open(c"/proc/self/task".as_ptr(), flags, 0) };
    if folder < 0 {
        out.text(b"incomplete: the other threads cannot be listed, /proc is not there\n");
        return;
    }
    let end = now().saturating_add(ALL_WAIT);
    let mut slot = 0;
    let mut entries = [0_u64; 256];
    loop {
        let arguments = [folder as usize, entries.as_mut_ptr() as usize, size_of_val(&entries), 0, 0, 0];
        // SAFETY: writes at most that many bytes.
        let len = unsafe { sys::call(libc::SYS_getdents64, arguments) };
        let Ok(len @ 1..) = usize::try_from(len) else { break };
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
            if thread != 0 && thread != own {
                other(out, thread, question_signal, end, &mut slot);
            }
        }
    }
    sys::close(folder as c_int);
}

/// The context of one other thread.
fn other(out: &mut Out, thread: c_int, signal: Option<c_int>, end: u64, slot: &mut usize) {
    out.thread(thread);
    if let Some(other) = OTHERS.iter().find(|o| o.thread.load(Ordering::Acquire) == thread) {
        out.text(b"also-crashed: ");
        out.signal(other.signal.load(Ordering::Relaxed), other.code.load(Ordering::Relaxed));
        out.line();
    }
    // The line may be the last one.
    out.flush();
    let left = end.saturating_sub(now());
    let (Some(signal), true, Some(place)) = (signal, left > 0, SLOTS.get(*slot)) else {
        out.text(b"context: not asked\n");
        return;
    };
    let question = (QUESTION.load(Ordering::Relaxed) >> 8).wrapping_add(1) << 8 & 0xffff_ff00 | *slot as u64;
    place.state.store(ASKED, Ordering::Relaxed);
    QUESTION.store(question, Ordering::Release);
    // The beginning of `siginfo_t`: signal, error, code; sender and value from byte 16 on.
    let mut info = [0_u64; 16];
    info[0] = signal as u64;
    info[1] = libc::SI_QUEUE as u32 as u64;
    info[2] = getpid() as u64;
    info[3] = NOTE | question;
    let arguments = [getpid() as usize, thread as usize, signal as usize, info.as_ptr() as usize, 0, 0];
    // SAFETY: a whole `siginfo_t`.
    if unsafe { sys::call(libc::SYS_rt_tgsigqueueinfo, arguments) } != 0 {
        place.state.store(FREE, Ordering::Relaxed);
        out.text(b"context: none, the thread has ended\n");
        return;
    }
    const PAUSE: i64 = 50_000;
    let answered = || place.state.load(Ordering::Acquire) == ANSWERED;
    if !wait(ONE_WAIT.min(left), PAUSE, answered) {
        let withdrawn =
            place.state.compare_exchange(ASKED, FREE, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if withdrawn || !wait(ONE_WAIT, PAUSE, answered) {
            *slot += usize::from(!withdrawn);
            out.text(b"context: no answer\n");
            return;
        }
    }
    let len = place.len.load(Ordering::Relaxed);
    // SAFETY: the thread has written it, and is done.
    out.context(unsafe { core::slice::from_raw_parts(place.text.0.get().cast(), len) });
}

/// Lines on their way to the report.
struct Out {
    descriptor: c_int,
    buffer: [u8; 256],
    len: usize,
}

impl Out {
    fn open() -> Self {
        let mut descriptor = DESCRIPTOR.load(Ordering::Relaxed);
        if descriptor < 0 {
            descriptor = FILE.open(How::AppendAtOnce, 0).unwrap_or(libc::STDERR_FILENO);
        }
        Self { descriptor, buffer: [0; 256], len: 0 }
    }

    fn text(&mut self, text: &[u8]) {
        for &byte in text {
            if self.len == self.buffer.len() {
                self.flush();
            }
            self.buffer[self.len] = byte;
            self.len += 1;
        }
    }

    fn flush(&mut self) {
        let len = core::mem::take(&mut self.len);
        write(self.descriptor, &self.buffer[..len]);
    }

    fn line(&mut self) {
        self.text(b"\n");
    }

    /// A text that somebody else has made.
    fn name(&mut self, name: &[u8]) {
        for &byte in name {
            self.text(&[if byte < b' ' || byte == 0x7f { b'?' } else { byte }]);
        }
    }

    fn decimal(&mut self, number: i64) {
        if number < 0 {
            self.text(b"-");
        }
        self.text(Decimal::of(number.unsigned_abs()).text());
    }

    fn hexadecimal(&mut self, number: u64, width: u32) {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(width);
        for digit in (0..digits).rev() {
            self.text(&[b"0123456789abcdef"[(number >> (digit * 4) & 15) as usize]]);
        }
    }

    fn signal(&mut self, signal: c_int, code: c_int) {
        let name: &[u8] = match signal {
            libc::SIGSEGV => b"SIGSEGV",
            libc::SIGABRT => b"SIGABRT",
            libc::SIGBUS => b"SIGBUS",
            libc::SIGFPE => b"SIGFPE",
            _ => b"SIGILL",
        };
        self.text(name);
        self.text(b" (");
        self.decimal(signal.into());
        self.text(b"), code ");
        self.decimal(code.into());
        let meaning: &[u8] = match (signal, code) {
            (_, libc::SI_USER) => b"SI_USER",
            (_, libc::SI_QUEUE) => b"SI_QUEUE",
            (_, libc::SI_TKILL) => b"SI_TKILL",
            (_, SI_KERNEL) => b"SI_KERNEL",
            (libc::SIGSEGV, 1) => b"SEGV_MAPERR",
            (libc::SIGSEGV, 2) => b"SEGV_ACCERR",
            (libc::SIGBUS, 1) => b"BUS_ADRALN",
            (libc::SIGBUS, 2) => b"BUS_ADRERR",
            (libc::SIGFPE, 1) => b"FPE_INTDIV",
            (libc::SIGILL, 2) => b"ILL_ILLOPN",
            _ => return,
        };
        self.text(b" (");
        self.text(meaning);
        self.text(b")");
    }

    /// `thread: NUMBER NAME`.
    fn thread(&mut self, thread: c_int) {
        self.text(b"thread: ");
        self.decimal(thread.into());
        let mut name = [0_u8; 16];
        let len = thread_name(thread, &mut name);
        if len > 0 {
            self.text(b" ");
            self.name(&name[..len]);
        }
        self.line();
    }

    fn context(&mut self, word: &[u8]) {
        self.text(b"context: ");
        if word.is_empty() {
            self.text(b"none");
        } else {
            self.flush();
            write(self.descriptor, word);
        }
        self.line();
    }
}

fn write(descriptor: c_int, mut bytes: &[u8]) {
    let mut tries = 0;
    while !bytes.is_empty() && tries < 1000 {
        let written = sys::write(descriptor, bytes);
        match usize::try_from(written) {
            Ok(written) => bytes = &bytes[written.min(bytes.len())..],
            // Nobody reads the pipe at the moment.
            Err(_) if written == -(libc::EAGAIN as isize) || written == -(libc::EINTR as isize) => {
                tries += 1;
                wait(1_000_000, 1_000_000, || false);
            }
            Err(_) => return,
        }
    }
}

/// Reads the name that the kernel knows a thread by. Returns its length.
fn thread_name(thread: c_int, name: &mut [u8]) -> usize {
    let mut path = Out { descriptor: -1, buffer: [0; 256], len: 0 };
    path.text(b"/proc/self/task/");
    path.decimal(thread.into());
    path.text(b"/comm\0");
    // SAFETY: the path ends with a zero.
    let file = unsafe { sys::open(path.buffer.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
    if file < 0 {
        return 0;
    }
    let len = sys::read(file as c_int, name);
    sys::close(file as c_int);
    let len = usize::try_from(len).unwrap_or(0).min(name.len());
    name[..len].iter().position(|c| *c == b'\n').unwrap_or(len)
}
