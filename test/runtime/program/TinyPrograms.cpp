//===- TinyPrograms.cpp - A whole training program, by hand ---------------===//

#include "test/runtime/program/TinyPrograms.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/kernels/ExactSum.h"

namespace mixle::runtime::test {

static int64_t ceilOf(int64_t n, int64_t parts) {
  return (n + parts - 1) / parts;
}

fb::ProgramT tinyTrainingProgram(const ParallelPlan &plan) {
  using fb::Axis;
  using fb::BufferKind;
  using fb::DataType;
  constexpr int64_t tokens = TinySizes::tokens, width = TinySizes::width;
  constexpr int64_t vocabulary = TinySizes::vocabulary;
  ProgramBuilder b("training", plan, TinySizes::maxRows);

  const int64_t shardRows = ceilOf(vocabulary, plan.tp);
  const int64_t local = shardRows * width;
  const int64_t flat = ceilOf(local, plan.dpShard);
  fb::ParameterT table;
  table.logical_id = "table";
  table.shape = {vocabulary, width};
  table.file_shape = table.shape;
  if (plan.tp > 1) {
    table.shard_dim = 0;
    table.shard_axis = Axis::Tp;
    table.shard_size = shardRows;
  }
  table.flat_shard = plan.dpShard > 1 ? flat : 0;
  table.init = fb::InitKind::Normal;
  table.init_a = 0;
  table.init_b = 0.5;
  table.unit_index = 0;
  table.max_blocks = 1 << 16;
  table.one_token_blocks = true;
  table.optimizer_state =
      plan.dpShard > 1 ? fb::Layout::Sharded : fb::Layout::Replicated;
  const uint32_t parameter = b.parameter(table);
  const int64_t held = heldElements(table);

  const uint32_t momentum = b.buffer("table.momentum", BufferKind::State,
                                     DataType::F32, held, 0, 0, "momentum");
  const uint32_t step =
      b.buffer("step", BufferKind::State, DataType::I64, 1, 0, -1, "step");
  const uint32_t units =
      b.buffer("units", BufferKind::State, DataType::I32, 1, 0, -1, "unit");
  const int64_t padded = plan.dpShard > 1 ? flat * plan.dpShard : local;
  const uint32_t acc =
      b.buffer("acc", BufferKind::Accumulator, DataType::I64, padded);
  const uint32_t amax =
      b.buffer("amax", BufferKind::Accumulator, DataType::U64, 1);
  const uint32_t loss = b.buffer("loss", BufferKind::Accumulator, DataType::I64,
                                 ExactSum::limbCount);
  const uint32_t count =
      b.buffer("count", BufferKind::Accumulator, DataType::I64, 1);
  const uint32_t ids =
      b.buffer("ids", BufferKind::Input, DataType::I32, 0, tokens);
  const uint32_t features =
      b.buffer("features", BufferKind::Input, DataType::F32, 0, tokens * width);
  const uint32_t part =
      b.buffer("acc.part", BufferKind::Scratch, DataType::I64, held);
  const uint32_t gradient =
      b.buffer("gradient", BufferKind::Scratch, DataType::F32, held);
  const uint32_t squares = b.buffer("squares", BufferKind::Scratch,
                                    DataType::I64, ExactSum::limbCount);
  const uint32_t flags =
      b.buffer("rerun", BufferKind::Scratch, DataType::I32, 1);
  const uint32_t finite =
      b.buffer("finite", BufferKind::Scratch, DataType::I32, 1);
  const uint32_t commit =
      b.buffer("commit", BufferKind::Scratch, DataType::I32, 1);
  const uint32_t coefficient =
      b.buffer("coefficient", BufferKind::Scratch, DataType::F64, 1);
  const uint32_t norm = b.buffer("norm", BufferKind::Output, DataType::F64, 1);
  const uint32_t rate = b.buffer("rate", BufferKind::Output, DataType::F64, 1);
  const uint32_t corrections =
      b.buffer("c1", BufferKind::Scratch, DataType::F64, 1);
  const uint32_t corrections2 =
      b.buffer("c2", BufferKind::Scratch, DataType::F64, 1);
  const uint32_t lossValue =
      b.buffer("loss.value", BufferKind::Output, DataType::F64, 1);
  const uint32_t countValue =
      b.buffer("count.value", BufferKind::Output, DataType::I64, 1);

  std::vector<Axis> dp, everywhere = b.activeAxes();
  for (Axis axis : everywhere)
    if (axis == Axis::DpReplicate || axis == Axis::DpShard)
      dp.push_back(axis);
  auto sum = [&](const char *id, fb::Payload payload, std::vector<Axis> axes,
                 DataType type, int64_t elements) {
    return b.update(id, payload, fb::Collective::AllReduce, std::move(axes),
                    fb::Order::Integer, type, elements);
  };

  CommandWriter initialize = b.entry("initialize");
  initialize.call("initialize_parameter_f32", {parameter}, {constant(0)});
  initialize.fill(momentum, constant(held * 4));
  initialize.fill(step, constant(8));
  initialize.call("initialize_units", {units}, {constant(1)});

  CommandWriter reset = b.entry("reset");
  reset.fill(acc, constant(padded * 8));
  reset.fill(amax, constant(8));
  reset.fill(loss, constant(ExactSum::limbCount * 8));
  reset.fill(count, constant(8));

  b.input("accumulate", "tokens", ids);
  b.input("accumulate", "features", features);
  CommandWriter body = b.entry("accumulate").loop(plan.microbatches);
  body.call("accumulate_scatter_f32", {acc, ids, features, units, amax},
            {rows(tokens), constant(width), offset(Axis::Tp, shardRows),
             owned(Axis::Tp, shardRows, vocabulary), constant(0)});
  body.call("exact_sum_f32", {loss, features}, {rows(tokens * width)});
  body.call("count_labels", {count, ids}, {rows(tokens), constant(-100)});

  CommandWriter s = b.entry("step");
  if (!everywhere.empty()) {
    s.collective(
        "all_reduce", {amax}, {constant(1)}, DataType::U64, fb::Combine::Max,
        everywhere,
        {sum("amax", fb::Payload::Message, everywhere, DataType::U64, 1)});
  }
  s.call("decide_units", {units, amax, flags, finite}, {constant(1)});
  s.retry(flags);
  s.commitIf(finite, "non_finite");
  if (!dp.empty()) {
    s.collective("all_reduce", {loss}, {constant(ExactSum::limbCount)},
                 DataType::I64, fb::Combine::Sum, dp,
                 {sum("loss", fb::Payload::Message, dp, DataType::I64,
                      ExactSum::limbCount)});
    s.collective("all_reduce", {count}, {constant(1)}, DataType::I64,
                 fb::Combine::Sum, dp,
                 {sum("count", fb::Payload::Message, dp, DataType::I64, 1)});
  }
  if (plan.dpShard > 1)
    s.collective("reduce_scatter", {acc, part}, {constant(flat)}, DataType::I64,
                 fb::Combine::Sum, {Axis::DpShard},
                 {b.update("table:dp_shard", fb::Payload::Gradient,
                           fb::Collective::ReduceScatter, {Axis::DpShard},
                           fb::Order::Integer, DataType::I64, padded)});
  else
    s.copy(acc, part, constant(held * 8));
  if (plan.dpReplicate > 1)
    s.collective("all_reduce", {part}, {constant(held)}, DataType::I64,
                 fb::Combine::Sum, {Axis::DpReplicate},
                 {sum("table:dp_replicate", fb::Payload::Gradient,
                      {Axis::DpReplicate}, DataType::I64, held)});
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
    s.collective("all_reduce", {squares}, {constant(ExactSum::limbCount)},
                 DataType::I64, fb::Combine::Sum, parts,
                 {sum("norm", fb::Payload::Message, parts, DataType::I64,
                      ExactSum::limbCount)});
  s.call("clip_coefficient", {squares, coefficient, norm}, {}, {1.0});
  s.call("round_exact", {loss, lossValue});
  s.copy(count, countValue, constant(8));
  s.call("flag_positive", {count, commit});
  s.commitIf(commit, "no_valid_token");
  s.call("flag_finite", {norm, commit});
  s.commitIf(commit, "non_finite_norm");
  s.call("schedule", {step, rate, corrections, corrections2}, {},
         {0.1, 0.9, 0.999}, "linear,warmup=2,total=10");
  s.copy(parameter, momentum, constant(held * 4));
  s.copy(gradient, parameter, constant(held * 4));
  s.call("advance", {step});
  b.output("step", "loss", lossValue);
  b.output("step", "count", countValue);
  b.output("step", "norm", norm);
  b.output("step", "rate", rate);
  return b.finish();
}

} // namespace mixle::runtime::test
