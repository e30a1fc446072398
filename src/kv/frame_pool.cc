#include "kv/frame_pool.h"

#include <algorithm>
#include <string>

namespace causeway::kv {

FramePool::FramePool(std::int64_t frames, std::int64_t frames_max, bool keep) : keep_(keep) {
  CAUSEWAY_CHECK(frames >= 0, "a KV cache of a negative number of frames");
  CAUSEWAY_CHECK(frames <= frames_max, "more KV frames than there may ever be");
  frames_.resize(static_cast<std::size_t>(frames_max));
  for (Frame& frame : frames_) frame.state = FrameState::kGone;
  counts_.gone = frames_max;
  for (std::int64_t f = 0; f < frames; ++f) add(FrameId(f));
}

FramePool::Frame& FramePool::at(FrameId frame) {
  return const_cast<Frame&>(std::as_const(*this).at(frame));
}

const FramePool::Frame& FramePool::at(FrameId frame) const {
  CAUSEWAY_CHECK(frame.value >= 0 && frame.value < size(), "no such frame");
  return frames_[static_cast<std::size_t>(frame.value)];
}

void FramePool::push_back(List& list, FrameId id) {
  list.push_back([this](FrameId frame) -> Frame& { return at(frame); }, id);
}

void FramePool::push_front(List& list, FrameId id) {
  list.push_front([this](FrameId frame) -> Frame& { return at(frame); }, id);
}

void FramePool::unlink(List& list, FrameId id) {
  list.unlink([this](FrameId frame) -> Frame& { return at(frame); }, id);
}

// Quarantines a frame that a step or a copy uses and no table lists.
void FramePool::quarantine(FrameId id) {
  Frame& frame = at(id);
  frame.state = FrameState::kQuarantined;
  push_back(is_done(frame.last_user) ? copied_ : quarantined_[frame.last_user], id);
  count_quarantined(frame, 1);
}

void FramePool::count_quarantined(const Frame& frame, std::int64_t change) {
  counts_.quarantined += change;
  if (frame.copies.given_up > 0) counts_.stranded += change;
}

void FramePool::unlink_quarantined(FrameId id) {
  if (is_done(at(id).last_user)) return unlink(copied_, id);
  const auto list = quarantined_.find(at(id).last_user);
  CAUSEWAY_CHECK(list != quarantined_.end(), "a quarantined frame is on no list");
  unlink(list->second, id);
  if (!list->second.first.valid()) quarantined_.erase(list);
}

void FramePool::unindex(FrameId id) {
  Frame& frame = at(id);
  if (!frame.indexed) return;
  index_.erase(frame.hash, id);
  frame.indexed = false;
}

FrameId FramePool::take(ModelId model) {
  CAUSEWAY_CHECK(counts_.available() > 0, "no frame is available");
  const bool evict = !free_.first.valid();
  FrameId id = evict ? cached_.first : free_.first;
  while (evict && in_copy(at(id))) id = at(id).next;
  unlink(evict ? cached_ : free_, id);
  --(evict ? counts_.cached : counts_.free);
  ++counts_.referenced;
  Frame& frame = at(id);
  unindex(id);
  frame.state = FrameState::kReferenced;
  frame.references = 1;
  frame.model = model;
  frame.last_user = StepId();
  frame.filling = StepId();
  ++frame.takes;
  return id;
}

void FramePool::reference(FrameId id) {
  Frame& frame = at(id);
  CAUSEWAY_CHECK(frame.indexed, "only full, indexed blocks can be shared");
  if (frame.state == FrameState::kCached) {
    unlink(cached_, id);
    --counts_.cached;
    if (frame.copies.all > 0) --counts_.copying;
    ++counts_.referenced;
  } else if (frame.state == FrameState::kQuarantined) {
    unlink_quarantined(id);
    count_quarantined(frame, -1);
    ++counts_.referenced;
  }
  frame.state = FrameState::kReferenced;
  ++frame.references;
}

void FramePool::unreference(FrameId id, StepId last_user) {
  Frame& frame = at(id);
  CAUSEWAY_CHECK(frame.state == FrameState::kReferenced, "the frame is not referenced");
  // The frame waits for more than this user's step: another sequence that shared it and left
  // earlier may still be in a step in flight, and the step that fills the block certainly is.
  frame.last_user = std::max({frame.last_user, last_user, frame.filling});
  if (--frame.references > 0) return;
  --counts_.referenced;
  frame.let_go = next_let_go();
  if (!is_done(frame.last_user) || in_copy(frame)) {
    quarantine(id);
  } else {
    settle(id);
  }
}

bool FramePool::in_copy(const Frame& frame) { return frame.copies.all > 0; }

void FramePool::begin_copy(FrameId id) {
  Frame& frame = at(id);
  CAUSEWAY_CHECK(frame.state != FrameState::kFree && frame.state != FrameState::kGone,
                 "a copy uses a frame that holds nothing");
  ++frame.copies.all;
  if (frame.copies.all == 1 && frame.state == FrameState::kCached) ++counts_.copying;
}

void FramePool::give_up_copy(FrameId id) {
  Frame& frame = at(id);
  CAUSEWAY_CHECK(frame.copies.given_up < frame.copies.all, "no copy of the frame is to give up");
  ++frame.copies.given_up;
  if (frame.copies.given_up == 1 && frame.state == FrameState::kQuarantined) ++counts_.stranded;
}

void FramePool::end_copy(FrameId id, bool given_up) {
  Frame& frame = at(id);
  CAUSEWAY_CHECK(frame.copies.all > 0, "no copy uses the frame");
  if (given_up) {
    CAUSEWAY_CHECK(frame.copies.given_up > 0, "no copy of the frame was given up");
    --frame.copies.given_up;
    if (frame.copies.given_up == 0 && frame.state == FrameState::kQuarantined) --counts_.stranded;
  }
  if (--frame.copies.all > 0) return;
  if (frame.state == FrameState::kCached) --counts_.copying;
  if (frame.state != FrameState::kQuarantined || !is_done(frame.last_user)) return;
  unlink(copied_, id);
  count_quarantined(frame, -1);
  settle(id);
}

void FramePool::settle(FrameId id) {
  Frame& frame = at(id);
  if (frame.retiring) {
    frame.retiring = false;
    --counts_.retiring;
    leave(id);
  } else if (frame.indexed && keep_) {
    frame.state = FrameState::kCached;
    push_back(cached_, id);
    ++counts_.cached;
  } else {
    unindex(id);
    frame.state = FrameState::kFree;
    push_front(free_, id);  // most recently used first: likeliest to be in a CPU cache
    ++counts_.free;
  }
}

// The frame is on no list, and is gone from now on.
void FramePool::leave(FrameId id) {
  Frame& frame = at(id);
  unindex(id);
  frame.state = FrameState::kGone;
  ++counts_.gone;
}

void FramePool::add(FrameId id) {
  Frame& frame = at(id);
  if (frame.retiring) {
    frame.retiring = false;
    --counts_.retiring;
    return;
  }
  CAUSEWAY_CHECK(frame.state == FrameState::kGone, "a frame is added twice");
  frame.state = FrameState::kFree;
  push_back(free_, id);
  --counts_.gone;
  ++counts_.free;
}

void FramePool::retire(FrameId id) {
  Frame& frame = at(id);
  CAUSEWAY_CHECK(frame.state != FrameState::kGone && !frame.retiring, "a frame is retired twice");
  if (frame.state == FrameState::kReferenced || frame.state == FrameState::kQuarantined) {
    frame.retiring = true;
    ++counts_.retiring;
    return;
  }
  const bool free = frame.state == FrameState::kFree;
  unlink(free ? free_ : cached_, id);
  --(free ? counts_.free : counts_.cached);
  if (frame.copies.all == 0) return leave(id);
  --counts_.copying;
  quarantine(id);
  frame.retiring = true;
  ++counts_.retiring;
}

void FramePool::begin_fill(FrameId id, const PrefixHash& hash, StepId step) {
  Frame& frame = at(id);
  CAUSEWAY_CHECK(frame.state == FrameState::kReferenced && frame.references == 1,
                 "a block that is being filled has one owner");
  CAUSEWAY_CHECK(!frame.indexed && !is_done(step), "a full block is changed");
  frame.filling = step;
  frame.hash = hash;
}

bool FramePool::end_fill(FrameId id, const PrefixHash& hash, StepId step) {
  Frame& frame = at(id);
  if (frame.filling != step || frame.hash != hash) return false;
  frame.filling = StepId();
  return index(id, hash);
}

void FramePool::abandon_fill(FrameId id, const PrefixHash& hash, StepId step) {
  Frame& frame = at(id);
  if (frame.filling == step && frame.hash == hash) frame.filling = StepId();
}

bool FramePool::index(FrameId id, const PrefixHash& hash) {
  Frame& frame = at(id);
  CAUSEWAY_CHECK(!frame.indexed, "the block is indexed already");
  // Two sequences may fill equal blocks at the same time; the index finds the first that is done.
  if (holder(hash).valid()) return false;
  index_.insert(hash, id);
  frame.hash = hash;
  frame.indexed = true;
  frame.ordinal = next_ordinal_++;
  return true;
}

FrameId FramePool::find(const PrefixHash& hash) const {
  const FrameId frame = holder(hash);
  return frame.valid() && retiring(frame) ? FrameId() : frame;
}

FrameId FramePool::holder(const PrefixHash& hash) const {
  return index_.find(hash, [&](FrameId frame) { return at(frame).hash == hash; });
}

void FramePool::step_done(StepId step, StepId oldest) {
  done_ = std::max(done_, StepId(oldest.value - 1));
  done_ahead_.erase(done_ahead_.begin(), done_ahead_.upper_bound(done_));
  if (step > done_) done_ahead_.insert(step);
  for (auto at = quarantined_.begin();
       at != quarantined_.end() && at->first <= std::max(step, done_);) {
    if (!is_done(at->first)) {
      ++at;
      continue;
    }
    List& list = at->second;
    while (list.first.valid()) {
      const FrameId id = list.first;
      unlink(list, id);
      count_quarantined(this->at(id), -1);
      if (in_copy(this->at(id))) {
        quarantine(id);
      } else {
        settle(id);
      }
    }
    at = quarantined_.erase(at);
  }
}

void FramePool::forget_model(ModelId model) {
  for (std::int64_t f = 0; f < size(); ++f) {
    const FrameId id(f);
    Frame& frame = at(id);
    if (frame.model != model) continue;
    CAUSEWAY_CHECK(frame.state != FrameState::kReferenced, "the model has frames in use");
    unindex(id);
    frame.filling = StepId();
    if (frame.state != FrameState::kCached) continue;
    unlink(cached_, id);
    --counts_.cached;
    if (frame.copies.all == 0) {
      settle(id);
    } else {
      --counts_.copying;
      quarantine(id);
    }
  }
}

}  // namespace causeway::kv
