//! Interrupted points: the machine code that was being executed, from the innermost function outwards.
//!
//! Between an update and its call the id is that of no site. So what describes an interrupted point is its program counter,
//! and the return addresses outwards of it, up to the activation that owns the innermost pushed frame: the id belongs to one
//! of these functions. The decoder knows which of them are instrumented, and what each instruction has done to the id.
//!
//! The walk follows the unwind tables (`.eh_frame`), which describe every instruction, in any [`Process`]: the one that
//! this is part of (`crate::own`), or one that a core file shows. Nothing here allocates or locks, and memory is asked
//! for before it is read: the stack may be damaged, and signal handlers call this.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Evaluation, EvaluationResult,
    EvaluationStorage, NativeEndian, Piece, Reader, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow, Value,
};

/// More addresses than this are not recorded.
pub const MAX_ADDRESSES: usize = 64;

/// A process whose stacks are walked; `'p`: as long as its images stay.
pub trait Process<'p> {
    /// The word at an address; None if it is not aligned, or not readable.
    fn word(&mut self, address: usize) -> Option<u64>;
    /// The image that holds an address; None if there is none.
    fn image(&mut self, address: usize) -> Option<Tables<'p>>;
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
    pub(crate) const NONE: Self = Self { values: [0; REGISTERS], known: 0 };

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

    pub(crate) fn set(&mut self, number: usize, value: u64) {
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

    /// Whether the addresses alone tell the whole context, since there are all of them, and the chain of frames tells nothing of it:
    /// it is that of activations that are gone, or of another stack.
    pub fn is_whole(&self) -> bool {
        self.detached && self.end == End::Outermost
    }

    /// Leaves the innermost address out.
    pub fn leave_first_out(&mut self) {
        self.addresses.copy_within(1.., 0);
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
        let mut found =
            Self { addresses: [0; MAX_ADDRESSES], exact: 0, len: 0, end: End::Bound, detached: false };
        let sp = registers.sp();
        found.walk_from(registers, top, process);
        let below = top < sp || found.end == End::Outermost;
        found.detached = top != 0 && found.end != End::Pushed && below;
        found
    }

    fn walk_from<'p>(&mut self, mut registers: Registers, top: usize, process: &mut impl Process<'p>) {
        let found = self;
        let mut exact = true;
        while found.len < MAX_ADDRESSES {
            found.addresses[found.len] = registers.pc();
            found.exact |= u64::from(exact) << found.len;
            found.len += 1;
            let Some(step) = step(&registers, exact, process) else {
                found.end = End::Lost;
                return;
            };
            // `longjmp` that has loaded the registers is no activation any more: its "caller" is where it goes, with a
            // stack pointer of its own in the tables, which may be loaded, too.
            let jump = step.caller.sp() != step.cfa;
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
    let mut exact = true;
    for _ in 0..MAX_ADDRESSES {
        if (registers.pc(), registers.sp()) == (pc, sp) {
            return Some(registers);
        }
        let step = step(&registers, exact, process)?;
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
fn step<'p, P: Process<'p>>(registers: &Registers, exact: bool, process: &mut P) -> Option<Step> {
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
    let mut context = UnwindContext::<usize, Storage>::new_in();
    let row = entry.unwind_info_for_address(&section, &bases, &mut context, lookup as u64).ok()?;
    let encoding = entry.cie().encoding();
    let evaluate = |expression: &UnwindExpression<usize>, initial: Option<u64>, process: &mut P| {
        let code = expression.get(&section).ok()?.0;
        evaluate(Evaluation::new_in(code, encoding), initial, registers, process)
    };
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            registers.get(register.0.into())?.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => evaluate(expression, None, process)?,
    };
    let mut caller = Registers::NONE;
    caller.set(RSP, cfa);
    for number in 0..REGISTERS {
        let value = match row.register(Register(number as u16)) {
            // The tables name what changed: what a function must preserve is as it was.
            None if matches!(number, RBX | RBP | R12..=R15) => registers.get(number),
            None | Some(RegisterRule::Undefined | RegisterRule::Architectural) => continue,
            Some(RegisterRule::SameValue) => registers.get(number),
            Some(RegisterRule::Offset(offset)) => process.word(cfa.wrapping_add_signed(offset) as usize),
            Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Register(other)) => registers.get(other.0.into()),
            Some(RegisterRule::Expression(expression)) => {
                evaluate(&expression, Some(cfa), process).and_then(|address| process.word(address as usize))
            }
            Some(RegisterRule::ValExpression(expression)) => evaluate(&expression, Some(cfa), process),
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
fn called<'p>(registers: &Registers, words: usize, process: &mut impl Process<'p>) -> Option<Step> {
    let mut caller = *registers;
    let sp = registers.sp().checked_add(words * 8)?;
    caller.set(RIP, process.word(sp)?);
    let cfa = sp.checked_add(8)?;
    caller.set(RSP, cfa as u64);
    Some(Step { cfa, caller, signal: false })
}

fn evaluate<'p>(
    mut evaluation: Evaluation<EndianSlice<'p, NativeEndian>, Storage>,
    initial: Option<u64>,
    registers: &Registers,
    process: &mut impl Process<'p>,
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
                let value = process.word(address as usize)?;
                evaluation.resume_with_memory(Value::Generic(value)).ok()?
            }
            _ => return None,
        };
    }
}
