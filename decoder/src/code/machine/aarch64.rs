//! AArch64. All instructions have four bytes, so they are read by their fields, in the order of the architecture's
//! tables of encodings. What is not read here changes the register that the encoding names as its result.

use object::elf;
use pcce_abi::machine::aarch64;
use pcce_abi::unwind;

use super::{
    Comparison, Computation, Control, Decoded, Effect, Entry, Instruction, Machine, Memory, NoteRegisters,
    Operand, Register, RegisterSet, Registers, Relocation, ThreadReference, Unwinding, Update,
};

pub(super) struct AArch64;

/// The length of an instruction.
const LEN: usize = 4;
const FRAME_POINTER: u8 = 29;
/// The register with the return address.
const LINK: u8 = 30;
/// The bits of instructions that make an address near their own, and one of a page.
const ADR: u32 = 0x1000_0000;
const ADRP: u32 = 0x9000_0000;
const NOP: u32 = 0xd503_201f;
/// The number 31 stands for the stack pointer in some operands, and for 0 in others.
const SP: u8 = 31;

static REGISTERS: Registers = Registers {
    stack_pointer: Register(SP),
    // x0 to x18, and the one with the return address (AAPCS64)
    volatile: RegisterSet(0x7_ffff | 1 << LINK),
    // The return address is in a register.
    entry_to_cfa: 0,
};

impl Machine for AArch64 {
    fn shared(&self) -> &'static pcce_abi::machine::Machine {
        &pcce_abi::machine::aarch64::MACHINE
    }

    fn registers(&self) -> &'static Registers {
        &REGISTERS
    }

    fn decode(&self, address: u64, bytes: &[u8], code: &mut Decoded) -> bool {
        let (words, rest) = bytes.as_chunks::<LEN>();
        if !rest.is_empty() || !address.is_multiple_of(LEN as u64) {
            return false;
        }
        let mut pages = Pages::default();
        let mut before = 0;
        for (word, address) in words.iter().zip((address..).step_by(LEN)) {
            let word = u32::from_le_bytes(*word);
            let Some(instruction) = instruction(address, word) else { return false };
            // The address of a page is only half of one: the page may begin in the middle of a table. From other
            // addresses that compilers make by one instruction, the entries of a jump table count: nothing jumps there.
            // Linkers put such an instruction, and a nop, in the place of the two that make an address.
            let is_whole = match word & 0x9f00_0000 {
                ADRP => false,
                ADR => before == NOP,
                _ => true,
            };
            code.addresses.extend(pages.next(&instruction).filter(|_| is_whole));
            code.instructions.push(instruction);
            before = word;
        }
        if let (Some(word), Some(jump)) = (stub_word(address, words), code.instructions.last_mut()) {
            jump.control = Control::IndirectJump(Operand::Load(Memory::Image(word)));
        }
        true
    }

    fn instruction(&self, address: u64, bytes: &[u8]) -> Option<Instruction> {
        instruction(address, u32::from_le_bytes(*bytes.first_chunk()?))
    }

    fn may_address_thread(&self, bytes: &[u8]) -> bool {
        let (words, _) = bytes.as_chunks::<LEN>();
        words.iter().any(|word| reads_thread_pointer(u32::from_le_bytes(*word)))
    }

    fn thread_references(&self, address: u64, bytes: &[u8]) -> Option<Vec<ThreadReference>> {
        let mut code = Decoded::default();
        if !self.decode(address, bytes, &mut code) {
            return None;
        }
        let mut references = Vec::new();
        let mut pages = Pages::default();
        for instruction in &code.instructions {
            for effect in [instruction.effect, instruction.also] {
                let of_memory = match effect {
                    Effect::Store { to, .. } | Effect::Set(_, Computation::Copy(Operand::Load(to))) => {
                        Some(to)
                    }
                    Effect::None | Effect::Set(..) => None,
                };
                if let Some(Memory::Register(base, addend)) = of_memory {
                    match pages.get(base) {
                        Known::Thread(offset) => {
                            references.push(ThreadReference::Offset(offset.wrapping_add(addend)));
                        }
                        Known::Constant(page) => {
                            references.push(ThreadReference::Word(page.wrapping_add_signed(addend)));
                        }
                        Known::Nothing => {}
                    }
                }
            }
            pages.next(instruction);
            if let Effect::Set(register, _) = instruction.effect
                && let Known::Thread(offset) = pages.get(register)
            {
                references.push(ThreadReference::Offset(offset));
            }
        }
        Some(references)
    }

    fn stub_size(&self, _: &str, _: &[u8]) -> usize {
        16
    }

    fn relocation(&self, kind: elf::RelocationType) -> Relocation {
        match kind {
            elf::R_AARCH64_TLS_TPREL => Relocation::ThreadOffset,
            elf::R_AARCH64_JUMP_SLOT | elf::R_AARCH64_GLOB_DAT => Relocation::Import,
            elf::R_AARCH64_RELATIVE => Relocation::Relative,
            _ => Relocation::Other,
        }
    }

    /// `struct elf_prstatus`: registers from byte 112 on, in the order of `struct user_pt_regs`, which is that of the
    /// unwind tables.
    fn note_registers(&self, note: &[u8]) -> Option<NoteRegisters> {
        let words = note.get(112..)?.as_chunks().0.first_chunk()?;
        let values = words.map(u64::from_le_bytes);
        Some(NoteRegisters {
            unwinding: Unwinding::AArch64(unwind::Registers::all(values)),
            pc: values[aarch64::PC],
            sp: values[aarch64::SP],
            thread_pointer: None,
            signed_bits: 0,
        })
    }

    fn more_registers(&self, kind: u32, note: &[u8], registers: &mut NoteRegisters) {
        /// The thread pointer, and perhaps a second one.
        const NT_ARM_TLS: u32 = 0x401;
        /// The bits that signatures have, in addresses of data and of code.
        const NT_ARM_PAC_MASK: u32 = 0x406;
        let word = |number: usize| Some(u64::from_le_bytes(*note.as_chunks().0.get(number)?));
        match kind {
            NT_ARM_TLS => registers.thread_pointer = word(0),
            NT_ARM_PAC_MASK => registers.signed_bits = word(1).unwrap_or(0),
            _ => {}
        }
    }
}

/// The known value of a register, from the instructions before one in the order of their addresses.
#[derive(Clone, Copy, Default)]
enum Known {
    #[default]
    Nothing,
    Constant(u64),
    /// The thread pointer plus this.
    Thread(i64),
}

/// Addresses in the image are made by two instructions: of the page, and of the place in it.
#[derive(Default)]
struct Pages {
    registers: [Known; super::REGISTERS],
}

impl Pages {
    fn get(&self, register: Register) -> Known {
        self.registers.get(usize::from(register.0)).copied().unwrap_or_default()
    }

    /// Goes on behind an instruction. Returns the address in the image that it makes.
    fn next(&mut self, instruction: &Instruction) -> Option<u64> {
        let known = match instruction.effect {
            Effect::Set(register, computation) => Some((register, self.computed(computation))),
            _ => None,
        };
        for register in instruction.changed.iter() {
            self.registers[usize::from(register.0)] = Known::Nothing;
        }
        if instruction.is_call() {
            for register in REGISTERS.volatile.iter() {
                self.registers[usize::from(register.0)] = Known::Nothing;
            }
        }
        let (register, known) = known?;
        self.registers[usize::from(register.0)] = known;
        match known {
            Known::Constant(address) => Some(address),
            _ => None,
        }
    }

    fn computed(&self, computation: Computation) -> Known {
        match computation {
            Computation::Copy(Operand::Constant(value)) => Known::Constant(value),
            Computation::Copy(Operand::Register(register)) => self.get(register),
            Computation::Copy(Operand::Load(Memory::ThreadPointer)) => Known::Thread(0),
            Computation::Replace { register, keep, bits } => match self.get(register) {
                Known::Constant(value) => Known::Constant(value & keep | bits),
                _ => Known::Nothing,
            },
            Computation::Sum { base, index, addend } => {
                let add = |known: Known, addend: u64| match known {
                    Known::Constant(value) => Known::Constant(value.wrapping_add(addend)),
                    Known::Thread(value) => Known::Thread(value.wrapping_add(addend as i64)),
                    _ => Known::Nothing,
                };
                match (self.get(base), index.map(|index| self.get(index))) {
                    (base, None) => add(base, addend),
                    (Known::Constant(value), Some(other)) | (other, Some(Known::Constant(value))) => {
                        add(other, value.wrapping_add(addend))
                    }
                    _ => Known::Nothing,
                }
            }
            _ => Known::Nothing,
        }
    }
}

/// The word through which a linker's stub jumps: `adrp x16, …; ldr x17, [x16, …]; add x16, x16, …; br x17`. None if the
/// words are none.
fn stub_word(address: u64, words: &[[u8; LEN]]) -> Option<u64> {
    let [page, load, add, jump] = words else { return None };
    let [page, load, add, jump] = [page, load, add, jump].map(|word| u32::from_le_bytes(*word));
    let is_stub = page & 0x9f00_001f == 0x9000_0010
        && load & 0xffc0_03ff == 0xf940_0211
        && add & 0xffc0_03ff == 0x9100_0210
        && jump == 0xd61f_0220;
    let Effect::Set(_, Computation::Copy(Operand::Constant(page))) = instruction(address, page)?.effect
    else {
        return None;
    };
    is_stub.then(|| page.wrapping_add(u64::from(load >> 10 & 0xfff) * 8))
}

/// `mrs register, tpidr_el0`
fn reads_thread_pointer(word: u32) -> bool {
    word & !0x1f == 0xd53b_d040
}

/// The fields of an instruction.
#[derive(Clone, Copy)]
struct Fields {
    word: u32,
    address: u64,
}

impl Fields {
    /// The bits from one to another, both included.
    fn bits(self, high: u32, low: u32) -> u32 {
        self.word >> low & ((1 << (high - low + 1)) - 1)
    }

    fn bit(self, number: u32) -> bool {
        self.word >> number & 1 == 1
    }

    fn is(self, mask: u32, value: u32) -> bool {
        self.word & mask == value
    }

    /// A signed number in the bits from one to another.
    fn signed(self, high: u32, low: u32) -> i64 {
        let unused = 31 - high;
        i64::from((self.word << unused).cast_signed() >> (unused + low))
    }

    /// The register of the result.
    fn d(self) -> u8 {
        self.bits(4, 0) as u8
    }

    fn n(self) -> u8 {
        self.bits(9, 5) as u8
    }

    fn m(self) -> u8 {
        self.bits(20, 16) as u8
    }

    /// The second register of a pair.
    fn second(self) -> u8 {
        self.bits(14, 10) as u8
    }

    /// The target of a jump whose distance, in instructions, is in these bits.
    fn target(self, high: u32, low: u32) -> u64 {
        self.address.wrapping_add_signed(self.signed(high, low) * LEN as i64)
    }
}

/// A register as an operand, where the number 31 stands for 0.
fn operand(number: u8) -> Operand {
    if number == SP { Operand::Constant(0) } else { Operand::Register(Register(number)) }
}

/// A set of registers, where the number 31 stands for none.
fn set(numbers: &[u8]) -> RegisterSet {
    RegisterSet(numbers.iter().filter(|number| **number != SP).fold(0, |all, number| all | 1 << number))
}

/// The instruction of a word. None if there is none.
fn instruction(address: u64, word: u32) -> Option<Instruction> {
    let fields = Fields { word, address };
    let plain = Instruction {
        address,
        len: LEN as u8,
        is_padding: false,
        control: Control::Next,
        effect: Effect::None,
        also: Effect::None,
        changed: RegisterSet::default(),
        moves_stack: 0,
        comparison: comparison(fields),
    };
    match fields.bits(28, 25) {
        // udf
        0b0000 if word >> 16 == 0 => Some(Instruction { control: Control::Trap, is_padding: true, ..plain }),
        0b0000 | 0b0001 | 0b0011 => None,
        // Scalable vectors: some count into a register.
        0b0010 => Some(Instruction { changed: set(&[fields.d()]), ..plain }),
        0b1000 | 0b1001 => Some(immediate(fields, plain)),
        0b1010 | 0b1011 => Some(branch(fields, plain)),
        0b0101 | 0b1101 => Some(of_registers(fields, plain)),
        0b0111 | 0b1111 => Some(vector(fields, plain)),
        _ => Some(memory(fields, plain)),
    }
}

/// The part of an instruction in a comparison. `cmp` is a subtraction whose result may be dropped.
fn comparison(fields: Fields) -> Comparison {
    let keeps = |keeps: bool| if keeps { Comparison::Keeps } else { Comparison::Forgets };
    match fields.bits(28, 25) {
        // subs with an immediate operand that is not shifted: no table has so many entries
        0b1000 if fields.is(0x7fc0_0000, 0x7100_0000) && fields.n() != SP => {
            Comparison::Makes(Register(fields.n()), fields.bits(21, 10) as u16)
        }
        // adds, subs, ands
        0b1000 | 0b1001 => {
            let adds = fields.bits(25, 23) == 0b010 && fields.bit(29);
            let ands = fields.bits(25, 23) == 0b100 && fields.bits(30, 29) == 0b11;
            keeps(!adds && !ands)
        }
        // With registers as operands: ands and bics are the logical instructions that write flags.
        0b0101 | 0b1101 => {
            let is_logical = fields.is(0x1f00_0000, 0x0a00_0000);
            keeps(if is_logical { fields.bits(30, 29) != 0b11 } else { !fields.bit(29) })
        }
        0b1010 | 0b1011 => match () {
            () if fields.is(0xff00_0010, 0x5400_0000) => match fields.bits(3, 0) {
                0b0010 => Comparison::JumpsAtLeast,
                0b0011 => Comparison::JumpsBelow,
                0b1000 => Comparison::JumpsAbove,
                0b1001 => Comparison::JumpsAtMost,
                _ => Comparison::Keeps,
            },
            // b, cbz, tbz; hints; mrs
            () => keeps(
                fields.is(0xfc00_0000, 0x1400_0000)
                    || fields.is(0x7c00_0000, 0x3400_0000)
                    || fields.is(0xffff_f01f, 0xd503_201f)
                    || fields.is(0xfff0_0000, 0xd530_0000),
            ),
        },
        // Loads and stores of a register or two.
        0b0100 | 0b0110 | 0b1100 | 0b1110 => {
            keeps(fields.is(0x3a00_0000, 0x2800_0000) || fields.is(0x3a00_0000, 0x3800_0000))
        }
        _ => Comparison::Forgets,
    }
}

/// Data processing with immediate operands.
fn immediate(fields: Fields, plain: Instruction) -> Instruction {
    let (d, n, is_64) = (fields.d(), fields.n(), fields.bit(31));
    let result = |computation| Instruction {
        changed: set(&[d]),
        effect: if d == SP { Effect::None } else { Effect::Set(Register(d), computation) },
        ..plain
    };
    let unknown = Instruction { changed: set(&[d]), ..plain };
    match fields.bits(25, 23) {
        // adr, adrp
        0b000 | 0b001 => {
            let distance = fields.signed(23, 5) << 2 | i64::from(fields.bits(30, 29));
            let made = match is_64 {
                true => (fields.address & !0xfff).wrapping_add_signed(distance << 12),
                false => fields.address.wrapping_add_signed(distance),
            };
            result(Computation::Copy(Operand::Constant(made)))
        }
        // add, sub. Without flags, 31 is the stack pointer.
        0b010 => {
            let value = u64::from(fields.bits(21, 10)) << if fields.bit(22) { 12 } else { 0 };
            let addend = if fields.bit(30) { value.wrapping_neg() } else { value };
            let sets_flags = fields.bit(29);
            if d == SP && sets_flags {
                return plain;
            }
            let computation = match is_64 {
                true => Computation::Sum { base: Register(n), index: None, addend },
                false => Computation::Copy(Operand::Unknown),
            };
            let changed = RegisterSet(1 << d);
            Instruction { changed, effect: Effect::Set(Register(d), computation), ..plain }
        }
        // and, orr, eor, ands
        0b100 => {
            let operation = fields.bits(30, 29);
            if d == SP && operation == 0b11 {
                return plain;
            }
            let changed = RegisterSet(1 << d);
            let computation = match (operation, mask(fields)) {
                (0b00, _) if d == SP && is_64 => Some(Computation::AlignedStack),
                (0b01, Some(bits)) if n == SP => Some(Computation::Copy(Operand::Constant(bits))),
                (0b01, Some(bits)) if is_64 => Some(Computation::Or(Register(n), Operand::Constant(bits))),
                (0b00 | 0b11, Some(bits)) if d != SP => Some(Computation::AtMost(bits)),
                _ => None,
            };
            let effect = computation.map_or(Effect::None, |new| Effect::Set(Register(d), new));
            Instruction { changed, effect, ..plain }
        }
        // movn, movz, movk
        0b101 => {
            let shift = fields.bits(22, 21) * 16;
            let bits = u64::from(fields.bits(20, 5)) << shift;
            let width = if is_64 { u64::MAX } else { u32::MAX.into() };
            match fields.bits(30, 29) {
                0b00 => result(Computation::Copy(Operand::Constant(!bits & width))),
                0b10 => result(Computation::Copy(Operand::Constant(bits))),
                _ => {
                    let keep = !(0xffff << shift) & width;
                    result(Computation::Replace { register: Register(d), keep, bits })
                }
            }
        }
        // ubfm, of the lowest bits of what it takes
        0b110 if fields.bits(30, 29) == 0b10 => {
            let (rotation, last) = (fields.bits(21, 16), fields.bits(15, 10));
            let bits = last.checked_sub(rotation).map(|highest| u64::MAX >> (63 - highest));
            bits.map_or(unknown, |bits| result(Computation::AtMost(bits)))
        }
        // addg and subg, which may write to the stack pointer
        0b011 => Instruction { changed: RegisterSet(1 << d), ..plain },
        _ => unknown,
    }
}

/// The bits that a logical instruction has as its immediate operand. None if there are none.
fn mask(fields: Fields) -> Option<u64> {
    let (n, rotation, ones) = (fields.bits(22, 22), fields.bits(21, 16), fields.bits(15, 10));
    let length = 31_u32.checked_sub((n << 6 | !ones & 0x3f).leading_zeros()).filter(|length| *length > 0)?;
    let size = 1_u32 << length;
    if size == 64 && !fields.bit(31) {
        return None;
    }
    let (ones, rotation) = (ones & (size - 1), rotation & (size - 1));
    if ones == size - 1 {
        return None;
    }
    let all = u64::MAX >> (64 - size);
    let element = (1_u64 << (ones + 1)) - 1;
    let rotated =
        if rotation == 0 { element } else { (element >> rotation | element << (size - rotation)) & all };
    let mut bits = rotated;
    let mut width = size;
    while width < 64 {
        bits |= bits << width;
        width *= 2;
    }
    Some(if fields.bit(31) { bits } else { bits & u64::from(u32::MAX) })
}

/// Branches, exceptions, and instructions of the system.
fn branch(fields: Fields, plain: Instruction) -> Instruction {
    let (control, changed) = match () {
        () if fields.is(0x7c00_0000, 0x1400_0000) => {
            let target = fields.target(25, 0);
            match fields.bit(31) {
                true => (Control::Call(target), set(&[LINK])),
                false => (Control::Jump { target, conditional: false }, set(&[])),
            }
        }
        // b.condition; cbz, cbnz
        () if fields.is(0xfe00_0000, 0x5400_0000) || fields.is(0x7e00_0000, 0x3400_0000) => {
            (Control::Jump { target: fields.target(23, 5), conditional: true }, set(&[]))
        }
        // tbz, tbnz
        () if fields.is(0x7e00_0000, 0x3600_0000) => {
            (Control::Jump { target: fields.target(18, 5), conditional: true }, set(&[]))
        }
        // br, blr, ret, with a signature or without
        () if fields.is(0xfe00_0000, 0xd600_0000) => {
            let target = Operand::Register(Register(fields.n()));
            match fields.bits(24, 21) {
                0b0000 | 0b1000 => (Control::IndirectJump(target), set(&[])),
                0b0001 | 0b1001 => (Control::IndirectCall(target), set(&[LINK])),
                0b0010 => (Control::Return, set(&[])),
                _ => (Control::Other, set(&[])),
            }
        }
        // svc; brk; other exceptions
        () if fields.is(0xffe0_001f, 0xd400_0001) => (Control::SystemCall, set(&[])),
        () if fields.is(0xffe0_001f, 0xd420_0000) => (Control::Trap, set(&[])),
        () if fields.is(0xff00_0000, 0xd400_0000) => (Control::Other, set(&[])),
        // mrs, sysl
        () if fields.is(0xffe0_0000, 0xd520_0000) => (Control::Next, set(&[fields.d()])),
        // Hints: those that sign a return address, or check one, and those with the registers x16 and x17.
        () if fields.is(0xffff_f01f, 0xd503_201f) => {
            let signs = match fields.bits(11, 5) {
                // xpaclri, paciaz, paciasp and their like
                7 | 24..=31 => set(&[LINK]),
                // chkfeat
                40 => set(&[16]),
                8 | 10 | 12 | 14 => set(&[17]),
                _ => set(&[]),
            };
            (Control::Next, signs)
        }
        () => (Control::Next, set(&[])),
    };
    let is_padding = fields.word == NOP || control == Control::Trap;
    let effect = match reads_thread_pointer(fields.word) && fields.d() != SP {
        true => Effect::Set(Register(fields.d()), Computation::Copy(Operand::Load(Memory::ThreadPointer))),
        false => Effect::None,
    };
    Instruction { control, changed, is_padding, effect, ..plain }
}

/// Data processing with registers.
fn of_registers(fields: Fields, plain: Instruction) -> Instruction {
    let (d, n, m, is_64) = (fields.d(), fields.n(), fields.m(), fields.bit(31));
    // add and sub with an extended register: without flags, 31 is the stack pointer.
    if fields.is(0x1fe0_0000, 0x0b20_0000) {
        let is_stack = d == SP && !fields.bit(29);
        return Instruction { changed: if is_stack { RegisterSet(1 << SP) } else { set(&[d]) }, ..plain };
    }
    // ccmp, ccmn
    if fields.is(0x1fe0_0000, 0x1a40_0000) {
        return plain;
    }
    let is_plain = fields.bits(15, 10) == 0;
    let computation = match () {
        // orr without a shift, which is mov
        () if fields.is(0x7fe0_0000, 0x2a00_0000) && n == SP && is_plain => match (is_64, m) {
            (_, SP) => Some(Computation::Copy(Operand::Constant(0))),
            (true, m) => Some(Computation::Copy(operand(m))),
            (false, m) => Some(Computation::Low(Register(m))),
        },
        // add with a shift
        () if fields.is(0xffe0_0000, 0x8b00_0000) && !is_plain && n != SP && m != SP => {
            let (base, index) = (Register(n), Register(m));
            Some(Computation::Shifted { base, index, shift: fields.bits(15, 10) })
        }
        () if !is_64 || !is_plain || n == SP || m == SP => None,
        () if fields.is(0x7fe0_0000, 0x2a00_0000) => Some(Computation::Or(Register(n), operand(m))),
        () if fields.is(0x5fe0_0000, 0x0b00_0000) => {
            Some(Computation::Sum { base: Register(n), index: Some(Register(m)), addend: 0 })
        }
        () if fields.is(0x5fe0_0000, 0x4b00_0000) => Some(Computation::Subtract(Register(n), operand(m))),
        () => None,
    };
    let effect = match computation {
        Some(computation) if d != SP => Effect::Set(Register(d), computation),
        _ => Effect::None,
    };
    Instruction { changed: set(&[d]), effect, ..plain }
}

/// Floating point and vectors: some write to a general register.
fn vector(fields: Fields, plain: Instruction) -> Instruction {
    let converts = fields.is(0x5f20_0000, 0x1e20_0000) && fields.bits(15, 10) == 0
        || fields.is(0x5f20_0000, 0x1e00_0000);
    let moves = fields.is(0x9fe0_fc00, 0x0e00_2c00) || fields.is(0x9fe0_fc00, 0x0e00_3c00);
    Instruction { changed: if converts || moves { set(&[fields.d()]) } else { set(&[]) }, ..plain }
}

/// Loads and stores.
fn memory(fields: Fields, plain: Instruction) -> Instruction {
    let (t, n) = (fields.d(), fields.n());
    let is_vector = fields.bit(26);
    let at = |addend: i64| Memory::Register(Register(n), addend);
    let general = |registers: &[u8]| if is_vector { set(&[]) } else { set(registers) };
    let unknown = |to: Memory, size: u32| Effect::Store { to, size, update: Update::Unknown };
    // The base register moves.
    let moved = |mut instruction: Instruction, by: i64| {
        if n == SP {
            instruction.moves_stack = by as i32;
        } else {
            instruction.changed.0 |= 1 << n;
        }
        instruction
    };
    // A load or store of one register of a size in bytes.
    let one = |is_load: bool, size: u32, to: Memory| match is_load {
        true => {
            let value = Computation::Copy(Operand::Load(to));
            let effect = match size {
                _ if is_vector || t == SP => Effect::None,
                8 => Effect::Set(Register(t), value),
                // ldrb
                1 if fields.bits(23, 22) == 1 => {
                    Effect::Set(Register(t), Computation::AtMost(u8::MAX.into()))
                }
                // ldr of a local variable of 32 bits
                4 if fields.bits(23, 22) == 1 && matches!(n, FRAME_POINTER | SP) => {
                    Effect::Set(Register(t), Computation::AtMost(u32::MAX.into()))
                }
                _ => Effect::None,
            };
            Instruction { changed: general(&[t]), effect, ..plain }
        }
        false => {
            let update = if is_vector { Update::Unknown } else { Update::Set(operand(t)) };
            Instruction { effect: Effect::Store { to, size, update }, ..plain }
        }
    };
    // Pairs.
    if fields.is(0x3a00_0000, 0x2800_0000) {
        let second = fields.second();
        let option = fields.bits(31, 30);
        let is_load = fields.bit(22);
        let size = if is_vector {
            4 << option
        } else if option == 0b10 {
            8
        } else {
            4
        };
        let distance = fields.signed(21, 15) * i64::from(size);
        let (post, pre) = (fields.bits(24, 23) == 0b01, fields.bits(24, 23) == 0b11);
        let first_at = if post { 0 } else { distance };
        let (low, high) = (at(first_at), at(first_at + i64::from(size)));
        let whole = !is_vector && size == 8;
        let load = |register: u8, from: Memory| match whole && register != SP {
            true => Effect::Set(Register(register), Computation::Copy(Operand::Load(from))),
            false => Effect::None,
        };
        let store = |register: u8, to: Memory| match is_vector {
            true => unknown(to, size),
            false => Effect::Store { to, size, update: Update::Set(operand(register)) },
        };
        // stgp, which stores tags, too: nothing is known of the stack any more if it writes there.
        if option == 0b01 && !is_vector && !is_load {
            return Instruction {
                changed: RegisterSet(1 << n),
                effect: unknown(at(distance * 4), 16),
                ..plain
            };
        }
        let instruction = match is_load {
            true => Instruction {
                changed: general(&[t, second]),
                effect: load(t, low),
                also: load(second, high),
                ..plain
            },
            false => Instruction { effect: store(t, low), also: store(second, high), ..plain },
        };
        return if post || pre { moved(instruction, distance) } else { instruction };
    }
    // One register.
    if fields.is(0x3a00_0000, 0x3800_0000) {
        let (size, option) = (fields.bits(31, 30), fields.bits(23, 22));
        let bytes = match is_vector && option & 0b10 != 0 {
            true => 16,
            false => 1 << size,
        };
        // Of a general register, the options 2 and 3 load with the sign; of 8 bytes, 2 is a prefetch.
        let is_load = if is_vector { option & 1 == 1 } else { option != 0 };
        if !is_vector && size == 3 && option == 2 {
            return plain;
        }
        if fields.bit(24) {
            return one(is_load, bytes, at(i64::from(fields.bits(21, 10)) * i64::from(bytes)));
        }
        let distance = fields.signed(20, 12);
        return match (fields.bit(21), fields.bits(11, 10)) {
            (false, 0b00 | 0b10) => one(is_load, bytes, at(distance)),
            (false, 0b01) => moved(one(is_load, bytes, at(0)), distance),
            (false, _) => moved(one(is_load, bytes, at(distance)), distance),
            // The index is a register.
            (true, 0b10) => {
                // Of a jump table: ldrb, ldrh or ldrsw, with the index shifted by the size of an entry.
                let is_scaled = fields.bit(12) || size == 0;
                let entry = match (size, option) {
                    (0, 1) => Some(Entry::Byte),
                    (1, 1) => Some(Entry::HalfWord),
                    (2, 2) => Some(Entry::Word),
                    _ => None,
                };
                let mut instruction = one(is_load, bytes, Memory::Other);
                if let Some(kind) = entry.filter(|_| !is_vector && is_scaled && t != SP && n != SP) {
                    let (table, index) = (Register(n), Register(fields.m()));
                    let entry = Computation::Entry { table, index, kind };
                    instruction.effect = Effect::Set(Register(t), entry);
                } else if is_load {
                    instruction.effect = Effect::None;
                }
                instruction
            }
            // Atomic: the result is what was there.
            (true, 0b00) => Instruction { changed: set(&[t]), effect: unknown(at(0), bytes), ..plain },
            // ldraa, ldrab
            (true, _) => Instruction { changed: RegisterSet(set(&[t]).0 | 1 << n), ..plain },
        };
    }
    // ldr of a literal
    if fields.is(0x3b00_0000, 0x1800_0000) {
        return Instruction { changed: general(&[t]), ..plain };
    }
    // Vectors of several registers, which may move the base register.
    if fields.is(0xbe00_0000, 0x0c00_0000) {
        let is_load = fields.bit(22);
        let effect = if is_load { Effect::None } else { unknown(at(0), 64) };
        let instruction = Instruction { effect, ..plain };
        if !fields.bit(23) {
            return instruction;
        }
        // By how far is not read: where it is the stack pointer, nothing is known of it any more.
        return Instruction { changed: RegisterSet(1 << n), ..instruction };
    }
    // Exclusive and ordered accesses, comparisons, memory tags, copies of memory: all registers that they name.
    Instruction { changed: set(&[t, n, fields.m(), fields.second()]), effect: unknown(at(0), 16), ..plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: u64, word: u32) -> Instruction {
        instruction(address, word).expect("it is one")
    }

    fn effects(word: u32) -> String {
        let Instruction { effect, also, moves_stack, .. } = at(0x1000, word);
        format!("{effect:?} {also:?} {moves_stack}")
    }

    #[test]
    fn effects_are_read() {
        let stack = |at: i64| format!("Register(Register(31), {at})");
        for (word, expected) in [
            // stp x29, x30, [sp, #-48]!
            (
                0xa9bd_7bfd,
                format!(
                    "Store {{ to: {}, size: 8, update: Set(Register(Register(29))) }} \
                     Store {{ to: {}, size: 8, update: Set(Register(Register(30))) }} -48",
                    stack(-48),
                    stack(-40)
                ),
            ),
            // ldp x29, x30, [sp], #48
            (
                0xa8c3_7bfd,
                format!(
                    "Set(Register(29), Copy(Load({}))) Set(Register(30), Copy(Load({}))) 48",
                    stack(0),
                    stack(8)
                ),
            ),
            // stp xzr, x8, [sp]
            (
                0xa900_23ff,
                format!(
                    "Store {{ to: {}, size: 8, update: Set(Constant(0)) }} \
                     Store {{ to: {}, size: 8, update: Set(Register(Register(8))) }} 0",
                    stack(0),
                    stack(8)
                ),
            ),
            // mrs x8, tpidr_el0
            (0xd53b_d048, "Set(Register(8), Copy(Load(ThreadPointer))) None 0".to_owned()),
            // sub sp, sp, #32
            (
                0xd100_83ff,
                format!(
                    "Set(Register(31), Sum {{ base: Register(31), index: None, addend: {} }}) None 0",
                    32_u64.wrapping_neg()
                ),
            ),
            // orr x9, x8, #1; orr x9, x9, #2
            (0xb240_0109, "Set(Register(9), Or(Register(8), Constant(1))) None 0".to_owned()),
            (0xb27f_0129, "Set(Register(9), Or(Register(9), Constant(2))) None 0".to_owned()),
            // mov x0, #0x12340000; mov x1, x0; mov x0, xzr
            (0xd2a2_4680, "Set(Register(0), Copy(Constant(305397760))) None 0".to_owned()),
            (0xaa00_03e1, "Set(Register(1), Copy(Register(Register(0)))) None 0".to_owned()),
            (0xaa1f_03e0, "Set(Register(0), Copy(Constant(0))) None 0".to_owned()),
            // adrp x0, 0x2000
            (0xb000_0000, "Set(Register(0), Copy(Constant(8192))) None 0".to_owned()),
            // cmp x0, #1; nop
            (0xf100_041f, "None None 0".to_owned()),
            (0xd503_201f, "None None 0".to_owned()),
        ] {
            assert_eq!(effects(word), expected, "{word:#x}");
        }
    }

    #[test]
    fn control_is_read() {
        let jump = |target, conditional| Control::Jump { target, conditional };
        for (word, control) in [
            (0x97ff_ffff, Control::Call(0xffc)),
            (0x1400_0002, jump(0x1008, false)),
            (0x5400_0041, jump(0x1008, true)),
            (0xb400_0040, jump(0x1008, true)),
            (0x3600_0040, jump(0x1008, true)),
            (0xd65f_03c0, Control::Return),
            (0xd65f_0bff, Control::Return),
            (0xd61f_0200, Control::IndirectJump(Operand::Register(Register(16)))),
            (0xd63f_0100, Control::IndirectCall(Operand::Register(Register(8)))),
            (0xd400_0001, Control::SystemCall),
            (0xd420_0020, Control::Trap),
            (0x0000_4350, Control::Trap),
            (0xf940_0000, Control::Next),
        ] {
            assert_eq!(at(0x1000, word).control, control, "{word:#x}");
        }
        assert!(instruction(0, 0xe1ff_ffff).is_none());
    }

    #[test]
    fn changed_registers_are_read() {
        for (word, registers) in [
            // ldr x0, [x1], #8; str x0, [x1, #8]!; ldr q0, [x1]; fmov x2, d0; fadd d2, d0, d1
            (0xf840_8420, 0b11),
            (0xf800_8c20, 0b10),
            (0x3dc0_0020, 0),
            (0x9e66_0002, 0b100),
            (0x1e61_2802, 0),
            // bl; paciasp; ldadd x0, x1, [x2]; and sp, x9, #-64
            (0x9400_0000, 1 << 30),
            (0xd503_233f, 1 << 30),
            (0xf820_0041, 0b10),
            (0x927a_e53f, 1 << 31),
        ] {
            assert_eq!(at(0, word).changed.0, registers, "{word:#x}");
        }
    }

    #[test]
    fn no_word_is_read_wrongly() {
        // Each field of the encodings in turn.
        let mut word = 1_u32;
        for _ in 0..1_000_000 {
            word = word.wrapping_mul(0x9e37_79b1).rotate_left(7) ^ 0x5bd1_e995;
            let _ = instruction(0xffff_ffff_ffff_fff0, word);
        }
    }
}
