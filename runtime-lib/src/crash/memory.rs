//! The memory of the handler, in pages of its own: a runaway write upwards through the program's data stops before it
//! reaches them, at pages that cannot be written to.

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

/// Memory for the thread that the atomics name.
pub(super) struct Shared<T>(pub(super) UnsafeCell<T>);

// SAFETY: each use says why no other thread uses it.
unsafe impl<T> Sync for Shared<T> {}

/// The settings, which are fixed at the installation.
pub(super) struct Settings {
    /// The actions that were installed before, by the index of the signal.
    former: [Action; SIGNALS.len()],
    /// The action that is installed for `SIGABRT`.
    pub(super) abort: Action,
    /// The destination of reports: 1 more than a file descriptor, or 0 for the file.
    descriptor: AtomicI32,
    pub(super) file: FileName,
}

impl Settings {
    /// The action that was installed before.
    pub(super) fn former(&self, index: usize) -> Action {
        // SAFETY: in the array; written before the handler was installed.
        unsafe { (&raw const self.former[index]).read_volatile() }
    }

    /// The file descriptor to which reports go. None for the file.
    pub(super) fn descriptor(&self) -> Option<c_int> {
        self.descriptor.load(Ordering::Relaxed).checked_sub(1).filter(|&descriptor| descriptor >= 0)
    }

    /// Has reports go to a file descriptor.
    pub(super) fn set_descriptor(&self, descriptor: c_int) {
        self.descriptor.store(descriptor.saturating_add(1), Ordering::Relaxed);
    }

    pub(super) fn set_former(&mut self, index: usize, action: Action) {
        self.former[index] = action;
    }
}

/// The data that change while a report is written.
#[repr(C, align(4096))]
pub(super) struct State {
    /// The thread that reports; 0 while none does. One report a process.
    pub(super) reporter: AtomicI32,
    /// The report is written.
    pub(super) done: AtomicBool,
    /// The reporting thread has crashed itself, and has reported that.
    pub(super) again: AtomicBool,
    /// Bit `i`: signal `i` has its former action back.
    pub(super) restored: AtomicU32,
    /// For the reporting thread: its signal, in case it crashes again.
    pub(super) first: Shared<MaybeUninit<Crash>>,
    /// The text of the reporting thread.
    pub(super) text: Shared<[u8; OWN_TEXT]>,
    /// The answers of the other threads.
    pub(super) others: Others,
}

/// All of the memory, in this order. All zeros at first, so that it takes no space in the program's file.
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

/// The settings, which are fixed at the installation.
pub(super) fn settings() -> &'static Settings {
    KEPT.settings.get()
}

/// Changes the settings.
///
/// # Safety
/// No other thread does so at the same time.
pub(super) unsafe fn settle(change: impl FnOnce(&mut Settings)) {
    // SAFETY: by the contract. Meanwhile only atomics and old values are read.
    unsafe {
        KEPT.settings.settle(|settings| change(&mut *settings));
        KEPT.end.settle(|_| ());
    }
}

/// The data that change while a report is written.
pub(super) fn state() -> &'static State {
    &KEPT.state
}
