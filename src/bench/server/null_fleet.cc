#include "bench/server/null_fleet.h"

#include <algorithm>
#include <chrono>

#include "server/byte_model.h"

namespace causeway::server {
namespace {

constexpr Tokens kContext{4096};
constexpr TokenId kToken = 'a';

}  // namespace

NullFleet::NullFleet(const Options& options, engine::OutputSink& sink, const Clock& clock)
    : options_(options),
      sink_(sink),
      clock_(clock),
      model_(byte_model_entry(ModelId(0), "null", kContext)),
      listed_{model_.get()},
      gathered_(options.gather == 0) {
  thread_ = std::thread([this] { play(); });
}

NullFleet::~NullFleet() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

const fleet::CatalogueEntry* NullFleet::find(std::string_view name) const {
  return name == model_->name ? model_.get() : nullptr;
}

fleet::ModelStatus NullFleet::status(ModelId) const {
  fleet::ModelStatus status;
  status.state = fleet::ModelState::kReady;
  return status;
}

Status NullFleet::submit(request::Request request) {
  {
    const std::lock_guard lock(mutex_);
    running_.push_back({request.id, request.max_tokens.count, false});
    ++unstarted_;
    gathered_ = gathered_ || static_cast<std::int64_t>(running_.size()) >= options_.gather;
  }
  changed_.notify_all();
  return {};
}

void NullFleet::cancel(RequestId request) {
  const std::lock_guard lock(mutex_);
  for (Running& running : running_) {
    if (running.id == request) running.tokens_left = 1;
  }
}

request::Observation NullFleet::observe() const {
  const std::lock_guard lock(mutex_);
  request::Observation seen;
  seen.requests_running = static_cast<std::int64_t>(running_.size());
  return seen;
}

std::vector<std::pair<ModelId, request::Observation>> NullFleet::observe_models() const {
  return {{model_->id, observe()}};
}

void NullFleet::play() {
  std::unique_lock lock(mutex_);
  Nanos next = clock_.now() + options_.token_gap;
  while (!ending_) {
    const Nanos now = clock_.now();
    const bool all = gathered_ && now >= next;
    if (all) next = now + options_.token_gap;
    if (!all && unstarted_ == 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(std::max((next - now).count, 100'000l)));
      continue;
    }
    std::vector<request::Output> outputs = step(all);
    lock.unlock();
    if (!outputs.empty()) sink_.on_outputs(std::move(outputs));
    lock.lock();
  }
}

std::vector<request::Output> NullFleet::step(bool all) {
  std::vector<request::Output> outputs;
  for (Running& running : running_) {
    if (running.started && !all) continue;
    running.started = true;
    request::Output output;
    output.request = running.id;
    output.tokens.resize(1);
    output.tokens[0].token = kToken;
    output.finished = --running.tokens_left <= 0;
    output.reason = request::FinishReason::kLength;
    outputs.push_back(std::move(output));
  }
  std::erase_if(running_, [](const Running& running) { return running.tokens_left <= 0; });
  unstarted_ = 0;
  return outputs;
}

}  // namespace causeway::server
