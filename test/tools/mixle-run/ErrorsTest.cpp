//===- ErrorsTest.cpp - Bad input and lost ranks --------------------------===//

#include "runtime/base/Npy.h"
#include "test/tools/mixle-run/RunTesting.h"

using namespace mixle::runtime;
using namespace mixle::runtime::test;
using namespace mixle::test;

namespace {

/// A program, a text of 20 rows and the folder that they lie in.
class Errors : public testing::Test {
protected:
  std::string put(const std::string &name, const std::string &content) {
    return folder.put(name, content);
  }

  /// Expects one clear line, the exit status, and no new file.
  void expectError(const std::string &arguments, int status,
                   const std::string &phrase) {
    size_t before = folder.count();
    Outcome outcome = mixleRun(arguments);
    EXPECT_EQ(outcome.status, status) << arguments << "\n" << outcome.err;
    EXPECT_EQ(outcome.errorLines(), 1) << arguments << "\n" << outcome.err;
    EXPECT_EQ(outcome.err.rfind("mixle-run: error: ", 0), 0u) << outcome.err;
    EXPECT_TRUE(outcome.says(phrase))
        << arguments << "\nexpected: " << phrase << "\n"
        << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(folder.count(), before) << arguments;
  }

  Folder folder;
  std::string program =
      putProgram(folder, "program", "dp_replicate=2", byteSizes);
  std::string small =
      putProgram(folder, "small", "dp_replicate=2", SessionSizes{7, 4, 4});
  std::string text = folder.put("text", someText(100));
  std::string training = program + " -q --text " + text + " --steps 2 ";
};

} // namespace

TEST_F(Errors, CommandLine) {
  expectError("", 2, "program is required");
  expectError(program + " --frobnicate", 2, "--frobnicate");
  expectError(training + "more", 2, "more");
  expectError(training + "--communicator carrier-pigeon", 2, "carrier-pigeon");
  expectError(program + " --text " + text + " --steps abc", 2,
              "--steps: 'abc' is not an integer");
  expectError(program + " --text " + text + " --steps 0", 2,
              "--steps 0: expected at least 1");
  expectError(program + " --text " + text + " --steps -3", 2,
              "--steps -3: expected at least 1");
  expectError(program + " --text " + text + " --steps 99999999999999999999", 2,
              "does not fit in a 64-bit integer");
  expectError(training + "--seed -1", 2, "--seed -1: expected at least 0");
  expectError(training + "--generate 0", 2, "--generate 0");
  expectError(training + "--generate 3 --temperature nan", 2,
              "--temperature: 'nan' is not a finite number");
  expectError(training + "--generate 3 --temperature -1", 2,
              "--temperature -1: expected at least 0");
  expectError(training + "--collective-timeout nan", 2,
              "--collective-timeout: 'nan' is not a finite number");
  expectError(training + "--digest-every 0 --receipts " + (folder / "r"), 2,
              "--digest-every 0");
}

TEST_F(Errors, OptionsThatDoNotFitTogether) {
  expectError(program, 2, "nothing to do");
  expectError(program + " --text " + text, 2, "the data has no use without");
  expectError(program + " --steps 3", 2, "--steps needs --text");
  expectError(program + " --evaluate", 2, "--evaluate needs --text");
  expectError(training + "--tokens " + text, 2,
              "--text and --tokens exclude each other");
  expectError(training + "--labels " + text, 2, "--labels needs --batches");
  expectError(training + "--digest-every 2", 2,
              "--digest-every needs --receipts");
  expectError(training + "--prompt x", 2, "--prompt needs --generate");
  expectError(training + "--temperature 1", 2, "--temperature needs");
  expectError(program + " --save " + (folder / "x") + " --receipts " +
                  (folder / "x") + " --text " + text + " --steps 1",
              2, "both name");
  expectError(program + " --generate 3 --receipts " + (folder / "r"), 2,
              "--receipts needs steps");
  for (const char *option :
       {"--data x", "--row-weights x", "--iterations 3", "--tolerance 1",
        "--chunk-rows 5"})
    expectError(training + option, 2,
                "', which is a training program: it is an option of estimation; "
                "leave it out");
  const std::string given = program + " --seed 1 --weights x ";
  for (const std::string &rest : std::vector<std::string>{
           "--save " + (folder / "x"), "--batches x", "--text " + text + " --evaluate"})
    expectError(given + rest, 2, "--seed has no effect: --weights gives");
  expectError(training + "--verify", 2, "--verify runs nothing");
  expectError(program + " --dump --seed 1", 2, "--dump runs nothing");
  expectError(program + " --dump=xml", 2, "--dump=xml");
}

TEST_F(Errors, Programs) {
  expectError((folder / "missing") + " --verify", 1, folder / "missing");
  expectError(folder.path + " --verify", 1, folder.path);
  std::string whole = folder.get("program");
  for (size_t length : {size_t(0), size_t(7), size_t(100), whole.size() - 1})
    expectError(put("cut", whole.substr(0, length)) + " --verify", 1,
                folder / "cut");
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 4;
  expectError(put("cut", flipped) + " --text " + text + " --steps 1", 1,
              folder / "cut");
}

TEST_F(Errors, Data) {
  auto with = [&](const std::string &arguments) {
    return program + " -q --steps 2 " + arguments;
  };
  expectError(with("--text " + (folder / "none")), 1, folder / "none");
  expectError(with("--text " + put("d", "")), 1, folder / "d");
  expectError(with("--text " + put("d", "abcd")), 1, folder / "d");
  expectError(with("--tokens " + put("d.bin", "")), 1, folder / "d.bin");
  expectError(with("--tokens " + put("d.bin", std::string(20, '\2'))), 1,
              "outside the vocabulary");
  expectError(small + " -q --steps 2 --text " + text, 1,
              "outside the vocabulary");
  expectError(with("--tokens " + put("d.npy", "no array")), 1,
              folder / "d.npy");
}

TEST_F(Errors, Batches) {
  std::vector<int32_t> tokens(2 * 4 * 5, 1), labels(2 * 4 * 4, 1);
  std::string batches = folder / "b.npy", names = folder / "l.npy";
  auto putBatches = [&](std::vector<int64_t> shape) {
    ASSERT_TRUE(writeNpy(batches, NpyType::I4, shape, tokens.data()).ok());
  };
  auto putLabels = [&](std::vector<int64_t> shape) {
    ASSERT_TRUE(writeNpy(names, NpyType::I4, shape, labels.data()).ok());
  };
  putBatches({2, 4, 5});
  putLabels({2, 4, 4});
  const std::string run = small + " -q --batches " + batches;
  EXPECT_EQ(mixleRun(run + " --labels " + names).status, 0);
  expectError(run + " --steps 3", 1, "it holds 2 steps; --steps asks for 3");
  putBatches({4, 2, 5});
  expectError(run, 1, "compiled for --batch 4");
  putBatches({2, 5, 4});
  expectError(run, 1, "the program has sequence 4");
  putBatches({8, 5});
  expectError(run, 1, batches);
  putBatches({2, 4, 5});
  tokens[7] = 7;
  putBatches({2, 4, 5});
  expectError(run, 1, "outside the vocabulary");
  tokens[7] = 1;
  putBatches({2, 4, 5});
  putLabels({2, 4, 3});
  expectError(run + " --labels " + names, 1, names);
  labels[5] = -1;
  putLabels({2, 4, 4});
  expectError(run + " --labels " + names, 1, names);
  // B004: no label counts.
  labels.assign(labels.size(), -100);
  putLabels({2, 4, 4});
  expectError(run + " --labels " + names, 1,
              "step 1 is not committed: no label of its window counts");
  expectError(run + " --labels " + names + " --evaluate", 1,
              "no label of the data counts");
}

TEST_F(Errors, Weights) {
  std::string weights = writeWeights(folder, "weights");
  EXPECT_EQ(
      mixleRun(small + " --weights " + weights + " --save " + (folder / "out"))
          .status,
      0);
  expectError(training + "--weights " + weights, 1, "has shape [7, 7]");
  expectError(training + "--weights " + (folder / "none"), 1, folder / "none");
  expectError(training + "--weights " + text, 1, text);
  expectError(training + "--weights " +
                  put("cut", folder.get("weights").substr(0, 200)),
              1, folder / "cut");
}

TEST_F(Errors, Outputs) {
  // Found before anything is trained: there is nothing on stdout.
  expectError(training + "--save " + (folder / "no/w"), 1, folder / "no/w");
  expectError(training + "--receipts " + (folder / "no/r"), 1, folder / "no/r");
  expectError(training + "--save " + folder.path, 1, folder.path);
  expectError(training + "--receipts /dev/full", 1, "/dev/full");
  expectError(training + "--save /dev/full", 1, "/dev/full");
  Outcome full = runShell(std::string(MIXLE_TEST_RUN) + " --dump " + program +
                          " >/dev/full");
  EXPECT_EQ(full.status, 1);
  EXPECT_TRUE(full.says("cannot write to the standard output")) << full.err;
  full = runShell(std::string(MIXLE_TEST_RUN) + " " + training + " >/dev/full");
  EXPECT_EQ(full.status, 1);
  EXPECT_TRUE(full.says("cannot write to the standard output")) << full.err;
}

TEST_F(Errors, OutputsThatWouldReplaceInputs) {
  const std::string kept = folder.get("text");
  std::filesystem::create_symlink(text, folder / "link");
  for (const std::string &name :
       {text, folder / "link", folder.path + "/./text"}) {
    expectError(training + "--save " + name, 2, "--save and --text both name '" + name);
    expectError(training + "--receipts " + name, 2, "--receipts and --text both name");
  }
  expectError(training + "--save " + program, 2, "--save and the program both name");
  put("r.partial", "abc");
  expectError(program + " -q --steps 2 --text " + (folder / "r.partial") +
                  " --receipts " + (folder / "r"),
              2, "--receipts and --text both name");
  for (const char *option : {"--tokens ", "--batches "})
    expectError(program + " -q --steps 2 " + option + text + " --save " + text, 2,
                std::string("--save and ") + option + "both name");
  expectError(program + " -q --batches b --labels " + text + " --save " + text, 2,
              "--save and --labels both name");
  for (const char *option : {"--data ", "--row-weights "})
    expectError(program + " " + option + text + " --save " + text, 2,
                std::string("--save and ") + option + "both name");
  expectError(training + "--weights " + text + " --receipts " + text, 2,
              "--receipts and --weights both name");
  expectError(training + "--save " + folder.path + "/./x --receipts " + (folder / "x"),
              2, "--save and --receipts both name");
  EXPECT_EQ(folder.get("text"), kept);
}

TEST_F(Errors, EmptyValues) {
  expectError(training + "--save ''", 2, "--save: its value is empty");
  expectError(training + "--save=", 2, "--save: its value is empty");
  expectError(program + " --text '' --steps 1", 2, "--text: its value is empty");
  expectError(training + "--seed ''", 2, "--seed: its value is empty");
  expectError("''", 2, "an argument is empty");
}

TEST_F(Errors, Generation) {
  expectError(
      putProgram(folder, "wide", "dp_replicate=1", SessionSizes{600, 4, 4}) +
          " --generate 3",
      1, "the vocabulary of program");
  expectError(small + " --generate 3 --prompt abc", 1,
              "--prompt: byte 97 is outside the vocabulary [0, 7)");
}

TEST_F(Errors, Injection) {
  expectError(training + "--inject-failure rank=1", 2, "it has no 'step'");
  expectError(training + "--inject-failure rank=1,step=1,kind=melt", 2,
              "kind 'melt'");
  expectError(training + "--inject-failure rank=2,step=1,kind=error", 2,
              "rank 2 is none of the program's 2 ranks");
  expectError(training + "--inject-failure rank=1,step=3,kind=error", 1,
              "step 3 is none of the run's 2 steps");
  expectError(training + "--inject-failure rank=1,step=1,kind=kill", 1,
              "needs ranks that are processes");
  expectError(program + " --text " + text +
                  " --evaluate --inject-failure rank=1,step=1,kind=error",
              2, "--inject-failure needs steps");
}

//===----------------------------------------------------------------------===//
// Lost ranks (B061)
//===----------------------------------------------------------------------===//

TEST_F(Errors, AThreadThatFails) {
  Outcome outcome = mixleRun(training +
                             "--inject-failure "
                             "rank=1,step=2,kind=error --save " +
                             (folder / "w") + " --receipts " + (folder / "r"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.says("rank 1: injected failure before entry "
                           "'accumulate' of step 2"))
      << outcome.err;
  EXPECT_TRUE(outcome.says("rank 0: "));
  EXPECT_TRUE(outcome.says("entry 'step', command 0, update 'units:amax'"))
      << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "w"));
  EXPECT_FALSE(std::filesystem::exists(folder / "r"));
  // What was done is kept apart, whole lines.
  EXPECT_EQ(linesOf(folder.get("r.partial")).size(), 1u);
}

TEST_F(Errors, AThreadThatHangs) {
  Outcome outcome = mixleRun(training +
                             "--collective-timeout 1 --inject-failure "
                             "rank=1,step=2,kind=hang,entry=step --save " +
                             (folder / "w"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.says("timed out after 1 s")) << outcome.err;
  EXPECT_TRUE(outcome.says("entry 'step', command 0, update 'units:amax'"))
      << outcome.err;
  EXPECT_TRUE(outcome.says("rank 1")) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "w"));
}

TEST_F(Errors, AProcessThatFailsIsKilledOrHangs) {
  if (!missingMpi().empty())
    GTEST_SKIP() << missingMpi();
  for (const char *kind : {"error", "kill", "hang"}) {
    Outcome outcome =
        mixleRunMpi(2, training +
                           "--collective-timeout 2 --inject-failure "
                           "rank=1,step=2,kind=" +
                           kind + " --save " + (folder / "w"));
    // 124 would be the minute after which runShell ends what hangs.
    EXPECT_NE(outcome.status, 0) << kind;
    EXPECT_NE(outcome.status, 124) << kind;
    EXPECT_TRUE(outcome.says("rank 1")) << kind << "\n" << outcome.err;
    if (std::string(kind) == "error") {
      EXPECT_TRUE(outcome.says("injected failure")) << outcome.err;
    }
    EXPECT_TRUE(outcome.says("units:amax")) << kind << "\n" << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "w"));
  }
}
