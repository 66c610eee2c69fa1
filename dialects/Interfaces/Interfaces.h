//===- Interfaces.h - What an op tells the passes ---------------*- C++ -*-===//

#ifndef MIXLE_DIALECTS_INTERFACES_H
#define MIXLE_DIALECTS_INTERFACES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace mlir::mixle {

/// How values computed from disjoint parts of a contracted factor become the
/// whole value (NUMERICS: three mechanisms, and the two that need no sum).
enum class Merge {
  None,    ///< The factor is not contracted, or must not be split.
  Tree,    ///< Floating-point sum over granules in the fixed binary tree.
  Integer, ///< Sum of integer accumulators: order-free.
  Exact,   ///< Sum of superaccumulators: order-free.
  Max,     ///< Maximum: order-free.
  Select   ///< Exactly one owner holds the value, all others hold zero bits.
};

/// The dimensions of one op, named by factors.
struct PlacementRule {
  struct Factor {
    Merge merge = Merge::None; ///< Only for factors absent from every result.
    bool splittable = true;    ///< False: the op needs the dimension whole.
  };
  SmallVector<Factor> factors;
  /// For each operand and result, the factor of each dimension, or -1.
  SmallVector<SmallVector<int>> operands;
  SmallVector<SmallVector<int>> results;
  /// The operand that may still be partial because the op only adds to it: its
  /// missing contributions stay missing in the result. -1 for none.
  int accumulatorOperand = -1;

  int addFactor(Merge merge = Merge::None, bool splittable = true) {
    factors.push_back({merge, splittable});
    return static_cast<int>(factors.size()) - 1;
  }
};

/// The rule of an op whose operands and results all have one shape.
PlacementRule pointwiseRule(Operation *op);

/// Work of an op per row of its dynamic leading dimension (or in all when the
/// shapes are static).
struct Cost {
  double flops = 0;
  double bytes = 0;
};

/// One flop per result element, and every operand and result moved once.
Cost defaultCost(Operation *op);

} // namespace mlir::mixle

#include "dialects/Interfaces/Interfaces.h.inc"

#endif // MIXLE_DIALECTS_INTERFACES_H
