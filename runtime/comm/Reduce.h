//===- Reduce.h - Elementwise reduction of several buffers ------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_COMM_REDUCE_H
#define MIXLE_RUNTIME_COMM_REDUCE_H

#include "runtime/comm/Communicator.h"

namespace mixle::runtime {

/// out[i] = sources[0][i] op sources[1][i] op ..., left to right, for i <
/// count. `sourceCount` is at least one, (type, op) is reducible; `out` may be
/// one of the sources but overlap none otherwise. Integer sums wrap.
void reduce(void *out, const void *const *sources, int sourceCount,
            int64_t count, DataType type, ReduceOp op);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_COMM_REDUCE_H
