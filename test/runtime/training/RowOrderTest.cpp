//===- RowOrderTest.cpp
//-----------------------------------------------------===//
//
// golden/shuffle_order.json and golden/splits.json hold what mixle 0.8.2 (with
// NumPy and PyTorch) did.
//
//===----------------------------------------------------------------------===//

#include "runtime/training/data/RowOrder.h"
#include "runtime/base/Files.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

using namespace mixle::runtime;

static Json golden(const std::string &name) {
  auto text = readFile(std::string(MIXLE_GOLDEN_DIR) + "/" + name);
  EXPECT_TRUE(text) << text.status().message();
  return Json::parse(*text);
}

TEST(RowOrder, GoldenSeedSequences) {
  Json rows = golden("shuffle_order.json")["first_words_of_seed_sequence"];
  EXPECT_EQ(rows.size(), 15u);
  for (const Json &row : rows) {
    auto words = seedSequence(row["entropy"].get<std::vector<uint64_t>>());
    EXPECT_EQ(Json(words), row["state"]) << row["entropy"];
  }
}

TEST(RowOrder, GoldenOrders) {
  Json cases = golden("shuffle_order.json")["cases"];
  EXPECT_EQ(cases.size(), 7u);
  for (const Json &row : cases) {
    uint64_t seed = row["seed"], epoch = row["epoch"];
    int64_t rows = row["rows"], ranks = row["dp"], batch = row["batch_size"];
    EXPECT_EQ(epochSeed(seed, epoch), row["epoch_seed"]);
    EpochOrder order(seed, rows);
    std::vector<int64_t> global = order.permutation(epoch);
    EXPECT_EQ(Json(global), row["global_order"]);
    // mixle deals the rows out like cards; with one rank its batches are ours.
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<int64_t> local;
      for (size_t i = rank; i < global.size(); i += ranks)
        local.push_back(global[i]);
      EXPECT_EQ(Json(local), row["local_order"][rank]);
    }
    if (ranks == 1) {
      int64_t steps = order.stepsPerEpoch(batch);
      ASSERT_EQ(row["batches"][0].size(), static_cast<size_t>(steps));
      for (int64_t s = 0; s < steps; ++s)
        EXPECT_EQ(Json(order.rowsOfStep(epoch * steps + s, batch)),
                  row["batches"][0][s]);
    }
  }
}

TEST(RowOrder, ChunksAreTorchs) {
  Json cases = golden("splits.json")["microbatch_torch_chunk"];
  EXPECT_EQ(cases.size(), 7u);
  for (const Json &row : cases) {
    Json sizes = Json::array();
    int64_t position = 0;
    for (Range chunk : chunks(row["rows"], row["microbatches"])) {
      EXPECT_EQ(chunk.begin, position);
      position = chunk.end;
      sizes.push_back(chunk.size());
    }
    EXPECT_EQ(position, row["rows"]);
    EXPECT_EQ(sizes, row["sizes"]);
  }
  EXPECT_TRUE(chunks(0, 4).empty());
}

TEST(RowOrder, B049FiveRowsOverFourRanks) {
  std::vector<int64_t> sizes;
  for (int64_t rank = 0; rank < 4; ++rank)
    sizes.push_back(rankRows(5, 4, rank).size());
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 2, 1, 0}));
  for (int64_t n = 0; n < 40; ++n)
    for (int64_t ranks = 1; ranks < 10; ++ranks) {
      int64_t position = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        Range range = rankRows(n, ranks, rank);
        EXPECT_EQ(range.begin, position);
        EXPECT_LE(range.begin, range.end);
        position = range.end;
      }
      EXPECT_EQ(position, n);
    }
}

TEST(RowOrder, B036EveryEpochHasItsOwnOrder) {
  std::set<std::vector<int64_t>> seen;
  for (uint64_t seed : {5, 6})
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> order = EpochOrder(seed, 16).permutation(epoch);
      EXPECT_EQ(order, EpochOrder(seed, 16).permutation(epoch));
      EXPECT_TRUE(seen.insert(order).second);
      std::sort(order.begin(), order.end());
      std::vector<int64_t> all(16);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(order, all);
    }
}

TEST(RowOrder, B034StepsRunOnFromEpochToEpoch) {
  EpochOrder order(7, 10);
  EXPECT_EQ(order.stepsPerEpoch(2), 5);
  std::vector<int64_t> ids;
  for (int64_t step = 0; step < 15; ++step)
    for (int64_t row : order.rowsOfStep(step, 2))
      ids.push_back(row);
  ASSERT_EQ(ids.size(), 30u);
  for (int64_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(std::vector<int64_t>(ids.begin() + 10 * epoch,
                                   ids.begin() + 10 * (epoch + 1)),
              EpochOrder(7, 10).permutation(epoch));
  // Another process that starts in the middle goes on with the same rows.
  EpochOrder resumed(7, 10);
  std::vector<int64_t> rest;
  for (int64_t step = 7; step < 15; ++step)
    for (int64_t row : resumed.rowsOfStep(step, 2))
      rest.push_back(row);
  EXPECT_EQ(rest, std::vector<int64_t>(ids.begin() + 14, ids.end()));
}

TEST(RowOrder, TheLastStepOfAnEpochMayBeShort) {
  EpochOrder order(1, 10);
  EXPECT_EQ(order.stepsPerEpoch(4), 3);
  EXPECT_EQ(order.rowsOfStep(1, 4).size(), 4u);
  EXPECT_EQ(order.rowsOfStep(2, 4).size(), 2u);
  EXPECT_EQ(order.rowsOfStep(3, 4).size(), 4u);
  EXPECT_EQ(order.rowsOfStep(5, 100).size(), 10u);
  EXPECT_EQ(order.rowsOfStep(2, 100), order.permutation(2));
  EXPECT_EQ(EpochOrder(1, 1).rowsOfStep(9, 1), std::vector<int64_t>{0});
}
