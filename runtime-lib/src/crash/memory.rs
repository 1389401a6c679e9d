//! What the handler works with, in pages of its own: a write that runs away through the program's data upwards stops in
//! front of them, at pages that nobody can write to.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use super::others::Others;
use super::{Crash, SIGNALS};
use crate::output::FileName;
use crate::sys::Action;
use pcce_system::settled::Settled;

/// Room for the context of the thread that crashed.
pub(super) const OWN_TEXT: usize = 1 << 16;

/// Memory that whoever the atomics name may use.
pub(super) struct Shared<T>(pub(super) UnsafeCell<T>);

// SAFETY: each use says why nobody else uses it.
unsafe impl<T> Sync for Shared<T> {}

/// What is known from the installation on.
pub(super) struct Settings {
    /// What was installed before, by the index of the signal.
    former: [Action; SIGNALS.len()],
    /// What is installed for `SIGABRT`.
    pub(super) abort: Action,
    /// Where reports go: a file descriptor and 1 more, or 0 for the file.
    descriptor: AtomicI32,
    pub(super) file: FileName,
}

impl Settings {
    /// What was installed before.
    pub(super) fn former(&self, index: usize) -> Action {
        // SAFETY: in the array; written before the handler was installed.
        unsafe { (&raw const self.former[index]).read_volatile() }
    }

    /// Where reports go: a file descriptor. None for the file.
    pub(super) fn descriptor(&self) -> Option<c_int> {
        self.descriptor.load(Ordering::Relaxed).checked_sub(1).filter(|&descriptor| descriptor >= 0)
    }

    /// Reports go to a file descriptor.
    pub(super) fn set_descriptor(&self, descriptor: c_int) {
        self.descriptor.store(descriptor.saturating_add(1), Ordering::Relaxed);
    }

    /// Remembers what was installed before.
    pub(super) fn set_former(&mut self, index: usize, action: Action) {
        self.former[index] = action;
    }
}

/// What changes while a report is written.
#[repr(C, align(4096))]
pub(super) struct State {
    /// The thread that reports; 0 while none does. One report a process.
    pub(super) reporter: AtomicI32,
    /// Its report is written.
    pub(super) done: AtomicBool,
    /// It has crashed itself, and says so.
    pub(super) again: AtomicBool,
    /// Bit `i`: signal `i` has its former action back.
    pub(super) restored: AtomicU32,
    /// For the reporting thread: its signal, in case it crashes again.
    pub(super) first: Shared<MaybeUninit<Crash>>,
    /// For the reporting thread.
    pub(super) text: Shared<[u8; OWN_TEXT]>,
    /// What the other threads say.
    pub(super) others: Others,
}

/// All of it, in this order. All zeros at first, so that it is no part of the file.
#[repr(C)]
struct Kept {
    settings: Settled<Settings>,
    state: State,
    end: Settled<u8>,
}

static KEPT: Kept = Kept {
    settings: Settled::new(Settings {
        former: [Action::DEFAULT; SIGNALS.len()],
        abort: Action::DEFAULT,
        descriptor: AtomicI32::new(0),
        file: FileName::new(),
    }),
    state: State {
        reporter: AtomicI32::new(0),
        done: AtomicBool::new(false),
        again: AtomicBool::new(false),
        restored: AtomicU32::new(0),
        first: Shared(UnsafeCell::new(MaybeUninit::uninit())),
        text: Shared(UnsafeCell::new([0; OWN_TEXT])),
        others: Others::new(),
    },
    end: Settled::new(0),
};

/// What is known from the installation on.
pub(super) fn settings() -> &'static Settings {
    KEPT.settings.get()
}

/// Changes it.
///
/// # Safety
/// Nobody else does at the same time.
pub(super) unsafe fn settle(change: impl FnOnce(&mut Settings)) {
    // SAFETY: by the contract; who reads meanwhile reads atomics, and what was there before.
    unsafe {
        KEPT.settings.settle(|settings| change(&mut *settings));
        KEPT.end.settle(|_| ());
    }
}

/// What changes while a report is written.
pub(super) fn state() -> &'static State {
    &KEPT.state
}
