//===- Elementary.cpp - Elementary functions as LLVM dialect ops ----------===//

#include "compiler/Codegen/Elementary.h"
#include "mixle/MathConstants.h"
#include <limits>

using namespace mlir;
using namespace mlir::mixle::codegen;
// Not by name: MathConstants.h is of another namespace mixle.
namespace constants = ::mixle::math;

using FCmp = Ops::FCmp;
using ICmp = Ops::ICmp;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Sequences on values of one type, with constants of that type.
struct Sequence {
  Ops &ops;
  Value like;

  Value k(double value) { return ops.number(value, like); }
  Value k64(int64_t value) {
    return ops.integerOf(
        Ops::typeLike(ops.b.getI64Type(), like), value);
  }
  Value add(Value x, Value y) { return ops.fadd(x, y); }
  Value sub(Value x, Value y) { return ops.fsub(x, y); }
  Value mul(Value x, Value y) { return ops.fmul(x, y); }
  Value div(Value x, Value y) { return ops.fdiv(x, y); }
  Value fma(Value x, Value y, Value z) { return ops.fma(x, y, z); }
  Value neg(Value x) { return ops.fneg(x); }
  Value magic() { return k(constants::roundMagic); }

  /// x `predicate` y ? a : b
  Value choose(FCmp predicate, Value x, Value y, Value a, Value b) {
    return ops.select(ops.fcmp(predicate, x, y), a, b);
  }
  Value atMost(Value x, double highest) {
    return choose(FCmp::ogt, x, k(highest), k(highest), x);
  }
  Value atLeast(Value x, double lowest) {
    return choose(FCmp::olt, x, k(lowest), k(lowest), x);
  }
  template <size_t n> Value horner(const double (&c)[n], Value x) {
    Value p = k(c[n - 1]);
    for (int i = static_cast<int>(n) - 2; i >= 0; --i)
      p = fma(p, x, k(c[i]));
    return p;
  }
  /// value((bits(t) + bias) << 52)
  Value power(Value t, int64_t bias) {
    return ops.fromBits(ops.shl(ops.add(ops.bits(t), k64(bias)), 52));
  }
  Value withSign(Value magnitude, Value x) {
    Value sign = ops.logicalAnd(ops.bits(x),
                                k64(std::numeric_limits<int64_t>::min()));
    return ops.fromBits(ops.logicalOr(ops.bits(magnitude), sign));
  }

  Value scaleByPower(Value y, Value n) {
    Value t1 = fma(n, k(0.5), magic());
    Value n1 = sub(t1, magic());
    Value t2 = add(sub(n, n1), magic());
    return mul(mul(y, power(t1, 1023)), power(t2, 1023));
  }

  Value exp(Value x) {
    x = atLeast(atMost(x, constants::expHighest), constants::expLowest);
    Value n = sub(fma(x, k(constants::log2E), magic()), magic());
    Value r = fma(n, k(-constants::ln2High), x);
    r = fma(n, k(-constants::ln2Low), r);
    Value p = fma(horner(constants::expCoefficients, r), r, k(0.5));
    return scaleByPower(add(k(1.0), fma(mul(r, r), p, r)), n);
  }

  Value log(Value x) {
    Value tiny = ops.fcmp(FCmp::olt, x, k(constants::smallestNormal));
    Value u = ops.select(tiny, mul(x, k(constants::subnormalScale)), x);
    Value offset = ops.select(tiny, k(constants::logExponentOffsetTiny),
                              k(constants::logExponentOffset));
    Value bits = ops.bits(u);
    Value e = ops.lshr(
        ops.add(bits, k64(constants::oneBits - constants::logSqrtHalfBits)),
        52);
    Value m = ops.fromBits(
        ops.add(ops.sub(bits, ops.shl(e, 52)), k64(constants::oneBits)));
    Value k0 = sub(
        ops.fromBits(ops.logicalOr(e, k64(constants::twoTo52Bits))), offset);
    Value f = sub(m, k(1.0));
    Value s = div(f, add(f, k(2.0)));
    Value z = mul(s, s);
    Value R = mul(z, horner(constants::logCoefficients, z));
    Value h = mul(mul(f, k(0.5)), f);
    Value w = fma(s, add(h, R), mul(k0, k(constants::ln2Low)));
    Value y = fma(k0, k(constants::ln2High), sub(f, sub(h, w)));
    y = choose(FCmp::oeq, x, k(0.0), k(-kInfinity), y);
    y = choose(FCmp::olt, x, k(0.0),
               k(std::numeric_limits<double>::quiet_NaN()), y);
    return choose(FCmp::olt, x, k(kInfinity), y, x);
  }

  /// (e^x - 1) / 2 as an unevaluated sum.
  std::pair<Value, Value> expm1Half(Value x) {
    Value n = sub(fma(x, k(constants::log2E), magic()), magic());
    Value t1 = add(n, magic());
    Value a = fma(n, k(-constants::ln2High), x);
    Value r = fma(n, k(-constants::ln2Low), a);
    Value c = fma(n, k(-constants::ln2Low), sub(a, r));
    Value p = fma(horner(constants::expCoefficients, r), r, k(0.5));
    Value v = fma(mul(r, r), p, fma(c, r, c));
    Value t = add(r, v);
    Value tl = add(sub(r, t), v);
    Value s = power(t1, 1022);
    Value A = sub(s, k(0.5));
    Value B = mul(s, t);
    Value high = add(A, B);
    Value b = sub(high, A);
    Value low = fma(s, tl, add(sub(A, sub(high, b)), sub(B, b)));
    return {high, low};
  }

  Value tanh(Value x) {
    Value a = ops.fabs(x);
    Value b = atMost(a, constants::tanhHighest);
    auto [high, low] = expm1Half(mul(k(2.0), b));
    Value d = add(high, k(1.0));
    Value g = sub(d, high);
    Value dl = add(add(sub(high, sub(d, g)), sub(k(1.0), g)), low);
    Value i = div(k(1.0), d);
    Value q = mul(high, i);
    Value minusQ = neg(q);
    Value e = fma(minusQ, dl, add(fma(minusQ, d, high), low));
    Value y = fma(e, i, q);
    y = choose(FCmp::olt, a, k(constants::tinyArgument), a, y);
    return withSign(y, x);
  }

  Value erf(Value x) {
    Value a = ops.fabs(x);
    Value small =
        fma(a, horner(constants::erfCoefficients, mul(a, a)), a);
    Value b = atMost(a, constants::erfHighest);
    Value large =
        sub(k(1.0), exp(horner(constants::erfcLogCoefficients,
                               sub(b, k(1.0)))));
    return withSign(choose(FCmp::olt, a, k(1.0), small, large), x);
  }

  struct Trig {
    Value quarter, sine, cosine;
  };
  Trig trig(Value x) {
    Value t = fma(x, k(constants::twoOverPi), magic());
    Value n = sub(t, magic());
    Value a = fma(n, k(-constants::piOver2Parts[0]), x);
    Value w = mul(n, k(constants::piOver2Parts[1]));
    Value wl = fma(n, k(constants::piOver2Parts[1]), neg(w));
    Value r = sub(a, w);
    Value b = sub(a, r);
    Value rest = sub(add(sub(b, w), sub(a, add(r, b))), wl);
    Value rl = fma(n, k(-constants::piOver2Parts[2]), rest);
    Value z = mul(r, r);
    Value S = fma(
        z, fma(k(-0.5), rl, mul(r, horner(constants::sinCoefficients, z))),
        rl);
    Value C = fma(mul(z, z), horner(constants::cosCoefficients, z),
                  neg(mul(r, rl)));
    Value h = mul(z, k(0.5));
    Value g = sub(k(1.0), h);
    return {ops.bits(t), add(r, S),
            add(g, add(sub(sub(k(1.0), g), h), C))};
  }
  Value hasBit(Value i, int64_t bit) {
    return ops.icmp(ICmp::ne, ops.logicalAnd(i, k64(bit)), k64(0));
  }
  Value inTrigRange(Value a, Value y) {
    return choose(FCmp::ole, a, k(constants::trigLimit), y,
                  k(std::numeric_limits<double>::quiet_NaN()));
  }
  Value sin(Value x) {
    Trig t = trig(x);
    Value y = ops.select(hasBit(t.quarter, 1), t.cosine, t.sine);
    y = ops.select(hasBit(t.quarter, 2), neg(y), y);
    Value a = ops.fabs(x);
    y = choose(FCmp::olt, a, k(constants::tinyArgument), x, y);
    return inTrigRange(a, y);
  }
  Value cos(Value x) {
    Trig t = trig(x);
    Value y = ops.select(hasBit(t.quarter, 1), t.sine, t.cosine);
    y = ops.select(hasBit(ops.add(t.quarter, k64(1)), 2), neg(y), y);
    return inTrigRange(ops.fabs(x), y);
  }
};

} // namespace

namespace mlir::mixle::codegen {
Value emitExp(Ops &ops, Value x) { return Sequence{ops, x}.exp(x); }
Value emitLog(Ops &ops, Value x) { return Sequence{ops, x}.log(x); }
Value emitTanh(Ops &ops, Value x) { return Sequence{ops, x}.tanh(x); }
Value emitErf(Ops &ops, Value x) { return Sequence{ops, x}.erf(x); }
Value emitSin(Ops &ops, Value x) { return Sequence{ops, x}.sin(x); }
Value emitCos(Ops &ops, Value x) { return Sequence{ops, x}.cos(x); }
} // namespace mlir::mixle::codegen
