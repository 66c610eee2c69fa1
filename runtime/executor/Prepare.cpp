//===- Prepare.cpp - Everything resolved before anything runs -------------===//

#include "runtime/executor/ExecutorImpl.h"
#include "runtime/program/Names.h"

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
      status = prepareCollective(prepared);
      break;
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

Status RankExecutor::Impl::prepareCollective(PreparedCommand &prepared) {
  MIXLE_ASSIGN_OR_RETURN(prepared.group, groupOver(prepared.command->axes));
  return Status::success();
}

/// The ranks that differ from this one along `axes` only, in the mesh's order.
/// All ranks come here in the order of the program, as groups must be made.
Expected<Group *>
RankExecutor::Impl::groupOver(const std::vector<fb::Axis> &axes) {
  unsigned mask = 0;
  for (fb::Axis axis : axes)
    mask |= 1u << static_cast<unsigned>(axis);
  auto found = groups.find(mask);
  if (found != groups.end())
    return found->second.get();
  std::vector<int> members;
  for (int member = 0; member < communicator.worldSize(); ++member) {
    MIXLE_ASSIGN_OR_RETURN(
        WorkerCoordinate other,
        attestWorkerCoordinate(loaded->plan, communicator.worldSize(), member));
    bool differs = false;
    for (size_t axis = 0; axis < numMeshAxes; ++axis)
      differs |= !(mask >> axis & 1) &&
                 other.coordinate[axis] != rank.coordinate.coordinate[axis];
    if (!differs)
      members.push_back(member);
  }
  MIXLE_ASSIGN_OR_RETURN(std::unique_ptr<Group> group,
                         communicator.createGroup(members));
  Group *made = group.get();
  groups[mask] = std::move(group);
  return made;
}

} // namespace mixle::runtime
