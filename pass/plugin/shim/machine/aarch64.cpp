//===- aarch64.cpp - AArch64, AAPCS64 ---------------------------------------------===//

#include "../machine.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Mangler.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace {
// Instructions as the data that F begins with. The assembler fills in the addresses of symbols: no constant of LLVM's
// stands for a part of one.
class EntryCode {
public:
  explicit EntryCode(Function &F) : F(F) {}

  void add(uint32_t Instruction) { Words.push_back(Instruction); }

  void add(uint32_t Instruction, const char *Relocation, const GlobalValue &Symbol) {
    F.getParent()->appendModuleInlineAsm(".reloc " + nameOf(F) + "+" + std::to_string(4 * Words.size()) +
                                         ", R_AARCH64_" + Relocation + ", " + nameOf(Symbol));
    add(Instruction);
  }

  Constant *get() const { return ConstantDataArray::get(F.getContext(), Words); }

private:
  static std::string nameOf(const GlobalValue &Symbol) {
    SmallString<64> Name;
    Mangler().getNameWithPrefix(Name, &Symbol, /*CannotUsePrivateLabel=*/false);
    return ("\"" + Name + "\"").str();
  }

  Function &F;
  SmallVector<uint32_t, 5> Words;
};

class AArch64TraceCode : public TraceCode {
public:
  Value *appendBit(IRBuilder<> &B, Value *Word, bool Bit) const override {
    return B.CreateICmpSLT(change(B, Word, Bit, 1), B.getInt64(0));
  }

  void appendBits(IRBuilder<> &B, Value *Word, uint64_t Bits, uint64_t Count) const override {
    change(B, Word, Bits, Count);
  }

  Value *isNearlyFull(IRBuilder<> &B, Value *Word) const override {
    Value *Highest = B.CreateConstInBoundsGEP1_64(B.getInt8Ty(), Word, 7);
    return B.CreateIsNotNull(B.CreateLoad(B.getInt8Ty(), Highest, /*isVolatile=*/true));
  }

  void callKeepingRegisters(IRBuilder<> &B, const std::string &Callee, const std::string &Behind) const override {
    auto *T = FunctionType::get(B.getVoidTy(), false);
    auto *Asm = InlineAsm::get(T, "bl " + Callee + "\n" + Behind, "~{x16},~{x17},~{lr},~{nzcv},~{memory}",
                               /*hasSideEffects=*/true);
    B.CreateCall(T, Asm)->setDoesNotThrow();
  }

  // The callee brings the return address back: F's own first instructions have not stored it yet, or signed it.
  Constant *callAtEntry(Function &F, Function &Callee) const override {
    EntryCode Code(F);
    Code.add(0xaa1e03f1);                       // mov x17, x30
    Code.add(0x94000000, "CALL26", Callee);     // bl Callee
    return Code.get();
  }

  Constant *roomAtEntry(Function &F) const override {
    EntryCode Code(F);
    Code.add(0xd503201f); // nop
    return Code.get();
  }

  Constant *jumpAtEntry(Function &F, Function &Copy, GlobalVariable &Off, bool Through) const override {
    EntryCode Code(F);
    Code.add(0x90000010, "ADR_PREL_PG_HI21", Off); // adrp x16, Off
    if (Through) {
      Code.add(0xf9400210, "LDST64_ABS_LO12_NC", Off); // ldr x16, [x16, :lo12:Off]
      Code.add(0x39400210);                            // ldrb w16, [x16]
    } else {
      Code.add(0x39400210, "LDST8_ABS_LO12_NC", Off); // ldrb w16, [x16, :lo12:Off]
    }
    // The conditional jump does not reach far.
    Code.add(0x35000050);               // cbnz w16, .+8
    Code.add(0x14000000, "JUMP26", Copy); // b Copy
    return Code.get();
  }

private:
  // The tracer knows the sequence (`within` of its machine).
  static Value *change(IRBuilder<> &B, Value *Word, uint64_t Bits, uint64_t Count) {
    std::string Text = "ldr $0, $1\n\tlsl $0, $0, #" + std::to_string(Count);
    if (Bits)
      Text += "\n\tadd $0, $0, #" + std::to_string(Bits);
    auto *T = FunctionType::get(B.getInt64Ty(), {Word->getType(), Word->getType()}, false);
    auto *Asm = InlineAsm::get(T, Text + "\n\tstr $0, $1", "=&r,=*Q,*Q", /*hasSideEffects=*/true);
    CallInst *Call = B.CreateCall(T, Asm, {Word, Word});
    for (unsigned I : {0, 1})
      Call->addParamAttr(I, Attribute::get(B.getContext(), Attribute::ElementType, B.getInt64Ty()));
    Call->setDoesNotThrow();
    return Call;
  }
};

constexpr AArch64TraceCode AArch64Traces;

class AArch64Machine : public Machine {
public:
  // At the entry, the return address is in a register.
  constexpr AArch64Machine()
      : Machine(Triple::aarch64, /*StackPointer=*/31, /*EntryFrameOffset=*/0, AArch64Traces) {}

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
    auto *T = FunctionType::get(PointerType::getUnqual(B.getContext()), false);
    const auto Emit = [&](const std::string &Asm, const char *Constraints) {
      CallInst *Call = B.CreateCall(T, InlineAsm::get(T, Asm, Constraints, /*hasSideEffects=*/true));
      Call->setDoesNotThrow();
      return Call;
    };
    uint64_t Offset;
    // LLVM adds the offset where it accesses the variable, if it can.
    if (Variable.hasAttribute(ThreadOffset) &&
        !Variable.getAttribute(ThreadOffset).getValueAsString().getAsInteger(10, Offset))
      return B.CreateConstInBoundsGEP1_64(B.getInt8Ty(), Emit("mrs $0, tpidr_el0", "=r"), Offset);
    const bool Shared = M.getPICLevel() != PICLevel::NotPIC && M.getPIELevel() == PIELevel::Default;
    // Linkers relax the sequence of shared libraries where the module becomes part of an executable.
    const std::string Asm = Shared ? "adrp $0, :gottprel:" + Name + "\n\tldr $0, [$0, :gottprel_lo12:" + Name +
                                         "]\n\tmrs x16, tpidr_el0\n\tadd $0, $0, x16"
                                   : "mrs $0, tpidr_el0\n\tadd $0, $0, #:tprel_hi12:" + Name +
                                         ", lsl #12\n\tadd $0, $0, :tprel_lo12_nc:" + Name;
    return Emit(Asm, Shared ? "=r,~{x16}" : "=r");
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
