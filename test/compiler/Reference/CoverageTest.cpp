//===- CoverageTest.cpp - No op is forgotten ------------------------------===//

#include "OpCases.h"

#include <set>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

/// What holds ops, and is none that computes.
static bool isStructure(StringRef name) {
  return name == "mixle.program" || name == "mixle.parameter" ||
         name == "mixle.entry" || name == "mixle.return";
}

TEST(Coverage, EveryOpHasAMeaningARuleACostAndACase) {
  std::set<std::string> tested;
  for (const OpCase &opCase : opCases()) {
    TestEntry test(opCase.arguments, opCase.op);
    ASSERT_TRUE(test.parsed()) << opCase.name;
    Operation *op = test.op();
    tested.insert(op->getName().getStringRef().str());
    EXPECT_TRUE(isa<PlacementOpInterface>(op)) << opCase.name;
    ASSERT_TRUE(isa<CostOpInterface>(op)) << opCase.name;
    EXPECT_GT(cast<CostOpInterface>(op).getCost().bytes, 0) << opCase.name;
  }
  MLIRContext context;
  context.loadDialect<MixleDialect>();
  size_t count = 0;
  for (RegisteredOperationName name :
       context.getRegisteredOperationsByDialect("mixle")) {
    if (isStructure(name.getStringRef()))
      continue;
    ++count;
    EXPECT_TRUE(canInterpret(name.getStringRef())) << name.getStringRef().str();
    EXPECT_TRUE(tested.count(name.getStringRef().str()))
        << name.getStringRef().str() << " has no case in OpCases.cpp";
  }
  EXPECT_EQ(count, tested.size());
}

/// Work of the contractions, counted by hand.
TEST(Coverage, CostsOfContractions) {
  auto flops = [](const std::string &arguments, const std::string &op) {
    TestEntry test(arguments, op);
    return cast<CostOpInterface>(test.op()).getCost().flops;
  };
  // 2 m n k; with a dynamic leading dimension per row.
  EXPECT_EQ(flops("%a: tensor<2x3xf32>, %b: tensor<3x4xf32>",
                  "%r = mixle.dot_general %a, %b contract = [1] x [0] : "
                  "tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>"),
            2 * 2 * 3 * 4);
  EXPECT_EQ(flops("%a: tensor<?x5x3xf32>, %b: tensor<3x4xf32>",
                  "%r = mixle.dot_general %a, %b contract = [2] x [0] : "
                  "tensor<?x5x3xf32>, tensor<3x4xf32> -> tensor<?x5x4xf32>"),
            2 * 5 * 3 * 4);
  EXPECT_EQ(flops("%a: tensor<3x4x!mixle.acc<f32>>, %x: tensor<?x5x3xf32>, "
                  "%y: tensor<?x5x4xf32>",
                  "%r = mixle.accumulate_dot @w %a, %x, %y data_dims = 2 block = 2 : "
                  "(tensor<3x4x!mixle.acc<f32>>, tensor<?x5x3xf32>, "
                  "tensor<?x5x4xf32>) -> tensor<3x4x!mixle.acc<f32>>"),
            2 * 5 * 3 * 4);
  EXPECT_EQ(flops("%a: tensor<3x4x!mixle.acc<f32>>, %x: tensor<6x3xf32>, "
                  "%y: tensor<6x4xf32>",
                  "%r = mixle.accumulate_dot @w %a, %x, %y data_dims = 1 block = 2 : "
                  "(tensor<3x4x!mixle.acc<f32>>, tensor<6x3xf32>, tensor<6x4xf32>) "
                  "-> tensor<3x4x!mixle.acc<f32>>"),
            2 * 6 * 3 * 4);
}
