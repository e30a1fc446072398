#include "transfer/link_lease.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"

namespace causeway::transfer {
namespace {

constexpr Nanos kAskedAgain = kLeaseLength / 2;
// For so long what was wanted is kept: groups of weights follow each other within milliseconds.
constexpr Nanos kWantedKept = millis(50);

bool is_rate(double rate) { return std::isfinite(rate) && rate >= 0; }

bool are_rates(const LinkRates& rates) { return is_rate(rates.in) && is_rate(rates.out); }

}  // namespace

HeldLease::HeldLease(LinkRates least, Nanos now)
    : least_(least), share_(least), ends_(now + kLeaseLength) {
  CAUSEWAY_CHECK(are_rates(least), "the least of a link is no rate");
  offer_.in = offer_.out = std::numeric_limits<double>::infinity();
}

bool HeldLease::Way::any() const {
  return std::any_of(wanted.begin(), wanted.end(), [](double rate) { return rate > 0; });
}

bool HeldLease::Way::update(const RatesByPurpose& now_wanted, Nanos now) {
  bool changed = false;
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    CAUSEWAY_DCHECK(is_rate(now_wanted[p]), "what is wanted of a link is no rate");
    if (now_wanted[p] < wanted[p] && now < seen[p] + kWantedKept) continue;
    changed = changed || now_wanted[p] != wanted[p];
    wanted[p] = now_wanted[p];
    seen[p] = now;
  }
  return changed;
}

std::optional<LinkAsk> HeldLease::ask(const LinkWants& wants, Nanos now) {
  const bool in = in_.update(wants.in, now);
  const bool out = out_.update(wants.out, now);
  if (asked_ && !in && !out && !shrank_ && now < *asked_ + kAskedAgain) return std::nullopt;
  asked_ = now;
  shrank_ = false;
  return LinkAsk{.at = now, .applied = applied_, .wants = {in_.wanted, out_.wanted}};
}

Status HeldLease::take(const LinkLease& lease, Nanos now) {
  if (!are_rates(lease.share) || !are_rates(lease.offer) || lease.length < Nanos(0) ||
      lease.length > kLeaseLength || lease.asked < Nanos(0) || lease.asked > now) {
    return corrupt("lease " + std::to_string(lease.number) + " of a link makes no sense");
  }
  if (lease.number <= applied_) return {};
  shrank_ = shrank_ || lease.share.in < share_.in || lease.share.out < share_.out;
  applied_ = lease.number;
  share_ = lease.share;
  offer_ = lease.offer;
  ends_ = lease.asked + lease.length;
  return {};
}

LinkRates HeldLease::share(Nanos now) const {
  if (now >= ends_) return least_;
  return {std::max(least_.in, share_.in), std::max(least_.out, share_.out)};
}

LinkRates HeldLease::rates(Nanos now) const {
  LinkRates rates = share(now);
  if (now >= ends_) return rates;
  if (!in_.any()) rates.in = std::max(rates.in, offer_.in);
  if (!out_.any()) rates.out = std::max(rates.out, offer_.out);
  return rates;
}

Nanos HeldLease::next(Nanos now) const {
  const Nanos again = asked_ ? *asked_ + kAskedAgain : now;
  return ends_ > now ? std::min(ends_, again) : again;
}

LeasedWays add_leased_ways(device::LinkProfile& profile) {
  double all = 0;
  for (const device::LinkResource& resource : profile.resources) all += resource.bytes_per_second;
  CAUSEWAY_CHECK(is_rate(all), "a profile that does not pass its check");
  const auto add = [&](std::string name) {
    profile.resources.push_back({std::move(name), all});
    return static_cast<int>(profile.resources.size()) - 1;
  };
  const LeasedWays ways{.in = add("leased.in"), .out = add("leased.out")};
  for (device::LinkPath& path : profile.paths) {
    if (path.source != device::kHostEnd && path.target != device::kHostEnd) continue;
    path.route.push_back(path.source == device::kHostEnd ? ways.in : ways.out);
    if (!path.costs.empty()) path.costs.push_back(1);
  }
  return ways;
}

}  // namespace causeway::transfer
