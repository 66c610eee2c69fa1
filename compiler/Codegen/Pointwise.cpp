//===- Pointwise.cpp - Pointwise mixle ops as LLVM dialect ops ------------===//
//
// The order of operations here is part of each op's meaning (MixleOps.td states
// it): other targets must follow it to give the same bits.
//
//===----------------------------------------------------------------------===//

#include "compiler/Codegen/Pointwise.h"
#include "compiler/Codegen/Elementary.h"
#include "dialects/Mixle/Mixle.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::codegen;

using FCmp = Ops::FCmp;
using ICmp = Ops::ICmp;

namespace {

Type elementType(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

//===----------------------------------------------------------------------===//
// Composites, on f64
//===----------------------------------------------------------------------===//

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;

Value silu(Ops &ops, Value x) {
  Value d = ops.fadd(ops.number(1.0, x), emitExp(ops, ops.fneg(x)));
  return ops.fdiv(x, d);
}

/// 1 + exp(-2 sqrt(2/pi) (x + 0.044715 x^3)): gelu is x over it.
Value geluTanhDenominator(Ops &ops, Value x, Value square) {
  Value slope =
      ops.fma(ops.number(-2.0 * (kSqrtTwoOverPi * kGeluCubic), x), square,
              ops.number(-2.0 * kSqrtTwoOverPi, x));
  return ops.fadd(ops.number(1.0, x), emitExp(ops, ops.fmul(x, slope)));
}

Value gelu(Ops &ops, Value x, bool tanh) {
  if (tanh)
    return ops.fdiv(x, geluTanhDenominator(ops, x, ops.fmul(x, x)));
  Value half = ops.fmul(x, ops.number(0.5, x));
  Value e = emitErf(ops, ops.fmul(x, ops.number(kSqrtHalf, x)));
  return ops.fma(half, e, half);
}

Value geluSlope(Ops &ops, Value x, bool tanh) {
  Value square = ops.fmul(x, x);
  Value one = ops.number(1.0, x);
  if (tanh) {
    Value s = ops.fdiv(one, geluTanhDenominator(ops, x, square));
    Value inner =
        ops.fma(ops.number(6.0 * (kSqrtTwoOverPi * kGeluCubic), x), square,
                ops.number(2.0 * kSqrtTwoOverPi, x));
    Value change = ops.fmul(ops.fmul(x, s), ops.fsub(one, s));
    return ops.fma(change, inner, s);
  }
  Value half = ops.number(0.5, x);
  Value e = emitErf(ops, ops.fmul(x, ops.number(kSqrtHalf, x)));
  Value bell = emitExp(ops, ops.fmul(square, ops.number(-0.5, x)));
  Value density = ops.fmul(x, ops.number(kInverseSqrtTwoPi, x));
  return ops.fma(density, bell, ops.fma(half, e, half));
}

//===----------------------------------------------------------------------===//
// Integers and conversions
//===----------------------------------------------------------------------===//

/// Quotient towards zero; 0 where the divisor is 0, and the lowest integer over
/// -1 is itself: a kernel must never trap.
Value divideIntegers(Ops &ops, Value x, Value y) {
  Value values[] = {x, y};
  ops.unify(values);
  x = values[0], y = values[1];
  Type element = Ops::elementOf(x);
  if (element.isInteger(1))
    return ops.logicalAnd(x, y);
  unsigned width = element.getIntOrFloatBitWidth();
  Value zero = ops.icmp(ICmp::eq, y, ops.integer(0, y));
  Value overflow = ops.logicalAnd(
      ops.icmp(ICmp::eq, y, ops.integer(-1, y)),
      ops.icmp(ICmp::eq, x,
               ops.integer(std::numeric_limits<int64_t>::min() >> (64 - width),
                           x)));
  Value safe =
      ops.select(ops.logicalOr(zero, overflow), ops.integer(1, y), y);
  return ops.select(zero, ops.integer(0, x), ops.sdiv(x, safe));
}

/// Truncates; beyond the range the nearest integer, NaN gives 0.
Value truncateToInteger(Ops &ops, Value x, Type element) {
  unsigned width = element.getIntOrFloatBitWidth();
  double limit = std::ldexp(1.0, static_cast<int>(width) - 1);
  Type type = Ops::typeLike(element, x);
  Value low = ops.number(-limit, x), high = ops.number(limit, x);
  Value above = ops.fcmp(FCmp::oge, x, high);
  Value below = ops.fcmp(FCmp::olt, x, low);
  Value inside = ops.logicalAnd(ops.fcmp(FCmp::oge, x, low),
                                ops.fcmp(FCmp::olt, x, high));
  Value safe = ops.select(inside, x, ops.number(0.0, x));
  Value result = LLVM::FPToSIOp::create(ops.b, ops.loc, type, safe);
  int64_t lowest = std::numeric_limits<int64_t>::min() >> (64 - width);
  result = ops.select(below, ops.integerOf(type, lowest), result);
  return ops.select(above, ops.integerOf(type, ~lowest), result);
}

Value convertElement(Ops &ops, Value x, Type to) {
  Type from = Ops::elementOf(x);
  if (from == to)
    return x;
  bool fromFloat = isa<FloatType>(from);
  if (isa<FloatType>(to)) {
    if (fromFloat)
      return to.isF64() ? ops.toF64(x) : ops.roundTo(x, to);
    return from.isInteger(1) ? ops.convert<LLVM::UIToFPOp>(x, to)
                             : ops.convert<LLVM::SIToFPOp>(x, to);
  }
  if (to.isInteger(1))
    return fromFloat ? ops.fcmp(FCmp::une, x, ops.number(0.0, x))
                     : ops.icmp(ICmp::ne, x, ops.integer(0, x));
  if (fromFloat)
    return truncateToInteger(ops, x, to);
  if (from.isInteger(1))
    return ops.convert<LLVM::ZExtOp>(x, to);
  return to.getIntOrFloatBitWidth() > from.getIntOrFloatBitWidth()
             ? ops.convert<LLVM::SExtOp>(x, to)
             : ops.convert<LLVM::TruncOp>(x, to);
}

Value compare(Ops &ops, StringRef predicate, Value x, Value y) {
  Type element = Ops::elementOf(x);
  if (isa<FloatType>(element))
    return ops.fcmp(llvm::StringSwitch<FCmp>(predicate)
                        .Case("eq", FCmp::oeq)
                        .Case("ne", FCmp::une)
                        .Case("lt", FCmp::olt)
                        .Case("le", FCmp::ole)
                        .Case("gt", FCmp::ogt)
                        .Default(FCmp::oge),
                    x, y);
  bool boolean = element.isInteger(1);
  return ops.icmp(
      llvm::StringSwitch<ICmp>(predicate)
          .Case("eq", ICmp::eq)
          .Case("ne", ICmp::ne)
          .Case("lt", boolean ? ICmp::ult : ICmp::slt)
          .Case("le", boolean ? ICmp::ule : ICmp::sle)
          .Case("gt", boolean ? ICmp::ugt : ICmp::sgt)
          .Default(boolean ? ICmp::uge : ICmp::sge),
      x, y);
}

//===----------------------------------------------------------------------===//
// Optimizer steps
//===----------------------------------------------------------------------===//

/// The coefficients of a step are formed in f64, each operation rounded, and
/// rounded once to the type of the tensors.
struct Coefficients {
  Ops &ops;
  Type element;

  Value number(double value) {
    return ops.roundTo(ops.numberOf(ops.b.getF64Type(), value), element);
  }
  Value round(Value value) { return ops.roundTo(value, element); }
  /// 1 - rate * decay
  Value decay(Value rate, double weightDecay) {
    Value product = ops.fmul(rate, ops.number(weightDecay, rate));
    return round(ops.fsub(ops.number(1.0, rate), product));
  }
};

SmallVector<Value> sgdStep(Ops &ops, SgdStepOp op, ArrayRef<Value> operands,
                           function_ref<void(function_ref<void()>)> atRoot) {
  Value p = operands[0], m = operands[1], g = operands[2];
  Value c, rate, mu, decay;
  atRoot([&] {
    Coefficients k{ops, elementType(op.getParameter())};
    c = k.round(operands[4]);
    rate = ops.fneg(k.round(operands[3]));
    mu = k.number(op.getMu().convertToDouble());
    decay = k.decay(operands[3], op.getWeightDecay().convertToDouble());
  });
  Value newM = ops.fma(mu, m, ops.fmul(c, g));
  Value newP = ops.fma(rate, newM, ops.fmul(p, decay));
  return {newP, newM};
}

SmallVector<Value> adamStep(Ops &ops, AdamStepOp op, ArrayRef<Value> operands,
                            function_ref<void(function_ref<void()>)> atRoot) {
  Value p = operands[0], m = operands[1], v = operands[2], g = operands[3];
  Value c, beta1, beta2, rest1, rest2, decay, alpha, root2, epsilon, weight;
  double wd = op.getWeightDecay().convertToDouble();
  atRoot([&] {
    Coefficients k{ops, elementType(op.getParameter())};
    Value rate = operands[4];
    double b1 = op.getBeta1().convertToDouble();
    double b2 = op.getBeta2().convertToDouble();
    c = k.round(operands[7]);
    beta1 = k.number(b1), rest1 = k.number(1.0 - b1);
    beta2 = k.number(b2), rest2 = k.number(1.0 - b2);
    decay = k.decay(rate, wd);
    alpha = ops.fneg(k.round(ops.fdiv(rate, operands[5])));
    root2 = k.round(ops.sqrt(operands[6]));
    epsilon = k.number(op.getEpsilon().convertToDouble());
    weight = k.number(wd);
  });
  g = ops.fmul(c, g);
  if (!op.getDecoupled())
    g = ops.fma(weight, p, g);
  Value newM = ops.fma(beta1, m, ops.fmul(rest1, g));
  Value newV = ops.fma(beta2, v, ops.fmul(rest2, ops.fmul(g, g)));
  Value d = ops.fadd(ops.fdiv(ops.sqrt(newV), root2), epsilon);
  Value base = op.getDecoupled() ? ops.fmul(p, decay) : p;
  Value newP = ops.fma(alpha, ops.fdiv(newM, d), base);
  return {newP, newM, newV};
}

} // namespace

bool codegen::canEmitPointwise(Operation *op) {
  return isa<NegOp, AbsOp, SqrtOp, ExpOp, LogOp, TanhOp, ErfOp, SinOp, CosOp,
             SiluOp, GeluOp, GeluGradOp, AddOp, SubOp, MulOp, DivOp, MaxOp,
             MinOp, CompareOp, SelectOp, ConvertOp, CrossEntropyOp, LogAddOp,
             SgdStepOp, AdamStepOp>(op);
}

SmallVector<Value>
codegen::emitPointwise(Ops &ops, Operation *op, ArrayRef<Value> in,
                       function_ref<void(function_ref<void()>)> atRoot) {
  using Values = SmallVector<Value>;
  auto one = [](Value v) { return Values{v}; };
  auto isFloat = [&] { return isa<FloatType>(Ops::elementOf(in[0])); };
  auto isBoolean = [&] { return Ops::elementOf(in[0]).isInteger(1); };
  // An op of f64 on one or two operands, rounded once.
  auto wide = [&](auto function) {
    Type element = elementType(op->getResult(0));
    return one(ops.roundTo(function(ops.toF64(in[0])), element));
  };
  return TypeSwitch<Operation *, Values>(op)
      .Case([&](NegOp) { return one(ops.fneg(in[0])); })
      .Case([&](AbsOp) { return one(ops.fabs(in[0])); })
      .Case([&](SqrtOp) { return one(ops.sqrt(in[0])); })
      .Case([&](ExpOp) { return one(throughF64(ops, in[0], emitExp)); })
      .Case([&](LogOp) { return one(throughF64(ops, in[0], emitLog)); })
      .Case([&](TanhOp) { return one(throughF64(ops, in[0], emitTanh)); })
      .Case([&](ErfOp) { return one(throughF64(ops, in[0], emitErf)); })
      .Case([&](SinOp) { return one(throughF64(ops, in[0], emitSin)); })
      .Case([&](CosOp) { return one(throughF64(ops, in[0], emitCos)); })
      .Case([&](SiluOp) { return one(throughF64(ops, in[0], silu)); })
      .Case([&](GeluOp op) {
        return wide([&](Value x) {
          return gelu(ops, x, op.getApproximate() == "tanh");
        });
      })
      .Case([&](GeluGradOp op) {
        return wide([&](Value x) {
          Value slope = geluSlope(ops, x, op.getApproximate() == "tanh");
          return ops.fmul(slope, ops.toF64(in[1]));
        });
      })
      .Case([&](AddOp) {
        return one(isFloat() ? ops.fadd(in[0], in[1]) : ops.add(in[0], in[1]));
      })
      .Case([&](SubOp) {
        return one(isFloat() ? ops.fsub(in[0], in[1]) : ops.sub(in[0], in[1]));
      })
      .Case([&](MulOp) {
        return one(isFloat() ? ops.fmul(in[0], in[1]) : ops.mul(in[0], in[1]));
      })
      .Case([&](DivOp) {
        return one(isFloat() ? ops.fdiv(in[0], in[1])
                             : divideIntegers(ops, in[0], in[1]));
      })
      .Case([&](MaxOp) {
        return one(isFloat()     ? ops.maximum(in[0], in[1])
                   : isBoolean() ? ops.logicalOr(in[0], in[1])
                                 : ops.smax(in[0], in[1]));
      })
      .Case([&](MinOp) {
        return one(isFloat()     ? ops.minimum(in[0], in[1])
                   : isBoolean() ? ops.logicalAnd(in[0], in[1])
                                 : ops.smin(in[0], in[1]));
      })
      .Case([&](CompareOp op) {
        return one(compare(ops, op.getPredicate(), in[0], in[1]));
      })
      .Case([&](SelectOp) { return one(ops.select(in[0], in[1], in[2])); })
      .Case([&](ConvertOp op) {
        return one(convertElement(ops, in[0], elementType(op.getResult())));
      })
      .Case([&](CrossEntropyOp op) {
        Values out = wide([&](Value maximum) {
          Value log = emitLog(ops, ops.toF64(in[1]));
          return ops.fsub(ops.fadd(maximum, log), ops.toF64(in[2]));
        });
        Value ignored = ops.icmp(
            ICmp::eq, in[3],
            ops.integer(static_cast<int64_t>(op.getIgnore()), in[3]));
        return one(ops.select(ignored, ops.number(0.0, out[0]), out[0]));
      })
      .Case([&](LogAddOp) {
        return wide([&](Value maximum) {
          Value sum = ops.fadd(maximum, emitLog(ops, ops.toF64(in[1])));
          Value lowest =
              ops.number(-std::numeric_limits<double>::infinity(), maximum);
          Value none = ops.fcmp(FCmp::oeq, maximum, lowest);
          return ops.select(none, lowest, sum);
        });
      })
      .Case([&](SgdStepOp op) { return sgdStep(ops, op, in, atRoot); })
      .Case([&](AdamStepOp op) { return adamStep(ops, op, in, atRoot); });
}
