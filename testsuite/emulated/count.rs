//! A plugin of qemu that counts instructions. It appends the number to the file `PCCE_COUNT`.
//!
//! The declarations are those of `qemu-plugin.h`, version 1, which Debian does not package.

use std::ffi::{c_char, c_int, c_void};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// `qemu_plugin_id_t`
type Plugin = u64;
/// `struct qemu_plugin_tb`: instructions that are always executed together.
type Block = c_void;

/// `QEMU_PLUGIN_INLINE_ADD_U64`
const ADD: c_int = 0;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Plugin, translated: extern "C" fn(Plugin, *mut Block));
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    fn qemu_plugin_register_vcpu_tb_exec_inline(block: *mut Block, operation: c_int, to: *mut c_void, value: u64);
    fn qemu_plugin_register_atexit_cb(id: Plugin, end: extern "C" fn(Plugin, *mut c_void), data: *mut c_void);
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// The code that qemu makes adds to it without atomic instructions, so programs must have one thread.
static EXECUTED: AtomicU64 = AtomicU64::new(0);

extern "C" fn translated(_: Plugin, block: *mut Block) {
    // SAFETY: a block that qemu has just translated.
    unsafe {
        let count = qemu_plugin_tb_n_insns(block) as u64;
        qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, EXECUTED.as_ptr().cast(), count);
    }
}

extern "C" fn end(_: Plugin, _: *mut c_void) {
    let name = std::env::var_os("PCCE_COUNT");
    let file = name.and_then(|name| OpenOptions::new().append(true).create(true).open(name).ok());
    if let Some(mut file) = file {
        let _ = writeln!(file, "{}", EXECUTED.load(Ordering::Relaxed));
    }
}

/// Called by qemu at its start.
#[unsafe(no_mangle)]
pub extern "C" fn qemu_plugin_install(id: Plugin, _: *const c_void, _: c_int, _: *const *const c_char) -> c_int {
    // SAFETY: functions of these types.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu_plugin_register_atexit_cb(id, end, std::ptr::null_mut());
    }
    0
}
