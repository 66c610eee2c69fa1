//===- KeyValues.h - Texts like "adamw,lr=1e-3" -----------------*- C++ -*-===//
//
// The one syntax of the command line's structured options: elements between
// commas, the first of which may be a bare word (the head), every other a
// key=value pair. Spaces around elements, keys and values do not count.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_BASE_KEYVALUES_H
#define MIXLE_RUNTIME_BASE_KEYVALUES_H

#include "mixle/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mixle::runtime {

/// A parsed text: the head (empty when the text has none) and the pairs in the
/// order in which they were written. Keys are unique and not empty, values are
/// not empty.
struct KeyValues {
  std::string head;
  std::vector<std::pair<std::string, std::string>> pairs;

  /// The value of `key`, or null.
  const std::string *find(std::string_view key) const;

  /// Refuses the first key that is not in `known`, listing those that are.
  /// `what` names the option in the message.
  Status requireKnown(std::string_view what,
                      const std::vector<std::string> &known) const;
};

/// Parses `text`; `what` names the option in messages ("--optimizer").
/// Errors: an empty text or element, a second bare word or one that is not
/// first, an empty key, a missing value, a repeated key.
Expected<KeyValues> parseKeyValues(std::string_view text,
                                   std::string_view what);

/// Parses the whole of `text` as a decimal integer that fits in 64 bits.
Expected<int64_t> parseInteger(std::string_view text, std::string_view what);

/// Parses the whole of `text` as a finite number.
Expected<double> parseReal(std::string_view text, std::string_view what);

/// Parses the whole of `text` as a number ("nan" and "inf" are numbers here);
/// false when it is none. A number too large for a double becomes infinite, one
/// too small becomes zero, each with its sign.
bool parseNumber(std::string_view text, double &value);

/// The shortest text that reads back to `value`: "1e+300", "0.1", "inf".
std::string numberText(double value);

/// `text` without spaces and tabs at its ends.
std::string_view trimmed(std::string_view text);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_BASE_KEYVALUES_H
