//===- Optimizers.cpp - Meanings of optimizer steps -----------------------===//

#include "compiler/Reference/Frame.h"
#include "runtime/training/Schedule.h"

#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

static Tensor scalar(double value) {
  Tensor tensor = Tensor::zeros({});
  tensor.reals[0] = value;
  return tensor;
}

/// The factor of a schedule at a step from 1 on, written out again: the
/// runtime's own function is one of the things that this is a reference for.
static double factorAt(const ::mixle::runtime::Schedule &schedule, double step) {
  using Kind = ::mixle::runtime::Schedule::Kind;
  auto warmup = static_cast<double>(schedule.warmup);
  auto total = static_cast<double>(schedule.total);
  if (schedule.kind == Kind::Constant)
    return 1;
  if (step <= warmup)
    return step / warmup;
  if (schedule.kind == Kind::Linear)
    return std::max(0.0, (total + 1 - step) / (total + 1 - warmup));
  double progress =
      step >= total ? 1 : (step - warmup) / (total - warmup);
  double wave = 0.5 * (1 + std::cos(3.14159265358979323846 * progress));
  return schedule.minRatio + (1 - schedule.minRatio) * wave;
}

static LogicalResult schedule(ScheduleOp op, Frame &frame) {
  auto parsed = ::mixle::runtime::Schedule::parse(op.getSchedule().str());
  if (!parsed.ok())
    return frame.fail() << parsed.status().message();
  double step = static_cast<double>(frame.get(op.getStep()).integers[0]) + 1;
  double lr = op.getLr().convertToDouble();
  frame.set(op.getRate(), scalar(lr * factorAt(*parsed, step)));
  frame.set(op.getCorrection1(),
            scalar(1 - std::pow(op.getBeta1().convertToDouble(), step)));
  frame.set(op.getCorrection2(),
            scalar(1 - std::pow(op.getBeta2().convertToDouble(), step)));
  return success();
}

static LogicalResult clipCoefficient(ClipCoefficientOp op, Frame &frame) {
  double norm = std::sqrt(frame.get(op.getSumOfSquares()).reals[0]);
  double coefficient = op.getMaxNorm().convertToDouble() / (norm + 1e-6);
  // NaN stays NaN.
  frame.set(op.getCoefficient(), scalar(coefficient > 1 ? 1 : coefficient));
  frame.set(op.getNorm(), scalar(norm));
  return success();
}

static LogicalResult sgdStep(SgdStepOp op, Frame &frame) {
  if (failed(frame.sameShape(op.getParameter(), op.getGradient())) ||
      failed(frame.sameShape(op.getParameter(), op.getMomentum())))
    return failure();
  double rate = frame.get(op.getRate()).reals[0];
  double coefficient = frame.get(op.getCoefficient()).reals[0];
  double mu = op.getMu().convertToDouble();
  double decay = 1 - rate * op.getWeightDecay().convertToDouble();
  const Tensor &gradient = frame.get(op.getGradient());
  Tensor p = frame.get(op.getParameter()), m = frame.get(op.getMomentum());
  for (int64_t i = 0; i < p.size(); ++i) {
    m.reals[i] = mu * m.reals[i] + coefficient * gradient.reals[i];
    p.reals[i] = p.reals[i] * decay - rate * m.reals[i];
  }
  frame.set(op.getNewParameter(), std::move(p));
  frame.set(op.getNewMomentum(), std::move(m));
  return success();
}

static LogicalResult adamStep(AdamStepOp op, Frame &frame) {
  for (Value operand : {op.getFirst(), op.getSecond(), op.getGradient()})
    if (failed(frame.sameShape(op.getParameter(), operand)))
      return failure();
  double rate = frame.get(op.getRate()).reals[0];
  double c1 = frame.get(op.getCorrection1()).reals[0];
  double c2 = frame.get(op.getCorrection2()).reals[0];
  double coefficient = frame.get(op.getCoefficient()).reals[0];
  double b1 = op.getBeta1().convertToDouble(), b2 = op.getBeta2().convertToDouble();
  double epsilon = op.getEpsilon().convertToDouble();
  double weightDecay = op.getWeightDecay().convertToDouble();
  const Tensor &gradient = frame.get(op.getGradient());
  Tensor p = frame.get(op.getParameter()), m = frame.get(op.getFirst()),
         v = frame.get(op.getSecond());
  for (int64_t i = 0; i < p.size(); ++i) {
    double g = coefficient * gradient.reals[i];
    double x = p.reals[i];
    if (op.getDecoupled())
      x *= 1 - rate * weightDecay;
    else
      g += weightDecay * x;
    m.reals[i] = b1 * m.reals[i] + (1 - b1) * g;
    v.reals[i] = b2 * v.reals[i] + (1 - b2) * g * g;
    p.reals[i] = x - rate / c1 * m.reals[i] /
                         (std::sqrt(v.reals[i]) / std::sqrt(c2) + epsilon);
  }
  frame.set(op.getNewParameter(), std::move(p));
  frame.set(op.getNewFirst(), std::move(m));
  frame.set(op.getNewSecond(), std::move(v));
  return success();
}

void mlir::mixle::reference::addOptimizers(Meanings &meanings) {
  meanings.add(schedule);
  meanings.add(clipCoefficient);
  meanings.add(sgdStep);
  meanings.add(adamStep);
}
