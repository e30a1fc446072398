#include "worker/worker.h"

#include <utility>

#include "worker/worker_state.h"

namespace causeway::worker {

Result<std::unique_ptr<Worker>> Worker::start(const WorkerOptions& options, slice::ModelHome& home,
                                              const Clock& clock, engine::OutputSink& sink) {
  const auto count = static_cast<std::int64_t>(options.plan.slices.size());
  if (count < 1 || count > kSlicesMax) {
    return invalid_argument("a worker has 1 to " + std::to_string(kSlicesMax) + " slices, not " +
                            std::to_string(count));
  }
  auto state = std::make_unique<State>(options, home, clock, sink);
  if (const Status started = state->start(); !started.ok()) {
    return started.error().with_context("the worker of " + options.name);
  }
  return std::make_unique<Worker>(std::move(state));
}

Worker::Worker(std::unique_ptr<State> state) : state_(std::move(state)) {
  const std::size_t count = state_->slices();
  for (std::size_t i = 0; i < count; ++i) {
    slices_.push_back(std::make_unique<WorkerSlice>(*this, static_cast<std::int32_t>(i)));
  }
}

Worker::~Worker() = default;

void Worker::stop() { state_->stop(); }
int Worker::pid() const { return state_->pid(); }
std::int64_t Worker::starts() const { return state_->starts(); }

Status WorkerSlice::submit(request::Request request) {
  return worker_.state().submit(number_, std::move(request));
}
void WorkerSlice::cancel(RequestId request) { worker_.state().cancel(number_, request); }
request::Observation WorkerSlice::observe() const { return worker_.state().observe(number_); }
request::Observation WorkerSlice::observe(ModelId model) const {
  return worker_.state().observe(number_, model);
}
std::vector<std::pair<ModelId, request::Observation>> WorkerSlice::observe_models() const {
  return worker_.state().observe_models(number_);
}
Result<fleet::AttachedModel> WorkerSlice::attach(const fleet::CatalogueEntry& entry,
                                                 const fleet::ModelSource& source, bool pinned) {
  return worker_.state().attach(number_, entry, source, pinned);
}
Status WorkerSlice::detach(ModelId model, Nanos timeout) {
  return worker_.state().detach(number_, model, timeout);
}
Bytes WorkerSlice::link_bytes() const { return worker_.state().observe(number_).link_bytes; }
Nanos WorkerSlice::link_busy() const { return worker_.state().link_busy(number_); }
bool WorkerSlice::returned() { return worker_.state().returned(number_); }
std::vector<RequestId> WorkerSlice::suspects() const { return worker_.state().suspects(number_); }
std::int64_t WorkerSlice::frames() const { return worker_.state().opened(number_).frames; }
slice::WeightRoom WorkerSlice::weight_room() const { return worker_.state().opened(number_).room; }

slice::SliceLimits WorkerSlice::limits() const { return worker_.state().opened(number_).limits; }

}  // namespace causeway::worker
