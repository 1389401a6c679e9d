//===- change.cpp - changes after the analysis --------------------------------===//

#include "machine.h"
#include "shim.h"
#include "versions.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/EscapeEnumerator.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;

LLVMBasicBlockRef pcce_shim_split_edge(LLVMBasicBlockRef From, LLVMBasicBlockRef To) {
  return wrap(SplitEdge(unwrap(From), unwrap(To)));
}

// Takes an unused instruction out of its block. It is deleted at the end of the run, since handles to it may
// exist until then.
void pcce_shim_unlink(LLVMValueRef V) {
  auto *I = unwrap<Instruction>(V);
  I->removeFromParent();
  I->dropAllReferences();
}

// At the end of the run, for a block that lost a predecessor: replaces phis with one value only, as
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

// Replaces the invoke by a call followed by a branch, as changeToCall does, but leaves the invoke to be
// unlinked.
LLVMValueRef pcce_shim_invoke_to_call(LLVMValueRef V) {
  auto *Invoke = unwrap<InvokeInst>(V);
  CallInst *Call = createCallMatchingInvoke(Invoke);
  Call->takeName(Invoke);
  Call->insertBefore(Invoke->getIterator());
  Invoke->replaceAllUsesWith(Call);
  BranchInst *Branch = BranchInst::Create(Invoke->getNormalDest(), Invoke->getIterator());
  pcce::setBranchLocation(Branch, Invoke->getDebugLoc());
  Invoke->getUnwindDest()->removePredecessor(Invoke->getParent(), /*KeepOneInputPHIs=*/true);
  return wrap(Call);
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

// Makes the module call a function of another object with one pointer: before its constructors, or after its
// destructors.
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

CallInst *addForwarder(Function &F, StringRef Name) {
  auto *T = Function::Create(F.getFunctionType(), GlobalValue::InternalLinkage, F.getAddressSpace(), Name,
                             F.getParent());
  T->copyAttributesFrom(&F);
  T->setLinkage(GlobalValue::InternalLinkage);
  T->setVisibility(GlobalValue::DefaultVisibility);
  T->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  // The instructions in front of F's prologue are F's alone.
  T->setPrologueData(nullptr);
  // The linker keeps one copy of F, and this one with it.
  T->setComdat(F.getComdat());
  T->removeFnAttr(Attribute::AlwaysInline);
  if (!T->hasFnAttribute(Attribute::OptimizeNone))
    T->addFnAttr(Attribute::Cold);
  T->addFnAttr(Attribute::NoInline);
  IRBuilder<> B(BasicBlock::Create(F.getContext(), "", T));
  SmallVector<Value *, 8> Arguments;
  for (Argument &A : T->args())
    Arguments.push_back(&A);
  CallInst *Call = B.CreateCall(F.getFunctionType(), &F, Arguments);
  Call->setCallingConv(F.getCallingConv());
  Call->setAttributes(F.getAttributes());
  if (F.getReturnType()->isVoidTy())
    B.CreateRetVoid();
  else
    B.CreateRet(Call);
  return Call;
}

// A local function that calls F with its own arguments and returns the result. Returns the call, or the
// invoke: exceptions that leave it pass a landing pad.
LLVMValueRef pcce_shim_make_thunk(LLVMValueRef V, const char *Name, size_t Len) {
  Function &F = *unwrap<Function>(V);
  CallInst *Call = addForwarder(F, StringRef(Name, Len));
  Function &T = *Call->getFunction();
  // The call goes through a name of its own, since F's name may lead to another image's function.
  if (!F.hasLocalLinkage()) {
    auto *Own = GlobalAlias::create(F.getFunctionType(), F.getAddressSpace(), GlobalValue::PrivateLinkage,
                                    StringRef(Name, Len) + ".own", &F, F.getParent());
    Own->setDSOLocal(true);
    Call->setCalledOperand(Own);
  }
  EscapeEnumerator Escapes(T, "pcce.unwind");
  while (Escapes.Next())
    ;
  for (Instruction &I : T.getEntryBlock())
    if (isa<CallBase>(I))
      return wrap(&I);
  llvm_unreachable("the entry block calls");
}

// The first instruction of the function after allocas, which are part of the frame only in the entry block.
static Instruction *afterAllocas(Function &F) {
  BasicBlock &Entry = F.getEntryBlock();
  SmallVector<AllocaInst *, 8> Allocas;
  for (Instruction &I : Entry)
    if (auto *A = dyn_cast<AllocaInst>(&I); A && A->isStaticAlloca())
      Allocas.push_back(A);
  for (AllocaInst *A : Allocas)
    A->moveBefore(Entry, Entry.getFirstInsertionPt());
  auto At = Entry.begin();
  while (isa<AllocaInst>(*At))
    ++At;
  return &*At;
}

// Before End, leaves F's activation to Callee, which has the signature and the attributes of Like. Returns the call.
static CallInst *leaveTo(Function &F, Instruction *End, Value *Callee, Function &Like) {
  IRBuilder<> B(End);
  SmallVector<Value *, 8> Arguments;
  for (Argument &A : F.args())
    Arguments.push_back(&A);
  CallInst *Call = B.CreateCall(F.getFunctionType(), Callee, Arguments);
  Call->setCallingConv(Like.getCallingConv());
  Call->setAttributes(Like.getAttributes());
  Call->setTailCallKind(CallInst::TCK_MustTail);
  // LLVM's splitting of cold code (-hot-cold-split) runs after the pass. It would move this cold call into a
  // function of another type, where it cannot be a tail call. It ignores functions marked noinline, and
  // inlining is over.
  if (!F.hasFnAttribute(Attribute::AlwaysInline))
    F.addFnAttr(Attribute::NoInline);
  if (F.getReturnType()->isVoidTy())
    B.CreateRetVoid();
  else
    B.CreateRet(Call);
  End->eraseFromParent();
  return Call;
}

// Makes F jump to Thunk, which has its signature, at its entry if the word Id is positive or the word Top has
// a bit of Tag.
void pcce_shim_divert(LLVMValueRef V, LLVMValueRef ThunkV, LLVMValueRef Id, LLVMValueRef Top, uint64_t Tag) {
  Function &F = *unwrap<Function>(V);
  Function &T = *unwrap<Function>(ThunkV);
  Instruction *At = afterAllocas(F);
  MDNode *Unlikely = MDBuilder(F.getContext()).createUnlikelyBranchWeights();
  IRBuilder<> B(At);
  B.SetCurrentDebugLocation(DebugLoc());
  Value *Positive = B.CreateICmpSGT(B.CreateAlignedLoad(B.getInt64Ty(), unwrap(Id), Align(8)), B.getInt64(0));
  Instruction *End = SplitBlockAndInsertIfThen(Positive, At, /*Unreachable=*/true, Unlikely);
  // In a block of its own, the load of the lowest byte becomes part of the test.
  Instruction *Next = SplitBlock(At->getParent(), At)->getSinglePredecessor()->getTerminator();
  B.SetInsertPoint(Next);
  Value *Lowest = B.CreateAlignedLoad(B.getInt8Ty(), unwrap(Top), Align(8));
  Value *Tagged = B.CreateIsNotNull(B.CreateAnd(Lowest, Tag));
  B.CreateCondBr(Tagged, End->getParent(), At->getParent(), Unlikely);
  Next->eraseFromParent();
  leaveTo(F, End, &T, T);
}

// As pcce_shim_divert, in front of F's prologue: Id and Top are offsets in the thread's block Block. Returns how many
// bytes these instructions have.
uint64_t pcce_shim_check_first(LLVMValueRef V, LLVMValueRef ThunkV, LLVMValueRef Block, uint64_t Id, uint64_t Top,
                               uint64_t Tag) {
  Function &F = *unwrap<Function>(V);
  const Module &M = *F.getParent();
  auto &Variable = *cast<GlobalVariable>(unwrap(Block));
  Constant *Check = machineOf(M).checkAtEntry(F, *unwrap<Function>(ThunkV), Variable, Id, Top, Tag);
  F.setPrologueData(Check);
  return M.getDataLayout().getTypeAllocSize(Check->getType()).getFixedValue();
}

// Makes the call V of a thunk go to the address that the assembly finds. If that is the thunk's function itself, the
// thunk jumps to Place, which is the function or a place in it, and stores the address of Place in Word.
void pcce_shim_call_bound(LLVMValueRef V, const char *Text, size_t TextLen, const char *Constraints,
                          size_t ConstraintsLen, LLVMValueRef Word, LLVMValueRef Place) {
  auto &Original = *unwrap<CallBase>(V);
  Function &T = *Original.getFunction();
  GlobalAlias *Own = T.getParent()->getNamedAlias((T.getName() + ".own").str());
  Instruction *At = afterAllocas(T);
  IRBuilder<> B(At);
  B.SetCurrentDebugLocation(DebugLoc());
  auto *Asm = InlineAsm::get(FunctionType::get(B.getPtrTy(), false), StringRef(Text, TextLen),
                             StringRef(Constraints, ConstraintsLen), /*hasSideEffects=*/false);
  CallInst *Bound = B.CreateCall(Asm);
  Bound->setDoesNotThrow();
  Original.setCalledOperand(Bound);
  Value *Same = B.CreateICmpEQ(Bound, Own);
  auto *To = Place ? cast<Constant>(unwrap(Place)) : Own;
  CallInst *Call = leaveTo(T, SplitBlockAndInsertIfThen(Same, At, /*Unreachable=*/true), To, T);
  B.SetInsertPoint(Call);
  B.CreateAlignedStore(To, unwrap(Word), Align(8))->setAtomic(AtomicOrdering::Monotonic);
}

// The address of a variable that SafeStack, which runs after the pass, leaves in place: it moves variables
// whose address is stored, and does not look through assembly.
LLVMValueRef pcce_shim_keep_on_stack(LLVMValueRef V) {
  auto *A = unwrap<AllocaInst>(V);
  IRBuilder<> B(A->getParent(), std::next(A->getIterator()));
  auto *T = FunctionType::get(A->getType(), {A->getType()}, false);
  CallInst *Address = B.CreateCall(T, InlineAsm::get(T, "", "=r,0", /*hasSideEffects=*/false), {A});
  Address->setDoesNotAccessMemory();
  Address->setDoesNotThrow();
  pcce::addNoCapture(Address, 0);
  return wrap(Address);
}

// Sets Mark in the link Top before a tail call: the function that was entered by the push of that frame has left its
// activation. Given Id, it does so only if the id is 0 and the link has no Tag: then the function has begun a sub-path.
void pcce_shim_mark_left(LLVMValueRef V, LLVMValueRef Id, LLVMValueRef Top, uint64_t Tag, uint64_t Mark) {
  IRBuilder<> B(unwrap<Instruction>(V));
  const auto Link = [&] { return B.CreateAlignedLoad(B.getInt64Ty(), unwrap(Top), Align(8)); };
  if (Id) {
    // The id alone usually decides.
    const auto When = [&](Value *Condition) {
      B.SetInsertPoint(SplitBlockAndInsertIfThen(Condition, B.GetInsertPoint(), /*Unreachable=*/false));
    };
    When(B.CreateIsNull(B.CreateAlignedLoad(B.getInt64Ty(), unwrap(Id), Align(8))));
    When(B.CreateIsNull(B.CreateAnd(Link(), Tag)));
  }
  B.CreateAlignedStore(B.CreateOr(Link(), Mark), unwrap(Top), Align(8));
}

// Says how far a thread-local variable is from the thread pointer, for machines whose code is better if it knows.
void pcce_shim_place_thread_local(LLVMValueRef V, uint32_t Offset) {
  unwrap<GlobalVariable>(V)->addAttribute(Machine::ThreadOffset, std::to_string(Offset));
}

// Replaces the address of a thread-local variable in all code by one that is found anew after each call, on
// machines whose code would keep the address of the thread.
void pcce_shim_find_thread(LLVMModuleRef MR, LLVMValueRef V) {
  Module &M = *unwrap(MR);
  auto &Variable = *unwrap<GlobalVariable>(V);
  const Machine &Target = machineOf(M);
  for (Function &F : M)
    for (BasicBlock &Block : F) {
      Value *Found = nullptr;
      for (Instruction &I : Block) {
        if (isa<PHINode>(I))
          continue;
        for (Use &U : I.operands()) {
          APInt Offset(64, 0);
          auto *C = dyn_cast<Constant>(U.get());
          if (!C || !C->getType()->isPointerTy() ||
              C->stripAndAccumulateConstantOffsets(M.getDataLayout(), Offset, /*AllowNonInbounds=*/true) != &Variable)
            continue;
          IRBuilder<> B(&I);
          if (!Found && !(Found = Target.ofThread(B, Variable)))
            return;
          U.set(Offset.isZero() ? Found : B.CreateConstInBoundsGEP1_64(B.getInt8Ty(), Found, Offset.getZExtValue()));
        }
        auto *Call = dyn_cast<CallBase>(&I);
        if (!Call || isa<IntrinsicInst>(Call))
          continue;
        auto *Asm = dyn_cast<InlineAsm>(Call->getCalledOperand());
        // The pass's own assembly calls nothing: it has no effects, or no instructions.
        if (!Asm || (Asm->hasSideEffects() && !Asm->getAsmString().empty()))
          Found = nullptr;
      }
    }
}

// Makes the call only if the pointer is not null; otherwise its result is the other value. Returns the
// result.
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

// Adds a local function whose first instruction makes a call like this one with its own arguments. For a call through
// a pointer, the pointer comes last, in a register that no argument uses.
LLVMValueRef pcce_shim_make_push_thunk(LLVMValueRef V, const char *Name, size_t Len) {
  auto &Call = *unwrap<CallBase>(V);
  Function &Caller = *Call.getFunction();
  LLVMContext &Context = Call.getContext();
  const AttributeList Given = Call.getAttributes();
  Value *Callee = Call.getCalledOperand();
  const bool Indirect = !isa<GlobalValue>(Callee);
  SmallVector<Type *, 8> Types;
  for (const Value *Argument : Call.args())
    Types.push_back(Argument->getType());
  if (Indirect)
    Types.push_back(Callee->getType());
  auto *T = Function::Create(FunctionType::get(Call.getType(), Types, false), GlobalValue::InternalLinkage,
                             Caller.getAddressSpace(), StringRef(Name, Len), Call.getModule());
  // The linker keeps one copy of the caller, and this one with it.
  T->setComdat(Caller.getComdat());
  T->setCallingConv(Call.getCallingConv());
  T->addFnAttr(Attribute::Cold);
  T->addFnAttr(Attribute::NoInline);
  // Attributes that the machine and the user require of every function.
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

  for (unsigned I : Given.indexes())
    for (Attribute::AttrKind Extension : {Attribute::ZExt, Attribute::SExt})
      if (I != AttributeList::FunctionIndex && Given.hasAttributeAtIndex(I, Extension)) {
        const Attribute A = Attribute::get(Context, Extension);
        Forwarded->addAttributeAtIndex(I, A);
        T->addAttributeAtIndex(I, A);
      }
  if (Indirect)
    T->addParamAttr(Passed.size(), Attribute::Nest);
  return wrap(T);
}

// Replaces the call by one of a thunk that was made for it, or for a call of the same type with the same callee.
// Returns the new call; the old one is left to be unlinked.
LLVMValueRef pcce_shim_go_through_thunk(LLVMValueRef V, LLVMValueRef ThunkV) {
  auto &Call = *unwrap<CallBase>(V);
  Function *T = unwrap<Function>(ThunkV);
  SmallVector<Value *, 8> Arguments(Call.args());
  if (T->arg_size() > Arguments.size())
    Arguments.push_back(Call.getCalledOperand());
  IRBuilder<> B(&Call);
  CallBase *New;
  if (auto *Invoke = dyn_cast<InvokeInst>(&Call)) {
    New = B.CreateInvoke(T, Invoke->getNormalDest(), Invoke->getUnwindDest(), Arguments);
  } else {
    auto *Plain = B.CreateCall(T, Arguments);
    Plain->setTailCallKind(cast<CallInst>(Call).getTailCallKind());
    New = Plain;
  }
  New->setCallingConv(T->getCallingConv());
  // Both sides must pass values in the same way.
  const AttributeList Expected = T->getAttributes();
  for (unsigned I : Expected.indexes())
    for (Attribute::AttrKind Kind : {Attribute::ZExt, Attribute::SExt, Attribute::Nest})
      if (I != AttributeList::FunctionIndex && Expected.hasAttributeAtIndex(I, Kind))
        New->addAttributeAtIndex(I, Attribute::get(Call.getContext(), Kind));
  if (Call.doesNotReturn())
    New->setDoesNotReturn();
  if (Call.doesNotThrow())
    New->setDoesNotThrow();
  New->takeName(&Call);
  Call.replaceAllUsesWith(New);
  return wrap(New);
}
