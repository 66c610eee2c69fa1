//===- Functions.h - The library functions of programs ----------*- C++ -*-===//
//
// A `call` command names a library function. Each function states its buffers,
// scalars and floats, how many elements of every buffer a call touches, and how
// to run it: the verifier and the executor use one table.
//
// Names end in _f32 or _f64 where a buffer or a bit pattern depends on the
// program's type T. Buffers (T where nothing else is said; integers of one
// width serve for each other); scalars; floats:
//
//   dot_tree            a, b, c; M N segments length stride_length inner
//                       granules granule_size first_granule owned_granules
//                       transpose_b
//     c[M,N] = a[M,K] b[K,N] (b[N,K] if transpose_b), k = (s*stride_length + h)
//     * inner + j with s < segments, h < length, j < inner; K is counted with
//     stride_length. Order of the sum: runtime/kernels/Gemm.h. Where
//     owned_granules < granules, c holds consecutive partials of M*N elements,
//     one for every maximal owned subtree.
//   accumulate_dot      acc, x, y, units, amax; sequences tokens block K N
//                       unit_index: acc[K,N] += sum over blocks of x^T y
//   accumulate_rows     acc, x, units, amax; M N unit_index
//   accumulate_scatter  acc, ids i32, x, units, amax; M D first_row rows
//                       unit_index: acc[id - first_row, :] += x[m, :]
//     acc: i64[n]; for f64 the first half of the buffer holds the high limbs,
//     the second the low ones. units: i32 exponents e of units 2^e, INT32_MIN
//     unset. amax: u64 bit patterns of T, zero-extended.
//   embedding           table, ids i32, out; M D first_row owned_rows
//   select_label        logits, labels i32, out; M columns first_column
//                       valid_columns: elements that another rank owns are 0
//   combine_granules    sums, out; M columns granules first_granule
//                       owned_granules: sums[M, columns], of which the first
//                       owned_granules columns are added along the tree;
//                       partials of M elements as in dot_tree
//   exact_sum, exact_sum_squares   limbs i64, x; count: adds to the limbs
//   count_labels        count i64, labels i32; M ignore: adds to the count
//   resolve             acc i64, units i32, count i64, out; n unit_index
//     out = acc * unit / count; 0 when count is 0
//   round_exact         limbs i64, out f64
//   clip_coefficient    limbs i64, coefficient f64, norm f64; ; max_norm
//     norm = sqrt of the sum; min(1, max_norm / (norm + 1e-6)), or 1 when
//     max_norm <= 0
//   schedule            step i64, rate f64, c1 f64, c2 f64; ; lr beta1 beta2
//     text: a schedule (runtime/training/Schedule.h). `step` counts committed
//     steps; rate = lr * factor(step + 1), c = 1 - beta^(step + 1).
//   advance             step i64: += 1
//   decide_units        units i32, amax u64, rerun i32, finite i32; P
//     Judges the units of all parameters (Accumulate.h; patterns are those of
//     the program's precision) by max_blocks and
//     one_token_blocks of the program's table. finite = 0, units unchanged and
//     rerun = 0 where a pattern is not finite.
//   flag_positive       value i64, flag i32: value > 0
//   flag_finite         value f64, flag i32: value is finite
//   attention           qkv, out, reference i32, normalizer; rows tokens heads
//                       head_dim causal key_granules; scale
//   attention_grad      qkv, out, reference i32, normalizer, dout, dqkv; same
//   grouped_attention, grouped_attention_grad   the same; rows tokens groups
//                       queries head_dim causal key_granules; scale
//   initialize_parameter  param; parameter_index: this rank's part
//   initialize_units    units i32; P: all unset
//
//   resolve_sum         acc i64, units i32, out; n unit_index: acc * unit
//   flag_zero           value i64, flag i32: value == 0
//
// Gaussian mixtures (runtime/kernels/Mixture.h; K components of this rank, of which
// `owned` are there and the rest is padding, from component `first` on):
//   mixture_features    x, anchor, scale, out; M D full
//   mixture_forms       weights, means, covariances, anchor, scale, natural,
//                       factors, constants, centred i32; K owned first D full
//                       centre_all
//   mixture_scores      x, means, factors, constants, centred i32, scores;
//                       M K owned D full: columns of centred components
//   mixture_step        statistics, total, anchor, scale, weights, means,
//                       covariances, new_weights, new_means, new_covariances;
//                       K owned first; text: a specification (MixtureSpec.h)
//   mixture_status      covariances, status i64; K owned first total D full:
//                       total - k for the first component k whose covariance is
//                       not positive definite, 0 if there is none
//
// A new group of functions is a file with one `void addXFunctions(table)`,
// called in Functions.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_EXECUTOR_FUNCTIONS_H
#define MIXLE_RUNTIME_EXECUTOR_FUNCTIONS_H

#include "mixle/ParallelPlan.h"
#include "mixle/Status.h"
#include "runtime/kernels/Workspace.h"
#include "runtime/schema/program_generated.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace mixle::runtime {

/// A number of elements: not negative; what does not fit in 63 bits saturates,
/// and is then larger than any buffer.
class Extent {
public:
  Extent(int64_t value = 0) : value(value) {}
  int64_t count() const { return value; }
  bool saturated() const { return value == limit; }
  friend Extent operator*(Extent a, Extent b) {
    int64_t product;
    return __builtin_mul_overflow(a.value, b.value, &product) ? limit : product;
  }
  friend Extent operator+(Extent a, Extent b) {
    int64_t sum;
    return __builtin_add_overflow(a.value, b.value, &sum) ? limit : sum;
  }

private:
  static constexpr int64_t limit = std::numeric_limits<int64_t>::max();
  int64_t value;
};

/// What a rank has for its library functions.
struct RankContext {
  const fb::ProgramT *program = nullptr;
  ParallelPlan plan;
  WorkerCoordinate coordinate;
  uint64_t seed = 0;
  Workspace workspace;
  /// What a function has to add to the reason of a later commit_if.
  std::string detail;
};

/// A call's arguments as the checker sees them.
struct CallArguments {
  const fb::ProgramT *program;
  const int64_t *scalars;
  const std::vector<double> *floats;
  const std::string *text;
};

/// A call to execute. `elements` counts what each buffer holds.
struct FunctionCall {
  void *const *buffers;
  const int64_t *elements;
  const int64_t *scalars;
  const double *floats;
  const std::string &text;
  RankContext &rank;

  template <typename T> T *at(size_t index) const {
    return static_cast<T *>(buffers[index]);
  }
};

struct LibraryFunction {
  struct Buffer {
    const char *name;
    fb::DataType dtype;
    bool written = false;
  };
  struct Scalar {
    const char *name;
    int64_t minimum;
    int64_t maximum;
  };

  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Scalar> scalars;
  std::vector<const char *> floats;
  bool hasText = false;
  /// Conditions beyond the scalars' ranges, and into `touched` the elements
  /// from the start of each buffer that a call touches. Grows with every scalar
  /// that counts rows, at least linearly.
  Status (*check)(const CallArguments &arguments, Extent *touched);
  Status (*execute)(const FunctionCall &call);
};

/// Null when there is none.
const LibraryFunction *findFunction(std::string_view name);

/// The functions in the order of their names.
std::vector<const LibraryFunction *> allFunctions();

/// Numbers of arguments, ranges of scalars and floats, the text, then the
/// function's own check; sizes of buffers are left to the caller. `touched` has
/// an entry for each buffer.
Status checkCall(const LibraryFunction &function, const CallArguments &call,
                 std::vector<Extent> &touched);

namespace detail {
using FunctionTable = std::vector<LibraryFunction>;
void addMatrixFunctions(FunctionTable &table);
void addSelectionFunctions(FunctionTable &table);
void addTrainingFunctions(FunctionTable &table);
void addParameterFunctions(FunctionTable &table);
void addEstimationFunctions(FunctionTable &table);

constexpr int64_t anyNumber = std::numeric_limits<int64_t>::max();
/// Most granules of a dimension and most entries of a table by unit: bounds
/// that no program comes near, below which work per call stays small.
constexpr int64_t maxGranules = 1 << 16;
constexpr int64_t maxUnits = 1 << 24;
/// Largest index of a row or column.
constexpr int64_t maxIndex = int64_t(1) << 48;

template <typename T> constexpr fb::DataType dataTypeOf();
template <> constexpr fb::DataType dataTypeOf<float>() {
  return fb::DataType::F32;
}
template <> constexpr fb::DataType dataTypeOf<double>() {
  return fb::DataType::F64;
}
template <typename T> constexpr const char *suffixOf() {
  return sizeof(T) == 4 ? "_f32" : "_f64";
}
/// int64 limbs of one accumulated element.
template <typename T> constexpr int64_t limbsOf() {
  return sizeof(T) == 4 ? 1 : 2;
}
} // namespace detail

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_EXECUTOR_FUNCTIONS_H
