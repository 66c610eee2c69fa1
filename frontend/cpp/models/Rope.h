//===- Rope.h - Rotary frequencies and their scaling ------------*- C++ -*-===//
//
// What Hugging Face calls RoPE: a pair of columns turns by position times its
// frequency. Frequencies are computed here, in double precision and by the
// project's own exponential and logarithm; Hugging Face rounds them, and the
// angles, to single precision.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_FRONTEND_MODELS_ROPE_H
#define MIXLE_FRONTEND_MODELS_ROPE_H

#include <cstdint>
#include <string>
#include <vector>

namespace mixle::frontend {

class ConfigReader;

/// rope_theta and rope_scaling, or rope_parameters.
struct RopeConfig {
  std::string type = "default"; ///< default, linear, dynamic, llama3 or yarn
  double theta = 10000;
  double factor = 1;
  double lowFrequency = 1, highFrequency = 4; ///< llama3
  double betaFast = 32, betaSlow = 1;         ///< yarn
  double attentionFactor = 1;                 ///< yarn: on cosine and sine
  bool truncate = true;                       ///< yarn
  int64_t originalPositions = 0;              ///< llama3, yarn
};

/// Reads rope_theta with rope_scaling (older files) or rope_parameters
/// (transformers 5), which may both be absent or null. `positions` is
/// max_position_embeddings. Errors: both given, a type that is not executed, by
/// name, a number that is missing or out of range, a part of the head only
/// (partial_rotary_factor), a key that is not known.
///
/// `dynamic` scales only sequences that are longer than `positions`, which no
/// program has, so it is `default` here.
RopeConfig readRope(ConfigReader &reader, int64_t positions);

/// The angle per position of each of the `headDim` / 2 pairs.
std::vector<double> ropeFrequencies(const RopeConfig &config, int64_t headDim);

} // namespace mixle::frontend

#endif // MIXLE_FRONTEND_MODELS_ROPE_H
