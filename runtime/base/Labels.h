//===- Labels.h - Targets of a loss -----------------------------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_BASE_LABELS_H
#define MIXLE_RUNTIME_BASE_LABELS_H

#include <cstdint>

namespace mixle::runtime {

/// The label of a position that takes no part in the loss.
constexpr int32_t ignoredLabel = -100;

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_BASE_LABELS_H
