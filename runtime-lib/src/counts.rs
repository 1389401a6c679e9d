//! The profile of calls, which programs built with `--pcce-profile-generate` count, and write when they end.
//!
//! The code of each module counts with plain additions: threads that count the same call at the same time may lose some
//! counts. A module is written when it is unloaded or the program ends, `_exit` included. A forked child begins with
//! zeros, and writes its own counts only.

use core::ffi::CStr;
use core::ptr::null_mut;
use core::slice;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::abi::{COUNT_HERE, Counts, TARGETS, TARGETS_HERE, TargetCount};
use crate::output::FileName;
use crate::profile::Writer;
use crate::sys;
use crate::when::{self, Kind};

const VARIABLE: &CStr = c"PCCE_CALLS_PROFILE";

static FILE: FileName = FileName::new();
/// The process that counts; a child of `vfork`, which shares the memory, is another one.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// The modules that are loaded. Constructors and destructors, which change the list, run under the loader's lock.
static FIRST: AtomicPtr<Counts> = AtomicPtr::new(null_mut());

/// The modules that are loaded.
fn modules() -> impl Iterator<Item = *mut Counts> {
    let some = |module: *mut Counts| (!module.is_null()).then_some(module);
    core::iter::successors(some(FIRST.load(Ordering::Acquire)), move |&module| {
        // SAFETY: what is on the list is loaded.
        some(unsafe { (*module).next })
    })
}

/// Adds the counters of a module that was loaded.
///
/// # Safety
/// Called by the module's constructor only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_counts_start(module: *mut Counts) {
    // SAFETY: by the contract; the file's name ends with a zero.
    unsafe {
        if PROCESS.load(Ordering::Relaxed) == 0 {
            FILE.set_from(VARIABLE, Some(CStr::from_ptr((*module).file.cast())));
            PROCESS.store(sys::getpid(), Ordering::Relaxed);
            sys::around_fork(None, forked);
            when::on_signals(Kind::Calls, |_| write(modules()), None);
        }
        (*module).next = FIRST.load(Ordering::Relaxed);
    }
    FIRST.store(module, Ordering::Release);
}

/// A module is unloaded, or the program ends.
///
/// # Safety
/// Called by the module's destructor only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_counts_end(module: *mut Counts) {
    // SAFETY: by the contract, and what is on the list is loaded.
    let unlink = || unsafe {
        let next = (*module).next;
        match modules().find(|&before| (*before).next == module) {
            Some(before) => (*before).next = next,
            None => FIRST.store(next, Ordering::Release),
        }
    };
    // Another thread may write the profile of all modules, and follows the list.
    let is_done = when::alone(|| {
        write(core::iter::once(module));
        unlink();
    });
    if !is_done {
        unlink();
    }
}

extern "C" fn forked() {
    PROCESS.store(sys::getpid(), Ordering::Relaxed);
    for module in modules() {
        // SAFETY: the module's own counters; there is no other thread.
        unsafe {
            (*module).counters.write_bytes(0, (*module).counter_count as usize);
            (*module).targets.write_bytes(0, (*module).target_count as usize);
        }
    }
}

fn write(modules: impl Iterator<Item = *mut Counts>) {
    if !sys::is_process(PROCESS.load(Ordering::Relaxed)) || !FILE.is_named() {
        return;
    }
    let mut out = Writer::append(&FILE);
    for module in modules {
        // SAFETY: a module that is loaded, with arrays of these lengths. Other threads may still count.
        unsafe {
            let module = &*module;
            let (mut counter, mut targets) = (module.counters, module.targets);
            for part in slice::from_raw_parts(module.text, module.text_len as usize)
                .split_inclusive(|&byte| byte == COUNT_HERE || byte == TARGETS_HERE)
            {
                match part.split_last() {
                    Some((&COUNT_HERE, before)) => {
                        out.text(before);
                        out.number(counter.read_volatile());
                        counter = counter.add(1);
                    }
                    Some((&TARGETS_HERE, before)) => {
                        out.text(before);
                        write_targets(&mut out, module, slice::from_raw_parts(targets, TARGETS));
                        targets = targets.add(TARGETS);
                    }
                    _ => out.text(part),
                }
            }
        }
    }
    out.close();
}

fn write_targets(out: &mut Writer, module: &Counts, targets: &[TargetCount]) {
    // SAFETY: the module's array.
    let names = unsafe { slice::from_raw_parts(module.names, module.name_count as usize) };
    let mut before: &[u8] = b"[[";
    for target in targets {
        let Some(found) = names.iter().find(|name| name.address == target.address) else { continue };
        out.text(before);
        // SAFETY: it ends with a zero.
        out.text(unsafe { CStr::from_ptr(found.name.cast()) }.to_bytes());
        out.text(b",");
        out.number(target.count);
        before = b"],[";
    }
    out.text(if before.len() == 2 { b"[]" } else { b"]]" });
}

/// Counts a target of a call through a pointer. When all places are taken, each further target decrements the last
/// count, and takes its place when it is 0 (after Misra and Gries, who find frequent elements).
///
/// # Safety
/// Called by emitted code only: the call's own places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_counts_target(targets: *mut TargetCount, address: *const u8) {
    // SAFETY: by the contract. Other threads may count the same call, and their counts may be lost.
    unsafe {
        for i in 0..TARGETS {
            let target = targets.add(i);
            if (*target).address.is_null() {
                (*target).address = address;
            }
            if (*target).address == address {
                (*target).count += 1;
                return;
            }
        }
        let last = targets.add(TARGETS - 1);
        (*last).count = (*last).count.saturating_sub(1);
        if (*last).count == 0 {
            last.write(TargetCount { address, count: 1 });
        }
    }
}
