// What a LocalFleet sees its links give.
#include <algorithm>
#include <map>

#include "fleet/local_fleet_state.h"

namespace causeway::fleet {
namespace {

constexpr Nanos kLookAtLinks = seconds(1);

}  // namespace

// Where slices share a link the longest busy time counts: they bring weights at the same time,
// and more would make the link look slower than it is.
LocalFleet::State::Outputs LocalFleet::State::look_at_links() {
  const Nanos now = clock_.now();
  if (now < links_at_) return {};
  links_at_ = now + kLookAtLinks;
  carried_.resize(slices_.size());
  std::map<LinkId, LinkSeen> links;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const FleetSlice* const slice = slices_[i];
    const LinkId link = core_.link_of(SliceId(static_cast<std::int64_t>(i)));
    if (slice == nullptr || !link.valid()) continue;
    Carried& before = carried_[i];
    const Carried carried{slice, slice->link_bytes(), slice->link_busy()};
    LinkSeen& seen = links.try_emplace(link, LinkSeen{link, {}, {}}).first->second;
    const bool goes_on = before.slice == slice && carried.bytes >= before.bytes;
    if (goes_on && carried.busy > before.busy) {
      seen.moved += carried.bytes - before.bytes;
      seen.busy = std::max(seen.busy, carried.busy - before.busy);
    }
    before = carried;
  }
  Outputs outputs;
  for (const auto& [link, seen] : links) {
    for (request::Output& output : tell(seen)) outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace causeway::fleet
