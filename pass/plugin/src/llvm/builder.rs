//! Emits instructions before a given one.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::builder::{Builder as LlvmBuilder, BuilderError};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::LLVMInstructionGetDebugLoc;
use inkwell::llvm_sys::prelude::*;
use inkwell::types::FunctionType;
use inkwell::values::{
    AsValueRef, BasicMetadataValueEnum, BasicValueEnum, CallSiteValue, FunctionValue, IntValue, PointerValue,
};
use inkwell::{AddressSpace, AtomicOrdering};

use super::shim::*;
use super::value::cstring;
use super::{Address, Call, Callee, Constant, Instruction, Module, Operand, Type, Word};
use crate::machine::InlineAssembly;

/// Emits instructions before a given one.
pub struct Builder<'m> {
    llvm: LlvmBuilder<'m>,
    /// The module it builds in.
    pub module: Module<'m>,
}

/// inkwell's builder fails without a position, or for values of the wrong kind. Neither happens here.
fn built<T>(result: Result<T, BuilderError>) -> T {
    result.expect("the builder has a position")
}

impl<'m> Builder<'m> {
    pub(super) fn new(module: Module<'m>, llvm: LlvmBuilder<'m>) -> Self {
        Self { llvm, module }
    }

    /// Sets the position to just before `at`. New instructions get the location of `located`.
    pub fn before(&self, at: Instruction<'m>, located: Instruction<'m>) -> &Self {
        at.raw();
        self.llvm.position_before(&at.0);
        // SAFETY: a live instruction, whose location may be null.
        unsafe {
            LLVMSetCurrentDebugLocation2(self.llvm.as_mut_ptr(), LLVMInstructionGetDebugLoc(located.value()));
        }
        self
    }

    /// Sets the position to just before `at`. New instructions are part of the function's prologue.
    pub fn prologue(&self, at: Instruction<'m>) -> &Self {
        at.raw();
        self.llvm.position_before(&at.0);
        self.llvm.unset_current_debug_location();
        self
    }

    /// A structure of words in the function's frame, `size` bytes long. (The stack protector puts arrays of
    /// bytes next to those that may overflow.)
    pub fn alloca(&self, size: u64, name: &str) -> Address<'m> {
        let words = vec![self.module.i64(); size as usize / 8];
        let variable = built(self.llvm.build_alloca(self.module.struct_type(&words), name));
        let block = self.llvm.get_insert_block().and_then(|block| block.get_parent());
        let kind = Attribute::get_named_enum_kind_id("safestack");
        if block.is_some_and(|f| f.get_enum_attribute(AttributeLoc::Function, kind).is_some()) {
            // SAFETY: just made, before an instruction; the result is an address.
            return Address(unsafe { PointerValue::new(pcce_shim_keep_on_stack(variable.as_value_ref())) });
        }
        Address(variable)
    }

    /// Keeps the stores above it from moving below it. This is no instruction: it orders what a signal
    /// handler sees.
    pub fn signal_fence(&self) {
        match self.module.machine().signal_fence() {
            Some(assembly) => {
                self.assembly(self.module.context().void_type().fn_type(&[], false), assembly, &[]);
            }
            None => _ = built(self.llvm.build_fence(AtomicOrdering::Release, true, "")),
        }
    }

    /// The address `base + offset` bytes.
    pub fn offset(&self, base: Address<'m>, offset: u64) -> Address<'m> {
        if offset == 0 {
            return base;
        }
        let byte = self.module.context().i8_type();
        let offset = self.module.const_i64(offset).0;
        // SAFETY: one index into bytes; users of the address stay within the variable.
        Address(built(unsafe { self.llvm.build_in_bounds_gep(byte, base.0, &[offset], "") }))
    }

    fn load(&self, ty: Type<'m>, from: Address<'m>) -> BasicValueEnum<'m> {
        let loaded = built(self.llvm.build_load(ty, from.0, ""));
        // SAFETY: a load that was just made; all our words are aligned.
        unsafe { LLVMSetAlignment(loaded.as_value_ref(), 8) };
        loaded
    }

    pub fn load_word(&self, from: Address<'m>) -> Word<'m> {
        Word(self.load(self.module.i64(), from).into_int_value())
    }

    pub fn load_address(&self, from: Address<'m>) -> Address<'m> {
        Address(self.load(self.module.ptr(), from).into_pointer_value())
    }

    /// Stores a word.
    pub fn store(&self, value: impl Into<Constant<'m>>, to: Address<'m>) {
        let store = built(self.llvm.build_store(to.0, value.into().0));
        store.set_alignment(8).expect("8 is a power of two");
    }

    /// `a + b`, modulo 2⁶⁴.
    pub fn add(&self, a: Word<'m>, b: Word<'m>) -> Word<'m> {
        Word(built(self.llvm.build_int_add::<IntValue<'m>>(a.0, b.0, "")))
    }

    /// Changes a word by assembly: the word is its result and its operand.
    pub fn change_word(&self, assembly: InlineAssembly, word: Address<'m>) {
        let ty = self
            .module
            .context()
            .void_type()
            .fn_type(&[self.module.context().ptr_type(AddressSpace::default()).into(); 2], false);
        let call = self.assembly(ty, assembly, &[word.0.into(), word.0.into()]);
        let kind = Attribute::get_named_enum_kind_id("elementtype");
        let of_word =
            self.module.context().create_type_attribute(kind, self.module.context().i64_type().into());
        (0..2).for_each(|word| call.add_attribute(AttributeLoc::Param(word), of_word));
    }

    /// The result of assembly with one operand.
    pub fn changed_word(&self, assembly: InlineAssembly, word: Word<'m>) -> Word<'m> {
        let i64 = self.module.context().i64_type();
        let call = self.assembly(i64.fn_type(&[i64.into()], false), assembly, &[word.0.into()]);
        // SAFETY: a call that was just made, and returns a word.
        Word(unsafe { IntValue::new(call.as_value_ref()) })
    }

    /// Emits inline assembly that does not throw.
    fn assembly(
        &self,
        ty: FunctionType<'m>,
        assembly: InlineAssembly,
        operands: &[BasicMetadataValueEnum<'m>],
    ) -> CallSiteValue<'m> {
        let context = self.module.context();
        let InlineAssembly { text, constraints, pure } = assembly;
        let code = context.create_inline_asm(ty, text, constraints.to_owned(), !pure, false, None, false);
        let call = built(self.llvm.build_indirect_call(ty, code, operands, ""));
        let kind = Attribute::get_named_enum_kind_id("nounwind");
        call.add_attribute(AttributeLoc::Function, context.create_enum_attribute(kind, 0));
        call
    }

    /// Calls a function of another object.
    pub fn call(&self, callee: Callee<'m>, arguments: &[Address<'m>]) -> Call<'m> {
        let arguments: Vec<BasicMetadataValueEnum<'_>> = arguments.iter().map(|v| v.0.into()).collect();
        let call = built(self.llvm.build_indirect_call(callee.ty, callee.address, &arguments, ""));
        // SAFETY: a call that was just made.
        unsafe { Call::new(call.as_value_ref()) }
    }

    /// Calls a function of another object with a number and an address.
    pub fn call_with_number(&self, callee: Callee<'m>, number: Operand<'m>, address: Address<'m>) {
        // SAFETY: a live value.
        let number = unsafe { IntValue::new(number.raw()) };
        let arguments = [number.into(), address.0.into()];
        built(self.llvm.build_indirect_call(callee.ty, callee.address, &arguments, ""));
    }

    /// Calls the function `name` of another object, which does not throw, with the arguments of `call` and
    /// further ones. It returns what `call` does. Arguments and result may be of any type.
    pub fn call_instead(&self, call: Call<'m>, name: &str, further: &[Constant<'m>]) -> Call<'m> {
        let own = (0..call.argument_count()).filter_map(|i| call.argument(i)).map(|v| v.raw());
        let mut arguments: Vec<LLVMValueRef> =
            own.chain(further.iter().map(|v| v.0.as_value_ref())).collect();
        let count = arguments.len() as u32;
        // SAFETY: live values, and a function type that is made of theirs.
        unsafe {
            let mut types: Vec<LLVMTypeRef> = arguments.iter().map(|&v| LLVMTypeOf(v)).collect();
            let ty = LLVMFunctionType(LLVMTypeOf(call.raw()), types.as_mut_ptr(), count, 0);
            let callee = self.declared(name, ty);
            let builder = self.llvm.as_mut_ptr();
            Call::new(LLVMBuildCall2(builder, ty, callee, arguments.as_mut_ptr(), count, c"".as_ptr()))
        }
    }

    /// Calls the function `name` of another object before an instruction: it returns nothing, and does not
    /// throw. `keeps_registers`: by LLVM's calling convention `preserve_most`.
    pub fn call_in_front_of(
        &self,
        at: Instruction<'m>,
        name: &str,
        arguments: &[Constant<'m>],
        keeps_registers: bool,
    ) {
        let arguments: Vec<LLVMValueRef> = arguments.iter().map(|v| v.0.as_value_ref()).collect();
        let (list, count) = (arguments.as_ptr(), arguments.len());
        // SAFETY: live values; the name is copied.
        unsafe {
            pcce_shim_trace_call(at.raw(), name.as_ptr(), name.len(), list, count, keeps_registers);
        }
    }

    /// The function `name`, which does not throw.
    ///
    /// # Safety
    /// A live function type.
    unsafe fn declared(&self, name: &str, ty: LLVMTypeRef) -> LLVMValueRef {
        let name = cstring(name);
        // SAFETY: live module and type; the name is copied.
        unsafe {
            let old = LLVMGetNamedFunction(self.module.raw(), name.as_ptr());
            if !old.is_null() {
                return old;
            }
            let new = LLVMAddFunction(self.module.raw(), name.as_ptr(), ty);
            let kind = Attribute::get_named_enum_kind_id("nounwind");
            let attribute = self.module.context().create_enum_attribute(kind, 0);
            if let Some(function) = FunctionValue::new(new) {
                function.add_attribute(AttributeLoc::Function, attribute);
            }
            new
        }
    }
}

/// An assembler directive with these bytes.
pub fn byte_directive(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
    format!(".byte {}", bytes.join(","))
}
