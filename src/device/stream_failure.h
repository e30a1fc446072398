// The first failure of a stream, which is kept, and the messages that the streams of all backends
// share. Private to the backends. Not thread-safe: the stream's lock guards it.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/result.h"

namespace causeway::device {

class StreamFailure {
 public:
  explicit StreamFailure(std::string stream) : stream_(std::move(stream)) {}

  // Only the first failure is kept.
  void set(const Error& error) {
    if (!first_) first_ = error.with_context(label());
  }
  void cancel() {
    if (!first_) first_ = cancelled();
  }
  const std::optional<Error>& first() const { return first_; }
  Status status() const {
    if (first_) return *first_;
    return {};
  }

  const std::string& stream() const { return stream_; }
  std::string label() const { return "stream '" + stream_ + "'"; }
  Error cancelled() const { return {ErrorCode::kCancelled, label() + " was destroyed"}; }
  Error full(std::size_t queued) const {
    return exhausted(label() + " has " + std::to_string(queued) +
                     " pieces of work queued; synchronize before adding more");
  }

 private:
  const std::string stream_;
  std::optional<Error> first_;
};

}  // namespace causeway::device
