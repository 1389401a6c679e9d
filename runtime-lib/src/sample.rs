//! The CPU profile: samples of the running threads, by context.
//!
//! With [`VARIABLE`] in its environment, a program has a timer of that many hertz that counts the CPU time of all its
//! threads; its signal comes to the thread that is running. The handler takes the context of the interrupted
//! instruction (`pcce_token_at`) and counts it. Kernels look at such timers at their ticks, often 250 a second, so a
//! sample also carries the CPU time since the one before it. All is in memory until the program ends.
//!
//! With [`LEARN`] the samples are for `pcce adapt` (dacce.txt §4 takes them for the same purpose): few, bounded in what
//! they cost, of forked children, too, and appended to one file, now and then and at the end, behind those of other
//! processes.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use crate::image::Image;
use crate::intern::Interner;
use crate::output::{self, Environment, FileName, Text, complain};
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
const PAUSE: u64 = 150;
/// After so many samples what is learnt is appended.
const PERIOD: u64 = 1 << 12;
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
/// True from when the last profile is written.
static ENDED: AtomicBool = AtomicBool::new(false);
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
/// The time up to which none is taken.
static PAUSED: AtomicU64 = AtomicU64::new(0);

/// Samples whose context could not be kept, since there was no memory.
static UNKNOWN: Samples = Samples::new();
/// Samples whose time is not known: a sandbox may refuse the clock.
static UNTIMED: AtomicU64 = AtomicU64::new(0);

fn cpu_time() -> u64 {
    sys::time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

unsafe extern "C" fn on_timer(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let learns = LEARNS.load(Ordering::Relaxed);
    let begin = if learns { sys::time(libc::CLOCK_MONOTONIC) } else { 0 };
    if ENDED.load(Ordering::Relaxed) || learns && begin < PAUSED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: this thread's; what the kernel gave; the buffer has its size.
    unsafe {
        let now = cpu_time();
        let before = LAST.fetch_max(now, Ordering::Relaxed);
        UNTIMED.fetch_add(u64::from(now == 0), Ordering::Relaxed);
        let mut text = [0; MAX_TOKEN];
        interrupted_token(text.as_mut_ptr().cast(), MAX_TOKEN, context.cast(), false, MAX_ACTIVATIONS);
        count(CStr::from_ptr(text.as_ptr().cast()).to_bytes(), now.saturating_sub(before));
    }
    if learns {
        let taken = LEARNT.fetch_add(1, Ordering::Relaxed) + 1;
        if taken.is_multiple_of(PERIOD) {
            when::alone(|| write(1));
        }
        if taken == MAX_LEARNT {
            ENDED.store(true, Ordering::Relaxed);
            set_timer(&libc::itimerval { it_interval: STOPPED, it_value: STOPPED });
        }
        let end = sys::time(libc::CLOCK_MONOTONIC);
        PAUSED.store(end + end.saturating_sub(begin) * PAUSE, Ordering::Relaxed);
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

    fn get(&self) -> (u64, u64) {
        (self.samples.load(Ordering::Relaxed), self.nanoseconds.load(Ordering::Relaxed))
    }

    /// The numbers, which begin with 0 again.
    fn take(&self) -> (u64, u64) {
        (self.samples.swap(0, Ordering::Relaxed), self.nanoseconds.swap(0, Ordering::Relaxed))
    }
}

/// Starts or stops the timer. False if the kernel refuses.
fn set_timer(timer: &libc::itimerval) -> bool {
    let arguments = [libc::ITIMER_PROF as usize, &raw const *timer as usize, 0, 0, 0, 0];
    // SAFETY: reads a timer.
    unsafe { sys::call(libc::SYS_setitimer, arguments) == 0 }
}

fn start_timer(hertz: c_int) -> bool {
    let time = libc::timeval {
        tv_sec: (1 / hertz).into(),
        tv_usec: if hertz == 1 { 0 } else { (1_000_000 / hertz).into() },
    };
    set_timer(&libc::itimerval { it_interval: time, it_value: time })
}

/// A forked child learns for itself. What it has of its parent's samples is the parent's.
extern "C" fn forked() {
    FILE.inherit();
    for samples in SAMPLES.values().chain([&UNKNOWN]) {
        samples.take();
    }
    LAST.store(cpu_time(), Ordering::Relaxed);
    LEARNT.store(0, Ordering::Relaxed);
    ENDED.store(false, Ordering::Relaxed);
    start_timer(LEARN_RATE);
}

fn refused() {
    // The timer may be that of a program that this one has replaced.
    set_timer(&libc::itimerval { it_interval: STOPPED, it_value: STOPPED });
    let message = "pcce: the system refuses the timer of PCCE_SAMPLE or PCCE_LEARN, or the handler of its signal; nothing is \
                   sampled\n";
    complain(message.as_bytes());
}

/// Starts the timer if the environment asks for it.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_sample_start(_: c_int, _: *const *const c_char, environment: Environment) {
    // SAFETY: plain calls at the start of the program, or of a library that brought the runtime.
    unsafe {
        let variable = |name: &CStr| {
            let value = output::variable_at_start(name, environment);
            (!value.is_null() && *value != 0).then(|| CStr::from_ptr(value))
        };
        let asked = variable(VARIABLE);
        if asked.is_none() && variable(LEARN).is_none() || STARTED.swap(true, Ordering::Relaxed) {
            return;
        }
        let hertz = asked.map_or(LEARN_RATE, sys::number);
        LEARNS.store(asked.is_none(), Ordering::Relaxed);
        if !(1..=MAX_RATE).contains(&hertz) {
            let message =
                "pcce: PCCE_SAMPLE is no number of samples a second from 1 to 10000; nothing is sampled\n";
            complain(message.as_bytes());
            return;
        }
        match asked {
            Some(_) => FILE.set_from(FILE_VARIABLE, Some(DEFAULT)),
            None => {
                FILE.set_from(LEARN, None);
                sys::around_fork(None, forked);
            }
        }
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
        if !start_timer(hertz) {
            return refused();
        }
        when::on_signals(Kind::Cpu, write, asked.map(|_| SIGNAL));
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
        ENDED.store(true, Ordering::Relaxed);
        set_timer(&libc::itimerval { it_interval: STOPPED, it_value: STOPPED });
        let untimed = UNTIMED.load(Ordering::Relaxed);
        if untimed > 0 {
            let mut message = Text::<128>::new();
            message.put(b"pcce: the system refuses the clock: the CPU time of ");
            message.number(untimed);
            message.put(b" samples is not known\n");
            complain(message.bytes());
        }
    }
    let learns = LEARNS.load(Ordering::Relaxed);
    let mut out = if learns { Writer::append(&FILE) } else { Writer::create(&FILE, number) };
    if learns {
        // Another process may have been killed within a line.
        out.text(b"\n");
    }
    out.head("cpu");
    out.text(b"}\n");
    let mut contexts = 0;
    for samples in SAMPLES.values().chain([&UNKNOWN]) {
        let token = samples.token.load(Ordering::Acquire);
        let (number, nanoseconds) = if learns { samples.take() } else { samples.get() };
        if number == 0 {
            continue;
        }
        contexts += 1;
        // SAFETY: it ends with a zero.
        out.context((!token.is_null()).then(|| unsafe { CStr::from_ptr(token.cast()) }.to_bytes()));
        out.member("samples", number);
        out.member("nanoseconds", nanoseconds);
        out.text(b"}\n");
    }
    out.finish(contexts);
}

const STOPPED: libc::timeval = libc::timeval { tv_sec: 0, tv_usec: 0 };
