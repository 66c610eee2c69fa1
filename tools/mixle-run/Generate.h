//===- Generate.h - Text from a trained model -------------------*- C++ -*-===//

#ifndef MIXLE_TOOLS_RUN_GENERATE_H
#define MIXLE_TOOLS_RUN_GENERATE_H

#include "runtime/training/Session.h"
#include "tools/mixle-run/Options.h"

#include <string>
#include <vector>

namespace mixle::tools {

/// Refuses a model or prompt that bytes do not fit: a vocabulary of more than
/// 512 entries, a byte outside a smaller one.
runtime::Status checkGeneration(const RunOptions &options,
                                const runtime::LoadedProgram &program);

/// `count` bytes, one after another, each drawn from the model's prediction
/// after the last `sequence` bytes. The same text under every plan. All ranks
/// call it together; the prompt comes first in the result.
runtime::Expected<std::string> generateText(runtime::TrainingSession &session,
                                            const RunOptions &options);

/// The index drawn from softmax(logits / temperature) by `uniform` of [0, 1);
/// the first of the largest when the temperature is 0.
runtime::Expected<int64_t> sampleIndex(const std::vector<double> &logits,
                                       double temperature, double uniform);

} // namespace mixle::tools

#endif // MIXLE_TOOLS_RUN_GENERATE_H
