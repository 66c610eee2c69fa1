//===- Select.cpp - Values that one rank owns -----------------------------===//

#include "runtime/kernels/Select.h"

#include <cstring>

namespace mixle::runtime {

template <typename T>
void gatherRows(int64_t tokens, int64_t columns, const int32_t *ids,
                int64_t firstRow, int64_t rows, const T *table, int64_t ldTable,
                T *out, int64_t ldOut) {
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t row = ids[t] - firstRow;
    if (row >= 0 && row < rows)
      std::memcpy(out + t * ldOut, table + row * ldTable, columns * sizeof(T));
    else
      std::memset(static_cast<void *>(out + t * ldOut), 0, columns * sizeof(T));
  }
}

template <typename T>
void selectLabel(int64_t tokens, const int32_t *labels, int64_t firstColumn,
                 int64_t columns, const T *logits, int64_t ldLogits, T *out) {
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t column = labels[t] - firstColumn;
    if (labels[t] != ignoredLabel && column >= 0 && column < columns)
      std::memcpy(out + t, logits + t * ldLogits + column, sizeof(T));
    else
      std::memset(static_cast<void *>(out + t), 0, sizeof(T));
  }
}

#define MIXLE_INSTANTIATE(T)                                                   \
  template void gatherRows<T>(int64_t, int64_t, const int32_t *, int64_t,      \
                              int64_t, const T *, int64_t, T *, int64_t);      \
  template void selectLabel<T>(int64_t, const int32_t *, int64_t, int64_t,     \
                               const T *, int64_t, T *);
MIXLE_INSTANTIATE(float)
MIXLE_INSTANTIATE(double)
#undef MIXLE_INSTANTIATE

} // namespace mixle::runtime
