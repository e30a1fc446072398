#include "simulate/host_launches.h"

#include <algorithm>
#include <utility>

#include "model/step_tables.h"

namespace causeway::simulate {
namespace {

constexpr std::int64_t kSlotsMax = 256;  // of steps that have graphs, as on a GPU
constexpr int kCaptured = 2;             // steps of a size, after which there is a graph

bool has_prompts(const request::Batch& batch) {
  return std::any_of(batch.entries.begin(), batch.entries.end(),
                     [](const request::BatchEntry& entry) { return entry.token_count > 1; });
}

}  // namespace

HostLaunches::HostLaunches(const HardwareProfile& profile)
    : plain_(profile.plain_launch),
      choice_(profile.shape_choice),
      buckets_(model::decode_buckets(kSlotsMax)) {}

std::size_t HostLaunches::bucket_of(std::int64_t sequences) const {
  const auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), sequences);
  return static_cast<std::size_t>(bucket - buckets_.begin());
}

bool HostLaunches::has_graph(const request::Batch& batch) const {
  const std::size_t bucket = bucket_of(std::ssize(batch.entries));
  const auto model = models_.find(batch.model);
  return bucket < buckets_.size() && model != models_.end() &&
         model->second.decoded[bucket] == kCaptured && !has_prompts(batch);
}

HostLaunches::Dimensions HostLaunches::dimensions_of(const model::ModelConfig& config) {
  return {config.hidden, config.intermediate, config.heads, config.kv_heads, config.head_dim};
}

HostLaunches::Model& HostLaunches::model_of(ModelId id, const model::ModelConfig& config) {
  const auto known = models_.find(id);
  if (known != models_.end()) return known->second;
  Model model{.decoded = std::vector<std::uint8_t>(buckets_.size()),
              .chosen = &chosen_[dimensions_of(config)]};
  return models_.emplace(id, std::move(model)).first->second;
}

bool HostLaunches::is_first(std::int64_t tokens, Model& model) {
  const auto rows = static_cast<std::size_t>(tokens);
  std::vector<bool>& chosen = *model.chosen;
  if (rows >= chosen.size()) chosen.resize(rows + 1);
  const bool first = !chosen[rows];
  chosen[rows] = true;
  return first;
}

Nanos HostLaunches::takes(const Rows& rows, const ModelShape& shape) {
  Model& model = model_of(rows.model, shape.config);
  if (rows.prompts) return plain_ + (is_first(rows.tokens, model) ? choice_ : Nanos(0));
  const std::size_t bucket = bucket_of(rows.sequences);
  if (bucket == buckets_.size()) return plain_;
  std::uint8_t& steps = model.decoded[bucket];
  if (steps == kCaptured) return Nanos(0);
  ++steps;
  return plain_;
}

Nanos HostLaunches::launch(const Rows& rows, const ModelShape& shape, Nanos now) {
  until_ = std::max(until_, now) + takes(rows, shape);
  return until_;
}

Nanos HostLaunches::launch(const request::Batch& batch, const ModelShape& shape, Nanos now) {
  const Rows rows{.model = batch.model,
                  .sequences = std::ssize(batch.entries),
                  .tokens = std::ssize(batch.tokens),
                  .prompts = has_prompts(batch)};
  return launch(rows, shape, now);
}

HostLaunches::Alone HostLaunches::alone(ModelId id, Tokens prompt, const ModelShape& shape) const {
  const auto model = models_.find(id);
  const int decoded = model == models_.end() ? 0 : model->second.decoded[bucket_of(1)];
  Alone alone{.first = plain_, .each = plain_, .plain = kCaptured - decoded};
  if (prompt == Tokens(1)) {
    if (alone.plain == 0) alone.first = Nanos(0);
    alone.plain = std::max<std::int64_t>(0, alone.plain - 1);
    return alone;
  }
  const std::vector<bool>* chosen = nullptr;
  if (model != models_.end()) {
    chosen = model->second.chosen;
  } else if (const auto known = chosen_.find(dimensions_of(shape.config)); known != chosen_.end()) {
    chosen = &known->second;
  }
  const auto rows = static_cast<std::size_t>(prompt.count);
  if (chosen == nullptr || rows >= chosen->size() || !(*chosen)[rows]) alone.first += choice_;
  return alone;
}

void HostLaunches::forget(ModelId model) { models_.erase(model); }

}  // namespace causeway::simulate
