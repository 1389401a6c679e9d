//! Crash reports (docs/formats.md): of the runtime library, and of core files in the same format.

use std::fmt::Write as _;

use crate::token::is_start;

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
    /// The program's build id, in hexadecimal digits; empty without one.
    pub build_id: String,
    pub process: Option<i32>,
    /// The file in which it has recorded its calls, if it has.
    pub trace: Option<String>,
    pub signal: Option<Signal>,
    /// The threads, the one that crashed first.
    pub threads: Vec<Thread>,
    /// The missing parts, with the reasons.
    pub incomplete: Vec<String>,
    /// False if it ends before its last line.
    pub is_whole: bool,
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's number, if it is known.
    pub number: Option<i32>,
    pub name: Option<String>,
    /// The signal with which it has crashed, too.
    pub also_crashed: Option<Signal>,
    pub context: Context,
}

/// The context of a thread in a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context {
    /// The token and, after `+`, the tokens of where the thread comes from.
    Token(String),
    /// There is none, for this reason, as the report says it.
    Missing(String),
}

impl Default for Context {
    fn default() -> Self {
        Self::Missing("none".to_owned())
    }
}

impl Context {
    /// The token and, after `+`, the tokens of where the thread comes from.
    pub fn token(&self) -> Option<&str> {
        match self {
            Self::Token(token) => Some(token),
            Self::Missing(_) => None,
        }
    }
}

impl From<&str> for Context {
    fn from(value: &str) -> Self {
        if is_start(value.as_bytes()) {
            Self::Token(value.to_owned())
        } else {
            Self::Missing(value.to_owned())
        }
    }
}

/// Reads the crash reports in a text. It may have other lines between them.
pub fn read(text: &str) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for line in text.lines() {
        if line.as_bytes().starts_with(FIRST_KEY) {
            reports.push(Report::default());
            continue;
        }
        if let (Some(report), Some((key, value))) = (reports.last_mut(), line.split_once(": "))
            && !report.is_whole
        {
            report.read_line(key, value);
        }
    }
    reports
}

impl Signal {
    /// Reads `NAME (NUMBER), code CODE (MEANING)`.
    fn read(text: &str) -> Option<Self> {
        let (number, rest) = text.split_once('(')?.1.split_once(')')?;
        let code = rest.strip_prefix(", code ").and_then(|code| code.split(' ').next()?.parse().ok());
        Some(Self { number: number.parse().ok()?, code, address: None, sender: None })
    }

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
    fn read_line(&mut self, key: &str, value: &str) {
        let number = |text: &str| text.parse().ok();
        match (key, self.threads.last_mut(), &mut self.signal) {
            ("program", ..) => value.clone_into(&mut self.program),
            ("build-id", ..) if value != "none" => value.clone_into(&mut self.build_id),
            ("process", ..) => self.process = number(value),
            ("trace", ..) => self.trace = Some(value.to_owned()),
            ("signal", ..) => self.signal = Signal::read(value),
            ("address", _, Some(signal)) => {
                signal.address =
                    value.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
            }
            ("sent-by", _, Some(signal)) => signal.sender = value.strip_prefix("process ").and_then(number),
            ("thread", ..) => {
                let (digits, name) = value.split_once(' ').map_or((value, None), |(n, name)| (n, Some(name)));
                self.threads.push(Thread {
                    number: number(digits),
                    name: name.map(str::to_owned),
                    ..Thread::default()
                });
            }
            ("also-crashed", Some(thread), _) => thread.also_crashed = Signal::read(value),
            ("context", Some(thread), _) => thread.context = Context::from(value),
            ("incomplete", ..) => self.incomplete.push(value.to_owned()),
            ("end", ..) => self.is_whole = true,
            _ => {}
        }
    }

    /// The token of the thread that crashed and, after `+`, the tokens of where it comes from.
    pub fn token(&self) -> Option<&str> {
        self.threads.first()?.context.token()
    }

    /// The name of the signal.
    pub fn signal_name(&self) -> &str {
        self.signal.as_ref().and_then(Signal::name).unwrap_or("signal")
    }

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
            let (Context::Token(context) | Context::Missing(context)) = &thread.context;
            let number = thread.number.map_or_else(|| "unknown".to_owned(), |number| number.to_string());
            let _ = writeln!(out, "thread: {number}\ncontext: {context}");
        }
        out.push_str("end: complete\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "pcce-crash-report: 1
program: /srv/app
build-id: 00ff
process: 7
trace: /srv/app.trace
signal: SIGSEGV (11), code 1 (SEGV_MAPERR)
address: 0x1f
thread: 9 worker one
context: pcce1.AQAI
thread: unknown
also-crashed: SIGABRT (6), code -6 (SI_TKILL)
context: no answer
incomplete: the other threads cannot be listed: Operation not permitted (error 1)
end: complete
";

    #[test]
    fn reports_are_read() {
        let signal = Signal { number: 11, code: Some(1), address: Some(0x1f), sender: None };
        let also = Signal { number: 6, code: Some(-6), address: None, sender: None };
        let whole = Report {
            program: "/srv/app".to_owned(),
            build_id: "00ff".to_owned(),
            process: Some(7),
            trace: Some("/srv/app.trace".to_owned()),
            signal: Some(signal),
            threads: vec![
                Thread {
                    number: Some(9),
                    name: Some("worker one".to_owned()),
                    also_crashed: None,
                    context: Context::Token("pcce1.AQAI".to_owned()),
                },
                Thread {
                    number: None,
                    name: None,
                    also_crashed: Some(also),
                    context: Context::Missing("no answer".to_owned()),
                },
            ],
            incomplete: vec![
                "the other threads cannot be listed: Operation not permitted (error 1)".to_owned(),
            ],
            is_whole: true,
        };
        // Other text surrounds the report, and the next one ends early.
        let text =
            format!("thread: 1\n{TEXT}program: cat\npcce-crash-report: 1\nbuild-id: none\nsignal: ?\n");
        assert_eq!(read(&text), [whole, Report::default()]);
        let [ours, read_again] = [TEXT, &read(TEXT)[0].text()].map(|text| read(text).remove(0));
        assert_eq!(
            (ours.signal, ours.process, ours.token()),
            (read_again.signal, read_again.process, read_again.token())
        );
    }
}
