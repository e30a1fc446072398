#include "weights/weight_ring.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::weights {

WeightRing::WeightRing(const StreamPlan& plan) {
  for (const StreamedGroup& group : plan.groups) distances_.push_back(group.distance);
  CAUSEWAY_CHECK(!distances_.empty(), "a ring for nothing");
}

std::optional<WeightRing::Next> WeightRing::next() const {
  const std::int64_t place = issued_ + 1;
  const std::int64_t group = issued_ % groups(), pass = issued_ / groups() + 1;
  if (pass > begun_ + (wanted_ ? 1 : 0)) return std::nullopt;
  const std::int64_t before = place - distances_[static_cast<std::size_t>(group)];
  if (consumed_ < before) return std::nullopt;
  // A step may have ended before its copies had.
  if (!under_way_.empty() && *under_way_.begin() <= before) return std::nullopt;
  return Next{static_cast<int>(group), static_cast<std::uint32_t>(pass)};
}

void WeightRing::issue() {
  CAUSEWAY_CHECK(next().has_value(), "a copy that may not begin yet");
  under_way_.insert(++issued_);
}

// Passes are told by 32 bits; those that are mentioned lie near the last that was issued.
std::int64_t WeightRing::place_of(int group, std::uint32_t pass) const {
  const std::int64_t last = std::max<std::int64_t>(issued_ - 1, 0) / groups() + 1;
  const auto behind = static_cast<std::int32_t>(static_cast<std::uint32_t>(last) - pass);
  return (last - behind - 1) * groups() + group + 1;
}

void WeightRing::ended(int group, std::uint32_t pass, bool ok) {
  const std::int64_t place = place_of(group, pass);
  CAUSEWAY_CHECK(under_way_.erase(place) == 1, "the end of a copy that is not under way");
  const std::int64_t of = (place - 1) / groups() + 1;
  if (!ok && of > ended_) failed_.insert(of);
}

std::uint32_t WeightRing::begin_pass() { return static_cast<std::uint32_t>(++begun_); }

std::uint32_t WeightRing::consumed_value(int group, std::uint32_t pass) const {
  const auto behind = static_cast<std::int32_t>(static_cast<std::uint32_t>(begun_) - pass);
  return static_cast<std::uint32_t>((begun_ - behind - 1) * groups() + group + 1);
}

void WeightRing::consumed(std::uint32_t counter) {
  const auto more = static_cast<std::int32_t>(counter - static_cast<std::uint32_t>(consumed_));
  if (more > 0) consumed_ += more;
  CAUSEWAY_CHECK(consumed_ <= begun_ * groups(), "more was consumed than steps were begun");
}

void WeightRing::forget() {
  CAUSEWAY_CHECK(quiet() && begun_ == ended_, "a ring that is in use is lost");
  const std::int64_t touched = (issued_ + groups() - 1) / groups();
  begun_ = ended_ = std::max(ended_, touched);
  issued_ = consumed_ = ended_ * groups();
  failed_.clear();
}

bool WeightRing::end_pass() {
  CAUSEWAY_CHECK(ended_ < begun_, "no step is in flight");
  ++ended_;
  consumed_ = std::max(consumed_, ended_ * groups());
  // What a step that failed did not wait for is not copied any more.
  issued_ = std::max(issued_, ended_ * groups());
  return failed_.erase(ended_) == 0;
}

}  // namespace causeway::weights
