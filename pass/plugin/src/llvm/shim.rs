//! The functions of the C++ shim (`shim/`).

use std::ffi::{c_char, c_void};

use inkwell::llvm_sys::prelude::*;

pub type LocationCallback =
    extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize, *const u8, usize, u32, u32);
pub type CallCallback = extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize, bool, i64);
pub type TextCallback = extern "C" fn(*mut c_void, *const u8, usize);

pub type ReferenceCallback = extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize, u32);

unsafe extern "C" {
    pub fn pcce_shim_name_globals(module: LLVMModuleRef);
    pub fn pcce_shim_symbol_names(module: LLVMModuleRef, on_name: TextCallback, context: *mut c_void);
    pub fn pcce_shim_references(
        function: LLVMValueRef,
        on_reference: ReferenceCallback,
        context: *mut c_void,
    );
    pub fn pcce_shim_replace_body(function: LLVMValueRef, asm: *const u8, len: usize);
    pub fn pcce_shim_drop_debug(module: LLVMModuleRef);
    pub fn pcce_shim_embed(
        module: LLVMModuleRef,
        section: *const u8,
        section_len: usize,
        bytes: *const u8,
        len: usize,
    );
    pub fn pcce_shim_declare(function: LLVMValueRef);
    pub fn pcce_shim_register(builder: *mut c_void);
    pub fn pcce_shim_llvm_version() -> *const c_char;
    pub fn pcce_shim_blocks_changed(analyses: *mut c_void, function: LLVMValueRef);
    pub fn pcce_shim_branch_probabilities(analyses: *mut c_void, f: LLVMValueRef, out: *mut f64);
    pub fn pcce_shim_block_frequencies(analyses: *mut c_void, function: LLVMValueRef, out: *mut f64);
    pub fn pcce_shim_locations(instruction: LLVMValueRef, callback: LocationCallback, context: *mut c_void);
    pub fn pcce_shim_split_edge(from: LLVMBasicBlockRef, to: LLVMBasicBlockRef) -> LLVMBasicBlockRef;
    pub fn pcce_shim_unique_predecessor(block: LLVMBasicBlockRef) -> LLVMBasicBlockRef;
    pub fn pcce_shim_invoke_to_call(invoke: LLVMValueRef) -> LLVMValueRef;
    pub fn pcce_shim_drop_debug_in_pads(function: LLVMValueRef);
    pub fn pcce_shim_distrust_replaceable(module: LLVMModuleRef);
    pub fn pcce_shim_catch_escapes(analyses: *mut c_void, function: LLVMValueRef);
    pub fn pcce_shim_linkage_facts(value: LLVMValueRef) -> u32;
    pub fn pcce_shim_set_dso_local(value: LLVMValueRef);
    pub fn pcce_shim_keep(
        module: LLVMModuleRef,
        values: *const LLVMValueRef,
        count: usize,
        against_linker: bool,
    );
    pub fn pcce_shim_call_at(
        module: LLVMModuleRef,
        name: *const u8,
        len: usize,
        argument: LLVMValueRef,
        end: bool,
    );
    pub fn pcce_shim_emit_error(module: LLVMModuleRef, message: *const u8, len: usize);
    pub fn pcce_shim_has_module_flag(module: LLVMModuleRef, name: *const u8, len: usize) -> bool;
    pub fn pcce_shim_source_name(function: LLVMValueRef, len: *mut usize) -> *const c_char;
    pub fn pcce_shim_source_file(function: LLVMValueRef, len: *mut usize) -> *const c_char;
    pub fn pcce_shim_source_folder(function: LLVMValueRef, len: *mut usize) -> *const c_char;
    pub fn pcce_shim_use_count(value: LLVMValueRef) -> usize;
    pub fn pcce_shim_assembly_name(value: LLVMValueRef, on_name: TextCallback, context: *mut c_void);
    pub fn pcce_shim_entry_count(function: LLVMValueRef) -> f64;
    pub fn pcce_shim_make_thunk(function: LLVMValueRef, name: *const u8, len: usize) -> LLVMValueRef;
    pub fn pcce_shim_call_bound(
        call: LLVMValueRef,
        text: *const u8,
        text_len: usize,
        constraints: *const u8,
        constraints_len: usize,
        word: LLVMValueRef,
        place: LLVMValueRef,
    );
    pub fn pcce_shim_place_thread_local(variable: LLVMValueRef, offset: u32);
    pub fn pcce_shim_find_thread(module: LLVMModuleRef, variable: LLVMValueRef);
    pub fn pcce_shim_can_check_first(function: LLVMValueRef) -> bool;
    pub fn pcce_shim_check_first(
        function: LLVMValueRef,
        thunk: LLVMValueRef,
        block: LLVMValueRef,
        id: u64,
        top: u64,
        tag: u64,
    ) -> u64;
    pub fn pcce_shim_divert(
        function: LLVMValueRef,
        thunk: LLVMValueRef,
        id: LLVMValueRef,
        top: LLVMValueRef,
        tag: u64,
    );
    pub fn pcce_shim_keep_on_stack(variable: LLVMValueRef) -> LLVMValueRef;
    pub fn pcce_shim_has_address_taken(function: LLVMValueRef) -> bool;
    pub fn pcce_shim_is_sibling_call(instruction: LLVMValueRef) -> bool;
    pub fn pcce_shim_may_be_last(instruction: LLVMValueRef) -> bool;
    pub fn pcce_shim_keep_tail_call(call: LLVMValueRef) -> LLVMValueRef;
    pub fn pcce_shim_unlink(instruction: LLVMValueRef);
    pub fn pcce_shim_fold_phis(block: LLVMBasicBlockRef);
    pub fn pcce_shim_mark_left(call: LLVMValueRef, id: LLVMValueRef, top: LLVMValueRef, tag: u64, mark: u64);
    pub fn pcce_shim_is_kept_tail_call(call: LLVMValueRef) -> bool;
    pub fn pcce_shim_compare_target(
        analyses: *mut c_void,
        call: LLVMValueRef,
        callee: LLVMValueRef,
    ) -> LLVMValueRef;
    pub fn pcce_shim_pointer_kind(call: LLVMValueRef) -> u32;
    pub fn pcce_shim_address_places(function: LLVMValueRef) -> u32;
    pub fn pcce_shim_is_compared(call: LLVMValueRef) -> bool;
    pub fn pcce_shim_can_go_through_thunk(call: LLVMValueRef) -> bool;
    pub fn pcce_shim_is_interrupt_handler(function: LLVMValueRef) -> bool;
    pub fn pcce_shim_can_be_diverted(function: LLVMValueRef) -> bool;
    pub fn pcce_shim_unless_null(
        call: LLVMValueRef,
        pointer: LLVMValueRef,
        otherwise: LLVMValueRef,
    ) -> LLVMValueRef;
    pub fn pcce_shim_looks_at_caller(function: LLVMValueRef) -> bool;
    pub fn pcce_shim_make_push_thunk(call: LLVMValueRef, name: *const u8, len: usize) -> LLVMValueRef;
    pub fn pcce_shim_go_through_thunk(call: LLVMValueRef, thunk: LLVMValueRef) -> LLVMValueRef;
    pub fn pcce_shim_requires_stack_protector(function: LLVMValueRef) -> bool;
    pub fn pcce_shim_runtime_library_calls(
        module: LLVMModuleRef,
        on_name: TextCallback,
        context: *mut c_void,
    );
    pub fn pcce_shim_trace_call(
        at: LLVMValueRef,
        name: *const u8,
        len: usize,
        arguments: *const LLVMValueRef,
        count: usize,
        keeps_registers: bool,
    );
    pub fn pcce_shim_trace_expand(
        module: LLVMModuleRef,
        name: *const u8,
        len: usize,
        pending: LLVMValueRef,
        flush: *const c_char,
        places: *const c_char,
        functions: *const c_char,
    );
    pub fn pcce_shim_trace_number(
        module: LLVMModuleRef,
        name: *const u8,
        len: usize,
        next: LLVMValueRef,
        end: LLVMValueRef,
        room: *const u8,
        room_len: usize,
    );
    pub fn pcce_shim_trace_check(
        function: LLVMValueRef,
        word: LLVMValueRef,
        number: LLVMValueRef,
        name: *const u8,
        len: usize,
    );
    pub fn pcce_shim_trace_entry(function: LLVMValueRef, name: *const u8, len: usize);
    pub fn pcce_shim_can_be_copied(function: LLVMValueRef) -> bool;
    pub fn pcce_shim_copy(function: LLVMValueRef, name: *const u8, len: usize) -> LLVMValueRef;
    pub fn pcce_shim_trace_choose(
        function: LLVMValueRef,
        copy: LLVMValueRef,
        off: *const u8,
        len: usize,
        through: bool,
    ) -> u64;
    pub fn pcce_shim_trace_room(function: LLVMValueRef) -> u64;
    pub fn pcce_shim_trace_outside(
        function: LLVMValueRef,
        name: *const u8,
        len: usize,
        returned: *const c_char,
    ) -> LLVMValueRef;
    pub fn pcce_shim_trace_row(
        first: LLVMValueRef,
        behind: u64,
        second: LLVMValueRef,
        outside: LLVMValueRef,
        names: *const u8,
        names_len: usize,
        file: *const u8,
        file_len: usize,
        section: *const c_char,
    );
    pub fn pcce_shim_trace_behind(
        function: LLVMValueRef,
        name: *const u8,
        len: usize,
        bytes: u64,
    ) -> LLVMValueRef;
    pub fn pcce_shim_trace_call_to(call: LLVMValueRef, name: LLVMValueRef);
    pub fn pcce_shim_insert_late_calls(analyses: *mut c_void, module: LLVMModuleRef) -> bool;
    pub fn pcce_shim_write(module: LLVMModuleRef) -> LLVMMemoryBufferRef;
    pub fn pcce_shim_read(bitcode: LLVMMemoryBufferRef, name: *const u8, len: usize) -> LLVMModuleRef;
    pub fn pcce_shim_dispose_copy(analyses: *mut c_void, module: LLVMModuleRef);
    pub fn pcce_shim_frame_offsets(
        analyses: *mut c_void,
        module: LLVMModuleRef,
        level: u32,
        no_pie: bool,
        on_call: CallCallback,
        on_error: TextCallback,
        context: *mut c_void,
    ) -> bool;
}
