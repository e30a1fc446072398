#include "simulate/testing/history_weights.h"

#include <algorithm>
#include <cmath>

#include "model/model_card.h"

namespace causeway::simulate {
namespace {

constexpr Bytes kExtent(1000);
constexpr std::int64_t kGroupsMax = 6;
constexpr std::int64_t kLayersMax = 8;
constexpr Nanos kHangs = millis(500);  // no step computes for so long that does not hang

}  // namespace

HistoryWeights::HistoryWeights(Random& random, const Clock& clock, std::int64_t models,
                               double copy_error_rate, std::int64_t frames)
    : random_(random),
      clock_(clock),
      extents_per_model_(random.between(2, 12)),
      extents_(random.between(extents_per_model_, extents_per_model_ * models)),
      frame_extents_(0),
      border_(make_border(frames)),
      pinned_(random.chance(0.25) ? ModelId(random.below(models)) : ModelId()),
      streams_(random.chance(0.5)),
      mover_options_(mover_options(copy_error_rate)),
      residency_options_(residency_options()),
      mover_(mover_options_, clock),
      cache_(residency_options_, mover_) {}

std::optional<schedule::BorderRules> HistoryWeights::make_border(std::int64_t frames) {
  if (random_.chance(0.5)) return std::nullopt;
  schedule::BorderRules rules;
  do {
    rules.frames_per_extent = random_.between(1, 4);
  } while (frames % rules.frames_per_extent != 0);
  frame_extents_ = frames / rules.frames_per_extent;
  rules.kv_min = random_.between(1, frame_extents_);
  // Some models need more than the weights have at the start.
  extents_per_model_ += random_.between(0, frame_extents_ - rules.kv_min);
  extents_per_model_ = std::min(extents_per_model_, extents_ + frame_extents_ - rules.kv_min);
  rules.kv_max = random_.between(frame_extents_, frame_extents_ + extents_);
  rules.hold = micros(random_.between(0, 30'000));
  return rules;
}

SimulatedMoverOptions HistoryWeights::mover_options(double error_rate) {
  // An extent takes 10 µs to 10 ms; a step computes for 1 ms and more.
  const double extent_seconds = 1e-5 * std::pow(10.0, 3 * random_.uniform());
  const double rate = static_cast<double>(kExtent.count) / extent_seconds;
  // Sometimes it is wrong about the link.
  const double wrong = random_.chance(0.3) ? std::pow(10.0, 2 * random_.uniform() - 1) : 1.0;
  return {.bytes_per_second = rate,
          .granted = rate * wrong,
          .latency = micros(random_.between(0, 50)),
          .error_rate = error_rate,
          .extent = kExtent,
          .extents_max = extents_ + frame_extents_,
          .frames_per_extent = border_ ? border_->frames_per_extent : 1,
          .frame_extents = frame_extents_,
          .frame_extents_max = border_ ? border_->kv_max : 0,
          .frame_latency = micros(random_.between(0, 2'000)),
          .frame_error_rate = error_rate,
          .seed = random_.bits()};
}

weights::ResidencyOptions HistoryWeights::residency_options() {
  weights::ResidencyOptions options;
  options.extent = kExtent;
  options.extents = extents_;
  options.extents_max = border_ ? extents_ + frame_extents_ - border_->kv_min : extents_;
  options.quantum_min = micros(random_.between(0, 30'000));
  options.quantum_factor = 4 * random_.uniform();
  options.rate_decay = millis(random_.between(1, 1000));
  options.arrivals_max = static_cast<int>(random_.between(1, 2));
  options.attempts_max = static_cast<int>(random_.between(1, 3));
  return options;
}

void HistoryWeights::introduce(ModelId id, ModelShape& shape) {
  if (!streams_ || !random_.chance(0.6) || !place_streamed(shape)) place_whole(shape);
  mover_.add_model(id, shape.cached);
  models_[id] = {.cached = shape.cached, .waits = false, .since = {}, .bound = {}};
}

// As models lie: the first group of the layout is read last, perhaps at home.
void HistoryWeights::place_whole(ModelShape& shape) {
  const std::int64_t groups = random_.between(1, kGroupsMax);
  const Bytes room = kExtent * extents_per_model_;
  weights::WeightLayout layout;
  std::vector<weights::ReadingStep> reading;
  for (std::int64_t i = 0; i < groups; ++i) {
    const Bytes share = room / groups;
    weights::PlacedGroup& group = layout.groups.emplace_back();
    group.offset = share * i;
    group.bytes = Bytes(random_.between(1 + share.count / 2, share.count));
    if (i > 0) reading.push_back({.group = static_cast<int>(i)});
  }
  reading.push_back({.group = 0, .readable_at_home = groups > 1 && random_.chance(0.5)});
  shape.cached = weights::cached_model(layout, reading);
}

// Embedding, layers and head, of which the room holds a part. False: it does not hold the least.
bool HistoryWeights::place_streamed(ModelShape& shape) {
  shape.config.layers = random_.between(1, kLayersMax);
  shape.config.tied_embeddings = random_.chance(0.3);
  shape.layout = {};
  shape.reading.clear();
  const Bytes largest = kExtent * random_.between(1, 3);
  for (std::int64_t i = 0; i <= model::head_group(shape.config); ++i) {
    weights::PlacedGroup& group = shape.layout.groups.emplace_back();
    group.offset = shape.layout.bytes;
    group.bytes = Bytes(random_.between(1, largest.count));
    shape.layout.bytes += group.bytes;
    if (i > 0) shape.reading.push_back({.group = static_cast<int>(i)});
  }
  shape.reading.push_back({.group = model::kEmbeddingGroup,
                           .readable_at_home = !shape.config.tied_embeddings,
                           .stays = shape.config.tied_embeddings});
  const auto streamed = weights::streamed_model(
      shape.layout, shape.reading,
      {.extent = kExtent,
       .budget = kExtent * random_.between(1, extents_per_model_),
       .ring = random_.chance(0.5) ? kExtent * random_.between(1, 2 * kLayersMax) : Bytes(0)});
  if (streamed.ok()) shape.cached = *streamed;
  return streamed.ok();
}

void HistoryWeights::added(ModelId model) {
  if (model == pinned_) cache_.set_pinned(model, true);
}

void HistoryWeights::remove(ModelId model) {
  mover_.remove_model(model);
  models_.erase(model);
}

bool HistoryWeights::serves(ModelId id, const Model& model) const {
  for (std::size_t i = 0; i < model.cached.groups.size(); ++i) {
    const auto place = cache_.residency().place(id, static_cast<int>(i));
    if (model.cached.groups[i].readable_at_home) continue;
    if (place != weights::GroupPlace::kCached) return false;
  }
  return true;
}

Nanos HistoryWeights::copies(const Model& model) const {
  Nanos sum;
  for (const weights::ResidentGroup& group : model.cached.groups) {
    sum += mover_.takes(group.memory_only ? Bytes(0) : group.bytes);
  }
  return sum;
}

// Copies into rings that an arrival finds before it on the link: a pass of each streamed model.
Nanos HistoryWeights::passes() const {
  Nanos sum;
  for (const auto& [id, model] : models_) {
    if (!model.cached.streams()) continue;
    for (const auto& group : model.cached.stream->groups) sum += mover_.takes(group.bytes);
  }
  return sum;
}

// At the slowest of the rates that the machine may believe in.
Nanos HistoryWeights::quantum(const Model& model) const {
  double rate = mover_options_.granted;
  for (const auto& [id, other] : models_) {
    for (const weights::ResidentGroup& group : other.cached.groups) {
      if (group.memory_only) continue;
      const Nanos takes = mover_.takes(group.bytes) + passes();
      rate = std::min(rate, static_cast<double>(group.bytes.count) / to_seconds(takes));
    }
  }
  Bytes bytes;
  for (const weights::ResidentGroup& group : model.cached.groups) {
    bytes += group.memory_only ? Bytes(0) : group.bytes;
  }
  const double brings = static_cast<double>(bytes.count) / rate;
  return std::max(residency_options_.quantum_min,
                  nanos_from_seconds(residency_options_.quantum_factor * brings));
}

// The quanta of the others, n arrivals, and 6 n of the longest steps with what they wait for
// launches and KV.
Nanos HistoryWeights::bound_of(ModelId id) const {
  const std::int64_t n = std::ssize(models_);
  Nanos bound = (step_longest_ + wait_longest_) * (6 * n) + passes() * n;
  for (const auto& [other, model] : models_) {
    bound += copies(model) + (other == id ? Nanos(0) : quantum(model));
  }
  return bound;
}

std::string HistoryWeights::check_waits(const engine::EngineCore& core) {
  const bool anew = mover_.failures() != failures_seen_;
  failures_seen_ = mover_.failures();
  for (const auto& [id, seen] : core.observe_models()) {
    Model& model = models_.at(id);
    const bool waits = seen.requests() > 0 && !serves(id, model) && cache_.residency().fits(id);
    if (!waits || !model.waits || anew) {
      model.since = clock_.now();
      model.bound = Nanos(0);
    }
    model.waits = waits;
    if (!waits) continue;
    model.bound = std::max(model.bound, bound_of(id));
    const Nanos waited = clock_.now() - model.since;
    wait_of_bound_ = std::max(wait_of_bound_, to_seconds(waited) / to_seconds(model.bound));
    if (waited > model.bound) {
      return "model " + std::to_string(id.value) + " has waited for its weights for " +
             std::to_string(to_millis(waited)) + " ms; the bound is " +
             std::to_string(to_millis(model.bound)) + " ms";
    }
  }
  return "";
}

std::string HistoryWeights::check(const engine::EngineCore& core,
                                  const SimulatedExecutor& executor) {
  if (!mover_.violation().empty()) return mover_.violation();
  if (mover_.committed_extents() != cache_.residency().committed_extents()) {
    return "residency and mover count different extents";
  }
  const Nanos step = executor.item_ends_at().value_or(clock_.now()) - clock_.now();
  if (step > kHangs) {
    for (auto& [id, model] : models_) model.waits = false;
    return "";
  }
  // Behind two ranges a resident step takes as long as three items.
  step_longest_ = std::max(step_longest_, step * (streams_ ? 3 : 1));
  step_longest_ = std::max(step_longest_, executor.counters().streamed_longest);
  const auto& counters = executor.counters();
  wait_longest_ = counters.kv_wait_longest + counters.launch_wait_longest;
  return border_ ? "" : check_waits(core);
}

}  // namespace causeway::simulate
