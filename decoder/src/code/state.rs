//! The abstract state before an instruction: what is known of the id, the registers and the stack.

use std::collections::BTreeMap;

use pcce_dictionary::code::State;

use super::machine::{REGISTERS, Register, RegisterSet};

/// A value, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Nothing,
    Constant(u64),
    /// The thread pointer plus this.
    Thread(i64),
    /// The offset of the thread-local block from the thread pointer, plus this.
    Offset(i64),
    /// The address of the block, plus this.
    Block(i64),
    /// The id that the function found, plus this.
    Id(u64),
    /// An address on the stack: in the part above (0) or below (1) an alignment, from its beginning.
    Stack(u8, i64),
    /// The value that `top` held when the function read it.
    Link,
    /// An entry of the table of 32-bit differences at this address.
    Entry(u64),
    /// A jump target out of that table.
    Target(u64),
    /// A jump target out of the table of addresses at this address.
    Address(u64),
}

/// The abstract state before an instruction.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AbstractState {
    pub(super) id: State,
    registers: [Value; REGISTERS],
    stack_pointer: Register,
    /// Words on the stack, by part and address as in [`Value::Stack`], that lead to the id, to `top`, or to
    /// the target of a jump.
    slots: BTreeMap<(u8, i64), Value>,
}

impl AbstractState {
    /// The state at a function's entry.
    pub(super) fn entry(stack_pointer: Register) -> Self {
        let (registers, slots) = ([Value::Nothing; REGISTERS], BTreeMap::new());
        let mut entry = Self { id: State::Added(0), registers, stack_pointer, slots };
        entry.set(stack_pointer, Value::Stack(0, 0));
        entry
    }

    /// Keeps what holds in both states. Returns whether that is less than before.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut less = false;
        if self.id != other.id && self.id != State::Unknown {
            self.id = State::Unknown;
            less = true;
        }
        for (mine, theirs) in self.registers.iter_mut().zip(&other.registers) {
            if mine != theirs && *mine != Value::Nothing {
                *mine = Value::Nothing;
                less = true;
            }
        }
        let before = self.slots.len();
        self.slots.retain(|slot, value| other.slots.get(slot) == Some(value));
        less || self.slots.len() < before
    }

    /// The cost of copying or comparing the state, in units of a few words.
    pub(super) fn size(&self) -> u64 {
        4 + self.slots.len() as u64
    }

    /// The word at a place on the stack.
    pub(super) fn slot(&self, part: u8, at: i64) -> Value {
        self.slots.get(&(part, at)).copied().unwrap_or(Value::Nothing)
    }

    /// Overwrites `size` bytes on the stack: with `value` if they are a word.
    pub(super) fn overwrite(&mut self, part: u8, at: i64, size: i64, value: Value) {
        let first = (part, at.saturating_sub(7));
        let over: Vec<(u8, i64)> =
            self.slots.range(first..(part, at.saturating_add(size))).map(|(slot, _)| *slot).collect();
        for slot in over {
            self.slots.remove(&slot);
        }
        let follows = match value {
            Value::Nothing | Value::Entry(_) => false,
            // Constants, too: large ones that are added to the id in several places are spilled.
            Value::Constant(_)
            | Value::Thread(_)
            | Value::Offset(_)
            | Value::Block(_)
            | Value::Id(_)
            | Value::Stack(..)
            | Value::Link
            | Value::Target(_)
            | Value::Address(_) => true,
        };
        if follows {
            self.slots.insert((part, at), value);
        }
    }

    pub(super) fn get(&self, register: Register) -> Value {
        self.registers.get(usize::from(register.0)).copied().unwrap_or(Value::Nothing)
    }

    pub(super) fn set(&mut self, register: Register, value: Value) {
        if let Some(known) = self.registers.get_mut(usize::from(register.0)) {
            *known = value;
        }
    }

    pub(super) fn stack_pointer(&self) -> Value {
        self.get(self.stack_pointer)
    }

    pub(super) fn set_stack_pointer(&mut self, value: Value) {
        self.set(self.stack_pointer, value);
    }

    /// Adds to the stack pointer.
    pub(super) fn move_stack(&mut self, by: i64) {
        if let Value::Stack(part, at) = self.stack_pointer() {
            self.set_stack_pointer(Value::Stack(part, at.wrapping_add(by)));
        }
    }

    /// Forgets everything except the stack pointer, as after code that may have done anything.
    pub(super) fn forget_all(&mut self) {
        let stack_pointer = self.stack_pointer();
        *self = Self { id: State::Unknown, ..Self::entry(self.stack_pointer) };
        self.set_stack_pointer(stack_pointer);
    }

    pub(super) fn forget(&mut self, registers: RegisterSet) {
        for register in registers.iter() {
            self.set(register, Value::Nothing);
        }
    }
}

/// The sum, as far as it is known.
pub(super) fn sum(a: Value, b: Value) -> Value {
    use Value::{Block, Constant, Entry, Id, Offset, Stack, Target, Thread};
    match (a, b) {
        (Constant(a), Constant(b)) => Constant(a.wrapping_add(b)),
        (Thread(a), Constant(b)) | (Constant(b), Thread(a)) => Thread(a.wrapping_add(b as i64)),
        (Offset(a), Constant(b)) | (Constant(b), Offset(a)) => Offset(a.wrapping_add(b as i64)),
        (Block(a), Constant(b)) | (Constant(b), Block(a)) => Block(a.wrapping_add(b as i64)),
        (Id(a), Constant(b)) | (Constant(b), Id(a)) => Id(a.wrapping_add(b)),
        (Stack(part, a), Constant(b)) | (Constant(b), Stack(part, a)) => {
            Stack(part, a.wrapping_add(b as i64))
        }
        (Thread(a), Offset(b)) | (Offset(b), Thread(a)) => Block(a.wrapping_add(b)),
        (Entry(a), Constant(b)) | (Constant(b), Entry(a)) if a == b => Target(a),
        _ => Value::Nothing,
    }
}
