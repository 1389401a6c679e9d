//! Compares a decoded chain with a backtrace.
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use pcce_abi::skeleton::FUNCTION_SYMBOLS;

use crate::chain::{Frame, is_push_thunk};
use crate::llvm;
use crate::machine::{Transfer, is_prefix, is_through_pointer, transfer};

/// Direct jumps and calls from one function to the beginning of another, and the functions with jumps and calls through
/// pointers.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    jumps: HashSet<(String, String)>,
    calls: HashSet<(String, String)>,
    jumps_through_pointers: HashSet<String>,
    calls_through_pointers: HashSet<String>,
}

impl Transfers {
    /// Reads a program by LLVM's disassembler.
    pub(super) fn of(executable: &Path) -> Result<Self> {
        let output =
            Command::new(llvm("llvm-objdump")).args(["-d", "--no-show-raw-insn"]).arg(executable).output();
        let text = crate::checked("llvm-objdump", output)?.stdout;
        let text = String::from_utf8_lossy(&text);
        let mut transfers = Self::default();
        let mut function = "";
        for line in text.lines() {
            if let Some(name) = line.split_once(" <").and_then(|(_, name)| name.strip_suffix(">:")) {
                function = own_name(name);
            } else if let Some(line) = Line::of(line, function) {
                transfers.add(&line);
            }
        }
        Ok(transfers)
    }

    fn add(&mut self, line: &Line<'_>) {
        let (function, target) = (line.function.to_owned(), line.target);
        let is_call = line.transfer == Transfer::Call;
        if is_through_pointer(target) {
            match is_call {
                true => self.calls_through_pointers.insert(function),
                false => self.jumps_through_pointers.insert(function),
            };
        } else if let Some(target) = target.strip_prefix('<').and_then(|target| target.strip_suffix('>')) {
            let target = own_name(target);
            match is_call {
                true => self.calls.insert((function, target.to_owned())),
                false => self.jumps.insert((function, target.to_owned())),
            };
        }
    }

    /// Returns whether the first function may leave by a jump to the second one.
    fn jump(&self, from: &str, to: &str) -> bool {
        self.jumps_through_pointers.contains(from)
            || self.jumps.contains(&(from.to_owned(), to.to_owned()))
            || thunks(&self.jumps, from).any(|thunk| self.call(thunk, to))
    }

    /// Returns whether the function may leave by a jump to one that pushes for it.
    fn jumps_to_thunk(&self, from: &str) -> bool {
        thunks(&self.jumps, from).next().is_some()
    }

    /// Returns whether the function may leave by a jump to one of a shared library.
    fn jumps_out(&self, from: &str) -> bool {
        self.jumps_through_pointers.contains(from)
            || self.jumps.iter().any(|(function, target)| function == from && target.ends_with("@plt"))
    }

    /// Returns whether the first function may call the second one.
    fn call(&self, from: &str, to: &str) -> bool {
        self.calls_through_pointers.contains(from)
            || self.calls.contains(&(from.to_owned(), to.to_owned()))
            || thunks(&self.calls, from).any(|thunk| self.call(thunk, to))
    }
}

/// The name of a function without the further part that link mode appends for other modules.
fn own_name(symbol: &str) -> &str {
    symbol.split(FUNCTION_SYMBOLS).next().unwrap_or(symbol)
}

/// A line of the disassembly with an instruction that transfers control.
struct Line<'t> {
    function: &'t str,
    transfer: Transfer,
    /// The last word: a symbol with a distance, or a register or memory after an asterisk.
    target: &'t str,
}

impl<'t> Line<'t> {
    fn of(line: &'t str, function: &'t str) -> Option<Self> {
        let (address, rest) = line.trim_start().split_once(':')?;
        u64::from_str_radix(address, 16).ok()?;
        let mut words = rest.split_whitespace().filter(|word| !is_prefix(word));
        let transfer = transfer(words.next()?)?;
        let target = words.next_back().unwrap_or("");
        Some(Self { function, transfer, target })
    }
}

/// The push thunks that a function transfers control to.
fn thunks<'a>(transfers: &'a HashSet<(String, String)>, from: &'a str) -> impl Iterator<Item = &'a str> {
    transfers.iter().filter(move |(function, to)| function == from && is_push_thunk(to)).map(|(_, to)| &**to)
}

/// How a chain agrees with gdb's backtrace.
#[derive(Clone, Copy, Default)]
pub(super) struct Agreement {
    /// Lines are those of the symboliser, or the debug information has none.
    pub(super) lines: bool,
    /// The chain has functions in it that have left by a tail call.
    pub(super) tail: bool,
}

/// Compares a chain with gdb's backtrace. `None` if they differ. The line of a call may be that of LLVM's symboliser,
/// or another one where the debug information has none: the compiler has merged several calls, and only the site says
/// which of them it was. The id remembers functions that have left by a tail call; there must be such a jump, and a
/// call of the function.
pub(super) fn agreement(
    found: &[Frame],
    gdb: &[Frame],
    symboliser: &[Frame],
    transfers: &Transfers,
) -> Option<Agreement> {
    let (gdb, symboliser) = (groups(gdb), groups(symboliser));
    let mut found = groups(found).into_iter();
    let mut agreement = Agreement::default();
    // The last function that has a frame or had one.
    let mut inner: Option<&str> = None;
    // True in code that is not instrumented.
    let mut plain = false;
    if gdb.len() != symboliser.len() {
        return None;
    }
    for (gdb, symboliser) in gdb.into_iter().zip(symboliser) {
        let mut gone = false;
        loop {
            let group = found.next()?;
            let owner = owner(group);
            if let Some(lines) = same(group, gdb, symboliser) {
                agreement.lines |= lines;
                if gone && !transfers.call(owner?, inner?) {
                    return None;
                }
                (inner, plain) = (owner, *group == [Frame::Plain]);
                break;
            }
            let jumps = match inner {
                Some(inner) => transfers.jump(owner?, inner),
                None if plain => transfers.jumps_out(owner?),
                // Push thunks are not shown.
                None => transfers.jumps_to_thunk(owner?),
            };
            if !jumps {
                return None;
            }
            (inner, gone, agreement.tail) = (owner, true, true);
        }
    }
    found.next().is_none().then_some(agreement)
}

/// The parts of a chain that are one function of the machine code each, with what is inlined there.
fn groups(chain: &[Frame]) -> Vec<&[Frame]> {
    chain.split_inclusive(|frame| !matches!(frame, Frame::Call(_, _, true))).collect()
}

/// The function of a part; `None` for a boundary.
fn owner(group: &[Frame]) -> Option<&str> {
    match group.last() {
        Some(Frame::Call(name, ..) | Frame::Tail(name)) => Some(name),
        _ => None,
    }
}

/// Compares parts of chains. If they agree, returns whether a line is not gdb's.
fn same(found: &[Frame], gdb: &[Frame], symboliser: &[Frame]) -> Option<bool> {
    if found == gdb {
        return Some(false);
    }
    // gdb knows jumps, too, where the debug information lists them.
    if let ([Frame::Tail(name)], [.., Frame::Call(gone, ..)]) = (found, gdb) {
        return (name == gone).then_some(false);
    }
    // If a function does nothing else, gdb takes the function inlined in it for the function itself.
    if let ([inner @ .., Frame::Call(name, line, false)], Some((Frame::Call(a, own, true), rest))) =
        (gdb, found.get(..gdb.len()).and_then(<[Frame]>::split_last))
        && found == symboliser
        && (name, line) == (a, own)
        && inner == rest
    {
        return Some(true);
    }
    // A call that was merged from several has also lost the calls that were inlined around them.
    if let (Some(Frame::Call(a, ..)), Some(Frame::Call(b, ..)), [Frame::Call(c, 0, false)]) =
        (found.last(), gdb.last(), symboliser)
    {
        return (a == b && a == c).then_some(true);
    }
    let all = found.len() == gdb.len()
        && found.len() == symboliser.len()
        && found.iter().zip(gdb).zip(symboliser).all(|frames| match frames {
            ((Frame::Call(name, line, inlined), Frame::Call(a, own, b)), Frame::Call(c, other, d)) => {
                (name, inlined) == (a, b)
                    && (name, inlined) == (c, d)
                    && (line == own || line == other || *other == 0)
            }
            ((found, gdb), _) => found == gdb,
        });
    all.then_some(true)
}
