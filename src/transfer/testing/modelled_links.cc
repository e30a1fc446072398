#include "transfer/testing/modelled_links.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/dcheck.h"

namespace causeway::transfer::testing {
namespace {

using device::FlowId;
using device::kHostEnd;
using device::LinkModel;
using device::LinkPath;
using device::LinkProfile;
using device::LinkTransfer;

const LinkPath& path_of(const LinkProfile& profile, int source, int target) {
  const LinkPath* path = profile.find(source, target);
  CAUSEWAY_CHECK(path != nullptr, "the modelled machine has no such path");
  return *path;
}

LinkTransfer transfer_over(const LinkPath& path, Bytes bytes) {
  return {bytes, path.route, device::CopyPriority::kStep, path.latency, path.costs};
}

// Both paths at once, as a relay uses them in the long run.
void add_route(LinkTransfer& transfer, const LinkPath& path) {
  if (transfer.costs.empty()) transfer.costs.assign(transfer.route.size(), 1);
  CAUSEWAY_DCHECK(transfer.costs.size() == transfer.route.size(), "a cost a resource");
  for (std::size_t i = 0; i < path.route.size(); ++i) {
    transfer.route.push_back(path.route[i]);
    transfer.costs.push_back(path.costs.empty() ? 1 : path.costs[i]);
  }
}

const LinkPath& crossing_of(const LinkProfile& profile, int link, Direction direction) {
  return direction == Direction::kIn ? path_of(profile, kHostEnd, link)
                                     : path_of(profile, link, kHostEnd);
}

const LinkPath& peer_path(const LinkProfile& profile, const Chunk& chunk) {
  return chunk.direction == Direction::kIn ? path_of(profile, chunk.link, chunk.target)
                                           : path_of(profile, chunk.target, chunk.link);
}

class Simulation {
 public:
  explicit Simulation(SimulationSetup setup)
      : setup_(std::move(setup)),
        dispatcher_(setup_.options, setup_.facts),
        model_(setup_.profile.resources),
        links_(static_cast<std::size_t>(setup_.facts.links)) {
    std::stable_sort(setup_.tasks.begin(), setup_.tasks.end(),
                     [](const auto& a, const auto& b) { return a.at < b.at; });
    result_.background.resize(setup_.background.size());
  }

  SimulationResult run() {
    for (std::size_t b = 0; b < setup_.background.size(); ++b) {
      alarms_.emplace(setup_.background[b].begin, b);
    }
    while (!done() && step()) {
    }
    for (const auto& [flow, background] : background_) {
      result_.background[background] += model_.moved(flow).value_or(Bytes(0));
    }
    for (int link = 0; link < setup_.facts.links; ++link) {
      result_.links.push_back(
          {dispatcher_.traffic(link, Direction::kIn), dispatcher_.traffic(link, Direction::kOut)});
    }
    result_.end = now_;
    return std::move(result_);
  }

 private:
  struct Crossing {
    Chunk chunk;
    bool at_link = true;  // a relayed chunk on its way out comes from its target first
  };
  struct Link {
    std::deque<Crossing> queue;
    std::optional<FlowId> flow;  // of the first in the queue
  };

  bool done() const { return next_task_ == setup_.tasks.size() && dispatcher_.idle(); }

  // Advances to the next instant at which something happens; false when there is none.
  bool step() {
    std::optional<Nanos> next;
    const auto consider = [&](std::optional<Nanos> at) {
      if (at && (!next || *at < *next)) next = at;
    };
    consider(model_.next_event());
    if (next_task_ < setup_.tasks.size()) consider(setup_.tasks[next_task_].at);
    if (!notices_.empty()) consider(notices_.begin()->first);
    if (!alarms_.empty()) consider(alarms_.begin()->first);
    consider(dispatcher_.next_wake(now_));
    if (!next || *next > setup_.limit) return false;
    CAUSEWAY_DCHECK(*next >= Nanos(0), "time begins at 0");
    now_ = std::max(now_, *next);
    model_.advance(now_);
    for (const device::FlowEnd& end : model_.take_ended()) flow_ended(end.flow);
    begin_what_is_due();
    pull();
    for (const TaskEnd& end : dispatcher_.take_ended()) result_.tasks[end.task] = {now_, end.ok};
    return true;
  }

  void begin_what_is_due() {
    while (!alarms_.empty() && alarms_.begin()->first <= now_) {
      const std::size_t background = alarms_.begin()->second;
      alarms_.erase(alarms_.begin());
      start_background(background);
    }
    while (next_task_ < setup_.tasks.size() && setup_.tasks[next_task_].at <= now_) {
      if (dispatcher_.idle()) awake_at_ = now_ + setup_.wake;
      dispatcher_.add(std::move(setup_.tasks[next_task_++].spec), now_);
    }
    while (!notices_.empty() && notices_.begin()->first <= now_) {
      CAUSEWAY_DCHECK(!dispatcher_.idle(), "a chunk ends where none is outstanding");
      dispatcher_.finished(notices_.begin()->second, now_);
      notices_.erase(notices_.begin());
    }
  }

  void pull() {
    for (bool any = true; any;) {
      any = false;
      for (int link = 0; link < setup_.facts.links; ++link) {
        for (const Direction direction : kBothDirections) {
          const auto chunk = dispatcher_.pull(link, direction, now_);
          if (!chunk) continue;
          any = true;
          launch(*chunk);
        }
      }
    }
  }

  Link& link_of(const Chunk& chunk) {
    return links_[static_cast<std::size_t>(chunk.link)][index_of(chunk.direction)];
  }

  void launch(const Chunk& chunk) {
    const bool from_peer = chunk.relayed() && chunk.direction == Direction::kOut;
    link_of(chunk).queue.push_back({chunk, !from_peer});
    if (from_peer) start_peer_move(chunk);
    cross(chunk);
  }

  void start_peer_move(const Chunk& chunk) {
    const FlowId flow =
        model_.start(transfer_over(peer_path(setup_.profile, chunk), chunk.range.bytes()), now_);
    peer_moves_.emplace(flow, chunk);
  }

  // Starts the first crossing of a link if possible.
  void cross(const Chunk& on) {
    Link& link = link_of(on);
    if (link.flow || link.queue.empty() || !link.queue.front().at_link) return;
    const Chunk& chunk = link.queue.front().chunk;
    const LinkPath& path = crossing_of(setup_.profile, chunk.link, chunk.direction);
    link.flow = model_.start(transfer_over(path, chunk.range.bytes()), now_);
    crossings_.emplace(*link.flow, chunk);
  }

  void flow_ended(FlowId flow) {
    if (const auto found = background_.find(flow); found != background_.end()) {
      const std::size_t background = found->second;
      background_.erase(found);
      result_.background[background] += setup_.background[background].copy_bytes;
      return start_background(background);
    }
    if (const auto found = peer_moves_.find(flow); found != peer_moves_.end()) {
      const Chunk chunk = found->second;
      peer_moves_.erase(found);
      if (chunk.direction == Direction::kIn) return notice(chunk);
      for (Crossing& crossing : link_of(chunk).queue) {
        if (crossing.chunk.id == chunk.id) crossing.at_link = true;
      }
      return cross(chunk);
    }
    const Chunk chunk = crossings_.at(flow);
    crossings_.erase(flow);
    Link& link = link_of(chunk);
    CAUSEWAY_DCHECK(!link.queue.empty() && link.queue.front().chunk.id == chunk.id,
                    "a link works through its chunks in order");
    link.queue.pop_front();
    link.flow.reset();
    const bool to_peer = chunk.relayed() && chunk.direction == Direction::kIn;
    to_peer ? start_peer_move(chunk) : notice(chunk);
    cross(chunk);
  }

  void notice(const Chunk& chunk) {
    CAUSEWAY_DCHECK(setup_.notice >= Nanos(0), "an end is seen before it is there");
    notices_.emplace(std::max(now_ + setup_.notice, awake_at_), chunk.id);
  }

  void start_background(std::size_t background) {
    const BackgroundTraffic& traffic = setup_.background[background];
    if (now_ >= traffic.end) return;
    const LinkPath& path = path_of(setup_.profile, traffic.source, traffic.target);
    CAUSEWAY_DCHECK(traffic.copy_bytes > Bytes(0), "background traffic has bytes");
    background_.emplace(model_.start(transfer_over(path, traffic.copy_bytes), now_), background);
  }

  SimulationSetup setup_;
  Dispatcher dispatcher_;
  LinkModel model_;
  Nanos now_;
  Nanos awake_at_;
  std::vector<std::array<Link, kDirections>> links_;
  std::map<FlowId, Chunk> crossings_;
  std::map<FlowId, Chunk> peer_moves_;
  std::map<FlowId, std::size_t> background_;
  std::multimap<Nanos, ChunkId> notices_;
  std::multimap<Nanos, std::size_t> alarms_;  // when background traffic begins
  std::size_t next_task_ = 0;
  SimulationResult result_;
};

}  // namespace

double steady_rate(const LinkProfile& profile, const SteadyLoad& load) {
  LinkModel model(profile.resources);
  std::vector<FlowId> ours;
  for (const BackgroundTraffic& traffic : load.background) {
    LinkTransfer flow = transfer_over(path_of(profile, traffic.source, traffic.target), gib(1'024));
    flow.latency = Nanos(0);
    model.start(flow, Nanos(0));
  }
  for (int link = 0; link < kLinksMax; ++link) {
    if (!load.links.has(link)) continue;
    LinkTransfer flow = transfer_over(crossing_of(profile, link, load.direction), gib(1'024));
    flow.latency = Nanos(0);
    if (load.target && *load.target != link) {
      Chunk chunk;
      chunk.link = link;
      chunk.target = *load.target;
      chunk.direction = load.direction;
      add_route(flow, peer_path(profile, chunk));
    }
    CAUSEWAY_DCHECK(!flow.route.empty(), "a copy goes over something");
    ours.push_back(model.start(flow, Nanos(0)));
  }
  double sum = 0;
  for (const FlowId flow : ours) sum += model.bytes_per_second(flow);
  return sum;
}

SimulationResult simulate_transfers(SimulationSetup setup) {
  return Simulation(std::move(setup)).run();
}

}  // namespace causeway::transfer::testing
