//===- aarch64.cpp - AArch64, AAPCS64 ---------------------------------------------===//

#include "../machine.h"

#include "llvm/IR/Module.h"

using namespace llvm;

namespace {
class AArch64Machine : public Machine {
public:
  // At the entry, the return address is in a register.
  constexpr AArch64Machine()
      : Machine(Triple::aarch64, /*StackPointer=*/31, /*EntryFrameOffset=*/0, /*Traces=*/nullptr) {}

  bool isInterruptHandler(CallingConv::ID) const override { return false; }

  bool canBeDiverted(CallingConv::ID Convention) const override {
    return Convention == CallingConv::AArch64_VectorCall || Convention == CallingConv::AArch64_SVE_VectorCall;
  }

  bool inRegisters(const CallBase &Call) const override {
    unsigned Integers = 0, Vectors = 0;
    for (const Use &Argument : Call.args()) {
      Type *T = Argument->getType();
      if (T->isPointerTy() || (T->isIntegerTy() && T->getIntegerBitWidth() <= 64))
        ++Integers;
      else if (T->isFloatTy() || T->isDoubleTy() ||
               (isa<FixedVectorType>(T) && T->getPrimitiveSizeInBits().getFixedValue() <= 128))
        ++Vectors;
      else
        return false;
      unsigned I = Call.getArgOperandNo(&Argument);
      if (Call.isPassPointeeByValueArgument(I) || Call.paramHasAttr(I, Attribute::StructRet))
        return false;
    }
    return Integers <= 8 && Vectors <= 8;
  }

  // As AArch64TargetLowering::isEligibleForTailCallOptimization, which is asked by SelectionDAG and GlobalISel.
  bool jumps(const CallBase &Call) const override {
    const Function &Caller = *Call.getFunction();
    // Linkers replace a call by nothing if the callee is missing. They would do so with a jump.
    if (auto *Callee = dyn_cast<GlobalValue>(Call.getCalledOperand()); Callee && Callee->hasExternalWeakLinkage())
      return false;
    // The plain conventions: others keep more registers than their callees may.
    if (Caller.getCallingConv() != CallingConv::C && Caller.getCallingConv() != CallingConv::Fast)
      return false;
    for (const llvm::Argument &A : Caller.args())
      if (A.hasByValAttr() || A.hasInRegAttr() || A.hasSwiftErrorAttr())
        return false;
    // Functions that change the processor's mode change it back at their ends.
    for (StringRef Kind : {"aarch64_pstate_sm_enabled", "aarch64_pstate_sm_compatible", "aarch64_pstate_sm_body",
                           "aarch64_new_za", "aarch64_new_zt0", "aarch64_za_state_agnostic"})
      if (Caller.hasFnAttribute(Kind))
        return false;
    return true;
  }
};

constexpr AArch64Machine AArch64Instance;
} // namespace

const Machine &aarch64() { return AArch64Instance; }
