//===- GoldenTest.cpp - Fits against what the mixle library does ----------===//
//
// test/golden/em holds what mixle 0.8.2 recorded: data, weights, statistics, fitted
// parameters and log-densities. Tolerance: 1e-9 relative, as for everything in f64.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Files.h"
#include "test/compiler/Estimation/Fit.h"

using namespace mixle::test;

namespace {

constexpr double tolerance = 1e-9;

Json golden(const std::string &name) {
  const std::string path = std::string(MIXLE_EM_GOLDEN_DIR) + "/" + name + ".json";
  Expected<std::string> text = readFile(path);
  EXPECT_TRUE(text.ok()) << text.status().message();
  Expected<Json> json = parseJson(*text, path);
  EXPECT_TRUE(json.ok()) << json.status().message();
  return *json;
}

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

Data dataOf(const Json &json) {
  Data data;
  data.values = flat(json["data"]);
  data.rows = static_cast<int64_t>(json["data"].size());
  data.columns = static_cast<int64_t>(data.values.size()) / data.rows;
  if (json.contains("weights"))
    data.weights = flat(json["weights"]);
  return data;
}

/// Of a mixture of one-dimensional Gaussians.
MixtureValues mixtureOf(const Json &json) {
  MixtureValues values;
  values.weights = flat(json["w"]);
  for (const Json &component : json["components"]) {
    values.means.push_back(component["mu"]);
    values.covariances.push_back(component["sigma2"]);
  }
  return values;
}

void expectModel(const MixtureValues &expected, const MixtureValues &got,
                 const std::string &what) {
  expectNear(expected.weights, got.weights, tolerance, what + ": weights");
  expectNear(expected.means, got.means, tolerance, what + ": means");
  expectNear(expected.covariances, got.covariances, tolerance,
             what + ": covariances");
}

/// Raw sums of w, w x and w x x^T from statistics in the frame.
struct RawSums {
  double count;
  std::vector<double> first, second;
};
RawSums rawSums(const FitResult &fit, int64_t component, int64_t d, bool full) {
  const int64_t f = 1 + d + (full ? d * (d + 1) / 2 : d);
  const double *s = fit.statistics.data() + component * f;
  RawSums sums{s[0], {}, {}};
  for (int64_t j = 0; j < d; ++j)
    sums.first.push_back(fit.anchor[j] * s[0] + fit.scale[j] * s[1 + j]);
  const double *q = s + 1 + d;
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = i; j < (full ? d : i + 1); ++j, ++q)
      sums.second.push_back(
          fit.anchor[i] * fit.anchor[j] * s[0] +
          fit.anchor[i] * fit.scale[j] * s[1 + j] +
          fit.anchor[j] * fit.scale[i] * s[1 + i] +
          fit.scale[i] * fit.scale[j] * *q);
  return sums;
}

struct MixtureGolden : testing::TestWithParam<std::pair<const char *, const char *>> {};

TEST_P(MixtureGolden, EveryIterateAndTheTraceAgree) {
  auto [name, pseudoCount] = GetParam();
  Json json = golden(name);
  std::string spec = R"({"family": "gaussian_mixture", "dim": 1, "components": 3,
      "covariance": "diag", "regularization": {"kind": "mixle"})" +
                     std::string(pseudoCount) + "}";
  FitSettings settings;
  settings.start = mixtureOf(json["initial"]);
  settings.iterations = json["iterations"];
  Data data = dataOf(json);
  // The probes are the first rows of the data.
  std::vector<double> probes = flat(json["probe_log_density"]);
  settings.probes.assign(data.values.begin(), data.values.begin() + probes.size());
  FitResult result = fit(programOf(spec), data, settings);
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  std::vector<double> trace = flat(json["loglik_trace"]);
  trace.pop_back(); // after the last iteration
  expectNear(trace, result.trace, tolerance, "trace");
  for (size_t i = 0; i < result.models.size(); ++i)
    expectModel(mixtureOf(json["models"][i + 1]), result.models[i],
                "iteration " + std::to_string(i + 1));
  expectNear(probes, result.density, tolerance, "log_density");
  EXPECT_EQ(300.0, result.totalWeight);
  // Statistics of the last iteration.
  const Json &last = json["stats"].back();
  ASSERT_EQ(settings.iterations - 1, last["iteration"].get<int64_t>());
  for (int64_t k = 0; k < 3; ++k) {
    RawSums sums = rawSums(result, k, 1, false);
    std::vector<double> expected = flat(last["value"][1][k]);
    EXPECT_NEAR(expected[2], sums.count, tolerance * expected[2]);
    EXPECT_NEAR(expected[0], sums.first[0], tolerance * std::fabs(expected[0]));
    EXPECT_NEAR(expected[1], sums.second[0], tolerance * expected[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Em, MixtureGolden,
    testing::Values(std::pair<const char *, const char *>{"gmm1d_k3_20it", ""},
                    std::pair<const char *, const char *>{
                        "gmm1d_k3_pseudo_10it", R"(, "pseudo_count": 3)"}));

struct LeafCase {
  const char *name;
  bool full;
  /// What follows "covariance" in the specification.
  const char *rest;
};

std::ostream &operator<<(std::ostream &stream, const LeafCase &leaf) {
  return stream << leaf.name;
}

struct LeafGolden : testing::TestWithParam<LeafCase> {};

TEST_P(LeafGolden, StatisticsFitAndDensitiesAgree) {
  const LeafCase &leaf = GetParam();
  Json json = golden(leaf.name);
  Data data = dataOf(json);
  const int64_t d = data.columns;
  std::string spec = R"({"family": "gaussian_mixture", "components": 1, "dim": )" +
                     std::to_string(d) + R"(, "covariance": ")" +
                     (leaf.full ? "full" : "diag") + "\", " + leaf.rest + "}";
  FitSettings settings;
  settings.probes = flat(json["probes"]);
  FitResult result = fit(programOf(spec), data, settings);
  ASSERT_TRUE(result.status.ok()) << result.status.message();

  const Json &fitted = json["fitted"];
  EXPECT_EQ(std::vector<double>{1.0}, result.models[0].weights);
  expectNear(flat(fitted["mu"]), result.models[0].means, tolerance, "mean");
  expectNear(flat(fitted[fitted.contains("sigma2") ? "sigma2" : "covar"]),
             result.models[0].covariances, tolerance, "covariance");
  expectNear(flat(json["log_density"]), result.density, tolerance, "log_density");

  const Json &recorded = json["statistics"];
  const Json &values = recorded.is_object() ? recorded["values"] : recorded;
  RawSums sums = rawSums(result, 0, d, leaf.full);
  expectNear(flat(values[0]), sums.first, tolerance, "sum w x");
  double count = 0;
  for (double w : data.weights)
    count += w;
  EXPECT_NEAR(flat(values.back())[0], sums.count, tolerance * count);
  std::vector<double> second = flat(values[1]);
  if (leaf.full) {
    std::vector<double> upper;
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = i; j < d; ++j)
        upper.push_back(second[i * d + j]);
    second = upper;
  }
  for (size_t i = 0; i < second.size(); ++i)
    EXPECT_NEAR(second[i], sums.second[i], 1e-9 * std::fabs(second[i]) + 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Em, LeafGolden,
    testing::Values(
        LeafCase{"leaf_gaussian", false, R"("regularization": {"kind": "mixle"})"},
        LeafCase{"leaf_gaussian_constant", false,
                 R"("regularization": {"kind": "mixle"})"},
        LeafCase{"leaf_gaussian_offset", false,
                 R"("regularization": {"kind": "mixle"})"},
        LeafCase{"leaf_gaussian_min_covar", false,
                 R"("regularization": {"kind": "mixle", "value": 0.25})"},
        LeafCase{"leaf_gaussian_pseudo", false,
                 R"("regularization": {"kind": "mixle"},
                    "pseudo_count": {"means": 2, "covariances": 3},
                    "prior_statistics": {"means": [0.5], "covariances": [1.25]})"},
        LeafCase{"leaf_diag", false,
                 R"("regularization": {"kind": "mixle", "value": 1e-6})"},
        // The file does not say what the pseudo counts stood for: these are the
        // numbers that its result determines.
        LeafCase{"leaf_diag_pseudo", false,
                 R"("regularization": {"kind": "mixle"},
                    "pseudo_count": {"means": 1, "covariances": 2},
                    "prior_statistics": {"means": [0, 1],
                                         "covariances": [1, 4]})"},
        LeafCase{"leaf_mvn", true, R"("regularization": {"kind": "mixle"})"},
        LeafCase{"leaf_mvn_noridge", true,
                 R"("regularization": {"kind": "mixle", "value": 0})"}),
    [](const testing::TestParamInfo<LeafCase> &info) {
      return std::string(info.param.name);
    });

} // namespace
