//===- Scalars.h - Numbers of a command, on a rank --------------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_PROGRAM_SCALARS_H
#define MIXLE_RUNTIME_PROGRAM_SCALARS_H

#include "mixle/ParallelPlan.h"
#include "runtime/schema/program_generated.h"

#include <array>
#include <cstdint>

namespace mixle::runtime {

/// The rows of a call that are being worked on.
struct RowWindow {
  int64_t rows = 0;
  int64_t start = 0;
};

/// Whether a scalar's value differs along its axis.
inline bool dependsOnAxis(const fb::Scalar &scalar) {
  return scalar.kind() == fb::ScalarKind::Offset ||
         scalar.kind() == fb::ScalarKind::Owned ||
         scalar.kind() == fb::ScalarKind::Coordinate;
}

/// The value of a scalar with a valid kind and axis at a coordinate; false
/// where it does not fit in 64 bits.
inline bool evaluateScalar(const fb::Scalar &scalar,
                           const std::array<int64_t, numMeshAxes> &coordinate,
                           const RowWindow &window, int64_t &value) {
  int64_t at = coordinate[static_cast<size_t>(scalar.axis())];
  switch (scalar.kind()) {
  case fb::ScalarKind::Constant:
    value = scalar.a();
    return true;
  case fb::ScalarKind::Rows:
    return !__builtin_mul_overflow(scalar.a(), window.rows, &value);
  case fb::ScalarKind::RowStart:
    return !__builtin_mul_overflow(scalar.a(), window.start, &value);
  case fb::ScalarKind::Offset:
    return !__builtin_mul_overflow(scalar.a(), at, &value);
  case fb::ScalarKind::Coordinate:
    return !__builtin_mul_overflow(scalar.a(), at, &value) &&
           !__builtin_add_overflow(value, scalar.b(), &value);
  case fb::ScalarKind::Owned:
    if (__builtin_mul_overflow(scalar.a(), at, &value) ||
        __builtin_sub_overflow(scalar.b(), value, &value))
      return false;
    if (value > scalar.a())
      value = scalar.a();
    if (value < 0)
      value = 0;
    return true;
  }
  return false;
}

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_PROGRAM_SCALARS_H
