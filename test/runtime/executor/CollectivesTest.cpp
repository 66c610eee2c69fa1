//===- CollectivesTest.cpp - Exchanges that programs ask for --------------===//

#include "test/runtime/executor/RunPrograms.h"

#include <future>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

using fb::Axis;
using fb::Combine;
using fb::DataType;

/// Runs one collective in `evaluate`, on state buffers "from" and "to". `fill`
/// makes a rank's "from", `check` sees its "to" (or "from", in place).
struct Exchange {
  std::string name;
  const char *plan;
  DataType type = DataType::I64;
  Combine combine = Combine::Sum;
  fb::Order order = fb::Order::Integer;
  fb::Collective kind = fb::Collective::AllReduce;
  std::vector<Axis> axes = {};
  std::vector<fb::Scalar> scalars = {};
  int64_t fromElements = 0, toElements = 0;
};

template <typename T>
void run(const Exchange &e, const std::function<void(int, T *)> &fill,
         const std::function<void(int, const T *)> &check) {
  ProgramBuilder b("training", *ParallelPlan::parseText(e.plan), 1);
  uint32_t from =
      b.buffer("from", fb::BufferKind::State, e.type, e.fromElements);
  uint32_t to = b.buffer("to", fb::BufferKind::State, e.type, e.toElements);
  bool inPlace = e.toElements == 0;
  uint32_t update = b.update("exchange", fb::Payload::Activation, e.kind,
                             e.axes, e.order, e.type, e.fromElements);
  b.entry("evaluate")
      .collective(e.name,
                  inPlace ? std::vector<uint32_t>{from}
                          : std::vector<uint32_t>{from, to},
                  e.scalars, e.type, e.combine, e.axes, {update});
  Status status = runEverywhere(b.finish(), [&](RankExecutor &executor) {
    int rank = executor.communicator().rank();
    fill(rank, stateOf<T>(executor, "from"));
    MIXLE_RETURN_IF_ERROR(executor.run("evaluate", EntryInputs()).status());
    check(rank, stateOf<T>(executor, inPlace ? "from" : "to"));
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Collectives, allReduceOverTheAxesGivenOnly) {
  Exchange e{"all_reduce", "dp_replicate=2,tp=2"};
  e.axes = {Axis::Tp};
  e.scalars = {constant(2)};
  e.fromElements = 2;
  // Ranks 0, 1 and 2, 3 differ along tp.
  run<int64_t>(
      e, [](int rank, int64_t *x) { x[0] = rank + 1, x[1] = 10 * rank; },
      [](int rank, const int64_t *x) {
        EXPECT_EQ(x[0], rank < 2 ? 3 : 7);
        EXPECT_EQ(x[1], rank < 2 ? 10 : 50);
      });
  e.axes = {Axis::DpReplicate};
  run<int64_t>(
      e, [](int rank, int64_t *x) { x[0] = rank + 1, x[1] = 10 * rank; },
      [](int rank, const int64_t *x) {
        EXPECT_EQ(x[0], rank % 2 == 0 ? 4 : 6);
      });
}

TEST(Collectives, maximumOfPatternsOverTheWorld) {
  Exchange e{"all_reduce", "dp_shard=3", DataType::U64, Combine::Max};
  e.axes = {Axis::DpShard};
  e.scalars = {constant(1)};
  e.fromElements = 1;
  run<uint64_t>(
      e, [](int rank, uint64_t *x) { *x = rank == 1 ? ~uint64_t(0) : rank; },
      [](int, const uint64_t *x) { EXPECT_EQ(*x, ~uint64_t(0)); });
}

TEST(Collectives, selectedBitsSurvive) {
  Exchange e{"all_reduce", "tp=3", DataType::U32, Combine::BitOr};
  e.order = fb::Order::Copy;
  e.axes = {Axis::Tp};
  e.scalars = {constant(1)};
  e.fromElements = 1;
  run<uint32_t>(
      e, [](int rank, uint32_t *x) { *x = rank == 2 ? 0x80000000u : 0; },
      [](int, const uint32_t *x) { EXPECT_EQ(*x, 0x80000000u); });
}

TEST(Collectives, reduceScatterOfLimbs) {
  // Two limbs of 2 ranks' 3 elements: [limb][rank][element].
  Exchange e{"reduce_scatter", "dp_shard=2"};
  e.kind = fb::Collective::ReduceScatter;
  e.axes = {Axis::DpShard};
  e.scalars = {constant(3), constant(2)};
  e.fromElements = 12;
  e.toElements = 6;
  run<int64_t>(
      e,
      [](int rank, int64_t *x) {
        for (int i = 0; i < 12; ++i)
          x[i] = 100 * rank + i;
      },
      [](int rank, const int64_t *x) {
        for (int limb = 0; limb < 2; ++limb)
          for (int i = 0; i < 3; ++i)
            EXPECT_EQ(x[3 * limb + i], 100 + 2 * (6 * limb + 3 * rank + i));
      });
}

TEST(Collectives, allGatherInOrder) {
  Exchange e{"all_gather", "dp_shard=4", DataType::I32};
  e.order = fb::Order::Copy;
  e.kind = fb::Collective::AllGather;
  e.axes = {Axis::DpShard};
  e.scalars = {constant(2)};
  e.fromElements = 2;
  e.toElements = 8;
  run<int32_t>(
      e, [](int rank, int32_t *x) { x[0] = 2 * rank, x[1] = 2 * rank + 1; },
      [](int, const int32_t *x) {
        for (int i = 0; i < 8; ++i)
          EXPECT_EQ(x[i], i);
      });
}

/// The tree over one value per granule, as one rank would add it.
float treeOf(const std::vector<float> &leaves, size_t begin, size_t end) {
  if (end - begin == 1)
    return leaves[begin];
  size_t left = 1;
  while (left * 2 < end - begin)
    left *= 2;
  return treeOf(leaves, begin, begin + left) +
         treeOf(leaves, begin + left, end);
}

TEST(Collectives, treeAllReduceGivesOneRanksBits) {
  // Five granules of one number each; orders differ in their rounding.
  const std::vector<float> leaves = {1e8f, 1.0f, -1e8f, 3.5f, 1e-3f};
  for (int ranks : {2, 3, 4}) {
    int64_t perRank = (5 + ranks - 1) / ranks;
    std::string plan = "tp=" + std::to_string(ranks);
    Exchange e{"tree_all_reduce", plan.c_str(), DataType::F32};
    e.order = fb::Order::Tree;
    e.axes = {Axis::Tp};
    e.scalars = {constant(1), constant(5), constant(perRank)};
    e.fromElements = 3;
    e.toElements = 1;
    run<float>(
        e,
        [&](int rank, float *x) {
          // One partial per maximal subtree of the rank's granules.
          struct Node {
            size_t begin, end;
          };
          std::vector<Node> open = {{0, 5}};
          size_t first = std::min<size_t>(rank * perRank, 5);
          size_t last = std::min<size_t>(first + perRank, 5);
          while (!open.empty()) {
            Node n = open.back();
            open.pop_back();
            if (n.end <= first || n.begin >= last)
              continue;
            if (n.begin >= first && n.end <= last) {
              *x++ = treeOf(leaves, n.begin, n.end);
              continue;
            }
            size_t left = 1;
            while (left * 2 < n.end - n.begin)
              left *= 2;
            open.push_back({n.begin + left, n.end});
            open.push_back({n.begin, n.begin + left});
          }
        },
        [&](int, const float *x) { EXPECT_EQ(*x, treeOf(leaves, 0, 5)); });
  }
}

TEST(Collectives, aFailureNamesRankEntryCommandAndUpdate) {
  // Rank 1 never comes: the others wait in this command.
  ProgramBuilder b("training", *ParallelPlan::parseText("dp_replicate=2"), 1);
  uint32_t x = b.buffer("x", fb::BufferKind::State, DataType::I64, 1);
  uint32_t update =
      b.update("loss:dp", fb::Payload::Message, fb::Collective::AllReduce,
               {Axis::DpReplicate}, fb::Order::Integer, DataType::I64, 1);
  CommandWriter w = b.entry("evaluate");
  w.fill(x, constant(8));
  w.collective("all_reduce", {x}, {constant(1)}, DataType::I64, Combine::Sum,
               {Axis::DpReplicate}, {update});
  // It fails once the other is past the making of groups.
  std::promise<void> made;
  Status status = runEverywhere(b.finish(), [&](RankExecutor &executor) {
    if (executor.communicator().rank() == 1) {
      made.get_future().wait();
      return Status::error("injected");
    }
    made.set_value();
    return executor.run("evaluate", EntryInputs()).status();
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 1: injected",
                      status.message());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 0: ", status.message());
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "entry 'evaluate', command 1, update 'loss:dp'",
                      status.message());
}

TEST(Collectives, exceptionsEndTheWorldToo) {
  Status status = runOnThreads(2, [](int rank, Communicator &) -> Status {
    if (rank == 1)
      throw std::runtime_error("thrown");
    return Status::success();
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 1", status.message());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "thrown", status.message());
}

} // namespace
