//! Reads the call site control flow graphs of functions.

use std::collections::{HashMap, HashSet};

use pcce_dictionary::trace::Kind;
use pcce_encoding::FunctionId;
use pcce_model::plan::Strings;
use pcce_model::{CallKind, Program, Reach, RuntimeCall, SourceLocation};
use pcce_tracing::{Block, Flow, Role};

use super::Calls;
use super::emit::ENDS;
use crate::facts::{Target, resolve};
use crate::handles::{Code, FunctionCode, SecondBodies};
use crate::llvm::{self, Call, Instruction, Module, Opcode, TailCall};
use crate::places;

/// A function's call site control flow graph.
pub struct Traced<'m> {
    /// Its flow of control.
    pub flow: Flow,
    pub nodes: Vec<Node<'m>>,
    /// True if it may leave its activation to an unknown function.
    pub leaves: bool,
    /// The function is left out: it has no nodes, and calls of it are like calls of another module's
    /// function.
    pub skipped: bool,
}

pub struct Node<'m> {
    /// Its kind. Names are numbers in the module's table.
    pub kind: Kind,
    /// The call, return or `resume`; for a landing pad, the first instruction after it.
    pub at: Instruction<'m>,
    /// For a call: its place among the function's calls that contexts know.
    pub call: Option<usize>,
    /// For a call: the landing pad of its exceptions.
    pub unwinds_to: Option<u32>,
    /// If blocks are nodes: the lines that begin after the node, up to the block's next node.
    pub lines: Vec<Line>,
}

/// A recorded function of another module.
pub struct Other {
    /// Its number among those of the module.
    pub number: u32,
    /// The symbol of the place after its entry event, where calls enter it.
    pub symbol: String,
}

/// The functions of a module, and those of other modules that they call with codes.
pub struct Gathered<'m> {
    pub functions: Vec<Traced<'m>>,
    pub others: HashMap<llvm::Function<'m>, Other>,
}

/// Reads the instrumented functions, in the order of their numbers. `blocks`: blocks are nodes as well.
pub fn gather<'m>(
    module: Module<'m>,
    program: &Program,
    (code, bodies): (&Code<'m>, &SecondBodies<'m>),
    (calls, elsewhere): (Calls, &HashMap<(FunctionId, usize), String>),
    blocks: bool,
    names: &mut Strings,
    skipped: &[bool],
) -> Gathered<'m> {
    let calls_back = calls_back(program, skipped);
    let ids: HashMap<llvm::Function<'m>, FunctionId> =
        program.iter().map(|(id, _)| (code.function(id).value, id)).collect();
    let others = others(program, bodies, elsewhere, skipped);
    let mut reader =
        Reader { module, program, bodies, ids, calls, others, blocks, names, skipped, calls_back };
    let mut functions: Vec<Traced<'m>> = program
        .iter()
        .map(|(id, _)| match skipped[id.index()] {
            true => Traced { flow: Flow::default(), nodes: Vec::new(), leaves: false, skipped: true },
            false => reader.read(id, bodies.code.function(id)),
        })
        .collect();
    mark_leaving(&mut functions);
    for i in 0..functions.len() {
        for node in 0..functions[i].nodes.len() {
            if let Kind::Call(callee) = functions[i].nodes[node].kind
                && functions[callee as usize].leaves
            {
                functions[i].flow.roles[node] = Role::MarksBehind;
            }
        }
    }
    Gathered { functions, others: reader.others }
}

/// The recorded functions of other modules that the module calls, by their declarations in it.
///
/// When the code is changed, calls are found by their callees. So all calls of such a function in second bodies must be
/// among the calls that are known to reach it.
fn others<'m>(
    program: &Program,
    bodies: &SecondBodies<'m>,
    elsewhere: &HashMap<(FunctionId, usize), String>,
    skipped: &[bool],
) -> HashMap<llvm::Function<'m>, Other> {
    let mut others: HashMap<llvm::Function<'m>, Other> = HashMap::new();
    if elsewhere.is_empty() {
        return others;
    }
    let mut unknown: HashSet<llvm::Function<'m>> = HashSet::new();
    let recorded = program.iter().filter(|(id, _)| !skipped[id.index()] && bodies.has(*id));
    for (id, _) in recorded {
        let code = bodies.code.function(id);
        let numbers: HashMap<Instruction<'m>, usize> =
            code.calls.iter().enumerate().map(|(number, call)| (**call, number)).collect();
        for call in code.value.instructions().filter_map(Instruction::as_call) {
            let Some(callee) = call.called().as_function() else { continue };
            let symbol = numbers.get(&*call).and_then(|&number| elsewhere.get(&(id, number)));
            let by_code = symbol.filter(|_| !code.returns_twice.contains(&call));
            match by_code {
                // Tail calls that stay are no calls with codes.
                _ if call.tail_call() == TailCall::Must => {}
                Some(symbol) => {
                    let number = others.len() as u32;
                    let other =
                        others.entry(callee).or_insert_with(|| Other { number, symbol: symbol.clone() });
                    if other.symbol != *symbol {
                        unknown.insert(callee);
                    }
                }
                None => _ = unknown.insert(callee),
            }
        }
    }
    others.retain(|callee, _| !unknown.contains(callee));
    let mut left: Vec<&mut Other> = others.values_mut().collect();
    left.sort_by_key(|other| other.number);
    (0..).zip(left).for_each(|(number, other)| other.number = number);
    others
}

/// For each function that is left out, whether it may call functions that are not, or unknown code.
fn calls_back(program: &Program, skipped: &[bool]) -> Vec<bool> {
    let mut found = vec![false; skipped.len()];
    loop {
        let mut changed = false;
        for (id, function) in program.iter().filter(|(id, _)| skipped[id.index()]) {
            let calls = function.calls.iter().any(|call| match call.kind.reach() {
                Reach::Function(callee) => !skipped[callee.index()] || found[callee.index()],
                Reach::Runtime | Reach::Nothing => call.kind.name().is_some_and(ends_or_jumps),
                Reach::Replaceable(_) | Reach::Pointer | Reach::Outside => true,
            });
            // The callees of its tail calls are not looked at.
            let calls = calls || !function.tail_callees.is_empty() || function.jumps_about;
            changed |= calls && !found[id.index()];
            found[id.index()] |= calls;
        }
        if !changed {
            return found;
        }
    }
}

/// Marks functions that may leave their activations to unknown functions, directly or through other
/// functions.
fn mark_leaving(functions: &mut [Traced<'_>]) {
    loop {
        let mut changed = false;
        for i in 0..functions.len() {
            let leaves = functions[i].nodes.iter().any(|node| match node.kind {
                Kind::LeaveOpen(_) => true,
                Kind::Leave(callee) => functions[callee as usize].leaves,
                _ => false,
            });
            changed |= leaves && !functions[i].leaves;
            functions[i].leaves |= leaves;
        }
        if !changed {
            return;
        }
    }
}

/// A line of a block, and the number of its inlined copy, as [`Copies`] counts them.
type Line = (SourceLocation, u32);

/// The inlined copies in a function, each with the chain of calls around it. The function's own code is
/// number 0.
#[derive(Default)]
struct Copies(Vec<Vec<SourceLocation>>);

impl Copies {
    /// Assigns the lines of a block to its nodes, each line once for each copy, in the order of the
    /// instructions. The block's own node gets the lines up to the first event, and an event the lines after
    /// it.
    fn lines<'m>(&mut self, block: llvm::Block<'m>, nodes: &mut [Node<'m>]) {
        let Some(mut at) = nodes.iter().position(|node| node.kind == Kind::Block) else { return };
        for instruction in block.instructions() {
            let mut locations = instruction.locations();
            if locations.first().is_some_and(|location| location.line != 0) {
                let location = locations.remove(0);
                let copy = self.number(locations);
                let same = |(line, of): &Line| {
                    *of == copy && line.line == location.line && line.file == location.file
                };
                if !nodes.iter().flat_map(|node| &node.lines).any(same) {
                    nodes[at].lines.push((location, copy));
                }
            }
            at += usize::from(nodes.get(at + 1).is_some_and(|next| next.at == instruction));
        }
    }

    fn number(&mut self, places: Vec<SourceLocation>) -> u32 {
        if places.is_empty() {
            return 0;
        }
        let known = self.0.iter().position(|known| *known == places);
        known.map_or_else(
            || {
                self.0.push(places);
                self.0.len() as u32
            },
            |number| number as u32 + 1,
        )
    }
}

struct Reader<'a, 'm> {
    module: Module<'m>,
    program: &'a Program,
    bodies: &'a SecondBodies<'m>,
    ids: HashMap<llvm::Function<'m>, FunctionId>,
    calls: Calls,
    others: HashMap<llvm::Function<'m>, Other>,
    blocks: bool,
    names: &'a mut Strings,
    skipped: &'a [bool],
    /// [`calls_back`] of the functions that are left out.
    calls_back: Vec<bool>,
}

impl<'m> Reader<'_, 'm> {
    fn read(&mut self, id: FunctionId, code: &FunctionCode<'m>) -> Traced<'m> {
        let calls: HashMap<Instruction<'m>, usize> =
            code.calls.iter().enumerate().map(|(number, call)| (**call, number)).collect();
        let blocks = code.value.blocks();
        let numbers: HashMap<llvm::Block<'m>, u32> = blocks.iter().copied().zip(0..).collect();
        let frequencies = self.module.block_frequencies(code.value);
        let mut flow = Flow::default();
        let mut nodes: Vec<Node<'m>> = Vec::new();
        let mut pads: HashMap<llvm::Block<'m>, u32> = HashMap::new();
        let mut copies = Copies::default();
        for (&block, frequency) in blocks.iter().zip(frequencies) {
            let first = nodes.len();
            let mut push = |kind, at, role| {
                // The node of a block or landing pad is not the node of its first instruction.
                let call = calls.get(&at).copied().filter(|_| !matches!(kind, Kind::Block | Kind::Landing));
                nodes.push(Node { kind, at, call, unwinds_to: None, lines: Vec::new() });
                flow.roles.push(role);
            };
            if block.is_landing_pad() {
                pads.insert(block, first as u32);
                push(Kind::Landing, block.first_after_pads(), Role::Event);
            }
            if self.blocks {
                push(Kind::Block, block.first_after_pads(), Role::Event);
            }
            let mut left = false;
            for instruction in block.instructions() {
                match instruction.opcode() {
                    Opcode::Return if !left => push(Kind::Return, instruction, Role::Return),
                    Opcode::Resume => push(Kind::Resume, instruction, Role::Event),
                    _ => {}
                }
                let Some(call) = instruction.as_call() else { continue };
                left |= call.tail_call() == TailCall::Must;
                let number = calls.get(&instruction).copied();
                let Some(kind) = self.kind(id, call, number, code.returns_twice.contains(&call)) else {
                    continue;
                };
                let role = match kind {
                    Kind::Open(_) if places::returns(call) => Role::MarksBehind,
                    Kind::Open(_) if ends_thread(call) => Role::MarksBefore,
                    _ => Role::Event,
                };
                push(kind, instruction, role);
            }
            copies.lines(block, &mut nodes[first..]);
            let end = block.terminator();
            let successors = match end.as_call().and_then(|call| call.normal_destination()) {
                Some(destination) => vec![destination],
                None => end.successors(),
            };
            let successors = successors.iter().map(|to| numbers[to]).collect();
            flow.blocks.push(Block {
                nodes: (first as u32..nodes.len() as u32).collect(),
                successors,
                frequency,
            });
        }
        for node in &mut nodes {
            let pad = node.at.as_call().and_then(|call| call.unwind_destination());
            node.unwinds_to = pad
                .filter(|_| !matches!(node.kind, Kind::Landing | Kind::Block))
                .and_then(|pad| pads.get(&pad).copied());
        }
        Traced { flow, nodes, leaves: false, skipped: false }
    }

    /// The kind of a call's node; none if the call is no event. `number` is the call's place among the calls
    /// that contexts know.
    fn kind(
        &mut self,
        caller: FunctionId,
        call: Call<'m>,
        number: Option<usize>,
        twice: bool,
    ) -> Option<Kind> {
        let target = resolve(call.called(), self.calls.binding);
        let bodies = self.bodies;
        // A function that cannot be copied has one body, which is executed whether the process records or not. So it
        // enters a callee with two bodies where other code does, and the callee chooses.
        let enters_as_others = |callee: FunctionId| !bodies.has(caller) && bodies.has(callee);
        let mut name = || match &target {
            Target::Function { value, .. } => Some(self.names.number(&value.name())),
            Target::Intrinsic(_) | Target::Pointer | Target::Asm(_) => None,
        };
        if twice {
            return Some(Kind::ReturnsTwice(name()));
        }
        if call.tail_call() == TailCall::Must {
            return match target {
                Target::Function { value, exact: true }
                    if self
                        .ids
                        .get(&value)
                        .is_some_and(|&id| !self.skipped[id.index()] && !enters_as_others(id)) =>
                {
                    Some(Kind::Leave(self.ids[&value].index() as u32))
                }
                Target::Intrinsic(_) => None,
                _ => Some(Kind::LeaveOpen(name())),
            };
        }
        let Some(number) = number else {
            return match &target {
                // Control flow that cannot be followed.
                Target::Intrinsic(value) if value.name().starts_with("llvm.eh.sjlj.longjmp") => {
                    Some(Kind::Open(None))
                }
                Target::Function { value, .. } if self.calls.libraries => {
                    Some(Kind::Open(Some(self.names.number(&value.name()))))
                }
                Target::Function { value, .. } => Some(Kind::Closed(self.names.number(&value.name()))),
                _ => None,
            };
        };
        // The only body of a function that cannot be copied is executed whether the process records or not.
        let by_code = call.called().as_function().filter(|_| bodies.has(caller));
        if let Some(other) = by_code.and_then(|callee| self.others.get(&callee)) {
            return Some(Kind::Other(other.number));
        }
        Some(match &self.program[caller].calls[number].kind {
            CallKind::Direct(callee) if self.skipped[callee.index()] => {
                let name = self.names.number(&self.program[*callee].name);
                let throws = !call.has_attribute("nounwind")
                    && !call.called().aliased().is_some_and(|f| f.has_attribute("nounwind"));
                let may_come_back = self.calls_back[callee.index()] || throws || !places::returns(call);
                if may_come_back { Kind::Open(Some(name)) } else { Kind::Closed(name) }
            }
            CallKind::Direct(callee) if enters_as_others(*callee) => {
                Kind::Open(Some(self.names.number(&self.program[*callee].name)))
            }
            CallKind::Direct(callee) => Kind::Call(callee.index() as u32),
            CallKind::Silent(text) | CallKind::Published(text)
                if self.calls.libraries || unwinds(call, text) || may_jump(call, text) =>
            {
                Kind::Open(Some(self.names.number(text)))
            }
            CallKind::Silent(text) | CallKind::Published(text) => Kind::Closed(self.names.number(text)),
            CallKind::Replaceable(callee) => Kind::Open(Some(self.names.number(&self.program[*callee].name))),
            CallKind::External(text) => Kind::Open(Some(self.names.number(text))),
            CallKind::Indirect | CallKind::Asm => Kind::Open(None),
            // Readers know threads by where they were created. The bit behind the call tells several in a row apart.
            CallKind::Runtime(RuntimeCall::PthreadCreate | RuntimeCall::ThrdCreate) => Kind::Open(name()),
            CallKind::Runtime(_) => name().map_or(Kind::Open(None), Kind::Closed),
        })
    }
}

/// Returns whether the thread ends in the call. Its event also shows that the thread was not cancelled
/// before.
fn ends_thread(call: Call<'_>) -> bool {
    let name = call.called().as_function().map(llvm::Function::name);
    name.is_some_and(|name| ["pthread_exit", "thrd_exit"].contains(&&*name))
}

/// Returns whether control may continue elsewhere than after the call, which calls nothing back.
fn may_jump(call: Call<'_>, name: &str) -> bool {
    // The type of a compared pointer does not say that the function never returns.
    let never_returns = |callee: llvm::Function<'_>| callee.has_attribute("noreturn");
    ends_or_jumps(name) || !places::returns(call) || call.called().aliased().is_some_and(never_returns)
}

/// Returns whether the process may end in a function of this name, or control leave it by a jump.
fn ends_or_jumps(name: &str) -> bool {
    const JUMPS: [&str; 4] = ["longjmp", "_longjmp", "siglongjmp", "__longjmp_chk"];
    JUMPS.contains(&name) || ENDS.contains(&name)
}

/// Returns whether an exception may come out of a call of a function that is not the program's.
fn unwinds(call: Call<'_>, name: &str) -> bool {
    let callee = call.called().aliased();
    let never = call.has_attribute("nounwind") || callee.is_some_and(|f| f.has_attribute("nounwind"));
    // A function of C does not throw, except when the thread is cancelled there. Such a call is an invoke.
    let is_c = !["_Z", "__cxa", "_Unwind"].iter().any(|prefix| name.starts_with(prefix));
    !never && (call.opcode() == Opcode::Invoke || !is_c)
}
