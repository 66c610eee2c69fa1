//===- SessionProgram.cpp - A language model without kernels --------------===//

#include "test/runtime/training/SessionProgram.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/kernels/ExactSum.h"
#include "test/runtime/program/ProgramBuilder.h"

#include <algorithm>

namespace mixle::runtime::test {

using fb::Axis;
using fb::BufferKind;
using fb::DataType;

static int64_t ceilOf(int64_t n, int64_t parts) {
  return (n + parts - 1) / parts;
}

namespace {

class Builder {
public:
  Builder(const ParallelPlan &plan, const SessionSizes &sizes, int64_t maxRows)
      : plan(plan), sizes(sizes), b("training", plan, maxRows),
        shardRows(ceilOf(sizes.vocabulary, plan.tp)),
        local(shardRows * sizes.vocabulary), maxRows(maxRows) {}

  fb::ProgramT build() {
    makeParameters();
    makeBuffers();
    for (Axis axis : b.activeAxes())
      if (axis == Axis::DpReplicate || axis == Axis::DpShard)
        dp.push_back(axis);
    initializeAndReset();
    lossEntry("accumulate", loss, count);
    lossEntry("evaluate", evaluateLoss, evaluateCount);
    finishEvaluate();
    predict();
    step();
    return b.finish();
  }

private:
  fb::ParameterT matrix(const char *id) const {
    fb::ParameterT parameter;
    parameter.logical_id = id;
    parameter.shape = {sizes.vocabulary, sizes.vocabulary};
    parameter.file_shape = parameter.shape;
    if (plan.tp > 1) {
      parameter.shard_dim = 0;
      parameter.shard_axis = Axis::Tp;
      parameter.shard_size = shardRows;
    }
    parameter.init = fb::InitKind::Uniform;
    parameter.init_a = 0.5;
    parameter.init_b = 1.5;
    return parameter;
  }

  void makeParameters() {
    fb::ParameterT table = matrix("transformer.wte.weight");
    table.flat_shard = plan.dpShard > 1 ? ceilOf(local, plan.dpShard) : 0;
    table.unit_index = 0;
    table.max_blocks = 1 << 16;
    table.one_token_blocks = true;
    held = heldElements(table);
    wte = b.parameter(table);
    fb::ParameterT other = matrix("head");
    other.trained = false;
    head = b.parameter(other);
  }

  void makeBuffers() {
    const int64_t tokens = sizes.sequence;
    momentum = b.buffer("momentum", BufferKind::State, DataType::F32, held, 0,
                        0, "momentum");
    stepCount =
        b.buffer("step", BufferKind::State, DataType::I64, 1, 0, -1, "step");
    units =
        b.buffer("units", BufferKind::State, DataType::I32, 1, 0, -1, "units");
    padded = held * (plan.dpShard > 1 ? plan.dpShard : 1);
    acc = accumulator("acc", padded);
    amax = b.buffer("amax", BufferKind::Accumulator, DataType::U64, 1);
    loss = accumulator("loss", ExactSum::limbCount);
    count = accumulator("count", 1);
    evaluateLoss = accumulator("evaluate.loss", ExactSum::limbCount);
    evaluateCount = accumulator("evaluate.count", 1);
    ids = b.buffer("in.tokens", BufferKind::Input, DataType::I32, 0, tokens);
    labels = b.buffer("in.labels", BufferKind::Input, DataType::I32, 0, tokens);
    gathered = b.buffer("gathered", BufferKind::Scratch, DataType::F32, padded);
    rowsOfIds = b.buffer("rows", BufferKind::Scratch, DataType::F32, 0,
                         tokens * sizes.vocabulary);
    selected =
        b.buffer("selected", BufferKind::Scratch, DataType::F32, 0, tokens);
    logits = b.buffer("out.logits", BufferKind::Output, DataType::F32, 0,
                      tokens * shardRows);
  }

  uint32_t accumulator(const char *name, int64_t elements) {
    return b.buffer(name, BufferKind::Accumulator, DataType::I64, elements);
  }

  uint32_t update(const std::string &id, fb::Payload payload,
                  fb::Collective collective, std::vector<Axis> axes,
                  DataType type, int64_t elements) {
    return b.update(id, payload, collective, std::move(axes),
                    collective == fb::Collective::AllGather
                        ? fb::Order::Copy
                        : fb::Order::Integer,
                    type, elements);
  }

  void sumOverDp(CommandWriter &out, uint32_t buffer, const std::string &id,
                 int64_t elements) {
    if (!dp.empty())
      out.collective(
          "all_reduce", {buffer}, {constant(elements)}, DataType::I64,
          fb::Combine::Sum, dp,
          {update(id, fb::Payload::Message, fb::Collective::AllReduce, dp,
                  DataType::I64, elements)});
  }

  void initializeAndReset() {
    CommandWriter initialize = b.entry("initialize");
    initialize.call("initialize_parameter_f32", {wte}, {constant(0)});
    initialize.call("initialize_parameter_f32", {head}, {constant(1)});
    initialize.fill(momentum, constant(held * 4));
    initialize.fill(stepCount, constant(8));
    initialize.call("initialize_units", {units}, {constant(1)});
    CommandWriter reset = b.entry("reset");
    reset.fill(acc, constant(padded * 8));
    reset.fill(amax, constant(8));
    reset.fill(loss, constant(ExactSum::limbCount * 8));
    reset.fill(count, constant(8));
  }

  /// rowsOfIds = the rows of wte of this iteration's tokens, on every rank.
  void lookUp(CommandWriter &out, const std::string &entry) {
    uint32_t table = wte;
    if (plan.dpShard > 1) {
      table = gathered;
      out.collective("all_gather", {wte, gathered}, {constant(held)},
                     DataType::F32, fb::Combine::Sum, {Axis::DpShard},
                     {update(entry + ":wte:dp_shard", fb::Payload::Parameter,
                             fb::Collective::AllGather, {Axis::DpShard},
                             DataType::F32, padded)});
    }
    out.call("embedding_f32", {table, ids, rowsOfIds},
             {rows(sizes.sequence), constant(sizes.vocabulary),
              offset(Axis::Tp, shardRows),
              owned(Axis::Tp, shardRows, sizes.vocabulary)});
    if (plan.tp > 1)
      out.collective("all_reduce", {rowsOfIds},
                     {rows(sizes.sequence * sizes.vocabulary)}, DataType::U32,
                     fb::Combine::BitOr, {Axis::Tp},
                     {update(entry + ":rows:tp", fb::Payload::Activation,
                             fb::Collective::AllReduce, {Axis::Tp},
                             DataType::U32, sizes.vocabulary)});
  }

  void lossEntry(const std::string &name, uint32_t lossSum, uint32_t counter) {
    b.input(name, "tokens", ids);
    b.input(name, "labels", labels);
    CommandWriter entry = b.entry(name);
    const bool trains = name == "accumulate";
    if (!trains) {
      entry.fill(lossSum, constant(ExactSum::limbCount * 8));
      entry.fill(counter, constant(8));
    }
    CommandWriter body = entry.loop(plan.microbatches);
    lookUp(body, name);
    if (trains)
      body.call("accumulate_scatter_f32", {acc, labels, rowsOfIds, units, amax},
                {rows(sizes.sequence), constant(sizes.vocabulary),
                 offset(Axis::Tp, shardRows),
                 owned(Axis::Tp, shardRows, sizes.vocabulary), constant(0)});
    body.call("select_label_f32", {rowsOfIds, labels, selected},
              {rows(sizes.sequence), constant(sizes.vocabulary), constant(0),
               constant(sizes.vocabulary)});
    body.call("exact_sum_f32", {lossSum, selected}, {rows(sizes.sequence)});
    body.call("count_labels", {counter, labels},
              {rows(sizes.sequence), constant(-100)});
  }

  void finishEvaluate() {
    CommandWriter entry = b.entry("evaluate");
    sumOverDp(entry, evaluateLoss, "evaluate:loss", ExactSum::limbCount);
    sumOverDp(entry, evaluateCount, "evaluate:count", 1);
    emitLoss(entry, "evaluate", evaluateLoss, evaluateCount);
  }

  void emitLoss(CommandWriter &entry, const std::string &name, uint32_t sum,
                uint32_t counter) {
    uint32_t total = b.buffer("out.loss_total." + name, BufferKind::Output,
                              DataType::F64, 1);
    uint32_t counted =
        b.buffer("out.count." + name, BufferKind::Output, DataType::I64, 1);
    entry.call("round_exact", {sum, total});
    entry.copy(counter, counted, constant(8));
    b.output(name, "loss_total", total);
    b.output(name, "count", counted);
  }

  void predict() {
    b.input("predict", "tokens", ids);
    CommandWriter entry = b.entry("predict");
    lookUp(entry, "predict");
    const int64_t width = sizes.vocabulary;
    entry.call("dot_tree_f32", {rowsOfIds, head, logits},
               {rows(sizes.sequence), constant(shardRows), constant(1),
                constant(width), constant(width), constant(1), constant(1),
                constant(width), constant(0), constant(1), constant(1)});
    b.output("predict", "logits", logits);
  }

  void step() {
    const uint32_t part =
        b.buffer("acc.part", BufferKind::Scratch, DataType::I64, held);
    const uint32_t gradient =
        b.buffer("gradient", BufferKind::Scratch, DataType::F32, held);
    const uint32_t squares = b.buffer("squares", BufferKind::Scratch,
                                      DataType::I64, ExactSum::limbCount);
    auto scratch = [&](const char *name, DataType type) {
      return b.buffer(name, BufferKind::Scratch, type, 1);
    };
    const uint32_t rerun = scratch("rerun", DataType::I32);
    const uint32_t finite = scratch("finite", DataType::I32);
    const uint32_t commit = scratch("commit", DataType::I32);
    const uint32_t coefficient = scratch("coefficient", DataType::F64);
    const uint32_t c1 = scratch("c1", DataType::F64);
    const uint32_t c2 = scratch("c2", DataType::F64);
    const uint32_t norm =
        b.buffer("out.gradient_norm", BufferKind::Output, DataType::F64, 1);
    const uint32_t rate =
        b.buffer("out.rate", BufferKind::Output, DataType::F64, 1);

    CommandWriter s = b.entry("step");
    const std::vector<Axis> everywhere = b.activeAxes();
    if (!everywhere.empty())
      s.collective(
          "all_reduce", {amax}, {constant(1)}, DataType::U64, fb::Combine::Max,
          everywhere,
          {update("units:amax", fb::Payload::Message, fb::Collective::AllReduce,
                  everywhere, DataType::U64, 1)});
    s.call("decide_units", {units, amax, rerun, finite}, {constant(1)});
    s.commitIf(finite, "non_finite");
    s.retry(rerun);
    sumOverDp(s, loss, "loss", ExactSum::limbCount);
    sumOverDp(s, count, "count", 1);
    if (plan.dpShard > 1)
      s.collective("reduce_scatter", {acc, part}, {constant(held)},
                   DataType::I64, fb::Combine::Sum, {Axis::DpShard},
                   {update("wte:dp_shard", fb::Payload::Gradient,
                           fb::Collective::ReduceScatter, {Axis::DpShard},
                           DataType::I64, padded)});
    else
      s.copy(acc, part, constant(held * 8));
    if (plan.dpReplicate > 1)
      s.collective("all_reduce", {part}, {constant(held)}, DataType::I64,
                   fb::Combine::Sum, {Axis::DpReplicate},
                   {update("wte:dp_replicate", fb::Payload::Gradient,
                           fb::Collective::AllReduce, {Axis::DpReplicate},
                           DataType::I64, held)});
    s.call("resolve_f32", {part, units, count, gradient},
           {constant(held), constant(0)});
    s.fill(squares, constant(ExactSum::limbCount * 8));
    s.call("exact_sum_squares_f32", {squares, gradient}, {constant(held)});
    std::vector<Axis> parts;
    if (plan.dpShard > 1)
      parts.push_back(Axis::DpShard);
    if (plan.tp > 1)
      parts.push_back(Axis::Tp);
    if (!parts.empty())
      s.collective(
          "all_reduce", {squares}, {constant(ExactSum::limbCount)},
          DataType::I64, fb::Combine::Sum, parts,
          {update("norm", fb::Payload::Message, fb::Collective::AllReduce,
                  parts, DataType::I64, ExactSum::limbCount)});
    s.call("clip_coefficient", {squares, coefficient, norm}, {}, {1.0});
    emitLoss(s, "step", loss, count);
    s.call("flag_positive", {count, commit});
    s.commitIf(commit, "no_valid_token");
    s.call("flag_finite", {norm, commit});
    s.commitIf(commit, "non_finite_norm");
    s.call("schedule", {stepCount, rate, c1, c2}, {}, {0.1, 0.9, 0.999},
           "linear,warmup=2,total=10");
    s.copy(gradient, momentum, constant(held * 4));
    s.call("advance", {stepCount});
    b.output("step", "rate", rate);
    b.output("step", "gradient_norm", norm);
  }

  const ParallelPlan plan;
  const SessionSizes sizes;
  ProgramBuilder b;
  const int64_t shardRows, local;
  const int64_t maxRows;
  int64_t held = 0, padded = 0;
  std::vector<Axis> dp;
  uint32_t wte = 0, head = 0, momentum = 0, stepCount = 0, units = 0, acc = 0,
           amax = 0, loss = 0, count = 0, evaluateLoss = 0, evaluateCount = 0,
           ids = 0, labels = 0, gathered = 0, rowsOfIds = 0, selected = 0,
           logits = 0;
};

void addAttribute(std::vector<std::unique_ptr<fb::AttributeT>> &list,
                  const std::string &key, const std::string &value) {
  auto attribute = std::make_unique<fb::AttributeT>();
  attribute->key = key;
  attribute->value = value;
  list.push_back(std::move(attribute));
}

} // namespace

fb::ProgramT sessionProgram(const ParallelPlan &plan,
                            const SessionSizes &sizes) {
  int64_t rows = ceilOf(sizes.batch, plan.gradientAccumulationSteps);
  rows = ceilOf(rows, plan.dataParallelSize());
  rows = std::max<int64_t>(ceilOf(rows, plan.microbatches), 1);
  fb::ProgramT program = Builder(plan, sizes, rows).build();
  program.plan->gradient_accumulation_steps =
      static_cast<int32_t>(plan.gradientAccumulationSteps);
  program.batch = sizes.batch;
  program.sequence = sizes.sequence;
  addAttribute(program.config, "vocabulary", std::to_string(sizes.vocabulary));
  addAttribute(program.config, "optimizer", "sgd");
  addAttribute(program.config, "model_type", "gpt2");
  addAttribute(program.file_constants, "scale", "1.5");
  return program;
}

} // namespace mixle::runtime::test
