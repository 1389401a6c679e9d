//! What instructions do to the [`Machine`].

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use pcce_abi::layout;
use pcce_dictionary::code::State;

use super::flow::{Called, Surroundings};
use super::function::{Function, is_call};
use super::machine::{Machine, RSP, Value, move_stack, sum};

/// Offset of `top` in the block.
const TOP: i64 = layout::TLS_TOP as i64;

/// Registers that a call may change.
pub(super) const VOLATILE: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// Outlined code that calls outlined code is followed so far.
const MOST_NESTED: u32 = 8;

/// A place in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the thread-local block, at this offset.
    Block(i64),
    Slot(u8, i64),
    /// In thread-local storage, and it may be the block.
    Thread,
    /// The thread pointer's own word.
    Pointer,
    Other,
}

/// What instructions of a function do.
pub(super) struct Effects<'a> {
    pub(super) function: &'a Function,
    pub(super) image: &'a dyn Surroundings,
    /// Instructions whose addresses are taken: a jump through a pointer may lead there.
    pub(super) taken: Vec<usize>,
    info: InstructionInfoFactory,
}

impl<'a> Effects<'a> {
    pub(super) fn new(function: &'a Function, image: &'a dyn Surroundings, taken: Vec<usize>) -> Self {
        Self { function, image, taken, info: InstructionInfoFactory::new() }
    }

    /// Whether the function ends with an instruction.
    pub(super) fn leaves(&self, machine: &Machine, instruction: &Instruction) -> bool {
        match instruction.flow_control() {
            FlowControl::Return => true,
            FlowControl::UnconditionalBranch => {
                // Behind a call that never returns, a jump may go to where the function has no more code.
                let target = instruction.near_branch_target();
                !self.function.contains(target) && !self.function.is_end(target)
            }
            // At the end of the activation it is a call that was made a jump.
            FlowControl::IndirectBranch => {
                machine.registers[RSP] == Value::Stack(0, 0) && self.taken.is_empty()
            }
            _ => false,
        }
    }

    pub(super) fn place(&self, machine: &Machine, instruction: &Instruction) -> Place {
        let displacement = instruction.memory_displacement64() as i64;
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let offset = self.image.tls_offset();
        let thread = |at: i64| offset.map_or(Place::Thread, |o| Place::Block(at.wrapping_sub(o)));
        let known = if base.is_gpr64() { machine.get(base) } else { Value::Nothing };
        if instruction.memory_segment() == Register::FS {
            let (register, indexed) = if base == Register::None && instruction.memory_index_scale() == 1 {
                (index, false)
            } else {
                (base, index != Register::None)
            };
            return match (register, indexed) {
                (Register::None, false) if displacement == 0 => Place::Pointer,
                (Register::None, false) => thread(displacement),
                (register, false) => match machine.get(register) {
                    Value::Offset(at) => Place::Block(at.wrapping_add(displacement)),
                    Value::Constant(at) => thread((at as i64).wrapping_add(displacement)),
                    _ => Place::Thread,
                },
                // An element of a thread-local array.
                (_, true) => Place::Other,
            };
        }
        if index != Register::None {
            return Place::Other;
        }
        match known {
            Value::Block(at) => Place::Block(at.wrapping_add(displacement)),
            Value::Thread(at) => thread(at.wrapping_add(displacement)),
            Value::Stack(part, at) => Place::Slot(part, at.wrapping_add(displacement)),
            _ => Place::Other,
        }
    }

    /// The value of a 64-bit operand.
    pub(super) fn operand(&self, machine: &Machine, instruction: &Instruction, number: u32) -> Value {
        match instruction.op_kind(number) {
            OpKind::Register => {
                let register = instruction.op_register(number);
                if register.is_gpr64() { machine.get(register) } else { Value::Nothing }
            }
            OpKind::Memory if instruction.memory_size().size() == 8 => {
                if instruction.is_ip_rel_memory_operand() {
                    return self
                        .image
                        .tls_slot(instruction.ip_rel_memory_address())
                        .map_or(Value::Nothing, Value::Offset);
                }
                match self.place(machine, instruction) {
                    Place::Pointer => Value::Thread(0),
                    Place::Block(0) => match machine.id {
                        State::Added(value) => Value::Id(value),
                        // Behind a push for a call nothing reads it: this push is that of the function's own entry.
                        State::Pushed => Value::Id(0),
                        State::Unknown => Value::Nothing,
                    },
                    Place::Block(TOP) => Value::Link,
                    Place::Slot(part, at) => machine.slot(part, at),
                    _ => Value::Nothing,
                }
            }
            OpKind::Immediate8
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
            | OpKind::Immediate64
            | OpKind::Immediate32 => Value::Constant(instruction.immediate(number)),
            _ => Value::Nothing,
        }
    }

    /// What an instruction does to the machine.
    pub(super) fn transfer(&mut self, machine: &mut Machine, instruction: &Instruction) {
        if is_call(instruction) {
            self.call(machine, instruction, 0);
            return;
        }
        if self.leaves(machine, instruction) {
            return;
        }
        let memory = instruction.op0_kind() == OpKind::Memory;
        if memory {
            self.store(machine, instruction);
        }
        let stack = machine.registers[RSP];
        let new = if memory { None } else { self.register(machine, instruction) };
        for used in self.info.info(instruction).used_registers() {
            let written = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None);
            if written {
                machine.set(used.register().full_register(), Value::Nothing);
            }
        }
        if let Some((register, value)) = new {
            machine.set(register, value);
        }
        // Pushes and pops of words, whatever else they do.
        let moved = instruction.stack_pointer_increment();
        if moved != 0 && instruction.mnemonic() != Mnemonic::Leave {
            machine.registers[RSP] = stack;
            move_stack(machine, moved.into());
        }
    }

    /// What a call does to the machine, or a jump that leaves the function. `depth`: how many sequences of outlined
    /// code are around it.
    pub(super) fn call(&mut self, machine: &mut Machine, call: &Instruction, depth: u32) {
        let direct = call.op0_kind() == OpKind::NearBranch64;
        let called = if direct { self.image.called(call.near_branch_target()) } else { Called::Function };
        match called {
            Called::Function => machine.forget(&VOLATILE),
            Called::Outlined(code) if depth < MOST_NESTED => {
                let pushed = if is_call(call) { 8 } else { 0 };
                move_stack(machine, -pushed);
                for instruction in &code.instructions {
                    if !self.image.spend(1) {
                        break;
                    }
                    if is_call(instruction) {
                        self.call(machine, instruction, depth + 1);
                    } else if instruction.flow_control() == FlowControl::Next {
                        self.transfer(machine, instruction);
                    } else {
                        // The sequence ends here, or it is none.
                        match instruction.flow_control() {
                            FlowControl::Return => {}
                            FlowControl::UnconditionalBranch
                                if !code.contains(instruction.near_branch_target()) =>
                            {
                                self.call(machine, instruction, depth + 1);
                            }
                            FlowControl::IndirectBranch => machine.forget(&VOLATILE),
                            _ => machine.forget_all(),
                        }
                        move_stack(machine, pushed);
                        return;
                    }
                }
                machine.forget_all();
            }
            Called::Outlined(_) | Called::Opaque => machine.forget_all(),
        }
    }

    /// The register that an instruction sets, and its new value where something is known of it.
    fn register(&self, machine: &Machine, instruction: &Instruction) -> Option<(Register, Value)> {
        if instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let register = instruction.op0_register();
        let full = register.full_register();
        if !full.is_gpr64() {
            return None;
        }
        let value = match instruction.mnemonic() {
            // 32-bit operations clear the upper half.
            Mnemonic::Xor
                if instruction.op1_kind() == OpKind::Register
                    && instruction.op1_register() == register
                    && (register.is_gpr32() || register.is_gpr64()) =>
            {
                Value::Constant(0)
            }
            Mnemonic::Mov if register.is_gpr32() && instruction.op1_kind() == OpKind::Immediate32 => {
                Value::Constant(instruction.immediate(1) & 0xffff_ffff)
            }
            Mnemonic::Movsxd => table_of_differences(machine, instruction),
            _ if !register.is_gpr64() => return None,
            Mnemonic::Mov => match self.operand(machine, instruction, 1) {
                Value::Nothing if instruction.op1_kind() == OpKind::Memory => table_of_addresses(instruction),
                value => value,
            },
            Mnemonic::Lea => {
                if instruction.is_ip_rel_memory_operand() {
                    Value::Constant(instruction.ip_rel_memory_address())
                } else {
                    let displacement = Value::Constant(instruction.memory_displacement64());
                    let (base, index) = (instruction.memory_base(), instruction.memory_index());
                    if index == Register::None {
                        sum(machine.get(base), displacement)
                    } else if instruction.memory_index_scale() == 1 {
                        sum(sum(machine.get(base), machine.get(index)), displacement)
                    } else {
                        Value::Nothing
                    }
                }
            }
            Mnemonic::Add => sum(machine.get(register), self.operand(machine, instruction, 1)),
            Mnemonic::Sub => match self.operand(machine, instruction, 1) {
                Value::Constant(value) => sum(machine.get(register), Value::Constant(value.wrapping_neg())),
                _ => Value::Nothing,
            },
            // The frame's address has no lowest bits, as the ABI aligns the stack.
            Mnemonic::Or => match (machine.get(register), self.operand(machine, instruction, 1)) {
                (Value::Stack(0, at), Value::Constant(bits @ 0..8)) if at & 7 == 0 => {
                    Value::Stack(0, at | bits as i64)
                }
                _ => Value::Nothing,
            },
            Mnemonic::Inc => sum(machine.get(register), Value::Constant(1)),
            Mnemonic::Dec => sum(machine.get(register), Value::Constant(u64::MAX)),
            Mnemonic::And if register == Register::RSP => Value::Stack(1, 0),
            Mnemonic::Pop => match machine.registers[RSP] {
                Value::Stack(part, at) => machine.slot(part, at),
                _ => Value::Nothing,
            },
            _ => return None,
        };
        Some((full, value))
    }

    /// An instruction whose first operand is memory.
    fn store(&mut self, machine: &mut Machine, instruction: &Instruction) {
        let access = self.info.info(instruction).op0_access();
        if matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess) {
            return;
        }
        let size = instruction.memory_size().size() as i64;
        let wide = size == 8;
        match self.place(machine, instruction) {
            Place::Block(at) if at < 8 && 0 < at.saturating_add(size) => {
                let operand = match instruction.mnemonic() {
                    Mnemonic::Inc | Mnemonic::Dec => Value::Constant(1),
                    _ => self.operand(machine, instruction, 1),
                };
                machine.id = match (instruction.mnemonic(), machine.id, operand) {
                    _ if at != 0 || !wide => State::Unknown,
                    (Mnemonic::Add | Mnemonic::Inc, State::Added(old), Value::Constant(value)) => {
                        State::Added(old.wrapping_add(value))
                    }
                    (Mnemonic::Sub | Mnemonic::Dec, State::Added(old), Value::Constant(value)) => {
                        State::Added(old.wrapping_sub(value))
                    }
                    (Mnemonic::Mov, _, Value::Constant(0)) => State::Pushed,
                    (Mnemonic::Mov, _, Value::Id(value)) => State::Added(value),
                    _ => State::Unknown,
                };
            }
            // Any variable of the thread may be the block.
            Place::Thread if wide => machine.id = State::Unknown,
            Place::Slot(part, at) => {
                let value = match instruction.mnemonic() {
                    Mnemonic::Mov if wide => self.operand(machine, instruction, 1),
                    _ => Value::Nothing,
                };
                machine.overwrite(part, at, size, value);
            }
            _ => {}
        }
    }

    /// What a store to `top` pushes, if that is what an instruction does: how far the frame is below the canonical
    /// frame address, if that is known.
    pub(super) fn push(&mut self, machine: &Machine, instruction: &Instruction) -> Option<Option<u32>> {
        if instruction.op0_kind() != OpKind::Memory {
            return None;
        }
        let access = self.info.info(instruction).op0_access();
        if matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess) {
            return None;
        }
        let size = instruction.memory_size().size() as i64;
        match self.place(machine, instruction) {
            Place::Block(at) if at < TOP + 8 && TOP < at.saturating_add(size) => {
                if at != TOP || size != 8 || instruction.mnemonic() != Mnemonic::Mov {
                    return Some(None);
                }
                match self.operand(machine, instruction, 1) {
                    Value::Link => None,
                    Value::Stack(0, at) => Some(below_cfa(at & !(layout::RELATIVE as i64))),
                    _ => Some(None),
                }
            }
            // Any variable of the thread may be it.
            Place::Thread if size >= 8 => Some(None),
            _ => None,
        }
    }
}

/// How far an address is below the canonical frame address, from its distance from the stack pointer at the function's
/// entry. That points at the return address.
pub(super) fn below_cfa(at: i64) -> Option<u32> {
    u32::try_from(8_i64.checked_sub(at)?).ok()
}

/// `movsxd register, [table + index * 4]`.
fn table_of_differences(machine: &Machine, instruction: &Instruction) -> Value {
    let known = instruction.op1_kind() == OpKind::Memory
        && instruction.memory_index_scale() == 4
        && instruction.memory_index() != Register::None
        && instruction.memory_base().is_gpr64()
        && instruction.memory_displacement64() == 0;
    match machine.get(instruction.memory_base()) {
        Value::Constant(table) if known => Value::Entry(table),
        _ => Value::Nothing,
    }
}

/// `[table + index * 8]`.
pub(super) fn table_of_addresses(instruction: &Instruction) -> Value {
    let known = instruction.memory_index_scale() == 8
        && instruction.memory_index() != Register::None
        && instruction.memory_base() == Register::None
        && instruction.memory_segment() != Register::FS;
    if known { Value::Address(instruction.memory_displacement64()) } else { Value::Nothing }
}
