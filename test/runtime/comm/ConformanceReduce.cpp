//===- ConformanceReduce.cpp - Reductions, bit by bit ---------------------===//
//
// Inputs are chosen so that every result is exactly predictable, whatever the
// order.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/comm/Conformance.h"
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace mixle::runtime::conformance {

Expected<std::unique_ptr<Group>> everyone(Communicator &communicator) {
  std::vector<int> ranks(communicator.worldSize());
  std::iota(ranks.begin(), ranks.end(), 0);
  return communicator.createGroup(ranks);
}

namespace {

template <typename T> struct TypeOf;
template <> struct TypeOf<int32_t> {
  static constexpr DataType type = DataType::i32;
};
template <> struct TypeOf<int64_t> {
  static constexpr DataType type = DataType::i64;
};
template <> struct TypeOf<uint32_t> {
  static constexpr DataType type = DataType::u32;
};
template <> struct TypeOf<uint64_t> {
  static constexpr DataType type = DataType::u64;
};
template <> struct TypeOf<float> {
  static constexpr DataType type = DataType::f32;
};
template <> struct TypeOf<double> {
  static constexpr DataType type = DataType::f64;
};
template <> struct TypeOf<uint8_t> {
  static constexpr DataType type = DataType::bytes;
};

uint64_t scramble(uint64_t value) {
  value = (value + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
  return value ^ (value >> 31);
}

/// Element i of a rank: all bits used for integers, so that sums wrap; small
/// integers for floating-point sums; for extremes also NaN, infinities and
/// zeros of both signs.
template <typename T> T element(int rank, int64_t i, ReduceOp op) {
  uint64_t bits = scramble(rank * 1000003ull + i);
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(bits);
  T small = static_cast<T>(static_cast<int64_t>(bits % 2001) - 1000);
  if (op == ReduceOp::sum)
    return small;
  switch (i % 7) {
  case 0:
    return bits % 2 ? T(0) : -T(0);
  case 1:
    return bits % 4 ? small : std::numeric_limits<T>::quiet_NaN();
  case 2:
    return bits % 4 ? -std::numeric_limits<T>::infinity() : small;
  case 3: // a NaN with another payload and sign
    return bits % 4 ? small : -std::nan("0x123");
  default:
    return small;
  }
}

/// The definition, in the plainest form.
template <typename T> T combine(T a, T b, ReduceOp op) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (op == ReduceOp::sum)
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    if (op == ReduceOp::bitOr)
      return static_cast<T>(a | b);
  } else {
    if (op == ReduceOp::sum)
      return a + b;
    if (std::isnan(a) || std::isnan(b))
      return std::numeric_limits<T>::quiet_NaN();
    if (a == 0 && b == 0) {
      bool negative = op == ReduceOp::max ? std::signbit(a) && std::signbit(b)
                                          : std::signbit(a) || std::signbit(b);
      return negative ? -T(0) : T(0);
    }
  }
  if (op == ReduceOp::max)
    return a > b ? a : b;
  return a < b ? a : b;
}

template <typename T>
std::vector<T> elementsOf(int rank, int64_t count, ReduceOp op) {
  std::vector<T> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = element<T>(rank, i, op);
  return values;
}

template <typename T>
std::vector<T> reducedOver(const std::vector<int> &ranks, int64_t count,
                           ReduceOp op) {
  std::vector<T> result = elementsOf<T>(ranks[0], count, op);
  for (size_t member = 1; member < ranks.size(); ++member)
    for (int64_t i = 0; i < count; ++i)
      result[i] = combine(result[i], element<T>(ranks[member], i, op), op);
  return result;
}

template <typename T> bool sameBits(const T *a, const T *b, int64_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(T)) == 0;
}

template <typename T>
Status checkAllReduce(Communicator &communicator, Group &group, int64_t count,
                      ReduceOp op) {
  DataType type = TypeOf<T>::type;
  std::string what = std::string(toString(op)) + " of " +
                     std::to_string(count) + " " + toString(type);
  std::vector<T> buffer = elementsOf<T>(communicator.rank(), count, op);
  int64_t before = communicator.bytesSent();
  MIXLE_RETURN_IF_ERROR(communicator.allReduce(group, commandContext(),
                                               buffer.data(), count, type, op));
  std::vector<T> expected = reducedOver<T>(group.ranks(), count, op);
  MIXLE_CHECK(sameBits(buffer.data(), expected.data(), count), what);
  int64_t own = sliceOf(count, group.size(), group.index()).size();
  int64_t sent = (count - own + (group.size() - 1) * own) *
                 static_cast<int64_t>(sizeof(T));
  MIXLE_CHECK(communicator.bytesSent() - before == sent, what);
  return Status::success();
}

template <typename T>
Status checkReduceScatter(Communicator &communicator, Group &group,
                          int64_t perRank, ReduceOp op, bool inPlace) {
  DataType type = TypeOf<T>::type;
  std::string what = std::string(toString(op)) + " of " +
                     std::to_string(perRank) + " " + toString(type);
  int64_t count = perRank * group.size();
  std::vector<T> in = elementsOf<T>(communicator.rank(), count, op);
  std::vector<T> apart(perRank);
  T *own = in.data() + group.index() * perRank;
  T *out = inPlace ? own : apart.data();
  int64_t before = communicator.bytesSent();
  MIXLE_RETURN_IF_ERROR(communicator.reduceScatter(
      group, commandContext(), in.data(), out, perRank, type, op));
  std::vector<T> expected = reducedOver<T>(group.ranks(), count, op);
  MIXLE_CHECK(sameBits(out, expected.data() + group.index() * perRank, perRank),
              what);
  MIXLE_CHECK(
      communicator.bytesSent() - before ==
          static_cast<int64_t>((group.size() - 1) * perRank * sizeof(T)),
      what);
  return Status::success();
}

template <typename T> Status checkType(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(std::unique_ptr<Group> group, everyone(communicator));
  for (ReduceOp op :
       {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::bitOr}) {
    if (!isReducible(TypeOf<T>::type, op))
      continue;
    // Fewer than the members, within and beyond what goes through the slots of
    // the threads, and not divisible by the members.
    for (int64_t count : {0, 1, 3, 64, 1001, 10007})
      MIXLE_RETURN_IF_ERROR(checkAllReduce<T>(communicator, *group, count, op));
    for (int64_t perRank : {0, 1, 7, 2053}) {
      MIXLE_RETURN_IF_ERROR(
          checkReduceScatter<T>(communicator, *group, perRank, op, false));
      MIXLE_RETURN_IF_ERROR(
          checkReduceScatter<T>(communicator, *group, perRank, op, true));
    }
  }
  return Status::success();
}

/// Sums of a size that a training step has: several slices per core's cache.
Status largeSum(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(std::unique_ptr<Group> group, everyone(communicator));
  return checkAllReduce<int64_t>(communicator, *group, 300001, ReduceOp::sum);
}

Status wrapAround(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(std::unique_ptr<Group> group, everyone(communicator));
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  int64_t value = most;
  MIXLE_RETURN_IF_ERROR(communicator.allReduce(
      *group, commandContext(), &value, 1, DataType::i64, ReduceOp::sum));
  auto expected =
      static_cast<int64_t>(static_cast<uint64_t>(most) *
                           static_cast<uint64_t>(communicator.worldSize()));
  MIXLE_CHECK(value == expected, std::to_string(value));
  return Status::success();
}

/// Values that one owner selects travel as bits: the others contribute zero
/// bits.
Status bitsOfOneOwner(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(std::unique_ptr<Group> group, everyone(communicator));
  std::vector<float> values = {-0.0f, -std::nanf("0x55"), 1e-45f, -3.5f};
  std::vector<uint32_t> bits(values.size(), 0);
  int owner = communicator.worldSize() - 1;
  std::vector<uint32_t> expected(values.size());
  std::memcpy(expected.data(), values.data(), 4 * values.size());
  if (communicator.rank() == owner)
    bits = expected;
  MIXLE_RETURN_IF_ERROR(communicator.allReduce(
      *group, commandContext(), bits.data(), static_cast<int64_t>(bits.size()),
      DataType::u32, ReduceOp::bitOr));
  MIXLE_CHECK(bits == expected, std::to_string(bits[0]));
  return Status::success();
}

/// The tp and dp groups of a mesh [size/2][2], used alternately, as a program
/// does.
Status stridedGroups(Communicator &communicator) {
  int size = communicator.worldSize(), rank = communicator.rank();
  if (size % 2)
    return Status::success();
  int row = rank / 2, column = rank % 2;
  std::vector<int> tpRanks = {row * 2, row * 2 + 1}, dpRanks;
  // Listed backwards, so that positions and ranks differ in their order.
  for (int other = size / 2 - 1; other >= 0; --other)
    dpRanks.push_back(other * 2 + column);
  MIXLE_ASSIGN_OR_RETURN(auto tp, communicator.createGroup(tpRanks));
  MIXLE_ASSIGN_OR_RETURN(auto dp, communicator.createGroup(dpRanks));
  MIXLE_CHECK(dp->index() == size / 2 - 1 - row, std::to_string(dp->index()));
  for (int64_t count : {3, 4099, 1, 513}) {
    MIXLE_RETURN_IF_ERROR(
        checkAllReduce<int64_t>(communicator, *tp, count, ReduceOp::sum));
    MIXLE_RETURN_IF_ERROR(
        checkAllReduce<int32_t>(communicator, *dp, count, ReduceOp::max));
    MIXLE_RETURN_IF_ERROR(checkReduceScatter<uint64_t>(communicator, *dp, count,
                                                       ReduceOp::sum, false));
    MIXLE_RETURN_IF_ERROR(communicator.barrier(*tp, commandContext()));
  }
  return Status::success();
}

/// Groups of one, and two groups of the same ranks.
Status smallAndEqualGroups(Communicator &communicator) {
  MIXLE_ASSIGN_OR_RETURN(auto alone,
                         communicator.createGroup({communicator.rank()}));
  MIXLE_RETURN_IF_ERROR(
      checkAllReduce<float>(communicator, *alone, 100, ReduceOp::sum));
  MIXLE_RETURN_IF_ERROR(checkReduceScatter<int64_t>(communicator, *alone, 100,
                                                    ReduceOp::sum, false));
  MIXLE_RETURN_IF_ERROR(communicator.barrier(*alone, commandContext()));
  MIXLE_ASSIGN_OR_RETURN(auto first, everyone(communicator));
  MIXLE_ASSIGN_OR_RETURN(auto second, everyone(communicator));
  for (Group *group : {first.get(), second.get(), first.get()})
    MIXLE_RETURN_IF_ERROR(
        checkAllReduce<int64_t>(communicator, *group, 777, ReduceOp::sum));
  return Status::success();
}

} // namespace

std::vector<Case> collectiveCases() {
  return {
      {"reduce_i32", checkType<int32_t>},
      {"reduce_i64", checkType<int64_t>},
      {"reduce_u32", checkType<uint32_t>},
      {"reduce_u64", checkType<uint64_t>},
      {"reduce_f32", checkType<float>},
      {"reduce_f64", checkType<double>},
      {"reduce_bytes", checkType<uint8_t>},
      {"large_sum", largeSum},
      {"wrap_around", wrapAround},
      {"bits_of_one_owner", bitsOfOneOwner},
      {"strided_groups", stridedGroups},
      {"small_and_equal_groups", smallAndEqualGroups},
  };
}

} // namespace mixle::runtime::conformance
