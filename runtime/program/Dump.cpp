//===- Dump.cpp - Programs as a person reads them -------------------------===//

#include "runtime/program/Dump.h"
#include "runtime/base/KeyValues.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/program/Names.h"

#include <cstdio>

namespace mixle::runtime {

namespace {

std::string bytesText(int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof(text), unit ? "%.1f %s" : "%.0f %s", value,
                units[unit]);
  return text;
}

template <typename Range, typename Text>
std::string join(const Range &range, const char *separator, const Text &text) {
  std::string result;
  bool first = true;
  for (const auto &item : range) {
    if (!first)
      result += separator;
    first = false;
    result += text(item);
  }
  return result;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  return "[" + join(shape, ", ", [](int64_t n) { return std::to_string(n); }) +
         "]";
}
std::string axesText(const std::vector<fb::Axis> &axes) {
  return axes.empty() ? "no axis"
                      : join(axes, ", ", [](fb::Axis a) { return nameOf(a); });
}
std::string perRowText(int64_t fixed, int64_t perRow) {
  if (perRow == 0)
    return std::to_string(fixed);
  std::string rows = std::to_string(perRow) + " x rows";
  return fixed == 0 ? rows : std::to_string(fixed) + " + " + rows;
}
std::string quoted(const std::string &text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string stagesText(const std::vector<int32_t> &stages) {
  if (stages.empty())
    return std::string();
  return " on stages " + join(stages, " ", [](int32_t stage) {
           return std::to_string(stage);
         });
}

class TextDump {
public:
  explicit TextDump(const LoadedProgram &loaded)
      : loaded(loaded), program(loaded.program), body(&loaded.rankClass()) {}

  std::string run() {
    header();
    parameters();
    updates();
    for (const auto &rankClass : program.classes) {
      body = rankClass.get();
      if (body->stage >= 0)
        line("stage " + std::to_string(body->stage) + ", " +
             std::to_string(body->rank_count) + " rank(s):");
      memory();
      for (const auto &entry : body->entries)
        dumpEntry(*entry);
    }
    return std::move(out);
  }

private:
  void line(const std::string &text) { out += text + "\n"; }

  void header() {
    line("program " + quoted(program.name) + ": " + program.kind + ", " +
         program.numerics + ", " + nameOf(program.precision));
    line("  schema version " + std::to_string(program.schema_version) + ", " +
         std::to_string(loaded.fileBytes) + " bytes");
    line("  plan " + loaded.plan.asText() + " (" +
         std::to_string(loaded.plan.worldSize()) + " rank(s))");
    line("  batch " + std::to_string(program.batch) + ", sequence " +
         std::to_string(program.sequence) + ", at most " +
         std::to_string(body->max_rows) + " rows an iteration");
    attributes("granules", program.granules);
    attributes("config", program.config);
    attributes("file constants", program.file_constants);
    for (const auto &code : program.code)
      line("  code for " + code->target + ", " + code->cpu + " (" +
           join(code->features, ", ", [](const std::string &f) { return f; }) +
           "): " + bytesText(static_cast<int64_t>(code->elf.size())) + ", " +
           std::to_string(program.kernels.size()) + " kernels");
  }

  void attributes(const char *what,
                  const std::vector<std::unique_ptr<fb::AttributeT>> &list) {
    if (!list.empty())
      line(std::string("  ") + what + " " +
           join(list, ", ", [](const std::unique_ptr<fb::AttributeT> &a) {
             return a->key + "=" + a->value;
           }));
  }

  void memory() {
    int64_t perRow = 0;
    for (const auto &buffer : body->buffers)
      perRow += buffer->per_row * sizeOf(buffer->dtype);
    line("memory of a rank: " + bytesText(body->persistent_bytes) +
         " persistent, " + bytesText(body->scratch_bytes) +
         " scratch; buffers have " + bytesText(perRow) + " per row");
    for (const auto &buffer : body->buffers) {
      std::string text = "  %" + buffer->name + ": " + nameOf(buffer->kind) +
                         " " + nameOf(buffer->dtype) + "[" +
                         perRowText(buffer->fixed, buffer->per_row) + "]";
      if (buffer->offset >= 0)
        text += " at " + std::to_string(buffer->offset);
      if (buffer->slots > 1)
        text += ", " + std::to_string(buffer->slots) + " copies " +
                std::to_string(buffer->slot_stride) + " bytes apart";
      if (buffer->parameter >= 0)
        text += " of " + program.parameters[buffer->parameter]->logical_id;
      if (!buffer->slot.empty())
        text += " slot " + buffer->slot;
      line(text);
    }
  }

  void parameters() {
    line("parameters: " + std::to_string(program.parameters.size()));
    for (const auto &parameter : program.parameters) {
      const fb::ParameterT &p = *parameter;
      std::string text =
          "  " + p.logical_id + ": " + nameOf(p.dtype) + shapeText(p.shape);
      if (p.file_shape != p.shape)
        text += ", in files " + shapeText(p.file_shape);
      if (p.shard_dim >= 0)
        text += ", dimension " + std::to_string(p.shard_dim) + " over " +
                nameOf(p.shard_axis) + " in parts of " +
                std::to_string(p.shard_size);
      if (p.flat_shard > 0)
        text +=
            ", flat over dp_shard in parts of " + std::to_string(p.flat_shard);
      text += "; " + std::to_string(heldElements(p)) + " elements a rank";
      line(text);
      text = "    init " + nameOf(p.init) + "(" + numberText(p.init_a) +
             (p.init == fb::InitKind::Constant ? "" : ", " + numberText(p.init_b)) +
             "), " + (p.trained ? "trained" : "fixed") +
             (p.decay ? ", decays" : ", no decay");
      if (p.unit_index >= 0)
        text += ", unit " + std::to_string(p.unit_index) + " for at most " +
                std::to_string(p.max_blocks) +
                (p.one_token_blocks ? " one-token" : "") + " blocks";
      if (!p.stages.empty())
        text += "," + stagesText(p.stages);
      if (!p.shared_group.empty())
        text += ", shared group " + p.shared_group;
      if (!p.placements.empty())
        text += ", placed " +
                join(p.placements, " ", [](const std::string &s) { return s; });
      line(text + ", optimizer state " + nameOf(p.optimizer_state));
    }
  }

  void updates() {
    line("updates: " + std::to_string(program.updates.size()));
    for (const auto &update : program.updates) {
      const fb::UpdateT &u = *update;
      line("  " + u.node_id + ": " + nameOf(u.collective) + " of " +
           nameOf(u.payload) + " over " + axesText(u.mesh_axes) +
           stagesText(u.stages) + ", " +
           nameOf(u.dtype) + "[" +
           perRowText(u.elements_fixed, u.elements_per_row) + "], state " +
           nameOf(u.state_layout));
      std::string text = "    " + std::string(u.exact ? "exact" : "not exact") +
                         ", contract " +
                         (u.contract_exact ? "exact" : "not exact") +
                         ", order " + nameOf(u.reduction_order);
      if (!u.error_bound.empty())
        text += ", error at most " + u.error_bound;
      line(text);
      if (!u.numerics_evidence_id.empty())
        line("    observed (" + u.numerics_evidence_id + ", " +
             std::to_string(u.numerics_sample_count) + " samples): " +
             (u.determinism_observed ? "deterministic" : "not deterministic") +
             ", errors " + numberText(u.maximum_absolute_error) + " absolute, " +
             numberText(u.maximum_relative_error) + " relative");
      for (const std::string &note : u.notes)
        line("    note: " + note);
    }
  }

  void bindings(const char *what,
                const std::vector<std::unique_ptr<fb::BindingT>> &list) {
    for (const auto &binding : list)
      line(std::string("  ") + what + " " + binding->role + " = %" +
           body->buffers[binding->buffer]->name);
  }

  void dumpEntry(const fb::EntryT &entry) {
    line("entry " + entry.name + ":");
    bindings("input", entry.inputs);
    bindings("output", entry.outputs);
    nextIndex = 0;
    commands(entry.commands, "  ");
  }

  void commands(const std::vector<std::unique_ptr<fb::CommandT>> &list,
                const std::string &indent) {
    for (const auto &command : list) {
      line(indent + std::to_string(nextIndex++) + ": " + commandText(*command));
      commands(command->body, indent + "  ");
    }
  }

  std::string commandText(const fb::CommandT &c) {
    std::string text = describeCommand(c);
    if (c.kind == fb::CommandKind::Collective && c.name != "all_gather" &&
        c.name != "tree_all_reduce")
      text += " " + nameOf(c.combine);
    if (c.kind == fb::CommandKind::Collective)
      text += " " + nameOf(c.dtype);
    if (!c.buffers.empty())
      text += " (" +
              join(c.buffers, ", ",
                   [this](uint32_t b) { return "%" + body->buffers[b]->name; }) +
              ")";
    if (!c.scalars.empty())
      text += " [" + join(c.scalars, ", ", scalarText) + "]";
    if (!c.floats.empty())
      text += " {" + join(c.floats, ", ", numberText) + "}";
    if (!c.text.empty())
      text += " " + quoted(c.text);
    if (c.kind == fb::CommandKind::Schedule)
      text += " runs " + join(c.runs, " ", [](const fb::Run &run) {
                return std::to_string(run.phase()) + "/" +
                       std::to_string(run.microbatch()) + "@" +
                       std::to_string(run.slot());
              });
    if (!c.updates.empty())
      text += " over " + axesText(c.axes) + stagesText(c.stages) + " for " +
              join(c.updates, ", ",
                   [this](uint32_t u) { return program.updates[u]->node_id; });
    if (c.kind == fb::CommandKind::CommitIf)
      text += " else " + quoted(c.name);
    if (c.location < program.locations.size() &&
        !program.locations[c.location].empty())
      text += "   // " + program.locations[c.location];
    return text;
  }

  const LoadedProgram &loaded;
  const fb::ProgramT &program;
  /// The rank class that is being written.
  const fb::RankClassT *body;
  std::string out;
  /// Commands are numbered as in error messages: a loop before its body->
  int64_t nextIndex = 0;
};

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

template <typename Range, typename Value>
Json list(const Range &range, const Value &value) {
  Json result = Json::array();
  for (const auto &item : range)
    result.push_back(value(item));
  return result;
}

Json attributesJson(const std::vector<std::unique_ptr<fb::AttributeT>> &items) {
  Json result = Json::object();
  for (const auto &item : items)
    result[item->key] = item->value;
  return result;
}

Json axesJson(const std::vector<fb::Axis> &axes) {
  return list(axes, [](fb::Axis axis) { return nameOf(axis); });
}

Json parameterJson(const fb::ParameterT &p) {
  return {{"logical_id", p.logical_id},
          {"dtype", nameOf(p.dtype)},
          {"file_shape", p.file_shape},
          {"shape", p.shape},
          {"shard_dim", p.shard_dim},
          {"shard_axis", nameOf(p.shard_axis)},
          {"shard_size", p.shard_size},
          {"flat_shard", p.flat_shard},
          {"held_elements", heldElements(p)},
          {"init", nameOf(p.init)},
          {"init_a", p.init_a},
          {"init_b", p.init_b},
          {"decay", p.decay},
          {"trained", p.trained},
          {"unit_index", p.unit_index},
          {"max_blocks", p.max_blocks},
          {"one_token_blocks", p.one_token_blocks},
          {"shared_group", p.shared_group},
          {"placements", p.placements},
          {"optimizer_state", nameOf(p.optimizer_state)},
          {"stages", p.stages}};
}

Json updateJson(const fb::UpdateT &u) {
  return {{"node_id", u.node_id},
          {"payload", nameOf(u.payload)},
          {"collective", nameOf(u.collective)},
          {"mesh_axes", axesJson(u.mesh_axes)},
          {"state_layout", nameOf(u.state_layout)},
          {"exact", u.exact},
          {"contract_exact", u.contract_exact},
          {"notes", u.notes},
          {"reduction_order", nameOf(u.reduction_order)},
          {"error_bound", u.error_bound},
          {"determinism_observed", u.determinism_observed},
          {"maximum_absolute_error", u.maximum_absolute_error},
          {"maximum_relative_error", u.maximum_relative_error},
          {"numerics_evidence_id", u.numerics_evidence_id},
          {"numerics_sample_count", u.numerics_sample_count},
          {"elements_fixed", u.elements_fixed},
          {"elements_per_row", u.elements_per_row},
          {"dtype", nameOf(u.dtype)},
          {"stages", u.stages}};
}

class JsonDump {
public:
  explicit JsonDump(const LoadedProgram &loaded)
      : loaded(loaded), program(loaded.program), body(&loaded.rankClass()) {}

  Json run() {
    Json plan = Json::object();
    auto fields = loaded.plan.fields();
    for (size_t i = 0; i < fields.size(); ++i)
      plan[std::string(ParallelPlan::fieldNames()[i])] = fields[i];
    plan["world_size"] = loaded.plan.worldSize();
    plan["data_parallel_size"] = loaded.plan.dataParallelSize();
    Json result = {
        {"schema_version", program.schema_version},
        {"name", program.name},
        {"kind", program.kind},
        {"numerics", program.numerics},
        {"precision", nameOf(program.precision)},
        {"plan", plan},
        {"batch", program.batch},
        {"sequence", program.sequence},
        {"granules", attributesJson(program.granules)},
        {"config", attributesJson(program.config)},
        {"file_constants", attributesJson(program.file_constants)},
        {"file_bytes", loaded.fileBytes},
        {"parameters", list(program.parameters,
                            [](const auto &p) { return parameterJson(*p); })},
        {"updates",
         list(program.updates, [](const auto &u) { return updateJson(*u); })},
        {"kernels", program.kernels},
        {"code", list(program.code,
                      [](const auto &c) {
                        return Json{{"target", c->target},
                                    {"cpu", c->cpu},
                                    {"features", c->features},
                                    {"bytes", c->elf.size()}};
                      })}};
    if (program.classes.size() == 1) {
      result.update(classJson());
      return result;
    }
    for (const auto &rankClass : program.classes) {
      body = rankClass.get();
      Json entry = classJson();
      entry["stage"] = body->stage;
      entry["rank_count"] = body->rank_count;
      result["classes"].push_back(std::move(entry));
    }
    return result;
  }

private:
  Json classJson() {
    return {
        {"max_rows", body->max_rows},
        {"scratch_bytes", body->scratch_bytes},
        {"persistent_bytes", body->persistent_bytes},
        {"buffers",
         list(body->buffers, [this](const auto &b) { return bufferJson(*b); })},
        {"entries",
         list(body->entries, [this](const auto &e) { return entryJson(*e); })}};
  }

  Json bufferJson(const fb::BufferT &b) {
    Json result = {{"name", b.name},           {"kind", nameOf(b.kind)},
                   {"dtype", nameOf(b.dtype)}, {"fixed", b.fixed},
                   {"per_row", b.per_row},     {"offset", b.offset}};
    if (b.parameter >= 0)
      result["parameter"] = program.parameters[b.parameter]->logical_id;
    if (!b.slot.empty())
      result["slot"] = b.slot;
    if (b.slots > 1) {
      result["slots"] = b.slots;
      result["slot_stride"] = b.slot_stride;
    }
    return result;
  }

  Json bindingsJson(const std::vector<std::unique_ptr<fb::BindingT>> &items) {
    return list(items, [this](const auto &b) {
      return Json{{"role", b->role},
                  {"buffer", body->buffers[b->buffer]->name},
                  {"per_row", b->per_row},
                  {"dtype", nameOf(b->dtype)}};
    });
  }

  Json entryJson(const fb::EntryT &e) {
    return {{"name", e.name},
            {"inputs", bindingsJson(e.inputs)},
            {"outputs", bindingsJson(e.outputs)},
            {"commands", commandsJson(e.commands)}};
  }

  Json commandsJson(const std::vector<std::unique_ptr<fb::CommandT>> &items) {
    return list(items, [this](const auto &c) { return commandJson(*c); });
  }

  Json commandJson(const fb::CommandT &c) {
    Json result = {{"kind", nameOf(c.kind)}};
    if (!c.name.empty())
      result["name"] = c.name;
    if (!c.buffers.empty())
      result["buffers"] =
          list(c.buffers, [this](uint32_t b) { return body->buffers[b]->name; });
    if (!c.scalars.empty())
      result["scalars"] = list(c.scalars, scalarText);
    if (!c.floats.empty())
      result["floats"] = c.floats;
    if (!c.text.empty())
      result["text"] = c.text;
    if (c.kind == fb::CommandKind::Collective) {
      result["dtype"] = nameOf(c.dtype);
      result["combine"] = nameOf(c.combine);
      result["axes"] = axesJson(c.axes);
      result["updates"] = list(c.updates, [this](uint32_t u) {
        return program.updates[u]->node_id;
      });
    }
    if (!c.body.empty())
      result["body"] = commandsJson(c.body);
    if (c.location < program.locations.size())
      result["location"] = program.locations[c.location];
    return result;
  }

  const LoadedProgram &loaded;
  const fb::ProgramT &program;
  /// The rank class that is being written.
  const fb::RankClassT *body;
};

} // namespace

std::string scalarText(const fb::Scalar &scalar) {
  const std::string a = std::to_string(scalar.a());
  const std::string axis = nameOf(scalar.axis());
  switch (scalar.kind()) {
  case fb::ScalarKind::Constant:
    return a;
  case fb::ScalarKind::Rows:
    return "rows*" + a;
  case fb::ScalarKind::RowStart:
    return "row_start*" + a;
  case fb::ScalarKind::Offset:
    return axis + "*" + a;
  case fb::ScalarKind::Owned:
    return "owned(" + std::to_string(scalar.b()) + "-" + axis + "*" + a + ", " +
           a + ")";
  case fb::ScalarKind::Coordinate:
    return axis + "*" + a + "+" + std::to_string(scalar.b());
  }
  return "?";
}

std::string dumpText(const LoadedProgram &program) {
  return TextDump(program).run();
}

Json dumpJson(const LoadedProgram &program) { return JsonDump(program).run(); }

} // namespace mixle::runtime
