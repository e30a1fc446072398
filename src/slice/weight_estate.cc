#include "slice/weight_estate.h"

#include <utility>

namespace causeway::slice {

Result<std::unique_ptr<WeightEstate>> WeightEstate::create(
    device::Device& device, const SliceLinks& links, PeerHome* peer,
    const weights::ResidencyOptions& options) {
  CAUSEWAY_ASSIGN(auto mover, weights::TransferMover::start(device, *links.engine, *links.claim));
  return std::make_unique<WeightEstate>(std::move(mover), peer, options);
}

WeightEstate::WeightEstate(std::unique_ptr<weights::TransferMover> mover, PeerHome* peer,
                           const weights::ResidencyOptions& options)
    : peer_(peer), mover_(std::move(mover)), cache_(options, *mover_) {}

Status WeightEstate::sleep_to(device::Device& device, device::HostMemory& memory) {
  CAUSEWAY_ASSIGN(sleeper_, WeightSleeper::open(device, memory));
  mover_->set_before_drop(
      [sleeper = sleeper_.get()](Bytes offset, Bytes bytes) { sleeper->copy_out(offset, bytes); });
  return {};
}

Result<std::byte*> WeightEstate::place(ModelId model, weights::CachedModel cached,
                                       const weights::PinnedModel& home) {
  auto from = device::MemoryAddress::in_host(home.address());
  if (peer_ != nullptr) {
    CAUSEWAY_ASSIGN(from, peer_->add(model, home));
  }
  auto base = mover_->add_model(model, {.model = std::move(cached), .home = from});
  if (!base.ok() && peer_ != nullptr) peer_->remove(model);
  return base;
}

Result<weights::PlacedWeights> WeightEstate::add(ModelId model, weights::CachedModel cached,
                                                 std::unique_ptr<weights::PinnedModel> home) {
  CAUSEWAY_TRY(cache_.check_fits(cached));
  CAUSEWAY_ASSIGN(std::byte* const base, place(model, std::move(cached), *home));
  const weights::WeightLayout& layout = home->layout();
  const std::lock_guard lock(mutex_);
  homes_[model] = std::move(home);
  return weights::PlacedWeights{&layout, base};
}

void WeightEstate::remove(ModelId model) {
  mover_->remove_model(model);
  if (peer_ != nullptr) peer_->remove(model);
  const std::lock_guard lock(mutex_);
  homes_.erase(model);
}

Bytes bytes_out(const transfer::TransferEngine* engine) {
  Bytes out;
  if (engine == nullptr) return out;
  const transfer::TransferStats stats = engine->stats();
  for (const auto& directions : stats.by_purpose) {
    out += directions[static_cast<std::size_t>(transfer::Direction::kOut)];
  }
  return out;
}

}  // namespace causeway::slice
