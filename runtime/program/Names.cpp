//===- Names.cpp - Names of the program file's enums ----------------------===//

#include "runtime/program/Names.h"

namespace mixle::runtime {

namespace {
template <typename Enum, size_t n>
std::string pick(const char *const (&names)[n], Enum value) {
  static_assert(static_cast<size_t>(Enum::MAX) + 1 == n,
                "one name for every value");
  return isEnumValue(value) ? names[static_cast<size_t>(value)]
                            : std::to_string(static_cast<int>(value));
}
} // namespace

std::string nameOf(fb::DataType type) {
  static const char *const names[] = {"f32", "f64", "i32", "i64",
                                      "u32", "u64", "i8"};
  return pick(names, type);
}
std::string nameOf(fb::Axis axis) {
  static const char *const names[] = {"dp_replicate", "dp_shard", "tp", "pp",
                                      "cp"};
  return pick(names, axis);
}
std::string nameOf(fb::Payload payload) {
  static const char *const names[] = {"gradient",  "sufficient_statistic",
                                      "parameter", "activation",
                                      "kv_block",  "token",
                                      "message"};
  return pick(names, payload);
}
std::string nameOf(fb::Collective collective) {
  static const char *const names[] = {
      "none",      "all_reduce", "reduce_scatter", "all_gather", "all_to_all",
      "broadcast", "p2p",        "custom"};
  return pick(names, collective);
}
std::string nameOf(fb::Layout layout) {
  static const char *const names[] = {"replicated", "sharded", "pipeline_local",
                                      "expert_local", "offloaded"};
  return pick(names, layout);
}
std::string nameOf(fb::Order order) {
  static const char *const names[] = {"integer", "tree", "any", "copy"};
  return pick(names, order);
}
std::string nameOf(fb::Combine combine) {
  static const char *const names[] = {"sum", "max", "min", "bit_or"};
  return pick(names, combine);
}
std::string nameOf(fb::ScalarKind kind) {
  static const char *const names[] = {"constant", "rows",      "offset",
                                      "owned",    "row_start", "coordinate"};
  return pick(names, kind);
}
std::string nameOf(fb::BufferKind kind) {
  static const char *const names[] = {"scratch",     "parameter", "state",
                                      "accumulator", "input",     "output"};
  return pick(names, kind);
}
std::string nameOf(fb::InitKind kind) {
  static const char *const names[] = {"constant", "normal", "uniform"};
  return pick(names, kind);
}
std::string nameOf(fb::CommandKind kind) {
  static const char *const names[] = {"launch", "call",     "collective",
                                      "copy",   "fill",     "loop",
                                      "retry",  "commit_if", "send",
                                      "recv",   "schedule", "phase"};
  return pick(names, kind);
}

int64_t sizeOf(fb::DataType type) {
  static const int64_t sizes[] = {4, 8, 4, 8, 4, 8, 1};
  return sizes[static_cast<size_t>(type)];
}

std::string describeCommand(const fb::CommandT &command) {
  std::string text = nameOf(command.kind);
  switch (command.kind) {
  case fb::CommandKind::Launch:
  case fb::CommandKind::Call:
  case fb::CommandKind::Phase:
    return text + " " + command.name;
  case fb::CommandKind::Collective:
    return command.name;
  default:
    return text;
  }
}

} // namespace mixle::runtime
