//===- GradientsTest.cpp - Gradients of a whole model ---------------------===//
//
// mixle's own backward pass against the graph passes on the program that the
// front end makes: once as plain gradients, once as accumulators.
//
//===----------------------------------------------------------------------===//

#include "compiler/Mixle/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "test/frontend/cpp/GoldenModel.h"

#include <cmath>

using namespace mixle::frontend;
using namespace mixle::frontend::test;

namespace {

/// Compares every result of `role` with mixle's gradient of its parameter.
void expectGradients(mlir::ModuleOp module, llvm::StringRef name,
                     llvm::StringRef role, const std::vector<Value> &results,
                     const std::map<std::string, Value> &expected) {
  ir::ProgramOp program = *module.getOps<ir::ProgramOp>().begin();
  auto entry = program.lookupSymbol<ir::EntryOp>(name);
  ASSERT_EQ(results.size(), entry.getNumResults());
  size_t compared = 0;
  for (unsigned i = 0; i < results.size(); ++i) {
    if (ir::resultRole(entry, i) != role)
      continue;
    std::string parameter =
        entry.getResultAttrOfType<mlir::FlatSymbolRefAttr>(i, ir::kOfAttr)
            .getValue()
            .str();
    auto found = expected.find("grad." + parameter);
    ASSERT_TRUE(found != expected.end()) << parameter;
    ASSERT_EQ(results[i].size(), found->second.size()) << parameter;
    // Sums of up to 48 terms of the size of the largest element.
    double largest = 0, worst = 0;
    for (double value : found->second.reals)
      largest = std::max(largest, std::abs(value));
    for (size_t k = 0; k < found->second.reals.size(); ++k) {
      double difference =
          std::abs(results[i].reals[k] - found->second.reals[k]);
      if (!(difference <= worst)) // NaN too
        worst = difference;
    }
    EXPECT_LE(worst, 1e-11 * std::max(largest, 1.0)) << parameter;
    ++compared;
  }
  EXPECT_EQ(compared, 28u) << "2 embeddings, 2 blocks of 12, the last norm";
}

std::map<std::string, Value> argumentsOf(Golden &golden) {
  auto values = golden.weights;
  values["tokens"] = golden.tokens("inputs", 16);
  values["labels"] = golden.tokens("targets", 16);
  values["loss"] = reals({}, {0});
  values["count"] = integers({}, {0});
  return values;
}

TEST(CausalLmGradients, AreMixles) {
  Golden golden;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module =
      buildModel(golden.config, Precision::F64, std::nullopt, context);
  mlir::PassManager passes(&context);
  passes.addNestedPass<ir::ProgramOp>(ir::createDifferentiate());
  ASSERT_TRUE(mlir::succeeded(passes.run(*module)));
  auto results = run(*module, "gradients", argumentsOf(golden));
  expectGradients(*module, "gradients", "gradient", results, golden.expected);
}

TEST(CausalLmGradients, AreSumsOverData) {
  Golden golden;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module =
      buildModel(golden.config, Precision::F64, std::nullopt, context);
  mlir::PassManager passes(&context);
  passes.addNestedPass<ir::ProgramOp>(ir::createDifferentiate());
  passes.addNestedPass<ir::ProgramOp>(ir::createDecompose());
  passes.addNestedPass<ir::ProgramOp>(ir::createFormAccumulators());
  passes.addNestedPass<ir::ProgramOp>(ir::createAssignGranules());
  ASSERT_TRUE(mlir::succeeded(passes.run(*module)));
  auto results = run(*module, "accumulate", argumentsOf(golden));
  expectGradients(*module, "accumulate", "accumulator", results,
                  golden.expected);
}

} // namespace
