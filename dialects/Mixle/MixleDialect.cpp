//===- MixleDialect.cpp - The mixle dialect, its types and structure ------===//

#include "dialects/Mixle/Mixle.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace mlir::mixle;

#include "dialects/Mixle/MixleDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Mixle/MixleTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Mixle/MixleOps.cpp.inc"

void MixleDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Mixle/MixleTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Mixle/MixleOps.cpp.inc"
      >();
}

LogicalResult ProgramOp::verify() {
  if (getNumerics() != "reproducible" && getNumerics() != "fast")
    return emitOpError("(P1) numerics '")
           << getNumerics() << "' is neither 'reproducible' nor 'fast'";
  if (getKind() != "training" && getKind() != "estimation")
    return emitOpError("(P1) kind '")
           << getKind() << "' is neither 'training' nor 'estimation'";
  for (NamedAttribute entry : getGranules()) {
    auto value = dyn_cast<IntegerAttr>(entry.getValue());
    if (!value || value.getInt() <= 0)
      return emitOpError("(P2) granules of '")
             << entry.getName().getValue() << "' must be a positive integer, got "
             << entry.getValue();
  }
  return success();
}

LogicalResult ParameterOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (!type.hasStaticShape())
    return emitOpError("needs a static shape, got ") << type;
  if (static_cast<int64_t>(getFactors().size()) != type.getRank())
    return emitOpError("(R1) has ")
           << getFactors().size() << " factor names for " << type.getRank()
           << " dimensions";
  if (!llvm::all_of(getFactors(), llvm::IsaPred<StringAttr>))
    return emitOpError("(R1) factor names must be strings");
  int64_t elements = 1;
  for (int64_t d : getFileShape())
    elements *= d;
  if (elements != type.getNumElements())
    return emitOpError("(R2) file_shape has ")
           << elements << " elements, the type has " << type.getNumElements();
  auto kind = getInit().getAs<StringAttr>("kind");
  if (!kind || (kind.getValue() != "constant" && kind.getValue() != "normal" &&
                kind.getValue() != "uniform"))
    return emitOpError("(R3) init kind must be 'constant', 'normal' or "
                       "'uniform', got ")
           << getInit();
  return success();
}

void EntryOp::build(OpBuilder &builder, OperationState &state, StringRef name,
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

ParseResult EntryOp::parse(OpAsmParser &parser, OperationState &result) {
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

void EntryOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(
      printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

LogicalResult ReturnOp::verify() {
  auto entry = cast<EntryOp>((*this)->getParentOp());
  if (getOperandTypes() != TypeRange(entry.getResultTypes()))
    return emitOpError("returns types that differ from the results of entry '")
           << entry.getSymName() << "'";
  return success();
}
