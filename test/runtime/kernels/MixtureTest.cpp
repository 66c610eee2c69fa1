//===- MixtureTest.cpp - Gaussian mixtures against formulas ---------------===//

#include "runtime/kernels/Mixture.h"
#include "test/runtime/kernels/TestSupport.h"

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

struct Problem {
  MixtureShape shape;
  int64_t components, rows;
  std::vector<double> x, anchor, scale, weights, means, covariances;

  MixtureFrame frame() const { return {anchor.data(), scale.data()}; }
};

Problem makeProblem(int64_t dim, bool full, int64_t components, int64_t rows,
                    uint64_t seed) {
  Problem p;
  p.shape.dim = dim;
  p.shape.full = full;
  p.components = components;
  p.rows = rows;
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < rows * dim; ++i)
    p.x.push_back(3 * normal(engine));
  for (int64_t j = 0; j < dim; ++j) {
    p.anchor.push_back(p.x[j]);
    double largest = 0;
    for (int64_t r = 0; r < rows; ++r)
      largest = std::max(largest, std::fabs(p.x[r * dim + j] - p.x[j]));
    int exponent;
    std::frexp(largest, &exponent);
    p.scale.push_back(std::ldexp(1.0, exponent));
  }
  for (int64_t k = 0; k < components; ++k) {
    p.weights.push_back(1.0 / static_cast<double>(components));
    for (int64_t j = 0; j < dim; ++j)
      p.means.push_back(normal(engine));
    std::vector<double> root(dim * dim);
    for (double &v : root)
      v = normal(engine);
    for (int64_t i = 0; i < dim; ++i)
      for (int64_t j = 0; j < dim; ++j) {
        if (!full && i != j)
          continue;
        double sum = i == j ? 0.5 : 0.0;
        for (int64_t l = 0; l < dim; ++l)
          sum += root[i * dim + l] * root[j * dim + l];
        p.covariances.push_back(sum);
      }
  }
  return p;
}

struct Forms {
  std::vector<double> natural, factors, constants;
  std::vector<int32_t> centred;
  MixtureForms view;

  explicit Forms(const Problem &p)
      : natural(p.components * p.shape.features()),
        factors(p.components * p.shape.covarianceSize()),
        constants(p.components), centred(p.components) {
    view = {natural.data(), factors.data(), constants.data(), centred.data()};
  }
  int64_t prepare(const Problem &p, bool centreAll, Isa isa) {
    return prepareMixture(p.shape, p.components, p.weights.data(),
                          p.means.data(), p.covariances.data(), p.frame(),
                          centreAll, view, isa);
  }
};

/// log w + log N(x | mean, covariance) in long double, by Gauss's elimination.
long double scoreOf(const Problem &p, int64_t row, int64_t k) {
  const int64_t d = p.shape.dim;
  std::vector<long double> a(d * d, 0), b(d);
  const double *c = p.covariances.data() + k * p.shape.covarianceSize();
  for (int64_t i = 0; i < d; ++i) {
    b[i] = static_cast<long double>(p.x[row * d + i]) - p.means[k * d + i];
    for (int64_t j = 0; j < d; ++j)
      a[i * d + j] = p.shape.full ? c[i * d + j] : (i == j ? c[i] : 0.0);
  }
  std::vector<long double> y(b);
  long double logDeterminant = 0;
  for (int64_t i = 0; i < d; ++i) {
    logDeterminant += std::log(a[i * d + i]);
    for (int64_t r = i + 1; r < d; ++r) {
      long double f = a[r * d + i] / a[i * d + i];
      for (int64_t j = i; j < d; ++j)
        a[r * d + j] -= f * a[i * d + j];
      y[r] -= f * y[i];
    }
  }
  long double quadratic = 0;
  for (int64_t i = d; i-- > 0;) {
    for (int64_t j = i + 1; j < d; ++j)
      y[i] -= a[i * d + j] * y[j];
    y[i] /= a[i * d + i];
    quadratic += y[i] * b[i];
  }
  const long double log2Pi = 1.83787706640934548356L;
  return std::log(static_cast<long double>(p.weights[k])) -
         0.5L * (d * log2Pi + logDeterminant + quadratic);
}

struct MixtureTest : testing::TestWithParam<std::pair<int64_t, bool>> {};

TEST_P(MixtureTest, BothFormsScoreAsTheFormulaOnEveryInstructionSet) {
  auto [dim, full] = GetParam();
  Problem p = makeProblem(dim, full, 3, 150, 7);
  const int64_t f = p.shape.features();
  std::vector<std::vector<double>> naturalScores, centredScoresOf;
  for (Isa isa : supportedIsas()) {
    std::vector<double> features(p.rows * f);
    mixtureFeatures(p.shape, p.rows, p.x.data(), p.frame(), features.data(),
                    isa);
    for (double v : features)
      ASSERT_LE(std::fabs(v), 1.0);
    Forms forms(p);
    ASSERT_EQ(-1, forms.prepare(p, false, isa));
    std::vector<double> scores(p.rows * p.components);
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t k = 0; k < p.components; ++k) {
        double sum = 0;
        for (int64_t i = 0; i < f; ++i)
          sum = std::fma(features[r * f + i], forms.natural[k * f + i], sum);
        scores[r * p.components + k] = sum;
      }
    centredScores(p.shape, p.rows, p.components, p.x.data(), p.means.data(),
                  forms.view, scores.data(), p.components, isa);
    Forms all(p);
    ASSERT_EQ(-1, all.prepare(p, true, isa));
    std::vector<double> centred(p.rows * p.components);
    centredScores(p.shape, p.rows, p.components, p.x.data(), p.means.data(),
                  all.view, centred.data(), p.components, isa);
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t k = 0; k < p.components; ++k) {
        double expected = static_cast<double>(scoreOf(p, r, k));
        EXPECT_NEAR(expected, scores[r * p.components + k],
                    1e-9 + 1e-11 * std::fabs(expected));
        EXPECT_NEAR(expected, centred[r * p.components + k],
                    1e-11 * (1 + std::fabs(expected)));
      }
    naturalScores.push_back(scores);
    centredScoresOf.push_back(centred);
  }
  for (size_t i = 1; i < naturalScores.size(); ++i) {
    EXPECT_TRUE(sameBits(naturalScores[0], naturalScores[i]));
    EXPECT_TRUE(sameBits(centredScoresOf[0], centredScoresOf[i]));
  }
}

TEST_P(MixtureTest, AnMStepRecoversMomentsExactly) {
  auto [dim, full] = GetParam();
  Problem p = makeProblem(dim, full, 1, 64, 11);
  const int64_t f = p.shape.features();
  std::vector<double> features(p.rows * f), statistics(f, 0.0);
  mixtureFeatures(p.shape, p.rows, p.x.data(), p.frame(), features.data());
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t i = 0; i < f; ++i)
      statistics[i] += features[r * f + i];
  MixtureRules rules;
  updateGaussian(p.shape, rules, statistics.data(), p.frame(), p.means.data(),
                 p.covariances.data());
  for (int64_t i = 0; i < dim; ++i) {
    double mean = 0;
    for (int64_t r = 0; r < p.rows; ++r)
      mean += p.x[r * dim + i];
    mean /= static_cast<double>(p.rows);
    EXPECT_NEAR(mean, p.means[i], 1e-13);
    for (int64_t j = 0; j < dim; ++j) {
      if (!full && i != j)
        continue;
      double other = 0, sum = 0;
      for (int64_t r = 0; r < p.rows; ++r)
        other += p.x[r * dim + j];
      other /= static_cast<double>(p.rows);
      for (int64_t r = 0; r < p.rows; ++r)
        sum += (p.x[r * dim + i] - mean) * (p.x[r * dim + j] - other);
      EXPECT_NEAR(sum / static_cast<double>(p.rows),
                  p.covariances[full ? i * dim + j : i], 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MixtureTest,
                         testing::Values(std::pair<int64_t, bool>{1, false},
                                         std::pair<int64_t, bool>{1, true},
                                         std::pair<int64_t, bool>{3, true},
                                         std::pair<int64_t, bool>{5, false},
                                         std::pair<int64_t, bool>{7, true},
                                         std::pair<int64_t, bool>{13, true}));

// B078 of the case list: with e = 1e-10 the determinant is 2e - e^2.
TEST(Mixture, NearlySingularCovariance) {
  Problem p;
  p.shape = {2, true};
  p.components = p.rows = 1;
  p.x = {0, 0};
  p.anchor = {0, 0};
  p.scale = {1, 1};
  p.weights = {1};
  p.means = {0, 0};
  p.covariances = {1, 1 - 1e-10, 1 - 1e-10, 1};
  Forms forms(p);
  ASSERT_EQ(-1, forms.prepare(p, false, bestIsa()));
  EXPECT_EQ(1, forms.centred[0]);
  double score = 0;
  centredScores(p.shape, 1, 1, p.x.data(), p.means.data(), forms.view, &score,
                1);
  EXPECT_NEAR(9.328475, score, 1e-5);
}

TEST(Mixture, SingularMatricesAreFound) {
  MixtureShape full{2, true}, diagonal{2, false};
  const double good[] = {2, 1, 1, 2};
  std::vector<double> several(good, good + 4);
  for (double v : {1.0, 1.0, 1.0, 1.0})
    several.push_back(v);
  EXPECT_EQ(1, firstIndefinite(full, 2, several.data()));
  const double zero[] = {0, 0, 0, 0};
  EXPECT_EQ(0, firstIndefinite(full, 1, zero));
  const double nan[] = {1, 0, 0, std::nan("")};
  EXPECT_EQ(0, firstIndefinite(full, 1, nan));
  const double infinite[] = {INFINITY, 0, 0, 1};
  EXPECT_EQ(0, firstIndefinite(full, 1, infinite));
  const double variances[] = {1, 0};
  EXPECT_EQ(0, firstIndefinite(diagonal, 1, variances));
  EXPECT_EQ(-1, firstIndefinite(full, 1, good));
}

TEST(Mixture, ComponentsWithoutWeightStayAndWeightsFollowTheRules) {
  MixtureRules rules;
  const double statistics[] = {0, 0, 0}, anchor = 1, scale = 2;
  double mean = 5, covariance = 3;
  updateGaussian({1, false}, rules, statistics, {&anchor, &scale}, &mean,
                 &covariance);
  EXPECT_EQ(5, mean);
  EXPECT_EQ(3, covariance);
  EXPECT_EQ(0.25, updateWeight(rules, 0, 4, 0, 0));
  EXPECT_EQ(0.5, updateWeight(rules, 0, 4, 2, 4));
  rules.weightCount = 4;
  EXPECT_EQ(3.0 / 8, updateWeight(rules, 0, 4, 2, 4));
  rules.priorWeights = {0.5, 0.5, 0, 0};
  EXPECT_EQ(0.5, updateWeight(rules, 0, 4, 2, 4));
  rules.fixedWeights = {0.1, 0.2, 0.3, 0.4};
  EXPECT_EQ(0.2, updateWeight(rules, 1, 4, 2, 4));
}

} // namespace
