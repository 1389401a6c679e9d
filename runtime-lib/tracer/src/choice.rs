//! Functions that are chosen when the process starts. Each function has a body that records, and one that does not
//! ([`Row`]). Of those that are chosen, the body that does not record is made to lead to the other one; of those that
//! are left out, the body that records leads to the other one. So each activation of a function runs the same body,
//! and none pays for the choice.
//!
//! Code is changed before any of it was executed: when the tracer starts, and when a library is loaded. What was left
//! out is read from the code where the file describes an image, so the file says what the process did.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::abi::trace::Row;
use crate::image::Image;
use crate::machine::{ENTRY_LEN, JUMPS_LEN, lead, leads_away};
use crate::output::{self, Text, complain};
use crate::settled::auxiliary;
use crate::{area, file, images, sys};

/// These variables choose functions by patterns: names of functions, or source files or their last parts, in which `*`
/// stands for any characters. Without the first one all are chosen.
const ONLY_VARIABLE: &CStr = c"PCCE_TRACE_ONLY";
const SKIP_VARIABLE: &CStr = c"PCCE_TRACE_SKIP";

/// More images cannot be remembered.
const MAX_TABLES: usize = 512;

/// The rows of an image.
struct Table {
    begin: AtomicUsize,
    end: AtomicUsize,
}

static TABLES: [Table; MAX_TABLES] =
    [const { Table { begin: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; MAX_TABLES];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The patterns of the variables; null without.
static PATTERNS: [AtomicPtr<c_char>; 2] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 2];
/// Which of the first patterns of each variable have matched a function.
static MATCHED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Functions were chosen.
static MADE: AtomicBool = AtomicBool::new(false);

/// A function with two bodies in memory.
struct Function {
    first: usize,
    behind: usize,
    second: usize,
    outside: Option<usize>,
    names: *const c_char,
    file: Option<*const c_char>,
}

impl Function {
    /// None for a row of no function.
    fn of(row: &'static Row) -> Option<Self> {
        let at = (&raw const *row).addr();
        let place = |distance: i32| (distance != 0).then(|| at.wrapping_add_signed(distance as isize));
        Some(Self {
            first: place(row.first)?,
            behind: row.behind as usize,
            second: place(row.second)?,
            outside: place(row.outside),
            names: place(row.names)? as *const c_char,
            file: place(row.file).map(|at| at as *const c_char),
        })
    }

    fn is_left_out(&self) -> bool {
        // SAFETY: code of an image that is loaded.
        unsafe { leads_away(self.second, ENTRY_LEN as usize) }
    }

    /// Returns whether one of the bodies leads to the other one. A linker may have made one of the same bodies of two
    /// functions (`--icf`): what was chosen for the first counts for both.
    fn is_done(&self) -> bool {
        // SAFETY: the same.
        self.is_left_out() || unsafe { leads_away(self.first, self.behind) }
    }

    /// Returns whether one of the patterns of a variable is one of the function's names.
    fn matches(&self, variable: usize) -> bool {
        // SAFETY: texts of the image that end with a zero.
        let text = |at: *const c_char| unsafe { CStr::from_ptr(at) }.to_bytes();
        let names = text(self.names);
        let file = self.file.map_or(&[][..], text);
        let mut any = false;
        for (number, pattern) in patterns(variable).enumerate() {
            let mut found = names.split(|byte| *byte == b'\n').any(|name| fits(pattern, name));
            let starts = (0..file.len()).filter(|&at| at == 0 || file[at - 1] == b'/');
            found |= starts.map(|at| &file[at..]).any(|path| fits(pattern, path));
            if found {
                MATCHED[variable].fetch_or(1 << number.min(63), Ordering::Relaxed);
            }
            any |= found;
        }
        any
    }

    /// Makes one of the bodies lead to the other one. Returns an error number, or 0.
    fn choose(&self) -> c_int {
        let [only, skip] = [0, 1].map(|variable| self.matches(variable));
        if self.is_done() {
            return 0;
        }
        let is_chosen = !skip && (only || patterns(0).next().is_none());
        let (from, behind, to) = match self.outside {
            Some(outside) if !is_chosen => (self.second, ENTRY_LEN as usize, outside),
            _ => (self.first, self.behind, self.second),
        };
        let page_size = auxiliary(libc::AT_PAGESZ);
        let page = from & !(page_size - 1);
        let size = (from + behind + JUMPS_LEN).next_multiple_of(page_size) - page;
        let allow = |more: c_int| {
            let access = (libc::PROT_READ | libc::PROT_EXEC | more) as usize;
            // SAFETY: code of the image, which stays executable.
            -unsafe { sys::call(libc::SYS_mprotect, [page, size, access, 0, 0, 0]) } as c_int
        };
        let error = allow(libc::PROT_WRITE);
        if error != 0 {
            return error;
        }
        // SAFETY: the body that is left was not entered yet, and never will be.
        let leads = unsafe { lead(from, behind, to) };
        allow(0);
        if leads { 0 } else { libc::ERANGE }
    }
}

/// The patterns that a variable has, without blanks around them.
fn patterns(variable: usize) -> impl Iterator<Item = &'static [u8]> {
    let value = PATTERNS[variable].load(Ordering::Relaxed);
    // SAFETY: a text of the environment.
    let text = if value.is_null() { &[][..] } else { unsafe { CStr::from_ptr(value) }.to_bytes() };
    text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|pattern| !pattern.is_empty())
}

/// Returns whether a text is one for which the pattern stands.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // The pattern behind the last star, and the text with which that was compared.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', rest)), _) => {
                again = Some((rest, text));
                pattern = rest;
            }
            (Some((one, rest)), Some((other, more))) if one == other => (pattern, text) = (rest, more),
            (None, None) => return true,
            _ => match again {
                Some((rest, [_, from @ ..])) => {
                    again = Some((rest, from));
                    (pattern, text) = (rest, from);
                }
                _ => return false,
            },
        }
    }
}

fn tables() -> impl Iterator<Item = &'static [Row]> {
    let count = COUNT.load(Ordering::Acquire).min(MAX_TABLES);
    TABLES[..count].iter().filter_map(|table| {
        let end = table.end.load(Ordering::Acquire);
        let begin = table.begin.load(Ordering::Relaxed);
        // SAFETY: the rows of an image; those of one that is gone are forgotten before another comes to its place.
        (end != 0).then(|| unsafe {
            core::slice::from_raw_parts(begin as *const Row, (end - begin) / size_of::<Row>())
        })
    })
}

/// Remembers the rows of an image that is loaded, and chooses its functions.
pub fn add(image: &Image, begin: usize, end: usize) {
    for table in &TABLES {
        if (image.start.addr()..image.end.addr()).contains(&table.begin.load(Ordering::Relaxed)) {
            table.end.store(0, Ordering::Release);
        }
    }
    let is_made = MADE.load(Ordering::Acquire);
    match TABLES.get(COUNT.fetch_add(1, Ordering::AcqRel)) {
        Some(table) => {
            table.begin.store(begin, Ordering::Relaxed);
            table.end.store(end, Ordering::Release);
            if is_made {
                // SAFETY: the image's rows.
                let rows = unsafe {
                    core::slice::from_raw_parts(begin as *const Row, (end - begin) / size_of::<Row>())
                };
                let error = choose(rows);
                if error != 0 {
                    file::give_up(
                        b"a library's code cannot be changed, as PCCE_TRACE_ONLY or PCCE_TRACE_SKIP needs",
                        error,
                    );
                }
            }
        }
        None if is_made => {
            file::give_up(b"there are more libraries than PCCE_TRACE_ONLY and PCCE_TRACE_SKIP can be for", 0);
        }
        None => {}
    }
}

fn choose(rows: &'static [Row]) -> c_int {
    let errors = rows.iter().filter_map(Function::of).map(|function| function.choose());
    errors.into_iter().find(|error| *error != 0).unwrap_or(0)
}

/// Chooses functions as the environment says. Called before anything is recorded.
pub fn make() {
    for (pattern, name) in PATTERNS.iter().zip([ONLY_VARIABLE, SKIP_VARIABLE]) {
        pattern.store(output::variable(name).cast_mut(), Ordering::Relaxed);
    }
    if patterns(0).chain(patterns(1)).next().is_none() {
        return;
    }
    MADE.store(true, Ordering::Release);
    let error = tables().map(choose).find(|error| *error != 0).unwrap_or(0);
    if error != 0 {
        file::give_up(
            b"the program's code cannot be changed, as PCCE_TRACE_ONLY or PCCE_TRACE_SKIP needs",
            error,
        );
    } else if area::used() > 0 {
        file::give_up(b"PCCE_TRACE_ONLY or PCCE_TRACE_SKIP is set, and code ran before it could be read", 0);
    }
    // Readers know the program then, whatever is recorded.
    tables().for_each(|rows| images::describe(rows.as_ptr().addr()));
    for (variable, name) in [ONLY_VARIABLE, SKIP_VARIABLE].into_iter().enumerate() {
        let matched = MATCHED[variable].load(Ordering::Relaxed);
        for (_, pattern) in patterns(variable).enumerate().filter(|(n, _)| matched >> n.min(&63) & 1 == 0) {
            let mut message = Text::<256>::new();
            message.put(b"pcce: ");
            message.put(name.to_bytes());
            message.put(b": no function that can be traced, and no source file, has the name ");
            message.put(&pattern[..pattern.len().min(100)]);
            message.put(b"\n");
            complain(message.bytes());
        }
    }
}

/// Returns whether functions were chosen.
pub fn is_made() -> bool {
    MADE.load(Ordering::Acquire)
}

/// The second bodies of an image that are left out.
pub fn left_out(image: &Image) -> impl Iterator<Item = usize> {
    let within = image.start.addr()..image.end.addr();
    // Without a choice no code is read.
    let is_made = is_made();
    let rows = tables().filter(move |rows| is_made && within.contains(&rows.as_ptr().addr())).flatten();
    rows.filter_map(Function::of).filter(Function::is_left_out).map(|function| function.second)
}

/// The place where the body that does not record goes on, if this second body is left out.
pub fn first_of(second: usize) -> Option<usize> {
    // SAFETY: the body has called the tracer.
    if !is_made() || !unsafe { leads_away(second, ENTRY_LEN as usize) } {
        return None;
    }
    let function = tables().flatten().filter_map(Function::of).find(|function| function.second == second);
    function.map(|function| function.first + function.behind)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn stars_stand_for_any_characters() {
        let fitting =
            [("", ""), ("*", ""), ("*", "a/b"), ("a*", "a"), ("*b", "aab"), ("a*c*e", "abcde"), ("**", "x")];
        for (pattern, text) in fitting {
            assert!(fits(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let other = [("", "a"), ("a", ""), ("a*", "ba"), ("*b", "ba"), ("a*c*e", "abcd"), ("ab", "a")];
        for (pattern, text) in other {
            assert!(!fits(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }
}
