//===- Index.h - Index expressions of loops ---------------------*- C++ -*-===//
//
// Where an element lies, as a sum of loop variables times constants. Shape ops
// map such indices; what becomes of them decides how memory is read: coefficient
// 1 of the lane variable is a vector load, 0 a scalar, anything else a gather.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_COMPILER_CODEGEN_INDEX_H
#define MIXLE_COMPILER_CODEGEN_INDEX_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <utility>
#include <vector>

namespace mlir::mixle::codegen {

/// constant + sum of coefficient * term; terms in increasing order, no zeros.
struct Index {
  SmallVector<std::pair<unsigned, int64_t>, 4> terms;
  int64_t constant = 0;

  static Index of(int64_t constant) {
    Index index;
    index.constant = constant;
    return index;
  }
  static Index ofTerm(unsigned term) {
    Index index;
    index.terms.push_back({term, 1});
    return index;
  }
  Index operator+(const Index &other) const;
  Index operator+(int64_t offset) const {
    Index index = *this;
    index.constant += offset;
    return index;
  }
  Index operator*(int64_t factor) const;
  int64_t coefficient(unsigned term) const;
  bool operator==(const Index &other) const {
    return constant == other.constant && terms == other.terms;
  }
  bool operator!=(const Index &other) const { return !(*this == other); }
  bool operator<(const Index &other) const {
    return std::tie(constant, terms) < std::tie(other.constant, other.terms);
  }
};

using Indices = SmallVector<Index, 4>;

/// A loop's variable, or the quotient or remainder of an index that is no sum.
struct Term {
  enum Kind { Loop, Quotient, Remainder } kind;
  /// Values lie in [0, extent); negative: no bound is known.
  int64_t extent;
  Index operand;
  int64_t divisor = 0;
};

/// low <= index < high: where an element that a pad or concat reads exists.
struct Condition {
  Index index;
  int64_t low, high;
  bool operator<(const Condition &other) const {
    return std::tie(index, low, high) <
           std::tie(other.index, other.low, other.high);
  }
};
using Conditions = SmallVector<Condition, 2>;

/// The terms of one kernel.
class IndexSpace {
public:
  static constexpr int64_t kUnbounded = -1;

  unsigned addLoop(int64_t extent) {
    terms.push_back({Term::Loop, extent, {}, 0});
    return terms.size() - 1;
  }
  const Term &operator[](unsigned term) const { return terms[term]; }
  size_t size() const { return terms.size(); }

  /// index divided by a positive number: quotient (rounded down), remainder.
  std::pair<Index, Index> divide(const Index &index, int64_t divisor);
  /// The row-major position of an element; a leading dynamic dimension is fine.
  Index linearize(ArrayRef<Index> indices, ArrayRef<int64_t> shape);
  Indices delinearize(Index index, ArrayRef<int64_t> shape);
  /// Whether the condition holds everywhere.
  bool alwaysHolds(const Condition &condition) const;
  /// Adds the loop terms that the index depends on.
  void collectLoops(const Index &index, SmallVectorImpl<unsigned> &loops) const;

  /// Loops that, split with this inner extent, would have made every quotient
  /// and remainder a sum.
  std::vector<std::pair<unsigned, int64_t>> wantedSplits;

private:
  /// Inclusive bounds; false if there are none.
  bool range(const Index &index, int64_t &low, int64_t &high) const;
  Index simplified(Index index) const;
  unsigned addPart(Term::Kind kind, const Index &operand, int64_t divisor,
                   int64_t extent);

  std::vector<Term> terms;
};

} // namespace mlir::mixle::codegen

#endif // MIXLE_COMPILER_CODEGEN_INDEX_H
