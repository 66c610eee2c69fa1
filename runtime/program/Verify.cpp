//===- Verify.cpp - What a program says, checked --------------------------===//

#include "runtime/executor/Functions.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/program/FileStructure.h"
#include "runtime/program/Names.h"
#include "runtime/program/ProgramFile.h"
#include "runtime/program/Verifier.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace mixle::runtime {

/// Most ranks of a program; bounds what is enumerated over ranks.
static constexpr int64_t maxWorldSize = 1 << 20;

static Status verifyHeader(const VerifierState &state) {
  const fb::ProgramT &program = state.program;
  MIXLE_RETURN_IF_ERROR(checkSchemaVersion(program.schema_version));
  if (program.kind != "training" && program.kind != "estimation")
    return Status::error("its kind is '" + program.kind +
                         "'; expected 'training' or 'estimation'");
  if (program.numerics != "reproducible" && program.numerics != "fast")
    return Status::error("its numerics are '" + program.numerics +
                         "'; expected 'reproducible' or 'fast'");
  if (program.precision != fb::DataType::F32 &&
      program.precision != fb::DataType::F64)
    return Status::error("its precision is " + nameOf(program.precision) +
                         "; expected f32 or f64");
  if (program.batch < 1 || program.sequence < 1)
    return Status::error("batch " + std::to_string(program.batch) +
                         " and sequence " + std::to_string(program.sequence) +
                         " must be at least 1");
  if (!program.plan)
    return Status::error("it states no plan");
  MIXLE_RETURN_IF_ERROR(state.plan.validate().withContext("its plan"));
  if (state.plan.worldSize() > maxWorldSize)
    return Status::error(
        "its plan has " + std::to_string(state.plan.worldSize()) +
        " ranks; expected at most " + std::to_string(maxWorldSize));
  size_t stages = static_cast<size_t>(state.plan.pp);
  if (program.classes.size() != stages)
    return Status::error("it has " + std::to_string(program.classes.size()) +
                         " rank classes; expected one for each of the " +
                         std::to_string(stages) + " stage(s) of its plan");
  for (size_t i = 0; i < stages; ++i) {
    const fb::RankClassT &body = *program.classes[i];
    int32_t stage = stages == 1 ? -1 : static_cast<int32_t>(i);
    int64_t first = static_cast<int64_t>(i) * state.plan.cp;
    int64_t count = state.plan.worldSize() / state.plan.pp;
    if (body.stage != stage || body.first_rank != first ||
        body.rank_count != count)
      return Status::error(
          "its rank class " + std::to_string(i) + " is of stage " +
          std::to_string(body.stage) + " and covers " +
          std::to_string(body.rank_count) + " rank(s) from rank " +
          std::to_string(body.first_rank) + "; expected stage " +
          std::to_string(stage) + " and " + std::to_string(count) +
          " from rank " + std::to_string(first));
  }
  return Status::success();
}

static Status verifyParameter(const VerifierState &state,
                              const fb::ParameterT &parameter) {
  if (parameter.dtype != fb::DataType::F32 &&
      parameter.dtype != fb::DataType::F64)
    return Status::error("its type is " + nameOf(parameter.dtype) +
                         "; expected f32 or f64");
  MIXLE_RETURN_IF_ERROR(checkParameterLayout(parameter, state.plan));
  if (!isEnumValue(parameter.init))
    return Status::error("its init is " + nameOf(parameter.init) +
                         ", which is no initialisation");
  if (!std::isfinite(parameter.init_a) || !std::isfinite(parameter.init_b))
    return Status::error("its initialisation has a number that is not finite");
  if (!isEnumValue(parameter.optimizer_state))
    return Status::error("its optimizer_state is " +
                         nameOf(parameter.optimizer_state) +
                         ", which is no layout");
  if (parameter.unit_index < -1 || parameter.unit_index >= detail::maxUnits)
    return Status::error("its unit_index is " +
                         std::to_string(parameter.unit_index));
  if (parameter.max_blocks < 0 ||
      (parameter.unit_index >= 0 && parameter.max_blocks < 1))
    return Status::error("its max_blocks is " +
                         std::to_string(parameter.max_blocks) +
                         "; expected at least 1");
  return Status::success();
}

static Status verifyParameters(const VerifierState &state) {
  std::set<std::string> ids;
  std::set<int32_t> units;
  for (const auto &parameter : state.program.parameters) {
    const std::string &id = parameter->logical_id;
    if (id.empty())
      return Status::error("a parameter has no logical_id");
    if (!ids.insert(id).second)
      return Status::error("two parameters have the logical_id '" + id + "'");
    MIXLE_RETURN_IF_ERROR(verifyParameter(state, *parameter)
                              .withContext("parameter '" + id + "'"));
    if (parameter->unit_index >= 0 &&
        !units.insert(parameter->unit_index).second)
      return Status::error("parameter '" + id + "': its unit_index " +
                           std::to_string(parameter->unit_index) +
                           " is another parameter's too");
  }
  return Status::success();
}

Status verifyAxes(const std::vector<fb::Axis> &axes) {
  std::set<fb::Axis> seen;
  for (fb::Axis axis : axes) {
    if (!isEnumValue(axis))
      return Status::error("axis " + nameOf(axis) + " is no mesh axis");
    if (!seen.insert(axis).second)
      return Status::error("axis " + nameOf(axis) + " occurs twice");
  }
  return Status::success();
}

Status verifyStages(const VerifierState &state,
                    const std::vector<fb::Axis> &axes,
                    const std::vector<int32_t> &stages) {
  if (stages.empty())
    return Status::success();
  if (std::find(axes.begin(), axes.end(), fb::Axis::Pp) == axes.end())
    return Status::error("it names stages, but does not go over pp");
  for (size_t i = 0; i < stages.size(); ++i)
    if (stages[i] < 0 || stages[i] >= state.plan.pp ||
        (i > 0 && stages[i] <= stages[i - 1]))
      return Status::error("its stages are not increasing coordinates along "
                           "pp, of which there are " +
                           std::to_string(state.plan.pp));
  return Status::success();
}

static Status verifyUpdate(const VerifierState &state,
                           const fb::UpdateT &update) {
  if (!isEnumValue(update.payload) || !isEnumValue(update.collective) ||
      !isEnumValue(update.state_layout) ||
      !isEnumValue(update.reduction_order) || !isEnumValue(update.dtype))
    return Status::error("its payload (" + nameOf(update.payload) +
                         "), collective (" + nameOf(update.collective) +
                         "), state_layout (" + nameOf(update.state_layout) +
                         "), reduction_order (" +
                         nameOf(update.reduction_order) + ") or type (" +
                         nameOf(update.dtype) + ") is unknown");
  MIXLE_RETURN_IF_ERROR(verifyAxes(update.mesh_axes));
  if (update.collective == fb::Collective::P2p) {
    if (update.mesh_axes != std::vector<fb::Axis>{fb::Axis::Pp} ||
        update.stages.size() != 2 || update.stages[0] == update.stages[1])
      return Status::error("a p2p update goes over pp, from one stage to "
                           "another");
    for (int32_t stage : update.stages)
      if (stage < 0 || stage >= state.plan.pp)
        return Status::error("its stage " + std::to_string(stage) +
                             " is none of the plan's " +
                             std::to_string(state.plan.pp));
  } else {
    MIXLE_RETURN_IF_ERROR(
        verifyStages(state, update.mesh_axes, update.stages));
  }
  if (update.exact && update.collective != fb::Collective::None)
    return Status::error("it claims to be exact with collective " +
                         nameOf(update.collective) +
                         "; only collective none is");
  if (update.elements_fixed < 0 || update.elements_per_row < 0)
    return Status::error("it exchanges a negative number of elements");
  bool hasErrors =
      update.maximum_absolute_error != 0 || update.maximum_relative_error != 0;
  if (update.numerics_evidence_id.empty()) {
    if (update.numerics_sample_count != 0 || update.determinism_observed ||
        hasErrors)
      return Status::error("it has numerical evidence without an evidence id; "
                           "evidence is all or nothing");
    return Status::success();
  }
  auto isBound = [](double x) { return std::isfinite(x) && x >= 0; };
  if (update.numerics_sample_count < 1 ||
      !isBound(update.maximum_absolute_error) ||
      !isBound(update.maximum_relative_error))
    return Status::error("its numerical evidence '" +
                         update.numerics_evidence_id +
                         "' needs a sample count of at least 1 and finite, "
                         "non-negative errors");
  return Status::success();
}

Status verifyUpdates(const VerifierState &state) {
  for (const auto &update : state.program.updates) {
    if (update->node_id.find_first_not_of(" \t\r\n") == std::string::npos)
      return Status::error("an update has a blank node_id");
    MIXLE_RETURN_IF_ERROR(
        verifyUpdate(state, *update).withContext("update '" + update->node_id + "'"));
  }
  return Status::success();
}

static Status verifyEntries(VerifierState &state, const fb::RankClassT &body) {
  std::set<std::string> names;
  for (const auto &entry : body.entries)
    if (!names.insert(entry->name).second)
      return Status::error("two entries are named '" + entry->name + "'");
  std::vector<const char *> needed = {"initialize", "reset", "accumulate"};
  if (state.program.kind == "training")
    needed.insert(needed.end(), {"step", "evaluate"});
  else
    needed.push_back("estimate");
  for (const char *name : needed)
    if (!names.count(name))
      return Status::error("it has no entry '" + std::string(name) +
                           "', which every program of kind '" +
                           state.program.kind + "' has");
  for (const auto &entry : body.entries)
    MIXLE_RETURN_IF_ERROR(verifyEntry(state, body, *entry)
                              .withContext("entry '" + entry->name + "'"));
  return Status::success();
}

namespace {
/// What one rank class sends and receives under an update, in order: the
/// microbatch of each message, and its elements.
struct Message {
  int64_t microbatch;
  int64_t fixed, perRow;
  bool operator==(const Message &other) const {
    return microbatch == other.microbatch && fixed == other.fixed &&
           perRow == other.perRow;
  }
};

class TransferVerifier {
public:
  explicit TransferVerifier(VerifierState &state) : state(state) {}

  /// Every message is sent and received, in one order, from and to the ranks
  /// that the update names.
  Status run() {
    for (const auto &body : state.program.classes)
      for (const auto &entry : body->entries)
        MIXLE_RETURN_IF_ERROR(collect(*body, entry->name, entry->commands, -1));
    for (const auto &item : messages) {
      const fb::UpdateT &update = *state.program.updates[item.first.second];
      if (item.second.sent == item.second.received)
        continue;
      return Status::error("entry '" + item.first.first + "', update '" +
                           update.node_id + "': stage " +
                           std::to_string(update.stages[0]) + " sends " +
                           std::to_string(item.second.sent.size()) +
                           " message(s), but stage " +
                           std::to_string(update.stages[1]) + " expects " +
                           std::to_string(item.second.received.size()) +
                           " or in another order or size");
    }
    return Status::success();
  }

private:
  struct Both {
    std::vector<Message> sent, received;
  };

  Status collect(const fb::RankClassT &body, const std::string &entry,
                 const std::vector<std::unique_ptr<fb::CommandT>> &list,
                 int64_t microbatch) {
    for (const auto &command : list) {
      if ((state.budget -= 1) < 0)
        return Status::error("the program has too many commands to check");
      bool sends = command->kind == fb::CommandKind::Send;
      if (sends || command->kind == fb::CommandKind::Recv) {
        const fb::UpdateT &update =
            *state.program.updates[command->updates[0]];
        const fb::Scalar &n = command->scalars[0];
        bool rows = n.kind() == fb::ScalarKind::Rows;
        int64_t peer = command->scalars[1].a();
        if (body.stage != update.stages[sends ? 0 : 1] ||
            peer != update.stages[sends ? 1 : 0])
          return Status::error("entry '" + entry + "', update '" +
                               update.node_id + "': stage " +
                               std::to_string(body.stage) +
                               (sends ? " sends to" : " receives from") +
                               " stage " + std::to_string(peer));
        Both &both = messages[{entry, command->updates[0]}];
        (sends ? both.sent : both.received)
            .push_back({microbatch, rows ? 0 : n.a(), rows ? n.a() : 0});
      }
      if (command->kind == fb::CommandKind::Schedule)
        for (const fb::Run &run : command->runs)
          MIXLE_RETURN_IF_ERROR(collect(body, entry,
                                        command->body[run.phase()]->body,
                                        run.microbatch()));
      else
        MIXLE_RETURN_IF_ERROR(collect(body, entry, command->body, microbatch));
    }
    return Status::success();
  }

  VerifierState &state;
  std::map<std::pair<std::string, uint32_t>, Both> messages;
};
} // namespace

static Status verifyTransfers(VerifierState &state) {
  if (state.program.classes.size() == 1)
    return Status::success();
  return TransferVerifier(state).run();
}

Status verifyProgram(const fb::ProgramT &program) {
  VerifierState state{program, planOf(program)};
  MIXLE_RETURN_IF_ERROR(verifyHeader(state));
  MIXLE_RETURN_IF_ERROR(verifyParameters(state));
  MIXLE_RETURN_IF_ERROR(verifyUpdates(state));
  MIXLE_RETURN_IF_ERROR(verifyCode(program));
  for (const auto &body : program.classes) {
    Status status = verifyBuffers(state, *body);
    if (status.ok())
      status = verifyEntries(state, *body);
    if (!status.ok() && body->stage >= 0)
      status = status.withContext("stage " + std::to_string(body->stage));
    MIXLE_RETURN_IF_ERROR(status);
  }
  return verifyTransfers(state);
}

} // namespace mixle::runtime
