//! make's job server. A process that runs further jobs takes a token for each, and puts it back. Every
//! process has one token already.
//!
//! The tokens are bytes in a pipe that `MAKEFLAGS` names. The pipe is opened again, so that it can be read
//! without blocking, while other readers' descriptors stay as they are.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The job server of a `make`.
pub struct Server {
    read: File,
    write: File,
}

/// The right to run a job. It is given back when it is dropped.
pub struct Token<'a> {
    byte: [u8; 1],
    server: &'a Server,
}

impl Server {
    /// The server that `MAKEFLAGS` names, if this process can reach it: make hides it from commands that it
    /// does not take for a make.
    pub fn of(makeflags: &OsStr) -> Option<Self> {
        let words = makeflags.as_bytes().split(|byte| *byte == b' ');
        // Definitions of variables follow.
        let options = words.take_while(|word| *word != b"--");
        let auth = |word| {
            let own = <[u8]>::strip_prefix(word, b"--jobserver-auth=");
            own.or_else(|| <[u8]>::strip_prefix(word, b"--jobserver-fds="))
        };
        let auth = options.filter_map(auth).last()?;
        let (read, write) = match auth.strip_prefix(b"fifo:") {
            Some(path) => (PathBuf::from(OsStr::from_bytes(path)), PathBuf::from(OsStr::from_bytes(path))),
            None => {
                let text = str::from_utf8(auth).ok()?;
                let (read, write) = text.split_once(',')?;
                (of_descriptor(read)?, of_descriptor(write)?)
            }
        };
        let file = |path: &Path| fs::metadata(path).ok().filter(|data| data.file_type().is_fifo());
        let (from, to) = (file(&read)?, file(&write)?);
        // The descriptors may belong to other files by now.
        if (from.dev(), from.ino()) != (to.dev(), to.ino()) {
            return None;
        }
        let no_wait = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
        let read = OpenOptions::new().read(true).custom_flags(no_wait).open(read).ok()?;
        let write = OpenOptions::new().write(true).custom_flags(no_wait).open(write).ok()?;
        Some(Self { read, write })
    }

    /// Takes a token; none if no token is free.
    ///
    /// # Errors
    /// The server is gone.
    pub fn take(&self) -> io::Result<Option<Token<'_>>> {
        let mut byte = [0];
        match (&self.read).read(&mut byte) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(Some(Token { byte, server: self })),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        // The pipe has room for a token that was taken from it.
        let _ = (&self.server.write).write_all(&self.byte);
    }
}

fn of_descriptor(number: &str) -> Option<PathBuf> {
    let number: u32 = number.parse().ok()?;
    Some(format!("/proc/self/fd/{number}").into())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    /// Takes all free tokens, and returns their number.
    fn count(server: &Server) -> usize {
        let mut held = Vec::new();
        while let Some(token) = server.take().unwrap() {
            held.push(token);
        }
        held.len()
    }

    #[test]
    fn tokens_are_taken_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a fifo");
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("fifo")).status().unwrap();
        assert!(made.success());
        let fifo = folder.path().join("fifo");
        let mut keep = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        keep.write_all(b"+ab").unwrap();
        let flags = |auth: &str| Server::of(OsStr::new(&format!("ks -j4 {auth} -- X=--jobserver-auth=1,2")));
        let named = flags(&format!("--jobserver-auth=fifo:{}", fifo.display())).unwrap();
        let number = keep.as_raw_fd();
        let numbered = flags(&format!("--jobserver-fds={number},{number}")).unwrap();
        for server in [&named, &numbered, &named] {
            assert_eq!(count(server), 3);
        }
        let token = named.take().unwrap();
        assert_eq!(count(&numbered), 2);
        drop(token);
        assert_eq!(count(&numbered), 3);
        // These are no servers of this process.
        let other = File::open("/dev/null").unwrap();
        for auth in [
            "--jobserver-auth=-2,-2".to_owned(),
            "--jobserver-auth=3".to_owned(),
            "--jobserver-auth=99999,99998".to_owned(),
            format!("--jobserver-auth={number},{}", other.as_raw_fd()),
            format!("--jobserver-auth=fifo:{}", path.display()),
            "--jobserver-auth=fifo:/dev/null".to_owned(),
            String::new(),
        ] {
            assert!(flags(&auth).is_none(), "{auth}");
        }
    }
}
