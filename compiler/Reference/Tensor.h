//===- Tensor.h - A value of the reference interpreter ----------*- C++ -*-===//

#ifndef MIXLE_COMPILER_REFERENCE_TENSOR_H
#define MIXLE_COMPILER_REFERENCE_TENSOR_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace mlir::mixle::reference {

/// A dense tensor in row-major order. Floats of every width, accumulators and
/// exact scalars are doubles (the real number that they stand for); integers
/// and booleans are 64-bit integers.
struct Tensor {
  SmallVector<int64_t> shape;
  bool integral = false;
  std::vector<double> reals;     ///< Elements when not `integral`.
  std::vector<int64_t> integers; ///< Elements when `integral`.

  /// Tensors of zeros.
  static Tensor zeros(ArrayRef<int64_t> shape);
  static Tensor integerZeros(ArrayRef<int64_t> shape);

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  /// The number of elements.
  int64_t size() const;
  /// The product of the dimensions [first, last).
  int64_t sizeOf(int64_t first, int64_t last) const;
};

/// Elements between neighbours of each dimension, row-major.
SmallVector<int64_t> stridesOf(ArrayRef<int64_t> shape);

/// Calls `body(index, position)` for every index of `shape` in row-major order,
/// with its position in that order.
template <typename Body>
void forEachIndex(ArrayRef<int64_t> shape, Body &&body) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t position = 0; position < count; ++position) {
    body(ArrayRef<int64_t>(index), position);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

} // namespace mlir::mixle::reference

#endif // MIXLE_COMPILER_REFERENCE_TENSOR_H
