//! The code of a program: handles into LLVM's module, in the order of the functions and calls of
//! [`pcce_model::Program`].

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use pcce_encoding::{FlowBlock, FunctionId, Way};

use crate::llvm::{Block, Call, Function, Instruction, Module, Opcode};
use pcce_model::{Source, SourceLocation};

/// The places of a function's parts in LLVM's module.
#[derive(Clone)]
pub struct FunctionCode<'m> {
    pub value: Function<'m>,
    /// Its calls: calls, invokes, and assembly that may jump.
    pub calls: Vec<Call<'m>>,
    /// Blocks that control may enter without a return: landing pads, and targets of jumps of assembly that
    /// calls.
    pub comes_back: Vec<Block<'m>>,
    /// Calls that can return twice (`setjmp`, `vfork`).
    pub returns_twice: Vec<Call<'m>>,
    /// The points just before the activation ends: `ret`, or the tail call before it, and `resume`.
    pub exits: Vec<Instruction<'m>>,
}

impl<'m> FunctionCode<'m> {
    /// The code of a function without calls.
    pub fn new(value: Function<'m>) -> Self {
        let (calls, comes_back, returns_twice, exits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { value, calls, comes_back, returns_twice, exits }
    }

    /// The code of a copy of the function, whose blocks and instructions are in the same order.
    fn of_copy(&self, copy: Function<'m>) -> Self {
        let blocks: HashMap<_, _> = self.value.blocks().into_iter().zip(copy.blocks()).collect();
        let instructions: HashMap<_, _> = self.value.instructions().zip(copy.instructions()).collect();
        let call = |call: &Call<'m>| instructions[&**call].as_call().expect("it is a copy of a call");
        Self {
            value: copy,
            calls: self.calls.iter().map(call).collect(),
            comes_back: self.comes_back.iter().map(|block| blocks[block]).collect(),
            returns_twice: self.returns_twice.iter().map(call).collect(),
            exits: self.exits.iter().map(|exit| instructions[exit]).collect(),
        }
    }

    /// The code of a thunk ([`Function::thunk`]).
    pub fn of_thunk(call: Call<'m>) -> Self {
        let mut code = Self { calls: vec![call], ..Self::new(call.function()) };
        for block in code.value.blocks() {
            if block.is_landing_pad() {
                code.comes_back.push(block);
            }
            let end = block.terminator();
            code.exits.extend(matches!(end.opcode(), Opcode::Return | Opcode::Resume).then_some(end));
        }
        code
    }
}

/// The code of a program. Push thunks have none until they are made ([`Code::make_push_thunk`]).
pub struct Code<'m> {
    module: Module<'m>,
    functions: Vec<FunctionCode<'m>>,
    looks_at_caller: RefCell<HashMap<Function<'m>, bool>>,
}

impl<'m> Code<'m> {
    /// Takes the functions in the order of their numbers.
    pub fn new(module: Module<'m>, functions: Vec<FunctionCode<'m>>) -> Self {
        Self { module, functions, looks_at_caller: RefCell::default() }
    }

    /// The functions, in the order of their numbers.
    pub fn functions(&self) -> &[FunctionCode<'m>] {
        &self.functions
    }

    pub fn function(&self, function: FunctionId) -> &FunctionCode<'m> {
        &self.functions[function.index()]
    }

    pub fn call(&self, function: FunctionId, call: usize) -> Call<'m> {
        self.functions[function.index()].calls[call]
    }

    /// Calls the function directly if the call's pointer is its address. The call itself remains for other
    /// targets. Returns whether this is possible.
    pub fn compare_target(&self, call: Call<'m>, callee: FunctionId) -> bool {
        self.module.compare_target(call, self.function(callee).value).is_some()
    }

    /// Makes copies of one call go through a new function of this name, which gets the next number and makes the
    /// original call.
    pub fn make_push_thunk(&mut self, function: FunctionId, copies: &[usize], name: &str) {
        let calls = &mut self.functions[function.index()].calls;
        let value = self.module.make_push_thunk(calls[copies[0]], name);
        for &copy in copies {
            calls[copy] = self.module.go_through_thunk(calls[copy], value);
        }
        let block = value.entry();
        let calls = vec![block.first().as_call().expect("the thunk calls first")];
        let exits = vec![block.terminator()];
        self.functions.push(FunctionCode { calls, exits, ..FunctionCode::new(value) });
    }
}

/// Second bodies of functions. A function without a second body is listed with its only body.
pub struct SecondBodies<'m> {
    pub code: Code<'m>,
    /// Whether each function has a second body, in the order of their numbers.
    is_second: Vec<bool>,
    suffix: &'static str,
}

impl<'m> SecondBodies<'m> {
    /// Copies functions, as far as they can be copied. The names of the copies end with `suffix`.
    pub fn new(code: &Code<'m>, wanted: impl Fn(FunctionId) -> bool, suffix: &'static str) -> Self {
        let ids = (0..).map(FunctionId::new);
        let functions = ids.zip(&code.functions).map(|(id, function)| {
            let is_second = wanted(id) && function.value.can_be_copied();
            let copy =
                || function.of_copy(function.value.copy(&format!("{}{suffix}", function.value.name())));
            (if is_second { copy() } else { function.clone() }, is_second)
        });
        let (functions, is_second) = functions.unzip();
        Self { code: Code::new(code.module, functions), is_second, suffix }
    }

    /// Returns whether the function has a second body.
    pub fn has(&self, function: FunctionId) -> bool {
        self.is_second[function.index()]
    }

    /// Makes the push thunks of second bodies, after those of the first bodies in `code`. `thunks` has the caller, the
    /// calls and the name of each.
    pub fn make_push_thunks<'a>(
        &mut self,
        code: &Code<'m>,
        thunks: impl IntoIterator<Item = (FunctionId, &'a [usize], &'a str)>,
    ) {
        for (caller, calls, name) in thunks {
            let number = self.is_second.len();
            let is_second = self.has(caller);
            if is_second {
                let caller_name = code.function(caller).value.name();
                let ending = name.strip_prefix(&*caller_name).unwrap_or(name);
                self.code.make_push_thunk(caller, calls, &format!("{caller_name}{}{ending}", self.suffix));
            } else {
                self.code.functions.push(code.functions[number].clone());
            }
            self.is_second.push(is_second);
        }
    }
}

impl Source for Code<'_> {
    fn locations(&self, function: FunctionId, call: usize) -> Vec<SourceLocation> {
        let code = self.functions.get(function.index());
        code.map(|code| code.calls[call].locations()).unwrap_or_default()
    }

    fn pass_alike(&self, function: FunctionId, one: usize, other: usize) -> bool {
        self.call(function, one).passes_like(self.call(function, other))
    }

    fn flow(&self, function: FunctionId) -> Vec<FlowBlock> {
        let Some(code) = self.functions.get(function.index()) else {
            return vec![FlowBlock { frequency: 1.0, ..FlowBlock::default() }];
        };
        let blocks = code.value.blocks();
        let numbers: HashMap<Block<'_>, u32> = blocks.iter().copied().zip(0..).collect();
        let frequencies = self.module.block_frequencies(code.value);
        let mut probabilities = self.module.branch_probabilities(code.value).into_iter();
        let restores: HashSet<&Block<'_>> = code.comes_back.iter().collect();
        let flow = blocks.iter().zip(frequencies).map(|(block, frequency)| {
            let end = block.terminator();
            let plain = matches!(end.opcode(), Opcode::Br | Opcode::Switch);
            let successors = end.successors();
            let ways = successors.iter().map(|to| Way {
                to: numbers[to],
                probability: probabilities.next().expect("one for each successor"),
                can_be_split: plain && successors.iter().filter(|&other| other == to).count() == 1,
            });
            FlowBlock {
                frequency,
                ways: ways.collect(),
                throws: block.may_throw(),
                restores: restores.contains(block),
            }
        });
        flow.collect()
    }

    fn fits_thunk(&self, function: FunctionId, call: usize) -> bool {
        let call = self.call(function, call);
        let mut known = self.looks_at_caller.borrow_mut();
        // A callee that looks at its caller would see the thunk.
        call.can_go_through_thunk()
            && !call
                .called()
                .aliased()
                .is_some_and(|callee| *known.entry(callee).or_insert_with(|| callee.looks_at_caller()))
    }
}
