//===- LayoutTest.cpp - Every element is owned exactly once ---------------===//

#include "runtime/executor/ParameterLayout.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace mixle::runtime;

namespace {

struct Case {
  std::vector<int64_t> shape;
  int shardDim; // over tp; -1: replicated
  int64_t dpReplicate, dpShard, tp;
  int64_t extraPadding; // more than ceil division would need
};

int64_t ceilOf(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }

class Layout : public testing::TestWithParam<Case> {};

TEST_P(Layout, coversEveryLogicalElementOnce) {
  const Case &c = GetParam();
  ParallelPlan plan;
  plan.dpReplicate = c.dpReplicate;
  plan.dpShard = c.dpShard;
  plan.tp = c.tp;
  fb::ParameterT parameter;
  parameter.shape = parameter.file_shape = c.shape;
  int64_t elements = std::accumulate(c.shape.begin(), c.shape.end(), int64_t(1),
                                     std::multiplies<int64_t>());
  int64_t held = elements;
  if (c.shardDim >= 0 && c.tp > 1) {
    parameter.shard_dim = c.shardDim;
    parameter.shard_axis = fb::Axis::Tp;
    parameter.shard_size = ceilOf(c.shape[c.shardDim], c.tp) + c.extraPadding;
    held = held / c.shape[c.shardDim] * parameter.shard_size;
  }
  if (c.dpShard > 1)
    parameter.flat_shard = held = ceilOf(held, c.dpShard) + c.extraPadding;
  ASSERT_TRUE(checkParameterLayout(parameter, plan).ok())
      << checkParameterLayout(parameter, plan).message();
  EXPECT_EQ(logicalElements(parameter), elements);
  EXPECT_EQ(heldElements(parameter), held);

  std::vector<int> owners(elements), holders(elements);
  for (int64_t r = 0; r < plan.worldSize(); ++r) {
    WorkerCoordinate worker =
        *attestWorkerCoordinate(plan, plan.worldSize(), r);
    bool owns = ownsPart(parameter, plan, worker);
    std::vector<bool> local(held);
    int64_t last = -1;
    Status status =
        forEachRange(parameter, plan, worker,
                     [&](int64_t global, int64_t start, int64_t count) {
                       EXPECT_GT(count, 0);
                       EXPECT_GT(global, last) << "in increasing order";
                       last = global + count - 1;
                       for (int64_t i = 0; i < count; ++i) {
                         EXPECT_FALSE(local.at(start + i));
                         local.at(start + i) = true;
                         ++holders.at(global + i);
                         owners.at(global + i) += owns;
                       }
                       return Status::success();
                     });
    EXPECT_TRUE(status.ok());
  }
  int64_t copies = c.dpReplicate * (parameter.shard_dim < 0 ? c.tp : 1);
  for (int64_t i = 0; i < elements; ++i) {
    EXPECT_EQ(owners[i], 1) << i;
    EXPECT_EQ(holders[i], copies) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, Layout,
    testing::Values(Case{{7, 3}, -1, 1, 1, 1, 0}, Case{{7, 3}, 0, 1, 1, 2, 0},
                    Case{{7, 3}, 0, 2, 3, 2, 0}, Case{{7, 3}, 1, 2, 2, 2, 0},
                    Case{{7, 3}, 1, 1, 4, 3, 0}, Case{{7, 3}, -1, 2, 2, 2, 0},
                    Case{{2, 5, 3}, 1, 1, 4, 3, 0}, Case{{5}, 0, 1, 7, 8, 0},
                    Case{{}, -1, 2, 3, 2, 0}, Case{{1, 1}, 0, 1, 3, 4, 0},
                    Case{{2, 5, 4}, 2, 3, 2, 2, 3},
                    Case{{257, 2}, 0, 1, 3, 4, 31}));

TEST(LayoutRanges, stopAtTheFirstError) {
  ParallelPlan plan;
  fb::ParameterT parameter;
  parameter.shape = parameter.file_shape = {4, 4};
  parameter.shard_dim = 1;
  parameter.shard_size = 5;
  int calls = 0;
  Status status = forEachRange(
      parameter, plan, WorkerCoordinate(), [&](int64_t, int64_t, int64_t) {
        return ++calls == 2 ? Status::error("enough") : Status::success();
      });
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(calls, 2);
}

} // namespace
