//! The plan: the action at each call, and the dictionary that describes it.
//!
//! Both are made from the same values in one place, so that the program and its dictionary agree.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};

use pcce_abi::SiteByte;
use pcce_dictionary as dictionary;
use pcce_encoding::{EdgeCode, Encoding, FlowBlock, FramePlace, FunctionId, PushReason, frame_places};
use pcce_options::PassOptions;
use serde::{Deserialize, Serialize};

use crate::hybrid::{self, Used};
use crate::numbers::{self, Numbers};
use crate::replaceable;
use crate::states::{self, State, Update};
use crate::{Call, CallKind, Function, Jumps, Program, Reach, RuntimeCall, STD_THREAD, Source, Unannounced};

/// The action at a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Nothing: the addition value is 0, or the callee cannot call back.
    None,
    /// `id += constant` before, `id -= constant` after.
    Add(u64),
    /// A frame is pushed before and popped after.
    Push(Push),
    /// The call is replaced by one of the runtime, which gets the site.
    Replace(RuntimeCall),
    /// The call is published: the runtime learns the site before the call, and learns after it that the call
    /// is over.
    Publish,
}

impl Action {
    /// Returns whether a frame is on the chain during the call.
    pub fn pushes(self) -> bool {
        match self {
            Self::Push(_) => true,
            Self::None | Self::Add(_) | Self::Replace(_) | Self::Publish => false,
        }
    }

    /// Returns whether the callee may read memory of this activation: a frame on the chain, or the published site.
    pub fn shows_memory(self) -> bool {
        match self {
            Self::Push(_) | Self::Publish => true,
            Self::None | Self::Add(_) | Self::Replace(_) => false,
        }
    }

    /// Returns whether code before and after the call changes what the thread's block says.
    pub fn changes_block(self) -> bool {
        match self {
            Self::Add(_) | Self::Push(_) | Self::Publish => true,
            Self::None | Self::Replace(_) => false,
        }
    }

    /// The value that is added to the id for the call.
    pub fn added(self) -> u64 {
        match self {
            Self::Add(value) => value,
            Self::None | Self::Push(_) | Self::Replace(_) | Self::Publish => 0,
        }
    }
}

/// The start of ids in the sub-path that a push begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Push {
    /// The sub-path counts from 0: the id is saved, and restored after the call.
    Zero,
    /// The sub-path counts from the id at the push, which stays in place.
    Relative,
}

/// A call with its action and its site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedCall {
    /// Its place in the function's calls.
    pub call: usize,
    /// The action.
    pub action: Action,
    /// The state before the call.
    pub before: State,
    /// The state after the call.
    pub behind: State,
    /// The number of its site.
    pub site: u32,
    /// The call runs a task, whose address is stored after the pushed frame.
    pub runs_task: bool,
    /// For a call that creates a thread without a runtime call: the site at which the context is taken before
    /// it.
    pub creation_site: Option<u32>,
    /// The encoding relies on the call not becoming a jump.
    pub keeps_frame: bool,
    /// Another image may replace the callee ([`CallKind::Replaceable`]).
    pub replaceable: bool,
    /// For a call of `pcce_context()`: how its number is made.
    pub number: Option<NumberAt>,
}

/// How a context number is made at a capture ([`crate::numbers`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NumberAt {
    /// The site that represents the place.
    pub site: u32,
    /// The number that is added to the id; [`pcce_abi::NO_RANGE`] where the process gives the numbers.
    pub base: u64,
}

impl PlannedCall {
    /// A call with an action and a site, of which nothing else is known.
    pub fn new(call: usize, action: Action, site: u32) -> Self {
        Self {
            call,
            action,
            before: State::Found,
            behind: State::Found,
            site,
            runs_task: false,
            creation_site: None,
            keeps_frame: false,
            replaceable: false,
            number: None,
        }
    }

    /// The state that the action needs.
    pub fn needs(&self) -> State {
        match self.action {
            Action::Add(value) => State::Added(value),
            Action::Push(push) => State::Pushed(push, self.site),
            Action::None | Action::Replace(_) | Action::Publish => State::Found,
        }
    }
}

/// The places where the frame for a function's pushes is begun: once before all pushes of an activation if
/// possible.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrameBegins {
    /// At these calls, by place in the function's calls: as part of their pushes.
    pub at_pushes: BTreeSet<usize>,
    /// Before the last instruction of these blocks.
    pub at_ends: BTreeSet<u32>,
    /// On edges from one block to another, as ⟨block, successor⟩, in the order in which blocks are made for
    /// them.
    pub on_ways: Vec<(u32, u32)>,
}

impl FrameBegins {
    /// Returns whether the frame is begun before the call, at the end of its block.
    pub fn is_before(&self, call: &Call) -> bool {
        call.ends_block && self.at_ends.contains(&call.block)
    }
}

/// The action of a function before it leaves its activation to another function by a tail call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaves {
    /// Nothing: the function is silent, or is reached only by open calls and by pushes that leave the id
    /// alone. The dictionary says which functions may be left to.
    Silently,
    /// It marks the frame that began its sub-path, or the thread: every caller has pushed, or it is the
    /// outermost function.
    Marking,
    /// It marks if the id says that the sub-path begins here.
    MarkingAtZero,
}

/// The plan for a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedFunction {
    pub calls: Vec<PlannedCall>,
    /// The places where the frame for its pushes is begun, if it pushes.
    pub frame: Option<FrameBegins>,
    /// Updates of the state between its blocks.
    pub updates: Vec<Update>,
    /// The site of its own entry, if it always pushes there.
    pub entry_site: Option<u32>,
    /// The site of its stub, if calls of it are replaceable ([`CallKind::Replaceable`]). Such calls reach the
    /// stub with the id that they bring to this function. The stub pushes, and calls the function that has the
    /// name in this process.
    pub stub: Option<u32>,
    /// The symbol of the place behind the check for open calls of other images, if calls enter the function there.
    pub behind_check: Option<String>,
    /// The action before its tail calls.
    pub leaves: Leaves,
    /// Hybrid encoding: captures need the stack offset.
    pub needs_offset: bool,
    /// Hybrid encoding: it is `main`, which tells the runtime where its activation begins.
    pub begins_stack: bool,
}

/// The plan for a module.
pub struct Plan {
    /// In the order of [`Program::functions`].
    pub functions: Vec<PlannedFunction>,
    /// The symbols of the module, with its sites: site `i` is byte `i` of the site array.
    pub symbols: dictionary::Module,
    /// The encoding of the functions.
    pub encoding: dictionary::Encoding,
    /// The bytes of the site array ([`pcce_abi::SiteByte`]); none if all are 0.
    pub site_bytes: Option<Vec<u8>>,
}

/// Numbers strings: equal strings have equal numbers.
#[derive(Default)]
pub struct Strings {
    /// The strings, by their numbers.
    pub list: Vec<String>,
    index: HashMap<String, u32>,
}

impl Strings {
    /// The number of a string.
    pub fn number(&mut self, s: &str) -> u32 {
        if let Some(&i) = self.index.get(s) {
            return i;
        }
        let i = u32::try_from(self.list.len()).expect("fewer strings than 2^32");
        self.list.push(s.to_owned());
        self.index.insert(s.to_owned(), i);
        i
    }
}

/// The inputs of a plan.
pub struct Basis<'a> {
    pub program: &'a Program,
    pub encoding: &'a Encoding,
    /// The hybrid encoding, if there is one.
    pub used: Option<&'a Used>,
    /// Answers questions about the code.
    pub source: &'a dyn Source,
    /// The user's options.
    pub options: &'a PassOptions,
}

/// Makes the plan of a module. `producer` names the maker of the dictionary.
pub fn plan(basis: &Basis<'_>, identifier: String, producer: String) -> Plan {
    let &Basis { program, encoding, used, options, .. } = basis;
    let mut maker = Maker::new(basis);
    let with_stubs = replaceable::called(&program.functions);
    let mut functions = Vec::with_capacity(program.functions.len());
    let mut rows = Vec::with_capacity(program.functions.len());
    let mut encoded = Vec::with_capacity(program.functions.len());
    for (id, function) in program.iter() {
        let calls = maker.calls(id, function);
        let entry_site = (function.unannounced == Unannounced::AnyId)
            .then(|| maker.new_site(id, dictionary::SiteKind::Entry, Vec::new(), None));
        rows.push(maker.row(function));
        encoded.push(dictionary::EncodedFunction {
            num_cc: encoding.num_cc(id),
            id_offset: encoding.offset(id) as i64,
            entry: encoding.is_entry(id),
            open: program.graph.is_open(id),
            range: None,
        });
        let stub = with_stubs.contains(&id).then(|| {
            let name = maker.names.number(&function.name);
            maker.new_site(id, dictionary::SiteKind::Replaced(name), Vec::new(), None)
        });
        functions.push(PlannedFunction { stub, ..maker.function(id, calls, entry_site) });
    }
    let places = maker.numbers(&mut functions);
    for (i, (row, function)) in rows.iter_mut().zip(&program.functions).enumerate() {
        row.jumped_to = maker.jumps.may_lead_to(i, function);
    }
    let Maker { names, files, sites, edges, stack_offsets, open_node, .. } = maker;
    let site_bytes = site_bytes(used, &functions, &sites, &edges, &stack_offsets);
    Plan {
        functions,
        symbols: dictionary::Module {
            name: identifier,
            producer,
            options: options.describe(),
            sites_address: 0,
            targeted: open_node.is_some() && !options.common.targets.is_empty(),
            files: files.list,
            names: names.list,
            functions: rows,
            sites,
            leaving_groups: program.leaving_groups.clone(),
            skipped: Vec::new(),
        },
        encoding: dictionary::Encoding {
            epoch: dictionary::Epoch,
            first_module: 0,
            module_count: 1,
            open_num_cc: open_node.map(|node| encoding.num_cc(node)),
            functions: encoded,
            edges,
            places,
            hybrid: used.map(|used| hybrid_rows(used, stack_offsets)),
        },
        site_bytes,
    }
}

/// The dictionary's description of an edge. `open`: it leads to the open node.
pub fn described(code: EdgeCode, open: bool) -> dictionary::EdgeCode {
    match code {
        EdgeCode::Add(value) if open => dictionary::EdgeCode::Open(value),
        EdgeCode::Add(value) => dictionary::EdgeCode::Add(value),
        EdgeCode::Push(PushReason::Back) => dictionary::EdgeCode::Back,
        EdgeCode::Push(PushReason::Cut) => dictionary::EdgeCode::Cut,
        EdgeCode::Push(PushReason::Required) => dictionary::EdgeCode::Required,
    }
}

/// The dictionary's description of a hybrid encoding.
fn hybrid_rows(used: &Used, stack_offsets: Vec<(u32, u32)>) -> dictionary::Hybrid {
    let functions = 0..used.frames.len() as u32;
    let sizes = functions.clone().zip(&used.frames);
    dictionary::Hybrid {
        rounds: used.rounds,
        stack_sizes: sizes.filter_map(|(function, bytes)| Some((function, (*bytes)?))).collect(),
        unknown_bases: functions.filter(|&i| used.hybrid.has_unknown_base(FunctionId::new(i))).collect(),
        stack_offsets,
    }
}

/// The action at a call of `function`.
pub(crate) fn action(program: &Program, encoding: &Encoding, function: &Function, call: &Call) -> Action {
    match call.kind {
        CallKind::Runtime(runtime) => Action::Replace(runtime),
        CallKind::Published(_) => Action::Publish,
        CallKind::Silent(_) => Action::None,
        CallKind::Direct(_)
        | CallKind::Replaceable(_)
        | CallKind::External(_)
        | CallKind::Indirect
        | CallKind::Asm => match is_quiet(program, function, call) {
            true => Action::None,
            false => by_edge(call, encoding, program.graph.open_node().is_some()),
        },
    }
}

/// Returns whether a call is in a silent function, or calls one.
fn is_quiet(program: &Program, function: &Function, call: &Call) -> bool {
    function.silent || call.kind.callee().is_some_and(|callee| program[callee].silent)
}

/// The action that the encoding demands for a call. `open`: the graph has an open node.
fn by_edge(call: &Call, encoding: &Encoding, open: bool) -> Action {
    // Ids of open calls are not negative. Ids of modules without an open node are not positive, so that a
    // function of such a module can tell its callers apart.
    let sign = |id: u64| if open { id } else { id.wrapping_neg() };
    match call.edge.map(|edge| encoding.constant(edge)) {
        Some(Some(0)) => Action::None,
        Some(Some(constant)) => Action::Add(sign(constant)),
        Some(None) | None => Action::Push(push(call, open)),
    }
}

/// The push at a call. Functions of other modules find out how they were entered by the id or, after a
/// relative push, by the lowest bit of the link.
fn push(call: &Call, open: bool) -> Push {
    match call.kind.reach() {
        Reach::Function(_) | Reach::Pointer if open => Push::Relative,
        Reach::Function(_)
        | Reach::Replaceable(_)
        | Reach::Pointer
        | Reach::Outside
        | Reach::Runtime
        | Reach::Nothing => Push::Zero,
    }
}

/// The action of a function before it leaves its activation to another one.
pub(crate) fn leaves(silent: bool, open: bool, entry: bool) -> Leaves {
    match () {
        () if silent => Leaves::Silently,
        () if !open => Leaves::Marking,
        () if entry => Leaves::MarkingAtZero,
        () => Leaves::Silently,
    }
}

/// Collects the parts of the dictionary while it plans the code.
struct Maker<'a> {
    basis: &'a Basis<'a>,
    open_node: Option<FunctionId>,
    names: Strings,
    files: Strings,
    sites: Vec<dictionary::Site>,
    edges: Vec<dictionary::Edge>,
    /// Stack offsets of edges, in a hybrid encoding.
    stack_offsets: Vec<(u32, u32)>,
    jumps: Jumps,
}

impl<'a> Maker<'a> {
    fn new(basis: &'a Basis<'a>) -> Self {
        Self {
            basis,
            open_node: basis.program.graph.open_node(),
            names: Strings::default(),
            files: Strings::default(),
            sites: Vec::new(),
            edges: Vec::new(),
            stack_offsets: Vec::new(),
            jumps: Jumps::default(),
        }
    }

    fn new_site(
        &mut self,
        function: FunctionId,
        kind: dictionary::SiteKind,
        locations: Vec<dictionary::Location>,
        tail_group: Option<u32>,
    ) -> u32 {
        let function = function.index() as u32;
        self.sites.push(dictionary::Site { function, kind, tail_group, locations });
        u32::try_from(self.sites.len() - 1).expect("fewer sites than 2^32")
    }

    /// Plans the function's calls, with their sites and edges.
    fn calls(&mut self, id: FunctionId, function: &Function) -> Vec<PlannedCall> {
        let Basis { program, options, .. } = *self.basis;
        let mut calls: Vec<PlannedCall> = Vec::with_capacity(function.calls.len());
        for (c, call) in function.calls.iter().enumerate() {
            let action = action(program, self.basis.encoding, function, call);
            if action == Action::None {
                self.jumps.add(call);
            }
            let needs_nothing = is_quiet(program, function, call) || matches!(call.kind, CallKind::Silent(_));
            if needs_nothing && !options.common.verify {
                continue;
            }
            let first = function.first_copy(c);
            let (site, creation_site) = match calls.binary_search_by_key(&first, |call| call.call) {
                Ok(first) => (calls[first].site, calls[first].creation_site),
                Err(_) => self.sites(id, c, call),
            };
            let frame = self.basis.used.and_then(|used| used.hybrid.frame_offset(call.edge?));
            let keeps_frame = frame.is_some_and(|frame| frame != hybrid::JUMP);
            let runs_task = call.kind.runs_task() && action.pushes();
            calls.push(PlannedCall {
                runs_task,
                creation_site,
                keeps_frame,
                replaceable: matches!(call.kind, CallKind::Replaceable(_)),
                ..PlannedCall::new(c, action, site)
            });
        }
        calls
    }

    /// Makes the sites of a call, and its edge. Returns the site of the call itself, and the one at which a context is
    /// taken before it.
    fn sites(&mut self, id: FunctionId, c: usize, call: &Call) -> (u32, Option<u32>) {
        let kind = self.site_kind(&call.kind);
        let locations = self.locations(id, c);
        let creates = matches!(&call.kind, CallKind::External(name) if name == STD_THREAD);
        let creation_site =
            creates.then(|| self.new_site(id, dictionary::SiteKind::Capture, locations.clone(), None));
        let site = self.new_site(id, kind, locations, call.tail_group);
        self.add_edge(call, site);
        (site, creation_site)
    }

    /// The kind of a call's site in the dictionary.
    fn site_kind(&mut self, kind: &CallKind) -> dictionary::SiteKind {
        match kind {
            CallKind::Silent(name) | CallKind::Published(name) | CallKind::External(name) => {
                dictionary::SiteKind::External(self.names.number(name))
            }
            CallKind::Indirect => dictionary::SiteKind::Indirect,
            CallKind::Asm => dictionary::SiteKind::Asm,
            CallKind::Direct(callee) | CallKind::Replaceable(callee) => {
                dictionary::SiteKind::Direct(Some(callee.index() as u32))
            }
            CallKind::Runtime(_) => dictionary::SiteKind::Capture,
        }
    }

    fn locations(&mut self, function: FunctionId, call: usize) -> Vec<dictionary::Location> {
        let locations = self.basis.source.locations(function, call);
        locations
            .iter()
            .map(|l| dictionary::Location {
                name: self.names.number(&l.name),
                file: self.files.number(&l.file),
                line: l.line,
                column: l.column,
            })
            .collect()
    }

    fn add_edge(&mut self, call: &Call, site: u32) {
        let Basis { program, encoding, used, .. } = *self.basis;
        let Some(edge) = call.edge else { return };
        let open_call = Some(program.graph.callee(edge)) == self.open_node;
        let bytes = used.and_then(|used| used.hybrid.frame_offset(edge));
        self.stack_offsets.extend(bytes.map(|bytes| (self.edges.len() as u32, bytes)));
        self.edges.push(dictionary::Edge {
            site,
            callee: None,
            code: described(encoding.edge(edge), open_call),
        });
    }

    /// Stores in the captures how their numbers are made. Returns their places.
    fn numbers(&self, functions: &mut [PlannedFunction]) -> Vec<dictionary::NumberPlace> {
        let Basis { program, encoding, used, options, .. } = *self.basis;
        let mut sites: HashMap<(FunctionId, usize), u32> = HashMap::new();
        for (id, function) in (0..).map(FunctionId::new).zip(&*functions) {
            let taking = |call: &&PlannedCall| call.action == Action::Replace(RuntimeCall::Context);
            sites.extend(function.calls.iter().filter(taking).map(|call| ((id, call.call), call.site)));
        }
        if sites.is_empty() {
            return Vec::new();
        }
        let locations = |id, call| {
            sites.get(&(id, call)).map_or(&[][..], |&site| &self.sites[site as usize].locations[..])
        };
        let numbers = Numbers::new(program, encoding, used, options.common.number_lines, locations);
        for (id, function) in (0..).map(FunctionId::new).zip(functions) {
            for call in &mut function.calls {
                let capture = numbers.of(encoding, id, call.call);
                call.number = capture.map(|of| NumberAt { site: sites[&(id, of.call)], base: of.base });
            }
        }
        let row = |place: &numbers::Place| dictionary::NumberPlace {
            site: sites[&(place.function, place.call)],
            base: place.range,
            line: place.line,
        };
        numbers.places().iter().map(row).collect()
    }

    fn row(&mut self, function: &Function) -> dictionary::Function {
        // Other modules know an external function by its linkage name. A local function has no name
        // elsewhere.
        let source_name = if function.external { None } else { function.source_name.as_ref() };
        dictionary::Function {
            name: self.names.number(source_name.unwrap_or(&function.name)),
            aliases: function.aliases.iter().map(|alias| self.names.number(alias)).collect(),
            external: function.external,
            silent: function.silent,
            push_thunk: function.push_thunk,
            jumped_to: false,
            tail_groups: function.tail_groups.clone(),
        }
    }

    fn function(
        &self,
        id: FunctionId,
        mut calls: Vec<PlannedCall>,
        entry_site: Option<u32>,
    ) -> PlannedFunction {
        let Basis { program, encoding, used, source, .. } = *self.basis;
        let flow = LazyCell::new(|| source.flow(id));
        let frame = place_frame(&program[id], &calls, || &flow);
        let updates = states::keep(&program[id], &mut calls, frame.as_ref(), || &flow);
        PlannedFunction {
            calls,
            frame,
            updates,
            entry_site,
            stub: None,
            behind_check: None,
            leaves: leaves(program[id].silent, self.open_node.is_some(), encoding.is_entry(id)),
            needs_offset: used.is_some_and(|used| used.hybrid.needs_stack_offset(id)),
            begins_stack: used.is_some() && hybrid::is_main(program, id),
        }
    }
}

/// Sets the executions of the blocks with these calls to those of the calls. The ways to such a block are taken no more
/// often than it.
pub(crate) fn set_counted<'f>(flow: &mut [FlowBlock], calls: impl Iterator<Item = &'f Call>) {
    let mut known: HashMap<u32, f64> = HashMap::new();
    for call in calls {
        let executions = known.entry(call.block).or_default();
        *executions = executions.max(call.frequency);
    }
    for (&block, &executions) in &known {
        flow[block as usize].frequency = executions;
    }
    for block in flow {
        let executions = block.frequency;
        for way in &mut block.ways {
            if let Some(&most) = known.get(&way.to) {
                way.probability = way.probability.min(most / executions.max(f64::MIN_POSITIVE));
            }
        }
    }
}

/// Decides where the frame is begun; none if no call pushes.
pub(crate) fn place_frame<'f>(
    function: &Function,
    calls: &[PlannedCall],
    flow: impl FnOnce() -> &'f [FlowBlock],
) -> Option<FrameBegins> {
    let mut pushing = calls.iter().filter(|call| call.action.pushes()).map(|call| call.call).peekable();
    pushing.peek()?;
    if function.reads_state {
        // The function may switch to another state.
        return Some(FrameBegins { at_pushes: pushing.collect(), ..FrameBegins::default() });
    }
    let flow = flow();
    let mut first_push = vec![None; flow.len()];
    for call in pushing {
        first_push[function.calls[call].block as usize].get_or_insert(call);
    }
    let mut begins = FrameBegins::default();
    let pushes: Vec<bool> = first_push.iter().map(Option::is_some).collect();
    for place in frame_places(flow, &pushes) {
        match place {
            FramePlace::FirstPush(block) => begins.at_pushes.extend(first_push[block as usize]),
            FramePlace::End(block) => _ = begins.at_ends.insert(block),
            FramePlace::On(from, way) => begins.on_ways.push((from, way)),
        }
    }
    Some(begins)
}

/// The bytes of a module's site array, by the numbers of the sites: facts about sites that the runtime needs.
/// None if all are 0 and the encoding is not hybrid. `stack_offsets` are those of the edges of a hybrid
/// encoding.
fn site_bytes(
    used: Option<&Used>,
    functions: &[PlannedFunction],
    sites: &[dictionary::Site],
    edges: &[dictionary::Edge],
    stack_offsets: &[(u32, u32)],
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; sites.len()];
    for call in functions.iter().flat_map(|function| &function.calls).filter(|call| call.runs_task) {
        bytes[call.site as usize] |= SiteByte::RUNS_TASK;
    }
    let Some(used) = used else { return bytes.iter().any(|&byte| byte != 0).then_some(bytes) };
    for (byte, site) in bytes.iter_mut().zip(sites) {
        if used.hybrid.needs_stack_offset(FunctionId::new(site.function)) {
            *byte |= SiteByte::NEEDS_OFFSET;
        }
    }
    for (edge, _) in stack_offsets {
        let edge = &edges[*edge as usize];
        let pushes = !matches!(edge.code, dictionary::EdgeCode::Add(_) | dictionary::EdgeCode::Open(_));
        if pushes && matches!(sites[edge.site as usize].kind, dictionary::SiteKind::Direct(_)) {
            bytes[edge.site as usize] |= SiteByte::KNOWN_BASE;
        }
    }
    Some(bytes)
}
