//===- Pipeline.cpp - The compile, as named phases ------------------------===//

#include "compiler/Pipeline.h"
#include "compiler/Codegen/Codegen.h"
#include "compiler/Dist/Passes.h"
#include "compiler/Emit/Emit.h"
#include "compiler/Exec/Passes.h"
#include "compiler/Mixle/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

ArrayRef<StringRef> mlir::mixle::phaseNames() {
  static const StringRef names[] = {"graph", "plan", "dist", "exec"};
  return names;
}

void mlir::mixle::addPhase(StringRef phase, OpPassManager &manager,
                           const PipelineOptions &options, bool training) {
  if (phase == "exec") {
    manager.addPass(exec::createLower());
    OpPassManager &nested = manager.nest<exec::ProgramOp>();
    nested.addPass(exec::createPlanMemory());
    nested.addPass(exec::createVerifyRanks());
    manager.addPass(exec::createVerifyClasses());
    return;
  }
  OpPassManager &nested = manager.nest<ProgramOp>();
  if (phase == "graph") {
    if (training) {
      nested.addPass(createDifferentiate());
      nested.addPass(createFormAccumulators());
    }
    nested.addPass(createDecompose());
    nested.addPass(createAssignGranules());
    if (training)
      nested.addPass(createAttachOptimizer());
  } else if (phase == "plan") {
    dist::CheckPlanOptions plan;
    plan.plan = options.plan;
    plan.precision = options.precision;
    nested.addPass(dist::createCheckPlan(plan));
  } else if (phase == "dist") {
    nested.addPass(dist::createAssignStages());
    nested.addPass(dist::createPlace());
    nested.addPass(dist::createInsertUpdates());
    nested.addPass(dist::createInsertTransfers());
    nested.addPass(dist::createVerifyUpdates());
    nested.addPass(dist::createPartition());
  }
}

static bool isTraining(ModuleOp module) {
  bool training = true;
  for (auto program : module.getOps<mlir::mixle::ProgramOp>())
    training = program.getKind() == "training";
  return training;
}

static LogicalResult dump(ModuleOp module, StringRef folder, StringRef phase) {
  if (std::error_code error = llvm::sys::fs::create_directories(folder))
    return module.emitError("cannot make the folder '")
           << folder << "': " << error.message();
  std::string path = (folder + "/" + phase + ".mlir").str(), error;
  auto file = openOutputFile(path, &error);
  if (!file)
    return module.emitError(error);
  module.print(file->os());
  llvm::raw_fd_ostream &stream = file->os();
  stream.flush();
  if (std::error_code failure = stream.error()) {
    // Or the stream's end would abort.
    stream.clear_error();
    return module.emitError("cannot write '") << path << "': " << failure.message();
  }
  file->keep();
  return success();
}

LogicalResult mlir::mixle::runPhases(ModuleOp module,
                                     const PipelineOptions &options) {
  if (!options.stopAfter.empty() &&
      !llvm::is_contained(phaseNames(), options.stopAfter))
    return module.emitError("unknown phase '")
           << options.stopAfter << "'; phases are graph, plan, dist and exec";
  bool training = isTraining(module);
  for (StringRef phase : phaseNames()) {
    PassManager manager(module.getContext());
    addPhase(phase, manager, options, training);
    if (failed(manager.run(module)))
      return failure();
    if (!options.dumpTo.empty() && failed(dump(module, options.dumpTo, phase)))
      return failure();
    if (phase == options.stopAfter)
      break;
  }
  return success();
}

LogicalResult mlir::mixle::emitModule(ModuleOp module,
                                      const PipelineOptions &options,
                                      ::mixle::runtime::fb::ProgramT &out) {
  SmallVector<exec::ProgramOp> classes(module.getOps<exec::ProgramOp>());
  if (classes.empty())
    return module.emitError("has no exec.program to emit");
  // Rank classes share kernels by name.
  SmallVector<exec::KernelOp> kernels;
  llvm::StringSet<> names;
  for (exec::ProgramOp program : classes)
    for (auto kernel : program.getOps<exec::KernelOp>())
      if (names.insert(kernel.getSymName()).second)
        kernels.push_back(kernel);
  CodegenOptions codegen;
  codegen.cpu = options.cpu;
  auto compiled = compileKernels(kernels, codegen);
  if (failed(compiled))
    return failure();
  return exec::emitProgram(classes, *compiled, out);
}

namespace {
struct RegisteredOptions : PassPipelineOptions<RegisteredOptions> {
  Option<std::string> plan{*this, "plan",
                           llvm::cl::desc("The plan, e.g. dp_replicate=2,tp=2"),
                           llvm::cl::init("")};
  Option<std::string> precision{*this, "precision",
                                llvm::cl::desc("fp32 or fp64"),
                                llvm::cl::init("fp32")};
  Option<std::string> stopAfter{
      *this, "stop-after", llvm::cl::desc("graph, plan, dist or exec"),
      llvm::cl::init("exec")};
  Option<bool> estimation{*this, "estimation",
                          llvm::cl::desc("The program is an estimator"),
                          llvm::cl::init(false)};
};
} // namespace

void mlir::mixle::registerAllPasses() {
  registerMixlePasses();
  dist::registerDistPasses();
  exec::registerExecPasses();
  registerCodegenPasses();
  registerTransformsPasses();
  PassPipelineRegistration<RegisteredOptions>(
      "mixle-pipeline", "The phases of a compile, up to `stop-after`",
      [](OpPassManager &manager, const RegisteredOptions &registered) {
        PipelineOptions options;
        options.plan = registered.plan;
        options.precision = registered.precision;
        for (StringRef phase : phaseNames()) {
          addPhase(phase, manager, options, !registered.estimation);
          if (phase == registered.stopAfter)
            break;
        }
      });
}
