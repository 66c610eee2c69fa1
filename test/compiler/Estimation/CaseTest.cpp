//===- CaseTest.cpp - Numerical cases with answers known by hand ----------===//

#include "test/compiler/Estimation/Fit.h"

#include <algorithm>
#include <iterator>

using namespace mixle::test;

namespace {

std::string spec(int64_t dim, int64_t components, const char *covariance,
                 const char *regularization) {
  return R"({"family": "gaussian_mixture", "dim": )" + std::to_string(dim) +
         R"(, "components": )" + std::to_string(components) +
         R"(, "covariance": ")" + covariance + R"(", "regularization": )" +
         regularization + "}";
}

const char *const mixleRules = R"({"kind": "mixle"})";
const char *const nothing = R"({"kind": "absolute", "value": 0})";

CompileSettings planned(const char *plan, int64_t blockRows = 0) {
  CompileSettings settings;
  settings.plan = plan;
  settings.blockRows = blockRows;
  return settings;
}

// B049: 5 rows over 4 ranks.
TEST(EstimationCase, FiveRowsOverFourRanks) {
  Data data;
  data.rows = 5;
  data.columns = 10;
  for (int i = 0; i < 50; ++i)
    data.values.push_back(i);
  FitResult result = fit(
      programOf(spec(10, 1, "diag", mixleRules), planned("dp_replicate=4", 1)),
      data, {});
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ((std::vector<int64_t>{2, 2, 1, 0}), result.rowsOfRanks);
  for (int j = 0; j < 10; ++j)
    EXPECT_DOUBLE_EQ(20.0 + j, result.models[0].means[j]);
}

// B068: each component owns one point, so only the regularization is left.
TEST(EstimationCase, FarPointsHaveNoVarianceOfTheirOwn) {
  FitSettings settings;
  settings.start = MixtureValues{{0.5, 0.5}, {20001, 1}, {1, 1}};
  settings.iterations = 10;
  FitResult result =
      fit(programOf(spec(1, 2, "diag", R"({"kind": "absolute", "value": 0.1})")),
          column({20001.0f, 1.0f}), settings);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  expectNear({20001, 1}, result.models.back().means, 1e-12, "means");
  expectNear({0.5, 0.5}, result.models.back().weights, 1e-12, "weights");
  expectNear({0.1, 0.1}, result.models.back().covariances, 1e-6, "variances");
}

// B069: second moments with a large offset, merged over ranks.
TEST(EstimationCase, LargeOffsetsMergeOverRanks) {
  for (const char *plan : {"dp_replicate=1", "dp_replicate=2", "dp_replicate=4"}) {
    FitResult result =
        fit(programOf(spec(1, 1, "diag", mixleRules), planned(plan, 1)),
            column({1000000.0f, 1000001.0f, 1000002.0f, 1000003.0f}), {});
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_EQ(1000001.5, result.models[0].means[0]) << plan;
    EXPECT_EQ(1.25, result.models[0].covariances[0]) << plan;
  }
}

// B070: merging with empty parts, in several orders.
TEST(EstimationCase, EmptyPartsChangeNothing) {
  for (const std::vector<double> &values :
       {std::vector<double>{1, 2, 3, 10}, std::vector<double>{10, 1, 2, 3},
        std::vector<double>{1, 10, 2, 3}})
    for (const char *plan :
         {"dp_replicate=1", "dp_replicate=3", "dp_replicate=4", "dp_replicate=8"}) {
      FitResult result =
          fit(programOf(spec(1, 1, "diag", mixleRules), planned(plan, 1)),
              column(values), {});
      ASSERT_TRUE(result.status.ok()) << result.status.message();
      EXPECT_EQ(4.0, result.models[0].means[0]) << plan;
      EXPECT_EQ(12.5, result.models[0].covariances[0]) << plan;
      EXPECT_EQ(4.0, result.totalWeight) << plan;
      EXPECT_EQ(4.0, result.statistics[0]) << plan;
    }
}

// B070 as it stands: partitions [1, 2, 3], [] and [10], one a rank, in all orders.
// A rank's own rows of weight 0 are none.
TEST(EstimationCase, PartitionsMergeInAnyOrder) {
  const Data parts[] = {{3, 1, {1, 2, 3}, {1, 1, 1}},
                        {3, 1, {5, 6, 7}, {0, 0, 0}},
                        {3, 1, {10, 8, 9}, {1, 0, 0}}};
  int order[] = {0, 1, 2};
  do {
    Data data;
    for (int part : order) {
      data.rows += parts[part].rows;
      data.values.insert(data.values.end(), parts[part].values.begin(),
                         parts[part].values.end());
      data.weights.insert(data.weights.end(), parts[part].weights.begin(),
                          parts[part].weights.end());
    }
    FitResult result =
        fit(programOf(spec(1, 1, "diag", mixleRules), planned("dp_replicate=3", 3)),
            data, {});
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_EQ((std::vector<int64_t>{3, 3, 3}), result.rowsOfRanks);
    EXPECT_EQ(4.0, result.totalWeight);
    EXPECT_EQ(4.0, result.statistics[0]);
    EXPECT_EQ(4.0, result.models[0].means[0]);
    EXPECT_EQ(12.5, result.models[0].covariances[0]); // M2 = 50
  } while (std::next_permutation(std::begin(order), std::end(order)));
}

// B070 again: nothing at all for one component gives no NaN.
TEST(EstimationCase, AComponentWithoutRowsStays) {
  FitSettings settings;
  settings.start = MixtureValues{{1, 0}, {0, 7}, {1, 3}};
  settings.iterations = 2;
  FitResult result = fit(programOf(spec(1, 2, "diag", mixleRules)),
                         column({-1, 1, 3}), settings);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(0.0, result.models[1].weights[1]);
  EXPECT_EQ(7.0, result.models[1].means[1]);
  EXPECT_EQ(3.0, result.models[1].covariances[1]);
  EXPECT_EQ(1.0, result.models[1].means[0]);
}

// B072: a point from which all components underflow.
TEST(EstimationCase, UnderflowFarFromAllComponents) {
  FitSettings settings;
  settings.start = MixtureValues{{0.5, 0.5}, {0, 1}, {1, 1}};
  settings.probes = {100};
  FitResult result =
      fit(programOf(spec(1, 2, "diag", mixleRules)), column({100}), settings);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_NEAR(-4902.112085714, result.trace[0], 1e-9 * 4902);
  EXPECT_DOUBLE_EQ(1.0, result.statistics[3]);
  // The first component's share, from its own log-density.
  settings.start = MixtureValues{{1}, {0}, {1}};
  FitResult alone =
      fit(programOf(spec(1, 1, "diag", mixleRules)), column({100}), settings);
  ASSERT_TRUE(alone.status.ok()) << alone.status.message();
  double share = std::exp(std::log(0.5) + alone.trace[0] - result.trace[0]);
  EXPECT_NEAR(6.133368e-44, share, 1e-6 * 6.133368e-44);
}

// A row that no component explains at all.
TEST(EstimationCase, ImpossibleRowsHaveNoResponsibility) {
  FitSettings settings;
  settings.start = MixtureValues{{0.5, 0.5}, {0, 1}, {1e-300, 1e-300}};
  FitResult result = fit(programOf(spec(1, 2, "diag", mixleRules)),
                         column({1e10, 0, 1}), settings);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(-INFINITY, result.trace[0]);
  expectNear({0, 1}, result.models[0].means, 0, "means");
  expectNear({0.5, 0.5}, result.models[0].weights, 1e-15, "weights");
}

// B074: all samples identical.
TEST(EstimationCase, IdenticalSamples) {
  Data data;
  data.rows = 3;
  data.columns = 2;
  data.values = {2, 3, 2, 3, 2, 3};
  FitSettings settings;
  settings.iterations = 5;
  FitResult result = fit(
      programOf(spec(2, 2, "full", R"({"kind": "absolute", "value": 1e-6})")),
      data, settings);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  const MixtureValues &model = result.models.back();
  expectNear({2, 3, 2, 3}, model.means, 1e-15, "means");
  expectNear({1e-6, 0, 0, 1e-6, 1e-6, 0, 0, 1e-6}, model.covariances, 1e-9,
             "covariances");
  EXPECT_NEAR(1.0, model.weights[0] + model.weights[1], 1e-15);
  EXPECT_NEAR(11.977633492, result.trace.back() / 3, 1e-8);
  EXPECT_EQ(result.trace[3], result.trace[4]);

  for (const char *plan : {"dp_replicate=1", "tp=2"}) {
    FitResult singular =
        fit(programOf(spec(2, 2, "full", nothing), planned(plan)), data, settings);
    ASSERT_FALSE(singular.status.ok());
    EXPECT_TRUE(singular.shared);
    EXPECT_NE(std::string::npos, singular.status.message().find(
                                     "component 0 is not positive definite"))
        << singular.status.message();
    EXPECT_NE(std::string::npos,
              singular.status.message().find("regularization"));
  }
}

// B076: a single sample; the other rank has none.
TEST(EstimationCase, SingleSample) {
  for (const char *plan : {"dp_replicate=1", "dp_replicate=2", "dp_shard=2"}) {
    FitSettings settings;
    settings.iterations = 2;
    FitResult result =
        fit(programOf(spec(1, 1, "full", R"({"kind": "absolute", "value": 1e-4})"),
                      planned(plan)),
            column({5}), settings);
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_EQ(5.0, result.models[1].means[0]);
    EXPECT_EQ(1e-4, result.models[1].covariances[0]);
    EXPECT_EQ(1.0, result.models[1].weights[0]);
    EXPECT_NEAR(3.686231653, result.trace[1], 1e-8);
  }
}

// B077: densities above 1 are legal.
TEST(EstimationCase, PositiveLogLikelihood) {
  FitSettings settings;
  settings.start = MixtureValues{{1}, {0.001}, {1e-6}};
  FitResult result = fit(programOf(spec(1, 1, "diag", mixleRules)),
                         column({0, 0.002}), settings);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_NEAR(5.488816746, result.trace[0] / 2, 1e-8);
}

// B078: a nearly singular covariance.
TEST(EstimationCase, NearlySingularCovariance) {
  Data data;
  data.rows = 3;
  data.columns = 2;
  data.values = {0, 0, 1, 0, 0, 1};
  FitSettings settings;
  settings.start = MixtureValues{{1}, {0, 0}, {1, 1 - 1e-10, 1 - 1e-10, 1}};
  settings.iterations = 0;
  settings.probes = {0, 0};
  FitResult result =
      fit(programOf(spec(2, 1, "full", nothing)), data, settings);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_NEAR(9.328475, result.density[0], 1e-5);

  // As float32 would hold it.
  settings.start = MixtureValues{{1}, {0, 0}, {1, 1, 1, 1}};
  FitResult singular =
      fit(programOf(spec(2, 1, "full", nothing)), data, settings);
  ASSERT_FALSE(singular.status.ok());
  EXPECT_NE(std::string::npos,
            singular.status.message().find("not positive definite"))
      << singular.status.message();
}

} // namespace
