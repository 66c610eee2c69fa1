//===- Interfaces.cpp - What an op tells the passes -----------------------===//

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace mlir::mixle;

#include "dialects/Interfaces/Interfaces.cpp.inc"

PlacementRule mlir::mixle::pointwiseRule(Operation *op) {
  PlacementRule rule;
  int64_t rank = 0;
  if (op->getNumResults())
    if (auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType()))
      rank = type.getRank();
  SmallVector<int> dims;
  for (int64_t d = 0; d < rank; ++d)
    dims.push_back(rule.addFactor());
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    // Scalars are held whole by every rank.
    rule.operands.push_back(type && type.getRank() == rank ? dims
                                                           : SmallVector<int>{});
  }
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    rule.results.push_back(dims);
  return rule;
}

static double elementsPerRow(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  double count = 1;
  for (int64_t d : tensor.getShape())
    if (!ShapedType::isDynamic(d))
      count *= static_cast<double>(d);
  return count;
}

static double bytesPerElement(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  Type element = tensor ? tensor.getElementType() : type;
  return element.isIntOrFloat()
             ? static_cast<double>(element.getIntOrFloatBitWidth()) / 8
             : 8;
}

Cost mlir::mixle::defaultCost(Operation *op) {
  Cost cost;
  for (Value v : op->getOperands())
    cost.bytes += elementsPerRow(v.getType()) * bytesPerElement(v.getType());
  for (Value v : op->getResults()) {
    cost.flops += elementsPerRow(v.getType());
    cost.bytes += elementsPerRow(v.getType()) * bytesPerElement(v.getType());
  }
  return cost;
}
