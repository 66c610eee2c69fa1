//===- ConfigReader.cpp - Reading a model's configuration -----------------===//

#include "frontend/cpp/models/ConfigReader.h"

#include "frontend/cpp/Graph.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace mixle::frontend {

ConfigReader::ConfigReader(Json value, std::string name)
    : content(std::move(value)), what(std::move(name)) {
  if (!content.is_object())
    failPlain("a model's configuration is a JSON object, got " +
              Twine(content.type_name()));
}

void ConfigReader::failPlain(const Twine &message) const {
  throw FrontendError((what + ": " + message).str());
}

void ConfigReader::fail(StringRef key, const Twine &message) const {
  auto found = content.find(key.str());
  if (found == content.end())
    failPlain("'" + key + "' " + message);
  std::string value = found->dump();
  if (value.size() > 60)
    value = value.substr(0, 57) + "...";
  failPlain(key + " = " + value + " " + message);
}

bool ConfigReader::has(StringRef key) const {
  return content.contains(key.str());
}

const ConfigReader::Json *ConfigReader::find(StringRef key) {
  read.insert(key.str());
  auto found = content.find(key.str());
  return found == content.end() ? nullptr : &*found;
}

bool ConfigReader::isNullOrAbsent(StringRef key) {
  const Json *value = find(key);
  return !value || value->is_null();
}

bool ConfigReader::isEmptyObject(StringRef key) {
  const Json *value = find(key);
  return value && value->is_object() && value->empty();
}

int64_t ConfigReader::positive(StringRef key, std::optional<int64_t> fallback,
                               int64_t maximum) {
  const Json *value = find(key);
  if (!value) {
    if (!fallback)
      failPlain("'" + key + "' is missing: it must be an integer from 1 to " +
                Twine(maximum));
    return *fallback;
  }
  // Negative and too large numbers fail the same way as words do.
  bool fits = value->is_number_unsigned() &&
              value->get<uint64_t>() <= static_cast<uint64_t>(maximum) &&
              value->get<uint64_t>() >= 1;
  if (!fits)
    fail(key, "must be an integer from 1 to " + Twine(maximum));
  return value->get<int64_t>();
}

int64_t ConfigReader::integer(StringRef key, int64_t low, int64_t high) {
  const Json *value = find(key);
  bool fits = value && value->is_number_integer();
  // Unsigned numbers may be beyond an int64.
  if (fits && value->is_number_unsigned())
    fits = value->get<uint64_t>() <=
           static_cast<uint64_t>(std::max<int64_t>(high, 0));
  if (!fits || value->get<int64_t>() < low || value->get<int64_t>() > high)
    fail(key, "must be an integer from " + Twine(low) + " to " + Twine(high));
  return value->get<int64_t>();
}

double ConfigReader::positiveReal(StringRef key) {
  const Json *value = find(key);
  if (!value)
    failPlain("'" + key + "' is missing");
  double number = value->is_number() ? value->get<double>() : -1;
  if (!(number > 0) || !std::isfinite(number))
    fail(key, "must be a finite number above 0");
  return number;
}

std::vector<std::string> ConfigReader::strings(StringRef key) {
  const Json *value = find(key);
  bool fits = value && value->is_array();
  std::vector<std::string> texts;
  if (fits)
    for (const Json &item : *value) {
      fits &= item.is_string();
      if (item.is_string())
        texts.push_back(item.get<std::string>());
    }
  if (!fits)
    fail(key, "must be a list of strings");
  return texts;
}

ConfigReader ConfigReader::object(StringRef key) {
  const Json *value = find(key);
  if (!value || !value->is_object())
    fail(key, "must be an object");
  return ConfigReader(*value, what + ": " + key.str());
}

double ConfigReader::nonNegative(StringRef key, double fallback) {
  const Json *value = find(key);
  if (!value)
    return fallback;
  double number = value->is_number() ? value->get<double>() : -1;
  if (!(number >= 0) || !std::isfinite(number))
    fail(key, "must be a finite number of at least 0");
  return number;
}

bool ConfigReader::boolean(StringRef key, bool fallback) {
  const Json *value = find(key);
  if (!value)
    return fallback;
  if (!value->is_boolean())
    fail(key, "must be true or false");
  return value->get<bool>();
}

std::string ConfigReader::string(StringRef key,
                                 std::optional<std::string> fallback) {
  const Json *value = find(key);
  if (!value) {
    if (!fallback)
      failPlain("'" + key + "' is missing");
    return *fallback;
  }
  if (!value->is_string())
    fail(key, "must be a string");
  return value->get<std::string>();
}

void ConfigReader::alias(StringRef name, StringRef key) {
  auto found = content.find(name.str());
  if (found == content.end())
    return;
  if (has(key))
    fail(name, "is another name of '" + key + "', which is given too");
  Json value = *found;
  content.erase(name.str());
  content[key.str()] = std::move(value);
}

void ConfigReader::ignore(ArrayRef<StringLiteral> keys) {
  for (StringLiteral key : keys)
    read.insert(key.str());
}

void ConfigReader::finish() {
  for (const auto &item : content.items()) {
    if (read.count(item.key()))
      continue;
    std::string near;
    unsigned best = 3;
    for (const std::string &known : read) {
      unsigned distance = StringRef(known).edit_distance(item.key());
      if (distance < best) {
        best = distance;
        near = known;
      }
    }
    failPlain("unknown key '" + item.key() + "'" +
              (near.empty() ? std::string() : ": is '" + near + "' meant?") +
              " (a key that is not understood could change the model, so it is "
              "not ignored; remove it)");
  }
}

} // namespace mixle::frontend
