#include "simulate/ring_places.h"

#include <algorithm>

namespace causeway::simulate {
namespace {

// The extent whose memory shows there.
std::int64_t resolve(const weights::StreamPlan& plan, std::int64_t extent) {
  for (const weights::ExtentAlias& alias : plan.aliases) {
    if (extent >= alias.first && extent < alias.first + alias.count) {
      return alias.ring + (extent - alias.first);
    }
  }
  return extent;
}

}  // namespace

RingPlaces::RingPlaces(const weights::StreamPlan& plan, Bytes extent) {
  for (const weights::StreamedGroup& group : plan.groups) {
    places_.push_back(place_of(plan, group, extent));
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    for (std::size_t other = 0; other < places_.size(); ++other) {
      if (other != i && overlap(places_[i], places_[other])) {
        places_[i].overwrites.push_back(static_cast<int>(other));
      }
    }
  }
}

RingPlaces::Place RingPlaces::place_of(const weights::StreamPlan& plan,
                                       const weights::StreamedGroup& group, Bytes extent) {
  Place place;
  const Bytes end = group.offset + group.bytes;
  for (Bytes at = group.offset; at < end;) {
    const std::int64_t shown = at / extent;
    const std::int64_t memory = resolve(plan, shown);
    const Bytes next = std::min(end, extent * (shown + 1));
    const Bytes shift = extent * (memory - shown);
    place.pieces.push_back({at + shift, next + shift});
    place.extents.push_back(memory);
    at = next;
  }
  return place;
}

bool RingPlaces::overlap(const Place& one, const Place& other) {
  return std::any_of(one.pieces.begin(), one.pieces.end(), [&](const Piece& a) {
    return std::any_of(other.pieces.begin(), other.pieces.end(),
                       [&](const Piece& b) { return a.first < b.end && b.first < a.end; });
  });
}

}  // namespace causeway::simulate
