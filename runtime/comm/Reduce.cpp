//===- Reduce.cpp - Elementwise reduction of several buffers --------------===//
//
// Two sources, the most frequent number, are combined straight into the result.
// More are combined block by block in a buffer that stays in the first-level
// cache, because the result may be one of the sources.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Reduce.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace mixle::runtime {

namespace {

struct Sum {
  template <typename T> static T apply(T a, T b) { return a + b; }
};

// Of floating-point numbers: associative and commutative for all inputs, unlike
// std::max, so that every implementation and order gives the same bits.
template <bool takeMax> struct Extreme {
  template <typename T> static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b)
        return std::numeric_limits<T>::quiet_NaN();
      if (a == b) // equal, or zeros of two signs
        return std::signbit(a) == takeMax ? b : a;
    }
    return (a < b) == takeMax ? b : a;
  }
};

struct BitOr {
  template <typename T> static T apply(T a, T b) { return a | b; }
};

template <typename T, typename Op>
void reduceTyped(T *out, const void *const *sources, int sourceCount,
                 int64_t count) {
  if (sourceCount == 1) {
    if (out != sources[0])
      std::memcpy(out, sources[0], count * sizeof(T));
    return;
  }
  const T *first = static_cast<const T *>(sources[0]);
  const T *second = static_cast<const T *>(sources[1]);
  if (sourceCount == 2) {
    // `out` may be one of the two: the same index only, so nothing is carried
    // from one iteration to another.
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i)
      out[i] = Op::apply(first[i], second[i]);
    return;
  }
  constexpr int64_t block = 4096 / sizeof(T);
  T partial[block];
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t length = std::min(block, count - begin);
    for (int64_t i = 0; i < length; ++i)
      partial[i] = Op::apply(first[begin + i], second[begin + i]);
    for (int source = 2; source < sourceCount; ++source) {
      const T *next = static_cast<const T *>(sources[source]) + begin;
      for (int64_t i = 0; i < length; ++i)
        partial[i] = Op::apply(partial[i], next[i]);
    }
    std::memcpy(out + begin, partial, length * sizeof(T));
  }
}

template <typename T>
void reduceOf(void *out, const void *const *sources, int sourceCount,
              int64_t count, ReduceOp op) {
  T *typed = static_cast<T *>(out);
  switch (op) {
  case ReduceOp::sum:
    // Unsigned arithmetic wraps by definition; signed would be undefined.
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return reduceTyped<U, Sum>(static_cast<U *>(out), sources, sourceCount,
                                 count);
    } else {
      return reduceTyped<T, Sum>(typed, sources, sourceCount, count);
    }
  case ReduceOp::max:
    return reduceTyped<T, Extreme<true>>(typed, sources, sourceCount, count);
  case ReduceOp::min:
    return reduceTyped<T, Extreme<false>>(typed, sources, sourceCount, count);
  case ReduceOp::bitOr:
    if constexpr (std::is_integral_v<T>)
      return reduceTyped<T, BitOr>(typed, sources, sourceCount, count);
    return; // refused by isReducible
  }
}

} // namespace

void reduce(void *out, const void *const *sources, int sourceCount,
            int64_t count, DataType type, ReduceOp op) {
  switch (type) {
  case DataType::i32:
    return reduceOf<int32_t>(out, sources, sourceCount, count, op);
  case DataType::i64:
    return reduceOf<int64_t>(out, sources, sourceCount, count, op);
  case DataType::u32:
    return reduceOf<uint32_t>(out, sources, sourceCount, count, op);
  case DataType::u64:
    return reduceOf<uint64_t>(out, sources, sourceCount, count, op);
  case DataType::f32:
    return reduceOf<float>(out, sources, sourceCount, count, op);
  case DataType::f64:
    return reduceOf<double>(out, sources, sourceCount, count, op);
  case DataType::bytes:
    return reduceOf<uint8_t>(out, sources, sourceCount, count, op);
  }
}

} // namespace mixle::runtime
