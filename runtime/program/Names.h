//===- Names.h - Names of the program file's enums --------------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_PROGRAM_NAMES_H
#define MIXLE_RUNTIME_PROGRAM_NAMES_H

#include "runtime/schema/program_generated.h"

#include <cstdint>
#include <string>

namespace mixle::runtime {

/// Whether a value read from a file is one of its enum's.
template <typename Enum> bool isEnumValue(Enum value) {
  return value >= Enum::MIN && value <= Enum::MAX;
}

/// The names that the tools use: "f32", "dp_replicate", "all_reduce", ... The
/// number in decimal for what is no value of the enum.
std::string nameOf(fb::DataType type);
std::string nameOf(fb::Axis axis);
std::string nameOf(fb::Payload payload);
std::string nameOf(fb::Collective collective);
std::string nameOf(fb::Layout layout);
std::string nameOf(fb::Order order);
std::string nameOf(fb::Combine combine);
std::string nameOf(fb::ScalarKind kind);
std::string nameOf(fb::BufferKind kind);
std::string nameOf(fb::InitKind kind);
std::string nameOf(fb::CommandKind kind);

/// Bytes of one element of a valid type.
int64_t sizeOf(fb::DataType type);

/// "call accumulate_dot_f32", "loop": what a command is, for messages.
std::string describeCommand(const fb::CommandT &command);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_PROGRAM_NAMES_H
