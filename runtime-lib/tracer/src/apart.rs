//! Keeps a forked child from writing to its parent's chunks: interrupted code of the tracer may go on in both.

use core::ffi::c_int;

use crate::abi::trace::HEAD;
use crate::{file, sys};

/// Interrupted code of the tracer may still write to the parent's chunks. From here on such writes have no effect: the
/// mapped parts of the file are copies, except for the head.
pub fn keep() {
    let Some((file, head)) = file::mapped() else { return };
    // SAFETY: a plain call.
    let maps = unsafe { sys::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
    if maps < 0 {
        return;
    }
    // The line with the head says which file it is.
    let mut which = None;
    for _ in 0..2 {
        // SAFETY: a plain call.
        unsafe { sys::call(libc::SYS_lseek, [maps as usize, 0, libc::SEEK_SET as usize, 0, 0, 0]) };
        lines(maps as c_int, |line| {
            let Some(mapping) = Mapping::parse(line) else { return };
            match which {
                None if (mapping.low..mapping.high).contains(&head) => which = Some(mapping.file),
                Some(ours) if ours == mapping.file && mapping.is_shared => mapping.copy(file, head),
                _ => {}
            }
        });
    }
    sys::close(maps as c_int);
}

/// Calls something with each line of a file, or its first bytes.
fn lines(file: c_int, mut each: impl FnMut(&[u8])) {
    const LINE: usize = 128;
    let (mut line, mut len) = ([0; LINE], 0);
    let mut block = [0; 1024];
    while let Ok(read @ 1..) = usize::try_from(sys::read(file, &mut block)) {
        for &byte in &block[..read] {
            match byte {
                b'\n' => {
                    each(&line[..len]);
                    len = 0;
                }
                _ if len < LINE => {
                    line[len] = byte;
                    len += 1;
                }
                _ => {}
            }
        }
    }
}

/// A line of `/proc/self/maps`.
#[derive(Clone, Copy)]
struct Mapping {
    low: usize,
    high: usize,
    is_shared: bool,
    offset: usize,
    /// Device, as two numbers, and inode.
    file: [usize; 3],
}

impl Mapping {
    /// Parses a line as `7f12-7f13 rw-s 00010000 fe:00 123 /path`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty());
        let number =
            |digits: &[u8], radix: u32| usize::from_str_radix(str::from_utf8(digits).ok()?, radix).ok();
        let pair = |field: &'_ [u8], between: u8| {
            let at = field.iter().position(|&byte| byte == between)?;
            Some([number(&field[..at], 16)?, number(&field[at + 1..], 16)?])
        };
        let [low, high] = pair(fields.next()?, b'-')?;
        let is_shared = fields.next()?.get(3) == Some(&b's');
        let offset = number(fields.next()?, 16)?;
        let [major, minor] = pair(fields.next()?, b':')?;
        let inode = number(fields.next()?, 10)?;
        Some(Self { low, high, is_shared, offset, file: [major, minor, inode] })
    }

    /// Replaces the mapping by a copy, but for the head.
    fn copy(self, file: c_int, head: usize) {
        let parts = match (self.low..self.high).contains(&head) {
            true => [(self.low, head), (head + HEAD as usize, self.high)],
            false => [(self.low, self.high), (0, 0)],
        };
        for (low, high) in parts.into_iter().filter(|(low, high)| low < high) {
            let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
            let how = (libc::MAP_PRIVATE | libc::MAP_FIXED) as usize;
            let offset = self.offset + (low - self.low);
            // SAFETY: what is mapped there is the same, and no reference leads to it.
            unsafe { sys::call(libc::SYS_mmap, [low, high - low, access, how, file as usize, offset]) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mapping;

    #[test]
    fn a_mapping_is_known_by_its_line() {
        let line = b"7f1200000000-7f1200010000 rw-s 00020000 fe:01 123                        /tmp/a trace";
        let mapping = Mapping::parse(line).expect("a mapping");
        assert_eq!(
            (mapping.low, mapping.high, mapping.is_shared),
            (0x7f12_0000_0000, 0x7f12_0001_0000, true)
        );
        assert_eq!((mapping.offset, mapping.file), (0x20000, [0xfe, 1, 123]));
        assert!(!Mapping::parse(b"400000-401000 r-xp 00000000 00:00 0").expect("a mapping").is_shared);
        assert!(Mapping::parse(b"400000 r-xp").is_none());
    }
}
