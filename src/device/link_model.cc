#include "device/link_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace causeway::device {
namespace {

// A bandwidth this small is a rounding error and counts as none.
constexpr double kRateMin = 1.0;
// A transfer that would take longer than this (thirty years) stands still.
constexpr double kNanosMax = 1e18;

std::optional<Nanos> after(Nanos now, double bytes, double rate) {
  if (bytes <= 0) return now;
  if (rate < kRateMin) return std::nullopt;
  const double nanos = std::ceil(bytes / rate * 1e9);
  if (nanos > kNanosMax) return std::nullopt;
  return now + Nanos(static_cast<std::int64_t>(nanos));
}

}  // namespace

LinkModel::LinkModel(std::vector<LinkResource> resources)
    : resources_(std::move(resources)),
      accounted_(resources_.size(), 0),
      now_(std::numeric_limits<std::int64_t>::min() / 2) {
  for (const LinkResource& resource : resources_) {
    CAUSEWAY_CHECK(
        std::isfinite(resource.bytes_per_second) && resource.bytes_per_second >= kRateMin,
        "a link resource without a bandwidth");
  }
}

FlowId LinkModel::start(LinkTransfer transfer, Nanos now) {
  CAUSEWAY_CHECK(transfer.bytes.count >= 0 && transfer.latency.count >= 0);
  CAUSEWAY_CHECK(transfer.costs.empty() || transfer.costs.size() == transfer.route.size(),
                 "a route has a cost for each of its resources, or none");
  for (const double cost : transfer.costs) CAUSEWAY_CHECK(std::isfinite(cost) && cost > 0);
  std::set<int> seen;
  for (const int resource : transfer.route) {
    CAUSEWAY_CHECK(resource >= 0 && resource < static_cast<int>(resources_.size()) &&
                       seen.insert(resource).second,
                   "a route lists known resources once each");
  }
  advance(now);
  const FlowId id(next_flow_++);
  Flow flow;
  flow.left = static_cast<double>(transfer.bytes.count);
  flow.flows_from = now + transfer.latency;
  flow.transfer = std::move(transfer);
  flows_.emplace(id, std::move(flow));
  change_state_of_due_flows();
  return id;
}

void LinkModel::cancel(FlowId id, Nanos now) {
  advance(now);
  const auto found = flows_.find(id);
  if (found == flows_.end()) return;
  account(found->second, moved_bytes(found->second));
  flows_.erase(found);
  share();
}

void LinkModel::advance(Nanos now) {
  CAUSEWAY_CHECK(now >= now_, "time ran backwards");
  for (auto event = next_event(); event && *event <= now; event = next_event()) {
    drain_until(*event);
    change_state_of_due_flows();
  }
  drain_until(now);
}

void LinkModel::drain_until(Nanos now) {
  // Before anything flows, the first instant may be at any distance.
  const double elapsed = flows_.empty() ? 0 : to_seconds(now - now_);
  now_ = std::max(now_, now);
  for (auto& [id, flow] : flows_) {
    if (flow.flowing) flow.left = std::max(0.0, flow.left - flow.rate * elapsed);
  }
}

void LinkModel::change_state_of_due_flows() {
  for (auto entry = flows_.begin(); entry != flows_.end();) {
    auto& [id, flow] = *entry;
    if (!flow.flowing && flow.flows_from <= now_) {
      flow.flowing = true;
      if (flow.left <= 0 || flow.transfer.route.empty()) flow.finishes = now_;
    }
    if (!flow.flowing || !flow.finishes || *flow.finishes > now_) {
      ++entry;
      continue;
    }
    account(flow, flow.transfer.bytes.count);
    ended_.push_back({id, now_});
    entry = flows_.erase(entry);
  }
  share();
}

void LinkModel::share() {
  std::vector<double> left;
  for (const LinkResource& resource : resources_) left.push_back(resource.bytes_per_second);
  for (int p = 0; p < kCopyPriorities; ++p) share_class(static_cast<CopyPriority>(p), left);
  for (auto& [id, flow] : flows_) {
    if (flow.flowing) flow.finishes = after(now_, flow.left, flow.rate);
  }
}

namespace {

std::int64_t counted(std::int64_t bytes, double cost) {
  return cost == 1 ? bytes : std::llround(static_cast<double>(bytes) * cost);
}

// Where a route crosses a resource; the route's length when it does not.
std::size_t crossing(const std::vector<int>& route, int resource) {
  return static_cast<std::size_t>(std::find(route.begin(), route.end(), resource) - route.begin());
}

}  // namespace

void LinkModel::account(const Flow& flow, std::int64_t bytes) {
  const auto& route = flow.transfer.route;
  for (std::size_t i = 0; i < route.size(); ++i) {
    accounted_[static_cast<std::size_t>(route[i])] += counted(bytes, flow.transfer.cost(i));
  }
}

// Progressive filling: the resource with the smallest fair share fixes the rates of its flows; this
// repeats without them.
void LinkModel::share_class(CopyPriority priority, std::vector<double>& left) {
  std::vector<Flow*> undecided;
  std::vector<int> users(resources_.size(), 0);
  std::vector<double> demand(resources_.size(), 0);  // costs of its users
  for (auto& [id, flow] : flows_) {
    if (!flow.flowing || flow.transfer.priority != priority) continue;
    undecided.push_back(&flow);
    for (std::size_t i = 0; i < flow.transfer.route.size(); ++i) {
      const auto r = static_cast<std::size_t>(flow.transfer.route[i]);
      ++users[r];
      demand[r] += flow.transfer.cost(i);
    }
  }
  while (!undecided.empty()) {
    int narrowest = -1;
    double share = std::numeric_limits<double>::infinity();
    for (std::size_t r = 0; r < users.size(); ++r) {
      if (users[r] == 0 || left[r] / demand[r] >= share) continue;
      share = left[r] / demand[r];
      narrowest = static_cast<int>(r);
    }
    CAUSEWAY_CHECK(narrowest >= 0, "a flow without resources was to have ended");
    std::erase_if(undecided, [&](Flow* flow) {
      const auto& route = flow->transfer.route;
      if (crossing(route, narrowest) == route.size()) return false;
      flow->rate = share < kRateMin ? 0 : share;
      for (std::size_t i = 0; i < route.size(); ++i) {
        const auto r = static_cast<std::size_t>(route[i]);
        left[r] = std::max(0.0, left[r] - flow->rate * flow->transfer.cost(i));
        demand[r] -= flow->transfer.cost(i);
        --users[r];
      }
      return true;
    });
  }
}

std::optional<Nanos> LinkModel::next_event() const {
  std::optional<Nanos> next;
  for (const auto& [id, flow] : flows_) {
    const auto at = flow.flowing ? flow.finishes : std::optional(flow.flows_from);
    if (at && (!next || *at < *next)) next = at;
  }
  return next;
}

std::vector<FlowEnd> LinkModel::take_ended() { return std::exchange(ended_, {}); }

std::int64_t LinkModel::moved_bytes(const Flow& flow) const {
  return flow.transfer.bytes.count - static_cast<std::int64_t>(std::ceil(flow.left));
}

std::optional<Bytes> LinkModel::moved(FlowId id) const {
  const auto found = flows_.find(id);
  if (found == flows_.end()) return std::nullopt;
  return Bytes(moved_bytes(found->second));
}

double LinkModel::bytes_per_second(FlowId id) const {
  const auto found = flows_.find(id);
  return found == flows_.end() ? 0 : found->second.rate;
}

std::optional<Nanos> LinkModel::when_moved(FlowId id, Bytes bytes) const {
  const auto found = flows_.find(id);
  if (found == flows_.end()) return std::nullopt;
  const Flow& flow = found->second;
  if (!flow.flowing) return flow.flows_from;
  const double moved = static_cast<double>(flow.transfer.bytes.count) - flow.left;
  return after(now_, static_cast<double>(bytes.count) - moved, flow.rate);
}

double LinkModel::load(int resource) const {
  double sum = 0;
  for (const auto& [id, flow] : flows_) {
    const std::size_t at = crossing(flow.transfer.route, resource);
    if (at < flow.transfer.route.size()) sum += flow.rate * flow.transfer.cost(at);
  }
  return sum;
}

Bytes LinkModel::accounted(int resource) const {
  std::int64_t sum = accounted_[static_cast<std::size_t>(resource)];
  for (const auto& [id, flow] : flows_) {
    const std::size_t at = crossing(flow.transfer.route, resource);
    if (at < flow.transfer.route.size()) sum += counted(moved_bytes(flow), flow.transfer.cost(at));
  }
  return Bytes(sum);
}

}  // namespace causeway::device
