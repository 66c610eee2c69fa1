//===- Json.cpp - JSON texts, strictly
//--------------------------------------===//

#include "runtime/base/Json.h"

#include <set>
#include <vector>

namespace mixle::runtime {

Expected<Json> parseJson(std::string_view text, const std::string &what) {
  // To the library a zero byte is the end of the text, whatever follows.
  if (size_t zero = text.find('\0'); zero != std::string_view::npos)
    return Status::error(what + ": not valid JSON: byte " +
                         std::to_string(zero) + " is zero");
  std::vector<std::set<std::string>> keys;
  std::string repeated;
  bool isRepeated = false;
  auto watchKeys = [&](int, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key && !isRepeated) {
      const std::string &key = parsed.get_ref<const std::string &>();
      if (!keys.back().insert(key).second) {
        isRepeated = true;
        repeated = key;
      }
    }
    return true;
  };
  try {
    Json value = Json::parse(text.begin(), text.end(), watchKeys);
    if (isRepeated)
      return Status::error(what + ": key '" + repeated +
                           "' is given twice in one JSON object");
    return value;
  } catch (const Json::exception &error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string message = error.what();
    size_t bracket = message.find("] ");
    if (message.rfind("[json.exception", 0) == 0 &&
        bracket != std::string::npos)
      message = message.substr(bracket + 2);
    return Status::error(what + ": not valid JSON: " + message);
  }
}

} // namespace mixle::runtime
