#include "weights/resident_model.h"

#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "device/arena.h"

namespace causeway::weights {
namespace {

constexpr Bytes kAlignment = Bytes(256);  // of each group: what kernels load at once, and more

// Where a group lies at home and, from the first extent's start, on the device.
struct Placed {
  const std::byte* home = nullptr;
  Bytes offset;
};

using Places = std::map<std::string, Placed, std::less<>>;

class ResidentModel final : public PinnedModel {
 public:
  ResidentModel(std::unique_ptr<PinnedModel> home, device::Extents extents, Places places)
      : home_(std::move(home)), extents_(std::move(extents)), places_(std::move(places)) {}

  WeightView weight(std::string_view group, std::string_view tensor) const override {
    WeightView view = home_->weight(group, tensor);
    const auto placed = places_.find(group);
    CAUSEWAY_CHECK(placed != places_.end(), group);
    view.data = extents_.data() + placed->second.offset.count + (view.data - placed->second.home);
    view.place = WeightPlace::kResident;
    return view;
  }
  const std::vector<GroupRange>& groups() const override { return home_->groups(); }
  Bytes bytes() const override { return home_->bytes(); }

 private:
  std::unique_ptr<PinnedModel> home_;
  device::Extents extents_;
  Places places_;
};

Bytes place(const PinnedModel& home, const device::HostMemory& memory, Places& places) {
  Bytes end;
  for (const GroupRange& group : home.groups()) {
    places[group.name] = {memory.resolve(group.address, group.bytes).data(), end};
    end = round_up(end + group.bytes, kAlignment);
  }
  return end;
}

Result<device::Extents> take_extents(device::Arena& arena, Bytes bytes) {
  return arena.allocate(arena.extents_for(bytes), device::Arena::End::kHigh)
      .with_context("no room for a model of " + std::to_string(bytes.count >> 20) + " MiB");
}

}  // namespace

Result<std::unique_ptr<PinnedModel>> make_resident(std::unique_ptr<PinnedModel> home,
                                                   const device::HostMemory& memory,
                                                   device::Device& device, Nanos timeout) {
  Places places;
  const Bytes bytes = place(*home, memory, places);
  CAUSEWAY_ASSIGN(device::Extents extents, take_extents(device.arena(), bytes));
  // Destroyed, and with it what is left of the copies, before the extents go back.
  CAUSEWAY_ASSIGN(const auto stream, device.make_stream("weights"));
  for (const GroupRange& group : home->groups()) {
    const Bytes offset = extents.offset() + places.find(group.name)->second.offset;
    const device::Copy copy{device::MemoryAddress::in_arena(device.id(), offset),
                            device::MemoryAddress::in_host(group.address), group.bytes};
    CAUSEWAY_TRY(stream->copy({&copy, 1}, device::CopyPriority::kWeightsAhead));
  }
  CAUSEWAY_TRY(stream->synchronize(timeout));
  return std::unique_ptr<PinnedModel>(
      std::make_unique<ResidentModel>(std::move(home), std::move(extents), std::move(places)));
}

}  // namespace causeway::weights
