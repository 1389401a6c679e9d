//===- machine.h - what the shim knows of the machine of a module --------------===//
//
// Each machine is a file in machine/ that defines a Machine, and a line in the table of machine.cpp. Nothing
// here is initialised when the plugin is loaded: it may be loaded by another LLVM, which is found out later.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "llvm/IR/IRBuilder.h"
#include "llvm/TargetParser/Triple.h"

#include <string>

// The code of traces. Word is the address of a word of 64 bits.
class TraceCode {
public:
  // Appends a bit to the word, and returns whether it has become the highest one.
  virtual llvm::Value *appendBit(llvm::IRBuilder<> &B, llvm::Value *Word, bool Bit) const = 0;
  // Appends several bits to the word, which stays below 2^63.
  virtual void appendBits(llvm::IRBuilder<> &B, llvm::Value *Word, uint64_t Bits, uint64_t Count) const = 0;
  // Returns whether a bit of the word's highest byte is set.
  virtual llvm::Value *isNearlyFull(llvm::IRBuilder<> &B, llvm::Value *Word) const = 0;
  // Calls a function that keeps all registers, except those that the linker's stubs and the call itself may change. The
  // assembly Behind follows the call.
  virtual void callKeepingRegisters(llvm::IRBuilder<> &B, const std::string &Callee,
                                    const std::string &Behind) const = 0;
  // Returns instructions, of pcce_abi's `entry_len`, that call Callee from the first byte of F: the data that F begins
  // with. Callee finds F by its return address.
  virtual llvm::Constant *callAtEntry(llvm::Function &F, llvm::Function &Callee) const = 0;
  // Returns instructions that do nothing, with room for a jump to anywhere in the image.
  virtual llvm::Constant *roomAtEntry(llvm::Function &F) const = 0;
  // Returns instructions that jump from the first byte of F to Copy if the byte Off is 0: the data that F begins with.
  // `Through`: Off is a pointer to the byte. They may change the register that the linker's stubs change.
  virtual llvm::Constant *jumpAtEntry(llvm::Function &F, llvm::Function &Copy, llvm::GlobalVariable &Off,
                                      bool Through) const = 0;
  // Makes sure that a short jump fits behind the data that F begins with.
  virtual void makeRoomBehind(llvm::Function &F) const {}
};

class Machine {
public:
  llvm::Triple::ArchType Arch;
  // The stack pointer's number in DWARF.
  unsigned StackPointer;
  // How far the canonical frame address is above the stack pointer at a function's entry.
  int64_t EntryFrameOffset;
  const TraceCode &Traces;

  constexpr Machine(llvm::Triple::ArchType Arch, unsigned StackPointer, int64_t EntryFrameOffset,
                    const TraceCode &Traces)
      : Arch(Arch), StackPointer(StackPointer), EntryFrameOffset(EntryFrameOffset), Traces(Traces) {}

  // Returns whether the hardware itself calls functions of this convention.
  virtual bool isInterruptHandler(llvm::CallingConv::ID Convention) const = 0;
  // Returns whether a function of this convention can end in a call of a thunk of the same convention. It is
  // not asked about the conventions that all machines have.
  virtual bool canBeDiverted(llvm::CallingConv::ID Convention) const = 0;
  // Returns whether checkAtEntry can be in front of a function: its convention leaves the registers and flags alone
  // that this changes, and nothing else has to stand at its beginning. If not, its first block has the check.
  virtual bool canCheckAtEntry(const llvm::Function &) const { return false; }
  // Returns instructions that jump from the first byte of F to Thunk if the word Id of the thread's block Block is
  // positive, or the lowest byte of the word Top has a bit of Tag: the data that F begins with. Id and Top are offsets.
  virtual llvm::Constant *checkAtEntry(llvm::Function &F, llvm::Function &Thunk, const llvm::GlobalVariable &Block,
                                       uint64_t Id, uint64_t Top, uint64_t Tag) const {
    return nullptr;
  }
  // Returns whether all arguments go in registers, as far as the plain rules of the machine's ABI tell.
  virtual bool inRegisters(const llvm::CallBase &Call) const = 0;
  // Returns whether code generation makes a jump of an ordinary tail call, as far as the machine decides that by
  // other things than the places of arguments.
  virtual bool jumps(const llvm::CallBase &Call) const = 0;
  // The attribute of a thread-local variable that says how far it is from the thread pointer.
  static constexpr llvm::StringLiteral ThreadOffset = "pcce-thread-offset";

  // The address of the calling thread's instance of a thread-local variable of another object, found anew. Null if
  // the machine's instructions address such variables by themselves, so that code keeps no address of the thread.
  virtual llvm::Value *ofThread(llvm::IRBuilder<> &B, llvm::GlobalVariable &Variable) const = 0;
};

// The names of all machines, for messages.
extern const char *const MachineNames;

// The machines.
const Machine &aarch64();
const Machine &x86_64();

// The machine of a triple, or null.
const Machine *machineOf(const llvm::Triple &T);
// The machine of a module. Modules without a triple, and those of other machines, are taken for modules of
// the first in the table: code generation reports what it cannot do.
const Machine &machineOf(const llvm::Module &M);
