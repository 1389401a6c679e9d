//! The machine that `program.c` is compiled for, as core files have it. Each machine has a file, and is chosen here.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86_64::*;
