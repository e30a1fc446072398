#include "simulate/simulated_slice.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/shape_text.h"

namespace causeway::simulate {
namespace {

constexpr int kStepsInFlight = 2;  // as on a GPU

engine::CoreOptions core_options(const SimulationOptions& options) {
  return {.frames = options.kv_memory / options.frame,
          .prefix_caching = options.prefix_caching,
          .twins = options.kv_host_memory / options.frame,
          .frame = options.frame,
          .rotation = options.rotation,
          .schedule = options.schedule,
          .step_timeout = options.step_timeout,
          .step_start = options.step_start};
}

SimulatedExecutorOptions executor_options(const SimulationOptions& options,
                                          const SimulatedSlice::Shared& shared) {
  SimulatedExecutorOptions executor{.profile = options.profile,
                                    .faults = options.faults,
                                    .seed = options.seed ^ shared.seed,
                                    .steps_in_flight_max = kStepsInFlight};
  executor.reads_at_home = options.reads_at_home;
  executor.alpha = options.alpha;
  if (options.shadow_kv) {
    executor.shadow_frames = options.kv_memory / options.frame;
    for (const ModelShape& shape : options.models) {
      executor.tokens_per_block_max =
          std::max(executor.tokens_per_block_max, shape.tokens_per_block.count);
    }
  }
  executor.memory = shared.memory;
  executor.memory_user = shared.memory_user;
  if (options.kv_host_memory > Bytes(0)) {
    executor.copies = {.frame = options.frame,
                       .bytes_in_per_second = options.profile.kv_in_bytes_per_second,
                       .bytes_out_per_second = options.profile.kv_out_bytes_per_second,
                       .error_rate = options.faults.copy_error_rate,
                       .seed = options.seed ^ shared.seed};
  }
  return executor;
}

weights::ResidencyOptions residency_options(const SimulationOptions& options) {
  weights::ResidencyOptions residency = options.residency;
  residency.extents = (options.profile.memory - options.kv_memory) / residency.extent;
  return residency;
}

std::unique_ptr<SimulatedMover> make_mover(const SimulationOptions& options, const Clock& clock,
                                           const SimulatedSlice::Shared& shared) {
  SharedLink* const link = shared.link;
  if (options.profile.link_bytes_per_second <= 0) return nullptr;
  const weights::ResidencyOptions residency = residency_options(options);
  const double rate = options.profile.link_bytes_per_second;
  const double sharers = link != nullptr ? static_cast<double>(link->sharers) : 1;
  const SimulatedMoverOptions mover{.bytes_per_second = rate,
                                    .granted = rate / sharers,
                                    .error_rate = options.faults.copy_error_rate,
                                    .copies_out = options.copies_out,
                                    .extent = residency.extent,
                                    .extents_max = residency.extents,
                                    .seed = options.seed ^ shared.seed};
  return std::make_unique<SimulatedMover>(mover, clock, link);
}

}  // namespace

SimulatedSlice::SimulatedSlice(const SimulationOptions& options, const Clock& clock,
                               const Shared& shared)
    : options_(options),
      clock_(clock),
      depends_on_itself_((options.fast_forward || options.own_clock) && !options.faults.any() &&
                         shared.link == nullptr && shared.memory == nullptr),
      mover_(make_mover(options, clock, shared)),
      cache_(mover_ ? std::make_unique<weights::WeightCache>(residency_options(options), *mover_)
                    : nullptr),
      executor_(executor_options(options, shared), clock, mover_.get()),
      core_(core_options(options), executor_, cache_.get()) {}

Result<std::optional<weights::CachedModel>> SimulatedSlice::placed(const ModelShape& shape) const {
  const weights::ResidencyOptions residency = residency_options(options_);
  const Bytes extent = residency.extent, all = extent * residency.extents;
  const Bytes most = shape.max_resident > Bytes(0) ? std::min(shape.max_resident, all) : all;
  if (round_up(shape.layout.bytes, extent) <= round_up(most, extent)) {
    if (!options_.whole_models) return std::optional<weights::CachedModel>();
    return std::optional(weights::as_a_whole(shape.cached));
  }
  if (options_.alpha) return std::optional(kept(shape, most));
  auto streamed = weights::streamed_model(
      shape.layout, shape.reading, {.extent = extent, .budget = most, .ring = options_.ring});
  if (!streamed.ok()) return streamed.error().with_context(shape.name);
  return std::optional(std::move(*streamed));
}

weights::CachedModel SimulatedSlice::kept(const ModelShape& shape, Bytes most) const {
  weights::CachedModel kept;
  const Bytes extent = options_.residency.extent;
  std::int64_t left = most / extent;
  for (std::size_t i = 0; i < shape.cached.groups.size(); ++i) {
    const weights::ResidentGroup& group = shape.cached.groups[i];
    left -= weights::extents_of(group, extent).count;
    if (left < 0 || group.readable_at_home) break;
    kept.groups.push_back(group);
    kept.layout_groups.push_back(shape.cached.layout_groups[i]);
  }
  return kept;
}

namespace {

Bytes required_bytes(const weights::CachedModel& cached) {
  Bytes bytes;
  for (const weights::ResidentGroup& group : cached.groups) {
    if (!group.readable_at_home && !group.memory_only) bytes += group.bytes;
  }
  return bytes;
}

}  // namespace

Result<Bytes> SimulatedSlice::add_model(ModelId id, const ModelShape& shape) {
  engine::ModelFacts facts{.tokens_per_block = shape.tokens_per_block,
                           .max_model_len = shape.max_model_len,
                           .vocab = shape.vocab,
                           .alpha = shape.rotary_alpha,
                           .step_min = step_min(shape, options_.profile),
                           .seconds_per_token = seconds_per_token(shape, options_.profile)};
  // A profile's machine counts as the one that is simulated, as a whole.
  const schedule::ChunkProfile& measured = options_.schedule.chunk.profile;
  if (!measured.empty()) {
    const auto* const table = measured.find_largest(model::shape_text(shape.config, DType::kBF16));
    if (table != nullptr) facts.step_table = *table;
  }
  if (!cache_) {
    executor_.borrow_model(id, shape, WeightSource::kMemory);
    CAUSEWAY_TRY(core_.add_model(id, facts));
    return Bytes(0);
  }
  CAUSEWAY_ASSIGN(std::optional<weights::CachedModel> otherwise, placed(shape));
  facts.weights = otherwise ? *otherwise : shape.cached;
  Bytes streamed = facts.weights.streamed_bytes();
  mover_->add_model(id, facts.weights);
  if (otherwise) {
    ModelShape own = shape;
    own.cached = std::move(*otherwise);
    if (options_.alpha) {
      const Bytes all = required_bytes(shape.cached);
      streamed = std::max(Bytes(0), all - required_bytes(own.cached));
      own.home_share = static_cast<double>(streamed.count) /
                       static_cast<double>(std::max<std::int64_t>(1, all.count));
    }
    executor_.add_model(id, std::move(own), WeightSource::kCache);
  } else {
    executor_.borrow_model(id, shape, WeightSource::kCache);
  }
  const Status added = core_.add_model(id, facts);
  if (!added.ok()) {
    executor_.remove_model(id);
    mover_->remove_model(id);
    return added.error();
  }
  return streamed;
}

Status SimulatedSlice::remove_model(ModelId id) {
  CAUSEWAY_TRY(core_.remove_model(id));
  executor_.remove_model(id);
  if (mover_) mover_->remove_model(id);
  return {};
}

void SimulatedSlice::look_ahead() {
  CAUSEWAY_CHECK(ahead_.empty() && !copies_looked_at_ && !alone_, "it has not caught up");
  if (!options_.fast_forward) return;
  look_ahead_at_steps();
  if (ahead_.empty()) look_ahead_at_copies();
}

void SimulatedSlice::look_ahead_at_copies() {
  const Nanos now = clock_.now();
  if (!mover_ || !mover_->copies_at(now) || executor_.busy_until() > now) return;
  // Steps that read at home make copies later.
  if (options_.faults.copy_error_rate > 0 || options_.reads_at_home) return;
  mover_->ends_of_copies(copies_ahead_);
  copies_looked_at_ = core_.calm_arrivals_until(now, copies_ahead_);
  if (copies_looked_at_) wait_alone();
}

void SimulatedSlice::look_ahead_at_steps() {
  constexpr std::int64_t kMost = 4096;
  const std::int64_t calm = core_.calm_steps(), steps = std::min(kMost, calm);
  if (steps < 1) return look_ahead_at_rounds();
  executor_.repeated_ends(steps + 1, ahead_);
  if (ahead_.empty()) return;
  after_ahead_ = ahead_.back();
  // Behind the calm steps of the only request nothing begins: its last two are in flight.
  last_ahead_ = core_.requests() == 1 && calm <= kMost;
  if (!last_ahead_) ahead_.pop_back();
  if (const auto until = core_.calm_until()) {
    const auto first = std::lower_bound(ahead_.begin(), ahead_.end(), *until);
    if (std::distance(first, ahead_.end()) > 1) {
      after_ahead_ = *(first + 1);
      ahead_.erase(first + 1, ahead_.end());
      last_ahead_ = false;
    }
  }
  if (ahead_.size() < 2) return ahead_.clear();
  // The steps become longer and longer. Within them it is not looked whether one hangs.
  const Nanos longest =
      std::max(ahead_[0] - executor_.awaited_since(), ahead_.back() - ahead_.end()[-2]);
  if (longest >= core_.step_timeout()) ahead_.clear();
}

// Whole rounds: behind them the next step to end is the first of a round.
void SimulatedSlice::look_ahead_at_rounds() {
  constexpr std::int64_t kMost = 2048;
  const std::int64_t rounds = std::min(kMost, core_.calm_rounds());
  if (rounds < 1) return;
  executor_.round_ends(rounds, ahead_);
  const auto until = core_.calm_until();
  const auto calm_end =
      until ? std::lower_bound(ahead_.begin(), ahead_.end(), *until) : ahead_.end();
  const std::int64_t whole = std::min(rounds, std::distance(ahead_.begin(), calm_end) / 2);
  if (whole < 1) return ahead_.clear();
  const auto passed = ahead_.begin() + 2 * whole;
  after_ahead_ = passed[1];
  ahead_.erase(passed + 1, ahead_.end());
  last_ahead_ = false;
  Nanos longest = ahead_[0] - executor_.awaited_since();
  for (std::size_t i = 1; i < ahead_.size(); ++i) {
    longest = std::max(longest, ahead_[i] - ahead_[i - 1]);
  }
  if (longest >= core_.step_timeout()) return ahead_.clear();
  alternates_ = true;
}

void SimulatedSlice::run_calm_steps(std::span<const Nanos> ends, Nanos next_end) {
  const auto run = [this](std::span<const Nanos> some, Nanos began) {
    core_.run_calm_steps(std::ssize(some), some.back(), some.back() - began,
                         [this](const request::Request& request, std::int64_t place) {
                           return executor_.token_at(request, place);
                         });
  };
  // The time of a first token counts, too.
  const std::size_t first = executor_.begins_answers() ? 1 : ends.size();
  core_.calm_requests(passed_requests_);
  run(ends.first(first), executor_.began());
  if (first < ends.size()) run(ends.subspan(first), ends.front());
  executor_.repeat(ends, next_end);
}

SimulatedSlice::Passed SimulatedSlice::run_calm_rounds(std::span<const Nanos> ends,
                                                       Nanos next_end) {
  core_.round_requests(passed_requests_, passed_second_);
  core_.run_calm_rounds(ends, ends.back() - executor_.began(),
                        [this](const request::Request& request, std::int64_t place) {
                          return executor_.token_at(request, place);
                        });
  executor_.repeat_rounds(ends, next_end);
  for (std::vector<Nanos>& some : round_ends_) some.clear();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const bool changed = i / 2 % 2 != 0;  // the second model's step ends first
    round_ends_[(i % 2 != 0) == changed ? 0 : 1].push_back(ends[i]);
  }
  return {.ends = ends,
          .tokens = {{{passed_requests_, round_ends_[0]}, {passed_second_, round_ends_[1]}}}};
}

// The step that runs has ended then, and nothing begins in its place. Its token is told with those
// of the steps before.
void SimulatedSlice::hear_of_step(Nanos at) {
  auto result = executor_.wait(Nanos(0));
  CAUSEWAY_CHECK(result.has_value(), "a step has not ended when it should have");
  core_.finish_step(*result, at);
  executor_.take_back(std::move(*result));
  core_.take_outputs(outputs_);
  CAUSEWAY_CHECK(outputs_.size() == 1, "other than one request got a token");
}

SimulatedSlice::Passed SimulatedSlice::catch_up() {
  Passed passed;
  CAUSEWAY_CHECK(!alone_, "a request that is alone is passed over as a whole");
  if (copies_looked_at_) {
    for (const Nanos end : copies_ahead_) {
      if (end >= clock_.now()) break;
      mover_->hear_until(end);
      cache_->take_events(end);
    }
    mover_->hear_until(kNever);
    copies_looked_at_.reset();
  }
  if (ahead_.empty()) return passed;
  const auto last = std::lower_bound(ahead_.begin(), ahead_.end() - 1, clock_.now());
  std::int64_t steps = last - ahead_.begin();
  const bool rounds = std::exchange(alternates_, false);
  if (rounds) steps -= steps % 2;
  executor_.begin_launched();
  std::swap(ahead_, passed_ends_);
  ahead_.clear();
  if (steps == 0) return passed;
  passed.ends = std::span(passed_ends_).first(static_cast<std::size_t>(steps));
  if (rounds) return run_calm_rounds(passed.ends, passed_ends_[passed.ends.size()]);
  const bool hears = last_ahead_ && steps + 1 == std::ssize(passed_ends_);
  const std::size_t calm = passed.ends.size() - (hears ? 1 : 0);
  run_calm_steps(passed.ends.first(calm), passed_ends_[calm]);
  if (hears) hear_of_step(passed.ends.back());
  passed.tokens[0] = {passed_requests_, passed.ends};
  return passed;
}

Nanos SimulatedSlice::ends_from(Nanos next) const {
  if (!depends_on_itself_ || next == kNever || alone_) return next;
  const std::int64_t steps = ahead_.empty() ? 0 : std::ssize(ahead_) - 1;
  const std::int64_t passed = alternates_ ? steps / 2 : steps;  // of each request
  // While its thread launches two steps may end of which it hears at once.
  const Nanos second = ahead_.empty() ? next : after_ahead_;
  return core_.ends_from({.next = next, .second = second, .passed = passed},
                         [this](ModelId model) { return executor_.step_least(model); });
}

Nanos SimulatedSlice::ends_if_asked(Nanos now) const {
  if (alone_) return alone_ends_if_asked(now);
  // What is asked may have steps begin sooner than they would have, but for those in flight.
  const Nanos next = ahead_.empty() ? clock_.now() : ahead_[0];
  const Nanos second = ahead_.empty() ? next : ahead_[1];
  return core_.ends_from({.next = next, .second = second},
                         [this](ModelId model) { return executor_.step_least(model); });
}

bool SimulatedSlice::ends_next(Nanos next, std::vector<RequestId>& requests) const {
  requests.clear();
  if (!depends_on_itself_) return false;
  if (alone_) {
    requests.push_back(alone_->request.request);
    return true;
  }
  if (!ahead_.empty()) {
    // Calm steps end before one of their requests does, unless it is the only one.
    if (last_ahead_) core_.calm_requests(requests);
    return true;
  }
  const std::optional<Nanos> step = executor_.next_event();
  if (!step || *step > next) {
    const std::optional<Nanos> wakeup = core_.next_wakeup();
    return !wakeup || *wakeup > next;
  }
  // When a step is launched, or two have ended meanwhile, it shows only then which one is heard of.
  const std::optional<Nanos> ends = executor_.item_ends_at();
  return ends == step && core_.ends_with_step(requests);
}

Nanos SimulatedSlice::ends_behind(Nanos next, std::span<const RequestId> ending) const {
  if (alone_) return kNever;
  if (!ahead_.empty()) return last_ahead_ ? kNever : after_ahead_;
  return core_.ends_from(
      {.next = next, .second = next}, [this](ModelId model) { return executor_.step_least(model); },
      ending);
}

std::optional<Nanos> SimulatedSlice::next_event() const {
  if (alone_) return alone_steps_.told.back();
  if (!ahead_.empty()) return ahead_.back();
  std::optional<Nanos> next = executor_.next_event();
  const auto copies = copies_looked_at_ ? copies_looked_at_
                      : mover_          ? mover_->next_end()
                                        : std::optional<Nanos>();
  // Until a step is in flight the core asks for nothing but a look at these copies.
  const bool awaits_copies = copies_looked_at_ && !core_.step_in_flight();
  for (const auto& other : {awaits_copies ? std::nullopt : core_.next_wakeup(), copies}) {
    if (other) next = std::min(next.value_or(*other), *other);
  }
  const Nanos busy = executor_.busy_until();
  if (busy <= clock_.now()) return next;
  // When it has launched what it does, the engine's thread looks: where there is nothing to do, it
  // need not.
  const bool rests = options_.fast_forward && depends_on_itself_ && next && *next > busy &&
                     core_.rests_until(busy) && !(mover_ && mover_->copies_at(clock_.now()));
  return rests ? next : busy;
}

void SimulatedSlice::happen() {
  if (alone_) return end_alone();
  const Nanos now = clock_.now();
  if (executor_.busy_until() > now) return;
  if (const auto step = executor_.next_event(); step && *step <= now) {
    // Or copies of KV have ended, about which start_step() asks.
    auto result = core_.step_in_flight() ? executor_.wait(Nanos(0)) : std::nullopt;
    if (!result) return;
    core_.finish_step(*result, now);
    executor_.take_back(std::move(*result));
  } else if (const auto wakeup = core_.next_wakeup(); wakeup && *wakeup <= now) {
    core_.check_timeout(now);
  }
}

void SimulatedSlice::start() {
  if (executor_.busy_until() <= clock_.now()) core_.start_step(clock_.now());
}

Status SimulatedSlice::check_integrity() const {
  CAUSEWAY_TRY(core_.check_integrity());
  if (!executor_.violation().empty()) return corrupt(executor_.violation());
  if (!cache_) return {};
  if (!mover_->violation().empty()) return corrupt(mover_->violation());
  if (mover_->committed_extents() != cache_->residency().committed_extents()) {
    return corrupt("residency and mover count different extents");
  }
  const SimulatedMover::Copied& copied = mover_->copied();
  if (copied.submitted != copied.arrived + copied.failed + mover_->under_way()) {
    return corrupt(
        "bytes of weights were submitted that neither arrived, failed nor are on "
        "their way");
  }
  if (cache_->residency().counters().brought + mover_->streamed_bytes() != copied.arrived) {
    return corrupt("other bytes of weights are counted than have arrived");
  }
  return {};
}

Status SimulatedSlice::check_empty() const {
  const kv::FrameCounts frames = core_.kv().counts();
  if (core_.requests() != 0 || core_.step_in_flight()) return corrupt("requests are left");
  if (!core_.observe_models().empty()) return corrupt("models are left");
  if (frames.in_use() != 0 || frames.cached != 0) {
    return corrupt("KV frames are left in use: " + std::to_string(frames.referenced) +
                   " referenced, " + std::to_string(frames.quarantined) + " quarantined (" +
                   std::to_string(frames.stranded) + " stranded), " +
                   std::to_string(frames.cached) + " cached");
  }
  if (core_.observe().twins_used != 0) return corrupt("twins of KV frames are left in use");
  if (mover_ && mover_->committed_extents() != 0) return corrupt("memory of weights is left");
  if (mover_ && mover_->under_way() != Bytes(0)) return corrupt("copies are left under way");
  return {};
}

void SimulatedSlice::add_to(SimulationReport& report) const {
  CAUSEWAY_CHECK(executor_.violation().empty(), "the engine breaks the rules of its device");
  report.engine = core_.observe();
  report.device = executor_.counters();
  if (const SimulatedCopies* copies = executor_.copies()) {
    report.kv_in_bytes = copies->moved(kv::KvCopy::Direction::kIn);
    report.kv_out_bytes = copies->moved(kv::KvCopy::Direction::kOut);
  }
  if (cache_) report.weights = cache_->residency().counters();
  if (mover_) report.streamed_bytes = mover_->streamed_bytes();
  if (mover_) report.weights_out_bytes = mover_->bytes_out();
  report.link_bytes =
      report.weights.brought + report.streamed_bytes + executor_.counters().home_read;
}

}  // namespace causeway::simulate
