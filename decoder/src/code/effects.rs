//! The effects of instructions on the [`AbstractState`].

use pcce_abi::layout;
use pcce_dictionary::code::State;

use super::function::{Callee, Function, Surroundings};
use super::machine::{
    Comparison, Computation, Control, Effect, Instruction, Memory, Operand, Registers, Update,
};
use super::state::{AbstractState, LastEntry, Value, shifted_sum, sum};

/// Offset of `top` in the block.
const TOP: i64 = layout::TLS_TOP as i64;

/// No table has so many entries.
const MANY: u64 = 1 << 16;

/// Bound on the depth of outlined sequences that call one another.
const MAX_NESTING: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the thread-local block, at this offset.
    Block(i64),
    /// On the stack, as in [`Value::Stack`].
    Slot(u8, i64),
    /// In thread-local storage, and perhaps in the block.
    Thread,
    /// The word that holds the thread pointer.
    ThreadPointer,
    Other,
}

/// The effects of a function's instructions.
pub(super) struct Effects<'a> {
    pub(super) function: &'a Function,
    pub(super) image: &'a dyn Surroundings,
    /// Instructions whose addresses are taken: a jump through a pointer may lead there.
    pub(super) taken: Vec<usize>,
    pub(super) registers: &'static Registers,
}

impl<'a> Effects<'a> {
    pub(super) fn new(function: &'a Function, image: &'a dyn Surroundings, taken: Vec<usize>) -> Self {
        Self { function, image, taken, registers: function.machine.registers() }
    }

    /// Returns whether the activation ends with an instruction.
    pub(super) fn leaves(&self, state: &AbstractState, instruction: &Instruction) -> bool {
        match instruction.control {
            Control::Return => true,
            Control::Jump { target, conditional: false } => self.function.is_outside(target),
            // A jump with the stack pointer of the entry is a tail call.
            Control::IndirectJump(_) => state.stack_pointer() == Value::Stack(0, 0) && self.taken.is_empty(),
            _ => false,
        }
    }

    pub(super) fn place(&self, state: &AbstractState, memory: Memory) -> Place {
        let offset = self.image.tls_offset();
        let thread = |at: i64| offset.map_or(Place::Thread, |o| Place::Block(at.wrapping_sub(o)));
        match memory {
            Memory::ThreadPointer => Place::ThreadPointer,
            Memory::Thread(at) => thread(at),
            Memory::ThreadRegister(register, addend) => match state.get(register) {
                Value::Offset(at) => Place::Block(at.wrapping_add(addend)),
                Value::Constant(at) => thread((at as i64).wrapping_add(addend)),
                _ => Place::Thread,
            },
            Memory::Register(register, addend) => match state.get(register) {
                Value::Block(at) => Place::Block(at.wrapping_add(addend)),
                Value::Thread(at) => thread(at.wrapping_add(addend)),
                Value::Stack(part, at) => Place::Slot(part, at.wrapping_add(addend)),
                _ => Place::Other,
            },
            Memory::ThreadArray | Memory::Image(_) | Memory::Table(_) | Memory::Other => Place::Other,
        }
    }

    pub(super) fn operand(&self, state: &AbstractState, operand: Operand) -> Value {
        // A word of the image, whose address is in a register.
        let operand = match operand {
            Operand::Load(Memory::Register(base, addend)) => match state.get(base) {
                Value::Constant(address) => Operand::Load(Memory::Image(address.wrapping_add_signed(addend))),
                _ => operand,
            },
            _ => operand,
        };
        let memory = match operand {
            Operand::Unknown => return Value::Nothing,
            Operand::Register(register) => return state.get(register),
            Operand::Constant(value) => return Value::Constant(value),
            Operand::Load(Memory::Image(word)) => {
                return self.image.tls_slot(word).map_or(Value::Nothing, Value::Offset);
            }
            Operand::Load(Memory::Table(table)) => return Value::Address(table),
            Operand::Load(memory) => memory,
        };
        match self.place(state, memory) {
            Place::ThreadPointer => Value::Thread(0),
            Place::Block(0) => match state.id {
                State::Added(value) => Value::Id(value),
                // Nothing reads the id after a push for a call: this is the push at the function's own entry.
                State::Pushed => Value::Id(0),
                State::Unknown => Value::Nothing,
            },
            Place::Block(TOP) => Value::Link,
            Place::Slot(part, at) => state.slot(part, at),
            _ => Value::Nothing,
        }
    }

    /// Applies an instruction to the state.
    pub(super) fn transfer(&self, state: &mut AbstractState, instruction: &Instruction) {
        if instruction.is_call() {
            self.call(state, instruction, 0);
            return;
        }
        if self.leaves(state, instruction) {
            return;
        }
        let effects = [instruction.effect, instruction.also];
        for effect in effects {
            if let Effect::Store { to, size, update } = effect {
                self.store(state, to, size.into(), update);
            }
        }
        let stack_pointer = state.stack_pointer();
        let new = effects.map(|effect| match effect {
            Effect::Set(register, computation) => Some((register, self.computed(state, computation))),
            _ => None,
        });
        let compared = match instruction.comparison {
            Comparison::Makes(register, constant) => {
                let compared = state.compared(register, instruction.changed.contains(register));
                Some(compared.map(|compared| (compared, constant.into())))
            }
            Comparison::Forgets => Some(None),
            _ => None,
        };
        state.forget(instruction.changed);
        if let Some(compared) = compared {
            state.compare(compared);
        }
        for (register, value) in new.into_iter().flatten() {
            state.set(register, value);
        }
        self.name(state, instruction);
        if instruction.moves_stack != 0 {
            state.set_stack_pointer(stack_pointer);
            state.move_stack(instruction.moves_stack.into());
        }
    }

    /// Applies a call, or a jump that leaves the function. `depth`: how many outlined sequences are around
    /// it.
    pub(super) fn call(&self, state: &mut AbstractState, call: &Instruction, depth: u32) {
        state.compare(None);
        let target = match call.control {
            Control::Call(target) | Control::Jump { target, .. } => Some(target),
            _ => None,
        };
        let code = match target.map_or(Callee::Function, |target| self.image.callee(target)) {
            Callee::Function => return state.forget(self.registers.volatile),
            Callee::Outlined(code) if depth < MAX_NESTING => code,
            Callee::Outlined(_) | Callee::Opaque => return state.forget_all(),
        };
        let pushed = i64::from(call.moves_stack);
        state.move_stack(pushed);
        for instruction in &code.instructions {
            if !self.image.spend(1) {
                break;
            }
            match instruction.control {
                Control::Next => {
                    self.transfer(state, instruction);
                    continue;
                }
                Control::Call(_) | Control::IndirectCall(_) => {
                    self.call(state, instruction, depth + 1);
                    continue;
                }
                Control::Return => {}
                Control::Jump { target, conditional: false } if !code.contains(target) => {
                    self.call(state, instruction, depth + 1);
                }
                Control::IndirectJump(_) => state.forget(self.registers.volatile),
                // This is no outlined sequence.
                _ => state.forget_all(),
            }
            return state.move_stack(-pushed);
        }
        state.forget_all();
    }

    /// Gives the result of an instruction a name where it may be what a jump table is entered with: that may be
    /// compared in one register, and be in another, or on the stack.
    fn name(&self, state: &mut AbstractState, instruction: &Instruction) {
        let Effect::Set(register, computation) = instruction.effect else { return };
        let is_index = match computation {
            Computation::Low(_) | Computation::AtMost(MANY..) => true,
            _ => matches!(instruction.comparison, Comparison::Makes(..)),
        };
        if is_index && state.get(register) == Value::Nothing {
            state.forget_result(instruction.address);
            state.set(register, Value::Result(instruction.address));
            if let Computation::Low(of) = computation
                && !instruction.changed.contains(of)
                && state.get(of) == Value::Nothing
            {
                state.set(of, Value::Result(instruction.address));
            }
        }
    }

    /// The new value of a register.
    fn computed(&self, state: &AbstractState, computation: Computation) -> Value {
        match computation {
            Computation::Copy(operand) => self.operand(state, operand),
            Computation::Add(register, operand) => sum(state.get(register), self.operand(state, operand)),
            Computation::Subtract(register, operand) => match self.operand(state, operand) {
                Value::Constant(value) => sum(state.get(register), Value::Constant(value.wrapping_neg())),
                _ => Value::Nothing,
            },
            Computation::Replace { register, keep, bits } => match state.get(register) {
                Value::Constant(value) => Value::Constant(value & keep | bits),
                _ => Value::Nothing,
            },
            // The lowest bits of the frame's address are 0, as the ABI aligns the stack.
            Computation::Or(register, operand) => match (state.get(register), self.operand(state, operand)) {
                (Value::Stack(0, at), Value::Constant(bits @ 0..8)) if at & 7 == 0 => {
                    Value::Stack(0, at | bits as i64)
                }
                (Value::Link, Value::Constant(layout::LEFT)) => Value::Link,
                _ => Value::Nothing,
            },
            Computation::Sum { base, index, addend } => {
                let base = state.get(base);
                let base = index.map_or(base, |index| sum(base, state.get(index)));
                if addend == 0 { base } else { sum(base, Value::Constant(addend)) }
            }
            Computation::AlignedStack => Value::Stack(1, 0),
            Computation::Pop => match state.stack_pointer() {
                Value::Stack(part, at) => state.slot(part, at),
                _ => Value::Nothing,
            },
            Computation::Shifted { base, index, shift } => {
                shifted_sum(state.get(base), state.get(index), shift)
            }
            Computation::Low(register) => match state.get(register) {
                Value::Constant(value) => Value::Constant(value & u64::from(u32::MAX)),
                known @ (Value::AtMost(_) | Value::Result(_)) => known,
                _ => Value::Nothing,
            },
            Computation::AtMost(most @ 0..MANY) => Value::AtMost(most),
            Computation::AtMost(_) => Value::Nothing,
            Computation::Entry { table, index, kind } => match state.get(table) {
                Value::Constant(table) => Value::Entry { table, kind, last: LastEntry::of(state.get(index)) },
                _ => Value::Nothing,
            },
        }
    }

    /// Applies a write of `size` bytes to memory.
    fn store(&self, state: &mut AbstractState, to: Memory, size: i64, update: Update) {
        let is_word = size == 8;
        match self.place(state, to) {
            Place::Block(at) if at < 8 && 0 < at.saturating_add(size) => {
                let operand = |operand| self.operand(state, operand);
                state.id = match (update, state.id) {
                    _ if at != 0 || !is_word => State::Unknown,
                    (Update::Add(added), State::Added(old)) => match operand(added) {
                        Value::Constant(value) => State::Added(old.wrapping_add(value)),
                        _ => State::Unknown,
                    },
                    (Update::Subtract(subtracted), State::Added(old)) => match operand(subtracted) {
                        Value::Constant(value) => State::Added(old.wrapping_sub(value)),
                        _ => State::Unknown,
                    },
                    (Update::Set(new), _) => match operand(new) {
                        Value::Constant(0) => State::Pushed,
                        Value::Id(value) => State::Added(value),
                        _ => State::Unknown,
                    },
                    _ => State::Unknown,
                };
            }
            // Any variable of the thread may be the block.
            Place::Thread if is_word => state.id = State::Unknown,
            Place::Slot(part, at) => {
                let value = match update {
                    Update::Set(operand) if is_word => self.operand(state, operand),
                    _ => Value::Nothing,
                };
                state.overwrite(part, at, size, value);
            }
            _ => {}
        }
    }

    /// If an instruction pushes by a store to `top`: how far the frame is below the canonical frame address,
    /// where that is known. The mark of a tail call is no push.
    pub(super) fn push(&self, state: &AbstractState, instruction: &Instruction) -> Option<Option<u32>> {
        [instruction.effect, instruction.also].into_iter().find_map(|effect| self.pushes(state, effect))
    }

    fn pushes(&self, state: &AbstractState, effect: Effect) -> Option<Option<u32>> {
        let Effect::Store { to, size, update } = effect else { return None };
        let size = i64::from(size);
        match (self.place(state, to), update) {
            (Place::Block(TOP), Update::Set(operand)) if size == 8 => match self.operand(state, operand) {
                Value::Link => None,
                Value::Stack(0, at) => Some(self.below_cfa(at & !(layout::RELATIVE as i64))),
                _ => Some(None),
            },
            (Place::Block(TOP), Update::Or(Operand::Constant(layout::LEFT))) => None,
            (Place::Block(at), _) if at < TOP + 8 && TOP < at.saturating_add(size) => Some(None),
            // Any variable of the thread may be `top`.
            (Place::Thread, _) if size >= 8 => Some(None),
            _ => None,
        }
    }

    /// The distance from the canonical frame address down to an address on the stack, from the latter's
    /// distance from the stack pointer at the function's entry.
    pub(super) fn below_cfa(&self, at: i64) -> Option<u32> {
        u32::try_from(self.registers.entry_to_cfa.checked_sub(at)?).ok()
    }
}
