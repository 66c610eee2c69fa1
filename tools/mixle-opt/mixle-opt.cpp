//===- mixle-opt.cpp - Runs passes on textual IR --------------------------===//
//
// mlir-opt for this project: its dialects, the upstream ones that lowering goes
// through, and every pass by name. Reads a file or standard input, prints the
// result; an error is one diagnostic with its location, and exit status 1.
//
//===----------------------------------------------------------------------===//

#include "dialects/Mixle/Mixle.h"
#ifdef MIXLE_HAS_DIST_DIALECT
#include "dialects/Dist/Dist.h"
#endif
#ifdef MIXLE_HAS_EXEC_DIALECT
#include "dialects/Exec/Exec.h"
#endif
#ifdef MIXLE_HAS_PIPELINE
#include "compiler/Codegen/Codegen.h"
#include "compiler/Pipeline.h"
#endif

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

static void registerDialects(DialectRegistry &registry) {
  registry.insert<::mlir::mixle::MixleDialect>();
#ifdef MIXLE_HAS_DIST_DIALECT
  registry.insert<dist::DistDialect>();
#endif
#ifdef MIXLE_HAS_EXEC_DIALECT
  registry.insert<exec::ExecDialect>();
#endif
  registry.insert<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                  vector::VectorDialect>();
}

/// Upstream passes that clean up; the project's own register themselves, one
/// function per library.
static void registerPasses() {
#ifdef MIXLE_HAS_PIPELINE
  ::mlir::mixle::registerAllPasses();
#else
  registerCanonicalizerPass();
  registerCSEPass();
  registerSymbolDCEPass();
  registerStripDebugInfoPass();
#endif
}

int main(int argc, char **argv) {
  DialectRegistry registry;
  registerDialects(registry);
#ifdef MIXLE_HAS_PIPELINE
  ::mlir::mixle::registerCodegenDialects(registry);
#endif
  registerPasses();
  return asMainReturnCode(
      MlirOptMain(argc, argv, "mixle's IR: run passes\n", registry));
}
