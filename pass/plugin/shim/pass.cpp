//===- pass.cpp - the pass in LLVM's pipelines --------------------------------===//

#include "shim.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"

using namespace llvm;

// LLVM's own, by whose address it knows what it hands to callbacks. A copy in the plugin would have another one.
extern template struct llvm::Any::TypeId<const Module *>;

namespace {
// Values of Phase, as in src/lib.rs.
enum : uint32_t { PhaseModule = 0, PhaseLinkTime = 1, PhaseExplicit = 2, PhasePrint = 3 };

struct PccePass : PassInfoMixin<PccePass> {
  uint32_t Phase;
  uint32_t OptLevel;
  std::string Options;

  PccePass(uint32_t Phase, OptimizationLevel Level, StringRef Options = "")
      : Phase(Phase), OptLevel(Level.getSpeedupLevel()), Options(Options) {}

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    auto &FAM = MAM.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
    bool Changed = pcce_rs_run(wrap(&M), Phase, OptLevel, Options.data(), Options.size(), &FAM);
    return Changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }

  // Also for functions marked optnone, and at -O0.
  static bool isRequired() { return true; }
};
} // namespace

void pcce_shim_register(void *Builder) {
  auto &PB = *static_cast<PassBuilder *>(Builder);
  // What the callbacks know of the pipelines that this builder makes.
  struct State {
    bool HasStart = false;
    bool HasPass = false;
    bool NextIsLast = false;
    FunctionAnalysisManager *FAM = nullptr;
  };
  auto Known = std::make_shared<State>();
  // What else LLVM passes along is a matter of its version.
  auto Add = [Known](ModulePassManager &MPM, OptimizationLevel Level, auto...) {
    Known->HasPass = true;
    MPM.addPass(PccePass(PhaseModule, Level));
  };
  // Clang registers its sanitizers behind the plugins. They come in front of the pass all the same, as they do at link
  // time: what they insert calls on, and what the pass inserts is not theirs to guard or to move. (Pipelines behind a
  // link have no start.)
  PB.registerOptimizerLastEPCallback([Add, Known](ModulePassManager &MPM, OptimizationLevel Level, auto...) {
    if (!Known->HasStart)
      Add(MPM, Level);
  });
  PB.registerPipelineStartEPCallback([&PB, Add, Known](ModulePassManager &, OptimizationLevel, auto...) {
    if (!std::exchange(Known->HasStart, true))
      PB.registerOptimizerLastEPCallback(Add);
  });
  PB.registerFullLinkTimeOptimizationLastEPCallback([Known](ModulePassManager &MPM, OptimizationLevel Level, auto...) {
    Known->HasPass = true;
    MPM.addPass(PccePass(PhaseLinkTime, Level));
  });
  // ThinLTO's pipeline of -O0 asks no plugin. The pass comes behind its last two passes all the same.
  PB.registerAnalysisRegistrationCallback([Known](FunctionAnalysisManager &FAM) { Known->FAM = &FAM; });
  if (PassInstrumentationCallbacks *Callbacks = PB.getPassInstrumentationCallbacks())
    Callbacks->registerAfterPassCallback([Known](StringRef Pass, Any IR, const PreservedAnalyses &) {
      bool IsLast = std::exchange(Known->NextIsLast, Pass == "EliminateAvailableExternallyPass");
      auto *M = any_cast<const Module *>(&IR);
      if (!IsLast || Pass != "GlobalDCEPass" || !M || !Known->FAM || std::exchange(Known->HasPass, true))
        return;
      pcce_rs_run(wrap(*M), PhaseModule, 0, nullptr, 0, Known->FAM);
      Known->FAM->clear();
    });
  PB.registerPipelineParsingCallback(
      [Known](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
        if (Name == "print<pcce-frames>") {
          MPM.addPass(PccePass(PhasePrint, OptimizationLevel::O2));
          return true;
        }
        if (!Name.consume_front("pcce"))
          return false;
        if (!Name.empty() && !(Name.consume_front("<") && Name.consume_back(">")))
          return false;
        Known->HasPass = true;
        MPM.addPass(PccePass(PhaseExplicit, OptimizationLevel::O2, Name));
        return true;
      });
}

const char *pcce_shim_llvm_version() { return LLVM_VERSION_STRING; }

void pcce_shim_emit_error(LLVMModuleRef M, const char *Message, size_t Len) {
  unwrap(M)->getContext().emitError(StringRef(Message, Len));
}

bool pcce_shim_has_module_flag(LLVMModuleRef M, const char *Name, size_t Len) {
  return unwrap(M)->getModuleFlag(StringRef(Name, Len)) != nullptr;
}
