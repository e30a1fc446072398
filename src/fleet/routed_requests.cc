#include "fleet/routed_requests.h"

#include <utility>

#include "base/dcheck.h"

namespace causeway::fleet {
namespace {

// A fleet that measures demand takes the answers every second; others keep none.
constexpr std::size_t kAnswersMax = 10'000;

}  // namespace

bool RoutedRequests::add(const request::Request& request, const engine::SliceHandle& slice) {
  Entry entry;
  entry.request = request;
  entry.slice = &slice;
  const std::scoped_lock lock(mutex_);
  return requests_.emplace(request.id, std::move(entry)).second;
}

std::optional<request::Request> RoutedRequests::again(RequestId id,
                                                      const engine::SliceHandle& slice) {
  const std::scoped_lock lock(mutex_);
  const auto at = requests_.find(id);
  if (at == requests_.end()) return std::nullopt;
  Entry& entry = at->second;
  entry.request.attempt += 1;
  entry.slice = &slice;
  entry.withdrawn = false;
  CAUSEWAY_DCHECK(entry.preemptions >= entry.preemptions_before, "attempts add preemptions");
  entry.preemptions_before = entry.preemptions;
  return entry.request;
}

void RoutedRequests::withdraw(const engine::SliceHandle& slice) {
  const std::scoped_lock lock(mutex_);
  for (auto& [id, entry] : requests_) {
    if (entry.slice != &slice) continue;
    entry.slice = nullptr;
    entry.request.attempt += 1;
  }
}

bool RoutedRequests::withdraw(RequestId id) {
  const std::scoped_lock lock(mutex_);
  const auto at = requests_.find(id);
  if (at == requests_.end()) return false;
  at->second.withdrawn = true;
  return true;
}

bool RoutedRequests::is_given_back(RequestId id) const {
  const std::scoped_lock lock(mutex_);
  const auto at = requests_.find(id);
  return at != requests_.end() && at->second.withdrawn && at->second.slice == nullptr;
}

std::vector<std::pair<ModelId, Tokens>> RoutedRequests::take_answers() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(answers_, {});
}

bool RoutedRequests::end(RequestId id, std::int32_t attempt) {
  const std::scoped_lock lock(mutex_);
  const auto at = requests_.find(id);
  if (at == requests_.end() || at->second.request.attempt != attempt) return false;
  requests_.erase(at);
  return true;
}

bool RoutedRequests::forget(RequestId id) {
  const std::scoped_lock lock(mutex_);
  return requests_.erase(id) > 0;
}

bool RoutedRequests::goes_on(RequestId id, std::int32_t attempt) const {
  const std::scoped_lock lock(mutex_);
  const auto at = requests_.find(id);
  if (at == requests_.end()) return false;
  return at->second.request.attempt != attempt || is_lost(at->second);
}

bool RoutedRequests::is_lost(const Entry& entry) const {
  return !closed_ && (entry.slice == nullptr || !entry.slice->observe().lost.empty());
}

RoutedRequests::Passed RoutedRequests::pass(std::vector<request::Output> outputs) {
  const std::scoped_lock lock(mutex_);
  Passed passed;
  passed.outputs.reserve(outputs.size());
  for (request::Output& output : outputs) {
    if (pass(output, passed.given_back)) passed.outputs.push_back(std::move(output));
  }
  return passed;
}

bool RoutedRequests::pass(request::Output& output, std::vector<RequestId>& given_back) {
  const auto at = requests_.find(output.request);
  if (at == requests_.end()) return false;
  Entry& entry = at->second;
  if (entry.request.attempt != output.attempt) return false;
  if (entry.slice == nullptr) return false;  // it has been given back
  if (output.finished && output.lost && is_lost(entry)) return false;
  for (const auto& token : output.tokens) {
    entry.request.output.push_back(token.token);
  }
  // The client knows of one request, which began once.
  if (entry.queued < Nanos(0)) {
    entry.queued = output.queued;
    entry.cached = output.cached_prompt;
    entry.held = output.held;
    entry.weights = output.weights;
  }
  output.queued = entry.queued;
  output.cached_prompt = entry.cached;
  output.held = entry.held;
  output.weights = entry.weights;
  output.preemptions = entry.preemptions = entry.preemptions_before + output.preemptions;
  if (!output.finished) return true;
  if (entry.withdrawn && output.reason == request::FinishReason::kCancelled) {
    given_back.push_back(output.request);
    entry.slice = nullptr;
    output.finished = false;
    return !output.tokens.empty();
  }
  if (answers_.size() < kAnswersMax) {
    answers_.emplace_back(entry.request.model, Tokens(std::ssize(entry.request.output)));
  }
  requests_.erase(at);
  return true;
}

void RoutedRequests::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
}

}  // namespace causeway::fleet
