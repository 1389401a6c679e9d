//! `pcce filter`.
//!
//! One thread reads blocks of whole lines, several decode, and this one writes. Block after block goes to the next
//! decoding thread in turn, and the results are taken in the same turn, so the order stays. Each thread holds a
//! few blocks: memory is bounded. A block is sent off as soon as a line is complete, so that nobody who looks at a
//! running log waits.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use pcce::Decoder;
use pcce::filter::{Census, Failures, Filter, is_token_byte};
use pcce::render::Format;
use pcce::session::Session;

use super::{FilterArgs, FilterFormat, Status};

/// How much is read in one go, at most.
const CHUNK: usize = 1 << 20;
/// A longer line is taken for two.
const MAX_LINE: usize = 1 << 26;
/// Blocks that wait for a thread, and results that wait for the writer.
const WAITING: usize = 4;
/// More threads would wait for the one that writes.
const MAX_THREADS: usize = 16;

/// What the reading thread sends.
enum Input {
    /// Whole lines, and the number of the first one.
    Block(Vec<u8>, u64),
    /// There is no more input, for this reason.
    End(io::Result<()>),
}

/// What a decoding thread sends.
enum Result {
    /// What is to be written, and more follows.
    Part(Vec<u8>),
    /// What is to be written, and of how many bytes of input.
    Block(Vec<u8>, u64),
    End(io::Result<()>, Box<Failures>, Census),
}

/// Copies standard input to standard output, or counts its contexts.
pub fn run(args: &FilterArgs) -> anyhow::Result<Status> {
    let format = match args.format {
        FilterFormat::Text => Format::Below,
        FilterFormat::Folded => Format::InPlace,
        FilterFormat::Json if args.collapse => Format::Json,
        FilterFormat::Json => {
            anyhow::bail!("`--format json` is for contexts, not for a log: it needs `--collapse`")
        }
    };
    let decoder = Arc::new(super::decoder(&args.dictionary, &args.more)?);

    let threads = thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS));
    let (inputs, results): (Vec<_>, Vec<_>) = (0..threads)
        .map(|_| {
            let (to_worker, input) = sync_channel(WAITING);
            let (result, from_worker) = sync_channel(WAITING);
            let (decoder, collapse) = (Arc::clone(&decoder), args.collapse);
            thread::spawn(move || work(&decoder, format, collapse, &input, &result));
            (to_worker, from_worker)
        })
        .unzip();
    thread::spawn(move || read(io::stdin().lock(), &inputs));

    let progress = progress();
    let mut out = io::stdout().lock();
    let mut failures = Failures::default();
    let mut census = Census::default();
    let mut ended = 0;
    let mut status = Status::Done;
    for from_worker in results.iter().cycle() {
        // A thread that ends without a word has panicked, and has said so.
        let next = || from_worker.recv().context("a thread of pcce ended; please report it");
        let mut result = next()?;
        while let Result::Part(bytes) = result {
            out.write_all(&bytes).context("standard output")?;
            result = next()?;
        }
        match result {
            Result::Part(_) => unreachable!("they were written"),
            Result::Block(bytes, read) => {
                out.write_all(&bytes).and_then(|()| out.flush()).context("standard output")?;
                progress.inc(read);
            }
            Result::End(why, failed, counted) => {
                why.context("standard input")?;
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
        let mut out = BufWriter::with_capacity(CHUNK, out);
        let failed = census.write(Session::new(&decoder, format), &mut out);
        failures = failed.and_then(|failed| out.flush().map(|()| failed)).context("standard output")?;
    }
    if let Some((line, failure)) = &failures.left.first {
        let count = failures.left.count;
        let left = if args.collapse { "not counted" } else { "left as they are" };
        super::message(&match count {
            1 => format!("1 token was not decoded: line {line}: {failure}"),
            _ => {
                format!("{count} tokens were not decoded, and {left}; the first one: line {line}: {failure}")
            }
        });
        status = Status::Failed;
    }
    for (id, counted) in &failures.missing {
        super::message(&format!(
            "no dictionary was given for the module with build id {id}, and its calls are left out in {} traces; \
             give the shared library, or its dictionary, with --dict FILE",
            counted.count
        ));
        status = Status::Failed;
    }
    Ok(status)
}

/// A progress bar on standard error, where someone looks at it who does not see the output, and the end is known.
fn progress() -> ProgressBar {
    let input = File::from(match io::stdin().as_fd().try_clone_to_owned() {
        Ok(input) => input,
        Err(_) => return ProgressBar::hidden(),
    });
    match input.metadata() {
        Ok(data) if data.is_file() && !io::stdout().is_terminal() => {
            // Hidden where standard error is no terminal.
            let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec}");
            ProgressBar::new(data.len()).with_style(style.expect("it is a template"))
        }
        _ => ProgressBar::hidden(),
    }
}

/// Decodes blocks until there are no more, or nobody takes them.
fn work(
    decoder: &Decoder,
    format: Format,
    collapse: bool,
    input: &Receiver<Input>,
    result: &SyncSender<Result>,
) {
    let mut filter = Filter::new(Session::new(decoder, format));
    let mut census = Census::default();
    for input in input {
        let sent = match input {
            Input::Block(text, line) if collapse => {
                census.text(&text, line);
                Result::Block(Vec::new(), text.len() as u64)
            }
            Input::Block(text, line) => {
                let mut out = Vec::with_capacity(text.len() + text.len() / 8);
                // Where nobody takes it, the block's end is not taken either.
                filter.text(&text, line, &mut out, |out| _ = result.send(Result::Part(std::mem::take(out))));
                Result::Block(out, text.len() as u64)
            }
            Input::End(why) => {
                let _ = result.send(Result::End(why, Box::new(std::mem::take(&mut filter.failures)), census));
                return;
            }
        };
        if result.send(sent).is_err() {
            return;
        }
    }
}

/// Reads whole lines, and gives them to the threads in turn.
fn read(mut input: impl Read, threads: &[SyncSender<Input>]) {
    let mut buffer = vec![0; CHUNK];
    let (mut filled, mut line) = (0, 1);
    let mut turn = threads.iter().cycle();
    let mut send = |block: &[u8]| {
        let first = line;
        line += memchr::memchr_iter(b'\n', block).count() as u64;
        // Nobody takes it when the process is about to end.
        turn.next().is_some_and(|thread| thread.send(Input::Block(block.to_vec(), first)).is_ok())
    };
    let why = loop {
        if filled == buffer.len() {
            if filled >= MAX_LINE {
                // Not in a token, if that can be.
                let end = buffer.iter().rposition(|byte| !is_token_byte(*byte)).map_or(filled, |at| at + 1);
                if !send(&buffer[..end]) {
                    return;
                }
                buffer.copy_within(end..filled, 0);
                filled -= end;
            } else {
                buffer.resize(buffer.len() * 2, 0);
            }
        }
        let count = match input.read(&mut buffer[filled..]) {
            Ok(0) => break Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break Err(error),
        };
        let new = filled;
        filled += count;
        if let Some(at) = memchr::memrchr(b'\n', &buffer[new..filled]) {
            let end = new + at + 1;
            if !send(&buffer[..end]) {
                return;
            }
            buffer.copy_within(end..filled, 0);
            filled -= end;
            if filled < CHUNK {
                buffer.truncate(CHUNK);
            }
        }
    };
    if filled > 0 {
        send(&buffer[..filled]);
    }
    let mut why = Some(why);
    for thread in turn.take(threads.len()) {
        let _ = thread.send(Input::End(why.take().unwrap_or(Ok(()))));
    }
}
