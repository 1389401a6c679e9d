//! The fence around LLVM: handles with safe methods over the C API and the shim.
//!
//! Everything `unsafe` of the crate is here and in the entry points of `lib.rs`. Why the safe methods are
//! sound: handles are made only inside a run of the pass, from a module that LLVM keeps alive
//! and lends to this thread alone, and none outlives the run; nothing here deletes a value
//! but [`Value::erase`] and [`Value::into_call`], which consume the handle of an instruction without uses. Passing a value of the
//! wrong kind is a bug of ours; LLVM's checked casts in debug builds and the module
//! verifier find it. Handles into a [`ModuleCopy`] are not used after it.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char, c_void};

use crate::error::Error;
use crate::facts::SourceLocation;
use llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use llvm_sys::core::*;
use llvm_sys::debuginfo::LLVMInstructionGetDebugLoc;
use llvm_sys::prelude::*;
use llvm_sys::{
    LLVMAtomicOrdering, LLVMAttributeFunctionIndex, LLVMLinkage, LLVMModule, LLVMOpcode, LLVMTailCallKind,
    LLVMThreadLocalMode,
};

type LocationCallback =
    extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize, *const u8, usize, u32, u32);

type CallCallback = extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize, bool, i64);
type TextCallback = extern "C" fn(*mut c_void, *const u8, usize);

unsafe extern "C" {
    fn pcce_shim_register(builder: *mut c_void);
    fn pcce_shim_llvm_version() -> *const c_char;
    fn pcce_shim_branch_probabilities(analyses: *mut c_void, f: LLVMValueRef, out: *mut f64);
    fn pcce_shim_block_frequencies(analyses: *mut c_void, function: LLVMValueRef, out: *mut f64);
    fn pcce_shim_locations(instruction: LLVMValueRef, callback: LocationCallback, context: *mut c_void);
    fn pcce_shim_split_edge(from: LLVMBasicBlockRef, to: LLVMBasicBlockRef) -> LLVMBasicBlockRef;
    fn pcce_shim_unique_predecessor(block: LLVMBasicBlockRef) -> LLVMBasicBlockRef;
    fn pcce_shim_invoke_to_call(invoke: LLVMValueRef) -> LLVMValueRef;
    fn pcce_shim_catch_escapes(analyses: *mut c_void, function: LLVMValueRef);
    fn pcce_shim_linkage_facts(value: LLVMValueRef) -> u32;
    fn pcce_shim_set_dso_local(value: LLVMValueRef);
    fn pcce_shim_keep(module: LLVMModuleRef, values: *const LLVMValueRef, count: usize, against_linker: bool);
    fn pcce_shim_call_at(
        module: LLVMModuleRef,
        name: *const u8,
        len: usize,
        argument: LLVMValueRef,
        end: bool,
    );
    fn pcce_shim_emit_error(module: LLVMModuleRef, message: *const u8, len: usize);
    fn pcce_shim_has_module_flag(module: LLVMModuleRef, name: *const u8, len: usize) -> bool;
    fn pcce_shim_source_name(function: LLVMValueRef, len: *mut usize) -> *const c_char;
    fn pcce_shim_use_count(value: LLVMValueRef) -> usize;
    fn pcce_shim_entry_count(function: LLVMValueRef) -> f64;
    fn pcce_shim_make_thunk(function: LLVMValueRef, name: *const u8, len: usize) -> LLVMValueRef;
    fn pcce_shim_divert(
        function: LLVMValueRef,
        thunk: LLVMValueRef,
        id: LLVMValueRef,
        top: LLVMValueRef,
        tag: u64,
    );
    fn pcce_shim_keep_on_stack(variable: LLVMValueRef) -> LLVMValueRef;
    fn pcce_shim_has_address_taken(function: LLVMValueRef) -> bool;
    fn pcce_shim_is_sibling_call(instruction: LLVMValueRef) -> bool;
    fn pcce_shim_keep_tail_call(call: LLVMValueRef);
    fn pcce_shim_mark_left(
        call: LLVMValueRef,
        id: LLVMValueRef,
        top: LLVMValueRef,
        tag: u64,
        offset: u64,
        thread: LLVMValueRef,
        mark: u8,
    );
    fn pcce_shim_is_kept_tail_call(call: LLVMValueRef) -> bool;
    fn pcce_shim_compare_target(analyses: *mut c_void, call: LLVMValueRef, callee: LLVMValueRef) -> bool;
    fn pcce_shim_pointer_kind(call: LLVMValueRef) -> u32;
    fn pcce_shim_address_places(function: LLVMValueRef) -> u32;
    fn pcce_shim_is_compared(call: LLVMValueRef) -> bool;
    fn pcce_shim_can_go_through_thunk(call: LLVMValueRef) -> bool;
    fn pcce_shim_is_interrupt_handler(function: LLVMValueRef) -> bool;
    fn pcce_shim_can_be_diverted(function: LLVMValueRef) -> bool;
    fn pcce_shim_unless_null(
        call: LLVMValueRef,
        pointer: LLVMValueRef,
        otherwise: LLVMValueRef,
    ) -> LLVMValueRef;
    fn pcce_shim_looks_at_caller(function: LLVMValueRef) -> bool;
    fn pcce_shim_make_push_thunk(call: LLVMValueRef, name: *const u8, len: usize) -> LLVMValueRef;
    fn pcce_shim_requires_stack_protector(function: LLVMValueRef) -> bool;
    fn pcce_shim_runtime_library_calls(
        module: LLVMModuleRef,
        on_name: extern "C" fn(*mut c_void, *const u8, usize),
        context: *mut c_void,
    );
    fn pcce_shim_insert_late_calls(analyses: *mut c_void, module: LLVMModuleRef) -> bool;
    fn pcce_shim_write(module: LLVMModuleRef) -> LLVMMemoryBufferRef;
    fn pcce_shim_read(bitcode: LLVMMemoryBufferRef, name: *const u8, len: usize) -> LLVMModuleRef;
    fn pcce_shim_dispose_copy(analyses: *mut c_void, module: LLVMModuleRef);
    fn pcce_shim_frame_offsets(
        analyses: *mut c_void,
        module: LLVMModuleRef,
        level: u32,
        no_pie: bool,
        on_call: CallCallback,
        on_error: TextCallback,
        context: *mut c_void,
    ) -> bool;
}

/// Registers the pass with a `llvm::PassBuilder`.
///
/// # Safety
/// `builder` is the pass builder that LLVM handed to the plugin.
pub unsafe fn register(builder: *mut c_void) {
    // SAFETY: by the contract.
    unsafe { pcce_shim_register(builder) }
}

/// The version of LLVM whose headers the plugin was built with.
pub fn version() -> &'static str {
    // SAFETY: a string literal of the shim.
    unsafe { CStr::from_ptr(pcce_shim_llvm_version()) }.to_str().unwrap_or("?")
}

/// The version of LLVM that is running.
pub fn host_version() -> String {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: three words of ours. Every LLVM from 16 on has the function.
    unsafe { LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    format!("{major}.{minor}.{patch}")
}

/// The analyses that LLVM lends to one run of the pass.
#[derive(Clone, Copy)]
pub struct Analyses(*mut c_void);

/// A module, lent for one run of the pass.
#[derive(Clone, Copy)]
pub struct Module(LLVMModuleRef);

/// A value: function, global, constant or instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Value(LLVMValueRef);

/// A basic block.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block(LLVMBasicBlockRef);

/// A type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type(LLVMTypeRef);

/// What linkage and visibility say about a global value.
#[derive(Clone, Copy)]
pub struct LinkageFacts {
    /// Internal or private.
    pub local: bool,
    /// The definition in this module is the one that runs: no other may replace it at link or load time.
    pub exact: bool,
    /// Member of a comdat group.
    pub comdat: bool,
    /// There is no definition in this module, or only one for the optimiser (`available_externally`).
    pub declaration: bool,
}

/// How a call relates to the caller's frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TailCall {
    /// No marker, or `notail`.
    None,
    /// `tail`: may become a tail call.
    May,
    /// `musttail`: the language guarantees it. Or the pass keeps it one ([`Value::keep_tail_call`]).
    Must,
}

impl Analyses {
    /// # Safety
    /// `raw` is the `FunctionAnalysisManager` of the running pass.
    pub unsafe fn new(raw: *mut c_void) -> Self {
        Self(raw)
    }

    /// Gives `function`, if code of other modules can call it, a landing pad for the exceptions that leave it: all its
    /// calls that may throw become invokes.
    pub fn catch_escapes(self, function: Value) {
        // SAFETY: a live function with a body, the running pass's analyses.
        unsafe { pcce_shim_catch_escapes(self.0, function.0) }
    }

    /// Calls the function directly where the call's pointer is its address; the call itself remains for other targets. Returns whether
    /// that can be.
    pub fn compare_target(self, call: Value, callee: Value) -> bool {
        // SAFETY: the function analyses of the running pass manager; a live call and a live function.
        unsafe { pcce_shim_compare_target(self.0, call.0, callee.0) }
    }

    /// Executions of each block of `function`, in block order, for one execution of it.
    pub fn block_frequencies(self, function: Value) -> Vec<f64> {
        // SAFETY: the shim writes one number for each block.
        unsafe {
            let mut out = vec![0.0; LLVMCountBasicBlocks(function.0) as usize];
            pcce_shim_block_frequencies(self.0, function.0, out.as_mut_ptr());
            out
        }
    }

    /// How likely each way out of each block of `function` is: of all blocks, in block order, for each successor.
    pub fn branch_probabilities(self, function: Value) -> Vec<f64> {
        let ends = function.blocks().into_iter().map(Block::terminator);
        // SAFETY: the shim writes one number for each successor.
        unsafe {
            let mut out = vec![0.0; ends.map(|end| LLVMGetNumSuccessors(end.0) as usize).sum()];
            pcce_shim_branch_probabilities(self.0, function.0, out.as_mut_ptr());
            out
        }
    }
}

/// A module as bitcode, of which copies are made.
pub struct Bitcode {
    buffer: LLVMMemoryBufferRef,
    identifier: String,
}

impl Drop for Bitcode {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again.
        unsafe { LLVMDisposeMemoryBuffer(self.buffer) }
    }
}

impl Bitcode {
    /// A copy of the module, in a context of its own: what LLVM has to say of it nobody is told, and all of it ends with it.
    ///
    /// # Errors
    /// LLVM does not read what it wrote.
    pub fn copy(&self, analyses: Analyses) -> Result<ModuleCopy, Error> {
        // SAFETY: live bitcode; the name is copied.
        let raw = unsafe { pcce_shim_read(self.buffer, self.identifier.as_ptr(), self.identifier.len()) };
        if raw.is_null() {
            return Err(Error::NoCode { said: "LLVM cannot read the module that it wrote".to_owned() });
        }
        Ok(ModuleCopy { module: Module(raw), analyses })
    }
}

/// How code is generated.
#[derive(Clone, Copy)]
pub struct CodeGeneration {
    /// The code generator's level, 0 to 3.
    pub level: u32,
    /// The code is for an executable that is not position-independent; else the module's flags tell.
    pub no_pie: bool,
}

/// A copy of a module, to be changed and measured. Handles into it end with it.
pub struct ModuleCopy {
    module: Module,
    analyses: Analyses,
}

impl Drop for ModuleCopy {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again.
        unsafe { pcce_shim_dispose_copy(self.analyses.0, self.module.0) }
    }
}

/// How far the stack pointer is below a function's canonical frame address when it calls: its *frame offset*.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameOffset {
    /// So many bytes, whichever call is made. (Calls that became jumps do not count, and those of inline
    /// assembly are not seen.)
    Fixed(u32),
    /// So many at each call, but not the same at all of them: some have arguments on the stack.
    ByCall,
    /// The unwind tables do not count from the stack pointer, or there are none: frames with `alloca`, large alignments, a frame pointer. It may be
    /// another one each time.
    Unknown,
}

impl ModuleCopy {
    /// The module.
    pub fn module(&self) -> Module {
        self.module
    }

    /// Generates the copy's code, and says what its calls do to the stack.
    ///
    /// # Errors
    /// LLVM cannot generate the code: why.
    pub fn measure(self, code: CodeGeneration) -> Result<Measured, Error> {
        #[derive(Default)]
        struct Found {
            measured: Measured,
            calls: HashSet<(String, String)>,
            error: String,
        }
        extern "C" fn on_call(
            found: *mut c_void,
            name: *const u8,
            len: usize,
            callee: *const u8,
            callee_len: usize,
            jump: bool,
            offset: i64,
        ) {
            // SAFETY: the shim hands on what it got from the call below, with two texts.
            let (found, name, callee) = unsafe {
                let callee = if callee_len > 0 { text(callee.cast(), callee_len) } else { String::new() };
                (&mut *found.cast::<Found>(), text(name.cast(), len), callee)
            };
            if !jump {
                let new = u32::try_from(offset).map_or(FrameOffset::Unknown, FrameOffset::Fixed);
                let all = found.measured.offsets.entry(name.clone()).or_insert(new);
                if *all != new {
                    let unknown = [*all, new].contains(&FrameOffset::Unknown);
                    *all = if unknown { FrameOffset::Unknown } else { FrameOffset::ByCall };
                }
            }
            let set = if jump { &mut found.measured.jumps } else { &mut found.calls };
            set.insert((name, callee));
        }
        extern "C" fn on_error(found: *mut c_void, message: *const u8, len: usize) {
            // SAFETY: as above.
            unsafe { (*found.cast::<Found>()).error = text(message.cast(), len) };
        }
        let mut found = Found::default();
        let context = (&raw mut found).cast();
        // SAFETY: a live module of ours, which is not used after that; the callbacks are called with `found` during the call.
        let done = unsafe {
            let CodeGeneration { level, no_pie } = code;
            let (module, level) = (self.module.0, level.min(3));
            pcce_shim_frame_offsets(self.analyses.0, module, level, no_pie, on_call, on_error, context)
        };
        let Found { mut measured, calls, error } = found;
        measured.jumps.retain(|jump| !calls.contains(jump));
        if done { Ok(measured) } else { Err(Error::NoCode { said: error }) }
    }
}

/// What the calls of a module do to the stack, in the code that LLVM generates.
#[derive(Default)]
pub struct Measured {
    /// The frame offset of each function in which a call was left, by the function's name.
    pub offsets: HashMap<String, FrameOffset>,
    /// Callers and callees where each call became a jump, by their names; an empty one for calls through pointers.
    pub jumps: HashSet<(String, String)>,
}

/// Elements of one of LLVM's linked lists.
fn list<T>(first: *mut T, next: unsafe extern "C" fn(*mut T) -> *mut T) -> impl Iterator<Item = *mut T> {
    let some = |p: *mut T| (!p.is_null()).then_some(p);
    // SAFETY: the list belongs to a live module and is not changed while it is read.
    std::iter::successors(some(first), move |&p| some(unsafe { next(p) }))
}

impl Module {
    /// # Safety
    /// `raw` is a live module that this thread may change for as long as the handle is used.
    pub unsafe fn new(raw: *mut LLVMModule) -> Self {
        Self(raw)
    }

    fn context(self) -> LLVMContextRef {
        // SAFETY: live module.
        unsafe { LLVMGetModuleContext(self.0) }
    }

    /// The module's identifier, usually the source file.
    pub fn identifier(self) -> String {
        let mut len = 0;
        // SAFETY: live module; the text is copied.
        unsafe { text(LLVMGetModuleIdentifier(self.0, &mut len), len) }
    }

    /// All functions, in order.
    pub fn functions(self) -> Vec<Value> {
        // SAFETY: live module.
        list(unsafe { LLVMGetFirstFunction(self.0) }, LLVMGetNextFunction).map(Value).collect()
    }

    /// All aliases, in order.
    pub fn aliases(self) -> Vec<Value> {
        // SAFETY: live module.
        list(unsafe { LLVMGetFirstGlobalAlias(self.0) }, LLVMGetNextGlobalAlias).map(Value).collect()
    }

    /// The functions that choose the targets of ifuncs.
    pub fn ifunc_resolvers(self) -> Vec<Value> {
        // SAFETY: live module.
        list(unsafe { LLVMGetFirstGlobalIFunc(self.0) }, LLVMGetNextGlobalIFunc)
            // SAFETY: live ifuncs.
            .map(|ifunc| Value(unsafe { LLVMGetGlobalIFuncResolver(ifunc) }))
            .collect()
    }

    /// The module as it is now, of which copies can be made.
    pub fn bitcode(self) -> Bitcode {
        // SAFETY: live module; the buffer is ours to dispose of.
        Bitcode { buffer: unsafe { pcce_shim_write(self.0) }, identifier: self.identifier() }
    }

    /// The names of the functions that code generation for the module's target calls, whatever the module says.
    pub fn runtime_library_calls(self) -> HashSet<String> {
        extern "C" fn add(names: *mut c_void, name: *const u8, len: usize) {
            // SAFETY: the shim hands on what it got from the call below, with a text.
            unsafe { (*names.cast::<HashSet<String>>()).insert(text(name.cast(), len)) };
        }
        let mut names = HashSet::new();
        // SAFETY: live module; the callback is called with `names` during the call.
        unsafe { pcce_shim_runtime_library_calls(self.0, add, (&raw mut names).cast()) };
        names
    }

    /// Inserts calls that code generation would insert: of functions' hooks (`mcount`, `__cyg_profile_func_enter`) after inlining, and
    /// of functions that take the place of traps. Returns whether there are any.
    pub fn insert_late_calls(self, analyses: Analyses) -> bool {
        // SAFETY: live module and analyses.
        unsafe { pcce_shim_insert_late_calls(analyses.0, self.0) }
    }

    /// Reports an error as the compiler's own, which makes the compilation fail.
    pub fn emit_error(self, message: &str) {
        // SAFETY: live module; the message is copied.
        unsafe { pcce_shim_emit_error(self.0, message.as_ptr(), message.len()) }
    }

    /// Whether the module has the named flag.
    pub fn has_flag(self, name: &str) -> bool {
        // SAFETY: live module.
        unsafe { pcce_shim_has_module_flag(self.0, name.as_ptr(), name.len()) }
    }

    /// Whether there is named metadata of this name.
    pub fn has_named_metadata(self, name: &str) -> bool {
        // SAFETY: live module.
        unsafe { !LLVMGetNamedMetadata(self.0, name.as_ptr().cast(), name.len()).is_null() }
    }

    /// Adds empty named metadata.
    pub fn add_named_metadata(self, name: &str) {
        // SAFETY: live module.
        unsafe { LLVMGetOrInsertNamedMetadata(self.0, name.as_ptr().cast(), name.len()) };
    }

    /// Appends assembly to the module.
    pub fn append_asm(self, asm: &str) {
        // SAFETY: live module; the text is copied.
        unsafe { LLVMAppendModuleInlineAsm(self.0, asm.as_ptr().cast(), asm.len()) }
    }

    /// What LLVM's verifier says against the module.
    pub fn verify(self) -> Result<(), Error> {
        let mut message = std::ptr::null_mut();
        // SAFETY: live module; the message is ours to dispose of.
        unsafe {
            let action = LLVMVerifierFailureAction::LLVMReturnStatusAction;
            let broken = LLVMVerifyModule(self.0, action, &mut message) != 0;
            let said = if message.is_null() {
                String::new()
            } else {
                CStr::from_ptr(message).to_string_lossy().into_owned()
            };
            LLVMDisposeMessage(message);
            if broken { Err(Error::Broken { said }) } else { Ok(()) }
        }
    }

    /// The type of integers of 64 bits.
    pub fn i64(self) -> Type {
        // SAFETY: live context.
        Type(unsafe { LLVMInt64TypeInContext(self.context()) })
    }

    /// The pointer type.
    pub fn ptr(self) -> Type {
        // SAFETY: live context.
        Type(unsafe { LLVMPointerTypeInContext(self.context(), 0) })
    }

    /// The void type.
    pub fn void(self) -> Type {
        // SAFETY: live context.
        Type(unsafe { LLVMVoidTypeInContext(self.context()) })
    }

    /// The type of arrays of `len` bytes.
    pub fn bytes(self, len: u64) -> Type {
        // SAFETY: live context.
        Type(unsafe { LLVMArrayType2(LLVMInt8TypeInContext(self.context()), len) })
    }

    /// An integer constant of 64 bits.
    pub fn const_i64(self, value: u64) -> Value {
        // SAFETY: live type.
        Value(unsafe { LLVMConstInt(self.i64().0, value, 0) })
    }

    /// The null pointer.
    pub fn null(self) -> Value {
        // SAFETY: live type.
        Value(unsafe { LLVMConstNull(self.ptr().0) })
    }

    /// The constant address `base + offset` bytes.
    pub fn const_offset(self, base: Value, offset: u64) -> Value {
        if offset == 0 {
            return base;
        }
        // SAFETY: live values of the right types.
        unsafe {
            let byte = LLVMInt8TypeInContext(self.context());
            Value(LLVMConstInBoundsGEP2(byte, base.0, &mut self.const_i64(offset).0, 1))
        }
    }

    /// A constant structure without padding between the fields but what their types ask for.
    pub fn const_struct(self, fields: &[Value]) -> Value {
        let mut fields: Vec<LLVMValueRef> = fields.iter().map(|v| v.0).collect();
        // SAFETY: live constants.
        Value(unsafe {
            LLVMConstStructInContext(self.context(), fields.as_mut_ptr(), fields.len() as u32, 0)
        })
    }

    /// A constant array of equal structures.
    pub fn const_array(self, element: Type, elements: &[Value]) -> Value {
        let mut elements: Vec<LLVMValueRef> = elements.iter().map(|v| v.0).collect();
        // SAFETY: live constants of the element type.
        Value(unsafe { LLVMConstArray2(element.0, elements.as_mut_ptr(), elements.len() as u64) })
    }

    /// The type of [`Module::const_struct`] for fields of these types.
    pub fn struct_type(self, fields: &[Type]) -> Type {
        let mut fields: Vec<LLVMTypeRef> = fields.iter().map(|t| t.0).collect();
        // SAFETY: live types.
        Type(unsafe { LLVMStructTypeInContext(self.context(), fields.as_mut_ptr(), fields.len() as u32, 0) })
    }

    /// A constant array of bytes with a final zero.
    pub fn const_string(self, s: &[u8]) -> Value {
        // SAFETY: live context; the text is copied.
        Value(unsafe { LLVMConstStringInContext2(self.context(), s.as_ptr().cast(), s.len(), 0) })
    }

    /// A new internal variable. Without initial value it stays to be set with [`Value::initialize`].
    pub fn add_internal(self, name: &str, ty: Type, constant: bool) -> Value {
        let name = cstring(name);
        // SAFETY: live module; the name is copied.
        unsafe {
            let global = LLVMAddGlobal(self.0, ty.0, name.as_ptr());
            LLVMSetLinkage(global, LLVMLinkage::LLVMInternalLinkage);
            LLVMSetGlobalConstant(global, constant.into());
            LLVMSetInitializer(global, LLVMConstNull(ty.0));
            Value(global)
        }
    }

    /// The thread-local variable `name` of another object: initial-exec, or local-exec where
    /// the code generator finds that the module becomes part of an executable.
    pub fn external_thread_local(self, name: &str, size: u64, align: u32) -> Value {
        let name = cstring(name);
        // SAFETY: live module; the name is copied.
        unsafe {
            let old = LLVMGetNamedGlobal(self.0, name.as_ptr());
            if !old.is_null() {
                return Value(old);
            }
            let global = LLVMAddGlobal(self.0, self.bytes(size).0, name.as_ptr());
            LLVMSetThreadLocalMode(global, LLVMThreadLocalMode::LLVMInitialExecTLSModel);
            LLVMSetAlignment(global, align);
            pcce_shim_set_dso_local(global);
            Value(global)
        }
    }

    /// The variable `name` of another object.
    pub fn external_variable(self, name: &str, ty: Type) -> Value {
        let name = cstring(name);
        // SAFETY: live module; the name is copied.
        unsafe {
            let old = LLVMGetNamedGlobal(self.0, name.as_ptr());
            Value(if old.is_null() { LLVMAddGlobal(self.0, ty.0, name.as_ptr()) } else { old })
        }
    }

    /// The function `name` of another object, and its type.
    pub fn external_function(self, name: &str, result: Type, parameters: &[Type]) -> Callee {
        let name = cstring(name);
        let mut parameters: Vec<LLVMTypeRef> = parameters.iter().map(|t| t.0).collect();
        // SAFETY: live module and types; the name is copied.
        unsafe {
            let ty = LLVMFunctionType(result.0, parameters.as_mut_ptr(), parameters.len() as u32, 0);
            let old = LLVMGetNamedFunction(self.0, name.as_ptr());
            let function = if old.is_null() {
                let new = LLVMAddFunction(self.0, name.as_ptr(), ty);
                let attribute = LLVMCreateEnumAttribute(self.context(), attribute_kind("nounwind"), 0);
                LLVMAddAttributeAtIndex(new, LLVMAttributeFunctionIndex, attribute);
                new
            } else {
                old
            };
            Callee { function: Value(function), ty: Type(ty) }
        }
    }

    /// Lets the module use the function `replacement` of another object wherever it uses `name` of another object.
    pub fn replace_declaration(self, name: &str, replacement: &str) {
        let (name, replacement) = (cstring(name), cstring(replacement));
        // SAFETY: live module; the names are copied.
        unsafe {
            let old = LLVMGetNamedFunction(self.0, name.as_ptr());
            if old.is_null() || LLVMIsDeclaration(old) == 0 {
                return;
            }
            let new = LLVMGetNamedFunction(self.0, replacement.as_ptr());
            if new.is_null() {
                LLVMSetValueName2(old, replacement.as_ptr(), replacement.as_bytes().len());
            } else {
                LLVMReplaceAllUsesWith(old, new);
            }
        }
    }

    /// A name for a function that ends with the object: of this very definition, whichever one the linker chooses. Assembly
    /// knows it as `name`: what the function's calling convention adds to names (`vectorcall`) is not added.
    pub fn add_private_alias(self, name: &str, function: Value) -> Value {
        let name = cstring(&format!("\u{1}{name}"));
        // SAFETY: live module and function; the name is copied.
        unsafe {
            let ty = LLVMGlobalGetValueType(function.0);
            let alias = LLVMAddAlias2(self.0, ty, 0, function.0, name.as_ptr());
            LLVMSetLinkage(alias, LLVMLinkage::LLVMPrivateLinkage);
            Value(alias)
        }
    }

    /// Keeps globals that only assembly refers to, as far as the compiler goes.
    pub fn keep(self, globals: &[Value]) {
        let globals: Vec<LLVMValueRef> = globals.iter().map(|g| g.0).collect();
        // SAFETY: live globals of the module.
        unsafe { pcce_shim_keep(self.0, globals.as_ptr(), globals.len(), false) }
    }

    /// Lets the program call `start` of another object with the argument before its own constructors, and `end` behind its
    /// destructors.
    pub fn call_at_start_and_end(self, start: &str, end: &str, argument: Value) {
        for (name, at_end) in [(start, false), (end, true)] {
            // SAFETY: live module and constant; the name is copied.
            unsafe { pcce_shim_call_at(self.0, name.as_ptr(), name.len(), argument.0, at_end) }
        }
    }

    /// Keeps a global that nothing refers to, against the linker too.
    pub fn retain(self, global: Value) {
        // SAFETY: live global of the module.
        unsafe { pcce_shim_keep(self.0, &global.0, 1, true) }
    }

    /// The type of arrays of `len` elements.
    pub fn array_type(self, element: Type, len: u64) -> Type {
        // SAFETY: live type.
        Type(unsafe { LLVMArrayType2(element.0, len) })
    }

    /// A builder of instructions.
    pub fn builder(self) -> Builder {
        // SAFETY: live context.
        Builder { raw: unsafe { LLVMCreateBuilderInContext(self.context()) }, module: self }
    }
}

/// A function to call, with its type.
#[derive(Clone, Copy)]
pub struct Callee {
    /// The function.
    pub function: Value,
    ty: Type,
}

fn cstring(s: &str) -> std::ffi::CString {
    std::ffi::CString::new(s).expect("names of ours have no zero byte")
}

unsafe fn text(start: *const c_char, len: usize) -> String {
    // SAFETY: by the caller: `len` readable bytes.
    let bytes = if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) } };
    String::from_utf8_lossy(bytes).into_owned()
}

fn attribute_kind(name: &str) -> u32 {
    // SAFETY: a plain lookup.
    unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) }
}

impl Value {
    /// The value's name.
    pub fn name(self) -> String {
        let mut len = 0;
        // SAFETY: live value; the text is copied.
        unsafe { text(LLVMGetValueName2(self.0, &mut len), len) }
    }

    /// The value's type.
    pub fn ty(self) -> Type {
        // SAFETY: live value.
        Type(unsafe { LLVMTypeOf(self.0) })
    }

    /// The linkage name of the function in its source, where debug information has it: link-time optimisation renames
    /// local functions of equal names.
    pub fn source_name(self) -> Option<String> {
        let mut len = 0;
        // SAFETY: live function; the text is copied.
        let name = unsafe { text(pcce_shim_source_name(self.0, &mut len), len) };
        (!name.is_empty()).then_some(name)
    }

    /// Whether the function has a body.
    pub fn has_body(self) -> bool {
        // SAFETY: live function.
        unsafe { LLVMIsDeclaration(self.0) == 0 }
    }

    /// Linkage facts of a global value.
    pub fn linkage(self) -> LinkageFacts {
        // SAFETY: live global value.
        let bits = unsafe { pcce_shim_linkage_facts(self.0) };
        LinkageFacts {
            local: bits & 1 != 0,
            exact: bits & 2 != 0,
            comdat: bits & 4 != 0,
            declaration: bits & 8 != 0,
        }
    }

    /// Whether the machine calls the function where it interrupts a program (`__attribute__((interrupt))`).
    pub fn is_interrupt_handler(self) -> bool {
        // SAFETY: live function.
        unsafe { pcce_shim_is_interrupt_handler(self.0) }
    }

    /// Whether [`Value::divert`] can be: not a variadic function, nor one whose calling convention forbids the call or the
    /// jump.
    pub fn can_be_diverted(self) -> bool {
        // SAFETY: live function.
        unsafe { pcce_shim_can_be_diverted(self.0) }
    }

    /// A new local function with the same signature that calls this one and returns what it returns. Returns the call, an
    /// invoke if exceptions may leave the function.
    pub fn thunk(self, name: &str) -> Value {
        // SAFETY: live function that can be diverted; `name` is copied.
        Value(unsafe { pcce_shim_make_thunk(self.0, name.as_ptr(), name.len()) })
    }

    /// Makes the function jump to `thunk` at its entry if the word at the address `id` is positive, or the one at `top` has a bit of `tag`.
    pub fn divert(self, thunk: Value, id: Value, top: Value, tag: u64) {
        // SAFETY: live functions of one signature, and the addresses of words.
        unsafe { pcce_shim_divert(self.0, thunk.0, id.0, top.0, tag) }
    }

    /// In front of a tail call: writes `mark` at `offset` in the frame to which the word `top` leads, or to the byte
    /// `thread` if there is none.
    /// With the address of an id, only where that is 0 and the link does not have `tag`; then the block is split.
    pub fn mark_left(
        self,
        id: Option<Value>,
        (top, tag): (Value, u64),
        offset: u64,
        thread: Value,
        mark: u8,
    ) {
        let id = id.map_or(std::ptr::null_mut(), |id| id.0);
        // SAFETY: a live call, and the addresses of words and a byte.
        unsafe { pcce_shim_mark_left(self.0, id, top.0, tag, offset, thread.0, mark) }
    }

    /// The function that contains the instruction.
    pub fn function(self) -> Value {
        // SAFETY: live instruction in a function.
        Value(unsafe { LLVMGetBasicBlockParent(LLVMGetInstructionParent(self.0)) })
    }

    /// The function that the unwinder calls for frames of this one.
    pub fn personality(self) -> Option<Value> {
        // SAFETY: live function.
        unsafe { (LLVMHasPersonalityFn(self.0) != 0).then(|| Value(LLVMGetPersonalityFn(self.0))) }
    }

    /// Executions of the function in the profile, if there is one (`-fprofile-use`).
    pub fn entry_count(self) -> Option<f64> {
        // SAFETY: live function.
        Some(unsafe { pcce_shim_entry_count(self.0) }).filter(|count| *count >= 0.0)
    }

    /// Number of uses.
    pub fn use_count(self) -> usize {
        // SAFETY: live value.
        unsafe { pcce_shim_use_count(self.0) }
    }

    /// Whether the function has the enum attribute.
    pub fn has_attribute(self, name: &str) -> bool {
        // SAFETY: live function.
        unsafe {
            !LLVMGetEnumAttributeAtIndex(self.0, LLVMAttributeFunctionIndex, attribute_kind(name)).is_null()
        }
    }

    /// Removes an enum attribute from the function.
    pub fn remove_attribute(self, name: &str) {
        // SAFETY: live function.
        unsafe { LLVMRemoveEnumAttributeAtIndex(self.0, LLVMAttributeFunctionIndex, attribute_kind(name)) }
    }

    /// Keeps a function that has no use for a stack protector as it is from being guarded for the sake of what is added to its frame
    /// afterwards. (`-fstack-protector-strong` guards every function that lets an address of its frame escape.)
    pub fn decide_on_stack_protector(self) {
        // SAFETY: live function.
        if !unsafe { pcce_shim_requires_stack_protector(self.0) } {
            self.remove_attribute("ssp");
            self.remove_attribute("sspstrong");
        }
    }

    /// Whether the call site itself (not the callee) has the enum attribute.
    pub fn call_has_attribute(self, name: &str) -> bool {
        // SAFETY: live call.
        unsafe {
            !LLVMGetCallSiteEnumAttribute(self.0, LLVMAttributeFunctionIndex, attribute_kind(name)).is_null()
        }
    }

    /// Adds an enum attribute without a value to the call site.
    pub fn add_call_attribute(self, name: &str) {
        // SAFETY: live call, and the context that it lives in.
        unsafe {
            let context = LLVMGetTypeContext(LLVMTypeOf(self.0));
            let attribute = LLVMCreateEnumAttribute(context, attribute_kind(name), 0);
            LLVMAddCallSiteAttribute(self.0, LLVMAttributeFunctionIndex, attribute);
        }
    }

    /// Removes an enum attribute from the call site.
    pub fn remove_call_attribute(self, name: &str) {
        // SAFETY: live call.
        unsafe { LLVMRemoveCallSiteEnumAttribute(self.0, LLVMAttributeFunctionIndex, attribute_kind(name)) }
    }

    /// The function's blocks, in order.
    pub fn blocks(self) -> Vec<Block> {
        // SAFETY: live function.
        list(unsafe { LLVMGetFirstBasicBlock(self.0) }, LLVMGetNextBasicBlock).map(Block).collect()
    }

    /// The instruction's opcode.
    pub fn opcode(self) -> LLVMOpcode {
        // SAFETY: live instruction.
        unsafe { LLVMGetInstructionOpcode(self.0) }
    }

    /// The instruction in front of this one in its block.
    pub fn previous(self) -> Option<Value> {
        // SAFETY: live instruction.
        let previous = unsafe { LLVMGetPreviousInstruction(self.0) };
        (!previous.is_null()).then_some(Value(previous))
    }

    /// Whether it is an instruction that loads.
    pub fn is_load(self) -> bool {
        // SAFETY: live value.
        unsafe { !LLVMIsALoadInst(self.0).is_null() }
    }

    /// The instruction behind this one in its block.
    pub fn next(self) -> Option<Value> {
        // SAFETY: live instruction.
        let next = unsafe { LLVMGetNextInstruction(self.0) };
        (!next.is_null()).then_some(Value(next))
    }

    /// Whether the value is a function.
    pub fn is_function(self) -> bool {
        // SAFETY: live value.
        unsafe { !LLVMIsAFunction(self.0).is_null() }
    }

    /// Whether the function is one of LLVM's intrinsics.
    pub fn is_intrinsic(self) -> bool {
        // SAFETY: live function.
        unsafe { LLVMGetIntrinsicID(self.0) != 0 }
    }

    /// The target of an alias, if the value is one.
    pub fn aliasee(self) -> Option<Value> {
        // SAFETY: live value.
        unsafe { (!LLVMIsAGlobalAlias(self.0).is_null()).then(|| Value(LLVMAliasGetAliasee(self.0))) }
    }

    /// What the value stands for: itself, or if it is an alias, what that leads to in the end.
    pub fn aliased(self) -> Value {
        std::iter::successors(Some(self), |v| v.aliasee()).last().unwrap_or(self)
    }

    /// The text of inline assembly, if the value is that.
    pub fn asm_text(self) -> Option<String> {
        let mut len = 0;
        // SAFETY: live value; the text is copied.
        unsafe {
            (!LLVMIsAInlineAsm(self.0).is_null())
                .then(|| text(LLVMGetInlineAsmAsmString(self.0, &mut len), len))
        }
    }

    /// What a call or invoke calls.
    pub fn called(self) -> Value {
        // SAFETY: live call.
        Value(unsafe { LLVMGetCalledValue(self.0) })
    }

    /// The `i`-th argument of a call.
    pub fn argument(self, i: u32) -> Value {
        // SAFETY: live call with more than `i` arguments.
        Value(unsafe { LLVMGetOperand(self.0, i) })
    }

    /// The number of arguments of a call.
    pub fn argument_count(self) -> u32 {
        // SAFETY: live call.
        unsafe { LLVMGetNumArgOperands(self.0) }
    }

    /// The call's tail marker.
    pub fn tail_call(self) -> TailCall {
        if self.opcode() != LLVMOpcode::LLVMCall {
            return TailCall::None;
        }
        // SAFETY: live call.
        match unsafe { LLVMGetTailCallKind(self.0) } {
            // SAFETY: live call.
            LLVMTailCallKind::LLVMTailCallKindTail if unsafe { pcce_shim_is_kept_tail_call(self.0) } => {
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
            // SAFETY: live call.
            unsafe { LLVMSetTailCallKind(self.0, LLVMTailCallKind::LLVMTailCallKindNone) }
        }
    }

    /// Whether the code generator makes a jump of the call although nothing guarantees it.
    pub fn is_sibling_call(self) -> bool {
        // SAFETY: live instruction.
        unsafe { pcce_shim_is_sibling_call(self.0) }
    }

    /// Makes a sibling call one that must be a tail call for the pass ([`TailCall::Must`]), with a return of its own behind
    /// it.
    pub fn keep_tail_call(self) {
        // SAFETY: live sibling call.
        unsafe { pcce_shim_keep_tail_call(self.0) }
    }

    /// Whether the call's pointer was loaded from a C++ virtual table; None where nobody knows.
    pub fn is_virtual_call(self) -> Option<bool> {
        // SAFETY: a live call.
        match unsafe { pcce_shim_pointer_kind(self.0) } {
            0 => None,
            kind => Some(kind == 2),
        }
    }

    /// Whether the function's address is in a C++ virtual table, and whether it is anywhere else, besides in calls of
    /// it.
    pub fn address_places(self) -> (bool, bool) {
        // SAFETY: a live function.
        let places = unsafe { pcce_shim_address_places(self.0) };
        (places & 1 != 0, places & 2 != 0)
    }

    /// Whether the call's pointer was compared with other targets ([`Analyses::compare_target`]).
    pub fn is_compared(self) -> bool {
        // SAFETY: a live call.
        unsafe { pcce_shim_is_compared(self.0) }
    }

    /// Whether a function in between could hand on the call's arguments.
    pub fn can_go_through_thunk(self) -> bool {
        // SAFETY: a live call.
        unsafe { pcce_shim_can_go_through_thunk(self.0) }
    }

    /// Lets the call be made only where `pointer` is not null; otherwise the result is `otherwise`. Returns the result. Blocks are split.
    pub fn unless_null(self, pointer: Value, otherwise: Value) -> Value {
        // SAFETY: a live call, and values that were made in front of it, a pointer and one of the result's type.
        Value(unsafe { pcce_shim_unless_null(self.0, pointer.0, otherwise.0) })
    }

    /// Whether the function's body asks for its return address, or for the frame of its caller.
    pub fn looks_at_caller(self) -> bool {
        // SAFETY: live function.
        unsafe { pcce_shim_looks_at_caller(self.0) }
    }

    /// Replaces the call, which can go through a thunk, by one of a new local function, whose first instruction calls what this one
    /// did. Returns the new call.
    pub fn make_push_thunk(self, name: &str) -> Value {
        // SAFETY: a live call, which nothing uses afterwards; `name` is copied.
        Value(unsafe { pcce_shim_make_push_thunk(self.0, name.as_ptr(), name.len()) })
    }

    /// The type of the function that is called.
    pub fn called_type(self) -> Type {
        // SAFETY: live call.
        Type(unsafe { LLVMGetCalledFunctionType(self.0) })
    }

    /// The function's type.
    pub fn function_type(self) -> Type {
        // SAFETY: live function.
        Type(unsafe { LLVMGlobalGetValueType(self.0) })
    }

    /// Whether anything in the module uses the function but to call it.
    pub fn has_address_taken(self) -> bool {
        // SAFETY: live function.
        unsafe { pcce_shim_has_address_taken(self.0) }
    }

    /// Whether the value is neither a function nor another global nor assembly.
    pub fn is_pointer(self) -> bool {
        // SAFETY: live value.
        unsafe { LLVMIsAGlobalValue(self.0).is_null() && LLVMIsAInlineAsm(self.0).is_null() }
    }

    /// Where an invoke goes on when the call returns.
    pub fn normal_destination(self) -> Block {
        // SAFETY: live invoke.
        Block(unsafe { LLVMGetNormalDest(self.0) })
    }

    /// Where control may go from a terminator.
    pub fn successors(self) -> Vec<Block> {
        // SAFETY: live terminator; the indices are in range.
        unsafe { (0..LLVMGetNumSuccessors(self.0)).map(|i| Block(LLVMGetSuccessor(self.0, i))).collect() }
    }

    /// The block that holds the instruction.
    pub fn block(self) -> Block {
        // SAFETY: live instruction.
        Block(unsafe { LLVMGetInstructionParent(self.0) })
    }

    /// Turns an invoke into a call followed by a branch to its normal destination.
    pub fn into_call(self) -> Value {
        if self.opcode() != LLVMOpcode::LLVMInvoke {
            return self;
        }
        // SAFETY: live invoke.
        Value(unsafe { pcce_shim_invoke_to_call(self.0) })
    }

    /// Replaces all uses of the instruction and deletes it.
    pub fn replace_with(self, new: Value) {
        // SAFETY: live values of the same type; afterwards nothing uses the instruction.
        unsafe {
            LLVMReplaceAllUsesWith(self.0, new.0);
        }
        self.erase();
    }

    /// Deletes an instruction that nothing uses.
    pub fn erase(self) {
        // SAFETY: live instruction; the handle is not used again.
        unsafe { LLVMInstructionEraseFromParent(self.0) }
    }

    /// Sets the initial value of a variable.
    pub fn initialize(self, value: Value) {
        // SAFETY: live variable and constant of its type.
        unsafe { LLVMSetInitializer(self.0, value.0) }
    }

    /// The source locations of an instruction, innermost first; empty without debug information.
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
        unsafe { pcce_shim_locations(self.0, add, (&raw mut out).cast()) };
        out
    }
}

impl Block {
    /// The block's instructions, in order.
    pub fn instructions(self) -> Vec<Value> {
        // SAFETY: live block.
        list(unsafe { LLVMGetFirstInstruction(self.0) }, LLVMGetNextInstruction).map(Value).collect()
    }

    /// The first instruction.
    pub fn first(self) -> Value {
        // SAFETY: live block; well-formed blocks are not empty.
        Value(unsafe { LLVMGetFirstInstruction(self.0) })
    }

    /// The last instruction.
    pub fn terminator(self) -> Value {
        // SAFETY: live block; well-formed blocks end with one.
        Value(unsafe { LLVMGetBasicBlockTerminator(self.0) })
    }

    /// The first instruction that is neither a phi nor a landing pad.
    pub fn first_after_pads(self) -> Value {
        let mut at = self.first();
        while matches!(at.opcode(), LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMLandingPad) {
            at = at.next().expect("a block ends with a terminator");
        }
        at
    }

    /// Whether the block begins with a landing pad, phis aside.
    pub fn is_landing_pad(self) -> bool {
        let mut at = self.first();
        while at.opcode() == LLVMOpcode::LLVMPHI {
            at = at.next().expect("a block ends with a terminator");
        }
        at.opcode() == LLVMOpcode::LLVMLandingPad
    }

    /// The block that is executed exactly when control goes from `from` to this one: this one, or
    /// a new one between them.
    pub fn on_edge_from(self, from: Block) -> Block {
        // SAFETY: live blocks with an edge between them.
        unsafe {
            if pcce_shim_unique_predecessor(self.0).is_null() {
                Block(pcce_shim_split_edge(from.0, self.0))
            } else {
                self
            }
        }
    }
}

/// Emits instructions in front of a given one.
pub struct Builder {
    raw: LLVMBuilderRef,
    /// The module it builds in.
    pub module: Module,
}

impl Drop for Builder {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again.
        unsafe { LLVMDisposeBuilder(self.raw) }
    }
}

impl Builder {
    /// What follows is put in front of `at`, and has the location of `located`.
    pub fn before(&self, at: Value, located: Value) -> &Self {
        // SAFETY: live instructions.
        unsafe {
            LLVMPositionBuilderBefore(self.raw, at.0);
            LLVMSetCurrentDebugLocation2(self.raw, LLVMInstructionGetDebugLoc(located.0));
        }
        self
    }

    /// What follows is put in front of `at`, as part of the function's prologue.
    pub fn prologue(&self, at: Value) -> &Self {
        // SAFETY: live instruction.
        unsafe {
            LLVMPositionBuilderBefore(self.raw, at.0);
            LLVMSetCurrentDebugLocation2(self.raw, std::ptr::null_mut());
        }
        self
    }

    /// A structure of words in the function's frame, `size` bytes long. (The stack protector puts arrays of bytes next to those that may overflow.)
    pub fn alloca(&self, size: u64, name: &CStr) -> Value {
        let ty = self.module.struct_type(&vec![self.module.i64(); size as usize / 8]);
        // SAFETY: the builder stands in an entry block.
        let variable = unsafe { Value(LLVMBuildAlloca(self.raw, ty.0, name.as_ptr())) };
        if variable.function().has_attribute("safestack") {
            // SAFETY: just made, in front of an instruction.
            return Value(unsafe { pcce_shim_keep_on_stack(variable.0) });
        }
        variable
    }

    /// Keeps the stores above it from moving below it. No instruction: it orders what a signal handler sees.
    pub fn signal_fence(&self) {
        // SAFETY: the builder has a position.
        unsafe { LLVMBuildFence(self.raw, LLVMAtomicOrdering::LLVMAtomicOrderingRelease, 1, c"".as_ptr()) };
    }

    /// The address `base + offset` bytes.
    pub fn offset(&self, base: Value, offset: u64) -> Value {
        if offset == 0 {
            return base;
        }
        // SAFETY: live values of the right types.
        unsafe {
            let byte = LLVMInt8TypeInContext(self.module.context());
            let mut offset = self.module.const_i64(offset).0;
            Value(LLVMBuildInBoundsGEP2(self.raw, byte, base.0, &mut offset, 1, c"".as_ptr()))
        }
    }

    /// Loads a word.
    pub fn load(&self, ty: Type, from: Value) -> Value {
        // SAFETY: live values; all our words are aligned.
        unsafe {
            let load = LLVMBuildLoad2(self.raw, ty.0, from.0, c"".as_ptr());
            LLVMSetAlignment(load, 8);
            Value(load)
        }
    }

    /// Stores a word.
    pub fn store(&self, value: Value, to: Value) {
        // SAFETY: live values; all our words are aligned.
        unsafe {
            let store = LLVMBuildStore(self.raw, value.0, to.0);
            LLVMSetAlignment(store, 8);
        }
    }

    /// `a + b`, modulo 2⁶⁴.
    pub fn add(&self, a: Value, b: Value) -> Value {
        // SAFETY: live values of one integer type.
        Value(unsafe { LLVMBuildAdd(self.raw, a.0, b.0, c"".as_ptr()) })
    }

    /// Calls a function.
    pub fn call(&self, callee: Callee, arguments: &[Value]) -> Value {
        let mut arguments: Vec<LLVMValueRef> = arguments.iter().map(|v| v.0).collect();
        // SAFETY: live values that fit the callee's type.
        Value(unsafe {
            LLVMBuildCall2(
                self.raw,
                callee.ty.0,
                callee.function.0,
                arguments.as_mut_ptr(),
                arguments.len() as u32,
                c"".as_ptr(),
            )
        })
    }
}
