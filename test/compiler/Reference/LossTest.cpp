//===- LossTest.cpp - Losses and attention against written-out formulas ---===//

#include "Support.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The loss of one row of logits, by the composite op.
static double lossOf(std::vector<double> logits, int64_t label) {
  auto n = static_cast<int64_t>(logits.size());
  std::string t = "tensor<1x" + std::to_string(n) + "xf64>";
  TestEntry test("%x: " + t + ", %y: tensor<1xi32>",
                 "%r = mixle.softmax_cross_entropy %x, %y : (" + t +
                     ", tensor<1xi32>) -> tensor<1xf64>");
  return test.run({reals({1, n}, std::move(logits)), integers({1}, {label})})[0]
      .reals[0];
}

/// d(loss)/d(logits) of one row, by the ops that gradients are made of.
static std::vector<double> lossGradient(std::vector<double> logits,
                                        int64_t label) {
  auto n = static_cast<int64_t>(logits.size());
  std::string t = "tensor<1x" + std::to_string(n) + "xf64>";
  TestEntry test(
      "%x: " + t + ", %y: tensor<1xi32>, %c: tensor<1xf64>",
      "%m = mixle.row_max %x : (" + t + ") -> tensor<1xf64>\n"
      "%s = mixle.row_sum_exp %x, %m : (" + t + ", tensor<1xf64>) -> tensor<1xf64>\n"
      "%r = mixle.softmax_cross_entropy_grad %x, %y, %m, %s, %c : (" + t +
          ", tensor<1xi32>, tensor<1xf64>, tensor<1xf64>, tensor<1xf64>) -> " + t);
  return test
      .run({reals({1, n}, std::move(logits)), integers({1}, {label}),
            reals({1}, {1})})[0]
      .reals;
}

// Five classes, which two ranks cannot share evenly: nothing but the five
// counts. 0.881682949 would count a pad column.
TEST(CrossEntropy, VocabularyThatDoesNotDivide) {
  std::vector<double> z{0.5, 1.0, 1.5, 2.0, 2.5};
  double sum = 0;
  for (double x : z)
    sum += std::exp(x);
  double loss = lossOf(z, 4);
  EXPECT_NEAR(loss, std::log(sum) - 2.5, 1e-15);
  EXPECT_NEAR(loss, 0.847101646, 1e-6);
  std::vector<double> gradient = lossGradient(z, 4);
  ASSERT_EQ(gradient.size(), 5u);
  double total = 0;
  for (double g : gradient)
    total += g;
  EXPECT_NEAR(total, 0, 1e-15);
}

// A padded vocabulary is padded with -inf: pad columns have no part in the sum
// and no gradient.
TEST(CrossEntropy, PaddedColumnsAreNeverVisible) {
  std::vector<double> padded{0.5, 1.0, 1.5, 2.0, 2.5, -kInfinity};
  EXPECT_EQ(lossOf(padded, 4), lossOf({0.5, 1.0, 1.5, 2.0, 2.5}, 4));
  EXPECT_EQ(lossGradient(padded, 4)[5], 0);
}

TEST(CrossEntropy, UnderflowedProbability) {
  std::vector<double> z{1000, 0, -1000, 0};
  EXPECT_EQ(lossOf(z, 3), 1000);
  EXPECT_EQ(lossOf(z, 2), 2000);
  EXPECT_EQ(lossGradient(z, 3), (std::vector<double>{1, 0, 0, -1}));
  EXPECT_EQ(lossGradient(z, 2), (std::vector<double>{1, 0, -1, 0}));
}

// The parts of the loss, each half of the vocabulary on a rank of its own.
TEST(CrossEntropy, DecomposedOverTwoRanks) {
  const std::string half = "tensor<1x2xf64>", row = "tensor<1xf64>";
  TestEntry local("%x: " + half + ", %m: " + row + ", %y: tensor<1xi32>",
                  "%l = mixle.row_max %x : (" + half + ") -> " + row +
                      "\n%s = mixle.row_sum_exp %x, %m : (" + half + ", " + row +
                      ") -> " + row + "\n%t = mixle.select_label %x, %y : (" +
                      half + ", tensor<1xi32>) -> " + row +
                      "\n%r = mixle.concat %l, %s, %t dim = 0 : " + row + ", " +
                      row + ", " + row + " -> tensor<3xf64>");
  // Label 3 is column 1 of the second half and outside the first.
  auto first = local.run({reals({1, 2}, {1000, 0}), reals({1}, {1000}), integers({1}, {2})});
  auto second = local.run({reals({1, 2}, {-1000, 0}), reals({1}, {1000}), integers({1}, {1})});
  EXPECT_EQ(std::max(first[0].reals[0], second[0].reals[0]), 1000);
  TestEntry end("%m: " + row + ", %s: " + row + ", %t: " + row + ", %y: tensor<1xi32>",
                "%r = mixle.cross_entropy %m, %s, %t, %y : " + row + ", tensor<1xi32>");
  auto loss = end.run({reals({1}, {1000}),
                       reals({1}, {first[0].reals[1] + second[0].reals[1]}),
                       reals({1}, {first[0].reals[2] + second[0].reals[2]}),
                       integers({1}, {3})});
  EXPECT_EQ(loss[0].reals[0], 1000);
}

TEST(CrossEntropy, IgnoredLabelsGiveNothing) {
  EXPECT_EQ(lossOf({1, 2, 3}, -100), 0);
  EXPECT_EQ(lossGradient({1, 2, 3}, -100), (std::vector<double>{0, 0, 0}));
  // Even where the row is no number.
  EXPECT_EQ(lossOf({std::nan(""), 2, 3}, -100), 0);
}

TEST(RowGranuleSums, OneColumnEachAndNothingPastTheEnd) {
  TestEntry test("%x: tensor<1x3xf64>, %m: tensor<1xf64>",
                 "%r = mixle.row_granule_sums %x, %m {granules = 3 : i64, "
                 "granule_size = 2 : i64} : (tensor<1x3xf64>, tensor<1xf64>) -> "
                 "tensor<1x3xf64>");
  auto r = test.run({reals({1, 3}, {2, 2, 2}), reals({1}, {2})});
  EXPECT_EQ(r[0].reals, (std::vector<double>{2, 1, 0}));
}

TEST(LogSumExp, EmptyMassIsMinusInfinity) {
  TestEntry test("%x: tensor<3x2xf64>",
                 "%r = mixle.logsumexp %x : (tensor<3x2xf64>) -> tensor<3xf64>");
  auto r = test.run({reals({3, 2}, {-kInfinity, -kInfinity, 0, -kInfinity, 1000, 1000})});
  EXPECT_EQ(r[0].reals[0], -kInfinity);
  EXPECT_EQ(r[0].reals[1], 0);
  EXPECT_DOUBLE_EQ(r[0].reals[2], 1000 + std::log(2.0));
}

TEST(SoftmaxScale, RowsFarFromEveryComponentHaveNoResponsibilities) {
  TestEntry test("%x: tensor<1x2xf64>, %m: tensor<1xf64>, %s: tensor<1xf64>, %c: tensor<1xf64>",
                 "%r = mixle.softmax_scale %x, %m, %s, %c : (tensor<1x2xf64>, "
                 "tensor<1xf64>, tensor<1xf64>, tensor<1xf64>) -> tensor<1x2xf64>");
  auto r = test.run({reals({1, 2}, {-kInfinity, -kInfinity}), reals({1}, {-kInfinity}),
                     reals({1}, {0}), reals({1}, {1})});
  EXPECT_EQ(r[0].reals, (std::vector<double>{0, 0}));
}

/// Attention by the definition: a matrix of scores, softmax of each row.
static std::vector<double> explicitAttention(const Tensor &qkv, double scale,
                                             bool causal) {
  int64_t rows = qkv.shape[0], tokens = qkv.shape[1], heads = qkv.shape[3],
          width = qkv.shape[4];
  auto x = [&](int64_t r, int64_t t, int64_t p, int64_t h, int64_t d) {
    return qkv.reals[(((r * tokens + t) * 3 + p) * heads + h) * width + d];
  };
  std::vector<double> output;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < heads; ++h) {
        std::vector<double> weight(tokens, 0.0);
        double total = 0;
        for (int64_t j = 0; j < tokens; ++j) {
          double score = 0;
          for (int64_t d = 0; d < width; ++d)
            score += x(r, t, 0, h, d) * x(r, j, 1, h, d);
          if (!causal || j <= t)
            weight[j] = std::exp(scale * score);
          total += weight[j];
        }
        for (int64_t d = 0; d < width; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < tokens; ++j)
            sum += weight[j] / total * x(r, j, 2, h, d);
          output.push_back(sum);
        }
      }
  return output;
}

TEST(Attention, MatchesAnExplicitSoftmax) {
  for (bool causal : {true, false}) {
    TestEntry test("%q: tensor<2x5x3x2x4xf64>",
                   std::string("%r:3 = mixle.attention %q scale = 0.5 causal = ") +
                       (causal ? "true" : "false") +
                       " : (tensor<2x5x3x2x4xf64>) -> (tensor<2x5x2x4xf64>, "
                       "tensor<2x2x5xi32>, tensor<2x2x5xf64>)");
    Tensor qkv = reals({2, 5, 3, 2, 4}, TestRandom(5).spread(240, -2, 2));
    auto r = test.run({qkv});
    expectNear(r[0], reals({2, 5, 2, 4}, explicitAttention(qkv, 0.5, causal)),
               1e-12, causal ? "causal" : "full");
    // The references leave powers of at most one, the largest above a half: a
    // normalizer lies above a half and at most at the number of keys.
    for (double l : r[2].reals) {
      EXPECT_GT(l, 0.5);
      EXPECT_LE(l, 5);
    }
  }
}

TEST(Attention, OneVisibleKeyIsCopied) {
  TestEntry test("%q: tensor<1x2x3x1x2xf64>",
                 "%r:3 = mixle.attention %q scale = 1.0 causal = true : "
                 "(tensor<1x2x3x1x2xf64>) -> (tensor<1x2x1x2xf64>, "
                 "tensor<1x1x2xi32>, tensor<1x1x2xf64>)");
  // Scores of 1e4 would overflow an exponential without a reference.
  auto r = test.run({reals({1, 2, 3, 1, 2}, {100, 0, 100, 0, 7, -3, //
                                             0, 1, 0, 1, 1, 1})});
  EXPECT_EQ(r[0].reals[0], 7);
  EXPECT_EQ(r[0].reals[1], -3);
  EXPECT_EQ(r[1].integers[0], 14427); // ceil(1e4 log2 e)
}

TEST(Attention, AScoreThatIsNoNumberSpoilsItsQueryAlone) {
  TestEntry test("%q: tensor<1x2x3x1x1xf64>",
                 "%r:3 = mixle.attention %q scale = 1.0 causal = true : "
                 "(tensor<1x2x3x1x1xf64>) -> (tensor<1x2x1x1xf64>, "
                 "tensor<1x1x2xi32>, tensor<1x1x2xf64>)");
  // The second key is NaN; the first query does not see it.
  auto r = test.run({reals({1, 2, 3, 1, 1}, {1, 1, 4, 1, std::nan(""), 5})});
  EXPECT_EQ(r[0].reals[0], 4);
  EXPECT_TRUE(std::isnan(r[0].reals[1]));
}
