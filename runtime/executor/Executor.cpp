//===- Executor.cpp - One rank's program and its state --------------------===//

#include "runtime/executor/Executor.h"
#include "runtime/executor/ExecutorImpl.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/executor/ThreadRanks.h"
#include "runtime/program/Names.h"

#include <cstring>

namespace mixle::runtime {

Status runOnThreads(int worldSize,
                    const std::function<Status(int, Communicator &)> &body,
                    const ThreadWorldOptions &options) {
  MIXLE_ASSIGN_OR_RETURN(std::shared_ptr<ThreadWorld> world,
                         ThreadWorld::create(worldSize, options));
  return world->run([&body](Communicator &communicator) {
    return body(communicator.rank(), communicator);
  });
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

BufferView RankExecutor::Impl::viewOf(size_t index) const {
  const fb::BufferT &buffer = *body.buffers[index];
  return {storage(index), buffer.dtype,
          buffer.fixed + buffer.per_row * body.max_rows};
}

/// The slot of a parameter's buffer; a state's name.
static const std::string &slotOf(const fb::BufferT &buffer) {
  return buffer.parameter < 0 && buffer.slot.empty() ? buffer.name
                                                     : buffer.slot;
}

static bool isPersistentState(const fb::BufferT &buffer) {
  return buffer.kind == fb::BufferKind::Parameter ||
         buffer.kind == fb::BufferKind::State;
}

int64_t RankExecutor::Impl::findPersistent(int64_t parameter,
                                           std::string_view slot) const {
  for (size_t i = 0; i < body.buffers.size(); ++i) {
    const fb::BufferT &buffer = *body.buffers[i];
    if (isPersistentState(buffer) && buffer.parameter == parameter &&
        slotOf(buffer) == slot)
      return static_cast<int64_t>(i);
  }
  return -1;
}

Status RankExecutor::Impl::forEachRangeOf(size_t index, std::string_view slot,
                                          bool ownedOnly,
                                          const RangeCallback &callback) const {
  if (index >= program.parameters.size())
    return Status::error("parameter " + std::to_string(index) + " of " +
                         std::to_string(program.parameters.size()));
  const fb::ParameterT &parameter = *program.parameters[index];
  if (!holdsPart(parameter, rank.coordinate))
    return Status::success();
  int64_t buffer = findPersistent(static_cast<int64_t>(index), slot);
  if (buffer < 0)
    return Status::error("parameter '" + parameter.logical_id +
                         "' has no slot '" + std::string(slot) + "'");
  if (ownedOnly && !ownsPart(parameter, loaded->plan, rank.coordinate))
    return Status::success();
  char *data = storage(static_cast<size_t>(buffer));
  int64_t size =
      mixle::runtime::sizeOf(body.buffers[static_cast<size_t>(buffer)]->dtype);
  return forEachRange(
      parameter, loaded->plan, rank.coordinate,
      [&](int64_t globalStart, int64_t localStart, int64_t count) {
        return callback({globalStart, count, data + localStart * size});
      });
}

//===----------------------------------------------------------------------===//
// The public face
//===----------------------------------------------------------------------===//

RankExecutor::RankExecutor(std::unique_ptr<Impl> impl)
    : impl(std::move(impl)) {}

RankExecutor::~RankExecutor() = default;

Expected<std::unique_ptr<RankExecutor>>
RankExecutor::create(std::shared_ptr<const LoadedProgram> program,
                     Communicator &communicator,
                     const ExecutorOptions &options) {
  auto impl = std::make_unique<Impl>(std::move(program), communicator);
  const std::string context = "program '" + impl->loaded->path + "'";
  MIXLE_RETURN_IF_ERROR(impl->initialize(options).withContext(context));
  return std::unique_ptr<RankExecutor>(new RankExecutor(std::move(impl)));
}

Expected<EntryResult>
RankExecutor::run(std::string_view entry, const EntryInputs &inputs,
                  const std::function<Status()> &reaccumulate) {
  return impl->run(entry, inputs, reaccumulate);
}

Expected<BufferView> RankExecutor::output(std::string_view entryName,
                                          std::string_view role) const {
  const fb::EntryT *entry = nullptr;
  for (const auto &candidate : impl->body.entries)
    if (candidate->name == entryName)
      entry = candidate.get();
  if (!entry)
    return Status::error("the program has no entry '" + std::string(entryName) +
                         "'");
  for (const auto &binding : entry->outputs)
    if (binding->role == role)
      return impl->viewOf(binding->buffer);
  return Status::error("entry '" + std::string(entryName) +
                       "' has no output '" + std::string(role) + "'");
}

Status RankExecutor::readOutput(std::string_view entry, std::string_view role,
                                void *to, int64_t elements,
                                fb::DataType dtype) const {
  MIXLE_ASSIGN_OR_RETURN(BufferView view, output(entry, role));
  if (view.dtype != dtype || elements < 0 || elements > view.elements)
    return Status::error("output '" + std::string(role) + "' of entry '" +
                         std::string(entry) + "' has " +
                         std::to_string(view.elements) + " elements of " +
                         nameOf(view.dtype) + "; asked for " +
                         std::to_string(elements) + " of " + nameOf(dtype));
  if (elements > 0)
    std::memcpy(to, view.data, elements * mixle::runtime::sizeOf(dtype));
  return Status::success();
}

const LoadedProgram &RankExecutor::program() const { return *impl->loaded; }
const fb::RankClassT &RankExecutor::rankClass() const { return impl->body; }
const WorkerCoordinate &RankExecutor::coordinate() const {
  return impl->rank.coordinate;
}
Communicator &RankExecutor::communicator() const { return impl->communicator; }

size_t RankExecutor::numParameters() const {
  return impl->program.parameters.size();
}
const fb::ParameterT &RankExecutor::parameter(size_t index) const {
  return *impl->program.parameters[index];
}

std::vector<std::string> RankExecutor::slots(size_t index) const {
  std::vector<std::string> result;
  for (const auto &buffer : impl->body.buffers)
    if (isPersistentState(*buffer) &&
        buffer->parameter == static_cast<int64_t>(index)) {
      if (buffer->kind == fb::BufferKind::Parameter)
        result.insert(result.begin(), buffer->slot);
      else
        result.push_back(buffer->slot);
    }
  return result;
}

Expected<BufferView>
RankExecutor::parameterBuffer(size_t index, std::string_view slot) const {
  int64_t buffer = index < numParameters()
                       ? impl->findPersistent(static_cast<int64_t>(index), slot)
                       : -1;
  if (buffer < 0)
    return Status::error("no parameter " + std::to_string(index) +
                         " with slot '" + std::string(slot) + "'");
  return impl->viewOf(static_cast<size_t>(buffer));
}

Expected<BufferView> RankExecutor::stateBuffer(std::string_view name) const {
  int64_t buffer = impl->findPersistent(-1, name);
  if (buffer < 0)
    return Status::error("the program has no state '" + std::string(name) +
                         "'");
  return impl->viewOf(static_cast<size_t>(buffer));
}

std::vector<std::string> RankExecutor::stateNames() const {
  std::vector<std::string> names;
  for (const auto &buffer : impl->body.buffers)
    if (isPersistentState(*buffer) && buffer->parameter < 0)
      names.push_back(slotOf(*buffer));
  return names;
}

Expected<BufferView>
RankExecutor::accumulatorBuffer(std::string_view name) const {
  for (size_t i = 0; i < impl->body.buffers.size(); ++i) {
    const fb::BufferT &buffer = *impl->body.buffers[i];
    if (buffer.kind == fb::BufferKind::Accumulator && buffer.parameter < 0 &&
        buffer.name == name)
      return impl->viewOf(i);
  }
  return Status::error("the program has no accumulator '" + std::string(name) +
                       "'");
}

Status RankExecutor::forEachOwnedRange(size_t index, std::string_view slot,
                                       const RangeCallback &callback) const {
  return impl->forEachRangeOf(index, slot, true, callback);
}
Status RankExecutor::forEachHeldRange(size_t index, std::string_view slot,
                                      const RangeCallback &callback) const {
  return impl->forEachRangeOf(index, slot, false, callback);
}

//===----------------------------------------------------------------------===//
// Digest and counters
//===----------------------------------------------------------------------===//

static void addElements(StateDigest &digest, uint64_t id, uint64_t first,
                        const void *data, int64_t count, fb::DataType dtype) {
  switch (dtype) {
  case fb::DataType::F32:
    return digest.addRange(id, first, static_cast<const float *>(data), count);
  case fb::DataType::F64:
    return digest.addRange(id, first, static_cast<const double *>(data), count);
  case fb::DataType::I32:
  case fb::DataType::U32:
    return digest.addRange(id, first, static_cast<const uint32_t *>(data),
                           count);
  case fb::DataType::I64:
  case fb::DataType::U64:
    return digest.addRange(id, first, static_cast<const uint64_t *>(data),
                           count);
  case fb::DataType::I8:
    for (int64_t i = 0; i < count; ++i)
      digest.add(id, first + static_cast<uint64_t>(i),
                 static_cast<const uint8_t *>(data)[i]);
  }
}

StateDigest RankExecutor::localStateDigest() const {
  StateDigest digest;
  for (size_t i = 0; i < impl->body.buffers.size(); ++i) {
    const fb::BufferT &buffer = *impl->body.buffers[i];
    if (!isPersistentState(buffer))
      continue;
    if (buffer.parameter < 0) {
      // Equal on all ranks: the first one stands for it.
      if (impl->communicator.rank() == 0)
        addElements(digest, logicalIdHash("#" + slotOf(buffer)), 0,
                    impl->storage(i), buffer.fixed, buffer.dtype);
      continue;
    }
    const fb::ParameterT &parameter =
        *impl->program.parameters[static_cast<size_t>(buffer.parameter)];
    std::string id = parameter.logical_id;
    if (!buffer.slot.empty())
      id += "#" + buffer.slot;
    uint64_t hash = logicalIdHash(id);
    // Verified programs have the buffer, and the callback never fails.
    (void)impl->forEachRangeOf(
        static_cast<size_t>(buffer.parameter), buffer.slot, true,
        [&](const ElementRange &range) {
          addElements(digest, hash, range.globalStart, range.data, range.count,
                      buffer.dtype);
          return Status::success();
        });
  }
  return digest;
}

Expected<StateDigest>
RankExecutor::stateDigest(const CommandContext &context) const {
  std::array<int64_t, 4> limbs = localStateDigest().limbs();
  MIXLE_RETURN_IF_ERROR(impl->communicator.allReduce(
      *impl->world, context, limbs.data(), static_cast<int64_t>(limbs.size()),
      DataType::i64, ReduceOp::sum));
  return StateDigest::fromLimbs(limbs);
}

ExecutorCounters RankExecutor::counters() const {
  ExecutorCounters counters = impl->counts;
  counters.bytesSent = impl->communicator.bytesSent();
  return counters;
}

} // namespace mixle::runtime
