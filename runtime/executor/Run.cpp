//===- Run.cpp - Commands, one after the other ----------------------------===//

#include "runtime/executor/ExecutorImpl.h"
#include "runtime/program/Names.h"

#include <algorithm>
#include <cfenv>
#include <cstring>
#include <new>

namespace mixle::runtime {

namespace {

/// Round to nearest, subnormals kept, for as long as it lives.
class RoundingMode {
public:
  RoundingMode() {
    std::fegetenv(&saved);
    std::fesetenv(FE_DFL_ENV);
  }
  ~RoundingMode() { std::fesetenv(&saved); }
  RoundingMode(const RoundingMode &) = delete;
  RoundingMode &operator=(const RoundingMode &) = delete;

private:
  std::fenv_t saved;
};

DataType exchangeType(fb::DataType type) {
  switch (type) {
  case fb::DataType::F32:
    return DataType::f32;
  case fb::DataType::F64:
    return DataType::f64;
  case fb::DataType::I32:
    return DataType::i32;
  case fb::DataType::I64:
    return DataType::i64;
  case fb::DataType::U32:
    return DataType::u32;
  case fb::DataType::U64:
    return DataType::u64;
  case fb::DataType::I8:
    break;
  }
  return DataType::bytes;
}

ReduceOp reduceOp(fb::Combine combine) {
  switch (combine) {
  case fb::Combine::Sum:
    return ReduceOp::sum;
  case fb::Combine::Max:
    return ReduceOp::max;
  case fb::Combine::Min:
    return ReduceOp::min;
  case fb::Combine::BitOr:
    break;
  }
  return ReduceOp::bitOr;
}

/// The error of a command, with where it happened. Exchanges name that
/// themselves, as their waits are reported from elsewhere too.
Status located(const PreparedCommand &command, const Status &status) {
  if (status.ok() || command.command->kind == fb::CommandKind::Collective ||
      command.peer >= 0)
    return status;
  return status.withContext(describe(command.context) + " (" +
                            describeCommand(*command.command) + ")");
}

} // namespace

Expected<RunState>
RankExecutor::Impl::bindInputs(const fb::EntryT &entry,
                               const EntryInputs &inputs) const {
  const std::string where = "entry '" + entry.name + "'";
  if (inputs.rows < 0)
    return Status::error(where + ": " + std::to_string(inputs.rows) + " rows");
  RunState state;
  state.window.rows = inputs.rows;
  state.inputs.resize(body.buffers.size());
  for (const auto &binding : entry.inputs) {
    auto found = inputs.data.find(binding->role);
    const void *data = found == inputs.data.end() ? nullptr : found->second;
    const fb::BufferT &buffer = *body.buffers[binding->buffer];
    if (!data && (buffer.fixed > 0 || inputs.rows > 0))
      return Status::error(where + ": its input '" + binding->role +
                           "' is not given");
    int64_t alignment = mixle::runtime::sizeOf(buffer.dtype);
    if (reinterpret_cast<uintptr_t>(data) % alignment != 0)
      return Status::error(where + ": its input '" + binding->role +
                           "' is not aligned to " + std::to_string(alignment) +
                           " bytes");
    // Commands never write to inputs, which the verifier sees to.
    state.inputs[binding->buffer] = static_cast<const char *>(data);
  }
  for (const auto &given : inputs.data) {
    bool known = false;
    for (const auto &binding : entry.inputs)
      known |= binding->role == given.first;
    if (!known)
      return Status::error(where + ": it has no input '" + given.first + "'");
  }
  return state;
}

Expected<EntryResult>
RankExecutor::Impl::run(std::string_view name, const EntryInputs &inputs,
                        const std::function<Status()> &reaccumulate) {
  auto found = std::find_if(
      entries.begin(), entries.end(),
      [&](const PreparedEntry &entry) { return entry.entry->name == name; });
  if (found == entries.end())
    return Status::error("the program has no entry '" + std::string(name) +
                         "'");
  RoundingMode mode;
  rank.detail.clear();
  EntryResult result;
  while (true) {
    MIXLE_ASSIGN_OR_RETURN(RunState state, bindInputs(*found->entry, inputs));
    MIXLE_ASSIGN_OR_RETURN(Outcome outcome,
                           runCommands(found->commands, state, result.reason));
    if (outcome == Outcome::Done)
      return result;
    if (outcome == Outcome::NotCommitted) {
      result.committed = false;
      result.detail = rank.detail;
      return result;
    }
    const std::string where = "entry '" + std::string(name) + "'";
    if (result.reran)
      return Status::error(where + ": its retry asks for a second rerun; one "
                                   "always suffices");
    if (!reaccumulate)
      return Status::error(where +
                           ": its retry asks for a rerun, but the "
                           "caller holds no inputs to accumulate again");
    result.reran = true;
    ++counts.reruns;
    const std::string context = where + ", accumulating again";
    if (Expected<EntryResult> reset = run("reset", EntryInputs(), {});
        !reset.ok())
      return reset.status().withContext(context);
    MIXLE_RETURN_IF_ERROR(reaccumulate().withContext(context));
    rank.detail.clear();
  }
}

Expected<Outcome>
RankExecutor::Impl::runCommands(std::vector<PreparedCommand> &commands,
                                RunState &state, std::string &reason) {
  for (PreparedCommand &command : commands) {
    ++counts.commandsRun;
    fb::CommandKind kind = command.command->kind;
    if (kind == fb::CommandKind::Loop) {
      MIXLE_RETURN_IF_ERROR(runLoop(command, state, reason));
      continue;
    }
    if (kind == fb::CommandKind::Schedule) {
      MIXLE_RETURN_IF_ERROR(runSchedule(command, state, reason));
      continue;
    }
    if (kind == fb::CommandKind::Retry || kind == fb::CommandKind::CommitIf) {
      int32_t flag;
      std::memcpy(&flag, storage(command.command->buffers[0]), sizeof(flag));
      if (kind == fb::CommandKind::Retry && flag != 0)
        return Outcome::Retry;
      if (kind == fb::CommandKind::CommitIf && flag == 0) {
        reason = command.command->name;
        return Outcome::NotCommitted;
      }
      continue;
    }
    Status status;
    try {
      status = evaluate(command, state);
      if (status.ok())
        status = execute(command, state);
    } catch (const std::bad_alloc &) {
      status = Status::error("out of memory");
    }
    if (!status.ok())
      return located(command, status);
  }
  return Outcome::Done;
}

/// Rows of chunk `i` when `all` are cut into ceil-sized ones.
static RowWindow chunkOf(const RowWindow &all, int64_t chunks, int64_t i) {
  int64_t size = all.rows / chunks + (all.rows % chunks != 0);
  // Later chunks may be short or empty; i * size stays below 2 * rows then.
  int64_t begin = size == 0 ? 0 : std::min(all.rows, i * size);
  return {std::min(size, all.rows - begin), all.start + begin};
}

Status RankExecutor::Impl::runSchedule(PreparedCommand &command,
                                       RunState &state, std::string &reason) {
  const RowWindow all = state.window;
  int64_t microbatches = command.command->scalars[0].a();
  for (const fb::Run &run : command.command->runs) {
    state.window = chunkOf(all, microbatches, run.microbatch());
    state.slot = run.slot();
    MIXLE_ASSIGN_OR_RETURN(
        Outcome outcome,
        runCommands(command.body[run.phase()].body, state, reason));
    (void)outcome; // retry and commit_if stand outside schedules
  }
  state.window = all;
  state.slot = 0;
  return Status::success();
}

Status RankExecutor::Impl::runLoop(PreparedCommand &command, RunState &state,
                                   std::string &reason) {
  const RowWindow all = state.window;
  int64_t iterations = command.command->scalars[0].a();
  for (int64_t i = 0; i < iterations; ++i) {
    state.window = chunkOf(all, iterations, i);
    MIXLE_ASSIGN_OR_RETURN(Outcome outcome,
                           runCommands(command.body, state, reason));
    (void)outcome; // retry and commit_if stand outside loops
  }
  state.window = all;
  return Status::success();
}

Status RankExecutor::Impl::evaluate(PreparedCommand &command,
                                    const RunState &state) const {
  const fb::CommandT &c = *command.command;
  if (command.usesRows && state.window.rows > body.max_rows)
    return Status::error(std::to_string(state.window.rows) +
                         " rows at once; the program holds at most " +
                         std::to_string(body.max_rows));
  for (size_t i = 0; i < c.scalars.size(); ++i)
    if (!evaluateScalar(c.scalars[i], rank.coordinate.coordinate, state.window,
                        command.scalars[i]))
      return Status::error("scalar " + std::to_string(i) +
                           " does not fit in 64 bits");
  for (size_t i = 0; i < c.buffers.size(); ++i) {
    size_t index = c.buffers[i];
    const fb::BufferT &buffer = *body.buffers[index];
    if (buffer.kind != fb::BufferKind::Input) {
      command.pointers[i] =
          bases[index] +
          (buffer.slots > 1 ? buffer.slot_stride * state.slot : 0);
      command.elements[i] = buffer.fixed + buffer.per_row * body.max_rows;
      continue;
    }
    int64_t offset = buffer.per_row * state.window.start;
    const char *data = state.inputs[index];
    command.pointers[i] = const_cast<char *>(
        data ? data + offset * mixle::runtime::sizeOf(buffer.dtype) : nullptr);
    command.elements[i] = buffer.fixed + buffer.per_row * state.window.rows;
  }
  return Status::success();
}

Status RankExecutor::Impl::expectBytes(const PreparedCommand &command, size_t i,
                                       Extent bytes) const {
  const fb::BufferT &buffer = *body.buffers[command.command->buffers[i]];
  int64_t holds = command.elements[i] * mixle::runtime::sizeOf(buffer.dtype);
  if (bytes.count() <= holds)
    return Status::success();
  return Status::error("it touches " + std::to_string(bytes.count()) +
                       " bytes of buffer '" + buffer.name + "', which holds " +
                       std::to_string(holds));
}

Status RankExecutor::Impl::execute(PreparedCommand &command,
                                   const RunState &state) {
  switch (command.command->kind) {
  case fb::CommandKind::Launch:
    command.kernel(command.pointers.data(), command.scalars.data());
    return Status::success();
  case fb::CommandKind::Call:
    return executeCall(command);
  case fb::CommandKind::Collective:
    return executeCollective(command);
  case fb::CommandKind::Send:
  case fb::CommandKind::Recv:
    return executeTransfer(command);
  case fb::CommandKind::Copy:
  case fb::CommandKind::Fill: {
    int64_t bytes = command.scalars[0];
    if (bytes < 0)
      return Status::error(std::to_string(bytes) + " bytes");
    for (size_t i = 0; i < command.pointers.size(); ++i)
      MIXLE_RETURN_IF_ERROR(expectBytes(command, i, bytes));
    if (bytes == 0)
      return Status::success();
    if (command.command->kind == fb::CommandKind::Copy)
      std::memmove(command.pointers[1], command.pointers[0], bytes);
    else
      std::memset(command.pointers[0], 0, bytes);
    return Status::success();
  }
  default:
    return Status::error("not a command that this runtime executes");
  }
}

Status RankExecutor::Impl::executeCall(PreparedCommand &command) {
  const fb::CommandT &c = *command.command;
  CallArguments arguments{&program, command.scalars.data(), &c.floats, &c.text};
  MIXLE_RETURN_IF_ERROR(
      checkCall(*command.function, arguments, command.touched));
  for (size_t i = 0; i < command.touched.size(); ++i)
    MIXLE_RETURN_IF_ERROR(expectBytes(
        command, i,
        command.touched[i] *
            mixle::runtime::sizeOf(body.buffers[c.buffers[i]]->dtype)));
  return command.function->execute(
      FunctionCall{command.pointers.data(), command.elements.data(),
                   command.scalars.data(), c.floats.data(), c.text, rank});
}

Status RankExecutor::Impl::executeTransfer(PreparedCommand &command) {
  const fb::CommandT &c = *command.command;
  Extent bytes =
      Extent(command.scalars[0]) * mixle::runtime::sizeOf(c.dtype);
  MIXLE_RETURN_IF_ERROR(expectBytes(command, 0, bytes)
                            .withContext(nameOf(c.kind) + " in " +
                                         describe(command.context)));
  // Messages of one update arrive in the order of sending.
  int tag = static_cast<int>(c.updates[0]);
  if (c.kind == fb::CommandKind::Send)
    return communicator.send(command.context, command.pointers[0],
                             bytes.count(), command.peer, tag);
  return communicator.recv(command.context, command.pointers[0], bytes.count(),
                           command.peer, tag);
}

Status RankExecutor::Impl::executeCollective(PreparedCommand &command) {
  const fb::CommandT &c = *command.command;
  const std::vector<int64_t> &scalars = command.scalars;
  Group &group = *command.group;
  int64_t count = scalars[0], ranks = group.size();
  Extent bytes = Extent(count) * mixle::runtime::sizeOf(c.dtype);
  DataType type = exchangeType(c.dtype);
  void *const *at = command.pointers.data();
  auto fits = [&](size_t i, Extent extent) {
    return expectBytes(command, i, extent)
        .withContext(c.name + " in " + describe(command.context));
  };
  if (count < 0)
    return Status::error(c.name + " in " + describe(command.context) + ": " +
                         std::to_string(count) + " elements");
  if (c.name == "all_reduce") {
    MIXLE_RETURN_IF_ERROR(fits(0, bytes));
    return communicator.allReduce(group, command.context, at[0], count, type,
                                  reduceOp(c.combine));
  }
  if (c.name == "all_gather") {
    MIXLE_RETURN_IF_ERROR(fits(0, bytes));
    MIXLE_RETURN_IF_ERROR(fits(1, bytes * ranks));
    return communicator.allGather(group, command.context, at[0], at[1],
                                  bytes.count());
  }
  if (c.name == "reduce_scatter") {
    int64_t limbs = scalars.size() > 1 ? scalars[1] : 1;
    MIXLE_RETURN_IF_ERROR(fits(0, bytes * ranks * limbs));
    MIXLE_RETURN_IF_ERROR(fits(1, bytes * limbs));
    for (int64_t limb = 0; limb < limbs; ++limb)
      MIXLE_RETURN_IF_ERROR(communicator.reduceScatter(
          group, command.context,
          static_cast<const char *>(at[0]) + limb * ranks * bytes.count(),
          static_cast<char *>(at[1]) + limb * bytes.count(), count, type,
          reduceOp(c.combine)));
    return Status::success();
  }
  // tree_all_reduce
  GranuleCut &cut = command.cut;
  cut.granules = scalars[1];
  cut.firstGranule.resize(static_cast<size_t>(ranks) + 1);
  for (int64_t i = 0; i <= ranks; ++i)
    cut.firstGranule[i] = std::min(i * scalars[2], scalars[1]);
  int64_t partials = static_cast<int64_t>(cut.owned(group.index()).size());
  MIXLE_RETURN_IF_ERROR(fits(0, bytes * partials));
  MIXLE_RETURN_IF_ERROR(fits(1, bytes));
  return treeAllReduce(communicator, group, command.context, cut, at[0], at[1],
                       count, type, treeScratch);
}

} // namespace mixle::runtime
