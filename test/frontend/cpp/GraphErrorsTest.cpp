//===- GraphErrorsTest.cpp - Mistakes in graphs are named -----------------===//

#include "frontend/cpp/Graph.h"

#include "gtest/gtest.h"

#include <functional>
#include <limits>

using namespace mixle::frontend;
using llvm::ArrayRef;

namespace {

/// The message of the FrontendError that `action` throws, or "no error".
std::string messageOf(const std::function<void()> &action) {
  try {
    action();
  } catch (const FrontendError &error) {
    return error.what();
  }
  return "no error";
}

/// Runs `make` on x [rows, 6, 4], ids [rows, 6] in entry @f, scope "block".
std::string inEntry(const std::function<void(Graph &, Tensor, Tensor)> &make) {
  Graph graph("p");
  return messageOf([&] {
    graph.entry("f", {Data::rows({kRows, 6, 4}), Data::tokens({kRows, 6})},
                [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                  Graph::Scope scope(graph, "block");
                  make(graph, in[0], in[1]);
                  return {{in[0], "value"}};
                });
  });
}

/// Checks that a message has all `parts`, on one line.
void expectParts(const std::string &message,
                 std::initializer_list<const char *> parts) {
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const char *part : parts)
    EXPECT_NE(message.find(part), std::string::npos)
        << "no '" << part << "' in: " << message;
}

#define EXPECT_OP_ERROR(EXPRESSION, ...)                                       \
  expectParts(inEntry([](Graph &graph, Tensor x, Tensor ids) {                 \
                (void)graph;                                                   \
                (void)x;                                                       \
                (void)ids;                                                     \
                (void)(EXPRESSION);                                            \
              }),                                                              \
              {"(in @f, block)", __VA_ARGS__})

TEST(GraphErrors, OpsNameTheCallAndTheShapes) {
  EXPECT_OP_ERROR(x + reduceSum(x, {2}), "add", "tensor<?x6x4xf32>",
                  "tensor<?x6xf32>", "broadcastLike");
  EXPECT_OP_ERROR(x * ids, "mul", "element types", "toFloat");
  EXPECT_OP_ERROR(ids + 0.5, "constant", "whole", "tensor<?x6xi32>");
  EXPECT_OP_ERROR(exp(ids), "exp", "tensor<?x6xi32>");
  EXPECT_OP_ERROR(compare("less", x, x), "compare", "'less'", "eq, ne");
  EXPECT_OP_ERROR(select(x, x, x), "select", "i1");
  EXPECT_OP_ERROR(matmul(x, constant(graph, {5, 2}, {0})), "matmul",
                  "tensor<?x6x4xf32>", "tensor<5x2xf32>", "first");
  EXPECT_OP_ERROR(matmulTransposed(x, constant(graph, {4, 2}, {0})),
                  "matmulTransposed", "tensor<4x2xf32>", "last");
  EXPECT_OP_ERROR(dotGeneral(x, x, {2}, {1}), "dotGeneral", "dimension 2",
                  "dimension 1");
  EXPECT_OP_ERROR(dotGeneral(x, x, {7}, {1}), "dotGeneral", "range");
  EXPECT_OP_ERROR(broadcastLike(ids, x), "broadcastLike", "dimension 0");
  EXPECT_OP_ERROR(broadcastLike(ids, x, {1, 0}), "broadcastLike");
  EXPECT_OP_ERROR(reshape(x, {kRows, 23}), "reshape", "tensor<?x23xf32>");
  EXPECT_OP_ERROR(reshape(x, {kRows, 7, -1}), "reshape", "divide by 7");
  EXPECT_OP_ERROR(reshape(x, {kRows, -1, -1}), "reshape", "one may be -1");
  EXPECT_OP_ERROR(transpose(x, {0, 1}), "transpose", "permutation");
  EXPECT_OP_ERROR(slice(x, 1, 2, 7), "slice", "[2, 7)");
  EXPECT_OP_ERROR(slice(x, 0, 0, 1), "slice", "static dimension");
  EXPECT_OP_ERROR(pad(x, 1, -1, 0), "pad");
  EXPECT_OP_ERROR(concat({x, ids}, 1), "concat", "tensor<?x6xi32>");
  EXPECT_OP_ERROR(concat({x, x}, 3), "concat", "dimension 3");
  EXPECT_OP_ERROR(reduceSum(x, {3}), "reduceSum", "range");
  EXPECT_OP_ERROR(reduceSum(ids, {1}), "reduceSum", "floating-point");
  EXPECT_OP_ERROR(embedding(x, x), "embedding", "integer ids");
  EXPECT_OP_ERROR(layerNorm(x, x, x, 1e-5), "layerNorm", "last dimension");
  EXPECT_OP_ERROR(rmsNorm(x, ids, 1e-5), "rmsNorm", "floating-point");
  EXPECT_OP_ERROR(attention(x, 1, true), "attention", "3, heads");
  EXPECT_OP_ERROR(groupedAttention(x, 1, true), "groupedAttention", "queries + 2");
  EXPECT_OP_ERROR(rotaryTables(graph, 0, {1}), "rotaryTables", "positions");
  EXPECT_OP_ERROR(rotary(x, rotaryTables(graph, 77, {1})), "rotary", "(O1)");
  EXPECT_OP_ERROR(softmaxCrossEntropy(reduceSum(x, {1}), ids),
                  "softmaxCrossEntropy", "logits [..., V]");
  EXPECT_OP_ERROR(constant(graph, {2, 2}, {1, 2, 3}), "constant", "3 values",
                  "4 elements");
  EXPECT_OP_ERROR(iota(graph, {3}, 1), "iota");
  EXPECT_OP_ERROR(x.dim(3), "dim", "dimension 3");
}

TEST(GraphErrors, HandlesAreChecked) {
  EXPECT_OP_ERROR(x + graph.parameter("w", {3}, Init::constant(0)), "add",
                  "tensor<3xf32>");
  expectParts(messageOf([] { exp(Tensor()); }), {"empty Tensor"});
  Graph graph("p"), other("q");
  Tensor w = graph.parameter("w", {2}, Init::constant(0));
  Tensor foreign = other.parameter("w", {2}, Init::constant(0));
  expectParts(messageOf([&] { exp(w); }), {"exp", "inside the body"});
  expectParts(messageOf([&] { constant(graph, 1); }),
              {"constant", "inside the body"});
  Tensor kept;
  graph.entry("f", {Data::rows({kRows, 2})},
              [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                kept = exp(in[0]);
                return {{kept + w, "value"}};
              });
  auto useIn = [&](Tensor tensor) {
    return messageOf([&] {
      graph.entry("g", {Data::rows({kRows, 2})},
                  [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                    return {{in[0] + tensor, "value"}};
                  });
    });
  };
  expectParts(useIn(kept), {"add (in @g)", "another entry"});
  expectParts(useIn(foreign), {"another graph"});
}

TEST(GraphErrors, Parameters) {
  Graph graph("p");
  graph.parameter("taken", {2}, Init::constant(0));
  auto declare = [&](const char *name, Shape shape,
                     Init init = Init::constant(0),
                     ParameterOptions options = {}) {
    return messageOf([&] { graph.parameter(name, shape, init, options); });
  };
  ParameterOptions twoFactors, typo, file;
  twoFactors.factors = {"", ""};
  typo.factors = {"head"};
  file.fileShape = Shape{3};
  expectParts(declare("", {2}), {"parameter", "empty"});
  expectParts(declare("taken", {2}), {"'taken'", "is taken"});
  expectParts(declare("w", {2, 0}), {"'w'", "[2, 0]", "positive"});
  expectParts(declare("w", {kRows, 2}), {"[rows, 2]", "positive"});
  expectParts(declare("w", {int64_t(1) << 40, int64_t(1) << 40}), {"2^62"});
  expectParts(declare("w", {2}, Init::constant(0), twoFactors),
              {"2 factor names", "[2]"});
  expectParts(declare("w", {2}, Init::constant(0), typo),
              {"'head'", "heads", "vocabulary"});
  expectParts(declare("w", {2}, Init::constant(0), file),
              {"file shape [3]", "[2]"});
  expectParts(declare("w", {2}, Init::normal(0, -1)), {"'w'", "-1"});
  expectParts(declare("w", {2}, Init::uniform(1, 0)), {"[1, 0)"});
  expectParts(declare("w", {2},
                      Init::constant(std::numeric_limits<double>::quiet_NaN())),
              {"not finite"});
  EXPECT_EQ(declare("w", {2}), "no error");
}

TEST(GraphErrors, EntriesAndPrograms) {
  Graph graph("p");
  graph.parameter("w", {2}, Init::constant(0));
  auto identity = [](ArrayRef<Tensor> in) -> std::vector<Output> {
    return {{in[0], "value"}};
  };
  auto entry = [&](const char *name, std::vector<Data> data) {
    return messageOf([&] { graph.entry(name, data, identity); });
  };
  expectParts(messageOf([&] { graph.finish(); }), {"'p'", "no entry"});
  expectParts(entry("w", {Data::rows({kRows})}), {"'w'", "taken"});
  expectParts(entry("f", {Data::rows({3, kRows})}), {"'rows'", "kRows"});
  expectParts(entry("f", {Data::rows({kRows, 0})}), {"positive"});
  expectParts(entry("f", {{"x", "features", {kRows}}}),
              {"'features'", "row_weights"});
  expectParts(entry("f", {Data::rows({kRows}), Data::rows({kRows})}),
              {"'rows'", "of its own"});
  expectParts(messageOf([&] {
                graph.entry("f", {Data::rows({kRows})},
                            [&](ArrayRef<Tensor>) -> std::vector<Output> {
                              return {};
                            });
              }),
              {"'f'", "returns nothing"});
  expectParts(messageOf([&] {
                graph.entry("f", {Data::rows({kRows})},
                            [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                              return {{in[0], "a"}, {in[0], "a"}};
                            });
              }),
              {"role 'a'", "twice"});
  expectParts(messageOf([&] {
                graph.entry("f", {Data::rows({kRows})},
                            [&](ArrayRef<Tensor> in) {
                              graph.entry("g", {Data::rows({kRows})}, identity);
                              return identity(in);
                            });
              }),
              {"'g'", "inside entry 'f'"});
  expectParts(messageOf([&] {
                graph.entry("f", {Data::rows({kRows})},
                            [&](ArrayRef<Tensor> in) {
                              graph.finish();
                              return identity(in);
                            });
              }),
              {"finish", "'f' is still being built"});
  EXPECT_EQ(entry("f", {Data::rows({kRows})}), "no error");
  expectParts(messageOf([&] { graph.take(); }), {"take", "context"});
  expectParts(messageOf([&] { graph.granules("heads", 0); }), {"'heads' = 0"});
  graph.config("sequence", 3);
  expectParts(messageOf([&] { graph.config("sequence", 4); }), {"'sequence'"});
  expectParts(messageOf([&] { graph.fileConstant("w", 1); }), {"taken"});
  graph.fileConstant("c", 1);
  expectParts(messageOf([&] { graph.fileConstant("c", 2); }),
              {"'c'", "already given"});
  expectParts(
      messageOf([&] {
        graph.fileConstant("d", std::numeric_limits<double>::infinity());
      }),
      {"'d'", "not finite"});
}

TEST(GraphErrors, Losses) {
  Graph graph("p");
  auto loss = [&](std::function<Loss(Tensor, Tensor)> make) {
    return messageOf([&] {
      graph.lossEntry({Data::rows({kRows, 2}), Data::labels({kRows})},
                      [&](ArrayRef<Tensor> in) { return make(in[0], in[1]); });
    });
  };
  expectParts(loss([](Tensor, Tensor y) {
                return Loss{y, y};
              }),
              {"lossEntry", "floating-point"});
  expectParts(loss([](Tensor x, Tensor y) {
                return Loss{x, y};
              }),
              {"labels of shape [rows]", "[rows, 2]"});
  expectParts(loss([](Tensor x, Tensor) {
                return Loss{x, x};
              }),
              {"must be integers"});
  GraphOptions options;
  options.kind = "estimation";
  Graph estimation("e", options);
  expectParts(messageOf([&] {
                estimation.lossEntry(
                    {Data::rows({kRows})},
                    [&](ArrayRef<Tensor> in) -> Loss { return {in[0]}; });
              }),
              {"'estimation'", "no loss"});
  options.kind = "training!";
  expectParts(messageOf([&] { Graph bad("b", options); }), {"'training!'"});
  options.kind = "training";
  options.numerics = "exact";
  expectParts(messageOf([&] { Graph bad("b", options); }), {"'exact'", "fast"});
  expectParts(messageOf([&] { Graph bad(""); }), {"name"});
}

} // namespace
