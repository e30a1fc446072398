#include "fleet/fleet_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"

namespace causeway::fleet {
namespace {

constexpr std::int64_t kMarkedMax = 6;

bool is_in(std::span<const ModelId> models, ModelId model) {
  return std::find(models.begin(), models.end(), model) != models.end();
}

double share(double sum, double limit) { return limit > 0 ? sum / limit : 0; }

std::int64_t whole(double bytes_per_second) { return std::llround(bytes_per_second); }

auto find_model(auto& models, ModelId model) {
  return std::find_if(models.begin(), models.end(),
                      [&](const PlacedModel& placed) { return placed.model == model; });
}

}  // namespace

FleetView::FleetView(std::vector<SliceSpec> specs, std::vector<LinkSpec> links)
    : links_(std::move(links)),
      link_used_(links_.size()),
      slices_of_link_(links_.size()),
      index_(std::ssize(specs)) {
  for (SliceSpec& spec : specs) {
    const SliceId id(std::ssize(slices_));
    CAUSEWAY_DCHECK(spec.link.value < std::ssize(links_),
                    "a slice's link is not one of the fleet's");
    if (spec.link.valid()) slices_of_link_[static_cast<std::size_t>(spec.link.value)].push_back(id);
    slices_.push_back({.spec = spec});
  }
}

void FleetView::set_up(SliceId id, bool up) {
  CAUSEWAY_DCHECK(id.valid() && id.value < size(), "no such slice");
  slices_[static_cast<std::size_t>(id.value)].up = up;
  index_.touch(id);
}

void FleetView::set_slice(SliceId id, const SliceSpec& spec) {
  CAUSEWAY_CHECK(id.valid() && id.value <= size(), "slices are not numbered one after the other");
  CAUSEWAY_CHECK(spec.link.value < std::ssize(links_), "the links of a fleet stay the same");
  const bool added = id.value == size();
  if (added) slices_.emplace_back();
  SliceView& slice = slices_[static_cast<std::size_t>(id.value)];
  CAUSEWAY_CHECK(slice.models.empty(), "a slice is another one while models are on it");
  if (!added && slice.spec.link.valid()) {
    std::erase(slices_of_link_[static_cast<std::size_t>(slice.spec.link.value)], id);
  }
  if (spec.link.valid()) slices_of_link_[static_cast<std::size_t>(spec.link.value)].push_back(id);
  slice = {.spec = spec};
  added ? (void)(index_ = FleetIndex(size())) : index_.touch(id);
}

void FleetView::set_link_rate(LinkId id, double bytes_per_second) {
  CAUSEWAY_DCHECK(id.valid() && id.value < std::ssize(links_), "no such link");
  const auto link = static_cast<std::size_t>(id.value);
  links_[link].bytes_per_second = bytes_per_second;
  for (const SliceId slice : slices_of_link_[link]) index_.touch(slice);
}

const FleetIndex& FleetView::index() const {
  index_.bring_up(*this);
  return index_;
}

double FleetView::link_used(SliceId id) const {
  const LinkId link = slice(id).spec.link;
  return link.valid() ? static_cast<double>(link_used_[static_cast<std::size_t>(link.value)]) : 0;
}

double FleetView::link_share(SliceId id) const {
  const LinkId link = slice(id).spec.link;
  if (!link.valid()) return Offer::kNone;
  const auto index = static_cast<std::size_t>(link.value);
  CAUSEWAY_DCHECK(!slices_of_link_[index].empty(), "a slice that is not among those of its link");
  const double rate = links_[index].bytes_per_second;
  return rate > 0 ? rate / static_cast<double>(slices_of_link_[index].size()) : Offer::kNone;
}

void FleetView::put(SliceId id, const PlacedModel& model) {
  CAUSEWAY_DCHECK(id.valid() && id.value < size(), "no such slice");
  SliceView& slice = slices_[static_cast<std::size_t>(id.value)];
  const auto at = find_model(slice.models, model.model);
  if (at == slice.models.end()) {
    slice.models.push_back(model);
  } else {
    *at = model;
  }
  add_up(id);
}

void FleetView::remove(SliceId id, ModelId model) {
  SliceView& slice = slices_[static_cast<std::size_t>(id.value)];
  const auto at = find_model(slice.models, model);
  if (at == slice.models.end()) return;
  slice.models.erase(at);
  add_up(id);
}

// Anew, so that no rounding stays behind.
void FleetView::add_up(SliceId id) {
  SliceView& slice = slices_[static_cast<std::size_t>(id.value)];
  const double before = slice.sum.link_bytes_per_second;
  slice.sum = sum(id, {});
  slice.requests = 0;
  for (const PlacedModel& placed : slice.models) slice.requests += placed.requests;
  index_.touch(id);
  // A little at every change, so that the next decision finds little to do.
  if (index_.marked() >= kMarkedMax) index_.bring_up(*this);
  if (!slice.spec.link.valid()) return;
  const auto link = static_cast<std::size_t>(slice.spec.link.value);
  const std::int64_t more = whole(slice.sum.link_bytes_per_second) - whole(before);
  if (more == 0) return;
  link_used_[link] += more;
  CAUSEWAY_DCHECK(link_used_[link] >= 0, "a link gets back what its slices took");
  for (const SliceId other : slices_of_link_[link]) index_.touch(other);
}

Demand FleetView::sum(SliceId id, std::span<const ModelId> gone) const {
  Demand sum;
  for (const PlacedModel& placed : slice(id).models) {
    if (!is_in(gone, placed.model)) sum += placed.demand;
  }
  return sum;
}

double FleetView::excess(SliceId id, std::span<const ModelId> gone, const Demand& more) const {
  const SliceView& slice = this->slice(id);
  Demand own = gone.empty() ? slice.sum : sum(id, gone);
  const double others_link = slice.sum.link_bytes_per_second - own.link_bytes_per_second;
  own += more;
  double link = more.link_bytes_per_second, rate = 0;
  if (slice.spec.link.valid()) {
    rate = links_[static_cast<std::size_t>(slice.spec.link.value)].bytes_per_second;
    link += link_used(id) - others_link;
  }
  return std::max({share(link, rate),
                   share(own.memory_bytes_per_second, slice.spec.memory_bytes_per_second),
                   share(own.flops_per_second, slice.spec.flops_per_second)});
}

bool FleetView::shows(SliceId id, const FleetView& other) const {
  const auto& models = slice(id).models;
  const auto& others = other.slice(id).models;
  return models.size() == others.size() &&
         std::all_of(models.begin(), models.end(), [&](const PlacedModel& model) {
           const auto at = find_model(others, model.model);
           return at != others.end() && at->may_go == model.may_go &&
                  at->may_drain == model.may_drain && at->requests == model.requests &&
                  at->bytes == model.bytes && at->demand.stays == model.demand.stays &&
                  at->demand.crosses == model.demand.crosses;
         });
}

bool FleetView::adds_up() const {
  std::vector<std::int64_t> used(links_.size());
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const SliceId id(static_cast<std::int64_t>(i));
    std::int64_t requests = 0;
    for (const PlacedModel& placed : slices_[i].models) requests += placed.requests;
    const Demand now = sum(id, {});
    if (requests != slices_[i].requests) return false;
    if (now.memory != slices_[i].sum.memory || now.stays != slices_[i].sum.stays) return false;
    if (!slices_[i].spec.link.valid()) continue;
    used[static_cast<std::size_t>(slices_[i].spec.link.value)] += whole(now.link_bytes_per_second);
  }
  return used == link_used_;
}

}  // namespace causeway::fleet
