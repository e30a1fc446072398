// How transfers share links: a pure model in virtual time, for tests on machines without the links
// and for simulation.
//
// A resource is anything with a bandwidth: a link one way, the sum of a link's two ways, the switch
// or socket behind several devices. A transfer's route is the set of resources that it crosses; all
// its bytes count on each, a byte as more than one where the transfer uses a resource less well (a
// socket's memory, written to from the other socket). Rates are max-min fair: the most urgent
// priority is served first, each transfer as fast as the fair share of its narrowest resource
// allows, and what is left goes to the next priority. A transfer moves nothing for its latency,
// then flows; rates change only when a transfer starts to flow or ends, so between events
// everything is linear and exact.
//
// Not thread-safe. Deterministic. Time never runs backwards.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "device/device.h"

namespace causeway::device {

using FlowId = Id<struct FlowTag>;  // a transfer within a LinkModel, in order of start

struct LinkResource {
  std::string name;
  double bytes_per_second = 0;  // > 0
};

struct LinkTransfer {
  Bytes bytes;             // ≥ 0
  std::vector<int> route;  // resources, each at most once; empty: unlimited
  CopyPriority priority = CopyPriority::kStep;
  Nanos latency;  // ≥ 0
  // What one byte counts on each resource of the route, > 0; empty: 1 on each.
  std::vector<double> costs = {};

  double cost(std::size_t i) const { return costs.empty() ? 1 : costs[i]; }  // of route[i]
};

struct FlowEnd {
  FlowId flow;
  Nanos at;
};

class LinkModel {
 public:
  explicit LinkModel(std::vector<LinkResource> resources);

  // Starts a transfer now; advances to `now` first.
  FlowId start(LinkTransfer transfer, Nanos now);
  // Ends a transfer early; what it has moved stays accounted. No effect when it has ended.
  void cancel(FlowId flow, Nanos now);
  void advance(Nanos now);
  // When the next transfer starts to flow or ends; nullopt: nothing will happen by itself.
  std::optional<Nanos> next_event() const;
  // The transfers that have ended by themselves since the last call, in order.
  std::vector<FlowEnd> take_ended();

  // Valid for a transfer that has not ended; nullopt when it has.
  std::optional<Bytes> moved(FlowId flow) const;
  double bytes_per_second(FlowId flow) const;  // 0 when it has ended
  // When it will have moved `bytes` at its present rate; nullopt when it stands still or has ended.
  std::optional<Nanos> when_moved(FlowId flow, Bytes bytes) const;

  const std::vector<LinkResource>& resources() const { return resources_; }
  // Counted by cost: the bytes per second now, and the bytes that have crossed it.
  double load(int resource) const;
  Bytes accounted(int resource) const;
  std::int64_t flows() const { return static_cast<std::int64_t>(flows_.size()); }

 private:
  struct Flow {
    LinkTransfer transfer;
    Nanos flows_from;
    bool flowing = false;
    double left = 0;                // bytes
    double rate = 0;                // bytes per second
    std::optional<Nanos> finishes;  // at this rate
  };

  std::int64_t moved_bytes(const Flow& flow) const;
  void account(const Flow& flow, std::int64_t bytes);
  void drain_until(Nanos now);
  void change_state_of_due_flows();
  void share();
  void share_class(CopyPriority priority, std::vector<double>& left);

  std::vector<LinkResource> resources_;
  std::vector<std::int64_t> accounted_;  // by flows that have ended
  std::map<FlowId, Flow> flows_;
  std::vector<FlowEnd> ended_;
  std::int64_t next_flow_ = 0;
  Nanos now_;
};

}  // namespace causeway::device
