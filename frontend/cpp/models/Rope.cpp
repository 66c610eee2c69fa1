//===- Rope.cpp - Rotary frequencies and their scaling --------------------===//

#include "frontend/cpp/models/Rope.h"

#include "frontend/cpp/models/ConfigReader.h"
#include "runtime/kernels/Math.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace llvm;

namespace mixle::frontend {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kMaximumPositions = (int64_t(1) << 31) - 1;

/// One of a key's two spellings, or the fallback. Errors: they differ.
std::string eitherText(ConfigReader &reader, StringRef key, StringRef other,
                       const std::string &fallback) {
  bool both = !reader.isNullOrAbsent(key) && !reader.isNullOrAbsent(other);
  std::string second = reader.isNullOrAbsent(other)
                           ? fallback
                           : reader.string(other, std::nullopt);
  std::string first =
      reader.isNullOrAbsent(key) ? second : reader.string(key, std::nullopt);
  if (both && first != second)
    reader.fail(other, "is another name of '" + key + "', which is " + first);
  return first;
}

void readYarn(ConfigReader &reader, RopeConfig &config) {
  auto optional = [&](StringRef key, double fallback) {
    return reader.isNullOrAbsent(key) ? fallback : reader.positiveReal(key);
  };
  // Zero means the default, as in transformers.
  auto orDefault = [&](StringRef key, double fallback) {
    if (reader.isNullOrAbsent(key))
      return fallback;
    double value = reader.nonNegative(key, fallback);
    return value == 0 ? fallback : value;
  };
  config.betaFast = orDefault("beta_fast", 32);
  config.betaSlow = orDefault("beta_slow", 1);
  config.truncate = reader.isNullOrAbsent("truncate")
                        ? true
                        : reader.boolean("truncate", true);
  auto scaleOf = [&](double m) {
    return config.factor <= 1 ? 1.0 : 0.1 * m * math::log(config.factor) + 1.0;
  };
  double m = orDefault("mscale", 0), all = orDefault("mscale_all_dim", 0);
  double inferred = m != 0 && all != 0 ? scaleOf(m) / scaleOf(all) : scaleOf(1);
  config.attentionFactor = optional("attention_factor", inferred);
}

/// The keys of rope_scaling or rope_parameters.
void readScaling(ConfigReader &reader, RopeConfig &config, int64_t positions) {
  config.type = eitherText(reader, "rope_type", "type", "default");
  if (!reader.isNullOrAbsent("rope_theta")) {
    double theta = reader.positiveReal("rope_theta");
    config.theta = theta;
  }
  if (!reader.isNullOrAbsent("partial_rotary_factor") &&
      reader.nonNegative("partial_rotary_factor", 1) != 1)
    reader.fail("partial_rotary_factor",
                "is not executed: all columns of a head turn; set it to 1");
  if (config.type == "default") {
    reader.finish();
    return;
  }
  if (config.type != "linear" && config.type != "dynamic" &&
      config.type != "llama3" && config.type != "yarn")
    reader.fail(reader.has("rope_type") ? "rope_type" : "type",
                "is not executed; known are default, linear, dynamic, llama3 "
                "and yarn");
  if (config.type == "yarn" && reader.isNullOrAbsent("factor"))
    config.factor = 0; // from the lengths, below
  else
    config.factor = reader.positiveReal("factor");
  if (config.type == "llama3" || config.type == "yarn")
    config.originalPositions =
        reader.isNullOrAbsent("original_max_position_embeddings")
            ? positions
            : reader.positive("original_max_position_embeddings", positions,
                              kMaximumPositions);
  if (config.factor == 0)
    config.factor = static_cast<double>(positions) /
                    static_cast<double>(config.originalPositions);
  if (config.type == "llama3") {
    config.lowFrequency = reader.positiveReal("low_freq_factor");
    config.highFrequency = reader.positiveReal("high_freq_factor");
    if (config.highFrequency <= config.lowFrequency)
      reader.fail("high_freq_factor", "must be greater than low_freq_factor");
  }
  if (config.type == "yarn")
    readYarn(reader, config);
  reader.finish();
}

void scaleLlama3(const RopeConfig &config, std::vector<double> &frequencies) {
  double length = static_cast<double>(config.originalPositions);
  double longest = length / config.lowFrequency;
  double shortest = length / config.highFrequency;
  for (double &f : frequencies) {
    double wave = 2 * kPi / f;
    if (wave > longest) {
      f = f / config.factor;
    } else if (!(wave < shortest)) {
      double smooth = (length / wave - config.lowFrequency) /
                      (config.highFrequency - config.lowFrequency);
      f = (1 - smooth) * f / config.factor + smooth * f;
    }
  }
}

void scaleYarn(const RopeConfig &config, int64_t headDim,
               std::vector<double> &frequencies) {
  auto dim = static_cast<double>(headDim);
  auto columnOf = [&](double turns) {
    double length = static_cast<double>(config.originalPositions);
    return dim * math::log(length / (turns * 2 * kPi)) /
           (2 * math::log(config.theta));
  };
  double low = columnOf(config.betaFast), high = columnOf(config.betaSlow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high)
    high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double ramp = (static_cast<double>(i) - low) / (high - low);
    double kept = 1 - std::min(std::max(ramp, 0.0), 1.0);
    double f = frequencies[i];
    frequencies[i] = f / config.factor * (1 - kept) + f * kept;
  }
}

} // namespace

RopeConfig readRope(ConfigReader &reader, int64_t positions) {
  RopeConfig config;
  bool older = !reader.isNullOrAbsent("rope_scaling");
  bool newer = !reader.isNullOrAbsent("rope_parameters");
  if (older && newer)
    reader.fail("rope_scaling", "is the older name of 'rope_parameters', which "
                                "is given too");
  bool outside = !reader.isNullOrAbsent("rope_theta");
  if (outside)
    config.theta = reader.positiveReal("rope_theta");
  if (!reader.isNullOrAbsent("partial_rotary_factor") &&
      reader.nonNegative("partial_rotary_factor", 1) != 1)
    reader.fail("partial_rotary_factor",
                "is not executed: all columns of a head turn; set it to 1");
  if (!older && !newer)
    return config;
  double theta = config.theta;
  ConfigReader scaling =
      reader.object(older ? "rope_scaling" : "rope_parameters");
  readScaling(scaling, config, positions);
  if (outside && config.theta != theta)
    scaling.fail("rope_theta", "is not the rope_theta beside it, " +
                                   Twine(std::to_string(theta)));
  return config;
}

std::vector<double> ropeFrequencies(const RopeConfig &config, int64_t headDim) {
  std::vector<double> frequencies;
  double slope = -math::log(config.theta) / static_cast<double>(headDim);
  for (int64_t i = 0; i < headDim; i += 2)
    frequencies.push_back(math::exp(static_cast<double>(i) * slope));
  if (config.type == "linear")
    for (double &f : frequencies)
      f /= config.factor;
  if (config.type == "llama3")
    scaleLlama3(config, frequencies);
  if (config.type == "yarn")
    scaleYarn(config, headDim, frequencies);
  return frequencies;
}

} // namespace mixle::frontend
