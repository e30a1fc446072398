#include "slice/testing/checksum_slice.h"

#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "engine/executor_models.h"
#include "slice/weight_estate.h"

namespace causeway::slice::testing {
namespace {

constexpr std::int64_t kFrames = 4096;
constexpr std::int64_t kGroupsMax = 128;
constexpr int kStepsInFlight = 2;
constexpr Nanos kSettle = seconds(60);

std::span<const std::byte> bytes_of(const weights::PlacedGroup& group, const std::byte* base) {
  return {base + group.offset.count, to_size(group.bytes)};
}

// How a step reads a model.
struct Reading {
  const weights::WeightLayout* layout = nullptr;
  const std::byte* base = nullptr;     // in the cache
  std::vector<int> order;              // groups of the layout
  std::vector<std::uint64_t> at_home;  // by group of the layout
};

struct SumModel {
  std::unique_ptr<Reading> forward;
  kv::BlockLayout layout;
};

class ChecksumExecutor final : public engine::StepExecutor {
 public:
  ChecksumExecutor(WeightSummer& summer, Bytes frame)
      : summer_(summer), models_(frame, kStepsInFlight) {}
  ~ChecksumExecutor() override { stream_.reset(); }

  Status open(device::Device& device) {
    CAUSEWAY_ASSIGN(stream_, device.make_stream("sums"));
    const std::int64_t of_step = kGroupsMax * WeightSummer::kParts;
    CAUSEWAY_ASSIGN(std::uint64_t* const sums, summer_.reserve(of_step * kStepsInFlight));
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      flights_[i].sums = {sums + of_step * static_cast<std::int64_t>(i),
                          static_cast<std::size_t>(of_step)};
      CAUSEWAY_ASSIGN(flights_[i].ended, device.make_event());
    }
    return {};
  }
  Status add_model(ModelId id, SumModel model) { return models_.add(id, std::move(model)); }
  Status remove_model(ModelId id) { return models_.remove(id); }

  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch batch, weights::StepWeights weights) override;
  std::optional<request::StepResult> wait(Nanos timeout) override;

 private:
  struct Flight {
    StepId step;
    std::vector<request::BatchEntry> entries;
    std::span<std::uint64_t> sums;
    std::uint64_t at_home = 0;  // of groups that are read there
    std::unique_ptr<device::Event> ended;
  };
  Flight& flight(std::int64_t step) {
    return flights_[static_cast<std::size_t>(step % kStepsInFlight)];
  }
  Status enqueue(const Reading& reading, weights::StepWeights weights, Flight& flight);

  WeightSummer& summer_;
  const Capabilities capabilities_{.steps_in_flight_max = kStepsInFlight};
  engine::ExecutorModels<SumModel> models_;
  std::array<Flight, kStepsInFlight> flights_;
  std::int64_t submitted_ = 0;
  std::int64_t returned_ = 0;
  std::unique_ptr<device::Stream> stream_;
};

Status ChecksumExecutor::enqueue(const Reading& reading, weights::StepWeights weights,
                                 Flight& flight) {
  std::uint64_t* parts = flight.sums.data();
  for (const int group : reading.order) {
    const auto index = static_cast<std::size_t>(group);
    const weights::WeightView view = weights.empty() ? weights::WeightView() : weights[index];
    if (view.place == weights::WeightPlace::kHome) {
      flight.at_home += reading.at_home[index];
      continue;
    }
    if (view.place == weights::WeightPlace::kStaged) {
      CAUSEWAY_TRY(stream_->wait(*view.ready, view.value));
    }
    CAUSEWAY_TRY(
        summer_.enqueue(*stream_, bytes_of(reading.layout->groups[index], reading.base), parts));
    parts += WeightSummer::kParts;
  }
  return stream_->record(*flight.ended);
}

Status ChecksumExecutor::submit(request::Batch batch, weights::StepWeights weights) {
  CAUSEWAY_ASSIGN(SumModel* const model, models_.begin_step(batch.model));
  Flight& next = flight(submitted_);
  next.step = batch.step;
  next.entries = std::move(batch.entries);
  next.at_home = 0;
  std::fill(next.sums.begin(), next.sums.end(), 0);
  const Status enqueued = enqueue(*model->forward, weights, next);
  if (enqueued.ok()) {
    ++submitted_;
    return {};
  }
  (void)stream_->synchronize(kSettle).ok();
  models_.take_back_step();
  return enqueued;
}

std::optional<request::StepResult> ChecksumExecutor::wait(Nanos timeout) {
  CAUSEWAY_CHECK(models_.step_in_flight(), "no step is in flight");
  const Flight& oldest = flight(returned_);
  const Status ended = oldest.ended->wait(timeout);
  if (!ended.ok() && ended.error().code == ErrorCode::kDeadlineExceeded) return std::nullopt;
  request::StepResult result;
  result.step = oldest.step;
  if (!ended.ok()) result.error = ended.error().message;
  std::uint64_t sum = oldest.at_home;
  for (const std::uint64_t part : oldest.sums) sum += part;
  for (const request::BatchEntry& entry : oldest.entries) {
    if (!entry.samples || !ended.ok()) continue;
    request::SampledToken& chosen = result.sampled.emplace_back();
    chosen.request = entry.request;
    chosen.token.token = checksum_token(sum, std::int64_t{entry.context} + entry.token_count);
  }
  models_.end_step();
  ++returned_;
  return result;
}

class ChecksumSlice final : public Slice {
 public:
  ChecksumSlice(const ChecksumSliceOptions& options, device::Device& device)
      : options_(options), device_(device) {}
  ~ChecksumSlice() override {
    if (engine_) engine_->stop(Nanos(0));
    if (estate_) estate_->mover().set_notify({});
  }

  Status open(const ChecksumParts& parts);

  engine::Engine& engine() override { return *engine_; }
  std::int64_t frames() const override { return kFrames; }
  WeightRoom weight_room() const override { return {options_.cache, extent()}; }
  SliceLimits limits() const override {
    return {.link_bytes_per_second = links_.claim->rate(),
            .memory_bytes_per_second = options_.read_bytes_per_second,
            .memory = options_.cache};
  }
  Result<model::ModelCard> card(model::ModelConfig config) const override {
    return model::make_card(std::move(config), DType::kBF16, options_.kv_frame);
  }
  Status check(ModelId, const model::ModelCard&) const override { return {}; }
  Status reach(device::HostAddress address, Bytes bytes, const std::function<bool()>&) override {
    return device_.make_reachable(address, bytes);
  }
  void unreach(device::HostAddress address, Bytes bytes) override {
    device_.make_unreachable(address, bytes);
  }
  Result<engine::ModelFacts> attach(SliceModel model) override;
  void detach(ModelId model) override {
    const Status removed = executor_->remove_model(model);
    CAUSEWAY_CHECK(removed.ok(), "a model is detached while a step reads it");
    estate_->remove(model);
  }
  Bytes link_bytes() const override { return estate_->mover().moved(); }
  Nanos link_busy() const override { return estate_->mover().busy(); }
  Bytes link_bytes_out() const override { return bytes_out(links_.engine.get()); }
  device::Device& device() override { return device_; }
  const SliceLinks* links() const override { return &links_; }
  Result<Bytes> device_memory_used() override { return extent() * estate_->cached_extents(); }

 private:
  Bytes extent() const { return device_.capabilities().extent_bytes; }

  const ChecksumSliceOptions options_;
  device::Device& device_;
  // In the order in which they are needed: what comes later ends first.
  std::unique_ptr<device::Device> front_;
  SliceLinks links_;
  std::unique_ptr<WeightEstate> estate_;
  std::unique_ptr<ChecksumExecutor> executor_;
  std::unique_ptr<engine::Engine> engine_;
};

Status ChecksumSlice::open(const ChecksumParts& parts) {
  if (options_.link_front) front_ = options_.link_front(device_);
  CAUSEWAY_ASSIGN(links_, parts.machine.connect(front_ ? *front_ : device_, 0));
  weights::ResidencyOptions residency = options_.residency;
  residency.extent = extent();
  residency.extents = options_.cache / extent();
  CAUSEWAY_ASSIGN(estate_, WeightEstate::create(device_, links_, nullptr, residency));
  executor_ = std::make_unique<ChecksumExecutor>(parts.summer, options_.kv_frame);
  CAUSEWAY_TRY(executor_->open(device_));
  engine::EngineOptions engine = options_.engine;
  engine.core.frames = kFrames;
  CAUSEWAY_ASSIGN(engine_, engine::Engine::start(engine, parts.machine.clock(), *executor_,
                                                 parts.sink, &estate_->cache()));
  estate_->mover().set_notify([this] { engine_->poke(); });
  return {};
}

Result<engine::ModelFacts> ChecksumSlice::attach(SliceModel model) {
  const model::ModelCard& card = model.card;
  CAUSEWAY_CHECK(std::ssize(card.layout.groups) <= kGroupsMax, "more groups than there are sums");
  auto reading = std::make_unique<Reading>();
  const weights::PlacedWeights at_home = model.home->weights();
  for (const weights::PlacedGroup& group : at_home.layout->groups) {
    reading->at_home.push_back(checksum(bytes_of(group, at_home.base)));
  }
  for (const weights::ReadingStep& step : card.reading) reading->order.push_back(step.group);
  CAUSEWAY_ASSIGN(const weights::PlacedWeights cached,
                  estate_->add(model.id, weights::cached_model(card.layout, card.reading),
                               std::move(model.home)));
  reading->layout = cached.layout;
  reading->base = cached.base;
  const Status added =
      executor_->add_model(model.id, {.forward = std::move(reading), .layout = card.kv});
  if (!added.ok()) {
    estate_->remove(model.id);
    return added.error();
  }
  return engine::ModelFacts{
      .tokens_per_block = card.kv.tokens,
      .max_model_len = model.max_model_len,
      .weights = weights::cached_model(card.layout, card.reading),
      .step_min = nanos_from_seconds(static_cast<double>(card.layout.bytes.count) /
                                     options_.read_bytes_per_second)};
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  CAUSEWAY_CHECK(bytes.size() % sizeof(std::uint64_t) == 0, "sums are of whole words");
  const auto words = static_cast<std::int64_t>(bytes.size() / sizeof(std::uint64_t));
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * 8, sizeof(word));
    sum += word * factor_of_word(i);
  }
  return sum;
}

std::uint64_t checksum(const weights::PlacedWeights& weights) {
  std::uint64_t sum = 0;
  for (const weights::PlacedGroup& group : weights.layout->groups) {
    sum += checksum(bytes_of(group, weights.base));
  }
  return sum;
}

TokenId checksum_token(std::uint64_t sum, std::int64_t position) {
  return static_cast<TokenId>(mix64(sum ^ mix64(static_cast<std::uint64_t>(position))) >> 34);
}

Result<std::uint64_t*> HostSummer::reserve(std::int64_t count) {
  sums_.assign(static_cast<std::size_t>(count), 0);
  return sums_.data();
}

Status HostSummer::enqueue(device::Stream& stream, std::span<const std::byte> data,
                           std::uint64_t* parts) {
  return stream.run([data, parts]() -> Status {
    *parts = checksum(data);
    return {};
  });
}

Result<std::unique_ptr<Slice>> open_checksum_slice(const ChecksumSliceOptions& options,
                                                   const ChecksumParts& parts) {
  auto slice = std::make_unique<ChecksumSlice>(options, parts.device);
  CAUSEWAY_TRY(slice->open(parts));
  return std::unique_ptr<Slice>(std::move(slice));
}

}  // namespace causeway::slice::testing
