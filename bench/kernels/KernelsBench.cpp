//===- KernelsBench.cpp - Rates of the runtime's kernels ------------------===//
//
// Prints GFLOP/s on one core, next to the core's own peak and, where it is
// installed, libxsmm. Rates are by CPU time, the best of several calls.
//
//===----------------------------------------------------------------------===//

#include "Bench.h"
#include "runtime/kernels/Accumulate.h"
#include "runtime/kernels/ExactSum.h"
#include "runtime/kernels/Gemm.h"
#include "runtime/kernels/Math.h"

#include <cstdio>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace mixle::bench;
using namespace mixle::runtime;

namespace {

#if defined(__x86_64__)
/// GFLOP/s of independent fp32 FMAs in registers.
__attribute__((target("avx2,fma"))) double peakAvx2() {
  __m256 sums[12];
  for (int i = 0; i < 12; ++i)
    sums[i] = _mm256_set1_ps(float(i));
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  constexpr int64_t rounds = 1000000;
  double best = 1e30;
  for (int r = 0; r < 20; ++r) {
    const double before = now();
    for (int64_t k = 0; k < rounds; ++k)
#pragma GCC unroll 12
      for (int i = 0; i < 12; ++i)
        sums[i] = _mm256_fmadd_ps(sums[i], x, y);
    best = std::min(best, now() - before);
  }
  float total = 0;
  for (int i = 0; i < 12; ++i)
    total += _mm256_cvtss_f32(sums[i]);
  volatile float sink = total;
  (void)sink;
  return 2e-9 * 8 * 12 * rounds / best;
}
#endif

template <typename T>
double dotRate(int64_t m, int64_t n, int64_t k, int64_t granules,
               bool transposeB) {
  const std::vector<T> a = randomValues<T>(m * k), b = randomValues<T>(k * n);
  std::vector<T> c(m * n);
  Contraction contraction;
  contraction.length = k;
  contraction.granules = contraction.ownedGranules = granules;
  contraction.granuleSize = (k + granules - 1) / granules;
  Workspace workspace;
  const double seconds = shortest([&] {
    dotTree<T>(contraction, m, n, a.data(), k, b.data(), transposeB ? k : n,
               transposeB, c.data(), n, 0, workspace);
  });
  return 2e-9 * double(m) * double(n) * double(k) / seconds;
}

template <typename T>
double accumulateRate(int64_t tokens, int64_t k, int64_t n, int64_t block) {
  const std::vector<T> x = randomValues<T>(tokens * k);
  const std::vector<T> y = randomValues<T>(tokens * n);
  std::vector<int64_t> high(k * n), low(sizeof(T) == 8 ? k * n : 0);
  BitsOf<T> amax = 0;
  const Accumulator<T> accumulator = {
      high.data(), low.empty() ? nullptr : low.data(), 30, &amax};
  Workspace workspace;
  const double seconds = shortest([&] {
    accumulateDot<T>({tokens / 256, 256, block}, k, n, x.data(), k, y.data(), n,
                     accumulator, n, workspace);
  });
  return 2e-9 * double(tokens) * double(k) * double(n) / seconds;
}

template <typename Function> double functionRate(Function function) {
  const std::vector<double> x = randomValues<double>(4096);
  std::vector<double> y(x.size());
  return 1e-6 * double(x.size()) / shortest([&] { function(x, y); });
}

#if defined(__x86_64__)
#define MIXLE_FUNCTION_RATE(name)                                              \
  struct Rate_##name {                                                         \
    __attribute__((target("avx2,fma"), optimize("O3"))) static void            \
    run(const std::vector<double> &x, std::vector<double> &y) {                \
      const double *from = x.data();                                           \
      double *to = y.data();                                                   \
      for (int64_t i = 0; i < 4096; ++i)                                       \
        to[i] = mixle::math::name(from[i]);                                    \
    }                                                                          \
  }
MIXLE_FUNCTION_RATE(exp);
MIXLE_FUNCTION_RATE(log1p);
MIXLE_FUNCTION_RATE(tanh);
MIXLE_FUNCTION_RATE(erf);
MIXLE_FUNCTION_RATE(sin);
#endif

} // namespace

int main() {
  std::printf("instruction set: %s\n", isaName(bestIsa()));
#if defined(__x86_64__)
  if (isSupported(Isa::avx2))
    std::printf("fp32 FMA peak with AVX2: %.1f GFLOP/s\n", peakAvx2());
#endif

  std::printf(
      "\ndotTree, GFLOP/s      |  fp32, granules             | fp32 B^T "
      "| fp64, granules\n"
      "    M    N    K       |    1      2      4      8   |    1     "
      "|    1      4\n");
  const int64_t products[][3] = {
      {2048, 384, 128},  {2048, 128, 128}, {2048, 512, 128}, {2048, 128, 384},
      {2048, 128, 512},  {2048, 512, 512}, {2048, 384, 384}, {2048, 1536, 384},
      {2048, 384, 1536}, {256, 512, 128},  {32, 512, 128}};
  for (const auto &p : products) {
    std::printf("%5d %4d %4d       |", int(p[0]), int(p[1]), int(p[2]));
    for (int64_t granules : {1, 2, 4, 8})
      std::printf(" %5.1f ", dotRate<float>(p[0], p[1], p[2], granules, false));
    std::printf("|  %5.1f   | %5.1f  %5.1f\n",
                dotRate<float>(p[0], p[1], p[2], 1, true),
                dotRate<double>(p[0], p[1], p[2], 1, false),
                dotRate<double>(p[0], p[1], p[2], 4, false));
  }

#ifdef MIXLE_HAVE_LIBXSMM
  std::printf("\nlibxsmm, GFLOP/s, B packed in advance (M 2048)\n"
              "  columns x rows of a tile: 16x6     16x64    32x64    48x64    "
              "64x64\n");
  for (const auto &p : products) {
    if (p[0] != 2048)
      continue;
    std::printf("    N %4d K %4d          ", int(p[1]), int(p[2]));
    std::printf(" %5.1f ", libxsmmRate(2046, p[1], p[2], 16, 6));
    for (int64_t panel : {16, 32, 48, 64})
      std::printf("   %5.1f ", libxsmmRate(p[0], p[1], p[2], panel, 64));
    std::printf("\n");
  }
  for (int64_t panel : {8, 16, 24, 32, 48, 64, 80}) {
    int64_t chains, shapes;
    libxsmmChains(panel, chains, shapes);
    std::printf("  %2d columns: %d of %d shapes are chains\n", int(panel),
                int(chains), int(shapes));
  }
#endif

  std::printf("\naccumulateDot, GFLOP/s | fp32, block                 | fp64, "
              "block\n"
              "tokens    K    N       |   32     64    128    256   |   64    "
              "128\n");
  const int64_t sums[][3] = {{2048, 128, 384},
                             {2048, 128, 512},
                             {2048, 512, 128},
                             {2048, 384, 384},
                             {2048, 384, 1536}};
  for (const auto &s : sums) {
    std::printf("%5d %5d %4d       |", int(s[0]), int(s[1]), int(s[2]));
    for (int64_t block : {32, 64, 128, 256})
      std::printf(" %5.1f ", accumulateRate<float>(s[0], s[1], s[2], block));
    std::printf("|");
    for (int64_t block : {64, 128})
      std::printf(" %5.1f ", accumulateRate<double>(s[0], s[1], s[2], block));
    std::printf("\n");
  }

  const std::vector<float> values = randomValues<float>(1 << 20);
  std::vector<int64_t> limbs(ExactSum::limbCount);
  ExactSum sum(limbs.data());
  sum.clear();
  std::printf("\nexact squares of floats: %.0f M/s; of doubles: ",
              1e-6 * double(values.size()) / shortest([&] {
                sum.addSquares(values.data(), int64_t(values.size()));
              }));
  const std::vector<double> doubles(values.begin(), values.end());
  std::printf("%.0f M/s\n", 1e-6 * double(doubles.size()) / shortest([&] {
                              sum.addSquares(doubles.data(),
                                             int64_t(doubles.size()));
                            }));
  std::vector<int64_t> rows(512);
  uint32_t amax = 0;
  std::printf("accumulateRows, 2048 x 512 floats: %.0f M/s\n",
              1e-6 * double(values.size()) / shortest([&] {
                accumulateRows<float>(2048, 512, values.data(), 512,
                                      {rows.data(), nullptr, 30, &amax});
              }));
#if defined(__x86_64__)
  if (isSupported(Isa::avx2))
    std::printf("doubles with AVX2, M/s: exp %.0f, log1p %.0f, tanh %.0f, erf "
                "%.0f, sin %.0f\n",
                functionRate(Rate_exp::run), functionRate(Rate_log1p::run),
                functionRate(Rate_tanh::run), functionRate(Rate_erf::run),
                functionRate(Rate_sin::run));
#endif
}
