//! Adds the code that writes the trace, and the tables that its reader needs.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use pcce_abi::functions::OPEN_THUNK;
use pcce_abi::trace::{self, functions};
use pcce_dictionary::Location;
use pcce_dictionary::trace::{self as tables, Kind, Part};
use pcce_encoding::FunctionId;
use pcce_model::plan::{PlannedFunction, Strings};
use pcce_model::thunks::PUSH_THUNK;
use pcce_model::{Program, TailCallee, names_of};
use pcce_tracing::{Called, Code as Bits, Placement, mark_recursion, place};

use super::gather::{Gathered, Other, Traced};
use super::{APPEND, Calls};
use crate::contexts::emit::bytes;
use crate::facts::{Target, resolve};
use crate::handles::{Code, FunctionCode, SecondBodies};
use crate::llvm::{Address, Alias, Builder, Call, Constant, Function, Instruction, Module, TailCall};
use crate::places;

/// Functions after which the process may do nothing more.
pub const ENDS: [&str; 14] = [
    "_exit",
    "_Exit",
    "quick_exit",
    "abort",
    "__assert_fail",
    "execl",
    "execle",
    "execlp",
    "execv",
    "execve",
    "execvp",
    "execvpe",
    "fexecve",
    "__stack_chk_fail",
];

/// Functions that continue on another stack, and return when something switches back.
const SWITCHES: [&str; 4] = ["swapcontext", "setcontext", "jump_fcontext", "ontop_fcontext"];

/// The runtime's functions that a program calls around other switches of stacks.
const SAVES: &str = "pcce_fiber_save";
const RESTORES: &str = "pcce_fiber_restore";

/// The prefix of names of functions in assembly; their numbers follow.
const TRACED: &str = ".L__pcce_traced.";

/// The state between [`insert`] and [`finish`].
pub struct Before<'m> {
    /// The tables of the module.
    traced: tables::Traced,
    /// For each function, the calls of its nodes.
    calls: Vec<Vec<Option<usize>>>,
    /// For each function, whether it is left out.
    skipped: Vec<bool>,
    /// The bodies that record.
    pub bodies: SecondBodies<'m>,
    /// The first body of each function that is traced, and the one that records, which may be the same. Each recording
    /// body begins with an entry event, which calls by name from other recording bodies skip.
    traced_bodies: Vec<(Function<'m>, Function<'m>)>,
    /// The recording bodies of functions that calls through pointers may enter, and code that is not traced.
    entered: HashSet<Function<'m>>,
    /// The functions with two bodies.
    choosable: Vec<Choosable<'m>>,
    /// The recording bodies that other modules enter after the entry event, with the symbols of these places.
    entered_behind: Vec<(Function<'m>, String)>,
    /// The functions of other modules that this module enters after the entry event, by their declarations in
    /// it.
    others: HashMap<Function<'m>, Other>,
    assumed: Calls,
}

/// A function with two bodies, which can be chosen when the process starts.
struct Choosable<'m> {
    first: Function<'m>,
    second: Function<'m>,
    /// It can be left out, too.
    can_be_left_out: bool,
    /// Its names, one a line, and its source file, or an empty text.
    names: String,
    file: String,
}

/// The role of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// It is executed if the process will never record, or leaves the function out. It enters functions that have only
    /// one body as other code does.
    First,
    /// It is executed if the process may record the function.
    Second,
    /// It is executed in both cases.
    Only,
}

/// Adds the part of the code that leaves blocks and calls as they are.
pub fn insert<'m>(
    module: Module<'m>,
    program: &Program,
    (first_bodies, bodies): (&Code<'m>, SecondBodies<'m>),
    Gathered { functions, others }: Gathered<'m>,
    (mut names, (name, key), (verify, part)): (Strings, (&str, u64), (bool, Option<Part>)),
    (assumed, entered_behind): (Calls, Vec<(FunctionId, String)>),
) -> Before<'m> {
    let code = &bodies.code;
    for ((id, _), traced) in program.iter().zip(&functions) {
        if traced.skipped || bodies.has(id) {
            leave_out(module, first_bodies.function(id), traced.skipped);
        }
    }
    let choosable = choosable(program, (first_bodies, &bodies), &functions);
    let mut entered = entered_by_others(program, &bodies, &functions);
    entered.extend(entered_behind.iter().map(|(id, _)| *id));
    let entered_behind =
        entered_behind.into_iter().map(|(id, symbol)| (code.function(id).value, symbol)).collect();
    let entered = entered.into_iter().map(|id| code.function(id).value).collect();
    let recorded = program.iter().zip(&functions).filter(|(_, traced)| !traced.skipped);
    let traced_bodies =
        recorded.map(|((id, _), _)| (first_bodies.function(id).value, code.function(id).value));
    let traced_bodies = traced_bodies.collect();
    let mut files = Strings::default();
    let builder = module.builder();
    let mut rows = Vec::with_capacity(functions.len());
    let mut placements: Vec<Placement> = functions.iter().map(|traced| place(&traced.flow)).collect();
    mark_recursion(&mut placements, |function| {
        let callees = functions[function].nodes.iter().map(|node| match node.kind {
            Kind::Call(callee) | Kind::Leave(callee) => Some(Called::Function(callee)),
            Kind::Other(_) => Some(Called::Elsewhere),
            _ => None,
        });
        (&functions[function].flow, callees.collect())
    });
    for (((id, function), traced), placement) in program.iter().zip(&functions).zip(placements) {
        let value = code.function(id).value;
        if traced.skipped {
            let name = names.number(function.source_name.as_deref().unwrap_or(&function.name));
            rows.push(tables::Function {
                name,
                first: 0,
                nodes: Vec::new(),
                sets: vec![Vec::new()],
                checked: false,
            });
            continue;
        }
        for attribute in ["memory", "speculatable"] {
            value.remove_attribute(attribute);
            first_bodies.function(id).value.remove_attribute(attribute);
        }
        let blocks = value.blocks().len();
        let address = module.add_private_alias(&format!("{TRACED}{}", id.index()), value).address();
        let text = function.source_name.as_deref().unwrap_or(&function.name);
        let classes = tables::classes(&placement.sets, placement.next.len());
        // A part leaves out the bits of the others.
        let writes = placement
            .same
            .iter()
            .map(|&same| part.is_none_or(|part| part.writers(text, classes[same as usize]).has(part.number)));
        let writes = writes.collect();
        let inserter = Inserter {
            b: &builder,
            code,
            functions: &functions,
            traced,
            placement: &placement,
            writes,
            key,
            id,
        };
        inserter.run(address, verify);
        assert_eq!(
            blocks,
            value.blocks().len(),
            "{}: what contexts know of blocks by their numbers holds",
            function.name
        );
        let name = names.number(text);
        rows.push(row(traced, placement, name, &mut names, &mut files));
    }
    let traced = tables::Traced {
        name: name.to_owned(),
        key: if verify { key } else { tables::UNVERIFIED },
        files: files.list,
        names: names.list,
        functions: rows,
        part,
        others: others.len() as u32,
        ..tables::Traced::default()
    };
    let calls = functions.iter().map(|f| f.nodes.iter().map(|node| node.call).collect()).collect();
    let skipped = functions.iter().map(|function| function.skipped).collect();
    Before {
        traced,
        calls,
        skipped,
        bodies,
        traced_bodies,
        entered,
        choosable,
        entered_behind,
        others,
        assumed,
    }
}

/// Has the tracer informed by a body that is not recorded. `jumps`: also where jumps come to.
fn leave_out<'m>(module: Module<'m>, body: &FunctionCode<'m>, jumps: bool) {
    let builder = module.builder();
    // A landing pad that only passes the exception on runs nothing that is traced.
    let pads = body.comes_back.iter().filter(|block| block.is_landing_pad());
    let pads = pads.filter(|pad| pad.instructions().any(|i| i.as_call().is_some()) || !pad.resumes());
    for pad in pads {
        builder.call_in_front_of(pad.first_after_pads(), functions::CAUGHT, &[], false);
    }
    // Static programs have no other way to find out where jumps go.
    for call in body.returns_twice.iter().filter(|_| jumps) {
        returns_twice(&builder, body.value, *call, [module.null().into(), module.const_i32(0)]);
    }
    let mut number = None;
    let calls: Vec<_> = body.value.instructions().filter_map(Instruction::as_call).collect();
    for call in calls {
        inform_tracer(&builder, body.value, *call, &mut number, module.null(), 0);
    }
}

fn choosable<'m>(
    program: &Program,
    (first_bodies, bodies): (&Code<'m>, &SecondBodies<'m>),
    functions: &[Traced<'m>],
) -> Vec<Choosable<'m>> {
    // No code follows a tail call that must stay one.
    let nodes = functions.iter().flat_map(|traced| &traced.nodes);
    let left_to: HashSet<u32> = nodes
        .filter_map(|node| match node.kind {
            Kind::Leave(callee) => Some(callee),
            _ => None,
        })
        .collect();
    let two = program.iter().zip(functions).filter(|((id, _), traced)| !traced.skipped && bodies.has(*id));
    let choosable = two.map(|((id, function), _)| {
        let FunctionCode { value: first, returns_twice, .. } = first_bodies.function(id);
        let first = *first;
        Choosable {
            first,
            second: bodies.code.function(id).value,
            can_be_left_out: first.can_be_diverted()
                && !first.looks_at_caller()
                && !first.has_attribute("returns_twice")
                // Processes that do not record would pay for the tracer's knowledge of where jumps come to.
                && returns_twice.is_empty()
                && !left_to.contains(&(id.index() as u32)),
            names: names_of(&function.name).join("\n"),
            file: first.source_file().unwrap_or_default(),
        }
    });
    choosable.collect()
}

fn row(
    traced: &Traced<'_>,
    placement: Placement,
    name: u32,
    names: &mut Strings,
    files: &mut Strings,
) -> tables::Function {
    let mut locations = |kind: Kind, at: Instruction<'_>| -> Vec<Location> {
        if at.as_call().is_none() && kind != Kind::Block || kind == Kind::Landing {
            return Vec::new();
        }
        let locations = at.locations().into_iter().map(|l| Location {
            name: names.number(&l.name),
            file: files.number(&l.file),
            line: l.line,
            column: l.column,
        });
        locations.collect()
    };
    let nodes =
        traced.nodes.iter().zip(&placement.codes).zip(&placement.next).map(|((node, code), &next)| {
            tables::Node {
                kind: node.kind,
                code: code.value,
                bits: code.bits,
                next,
                unwinds_to: node.unwinds_to,
                site: None,
                locations: locations(node.kind, node.at),
                lines: Vec::new(),
            }
        });
    let mut nodes: Vec<tables::Node> = nodes.collect();
    for (row, node) in nodes.iter_mut().zip(&traced.nodes) {
        row.lines = node.lines.iter().map(|(l, copy)| (files.number(&l.file), l.line, *copy)).collect();
    }
    tables::Function { name, first: placement.first, nodes, sets: placement.sets, checked: traced.leaves }
}

struct Inserter<'a, 'm> {
    b: &'a Builder<'m>,
    code: &'a Code<'m>,
    functions: &'a [Traced<'m>],
    traced: &'a Traced<'m>,
    placement: &'a Placement,
    /// For each node, whether the program writes its bits.
    writes: Vec<bool>,
    key: u64,
    id: FunctionId,
}

impl<'m> Inserter<'_, 'm> {
    /// `address` is the address of the function itself, whatever its name is bound to.
    fn run(&self, address: Address<'m>, verify: bool) {
        let module = self.b.module;
        let mut stack = None;
        for (i, node) in (0u32..).zip(&self.traced.nodes) {
            let same = self.placement.same[i as usize];
            if node.kind == Kind::Landing {
                let arguments = [address.into(), module.const_i32(i)];
                self.b.call_in_front_of(node.at, functions::LANDED, &arguments, false);
                continue;
            }
            let event = verify.then(|| trace::event(self.key, self.id.index() as u32, same));
            let code = self.placement.codes[i as usize];
            // The bits that tell of the events are written or left out; the events are counted.
            let code = if self.writes[i as usize] { code } else { Bits::default() };
            self.append(node.at, code, event, i);
            let Some(call) = node.at.as_call() else { continue };
            let behind = |at| self.append(at, Bits { value: 0, bits: 1 }, None, i | tables::BEHIND);
            match node.kind {
                Kind::Open(_) => places::behind(call).into_iter().for_each(behind),
                Kind::Call(callee) if self.functions[callee as usize].leaves => {
                    places::behind(call).into_iter().for_each(behind);
                }
                Kind::ReturnsTwice(_) => {
                    let function = self.code.function(self.id).value;
                    returns_twice(self.b, function, call, [address.into(), module.const_i32(i)]);
                }
                _ => {}
            }
            // After the call, this code comes before the code of the bit.
            if matches!(node.kind, Kind::Open(_) | Kind::Closed(_)) {
                let function = self.code.function(self.id).value;
                inform_tracer(self.b, function, node.at, &mut stack, address, i);
            }
        }
    }

    /// Appends bits before an instruction, and counts an event. The count at a full word covers the events
    /// that its bits identify, or begin to identify: emitted code writes a word after a single bit, and
    /// before several bits. `node` is the owner of the bits, as in [`tables::PLACES`].
    fn append(&self, at: Instruction<'m>, code: Bits, event: Option<u64>, node: u32) {
        let module = self.b.module;
        let mut event = event.map(|event| module.const_i64(event).into());
        let mut count = || {
            let event: Option<Constant<'m>> = event.take();
            event.into_iter().for_each(|event| self.b.call_in_front_of(at, functions::EVENT, &[event], true));
        };
        if code.bits < 2 {
            count();
        }
        let mut left = u32::from(code.bits);
        while left > 0 {
            let bits = left.min(trace::MOST_BITS);
            left -= bits;
            let value = code.value >> left & ((1 << bits) - 1);
            // The word is written before several bits, and after a single bit.
            let to_come = if bits == 1 { left } else { left + bits };
            let arguments = [value, bits, self.id.index() as u32, node, to_come];
            self.b.call_in_front_of(at, APPEND, &arguments.map(|value| module.const_i32(value)), false);
            count();
        }
    }
}

/// Informs the tracer of each return of a call that may return several times. `place`: its function and its node.
fn returns_twice<'m>(
    builder: &Builder<'m>,
    function: Function<'m>,
    call: Call<'m>,
    place: [Constant<'m>; 2],
) {
    // Each call has a variable of its own, since a jump to one call may come while another one is active.
    let number = builder.prologue(function.entry().first_after_pads()).alloca(8, "pcce.number");
    builder.before(*call, *call).store(builder.module.const_i64(0), number);
    if let Some(at) = places::behind(call) {
        let [function, node] = place;
        builder.call_in_front_of(at, functions::RETURNED, &[number.into(), function, node], false);
    }
}

/// Informs the tracer of the effects of a call. `number` is the activation's variable for numbers of stacks,
/// if there is one yet. `address` and `node` are the function's address and the call's node, or null and 0.
fn inform_tracer<'m>(
    builder: &Builder<'m>,
    function: Function<'m>,
    at: Instruction<'m>,
    number: &mut Option<Address<'m>>,
    address: Address<'m>,
    node: u32,
) {
    let Some(call) = at.as_call().filter(|call| call.tail_call() != TailCall::Must) else { return };
    let Some(name) = call.called().as_function().map(Function::name) else { return };
    if ENDS.contains(&&*name) {
        builder.call_in_front_of(at, functions::SYNC, &[], false);
        // If `exec` fails, the process goes on, and nothing else may call the tracer for a while.
        let may_fail = name.starts_with("exec") || name == "fexecve";
        let behind = places::behind(call).into_iter().filter(|_| may_fail);
        return behind.for_each(|at| builder.call_in_front_of(at, functions::GOES_ON, &[], false));
    }
    if name == "pthread_setcanceltype" {
        let behind = places::behind(call).into_iter();
        return behind.for_each(|at| builder.call_in_front_of(at, functions::CANCEL_TYPE, &[], false));
    }
    let leaves = match &*name {
        name if SWITCHES.contains(&name) => Some(functions::SWITCH),
        SAVES => Some(functions::SAVE),
        _ => None,
    };
    let comes_back = name == RESTORES || leaves == Some(functions::SWITCH);
    if leaves.is_none() && !comes_back {
        return;
    }
    let number = *number.get_or_insert_with(|| {
        let start = builder.prologue(function.entry().first_after_pads());
        let number = start.alloca(8, "pcce.stack");
        start.store(builder.module.const_i64(0), number);
        number
    });
    let arguments = [number.into(), address.into(), builder.module.const_i32(node)];
    if let Some(leaves) = leaves {
        builder.call_in_front_of(at, leaves, &arguments, false);
    }
    if let Some(behind) = places::behind(call).filter(|_| comes_back) {
        builder.call_in_front_of(behind, functions::BACK, &arguments, false);
    }
}

/// The functions that may be entered without an event of the caller: from other modules, through pointers,
/// and from functions that are left out.
fn entered_by_others(
    program: &Program,
    bodies: &SecondBodies<'_>,
    functions: &[Traced<'_>],
) -> HashSet<FunctionId> {
    let mut entered: HashSet<FunctionId> = HashSet::new();
    for ((id, function), traced) in program.iter().zip(functions) {
        if !traced.skipped && (function.external || function.otherwise_used || function.address_taken) {
            entered.insert(id);
        }
        // The callees of calls, and of tail calls, by which functions leave their activations.
        let callees = function.calls.iter().filter_map(|call| call.kind.callee());
        let tails = function.tail_callees.iter().filter_map(|tail| match tail {
            TailCallee::Known(callee) => Some(*callee),
            _ => None,
        });
        let chooses = |callee: FunctionId| !bodies.has(id) && bodies.has(callee);
        let callees = callees.chain(tails).filter(|callee| !functions[callee.index()].skipped);
        entered.extend(callees.filter(|&callee| traced.skipped || chooses(callee)));
    }
    entered
}

/// Adds the part of the code that splits blocks, or changes callees.
pub fn finish<'m>(module: Module<'m>, mut before: Before<'m>, plan: &[PlannedFunction], sites: &str) {
    let block = module.external_thread_local(trace::TLS_SYMBOL, trace::SIZE, trace::ALIGN);
    let pending = module.const_offset(block, trace::PENDING);
    module.append_bits(APPEND, pending, functions::FLUSH, tables::PLACES, TRACED);
    let shared = before.assumed.shared;
    let entry_len = module.machine().shared().entry_len;
    let outside: Vec<Option<Call<'m>>> = before.choosable.iter().map(Choosable::outside).collect();
    for (_, recording) in &before.traced_bodies {
        recording.begin_with_call(functions::ENTER);
    }
    let off = if shared { trace::OFF_AT } else { trace::OFF };
    // How many bytes of each first body are skipped by calls by name.
    let choices: HashMap<Function<'m>, u64> = (before.choosable.iter())
        .map(|&Choosable { first, second, .. }| match before.entered.contains(&second) {
            true => (first, first.choose(second, off, shared)),
            false => (first, first.make_room()),
        })
        .collect();
    let mut places: HashMap<Function<'m>, Alias<'m>> = HashMap::new();
    let mut enter = |call: Call<'m>, body: Function<'m>, behind: u64| {
        let name = format!(".L__pcce_behind.{}", places.len());
        call.enter_at(*places.entry(body).or_insert_with(|| body.place_behind(&name, behind)));
    };
    for (function, call) in before.choosable.iter().zip(outside) {
        let behind = choices[&function.first];
        if let Some(call) = call {
            enter(call, function.first, behind);
        }
        let outside = call.map(|call| call.function());
        let texts = (&*function.names, &*function.file);
        function.first.add_row(behind, (function.second, outside), texts, trace::ROWS);
    }
    let recording: HashMap<Function<'m>, Function<'m>> = before
        .traced_bodies
        .iter()
        .flat_map(|&(first, second)| [(first, second), (second, second)])
        .collect();
    let role = |&(first, second): &(Function<'m>, Function<'m>)| match first == second {
        true => vec![(first.name(), Body::Only)],
        false => vec![(first.name(), Body::First), (second.name(), Body::Second)],
    };
    let roles: HashMap<String, Body> = before.traced_bodies.iter().flat_map(role).collect();
    for function in module.functions().into_iter().filter(|function| function.has_body()) {
        // The calls that a function's thunk makes are calls of the function.
        let name = function.name();
        let of = name.rsplit_once(PUSH_THUNK).map(|(caller, _)| caller);
        let of = of.or_else(|| name.strip_suffix(OPEN_THUNK)).unwrap_or(&name);
        let Some(&role) = roles.get(of) else { continue };
        let calls: Vec<_> = function.instructions().filter_map(Instruction::as_call).collect();
        for call in calls {
            let other = call.called().as_function().and_then(|callee| before.others.get(&callee));
            if let Some(other) = other.filter(|_| role == Body::Second && call.tail_call() != TailCall::Must)
            {
                module.enter_elsewhere(call, &other.symbol);
                continue;
            }
            if let Target::Function { value, exact: true } = resolve(call.called(), before.assumed.binding)
                && let Some(&body) = recording.get(&value)
            {
                match role {
                    Body::Only if value != body => {}
                    Body::First if value == body => {}
                    Body::First => enter(call, value, choices[&value]),
                    _ => enter(call, body, entry_len),
                }
            }
        }
    }
    for (body, symbol) in &before.entered_behind {
        body.place_behind(symbol, entry_len).make_hidden();
    }
    for (i, (function, calls)) in before.traced.functions.iter_mut().zip(&before.calls).enumerate() {
        let sites: HashMap<usize, u32> = plan[i].calls.iter().map(|call| (call.call, call.site)).collect();
        for (node, call) in function.nodes.iter_mut().zip(calls) {
            node.site = call.and_then(|call| sites.get(&call).copied());
        }
    }
    emit(module, &before, sites);
}

impl<'m> Choosable<'m> {
    /// Makes the function's way out of the trace, if it can be left out. Returns its call of the function.
    fn outside(&self) -> Option<Call<'m>> {
        let name = || format!("{}{}", self.first.name(), trace::OUTSIDE);
        self.can_be_left_out.then(|| self.first.outside(&name(), functions::CAME_BACK))
    }
}

/// Appends the tables to the module as assembly, in a section that is not loaded.
fn emit(module: Module<'_>, before: &Before<'_>, sites: &str) {
    let traced = &before.traced;
    let record = tables::to_bytes(traced);
    let payload = tables::HEADER_LEN + tables::addresses_len(traced.functions.len() + traced.others as usize);
    let mut asm = String::with_capacity(record.len() * 3);
    let _ = writeln!(asm, ".pushsection {},\"\",@progbits", tables::SECTION);
    bytes(&mut asm, &record[..tables::HEADER_LEN]);
    let mut aliases = Vec::new();
    for (i, skipped) in before.skipped.iter().enumerate() {
        let _ = if *skipped { writeln!(asm, ".quad 0") } else { writeln!(asm, ".quad \"{TRACED}{i}\"") };
    }
    let mut others: Vec<&Other> = before.others.values().collect();
    others.sort_by_key(|other| other.number);
    let behind = module.machine().shared().entry_len;
    others.iter().for_each(|other| _ = writeln!(asm, ".quad \"{}\" - {behind}", other.symbol));
    let _ = writeln!(asm, ".quad \"{sites}\"");
    bytes(&mut asm, &record[payload..]);
    asm.push_str(".popsection\n");
    module.append_asm(&asm);
    let own = |name: &str| name.trim_start_matches('\u{1}').starts_with(TRACED);
    aliases.extend(module.aliases().into_iter().filter(|alias| own(&alias.name())));
    module.keep_aliases(&aliases);
}
