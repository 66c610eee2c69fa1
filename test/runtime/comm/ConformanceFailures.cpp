//===- ConformanceFailures.cpp - What is said when ranks fail -------------===//

#include "test/runtime/comm/Conformance.h"
#include <chrono>
#include <thread>

namespace mixle::runtime::conformance {

const std::vector<Case> &cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list = collectiveCases();
    for (const Case &c : movementCases())
      list.push_back(c);
    for (const Case &c : treeCases())
      list.push_back(c);
    return list;
  }();
  return all;
}

namespace {

/// One good collective first, so that failures do not only come at the start.
Expected<std::unique_ptr<Group>> startedGroup(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto group, everyone(communicator));
  MIXLE_RETURN_IF_ERROR(communicator.barrier(*group, {"step", 3, ""}));
  return group;
}

/// After the failure every call fails; returns the error of the first.
Status unusableAfter(Communicator &communicator, Group &group, Status first) {
  MIXLE_CHECK(!first.ok(), "the call fails");
  int64_t value = 0;
  Status later = communicator.allReduce(group, {"step", 18, ""}, &value, 1,
                                        DataType::i64, ReduceOp::sum);
  MIXLE_CHECK(!later.ok(), "later calls fail");
  MIXLE_CHECK(!communicator
                   .send(commandContext(), &value, 8,
                         (communicator.rank() + 1) % failureRanks, 0)
                   .ok(),
              "later messages fail");
  return first;
}

Status differentKinds(Scenario &scenario) {
  Communicator &communicator = scenario.communicator;
  MIXLE_ASSIGN_OR_RETURN(auto group, startedGroup(communicator));
  std::vector<int64_t> data(8), out(24);
  Status status =
      communicator.rank() == 0
          ? communicator.allReduce(*group, commandContext(), data.data(), 8,
                                   DataType::i64, ReduceOp::sum)
          : communicator.allGather(*group, {"step", 16, "grad"}, data.data(),
                                   out.data(), 64);
  return unusableAfter(communicator, *group, status);
}

template <typename Call> Status mismatch(Scenario &scenario, const Call &call) {
  Communicator &communicator = scenario.communicator;
  MIXLE_ASSIGN_OR_RETURN(auto group, startedGroup(communicator));
  return unusableAfter(communicator, *group,
                       call(communicator, *group, communicator.rank() == 2));
}

Status differentCounts(Scenario &scenario) {
  return mismatch(scenario, [](Communicator &c, Group &group, bool odd) {
    std::vector<int64_t> data(5000);
    return c.allReduce(group, commandContext(), data.data(), odd ? 4999 : 5000,
                       DataType::i64, ReduceOp::sum);
  });
}

Status differentTypes(Scenario &scenario) {
  return mismatch(scenario, [](Communicator &c, Group &group, bool odd) {
    int64_t value = 0;
    return c.allReduce(group, commandContext(), &value, 1,
                       odd ? DataType::u64 : DataType::i64, ReduceOp::sum);
  });
}

Status differentOperations(Scenario &scenario) {
  return mismatch(scenario, [](Communicator &c, Group &group, bool odd) {
    std::vector<int64_t> data(3), out(1);
    return c.reduceScatter(group, commandContext(), data.data(), out.data(), 1,
                           DataType::i64, odd ? ReduceOp::max : ReduceOp::sum);
  });
}

Status differentRoots(Scenario &scenario) {
  return mismatch(scenario, [](Communicator &c, Group &group, bool odd) {
    std::vector<char> data(9000);
    return c.broadcast(group, commandContext(), data.data(), 9000, odd ? 1 : 0);
  });
}

Status differentGathers(Scenario &scenario) {
  return mismatch(scenario, [](Communicator &c, Group &group, bool odd) {
    std::vector<char> in(8), out(32);
    std::vector<int64_t> counts = {8, odd ? 9 : 8, 8}, offsets = {0, 8, 17};
    return c.allGatherV(group, commandContext(), in.data(), 8, out.data(),
                        counts, offsets);
  });
}

/// Rank 2 expects one byte more from rank 0 than that sends.
Status differentExchanges(Scenario &scenario) {
  return mismatch(scenario, [](Communicator &c, Group &group, bool odd) {
    std::vector<char> in(30), out(40);
    std::vector<int64_t> sends = {5, 5, 5}, offsets = {0, 10, 20},
                         expects = {odd ? 6 : 5, 5, 5};
    return c.allToAllV(group, commandContext(), in.data(), sends, offsets,
                       out.data(), expects, offsets);
  });
}

} // namespace

Status beginWaitFor(Communicator &communicator, int lost) {
  char byte = 0;
  CommandContext context{"step", 4, ""};
  if (communicator.rank() != lost)
    return communicator.send(context, &byte, 1, lost, 1);
  for (int peer = 0; peer < communicator.worldSize(); ++peer)
    if (peer != lost)
      MIXLE_RETURN_IF_ERROR(communicator.recv(context, &byte, 1, peer, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return Status::success();
}

namespace {

/// Rank 1 has a trouble of its own; the others wait for it.
Status errorOnOneRank(Scenario &scenario) {
  Communicator &communicator = scenario.communicator;
  MIXLE_ASSIGN_OR_RETURN(auto group, startedGroup(communicator));
  MIXLE_RETURN_IF_ERROR(beginWaitFor(communicator, 1));
  if (communicator.rank() == 1)
    return Status::error("token 70000 is outside the vocabulary");
  std::vector<int64_t> data(100000);
  return communicator.allReduce(*group, commandContext(), data.data(), 100000,
                                DataType::i64, ReduceOp::sum);
}

Status errorWhileReceiving(Scenario &scenario) {
  Communicator &communicator = scenario.communicator;
  MIXLE_ASSIGN_OR_RETURN(auto group, startedGroup(communicator));
  MIXLE_RETURN_IF_ERROR(beginWaitFor(communicator, 1));
  if (communicator.rank() == 1)
    return Status::error("token 70000 is outside the vocabulary");
  int64_t value;
  return communicator.recv(commandContext(), &value, 8, 1, 5);
}

Status hungRank(Scenario &scenario) {
  Communicator &communicator = scenario.communicator;
  MIXLE_ASSIGN_OR_RETURN(auto group, startedGroup(communicator));
  if (communicator.rank() == 1) {
    scenario.hang();
    return Status::success();
  }
  int64_t value = 0;
  return communicator.allReduce(*group, commandContext(), &value, 1,
                                DataType::i64, ReduceOp::sum);
}

Status hungSender(Scenario &scenario) {
  Communicator &communicator = scenario.communicator;
  MIXLE_ASSIGN_OR_RETURN(auto group, startedGroup(communicator));
  if (communicator.rank() != 0) {
    scenario.hang();
    return Status::success();
  }
  int64_t value = 0;
  return communicator.recv(commandContext(), &value, 8, 1, 5);
}

Status wrongSize(Scenario &scenario) {
  Communicator &communicator = scenario.communicator;
  MIXLE_ASSIGN_OR_RETURN(auto group, startedGroup(communicator));
  std::vector<char> data(16);
  if (communicator.rank() == 1)
    MIXLE_RETURN_IF_ERROR(
        communicator.send(commandContext(), data.data(), 12, 0, 5));
  if (communicator.rank() == 0)
    MIXLE_RETURN_IF_ERROR(
        communicator.recv(commandContext(), data.data(), 16, 1, 5));
  return communicator.barrier(*group, {"step", 18, ""});
}

} // namespace

const std::vector<FailureCase> &failureCases() {
  static const std::vector<FailureCase> all = {
      {"different_kinds",
       0,
       differentKinds,
       {"the members' calls do not match",
        "rank 0 called all_reduce(sum of 8 i64) in entry 'step', command 17, "
        "update 'loss:tp'",
        "ranks 1, 2 called all_gather(64 bytes per rank) in entry 'step', "
        "command 16, update 'grad'"}},
      {"different_counts",
       0,
       differentCounts,
       {"ranks 0, 1 called all_reduce(sum of 5000 i64)",
        "rank 2 called all_reduce(sum of 4999 i64)", contextText()}},
      {"different_types",
       0,
       differentTypes,
       {"ranks 0, 1 called all_reduce(sum of 1 i64)",
        "rank 2 called all_reduce(sum of 1 u64)", contextText()}},
      {"different_operations",
       0,
       differentOperations,
       {"ranks 0, 1 called reduce_scatter(sum of 1 i64 per rank)",
        "rank 2 called reduce_scatter(max of 1 i64 per rank)", contextText()}},
      {"different_roots",
       0,
       differentRoots,
       {"ranks 0, 1 called broadcast(9000 bytes from member 0)",
        "rank 2 called broadcast(9000 bytes from member 1)", contextText()}},
      {"different_gathers",
       0,
       differentGathers,
       {"ranks 0, 1 called all_gather([8, 8, 8] bytes)",
        "rank 2 called all_gather([8, 9, 8] bytes)", contextText()}},
      {"different_exchanges",
       0,
       differentExchanges,
       {"ranks 0, 1 called all_to_all(sends [5, 5, 5] bytes, expects [5, 5, "
        "5])",
        "rank 2 called all_to_all(sends [5, 5, 5] bytes, expects [6, 5, 5])",
        contextText()}},
      {"error_on_one_rank",
       0,
       errorOnOneRank,
       {"rank 1: token 70000 is outside the vocabulary", contextText()}},
      {"error_while_receiving",
       0,
       errorWhileReceiving,
       {"rank 1: token 70000 is outside the vocabulary", contextText()}},
      {"hung_rank",
       0.5,
       hungRank,
       {"all_reduce(sum of 1 i64) over ranks 0, 1, 2", contextText(),
        "timed out after 0.5 s", "rank 1 has not arrived"}},
      {"hung_sender",
       0.5,
       hungSender,
       {"recv of 8 bytes from rank 1 with tag 5", contextText(),
        "timed out after 0.5 s", "rank 1 has not sent it"}},
      {"wrong_size",
       0,
       wrongSize,
       {"recv of 16 bytes from rank 1 with tag 5", contextText(),
        "rank 1 sent 12 bytes"}},
  };
  return all;
}

} // namespace mixle::runtime::conformance
