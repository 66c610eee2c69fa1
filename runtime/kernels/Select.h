//===- Select.h - Values that one rank owns ---------------------*- C++ -*-===//
//
// Rows and elements of a sharded tensor that exactly one rank holds. The others
// write zero bits, so that the exchange adds integers and every bit pattern, -0
// and NaN included, arrives as it was.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_KERNELS_SELECT_H
#define MIXLE_RUNTIME_KERNELS_SELECT_H

#include "runtime/base/Labels.h"

#include <cstdint>

namespace mixle::runtime {

/// out[t, :] = table[ids[t] - firstRow, :] where the id is among the `rows`
/// rows held, else zero bits. Leading dimensions in elements.
template <typename T>
void gatherRows(int64_t tokens, int64_t columns, const int32_t *ids,
                int64_t firstRow, int64_t rows, const T *table, int64_t ldTable,
                T *out, int64_t ldOut);

/// out[t] = logits[t, labels[t] - firstColumn] where the label is among the
/// `columns` held, else zero bits; so for ignored labels.
template <typename T>
void selectLabel(int64_t tokens, const int32_t *labels, int64_t firstColumn,
                 int64_t columns, const T *logits, int64_t ldLogits, T *out);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_KERNELS_SELECT_H
