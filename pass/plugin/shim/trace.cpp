//===- trace.cpp - what traces add to the code --------------------------------===//

#include "machine.h"
#include "shim.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

#include <string>

using namespace llvm;

// Calls a function of another object, which does not throw, before the instruction.
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

// The address of a word of a thread-local variable, for the code at B, on machines whose code would keep the address of
// the thread longer than that.
static Value *ofThread(IRBuilder<> &B, Constant &Word) {
  const Module &M = *B.GetInsertBlock()->getModule();
  APInt Offset(64, 0);
  const Value *Base = Word.stripAndAccumulateConstantOffsets(M.getDataLayout(), Offset, /*AllowNonInbounds=*/true);
  auto &Variable = *const_cast<GlobalVariable *>(cast<GlobalVariable>(Base));
  Value *Found = machineOf(M).ofThread(B, Variable);
  if (!Found)
    return &Word;
  return Offset.isZero() ? Found : B.CreateConstInBoundsGEP1_64(B.getInt8Ty(), Found, Offset.getZExtValue());
}

// Replaces each call of the function `Name(code, bits, function, node, left)` by code that appends the bits
// to the word Pending. Flush is called when the leading one has become the highest bit; or, for several bits,
// before they might move it that far. The section Places gets a row for the place after the call of Flush.
void pcce_shim_trace_expand(LLVMModuleRef MR, const char *Name, size_t Len, LLVMValueRef PendingV, const char *Flush,
                            const char *Places, const char *Functions) {
  Module &M = *unwrap(MR);
  Function *Append = M.getFunction(StringRef(Name, Len));
  if (!Append)
    return;
  const TraceCode &Target = machineOf(M).Traces;
  auto *Pending = unwrap<Constant>(PendingV);
  MDNode *Unlikely = MDBuilder(M.getContext()).createUnlikelyBranchWeights();
  for (User *U : make_early_inc_range(Append->users())) {
    auto *Call = cast<CallInst>(U);
    auto Argument = [&](unsigned N) { return cast<ConstantInt>(Call->getArgOperand(N))->getZExtValue(); };
    const uint64_t Code = Argument(0);
    const uint64_t Bits = Argument(1);
    // Assembly records the place, wherever code generation puts the call, and however often. LLVM does not
    // know that the assembly calls, so the red zone must stay unused.
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
    Value *Word = ofThread(B, *Pending);
    if (Bits == 1) {
      FlushIf(Target.appendBit(B, Word, Code));
    } else {
      FlushIf(Target.isNearlyFull(B, Word));
      Target.appendBits(B, Word, Code, Bits);
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

// Makes the function begin with a call of Name, of pcce_abi's `entry_len` bytes, when it is entered by its
// address.
void pcce_shim_trace_entry(LLVMValueRef V, const char *Name, size_t Len) {
  Function &F = *unwrap<Function>(V);
  FunctionCallee Enter =
      F.getParent()->getOrInsertFunction(StringRef(Name, Len), Type::getVoidTy(F.getContext()));
  auto *Callee = cast<Function>(Enter.getCallee());
  // The callee is in the same image.
  Callee->setVisibility(GlobalValue::HiddenVisibility);
  Callee->setDSOLocal(true);
  F.setPrologueData(machineOf(*F.getParent()).Traces.callAtEntry(F, *Callee));
}

// A name, local to the object, for the place that many bytes after the function's beginning.
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

// Returns whether assembly defines a label of which there must be no copy. Copies may define numeric labels, and labels
// with the number that LLVM gives each copy.
static bool definesLabel(StringRef Assembly) {
  for (size_t Colon = Assembly.find(':'); Colon != StringRef::npos; Colon = Assembly.find(':', Colon + 1)) {
    StringRef Name = Assembly.take_front(Colon);
    // The label has the number of its copy.
    if (Name.ends_with("${:uid}"))
      continue;
    // The colon of the number itself.
    if (Name.ends_with("${") && Assembly.substr(Colon).starts_with(":uid}"))
      continue;
    Name = Name.take_back(Name.size() - std::min(Name.size(), Name.find_last_of(" \t\n;{|") + 1));
    bool IsNumber = !Name.empty() && Name.find_first_not_of("0123456789") == StringRef::npos;
    if (!IsNumber && !Name.starts_with("%"))
      return true;
  }
  return false;
}

// Returns whether only instructions of F use the constant, directly or in other constants. The variables whose
// initializers use it go into Tables.
static bool isUsedWithin(const Constant &C, const Function &F, SmallPtrSetImpl<GlobalVariable *> &Tables) {
  for (const User *U : C.users()) {
    if (auto *I = dyn_cast<Instruction>(U)) {
      if (I->getFunction() != &F)
        return false;
    } else if (auto *Table = dyn_cast<GlobalVariable>(U)) {
      Tables.insert(const_cast<GlobalVariable *>(Table));
    } else if (isa<GlobalValue>(U) || !isUsedWithin(*cast<Constant>(U), F, Tables)) {
      return false;
    }
  }
  return true;
}

// Finds the tables with addresses of the function's blocks, such as interpreters have. Returns false if other code or
// data has such addresses.
static bool findTables(const Function &F, SmallPtrSetImpl<GlobalVariable *> &Tables) {
  for (const BasicBlock &Block : F)
    if (const BlockAddress *Address = Block.hasAddressTaken() ? BlockAddress::lookup(&Block) : nullptr)
      if (!isUsedWithin(*Address, F, Tables))
        return false;
  SmallPtrSet<GlobalVariable *, 1> OfTables;
  return all_of(Tables, [&](const GlobalVariable *Table) {
    return Table->isConstant() && Table->hasLocalLinkage() && !Table->hasSection() &&
           isUsedWithin(*Table, F, OfTables) && OfTables.empty();
  });
}

// Returns whether the module can have a copy of the function.
bool pcce_shim_can_be_copied(LLVMValueRef V) {
  const Function &F = *unwrap<Function>(V);
  if (F.hasFnAttribute(Attribute::Naked) || F.hasPrologueData() || F.hasPrefixData() || F.isPresplitCoroutine())
    return false;
  SmallPtrSet<GlobalVariable *, 1> Tables;
  if (!findTables(F, Tables))
    return false;
  for (const BasicBlock &Block : F) {
    for (const Instruction &I : Block)
      if (auto *Call = dyn_cast<CallBase>(&I)) {
        if (Call->cannotDuplicate())
          return false;
        if (auto *Asm = dyn_cast<InlineAsm>(Call->getCalledOperand()); Asm && definesLabel(Asm->getAsmString()))
          return false;
      }
  }
  return true;
}

// A local copy of the function, with the same blocks and instructions in the same order.
LLVMValueRef pcce_shim_copy(LLVMValueRef V, const char *Name, size_t Len) {
  Function &F = *unwrap<Function>(V);
  ValueToValueMapTy Map;
  SmallPtrSet<GlobalVariable *, 1> Tables;
  findTables(F, Tables);
  for (GlobalVariable *Table : Tables) {
    auto *Other = new GlobalVariable(*F.getParent(), Table->getValueType(), true, Table->getLinkage(), nullptr,
                                     Table->getName(), Table);
    Other->copyAttributesFrom(Table);
    Other->setComdat(Table->getComdat());
    Map[Table] = Other;
  }
  // The map gets the addresses of blocks, too.
  Function *Copy = CloneFunction(&F, Map);
  for (GlobalVariable *Table : Tables)
    cast<GlobalVariable>(Map[Table])->setInitializer(MapValue(Table->getInitializer(), Map));
  Copy->setName(StringRef(Name, Len));
  Copy->setLinkage(GlobalValue::InternalLinkage);
  Copy->setVisibility(GlobalValue::DefaultVisibility);
  Copy->setDLLStorageClass(GlobalValue::DefaultStorageClass);
  Copy->setDSOLocal(true);
  // If the linker drops the function, it drops the copy.
  Copy->setComdat(F.getComdat());
  return wrap(Copy);
}

// Makes the function begin with a jump to Copy if the byte Off of the image is 0. `Through`: Off is a pointer to the
// byte. Returns how many bytes these instructions have.
uint64_t pcce_shim_trace_choose(LLVMValueRef V, LLVMValueRef Copy, const char *Off, size_t Len, bool Through) {
  Function &F = *unwrap<Function>(V);
  Module &M = *F.getParent();
  LLVMContext &C = M.getContext();
  Type *T = Through ? static_cast<Type *>(PointerType::getUnqual(C)) : Type::getInt8Ty(C);
  auto *Variable = cast<GlobalVariable>(M.getOrInsertGlobal(StringRef(Off, Len), T));
  // Executables export the byte to their libraries.
  if (Through)
    Variable->setVisibility(GlobalValue::HiddenVisibility);
  Variable->setDSOLocal(true);
  Constant *Choice = machineOf(M).Traces.jumpAtEntry(F, *unwrap<Function>(Copy), *Variable, Through);
  F.setPrologueData(Choice);
  return M.getDataLayout().getTypeAllocSize(Choice->getType()).getFixedValue();
}

// Gives the function, which nobody enters at its first byte, room for a jump there. Returns how many bytes that is.
uint64_t pcce_shim_trace_room(LLVMValueRef V) {
  Function &F = *unwrap<Function>(V);
  Constant *Room = machineOf(*F.getParent()).Traces.roomAtEntry(F);
  F.setPrologueData(Room);
  return F.getDataLayout().getTypeAllocSize(Room->getType()).getFixedValue();
}

// A local function that calls F, which has no first bytes of its own yet, with its own arguments, then calls Returned,
// which keeps all registers, and returns F's result. Returns the call of F.
LLVMValueRef pcce_shim_trace_outside(LLVMValueRef V, const char *Name, size_t Len, const char *Returned) {
  CallInst *Call = addForwarder(*unwrap<Function>(V), StringRef(Name, Len));
  Function &T = *Call->getFunction();
  T.setPersonalityFn(nullptr);
  T.setDSOLocal(true);
  // LLVM does not know that the assembly calls.
  T.addFnAttr(Attribute::NoRedZone);
  IRBuilder<> B(Call->getNextNode());
  machineOf(*T.getParent()).Traces.callKeepingRegisters(B, Returned, "");
  return wrap(Call);
}

// Adds a row of pcce_abi's ROWS. Outside may be null, and File empty.
void pcce_shim_trace_row(LLVMValueRef FirstV, uint64_t Behind, LLVMValueRef SecondV, LLVMValueRef Outside,
                         const char *Names, size_t NamesLen, const char *File, size_t FileLen, const char *Section) {
  Function &First = *unwrap<Function>(FirstV), &Second = *unwrap<Function>(SecondV);
  Module &M = *First.getParent();
  LLVMContext &C = M.getContext();
  Type *Int = Type::getInt32Ty(C), *Long = Type::getInt64Ty(C);
  for (Function *F : {&First, &Second})
    machineOf(M).Traces.makeRoomBehind(*F);
  auto *T = ArrayType::get(Int, 6);
  auto *Row = new GlobalVariable(M, T, true, GlobalValue::PrivateLinkage, nullptr, "pcce_trace_row");
  auto Distance = [&](GlobalValue *To) {
    // F's own name may lead to another image's function. And where the address of a function does not count, LLVM takes
    // a relocation that may lead to a stub, which GNU ld does not know for all machines.
    if (!To->hasLocalLinkage() || (isa<Function>(To) && To->hasGlobalUnnamedAddr())) {
      auto *A = GlobalAlias::create(To->getValueType(), To->getAddressSpace(), GlobalValue::PrivateLinkage,
                                    "pcce_trace_row.own", To, &M);
      A->setDSOLocal(true);
      To = A;
    }
    Constant *D = ConstantExpr::getSub(ConstantExpr::getPtrToInt(To, Long), ConstantExpr::getPtrToInt(Row, Long));
    return ConstantExpr::getTrunc(D, Int);
  };
  auto Text = [&](StringRef S) {
    Constant *Data = ConstantDataArray::getString(C, S);
    auto *V = new GlobalVariable(M, Data->getType(), true, GlobalValue::PrivateLinkage, Data, "pcce_trace_text");
    V->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
    V->setAlignment(Align(1));
    return Distance(V);
  };
  Constant *Zero = ConstantInt::get(Int, 0);
  Row->setInitializer(ConstantArray::get(
      T, {Distance(&First), ConstantInt::get(Int, Behind), Distance(&Second),
          Outside ? Distance(unwrap<Function>(Outside)) : Zero, Text(StringRef(Names, NamesLen)),
          FileLen ? Text(StringRef(File, FileLen)) : Zero}));
  Row->setSection(Section);
  Row->setAlignment(Align(4));
  Row->setComdat(First.getComdat());
  // The row is kept where the function is, and does not keep it.
  Row->setMetadata(LLVMContext::MD_associated, MDNode::get(C, ValueAsMetadata::get(&Second)));
  appendToCompilerUsed(M, {Row});
}
