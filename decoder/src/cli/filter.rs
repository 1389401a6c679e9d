//! `pcce filter`.
//!
//! One thread reads blocks of whole lines, several threads decode them, and the main thread writes. Blocks go to
//! the decoding threads in turn, and results are taken in the same turn, so the order stays. Each thread holds a
//! few blocks at most, which bounds the memory. A block is sent as soon as a line is complete, so a running log
//! is shown without delay.

mod logs;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::Context;
use pcce::filter::{Census, Failures, Filter, Words, is_token_byte};
use pcce::json_lines::{Field, JsonLines};
use pcce::render::Format;
use pcce::session::Session;
use pcce::store;

use self::logs::{Logs, content};
use super::sources::{Sources, wait_for_numbers};
use super::{FilterArgs, FilterFormat, Status};

/// The most bytes of one read.
const CHUNK: usize = 1 << 20;
/// The length from which on a line is split in two.
const MAX_LINE: usize = 1 << 26;
/// The most blocks that wait for a decoding thread, and the most results of a thread that wait for the writer.
const WAITING: usize = 4;
/// The most decoding threads. More of them would wait for the writer.
const MAX_THREADS: usize = 16;

/// A message of the reading thread.
enum Input {
    /// Whole lines, and the number of the first one.
    Block(Vec<u8>, u64),
    /// The input has ended, for this reason.
    End(anyhow::Result<()>),
}

/// A message of a decoding thread.
enum Result {
    /// A part of the output of a block. More follows.
    Part(Vec<u8>),
    /// The rest of a block's output, and the number of bytes of the block.
    Block(Vec<u8>, u64),
    End(anyhow::Result<()>, Box<Failures>, Census),
}

/// Copies the logs to the output, or counts their contexts.
pub fn run(args: &FilterArgs) -> anyhow::Result<Status> {
    let format = match args.format {
        FilterFormat::Text if args.field.is_some() && !args.collapse => Format::Text,
        FilterFormat::Text => Format::Below,
        FilterFormat::Folded => Format::InPlace,
        FilterFormat::Json if args.collapse || args.field.is_some() => Format::Json,
        FilterFormat::Json => {
            anyhow::bail!(
                "`--format json` is for contexts, not for any log: it needs `--collapse` or `--field`"
            )
        }
    };
    // The first file may be a log already: dictionaries are recognised by their content.
    let first = args.dictionary.as_deref();
    let program = first.filter(|first| !is_log(first));
    let paths: Vec<PathBuf> = first
        .filter(|_| program.is_none())
        .into_iter()
        .map(Path::to_owned)
        .chain(args.logs.clone())
        .collect();
    let numbers = args.numbers.as_deref();
    if let (Some(numbers), true) = (numbers, paths.is_empty()) {
        wait_for_numbers(numbers);
    }
    let sources = Arc::new(Sources::open(program, &args.more, &args.dicts, numbers)?);
    let style = args.appearance.style(args.output.is_some())?;
    let logs = Logs::open(&paths)?;
    let mut out = Output::open(args.output.as_deref(), &logs)?;
    let progress = logs.progress(args.output.is_some());

    let available = || thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS));
    let threads = args.jobs.map_or_else(available, NonZero::get);
    let (inputs, results): (Vec<_>, Vec<_>) = (0..threads)
        .map(|_| {
            let (to_worker, input) = sync_channel(WAITING);
            let (result, from_worker) = sync_channel(WAITING);
            let (sources, collapse) = (Arc::clone(&sources), args.collapse);
            let (style, field) = (style.clone(), args.field.as_deref().map(Field::new));
            thread::spawn(move || {
                let session = sources.session(format).styled(&style);
                work(Work::new(session, collapse, field), &input, &result);
            });
            (to_worker, from_worker)
        })
        .unzip();
    let reader = thread::spawn(move || Reader::new(&inputs).all(logs));

    let mut failures = Failures::default();
    let mut census = Census::default();
    let mut ended = 0;
    for from_worker in results.iter().cycle() {
        // A thread that ends without a message has panicked, and the panic was reported.
        let next = || from_worker.recv().context("a thread of pcce ended; please report it");
        let mut result = next()?;
        while let Result::Part(bytes) = result {
            out.write(&bytes)?;
            result = next()?;
        }
        match result {
            Result::Part(_) => unreachable!("they were written"),
            Result::Block(bytes, read) => {
                out.write(&bytes)?;
                out.flush()?;
                progress.inc(read);
            }
            Result::End(why, failed, counted) => {
                why?;
                failures.merge(*failed);
                census.merge(counted);
                ended += 1;
            }
        }
        if ended == threads {
            break;
        }
    }
    progress.finish_and_clear();
    if args.collapse {
        let mut buffered = BufWriter::with_capacity(CHUNK, &mut out.file);
        let failed =
            census.write(|| sources.session(format).styled(&style), threads, args.top, &mut buffered);
        let failed = failed.and_then(|failed| buffered.flush().map(|()| failed));
        failures.merge(failed.with_context(|| out.name.clone())?);
    }
    let starts = reader.join().unwrap_or_default();
    Ok(report(&failures, args.collapse, |line| place(&paths, &starts, line)))
}

/// Returns whether a file is a log: it can be read, and its content is not that of a dictionary or a program.
fn is_log(path: &Path) -> bool {
    path.is_file() && File::open(path).is_ok() && !store::is_dictionary(path)
}

/// The log and the line in it, for a line's number over all logs. `starts` has the number of each log's first
/// line.
fn place(logs: &[PathBuf], starts: &[u64], line: u64) -> String {
    let number = starts.partition_point(|start| *start <= line).saturating_sub(1);
    match (logs.get(number), starts.get(number)) {
        (Some(log), Some(start)) if logs.len() > 1 => format!("{}: line {}", log.display(), line - start + 1),
        _ => format!("line {line}"),
    }
}

/// Reports the tokens that were not decoded. `place` shows a line, given its number.
fn report(failures: &Failures, collapse: bool, place: impl Fn(u64) -> String) -> Status {
    if let Some((line, failure)) = &failures.left.first {
        let left = if collapse { "not counted" } else { "left as they are" };
        let at = place(*line);
        super::message(&match failures.left.count {
            1 => format!("1 token was not decoded: {at}: {failure}"),
            count => format!("{count} tokens were not decoded, and {left}; the first one: {at}: {failure}"),
        });
    }
    if let Some((line, error)) = &failures.not_json.first {
        super::message(&format!(
            "tokens in lines that are no JSON objects (--field) were not decoded: {} lines; the first one: {}: {error}",
            failures.not_json.count,
            place(*line)
        ));
    }
    for (id, counted) in &failures.missing {
        super::message(&format!(
            "no dictionary was given for the module with build id {id}, and its calls are left out in {} contexts; \
             give the shared library, or its dictionary, with --dict FILE",
            counted.count
        ));
    }
    if failures.is_empty() { Status::Done } else { Status::Failed }
}

/// The destination of the result.
struct Output {
    name: String,
    file: Box<dyn Write>,
}

impl Output {
    fn open(path: Option<&Path>, logs: &Logs) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self { name: "standard output".to_owned(), file: Box::new(io::stdout().lock()) });
        };
        let name = path.display().to_string();
        if logs.contain(path) {
            anyhow::bail!("{name}: this is one of the logs, which would be lost; write to another file");
        }
        let file = File::create(path).with_context(|| format!("{name}: cannot be written"))?;
        Ok(Self { name, file: Box::new(file) })
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(bytes).with_context(|| self.name.clone())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.file.flush().with_context(|| self.name.clone())
    }
}

/// The work on the blocks of a thread.
enum Work<'d> {
    Filter(Box<Filter<'d>>),
    JsonLines(Box<JsonLines<'d>>),
    Count(Box<Count>),
}

/// The tokens that were counted so far.
struct Count {
    census: Census,
    words: Words,
    /// In JSON lines, the member with the token.
    field: Option<Field>,
    failures: Failures,
}

impl<'d> Work<'d> {
    fn new(session: Session<'d>, collapse: bool, field: Option<Field>) -> Self {
        match field {
            field if collapse => {
                let (census, words) = (Census::default(), session.words());
                Self::Count(Box::new(Count { census, words, field, failures: Failures::default() }))
            }
            Some(field) => Self::JsonLines(Box::new(JsonLines::new(session, field))),
            None => Self::Filter(Box::new(Filter::new(session))),
        }
    }

    /// Returns the output of a block. `full` is called when the output is long, and may take it.
    fn block(&mut self, text: &[u8], line: u64, full: impl FnMut(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        let mut reserve = || out.reserve(text.len() + text.len() / 8);
        match self {
            Self::Filter(filter) => {
                reserve();
                filter.text(text, line, &mut out, full);
            }
            Self::JsonLines(lines) => {
                reserve();
                lines.text(text, line, &mut out, full);
            }
            Self::Count(count) => match &count.field {
                None => count.census.text(text, line, count.words),
                Some(field) => {
                    count.census.json_lines(text, line, count.words, field, &mut count.failures);
                }
            },
        }
        out
    }

    fn end(self) -> (Failures, Census) {
        match self {
            Self::Filter(filter) => (filter.failures, Census::default()),
            Self::JsonLines(lines) => (lines.failures, Census::default()),
            Self::Count(count) => (count.failures, count.census),
        }
    }
}

/// Works until the input ends, or the writer has gone.
fn work(mut work: Work<'_>, input: &Receiver<Input>, result: &SyncSender<Result>) {
    for input in input {
        let sent = match input {
            Input::Block(text, line) => {
                // If the writer has gone, sending the block's end fails, too, and ends the loop.
                let out = work.block(&text, line, |out| _ = result.send(Result::Part(std::mem::take(out))));
                Result::Block(out, text.len() as u64)
            }
            Input::End(why) => {
                let (failures, census) = work.end();
                let _ = result.send(Result::End(why, Box::new(failures), census));
                return;
            }
        };
        if result.send(sent).is_err() {
            return;
        }
    }
}

/// Reads whole lines, and sends them to the decoding threads in turn.
struct Reader<'t> {
    turn: std::iter::Cycle<std::slice::Iter<'t, SyncSender<Input>>>,
    threads: usize,
    /// The number of the next line, from 1.
    line: u64,
}

impl<'t> Reader<'t> {
    fn new(threads: &'t [SyncSender<Input>]) -> Self {
        Self { turn: threads.iter().cycle(), threads: threads.len(), line: 1 }
    }

    /// Reads one log after the other, up to one that cannot be read. Returns the number of each log's first line.
    fn all(mut self, logs: Logs) -> Vec<u64> {
        let mut starts = Vec::new();
        let mut why = Ok(());
        for (name, file) in logs.0 {
            starts.push(self.line);
            match content(file).and_then(|log| self.read(log)) {
                // Sending fails if the process is about to end.
                Ok(false) => return starts,
                Ok(true) => {}
                Err(error) => {
                    why = Err(error).context(name);
                    break;
                }
            }
        }
        let mut why = Some(why);
        for thread in self.turn.by_ref().take(self.threads) {
            let _ = thread.send(Input::End(why.take().unwrap_or(Ok(()))));
        }
        starts
    }

    /// Sends lines to the next thread. Returns whether it still runs.
    fn send(&mut self, block: &[u8]) -> bool {
        let first = self.line;
        self.line += memchr::memchr_iter(b'\n', block).count() as u64;
        self.turn.next().is_some_and(|thread| thread.send(Input::Block(block.to_vec(), first)).is_ok())
    }

    /// Reads a log to its end. Returns false if the decoding threads have gone.
    fn read(&mut self, mut input: impl Read) -> io::Result<bool> {
        let mut buffer = vec![0; CHUNK];
        let mut filled = 0;
        loop {
            if filled == buffer.len() {
                if filled >= MAX_LINE {
                    // The line is split before a word if possible, so that no token is cut.
                    let end =
                        buffer.iter().rposition(|byte| !is_token_byte(*byte)).map_or(filled, |at| at + 1);
                    if !self.send(&buffer[..end]) {
                        return Ok(false);
                    }
                    buffer.copy_within(end..filled, 0);
                    filled -= end;
                } else {
                    buffer.resize(buffer.len() * 2, 0);
                }
            }
            let count = match input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // The lines before the error are decoded.
                    self.send(&buffer[..filled]);
                    return Err(error);
                }
            };
            let new = filled;
            filled += count;
            if let Some(at) = memchr::memrchr(b'\n', &buffer[new..filled]) {
                let end = new + at + 1;
                if !self.send(&buffer[..end]) {
                    return Ok(false);
                }
                buffer.copy_within(end..filled, 0);
                filled -= end;
                if filled < CHUNK {
                    buffer.truncate(CHUNK);
                }
            }
        }
        if filled > 0 && !self.send(&buffer[..filled]) {
            return Ok(false);
        }
        // A last line without a line feed counts as well.
        self.line += u64::from(filled > 0);
        Ok(true)
    }
}
