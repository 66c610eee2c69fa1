//===- SelectTest.cpp - Values that one rank owns -------------------------===//

#include "runtime/kernels/Select.h"
#include "TestSupport.h"

#include <limits>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

template <typename T> class SelectTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SelectTest, Types);

TYPED_TEST(SelectTest, ShardsOfRowsAddUpAsIntegers) {
  using T = TypeParam;
  constexpr int64_t rows = 7, columns = 5, ld = 6;
  std::vector<T> table(rows * ld);
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = T(i) - 20;
  table[2 * ld + 1] = T(-0.0);
  table[2 * ld + 2] = std::numeric_limits<T>::quiet_NaN();
  const std::vector<int32_t> ids = {2, 6, 0, 2, 3};
  std::vector<BitsOf<T>> sum(ids.size() * columns, 0);
  for (int64_t first : {0, 3, 5}) {
    const int64_t held = (first == 0 ? 3 : first == 3 ? 5 : 7) - first;
    std::vector<T> out(ids.size() * 8, T(99));
    gatherRows<T>(ids.size(), columns, ids.data(), first, held,
                  table.data() + first * ld, ld, out.data(), 8);
    for (size_t t = 0; t < ids.size(); ++t) {
      for (int64_t j = 0; j < columns; ++j)
        sum[t * columns + j] += bitsOf(out[t * 8 + j]);
      EXPECT_EQ(T(99), out[t * 8 + columns]);
    }
  }
  for (size_t t = 0; t < ids.size(); ++t)
    for (int64_t j = 0; j < columns; ++j)
      EXPECT_EQ(bitsOf(table[ids[t] * ld + j]), sum[t * columns + j]);
}

TYPED_TEST(SelectTest, LabelsAndIgnoredLabels) {
  using T = TypeParam;
  const std::vector<T> logits = {1, T(-0.0), 3, 9, 4, 5, 6, 9,
                                 7, 8,       9, 9, 1, 2, 3, 9};
  const std::vector<int32_t> labels = {11, 10, ignoredLabel, 13};
  std::vector<T> out(4, T(99));
  selectLabel<T>(4, labels.data(), 10, 3, logits.data(), 4, out.data());
  EXPECT_TRUE(sameBits(std::vector<T>{T(-0.0), 4, 0, 0}, out));
  // A shard whose range covers -100 still ignores it.
  selectLabel<T>(4, labels.data(), -101, 3, logits.data(), 4, out.data());
  EXPECT_TRUE(sameBits(std::vector<T>{0, 0, 0, 0}, out));
}

} // namespace
