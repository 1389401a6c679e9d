//===- skeleton.cpp - objects whose code is generated at the link --------------===//

#include "shim.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Mangler.h"
#include "llvm/IR/Module.h"

using namespace llvm;

// Gives every global a name, by which assembly can refer to it.
void pcce_shim_name_globals(LLVMModuleRef M) {
  for (GlobalValue &G : unwrap(M)->global_values())
    if (!G.hasName())
      G.setName("__pcce_unnamed");
}

// The names in assembly of all that other modules can define or see.
void pcce_shim_symbol_names(LLVMModuleRef M, TextCallback OnName, void *Context) {
  for (const GlobalValue &G : unwrap(M)->global_values()) {
    if (G.hasLocalLinkage() || !G.hasName() || G.getName().starts_with("llvm."))
      continue;
    SmallString<64> Name;
    Mangler().getNameWithPrefix(Name, &G, /*CannotUsePrivateLabel=*/true);
    OnName(Context, Name.data(), Name.size());
  }
}

// Reports each global that the body of a function, or the function itself (its personality), refers to: its
// name, its name in assembly, and its kind: 1 weak and not defined here, 2 thread-local, 4 local, 8 a
// function.
void pcce_shim_references(LLVMValueRef V, ReferenceCallback OnReference, void *Context) {
  Function &F = *unwrap<Function>(V);
  SetVector<const GlobalValue *> Globals;
  SmallPtrSet<const Constant *, 16> Seen;
  SmallVector<const Constant *, 16> Left;
  auto Visit = [&](const Value *Of) {
    auto *C = dyn_cast<Constant>(Of);
    if (C && !isa<ConstantData>(C) && Seen.insert(C).second)
      Left.push_back(C);
  };
  for (const Use &U : F.operands())
    Visit(U.get());
  for (const Instruction &I : instructions(F))
    for (const Use &U : I.operands())
      Visit(U.get());
  while (!Left.empty()) {
    const Constant *C = Left.pop_back_val();
    if (auto *G = dyn_cast<GlobalValue>(C)) {
      Globals.insert(G);
      continue;
    }
    if (isa<BlockAddress>(C))
      continue;
    for (const Use &U : C->operands())
      Visit(U.get());
  }
  Mangler Names;
  SmallString<64> Name;
  for (const GlobalValue *G : Globals) {
    auto *Callee = dyn_cast<Function>(G);
    if (Callee && Callee->isIntrinsic())
      continue;
    const uint32_t Kind = (G->hasExternalWeakLinkage() ? 1 : 0) | (G->isThreadLocal() ? 2 : 0) |
                          (G->hasLocalLinkage() ? 4 : 0) | (G->getValueType()->isFunctionTy() ? 8 : 0);
    Name.clear();
    Names.getNameWithPrefix(Name, G, /*CannotUsePrivateLabel=*/false);
    OnReference(Context, G->getName().data(), G->getName().size(), Name.data(), Name.size(), Kind);
  }
}

// Replaces the body of a function by this assembly. Nothing is put before it or after it.
void pcce_shim_replace_body(LLVMValueRef V, const char *Asm, size_t Len) {
  Function &F = *unwrap<Function>(V);
  LLVMContext &Context = F.getContext();
  const GlobalValue::LinkageTypes Linkage = F.getLinkage();
  SmallString<64> Name;
  Mangler().getNameWithPrefix(Name, &F, /*CannotUsePrivateLabel=*/false);
  F.deleteBody();
  F.setLinkage(Linkage);
  F.setPersonalityFn(nullptr);
  F.setPrefixData(nullptr);
  F.setPrologueData(nullptr);
  F.clearMetadata();
  F.setAttributes(AttributeList());
  // Some conventions require attributes of parameters.
  F.setCallingConv(CallingConv::C);
  // The name in assembly depends on other conventions, and on parameters (vectorcall).
  SmallString<64> Now;
  Mangler().getNameWithPrefix(Now, &F, /*CannotUsePrivateLabel=*/false);
  if (Now != Name)
    F.setName("\1" + Name);
  F.clearGC();
  // The new body has another size.
  F.setAlignment(MaybeAlign());
  for (Attribute::AttrKind Kind :
       {Attribute::Naked, Attribute::NoInline, Attribute::NoUnwind, Attribute::NoCfCheck})
    F.addFnAttr(Kind);
  IRBuilder<> B(BasicBlock::Create(Context, "", &F));
  auto *T = FunctionType::get(B.getVoidTy(), false);
  B.CreateCall(T, InlineAsm::get(T, StringRef(Asm, Len), "", /*hasSideEffects=*/true));
  B.CreateUnreachable();
}

// Removes debug information, which only bodies need.
void pcce_shim_drop_debug(LLVMModuleRef M) { StripDebugInfo(*unwrap(M)); }

// Puts bytes into a section that tools leave alone and linkers leave out.
void pcce_shim_embed(LLVMModuleRef MR, const char *Section, size_t SectionLen, const char *Bytes, size_t Len) {
  Module &M = *unwrap(MR);
  Constant *C = ConstantDataArray::getRaw(StringRef(Bytes, Len), Len, Type::getInt8Ty(M.getContext()));
  auto *G = new GlobalVariable(M, C->getType(), /*isConstant=*/true, GlobalValue::PrivateLinkage, C);
  G->setSection(StringRef(Section, SectionLen));
  G->setMetadata(LLVMContext::MD_exclude, MDNode::get(M.getContext(), {}));
  G->setAlignment(Align(1));
}

// Turns a function, and its aliases, into declarations.
void pcce_shim_declare(LLVMValueRef V) {
  Function &F = *unwrap<Function>(V);
  Module &M = *F.getParent();
  for (GlobalAlias &A : make_early_inc_range(M.aliases())) {
    if (A.getAliaseeObject() != &F)
      continue;
    auto *D = Function::Create(F.getFunctionType(), GlobalValue::ExternalLinkage, A.getAddressSpace(), "", &M);
    D->copyAttributesFrom(&F);
    D->setPersonalityFn(nullptr);
    D->setVisibility(A.getVisibility());
    D->takeName(&A);
    A.replaceAllUsesWith(D);
    A.eraseFromParent();
  }
  F.deleteBody();
  F.setPersonalityFn(nullptr);
  F.setPrefixData(nullptr);
  F.setPrologueData(nullptr);
  F.setComdat(nullptr);
}
