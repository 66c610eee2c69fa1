//===- CodeModule.cpp - Compiled kernels of a program ---------------------===//

#include "runtime/executor/CodeModule.h"
#include "runtime/base/Files.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace mixle::runtime {

Expected<bool> cpuHasFeature(const std::string &name) {
  // The builtin takes literals only.
  static const std::map<std::string, bool (*)()> known = {
#define MIXLE_FEATURE(feature)                                                 \
  {                                                                            \
    feature, [] { return __builtin_cpu_supports(feature) != 0; }               \
  }
      MIXLE_FEATURE("sse3"),
      MIXLE_FEATURE("ssse3"),
      MIXLE_FEATURE("sse4.1"),
      MIXLE_FEATURE("sse4.2"),
      MIXLE_FEATURE("popcnt"),
      MIXLE_FEATURE("avx"),
      MIXLE_FEATURE("avx2"),
      MIXLE_FEATURE("fma"),
      MIXLE_FEATURE("f16c"),
      MIXLE_FEATURE("bmi"),
      MIXLE_FEATURE("bmi2"),
      MIXLE_FEATURE("lzcnt"),
      MIXLE_FEATURE("movbe"),
      MIXLE_FEATURE("avx512f"),
      MIXLE_FEATURE("avx512bw"),
      MIXLE_FEATURE("avx512cd"),
      MIXLE_FEATURE("avx512dq"),
      MIXLE_FEATURE("avx512vl"),
      MIXLE_FEATURE("avx512bf16"),
      MIXLE_FEATURE("avx512vnni")
#undef MIXLE_FEATURE
  };
  auto found = known.find(name);
  if (found == known.end())
    return Status::error("CPU feature '" + name +
                         "' is not one that this runtime can look for");
  return found->second();
}

/// The first feature that is missing; empty when all are there.
static Expected<std::string> missingFeature(const fb::CodeT &code) {
  for (const std::string &feature : code.features) {
    MIXLE_ASSIGN_OR_RETURN(bool has, cpuHasFeature(feature));
    if (!has)
      return feature;
  }
  return std::string();
}

Expected<std::shared_ptr<CodeModule>>
CodeModule::load(const LoadedProgram &program) {
  if (program.program.kernels.empty())
    return std::shared_ptr<CodeModule>();
  static std::mutex mutex;
  static std::map<std::array<uint8_t, 16>, std::weak_ptr<CodeModule>> loaded;
  std::lock_guard<std::mutex> lock(mutex);
  if (std::shared_ptr<CodeModule> module = loaded[program.digest].lock())
    return module;
  std::string missing;
  for (const auto &code : program.program.code) {
    MIXLE_ASSIGN_OR_RETURN(std::string feature, missingFeature(*code));
    if (!feature.empty()) {
      missing += (missing.empty() ? "" : "; ") + code->cpu + " needs '" +
                 feature + "'";
      continue;
    }
    MIXLE_ASSIGN_OR_RETURN(std::shared_ptr<CodeModule> module, open(*code));
    loaded[program.digest] = module;
    return module;
  }
  return Status::error("this CPU lacks a feature that the program's code needs "
                       "(" +
                       missing + "); compile it for this CPU");
}

Expected<std::shared_ptr<CodeModule>> CodeModule::open(const fb::CodeT &code) {
  std::shared_ptr<CodeModule> module(new CodeModule());
  module->descriptor = memfd_create("mixle-kernels", MFD_CLOEXEC);
  if (module->descriptor < 0 ||
      !writeFully(module->descriptor, code.elf.data(), code.elf.size()))
    return Status::error("cannot keep the program's code in memory: " +
                         std::string(std::strerror(errno)));
  // The loader knows objects by their path, so the descriptor stays open: its
  // number must not become another object's.
  std::string path = "/proc/self/fd/" + std::to_string(module->descriptor);
  module->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module->handle)
    return Status::error("cannot load the program's code: " +
                         std::string(dlerror()));
  return module;
}

CodeModule::~CodeModule() {
  if (handle)
    dlclose(handle);
  if (descriptor >= 0)
    ::close(descriptor);
}

Expected<KernelFunction> CodeModule::kernel(const std::string &name) const {
  void *symbol = dlsym(handle, name.c_str());
  if (!symbol)
    return Status::error("the program's code has no kernel '" + name + "'");
  return reinterpret_cast<KernelFunction>(symbol);
}

} // namespace mixle::runtime
