//! Crash reports (docs/formats.md): those that the runtime library writes, and the same of core files.

use std::fmt::Write as _;

/// The beginning of a report's first line.
pub const FIRST_KEY: &[u8] = b"pcce-crash-report:";
/// The beginning of the line with the program's build id.
pub const BUILD_ID_KEY: &[u8] = b"build-id: ";
/// The beginning of a line with a thread's context.
pub const CONTEXT_KEY: &[u8] = b"context: ";

/// A crash report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub program: String,
    /// Its build id, in hexadecimal digits; empty without one.
    pub build_id: String,
    pub process: Option<i32>,
    /// The file in which it has recorded its calls, if it has.
    pub trace: Option<String>,
    pub signal: Option<Signal>,
    /// The threads, the one that crashed first.
    pub threads: Vec<Thread>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    pub number: i32,
    /// The kernel's `si_code`, if it is known.
    pub code: Option<i32>,
    /// The address of a fault, if it is known.
    pub address: Option<u64>,
    /// The process that has sent the signal.
    pub sender: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub number: i32,
    /// Its context and, behind `+`, that of its creation.
    pub context: Option<String>,
}

/// A crash report as the runtime library has written it, as far as it is about the thread that crashed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub program: String,
    /// The program's build id, in hexadecimal digits; `none` without one.
    pub build_id: String,
    /// The signal with its number and its code.
    pub signal: String,
    /// The context of the thread that crashed; empty if it is not there.
    context: String,
}

impl Written {
    /// The name of the signal.
    pub fn signal_name(&self) -> &str {
        self.signal.split(' ').next().unwrap_or_default()
    }

    /// The token of the thread that crashed and, behind `+`, that of its creation.
    pub fn token(&self) -> Option<&str> {
        crate::token::is_start(self.context.as_bytes()).then_some(&*self.context)
    }
}

/// Reads the crash reports in a text, between which other lines may stand.
pub fn read(text: &str) -> Vec<Written> {
    let mut reports: Vec<Written> = Vec::new();
    let mut threads = 0;
    for line in text.lines() {
        if line.as_bytes().starts_with(FIRST_KEY) {
            reports.push(Written::default());
            threads = 0;
            continue;
        }
        let (Some(report), Some((key, value))) = (reports.last_mut(), line.split_once(": ")) else {
            continue;
        };
        match key {
            "program" => value.clone_into(&mut report.program),
            "build-id" => value.clone_into(&mut report.build_id),
            "signal" => value.clone_into(&mut report.signal),
            "thread" => threads += 1,
            "context" if threads == 1 => value.clone_into(&mut report.context),
            _ => {}
        }
    }
    reports
}

impl Signal {
    /// The name, for signals with which programs crash.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self.number {
            3 => "SIGQUIT",
            4 => "SIGILL",
            5 => "SIGTRAP",
            6 => "SIGABRT",
            7 => "SIGBUS",
            8 => "SIGFPE",
            11 => "SIGSEGV",
            15 => "SIGTERM",
            24 => "SIGXCPU",
            31 => "SIGSYS",
            _ => return None,
        })
    }

    pub fn meaning(&self) -> Option<&'static str> {
        Some(match (self.number, self.code?) {
            (_, 0) => "SI_USER",
            (_, -1) => "SI_QUEUE",
            (_, -6) => "SI_TKILL",
            (_, 0x80) => "SI_KERNEL",
            (11, 1) => "SEGV_MAPERR",
            (11, 2) => "SEGV_ACCERR",
            (7, 1) => "BUS_ADRALN",
            (7, 2) => "BUS_ADRERR",
            (8, 1) => "FPE_INTDIV",
            (4, 2) => "ILL_ILLOPN",
            _ => return None,
        })
    }
}

impl Report {
    /// The text that the runtime library would have written.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let build_id = if self.build_id.is_empty() { "none" } else { &self.build_id };
        let _ = writeln!(out, "pcce-crash-report: 1\nprogram: {}\nbuild-id: {build_id}", self.program);
        if let Some(process) = self.process {
            let _ = writeln!(out, "process: {process}");
        }
        if let Some(trace) = &self.trace {
            let _ = writeln!(out, "trace: {trace}");
        }
        if let Some(signal) = &self.signal {
            let _ = write!(out, "signal: {} ({})", signal.name().unwrap_or("signal"), signal.number);
            if let Some(code) = signal.code {
                let _ = write!(out, ", code {code}");
            }
            if let Some(meaning) = signal.meaning() {
                let _ = write!(out, " ({meaning})");
            }
            out.push('\n');
            if let Some(address) = signal.address {
                let _ = writeln!(out, "address: {address:#x}");
            }
            if let Some(sender) = signal.sender {
                let _ = writeln!(out, "sent-by: process {sender}");
            }
        }
        for thread in &self.threads {
            let context = thread.context.as_deref().unwrap_or("none");
            let _ = writeln!(out, "thread: {}\ncontext: {context}", thread.number);
        }
        out.push_str("end: complete\n");
        out
    }
}
