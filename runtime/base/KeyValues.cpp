//===- KeyValues.cpp - Texts like "adamw,lr=1e-3"
//---------------------------===//

#include "runtime/base/KeyValues.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace mixle::runtime {

std::string_view trimmed(std::string_view text) {
  const char *spaces = " \t";
  size_t first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

const std::string *KeyValues::find(std::string_view key) const {
  for (const auto &pair : pairs)
    if (pair.first == key)
      return &pair.second;
  return nullptr;
}

Status KeyValues::requireKnown(std::string_view what,
                               const std::vector<std::string> &known) const {
  for (const auto &pair : pairs) {
    bool found = false;
    std::string list;
    for (const std::string &name : known) {
      found |= name == pair.first;
      list += (list.empty() ? "" : ", ") + name;
    }
    if (!found)
      return Status::error(std::string(what) + ": unknown key '" + pair.first +
                           "'; known keys: " + (known.empty() ? "none" : list));
  }
  return Status::success();
}

Expected<KeyValues> parseKeyValues(std::string_view text,
                                   std::string_view what) {
  auto fail = [&](const std::string &message) {
    return Status::error(std::string(what) + ": " + message + " in '" +
                         std::string(text) + "'");
  };
  if (trimmed(text).empty())
    return Status::error(std::string(what) +
                         ": the text is empty; expected key=value elements "
                         "between commas");
  KeyValues result;
  size_t position = 0;
  bool first = true;
  while (position <= text.size()) {
    size_t comma = text.find(',', position);
    if (comma == std::string_view::npos)
      comma = text.size();
    std::string_view element = trimmed(text.substr(position, comma - position));
    position = comma + 1;
    if (element.empty())
      return fail("an empty element (two commas in a row, or one at an end)");
    size_t equals = element.find('=');
    if (equals == std::string_view::npos) {
      if (!first)
        return fail("'" + std::string(element) +
                    "' has no value; expected key=value");
      result.head = std::string(element);
    } else {
      std::string key(trimmed(element.substr(0, equals)));
      std::string value(trimmed(element.substr(equals + 1)));
      if (key.empty())
        return fail("an empty key before '='");
      if (value.empty())
        return fail("key '" + key + "' has no value");
      if (result.find(key))
        return fail("key '" + key + "' is given twice");
      result.pairs.emplace_back(std::move(key), std::move(value));
    }
    first = false;
  }
  return result;
}

/// from_chars takes no plus sign; "+1" is a number to everybody else.
static std::string_view withoutPlus(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+')
    text.remove_prefix(1);
  return text;
}

Expected<int64_t> parseInteger(std::string_view text, std::string_view what) {
  std::string_view digits = withoutPlus(text);
  int64_t value = 0;
  auto [end, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code == std::errc::result_out_of_range)
    return Status::error(std::string(what) + ": " + std::string(text) +
                         " does not fit in a 64-bit integer");
  if (code != std::errc() || end != digits.data() + digits.size())
    return Status::error(std::string(what) + ": '" + std::string(text) +
                         "' is not an integer");
  return value;
}

bool parseNumber(std::string_view text, double &value) {
  std::string_view digits = withoutPlus(text);
  auto [end, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size())
    return false;
  if (code == std::errc())
    return true;
  if (code != std::errc::result_out_of_range)
    return false;
  // The standard leaves `value` alone on overflow and underflow alike; strtod
  // tells them apart, and the text is known to be a number by now.
  value = std::strtod(std::string(digits).c_str(), nullptr);
  return true;
}

std::string numberText(double value) {
  char text[32];
  // Of 17 digits every double reads back.
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value)
      break;
  }
  return text;
}

Expected<double> parseReal(std::string_view text, std::string_view what) {
  double value = 0;
  if (!parseNumber(text, value))
    return Status::error(std::string(what) + ": '" + std::string(text) +
                         "' is not a number");
  if (!std::isfinite(value))
    return Status::error(std::string(what) + ": '" + std::string(text) +
                         "' is not a finite number");
  return value;
}

} // namespace mixle::runtime
