//===- ThreadCommTest.cpp - The suite over ranks as threads ---------------===//

#include "runtime/comm/ThreadWorld.h"
#include "test/runtime/comm/Conformance.h"
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <stdexcept>
#include <thread>

using namespace mixle::runtime;
using namespace mixle::runtime::conformance;

namespace {

std::shared_ptr<ThreadWorld> makeWorld(int size,
                                       ThreadWorldOptions options = {}) {
  auto world = ThreadWorld::create(size, options);
  EXPECT_TRUE(world.ok()) << world.status().message();
  return world.take();
}

/// Something to wait for that another thread causes.
class Gate {
public:
  void open() {
    std::lock_guard<std::mutex> lock(mutex);
    isOpen = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return isOpen; });
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool isOpen = false;
};

class ThreadConformance
    : public testing::TestWithParam<std::tuple<size_t, int>> {};

TEST_P(ThreadConformance, Holds) {
  auto [index, size] = GetParam();
  auto world = makeWorld(size);
  Status status = world->run(cases()[index].body);
  EXPECT_TRUE(status.ok()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(
    Threads, ThreadConformance,
    testing::Combine(testing::Range<size_t>(0, cases().size()),
                     testing::Values(1, 2, 3, 4, 5, 7, 8)),
    [](const auto &info) {
      return std::string(cases()[std::get<0>(info.param)].name) + "_" +
             std::to_string(std::get<1>(info.param));
    });

class ThreadFailure : public testing::TestWithParam<size_t> {};

TEST_P(ThreadFailure, IsReportedByAll) {
  const FailureCase &failure = failureCases()[GetParam()];
  ThreadWorldOptions options;
  options.timeout = failure.timeout;
  auto world = makeWorld(failureRanks, options);
  // Ranks that hang do so until some other rank has returned its error.
  Gate gate;
  Status status = world->run([&](Communicator &communicator) {
    Scenario scenario{communicator, [&] { gate.wait(); }};
    Status result = failure.body(scenario);
    gate.open();
    return result;
  });
  ASSERT_FALSE(status.ok());
  for (const std::string &phrase : failure.phrases)
    EXPECT_NE(status.message().find(phrase), std::string::npos)
        << phrase << "\nin:\n"
        << status.message();
  EXPECT_TRUE(world->stragglers().empty());
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadFailure,
                         testing::Range<size_t>(0, failureCases().size()),
                         [](const auto &info) {
                           return std::string(failureCases()[info.param].name);
                         });

/// The lost rank is named first, then every rank that waited and where.
TEST(ThreadWorld, ErrorNamesLostRankAndSurvivorsWaits) {
  auto world = makeWorld(3);
  Status status = world->run([](Communicator &communicator) -> Status {
    MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
    MIXLE_RETURN_IF_ERROR(communicator.barrier(*group, {"step", 3, ""}));
    if (communicator.rank() == 2)
      return Status::error("disk is full");
    return communicator.barrier(*group, commandContext());
  });
  std::string survivor = std::string("barrier over ranks 0, 1, 2 ") +
                         contextText() + ": rank 2 failed: disk is full";
  EXPECT_EQ(status.message(), "rank 2: disk is full\nrank 0: " + survivor +
                                  "\nrank 1: " + survivor);
}

TEST(ThreadWorld, ExceptionsAreErrors) {
  auto world = makeWorld(2);
  Status status = world->run([](Communicator &communicator) -> Status {
    MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
    MIXLE_RETURN_IF_ERROR(communicator.barrier(*group, {"step", 3, ""}));
    if (communicator.rank() == 0)
      throw std::runtime_error("no memory for 3 bytes");
    return communicator.barrier(*group, commandContext());
  });
  EXPECT_NE(status.message().find("rank 0: exception: no memory for 3 bytes"),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find(contextText()), std::string::npos)
      << status.message();
}

/// abort() from outside wakes ranks that wait in groups and for messages, and
/// groups cannot be made any more.
TEST(ThreadWorld, AbortWakesAllWaits) {
  auto world = makeWorld(4);
  Gate started;
  std::thread outside([&] {
    started.wait();
    world->abort(3, "stopped by its owner");
  });
  Status status = world->run([&](Communicator &communicator) -> Status {
    MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
    MIXLE_RETURN_IF_ERROR(communicator.barrier(*group, commandContext()));
    if (communicator.rank() < 2)
      return communicator.barrier(*group, commandContext());
    started.open();
    int64_t value;
    Status waited = communicator.recv(commandContext(), &value, 8, 0, 1);
    Status made = everyone(communicator).status();
    EXPECT_FALSE(made.ok());
    EXPECT_NE(made.message().find("stopped by its owner"), std::string::npos);
    return waited;
  });
  outside.join();
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_NE(status.message().find("rank " + std::to_string(rank) + ": "),
              std::string::npos)
        << status.message();
  EXPECT_NE(status.message().find("rank 3 failed: stopped by its owner"),
            std::string::npos)
      << status.message();
}

/// A failure of one rank is no failure of others' finished work, and one
/// world's is none of another's.
TEST(ThreadWorld, WorldsAreIndependent) {
  auto broken = makeWorld(2), whole = makeWorld(2);
  broken->abort(0, "broken");
  Status status = whole->run([](Communicator &communicator) -> Status {
    MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
    return communicator.barrier(*group, commandContext());
  });
  EXPECT_TRUE(status.ok()) << status.message();
  auto group = broken->communicator(1).createGroup({1});
  EXPECT_FALSE(group.ok());
}

/// A rank that never comes back is left behind and named.
TEST(ThreadWorld, StragglersAreLeftBehind) {
  ThreadWorldOptions options;
  options.stopGrace = 0.05;
  auto world = makeWorld(2, options);
  auto gate = std::make_shared<Gate>();
  auto gone = std::make_shared<Gate>();
  Status status = world->run([gate, gone](Communicator &communicator) {
    if (communicator.rank() == 0)
      return Status::error("cannot go on");
    gate->wait();
    gone->open();
    return Status::success();
  });
  EXPECT_EQ(world->stragglers(), std::vector<int>{1});
  EXPECT_EQ(status.message(),
            "rank 0: cannot go on\nrank 1 did not stop within "
            "0.05 s of the failure");
  gate->open();
  gone->wait();
}

TEST(ThreadWorld, GroupsOfOtherCommunicatorsAreRefused) {
  auto world = makeWorld(2), other = makeWorld(2);
  auto group = other->communicator(0).createGroup({0});
  ASSERT_TRUE(group.ok());
  Status status = world->communicator(0).barrier(**group, commandContext());
  EXPECT_NE(status.message().find("made by another communicator"),
            std::string::npos)
      << status.message();
}

TEST(ThreadWorld, BadOptionsAreRefused) {
  EXPECT_NE(ThreadWorld::create(0).status().message().find("1 to 65535"),
            std::string::npos);
  ThreadWorldOptions options;
  options.timeout = -1;
  EXPECT_NE(ThreadWorld::create(1, options).status().message().find("-1 s"),
            std::string::npos);
}

} // namespace
