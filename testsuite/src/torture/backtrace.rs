//! gdb's backtraces of core files.
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::chain::{Frame, add, is_push_thunk};
use crate::repository;

#[derive(Debug, Deserialize)]
pub struct Backtrace {
    pub threads: Vec<BacktraceThread>,
}

#[derive(Debug, Deserialize)]
pub struct BacktraceThread {
    pub thread: i32,
    pub frames: Vec<BacktraceFrame>,
}

#[derive(Debug, Deserialize)]
pub struct BacktraceFrame {
    /// True for the innermost frame and one interrupted by a signal: it is not at a call.
    #[serde(default)]
    exact: bool,
    function: Option<String>,
    line: u64,
    inlined: bool,
    signal: bool,
    plain: bool,
    pc: u64,
}

impl BacktraceFrame {
    /// An address in the frame's instruction. A return address is the one after the call.
    pub(super) fn lookup(&self) -> u64 {
        self.pc.wrapping_sub(u64::from(!self.exact))
    }
}

/// gdb's backtraces of core files.
pub fn backtraces(program: &Path, cores: &[PathBuf], folder: &Path) -> Result<Vec<Backtrace>> {
    let (list, out) = (folder.join("list"), folder.join("backtraces"));
    let names: String = cores.iter().map(|core| format!("{}\n", core.display())).collect();
    fs::write(&list, names)?;
    let script = repository().join("testsuite/crash/backtrace.py");
    let output = Command::new("gdb")
        .args(["-nx", "-q", "-batch"])
        // Reading the C library's debug information again and again would take longer than everything else.
        .args(["-ex", "set debug-file-directory /nonexistent"])
        .arg(program)
        .arg("-x")
        .arg(script)
        .env("CORES", &list)
        .env("BACKTRACES", &out)
        .output();
    crate::checked("gdb", output)?;
    let text = fs::read_to_string(&out).context("gdb has printed nothing; is it built with Python?")?;
    let mut rows: Vec<Backtrace> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    for thread in rows.iter_mut().flat_map(|row| &mut row.threads) {
        thread.frames.retain(|frame| !frame.function.as_deref().is_some_and(is_push_thunk));
    }
    ensure!(rows.len() == cores.len(), "gdb has read {} of {} core files", rows.len(), cores.len());
    Ok(rows)
}

/// The chain of a backtrace; it ends with `outermost`.
pub fn chain(frames: &[BacktraceFrame], outermost: &str) -> Vec<Frame> {
    let mut chain = Vec::new();
    for frame in frames {
        let function = frame.function.clone().unwrap_or_default();
        if frame.signal {
            chain.push(Frame::Boundary("signal".to_owned()));
        } else if frame.plain {
            add(&mut chain, Frame::Plain);
        } else {
            let last = function == outermost && !frame.inlined;
            chain.push(Frame::Call(function, frame.line, frame.inlined));
            if last {
                break;
            }
        }
    }
    chain
}

/// The addresses of a backtrace's functions.
pub(super) fn lookups(frames: &[BacktraceFrame]) -> impl Iterator<Item = (u64, bool)> + '_ {
    let physical = frames.iter().filter(|f| !f.inlined);
    physical.map(|frame| (frame.lookup(), frame.plain))
}

/// The chain as LLVM's symboliser sees gdb's addresses.
pub(super) fn by_symboliser(names: &HashMap<u64, Vec<Frame>>, frames: &[BacktraceFrame]) -> Vec<Frame> {
    let mut chain = Vec::new();
    for (address, plain) in lookups(frames) {
        let found = names.get(&address).filter(|_| !plain).cloned().unwrap_or_else(|| vec![Frame::Plain]);
        let last = found.last().is_some_and(|f| matches!(f, Frame::Call(name, ..) if name == "main"));
        found.into_iter().for_each(|f| add(&mut chain, f));
        if last {
            break;
        }
    }
    chain
}
