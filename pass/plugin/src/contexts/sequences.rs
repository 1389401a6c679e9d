//! The sequences that the pass emits, and where they go in a function.
//!
//! The emitted sequences, in C (`tls` is the thread's block, `frame` a local of the function):
//!
//! ```c
//! // an addition; and two, with nothing between them that could look at the context
//! tls.id += c;  call;  tls.id -= c;
//! tls.id += c;  call;  tls.id += d - c;  call;  tls.id -= d;
//!
//! // once before all pushes of an activation
//! frame.prev = tls.top; frame.id = tls.id;
//!
//! // a push
//! frame.site = &sites[s];
//! tls.top = &frame; tls.id = 0;  call;  tls.id = frame.id; tls.top = frame.prev;
//!
//! // two pushes, and one in a loop: code without the pass may have left another state, so the frame is put on the
//! // chain again
//! a push;  call;  frame.site = &sites[t];  tls.top = &frame;  call;  a pop
//! a push;  for (…) { tls.top = &frame;  call; }  a pop
//!
//! // a relative push, in executables with an open node
//! frame.site = &sites[s];
//! tls.top = &frame + 1;  call;  tls.top = frame.prev;
//!
//! // the push of pcce_task_run(task, …)
//! frame.task = task;  a push
//!
//! // pcce_context(), in functions whose ids have a range of numbers
//! n = tls.top ? __pcce_context(&sites[s], base) : tls.id + base;
//!
//! // a call that is published
//! tls.call = &sites[s];  call;  tls.call = 0;
//!
//! // before a call that stays a tail call, after a push or at the beginning of a thread:
//! tls.top |= LEFT;
//!
//! // a function that an open call of another module may reach, at its entry: a tail call of a function that pushes
//! // with site 0 and calls f. In front of the prologue, if calls of its own library enter it behind that.
//! if (tls.id > 0 || tls.top & 1) return f.pcce_open(…);
//!
//! // a call of a library's own function f by a name that other images may define, too: through a word, which at
//! // first leads to the stub. The stub puts f itself there if the loader has bound the name to it.
//! tls.id += c;  (*f.pcce_bound)(…);  tls.id -= c;
//! f.pcce_replaced(…) { if (f == own f) { f.pcce_bound = own f; return own f(…); }  a push;  f(…);  a pop }
//! ```
//!
//! A function that cannot be diverted pushes at its own entry, if necessary.
//!
//! A signal handler finds the id, or the frame that holds it, after each instruction. A frame is complete
//! before it is on the chain, and it is on the chain from before the id is overwritten until the id is
//! restored.
//!
//! Both hold because every function returns with the `id` and `top` that it found. Where control arrives
//! without a return (a landing pad, the second return of `setjmp`, the target of an `asm goto` that calls),
//! the function stores the values that it found at its entry.

use pcce_abi::functions::{OPEN_THUNK, STUB};
use pcce_abi::{self as abi, layout};
use pcce_encoding::FunctionId;

use super::found::Found;
use super::rewrite::{PROMISES, Symbols};
use crate::facts;
use crate::handles::{Code, FunctionCode};
use crate::llvm::{Address, Alias, Block, Builder, Call, Constant, Instruction, TailCall};
use crate::places;
use pcce_model::plan::{Action, FrameBegins, Leaves, PlannedCall, PlannedFunction, Push};
use pcce_model::states::State;
use pcce_model::{CallKind, Function, RuntimeCall, Unannounced};

/// Rewrites a function.
pub struct Rewriter<'a, 'm> {
    b: &'a Builder<'m>,
    symbols: &'a Symbols<'m>,
    function: &'a Function,
    planned: &'a PlannedFunction,
    code: &'a FunctionCode<'m>,
    id: FunctionId,
    /// The frame for pushes, in functions that push at calls.
    frame: Option<Address<'m>>,
    /// The frame for the push at the function's own entry.
    entry_frame: Option<Address<'m>>,
    /// `id` and `top` at the function's entry.
    found: Found<'m>,
    /// Verify mode: the record on the shadow stack.
    shadow: Option<Address<'m>>,
}

impl<'a, 'm> Rewriter<'a, 'm> {
    /// Takes a function and its plan.
    pub fn new(
        b: &'a Builder<'m>,
        symbols: &'a Symbols<'m>,
        function: &'a Function,
        planned: &'a PlannedFunction,
        code: &'a Code<'m>,
        id: FunctionId,
    ) -> Self {
        let code = code.function(id);
        let (frame, entry_frame, found, shadow) = (None, None, Found::NotNeeded, None);
        Self { b, symbols, function, planned, code, id, frame, entry_frame, found, shadow }
    }

    /// Rewrites the function. `stub`: it gets a stub, with this site ([`PlannedFunction::stub`]).
    pub fn run(mut self, stub: Option<u32>) {
        self.prologue();
        // No terminator has updates before it yet.
        self.between_blocks();
        self.found.write_at_ends(self.b, self.symbols);
        for call in &self.planned.calls {
            self.call(call);
        }
        if self.found.is_needed() {
            for block in &self.code.comes_back {
                let at = block.first_after_pads();
                self.restore(at);
            }
            for &call in &self.code.returns_twice {
                // The slots of the values that are restored must not be reused.
                call.add_attribute("returns_twice");
                if let Some(at) = places::behind(call) {
                    self.restore(at);
                }
            }
        }
        for &exit in &self.code.exits {
            self.exit(exit);
        }
        let mut behind_check = None;
        if self.function.unannounced == Unannounced::Open && self.entry_frame.is_none() {
            let thunk = self.open_thunk().function();
            let (value, Symbols { id, top, .. }) = (self.code.value, self.symbols);
            match &self.planned.behind_check {
                Some(symbol) => {
                    let words = (layout::TLS_ID, layout::TLS_TOP);
                    behind_check = Some(value.check_first(thunk, *id, words, layout::RELATIVE, symbol));
                }
                None => value.divert(thunk, *id, *top, layout::RELATIVE),
            }
        }
        if let Some(site) = stub {
            self.stub(site, behind_check);
        }
    }

    /// Makes the stub, and the word through which replaceable calls reach the function
    /// ([`PlannedFunction::stub`]), or the place in it behind its check.
    fn stub(&self, site: u32, behind_check: Option<Alias<'m>>) {
        let (value, name) = (self.code.value, &self.function.name);
        let call = value.thunk(&format!("{name}{STUB}"));
        let code = FunctionCode::of_thunk(call);
        // The stub has the function's ids, and its record in verify mode.
        let function = Function {
            calls: vec![pcce_model::Call::new(CallKind::External(name.clone()), self.function.ty)],
            unannounced: Unannounced::Never,
            ..self.function.clone()
        };
        let planned = PlannedFunction {
            calls: vec![PlannedCall::new(0, Action::Push(Push::Zero), site)],
            frame: Some(FrameBegins { at_pushes: [0].into(), ..FrameBegins::default() }),
            updates: Vec::new(),
            entry_site: None,
            stub: None,
            behind_check: None,
            leaves: Leaves::Marking,
            needs_offset: false,
            begins_stack: false,
        };
        let (frame, entry_frame, found, shadow) = (None, None, Found::NotNeeded, None);
        let (b, symbols) = (self.b, self.symbols);
        let (function, planned, code, id) = (&function, &planned, &code, self.id);
        Rewriter { b, symbols, function, planned, code, id, frame, entry_frame, found, shadow }.run(None);
        for attribute in PROMISES {
            code.value.remove_attribute(attribute);
            call.remove_attribute(attribute);
        }
        let word = b.module.bound_word(name);
        word.initialize(code.value.address().into());
        let bound = b.module.machine().load_bound(name);
        call.call_bound(bound, word.address(), behind_check);
    }

    /// Makes a function that pushes and calls this one, for open calls from other modules. Returns that call.
    fn open_thunk(&self) -> Call<'m> {
        let function = self.code.value;
        let call = function.thunk(&format!("{}{OPEN_THUNK}", self.function.name));
        let b = self.b.prologue(*call);
        call.function().decide_on_stack_protector();
        let frame = b.alloca(layout::FRAME_SIZE, "pcce.frame");
        self.begin(frame);
        self.push(frame, b.module.null(), Push::Zero);
        let pads = call.function().blocks().into_iter().filter(|block| block.is_landing_pad());
        for end in places::behind(call).into_iter().chain(pads.map(Block::first_after_pads)) {
            b.before(end, *call);
            self.pop(frame, Push::Zero);
        }
        call
    }

    fn prologue(&mut self) {
        let pushes = self.planned.frame.is_some();
        let comes_back =
            !self.function.silent && (!self.code.comes_back.is_empty() || self.function.returns_twice);
        let verify = self.symbols.verify.as_ref();
        let open = self.function.unannounced == Unannounced::Open;
        let not_diverted = || open && !self.function.can_be_diverted;
        let entry_site = self.planned.entry_site.map(|site| self.site(site));
        let entry_site = entry_site.or_else(|| not_diverted().then(|| self.b.module.null()));
        if self.planned.begins_stack {
            let b = self.b.prologue(self.code.value.entry().first());
            let base = b.module.external_variable(abi::MAIN_BASE_SYMBOL, b.module.ptr());
            b.store(self.canonical_frame_address(), base);
            // Code before and after `main` begins elsewhere on the stack.
            for &exit in &self.code.exits {
                b.before(exit, exit);
                b.store(b.module.null(), base);
            }
        }
        if !pushes && !comes_back && verify.is_none() && entry_site.is_none() {
            return;
        }
        let b = self.b.prologue(self.code.value.entry().first());
        // LLVM does not know of calls in assembly. Such a call writes to the red zone, so the frame must not be there.
        if facts::has_assembly(self.code.value) {
            self.code.value.keep_out_of_red_zone();
        }
        self.code.value.decide_on_stack_protector();
        // Outer frames have higher addresses, even within one activation.
        let both = pushes && entry_site.is_some();
        let runs_task = self.planned.calls.iter().any(|call| call.runs_task);
        let own = layout::FRAME_SIZE + if runs_task { size_of::<u64>() as u64 } else { 0 };
        let size = if both { own + layout::FRAME_SIZE } else { own };
        let frames = (pushes || entry_site.is_some())
            .then(|| b.alloca(size, if pushes { "pcce.frame" } else { "pcce.entry" }));
        self.frame = frames.filter(|_| pushes);
        self.entry_frame = frames
            .filter(|_| entry_site.is_some())
            .map(|frames| if both { b.offset(frames, own) } else { frames });
        self.shadow = verify.map(|_| b.alloca(layout::SHADOW_SIZE, "pcce.shadow"));
        if let (Some(site), Some(frame)) = (entry_site, self.entry_frame) {
            self.begin(frame);
            self.push(frame, site, Push::Zero);
            if comes_back {
                self.found = Found::Read(b.module.const_i64(0), frame);
            }
            // The caller may have published the call.
            self.publish(None);
        } else if comes_back {
            self.found = Found::written_late(b, self.function, self.planned, self.code, self.frame)
                .unwrap_or_else(|| Found::here(b, self.symbols));
            if !matches!(self.found, Found::Read(..)) {
                // If a thread were interrupted in outlined code of a landing pad, it would not be known that
                // the thread is past the call.
                self.code.value.keep_in_one_piece();
            }
        }
        if let (Some(verify), Some(shadow)) = (verify, self.shadow) {
            let record = self.id.index() as u64 * size_of::<abi::FunctionRecord>() as u64;
            b.call(verify.enter, &[shadow, b.module.const_offset(verify.records, record)]);
        }
    }

    /// The address where the activation begins on the stack, as unwind tables define it.
    fn canonical_frame_address(&self) -> Address<'m> {
        let (name, offset) = self.b.module.machine().canonical_frame_address();
        let function = self.b.module.external_function(name, Some(self.b.module.ptr()), &[]);
        let address = self.b.call(function, &[]).result().as_address().expect("it returns an address");
        self.b.offset(address, offset)
    }

    fn site(&self, site: u32) -> Address<'m> {
        self.b.module.const_offset(self.symbols.sites, site.into())
    }

    /// Writes the words of a frame that all pushes of the activation share: the state that it found at its
    /// entry.
    fn begin(&self, frame: Address<'m>) {
        let b = self.b;
        let (top, id) = (b.load_address(self.symbols.top), b.load_word(self.symbols.id));
        b.store(top, b.offset(frame, layout::FRAME_PREV));
        b.store(id, b.offset(frame, layout::FRAME_ID));
    }

    fn push(&self, frame: Address<'m>, site: Address<'m>, push: Push) {
        let b = self.b;
        b.store(site, b.offset(frame, layout::FRAME_SITE));
        b.signal_fence();
        self.publish_frame(frame, push);
    }

    /// Puts the frame on the chain.
    fn publish_frame(&self, frame: Address<'m>, push: Push) {
        let b = self.b;
        match push {
            Push::Relative => b.store(b.offset(frame, layout::RELATIVE), self.symbols.top),
            Push::Zero => {
                b.store(frame, self.symbols.top);
                b.signal_fence();
                b.store(b.module.const_i64(0), self.symbols.id);
            }
        }
    }

    fn pop(&self, frame: Address<'m>, push: Push) {
        let b = self.b;
        let prev = b.load_address(b.offset(frame, layout::FRAME_PREV));
        if push == Push::Zero {
            let id = b.load_word(b.offset(frame, layout::FRAME_ID));
            b.store(id, self.symbols.id);
            b.signal_fence();
        }
        b.store(prev, self.symbols.top);
    }

    /// Publishes the site of the next call, or that the call is over. Does nothing if calls are not
    /// published.
    fn publish(&self, site: Option<u32>) {
        if let Some(call) = self.symbols.call {
            self.b.store(site.map_or(self.b.module.null(), |site| self.site(site)), call);
        }
    }

    /// Changes the id from the function's own id plus `old` to the function's own id plus `new`.
    fn add(&self, old: u64, new: u64) {
        if old == new {
            return;
        }
        let b = self.b;
        match &self.symbols.values {
            Some(values) => values.add(b, old, new, self.symbols.id),
            None => {
                let value = b.module.const_i64(new.wrapping_sub(old));
                b.store(b.add(b.load_word(self.symbols.id), value), self.symbols.id);
            }
        }
    }

    /// Begins the frame at its planned places outside of pushes, and updates the state at planned places
    /// without calls.
    fn between_blocks(&self) {
        let blocks = self.code.value.blocks();
        let on_edge = |from: u32, way: u32| {
            let from = blocks[from as usize];
            from.terminator().successors()[way as usize].on_edge_from(from)
        };
        if let (Some(frame), Some(begins)) = (self.frame, &self.planned.frame) {
            let on_ways: Vec<Block<'_>> =
                begins.on_ways.iter().map(|&(from, way)| on_edge(from, way)).collect();
            for block in begins.at_ends.iter().map(|&block| blocks[block as usize]).chain(on_ways) {
                let end = block.terminator();
                self.b.before(end, end);
                self.begin(frame);
            }
        }
        for update in &self.planned.updates {
            let edge = (update.block, update.way);
            let block = on_edge(edge.0, edge.1);
            let begins = self.planned.frame.as_ref().is_some_and(|begins| begins.on_ways.contains(&edge));
            let at = if begins { block.terminator() } else { block.first_after_pads() };
            self.b.before(at, at);
            self.update(update.from, update.to);
        }
    }

    /// The frame for pushes at calls.
    fn frame(&self) -> Address<'m> {
        self.frame.expect("made for every function that pushes")
    }

    /// Changes the state from one to another.
    fn update(&self, from: State, to: State) {
        match (from, to) {
            (from, to) if from == to => {}
            (State::Found, State::Found) => {}
            (State::Added(old), State::Added(new)) => self.add(old, new),
            (State::Pushed(before, _), State::Pushed(push, site)) if before == push => {
                self.b.store(self.site(site), self.b.offset(self.frame(), layout::FRAME_SITE));
                self.b.signal_fence();
            }
            (State::Found, State::Added(value)) => self.add(0, value),
            (State::Found, State::Pushed(push, site))
            | (State::Pushed(Push::Relative, _), State::Pushed(push @ Push::Zero, site)) => {
                self.push(self.frame(), self.site(site), push);
            }
            (State::Added(value), State::Found) => self.add(value, 0),
            (State::Pushed(push, _), State::Found) => self.pop(self.frame(), push),
            (State::Added(_), State::Pushed(..))
            | (State::Pushed(..), State::Added(_) | State::Pushed(..)) => {
                self.update(from, State::Found);
                self.update(State::Found, to);
            }
        }
    }

    fn call(&self, call: &PlannedCall) {
        let instruction = self.code.calls[call.call];
        if call.replaceable {
            self.b.before(*instruction, *instruction);
            let callee = instruction.called().as_function().expect("it calls a function by its name");
            let word = self.b.module.bound_word(&callee.name());
            instruction.set_called(self.b.load_address(word.address()).into());
        }
        let begins = self.planned.frame.as_ref();
        let at = match begins.is_some_and(|begins| begins.is_before(&self.function.calls[call.call])) {
            true => *instruction,
            false => places::in_front_of(instruction, self.found.is_needed()),
        };
        self.found.write(self.b, self.symbols, *instruction, at);
        // The callee reaches frames and records of this activation through the thread's block.
        let reaches = call.action.shows_memory() || self.entry_frame.is_some() || self.shadow.is_some();
        if call.keeps_frame || reaches {
            instruction.clear_tail();
        }
        let replaced = if let Action::Replace(runtime) = call.action { Some(runtime) } else { None };
        let shadow = self.shadow.filter(|_| replaced.is_none());
        let acts = call.action.changes_block() || call.creation_site.is_some();
        if acts || shadow.is_some() || [call.before, call.behind] != [State::Found; 2] {
            let behind = places::behind(instruction);
            self.b.before(at, *instruction);
            self.before_call(call, instruction, shadow);
            if let Some(behind) = behind {
                self.b.before(behind, *instruction);
                self.behind_call(call, shadow);
            }
        }
        if let Some(runtime) = replaced {
            self.replace(instruction, call, runtime);
        }
    }

    fn before_call(&self, call: &PlannedCall, instruction: Call<'m>, shadow: Option<Address<'m>>) {
        let state = || instruction.argument(1)?.as_address();
        if let Some((site, state)) = call.creation_site.zip(state()) {
            let (module, ptr) = (self.b.module, self.b.module.ptr());
            let prepare = module.external_function(abi::functions::STD_THREAD, None, &[ptr, ptr]);
            self.b.call(prepare, &[state, self.site(site)]);
        }
        if let Some(shadow) = shadow {
            self.b.store(self.site(call.site), self.b.offset(shadow, layout::SHADOW_SITE));
            self.b.store(self.b.module.const_i64(0), self.b.offset(shadow, layout::SHADOW_LEFT));
        }
        if call.action.pushes() {
            let frame = self.frame();
            if self.planned.frame.as_ref().is_some_and(|begins| begins.at_pushes.contains(&call.call)) {
                self.begin(frame);
            }
            if call.runs_task {
                let task = instruction.argument(0).and_then(|task| task.as_address());
                let task = task.unwrap_or(self.b.module.null());
                self.b.store(task, self.b.offset(frame, layout::FRAME_TASK));
            }
        }
        self.update(call.before, call.needs());
        if let (State::Pushed(before, _), State::Pushed(push, _)) = (call.before, call.needs())
            && before == push
        {
            // Code without the pass may have left another state.
            self.publish_frame(self.frame(), push);
        }
        if call.action == Action::Publish {
            self.publish(Some(call.site));
        }
    }

    fn behind_call(&self, call: &PlannedCall, shadow: Option<Address<'m>>) {
        if call.action == Action::Publish {
            self.publish(None);
        }
        self.update(call.needs(), call.behind);
        if let (Some(verify), Some(shadow)) = (&self.symbols.verify, shadow) {
            // Code that is not instrumented may have caught an exception that passed through our activations.
            self.b.store(shadow, verify.shadow);
        }
    }

    /// Replaces the call by one of the runtime's function, which gets the site.
    fn replace(&self, call: Call<'m>, planned: &PlannedCall, runtime: RuntimeCall) {
        let module = self.b.module;
        let call = module.without_unwinding(call);
        self.b.before(*call, *call);
        let (site, base) = planned.number.map_or((planned.site, abi::NO_RANGE), |of| (of.site, of.base));
        let mut further: Vec<Constant<'_>> = vec![self.site(site).into()];
        let below = self.planned.needs_offset;
        let name = match runtime {
            RuntimeCall::Context if below => {
                further.push(self.canonical_frame_address().into());
                abi::functions::CONTEXT_BELOW
            }
            RuntimeCall::Token if below => {
                further.push(self.canonical_frame_address().into());
                abi::functions::TOKEN_BELOW
            }
            RuntimeCall::Context => {
                further.push(module.const_i64(base).into());
                abi::functions::CONTEXT
            }
            RuntimeCall::Token => abi::functions::TOKEN,
            RuntimeCall::TokenAt => abi::functions::TOKEN_AT,
            RuntimeCall::TaskCapture => abi::functions::TASK_CAPTURE,
            RuntimeCall::PthreadCreate => abi::functions::PTHREAD_CREATE,
            RuntimeCall::ThrdCreate => abi::functions::THRD_CREATE,
        };
        // Creating a thread allocates.
        let allocates = matches!(runtime, RuntimeCall::PthreadCreate | RuntimeCall::ThrdCreate);
        if allocates {
            self.publish(Some(site));
        }
        let has_range = name == abi::functions::CONTEXT && base != abi::NO_RANGE;
        let number = has_range.then(|| {
            let (b, base) = (self.b, module.const_i64(base));
            let top = b.load_address(self.symbols.top);
            (top, b.add(b.load_word(self.symbols.id), base))
        });
        let replacement = self.b.call_instead(call, name, &further);
        if allocates {
            self.publish(None);
        }
        let result = match number {
            Some((top, number)) => replacement.unless_null(top, number),
            None => replacement.result(),
        };
        if let (RuntimeCall::Context, Some(verify)) = (runtime, &self.symbols.verify) {
            self.b.before(*call, *call);
            self.b.call_with_number(verify.number, result, self.site(planned.site));
        }
        module.replace(call, result);
    }

    /// Restores the state that the function found, where control arrives without a return.
    fn restore(&self, at: Instruction<'m>) {
        self.b.before(at, at);
        let Some((id, top)) = self.found.read(self.b) else { return };
        // The id comes last: from then on the state is that of the function.
        self.b.store(top, self.symbols.top);
        self.b.signal_fence();
        self.b.store(id, self.symbols.id);
        self.publish(None);
        if let (Some(verify), Some(shadow)) = (&self.symbols.verify, self.shadow) {
            self.b.call(verify.resume, &[shadow]);
        }
    }

    fn exit(&self, at: Instruction<'m>) {
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
            at.mark_left(id, self.symbols.top, layout::RELATIVE, layout::LEFT);
        }
    }
}
