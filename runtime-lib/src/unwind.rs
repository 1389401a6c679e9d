//! Interrupted points: the machine code that was being executed, from the innermost function outwards.
//!
//! Between an update and its call the id is that of no site. So what describes an interrupted point is its program counter,
//! and the return addresses outwards of it, up to the activation that owns the innermost pushed frame: the id belongs to one
//! of these functions. The decoder knows which of them are instrumented, and what each instruction has done to the id.
//!
//! The walk follows the unwind tables (`.eh_frame`), which describe every instruction. Nothing here allocates or
//! locks, and memory is asked for before it is read: the stack may be damaged, and signal handlers call this.

use core::arch::asm;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Evaluation, EvaluationResult,
    EvaluationStorage, NativeEndian, Piece, Reader, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow, Value,
};

use crate::abi::Frame;
use crate::image::Image;

/// More addresses than this are not recorded.
pub const MAX_ADDRESSES: usize = 64;

type Slice = EndianSlice<'static, NativeEndian>;

/// Numbers of the registers in the unwind tables (System V psABI for x86-64).
const RBX: usize = 3;
const RBP: usize = 6;
const RSP: usize = 7;
const R12: usize = 12;
const R15: usize = 15;
const RIP: usize = 16;
const REGISTERS: usize = 17;

/// The registers of an activation, as far as they are known.
#[derive(Clone, Copy)]
pub struct Registers {
    values: [u64; REGISTERS],
    known: u32,
}

impl Registers {
    const NONE: Self = Self { values: [0; REGISTERS], known: 0 };

    /// Only the program counter and the stack pointer are known.
    pub fn at(pc: usize, sp: usize) -> Self {
        let mut registers = Self::NONE;
        registers.set(RIP, pc as u64);
        registers.set(RSP, sp as u64);
        registers
    }

    /// Those of the code that a signal interrupted.
    ///
    /// # Safety
    /// `context` is what the kernel gave to a signal handler.
    pub unsafe fn interrupted(context: *const libc::ucontext_t) -> Self {
        // In the order of the registers' numbers.
        const SAVED: [libc::c_int; REGISTERS] = [
            libc::REG_RAX,
            libc::REG_RDX,
            libc::REG_RCX,
            libc::REG_RBX,
            libc::REG_RSI,
            libc::REG_RDI,
            libc::REG_RBP,
            libc::REG_RSP,
            libc::REG_R8,
            libc::REG_R9,
            libc::REG_R10,
            libc::REG_R11,
            libc::REG_R12,
            libc::REG_R13,
            libc::REG_R14,
            libc::REG_R15,
            libc::REG_RIP,
        ];
        let mut registers = Self::NONE;
        for (number, saved) in SAVED.into_iter().enumerate() {
            // SAFETY: by the contract.
            registers.set(number, unsafe { (*context).uc_mcontext.gregs[saved as usize] } as u64);
        }
        registers
    }

    /// Those of the function into which this is inlined, as far as its callers' are found from them.
    #[inline(always)]
    pub fn here() -> Self {
        let mut registers = Self::NONE;
        let (rip, rsp, rbp, rbx, r12, r13, r14, r15): (u64, u64, u64, u64, u64, u64, u64, u64);
        // SAFETY: reads registers only.
        unsafe {
            asm!(
                "lea {rip}, [rip]",
                "mov {rsp}, rsp",
                "mov {rbp}, rbp",
                "mov {rbx}, rbx",
                rip = out(reg) rip,
                rsp = out(reg) rsp,
                rbp = out(reg) rbp,
                rbx = out(reg) rbx,
                options(nomem, nostack, preserves_flags),
            );
            asm!(
                "mov {r12}, r12",
                "mov {r13}, r13",
                "mov {r14}, r14",
                "mov {r15}, r15",
                r12 = out(reg) r12,
                r13 = out(reg) r13,
                r14 = out(reg) r14,
                r15 = out(reg) r15,
                options(nomem, nostack, preserves_flags),
            );
        }
        let saved =
            [(RIP, rip), (RSP, rsp), (RBP, rbp), (RBX, rbx), (12, r12), (13, r13), (14, r14), (15, r15)];
        for (number, value) in saved {
            registers.set(number, value);
        }
        registers
    }

    fn get(&self, number: usize) -> Option<u64> {
        (number < REGISTERS && self.known >> number & 1 == 1).then(|| self.values[number])
    }

    fn set(&mut self, number: usize, value: u64) {
        self.values[number] = value;
        self.known |= 1 << number;
    }

    /// The program counter.
    pub fn pc(&self) -> usize {
        self.get(RIP).unwrap_or(0) as usize
    }

    /// The stack pointer.
    pub fn sp(&self) -> usize {
        self.get(RSP).unwrap_or(0) as usize
    }
}

/// Reads memory of which it is not known that it is there.
pub struct Memory {
    /// The page found readable last.
    page: usize,
}

impl Memory {
    const PAGE: usize = 4096;

    /// Nothing was read yet.
    pub const fn new() -> Self {
        Self { page: 0 }
    }

    /// The word at an address; None if it is not aligned, or not readable.
    pub fn word(&mut self, address: usize) -> Option<u64> {
        if !address.is_multiple_of(8) || !self.readable(address) {
            return None;
        }
        // SAFETY: readable, and a word does not leave its page.
        Some(unsafe { (address as *const u64).read_volatile() })
    }

    fn readable(&mut self, address: usize) -> bool {
        const EFAULT: isize = -14;
        let page = address & !(Self::PAGE - 1);
        if page == 0 {
            return false;
        }
        if page != self.page {
            // The kernel reads a set of signals there before it looks at the operation, which does not exist. Not by way of
            // libc, which would change `errno`.
            let result: isize;
            // SAFETY: the call fails in any case, and changes nothing.
            unsafe {
                asm!(
                    "syscall",
                    inlateout("rax") libc::SYS_rt_sigprocmask as isize => result,
                    in("rdi") -1_isize,
                    in("rsi") address,
                    in("rdx") 0_usize,
                    in("r10") 8_usize,
                    lateout("rcx") _,
                    lateout("r11") _,
                    options(nostack),
                );
            }
            if result == EFAULT {
                return false;
            }
            self.page = page;
        }
        true
    }
}

/// Why a list of addresses ends; the values are those of the token format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The last function owns the innermost pushed frame.
    Pushed = 0,
    /// The last function has no caller.
    Outermost = 1,
    /// There are more.
    Bound = 2,
    /// The caller of the last function was not found: no unwind tables, or a damaged stack.
    Lost = 3,
}

/// The addresses of an interrupted point.
pub struct Interruption {
    addresses: [usize; MAX_ADDRESSES],
    /// Bit `i`: address `i` is a program counter, not a return address.
    exact: u64,
    len: usize,
    /// Why there are no more.
    pub end: End,
    /// Whether the chain of frames is not that of the activations here: it was left behind by `longjmp` or an exception that
    /// is on its way, or the stack is another one.
    pub detached: bool,
}

impl Interruption {
    /// The addresses, innermost first; with each, whether it is a program counter (of the first function, and of those that
    /// a signal interrupted) and not a return address.
    pub fn addresses(&self) -> impl Iterator<Item = (usize, bool)> {
        self.addresses[..self.len].iter().enumerate().map(|(i, &a)| (a, self.exact >> i & 1 == 1))
    }

    /// Walks from the activation with these registers outwards. `top` is the innermost pushed frame there.
    #[inline(never)]
    pub fn walk(registers: Registers, top: *const Frame, memory: &mut Memory) -> Self {
        let mut found =
            Self { addresses: [0; MAX_ADDRESSES], exact: 0, len: 0, end: End::Bound, detached: false };
        let sp = registers.sp();
        found.walk_from(registers, top, memory);
        let below = (top as usize) < sp || found.end == End::Outermost;
        found.detached = !top.is_null() && found.end != End::Pushed && below;
        found
    }

    fn walk_from(&mut self, mut registers: Registers, top: *const Frame, memory: &mut Memory) {
        let found = self;
        let mut image = Image::NONE;
        let mut exact = true;
        while found.len < MAX_ADDRESSES {
            found.addresses[found.len] = registers.pc();
            found.exact |= u64::from(exact) << found.len;
            found.len += 1;
            let Some(step) = step(&registers, exact, &mut image, memory) else {
                found.end = End::Lost;
                return;
            };
            if (registers.sp()..step.cfa).contains(&(top as usize)) {
                found.end = End::Pushed;
                return;
            }
            if step.caller.pc() == 0 {
                found.end = End::Outermost;
                return;
            }
            // The stack grows downwards, and the handler of a signal may have another one.
            if step.caller.sp() <= registers.sp() && !step.signal {
                found.end = End::Lost;
                return;
            }
            (registers, exact) = (step.caller, step.signal);
        }
    }
}

/// The registers of the activation with this program counter and stack pointer, if `from` was called by it: by way of
/// callers, and of signals.
#[inline(never)]
pub fn find(from: Registers, pc: usize, sp: usize, memory: &mut Memory) -> Option<Registers> {
    let mut registers = from;
    let mut image = Image::NONE;
    let mut exact = true;
    for _ in 0..MAX_ADDRESSES {
        if (registers.pc(), registers.sp()) == (pc, sp) {
            return Some(registers);
        }
        let step = step(&registers, exact, &mut image, memory)?;
        (registers, exact) = (step.caller, step.signal);
    }
    None
}

/// One activation.
struct Step {
    /// Its canonical frame address: the stack pointer of its caller.
    cfa: usize,
    caller: Registers,
    /// Whether it is the kernel's call of a signal handler: its "caller" is what the signal interrupted.
    signal: bool,
}

struct Storage;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(Register, RegisterRule<usize>); REGISTERS + 1];
    type Stack = [UnwindTableRow<usize, Self>; 3];
}

impl<R: Reader> EvaluationStorage<R> for Storage {
    type Stack = [Value; 8];
    type ExpressionStack = [(R, R); 1];
    type Result = [Piece<R>; 1];
}

/// From an activation to its caller. `exact`: the program counter is not a return address.
#[inline(never)]
fn step(registers: &Registers, exact: bool, image: &mut Image, memory: &mut Memory) -> Option<Step> {
    let pc = registers.pc();
    // A return address may be the first one behind a function that does not return.
    let lookup = if exact { pc } else { pc.checked_sub(1)? };
    if !image.contains(lookup as *const u8) {
        match Image::of(lookup as *const u8) {
            Some(other) => *image = other,
            // A call through a wild pointer: its return address is on top of the stack.
            None if exact => return called(registers, 0, memory),
            None => return None,
        }
    }
    let (index, image) = image.unwind_tables()?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(index.as_ptr() as u64);
    let index = EhFrameHdr::new(index, NativeEndian).parse(&bases, 8).ok()?;
    let start = index.eh_frame_ptr().direct().ok()?;
    let tables = image.get((start as usize).checked_sub(image.as_ptr() as usize)?..)?;
    let bases = bases.set_eh_frame(start);
    let section = EhFrame::new(tables, NativeEndian);
    let entry = index.table()?.fde_for_address(&section, &bases, lookup as u64, EhFrame::cie_from_offset);
    let Ok(entry) = entry else {
        let offset = pc.checked_sub(image.as_ptr() as usize).filter(|_| exact)?;
        return called(registers, stub_words(image, offset)?, memory);
    };
    let mut context = UnwindContext::<usize, Storage>::new_in();
    let row = entry.unwind_info_for_address(&section, &bases, &mut context, lookup as u64).ok()?;
    let encoding = entry.cie().encoding();
    let evaluate = |expression: &UnwindExpression<usize>, initial: Option<u64>, memory: &mut Memory| {
        let code: Slice = expression.get(&section).ok()?.0;
        evaluate(Evaluation::new_in(code, encoding), initial, registers, memory)
    };
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            registers.get(register.0.into())?.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => evaluate(expression, None, memory)?,
    };
    let mut caller = Registers::NONE;
    caller.set(RSP, cfa);
    for number in 0..REGISTERS {
        let value = match row.register(Register(number as u16)) {
            // The tables name what changed: what a function must preserve is as it was.
            None if matches!(number, RBX | RBP | R12..=R15) => registers.get(number),
            None | Some(RegisterRule::Undefined | RegisterRule::Architectural) => continue,
            Some(RegisterRule::SameValue) => registers.get(number),
            Some(RegisterRule::Offset(offset)) => memory.word(cfa.wrapping_add_signed(offset) as usize),
            Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Register(other)) => registers.get(other.0.into()),
            Some(RegisterRule::Expression(expression)) => {
                evaluate(&expression, Some(cfa), memory).and_then(|address| memory.word(address as usize))
            }
            Some(RegisterRule::ValExpression(expression)) => evaluate(&expression, Some(cfa), memory),
            Some(RegisterRule::Constant(value)) => Some(value),
        };
        match value {
            Some(value) => caller.set(number, value),
            // Without a return address there is no caller to speak of.
            None if number == RIP => return None,
            None => {}
        }
    }
    Some(Step { cfa: cfa as usize, caller, signal: entry.is_signal_trampoline() })
}

/// How many words are above the return address, at an instruction of a stub in a procedure linkage table (System V psABI):
/// some linkers write no unwind tables for them. None if it is no such instruction.
fn stub_words(image: &[u8], at: usize) -> Option<usize> {
    // Instructions: jump and push through a word of the image, push of a number, jump.
    const JUMP_THROUGH: &[u8] = &[0xff, 0x25];
    const PUSH_THROUGH: &[u8] = &[0xff, 0x35];
    const PUSH: u8 = 0x68;
    const JUMP: u8 = 0xe9;
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    let code = image.get(at..at.checked_add(16)?)?;
    let before = |len: usize| at.checked_sub(len).map(|start| &image[start..at]);
    let is_before = |len: usize, start: &[u8]| before(len).is_some_and(|code| code.starts_with(start));
    if code.starts_with(ENDBR64) && (code[4..].starts_with(JUMP_THROUGH) || code[4] == PUSH) {
        Some(0)
    } else if code.starts_with(JUMP_THROUGH) {
        // In the table's head, behind its push.
        Some(if is_before(6, PUSH_THROUGH) { 2 } else { 0 })
    } else if code[0] == PUSH && code[5] == JUMP {
        Some(0)
    } else if (code[0] == JUMP && is_before(5, &[PUSH]))
        || (code.starts_with(PUSH_THROUGH) && code[6..].starts_with(JUMP_THROUGH))
    {
        Some(1)
    } else {
        None
    }
}

/// The step from a function that has pushed so many words and changed nothing else.
fn called(registers: &Registers, words: usize, memory: &mut Memory) -> Option<Step> {
    let mut caller = *registers;
    let sp = registers.sp().checked_add(words * 8)?;
    caller.set(RIP, memory.word(sp)?);
    let cfa = sp.checked_add(8)?;
    caller.set(RSP, cfa as u64);
    Some(Step { cfa, caller, signal: false })
}

fn evaluate(
    mut evaluation: Evaluation<Slice, Storage>,
    initial: Option<u64>,
    registers: &Registers,
    memory: &mut Memory,
) -> Option<u64> {
    evaluation.set_max_iterations(64);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => {
                let [Piece { location: gimli::Location::Address { address }, .. }] = evaluation.as_result()
                else {
                    return None;
                };
                return Some(*address);
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(register.0.into())?;
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            EvaluationResult::RequiresMemory { address, size: 8, space: None, .. } => {
                let value = memory.word(address as usize)?;
                evaluation.resume_with_memory(Value::Generic(value)).ok()?
            }
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[inline(never)]
    fn walk() -> Interruption {
        Interruption::walk(Registers::here(), core::ptr::null(), &mut Memory::new())
    }

    #[inline(never)]
    extern "C" fn compare(a: *const core::ffi::c_void, b: *const core::ffi::c_void) -> i32 {
        let found = walk();
        assert_eq!(found.end, End::Outermost, "{:x?}", found.addresses().collect::<Vec<_>>());
        a.cast::<i32>().cmp(&b.cast::<i32>()) as i32
    }

    #[test]
    fn a_walk_reaches_the_first_function_of_the_thread() {
        let found = walk();
        assert_eq!(found.end, End::Outermost, "{:x?}", found.addresses().collect::<Vec<_>>());
        let mut list = [3, 1, 2];
        // SAFETY: a plain call of libc.
        unsafe { libc::qsort(list.as_mut_ptr().cast(), 3, 4, Some(compare)) };
    }

    #[test]
    fn memory_is_asked_for() {
        let mut memory = Memory::new();
        let word = 77_u64;
        assert_eq!(memory.word(&raw const word as usize), Some(77));
        for wild in [0, 8, 1, usize::MAX, usize::MAX & !7, 0x8000_0000_0000_0000, 0xdead_beef_0000] {
            assert_eq!(memory.word(wild), None);
        }
        assert_eq!(memory.word(&raw const word as usize), Some(77));
    }
}
