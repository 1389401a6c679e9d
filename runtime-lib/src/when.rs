//! The times at which profiles are written: when the program ends by itself, when a signal ends it in the ordinary way,
//! and on signals that the environment names.
//!
//! A signal whose default action ends the process gets a handler here, unless the program ignores it or has a handler
//! of its own. The handler writes the profiles, and the process dies of the signal. The program sees the default action
//! ([`seen`]), and where it asks for that action it gets the handler again ([`instead`]). Faults are not among these
//! signals.
//!
//! One thread writes at a time. It handles a signal that comes to it meanwhile after it has finished; other threads
//! wait.

use core::ffi::{CStr, c_int};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::output::{self, Text, complain};
use crate::signal::set_action;
use crate::sys::{self, Action};
use pcce_system::machine::thread_pointer;

/// Signals that end a process, other than for a fault of its own; without `SIGPROF`, which the samples use.
const ENDS: [c_int; 11] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
];
/// Signals are numbered from 1 to 64.
const SIGNALS: c_int = 64;

#[derive(Clone, Copy)]
pub enum Kind {
    Heap,
    Cpu,
    Calls,
}

struct Profile {
    /// The function that writes the profile: number 0 for the last one, or the number of one on a signal. Null without
    /// a profile.
    write: AtomicPtr<()>,
    /// The signal that the environment names; 0 if it names none.
    signal: AtomicI32,
    written: AtomicU64,
    /// The process that has written the last profile.
    ended: AtomicI32,
}

static PROFILES: [Profile; 3] = [const {
    Profile {
        write: AtomicPtr::new(null_mut()),
        signal: AtomicI32::new(0),
        written: AtomicU64::new(0),
        ended: AtomicI32::new(0),
    }
}; 3];
/// True if [`ENDS`] have a handler.
static HANDLED: AtomicBool = AtomicBool::new(false);
/// The thread that writes, by its thread pointer; 0 if none does.
static WRITER: AtomicUsize = AtomicUsize::new(0);
/// Bit `i`: signal `i + 1` came to that thread meanwhile.
static CAME: AtomicU64 = AtomicU64::new(0);

/// Has the profile written when a signal ends the process, and on the signal whose number `variable` has.
pub fn on_signals(kind: Kind, write: fn(u64), variable: Option<&CStr>) {
    let profile = &PROFILES[kind as usize];
    profile.write.store(write as *mut (), Ordering::Release);
    let mut refused = false;
    // Signals without a handler do nothing to the first process of a container.
    let first = sys::getpid() == 1;
    if !first && !HANDLED.swap(true, Ordering::Relaxed) {
        for signal in ENDS {
            let default = Action::of(signal).is_some_and(|action| action.handler == libc::SIG_DFL);
            refused |= default && !install(signal, on_end, libc::SA_RESETHAND);
        }
        refused |= Action::of(libc::SIGTERM).is_none();
    }
    if refused {
        let message = "pcce: the system refuses handlers of signals: where one ends the program, no profile is written\n";
        complain(message.as_bytes());
    }
    let Some(variable) = variable else { return };
    let value = output::variable(variable);
    // SAFETY: a text of the environment.
    let signal = if value.is_null() { 0 } else { sys::number(unsafe { CStr::from_ptr(value) }) };
    if signal <= 0 {
        return;
    }
    profile.signal.store(signal, Ordering::Relaxed);
    if signal > SIGNALS || !install(signal, on_signal, libc::SA_RESTART) {
        let mut message = Text::<128>::new();
        message.put(b"pcce: ");
        message.put(variable.to_bytes());
        message.put(b" is not the number of a signal that can be caught\n");
        complain(message.bytes());
    }
}

type Handler = unsafe extern "C" fn(c_int);

/// Installs a handler for a signal. False if the kernel refuses.
fn install(signal: c_int, handler: Handler, flags: c_int) -> bool {
    // SAFETY: a handler of ours. It does not block faults, or signals that glibc needs.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = flags | libc::SA_ONSTACK;
        let mask = ENDS.into_iter().fold(0_u64, |set, signal| set | 1 << (signal - 1));
        (&raw mut action.sa_mask).cast::<u64>().write(mask);
        set_action(signal, &action)
    }
}

/// The handler as the program sees it.
pub fn seen(handler: usize) -> usize {
    if handler == on_end as *const () as usize { libc::SIG_DFL } else { handler }
}

/// The flags and the handler that are installed instead of the action that the program wants for a signal. None if the
/// program gets the action that it wants.
pub fn instead(signal: c_int, handler: usize) -> Option<(c_int, usize)> {
    let wanted = handler == libc::SIG_DFL && HANDLED.load(Ordering::Relaxed) && ENDS.contains(&signal);
    wanted.then_some((libc::SA_RESETHAND | libc::SA_ONSTACK, on_end as *const () as usize))
}

/// Writes the last profile of a kind, once: the program ends.
pub fn at_end(kind: Kind) {
    // If a handler of the program's has interrupted the writing and ends the program, the writing does not go on. The
    // profile of calls is locked.
    if !alone(|| last(kind)) && !matches!(kind, Kind::Calls) {
        last(kind);
    }
}

fn last(kind: Kind) {
    let profile = &PROFILES[kind as usize];
    let own = sys::getpid();
    if profile.ended.swap(own, Ordering::AcqRel) != own {
        profile.write(0);
    }
}

impl Profile {
    fn write(&self, number: u64) {
        let write = self.write.load(Ordering::Acquire);
        if !write.is_null() {
            // SAFETY: what on_signals() got.
            unsafe { transmute::<*mut (), fn(u64)>(write)(number) };
        }
    }
}

/// Does work while no other thread writes. False if this thread does.
pub fn alone(work: impl FnOnce()) -> bool {
    /// The longest wait in milliseconds.
    const MAX_WAIT: u32 = 10_000;
    let own = thread_pointer();
    for _ in 0..MAX_WAIT {
        match WRITER.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
            Err(writer) if writer == own => return false,
            Err(_) => {
                let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                // SAFETY: reads a time.
                unsafe { sys::call(libc::SYS_nanosleep, [&raw const pause as usize, 0, 0, 0, 0, 0]) };
            }
            Ok(_) => break,
        }
    }
    work();
    loop {
        WRITER.store(0, Ordering::Release);
        let came = CAME.swap(0, Ordering::AcqRel);
        if came == 0 {
            return true;
        }
        for signal in (1..=SIGNALS).filter(|signal| came >> (signal - 1) & 1 == 1) {
            handle(signal);
        }
    }
}

/// Handles a signal, or has the thread that writes do it.
fn handle(signal: c_int) {
    let asked = |profile: &&Profile| profile.signal.load(Ordering::Relaxed) == signal;
    let work = || match PROFILES.iter().any(|profile| asked(&profile)) {
        true => {
            for profile in PROFILES.iter().filter(asked) {
                profile.write(profile.written.fetch_add(1, Ordering::Relaxed) + 1);
            }
        }
        false => {
            for kind in [Kind::Cpu, Kind::Calls, Kind::Heap] {
                last(kind);
            }
            die(signal);
        }
    };
    if !alone(work) {
        CAME.fetch_or(1 << (signal - 1), Ordering::AcqRel);
    }
}

unsafe extern "C" fn on_signal(signal: c_int) {
    // SAFETY: this thread's.
    let errno = unsafe { *libc::__errno_location() };
    handle(signal);
    // SAFETY: this thread's.
    unsafe { *libc::__errno_location() = errno };
}

unsafe extern "C" fn on_end(signal: c_int) {
    // The kernel has taken the handler off, so that the process dies of the signal even if a sandbox refuses that now.
    // The signal must not end the process while the profiles are written.
    install(signal, on_end, libc::SA_RESETHAND);
    // SAFETY: passed on.
    unsafe { on_signal(signal) };
}

/// Has the signal end the process.
fn die(signal: c_int) {
    Action::DEFAULT.set(signal);
    let (process, thread) = (sys::getpid() as usize, sys::gettid() as usize);
    let number = signal as usize;
    // SAFETY: sends a signal to this thread, or else to this process; or else ends it.
    unsafe {
        let sent = sys::call(libc::SYS_tgkill, [process, thread, number, 0, 0, 0]) == 0
            || sys::call(libc::SYS_tkill, [thread, number, 0, 0, 0, 0]) == 0
            || sys::call(libc::SYS_kill, [process, number, 0, 0, 0, 0]) == 0;
        if !sent {
            sys::call(libc::SYS_exit_group, [128 + number, 0, 0, 0, 0, 0]);
        }
        // The signal comes now, if this is in its handler.
        let set = 1_u64 << (signal - 1);
        let arguments = [libc::SIG_UNBLOCK as usize, &raw const set as usize, 0, 8, 0, 0];
        sys::call(libc::SYS_rt_sigprocmask, arguments);
    }
}
