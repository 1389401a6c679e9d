//! Functions and their blocks.

use std::hash::Hash;

use std::ffi::c_void;
use std::path::Path;

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::llvm_sys::prelude::*;
use inkwell::values::{AsValueRef, FunctionValue, InstructionOpcode};

use super::shim::*;
use super::value::{cstring, name, text};
use super::{Address, Alias, Call, Constant, Instruction, LinkageFacts, Module, Operand, Signature};

/// A global that a function refers to.
pub struct Reference {
    pub name: String,
    /// Its name in assembly.
    pub assembly: String,
    /// It may be missing in the program.
    pub weak: bool,
    /// It is a thread-local variable.
    pub thread_local: bool,
    /// No other module knows it.
    pub local: bool,
    pub function: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Function<'m>(pub(super) FunctionValue<'m>);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block<'m>(pub(super) BasicBlock<'m>);

impl<'m> Function<'m> {
    /// The function, if the value is one.
    ///
    /// # Safety
    /// A live value of the run's module, or null.
    pub(super) unsafe fn of(raw: LLVMValueRef) -> Option<Self> {
        // SAFETY: by the contract; inkwell checks its kind.
        unsafe { FunctionValue::new(raw) }.map(Self)
    }

    pub(super) fn raw(self) -> LLVMValueRef {
        self.0.as_value_ref()
    }

    pub fn name(self) -> String {
        // SAFETY: live value.
        unsafe { name(self.raw()) }
    }

    /// The linkage name of the function in its source, where debug information has it: link-time optimisation
    /// renames local functions of equal names.
    pub fn source_name(self) -> Option<String> {
        let mut len = 0;
        // SAFETY: live function; the text is copied.
        let name = unsafe { text(pcce_shim_source_name(self.raw(), &mut len), len) };
        (!name.is_empty()).then_some(name)
    }

    /// The whole path of its source file, if there is debug information.
    pub fn source_file(self) -> Option<String> {
        let (mut len, mut of_folder) = (0, 0);
        // SAFETY: live function; the texts are copied.
        let (file, folder) = unsafe {
            let file = text(pcce_shim_source_file(self.raw(), &mut len), len);
            (file, text(pcce_shim_source_folder(self.raw(), &mut of_folder), of_folder))
        };
        (!file.is_empty()).then(|| Path::new(&folder).join(file).to_string_lossy().into_owned())
    }

    pub fn address(self) -> Address<'m> {
        Address(self.0.as_global_value().as_pointer_value())
    }

    /// Returns whether it has a body.
    pub fn has_body(self) -> bool {
        !self.0.as_global_value().is_declaration()
    }

    /// Returns whether it is one of LLVM's intrinsics.
    pub fn is_intrinsic(self) -> bool {
        self.0.get_intrinsic_id() != 0
    }

    /// The globals that its body refers to.
    pub fn references(self) -> Vec<Reference> {
        extern "C" fn add(
            all: *mut c_void,
            name: *const u8,
            len: usize,
            assembly: *const u8,
            assembly_len: usize,
            kind: u32,
        ) {
            // SAFETY: the shim hands on what it got from the call below, with two texts.
            unsafe {
                (*all.cast::<Vec<Reference>>()).push(Reference {
                    name: text(name.cast(), len),
                    assembly: text(assembly.cast(), assembly_len),
                    weak: kind & 1 != 0,
                    thread_local: kind & 2 != 0,
                    local: kind & 4 != 0,
                    function: kind & 8 != 0,
                });
            }
        }
        let mut all: Vec<Reference> = Vec::new();
        // SAFETY: live function; the callback is called with `all` during the call.
        unsafe { pcce_shim_references(self.raw(), add, (&raw mut all).cast()) };
        all
    }

    /// Replaces its body by this assembly.
    pub fn replace_body(self, assembly: &str) {
        // SAFETY: live function; the text is copied. Handles into the body are not used again: nobody reads a
        // function after this.
        unsafe { pcce_shim_replace_body(self.raw(), assembly.as_ptr(), assembly.len()) }
    }

    /// Turns the function, and its aliases, into declarations.
    pub fn declare(self) {
        // SAFETY: as above.
        unsafe { pcce_shim_declare(self.raw()) }
    }

    /// Returns whether it is in a comdat group.
    pub fn is_in_group(self) -> bool {
        // SAFETY: live function.
        unsafe { !inkwell::llvm_sys::comdat::LLVMGetComdat(self.raw()).is_null() }
    }

    /// Facts about its linkage and visibility.
    pub fn linkage(self) -> LinkageFacts {
        // SAFETY: live function.
        unsafe { LinkageFacts::of(self.raw()) }
    }

    /// Its type.
    pub fn signature(self) -> Signature<'m> {
        Signature(self.0.get_type())
    }

    /// Returns whether the machine calls the function where it interrupts a program
    /// (`__attribute__((interrupt))`).
    pub fn is_interrupt_handler(self) -> bool {
        // SAFETY: live function.
        unsafe { pcce_shim_is_interrupt_handler(self.raw()) }
    }

    /// Returns whether [`Function::divert`] is possible: not for a variadic function, nor for one whose
    /// calling convention forbids the call or the jump.
    pub fn can_be_diverted(self) -> bool {
        // SAFETY: live function.
        unsafe { pcce_shim_can_be_diverted(self.raw()) }
    }

    /// A new local function with the same signature that calls this one, which can be diverted, and returns
    /// what it returns. Returns the call, an invoke if exceptions may leave the function.
    pub fn thunk(self, name: &str) -> Call<'m> {
        // SAFETY: live function; `name` is copied. The result is a call.
        unsafe { Call::new(pcce_shim_make_thunk(self.raw(), name.as_ptr(), name.len())) }
    }

    /// Makes the function jump to `thunk`, of its signature, at its entry if the word at the address `id` is
    /// positive, or the word at `top` has a bit of `tag`.
    pub fn divert(self, thunk: Function<'m>, id: Address<'m>, top: Address<'m>, tag: u64) {
        let (id, top) = (id.0.as_value_ref(), top.0.as_value_ref());
        // SAFETY: live functions, and the addresses of words.
        unsafe { pcce_shim_divert(self.raw(), thunk.raw(), id, top, tag) }
    }

    /// Returns whether [`Function::check_first`] is possible.
    pub fn can_check_first(self) -> bool {
        // SAFETY: live function.
        unsafe { pcce_shim_can_check_first(self.raw()) }
    }

    /// Does what [`Function::divert`] does, in front of the function's prologue. `id` and `top` are the offsets of the
    /// words in the thread's block, the variable `block`. Returns the place behind that code. Its name is a symbol of
    /// the image, unless it is a label.
    pub fn check_first(
        self,
        thunk: Function<'m>,
        block: Address<'m>,
        (id, top): (u64, u64),
        tag: u64,
        name: &str,
    ) -> Alias<'m> {
        let block = block.0.as_value_ref();
        // SAFETY: live functions, and a thread-local variable.
        let len = unsafe { pcce_shim_check_first(self.raw(), thunk.raw(), block, id, top, tag) };
        let place = self.place_behind(name, len);
        if !name.starts_with(".L") {
            place.make_hidden();
        }
        place
    }

    /// Makes the function begin with a call of `name`, of the same image, of `entry_len`
    /// bytes, when it is entered by its address.
    pub fn begin_with_call(self, name: &str) {
        // SAFETY: a live function with a body; the name is copied.
        unsafe { pcce_shim_trace_entry(self.raw(), name.as_ptr(), name.len()) }
    }

    /// Returns whether the module can have a copy of the function.
    pub fn can_be_copied(self) -> bool {
        // SAFETY: live function with a body.
        unsafe { pcce_shim_can_be_copied(self.raw()) }
    }

    /// A local copy of the function, with the same blocks and instructions in the same order.
    pub fn copy(self, name: &str) -> Self {
        // SAFETY: live function with a body; the name is copied. The result is a function.
        unsafe { Self::of(pcce_shim_copy(self.raw(), name.as_ptr(), name.len())) }.expect("it is a function")
    }

    /// Makes the function begin with a jump to `copy`, of the same module, if the byte `off` of the image is 0.
    /// `through`: `off` is a pointer to the byte. Returns how many bytes these instructions have.
    pub fn choose(self, copy: Self, off: &str, through: bool) -> u64 {
        // SAFETY: live functions with bodies; the name is copied.
        unsafe { pcce_shim_trace_choose(self.raw(), copy.raw(), off.as_ptr(), off.len(), through) }
    }

    /// Gives the function room for a jump at its first byte, where nobody enters it. Returns how many bytes that is.
    pub fn make_room(self) -> u64 {
        // SAFETY: a live function with a body.
        unsafe { pcce_shim_trace_room(self.raw()) }
    }

    /// A new local function with the same signature that calls this one, then calls `returned`, which keeps all
    /// registers, and returns what this one returned. Returns the call of this one.
    pub fn outside(self, name: &str, returned: &str) -> Call<'m> {
        let returned = cstring(returned);
        // SAFETY: live function; the names are copied. The result is a call.
        unsafe {
            let call = pcce_shim_trace_outside(self.raw(), name.as_ptr(), name.len(), returned.as_ptr());
            Call::new(call)
        }
    }

    /// Adds a [`Row`](pcce_abi::trace::Row) for this first body, of which calls by name skip `behind` bytes.
    pub fn add_row(
        self,
        behind: u64,
        (second, outside): (Self, Option<Self>),
        (names, file): (&str, &str),
        section: &str,
    ) {
        let outside = outside.map_or(std::ptr::null_mut(), |outside| outside.raw());
        let section = cstring(section);
        let (names, names_len) = (names.as_ptr(), names.len());
        let (file, file_len, section) = (file.as_ptr(), file.len(), section.as_ptr());
        // SAFETY: live functions with bodies; the texts are copied.
        unsafe {
            pcce_shim_trace_row(
                self.raw(),
                behind,
                second.raw(),
                outside,
                names,
                names_len,
                file,
                file_len,
                section,
            );
        }
    }

    /// If the function is entered while the word is not 0, the function clears the word until it returns, and
    /// calls `name(number)`.
    pub fn check(self, word: Address<'m>, name: &str, number: Constant<'m>) {
        let (word, number) = (word.0.as_value_ref(), number.0.as_value_ref());
        // SAFETY: a live function with a body, and the address of a word; the name is copied.
        unsafe { pcce_shim_trace_check(self.raw(), word, number, name.as_ptr(), name.len()) }
    }

    /// A name, local to the object, for the place `bytes` bytes after the function's beginning.
    pub fn place_behind(self, name: &str, bytes: u64) -> Alias<'m> {
        let name = place_name(name);
        // SAFETY: a live function with a body; the name is copied. The result is an alias.
        unsafe { Alias::new(pcce_shim_trace_behind(self.raw(), name.as_ptr(), name.len(), bytes)) }
    }

    /// The function that the unwinder calls for frames of this one.
    pub fn personality(self) -> Option<Function<'m>> {
        self.0.get_personality_function().map(Self)
    }

    /// Executions of the function according to LLVM's profile (`-fprofile-use`), if there is one.
    pub fn entry_count(self) -> Option<f64> {
        // SAFETY: live function.
        Some(unsafe { pcce_shim_entry_count(self.raw()) }).filter(|count| *count >= 0.0)
    }

    /// The function as an operand.
    pub fn operand(self) -> Operand<'m> {
        // SAFETY: live function of the run's module.
        unsafe { Operand::new(self.raw()) }
    }

    /// Returns whether the module uses the function other than to call it.
    pub fn has_address_taken(self) -> bool {
        // SAFETY: live function.
        unsafe { pcce_shim_has_address_taken(self.raw()) }
    }

    /// Returns whether the function's address is in a C++ virtual table, and whether it is anywhere else,
    /// besides in calls of it.
    pub fn address_places(self) -> (bool, bool) {
        // SAFETY: a live function.
        let places = unsafe { pcce_shim_address_places(self.raw()) };
        (places & 1 != 0, places & 2 != 0)
    }

    /// Returns whether the function's body asks for its return address, or for the frame of its caller.
    pub fn looks_at_caller(self) -> bool {
        // SAFETY: live function.
        unsafe { pcce_shim_looks_at_caller(self.raw()) }
    }

    /// Returns whether the function has the enum attribute.
    pub fn has_attribute(self, name: &str) -> bool {
        let kind = Attribute::get_named_enum_kind_id(name);
        self.0.get_enum_attribute(AttributeLoc::Function, kind).is_some()
    }

    /// Keeps code generation from putting variables into the red zone.
    pub fn keep_out_of_red_zone(self) {
        let kind = Attribute::get_named_enum_kind_id("noredzone");
        let attribute = self.0.get_type().get_context().create_enum_attribute(kind, 0);
        self.0.add_attribute(AttributeLoc::Function, attribute);
    }

    /// Keeps code generation from outlining parts of the function.
    pub fn keep_in_one_piece(self) {
        let attribute = self.0.get_type().get_context().create_string_attribute("nooutline", "");
        self.0.add_attribute(AttributeLoc::Function, attribute);
    }

    /// Drops debug records of variables in landing pads with phis.
    pub fn drop_debug_in_pads(self) {
        // SAFETY: live function with a body.
        unsafe { pcce_shim_drop_debug_in_pads(self.raw()) }
    }

    /// Removes an enum attribute from the function.
    pub fn remove_attribute(self, name: &str) {
        self.0.remove_enum_attribute(AttributeLoc::Function, Attribute::get_named_enum_kind_id(name));
    }

    /// Keeps a function that needs no stack protector from getting one because of what is added to its frame
    /// later. (`-fstack-protector-strong` guards every function that lets an address of its frame escape.)
    pub fn decide_on_stack_protector(self) {
        // SAFETY: live function.
        if !unsafe { pcce_shim_requires_stack_protector(self.raw()) } {
            self.remove_attribute("ssp");
            self.remove_attribute("sspstrong");
        }
    }

    /// The function's blocks, in order.
    pub fn blocks(self) -> Vec<Block<'m>> {
        self.0.get_basic_block_iter().map(Block).collect()
    }

    /// All its instructions, in order.
    pub fn instructions(self) -> impl Iterator<Item = Instruction<'m>> {
        self.blocks().into_iter().flat_map(Block::instructions)
    }

    /// The block in which it begins.
    ///
    /// # Panics
    /// If it has no body.
    pub fn entry(self) -> Block<'m> {
        Block(self.0.get_first_basic_block().expect("the function has a body"))
    }
}

impl<'m> Block<'m> {
    /// The block's instructions, in order.
    pub fn instructions(self) -> impl Iterator<Item = Instruction<'m>> {
        self.0.get_instructions().map(Instruction)
    }

    /// The first instruction.
    ///
    /// # Panics
    /// If the block is empty. Blocks of well-formed modules are not.
    pub fn first(self) -> Instruction<'m> {
        Instruction(self.0.get_first_instruction().expect("well-formed blocks are not empty"))
    }

    /// The last instruction.
    ///
    /// # Panics
    /// If the block has no terminator. Blocks of well-formed modules have one.
    pub fn terminator(self) -> Instruction<'m> {
        Instruction(self.0.get_terminator().expect("well-formed blocks end with a terminator"))
    }

    /// The first instruction that is neither a phi nor a landing pad.
    pub fn first_after_pads(self) -> Instruction<'m> {
        let pad =
            |i: &Instruction| matches!(i.opcode(), InstructionOpcode::Phi | InstructionOpcode::LandingPad);
        self.instructions().find(|i| !pad(i)).expect("a block ends with a terminator")
    }

    /// Returns whether the block ends by passing an exception on.
    pub fn resumes(self) -> bool {
        self.terminator().opcode() == InstructionOpcode::Resume
    }

    /// Returns whether the block begins with a landing pad, phis aside.
    pub fn is_landing_pad(self) -> bool {
        let first = self.instructions().find(|i| i.opcode() != InstructionOpcode::Phi);
        first.is_some_and(|first| first.opcode() == InstructionOpcode::LandingPad)
    }

    /// Returns whether it ends with an invoke.
    pub fn may_throw(self) -> bool {
        self.terminator().as_call().and_then(|call| call.unwind_destination()).is_some()
    }

    /// The block that is executed exactly when control goes from `from`, which leads here, to this one: this
    /// one, or a new one between them.
    pub fn on_edge_from(self, from: Block<'m>) -> Block<'m> {
        // SAFETY: live blocks with an edge between them; splitting the edge deletes nothing.
        let split = unsafe {
            if !pcce_shim_unique_predecessor(self.0.as_mut_ptr()).is_null() {
                return self;
            }
            BasicBlock::new(pcce_shim_split_edge(from.0.as_mut_ptr(), self.0.as_mut_ptr()))
        };
        Block(split.expect("the ways that the pass splits can be split"))
    }
}

/// LLVM's name of an alias that is to have exactly this name in assembly.
pub(super) fn place_name(name: &str) -> String {
    format!("\u{1}{name}")
}

impl Module<'_> {
    /// Discards LLVM's analyses of the function, whose blocks have changed.
    pub fn blocks_changed(self, function: Function<'_>) {
        // SAFETY: the function analyses of the running pass manager, and a live function.
        unsafe { pcce_shim_blocks_changed(self.0.analyses, function.raw()) }
    }

    /// Executions of each block of `function`, in block order, for one execution of it.
    pub fn block_frequencies(self, function: Function<'_>) -> Vec<f64> {
        let mut out = vec![0.0; function.0.count_basic_blocks() as usize];
        // SAFETY: the shim writes one number for each block.
        unsafe { pcce_shim_block_frequencies(self.0.analyses, function.raw(), out.as_mut_ptr()) };
        out
    }

    /// The probabilities of the successors of all blocks of `function`, in block order.
    pub fn branch_probabilities(self, function: Function<'_>) -> Vec<f64> {
        let ends = function.blocks().into_iter().map(Block::terminator);
        let mut out = vec![0.0; ends.map(|end| end.successors().len()).sum()];
        // SAFETY: the shim writes one number for each successor.
        unsafe { pcce_shim_branch_probabilities(self.0.analyses, function.raw(), out.as_mut_ptr()) };
        out
    }
}
