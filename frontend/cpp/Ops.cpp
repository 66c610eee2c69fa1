//===- Ops.cpp - Functions on the tensors of a graph ----------------------===//
//
// One template makes every op: it lets the dialect infer and verify, and turns
// what the dialect reports into an exception at the caller.
//
//===----------------------------------------------------------------------===//

#include "frontend/cpp/Ops.h"

#include "dialects/Mixle/Mixle.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace llvm;

namespace mixle::frontend {

namespace ir = mlir::mixle;

namespace {

using Attributes = SmallVector<mlir::NamedAttribute>;

std::string text(mlir::Type type) {
  std::string result;
  raw_string_ostream stream(result);
  type.print(stream);
  return result;
}

/// Collects what the dialect reports while it lives.
struct Reports {
  explicit Reports(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (message.empty())
            message = diagnostic.str();
          return mlir::success();
        }) {}
  std::string message;
  mlir::ScopedDiagnosticHandler handler;
};

/// Makes one op in the current entry. `types` are its results' types; none
/// given: the dialect infers them. The first result is returned.
template <typename Op>
Tensor emit(StringRef call, Graph &graph, ArrayRef<Tensor> operands,
            const Attributes &attributes = {},
            SmallVector<mlir::Type> types = {}) {
  mlir::OpBuilder &builder = graph.opBuilder();
  mlir::Location loc = graph.location();
  mlir::OperationState state(loc, Op::getOperationName());
  for (const Tensor &operand : operands)
    state.operands.push_back(graph.resolve(operand, call));
  if (!builder.getInsertionBlock() ||
      !isa<ir::EntryOp>(builder.getInsertionBlock()->getParentOp()))
    graph.fail(call, "ops stand in entries: call this inside the body of entry "
                     "or lossEntry");

  std::string problem;
  {
    Reports reports(builder.getContext());
    auto attempt = [&]() -> bool {
      auto dictionary = builder.getDictionaryAttr(attributes);
      mlir::OpaqueProperties properties(nullptr);
      using Properties = typename mlir::PropertiesSelector<Op>::type;
      if constexpr (!std::is_same_v<Properties, mlir::EmptyProperties>) {
        auto &storage = state.getOrAddProperties<Properties>();
        if constexpr (!std::is_same_v<Op, ir::ConstantOp> &&
                      !std::is_same_v<Op, ir::IotaOp>)
          Op::populateDefaultProperties(state.name, storage);
        if (failed(Op::setPropertiesFromAttr(
                storage, dictionary, [&] { return mlir::emitError(loc); })))
          return false;
        properties = mlir::OpaqueProperties(&storage);
      }
      if constexpr (Op::template hasTrait<mlir::InferTypeOpInterface::Trait>())
        if (types.empty() && failed(Op::inferReturnTypes(
                                 builder.getContext(), loc, state.operands,
                                 dictionary, properties, {}, types)))
          return false;
      state.addTypes(types);
      mlir::Operation *op = builder.create(state);
      if (succeeded(mlir::verify(op, /*verifyRecursively=*/false)))
        return true;
      op->erase();
      return false;
    };
    if (!attempt())
      problem =
          reports.message.empty() ? "is not well formed" : reports.message;
  }
  if (!problem.empty())
    graph.fail(call, problem);
  return graph.wrap(builder.getInsertionBlock()->back().getResult(0));
}

mlir::NamedAttribute attribute(Graph &graph, StringRef name,
                               mlir::Attribute value) {
  return graph.opBuilder().getNamedAttr(name, value);
}
mlir::NamedAttribute integer(Graph &graph, StringRef name, int64_t value) {
  return attribute(graph, name, graph.opBuilder().getI64IntegerAttr(value));
}
mlir::NamedAttribute number(Graph &graph, StringRef name, double value) {
  return attribute(graph, name, graph.opBuilder().getF64FloatAttr(value));
}
mlir::NamedAttribute string(Graph &graph, StringRef name, StringRef value) {
  return attribute(graph, name, graph.opBuilder().getStringAttr(value));
}
mlir::NamedAttribute integers(Graph &graph, StringRef name,
                              ArrayRef<int64_t> values) {
  return attribute(graph, name, graph.opBuilder().getDenseI64ArrayAttr(values));
}

mlir::RankedTensorType withElements(mlir::RankedTensorType type,
                                    mlir::Type element) {
  return mlir::RankedTensorType::get(type.getShape(), element);
}

/// Negative dimensions count from the end; the dialect checks the range.
int64_t fromEnd(const Tensor &tensor, int64_t dimension) {
  return dimension < 0 ? dimension + tensor.rank() : dimension;
}

/// Checks that both are of one element type and repeats the operand of lower
/// rank over the leading dimensions of the other.
void align(StringRef call, Tensor &lhs, Tensor &rhs) {
  Graph &graph = lhs.graph();
  if (&rhs.graph() != &graph)
    graph.fail(call, "an operand belongs to another graph");
  auto mismatch = [&](StringRef what, StringRef way) {
    graph.fail(call, what + ": " + text(lhs.type()) + " and " +
                         text(rhs.type()) + "; " + way);
  };
  if (lhs.type().getElementType() != rhs.type().getElementType())
    mismatch("operands have different element types",
             "convert one with toFloat or toInt");
  Tensor &low = lhs.rank() < rhs.rank() ? lhs : rhs;
  Tensor &high = lhs.rank() < rhs.rank() ? rhs : lhs;
  if (low.shape() != high.shape().take_back(low.rank()))
    mismatch("operands have different shapes",
             "only missing leading dimensions are repeated, use broadcastLike "
             "for others");
  if (low.rank() < high.rank())
    low = broadcastLike(low, high);
}

template <typename Op> Tensor binary(StringRef call, Tensor lhs, Tensor rhs) {
  align(call, lhs, rhs);
  return emit<Op>(call, lhs.graph(), {lhs, rhs}, {}, {lhs.type()});
}

template <typename Op>
Tensor unary(StringRef call, Tensor input, Attributes attributes = {}) {
  Graph &graph = input.graph();
  if (!input.isFloat())
    graph.fail(call, "needs floating-point numbers, got " + text(input.type()));
  return emit<Op>(call, graph, {input}, attributes, {input.type()});
}

/// A number in the shape and element type of `like`.
Tensor filled(Tensor like, double value) {
  Graph &graph = like.graph();
  if (like.isFloat())
    return broadcastLike(constant(graph, value), like);
  if (!(std::abs(value) < 2147483648.0) || value != std::trunc(value))
    graph.fail("constant",
               "only whole 32-bit numbers meet " + text(like.type()));
  return broadcastLike(intConstant(graph, {}, {static_cast<int32_t>(value)}),
                       like);
}

template <typename Value, typename MakeAttribute>
Tensor literal(StringRef call, Graph &graph, const Shape &shape,
               mlir::Type element, ArrayRef<Value> values,
               MakeAttribute makeAttribute) {
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size <= 0 || size > (int64_t(1) << 31) / elements)
      graph.fail(call, "a literal's sizes must be positive and its elements "
                       "at most 2^31");
    elements *= size;
  }
  if (values.size() != 1 && static_cast<int64_t>(values.size()) != elements)
    graph.fail(call, "got " + Twine(values.size()) + " values for " +
                         Twine(elements) +
                         " elements: give one per element, or one for all");
  SmallVector<mlir::Attribute> attributes;
  for (Value value : values)
    attributes.push_back(makeAttribute(value));
  auto type = mlir::RankedTensorType::get(shape, element);
  return emit<ir::ConstantOp>(
      call, graph, {},
      {attribute(graph, "value",
                 mlir::DenseElementsAttr::get(type, attributes))},
      {type});
}

Tensor reduce(StringRef call, StringRef kind, Tensor input,
              ArrayRef<int64_t> dimensions) {
  Graph &graph = input.graph();
  SmallVector<int64_t> sorted;
  for (int64_t dimension : dimensions)
    sorted.push_back(fromEnd(input, dimension));
  llvm::sort(sorted);
  if (!input.isFloat())
    graph.fail(call, "needs floating-point numbers, got " + text(input.type()));
  return emit<ir::ReduceOp>(
      call, graph, {input},
      {string(graph, "kind", kind), integers(graph, "dimensions", sorted)});
}

} // namespace

//===----------------------------------------------------------------------===//
// Pointwise
//===----------------------------------------------------------------------===//

Tensor add(Tensor lhs, Tensor rhs) {
  return binary<ir::AddOp>("add", lhs, rhs);
}
Tensor sub(Tensor lhs, Tensor rhs) {
  return binary<ir::SubOp>("sub", lhs, rhs);
}
Tensor mul(Tensor lhs, Tensor rhs) {
  return binary<ir::MulOp>("mul", lhs, rhs);
}
Tensor div(Tensor lhs, Tensor rhs) {
  return binary<ir::DivOp>("div", lhs, rhs);
}
Tensor maximum(Tensor lhs, Tensor rhs) {
  return binary<ir::MaxOp>("maximum", lhs, rhs);
}
Tensor minimum(Tensor lhs, Tensor rhs) {
  return binary<ir::MinOp>("minimum", lhs, rhs);
}
Tensor operator+(Tensor lhs, double rhs) { return add(lhs, filled(lhs, rhs)); }
Tensor operator-(Tensor lhs, double rhs) { return sub(lhs, filled(lhs, rhs)); }
Tensor operator*(Tensor lhs, double rhs) { return mul(lhs, filled(lhs, rhs)); }
Tensor operator/(Tensor lhs, double rhs) { return div(lhs, filled(lhs, rhs)); }

Tensor neg(Tensor input) { return unary<ir::NegOp>("neg", input); }
Tensor exp(Tensor input) { return unary<ir::ExpOp>("exp", input); }
Tensor log(Tensor input) { return unary<ir::LogOp>("log", input); }
Tensor tanh(Tensor input) { return unary<ir::TanhOp>("tanh", input); }
Tensor erf(Tensor input) { return unary<ir::ErfOp>("erf", input); }
Tensor sin(Tensor input) { return unary<ir::SinOp>("sin", input); }
Tensor cos(Tensor input) { return unary<ir::CosOp>("cos", input); }
Tensor sqrt(Tensor input) { return unary<ir::SqrtOp>("sqrt", input); }
Tensor abs(Tensor input) { return unary<ir::AbsOp>("abs", input); }
Tensor silu(Tensor input) { return unary<ir::SiluOp>("silu", input); }
Tensor gelu(Tensor input, bool tanhApproximation) {
  return unary<ir::GeluOp>("gelu", input,
                           {string(input.graph(), "approximate",
                                   tanhApproximation ? "tanh" : "none")});
}

Tensor compare(StringRef predicate, Tensor lhs, Tensor rhs) {
  align("compare", lhs, rhs);
  return emit<ir::CompareOp>("compare", lhs.graph(), {lhs, rhs},
                             {string(lhs.graph(), "predicate", predicate)});
}

Tensor select(Tensor condition, Tensor onTrue, Tensor onFalse) {
  Graph &graph = condition.graph();
  onFalse.graph();
  if (!condition.type().getElementType().isInteger(1) ||
      onTrue.type() != onFalse.type() || condition.shape() != onTrue.shape())
    graph.fail("select", "needs an i1 condition and two choices of its shape "
                         "and of one type, got " +
                             text(condition.type()) + ", " +
                             (onTrue ? text(onTrue.type()) : "nothing") +
                             " and " + text(onFalse.type()));
  return emit<ir::SelectOp>("select", graph, {condition, onTrue, onFalse}, {},
                            {onTrue.type()});
}

Tensor toFloat(Tensor input) {
  Graph &graph = input.graph();
  auto type = withElements(input.type(), graph.floatType());
  return type == input.type()
             ? input
             : emit<ir::ConvertOp>("toFloat", graph, {input}, {}, {type});
}

Tensor toInt(Tensor input) {
  Graph &graph = input.graph();
  auto type = withElements(input.type(), graph.opBuilder().getI32Type());
  return type == input.type()
             ? input
             : emit<ir::ConvertOp>("toInt", graph, {input}, {}, {type});
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

Tensor constant(Graph &graph, double value) {
  return constant(graph, {}, {value});
}

Tensor constant(Graph &graph, Shape shape, ArrayRef<double> values) {
  return literal(
      "constant", graph, shape, graph.floatType(), values, [&](double value) {
        return graph.opBuilder().getFloatAttr(graph.floatType(), value);
      });
}

Tensor intConstant(Graph &graph, Shape shape, ArrayRef<int32_t> values) {
  return literal("intConstant", graph, shape, graph.opBuilder().getI32Type(),
                 values, [&](int32_t value) {
                   return graph.opBuilder().getI32IntegerAttr(value);
                 });
}

Tensor iota(Graph &graph, Shape shape, int64_t dimension) {
  auto type =
      mlir::RankedTensorType::get(shape, graph.opBuilder().getI32Type());
  if (dimension < 0)
    dimension += type.getRank();
  return emit<ir::IotaOp>("iota", graph, {},
                          {integer(graph, "dimension", dimension)}, {type});
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

Tensor broadcastLike(Tensor input, Tensor like, ArrayRef<int64_t> dimensions) {
  Graph &graph = input.graph();
  like.graph();
  for (auto [i, d] : enumerate(dimensions))
    if (static_cast<int64_t>(i) < input.rank() && d >= 0 && d < like.rank() &&
        input.dim(i) != like.dim(d))
      graph.fail("broadcastLike", "dimension " + Twine(i) + " of " +
                                      text(input.type()) +
                                      " does not match dimension " + Twine(d) +
                                      " of " + text(like.type()));
  return emit<ir::BroadcastOp>("broadcastLike", graph, {input, like},
                               {integers(graph, "dimensions", dimensions)});
}

Tensor broadcastLike(Tensor input, Tensor like) {
  input.graph();
  like.graph();
  return broadcastLike(
      input, like,
      to_vector(seq<int64_t>(like.rank() - input.rank(), like.rank())));
}

Tensor reshape(Tensor input, Shape shape) {
  Graph &graph = input.graph();
  int64_t known = 1, unknown = -1;
  for (auto [i, size] : enumerate(shape)) {
    if (size == -1 && unknown < 0)
      unknown = i;
    else if (size != kRows)
      known *= size;
    if (size < -1 && size != kRows)
      graph.fail("reshape", "size " + Twine(size) + " is negative");
    if (size == 0 || (size == -1 && unknown != static_cast<int64_t>(i)))
      graph.fail("reshape", "sizes must be positive, and one may be -1");
  }
  if (unknown >= 0) {
    int64_t elements = 1;
    for (int64_t size : input.shape())
      if (size != kRows)
        elements *= size;
    if (elements % known != 0)
      graph.fail("reshape", "the elements of " + text(input.type()) +
                                " do not divide by " + Twine(known));
    shape[unknown] = elements / known;
  }
  return emit<ir::ReshapeOp>(
      "reshape", graph, {input}, {},
      {mlir::RankedTensorType::get(shape, input.type().getElementType())});
}

Tensor transpose(Tensor input, ArrayRef<int64_t> permutation) {
  Graph &graph = input.graph();
  return emit<ir::TransposeOp>("transpose", graph, {input},
                               {integers(graph, "permutation", permutation)});
}

Tensor slice(Tensor input, int64_t dimension, int64_t start, int64_t limit) {
  Graph &graph = input.graph();
  return emit<ir::SliceOp>(
      "slice", graph, {input},
      {integer(graph, "dimension", fromEnd(input, dimension)),
       integer(graph, "start", start), integer(graph, "limit", limit)});
}

Tensor pad(Tensor input, int64_t dimension, int64_t low, int64_t high) {
  Graph &graph = input.graph();
  return emit<ir::PadOp>(
      "pad", graph, {input},
      {integer(graph, "dimension", fromEnd(input, dimension)),
       integer(graph, "low", low), integer(graph, "high", high)});
}

Tensor concat(ArrayRef<Tensor> inputs, int64_t dimension) {
  if (inputs.empty())
    throw FrontendError("concat: needs at least one tensor");
  Graph &graph = inputs.front().graph();
  return emit<ir::ConcatOp>(
      "concat", graph, inputs,
      {integer(graph, "dimension", fromEnd(inputs.front(), dimension))});
}

//===----------------------------------------------------------------------===//
// Reductions and contractions
//===----------------------------------------------------------------------===//

Tensor reduceSum(Tensor input, ArrayRef<int64_t> dimensions) {
  return reduce("reduceSum", "sum", input, dimensions);
}
Tensor reduceMax(Tensor input, ArrayRef<int64_t> dimensions) {
  return reduce("reduceMax", "max", input, dimensions);
}

Tensor logsumexp(Tensor input) {
  Graph &graph = input.graph();
  return emit<ir::LogSumExpOp>("logsumexp", graph, {input});
}

Tensor dotGeneral(Tensor lhs, Tensor rhs, ArrayRef<int64_t> lhsContract,
                  ArrayRef<int64_t> rhsContract, ArrayRef<int64_t> lhsBatch,
                  ArrayRef<int64_t> rhsBatch) {
  Graph &graph = lhs.graph();
  return emit<ir::DotGeneralOp>("dotGeneral", graph, {lhs, rhs},
                                {integers(graph, "lhs_batch", lhsBatch),
                                 integers(graph, "rhs_batch", rhsBatch),
                                 integers(graph, "lhs_contract", lhsContract),
                                 integers(graph, "rhs_contract", rhsContract)});
}

static Tensor contractLast(StringRef call, Tensor lhs, Tensor rhs,
                           bool rhsLast) {
  Graph &graph = lhs.graph();
  rhs.graph();
  if (lhs.rank() < 1 || rhs.rank() < 1 ||
      lhs.dim(-1) != rhs.dim(rhsLast ? -1 : 0))
    graph.fail(call, "the last dimension of " + text(lhs.type()) +
                         " must equal the " + (rhsLast ? "last" : "first") +
                         " of " + text(rhs.type()));
  return dotGeneral(lhs, rhs, {lhs.rank() - 1}, {rhsLast ? rhs.rank() - 1 : 0});
}

Tensor matmul(Tensor lhs, Tensor rhs) {
  return contractLast("matmul", lhs, rhs, /*rhsLast=*/false);
}
Tensor matmulTransposed(Tensor lhs, Tensor rhs) {
  return contractLast("matmulTransposed", lhs, rhs, /*rhsLast=*/true);
}

//===----------------------------------------------------------------------===//
// Neural networks
//===----------------------------------------------------------------------===//

Tensor embedding(Tensor table, Tensor ids, std::optional<int64_t> padding) {
  Graph &graph = table.graph();
  ids.graph();
  if (ids.isFloat() || !table.isFloat())
    graph.fail("embedding", "needs a floating-point table and integer ids, "
                            "got " +
                                text(table.type()) + " and " +
                                text(ids.type()));
  Attributes attributes;
  if (padding)
    attributes.push_back(integer(graph, "padding", *padding));
  return emit<ir::EmbeddingOp>("embedding", graph, {table, ids}, attributes);
}

/// The norms' operands are of one element type.
static void checkFloats(StringRef call, Graph &graph,
                        ArrayRef<Tensor> operands) {
  for (const Tensor &operand : operands) {
    operand.graph();
    if (!operand.isFloat())
      graph.fail(call,
                 "needs floating-point numbers, got " + text(operand.type()));
  }
}

Tensor layerNorm(Tensor input, Tensor gain, Tensor bias, double epsilon) {
  Graph &graph = input.graph();
  checkFloats("layerNorm", graph, {input, gain, bias});
  return emit<ir::LayerNormOp>("layerNorm", graph, {input, gain, bias},
                               {number(graph, "epsilon", epsilon)});
}

Tensor rmsNorm(Tensor input, Tensor gain, double epsilon) {
  Graph &graph = input.graph();
  checkFloats("rmsNorm", graph, {input, gain});
  return emit<ir::RmsNormOp>("rmsNorm", graph, {input, gain},
                             {number(graph, "epsilon", epsilon)});
}

Tensor attention(Tensor qkv, double scale, bool causal) {
  Graph &graph = qkv.graph();
  return emit<ir::AttentionOp>(
      "attention", graph, {qkv},
      {number(graph, "scale", scale),
       attribute(graph, "causal", graph.opBuilder().getBoolAttr(causal))});
}

Tensor groupedAttention(Tensor qkv, double scale, bool causal) {
  Graph &graph = qkv.graph();
  return emit<ir::AttentionOp>(
      "groupedAttention", graph, {qkv},
      {number(graph, "scale", scale),
       attribute(graph, "causal", graph.opBuilder().getBoolAttr(causal)),
       attribute(graph, "grouped", graph.opBuilder().getUnitAttr())});
}

RotaryTables rotaryTables(Graph &graph, int64_t positions,
                          ArrayRef<double> frequencies, double scale) {
  const StringRef call = "rotaryTables";
  mlir::Type f64 = graph.opBuilder().getF64Type();
  auto pairs = static_cast<int64_t>(frequencies.size());
  if (positions <= 0 || pairs == 0)
    graph.fail(call, "needs positions and frequencies");
  auto type = mlir::RankedTensorType::get({positions, pairs}, f64);
  auto real = [&](double value) {
    return graph.opBuilder().getFloatAttr(f64, value);
  };
  Tensor index = emit<ir::ConvertOp>(
      call, graph, {iota(graph, {positions, pairs}, 0)}, {}, {type});
  Tensor frequency =
      broadcastLike(literal(call, graph, {pairs}, f64, frequencies, real), index);
  Tensor angle = emit<ir::MulOp>(call, graph, {index, frequency}, {}, {type});
  auto finish = [&](Tensor value) {
    if (scale != 1) {
      Tensor factor = literal(call, graph, {}, f64, ArrayRef<double>(scale), real);
      value = emit<ir::MulOp>(call, graph, {value, broadcastLike(factor, value)},
                              {}, {type});
    }
    return toFloat(value);
  };
  return {finish(cos(angle)), finish(sin(angle))};
}

Tensor rotary(Tensor input, const RotaryTables &tables,
              std::optional<int64_t> rotated) {
  Graph &graph = input.graph();
  checkFloats("rotary", graph, {input, tables.cosine, tables.sine});
  Attributes attributes;
  if (rotated)
    attributes.push_back(integer(graph, "rotated", *rotated));
  return emit<ir::RotaryOp>("rotary", graph, {input, tables.cosine, tables.sine},
                            attributes);
}

Tensor softmaxCrossEntropy(Tensor logits, Tensor labels) {
  Graph &graph = logits.graph();
  labels.graph();
  if (!logits.isFloat() || labels.isFloat() || logits.rank() < 1 ||
      labels.shape() != logits.shape().drop_back())
    graph.fail("softmaxCrossEntropy",
               "needs logits [..., V] and integer labels [...], got " +
                   text(logits.type()) + " and " + text(labels.type()));
  return emit<ir::SoftmaxCrossEntropyOp>("softmaxCrossEntropy", graph,
                                         {logits, labels});
}

} // namespace mixle::frontend
