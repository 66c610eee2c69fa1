//===- Training.h - A training run ------------------------------*- C++ -*-===//

#ifndef MIXLE_TOOLS_RUN_TRAINING_H
#define MIXLE_TOOLS_RUN_TRAINING_H

#include "tools/mixle-run/Options.h"
#include "tools/mixle-run/Ranks.h"

#include <memory>

namespace mixle::tools {

/// Trains, evaluates, saves and generates, as the options say. Whatever can be
/// found wrong with files is found before the first step. Returns the exit
/// status; errors are printed.
int runTraining(const RunOptions &options,
                std::shared_ptr<const runtime::LoadedProgram> program,
                Ranks &ranks);

} // namespace mixle::tools

#endif // MIXLE_TOOLS_RUN_TRAINING_H
