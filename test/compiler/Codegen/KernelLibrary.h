//===- KernelLibrary.h - Compiles kernels from text and calls them -*- C++ -*-===//

#ifndef MIXLE_TEST_CODEGEN_KERNELLIBRARY_H
#define MIXLE_TEST_CODEGEN_KERNELLIBRARY_H

#include "compiler/Codegen/Codegen.h"
#include "dialects/Mixle/Mixle.h"
#include <memory>
#include <string>
#include <vector>

namespace mixle::test {

/// The kernels of a program, compiled and loaded into this process.
class KernelLibrary {
public:
  using Function = void (*)(void *const *, const int64_t *);

  /// `kernels` is the text of exec.kernel ops. Null if they do not compile, with
  /// the diagnostics in `errors`.
  static std::unique_ptr<KernelLibrary> compile(const std::string &kernels,
                                                const std::string &cpu,
                                                std::string &errors);
  ~KernelLibrary();

  /// Null if there is no such kernel.
  Function find(const std::string &name) const;
  void call(const std::string &name, const std::vector<void *> &buffers,
            const std::vector<int64_t> &scalars) const;

  mlir::mixle::CompiledKernels compiled;

private:
  void *handle = nullptr;
};

/// Compiles and fails the test if that does not work.
std::unique_ptr<KernelLibrary> compileOrFail(const std::string &kernels,
                                             const std::string &cpu = "native");

} // namespace mixle::test

#endif // MIXLE_TEST_CODEGEN_KERNELLIBRARY_H
