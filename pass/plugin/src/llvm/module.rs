//! A module: its parts, and additions to it.

use std::collections::HashSet;
use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;

use inkwell::AddressSpace;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::ContextRef;
use inkwell::llvm_sys::LLVMLinkage;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::module::{Linkage, Module as LlvmModule};
use inkwell::types::{AsTypeRef, BasicMetadataTypeEnum, BasicType};
use inkwell::values::{ArrayValue, AsValueRef, BasicValue};
use inkwell::{GlobalVisibility, ThreadLocalMode};

use pcce_abi::functions::BOUND;

use super::measure::Bitcode;
use super::run::Run;
use super::shim::*;
use super::value::{cstring, list, name, text};
use super::{Address, Alias, Builder, Callee, Constant, Function, Type, Variable, Word};

/// A module, lent for one run of the pass.
#[derive(Clone, Copy)]
pub struct Module<'m>(pub(super) &'m Run);

/// A name whose function is chosen when the program starts.
pub struct Ifunc<'m> {
    pub name: String,
    pub local: bool,
    /// The function that chooses.
    pub resolver: Function<'m>,
}

impl<'m> Module<'m> {
    pub(super) fn raw(self) -> LLVMModuleRef {
        self.0.raw()
    }

    /// inkwell's module. LLVM disposes of it, so it is never dropped.
    pub(super) fn llvm(self) -> ManuallyDrop<LlvmModule<'m>> {
        // SAFETY: live module.
        ManuallyDrop::new(unsafe { LlvmModule::new(self.raw()) })
    }

    pub(super) fn context(self) -> ContextRef<'m> {
        self.llvm().get_context()
    }

    /// The module's identifier, usually the source file.
    pub fn identifier(self) -> String {
        let mut len = 0;
        // SAFETY: live module; the text is copied.
        unsafe { text(LLVMGetModuleIdentifier(self.raw(), &mut len), len) }
    }

    /// The target triple; empty if the module has none.
    pub fn triple(self) -> String {
        // SAFETY: live module, whose triple is text that ends with a zero; it is copied.
        unsafe { CStr::from_ptr(LLVMGetTarget(self.raw())).to_string_lossy().into_owned() }
    }

    /// All functions, in order.
    pub fn functions(self) -> Vec<Function<'m>> {
        self.llvm().get_functions().map(Function).collect()
    }

    /// All aliases, in order.
    pub fn aliases(self) -> Vec<Alias<'m>> {
        // SAFETY: live module.
        let first = unsafe { LLVMGetFirstGlobalAlias(self.raw()) };
        // SAFETY: the list contains aliases.
        list(first, LLVMGetNextGlobalAlias).map(|alias| unsafe { Alias::new(alias) }).collect()
    }

    /// The ifuncs whose resolvers are known.
    pub fn ifuncs(self) -> Vec<Ifunc<'m>> {
        // SAFETY: live module.
        let first = unsafe { LLVMGetFirstGlobalIFunc(self.raw()) };
        // SAFETY: live ifuncs, and their resolvers.
        let of = |ifunc| unsafe {
            let resolver = Function::of(LLVMGetGlobalIFuncResolver(ifunc))?;
            let linkage = LLVMGetLinkage(ifunc);
            let local = matches!(linkage, LLVMLinkage::LLVMInternalLinkage | LLVMLinkage::LLVMPrivateLinkage);
            Some(Ifunc { name: name(ifunc), local, resolver })
        };
        list(first, LLVMGetNextGlobalIFunc).filter_map(of).collect()
    }

    /// The module as it is now, of which copies can be made.
    pub fn bitcode(self) -> Bitcode {
        // SAFETY: live module; the buffer is the result's to dispose of.
        unsafe { Bitcode::new(pcce_shim_write(self.raw()), self.identifier()) }
    }

    /// The names of the functions that code generation for the module's target calls, whatever the module
    /// says.
    pub fn runtime_library_calls(self) -> HashSet<String> {
        extern "C" fn add(names: *mut c_void, name: *const u8, len: usize) {
            // SAFETY: the shim hands on what it got from the call below, with a text.
            unsafe { (*names.cast::<HashSet<String>>()).insert(text(name.cast(), len)) };
        }
        let mut names = HashSet::new();
        // SAFETY: live module; the callback is called with `names` during the call.
        unsafe { pcce_shim_runtime_library_calls(self.raw(), add, (&raw mut names).cast()) };
        names
    }

    /// Reports an error as the compiler's own, so that the compilation fails.
    pub fn emit_error(self, message: &str) {
        // SAFETY: live module; the message is copied.
        unsafe { pcce_shim_emit_error(self.raw(), message.as_ptr(), message.len()) }
    }

    /// Returns whether the module has the named flag.
    pub fn has_flag(self, name: &str) -> bool {
        // SAFETY: live module.
        unsafe { pcce_shim_has_module_flag(self.raw(), name.as_ptr(), name.len()) }
    }

    /// Returns whether there is named metadata of this name.
    pub fn has_named_metadata(self, name: &str) -> bool {
        // SAFETY: live module.
        unsafe { !LLVMGetNamedMetadata(self.raw(), name.as_ptr().cast(), name.len()).is_null() }
    }

    /// Adds empty named metadata.
    pub fn add_named_metadata(self, name: &str) {
        // SAFETY: live module.
        unsafe { LLVMGetOrInsertNamedMetadata(self.raw(), name.as_ptr().cast(), name.len()) };
    }

    /// The assembly of the module.
    pub fn asm(self) -> String {
        let mut len = 0;
        // SAFETY: live module; the text is copied.
        unsafe { text(LLVMGetModuleInlineAsm(self.raw(), &mut len), len) }
    }

    /// Appends assembly to the module.
    pub fn append_asm(self, asm: &str) {
        // SAFETY: live module; the text is copied.
        unsafe { LLVMAppendModuleInlineAsm(self.raw(), asm.as_ptr().cast(), asm.len()) }
    }

    /// The type of integers of 64 bits.
    pub fn i64(self) -> Type<'m> {
        self.context().i64_type().into()
    }

    /// The pointer type.
    pub fn ptr(self) -> Type<'m> {
        self.context().ptr_type(AddressSpace::default()).into()
    }

    /// The type of arrays of `len` bytes.
    pub fn bytes(self, len: u64) -> Type<'m> {
        self.array_type(self.context().i8_type().into(), len)
    }

    /// The type of arrays of `len` elements.
    pub fn array_type(self, element: Type<'m>, len: u64) -> Type<'m> {
        element.array_type(len.try_into().expect("tables have less than 2^32 rows")).into()
    }

    /// The type of [`Module::const_struct`] for fields of these types.
    pub fn struct_type(self, fields: &[Type<'m>]) -> Type<'m> {
        self.context().struct_type(fields, false).into()
    }

    /// An integer constant of 64 bits.
    pub fn const_i64(self, value: u64) -> Word<'m> {
        Word(self.context().i64_type().const_int(value, false))
    }

    /// An integer constant of 32 bits.
    pub fn const_i32(self, value: u32) -> Constant<'m> {
        Constant(self.context().i32_type().const_int(value.into(), false).into())
    }

    /// The null pointer.
    pub fn null(self) -> Address<'m> {
        Address(self.context().ptr_type(AddressSpace::default()).const_null())
    }

    /// The constant address `base + offset` bytes.
    pub fn const_offset(self, base: Address<'m>, offset: u64) -> Address<'m> {
        if offset == 0 {
            return base;
        }
        let (byte, offset) = (self.context().i8_type(), self.const_i64(offset).0);
        // SAFETY: one index into bytes; users of the address stay within the variable.
        Address(unsafe { base.0.const_in_bounds_gep(byte, &[offset]) })
    }

    /// The constant distance from one address to another one, in bytes.
    pub fn const_distance(self, from: Address<'m>, to: Address<'m>) -> Word<'m> {
        let [from, to] = [from, to].map(|address| address.0.const_to_int(self.context().i64_type()));
        Word(to.const_sub(from))
    }

    /// A constant structure. Its only padding is the alignment of its fields' types.
    pub fn const_struct(self, fields: &[Constant<'m>]) -> Constant<'m> {
        let fields: Vec<_> = fields.iter().map(|field| field.0).collect();
        Constant(self.context().const_struct(&fields, false).into())
    }

    /// A constant array of equal structures, or of words.
    pub fn const_array(self, element: Type<'m>, elements: &[Constant<'m>]) -> Constant<'m> {
        let elements: Vec<_> = elements.iter().map(|element| element.0.as_value_ref()).collect();
        // SAFETY: constants; they are of the element type, as all rows of our tables are.
        let array = unsafe { ArrayValue::new_raw_const_array(element.as_type_ref(), &elements) };
        Constant(array.into())
    }

    /// A constant array of bytes with a final zero.
    pub fn const_string(self, s: &[u8]) -> Constant<'m> {
        Constant(self.context().const_string(s, true).into())
    }

    /// A new internal variable, which is zero until it is set with [`Variable::initialize`].
    pub fn add_internal(self, name: &str, ty: Type<'m>, constant: bool) -> Variable<'m> {
        let global = self.llvm().add_global(ty, None, name);
        global.set_linkage(Linkage::Internal);
        global.set_constant(constant);
        global.set_initializer(&ty.const_zero());
        Variable(global)
    }

    /// The thread-local variable `name` of another object: initial-exec, or local-exec where
    /// the code generator finds that the module becomes part of an executable.
    pub fn external_thread_local(self, name: &str, size: u64, align: u32) -> Address<'m> {
        let old = self.llvm().get_global(name);
        let global = old.unwrap_or_else(|| {
            let global = self.llvm().add_global(self.bytes(size), None, name);
            global.set_thread_local_mode(Some(ThreadLocalMode::InitialExecTLSModel));
            global.set_alignment(align);
            // SAFETY: live global.
            unsafe { pcce_shim_set_dso_local(global.as_value_ref()) };
            global
        });
        Address(global.as_pointer_value())
    }

    /// Says how far a thread-local variable is from the thread pointer, for [`find_thread`](Self::find_thread).
    pub fn place_thread_local(self, variable: Address<'m>, offset: u32) {
        // SAFETY: live variable.
        unsafe { pcce_shim_place_thread_local(variable.0.as_value_ref(), offset) };
    }

    /// Replaces the address of a thread-local variable in all code by one that is found anew after each call,
    /// on machines whose code would keep the address of the thread.
    pub fn find_thread(self, variable: Address<'m>) {
        // SAFETY: live module and variable.
        unsafe { pcce_shim_find_thread(self.raw(), variable.0.as_value_ref()) };
    }

    /// The variable `name` of another object.
    pub fn external_variable(self, name: &str, ty: Type<'m>) -> Address<'m> {
        let old = self.llvm().get_global(name);
        Address(old.unwrap_or_else(|| self.llvm().add_global(ty, None, name)).as_pointer_value())
    }

    /// The variable `name` of another object of the same image.
    pub fn hidden_variable(self, name: &str, ty: Type<'m>) -> Address<'m> {
        let global = self.llvm().add_global(ty, None, name);
        global.set_visibility(GlobalVisibility::Hidden);
        Address(global.as_pointer_value())
    }

    /// The word through which the library calls its function of this name, wherever it is defined.
    pub fn bound_word(self, name: &str) -> Variable<'m> {
        let name = format!("{name}{BOUND}");
        let global = self.llvm().get_global(&name).unwrap_or_else(|| {
            let global =
                self.llvm().add_global(self.context().ptr_type(AddressSpace::default()), None, &name);
            global.set_visibility(GlobalVisibility::Hidden);
            global
        });
        Variable(global)
    }

    /// Gives every global a name, by which assembly can refer to it.
    pub fn name_globals(self) {
        // SAFETY: live module.
        unsafe { pcce_shim_name_globals(self.raw()) }
    }

    /// The names in assembly of all that other modules can define or see, sorted.
    pub fn symbol_names(self) -> Vec<String> {
        extern "C" fn add(names: *mut c_void, name: *const u8, len: usize) {
            // SAFETY: the shim hands on what it got from the call below, with a text.
            unsafe { (*names.cast::<Vec<String>>()).push(text(name.cast(), len)) };
        }
        let mut names: Vec<String> = Vec::new();
        // SAFETY: live module; the callback is called with `names` during the call.
        unsafe { pcce_shim_symbol_names(self.raw(), add, (&raw mut names).cast()) };
        names.sort();
        names
    }

    /// Removes debug information.
    pub fn drop_debug(self) {
        // SAFETY: live module; debug records are no handles.
        unsafe { pcce_shim_drop_debug(self.raw()) }
    }

    /// Puts bytes into a section of the object that linkers leave out.
    pub fn embed(self, section: &str, bytes: &[u8]) {
        // SAFETY: live module; the texts are copied.
        unsafe {
            pcce_shim_embed(self.raw(), section.as_ptr(), section.len(), bytes.as_ptr(), bytes.len());
        }
    }

    /// The function `name` of another object, which does not throw.
    pub fn external_function(
        self,
        name: &str,
        result: Option<Type<'m>>,
        parameters: &[Type<'m>],
    ) -> Callee<'m> {
        let parameters: Vec<BasicMetadataTypeEnum<'_>> = parameters.iter().map(|&ty| ty.into()).collect();
        let ty = match result {
            Some(ty) => ty.fn_type(&parameters, false),
            None => self.context().void_type().fn_type(&parameters, false),
        };
        let function = self.llvm().get_function(name).unwrap_or_else(|| {
            let new = self.llvm().add_function(name, ty, None);
            let kind = Attribute::get_named_enum_kind_id("nounwind");
            new.add_attribute(AttributeLoc::Function, self.context().create_enum_attribute(kind, 0));
            new
        });
        Callee { ty, address: function.as_global_value().as_pointer_value() }
    }

    /// Makes the module use the function `replacement` of another object instead of `name` of another object.
    pub fn replace_declaration(self, name: &str, replacement: &str) {
        let Some(old) = self.llvm().get_function(name).map(Function).filter(|f| !f.has_body()) else {
            return;
        };
        match self.llvm().get_function(replacement) {
            Some(new) => old.0.replace_all_uses_with(new),
            None => old.0.as_global_value().set_name(replacement),
        }
    }

    /// A name, local to the object, for this very definition of a function, whichever one the linker chooses.
    /// Assembly knows it as `name`, without the decoration of the function's calling convention
    /// (`vectorcall`).
    pub fn add_private_alias(self, name: &str, function: Function<'m>) -> Alias<'m> {
        let alias = self.add_alias(&format!("\u{1}{name}"), function);
        // SAFETY: a live alias.
        unsafe { LLVMSetLinkage(alias.raw(), LLVMLinkage::LLVMPrivateLinkage) };
        alias
    }

    /// A name by which other objects of the image can refer to this definition of the function.
    pub fn add_hidden_alias(self, name: &str, function: Function<'m>) {
        let declared = self.llvm().get_function(name).map(Function);
        let alias = self.add_alias(name, function);
        // SAFETY: live values of this module; nothing refers to the declaration afterwards.
        unsafe {
            LLVMSetVisibility(alias.raw(), inkwell::llvm_sys::LLVMVisibility::LLVMHiddenVisibility);
            if let Some(declared) = declared {
                LLVMReplaceAllUsesWith(declared.raw(), alias.raw());
                LLVMDeleteFunction(declared.raw());
                LLVMSetValueName2(alias.raw(), name.as_ptr().cast(), name.len());
            }
        }
    }

    fn add_alias(self, name: &str, function: Function<'m>) -> Alias<'m> {
        let name = cstring(name);
        // SAFETY: live module and function; the name is copied.
        unsafe {
            let ty = LLVMGlobalGetValueType(function.raw());
            Alias::new(LLVMAddAlias2(self.raw(), ty, 0, function.raw(), name.as_ptr()))
        }
    }

    /// Keeps a variable that only assembly refers to from being removed by the compiler.
    pub fn keep(self, variable: Variable<'m>) {
        self.keep_all(&[variable.0.as_value_ref()], false);
    }

    /// Keeps aliases that only assembly refers to from being removed by the compiler.
    pub fn keep_aliases(self, aliases: &[Alias<'m>]) {
        let aliases: Vec<LLVMValueRef> = aliases.iter().map(|alias| alias.raw()).collect();
        self.keep_all(&aliases, false);
    }

    /// Keeps functions that only assembly refers to from being removed by the compiler.
    pub fn keep_functions(self, functions: &[Function<'m>]) {
        let functions: Vec<LLVMValueRef> = functions.iter().map(|function| function.raw()).collect();
        self.keep_all(&functions, false);
    }

    /// Keeps a variable that nothing refers to from being removed by the compiler and the linker.
    pub fn retain(self, variable: Variable<'m>) {
        self.keep_all(&[variable.0.as_value_ref()], true);
    }

    fn keep_all(self, globals: &[LLVMValueRef], against_linker: bool) {
        // SAFETY: live globals of the module.
        unsafe { pcce_shim_keep(self.raw(), globals.as_ptr(), globals.len(), against_linker) }
    }

    /// Makes the program call `start` of another object with the argument before its own constructors, and
    /// `end` after its destructors.
    pub fn call_at_start_and_end(self, start: &str, end: &str, argument: Address<'m>) {
        for (name, at_end) in [(start, false), (end, true)] {
            // SAFETY: live module and constant; the name is copied.
            unsafe {
                let argument = argument.0.as_value_ref();
                pcce_shim_call_at(self.raw(), name.as_ptr(), name.len(), argument, at_end);
            }
        }
    }

    /// Replaces each call of the function `name(code, bits, function, node, left)`, of 7 bits at most, by
    /// code that appends the bits to the word `pending`, which stays below 2⁶³. `flush` is called in time.
    /// The section `places` gets a row for the place after the call of `flush`: its address, the address of
    /// the function, whose symbol is `functions` and a number, the node, and the number of bits that are
    /// left. Blocks are split.
    pub fn append_bits(self, name: &str, pending: Address<'m>, flush: &str, places: &str, functions: &str) {
        let pending = pending.0.as_value_ref();
        let [flush, places, functions] = [flush, places, functions].map(cstring);
        let (flush, places, functions) = (flush.as_ptr(), places.as_ptr(), functions.as_ptr());
        // SAFETY: live module and constant, and no handle to these calls, which only
        // `Builder::call_in_front_of` makes.
        unsafe {
            pcce_shim_trace_expand(self.raw(), name.as_ptr(), name.len(), pending, flush, places, functions);
        }
    }

    /// Replaces each call of the function `name(number)` by code that writes the number, of 4 bytes, where
    /// the word `next` points, and advances `next`. `room` is called if `next` has reached `end`. Blocks are
    /// split.
    pub fn write_numbers(self, name: &str, next: Address<'m>, end: Address<'m>, room: &str) {
        let [next, end] = [next, end].map(|address| address.0.as_value_ref());
        let (room, room_len) = (room.as_ptr(), room.len());
        // SAFETY: live module and constants, and no handle to these calls, which only
        // `Builder::call_in_front_of` and `Function::check` make.
        unsafe { pcce_shim_trace_number(self.raw(), name.as_ptr(), name.len(), next, end, room, room_len) }
    }

    /// A builder of instructions.
    pub fn builder(self) -> Builder<'m> {
        Builder::new(self, self.context().create_builder())
    }
}

impl<'m> Variable<'m> {
    pub fn address(self) -> Address<'m> {
        Address(self.0.as_pointer_value())
    }

    /// Puts it into the section of this name, after the parts of other modules.
    pub fn set_section(self, name: &str, align: u32) {
        self.0.set_section(Some(name));
        self.0.set_alignment(align);
    }

    /// Sets its initial value, which is of its type.
    pub fn initialize(self, value: Constant<'m>) {
        self.0.set_initializer(&value.0 as &dyn BasicValue<'m>);
    }
}
