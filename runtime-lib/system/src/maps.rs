//! The mappings of the process, as the kernel lists them in `/proc/self/maps`.

use core::ffi::c_int;

use crate::sys;

/// Calls `each` with each line of the list, or its first bytes, and reads the list `times` times. False if the kernel
/// does not show it.
pub fn each_line(times: u32, mut each: impl FnMut(&[u8])) -> bool {
    // SAFETY: a plain call.
    let maps = unsafe { sys::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
    if maps < 0 {
        return false;
    }
    for _ in 0..times {
        // SAFETY: a plain call.
        unsafe { sys::call(libc::SYS_lseek, [maps as usize, 0, libc::SEEK_SET as usize, 0, 0, 0]) };
        lines(maps as c_int, &mut each);
    }
    sys::close(maps as c_int);
    true
}

fn lines(file: c_int, each: &mut impl FnMut(&[u8])) {
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

/// A line of the list.
#[derive(Clone, Copy)]
pub struct Mapping<'l> {
    pub low: usize,
    pub high: usize,
    /// It can be read and written.
    pub is_writable: bool,
    pub is_shared: bool,
    pub offset: usize,
    /// Device, as two numbers, and inode.
    pub file: [usize; 3],
    /// The file's path, the kernel's name for the mapping in brackets, or nothing.
    pub name: &'l [u8],
}

impl<'l> Mapping<'l> {
    /// Parses a line as `7f12-7f13 rw-s 00010000 fe:00 123 /path`.
    pub fn parse(line: &'l [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| byte.is_ascii_whitespace()).filter(|field| !field.is_empty());
        let number =
            |digits: &[u8], radix: u32| usize::from_str_radix(str::from_utf8(digits).ok()?, radix).ok();
        let pair = |field: &'_ [u8], between: u8| {
            let at = field.iter().position(|&byte| byte == between)?;
            Some([number(&field[..at], 16)?, number(&field[at + 1..], 16)?])
        };
        let [low, high] = pair(fields.next()?, b'-')?;
        let flags = fields.next()?;
        let offset = number(fields.next()?, 16)?;
        let [major, minor] = pair(fields.next()?, b':')?;
        let inode = number(fields.next()?, 10)?;
        Some(Self {
            low,
            high,
            is_writable: flags.starts_with(b"rw"),
            is_shared: flags.get(3) == Some(&b's'),
            offset,
            file: [major, minor, inode],
            name: fields.next().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_known_by_its_line() {
        let line = b"7f1200000000-7f1200010000 rw-s 00020000 fe:01 123                        /tmp/a trace";
        let mapping = Mapping::parse(line).expect("a mapping");
        assert_eq!(
            (mapping.low, mapping.high, mapping.is_shared),
            (0x7f12_0000_0000, 0x7f12_0001_0000, true)
        );
        assert_eq!((mapping.offset, mapping.file), (0x20000, [0xfe, 1, 123]));
        assert_eq!((mapping.is_writable, mapping.name), (true, &b"/tmp/a"[..]));
        let code = Mapping::parse(b"400000-401000 r-xp 00000000 00:00 0").expect("a mapping");
        assert_eq!((code.is_writable, code.is_shared, code.name), (false, false, &b""[..]));
        assert!(Mapping::parse(b"400000 r-xp").is_none());
    }

    #[test]
    fn the_stack_is_mapped() {
        let (here, mut times) = (0, 0);
        let here = &raw const here as usize;
        assert!(each_line(2, |line| {
            let mapping = Mapping::parse(line).expect("a mapping");
            times += u32::from(mapping.is_writable && (mapping.low..mapping.high).contains(&here));
        }));
        assert_eq!(times, 2);
    }
}
