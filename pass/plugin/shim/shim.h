//===- shim.h - what LLVM's C API lacks -----------------------------------===//
//
// All the C++ of the project: it registers the pass with the pass builder (pass.cpp), answers the questions about IR
// that the C API has no function for (facts.cpp), makes the changes that it has none for, in front of the analysis
// (prepare.cpp) and behind it (change.cpp, trace.cpp), and generates code to look at (code.cpp). It holds no logic of
// its own: what to do is decided in Rust (src/), which declares these functions in src/llvm/shim.rs.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "llvm-c/Types.h"

#include <cstddef>
#include <cstdint>

namespace llvm {
class CallBase;
class CallInst;
class ReturnInst;
} // namespace llvm

extern "C" {
/// Implemented in Rust (src/lib.rs). Returns whether the module was changed.
bool pcce_rs_run(LLVMModuleRef M, uint32_t Phase, uint32_t OptLevel, const char *Options,
                 size_t OptionsLen, void *Analyses);

void pcce_shim_register(void *Builder);
const char *pcce_shim_llvm_version();
void pcce_shim_block_frequencies(void *Analyses, LLVMValueRef F, double *Out);
void pcce_shim_branch_probabilities(void *Analyses, LLVMValueRef F, double *Out);
typedef void (*LocationCallback)(void *Context, const char *Name, size_t NameLen,
                                 const char *Dir, size_t DirLen,
                                 const char *File, size_t FileLen,
                                 uint32_t Line, uint32_t Column);
void pcce_shim_locations(LLVMValueRef I, LocationCallback Callback, void *Context);
LLVMBasicBlockRef pcce_shim_split_edge(LLVMBasicBlockRef From, LLVMBasicBlockRef To);
LLVMBasicBlockRef pcce_shim_unique_predecessor(LLVMBasicBlockRef Block);
LLVMValueRef pcce_shim_invoke_to_call(LLVMValueRef Invoke);
void pcce_shim_untell_in_pads(LLVMValueRef F);
void pcce_shim_catch_escapes(void *Analyses, LLVMValueRef F);
uint32_t pcce_shim_linkage_facts(LLVMValueRef V);
void pcce_shim_set_dso_local(LLVMValueRef V);
void pcce_shim_keep(LLVMModuleRef M, const LLVMValueRef *Vs, size_t Count, bool AgainstLinker);
void pcce_shim_call_at(LLVMModuleRef M, const char *Name, size_t Len, LLVMValueRef Argument, bool End);
void pcce_shim_emit_error(LLVMModuleRef M, const char *Message, size_t Len);
bool pcce_shim_has_module_flag(LLVMModuleRef M, const char *Name, size_t Len);
const char *pcce_shim_source_name(LLVMValueRef F, size_t *Len);
const char *pcce_shim_source_file(LLVMValueRef F, size_t *Len);
size_t pcce_shim_use_count(LLVMValueRef V);
double pcce_shim_entry_count(LLVMValueRef F);
bool pcce_shim_is_interrupt_handler(LLVMValueRef F);
bool pcce_shim_can_be_diverted(LLVMValueRef F);
LLVMValueRef pcce_shim_make_thunk(LLVMValueRef F, const char *Name, size_t Len);
void pcce_shim_divert(LLVMValueRef F, LLVMValueRef Thunk, LLVMValueRef Id, LLVMValueRef Top, uint64_t Tag);
LLVMValueRef pcce_shim_keep_on_stack(LLVMValueRef A);
bool pcce_shim_has_address_taken(LLVMValueRef F);
bool pcce_shim_is_sibling_call(LLVMValueRef I);
bool pcce_shim_may_be_last(LLVMValueRef I);
bool pcce_shim_is_in_tail_position(LLVMValueRef I);
LLVMValueRef pcce_shim_keep_tail_call(LLVMValueRef Call);
void pcce_shim_unlink(LLVMValueRef I);
void pcce_shim_fold_phis(LLVMBasicBlockRef Block);
void pcce_shim_mark_left(LLVMValueRef Call, LLVMValueRef Id, LLVMValueRef Top, uint64_t Tag, uint64_t Offset,
                         LLVMValueRef Thread, uint8_t Mark);
bool pcce_shim_is_kept_tail_call(LLVMValueRef Call);
bool pcce_shim_compare_target(void *Analyses, LLVMValueRef Call, LLVMValueRef Callee);
uint32_t pcce_shim_pointer_kind(LLVMValueRef Call);
uint32_t pcce_shim_address_places(LLVMValueRef F);
bool pcce_shim_is_compared(LLVMValueRef Call);
bool pcce_shim_can_go_through_thunk(LLVMValueRef Call);
uint32_t pcce_shim_reach(LLVMValueRef Call);
LLVMValueRef pcce_shim_make_stub(LLVMValueRef Call, const char *Asm, size_t Len, bool Adds);
void pcce_shim_check_entry(LLVMValueRef F, LLVMValueRef Thunk, const char *Asm, size_t Len);
LLVMValueRef pcce_shim_unless_null(LLVMValueRef Call, LLVMValueRef Pointer, LLVMValueRef Otherwise);
bool pcce_shim_looks_at_caller(LLVMValueRef F);
LLVMValueRef pcce_shim_make_push_thunk(LLVMValueRef Call, const char *Name, size_t Len);
bool pcce_shim_requires_stack_protector(LLVMValueRef F);
void pcce_shim_trace_call(LLVMValueRef At, const char *Name, size_t Len, const LLVMValueRef *Arguments, size_t Count,
                          bool KeepsRegisters);
void pcce_shim_trace_expand(LLVMModuleRef M, const char *Name, size_t Len, LLVMValueRef Pending, const char *Flush,
                            const char *Places, const char *Functions);
void pcce_shim_trace_number(LLVMModuleRef M, const char *Name, size_t Len, LLVMValueRef Next, LLVMValueRef End,
                            const char *Room, size_t RoomLen);
void pcce_shim_trace_check(LLVMValueRef F, LLVMValueRef Word, LLVMValueRef Number, const char *Name, size_t Len);
void pcce_shim_trace_entry(LLVMValueRef F, const char *Name, size_t Len);
LLVMValueRef pcce_shim_trace_behind(LLVMValueRef F, const char *Name, size_t Len, uint64_t Bytes);
void pcce_shim_trace_call_to(LLVMValueRef Call, LLVMValueRef Name);
typedef void (*TextCallback)(void *Context, const char *Text, size_t Len);
void pcce_shim_assembly_name(LLVMValueRef V, TextCallback OnName, void *Context);
void pcce_shim_runtime_library_calls(LLVMModuleRef M, TextCallback OnName, void *Context);
bool pcce_shim_insert_late_calls(void *Analyses, LLVMModuleRef M);
LLVMMemoryBufferRef pcce_shim_write(LLVMModuleRef M);
LLVMModuleRef pcce_shim_read(LLVMMemoryBufferRef Bitcode, const char *Name, size_t NameLen);
void pcce_shim_dispose_copy(void *Analyses, LLVMModuleRef M);
typedef void (*CallCallback)(void *Context, const char *Function, size_t Len, const char *Callee, size_t CalleeLen,
                             bool Jump, int64_t Offset);
bool pcce_shim_frame_offsets(void *Analyses, LLVMModuleRef M, uint32_t Level, bool NoPIE, CallCallback OnCall,
                             TextCallback OnError, void *Context);
}

// Metadata of sibling calls that the pass keeps.
inline constexpr char KeptTailCall[] = "pcce.tail";
// Metadata of calls through pointers that are reached only by other targets than those compared with.
inline constexpr char Compared[] = "pcce.compared";

// The return that the call's block ends with, or the shared one that it branches to with nothing in
// between (code generation duplicates that); null if there is none, or it returns something else.
llvm::ReturnInst *returnOf(llvm::CallInst &Call);

// Whether all arguments go in registers, as far as the plain rules of the x86-64 psABI tell.
bool inRegisters(const llvm::CallBase &Call);
