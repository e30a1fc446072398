// A LocalFleet whose slices are closed, and others opened, while it serves.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/dcheck.h"
#include "base/log.h"
#include "fleet/local_fleet_state.h"

namespace causeway::fleet {
namespace {

constexpr Nanos kLook = seconds(1);  // how often demand is looked at

// What has been counted since the start, without what is there now.
request::Observation counted(request::Observation seen) {
  seen.requests_running = seen.requests_waiting = seen.requests_rotary = 0;
  seen.frames_total = seen.frames_used = seen.frames_stranded = 0;
  seen.twins_total = seen.twins_used = 0;
  seen.weights_cached = Bytes(0);
  seen.hung = false;
  seen.lost.clear();
  return seen;
}

}  // namespace

FleetSlice& LocalFleet::State::slice(SliceId id) const {
  FleetSlice* const slice = slices_[static_cast<std::size_t>(id.value)];
  CAUSEWAY_CHECK(slice != nullptr, "a slice that is open");
  return *slice;
}

Status LocalFleet::State::resize(LayoutChange change) {
  Outputs outputs;
  std::unique_lock lock(mutex_);
  const Status begun = begin_resize(std::move(change), outputs);
  lock.unlock();
  deliver(std::move(outputs));
  return begun;
}

bool LocalFleet::State::wait_until_resized(Nanos timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count),
                           [this] { return stopped_ || !change_; });
}

Status LocalFleet::State::begin_resize(LayoutChange change, Outputs& outputs) {
  if (opener_ == nullptr) return unsupported("the slices of this fleet stay as they are");
  if (stopped_) return unavailable("the server is shutting down");
  if (change_) return unavailable("slices are being changed already; try again later");
  ResizeWanted wanted{.slices = {}, .drain_max = options_.drain_max};
  for (const FleetSlice* closing : change.closing) {
    const auto at = std::find(slices_.begin(), slices_.end(), closing);
    if (closing == nullptr || at == slices_.end()) {
      return invalid_argument("a slice is to be closed that the fleet does not have");
    }
    wanted.slices.emplace_back(at - slices_.begin());
  }
  if (wanted.slices.empty() || change.opening.empty()) {
    return invalid_argument("slices are closed for others, and there are none");
  }
  change_ = std::move(change);
  outputs = tell(wanted);
  if (!core_.resizing()) {
    change_.reset();
    return unavailable("models are being loaded or let go of; try again later");
  }
  spdlog::info("{} of {} slices drain, to be divided into {}: {}", wanted.slices.size(),
               slices_.size() -
                   static_cast<std::size_t>(std::count(slices_.begin(), slices_.end(), nullptr)),
               change_->opening.size(), change_->why);
  return {};
}

LocalFleet::State::Outputs LocalFleet::State::look_at_demand() {
  const Nanos now = clock_.now();
  if (now < demand_at_ || change_) return {};
  demand_at_ = now + kLook;
  CAUSEWAY_DCHECK(demand_.size() == slots_.size(), "the demand of each model is metered");
  for (const auto& [model, tokens] : routed_.take_answers()) {
    demand_[index(model)].ended(tokens, now);
  }
  std::vector<ModelDemand> demands;
  for (const DemandMeter& meter : demand_) demands.push_back(meter.at(now));
  auto change = opener_->decide(demands, now);
  Outputs outputs;
  if (!change) return outputs;
  const Status begun = begin_resize(std::move(*change), outputs);
  if (!begun.ok() && begun.error().code != ErrorCode::kUnavailable) {
    spdlog::error("slices cannot be changed: {}", begun.error().message);
  }
  return outputs;
}

// Called by the loader. A slice that is closed is no longer seen by any thread before it goes.
Event LocalFleet::State::reopen(const Resize& resize) {
  LayoutChange change;
  {
    const std::scoped_lock lock(mutex_);
    CAUSEWAY_CHECK(change_, "slices are closed for no reason");
    change = *change_;
    for (const SliceId id : resize.closing) {
      const FleetSlice& closing = slice(id);
      request::Observation seen = counted(closing.observe());
      seen.link_bytes = closing.link_bytes();
      past_ += seen;
      for (const auto& [model, of_model] : closing.observe_models()) {
        past_of_[index(model)] += counted(of_model);
      }
      for (Slot& slot : slots_) slot.attached.erase(id);
      const auto at = static_cast<std::size_t>(id.value);
      slices_[at] = nullptr;
      lost_[at] = false;
    }
  }
  const Nanos began = clock_.now();
  try {
    opened_ = opener_->reopen(change);
  } catch (const std::exception& error) {
    opened_ = {.slices = {}, .specs = {}, .failure = std::string("an exception: ") + error.what()};
  }
  CAUSEWAY_CHECK(opened_.slices.size() == opened_.specs.size(), "what each slice has is known");
  if (!opened_.failure.empty()) {
    spdlog::error("slices cannot be changed: {}", opened_.failure);
  } else {
    spdlog::info("{} slices serve in place of {}, opened in {:.0f} ms", opened_.slices.size(),
                 resize.closing.size(), to_millis(clock_.now() - began));
  }
  return SlicesChanged{};
}

// Under ids that are free.
void LocalFleet::State::adopt(SlicesChanged& changed) {
  for (std::size_t i = 0; i < opened_.slices.size(); ++i) {
    const auto free = std::find(slices_.begin(), slices_.end(), nullptr);
    const SliceId id(free - slices_.begin());
    if (free == slices_.end()) {
      slices_.push_back(nullptr);
      lost_.push_back(false);
    }
    slices_[static_cast<std::size_t>(id.value)] = opened_.slices[i];
    changed.opened.push_back({id, opened_.specs[i]});
  }
  CAUSEWAY_DCHECK(lost_.size() == slices_.size(), "of each slice it is known whether it is lost");
  const bool none = std::all_of(slices_.begin(), slices_.end(),
                                [](const FleetSlice* slice) { return slice == nullptr; });
  none_open_ = none ? "no slice could be opened again: " + opened_.failure : "";
  opened_ = {};
  change_.reset();
}

}  // namespace causeway::fleet
