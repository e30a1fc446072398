#include "simulate/simulated_executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace causeway::simulate {
namespace {

constexpr std::size_t kSpareSteps = 4;      // steps whose memory is kept
constexpr std::size_t kRangesEnqueued = 2;  // that have not ended, as on a GPU

// The more tokens the longer a step takes; those with prompts have another overhead.
Nanos step_least_of(const ModelShape& shape, const HardwareProfile& profile) {
  StepTokens one{.tokens = 1};
  const Nanos decodes = step_duration(work_of(one, shape), profile);
  one.prompts = true;
  return std::min(decodes, step_duration(work_of(one, shape), profile));
}

// Only an entry of one token may have a pending one.
bool has_pending(const request::Batch& batch, const request::BatchEntry& entry) {
  return entry.token_count == 1 &&
         request::is_pending(batch.tokens[static_cast<std::size_t>(entry.token_begin)]);
}

std::int64_t tokens_pending(const request::Batch& batch) {
  return std::count_if(batch.entries.begin(), batch.entries.end(),
                       [&](const request::BatchEntry& entry) { return has_pending(batch, entry); });
}

// Sooner known than found by a look at all tokens of a prompt.
bool awaits_tokens(const request::Batch& batch) {
  return std::any_of(batch.entries.begin(), batch.entries.end(),
                     [&](const request::BatchEntry& entry) {
                       return has_pending(batch, entry) || !entry.history.empty();
                     });
}

}  // namespace

SimulatedExecutor::SimulatedExecutor(const SimulatedExecutorOptions& options, const Clock& clock,
                                     SimulatedMover* mover)
    : options_(options),
      clock_(clock),
      mover_(mover),
      capabilities_{.steps_in_flight_max = options.steps_in_flight_max,
                    .streams = mover != nullptr,
                    .rotates = options.copies.has_value()},
      random_(options.seed),
      launches_(options.profile),
      frames_(options.frames_move ? mover : nullptr) {
  if (options_.shadow_frames > 0) {
    shadow_.emplace(options_.shadow_frames, options_.tokens_per_block_max);
  }
  if (options_.copies) copies_.emplace(*options_.copies, shadow_ ? &*shadow_ : nullptr);
  CAUSEWAY_CHECK(!options_.alpha || mover_ != nullptr, "an alpha is of weights over a link");
  if (options_.alpha) alpha_.emplace(*options_.alpha);
}

void SimulatedExecutor::add_model(ModelId model, ModelShape shape, WeightSource source) {
  auto own = std::make_unique<const ModelShape>(std::move(shape));
  borrow_model(model, *own, source);
  models_.at(model).own = std::move(own);
}

void SimulatedExecutor::borrow_model(ModelId model, const ModelShape& shape, WeightSource source) {
  CAUSEWAY_CHECK(source != WeightSource::kCache || mover_ != nullptr, "a cache without a mover");
  const Remainder of_vocab(static_cast<std::uint64_t>(std::max<std::int64_t>(1, shape.vocab)));
  Model added{.shape = &shape,
              .own = nullptr,
              .source = source,
              .step_least = step_least_of(shape, options_.profile),
              .of_vocab = of_vocab};
  CAUSEWAY_CHECK(models_.emplace(model, std::move(added)).second,
                 "the executor knows this model already");
}

void SimulatedExecutor::remove_model(ModelId model) {
  CAUSEWAY_CHECK(models_.erase(model) == 1, "the executor does not know this model");
  launches_.forget(model);
}

void SimulatedExecutor::blame(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void SimulatedExecutor::sample(Step& step) {
  std::size_t row = 0;
  step.result.sampled.reserve(step.batch.entries.size());
  for (const request::BatchEntry& entry : step.batch.entries) {
    for (std::size_t i = 0; i < entry.scored.size(); ++i) {
      request::SampledToken scored{.request = entry.request, .token = {}};
      scored.token.token = entry.scored[i];
      if (shadow_) {
        const TokenId choice = step.shadow.sampled.at(row++);
        scored.token.top = {{choice, 0.0f}};
        if (entry.hidden) scored.hidden = {static_cast<float>(choice)};
      }
      step.result.sampled.push_back(std::move(scored));
    }
    if (!entry.samples) continue;
    TokenId token = 0;
    if (shadow_) {
      token = step.shadow.sampled.at(row++);
    } else {
      token = token_at(entry.request, entry.context + entry.token_count, step.model->of_vocab);
    }
    request::SampledToken sampled{.request = entry.request, .token = {}};
    sampled.token.token = token;
    if (entry.hidden) sampled.hidden = {static_cast<float>(token)};
    step.result.sampled.push_back(std::move(sampled));
  }
}

request::Batch SimulatedExecutor::spare_batch() {
  if (spare_batches_.empty()) return {};
  request::Batch batch = std::move(spare_batches_.back());
  spare_batches_.pop_back();
  return batch;
}

void SimulatedExecutor::keep_spare(std::unique_ptr<Step> step) {
  if (spare_batches_.size() == kSpareSteps || spare_.size() == kSpareSteps) return;
  request::Batch& batch = step->batch;
  batch.tokens.clear();
  batch.entries.clear();
  batch.frames.clear();
  spare_batches_.push_back({.step = {},
                            .model = {},
                            .tokens = std::move(batch.tokens),
                            .entries = std::move(batch.entries),
                            .frames = std::move(batch.frames),
                            .copies_out = {},
                            .copies_in = {}});
  std::vector<Read> reads = std::move(step->reads);
  reads.clear();
  *step = Step();
  step->reads = std::move(reads);
  spare_.push_back(std::move(step));
}

void SimulatedExecutor::take_back(request::StepResult&& result) {
  if (spare_samples_.size() == kSpareSteps) return;
  result.sampled.clear();
  spare_samples_.push_back(std::move(result.sampled));
}

std::unique_ptr<SimulatedExecutor::Step> SimulatedExecutor::draw(request::Batch batch) {
  std::unique_ptr<Step> step;
  if (spare_.empty()) {
    step = std::make_unique<Step>();
  } else {
    step = std::move(spare_.back());
    spare_.pop_back();
  }
  if (!spare_samples_.empty()) {
    step->result.sampled = std::move(spare_samples_.back());
    spare_samples_.pop_back();
  }
  step->model = &models_.at(batch.model);
  step->result.step = batch.step;
  step->batch = std::move(batch);
  step->submitted = step->next_from = clock_.now();
  step->alpha = alpha_ ? alpha_->alpha() : 0;
  if (!options_.faults.any()) return step;
  if (random_.chance(options_.faults.slow_rate)) step->slowed = options_.faults.slow_factor;
  if (random_.chance(options_.faults.hang_rate)) {
    step->hangs = true;
    counters_.hangs += 1;
  }
  if (random_.chance(options_.faults.error_rate)) {
    counters_.faults += 1;
    step->result.error = "simulated: the step failed";
  }
  return step;
}

Status SimulatedExecutor::check_room(const request::Batch& batch) const {
  const auto model = models_.find(batch.model);
  if (model == models_.end()) {
    return not_found("the simulated device does not have this model");
  }
  const bool streams = model->second.shape->cached.streams();
  if (streams ? streamed_ != nullptr : std::ssize(resident_) >= capabilities_.steps_in_flight_max) {
    return unavailable("a step is in flight");
  }
  return {};
}

void SimulatedExecutor::count_again(const request::Batch& batch) {
  for (const request::BatchEntry& entry : batch.entries) {
    std::int64_t& before = computed_[entry.request];
    const std::int64_t end = entry.context + entry.token_count;
    counters_.tokens_again += std::max<std::int64_t>(0, std::min(end, before) - entry.context);
    before = std::max(before, end);
  }
}

Status SimulatedExecutor::submit(request::Batch batch, weights::StepWeights weights) {
  begin_copies(batch.copies_in);
  begin_copies(batch.copies_out);
  advance();
  CAUSEWAY_TRY(check_room(batch));
  counters_.steps += 1;
  if (random_.chance(options_.faults.refuse_rate)) {
    counters_.faults += 1;
    return Error{ErrorCode::kDevice, "simulated: the device refuses the step"};
  }
  const ModelShape& shape = *models_.at(batch.model).shape;
  if (shadow_) {
    for (const auto& running : resident_) {
      blame(frames_given_away(running->batch, batch, shape.tokens_per_block));
    }
    if (streamed_) blame(frames_given_away(streamed_->batch, batch, shape.tokens_per_block));
  }
  count_again(batch);
  blame(frames_.submitted(batch, shadow_ ? &*shadow_ : nullptr));
  std::unique_ptr<Step> step = draw(std::move(batch));
  set_reads(*step, weights);
  if (shape.cached.streams()) {
    submit_streamed(std::move(step), weights);
    return {};
  }
  counters_.steps_ahead += resident_.empty() ? 0 : 1;
  counters_.tokens_pending += tokens_pending(step->batch);
  counters_.between_ranges += streamed_ ? 1 : 0;
  if (resident_.empty()) learn_from_ended(*step);
  step->launched = launches_.launch(step->batch, shape, clock_.now());
  resident_.push_back(std::move(step));
  enqueue({.step = resident_.back().get(), .range = {}}, clock_.now());
  return {};
}

// A step that fails is enqueued up to some range, or to its end.
void SimulatedExecutor::submit_streamed(std::unique_ptr<Step> step, weights::StepWeights weights) {
  step->ranges = ranges_of(step->batch, weights);
  if (!step->result.error.empty()) {
    const auto last = random_.between(1, std::ssize(step->ranges));
    counters_.abandoned += last < std::ssize(step->ranges) ? 1 : 0;
    step->ranges.resize(static_cast<std::size_t>(last));
  }
  streamed_ = std::move(step);
  advance();
}

void SimulatedExecutor::advance() {
  const Nanos now = clock_.now();
  while (true) {
    const std::optional<Nanos> range = next_range_at();
    const std::optional<Nanos> item = stream_event_at();
    const bool range_is_next = range && *range <= now && (!item || *range < *item);
    if (!range_is_next && !(item && *item <= now)) break;
    // What copies bring is there for a step that begins at the same time.
    if (copies_) copies_->advance(range_is_next ? *range : *item);
    if (range_is_next) {
      streamed_->next_from = *range;
      enqueue({.step = streamed_.get(), .range = streamed_->enqueued++}, *range);
    } else if (stream_.front().waits_until) {
      run(stream_.front(), *item);
    } else {
      end_item();
    }
  }
  if (copies_) copies_->advance(now);
  look_for_lost();
  if (!streamed_) return;
  counters_.streamed_longest = std::max(counters_.streamed_longest, now - streamed_->submitted);
}

void SimulatedExecutor::enqueue(StreamItem item, Nanos at) {
  stream_.push_back(item);
  if (stream_.size() == 1) begin(stream_.front(), at);
}

HardwareProfile SimulatedExecutor::granted() const {
  HardwareProfile profile = options_.profile;
  if (options_.memory == nullptr) return profile;
  const double own = profile.memory_bytes_per_second;
  profile.memory_bytes_per_second = options_.memory->granted(options_.memory_user, own);
  profile.attention_bytes_per_second *= profile.memory_bytes_per_second / own;
  return profile;
}

Nanos SimulatedExecutor::computes(const Step& step, Nanos at) const {
  const bool copies =
      (mover_ != nullptr && mover_->copies_at(at)) || (copies_ && copies_->copies_in_at(at));
  const StepWork work = work_of(step.batch, *step.model->shape);
  const Nanos computes = options_.memory == nullptr ? step_duration(work, options_.profile, copies)
                                                    : step_duration(work, granted(), copies);
  return Nanos(static_cast<std::int64_t>(static_cast<double>(computes.count) * step.slowed));
}

void SimulatedExecutor::begin(StreamItem& item, Nanos at) {
  Nanos ready = item.range ? at : item.step->launched;
  counters_.launch_wait_longest = std::max(counters_.launch_wait_longest, ready - at);
  if (copies_ && !item.range) {
    const Nanos there = copies_->ready_at(item.step->batch.copies_awaited);
    const Nanos wait = std::max(there, at) - at;  // nothing awaited: there since ever
    counters_.kv_wait += wait;
    counters_.kv_wait_longest = std::max(counters_.kv_wait_longest, wait);
    ready = std::max(ready, there);
  }
  if (ready > at) {
    item.waits_until = ready;
  } else {
    run(item, at);
  }
}

void SimulatedExecutor::run(StreamItem& item, Nanos at) {
  item.waits_until.reset();
  Step& step = *item.step;
  if (item.range.value_or(0) == 0) begin_step(step, at);
  Nanos takes = computes(step, at);
  if (item.range) {
    const Range& range = step.ranges[*item.range];
    const Nanos overhead = std::min(options_.profile.step_overhead, takes);
    takes = nanos_from_seconds(to_seconds(takes - overhead) * range.part);
    if (*item.range == 0) takes += overhead;
  }
  const bool hangs = step.hangs && item.range.value_or(0) == 0;
  if (hangs) takes = options_.faults.hang;
  double bytes = -1;  // as the cost model has it
  if (alpha_ && !item.range && !hangs) {
    const HomeStep home = run_at_home(step, at);
    takes = home.computes;
    item.ends = home.end;
    bytes = home.hbm_bytes;
  } else {
    item.ends = item.range ? at + takes : end_of_reads(step, at, takes);
  }
  if (options_.memory != nullptr) {
    const StepWork work = work_of(step.batch, *step.model->shape);
    const double part = item.range ? step.ranges[*item.range].part : 1;
    if (bytes < 0) bytes = (static_cast<double>(work.weights.count) + work.kv_bytes) * part;
    const double lasts = std::max(1e-9, to_seconds(item.ends - at));
    options_.memory->use(options_.memory_user, bytes / lasts);
  }
  counters_.busy += item.ends - at;
  counters_.weights_wait += item.ends - at - takes;
}

void SimulatedExecutor::begin_step(Step& step, Nanos at) {
  step.began = at;
  if (shadow_) {
    const ModelShape& shape = *step.model->shape;
    const std::string wrong =
        shadow_->begin(step.batch, shape.tokens_per_block, shape.vocab, step.shadow);
    if (!wrong.empty()) {
      blame(wrong);
      step.result.error = "simulated: a batch that breaks the rules: " + wrong;
    }
  }
  if (step.result.error.empty()) sample(step);
}

void SimulatedExecutor::end_item() {
  const StreamItem item = stream_.front();
  stream_.erase(stream_.begin());
  if (options_.memory != nullptr) options_.memory->use(options_.memory_user, 0);
  if (item.range) {
    end_range(*item.range, item.ends);
  } else {
    if (alpha_) end_at_home(*item.step, item.ends);
    end_resident(item.ends);
  }
  if (!stream_.empty()) begin(stream_.front(), item.ends);
}

void SimulatedExecutor::learn(Step& next, const Ended& before) {
  if (awaits_tokens(next.batch)) request::resolve_pending(next.batch, before.result.sampled);
  next.shadow.after_failure = before.is_void || !before.result.error.empty();
}

void SimulatedExecutor::learn_from_ended(Step& next) const {
  const auto before = std::find_if(ended_.rbegin(), ended_.rend(),
                                   [](const Ended& ended) { return !ended.streams; });
  if (before != ended_.rend()) learn(next, *before);
}

void SimulatedExecutor::end_resident(Nanos at) {
  std::unique_ptr<Step> step = std::move(resident_.front());
  resident_.erase(resident_.begin());
  step->is_void = poisoned(*step, at);
  end_step(*step, at);
  keep_spare(std::move(step));
  if (!resident_.empty()) learn(*resident_.front(), ended_.back());
}

void SimulatedExecutor::end_range(std::size_t index, Nanos at) {
  Step& step = *streamed_;
  look_back(step, step.ranges[index]);
  if (step.enqueued - step.ended == kRangesEnqueued) step.next_from = at;
  if (++step.ended < step.ranges.size()) return;
  step.is_void = poisoned(step, at) || step.is_void;
  end_step(step, at);
  counters_.streamed_steps += 1;
  counters_.streamed_longest = std::max(counters_.streamed_longest, at - step.submitted);
  streamed_.reset();
}

// What it computed is there.
void SimulatedExecutor::end_step(Step& step, Nanos at) {
  blame(frames_.ended(step.batch));
  step.result.duration = at - step.began;
  if (step.is_void) {
    counters_.poisoned += 1;
    for (request::SampledToken& sampled : step.result.sampled) sampled.token.token ^= 1;
  }
  if (shadow_ && !step.is_void && step.result.error.empty()) shadow_->complete(step.shadow);
  ended_.push_back({.result = std::move(step.result),
                    .streams = step.model->shape->cached.streams(),
                    .is_void = step.is_void});
}

std::optional<request::StepResult> SimulatedExecutor::wait(Nanos) {
  CAUSEWAY_CHECK(!resident_.empty() || streamed_ || !ended_.empty(), "no step is in flight");
  advance();
  if (ended_.empty()) return std::nullopt;
  request::StepResult result = std::move(ended_.front().result);
  ended_.erase(ended_.begin());
  return result;
}

std::optional<Nanos> SimulatedExecutor::next_range_at() const {
  if (!streamed_ || streamed_->enqueued == streamed_->ranges.size()) return std::nullopt;
  if (streamed_->enqueued - streamed_->ended == kRangesEnqueued) return std::nullopt;
  auto at = arrival_of(*streamed_, streamed_->ranges[streamed_->enqueued]);
  if (at && copies_ && streamed_->enqueued == 0) {
    at = std::max(*at, copies_->ready_at(streamed_->batch.copies_awaited));
  }
  return at;
}

std::optional<Nanos> SimulatedExecutor::item_ends_at() const {
  if (stream_.empty() || stream_.front().waits_until) return std::nullopt;
  return stream_.front().ends;
}

std::optional<Nanos> SimulatedExecutor::stream_event_at() const {
  if (stream_.empty()) return std::nullopt;
  const StreamItem& item = stream_.front();
  return item.waits_until ? item.waits_until : item.ends;
}

void SimulatedExecutor::begin_copies(std::span<const kv::KvCopy> copies) {
  if (copies.empty()) return;
  CAUSEWAY_CHECK(copies_, "a simulated device that does not rotate KV is to copy some");
  advance();
  copies_->submit(copies, clock_.now());
}

std::vector<kv::KvCopyEnd> SimulatedExecutor::poll_copies() {
  if (!copies_) return {};
  advance();
  return copies_->take_ends();
}

kv::KvCopyRates SimulatedExecutor::copy_rates() const {
  return copies_ ? copies_->rates() : kv::KvCopyRates();
}

std::optional<Nanos> SimulatedExecutor::next_event() const {
  if (!ended_.empty()) return clock_.now();
  std::optional<Nanos> next = next_range_at();
  for (const auto& other : {stream_event_at(), copies_ ? copies_->next_end() : std::nullopt}) {
    if (other) next = std::min(next.value_or(*other), *other);
  }
  return next;
}

}  // namespace causeway::simulate
