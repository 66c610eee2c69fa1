//===- ExecDialect.cpp - The exec dialect ---------------------------------===//

#include "dialects/Exec/Exec.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace mlir::exec;

#include "dialects/Exec/ExecDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Exec/ExecAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.cpp.inc"

void ExecDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Exec/ExecAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Exec/ExecOps.cpp.inc"
      >();
}

LogicalResult ScalarAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringAttr kind, StringAttr axis, int64_t a,
                                 int64_t b) {
  if (!llvm::is_contained({"constant", "rows", "offset", "owned", "row_start",
                           "coordinate"},
                          kind.getValue()))
    return emitError() << "unknown scalar kind '" << kind.getValue() << "'";
  if (!llvm::is_contained({"", "dp_replicate", "dp_shard", "tp", "pp", "cp"},
                          axis.getValue()))
    return emitError() << "unknown mesh axis '" << axis.getValue() << "'";
  return success();
}

LogicalResult BufferOp::verify() {
  if (!llvm::is_contained({"scratch", "parameter", "state", "accumulator",
                           "input", "output"},
                          getKind()))
    return emitOpError("(X1) unknown buffer kind '") << getKind() << "'";
  return success();
}

LogicalResult CollectiveOp::verify() {
  if (!llvm::is_contained(
          {"all_reduce", "reduce_scatter", "all_gather", "tree_all_reduce"},
          getCollective()))
    return emitOpError("(X2) unknown collective '") << getCollective() << "'";
  if (getUpdates().empty())
    return emitOpError("(X2) carries out no update");
  return success();
}

LogicalResult ScheduleOp::verify() {
  int64_t phases = 0;
  for (Operation &op : getBody().front()) {
    if (!isa<PhaseOp>(op))
      return emitOpError("(X3) has a body of phases only, not of ") << op.getName();
    ++phases;
  }
  int64_t microbatches = static_cast<int64_t>(getMicrobatches());
  if (static_cast<int64_t>(getRuns().size()) != 3 * phases * microbatches)
    return emitOpError("(X3) has ")
           << getRuns().size() / 3 << " runs of " << phases << " phases on "
           << microbatches << " microbatches";
  llvm::DenseSet<std::pair<int64_t, int64_t>> seen;
  for (size_t i = 0; i < getRuns().size(); i += 3) {
    int64_t phase = getRuns()[i], microbatch = getRuns()[i + 1];
    if (phase < 0 || phase >= phases || microbatch < 0 ||
        microbatch >= microbatches || getRuns()[i + 2] < 0 ||
        !seen.insert({phase, microbatch}).second)
      return emitOpError("(X3) runs phase ")
             << phase << " on microbatch " << microbatch
             << " twice, or one of them does not exist";
  }
  return success();
}

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                     FunctionType type) {
  state.addAttribute(SymbolTable::getSymbolAttrName(),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  Region *body = state.addRegion();
  Block *block = new Block();
  body->push_back(block);
  for (Type input : type.getInputs())
    block->addArgument(input, state.location);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments,
                      ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), buildType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(
      printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}
