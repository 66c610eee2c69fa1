//===- Interpreter.cpp - Runs entries of mixle programs -------------------===//

#include "compiler/Reference/Interpreter.h"
#include "compiler/Reference/Frame.h"

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

static const Meanings &meanings() {
  static const Meanings all = [] {
    Meanings table;
    addPointwise(table);
    addShapes(table);
    addContractions(table);
    addNorms(table);
    addAttention(table);
    addLosses(table);
    addAccumulators(table);
    addOptimizers(table);
    addMixtures(table);
    return table;
  }();
  return all;
}

bool mlir::mixle::reference::canInterpret(StringRef opName) {
  return meanings().find(opName) != nullptr;
}

/// Checks one value against the type of the SSA value that it is for. `rows` is
/// the run-time size of leading dynamic dimensions, -1 until one is seen.
static LogicalResult checkValue(Operation *op, const Twine &what,
                                const Tensor &tensor, Type type,
                                int64_t &rows) {
  auto expected = dyn_cast<RankedTensorType>(type);
  if (!expected)
    return op->emitOpError() << what << " has type " << type
                             << ", which is no tensor";
  bool integral = expected.getElementType().isInteger();
  bool fits = tensor.rank() == expected.getRank();
  for (int64_t d = 0; fits && d < tensor.rank(); ++d)
    fits = expected.isDynamicDim(d) || tensor.shape[d] == expected.getDimSize(d);
  if (!fits) {
    InFlightDiagnostic diagnostic = op->emitOpError() << what << " has shape [";
    llvm::interleaveComma(tensor.shape, diagnostic);
    return diagnostic << "], but the program expects " << expected;
  }
  size_t elements = integral ? tensor.integers.size() : tensor.reals.size();
  if (integral != tensor.integral ||
      elements != static_cast<size_t>(tensor.size()))
    return op->emitOpError() << what << " needs " << tensor.size()
                             << (integral ? " integers" : " numbers") << " for "
                             << expected << ", got " << elements
                             << (tensor.integral ? " integers" : " numbers");
  if (expected.getRank() == 0 || !expected.isDynamicDim(0))
    return success();
  if (rows < 0)
    rows = tensor.shape[0];
  if (rows != tensor.shape[0])
    return op->emitOpError() << what << " has " << tensor.shape[0]
                             << " rows, an earlier argument has " << rows;
  return success();
}

LogicalResult
mlir::mixle::reference::interpretOp(Operation *op, ValueMap &values,
                                    const InterpreterOptions &options) {
  const Meanings::Meaning *meaning =
      meanings().find(op->getName().getStringRef());
  if (!meaning)
    return op->emitOpError("has no meaning in the reference interpreter");
  for (Value operand : op->getOperands())
    if (!values.count(operand))
      return op->emitOpError("has an operand without a value");
  Frame frame(op, values, options);
  return (*meaning)(op, frame);
}

LogicalResult
mlir::mixle::reference::interpret(EntryOp entry, ArrayRef<Tensor> arguments,
                                  SmallVectorImpl<Tensor> &results,
                                  const InterpreterOptions &options) {
  Block &body = entry.getBody().front();
  if (arguments.size() != body.getNumArguments())
    return entry.emitOpError()
           << "'" << entry.getSymName() << "' takes " << body.getNumArguments()
           << " arguments, got " << arguments.size();
  ValueMap values;
  int64_t rows = -1;
  for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
    if (failed(checkValue(entry,
                          "'" + entry.getSymName() + "' argument " + Twine(i),
                          arguments[i], argument.getType(), rows)))
      return failure();
    Tensor value = arguments[i];
    roundToElementType(
        cast<RankedTensorType>(argument.getType()).getElementType(), options,
        value);
    values[argument] = std::move(value);
  }
  for (Operation &op : body.without_terminator())
    if (failed(interpretOp(&op, values, options)))
      return failure();
  for (Value operand : body.getTerminator()->getOperands())
    results.push_back(values[operand]);
  return success();
}
