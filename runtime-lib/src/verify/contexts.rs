//! The contexts that were compared, one line for each that is new, so that what a decoder makes of their numbers later
//! can be compared with the shadow stack, too.

use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, Ordering};

use crate::abi::FunctionRecord;
use crate::chains;
use crate::output::{FileName, How, Text, write_all};

/// Names the file.
pub(super) const VARIABLE: &CStr = c"PCCE_VERIFY_CONTEXTS";
pub(super) static FILE: FileName = FileName::new();
/// The open file; -1 before the first line.
static OPEN: AtomicI32 = AtomicI32::new(-1);

/// Writes a line: the number of the context, that of the caller's (0 without one), the record of the call's place in
/// the file of numbers, the id, the record of the chain, and the function's linkage name.
pub(super) fn write(number: u64, caller: u64, site: u64, encoding: (u64, u64), function: &FunctionRecord) {
    // A child has its parent's contexts, and the parent goes on giving numbers.
    if !FILE.is_wanted(false) {
        return;
    }
    let Some(place) = chains::place_number(site) else { return };
    let mut file = OPEN.load(Ordering::Acquire);
    if file < 0 {
        let Ok(opened) = FILE.open(How::Append, 0) else { return };
        OPEN.store(opened, Ordering::Release);
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
