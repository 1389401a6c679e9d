//===- prepare.cpp - changes before the analysis ------------------------------===//

#include "shim.h"

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Transforms/Utils/CallPromotionUtils.h"
#include "llvm/Transforms/Utils/EntryExitInstrumenter.h"
#include "llvm/Transforms/Utils/EscapeEnumerator.h"

using namespace llvm;

static bool catchesAll(const LandingPadInst &Pad) {
  for (unsigned I = 0; I < Pad.getNumClauses(); I++)
    if (Pad.isCatch(I) && isa<ConstantPointerNull>(Pad.getClause(I)))
      return true;
  return false;
}

void pcce_shim_drop_debug_in_pads(LLVMValueRef V) {
  for (BasicBlock &BB : *unwrap<Function>(V))
    if (BB.isLandingPad() && isa<PHINode>(BB.front()))
      for (Instruction &I : BB)
        I.dropDbgRecords();
}

// Another image may replace a function of the module that does not throw by one that throws. A call of a function that
// does not throw is in no range of the caller's exception table, and an exception that comes out of it ends the
// program. It would pass if the calls around had no landing pads, since all are one range then; but these calls have
// pads now. So the table must have a range for such a call, too.
void pcce_shim_distrust_replaceable(LLVMModuleRef M) {
  const auto HasTable = [](const User *By) {
    auto *Call = dyn_cast<CallBase>(By);
    return Call && Call->getFunction()->hasPersonalityFn();
  };
  for (Function &F : *unwrap(M))
    if (!F.isDeclaration() && !F.hasLocalLinkage() && !F.isDSOLocal() && any_of(F.users(), HasTable))
      F.removeFnAttr(Attribute::NoUnwind);
}

// Makes exceptions that leave a function which code of other modules can call stop at a landing pad on their
// way.
void pcce_shim_catch_escapes(void *Analyses, LLVMValueRef V) {
  Function &F = *unwrap<Function>(V);
  if (F.doesNotThrow() || (F.hasLocalLinkage() && !F.hasAddressTaken()))
    return;
  // An invoke is no tail call. Calls that are kept as tail calls leave no frame, so there is nothing to
  // restore.
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
  // Exceptions of other types pass a pad that catches only some types. A clean-up pad gets them, and resumes.
  for (BasicBlock &BB : F)
    if (LandingPadInst *Pad = BB.getLandingPadInst(); Pad && !catchesAll(*Pad))
      Pad->setCleanup(true);
  auto &FAM = *static_cast<FunctionAnalysisManager *>(Analyses);
  FAM.invalidate(F, PreservedAnalyses::none());
}

void pcce_shim_blocks_changed(void *Analyses, LLVMValueRef V) {
  auto &FAM = *static_cast<FunctionAnalysisManager *>(Analyses);
  FAM.invalidate(*unwrap<Function>(V), PreservedAnalyses::none());
}

// Marks the call as kept, and gives it a return of its own, as code generation would. Returns the branch that
// this return replaces, to be unlinked; null if there was none.
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

// Calls Callee directly where the call's pointer is its address. The call itself remains for other targets.
// Returns the direct call; null if their types do not allow it.
LLVMValueRef pcce_shim_compare_target(void *Analyses, LLVMValueRef V, LLVMValueRef CalleeV) {
  auto &Call = *unwrap<CallBase>(V);
  auto *Callee = unwrap<Function>(CalleeV);
  if (!isLegalToPromote(Call, Callee))
    return nullptr;
  LLVMContext &Context = Call.getContext();
  CallBase &Direct =
      promoteCallWithIfThenElse(Call, Callee, MDBuilder(Context).createLikelyBranchWeights());
  Direct.setMetadata(Compared, nullptr);
  Call.setMetadata(Compared, MDNode::get(Context, {}));
  auto &FAM = *static_cast<FunctionAnalysisManager *>(Analyses);
  FAM.invalidate(*Call.getFunction(), PreservedAnalyses::none());
  return wrap(&Direct);
}

// Calls the function that replaces the trap, as SelectionDAGBuilder does.
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

// Inserts calls that code generation would insert: of functions' hooks (mcount, __cyg_profile_func_enter)
// after inlining, and of functions that replace traps. Returns whether there are any.
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
