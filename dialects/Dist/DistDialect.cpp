//===- DistDialect.cpp - The dist dialect ---------------------------------===//

#include "dialects/Dist/Dist.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include <cmath>

using namespace mlir;
using namespace mlir::dist;

#include "dialects/Dist/DistDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.cpp.inc"

void DistDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Dist/DistAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Dist/DistOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

Placement Placement::from(PlacementAttr attribute) {
  Placement placement;
  for (Attribute dim : attribute.getDims()) {
    placement.dims.emplace_back();
    for (Attribute axis : cast<ArrayAttr>(dim))
      placement.dims.back().push_back(cast<StringAttr>(axis).getValue());
  }
  for (Attribute axis : attribute.getPartial())
    placement.partial.push_back(cast<StringAttr>(axis).getValue());
  placement.merge = attribute.getMerge().getValue();
  return placement;
}

PlacementAttr Placement::toAttr(MLIRContext *context) const {
  Builder builder(context);
  SmallVector<Attribute> dimAttrs;
  for (ArrayRef<StringRef> axes : dims)
    dimAttrs.push_back(builder.getStrArrayAttr(axes));
  return PlacementAttr::get(context, builder.getArrayAttr(dimAttrs),
                            builder.getStrArrayAttr(partial),
                            builder.getStringAttr(merge));
}

LogicalResult
PlacementAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      ArrayAttr dims, ArrayAttr partial, StringAttr merge) {
  llvm::StringSet<> seen;
  auto check = [&](ArrayAttr axes) -> LogicalResult {
    for (Attribute axis : axes) {
      auto name = dyn_cast<StringAttr>(axis);
      if (!name || !llvm::is_contained(kAxes, name.getValue()))
        return emitError() << "unknown mesh axis " << axis;
      if (!seen.insert(name.getValue()).second)
        return emitError() << "(L1) mesh axis " << axis << " is used twice";
    }
    return success();
  };
  for (Attribute dim : dims) {
    auto axes = dyn_cast<ArrayAttr>(dim);
    if (!axes)
      return emitError() << "a dimension's placement must be a list of axes, got "
                         << dim;
    if (failed(check(axes)))
      return failure();
  }
  if (failed(check(partial)))
    return failure();
  if (partial.empty() != merge.getValue().empty())
    return emitError() << "(L2) partial axes and their merge go together";
  return success();
}

/// (L3) A placement fits the value that it is given to.
static LogicalResult verifyPlacement(Operation *op, Attribute attribute,
                                     Type type) {
  auto placement = dyn_cast<PlacementAttr>(attribute);
  if (!placement)
    return op->emitError("(L3) expected a #dist.placement, got ") << attribute;
  auto tensor = dyn_cast<RankedTensorType>(type);
  int64_t rank = tensor ? tensor.getRank() : 0;
  // Under dp_shard the global tensor is placed and the rank's part is flat.
  if (static_cast<int64_t>(placement.getDims().size()) != rank &&
      !op->hasAttr("dist.global_types"))
    return op->emitError("(L3) placement ")
           << attribute << " has " << placement.getDims().size()
           << " dimensions, the value " << type << " has " << rank;
  return success();
}

LogicalResult DistDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  if (attribute.getName() != kPlacementsAttr)
    return success();
  auto all = dyn_cast<ArrayAttr>(attribute.getValue());
  if (!all || all.size() != op->getNumResults())
    return op->emitError("(L3) expected one placement for each of ")
           << op->getNumResults() << " results";
  for (auto [placement, result] : llvm::zip(all, op->getResults()))
    if (failed(verifyPlacement(op, placement, result.getType())))
      return failure();
  return success();
}

LogicalResult DistDialect::verifyRegionArgAttribute(Operation *op,
                                                    unsigned region,
                                                    unsigned argument,
                                                    NamedAttribute attribute) {
  if (attribute.getName() != kPlacementAttr)
    return success();
  auto function = dyn_cast<FunctionOpInterface>(op);
  auto placement = dyn_cast<PlacementAttr>(attribute.getValue());
  if (!function || !placement)
    return op->emitError("(L3) expected a #dist.placement on a function argument");
  if (function.getArgAttr(argument, "dist.global_type"))
    return success();
  auto tensor = dyn_cast<RankedTensorType>(function.getArgumentTypes()[argument]);
  int64_t rank = tensor ? tensor.getRank() : 0;
  if (static_cast<int64_t>(placement.getDims().size()) != rank)
    return op->emitError("(L3) placement ")
           << placement << " of argument " << argument << " has "
           << placement.getDims().size() << " dimensions, the argument has " << rank;
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult MeshOp::verify() {
  if (getAxes().size() != getSizes().size())
    return emitOpError("(M1) has ") << getAxes().size() << " axes and "
                                    << getSizes().size() << " sizes";
  llvm::StringSet<> seen;
  for (auto [axis, size] : llvm::zip(getAxes(), getSizes())) {
    auto name = dyn_cast<StringAttr>(axis);
    if (!name || !llvm::is_contained(kAxes, name.getValue()))
      return emitOpError("(M1) unknown axis ") << axis;
    if (!seen.insert(name.getValue()).second)
      return emitOpError("(M1) axis ") << axis << " is listed twice";
    if (size < 1)
      return emitOpError("(M1) axis ")
             << axis << " has size " << size << "; it must be positive";
  }
  return success();
}

int64_t MeshOp::sizeOf(StringRef axis) {
  for (auto [name, size] : llvm::zip(getAxes(), getSizes()))
    if (cast<StringAttr>(name).getValue() == axis)
      return size;
  return 1;
}

int64_t MeshOp::planField(StringRef field) {
  auto value = getPlan().getAs<IntegerAttr>(field);
  return value ? value.getInt() : 1;
}

mixle::PlacementRule UpdateOp::getPlacementRule() {
  return mixle::pointwiseRule(*this);
}

LogicalResult UpdateOp::verify() {
  if (getNodeId().trim().empty())
    return emitOpError("(U4) node_id must not be blank");
  auto known = [&](StringRef value, ArrayRef<StringRef> names,
                   StringRef what) -> LogicalResult {
    if (!llvm::is_contained(names, value))
      return emitOpError("(U3) unknown ") << what << " '" << value << "'";
    return success();
  };
  if (failed(known(getPayload(),
                   {"gradient", "sufficient_statistic", "parameter",
                    "activation", "kv_block", "token", "message"},
                   "payload")) ||
      failed(known(getCollective(),
                   {"none", "all_reduce", "reduce_scatter", "all_gather",
                    "all_to_all", "broadcast", "p2p", "custom"},
                   "collective")) ||
      failed(known(getStateLayout(),
                   {"replicated", "sharded", "pipeline_local", "expert_local",
                    "offloaded"},
                   "state_layout")) ||
      failed(known(getReductionOrder(), {"integer", "tree", "any", "copy"},
                   "reduction_order")))
    return failure();
  llvm::StringSet<> seen;
  for (Attribute axis : getMeshAxes()) {
    auto name = dyn_cast<StringAttr>(axis);
    if (!name || !llvm::is_contained(kAxes, name.getValue()) ||
        !seen.insert(name.getValue()).second)
      return emitOpError("(U3) mesh axis ") << axis << " is unknown or repeated";
  }
  if (getExact() && getCollective() != "none")
    return emitOpError("(U1) a distributed collective cannot claim guaranteed "
                       "numerical exactness");
  bool has[] = {getDeterminismObserved().has_value(),
                getMaximumAbsoluteError().has_value(),
                getMaximumRelativeError().has_value(),
                getNumericsEvidenceId().has_value(),
                getNumericsSampleCount().has_value()};
  bool any = llvm::is_contained(has, true), all = !llvm::is_contained(has, false);
  if (any != all)
    return emitOpError("(U2) numerics evidence is all or nothing: id, sample "
                       "count, determinism and both error bounds");
  if (all) {
    double absolute = getMaximumAbsoluteError()->convertToDouble();
    double relative = getMaximumRelativeError()->convertToDouble();
    if (getNumericsEvidenceId()->trim().empty() ||
        static_cast<int64_t>(*getNumericsSampleCount()) <= 0 ||
        !std::isfinite(absolute) || absolute < 0 || !std::isfinite(relative) ||
        relative < 0)
      return emitOpError("(U2) numerics evidence needs an id, a positive sample "
                         "count, and finite errors >= 0");
  }
  return success();
}
