//===- AttentionBench.cpp - Speed of attention on one core ----------------===//
//
// Prints GFLOP/s of the forward and backward pass: 4 (10) operations for each
// visible query-key pair and element of a head. The best of several runs.
//
//===----------------------------------------------------------------------===//

#include "runtime/kernels/Attention.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

using namespace mixle::runtime;

namespace {

template <class F> double bestSeconds(F run) {
  double best = 1e30, total = 0;
  for (int i = 0; i < 2000 && (total < 0.4 || i < 3); ++i) {
    auto start = std::chrono::steady_clock::now();
    run();
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
    total += took.count();
  }
  return best;
}

template <typename T> void measure(const char *type, const AttentionShape &s) {
  size_t size = size_t(s.rows * s.tokens * s.heads * s.headDim);
  size_t stats = size_t(s.rows * s.tokens * s.heads);
  std::vector<T> qkv(3 * size), dqkv(3 * size), o(size), dO(size), l(stats);
  std::vector<int32_t> m(stats);
  std::mt19937 engine(1);
  std::normal_distribution<T> normal;
  for (std::vector<T> *x : {&qkv, &dO})
    for (T &y : *x)
      y = normal(engine);
  T scale = T(1 / std::sqrt(double(s.headDim)));
  Workspace workspace;
  auto forward = packedAttentionForward(s, scale, qkv.data(), o.data(),
                                        m.data(), l.data());
  auto backward =
      packedAttentionBackward(s, scale, qkv.data(), o.data(), dO.data(),
                              m.data(), l.data(), dqkv.data());
  bool ok = true;
  double a =
      bestSeconds([&] { ok &= attentionForward(forward, workspace).ok(); });
  double b =
      bestSeconds([&] { ok &= attentionBackward(backward, workspace).ok(); });
  double pairs = s.causal ? double(s.tokens) * double(s.tokens + 1) / 2
                          : double(s.tokens) * double(s.tokens);
  double work = double(s.rows * s.heads * s.headDim) * pairs * 1e-9;
  std::printf("%s rows %ld tokens %4ld heads %ld headDim %3ld granules %ld: "
              "forward %6.1f GFLOP/s (%8.1f us), backward %6.1f GFLOP/s "
              "(%8.1f us)%s\n",
              type, long(s.rows), long(s.tokens), long(s.heads),
              long(s.headDim), long(s.keyGranules), 4 * work / a, a * 1e6,
              10 * work / b, b * 1e6, ok ? "" : " FAILED");
}

} // namespace

int main() {
  for (int64_t granules : {1, 2, 4, 8}) {
    measure<float>("fp32", {8, 128, 4, 4, 32, granules, true});
    measure<float>("fp32", {16, 64, 6, 6, 16, granules, true});
    measure<float>("fp32", {4, 256, 4, 4, 64, granules, true});
  }
  measure<float>("fp32", {1, 1024, 4, 4, 64, 1, true});
  measure<float>("fp32", {1, 2048, 2, 2, 128, 8, true});
  measure<double>("fp64", {8, 128, 4, 4, 32, 1, true});
  measure<double>("fp64", {4, 256, 4, 4, 64, 1, true});
  return 0;
}
