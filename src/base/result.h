// Result<T>: a value or an Error, for everything that the environment (CUDA, OS, file, peer) or a
// user can make fail. Bugs are CHECKs instead (check.h). No exception crosses a module.
//
//   Result<File> open_file(const std::string& path);
//
//   CAUSEWAY_ASSIGN(File file, open_file(path));   // returns the error to the caller
//   CAUSEWAY_TRY(file.write(bytes));               // the same for a Status
//
// std::expected would serve, but is C++23, which neither g++ 12 nor nvcc 13.0 offers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace causeway {

enum class ErrorCode {
  kInvalidArgument,    // the caller's (often a user's) input is wrong
  kNotFound,           // a named thing does not exist
  kResourceExhausted,  // memory, frames, queue places: more would succeed
  kUnsupported,        // valid, but this build or device cannot do it
  kUnavailable,        // not now: draining, loading, peer gone
  kDeadlineExceeded,   // a wait ended by its time limit
  kCancelled,          // given up on request
  kCorrupt,            // data from outside contradicts itself
  kIo,                 // the operating system refused or failed
  kDevice,             // the accelerator or its driver failed
};

std::string_view name_of(ErrorCode code);

// What happened, and where it helps, what to do. Messages name the file, tensor or field.
struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;

  // The same error with "context: " in front.
  [[nodiscard]] Error with_context(std::string_view context) const;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}     // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    CAUSEWAY_CHECK(ok(), error_message());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    CAUSEWAY_CHECK(ok(), error_message());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    CAUSEWAY_CHECK(ok(), error_message());
    return std::move(*std::get_if<0>(&state_));
  }
  const Error& error() const {
    CAUSEWAY_CHECK(!ok(), "error() of a Result that holds a value");
    return *std::get_if<1>(&state_);
  }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] Result with_context(std::string_view context) && {
    if (ok()) return std::move(*this);
    return error().with_context(context);
  }

 private:
  std::string_view error_message() const {
    return ok() ? std::string_view() : std::string_view(std::get_if<1>(&state_)->message);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const {
    CAUSEWAY_CHECK(!ok_, "error() of a Status that is ok");
    return error_;
  }
  [[nodiscard]] Result with_context(std::string_view context) && {
    if (ok_) return {};
    return error_.with_context(context);
  }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

inline Error invalid_argument(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}
inline Error not_found(std::string message) { return {ErrorCode::kNotFound, std::move(message)}; }
inline Error exhausted(std::string message) {
  return {ErrorCode::kResourceExhausted, std::move(message)};
}
inline Error unsupported(std::string message) {
  return {ErrorCode::kUnsupported, std::move(message)};
}
inline Error unavailable(std::string message) {
  return {ErrorCode::kUnavailable, std::move(message)};
}
inline Error corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

// An I/O error with the text of `errno_value` (pass errno, read at once after the failing call).
Error io_error(std::string_view what, int errno_value);

}  // namespace causeway

#define CAUSEWAY_CONCAT_INNER(a, b) a##b
#define CAUSEWAY_CONCAT(a, b) CAUSEWAY_CONCAT_INNER(a, b)

// Returns the error of a Status or Result from the enclosing function.
#define CAUSEWAY_TRY(expression)                                     \
  do {                                                               \
    auto causeway_try_status = (expression);                         \
    if (!causeway_try_status.ok()) return causeway_try_status.error(); \
  } while (false)

#define CAUSEWAY_ASSIGN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                  \
  if (!temporary.ok()) return temporary.error();                  \
  declaration = std::move(temporary).value()

// CAUSEWAY_ASSIGN(auto x, f()): declares or assigns x from a Result, or returns its error.
#define CAUSEWAY_ASSIGN(declaration, expression) \
  CAUSEWAY_ASSIGN_INNER(CAUSEWAY_CONCAT(causeway_result_, __LINE__), declaration, expression)
