//! Interrupted points: the machine code that was being executed, from the innermost function outwards.
//!
//! Between an update and its call the id belongs to no site. So an interrupted point is described by its program
//! counter and the return addresses outwards of it, up to the activation that owns the innermost pushed frame: the id
//! belongs to one of these functions. The decoder knows which of them are instrumented, and what each instruction has
//! done to the id.
//!
//! The walk follows the unwind tables (`.eh_frame`), which describe every instruction, in any [`Process`]: the one that
//! this is part of (the runtime's `own`), or one that a core file shows. Nothing here allocates or locks, and memory is
//! checked before it is read: the stack may be damaged, and signal handlers call this.

mod delivery;
mod expression;
mod registers;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, NativeEndian, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindExpression, UnwindSection, Vendor,
};

use self::expression::evaluate;
pub use self::registers::Registers;

/// The maximum number of addresses that are recorded.
pub const MAX_ADDRESSES: usize = 64;
/// After this number of addresses, return addresses that were recorded since the last signal are left out, so that
/// recursion of any depth leads to the function that began it. Where the id counts, no two are equal: a sub-path goes
/// through each call site once, except for call sites of functions that do nothing to the id.
const MIN_ADDRESSES: usize = 32;
/// The maximum number of activations that are walked, which takes some seconds.
pub const MAX_ACTIVATIONS: usize = 1 << 22;

/// The facts about a machine that the walk needs. Registers have the numbers that the unwind tables give them.
pub trait Unwind: Copy + UnwindContextStorage<usize> {
    /// A value for each register.
    type Values: Copy + AsRef<[u64]> + AsMut<[u64]>;

    /// Values of registers that are not known.
    const NO_VALUES: Self::Values;
    const PC: usize;
    /// The register whose rule in the tables is that of the return address: the program counter, or the one into which
    /// calls put it. The latter holds it in an activation that has called nothing yet.
    const RETURN_ADDRESS: usize;
    const SP: usize;
    /// The register that compilers use as frame pointer.
    const FRAME_POINTER: usize;
    /// Bits of the registers that functions preserve.
    const PRESERVED: u64;
    /// The registers in which landing pads get their arguments.
    const LANDING_PAD_ARGUMENTS: [Register; 2];
    /// A register that has an argument of functions, and none of landing pads.
    const OTHER_ARGUMENT: Register;
    /// Whose instructions the tables have, besides those of DWARF.
    const VENDOR: Vendor;

    /// The registers of the code that a signal interrupted, from the `ucontext_t` at this address. None if it cannot be
    /// read.
    fn interrupted<'p>(process: &mut impl Process<'p>, context: usize) -> Option<Registers<Self>>;

    /// The `ucontext_t` of the signal whose handler returns to the program counter, on machines where that is known by
    /// the instructions there.
    fn signal_context<'p>(registers: &Registers<Self>, process: &mut impl Process<'p>) -> Option<usize>;

    /// The address that is meant by a return address as functions keep it, which may be signed.
    fn plain(address: u64) -> u64;

    /// The caller of an activation that has executed nothing yet.
    fn caller_at_entry<'p>(
        registers: &Registers<Self>,
        process: &mut impl Process<'p>,
    ) -> Option<Caller<Self>>;

    /// The caller at an instruction of a linker's stub that no unwind table describes, at this offset in an image. None
    /// if it is no such instruction.
    fn caller_of_stub<'p>(
        registers: &Registers<Self>,
        image: &[u8],
        offset: usize,
        process: &mut impl Process<'p>,
    ) -> Option<Caller<Self>>;

    /// Targets of possible direct calls in the code at an address. Bytes that only look like a call count, too.
    fn calls(code: &[u8], address: u64) -> impl Iterator<Item = u64>;
}

/// The caller of an activation.
pub struct Caller<M: Unwind> {
    /// The canonical frame address of the activation: the stack pointer of its caller.
    pub cfa: usize,
    /// The registers after the call.
    pub registers: Registers<M>,
}

/// A process whose stacks are walked; `'p`: as long as its images stay.
pub trait Process<'p> {
    /// The word at an address; None if it is not aligned, or not readable.
    fn word(&mut self, address: usize) -> Option<u64>;
    /// The image that holds an address; None if there is none.
    fn image(&mut self, address: usize) -> Option<Tables<'p>>;
    /// Bits of return addresses that have signatures, besides those that they always may have.
    fn signed_bits(&self) -> u64 {
        0
    }
    /// Returns whether an entry of the unwind tables with this number of bytes may be read.
    fn allows(&mut self, _bytes: usize) -> bool {
        true
    }
}

/// The unwind tables of an image.
#[derive(Clone, Copy)]
pub struct Tables<'p> {
    /// The address where the image is loaded.
    pub start: usize,
    /// The image's bytes from there on.
    pub image: &'p [u8],
    /// The address where the section `.eh_frame_hdr`, the index of the unwind tables, is loaded.
    pub index_start: usize,
    /// The index's bytes; none without unwind tables.
    pub index: &'p [u8],
}

/// Why a list of addresses ends; the values are those of the token format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The last function owns the innermost pushed frame.
    Pushed = 0,
    /// The last function has no caller.
    Outermost = 1,
    /// The list is full.
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
    /// The first and the last address before which some are left out; the first is [`MAX_ADDRESSES`] if none are.
    left_out: (usize, usize),
    /// The reason why there are no more.
    pub end: End,
    /// True if the chain of frames is not that of the activations here: `longjmp` or an exception that is being
    /// delivered has left it behind, or the stack is another one.
    pub detached: bool,
}

impl Interruption {
    /// The addresses, innermost first; with each, whether it is a program counter (of the first function, and of those
    /// that a signal interrupted) and not a return address.
    pub fn addresses(&self) -> impl Iterator<Item = (usize, bool)> {
        self.addresses[..self.len].iter().enumerate().map(|(i, &a)| (a, self.exact >> i & 1 == 1))
    }

    /// The first and the last address before which return addresses may be left out, by their numbers; none if none
    /// are. Each of these is equal to one further in.
    pub fn left_out(&self) -> Option<(usize, usize)> {
        let (first, last) = self.left_out;
        (first < self.len).then_some((first, last.min(self.len - 1)))
    }

    /// The canonical frame addresses of the activations to which the addresses belong; 0 where that is not known.
    pub fn frames(&self) -> impl Iterator<Item = usize> {
        self.frames[..self.len].iter().copied()
    }

    /// Returns whether the addresses are the whole context: all of them are there, and the chain of frames is that of
    /// activations that are gone, or of another stack.
    pub fn is_whole(&self) -> bool {
        self.detached && self.end == End::Outermost
    }

    /// Leaves the innermost address out.
    pub fn leave_first_out(&mut self) {
        self.addresses.copy_within(1..self.len.max(1), 0);
        self.frames.copy_within(1..self.len.max(1), 0);
        self.exact >>= 1;
        self.len = self.len.saturating_sub(1);
        self.left_out = (self.left_out.0 - 1, self.left_out.1.saturating_sub(1));
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

    /// Walks from the activation with these registers outwards, over at most `max_activations`. `top` is the address of
    /// the innermost pushed frame there, or 0.
    #[inline(never)]
    pub fn walk<'p, M: Unwind>(
        registers: Registers<M>,
        top: usize,
        max_activations: usize,
        process: &mut impl Process<'p>,
    ) -> Self {
        let mut found = Self::new();
        let sp = registers.sp();
        found.walk_from(registers, top, max_activations, process);
        let below = top < sp || found.end == End::Outermost;
        found.detached = top != 0 && found.end != End::Pushed && below;
        found
    }

    fn new() -> Self {
        Self {
            addresses: [0; MAX_ADDRESSES],
            frames: [0; MAX_ADDRESSES],
            exact: 0,
            len: 0,
            left_out: (MAX_ADDRESSES, 0),
            end: End::Bound,
            detached: false,
        }
    }

    /// Adds an address, or leaves it out; false if there is no room.
    fn add(&mut self, address: usize, exact: bool) -> bool {
        // An interrupted instruction is no return address, even where both are the same number.
        let since_signal = self.exact.checked_ilog2().map_or(0, |last| last as usize + 1);
        if !exact && self.len >= MIN_ADDRESSES && self.addresses[since_signal..self.len].contains(&address) {
            self.left_out = (self.left_out.0.min(self.len), self.len);
            return true;
        }
        self.record(address, exact)
    }

    fn record(&mut self, address: usize, exact: bool) -> bool {
        if self.len == MAX_ADDRESSES {
            return false;
        }
        self.addresses[self.len] = address;
        self.exact |= u64::from(exact) << self.len;
        self.len += 1;
        true
    }

    fn walk_from<'p, M: Unwind>(
        &mut self,
        mut registers: Registers<M>,
        top: usize,
        max_activations: usize,
        process: &mut impl Process<'p>,
    ) {
        let found = self;
        let mut context = Context::new_in();
        let mut depth = 0;
        for _ in 0..max_activations {
            let (before, exact) = (found.len, depth == 0);
            if !found.add(registers.pc(), exact) {
                return;
            }
            let Some(step) = step(&registers, depth, &mut context, process) else {
                found.end = End::Lost;
                return;
            };
            // Once `longjmp` has loaded the registers, it is no activation any more: its "caller" is the target of the
            // jump. The tables describe that one's stack pointer by a rule of its own; it may be loaded, too.
            let Caller { cfa, registers: caller } = step.caller;
            let jump = caller.sp() != cfa;
            if !jump && !step.signal && found.len > before {
                found.frames[found.len - 1] = cfa;
            }
            let end = match () {
                () if !jump && (registers.sp()..cfa).contains(&top) => Some(End::Pushed),
                () if !caller.has_pc() => Some(End::Outermost),
                // Nothing is called from there: the word was overwritten, or is no return address.
                () if caller.pc() == 0 => Some(End::Lost),
                () => None,
            };
            if let Some(end) = end {
                // The last address is never left out.
                if found.len > before || found.record(registers.pc(), exact) {
                    found.end = end;
                }
                return;
            }
            // The stack grows downwards, and the handler of a signal may have another one.
            // An activation that has called nothing yet has nothing on the stack where calls store no return address.
            let may_be_equal =
                jump || M::RETURN_ADDRESS != M::PC && registers.get(M::RETURN_ADDRESS).is_some();
            let inwards = caller.sp() < registers.sp() || caller.sp() == registers.sp() && !may_be_equal;
            if inwards && !step.signal {
                found.end = End::Lost;
                return;
            }
            (registers, depth) = (caller, if step.signal { 0 } else { depth + 1 });
        }
    }
}

/// The registers of the activation with this program counter and stack pointer, if `from` was called by it: by way of
/// callers, and of signals.
#[inline(never)]
pub fn find<'p, M: Unwind>(
    from: Registers<M>,
    pc: usize,
    sp: usize,
    process: &mut impl Process<'p>,
) -> Option<Registers<M>> {
    let mut registers = from;
    let mut context = Context::new_in();
    let mut depth = 0;
    for _ in 0..MAX_ADDRESSES {
        if (registers.pc(), registers.sp()) == (pc, sp) {
            return Some(registers);
        }
        let step = step(&registers, depth, &mut context, process)?;
        (registers, depth) = (step.caller.registers, if step.signal { 0 } else { depth + 1 });
    }
    None
}

/// From an activation to its caller.
struct Step<M: Unwind> {
    caller: Caller<M>,
    /// True if the activation is the kernel's call of a signal handler: its "caller" is what the signal interrupted.
    signal: bool,
}

/// gimli's working memory: large, so all steps of a walk share one.
type Context<M> = UnwindContext<usize, M>;

/// From an activation to its caller. `depth`: the number of activations further in, down to the last one whose program
/// counter is that of an instruction and not a return address.
#[inline(never)]
fn step<'p, M: Unwind, P: Process<'p>>(
    registers: &Registers<M>,
    depth: usize,
    context: &mut Context<M>,
    process: &mut P,
) -> Option<Step<M>> {
    let called = |caller| Step { caller, signal: false };
    if let Some(context) = M::signal_context(registers, process) {
        let cfa = registers.sp();
        let caller = Caller { cfa, registers: M::interrupted(process, context)? };
        return Some(Step { caller, signal: true });
    }
    let (pc, exact) = (registers.pc(), depth == 0);
    // After a call that does not return, the return address may be the first one after the function.
    let lookup = if exact { pc } else { pc.checked_sub(1)? };
    let Some(Tables { start: loaded, image, index_start, index }) = process.image(lookup) else {
        // A call through a wild pointer has executed nothing. Code that is in no file, such as that of just-in-time
        // compilers, may keep its return address anywhere.
        return if exact && registers.is_astray {
            M::caller_at_entry(registers, process).map(called)
        } else {
            None
        };
    };
    let bases = BaseAddresses::default().set_eh_frame_hdr(index_start as u64);
    let index = EhFrameHdr::new(index, NativeEndian).parse(&bases, 8).ok()?;
    let start = index.eh_frame_ptr().direct().ok()?;
    let tables = image.get((start as usize).checked_sub(loaded)?..)?;
    let bases = bases.set_eh_frame(start);
    let mut section = EhFrame::new(tables, NativeEndian);
    section.set_vendor(M::VENDOR);
    let table = index.table()?;
    let entry = table.fde_for_address(&section, &bases, lookup as u64, EhFrame::cie_from_offset);
    let Ok(entry) = entry else {
        let offset = pc.checked_sub(loaded).filter(|_| exact)?;
        return M::caller_of_stub(registers, image, offset, process).map(called);
    };
    if !process.allows(entry.entry_len() + entry.cie().entry_len()) {
        return None;
    }
    let mut row = entry.unwind_info_for_address(&section, &bases, context, lookup as u64).ok()?;
    if depth <= delivery::DEPTH && delivery::is_done_by(row) {
        let code = |from: u64, to: u64| {
            let offset = |address: u64| (address as usize).checked_sub(loaded);
            image.get(offset(from)?..offset(to)?)
        };
        let is_function = |address: u64| {
            let function = table.fde_for_address(&section, &bases, address, EhFrame::cie_from_offset);
            function.is_ok_and(|function| function.initial_address() == address)
        };
        if delivery::may_have_begun(pc as u64, &entry, &section, &bases, context, code, is_function) {
            return None;
        }
        row = entry.unwind_info_for_address(&section, &bases, context, lookup as u64).ok()?;
    }
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
    // The tables name the registers that have changed: other callee-saved registers keep their values.
    let mut caller = *registers;
    // Calls that were made change the register with the return address, which is not known then.
    caller.known &= M::PRESERVED | if M::RETURN_ADDRESS != M::PC { 1 << M::RETURN_ADDRESS } else { 0 };
    let mut is_outermost = false;
    caller.is_astray = false;
    caller.set(M::SP, cfa);
    for (register, rule) in row.registers() {
        let number = usize::from(register.0);
        if number >= M::NO_VALUES.as_ref().len() {
            continue;
        }
        let value = match rule {
            RegisterRule::Undefined | RegisterRule::Architectural => {
                is_outermost |= number == M::RETURN_ADDRESS;
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
            // Without a return address the caller is not known.
            None if number == M::PC => return None,
            None => caller.known &= !(1 << number),
        }
    }
    if M::RETURN_ADDRESS != M::PC && !is_outermost {
        // Code that is called by a function's first instructions gives the function's own return address back.
        let column = usize::from(entry.cie().return_address_register().0);
        caller.set(M::PC, M::plain(caller.get(column)?) & !process.signed_bits());
        caller.forget(column);
    }
    Some(Step {
        caller: Caller { cfa: cfa as usize, registers: caller },
        signal: entry.is_signal_trampoline(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_equal_to_a_return_address_is_left_out() {
        let mut found = Interruption::new();
        assert!(found.add(1, true));
        for address in 2..=MIN_ADDRESSES {
            assert!(found.add(address, false));
        }
        assert_eq!(found.left_out(), None);
        // The interrupted instruction's own address is no return address.
        assert!(found.add(1, false));
        assert_eq!((found.left_out(), found.len), (None, MIN_ADDRESSES + 1));
        assert!(found.add(1, false) && found.add(2, false));
        assert_eq!(found.len, MIN_ADDRESSES + 1);
        // After a signal, no address counts as equal to one before it.
        assert!(found.add(7, true) && found.add(2, false));
        assert_eq!(
            (found.left_out(), found.len),
            (Some((MIN_ADDRESSES + 1, MIN_ADDRESSES + 1)), MIN_ADDRESSES + 3)
        );
    }
}
