//===- pass.cpp - the pass in LLVM's pipelines --------------------------------===//

#include "shim.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ModuleSummaryIndex.h"
#include "llvm/Passes/PassBuilder.h"

using namespace llvm;

// LLVM's own, by whose address it knows what it hands to callbacks. A copy in the plugin would have another one.
extern template struct llvm::Any::TypeId<const Module *>;

namespace {
// Values of Phase, as in src/lib.rs.
enum : uint32_t { PhaseModule = 0, PhaseLinkTime = 1, PhaseExplicit = 2, PhasePrint = 3, PhaseEnd = 4, PhaseSlice = 5 };

// The module that a pipeline has run over, until the pipeline itself is gone: then all of its passes are over, those
// behind the last place for passes of plugins, too, and code generation begins.
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
  // Shared by copies of the pass; the pipeline has the last one.
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

// Calls Then for each pass of a pipeline when its turn is over, but not for the passes that run inside of others.
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

// The passes of ThinLTO's pipeline of -O0, as the LLVM in use tells them: it runs them on an empty module. The summary
// of what to import is there in a link, and is not in opt; other passes come first then.
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

// Returns whether these passes end as ThinLTO's pipeline of -O0 does. Of all the pipelines this one alone asks no plugin (LLVM
// has an extension point there in versions after 22), and leaves no mark in the module. But it is known which passes
// have run. So the pass comes behind the whole of this pipeline, and behind whoever lists its passes one by one: this
// is the same pipeline.
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
  // What the callbacks know of the pipelines that this builder makes.
  struct State {
    bool HasStart = false;
    bool HasPass = false;
    // The passes that have run, while none of them is this one.
    std::vector<std::string> Ran;
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
  PB.registerAnalysisRegistrationCallback([Known](FunctionAnalysisManager &FAM) { Known->FAM = &FAM; });
  if (PassInstrumentationCallbacks *Callbacks = PB.getPassInstrumentationCallbacks()) {
    // Where the pipeline is nothing but a look at bitcode that comes out of one, the code is generated by a plan.
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
      // Nothing is behind it.
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
