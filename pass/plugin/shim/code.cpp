//===- code.cpp - copies of modules, and the code that is made of them --------===//

#include "machine.h"
#include "shim.h"
#include "versions.h"

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/MC/MCDwarf.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetLoweringObjectFile.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace {
// Messages about copies of the module are repeated for the module itself.
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
void reportCalls(const MachineFunction &MF, const Machine &Target, CallCallback OnCall, void *Context) {
  const unsigned StackPointer = Target.StackPointer;
  struct Rule {
    bool FromStackPointer;
    int64_t Offset;
  } Now{true, Target.EntryFrameOffset};
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
      // May change the canonical frame address in any way.
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

// Keeps the order of uses, on which code generation may depend.
LLVMMemoryBufferRef pcce_shim_write(LLVMModuleRef MR) {
  SmallVector<char, 0> Bitcode;
  raw_svector_ostream Out(Bitcode);
  WriteBitcodeToFile(*unwrap(MR), Out, /*ShouldPreserveUseListOrder=*/true);
  return wrap(MemoryBuffer::getMemBufferCopy(StringRef(Bitcode.data(), Bitcode.size())).release());
}

// A copy in a context of its own, which prints no messages; null if it cannot be read.
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

// Disposes of a copy and its context.
void pcce_shim_dispose_copy(void *Analyses, LLVMModuleRef MR) {
  Module *M = unwrap(MR);
  LLVMContext *Context = &M->getContext();
  forget(*static_cast<FunctionAnalysisManager *>(Analyses), *M);
  delete M;
  delete Context;
}

// Generates the code of a copy, as lld and clang would with their default options. Reports for each call in
// the code of each function how far the stack pointer is below the canonical frame address, or -1 if the
// unwind information does not say. Returns whether that was possible, and reports errors.
bool pcce_shim_frame_offsets(void *Analyses, LLVMModuleRef MR, uint32_t Level, bool NoPIE, CallCallback OnCall,
                             TextCallback OnError, void *Context) {
  Module &M = *unwrap(MR);
  forget(*static_cast<FunctionAnalysisManager *>(Analyses), M);
  auto Fail = [&](StringRef Message) {
    OnError(Context, Message.data(), Message.size());
    return false;
  };
  const pcce::TripleName &Name = M.getTargetTriple();
  const Triple T(Name);
  const Machine *Known = machineOf(T);
  if (!Known)
    return Fail(std::string("the module is not for ") + MachineNames);
  std::string Error;
  const Target *Found = TargetRegistry::lookupTarget(Name, Error);
  if (!Found)
    return Fail(Error);
  const Reloc::Model Relocation =
      NoPIE || M.getPICLevel() == PICLevel::NotPIC ? Reloc::Static : Reloc::PIC_;
  std::unique_ptr<pcce::CodeGenMachine> TM(static_cast<pcce::CodeGenMachine *>(
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
  // The functions' code lives as long as the passes. (A pass of our own could free it, but a plugin that
  // defines one is not even loaded by another LLVM, which then could not report the wrong version.)
  Passes.run(M);
  for (const Function &F : M)
    if (const MachineFunction *MF = Info->getMMI().getMachineFunction(F))
      reportCalls(*MF, *Known, OnCall, Context);
  const auto *Said = static_cast<const Quiet *>(M.getContext().getDiagHandlerPtr());
  return Said->FirstError.empty() || Fail(Said->FirstError);
}
