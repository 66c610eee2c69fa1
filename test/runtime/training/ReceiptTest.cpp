//===- ReceiptTest.cpp
//------------------------------------------------------===//

#include "runtime/training/data/Receipt.h"
#include "runtime/base/Files.h"
#include "test/runtime/base/TestFiles.h"

#include <csignal>
#include <filesystem>
#include <limits>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mixle::runtime;
using mixle::test::Folder;

/// A row's arguments are Python source; those of a wrong type have no
/// counterpart in C++, except for `extra`.
static bool receiptOf(const Json &args, StepReceipt &receipt) {
  for (const auto &[name, value] : args.items()) {
    std::string text = value;
    if (text == "True" || text == "1.5" ||
        (name == "skipped" && text != "False"))
      return false;
    auto integer = [&] { return std::stoll(text); };
    auto unquoted = [&] { return text.substr(1, text.size() - 2); };
    if (name == "step")
      receipt.step = integer();
    else if (name == "loss")
      receipt.loss = std::stod(text);
    else if (name == "local_examples")
      receipt.localExamples = integer();
    else if (name == "local_tokens")
      receipt.localTokens = integer();
    else if (name == "microbatches")
      receipt.microbatches = integer();
    else if (name == "accumulation_steps")
      receipt.accumulationSteps = integer();
    else if (name == "data_parallel_size")
      receipt.dataParallelSize = integer();
    else if (name == "optimizer")
      receipt.optimizer = unquoted();
    else if (name == "precision")
      receipt.precision = unquoted();
    else if (name == "collective_bytes")
      receipt.collectiveBytes = integer();
    else if (name == "global_examples_observed")
      receipt.globalExamplesObserved = integer();
    else if (name == "global_tokens_observed")
      receipt.globalTokensObserved = integer();
    else if (name == "extra")
      receipt.extra = Json::parse(text);
    else
      ADD_FAILURE() << name;
  }
  return true;
}

TEST(StepReceipt, GoldenRows) {
  auto text = readFile(std::string(MIXLE_GOLDEN_DIR) + "/value_objects.json");
  ASSERT_TRUE(text);
  Json rows = Json::parse(*text)["step_receipt"];
  EXPECT_EQ(rows.size(), 11u);
  int tried = 0;
  for (const Json &row : rows) {
    StepReceipt receipt;
    if (!receiptOf(row["args"], receipt))
      continue;
    ++tried;
    Status status = receipt.validate();
    if (row.contains("returns")) {
      EXPECT_TRUE(status) << status.message();
      EXPECT_EQ(receipt.asJson().dump(), row["returns"].dump());
    } else {
      EXPECT_EQ(status.message(), row["message"]);
    }
  }
  EXPECT_EQ(tried, 8); // a bool as loss, an int as bool, a float as int are not
}

static StepReceipt example() {
  StepReceipt receipt;
  receipt.step = 3;
  receipt.loss = 0.1;
  receipt.localExamples = 2;
  receipt.localTokens = 8;
  receipt.dataParallelSize = 2;
  receipt.optimizer = "adamw";
  receipt.precision = "fp32";
  receipt.extra["state_digest"] = "00";
  return receipt;
}

TEST(StepReceipt, EveryFieldIsChecked) {
  auto errorOf = [](auto change) {
    StepReceipt receipt = example();
    change(receipt);
    return receipt.validate().message();
  };
  EXPECT_EQ(errorOf([](StepReceipt &) {}), "");
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.localExamples = -1; }),
            "local_examples must be an exact non-negative integer.");
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.localTokens = -1; }),
            "local_tokens must be an exact non-negative integer.");
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.collectiveBytes = -1; }),
            "collective_bytes must be an exact non-negative integer.");
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.globalTokensObserved = -1; }),
            "global_tokens_observed must be an exact non-negative integer.");
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.globalExamplesObserved = -1; }),
            "global_examples_observed must be an exact non-negative integer.");
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.accumulationSteps = 0; }),
            "accumulation_steps must be an exact positive integer.");
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.dataParallelSize = 0; }),
            "data_parallel_size must be an exact positive integer.");
  EXPECT_EQ(errorOf([](StepReceipt &r) {
              r.loss = std::numeric_limits<double>::infinity();
            }),
            "loss must be a finite non-negative real number.");
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.optimizer = " \t"; }),
            "optimizer must be a non-empty string.");
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.precision = ""; }),
            "precision must be a non-empty string.");
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.extra = nullptr; }),
            "extra must be a dictionary.");
  // Zero examples are legal: a rank without rows.
  EXPECT_EQ(errorOf([](StepReceipt &r) { r.localExamples = r.step = 0; }), "");
}

TEST(ReceiptWriter, LinesAppearAtOnceAndTheNameAtTheEnd) {
  Folder folder;
  folder.put("r.jsonl", "before");
  auto writer = ReceiptWriter::open(folder / "r.jsonl");
  ASSERT_TRUE(writer) << writer.status().message();
  ASSERT_TRUE(writer->write(example()));
  std::string line =
      R"({"step":3,"loss":0.1,"local_examples":2,"local_tokens":8,)"
      R"("microbatches":1,"accumulation_steps":1,"data_parallel_size":2,)"
      R"("global_examples":4,"global_tokens":16,"optimizer":"adamw",)"
      R"("precision":"fp32","collective_bytes":0,"skipped":false,)"
      R"("extra":{"state_digest":"00"}})"
      "\n";
  EXPECT_EQ(folder.get("r.jsonl.partial"), line);
  EXPECT_EQ(folder.get("r.jsonl"), "before");
  ASSERT_TRUE(writer->write(Json{{"iteration", 1}, {"log_likelihood", 2.5}}));
  EXPECT_EQ(writer->lines(), 2);
  ASSERT_TRUE(writer->close());
  EXPECT_EQ(folder.get("r.jsonl"),
            line + "{\"iteration\":1,\"log_likelihood\":2.5}\n");
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_FALSE(writer->write(example()));
  EXPECT_FALSE(writer->close());
}

TEST(ReceiptWriter, ABadReceiptIsNotWritten) {
  Folder folder;
  auto writer = ReceiptWriter::open(folder / "r");
  ASSERT_TRUE(writer);
  StepReceipt bad = example();
  bad.loss = -1;
  EXPECT_EQ(writer->write(bad).message(),
            "loss must be a finite non-negative real number.");
  EXPECT_EQ(folder.get("r.partial"), "");
  EXPECT_TRUE(writer->write(example()));
  EXPECT_TRUE(writer->close());
}

TEST(ReceiptWriter, ADeadRunLeavesWholeLines) {
  Folder folder;
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto writer = ReceiptWriter::open(folder / "r");
    for (int i = 0; writer && i < 3; ++i)
      if (!writer->write(example()))
        _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  std::string text = folder.get("r.partial");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_FALSE(isRegularFile(folder / "r"));
}

TEST(ReceiptWriter, AbandonedWithoutALineLeavesNothing) {
  Folder folder;
  { auto writer = ReceiptWriter::open(folder / "r"); }
  EXPECT_EQ(folder.count(), 0u);
  {
    auto writer = ReceiptWriter::open(folder / "r");
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(example()));
  }
  EXPECT_TRUE(isRegularFile(folder / "r.partial"));
  EXPECT_EQ(folder.count(), 1u);
}

TEST(ReceiptWriter, TwoRunsDoNotWriteOneFile) {
  Folder folder;
  {
    auto first = ReceiptWriter::open(folder / "r");
    ASSERT_TRUE(first.ok());
    ASSERT_TRUE(first->write(Json::object({{"run", 1}})).ok());
    auto second = ReceiptWriter::open(folder / "r");
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().message(),
              "cannot write '" + (folder / "r") + "': another run is writing '" +
                  (folder / "r.partial") + "'; give each run a file of its own");
    EXPECT_EQ(folder.get("r.partial"), "{\"run\":1}\n");
  }
  // What a dead run left is no obstacle.
  EXPECT_TRUE(std::filesystem::exists(folder / "r.partial"));
  auto third = ReceiptWriter::open(folder / "r");
  ASSERT_TRUE(third.ok()) << third.status().message();
  EXPECT_EQ(folder.get("r.partial"), "");
  ASSERT_TRUE(third->write(Json::object({{"run", 3}})).ok());
  ASSERT_TRUE(third->close().ok());
  EXPECT_EQ(folder.get("r"), "{\"run\":3}\n");
}

TEST(ReceiptWriter, AFullDiskKeepsTheLastWholeLine) {
  Folder folder;
  struct rlimit old, small;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 700;
  auto writer = ReceiptWriter::open(folder / "r");
  ASSERT_TRUE(writer);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Status status;
  for (int i = 0; i < 10 && status; ++i)
    status = writer->write(example());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ(status.message(),
            "cannot write '" + folder / "r" + "': File too large");
  EXPECT_EQ(writer->lines(), 2);
  std::string text = folder.get("r.partial");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_FALSE(writer->write(example()));
  EXPECT_FALSE(writer->close());
  EXPECT_FALSE(isRegularFile(folder / "r"));
}

TEST(ReceiptWriter, TargetsThatCannotBe) {
  Folder folder;
  EXPECT_EQ(ReceiptWriter::open(folder / "none/r").status().message(),
            "cannot write '" + folder / "none/r" +
                "': No such file or directory");
  EXPECT_EQ(ReceiptWriter::open(folder.path).status().message(),
            "cannot write '" + folder.path + "': Is a directory");
  auto full = ReceiptWriter::open("/dev/full");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->write(example()).message(),
            "cannot write '/dev/full': No space left on device");
}
