//===- Pipeline.h - The compile, as named phases ----------------*- C++ -*-===//
//
// graph   differentiate, form accumulators, decompose, granules, optimizer
// plan    the plan against backend and program; the mesh
// dist    placements, updates, exactness, local shapes
// exec    commands, memory, rank verification
// emit    kernels compiled, program file
//
// Every phase is a sequence of passes that mixle-opt runs by name too; each ends
// in a check of its own.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_PIPELINE_H
#define MIXLE_COMPILER_PIPELINE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/schema/program_generated.h"
#include <string>

namespace mlir::mixle {

struct PipelineOptions {
  std::string plan;                ///< "dp_replicate=2,tp=2"
  std::string precision = "fp32";  ///< for the capability check
  std::string stopAfter;           ///< graph, plan, dist or exec; "" = all
  std::string dumpTo;              ///< folder for one .mlir file per phase
  std::string cpu = "native";      ///< target of the kernels
};

/// The phases before emission, in order.
ArrayRef<StringRef> phaseNames();

/// Adds one phase's passes. `module` passes nest as they need.
void addPhase(StringRef phase, OpPassManager &manager,
              const PipelineOptions &options, bool training);

/// Runs the phases up to `stopAfter` on a module with one mixle.program; an
/// error has been reported as a diagnostic.
LogicalResult runPhases(ModuleOp module, const PipelineOptions &options);

/// Compiles the kernels of a module that runPhases has taken through exec, and
/// fills the program file's tables.
LogicalResult emitModule(ModuleOp module, const PipelineOptions &options,
                         ::mixle::runtime::fb::ProgramT &out);

/// Registers every pass and the pipeline `mixle-pipeline`.
void registerAllPasses();

} // namespace mlir::mixle

#endif // MIXLE_COMPILER_PIPELINE_H
