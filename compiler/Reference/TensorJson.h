//===- TensorJson.h - Tensors as JSON text ----------------------*- C++ -*-===//
//
// A list of {"shape": [2, 3], "data": [...]}, elements in row-major order.
// What JSON numbers cannot say are the strings "inf", "-inf" and "nan".
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_REFERENCE_TENSORJSON_H
#define MIXLE_COMPILER_REFERENCE_TENSORJSON_H

#include "compiler/Reference/Tensor.h"
#include "mlir/IR/TypeRange.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::mixle::reference {

/// Reads one tensor for each of `types`, which say what is an integer (booleans
/// may be true and false). Errors name the tensor and element.
llvm::Expected<SmallVector<Tensor>> tensorsFromJson(StringRef text,
                                                    TypeRange types);

/// One tensor a line, numbers with as many digits as they need.
std::string tensorsToJson(ArrayRef<Tensor> tensors);

} // namespace mlir::mixle::reference

#endif // MIXLE_COMPILER_REFERENCE_TENSORJSON_H
