//===- VerifyCommands.cpp - Entries and their commands --------------------===//
//
// Arguments are checked at every coordinate that their scalars depend on, for
// no rows and for max_rows: what a command touches grows at least linearly with
// rows, and what a buffer holds linearly, so that nothing in between can be
// worse.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/GranuleTree.h"
#include "runtime/executor/Functions.h"
#include "runtime/program/Names.h"
#include "runtime/program/Scalars.h"
#include "runtime/program/Verifier.h"

#include <algorithm>
#include <set>

namespace mixle::runtime {

namespace {

bool isFloat(fb::DataType type) {
  return type == fb::DataType::F32 || type == fb::DataType::F64;
}

/// Whether a buffer of `type` serves where `wanted` is: integers of one width
/// are bits alike.
bool holdsAs(fb::DataType type, fb::DataType wanted) {
  return type == wanted ||
         (!isFloat(type) && !isFloat(wanted) && sizeOf(type) == sizeOf(wanted));
}

constexpr int maxLoopDepth = 2;
constexpr int64_t maxIterations = 1 << 20;

class EntryVerifier {
public:
  EntryVerifier(VerifierState &state, const fb::RankClassT &body,
                const fb::EntryT &entry)
      : state(state), body(body), entry(entry) {}

  Status run();

private:
  Status verifyBindings(const std::vector<std::unique_ptr<fb::BindingT>> &list,
                        bool inputs);
  Status verifyCommands(const std::vector<std::unique_ptr<fb::CommandT>> &list,
                        int depth);
  Status verifyCommand(const fb::CommandT &command, int depth);
  Status verifySchedule(const fb::CommandT &command, int depth);
  Status verifyTransfer(const fb::CommandT &command);
  Status verifyIndices(const fb::CommandT &command);
  Status expectCounts(const fb::CommandT &command, size_t buffers,
                      size_t scalars, size_t floats = 0);
  Status verifyCall(const fb::CommandT &command);
  Status verifyLaunch(const fb::CommandT &command);
  Status verifyCollective(const fb::CommandT &command);
  Status verifyUpdateOf(const fb::CommandT &command, const fb::UpdateT &update);
  Status verifyBytes(const fb::CommandT &command, size_t buffersTouched);
  Status verifyFlag(const fb::CommandT &command, int depth);

  /// Calls back with the scalars' values at every coordinate they depend on,
  /// for no rows and for max_rows.
  template <typename Visit>
  Status forEachCase(const fb::CommandT &command, const Visit &visit);

  const fb::BufferT &bufferOf(const fb::CommandT &command, size_t i) {
    return *body.buffers[command.buffers[i]];
  }
  /// Refuses a command that touches more of argument `i` than there is:
  /// elements, or bytes.
  Status expectRoom(const fb::CommandT &command, size_t i, Extent touched,
                    int64_t rows, bool inBytes);
  Status expectWritable(const fb::CommandT &command, size_t i);

  VerifierState &state;
  const fb::RankClassT &body;
  const fb::EntryT &entry;
  std::set<uint32_t> boundInputs;
  /// Directly in a schedule; the largest slot of the phase's runs.
  bool inSchedule = false;
  int64_t mostSlot = 0;
  bool hasRetry = false;
  /// Commands are numbered in the order in which they are written, a loop
  /// before its body.
  int64_t nextIndex = 0;
};

Status EntryVerifier::run() {
  if (entry.name.empty())
    return Status::error("it has no name");
  MIXLE_RETURN_IF_ERROR(verifyBindings(entry.inputs, true));
  MIXLE_RETURN_IF_ERROR(verifyBindings(entry.outputs, false));
  return verifyCommands(entry.commands, 0);
}

Status EntryVerifier::verifyBindings(
    const std::vector<std::unique_ptr<fb::BindingT>> &list, bool inputs) {
  std::set<std::string> roles;
  for (const auto &binding : list) {
    const std::string what =
        std::string(inputs ? "input" : "output") + " '" + binding->role + "'";
    if (binding->role.empty() || !roles.insert(binding->role).second)
      return Status::error(what + ": its role is empty or another one's");
    if (binding->buffer >= body.buffers.size())
      return Status::error(what + " is bound to buffer " +
                           std::to_string(binding->buffer) + " of " +
                           std::to_string(body.buffers.size()));
    const fb::BufferT &buffer = *body.buffers[binding->buffer];
    bool isInput = buffer.kind == fb::BufferKind::Input;
    if (inputs != isInput)
      return Status::error(what + " is bound to buffer '" + buffer.name +
                           "' of kind " + nameOf(buffer.kind));
    if (binding->dtype != buffer.dtype || binding->per_row != buffer.per_row)
      return Status::error(what + " has " + std::to_string(binding->per_row) +
                           " " + nameOf(binding->dtype) +
                           " a row, but its buffer '" + buffer.name + "' has " +
                           std::to_string(buffer.per_row) + " " +
                           nameOf(buffer.dtype));
    if (inputs)
      boundInputs.insert(binding->buffer);
  }
  return Status::success();
}

Status EntryVerifier::verifyCommands(
    const std::vector<std::unique_ptr<fb::CommandT>> &list, int depth) {
  for (const auto &item : list) {
    const fb::CommandT &command = *item;
    const std::string index = std::to_string(nextIndex++);
    if (!isEnumValue(command.kind))
      return Status::error("command " + index + " has the unknown kind " +
                           nameOf(command.kind));
    MIXLE_RETURN_IF_ERROR(verifyCommand(command, depth)
                              .withContext("command " + index + " (" +
                                           describeCommand(command) + ")"));
    if (command.kind == fb::CommandKind::Schedule)
      MIXLE_RETURN_IF_ERROR(verifySchedule(command, depth)
                                .withContext("command " + index + " (" +
                                             describeCommand(command) + ")"));
    else if (command.kind == fb::CommandKind::Loop ||
             command.kind == fb::CommandKind::Phase)
      MIXLE_RETURN_IF_ERROR(verifyCommands(command.body, depth + 1));
  }
  return Status::success();
}

Status EntryVerifier::verifyIndices(const fb::CommandT &command) {
  for (uint32_t index : command.buffers) {
    if (index >= body.buffers.size())
      return Status::error("buffer " + std::to_string(index) + " of " +
                           std::to_string(body.buffers.size()));
    const fb::BufferT &buffer = *body.buffers[index];
    if (buffer.kind == fb::BufferKind::Input && !boundInputs.count(index))
      return Status::error("it uses buffer '" + buffer.name +
                           "', which is no input of this entry");
  }
  for (const fb::Scalar &scalar : command.scalars)
    if (!isEnumValue(scalar.kind()) || !isEnumValue(scalar.axis()))
      return Status::error("a scalar has the unknown kind " +
                           nameOf(scalar.kind()) + " or axis " +
                           nameOf(scalar.axis()));
  for (uint32_t index : command.updates)
    if (index >= state.program.updates.size())
      return Status::error("update " + std::to_string(index) + " of " +
                           std::to_string(state.program.updates.size()));
  if (!isEnumValue(command.dtype) || !isEnumValue(command.combine))
    return Status::error("its type (" + nameOf(command.dtype) +
                         ") or combination (" + nameOf(command.combine) +
                         ") is unknown");
  if (command.location != 0 &&
      command.location >= state.program.locations.size())
    return Status::error("location " + std::to_string(command.location) +
                         " of " +
                         std::to_string(state.program.locations.size()));
  bool transfers = command.kind == fb::CommandKind::Send ||
                   command.kind == fb::CommandKind::Recv;
  bool phase = command.kind == fb::CommandKind::Phase;
  if (phase != inSchedule)
    return Status::error("phases stand in schedules, and nothing else does");
  if (command.kind != fb::CommandKind::Loop && !phase &&
      command.kind != fb::CommandKind::Schedule && !command.body.empty())
    return Status::error("it has a body, but is no loop");
  if (command.kind != fb::CommandKind::Schedule && !command.runs.empty())
    return Status::error("it has runs, but is no schedule");
  if (command.kind != fb::CommandKind::Collective && !transfers &&
      (!command.updates.empty() || !command.axes.empty() ||
       !command.stages.empty()))
    return Status::error("it has updates, axes or stages, but is no exchange");
  for (uint32_t index : command.buffers)
    if (body.buffers[index]->slots > 1 &&
        body.buffers[index]->slots <= mostSlot)
      return Status::error("it uses copy " + std::to_string(mostSlot) +
                           " of buffer '" + body.buffers[index]->name +
                           "', which has " +
                           std::to_string(body.buffers[index]->slots));
  return Status::success();
}

Status EntryVerifier::expectCounts(const fb::CommandT &command, size_t buffers,
                                   size_t scalars, size_t floats) {
  auto expect = [](const char *what, size_t got, size_t expected) {
    return got == expected
               ? Status::success()
               : Status::error("it has " + std::to_string(got) + " " + what +
                               "; expected " + std::to_string(expected));
  };
  MIXLE_RETURN_IF_ERROR(expect("buffers", command.buffers.size(), buffers));
  MIXLE_RETURN_IF_ERROR(expect("scalars", command.scalars.size(), scalars));
  return expect("floats", command.floats.size(), floats);
}

Status EntryVerifier::verifyCommand(const fb::CommandT &command, int depth) {
  MIXLE_RETURN_IF_ERROR(verifyIndices(command));
  switch (command.kind) {
  case fb::CommandKind::Launch:
    return verifyLaunch(command);
  case fb::CommandKind::Call:
    return verifyCall(command);
  case fb::CommandKind::Collective:
    return verifyCollective(command);
  case fb::CommandKind::Copy:
    MIXLE_RETURN_IF_ERROR(expectCounts(command, 2, 1));
    MIXLE_RETURN_IF_ERROR(expectWritable(command, 1));
    return verifyBytes(command, 2);
  case fb::CommandKind::Fill:
    MIXLE_RETURN_IF_ERROR(expectCounts(command, 1, 1));
    MIXLE_RETURN_IF_ERROR(expectWritable(command, 0));
    return verifyBytes(command, 1);
  case fb::CommandKind::Loop: {
    MIXLE_RETURN_IF_ERROR(expectCounts(command, 0, 1));
    const fb::Scalar &iterations = command.scalars[0];
    if (iterations.kind() != fb::ScalarKind::Constant || iterations.a() < 1 ||
        iterations.a() > maxIterations)
      return Status::error("its iterations are no constant from 1 to " +
                           std::to_string(maxIterations));
    if (depth >= maxLoopDepth)
      return Status::error("loops are nested deeper than " +
                           std::to_string(maxLoopDepth));
    return Status::success();
  }
  case fb::CommandKind::Retry:
  case fb::CommandKind::CommitIf:
    return verifyFlag(command, depth);
  case fb::CommandKind::Send:
  case fb::CommandKind::Recv:
    return verifyTransfer(command);
  case fb::CommandKind::Phase:
    return expectCounts(command, 0, 0);
  case fb::CommandKind::Schedule: {
    MIXLE_RETURN_IF_ERROR(expectCounts(command, 0, 1));
    const fb::Scalar &microbatches = command.scalars[0];
    if (microbatches.kind() != fb::ScalarKind::Constant ||
        microbatches.a() < 1 || microbatches.a() > maxIterations)
      return Status::error("its microbatches are no constant from 1 to " +
                           std::to_string(maxIterations));
    if (depth > 0)
      return Status::error("it stands in a loop or in another schedule");
    return Status::success();
  }
  }
  return Status::success();
}

/// Its phases, and that each of them runs once on every microbatch.
Status EntryVerifier::verifySchedule(const fb::CommandT &command, int depth) {
  int64_t microbatches = command.scalars[0].a();
  size_t phases = command.body.size();
  std::vector<int64_t> most(phases, 0), runs(phases, 0);
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const fb::Run &run : command.runs) {
    if ((state.budget -= 1) < 0)
      return Status::error("the program has too many runs to check");
    if (run.phase() >= phases || run.microbatch() >= microbatches)
      return Status::error("it runs phase " + std::to_string(run.phase()) +
                           " of " + std::to_string(phases) +
                           " on microbatch " +
                           std::to_string(run.microbatch()) + " of " +
                           std::to_string(microbatches));
    if (!seen.emplace(run.phase(), run.microbatch()).second)
      return Status::error("it runs phase " + std::to_string(run.phase()) +
                           " on microbatch " +
                           std::to_string(run.microbatch()) + " twice");
    ++runs[run.phase()];
    most[run.phase()] = std::max<int64_t>(most[run.phase()], run.slot());
  }
  for (size_t i = 0; i < phases; ++i) {
    if (runs[i] != microbatches)
      return Status::error("it runs phase " + std::to_string(i) + " on " +
                           std::to_string(runs[i]) + " microbatches of " +
                           std::to_string(microbatches));
    const fb::CommandT &phase = *command.body[i];
    const std::string index = std::to_string(nextIndex++);
    inSchedule = true;
    Status status = isEnumValue(phase.kind)
                        ? verifyCommand(phase, depth + 1)
                        : Status::error("its kind is unknown");
    inSchedule = false;
    MIXLE_RETURN_IF_ERROR(status.withContext("command " + index));
    mostSlot = most[i];
    MIXLE_RETURN_IF_ERROR(verifyCommands(phase.body, depth + 1));
    mostSlot = 0;
  }
  return Status::success();
}

Status EntryVerifier::verifyTransfer(const fb::CommandT &command) {
  MIXLE_RETURN_IF_ERROR(expectCounts(command, 1, 2));
  bool receives = command.kind == fb::CommandKind::Recv;
  if (receives)
    MIXLE_RETURN_IF_ERROR(expectWritable(command, 0));
  const fb::Scalar &elements = command.scalars[0], &peer = command.scalars[1];
  if (elements.kind() != fb::ScalarKind::Constant &&
      elements.kind() != fb::ScalarKind::Rows)
    return Status::error("its number of elements is neither a constant nor a "
                         "multiple of the rows");
  if (peer.kind() != fb::ScalarKind::Constant || peer.a() < 0 ||
      peer.a() >= state.plan.pp || peer.a() == body.stage)
    return Status::error("its peer is no other stage of the plan's " +
                         std::to_string(state.plan.pp));
  if (command.updates.size() != 1 ||
      state.program.updates[command.updates[0]]->collective !=
          fb::Collective::P2p)
    return Status::error("it carries out no p2p update");
  const fb::UpdateT &update = *state.program.updates[command.updates[0]];
  if (command.axes != update.mesh_axes || !command.stages.empty() ||
      command.dtype != update.dtype)
    return Status::error("it disagrees with update '" + update.node_id +
                         "' on axes, stages or type");
  int64_t size = sizeOf(command.dtype);
  return forEachCase(
      command, [&](const std::vector<int64_t> &scalars, int64_t rows) {
        if (scalars[0] < 0)
          return Status::error("its number of elements is " +
                               std::to_string(scalars[0]));
        return expectRoom(command, 0, Extent(scalars[0]) * size, rows, true);
      });
}

Status EntryVerifier::verifyFlag(const fb::CommandT &command, int depth) {
  MIXLE_RETURN_IF_ERROR(expectCounts(command, 1, 0));
  if (depth > 0 || (entry.name != "step" && entry.name != "estimate"))
    return Status::error("it stands outside loops of 'step' and 'estimate' "
                         "only");
  if (bufferOf(command, 0).dtype != fb::DataType::I32)
    return Status::error("its flag '" + bufferOf(command, 0).name + "' is " +
                         nameOf(bufferOf(command, 0).dtype) + "; expected i32");
  MIXLE_RETURN_IF_ERROR(expectRoom(command, 0, 1, 0, false));
  if (command.kind == fb::CommandKind::CommitIf) {
    if (command.name.empty())
      return Status::error("it gives no reason");
    return Status::success();
  }
  if (hasRetry)
    return Status::error("it is the entry's second one");
  hasRetry = true;
  return Status::success();
}

Status EntryVerifier::expectRoom(const fb::CommandT &command, size_t i,
                                 Extent touched, int64_t rows, bool inBytes) {
  const fb::BufferT &buffer = bufferOf(command, i);
  // Only an input has the size of its rows; arenas have that of max_rows.
  int64_t holds = elementsOf(
      buffer, buffer.kind == fb::BufferKind::Input ? rows : body.max_rows);
  if (inBytes)
    holds *= sizeOf(buffer.dtype);
  if (touched.count() <= holds)
    return Status::success();
  const char *what = inBytes ? " bytes" : " elements";
  return Status::error(
      "it touches " +
      (touched.saturated() ? "too many" : std::to_string(touched.count())) +
      what + " of buffer '" + buffer.name + "' for " + std::to_string(rows) +
      " rows, which holds " + std::to_string(holds));
}

Status EntryVerifier::expectWritable(const fb::CommandT &command, size_t i) {
  if (bufferOf(command, i).kind != fb::BufferKind::Input)
    return Status::success();
  return Status::error("it writes to the input '" + bufferOf(command, i).name +
                       "'");
}

template <typename Visit>
Status EntryVerifier::forEachCase(const fb::CommandT &command,
                                  const Visit &visit) {
  bool depends[numMeshAxes] = {};
  for (const fb::Scalar &scalar : command.scalars)
    if (dependsOnAxis(scalar))
      depends[static_cast<size_t>(scalar.axis())] = true;
  std::array<int64_t, numMeshAxes> coordinate = {};
  std::vector<int64_t> values(command.scalars.size());
  // What the last coordinate gave; many ranks have the same numbers.
  std::vector<int64_t> last[2];
  bool first = true;
  while (true) {
    for (bool full : {false, true}) {
      int64_t rows = full ? body.max_rows : 0;
      for (size_t i = 0; i < values.size(); ++i)
        if (!evaluateScalar(command.scalars[i], coordinate, {rows, 0},
                            values[i]))
          return Status::error("scalar " + std::to_string(i) +
                               " does not fit in 64 bits");
      bool repeats = !first && values == last[full];
      state.budget -= repeats ? 1 : 16; // about what they cost
      if (state.budget < 0)
        return Status::error("the program has too many commands that differ "
                             "between ranks to check them all");
      if (repeats)
        continue;
      last[full] = values;
      MIXLE_RETURN_IF_ERROR(visit(values, rows));
    }
    first = false;
    size_t axis = 0;
    for (; axis < numMeshAxes; ++axis) {
      if (!depends[axis])
        continue;
      if (++coordinate[axis] < state.plan.size(static_cast<ParallelAxis>(axis)))
        break;
      coordinate[axis] = 0;
    }
    if (axis == numMeshAxes)
      return Status::success();
  }
}

Status EntryVerifier::verifyLaunch(const fb::CommandT &command) {
  const auto &kernels = state.program.kernels;
  if (std::find(kernels.begin(), kernels.end(), command.name) == kernels.end())
    return Status::error("the program has no such kernel");
  if (!command.floats.empty())
    return Status::error("kernels take no floats");
  return Status::success();
}

Status EntryVerifier::verifyCall(const fb::CommandT &command) {
  const LibraryFunction *function = findFunction(command.name);
  if (!function)
    return Status::error("the runtime has no such function");
  MIXLE_RETURN_IF_ERROR(expectCounts(command, function->buffers.size(),
                                     function->scalars.size(),
                                     function->floats.size()));
  if (!function->hasText && !command.text.empty())
    return Status::error("it has a text, but the function takes none");
  for (size_t i = 0; i < function->buffers.size(); ++i) {
    const LibraryFunction::Buffer &argument = function->buffers[i];
    const fb::BufferT &buffer = bufferOf(command, i);
    if (!holdsAs(buffer.dtype, argument.dtype))
      return Status::error("argument '" + std::string(argument.name) +
                           "' is buffer '" + buffer.name + "' of " +
                           nameOf(buffer.dtype) + "; expected " +
                           nameOf(argument.dtype));
    if (argument.written)
      MIXLE_RETURN_IF_ERROR(expectWritable(command, i));
  }
  std::vector<Extent> touched;
  return forEachCase(command, [&](const std::vector<int64_t> &scalars,
                                  int64_t rows) {
    CallArguments call{&state.program, scalars.data(), &command.floats,
                       &command.text};
    MIXLE_RETURN_IF_ERROR(checkCall(*function, call, touched));
    for (size_t i = 0; i < touched.size(); ++i)
      MIXLE_RETURN_IF_ERROR(expectRoom(command, i, touched[i], rows, false));
    return Status::success();
  });
}

Status EntryVerifier::verifyBytes(const fb::CommandT &command,
                                  size_t buffersTouched) {
  return forEachCase(
      command, [&](const std::vector<int64_t> &scalars, int64_t rows) {
        if (scalars[0] < 0)
          return Status::error("its number of bytes is " +
                               std::to_string(scalars[0]));
        for (size_t i = 0; i < buffersTouched; ++i)
          MIXLE_RETURN_IF_ERROR(expectRoom(command, i, scalars[0], rows, true));
        return Status::success();
      });
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Partials of the rank that has most: one for each subtree of its granules.
int64_t maxPartials(int64_t granules, int64_t perRank) {
  size_t most = 0;
  for (int64_t first = 0; first < granules; first += perRank)
    most = std::max(most,
                    maximalSubtrees(first, first + perRank, granules).size());
  return static_cast<int64_t>(most);
}

Status EntryVerifier::verifyUpdateOf(const fb::CommandT &command,
                                     const fb::UpdateT &update) {
  bool tree = command.name == "tree_all_reduce";
  const std::string kind = tree ? "all_reduce" : command.name;
  if (nameOf(update.collective) != kind)
    return Status::error("it says " + nameOf(update.collective));
  std::set<fb::Axis> ours(command.axes.begin(), command.axes.end());
  std::set<fb::Axis> theirs(update.mesh_axes.begin(), update.mesh_axes.end());
  if (ours != theirs || command.stages != update.stages)
    return Status::error("it goes over other axes or stages");
  if (tree != (update.reduction_order == fb::Order::Tree))
    return Status::error("its reduction_order is " +
                         nameOf(update.reduction_order));
  if (update.reduction_order == fb::Order::Integer && isFloat(command.dtype) &&
      command.combine == fb::Combine::Sum)
    return Status::error("its reduction_order is integer, but the exchange "
                         "adds " +
                         nameOf(command.dtype));
  return Status::success();
}

Status EntryVerifier::verifyCollective(const fb::CommandT &command) {
  const std::string &name = command.name;
  bool tree = name == "tree_all_reduce";
  bool reduces = name == "all_reduce", scatters = name == "reduce_scatter";
  bool gathers = name == "all_gather";
  if (!tree && !reduces && !scatters && !gathers)
    return Status::error("there is no such collective; expected all_reduce, "
                         "reduce_scatter, all_gather or tree_all_reduce");
  // reduce_scatter of several limbs gives their number.
  bool hasLimbs = scatters && command.scalars.size() == 2;
  MIXLE_RETURN_IF_ERROR(expectCounts(command, reduces ? 1 : 2,
                                     tree       ? 3
                                     : hasLimbs ? 2
                                                : 1));
  MIXLE_RETURN_IF_ERROR(verifyAxes(command.axes));
  MIXLE_RETURN_IF_ERROR(verifyStages(state, command.axes, command.stages));
  if (!command.stages.empty() &&
      std::find(command.stages.begin(), command.stages.end(), body.stage) ==
          command.stages.end())
    return Status::error("stage " + std::to_string(body.stage) +
                         " is none of those that take part");
  MIXLE_RETURN_IF_ERROR(expectWritable(command, reduces ? 0 : 1));
  int64_t ranks = 1; // at most the world's size
  for (fb::Axis axis : command.axes)
    ranks *= axis == fb::Axis::Pp && !command.stages.empty()
                 ? static_cast<int64_t>(command.stages.size())
                 : state.plan.size(static_cast<ParallelAxis>(axis));

  if (command.dtype == fb::DataType::I8)
    return Status::error("it exchanges i8");
  if (tree && !isFloat(command.dtype))
    return Status::error("the tree adds f32 or f64, not " +
                         nameOf(command.dtype));
  if (command.combine == fb::Combine::BitOr && isFloat(command.dtype))
    return Status::error("it combines " + nameOf(command.dtype) +
                         " by bit_or, which integers have");
  if ((reduces || scatters) && isFloat(command.dtype) &&
      command.combine == fb::Combine::Sum && state.program.numerics != "fast")
    return Status::error("it adds " + nameOf(command.dtype) +
                         " in any order, but the program's numerics are "
                         "reproducible");
  if (tree && command.combine != fb::Combine::Sum)
    return Status::error("the tree adds; its combination is " +
                         nameOf(command.combine));

  if (command.updates.empty())
    return Status::error("it carries out no update");
  for (uint32_t index : command.updates) {
    const fb::UpdateT &update = *state.program.updates[index];
    MIXLE_RETURN_IF_ERROR(
        verifyUpdateOf(command, update)
            .withContext("it disagrees with update '" + update.node_id + "'"));
  }

  int64_t size = sizeOf(command.dtype);
  return forEachCase(command, [&](const std::vector<int64_t> &scalars,
                                  int64_t rows) {
    for (int64_t value : scalars)
      if (value < 0)
        return Status::error("a scalar is " + std::to_string(value));
    Extent bytes = Extent(scalars[0]) * size;
    if (hasLimbs && scalars[1] < 1)
      return Status::error("it has no limbs");
    Extent part = bytes * (hasLimbs ? scalars[1] : 1);
    if (reduces)
      return expectRoom(command, 0, bytes, rows, true);
    if (scatters || gathers) {
      MIXLE_RETURN_IF_ERROR(
          expectRoom(command, 0, scatters ? part * ranks : bytes, rows, true));
      return expectRoom(command, 1, scatters ? part : bytes * ranks, rows,
                        true);
    }
    if (scalars[1] < 1 || scalars[1] > detail::maxGranules || scalars[2] < 1 ||
        scalars[2] > detail::maxGranules)
      return Status::error(std::to_string(scalars[1]) + " granules, " +
                           std::to_string(scalars[2]) +
                           " of them a rank; expected 1 to " +
                           std::to_string(detail::maxGranules));
    if ((Extent(scalars[2]) * ranks).count() < scalars[1])
      return Status::error(std::to_string(scalars[2]) +
                           " granules a rank do not cover " +
                           std::to_string(scalars[1]) + " over " +
                           std::to_string(ranks) + " ranks");
    MIXLE_RETURN_IF_ERROR(expectRoom(command, 1, bytes, rows, true));
    // The rank with the most subtrees; its partials lie one after another.
    if ((state.budget -= scalars[1] / scalars[2]) < 0)
      return Status::error("the program has too many granules to check");
    int64_t partials = maxPartials(scalars[1], scalars[2]);
    return expectRoom(command, 0, bytes * partials, rows, true);
  });
}

} // namespace

Status verifyEntry(VerifierState &state, const fb::RankClassT &body,
                   const fb::EntryT &entry) {
  return EntryVerifier(state, body, entry).run();
}

} // namespace mixle::runtime
