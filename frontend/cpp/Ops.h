//===- Ops.h - Functions on the tensors of a graph --------------*- C++ -*-===//
//
// Every function makes ops of the mixle dialect at the end of the entry that is
// being built; MixleOps.td says exactly what each computes. [...] stands for
// any dimensions. All of them throw FrontendError when shapes or element types
// do not fit.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_FRONTEND_OPS_H
#define MIXLE_FRONTEND_OPS_H

#include "frontend/cpp/Graph.h"

namespace mixle::frontend {

/// \name Pointwise
/// Two operands of one element type and one shape. The operand of lower rank
/// is first repeated over leading dimensions: its sizes must be the other's
/// last ones (a size of 1 is not stretched: use broadcastLike).
/// @{
Tensor add(Tensor lhs, Tensor rhs);
Tensor sub(Tensor lhs, Tensor rhs);
Tensor mul(Tensor lhs, Tensor rhs);
/// Correctly rounded.
Tensor div(Tensor lhs, Tensor rhs);
/// NaN if an operand is.
Tensor maximum(Tensor lhs, Tensor rhs);
Tensor minimum(Tensor lhs, Tensor rhs);

inline Tensor operator+(Tensor lhs, Tensor rhs) { return add(lhs, rhs); }
inline Tensor operator-(Tensor lhs, Tensor rhs) { return sub(lhs, rhs); }
inline Tensor operator*(Tensor lhs, Tensor rhs) { return mul(lhs, rhs); }
inline Tensor operator/(Tensor lhs, Tensor rhs) { return div(lhs, rhs); }
/// With a number, in the tensor's element type.
Tensor operator+(Tensor lhs, double rhs);
Tensor operator-(Tensor lhs, double rhs);
Tensor operator*(Tensor lhs, double rhs);
Tensor operator/(Tensor lhs, double rhs);
inline Tensor operator+(double lhs, Tensor rhs) { return rhs + lhs; }
inline Tensor operator*(double lhs, Tensor rhs) { return rhs * lhs; }

Tensor neg(Tensor input);
inline Tensor operator-(Tensor input) { return neg(input); }
Tensor exp(Tensor input);
/// Natural; log 0 = -inf.
Tensor log(Tensor input);
Tensor tanh(Tensor input);
Tensor erf(Tensor input);
/// Radians.
Tensor sin(Tensor input);
Tensor cos(Tensor input);
Tensor sqrt(Tensor input);
Tensor abs(Tensor input);
/// x / (1 + e^-x).
Tensor silu(Tensor input);
/// Gaussian error linear unit: exact (erf), or the tanh approximation that
/// Hugging Face calls gelu_new.
Tensor gelu(Tensor input, bool tanhApproximation = false);

/// i1 tensor; `predicate` is eq, ne, lt, le, gt or ge. Shapes as for add.
Tensor compare(llvm::StringRef predicate, Tensor lhs, Tensor rhs);
/// onTrue where the i1 `condition` holds, else onFalse; equal shapes.
Tensor select(Tensor condition, Tensor onTrue, Tensor onFalse);
/// The graph's floating-point type, from integers.
Tensor toFloat(Tensor input);
/// i32, truncating.
Tensor toInt(Tensor input);
/// @}

/// \name Constants
/// @{
/// Rank 0, in the graph's precision (rounded to nearest).
Tensor constant(Graph &graph, double value);
/// Row-major values; as many as `shape` has elements, or one for all.
Tensor constant(Graph &graph, Shape shape, llvm::ArrayRef<double> values);
/// The same as i32.
Tensor intConstant(Graph &graph, Shape shape, llvm::ArrayRef<int32_t> values);
/// i32 [shape]: the index along `dimension`.
Tensor iota(Graph &graph, Shape shape, int64_t dimension);
/// @}

/// \name Shapes
/// @{
/// Repeats `input` to the shape of `like`: its dimension i becomes dimension
/// dimensions[i] (increasing, equal sizes). `like` gives the number of rows.
Tensor broadcastLike(Tensor input, Tensor like,
                     llvm::ArrayRef<int64_t> dimensions);
/// The same with the last dimensions of `like`.
Tensor broadcastLike(Tensor input, Tensor like);
/// The same elements, row-major. kRows stays the leading dimension; one other
/// size may be -1 and is then computed.
Tensor reshape(Tensor input, Shape shape);
/// Result dimension i is input dimension permutation[i].
Tensor transpose(Tensor input, llvm::ArrayRef<int64_t> permutation);
/// Elements [start, limit) of a static dimension (negative: from the end).
Tensor slice(Tensor input, int64_t dimension, int64_t start, int64_t limit);
/// Zeros before and after a static dimension.
Tensor pad(Tensor input, int64_t dimension, int64_t low, int64_t high);
Tensor concat(llvm::ArrayRef<Tensor> inputs, int64_t dimension);
/// @}

/// \name Reductions and contractions
/// @{
/// Over `dimensions` (negative: from the end), which vanish.
Tensor reduceSum(Tensor input, llvm::ArrayRef<int64_t> dimensions);
Tensor reduceMax(Tensor input, llvm::ArrayRef<int64_t> dimensions);
/// log(sum(exp(x))) over the last dimension.
Tensor logsumexp(Tensor input);
/// Contracts lhsContract[i] of lhs with rhsContract[i] of rhs. The result has
/// the batch dimensions, the free ones of lhs, then the free ones of rhs.
Tensor dotGeneral(Tensor lhs, Tensor rhs, llvm::ArrayRef<int64_t> lhsContract,
                  llvm::ArrayRef<int64_t> rhsContract,
                  llvm::ArrayRef<int64_t> lhsBatch = {},
                  llvm::ArrayRef<int64_t> rhsBatch = {});
/// [..., K] x [K, N...] -> [..., N...].
Tensor matmul(Tensor lhs, Tensor rhs);
/// [..., K] x [N..., K] -> [..., N...]: a weight as torch's Linear has it.
Tensor matmulTransposed(Tensor lhs, Tensor rhs);
/// @}

/// \name Neural networks
/// @{
/// Rows of `table` [V, D...] by integer ids [...] -> [..., D...]. Nothing flows
/// back into the row of id `padding`.
Tensor embedding(Tensor table, Tensor ids,
                 std::optional<int64_t> padding = std::nullopt);
/// Over the last dimension, biased variance; gain and bias [D].
Tensor layerNorm(Tensor input, Tensor gain, Tensor bias, double epsilon);
Tensor rmsNorm(Tensor input, Tensor gain, double epsilon);
/// qkv [rows, tokens, 3, heads, width] -> [rows, tokens, heads, width].
Tensor attention(Tensor qkv, double scale, bool causal);
/// qkv [rows, tokens, groups, g + 2, width], in each group g queries, then the
/// key and the value that they share -> [rows, tokens, groups, g, width].
Tensor groupedAttention(Tensor qkv, double scale, bool causal);

/// Cosines and sines of positions 0, 1, ... times some frequencies, each
/// [positions, frequencies].
struct RotaryTables {
  Tensor cosine, sine;
};
/// The tables, times `scale`. Angles are taken in double precision and rounded
/// once to the graph's.
RotaryTables rotaryTables(Graph &graph, int64_t positions,
                          llvm::ArrayRef<double> frequencies, double scale = 1);
/// Turns column d of `input` [rows, positions, ..., n, D] with column d + D / 2
/// by the angles of the position; only the first `rotated` of the n where given.
Tensor rotary(Tensor input, const RotaryTables &tables,
              std::optional<int64_t> rotated = std::nullopt);
/// logits [..., V], labels [...] -> [...]; 0 where the label is -100.
Tensor softmaxCrossEntropy(Tensor logits, Tensor labels);
/// @}

} // namespace mixle::frontend

#endif // MIXLE_FRONTEND_OPS_H
