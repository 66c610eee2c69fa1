//===- LibxsmmBench.cpp - The peer of the microkernels --------------------===//
//
// libxsmm is column-major: its m is our columns, its n our rows.
//
//===----------------------------------------------------------------------===//

#include "Bench.h"

#include <cmath>
#include <cstring>
#include <libxsmm.h>

namespace mixle::bench {

namespace {

libxsmm_smmfunction dispatch(int64_t panel, int64_t rows, int64_t k,
                             int64_t ldOut) {
  const libxsmm_blasint lda = panel, ldb = k, ldc = ldOut;
  const float alpha = 1, beta = 0;
  const int flags = LIBXSMM_GEMM_FLAG_NONE;
  return libxsmm_smmdispatch(panel, rows, k, &lda, &ldb, &ldc, &alpha, &beta,
                             &flags, nullptr);
}

} // namespace

double libxsmmRate(int64_t m, int64_t n, int64_t k, int64_t panel,
                   int64_t tileRows) {
  const libxsmm_smmfunction kernel = dispatch(panel, tileRows, k, n);
  if (!kernel || n % panel || m % tileRows)
    return 0;
  const std::vector<float> a = randomValues<float>(m * k);
  const std::vector<float> b = randomValues<float>(k * n);
  std::vector<float> c(m * n);
  const double seconds = shortest([&] {
    for (int64_t i = 0; i < m; i += tileRows)
      for (int64_t j = 0; j < n; j += panel)
        kernel(b.data() + j * k, a.data() + i * k, c.data() + i * n + j);
  });
  return 2e-9 * double(m) * double(n) * double(k) / seconds;
}

void libxsmmChains(int64_t panel, int64_t &chains, int64_t &shapes) {
  chains = shapes = 0;
  for (int64_t rows = 1; rows <= 8; ++rows)
    for (int64_t k = 1; k <= 300; k += k < 20 ? 1 : 7) {
      const libxsmm_smmfunction kernel = dispatch(panel, rows, k, panel);
      if (!kernel)
        continue;
      const std::vector<float> a = randomValues<float>(rows * k);
      const std::vector<float> b = randomValues<float>(k * panel);
      std::vector<float> c(rows * panel);
      kernel(b.data(), a.data(), c.data());
      bool chain = true;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < panel; ++j) {
          float sum = 0;
          for (int64_t p = 0; p < k; ++p)
            sum = std::fma(a[i * k + p], b[p * panel + j], sum);
          chain = chain && std::memcmp(&sum, &c[i * panel + j], 4) == 0;
        }
      ++shapes;
      chains += chain;
    }
}

} // namespace mixle::bench
