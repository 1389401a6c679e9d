//===- trace.cpp - what traces add to the code --------------------------------===//

#include "machine.h"
#include "shim.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

#include <string>

using namespace llvm;

// Calls a function of another object, which does not throw, in front of the instruction.
void pcce_shim_trace_call(LLVMValueRef At, const char *Name, size_t Len, const LLVMValueRef *Arguments, size_t Count,
                          bool KeepsRegisters) {
  Instruction *I = unwrap<Instruction>(At);
  IRBuilder<> B(I);
  SmallVector<Value *, 3> Values;
  SmallVector<Type *, 3> Types;
  for (size_t N = 0; N < Count; ++N) {
    Values.push_back(unwrap(Arguments[N]));
    Types.push_back(Values.back()->getType());
  }
  auto *T = FunctionType::get(B.getVoidTy(), Types, false);
  FunctionCallee Callee = I->getModule()->getOrInsertFunction(StringRef(Name, Len), T);
  auto *F = cast<Function>(Callee.getCallee());
  F->setDoesNotThrow();
  CallInst *Call = B.CreateCall(Callee, Values);
  Call->setDoesNotThrow();
  if (KeepsRegisters) {
    F->setCallingConv(CallingConv::PreserveMost);
    Call->setCallingConv(CallingConv::PreserveMost);
  }
}

// Replaces each call of the function `Name(code, bits, function, node, left)` by code that appends the bits
// to the word Pending. Flush is called when the leading one has become the highest bit; or in front, if
// several bits might move it that far. The section Places gets a row for the place behind that call.
void pcce_shim_trace_expand(LLVMModuleRef MR, const char *Name, size_t Len, LLVMValueRef PendingV, const char *Flush,
                            const char *Places, const char *Functions) {
  Module &M = *unwrap(MR);
  Function *Append = M.getFunction(StringRef(Name, Len));
  if (!Append)
    return;
  const Machine &Target = machineOf(M);
  Value *Pending = unwrap(PendingV);
  MDNode *Unlikely = MDBuilder(M.getContext()).createUnlikelyBranchWeights();
  for (User *U : make_early_inc_range(Append->users())) {
    auto *Call = cast<CallInst>(U);
    auto Argument = [&](unsigned N) { return cast<ConstantInt>(Call->getArgOperand(N))->getZExtValue(); };
    const uint64_t Code = Argument(0);
    const uint64_t Bits = Argument(1);
    // Assembly records the place, wherever code generation puts the call, and however often. The assembly
    // calls, so that LLVM's assumptions about the stack must hold for a function that does.
    const std::string Row = std::string("771:\n.pushsection ") + Places + ",\"\",@progbits\n.quad 771b, " + Functions +
                            std::to_string(Argument(2)) + "\n.long " + std::to_string(Argument(3)) + ", " +
                            std::to_string(Argument(4)) + "\n.popsection";
    Call->getFunction()->addFnAttr(Attribute::NoRedZone);
    IRBuilder<> B(Call);
    auto FlushIf = [&](Value *Condition) {
      Instruction *End = SplitBlockAndInsertIfThen(Condition, Call, /*Unreachable=*/false, Unlikely);
      IRBuilder<> Full(End);
      Target.callKeepingRegisters(Full, Flush, Row);
      B.SetInsertPoint(Call);
    };
    if (Bits == 1) {
      FlushIf(Target.appendBit(B, Pending, Code));
    } else {
      FlushIf(Target.isNearlyFull(B, Pending));
      Target.appendBits(B, Pending, Code, Bits);
    }
    Call->eraseFromParent();
  }
  Append->eraseFromParent();
}

// Replaces each call of the function `Name(number)` by code that writes the number's 4 bytes where Next
// points, and advances Next. Room is called if Next has reached End.
void pcce_shim_trace_number(LLVMModuleRef MR, const char *Name, size_t Len, LLVMValueRef Next, LLVMValueRef End,
                            const char *Room, size_t RoomLen) {
  Module &M = *unwrap(MR);
  Function *Number = M.getFunction(StringRef(Name, Len));
  if (!Number)
    return;
  MDNode *Unlikely = MDBuilder(M.getContext()).createUnlikelyBranchWeights();
  Type *Pointer = PointerType::getUnqual(M.getContext());
  for (User *U : make_early_inc_range(Number->users())) {
    auto *Call = cast<CallInst>(U);
    IRBuilder<> B(Call);
    Value *Place = B.CreateLoad(Pointer, unwrap(Next));
    Value *Full = B.CreateICmpUGE(Place, B.CreateLoad(Pointer, unwrap(End)));
    Instruction *Last = SplitBlockAndInsertIfThen(Full, Call, /*Unreachable=*/false, Unlikely);
    pcce_shim_trace_call(wrap(Last), Room, RoomLen, nullptr, 0, /*KeepsRegisters=*/true);
    Value *Other = IRBuilder<>(Last).CreateLoad(Pointer, unwrap(Next));
    B.SetInsertPoint(Call->getParent(), Call->getParent()->begin());
    PHINode *Here = B.CreatePHI(Pointer, 2);
    Here->addIncoming(Place, cast<Instruction>(Full)->getParent());
    Here->addIncoming(Other, Last->getParent());
    B.SetInsertPoint(Call);
    B.CreateAlignedStore(Call->getArgOperand(0), Here, Align(4));
    B.CreateStore(B.CreateConstInBoundsGEP1_64(B.getInt8Ty(), Here, 4), unwrap(Next));
    Call->eraseFromParent();
  }
  Number->eraseFromParent();
}

// If the function finds that Word is not 0, it clears Word and calls `Name(Number)`. It restores Word when it
// returns.
void pcce_shim_trace_check(LLVMValueRef FV, LLVMValueRef WordV, LLVMValueRef Number, const char *Name, size_t Len) {
  Function &F = *unwrap<Function>(FV);
  Value *Word = unwrap(WordV);
  Instruction *At = &*F.getEntryBlock().getFirstNonPHIOrDbgOrAlloca();
  IRBuilder<> B(At);
  Value *Found = B.CreateLoad(B.getInt64Ty(), Word);
  MDNode *Unlikely = MDBuilder(F.getContext()).createUnlikelyBranchWeights();
  Instruction *Then = SplitBlockAndInsertIfThen(B.CreateIsNotNull(Found), At, /*Unreachable=*/false, Unlikely);
  IRBuilder<>(Then).CreateStore(B.getInt64(0), Word);
  pcce_shim_trace_call(wrap(Then), Name, Len, &Number, 1, /*KeepsRegisters=*/false);
  for (BasicBlock &Block : F)
    if (isa<ReturnInst>(Block.getTerminator())) {
      CallInst *Tail = Block.getTerminatingMustTailCall();
      IRBuilder<>(Tail ? static_cast<Instruction *>(Tail) : Block.getTerminator()).CreateStore(Found, Word);
    }
}

// Makes the function begin with a call of Name, of pcce_abi's ENTRY_LEN bytes, when it is entered by its
// address.
void pcce_shim_trace_entry(LLVMValueRef V, const char *Name, size_t Len) {
  Function &F = *unwrap<Function>(V);
  FunctionCallee Enter =
      F.getParent()->getOrInsertFunction(StringRef(Name, Len), Type::getVoidTy(F.getContext()));
  auto *Callee = cast<Function>(Enter.getCallee());
  // It is in the same image.
  Callee->setVisibility(GlobalValue::HiddenVisibility);
  Callee->setDSOLocal(true);
  F.setPrologueData(machineOf(*F.getParent()).callAtEntry(F, *Callee));
}

// A name for the place so many bytes behind the function's beginning, which ends with the object.
LLVMValueRef pcce_shim_trace_behind(LLVMValueRef V, const char *Name, size_t Len, uint64_t Bytes) {
  Function &F = *unwrap<Function>(V);
  Constant *Offset = ConstantInt::get(Type::getInt64Ty(F.getContext()), Bytes);
  Constant *Place = ConstantExpr::getInBoundsGetElementPtr(Type::getInt8Ty(F.getContext()), &F, Offset);
  auto *A = GlobalAlias::create(F.getFunctionType(), F.getAddressSpace(), GlobalValue::PrivateLinkage,
                                StringRef(Name, Len), Place, F.getParent());
  A->setDSOLocal(true);
  return wrap(A);
}

// Makes the call go to a name.
void pcce_shim_trace_call_to(LLVMValueRef V, LLVMValueRef Name) {
  unwrap<CallBase>(V)->setCalledOperand(unwrap(Name));
}
