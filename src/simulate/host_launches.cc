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

std::size_t HostLaunches::bucket_of(const request::Batch& batch) const {
  const auto size = std::ssize(batch.entries);
  const auto bucket = std::lower_bound(buckets_.begin(), buckets_.end(), size);
  return static_cast<std::size_t>(bucket - buckets_.begin());
}

bool HostLaunches::has_graph(const request::Batch& batch) const {
  const std::size_t bucket = bucket_of(batch);
  const auto model = models_.find(batch.model);
  return bucket < buckets_.size() && model != models_.end() &&
         model->second.decoded[bucket] == kCaptured && !has_prompts(batch);
}

HostLaunches::Model& HostLaunches::model_of(ModelId id, const model::ModelConfig& config) {
  const auto known = models_.find(id);
  if (known != models_.end()) return known->second;
  Model model{.decoded = std::vector<std::uint8_t>(buckets_.size()),
              .chosen = &chosen_[{config.hidden, config.intermediate, config.heads, config.kv_heads,
                                  config.head_dim}]};
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

Nanos HostLaunches::takes(const request::Batch& batch, const ModelShape& shape) {
  Model& model = model_of(batch.model, shape.config);
  if (has_prompts(batch)) {
    return plain_ + (is_first(std::ssize(batch.tokens), model) ? choice_ : Nanos(0));
  }
  const std::size_t bucket = bucket_of(batch);
  if (bucket == buckets_.size()) return plain_;
  std::uint8_t& steps = model.decoded[bucket];
  if (steps == kCaptured) return Nanos(0);
  ++steps;
  return plain_;
}

Nanos HostLaunches::launch(const request::Batch& batch, const ModelShape& shape, Nanos now) {
  const Nanos takes_host = takes(batch, shape);
  until_ = std::max(until_, now) + takes_host;
  return until_;
}

void HostLaunches::forget(ModelId model) { models_.erase(model); }

}  // namespace causeway::simulate
