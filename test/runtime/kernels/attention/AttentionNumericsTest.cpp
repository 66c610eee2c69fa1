//===- AttentionNumericsTest.cpp - Attention is right and says no ---------===//

#include "AttentionTestUtil.h"

#include <cmath>
#include <limits>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

/// sum of do·o, by the textbook formula with libm in double.
double objective(const AttentionShape &s, double scale,
                 const Tensors<double> &t) {
  double total = 0;
  int64_t group = s.heads / s.kvHeads;
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.tokens; ++i) {
        int64_t seen = s.causal ? i + 1 : s.tokens;
        auto at = [&](int64_t token, int64_t heads, int64_t head) {
          return size_t(((r * s.tokens + token) * heads + head) * s.headDim);
        };
        size_t qi = at(i, s.heads, h);
        std::vector<double> logits;
        double top = -INFINITY, sum = 0, dot = 0;
        for (int64_t j = 0; j < seen; ++j) {
          double x = 0;
          for (int64_t d = 0; d < s.headDim; ++d)
            x += t.q[qi + size_t(d)] *
                 t.k[at(j, s.kvHeads, h / group) + size_t(d)];
          logits.push_back(x * scale);
          top = std::max(top, logits.back());
        }
        for (int64_t j = 0; j < seen; ++j) {
          double p = std::exp(logits[size_t(j)] - top), x = 0;
          for (int64_t d = 0; d < s.headDim; ++d)
            x += t.dO[qi + size_t(d)] *
                 t.v[at(j, s.kvHeads, h / group) + size_t(d)];
          sum += p;
          dot += p * x;
        }
        total += dot / sum;
      }
  return total;
}

TEST(AttentionNumerics, ForwardAgreesWithTheTextbook) {
  for (bool causal : {true, false})
    for (int64_t granules : {1, 3}) {
      AttentionShape s{2, 23, 4, 2, 12, granules, causal};
      Tensors<double> t = randomTensors<double>(s, 21);
      runAttention(s, 0.3, t);
      double got = 0;
      for (size_t i = 0; i < t.o.size(); ++i)
        got += t.o[i] * t.dO[i];
      // Sums of 2208 terms of order 1 (o and do below 2): far below 1e-11.
      EXPECT_NEAR(got, objective(s, 0.3, t), 1e-11);
    }
}

TEST(AttentionNumerics, GradientsAgreeWithFiniteDifferences) {
  for (bool causal : {true, false})
    for (int64_t granules : {1, 3}) {
      AttentionShape s{1, 7, 4, 2, 5, granules, causal};
      Tensors<double> t = randomTensors<double>(s, 31);
      const double scale = 0.45;
      runAttention(s, scale, t);
      auto compare = [&](std::vector<double> &x, const std::vector<double> &dx,
                         const char *name) {
        for (size_t i = 0; i < x.size(); ++i) {
          // Central difference of fourth order: error about h^4, and rounding
          // about 1e-14 / h.
          const double h = 1e-3, x0 = x[i];
          auto f = [&](double offset) {
            x[i] = x0 + offset;
            double y = objective(s, scale, t);
            x[i] = x0;
            return y;
          };
          double slope =
              (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
          EXPECT_NEAR(dx[i], slope, 1e-9)
              << name << "[" << i << "] " << describe(s);
        }
      };
      compare(t.q, t.dq, "dq");
      compare(t.k, t.dk, "dk");
      compare(t.v, t.dv, "dv");
    }
}

TEST(AttentionNumerics, FloatIsCloseToDouble) {
  for (int64_t granules : {1, 4}) {
    AttentionShape s{2, 96, 2, 2, 32, granules, true};
    Tensors<float> single = randomTensors<float>(s, 41);
    Tensors<double> wide;
    wide.q.assign(single.q.begin(), single.q.end());
    wide.k.assign(single.k.begin(), single.k.end());
    wide.v.assign(single.v.begin(), single.v.end());
    wide.dO.assign(single.dO.begin(), single.dO.end());
    const float scale = 0.25f;
    runAttention(s, scale, single);
    runAttention(s, double(scale), wide);
    // Logits up to ~60 in base 2 carry errors of about 32·2^-24·60 at worst,
    // 1e-4; typical errors are a hundred times smaller. Values are of order 1,
    // gradients of k and v sums of up to 96 of those.
    auto compare = [](const std::vector<float> &a, const std::vector<double> &b,
                      double tolerance, const char *name) {
      double worst = 0;
      for (size_t i = 0; i < a.size(); ++i)
        worst = std::max(worst, std::fabs(double(a[i]) - b[i]));
      EXPECT_LT(worst, tolerance) << name;
    };
    compare(single.o, wide.o, 2e-5, "o");
    compare(single.dq, wide.dq, 5e-5, "dq");
    compare(single.dk, wide.dk, 2e-4, "dk");
    compare(single.dv, wide.dv, 2e-4, "dv");
  }
}

TEST(AttentionNumerics, LargeLogitsStayFinite) {
  for (int64_t granules : {1, 2, 8}) {
    AttentionShape s{1, 70, 1, 1, 8, granules, true};
    Tensors<float> t = randomTensors<float>(s, 51, 2000.0f);
    runAttention(s, 1.0f, t);
    for (const std::vector<float> *x : {&t.o, &t.dq, &t.dk, &t.dv, &t.l})
      for (float y : *x)
        ASSERT_TRUE(std::isfinite(y));
    for (float y : t.o)
      ASSERT_LE(std::fabs(y), 2.0001f) << "o is an average of values below 2";
  }
}

TEST(AttentionNumerics, OneDominantKeyIsCopied) {
  // The logit of key 3 is 10000 above all others: o is its value, exactly.
  AttentionShape s{1, 9, 1, 1, 4, 3, false};
  Tensors<float> t = randomTensors<float>(s, 61);
  for (int64_t i = 0; i < 9; ++i)
    for (int64_t d = 0; d < 4; ++d) {
      t.q[size_t(i * 4 + d)] = d == 0 ? 100.0f : 0.0f;
      t.k[size_t(i * 4 + d)] = d == 0 && i == 3 ? 100.0f : 0.0f;
    }
  runAttention(s, 1.0f, t);
  for (int64_t i = 0; i < 9; ++i)
    for (int64_t d = 0; d < 4; ++d)
      EXPECT_NEAR(t.o[size_t(i * 4 + d)], t.v[size_t(3 * 4 + d)],
                  std::fabs(t.v[size_t(3 * 4 + d)]) * 0x1p-23f);
}

template <typename T>
void expectReferenceOf(const AttentionShape &s, Tensors<T> inputs) {
  Tensors<T> expected = inputs;
  Reference<T> reference(s, T(0.5), expected);
  reference.forward();
  reference.backward();
  runAttention(s, T(0.5), inputs);
  EXPECT_EQ(difference(inputs, expected), "") << describe(s);
}

TEST(AttentionNumerics, HiddenInfinitiesAndNaNsDoNoHarm) {
  // Only queries from 20 on see what is planted at token 20.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (float planted : {INFINITY, -INFINITY, nan})
    for (int64_t granules : {1, 4}) {
      AttentionShape s{1, 37, 1, 1, 8, granules, true};
      Tensors<float> t = randomTensors<float>(s, 71), clean = t;
      t.k[20 * 8 + 2] = planted;
      t.v[20 * 8 + 3] = planted;
      expectReferenceOf(s, t);
      runAttention(s, 0.5f, t);
      runAttention(s, 0.5f, clean);
      for (size_t i = 0; i < 20 * 8; ++i)
        ASSERT_EQ(t.o[i], clean.o[i]) << "query " << i / 8;
      for (size_t i = 20 * 8; i < t.o.size(); ++i)
        if (i % 8 == 3) {
          ASSERT_FALSE(std::isfinite(t.o[i])) << "query " << i / 8;
        }
    }
}

TEST(AttentionNumerics, LogitsBeyondTheReferencesRangeAreNaN) {
  // Base-2 logits of ±1.4e10, beyond 2^30, and infinite ones.
  for (float big : {1e5f, 1e30f})
    for (float sign : {1.0f, -1.0f}) {
      AttentionShape s{1, 5, 1, 1, 2, 2, true};
      Tensors<float> t = randomTensors<float>(s, 81);
      t.q.assign(t.q.size(), big);
      t.k.assign(t.k.size(), sign * big);
      expectReferenceOf(s, t);
      runAttention(s, 0.5f, t);
      for (float y : t.o)
        ASSERT_TRUE(std::isnan(y));
      for (int32_t m : t.m)
        ASSERT_EQ(m, 0);
    }
}

TEST(AttentionNumerics, NegativeZeroSurvives) {
  // Every product underflows to −0 and the chains end in −0: adding a skipped
  // key's +0 would show.
  AttentionShape s{1, 30, 1, 1, 3, 2, true};
  Tensors<float> t = randomTensors<float>(s, 91);
  for (float &x : t.v)
    x = -std::numeric_limits<float>::denorm_min();
  for (size_t i = 0; i < t.k.size(); ++i)
    t.k[i] = 20.0f * t.k[i];
  expectReferenceOf(s, t);
}

struct BadShape {
  AttentionShape shape;
  const char *message;
};

TEST(AttentionErrors, EachNamesWhatIsWrong) {
  const BadShape cases[] = {
      {{-1, 4, 2, 2, 8, 1, true}, "attention: rows is -1; expected 0 or more"},
      {{1, 0, 2, 2, 8, 1, true}, "attention: tokens is 0; expected at least 1"},
      {{1, 4, 0, 2, 8, 1, true}, "attention: heads is 0; expected at least 1"},
      {{1, 4, 6, 4, 8, 1, true},
       "attention: kvHeads is 4; expected a positive divisor of heads, which "
       "is 6"},
      {{1, 4, 6, 0, 8, 1, true},
       "attention: kvHeads is 0; expected a positive divisor of heads, which "
       "is 6"},
      {{1, 4, 2, 2, 257, 1, true},
       "attention: headDim is 257; expected 1 to 256"},
      {{1, 4, 2, 2, 0, 1, true}, "attention: headDim is 0; expected 1 to 256"},
      {{1, 4, 2, 2, 8, 0, true},
       "attention: keyGranules is 0; expected at least 1"}};
  Workspace workspace;
  for (const BadShape &bad : cases) {
    AttentionForwardArgs<float> forward;
    forward.shape = bad.shape;
    EXPECT_EQ(attentionForward(forward, workspace).message(), bad.message);
    AttentionBackwardArgs<double> backward;
    backward.shape = bad.shape;
    EXPECT_EQ(attentionBackward(backward, workspace).message(), bad.message);
  }
}

TEST(AttentionErrors, MissingOperandsAreNamed) {
  AttentionShape s{1, 3, 1, 1, 2, 1, true};
  Tensors<float> t = randomTensors<float>(s, 1);
  Workspace workspace;
  auto forward = forwardArgs(s, 1.0f, t);
  forward.l = nullptr;
  EXPECT_EQ(attentionForward(forward, workspace).message(),
            "attention: operand l is a null pointer; rows is not 0, so it must "
            "be given");
  auto backward = backwardArgs(s, 1.0f, t);
  backward.dO.data = nullptr;
  EXPECT_EQ(
      attentionBackward(backward, workspace).message(),
      "attention: operand dO is a null pointer; rows is not 0, so it must "
      "be given");
}

TEST(AttentionErrors, NoRowsNeedNoOperands) {
  AttentionForwardArgs<float> forward;
  forward.shape = {0, 3, 1, 1, 2, 1, true};
  AttentionBackwardArgs<float> backward;
  backward.shape = forward.shape;
  Workspace workspace;
  EXPECT_TRUE(attentionForward(forward, workspace).ok());
  EXPECT_TRUE(attentionBackward(backward, workspace).ok());
}

} // namespace
