//===- AttentionTestUtil.h - Inputs and runs of attention -------*- C++ -*-===//

#ifndef MIXLE_TEST_RUNTIME_KERNELS_ATTENTION_ATTENTIONTESTUTIL_H
#define MIXLE_TEST_RUNTIME_KERNELS_ATTENTION_ATTENTIONTESTUTIL_H

#include "AttentionReference.h"
#include "runtime/kernels/AttentionKernels.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <string>

namespace mixle::runtime::test {

/// Random q, k, v and do; `spread` scales q, and with it the logits.
template <typename T>
Tensors<T> randomTensors(const AttentionShape &s, uint32_t seed,
                         T spread = T(1)) {
  std::mt19937 engine(seed);
  auto fill = [&](std::vector<T> &x, int64_t heads, T factor) {
    x.resize(size_t(s.rows * s.tokens * heads * s.headDim));
    for (T &value : x)
      value = factor * (T(engine()) / T(2147483648.0) - T(1)) * T(2);
  };
  Tensors<T> t;
  fill(t.q, s.heads, spread);
  fill(t.k, s.kvHeads, T(1));
  fill(t.v, s.kvHeads, T(1));
  fill(t.dO, s.heads, T(1));
  return t;
}

template <typename U>
HeadsView<U> denseView(U *data, const AttentionShape &s, int64_t heads) {
  return {data, s.tokens * heads * s.headDim, heads * s.headDim, s.headDim};
}

template <typename T>
AttentionForwardArgs<T> forwardArgs(const AttentionShape &s, T scale,
                                    Tensors<T> &t) {
  t.o.assign(t.q.size(), T(-7));
  t.m.assign(size_t(s.rows * s.heads * s.tokens), -7);
  t.l.assign(t.m.size(), T(-7));
  return {s,
          scale,
          denseView<const T>(t.q.data(), s, s.heads),
          denseView<const T>(t.k.data(), s, s.kvHeads),
          denseView<const T>(t.v.data(), s, s.kvHeads),
          denseView<T>(t.o.data(), s, s.heads),
          t.m.data(),
          t.l.data()};
}

template <typename T>
AttentionBackwardArgs<T> backwardArgs(const AttentionShape &s, T scale,
                                      Tensors<T> &t) {
  t.dq.assign(t.q.size(), T(-7));
  t.dk.assign(t.k.size(), T(-7));
  t.dv.assign(t.v.size(), T(-7));
  return {s,
          scale,
          denseView<const T>(t.q.data(), s, s.heads),
          denseView<const T>(t.k.data(), s, s.kvHeads),
          denseView<const T>(t.v.data(), s, s.kvHeads),
          denseView<const T>(t.o.data(), s, s.heads),
          denseView<const T>(t.dO.data(), s, s.heads),
          t.m.data(),
          t.l.data(),
          denseView<T>(t.dq.data(), s, s.heads),
          denseView<T>(t.dk.data(), s, s.kvHeads),
          denseView<T>(t.dv.data(), s, s.kvHeads)};
}

/// Runs both passes by the public functions.
template <typename T>
void runAttention(const AttentionShape &s, T scale, Tensors<T> &t) {
  Workspace workspace;
  Status status = attentionForward(forwardArgs(s, scale, t), workspace);
  ASSERT_TRUE(status.ok()) << status.message();
  status = attentionBackward(backwardArgs(s, scale, t), workspace);
  ASSERT_TRUE(status.ok()) << status.message();
}

/// The first difference in bits, NaNs being equal to each other; empty if none.
template <typename T>
std::string difference(const char *name, const std::vector<T> &got,
                       const std::vector<T> &expected) {
  if (got.size() != expected.size())
    return std::string(name) + ": sizes differ";
  for (size_t i = 0; i < got.size(); ++i)
    if (std::memcmp(&got[i], &expected[i], sizeof(T)) != 0 &&
        !(got[i] != got[i] && expected[i] != expected[i]))
      return std::string(name) + "[" + std::to_string(i) +
             "]: " + std::to_string(got[i]) + ", expected " +
             std::to_string(expected[i]);
  return "";
}

template <typename T>
std::string difference(const Tensors<T> &got, const Tensors<T> &expected) {
  return difference("m", got.m, expected.m) +
         difference("l", got.l, expected.l) +
         difference("o", got.o, expected.o) +
         difference("dq", got.dq, expected.dq) +
         difference("dk", got.dk, expected.dk) +
         difference("dv", got.dv, expected.dv);
}

inline std::string describe(const AttentionShape &s) {
  return "rows " + std::to_string(s.rows) + " tokens " +
         std::to_string(s.tokens) + " heads " + std::to_string(s.heads) +
         " kvHeads " + std::to_string(s.kvHeads) + " headDim " +
         std::to_string(s.headDim) + " granules " +
         std::to_string(s.keyGranules) + (s.causal ? " causal" : " full");
}

} // namespace mixle::runtime::test

#endif // MIXLE_TEST_RUNTIME_KERNELS_ATTENTION_ATTENTIONTESTUTIL_H
