//===- Frame.h - What the meanings of ops are written with ------*- C++ -*-===//
//
// Private to the reference interpreter.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_REFERENCE_FRAME_H
#define MIXLE_COMPILER_REFERENCE_FRAME_H

#include "compiler/Reference/Interpreter.h"
#include "llvm/ADT/StringMap.h"

#include <functional>

namespace mlir::mixle::reference {

/// One op being interpreted: its operands' values and where results go.
class Frame {
public:
  Frame(Operation *op, ValueMap &values, const InterpreterOptions &options)
      : op(op), values(values), options(options) {}

  /// The value of an operand. References stay valid until `set`.
  const Tensor &get(Value value) const { return values.find(value)->second; }

  /// Stores a result, rounded to its element type.
  void set(Value result, Tensor tensor);

  /// An error about run-time shapes or values, located at the op.
  InFlightDiagnostic fail() const { return op->emitOpError(); }

  /// Checks that two operands have one run-time shape.
  LogicalResult sameShape(Value a, Value b) const;

private:
  Operation *op;
  ValueMap &values;
  const InterpreterOptions &options;
};

/// Rounds and wraps the elements of `tensor` as `type` holds them.
void roundToElementType(Type elementType, const InterpreterOptions &options,
                        Tensor &tensor);

/// The meanings of ops, by op class.
class Meanings {
public:
  using Meaning = std::function<LogicalResult(Operation *, Frame &)>;

  template <typename Op>
  void add(LogicalResult (*meaning)(Op, Frame &)) {
    table[Op::getOperationName()] = [meaning](Operation *op, Frame &frame) {
      return meaning(cast<Op>(op), frame);
    };
  }

  /// The meaning of an op, or null.
  const Meaning *find(StringRef opName) const {
    auto found = table.find(opName);
    return found == table.end() ? nullptr : &found->second;
  }

private:
  llvm::StringMap<Meaning> table;
};

void addPointwise(Meanings &meanings);
void addShapes(Meanings &meanings);
void addContractions(Meanings &meanings);
void addNorms(Meanings &meanings);
void addAttention(Meanings &meanings);
void addLosses(Meanings &meanings);
void addAccumulators(Meanings &meanings);
void addOptimizers(Meanings &meanings);
void addMixtures(Meanings &meanings);

/// A sum of many terms whose error does not grow with their number (Neumaier).
class ExactSum {
public:
  void add(double term);
  double value() const;

private:
  double sum = 0, correction = 0;
};

} // namespace mlir::mixle::reference

#endif // MIXLE_COMPILER_REFERENCE_FRAME_H
