//===- Estimation.h - A fit of an estimator ---------------------*- C++ -*-===//

#ifndef MIXLE_TOOLS_RUN_ESTIMATION_H
#define MIXLE_TOOLS_RUN_ESTIMATION_H

#include "tools/mixle-run/Options.h"
#include "tools/mixle-run/Ranks.h"

#include <memory>

namespace mixle::tools {

/// Iterations where --iterations says nothing.
inline constexpr int64_t defaultIterations = 100;

/// Fits the estimator to --data and saves it, as the options say; ends before
/// --iterations when the mean log-likelihood of a row changes by no more than
/// --tolerance. Files are checked before the first iteration. Returns the exit status;
/// errors are printed.
int runEstimation(const RunOptions &options,
                  std::shared_ptr<const runtime::LoadedProgram> program,
                  Ranks &ranks);

} // namespace mixle::tools

#endif // MIXLE_TOOLS_RUN_ESTIMATION_H
