//! The data flow over a function's instructions.
//!
//! It follows the values that reach the id: constants, offsets of the thread-local block, and the id itself;
//! through registers and the stack, where compilers spill them. What emitted code does to the id is an
//! addition of a constant, a store of 0 (a push), or a store of what the function found at its entry. The
//! same flow follows the stack pointer, addresses on the stack, and what the function has read from `top`: a
//! store of such an address to `top` is a push, a store of what `top` held is a pop.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::rc::Rc;

use pcce_dictionary::code::State;

use super::effects::Effects;
use super::function::{Function, Surroundings};
use super::machine::{Control, Entry, Instruction, Operand};
use super::state::{AbstractState, Value};

/// A range of a function's calls that may throw, and the landing pad at which the unwinder goes on.
#[derive(Clone, Copy)]
pub(super) struct LandingPad {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) pad: u64,
}

/// Bound on the states with different ids at one place.
const MAX_STATES: usize = 16;

/// Bound on the entries of a jump table. Compilers make none that is larger.
const MAX_ENTRIES: u64 = 1 << 16;

/// Bound on the states at a function's leaders, in units of [`AbstractState::size`]: a quarter of a gigabyte.
const MAX_HELD: u64 = 1 << 22;

/// The states at a function's leaders: the first instructions of its basic blocks.
pub(super) struct Flow<'a> {
    pub(super) effects: Effects<'a>,
    pub(super) leaders: BTreeSet<usize>,
    /// The states at the leaders that were reached, each with another id: where compilers merge the ends of
    /// two paths, the constant that is added next makes them equal again.
    pub(super) entries: BTreeMap<usize, Vec<AbstractState>>,
    /// By address, without overlaps.
    pads: Vec<LandingPad>,
    pad_addresses: HashSet<u64>,
    /// The beginnings of data that the function names.
    starts: BTreeSet<u64>,
    /// Targets in the jump tables that were read, by what a jump through the table goes to.
    tables: HashMap<Value, Rc<[usize]>>,
    /// Leaders whose states have changed.
    work: BTreeSet<usize>,
    /// The states after calls that are directly before leaders, by leader.
    after_calls: BTreeMap<usize, AbstractState>,
    /// Leaders that are reached only by the returns of calls directly before them.
    only_after_calls: BTreeSet<usize>,
    held: u64,
    /// True if the function cannot be followed.
    broken: bool,
}

impl<'a> Flow<'a> {
    /// Follows a function. None if it cannot be followed.
    pub(super) fn of(
        function: &'a Function,
        image: &'a dyn Surroundings,
        pads: &[LandingPad],
    ) -> Option<Self> {
        let instructions = &function.instructions;
        let mut leaders: BTreeSet<usize> =
            function.parts.iter().filter_map(|part| function.index_of(part.start)).collect();
        for (i, instruction) in instructions.iter().enumerate() {
            match instruction.control {
                Control::Jump { target, .. } => {
                    if function.contains(target) {
                        // A jump into the middle of an instruction: this is no code of a compiler.
                        leaders.insert(function.index_of(target)?);
                    }
                    leaders.insert(i + 1);
                }
                Control::Next | Control::Call(_) | Control::IndirectCall(_) | Control::SystemCall => {}
                _ => _ = leaders.insert(i + 1),
            }
        }
        let mut taken: Vec<usize> = (function.parts.iter())
            .flat_map(|part| image.address_taken(part.start, part.end).iter().copied())
            .chain(function.addresses.iter().copied().filter(|&address| function.contains(address)))
            .filter(|&address| address != function.start)
            .filter_map(|address| function.index_of(address))
            .collect();
        taken.sort_unstable();
        taken.dedup();
        leaders.extend(&taken);
        leaders.extend(pads.iter().filter_map(|pad| function.index_of(pad.pad)));
        leaders.remove(&instructions.len());
        // Jump tables follow one another: each ends where the next one begins.
        let starts = function.tables.iter().chain(&function.addresses).copied().collect();
        let mut flow = Self {
            effects: Effects::new(function, image, taken),
            leaders,
            entries: BTreeMap::new(),
            pads: in_order(pads)?,
            pad_addresses: pads.iter().map(|pad| pad.pad).collect(),
            starts,
            tables: HashMap::new(),
            work: BTreeSet::new(),
            after_calls: BTreeMap::new(),
            only_after_calls: BTreeSet::new(),
            held: 0,
            broken: false,
        };
        flow.run();
        (!flow.broken).then_some(flow)
    }

    fn run(&mut self) {
        let function = self.effects.function;
        let Some(entry) = function.index_of(function.start) else { return };
        self.flow_to(entry, &AbstractState::entry(self.effects.registers.stack_pointer));
        self.spread();
        // A call directly before a leader may never return. So the state after it counts only if nothing else
        // reaches the leader.
        while let Some((leader, state)) = self.after_calls.pop_first() {
            self.held -= state.size();
            if !self.entries.contains_key(&leader) {
                self.only_after_calls.insert(leader);
                self.flow_to(leader, &state);
                self.spread();
            }
        }
    }

    /// An index for [`Self::flow_to`] that is no leader: the meeting point of jumps that may lead to any
    /// instruction whose address is taken.
    fn anywhere(&self) -> usize {
        self.effects.function.instructions.len()
    }

    fn spread(&mut self) {
        while let Some(leader) = self.work.pop_first() {
            for state in self.entries[&leader].clone() {
                if leader != self.anywhere() {
                    self.spread_from(leader, state);
                    continue;
                }
                for i in 0..self.effects.taken.len() {
                    self.flow_to(self.effects.taken[i], &state);
                }
            }
        }
    }

    fn spread_from(&mut self, leader: usize, mut state: AbstractState) {
        let function = self.effects.function;
        let end = self.leaders.range(leader + 1..).next().copied();
        let end = end.unwrap_or(function.instructions.len());
        if !self.spend((end - leader) as u64 + state.size()) {
            return;
        }
        for i in leader..end {
            let instruction = &function.instructions[i];
            match instruction.control {
                Control::Call(_) | Control::IndirectCall(_) => self.flow_to_pad(&state, instruction.address),
                Control::Jump { target, .. } if function.contains(target) => {
                    let target = function.index_of(target);
                    let mut taken = state.clone();
                    taken.decide(instruction.comparison, true);
                    self.flow_to(target.expect("looked up before"), &taken);
                }
                Control::IndirectJump(target) => self.indirect(instruction, target, &state),
                _ => {}
            }
            self.effects.transfer(&mut state, instruction);
            if instruction.ends_block() {
                break;
            }
            state.decide(instruction.comparison, false);
            let follows = |next: &Instruction| next.address == instruction.next();
            if i + 1 == end && function.instructions.get(end).is_some_and(follows) {
                if !instruction.is_call() || self.only_after_calls.contains(&end) {
                    self.flow_to(end, &state);
                } else if !self.pad_addresses.contains(&instruction.next()) {
                    self.flow_after_call(end, state.clone());
                }
            }
        }
    }

    /// Counts steps. Returns false if the function takes too many steps or too much memory.
    fn spend(&mut self, steps: u64) -> bool {
        self.broken |= self.held > MAX_HELD || !self.effects.image.spend(steps);
        if self.broken {
            self.work.clear();
            self.after_calls.clear();
        }
        !self.broken
    }

    fn flow_to(&mut self, leader: usize, state: &AbstractState) {
        if !self.spend(state.size()) {
            return;
        }
        let known = self.entries.entry(leader).or_default();
        let changed = match known.iter_mut().find(|m| m.id == state.id || m.id == State::Unknown) {
            Some(known) => known.join(state),
            None => {
                self.held += state.size();
                // Most leaders have one state.
                known.reserve_exact(1);
                known.push(state.clone());
                true
            }
        };
        if known.len() > MAX_STATES {
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

    fn flow_after_call(&mut self, leader: usize, state: AbstractState) {
        self.held += state.size();
        if let Some(before) = self.after_calls.insert(leader, state) {
            self.held -= before.size();
        }
    }

    /// The unwinder may continue at a landing pad, with the registers that functions preserve.
    fn flow_to_pad(&mut self, state: &AbstractState, call: u64) {
        let after = self.pads.partition_point(|pad| pad.from <= call);
        let pad = self.pads[..after].last().filter(|pad| call < pad.to);
        if let Some(index) = pad.and_then(|pad| self.effects.function.index_of(pad.pad)) {
            let mut state = state.clone();
            state.forget(self.effects.registers.volatile);
            state.compare(None);
            state.id = State::Unknown;
            self.flow_to(index, &state);
        }
    }

    /// A jump through a register or a word of memory.
    fn indirect(&mut self, jump: &Instruction, target: Operand, state: &AbstractState) {
        let target = self.effects.operand(state, target);
        let targets = self.targets(target);
        if targets.is_empty() {
            let is_table = matches!(target, Value::Target { .. });
            self.broken |= is_table || self.effects.taken.is_empty() && !self.effects.leaves(state, jump);
            if !self.effects.taken.is_empty() {
                self.flow_to(self.anywhere(), state);
            }
        }
        for &target in &*targets {
            self.flow_to(target, state);
        }
    }

    /// The targets of a jump to a value out of a jump table. None are known of other values.
    fn targets(&mut self, of: Value) -> Rc<[usize]> {
        if let Some(known) = self.tables.get(&of) {
            return known.clone();
        }
        let read = match of {
            // Only who knows the last entry can tell where the table ends: what follows it may lead into the function,
            // too. Distances from the table itself are too large for that.
            Value::Target { kind, last, base, .. }
                if last.known().is_none() && (kind != Entry::Word || base != 0) =>
            {
                None
            }
            Value::Target { table, kind, last, base } => {
                let base = table.wrapping_add_signed(base.into());
                let target = |entry: &[u8]| Some(base.wrapping_add_signed(kind.distance(entry)?));
                self.table(table, kind.size(), last.known(), target)
            }
            Value::Address(address) => {
                self.table(address, 8, None, |entry| Some(u64::from_le_bytes(*entry.first_chunk()?)))
            }
            _ => return Rc::default(),
        };
        let targets: Rc<[usize]> = read.unwrap_or_default().into_iter().collect();
        for &target in &*targets {
            self.add_leader(target);
        }
        self.tables.insert(of, targets.clone());
        targets
    }

    /// The targets in a table whose entries have `size` bytes. None if an entry up to the `last` one leads out of the
    /// function. Where the last one is not known, the table ends before such an entry.
    fn table(
        &self,
        address: u64,
        size: usize,
        last: Option<u16>,
        target: impl Fn(&[u8]) -> Option<u64>,
    ) -> Option<BTreeSet<usize>> {
        let (function, image) = (self.effects.function, self.effects.image);
        let most = match last {
            Some(last) => u64::from(last) + 1,
            None => {
                let next = self.starts.range((Excluded(address), Unbounded)).next();
                (next.map_or(u64::MAX, |next| next - address) / size as u64).min(MAX_ENTRIES)
            }
        };
        // Entries that no value selects lead to the function's end.
        let inside = |target| match function.index_of(target) {
            None if function.is_end(target) => Some(None),
            index => index.map(Some),
        };
        let entries = image.bytes(address).chunks_exact(size).take(most as usize);
        let read = entries.map_while(|entry| image.spend(1).then(|| inside(target(entry)?))?);
        let read: Vec<Option<usize>> = read.collect();
        (last.is_none() || read.len() as u64 == most).then(|| read.into_iter().flatten().collect())
    }

    /// Makes an instruction a leader. The states of the leader before it flow there again.
    fn add_leader(&mut self, leader: usize) {
        if self.leaders.insert(leader)
            && let Some(before) = self.leaders.range(..leader).next_back()
            && self.entries.contains_key(before)
        {
            self.work.insert(*before);
        }
    }
}

/// Sorts the landing pads by address. None if they overlap, which compilers' tables do not.
fn in_order(pads: &[LandingPad]) -> Option<Vec<LandingPad>> {
    let mut pads: Vec<LandingPad> = pads.iter().filter(|pad| pad.from < pad.to).copied().collect();
    pads.sort_unstable_by_key(|pad| pad.from);
    pads.is_sorted_by(|a, b| a.to <= b.from).then_some(pads)
}
