//===- Prepare.cpp - Everything resolved before anything runs -------------===//

#include "runtime/executor/ExecutorImpl.h"
#include "runtime/program/Names.h"

#include <functional>
#include <set>

namespace mixle::runtime {

Status RankExecutor::Impl::initialize(const ExecutorOptions &options) {
  rank.program = &program;
  rank.plan = loaded->plan;
  rank.seed = options.seed;
  MIXLE_ASSIGN_OR_RETURN(rank.coordinate,
                         attestWorkerCoordinate(loaded->plan,
                                                communicator.worldSize(),
                                                communicator.rank()));
  MIXLE_ASSIGN_OR_RETURN(code, CodeModule::load(*loaded));
  MIXLE_RETURN_IF_ERROR(
      persistent.allocate("persistent", body.persistent_bytes));
  MIXLE_RETURN_IF_ERROR(scratch.allocate("scratch", body.scratch_bytes));
  for (const auto &buffer : body.buffers) {
    char *base = nullptr;
    if (buffer->kind == fb::BufferKind::Scratch)
      base = scratch.data() + buffer->offset;
    else if (buffer->kind != fb::BufferKind::Input)
      base = persistent.data() + buffer->offset;
    bases.push_back(base);
  }

  std::vector<int> everyone(static_cast<size_t>(communicator.worldSize()));
  for (size_t i = 0; i < everyone.size(); ++i)
    everyone[i] = static_cast<int>(i);
  MIXLE_ASSIGN_OR_RETURN(world, communicator.createGroup(everyone));
  MIXLE_RETURN_IF_ERROR(makeGroups());
  for (const auto &entry : body.entries) {
    PreparedEntry prepared;
    prepared.entry = entry.get();
    int64_t index = 0;
    MIXLE_RETURN_IF_ERROR(
        prepareCommands(*entry, entry->commands, index, prepared.commands));
    entries.push_back(std::move(prepared));
  }
  return Status::success();
}

Status RankExecutor::Impl::prepareCommands(
    const fb::EntryT &entry,
    const std::vector<std::unique_ptr<fb::CommandT>> &list, int64_t &index,
    std::vector<PreparedCommand> &out) {
  out.reserve(list.size());
  for (const auto &command : list) {
    PreparedCommand prepared;
    prepared.command = command.get();
    prepared.context.entry = entry.name;
    prepared.context.command = index++;
    for (uint32_t update : command->updates)
      prepared.context.update += (prepared.context.update.empty() ? "" : ", ") +
                                 program.updates[update]->node_id;
    for (const fb::Scalar &scalar : command->scalars)
      prepared.usesRows |= scalar.kind() == fb::ScalarKind::Rows;
    prepared.scalars.resize(command->scalars.size());
    prepared.elements.resize(command->buffers.size());
    prepared.pointers.resize(command->buffers.size());
    Status status;
    switch (command->kind) {
    case fb::CommandKind::Launch: {
      Expected<KernelFunction> kernel = code->kernel(command->name);
      if (kernel.ok())
        prepared.kernel = *kernel;
      status = kernel.status();
      break;
    }
    case fb::CommandKind::Call:
      prepared.function = findFunction(command->name);
      break;
    case fb::CommandKind::Collective:
      prepared.group = groups.at(groupKey(*command)).get();
      break;
    case fb::CommandKind::Send:
    case fb::CommandKind::Recv: {
      auto coordinate = rank.coordinate.coordinate;
      coordinate[static_cast<size_t>(ParallelAxis::Pp)] =
          command->scalars[1].a();
      prepared.peer = static_cast<int>(rankOf(loaded->plan, coordinate));
      break;
    }
    default:
      break;
    }
    MIXLE_RETURN_IF_ERROR(status.withContext(describe(prepared.context)));
    MIXLE_RETURN_IF_ERROR(
        prepareCommands(entry, command->body, index, prepared.body));
    out.push_back(std::move(prepared));
  }
  return Status::success();
}

RankExecutor::Impl::GroupKey
RankExecutor::Impl::groupKey(const fb::CommandT &command) {
  GroupKey key{0, command.stages};
  for (fb::Axis axis : command.axes)
    key.first |= 1u << static_cast<unsigned>(axis);
  return key;
}

/// The groups of all rank classes' collectives: the ranks that differ along a
/// collective's axes only, in the mesh's order. Every rank makes those that it
/// is in, all of them in one order, as groups must be made.
Status RankExecutor::Impl::makeGroups() {
  std::set<GroupKey> keys;
  std::function<void(const std::vector<std::unique_ptr<fb::CommandT>> &)>
      collect = [&](const std::vector<std::unique_ptr<fb::CommandT>> &list) {
        for (const auto &command : list) {
          if (command->kind == fb::CommandKind::Collective)
            keys.insert(groupKey(*command));
          collect(command->body);
        }
      };
  for (const auto &rankClass : program.classes)
    for (const auto &entry : rankClass->entries)
      collect(entry->commands);

  constexpr size_t pp = static_cast<size_t>(ParallelAxis::Pp);
  auto takesPart = [](const std::vector<int32_t> &stages, int64_t at) {
    return stages.empty() ||
           std::find(stages.begin(), stages.end(), at) != stages.end();
  };
  std::vector<WorkerCoordinate> everyone;
  for (int member = 0; member < communicator.worldSize(); ++member) {
    MIXLE_ASSIGN_OR_RETURN(
        WorkerCoordinate other,
        attestWorkerCoordinate(loaded->plan, communicator.worldSize(), member));
    everyone.push_back(other);
  }
  for (const GroupKey &key : keys) {
    if (!takesPart(key.second, rank.coordinate.coordinate[pp]))
      continue;
    std::vector<int> members;
    for (int member = 0; member < communicator.worldSize(); ++member) {
      const auto &other = everyone[static_cast<size_t>(member)].coordinate;
      bool differs = !takesPart(key.second, other[pp]);
      for (size_t axis = 0; axis < numMeshAxes; ++axis)
        differs |= !(key.first >> axis & 1) &&
                   other[axis] != rank.coordinate.coordinate[axis];
      if (!differs)
        members.push_back(member);
    }
    MIXLE_ASSIGN_OR_RETURN(groups[key], communicator.createGroup(members));
  }
  return Status::success();
}

} // namespace mixle::runtime
