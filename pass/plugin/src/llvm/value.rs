//! Values: operands of the program's code, of which only the kind is known, and the pass's own words and
//! addresses.

use std::ffi::{CString, c_char, c_void};
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use inkwell::llvm_sys::LLVMTypeKind;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::types::{AsTypeRef, BasicTypeEnum, FunctionType};
use inkwell::values::{AsValueRef, BasicValueEnum, GlobalValue, IntValue, PointerValue};

use super::shim::*;
use super::{Function, Instruction};

/// A type of the pass's own words, tables and records.
pub type Type<'m> = BasicTypeEnum<'m>;

/// A word of 64 bits.
#[derive(Clone, Copy)]
pub struct Word<'m>(pub(super) IntValue<'m>);

#[derive(Clone, Copy)]
pub struct Address<'m>(pub(super) PointerValue<'m>);

/// A constant in one of the pass's own tables.
#[derive(Clone, Copy)]
pub struct Constant<'m>(pub(super) BasicValueEnum<'m>);

/// A variable of the module.
#[derive(Clone, Copy)]
pub struct Variable<'m>(pub(super) GlobalValue<'m>);

/// A function of another object to call.
#[derive(Clone, Copy)]
pub struct Callee<'m> {
    pub(super) ty: FunctionType<'m>,
    pub(super) address: PointerValue<'m>,
}

impl<'m> From<Word<'m>> for Constant<'m> {
    fn from(word: Word<'m>) -> Self {
        Self(word.0.into())
    }
}

impl<'m> From<Address<'m>> for Constant<'m> {
    fn from(address: Address<'m>) -> Self {
        Self(address.0.into())
    }
}

/// The type of a function or call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature<'m>(pub(super) FunctionType<'m>);

impl Signature<'_> {
    /// The type, as LLVM prints it.
    pub fn text(self) -> String {
        self.0.print_to_string().to_string()
    }

    /// Returns whether functions of this type take and return nothing.
    pub fn takes_and_returns_nothing(self) -> bool {
        self.text() == "void ()"
    }
}

impl Hash for Signature<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_type_ref().hash(state);
    }
}

/// An operand of an instruction. It may be of any type, including those that inkwell panics about: tokens,
/// MMX, AMX, target extension types, labels, metadata.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operand<'m> {
    raw: LLVMValueRef,
    run: PhantomData<&'m ()>,
}

impl<'m> Operand<'m> {
    /// # Safety
    /// A live value of the run's module.
    pub(super) unsafe fn new(raw: LLVMValueRef) -> Self {
        Self { raw, run: PhantomData }
    }

    pub(super) fn raw(self) -> LLVMValueRef {
        self.raw
    }

    /// The function, if the value is one.
    pub fn as_function(self) -> Option<Function<'m>> {
        // SAFETY: live value.
        unsafe { Function::of(self.raw) }
    }

    /// The alias, if the value is one.
    pub fn as_alias(self) -> Option<Alias<'m>> {
        // SAFETY: live value.
        unsafe { (!LLVMIsAGlobalAlias(self.raw).is_null()).then(|| Alias::new(self.raw)) }
    }

    /// The function that the value is, or to which it leads as an alias in the end.
    pub fn aliased(self) -> Option<Function<'m>> {
        let mut value = self;
        while let Some(alias) = value.as_alias() {
            value = alias.aliasee();
        }
        value.as_function()
    }

    /// The instruction that makes the value, if one does.
    pub fn as_instruction(self) -> Option<Instruction<'m>> {
        // SAFETY: live value.
        unsafe { (!LLVMIsAInstruction(self.raw).is_null()).then(|| Instruction::new(self.raw)) }
    }

    /// The value as an address, if it is of a pointer type.
    pub fn as_address(self) -> Option<Address<'m>> {
        // SAFETY: live value, of a pointer type where it is taken for one.
        unsafe {
            let kind = LLVMGetTypeKind(LLVMTypeOf(self.raw));
            matches!(kind, LLVMTypeKind::LLVMPointerTypeKind).then(|| Address(PointerValue::new(self.raw)))
        }
    }

    /// The text of the inline assembly, if the value is one.
    pub fn asm_text(self) -> Option<String> {
        let mut len = 0;
        // SAFETY: live value; the text is copied.
        unsafe {
            (!LLVMIsAInlineAsm(self.raw).is_null())
                .then(|| text(LLVMGetInlineAsmAsmString(self.raw, &mut len), len))
        }
    }

    /// The number of uses.
    pub fn use_count(self) -> usize {
        // SAFETY: live value.
        unsafe { pcce_shim_use_count(self.raw) }
    }

    /// The value's name in assembly, if it is a function or another global with a name.
    pub fn assembly_name(self) -> Option<String> {
        extern "C" fn set(name: *mut c_void, given: *const u8, len: usize) {
            // SAFETY: the shim hands on what it got from the call below, with a text.
            unsafe { *name.cast::<Option<String>>() = Some(text(given.cast(), len)) };
        }
        let mut name: Option<String> = None;
        // SAFETY: live value; the callback is called with `name` during the call.
        unsafe { pcce_shim_assembly_name(self.raw, set, (&raw mut name).cast()) };
        name
    }

    /// Returns whether a call of it goes through a pointer: it is neither a function nor another global nor
    /// assembly.
    pub fn is_pointer(self) -> bool {
        // SAFETY: live value.
        unsafe { LLVMIsAGlobalValue(self.raw).is_null() && LLVMIsAInlineAsm(self.raw).is_null() }
    }
}

/// An alias of a global.
#[derive(Clone, Copy)]
pub struct Alias<'m>(Operand<'m>);

impl<'m> Alias<'m> {
    /// # Safety
    /// A live alias of the run's module.
    pub(super) unsafe fn new(raw: LLVMValueRef) -> Self {
        // SAFETY: by the contract.
        Self(unsafe { Operand::new(raw) })
    }

    pub(super) fn raw(self) -> LLVMValueRef {
        self.0.raw
    }

    pub fn name(self) -> String {
        // SAFETY: live value.
        unsafe { name(self.raw()) }
    }

    /// Makes the alias, which was local to the object, visible to other objects of the image.
    pub fn make_hidden(self) {
        use inkwell::llvm_sys::core::{LLVMSetLinkage, LLVMSetVisibility};
        use inkwell::llvm_sys::{LLVMLinkage, LLVMVisibility};
        // SAFETY: a live alias.
        unsafe {
            LLVMSetLinkage(self.raw(), LLVMLinkage::LLVMExternalLinkage);
            LLVMSetVisibility(self.raw(), LLVMVisibility::LLVMHiddenVisibility);
        }
    }

    /// The alias as an operand.
    pub fn operand(self) -> Operand<'m> {
        self.0
    }

    pub fn address(self) -> Address<'m> {
        // SAFETY: a live global, whose value is its address.
        Address(unsafe { PointerValue::new(self.raw()) })
    }

    /// Its target, which may be another alias.
    pub fn aliasee(self) -> Operand<'m> {
        // SAFETY: live alias.
        unsafe { Operand::new(LLVMAliasGetAliasee(self.raw())) }
    }

    /// The function to which it leads in the end, if it is one.
    pub fn function(self) -> Option<Function<'m>> {
        self.0.aliased()
    }

    /// Facts about its linkage and visibility.
    pub fn linkage(self) -> LinkageFacts {
        // SAFETY: live global value.
        unsafe { LinkageFacts::of(self.raw()) }
    }
}

/// Facts about the linkage and visibility of a global value.
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
    /// Code of this module refers to it by a second, local name, which always leads to this definition.
    pub by_local_name: bool,
}

impl LinkageFacts {
    /// # Safety
    /// A live global value.
    pub(super) unsafe fn of(global: LLVMValueRef) -> Self {
        // SAFETY: by the contract.
        let bits = unsafe { pcce_shim_linkage_facts(global) };
        Self {
            local: bits & 1 != 0,
            exact: bits & 2 != 0,
            comdat: bits & 4 != 0,
            declaration: bits & 8 != 0,
            by_local_name: bits & 16 != 0,
        }
    }
}

/// The name of a value.
///
/// # Safety
/// A live value.
pub(super) unsafe fn name(value: LLVMValueRef) -> String {
    let mut len = 0;
    // SAFETY: by the contract; the text is copied.
    unsafe { text(LLVMGetValueName2(value, &mut len), len) }
}

/// A copy of a text.
///
/// # Safety
/// There are `len` readable bytes.
pub(super) unsafe fn text(start: *const c_char, len: usize) -> String {
    // SAFETY: by the contract.
    let bytes = if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) } };
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn cstring(s: &str) -> CString {
    CString::new(s).expect("names of ours have no zero byte")
}

/// Elements of one of LLVM's linked lists, which is not changed while it is read.
pub(super) fn list<T>(
    first: *mut T,
    next: unsafe extern "C" fn(*mut T) -> *mut T,
) -> impl Iterator<Item = *mut T> {
    let some = |p: *mut T| (!p.is_null()).then_some(p);
    // SAFETY: the list belongs to a live module.
    std::iter::successors(some(first), move |&p| some(unsafe { next(p) }))
}

impl<'m> From<Address<'m>> for Operand<'m> {
    fn from(address: Address<'m>) -> Self {
        // SAFETY: live value.
        unsafe { Self::new(address.0.as_value_ref()) }
    }
}

impl<'m> From<Word<'m>> for Operand<'m> {
    fn from(word: Word<'m>) -> Self {
        // SAFETY: live value.
        unsafe { Self::new(word.0.as_value_ref()) }
    }
}
