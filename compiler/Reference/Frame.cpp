//===- Frame.cpp - What the meanings of ops are written with --------------===//

#include "compiler/Reference/Frame.h"

#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

Tensor Tensor::zeros(ArrayRef<int64_t> shape) {
  Tensor tensor;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.reals.assign(static_cast<size_t>(tensor.size()), 0.0);
  return tensor;
}

Tensor Tensor::integerZeros(ArrayRef<int64_t> shape) {
  Tensor tensor;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.integral = true;
  tensor.integers.assign(static_cast<size_t>(tensor.size()), 0);
  return tensor;
}

int64_t Tensor::size() const { return sizeOf(0, rank()); }

int64_t Tensor::sizeOf(int64_t first, int64_t last) const {
  int64_t product = 1;
  for (int64_t d = first; d < last; ++d)
    product *= shape[d];
  return product;
}

SmallVector<int64_t> mlir::mixle::reference::stridesOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

void mlir::mixle::reference::roundToElementType(
    Type elementType, const InterpreterOptions &options, Tensor &tensor) {
  if (options.roundToType && elementType.isF32())
    for (double &x : tensor.reals)
      x = static_cast<double>(static_cast<float>(x));
  // Integers wrap to their width, as they do in memory.
  if (elementType.isInteger(32))
    for (int64_t &x : tensor.integers)
      x = static_cast<int32_t>(x);
  if (elementType.isInteger(1))
    for (int64_t &x : tensor.integers)
      x &= 1;
}

void Frame::set(Value result, Tensor tensor) {
  roundToElementType(cast<RankedTensorType>(result.getType()).getElementType(),
                     options, tensor);
  values[result] = std::move(tensor);
}

LogicalResult Frame::sameShape(Value a, Value b) const {
  if (get(a).shape == get(b).shape)
    return success();
  InFlightDiagnostic diagnostic = fail() << "run-time shapes differ: [";
  llvm::interleaveComma(get(a).shape, diagnostic);
  diagnostic << "] and [";
  llvm::interleaveComma(get(b).shape, diagnostic);
  return diagnostic << "]";
}

void ExactSum::add(double term) {
  double total = sum + term;
  if (std::isfinite(total))
    correction += std::fabs(sum) >= std::fabs(term) ? (sum - total) + term
                                                    : (term - total) + sum;
  sum = total;
}

double ExactSum::value() const {
  return std::isfinite(sum) ? sum + correction : sum;
}
