//===- LowerKernels.cpp - A module of compiled kernels' functions ---------===//
//
// codegen-lower-kernels: kernels, which are mixle ops on tensors, become LLVM
// dialect functions.
//
//===----------------------------------------------------------------------===//

#include "compiler/Codegen/Codegen.h"
#include "compiler/Codegen/KernelEmitter.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::mixle;

void mlir::mixle::registerCodegenDialects(DialectRegistry &registry) {
  registry.insert<LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

/// Equal but for names and locations.
static bool sameKernel(exec::KernelOp x, exec::KernelOp y) {
  return x.getFunctionType() == y.getFunctionType() &&
         x->getAttr("aliases") == y->getAttr("aliases") &&
         OperationEquivalence::isRegionEquivalentTo(
             &x.getBody(), &y.getBody(),
             OperationEquivalence::IgnoreLocations);
}

static llvm::hash_code hashKernel(exec::KernelOp kernel) {
  llvm::hash_code hash = hash_value(kernel.getFunctionType());
  for (Operation &op : kernel.getBody().front())
    hash = llvm::hash_combine(
        hash, OperationEquivalence::computeHash(
                  &op, OperationEquivalence::ignoreHashValue,
                  OperationEquivalence::ignoreHashValue,
                  OperationEquivalence::IgnoreLocations));
  return hash;
}

static void emitAlias(OpBuilder &builder, Location loc, StringRef name,
                      StringRef of) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(builder.getContext()), {pointer, pointer});
  auto alias = LLVM::AliasOp::create(builder, loc, type,
                                     LLVM::Linkage::External, name,
                                     /*dsoLocal=*/false, /*threadLocal=*/false,
                                     ArrayRef<NamedAttribute>());
  builder.createBlock(&alias.getInitializer());
  Value address = LLVM::AddressOfOp::create(builder, loc, pointer, of);
  LLVM::ReturnOp::create(builder, loc, address);
  builder.setInsertionPointAfter(alias);
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::mixle::lowerKernels(MLIRContext *context,
                          ArrayRef<exec::KernelOp> kernels) {
  context->loadDialect<LLVM::LLVMDialect>();
  OpBuilder builder(context);
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(builder.getUnknownLoc(), "kernels");
  DenseMap<size_t, SmallVector<exec::KernelOp, 1>> known;
  llvm::StringSet<> names;
  for (exec::KernelOp kernel : kernels) {
    if (!names.insert(kernel.getSymName()).second)
      return kernel.emitOpError("has the name of another kernel");
    if (failed(codegen::checkKernel(kernel)))
      return failure();
    builder.setInsertionPointToEnd(module->getBody());
    auto &candidates = known[hashKernel(kernel)];
    auto same = llvm::find_if(candidates, [&](exec::KernelOp other) {
      return sameKernel(kernel, other);
    });
    if (same != candidates.end()) {
      emitAlias(builder, kernel.getLoc(), kernel.getSymName(),
                same->getSymName());
      continue;
    }
    candidates.push_back(kernel);
    if (failed(codegen::KernelEmitter(kernel, builder).emit()))
      return failure();
  }
  return module;
}

namespace {

struct LowerKernels : PassWrapper<LowerKernels, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerKernels)

  StringRef getArgument() const override { return "codegen-lower-kernels"; }
  StringRef getDescription() const override {
    return "Replace a module's programs by the LLVM dialect functions of their "
           "kernels";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<LLVM::LLVMDialect>();
  }
  void runOnOperation() override {
    SmallVector<exec::KernelOp> kernels;
    getOperation().walk([&](exec::KernelOp op) { kernels.push_back(op); });
    auto lowered = lowerKernels(&getContext(), kernels);
    if (failed(lowered))
      return signalPassFailure();
    Block *body = getOperation().getBody();
    body->clear();
    body->getOperations().splice(body->begin(),
                                 (*lowered)->getBody()->getOperations());
  }
};

} // namespace

void mlir::mixle::registerCodegenPasses() { PassRegistration<LowerKernels>(); }
