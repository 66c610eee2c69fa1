//===- DumpTest.cpp - Programs as a person reads them ---------------------===//

#include "runtime/program/Dump.h"
#include "test/runtime/program/TinyPrograms.h"

#include <gtest/gtest.h>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

std::shared_ptr<const LoadedProgram> tiny() {
  fb::ProgramT program = tinyTrainingProgram(
      *ParallelPlan::parseText("dp_shard=2,tp=2,microbatches=3"));
  program.granules.push_back(std::make_unique<fb::AttributeT>());
  program.granules[0]->key = "tokens";
  program.granules[0]->value = "32";
  program.updates[0]->error_bound = "0";
  program.updates[0]->notes = {"of all ranks"};
  auto loaded = loadBytes(program);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return *loaded;
}

TEST(Dump, textSaysWhatWasDecided) {
  std::string text = dumpText(*tiny());
  for (const char *line : {
           "program \"by hand\": training, reproducible, f32\n",
           "  plan dp_shard=2,tp=2,microbatches=3 (4 rank(s))\n",
           "  batch 8, sequence 4, at most 5 rows an iteration\n",
           "  granules tokens=32\n",
           "buffers have 64 B per row\n",
           "  %acc: accumulator i64[12] at 256\n",
           "  %features: input f32[12 x rows]\n",
           "  %table.momentum: state f32[6] at 64 of table slot momentum\n",
           "  table: f32[7, 3], dimension 0 over tp in parts of 4, flat over "
           "dp_shard in parts of 6; 6 elements a rank\n",
           "    init normal(0, 0.5), trained, decays, unit 0 for at most 65536 "
           "one-token blocks, optimizer state sharded\n",
           "  amax: all_reduce of message over dp_shard, tp, u64[1], state "
           "replicated\n",
           "    not exact, contract exact, order integer, error at most 0\n",
           "    note: of all ranks\n",
           "entry accumulate:\n  input tokens = %ids\n",
           "  0: loop [3]\n    1: call accumulate_scatter_f32 (%acc, %ids, "
           "%features, %units, %amax) [rows*4, 3, tp*4, owned(7-tp*4, 4), "
           "0]\n",
           "all_reduce max u64 (%amax) [1] over dp_shard, tp for amax\n",
           ": retry (%rerun)\n",
           ": commit_if (%finite) else \"non_finite\"\n",
           "call schedule (%step, %rate, %c1, %c2) {0.1, 0.9, 0.999} "
           "\"linear,warmup=2,total=10\"\n",
       })
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
}

TEST(Dump, jsonHasTheSchemasKeys) {
  Json json = dumpJson(*tiny());
  EXPECT_EQ(json["plan"]["world_size"], 4);
  EXPECT_EQ(json["granules"]["tokens"], "32");
  EXPECT_EQ(json["parameters"][0]["shard_axis"], "tp");
  EXPECT_EQ(json["updates"][0]["exact"], false);
  EXPECT_EQ(json["updates"][0]["payload"], "message");
  EXPECT_EQ(json["entries"][2]["commands"][0]["body"][0]["scalars"][0],
            "rows*4");
  EXPECT_EQ(json["entries"][2]["commands"][0]["body"][0]["buffers"][1], "ids");
}

TEST(Dump, scalars) {
  EXPECT_EQ(scalarText(coordinate(fb::Axis::Tp, 2, 1)), "tp*2+1");
  EXPECT_EQ(scalarText(rowStart(64)), "row_start*64");
  EXPECT_EQ(scalarText(offset(fb::Axis::DpShard, 3)), "dp_shard*3");
}

} // namespace
