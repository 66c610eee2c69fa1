//===- KernelsTest.cpp - Programs with compiled code ----------------------===//

#include "runtime/base/Files.h"
#include "runtime/executor/CodeModule.h"
#include "test/runtime/executor/RunPrograms.h"

#include <elf.h>
#include <xmmintrin.h>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

void addCode(fb::ProgramT &program, std::vector<std::string> kernels,
             std::vector<std::string> features = {}) {
  std::string elf = *readFile(MIXLE_TEST_KERNELS);
  program.kernels = std::move(kernels);
  program.code.push_back(std::make_unique<fb::CodeT>());
  program.code.back()->target = "x86_64-linux-gnu";
  program.code.back()->cpu = "x86-64";
  program.code.back()->features = std::move(features);
  program.code.back()->elf.assign(elf.begin(), elf.end());
}

/// Entry `accumulate` launches test_add on rows of four.
fb::ProgramT addingProgram() {
  ProgramBuilder b("training", *ParallelPlan::parseText("dp_replicate=2"), 3);
  uint32_t in = b.buffer("in", fb::BufferKind::Input, fb::DataType::F32, 0, 4);
  uint32_t out =
      b.buffer("out", fb::BufferKind::Output, fb::DataType::F32, 0, 4);
  b.input("accumulate", "x", in);
  b.output("accumulate", "y", out);
  b.entry("accumulate")
      .launch("test_add", {in, out},
              {rows(1), coordinate(fb::Axis::DpReplicate, 10, 1)});
  fb::ProgramT program = b.finish();
  addCode(program, {"test_add"});
  return program;
}

TEST(Kernels, runOnEveryRankWithItsScalars) {
  Status status = runEverywhere(addingProgram(), [](RankExecutor &executor) {
    std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
    EntryInputs inputs;
    inputs.rows = 2;
    inputs.data["x"] = x.data();
    MIXLE_RETURN_IF_ERROR(executor.run("accumulate", inputs).status());
    std::vector<float> y(8);
    MIXLE_RETURN_IF_ERROR(
        executor.readOutput("accumulate", "y", y.data(), 8, fb::DataType::F32));
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(y[i], x[i] + 1 + 10 * executor.communicator().rank());
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Kernels, takeNoMoreRowsThanTheProgramHolds) {
  Status status = runEverywhere(addingProgram(), [](RankExecutor &executor) {
    std::vector<float> x(16);
    EntryInputs inputs;
    inputs.rows = 4;
    inputs.data["x"] = x.data();
    return executor.run("accumulate", inputs).status();
  });
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "entry 'accumulate', command 0 (launch test_add): 4 rows "
                      "at once; the program holds at most 3",
                      status.message());
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank ", status.message());
}

TEST(Kernels, areResolvedBeforeAnythingRuns) {
  fb::ProgramT program = addingProgram();
  program.kernels = {"test_add", "test_other"};
  program.classes[0]->entries[0]->commands[0]->name = "test_other";
  Status status =
      runEverywhere(program, [](RankExecutor &) { return Status::success(); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "the program's code has no kernel 'test_other'",
                      status.message());
}

TEST(Kernels, needTheirCpuFeatures) {
  fb::ProgramT program = addingProgram();
  program.code[0]->features = {"sse3", "quantum"};
  auto nothing = [](RankExecutor &) { return Status::success(); };
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "CPU feature 'quantum' is not one",
                      runEverywhere(program, nothing).message());
  // Some machine lacks one of these; where none is missing, all is well.
  for (const char *feature : {"avx2", "avx512f", "avx512bf16"}) {
    program.code[0]->features = {feature};
    Status status = runEverywhere(program, nothing);
    if (*cpuHasFeature(feature))
      EXPECT_TRUE(status.ok()) << status.message();
    else
      EXPECT_PRED_FORMAT2(testing::IsSubstring,
                          std::string("x86-64 needs '") + feature + "'",
                          status.message());
  }
}

TEST(Kernels, otherCodeObjectsAreTriedInOrder) {
  fb::ProgramT program = addingProgram();
  const char *missing = nullptr;
  for (const char *feature : {"avx512bf16", "avx512vnni", "avx512f"})
    if (!*cpuHasFeature(feature))
      missing = feature;
  if (!missing)
    GTEST_SKIP() << "this CPU has every feature that the test could miss";
  addCode(program, program.kernels);
  program.code[0]->features = {missing};
  EXPECT_TRUE(runEverywhere(program, [](RankExecutor &) {
                return Status::success();
              }).ok());
}

TEST(Kernels, whatTheSystemsLoaderRefusesIsAnError) {
  fb::ProgramT program = addingProgram();
  program.code[0]->elf[EI_OSABI] = 99;
  Status status =
      runEverywhere(program, [](RankExecutor &) { return Status::success(); });
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "cannot load the program's code: ", status.message());
}

TEST(Kernels, runWithSubnormalsWhateverTheCallersMode) {
  ProgramBuilder b("training", ParallelPlan(), 1);
  uint32_t out = b.buffer("out", fb::BufferKind::Output, fb::DataType::F32, 1);
  b.output("evaluate", "y", out);
  b.entry("evaluate").launch("test_subnormal", {out});
  fb::ProgramT program = b.finish();
  addCode(program, {"test_subnormal"});
  Status status = runEverywhere(program, [](RankExecutor &executor) {
    unsigned before = _mm_getcsr();
    // Round towards zero, flush to zero, denormals are zero.
    _mm_setcsr(before | 0x6000 | 0x8000 | 0x0040);
    unsigned changed = _mm_getcsr();
    Status run = executor.run("evaluate", EntryInputs()).status();
    EXPECT_EQ(_mm_getcsr() & 0xffc0, changed & 0xffc0) << "restored";
    _mm_setcsr(before);
    MIXLE_RETURN_IF_ERROR(run);
    float value = 0;
    MIXLE_RETURN_IF_ERROR(
        executor.readOutput("evaluate", "y", &value, 1, fb::DataType::F32));
    EXPECT_EQ(value, 0x1p-127f);
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

//===----------------------------------------------------------------------===//
// Windows of rows
//===----------------------------------------------------------------------===//

/// What each iteration saw: test_add copies the rows that it is given, and the
/// last iteration's rows stay in `out`.
TEST(Windows, cutRowsInCeilChunks) {
  // rows, iterations -> rows of each iteration
  struct Case {
    int64_t rows, iterations;
    std::vector<int64_t> expected;
  };
  for (const Case &c : std::vector<Case>{{7, 3, {3, 3, 1}},
                                         {5, 4, {2, 2, 1, 0}},
                                         {2, 4, {1, 1, 0, 0}},
                                         {0, 2, {0, 0}},
                                         {6, 2, {3, 3}}}) {
    ProgramBuilder b("training", ParallelPlan(), 3);
    uint32_t in =
        b.buffer("in", fb::BufferKind::Input, fb::DataType::I32, 0, 1);
    std::vector<uint32_t> counts;
    // Iteration i is the only one whose rows start at its place: counting
    // labels other than a row's own number tells rows and windows apart.
    uint32_t rowsSeen =
        b.buffer("rows", fb::BufferKind::Output, fb::DataType::I64, 1);
    uint32_t starts =
        b.buffer("starts", fb::BufferKind::Output, fb::DataType::I64, 1);
    uint32_t calls =
        b.buffer("calls", fb::BufferKind::Output, fb::DataType::I64, 1);
    uint32_t labels =
        b.buffer("labels", fb::BufferKind::Output, fb::DataType::I64, 1);
    b.input("accumulate", "x", in);
    for (auto [role, buffer] :
         {std::pair("rows", rowsSeen), std::pair("starts", starts),
          std::pair("calls", calls), std::pair("labels", labels)}) {
      b.output("accumulate", role, buffer);
      b.entry("accumulate").fill(buffer, constant(8));
    }
    CommandWriter body = b.entry("accumulate").loop(c.iterations);
    body.launch("test_count", {rowsSeen, calls}, {rows(1), constant(1)});
    body.launch("test_count", {starts, calls}, {rowStart(1), constant(1)});
    body.call("count_labels", {labels, in}, {rows(1), constant(-1)});
    fb::ProgramT program = b.finish();
    addCode(program, {"test_count"});
    Status status = runEverywhere(program, [&](RankExecutor &executor) {
      // Every other row is not counted: a wrong window would miscount.
      std::vector<int32_t> x(c.rows + 16, 5);
      int64_t counted = 0;
      for (int64_t i = 0; i < c.rows; ++i)
        counted += (x[i] = i % 2 ? -1 : 5) != -1;
      EntryInputs inputs;
      inputs.rows = c.rows;
      inputs.data["x"] = x.data();
      MIXLE_RETURN_IF_ERROR(executor.run("accumulate", inputs).status());
      auto read = [&](const char *role) {
        int64_t value = -1;
        EXPECT_TRUE(
            executor
                .readOutput("accumulate", role, &value, 1, fb::DataType::I64)
                .ok());
        return value;
      };
      int64_t start = 0, sumOfStarts = 0;
      for (int64_t n : c.expected) {
        sumOfStarts += start;
        start += n;
      }
      EXPECT_EQ(read("rows"), c.rows);
      EXPECT_EQ(read("starts"), sumOfStarts);
      EXPECT_EQ(read("calls"), 2 * c.iterations);
      EXPECT_EQ(read("labels"), counted);
      return Status::success();
    });
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(Windows, nestInOneAnother) {
  // 7 rows in 2 chunks of 4 and 3, each in 2: 2, 2, 2, 1.
  ProgramBuilder b("training", ParallelPlan(), 2);
  uint32_t rowsSeen =
      b.buffer("rows", fb::BufferKind::Output, fb::DataType::I64, 1);
  uint32_t calls =
      b.buffer("calls", fb::BufferKind::Output, fb::DataType::I64, 1);
  b.output("accumulate", "rows", rowsSeen);
  b.output("accumulate", "calls", calls);
  CommandWriter body = b.entry("accumulate").loop(2).loop(2);
  // Adds start * rows: 0*2 + 2*2 + 4*2 + 6*1.
  body.launch("test_count", {rowsSeen, calls}, {rows(1), rowStart(1)});
  fb::ProgramT program = b.finish();
  addCode(program, {"test_count"});
  Status status = runEverywhere(program, [](RankExecutor &executor) {
    EntryInputs inputs;
    inputs.rows = 7;
    MIXLE_RETURN_IF_ERROR(executor.run("accumulate", inputs).status());
    int64_t sum = 0, calls = 0;
    MIXLE_RETURN_IF_ERROR(
        executor.readOutput("accumulate", "rows", &sum, 1, fb::DataType::I64));
    MIXLE_RETURN_IF_ERROR(executor.readOutput("accumulate", "calls", &calls, 1,
                                              fb::DataType::I64));
    EXPECT_EQ(sum, 18);
    EXPECT_EQ(calls, 4);
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

} // namespace
