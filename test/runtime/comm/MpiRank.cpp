//===- MpiRank.cpp - One rank of the suite under mpirun -------------------===//
//
// Started by MpiCommTest.cpp:
//   comm_mpi_rank conformance [piece] [unchecked]   all of cases()
//   comm_mpi_rank NAME                              one of failureCases()
//   comm_mpi_rank killed                            rank 1 dies by SIGKILL
//   comm_mpi_rank size                              prints the world's size
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/MpiLoader.h"
#include "test/runtime/comm/Conformance.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace mixle::runtime;
using namespace mixle::runtime::conformance;

namespace {

std::unique_ptr<Communicator> open(const MpiOptions &options) {
  auto communicator = openMpi(options);
  if (communicator.ok())
    return communicator.take();
  std::fprintf(stderr, "%s\n", communicator.status().message().c_str());
  std::exit(2);
}

int runConformance(int argc, char **argv) {
  MpiOptions options;
  options.timeout = 120;
  for (int i = 2; i < argc; ++i) {
    if (!std::strcmp(argv[i], "unchecked"))
      options.checkCalls = false;
    else
      options.maxElementsPerCall = std::atoll(argv[i]);
  }
  auto communicator = open(options);
  for (const Case &test : cases()) {
    Status status = test.body(*communicator);
    if (!status.ok())
      communicator->abort(std::string(test.name) + ": " + status.message());
  }
  if (communicator->rank() == 0)
    std::printf("%zu cases hold for %d ranks\n", cases().size(),
                communicator->worldSize());
  auto second = openMpi();
  if (!second.ok())
    communicator->abort(second.status().message());
  return 0;
}

int runFailure(const FailureCase &failure) {
  MpiOptions options;
  options.timeout = failure.timeout;
  auto communicator = open(options);
  Scenario scenario{*communicator, [] {
                      for (;;)
                        pause();
                    }};
  Status status = failure.body(scenario);
  if (!status.ok())
    communicator->abort(status.message());
  std::fprintf(stderr, "rank %d ended without an error\n",
               communicator->rank());
  return 0;
}

int dieByKill() {
  auto communicator = open({});
  auto group = everyone(*communicator);
  if (!group.ok())
    communicator->abort(group.status().message());
  Status status = beginWaitFor(*communicator, 1);
  if (status.ok() && communicator->rank() == 1) {
    std::printf("now\n");
    std::fflush(stdout);
    usleep(200000); // for mpirun to pass the line on
    raise(SIGKILL);
  }
  int64_t value = 0;
  if (status.ok())
    status = communicator->allReduce(**group, commandContext(), &value, 1,
                                     DataType::i64, ReduceOp::sum);
  communicator->abort(status.message());
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "conformance")
    return runConformance(argc, argv);
  if (mode == "killed")
    return dieByKill();
  if (mode == "size") {
    auto communicator = open({});
    std::printf("rank %d of %d\n", communicator->rank(),
                communicator->worldSize());
    return 0;
  }
  for (const FailureCase &failure : failureCases())
    if (mode == failure.name)
      return runFailure(failure);
  std::fprintf(stderr, "unknown mode '%s'\n", mode.c_str());
  return 2;
}
