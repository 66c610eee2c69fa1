//===- SpecTest.cpp - Estimator specifications ----------------------------===//

#include "runtime/training/data/MixtureSpec.h"

#include <gtest/gtest.h>

using namespace mixle::runtime;

namespace {

TEST(MixtureSpec, DefaultsAndRoundTrip) {
  auto spec = MixtureSpec::parseText(
      R"({"family": "gaussian_mixture", "dim": 3, "components": 2})", "spec");
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_TRUE(spec->shape.full);
  EXPECT_EQ(1 + 3 + 6, spec->shape.features());
  EXPECT_EQ(MixtureRules::Kind::absolute, spec->rules.kind);
  EXPECT_EQ(1e-6, spec->rules.regularization.value());

  const std::string all = R"({"family": "gaussian_mixture", "dim": 2,
      "components": 2, "covariance": "full",
      "regularization": {"kind": "mixle"},
      "pseudo_count": {"weights": 1, "means": 2, "covariances": 3},
      "prior_statistics": {"weights": [0.25, 0.75], "means": [1, 2],
                           "covariances": [[2, 1], [1, 2]]}})";
  auto full = MixtureSpec::parseText(all, "spec");
  ASSERT_TRUE(full.ok()) << full.status().message();
  auto again = MixtureSpec::parseText(full->asText(), "spec");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(full->asText(), again->asText());
  EXPECT_EQ((std::vector<double>{2, 1, 1, 2}), again->rules.priorCovariance);
  EXPECT_EQ((std::vector<double>{0.25, 0.75}), again->rules.priorWeights);
  EXPECT_FALSE(again->rules.regularization.has_value());
  EXPECT_EQ(3.0, again->rules.covarianceCount);

  auto fixed = MixtureSpec::parseText(
      R"({"family": "gaussian_mixture", "dim": 1, "components": 2,
          "fixed_weights": [0.5, 0.5], "pseudo_count": {"means": 1},
          "prior_statistics": {"means": [1]}})", "spec");
  ASSERT_TRUE(fixed.ok()) << fixed.status().message();
  again = MixtureSpec::parseText(fixed->asText(), "spec");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ((std::vector<double>{0.5, 0.5}), again->rules.fixedWeights);
}

struct BadSpec {
  const char *text;
  const char *message;
};

TEST(MixtureSpec, EveryMistakeIsNamed) {
  const BadSpec cases[] = {
      {"[]", "expected a JSON object"},
      {R"({"dim": 1, "components": 1})", "family is missing"},
      {R"({"family": "poisson", "dim": 1, "components": 1})",
       "family is \"poisson\"; expected \"gaussian_mixture\""},
      {R"({"family": "gaussian_mixture", "components": 1})", "dim is missing"},
      {R"({"family": "gaussian_mixture", "dim": 0, "components": 1})",
       "dim is 0; expected an integer from 1"},
      {R"({"family": "gaussian_mixture", "dim": 1.5, "components": 1})",
       "dim is 1.5"},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 0})",
       "components is 0"},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 1, "k": 2})",
       "unknown key 'k'"},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 1,
           "covariance": "tied"})",
       "covariance is \"tied\"; expected \"diag\" or \"full\""},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 1,
           "regularization": {"kind": "absolute"}})",
       "regularization: value is missing"},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 1,
           "regularization": {"kind": "ridge", "value": 1}})",
       "kind is \"ridge\""},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 1,
           "regularization": {"kind": "absolute", "value": -1}})",
       "value is -1; expected a finite number >= 0"},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 1,
           "pseudo_count": "some"})",
       "pseudo_count is \"some\""},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 1,
           "prior_statistics": {"means": [1]}})",
       "means stand for no pseudo count"},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 1,
           "pseudo_count": {"covariances": 1}})",
       "covariances are missing"},
      {R"({"family": "gaussian_mixture", "dim": 2, "components": 1,
           "pseudo_count": {"means": 1}, "prior_statistics": {"means": [1]}})",
       "means is [1]; expected a list of 2"},
      {R"({"family": "gaussian_mixture", "dim": 2, "components": 1,
           "pseudo_count": {"covariances": 1},
           "prior_statistics": {"covariances": [[1, 2], [2, 1]]}})",
       "not positive definite"},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 2,
           "fixed_weights": [0.5, 0.6]})",
       "the weights sum to 1.1"},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 2,
           "fixed_weights": [1.5, -0.5]})",
       "component 1 is -0.5"},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 2,
           "fixed_weights": [0.5, 0.5], "pseudo_count": 3})",
       "pseudo_count has no effect with fixed_weights"},
      {R"({"family": "gaussian_mixture", "dim": 1, "components": 2,
           "fixed_weights": [0.5, 0.5], "pseudo_count": {"weights": 3}})",
       "pseudo_count.weights has no effect with fixed_weights"},
      {R"({"family": "gaussian_mixture", "dim": 1, "dim": 2, "components": 2})",
       "dim"},
  };
  for (const BadSpec &bad : cases) {
    auto spec = MixtureSpec::parseText(bad.text, "spec.json");
    ASSERT_FALSE(spec.ok()) << bad.text;
    EXPECT_NE(std::string::npos, spec.status().message().find(bad.message))
        << spec.status().message() << "\nexpected: " << bad.message;
    EXPECT_EQ(0u, spec.status().message().find("spec.json"))
        << spec.status().message();
  }
}

} // namespace
