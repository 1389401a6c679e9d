//! From the plan to the code.
//!
//! The emitted sequences, in C (`tls` is the thread's block, `frame` a local of the function):
//!
//! ```c
//! tls.id += c;  call;  tls.id -= c;                                  // an addition
//! tls.id += c;  call;  tls.id += d - c;  call;  tls.id -= d;           // two, with nothing between them that could look
//!
//! frame.prev = tls.top; frame.id = tls.id;                            // once in front of all pushes of an activation
//!
//! frame.site = &sites[s];                                            // a push
//! tls.top = &frame; tls.id = 0;  call;  tls.id = frame.id; tls.top = frame.prev;
//!
//! frame.site = &sites[s];                                            // a relative one, in executables with an open node
//! tls.top = &frame + 1;  call;  tls.top = frame.prev;
//!
//! n = tls.top ? __pcce_context(&sites[s], base) : tls.id + base;     // pcce_context(), in functions whose ids have a range of numbers
//!
//! tls.call = &sites[s];  call;  tls.call = 0;                         // a call that is published
//!
//! // before a call that stays a tail call, behind a push or at the beginning of a thread:
//! (tls.top ? tls.top->marks : tls.left) = LEFT;
//!
//! // a function that an open call of another module's may reach, at its entry:
//! if (tls.id > 0 || tls.top & 1) return f.pcce_open(…);   // a tail call of a function that pushes with site 0 and calls f
//! ```
//!
//! Whoever interrupts the thread finds the id, or the frame that holds it, after each instruction: a frame is whole before
//! it is on the chain, and on the chain from before the id is overwritten until it is back.
//!
//! The rule that every function returns with `id` and `top` as it found them makes both exact. Where control
//! arrives without a return (a landing pad, the second return of `setjmp`, behind an `asm goto` that calls), the function
//! stores the values it found at its entry.

use std::collections::{HashMap, HashSet};

use pcce_abi::{self as abi, layout};
use pcce_encoding::{FlowBlock, FramePlace, Way, frame_places};
use pcce_options::PassOptions;

use crate::analysis::{Analysis, Function, RuntimeCall, Unannounced};
use crate::emit;
use crate::llvm::{Analyses, Block, Builder, Module, TailCall, Type, Value};
use crate::plan::{Action, Leaves, Plan, PlannedCall, PlannedFunction, Push};
use crate::verify;
use llvm_sys::LLVMOpcode;

/// The module's own tables, and what it uses of the runtime.
struct Symbols {
    /// Address of `tls.id`; the block's address too.
    id: Value,
    /// Address of `tls.top`.
    top: Value,
    /// Address of `tls.call`, where calls are published.
    call: Option<Value>,
    /// Address of `tls.left`.
    left: Value,
    sites: Value,
    verify: Option<verify::Symbols>,
}

/// Rewrites the module. `sites_name` becomes the name of its site array.
pub fn rewrite(
    module: Module,
    analyses: Analyses,
    analysis: &Analysis,
    plan: &Plan,
    sites_name: &str,
    options: &PassOptions,
) {
    // Text has a zero behind it.
    let size = plan.dictionary.sites.len().max(1) + usize::from(plan.site_bytes.is_some());
    let sites = module.add_internal(sites_name, module.bytes(size as u64), false);
    module.keep(&[sites]);
    if let Some(bytes) = plan.site_bytes.as_ref().filter(|bytes| !bytes.is_empty()) {
        sites.initialize(module.const_string(bytes));
    }
    let tls = module.external_thread_local(abi::TLS_SYMBOL, layout::TLS_SIZE, layout::TLS_ALIGN);
    let symbols = Symbols {
        id: module.const_offset(tls, layout::TLS_ID),
        top: module.const_offset(tls, layout::TLS_TOP),
        left: module.const_offset(tls, layout::TLS_LEFT),
        call: options.publish.then(|| module.const_offset(tls, layout::TLS_CALL)),
        sites,
        verify: options.common.verify.then(|| verify::symbols(module, analysis, plan, sites, tls)),
    };
    // Objects of another version of the ABI do not link.
    let version = module.add_internal("__pcce_abi", module.ptr(), true);
    version.initialize(module.external_variable(abi::VERSION_SYMBOL, module.bytes(1)));
    module.retain(version);

    if plan.site_bytes.is_some() {
        emit::emit_hybrid(module);
    }
    let ends = abi::REPLACED_ENDS
        .iter()
        .filter(|_| options.common.verify || options.common.profile_generate.is_some());
    for (name, replacement) in abi::REPLACED.iter().chain(ends) {
        module.replace_declaration(name, replacement);
    }
    let builder = module.builder();
    for (i, (function, planned)) in analysis.functions.iter().zip(&plan.functions).enumerate() {
        if !function.silent {
            strip_memory_attributes(function, planned);
        }
        Rewriter::new(&builder, analyses, &symbols, function, planned, i).run();
    }
}

/// What the function and its calls promise about memory is no longer true: they update the
/// thread's block, and what they call may read it.
fn strip_memory_attributes(function: &Function, planned: &PlannedFunction) {
    const PROMISES: [&str; 2] = ["memory", "speculatable"];
    for attribute in PROMISES {
        function.value.remove_attribute(attribute);
    }
    for call in &planned.calls {
        let called = call.instruction.called();
        for attribute in PROMISES {
            call.instruction.remove_call_attribute(attribute);
            if called.is_function()
                && matches!(call.action, Action::Add(_) | Action::Push(_) | Action::Publish)
            {
                called.remove_attribute(attribute);
            }
        }
    }
}

struct Rewriter<'a> {
    b: &'a Builder,
    analyses: Analyses,
    symbols: &'a Symbols,
    function: &'a Function,
    planned: &'a PlannedFunction,
    number: usize,
    i64: Type,
    ptr: Type,
    /// The frame for pushes, in functions that push at calls.
    frame: Option<Value>,
    /// The frame for the push at the function's own entry.
    entry_frame: Option<Value>,
    /// `id` and `top` as the function's code finds them, where they are needed again.
    found: Option<(Value, Value)>,
    /// Verify mode: the record on the shadow stack.
    shadow: Option<Value>,
}

impl<'a> Rewriter<'a> {
    fn new(
        b: &'a Builder,
        analyses: Analyses,
        symbols: &'a Symbols,
        function: &'a Function,
        planned: &'a PlannedFunction,
        number: usize,
    ) -> Self {
        let (i64, ptr) = (b.module.i64(), b.module.ptr());
        let (frame, entry_frame, found, shadow) = (None, None, None, None);
        Self { b, analyses, symbols, function, planned, number, i64, ptr, frame, entry_frame, found, shadow }
    }

    fn run(mut self) {
        self.prologue();
        // No terminator has updates in front of it yet.
        let (first, ends) = self.frame.map(|frame| self.begin_early(frame)).unwrap_or_default();
        let chains = self.chains(&ends);
        let mut left = HashMap::new();
        for call in &self.planned.calls {
            let next = chains.get(&call.instruction);
            if let (Some(&next), Action::Add(value)) = (next, call.action) {
                left.insert(next, value);
            }
            let left = left.get(&call.instruction).copied().unwrap_or(0);
            let at = match ends.contains(&call.instruction) {
                true => call.instruction,
                false => self.in_front_of(call.instruction),
            };
            self.call(call, at, left, next.is_some(), first.contains(&call.instruction));
        }
        if self.found.is_some() {
            for block in &self.function.comes_back {
                let at = block.first_after_pads();
                self.restore(at);
            }
            for &call in &self.function.returns_twice {
                // What is stored there again must not have lost its place on the stack.
                call.add_call_attribute("returns_twice");
                if let Some(at) = after(call) {
                    self.restore(at);
                }
            }
        }
        for &exit in &self.function.exits {
            self.exit(exit);
        }
        if self.function.unannounced == Unannounced::Open && self.entry_frame.is_none() {
            self.divert();
        }
    }

    /// Whoever enters the function by an open call of another module's is sent to a function that pushes.
    fn divert(&self) {
        let function = self.function.value;
        let call = function.thunk(&format!("{}.pcce_open", self.function.name));
        let b = self.b.prologue(call);
        call.function().decide_on_stack_protector();
        let frame = b.alloca(layout::FRAME_SIZE, c"pcce.frame");
        self.begin(frame);
        self.push(frame, b.module.null(), Push::Zero);
        let pads = call.function().blocks().into_iter().filter(|block| block.is_landing_pad());
        for end in after(call).into_iter().chain(pads.map(Block::first_after_pads)) {
            b.before(end, call);
            self.pop(frame, Push::Zero);
        }
        function.divert(call.function(), self.symbols.id, self.symbols.top, layout::RELATIVE);
    }

    fn prologue(&mut self) {
        let pushes = self.planned.calls.iter().any(|c| matches!(c.action, Action::Push(_)));
        let comes_back = !self.function.silent
            && (!self.function.comes_back.is_empty() || !self.function.returns_twice.is_empty());
        let verify = self.symbols.verify.as_ref();
        let open = self.function.unannounced == Unannounced::Open;
        let not_diverted = || open && !self.function.value.can_be_diverted();
        let entry_site = self.planned.entry_site.map(|site| self.site(site));
        let entry_site = entry_site.or_else(|| not_diverted().then(|| self.b.module.null()));
        if self.planned.begins_stack {
            let b = self.b.prologue(self.function.value.blocks()[0].first());
            let base = b.module.external_variable(abi::MAIN_BASE_SYMBOL, self.ptr);
            b.store(self.canonical_frame_address(), base);
            // What runs before and after begins elsewhere.
            for &exit in &self.function.exits {
                b.before(exit, exit);
                b.store(b.module.null(), base);
            }
        }
        if !pushes && !comes_back && verify.is_none() && entry_site.is_none() {
            return;
        }
        let b = self.b.prologue(self.function.value.blocks()[0].first());
        self.function.value.decide_on_stack_protector();
        // Outer frames have higher addresses, also of two in one activation.
        let both = pushes && entry_site.is_some();
        let size = if both { 2 * layout::FRAME_SIZE } else { layout::FRAME_SIZE };
        let frames = (pushes || entry_site.is_some())
            .then(|| b.alloca(size, if pushes { c"pcce.frame" } else { c"pcce.entry" }));
        self.frame = frames.filter(|_| pushes);
        self.entry_frame = frames
            .filter(|_| entry_site.is_some())
            .map(|frames| if both { b.offset(frames, layout::FRAME_SIZE) } else { frames });
        self.shadow = verify.map(|_| b.alloca(layout::SHADOW_SIZE, c"pcce.shadow"));
        if let (Some(site), Some(frame)) = (entry_site, self.entry_frame) {
            self.begin(frame);
            self.push(frame, site, Push::Zero);
            // Whoever called may have published the call.
            self.publish(None);
            self.found = comes_back.then(|| (b.module.const_i64(0), frame));
        } else if comes_back {
            self.found = Some((b.load(self.i64, self.symbols.id), b.load(self.ptr, self.symbols.top)));
        }
        if let (Some(verify), Some(shadow)) = (verify, self.shadow) {
            let record = self.number as u64 * size_of::<abi::FunctionRecord>() as u64;
            b.call(verify.enter, &[shadow, b.module.const_offset(verify.records, record)]);
        }
    }

    /// Where the activation begins on the stack: what is above its return address.
    fn canonical_frame_address(&self) -> Value {
        let name = "llvm.addressofreturnaddress.p0";
        let address = self.b.call(self.b.module.external_function(name, self.ptr, &[]), &[]);
        self.b.offset(address, size_of::<u64>() as u64)
    }

    fn site(&self, site: u32) -> Value {
        self.b.module.const_offset(self.symbols.sites, site.into())
    }

    /// Writes the words of a frame that all pushes of this activation have in common: they hold the state that it found at its entry.
    fn begin(&self, frame: Value) {
        let b = self.b;
        let (top, id) = (b.load(self.ptr, self.symbols.top), b.load(self.i64, self.symbols.id));
        b.store(top, b.offset(frame, layout::FRAME_PREV));
        b.store(id, b.offset(frame, layout::FRAME_ID));
    }

    fn push(&self, frame: Value, site: Value, push: Push) {
        let b = self.b;
        b.store(site, b.offset(frame, layout::FRAME_SITE));
        b.signal_fence();
        match push {
            Push::Relative => b.store(b.offset(frame, layout::RELATIVE), self.symbols.top),
            Push::Zero => {
                b.store(frame, self.symbols.top);
                b.signal_fence();
                b.store(b.module.const_i64(0), self.symbols.id);
            }
        }
    }

    fn pop(&self, frame: Value, push: Push) {
        let b = self.b;
        let prev = b.load(self.ptr, b.offset(frame, layout::FRAME_PREV));
        if push == Push::Zero {
            let id = b.load(self.i64, b.offset(frame, layout::FRAME_ID));
            b.store(id, self.symbols.id);
            b.signal_fence();
        }
        b.store(prev, self.symbols.top);
    }

    /// Tells the runtime the site of the call that comes next, or that it is over. Nothing where calls are not published.
    fn publish(&self, site: Option<u32>) {
        if let Some(call) = self.symbols.call {
            self.b.store(site.map_or(self.b.module.null(), |site| self.site(site)), call);
        }
    }

    fn add(&self, value: u64) {
        if value == 0 {
            return;
        }
        let b = self.b;
        b.store(b.add(b.load(self.i64, self.symbols.id), b.module.const_i64(value)), self.symbols.id);
    }

    /// Calls with additions, each with the one that comes next in the same block if what the first has added can stay until then. (LLVM does not
    /// see that it could: it knows the value that was stored, and makes five instructions of what are two.)
    /// Not across the terminators `begins`, in front of which the frame begins.
    fn chains(&self, begins: &HashSet<Value>) -> HashMap<Value, Value> {
        let mut chains = HashMap::new();
        // These look at the state, or bring another one.
        if self.function.reads_state || !self.function.returns_twice.is_empty() {
            return chains;
        }
        let actions: HashMap<Value, Action> =
            self.planned.calls.iter().map(|call| (call.instruction, call.action)).collect();
        for call in self.planned.calls.iter().filter(|call| matches!(call.action, Action::Add(_))) {
            let mut at = match call.instruction.opcode() {
                LLVMOpcode::LLVMCall => call.instruction.next(),
                _ => None,
            };
            while let Some(instruction) = at {
                match actions.get(&instruction) {
                    Some(Action::Add(_)) if !begins.contains(&instruction) => {
                        chains.insert(call.instruction, instruction);
                        break;
                    }
                    Some(_) => break,
                    None if instruction.tail_call() == TailCall::Must => break,
                    None => at = instruction.next(),
                }
            }
        }
        chains
    }

    /// Begins the frame where that is best, outside of pushes. Returns the calls whose pushes must begin it, and the terminators in front of
    /// which it begins.
    fn begin_early(&self, frame: Value) -> (HashSet<Value>, HashSet<Value>) {
        let pushes = self.planned.calls.iter().filter(|call| matches!(call.action, Action::Push(_)));
        if self.function.reads_state {
            // It may switch to another state.
            return (pushes.map(|call| call.instruction).collect(), HashSet::new());
        }
        let blocks = self.function.value.blocks();
        let numbers: HashMap<Block, u32> = blocks.iter().copied().zip(0..).collect();
        let mut first_push = vec![None; blocks.len()];
        for call in pushes {
            first_push[numbers[&call.instruction.block()] as usize].get_or_insert(call.instruction);
        }
        let frequencies = self.analyses.block_frequencies(self.function.value);
        let mut probabilities = self.analyses.branch_probabilities(self.function.value).into_iter();
        let successors: Vec<Vec<Block>> = blocks.iter().map(|b| b.terminator().successors()).collect();
        let flow = blocks.iter().zip(&frequencies).zip(&successors);
        let flow = flow.map(|((block, &frequency), successors)| {
            let plain = matches!(block.terminator().opcode(), LLVMOpcode::LLVMBr | LLVMOpcode::LLVMSwitch);
            let ways = successors.iter().map(|to| Way {
                to: numbers[to],
                probability: probabilities.next().expect("one for each successor"),
                can_be_split: plain && successors.iter().filter(|&other| other == to).count() == 1,
            });
            FlowBlock { frequency, ways: ways.collect() }
        });
        let (mut first, mut ends) = (HashSet::new(), HashSet::new());
        let pushes: Vec<bool> = first_push.iter().map(Option::is_some).collect();
        for place in frame_places(&flow.collect::<Vec<_>>(), &pushes) {
            let end = match place {
                FramePlace::FirstPush(block) => {
                    first.extend(first_push[block as usize]);
                    continue;
                }
                FramePlace::End(block) => blocks[block as usize].terminator(),
                FramePlace::On(from, way) => {
                    let from = from as usize;
                    successors[from][way as usize].on_edge_from(blocks[from]).terminator()
                }
            };
            self.b.before(end, end);
            self.begin(frame);
            ends.insert(end);
        }
        (first, ends)
    }

    /// Where the work in front of a call goes. If the call goes through a pointer that is loaded for nothing else, in front of the load: the machine's call
    /// can do that itself, but LLVM lets it only if nothing is stored in between.
    fn in_front_of(&self, call: Value) -> Value {
        let load = call.called();
        if !load.is_load() || load.block() != call.block() || load.use_count() != 1 {
            return call;
        }
        let calls = |at: Value| at.opcode() == LLVMOpcode::LLVMCall;
        if std::iter::successors(load.next(), |at| at.next()).take_while(|&at| at != call).any(calls) {
            return call;
        }
        // There the state is restored perhaps, in front of the load as well.
        let arrives = |at: Value| {
            matches!(at.opcode(), LLVMOpcode::LLVMCall | LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMLandingPad)
        };
        if self.found.is_some() && load.previous().is_none_or(arrives) { call } else { load }
    }

    /// `at`: where the work in front of the call goes. `left`: what the call before has left added; `leaves`: this one leaves what it adds to the next. `begins`: its push is the one that begins the frame.
    fn call(&self, call: &PlannedCall, at: Value, left: u64, leaves: bool, begins: bool) {
        let instruction = call.instruction;
        if call.keeps_frame {
            instruction.clear_tail();
        }
        // The callee reaches frames and records of this activation through the thread's block.
        if matches!(call.action, Action::Push(_) | Action::Publish)
            || self.entry_frame.is_some()
            || self.shadow.is_some()
        {
            instruction.clear_tail();
        }
        match call.action {
            Action::Replace(runtime) => {
                let instruction = instruction.into_call();
                self.b.before(instruction, instruction);
                let mut arguments: Vec<Value> =
                    (0..instruction.argument_count()).map(|i| instruction.argument(i)).collect();
                arguments.push(self.site(call.site));
                let below = self.planned.needs_offset;
                let name = match runtime {
                    RuntimeCall::Context if below => {
                        arguments.push(self.canonical_frame_address());
                        abi::functions::CONTEXT_BELOW
                    }
                    RuntimeCall::Token if below => {
                        arguments.push(self.canonical_frame_address());
                        abi::functions::TOKEN_BELOW
                    }
                    RuntimeCall::Context => {
                        arguments.push(self.b.module.const_i64(self.planned.base));
                        abi::functions::CONTEXT
                    }
                    RuntimeCall::Token => abi::functions::TOKEN,
                    RuntimeCall::TokenAt => abi::functions::TOKEN_AT,
                    RuntimeCall::PthreadCreate => abi::functions::PTHREAD_CREATE,
                    RuntimeCall::ThrdCreate => abi::functions::THRD_CREATE,
                };
                let types: Vec<Type> = arguments.iter().map(|a| a.ty()).collect();
                let callee = self.b.module.external_function(name, instruction.ty(), &types);
                // Creating a thread allocates.
                let allocates = matches!(runtime, RuntimeCall::PthreadCreate | RuntimeCall::ThrdCreate);
                if allocates {
                    self.publish(Some(call.site));
                }
                let number =
                    (name == abi::functions::CONTEXT && self.planned.base != abi::NO_RANGE).then(|| {
                        let (b, base) = (self.b, self.b.module.const_i64(self.planned.base));
                        let top = b.load(self.ptr, self.symbols.top);
                        (top, b.add(b.load(self.i64, self.symbols.id), base))
                    });
                let mut replacement = self.b.call(callee, &arguments);
                if allocates {
                    self.publish(None);
                }
                if let Some((top, number)) = number {
                    replacement = replacement.unless_null(top, number);
                }
                instruction.replace_with(replacement);
                return;
            }
            Action::None if self.shadow.is_none() => return,
            Action::None | Action::Add(_) | Action::Push(_) | Action::Publish => {}
        }
        let after = after(instruction);
        self.b.before(at, instruction);
        if let Some(site) = call.creation_site {
            let module = self.b.module;
            let prepare =
                module.external_function(abi::functions::STD_THREAD, module.void(), &[self.ptr, self.ptr]);
            self.b.call(prepare, &[instruction.argument(1), self.site(site)]);
        }
        if let Some(shadow) = self.shadow {
            self.b.store(self.site(call.site), self.b.offset(shadow, layout::SHADOW_SITE));
            self.b.store(self.b.module.const_i64(0), self.b.offset(shadow, layout::SHADOW_LEFT));
        }
        match call.action {
            Action::Add(value) => self.add(value.wrapping_sub(left)),
            Action::Push(push) => {
                let frame = self.frame.expect("made for every function that pushes");
                if begins {
                    self.begin(frame);
                }
                self.push(frame, self.site(call.site), push);
            }
            Action::Publish => self.publish(Some(call.site)),
            _ => {}
        }
        let Some(after) = after else { return };
        self.b.before(after, instruction);
        match call.action {
            Action::Add(value) if !leaves => self.add(value.wrapping_neg()),
            Action::Push(push) => self.pop(self.frame.expect("made for every function that pushes"), push),
            Action::Publish => self.publish(None),
            _ => {}
        }
        if let (Some(verify), Some(shadow)) = (&self.symbols.verify, self.shadow) {
            // Code that is not instrumented may have caught an exception that passed through activations of ours.
            self.b.store(shadow, verify.shadow);
        }
    }

    /// Control came here without a return: the state is what the function found.
    fn restore(&self, at: Value) {
        let Some((id, top)) = self.found else { return };
        self.b.before(at, at);
        // The id comes last: from then on the state is the function's own.
        self.b.store(top, self.symbols.top);
        self.b.signal_fence();
        self.b.store(id, self.symbols.id);
        self.publish(None);
        if let (Some(verify), Some(shadow)) = (&self.symbols.verify, self.shadow) {
            self.b.call(verify.resume, &[shadow]);
        }
    }

    fn exit(&self, at: Value) {
        self.b.before(at, at);
        let leaves = at.tail_call() == TailCall::Must;
        if let (Some(verify), Some(shadow)) = (&self.symbols.verify, self.shadow) {
            self.b.call(if leaves { verify.leave } else { verify.exit }, &[shadow]);
        }
        if let Some(frame) = self.entry_frame {
            self.pop(frame, Push::Zero);
        }
        let id = match self.planned.leaves {
            Leaves::MarkingAtZero => Some(self.symbols.id),
            Leaves::Marking => None,
            Leaves::Silently => return,
        };
        if leaves {
            let link = (self.symbols.top, layout::RELATIVE);
            at.mark_left(id, link, layout::FRAME_MARKS, self.symbols.left, layout::LEFT);
        }
    }
}

/// The instruction in front of which the work after a call goes; none if the call does not return, or control comes
/// back elsewhere.
fn after(call: Value) -> Option<Value> {
    let next = match call.opcode() {
        LLVMOpcode::LLVMInvoke => call.normal_destination().on_edge_from(call.block()).first_after_pads(),
        LLVMOpcode::LLVMCallBr => return None,
        _ => call.next()?,
    };
    (next.opcode() != LLVMOpcode::LLVMUnreachable).then_some(next)
}
