//! The contexts of the other threads, which they write themselves.
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::lines::Out;
use super::memory::{Shared, state};
use super::{Crash, SIGNALS, is_ours, now, own_number, stay, wait, word};
use crate::machine::interrupted_pc;
use crate::output::Text;
use crate::sys::{self, Action, getpid};
use crate::tracer;

/// Room for the context of a thread.
const OTHER_TEXT: usize = 1 << 13;

/// The longest wait for one thread, and for all of them, in nanoseconds.
const ONE_WAIT: u64 = 500_000_000;
const ALL_WAIT: u64 = 5_000_000_000;
/// A thread that crashed while another one was reporting.
struct Other {
    thread: AtomicI32,
    signal: AtomicI32,
    code: AtomicI32,
    context: AtomicPtr<libc::ucontext_t>,
}

/// The place where a thread that is asked writes its context.
struct Slot {
    /// [`FREE`], [`ANSWERING`] or [`ANSWERED`], or the note of the question that may be answered here. So a thread that
    /// is late cannot answer in the place of the next one.
    state: AtomicU64,
    len: AtomicUsize,
    text: Shared<[u8; OTHER_TEXT]>,
}

const FREE: u64 = 0;
const ANSWERING: u64 = 1;
const ANSWERED: u64 = 2;

/// The other threads.
pub(super) struct Others {
    crashed: [Other; 16],
    /// A thread that begins to answer and does not finish uses up one slot.
    slots: [Slot; 4],
    /// The last question: its number, and in the lowest byte the slot.
    question: AtomicU64,
}

impl Others {
    pub(super) const fn new() -> Self {
        let crashed = [const {
            Other {
                thread: AtomicI32::new(0),
                signal: AtomicI32::new(0),
                code: AtomicI32::new(0),
                context: AtomicPtr::new(null_mut()),
            }
        }; 16];
        let slots = [const {
            Slot {
                state: AtomicU64::new(FREE),
                len: AtomicUsize::new(0),
                text: Shared(UnsafeCell::new([0; OTHER_TEXT])),
            }
        }; 4];
        Self { crashed, slots, question: AtomicU64::new(0) }
    }

    /// The thread with this number, if it has crashed while another one was reporting.
    fn crashed(&self, thread: c_int) -> Option<&Other> {
        self.crashed.iter().find(|other| other.thread.load(Ordering::Acquire) == thread)
    }
}
/// The upper half of each question's note.
pub(super) const NOTE: u64 = 0x7063_6365_0000_0000;

/// Waits for the report of another thread, which asks this one for its context.
pub(super) fn park(crash: &Crash, own: c_int) {
    let free = |o: &&Other| o.thread.compare_exchange(0, -1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if let Some(place) = state().others.crashed.iter().find(free) {
        place.signal.store(crash.signal, Ordering::Relaxed);
        place.code.store(crash.info.si_code, Ordering::Relaxed);
        place.context.store(crash.context, Ordering::Relaxed);
        place.thread.store(own, Ordering::Release);
    }
    stay();
}

/// Writes the context of this thread for the reporting thread.
///
/// # Safety
/// `context` is what the kernel gave to the handler.
pub(super) unsafe fn answer(question: u64, mut context: *mut libc::ucontext_t) {
    let others = &state().others;
    let Some(slot) = others.slots.get(question as usize & 0xff) else { return };
    let asked = NOTE | question;
    if slot.state.compare_exchange(asked, ANSWERING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    let crashed = others.crashed(own_number(context));
    if let Some(crashed) = crashed {
        context = crashed.context.load(Ordering::Relaxed);
    }
    // SAFETY: the slot is this thread's until it has answered.
    let len = unsafe { word(slot.text.0.get().cast(), OTHER_TEXT, context, false) };
    slot.len.store(len, Ordering::Relaxed);
    // SAFETY: the kernel's.
    tracer::write_last(unsafe { interrupted_pc(context) });
    slot.state.store(ANSWERED, Ordering::Release);
    // The signal may have interrupted a wait. If the thread went on, the program might end before it dies of the crash.
    if crashed.is_none() {
        stay();
    }
}

/// Writes the contexts of all other threads.
pub(super) fn others(out: &mut Out, signal: c_int, own: c_int) {
    // The question is sent as any of the reported signals. The one whose former action is about to be restored is the
    // last choice.
    let ours = |s: &c_int| Action::of(*s).is_some_and(|action| is_ours(&action));
    let mut candidates = SIGNALS.into_iter().rev();
    let question_signal = candidates.find(|s| *s != signal && ours(s)).or(Some(signal).filter(ours));
    if own < 0 {
        return not_listed(out, own as isize);
    }
    let end = now().saturating_add(ALL_WAIT);
    let mut slot = 0;
    let listed = sys::each_thread(|thread| {
        if thread != own {
            other(out, thread, question_signal, end, &mut slot);
        }
    });
    if let Err(error) = listed {
        not_listed(out, error);
    }
}

/// Writes that the threads cannot be listed.
fn not_listed(out: &mut Out, error: isize) {
    out.text(b"incomplete: the other threads cannot be listed: ");
    match error.unsigned_abs() as c_int {
        libc::ENOENT => out.text(b"/proc is not there"),
        error @ ..4096 => {
            let mut text = Text::<64>::new();
            text.error(error);
            out.text(text.bytes());
        }
        _ => out.text(b"the number of this one is not known"),
    }
    out.line();
}

/// Writes the context of one other thread.
fn other(out: &mut Out, thread: c_int, signal: Option<c_int>, end: u64, slot: &mut usize) {
    out.thread(thread);
    let others = &state().others;
    if let Some(other) = others.crashed(thread) {
        out.text(b"also-crashed: ");
        out.signal(other.signal.load(Ordering::Relaxed), other.code.load(Ordering::Relaxed));
        out.line();
    }
    // The report may end with this line.
    out.flush();
    let left = end.saturating_sub(now());
    let (Some(signal), true, Some(place)) = (signal, left > 0, others.slots.get(*slot)) else {
        out.text(b"context: not asked\n");
        return;
    };
    let question =
        (others.question.load(Ordering::Relaxed) >> 8).wrapping_add(1) << 8 & 0xffff_ff00 | *slot as u64;
    others.question.store(question, Ordering::Relaxed);
    let asked = NOTE | question;
    place.state.store(asked, Ordering::Release);
    // The beginning of `siginfo_t`: signal, error, code; sender and value from byte 16 on.
    let mut info = [0_u64; 16];
    info[0] = signal as u64;
    info[1] = libc::SI_QUEUE as u32 as u64;
    info[2] = getpid() as u64;
    info[3] = asked;
    let arguments = [getpid() as usize, thread as usize, signal as usize, info.as_ptr() as usize, 0, 0];
    // SAFETY: a whole `siginfo_t`.
    let sent = unsafe { sys::call(libc::SYS_rt_tgsigqueueinfo, arguments) };
    if sent != 0 {
        place.state.store(FREE, Ordering::Relaxed);
        out.text(match -sent as c_int {
            libc::ESRCH => b"context: none, the thread has ended\n",
            _ => b"context: not asked, the system refuses\n",
        });
        return;
    }
    const PAUSE: i64 = 50_000;
    let answered = || place.state.load(Ordering::Acquire) == ANSWERED;
    if !wait(ONE_WAIT.min(left), PAUSE, answered) {
        let withdrawn =
            place.state.compare_exchange(asked, FREE, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if withdrawn || !wait(ONE_WAIT, PAUSE, answered) {
            *slot += usize::from(!withdrawn);
            out.text(b"context: no answer\n");
            return;
        }
    }
    let len = place.len.load(Ordering::Relaxed);
    // SAFETY: the thread has finished writing it.
    out.context(unsafe { core::slice::from_raw_parts(place.text.0.get().cast(), len) });
}
