//! Interrupted points: the machine code that was being executed, from the innermost function outwards.
//!
//! Between an update and its call the id is that of no site. So what describes an interrupted point is its program counter,
//! and the return addresses outwards of it, up to the activation that owns the innermost pushed frame: the id belongs to one
//! of these functions. The decoder knows which of them are instrumented, and what each instruction has done to the id.
//!
//! The walk follows the unwind tables (`.eh_frame`), which describe every instruction, in any [`Process`]: the one that
//! this is part of (the runtime's `own`), or one that a core file shows. Nothing here allocates or locks, and memory is asked
//! for before it is read: the stack may be damaged, and signal handlers call this.

use gimli::constants as dw;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, NativeEndian, Reader, Register, RegisterRule,
    UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow,
};

/// More addresses than this are not recorded.
pub const MAX_ADDRESSES: usize = 64;

/// A process whose stacks are walked; `'p`: as long as its images stay.
pub trait Process<'p> {
    /// The word at an address; None if it is not aligned, or not readable.
    fn word(&mut self, address: usize) -> Option<u64>;
    /// The image that holds an address; None if there is none.
    fn image(&mut self, address: usize) -> Option<Tables<'p>>;
    /// Whether an entry of the unwind tables with so many bytes may be read.
    fn allows(&mut self, _bytes: usize) -> bool {
        true
    }
}

/// What unwinding needs of an image.
#[derive(Clone, Copy)]
pub struct Tables<'p> {
    /// Where the image is loaded.
    pub start: usize,
    /// Its bytes from there on.
    pub image: &'p [u8],
    /// Where the section `.eh_frame_hdr`, the index of the unwind tables, is loaded.
    pub index_start: usize,
    /// Its bytes; none without unwind tables.
    pub index: &'p [u8],
}

/// Numbers of the registers in the unwind tables (System V psABI for x86-64).
const RBX: usize = 3;
const RBP: usize = 6;
const RSP: usize = 7;
/// With the three that follow.
const R12: usize = 12;
const RIP: usize = 16;
const REGISTERS: usize = 17;
/// Bits of the registers that functions preserve.
const PRESERVED: u32 = 1 << RBX | 1 << RBP | 0b1111 << R12;

/// The registers of an activation, as far as they are known.
#[derive(Clone, Copy)]
pub struct Registers {
    values: [u64; REGISTERS],
    known: u32,
}

impl Registers {
    /// Nothing is known.
    pub const NONE: Self = Self { values: [0; REGISTERS], known: 0 };

    /// Only the program counter and the stack pointer are known.
    pub fn at(pc: usize, sp: usize) -> Self {
        let mut registers = Self::NONE;
        registers.set(RIP, pc as u64);
        registers.set(RSP, sp as u64);
        registers
    }

    /// All of them, in the order of the unwind tables: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, and the program
    /// counter.
    pub fn all(values: [u64; REGISTERS]) -> Self {
        Self { values, known: (1 << REGISTERS) - 1 }
    }

    /// Those of the code that a signal interrupted, from the `ucontext_t` at this address. None if it cannot be read.
    pub fn interrupted<'p>(process: &mut impl Process<'p>, context: usize) -> Option<Self> {
        // Words from the beginning of the structure on (`<sys/ucontext.h>`: `uc_mcontext.gregs` is at word 5), in the order
        // of the registers' numbers.
        const SAVED: [usize; REGISTERS] = [18, 17, 19, 16, 14, 13, 15, 20, 5, 6, 7, 8, 9, 10, 11, 12, 21];
        let mut registers = Self::NONE;
        for (number, word) in SAVED.into_iter().enumerate() {
            registers.set(number, process.word(context.checked_add(word * 8)?)?);
        }
        Some(registers)
    }

    fn get(&self, number: usize) -> Option<u64> {
        (number < REGISTERS && self.known >> number & 1 == 1).then(|| self.values[number])
    }

    /// Sets a register, by its number in the unwind tables.
    pub fn set(&mut self, number: usize, value: u64) {
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
    /// The canonical frame addresses of the activations; 0 where that is not known.
    frames: [usize; MAX_ADDRESSES],
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

    /// The canonical frame addresses of the activations to which the addresses belong; 0 where that is not known.
    pub fn frames(&self) -> impl Iterator<Item = usize> {
        self.frames[..self.len].iter().copied()
    }

    /// Whether the addresses alone tell the whole context, since there are all of them, and the chain of frames tells nothing of it:
    /// it is that of activations that are gone, or of another stack.
    pub fn is_whole(&self) -> bool {
        self.detached && self.end == End::Outermost
    }

    /// Leaves the innermost address out.
    pub fn leave_first_out(&mut self) {
        self.addresses.copy_within(1..self.len.max(1), 0);
        self.frames.copy_within(1..self.len.max(1), 0);
        self.exact >>= 1;
        self.len = self.len.saturating_sub(1);
    }

    /// Leaves the outer half of the addresses out; false if there is only one.
    pub fn shorten(&mut self) -> bool {
        let more = self.len > 1;
        if more {
            self.len /= 2;
            self.end = End::Bound;
        }
        more
    }

    /// Walks from the activation with these registers outwards. `top` is the address of the innermost pushed frame there, or 0.
    #[inline(never)]
    pub fn walk<'p>(registers: Registers, top: usize, process: &mut impl Process<'p>) -> Self {
        let (addresses, frames) = ([0; MAX_ADDRESSES], [0; MAX_ADDRESSES]);
        let mut found = Self { addresses, frames, exact: 0, len: 0, end: End::Bound, detached: false };
        let sp = registers.sp();
        found.walk_from(registers, top, process);
        let below = top < sp || found.end == End::Outermost;
        found.detached = top != 0 && found.end != End::Pushed && below;
        found
    }

    fn walk_from<'p>(&mut self, mut registers: Registers, top: usize, process: &mut impl Process<'p>) {
        let found = self;
        let mut context = Context::new_in();
        let mut exact = true;
        while found.len < MAX_ADDRESSES {
            found.addresses[found.len] = registers.pc();
            found.exact |= u64::from(exact) << found.len;
            found.len += 1;
            let Some(step) = step(&registers, exact, &mut context, process) else {
                found.end = End::Lost;
                return;
            };
            // `longjmp` that has loaded the registers is no activation any more: its "caller" is where it goes, with a
            // stack pointer of its own in the tables, which may be loaded, too.
            let jump = step.caller.sp() != step.cfa;
            if !jump && !step.signal {
                found.frames[found.len - 1] = step.cfa;
            }
            if !jump && (registers.sp()..step.cfa).contains(&top) {
                found.end = End::Pushed;
                return;
            }
            if step.caller.pc() == 0 {
                found.end = End::Outermost;
                return;
            }
            // The stack grows downwards, and the handler of a signal may have another one.
            let inwards = step.caller.sp() < registers.sp() || step.caller.sp() == registers.sp() && !jump;
            if inwards && !step.signal {
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
pub fn find<'p>(from: Registers, pc: usize, sp: usize, process: &mut impl Process<'p>) -> Option<Registers> {
    let mut registers = from;
    let mut context = Context::new_in();
    let mut exact = true;
    for _ in 0..MAX_ADDRESSES {
        if (registers.pc(), registers.sp()) == (pc, sp) {
            return Some(registers);
        }
        let step = step(&registers, exact, &mut context, process)?;
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

/// What gimli works with: large, so it is one for all steps of a walk.
type Context = UnwindContext<usize, Storage>;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(Register, RegisterRule<usize>); REGISTERS + 1];
    type Stack = [UnwindTableRow<usize, Self>; 3];
}

/// From an activation to its caller. `exact`: the program counter is not a return address.
#[inline(never)]
fn step<'p, P: Process<'p>>(
    registers: &Registers,
    exact: bool,
    context: &mut Context,
    process: &mut P,
) -> Option<Step> {
    let pc = registers.pc();
    // A return address may be the first one behind a function that does not return.
    let lookup = if exact { pc } else { pc.checked_sub(1)? };
    let Some(Tables { start: loaded, image, index_start, index }) = process.image(lookup) else {
        // A call through a wild pointer: its return address is on top of the stack.
        return if exact { called(registers, 0, process) } else { None };
    };
    let bases = BaseAddresses::default().set_eh_frame_hdr(index_start as u64);
    let index = EhFrameHdr::new(index, NativeEndian).parse(&bases, 8).ok()?;
    let start = index.eh_frame_ptr().direct().ok()?;
    let tables = image.get((start as usize).checked_sub(loaded)?..)?;
    let bases = bases.set_eh_frame(start);
    let section = EhFrame::new(tables, NativeEndian);
    let entry = index.table()?.fde_for_address(&section, &bases, lookup as u64, EhFrame::cie_from_offset);
    let Ok(entry) = entry else {
        let offset = pc.checked_sub(loaded).filter(|_| exact)?;
        return called(registers, stub_words(image, offset)?, process);
    };
    if !process.allows(entry.entry_len() + entry.cie().entry_len()) {
        return None;
    }
    let row = entry.unwind_info_for_address(&section, &bases, context, lookup as u64).ok()?;
    let evaluate = |expression: &UnwindExpression<usize>, initial: Option<u64>, process: &mut P| {
        let code = expression.get(&section).ok()?.0;
        evaluate(code, initial, registers, process)
    };
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            registers.get(register.0.into())?.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => evaluate(expression, None, process)?,
    };
    // The tables name what changed: what a function must preserve is as it was.
    let mut caller = *registers;
    caller.known &= PRESERVED;
    caller.set(RSP, cfa);
    for (register, rule) in row.registers() {
        let number = usize::from(register.0);
        if number >= REGISTERS {
            continue;
        }
        let value = match rule {
            RegisterRule::Undefined | RegisterRule::Architectural => {
                caller.known &= !(1 << number);
                continue;
            }
            RegisterRule::SameValue => registers.get(number),
            RegisterRule::Offset(offset) => process.word(cfa.wrapping_add_signed(*offset) as usize),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => registers.get(other.0.into()),
            RegisterRule::Expression(expression) => {
                evaluate(expression, Some(cfa), process).and_then(|address| process.word(address as usize))
            }
            RegisterRule::ValExpression(expression) => evaluate(expression, Some(cfa), process),
            RegisterRule::Constant(value) => Some(*value),
        };
        match value {
            Some(value) => caller.set(number, value),
            // Without a return address there is no caller to speak of.
            None if number == RIP => return None,
            None => caller.known &= !(1 << number),
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
fn called<'p>(registers: &Registers, words: usize, process: &mut impl Process<'p>) -> Option<Step> {
    let mut caller = *registers;
    let sp = registers.sp().checked_add(words * 8)?;
    caller.set(RIP, process.word(sp)?);
    let cfa = sp.checked_add(8)?;
    caller.set(RSP, cfa as u64);
    Some(Step { cfa, caller, signal: false })
}

/// The value of an expression of the unwind tables: those of stubs, of realigned frames, of the kernel's call of a handler. One with
/// anything that none has (branches, division, types, pieces) has no value: gimli's own evaluation, which knows all that debug
/// information may hold, would be a quarter of the runtime library.
fn evaluate<'p>(
    mut code: EndianSlice<'p, NativeEndian>,
    initial: Option<u64>,
    registers: &Registers,
    process: &mut impl Process<'p>,
) -> Option<u64> {
    let mut stack = Stack { values: [0; 8], len: 0 };
    if let Some(initial) = initial {
        stack.push(initial)?;
    }
    while !code.is_empty() {
        let operation = dw::DwOp(code.read_u8().ok()?);
        let value = match operation {
            dw::DW_OP_nop => continue,
            dw::DW_OP_drop => {
                stack.pop()?;
                continue;
            }
            dw::DW_OP_swap => {
                let (top, next) = (stack.pop()?, stack.pop()?);
                stack.push(top)?;
                next
            }
            dw::DW_OP_dup => stack.at(0)?,
            dw::DW_OP_over => stack.at(1)?,
            dw::DwOp(lit) if (dw::DW_OP_lit0.0..=dw::DW_OP_lit31.0).contains(&lit) => {
                (lit - dw::DW_OP_lit0.0).into()
            }
            dw::DW_OP_const1u => code.read_u8().ok()?.into(),
            dw::DW_OP_const1s => code.read_i8().ok()? as u64,
            dw::DW_OP_const2u => code.read_u16().ok()?.into(),
            dw::DW_OP_const2s => code.read_i16().ok()? as u64,
            dw::DW_OP_const4u => code.read_u32().ok()?.into(),
            dw::DW_OP_const4s => code.read_i32().ok()? as u64,
            dw::DW_OP_const8u | dw::DW_OP_const8s => code.read_u64().ok()?,
            dw::DW_OP_constu => code.read_uleb128().ok()?,
            dw::DW_OP_consts => code.read_sleb128().ok()? as u64,
            dw::DwOp(breg) if (dw::DW_OP_breg0.0..=dw::DW_OP_breg31.0).contains(&breg) => {
                let value = registers.get((breg - dw::DW_OP_breg0.0).into())?;
                value.wrapping_add_signed(code.read_sleb128().ok()?)
            }
            dw::DW_OP_deref => process.word(stack.pop()? as usize)?,
            dw::DW_OP_plus_uconst => stack.pop()?.wrapping_add(code.read_uleb128().ok()?),
            dw::DW_OP_neg => stack.pop()?.wrapping_neg(),
            dw::DW_OP_not => !stack.pop()?,
            _ => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                let signed = (a as i64).cmp(&(b as i64));
                // By too many digits: nothing is left, or the sign alone.
                let digits = u32::try_from(b).unwrap_or(u32::MAX);
                match operation {
                    dw::DW_OP_and => a & b,
                    dw::DW_OP_or => a | b,
                    dw::DW_OP_xor => a ^ b,
                    dw::DW_OP_plus => a.wrapping_add(b),
                    dw::DW_OP_minus => a.wrapping_sub(b),
                    dw::DW_OP_mul => a.wrapping_mul(b),
                    dw::DW_OP_shl => a.checked_shl(digits).unwrap_or(0),
                    dw::DW_OP_shr => a.checked_shr(digits).unwrap_or(0),
                    dw::DW_OP_shra => ((a as i64) >> digits.min(63)) as u64,
                    dw::DW_OP_eq => signed.is_eq().into(),
                    dw::DW_OP_ne => signed.is_ne().into(),
                    dw::DW_OP_ge => signed.is_ge().into(),
                    dw::DW_OP_gt => signed.is_gt().into(),
                    dw::DW_OP_le => signed.is_le().into(),
                    dw::DW_OP_lt => signed.is_lt().into(),
                    _ => return None,
                }
            }
        };
        stack.push(value)?;
    }
    stack.pop()
}

/// What an expression has computed.
struct Stack {
    values: [u64; 8],
    len: usize,
}

impl Stack {
    /// None if there are too many.
    fn push(&mut self, value: u64) -> Option<()> {
        *self.values.get_mut(self.len)? = value;
        self.len += 1;
        Some(())
    }

    /// The value that has so many above it.
    fn at(&self, above: usize) -> Option<u64> {
        self.values.get(self.len.checked_sub(1 + above)?).copied()
    }

    fn pop(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        self.values.get(self.len).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Words of memory whose values are their addresses plus one.
    struct Memory;

    impl Process<'static> for Memory {
        fn word(&mut self, address: usize) -> Option<u64> {
            address.is_multiple_of(8).then_some(address as u64 + 1)
        }
        fn image(&mut self, _: usize) -> Option<Tables<'static>> {
            None
        }
    }

    fn value(code: &[u8], initial: Option<u64>) -> Option<u64> {
        let code: &'static [u8] = Vec::leak(code.to_vec());
        let registers = Registers::at(0x10_000b, 0x7000);
        evaluate(EndianSlice::new(code, NativeEndian), initial, &registers, &mut Memory)
    }

    #[test]
    fn expressions_of_unwind_tables_have_values() {
        let [rsp, rip] = [dw::DW_OP_breg7.0, dw::DW_OP_breg16.0];
        // The canonical frame address in a stub: 8 bytes more from the eleventh byte of 16 on.
        let stub = [rsp, 8, rip, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(value(&stub, None), Some(0x7010));
        assert_eq!(value(&[rsp, 0xa0, 1, dw::DW_OP_deref.0], None), Some(0x70a1));
        assert_eq!(value(&[rsp, 0x78, dw::DW_OP_deref.0], None), Some(0x6ff9));
        assert_eq!(value(&[rsp, 1, dw::DW_OP_deref.0], None), None, "memory that is not readable");
        assert_eq!(value(&[dw::DW_OP_plus_uconst.0, 0x90, 1], Some(16)), Some(160));
        assert_eq!(value(&[dw::DW_OP_breg0.0, 0], None), None, "a register that is not known");
    }

    #[test]
    fn expressions_agree_with_gimli() {
        let constants = [0, 1, 3, 8, 63, 64, 65, u64::MAX, 1 << 63, 0x8000_0000];
        let operations = [
            dw::DW_OP_and,
            dw::DW_OP_or,
            dw::DW_OP_xor,
            dw::DW_OP_plus,
            dw::DW_OP_minus,
            dw::DW_OP_mul,
            dw::DW_OP_shl,
            dw::DW_OP_shr,
            dw::DW_OP_shra,
            dw::DW_OP_eq,
            dw::DW_OP_ne,
            dw::DW_OP_ge,
            dw::DW_OP_gt,
            dw::DW_OP_le,
            dw::DW_OP_lt,
            dw::DW_OP_swap,
            dw::DW_OP_over,
            dw::DW_OP_dup,
            dw::DW_OP_drop,
            dw::DW_OP_neg,
            dw::DW_OP_not,
            dw::DW_OP_nop,
        ];
        let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
        for (a, b) in constants.iter().flat_map(|a| constants.map(|b| (*a, b))) {
            for operation in operations {
                let mut code = std::vec![dw::DW_OP_const8u.0];
                code.extend(a.to_le_bytes());
                code.push(dw::DW_OP_const8u.0);
                code.extend(b.to_le_bytes());
                code.push(operation.0);
                let mut theirs = gimli::Evaluation::new(EndianSlice::new(&code, NativeEndian), encoding);
                assert_eq!(theirs.evaluate(), Ok(gimli::EvaluationResult::Complete));
                let theirs = theirs.result();
                let [gimli::Piece { location: gimli::Location::Address { address }, .. }] = theirs[..] else {
                    panic!("{theirs:?}");
                };
                assert_eq!(value(&code, None), Some(address), "{a:#x} {operation} {b:#x}");
            }
        }
    }

    #[test]
    fn constants_are_read_as_gimli_reads_them() {
        for operation in 0x08..=0x11 {
            for byte in [0x00, 0x7f, 0x80, 0xff, 0x5a] {
                let code =
                    [&[operation, byte, byte ^ 0x91, 3, byte, byte, 0x80, 0x80, byte & 0x7f][..], &[0; 3]]
                        .concat();
                let mut rest = EndianSlice::new(&code, NativeEndian);
                let encoding =
                    gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
                let theirs = gimli::Operation::parse(&mut rest, encoding).expect("a constant");
                let theirs = match theirs {
                    gimli::Operation::UnsignedConstant { value } => value,
                    gimli::Operation::SignedConstant { value } => value as u64,
                    other => panic!("{other:?}"),
                };
                assert_eq!(value(&code[..code.len() - rest.len()], None), Some(theirs), "{code:x?}");
            }
        }
    }

    #[test]
    fn other_expressions_have_no_value() {
        let lit = dw::DW_OP_lit1.0;
        for code in [
            &[][..],
            &[lit; 9],
            &[dw::DW_OP_plus.0],
            &[lit, dw::DW_OP_plus.0],
            &[lit, dw::DW_OP_over.0],
            &[lit, lit, dw::DW_OP_div.0],
            &[lit, dw::DW_OP_piece.0, 8],
            &[dw::DW_OP_skip.0, 0, 0],
            &[0xff],
            &[dw::DW_OP_const8u.0, 1],
            &[lit, dw::DW_OP_pick.0, 255],
        ] {
            assert_eq!(value(code, None), None, "{code:x?}");
        }
    }
}
