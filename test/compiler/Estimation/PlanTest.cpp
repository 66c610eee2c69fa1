//===- PlanTest.cpp - The same bits under every plan, tile and chunk ------===//

#include "test/compiler/Estimation/Fit.h"

#include <random>

using namespace mixle::test;

namespace {

/// Rows around five centres, the weights of some of them 0.
Data clusters(int64_t rows, int64_t dim, bool weighted) {
  std::mt19937_64 engine(20);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Data data;
  data.rows = rows;
  data.columns = dim;
  for (int64_t r = 0; r < rows; ++r) {
    const double centre = static_cast<double>(engine() % 5);
    for (int64_t j = 0; j < dim; ++j)
      data.values.push_back(1e6 * (j == 1) + 3 * centre * (j + 1) +
                            (1 + centre) * normal(engine));
    if (weighted)
      data.weights.push_back(engine() % 7 == 0 ? 0 : 3 * uniform(engine));
  }
  return data;
}

struct Shape {
  const char *name;
  const char *covariance;
  int64_t components;
  int64_t rows;
  bool weighted;
  /// More keys of the specification.
  std::string more = "";
};

std::ostream &operator<<(std::ostream &stream, const Shape &shape) {
  return stream << shape.name;
}

struct PlanTest : testing::TestWithParam<Shape> {
  std::string spec() const {
    return R"({"family": "gaussian_mixture", "dim": 3, "components": )" +
           std::to_string(GetParam().components) + R"(, "covariance": ")" +
           GetParam().covariance +
           R"(", "regularization": {"kind": "absolute", "value": 1e-6})" +
           GetParam().more + "}";
  }
  FitResult fitUnder(const CompileSettings &compile, int64_t chunkRows = 0) {
    FitSettings settings;
    settings.iterations = 4;
    settings.seed = 3;
    settings.chunkRows = chunkRows;
    Data data = clusters(GetParam().rows, 3, GetParam().weighted);
    settings.probes.assign(data.values.begin(), data.values.begin() + 30);
    FitResult result = fit(programOf(spec(), compile), data, settings);
    EXPECT_TRUE(result.status.ok()) << compile.plan << ": "
                                    << result.status.message();
    return result;
  }
  static void expectSame(const FitResult &reference, const FitResult &got,
                         const std::string &what) {
    EXPECT_EQ(reference.digests, got.digests) << what;
    EXPECT_EQ(reference.trace, got.trace) << what;
    EXPECT_EQ(reference.density, got.density) << what;
    ASSERT_EQ(reference.models.size(), got.models.size());
    for (size_t i = 0; i < reference.models.size(); ++i) {
      EXPECT_EQ(reference.models[i].weights, got.models[i].weights) << what;
      EXPECT_EQ(reference.models[i].means, got.models[i].means) << what;
      EXPECT_EQ(reference.models[i].covariances, got.models[i].covariances) << what;
    }
  }
};

TEST_P(PlanTest, EveryPlanEndsInTheSameState) {
  CompileSettings one;
  FitResult reference = fitUnder(one);
  ASSERT_EQ(4u, reference.trace.size());
  EXPECT_LT(reference.trace[0], reference.trace[3]);
  EXPECT_NE(reference.digests[2], reference.digests[3]);
  for (int dp : {1, 2, 3, 4, 7, 8})
    for (int tp : {1, 2, 4}) {
      CompileSettings settings;
      settings.plan = "dp_replicate=" + std::to_string(dp) +
                      ",tp=" + std::to_string(tp);
      expectSame(reference, fitUnder(settings), settings.plan);
    }
  for (const char *plan : {"dp_shard=2", "dp_shard=3,tp=2",
                           "dp_replicate=2,dp_shard=2,tp=2"}) {
    CompileSettings settings;
    settings.plan = plan;
    expectSame(reference, fitUnder(settings), plan);
  }
}

TEST_P(PlanTest, ChunksAndTilesDoNotMatter) {
  CompileSettings one, two;
  two.plan = "dp_replicate=2,tp=2";
  FitResult reference = fitUnder(one);
  for (int64_t chunk : {1, 7, 100, 128, 1000, 100000}) {
    expectSame(reference, fitUnder(one, chunk), "chunk " + std::to_string(chunk));
    expectSame(reference, fitUnder(two, chunk), "chunk " + std::to_string(chunk));
  }
  for (int64_t batch : {128, 200, 256, 4096}) {
    CompileSettings settings;
    settings.batch = batch;
    expectSame(reference, fitUnder(settings), "batch " + std::to_string(batch));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mixtures, PlanTest,
    testing::Values(Shape{"full", "full", 5, 1500, false},
                    Shape{"diag_weighted", "diag", 6, 700, true},
                    Shape{"many_components", "diag", 19, 300, false}),
    [](const testing::TestParamInfo<Shape> &info) {
      return std::string(info.param.name);
    });

//===----------------------------------------------------------------------===//
// Rules that say another thing of every component
//===----------------------------------------------------------------------===//

const std::vector<double> namedWeights = {0.05, 0.35, 0.15, 0.25, 0.2};
const char *const fixedWeights =
    R"(, "fixed_weights": [0.05, 0.35, 0.15, 0.25, 0.2])";
const char *const priorWeights =
    R"(, "pseudo_count": {"weights": 40}, "prior_statistics": )"
    R"({"weights": [0.05, 0.35, 0.15, 0.25, 0.2]})";

std::string priors(const char *covariances) {
  return R"(, "pseudo_count": {"weights": 3, "means": 2, "covariances": 5},
            "prior_statistics": {"weights": [0.05, 0.35, 0.15, 0.25, 0.2],
                                 "means": [1, 1e6, 2], "covariances": )" +
         std::string(covariances) + "}";
}

/// Components of a rank are not the first of the specification's list.
struct RuleTest : PlanTest {};

TEST_P(RuleTest, EveryPlanFollowsThem) {
  Expected<MixtureSpec> parsed = MixtureSpec::parseText(spec(), "spec");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const MixtureRules &rules = parsed->rules;
  const auto f = static_cast<size_t>(parsed->shape.features());
  FitResult reference = fitUnder(CompileSettings());
  ASSERT_EQ(4u, reference.trace.size());
  for (int dp : {1, 2, 3})
    for (int tp : {1, 2, 4, 5}) {
      CompileSettings settings;
      settings.plan = "dp_replicate=" + std::to_string(dp) +
                      ",tp=" + std::to_string(tp);
      FitResult result = fitUnder(settings);
      expectSame(reference, result, settings.plan);
      const std::vector<double> &weights = result.models.back().weights;
      if (!rules.fixedWeights.empty()) {
        EXPECT_EQ(namedWeights, weights) << settings.plan;
        continue;
      }
      // (n_k + p w0_k) / (sum n + p) with the last statistics' counts.
      double total = 0;
      for (size_t k = 0; k < 5; ++k)
        total += result.statistics[k * f];
      for (size_t k = 0; k < 5; ++k)
        EXPECT_NEAR((result.statistics[k * f] + rules.weightCount * namedWeights[k]) /
                        (total + rules.weightCount),
                    weights[k], 1e-14)
            << settings.plan << " component " << k;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RuleTest,
    testing::Values(
        Shape{"fixed_weights_diag", "diag", 5, 500, false, fixedWeights},
        Shape{"fixed_weights_full", "full", 5, 500, false, fixedWeights},
        Shape{"prior_weights_diag", "diag", 5, 500, false, priorWeights},
        Shape{"prior_weights_full", "full", 5, 500, false, priorWeights},
        Shape{"all_priors_diag", "diag", 5, 500, true, priors("[1, 2, 3]")},
        Shape{"all_priors_full", "full", 5, 500, true,
              priors("[[2, 0.5, 0], [0.5, 1, 0], [0, 0, 3]]")}),
    [](const testing::TestParamInfo<Shape> &info) {
      return std::string(info.param.name);
    });

TEST(PlanErrors, PlansThatAnEstimatorCannotHave) {
  const std::string spec =
      R"({"family": "gaussian_mixture", "dim": 2, "components": 3})";
  CompileSettings settings;
  settings.plan = "tp=4";
  Expected<Program> cut = compileEstimator(spec, settings);
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(std::string::npos,
            cut.status().message().find("tp=4 is more than the 3 of 'components', "
                                        "of which every rank needs one; use tp = "
                                        "1, 2, 3"))
      << cut.status().message();
  EXPECT_EQ(std::string::npos, cut.status().message().find("--granules"));
  // Where there are enough, granules help.
  settings.components = 2;
  settings.plan = "tp=3";
  cut = compileEstimator(spec, settings);
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(std::string::npos,
            cut.status().message().find(
                "--granules components=N with N at least 3, or use tp = 1, 2"))
      << cut.status().message();
  settings.components = 3;
  EXPECT_TRUE(compileEstimator(spec, settings).ok());
  settings.components = 0;
  for (const char *plan : {"microbatches=2", "gradient_accumulation_steps=2"}) {
    settings.plan = plan;
    Expected<Program> time = compileEstimator(spec, settings);
    ASSERT_FALSE(time.ok());
    EXPECT_NE(std::string::npos,
              time.status().message().find("microbatches=1"))
        << time.status().message();
  }
}

TEST(PlanErrors, ATileHoldsABlock) {
  CompileSettings settings;
  settings.batch = 64;
  Expected<Program> cut = compileEstimator(
      R"({"family": "gaussian_mixture", "dim": 1, "components": 1})", settings);
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(std::string::npos,
            cut.status().message().find("less than a block of 128"))
      << cut.status().message();
}

} // namespace
