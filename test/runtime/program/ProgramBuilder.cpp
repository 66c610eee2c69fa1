//===- ProgramBuilder.cpp - Programs made by hand -------------------------===//

#include "test/runtime/program/ProgramBuilder.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/program/Names.h"

namespace mixle::runtime::test {

fb::Scalar constant(int64_t a) {
  return fb::Scalar(fb::ScalarKind::Constant, fb::Axis::DpReplicate, a, 0);
}
fb::Scalar rows(int64_t a) {
  return fb::Scalar(fb::ScalarKind::Rows, fb::Axis::DpReplicate, a, 0);
}
fb::Scalar rowStart(int64_t a) {
  return fb::Scalar(fb::ScalarKind::RowStart, fb::Axis::DpReplicate, a, 0);
}
fb::Scalar offset(fb::Axis axis, int64_t a) {
  return fb::Scalar(fb::ScalarKind::Offset, axis, a, 0);
}
fb::Scalar owned(fb::Axis axis, int64_t part, int64_t all) {
  return fb::Scalar(fb::ScalarKind::Owned, axis, part, all);
}
fb::Scalar coordinate(fb::Axis axis, int64_t a, int64_t b) {
  return fb::Scalar(fb::ScalarKind::Coordinate, axis, a, b);
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

fb::CommandT &CommandWriter::append(fb::CommandKind kind) {
  list.push_back(std::make_unique<fb::CommandT>());
  list.back()->kind = kind;
  return *list.back();
}

fb::CommandT &CommandWriter::call(const std::string &function,
                                  std::vector<uint32_t> buffers,
                                  std::vector<fb::Scalar> scalars,
                                  std::vector<double> floats,
                                  const std::string &text) {
  fb::CommandT &command = append(fb::CommandKind::Call);
  command.name = function;
  command.buffers = std::move(buffers);
  command.scalars = std::move(scalars);
  command.floats = std::move(floats);
  command.text = text;
  return command;
}

fb::CommandT &CommandWriter::launch(const std::string &kernel,
                                    std::vector<uint32_t> buffers,
                                    std::vector<fb::Scalar> scalars) {
  fb::CommandT &command = append(fb::CommandKind::Launch);
  command.name = kernel;
  command.buffers = std::move(buffers);
  command.scalars = std::move(scalars);
  return command;
}

fb::CommandT &CommandWriter::collective(const std::string &name,
                                        std::vector<uint32_t> buffers,
                                        std::vector<fb::Scalar> scalars,
                                        fb::DataType dtype, fb::Combine combine,
                                        std::vector<fb::Axis> axes,
                                        std::vector<uint32_t> updates) {
  fb::CommandT &command = append(fb::CommandKind::Collective);
  command.name = name;
  command.buffers = std::move(buffers);
  command.scalars = std::move(scalars);
  command.dtype = dtype;
  command.combine = combine;
  command.axes = std::move(axes);
  command.updates = std::move(updates);
  return command;
}

fb::CommandT &CommandWriter::copy(uint32_t from, uint32_t to,
                                  fb::Scalar bytes) {
  fb::CommandT &command = append(fb::CommandKind::Copy);
  command.buffers = {from, to};
  command.scalars = {bytes};
  return command;
}

fb::CommandT &CommandWriter::fill(uint32_t to, fb::Scalar bytes) {
  fb::CommandT &command = append(fb::CommandKind::Fill);
  command.buffers = {to};
  command.scalars = {bytes};
  return command;
}

CommandWriter CommandWriter::loop(int64_t iterations) {
  fb::CommandT &command = append(fb::CommandKind::Loop);
  command.scalars = {constant(iterations)};
  return CommandWriter(command.body);
}

fb::CommandT &CommandWriter::retry(uint32_t flag) {
  fb::CommandT &command = append(fb::CommandKind::Retry);
  command.buffers = {flag};
  return command;
}

fb::CommandT &CommandWriter::commitIf(uint32_t flag,
                                      const std::string &reason) {
  fb::CommandT &command = append(fb::CommandKind::CommitIf);
  command.buffers = {flag};
  command.name = reason;
  return command;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

ProgramBuilder::ProgramBuilder(const std::string &kind,
                               const ParallelPlan &plan, int64_t maxRows)
    : plan(plan) {
  program.schema_version = programSchemaVersion;
  program.name = "by hand";
  program.kind = kind;
  program.numerics = "reproducible";
  program.precision = fb::DataType::F32;
  program.batch = 8;
  program.sequence = 4;
  auto stored = std::make_unique<fb::PlanT>();
  stored->dp_replicate = static_cast<int32_t>(plan.dpReplicate);
  stored->dp_shard = static_cast<int32_t>(plan.dpShard);
  stored->tp = static_cast<int32_t>(plan.tp);
  stored->pp = static_cast<int32_t>(plan.pp);
  stored->cp = static_cast<int32_t>(plan.cp);
  stored->microbatches = static_cast<int32_t>(plan.microbatches);
  program.plan = std::move(stored);
  program.classes.push_back(std::make_unique<fb::RankClassT>());
  body().first_rank = 0;
  body().rank_count = static_cast<int32_t>(plan.worldSize());
  body().max_rows = maxRows;
}

fb::RankClassT &ProgramBuilder::body() { return *program.classes[0]; }

uint32_t ProgramBuilder::buffer(const std::string &name, fb::BufferKind kind,
                                fb::DataType dtype, int64_t fixed,
                                int64_t perRow, int32_t parameter,
                                const std::string &slot) {
  auto made = std::make_unique<fb::BufferT>();
  made->name = name;
  made->kind = kind;
  made->dtype = dtype;
  made->fixed = fixed;
  made->per_row = perRow;
  made->parameter = parameter;
  made->slot = slot;
  if (kind != fb::BufferKind::Input) {
    bool scratch = kind == fb::BufferKind::Scratch;
    int64_t &end = scratch ? body().scratch_bytes : body().persistent_bytes;
    made->offset = end;
    int64_t bytes =
        (fixed + perRow * body().max_rows) * mixle::runtime::sizeOf(dtype);
    end += (bytes + 63) / 64 * 64;
  }
  body().buffers.push_back(std::move(made));
  return static_cast<uint32_t>(body().buffers.size() - 1);
}

uint32_t ProgramBuilder::parameter(const fb::ParameterT &parameter) {
  auto stored = std::make_unique<fb::ParameterT>(parameter);
  if (stored->file_shape.empty())
    stored->file_shape = stored->shape;
  int32_t index = static_cast<int32_t>(program.parameters.size());
  int64_t held = heldElements(*stored);
  program.parameters.push_back(std::move(stored));
  return buffer(parameter.logical_id, fb::BufferKind::Parameter,
                parameter.dtype, held, 0, index);
}

uint32_t ProgramBuilder::update(const std::string &id, fb::Payload payload,
                                fb::Collective collective,
                                std::vector<fb::Axis> axes, fb::Order order,
                                fb::DataType dtype, int64_t elements) {
  auto made = std::make_unique<fb::UpdateT>();
  made->node_id = id;
  made->payload = payload;
  made->collective = collective;
  made->mesh_axes = std::move(axes);
  made->reduction_order = order;
  made->dtype = dtype;
  made->elements_fixed = elements;
  made->contract_exact = true;
  program.updates.push_back(std::move(made));
  return static_cast<uint32_t>(program.updates.size() - 1);
}

fb::EntryT &ProgramBuilder::entryNamed(const std::string &name) {
  for (const auto &entry : body().entries)
    if (entry->name == name)
      return *entry;
  body().entries.push_back(std::make_unique<fb::EntryT>());
  body().entries.back()->name = name;
  return *body().entries.back();
}

CommandWriter ProgramBuilder::entry(const std::string &name) {
  return CommandWriter(entryNamed(name).commands);
}

static std::unique_ptr<fb::BindingT>
bindingOf(const std::string &role, uint32_t index, const fb::BufferT &buffer) {
  auto binding = std::make_unique<fb::BindingT>();
  binding->role = role;
  binding->buffer = index;
  binding->per_row = buffer.per_row;
  binding->dtype = buffer.dtype;
  return binding;
}

void ProgramBuilder::input(const std::string &entry, const std::string &role,
                           uint32_t buffer) {
  entryNamed(entry).inputs.push_back(
      bindingOf(role, buffer, *body().buffers[buffer]));
}

void ProgramBuilder::output(const std::string &entry, const std::string &role,
                            uint32_t buffer) {
  entryNamed(entry).outputs.push_back(
      bindingOf(role, buffer, *body().buffers[buffer]));
}

std::vector<fb::Axis> ProgramBuilder::activeAxes() const {
  std::vector<fb::Axis> axes;
  for (size_t i = 0; i < numMeshAxes; ++i)
    if (plan.size(static_cast<ParallelAxis>(i)) > 1)
      axes.push_back(static_cast<fb::Axis>(i));
  return axes;
}

int64_t ProgramBuilder::axisSize(fb::Axis axis) const {
  return plan.size(static_cast<ParallelAxis>(axis));
}

fb::ProgramT ProgramBuilder::finish() {
  for (const char *name : {"initialize", "reset", "accumulate"})
    entryNamed(name);
  if (program.kind == "training") {
    entryNamed("step");
    entryNamed("evaluate");
  } else {
    entryNamed("estimate");
  }
  return program;
}

Expected<std::shared_ptr<const LoadedProgram>>
loadBytes(const fb::ProgramT &program) {
  std::string bytes = serializeProgram(program);
  return parseProgram(reinterpret_cast<const uint8_t *>(bytes.data()),
                      bytes.size(), "by hand");
}

} // namespace mixle::runtime::test
