//===- Interrupt.h - SIGINT and SIGTERM as requests to stop -----*- C++ -*-===//
//
// A run that is told to end finishes its step or iteration first, so that what
// it did so far is kept whole.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_TOOLS_RUN_INTERRUPT_H
#define MIXLE_TOOLS_RUN_INTERRUPT_H

#include "runtime/comm/Communicator.h"

#include <string>

namespace mixle::tools {

/// While it lives, SIGINT and SIGTERM are noted instead of ending the process;
/// another one more than a second later ends it after all, and where there was
/// a handler (MPI's) it is called unless the step ends within 0.4 seconds. A
/// signal that the process ignores stays ignored. One at a time.
class InterruptWatch {
public:
  InterruptWatch();
  ~InterruptWatch() { end(); }
  InterruptWatch(const InterruptWatch &) = delete;
  InterruptWatch &operator=(const InterruptWatch &) = delete;

  /// The signal that any rank's process has noted, 0 for none: the same answer
  /// on all ranks, which ask together. Whoever asks and hears of one stops.
  runtime::Expected<int> agree(runtime::Communicator &communicator,
                               runtime::Group &world);

  /// Gives signals back their meaning. One that came since the last agree()
  /// takes it now.
  void end();

private:
  bool watching = true;
};

/// "interrupted by signal 15 (Terminated)".
std::string describeInterrupt(int signal);

} // namespace mixle::tools

#endif // MIXLE_TOOLS_RUN_INTERRUPT_H
