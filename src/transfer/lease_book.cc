#include "transfer/lease_book.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"
#include "transfer/transfer.h"

namespace causeway::transfer {
namespace {

using device::CopyPriority;
using device::kCopyPriorities;

constexpr double kLeastPart = 0.1;  // of every resource, for all members together
// Clocks that run apart by less than an eighth do no harm.
constexpr Nanos kHeldFor = kLeaseLength + kLeaseLength / 8;
// Leases with different shares that a member may be using. More are not sent: it does not answer.
constexpr std::size_t kHeldMax = 8;
constexpr double kNewsPart = 0.02;  // of a link: what changes by less is told with the next answer

void take_from(std::vector<double>& left, const LinkRoute& route, double rate) {
  CAUSEWAY_DCHECK(std::isfinite(rate) && rate >= 0, "what is taken of a link is no rate");
  for (const ResourceShare& share : route.per_byte) {
    double& of = left[at(share.resource)];
    of = std::max(0.0, of - share.bytes_per_second * rate);
  }
}

void take_from(std::vector<double>& left, const LeaseBook::Ways& ways, const LinkRates& rates) {
  take_from(left, ways.in, rates.in);
  take_from(left, ways.out, rates.out);
}

// Routes of different members, and where what they get is added.
class Wanted {
 public:
  void add(const LinkRoute& route, double rate, double& gets) {
    if (rate <= 0) return;
    routes_.push_back({route.per_byte, std::min(rate, route.rate_max)});
    gets_.push_back(&gets);
  }
  void divide(std::vector<double>& left) {
    if (routes_.empty()) return;
    std::vector<const LinkRoute*> routes;
    for (const LinkRoute& route : routes_) routes.push_back(&route);
    const std::vector<double> rates = fair_rates(left, routes);
    CAUSEWAY_DCHECK(rates.size() == gets_.size(), "another number of rates than routes");
    for (std::size_t i = 0; i < rates.size(); ++i) {
      *gets_[i] += rates[i];
      take_from(left, routes_[i], rates[i]);
    }
  }

 private:
  std::vector<LinkRoute> routes_;
  std::vector<double*> gets_;
};

// The part of what is wanted that the least does not cover: it covers the most urgent.
double beyond(double wanted, double& least_left) {
  CAUSEWAY_DCHECK(wanted >= 0 && least_left >= 0, "what is wanted of a link is no rate");
  const double covered = std::min(wanted, least_left);
  least_left -= covered;
  return wanted - covered;
}

bool wants_any(const RatesByPurpose& wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [](double rate) { return rate > 0; });
}

bool make_sense(const RatesByPurpose& wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [](double rate) { return std::isfinite(rate) && rate >= 0; });
}

bool differ(double a, double b, const LinkRoute& route) {
  return std::abs(a - b) > kNewsPart * route.rate_max;
}

bool same_rates(const LinkRates& a, const LinkRates& b) { return a.in == b.in && a.out == b.out; }

}  // namespace

LeaseBook::LeaseBook(std::vector<double> capacities, std::vector<Ways> members)
    : capacities_(std::move(capacities)) {
  std::vector<double> least;
  for (const double capacity : capacities_) {
    CAUSEWAY_CHECK(std::isfinite(capacity) && capacity > 0, "a resource without bandwidth");
    least.push_back(capacity * kLeastPart);
  }
  for (Ways& ways : members) members_.emplace_back().ways = std::move(ways);
  Wanted all;
  for (Member& member : members_) {
    all.add(member.ways.in, member.ways.in.rate_max, member.least.in);
    all.add(member.ways.out, member.ways.out.rate_max, member.least.out);
  }
  all.divide(least);
}

Result<std::unique_ptr<LeaseBook>> LeaseBook::create(const LinkShares& links,
                                                     const std::vector<int>& gpus) {
  std::vector<double> capacities;
  for (const device::LinkResource& resource : links.resources()) {
    capacities.push_back(resource.bytes_per_second);
  }
  std::vector<Ways> members;
  for (const int gpu : gpus) {
    const LinkShares::RoutesWanted own{.target = gpu, .links = LinkSet::of(gpu)};
    CAUSEWAY_ASSIGN(const auto in, links.routes_in(own));
    CAUSEWAY_ASSIGN(const auto out, links.routes_out(own));
    members.push_back({in.front(), out.front()});
  }
  return std::make_unique<LeaseBook>(std::move(capacities), std::move(members));
}

bool LeaseBook::shared() const {
  const std::lock_guard lock(mutex_);
  for (int r = 0; r < std::ssize(capacities_); ++r) {
    const auto crosses = [r](const LinkRoute& route) {
      return std::any_of(route.per_byte.begin(), route.per_byte.end(),
                         [r](const ResourceShare& share) { return share.resource == r; });
    };
    const auto count = std::count_if(members_.begin(), members_.end(), [&](const Member& member) {
      return crosses(member.ways.in) || crosses(member.ways.out);
    });
    if (count > 1) return true;
  }
  return false;
}

LinkRates LeaseBook::least(int member) const {
  const std::lock_guard lock(mutex_);
  return members_.at(at(member)).least;
}

Status LeaseBook::ask(int number, const LinkAsk& ask, Nanos now) {
  const std::lock_guard lock(mutex_);
  Member& member = members_.at(at(number));
  const bool sent = ask.applied >= 0 && ask.applied <= member.sent.number;
  if (!sent || !make_sense(ask.wants.in) || !make_sense(ask.wants.out)) {
    return corrupt("it asks for a link's bandwidth in numbers that make no sense");
  }
  const bool heard = member.asked && now < member.heard + kHeldFor;
  if (!heard || !(member.asked->wants == ask.wants)) divided_until_ = Nanos(0);
  member.asked = ask;
  member.heard = now;
  member.answered = false;
  std::erase_if(member.held, [&](const Held& held) { return held.number < ask.applied; });
  return {};
}

void LeaseBook::forget(int number) {
  const std::lock_guard lock(mutex_);
  members_.at(at(number)).asked.reset();
  divided_until_ = Nanos(0);
}

// A process that has said nothing for as long as a lease wants nothing.
std::vector<LinkWants> LeaseBook::wants(Nanos now) const {
  std::vector<LinkWants> wants;
  for (const Member& member : members_) {
    const bool there = member.asked && now < member.heard + kHeldFor;
    wants.push_back(there ? member.asked->wants : LinkWants());
  }
  return wants;
}

std::vector<LinkRates> LeaseBook::divide(const std::vector<LinkWants>& wants) const {
  CAUSEWAY_DCHECK(wants.size() == members_.size(), "another number of wants than members");
  std::vector<double> left = capacities_;
  std::vector<LinkRates> rates, least_left;
  for (const Member& member : members_) {
    take_from(left, member.ways, member.least);
    rates.push_back(member.least);
  }
  least_left = rates;
  for (std::size_t p = 0; p < kCopyPriorities; ++p) {
    Wanted wanted;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const Ways& ways = members_[i].ways;
      wanted.add(ways.in, beyond(wants[i].in[p], least_left[i].in), rates[i].in);
      wanted.add(ways.out, beyond(wants[i].out[p], least_left[i].out), rates[i].out);
    }
    wanted.divide(left);
  }
  for (std::size_t i = 0; i < rates.size(); ++i) {
    CAUSEWAY_DCHECK(rates[i].in >= members_[i].least.in, "less in than in any case");
    CAUSEWAY_DCHECK(rates[i].out >= members_[i].least.out, "less out than in any case");
  }
  return rates;
}

const std::vector<LinkRates>& LeaseBook::divided(Nanos now) {
  if (now < divided_until_) return divided_;
  divided_ = divide(wants(now));
  CAUSEWAY_DCHECK(divided_.size() == members_.size(), "another number of parts than members");
  divided_until_ = kNever;
  for (const Member& member : members_) {
    const Nanos until = member.heard + kHeldFor;
    if (member.asked && now < until) divided_until_ = std::min(divided_until_, until);
  }
  return divided_;
}

// As LinkShares tries a claim that has not begun: each way for itself, weights in and KV out.
LinkRates LeaseBook::offer(int number, std::vector<LinkWants> wants) const {
  constexpr auto kWeights = static_cast<std::size_t>(CopyPriority::kWeightsAhead);
  constexpr auto kKv = static_cast<std::size_t>(CopyPriority::kKvOut);
  const Ways& ways = members_[at(number)].ways;
  LinkWants& own = wants[at(number)];
  LinkRates offer;
  if (!wants_any(own.in)) {
    own.in[kWeights] = ways.in.rate_max;
    offer.in = divide(wants)[at(number)].in;
    own.in[kWeights] = 0;
  }
  if (!wants_any(own.out)) {
    own.out[kKv] = ways.out.rate_max;
    offer.out = divide(wants)[at(number)].out;
  }
  return offer;
}

// It uses one of its leases, or the least; which, is not known.
std::vector<double> LeaseBook::used(const Member& member, Nanos now) const {
  std::vector<double> used(capacities_.size(), 0);
  const auto count = [&](const LinkRates& rates) {
    std::vector<double> one(capacities_.size(), 0);
    for (const ResourceShare& share : member.ways.in.per_byte) {
      one[at(share.resource)] += share.bytes_per_second * rates.in;
    }
    for (const ResourceShare& share : member.ways.out.per_byte) {
      one[at(share.resource)] += share.bytes_per_second * rates.out;
    }
    for (std::size_t r = 0; r < one.size(); ++r) used[r] = std::max(used[r], one[r]);
  };
  count(member.least);
  for (const Held& held : member.held) {
    if (now < held.ends) count(held.rates);
  }
  return used;
}

LinkRates LeaseBook::fitting(int number, LinkRates wanted, Nanos now) const {
  std::vector<double> left = capacities_;
  for (int other = 0; other < std::ssize(members_); ++other) {
    if (other == number) continue;
    const std::vector<double> taken = used(members_[at(other)], now);
    for (std::size_t r = 0; r < left.size(); ++r) left[r] = std::max(0.0, left[r] - taken[r]);
  }
  const Member& member = members_[at(number)];
  CAUSEWAY_DCHECK(wanted.in >= member.least.in, "less is wanted in than in any case");
  CAUSEWAY_DCHECK(wanted.out >= member.least.out, "less is wanted out than in any case");
  LinkRates fits = member.least;
  take_from(left, member.ways, fits);
  Wanted more;
  more.add(member.ways.in, wanted.in - fits.in, fits.in);
  more.add(member.ways.out, wanted.out - fits.out, fits.out);
  more.divide(left);
  return fits;
}

bool LeaseBook::news(const Member& member, const LinkRates& share) {
  return differ(share.in, member.sent.share.in, member.ways.in) ||
         differ(share.out, member.sent.share.out, member.ways.out);
}

std::optional<LinkLease> LeaseBook::take(int number, Nanos now) {
  const std::lock_guard lock(mutex_);
  Member& member = members_.at(at(number));
  if (!member.asked) return std::nullopt;
  const LinkRates divided = this->divided(now)[at(number)];
  if (member.answered && !news(member, divided)) return std::nullopt;
  const LinkRates share = fitting(number, divided, now);
  if (member.answered && !news(member, share)) return std::nullopt;
  const LinkLease lease{.number = member.sent.number + 1,
                        .asked = member.asked->at,
                        .length = kLeaseLength,
                        .share = share,
                        .offer = offer(number, wants(now))};
  std::erase_if(member.held, [now](const Held& held) { return now >= held.ends; });
  CAUSEWAY_DCHECK(share.in <= divided.in * (1 + 1e-9), "more in than is its part");
  const Nanos ends = now + kHeldFor;
  if (!member.held.empty() && same_rates(member.held.back().rates, lease.share)) {
    member.held.back().number = lease.number;
    member.held.back().ends = ends;
  } else if (member.held.size() < kHeldMax) {
    member.held.push_back({lease.number, lease.share, ends});
  } else {
    return std::nullopt;
  }
  member.sent = lease;
  member.answered = true;
  return lease;
}

LinkRates LeaseBook::held(int number, Nanos now) const {
  const std::lock_guard lock(mutex_);
  const Member& member = members_.at(at(number));
  CAUSEWAY_DCHECK(member.held.size() <= kHeldMax, "more leases than are counted");
  LinkRates most = member.least;
  for (const Held& held : member.held) {
    if (now >= held.ends) continue;
    most.in = std::max(most.in, held.rates.in);
    most.out = std::max(most.out, held.rates.out);
  }
  return most;
}

void LeaseBook::check_integrity(Nanos now) const {
  const std::lock_guard lock(mutex_);
  std::vector<double> sums(capacities_.size(), 0);
  for (const Member& member : members_) {
    const std::vector<double> one = used(member, now);
    for (std::size_t r = 0; r < sums.size(); ++r) sums[r] += one[r];
    CAUSEWAY_CHECK(member.held.size() <= kHeldMax, "more leases than are counted");
  }
  for (std::size_t r = 0; r < sums.size(); ++r) {
    CAUSEWAY_CHECK(sums[r] <= capacities_[r] * (1 + 1e-6), "more is leased than a link has");
  }
}

}  // namespace causeway::transfer
