//===- MpiModule.h - The one symbol of libmixle_mpi.so ----------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_COMM_MPI_MPIMODULE_H
#define MIXLE_RUNTIME_COMM_MPI_MPIMODULE_H

#include "runtime/comm/MpiLoader.h"

namespace mixle::runtime {

/// Raised whenever Communicator, CollectiveCall or MpiOptions change, so that a
/// module of another build is refused instead of misread.
constexpr int mpiModuleVersion = 1;
constexpr const char *mpiModuleSymbol = "mixleOpenMpiModule";

/// Returns the communicator, or null and the reason in `error`.
using OpenMpiModule = Communicator *(int version, const MpiOptions *options,
                                     std::string *error);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_MPI_MPIMODULE_H
