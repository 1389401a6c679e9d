//! Contexts of a Rust program: recursion, trait objects, closures, panics that unwind
//! and are caught, a thread, a hook for panics. What must come out stands in `tests/suite/rust.rs`.

use std::ffi::{CStr, c_char};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

unsafe extern "C" {
    fn pcce_token(buf: *mut c_char, size: usize) -> usize;
}

#[inline(always)]
fn show(name: &str) {
    let mut token = [0u8; 512];
    // SAFETY: it writes at most that many bytes, with a zero at the end.
    unsafe { pcce_token(token.as_mut_ptr().cast(), token.len()) };
    println!("@{name} {}", CStr::from_bytes_until_nul(&token).unwrap().to_str().unwrap());
}

#[inline(never)]
fn recursion(n: u32) {
    if n == 0 {
        show("recursion");
    } else {
        recursion(black_box(n - 1));
        black_box(());
    }
}

trait Shape {
    fn area(&self) -> u32;
}

struct Square(u32);

impl Shape for Square {
    fn area(&self) -> u32 {
        show("square");
        self.0 * self.0
    }
}

struct Rectangle(u32, u32);

impl Shape for Rectangle {
    fn area(&self) -> u32 {
        show("rectangle");
        self.0 * self.1
    }
}

#[inline(never)]
fn measure(shape: &dyn Shape) -> u32 {
    black_box(shape).area() + 1
}

#[inline(never)]
fn apply<F: Fn(u32) -> u32>(f: F) -> u32 {
    f(black_box(3)) + 1
}

#[inline(never)]
fn boxed(f: Box<dyn Fn(u32) -> u32>) -> u32 {
    f(black_box(3)) + 1
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        show("drop");
    }
}

#[inline(never)]
fn panics(n: u32) -> u32 {
    let _guard = Guard;
    assert!(n > 0, "on purpose");
    panics(black_box(n - 1)) + 1
}

#[inline(never)]
fn catches(n: u32) {
    let caught = catch_unwind(|| panics(black_box(n)));
    show("caught");
    println!("{}", caught.is_err());
}

fn main() {
    recursion(black_box(2));
    println!("{} {}", measure(&Square(2)), measure(&Rectangle(2, 3)));
    let k = black_box(5);
    let closure = |x| {
        show("closure");
        x + k
    };
    println!("{}", apply(closure));
    let closure = move |x| {
        show("boxed");
        x + k
    };
    println!("{}", boxed(Box::new(closure)));
    let mut numbers = [3, 1];
    numbers.sort_by(|a, b| {
        show("sort");
        a.cmp(b)
    });
    if cfg!(panic = "unwind") {
        catches(black_box(1));
        // A panic that ends a thread is caught there, and goes on here.
        let thread = std::thread::spawn(|| {
            show("thread");
            panics(black_box(0));
        });
        let panic = thread.join().unwrap_err();
        let result = catch_unwind(AssertUnwindSafe(|| resume_unwind(panic)));
        println!("{}", result.is_err());
    }
    show("main");
    // It is called where the panic is, whatever becomes of that.
    std::panic::set_hook(Box::new(|_| {
        show("hook");
        std::process::exit(0)
    }));
    panics(black_box(1));
}
