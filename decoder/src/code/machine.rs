//! The abstract machine: what is known of the id, the registers and the stack.

use std::collections::BTreeMap;

use iced_x86::Register;
use pcce_dictionary::code::State;

/// The number of the stack pointer.
pub(super) const RSP: usize = 4;

/// What is known of a value.
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
    /// What `top` held when the function read it.
    Link,
    /// An entry of the table of 32-bit differences at this address.
    Entry(u64),
    /// A jump target out of that table.
    Target(u64),
    /// A jump target out of the table of addresses at this address.
    Address(u64),
}

/// The machine before an instruction.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) id: State,
    pub(super) registers: [Value; 16],
    /// Words on the stack that hold something which leads to the id or to `top`, or to where a jump goes.
    slots: BTreeMap<(u8, i64), Value>,
}

impl Machine {
    pub(super) fn entry() -> Self {
        let mut registers = [Value::Nothing; 16];
        registers[RSP] = Value::Stack(0, 0);
        Self { id: State::Added(0), registers, slots: BTreeMap::new() }
    }

    /// What holds here and there. Returns whether that is less than before.
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

    /// How much it is to copy or to compare it, in units of a few words.
    pub(super) fn size(&self) -> u64 {
        4 + self.slots.len() as u64
    }

    /// The word at a place on the stack.
    pub(super) fn slot(&self, part: u8, at: i64) -> Value {
        self.slots.get(&(part, at)).copied().unwrap_or(Value::Nothing)
    }

    /// `size` bytes on the stack are overwritten, with a word if its value is given.
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
        if register.is_gpr64() { self.registers[register.number()] } else { Value::Nothing }
    }

    pub(super) fn set(&mut self, register: Register, value: Value) {
        if register.is_gpr() {
            self.registers[register.number()] = value;
        }
    }

    /// After code that may have done anything, but to the stack pointer.
    pub(super) fn forget_all(&mut self) {
        let stack = self.registers[RSP];
        *self = Self { id: State::Unknown, registers: [Value::Nothing; 16], slots: BTreeMap::new() };
        self.registers[RSP] = stack;
    }

    pub(super) fn forget(&mut self, registers: &[Register]) {
        for &register in registers {
            self.set(register.full_register(), Value::Nothing);
        }
    }
}

/// The stack pointer moves.
pub(super) fn move_stack(machine: &mut Machine, by: i64) {
    if let Value::Stack(part, at) = machine.registers[RSP] {
        machine.registers[RSP] = Value::Stack(part, at.wrapping_add(by));
    }
}

/// What is known of a sum.
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
