#include "server/testing/scripted_fleet.h"

#include <algorithm>
#include <chrono>

#include "server/byte_model.h"

namespace causeway::server::testing {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kStepTime{1};

}  // namespace

Script says(std::string_view text) {
  Script script;
  for (const char c : text) script.tokens.push_back(static_cast<unsigned char>(c));
  return script;
}

ScriptedFleet::ScriptedFleet(engine::OutputSink& sink) : sink_(sink) {
  on_submit = [](const request::Request&) -> Result<Script> { return says("Hello"); };
  thread_ = std::thread([this] { play(); });
}

ScriptedFleet::~ScriptedFleet() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

fleet::CatalogueEntry& ScriptedFleet::add_model(std::string name, Tokens max_model_len) {
  const auto id = ModelId(static_cast<std::int64_t>(models_.size()));
  models_.push_back(byte_model_entry(id, std::move(name), max_model_len));
  listed_.push_back(models_.back().get());
  return *models_.back();
}

void ScriptedFleet::release() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, running] : running_) running.script.held = false;
  changed_.notify_all();
}

std::int64_t ScriptedFleet::running() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(running_.size());
}

bool ScriptedFleet::wait_for_cancelled(std::int64_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return cancelled_ >= count; });
}

bool ScriptedFleet::wait_for_submitted(std::int64_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return submitted_ >= count; });
}

request::Request ScriptedFleet::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

const fleet::CatalogueEntry* ScriptedFleet::find(std::string_view name) const {
  if (on_find) on_find(name);
  for (const auto* model : listed_) {
    if (model->name == name) return model;
  }
  return nullptr;
}

fleet::ModelStatus ScriptedFleet::status(ModelId model) const {
  fleet::ModelStatus status;
  status.requests_running = running();
  status.requests_rotary = counted.requests_rotary;
  status.state = running() > 0 ? fleet::ModelState::kActive : fleet::ModelState::kReady;
  status.host_bytes = Bytes(5000);
  status.device_bytes = Bytes(3000);
  status.streamed_bytes = Bytes(2000);
  status.predicted_tpot = micros(1500);
  status.attached = true;
  if (on_status) on_status(model, status);
  return status;
}

Status ScriptedFleet::submit(request::Request request) {
  auto script = on_submit(request);
  if (!script.ok()) return script.error();
  for (std::size_t i = 1; i < request.prompt.size(); ++i) {
    if (request.sampling.prompt_logprobs < 0) break;
    script->prompt.push_back({request.prompt[i], script->prompt_logprob, script->prompt_top});
  }
  const std::lock_guard lock(mutex_);
  running_[request.id].script = std::move(script).value();
  last_ = std::move(request);
  ++submitted_;
  changed_.notify_all();
  return {};
}

Status ScriptedFleet::ask(const fleet::Ask& ask) {
  if (on_ask) CAUSEWAY_TRY(on_ask(ask));
  const std::lock_guard lock(mutex_);
  running_[ask.id].script.held = asks_held;
  changed_.notify_all();
  return {};
}

void ScriptedFleet::cancel(RequestId request) {
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(request);
  if (found == running_.end() || found->second.cancelled) return;
  found->second.cancelled = true;
  ++cancelled_;
  changed_.notify_all();
}

request::Observation ScriptedFleet::observe() const {
  request::Observation seen = counted;
  seen.requests_running = running();
  seen.frames_total = 10;
  seen.link_bytes = Bytes(9000);
  seen.hung = hung;
  if (lost) seen.lost = "GPU 0 is lost: planted";
  return seen;
}

std::vector<std::pair<ModelId, request::Observation>> ScriptedFleet::observe_models() const {
  std::vector<std::pair<ModelId, request::Observation>> all;
  for (const auto* model : listed_) all.emplace_back(model->id, observe());
  return all;
}

void ScriptedFleet::play() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    std::vector<request::Output> outputs = step();
    if (outputs.empty()) {
      changed_.wait_for(lock, kStepTime);
      continue;
    }
    lock.unlock();
    sink_.on_outputs(std::move(outputs));
    lock.lock();
    // Else a reader that the system keeps waiting for some milliseconds finds thousands.
    if (plays_endlessly()) changed_.wait_for(lock, kStepTime);
  }
}

bool ScriptedFleet::plays_endlessly() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const auto& entry) { return entry.second.script.endless; });
}

std::vector<request::Output> ScriptedFleet::step() {
  std::vector<request::Output> outputs;
  for (auto at = running_.begin(); at != running_.end();) {
    Running& running = at->second;
    if (running.script.held && running.next >= running.script.hold_at && !running.cancelled) {
      ++at;
      continue;
    }
    outputs.push_back(advance(at->first, running));
    at = outputs.back().finished ? running_.erase(at) : std::next(at);
  }
  return outputs;
}

request::Output ScriptedFleet::advance(RequestId id, Running& running) {
  request::Output output;
  output.request = id;
  Script& script = running.script;
  const std::size_t size = script.tokens.size();
  for (std::size_t i = 0; i < script.tokens_per_output && !running.cancelled; ++i) {
    if (running.next >= size && !script.endless) break;
    request::OutputToken token;
    token.token = script.tokens[running.next++ % size];
    token.logprob = script.logprob;
    token.top = script.top;
    output.tokens.push_back(std::move(token));
  }
  output.prompt = std::exchange(script.prompt, {});
  output.cached_prompt = Tokens(script.cached);
  output.queued = script.queued;
  output.held = script.held_for;
  output.weights = script.weights;
  output.switched = std::exchange(script.switched, std::nullopt);
  output.finished = running.cancelled || (running.next >= size && !script.endless);
  if (!output.finished) return output;
  output.embedding = std::move(script.embedding);
  output.rotations = std::move(script.rotations);
  output.reason = running.cancelled ? request::FinishReason::kCancelled : script.reason;
  output.error = script.error;
  output.code = script.code;
  return output;
}

}  // namespace causeway::server::testing
