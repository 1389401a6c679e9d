//! The abstract state before an instruction: what is known of the id, the registers and the stack.

use std::collections::BTreeMap;

use pcce_dictionary::code::State;

use super::machine::{Comparison, Entry, REGISTERS, Register, RegisterSet};

/// A value, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Value {
    Nothing,
    Constant(u64),
    /// A number that is not larger than this.
    AtMost(u64),
    /// The last result of the instruction at this address.
    Result(u64),
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
    /// An entry of the table of distances at this address.
    Entry {
        table: u64,
        kind: Entry,
        last: LastEntry,
    },
    /// A jump target out of such a table: the distances count from `base` bytes behind the table.
    Target {
        table: u64,
        kind: Entry,
        last: LastEntry,
        base: i32,
    },
    /// A jump target out of the table of addresses at this address.
    Address(u64),
}

/// A state has one for each register, and there may be millions of states.
const _: () = assert!(size_of::<Value>() == 16);

/// The index of the last entry of a table that may be read, where it is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct LastEntry(u16);

impl LastEntry {
    const UNKNOWN: Self = Self(u16::MAX);

    /// The last entry, by the value of an index.
    pub(super) fn of(index: Value) -> Self {
        match index {
            Value::Constant(last) | Value::AtMost(last) => u16::try_from(last).map_or(Self::UNKNOWN, Self),
            _ => Self::UNKNOWN,
        }
    }

    pub(super) fn known(self) -> Option<u16> {
        (self != Self::UNKNOWN).then_some(self.0)
    }
}

/// The number in a comparison. Jump tables have far fewer entries than 2³²: an index of 64 bits counts as compared
/// where its lower half was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    Register(Register),
    Result(u64),
}

/// The abstract state before an instruction.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AbstractState {
    pub(super) id: State,
    registers: [Value; REGISTERS],
    stack_pointer: Register,
    /// The comparison with a constant whose result is in the flags.
    compared: Option<(Compared, u64)>,
    /// Words on the stack, by part and address as in [`Value::Stack`], that lead to the id, to `top`, or to
    /// the target of a jump.
    slots: BTreeMap<(u8, i64), Value>,
}

impl AbstractState {
    /// The state at a function's entry.
    pub(super) fn entry(stack_pointer: Register) -> Self {
        let (registers, slots) = ([Value::Nothing; REGISTERS], BTreeMap::new());
        let mut entry = Self { id: State::Added(0), registers, stack_pointer, compared: None, slots };
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
            let joined = joined(*mine, *theirs);
            less |= *mine != joined;
            *mine = joined;
        }
        if self.compared != other.compared && self.compared.is_some() {
            self.compared = None;
            less = true;
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
            Value::Nothing | Value::Entry { .. } => false,
            // Constants, too: large ones that are added to the id in several places are spilled.
            Value::Constant(_)
            | Value::Thread(_)
            | Value::Offset(_)
            | Value::Block(_)
            | Value::Id(_)
            | Value::Stack(..)
            | Value::Link
            | Value::AtMost(_)
            | Value::Result(_)
            | Value::Target { .. }
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
        if let Some((Compared::Register(register), _)) = self.compared
            && registers.contains(register)
        {
            self.compared = None;
        }
    }

    /// The value that a comparison of a register is about; None if it is not known any more when the register has
    /// changed.
    pub(super) fn compared(&self, register: Register, changes: bool) -> Option<Compared> {
        match self.get(register) {
            Value::Result(of) => Some(Compared::Result(of)),
            _ => (!changes).then_some(Compared::Register(register)),
        }
    }

    /// Notes the comparison that is in the flags.
    pub(super) fn compare(&mut self, compared: Option<(Compared, u64)>) {
        self.compared = compared;
    }

    /// Forgets the result that an instruction had when it was last executed.
    pub(super) fn forget_result(&mut self, of: u64) {
        for register in self.registers.iter_mut().filter(|value| **value == Value::Result(of)) {
            *register = Value::Nothing;
        }
        self.slots.retain(|_, value| *value != Value::Result(of));
        self.compared = self.compared.filter(|(compared, _)| *compared != Compared::Result(of));
    }

    /// Notes what a conditional jump tells of what was compared.
    pub(super) fn decide(&mut self, jump: Comparison, is_taken: bool) {
        let Some((compared, constant)) = self.compared else { return };
        let most = match (jump, is_taken) {
            (Comparison::JumpsAtMost, true) | (Comparison::JumpsAbove, false) => Some(constant),
            (Comparison::JumpsBelow, true) | (Comparison::JumpsAtLeast, false) => constant.checked_sub(1),
            _ => None,
        };
        let Some(most) = most else { return };
        match compared {
            Compared::Register(register) => match self.get(register) {
                // What is compared is no distance: the index of one table may be out of another.
                Value::Nothing | Value::Entry { .. } => self.set(register, Value::AtMost(most)),
                Value::AtMost(before) => self.set(register, Value::AtMost(before.min(most))),
                _ => {}
            },
            Compared::Result(of) => {
                let values = self.registers.iter_mut().chain(self.slots.values_mut());
                values
                    .filter(|value| **value == Value::Result(of))
                    .for_each(|value| *value = Value::AtMost(most));
            }
        }
    }
}

/// The value that includes both.
fn joined(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::AtMost(a), Value::AtMost(b)) => Value::AtMost(a.max(b)),
        (Value::AtMost(most), Value::Constant(value)) | (Value::Constant(value), Value::AtMost(most)) => {
            Value::AtMost(most.max(value))
        }
        _ if a == b => a,
        _ => Value::Nothing,
    }
}

/// The sum, as far as it is known.
pub(super) fn sum(a: Value, b: Value) -> Value {
    use Value::{Block, Constant, Entry, Id, Offset, Stack, Thread};
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
        (Constant(base), entry @ Entry { kind, .. }) | (entry @ Entry { kind, .. }, Constant(base))
            if kind.shift() == 0 =>
        {
            target(base, entry)
        }
        _ => Value::Nothing,
    }
}

/// The sum with the second value shifted left, as far as it is known.
pub(super) fn shifted_sum(base: Value, index: Value, shift: u32) -> Value {
    match (base, index) {
        (Value::Constant(base), Value::Entry { kind, .. }) if kind.shift() == shift => target(base, index),
        _ => Value::Nothing,
    }
}

/// The jump target that an entry of a table tells, with a distance from an address.
fn target(base: u64, entry: Value) -> Value {
    let Value::Entry { table, kind, last } = entry else { return Value::Nothing };
    let distance = i32::try_from(base.wrapping_sub(table).cast_signed());
    distance.map_or(Value::Nothing, |base| Value::Target { table, kind, last, base })
}
