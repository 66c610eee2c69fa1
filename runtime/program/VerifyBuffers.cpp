//===- VerifyBuffers.cpp - Sizes and places of buffers --------------------===//

#include "runtime/executor/ParameterLayout.h"
#include "runtime/program/Names.h"
#include "runtime/program/Verifier.h"

#include <algorithm>
#include <set>

namespace mixle::runtime {

static constexpr int64_t arenaAlignment = 64;
/// Elements of one buffer, rows of one iteration: far beyond any machine, and
/// small enough that bytes fit in 64 bits.
static constexpr int64_t maxElements = int64_t(1) << 48;
static constexpr int64_t maxRowsLimit = int64_t(1) << 40;
static constexpr int32_t maxSlots = 1 << 16;

namespace {
enum class Arena { None, Scratch, Persistent };

Arena arenaOf(fb::BufferKind kind) {
  switch (kind) {
  case fb::BufferKind::Scratch:
    return Arena::Scratch;
  case fb::BufferKind::Parameter:
  case fb::BufferKind::State:
  case fb::BufferKind::Accumulator:
  case fb::BufferKind::Output: // outlives the commands that made it
    return Arena::Persistent;
  case fb::BufferKind::Input:
    break;
  }
  return Arena::None;
}

/// Bytes of a buffer within its arena.
struct Place {
  int64_t begin;
  int64_t end;
  const fb::BufferT *buffer;
};
} // namespace

/// What a buffer holds: the parameter's part, with the size that follows.
static Status verifyContent(const VerifierState &state,
                            const fb::RankClassT &body,
                            const fb::BufferT &buffer) {
  bool isParameter = buffer.kind == fb::BufferKind::Parameter;
  bool isState = buffer.kind == fb::BufferKind::State;
  int64_t count = static_cast<int64_t>(state.program.parameters.size());
  if (buffer.parameter < -1 || buffer.parameter >= count)
    return Status::error("it belongs to parameter " +
                         std::to_string(buffer.parameter) +
                         ", but the program has " + std::to_string(count));
  if (isParameter && buffer.parameter < 0)
    return Status::error("it is a parameter's, but does not say whose");
  if (isParameter && !buffer.slot.empty())
    return Status::error("it is a parameter, but has the slot '" + buffer.slot +
                         "'");
  if ((isParameter || isState) && buffer.per_row != 0)
    return Status::error("it is persistent, but its size depends on rows");
  if (buffer.parameter < 0 || !(isParameter || isState))
    return Status::success();
  const fb::ParameterT &parameter =
      *state.program.parameters[static_cast<size_t>(buffer.parameter)];
  WorkerCoordinate worker;
  worker.coordinate[static_cast<size_t>(ParallelAxis::Pp)] =
      std::max(body.stage, 0);
  if (!holdsPart(parameter, worker))
    return Status::error("stage " + std::to_string(body.stage) +
                         " does not hold parameter '" + parameter.logical_id +
                         "'");
  if (isState && buffer.slot.empty())
    return Status::error("it is state of parameter '" + parameter.logical_id +
                         "', but has no slot");
  if (isParameter && buffer.dtype != parameter.dtype)
    return Status::error("it holds " + nameOf(buffer.dtype) +
                         ", but parameter '" + parameter.logical_id +
                         "' is of " + nameOf(parameter.dtype));
  if (buffer.fixed != heldElements(parameter))
    return Status::error("it holds " + std::to_string(buffer.fixed) +
                         " elements, but a rank's part of parameter '" +
                         parameter.logical_id + "' has " +
                         std::to_string(heldElements(parameter)));
  return Status::success();
}

static Status verifyBuffer(const VerifierState &state,
                           const fb::RankClassT &body,
                           const fb::BufferT &buffer,
                           std::vector<Place> *places) {
  if (!isEnumValue(buffer.kind) || !isEnumValue(buffer.dtype))
    return Status::error("its kind (" + nameOf(buffer.kind) + ") or type (" +
                         nameOf(buffer.dtype) + ") is unknown");
  int64_t rowElements, elements;
  if (buffer.fixed < 0 || buffer.per_row < 0 ||
      __builtin_mul_overflow(buffer.per_row, body.max_rows, &rowElements) ||
      __builtin_add_overflow(buffer.fixed, rowElements, &elements) ||
      elements > maxElements)
    return Status::error("its size, " + std::to_string(buffer.fixed) + " + " +
                         std::to_string(buffer.per_row) + " x " +
                         std::to_string(body.max_rows) +
                         " rows, is negative or too large");
  if (buffer.slots < 1 || buffer.slots > maxSlots ||
      (buffer.slots > 1 && buffer.kind != fb::BufferKind::Scratch))
    return Status::error("it has " + std::to_string(buffer.slots) +
                         " copies; scratch buffers have 1 to " +
                         std::to_string(maxSlots) + ", all others 1");
  int64_t bytes = elements * sizeOf(buffer.dtype), others = 0;
  if (buffer.slots > 1 &&
      (buffer.slot_stride < bytes || buffer.slot_stride % arenaAlignment != 0 ||
       __builtin_mul_overflow(buffer.slot_stride, buffer.slots - 1, &others) ||
       others > maxElements))
    return Status::error("its copies are " +
                         std::to_string(buffer.slot_stride) +
                         " bytes apart, but each has " + std::to_string(bytes));
  bytes += others;
  Arena arena = arenaOf(buffer.kind);
  if (arena == Arena::None) {
    if (buffer.offset != -1)
      return Status::error("it is an input, bound by the caller, but has the "
                           "offset " +
                           std::to_string(buffer.offset));
    if (buffer.fixed != 0 && buffer.per_row != 0)
      return Status::error("it is an input of rows and of a fixed part; "
                           "expected one of them");
  } else {
    bool persistent = arena == Arena::Persistent;
    int64_t arenaBytes =
        persistent ? body.persistent_bytes : body.scratch_bytes;
    if (buffer.offset < 0 || buffer.offset % arenaAlignment != 0 ||
        buffer.offset > arenaBytes || bytes > arenaBytes - buffer.offset)
      return Status::error(
          "its " + std::to_string(bytes) + " bytes at offset " +
          std::to_string(buffer.offset) + " are not within the " +
          (persistent ? "persistent" : "scratch") + " arena of " +
          std::to_string(arenaBytes) + " bytes, or not at a multiple of " +
          std::to_string(arenaAlignment));
    places[persistent].push_back(
        {buffer.offset, buffer.offset + bytes, &buffer});
  }
  return verifyContent(state, body, buffer);
}

/// An arena that is larger than its buffers would only waste memory: a damaged
/// size must not allocate.
static Status verifyArena(const char *name, int64_t bytes,
                          const std::vector<Place> &places) {
  int64_t end = 0;
  for (const Place &place : places)
    end = std::max(end, place.end);
  if (bytes < 0 || bytes - end >= arenaAlignment)
    return Status::error("its " + std::string(name) + " arena has " +
                         std::to_string(bytes) +
                         " bytes, but its buffers end "
                         "at " +
                         std::to_string(end));
  return Status::success();
}

static Status verifyNoOverlap(std::vector<Place> &places) {
  std::sort(places.begin(), places.end(), [](const Place &a, const Place &b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  const Place *last = nullptr;
  for (const Place &place : places) {
    if (place.begin == place.end)
      continue;
    if (last && place.begin < last->end)
      return Status::error("persistent buffers '" + last->buffer->name +
                           "' and '" + place.buffer->name + "' overlap");
    last = &place;
  }
  return Status::success();
}

Status verifyBuffers(const VerifierState &state, const fb::RankClassT &body) {
  if (body.max_rows < 1 || body.max_rows > maxRowsLimit)
    return Status::error("its max_rows is " + std::to_string(body.max_rows) +
                         "; expected 1 to " + std::to_string(maxRowsLimit));
  std::vector<Place> places[2];
  std::set<std::string> names;
  std::set<std::pair<int32_t, std::string>> slots;
  size_t parameterBuffers = 0;
  for (const auto &buffer : body.buffers) {
    const std::string what = "buffer '" + buffer->name + "'";
    if (buffer->name.empty() || !names.insert(buffer->name).second)
      return Status::error(what + ": its name is empty or another buffer's");
    MIXLE_RETURN_IF_ERROR(
        verifyBuffer(state, body, *buffer, places).withContext(what));
    bool isParameter = buffer->kind == fb::BufferKind::Parameter;
    if (!isParameter && buffer->kind != fb::BufferKind::State)
      continue;
    parameterBuffers += isParameter;
    const std::string &slot = buffer->parameter < 0 && buffer->slot.empty()
                                  ? buffer->name
                                  : buffer->slot;
    if (!slots.emplace(buffer->parameter, slot).second)
      return Status::error(what + ": another buffer holds the same slot '" +
                           slot + "'");
  }
  WorkerCoordinate worker;
  worker.coordinate[static_cast<size_t>(ParallelAxis::Pp)] =
      std::max(body.stage, 0);
  size_t held = 0;
  for (const auto &parameter : state.program.parameters)
    held += holdsPart(*parameter, worker);
  if (parameterBuffers != held)
    return Status::error("it has " + std::to_string(held) +
                         " parameters, but buffers for " +
                         std::to_string(parameterBuffers));
  MIXLE_RETURN_IF_ERROR(verifyArena("scratch", body.scratch_bytes, places[0]));
  MIXLE_RETURN_IF_ERROR(
      verifyArena("persistent", body.persistent_bytes, places[1]));
  return verifyNoOverlap(places[1]);
}

} // namespace mixle::runtime
