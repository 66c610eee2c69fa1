//===- Generate.cpp - Text from a trained model ---------------------------===//

#include "tools/mixle-run/Generate.h"
#include "runtime/base/KeyValues.h"
#include "runtime/kernels/Math.h"
#include "runtime/kernels/Random.h"

#include <algorithm>
#include <cmath>

namespace mixle::tools {

using namespace runtime;

/// More words than this are no bytes with a few special ones.
static constexpr int64_t largestByteVocabulary = 512;

static std::string promptOf(const RunOptions &options) {
  return options.prompt.empty() ? "\n" : options.prompt;
}

Status checkGeneration(const RunOptions &options,
                       const LoadedProgram &program) {
  if (!program.findEntry("predict"))
    return Status::error("--generate: program '" + program.path +
                         "' has no entry 'predict'");
  std::string text = program.config("vocabulary");
  MIXLE_ASSIGN_OR_RETURN(int64_t vocabulary,
                         parseInteger(text, "the program's vocabulary"));
  if (vocabulary > largestByteVocabulary)
    return Status::error("--generate prints bytes, but the vocabulary of "
                         "program '" +
                         program.path + "' has " + text + " entries");
  for (unsigned char byte : promptOf(options))
    if (byte >= vocabulary)
      return Status::error("--prompt: byte " + std::to_string(byte) +
                           " is outside the vocabulary [0, " + text + ")");
  return Status::success();
}

Expected<int64_t> sampleIndex(const std::vector<double> &logits,
                              double temperature, double uniform) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i]))
      return Status::error("the model's logit of token " + std::to_string(i) +
                           " is " + std::to_string(logits[i]));
    if (logits[i] > logits[best])
      best = i;
  }
  if (temperature == 0)
    return static_cast<int64_t>(best);
  std::vector<double> weights(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = math::exp((logits[i] - logits[best]) / temperature);
    total += weights[i];
  }
  double reached = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    reached += weights[i];
    if (uniform * total < reached)
      return static_cast<int64_t>(i);
  }
  return static_cast<int64_t>(best); // rounding at the very end
}

Expected<std::string> generateText(TrainingSession &session,
                                   const RunOptions &options) {
  std::string text = promptOf(options);
  const auto sequence = static_cast<size_t>(session.sequence());
  const int64_t bytes = std::min<int64_t>(session.vocabulary(), 256);
  const uint64_t id = logicalIdHash("generated text");
  for (int64_t i = 0; i < *options.generate; ++i) {
    // Padding on the right: a causal model does not look there.
    size_t length = std::min(text.size(), sequence);
    std::vector<int32_t> window(sequence, 0);
    for (size_t j = 0; j < length; ++j)
      window[j] = static_cast<unsigned char>(text[text.size() - length + j]);
    MIXLE_RETURN_IF_ERROR(session.predict(window.data(), 1));
    MIXLE_ASSIGN_OR_RETURN(std::vector<double> logits,
                           session.logits(0, static_cast<int64_t>(length) - 1));
    logits.resize(static_cast<size_t>(bytes));
    double uniform = 0;
    philoxUniform(options.seed, id, static_cast<uint64_t>(i), 1, 0.0, 1.0,
                  &uniform);
    MIXLE_ASSIGN_OR_RETURN(int64_t next,
                           sampleIndex(logits, options.temperature, uniform));
    text.push_back(static_cast<char>(next));
  }
  return text;
}

} // namespace mixle::tools
