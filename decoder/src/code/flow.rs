//! The data flow over a function's instructions.
//!
//! It follows the values that reach the id: constants, offsets of the thread-local block, and the id itself; through
//! registers and the stack, where compilers spill them. What emitted code does to the id is an addition of a constant,
//! a store of 0 (a push), or a store of what the function found at its entry. The same flow follows the stack pointer,
//! addresses on the stack, and what the function has read from `top`: a store of such an address to `top` is a push, a
//! store of what `top` held is a pop.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};
use pcce_dictionary::code::State;

use super::effects::{Effects, VOLATILE, table_of_addresses};
use super::function::{Function, ends, is_call, is_direct_jump};
use super::machine::{Machine, Value};

/// What must be known of the image around a function.
pub(super) trait Surroundings {
    /// The bytes of the image from an address on, as far as the file has them.
    fn bytes(&self, address: u64) -> &[u8];
    /// The offset of the thread-local block from the thread pointer, where it is a constant.
    fn tls_offset(&self) -> Option<i64>;
    /// Whether the word at an address holds that offset at run time; then what is added to it.
    fn tls_slot(&self, address: u64) -> Option<i64>;
    /// Addresses in a range that data of the image refers to.
    fn address_taken(&self, from: u64, to: u64) -> &[u64];
    /// What begins at the target of a call.
    fn called(&self, address: u64) -> Called<'_>;
    /// Takes so many steps, about an instruction each, from those that the image may cost. False if there are none
    /// left: what is not known by then stays unknown.
    fn spend(&self, steps: u64) -> bool;
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

/// More different ids at one place are not followed.
const MAX_MACHINES: usize = 16;

/// Entries of a jump table that are read. Compilers make none that is larger.
const MOST_ENTRIES: u64 = 1 << 16;

/// What the machines at a function's leaders may take, in units of [`Machine::size`]: a quarter of a gigabyte.
const MOST_HELD: u64 = 1 << 22;

/// The machines at a function's leaders: the instructions to which control comes in another way than from the one in
/// front.
pub(super) struct Flow<'a> {
    pub(super) effects: Effects<'a>,
    pub(super) leaders: BTreeSet<usize>,
    /// The machines at the leaders that were reached, each with another id: where compilers merge the ends of two
    /// paths, the constant that is added next makes them equal again.
    pub(super) entries: BTreeMap<usize, Vec<Machine>>,
    /// By address, without overlaps.
    pads: Vec<LandingPad>,
    /// Addresses of landing pads.
    pad_addresses: HashSet<u64>,
    /// Where data begins that the function names.
    starts: BTreeSet<u64>,
    /// Targets in the jump tables that were read, by the table's address and the size of its entries.
    tables: HashMap<(u64, usize), Rc<[usize]>>,
    /// Leaders whose machine has changed.
    work: BTreeSet<usize>,
    /// The machine behind calls in front of leaders.
    behind_calls: BTreeMap<usize, Machine>,
    /// Leaders that nothing else was seen to reach.
    only_behind_calls: BTreeSet<usize>,
    held: u64,
    /// Whether something was met after which nothing can be said of the function.
    broken: bool,
}

impl<'a> Flow<'a> {
    /// Follows a function. None if something was met after which nothing can be said of it.
    pub(super) fn of(
        function: &'a Function,
        image: &'a dyn Surroundings,
        pads: &[LandingPad],
    ) -> Option<Self> {
        let instructions = &function.instructions;
        let mut leaders: BTreeSet<usize> =
            function.parts.iter().filter_map(|part| function.index_of(part.start)).collect();
        for (i, instruction) in instructions.iter().enumerate() {
            match instruction.flow_control() {
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    if function.contains(instruction.near_branch_target()) {
                        // A jump into the middle of an instruction: this is no code of a compiler.
                        leaders.insert(function.index_of(instruction.near_branch_target())?);
                    }
                    leaders.insert(i + 1);
                }
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {}
                _ => _ = leaders.insert(i + 1),
            }
        }
        let named = |i: &Instruction| {
            (i.mnemonic() == Mnemonic::Lea && i.is_ip_rel_memory_operand()).then(|| i.ip_rel_memory_address())
        };
        let mut taken: Vec<usize> = (function.parts.iter())
            .flat_map(|part| image.address_taken(part.start, part.end).iter().copied())
            .chain(instructions.iter().filter_map(named).filter(|&address| function.contains(address)))
            .filter(|&address| address != function.start)
            .filter_map(|address| function.index_of(address))
            .collect();
        taken.sort_unstable();
        taken.dedup();
        leaders.extend(&taken);
        leaders.extend(pads.iter().filter_map(|pad| function.index_of(pad.pad)));
        leaders.remove(&instructions.len());
        // Tables follow one another: each ends where the next one begins.
        let starts = instructions.iter().filter_map(|i| match table_of_addresses(i) {
            Value::Address(table) => Some(table),
            _ => named(i),
        });
        let starts = starts.collect();
        let mut flow = Self {
            effects: Effects::new(function, image, taken),
            leaders,
            entries: BTreeMap::new(),
            pads: in_order(pads)?,
            pad_addresses: pads.iter().map(|pad| pad.pad).collect(),
            starts,
            tables: HashMap::new(),
            work: BTreeSet::new(),
            behind_calls: BTreeMap::new(),
            only_behind_calls: BTreeSet::new(),
            held: 0,
            broken: false,
        };
        flow.run();
        (!flow.broken).then_some(flow)
    }

    fn run(&mut self) {
        let function = self.effects.function;
        let Some(entry) = function.index_of(function.start) else { return };
        self.flow_to(entry, &Machine::entry());
        self.spread();
        // A call in front of a leader may be one that never returns. So what flows out of such calls counts only where
        // nothing else arrives.
        while let Some((leader, machine)) = self.behind_calls.pop_first() {
            self.held -= machine.size();
            if !self.entries.contains_key(&leader) {
                self.only_behind_calls.insert(leader);
                self.flow_to(leader, &machine);
                self.spread();
            }
        }
    }

    /// In place of a leader: where jumps meet that may lead to any instruction whose address is taken.
    fn anywhere(&self) -> usize {
        self.effects.function.instructions.len()
    }

    fn spread(&mut self) {
        while let Some(leader) = self.work.pop_first() {
            for machine in self.entries[&leader].clone() {
                if leader != self.anywhere() {
                    self.spread_from(leader, machine);
                    continue;
                }
                for i in 0..self.effects.taken.len() {
                    self.flow_to(self.effects.taken[i], &machine);
                }
            }
        }
    }

    fn spread_from(&mut self, leader: usize, mut machine: Machine) {
        let function = self.effects.function;
        let end = self.leaders.range(leader + 1..).next().copied();
        let end = end.unwrap_or(function.instructions.len());
        if !self.spend((end - leader) as u64 + machine.size()) {
            return;
        }
        for i in leader..end {
            let instruction = &function.instructions[i];
            if is_call(instruction) {
                self.flow_to_pad(&machine, instruction);
            }
            if is_direct_jump(instruction) && function.contains(instruction.near_branch_target()) {
                let target = function.index_of(instruction.near_branch_target());
                self.flow_to(target.expect("looked up before"), &machine);
            }
            if instruction.flow_control() == FlowControl::IndirectBranch {
                self.indirect(instruction, &machine);
            }
            self.effects.transfer(&mut machine, instruction);
            if ends(instruction) {
                break;
            }
            let follows = |next: &Instruction| next.ip() == instruction.next_ip();
            if i + 1 == end && function.instructions.get(end).is_some_and(follows) {
                if !is_call(instruction) || self.only_behind_calls.contains(&end) {
                    self.flow_to(end, &machine);
                } else if !self.pad_addresses.contains(&instruction.next_ip()) {
                    self.flow_behind_call(end, machine.clone());
                }
            }
        }
    }

    /// Counts work. False when the function is too much of it.
    fn spend(&mut self, steps: u64) -> bool {
        self.broken |= self.held > MOST_HELD || !self.effects.image.spend(steps);
        if self.broken {
            self.work.clear();
            self.behind_calls.clear();
        }
        !self.broken
    }

    fn flow_to(&mut self, leader: usize, machine: &Machine) {
        if !self.spend(machine.size()) {
            return;
        }
        let known = self.entries.entry(leader).or_default();
        let changed = match known.iter_mut().find(|m| m.id == machine.id || m.id == State::Unknown) {
            Some(known) => known.join(machine),
            None => {
                self.held += machine.size();
                // Most leaders have one.
                known.reserve_exact(1);
                known.push(machine.clone());
                true
            }
        };
        if known.len() > MAX_MACHINES {
            let mut one = known.swap_remove(0);
            for other in known.drain(..) {
                self.held = self.held.saturating_sub(other.size());
                one.join(&other);
            }
            one.id = State::Unknown;
            known.push(one);
        }
        if changed {
            self.work.insert(leader);
        }
    }

    fn flow_behind_call(&mut self, leader: usize, machine: Machine) {
        self.held += machine.size();
        if let Some(before) = self.behind_calls.insert(leader, machine) {
            self.held -= before.size();
        }
    }

    /// The unwinder may continue at a landing pad, with the registers that functions preserve.
    fn flow_to_pad(&mut self, machine: &Machine, call: &Instruction) {
        let after = self.pads.partition_point(|pad| pad.from <= call.ip());
        let pad = self.pads[..after].last().filter(|pad| call.ip() < pad.to);
        if let Some(index) = pad.and_then(|pad| self.effects.function.index_of(pad.pad)) {
            let mut machine = machine.clone();
            machine.forget(&VOLATILE);
            machine.id = State::Unknown;
            self.flow_to(index, &machine);
        }
    }

    /// A jump through a register or a word of memory.
    fn indirect(&mut self, jump: &Instruction, machine: &Machine) {
        let known = match jump.op0_kind() {
            OpKind::Register => machine.get(jump.op0_register()),
            // One that was spilled.
            _ => match self.effects.operand(machine, jump, 0) {
                Value::Nothing => table_of_addresses(jump),
                spilled => spilled,
            },
        };
        let targets = match known {
            Value::Target(table) => self.table(table, 4),
            Value::Address(table) => self.table(table, 8),
            _ => Rc::default(),
        };
        if targets.is_empty() {
            self.broken |= self.effects.taken.is_empty() && !self.effects.leaves(machine, jump);
            if !self.effects.taken.is_empty() {
                self.flow_to(self.anywhere(), machine);
            }
        }
        for &target in &*targets {
            self.flow_to(target, machine);
        }
    }

    /// Targets in a jump table: differences from its address in 4 bytes each, or addresses in 8.
    fn table(&mut self, address: u64, size: usize) -> Rc<[usize]> {
        if let Some(known) = self.tables.get(&(address, size)) {
            return known.clone();
        }
        let (function, image) = (self.effects.function, self.effects.image);
        let target = |entry: &[u8]| match entry.first_chunk::<8>() {
            Some(address) => u64::from_le_bytes(*address),
            None => {
                let difference = i32::from_le_bytes(*entry.first_chunk().expect("4 bytes"));
                address.wrapping_add_signed(difference.into())
            }
        };
        let next = self.starts.range((Excluded(address), Unbounded)).next();
        let most = next.map_or(u64::MAX, |next| next - address) / size as u64;
        // Entries that no value selects lead to the function's end.
        let inside = |target| match function.index_of(target) {
            None if function.is_end(target) => Some(None),
            index => index.map(Some),
        };
        let entries = image.bytes(address).chunks_exact(size).take(most.min(MOST_ENTRIES) as usize);
        let read = entries.map_while(|entry| image.spend(1).then(|| inside(target(entry)))?);
        let targets: BTreeSet<usize> = read.flatten().collect();
        for &target in &targets {
            self.add_leader(target);
        }
        let targets: Rc<[usize]> = targets.into_iter().collect();
        self.tables.insert((address, size), targets.clone());
        targets
    }

    /// An instruction is a leader, too: what was seen to reach it from the one in front flows there anew.
    fn add_leader(&mut self, leader: usize) {
        if self.leaders.insert(leader)
            && let Some(before) = self.leaders.range(..leader).next_back()
            && self.entries.contains_key(before)
        {
            self.work.insert(*before);
        }
    }
}

/// The landing pads by address; None if they overlap, which compilers' tables do not.
fn in_order(pads: &[LandingPad]) -> Option<Vec<LandingPad>> {
    let mut pads: Vec<LandingPad> = pads.iter().filter(|pad| pad.from < pad.to).copied().collect();
    pads.sort_unstable_by_key(|pad| pad.from);
    pads.is_sorted_by(|a, b| a.to <= b.from).then_some(pads)
}
