//===- Graph.cpp - Programs, parameters and entry points ------------------===//

#include "frontend/cpp/Graph.h"

#include "dialects/Mixle/Mixle.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace llvm;

namespace mixle::frontend {

namespace ir = mlir::mixle;

namespace {

constexpr StringLiteral kKnownFactors[] = {"heads", "kv_heads", "ffn",
                                           "vocabulary", "components"};
constexpr int64_t kMaximumElements = int64_t(1) << 62;

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  raw_string_ostream stream(text);
  stream << "[";
  interleaveComma(shape, stream, [&](int64_t d) {
    if (mlir::ShapedType::isDynamic(d))
      stream << "rows";
    else
      stream << d;
  });
  stream << "]";
  return text;
}

std::string numberText(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%g", value);
  return buffer;
}

/// The product, or -1 when a size is not positive or the product too large.
int64_t elementCount(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size <= 0 || size > kMaximumElements / count)
      return -1;
    count *= size;
  }
  return count;
}

mlir::DictionaryAttr withEntry(mlir::DictionaryAttr dictionary, StringRef key,
                               mlir::Attribute value) {
  mlir::NamedAttrList list(dictionary);
  list.set(key, value);
  return list.getDictionary(value.getContext());
}

} // namespace

//===----------------------------------------------------------------------===//
// Tensor
//===----------------------------------------------------------------------===//

Graph &Tensor::graph() const {
  if (!owner)
    throw FrontendError("an empty Tensor handle was used: assign it the result "
                        "of a parameter, an argument or an op first");
  return *owner;
}

int64_t Tensor::dim(int64_t d) const {
  int64_t index = d < 0 ? d + rank() : d;
  if (index < 0 || index >= rank())
    graph().fail("dim", "dimension " + Twine(d) + " of a tensor of shape " +
                            shapeText(shape()) + " does not exist");
  return tensorType.getDimSize(index);
}

//===----------------------------------------------------------------------===//
// Construction and the end
//===----------------------------------------------------------------------===//

Graph::Graph(StringRef name, GraphOptions graphOptions)
    : options(std::move(graphOptions)),
      ownContext(std::make_unique<mlir::MLIRContext>(
          mlir::MLIRContext::Threading::DISABLED)),
      builder(ownContext.get()) {
  ownModule = mlir::ModuleOp::create(builder.getUnknownLoc());
  module = *ownModule;
  start(name);
}

Graph::Graph(mlir::MLIRContext &context, StringRef name,
             GraphOptions graphOptions)
    : options(std::move(graphOptions)), builder(&context) {
  ownModule = mlir::ModuleOp::create(builder.getUnknownLoc());
  module = *ownModule;
  start(name);
}

Graph::Graph(mlir::ModuleOp into, StringRef name, GraphOptions graphOptions)
    : options(std::move(graphOptions)), module(into),
      builder(into.getContext()) {
  start(name);
}

Graph::~Graph() = default;

void Graph::start(StringRef name) {
  context().getOrLoadDialect<ir::MixleDialect>();
  if (name.empty())
    fail("Graph", "a program needs a name");
  if (options.kind != "training" && options.kind != "estimation")
    fail("Graph",
         "kind '" + options.kind + "' is neither 'training' nor 'estimation'");
  if (options.numerics != "reproducible" && options.numerics != "fast")
    fail("Graph", "numerics '" + options.numerics +
                      "' is neither 'reproducible' nor 'fast'");
  if (module.lookupSymbol(name))
    fail("Graph", "the module already has a symbol '" + name + "'");
  builder.setInsertionPointToEnd(module.getBody());
  auto empty = builder.getDictionaryAttr({});
  mlir::OperationState state(mlir::NameLoc::get(builder.getStringAttr(name)),
                             ir::ProgramOp::getOperationName());
  ir::ProgramOp::build(builder, state, builder.getStringAttr(name),
                       builder.getStringAttr(options.kind),
                       builder.getStringAttr(options.numerics), empty, empty);
  program = builder.create(state);
  program->getRegion(0).emplaceBlock();
}

mlir::ModuleOp Graph::finish() {
  if (current)
    fail("finish", "entry '" + currentName + "' is still being built");
  auto programOp = cast<ir::ProgramOp>(program);
  if (programOp.getBody().getOps<ir::EntryOp>().empty())
    fail("finish", "program '" + programOp.getSymName() +
                       "' has no entry: add one with entry or lossEntry");
  std::string message;
  {
    mlir::ScopedDiagnosticHandler handler(&context(),
                                          [&](mlir::Diagnostic &diagnostic) {
                                            if (message.empty())
                                              message = diagnostic.str();
                                            return mlir::success();
                                          });
    if (mlir::succeeded(mlir::verify(program)))
      return module;
  }
  fail("finish", message);
}

mlir::OwningOpRef<mlir::ModuleOp> Graph::take() {
  if (ownContext || !ownModule)
    fail("take", "only a graph made with a context of the caller's has a "
                 "module to give away; use finish()");
  finish();
  return std::move(ownModule);
}

mlir::FloatType Graph::floatType() {
  if (options.precision == Precision::F32)
    return builder.getF32Type();
  return builder.getF64Type();
}

mlir::Location Graph::location() {
  std::string name = join(scopes, ".");
  if (name.empty())
    name =
        current ? currentName : cast<ir::ProgramOp>(program).getSymName().str();
  return mlir::NameLoc::get(builder.getStringAttr(name));
}

void Graph::fail(StringRef call, const Twine &message) {
  std::string where;
  if (current)
    where = "@" + currentName;
  if (!scopes.empty())
    where += (where.empty() ? "" : ", ") + join(scopes, ".");
  throw FrontendError(
      (call + (where.empty() ? "" : " (in " + where + ")") + ": " + message)
          .str());
}

//===----------------------------------------------------------------------===//
// Parameters and attributes of the program
//===----------------------------------------------------------------------===//

void Graph::checkName(StringRef call, StringRef name) {
  if (name.empty())
    fail(call, "a name must not be empty");
  if (mlir::SymbolTable::lookupSymbolIn(program, name))
    fail(call, "the name '" + name +
                   "' is taken: parameters and entries of a "
                   "program share their names");
}

Tensor Graph::parameter(StringRef name, Shape shape, Init init,
                        ParameterOptions parameterOptions) {
  const StringRef call = "parameter";
  checkName(call, name);
  int64_t elements = elementCount(shape);
  if (elements < 0)
    fail(call, "'" + name + "' has shape " + shapeText(shape) +
                   ": sizes must be positive and at most 2^62 elements in all");
  std::vector<std::string> factors = parameterOptions.factors;
  if (factors.empty())
    factors.assign(shape.size(), "");
  if (factors.size() != shape.size())
    fail(call, "'" + name + "' has " + Twine(factors.size()) +
                   " factor names for shape " + shapeText(shape) +
                   ": give one per dimension, or none");
  for (const std::string &factor : factors)
    if (!factor.empty() && !is_contained(kKnownFactors, factor))
      fail(call, "'" + name + "' has a factor '" + factor +
                     "' that no plan can split; known are " +
                     join(ArrayRef(kKnownFactors), ", ") +
                     ", and \"\" for never");
  Shape fileShape = parameterOptions.fileShape.value_or(shape);
  if (elementCount(fileShape) != elements)
    fail(call, "'" + name + "' has file shape " + shapeText(fileShape) +
                   ", which has another number of elements than " +
                   shapeText(shape));
  if (!std::isfinite(init.first) || !std::isfinite(init.second))
    fail(call, "'" + name + "' has an initialisation that is not finite");
  if (StringRef(init.kind) == "normal" && init.second < 0)
    fail(call, "'" + name + "' has a negative standard deviation " +
                   numberText(init.second));
  if (StringRef(init.kind) == "uniform" && init.second < init.first)
    fail(call, "'" + name + "' is uniform on an empty interval [" +
                   numberText(init.first) + ", " + numberText(init.second) +
                   ")");

  mlir::NamedAttrList initAttr;
  initAttr.set("kind", builder.getStringAttr(init.kind));
  auto f64 = [&](double value) { return builder.getF64FloatAttr(value); };
  if (StringRef(init.kind) == "constant") {
    initAttr.set("value", f64(init.first));
  } else {
    bool normal = StringRef(init.kind) == "normal";
    initAttr.set(normal ? "mean" : "low", f64(init.first));
    initAttr.set(normal ? "std" : "high", f64(init.second));
  }

  mlir::OpBuilder::InsertionGuard guard(builder);
  if (parameters.empty())
    builder.setInsertionPointToStart(&program->getRegion(0).front());
  else
    builder.setInsertionPointAfter(parameters.back().op);
  auto type = mlir::RankedTensorType::get(shape, floatType());
  SmallVector<StringRef> factorRefs(factors.begin(), factors.end());
  mlir::OperationState state(mlir::NameLoc::get(builder.getStringAttr(name)),
                             ir::ParameterOp::getOperationName());
  ir::ParameterOp::build(builder, state, builder.getStringAttr(name),
                         mlir::TypeAttr::get(type),
                         builder.getStrArrayAttr(factorRefs),
                         builder.getDenseI64ArrayAttr(fileShape),
                         initAttr.getDictionary(&context()),
                         builder.getBoolAttr(parameterOptions.decay),
                         builder.getBoolAttr(parameterOptions.trained));
  parameters.push_back({name.str(), builder.create(state), nullptr});

  Tensor tensor(this, type);
  tensor.parameter = static_cast<int64_t>(parameters.size()) - 1;
  return tensor;
}

void Graph::config(StringRef key, mlir::Attribute value) {
  auto programOp = cast<ir::ProgramOp>(program);
  if (key.empty() || programOp.getConfig().contains(key))
    fail("config", "the key '" + key + "' is empty or already given");
  programOp.setConfigAttr(withEntry(programOp.getConfig(), key, value));
}

void Graph::config(StringRef key, int64_t value) {
  config(key, builder.getI64IntegerAttr(value));
}

void Graph::config(StringRef key, StringRef value) {
  config(key, builder.getStringAttr(value));
}

void Graph::fileConstant(StringRef name, double value) {
  const StringRef call = "fileConstant", key = "file_constants";
  checkName(call, name);
  auto programOp = cast<ir::ProgramOp>(program);
  auto known = programOp.getConfig().getAs<mlir::DictionaryAttr>(key);
  if (!known)
    known = builder.getDictionaryAttr({});
  if (known.contains(name))
    fail(call, "'" + name + "' is already given");
  if (!std::isfinite(value))
    fail(call, "'" + name + "' is not finite");
  auto scalar = mlir::DenseElementsAttr::get(
      mlir::RankedTensorType::get({}, floatType()),
      ArrayRef<mlir::Attribute>(builder.getFloatAttr(floatType(), value)));
  programOp.setConfigAttr(
      withEntry(programOp.getConfig(), key, withEntry(known, name, scalar)));
}

void Graph::granules(StringRef factor, int64_t count) {
  auto programOp = cast<ir::ProgramOp>(program);
  if (factor.empty() || count <= 0)
    fail("granules", "'" + factor + "' = " + Twine(count) +
                         ": a factor's name and a positive number are needed");
  programOp.setGranulesAttr(withEntry(programOp.getGranules(), factor,
                                      builder.getI64IntegerAttr(count)));
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

mlir::Type Graph::dataType(const Data &data) {
  const StringRef call = "entry";
  bool integers = data.role == "tokens" || data.role == "labels";
  if (!integers && data.role != "rows" && data.role != "row_weights")
    fail(call, "argument '" + data.name + "' has the role '" + data.role +
                   "'; known are tokens, labels, rows and row_weights");
  if (data.shape.empty() || data.shape.front() != kRows)
    fail(call, "argument '" + data.name + "' has shape " +
                   shapeText(data.shape) +
                   ": the first dimension of data must be kRows");
  if (elementCount(ArrayRef(data.shape).drop_front()) < 0)
    fail(call, "argument '" + data.name + "' has shape " +
                   shapeText(data.shape) + ": sizes must be positive");
  mlir::Type element = floatType();
  if (integers)
    element = builder.getI32Type();
  return mlir::RankedTensorType::get(data.shape, element);
}

mlir::Value Graph::resolve(const Tensor &tensor, StringRef call) {
  if (!tensor)
    fail(call, "an operand is an empty Tensor handle");
  if (tensor.owner != this)
    fail(call, "an operand belongs to another graph");
  if (!current)
    fail(call, "ops stand in entries: call this inside the body of entry or "
               "lossEntry");
  if (tensor.parameter < 0) {
    if (tensor.entry != serial)
      fail(call, "an operand of shape " + shapeText(tensor.shape()) +
                     " was made in another entry; only parameters are shared");
    return tensor.value;
  }
  Parameter &parameter = parameters[tensor.parameter];
  if (!parameter.argument) {
    // Arguments of parameters stand behind the data, in declaration order.
    unsigned position = current->getNumArguments();
    for (size_t i = tensor.parameter + 1; i < parameters.size(); ++i)
      if (parameters[i].argument) {
        position =
            cast<mlir::BlockArgument>(parameters[i].argument).getArgNumber();
        break;
      }
    parameter.argument = current->insertArgument(position, tensor.type(),
                                                 parameter.op->getLoc());
  }
  return parameter.argument;
}

Tensor Graph::wrap(mlir::Value value) {
  Tensor tensor(this, cast<mlir::RankedTensorType>(value.getType()));
  tensor.value = value;
  tensor.entry = serial;
  return tensor;
}

void Graph::entry(StringRef name, ArrayRef<Data> data,
                  function_ref<std::vector<Output>(ArrayRef<Tensor>)> body) {
  buildEntry(name, data, /*accumulators=*/false, body);
}

void Graph::lossEntry(ArrayRef<Data> data,
                      function_ref<Loss(ArrayRef<Tensor>)> body) {
  if (options.kind != "training")
    fail("lossEntry", "a program of kind '" + options.kind + "' has no loss");
  size_t count = data.size();
  buildEntry("loss", data, /*accumulators=*/true,
             [&](ArrayRef<Tensor> arguments) -> std::vector<Output> {
               Loss loss = body(arguments.take_front(count));
               mlir::Value losses = resolve(loss.losses, "lossEntry");
               if (!loss.losses.isFloat())
                 fail("lossEntry", "the losses must be floating-point numbers");
               Tensor labels = loss.labels;
               // A label of 0 for every loss: each of them counts.
               if (!labels)
                 labels =
                     broadcastLike(intConstant(*this, {}, {0}), loss.losses);
               if (labels.isFloat() || labels.shape() != loss.losses.shape())
                 fail("lossEntry",
                      "labels of shape " + shapeText(labels.shape()) +
                          " must be integers, one for each loss of shape " +
                          shapeText(loss.losses.shape()));
               mlir::Value accumulator = arguments[count].value;
               mlir::Value counter = arguments[count + 1].value;
               mlir::Value labelValues = resolve(labels, "lossEntry");
               auto sum = ir::ExactSumOp::create(
                   builder, location(), accumulator.getType(), accumulator,
                   losses, builder.getBoolAttr(false));
               auto counted = ir::CountLabelsOp::create(
                   builder, location(), counter.getType(), counter, labelValues,
                   builder.getI64IntegerAttr(-100));
               return {{wrap(sum.getResult()), "loss"},
                       {wrap(counted.getResult()), "count"}};
             });
}

void Graph::buildEntry(
    StringRef name, ArrayRef<Data> data, bool accumulators,
    function_ref<std::vector<Output>(ArrayRef<Tensor>)> body) {
  const StringRef call = accumulators ? "lossEntry" : "entry";
  if (current)
    fail(call,
         "'" + name + "' cannot be built inside entry '" + currentName + "'");
  checkName(call, name);

  std::vector<std::string> names, roles;
  SmallVector<mlir::Type> types;
  for (const Data &argument : data) {
    if (argument.name.empty() || is_contained(names, argument.name) ||
        is_contained(roles, argument.role))
      fail(call, "argument '" + argument.name + "' of '" + name +
                     "' needs a name and a role of its own");
    names.push_back(argument.name);
    roles.push_back(argument.role);
    types.push_back(dataType(argument));
  }
  if (accumulators) {
    names.insert(names.end(), {"loss", "count"});
    roles.insert(roles.end(), {"loss", "count"});
    types.push_back(mlir::RankedTensorType::get(
        {}, ir::ExactType::get(&context(), floatType())));
    types.push_back(mlir::RankedTensorType::get({}, builder.getI64Type()));
  }

  builder.setInsertionPointToEnd(&program->getRegion(0).front());
  mlir::OperationState state(mlir::NameLoc::get(builder.getStringAttr(name)),
                             ir::EntryOp::getOperationName());
  ir::EntryOp::build(builder, state, name, builder.getFunctionType(types, {}));
  mlir::Operation *op = builder.create(state);
  mlir::Block *block = &op->getRegion(0).front();
  for (auto [argument, text] : zip(block->getArguments(), names))
    argument.setLoc(mlir::NameLoc::get(builder.getStringAttr(text)));

  current = block;
  currentName = name.str();
  ++serial;
  auto leave = [&] {
    for (Parameter &parameter : parameters)
      parameter.argument = nullptr;
    current = nullptr;
    builder.setInsertionPointToEnd(&program->getRegion(0).front());
  };
  try {
    builder.setInsertionPointToEnd(block);
    std::vector<Tensor> handles;
    for (mlir::BlockArgument argument : block->getArguments())
      handles.push_back(wrap(argument));
    std::vector<Output> outputs = body(handles);
    closeEntry(op, roles, outputs);
  } catch (...) {
    leave();
    op->erase();
    throw;
  }
  leave();
}

void Graph::closeEntry(mlir::Operation *op, ArrayRef<std::string> roles,
                       ArrayRef<Output> outputs) {
  if (outputs.empty())
    fail("entry", "'" + currentName + "' returns nothing");
  auto roleAttr = [&](StringRef role) {
    return builder.getNamedAttr(ir::kRoleAttr, builder.getStringAttr(role));
  };
  SmallVector<mlir::Value> results;
  SmallVector<mlir::Attribute> resultAttrs, argumentAttrs;
  std::vector<std::string> seen;
  for (const Output &output : outputs) {
    if (output.role.empty() || is_contained(seen, output.role))
      fail("entry",
           "result role '" + output.role + "' is empty or given twice");
    seen.push_back(output.role);
    results.push_back(resolve(output.tensor, "entry"));
    resultAttrs.push_back(builder.getDictionaryAttr(roleAttr(output.role)));
  }
  ir::ReturnOp::create(builder, location(), results);

  // Parameters may still have been added by the results above.
  for (const std::string &role : roles)
    argumentAttrs.push_back(builder.getDictionaryAttr(roleAttr(role)));
  for (const Parameter &parameter : parameters)
    if (parameter.argument)
      argumentAttrs.push_back(builder.getDictionaryAttr(
          {roleAttr("parameter"),
           builder.getNamedAttr(
               ir::kOfAttr,
               mlir::FlatSymbolRefAttr::get(&context(), parameter.name))}));
  auto entryOp = cast<ir::EntryOp>(op);
  entryOp.setFunctionTypeAttr(mlir::TypeAttr::get(builder.getFunctionType(
      current->getArgumentTypes(), mlir::ValueRange(results).getTypes())));
  entryOp.setArgAttrsAttr(builder.getArrayAttr(argumentAttrs));
  entryOp.setResAttrsAttr(builder.getArrayAttr(resultAttrs));
}

} // namespace mixle::frontend
