//===- Json.h - JSON texts, strictly ----------------------------*- C++ -*-===//
//
// The library's parser keeps the last of two equal keys without a word; a
// configuration with a repeated key is a mistake that a person should hear of.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_BASE_JSON_H
#define MIXLE_RUNTIME_BASE_JSON_H

#include "mixle/Status.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace mixle::runtime {

/// Objects keep the order in which their keys were written.
using Json = nlohmann::ordered_json;

/// Parses `text`. `what` names it in messages (a path or an option). Errors:
/// malformed JSON, with line and column, and a key that occurs twice in one
/// object, by name.
Expected<Json> parseJson(std::string_view text, const std::string &what);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_BASE_JSON_H
