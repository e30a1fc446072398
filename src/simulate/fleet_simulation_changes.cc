// Slices of a simulated fleet that are lost and return, or are closed for others; and what else
// befalls it.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "simulate/fleet_simulation_state.h"

namespace causeway::simulate {
namespace {

constexpr Nanos kLook = seconds(1);     // how often demand is looked at
constexpr Nanos kTellLinks = seconds(1);
constexpr Nanos kAskAgain = millis(5);  // for slices to be changed

}  // namespace

void FleetSimulation::befall() {
  for (; befallen_ < options_.faults.size(); ++befallen_) {
    const FleetFault& fault = options_.faults[befallen_];
    if (fault.at > clock_.now()) return;
    std::visit([this](const auto& one) { on(one); }, fault.what);
  }
}

// At the first instant at which something happens after a second. A link without trouble gives what
// its profile says.
void FleetSimulation::tell_links() {
  const Nanos now = clock_.now();
  if (now < links_at_) return;
  links_at_ = now + kTellLinks;
  for (std::size_t machine = 0; machine < links_.size(); ++machine) {
    SharedLink& link = links_[machine];
    fleet::LinkSeen seen{fleet::LinkId(static_cast<std::int64_t>(machine)), {}, {}};
    for (; !link.carried.empty() && link.carried.front().end <= now; link.carried.pop_front()) {
      seen.moved += link.carried.front().bytes;
      seen.busy += link.carried.front().took;
    }
    tell(seen);
  }
}

void FleetSimulation::on(const RequestCancel& cancel) {
  if (cancel.request < static_cast<std::int64_t>(arrived_)) {
    tell(fleet::RequestCancelled{RequestId(cancel.request)});
  }
}

// The fleet's loop looks at its clock every few milliseconds.
void FleetSimulation::on(const ClockJump& jump) {
  skew_ += jump.by;
  tell(fleet::Woken{});
}

void FleetSimulation::on(const HostPause& pause) {
  paused_until_ = std::max(paused_until_, clock_.now() + pause.lasts);
  slices_.pause(paused_until_);
}

void FleetSimulation::on(const MachineResize& resize) {
  resizes_.push_back(resize);
  try_resizes_at_ = clock_.now();
}

void FleetSimulation::open(std::size_t index) {
  FleetPlace& place = places_[index];
  const bool shares = place.parts > 1 || !options_.faults.empty();
  SharedLink& link = links_[static_cast<std::size_t>(place.machine)];
  const auto incarnation = static_cast<std::uint64_t>(place.losses) * 4096 + index;
  slices_.open(index, slice_options(place.parts),
               {.link = shares ? &link : nullptr,
                .memory = parts_ ? &memory_ : nullptr,
                .memory_user = static_cast<int>(index),
                .seed = options_.slice.faults.any() ? mix64(incarnation) : 0});
  place.open = true;
}

void FleetSimulation::open_all() {
  const std::int64_t parts = options_.gpu_parts ? options_.gpu_parts->parts : options_.slices;
  for (SharedLink& link : links_) link.sharers = parts;
  for (std::int64_t i = 0; i < parts * options_.machines; ++i) {
    FleetPlace& place = places_[static_cast<std::size_t>(i)];
    place.machine = i / parts;
    place.parts = parts;
    open(static_cast<std::size_t>(i));
  }
}

// At the end of the instant, when no slice is in the middle of anything.
bool FleetSimulation::lose_slices() {
  const std::vector<SliceLoss> losses = std::exchange(losses_, {});
  for (const SliceLoss& loss : losses) lose(loss);
  return !losses.empty();
}

void FleetSimulation::lose(const SliceLoss& loss) {
  const auto index = static_cast<std::size_t>(loss.slice);
  if (index >= places_.size() || !places_[index].open || places_[index].lost) return;
  FleetPlace& place = places_[index];
  const Nanos now = clock_.now();
  slices_lost_ += 1;
  place.losses += 1;
  place.lost = true;
  place.told = false;
  place.heard_at = now + loss.heard;
  place.back_at = loss.back ? now + *loss.back : kNever;
  engine::EngineCore& core = slices_.ask(index).core();
  core.lose("simulated: the slice died");
  place.suspects = core.suspects();
  std::vector<request::Output> outputs = core.take_outputs();
  close(place, index);
  for (request::Output& output : outputs) {
    const RequestId request = output.request;
    if (!pass(output, now)) continue;
    if (loss.ends_late) {
      place.ended.push_back(request);
    } else {
      tell(fleet::RequestEnded{request});
    }
  }
}

void FleetSimulation::tell_lost(FleetPlace& place) {
  const auto index = static_cast<std::int64_t>(place.index());
  place.told = true;
  tell(fleet::SliceLost{fleet::SliceId(index), std::exchange(place.suspects, {})});
  tell_late_ends(place);
}

void FleetSimulation::tell_late_ends(FleetPlace& place) {
  for (const RequestId id : std::exchange(place.ended, {})) tell(fleet::RequestEnded{id});
}

void FleetSimulation::tell_losses() {
  if (slices_lost_ == 0) return;
  for (FleetPlace& place : places_) {
    if (place.lost && !place.told) tell_lost(place);
  }
}

// The fleet has told it to, and has none under its id any more.
bool FleetSimulation::closes(const FleetPlace& place) const {
  const fleet::SliceId id(static_cast<std::int64_t>(place.index()));
  return resizing_ && std::ranges::find(resizing_->closing, id) != resizing_->closing.end();
}

void FleetSimulation::look_after_slices() {
  if (slices_lost_ == 0) return;
  const Nanos now = clock_.now();
  for (FleetPlace& place : places_) {
    if (!place.lost || closes(place)) continue;
    const bool back = place.back_at <= now;
    if (!place.told && (back || place.heard_at <= now)) tell_lost(place);
    if (!back || closes(place)) continue;
    place.lost = false;
    open(place.index());
    tell(fleet::SliceReturned{fleet::SliceId(static_cast<std::int64_t>(place.index()))});
  }
}

Nanos FleetSimulation::next_of_slices() const {
  Nanos next = kNever;
  if (slices_lost_ == 0) return next;
  for (const FleetPlace& place : places_) {
    if (place.lost) next = std::min({next, place.back_at, place.told ? kNever : place.heard_at});
  }
  return next;
}

void FleetSimulation::change_slices() {
  if (resizing_ && resizing_->reopen_at && *resizing_->reopen_at <= clock_.now()) reopen();
  if (parts_) look_at_demand();
  if (resizing_ || resizes_.empty() || try_resizes_at_ > clock_.now()) return;
  if (begin_resize(resizes_.front())) {
    resizes_.pop_front();
  } else {
    try_resizes_at_ = clock_.now() + kAskAgain;
  }
}

void FleetSimulation::look_at_demand() {
  const Nanos now = clock_.now();
  if (look_at_ > now) return;
  look_at_ = now + kLook;
  if (resizing_) return;  // they change already
  const auto parts = parts_->decide(targets_, now);
  if (!parts) return;
  // If the fleet cannot, it is asked again.
  (void)begin_resize({.machine = 0,
                      .parts = *parts,
                      .drain_max = options_.gpu_parts->drain_max,
                      .reopen = options_.gpu_parts->reopen});
}

// False: not now.
bool FleetSimulation::begin_resize(const MachineResize& change) {
  fleet::ResizeWanted wanted{.slices = {}, .drain_max = change.drain_max};
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i].open || places_[i].machine != change.machine) continue;
    wanted.slices.emplace_back(static_cast<std::int64_t>(i));
  }
  CAUSEWAY_CHECK(!wanted.slices.empty(), "a machine without slices");
  resizing_ = Resizing{change, {}, {}};
  tell(wanted);
  if (core_.resizing()) return true;
  resizing_.reset();
  return false;
}

// They are closed at the end of the instant: this comes in the middle of a loop over their outputs.
void FleetSimulation::apply(const fleet::Resize& resize) {
  resizing_->closing = resize.closing;
  for (const fleet::SliceId id : resize.closing) routed_.withdraw(place(id));
}

bool FleetSimulation::close_slices() {
  if (!resizing_ || resizing_->closing.empty()) return false;
  for (const fleet::SliceId id : std::exchange(resizing_->closing, {})) {
    FleetPlace& closing = place(id);
    if (!closing.lost) close(closing, static_cast<std::size_t>(id.value));
    closing.open = closing.lost = false;
    tell_late_ends(closing);
  }
  resizing_->reopen_at = clock_.now() + resizing_->change.reopen;
  return true;
}

void FleetSimulation::close(FleetPlace& place, std::size_t index) {
  const SimulatedSlice& slice = *slices_.at(index);
  add_to(slice, past_);
  if (slice.mover() != nullptr) {
    submitted_past_[static_cast<std::size_t>(place.machine)] += slice.mover()->copied().submitted;
    const std::string& wrong = slice.mover()->violation();
    if (clients_ != nullptr && broken_.ok() && !wrong.empty()) broken_ = corrupt(wrong);
  }
  slices_.close(index);
  place.attached.clear();
  memory_.use(static_cast<int>(index), 0);
}

// Under ids that are free.
void FleetSimulation::reopen() {
  const MachineResize change = resizing_->change;
  resizing_.reset();
  if (parts_) parts_->changed(static_cast<int>(change.parts), clock_.now());
  links_[static_cast<std::size_t>(change.machine)].sharers = change.parts;
  fleet::SlicesChanged changed;
  for (std::size_t i = 0; std::ssize(changed.opened) < change.parts; ++i) {
    FleetPlace& place = places_.at(i);
    if (place.open) continue;
    place.machine = change.machine;
    place.parts = change.parts;
    open(i);
    changed.opened.push_back(
        {fleet::SliceId(static_cast<std::int64_t>(i)),
         slice_spec(slice_options(change.parts), options_.models_max, change.machine)});
  }
  tell(changed);
}

// What crossed a link was asked of it by its slices, and it had the time for it.
Status FleetSimulation::check_links() const {
  for (std::size_t machine = 0; machine < links_.size(); ++machine) {
    const SharedLink& link = links_[machine];
    Bytes submitted = submitted_past_[machine];
    bool shares = false;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const SimulatedSlice* slice = slices_.at(i);
      if (slice == nullptr || places_[i].machine != static_cast<std::int64_t>(machine)) continue;
      if (slice->mover() != nullptr) submitted += slice->mover()->copied().submitted;
      shares = shares || places_[i].parts > 1 || !options_.faults.empty();
    }
    if (!shares) continue;
    if (submitted != link.submitted) return corrupt("bytes of a link are of no slice");
    const double takes =
        static_cast<double>(link.submitted.count) / options_.slice.profile.link_bytes_per_second;
    const Nanos had = link.rates.whole_time(Nanos(0), std::max(link.free, clock_.now()));
    if (takes > to_seconds(had) + 1e-6) return corrupt("a link carried more than it can");
  }
  return {};
}

Status FleetSimulation::check_attached() const {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const SimulatedSlice* slice = slices_.at(i);
    const FleetPlace& place = places_[i];
    if ((slice != nullptr) != (place.open && !place.lost))
      return corrupt("a slice without a place");
    const std::size_t there = slice == nullptr ? 0 : slice->core().observe_models().size();
    if (there != place.attached.size()) return corrupt("a slice has other models than attached");
    // One that has not let go in time may stay attached when its home is gone.
    const bool all_home = std::all_of(place.attached.begin(), place.attached.end(),
                                      [&](const auto& one) { return home_.contains(one.first); });
    if (!all_home && options_.unload_timeout == Nanos(0)) {
      return corrupt("a model is attached that is not in host memory");
    }
  }
  for (std::int64_t i = 0; i < core_.models(); ++i) {
    const fleet::ModelSeen seen = core_.model(ModelId(i));
    if (seen.phase < fleet::ModelPhase::kReady || seen.phase > fleet::ModelPhase::kDraining)
      continue;
    const FleetPlace& at = places_[static_cast<std::size_t>(seen.slice.value)];
    if (at.open && !at.lost && !at.attached.contains(ModelId(i))) {
      return corrupt("the fleet has model " + std::to_string(i) + " serve where it is not");
    }
    if (!home_.contains(ModelId(i))) return corrupt("a model serves that is not in host memory");
  }
  return {};
}

Status FleetSimulation::check_integrity(Asked asked) const {
  CAUSEWAY_TRY(broken_);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const SimulatedSlice* slice = slices_.at(i);
    if (slice == nullptr || (asked != Asked::kAll && !slices_.looked_at(i))) continue;
    Status intact = slice->check_integrity();
    if (!intact.ok()) return intact.error().with_context("slice " + std::to_string(i));
  }
  CAUSEWAY_TRY(check_links());
  CAUSEWAY_TRY(check_attached());
  if (host_used() > host_budget()) return corrupt("host memory holds more than there is");
  return {};
}

Status FleetSimulation::check_let_go() {
  if (!all_left_) return corrupt("models have not left that were told to");
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (slices_.at(i) == nullptr) continue;
    Status empty = slices_.at(i)->check_empty();
    if (!empty.ok()) return empty.error().with_context("slice " + std::to_string(i));
  }
  if (core_.waiting() != 0) return corrupt("requests are held that have ended");
  if (!home_.empty() || core_.host_used() != Bytes(0)) return corrupt("host memory is held");
  for (std::int64_t i = 0; i < core_.models(); ++i) {
    const fleet::ModelSeen seen = core_.model(ModelId(i));
    if (seen.phase != fleet::ModelPhase::kCold || seen.attached) return corrupt("a model is left");
  }
  for (const RequestId id : given_) {
    if (routed_.forget(id)) return corrupt("a request is kept that has ended");
  }
  return {};
}

}  // namespace causeway::simulate
