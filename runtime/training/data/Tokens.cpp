//===- Tokens.cpp - Rows of tokens
//------------------------------------------===//

#include "runtime/training/data/Tokens.h"

#include "runtime/base/Safetensors.h" // shapeText

#include <algorithm>
#include <cstring>
#include <limits>

namespace mixle::runtime {

/// llm.c's header: 256 words of 32 bits, of which the first three are used.
static constexpr uint64_t headerBytes = 1024;
static constexpr uint32_t headerMagic = 20240520;

static uint32_t word(const uint8_t *data, int index) {
  data += 4 * index;
  return data[0] | data[1] << 8 | data[2] << 16 |
         static_cast<uint32_t>(data[3]) << 24;
}

static Status checkSizes(const std::string &path, int64_t sequence,
                         int64_t vocabulary) {
  if (sequence < 1 || sequence == std::numeric_limits<int64_t>::max())
    return Status::error(path + ": rows of " + std::to_string(sequence) +
                         " tokens were asked for, expected at least 1");
  if (vocabulary < 1)
    return Status::error(path + ": a vocabulary of " +
                         std::to_string(vocabulary) +
                         " tokens was asked for, expected at least 1");
  return Status::success();
}

/// Checks `count` values that `read(first, n, out)` delivers: each in
/// [0, vocabulary), or `ignoredLabel` if `mayIgnore`.
template <typename Read>
static Status checkIds(const std::string &path, const char *what, int64_t count,
                       int64_t vocabulary, bool mayIgnore, Read read) {
  constexpr int64_t piece = 4096;
  int64_t values[piece];
  for (int64_t first = 0; first < count; first += piece) {
    int64_t n = std::min(piece, count - first);
    read(first, n, values);
    for (int64_t i = 0; i < n; ++i) {
      if (values[i] >= 0 && values[i] < vocabulary)
        continue;
      if (mayIgnore && values[i] == ignoredLabel)
        continue;
      return Status::error(
          path + ": " + what + " id " + std::to_string(values[i]) +
          " at position " + std::to_string(first + i) +
          " (from 0) is outside the vocabulary [0, " +
          std::to_string(vocabulary) + ")" +
          (mayIgnore ? " and is not -100, the ignored label" : ""));
    }
  }
  return Status::success();
}

/// The type of an array that must hold integers.
static Status requireIntegers(const NpyFile &file, const char *what) {
  if (!isReal(file.type()))
    return Status::success();
  return Status::error(file.path() + ": the array holds " +
                       std::string(toString(file.type())) + ", but " + what +
                       " are integers; save array.astype('<i4') instead");
}

//===----------------------------------------------------------------------===//
// TokenRows
//===----------------------------------------------------------------------===//

static void readAs(NpyType type, const uint8_t *start, int64_t first, int64_t n,
                   int64_t *out) {
  if (type == NpyType::U1) {
    std::copy_n(start + first, n, out);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t *token = start + 2 * (first + i);
    out[i] = token[0] | token[1] << 8;
  }
}

void TokenRows::read(int64_t first, int64_t n, int64_t *out) const {
  if (array)
    array->toInt64(first, n, out);
  else
    readAs(type, start, first, n, out);
}

Status TokenRows::finish(int64_t sequence, int64_t vocabulary) {
  rowTokens = sequence + 1;
  if (rows() < 1)
    return Status::error(path + ": the file has " + std::to_string(tokens) +
                         " tokens, but one row of sequence + 1 needs " +
                         std::to_string(rowTokens) +
                         "; use a longer file or a shorter sequence");
  // Types that cannot leave the vocabulary need no look at the data.
  uint64_t bits = 8 * elementSize(array ? array->type() : type);
  bool isUnsigned = array ? array->type() >= NpyType::U1 : true;
  if (isUnsigned && vocabulary >= int64_t(1) << bits)
    return Status::success();
  return checkIds(
      path, "token", tokens, vocabulary, /*mayIgnore=*/false,
      [&](int64_t first, int64_t n, int64_t *out) { read(first, n, out); });
}

Expected<TokenRows> TokenRows::openText(const std::string &path,
                                        int64_t sequence, int64_t vocabulary) {
  MIXLE_RETURN_IF_ERROR(checkSizes(path, sequence, vocabulary));
  TokenRows result;
  result.path = path;
  MIXLE_ASSIGN_OR_RETURN(result.file, MappedFile::open(path));
  result.start = result.file.data();
  result.tokens = static_cast<int64_t>(result.file.size());
  MIXLE_RETURN_IF_ERROR(result.finish(sequence, vocabulary));
  return Expected<TokenRows>(std::move(result));
}

Expected<TokenRows> TokenRows::openTokens(const std::string &path,
                                          int64_t sequence,
                                          int64_t vocabulary) {
  MIXLE_RETURN_IF_ERROR(checkSizes(path, sequence, vocabulary));
  TokenRows result;
  result.path = path;
  MIXLE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  bool isNpy = path.size() >= 4 && path.substr(path.size() - 4) == ".npy";
  if (isNpy ||
      (file.size() >= 6 && std::memcmp(file.data(), "\x93NUMPY", 6) == 0)) {
    MIXLE_ASSIGN_OR_RETURN(NpyFile array, NpyFile::open(path));
    MIXLE_RETURN_IF_ERROR(requireIntegers(array, "tokens"));
    if (array.shape().size() != 1)
      return Status::error(path + ": the array has shape " +
                           shapeText(array.shape()) +
                           ", expected one dimension of tokens; batches of "
                           "shape [steps, batch, sequence + 1] go to "
                           "--batches");
    result.tokens = array.elements();
    result.array = std::move(array);
    MIXLE_RETURN_IF_ERROR(result.finish(sequence, vocabulary));
    return Expected<TokenRows>(std::move(result));
  }
  uint64_t offset = 0;
  if (file.size() >= headerBytes && word(file.data(), 0) == headerMagic) {
    uint32_t version = word(file.data(), 1);
    if (version != 1)
      return Status::error(path + ": the header says version " +
                           std::to_string(version) +
                           ", expected 1 (tokens of 16 bits)");
    offset = headerBytes;
    uint64_t claimed = word(file.data(), 2);
    if (file.size() - offset != 2 * claimed)
      return Status::error(
          path + ": the header says " + std::to_string(claimed) +
          " tokens, but " + std::to_string(file.size() - offset) +
          " bytes follow, expected " + std::to_string(2 * claimed));
  }
  if (file.size() % 2 != 0)
    return Status::error(path + ": the file has " +
                         std::to_string(file.size()) +
                         " bytes, expected an even number (tokens of 16 bits)");
  result.type = NpyType::U2;
  result.start = file.data() + offset;
  result.tokens = static_cast<int64_t>((file.size() - offset) / 2);
  result.file = std::move(file);
  MIXLE_RETURN_IF_ERROR(result.finish(sequence, vocabulary));
  return Expected<TokenRows>(std::move(result));
}

/// Pieces in which rows pass through a buffer on the stack.
static constexpr int64_t copyPiece = 1024;

/// out[i] = value first + i, for i < n.
template <typename Integer, typename Read>
static void copyValues(int64_t first, int64_t n, Integer *out, Read read) {
  int64_t values[copyPiece];
  for (int64_t i = 0; i < n; i += copyPiece) {
    int64_t count = std::min(copyPiece, n - i);
    read(first + i, count, values);
    for (int64_t j = 0; j < count; ++j)
      out[i + j] = static_cast<Integer>(values[j]);
  }
}

template <typename Integer>
void TokenRows::copyRow(int64_t row, Integer *inputs, Integer *targets) const {
  auto readTokens = [&](int64_t first, int64_t n, int64_t *out) {
    read(first, n, out);
  };
  copyValues(row * rowTokens, sequence(), inputs, readTokens);
  copyValues(row * rowTokens + 1, sequence(), targets, readTokens);
}

template void TokenRows::copyRow(int64_t, int32_t *, int32_t *) const;
template void TokenRows::copyRow(int64_t, int64_t *, int64_t *) const;

//===----------------------------------------------------------------------===//
// TokenBatches
//===----------------------------------------------------------------------===//

Expected<TokenBatches> TokenBatches::open(const std::string &path,
                                          const std::string &labelsPath,
                                          int64_t vocabulary) {
  MIXLE_RETURN_IF_ERROR(checkSizes(path, 1, vocabulary));
  TokenBatches result;
  MIXLE_ASSIGN_OR_RETURN(result.tokens, NpyFile::open(path));
  NpyFile &tokens = result.tokens;
  MIXLE_RETURN_IF_ERROR(requireIntegers(tokens, "tokens"));
  std::vector<int64_t> shape = tokens.shape();
  if (shape.size() != 3 || shape[0] < 1 || shape[1] < 1 || shape[2] < 2)
    return Status::error(path + ": the array has shape " + shapeText(shape) +
                         ", expected [steps, batch, sequence + 1] of at least "
                         "one step, row and target");
  MIXLE_RETURN_IF_ERROR(checkIds(path, "token", tokens.elements(), vocabulary,
                                 /*mayIgnore=*/false,
                                 [&](int64_t first, int64_t n, int64_t *out) {
                                   tokens.toInt64(first, n, out);
                                 }));
  if (!labelsPath.empty()) {
    MIXLE_ASSIGN_OR_RETURN(NpyFile labels, NpyFile::open(labelsPath));
    MIXLE_RETURN_IF_ERROR(requireIntegers(labels, "labels"));
    shape[2] -= 1;
    if (labels.shape() != shape)
      return Status::error(labelsPath + ": the array has shape " +
                           shapeText(labels.shape()) + ", expected " +
                           shapeText(shape) +
                           ", one label for every target "
                           "of " +
                           path);
    MIXLE_RETURN_IF_ERROR(checkIds(labelsPath, "label", labels.elements(),
                                   vocabulary, /*mayIgnore=*/true,
                                   [&](int64_t first, int64_t n, int64_t *out) {
                                     labels.toInt64(first, n, out);
                                   }));
    result.labels = std::move(labels);
  }
  return Expected<TokenBatches>(std::move(result));
}

template <typename Integer>
void TokenBatches::copyRow(int64_t step, int64_t row, Integer *inputs,
                           Integer *targets) const {
  int64_t index = step * batch() + row;
  auto readTokens = [&](int64_t first, int64_t n, int64_t *out) {
    tokens.toInt64(first, n, out);
  };
  copyValues(index * (sequence() + 1), sequence(), inputs, readTokens);
  if (!labels) {
    copyValues(index * (sequence() + 1) + 1, sequence(), targets, readTokens);
    return;
  }
  copyValues(index * sequence(), sequence(), targets,
             [&](int64_t first, int64_t n, int64_t *out) {
               labels->toInt64(first, n, out);
             });
}

template void TokenBatches::copyRow(int64_t, int64_t, int32_t *,
                                    int32_t *) const;
template void TokenBatches::copyRow(int64_t, int64_t, int64_t *,
                                    int64_t *) const;

} // namespace mixle::runtime
