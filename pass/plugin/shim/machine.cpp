//===- machine.cpp - the table of machines --------------------------------------===//

#include "machine.h"

#include "llvm/IR/Module.h"

using namespace llvm;

const char *const MachineNames = "x86-64 or AArch64";
static const Machine &(*const Machines[])() = {x86_64, aarch64};

const Machine *machineOf(const Triple &T) {
  for (const auto &Get : Machines)
    if (Get().Arch == T.getArch())
      return &Get();
  return nullptr;
}

const Machine &machineOf(const Module &M) {
  const Machine *Found = machineOf(Triple(M.getTargetTriple()));
  return Found ? *Found : Machines[0]();
}
