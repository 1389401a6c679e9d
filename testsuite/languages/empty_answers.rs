// Without the pass there is no context, and panics unwind through the runtime.
use std::os::raw::c_char;
extern "C" {
    fn pcce_context() -> u64;
    fn pcce_token(buf: *mut c_char, size: usize) -> usize;
}
fn main() {
    let caught = std::panic::catch_unwind(|| { if std::env::args().count() > 0 { panic!("unwinds") } });
    let mut buffer = [1 as c_char; 64];
    let (length, number) = unsafe { (pcce_token(buffer.as_mut_ptr(), 64), pcce_context()) };
    println!("{} {length} {} {number}", caught.is_err(), buffer[0]);
}
