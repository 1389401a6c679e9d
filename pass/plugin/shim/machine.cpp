//===- machine.cpp - the table of machines --------------------------------------===//

#include "machine.h"

#include "llvm/IR/Module.h"

using namespace llvm;

extern const Machine &X86_64;

static const Machine *const Machines[] = {&X86_64};

const Machine *machineOf(const Triple &T) {
  for (const Machine *M : Machines)
    if (M->Arch == T.getArch())
      return M;
  return nullptr;
}

const Machine &machineOf(const Module &M) {
  const Machine *Found = machineOf(Triple(M.getTargetTriple()));
  return Found ? *Found : *Machines[0];
}
