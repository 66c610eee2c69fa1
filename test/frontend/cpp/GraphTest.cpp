//===- GraphTest.cpp - What the Graph builder builds ----------------------===//

#include "frontend/cpp/Graph.h"

#include "dialects/Mixle/Mixle.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mixle::frontend;
namespace ir = mlir::mixle;
using llvm::ArrayRef;

namespace {

ir::ProgramOp programOf(mlir::ModuleOp module) {
  return *module.getOps<ir::ProgramOp>().begin();
}

/// "role" or "parameter=name" of every argument.
std::vector<std::string> argumentsOf(ir::EntryOp entry) {
  std::vector<std::string> result;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    std::string text =
        entry.getArgAttrOfType<mlir::StringAttr>(i, ir::kRoleAttr)
            .getValue()
            .str();
    if (auto of =
            entry.getArgAttrOfType<mlir::FlatSymbolRefAttr>(i, ir::kOfAttr))
      text += "=" + of.getValue().str();
    result.push_back(text);
  }
  return result;
}

Shape shapeOf(const Tensor &tensor) {
  return Shape(tensor.shape().begin(), tensor.shape().end());
}

std::string print(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

using Strings = std::vector<std::string>;

TEST(Graph, ParametersBecomeArgumentsInDeclarationOrder) {
  Graph graph("p");
  Tensor a = graph.parameter("a", {3}, Init::constant(0));
  Tensor b = graph.parameter("b", {3}, Init::constant(0));
  Tensor c = graph.parameter("c", {3}, Init::constant(0));
  Tensor d = graph.parameter("d", {3}, Init::constant(0));
  graph.entry("used_backwards", {Data::rows({kRows, 3})},
              [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                return {{((in[0] * d) + c) - a, "value"}};
              });
  // Parameters that appear only as results are arguments too.
  graph.entry("only_result", {Data::rows({kRows, 3})},
              [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                return {{in[0] + d, "value"}, {b, "parameter"}};
              });
  auto program = programOf(graph.finish());
  EXPECT_EQ(argumentsOf(program.lookupSymbol<ir::EntryOp>("used_backwards")),
            (Strings{"rows", "parameter=a", "parameter=c", "parameter=d"}));
  EXPECT_EQ(argumentsOf(program.lookupSymbol<ir::EntryOp>("only_result")),
            (Strings{"rows", "parameter=b", "parameter=d"}));
}

TEST(Graph, LossEntryHasAccumulatorsBehindTheData) {
  Graph graph("p");
  Tensor w = graph.parameter("w", {4, 3}, Init::normal(0, 1));
  graph.lossEntry(
      {Data::rows({kRows, 4}), Data::labels({kRows})},
      [&](ArrayRef<Tensor> in) -> Loss {
        EXPECT_EQ(in.size(), 2u);
        return {softmaxCrossEntropy(matmul(in[0], w), in[1]), in[1]};
      });
  auto loss = programOf(graph.finish()).lookupSymbol<ir::EntryOp>("loss");
  EXPECT_EQ(argumentsOf(loss),
            (Strings{"rows", "labels", "loss", "count", "parameter=w"}));
  ASSERT_EQ(loss.getNumResults(), 2u);
  auto exact = mlir::cast<mlir::RankedTensorType>(loss.getResultTypes()[0]);
  EXPECT_TRUE(mlir::isa<ir::ExactType>(exact.getElementType()));
  EXPECT_EQ(loss.getResultAttrOfType<mlir::StringAttr>(0, ir::kRoleAttr),
            "loss");
  EXPECT_EQ(loss.getResultAttrOfType<mlir::StringAttr>(1, ir::kRoleAttr),
            "count");
}

TEST(Graph, RowsCountWithoutLabels) {
  Graph graph("regression");
  Tensor w = graph.parameter("w", {4}, Init::normal(0, 1));
  graph.lossEntry({Data::rows({kRows, 5})}, [&](ArrayRef<Tensor> in) -> Loss {
    Tensor prediction = matmul(slice(in[0], 1, 0, 4), w);
    Tensor error = prediction - reshape(slice(in[0], 1, 4, 5), {kRows});
    return {error * error};
  });
  auto loss = programOf(graph.finish()).lookupSymbol<ir::EntryOp>("loss");
  auto counts = loss.getBody().getOps<ir::CountLabelsOp>();
  ASSERT_FALSE(counts.empty());
  auto labels = (*counts.begin()).getLabels();
  EXPECT_EQ(labels.getType().getShape(),
            ArrayRef<int64_t>({mlir::ShapedType::kDynamic}));
  EXPECT_TRUE(labels.getDefiningOp<ir::BroadcastOp>());
}

TEST(Graph, ParameterAttributes) {
  GraphOptions options;
  options.precision = Precision::F64;
  options.numerics = "fast";
  Graph graph("p", options);
  ParameterOptions parameter;
  parameter.factors = {"", "heads"};
  parameter.fileShape = Shape{6};
  parameter.decay = false;
  parameter.trained = false;
  graph.parameter("w", {3, 2}, Init::uniform(-0.5, 0.25), parameter);
  graph.granules("tokens", 32);
  graph.fileConstant("extra", 2.0);
  graph.fileConstant("scalar", 3.0);
  graph.config("sequence", 7);
  graph.entry("f", {Data::rows({kRows, 1})},
              [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                return {{in[0], "value"}};
              });
  std::string text = print(graph.finish());
  for (const char *part :
       {"numerics = \"fast\"", "tokens = 32 : i64", "sequence = 7 : i64",
        "tensor<3x2xf64> factors = [\"\", \"heads\"] file_shape = [6]",
        "high = 2.500000e-01 : f64", "low = -5.000000e-01 : f64",
        "decay = false", "trained = false",
        "extra = dense<2.000000e+00> : tensor<f64>",
        "scalar = dense<3.000000e+00> : tensor<f64>"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(Graph, PrintedProgramsParseAgain) {
  Graph graph("p");
  Tensor w = graph.parameter("a.b", {4, 3}, Init::normal(0, 1));
  graph.entry("f", {Data::rows({kRows, 4})},
              [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                return {{matmul(in[0], w), "value"}};
              });
  std::string text = print(graph.finish());
  mlir::MLIRContext context;
  context.getOrLoadDialect<ir::MixleDialect>();
  auto parsed = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(print(*parsed), text);
}

TEST(Graph, TakesACallersModuleOrContext) {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  auto body = [](ArrayRef<Tensor> in) -> std::vector<Output> {
    return {{in[0], "value"}};
  };
  for (const char *name : {"first", "second"}) {
    Graph graph(*module, name);
    graph.entry("f", {Data::rows({kRows})}, body);
    EXPECT_EQ(graph.finish(), *module);
  }
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
  EXPECT_TRUE(module->lookupSymbol("first"));
  EXPECT_TRUE(module->lookupSymbol("second"));

  mlir::OwningOpRef<mlir::ModuleOp> taken;
  {
    Graph graph(context, "third");
    graph.entry("f", {Data::rows({kRows})}, body);
    taken = graph.take();
  }
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*taken)));
  EXPECT_TRUE(taken->lookupSymbol("third"));
}

TEST(Graph, ScopesNameLocations) {
  Graph graph("p");
  mlir::Operation *op = nullptr;
  graph.entry("f", {Data::rows({kRows})},
              [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                Graph::Scope outer(graph, "h.0");
                Graph::Scope inner(graph, "attn");
                Tensor result = exp(in[0]);
                op = graph.resolve(result, "test").getDefiningOp();
                return {{result, "value"}};
              });
  EXPECT_EQ(mlir::cast<mlir::NameLoc>(op->getLoc()).getName(), "h.0.attn");
}

TEST(Graph, AnEntryThatThrowsLeavesTheGraphAsItWas) {
  Graph graph("p");
  Tensor w = graph.parameter("w", {3}, Init::constant(0));
  auto build = [&](bool broken) {
    graph.entry("f", {Data::rows({kRows, 3})},
                [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                  Tensor sum = in[0] + w;
                  if (broken)
                    sum = sum + reduceSum(sum, {1});
                  return {{sum, "value"}};
                });
  };
  EXPECT_THROW(build(true), FrontendError);
  EXPECT_THROW(graph.finish(), FrontendError) << "the broken entry is gone";
  build(false);
  auto entry = programOf(graph.finish()).lookupSymbol<ir::EntryOp>("f");
  EXPECT_EQ(argumentsOf(entry), (Strings{"rows", "parameter=w"}));
}

TEST(Graph, EveryFunctionMakesAVerifiedOpOfItsShape) {
  for (Precision precision : {Precision::F32, Precision::F64}) {
    GraphOptions options;
    options.precision = precision;
    Graph graph("p", options);
    Tensor table = graph.parameter("table", {11, 4}, Init::normal(0, 1));
    Tensor square = graph.parameter("square", {4, 4}, Init::normal(0, 1));
    Tensor gain = graph.parameter("gain", {4}, Init::constant(1));
    graph.entry(
        "f", {Data::rows({kRows, 6, 4}), Data::tokens({kRows, 6})},
        [&](ArrayRef<Tensor> in) -> std::vector<Output> {
          Tensor x = in[0], ids = in[1];
          const Shape full = {kRows, 6, 4}, rows = {kRows, 6};
          for (Tensor t : {x + x,
                           x - x,
                           x * x,
                           x / x,
                           maximum(x, x),
                           minimum(x, x),
                           x + 1,
                           x - 1,
                           x * 2,
                           x / 2,
                           1 + x,
                           2 * x,
                           -x,
                           neg(x),
                           exp(x),
                           log(x),
                           tanh(x),
                           erf(x),
                           sin(x),
                           cos(x),
                           sqrt(x),
                           abs(x),
                           silu(x),
                           gelu(x),
                           gelu(x, true),
                           x + gain,
                           gain * x,
                           embedding(table, ids),
                           layerNorm(x, gain, gain, 1e-5),
                           rmsNorm(x, gain, 1e-6),
                           matmul(x, square),
                           matmulTransposed(x, square),
                           broadcastLike(gain, x),
                           broadcastLike(ids, x, {0, 1}),
                           select(compare("lt", x, x), x, x),
                           toFloat(x),
                           toInt(x)})
            EXPECT_EQ(shapeOf(t), full);
          for (Tensor t : {reduceSum(x, {-1}), reduceMax(x, {2}), logsumexp(x),
                           softmaxCrossEntropy(x, ids), ids + 1, ids * ids,
                           matmul(x, gain), toFloat(ids),
                           reshape(slice(x, -1, 1, 2), {kRows, -1}),
                           broadcastLike(iota(graph, {6}, 0), ids)})
            EXPECT_EQ(shapeOf(t), rows);
          EXPECT_EQ(shapeOf(reduceSum(x, {2, 1})), (Shape{kRows}));
          EXPECT_EQ(shapeOf(transpose(x, {0, 2, 1})), (Shape{kRows, 4, 6}));
          EXPECT_EQ(shapeOf(slice(x, 1, 2, 5)), (Shape{kRows, 3, 4}));
          EXPECT_EQ(shapeOf(pad(x, 1, 1, 2)), (Shape{kRows, 9, 4}));
          EXPECT_EQ(shapeOf(concat({x, x, x}, -2)), (Shape{kRows, 18, 4}));
          EXPECT_EQ(shapeOf(reshape(x, {kRows, 2, -1})), (Shape{kRows, 2, 12}));
          EXPECT_EQ(shapeOf(dotGeneral(x, x, {2}, {2}, {0}, {0})),
                    (Shape{kRows, 6, 6}));
          EXPECT_EQ(shapeOf(dotGeneral(x, square, {2}, {1})), full);
          Tensor qkv = reshape(pad(x, 2, 8, 12), {kRows, 6, 3, 2, 4});
          EXPECT_EQ(shapeOf(attention(qkv, 0.5, true)),
                    (Shape{kRows, 6, 2, 4}));
          Tensor grouped = reshape(qkv, {kRows, 6, 2, 3, 4});
          EXPECT_EQ(shapeOf(groupedAttention(grouped, 0.5, true)),
                    (Shape{kRows, 6, 2, 1, 4}));
          RotaryTables tables = rotaryTables(graph, 6, {1, 0.5}, 2);
          EXPECT_EQ(shapeOf(tables.sine), (Shape{6, 2}));
          EXPECT_EQ(tables.cosine.type().getElementType(), graph.floatType());
          EXPECT_EQ(shapeOf(rotary(grouped, tables, 2)), shapeOf(grouped));
          EXPECT_EQ(shapeOf(constant(graph, 2)), Shape{});
          EXPECT_EQ(shapeOf(constant(graph, {2, 2}, {1, 2, 3, 4})),
                    (Shape{2, 2}));
          EXPECT_EQ(shapeOf(intConstant(graph, {3}, {7})), Shape{3});
          EXPECT_EQ(shapeOf(iota(graph, {3, 5}, -1)), (Shape{3, 5}));
          EXPECT_TRUE(
              compare("ge", ids, ids).type().getElementType().isInteger(1));
          EXPECT_TRUE(toInt(x).type().getElementType().isInteger(32));
          EXPECT_EQ(exp(x).type().getElementType(), graph.floatType());
          return {{x, "value"}};
        });
    EXPECT_NO_THROW(graph.finish());
  }
}

} // namespace
