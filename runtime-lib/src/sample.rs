//! The CPU profile: samples of the running threads, by context.
//!
//! With [`VARIABLE`] in its environment, a program has a timer of that many hertz that counts the CPU time of all its
//! threads; its signal comes to the thread that is running. The handler takes the context of the interrupted
//! instruction (`pcce_token_at`) and counts it. Kernels look at such timers at their ticks, often 250 a second, so a
//! sample also carries the CPU time since the one before it. All is in memory until the program ends.
//!
//! With [`LEARN`] the samples are for `pcce adapt` (dacce.txt §4 takes them for the same purpose). They are few,
//! bounded in what they cost, and appended to one file at the end, after those of other processes.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use crate::image::Image;
use crate::intern::Interner;
use crate::output::{self, Environment, FileName, How, complain};
use crate::profile::{Arena, Writer};
use crate::signal::set_action;
use crate::sys::{self, Action};
use crate::token::interrupted_token;
use crate::when::{self, Kind};

/// The variable with the number of samples a second of CPU time. Without it there are no samples.
const VARIABLE: &CStr = c"PCCE_SAMPLE";
const FILE_VARIABLE: &CStr = c"PCCE_SAMPLE_PROFILE";
/// The variable with the number of a signal on which a profile is written.
const SIGNAL: &CStr = c"PCCE_SAMPLE_SIGNAL";
const DEFAULT: &CStr = c"pcce-cpu.%p";
/// The variable with the file that what is learnt is appended to, unless [`VARIABLE`] is there.
const LEARN: &CStr = c"PCCE_LEARN";
/// The samples a second for it.
const LEARN_RATE: c_int = 97;
/// So many times as long as a sample took, no other is taken.
const PAUSE: u64 = 128;
/// A process takes no more for it: their memory is never given back.
const MAX_LEARNT: u64 = 1 << 16;
/// The highest rate in hertz: more samples would measure the handler.
const MAX_RATE: c_int = 10_000;
/// The maximum number of activations that are walked, at some 0.5 µs each: otherwise the handler would take all the
/// time. The kernel's ticks bound how often it runs, whatever the rate.
const MAX_ACTIVATIONS: usize = 1 << 10;
/// A longer token is cut: its outermost frames are left out.
const MAX_TOKEN: usize = 4096;

static FILE: FileName = FileName::new();
static TOKENS: Arena = Arena::new();
static STARTED: AtomicBool = AtomicBool::new(false);
/// The samples by the token's text: two hashes, and its length.
static SAMPLES: Interner<Samples> = Interner::new();
/// CPU time of the process at the last sample, in nanoseconds.
static LAST: AtomicU64 = AtomicU64::new(0);

struct Samples {
    token: AtomicPtr<u8>,
    samples: AtomicU64,
    nanoseconds: AtomicU64,
}

/// True if this is for [`LEARN`].
static LEARNS: AtomicBool = AtomicBool::new(false);
/// How many samples were taken for it.
static LEARNT: AtomicU64 = AtomicU64::new(0);
/// The processor time from which on the next sample is taken; the largest number when the last profile is written.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Samples whose context could not be kept, since there was no memory.
static UNKNOWN: Samples = Samples::new();
/// Samples whose time is not known: a sandbox may refuse the clock.
static UNTIMED: AtomicBool = AtomicBool::new(false);

fn cpu_time() -> u64 {
    sys::time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

unsafe extern "C" fn on_timer(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let now = cpu_time();
    if now < NEXT.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: this thread's; what the kernel gave; the buffer has its size.
    unsafe {
        let before = LAST.fetch_max(now, Ordering::Relaxed);
        if now == 0 {
            UNTIMED.store(true, Ordering::Relaxed);
        }
        let mut text = [0; MAX_TOKEN];
        interrupted_token(text.as_mut_ptr().cast(), MAX_TOKEN, context.cast(), false, MAX_ACTIVATIONS);
        count(CStr::from_ptr(text.as_ptr().cast()).to_bytes(), now.saturating_sub(before));
    }
    if LEARNS.load(Ordering::Relaxed) {
        let end = cpu_time();
        let next = match LEARNT.fetch_add(1, Ordering::Relaxed) {
            MAX_LEARNT.. => u64::MAX,
            _ => end + (end - now) * PAUSE,
        };
        NEXT.store(next, Ordering::Relaxed);
    }
}

fn count(text: &[u8], nanoseconds: u64) {
    let hash = |start: u64, factor: u64| {
        text.iter().fold(start, |h, &byte| {
            let h = (h ^ u64::from(byte)).wrapping_mul(factor);
            h ^ h >> 29
        })
    };
    let key = [
        hash(0xcbf2_9ce4_8422_2325, 0x9e37_79b9_7f4a_7c15),
        hash(0x2545_f491_4f6c_dd1d, 0xff51_afd7_ed55_8ccd),
        text.len() as u64,
    ];
    let mut samples = SAMPLES.value(&key, Samples::new).unwrap_or(&UNKNOWN);
    if !core::ptr::eq(samples, &UNKNOWN) && samples.token.load(Ordering::Relaxed).is_null() {
        // One byte more than the text, which stays zero. Two threads may both do this; one copy is lost.
        let copy = TOKENS.take(text.len() + 1);
        if copy.is_null() {
            samples = &UNKNOWN;
        } else {
            // SAFETY: it has room.
            unsafe { copy.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
            let _ = samples.token.compare_exchange(null_mut(), copy, Ordering::Release, Ordering::Relaxed);
        }
    }
    samples.samples.fetch_add(1, Ordering::Relaxed);
    samples.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
}

impl Samples {
    const fn new() -> Self {
        Self { token: AtomicPtr::new(null_mut()), samples: AtomicU64::new(0), nanoseconds: AtomicU64::new(0) }
    }
}

/// Starts or stops the timer. False if the kernel refuses.
#[inline(never)]
fn set_timer(timer: &libc::itimerval) -> bool {
    let arguments = [libc::ITIMER_PROF as usize, &raw const *timer as usize, 0, 0, 0, 0];
    // SAFETY: reads a timer.
    unsafe { sys::call(libc::SYS_setitimer, arguments) == 0 }
}

fn refused() {
    // The timer may be that of a program that this one has replaced.
    set_timer(&STOPPED);
    let message = "pcce: the system refuses the timer of PCCE_SAMPLE or PCCE_LEARN, or the handler of its signal; nothing is \
                   sampled\n";
    complain(message.as_bytes());
}

/// Starts the timer if the environment asks for it.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_sample_start(_: c_int, _: *const *const c_char, environment: Environment) {
    // SAFETY: plain calls at the start of the program, or of a library that brought the runtime.
    unsafe {
        let mut value = output::variable_at_start(VARIABLE, environment);
        let learns = value.is_null() || *value == 0;
        if learns {
            value = output::variable_at_start(LEARN, environment);
        }
        if value.is_null() || *value == 0 || STARTED.swap(true, Ordering::Relaxed) {
            return;
        }
        let hertz = if learns { LEARN_RATE } else { sys::number(CStr::from_ptr(value)) };
        LEARNS.store(learns, Ordering::Relaxed);
        if !(1..=MAX_RATE).contains(&hertz) {
            let message =
                "pcce: PCCE_SAMPLE is no number of samples a second from 1 to 10000; nothing is sampled\n";
            complain(message.as_bytes());
            return;
        }
        // A forked child has no timer, and learns nothing.
        let (variable, default) = if learns { (LEARN, None) } else { (FILE_VARIABLE, Some(DEFAULT)) };
        FILE.set_from(variable, default);
        // The functions of libc that the handler calls are looked up now.
        let _ = Image::program();
        LAST.store(cpu_time(), Ordering::Relaxed);
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_timer as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
        if !set_action(libc::SIGPROF, &action) {
            return refused();
        }
        // ThreadSanitizer has a handler of its own, which calls ours when the interrupted code is over.
        if let Some(installed) = Action::of(libc::SIGPROF)
            && installed.handler != action.sa_sigaction
        {
            let flags = installed.flags | action.sa_flags as u64;
            Action { handler: action.sa_sigaction, flags, ..installed }.set(libc::SIGPROF);
        }
        let time = libc::timeval {
            tv_sec: (1 / hertz).into(),
            tv_usec: if hertz == 1 { 0 } else { (1_000_000 / hertz).into() },
        };
        if !set_timer(&libc::itimerval { it_interval: time, it_value: time }) {
            return refused();
        }
        when::on_signals(Kind::Cpu, write, (!learns).then_some(SIGNAL));
        sys::at_exit(at_exit, null_mut(), null_mut());
    }
}

extern "C" fn at_exit(_: *mut c_void) {
    when::at_end(Kind::Cpu);
}

/// Writes the profile as it is now; `number` is 0 for the last one.
fn write(number: u64) {
    // A forked child has no timer, and its parent's samples.
    if !FILE.is_wanted(false) {
        return;
    }
    if number == 0 {
        NEXT.store(u64::MAX, Ordering::Relaxed);
        set_timer(&STOPPED);
        if UNTIMED.load(Ordering::Relaxed) {
            complain(b"pcce: the system refuses the clock: the CPU time of some samples is not known\n");
        }
    }
    // Another process may have been killed within a line.
    let (how, before): (_, &[u8]) =
        if LEARNS.load(Ordering::Relaxed) { (How::Append, b"\n") } else { (How::New, b"") };
    let mut out = Writer::open(&FILE, number, how);
    out.text(before);
    out.head("cpu");
    out.text(b"}\n");
    let mut contexts = 0;
    for samples in SAMPLES.values().chain([&UNKNOWN]) {
        let token = samples.token.load(Ordering::Acquire);
        let number = samples.samples.load(Ordering::Relaxed);
        if number == 0 {
            continue;
        }
        contexts += 1;
        // SAFETY: it ends with a zero.
        out.context((!token.is_null()).then(|| unsafe { CStr::from_ptr(token.cast()) }.to_bytes()));
        out.member("samples", number);
        out.member("nanoseconds", samples.nanoseconds.load(Ordering::Relaxed));
        out.text(b"}\n");
    }
    out.finish(contexts);
}

const NEVER: libc::timeval = libc::timeval { tv_sec: 0, tv_usec: 0 };
static STOPPED: libc::itimerval = libc::itimerval { it_interval: NEVER, it_value: NEVER };
