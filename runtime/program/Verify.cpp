//===- Verify.cpp - What a program says, checked --------------------------===//

#include "runtime/executor/Functions.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/program/FileStructure.h"
#include "runtime/program/Names.h"
#include "runtime/program/ProgramFile.h"
#include "runtime/program/Verifier.h"

#include <cmath>
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
  if (program.classes.size() != 1)
    return Status::error("it has " + std::to_string(program.classes.size()) +
                         " rank classes; this version has exactly 1");
  const fb::RankClassT &body = *program.classes[0];
  if (body.first_rank != 0 || body.rank_count != state.plan.worldSize())
    return Status::error(
        "its rank class covers " + std::to_string(body.rank_count) +
        " rank(s) from rank " + std::to_string(body.first_rank) +
        ", but its plan has ranks 0 to " +
        std::to_string(state.plan.worldSize() - 1));
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

static Status verifyUpdate(const fb::UpdateT &update) {
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
        verifyUpdate(*update).withContext("update '" + update->node_id + "'"));
  }
  return Status::success();
}

static Status verifyEntries(VerifierState &state) {
  const fb::RankClassT &body = *state.program.classes[0];
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

Status verifyProgram(const fb::ProgramT &program) {
  VerifierState state{program, planOf(program)};
  MIXLE_RETURN_IF_ERROR(verifyHeader(state));
  MIXLE_RETURN_IF_ERROR(verifyParameters(state));
  MIXLE_RETURN_IF_ERROR(verifyUpdates(state));
  MIXLE_RETURN_IF_ERROR(verifyCode(program));
  MIXLE_RETURN_IF_ERROR(verifyBuffers(state, *program.classes[0]));
  return verifyEntries(state);
}

} // namespace mixle::runtime
