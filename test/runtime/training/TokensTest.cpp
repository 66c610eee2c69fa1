//===- TokensTest.cpp
//-------------------------------------------------------===//

#include "runtime/training/data/Tokens.h"
#include "test/runtime/base/TestFiles.h"

#include <numeric>

using namespace mixle::runtime;
using mixle::test::bytesOf;
using mixle::test::Folder;

template <typename T> static std::string messageOf(Expected<T> result) {
  return result ? "opened" : result.status().message();
}

static std::string littleEndian(const std::vector<uint32_t> &values,
                                int bytes) {
  std::string text;
  for (uint32_t value : values)
    for (int i = 0; i < bytes; ++i)
      text += static_cast<char>(value >> (8 * i));
  return text;
}

/// llm.c's header for `count` tokens.
static std::string header(uint32_t version, uint32_t count,
                          uint32_t magic = 20240520) {
  std::vector<uint32_t> words(256);
  words[0] = magic;
  words[1] = version;
  words[2] = count;
  return littleEndian(words, 4);
}

static void expectRow(const TokenRows &rows, int64_t row,
                      std::vector<int32_t> tokens) {
  std::vector<int32_t> inputs(rows.sequence()), targets(rows.sequence());
  rows.copyRow(row, inputs.data(), targets.data());
  EXPECT_EQ(inputs, std::vector<int32_t>(tokens.begin(), tokens.end() - 1));
  EXPECT_EQ(targets, std::vector<int32_t>(tokens.begin() + 1, tokens.end()));
  std::vector<int64_t> wide(rows.sequence()), wideTargets(rows.sequence());
  rows.copyRow(row, wide.data(), wideTargets.data());
  EXPECT_EQ(wide, std::vector<int64_t>(tokens.begin(), tokens.end() - 1));
  EXPECT_EQ(wideTargets,
            std::vector<int64_t>(tokens.begin() + 1, tokens.end()));
}

TEST(TokenRows, BytesOfAText) {
  Folder folder;
  std::string path = folder.put("t", std::string("abc\xff\0ghijk", 10));
  auto rows = TokenRows::openText(path, 2, 256);
  ASSERT_TRUE(rows) << rows.status().message();
  EXPECT_EQ(rows->rows(), 3); // "k" is dropped
  EXPECT_EQ(rows->sequence(), 2);
  EXPECT_EQ(rows->tokenCount(), 10);
  expectRow(*rows, 0, {'a', 'b', 'c'});
  expectRow(*rows, 1, {255, 0, 'g'});
  expectRow(*rows, 2, {'h', 'i', 'j'});
}

TEST(TokenRows, LongRowsPassInPieces) {
  Folder folder;
  std::string text;
  std::vector<int32_t> tokens;
  for (int i = 0; i < 5000; ++i) {
    tokens.push_back(i * 7 % 251);
    text += static_cast<char>(tokens.back());
  }
  auto rows = TokenRows::openText(folder.put("t", text), 4999, 257);
  ASSERT_TRUE(rows);
  expectRow(*rows, 0, tokens);
}

TEST(TokenRows, TextErrors) {
  Folder folder;
  std::string path = folder.put("t", "abcz");
  EXPECT_EQ(messageOf(TokenRows::openText(path, 4, 256)),
            path + ": the file has 4 tokens, but one row of sequence + 1 needs "
                   "5; use a longer file or a shorter sequence");
  EXPECT_EQ(messageOf(TokenRows::openText(path, 3, 256)), "opened");
  EXPECT_EQ(messageOf(TokenRows::openText(path, 3, 122)),
            path + ": token id 122 at position 3 (from 0) is outside the "
                   "vocabulary [0, 122)");
  std::string empty = folder.put("e", "");
  EXPECT_NE(messageOf(TokenRows::openText(empty, 3, 256)).find("has 0 tokens"),
            std::string::npos);
  EXPECT_FALSE(TokenRows::openText(path, 0, 256));
  EXPECT_FALSE(TokenRows::openText(path, INT64_MAX, 256));
  EXPECT_FALSE(TokenRows::openText(path, 3, 0));
  EXPECT_FALSE(TokenRows::openText(folder / "none", 3, 256));
}

TEST(TokenRows, BareSixteenBitTokens) {
  Folder folder;
  std::string path =
      folder.put("t.bin", littleEndian({1, 50256, 65535, 258, 7}, 2));
  auto rows = TokenRows::openTokens(path, 1, 65536);
  ASSERT_TRUE(rows) << rows.status().message();
  EXPECT_EQ(rows->rows(), 2);
  expectRow(*rows, 0, {1, 50256});
  expectRow(*rows, 1, {65535, 258});
  EXPECT_EQ(messageOf(TokenRows::openTokens(path, 1, 50257)),
            path + ": token id 65535 at position 2 (from 0) is outside the "
                   "vocabulary [0, 50257)");
  // The dropped tail is checked too.
  std::string tail = folder.put("tail.bin", littleEndian({1, 2, 9}, 2));
  EXPECT_FALSE(TokenRows::openTokens(tail, 1, 5));
  std::string odd = folder.put("odd.bin", "abc");
  EXPECT_EQ(messageOf(TokenRows::openTokens(odd, 1, 65536)),
            odd + ": the file has 3 bytes, expected an even number (tokens of "
                  "16 bits)");
  EXPECT_NE(messageOf(TokenRows::openTokens(path, 9, 65536))
                .find("has 5 tokens, but one row of sequence + 1 needs 10"),
            std::string::npos);
}

TEST(TokenRows, TokensAfterAHeader) {
  Folder folder;
  std::string tokens = littleEndian({5, 6, 7, 8}, 2);
  auto rows =
      TokenRows::openTokens(folder.put("a.bin", header(1, 4) + tokens), 3, 9);
  ASSERT_TRUE(rows) << rows.status().message();
  EXPECT_EQ(rows->tokenCount(), 4);
  expectRow(*rows, 0, {5, 6, 7, 8});
  std::string version = folder.put("b.bin", header(2, 4) + tokens);
  EXPECT_EQ(messageOf(TokenRows::openTokens(version, 3, 9)),
            version + ": the header says version 2, expected 1 (tokens of 16 "
                      "bits)");
  std::string cut = folder.put("c.bin", header(1, 5) + tokens);
  EXPECT_EQ(messageOf(TokenRows::openTokens(cut, 3, 9)),
            cut + ": the header says 5 tokens, but 8 bytes follow, expected "
                  "10");
  std::string bomb = folder.put("d.bin", header(1, UINT32_MAX) + tokens);
  EXPECT_FALSE(TokenRows::openTokens(bomb, 3, 9));
  // Without the magic the same bytes are tokens.
  std::string bare = folder.put("e.bin", header(1, 4, 0) + tokens);
  EXPECT_EQ(TokenRows::openTokens(bare, 3, 9)->tokenCount(), 516);
}

TEST(TokenRows, ArraysOfOneDimension) {
  Folder folder;
  int64_t wide[] = {3, 1, 2, 0, 3};
  ASSERT_TRUE(writeNpy(folder / "a.npy", NpyType::I8, {5}, wide));
  auto rows = TokenRows::openTokens(folder / "a.npy", 1, 4);
  ASSERT_TRUE(rows) << rows.status().message();
  EXPECT_EQ(rows->rows(), 2);
  expectRow(*rows, 1, {2, 0});
  EXPECT_EQ(messageOf(TokenRows::openTokens(folder / "a.npy", 1, 3)),
            folder / "a.npy" + ": token id 3 at position 0 (from 0) is outside "
                               "the vocabulary [0, 3)");
  int32_t negative[] = {0, -100};
  ASSERT_TRUE(writeNpy(folder / "b.npy", NpyType::I4, {2}, negative));
  EXPECT_NE(messageOf(TokenRows::openTokens(folder / "b.npy", 1, 3))
                .find("token id -100 at position 1"),
            std::string::npos);
  int64_t huge[] = {0, INT64_MAX};
  ASSERT_TRUE(writeNpy(folder / "c.npy", NpyType::I8, {2}, huge));
  EXPECT_FALSE(TokenRows::openTokens(folder / "c.npy", 1, 257));
  ASSERT_TRUE(writeNpy(folder / "d.npy", NpyType::I4, {1, 2}, negative));
  EXPECT_NE(messageOf(TokenRows::openTokens(folder / "d.npy", 1, 3))
                .find("shape [1, 2], expected one dimension"),
            std::string::npos);
  double reals[] = {0, 1};
  ASSERT_TRUE(writeNpy(folder / "e.npy", NpyType::F8, {2}, reals));
  EXPECT_NE(messageOf(TokenRows::openTokens(folder / "e.npy", 1, 3))
                .find("holds f8, but tokens are integers"),
            std::string::npos);
  EXPECT_NE(
      messageOf(TokenRows::openTokens(folder.put("f.npy", "rubbish!"), 1, 3))
          .find("not a readable .npy file"),
      std::string::npos);
  uint8_t small[] = {0, 255};
  ASSERT_TRUE(writeNpy(folder / "g.npy", NpyType::U1, {2}, small));
  EXPECT_TRUE(TokenRows::openTokens(folder / "g.npy", 1, 256));
  EXPECT_FALSE(TokenRows::openTokens(folder / "g.npy", 1, 255));
}

TEST(TokenRows, SurviveAMove) {
  Folder folder;
  auto rows = TokenRows::openText(folder.put("t", "abc"), 2, 256);
  ASSERT_TRUE(rows);
  TokenRows moved = rows.take();
  expectRow(moved, 0, {'a', 'b', 'c'});
}

TEST(TokenBatches, TokensAndShiftedTargets) {
  Folder folder;
  std::vector<int32_t> tokens(2 * 3 * 5);
  std::iota(tokens.begin(), tokens.end(), 0);
  std::string path = folder / "b.npy";
  ASSERT_TRUE(writeNpy(path, NpyType::I4, {2, 3, 5}, tokens.data()));
  auto batches = TokenBatches::open(path, "", 30);
  ASSERT_TRUE(batches) << batches.status().message();
  EXPECT_EQ(batches->steps(), 2);
  EXPECT_EQ(batches->batch(), 3);
  EXPECT_EQ(batches->sequence(), 4);
  int32_t inputs[4], targets[4];
  batches->copyRow(1, 2, inputs, targets);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(inputs[i], 25 + i);
    EXPECT_EQ(targets[i], 26 + i);
  }
  EXPECT_EQ(messageOf(TokenBatches::open(path, "", 29)),
            path + ": token id 29 at position 29 (from 0) is outside the "
                   "vocabulary [0, 29)");
}

TEST(TokenBatches, LabelsReplaceTargets) {
  Folder folder;
  int64_t tokens[] = {0, 1, 2, 3, 4, 5};
  int64_t labels[] = {-100, 5, 0, -100};
  std::string path = folder / "b.npy", labelsPath = folder / "l.npy";
  ASSERT_TRUE(writeNpy(path, NpyType::I8, {1, 2, 3}, tokens));
  ASSERT_TRUE(writeNpy(labelsPath, NpyType::I8, {1, 2, 2}, labels));
  auto batches = TokenBatches::open(path, labelsPath, 6);
  ASSERT_TRUE(batches) << batches.status().message();
  int64_t inputs[2], targets[2];
  batches->copyRow(0, 1, inputs, targets);
  EXPECT_EQ(inputs[0], 3);
  EXPECT_EQ(inputs[1], 4);
  EXPECT_EQ(targets[0], 0);
  EXPECT_EQ(targets[1], ignoredLabel);

  labels[2] = -1;
  ASSERT_TRUE(writeNpy(labelsPath, NpyType::I8, {1, 2, 2}, labels));
  EXPECT_EQ(messageOf(TokenBatches::open(path, labelsPath, 6)),
            labelsPath + ": label id -1 at position 2 (from 0) is outside the "
                         "vocabulary [0, 6) and is not -100, the ignored "
                         "label");
  ASSERT_TRUE(writeNpy(labelsPath, NpyType::I8, {1, 2, 1}, labels));
  EXPECT_EQ(messageOf(TokenBatches::open(path, labelsPath, 6)),
            labelsPath +
                ": the array has shape [1, 2, 1], expected [1, 2, 2], "
                "one label for every target of " +
                path);
}

TEST(TokenBatches, Errors) {
  Folder folder;
  int32_t tokens[6] = {};
  std::string path = folder / "b.npy";
  auto errorOf = [&](std::vector<int64_t> shape) {
    EXPECT_TRUE(writeNpy(path, NpyType::I4, shape, tokens));
    return messageOf(TokenBatches::open(path, "", 6));
  };
  for (std::vector<int64_t> shape : {std::vector<int64_t>{6},
                                     {2, 3},
                                     {2, 3, 1},
                                     {0, 2, 3},
                                     {2, 0, 3},
                                     {1, 1, 2, 3}})
    EXPECT_NE(errorOf(shape).find("expected [steps, batch, sequence + 1]"),
              std::string::npos);
  EXPECT_EQ(errorOf({1, 2, 3}), "opened");
  float reals[6] = {};
  ASSERT_TRUE(writeNpy(path, NpyType::F4, {1, 2, 3}, reals));
  EXPECT_NE(messageOf(TokenBatches::open(path, "", 6)).find("are integers"),
            std::string::npos);
  EXPECT_FALSE(TokenBatches::open(folder / "none.npy", "", 6));
}
