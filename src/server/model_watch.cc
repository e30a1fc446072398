#include "server/model_watch.h"

#include <utility>

#include "server/api/json_write.h"

namespace causeway::server {
namespace {

// {"model": …, "event": …, "data": …}; no data where it is empty.
std::string event_of(std::string_view model, std::string_view event, std::string_view data = {}) {
  std::string out = "{\"model\":";
  append_json_string(out, model);
  out += ",\"event\":";
  append_json_string(out, event);
  if (!data.empty()) {
    out += ",\"data\":";
    out += data;
  }
  out += '}';
  return out;
}

std::string status_of(std::string_view model, std::string_view value, std::string_view more = {}) {
  std::string data = "{\"status\":";
  append_json_string(data, value);
  data += more;
  data += '}';
  return event_of(model, "model_status", data);
}

std::string progress_of(std::string_view model, int percent) {
  std::string more = R"(,"progress":{"stages":["text_model"],"current":"text_model","value":)";
  more += percent >= 100 ? "1" : percent < 10 ? "0.0" : "0.";
  if (percent < 100) append_json_integer(more, percent);
  more += '}';
  return status_of(model, "loading", more);
}

void append_changes(const std::string& name, const WatchedModel& before, const WatchedModel& after,
                    std::vector<std::string>& out) {
  const bool failed = after.loads_failed > before.loads_failed;
  const bool loads = after.value == "loading";
  // What has been loaded, or could not be, has been loading in between.
  const bool loaded = before.value == "unloaded" && after.value == "loaded";
  if (loaded || (failed && before.value != "loading")) out.push_back(status_of(name, "loading"));
  if (failed) out.push_back(status_of(name, "unloaded", R"(,"failed":true)"));
  const bool told = failed && after.value == "unloaded";
  const bool changed = before.value != after.value || failed;
  if (changed && !told) out.push_back(status_of(name, after.value));
  if (loads && after.percent >= 0 && after.percent != before.percent) {
    out.push_back(progress_of(name, after.percent));
  }
}

}  // namespace

std::string_view router_value(const fleet::ModelStatus& status) {
  switch (status.state) {
    case fleet::ModelState::kLoading: return "loading";
    case fleet::ModelState::kReady:
    case fleet::ModelState::kActive: return status.attached ? "loaded" : "sleeping";
    case fleet::ModelState::kUnloaded: break;
  }
  return "unloaded";
}

std::vector<std::string> model_events(const WatchedModels& before, const WatchedModels& after) {
  std::vector<std::string> out;
  bool others = false;
  for (const auto& [name, model] : before) {
    if (after.contains(name)) continue;
    out.push_back(event_of(name, "model_remove"));
    others = true;
  }
  for (const auto& [name, model] : after) {
    const auto found = before.find(name);
    others = others || found == before.end();
    append_changes(name, found == before.end() ? WatchedModel() : found->second, model, out);
  }
  if (others) out.push_back(event_of("*", "models_reload"));
  return out;
}

void ModelWatch::look(const fleet::Fleet& fleet, Nanos now, Nanos period) {
  {
    const std::lock_guard lock(mutex_);
    if (looking_ || (looked_ && now - *looked_ < period)) return;
    looked_ = now;
    looking_ = true;
  }
  // Others go on telling what is known meanwhile.
  WatchedModels models;
  for (const fleet::CatalogueEntry* entry : fleet.catalogue()) {
    const fleet::ModelStatus status = fleet.status(entry->id);
    models[entry->name] = {.value = router_value(status),
                           .loads_failed = status.loads_failed,
                           .percent = status.load_percent};
  }
  const std::lock_guard lock(mutex_);
  looking_ = false;
  // The first look has nothing to compare with.
  if (!models_.empty()) {
    for (std::string& event : model_events(models_, models)) events_.push_back(std::move(event));
  }
  models_ = std::move(models);
  while (events_.size() > kEventsKept) {
    events_.pop_front();
    ++first_;
  }
}

std::int64_t ModelWatch::place() const {
  const std::lock_guard lock(mutex_);
  return first_ + std::ssize(events_);
}

std::optional<std::string> ModelWatch::take(std::int64_t& place) const {
  const std::lock_guard lock(mutex_);
  if (place < first_) return {};
  std::string out;
  for (const std::int64_t end = first_ + std::ssize(events_); place < end; ++place) {
    out += "data: ";
    out += events_[static_cast<std::size_t>(place - first_)];
    out += "\n\n";
  }
  return out;
}

}  // namespace causeway::server
