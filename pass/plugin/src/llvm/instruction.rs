//! Instructions, and among them the calls.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr;

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::llvm_sys::LLVMTailCallKind;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::values::{AsValueRef, CallSiteValue, InstructionOpcode, InstructionValue};

use super::shim::*;
use super::value::text;
use super::{Address, Alias, Block, Function, Module, Operand, Signature, Word};
use crate::machine::InlineAssembly;
use pcce_abi::skeleton::FUNCTION_SYMBOLS;
use pcce_model::SourceLocation;

/// An instruction. Its result may be of any type ([`Operand`]).
///
/// An instruction that was replaced is out of its block. Using it is a mistake, and panics.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instruction<'m>(pub(super) InstructionValue<'m>);

/// A call, an invoke, or assembly that may jump.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call<'m>(Instruction<'m>);

/// The relation of a call to the caller's frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TailCall {
    /// No marker, or `notail`.
    None,
    /// `tail`: may become a tail call.
    May,
    /// `musttail`: the language guarantees a tail call, or the pass keeps one ([`Module::keep_tail_call`]).
    Must,
}

impl<'m> Instruction<'m> {
    /// # Safety
    /// A live instruction of the run's module.
    pub(super) unsafe fn new(raw: LLVMValueRef) -> Self {
        // SAFETY: by the contract.
        Self(unsafe { InstructionValue::new(raw) })
    }

    /// The value that this instruction returns, if it is a return with a value.
    pub fn returned(self) -> Option<Operand<'m>> {
        let returns = self.opcode() == InstructionOpcode::Return && self.0.get_num_operands() == 1;
        // SAFETY: the operand is there.
        returns.then(|| unsafe { Operand::new(LLVMGetOperand(self.value(), 0)) })
    }

    /// The source locations, innermost first; empty without debug information.
    pub fn locations(self) -> Vec<SourceLocation> {
        #[allow(clippy::too_many_arguments)]
        extern "C" fn add(
            out: *mut c_void,
            name: *const u8,
            name_len: usize,
            dir: *const u8,
            dir_len: usize,
            file: *const u8,
            file_len: usize,
            line: u32,
            column: u32,
        ) {
            // SAFETY: `out` is the vector below; the strings live during the call.
            unsafe {
                let out = &mut *out.cast::<Vec<SourceLocation>>();
                let name = text(name.cast(), name_len);
                let (dir, mut file) = (text(dir.cast(), dir_len), text(file.cast(), file_len));
                if !file.starts_with('/') && !dir.is_empty() && !file.is_empty() {
                    file = format!("{}/{file}", dir.trim_end_matches('/'));
                }
                out.push(SourceLocation { name, file, line, column });
            }
        }
        let mut out: Vec<SourceLocation> = Vec::new();
        // SAFETY: live instruction; the callback gets the vector that it expects.
        unsafe { pcce_shim_locations(self.value(), add, (&raw mut out).cast()) };
        out
    }

    /// The instruction, wherever it is.
    pub(super) fn value(self) -> LLVMValueRef {
        self.0.as_value_ref()
    }

    /// The instruction, which is in a block.
    pub(super) fn raw(self) -> LLVMValueRef {
        // SAFETY: live instruction.
        let parent = unsafe { LLVMGetInstructionParent(self.value()) };
        assert!(!parent.is_null(), "the instruction was replaced");
        self.value()
    }

    pub fn opcode(self) -> InstructionOpcode {
        self.0.get_opcode()
    }

    /// The instruction before this one in its block.
    pub fn previous(self) -> Option<Self> {
        self.raw();
        self.0.get_previous_instruction().map(Self)
    }

    /// The instruction after this one in its block.
    pub fn next(self) -> Option<Self> {
        self.raw();
        self.0.get_next_instruction().map(Self)
    }

    /// The block that holds it.
    pub fn block(self) -> Block<'m> {
        Block(self.0.get_parent().expect("the instruction was replaced"))
    }

    /// The function that contains it.
    pub fn function(self) -> Function<'m> {
        Function(self.block().0.get_parent().expect("blocks are in functions"))
    }

    /// The number of uses.
    pub fn use_count(self) -> usize {
        // SAFETY: live value.
        unsafe { pcce_shim_use_count(self.value()) }
    }

    /// The successor blocks, if it is a terminator.
    pub fn successors(self) -> Vec<Block<'m>> {
        if !self.0.is_terminator() {
            return Vec::new();
        }
        let raw = self.raw();
        // SAFETY: live terminator; the indices are in range.
        let block = |i| unsafe { BasicBlock::new(LLVMGetSuccessor(raw, i)) };
        // SAFETY: live terminator.
        let count = unsafe { LLVMGetNumSuccessors(raw) };
        (0..count).filter_map(block).map(Block).collect()
    }

    /// The call, if it is one.
    pub fn as_call(self) -> Option<Call<'m>> {
        use InstructionOpcode as Opcode;
        matches!(self.opcode(), Opcode::Call | Opcode::Invoke | Opcode::CallBr).then_some(Call(self))
    }

    /// The relation to the caller's frame, if it is a call.
    pub fn tail_call(self) -> TailCall {
        self.as_call().map_or(TailCall::None, Call::tail_call)
    }

    /// Sets the bit `mark` of the word `top` before this tail call. Given the address of an id, it does so only if the
    /// id is 0 and the word does not have `tag`; this splits the block.
    pub fn mark_left(self, id: Option<Address<'m>>, top: Address<'m>, tag: u64, mark: u64) {
        let id = id.map_or(std::ptr::null_mut(), |id| id.0.as_value_ref());
        // SAFETY: a live instruction, and the addresses of words.
        unsafe { pcce_shim_mark_left(self.raw(), id, top.0.as_value_ref(), tag, mark) }
    }
}

impl<'m> Deref for Call<'m> {
    type Target = Instruction<'m>;

    fn deref(&self) -> &Instruction<'m> {
        &self.0
    }
}

impl<'m> Call<'m> {
    /// # Safety
    /// A live call of the run's module.
    pub(super) unsafe fn new(raw: LLVMValueRef) -> Self {
        // SAFETY: by the contract.
        Self(unsafe { Instruction::new(raw) })
    }

    fn site(self) -> CallSiteValue<'m> {
        // SAFETY: a live call in a block.
        unsafe { CallSiteValue::new(self.raw()) }
    }

    /// The called operand.
    pub fn called(self) -> Operand<'m> {
        // SAFETY: live call.
        unsafe { Operand::new(LLVMGetCalledValue(self.raw())) }
    }

    /// Calls another function of the same type.
    pub fn set_called(self, callee: Operand<'m>) {
        // SAFETY: a live call, whose last operand is the callee, and a pointer.
        unsafe {
            let last = LLVMGetNumOperands(self.raw()) - 1;
            LLVMSetOperand(self.raw(), last as u32, callee.raw());
        }
    }

    /// Makes this call of a [thunk](Function::thunk) go to the address that the instruction `bound` finds. If that is
    /// the thunk's function itself, the thunk jumps to `place` in it or, without one, to its beginning, and stores that
    /// address in `word`.
    pub fn call_bound(self, bound: InlineAssembly, word: Address<'m>, place: Option<Alias<'m>>) {
        let (text, constraints) = (bound.text, bound.constraints);
        // SAFETY: a live call of a thunk, the address of a word, and an alias or null; the texts are copied.
        unsafe {
            pcce_shim_call_bound(
                self.raw(),
                text.as_ptr(),
                text.len(),
                constraints.as_ptr(),
                constraints.len(),
                word.0.as_value_ref(),
                place.map_or(ptr::null_mut(), Alias::raw),
            );
        }
    }

    /// The type of the function that is called.
    pub fn signature(self) -> Signature<'m> {
        Signature(self.site().get_called_fn_type())
    }

    /// The number of its arguments.
    pub fn argument_count(self) -> u32 {
        self.site().count_arguments()
    }

    /// The `i`-th argument, if there is one.
    pub fn argument(self, i: u32) -> Option<Operand<'m>> {
        // SAFETY: live call, whose first operands are its arguments.
        (i < self.argument_count()).then(|| unsafe { Operand::new(LLVMGetOperand(self.raw(), i)) })
    }

    /// Returns whether the call passes its arguments as another one does: they have the same types.
    pub fn passes_like(self, other: Call<'m>) -> bool {
        let count = self.argument_count();
        // SAFETY: live calls, whose first operands are their arguments.
        count == other.argument_count()
            && unsafe {
                let ty = |call: Self, i: u32| LLVMTypeOf(LLVMGetOperand(call.raw(), i));
                let convention = |call: Self| LLVMGetInstructionCallConv(call.raw());
                convention(self) == convention(other) && (0..count).all(|i| ty(self, i) == ty(other, i))
            }
    }

    /// Its tail marker.
    pub fn tail_call(self) -> TailCall {
        if self.opcode() != InstructionOpcode::Call {
            return TailCall::None;
        }
        match self.site().get_tail_call_kind() {
            // SAFETY: live call.
            LLVMTailCallKind::LLVMTailCallKindTail if unsafe { pcce_shim_is_kept_tail_call(self.raw()) } => {
                TailCall::Must
            }
            LLVMTailCallKind::LLVMTailCallKindTail => TailCall::May,
            LLVMTailCallKind::LLVMTailCallKindMustTail => TailCall::Must,
            _ => TailCall::None,
        }
    }

    /// Removes a `tail` marker: the callee may see the caller's frame.
    pub fn clear_tail(self) {
        if self.tail_call() == TailCall::May {
            self.site().set_tail_call_kind(LLVMTailCallKind::LLVMTailCallKindNone);
        }
    }

    /// Returns whether the code generator makes a jump of the call although nothing guarantees it.
    pub fn is_sibling_call(self) -> bool {
        // SAFETY: live instruction.
        unsafe { pcce_shim_is_sibling_call(self.raw()) }
    }

    /// Returns whether the call may be the last action of its function. No other call becomes a jump.
    pub fn may_be_last(self) -> bool {
        // SAFETY: live instruction.
        unsafe { pcce_shim_may_be_last(self.raw()) }
    }

    /// Returns whether the call's pointer was loaded from a C++ virtual table; none if that is unknown.
    pub fn is_virtual_call(self) -> Option<bool> {
        // SAFETY: a live call.
        match unsafe { pcce_shim_pointer_kind(self.raw()) } {
            0 => None,
            kind => Some(kind == 2),
        }
    }

    /// Returns whether the call's pointer was compared with other targets ([`Module::compare_target`]).
    pub fn is_compared(self) -> bool {
        // SAFETY: a live call.
        unsafe { pcce_shim_is_compared(self.raw()) }
    }

    /// Returns whether a thunk can forward the call's arguments unchanged.
    pub fn can_go_through_thunk(self) -> bool {
        // SAFETY: a live call.
        unsafe { pcce_shim_can_go_through_thunk(self.raw()) }
    }

    /// Makes the call, which is no invoke, only if `pointer` is not null. Otherwise the result is
    /// `otherwise`. Returns the result. Blocks are split.
    pub fn unless_null(self, pointer: Address<'m>, otherwise: Word<'m>) -> Operand<'m> {
        assert!(self.opcode() == InstructionOpcode::Call, "a call that returns here only");
        let (pointer, otherwise) = (pointer.0.as_value_ref(), otherwise.0.as_value_ref());
        // SAFETY: a live call, and values that were made before it, a pointer and one of the result's type.
        unsafe { Operand::new(pcce_shim_unless_null(self.raw(), pointer, otherwise)) }
    }

    pub fn result(self) -> Operand<'m> {
        // SAFETY: live value.
        unsafe { Operand::new(self.raw()) }
    }

    /// Returns whether the call site itself (not the callee) has the enum attribute.
    pub fn has_attribute(self, name: &str) -> bool {
        let kind = Attribute::get_named_enum_kind_id(name);
        self.site().get_enum_attribute(AttributeLoc::Function, kind).is_some()
    }

    /// Adds an enum attribute without a value to the call site.
    pub fn add_attribute(self, name: &str) {
        let attribute = self.block().0.get_context();
        let attribute = attribute.create_enum_attribute(Attribute::get_named_enum_kind_id(name), 0);
        self.site().add_attribute(AttributeLoc::Function, attribute);
    }

    /// Removes an enum attribute from the call site.
    pub fn remove_attribute(self, name: &str) {
        let kind = Attribute::get_named_enum_kind_id(name);
        self.site().remove_enum_attribute(AttributeLoc::Function, kind);
    }

    /// The block to which an invoke returns.
    pub fn normal_destination(self) -> Option<Block<'m>> {
        let invoke = self.opcode() == InstructionOpcode::Invoke;
        // SAFETY: live invoke.
        invoke.then(|| unsafe { BasicBlock::new(LLVMGetNormalDest(self.raw())) }).flatten().map(Block)
    }

    /// The landing pad of an invoke.
    pub fn unwind_destination(self) -> Option<Block<'m>> {
        let invoke = self.opcode() == InstructionOpcode::Invoke;
        // SAFETY: live invoke.
        invoke.then(|| unsafe { BasicBlock::new(LLVMGetUnwindDest(self.raw())) }).flatten().map(Block)
    }

    /// Makes the call enter its function at a named place ([`Function::place_behind`]).
    pub fn enter_at(self, place: Alias<'m>) {
        // SAFETY: a live call, and a live alias.
        unsafe { pcce_shim_trace_call_to(self.raw(), place.raw()) }
    }

    /// Makes the call call this function.
    pub fn enter(self, function: Function<'m>) {
        // SAFETY: a live call, and a live function.
        unsafe { pcce_shim_trace_call_to(self.raw(), function.raw()) }
    }
}

impl<'m> Module<'m> {
    /// Turns a sibling call into one that must stay a tail call for the pass ([`TailCall::Must`]), with a
    /// return of its own after it.
    pub fn keep_tail_call(self, call: Call<'m>) {
        assert!(call.is_sibling_call(), "only calls that code generation makes jumps of");
        // SAFETY: live sibling call. A branch to a shared return is unlinked, and its destination noted.
        unsafe {
            let branch = pcce_shim_keep_tail_call(call.raw());
            if !branch.is_null() {
                self.0.left.borrow_mut().push(LLVMGetSuccessor(branch, 0));
                self.0.unlink(Instruction::new(branch));
                self.blocks_changed(call.function());
            }
        }
    }

    /// Calls the function directly where the call's pointer is its address; the call itself remains for other
    /// targets. Returns the direct call, if there can be one.
    pub fn compare_target(self, call: Call<'m>, callee: Function<'m>) -> Option<Call<'m>> {
        // SAFETY: the function analyses of the running pass manager; a live call and a live function. The
        // result is a call.
        unsafe {
            let direct = pcce_shim_compare_target(self.0.analyses, call.raw(), callee.raw());
            (!direct.is_null()).then(|| Call::new(direct))
        }
    }

    /// [`Module::compare_target`] for the function of this name: the module's own, or one that all modules
    /// know.
    pub fn compare_with(self, call: Call<'m>, name: &str, own: bool) -> Option<Call<'m>> {
        let function = match self.llvm().get_function(name).map(Function) {
            Some(known) if own || !known.linkage().local => known,
            None if !own => self.declare_for(call, name),
            _ => return None,
        };
        self.compare_target(call, function)
    }

    /// Makes the call go to a symbol of the image ([`FUNCTION_SYMBOLS`]): an alias of this module, or a symbol that
    /// another module defines.
    pub fn enter_elsewhere(self, call: Call<'m>, symbol: &str) {
        let name = super::function::place_name(symbol);
        // SAFETY: live module; the name is only read.
        let own = unsafe { LLVMGetNamedGlobalAlias(self.raw(), name.as_ptr().cast(), name.len()) };
        if !own.is_null() {
            // SAFETY: a live alias of the module.
            return call.enter_at(unsafe { Alias::new(own) });
        }
        let declared = self.llvm().get_function(symbol).map(Function);
        call.enter(declared.unwrap_or_else(|| self.declare_for(call, symbol)));
    }

    fn declare_for(self, call: Call<'m>, name: &str) -> Function<'m> {
        let is_of_image = name.contains(FUNCTION_SYMBOLS);
        let name = super::value::cstring(name);
        // SAFETY: live module and call, of whose type the new function is; the name is copied.
        unsafe {
            let function = LLVMAddFunction(self.raw(), name.as_ptr(), LLVMGetCalledFunctionType(call.raw()));
            if is_of_image {
                LLVMSetVisibility(function, inkwell::llvm_sys::LLVMVisibility::LLVMHiddenVisibility);
                // Another name may lead there, too: LLVM must not take their addresses for different ones.
                LLVMSetUnnamedAddress(function, inkwell::llvm_sys::LLVMUnnamedAddr::LLVMGlobalUnnamedAddr);
            }
            Function::of(function).expect("a function")
        }
    }

    /// Adds a local function whose first instruction makes a call like this one with the function's arguments. The
    /// call can go through a thunk.
    pub fn make_push_thunk(self, call: Call<'m>, name: &str) -> Function<'m> {
        assert!(call.can_go_through_thunk(), "its arguments can be handed on");
        // SAFETY: a live call; `name` is copied. The result is a function.
        let thunk = unsafe { Operand::new(pcce_shim_make_push_thunk(call.raw(), name.as_ptr(), name.len())) };
        thunk.as_function().expect("a thunk is a function")
    }

    /// Replaces the call by one of a thunk that was made for it, or for a call of the same type with the same callee.
    /// Returns the new call.
    pub fn go_through_thunk(self, call: Call<'m>, thunk: Function<'m>) -> Call<'m> {
        assert!(call.can_go_through_thunk(), "its arguments can be handed on");
        // SAFETY: a live call, which nothing uses afterwards, and a thunk for it. The result is a call.
        let new = unsafe { Call::new(pcce_shim_go_through_thunk(call.raw(), thunk.raw())) };
        self.0.unlink(*call);
        new
    }

    /// Turns an invoke into a call followed by a branch to its normal destination.
    pub fn without_unwinding(self, call: Call<'m>) -> Call<'m> {
        if call.opcode() != InstructionOpcode::Invoke {
            return call;
        }
        // SAFETY: live invoke, which nothing uses afterwards. Its unwind destination is noted. The result is
        // a call.
        unsafe {
            self.0.left.borrow_mut().push(LLVMGetUnwindDest(call.raw()));
            let new = Call::new(pcce_shim_invoke_to_call(call.raw()));
            self.0.unlink(*call);
            new
        }
    }

    /// Replaces all uses of the call's result by the value `new`, of the same type, and removes the call,
    /// which is no terminator.
    pub fn replace(self, call: Call<'m>, new: Operand<'m>) {
        assert!(!call.0.0.is_terminator(), "a block ends with a terminator");
        // SAFETY: live values, of one type as the verifier sees; afterwards nothing uses the call.
        unsafe { LLVMReplaceAllUsesWith(call.raw(), new.raw()) }
        self.0.unlink(*call);
    }
}
