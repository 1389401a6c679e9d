//! Verify mode: compares the encoding with a plain shadow stack at every function entry.
//!
//! Definition of the check. The shadow stack is written by code of its own (every activation has a [`Shadow`] record,
//! every call stores its site there) and knows the whole chain ⟨function, call site⟩ down to the thread's root. At each
//! entry the pair (`id`, chain of pushed frames) is decoded step by step with the functions' in-edge tables, as
//! pcce.txt Algorithm 2 and DecodeStack do, and each step must give the caller and the call site that the shadow stack
//! has, and end where it ends.
//!
//! Each distinct context is decoded once, as far as the next caller whose context matched already. A correct pair is
//! remembered as ⟨context of the caller, call site, function⟩ ↦ ⟨id, number of the chain⟩, and a later entry with the
//! same shadow stack must show the same pair. So every entry is compared, in constant time.
//!
//! The program may define what this code calls (`memset`, `write`, …), instrumented: entries from there are not
//! compared ([`Tls::busy`](crate::abi::Tls::busy)).
//!
//! A function that left its activation to another one by a tail call has no record any more; its caller's record says
//! so ([`Shadow::left`]). There the frame must be marked, or the dictionary's facts must lead the decoder to show a
//! boundary. Code that is not instrumented may make further calls, which find the frame marked: the same context then
//! has two encodings, which decode to the same.
//!
//! Besides, each function must return with `id` and `top` as it found them, and a function to
//! which control comes back by unwinding or `longjmp` must have restored them.

mod captures;
mod step;
#[cfg(test)]
mod tests;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::Write as _;
use core::iter::successors;
use core::mem::offset_of;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use pcce_system::weak_address;

use self::step::{LEAVES, LEFT, is_replaced, left_from, step};
use crate::abi::{Frame, FunctionRecord, Link, Shadow, SiteByte};
use crate::chains;
use crate::context::chain_number;
use crate::fiber::{followed, followed_from, is_unknown, relative};
use crate::image::Image;
use crate::intern::Interner;
use crate::jump::{SHADOW_AT, ShadowAt};
use crate::offset;
use crate::output::{self, FileName, How, Text, complain, write_all};
use crate::own::Own;
use crate::place;
use crate::signal::{self, SignalFrame};
use crate::state::{current, tls};
use crate::sys;
use crate::thread::key::forget_calls;
use crate::unwind::Process as _;
use crate::when::{self, Kind};

/// The variable that names the file to which the report is appended, or `stderr`; without it, the program may have a
/// name built in. Without either, only mismatches are reported, to standard error: readers of the program's own output
/// there, such as scripts that configure builds, should not find more. Read at the first function entry: programs may
/// have cleared the environment at their end.
const REPORT_VARIABLE: &CStr = c"PCCE_VERIFY_REPORT";
/// Exit status of a program with mismatches.
const EXIT_MISMATCH: c_int = 97;
/// Mismatches that are described one by one.
const MAX_DESCRIBED: u64 = 10;

static CONTEXTS: Interner<(u64, u64, u64)> = Interner::new();
/// Encodings of functions whose ids stand for several contexts: ⟨name of the function, id, number of the chain⟩.
static SHARED: Interner<()> = Interner::new();
/// ⟨number in [`SHARED`], stack offset⟩ ↦ number of the context.
static ENCODINGS: Interner<u64> = Interner::new();
static COMPARED: AtomicU64 = AtomicU64::new(0);
static DISTINCT: AtomicU64 = AtomicU64::new(0);
/// Entries on a stack of which nothing is known: a token would end there.
static CUT: AtomicU64 = AtomicU64::new(0);
static MISMATCHES: AtomicU64 = AtomicU64::new(0);
static REGISTERED: AtomicBool = AtomicBool::new(false);
/// The process that will report; a child of `vfork`, which shares the memory, is another one.
static PROCESS: AtomicI32 = AtomicI32::new(0);
static REPORT: FileName = FileName::new();
/// True if the report is wanted even without mismatches.
static ASKED: AtomicBool = AtomicBool::new(false);

/// At a function's entry: puts `shadow` on the shadow stack and compares.
///
/// # Safety
/// `shadow` is a live, writable record in the frame of the function that `function` describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_verify_enter(shadow: *mut Shadow, function: *const FunctionRecord) {
    if !REGISTERED.load(Ordering::Relaxed) && !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: a plain handler; it stays loaded as long as the process or its library.
        unsafe {
            sys::at_exit(exit, null_mut(), null_mut());
            sys::at_quick_exit(exit, null_mut());
        }
        let shadow_at: ShadowAt = shadow_at;
        SHADOW_AT.store(shadow_at as *mut (), Ordering::Relaxed);
        name_report();
        DEPTHS_FILE.set_from(DEPTHS_VARIABLE, None);
        CONTEXTS_FILE.set_from(CONTEXTS_VARIABLE, None);
        captures::start();
        PROCESS.store(sys::getpid(), Ordering::Relaxed);
        sys::around_fork(None, forked);
        clear_after_main();
    }
    entered(function);
    let (id, top) = current();
    // SAFETY: the thread's own block and records.
    unsafe {
        let prev = (*tls()).shadow;
        let left = left_from(prev);
        let replaced = left.read();
        if replaced == LEAVES {
            left.write(LEFT);
        }
        let (depth, frames) = if DEPTHS_FILE.is_named() { depths(prev, followed(top)) } else { (0, 0) };
        let fresh = Shadow {
            prev,
            function,
            site: null(),
            left: 0,
            replaced: replaced.into(),
            context: 0,
            id,
            top,
            depth,
            frames,
        };
        shadow.write(fresh);
        (*tls()).shadow = shadow;
        if !busy(|| {
            COMPARED.fetch_add(1, Ordering::Relaxed);
            count_depths(depth, frames);
            (*shadow).context = compare(shadow);
        }) {
            (*shadow).context = UNNUMBERED;
        }
    }
}

/// The depth of an activation that was entered with the chain `top`: activations, and pushed frames.
unsafe fn depths(caller: *const Shadow, top: Link) -> (u64, u64) {
    // SAFETY: live records and frames of this thread.
    unsafe {
        let (mut outermost, mut pushed) = (top, 0);
        for link in pushed_since(caller, top) {
            (outermost, pushed) = ((*link.frame()).prev, pushed + 1);
        }
        match caller.as_ref() {
            Some(caller) if outermost.is_null() => (caller.depth + 1, pushed),
            Some(caller) => (caller.depth + 1, pushed + caller.frames),
            None => (1, pushed),
        }
    }
}

/// The links of the chain `top`, from the innermost one outwards, to frames that were pushed since the entry of
/// `caller`; all without one.
///
/// # Safety
/// Live records and frames of this thread, as long as the iterator is used.
unsafe fn pushed_since(caller: *const Shadow, top: Link) -> impl Iterator<Item = Link> {
    // SAFETY: by the contract.
    let below = unsafe { caller.as_ref() }.map_or(Link::NULL, |caller| caller.top);
    let pushed = move |link: Link| (!link.is_null() && link != below).then_some(link);
    // SAFETY: by the contract.
    successors(pushed(top), move |link| pushed(unsafe { (*link.frame()).prev }))
}

/// Before a return: takes `shadow` off, and checks that the function returns what it found.
///
/// # Safety
/// `shadow` was given to [`__pcce_verify_enter`] by the activation that returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_verify_return(shadow: *mut Shadow) {
    // SAFETY: by the contract.
    unsafe {
        check_state(shadow, "returns with another context than it was called with");
        (*tls()).shadow = (*shadow).prev;
    }
}

/// Before a tail call that leaves the activation to its callee.
///
/// # Safety
/// As [`__pcce_verify_return`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_verify_leave(shadow: *mut Shadow) {
    // SAFETY: by the contract; the records outwards live longer.
    unsafe {
        __pcce_verify_return(shadow);
        left_from((*shadow).prev).write(LEAVES);
    }
}

/// After control came back to the activation by unwinding or `longjmp`: the records of the
/// activations that ended are dropped, and the state must be restored already.
///
/// # Safety
/// As [`__pcce_verify_return`], for the activation that goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_verify_resume(shadow: *mut Shadow) {
    // SAFETY: by the contract.
    unsafe {
        (*tls()).shadow = shadow;
        check_state(shadow, "goes on after unwinding or longjmp with a context that is not its own");
    }
}

/// After `pcce_context()` at this site.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_verify_number(number: u64, site: *const u8) {
    captures::number(number, site);
}

/// Reads whether the report is wanted, and its file.
fn name_report() {
    let value = output::variable(REPORT_VARIABLE);
    // SAFETY: a text of the environment.
    let value =
        (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }).filter(|value| !value.is_empty());
    let asked = value.or_else(built_in_report);
    if asked != Some(c"stderr") {
        REPORT.set_from(REPORT_VARIABLE, built_in_report());
    }
    ASKED.store(asked.is_some(), Ordering::Relaxed);
}

/// The program's own path for the report.
fn built_in_report() -> Option<&'static CStr> {
    // `--pcce-verify-report=PATH` puts this into the program: children with an environment of their own report, too.
    let path: *const c_char = weak_address!("__pcce_verify_report").cast();
    // SAFETY: it ends with a zero.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

/// Runs `work` unless the thread is in such work already. Returns whether it ran.
fn busy(work: impl FnOnce()) -> bool {
    // SAFETY: the thread's own block; volatile, since signal handlers use it too.
    unsafe {
        let flag = &raw mut (*tls()).busy;
        if flag.read_volatile() != 0 {
            return false;
        }
        flag.write_volatile(1);
        work();
        flag.write_volatile(0);
        true
    }
}

unsafe fn check_state(shadow: *const Shadow, what: &str) {
    let (id, top) = current();
    // SAFETY: a live record.
    unsafe {
        if ((*shadow).id, (*shadow).top) != (id, top) {
            let found = (*shadow).id;
            busy(|| mismatch((*shadow).function, format_args!("{what} (id {found} at entry, {id} now)")));
        }
    }
}

/// The context of an activation ([`Shadow::context`]) that did not match.
const MISMATCHED: u64 = 0;
/// The context of an activation that matched, and has no number: there is no memory, or a signal handler is below,
/// whose chain goes on with the interrupted functions, which the shadow stack does not show.
const UNNUMBERED: u64 = u64::MAX;

/// A bit of a function's name in keys: another function has left its activation to this one. No name has this bit.
const REPLACED: u64 = 1 << 62;
/// Another such bit: a function that the same call had reached, just now or before, has left its activation, and the
/// call's frame is marked. Contexts show the mark.
const MARKED: u64 = 1 << 61;

/// Compares the state at the entry of `shadow`'s function with the shadow stack. Returns the context for
/// [`Shadow::context`].
unsafe fn compare(shadow: *const Shadow) -> u64 {
    // SAFETY: live records of this thread, live frames of this thread.
    unsafe {
        let Shadow { prev, function, id, top, .. } = *shadow;
        // On a stack that was switched to unannounced, a token ends at once.
        let known = followed(top);
        let Some(id) = relative(id, top, known).filter(|_| !is_unknown(known)) else {
            CUT.fetch_add(1, Ordering::Relaxed);
            return UNNUMBERED;
        };
        let chain = chain_number(top);
        let distance = distance(shadow);
        let below = if prev.is_null() { (0, null()) } else { ((*prev).context, (*prev).site) };
        let numbered = match below.0 {
            _ if prev.is_null() => top.is_null() || !signal::is_site((*top.frame()).site()),
            context => context != MISMATCHED && context != UNNUMBERED,
        };
        let (site, name) = (place::name(below.1), place::name(function.cast()));
        let replaced = if is_replaced(shadow) { REPLACED } else { 0 };
        let marked = if (*shadow).replaced != 0 && is_marked(shadow) { MARKED } else { 0 };
        let name = name.map(|name| name | replaced | marked);
        let mut key = site.zip(name).map(|(site, name)| [below.0, site, name]).filter(|_| numbered);
        if let (Some(chain), Some(known)) = (chain, key)
            && let Some((number, seen)) = CONTEXTS.find(&known)
        {
            if seen == (id, chain, distance) {
                return number;
            }
            if (*function).entry_site.get().is_null() && !is_mixed(top) {
                mismatch(
                    function,
                    format_args!(
                        "the same context had id {}, chain {} and stack offset {}, and now {id}, {chain} and {distance}",
                        seen.0, seen.1, seen.2
                    ),
                );
                return number;
            }
            // Calls that LLVM inserts are no sites of the shadow stack: between two of them the caller's state changes.
            key = None;
        }
        // A caller whose own context matched is the end of the walk.
        let mut record = shadow;
        loop {
            if let Err(what) = step(record) {
                if is_mixed(top) {
                    return UNNUMBERED;
                }
                mismatch((*record).function, format_args!("{what}"));
                return MISMATCHED;
            }
            record = (*record).prev;
            if record.is_null() || (*record).context != MISMATCHED {
                break;
            }
        }
        DISTINCT.fetch_add(1, Ordering::Relaxed);
        let (Some(chain), Some(key)) = (chain, key) else { return UNNUMBERED };
        let Some(number) = CONTEXTS.insert(&key, (id, chain, distance)) else { return UNNUMBERED };
        if CONTEXTS_FILE.is_named() && distance == 0 {
            write_context(number, below.0, key[1], (id, chain), &*function);
        }
        // If an id stands for several contexts, the offset must distinguish them.
        if (*function).shared == 1
            && let Some(found) =
                place::name(function.cast()).and_then(|name| encoding(name, id, chain, distance, number))
            && found != number
        {
            mismatch(
                function,
                format_args!("two contexts have id {id}, chain {chain} and stack offset {distance}"),
            );
        }
        number
    }
}

/// Returns whether one of the frames is marked that were pushed since the entry of the activation's caller.
unsafe fn is_marked(shadow: *const Shadow) -> bool {
    // SAFETY: live records and frames of this thread.
    unsafe { pushed_since((*shadow).prev, (*shadow).top).any(Link::left) }
}

/// The number of the context that has this encoding in the function with this name: `context`, if it is a new one. None
/// if there is no memory.
fn encoding(name: u64, id: u64, chain: u64, distance: u64, context: u64) -> Option<u64> {
    let key = [SHARED.insert(&[name, id, chain], ())?, distance, 0];
    match ENCODINGS.find(&key) {
        Some((_, context)) => Some(context),
        None => ENCODINGS.insert(&key, context).map(|_| context),
    }
}

/// The distance of an activation below the beginning of its sub-path, if its function needs that. It is the distance of
/// the record, which differs from the activation's by a constant of the function.
unsafe fn distance(shadow: *const Shadow) -> u64 {
    // SAFETY: a live record, and frames of this thread.
    unsafe {
        let Shadow { function, top, .. } = *shadow;
        if (*function).shared == 0 {
            return 0;
        }
        SiteByte::distance(shadow.addr(), offset::live_base(top))
    }
}

fn print(args: core::fmt::Arguments<'_>) {
    print_to(&REPORT, args);
}

#[cold]
unsafe fn mismatch(function: *const FunctionRecord, what: core::fmt::Arguments<'_>) {
    if MISMATCHES.fetch_add(1, Ordering::Relaxed) < MAX_DESCRIBED {
        // SAFETY: the record of a loaded module; its name ends with a zero byte.
        let name = unsafe { CStr::from_ptr((*function).name.get().cast()) };
        print(format_args!("pcce verify: mismatch in {}: {what}", name.to_str().unwrap_or("?")));
    }
}

/// Has the state cleared when `pthread_exit` has ended all activations of the main thread, which then runs the exit
/// handlers of the process. Other threads begin in the runtime, which sees their end.
fn clear_after_main() {
    if sys::gettid() != sys::getpid() {
        return;
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: plain calls; any value but null has the destructor called.
    unsafe {
        if libc::pthread_key_create(&raw mut key, Some(main_has_ended)) == 0 {
            libc::pthread_setspecific(key, (&raw const REGISTERED).cast());
        }
    }
}

unsafe extern "C" fn main_has_ended(_: *mut c_void) {
    // SAFETY: all calls of the thread have ended.
    unsafe { forget_calls() };
}

/// A forked child reports its own comparisons only.
extern "C" fn forked() {
    PROCESS.store(sys::getpid(), Ordering::Relaxed);
    for counter in [&COMPARED, &DISTINCT, &MISMATCHES, &CUT, &MIXED] {
        counter.store(0, Ordering::Relaxed);
    }
    reset_depths();
}

extern "C" fn exit(_: *mut c_void) {
    if report() > 0 {
        // SAFETY: fflush(NULL) writes out all streams, which _exit would not do.
        unsafe {
            sys::flush(null_mut());
            libc::_exit(EXIT_MISMATCH);
        }
    }
}

/// Replaces `_exit`, which calls no destructors.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_end(status: c_int) -> ! {
    when::at_end(Kind::Calls);
    let wrong = sys::is_process(PROCESS.load(Ordering::Relaxed)) && report() > 0;
    // SAFETY: a plain call.
    unsafe { libc::_exit(if wrong { EXIT_MISMATCH } else { status }) }
}

/// Reports, once. Returns the number of mismatches.
fn report() -> u64 {
    PROCESS.store(0, Ordering::Relaxed);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mismatches = count(&MISMATCHES);
    let wanted = mismatches > 0 || ASKED.load(Ordering::Relaxed);
    if wanted && count(&CUT) > 0 {
        print(format_args!(
            "pcce verify: {} of them cut, not compared: their frames are on a stack that is not known to be the thread's",
            count(&CUT)
        ));
    }
    if wanted && count(&MIXED) > 0 {
        print(format_args!(
            "pcce verify: {} of them not compared: instrumented code that is not in verify mode was active",
            count(&MIXED)
        ));
    }
    if wanted {
        print(format_args!(
            "pcce verify: {} contexts compared, {} distinct, {mismatches} mismatches",
            count(&COMPARED),
            count(&DISTINCT),
        ));
    }
    report_depths();
    mismatches
}

// The contexts that were compared, one line for each new one, so that the contexts that a decoder later finds for their
// numbers can be compared with the shadow stack, too.

/// The variable that names the file.
const CONTEXTS_VARIABLE: &CStr = c"PCCE_VERIFY_CONTEXTS";
static CONTEXTS_FILE: FileName = FileName::new();
/// The open file; -1 before the first line.
static CONTEXTS_OPEN: AtomicI32 = AtomicI32::new(-1);

/// Writes a line: the number of the context, the number of the caller's context (0 without one), the record of the
/// call's place in the file of numbers, the id, the record of the chain, and the function's linkage name.
fn write_context(number: u64, caller: u64, site: u64, encoding: (u64, u64), function: &FunctionRecord) {
    // A child has its parent's contexts, and the parent continues to give numbers.
    if !CONTEXTS_FILE.is_wanted(false) {
        return;
    }
    let Some(place) = chains::place_number(site) else { return };
    let mut file = CONTEXTS_OPEN.load(Ordering::Acquire);
    if file < 0 {
        let Ok(opened) = CONTEXTS_FILE.open(How::Append, 0) else { return };
        CONTEXTS_OPEN.store(opened, Ordering::Release);
        file = opened;
    }
    let mut line = Text::<1024>::new();
    for word in [number, caller, place, encoding.0, encoding.1] {
        line.number(word);
        line.put(b" ");
    }
    // SAFETY: the record of a loaded module; its name ends with a zero byte.
    line.put(unsafe { CStr::from_ptr(function.name.get().cast()) }.to_bytes());
    line.put(b"\n");
    write_all(file, line.bytes());
}

// The shadow stack after a `longjmp` to code that is not instrumented.

/// The maximum number of frames that are followed.
const MAX_FRAMES: u32 = 1 << 20;

/// The innermost record of an activation that goes on with the stack pointer `sp`, and the chain `top`.
fn shadow_at(sp: usize, top: Link) -> *mut Shadow {
    // SAFETY: this thread's block.
    let mut shadow = unsafe { (*tls()).shadow };
    if shadow.is_null() {
        return shadow;
    }
    // Records on another stack may lead to old records on this one.
    let mut memory = Own::new();
    let mut word = |at: usize| memory.word(at);
    // A handler's records are not on the list of the interrupted code.
    let mut at = current().1;
    for _ in 0..MAX_FRAMES {
        if at.is_null() || at.frame() == top.frame() || is_unknown(at) {
            break;
        }
        let frame = at.frame().addr();
        let (Some(prev), Some(site)) =
            (word(frame + offset_of!(Frame, prev)), word(frame + offset_of!(Frame, marked_site)))
        else {
            break;
        };
        if signal::is_site(Frame::new(Link::NULL, 0, site as *const u8).site()) {
            shadow = word(frame + offset_of!(SignalFrame, shadow)).unwrap_or(0) as *mut Shadow;
        }
        at = Link::new(prev as *mut Frame);
    }
    let is_outwards = |at: usize| !is_unknown(followed_from(at, Link::new(sp as *mut Frame)));
    while !shadow.is_null() && shadow.addr() < sp && is_outwards(shadow.addr()) {
        shadow = word(shadow.addr() + offset_of!(Shadow, prev)).unwrap_or(0) as *mut Shadow;
    }
    shadow
}

// Images that are instrumented, and not in verify mode: the shadow stack does not have their activations, so functions
// that they call cannot be compared.

/// The address range of an image in verify mode.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
}

impl Place {
    fn has(&self, address: usize) -> bool {
        // The end is written last: a thread that sees it sees the start.
        let end = self.end.load(Ordering::Acquire);
        (self.start.load(Ordering::Relaxed)..end).contains(&address)
    }
}

/// The images of which a function was entered.
static PLACES: [Place; 256] = [const { Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; 256];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The image of which a function was entered last.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Entries that were not compared.
static MIXED: AtomicU64 = AtomicU64::new(0);
static MIX_REPORTED: AtomicBool = AtomicBool::new(false);

/// Notes the image of a function that is entered, which is in verify mode.
fn entered(function: *const FunctionRecord) {
    let address = function.addr();
    let places = &PLACES[..COUNT.load(Ordering::Acquire).min(PLACES.len())];
    if places.get(LAST.load(Ordering::Relaxed)).is_some_and(|place| place.has(address)) {
        return;
    }
    if let Some(known) = places.iter().position(|place| place.has(address)) {
        LAST.store(known, Ordering::Relaxed);
    } else if let Some(image) = Image::of(function.cast()) {
        let new = COUNT.fetch_add(1, Ordering::AcqRel);
        if let Some(place) = PLACES.get(new) {
            place.start.store(image.start.addr(), Ordering::Relaxed);
            place.end.store(image.end.addr(), Ordering::Release);
        }
    }
}

/// Returns whether a frame of the chain was pushed by an image of which no function in verify mode was ever entered.
/// The user gets one message.
///
/// # Safety
/// The chain is this thread's, and can be followed.
unsafe fn is_mixed(top: Link) -> bool {
    if COUNT.load(Ordering::Acquire) > PLACES.len() {
        return false;
    }
    let mut at = top;
    while !at.is_null() && !is_unknown(at) {
        // SAFETY: by the contract.
        let (site, prev) = unsafe { ((*at.frame()).site(), (*at.frame()).prev) };
        if signal::is_site(site) {
            return false;
        }
        if !site.is_null() && !PLACES.iter().any(|place| place.has(site.addr())) {
            MIXED.fetch_add(1, Ordering::Relaxed);
            if !MIX_REPORTED.swap(true, Ordering::Relaxed) {
                report_mix(site);
            }
            return true;
        }
        at = prev;
    }
    false
}

fn report_mix(site: *const u8) {
    // SAFETY: the loader's text.
    let file = Image::of(site)
        .filter(|image| !image.file.is_null())
        .map(|image| unsafe { CStr::from_ptr(image.file) });
    let file =
        file.and_then(|file| file.to_str().ok()).filter(|file| !file.is_empty()).unwrap_or("the program");
    print(format_args!(
        "pcce verify: {file} is instrumented without --pcce-verify, and calls code in verify mode: that cannot be \
         compared; build both with --pcce-verify"
    ));
}

// Verify mode's statistics: the depths of contexts, at every function entry.
//
// Two depths are counted: that of the plain stack (activations of instrumented functions) and that of the encoding
// (pushed frames), as pcce.txt Table 2 and Fig. 9 compare them. Each process appends at its exit, to the file that
// [`DEPTHS_VARIABLE`] names, one line for each depth that occurred: `plain DEPTH ENTRIES` and `frames DEPTH ENTRIES`.
// All depths from [`DEPTHS`] - 1 on are counted as [`DEPTHS`] - 1.

/// The variable that names the file; nothing is counted without it.
const DEPTHS_VARIABLE: &CStr = c"PCCE_VERIFY_DEPTHS";
/// The number of depths that are counted separately.
const DEPTHS: usize = 4096;

/// The file, remembered at the first function entry.
static DEPTHS_FILE: FileName = FileName::new();
static PLAIN: [AtomicU64; DEPTHS] = [const { AtomicU64::new(0) }; DEPTHS];
static FRAMES: [AtomicU64; DEPTHS] = [const { AtomicU64::new(0) }; DEPTHS];

fn count_depths(plain: u64, frames: u64) {
    if DEPTHS_FILE.is_named() {
        for (counters, depth) in [(&PLAIN, plain), (&FRAMES, frames)] {
            counters[(depth as usize).min(DEPTHS - 1)].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Begins again, in the child of a process that counts.
fn reset_depths() {
    if DEPTHS_FILE.is_named() {
        PLAIN.iter().chain(&FRAMES).for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

/// Appends the lines of this process.
fn report_depths() {
    if DEPTHS_FILE.is_named() {
        for (name, counters) in [("plain", &PLAIN), ("frames", &FRAMES)] {
            for (depth, counter) in counters.iter().enumerate() {
                let entries = counter.load(Ordering::Relaxed);
                if entries > 0 {
                    print_to(&DEPTHS_FILE, format_args!("{name} {depth} {entries}"));
                }
            }
        }
    }
}

// Lines of text for people, appended to a file.

/// A line of text in a fixed buffer; what does not fit is dropped.
struct Line {
    text: [u8; 512],
    len: usize,
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let room = self.text.len() - 1 - self.len;
        let taken = s.len().min(room);
        self.text[self.len..self.len + taken].copy_from_slice(&s.as_bytes()[..taken]);
        self.len += taken;
        Ok(())
    }
}

/// Appends a line to the file; to standard error if it has no name, or cannot be opened.
fn print_to(file: &FileName, args: core::fmt::Arguments<'_>) {
    let mut line = Line { text: [0; 512], len: 0 };
    let _ = line.write_fmt(args);
    line.text[line.len] = b'\n';
    let bytes = &line.text[..=line.len];
    match if file.is_named() { file.open(How::Append, 0) } else { Err(0) } {
        Ok(opened) => {
            let error = write_all(opened, bytes);
            sys::close(opened);
            if error != 0 {
                file.report_error(0, error);
                complain(bytes);
            }
        }
        Err(_) => {
            complain(bytes);
        }
    }
}
