#include "weights/stream_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace causeway::weights {
namespace {

constexpr std::int64_t kRingGroups = 3;  // one that is read, one that comes, one that is next

// One way to part the groups, and what follows from it.
class Parting {
 public:
  Parting(const WeightLayout& layout, std::span<const ReadingStep> reading,
          const StreamOptions& options, double share)
      : layout_(layout),
        options_(options),
        resident_extents_(
            static_cast<std::size_t>(round_up(layout.bytes, options.extent) / options.extent)) {
    part(reading, share);
    place();
    size_ring();
  }

  bool fits() const { return taken() <= options_.budget / options_.extent; }
  std::int64_t taken() const { return kept_ + ring_; }
  // Some group needs memory of the ring: not all lie in extents that resident ones keep.
  bool streams() const { return !extents_.empty(); }
  StreamPlan plan();

 private:
  struct Span {  // of a streamed group, in places of the sequence of ring extents
    std::int64_t first = 0;
    std::int64_t end = 0;
  };

  std::int64_t first_extent(const PlacedGroup& group) const {
    return group.offset / options_.extent;
  }
  std::int64_t end_extent(const PlacedGroup& group) const {
    return (group.offset + group.bytes - Bytes(1)) / options_.extent + 1;
  }
  const PlacedGroup& group(int index) const {
    return layout_.groups[static_cast<std::size_t>(index)];
  }

  void part(std::span<const ReadingStep> reading, double share);
  void place();
  void size_ring();
  std::int64_t smallest_ring() const;
  std::int64_t distance_of(std::size_t index) const;
  std::int64_t last_user(std::int64_t place) const;

  const WeightLayout& layout_;
  const StreamOptions options_;
  StreamPlan plan_;
  std::vector<bool> resident_extents_;  // by extent of the layout: a resident group uses it
  std::vector<std::int64_t> extents_;   // by place in the sequence: extent of the layout
  std::vector<Span> spans_;             // by streamed group
  std::int64_t kept_ = 0;               // extents of resident groups
  std::int64_t ring_ = 0;
};

// Resident groups are spread evenly: of the bytes up to any place, `share` are resident, as nearly
// as whole groups allow.
void Parting::part(std::span<const ReadingStep> reading, double share) {
  double all = 0, resident = 0;
  for (const ReadingStep& step : reading) {
    if (step.readable_at_home) continue;
    const PlacedGroup& placed = group(step.group);
    const auto bytes = static_cast<double>(placed.bytes.count);
    all += step.stays ? 0 : bytes;
    const bool stays = step.stays || resident + bytes <= share * all;
    if (!stays) {
      plan_.groups.push_back({step.group, placed.offset, placed.bytes, 0});
      plan_.bytes += placed.bytes;
      continue;
    }
    resident += step.stays ? 0 : bytes;
    plan_.resident.push_back(step.group);
    for (std::int64_t e = first_extent(placed); e < end_extent(placed); ++e) {
      resident_extents_[static_cast<std::size_t>(e)] = true;
    }
  }
  kept_ = std::count(resident_extents_.begin(), resident_extents_.end(), true);
}

// Extents that only streamed groups use, in reading order, one after the other. Neighbours in the
// layout may share one, which is then the last of the one and the first of the other.
void Parting::place() {
  for (const StreamedGroup& streamed : plan_.groups) {
    const PlacedGroup& placed = group(streamed.layout_group);
    Span span{std::ssize(extents_), 0};
    for (std::int64_t e = first_extent(placed); e < end_extent(placed); ++e) {
      if (resident_extents_[static_cast<std::size_t>(e)]) continue;
      if (!extents_.empty() && extents_.back() == e) {
        span.first = std::ssize(extents_) - 1;
      } else {
        extents_.push_back(e);
      }
    }
    span.end = std::max(span.first, std::ssize(extents_));
    spans_.push_back(span);
  }
}

// Any two neighbours: while one is read the other comes.
std::int64_t Parting::smallest_ring() const {
  std::int64_t most = 1;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const Span& one = spans_[i];
    const bool last = i + 1 == spans_.size();
    const std::int64_t next =
        last ? spans_.front().end - spans_.front().first : spans_[i + 1].end - one.end;
    most = std::max(most, one.end - one.first + std::max<std::int64_t>(next, 0));
  }
  return std::min(most, std::ssize(extents_));
}

// With a length of which the sequence is nearly a multiple, so that the first group of a step
// follows the last of the step before in the ring.
void Parting::size_ring() {
  if (extents_.empty()) return;
  std::int64_t largest = 1;
  for (const Span& span : spans_) largest = std::max(largest, span.end - span.first);
  const std::int64_t least = smallest_ring();
  std::int64_t wanted = (options_.ring + options_.extent - Bytes(1)) / options_.extent;
  if (wanted == 0) {
    wanted = std::min(kRingGroups * largest, options_.budget / options_.extent / 2);
  }
  wanted = std::clamp(wanted, least, std::ssize(extents_));
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t even = up(std::ssize(extents_), up(std::ssize(extents_), wanted));
  ring_ = even >= least ? even : wanted;
}

// The last streamed group that uses the place.
std::int64_t Parting::last_user(std::int64_t place) const {
  std::int64_t user = -1;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (spans_[i].first <= place && place < spans_[i].end) user = static_cast<std::int64_t>(i);
  }
  CAUSEWAY_CHECK(user >= 0, "an extent of the ring that no group uses");
  return user;
}

std::int64_t Parting::distance_of(std::size_t index) const {
  const std::int64_t groups = std::ssize(spans_), places = std::ssize(extents_);
  const auto own = static_cast<std::int64_t>(index);
  std::int64_t distance = groups;  // its own bytes of the pass before
  for (std::int64_t place = spans_[index].first; place < spans_[index].end; ++place) {
    if (place >= ring_) {
      distance = std::min(distance, own - last_user(place - ring_));
      continue;
    }
    // In the pass before: the last place that had the same extent of the ring.
    const std::int64_t before = place + (places - 1 - place) / ring_ * ring_;
    distance = std::min(distance, own + groups - last_user(before));
  }
  CAUSEWAY_CHECK(distance >= 1, "a group does not fit the ring");
  return distance;
}

StreamPlan Parting::plan() {
  plan_.ring_first = std::ssize(resident_extents_);
  plan_.ring_extents = ring_;
  for (std::size_t i = 0; i < plan_.groups.size(); ++i) plan_.groups[i].distance = distance_of(i);
  for (std::int64_t place = 0; place < std::ssize(extents_); ++place) {
    const std::int64_t extent = extents_[static_cast<std::size_t>(place)];
    const std::int64_t ring = plan_.ring_first + place % ring_;
    ExtentAlias* last = plan_.aliases.empty() ? nullptr : &plan_.aliases.back();
    if (last != nullptr && last->first + last->count == extent &&
        last->ring + last->count == ring) {
      ++last->count;
    } else {
      plan_.aliases.push_back({extent, ring, 1});
    }
  }
  return std::move(plan_);
}

}  // namespace

Result<StreamPlan> plan_stream(const WeightLayout& layout, std::span<const ReadingStep> reading,
                               const StreamOptions& options) {
  CAUSEWAY_CHECK(options.extent.count > 0 && options.ring.count >= 0, "an extent without a size");
  // From all to none: as much as fits stays.
  const auto steps = static_cast<double>(reading.size());
  for (double kept = steps; kept >= 0; --kept) {
    Parting parting(layout, reading, options, kept / steps);
    if (parting.streams() && parting.fits()) return parting.plan();
  }
  const Parting none(layout, reading, options, 0);
  if (!none.streams()) return invalid_argument("no part of the model can be streamed");
  const auto size = [](Bytes bytes) {
    return bytes < mib(16) ? std::to_string(bytes.count) + " bytes"
                           : std::to_string(bytes.count >> 20) + " MiB";
  };
  return exhausted("a model of " + size(round_up(layout.bytes, options.extent)) +
                   " that is streamed takes " + size(options.extent * none.taken()) +
                   " of the device's memory for weights at least, and may have " +
                   size(options.budget));
}

}  // namespace causeway::weights
