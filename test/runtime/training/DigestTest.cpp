//===- DigestTest.cpp
//-------------------------------------------------------===//

#include "runtime/training/data/Digest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <set>
#include <vector>

using namespace mixle::runtime;

static std::string hexOf(uint64_t id, uint64_t index, uint64_t bits) {
  StateDigest digest;
  digest.add(id, index, bits);
  return digest.hex();
}

TEST(Digest, IdHashesAreThoseOfXxh3) {
  // XXH3's published value for the empty input with seed 0.
  EXPECT_EQ(logicalIdHash(""), 0x2d06800538d394c2u);
  EXPECT_NE(logicalIdHash("a.weight"), logicalIdHash("b.weight"));
}

TEST(Digest, DigestsAreStable) {
  // Digests are compared between runs and kept in files: the mixing must not
  // change by accident.
  EXPECT_EQ(StateDigest().hex(), std::string(32, '0'));
  EXPECT_EQ(hexOf(1, 2, 3), "3b72bb5762ea5b0312dcce2aab242374");
  StateDigest digest;
  float values[] = {0.0f, 1.0f, -2.5f};
  digest.addRange(logicalIdHash("tok.weight"), 10, values, 3);
  EXPECT_EQ(digest.hex(), "71a15eb17087febfca86f6630c33111b");
}

TEST(Digest, AnyOrderAndAnyCutGiveTheSame) {
  std::mt19937_64 random(1);
  std::vector<float> values(1000);
  for (float &value : values)
    value = static_cast<float>(random()) * 1e-18f - 4.0f;
  uint64_t id = logicalIdHash("weight");
  StateDigest whole;
  whole.addRange(id, 0, values.data(), 1000);

  std::vector<int> order(1000);
  for (int i = 0; i < 1000; ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  StateDigest single;
  for (int i : order) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], 4);
    single.add(id, i, bits);
  }
  EXPECT_EQ(single, whole);

  for (int cut : {0, 1, 333, 999, 1000}) {
    StateDigest a, b;
    a.addRange(id, 0, values.data(), cut);
    b.addRange(id, cut, values.data() + cut, 1000 - cut);
    b.merge(a);
    EXPECT_EQ(b, whole);
    EXPECT_EQ(b.hex(), whole.hex());
  }
}

TEST(Digest, BlocksOfAnArray) {
  // A [4, 6, 5] array, digested whole and as blocks of a 2 x 2 x 1 cut, each
  // lying in memory of its own.
  const int64_t A = 4, B = 6, C = 5;
  std::vector<double> whole(A * B * C);
  for (size_t i = 0; i < whole.size(); ++i)
    whole[i] = std::sqrt(static_cast<double>(i));
  StateDigest expected;
  expected.addRange(7, 0, whole.data(), whole.size());
  StateDigest sum, inPlace;
  for (int64_t a = 0; a < A; a += 2)
    for (int64_t b = 0; b < B; b += 3) {
      std::vector<double> block;
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t j = 0; j < 3; ++j)
          for (int64_t k = 0; k < C; ++k)
            block.push_back(whole[((a + i) * B + b + j) * C + k]);
      uint64_t first = (a * B + b) * C;
      StateDigest part;
      part.addBlock(7, first, block.data(), {2, 3, C}, {B * C, C, 1},
                    {3 * C, C, 1});
      sum.merge(part);
      inPlace.addBlock(7, first, whole.data() + first, {2, 3, C}, {B * C, C, 1},
                       {B * C, C, 1});
    }
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(inPlace, expected);
  // A transposed copy has the same digest.
  std::vector<double> transposed;
  for (int64_t k = 0; k < C; ++k)
    for (int64_t i = 0; i < A * B; ++i)
      transposed.push_back(whole[i * C + k]);
  StateDigest other;
  other.addBlock(7, 0, transposed.data(), {A * B, C}, {C, 1}, {1, A * B});
  EXPECT_EQ(other, expected);
  // Nothing, and one element.
  other.addBlock(7, 0, whole.data(), {3, 0}, {1, 1}, {1, 1});
  EXPECT_EQ(other, expected);
  StateDigest scalar, one;
  scalar.addBlock(7, 3, whole.data() + 3, {}, {}, {});
  one.addRange(7, 3, whole.data() + 3, 1);
  EXPECT_EQ(scalar, one);
}

TEST(Digest, NansAreOneAndZerosAreTwo) {
  auto digestOf = [](auto value) {
    StateDigest digest;
    digest.addRange(1, 0, &value, 1);
    return digest.hex();
  };
  auto withBits32 = [](uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  };
  auto withBits64 = [](uint64_t bits) {
    double value;
    std::memcpy(&value, &bits, 8);
    return value;
  };
  std::string nan = digestOf(std::numeric_limits<float>::quiet_NaN());
  for (uint32_t bits : {0xffc00000u, 0x7f800001u, 0x7fffffffu, 0xff812345u})
    EXPECT_EQ(digestOf(withBits32(bits)), nan);
  EXPECT_NE(digestOf(withBits32(0x7f800000u)), nan); // infinity
  EXPECT_NE(digestOf(0.0f), digestOf(-0.0f));
  std::string nan64 = digestOf(std::numeric_limits<double>::quiet_NaN());
  for (uint64_t bits :
       {0xfff8000000000000u, 0x7ff0000000000001u, 0x7fffffffffffffffu})
    EXPECT_EQ(digestOf(withBits64(bits)), nan64);
  EXPECT_NE(digestOf(withBits64(0x7ff0000000000000u)), nan64);
  EXPECT_NE(digestOf(0.0), digestOf(-0.0));
  // Integers are taken as they are.
  EXPECT_NE(digestOf(uint32_t(0x7f800001u)), digestOf(uint32_t(0x7f800002u)));
  EXPECT_EQ(digestOf(1.5f), digestOf(uint32_t(0x3fc00000u)));
  EXPECT_EQ(digestOf(1.5), digestOf(uint64_t(0x3ff8000000000000u)));
}

TEST(Digest, EveryChangeShows) {
  // Swapped values, shifted values, another name: sums of the values alone, or
  // of weaker mixtures, miss some of these.
  std::vector<uint32_t> values = {1, 2, 3, 4};
  auto digestOf = [](uint64_t id, uint64_t first,
                     const std::vector<uint32_t> &data) {
    StateDigest digest;
    digest.addRange(id, first, data.data(), data.size());
    return digest.hex();
  };
  std::set<std::string> seen = {digestOf(1, 0, values)};
  auto isNew = [&](const std::string &hex) { return seen.insert(hex).second; };
  EXPECT_TRUE(isNew(digestOf(1, 0, {2, 1, 3, 4})));
  EXPECT_TRUE(isNew(digestOf(1, 0, {0, 3, 3, 4})));
  EXPECT_TRUE(isNew(digestOf(1, 1, values)));
  EXPECT_TRUE(isNew(digestOf(2, 0, values)));
  EXPECT_TRUE(isNew(digestOf(1, 0, {1, 2, 3})));
  EXPECT_TRUE(isNew(digestOf(1, 0, {1, 2, 3, 4, 0})));
  // Equal changes in two places do not cancel.
  EXPECT_TRUE(isNew(digestOf(1, 0, {1 ^ 8, 2 ^ 8, 3, 4})));
}

TEST(Digest, NoCollisionsAmongStructuredInputs) {
  // Small values at small indices, where weak mixtures collide first. Of
  // 160,000 values of 64 random bits, two are equal with probability 1e-9.
  std::set<uint64_t> lows, highs;
  for (uint64_t index = 0; index < 400; ++index)
    for (uint64_t bits = 0; bits < 400; ++bits) {
      StateDigest digest;
      digest.add(0, index, bits << (index % 3 * 20));
      auto limbs = digest.limbs();
      EXPECT_TRUE(lows.insert(limbs[0] | limbs[1] << 32).second);
      EXPECT_TRUE(highs.insert(limbs[2] | limbs[3] << 32).second);
    }
}

TEST(Digest, EveryInputBitChangesHalfOfTheOutput) {
  // Each of 128 output bits must flip with probability one half; over 4096
  // trials its frequency has a standard deviation of 1/128, and 3 * 64 * 128
  // frequencies stay within 6 of them.
  const int trials = 4096;
  std::mt19937_64 random(3);
  for (int argument = 0; argument < 3; ++argument)
    for (int bit = 0; bit < 64; ++bit) {
      std::vector<int> flips(128);
      for (int trial = 0; trial < trials; ++trial) {
        uint64_t in[3] = {random(), random() % 100000, random() >> 32};
        StateDigest a, b;
        a.add(in[0], in[1], in[2]);
        in[argument] ^= uint64_t(1) << bit;
        b.add(in[0], in[1], in[2]);
        auto x = a.limbs(), y = b.limbs();
        for (int i = 0; i < 128; ++i)
          flips[i] += (x[i / 32] ^ y[i / 32]) >> (i % 32) & 1;
      }
      for (int i = 0; i < 128; ++i)
        ASSERT_NEAR(flips[i] / double(trials), 0.5, 6.0 / 128)
            << argument << " " << bit << " " << i;
    }
}

TEST(Digest, LimbsAddAcrossRanks) {
  StateDigest total;
  std::array<int64_t, 4> sums = {};
  for (uint64_t rank = 0; rank < 100; ++rank) {
    StateDigest part;
    part.add(1, rank, rank * rank);
    total.merge(part);
    auto limbs = part.limbs();
    for (int i = 0; i < 4; ++i) {
      EXPECT_GE(limbs[i], 0);
      EXPECT_LT(limbs[i], int64_t(1) << 32);
      sums[i] += limbs[i];
    }
  }
  EXPECT_EQ(StateDigest::fromLimbs(sums), total);
  EXPECT_EQ(StateDigest::fromLimbs(total.limbs()).hex(), total.hex());
}
