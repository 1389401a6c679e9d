//! Compresses a trace, also while it is being written (casper.txt §5.6).
//!
//! The threads' output stays as it is: another process compresses each chunk when it has ended, and frees its
//! place on the disk. Chunks can be in any order in a file, so open ones may be compressed later than the
//! chunks that follow them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use pcce_abi::trace::{
    CHUNK_HEAD, CONTINUED, Chunk, FIRST, HEAD, KIND_IMAGE, RING, SYNCED, SYNCED_FOR, UNIT,
};
use rustix::fs::FallocateFlags;
use thiserror::Error;
use zeekstd::SeekTable;
use zstd_safe::{CCtx, CParameter};

use super::TraceError;
use super::compressed::{FRAME, is_compressed};
use super::file::{check_head, chunk_size, u32_at};
use crate::source::Source;

/// Errors of compressing a trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompressError {
    #[error("{path}")]
    Trace { path: PathBuf, source: TraceError },
    /// The trace is compressed already.
    #[error("{0}: it is compressed already")]
    Already(PathBuf),
    /// The program is running, and writes over the oldest chunks.
    #[error(
        "{0}: a program that is running keeps a ring in it (PCCE_TRACE_RING), and goes on to write over its chunks; \
         compress the trace when the program has ended"
    )]
    Ring(PathBuf),
    #[error("{0}: compressing was stopped; the trace is as it was")]
    Stopped(PathBuf),
    /// The compressed file cannot be written.
    #[error("{path}: cannot be written")]
    Output { path: PathBuf, source: io::Error },
    /// The compressed file could not be written any more. No chunk is lost: each is in one of the files.
    #[error(
        "{path}: {cause}; some of the trace's chunks are in this file only by now, and others in {trace} only: pcce \
         reads each of them, with gaps"
    )]
    Parted {
        /// The compressed file.
        path: PathBuf,
        trace: PathBuf,
        cause: io::Error,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compression {
    /// Bytes of the trace that were compressed.
    pub read: u64,
    /// Bytes that were written for them.
    pub written: u64,
    /// True if a program is still writing the trace.
    pub is_used: bool,
}

/// Compresses a trace, and removes it. As long as programs write the trace, this waits for more. `progress` is
/// called now and then, and returns whether to go on.
///
/// # Errors
/// [`CompressError`]. Unless it says otherwise, the trace is as it was.
pub fn compress(
    trace: &Path,
    to: &Path,
    progress: &mut dyn FnMut(Compression) -> bool,
) -> Result<Compression, CompressError> {
    let of_trace = |source| CompressError::Trace { path: trace.to_owned(), source };
    let of_system = |source: io::Error| of_trace(source.into());
    let opened = OpenOptions::new().read(true).write(true).open(trace).map_err(of_system)?;
    let lock = opened.try_clone().map_err(of_system)?;
    let from = Source::File(opened);
    if is_compressed(&from).map_err(of_system)? {
        return Err(CompressError::Already(trace.to_owned()));
    }
    await_head(&from).map_err(of_trace)?;
    let of_output = |source| CompressError::Output { path: to.to_owned(), source };
    let output = File::create_new(to).map_err(of_output)?;
    let context = CCtx::create();
    let mut job =
        Job { from, output, context, table: SeekTable::new(), done: Compression::default(), freed: false };
    let mut result = job.run(&lock, progress);
    if result.is_ok() || job.freed {
        // Chunks whose place was freed are in the new file only, so that file must get its table in any case.
        let finished = job.finish();
        result = result.and(finished.map_err(Cause::System));
    }
    if let Err(cause) = result {
        if job.freed {
            return Err(parted(trace, to, cause));
        }
        let _ = fs::remove_file(to);
        return Err(match cause {
            Cause::System(source) => of_output(source),
            Cause::Ring => CompressError::Ring(trace.to_owned()),
            Cause::Stopped => CompressError::Stopped(trace.to_owned()),
        });
    }
    // A program that started while nobody used the file may have replaced it by a new one. The lock has been held
    // since, so the name does not change any more.
    if is_at(trace, &lock).map_err(of_system)? {
        fs::remove_file(trace).map_err(of_system)?;
    }
    Ok(job.done)
}

/// A program that starts creates its trace first and writes its head then.
fn await_head(trace: &Source) -> Result<(), TraceError> {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let since = Instant::now();
    loop {
        let mut head = [0; 16];
        let read = trace.read(&mut head, 0)?;
        let is_begun = head != [0; 16];
        match check_head(&head[..read]) {
            Err(TraceError::NoTrace) if !is_begun && since.elapsed() < TIMEOUT => {
                thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// Returns whether the path leads to this file.
fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn parted(trace: &Path, to: &Path, cause: Cause) -> CompressError {
    let cause = match cause {
        Cause::System(source) => source,
        Cause::Ring => {
            io::Error::other("a program that keeps a ring (PCCE_TRACE_RING) writes the trace, too")
        }
        Cause::Stopped => io::Error::other("compressing was stopped, and a program goes on to write"),
    };
    CompressError::Parted { path: to.to_owned(), trace: trace.to_owned(), cause }
}

enum Cause {
    System(io::Error),
    Ring,
    Stopped,
}

impl From<io::Error> for Cause {
    fn from(source: io::Error) -> Self {
        Self::System(source)
    }
}

/// A chunk that is not compressed yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    at: u64,
    size: u64,
    /// True if it describes an image, which readers of other chunks need.
    is_image: bool,
}

/// An error of zstd, by its number.
fn failed(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

struct Job {
    from: Source,
    output: File,
    context: CCtx<'static>,
    table: SeekTable,
    done: Compression,
    /// True if a chunk's place on the disk was freed.
    freed: bool,
}

impl Job {
    /// Pause between two looks for more chunks.
    const PAUSE: Duration = Duration::from_millis(50);
    /// The signal that stops this process may stop the program, too. This is the time that the program gets
    /// to end.
    const GRACE: Duration = Duration::from_millis(500);

    fn run(&mut self, lock: &File, progress: &mut dyn FnMut(Compression) -> bool) -> Result<(), Cause> {
        self.context.set_parameter(CParameter::ChecksumFlag(true)).map_err(failed)?;
        let head = self.head()?;
        self.write(&head, HEAD as usize)?;
        // The file may have no more than its head yet. The chunks keep their offsets.
        self.copy(HEAD, FIRST - HEAD)?;
        let mut waiting = Vec::new();
        let mut next = FIRST;
        let mut stopped: Option<Instant> = None;
        loop {
            // Processes that write the file hold its lock.
            let is_used = match lock.try_lock() {
                Ok(()) => self.is_announced()?,
                Err(TryLockError::WouldBlock) => true,
                Err(TryLockError::Error(error)) => return Err(error.into()),
            };
            self.done.is_used = is_used;
            while let Some(chunk) = self.chunk_at(next)? {
                waiting.push(chunk);
                next += chunk.size;
            }
            if !is_used {
                break;
            }
            lock.unlock()?;
            let before = self.done;
            let mut open = Vec::new();
            for chunk in std::mem::take(&mut waiting) {
                if !self.has_ended(chunk)? {
                    open.push(chunk);
                    continue;
                }
                if stopped.is_some_and(|since| since.elapsed() > Self::GRACE) {
                    return Err(Cause::Stopped);
                }
                // A process that keeps a ring has said so before it began its first chunk.
                if self.word(RING)? != 0 {
                    return Err(Cause::Ring);
                }
                self.copy(chunk.at, chunk.size)?;
                if !chunk.is_image {
                    self.free_place(chunk);
                }
                if !progress(self.done) {
                    stopped.get_or_insert_with(Instant::now);
                }
            }
            waiting = open;
            if !progress(self.done) && stopped.get_or_insert_with(Instant::now).elapsed() > Self::GRACE {
                return Err(Cause::Stopped);
            }
            if self.done == before {
                thread::sleep(Self::PAUSE);
            }
        }
        let len = self.from.len()?;
        for chunk in waiting {
            self.copy(chunk.at, chunk.size.min(len - chunk.at))?;
            self.may_go_on(progress)?;
        }
        // The rest was allocated, but has no intact chunk: none was begun there, or it is damaged.
        while next < len {
            match self.chunk_at(next)? {
                Some(chunk) => {
                    self.copy(next, chunk.size.min(len - next))?;
                    next += chunk.size;
                }
                None => {
                    self.copy(next, UNIT.min(len - next))?;
                    next += UNIT;
                }
            }
            self.may_go_on(progress)?;
        }
        Ok(())
    }

    /// Goes on to the end if a chunk's place was freed already: the rest is short, and with it all chunks are in
    /// one file.
    fn may_go_on(&self, progress: &mut dyn FnMut(Compression) -> bool) -> Result<(), Cause> {
        if progress(self.done) || self.freed { Ok(()) } else { Err(Cause::Stopped) }
    }

    /// The chunk that begins there.
    fn chunk_at(&self, at: u64) -> io::Result<Option<Waiting>> {
        let mut head = [0; CHUNK_HEAD as usize];
        let is_whole = self.from.read(&mut head, at)? == head.len();
        let is_image = u32_at(&head, offset_of!(Chunk, kind)) == KIND_IMAGE;
        Ok(chunk_size(&head).filter(|_| is_whole).map(|size| Waiting { at, size, is_image }))
    }

    /// Returns whether the chunk is no longer being written.
    fn has_ended(&self, chunk: Waiting) -> io::Result<bool> {
        let mut head = [0; CHUNK_HEAD as usize];
        self.from.read(&mut head, chunk.at)?;
        // What the thread wrote before it ended the chunk is read after this.
        fence(Ordering::Acquire);
        Ok(chunk.is_image || u32_at(&head, offset_of!(Chunk, end)) == CONTINUED)
    }

    fn word(&self, at: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.from.read(&mut word, at)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Returns whether a process is about to become another program, which goes on with the file.
    fn is_announced(&self) -> io::Result<bool> {
        let synced = self.word(SYNCED)?;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_sec as u64;
        let process = rustix::process::Pid::from_raw(synced as u32 as i32);
        let lives = process.is_some_and(|process| rustix::process::test_kill_process(process).is_ok());
        Ok(lives && (now & u64::from(u32::MAX)).wrapping_sub(synced >> 32) < SYNCED_FOR)
    }

    /// Compresses bytes of the trace. The head of a chunk is a frame of its own, so that it is read alone.
    fn copy(&mut self, at: u64, size: u64) -> io::Result<()> {
        let mut content = vec![0; FRAME.min(size as usize)];
        let mut done = 0;
        while done < size {
            let most = if at >= HEAD && done == 0 { CHUNK_HEAD } else { FRAME as u64 };
            let wanted = most.min(size - done) as usize;
            let read = self.from.read(&mut content[..wanted], at + done)?;
            // The file was truncated meanwhile. The chunks after this one keep their offsets.
            content[read..wanted].fill(0);
            self.frame(&content[..wanted])?;
            done += wanted as u64;
        }
        Ok(())
    }

    fn frame(&mut self, content: &[u8]) -> io::Result<()> {
        let compressed = self.compressed(content)?;
        self.write(&compressed, content.len())
    }

    /// The frame of `content`, in a buffer with room for the frame of any content of this length.
    fn compressed(&mut self, content: &[u8]) -> io::Result<Vec<u8>> {
        let mut compressed = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
        self.context.compress2(&mut compressed, content).map_err(failed)?;
        Ok(compressed)
    }

    /// Writes a frame of `content` bytes, and adds it to the table.
    fn write(&mut self, compressed: &[u8], content: usize) -> io::Result<()> {
        self.output.write_all(compressed)?;
        self.table.log_frame(compressed.len() as u32, content as u32).map_err(io::Error::other)?;
        self.done.read += content as u64;
        self.done.written += compressed.len() as u64;
        Ok(())
    }

    /// The trace's head as it is now, in a frame whose size does not depend on it: the program goes on to count there,
    /// so the frame is written again at the end.
    fn head(&mut self) -> io::Result<Vec<u8>> {
        let mut head = [0; HEAD as usize];
        self.from.read(&mut head, 0)?;
        let mut frame = self.compressed(&head)?;
        // A frame that readers of zstd skip: its magic number and its size, and as many bytes.
        let rest = zstd_safe::compress_bound(head.len()) - frame.len();
        frame.extend(
            zstd_safe::MAGIC_SKIPPABLE_START.to_le_bytes().into_iter().chain((rest as u32).to_le_bytes()),
        );
        frame.resize(frame.len() + rest, 0);
        Ok(frame)
    }

    /// Frees the place of a chunk on the disk, where the file system can.
    fn free_place(&mut self, chunk: Waiting) {
        let Source::File(file) = &self.from else { return };
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.freed |= rustix::fs::fallocate(file, hole, chunk.at, chunk.size).is_ok();
    }

    fn finish(&mut self) -> io::Result<()> {
        let head = self.head()?;
        self.output.write_all_at(&head, 0)?;
        let mut table = std::mem::take(&mut self.table).into_serializer();
        self.done.written += io::copy(&mut table, &mut self.output)?;
        self.output.flush()
    }
}
