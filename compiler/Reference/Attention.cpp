//===- Attention.cpp - Meanings of attention and its gradient -------------===//

#include "compiler/Reference/Frame.h"

#include <cmath>

using namespace mlir;
using namespace mlir::mixle;
using namespace mlir::mixle::reference;

namespace {

constexpr double kLog2E = 1.4426950408889634074; // log2(e)

/// The sizes of packed q, k, v and the positions of their vectors.
struct Packed {
  int64_t rows, tokens, heads, width;
  int64_t group; ///< queries that share a key, 0 where each has its own

  Packed(const Tensor &qkv, bool grouped)
      : rows(qkv.shape[0]), tokens(qkv.shape[1]), heads(qkv.shape[3]),
        width(qkv.shape[4]), group(0) {
    if (grouped) {
      group = qkv.shape[3] - 2;
      heads = qkv.shape[2] * group;
    }
  }

  /// Where q (part 0), k (1) or v (2) of a token and query head starts.
  int64_t vector(int64_t row, int64_t token, int64_t part, int64_t head) const {
    if (group) {
      int64_t slot = part == 0 ? head % group : group + part - 1;
      return (((row * tokens + token) * (heads / group) + head / group) *
                  (group + 2) +
              slot) *
             width;
    }
    return (((row * tokens + token) * 3 + part) * heads + head) * width;
  }
  /// Where the output of a token and head starts.
  int64_t output(int64_t row, int64_t token, int64_t head) const {
    return ((row * tokens + token) * heads + head) * width;
  }
  /// The position of a token's statistics.
  int64_t statistic(int64_t row, int64_t head, int64_t token) const {
    return (row * heads + head) * tokens + token;
  }
};

double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

} // namespace

static LogicalResult attention(AttentionOp op, Frame &frame) {
  const Tensor &qkv = frame.get(op.getQkv());
  Packed at(qkv, op.getGrouped());
  const double *x = qkv.reals.data();
  double scale = op.getScale().convertToDouble() * kLog2E;
  // Run-time shapes: the types' with the number of rows.
  auto shapeOf = [&](Value value) {
    SmallVector<int64_t> shape(
        cast<RankedTensorType>(value.getType()).getShape());
    shape[0] = at.rows;
    return shape;
  };
  Tensor result = Tensor::zeros(shapeOf(op.getResult()));
  Tensor references = Tensor::integerZeros(shapeOf(op.getReference()));
  Tensor normalizers = Tensor::zeros(shapeOf(op.getNormalizer()));
  std::vector<double> scores(static_cast<size_t>(at.tokens));
  for (int64_t r = 0; r < at.rows; ++r)
    for (int64_t h = 0; h < at.heads; ++h)
      for (int64_t t = 0; t < at.tokens; ++t) {
        int64_t visible = op.getCausal() ? t + 1 : at.tokens;
        double largest = -HUGE_VAL;
        bool nan = false;
        for (int64_t j = 0; j < visible; ++j) {
          scores[j] = scale * dot(x + at.vector(r, t, 0, h),
                                  x + at.vector(r, j, 1, h), at.width);
          nan |= std::isnan(scores[j]);
          largest = std::max(largest, scores[j]);
        }
        double *o = result.reals.data() + at.output(r, t, h);
        int64_t statistic = at.statistic(r, h, t);
        // A query whose largest score is no number of reasonable size has no
        // answer, and says so.
        if (nan || !(std::fabs(largest) <= 0x1p30)) {
          std::fill(o, o + at.width, std::nan(""));
          normalizers.reals[statistic] = std::nan("");
          continue;
        }
        double reference = std::ceil(largest), sum = 0;
        for (int64_t j = 0; j < visible; ++j) {
          double p = std::exp2(scores[j] - reference);
          sum += p;
          const double *v = x + at.vector(r, j, 2, h);
          for (int64_t d = 0; d < at.width; ++d)
            o[d] += p * v[d];
        }
        for (int64_t d = 0; d < at.width; ++d)
          o[d] /= sum;
        references.integers[statistic] = static_cast<int64_t>(reference);
        normalizers.reals[statistic] = sum;
      }
  frame.set(op.getResult(), std::move(result));
  frame.set(op.getReference(), std::move(references));
  frame.set(op.getNormalizer(), std::move(normalizers));
  return success();
}

static LogicalResult attentionGrad(AttentionGradOp op, Frame &frame) {
  if (failed(frame.sameShape(op.getOutput(), op.getCotangent())) ||
      failed(frame.sameShape(op.getReference(), op.getNormalizer())))
    return failure();
  const Tensor &qkv = frame.get(op.getQkv());
  const Tensor &output = frame.get(op.getOutput());
  const Tensor &cotangent = frame.get(op.getCotangent());
  Packed at(qkv, op.getGrouped());
  if (at.rows * at.tokens * at.heads * at.width != output.size())
    return frame.fail() << "has an output of another run-time shape than qkv";
  const double *x = qkv.reals.data();
  double scale = op.getScale().convertToDouble();
  Tensor result = Tensor::zeros(qkv.shape);
  double *dx = result.reals.data();
  for (int64_t r = 0; r < at.rows; ++r)
    for (int64_t h = 0; h < at.heads; ++h)
      for (int64_t t = 0; t < at.tokens; ++t) {
        const double *q = x + at.vector(r, t, 0, h);
        const double *dy = cotangent.reals.data() + at.output(r, t, h);
        double delta =
            dot(dy, output.reals.data() + at.output(r, t, h), at.width);
        int64_t statistic = at.statistic(r, h, t);
        auto reference = static_cast<double>(
            frame.get(op.getReference()).integers[statistic]);
        double normalizer = frame.get(op.getNormalizer()).reals[statistic];
        int64_t visible = op.getCausal() ? t + 1 : at.tokens;
        for (int64_t j = 0; j < visible; ++j) {
          const double *k = x + at.vector(r, j, 1, h);
          const double *v = x + at.vector(r, j, 2, h);
          double p =
              std::exp2(scale * kLog2E * dot(q, k, at.width) - reference) /
              normalizer;
          double ds = p * (dot(dy, v, at.width) - delta) * scale;
          for (int64_t d = 0; d < at.width; ++d) {
            dx[at.vector(r, t, 0, h) + d] += ds * k[d];
            dx[at.vector(r, j, 1, h) + d] += ds * q[d];
            dx[at.vector(r, j, 2, h) + d] += p * dy[d];
          }
        }
      }
  frame.set(op.getResult(), std::move(result));
  return success();
}

static LogicalResult rotary(RotaryOp op, Frame &frame) {
  const Tensor &input = frame.get(op.getInput());
  const Tensor &cosines = frame.get(op.getCos());
  const Tensor &sines = frame.get(op.getSin());
  int64_t tokens = input.shape[1], width = input.shape.back();
  int64_t entries = input.shape[input.rank() - 2];
  if (cosines.shape[0] != tokens || sines.shape[0] != tokens)
    return frame.fail() << "has tables of " << cosines.shape[0] << " and "
                        << sines.shape[0] << " positions for " << tokens;
  int64_t rotated = op.getRotated() ? static_cast<int64_t>(*op.getRotated())
                                    : entries;
  int64_t vectors = input.size() / std::max<int64_t>(width, 1);
  int64_t perToken = vectors / std::max<int64_t>(input.shape[0] * tokens, 1);
  double sign = op.getInverse() ? -1 : 1;
  Tensor result = input;
  for (int64_t v = 0; v < vectors; ++v) {
    if (op.getRotated() && v % entries >= rotated)
      continue;
    int64_t token = v / perToken % tokens;
    for (int64_t d = 0; d < width / 2; ++d) {
      int64_t first = v * width + d, second = first + width / 2;
      double c = cosines.reals[token * (width / 2) + d];
      double s = sign * sines.reals[token * (width / 2) + d];
      double x = input.reals[first], y = input.reals[second];
      result.reals[first] = x * c - y * s;
      result.reals[second] = y * c + x * s;
    }
  }
  frame.set(op.getResult(), std::move(result));
  return success();
}

void mlir::mixle::reference::addAttention(Meanings &meanings) {
  meanings.add(rotary);
  meanings.add(attention);
  meanings.add(attentionGrad);
}
