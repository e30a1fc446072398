// An OutputSink that keeps everything and lets tests wait for ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/slice_handle.h"

namespace causeway::engine {

struct Collected {
  std::vector<TokenId> tokens;
  std::optional<request::Output> end;  // the finished Output
  int ends = 0;
};

class CollectingSink final : public OutputSink {
 public:
  void on_outputs(std::vector<request::Output> outputs) override {
    const std::lock_guard lock(mutex_);
    for (request::Output& output : outputs) {
      Collected& collected = collected_[output.request];
      for (const auto& token : output.tokens) collected.tokens.push_back(token.token);
      if (!output.finished) continue;
      ++collected.ends;
      ++ends_;
      collected.end = std::move(output);
    }
    changed_.notify_all();
  }

  // Until `count` requests have ended; false after `seconds`.
  bool wait_for_ends(int count, int seconds = 20) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(seconds), [&] { return ends_ >= count; });
  }
  // Until the request has `count` tokens; false after `seconds`.
  bool wait_for_tokens(RequestId request, std::size_t count, int seconds = 20) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(seconds),
                             [&] { return collected_[request].tokens.size() >= count; });
  }
  Collected of(RequestId request) {
    const std::lock_guard lock(mutex_);
    return collected_[request];
  }
  int ends() {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Collected> collected_;
  int ends_ = 0;
};

}  // namespace causeway::engine
