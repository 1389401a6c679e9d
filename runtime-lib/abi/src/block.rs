//! The thread's block, and everything else that emitted code relies on, except verify mode: the one description that
//! the pass and the runtime share.
//!
//! The pass emits code that reads and writes these structures at the offsets given here; the runtime accesses them as
//! Rust types. A change of a field, here or in verify mode's records, needs a new [`VERSION`]. It is part of a symbol's
//! name to which every instrumented object refers, so a mixture is a link error.
//!
//! Rule of the calling convention: **a function returns with `id` and `top` as it found them**.

use core::ffi::c_void;
use core::mem::offset_of;
use core::sync::atomic::{Ordering, compiler_fence};

use crate::verify::Shadow;

/// The version of everything in this module. Instrumented objects refer to `__pcce_abi_v<VERSION>`.
pub const VERSION: u32 = 9;

/// Name of the symbol that exists only in a runtime of this version.
pub const VERSION_SYMBOL: &str = "__pcce_abi_v9";

/// Name of the byte whose address is the site of frames that were pushed for a signal's handler. The address of the
/// `ucontext_t` that the kernel gave to the handler follows such a frame.
pub const SIGNAL_SITE_SYMBOL: &str = "__pcce_signal_site";

/// Name of the thread-local block ([`Tls`]), initial-exec, one instance a process.
pub const TLS_SYMBOL: &str = "__pcce_tls";

/// A frame, and how the sub-path that it begins counts its ids: from 0, or from the id in the frame, which the push has
/// left in the thread's block (the lowest bit of the address says so). Null: nothing is pushed, and ids count from 0.
///
/// A push that leaves the id alone is one store, and so is its pop. But functions of other modules, which see from the
/// id whether an open call reached them, must not find such a link. So only calls within an executable that has an open
/// node, and its calls through pointers, push so.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link(*mut Frame);

impl Link {
    pub const NULL: Self = Self(core::ptr::null_mut());

    /// A link to a frame whose sub-path counts its ids from 0.
    pub const fn new(frame: *mut Frame) -> Self {
        Self(frame)
    }

    /// A link to a frame whose sub-path counts its ids from the id in the frame.
    pub fn relative(frame: *mut Frame) -> Self {
        Self(frame.wrapping_byte_add(layout::RELATIVE as usize))
    }

    pub fn frame(self) -> *mut Frame {
        self.0.map_addr(|address| address & !(layout::LINK_BITS as usize))
    }

    /// Returns whether ids count from the id in the frame.
    pub fn is_relative(self) -> bool {
        self.0.addr() & layout::RELATIVE as usize != 0
    }

    /// Returns whether the function that was entered after the push, or with which the thread began if there is no
    /// frame, has left its activation to another one, by a tail call.
    pub fn left(self) -> bool {
        self.0.addr() & layout::LEFT as usize != 0
    }

    /// Returns whether there is no frame.
    pub fn is_null(self) -> bool {
        self.frame().is_null()
    }

    /// The number of the chain from here on, if it is kept in the frame.
    ///
    /// # Safety
    /// The frame can be read.
    #[inline(always)]
    pub unsafe fn number(self) -> Option<u64> {
        let frame = self.frame();
        // SAFETY: by the contract. Volatile, because signal handlers of the same thread write both words.
        unsafe {
            let site = (&raw const (*frame).marked_site).read_volatile();
            let is_kept = (site.addr() ^ self.left_mark()) >> Self::MARKS == layout::NUMBERED >> Self::MARKS;
            is_kept.then(|| (&raw const (*frame).handle).read_volatile())
        }
    }

    /// Keeps the number of the chain from here on in the frame.
    ///
    /// # Safety
    /// The frame is on the calling thread's chain.
    pub unsafe fn keep_number(self, number: u64) {
        let frame = self.frame();
        // SAFETY: by the contract. The marks come last: a signal handler that interrupts finds both or writes the same
        // number, as its chain has the same link. With another link's marks it takes no number from here.
        unsafe {
            (&raw mut (*frame).handle).write_volatile(number);
            compiler_fence(Ordering::Release);
            let site = (*frame).site();
            let marks = layout::NUMBERED | self.left_mark() & layout::NUMBERED_LEFT;
            (&raw mut (*frame).marked_site).write_volatile(site.map_addr(|address| address | marks));
        }
    }

    /// The bit at which the marks of a number begin, in the site of a frame.
    const MARKS: u32 = layout::NUMBERED_LEFT.ilog2();

    /// [`NUMBERED_LEFT`](layout::NUMBERED_LEFT) if the link has the mark of a tail call. Lower bits have no meaning.
    #[inline(always)]
    fn left_mark(self) -> usize {
        self.0.addr() << (Self::MARKS - layout::LEFT.ilog2())
    }

    /// The id from which the ids of the sub-path count.
    ///
    /// # Safety
    /// The frame can be read.
    #[inline(always)]
    pub unsafe fn base(self) -> u64 {
        // SAFETY: by the contract.
        if self.is_relative() { unsafe { (*self.frame()).id } } else { 0 }
    }
}

/// The state of one thread. All zero in a new thread: id 0, nothing pushed.
#[repr(C, align(64))]
pub struct Tls {
    /// The id of the current sub-path (pcce.txt §4), plus [`base`](Link::base) of `top`. Emitted code adds to it at
    /// call sites.
    pub id: u64,
    pub top: Link,
    /// Verify mode: the innermost record of the shadow stack.
    pub shadow: *mut Shadow,
    /// Verify mode: not 0 while the runtime compares.
    pub busy: u32,
    /// Verify mode: as [`Shadow::left`], for the outermost function on the shadow stack.
    pub shadow_left: u8,
    /// How this thread was created; null if instrumented code did not create it.
    pub creation: *mut c_void,
    /// The bounds of the stack on which the thread runs. `stack_high` is 0 before they are looked for, and the largest
    /// number where they cannot be found: then frames are followed wherever they are.
    pub stack_low: usize,
    pub stack_high: usize,
    /// In programs that record allocations: the site of the call that is being executed, where that is a call of a
    /// function that does not call back and may allocate; else null.
    pub call: *const u8,
}

/// A pushed frame. It lives on the machine stack, in the function that pushes. All pushes of one activation have the
/// same `prev` and `id`, so these are written once; each push writes its site, and that alone makes the handle invalid.
#[repr(C)]
pub struct Frame {
    /// The next frame outwards: [`Tls::top`] as it was in the pushing function.
    pub prev: Link,
    /// [`Tls::id`] as it was in the pushing function.
    pub id: u64,
    /// The site that pushed: an address in a module's site array. Null: the function entered next pushed, which an open
    /// call of the executable had reached; `id` is then an id of the open node. The highest byte holds marks:
    /// [`NUMBERED`](layout::NUMBERED), and [`NUMBERED_LEFT`](layout::NUMBERED_LEFT).
    pub marked_site: *const u8,
    /// The runtime's cache of the interned number of the chain from this frame on; not valid before the site is marked.
    pub handle: u64,
}

impl Frame {
    /// A frame as it is pushed, or a copy of one: its site may be marked.
    pub const fn new(prev: Link, id: u64, site: *const u8) -> Self {
        Self { prev, id, marked_site: site, handle: 0 }
    }

    pub fn site(&self) -> *const u8 {
        self.marked_site.map_addr(|address| address & ((1 << layout::MARKS_SHIFT) - 1))
    }
}

/// Bits of the byte of a site. All except [`RUNS_TASK`](Self::RUNS_TASK) occur only in executables with a hybrid
/// encoding (pcce.txt §6).
pub struct SiteByte;

impl SiteByte {
    /// In the site's function, ids stand for several contexts that stack offsets distinguish.
    pub const NEEDS_OFFSET: u8 = 1;
    /// The site pushes, and the distance of the frame from the beginning of the sub-path is known.
    pub const KNOWN_BASE: u8 = 2;
    /// The site pushes for a call of [`functions::TASK_RUN`], and the address of the task follows the frame.
    pub const RUNS_TASK: u8 = 4;

    /// How far a place on the stack is below `base`, in words; 0 where one of them is not known (0), or they are on
    /// different stacks.
    pub fn distance(place: usize, base: usize) -> u64 {
        /// Places further away are on another stack.
        const FURTHEST: usize = 1 << 30;
        let distance = if place == 0 { 0 } else { base.saturating_sub(place) };
        if distance < FURTHEST { (distance / size_of::<u64>()) as u64 } else { 0 }
    }
}

/// Name of the byte that exists in executables with a hybrid encoding.
pub const HYBRID_SYMBOL: &str = "__pcce_hybrid";

/// Name of the runtime's word for the canonical frame address of `main`'s activation, which such executables write.
pub const MAIN_BASE_SYMBOL: &str = "__pcce_main_base";

/// The counters of a module, for the profile of calls. The module's constructor gives them to the runtime.
#[repr(C)]
pub struct Counts {
    /// The next element of the runtime's list.
    pub next: *mut Counts,
    /// Numbers of executions, which emitted code counts: one for each place in the text.
    pub counters: *mut u64,
    pub counter_count: u64,
    /// For each call through a pointer, in the order of the text, [`TARGETS`] of the functions called.
    pub targets: *mut TargetCount,
    /// The number of targets of all calls.
    pub target_count: u64,
    /// The functions of the module that such calls may reach.
    pub names: *const TargetName,
    pub name_count: u64,
    /// The module's part of the profile, with a byte [`COUNT_HERE`] for each number, and [`TARGETS_HERE`] for the
    /// targets of a call.
    pub text: *const u8,
    pub text_len: u64,
    /// The file for the profile unless the environment names one; ends with a zero byte.
    pub file: *const u8,
}

/// Stands for the next number in [`Counts::text`].
pub const COUNT_HERE: u8 = 1;
/// Stands for the targets of the next call through a pointer.
pub const TARGETS_HERE: u8 = 2;
/// How many targets of a call are counted.
pub const TARGETS: usize = 4;

/// The number of times that a call through a pointer has reached a function.
#[repr(C)]
pub struct TargetCount {
    /// The function; null in a place that is free.
    pub address: *const u8,
    /// An estimate.
    pub count: u64,
}

#[repr(C)]
pub struct TargetName {
    pub address: *const u8,
    /// Its linkage name as a JSON string, ends with a zero byte.
    pub name: *const u8,
}

/// Offsets and sizes in bytes, for the pass.
pub mod layout {
    use super::*;

    pub const TLS_ID: u64 = offset_of!(Tls, id) as u64;
    pub const TLS_TOP: u64 = offset_of!(Tls, top) as u64;
    pub const TLS_CREATION: u64 = offset_of!(Tls, creation) as u64;
    pub const TLS_STACK_LOW: u64 = offset_of!(Tls, stack_low) as u64;
    pub const TLS_STACK_HIGH: u64 = offset_of!(Tls, stack_high) as u64;
    /// Offset of the length of the text in a thread's record, to which [`Tls::creation`] points.
    pub const CREATION_LEN: u64 = 48;
    /// Offset of the text there: the tokens of the thread's creation.
    pub const CREATION_TEXT: u64 = 56;
    pub const CREATION_SIZE: u64 = 4096;
    pub const TLS_SHADOW: u64 = offset_of!(Tls, shadow) as u64;
    pub const TLS_CALL: u64 = offset_of!(Tls, call) as u64;
    pub const TLS_SIZE: u64 = size_of::<Tls>() as u64;
    pub const TLS_ALIGN: u32 = align_of::<Tls>() as u32;
    pub const FRAME_PREV: u64 = offset_of!(Frame, prev) as u64;
    pub const FRAME_ID: u64 = offset_of!(Frame, id) as u64;
    pub const FRAME_SITE: u64 = offset_of!(Frame, marked_site) as u64;
    /// The bit at which the highest byte of a word begins. This byte of an address is 0.
    pub const MARKS_SHIFT: u32 = 56;
    /// A bit in the site of a [`Frame`]: the handle is valid.
    pub const NUMBERED: usize = 1 << 63;
    /// A bit beside [`NUMBERED`]: the handle is the number of a chain that begins with [`LEFT`].
    pub const NUMBERED_LEFT: usize = 1 << 62;
    /// A bit in a [`Link`]: ids count from the id in the frame.
    pub const RELATIVE: u64 = 1;
    /// A bit in a [`Link`]: the function that was entered has left its activation to another one, by a tail call.
    /// Emitted code sets it in [`Tls::top`](super::Tls::top). It must not be set in the frame: after an unseen jump of
    /// code without the pass out of activations, variables of others may be where the frame was.
    pub const LEFT: u64 = 2;
    /// The bits of a [`Link`] that are not part of the address.
    pub const LINK_BITS: u64 = RELATIVE | LEFT;
    pub const FRAME_SIZE: u64 = size_of::<Frame>() as u64;
    /// Offset of the address of a task from a frame whose site [runs](SiteByte::RUNS_TASK) it.
    pub const FRAME_TASK: u64 = FRAME_SIZE;
    /// Offset of the length of the text in a task.
    pub const TASK_LEN: u64 = 0;
    /// Offset of the text there: [`SUBMITTED`](crate::token::SUBMITTED) and the tokens of the task's submission; none
    /// if that is not known.
    pub const TASK_TEXT: u64 = 8;
    /// Size of `struct pcce_task` of the header.
    pub const TASK_SIZE: u64 = 512;
    pub const SHADOW_SITE: u64 = offset_of!(Shadow, site) as u64;
    pub const SHADOW_LEFT: u64 = offset_of!(Shadow, left) as u64;
    pub const SHADOW_SIZE: u64 = size_of::<Shadow>() as u64;
}

/// Functions that emitted code calls.
pub mod functions {
    /// `u64 __pcce_context(site, base)`: the context number at a capture site. `base` plus the id is the number,
    /// unless it is `NO_RANGE`.
    pub const CONTEXT: &str = "__pcce_context";
    /// `size_t __pcce_token(buf, size, site)`: the token at a capture site.
    pub const TOKEN: &str = "__pcce_token";
    /// `u64 __pcce_context_below(site, cfa)`: the context number at a capture site whose function needs stack offsets;
    /// `cfa` is the canonical frame address of its activation.
    pub const CONTEXT_BELOW: &str = "__pcce_context_below";
    /// `size_t __pcce_token_below(buf, size, site, cfa)`: the token at such a site.
    pub const TOKEN_BELOW: &str = "__pcce_token_below";
    /// `size_t __pcce_token_at(buf, size, pc, sp, site)`: the token of an interrupted point.
    pub const TOKEN_AT: &str = "__pcce_token_at";
    /// `void __pcce_task_capture(task, site)`: takes the context in which a task is submitted.
    pub const TASK_CAPTURE: &str = "__pcce_task_capture";
    /// `void pcce_task_run(task, body, argument)`: runs a task.
    pub const TASK_RUN: &str = "pcce_task_run";
    /// `pthread_create(…, site)`: creates a thread.
    pub const PTHREAD_CREATE: &str = "__pcce_pthread_create";
    /// `thrd_create(…, site)`: creates a thread.
    pub const THRD_CREATE: &str = "__pcce_thrd_create";
    /// `void __pcce_std_thread(state, site)`: before `std::thread::_M_start_thread` with the state.
    pub const STD_THREAD: &str = "__pcce_std_thread";
    /// `void __pcce_counts_start(counts)`: when a module that counts is loaded.
    pub const COUNTS_START: &str = "__pcce_counts_start";
    /// `void __pcce_counts_end(counts)`: when the module is unloaded, or the program ends.
    pub const COUNTS_END: &str = "__pcce_counts_end";
    /// `void __pcce_counts_target(targets, address)`: before a call through a pointer.
    pub const COUNTS_TARGET: &str = "__pcce_counts_target";
    /// `void __pcce_verify_enter(shadow, function)`: verify mode, at each function's entry.
    pub const VERIFY_ENTER: &str = "__pcce_verify_enter";
    /// `void __pcce_verify_return(shadow)`: verify mode, before each return.
    pub const VERIFY_RETURN: &str = "__pcce_verify_return";
    /// `void __pcce_verify_leave(shadow)`: verify mode, before a tail call that leaves the function's activation to
    /// its callee.
    pub const VERIFY_LEAVE: &str = "__pcce_verify_leave";
    /// `void __pcce_verify_resume(shadow)`: verify mode, where control comes back by unwinding or `longjmp`.
    pub const VERIFY_RESUME: &str = "__pcce_verify_resume";
    /// `void __pcce_verify_number(number, site)`: verify mode, after `pcce_context()` at this site.
    pub const VERIFY_NUMBER: &str = "__pcce_verify_number";
    /// The beginning of all names that the runtime has for emitted code.
    pub const OWN: &str = "__pcce_";
    /// `setjmp` and its variants in `libpcce_libc.a` jump here, with the address of libc's function in a scratch
    /// register.
    pub const SETJMP: &str = "__pcce_setjmp";
    /// As [`SETJMP`], for `longjmp` and its variants.
    pub const LONGJMP: &str = "__pcce_longjmp";
    /// The kernel calls this function instead of a signal's handler, and it calls the handler. Contexts leave it out.
    pub const SIGNAL_TRAMPOLINE: &str = "__pcce_signal_trampoline";

    /// The end of the name of a thunk, which pushes, and calls the function that the rest of the name names: an open
    /// call of another module enters the function through it. Contexts leave it out.
    pub const OPEN_THUNK: &str = ".pcce_open";
    /// The suffix of a stub: a local function that calls another image's function, if that replaces the function of
    /// that name.
    pub const STUB: &str = ".pcce_replaced";
    /// The suffix of the word through which a library calls its function of that name.
    pub const BOUND: &str = ".pcce_bound";
}

/// An argument of `__pcce_context`: the function has no range of numbers.
pub const NO_RANGE: u64 = 1 << 63;
/// Library functions, each with the function of the runtime that instrumented code calls, or takes the address of,
/// instead.
pub const REPLACED: [(&str, &str); 6] = [
    ("signal", "__pcce_signal"),
    ("bsd_signal", "__pcce_signal"),
    ("ssignal", "__pcce_signal"),
    ("__sysv_signal", "__pcce_sysv_signal"),
    ("sysv_signal", "__pcce_sysv_signal"),
    ("sigaction", "__pcce_sigaction"),
];

/// As [`REPLACED`], in modules that count calls or are in verify mode: these functions end the program without its
/// destructors.
pub const REPLACED_ENDS: [(&str, &str); 2] = [("_exit", "__pcce_end"), ("_Exit", "__pcce_end")];

/// Numbers of `pcce_context()` from here on are interned: they mean something only in the
/// process that gave them. Smaller ones name function and context by themselves.
pub const INTERNED: u64 = 1 << 63;
