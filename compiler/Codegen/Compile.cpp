//===- Compile.cpp - LLVM dialect to an ELF shared object -----------------===//

#include "compiler/Codegen/Codegen.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace mlir::mixle;

namespace {

/// Every level includes those before it. A level below v3 has no fused
/// multiply-add, which every elementary function is made of.
struct CpuLevel {
  StringLiteral name;
  std::vector<std::string> features;
};

const std::vector<CpuLevel> &cpuLevels() {
  static const std::vector<CpuLevel> levels = [] {
    std::vector<std::string> v3 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt",
                                   "avx",  "avx2",  "bmi",    "bmi2",   "f16c",
                                   "fma",  "lzcnt", "movbe"};
    std::vector<std::string> v4 = v3;
    v4.insert(v4.end(),
              {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
    return std::vector<CpuLevel>{{"x86-64-v3", v3}, {"x86-64-v4", v4}};
  }();
  return levels;
}

/// The level asked for; for "native" the highest that the machine has. Code for a
/// level runs on every machine of it, which code for one machine would not.
FailureOr<CpuLevel> chooseLevel(Location loc, StringRef cpu) {
  if (cpu != "native") {
    for (const CpuLevel &level : cpuLevels())
      if (level.name == cpu)
        return level;
    return emitError(loc) << "unknown cpu '" << cpu
                          << "'; expected native, x86-64-v3 or x86-64-v4";
  }
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  for (const CpuLevel &level : llvm::reverse(cpuLevels()))
    if (llvm::all_of(level.features, [&](const std::string &feature) {
          return host.lookup(feature);
        }))
      return level;
  return emitError(loc)
         << "this machine has no AVX2 and FMA, which compiled kernels need; "
            "compile for another with cpu x86-64-v3";
}

/// Temporary files, removed whatever happens.
struct TemporaryFile {
  SmallString<128> path;
  std::error_code create(StringRef suffix) {
    std::error_code error =
        llvm::sys::fs::createTemporaryFile("mixle-kernels", suffix, path);
    return error;
  }
  ~TemporaryFile() {
    if (!path.empty())
      llvm::sys::fs::remove(path);
  }
};

LogicalResult optimize(Location loc, llvm::Module &module,
                       llvm::TargetMachine &machine, unsigned level) {
  llvm::PipelineTuningOptions tuning;
  // Kernels are vectors already; these would only take time.
  tuning.LoopVectorization = false;
  tuning.LoopInterleaving = false;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  using Level = llvm::OptimizationLevel;
  Level levels[] = {Level::O0, Level::O1, Level::O2, Level::O3};
  if (level > 3)
    return emitError(loc) << "optimization level " << level
                          << " is none of 0, 1, 2, 3";
  llvm::ModulePassManager passes =
      level == 0 ? builder.buildO0DefaultPipeline(Level::O0)
                 : builder.buildPerModuleDefaultPipeline(levels[level]);
  passes.run(module, modules);
  return success();
}

/// What TargetMachine::addPassesToEmitFile does, without the scheduler of
/// machine instructions: to save registers it puts the chains of a vector's
/// parts one after the other, and each then waits for its own multiply-adds. In
/// the order that kernels are written in, the parts take turns: gelu and its
/// gradient take two thirds of the time. No order changes a result.
LogicalResult addObjectPasses(llvm::legacy::PassManager &passes,
                              llvm::raw_pwrite_stream &stream,
                              llvm::TargetMachine &machine) {
  auto *info = new llvm::MachineModuleInfoWrapperPass(&machine);
  llvm::TargetPassConfig *config = machine.createPassConfig(passes);
  config->disablePass(&llvm::MachineSchedulerID);
  passes.add(config); // owns both
  passes.add(info);
  if (config->addISelPasses())
    return failure();
  config->addMachinePasses();
  config->setInitialized();
  if (machine.addAsmPrinter(passes, stream, nullptr,
                            llvm::CodeGenFileType::ObjectFile,
                            info->getMMI().getContext()))
    return failure();
  passes.add(llvm::createFreeMachineFunctionPass());
  return success();
}

LogicalResult writeObject(Location loc, llvm::Module &module,
                          llvm::TargetMachine &machine, StringRef path) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (error)
    return emitError(loc) << "cannot write '" << path
                          << "': " << error.message();
  llvm::legacy::PassManager passes;
  if (failed(addObjectPasses(passes, stream, machine)))
    return emitError(loc, "LLVM cannot write object files for this target");
  passes.run(module);
  stream.close();
  if (stream.has_error()) {
    error = stream.error();
    stream.clear_error();
    return emitError(loc) << "cannot write '" << path
                          << "': " << error.message();
  }
  return success();
}

FailureOr<std::string> findLinker(Location loc) {
  if (llvm::sys::fs::can_execute(MIXLE_LLD_PATH))
    return std::string(MIXLE_LLD_PATH);
  for (StringRef name : {"ld.lld-22", "ld.lld"})
    if (auto path = llvm::sys::findProgramByName(name))
      return *path;
  return emitError(loc) << "the linker ld.lld was neither found at '"
                        << MIXLE_LLD_PATH
                        << "' nor on PATH as ld.lld-22 or ld.lld; install the "
                           "package lld-22";
}

FailureOr<std::vector<char>> link(Location loc, StringRef object) {
  FailureOr<std::string> linker = findLinker(loc);
  if (failed(linker))
    return failure();
  TemporaryFile library, messages;
  if (std::error_code error = library.create("so"))
    return emitError(loc) << "cannot make a temporary file: "
                          << error.message();
  if (std::error_code error = messages.create("txt"))
    return emitError(loc) << "cannot make a temporary file: "
                          << error.message();
  StringRef arguments[] = {*linker,         "-shared", "--build-id=none",
                           "-z",            "now",     "-z",
                           "noexecstack",   "--strip-all", object,
                           "-o",            library.path};
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(messages.path),
                                          StringRef(messages.path)};
  std::string problem;
  int status = llvm::sys::ExecuteAndWait(*linker, arguments, std::nullopt,
                                         redirects, 0, 0, &problem);
  if (status != 0) {
    if (auto text = llvm::MemoryBuffer::getFile(messages.path))
      problem += (*text)->getBuffer().rtrim();
    return emitError(loc) << "'" << *linker << "' failed with status " << status
                          << ": " << problem;
  }
  auto linked = llvm::MemoryBuffer::getFile(library.path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!linked)
    return emitError(loc) << "cannot read the linked kernels '" << library.path
                          << "': " << linked.getError().message();
  StringRef bytes = (*linked)->getBuffer();
  return std::vector<char>(bytes.begin(), bytes.end());
}

} // namespace

FailureOr<CompiledKernels>
mlir::mixle::compileKernels(ArrayRef<exec::KernelOp> kernels,
                            const CodegenOptions &options) {
  if (kernels.empty())
    return CompiledKernels{{}, {}, {}, {}};
  exec::KernelOp first = kernels.front();
  Location loc = first.getLoc();
  MLIRContext *context = first->getContext();
  FailureOr<CpuLevel> level = chooseLevel(loc, options.cpu);
  if (failed(level))
    return failure();

  DialectRegistry registry;
  registerCodegenDialects(registry);
  context->appendDialectRegistry(registry);
  FailureOr<OwningOpRef<ModuleOp>> lowered = lowerKernels(context, kernels);
  if (failed(lowered))
    return failure();
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(**lowered, llvmContext, "kernels");
  if (!module)
    return emitError(loc, "the kernels could not be translated to LLVM IR");
  lowered->release().erase();

  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string problem;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, problem);
  if (!target)
    return emitError(loc) << "LLVM has no x86-64 target: " << problem;
  llvm::TargetOptions targetOptions;
  // Multiply-adds are those that the kernels write, no more and no fewer.
  targetOptions.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, level->name, "", targetOptions, llvm::Reloc::PIC_, std::nullopt,
      options.optimizationLevel == 0 ? llvm::CodeGenOptLevel::None
                                     : llvm::CodeGenOptLevel::Default));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  module->setPICLevel(llvm::PICLevel::BigPIC);
  for (llvm::Function &function : *module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", level->name);
      // Left alone, LLVM halves 512-bit vectors on this level.
      if (level->name == "x86-64-v4")
        function.addFnAttr("prefer-vector-width", "512");
    }
  if (failed(optimize(loc, *module, *machine, options.optimizationLevel)))
    return failure();

  TemporaryFile object;
  if (std::error_code error = object.create("o"))
    return emitError(loc) << "cannot make a temporary file: "
                          << error.message();
  if (failed(writeObject(loc, *module, *machine, object.path)))
    return failure();
  FailureOr<std::vector<char>> elf = link(loc, object.path);
  if (failed(elf))
    return failure();
  CompiledKernels result{std::move(*elf), level->name.str(), level->features, {}};
  for (exec::KernelOp kernel : kernels)
    result.symbols.push_back(kernel.getSymName().str());
  return result;
}
