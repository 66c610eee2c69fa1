//===- EstimationWeights.cpp - A mixture's parameters in and out ----------===//

#include "runtime/base/Safetensors.h"
#include "runtime/base/KeyValues.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/training/Estimation.h"

#include <cmath>
#include <cstring>

namespace mixle::runtime {

namespace {

struct NamedValues {
  const char *name;
  std::vector<double> MixtureValues::*values;
  std::vector<int64_t> shape;
};

/// The tensors of a mixture's file, in its order.
std::vector<NamedValues> tensorsOf(const MixtureSpec &spec) {
  const int64_t k = spec.components, d = spec.shape.dim;
  std::vector<int64_t> covariance = {k, d};
  if (spec.shape.full)
    covariance.push_back(d);
  return {{"weights", &MixtureValues::weights, {k}},
          {"means", &MixtureValues::means, {k, d}},
          {"covariances", &MixtureValues::covariances, covariance}};
}

int64_t elementsOf(const std::vector<int64_t> &shape) {
  int64_t n = 1;
  for (int64_t size : shape)
    n *= size;
  return n;
}

} // namespace

//===----------------------------------------------------------------------===//
// Ranks' parts
//===----------------------------------------------------------------------===//

Status EstimationSession::writeParameter(const std::string &name,
                                         const std::vector<double> &values) {
  MIXLE_ASSIGN_OR_RETURN(size_t index, parameterIndex(name));
  return executor->forEachHeldRange(index, "", [&](const ElementRange &range) {
    std::memcpy(range.data, values.data() + range.globalStart,
                range.count * sizeof(double));
    return Status::success();
  });
}

/// Each element comes from its one owner, all others send zero bits.
Expected<std::vector<double>>
EstimationSession::gather(const std::string &name) {
  MIXLE_ASSIGN_OR_RETURN(size_t index, parameterIndex(name));
  std::vector<double> values(logicalElements(executor->parameter(index)), 0.0);
  MIXLE_RETURN_IF_ERROR(
      executor->forEachOwnedRange(index, "", [&](const ElementRange &range) {
        std::memcpy(values.data() + range.globalStart, range.data,
                    range.count * sizeof(double));
        return Status::success();
      }));
  CommandContext context;
  context.entry = "gather";
  MIXLE_RETURN_IF_ERROR(communicator().allReduce(
      *everyone, context, values.data(), static_cast<int64_t>(values.size()),
      DataType::u64, ReduceOp::bitOr));
  return values;
}

Expected<std::vector<double>> EstimationSession::statistics() {
  return gather("_statistics");
}

Expected<MixtureValues> EstimationSession::parameters() {
  MixtureValues values;
  for (const NamedValues &tensor : tensorsOf(specification)) {
    MIXLE_ASSIGN_OR_RETURN(values.*tensor.values, gather(tensor.name));
  }
  return values;
}

Status EstimationSession::checkValues(const MixtureValues &values) const {
  for (const NamedValues &tensor : tensorsOf(specification)) {
    const std::vector<double> &given = values.*tensor.values;
    if (static_cast<int64_t>(given.size()) != elementsOf(tensor.shape))
      return Status::error(std::string(tensor.name) + ": " +
                           std::to_string(given.size()) +
                           " numbers; expected the shape " +
                           shapeText(tensor.shape));
    for (size_t i = 0; i < given.size(); ++i)
      if (!std::isfinite(given[i]))
        return Status::error(std::string(tensor.name) + ": element " +
                             std::to_string(i) + " is " +
                             numberText(given[i]) +
                             "; parameters must be finite");
  }
  MIXLE_RETURN_IF_ERROR(checkWeights(values.weights, specification.components)
                            .withContext("weights"));
  for (int64_t k = 0; k < specification.components; ++k)
    MIXLE_RETURN_IF_ERROR(
        checkCovariance(specification.shape,
                        values.covariances.data() +
                            k * specification.shape.covarianceSize())
            .withContext("covariances: component " + std::to_string(k)));
  return Status::success();
}

Status EstimationSession::setParameters(const MixtureValues &values) {
  MIXLE_RETURN_IF_ERROR(agreed("parameters", checkValues(values)));
  for (const NamedValues &tensor : tensorsOf(specification))
    MIXLE_RETURN_IF_ERROR(writeParameter(tensor.name, values.*tensor.values));
  hasStart = true;
  iteration = 0;
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

Expected<MixtureValues>
EstimationSession::readWeights(const std::string &path) const {
  MIXLE_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  const std::vector<NamedValues> expected = tensorsOf(specification);
  for (const TensorView &view : file.tensors()) {
    bool known = false;
    for (const NamedValues &tensor : expected)
      known |= view.name == tensor.name;
    if (!known)
      return Status::error(path + ": tensor '" + view.name +
                           "' is no part of a mixture; its tensors are weights, "
                           "means and covariances");
  }
  MixtureValues values;
  for (const NamedValues &tensor : expected) {
    const TensorView *view = file.find(tensor.name);
    if (!view)
      return Status::error(path + ": it has no tensor '" + tensor.name + "'");
    if (view->shape != tensor.shape)
      return Status::error(path + ": tensor '" + tensor.name +
                           "' has the shape " + shapeText(view->shape) +
                           "; the estimator's is " + shapeText(tensor.shape));
    std::vector<double> &read = values.*tensor.values;
    read.resize(view->elements());
    MIXLE_RETURN_IF_ERROR(toDouble(*view, read.data()).withContext(path));
  }
  MIXLE_RETURN_IF_ERROR(checkValues(values).withContext(path));
  return values;
}

Status EstimationSession::loadWeights(const std::string &path) {
  Expected<MixtureValues> values = readWeights(path);
  MIXLE_RETURN_IF_ERROR(agreed("weights", values.status()));
  return setParameters(*values);
}

Status EstimationSession::saveWeights(const std::string &path) {
  MIXLE_ASSIGN_OR_RETURN(MixtureValues values, parameters());
  Status written;
  if (communicator().rank() == 0) {
    std::vector<TensorView> views;
    for (const NamedValues &tensor : tensorsOf(specification)) {
      const std::vector<double> &data = values.*tensor.values;
      views.push_back({tensor.name, TensorType::F64, tensor.shape,
                       reinterpret_cast<const uint8_t *>(data.data()),
                       data.size() * sizeof(double)});
    }
    written = writeSafetensors(path, views);
  }
  return agreed("weights", written);
}

} // namespace mixle::runtime
