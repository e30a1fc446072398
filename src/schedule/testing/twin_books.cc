#include "schedule/testing/twin_books.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::schedule {

void TwinBooks::opened(RequestId sequence, ModelId model) {
  sequences_[sequence] = {.model = model};
}

void TwinBooks::rotate_out(RequestId sequence, Tokens computed, StepId copied, StepId last_user) {
  Entry& entry = sequences_.at(sequence);
  CAUSEWAY_CHECK(entry.place == Place::kHbm, "only what is in HBM rotates out");
  entry.twins = std::ssize(kv_.table(sequence));
  CAUSEWAY_CHECK(entry.twins <= twins_available(), "twins are lacking");
  held_ += entry.twins;
  entry.place = copied.valid() ? Place::kLeaving : Place::kHost;
  entry.until = copied;
  entry.computed = computed;
  kv_.release(sequence, last_user);
}

std::int64_t TwinBooks::rotate_in(RequestId sequence, std::span<const TokenId> tokens,
                                  StepId step) {
  Entry& entry = sequences_.at(sequence);
  CAUSEWAY_CHECK(entry.place == Place::kHost, "only what is in host memory rotates in");
  CAUSEWAY_CHECK(std::ssize(tokens) > entry.computed.count, "a token to compute is known");
  const auto known = tokens.first(static_cast<std::size_t>(entry.computed.count) + 1);
  const std::int64_t hits =
      kv_.open(sequence, entry.model, known).count / kv_.tokens_per_block(entry.model).count;
  CAUSEWAY_CHECK(kv_.grow(sequence, entry.computed), "frames to come back to are lacking");
  held_ -= entry.twins;
  entry.twins = 0;
  entry.place = Place::kArriving;
  entry.until = step;
  return std::ssize(kv_.table(sequence)) - hits;
}

void TwinBooks::released(RequestId sequence) {
  const auto at = sequences_.find(sequence);
  if (at == sequences_.end()) return;
  held_ -= at->second.twins;
  sequences_.erase(at);
}

void TwinBooks::step_done(StepId step) {
  for (auto& [id, entry] : sequences_) {
    if (entry.until > step) continue;
    if (entry.place == Place::kArriving) entry.place = Place::kHbm;
    if (entry.place == Place::kLeaving) entry.place = Place::kHost;
  }
}

bool TwinBooks::may_leave(RequestId sequence) const { return entry(sequence).place == Place::kHbm; }
bool TwinBooks::may_return(RequestId sequence) const {
  return entry(sequence).place == Place::kHost;
}

RotateOutCost TwinBooks::out_cost(RequestId sequence) const {
  const std::int64_t blocks = std::ssize(kv_.table(sequence));
  return {.twins = blocks,
          .copies = eager_ ? std::min<std::int64_t>(1, blocks) : blocks,
          .frames = blocks};
}

PrefixCost TwinBooks::prefix_cost(ModelId model, std::span<const TokenId> tokens) const {
  const Tokens found = kv_.match_prefix(model, tokens);
  return {.in_hbm = found, .in_all = found, .frames = kv_.cached_frames_of_prefix(model, tokens)};
}

RotateInCost TwinBooks::in_cost(RequestId sequence) const {
  const std::int64_t blocks = entry(sequence).twins;
  return {.frames = blocks, .copies = blocks};
}

double TwinBooks::prefill_rate(ModelId model) const {
  const auto found = prefill_rates_.find(model);
  return found == prefill_rates_.end() ? 0 : found->second;
}

}  // namespace causeway::schedule
