//===- MpiLoader.cpp - Finding and opening libmixle_mpi.so ----------------===//

#include "runtime/comm/MpiLoader.h"
#include "runtime/comm/mpi/MpiModule.h"
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

namespace mixle::runtime {

static constexpr const char *moduleName = "libmixle_mpi.so";

bool runningUnderMpi() {
  // Open MPI; MPICH, Intel MPI and srun; anything started through PMIx.
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"})
    if (std::getenv(name))
      return true;
  return false;
}

/// The folder of the running program, with a slash at the end, or "".
static std::string programFolder() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0)
    return "";
  std::string text(path, length);
  return text.substr(0, text.rfind('/') + 1);
}

Expected<std::unique_ptr<Communicator>> openMpi(const MpiOptions &options) {
  if (!runningUnderMpi())
    return Status::error(
        "the mpi communicator was asked for, but this process was not started "
        "by "
        "mpirun, mpiexec or srun: start it with 'mpirun -n RANKS ...', or use "
        "threads");
  if (!(options.timeout >= 0) || options.timeout > 1e9)
    return Status::error("a collective timeout of " +
                         std::to_string(options.timeout) +
                         " s: expected 0 (for ever) to 1e9 s");
  if (options.maxElementsPerCall < 1 ||
      options.maxElementsPerCall > (int64_t(1) << 30))
    return Status::error("at most " +
                         std::to_string(options.maxElementsPerCall) +
                         " elements per MPI call: expected 1 to 2^30");

  std::vector<std::string> places;
  std::string folder = programFolder();
  if (!folder.empty()) {
    places.push_back(folder + "../lib/" + moduleName);
    places.push_back(folder + moduleName);
  }
  places.push_back(MIXLE_MPI_MODULE_BUILT);
  places.push_back(moduleName); // no slash: the loader's own search
  std::string tried;
  void *module = nullptr;
  for (const std::string &place : places) {
    bool isPath = place.find('/') != std::string::npos;
    if (isPath && access(place.c_str(), R_OK) != 0) {
      tried += "\n  " + place + ": not there";
      continue;
    }
    // MPI loads plugins that expect its symbols to be visible to all.
    module = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (module)
      break;
    tried += std::string("\n  ") + dlerror();
  }
  if (!module)
    return Status::error(
        std::string("cannot open ") + moduleName +
        ", which the mpi communicator needs (it is built where "
        "CMake finds MPI); tried:" +
        tried);
  auto *open =
      reinterpret_cast<OpenMpiModule *>(dlsym(module, mpiModuleSymbol));
  if (!open)
    return Status::error(std::string(moduleName) + " has no symbol " +
                         mpiModuleSymbol + ": it is not ours, or damaged");
  std::string error;
  std::unique_ptr<Communicator> communicator(
      open(mpiModuleVersion, &options, &error));
  if (!communicator)
    return Status::error("cannot start MPI: " + error);
  return communicator;
}

} // namespace mixle::runtime
