//===- aarch64.cpp - AArch64, AAPCS64 ---------------------------------------------===//

#include "../machine.h"

#include "llvm/IR/InlineAsm.h"
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
      const unsigned I = Call.getArgOperandNo(&Argument);
      if (Call.isPassPointeeByValueArgument(I) || Call.paramHasAttr(I, Attribute::StructRet))
        return false;
      // Clang passes small structures as arrays.
      Type *T = Argument->getType();
      uint64_t Count = 1;
      if (auto *A = dyn_cast<ArrayType>(T)) {
        T = A->getElementType();
        Count = A->getNumElements();
        // An aligned one begins with an even register.
        Integers += Integers % 2;
      }
      if (Count > 8)
        return false;
      if (T->isPointerTy() || (T->isIntegerTy() && T->getIntegerBitWidth() <= 64))
        Integers += Count;
      else if (T->isFloatingPointTy() ||
               (isa<FixedVectorType>(T) && T->getPrimitiveSizeInBits().getFixedValue() <= 128))
        Vectors += Count;
      else
        return false;
    }
    return Integers <= 8 && Vectors <= 8;
  }

  // A function may go on in another thread when a call returns: fibers move. And unwinding may begin where nothing is
  // called (asynchronous cancellation), with registers that landing pads do not expect.
  Value *ofThread(IRBuilder<> &B, GlobalVariable &Variable) const override {
    const Module &M = *Variable.getParent();
    const std::string Name = Variable.getName().str();
    const bool Shared = M.getPICLevel() != PICLevel::NotPIC && M.getPIELevel() == PIELevel::Default;
    // Linkers relax the sequence of shared libraries where the module becomes part of an executable.
    const std::string Asm = Shared ? "adrp $0, :gottprel:" + Name + "\n\tldr $0, [$0, :gottprel_lo12:" + Name +
                                         "]\n\tmrs x16, tpidr_el0\n\tadd $0, $0, x16"
                                   : "mrs $0, tpidr_el0\n\tadd $0, $0, #:tprel_hi12:" + Name +
                                         ", lsl #12\n\tadd $0, $0, :tprel_lo12_nc:" + Name;
    auto *T = FunctionType::get(PointerType::getUnqual(B.getContext()), false);
    CallInst *Call = B.CreateCall(T, InlineAsm::get(T, Asm, Shared ? "=r,~{x16}" : "=r", /*hasSideEffects=*/true));
    Call->setDoesNotThrow();
    return Call;
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
