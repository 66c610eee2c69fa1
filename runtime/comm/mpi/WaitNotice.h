//===- WaitNotice.h - What to say when a signal ends the job ----*- C++ -*-===//

#ifndef MIXLE_RUNTIME_COMM_MPI_WAITNOTICE_H
#define MIXLE_RUNTIME_COMM_MPI_WAITNOTICE_H

#include "runtime/comm/Communicator.h"

namespace mixle::runtime {

/// Installs the handler of SIGTERM for `rank`: it prints the notice of the
/// moment, "rank 2: interrupted while waiting in entry 'step', command 17",
/// with write(2) and ends the process with status 1.
void installWaitNotice(int rank);

/// Puts back the handler that was there before.
void removeWaitNotice();

/// From here on this rank waits in `operation` ("all_reduce").
void beginWaitNotice(const char *operation, const CommandContext &context);
/// It works on its own again.
void endWaitNotice();
/// It is about to end the job itself and has said why: the handler stays
/// silent.
void silenceWaitNotice();

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_MPI_WAITNOTICE_H
