//===- MpiLoader.h - Ranks as processes under MPI ---------------*- C++ -*-===//
//
// The `mpi` communicator lives in a module of its own, libmixle_mpi.so, opened
// only when asked for: nothing else needs an MPI installation.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_COMM_MPILOADER_H
#define MIXLE_RUNTIME_COMM_MPILOADER_H

#include "runtime/comm/Communicator.h"

namespace mixle::runtime {

struct MpiOptions {
  /// Longest wait of one call in seconds; 0 waits for ever. A call that waits
  /// longer ends the job with a message that names the operation, the command,
  /// and the members that have not arrived.
  double timeout = 0;
  /// Compare the members' calls before each collective (one more exchange of 32
  /// bytes, logarithmic in the members; allGatherV and allToAllV need it
  /// anyway). Without it other calls that do not match are undefined, as in MPI
  /// itself.
  bool checkCalls = true;
  /// Larger transfers are cut: MPI's counts have 31 bits.
  int64_t maxElementsPerCall = int64_t(1) << 30;
};

/// Whether mpirun, mpiexec or srun started this process.
bool runningUnderMpi();

/// Opens the communicator over all processes of the job; once per process. The
/// module is looked for in ../lib and the folder of the executable, in the
/// build tree, and where the system's loader looks. Destroying the communicator
/// ends MPI; destroying it after a failed call ends the job.
///
/// Installs a handler of SIGTERM, by which mpirun ends the ranks left over when
/// one is lost: it prints the command in which this rank waited.
Expected<std::unique_ptr<Communicator>> openMpi(const MpiOptions &options = {});

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_MPILOADER_H
