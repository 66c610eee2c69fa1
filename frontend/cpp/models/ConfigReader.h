//===- ConfigReader.h - Reading a model's configuration ---------*- C++ -*-===//
//
// A configuration is read key by key, and every key must be read: one that
// nobody asked for might have changed the model, so it is an error.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_FRONTEND_MODELS_CONFIGREADER_H
#define MIXLE_FRONTEND_MODELS_CONFIGREADER_H

#include "runtime/base/Json.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mixle::frontend {

/// A JSON object with typed access. All errors are FrontendErrors that begin
/// with `what` and name the key, its value and what was expected.
class ConfigReader {
public:
  using Json = mixle::runtime::Json;

  /// `what` names the configuration in messages: a path, say. Errors: not a
  /// JSON object.
  ConfigReader(Json object, std::string what);

  /// Whether `key` is given (null counts).
  bool has(llvm::StringRef key) const;

  /// An integer from 1 to `maximum`; without a fallback the key is required.
  int64_t positive(llvm::StringRef key, std::optional<int64_t> fallback,
                   int64_t maximum);
  /// A required integer from `low` to `high`.
  int64_t integer(llvm::StringRef key, int64_t low, int64_t high);
  /// A required finite number above 0.
  double positiveReal(llvm::StringRef key);
  /// A required list of strings.
  std::vector<std::string> strings(llvm::StringRef key);
  /// A required object, to be read in its turn: call its finish() too.
  ConfigReader object(llvm::StringRef key);
  /// A finite number >= 0.
  double nonNegative(llvm::StringRef key, double fallback);
  bool boolean(llvm::StringRef key, bool fallback);
  std::string string(llvm::StringRef key, std::optional<std::string> fallback);
  /// A key whose null means its fallback, as an absent one does.
  bool isNullOrAbsent(llvm::StringRef key);
  /// Whether `key` is given as {}.
  bool isEmptyObject(llvm::StringRef key);

  /// Reads the value of `alias` as if it were `key`'s. Errors: both given.
  void alias(llvm::StringRef alias, llvm::StringRef key);
  /// Keys that say nothing about the mathematics.
  void ignore(llvm::ArrayRef<llvm::StringLiteral> keys);
  /// Reports the first key that was neither read nor ignored.
  void finish();

  /// "what: key = value message".
  [[noreturn]] void fail(llvm::StringRef key, const llvm::Twine &message) const;
  /// "what: message".
  [[noreturn]] void failPlain(const llvm::Twine &message) const;

private:
  const Json *find(llvm::StringRef key);

  Json content;
  std::string what;
  std::set<std::string> read;
};

} // namespace mixle::frontend

#endif // MIXLE_FRONTEND_MODELS_CONFIGREADER_H
