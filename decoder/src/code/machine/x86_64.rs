//! x86-64, by iced-x86.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction as Iced, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register as IcedRegister,
};
use object::elf;
use pcce_abi::unwind;

use super::{
    Comparison, Computation, Control, Decoded, Effect, Entry, Instruction, Machine, Memory, NoteRegisters,
    Operand, Register, RegisterSet, Registers, Relocation, ThreadReference, Unwinding, Update,
};

pub(super) struct X86_64;

/// Calls push the return address, at which the stack pointer points at a function's entry.
const RETURN_ADDRESS: i64 = 8;

static REGISTERS: Registers = Registers {
    stack_pointer: Register(4),
    // rax, rcx, rdx, rsi, rdi, r8 to r11 (System V psABI)
    volatile: RegisterSet(0b1111_1100_0111),
    entry_to_cfa: RETURN_ADDRESS,
};

/// The prefix of instructions that address memory through `fs`, which holds the thread pointer.
const FS_PREFIX: u8 = 0x64;

impl Machine for X86_64 {
    fn shared(&self) -> &'static pcce_abi::machine::Machine {
        &pcce_abi::machine::x86_64::MACHINE
    }

    fn registers(&self) -> &'static Registers {
        &REGISTERS
    }

    fn decode(&self, address: u64, bytes: &[u8], code: &mut Decoded) -> bool {
        let mut info = InstructionInfoFactory::new();
        for iced in &mut Decoder::with_ip(64, bytes, address, DecoderOptions::NONE) {
            if iced.is_invalid() {
                return false;
            }
            code.instructions.push(instruction(&iced, &mut info));
            code.tables.extend(table(&iced));
            if iced.mnemonic() == Mnemonic::Lea && iced.is_ip_rel_memory_operand() {
                code.addresses.push(iced.ip_rel_memory_address());
            }
        }
        true
    }

    fn instruction(&self, address: u64, bytes: &[u8]) -> Option<Instruction> {
        let iced = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
        (!iced.is_invalid()).then(|| instruction(&iced, &mut InstructionInfoFactory::new()))
    }

    fn may_address_thread(&self, bytes: &[u8]) -> bool {
        bytes.contains(&FS_PREFIX)
    }

    fn thread_references(&self, address: u64, bytes: &[u8]) -> Option<Vec<ThreadReference>> {
        let mut references = Vec::new();
        for iced in &mut Decoder::with_ip(64, bytes, address, DecoderOptions::NONE) {
            if iced.is_invalid() {
                return None;
            }
            if iced.memory_segment() == IcedRegister::FS && is_absolute(&iced) {
                references.push(ThreadReference::Offset(iced.memory_displacement64() as i64));
            } else if iced.mnemonic() == Mnemonic::Mov && iced.is_ip_rel_memory_operand() {
                references.push(ThreadReference::Word(iced.ip_rel_memory_address()));
            }
        }
        Some(references)
    }

    fn stub_size(&self, section: &str, bytes: &[u8]) -> usize {
        // In GNU ld's `.plt.got` each stub is one `jmp`, unless the stubs begin with `endbr64`.
        if section == ".plt.got" && bytes.starts_with(&[0xff, 0x25]) { 8 } else { 16 }
    }

    fn relocation(&self, kind: elf::RelocationType) -> Relocation {
        match kind {
            elf::R_X86_64_TPOFF64 => Relocation::ThreadOffset,
            elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT => Relocation::Import,
            elf::R_X86_64_RELATIVE => Relocation::Relative,
            _ => Relocation::Other,
        }
    }

    /// `struct elf_prstatus`: registers from byte 112 on, in the order of `struct user_regs_struct`.
    fn note_registers(&self, note: &[u8]) -> Option<NoteRegisters> {
        /// Numbers of the registers there, in the order of the unwind tables.
        const UNWINDING: [usize; 17] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];
        const RIP: usize = 16;
        const RSP: usize = 19;
        const FS_BASE: usize = 21;
        const COUNT: usize = 27;
        let words = note.get(112..)?.as_chunks().0.get(..COUNT)?;
        let register = |number: usize| u64::from_le_bytes(words[number]);
        Some(NoteRegisters {
            unwinding: Unwinding::X86_64(unwind::Registers::all(UNWINDING.map(register))),
            pc: register(RIP),
            sp: register(RSP),
            thread_pointer: Some(register(FS_BASE)),
            signed_bits: 0,
        })
    }

    fn more_registers(&self, _: u32, _: &[u8], _: &mut NoteRegisters) {}
}

fn instruction(iced: &Iced, info: &mut InstructionInfoFactory) -> Instruction {
    let control = control(iced);
    let mut moves_stack = iced.stack_pointer_increment();
    // `leave` does not add to the stack pointer: it sets it.
    if iced.mnemonic() == Mnemonic::Leave {
        moves_stack = 0;
    }
    let info = info.info(iced);
    let mut changed = RegisterSet::default();
    for used in info.used_registers() {
        let register = used.register().full_register();
        let is_read = matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None);
        if !is_read && register.is_gpr() {
            changed.0 |= 1 << register.number();
        }
    }
    let reads = matches!(
        info.op0_access(),
        OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
    );
    let effect = match iced.op0_kind() {
        OpKind::Memory if reads => Effect::None,
        OpKind::Memory => {
            let size = iced.memory_size().size() as u32;
            Effect::Store { to: memory(iced), size, update: update(iced) }
        }
        OpKind::Register => set(iced).unwrap_or(Effect::None),
        _ => Effect::None,
    };
    Instruction {
        address: iced.ip(),
        len: iced.len() as u8,
        is_padding: matches!(iced.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2),
        control,
        effect,
        also: Effect::None,
        changed,
        moves_stack,
        comparison: Comparison::Forgets,
    }
}

fn control(iced: &Iced) -> Control {
    let target = iced.near_branch_target();
    match iced.flow_control() {
        FlowControl::Next => Control::Next,
        FlowControl::Call | FlowControl::IndirectCall if iced.mnemonic() == Mnemonic::Call => {
            match iced.op0_kind() {
                OpKind::NearBranch64 => Control::Call(target),
                _ => Control::IndirectCall(operand(iced, 0)),
            }
        }
        FlowControl::Call | FlowControl::IndirectCall => Control::SystemCall,
        FlowControl::UnconditionalBranch => Control::Jump { target, conditional: false },
        FlowControl::ConditionalBranch => Control::Jump { target, conditional: true },
        FlowControl::IndirectBranch => Control::IndirectJump(operand(iced, 0)),
        FlowControl::Return => Control::Return,
        FlowControl::Exception if iced.mnemonic() == Mnemonic::Ud2 => Control::Trap,
        _ => Control::Other,
    }
}

/// Returns whether the operand in memory is addressed without registers.
fn is_absolute(iced: &Iced) -> bool {
    iced.memory_base() == IcedRegister::None && iced.memory_index() == IcedRegister::None
}

fn register(register: IcedRegister) -> Register {
    if register.is_gpr64() { Register(register.number() as u8) } else { Register::UNTRACKED }
}

/// `[table + index * 8]`.
fn table(iced: &Iced) -> Option<u64> {
    let is_table = iced.memory_index_scale() == 8
        && iced.memory_index() != IcedRegister::None
        && iced.memory_base() == IcedRegister::None
        && iced.memory_segment() != IcedRegister::FS;
    is_table.then(|| iced.memory_displacement64())
}

/// The operand in memory, as the destination of a write. [`operand`] knows addresses relative to `rip`, too.
fn memory(iced: &Iced) -> Memory {
    let displacement = iced.memory_displacement64() as i64;
    let (base, index) = (iced.memory_base(), iced.memory_index());
    if iced.memory_segment() == IcedRegister::FS {
        return match (base, index) {
            (IcedRegister::None, IcedRegister::None) if displacement == 0 => Memory::ThreadPointer,
            (IcedRegister::None, IcedRegister::None) => Memory::Thread(displacement),
            (IcedRegister::None, index) if iced.memory_index_scale() == 1 => {
                Memory::ThreadRegister(register(index), displacement)
            }
            (base, IcedRegister::None) => Memory::ThreadRegister(register(base), displacement),
            _ => Memory::ThreadArray,
        };
    }
    match table(iced) {
        Some(table) => Memory::Table(table),
        None if index == IcedRegister::None && base.is_gpr64() => {
            Memory::Register(register(base), displacement)
        }
        None => Memory::Other,
    }
}

fn operand(iced: &Iced, number: u32) -> Operand {
    match iced.op_kind(number) {
        OpKind::Register if iced.op_register(number).is_gpr64() => {
            Operand::Register(register(iced.op_register(number)))
        }
        OpKind::Memory => match memory(iced) {
            table @ Memory::Table(_) => Operand::Load(table),
            _ if iced.memory_size().size() != 8 => Operand::Unknown,
            _ if iced.is_ip_rel_memory_operand() => {
                Operand::Load(Memory::Image(iced.ip_rel_memory_address()))
            }
            memory => Operand::Load(memory),
        },
        OpKind::Immediate8
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64
        | OpKind::Immediate64
        | OpKind::Immediate32 => Operand::Constant(iced.immediate(number)),
        _ => Operand::Unknown,
    }
}

/// The update by an instruction that writes to memory.
fn update(iced: &Iced) -> Update {
    match iced.mnemonic() {
        Mnemonic::Mov => Update::Set(operand(iced, 1)),
        Mnemonic::Add => Update::Add(operand(iced, 1)),
        Mnemonic::Sub => Update::Subtract(operand(iced, 1)),
        Mnemonic::Or => Update::Or(operand(iced, 1)),
        // -Oz uses it, since it is shorter than a move.
        Mnemonic::And if operand(iced, 1) == Operand::Constant(0) => Update::Set(Operand::Constant(0)),
        Mnemonic::Inc => Update::Add(Operand::Constant(1)),
        Mnemonic::Dec => Update::Subtract(Operand::Constant(1)),
        _ => Update::Unknown,
    }
}

/// The effect of an instruction whose first operand is a register. None if it is not known.
fn set(iced: &Iced) -> Option<Effect> {
    let written = iced.op0_register();
    let full = written.full_register();
    if !full.is_gpr64() {
        return None;
    }
    let computation = match iced.mnemonic() {
        // 32-bit operations clear the upper half.
        Mnemonic::Xor
            if iced.op1_kind() == OpKind::Register
                && iced.op1_register() == written
                && (written.is_gpr32() || written.is_gpr64()) =>
        {
            Computation::Copy(Operand::Constant(0))
        }
        Mnemonic::Mov if written.is_gpr32() && iced.op1_kind() == OpKind::Immediate32 => {
            Computation::Copy(Operand::Constant(iced.immediate(1) & 0xffff_ffff))
        }
        // `movsxd register, [table + index * 4]`
        Mnemonic::Movsxd
            if iced.op1_kind() == OpKind::Memory
                && iced.memory_index_scale() == 4
                && iced.memory_index() != IcedRegister::None
                && iced.memory_base().is_gpr64()
                && iced.memory_displacement64() == 0 =>
        {
            Computation::Entry {
                table: register(iced.memory_base()),
                index: register(iced.memory_index()),
                kind: Entry::Word,
            }
        }
        _ if !written.is_gpr64() => return None,
        Mnemonic::Mov => Computation::Copy(operand(iced, 1)),
        Mnemonic::Lea if iced.is_ip_rel_memory_operand() => {
            Computation::Copy(Operand::Constant(iced.ip_rel_memory_address()))
        }
        Mnemonic::Lea => {
            let index = iced.memory_index();
            if index != IcedRegister::None && iced.memory_index_scale() != 1 {
                return None;
            }
            Computation::Sum {
                base: register(iced.memory_base()),
                index: (index != IcedRegister::None).then(|| register(index)),
                addend: iced.memory_displacement64(),
            }
        }
        Mnemonic::Add => Computation::Add(register(full), operand(iced, 1)),
        Mnemonic::Inc => Computation::Add(register(full), Operand::Constant(1)),
        Mnemonic::Sub => Computation::Subtract(register(full), operand(iced, 1)),
        Mnemonic::Dec => Computation::Subtract(register(full), Operand::Constant(1)),
        Mnemonic::Or => Computation::Or(register(full), operand(iced, 1)),
        Mnemonic::And if written == IcedRegister::RSP => Computation::AlignedStack,
        Mnemonic::Pop => Computation::Pop,
        _ => return None,
    };
    Some(Effect::Set(register(full), computation))
}
