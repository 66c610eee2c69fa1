//===- GoldenModel.h - Running programs on mixle's own weights --*- C++ -*-===//

#ifndef MIXLE_TEST_FRONTEND_GOLDENMODEL_H
#define MIXLE_TEST_FRONTEND_GOLDENMODEL_H

#include "compiler/Reference/Interpreter.h"
#include "frontend/cpp/models/Load.h"
#include "runtime/base/Files.h"
#include "runtime/base/Json.h"
#include "runtime/base/Safetensors.h"
#include "gtest/gtest.h"

#include <map>

namespace mixle::frontend::test {

namespace ir = mlir::mixle;
using Value = ir::reference::Tensor;

inline Value reals(std::vector<int64_t> shape, std::vector<double> values) {
  Value value = Value::zeros(shape);
  value.reals = std::move(values);
  return value;
}

inline Value integers(std::vector<int64_t> shape, std::vector<int64_t> values) {
  Value value = Value::integerZeros(shape);
  value.integers = std::move(values);
  return value;
}

/// Runs entry `name`; arguments are found by role, parameters by name, and
/// accumulators start at zero.
inline std::vector<Value> run(mlir::ModuleOp module, llvm::StringRef name,
                              const std::map<std::string, Value> &values) {
  ir::ProgramOp program = *module.getOps<ir::ProgramOp>().begin();
  auto entry = program.lookupSymbol<ir::EntryOp>(name);
  llvm::SmallVector<Value> arguments, results;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    auto of = entry.getArgAttrOfType<mlir::FlatSymbolRefAttr>(i, ir::kOfAttr);
    auto role = entry.getArgAttrOfType<mlir::StringAttr>(i, ir::kRoleAttr);
    auto type = mlir::cast<mlir::RankedTensorType>(entry.getArgumentTypes()[i]);
    if (role.getValue() == "accumulator") {
      arguments.push_back(Value::zeros(type.getShape()));
      continue;
    }
    std::string key = of ? of.getValue().str() : role.getValue().str();
    auto found = values.find(key);
    EXPECT_TRUE(found != values.end()) << key;
    if (found == values.end())
      return {};
    arguments.push_back(found->second);
    // Files hold the same elements in another shape.
    if (of)
      arguments.back().shape.assign(type.getShape().begin(),
                                    type.getShape().end());
  }
  EXPECT_TRUE(
      mlir::succeeded(ir::reference::interpret(entry, arguments, results)));
  return std::vector<Value>(results.begin(), results.end());
}

/// The tensors of a safetensors file, as doubles.
inline std::map<std::string, Value> load(const std::string &name) {
  std::map<std::string, Value> result;
  auto file = mixle::runtime::SafetensorsFile::open(
      std::string(MIXLE_GOLDEN_DIRECTORY "/") + name);
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok())
    return result;
  for (const auto &tensor : file->tensors()) {
    Value value = Value::zeros(tensor.shape);
    EXPECT_TRUE(mixle::runtime::toDouble(tensor, value.reals.data()).ok());
    result[tensor.name] = value;
  }
  return result;
}

/// mixle's forward pass: its weights, inputs and what came out.
struct Golden {
  Golden() {
    auto text =
        mixle::runtime::readFile(MIXLE_GOLDEN_DIRECTORY "/forward_f64.json");
    EXPECT_TRUE(text.ok());
    auto parsed = mixle::runtime::parseJson(*text, "forward_f64.json");
    EXPECT_TRUE(parsed.ok());
    json = *parsed;
    weights = load("forward_f64.weights.safetensors");
    expected = load("forward_f64.expected.safetensors");
    config = json["config"].dump();
    config = "{\"model_type\": \"mixle_causal_lm\", " + config.substr(1);
  }
  /// The first `length` columns of "inputs" or "targets".
  Value tokens(const char *key, int64_t length) {
    std::vector<int64_t> values;
    for (const auto &row : json[key])
      for (int64_t t = 0; t < length; ++t)
        values.push_back(row[t].get<int64_t>());
    return integers({static_cast<int64_t>(json[key].size()), length}, values);
  }

  mixle::runtime::Json json;
  std::string config;
  std::map<std::string, Value> weights, expected;
};

} // namespace mixle::frontend::test

#endif // MIXLE_TEST_FRONTEND_GOLDENMODEL_H
