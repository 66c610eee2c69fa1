//===- TestKernels.cpp - Kernels of a hand-made code object ---------------===//

#include <cstdint>

/// out[i] = in[i] + scalars[1] for the scalars[0] rows of four.
extern "C" void test_add(void *const *buffers, const int64_t *scalars) {
  const float *in = static_cast<const float *>(buffers[0]);
  float *out = static_cast<float *>(buffers[1]);
  for (int64_t i = 0; i < scalars[0] * 4; ++i)
    out[i] = in[i] + static_cast<float>(scalars[1]);
}

/// sum[0] += scalars[1] for each of scalars[0] rows; rows[0] += 1.
extern "C" void test_count(void *const *buffers, const int64_t *scalars) {
  *static_cast<int64_t *>(buffers[0]) += scalars[0] * scalars[1];
  *static_cast<int64_t *>(buffers[1]) += 1;
}

/// out[0] = the smallest normal number halved: 0 where subnormals are flushed.
extern "C" void test_subnormal(void *const *buffers, const int64_t *) {
  volatile float smallest = 1.17549435e-38f;
  *static_cast<float *>(buffers[0]) = smallest * 0.5f;
}
