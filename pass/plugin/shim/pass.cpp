//===- pass.cpp - the pass in LLVM's pipelines --------------------------------===//

#include "shim.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ModuleSummaryIndex.h"
#include "llvm/Passes/PassBuilder.h"

using namespace llvm;

// LLVM's own key, whose address identifies what it hands to callbacks. A copy in the plugin would have
// another address.
extern template struct llvm::Any::TypeId<const Module *>;

namespace {
// Values of Phase, as in src/lib.rs.
enum : uint32_t { PhaseModule = 0, PhaseLinkTime = 1, PhaseExplicit = 2, PhasePrint = 3, PhaseEnd = 4, PhaseSlice = 5 };

// The module that a pipeline has run over, until the pipeline itself is destroyed: then all of its passes are
// over, including those after the last extension point, and code generation begins.
struct Ending {
  Module *M = nullptr;
  FunctionAnalysisManager *FAM = nullptr;
  ~Ending() {
    if (M)
      pcce_rs_run(wrap(M), PhaseEnd, 0, nullptr, 0, FAM);
  }
};

struct PccePass : PassInfoMixin<PccePass> {
  uint32_t Phase;
  uint32_t OptLevel;
  std::string Options;
  // Shared by copies of the pass. The pipeline has the last copy.
  std::shared_ptr<Ending> End = std::make_shared<Ending>();

  PccePass(uint32_t Phase, OptimizationLevel Level, StringRef Options = "")
      : Phase(Phase), OptLevel(Level.getSpeedupLevel()), Options(Options) {}

  PreservedAnalyses run(Module &M, ModuleAnalysisManager &MAM) {
    auto &FAM = MAM.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
    bool Changed = pcce_rs_run(wrap(&M), Phase, OptLevel, Options.data(), Options.size(), &FAM);
    if (Phase == PhaseModule || Phase == PhaseLinkTime) {
      End->M = &M;
      End->FAM = &FAM;
    }
    return Changed ? PreservedAnalyses::none() : PreservedAnalyses::all();
  }

  // Also for functions marked optnone, and at -O0.
  static bool isRequired() { return true; }
};

// Calls Then for each pass of a pipeline after it has run, but not for passes that run inside of others.
void forEachPass(PassInstrumentationCallbacks &Callbacks, std::function<void(StringRef, Any)> Then) {
  auto Depth = std::make_shared<unsigned>(0);
  Callbacks.registerBeforeSkippedPassCallback([Depth, Then](StringRef Pass, Any IR) {
    if (*Depth == 0)
      Then(Pass, IR);
  });
  Callbacks.registerBeforeNonSkippedPassCallback([Depth](StringRef, Any) { ++*Depth; });
  Callbacks.registerAfterPassInvalidatedCallback([Depth](StringRef, const PreservedAnalyses &) { --*Depth; });
  Callbacks.registerAfterPassCallback([Depth, Then](StringRef Pass, Any IR, const PreservedAnalyses &) {
    if (--*Depth == 0)
      Then(Pass, IR);
  });
}

// The passes of ThinLTO's pipeline of -O0 in the LLVM in use, which is run on an empty module to find them.
// The summary of imports exists in a link, but not in opt; other passes come first then.
std::vector<std::string> thinLTOAtO0(const ModuleSummaryIndex *Summary) {
  std::vector<std::string> Names;
  PassInstrumentationCallbacks Callbacks;
  forEachPass(Callbacks, [&](StringRef Pass, Any) { Names.push_back(Pass.str()); });
  LoopAnalysisManager LAM;
  FunctionAnalysisManager FAM;
  CGSCCAnalysisManager CGAM;
  ModuleAnalysisManager MAM;
  PassBuilder PB(nullptr, PipelineTuningOptions(), std::nullopt, &Callbacks);
  PB.registerModuleAnalyses(MAM);
  PB.registerCGSCCAnalyses(CGAM);
  PB.registerFunctionAnalyses(FAM);
  PB.registerLoopAnalyses(LAM);
  PB.crossRegisterProxies(LAM, FAM, CGAM, MAM);
  LLVMContext Context;
  Module Empty("", Context);
  PB.buildThinLTODefaultPipeline(OptimizationLevel::O0, Summary).run(Empty, MAM);
  return Names;
}

// Returns whether these passes end as ThinLTO's pipeline of -O0 does. That pipeline alone calls no plugin, and leaves
// no mark in the module, but it is known which passes have run. So the pass runs after the whole of this pipeline. It
// also runs after a pipeline that lists these passes one by one, which is the same.
bool endInThinLTOAtO0(const std::vector<std::string> &Ran) {
  static const ModuleSummaryIndex NoSymbols(/*HaveGVs=*/false);
  static const std::vector<std::string> InOpt = thinLTOAtO0(nullptr), InLink = thinLTOAtO0(&NoSymbols);
  auto AreLast = [&](const std::vector<std::string> &All) {
    return !All.empty() && Ran.size() >= All.size() && std::equal(All.rbegin(), All.rend(), Ran.rbegin());
  };
  return AreLast(InOpt) || AreLast(InLink);
}
} // namespace

void pcce_shim_register(void *Builder) {
  auto &PB = *static_cast<PassBuilder *>(Builder);
  // The callbacks' knowledge about the pipelines that this builder makes.
  struct State {
    bool HasStart = false;
    bool HasPass = false;
    // The passes that have run, while none of them is this one.
    std::vector<std::string> Ran;
    FunctionAnalysisManager *FAM = nullptr;
  };
  auto Known = std::make_shared<State>();
  // LLVM's further arguments depend on its version.
  auto Add = [Known](ModulePassManager &MPM, OptimizationLevel Level, auto...) {
    Known->HasPass = true;
    MPM.addPass(PccePass(PhaseModule, Level));
  };
  // Clang registers its sanitizers after the plugins. Here they run before the pass, as they do at link time:
  // the pass must see the calls that they insert, and they must not guard or move what the pass inserts.
  // (Pipelines at link time have no start.)
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
  PB.registerAnalysisRegistrationCallback([Known](FunctionAnalysisManager &FAM) { Known->FAM = &FAM; });
  if (PassInstrumentationCallbacks *Callbacks = PB.getPassInstrumentationCallbacks()) {
    // If the pipeline only reads bitcode that comes out of another one, the code is generated by an order.
    if (pcce_rs_generates()) {
      forEachPass(*Callbacks, [Known](StringRef, Any IR) {
        auto *M = any_cast<const Module *>(&IR);
        if (!M || !Known->FAM || std::exchange(Known->HasPass, true))
          return;
        pcce_rs_run(wrap(*M), PhaseSlice, 0, nullptr, 0, Known->FAM);
        Known->FAM->clear();
      });
      return;
    }
    forEachPass(*Callbacks, [Known](StringRef Pass, Any IR) {
      auto *M = any_cast<const Module *>(&IR);
      if (Known->HasPass || !M || !Known->FAM)
        return;
      Known->Ran.push_back(Pass.str());
      if (!endInThinLTOAtO0(Known->Ran))
        return;
      Known->HasPass = true;
      pcce_rs_run(wrap(*M), PhaseModule, 0, nullptr, 0, Known->FAM);
      // Nothing runs after this pipeline.
      pcce_rs_run(wrap(*M), PhaseEnd, 0, nullptr, 0, Known->FAM);
      Known->FAM->clear();
    });
  }
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
