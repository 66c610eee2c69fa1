//===- Pointwise.cpp - Meanings of elementwise ops ------------------------===//

#include "compiler/Reference/Frame.h"

#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

namespace {

double maximum(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : a > b ? a : b;
}
double minimum(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : a < b ? a : b;
}

constexpr double kSqrtHalf = 0.70710678118654752440;     // 1 / sqrt 2
constexpr double kSqrtTwoOverPi = 0.79788456080286535588; // sqrt(2 / pi)
constexpr double kInvSqrtTwoPi = 0.39894228040143267794; // 1 / sqrt(2 pi)
constexpr double kCubic = 0.044715;

double gelu(double x, bool tanhForm) {
  if (!tanhForm)
    return 0.5 * x * (1 + std::erf(x * kSqrtHalf));
  return 0.5 * x * (1 + std::tanh(kSqrtTwoOverPi * (x + kCubic * x * x * x)));
}
double geluSlope(double x, bool tanhForm) {
  if (!tanhForm)
    return 0.5 * (1 + std::erf(x * kSqrtHalf)) +
           x * kInvSqrtTwoPi * std::exp(-0.5 * x * x);
  double t = std::tanh(kSqrtTwoOverPi * (x + kCubic * x * x * x));
  double inner = kSqrtTwoOverPi * (1 + 3 * kCubic * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}

template <typename Op, typename Function>
LogicalResult unary(Op op, Frame &frame, Function function) {
  Tensor result = frame.get(op.getInput());
  for (double &x : result.reals)
    x = function(x);
  frame.set(op.getResult(), std::move(result));
  return success();
}

template <typename Op, typename Reals, typename Integers>
LogicalResult binary(Op op, Frame &frame, Reals reals, Integers integers) {
  if (failed(frame.sameShape(op.getLhs(), op.getRhs())))
    return failure();
  Tensor result = frame.get(op.getLhs());
  const Tensor &rhs = frame.get(op.getRhs());
  for (size_t i = 0; i < result.reals.size(); ++i)
    result.reals[i] = reals(result.reals[i], rhs.reals[i]);
  for (size_t i = 0; i < result.integers.size(); ++i)
    result.integers[i] = integers(result.integers[i], rhs.integers[i]);
  frame.set(op.getResult(), std::move(result));
  return success();
}

/// Two's complement arithmetic: signed overflow wraps.
int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }

} // namespace

static LogicalResult neg(NegOp op, Frame &frame) {
  return unary(op, frame, [](double x) { return -x; });
}
static LogicalResult exponential(ExpOp op, Frame &frame) {
  return unary(op, frame, [](double x) { return std::exp(x); });
}
static LogicalResult logarithm(LogOp op, Frame &frame) {
  return unary(op, frame, [](double x) { return std::log(x); });
}
static LogicalResult hyperbolicTangent(TanhOp op, Frame &frame) {
  return unary(op, frame, [](double x) { return std::tanh(x); });
}
static LogicalResult errorFunction(ErfOp op, Frame &frame) {
  return unary(op, frame, [](double x) { return std::erf(x); });
}
static LogicalResult sine(SinOp op, Frame &frame) {
  return unary(op, frame, [](double x) { return std::sin(x); });
}
static LogicalResult cosine(CosOp op, Frame &frame) {
  return unary(op, frame, [](double x) { return std::cos(x); });
}
static LogicalResult squareRoot(SqrtOp op, Frame &frame) {
  return unary(op, frame, [](double x) { return std::sqrt(x); });
}
static LogicalResult absolute(AbsOp op, Frame &frame) {
  return unary(op, frame, [](double x) { return std::fabs(x); });
}
static LogicalResult silu(SiluOp op, Frame &frame) {
  return unary(op, frame, [](double x) { return x / (1 + std::exp(-x)); });
}
static LogicalResult geluForward(GeluOp op, Frame &frame) {
  bool tanhForm = op.getApproximate() == "tanh";
  return unary(op, frame, [&](double x) { return gelu(x, tanhForm); });
}
static LogicalResult geluGrad(GeluGradOp op, Frame &frame) {
  if (failed(frame.sameShape(op.getInput(), op.getCotangent())))
    return failure();
  bool tanhForm = op.getApproximate() == "tanh";
  Tensor result = frame.get(op.getInput());
  const Tensor &cotangent = frame.get(op.getCotangent());
  for (size_t i = 0; i < result.reals.size(); ++i)
    result.reals[i] =
        geluSlope(result.reals[i], tanhForm) * cotangent.reals[i];
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult add(AddOp op, Frame &frame) {
  return binary(
      op, frame, [](double a, double b) { return a + b; },
      [](int64_t a, int64_t b) {
        return wrap(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      });
}
static LogicalResult sub(SubOp op, Frame &frame) {
  return binary(
      op, frame, [](double a, double b) { return a - b; },
      [](int64_t a, int64_t b) {
        return wrap(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
      });
}
static LogicalResult mul(MulOp op, Frame &frame) {
  return binary(
      op, frame, [](double a, double b) { return a * b; },
      [](int64_t a, int64_t b) {
        return wrap(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      });
}
static LogicalResult divide(DivOp op, Frame &frame) {
  for (auto [a, b] : llvm::zip(frame.get(op.getLhs()).integers,
                               frame.get(op.getRhs()).integers))
    if (b == 0 || (b == -1 && a == INT64_MIN))
      return frame.fail() << "divides the integer " << a << " by " << b;
  return binary(
      op, frame, [](double a, double b) { return a / b; },
      [](int64_t a, int64_t b) { return a / b; });
}
static LogicalResult larger(MaxOp op, Frame &frame) {
  return binary(op, frame, maximum,
                [](int64_t a, int64_t b) { return std::max(a, b); });
}
static LogicalResult smaller(MinOp op, Frame &frame) {
  return binary(op, frame, minimum,
                [](int64_t a, int64_t b) { return std::min(a, b); });
}

template <typename T>
static bool holds(StringRef predicate, T a, T b) {
  if (predicate == "eq")
    return a == b;
  if (predicate == "ne")
    return a != b;
  if (predicate == "lt")
    return a < b;
  if (predicate == "le")
    return a <= b;
  return predicate == "gt" ? a > b : a >= b;
}
static LogicalResult compare(CompareOp op, Frame &frame) {
  if (failed(frame.sameShape(op.getLhs(), op.getRhs())))
    return failure();
  const Tensor &lhs = frame.get(op.getLhs()), &rhs = frame.get(op.getRhs());
  Tensor result = Tensor::integerZeros(lhs.shape);
  for (size_t i = 0; i < result.integers.size(); ++i)
    result.integers[i] =
        lhs.integral ? holds(op.getPredicate(), lhs.integers[i], rhs.integers[i])
                     : holds(op.getPredicate(), lhs.reals[i], rhs.reals[i]);
  frame.set(op.getResult(), std::move(result));
  return success();
}
static LogicalResult select(SelectOp op, Frame &frame) {
  if (failed(frame.sameShape(op.getCondition(), op.getOnTrue())) ||
      failed(frame.sameShape(op.getOnTrue(), op.getOnFalse())))
    return failure();
  const Tensor &condition = frame.get(op.getCondition());
  const Tensor &onFalse = frame.get(op.getOnFalse());
  Tensor result = frame.get(op.getOnTrue());
  for (size_t i = 0; i < condition.integers.size(); ++i) {
    if (condition.integers[i])
      continue;
    if (result.integral)
      result.integers[i] = onFalse.integers[i];
    else
      result.reals[i] = onFalse.reals[i];
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult convert(ConvertOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  Type element = op.getResult().getType().getElementType();
  Tensor result = element.isInteger() ? Tensor::integerZeros(input.shape)
                                      : Tensor::zeros(input.shape);
  for (int64_t i = 0; i < input.size(); ++i) {
    if (!result.integral) {
      result.reals[i] = input.integral ? static_cast<double>(input.integers[i])
                                       : input.reals[i];
    } else if (input.integral) {
      result.integers[i] = element.isInteger(1) ? input.integers[i] != 0
                                                : input.integers[i];
    } else if (element.isInteger(1)) {
      result.integers[i] = input.reals[i] != 0;
    } else {
      // Beyond the range of the type there is no answer to be had.
      double x = std::trunc(input.reals[i]);
      double limit = std::ldexp(1.0, static_cast<int>(element.getIntOrFloatBitWidth()) - 1);
      if (!(x >= -limit && x < limit))
        return frame.fail() << "converts " << input.reals[i] << " to "
                            << element << ", which cannot hold it";
      result.integers[i] = static_cast<int64_t>(x);
    }
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

void mlir::mixle::reference::addPointwise(Meanings &meanings) {
  meanings.add(neg);
  meanings.add(exponential);
  meanings.add(logarithm);
  meanings.add(hyperbolicTangent);
  meanings.add(errorFunction);
  meanings.add(sine);
  meanings.add(cosine);
  meanings.add(squareRoot);
  meanings.add(absolute);
  meanings.add(silu);
  meanings.add(geluForward);
  meanings.add(geluGrad);
  meanings.add(add);
  meanings.add(sub);
  meanings.add(mul);
  meanings.add(divide);
  meanings.add(larger);
  meanings.add(smaller);
  meanings.add(compare);
  meanings.add(select);
  meanings.add(convert);
}
