//===- shim.cpp - what LLVM's C API lacks ---------------------------------===//
//
// The only C++ of the project. Registers the pass with the pass builder and
// answers the few questions about IR that the C API has no function for. Holds no
// logic of its own: what to do is decided in Rust (src/).
//
//===----------------------------------------------------------------------===//

#include "llvm-c/Core.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/BranchProbabilityInfo.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/StackProtector.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/LTO/LTO.h"
#include "llvm/MC/MCDwarf.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetLoweringObjectFile.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/CallPromotionUtils.h"
#include "llvm/Transforms/Utils/EntryExitInstrumenter.h"
#include "llvm/Transforms/Utils/EscapeEnumerator.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

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
void pcce_shim_catch_escapes(void *Analyses, LLVMValueRef F);
uint32_t pcce_shim_linkage_facts(LLVMValueRef V);
void pcce_shim_set_dso_local(LLVMValueRef V);
void pcce_shim_keep(LLVMModuleRef M, const LLVMValueRef *Vs, size_t Count, bool AgainstLinker);
void pcce_shim_call_at(LLVMModuleRef M, const char *Name, size_t Len, LLVMValueRef Argument, bool End);
void pcce_shim_emit_error(LLVMModuleRef M, const char *Message, size_t Len);
bool pcce_shim_has_module_flag(LLVMModuleRef M, const char *Name, size_t Len);
const char *pcce_shim_source_name(LLVMValueRef F, size_t *Len);
size_t pcce_shim_use_count(LLVMValueRef V);
double pcce_shim_entry_count(LLVMValueRef F);
bool pcce_shim_is_interrupt_handler(LLVMValueRef F);
bool pcce_shim_can_be_diverted(LLVMValueRef F);
LLVMValueRef pcce_shim_make_thunk(LLVMValueRef F, const char *Name, size_t Len);
void pcce_shim_divert(LLVMValueRef F, LLVMValueRef Thunk, LLVMValueRef Id, LLVMValueRef Top, uint64_t Tag);
LLVMValueRef pcce_shim_keep_on_stack(LLVMValueRef A);
bool pcce_shim_has_address_taken(LLVMValueRef F);
bool pcce_shim_is_sibling_call(LLVMValueRef I);
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
LLVMValueRef pcce_shim_unless_null(LLVMValueRef Call, LLVMValueRef Pointer, LLVMValueRef Otherwise);
bool pcce_shim_looks_at_caller(LLVMValueRef F);
LLVMValueRef pcce_shim_make_push_thunk(LLVMValueRef Call, const char *Name, size_t Len);
bool pcce_shim_requires_stack_protector(LLVMValueRef F);
typedef void (*TextCallback)(void *Context, const char *Text, size_t Len);
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
static const char KeptTailCall[] = "pcce.tail";
// Metadata of calls through pointers that are reached only by other targets than those compared with.
static const char Compared[] = "pcce.compared";

// LLVM's own, by whose address it knows what it hands to callbacks. A copy in the plugin would have another one.
extern template struct llvm::Any::TypeId<const Module *>;

namespace {
// Values of Phase, as in src/lib.rs.
enum : uint32_t { PhaseModule = 0, PhaseLinkTime = 1, PhaseExplicit = 2, PhasePrint = 3 };

struct PccePass : PassInfoMixin<PccePass> {
  uint32_t Phase;
  uint32_t OptLevel;
  std::string Options;

  PccePass(uint32_t Phase, OptimizationLevel Level, StringRef Options = "")
      : Phase(Phase), OptLevel(Level.getSpeedupLevel()), Options(Options) {}

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    auto &FAM = MAM.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
    bool Changed = pcce_rs_run(wrap(&M), Phase, OptLevel, Options.data(), Options.size(), &FAM);
    return Changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }

  // Also for functions marked optnone, and at -O0.
  static bool isRequired() { return true; }
};
} // namespace

void pcce_shim_register(void *Builder) {
  auto &PB = *static_cast<PassBuilder *>(Builder);
  // What the callbacks know of the pipelines that this builder makes.
  struct State {
    bool HasStart = false;
    bool HasPass = false;
    bool NextIsLast = false;
    FunctionAnalysisManager *FAM = nullptr;
  };
  auto Known = std::make_shared<State>();
  // What else LLVM passes along is a matter of its version.
  auto Add = [Known](ModulePassManager &MPM, OptimizationLevel Level, auto...) {
    Known->HasPass = true;
    MPM.addPass(PccePass(PhaseModule, Level));
  };
  // Clang registers its sanitizers behind the plugins. They come in front of the pass all the same, as they do at link time: what
  // they insert calls on, and what the pass inserts is not theirs to guard or to move. (Pipelines behind a link have no start.)
  PB.registerOptimizerLastEPCallback([Add, Known](ModulePassManager &MPM, OptimizationLevel Level, auto...) {
    if (!Known->HasStart)
      Add(MPM, Level);
  });
  PB.registerPipelineStartEPCallback([&PB, Add, Known](ModulePassManager &, OptimizationLevel, auto...) {
    if (!std::exchange(Known->HasStart, true))
      PB.registerOptimizerLastEPCallback(Add);
  });
  PB.registerFullLinkTimeOptimizationLastEPCallback([Known](ModulePassManager &MPM, OptimizationLevel Level, auto...) {
    Known->HasPass = true;
    MPM.addPass(PccePass(PhaseLinkTime, Level));
  });
  // ThinLTO's pipeline of -O0 asks no plugin. The pass comes behind its last two passes all the same.
  PB.registerAnalysisRegistrationCallback([Known](FunctionAnalysisManager &FAM) { Known->FAM = &FAM; });
  if (PassInstrumentationCallbacks *Callbacks = PB.getPassInstrumentationCallbacks())
    Callbacks->registerAfterPassCallback([Known](StringRef Pass, Any IR, const PreservedAnalyses &) {
      bool IsLast = std::exchange(Known->NextIsLast, Pass == "EliminateAvailableExternallyPass");
      auto *M = any_cast<const Module *>(&IR);
      if (!IsLast || Pass != "GlobalDCEPass" || !M || !Known->FAM || std::exchange(Known->HasPass, true))
        return;
      pcce_rs_run(wrap(*M), PhaseModule, 0, nullptr, 0, Known->FAM);
      Known->FAM->clear();
    });
  PB.registerPipelineParsingCallback(
      [Known](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
        if (Name == "print<pcce-frames>") {
          MPM.addPass(PccePass(PhasePrint, OptimizationLevel::O2));
          return true;
        }
        if (!Name.consume_front("pcce"))
          return false;
        if (!Name.empty() && !(Name.consume_front("<") && Name.consume_back(">")))
          return false;
        Known->HasPass = true;
        MPM.addPass(PccePass(PhaseExplicit, OptimizationLevel::O2, Name));
        return true;
      });
}

const char *pcce_shim_llvm_version() { return LLVM_VERSION_STRING; }

// Executions of each block for one execution of the function, in block order.
void pcce_shim_block_frequencies(void *Analyses, LLVMValueRef V, double *Out) {
  Function &F = *unwrap<Function>(V);
  auto &FAM = *static_cast<FunctionAnalysisManager *>(Analyses);
  auto &BFI = FAM.getResult<BlockFrequencyAnalysis>(F);
  double Entry = static_cast<double>(BFI.getEntryFreq().getFrequency());
  for (BasicBlock &BB : F)
    *Out++ = Entry > 0 ? static_cast<double>(BFI.getBlockFreq(&BB).getFrequency()) / Entry : 1.0;
}

// One for each successor of each block, in their order.
void pcce_shim_branch_probabilities(void *Analyses, LLVMValueRef V, double *Out) {
  Function &F = *unwrap<Function>(V);
  auto &FAM = *static_cast<FunctionAnalysisManager *>(Analyses);
  auto &BPI = FAM.getResult<BranchProbabilityAnalysis>(F);
  for (BasicBlock &BB : F)
    for (unsigned I = 0, E = BB.getTerminator()->getNumSuccessors(); I != E; ++I)
      *Out++ = static_cast<double>(BPI.getEdgeProbability(&BB, I).getNumerator()) / BranchProbability::getDenominator();
}

static StringRef sourceName(const DISubprogram *SP) {
  return SP->getLinkageName().empty() ? SP->getName() : SP->getLinkageName();
}

// The locations of an instruction, innermost first. One without a location gets the function's
// own name and file, with line 0.
void pcce_shim_locations(LLVMValueRef V, LocationCallback Callback, void *Context) {
  auto *I = unwrap<Instruction>(V);
  auto Report = [&](const DISubprogram *SP, const DIFile *File, unsigned Line, unsigned Column) {
    StringRef Name = sourceName(SP);
    StringRef Dir = File ? File->getDirectory() : "", Base = File ? File->getFilename() : "";
    Callback(Context, Name.data(), Name.size(), Dir.data(), Dir.size(), Base.data(), Base.size(),
             Line, Column);
  };
  const DILocation *Loc = I->getDebugLoc();
  if (!Loc) {
    if (const DISubprogram *SP = I->getFunction()->getSubprogram())
      Report(SP, SP->getFile(), 0, 0);
    return;
  }
  for (; Loc; Loc = Loc->getInlinedAt())
    Report(Loc->getScope()->getSubprogram(), Loc->getFile(), Loc->getLine(), Loc->getColumn());
}

LLVMBasicBlockRef pcce_shim_split_edge(LLVMBasicBlockRef From, LLVMBasicBlockRef To) {
  return wrap(SplitEdge(unwrap(From), unwrap(To)));
}

LLVMBasicBlockRef pcce_shim_unique_predecessor(LLVMBasicBlockRef Block) {
  return wrap(unwrap(Block)->getSinglePredecessor());
}

// Takes the instruction, which nothing uses, out of its block. It is deleted at the end of the run: until then there may be
// handles to it.
void pcce_shim_unlink(LLVMValueRef V) {
  auto *I = unwrap<Instruction>(V);
  I->removeFromParent();
  I->dropAllReferences();
}

// At the end of the run, for a block that lost a predecessor: replaces the phis that have one value only, as
// BasicBlock::removePredecessor would have done at once.
void pcce_shim_fold_phis(LLVMBasicBlockRef Block) {
  for (PHINode &Phi : make_early_inc_range(unwrap(Block)->phis())) {
    Value *Only = Phi.getNumIncomingValues() == 0 ? PoisonValue::get(Phi.getType()) : Phi.hasConstantValue();
    if (!Only)
      continue;
    Phi.replaceAllUsesWith(Only);
    Phi.eraseFromParent();
  }
}

// A call in the invoke's place, with a branch behind it. As changeToCall, but the invoke is left to be unlinked.
LLVMValueRef pcce_shim_invoke_to_call(LLVMValueRef V) {
  auto *Invoke = unwrap<InvokeInst>(V);
  CallInst *Call = createCallMatchingInvoke(Invoke);
  Call->takeName(Invoke);
  Call->insertBefore(Invoke->getIterator());
  Invoke->replaceAllUsesWith(Call);
  BranchInst *Branch = BranchInst::Create(Invoke->getNormalDest(), Invoke->getIterator());
#if LLVM_VERSION_MAJOR >= 21
  Branch->setDebugLoc(Invoke->getDebugLoc());
#else
  (void)Branch;
#endif
  Invoke->getUnwindDest()->removePredecessor(Invoke->getParent(), /*KeepOneInputPHIs=*/true);
  return wrap(Call);
}

// Makes exceptions that leave a function which code of other modules can call stop at a landing
// pad on their way out.
void pcce_shim_catch_escapes(void *Analyses, LLVMValueRef V) {
  Function &F = *unwrap<Function>(V);
  if (F.doesNotThrow() || (F.hasLocalLinkage() && !F.hasAddressTaken()))
    return;
  // An invoke is no tail call. Those that are kept leave no frame, and so nothing to restore.
  SmallVector<CallInst *, 4> Kept;
  for (BasicBlock &BB : F)
    for (Instruction &I : BB)
      if (auto *Call = dyn_cast<CallInst>(&I);
          Call && Call->hasMetadata(KeptTailCall) && !Call->doesNotThrow())
        Kept.push_back(Call);
  for (CallInst *Call : Kept)
    Call->setDoesNotThrow();
  EscapeEnumerator Escapes(F, "pcce.unwind");
  while (Escapes.Next())
    ;
  for (CallInst *Call : Kept)
    Call->removeFnAttr(Attribute::NoUnwind);
  auto &FAM = *static_cast<FunctionAnalysisManager *>(Analyses);
  FAM.invalidate(F, PreservedAnalyses::none());
}

// Bit 0: local linkage. Bit 1: the definition here is the one that runs, as far as linkage and
// visibility tell. Bit 2: member of a comdat group. Bit 3: no definition in this module.
uint32_t pcce_shim_linkage_facts(LLVMValueRef V) {
  auto *G = unwrap<GlobalValue>(V);
  uint32_t Facts = 0;
  if (G->hasLocalLinkage())
    Facts |= 1;
  if (G->hasLocalLinkage() || (G->isDefinitionExact() && !G->isInterposable() && G->isDSOLocal()))
    Facts |= 2;
  if (G->hasComdat())
    Facts |= 4;
  if (G->isDeclarationForLinker())
    Facts |= 8;
  return Facts;
}

void pcce_shim_set_dso_local(LLVMValueRef V) { unwrap<GlobalValue>(V)->setDSOLocal(true); }

void pcce_shim_keep(LLVMModuleRef M, const LLVMValueRef *Vs, size_t Count, bool AgainstLinker) {
  SmallVector<GlobalValue *> Values;
  for (size_t I = 0; I < Count; ++I)
    Values.push_back(unwrap<GlobalValue>(Vs[I]));
  if (AgainstLinker)
    appendToUsed(*unwrap(M), Values);
  else
    appendToCompilerUsed(*unwrap(M), Values);
}

// Lets the module call a function of another object with one pointer: before its constructors, or after its destructors.
void pcce_shim_call_at(LLVMModuleRef MR, const char *Name, size_t Len, LLVMValueRef Argument, bool End) {
  Module &M = *unwrap(MR);
  LLVMContext &C = M.getContext();
  Type *Void = Type::getVoidTy(C);
  FunctionCallee Callee = M.getOrInsertFunction(StringRef(Name, Len), Void, PointerType::getUnqual(C));
  auto *F = Function::Create(FunctionType::get(Void, false), GlobalValue::InternalLinkage, "__pcce_module", M);
  IRBuilder<> B(BasicBlock::Create(C, "", F));
  B.CreateCall(Callee, unwrap(Argument));
  B.CreateRetVoid();
  End ? appendToGlobalDtors(M, F, 0) : appendToGlobalCtors(M, F, 0);
}

void pcce_shim_emit_error(LLVMModuleRef M, const char *Message, size_t Len) {
  unwrap(M)->getContext().emitError(StringRef(Message, Len));
}

bool pcce_shim_has_module_flag(LLVMModuleRef M, const char *Name, size_t Len) {
  return unwrap(M)->getModuleFlag(StringRef(Name, Len)) != nullptr;
}

const char *pcce_shim_source_name(LLVMValueRef F, size_t *Len) {
  const DISubprogram *SP = unwrap<Function>(F)->getSubprogram();
  StringRef Name = SP ? sourceName(SP) : "";
  *Len = Name.size();
  return Name.data();
}

// Executions of the function in the profile; negative if there is none.
double pcce_shim_entry_count(LLVMValueRef F) {
  auto Count = unwrap<Function>(F)->getEntryCount();
  return Count ? static_cast<double>(Count->getCount()) : -1.0;
}

size_t pcce_shim_use_count(LLVMValueRef V) { return unwrap(V)->getNumUses(); }

bool pcce_shim_is_interrupt_handler(LLVMValueRef V) {
  return unwrap<Function>(V)->getCallingConv() == CallingConv::X86_INTR;
}

// Whether a thunk can call the function with its own arguments, and the function end in a call of that thunk.
bool pcce_shim_can_be_diverted(LLVMValueRef V) {
  const Function &F = *unwrap<Function>(V);
  // An error result is a register that only a variable of its own can stand for, which no tail call can hand on.
  if (F.isVarArg() || F.getAttributes().hasAttrSomewhere(Attribute::SwiftError))
    return false;
  switch (F.getCallingConv()) {
  case CallingConv::C:
  case CallingConv::Fast:
  case CallingConv::Cold:
  case CallingConv::Tail:
  case CallingConv::Swift:
  case CallingConv::SwiftTail:
  case CallingConv::PreserveMost:
  case CallingConv::PreserveAll:
  case CallingConv::PreserveNone:
  case CallingConv::X86_64_SysV:
  case CallingConv::Win64:
  case CallingConv::X86_VectorCall:
  case CallingConv::X86_RegCall:
    return true;
  default:
    return false;
  }
}

// A local function that calls F with its own arguments and returns the result. Returns the call, or the invoke: exceptions
// that leave it pass a landing pad.
LLVMValueRef pcce_shim_make_thunk(LLVMValueRef V, const char *Name, size_t Len) {
  Function &F = *unwrap<Function>(V);
  auto *T = Function::Create(F.getFunctionType(), GlobalValue::InternalLinkage, F.getAddressSpace(),
                             StringRef(Name, Len), F.getParent());
  T->copyAttributesFrom(&F);
  T->setLinkage(GlobalValue::InternalLinkage);
  T->setVisibility(GlobalValue::DefaultVisibility);
  T->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  // The linker keeps one copy of F, and this with it.
  T->setComdat(F.getComdat());
  T->removeFnAttr(Attribute::AlwaysInline);
  if (!T->hasFnAttribute(Attribute::OptimizeNone))
    T->addFnAttr(Attribute::Cold);
  T->addFnAttr(Attribute::NoInline);
  IRBuilder<> B(BasicBlock::Create(F.getContext(), "", T));
  SmallVector<Value *, 8> Arguments;
  for (Argument &A : T->args())
    Arguments.push_back(&A);
  CallInst *Call = B.CreateCall(&F, Arguments);
  Call->setCallingConv(F.getCallingConv());
  Call->setAttributes(F.getAttributes());
  if (F.getReturnType()->isVoidTy())
    B.CreateRetVoid();
  else
    B.CreateRet(Call);
  EscapeEnumerator Escapes(*T, "pcce.unwind");
  while (Escapes.Next())
    ;
  for (Instruction &I : T->getEntryBlock())
    if (isa<CallBase>(I))
      return wrap(&I);
  llvm_unreachable("the entry block calls");
}

// Makes F jump to Thunk, which has its signature, at its entry if the word Id is positive or the word Top has a bit of Tag.
void pcce_shim_divert(LLVMValueRef V, LLVMValueRef ThunkV, LLVMValueRef Id, LLVMValueRef Top, uint64_t Tag) {
  Function &F = *unwrap<Function>(V);
  Function &T = *unwrap<Function>(ThunkV);
  BasicBlock &Entry = F.getEntryBlock();
  // Allocas of constant size are part of the frame only in the entry block.
  SmallVector<AllocaInst *, 8> Allocas;
  for (Instruction &I : Entry)
    if (auto *A = dyn_cast<AllocaInst>(&I); A && A->isStaticAlloca())
      Allocas.push_back(A);
  for (AllocaInst *A : Allocas)
    A->moveBefore(Entry, Entry.getFirstInsertionPt());
  auto At = Entry.begin();
  while (isa<AllocaInst>(*At))
    ++At;
  IRBuilder<> B(&*At);
  B.SetCurrentDebugLocation(DebugLoc());
  auto Load = [&](LLVMValueRef Word) { return B.CreateAlignedLoad(B.getInt64Ty(), unwrap(Word), Align(8)); };
  Value *Positive = B.CreateICmpSGT(Load(Id), B.getInt64(0));
  Value *Tagged = B.CreateIsNotNull(B.CreateAnd(Load(Top), Tag));
  Value *Diverts = B.CreateOr(Positive, Tagged);
  MDNode *Unlikely = MDBuilder(F.getContext()).createUnlikelyBranchWeights();
  Instruction *End = SplitBlockAndInsertIfThen(Diverts, &*At, /*Unreachable=*/true, Unlikely);
  B.SetInsertPoint(End);
  SmallVector<Value *, 8> Arguments;
  for (Argument &A : F.args())
    Arguments.push_back(&A);
  CallInst *Call = B.CreateCall(&T, Arguments);
  Call->setCallingConv(T.getCallingConv());
  Call->setAttributes(T.getAttributes());
  Call->setTailCallKind(CallInst::TCK_MustTail);
  // LLVM's splitting of cold code (-hot-cold-split) comes behind the pass. It would take this cold call into a function of another
  // type, where it cannot be a tail call. It leaves functions alone that are not inlined, and nothing is inlined any more.
  if (!F.hasFnAttribute(Attribute::AlwaysInline))
    F.addFnAttr(Attribute::NoInline);
  if (F.getReturnType()->isVoidTy())
    B.CreateRetVoid();
  else
    B.CreateRet(Call);
  End->eraseFromParent();
}

// The address of a variable that SafeStack, which comes behind the pass, leaves where it is: it takes those away whose address is
// stored, and does not look behind the assembly.
LLVMValueRef pcce_shim_keep_on_stack(LLVMValueRef V) {
  auto *A = unwrap<AllocaInst>(V);
  IRBuilder<> B(A->getParent(), std::next(A->getIterator()));
  auto *T = FunctionType::get(A->getType(), {A->getType()}, false);
  CallInst *Address = B.CreateCall(T, InlineAsm::get(T, "", "=r,0", /*hasSideEffects=*/false), {A});
  Address->setDoesNotAccessMemory();
  Address->setDoesNotThrow();
#if LLVM_VERSION_MAJOR >= 21
  Address->addParamAttr(0, Attribute::getWithCaptureInfo(A->getContext(), CaptureInfo::none()));
#else
  Address->addParamAttr(0, Attribute::NoCapture);
#endif
  return wrap(Address);
}

bool pcce_shim_has_address_taken(LLVMValueRef F) { return unwrap<Function>(F)->hasAddressTaken(); }

// In front of a tail call: marks the frame that Top leads to, or the thread if there is none, as one whose function
// has left
// its activation. Given Id, only where that is 0 and the link has no Tag: there the function has begun a sub-path.
void pcce_shim_mark_left(LLVMValueRef V, LLVMValueRef Id, LLVMValueRef Top, uint64_t Tag, uint64_t Offset, LLVMValueRef Thread,
                         uint8_t Mark) {
  Instruction *At = unwrap<Instruction>(V);
  IRBuilder<> B(At);
  Value *Frame = B.CreateAlignedLoad(B.getPtrTy(), unwrap(Top), Align(8));
  if (Id) {
    Value *Number = B.CreateAlignedLoad(B.getInt64Ty(), unwrap(Id), Align(8));
    Value *Tagged = B.CreateAnd(B.CreatePtrToInt(Frame, B.getInt64Ty()), Tag);
    Value *Begins = B.CreateIsNull(B.CreateOr(Number, Tagged));
    B.SetInsertPoint(SplitBlockAndInsertIfThen(Begins, At, /*Unreachable=*/false));
  }
  Value *Marks = B.CreateConstGEP1_64(B.getInt8Ty(), Frame, Offset);
  B.CreateStore(B.getInt8(Mark), B.CreateSelect(B.CreateIsNull(Frame), unwrap(Thread), Marks));
}

// Instructions that no code is made of.
static bool isNothing(const Instruction &I) {
  return I.isDebugOrPseudoInst() || I.isLifetimeStartOrEnd();
}

// The first instruction from It on that code is made of.
static Instruction &skipNothing(BasicBlock::iterator It) {
  while (isNothing(*It))
    ++It;
  return *It;
}

// The return that the call's block ends with, or the shared one that it branches to with nothing in
// between (code generation duplicates that); null if there is none, or it returns something else.
static ReturnInst *returnOf(CallInst &Call) {
  Instruction *Next = &skipNothing(std::next(Call.getIterator()));
  auto *Branch = dyn_cast<BranchInst>(Next);
  if (Branch && Branch->isUnconditional())
    Next = &skipNothing(Branch->getSuccessor(0)->getFirstNonPHIIt());
  auto *Ret = dyn_cast<ReturnInst>(Next);
  if (!Ret || !Ret->getReturnValue())
    return Ret;
  Value *Returned = Ret->getReturnValue();
  if (auto *Phi = dyn_cast<PHINode>(Returned); Phi && Branch && Phi->getParent() == Ret->getParent())
    Returned = Phi->getIncomingValueForBlock(Call.getParent());
  return Returned == &Call ? Ret : nullptr;
}

// Whether all arguments go in registers, as far as the plain rules of the x86-64 psABI tell.
static bool inRegisters(const CallBase &Call) {
  unsigned Integers = 0, Vectors = 0;
  for (const Use &Argument : Call.args()) {
    Type *T = Argument->getType();
    if (T->isPointerTy() || (T->isIntegerTy() && T->getIntegerBitWidth() <= 64))
      ++Integers;
    else if (T->isFloatTy() || T->isDoubleTy() || (isa<FixedVectorType>(T) && T->getPrimitiveSizeInBits().getFixedValue() <= 128))
      ++Vectors;
    else
      return false;
    unsigned I = Call.getArgOperandNo(&Argument);
    if (Call.isPassPointeeByValueArgument(I) || Call.paramHasAttr(I, Attribute::StructRet))
      return false;
  }
  return Integers <= 6 && Vectors <= 8;
}

// As X86TargetLowering::IsEligibleForTailCallOptimization decides, for the ordinary cases. Variadic callers are left
// out: they are rarely worth it.
bool pcce_shim_is_sibling_call(LLVMValueRef V) {
  auto *Call = dyn_cast<CallInst>(unwrap(V));
  if (!Call || Call->getTailCallKind() != CallInst::TCK_Tail)
    return false;
  const Function &Caller = *Call->getFunction();
  // Registers that the caller has to hand back.
  if (Caller.getAttributes().hasAttrSomewhere(Attribute::SwiftError) || Caller.hasFnAttribute("no_caller_saved_registers"))
    return false;
  return Caller.getCallingConv() == Call->getCallingConv() && !Caller.hasStructRetAttr() && !Caller.isVarArg() &&
         Caller.getFnAttribute("disable-tail-calls").getValueAsString() != "true" && inRegisters(*Call) &&
         returnOf(*Call);
}

// Also gives it a return of its own, as code generation would. Then it returns the branch that came there, to be unlinked.
LLVMValueRef pcce_shim_keep_tail_call(LLVMValueRef V) {
  auto *Call = unwrap<CallInst>(V);
  BasicBlock *Block = Call->getParent();
  Call->setMetadata(KeptTailCall, MDNode::get(Block->getContext(), {}));
  ReturnInst *Ret = returnOf(*Call);
  if (Ret->getParent() == Block)
    return nullptr;
  Instruction *Branch = Block->getTerminator();
  auto *Own = ReturnInst::Create(Block->getContext(), Ret->getReturnValue() ? Call : nullptr, Branch->getIterator());
  Own->setDebugLoc(Branch->getDebugLoc());
  Ret->getParent()->removePredecessor(Block, /*KeepOneInputPHIs=*/true);
  return wrap(Branch);
}

bool pcce_shim_is_kept_tail_call(LLVMValueRef V) {
  return unwrap<CallInst>(V)->hasMetadata(KeptTailCall);
}

// Whether a thunk can hand on the call's arguments as they are.
bool pcce_shim_can_go_through_thunk(LLVMValueRef V) {
  const auto &Call = *unwrap<CallBase>(V);
  const bool Plain = Call.getCallingConv() == CallingConv::C || Call.getCallingConv() == CallingConv::Fast;
  if (!Plain || isa<CallBrInst>(Call) || Call.isMustTailCall() || Call.isInlineAsm() || Call.hasOperandBundles() ||
      Call.hasFnAttr(Attribute::ReturnsTwice) || !inRegisters(Call))
    return false;
  const AttributeList Given = Call.getAttributes();
  for (Attribute::AttrKind Special :
       {Attribute::InReg, Attribute::Nest, Attribute::SwiftSelf, Attribute::SwiftError, Attribute::SwiftAsync})
    if (Given.hasAttrSomewhere(Special))
      return false;
  return true;
}

// Lets the call be made only if the pointer is not null; otherwise its result is the other value. Returns the result.
LLVMValueRef pcce_shim_unless_null(LLVMValueRef V, LLVMValueRef Pointer, LLVMValueRef Otherwise) {
  auto &Call = *unwrap<CallInst>(V);
  BasicBlock *Head = Call.getParent();
  IRBuilder<> B(&Call);
  Instruction *End = SplitBlockAndInsertIfThen(B.CreateIsNotNull(unwrap(Pointer)), &Call, false);
  BasicBlock *Tail = Call.getParent();
  Call.moveBefore(*End->getParent(), End->getIterator());
  B.SetInsertPoint(Tail, Tail->begin());
  PHINode *Result = B.CreatePHI(Call.getType(), 2);
  Result->addIncoming(&Call, Call.getParent());
  Result->addIncoming(unwrap(Otherwise), Head);
  return wrap(Result);
}

bool pcce_shim_looks_at_caller(LLVMValueRef V) {
  for (const Instruction &I : instructions(unwrap<Function>(V)))
    if (auto *Intrinsic = dyn_cast<IntrinsicInst>(&I))
      switch (Intrinsic->getIntrinsicID()) {
      case Intrinsic::returnaddress:
      case Intrinsic::addressofreturnaddress:
      case Intrinsic::frameaddress:
        return true;
      default:
        break;
      }
  return false;
}

// Replaces the call by one of a new local function, whose first instruction calls what the call did with the arguments that it
// gets. For a call through a pointer, the pointer comes last, in a register that no argument uses. Returns the new call; the
// other is left to be unlinked.
LLVMValueRef pcce_shim_make_push_thunk(LLVMValueRef V, const char *Name, size_t Len) {
  auto &Call = *unwrap<CallBase>(V);
  Function &Caller = *Call.getFunction();
  LLVMContext &Context = Call.getContext();
  const AttributeList Given = Call.getAttributes();
  Value *Callee = Call.getCalledOperand();
  const bool Indirect = !isa<GlobalValue>(Callee);
  SmallVector<Value *, 8> Arguments(Call.args());
  if (Indirect)
    Arguments.push_back(Callee);
  SmallVector<Type *, 8> Types;
  for (const Value *Argument : Arguments)
    Types.push_back(Argument->getType());
  auto *T = Function::Create(FunctionType::get(Call.getType(), Types, false), GlobalValue::InternalLinkage,
                             Caller.getAddressSpace(), StringRef(Name, Len), Call.getModule());
  // The linker keeps one copy of the caller, and this with it.
  T->setComdat(Caller.getComdat());
  T->setCallingConv(Call.getCallingConv());
  T->addFnAttr(Attribute::Cold);
  T->addFnAttr(Attribute::NoInline);
  // What the machine and the program's users demand of every function.
  for (Attribute::AttrKind Kind : {Attribute::UWTable, Attribute::NoRedZone, Attribute::NoImplicitFloat,
                                   Attribute::ShadowCallStack, Attribute::SpeculativeLoadHardening})
    if (Caller.hasFnAttribute(Kind))
      T->addFnAttr(Caller.getFnAttribute(Kind));
  for (StringRef Kind : {"target-cpu", "tune-cpu", "target-features", "frame-pointer", "probe-stack", "stack-probe-size"})
    if (Caller.hasFnAttribute(Kind))
      T->addFnAttr(Caller.getFnAttribute(Kind));

  IRBuilder<> B(BasicBlock::Create(Context, "", T));
  SmallVector<Value *, 8> Passed;
  for (Argument &A : T->args())
    Passed.push_back(&A);
  Value *PassedCallee = Indirect ? Passed.pop_back_val() : Callee;
  CallInst *Forwarded = B.CreateCall(Call.getFunctionType(), PassedCallee, Passed);
  Forwarded->setCallingConv(Call.getCallingConv());
  if (Call.getType()->isVoidTy())
    B.CreateRetVoid();
  else
    B.CreateRet(Forwarded);

  B.SetInsertPoint(&Call);
  CallBase *New;
  if (auto *Invoke = dyn_cast<InvokeInst>(&Call)) {
    New = B.CreateInvoke(T, Invoke->getNormalDest(), Invoke->getUnwindDest(), Arguments);
  } else {
    auto *Plain = B.CreateCall(T, Arguments);
    Plain->setTailCallKind(cast<CallInst>(Call).getTailCallKind());
    New = Plain;
  }
  New->setCallingConv(Call.getCallingConv());
  for (unsigned I : Given.indexes())
    for (Attribute::AttrKind Extension : {Attribute::ZExt, Attribute::SExt})
      if (I != AttributeList::FunctionIndex && Given.hasAttributeAtIndex(I, Extension)) {
        const Attribute A = Attribute::get(Context, Extension);
        Forwarded->addAttributeAtIndex(I, A);
        T->addAttributeAtIndex(I, A);
        New->addAttributeAtIndex(I, A);
      }
  if (Indirect) {
    T->addParamAttr(Passed.size(), Attribute::Nest);
    New->addParamAttr(Passed.size(), Attribute::Nest);
  }
  if (Call.doesNotReturn())
    New->setDoesNotReturn();
  if (Call.doesNotThrow())
    New->setDoesNotThrow();
  New->takeName(&Call);
  Call.replaceAllUsesWith(New);
  return wrap(New);
}

// Calls Callee directly where the call's pointer is its address. The call itself remains for all others. Returns whether
// their types allow it.
bool pcce_shim_compare_target(void *Analyses, LLVMValueRef V, LLVMValueRef CalleeV) {
  auto &Call = *unwrap<CallBase>(V);
  auto *Callee = unwrap<Function>(CalleeV);
  if (!isLegalToPromote(Call, Callee))
    return false;
  LLVMContext &Context = Call.getContext();
  CallBase &Direct =
      promoteCallWithIfThenElse(Call, Callee, MDBuilder(Context).createLikelyBranchWeights());
  Direct.setMetadata(Compared, nullptr);
  Call.setMetadata(Compared, MDNode::get(Context, {}));
  auto &FAM = *static_cast<FunctionAnalysisManager *>(Analyses);
  FAM.invalidate(*Call.getFunction(), PreservedAnalyses::none());
  return true;
}

// How the called pointer was come by. 0: nobody knows. 1: it was loaded, and not from a C++ virtual table. 2: it was
// loaded from
// one, as the types of memory accesses say.
uint32_t pcce_shim_pointer_kind(LLVMValueRef V) {
  auto *Load = dyn_cast<LoadInst>(unwrap<CallBase>(V)->getCalledOperand());
  if (!Load)
    return 0;
  if (Load->hasMetadata(LLVMContext::MD_tbaa))
    return 1;
  auto *Table = dyn_cast<LoadInst>(Load->getPointerOperand()->stripInBoundsOffsets());
  const MDNode *Tag = Table ? Table->getMetadata(LLVMContext::MD_tbaa) : nullptr;
  return Tag && Tag->isTBAAVtableAccess() ? 2 : 0;
}

// Where the function's address is, besides in calls of it. Bit 0: in C++ virtual tables. Bit 1: elsewhere.
uint32_t pcce_shim_address_places(LLVMValueRef V) {
  uint32_t Places = 0;
  SmallVector<const Use *, 8> Uses;
  SmallPtrSet<const Value *, 8> Seen;
  const auto Add = [&](const Value &Of) {
    if (Seen.insert(&Of).second)
      for (const Use &U : Of.uses())
        Uses.push_back(&U);
  };
  Add(*unwrap<Function>(V));
  while (!Uses.empty()) {
    const Use &U = *Uses.pop_back_val();
    const User *By = U.getUser();
    if (auto *Call = dyn_cast<CallBase>(By); Call && Call->isCallee(&U))
      continue;
    if (auto *Table = dyn_cast<GlobalVariable>(By))
      Places |= Table->getName().starts_with("_ZTV") || Table->getName().starts_with("_ZTC") ? 1 : 2;
    else if (isa<ConstantAggregate>(By))
      Add(*By);
    else
      Places |= 2;
  }
  return Places;
}

bool pcce_shim_is_compared(LLVMValueRef V) { return unwrap<CallBase>(V)->hasMetadata(Compared); }

bool pcce_shim_requires_stack_protector(LLVMValueRef F) {
  return StackProtector::requiresStackProtector(unwrap<Function>(F));
}

// The functions that code generation for the module's target calls by name.
void pcce_shim_runtime_library_calls(LLVMModuleRef M, TextCallback OnName, void *Context) {
  for (StringRef Name : lto::LTO::getRuntimeLibcallSymbols(Triple(unwrap(M)->getTargetTriple())))
    OnName(Context, Name.data(), Name.size());
}

// Calls the function that is named to take the trap's place, as SelectionDAGBuilder does.
static bool callTrapFunction(Instruction &I) {
  auto *Trap = dyn_cast<IntrinsicInst>(&I);
  if (!Trap)
    return false;
  SmallVector<Value *, 1> Arguments;
  switch (Trap->getIntrinsicID()) {
  case Intrinsic::ubsantrap:
    Arguments.push_back(Trap->getArgOperand(0));
    break;
  case Intrinsic::trap:
  case Intrinsic::debugtrap:
    break;
  default:
    return false;
  }
  StringRef Name = Trap->getAttributes().getFnAttr("trap-func-name").getValueAsString();
  if (Name.empty())
    return false;
  SmallVector<Type *, 1> Types;
  for (Value *Argument : Arguments)
    Types.push_back(Argument->getType());
  auto *T = FunctionType::get(Trap->getType(), Types, false);
  IRBuilder<> B(Trap);
  CallInst *Call = B.CreateCall(Trap->getModule()->getOrInsertFunction(Name, T), Arguments);
  for (Attribute::AttrKind Kind : {Attribute::NoReturn, Attribute::NoUnwind, Attribute::Cold, Attribute::NoMerge})
    if (Trap->hasFnAttr(Kind))
      Call->addFnAttr(Kind);
  Trap->eraseFromParent();
  return true;
}

// Inserts calls that code generation would insert: of functions' hooks (mcount, __cyg_profile_func_enter) after inlining, and in
// the place of traps. Returns whether there are any.
bool pcce_shim_insert_late_calls(void *Analyses, LLVMModuleRef MR) {
  auto &FAM = *static_cast<FunctionAnalysisManager *>(Analyses);
  bool Any = false;
  for (Function &F : *unwrap(MR)) {
    if (F.isDeclaration())
      continue;
    bool Here = !EntryExitInstrumenterPass(/*PostInlining=*/true).run(F, FAM).areAllPreserved();
    for (Instruction &I : make_early_inc_range(instructions(F)))
      Here |= callTrapFunction(I);
    if (Here)
      FAM.invalidate(F, PreservedAnalyses::none());
    Any |= Here;
  }
  return Any;
}

namespace {
// What is said of copies of the module is said again of the module itself.
struct Quiet : DiagnosticHandler {
  std::string FirstError;

  bool handleDiagnostics(const DiagnosticInfo &DI) override {
    if (DI.getSeverity() == DS_Error && FirstError.empty()) {
      raw_string_ostream Out(FirstError);
      DiagnosticPrinterRawOStream Printer(Out);
      DI.print(Printer);
    }
    return true;
  }
};

// Follows the unwind information through each function, in the order of its code, as AsmPrinter writes it.
void reportCalls(const MachineFunction &MF, CallCallback OnCall, void *Context) {
  // DWARF's number of the stack pointer of x86-64, and where the canonical frame address is at a function's entry.
  constexpr unsigned StackPointer = 7;
  struct Rule {
    bool FromStackPointer;
    int64_t Offset;
  } Now{true, 8};
  SmallVector<Rule, 4> Remembered;
  const bool Unwinds = MF.getFunction().needsUnwindTableEntry();
  for (const MachineBasicBlock &MBB : MF)
    for (const MachineInstr &MI : MBB) {
      if (MI.isCall()) {
        StringRef Callee;
        if (MI.getNumOperands() > 0 && MI.getOperand(0).isGlobal())
          Callee = MI.getOperand(0).getGlobal()->getName();
        else if (MI.getNumOperands() > 0 && MI.getOperand(0).isSymbol())
          Callee = MI.getOperand(0).getSymbolName();
        OnCall(Context, MF.getName().data(), MF.getName().size(), Callee.data(), Callee.size(), MI.isReturn(),
               Unwinds && Now.FromStackPointer ? Now.Offset : -1);
      }
      if (!MI.isCFIInstruction())
        continue;
      const MCCFIInstruction &CFI = MF.getFrameInstructions()[MI.getOperand(0).getCFIIndex()];
      switch (CFI.getOperation()) {
      case MCCFIInstruction::OpDefCfa:
        Now = {CFI.getRegister() == StackPointer, CFI.getOffset()};
        break;
      case MCCFIInstruction::OpDefCfaRegister:
        Now.FromStackPointer = CFI.getRegister() == StackPointer;
        break;
      case MCCFIInstruction::OpDefCfaOffset:
        Now.Offset = CFI.getOffset();
        break;
      case MCCFIInstruction::OpAdjustCfaOffset:
        Now.Offset += CFI.getOffset();
        break;
      case MCCFIInstruction::OpRememberState:
        Remembered.push_back(Now);
        break;
      case MCCFIInstruction::OpRestoreState:
        if (!Remembered.empty())
          Now = Remembered.pop_back_val();
        break;
      // May say anything of the canonical frame address.
      case MCCFIInstruction::OpEscape:
      case MCCFIInstruction::OpLLVMDefAspaceCfa:
        Now.FromStackPointer = false;
        break;
      default:
        break;
      }
    }
}
} // namespace

// With the order of uses, on which code generation may depend.
LLVMMemoryBufferRef pcce_shim_write(LLVMModuleRef MR) {
  SmallVector<char, 0> Bitcode;
  raw_svector_ostream Out(Bitcode);
  WriteBitcodeToFile(*unwrap(MR), Out, /*ShouldPreserveUseListOrder=*/true);
  return wrap(MemoryBuffer::getMemBufferCopy(StringRef(Bitcode.data(), Bitcode.size())).release());
}

// A copy in a context of its own, which says nothing to anybody; null if it cannot be read.
LLVMModuleRef pcce_shim_read(LLVMMemoryBufferRef Bitcode, const char *Name, size_t NameLen) {
  auto Context = std::make_unique<LLVMContext>();
  Context->setDiagnosticHandler(std::make_unique<Quiet>());
  auto M = parseBitcodeFile(unwrap(Bitcode)->getMemBufferRef(), *Context);
  if (!M) {
    consumeError(M.takeError());
    return nullptr;
  }
  (*M)->setModuleIdentifier(StringRef(Name, NameLen));
  Context.release();
  return wrap(M->release());
}

static void forget(FunctionAnalysisManager &FAM, Module &M) {
  for (Function &F : M)
    FAM.clear(F, F.getName());
}

// With its context.
void pcce_shim_dispose_copy(void *Analyses, LLVMModuleRef MR) {
  Module *M = unwrap(MR);
  LLVMContext *Context = &M->getContext();
  forget(*static_cast<FunctionAnalysisManager *>(Analyses), *M);
  delete M;
  delete Context;
}

// Generates the code of a copy, as lld and clang would with their default options. Tells of each call in the code of each function how
// far the stack pointer is below the canonical frame address, or -1 if the unwind information does not say. Returns whether it
// could; what went wrong otherwise is told, too.
bool pcce_shim_frame_offsets(void *Analyses, LLVMModuleRef MR, uint32_t Level, bool NoPIE, CallCallback OnCall,
                             TextCallback OnError, void *Context) {
  Module &M = *unwrap(MR);
  forget(*static_cast<FunctionAnalysisManager *>(Analyses), M);
  auto Fail = [&](StringRef Message) {
    OnError(Context, Message.data(), Message.size());
    return false;
  };
#if LLVM_VERSION_MAJOR >= 21
  const Triple &Name = M.getTargetTriple();
  const Triple &T = Name;
#else
  const std::string &Name = M.getTargetTriple();
  const Triple T(Name);
  using TargetMachine = LLVMTargetMachine;
#endif
  if (T.getArch() != Triple::x86_64)
    return Fail("the module is not for x86-64");
  std::string Error;
  const Target *Found = TargetRegistry::lookupTarget(Name, Error);
  if (!Found)
    return Fail(Error);
  const Reloc::Model Relocation =
      NoPIE || M.getPICLevel() == PICLevel::NotPIC ? Reloc::Static : Reloc::PIC_;
  std::unique_ptr<TargetMachine> TM(static_cast<TargetMachine *>(
      Found->createTargetMachine(Name, "", "", TargetOptions(), Relocation, M.getCodeModel(),
                                 static_cast<CodeGenOptLevel>(Level))));
  if (!TM)
    return Fail("there is no code generator");
  if (std::optional<uint64_t> Threshold = M.getLargeDataThreshold())
    TM->setLargeDataThreshold(*Threshold);

  legacy::PassManager Passes;
  Passes.add(new TargetLibraryInfoWrapperPass(TargetLibraryInfoImpl(T)));
  // As in addPassesToEmitFile, up to the assembly printer.
  TargetPassConfig *Config = TM->createPassConfig(Passes);
  Config->setDisableVerify(true);
  Passes.add(Config);
  auto *Info = new MachineModuleInfoWrapperPass(TM.get());
  Passes.add(Info);
  TM->getObjFileLowering()->Initialize(Info->getMMI().getContext(), *TM);
  if (Config->addISelPasses())
    return Fail("there is no instruction selection");
  Config->addMachinePasses();
  Config->setInitialized();
  // The functions' code stays as long as the passes. (A pass of our own could free it: a plugin with one is not even loaded by another LLVM, which
  // then could not say what is wrong.)
  Passes.run(M);
  for (const Function &F : M)
    if (const MachineFunction *MF = Info->getMMI().getMachineFunction(F))
      reportCalls(*MF, OnCall, Context);
  const auto *Said = static_cast<const Quiet *>(M.getContext().getDiagHandlerPtr());
  return Said->FirstError.empty() || Fail(Said->FirstError);
}
