//===- TrainingTest.cpp - What mixle-run does -----------------------------===//

#include "runtime/base/Npy.h"
#include "test/tools/mixle-run/RunTesting.h"
#include "tools/mixle-run/Generate.h"

#include <cmath>
#include <limits>

using namespace mixle::runtime;
using namespace mixle::runtime::test;
using namespace mixle::test;

TEST(MixleRun, TrainsOnTextWithReceipts) {
  Folder folder;
  std::string program =
      putProgram(folder, "p", "dp_replicate=2,microbatches=2", byteSizes);
  std::string text = folder.put("text", someText(5 * 20 + 3));
  std::string receipts = folder / "r.jsonl";
  Outcome outcome =
      mixleRun(program + " --text " + text + " --steps 4 --seed 3 --receipts " +
               receipts + " --save " + (folder / "w"));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.says("step 4/4  loss ")) << outcome.err;
  EXPECT_TRUE(outcome.says(" tokens/s  0:00 left")) << outcome.err;
  EXPECT_EQ(outcome.value("steps"), "4");

  std::vector<Json> lines = linesOf(folder.get("r.jsonl"));
  ASSERT_EQ(lines.size(), 4u);
  // 20 rows in batches of 8: the third step of an epoch has 4.
  const std::vector<int> examples = {8, 8, 4, 8};
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1);
    EXPECT_EQ(lines[i]["global_examples"], examples[i]);
    EXPECT_EQ(lines[i]["global_tokens"], examples[i] * 4);
    EXPECT_EQ(lines[i]["local_examples"], examples[i] / 2);
    EXPECT_EQ(lines[i]["microbatches"], 2);
    EXPECT_EQ(lines[i]["data_parallel_size"], 2);
    EXPECT_EQ(lines[i]["optimizer"], "sgd");
    EXPECT_EQ(lines[i]["skipped"], false);
    EXPECT_EQ(lines[i]["extra"]["state_digest"].get<std::string>().size(), 32u);
  }
  EXPECT_EQ(outcome.value("state_digest"), lines[3]["extra"]["state_digest"]);
  EXPECT_EQ(std::stod(outcome.value("loss")), lines[3]["loss"].get<double>());
  EXPECT_TRUE(SafetensorsFile::open(folder / "w").ok());
  EXPECT_EQ(folder.count(), 4u);

  Outcome quiet = mixleRun(program + " --text " + text + " --steps 2 --quiet");
  EXPECT_EQ(quiet.status, 0);
  EXPECT_EQ(quiet.err, "");
}

TEST(MixleRun, SameDigestsUnderEveryPlan) {
  Folder folder;
  std::string text = folder.put("text", someText(5 * 23));
  std::vector<std::string> expected;
  for (const char *plan :
       {"dp_replicate=1", "dp_replicate=3,microbatches=2",
        "dp_shard=2,gradient_accumulation_steps=3", "tp=3",
        "dp_replicate=2,tp=2,gradient_accumulation_steps=8"}) {
    std::string program = putProgram(folder, "p", plan, byteSizes);
    Outcome outcome = mixleRun(
        program + " --text " + text + " --steps 5 -q --evaluate" +
        " --receipts " + (folder / "r.jsonl") + " --generate 12 --prompt abc");
    ASSERT_EQ(outcome.status, 0) << plan << ": " << outcome.err;
    std::vector<std::string> found;
    for (const Json &line : linesOf(folder.get("r.jsonl")))
      found.push_back(line["loss"].dump() + " " +
                      line["extra"]["state_digest"].dump());
    found.push_back(outcome.value("evaluation_loss"));
    found.push_back(outcome.out.substr(outcome.out.find("text:")));
    EXPECT_EQ(found.size(), 7u);
    EXPECT_EQ(found.back().substr(0, 9), "text:\nabc");
    EXPECT_EQ(found.back().size(), 6u + 3 + 12 + 1);
    if (expected.empty())
      expected = found;
    EXPECT_EQ(found, expected) << plan;
  }
}

TEST(MixleRun, BatchesAndLabelsAreUsedAsGiven) {
  Folder folder;
  SessionSizes sizes = {7, 4, 4};
  std::string weights = writeWeights(folder, "in");
  std::vector<int32_t> tokens, labels;
  for (int i = 0; i < 3 * 4 * 5; ++i)
    tokens.push_back(i * 5 % 7 % 6);
  for (int i = 0; i < 3 * 4 * 4; ++i)
    labels.push_back(i % 3 == 0 ? -100 : i % 6);
  ASSERT_TRUE(
      writeNpy(folder / "b.npy", NpyType::I4, {3, 4, 5}, tokens.data()).ok());
  ASSERT_TRUE(
      writeNpy(folder / "l.npy", NpyType::I4, {3, 4, 4}, labels.data()).ok());
  std::vector<double> losses;
  double total = 0;
  int64_t counted = 0;
  for (int step = 0; step < 3; ++step) {
    double sum = 0;
    int64_t count = 0;
    for (int row = 0; row < 4; ++row)
      for (int i = 0; i < 4; ++i) {
        int32_t label = labels[(step * 4 + row) * 4 + i];
        if (label == -100)
          continue;
        sum += 1 + 7 * tokens[(step * 4 + row) * 5 + i] + label;
        ++count;
      }
    losses.push_back(sum / static_cast<double>(count));
    total += sum;
    counted += count;
  }
  for (const char *plan :
       {"dp_replicate=3", "tp=2,gradient_accumulation_steps=3"}) {
    std::string program = putProgram(folder, "p", plan, sizes);
    std::string common = program + " -q --weights " + weights + " --batches " +
                         (folder / "b.npy") + " --labels " + (folder / "l.npy");
    Outcome outcome = mixleRun(common + " --receipts " + (folder / "r.jsonl"));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::vector<Json> lines = linesOf(folder.get("r.jsonl"));
    ASSERT_EQ(lines.size(), 3u);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(lines[i]["loss"].get<double>(), losses[i]) << plan;

    Outcome evaluated = mixleRun(common + " --evaluate");
    ASSERT_EQ(evaluated.status, 0) << evaluated.err;
    EXPECT_EQ(evaluated.value("steps"), "");
    EXPECT_EQ(std::stod(evaluated.value("evaluation_loss")),
              total / static_cast<double>(counted));
    EXPECT_EQ(evaluated.value("evaluation_tokens"), std::to_string(counted));
  }
}

TEST(MixleRun, DigestEvery) {
  Folder folder;
  std::string program = putProgram(folder, "p", "dp_replicate=1", byteSizes);
  std::string text = folder.put("text", someText(100));
  ASSERT_EQ(mixleRun(program + " -q --text " + text +
                     " --steps 5 --digest-every 2 --receipts " +
                     (folder / "r.jsonl"))
                .status,
            0);
  std::vector<bool> has;
  for (const Json &line : linesOf(folder.get("r.jsonl")))
    has.push_back(line["extra"].contains("state_digest"));
  EXPECT_EQ(has, (std::vector<bool>{false, true, false, true, true}));
}

TEST(MixleRun, WeightsComeBack) {
  Folder folder;
  std::string one = putProgram(folder, "one", "dp_replicate=1", byteSizes);
  std::string other = putProgram(folder, "other", "dp_shard=2,tp=2", byteSizes);
  Outcome saved = mixleRun(one + " --seed 9 --save " + (folder / "a"));
  ASSERT_EQ(saved.status, 0) << saved.err;
  Outcome again = mixleRun(other + " --weights " + (folder / "a") + " --save " +
                           (folder / "b"));
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(folder.get("a"), folder.get("b"));
  EXPECT_EQ(saved.value("state_digest"), again.value("state_digest"));
  EXPECT_NE(mixleRun(one + " --seed 8 --save " + (folder / "c"))
                .value("state_digest"),
            saved.value("state_digest"));
}

TEST(MixleRun, DumpAndVerify) {
  Folder folder;
  std::string program =
      putProgram(folder, "p", "dp_replicate=2,tp=2", byteSizes);
  Outcome verified = mixleRun("--verify " + program);
  EXPECT_EQ(verified.status, 0);
  EXPECT_EQ(verified.out, "'" + program +
                              "' is a valid training program for "
                              "dp_replicate=2,tp=2\n");
  Outcome text = mixleRun("--dump " + program);
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("transformer.wte.weight"), std::string::npos);
  Outcome json = mixleRun(program + " --dump=json");
  EXPECT_EQ(json.status, 0);
  EXPECT_EQ(Json::parse(json.out)["plan"]["tp"], 2);
  Outcome help = mixleRun("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("--collective-timeout"), std::string::npos);
}

/// The runtime's tool has to run where no compiler is installed.
TEST(MixleRun, NeedsNoCompiler) {
  Outcome outcome = runShell(std::string("readelf -d ") + MIXLE_TEST_RUN);
  if (outcome.status != 0)
    GTEST_SKIP() << "readelf is not there";
  EXPECT_NE(outcome.out.find("NEEDED"), std::string::npos);
  for (const char *library : {"LLVM", "MLIR"})
    EXPECT_EQ(outcome.out.find(library), std::string::npos) << outcome.out;
}

TEST(MixleRun, Mpi) {
  if (!missingMpi().empty())
    GTEST_SKIP() << missingMpi();
  Folder folder;
  std::string text = folder.put("text", someText(100));
  std::string program =
      putProgram(folder, "p", "dp_replicate=2,tp=2", byteSizes);
  std::string arguments = program + " -q --text " + text +
                          " --steps 3 --evaluate --generate 5 --receipts ";
  Outcome threads =
      mixleRun(arguments + (folder / "a") + " --save " + (folder / "aw"));
  Outcome mpi =
      mixleRunMpi(4, arguments + (folder / "b") + " --save " + (folder / "bw"));
  ASSERT_EQ(threads.status, 0) << threads.err;
  ASSERT_EQ(mpi.status, 0) << mpi.err;
  for (const char *key : {"state_digest", "loss", "evaluation_loss"})
    EXPECT_EQ(mpi.value(key), threads.value(key)) << key;
  EXPECT_EQ(mpi.out.substr(mpi.out.find("text:")),
            threads.out.substr(threads.out.find("text:")));
  EXPECT_EQ(folder.get("aw"), folder.get("bw"));
  // What ranks send is counted alike.
  EXPECT_EQ(folder.get("a"), folder.get("b"));

  Outcome mismatch = mixleRunMpi(3, arguments + (folder / "c"));
  EXPECT_EQ(mismatch.status, 1);
  EXPECT_TRUE(mismatch.says("parallel plan requires world_size=4, but the "
                            "process group has world_size=3. Start it with "
                            "mpirun -n 4"))
      << mismatch.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "c"));
  // A mistake is reported once.
  Outcome usage = mixleRunMpi(2, program + " --steps 0");
  EXPECT_EQ(usage.status, 2);
  EXPECT_EQ(usage.err.find("--steps 0"), usage.err.rfind("--steps 0"));
}

TEST(SampleIndex, DrawsFromTheSoftmax) {
  using mixle::tools::sampleIndex;
  const std::vector<double> logits = {0, std::log(2.0), std::log(5.0), -800};
  // Probabilities 1/8, 2/8, 5/8, 0.
  EXPECT_EQ(*sampleIndex(logits, 1, 0.0), 0);
  EXPECT_EQ(*sampleIndex(logits, 1, 0.124), 0);
  EXPECT_EQ(*sampleIndex(logits, 1, 0.126), 1);
  EXPECT_EQ(*sampleIndex(logits, 1, 0.374), 1);
  EXPECT_EQ(*sampleIndex(logits, 1, 0.376), 2);
  EXPECT_EQ(*sampleIndex(logits, 1, 0.9999999999999999), 2);
  EXPECT_EQ(*sampleIndex({1, 3, 3, 2}, 0, 0.9), 1);
  EXPECT_EQ(*sampleIndex({1, 3, 2.9}, 1e-3, 0.999), 1);
  EXPECT_FALSE(
      sampleIndex({1, std::numeric_limits<double>::quiet_NaN()}, 0, 0).ok());
}
