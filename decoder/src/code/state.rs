//! What a function's instructions have done to the id, and where its activations have their calls and frames, found in its
//! machine code.
//!
//! A data flow over the function's instructions. It follows the values that reach the id: constants, offsets of the
//! thread-local block, and the id itself; through registers and the stack, where compilers spill them. What emitted code
//! does to the id is an addition of a constant, a store of 0 (a push), or a store of what the function found at its entry.
//!
//! The result is only used if it holds together: wherever the function returns, the id must be what it was. What cannot be
//! followed is [`State::Unknown`].
//!
//! The same flow follows the stack pointer, addresses on the stack, and what the function has read from `top`. A store of such an address to
//! `top` is a push; a store of what `top` held is a pop.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use pcce_abi::layout;
use pcce_dictionary::code::State;

/// What must be known of the image around a function.
pub(super) trait Surroundings {
    /// The bytes of the image from an address on, as far as the file has them.
    fn bytes(&self, address: u64) -> &[u8];
    /// The offset of the thread-local block from the thread pointer, where it is a constant.
    fn tls_offset(&self) -> Option<i64>;
    /// Whether the word at an address holds that offset at run time; then what is added to it.
    fn tls_slot(&self, address: u64) -> Option<i64>;
    /// Addresses in a range that data of the image refers to.
    fn address_taken(&self, from: u64, to: u64) -> Vec<u64>;
    /// What begins at the target of a call.
    fn called(&self, address: u64) -> Called<'_>;
}

/// What a call or a jump out of the function leads to.
pub(super) enum Called<'a> {
    /// It comes back with the id that it found.
    Function,
    /// A sequence of instructions of several functions, which the compiler has put there once.
    Outlined(&'a Function),
    /// It may do anything to the id.
    Opaque,
}

/// A function's calls that may throw: the addresses of the calls, and where the unwinder goes on.
#[derive(Clone, Copy)]
pub(super) struct LandingPad {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) pad: u64,
}

/// What the machine code of a function says.
pub(super) struct Findings {
    /// The state before each instruction, in the order of the addresses.
    pub(super) states: Vec<State>,
    /// How far the stack pointer is below the canonical frame address at each call.
    pub(super) frame_offset: Common,
    /// How far the pushed frame is below the canonical frame address at each push.
    pub(super) frame_position: Common,
}

/// A distance that all of a function's instructions of a kind have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Common {
    /// There is no such instruction.
    #[default]
    Unseen,
    /// It is this one at each.
    Same(u32),
    /// They have different ones, or one has none that is known.
    Unknown,
}

impl Common {
    /// With one more instruction.
    fn and(self, distance: Option<u32>) -> Self {
        match (self, distance) {
            (Self::Unseen, Some(distance)) => Self::Same(distance),
            (Self::Same(before), Some(distance)) if before == distance => self,
            _ => Self::Unknown,
        }
    }

    /// The distance, if there is one.
    pub(super) fn known(self) -> Option<u32> {
        match self {
            Self::Same(distance) => Some(distance),
            Self::Unseen | Self::Unknown => None,
        }
    }
}

/// The instructions of a function.
pub(super) struct Function {
    start: u64,
    /// Where its parts are, by ascending address.
    parts: Vec<std::ops::Range<u64>>,
    /// By ascending address.
    instructions: Vec<Instruction>,
}

impl Function {
    /// Decodes the function from its parts, first of all the one that begins it: addresses and bytes. None if these are no code.
    pub(super) fn new(parts: &[(u64, &[u8])]) -> Option<Self> {
        let mut instructions = Vec::with_capacity(parts.iter().map(|p| p.1.len()).sum::<usize>() / 4);
        for (start, bytes) in parts {
            let mut decoder = Decoder::with_ip(64, bytes, *start, DecoderOptions::NONE);
            while decoder.can_decode() {
                let instruction = decoder.decode();
                if instruction.is_invalid() {
                    return None;
                }
                instructions.push(instruction);
            }
        }
        instructions.sort_unstable_by_key(Instruction::ip);
        let start = parts.first()?.0;
        let parts = parts.iter().map(|(start, bytes)| *start..start.saturating_add(bytes.len() as u64));
        let mut parts: Vec<_> = parts.collect();
        parts.sort_unstable_by_key(|part| part.start);
        Some(Self { start, parts, instructions })
    }

    /// Targets of jumps out of the function, where the jump says it.
    pub(super) fn exits(&self) -> impl Iterator<Item = u64> {
        self.jumps().filter(|&target| !self.contains(target) && !self.is_end(target))
    }

    /// Targets of jumps, where the jump says it.
    pub(super) fn jumps(&self) -> impl Iterator<Item = u64> {
        let jumps = self.instructions.iter().filter(|i| is_direct_jump(i));
        jumps.map(Instruction::near_branch_target)
    }

    /// The address behind the last instruction, if that one is followed by the next one there.
    pub(super) fn falls_through_to(&self) -> Option<u64> {
        let last = self.instructions.last().filter(|i| !ends(i) && !is_call(i) && !is_padding(i));
        last.map(Instruction::next_ip)
    }

    /// Addresses of the instructions.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> {
        self.instructions.iter().map(Instruction::ip)
    }

    /// Calls: the address behind the call, and what is called, where the call says it.
    pub(super) fn calls(&self) -> impl Iterator<Item = (u64, Option<u64>)> {
        let direct = |i: &Instruction| i.op0_kind() == OpKind::NearBranch64;
        let calls = self.instructions.iter().filter(|i| is_call(i));
        calls.map(move |i| (i.next_ip(), direct(i).then(|| i.near_branch_target())))
    }

    /// The word through which the function's first jump goes, where it is at a fixed address.
    pub(super) fn jumps_through(&self) -> Option<u64> {
        let jump = self.instructions.iter().find(|i| i.flow_control() == FlowControl::IndirectBranch)?;
        jump.is_ip_rel_memory_operand().then(|| jump.ip_rel_memory_address())
    }

    /// Whether an instruction names the thread-local block: an estimate that looks at single instructions.
    pub(super) fn names_block(&self, image: &dyn Surroundings) -> bool {
        self.instructions.iter().any(|i| {
            let alone = i.memory_base() == Register::None && i.memory_index() == Register::None;
            if i.memory_segment() == Register::FS && alone {
                return image.tls_offset() == Some(i.memory_displacement64() as i64);
            }
            i.mnemonic() == Mnemonic::Mov
                && (i.is_ip_rel_memory_operand() && image.tls_slot(i.ip_rel_memory_address()).is_some())
        })
    }

    fn index_of(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, Instruction::ip).ok()
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        let after = self.parts.partition_point(|part| part.start <= address);
        self.parts[..after].last().is_some_and(|part| address < part.end)
    }

    /// Whether a part ends at an address, and nothing of the function follows.
    fn is_end(&self, address: u64) -> bool {
        let after = self.parts.partition_point(|part| part.start < address);
        self.parts[..after].last().is_some_and(|part| part.end == address) && !self.contains(address)
    }

    /// Follows the function.
    pub(super) fn findings(&self, image: &dyn Surroundings, pads: &[LandingPad]) -> Findings {
        let unknown = || Findings {
            states: vec![State::Unknown; self.instructions.len()],
            frame_offset: Common::Unknown,
            frame_position: Common::Unknown,
        };
        let mut leaders: BTreeSet<usize> =
            self.parts.iter().filter_map(|part| self.index_of(part.start)).collect();
        let mut targets = BTreeMap::new();
        for (i, instruction) in self.instructions.iter().enumerate() {
            match instruction.flow_control() {
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    if self.contains(instruction.near_branch_target()) {
                        // A jump into the middle of an instruction: this is no code of a compiler.
                        let Some(target) = self.index_of(instruction.near_branch_target()) else {
                            return unknown();
                        };
                        leaders.insert(target);
                    }
                    leaders.insert(i + 1);
                }
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {}
                _ => _ = leaders.insert(i + 1),
            }
        }
        let taken: Vec<usize> = (self.parts.iter())
            .flat_map(|part| image.address_taken(part.start, part.end))
            .chain(self.instructions.iter().filter(|i| i.mnemonic() == Mnemonic::Lea).filter_map(|i| {
                let address = i.is_ip_rel_memory_operand().then(|| i.ip_rel_memory_address())?;
                self.contains(address).then_some(address)
            }))
            .filter(|&address| address != self.start)
            .filter_map(|address| self.index_of(address))
            .collect();
        leaders.extend(&taken);
        leaders.extend(pads.iter().filter_map(|pad| self.index_of(pad.pad)));
        leaders.remove(&self.instructions.len());
        // Tables follow one another: each ends where the next one begins.
        let starts = self.instructions.iter().filter_map(|i| match table_of_addresses(i) {
            Known::Address(table) => Some(table),
            _ if i.mnemonic() == Mnemonic::Lea && i.is_ip_rel_memory_operand() => {
                Some(i.ip_rel_memory_address())
            }
            _ => None,
        });
        let starts = starts.collect();
        // Each round knows the jump tables that the one before found.
        for _ in 0..64 {
            let mut flow = Flow {
                function: self,
                image,
                pads,
                leaders: &leaders,
                tables: &targets,
                taken: &taken,
                starts: &starts,
                entries: BTreeMap::new(),
                work: BTreeSet::new(),
                behind_calls: BTreeMap::new(),
                only_behind_calls: BTreeSet::new(),
                found: BTreeMap::new(),
                info: InstructionInfoFactory::new(),
                broken: false,
            };
            flow.run();
            if flow.broken {
                return unknown();
            }
            if flow.found == targets {
                return flow.result().unwrap_or_else(unknown);
            }
            targets = flow.found;
            leaders.extend(targets.values().flatten());
        }
        unknown()
    }
}

/// What is known of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
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
struct Machine {
    id: State,
    registers: [Known; 16],
    /// Words on the stack that hold something which leads to the id or to `top`, or to where a jump goes.
    slots: BTreeMap<(u8, i64), Known>,
}

impl Machine {
    fn entry() -> Self {
        let mut registers = [Known::Nothing; 16];
        registers[RSP] = Known::Stack(0, 0);
        Self { id: State::Added(0), registers, slots: BTreeMap::new() }
    }

    /// What holds here and there. Returns whether that is less than before.
    fn join(&mut self, other: &Self) -> bool {
        let before = self.clone();
        if self.id != other.id {
            self.id = State::Unknown;
        }
        for (mine, theirs) in self.registers.iter_mut().zip(&other.registers) {
            if mine != theirs {
                *mine = Known::Nothing;
            }
        }
        self.slots.retain(|slot, value| other.slots.get(slot) == Some(value));
        *self != before
    }

    fn get(&self, register: Register) -> Known {
        if register.is_gpr64() { self.registers[register.number()] } else { Known::Nothing }
    }

    fn set(&mut self, register: Register, value: Known) {
        if register.is_gpr() {
            self.registers[register.number()] = value;
        }
    }

    /// After code that may have done anything, but to the stack pointer.
    fn forget_all(&mut self) {
        let stack = self.registers[RSP];
        *self = Self { id: State::Unknown, registers: [Known::Nothing; 16], slots: BTreeMap::new() };
        self.registers[RSP] = stack;
    }

    fn forget(&mut self, registers: &[Register]) {
        for &register in registers {
            self.set(register.full_register(), Known::Nothing);
        }
    }
}

fn move_stack(machine: &mut Machine, by: i64) {
    if let Known::Stack(part, at) = machine.registers[RSP] {
        machine.registers[RSP] = Known::Stack(part, at.wrapping_add(by));
    }
}

const RSP: usize = 4;

/// Offset of `top` in the block.
const TOP: i64 = layout::TLS_TOP as i64;

/// More different ids at one place are not followed.
const MAX_MACHINES: usize = 16;

/// Registers that a call may change.
const VOLATILE: [Register; 9] = [
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

/// A place in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the thread-local block, at this offset.
    Block(i64),
    Slot(u8, i64),
    /// In thread-local storage, and it may be the block.
    Thread,
    /// The thread pointer's own word.
    Pointer,
    Other,
}

struct Flow<'a> {
    function: &'a Function,
    image: &'a dyn Surroundings,
    pads: &'a [LandingPad],
    leaders: &'a BTreeSet<usize>,
    /// Targets of indirect jumps, by the jump.
    tables: &'a BTreeMap<usize, BTreeSet<usize>>,
    taken: &'a [usize],
    /// Where data begins that the function names.
    starts: &'a BTreeSet<u64>,
    /// The machines at the leaders that were reached, each with another id: where compilers merge the ends of two paths, the
    /// constant that is added next makes them equal again.
    entries: BTreeMap<usize, Vec<Machine>>,
    /// Leaders whose machine has changed.
    work: BTreeSet<usize>,
    /// The machine behind calls in front of leaders.
    behind_calls: BTreeMap<usize, Machine>,
    /// Leaders that nothing else was seen to reach.
    only_behind_calls: BTreeSet<usize>,
    found: BTreeMap<usize, BTreeSet<usize>>,
    info: InstructionInfoFactory,
    /// Whether something was met after which nothing can be said of the function.
    broken: bool,
}

impl Flow<'_> {
    fn run(&mut self) {
        let Some(entry) = self.function.index_of(self.function.start) else { return };
        self.entries.insert(entry, vec![Machine::entry()]);
        self.work.insert(entry);
        self.spread();
        // A call in front of a leader may be one that never returns. So what flows out of such calls counts only where
        // nothing else arrives.
        while let Some((leader, machine)) = self.behind_calls.pop_first() {
            if !self.entries.contains_key(&leader) {
                self.only_behind_calls.insert(leader);
                self.flow_to(leader, &machine);
                self.spread();
            }
        }
    }

    fn spread(&mut self) {
        while let Some(leader) = self.work.pop_first() {
            for machine in self.entries[&leader].clone() {
                self.spread_from(leader, machine);
            }
        }
    }

    fn spread_from(&mut self, leader: usize, mut machine: Machine) {
        let end = self.leaders.range(leader + 1..).next().copied();
        let end = end.unwrap_or(self.function.instructions.len());
        for i in leader..end {
            let instruction = self.function.instructions[i];
            if is_call(&instruction) {
                self.flow_to_pads(&machine, &instruction);
            }
            if is_direct_jump(&instruction) && self.function.contains(instruction.near_branch_target()) {
                let target = self.function.index_of(instruction.near_branch_target());
                self.flow_to(target.expect("looked up before"), &machine);
            }
            if instruction.flow_control() == FlowControl::IndirectBranch {
                self.indirect(i, &machine);
            }
            self.transfer(&mut machine, &instruction);
            if ends(&instruction) {
                break;
            }
            let follows = |next: &Instruction| next.ip() == instruction.next_ip();
            if i + 1 == end && self.function.instructions.get(end).is_some_and(follows) {
                if !is_call(&instruction) || self.only_behind_calls.contains(&end) {
                    self.flow_to(end, &machine);
                } else if !self.pads.iter().any(|p| p.pad == instruction.next_ip()) {
                    self.behind_calls.insert(end, machine.clone());
                }
            }
        }
    }

    fn flow_to(&mut self, leader: usize, machine: &Machine) {
        let known = self.entries.entry(leader).or_default();
        let changed = match known.iter_mut().find(|m| m.id == machine.id || m.id == State::Unknown) {
            Some(known) => known.join(machine),
            None => {
                known.push(machine.clone());
                true
            }
        };
        if known.len() > MAX_MACHINES {
            let mut one = known.swap_remove(0);
            known.drain(..).for_each(|other| _ = one.join(&other));
            one.id = State::Unknown;
            known.push(one);
        }
        if changed {
            self.work.insert(leader);
        }
    }

    /// The unwinder may continue at a landing pad, with the registers that functions preserve.
    fn flow_to_pads(&mut self, machine: &Machine, call: &Instruction) {
        let pads = self.pads;
        for pad in pads.iter().filter(|p| (p.from..p.to).contains(&call.ip())) {
            if let Some(index) = self.function.index_of(pad.pad) {
                let mut machine = machine.clone();
                machine.forget(&VOLATILE);
                machine.id = State::Unknown;
                self.flow_to(index, &machine);
            }
        }
    }

    fn indirect(&mut self, index: usize, machine: &Machine) {
        let instruction = &self.function.instructions[index];
        let known = match instruction.op0_kind() {
            OpKind::Register => machine.get(instruction.op0_register()),
            // One that was spilled.
            _ => match self.operand(machine, instruction, 0) {
                Known::Nothing => table_of_addresses(instruction),
                spilled => spilled,
            },
        };
        let targets: BTreeSet<usize> = match known {
            Known::Target(table) => {
                let difference = |b: &[u8]| i32::from_le_bytes(b.try_into().expect("4 bytes"));
                self.table(table, 4, |b| table.wrapping_add_signed(difference(b).into()))
            }
            Known::Address(table) => {
                self.table(table, 8, |b| u64::from_le_bytes(b.try_into().expect("8 bytes")))
            }
            _ => BTreeSet::new(),
        };
        if targets.is_empty() {
            self.broken |= self.taken.is_empty() && !self.leaves(machine, instruction);
            for &leader in self.taken {
                self.flow_to(leader, machine);
            }
            return;
        }
        self.found.insert(index, targets);
        for &target in self.tables.get(&index).into_iter().flatten() {
            self.flow_to(target, machine);
        }
    }

    fn table(&self, address: u64, size: usize, target: impl Fn(&[u8]) -> u64) -> BTreeSet<usize> {
        let next =
            self.starts.range((Excluded(address), Unbounded)).next().map_or(u64::MAX, |next| next - address);
        // Entries that no value selects lead to the function's end.
        let inside = |target| match self.function.index_of(target) {
            None if self.function.is_end(target) => Some(None),
            index => index.map(Some),
        };
        self.image
            .bytes(address)
            .chunks_exact(size)
            .take((next / size as u64).min(1 << 16) as usize)
            .map_while(|entry| inside(target(entry)))
            .flatten()
            .collect()
    }

    /// Whether the function ends with an instruction.
    fn leaves(&self, machine: &Machine, instruction: &Instruction) -> bool {
        match instruction.flow_control() {
            FlowControl::Return => true,
            FlowControl::UnconditionalBranch => {
                // Behind a call that never returns, a jump may go to where the function has no more code.
                let target = instruction.near_branch_target();
                !self.function.contains(target) && !self.function.is_end(target)
            }
            // At the end of the activation it is a call that was made a jump.
            FlowControl::IndirectBranch => {
                machine.registers[RSP] == Known::Stack(0, 0) && self.taken.is_empty()
            }
            _ => false,
        }
    }

    fn place(&self, machine: &Machine, instruction: &Instruction) -> Place {
        let displacement = instruction.memory_displacement64() as i64;
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let offset = self.image.tls_offset();
        let thread = |at: i64| offset.map_or(Place::Thread, |o| Place::Block(at.wrapping_sub(o)));
        let known = if base.is_gpr64() { machine.get(base) } else { Known::Nothing };
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
                    Known::Offset(at) => Place::Block(at.wrapping_add(displacement)),
                    Known::Constant(at) => thread((at as i64).wrapping_add(displacement)),
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
            Known::Block(at) => Place::Block(at.wrapping_add(displacement)),
            Known::Thread(at) => thread(at.wrapping_add(displacement)),
            Known::Stack(part, at) => Place::Slot(part, at.wrapping_add(displacement)),
            _ => Place::Other,
        }
    }

    /// The value of a 64-bit operand.
    fn operand(&self, machine: &Machine, instruction: &Instruction, number: u32) -> Known {
        match instruction.op_kind(number) {
            OpKind::Register => {
                let register = instruction.op_register(number);
                if register.is_gpr64() { machine.get(register) } else { Known::Nothing }
            }
            OpKind::Memory if instruction.memory_size().size() == 8 => {
                if instruction.is_ip_rel_memory_operand() {
                    return self
                        .image
                        .tls_slot(instruction.ip_rel_memory_address())
                        .map_or(Known::Nothing, Known::Offset);
                }
                match self.place(machine, instruction) {
                    Place::Pointer => Known::Thread(0),
                    Place::Block(0) => match machine.id {
                        State::Added(value) => Known::Id(value),
                        // Behind a push for a call nothing reads it: this push is that of the function's own entry.
                        State::Pushed => Known::Id(0),
                        State::Unknown => Known::Nothing,
                    },
                    Place::Block(TOP) => Known::Link,
                    Place::Slot(part, at) => {
                        machine.slots.get(&(part, at)).copied().unwrap_or(Known::Nothing)
                    }
                    _ => Known::Nothing,
                }
            }
            OpKind::Immediate8
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
            | OpKind::Immediate64
            | OpKind::Immediate32 => Known::Constant(instruction.immediate(number)),
            _ => Known::Nothing,
        }
    }

    /// What an instruction does to the machine.
    fn transfer(&mut self, machine: &mut Machine, instruction: &Instruction) {
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
                machine.set(used.register().full_register(), Known::Nothing);
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

    /// What a call does to the machine, or a jump that leaves the function. `depth`: how many sequences of outlined code are around it.
    fn call(&mut self, machine: &mut Machine, call: &Instruction, depth: u32) {
        let direct = call.op0_kind() == OpKind::NearBranch64;
        let called = if direct { self.image.called(call.near_branch_target()) } else { Called::Function };
        match called {
            Called::Function => machine.forget(&VOLATILE),
            Called::Outlined(code) if depth < 8 => {
                let pushed = if is_call(call) { 8 } else { 0 };
                move_stack(machine, -pushed);
                for instruction in &code.instructions {
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
    fn register(&self, machine: &Machine, instruction: &Instruction) -> Option<(Register, Known)> {
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
                Known::Constant(0)
            }
            Mnemonic::Mov if register.is_gpr32() && instruction.op1_kind() == OpKind::Immediate32 => {
                Known::Constant(instruction.immediate(1) & 0xffff_ffff)
            }
            Mnemonic::Movsxd => table_of_differences(machine, instruction),
            _ if !register.is_gpr64() => return None,
            Mnemonic::Mov => match self.operand(machine, instruction, 1) {
                Known::Nothing if instruction.op1_kind() == OpKind::Memory => table_of_addresses(instruction),
                value => value,
            },
            Mnemonic::Lea => {
                if instruction.is_ip_rel_memory_operand() {
                    Known::Constant(instruction.ip_rel_memory_address())
                } else {
                    let displacement = Known::Constant(instruction.memory_displacement64());
                    let (base, index) = (instruction.memory_base(), instruction.memory_index());
                    if index == Register::None {
                        sum(machine.get(base), displacement)
                    } else if instruction.memory_index_scale() == 1 {
                        sum(sum(machine.get(base), machine.get(index)), displacement)
                    } else {
                        Known::Nothing
                    }
                }
            }
            Mnemonic::Add => sum(machine.get(register), self.operand(machine, instruction, 1)),
            Mnemonic::Sub => match self.operand(machine, instruction, 1) {
                Known::Constant(value) => sum(machine.get(register), Known::Constant(value.wrapping_neg())),
                _ => Known::Nothing,
            },
            // The frame's address has no lowest bits, as the ABI aligns the stack.
            Mnemonic::Or => match (machine.get(register), self.operand(machine, instruction, 1)) {
                (Known::Stack(0, at), Known::Constant(bits @ 0..8)) if at & 7 == 0 => {
                    Known::Stack(0, at | bits as i64)
                }
                _ => Known::Nothing,
            },
            Mnemonic::Inc => sum(machine.get(register), Known::Constant(1)),
            Mnemonic::Dec => sum(machine.get(register), Known::Constant(u64::MAX)),
            Mnemonic::And if register == Register::RSP => Known::Stack(1, 0),
            Mnemonic::Pop => match machine.registers[RSP] {
                Known::Stack(part, at) => machine.slots.get(&(part, at)).copied().unwrap_or(Known::Nothing),
                _ => Known::Nothing,
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
                    Mnemonic::Inc | Mnemonic::Dec => Known::Constant(1),
                    _ => self.operand(machine, instruction, 1),
                };
                machine.id = match (instruction.mnemonic(), machine.id, operand) {
                    _ if at != 0 || !wide => State::Unknown,
                    (Mnemonic::Add | Mnemonic::Inc, State::Added(old), Known::Constant(value)) => {
                        State::Added(old.wrapping_add(value))
                    }
                    (Mnemonic::Sub | Mnemonic::Dec, State::Added(old), Known::Constant(value)) => {
                        State::Added(old.wrapping_sub(value))
                    }
                    (Mnemonic::Mov, _, Known::Constant(0)) => State::Pushed,
                    (Mnemonic::Mov, _, Known::Id(value)) => State::Added(value),
                    _ => State::Unknown,
                };
            }
            // Any variable of the thread may be the block.
            Place::Thread if wide => machine.id = State::Unknown,
            Place::Slot(part, at) => {
                let end = at.saturating_add(instruction.memory_size().size() as i64);
                machine.slots.retain(|&(p, s), _| p != part || s.saturating_add(8) <= at || end <= s);
                let value = match instruction.mnemonic() {
                    Mnemonic::Mov if wide => self.operand(machine, instruction, 1),
                    _ => Known::Nothing,
                };
                // Constants, too: large ones that are added to the id in several places are spilled.
                if matches!(
                    value,
                    Known::Thread(_)
                        | Known::Offset(_)
                        | Known::Block(_)
                        | Known::Id(_)
                        | Known::Constant(_)
                        | Known::Stack(..)
                        | Known::Link
                        | Known::Target(_)
                        | Known::Address(_)
                ) {
                    machine.slots.insert((part, at), value);
                }
            }
            _ => {}
        }
    }

    /// What a store to `top` pushes, if that is what an instruction does: how far the frame is below the canonical frame address, if that is known.
    fn push(&mut self, machine: &Machine, instruction: &Instruction) -> Option<Option<u32>> {
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
                    Known::Link => None,
                    Known::Stack(0, at) => Some(below_cfa(at & !(layout::RELATIVE as i64))),
                    _ => Some(None),
                }
            }
            // Any variable of the thread may be it.
            Place::Thread if size >= 8 => Some(None),
            _ => None,
        }
    }

    /// What was found. None if the function ends with another id than it found.
    fn result(&mut self) -> Option<Findings> {
        let count = self.function.instructions.len();
        let mut states: Vec<Option<State>> = vec![None; count];
        let mut unknown: Vec<std::ops::RangeInclusive<usize>> = Vec::new();
        let (mut frame_offset, mut frame_position) = (Common::Unseen, Common::Unseen);
        // The id at the function's ends.
        let mut ends_with: BTreeMap<usize, State> = BTreeMap::new();
        let leaders: Vec<usize> = self.leaders.iter().copied().collect();
        for (n, &leader) in leaders.iter().enumerate() {
            for mut machine in self.entries.get(&leader).cloned().unwrap_or_default() {
                // Where control may have come from elsewhere since: from `longjmp`.
                let mut since = leader;
                let end = leaders.get(n + 1).copied().unwrap_or(count);
                for (i, seen) in states.iter_mut().enumerate().take(end).skip(leader) {
                    let seen = seen.get_or_insert(machine.id);
                    if *seen != machine.id {
                        *seen = State::Unknown;
                    }
                    let instruction = self.function.instructions[i];
                    if self.leaves(&machine, &instruction) {
                        let mut end = machine.clone();
                        if instruction.flow_control() == FlowControl::UnconditionalBranch {
                            self.call(&mut end, &instruction, 0);
                        }
                        let seen = ends_with.entry(i).or_insert(end.id);
                        if *seen != end.id {
                            *seen = State::Unknown;
                        }
                    }
                    let stack = match machine.registers[RSP] {
                        Known::Stack(0, at) => Some(at),
                        _ => None,
                    };
                    if is_call(&instruction) {
                        frame_offset = frame_offset.and(stack.and_then(below_cfa));
                    }
                    if let Some(position) = self.push(&machine, &instruction) {
                        frame_position = frame_position.and(position);
                    }
                    let exit = match instruction.flow_control() {
                        FlowControl::Return => matches!(machine.registers[RSP], Known::Stack(..)),
                        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                            let target = instruction.near_branch_target();
                            !self.function.contains(target) && !self.function.is_end(target)
                        }
                        _ => false,
                    };
                    // It does not hold together, or the activation goes on elsewhere.
                    if exit && stack != Some(0) {
                        (frame_offset, frame_position) = (Common::Unknown, Common::Unknown);
                    }
                    let restores = instruction.mnemonic() == Mnemonic::Mov
                        && instruction.op0_kind() == OpKind::Memory
                        && instruction.op1_kind() == OpKind::Register
                        && self.place(&machine, &instruction) == Place::Block(0);
                    let before = machine.id;
                    self.transfer(&mut machine, &instruction);
                    // A function that stores the id which it has already, does not trust how control arrived.
                    if restores && before == State::Added(0) && machine.id == before {
                        unknown.push(since..=i);
                    }
                    if is_call(&instruction) {
                        since = i + 1;
                    }
                    if ends(&instruction) {
                        break;
                    }
                }
            }
        }
        if ends_with.values().any(|id| matches!(id, State::Pushed | State::Added(1..))) {
            return None;
        }
        // Code that nothing was seen to reach may belong to ways that were not followed, and a call to the middle of the function returns to nobody.
        let missed = |(i, state): (&Instruction, &Option<State>)| {
            let target = i.near_branch_target();
            let inner = is_call(i) && target != self.function.start && self.function.contains(target);
            inner || (state.is_none() && !is_padding(i))
        };
        if self.function.instructions.iter().zip(&states).any(missed) {
            (frame_offset, frame_position) = (Common::Unknown, Common::Unknown);
        }
        let mut states: Vec<State> = states.into_iter().map(|s| s.unwrap_or(State::Unknown)).collect();
        for range in unknown {
            states[range].fill(State::Unknown);
        }
        Some(Findings { states, frame_offset, frame_position })
    }
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
        && instruction.mnemonic() == Mnemonic::Call
}

fn is_direct_jump(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
}

/// Whether an instruction does nothing, or ends the program.
fn is_padding(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2)
}

/// How far an address is below the canonical frame address, from its distance from the stack pointer at the function's entry. That points at the
/// return address.
fn below_cfa(at: i64) -> Option<u32> {
    u32::try_from(8_i64.checked_sub(at)?).ok()
}

/// Whether the next instruction is not reached from this one.
fn ends(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => true,
        FlowControl::Exception => instruction.mnemonic() == Mnemonic::Ud2,
        _ => false,
    }
}

fn sum(a: Known, b: Known) -> Known {
    use Known::{Block, Constant, Entry, Id, Offset, Stack, Target, Thread};
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
        _ => Known::Nothing,
    }
}

/// `movsxd register, [table + index * 4]`.
fn table_of_differences(machine: &Machine, instruction: &Instruction) -> Known {
    let known = instruction.op1_kind() == OpKind::Memory
        && instruction.memory_index_scale() == 4
        && instruction.memory_index() != Register::None
        && instruction.memory_base().is_gpr64()
        && instruction.memory_displacement64() == 0;
    match machine.get(instruction.memory_base()) {
        Known::Constant(table) if known => Known::Entry(table),
        _ => Known::Nothing,
    }
}

/// `[table + index * 8]`.
fn table_of_addresses(instruction: &Instruction) -> Known {
    let known = instruction.memory_index_scale() == 8
        && instruction.memory_index() != Register::None
        && instruction.memory_base() == Register::None
        && instruction.memory_segment() != Register::FS;
    if known { Known::Address(instruction.memory_displacement64()) } else { Known::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with its block 64 bytes in front of the thread pointer.
    struct Image;

    impl Surroundings for Image {
        fn bytes(&self, _: u64) -> &[u8] {
            &[]
        }

        fn tls_offset(&self) -> Option<i64> {
            Some(-64)
        }

        fn tls_slot(&self, _: u64) -> Option<i64> {
            None
        }

        fn address_taken(&self, _: u64, _: u64) -> Vec<u64> {
            Vec::new()
        }

        fn called(&self, _: u64) -> Called<'_> {
            Called::Function
        }
    }

    const ENTER: &[u8] = b"\x48\x83\xec\x38"; // sub rsp, 0x38
    const LEAVE: &[u8] = b"\x48\x83\xc4\x38\xc3"; // add rsp, 0x38; ret
    const CALL: &[u8] = b"\xe8\x00\x10\x00\x00";
    const TAIL_CALL: &[u8] = b"\xe9\x00\x10\x00\x00";
    /// `frame.prev = tls.top`, with the frame at `rsp + 0x10`.
    const BEGIN: &[u8] = b"\x64\x48\x8b\x04\x25\xc8\xff\xff\xff\x48\x89\x44\x24\x10";
    /// `tls.top = rax`
    const STORE: &[u8] = b"\x64\x48\x89\x04\x25\xc8\xff\xff\xff";
    /// `rax = frame.prev`
    const LOAD: &[u8] = b"\x48\x8b\x44\x24\x10";
    const FRAME: &[u8] = b"\x48\x8d\x44\x24\x10"; // lea rax, [rsp+0x10]
    const RELATIVE: &[u8] = b"\x48\x8d\x44\x24\x11"; // lea rax, [rsp+0x11]
    const OTHER_FRAME: &[u8] = b"\x48\x8d\x44\x24\x18"; // lea rax, [rsp+0x18]
    /// `je` over five bytes.
    const SKIP_5: &[u8] = b"\x74\x05";

    /// What no compiler writes is no overflow.
    #[test]
    fn distances_may_be_as_large_as_they_like() {
        let huge: &[u8] = b"\x48\xb8\0\0\0\0\0\0\0\x80\x48\x01\xc4"; // mov rax, 1 << 63; add rsp, rax
        let push: &[u8] = b"\x50\xc3"; // push rax; ret
        assert_eq!(found(&[huge, CALL, push]).0, Common::Unknown);
        assert!(Function::new(&[(u64::MAX, push)]).is_some());
    }

    fn found(parts: &[&[u8]]) -> (Common, Common) {
        let function = Function::new(&[(0x1000, &parts.concat())]).expect("it is code");
        let findings = function.findings(&Image, &[]);
        assert_eq!(findings.states.len(), function.instructions.len());
        (findings.frame_offset, findings.frame_position)
    }

    const BOTH_UNKNOWN: (Common, Common) = (Common::Unknown, Common::Unknown);

    #[test]
    fn distances_from_the_canonical_frame_address() {
        let known = (Common::Same(0x40), Common::Same(0x30));
        for push in [FRAME, RELATIVE] {
            assert_eq!(found(&[ENTER, BEGIN, push, STORE, CALL, LOAD, STORE, LEAVE]), known);
        }
        // mov rax, rsp; add rax, 0x10; or rax, 1
        let or: &[u8] = b"\x48\x89\xe0\x48\x83\xc0\x10\x48\x83\xc8\x01";
        assert_eq!(found(&[ENTER, BEGIN, or, STORE, CALL, LOAD, STORE, LEAVE]), known);
        assert_eq!(found(&[ENTER, CALL, LEAVE]), (Common::Same(0x40), Common::Unseen));
        assert_eq!(found(&[TAIL_CALL]), (Common::Unseen, Common::Unseen));
        let tail: &[u8] = b"\x48\x83\xc4\x38\xe9\x00\x10\x00\x00";
        assert_eq!(found(&[ENTER, CALL, tail]).0, Common::Same(0x40));
    }

    #[test]
    fn spilled_frames_are_pushes() {
        // The address is at rsp + 0x30 during the first call.
        let (spill, reload): (&[u8], &[u8]) = (b"\x48\x89\x44\x24\x30", b"\x48\x8b\x44\x24\x30");
        let first = [ENTER, BEGIN, FRAME, spill, CALL, reload, STORE, CALL, LOAD, STORE, LEAVE];
        assert_eq!(found(&first), (Common::Same(0x40), Common::Same(0x30)));
        // A word that the function was not seen to write.
        assert_eq!(found(&[ENTER, BEGIN, CALL, reload, STORE, CALL, LOAD, STORE, LEAVE]).1, Common::Unknown);
    }

    #[test]
    fn different_distances_are_unknown() {
        let pushes = [ENTER, BEGIN, FRAME, STORE, CALL, OTHER_FRAME, STORE, CALL, LOAD, STORE, LEAVE];
        assert_eq!(found(&pushes), (Common::Same(0x40), Common::Unknown));
        let either = [ENTER, BEGIN, FRAME, SKIP_5, OTHER_FRAME, STORE, CALL, LOAD, STORE, LEAVE];
        assert_eq!(found(&either), (Common::Same(0x40), Common::Unknown));
        assert_eq!(found(&[b"\x50", CALL, b"\x50", CALL, b"\x59\x59\xc3"]).0, Common::Unknown);
        let grows: &[u8] = b"\x48\x29\xc4"; // sub rsp, rax
        let leave: &[u8] = b"\x48\x89\xec\x5d\xc3"; // mov rsp, rbp; pop rbp; ret
        let enter: &[u8] = b"\x55\x48\x89\xe5\x48\x83\xec\x30";
        assert_eq!(found(&[enter, CALL, leave]).0, Common::Same(0x40));
        assert_eq!(found(&[enter, grows, CALL, leave]).0, Common::Unknown);
        let beside: &[u8] = b"\x48\x8d\x45\xe0"; // lea rax, [rbp-0x20]
        assert_eq!(found(&[enter, grows, beside, STORE, CALL, leave]), (Common::Unknown, Common::Same(0x30)));
        let align: &[u8] = b"\x48\x83\xe4\xc0"; // and rsp, -64
        assert_eq!(found(&[enter, align, FRAME, STORE, CALL, leave]), BOTH_UNKNOWN);
    }

    #[test]
    fn what_is_not_followed_is_unknown() {
        let body = [ENTER, BEGIN, FRAME, STORE, CALL, LOAD, STORE];
        let followed_by = |end: &[u8]| found(&[&body[..], &[end]].concat());
        assert_eq!(followed_by(LEAVE), (Common::Same(0x40), Common::Same(0x30)));
        // The stack pointer is not where it was at the entry.
        assert_eq!(followed_by(b"\xc3"), BOTH_UNKNOWN);
        // The activation goes on in another part.
        assert_eq!(followed_by(TAIL_CALL), BOTH_UNKNOWN);
        assert_eq!(followed_by(&[b"\x0f\x84\x00\x10\x00\x00", LEAVE].concat()), BOTH_UNKNOWN);
        // A jump to anywhere, code that nothing reaches, a call of the next instruction.
        assert_eq!(followed_by(b"\xff\xe1"), BOTH_UNKNOWN);
        assert_eq!(followed_by(&[LEAVE, b"\x90\xcc"].concat()), followed_by(LEAVE));
        assert_eq!(followed_by(&[LEAVE, b"\xc3"].concat()), BOTH_UNKNOWN);
        assert_eq!(followed_by(&[b"\xe8\x00\x00\x00\x00", LEAVE].concat()), BOTH_UNKNOWN);
        // Half of `top`: mov fs:[top], eax
        let half: &[u8] = b"\x64\x89\x04\x25\xc8\xff\xff\xff";
        assert_eq!(followed_by(&[half, LEAVE].concat()), (Common::Same(0x40), Common::Unknown));
    }
}
