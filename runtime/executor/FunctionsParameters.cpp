//===- FunctionsParameters.cpp - What a run starts from -------------------===//

#include "runtime/executor/Functions.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/kernels/Accumulate.h"
#include "runtime/kernels/Random.h"
#include "runtime/training/data/Digest.h"

#include <algorithm>

namespace mixle::runtime {

namespace {

template <typename T> struct InitializeParameter {
  static Status check(const CallArguments &call, Extent *touched) {
    const auto &parameters = call.program->parameters;
    int64_t index = call.scalars[0];
    if (index >= static_cast<int64_t>(parameters.size()))
      return Status::error("parameter_index is " + std::to_string(index) +
                           ", but the program has " +
                           std::to_string(parameters.size()) + " parameters");
    touched[0] = heldElements(*parameters[index]);
    return Status::success();
  }

  static Status execute(const FunctionCall &call) {
    const fb::ParameterT &parameter =
        *call.rank.program->parameters[call.scalars[0]];
    T *held = call.at<T>(0);
    std::fill(held, held + call.elements[0], T(0));
    const uint64_t seed = call.rank.seed;
    const uint64_t id = logicalIdHash(parameter.logical_id);
    const double a = parameter.init_a, b = parameter.init_b;
    return forEachRange(
        parameter, call.rank.plan, call.rank.coordinate,
        [&](int64_t globalStart, int64_t localStart, int64_t count) {
          T *out = held + localStart;
          switch (parameter.init) {
          case fb::InitKind::Constant:
            std::fill(out, out + count, static_cast<T>(a));
            break;
          case fb::InitKind::Normal:
            philoxNormal<T>(seed, id, globalStart, count, a, b, out);
            break;
          case fb::InitKind::Uniform:
            philoxUniform<T>(seed, id, globalStart, count, a, b, out);
            break;
          }
          return Status::success();
        });
  }
};

struct InitializeUnits {
  static Status check(const CallArguments &call, Extent *touched) {
    touched[0] = call.scalars[0];
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    int32_t *units = call.at<int32_t>(0);
    std::fill(units, units + call.scalars[0], unsetScaleExponent);
    return Status::success();
  }
};

template <typename T>
void addParameterFunctionsOf(detail::FunctionTable &table) {
  table.push_back({std::string("initialize_parameter") + detail::suffixOf<T>(),
                   {{"param", detail::dataTypeOf<T>(), true}},
                   {{"parameter_index", 0, detail::maxIndex}},
                   {},
                   false,
                   InitializeParameter<T>::check,
                   InitializeParameter<T>::execute});
}

} // namespace

void detail::addParameterFunctions(FunctionTable &table) {
  addParameterFunctionsOf<float>(table);
  addParameterFunctionsOf<double>(table);
  table.push_back({"initialize_units",
                   {{"units", fb::DataType::I32, true}},
                   {{"P", 0, maxUnits}},
                   {},
                   false,
                   InitializeUnits::check,
                   InitializeUnits::execute});
}

} // namespace mixle::runtime
