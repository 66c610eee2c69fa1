//===- VerifyCommandsTest.cpp - Commands that the verifier refuses --------===//

#include "test/runtime/program/ProgramBuilder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

/// Buffers that commands of these tests name.
struct Buffers {
  uint32_t matrix;  // scratch f32 [6 x 4]
  uint32_t perRow;  // scratch f32 [8 x rows]
  uint32_t integer; // scratch i64 [24]
  uint32_t flag;    // scratch i32 [1]
  uint32_t input;   // input f32 [8 x rows]
};

using Write =
    std::function<void(CommandWriter &, const Buffers &, ProgramBuilder &)>;

/// The verifier's message for a program with these commands in `entry`.
std::string errorOf(const Write &write, const std::string &entry = "step",
                    const char *plan = "tp=2",
                    const std::function<void(fb::ProgramT &)> &change = {}) {
  ProgramBuilder b("training", *ParallelPlan::parseText(plan), 3);
  Buffers buffers;
  using fb::BufferKind;
  using fb::DataType;
  buffers.matrix = b.buffer("matrix", BufferKind::Scratch, DataType::F32, 24);
  buffers.perRow = b.buffer("perRow", BufferKind::Scratch, DataType::F32, 0, 8);
  buffers.integer = b.buffer("integer", BufferKind::Scratch, DataType::I64, 24);
  buffers.flag = b.buffer("flag", BufferKind::Scratch, DataType::I32, 1);
  buffers.input = b.buffer("input", BufferKind::Input, DataType::F32, 0, 8);
  b.input(entry, "x", buffers.input);
  CommandWriter writer = b.entry(entry);
  write(writer, buffers, b);
  fb::ProgramT program = b.finish();
  if (change)
    change(program);
  return verifyProgram(program).message();
}

#define EXPECT_REFUSED(text, ...)                                              \
  EXPECT_PRED_FORMAT2(                                                         \
      testing::IsSubstring, text,                                              \
      errorOf([](CommandWriter &w, const Buffers &b, ProgramBuilder &p) {      \
        (void)b;                                                               \
        (void)p;                                                               \
        __VA_ARGS__;                                                           \
      }))

const auto tp = fb::Axis::Tp;

TEST(VerifyCommands, indicesAndCounts) {
  EXPECT_REFUSED("command 0 (fill): buffer 99 of 5", w.fill(99, constant(1)));
  EXPECT_REFUSED("unknown kind 42", w.fill(b.matrix, constant(1)).kind =
                                        static_cast<fb::CommandKind>(42));
  EXPECT_REFUSED("(copy): it has 1 buffers; expected 2",
                 w.copy(b.matrix, b.matrix, constant(1)).buffers.pop_back());
  EXPECT_REFUSED("(fill): it has 0 scalars; expected 1",
                 w.fill(b.matrix, constant(1)).scalars.clear());
  EXPECT_REFUSED(
      "a scalar has the unknown kind 9",
      w.fill(b.matrix, fb::Scalar(static_cast<fb::ScalarKind>(9), tp, 1, 0)));
  EXPECT_REFUSED("location 7 of 0", w.fill(b.matrix, constant(1)).location = 7);
  EXPECT_REFUSED("is no loop",
                 w.fill(b.matrix, constant(1))
                     .body.push_back(std::make_unique<fb::CommandT>()));
  EXPECT_REFUSED("updates, axes or stages, but is no exchange",
                 w.fill(b.matrix, constant(1)).axes = {tp});
}

TEST(VerifyCommands, copyAndFill) {
  EXPECT_REFUSED("it touches 97 bytes of buffer 'matrix' for 0 rows, which "
                 "holds 96",
                 w.fill(b.matrix, constant(97)));
  EXPECT_REFUSED("its number of bytes is -1", w.fill(b.matrix, constant(-1)));
  EXPECT_REFUSED("does not fit in 64 bits", w.fill(b.matrix, rows(INT64_MAX)));
  EXPECT_REFUSED("writes to the input 'input'", w.fill(b.input, constant(0)));
  // Only the second rank touches too much.
  EXPECT_REFUSED("it touches 100 bytes", w.fill(b.matrix, offset(tp, 100)));
  EXPECT_REFUSED("it touches 99 bytes of buffer 'perRow' for 3 rows",
                 w.fill(b.perRow, rows(33)));
  // An input has room for its rows only.
  EXPECT_REFUSED("it touches 4 bytes of buffer 'input' for 0 rows",
                 w.copy(b.input, b.perRow, constant(4)));
}

TEST(VerifyCommands, calls) {
  EXPECT_REFUSED("(call frobnicate): the runtime has no such function",
                 w.call("frobnicate", {}));
  EXPECT_REFUSED("it has 2 buffers; expected 3",
                 w.call("embedding_f32", {b.matrix, b.flag}));
  EXPECT_REFUSED("argument 'ids' is buffer 'matrix' of f32; expected i32",
                 w.call("embedding_f32", {b.matrix, b.matrix, b.matrix},
                        {constant(1), constant(4), constant(0), constant(6)}));
  EXPECT_REFUSED("scalar 'D' is -4",
                 w.call("embedding_f32", {b.matrix, b.flag, b.matrix},
                        {constant(1), constant(-4), constant(0), constant(6)}));
  EXPECT_REFUSED("it touches 28 elements of buffer 'matrix'",
                 w.call("embedding_f32", {b.matrix, b.flag, b.matrix},
                        {constant(1), constant(4), constant(0), constant(7)}));
  EXPECT_REFUSED("it touches too many elements of buffer 'matrix'",
                 w.call("embedding_f32", {b.matrix, b.flag, b.matrix},
                        {constant(1), constant(INT64_MAX), constant(0),
                         constant(INT64_MAX)}));
  EXPECT_REFUSED("writes to the input 'input'",
                 w.call("embedding_f32", {b.matrix, b.flag, b.input},
                        {constant(0), constant(4), constant(0), constant(6)}));
  EXPECT_REFUSED("takes none",
                 w.call("embedding_f32", {b.matrix, b.flag, b.matrix},
                        {constant(1), constant(4), constant(0), constant(6)},
                        {}, "text"));
  EXPECT_REFUSED(
      "float 'max_norm' is not finite",
      uint32_t f = p.buffer("f", fb::BufferKind::Scratch, fb::DataType::F64, 1);
      uint32_t l =
          p.buffer("l", fb::BufferKind::Scratch, fb::DataType::I64, 128);
      w.call("clip_coefficient", {l, f, f}, {}, {NAN}));
  EXPECT_REFUSED("granules 2 to 6 are not among the 4",
                 w.call("combine_granules_f32", {b.matrix, b.matrix},
                        {constant(1), constant(4), constant(4), constant(2),
                         constant(4)}));
  EXPECT_REFUSED("do not cover the length 6",
                 w.call("dot_tree_f32", {b.matrix, b.matrix, b.perRow},
                        {constant(1), constant(1), constant(1), constant(6),
                         constant(6), constant(1), constant(2), constant(2),
                         constant(0), constant(2), constant(0)}));
  EXPECT_REFUSED("(launch kernel): the program has no such kernel",
                 w.launch("kernel", {b.matrix}));
}

TEST(VerifyCommands, schedulesAreParsed) {
  EXPECT_REFUSED(
      "parabola",
      uint32_t f = p.buffer("f", fb::BufferKind::Scratch, fb::DataType::F64, 3);
      w.call("schedule", {b.integer, f, f, f}, {}, {1, 0.9, 0.9}, "parabola"));
}

TEST(VerifyCommands, loops) {
  EXPECT_REFUSED("iterations are no constant", w.loop(0));
  EXPECT_REFUSED("command 2 (loop): loops are nested deeper than 2",
                 w.loop(2).loop(2).loop(2));
  // Commands are numbered through loops.
  EXPECT_REFUSED("command 3 (fill)", CommandWriter body = w.loop(2);
                 body.fill(b.matrix, constant(1));
                 body.fill(b.matrix, constant(1));
                 body.fill(b.matrix, constant(1000)));
}

TEST(VerifyCommands, retryAndCommitIf) {
  auto accumulate = [](CommandWriter &w, const Buffers &b, ProgramBuilder &) {
    w.retry(b.flag);
  };
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "outside loops of 'step' and 'estimate'",
                      errorOf(accumulate, "accumulate"));
  EXPECT_EQ(errorOf(accumulate, "step"), "");
  EXPECT_REFUSED("outside loops", w.loop(1).commitIf(b.flag, "reason"));
  EXPECT_REFUSED("second one", w.retry(b.flag); w.retry(b.flag));
  EXPECT_REFUSED("gives no reason", w.commitIf(b.flag, ""));
  EXPECT_REFUSED("flag 'matrix' is f32; expected i32", w.retry(b.matrix));
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

uint32_t sumOver(ProgramBuilder &p, std::vector<fb::Axis> axes,
                 fb::Collective collective = fb::Collective::AllReduce,
                 fb::Order order = fb::Order::Integer) {
  return p.update("u", fb::Payload::Gradient, collective, std::move(axes),
                  order, fb::DataType::I64, 1);
}

TEST(VerifyCommands, collectives) {
  using fb::Combine;
  using fb::DataType;
  EXPECT_REFUSED("no such collective",
                 w.collective("all_to_all", {b.integer}, {constant(1)},
                              DataType::I64, Combine::Sum, {tp},
                              {sumOver(p, {tp})}));
  EXPECT_REFUSED("it carries out no update",
                 w.collective("all_reduce", {b.integer}, {constant(1)},
                              DataType::I64, Combine::Sum, {tp}, {}));
  EXPECT_REFUSED("update 5 of 0",
                 w.collective("all_reduce", {b.integer}, {constant(1)},
                              DataType::I64, Combine::Sum, {tp}, {5}));
  EXPECT_REFUSED("disagrees with update 'u': it says all_gather",
                 w.collective("all_reduce", {b.integer}, {constant(1)},
                              DataType::I64, Combine::Sum, {tp},
                              {sumOver(p, {tp}, fb::Collective::AllGather)}));
  EXPECT_REFUSED("it goes over other axes",
                 w.collective("all_reduce", {b.integer}, {constant(1)},
                              DataType::I64, Combine::Sum, {tp},
                              {sumOver(p, {fb::Axis::DpShard})}));
  EXPECT_REFUSED("its reduction_order is tree",
                 w.collective("all_reduce", {b.integer}, {constant(1)},
                              DataType::I64, Combine::Sum, {tp},
                              {sumOver(p, {tp}, fb::Collective::AllReduce,
                                       fb::Order::Tree)}));
  EXPECT_REFUSED(
      "it adds f32 in any order, but the program's numerics are "
      "reproducible",
      w.collective(
          "all_reduce", {b.matrix}, {constant(1)}, DataType::F32, Combine::Sum,
          {tp}, {sumOver(p, {tp}, fb::Collective::AllReduce, fb::Order::Any)}));
  EXPECT_REFUSED("by bit_or, which integers have",
                 w.collective("all_reduce", {b.matrix}, {constant(1)},
                              DataType::F32, Combine::BitOr, {tp},
                              {sumOver(p, {tp})}));
  EXPECT_REFUSED("axis tp occurs twice",
                 w.collective("all_reduce", {b.integer}, {constant(1)},
                              DataType::I64, Combine::Sum, {tp, tp},
                              {sumOver(p, {tp})}));
  EXPECT_REFUSED("it touches 200 bytes of buffer 'integer'",
                 w.collective("all_reduce", {b.integer}, {constant(25)},
                              DataType::I64, Combine::Sum, {tp},
                              {sumOver(p, {tp})}));
  // All ranks' parts have to fit.
  EXPECT_REFUSED("it touches 208 bytes of buffer 'integer'",
                 w.collective("all_gather", {b.integer, b.integer},
                              {constant(13)}, DataType::I64, Combine::Sum, {tp},
                              {sumOver(p, {tp}, fb::Collective::AllGather,
                                       fb::Order::Copy)}));
  EXPECT_REFUSED(
      "it touches 256 bytes of buffer 'integer'",
      w.collective("reduce_scatter", {b.integer, b.integer},
                   {constant(8), constant(2)}, DataType::I64, Combine::Sum,
                   {tp}, {sumOver(p, {tp}, fb::Collective::ReduceScatter)}));
  EXPECT_REFUSED("a scalar is -2",
                 w.collective("all_reduce", {b.integer}, {constant(-2)},
                              DataType::I64, Combine::Sum, {tp},
                              {sumOver(p, {tp})}));
}

TEST(VerifyCommands, treeAllReduce) {
  using fb::Combine;
  using fb::DataType;
  auto treeSum = [](ProgramBuilder &p) {
    return sumOver(p, {tp}, fb::Collective::AllReduce, fb::Order::Tree);
  };
  auto program = [&](int64_t count, int64_t granules, int64_t perRank,
                     DataType type, bool order = true) {
    return errorOf([&](CommandWriter &w, const Buffers &b, ProgramBuilder &p) {
      w.collective("tree_all_reduce", {b.matrix, b.perRow},
                   {constant(count), constant(granules), constant(perRank)},
                   type, Combine::Sum, {tp},
                   {order ? treeSum(p) : sumOver(p, {tp})});
    });
  };
  EXPECT_EQ(program(24, 4, 2, DataType::F32), "");
  // 3 + 3 of 6 granules: the first rank has the subtrees 0-1 and 2.
  EXPECT_EQ(program(12, 6, 3, DataType::F32), "");
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "it touches 104 bytes of buffer 'matrix'",
                      program(13, 6, 3, DataType::F32));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "the tree adds f32 or f64, not i64",
                      program(1, 4, 2, DataType::I64));
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "1 granules a rank do not cover 4 over 2 ranks",
                      program(1, 4, 1, DataType::F32));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "expected 1 to 65536",
                      program(1, 0, 1, DataType::F32));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "its reduction_order is integer",
                      program(1, 4, 2, DataType::F32, false));
}

TEST(VerifyCommands, fastNumericsMayAddInAnyOrder) {
  auto write = [](CommandWriter &w, const Buffers &b, ProgramBuilder &p) {
    w.collective("all_reduce", {b.matrix}, {constant(1)}, fb::DataType::F32,
                 fb::Combine::Sum, {tp},
                 {sumOver(p, {tp}, fb::Collective::AllReduce, fb::Order::Any)});
  };
  EXPECT_EQ(errorOf(write, "step", "tp=2",
                    [](fb::ProgramT &p) { p.numerics = "fast"; }),
            "");
}

TEST(VerifyCommands, boundsItsOwnWork) {
  // Every command differs between 2^20 ranks.
  std::string error = errorOf(
      [](CommandWriter &w, const Buffers &b, ProgramBuilder &) {
        for (int i = 0; i < 8; ++i)
          w.fill(b.matrix, owned(tp, 1, 1));
      },
      "step", "tp=1048576");
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "too many commands that differ between ranks", error);
}

} // namespace
