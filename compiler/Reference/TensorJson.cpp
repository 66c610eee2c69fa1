//===- TensorJson.cpp - Tensors as JSON text ------------------------------===//

#include "compiler/Reference/TensorJson.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;
using namespace mlir::mixle::reference;

template <typename... Parts>
static llvm::Error error(Parts &&...parts) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  (stream << ... << parts);
  return llvm::createStringError(message);
}

static std::optional<double> toReal(const llvm::json::Value &value) {
  if (std::optional<double> number = value.getAsNumber())
    return number;
  std::optional<StringRef> text = value.getAsString();
  if (!text)
    return std::nullopt;
  return llvm::StringSwitch<std::optional<double>>(*text)
      .Case("inf", HUGE_VAL)
      .Case("-inf", -HUGE_VAL)
      .Case("nan", std::nan(""))
      .Default(std::nullopt);
}

static std::optional<int64_t> toInteger(const llvm::json::Value &value) {
  if (std::optional<bool> boolean = value.getAsBoolean())
    return *boolean;
  return value.getAsInteger();
}

static llvm::Expected<Tensor> toTensor(const llvm::json::Value &value,
                                       size_t number, Type type) {
  const llvm::json::Object *object = value.getAsObject();
  const llvm::json::Array *shape = object ? object->getArray("shape") : nullptr;
  const llvm::json::Array *data = object ? object->getArray("data") : nullptr;
  if (!shape || !data)
    return error("tensor ", number,
                 " is not {\"shape\": [...], \"data\": [...]}");
  Tensor tensor;
  int64_t elements = 1;
  for (const llvm::json::Value &item : *shape) {
    std::optional<int64_t> size = item.getAsInteger();
    if (!size || *size < 0 || __builtin_mul_overflow(elements, *size, &elements))
      return error("tensor ", number, " has a shape of ",
                   llvm::formatv("{0}", item).str(),
                   "; sizes are integers from 0 on");
    tensor.shape.push_back(*size);
  }
  if (elements != static_cast<int64_t>(data->size()))
    return error("tensor ", number, " has ", data->size(),
                 " elements, its shape has ", elements);
  auto tensorType = dyn_cast<RankedTensorType>(type);
  tensor.integral = tensorType && tensorType.getElementType().isInteger();
  for (auto [i, item] : llvm::enumerate(*data)) {
    std::optional<double> real;
    std::optional<int64_t> integer;
    if (tensor.integral && (integer = toInteger(item)))
      tensor.integers.push_back(*integer);
    else if (!tensor.integral && (real = toReal(item)))
      tensor.reals.push_back(*real);
    else
      return error("tensor ", number, " element ", i, " is ",
                   llvm::formatv("{0}", item).str(), ", expected ",
                   tensor.integral
                       ? "an integer"
                       : "a number, \"inf\", \"-inf\" or \"nan\"");
  }
  return tensor;
}

llvm::Expected<SmallVector<Tensor>>
mlir::mixle::reference::tensorsFromJson(StringRef text, TypeRange types) {
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed)
    return parsed.takeError();
  const llvm::json::Array *list = parsed->getAsArray();
  if (!list)
    return error("expected a list of tensors");
  if (list->size() != types.size())
    return error("has ", list->size(), " tensors, expected ", types.size());
  SmallVector<Tensor> tensors;
  for (auto [i, value] : llvm::enumerate(*list)) {
    llvm::Expected<Tensor> tensor = toTensor(value, i, types[i]);
    if (!tensor)
      return tensor.takeError();
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

static void printReal(llvm::raw_ostream &stream, double x) {
  if (std::isnan(x))
    stream << "\"nan\"";
  else if (std::isinf(x))
    stream << (x < 0 ? "\"-inf\"" : "\"inf\"");
  else
    stream << llvm::json::Value(x);
}

std::string mlir::mixle::reference::tensorsToJson(ArrayRef<Tensor> tensors) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "[";
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    stream << (i ? ",\n " : "") << "{\"shape\": [";
    llvm::interleaveComma(tensor.shape, stream);
    stream << "], \"data\": [";
    if (tensor.integral)
      llvm::interleaveComma(tensor.integers, stream);
    else
      llvm::interleaveComma(tensor.reals, stream,
                            [&](double x) { printReal(stream, x); });
    stream << "]}";
  }
  stream << "]\n";
  return text;
}
