//===- Functions.cpp - The table of library functions ---------------------===//

#include "runtime/executor/Functions.h"

#include <algorithm>
#include <cmath>

namespace mixle::runtime {

static const detail::FunctionTable &functionTable() {
  static const detail::FunctionTable table = [] {
    detail::FunctionTable functions;
    detail::addMatrixFunctions(functions);
    detail::addSelectionFunctions(functions);
    detail::addTrainingFunctions(functions);
    detail::addParameterFunctions(functions);
    detail::addEstimationFunctions(functions);
    std::sort(functions.begin(), functions.end(),
              [](const LibraryFunction &a, const LibraryFunction &b) {
                return a.name < b.name;
              });
    return functions;
  }();
  return table;
}

const LibraryFunction *findFunction(std::string_view name) {
  const detail::FunctionTable &table = functionTable();
  auto found = std::lower_bound(
      table.begin(), table.end(), name,
      [](const LibraryFunction &function, std::string_view wanted) {
        return function.name < wanted;
      });
  return found != table.end() && found->name == name ? &*found : nullptr;
}

std::vector<const LibraryFunction *> allFunctions() {
  std::vector<const LibraryFunction *> all;
  for (const LibraryFunction &function : functionTable())
    all.push_back(&function);
  return all;
}

Status checkCall(const LibraryFunction &function, const CallArguments &call,
                 std::vector<Extent> &touched) {
  for (size_t i = 0; i < function.scalars.size(); ++i) {
    const LibraryFunction::Scalar &scalar = function.scalars[i];
    int64_t value = call.scalars[i];
    if (value < scalar.minimum || value > scalar.maximum)
      return Status::error("scalar '" + std::string(scalar.name) + "' is " +
                           std::to_string(value) + "; expected " +
                           std::to_string(scalar.minimum) + " to " +
                           std::to_string(scalar.maximum));
  }
  for (size_t i = 0; i < function.floats.size(); ++i)
    if (!std::isfinite((*call.floats)[i]))
      return Status::error("float '" + std::string(function.floats[i]) +
                           "' is not finite");
  touched.assign(function.buffers.size(), Extent(0));
  return function.check(call, touched.data());
}

} // namespace mixle::runtime
