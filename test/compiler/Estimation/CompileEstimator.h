//===- CompileEstimator.h - Programs of estimators, in process --*- C++ -*-===//
//
// Free of MLIR, so that tests need none of its headers.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_TEST_COMPILER_ESTIMATION_COMPILEESTIMATOR_H
#define MIXLE_TEST_COMPILER_ESTIMATION_COMPILEESTIMATOR_H

#include "mixle/Status.h"
#include "runtime/program/ProgramFile.h"

#include <memory>
#include <string>

namespace mixle::test {

struct CompileSettings {
  std::string plan = "dp_replicate=1";
  /// Rows of a tile and of a block; 0 for the defaults.
  int64_t batch = 0;
  int64_t blockRows = 0;
  /// Granules of the components; 0 for the default.
  int64_t components = 0;
};

/// Compiles the program of a specification (a JSON text) and loads it, as
/// mixle-compile and mixle-run do with a file between them. The error is the
/// diagnostic.
runtime::Expected<std::shared_ptr<const runtime::LoadedProgram>>
compileEstimator(const std::string &spec, const CompileSettings &settings = {});

} // namespace mixle::test

#endif // MIXLE_TEST_COMPILER_ESTIMATION_COMPILEESTIMATOR_H
