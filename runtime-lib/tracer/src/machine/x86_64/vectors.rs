//! The vector registers of the processor, and the memory that keeps them.

use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicU32, Ordering};

/// Read by [`stubs`](super::stubs): the mask of the registers that `xsave` is to keep (1: there is only `fxsave`; 0:
/// not known yet), and the number of bytes that they take.
#[repr(C)]
pub struct Vectors {
    mask: AtomicU32,
    size: AtomicU32,
}

/// The vector registers of this processor.
#[allow(non_upper_case_globals)]
pub static vectors: Vectors = Vectors { mask: AtomicU32::new(0), size: AtomicU32::new(0) };

/// The x87's registers, those of SSE and AVX, and the three parts of AVX-512: arguments may be in them.
const ARGUMENTS: u32 = 0b1110_0111;
/// The bytes that `fxsave` writes, and the head that follows them in the area of `xsave`.
const LEGACY: u32 = 512;
const HEAD: u32 = 64;

/// Finds out which vector registers there are.
pub extern "C" fn detect() {
    const OSXSAVE: u32 = 1 << 27;
    let (mut mask, mut size) = (1, LEGACY);
    if __cpuid(1).ecx & OSXSAVE != 0 {
        let enabled: u32;
        // SAFETY: the instruction is there, and reads a register.
        unsafe {
            core::arch::asm!("xgetbv", in("ecx") 0, out("eax") enabled, out("edx") _, options(nomem, nostack));
        }
        mask = enabled & ARGUMENTS;
        size = LEGACY + HEAD;
        for part in (2..32).filter(|part| mask & 1 << part != 0) {
            let about = __cpuid_count(0xd, part);
            size = size.max(about.ebx + about.eax);
        }
    }
    vectors.size.store(size, Ordering::Relaxed);
    vectors.mask.store(mask, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_all_registers() {
        detect();
        let [mask, size] = [&vectors.mask, &vectors.size].map(|v| v.load(Ordering::Relaxed));
        let least = match mask {
            1 => 512,
            mask if mask & 0b1110_0000 != 0 => 1344,
            mask if mask & 0b100 != 0 => 832,
            _ => 576,
        };
        assert!(size >= least && size < 8192, "{mask:#x}: {size}");
    }
}
