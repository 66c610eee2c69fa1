//===- Conformance.h - What every communicator has to do --------*- C++ -*-===//
//
// One suite for all implementations. A case is a function that every rank of a
// world runs; it returns the first thing that was not as it should be. The
// threads suite runs it in one process (ThreadCommTest.cpp), the mpi suite once
// per process (MpiRank.cpp, started by MpiCommTest.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_TEST_RUNTIME_COMM_CONFORMANCE_H
#define MIXLE_TEST_RUNTIME_COMM_CONFORMANCE_H

#include "runtime/comm/Communicator.h"
#include <functional>

namespace mixle::runtime::conformance {

/// Where the cases pretend to be; failures have to name it.
inline CommandContext commandContext() { return {"step", 17, "loss:tp"}; }
inline const char *contextText() {
  return "in entry 'step', command 17, update 'loss:tp'";
}

struct Case {
  const char *name;
  Status (*body)(Communicator &communicator);
};

/// Cases that succeed, for worlds of any size.
const std::vector<Case> &cases();

/// What a failing rank may need from its surroundings.
struct Scenario {
  Communicator &communicator;
  /// Hangs: until the others have ended (threads), for ever (processes).
  std::function<void()> hang;
};

/// Cases in which three ranks fail. `body` returns the error; the texts of all
/// ranks together have to contain every phrase.
struct FailureCase {
  const char *name;
  double timeout; ///< seconds, 0 for none
  Status (*body)(Scenario &scenario);
  std::vector<std::string> phrases;
};
constexpr int failureRanks = 3;
const std::vector<FailureCase> &failureCases();

// Parts of cases(), by file.
std::vector<Case> collectiveCases();
std::vector<Case> movementCases();
std::vector<Case> treeCases();

/// Before rank `lost` is lost: it waits until the others have announced that
/// they are about to wait for it, and a moment longer.
Status beginWaitFor(Communicator &communicator, int lost);

/// The group of all ranks.
Expected<std::unique_ptr<Group>> everyone(Communicator &communicator);

} // namespace mixle::runtime::conformance

/// Ends the case with an error when `condition` does not hold.
#define MIXLE_CHECK(condition, message)                                        \
  do {                                                                         \
    if (!(condition))                                                          \
      return ::mixle::runtime::Status::error(                                  \
          std::string(__FILE__) + ":" + std::to_string(__LINE__) +             \
          ": expected " #condition ": " + (message));                          \
  } while (false)

#endif // MIXLE_TEST_RUNTIME_COMM_CONFORMANCE_H
