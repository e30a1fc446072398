#include "engine/testing/fake_executor.h"

#include <chrono>
#include <utility>

#include "base/check.h"

namespace causeway::engine {

Status FakeExecutor::submit(request::Batch batch, weights::StepWeights) {
  const std::lock_guard lock(mutex_);
  CAUSEWAY_CHECK(std::ssize(results_) < capabilities_.steps_in_flight_max, "a step is in flight");
  if (!lost_.empty()) return Error{ErrorCode::kDevice, lost_};
  if (std::exchange(refuse_, false)) return Error{ErrorCode::kDevice, "refused as the test asked"};
  ++steps_;
  last_batch_ = batch;
  request::StepResult& result = results_.emplace_back();
  result.step = batch.step;
  result.error = std::exchange(next_error_, "");
  if (!result.error.empty()) return {};
  for (const request::BatchEntry& entry : batch.entries) {
    for (const TokenId token : entry.scored) {
      result.sampled.push_back({.request = entry.request, .token = {.token = token, .top = {}}});
    }
    if (!entry.samples) continue;
    request::SampledToken sampled{.request = entry.request, .token = {}};
    sampled.token.token = kTokenBase + entry.context + entry.token_count;
    result.sampled.push_back(std::move(sampled));
  }
  return {};
}

std::optional<request::StepResult> FakeExecutor::wait(Nanos timeout) {
  std::unique_lock lock(mutex_);
  CAUSEWAY_CHECK(!results_.empty(), "no step is in flight");
  const std::chrono::nanoseconds longest(timeout.count);
  if (!released_.wait_for(lock, longest, [this] { return !held_; })) return std::nullopt;
  request::StepResult result = std::move(results_.front());
  results_.pop_front();
  if (!lost_.empty()) {
    result.error = lost_;
    result.sampled.clear();
  }
  return result;
}

Status FakeExecutor::health() const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return Error{ErrorCode::kDevice, lost_};
  return {};
}

void FakeExecutor::lose(std::string error) {
  const std::lock_guard lock(mutex_);
  lost_ = std::move(error);
}

void FakeExecutor::hold() {
  const std::lock_guard lock(mutex_);
  held_ = true;
}

void FakeExecutor::release() {
  const std::lock_guard lock(mutex_);
  held_ = false;
  released_.notify_all();
}

void FakeExecutor::fail_next(std::string error) {
  const std::lock_guard lock(mutex_);
  next_error_ = std::move(error);
}

void FakeExecutor::refuse_next() {
  const std::lock_guard lock(mutex_);
  refuse_ = true;
}

request::Batch FakeExecutor::last_batch() const {
  const std::lock_guard lock(mutex_);
  return last_batch_;
}

std::int64_t FakeExecutor::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

}  // namespace causeway::engine
