//===- WineTest.cpp - Fits against scikit-learn ---------------------------===//
//
// test/golden/em/wine.json (made by make_wine.py beside it): 20 iterations on the
// wine data, 178 rows of 13 columns as they are, from one start.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Files.h"
#include "test/compiler/Estimation/Fit.h"

using namespace mixle::test;

namespace {

std::vector<double> flat(const Json &json) {
  std::vector<double> values;
  if (json.is_array())
    for (const Json &item : json)
      for (double v : flat(item))
        values.push_back(v);
  else
    values.push_back(json.get<double>());
  return values;
}

struct WineTest : testing::TestWithParam<std::pair<const char *, const char *>> {};

TEST_P(WineTest, EveryIterationsLogLikelihoodAgrees) {
  auto [covariance, plan] = GetParam();
  const std::string path = std::string(MIXLE_EM_GOLDEN_DIR) + "/wine.json";
  Expected<std::string> text = readFile(path);
  ASSERT_TRUE(text.ok()) << text.status().message();
  Expected<Json> parsed = parseJson(*text, path);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Json &json = *parsed;
  const bool full = covariance == std::string("full");

  Data data;
  data.rows = 178;
  data.columns = 13;
  data.values = flat(json["data"]);
  MixtureValues start;
  start.weights.assign(3, 1.0 / 3);
  std::vector<double> variances = flat(json["variances"]);
  for (int64_t row : json["start_rows"]) {
    start.means.insert(start.means.end(), data.values.begin() + 13 * row,
                       data.values.begin() + 13 * (row + 1));
    for (int i = 0; i < 13; ++i)
      for (int j = full ? 0 : i; j < (full ? 13 : i + 1); ++j)
        start.covariances.push_back(i == j ? variances[i] : 0.0);
  }
  FitSettings settings;
  settings.start = start;
  settings.iterations = 20;
  CompileSettings compile;
  compile.plan = plan;
  compile.blockRows = 32; // so that every rank has rows
  FitResult result = fit(
      programOf(R"({"family": "gaussian_mixture", "dim": 13, "components": 3,
                    "covariance": ")" +
                    std::string(covariance) +
                    R"(", "regularization": {"kind": "absolute", "value": 1e-6}})",
                compile),
      data, settings);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  const Json &golden = json[covariance];
  expectNear(flat(golden["trace"]), result.trace, 1e-9, "trace");
  const MixtureValues &model = result.models.back();
  expectNear(flat(golden["weights"]), model.weights, 1e-9, "weights");
  expectNear(flat(golden["means"]), model.means, 1e-9, "means");
  std::vector<double> expected = flat(golden["covariances"]);
  ASSERT_EQ(expected.size(), model.covariances.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    // Relative to the deviations of the two columns: a covariance may be near 0.
    double scale = std::fabs(expected[i]);
    if (full)
      scale = std::sqrt(expected[i / 169 * 169 + i / 13 % 13 * 14] *
                        expected[i / 169 * 169 + i % 13 * 14]);
    EXPECT_NEAR(expected[i], model.covariances[i], 1e-9 * scale) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Wine, WineTest,
    testing::Values(std::pair<const char *, const char *>{"full", "dp_replicate=1"},
                    std::pair<const char *, const char *>{"diag", "dp_replicate=1"},
                    std::pair<const char *, const char *>{"full",
                                                          "dp_replicate=2,tp=2"}));

} // namespace
