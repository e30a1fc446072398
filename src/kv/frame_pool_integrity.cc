// FramePool::check(): every invariant of the frames, by recomputation.
#include <string>

#include "base/check.h"
#include "kv/frame_pool.h"

namespace causeway::kv {
namespace {

Error broken(FrameId frame, const std::string& what) {
  return corrupt("KV frame " + std::to_string(frame.value) + ": " + what);
}

}  // namespace

Status FramePool::check_frame(FrameId id, std::int64_t references, const Copies& copies) const {
  const Frame& frame = at(id);
  if (frame.copies != copies) {
    return broken(id, std::to_string(copies.all) + " copies use it, " +
                                std::to_string(copies.given_up) + " of them given up; it counts " +
                                std::to_string(frame.copies.all) + " and " +
                                std::to_string(frame.copies.given_up));
  }
  if (frame.references != references) {
    return broken(id, std::to_string(references) +
                                " tables list it, its reference count is " +
                                std::to_string(frame.references));
  }
  if ((frame.state == FrameState::kReferenced) != (references > 0)) {
    return broken(id, "referenced though in no table, or not referenced though in one");
  }
  if (frame.indexed && holder(frame.hash) != id)
    return broken(id, "the index does not hold it");
  if (frame.indexed && frame.filling.valid()) return broken(id, "indexed before it is full");
  if (references > 1 && !frame.indexed) return broken(id, "shared, but not indexed");
  const bool in_use =
      frame.state == FrameState::kReferenced || frame.state == FrameState::kQuarantined;
  if (frame.retiring && !in_use) return broken(id, "retiring, though nothing uses it");
  const bool empty = frame.state == FrameState::kFree || frame.state == FrameState::kGone;
  if (empty && (frame.indexed || frame.filling.valid())) {
    return broken(id, "free or gone, but it holds a block");
  }
  if (frame.state == FrameState::kCached && !frame.indexed) {
    return broken(id, "cached, but not indexed");
  }
  if (empty && copies.all > 0) return broken(id, "free or gone while a copy uses it");
  if (!in_use) {
    if (!is_done(frame.last_user)) return broken(id, "reusable while a step uses it");
  }
  if (frame.filling.valid() && is_done(frame.filling)) {
    return broken(id, "waits for a step that is done");
  }
  return {};
}

Status FramePool::check_list(const List& list, FrameState state, StepId until,
                             std::vector<bool>& listed) const {
  FrameId previous;
  for (FrameId id = list.first; id.valid(); id = at(id).next) {
    const Frame& frame = at(id);
    if (listed[static_cast<std::size_t>(id.value)]) return broken(id, "listed twice");
    listed[static_cast<std::size_t>(id.value)] = true;
    if (frame.state != state) return broken(id, "on the list of another state");
    if (frame.previous != previous) return broken(id, "its list is not linked both ways");
    if (until.valid() && frame.last_user != until) {
      return broken(id, "quarantined until the wrong step");
    }
    previous = id;
  }
  if (list.last != previous) return corrupt("a list of KV frames has the wrong end");
  return {};
}

Status FramePool::check_counts() const {
  FrameCounts counted;
  std::int64_t indexed = 0;
  for (const Frame& frame : frames_) {
    switch (frame.state) {
      case FrameState::kFree: ++counted.free; break;
      case FrameState::kQuarantined: ++counted.quarantined; break;
      case FrameState::kCached: ++counted.cached; break;
      case FrameState::kReferenced: ++counted.referenced; break;
      case FrameState::kGone: ++counted.gone; break;
    }
    counted.retiring += frame.retiring ? 1 : 0;
    counted.copying += frame.state == FrameState::kCached && frame.copies.all > 0 ? 1 : 0;
    const bool stranded = frame.state == FrameState::kQuarantined && frame.copies.given_up > 0;
    counted.stranded += stranded ? 1 : 0;
    indexed += frame.indexed ? 1 : 0;
  }
  if (counted != counts_) {
    return corrupt("the counts of KV frames do not match their states");
  }
  if (indexed != index_.size()) return corrupt("the KV prefix index lists frames that it must not");
  return {};
}

Status FramePool::check_quarantine(std::vector<bool>& listed) const {
  for (const auto& [until, list] : quarantined_) {
    if (is_done(until)) return corrupt("a quarantine of KV frames outlived its step");
    CAUSEWAY_TRY(check_list(list, FrameState::kQuarantined, until, listed));
  }
  CAUSEWAY_TRY(check_list(copied_, FrameState::kQuarantined, StepId(), listed));
  for (FrameId id = copied_.first; id.valid(); id = at(id).next) {
    if (!is_done(at(id).last_user)) return broken(id, "waits for a copy, but for a step too");
    if (at(id).copies.all == 0) return broken(id, "quarantined, though nothing uses it");
  }
  return {};
}

Status FramePool::check(std::span<const std::int64_t> references,
                        std::span<const Copies> copies) const {
  CAUSEWAY_CHECK(references.size() == frames_.size() && copies.size() == frames_.size());
  std::vector<bool> listed(frames_.size(), false);
  CAUSEWAY_TRY(check_list(free_, FrameState::kFree, StepId(), listed));
  CAUSEWAY_TRY(check_list(cached_, FrameState::kCached, StepId(), listed));
  CAUSEWAY_TRY(check_quarantine(listed));
  for (std::size_t f = 0; f < frames_.size(); ++f) {
    const FrameId id(static_cast<std::int64_t>(f));
    CAUSEWAY_TRY(check_frame(id, references[f], copies[f]));
    const FrameState state = frames_[f].state;
    if (listed[f] == (state == FrameState::kReferenced || state == FrameState::kGone)) {
      return broken(id, "on a list though referenced or gone, or on none");
    }
  }
  return check_counts();
}

}  // namespace causeway::kv
