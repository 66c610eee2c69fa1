//===- Support.h - Small programs and tensors for tests ---------*- C++ -*-===//

#ifndef MIXLE_TEST_COMPILER_REFERENCE_SUPPORT_H
#define MIXLE_TEST_COMPILER_REFERENCE_SUPPORT_H

#include "compiler/Reference/Interpreter.h"
#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>
#include <string>

namespace mlir::mixle::reference {

/// A parsed program with one entry, whose body is given as text.
class TestEntry {
public:
  /// `arguments` as an entry's ("%a: tensor<2xf64>"), `body` its ops without
  /// the return. The entry returns nothing: values are read by `run`.
  TestEntry(const std::string &arguments, const std::string &body);

  bool parsed() const { return static_cast<bool>(module); }
  EntryOp entry();
  /// The op of the body; the last one where there are more.
  Operation *op();
  MLIRContext &getContext() { return context; }

  /// Interprets the body; gives the values of every result of `op()`. An empty
  /// list (and a test failure) if interpretation fails.
  SmallVector<Tensor> run(ArrayRef<Tensor> arguments,
                          const InterpreterOptions &options = {});

private:
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

/// Tensors from literals, in row-major order.
Tensor reals(ArrayRef<int64_t> shape, std::vector<double> values);
Tensor integers(ArrayRef<int64_t> shape, std::vector<int64_t> values);

/// Reproducible numbers for test data.
class TestRandom {
public:
  explicit TestRandom(uint64_t seed) : state(seed) {}
  uint64_t next();
  /// An integer of [0, n).
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % n); }

  /// `count` numbers of (low, high), no two closer than (high - low) / count
  /// and none closer to the middle than half of that: ties and kinks are far.
  std::vector<double> spread(int64_t count, double low, double high);

private:
  uint64_t state;
};

/// The element type of a tensor-typed value.
Type elementTypeOf(Value value);

/// Checks shapes, and elements to a tolerance relative to the larger of each
/// pair, with a floor of tolerance * 1e-4.
void expectNear(const Tensor &actual, const Tensor &expected, double tolerance,
                const std::string &what);

} // namespace mlir::mixle::reference

#endif // MIXLE_TEST_COMPILER_REFERENCE_SUPPORT_H
