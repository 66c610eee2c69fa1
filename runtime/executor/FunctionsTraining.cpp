//===- FunctionsTraining.cpp - Integer sums, units and the step -----------===//

#include "runtime/executor/Functions.h"
#include "runtime/kernels/Accumulate.h"
#include "runtime/kernels/ExactSum.h"
#include "runtime/kernels/Math.h"
#include "runtime/training/Schedule.h"

#include <cmath>

namespace mixle::runtime {

namespace {

using detail::anyNumber;
using detail::maxIndex;
using detail::maxUnits;

//===----------------------------------------------------------------------===//
// Accumulators
//===----------------------------------------------------------------------===//

/// The exponent of the scale for a unit 2^e as states store it. Sums made with
/// an unset unit are made again once one is chosen; any scale serves till then.
int32_t scaleOf(int32_t unitExponent) {
  return unitExponent == unsetScaleExponent ? 0 : -unitExponent;
}

/// The accumulator of buffer 0, with units and amax at `unitsAt` and the next.
template <typename T>
Accumulator<T> accumulatorOf(const FunctionCall &call, size_t unitsAt,
                             int64_t unitIndex) {
  Accumulator<T> accumulator;
  accumulator.high = call.at<int64_t>(0);
  if constexpr (detail::limbsOf<T>() == 2)
    accumulator.low = accumulator.high + call.elements[0] / 2;
  accumulator.scaleExponent = scaleOf(call.at<int32_t>(unitsAt)[unitIndex]);
  return accumulator;
}

/// Patterns of amax are stored as u64 whatever T is; kernels raise one of T.
template <typename T> class AmaxCell {
public:
  AmaxCell(const FunctionCall &call, size_t index, int64_t unitIndex)
      : stored(call.at<uint64_t>(index) + unitIndex),
        bits(static_cast<BitsOf<T>>(*stored)) {}
  ~AmaxCell() { *stored = bits; }
  BitsOf<T> *pointer() { return &bits; }

private:
  uint64_t *stored;
  BitsOf<T> bits;
};

template <typename T> struct AccumulateDot {
  enum { Sequences, Tokens, Block, K, N, UnitIndex };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    Extent tokens = Extent(s[Sequences]) * s[Tokens];
    touched[0] = Extent(s[K]) * s[N] * detail::limbsOf<T>();
    touched[1] = tokens * s[K];
    touched[2] = tokens * s[N];
    touched[3] = touched[4] = s[UnitIndex] + 1;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    Accumulator<T> accumulator = accumulatorOf<T>(call, 3, s[UnitIndex]);
    AmaxCell<T> amax(call, 4, s[UnitIndex]);
    accumulator.amax = amax.pointer();
    TokenBlocks tokens;
    tokens.sequences = s[Sequences];
    tokens.tokensPerSequence = s[Tokens];
    tokens.blockLength = s[Block];
    accumulateDot<T>(tokens, s[K], s[N], call.at<const T>(1), s[K],
                     call.at<const T>(2), s[N], accumulator, s[N],
                     call.rank.workspace);
    return Status::success();
  }
};

template <typename T> struct AccumulateRows {
  enum { M, N, UnitIndex };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    touched[0] = Extent(s[N]) * detail::limbsOf<T>();
    touched[1] = Extent(s[M]) * s[N];
    touched[2] = touched[3] = s[UnitIndex] + 1;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    Accumulator<T> accumulator = accumulatorOf<T>(call, 2, s[UnitIndex]);
    AmaxCell<T> amax(call, 3, s[UnitIndex]);
    accumulator.amax = amax.pointer();
    accumulateRows<T>(s[M], s[N], call.at<const T>(1), s[N], accumulator);
    return Status::success();
  }
};

template <typename T> struct AccumulateScatter {
  enum { M, D, FirstRow, Rows, UnitIndex };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    touched[0] = Extent(s[Rows]) * s[D] * detail::limbsOf<T>();
    touched[1] = s[M];
    touched[2] = Extent(s[M]) * s[D];
    touched[3] = touched[4] = s[UnitIndex] + 1;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    Accumulator<T> accumulator = accumulatorOf<T>(call, 3, s[UnitIndex]);
    AmaxCell<T> amax(call, 4, s[UnitIndex]);
    accumulator.amax = amax.pointer();
    accumulateScatter<T>(s[M], s[D], call.at<const int32_t>(1), s[FirstRow],
                         s[Rows], call.at<const T>(2), s[D], accumulator, s[D]);
    return Status::success();
  }
};

template <typename T> struct Resolve {
  enum { N, UnitIndex };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    touched[0] = Extent(s[N]) * detail::limbsOf<T>();
    touched[1] = s[UnitIndex] + 1;
    touched[2] = 1;
    touched[3] = s[N];
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    int64_t n = call.scalars[N];
    int64_t count = *call.at<const int64_t>(2);
    T *out = call.at<T>(3);
    if (count == 0) {
      std::fill(out, out + n, T(0));
      return Status::success();
    }
    Accumulator<T> accumulator =
        accumulatorOf<T>(call, 1, call.scalars[UnitIndex]);
    resolve<T>(n, accumulator.high, accumulator.low, accumulator.scaleExponent,
               static_cast<T>(count), out);
    return Status::success();
  }
};

//===----------------------------------------------------------------------===//
// Exact scalars
//===----------------------------------------------------------------------===//

template <typename T, bool squares> struct ExactSumOf {
  static Status check(const CallArguments &call, Extent *touched) {
    touched[0] = ExactSum::limbCount;
    touched[1] = call.scalars[0];
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    ExactSum sum(call.at<int64_t>(0));
    const T *values = call.at<const T>(1);
    if constexpr (squares)
      sum.addSquares(values, call.scalars[0]);
    else if constexpr (sizeof(T) == 4)
      sum.addFloats(values, call.scalars[0]);
    else
      sum.addDoubles(values, call.scalars[0]);
    return Status::success();
  }
};

struct RoundExact {
  static Status check(const CallArguments &, Extent *touched) {
    touched[0] = ExactSum::limbCount;
    touched[1] = 1;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    *call.at<double>(1) = ExactSum(call.at<int64_t>(0)).round();
    return Status::success();
  }
};

struct ClipCoefficient {
  static Status check(const CallArguments &, Extent *touched) {
    touched[0] = ExactSum::limbCount;
    touched[1] = touched[2] = 1;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    double maxNorm = call.floats[0];
    double norm = std::sqrt(ExactSum(call.at<int64_t>(0)).round());
    double coefficient = 1;
    if (maxNorm > 0) {
      coefficient = maxNorm / (norm + 1e-6);
      coefficient = coefficient < 1 ? coefficient : 1;
    }
    *call.at<double>(1) = coefficient;
    *call.at<double>(2) = norm;
    return Status::success();
  }
};

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

struct ScheduleCall {
  static Status check(const CallArguments &call, Extent *touched) {
    for (size_t i = 0; i < 4; ++i)
      touched[i] = 1;
    return Schedule::parse(*call.text).status();
  }
  static Status execute(const FunctionCall &call) {
    int64_t committed = *call.at<const int64_t>(0);
    if (committed < 0 || committed >= detail::maxIndex)
      return Status::error("the step counter is " + std::to_string(committed) +
                           "; it counts committed steps from 0");
    int64_t step = committed + 1;
    MIXLE_ASSIGN_OR_RETURN(Schedule schedule, Schedule::parse(call.text));
    *call.at<double>(1) = call.floats[0] * schedule.factor(step);
    *call.at<double>(2) = 1 - math::powInt(call.floats[1], step);
    *call.at<double>(3) = 1 - math::powInt(call.floats[2], step);
    return Status::success();
  }
};

struct Advance {
  static Status check(const CallArguments &, Extent *touched) {
    touched[0] = 1;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    ++*call.at<int64_t>(0);
    return Status::success();
  }
};

struct FlagPositive {
  static Status check(const CallArguments &, Extent *touched) {
    touched[0] = touched[1] = 1;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    *call.at<int32_t>(1) = *call.at<const int64_t>(0) > 0;
    return Status::success();
  }
};

struct FlagFinite {
  static Status check(const CallArguments &, Extent *touched) {
    touched[0] = touched[1] = 1;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    *call.at<int32_t>(1) = std::isfinite(*call.at<const double>(0));
    return Status::success();
  }
};

struct DecideUnits {
  static Status check(const CallArguments &call, Extent *touched) {
    int64_t p = call.scalars[0];
    for (const auto &parameter : call.program->parameters)
      if (parameter->unit_index >= p)
        return Status::error("parameter '" + parameter->logical_id +
                             "' has unit_index " +
                             std::to_string(parameter->unit_index) +
                             ", but P is " + std::to_string(p));
    touched[0] = touched[1] = p;
    touched[2] = touched[3] = 1;
    return Status::success();
  }

  /// The patterns are those of the program's type.
  static Status execute(const FunctionCall &call) {
    return call.rank.program->precision == fb::DataType::F64
               ? decide<double>(call)
               : decide<float>(call);
  }

  template <typename T> static Status decide(const FunctionCall &call) {
    int32_t *units = call.at<int32_t>(0);
    const uint64_t *amax = call.at<const uint64_t>(1);
    int32_t &rerun = *call.at<int32_t>(2), &finite = *call.at<int32_t>(3);
    rerun = 0;
    finite = 1;
    std::vector<std::pair<int64_t, int32_t>> chosen;
    for (const auto &parameter : call.rank.program->parameters) {
      int64_t i = parameter->unit_index;
      if (i < 0)
        continue;
      int32_t scale =
          units[i] == unsetScaleExponent ? unsetScaleExponent : -units[i];
      UnitDecision decision =
          decideUnit<T>(scale, static_cast<BitsOf<T>>(amax[i]),
                        static_cast<uint64_t>(parameter->max_blocks),
                        parameter->one_token_blocks);
      if (decision.action == UnitDecision::nonFinite ||
          decision.action == UnitDecision::outOfRange) {
        finite = 0;
        call.rank.detail = decision.action == UnitDecision::nonFinite
                               ? "the gradient of parameter '" +
                                     parameter->logical_id + "' is not finite"
                               : "the gradient of parameter '" +
                                     parameter->logical_id +
                                     "' is too large for any unit";
        break;
      }
      if (decision.action == UnitDecision::rerun)
        chosen.emplace_back(i, -decision.scaleExponent);
    }
    // A step that will not commit leaves every unit as it was.
    if (!finite)
      return Status::success();
    for (auto [i, exponent] : chosen)
      units[i] = exponent;
    rerun = !chosen.empty();
    return Status::success();
  }
};

template <typename T>
void addTrainingFunctionsOf(detail::FunctionTable &table) {
  constexpr fb::DataType type = detail::dataTypeOf<T>();
  const std::string suffix = detail::suffixOf<T>();
  const LibraryFunction::Buffer acc = {"acc", fb::DataType::I64, true};
  const LibraryFunction::Buffer units = {"units", fb::DataType::I32};
  const LibraryFunction::Buffer amax = {"amax", fb::DataType::U64, true};
  const LibraryFunction::Scalar unitIndex = {"unit_index", 0, maxUnits - 1};
  table.push_back({"accumulate_dot" + suffix,
                   {acc, {"x", type}, {"y", type}, units, amax},
                   {{"sequences", 0, anyNumber},
                    {"tokens", 0, anyNumber},
                    {"block", 1, anyNumber},
                    {"K", 0, anyNumber},
                    {"N", 0, anyNumber},
                    unitIndex},
                   {},
                   false,
                   AccumulateDot<T>::check,
                   AccumulateDot<T>::execute});
  table.push_back({"accumulate_rows" + suffix,
                   {acc, {"x", type}, units, amax},
                   {{"M", 0, anyNumber}, {"N", 0, anyNumber}, unitIndex},
                   {},
                   false,
                   AccumulateRows<T>::check,
                   AccumulateRows<T>::execute});
  table.push_back({"accumulate_scatter" + suffix,
                   {acc, {"ids", fb::DataType::I32}, {"x", type}, units, amax},
                   {{"M", 0, anyNumber},
                    {"D", 0, anyNumber},
                    {"first_row", 0, maxIndex},
                    {"rows", 0, anyNumber},
                    unitIndex},
                   {},
                   false,
                   AccumulateScatter<T>::check,
                   AccumulateScatter<T>::execute});
  table.push_back({"resolve" + suffix,
                   {{"acc", fb::DataType::I64},
                    units,
                    {"count", fb::DataType::I64},
                    {"out", type, true}},
                   {{"n", 0, anyNumber}, unitIndex},
                   {},
                   false,
                   Resolve<T>::check,
                   Resolve<T>::execute});
  table.push_back({"exact_sum" + suffix,
                   {{"limbs", fb::DataType::I64, true}, {"x", type}},
                   {{"count", 0, anyNumber}},
                   {},
                   false,
                   ExactSumOf<T, false>::check,
                   ExactSumOf<T, false>::execute});
  table.push_back({"exact_sum_squares" + suffix,
                   {{"limbs", fb::DataType::I64, true}, {"x", type}},
                   {{"count", 0, anyNumber}},
                   {},
                   false,
                   ExactSumOf<T, true>::check,
                   ExactSumOf<T, true>::execute});
}

} // namespace

void detail::addTrainingFunctions(FunctionTable &table) {
  addTrainingFunctionsOf<float>(table);
  addTrainingFunctionsOf<double>(table);
  using fb::DataType;
  table.push_back({"round_exact",
                   {{"limbs", DataType::I64}, {"out", DataType::F64, true}},
                   {},
                   {},
                   false,
                   RoundExact::check,
                   RoundExact::execute});
  table.push_back({"clip_coefficient",
                   {{"limbs", DataType::I64},
                    {"coefficient", DataType::F64, true},
                    {"norm", DataType::F64, true}},
                   {},
                   {"max_norm"},
                   false,
                   ClipCoefficient::check,
                   ClipCoefficient::execute});
  table.push_back({"schedule",
                   {{"step", DataType::I64},
                    {"rate", DataType::F64, true},
                    {"c1", DataType::F64, true},
                    {"c2", DataType::F64, true}},
                   {},
                   {"lr", "beta1", "beta2"},
                   true,
                   ScheduleCall::check,
                   ScheduleCall::execute});
  table.push_back({"advance",
                   {{"step", DataType::I64, true}},
                   {},
                   {},
                   false,
                   Advance::check,
                   Advance::execute});
  table.push_back({"decide_units",
                   {{"units", fb::DataType::I32, true},
                    {"amax", fb::DataType::U64},
                    {"rerun", fb::DataType::I32, true},
                    {"finite", fb::DataType::I32, true}},
                   {{"P", 0, maxUnits}},
                   {},
                   false,
                   DecideUnits::check,
                   DecideUnits::execute});
  table.push_back({"flag_positive",
                   {{"value", DataType::I64}, {"flag", DataType::I32, true}},
                   {},
                   {},
                   false,
                   FlagPositive::check,
                   FlagPositive::execute});
  table.push_back({"flag_finite",
                   {{"value", DataType::F64}, {"flag", DataType::I32, true}},
                   {},
                   {},
                   false,
                   FlagFinite::check,
                   FlagFinite::execute});
}

} // namespace mixle::runtime
