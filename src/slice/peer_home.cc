#include "slice/peer_home.h"

#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace causeway::slice {
namespace {

constexpr Nanos kFillMax = seconds(600);
constexpr std::int64_t kProbeExtents = 4;
constexpr int kProbes = 4;

// Some extents of a device, with memory.
Result<device::AddressRange> take(device::Device& device, std::int64_t extents) {
  CAUSEWAY_ASSIGN(auto range, device.arena().reserve(extents));
  CAUSEWAY_TRY(range.commit(0, extents));
  return range;
}

}  // namespace

PeerHome::PeerHome(std::unique_ptr<device::Device> device,
                   std::unique_ptr<transfer::TransferEngine> engine)
    : device_(std::move(device)), engine_(std::move(engine)) {}

Status PeerHome::fill(const device::AddressRange& range, const weights::PinnedModel& home) {
  CAUSEWAY_ASSIGN(
      const auto copied,
      engine_->submit({.direction = transfer::Direction::kIn,
                       .target = device_->id(),
                       .segments = {{device::MemoryAddress::in_host(home.address()),
                                     device::MemoryAddress::in_arena(device_->id(), range.offset()),
                                     home.bytes()}},
                       .priority = device::CopyPriority::kPromotion}));
  return copied.wait(kFillMax);
}

Result<device::MemoryAddress> PeerHome::add(ModelId id, const weights::PinnedModel& home) {
  const std::lock_guard lock(mutex_);
  auto found = models_.find(id);
  if (found == models_.end()) {
    auto range = take(*device_, device_->arena().extents_for(home.bytes()));
    if (!range.ok()) {
      return range.error().with_context("the device that is the home of weights has no room for " +
                                        std::to_string(home.bytes().count) + " bytes of a model");
    }
    CAUSEWAY_TRY(fill(*range, home));
    found = models_.emplace(id, Model{std::move(range).value(), 0}).first;
  }
  found->second.users += 1;
  return device::MemoryAddress::in_arena(device_->id(), found->second.range.offset());
}

void PeerHome::remove(ModelId id) {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(id);
  CAUSEWAY_CHECK(found != models_.end(), "a model is taken away that does not lie here");
  if (--found->second.users == 0) models_.erase(found);
}

Bytes PeerHome::bytes() const {
  const std::lock_guard lock(mutex_);
  Bytes all;
  for (const auto& [id, model] : models_) all += model.range.bytes();
  return all;
}

Result<double> PeerHome::measure_rate(device::Device& target) {
  CAUSEWAY_ASSIGN(const auto from, take(*device_, kProbeExtents));
  CAUSEWAY_ASSIGN(const auto to, take(target, kProbeExtents));
  CAUSEWAY_ASSIGN(const auto stream, target.make_stream("peer rate"));
  CAUSEWAY_ASSIGN(const auto begun, target.make_event());
  CAUSEWAY_ASSIGN(const auto ended, target.make_event());
  const std::vector<device::Copy> copies = {
      {.target = device::MemoryAddress::in_arena(target.id(), to.offset()),
       .source = device::MemoryAddress::in_arena(device_->id(), from.offset()),
       .bytes = to.bytes()}};
  const auto copy = [&] { return stream->copy(copies, device::CopyPriority::kPromotion); };
  CAUSEWAY_TRY(copy());  // the first also opens the way
  CAUSEWAY_TRY(stream->record(*begun));
  for (int probe = 0; probe < kProbes; ++probe) CAUSEWAY_TRY(copy());
  CAUSEWAY_TRY(stream->record(*ended));
  CAUSEWAY_TRY(stream->synchronize(seconds(60)));
  CAUSEWAY_ASSIGN(const Nanos begin, begun->completed_at());
  CAUSEWAY_ASSIGN(const Nanos end, ended->completed_at());
  const double took = to_seconds(std::max(end - begin, Nanos(1)));
  return kProbes * static_cast<double>(to.bytes().count) / took;
}

}  // namespace causeway::slice
