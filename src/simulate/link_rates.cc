#include "simulate/link_rates.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"

namespace causeway::simulate {

double LinkRates::share_at(Nanos at) const {
  const auto after = from_.upper_bound(at);
  return after == from_.begin() ? 1 : std::prev(after)->second;
}

void LinkRates::add(Nanos from, Nanos until, double share) {
  CAUSEWAY_CHECK(from <= until && share >= 0 && share <= 1, "a link gives a share of its rate");
  from_.emplace(until, share_at(until));
  from_.emplace(from, share_at(from));
  for (auto at = from_.find(from); at->first < until; ++at) {
    at->second = std::min(at->second, share);
  }
}

Nanos LinkRates::end_of(Nanos begins, Nanos takes) const {
  if (from_.empty()) return begins + takes;
  Nanos at = begins, left = takes;
  for (auto next = from_.upper_bound(at); next != from_.end(); ++next) {
    const double share = share_at(at);
    const auto done = static_cast<double>((next->first - at).count) * share;
    if (done >= static_cast<double>(left.count)) break;
    left = left - Nanos(static_cast<std::int64_t>(done));
    at = next->first;
  }
  const double share = share_at(at);
  if (left == Nanos(0) || share == 1) return at + left;
  return at + Nanos(static_cast<std::int64_t>(std::ceil(static_cast<double>(left.count) / share)));
}

Nanos LinkRates::whole_time(Nanos from, Nanos until) const {
  Nanos at = from;
  double sum = 0;
  for (auto next = from_.upper_bound(at); at < until; ++next) {
    const Nanos end = next == from_.end() ? until : std::min(until, next->first);
    sum += static_cast<double>((end - at).count) * share_at(at);
    at = end;
    if (next == from_.end()) break;
  }
  return Nanos(static_cast<std::int64_t>(sum));
}

}  // namespace causeway::simulate
