//===- Emit.cpp - From an exec.program to a program file ------------------===//

#include "compiler/Emit/Emit.h"
#include "runtime/program/Names.h"
#include "runtime/program/ProgramFile.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include <charconv>

using namespace mlir;
using namespace mlir::exec;
namespace fb = ::mixle::runtime::fb;

namespace {

fb::DataType dataType(Type type) {
  if (type.isF32())
    return fb::DataType::F32;
  if (type.isF64())
    return fb::DataType::F64;
  if (type.isUnsignedInteger(32))
    return fb::DataType::U32;
  if (type.isUnsignedInteger(64))
    return fb::DataType::U64;
  if (type.isInteger(32))
    return fb::DataType::I32;
  if (type.isInteger(64))
    return fb::DataType::I64;
  return fb::DataType::I8;
}

fb::Axis axisOf(StringRef name) {
  return llvm::StringSwitch<fb::Axis>(name)
      .Case("dp_replicate", fb::Axis::DpReplicate)
      .Case("dp_shard", fb::Axis::DpShard)
      .Case("pp", fb::Axis::Pp)
      .Case("cp", fb::Axis::Cp)
      .Default(fb::Axis::Tp);
}

/// The shortest text that reads back as the same number.
std::string numberText(double value) {
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

/// Config and granule values as the file's attribute texts.
std::string attributeText(Attribute value) {
  if (auto text = dyn_cast<StringAttr>(value))
    return text.getValue().str();
  if (auto flag = dyn_cast<BoolAttr>(value))
    return flag.getValue() ? "true" : "false";
  if (auto number = dyn_cast<IntegerAttr>(value))
    return std::to_string(number.getInt());
  if (auto number = dyn_cast<FloatAttr>(value))
    return numberText(number.getValueAsDouble());
  // A constant that weight files carry (file_constants), a scalar tensor.
  if (auto scalar = dyn_cast<DenseFPElementsAttr>(value);
      scalar && scalar.getType().getRank() == 0)
    return numberText(scalar.getSplatValue<APFloat>().convertToDouble());
  std::string text;
  llvm::raw_string_ostream stream(text);
  value.print(stream);
  return text;
}

struct Emitter {
  ProgramOp program;
  fb::ProgramT &out;
  fb::RankClassT *rankClass = nullptr; ///< that `program` becomes
  llvm::StringMap<uint32_t> buffers, kernels, updates, parameters;

  StringRef text(DictionaryAttr dictionary, StringRef key) {
    auto value = dictionary.getAs<StringAttr>(key);
    return value ? value.getValue() : StringRef();
  }
  int64_t number(DictionaryAttr dictionary, StringRef key, int64_t fallback = 0) {
    auto value = dictionary.getAs<IntegerAttr>(key);
    return value ? value.getInt() : fallback;
  }
  bool flag(DictionaryAttr dictionary, StringRef key) {
    auto value = dictionary.getAs<BoolAttr>(key);
    return value && value.getValue();
  }
  double real(DictionaryAttr dictionary, StringRef key) {
    auto value = dictionary.getAs<FloatAttr>(key);
    return value ? value.getValueAsDouble() : 0;
  }

  /// A rank class, and what only it says.
  void beginClass() {
    DictionaryAttr config = program.getConfig();
    auto next = std::make_unique<fb::RankClassT>();
    rankClass = next.get();
    auto &p = *out.plan;
    int64_t stage = number(config, "stage", -1);
    rankClass->stage = static_cast<int32_t>(stage);
    rankClass->first_rank = static_cast<int32_t>(stage < 0 ? 0 : stage * p.cp);
    rankClass->rank_count = p.dp_replicate * p.dp_shard * p.tp * p.cp;
    rankClass->max_rows = number(config, "max_rows", 1);
    rankClass->scratch_bytes = number(config, "scratch_bytes");
    rankClass->persistent_bytes = number(config, "persistent_bytes");
    out.classes.push_back(std::move(next));
    buffers.clear();
  }

  void header() {
    DictionaryAttr config = program.getConfig();
    out.schema_version = ::mixle::runtime::programSchemaVersion;
    out.name = program.getSymName().str();
    out.kind = text(config, "kind").str();
    out.numerics = text(config, "numerics").str();
    if (auto precision = config.getAs<TypeAttr>("precision"))
      out.precision = dataType(precision.getValue());
    out.plan = std::make_unique<fb::PlanT>();
    auto plan = config.getAs<DictionaryAttr>("plan");
    auto field = [&](StringRef name) {
      return static_cast<int32_t>(number(plan, name, 1));
    };
    out.plan->dp_replicate = field("dp_replicate");
    out.plan->dp_shard = field("dp_shard");
    out.plan->tp = field("tp");
    out.plan->pp = field("pp");
    out.plan->cp = field("cp");
    out.plan->ep = field("ep");
    out.plan->etp = field("etp");
    out.plan->microbatches = field("microbatches");
    out.plan->gradient_accumulation_steps = field("gradient_accumulation_steps");
    out.batch = number(config, "batch", 1);
    out.sequence = number(config, "sequence", 1);
    auto attributes = [](DictionaryAttr from,
                         std::vector<std::unique_ptr<fb::AttributeT>> &to,
                         ArrayRef<StringRef> skipped) {
      for (NamedAttribute entry : from) {
        if (llvm::is_contained(skipped, entry.getName().getValue()))
          continue;
        auto attribute = std::make_unique<fb::AttributeT>();
        attribute->key = entry.getName().getValue().str();
        attribute->value = attributeText(entry.getValue());
        to.push_back(std::move(attribute));
      }
    };
    if (auto granules = config.getAs<DictionaryAttr>("granules"))
      attributes(granules, out.granules, {});
    if (auto constants = config.getAs<DictionaryAttr>("file_constants"))
      attributes(constants, out.file_constants, {});
    attributes(config, out.config,
               {"granules", "plan", "precision", "kind", "numerics", "batch",
                "sequence", "file_constants", "scratch_bytes",
                "persistent_bytes", "max_rows", "stage"});
    out.locations.push_back("");
  }

  void parameter(ParameterOp op) {
    DictionaryAttr layout = op.getLayout();
    auto table = std::make_unique<fb::ParameterT>();
    table->logical_id = op.getSymName().str();
    table->dtype = dataType(layout.getAs<TypeAttr>("dtype").getValue());
    auto shape = [&](StringRef key) {
      auto values = layout.getAs<DenseI64ArrayAttr>(key).asArrayRef();
      return std::vector<int64_t>(values.begin(), values.end());
    };
    table->file_shape = shape("file_shape");
    table->shape = shape("shape");
    table->shard_dim = static_cast<int32_t>(number(layout, "shard_dim", -1));
    table->shard_axis = fb::Axis::Tp;
    table->shard_size = number(layout, "shard_size");
    table->flat_shard = number(layout, "flat_shard");
    auto init = layout.getAs<DictionaryAttr>("init");
    StringRef kind = text(init, "kind");
    if (kind == "normal") {
      table->init = fb::InitKind::Normal;
      table->init_a = real(init, "mean");
      table->init_b = real(init, "std");
    } else if (kind == "uniform") {
      table->init = fb::InitKind::Uniform;
      table->init_a = real(init, "low");
      table->init_b = real(init, "high");
    } else {
      table->init = fb::InitKind::Constant;
      table->init_a = real(init, "value");
    }
    table->decay = flag(layout, "decay");
    table->trained = flag(layout, "trained");
    table->unit_index = static_cast<int32_t>(number(layout, "unit_index", -1));
    table->max_blocks = number(layout, "max_blocks");
    table->one_token_blocks = flag(layout, "one_token_blocks");
    if (auto placements = layout.getAs<ArrayAttr>("placements"))
      for (Attribute placement : placements)
        table->placements.push_back(cast<StringAttr>(placement).getValue().str());
    if (auto stages = layout.getAs<DenseI64ArrayAttr>("stages"))
      table->stages.assign(stages.asArrayRef().begin(), stages.asArrayRef().end());
    table->optimizer_state = text(layout, "optimizer_state") == "sharded"
                                 ? fb::Layout::Sharded
                                 : fb::Layout::Replicated;
    parameters[op.getSymName()] = static_cast<uint32_t>(out.parameters.size());
    out.parameters.push_back(std::move(table));
  }

  LogicalResult buffer(BufferOp op) {
    auto table = std::make_unique<fb::BufferT>();
    table->name = op.getSymName().str();
    table->kind = llvm::StringSwitch<fb::BufferKind>(op.getKind())
                      .Case("parameter", fb::BufferKind::Parameter)
                      .Case("state", fb::BufferKind::State)
                      .Case("accumulator", fb::BufferKind::Accumulator)
                      .Case("input", fb::BufferKind::Input)
                      .Case("output", fb::BufferKind::Output)
                      .Default(fb::BufferKind::Scratch);
    table->dtype = dataType(op.getElement());
    table->fixed = static_cast<int64_t>(op.getFixed());
    table->per_row = static_cast<int64_t>(op.getPerRow());
    table->offset = op.getOffset() ? static_cast<int64_t>(*op.getOffset()) : -1;
    if (auto of = op.getParameterAttr()) {
      auto it = parameters.find(of.getValue());
      if (it == parameters.end())
        return op.emitError("belongs to the unknown parameter ") << of;
      // Accumulators are no part of a parameter's state.
      if (op.getKind() != "accumulator")
        table->parameter = static_cast<int32_t>(it->second);
    }
    if (op.getSlot())
      table->slot = op.getSlot()->str();
    table->slots = static_cast<int32_t>(op.getSlots());
    if (table->slots > 1) {
      int64_t bytes = (table->fixed + table->per_row * rankClass->max_rows) *
                      ::mixle::runtime::sizeOf(table->dtype);
      table->slot_stride = (bytes + 63) / 64 * 64;
    }
    buffers[op.getSymName()] = static_cast<uint32_t>(rankClass->buffers.size());
    rankClass->buffers.push_back(std::move(table));
    return success();
  }

  void update(UpdateOp op) {
    // Classes that take part in one exchange list it alike.
    if (updates.count(op.getSymName()))
      return;
    DictionaryAttr fields = op.getFields();
    auto table = std::make_unique<fb::UpdateT>();
    table->node_id = text(fields, "node_id").str();
    table->payload = llvm::StringSwitch<fb::Payload>(text(fields, "payload"))
                         .Case("sufficient_statistic", fb::Payload::SufficientStatistic)
                         .Case("parameter", fb::Payload::Parameter)
                         .Case("activation", fb::Payload::Activation)
                         .Case("kv_block", fb::Payload::KvBlock)
                         .Case("token", fb::Payload::Token)
                         .Case("message", fb::Payload::Message)
                         .Default(fb::Payload::Gradient);
    table->collective = llvm::StringSwitch<fb::Collective>(text(fields, "collective"))
                            .Case("all_reduce", fb::Collective::AllReduce)
                            .Case("reduce_scatter", fb::Collective::ReduceScatter)
                            .Case("all_gather", fb::Collective::AllGather)
                            .Case("all_to_all", fb::Collective::AllToAll)
                            .Case("broadcast", fb::Collective::Broadcast)
                            .Case("p2p", fb::Collective::P2p)
                            .Case("custom", fb::Collective::Custom)
                            .Default(fb::Collective::None);
    if (auto axes = fields.getAs<ArrayAttr>("mesh_axes"))
      for (Attribute axis : axes)
        table->mesh_axes.push_back(axisOf(cast<StringAttr>(axis).getValue()));
    if (auto stages = fields.getAs<DenseI64ArrayAttr>("stages"))
      table->stages.assign(stages.asArrayRef().begin(), stages.asArrayRef().end());
    table->state_layout =
        llvm::StringSwitch<fb::Layout>(text(fields, "state_layout"))
            .Case("sharded", fb::Layout::Sharded)
            .Case("pipeline_local", fb::Layout::PipelineLocal)
            .Default(fb::Layout::Replicated);
    table->exact = flag(fields, "exact");
    table->contract_exact = flag(fields, "contract_exact");
    table->reduction_order = llvm::StringSwitch<fb::Order>(text(fields, "reduction_order"))
                                 .Case("tree", fb::Order::Tree)
                                 .Case("any", fb::Order::Any)
                                 .Case("copy", fb::Order::Copy)
                                 .Default(fb::Order::Integer);
    table->error_bound = text(fields, "error_bound").str();
    if (auto notes = fields.getAs<ArrayAttr>("notes"))
      for (Attribute note : notes)
        table->notes.push_back(cast<StringAttr>(note).getValue().str());
    updates[op.getSymName()] = static_cast<uint32_t>(out.updates.size());
    out.updates.push_back(std::move(table));
  }

  static fb::Scalar scalar(ScalarAttr attribute) {
    auto kind = llvm::StringSwitch<fb::ScalarKind>(attribute.getKind().getValue())
                    .Case("rows", fb::ScalarKind::Rows)
                    .Case("offset", fb::ScalarKind::Offset)
                    .Case("owned", fb::ScalarKind::Owned)
                    .Case("row_start", fb::ScalarKind::RowStart)
                    .Case("coordinate", fb::ScalarKind::Coordinate)
                    .Default(fb::ScalarKind::Constant);
    return fb::Scalar(kind, axisOf(attribute.getAxis().getValue()),
                      attribute.getA(), attribute.getB());
  }

  FailureOr<uint32_t> find(Operation *op, const llvm::StringMap<uint32_t> &table,
                           Attribute reference) {
    auto it = table.find(cast<FlatSymbolRefAttr>(reference).getValue());
    if (it == table.end())
      return op->emitError("refers to ") << reference << ", which is not there";
    return it->second;
  }

  LogicalResult addBuffers(Operation *op, ArrayRef<Attribute> references,
                           fb::CommandT &command) {
    for (Attribute reference : references) {
      auto index = find(op, buffers, reference);
      if (failed(index))
        return failure();
      command.buffers.push_back(*index);
    }
    return success();
  }

  uint32_t location(Location loc) {
    std::string text;
    if (auto file = loc->findInstanceOf<FileLineColLoc>())
      text = file.getFilename().str() + ":" + std::to_string(file.getLine());
    else if (auto name = loc->findInstanceOf<NameLoc>())
      text = name.getName().str();
    for (auto [i, known] : llvm::enumerate(out.locations))
      if (known == text)
        return static_cast<uint32_t>(i);
    out.locations.push_back(text);
    return static_cast<uint32_t>(out.locations.size() - 1);
  }

  LogicalResult commands(Block &block,
                         std::vector<std::unique_ptr<fb::CommandT>> &list) {
    for (Operation &op : block) {
      auto command = std::make_unique<fb::CommandT>();
      command->location = location(op.getLoc());
      LogicalResult done = emit(&op, *command);
      if (failed(done))
        return failure();
      list.push_back(std::move(command));
    }
    return success();
  }

  LogicalResult emit(Operation *op, fb::CommandT &command) {
    auto scalars = [&](ArrayAttr list) {
      for (Attribute s : list)
        command.scalars.push_back(scalar(cast<ScalarAttr>(s)));
    };
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](LaunchOp o) {
          command.kind = fb::CommandKind::Launch;
          command.name = o.getKernel().str();
          scalars(o.getScalars());
          return addBuffers(op, o.getBuffers().getValue(), command);
        })
        .Case([&](CallOp o) {
          command.kind = fb::CommandKind::Call;
          command.name = o.getFunction().str();
          scalars(o.getScalars());
          command.floats.assign(o.getFloats().begin(), o.getFloats().end());
          if (o.getText())
            command.text = o.getText()->str();
          return addBuffers(op, o.getBuffers().getValue(), command);
        })
        .Case([&](CollectiveOp o) -> LogicalResult {
          command.kind = fb::CommandKind::Collective;
          command.name = o.getCollective().str();
          scalars(o.getScalars());
          command.dtype = dataType(o.getElement());
          command.combine = llvm::StringSwitch<fb::Combine>(o.getCombine())
                                .Case("max", fb::Combine::Max)
                                .Case("min", fb::Combine::Min)
                                .Case("bit_or", fb::Combine::BitOr)
                                .Default(fb::Combine::Sum);
          for (Attribute axis : o.getAxes())
            command.axes.push_back(axisOf(cast<StringAttr>(axis).getValue()));
          for (Attribute reference : o.getUpdates()) {
            auto index = find(op, updates, reference);
            if (failed(index))
              return failure();
            command.updates.push_back(*index);
            sizeUpdate(*out.updates[*index], cast<ScalarAttr>(o.getScalars()[0]),
                       o.getElement());
          }
          command.stages.assign(o.getStages().begin(), o.getStages().end());
          return addBuffers(op, o.getBuffers().getValue(), command);
        })
        .Case([&](SendOp o) { return transfer(o, fb::CommandKind::Send, command); })
        .Case([&](RecvOp o) { return transfer(o, fb::CommandKind::Recv, command); })
        .Case([&](ScheduleOp o) {
          command.kind = fb::CommandKind::Schedule;
          command.scalars.push_back(constant(static_cast<int64_t>(o.getMicrobatches())));
          for (size_t i = 0; i < o.getRuns().size(); i += 3)
            command.runs.push_back(fb::Run(static_cast<uint32_t>(o.getRuns()[i]),
                                           static_cast<uint32_t>(o.getRuns()[i + 1]),
                                           static_cast<uint32_t>(o.getRuns()[i + 2])));
          return commands(o.getBody().front(), command.body);
        })
        .Case([&](PhaseOp o) {
          command.kind = fb::CommandKind::Phase;
          command.name = o.getName().str();
          return commands(o.getBody().front(), command.body);
        })
        .Case([&](CopyOp o) {
          command.kind = fb::CommandKind::Copy;
          command.scalars.push_back(scalar(o.getBytes()));
          return addBuffers(op, {o.getFromAttr(), o.getToAttr()}, command);
        })
        .Case([&](FillOp o) {
          command.kind = fb::CommandKind::Fill;
          command.scalars.push_back(scalar(o.getBytes()));
          return addBuffers(op, {o.getToAttr()}, command);
        })
        .Case([&](LoopOp o) {
          command.kind = fb::CommandKind::Loop;
          command.scalars.push_back(constant(static_cast<int64_t>(o.getIterations())));
          return commands(o.getBody().front(), command.body);
        })
        .Case([&](RetryOp o) {
          command.kind = fb::CommandKind::Retry;
          return addBuffers(op, {o.getFlagAttr()}, command);
        })
        .Case([&](CommitIfOp o) {
          command.kind = fb::CommandKind::CommitIf;
          command.name = o.getReason().str();
          return addBuffers(op, {o.getFlagAttr()}, command);
        })
        .Default([&](Operation *o) {
          return o->emitError("is no command of the program file");
        });
  }

  static fb::Scalar constant(int64_t value) {
    return fb::Scalar(fb::ScalarKind::Constant, fb::Axis::Tp, value, 0);
  }

  template <typename TransferOp>
  LogicalResult transfer(TransferOp op, fb::CommandKind kind,
                         fb::CommandT &command) {
    command.kind = kind;
    command.scalars.push_back(scalar(op.getElements()));
    command.scalars.push_back(constant(static_cast<int64_t>(op.getStage())));
    command.dtype = dataType(op.getElement());
    command.axes.push_back(fb::Axis::Pp);
    auto index = find(op, updates, op.getUpdateAttr());
    if (failed(index))
      return failure();
    command.updates.push_back(*index);
    sizeUpdate(*out.updates[*index], op.getElements(), op.getElement());
    return addBuffers(op, {op.getBufferAttr()}, command);
  }

  /// What an update exchanges, from the command that carries it out.
  void sizeUpdate(fb::UpdateT &update, ScalarAttr elements, Type element) {
    update.dtype = dataType(element);
    if (elements.getKind().getValue() == "rows")
      update.elements_per_row = elements.getA();
    else
      update.elements_fixed = elements.getA();
  }

  LogicalResult entry(EntryOp op) {
    auto table = std::make_unique<fb::EntryT>();
    table->name = op.getSymName().str();
    auto bind = [&](ArrayAttr list,
                    std::vector<std::unique_ptr<fb::BindingT>> &to) -> LogicalResult {
      for (Attribute attribute : list) {
        auto dictionary = cast<DictionaryAttr>(attribute);
        auto index = find(op, buffers, dictionary.get("buffer"));
        if (failed(index))
          return failure();
        auto binding = std::make_unique<fb::BindingT>();
        binding->role = text(dictionary, "role").str();
        binding->buffer = *index;
        binding->per_row = rankClass->buffers[*index]->per_row;
        binding->dtype = rankClass->buffers[*index]->dtype;
        to.push_back(std::move(binding));
      }
      return success();
    };
    if (failed(bind(op.getInputs(), table->inputs)) ||
        failed(bind(op.getOutputs(), table->outputs)) ||
        failed(commands(op.getBody().front(), table->commands)))
      return failure();
    rankClass->entries.push_back(std::move(table));
    return success();
  }
};

} // namespace

LogicalResult mlir::exec::emitProgram(ArrayRef<ProgramOp> classes,
                                      const mixle::CompiledKernels &kernels,
                                      fb::ProgramT &out) {
  Emitter emitter{classes.front(), out, nullptr, {}, {}, {}, {}};
  emitter.header();
  out.kernels = kernels.symbols;
  if (!kernels.elf.empty()) {
    auto code = std::make_unique<fb::CodeT>();
    code->target = "x86_64-linux-gnu";
    code->cpu = kernels.cpu;
    code->features = kernels.features;
    code->elf.assign(kernels.elf.begin(), kernels.elf.end());
    out.code.push_back(std::move(code));
  }
  for (auto parameter : emitter.program.getOps<ParameterOp>())
    emitter.parameter(parameter);
  for (ProgramOp program : classes) {
    emitter.program = program;
    emitter.beginClass();
    for (auto update : program.getOps<UpdateOp>())
      emitter.update(update);
    for (auto buffer : program.getOps<BufferOp>())
      if (failed(emitter.buffer(buffer)))
        return failure();
    for (auto entry : program.getOps<EntryOp>())
      if (failed(emitter.entry(entry)))
        return failure();
  }
  return success();
}
