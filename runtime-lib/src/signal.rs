//! Signal handlers. A handler may interrupt any instruction, so the id that it finds need not be that of a call site.
//!
//! In instrumented code, the pass replaces `signal` and `sigaction` by the functions here. For other code, executables
//! have them instead of libc's (`libpcce_libc.a`). They install [`__pcce_signal_trampoline`], which pushes a
//! [`SignalFrame`], lets the handler start a sub-path, and puts the state back. The program sees its own handlers
//! wherever it asks for them.
use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use crate::abi::{Frame, Link, Shadow};
use crate::fiber::followed_from;
use crate::machine::{called_by_kernel, interrupted_sp};
use crate::shadow::{copy, written};
use crate::state::tls;
use crate::tracer;
use crate::when;
use pcce_system::machine::stack_pointer;

/// Signals are numbered from 1 to 64.
const SIGNALS: usize = 65;

/// The program's handler of a signal.
struct Handler {
    function: AtomicUsize,
    /// True if it was installed with `SA_SIGINFO`: what the program sees of its action.
    takes_info: AtomicBool,
}

static HANDLERS: [Handler; SIGNALS] =
    [const { Handler { function: AtomicUsize::new(0), takes_info: AtomicBool::new(false) } }; SIGNALS];

type Installer = unsafe extern "C" fn(c_int, usize) -> usize;

type Action = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

unsafe extern "C" {
    fn signal(signal: c_int, handler: usize) -> usize;
    fn __sysv_signal(signal: c_int, handler: usize) -> usize;
}

/// Libc's function of a name, or the function by which another library replaces it. If the name is the runtime's own,
/// the next function of that name.
macro_rules! libcs {
    ($type:ty, $function:path, $other:literal) => {{
        let other = pcce_system::weak_address!($other);
        // SAFETY: a function of this type, if it is there.
        unsafe {
            if other.is_null() { $function as $type } else { core::mem::transmute::<*const u8, $type>(other) }
        }
    }};
}
pub(crate) use libcs;

fn libc_signal() -> Installer {
    libcs!(Installer, signal, "__pcce_libc_signal")
}

fn libc_sysv_signal() -> Installer {
    libcs!(Installer, __sysv_signal, "__pcce_libc___sysv_signal")
}

/// `sigaction` of libc.
#[inline(never)]
fn libc_sigaction() -> Action {
    libcs!(Action, libc::sigaction, "__pcce_libc_sigaction")
}

/// Has an action of the runtime's installed by libc's `sigaction`. False if it refuses.
///
/// # Safety
/// The action's function can be called for the signal.
#[inline(never)]
pub unsafe fn set_action(signal: c_int, action: &libc::sigaction) -> bool {
    written((&raw const *action).cast(), size_of::<libc::sigaction>());
    // SAFETY: by the contract.
    unsafe { libc_sigaction()(signal, action, null_mut()) == 0 }
}

/// The frame that is pushed when a handler is called.
#[repr(C)]
pub struct SignalFrame {
    /// The state of the interrupted code. The site is [`__pcce_signal_site`].
    pub frame: Frame,
    /// The registers of the interrupted code; null if they are not known.
    pub context: *const libc::ucontext_t,
    /// Verify mode: the interrupted code's innermost record.
    pub shadow: *mut Shadow,
}

/// Exported for readers of core files.
#[unsafe(no_mangle)]
static __pcce_signal_site: u8 = 0;

pub fn site() -> *const u8 {
    &raw const __pcce_signal_site
}

/// Returns whether a frame with this site is a [`SignalFrame`].
pub fn is_site(site: *const u8) -> bool {
    core::ptr::eq(site, self::site())
}

/// The kernel's frame of a signal, with the frames of a sanitizer's handler, is not larger than this.
const NEAR: usize = 1 << 16;

fn address() -> usize {
    called_by_kernel(__pcce_signal_trampoline as *const () as usize)
}

/// The kernel calls this function instead of the program's handler. Readers know it by its name.
#[unsafe(no_mangle)]
unsafe extern "C" fn __pcce_signal_trampoline(signal: c_int, info: *mut c_void, context: *mut c_void) {
    let function = HANDLERS[signal as usize % SIGNALS].function.load(Ordering::Acquire);
    // SAFETY: this thread's block; the frame is taken off before it ends, and a handler that leaves by
    // siglongjmp goes to a function that restores its own state. Volatile, since the interrupted code and the handler
    // use the same block.
    unsafe {
        let block = tls();
        let (id, top) = (&raw mut (*block).id, &raw mut (*block).top);
        let shadow = &raw mut (*block).shadow;
        let call = &raw mut (*block).call;
        let (interrupted, interrupted_call) = (shadow.read_volatile(), call.read_volatile());
        let (interrupted_top, interrupted_id) = (top.read_volatile(), id.read_volatile());
        // ThreadSanitizer delays signals, and calls handlers later, with a copy of the context: this is not the context
        // of the code that is interrupted now.
        let own = stack_pointer();
        let now = (own..own + NEAR).contains(&context.addr());
        let sp = match now {
            true => interrupted_sp(context.cast()),
            false => own,
        };
        let prev = followed_from(sp, interrupted_top);
        let frame = Frame::new(prev, interrupted_id, &raw const __pcce_signal_site);
        let interrupted_at = if now { context.cast::<libc::ucontext_t>() } else { null() };
        let mut frame = SignalFrame { frame, context: interrupted_at, shadow: interrupted };
        compiler_fence(Ordering::Release);
        // The interrupted function is not at a call: the handler's chain is not a continuation of its own.
        shadow.write_volatile(null_mut());
        call.write_volatile(null());
        top.write_volatile(Link::new((&raw mut frame).cast()));
        id.write_volatile(0);
        let traced = tracer::enter_handler(signal, interrupted_at, (&raw const frame).addr());
        // Handlers that were installed without `SA_SIGINFO` get two more arguments, which do no harm. The flag is
        // another word, and another thread may be replacing both.
        let function: unsafe extern "C" fn(c_int, *mut c_void, *mut c_void) = transmute(function);
        function(signal, info, context);
        if traced {
            tracer::leave_handler((&raw const frame).addr());
        }
        // In this order: a handler that interrupts here finds either the frame, or the state that it holds.
        id.write_volatile(interrupted_id);
        top.write_volatile(interrupted_top);
        shadow.write_volatile(interrupted);
        call.write_volatile(interrupted_call);
    }
}

/// Returns whether the program means a function of its own by this value.
fn is_function(handler: usize) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN && handler != libc::SIG_ERR && handler != address()
}

/// Returns whether an action is the trampoline's, even if its signal has reset it since.
fn is_trampolines(action: &libc::sigaction) -> bool {
    const RESET: c_int = libc::SA_RESETHAND | libc::SA_SIGINFO;
    let was_reset = action.sa_sigaction == libc::SIG_DFL && action.sa_flags & RESET == RESET;
    action.sa_sigaction == address() || was_reset
}

struct Entry {
    function: usize,
    takes_info: bool,
}

fn replace(signal: usize, new: &Entry) -> Entry {
    let handler = &HANDLERS[signal];
    Entry {
        takes_info: handler.takes_info.swap(new.takes_info, Ordering::AcqRel),
        function: handler.function.swap(new.function, Ordering::AcqRel),
    }
}

fn current(signal: usize) -> Entry {
    let handler = &HANDLERS[signal];
    Entry {
        takes_info: handler.takes_info.load(Ordering::Acquire),
        function: handler.function.load(Ordering::Acquire),
    }
}

unsafe fn install(by: Installer, signal: c_int, handler: usize) -> usize {
    let number = signal as usize;
    if signal <= 0 || number >= SIGNALS {
        // SAFETY: the caller's own arguments; libc refuses them.
        return unsafe { by(signal, handler) };
    }
    let ours = is_function(handler);
    let old =
        if ours { replace(number, &Entry { function: handler, takes_info: false }) } else { current(number) };
    let instead = when::instead(signal, handler);
    let new = instead.map_or(handler, |(_, instead)| instead);
    // SAFETY: as the caller asked, with the trampoline for a function of its own.
    let result = unsafe { by(signal, if ours { address() } else { new }) };
    if result == libc::SIG_ERR && ours {
        replace(number, &old);
    }
    if result == address() { old.function } else { when::seen(result) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_signal(signal: c_int, handler: usize) -> usize {
    // SAFETY: passed on; an action is written and read.
    unsafe {
        let old = install(libc_signal(), signal, handler);
        // MemorySanitizer calls handlers itself, those of `signal` with the number alone. Installed by `sigaction`,
        // they get the context, too.
        let mut action: libc::sigaction = core::mem::zeroed();
        if is_function(handler)
            && old != libc::SIG_ERR
            && libc_sigaction()(signal, null(), &raw mut action) == 0
            && action.sa_sigaction == address()
        {
            action.sa_flags |= libc::SA_SIGINFO;
            set_action(signal, &action);
        }
        old
    }
}

/// `__sysv_signal`, which is `signal` for strictly conforming programs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_sysv_signal(signal: c_int, handler: usize) -> usize {
    // SAFETY: passed on.
    unsafe { install(libc_sysv_signal(), signal, handler) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    old_action: *mut libc::sigaction,
) -> c_int {
    let number = signal as usize;
    if signal <= 0 || number >= SIGNALS {
        // SAFETY: the caller's own arguments; libc refuses them.
        return unsafe { libc_sigaction()(signal, action, old_action) };
    }
    // SAFETY: by the caller: null or pointers to actions; they may be the same.
    unsafe {
        let mut changed = MaybeUninit::uninit();
        let mut new = match action.is_null() {
            true => None,
            false => {
                copy(action, changed.as_mut_ptr());
                Some(changed.assume_init_mut())
            }
        };
        // If an action calls no function, its flag is the program's: `is_trampolines` must not take the action for one
        // that was reset.
        let wants_info = new
            .as_ref()
            .is_some_and(|new| !is_function(new.sa_sigaction) && new.sa_flags & libc::SA_SIGINFO != 0);
        let old = match &mut new {
            Some(new) if is_function(new.sa_sigaction) => {
                let entry =
                    Entry { function: new.sa_sigaction, takes_info: new.sa_flags & libc::SA_SIGINFO != 0 };
                new.sa_sigaction = address();
                new.sa_flags |= libc::SA_SIGINFO;
                replace(number, &entry)
            }
            Some(new) => {
                if let Some((flags, handler)) = when::instead(signal, new.sa_sigaction) {
                    (new.sa_flags, new.sa_sigaction) = (flags, handler);
                }
                current(number)
            }
            None => current(number),
        };
        let result = libc_sigaction()(signal, new.as_deref().map_or(null(), |n| n), old_action);
        if result != 0 {
            if new.is_some_and(|n| n.sa_sigaction == address()) {
                replace(number, &old);
            }
        } else if !old_action.is_null() && is_trampolines(&*old_action) {
            if (*old_action).sa_sigaction == address() {
                (*old_action).sa_sigaction = old.function;
            }
            if !old.takes_info {
                (*old_action).sa_flags &= !libc::SA_SIGINFO;
            }
        } else if !old_action.is_null()
            && when::seen((*old_action).sa_sigaction) != (*old_action).sa_sigaction
        {
            *old_action = core::mem::zeroed();
        }
        if result == 0 && wants_info {
            HANDLERS[number].takes_info.store(true, Ordering::Release);
        }
        result
    }
}
