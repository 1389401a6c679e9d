//===- versions.h - what differs between the versions of LLVM --------------------===//
//
// The shim is compiled against the headers of one LLVM of several. Differences of its interface are here, as
// functions of namespace pcce that the shim calls instead. Another version is a word in scripts/llvm-versions, a
// feature with its llvm-sys in Cargo.toml, and its differences here. Look at these places, too: endInThinLTOAtO0
// (pass.cpp), since versions after 22 have an extension point in ThinLTO's pipeline of -O0; the plugin's entry
// point (build.rs, src/lib.rs); the names of functions that LLVM inserts calls of (data/inserted*.txt); and
// clang's options (pass/wrapper/src/args.rs and command/kinds.rs).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "llvm/IR/Attributes.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/ModRef.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

#if LLVM_VERSION_MAJOR >= 22
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif

// build.rs has chosen the layout of the result of llvmGetPassPluginInfo (src/lib.rs).
static_assert(LLVM_PLUGIN_API_VERSION == PCCE_PLUGIN_API, "LLVM wants another structure of a plugin");

namespace pcce {
#if LLVM_VERSION_MAJOR >= 21
// The triple as the target registry takes it.
using TripleName = llvm::Triple;
// The target machine with the parts of the code generator.
using CodeGenMachine = llvm::TargetMachine;
// Sets the location of the branch after a call that was an invoke.
inline void setBranchLocation(llvm::BranchInst *Branch, const llvm::DebugLoc &Location) {
  Branch->setDebugLoc(Location);
}
inline void addNoCapture(llvm::CallInst *Call, unsigned Parameter) {
  Call->addParamAttr(Parameter, llvm::Attribute::getWithCaptureInfo(Call->getContext(), llvm::CaptureInfo::none()));
}
#else
using TripleName = std::string;
using CodeGenMachine = llvm::LLVMTargetMachine;
// Without a location, as this LLVM makes such branches.
inline void setBranchLocation(llvm::BranchInst *, const llvm::DebugLoc &) {}
inline void addNoCapture(llvm::CallInst *Call, unsigned Parameter) {
  Call->addParamAttr(Parameter, llvm::Attribute::NoCapture);
}
#endif
} // namespace pcce
