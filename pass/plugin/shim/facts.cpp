//===- facts.cpp - questions about IR -----------------------------------------===//

#include "machine.h"
#include "shim.h"

#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/BranchProbabilityInfo.h"
#include "llvm/CodeGen/StackProtector.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Mangler.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/LTO/LTO.h"

using namespace llvm;

// Executions of each block for one execution of the function, in block order.
void pcce_shim_block_frequencies(void *Analyses, LLVMValueRef V, double *Out) {
  Function &F = *unwrap<Function>(V);
  auto &FAM = *static_cast<FunctionAnalysisManager *>(Analyses);
  auto &BFI = FAM.getResult<BlockFrequencyAnalysis>(F);
  double Entry = static_cast<double>(BFI.getEntryFreq().getFrequency());
  for (BasicBlock &BB : F)
    *Out++ = Entry > 0 ? static_cast<double>(BFI.getBlockFreq(&BB).getFrequency()) / Entry : 1.0;
}

// The probability of each successor of each block, in order.
void pcce_shim_branch_probabilities(void *Analyses, LLVMValueRef V, double *Out) {
  Function &F = *unwrap<Function>(V);
  auto &FAM = *static_cast<FunctionAnalysisManager *>(Analyses);
  auto &BPI = FAM.getResult<BranchProbabilityAnalysis>(F);
  for (BasicBlock &BB : F)
    for (unsigned I = 0, E = BB.getTerminator()->getNumSuccessors(); I != E; ++I)
      *Out++ = static_cast<double>(BPI.getEdgeProbability(&BB, I).getNumerator()) / BranchProbability::getDenominator();
}

// Debug information of lines only (-gline-tables-only) has names without scopes. F itself has its full name.
static StringRef sourceName(const DISubprogram *SP, const Function *F) {
  if (!SP->getLinkageName().empty())
    return SP->getLinkageName();
  bool IsMangled = F->getName().starts_with("_Z") || F->getName().starts_with("_R");
  return IsMangled && F->getSubprogram() == SP ? F->getName() : SP->getName();
}

// The locations of an instruction, innermost first. An instruction without a location gets the function's own
// name and file, with line 0.
void pcce_shim_locations(LLVMValueRef V, LocationCallback Callback, void *Context) {
  auto *I = unwrap<Instruction>(V);
  auto Report = [&](const DISubprogram *SP, const DIFile *File, unsigned Line, unsigned Column) {
    StringRef Name = sourceName(SP, I->getFunction());
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

LLVMBasicBlockRef pcce_shim_unique_predecessor(LLVMBasicBlockRef Block) {
  return wrap(unwrap(Block)->getSinglePredecessor());
}

// Bit 0: local linkage. Bit 1: the definition here is the one that runs, as far as linkage and visibility
// tell. Bit 2: member of a comdat group. Bit 3: no definition in this module. Bit 4: code of the module
// refers to it by a local name.
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
  // As AsmPrinter::getSymbolPreferLocal does.
  const Module &M = *G->getParent();
  if (G->canBenefitFromLocalAlias() && G->isDSOLocal() && M.getPICLevel() != PICLevel::NotPIC &&
      M.getPIELevel() == PIELevel::Default)
    Facts |= 16;
  return Facts;
}

const char *pcce_shim_source_name(LLVMValueRef F, size_t *Len) {
  const DISubprogram *SP = unwrap<Function>(F)->getSubprogram();
  StringRef Name = SP ? sourceName(SP, unwrap<Function>(F)) : "";
  *Len = Name.size();
  return Name.data();
}

// The path of the function's source file; empty without debug information.
const char *pcce_shim_source_file(LLVMValueRef F, size_t *Len) {
  const DISubprogram *SP = unwrap<Function>(F)->getSubprogram();
  StringRef Name = SP ? SP->getFilename() : "";
  *Len = Name.size();
  return Name.data();
}

// The folder from which a relative path of the source file leads.
const char *pcce_shim_source_folder(LLVMValueRef F, size_t *Len) {
  const DISubprogram *SP = unwrap<Function>(F)->getSubprogram();
  StringRef Name = SP ? SP->getDirectory() : "";
  *Len = Name.size();
  return Name.data();
}

// Executions of the function in the profile; negative if there is none.
double pcce_shim_entry_count(LLVMValueRef F) {
  auto Count = unwrap<Function>(F)->getEntryCount();
  return Count ? static_cast<double>(Count->getCount()) : -1.0;
}

size_t pcce_shim_use_count(LLVMValueRef V) { return unwrap(V)->getNumUses(); }

// The name of a global in the object file.
void pcce_shim_assembly_name(LLVMValueRef V, TextCallback OnName, void *Context) {
  SmallString<64> Name;
  if (auto *G = dyn_cast<GlobalValue>(unwrap(V)); G && G->hasName()) {
    Mangler().getNameWithPrefix(Name, G, /*CannotUsePrivateLabel=*/true);
    OnName(Context, Name.data(), Name.size());
  }
}

bool pcce_shim_is_interrupt_handler(LLVMValueRef V) {
  const Function &F = *unwrap<Function>(V);
  return machineOf(*F.getParent()).isInterruptHandler(F.getCallingConv());
}

// Returns whether a thunk can call the function with its own arguments, and the function end in a call of
// that thunk.
bool pcce_shim_can_be_diverted(LLVMValueRef V) {
  const Function &F = *unwrap<Function>(V);
  // An error result is in a register that only a variable of its own can represent, which no tail call can
  // forward.
  if (F.isVarArg() || F.getAttributes().hasAttrSomewhere(Attribute::SwiftError))
    return false;
  // A tail call copies arguments on the stack, for which LLVM reserves no room: saved registers are lost.
  if (F.getAttributes().hasAttrSomewhere(Attribute::ByVal))
    return false;
  // In the conventions for tail calls, the verifier allows these attributes in no call that must be a tail
  // call.
  if (F.getCallingConv() == CallingConv::Tail || F.getCallingConv() == CallingConv::SwiftTail)
    for (Attribute::AttrKind Kind : {Attribute::InReg, Attribute::InAlloca, Attribute::Preallocated, Attribute::ByRef})
      for (const Argument &A : F.args())
        if (A.hasAttribute(Kind))
          return false;
  // The prologue data may belong to the function's address.
  if (F.hasPrologueData())
    return false;
  // A convergence token at the entry stays in the first block, and each call needs it.
  for (const Instruction &I : F.getEntryBlock())
    if (auto *Intrinsic = dyn_cast<IntrinsicInst>(&I))
      if (Intrinsic->getIntrinsicID() == Intrinsic::experimental_convergence_entry)
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
    return true;
  default:
    return machineOf(*F.getParent()).canBeDiverted(F.getCallingConv());
  }
}

bool pcce_shim_can_check_first(LLVMValueRef V) {
  const Function &F = *unwrap<Function>(V);
  return machineOf(*F.getParent()).canCheckAtEntry(F);
}

bool pcce_shim_has_address_taken(LLVMValueRef F) { return unwrap<Function>(F)->hasAddressTaken(); }

// Instructions that produce no code.
static bool isNothing(const Instruction &I) {
  return I.isDebugOrPseudoInst() || I.isLifetimeStartOrEnd();
}

// The first instruction from It on that produces code.
static Instruction &skipNothing(BasicBlock::iterator It) {
  while (isNothing(*It))
    ++It;
  return *It;
}

// The return that the call's block ends with, or the shared one that it branches to directly (code generation
// duplicates it); null if there is none, or it returns another value.
ReturnInst *returnOf(CallInst &Call) {
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

static bool inRegisters(const CallBase &Call) { return machineOf(*Call.getModule()).inRegisters(Call); }

// Returns whether caller and call extend what they return in the same way, or nothing is returned.
static bool extendAlike(const Function &Caller, const CallInst &Call) {
  // Code generation ignores the attributes of the callee itself.
  const AttributeList Given = Call.getAttributes();
  for (Attribute::AttrKind Extends : {Attribute::ZExt, Attribute::SExt, Attribute::InReg})
    if (!Caller.getReturnType()->isVoidTy() && Caller.hasRetAttribute(Extends) != Given.hasRetAttr(Extends))
      return false;
  return true;
}

// As IsEligibleForTailCallOptimization of the targets decides, for the ordinary cases. Variadic callers are
// left out: they are rarely worth it. So are arguments in registers that the caller has to keep. Where it is
// true, the call must become a jump: contexts say then that the caller's frame is gone.
bool pcce_shim_is_sibling_call(LLVMValueRef V) {
  auto *Call = dyn_cast<CallInst>(unwrap(V));
  if (!Call || Call->getTailCallKind() != CallInst::TCK_Tail)
    return false;
  const Function &Caller = *Call->getFunction();
  // Registers that the caller has to return.
  if (Caller.getAttributes().hasAttrSomewhere(Attribute::SwiftError) ||
      Caller.hasFnAttribute("no_caller_saved_registers"))
    return false;
  for (Attribute::AttrKind Kept : {Attribute::SwiftSelf, Attribute::SwiftAsync, Attribute::SwiftError})
    if (Call->getAttributes().hasAttrSomewhere(Kept))
      return false;
  return Caller.getCallingConv() == Call->getCallingConv() && !Caller.hasStructRetAttr() && !Caller.isVarArg() &&
         Caller.getFnAttribute("disable-tail-calls").getValueAsString() != "true" &&
         !Call->hasOperandBundlesOtherThan(LLVMContext::OB_kcfi) && extendAlike(Caller, *Call) &&
         inRegisters(*Call) && machineOf(*Caller.getParent()).jumps(*Call) && returnOf(*Call);
}

// Returns whether nothing with an effect is between the call and a return, which does not return a constant.
// This is wider than what code generation turns into jumps (isInTailCallPosition, and what CodeGenPrepare
// folds into it): where it is false, no jump is lost.
bool pcce_shim_may_be_last(LLVMValueRef V) {
  auto *Call = dyn_cast<CallInst>(unwrap(V));
  if (!Call || Call->getFunction()->getFnAttribute("disable-tail-calls").getValueAsString() == "true")
    return false;
  SmallPtrSet<const BasicBlock *, 8> Seen;
  const BasicBlock *From = nullptr;
  BasicBlock::const_iterator It = std::next(Call->getIterator());
  while (true) {
    const Instruction &I = *It++;
    if (auto *Ret = dyn_cast<ReturnInst>(&I)) {
      const Value *Returned = Ret->getReturnValue();
      auto *Phi = dyn_cast_or_null<PHINode>(Returned);
      if (Phi && From && Phi->getParent() == Ret->getParent())
        Returned = Phi->getIncomingValueForBlock(From);
      return !Returned || !isa<Constant>(Returned) || isa<UndefValue>(Returned);
    }
    if (auto *Branch = dyn_cast<BranchInst>(&I); Branch && Branch->isUnconditional()) {
      From = Branch->getParent();
      const BasicBlock *To = Branch->getSuccessor(0);
      if (!Seen.insert(To).second)
        return false;
      It = To->begin();
    } else if (I.isTerminator() || (!isNothing(I) && (I.mayHaveSideEffects() || I.mayReadFromMemory()))) {
      return false;
    }
  }
}

bool pcce_shim_is_kept_tail_call(LLVMValueRef V) {
  return unwrap<CallInst>(V)->hasMetadata(KeptTailCall);
}

// Returns whether a thunk can forward the call's arguments unchanged.
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

// The origin of the called pointer. 0: unknown. 1: it was loaded, and not from a C++ virtual table. 2: it was
// loaded from one, according to the types of memory accesses.
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

// Returns whether a variable is one or several C++ virtual tables: type tests merge them, and their names are
// aliases then.
static bool isVirtualTable(const GlobalVariable &V) {
  const auto HasName = [](const GlobalValue &G) {
    return G.getName().starts_with("_ZTV") || G.getName().starts_with("_ZTC");
  };
  if (HasName(V))
    return true;
  SmallVector<const Value *, 4> Parts = {&V};
  while (!Parts.empty())
    for (const User *By : Parts.pop_back_val()->users())
      if (auto *Alias = dyn_cast<GlobalAlias>(By); Alias && HasName(*Alias))
        return true;
      else if (isa<ConstantExpr>(By))
        Parts.push_back(By);
  return false;
}

// The places of the function's address, besides in calls of it. Bit 0: in C++ virtual tables. Bit 1:
// elsewhere.
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
      Places |= isVirtualTable(*Table) ? 1 : 2;
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
