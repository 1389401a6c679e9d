// A static library that unwinds, and then calls back.
#[no_mangle]
pub extern "C" fn from_rust(callback: extern "C" fn(i32), n: i32) -> i32 {
    let caught = std::panic::catch_unwind(|| { if n > 0 { panic!("unwinds") } });
    callback(n + 1);
    caught.is_err() as i32
}
