#include "fleet/local_fleet.h"

#include "fleet/local_fleet_state.h"

namespace causeway::fleet {

void SerialSink::on_outputs(std::vector<request::Output> outputs) {
  std::vector<RequestId> ended, given_back;
  {
    const std::scoped_lock lock(mutex_);
    if (screen_) {
      RoutedRequests::Passed passed = screen_(std::move(outputs));
      outputs = std::move(passed.outputs);
      given_back = std::move(passed.given_back);
    }
    for (const request::Output& output : outputs) {
      if (output.finished) ended.push_back(output.request);
    }
    if (!outputs.empty()) target_.on_outputs(std::move(outputs));
  }
  if (ended.empty() && given_back.empty()) return;
  const std::scoped_lock lock(listener_mutex_);
  if (listener_) listener_(ended, given_back);
}

void SerialSink::deliver(std::vector<request::Output> outputs) {
  const std::scoped_lock lock(mutex_);
  target_.on_outputs(std::move(outputs));
}

void SerialSink::listen(Listener listener, Screen screen) {
  {
    const std::scoped_lock lock(mutex_);
    screen_ = std::move(screen);
  }
  const std::scoped_lock lock(listener_mutex_);
  listener_ = std::move(listener);
}

Result<std::unique_ptr<LocalFleet>> LocalFleet::start(std::vector<CatalogueModel> models,
                                                      const LocalFleetOptions& options,
                                                      FleetHome& home, FleetSlices slices,
                                                      SerialSink& sink) {
  auto state = std::make_unique<State>(std::move(models), options, home, std::move(slices), sink);
  CAUSEWAY_TRY(state->begin());
  return std::make_unique<LocalFleet>(std::move(state));
}

LocalFleet::LocalFleet(std::unique_ptr<State> state) : state_(std::move(state)) {}

LocalFleet::~LocalFleet() = default;

std::vector<const CatalogueEntry*> LocalFleet::catalogue() const { return state_->served(); }
const CatalogueEntry* LocalFleet::find(std::string_view name) const { return state_->find(name); }
ModelStatus LocalFleet::status(ModelId model) const { return state_->status(model); }
Status LocalFleet::submit(request::Request request) { return state_->submit(std::move(request)); }
Status LocalFleet::probe(request::Request request) {
  return state_->submit(std::move(request), /*only_ready=*/true);
}
Status LocalFleet::ask(const Ask& ask) { return state_->ask(ask); }
bool LocalFleet::asleep() const { return state_->asleep(); }
ReloadReport LocalFleet::last_reload() const { return state_->last_reload(); }
void LocalFleet::cancel(RequestId request) { state_->cancel(request); }
request::Observation LocalFleet::observe() const { return state_->observe(); }
std::vector<std::pair<ModelId, request::Observation>> LocalFleet::observe_models() const {
  return state_->observe_models();
}
bool LocalFleet::wait_until_loaded(Nanos timeout) const {
  return state_->wait_until_loaded(timeout);
}
Status LocalFleet::resize(LayoutChange change) { return state_->resize(std::move(change)); }
bool LocalFleet::wait_until_resized(Nanos timeout) const {
  return state_->wait_until_resized(timeout);
}
bool LocalFleet::stop() { return state_->stop(); }

}  // namespace causeway::fleet
