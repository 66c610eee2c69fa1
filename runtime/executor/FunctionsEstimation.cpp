//===- FunctionsEstimation.cpp - E- and M-steps of mixtures ---------------===//

#include "runtime/executor/Functions.h"
#include "runtime/kernels/Accumulate.h"
#include "runtime/kernels/Mixture.h"
#include "runtime/training/data/MixtureSpec.h"

#include <algorithm>

namespace mixle::runtime {

namespace {

using detail::anyNumber;
using detail::maxIndex;

constexpr int64_t maxDim = 1 << 15;

MixtureShape shapeOf(int64_t dim, int64_t full) {
  MixtureShape shape;
  shape.dim = dim;
  shape.full = full != 0;
  return shape;
}

Status checkOwned(int64_t owned, int64_t components) {
  if (owned > components)
    return Status::error(std::to_string(owned) + " owned components of " +
                         std::to_string(components));
  return Status::success();
}

/// A rank beyond the last component has its offset there and owns none.
Status checkRange(int64_t first, int64_t owned, int64_t total) {
  if (owned > 0 && (owned > total || first > total - owned))
    return Status::error("components " + std::to_string(first) + " to " +
                         std::to_string(first + owned) + " of a mixture of " +
                         std::to_string(total));
  return Status::success();
}

struct Features {
  enum { M, D, Full };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    touched[0] = Extent(s[M]) * s[D];
    touched[1] = touched[2] = s[D];
    touched[3] = Extent(s[M]) * shapeOf(s[D], s[Full]).features();
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    mixtureFeatures(shapeOf(s[D], s[Full]), s[M], call.at<const double>(0),
                    {call.at<const double>(1), call.at<const double>(2)},
                    call.at<double>(3));
    return Status::success();
  }
};

struct Forms {
  enum { K, Owned, First, D, Full, CentreAll };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    MIXLE_RETURN_IF_ERROR(checkOwned(s[Owned], s[K]));
    MixtureShape shape = shapeOf(s[D], s[Full]);
    Extent k = s[K];
    touched[0] = k;
    touched[1] = k * s[D];
    touched[2] = k * shape.covarianceSize();
    touched[3] = touched[4] = s[D];
    touched[5] = k * shape.features();
    touched[6] = k * shape.covarianceSize();
    touched[7] = touched[8] = k;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    MixtureShape shape = shapeOf(s[D], s[Full]);
    MixtureForms forms{call.at<double>(5), call.at<double>(6),
                       call.at<double>(7), call.at<int32_t>(8)};
    // Padding has no scores of its own; nothing reads them, and they are zeros.
    int64_t f = shape.features();
    std::fill(forms.natural + s[Owned] * f, forms.natural + s[K] * f, 0.0);
    std::fill(forms.factors + s[Owned] * shape.covarianceSize(),
              forms.factors + s[K] * shape.covarianceSize(), 0.0);
    std::fill(forms.constants + s[Owned], forms.constants + s[K], 0.0);
    std::fill(forms.centred + s[Owned], forms.centred + s[K], 0);
    int64_t bad = prepareMixture(
        shape, s[Owned], call.at<const double>(0), call.at<const double>(1),
        call.at<const double>(2),
        {call.at<const double>(3), call.at<const double>(4)}, s[CentreAll] != 0,
        forms);
    if (bad >= 0)
      return Status::error("the covariance of component " +
                           std::to_string(s[First] + bad) +
                           " is not positive definite to working precision");
    return Status::success();
  }
};

struct CentredScores {
  enum { M, K, Owned, D, Full };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    MIXLE_RETURN_IF_ERROR(checkOwned(s[Owned], s[K]));
    Extent k = s[K];
    touched[0] = Extent(s[M]) * s[D];
    touched[1] = k * s[D];
    touched[2] = k * shapeOf(s[D], s[Full]).covarianceSize();
    touched[3] = touched[4] = k;
    touched[5] = Extent(s[M]) * k;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    MixtureForms forms;
    forms.factors = call.at<double>(2);
    forms.constants = call.at<double>(3);
    forms.centred = call.at<int32_t>(4);
    centredScores(shapeOf(s[D], s[Full]), s[M], s[Owned],
                  call.at<const double>(0), call.at<const double>(1), forms,
                  call.at<double>(5), s[K]);
    return Status::success();
  }
};

struct MixtureStep {
  enum { K, Owned, First };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    MIXLE_ASSIGN_OR_RETURN(MixtureSpec spec,
                           MixtureSpec::parseText(*call.text, "text"));
    MIXLE_RETURN_IF_ERROR(checkOwned(s[Owned], s[K]));
    MIXLE_RETURN_IF_ERROR(checkRange(s[First], s[Owned], spec.components));
    Extent k = s[K];
    touched[0] = k * spec.shape.features();
    touched[1] = 1;
    touched[2] = touched[3] = spec.shape.dim;
    touched[4] = touched[7] = k;
    touched[5] = touched[8] = k * spec.shape.dim;
    touched[6] = touched[9] = k * spec.shape.covarianceSize();
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    MIXLE_ASSIGN_OR_RETURN(MixtureSpec spec,
                           MixtureSpec::parseText(call.text, "text"));
    const MixtureShape &shape = spec.shape;
    const double *statistics = call.at<const double>(0);
    double total = *call.at<const double>(1);
    MixtureFrame frame{call.at<const double>(2), call.at<const double>(3)};
    double *weights = call.at<double>(7), *means = call.at<double>(8),
           *covariances = call.at<double>(9);
    const int64_t d = shape.dim, c = shape.covarianceSize();
    std::copy_n(call.at<const double>(4), s[K], weights);
    std::copy_n(call.at<const double>(5), s[K] * d, means);
    std::copy_n(call.at<const double>(6), s[K] * c, covariances);
    for (int64_t k = 0; k < s[Owned]; ++k) {
      const double *own = statistics + k * shape.features();
      weights[k] = updateWeight(spec.rules, s[First] + k, spec.components,
                                own[0], total);
      updateGaussian(shape, spec.rules, own, frame, means + k * d,
                     covariances + k * c);
    }
    return Status::success();
  }
};

/// Counted from the end, so that the largest status over ranks is that of the
/// first component.
struct MixtureStatus {
  enum { K, Owned, First, Total, D, Full };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    MIXLE_RETURN_IF_ERROR(checkOwned(s[Owned], s[K]));
    // Else a status could be 0 for a component that is there.
    MIXLE_RETURN_IF_ERROR(checkRange(s[First], s[Owned], s[Total]));
    touched[0] = Extent(s[K]) * shapeOf(s[D], s[Full]).covarianceSize();
    touched[1] = 1;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    int64_t bad = firstIndefinite(shapeOf(s[D], s[Full]), s[Owned],
                                  call.at<const double>(0));
    *call.at<int64_t>(1) = bad < 0 ? 0 : s[Total] - (s[First] + bad);
    return Status::success();
  }
};

struct FlagZero {
  static Status check(const CallArguments &, Extent *touched) {
    touched[0] = touched[1] = 1;
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    *call.at<int32_t>(1) = *call.at<const int64_t>(0) == 0;
    return Status::success();
  }
};

struct ResolveSum {
  enum { N, UnitIndex };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    touched[0] = Extent(s[N]) * detail::limbsOf<double>();
    touched[1] = s[UnitIndex] + 1;
    touched[2] = s[N];
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    int32_t unit = call.at<const int32_t>(1)[call.scalars[UnitIndex]];
    if (unit == unsetScaleExponent)
      return Status::error("the unit of the statistics is not set; whoever runs "
                           "the program sets it from the data");
    const int64_t *high = call.at<const int64_t>(0);
    resolve<double>(call.scalars[N], high, high + call.elements[0] / 2, -unit,
                    1.0, call.at<double>(2));
    return Status::success();
  }
};

} // namespace

void detail::addEstimationFunctions(FunctionTable &table) {
  using fb::DataType;
  constexpr DataType f64 = DataType::F64, i32 = DataType::I32,
                     i64 = DataType::I64;
  const LibraryFunction::Scalar rows = {"M", 0, anyNumber},
                                components = {"K", 0, maxIndex},
                                owned = {"owned", 0, maxIndex},
                                first = {"first", 0, maxIndex},
                                dim = {"D", 1, maxDim}, full = {"full", 0, 1};
  table.push_back({"mixture_features_f64",
                   {{"x", f64}, {"anchor", f64}, {"scale", f64}, {"out", f64, true}},
                   {rows, dim, full},
                   {},
                   false,
                   Features::check,
                   Features::execute});
  table.push_back({"mixture_forms_f64",
                   {{"weights", f64},
                    {"means", f64},
                    {"covariances", f64},
                    {"anchor", f64},
                    {"scale", f64},
                    {"natural", f64, true},
                    {"factors", f64, true},
                    {"constants", f64, true},
                    {"centred", i32, true}},
                   {components, owned, first, dim, full, {"centre_all", 0, 1}},
                   {},
                   false,
                   Forms::check,
                   Forms::execute});
  table.push_back({"mixture_scores_f64",
                   {{"x", f64},
                    {"means", f64},
                    {"factors", f64},
                    {"constants", f64},
                    {"centred", i32},
                    {"scores", f64, true}},
                   {rows, components, owned, dim, full},
                   {},
                   false,
                   CentredScores::check,
                   CentredScores::execute});
  table.push_back({"mixture_step_f64",
                   {{"statistics", f64},
                    {"total", f64},
                    {"anchor", f64},
                    {"scale", f64},
                    {"weights", f64},
                    {"means", f64},
                    {"covariances", f64},
                    {"new_weights", f64, true},
                    {"new_means", f64, true},
                    {"new_covariances", f64, true}},
                   {components, owned, first},
                   {},
                   true,
                   MixtureStep::check,
                   MixtureStep::execute});
  table.push_back({"mixture_status_f64",
                   {{"covariances", f64}, {"status", i64, true}},
                   {components, owned, first, {"total", 1, maxIndex}, dim, full},
                   {},
                   false,
                   MixtureStatus::check,
                   MixtureStatus::execute});
  table.push_back({"flag_zero",
                   {{"value", i64}, {"flag", i32, true}},
                   {},
                   {},
                   false,
                   FlagZero::check,
                   FlagZero::execute});
  table.push_back({"resolve_sum_f64",
                   {{"acc", i64}, {"units", i32}, {"out", f64, true}},
                   {{"n", 0, anyNumber}, {"unit_index", 0, maxUnits - 1}},
                   {},
                   false,
                   ResolveSum::check,
                   ResolveSum::execute});
}

} // namespace mixle::runtime
