//! The logs that are read: files or standard input, compressed or not.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use flate2::bufread::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};

/// The logs that are read, with their names.
pub struct Logs(pub Vec<(String, File)>);

impl Logs {
    pub fn open(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let open = |path: &PathBuf| {
            let name = path.display().to_string();
            let file = File::open(path).with_context(|| format!("{name}: cannot be read"))?;
            anyhow::Ok((name, file))
        };
        if !paths.is_empty() {
            return paths.iter().map(open).collect::<anyhow::Result<_>>().map(Self);
        }
        if io::stdin().is_terminal() {
            crate::cli::note(
                "reading the log from this terminal; give files behind the program to read those",
            );
        }
        let input = io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        Ok(Self(vec![("standard input".to_owned(), File::from(input))]))
    }

    /// A progress bar on standard error. It is hidden if the output goes to the terminal, or if the length of the
    /// content is not known, as for compressed logs.
    pub fn progress(&self, to_file: bool) -> ProgressBar {
        let length = |file: &File| {
            let len = file.metadata().ok().filter(|data| data.is_file())?.len();
            let mut start = [0; MAX_MAGIC];
            let read = file.read_at(&mut start, 0).ok()?;
            matches!(compression(&start[..read]), Compression::None).then_some(len)
        };
        let lengths: Option<Vec<u64>> = self.0.iter().map(|(_, file)| length(file)).collect();
        match lengths {
            Some(lengths) if to_file || !io::stdout().is_terminal() => {
                // Hidden where standard error is no terminal.
                let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec}");
                ProgressBar::new(lengths.iter().sum()).with_style(style.expect("it is a template"))
            }
            _ => ProgressBar::hidden(),
        }
    }

    /// Returns whether one of them is the file at this path.
    pub fn contain(&self, path: &Path) -> bool {
        let identity = |data: fs::Metadata| (data.dev(), data.ino());
        let Ok(existing) = fs::metadata(path).map(identity) else { return false };
        let is_this = |file: &File| file.metadata().is_ok_and(|data| identity(data) == existing);
        self.0.iter().any(|(_, file)| is_this(file))
    }
}

/// How a file is compressed.
enum Compression {
    None,
    Gzip,
    Zstd,
    /// In another format, which is not read. This tool decompresses it.
    Other(&'static str),
    /// Not known yet: the bytes read are only the beginning of a magic number.
    Unknown,
}

/// Bound on the first bytes that show the compression.
const MAX_MAGIC: usize = 10;

/// The magic numbers of compressed files.
const BEGINNINGS: [(&[u8], Compression); 8] = [
    (b"\x1f\x8b\x08", Compression::Gzip),
    (&zstd::zstd_safe::MAGICNUMBER.to_le_bytes(), Compression::Zstd),
    (b"\xfd7zXZ\0", Compression::Other("xz")),
    (b"\x04\x22\x4d\x18", Compression::Other("lz4")),
    (b"\x1f\x9d", Compression::Other("uncompress")),
    (b"LZIP", Compression::Other("lzip")),
    (b"PK\x03\x04", Compression::Other("unzip")),
    // A digit follows `BZh`.
    (b"BZh", Compression::Other("bzip2")),
];

fn compression(start: &[u8]) -> Compression {
    const SKIPPED: [u8; 3] = *b"\x2a\x4d\x18";
    const BLOCK: &[u8] = b"1AY&SY";
    // Skippable frames of zstd.
    if matches!(start.first(), Some(0x50..=0x5f)) && start.len() < 4 && SKIPPED.starts_with(&start[1..]) {
        return Compression::Unknown;
    }
    if matches!(start, [0x50..=0x5f, rest @ ..] if rest.starts_with(&SKIPPED)) {
        return Compression::Zstd;
    }
    for (beginning, compression) in BEGINNINGS {
        if beginning.starts_with(start) && start.len() < beginning.len() {
            return Compression::Unknown;
        }
        if !start.starts_with(beginning) {
            continue;
        }
        // Text may begin with these letters, too.
        if matches!(compression, Compression::Other("bzip2")) {
            let rest = start.get(4..).unwrap_or_default();
            return match rest.starts_with(BLOCK) {
                true => compression,
                false if BLOCK.starts_with(rest) => Compression::Unknown,
                false => Compression::None,
            };
        }
        return compression;
    }
    Compression::None
}

/// The content of a log, decompressed if needed.
///
/// # Errors
/// Errors of reading it, and one if it is compressed otherwise than by gzip or zstd.
pub fn content(mut file: File) -> io::Result<Box<dyn Read>> {
    let mut start = Vec::new();
    // Reads no more than is needed to know: users of a running log wait for its first line.
    let found = loop {
        let found = if start.is_empty() { Compression::Unknown } else { compression(&start) };
        if !matches!(found, Compression::Unknown) {
            break found;
        }
        let mut more = [0; MAX_MAGIC];
        match file.read(&mut more) {
            Ok(0) => break Compression::None,
            Ok(count) => start.extend_from_slice(&more[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    let whole = BufReader::with_capacity(1 << 16, Cursor::new(start).chain(file));
    match found {
        Compression::None | Compression::Unknown => Ok(Box::new(whole)),
        Compression::Gzip => Ok(Box::new(MultiGzDecoder::new(whole))),
        Compression::Zstd => Ok(Box::new(zstd::Decoder::with_buffer(whole)?)),
        Compression::Other(tool) => Err(io::Error::other(format!(
            "it is compressed, but not by gzip or zstd; write it with `{tool}` to standard output, and that to the \
             standard input of this command"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_not_taken_for_compressed_files() {
        let is_plain = |start: &[u8]| matches!(compression(start), Compression::None);
        for text in ["a", "Z", "BZhello, world", "BZh91 files", "LZI", "PKzip", "Px", "\u{1f}x", "\u{4}\""] {
            let plain =
                is_plain(text.as_bytes()) || matches!(compression(text.as_bytes()), Compression::Unknown);
            assert!(plain, "{text}");
        }
        assert!(is_plain(b"a"));
        assert!(is_plain(b"BZh91 files"));
        assert!(matches!(compression(b"BZh91AY&SY"), Compression::Other("bzip2")));
        assert!(matches!(compression(b"\x1f"), Compression::Unknown));
        assert!(matches!(compression(b"\x50\x2a\x4d\x18"), Compression::Zstd));
        assert!(matches!(compression(b"PK\x03\x04"), Compression::Other("unzip")));
    }
}
