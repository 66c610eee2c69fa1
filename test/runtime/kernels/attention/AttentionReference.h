//===- AttentionReference.h - Attention, one element at a time --*- C++ -*-===//
//
// The definition of runtime/kernels/Attention.h in plain loops, recursion for
// the tree included. The kernels must give these bits.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_TEST_RUNTIME_KERNELS_ATTENTION_ATTENTIONREFERENCE_H
#define MIXLE_TEST_RUNTIME_KERNELS_ATTENTION_ATTENTIONREFERENCE_H

#include "mixle/MathConstants.h"
#include "runtime/kernels/Attention.h"

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace mixle::runtime::test {

/// Dense tensors of one attention: q, o, do, dq [rows, tokens, heads, headDim];
/// k, v, dk, dv [rows, tokens, kvHeads, headDim]; m, l [rows, heads, tokens].
template <typename T> struct Tensors {
  std::vector<T> q, k, v, o, dO, dq, dk, dv, l;
  std::vector<int32_t> m;
};

inline float polynomial(float f) {
  const auto &c = math::exp2CoefficientsFloat;
  float p = c[5];
  for (int i = 4; i >= 0; --i)
    p = std::fma(p, f, c[i]);
  return std::fma(p, f, 1.0f);
}

inline double polynomial(double f) {
  const auto &c = math::exp2Coefficients;
  double p = c[10];
  for (int i = 9; i >= 0; --i)
    p = std::fma(p, f, c[i]);
  return std::fma(p, f, 1.0);
}

/// The integer nearest to x <= 0, halves going to the odd one.
template <typename T> T nearestInteger(T x) {
  T below = std::floor(x), fraction = x - below;
  if (fraction == T(0.5))
    return std::fmod(below, T(2)) != 0 ? below : below + 1;
  return fraction < T(0.5) ? below : below + 1;
}

template <typename T> T referenceExp2(T x) {
  if (x < (sizeof(T) == 4 ? T(-125) : T(-1021)))
    return 0;
  T n = nearestInteger(x);
  return polynomial(x - n) * std::exp2(n); // a power of two: exact
}

/// Lanes i and i + w are added for w = 8, 4, 2, 1.
template <typename T> T addLanes(T (&lane)[16]) {
  for (int w = 8; w > 0; w /= 2)
    for (int i = 0; i < w; ++i)
      lane[i] = lane[i] + lane[i + w];
  return lane[0];
}

/// The tree over leaves [begin, begin + n); nothing is the identity.
template <typename Leaf>
std::optional<Leaf>
tree(int64_t begin, int64_t n,
     const std::function<std::optional<Leaf>(int64_t)> &leaf,
     const std::function<Leaf(const Leaf &, const Leaf &)> &merge) {
  if (n == 1)
    return leaf(begin);
  int64_t half = 1;
  while (half * 2 < n)
    half *= 2;
  auto left = tree<Leaf>(begin, half, leaf, merge);
  auto right = tree<Leaf>(begin + half, n - half, leaf, merge);
  if (!left || !right)
    return left ? left : right;
  return merge(*left, *right);
}

/// Sums vectors in the tree.
template <typename T>
std::vector<T>
treeSum(int64_t n,
        const std::function<std::optional<std::vector<T>>(int64_t)> &leaf) {
  using Vector = std::vector<T>;
  return *tree<Vector>(0, n, leaf, [](const Vector &a, const Vector &b) {
    Vector sum(a.size());
    for (size_t i = 0; i < a.size(); ++i)
      sum[i] = a[i] + b[i];
    return sum;
  });
}

template <typename T> class Reference {
public:
  Reference(const AttentionShape &shape, T scale, Tensors<T> &t)
      : s(shape), scale(scale), t(t),
        granule((shape.tokens + shape.keyGranules - 1) / shape.keyGranules),
        factor(T(double(scale) * math::log2E)) {}

  void forward() {
    t.o.assign(t.q.size(), 0);
    t.m.assign(size_t(s.rows * s.heads * s.tokens), 0);
    t.l.assign(t.m.size(), 0);
    for (int64_t r = 0; r < s.rows; ++r)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.tokens; ++i)
          forwardQuery(r, h, i);
  }

  void backward() {
    t.dq.assign(t.q.size(), 0);
    t.dk.assign(t.k.size(), 0);
    t.dv.assign(t.v.size(), 0);
    int64_t group = s.heads / s.kvHeads;
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.tokens; ++i)
          write(t.dq, q(r, i, h), gradientOfQuery(r, h, i));
      for (int64_t kv = 0; kv < s.kvHeads; ++kv)
        for (int64_t j = 0; j < s.tokens; ++j) {
          auto key = [&](int64_t h) {
            return gradientOfKey(r, kv * group + h, j, true);
          };
          auto value = [&](int64_t h) {
            return gradientOfKey(r, kv * group + h, j, false);
          };
          size_t at = size_t(((r * s.tokens + j) * s.kvHeads + kv) * s.headDim);
          write(t.dk, at, treeSum<T>(group, key));
          write(t.dv, at, treeSum<T>(group, value));
        }
    }
  }

private:
  struct State {
    int32_t m;
    T l;
    std::vector<T> o;
  };

  size_t q(int64_t r, int64_t i, int64_t h) const {
    return size_t(((r * s.tokens + i) * s.heads + h) * s.headDim);
  }
  size_t k(int64_t r, int64_t j, int64_t h) const {
    int64_t kv = h / (s.heads / s.kvHeads);
    return size_t(((r * s.tokens + j) * s.kvHeads + kv) * s.headDim);
  }
  size_t stat(int64_t r, int64_t h, int64_t i) const {
    return size_t((r * s.heads + h) * s.tokens + i);
  }
  bool sees(int64_t i, int64_t j) const { return !s.causal || j <= i; }
  int64_t end(int64_t g) const { return std::min(s.tokens, (g + 1) * granule); }

  void write(std::vector<T> &to, size_t at, const std::vector<T> &values) {
    for (size_t d = 0; d < values.size(); ++d)
      to[at + d] = values[d];
  }

  T chain(const std::vector<T> &a, size_t i, const std::vector<T> &b,
          size_t j) const {
    T sum = 0;
    for (int64_t d = 0; d < s.headDim; ++d)
      sum = std::fma(a[i + size_t(d)], b[j + size_t(d)], sum);
    return sum;
  }

  T logit(int64_t r, int64_t h, int64_t i, int64_t j) const {
    return chain(t.q, q(r, i, h), t.k, k(r, j, h)) * factor;
  }

  static T power(int32_t n) {
    return n < (sizeof(T) == 4 ? -126 : -1022) ? T(0) : T(std::ldexp(1.0, n));
  }

  std::optional<State> leaf(int64_t r, int64_t h, int64_t i, int64_t g) const {
    T top = -std::numeric_limits<T>::infinity();
    bool any = false;
    for (int64_t j = g * granule; j < end(g); ++j)
      if (sees(i, j)) {
        any = true;
        T s2 = logit(r, h, i, j);
        top = s2 > top ? s2 : top;
      }
    if (!any)
      return std::nullopt;
    State state{0, 0, std::vector<T>(size_t(s.headDim), T(0))};
    T reference = std::ceil(top);
    if (std::fabs(reference) <= T(1 << 30))
      state.m = int32_t(reference);
    else
      reference = std::numeric_limits<T>::quiet_NaN();
    T lane[16] = {};
    for (int64_t j = g * granule; j < end(g); ++j)
      if (sees(i, j)) {
        T p = referenceExp2(logit(r, h, i, j) - reference);
        lane[(j - g * granule) % 16] += p;
        for (int64_t d = 0; d < s.headDim; ++d)
          state.o[size_t(d)] =
              std::fma(p, t.v[k(r, j, h) + size_t(d)], state.o[size_t(d)]);
      }
    state.l = addLanes(lane);
    return state;
  }

  void forwardQuery(int64_t r, int64_t h, int64_t i) {
    State whole = *tree<State>(
        0, s.keyGranules, [&](int64_t g) { return leaf(r, h, i, g); },
        [](const State &a, const State &b) {
          State c = a;
          c.m = std::max(a.m, b.m);
          T x = power(a.m - c.m), y = power(b.m - c.m);
          c.l = a.l * x + b.l * y;
          for (size_t d = 0; d < c.o.size(); ++d)
            c.o[d] = a.o[d] * x + b.o[d] * y;
          return c;
        });
    t.m[stat(r, h, i)] = whole.m;
    t.l[stat(r, h, i)] = whole.l;
    for (T &x : whole.o)
      x = x / whole.l;
    write(t.o, q(r, i, h), whole.o);
  }

  /// p[i,j] and ds[i,j].
  std::pair<T, T> pair(int64_t r, int64_t h, int64_t i, int64_t j) const {
    T lane[16] = {};
    for (int64_t d = 0; d < s.headDim; ++d)
      lane[d % 16] = std::fma(t.dO[q(r, i, h) + size_t(d)],
                              t.o[q(r, i, h) + size_t(d)], lane[d % 16]);
    T delta = addLanes(lane);
    T p = referenceExp2(logit(r, h, i, j) - T(t.m[stat(r, h, i)])) /
          t.l[stat(r, h, i)];
    T dp = chain(t.dO, q(r, i, h), t.v, k(r, j, h));
    return {p, (p * (dp - delta)) * scale};
  }

  std::vector<T> gradientOfQuery(int64_t r, int64_t h, int64_t i) const {
    return treeSum<T>(s.keyGranules, [&](int64_t g) {
      std::optional<std::vector<T>> sum;
      for (int64_t j = g * granule; j < end(g); ++j)
        if (sees(i, j))
          accumulate(sum, pair(r, h, i, j).second, t.k, k(r, j, h));
      return sum;
    });
  }

  std::vector<T> gradientOfKey(int64_t r, int64_t h, int64_t j,
                               bool ofKey) const {
    return treeSum<T>(s.keyGranules, [&](int64_t g) {
      std::optional<std::vector<T>> sum;
      for (int64_t i = g * granule; i < end(g); ++i)
        if (sees(i, j)) {
          auto [p, ds] = pair(r, h, i, j);
          accumulate(sum, ofKey ? ds : p, ofKey ? t.q : t.dO, q(r, i, h));
        }
      return sum;
    });
  }

  void accumulate(std::optional<std::vector<T>> &sum, T factor,
                  const std::vector<T> &from, size_t at) const {
    if (!sum)
      sum.emplace(size_t(s.headDim), T(0));
    for (size_t d = 0; d < sum->size(); ++d)
      (*sum)[d] = std::fma(factor, from[at + d], (*sum)[d]);
  }

  const AttentionShape &s;
  const T scale;
  Tensors<T> &t;
  const int64_t granule;
  const T factor;
};

} // namespace mixle::runtime::test

#endif // MIXLE_TEST_RUNTIME_KERNELS_ATTENTION_ATTENTIONREFERENCE_H
