//===- Tokens.h - Rows of tokens --------------------------------*- C++ -*-===//
//
// Where a language model's rows come from: a text whose bytes are tokens, a
// file of tokens cut into rows, or batches that are used as they are. Files
// are mapped, and every token is checked once, when the file is opened.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_TRAINING_DATA_TOKENS_H
#define MIXLE_RUNTIME_TRAINING_DATA_TOKENS_H

#include "mixle/Status.h"
#include "runtime/base/Files.h"
#include "runtime/base/Labels.h"
#include "runtime/base/Npy.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mixle::runtime {

/// A stream of tokens cut into rows: row r is the tokens from
/// r * (sequence + 1), sequence + 1 of them; a tail too short for a row is
/// dropped. The row's first `sequence` tokens are inputs, its last `sequence`
/// tokens are targets.
class TokenRows {
public:
  /// A text: one token a byte. Errors: fewer bytes than a row, a byte outside
  /// the vocabulary.
  static Expected<TokenRows> openText(const std::string &path, int64_t sequence,
                                      int64_t vocabulary);
  /// A .npy file of one dimension of integers, or a file of 16-bit unsigned
  /// integers, little endian, bare or after llm.c's header of 1024 bytes
  /// (which is recognised by its first word). Errors: those of the file
  /// formats, fewer tokens than a row, a token outside the vocabulary.
  static Expected<TokenRows> openTokens(const std::string &path,
                                        int64_t sequence, int64_t vocabulary);

  int64_t rows() const { return tokens / (rowTokens); }
  int64_t sequence() const { return rowTokens - 1; }
  /// Tokens in the file, a dropped tail included.
  int64_t tokenCount() const { return tokens; }

  /// Copies row `row` (less than rows()): `sequence` inputs and targets each.
  /// Integer is int32_t or int64_t.
  template <typename Integer>
  void copyRow(int64_t row, Integer *inputs, Integer *targets) const;

private:
  Status finish(int64_t sequence, int64_t vocabulary);
  void read(int64_t first, int64_t n, int64_t *out) const;

  std::string path;
  MappedFile file;              // a text or .bin file
  std::optional<NpyFile> array; // a .npy file
  const uint8_t *start = nullptr;
  NpyType type = NpyType::U1;
  int64_t tokens = 0;
  int64_t rowTokens = 1; // sequence + 1
};

/// Batches given as they are: integers of shape [steps, batch, sequence + 1],
/// one optimizer step an entry, and optionally labels of shape
/// [steps, batch, sequence] in the place of the shifted tokens.
class TokenBatches {
public:
  /// `labelsPath` may be empty. Errors: those of the file format; another
  /// shape or type; a token outside the vocabulary; a label that is neither in
  /// the vocabulary nor -100.
  static Expected<TokenBatches> open(const std::string &path,
                                     const std::string &labelsPath,
                                     int64_t vocabulary);

  int64_t steps() const { return tokens.shape()[0]; }
  int64_t batch() const { return tokens.shape()[1]; }
  int64_t sequence() const { return tokens.shape()[2] - 1; }

  /// Copies row `row` of step `step` (from 0): `sequence` inputs and targets
  /// each. Integer is int32_t or int64_t.
  template <typename Integer>
  void copyRow(int64_t step, int64_t row, Integer *inputs,
               Integer *targets) const;

private:
  NpyFile tokens;
  std::optional<NpyFile> labels;
};

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_DATA_TOKENS_H
