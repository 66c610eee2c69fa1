//===- KernelLibrary.cpp - Compiles kernels from text and calls them ------===//

#include "KernelLibrary.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mixle::test {

std::unique_ptr<KernelLibrary>
KernelLibrary::compile(const std::string &kernels, const std::string &cpu,
                       std::string &errors) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::mixle::MixleDialect, mlir::exec::ExecDialect>();
  mlir::mixle::registerCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) {
    errors += d.str() + "\n";
    return mlir::success();
  });
  std::string text =
      "exec.program @program attributes {config = {}} {\n" + kernels + "\n}\n";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return nullptr;
  std::vector<mlir::exec::KernelOp> ops;
  module->walk([&](mlir::exec::KernelOp op) { ops.push_back(op); });
  mlir::mixle::CodegenOptions options;
  options.cpu = cpu;
  auto compiled = mlir::mixle::compileKernels(ops, options);
  if (failed(compiled))
    return nullptr;

  auto library = std::make_unique<KernelLibrary>();
  library->compiled = std::move(*compiled);
  const std::vector<char> &elf = library->compiled.elf;
  int file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0 || write(file, elf.data(), elf.size()) !=
                      static_cast<ssize_t>(elf.size())) {
    errors += "cannot write the library to memory\n";
    return nullptr;
  }
  std::string path = "/proc/self/fd/" + std::to_string(file);
  library->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library->handle)
    errors += dlerror();
  close(file);
  return library->handle ? std::move(library) : nullptr;
}

KernelLibrary::~KernelLibrary() {
  if (handle)
    dlclose(handle);
}

KernelLibrary::Function KernelLibrary::find(const std::string &name) const {
  return reinterpret_cast<Function>(dlsym(handle, name.c_str()));
}

void KernelLibrary::call(const std::string &name,
                         const std::vector<void *> &buffers,
                         const std::vector<int64_t> &scalars) const {
  Function function = find(name);
  ASSERT_NE(function, nullptr) << name;
  function(buffers.data(), scalars.data());
}

std::unique_ptr<KernelLibrary> compileOrFail(const std::string &kernels,
                                             const std::string &cpu) {
  std::string errors;
  auto library = KernelLibrary::compile(kernels, cpu, errors);
  if (!library)
    ADD_FAILURE() << errors << "in\n" << kernels;
  return library;
}

} // namespace mixle::test
