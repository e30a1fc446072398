#include "fleet/unload.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/dcheck.h"

namespace causeway::fleet {
namespace {

// As weights::ResidencyOptions::rate_decay: what is cheap to bring back is the same at both places.
constexpr Nanos kDecay = seconds(60);

// Chooses among candidates, in their order.
UnloadChoice choose(const auto& candidates, Bytes wanted) {
  UnloadChoice choice;
  std::vector<UnloadCandidate> chosen;
  for (const UnloadCandidate& candidate : candidates) {
    if (choice.freed >= wanted) break;
    choice.freed += candidate.bytes;
    chosen.push_back(candidate);
  }
  if (choice.freed < wanted) return choice;
  // Small ones that went first may not be needed beside a large one; the dearest are spared first.
  for (std::size_t i = chosen.size(); i-- > 0;) {
    if (choice.freed - chosen[i].bytes < wanted) continue;
    choice.freed -= chosen[i].bytes;
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(i));
  }
  CAUSEWAY_DCHECK(choice.freed >= wanted, "a model that is spared was not needed");
  for (const UnloadCandidate& candidate : chosen) choice.models.push_back(candidate.model);
  return choice;
}

}  // namespace

void DecayedCount::add(Nanos now) {
  now = std::max(now, last_);
  count_ = at(now) + 1;
  last_ = now;
  CAUSEWAY_DCHECK(count_ >= 1, "a request counts whole when it comes");
}

double DecayedCount::at(Nanos now) const {
  return count_ * std::exp(-std::max(0.0, to_seconds(now - last_)) / to_seconds(kDecay));
}

double DecayedCount::log_rate() const {
  return std::log(count_) + to_seconds(last_) / to_seconds(kDecay);
}

double log_cost(Bytes bytes, double log_rate) {
  return std::log(static_cast<double>(bytes.count)) + log_rate;
}

bool UnloadCandidate::operator<(const UnloadCandidate& other) const {
  return std::tuple(cost, last_used, model) < std::tuple(other.cost, other.last_used, other.model);
}

UnloadChoice choose_unloads(std::vector<UnloadCandidate> candidates, Bytes wanted) {
  std::sort(candidates.begin(), candidates.end());
  return choose(candidates, wanted);
}

UnloadChoice choose_unloads_in_order(const std::set<UnloadCandidate>& candidates, Bytes wanted) {
  return choose(candidates, wanted);
}

}  // namespace causeway::fleet
