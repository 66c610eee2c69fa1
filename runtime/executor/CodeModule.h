//===- CodeModule.h - Compiled kernels of a program -------------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_EXECUTOR_CODEMODULE_H
#define MIXLE_RUNTIME_EXECUTOR_CODEMODULE_H

#include "mixle/Status.h"
#include "runtime/program/ProgramFile.h"

#include <memory>
#include <string>

namespace mixle::runtime {

/// A kernel: inputs then outputs, and its scalars.
using KernelFunction = void (*)(void *const *buffers, const int64_t *scalars);

/// A program's code object, loaded into this process once however many ranks
/// use it, and unloaded with the last of them.
class CodeModule {
public:
  /// Loads the first code object of which this CPU has every feature. Errors:
  /// none of them, naming the feature that is missing; what the system's loader
  /// says. Null for a program without kernels.
  static Expected<std::shared_ptr<CodeModule>>
  load(const LoadedProgram &program);
  ~CodeModule();

  CodeModule(const CodeModule &) = delete;
  CodeModule &operator=(const CodeModule &) = delete;

  Expected<KernelFunction> kernel(const std::string &name) const;

private:
  CodeModule() = default;
  static Expected<std::shared_ptr<CodeModule>> open(const fb::CodeT &code);

  int descriptor = -1;
  void *handle = nullptr;
};

/// Whether this CPU has the feature, named as compilers do ("avx2"); an error
/// for a name that this runtime cannot ask for.
Expected<bool> cpuHasFeature(const std::string &name);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_EXECUTOR_CODEMODULE_H
