//! Lines of text for people, appended to a file.

use core::fmt::Write as _;

use crate::output::{FileName, How, write_all};
use crate::sys;

/// A line of text in a fixed buffer; what does not fit is dropped.
struct Line {
    text: [u8; 512],
    len: usize,
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let room = self.text.len() - 1 - self.len;
        let taken = s.len().min(room);
        self.text[self.len..self.len + taken].copy_from_slice(&s.as_bytes()[..taken]);
        self.len += taken;
        Ok(())
    }
}

/// Appends a line to the file; to standard error if it has no name, or cannot be opened.
pub fn print_to(file: &FileName, args: core::fmt::Arguments<'_>) {
    let mut line = Line { text: [0; 512], len: 0 };
    let _ = line.write_fmt(args);
    line.text[line.len] = b'\n';
    let bytes = &line.text[..=line.len];
    match if file.is_named() { file.open(How::Append, 0) } else { Err(0) } {
        Ok(opened) => {
            let error = write_all(opened, bytes);
            sys::close(opened);
            if error != 0 {
                file.report_error(0, error);
                write_all(libc::STDERR_FILENO, bytes);
            }
        }
        Err(_) => {
            write_all(libc::STDERR_FILENO, bytes);
        }
    }
}
