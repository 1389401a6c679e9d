//! `pcce decode`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pcce::Decoder;
use pcce::crash_report;
use pcce::filter;
use pcce::render::Format;
use pcce::session::{MAX_CALLS, Outcome, Session, number};
use pcce::style::Style;
use pcce::token::{BuildId, is_start};
use serde_json::Value;

use super::sources::{Sources, wait_for_numbers};
use super::{CoreArgs, CoreFormat, DecodeArgs, Status};

/// The least number of bytes that one read of standard input asks for.
const CHUNK: usize = 1 << 18;
/// The length of the longest line that can be a token: such a token has a million pushed frames.
const MAX_LINE: usize = 1 << 26;
/// The most modules without dictionary that a message names.
const MAX_NAMED: usize = 64;

/// Decodes the tokens of the command line, or those on standard input.
pub fn run(args: &DecodeArgs) -> anyhow::Result<Status> {
    let first = args.dictionary.as_ref();
    // The word is a token or a number, and no file has this name.
    let is_token =
        |first: &&str| (is_start(first) || number(first.as_bytes()).is_some()) && !Path::new(first).exists();
    let token = first.and_then(|first| first.to_str()).filter(is_token);
    let program = first.filter(|_| token.is_none());
    let tokens: Vec<String> = token.map(str::to_owned).into_iter().chain(args.tokens.clone()).collect();
    let style = args.appearance.style(false)?;
    let program = program.map(PathBuf::as_path);
    if let (Some(numbers), true) = (&args.numbers, tokens.is_empty()) {
        wait_for_numbers(numbers);
    }
    let sources = Sources::open(program, &args.more, &args.dicts, args.numbers.as_deref())?;
    let session = sources.session(args.format.into()).styled(&style);
    let mut output = Output::new(&sources.decoder, session, args.across_threads);
    let size = if args.across_threads { 2 } else { 1 };
    if tokens.len() > 1 && !tokens.len().is_multiple_of(size) {
        anyhow::bail!(
            "--across-threads takes pairs, TOKEN THREADTOKEN, and the last of the {} words has no partner; give \"\" for the \
             thread's token of the main thread",
            tokens.len()
        );
    }
    let result = if tokens.is_empty() {
        if io::stdin().is_terminal() {
            super::note("reading tokens from this terminal, one a line");
        }
        output.lines(io::stdin().lock())
    } else {
        tokens
            .chunks(size)
            .try_for_each(|words| {
                let token = join(words.iter().map(|word| word.trim()));
                output.token(token.as_bytes(), || abbreviate(&words[0]))
            })
            .and_then(|()| output.flush())
    };
    // The status reports tokens that failed, even if the reader of the output has gone.
    match result {
        Err(error) if output.status == Status::Done || !super::is_closed_pipe(&error) => Err(error),
        _ => Ok(output.status),
    }
}

/// Writes the contexts of numbers that a core file's process has given.
pub fn numbers(decoder: &Decoder, args: &CoreArgs) -> anyhow::Result<Status> {
    let format = match args.format {
        CoreFormat::Text => Format::Text,
        CoreFormat::Json => Format::Json,
    };
    let session = Session::new(decoder, format).styled(&args.appearance.style(false)?);
    let mut output = Output::new(decoder, session, false);
    args.numbers
        .iter()
        .try_for_each(|number| output.token(number.trim().as_bytes(), || abbreviate(number)))?;
    output.flush()?;
    Ok(output.status)
}

/// Decodes a token to a JSON object with `frames` or `error`. The session's format must be JSON.
pub fn as_json(session: &mut Session<'_>, token: &str) -> anyhow::Result<(Outcome, Value)> {
    let mut out = Vec::new();
    let outcome = session.decode(token.as_bytes(), &mut out)?;
    Ok((outcome, serde_json::from_slice(&out).context("a decoded token")?))
}

/// Writes a crash report with the contexts in it decoded.
pub fn report(decoder: &Decoder, report: &crash_report::Report, style: &Style) -> anyhow::Result<Status> {
    let mut output = Output::new(decoder, Session::new(decoder, Format::Text).styled(style), false);
    output.lines(report.text().as_bytes())?;
    Ok(output.status)
}

/// Decodes tokens, one after the other, to standard output.
pub struct Output<'d> {
    decoder: &'d Decoder,
    session: Session<'d>,
    format: Format,
    across_threads: bool,
    out: BufWriter<io::StdoutLock<'static>>,
    named: HashSet<BuildId>,
    /// True if the input is a crash report.
    report: bool,
    /// The text before the number of a line: the file and a colon, or nothing.
    file: String,
    status: Status,
}

impl<'d> Output<'d> {
    pub fn new(decoder: &'d Decoder, session: Session<'d>, across_threads: bool) -> Self {
        Self {
            decoder,
            format: session.format(),
            session: session.bounded(MAX_CALLS),
            across_threads,
            out: BufWriter::with_capacity(CHUNK, io::stdout().lock()),
            named: HashSet::new(),
            report: false,
            file: String::new(),
            status: Status::Done,
        }
    }

    /// Says whether all tokens were decoded so far.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Decodes the crash reports of a file.
    pub fn reports(&mut self, file: &Path, text: &[u8]) -> anyhow::Result<()> {
        self.file = format!("{}: ", file.display());
        self.lines(text)
    }

    /// Decodes each line that is not blank. The results of complete lines are written before the next read, which may
    /// block.
    fn lines(&mut self, mut input: impl Read) -> anyhow::Result<()> {
        let mut buffer = vec![0; CHUNK];
        let mut filled = 0;
        let mut line_number = 0_u64;
        // True if the line is too long, and its start was dropped.
        let mut overlong = false;
        loop {
            if filled == buffer.len() {
                buffer.resize(buffer.len() * 2, 0);
            }
            let count = match input.read(&mut buffer[filled..]) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.flush()?;
                    return Err(error).context("standard input");
                }
            };
            let new = filled;
            filled += count;
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', &buffer[new..filled]).map(|end| new + end) {
                line_number += 1;
                if !std::mem::take(&mut overlong) {
                    self.line(&buffer[start..end], line_number)?;
                }
                start = end + 1;
            }
            if count == 0 {
                if filled > 0 && !overlong {
                    self.line(&buffer[..filled], line_number + 1)?;
                }
                return self.flush();
            }
            buffer.copy_within(start..filled, 0);
            filled -= start;
            if overlong {
                filled = 0;
            } else if filled > MAX_LINE {
                let message =
                    format!("line {}: not a context token: longer than {MAX_LINE} bytes", line_number + 1);
                self.fail(&message)?;
                overlong = true;
                filled = 0;
                buffer.truncate(CHUNK);
            }
            self.flush()?;
        }
    }

    #[inline]
    fn line(&mut self, line: &[u8], number: u64) -> anyhow::Result<()> {
        let token = line.trim_ascii();
        self.report |= token.starts_with(crash_report::FIRST_KEY);
        if self.report {
            return self.report_line(token, number);
        }
        if token.is_empty() {
            return Ok(());
        }
        let file = self.file.clone();
        let place = || format!("{file}line {number}");
        if self.across_threads {
            let token = token.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            return self.token(&token.collect::<Vec<_>>().join(&b'+'), place);
        }
        self.token(token, place)
    }

    /// Writes a line of a crash report. A line with a context becomes the decoded context; other lines are
    /// copied.
    fn report_line(&mut self, line: &[u8], number: u64) -> anyhow::Result<()> {
        let text = self.format == Format::Text;
        if line.starts_with(crash_report::FIRST_KEY) {
            self.session.set_of_program(false);
        } else if let Some(build_id) = line.strip_prefix(crash_report::BUILD_ID_KEY) {
            let build_id = str::from_utf8(build_id).unwrap_or_default();
            self.session.learn(build_id);
            self.session.set_of_program(self.decoder.has_build(build_id));
        }
        if let Some(token) = line.strip_prefix(crash_report::CONTEXT_KEY).filter(|token| is_start(token)) {
            self.session.restart();
            let file = self.file.clone();
            self.token(token, || format!("{file}line {number}"))?;
        } else if text && !line.is_empty() {
            let line = String::from_utf8_lossy(line);
            let line = super::printable(&line);
            writeln!(self.out, "{line}").context("standard output")?;
            return Ok(());
        }
        if text { self.out.write_all(b"\n").context("standard output") } else { Ok(()) }
    }

    #[inline]
    fn token(&mut self, token: &[u8], place: impl Fn() -> String) -> anyhow::Result<()> {
        match self.session.decode(token, &mut self.out).context("standard output")? {
            Outcome::Decoded => Ok(()),
            Outcome::Incomplete => self.incomplete(),
            Outcome::Failed(_) if self.format == Format::Json => {
                self.status = Status::Failed;
                Ok(())
            }
            Outcome::Failed(failure)
                if filter::tokens(token, filter::Words::Tokens).any(|place| place != (0..token.len())) =>
            {
                let hint = "there is a token in this line: `pcce filter` decodes the tokens in a log";
                self.fail(&format!("{}: {failure}; {hint}", place()))
            }
            Outcome::Failed(failure) => self.fail(&format!("{}: {failure}", place())),
        }
    }

    #[cold]
    fn incomplete(&mut self) -> anyhow::Result<()> {
        self.status = Status::Failed;
        let missing: Vec<_> = self.session.missing().filter(|id| !self.named.contains(id)).collect();
        for id in missing {
            if self.named.len() < MAX_NAMED && self.named.insert(id) {
                self.fail(&format!(
                    "no dictionary was given for the module with build id {id}, and its calls are left out; give \
                     the shared library, or its dictionary, with --dict FILE"
                ))?;
            }
        }
        Ok(())
    }

    /// Writes a message, after the output so far was flushed.
    #[cold]
    fn fail(&mut self, message: &str) -> anyhow::Result<()> {
        self.status = Status::Failed;
        self.flush()?;
        super::message(message);
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.out.flush().context("standard output")
    }
}

/// A token, and the token of its thread, which may be empty.
fn join<'w>(words: impl Iterator<Item = &'w str>) -> Cow<'w, str> {
    words
        .map(Cow::Borrowed)
        .reduce(|token, thread| if thread.is_empty() { token } else { token + "+" + thread })
        .unwrap_or_default()
}

/// A token for messages: a long one is cut.
fn abbreviate(token: &str) -> String {
    let mut start: String = token.chars().take(24).flat_map(char::escape_debug).collect();
    if token.chars().nth(24).is_some() {
        start.push('…');
    }
    start
}
