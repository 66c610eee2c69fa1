//===- Status.h - Errors of the runtime -------------------------*- C++ -*-===//
//
// One error type for the whole runtime. A message names the thing, the value,
// what was expected, and the way out; codes of vendors' libraries are turned
// into such messages where they arise.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_STATUS_H
#define MIXLE_STATUS_H

#include <string>
#include <utility>
#include <variant>

namespace mixle::runtime {

/// Success, or an error with one message for a person.
class [[nodiscard]] Status {
public:
  Status() = default;
  static Status success() { return Status(); }
  static Status error(std::string message) {
    Status s;
    s.failed = true;
    s.text = std::move(message);
    return s;
  }

  bool ok() const { return !failed; }
  explicit operator bool() const { return ok(); }
  const std::string &message() const { return text; }

  /// The same error with where it happened put in front: "context: message".
  Status withContext(const std::string &context) const {
    return ok() ? *this : error(context + ": " + text);
  }

private:
  bool failed = false;
  std::string text;
};

/// A value, or the error that prevented it.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : storage(std::move(value)) {}
  Expected(Status status) : storage(std::move(status)) {}

  bool ok() const { return std::holds_alternative<T>(storage); }
  explicit operator bool() const { return ok(); }
  T &operator*() { return std::get<T>(storage); }
  const T &operator*() const { return std::get<T>(storage); }
  T *operator->() { return &std::get<T>(storage); }
  const T *operator->() const { return &std::get<T>(storage); }
  Status status() const {
    return ok() ? Status::success() : std::get<Status>(storage);
  }
  T take() { return std::move(std::get<T>(storage)); }

private:
  std::variant<T, Status> storage;
};

} // namespace mixle::runtime

/// Returns the error of `expression`, a Status, from the calling function.
#define MIXLE_RETURN_IF_ERROR(expression)                                      \
  do {                                                                         \
    if (::mixle::runtime::Status mixleStatus = (expression);                   \
        !mixleStatus.ok())                                                     \
      return mixleStatus;                                                      \
  } while (false)

#define MIXLE_CONCAT_INNER(a, b) a##b
#define MIXLE_CONCAT(a, b) MIXLE_CONCAT_INNER(a, b)
/// Declares `target` from an Expected, or returns its error.
#define MIXLE_ASSIGN_OR_RETURN(target, expression)                             \
  auto MIXLE_CONCAT(mixleExpected, __LINE__) = (expression);                   \
  if (!MIXLE_CONCAT(mixleExpected, __LINE__).ok())                             \
    return MIXLE_CONCAT(mixleExpected, __LINE__).status();                     \
  target = MIXLE_CONCAT(mixleExpected, __LINE__).take()

#endif // MIXLE_STATUS_H
