#include "slice/weight_estate.h"

#include <utility>

namespace causeway::slice {

Result<std::unique_ptr<WeightEstate>> WeightEstate::create(
    device::Device& device, const SliceLinks& links, const weights::ResidencyOptions& options) {
  CAUSEWAY_ASSIGN(auto mover, weights::TransferMover::start(device, *links.engine, *links.claim));
  return std::make_unique<WeightEstate>(std::move(mover), options);
}

WeightEstate::WeightEstate(std::unique_ptr<weights::TransferMover> mover,
                           const weights::ResidencyOptions& options)
    : mover_(std::move(mover)), cache_(options, *mover_) {}

Result<weights::PlacedWeights> WeightEstate::add(ModelId model, weights::CachedModel cached,
                                                 std::unique_ptr<weights::PinnedModel> home) {
  CAUSEWAY_TRY(cache_.check_fits(cached));
  CAUSEWAY_ASSIGN(std::byte* const base,
                  mover_->add_model(model, {.model = std::move(cached), .home = home->address()}));
  const weights::WeightLayout& layout = home->layout();
  const std::lock_guard lock(mutex_);
  homes_[model] = std::move(home);
  return weights::PlacedWeights{&layout, base};
}

void WeightEstate::remove(ModelId model) {
  mover_->remove_model(model);
  const std::lock_guard lock(mutex_);
  homes_.erase(model);
}

Bytes bytes_out(const transfer::TransferStats& stats) {
  Bytes out;
  for (const auto& directions : stats.by_purpose) {
    out += directions[static_cast<std::size_t>(transfer::Direction::kOut)];
  }
  return out;
}

}  // namespace causeway::slice
