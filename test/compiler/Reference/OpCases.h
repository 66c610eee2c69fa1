//===- OpCases.h - One list of small examples of every op -------*- C++ -*-===//
//
// Gradient, placement and coverage tests expand from this list.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_TEST_COMPILER_REFERENCE_OPCASES_H
#define MIXLE_TEST_COMPILER_REFERENCE_OPCASES_H

#include "Support.h"

namespace mlir::mixle::reference {

/// One op with its attributes, and the values that its operands take.
struct OpCase {
  std::string name;      ///< Unique, letters, digits and _.
  std::string arguments; ///< "%a: tensor<2x3xf64>, ...", f64 throughout.
  std::string op;        ///< "%r = mixle.neg %a : tensor<2x3xf64>"
  double low = -1.5, high = 1.5;      ///< Range of real operands.
  int64_t intLow = 0, intHigh = 4;    ///< Range of integer operands.
  /// Every third integer is -100, the label that losses ignore.
  bool ignored = false;
  /// Makes the operands what the op needs (positive definite, say), or null.
  void (*adjust)(SmallVectorImpl<Tensor> &) = nullptr;
};

const std::vector<OpCase> &opCases();

/// Values for the arguments of a case, the same at every call.
SmallVector<Tensor> argumentsOf(const OpCase &opCase, TestEntry &entry);

/// Prints the name in test output.
inline void PrintTo(const OpCase &opCase, std::ostream *stream) {
  *stream << opCase.name;
}

} // namespace mlir::mixle::reference

#endif // MIXLE_TEST_COMPILER_REFERENCE_OPCASES_H
