// An OutputSink that keeps when each token of each request came.
#pragma once

#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bench/samples.h"
#include "engine/slice_handle.h"

namespace causeway::bench {

struct TokenTimes {
  std::vector<Nanos> at = {};  // one a token
  bool ended = false;
  std::string error = {};

  // Between tokens, in ms: every gap of which a part lies between the two instants.
  void add_gaps(Nanos from, Nanos to, Samples& gaps) const {
    for (std::size_t i = 1; i < at.size(); ++i) {
      if (at[i] > from && at[i - 1] < to) gaps.add(to_millis(at[i] - at[i - 1]));
    }
  }
};

class TokenTimesSink final : public engine::OutputSink {
 public:
  explicit TokenTimesSink(const Clock& clock) : clock_(clock) {}

  void on_outputs(std::vector<request::Output> outputs) override {
    const Nanos now = clock_.now();
    const std::lock_guard lock(mutex_);
    for (const request::Output& output : outputs) {
      TokenTimes& times = times_[output.request];
      times.at.insert(times.at.end(), output.tokens.size(), now);
      if (!output.finished) continue;
      times.ended = true;
      times.error = output.error;
    }
    changed_.notify_all();
  }

  // Until the request has `tokens` tokens or has ended; kDeadlineExceeded; its error.
  Result<TokenTimes> wait(RequestId request, std::size_t tokens, Nanos timeout) {
    std::unique_lock lock(mutex_);
    const bool there = changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count), [&] {
      const TokenTimes& times = times_[request];
      return times.ended || times.at.size() >= tokens;
    });
    const TokenTimes& times = times_[request];
    if (!times.error.empty()) return Error{ErrorCode::kDevice, times.error};
    if (!there) return Error{ErrorCode::kDeadlineExceeded, "a request did not end in time"};
    return times;
  }

  Result<TokenTimes> wait_for_end(RequestId request, Nanos timeout) {
    return wait(request, std::numeric_limits<std::size_t>::max(), timeout);
  }

  // Whether the request has a token or has ended; waits for up to `length`.
  bool begun(RequestId request, Nanos length) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(length.count), [&] {
      const TokenTimes& times = times_[request];
      return times.ended || !times.at.empty();
    });
  }

  TokenTimes of(RequestId request) {
    const std::lock_guard lock(mutex_);
    return times_[request];
  }

 private:
  const Clock& clock_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<RequestId, TokenTimes> times_;
};

}  // namespace causeway::bench
