//===- x86_64.cpp - x86-64, System V psABI ---------------------------------------===//

#include "../machine.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace {
// As X86RegisterInfo::hasStackRealignment.
bool realignsStack(const Function &F) {
  if (F.hasFnAttribute("no-realign-stack"))
    return false;
  if (F.hasFnAttribute("stackrealign") || F.hasFnAttribute(Attribute::StackAlignment))
    return true;
  // The alignment that callers keep.
  Align Kept(16);
  if (unsigned Override = F.getParent()->getOverrideStackAlignment())
    Kept = std::min(Kept, Align(Override));
  for (const Instruction &I : instructions(F))
    if (auto *Variable = dyn_cast<AllocaInst>(&I); Variable && Variable->getAlign() > Kept)
      return true;
  return false;
}

void append(SmallVectorImpl<Constant *> &Code, const Function &F, ArrayRef<uint8_t> Bytes) {
  for (uint8_t Byte : Bytes)
    Code.push_back(ConstantInt::get(Type::getInt8Ty(F.getContext()), Byte));
}

// Four bytes: how far a symbol is from the byte Behind of F.
void appendDistance(SmallVectorImpl<Constant *> &Code, Function &F, GlobalValue &To, uint64_t Behind) {
  LLVMContext &C = F.getContext();
  Type *Long = Type::getInt64Ty(C);
  Constant *From = ConstantExpr::getPtrToInt(&F, Long);
  Constant *Distance = ConstantExpr::getSub(ConstantExpr::getPtrToInt(&To, Long), From);
  Distance = ConstantExpr::getSub(Distance, ConstantInt::get(Long, Behind));
  Code.push_back(ConstantExpr::getTrunc(Distance, Type::getInt32Ty(C)));
}

class X86_64TraceCode : public TraceCode {
public:
  Value *appendBit(IRBuilder<> &B, Value *Word, bool Bit) const override {
    // Both instructions leave the sign of the word in the flags.
    return change(B, Bit ? "shlq $1\nincq $1" : "shlq $1", "s", Word);
  }

  void appendBits(IRBuilder<> &B, Value *Word, uint64_t Bits, uint64_t Count) const override {
    const std::string Shift = "shlq $$" + std::to_string(Count) + ", $0";
    change(B, Bits ? Shift + "\naddq $$" + std::to_string(Bits) + ", $0" : Shift, "", Word);
  }

  Value *isNearlyFull(IRBuilder<> &B, Value *Word) const override {
    auto *T = FunctionType::get(B.getInt8Ty(), {Word->getType()}, false);
    Value *Highest = B.CreateConstInBoundsGEP1_64(B.getInt8Ty(), Word, 7);
    auto *Asm = InlineAsm::get(T, "cmpb $$0, $1", "={@ccne},*m,~{dirflag},~{fpsr},~{flags}", /*hasSideEffects=*/true);
    CallInst *Compare = B.CreateCall(T, Asm, {Highest});
    Compare->addParamAttr(0, Attribute::get(B.getContext(), Attribute::ElementType, B.getInt8Ty()));
    Compare->setDoesNotThrow();
    return B.CreateIsNotNull(Compare);
  }

  void callKeepingRegisters(IRBuilder<> &B, const std::string &Callee, const std::string &Behind) const override {
    auto *T = FunctionType::get(B.getVoidTy(), false);
    auto *Asm = InlineAsm::get(T, "call " + Callee + "\n" + Behind, "~{r11},~{memory},~{dirflag},~{fpsr},~{flags}",
                               /*hasSideEffects=*/true);
    B.CreateCall(T, Asm)->setDoesNotThrow();
  }

  Constant *callAtEntry(Function &F, Function &Callee) const override {
    SmallVector<Constant *, 2> Code;
    append(Code, F, {0xe8});
    appendDistance(Code, F, Callee, 5);
    return ConstantStruct::getAnon(Code, /*Packed=*/true);
  }

  Constant *roomAtEntry(Function &F) const override {
    SmallVector<Constant *, 5> Code;
    append(Code, F, {0x0f, 0x1f, 0x44, 0x00, 0x00}); // nopl 0(%rax,%rax)
    return ConstantStruct::getAnon(Code, /*Packed=*/true);
  }

  Constant *jumpAtEntry(Function &F, Function &Copy, GlobalVariable &Off, bool Through) const override {
    SmallVector<Constant *, 12> Code;
    if (Through) {
      append(Code, F, {0x4c, 0x8b, 0x1d}); // movq Off(%rip), %r11
      appendDistance(Code, F, Off, 7);
      append(Code, F, {0x41, 0x80, 0x3b, 0x00}); // cmpb $0, (%r11)
    } else {
      append(Code, F, {0x80, 0x3d}); // cmpb $0, Off(%rip)
      appendDistance(Code, F, Off, 7);
      append(Code, F, {0x00});
    }
    append(Code, F, {0x0f, 0x84}); // je Copy
    appendDistance(Code, F, Copy, Through ? 17 : 13);
    return ConstantStruct::getAnon(Code, /*Packed=*/true);
  }

  void makeRoomBehind(Function &F) const override {
    // More than a return follows in all but tiny functions. The attribute has code generation put an instruction in
    // front of one that is too short.
    constexpr unsigned Tiny = 8;
    if (F.getInstructionCount() <= Tiny)
      F.addFnAttr("patchable-function", "prologue-short-redirect");
  }

private:
  // Emits assembly that changes the word. If a flag is named, returns whether the assembly leaves it set.
  static Value *change(IRBuilder<> &B, const std::string &Asm, const std::string &Flag, Value *Word) {
    const std::string Constraints =
        (Flag.empty() ? "" : "={@cc" + Flag + "},") + "=*m,*m,~{dirflag},~{fpsr},~{flags}";
    Type *Result = Flag.empty() ? B.getVoidTy() : B.getInt8Ty();
    auto *T = FunctionType::get(Result, {Word->getType(), Word->getType()}, false);
    CallInst *Call = B.CreateCall(T, InlineAsm::get(T, Asm, Constraints, /*hasSideEffects=*/true), {Word, Word});
    for (unsigned I : {0, 1})
      Call->addParamAttr(I, Attribute::get(B.getContext(), Attribute::ElementType, B.getInt64Ty()));
    Call->setDoesNotThrow();
    return Flag.empty() ? nullptr : B.CreateIsNotNull(Call);
  }
};

constexpr X86_64TraceCode X86_64Traces;

class X86_64Machine : public Machine {
public:
  Value *ofThread(IRBuilder<> &, GlobalVariable &) const override { return nullptr; }

  // At the entry, the return address is on the stack.
  constexpr X86_64Machine() : Machine(Triple::x86_64, /*StackPointer=*/7, /*EntryFrameOffset=*/8, X86_64Traces) {}

  bool isInterruptHandler(CallingConv::ID Convention) const override { return Convention == CallingConv::X86_INTR; }

  bool canBeDiverted(CallingConv::ID Convention) const override {
    switch (Convention) {
    case CallingConv::X86_64_SysV:
    case CallingConv::Win64:
    case CallingConv::X86_VectorCall:
    case CallingConv::X86_RegCall:
      return true;
    default:
      return false;
    }
  }

  bool canCheckAtEntry(const Function &F) const override {
    switch (F.getCallingConv()) {
    case CallingConv::C:
    case CallingConv::Fast:
    case CallingConv::Cold:
      break;
    default:
      return false;
    }
    // The first instruction of a function may have to be `endbr64`, a no-op that is overwritten, or a call.
    for (const char *Attribute : {"fentry-call", "patchable-function", "patchable-function-entry"})
      if (F.hasFnAttribute(Attribute))
        return false;
    const Module &M = *F.getParent();
    const auto *Landing = mdconst::extract_or_null<ConstantInt>(M.getModuleFlag("cf-protection-branch"));
    // The assembly names the function.
    const auto IsPlain = [](char C) { return isAlnum(C) || C == '_' || C == '.' || C == '$'; };
    return (!Landing || Landing->isZero()) && M.getCodeModel() != CodeModel::Large && all_of(F.getName(), IsPlain);
  }

  Constant *checkAtEntry(Function &F, Function &Thunk, const GlobalVariable &Block, uint64_t Id, uint64_t Top,
                         uint64_t Tag) const override {
    SmallVector<Constant *, 32> Code;
    const auto Byte = [](uint64_t Value) { return static_cast<uint8_t>(Value); };
    append(Code, F, {0x4c, 0x8b, 0x1d, 0, 0, 0, 0});                     // movq Block@GOTTPOFF(%rip), %r11
    append(Code, F, {0x64, 0x49, 0x83, 0x7b, Byte(Id), 0x00, 0x0f, 0x8f}); // cmpq $0, %fs:Id(%r11); jg Thunk
    appendDistance(Code, F, Thunk, 19);
    append(Code, F, {0x64, 0x41, 0xf6, 0x43, Byte(Top), Byte(Tag), 0x0f, 0x85}); // testb $Tag, %fs:Top(%r11); jne Thunk
    appendDistance(Code, F, Thunk, 31);
    // No constant of LLVM's stands for the block's distance.
    const std::string Name = Block.getName().str();
    F.getParent()->appendModuleInlineAsm(".type " + Name + ", @tls_object\n.reloc \"" + F.getName().str() +
                                         "\"+3, R_X86_64_GOTTPOFF, " + Name + "-4");
    return ConstantStruct::getAnon(Code, /*Packed=*/true);
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
    return Integers <= 6 && Vectors <= 8;
  }

  bool jumps(const CallBase &Call) const override {
    const Function &Caller = *Call.getFunction();
    switch (Caller.getCallingConv()) {
    case CallingConv::Cold:
    case CallingConv::PreserveMost:
    case CallingConv::PreserveAll:
      return false;
    default:
      return !realignsStack(Caller);
    }
  }
};

constexpr X86_64Machine X86_64Instance;
} // namespace

const Machine &x86_64() { return X86_64Instance; }
