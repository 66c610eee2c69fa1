//===- ValuesTest.cpp - What front-end programs compute -------------------===//
//
// By the reference interpreter, against values from outside: mixle's own
// forward pass, and arithmetic done by hand.
//
//===----------------------------------------------------------------------===//

#include "test/frontend/cpp/GoldenModel.h"

#include <cmath>
#include <functional>

using namespace mixle::frontend;
using namespace mixle::frontend::test;
using llvm::ArrayRef;

namespace {

/// Largest difference of logits [3, length, 31] from mixle's [3, 16, 31].
double differenceFromGolden(const Value &logits, const Value &expected,
                            int64_t length) {
  EXPECT_EQ(logits.size(), 3 * length * 31);
  double worst = 0;
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t i = 0; i < length * 31; ++i) {
      double difference = std::abs(logits.reals[row * length * 31 + i] -
                                   expected.reals[row * 16 * 31 + i]);
      if (!(difference <= worst)) // NaN too
        worst = difference;
    }
  return worst;
}

TEST(CausalLmValues, LogitsAndLossAreMixles) {
  Golden golden;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module =
      buildModel(golden.config, Precision::F64, std::nullopt, context);
  auto values = golden.weights;
  values["tokens"] = golden.tokens("inputs", 16);
  auto logits = run(*module, "predict", values);
  ASSERT_EQ(logits.size(), 1u);
  // Logits are up to 50 and sums of 32 terms: 1e-10 is mixle's own tolerance.
  EXPECT_LE(differenceFromGolden(logits[0], golden.expected["logits"], 16),
            1e-10);

  values["labels"] = golden.tokens("targets", 16);
  values["labels"].integers[5] = -100;
  values["loss"] = reals({}, {0.5});
  values["count"] = integers({}, {2});
  auto partial = run(*module, "loss", values);
  values["labels"] = golden.tokens("targets", 16);
  auto whole = run(*module, "loss", values);
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_NEAR(whole[0].reals[0] - 0.5, golden.json["loss_sum"].get<double>(),
              1e-10 * 954);
  EXPECT_EQ(whole[1].integers[0], 2 + 48);
  // One label fewer: its loss and its count are gone.
  EXPECT_LT(partial[0].reals[0], whole[0].reals[0]);
  EXPECT_EQ(partial[1].integers[0], 2 + 47);
}

TEST(CausalLmValues, ShorterSequencesUseThePrefixOfThePositions) {
  Golden golden;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = buildModel(golden.config, Precision::F64, 9, context);
  auto values = golden.weights;
  values["tokens"] = golden.tokens("inputs", 9);
  auto logits = run(*module, "predict", values);
  ASSERT_EQ(logits.size(), 1u);
  // Attention is causal: later tokens change nothing.
  EXPECT_LE(differenceFromGolden(logits[0], golden.expected["logits"], 9),
            1e-10);
}

/// The matrix [rows, columns] with rows and columns exchanged.
Value transposed(const Value &matrix) {
  int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  Value result = Value::zeros({columns, rows});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      result.reals[j * rows + i] = matrix.reals[i * columns + j];
  return result;
}

// With an exact gelu GPT-2 is CausalLM with transposed matrices, under other
// names: it gives mixle's logits too.
TEST(Gpt2Values, IsCausalLmWithTransposedWeights) {
  Golden golden;
  std::map<std::string, Value> values;
  auto copy = [&](const std::string &to, const std::string &from) {
    ASSERT_TRUE(golden.weights.count(from)) << from;
    values["transformer." + to] = golden.weights[from];
  };
  auto flip = [&](const std::string &to, const std::string &from) {
    ASSERT_TRUE(golden.weights.count(from)) << from;
    values["transformer." + to] = transposed(golden.weights[from]);
  };
  copy("wte.weight", "tok.weight");
  copy("wpe.weight", "pos.weight");
  for (std::string i : {"0", "1"}) {
    std::string h = "h." + i + ".", b = "blocks." + i + ".";
    for (std::string part : {"weight", "bias"}) {
      copy(h + "ln_1." + part, b + "ln1." + part);
      copy(h + "ln_2." + part, b + "ln2." + part);
    }
    copy(h + "attn.c_attn.bias", b + "attn.qkv.bias");
    copy(h + "attn.c_proj.bias", b + "attn.proj.bias");
    copy(h + "mlp.c_fc.bias", b + "mlp.0.bias");
    copy(h + "mlp.c_proj.bias", b + "mlp.2.bias");
    flip(h + "attn.c_attn.weight", b + "attn.qkv.weight");
    flip(h + "attn.c_proj.weight", b + "attn.proj.weight");
    flip(h + "mlp.c_fc.weight", b + "mlp.0.weight");
    flip(h + "mlp.c_proj.weight", b + "mlp.2.weight");
  }
  copy("ln_f.weight", "ln.weight");
  copy("ln_f.bias", "ln.bias");
  values["tokens"] = golden.tokens("inputs", 16);

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto logits = [&](const char *more) {
    auto module = buildModel(
        std::string(R"({"model_type": "gpt2", "vocab_size": 31, "n_embd": 32,
          "n_positions": 16, "n_layer": 2, "n_head": 4, "resid_pdrop": 0,
          "embd_pdrop": 0, "attn_pdrop": 0)") +
            more + "}",
        Precision::F64, std::nullopt, context);
    auto result = run(*module, "predict", values);
    return differenceFromGolden(result.at(0), golden.expected["logits"], 16);
  };
  EXPECT_LE(logits(R"(, "activation_function": "gelu")"), 1e-10);
  // The other choices are other functions.
  EXPECT_GT(logits(""), 1e-6);
  EXPECT_GT(logits(R"(, "activation_function": "gelu",
                      "scale_attn_weights": false)"),
            1e-3);
  EXPECT_GT(logits(R"(, "activation_function": "gelu",
                      "scale_attn_by_inverse_layer_idx": true)"),
            1e-3);
  values["lm_head.weight"] = values["transformer.wte.weight"];
  EXPECT_LE(logits(R"(, "activation_function": "gelu",
                      "tie_word_embeddings": false)"),
            1e-10);
  for (double &weight : values["lm_head.weight"].reals)
    weight *= 2;
  EXPECT_GT(logits(R"(, "activation_function": "gelu",
                      "tie_word_embeddings": false)"),
            1e-3);
}

/// The elements of make(x), x = [[1, 2, 3], [4, 5, 6]], as a list.
std::vector<double>
valuesOf(const std::function<Tensor(Graph &, Tensor)> &make) {
  GraphOptions options;
  options.precision = Precision::F64;
  Graph graph("p", options);
  graph.entry("f", {Data::rows({kRows, 3})},
              [&](ArrayRef<Tensor> in) -> std::vector<Output> {
                return {{make(graph, in[0]), "value"}};
              });
  auto results =
      run(graph.finish(), "f", {{"rows", reals({2, 3}, {1, 2, 3, 4, 5, 6})}});
  return results.at(0).reals;
}

using Numbers = std::vector<double>;

TEST(GraphValues, FunctionsPassTheirArgumentsOn) {
  auto values = [](std::function<Tensor(Graph &, Tensor)> make) {
    return valuesOf(make);
  };
  EXPECT_EQ(values([](Graph &, Tensor x) { return x - 1; }),
            (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values([](Graph &g, Tensor x) {
              return constant(g, {3}, {10, 20, 30}) - x;
            }),
            (Numbers{9, 18, 27, 6, 15, 24}));
  EXPECT_EQ(values([](Graph &, Tensor x) { return slice(x, 1, 1, 3); }),
            (Numbers{2, 3, 5, 6}));
  EXPECT_EQ(values([](Graph &, Tensor x) { return pad(x, -1, 1, 0); }),
            (Numbers{0, 1, 2, 3, 0, 4, 5, 6}));
  EXPECT_EQ(values([](Graph &, Tensor x) {
              return concat({x, -x}, 1);
            }),
            (Numbers{1, 2, 3, -1, -2, -3, 4, 5, 6, -4, -5, -6}));
  EXPECT_EQ(values([](Graph &, Tensor x) { return reduceSum(x, {1}); }),
            (Numbers{6, 15}));
  EXPECT_EQ(values([](Graph &, Tensor x) { return reduceMax(x, {-1}); }),
            (Numbers{3, 6}));
  EXPECT_EQ(values([](Graph &g, Tensor x) {
              return matmul(x, constant(g, {3, 2}, {1, 2, 3, 4, 5, 6}));
            }),
            (Numbers{22, 28, 49, 64}));
  EXPECT_EQ(
      values([](Graph &g, Tensor x) {
        return matmulTransposed(x, constant(g, {2, 3}, {1, 3, 5, 2, 4, 6}));
      }),
      (Numbers{22, 28, 49, 64}));
  EXPECT_EQ(values([](Graph &g, Tensor x) {
              return embedding(constant(g, {7, 1}, {0, 10, 20, 30, 40, 50, 60}),
                               toInt(x));
            }),
            (Numbers{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(values([](Graph &g, Tensor x) {
              return toFloat(broadcastLike(iota(g, {3}, 0), x));
            }),
            (Numbers{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(values([](Graph &g, Tensor x) {
              Tensor three = broadcastLike(constant(g, 3), x);
              return select(compare("gt", x, three), x, three);
            }),
            (Numbers{3, 3, 3, 4, 5, 6}));
  EXPECT_EQ(values([](Graph &, Tensor x) {
              return dotGeneral(x, x, {1}, {1}, {0}, {0});
            }),
            (Numbers{14, 77}));
  EXPECT_EQ(values([](Graph &, Tensor x) {
              return transpose(reshape(x, {kRows, 3, 1}), {0, 2, 1});
            }),
            (Numbers{1, 2, 3, 4, 5, 6}));
}

} // namespace
