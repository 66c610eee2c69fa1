//===- MixtureSpec.cpp - A Gaussian mixture as users write it -------------===//

#include "runtime/training/data/MixtureSpec.h"
#include "runtime/base/KeyValues.h"

#include <cmath>
#include <set>

namespace mixle::runtime {

namespace {

/// Largest sizes: far beyond what is useful, and small enough that K F fits.
constexpr int64_t maxDim = 4096, maxComponents = 1 << 16;

/// Reads one object key by key; a key that nobody asked for is an error.
class ObjectReader {
public:
  ObjectReader(const Json &object, std::string what)
      : object(object), what(std::move(what)) {}

  Status requireKnown(std::initializer_list<const char *> keys) const {
    if (!object.is_object())
      return Status::error(what + ": expected a JSON object, got " +
                           object.dump());
    std::string list;
    std::set<std::string> known;
    for (const char *key : keys) {
      known.insert(key);
      list += (list.empty() ? "" : ", ") + std::string(key);
    }
    for (const auto &item : object.items())
      if (!known.count(item.key()))
        return Status::error(what + ": unknown key '" + item.key() +
                             "'; expected " + list);
    return Status::success();
  }

  /// Null when the key is absent or null.
  const Json *find(const char *key) const {
    auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  }

  Status fail(const char *key, const std::string &message) const {
    return Status::error(what + ": " + key + " " + message);
  }

  Expected<int64_t> size(const char *key, int64_t maximum) const {
    const Json *value = find(key);
    const std::string expected =
        "an integer from 1 to " + std::to_string(maximum);
    if (!value)
      return fail(key, "is missing; expected " + expected);
    if (!value->is_number_integer() || *value < 1 || *value > maximum)
      return fail(key, "is " + value->dump() + "; expected " + expected);
    return value->get<int64_t>();
  }

  Expected<std::string> choice(const char *key, const char *fallback,
                               std::initializer_list<const char *> all) const {
    const Json *value = find(key);
    if (!value && fallback)
      return std::string(fallback);
    std::string list;
    for (const char *name : all) {
      if (value && *value == name)
        return std::string(name);
      list += (list.empty() ? "" : " or ") + ('"' + std::string(name) + '"');
    }
    return fail(key, (value ? "is " + value->dump() : "is missing") +
                         "; expected " + list);
  }

  /// A finite number >= 0, or the fallback.
  Expected<double> nonNegative(const char *key, double fallback) const {
    const Json *value = find(key);
    if (!value)
      return fallback;
    double number = value->is_number() ? value->get<double>() : -1;
    if (!std::isfinite(number) || number < 0)
      return fail(key,
                  "is " + value->dump() + "; expected a finite number >= 0");
    return number;
  }

  /// A list of finite numbers, flattened if it holds lists of `inner`; empty when
  /// absent.
  Expected<std::vector<double>> list(const char *key, int64_t length,
                                     int64_t inner = 0) const {
    std::vector<double> values;
    const Json *value = find(key);
    if (!value)
      return values;
    std::string expected = "a list of " + std::to_string(length) +
                           (inner ? " lists of " + std::to_string(inner) : "") +
                           " finite numbers";
    auto append = [&](const Json &item) {
      values.push_back(item.is_number() ? item.get<double>() : NAN);
      return std::isfinite(values.back());
    };
    auto sized = [](const Json &item, int64_t n) {
      return item.is_array() && static_cast<int64_t>(item.size()) == n;
    };
    bool good = sized(*value, length);
    if (good)
      for (const Json &item : *value) {
        if (inner == 0) {
          good &= append(item);
          continue;
        }
        good &= sized(item, inner);
        if (good)
          for (const Json &number : item)
            good &= append(number);
      }
    if (!good)
      return fail(key, "is " + value->dump() + "; expected " + expected);
    return values;
  }

private:
  const Json &object;
  std::string what;
};

Status readRegularization(const ObjectReader &reader, const std::string &what,
                          MixtureRules &rules) {
  const Json *value = reader.find("regularization");
  if (!value) {
    rules.regularization = 1e-6;
    return Status::success();
  }
  ObjectReader inner(*value, what + ": regularization");
  MIXLE_RETURN_IF_ERROR(inner.requireKnown({"kind", "value"}));
  MIXLE_ASSIGN_OR_RETURN(std::string kind,
                         inner.choice("kind", nullptr, {"absolute", "mixle"}));
  MIXLE_ASSIGN_OR_RETURN(double number, inner.nonNegative("value", 0));
  if (inner.find("value"))
    rules.regularization = number;
  if (kind == "mixle")
    rules.kind = MixtureRules::Kind::mixle;
  else if (!rules.regularization)
    return inner.fail("value", "is missing; expected the number that is added "
                               "to every variance");
  return Status::success();
}

Status readPriors(const ObjectReader &reader, const std::string &what,
                  MixtureSpec &spec) {
  MixtureRules &rules = spec.rules;
  if (const Json *value = reader.find("pseudo_count")) {
    if (value->is_object()) {
      ObjectReader inner(*value, what + ": pseudo_count");
      MIXLE_RETURN_IF_ERROR(
          inner.requireKnown({"weights", "means", "covariances"}));
      MIXLE_ASSIGN_OR_RETURN(rules.weightCount,
                             inner.nonNegative("weights", 0));
      MIXLE_ASSIGN_OR_RETURN(rules.meanCount, inner.nonNegative("means", 0));
      MIXLE_ASSIGN_OR_RETURN(rules.covarianceCount,
                             inner.nonNegative("covariances", 0));
    } else {
      MIXLE_ASSIGN_OR_RETURN(rules.weightCount,
                             reader.nonNegative("pseudo_count", 0));
    }
  }
  const Json none = Json::object();
  const Json *value = reader.find("prior_statistics");
  if (!value)
    value = &none;
  const std::string where = what + ": prior_statistics";
  ObjectReader inner(*value, where);
  MIXLE_RETURN_IF_ERROR(
      inner.requireKnown({"weights", "means", "covariances"}));
  struct {
    const char *key;
    double count;
  } const pairs[] = {{"weights", rules.weightCount},
                     {"means", rules.meanCount},
                     {"covariances", rules.covarianceCount}};
  for (const auto &pair : pairs)
    if (inner.find(pair.key) && pair.count == 0)
      return inner.fail(pair.key, "stand for no pseudo count; give "
                                  "pseudo_count." +
                                      std::string(pair.key) + " > 0");
  // Weights have a natural prior, means and covariances have none.
  for (const char *key : {"means", "covariances"}) {
    const double count =
        key == std::string("means") ? rules.meanCount : rules.covarianceCount;
    if (count > 0 && !inner.find(key))
      return inner.fail(key, "are missing; a pseudo count of " +
                                 std::string(key) +
                                 " needs what it stands for");
  }
  int64_t dim = spec.shape.dim;
  MIXLE_ASSIGN_OR_RETURN(rules.priorWeights,
                         inner.list("weights", spec.components));
  MIXLE_ASSIGN_OR_RETURN(rules.priorMean, inner.list("means", dim));
  MIXLE_ASSIGN_OR_RETURN(
      rules.priorCovariance,
      inner.list("covariances", dim, spec.shape.full ? dim : 0));
  if (!rules.priorWeights.empty())
    MIXLE_RETURN_IF_ERROR(checkWeights(rules.priorWeights, spec.components)
                              .withContext(where + ": weights"));
  if (!rules.priorCovariance.empty())
    MIXLE_RETURN_IF_ERROR(
        checkCovariance(spec.shape, rules.priorCovariance.data())
            .withContext(where + ": covariances"));
  return Status::success();
}

} // namespace

Status checkWeights(const std::vector<double> &weights, int64_t components) {
  if (static_cast<int64_t>(weights.size()) != components)
    return Status::error(std::to_string(weights.size()) + " weights for " +
                         std::to_string(components) + " components");
  double sum = 0;
  for (size_t k = 0; k < weights.size(); ++k) {
    if (!std::isfinite(weights[k]) || weights[k] < 0)
      return Status::error("the weight of component " + std::to_string(k) +
                           " is " + numberText(weights[k]) +
                           "; expected a finite number >= 0");
    sum += weights[k];
  }
  if (!(std::fabs(sum - 1) <= 1e-6))
    return Status::error("the weights sum to " + numberText(sum) +
                         "; expected 1");
  return Status::success();
}

Status checkCovariance(const MixtureShape &shape, const double *covariance) {
  const int64_t d = shape.dim;
  if (shape.full)
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j < i; ++j) {
        double difference = covariance[i * d + j] - covariance[j * d + i];
        double size = std::sqrt(std::fabs(covariance[i * d + i])) *
                      std::sqrt(std::fabs(covariance[j * d + j]));
        if (!(std::fabs(difference) <= 1e-8 * size))
          return Status::error("the matrix is not symmetric at [" +
                               std::to_string(i) + ", " + std::to_string(j) +
                               "]");
      }
  if (firstIndefinite(shape, 1, covariance) >= 0)
    return Status::error(shape.full
                             ? "the matrix is not positive definite to working "
                               "precision"
                             : "a variance is not a finite number above 0");
  return Status::success();
}

Expected<MixtureSpec> MixtureSpec::parse(const Json &json,
                                         const std::string &what) {
  ObjectReader reader(json, what);
  MIXLE_RETURN_IF_ERROR(reader.requireKnown(
      {"family", "dim", "components", "covariance", "regularization",
       "pseudo_count", "prior_statistics", "fixed_weights"}));
  MIXLE_RETURN_IF_ERROR(
      reader.choice("family", nullptr, {"gaussian_mixture"}).status());
  MixtureSpec spec;
  MIXLE_ASSIGN_OR_RETURN(spec.shape.dim, reader.size("dim", maxDim));
  MIXLE_ASSIGN_OR_RETURN(spec.components,
                         reader.size("components", maxComponents));
  MIXLE_ASSIGN_OR_RETURN(std::string covariance,
                         reader.choice("covariance", "full", {"diag", "full"}));
  spec.shape.full = covariance == "full";
  MIXLE_RETURN_IF_ERROR(readRegularization(reader, what, spec.rules));
  MIXLE_RETURN_IF_ERROR(readPriors(reader, what, spec));
  MIXLE_ASSIGN_OR_RETURN(spec.rules.fixedWeights,
                         reader.list("fixed_weights", spec.components));
  if (!spec.rules.fixedWeights.empty() && spec.rules.weightCount > 0)
    return Status::error(what + ": pseudo_count" +
                         (reader.find("pseudo_count")->is_object() ? ".weights" : "") +
                         " has no effect with fixed_weights, which are not "
                         "estimated; leave one of them out");
  if (!spec.rules.fixedWeights.empty())
    MIXLE_RETURN_IF_ERROR(checkWeights(spec.rules.fixedWeights, spec.components)
                              .withContext(what + ": fixed_weights"));
  return spec;
}

Expected<MixtureSpec> MixtureSpec::parseText(const std::string &text,
                                             const std::string &what) {
  MIXLE_ASSIGN_OR_RETURN(Json json, parseJson(text, what));
  return parse(json, what);
}

std::string MixtureSpec::asText() const {
  Json json = Json::object();
  json["family"] = "gaussian_mixture";
  json["dim"] = shape.dim;
  json["components"] = components;
  json["covariance"] = shape.full ? "full" : "diag";
  Json regularization = Json::object();
  regularization["kind"] =
      rules.kind == MixtureRules::Kind::mixle ? "mixle" : "absolute";
  if (rules.regularization)
    regularization["value"] = *rules.regularization;
  json["regularization"] = regularization;
  Json counts = Json::object(), priors = Json::object();
  auto add = [&](const char *key, double count,
                 const std::vector<double> &prior, int64_t inner) {
    if (!(count > 0))
      return;
    counts[key] = count;
    if (prior.empty())
      return;
    if (inner == 0) {
      priors[key] = prior;
      return;
    }
    Json rows = Json::array();
    for (auto row = prior.begin(); row != prior.end(); row += inner)
      rows.push_back(std::vector<double>(row, row + inner));
    priors[key] = rows;
  };
  add("weights", rules.weightCount, rules.priorWeights, 0);
  add("means", rules.meanCount, rules.priorMean, 0);
  add("covariances", rules.covarianceCount, rules.priorCovariance,
      shape.full ? shape.dim : 0);
  if (!counts.empty())
    json["pseudo_count"] = counts;
  if (!priors.empty())
    json["prior_statistics"] = priors;
  if (!rules.fixedWeights.empty())
    json["fixed_weights"] = rules.fixedWeights;
  return json.dump();
}

} // namespace mixle::runtime
