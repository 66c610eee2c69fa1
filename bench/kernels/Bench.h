//===- Bench.h - Timing of kernels ------------------------------*- C++ -*-===//

#ifndef MIXLE_BENCH_KERNELS_BENCH_H
#define MIXLE_BENCH_KERNELS_BENCH_H

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <random>
#include <vector>

namespace mixle::bench {

/// CPU time of this thread: other processes' turns do not count.
inline double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// The shortest of several calls, in seconds.
template <typename Function> double shortest(Function function) {
  double best = 1e30;
  const double start = now();
  for (int i = 0; i < 200 && (i < 5 || now() - start < 0.3); ++i) {
    const double before = now();
    function();
    best = std::min(best, now() - before);
  }
  return best;
}

template <typename T> std::vector<T> randomValues(int64_t count) {
  std::mt19937 engine(7);
  std::vector<T> values(count);
  for (T &x : values)
    x = static_cast<T>(static_cast<double>(engine()) * 0x1p-32 - 0.5);
  return values;
}

/// GFLOP/s of libxsmm's kernels on C[M,N] = A[M,K] B[K,N] with B packed in
/// advance into panels of `panel` columns, or 0 where it makes no such kernel.
double libxsmmRate(int64_t m, int64_t n, int64_t k, int64_t panel,
                   int64_t tileRows);

/// How many of the shapes with up to 8 rows and chains of up to 300 give each
/// element as one FMA chain; and of how many.
void libxsmmChains(int64_t panel, int64_t &chains, int64_t &shapes);

} // namespace mixle::bench

#endif // MIXLE_BENCH_KERNELS_BENCH_H
