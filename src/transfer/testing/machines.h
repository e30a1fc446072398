// Modelled machines for tests, and a prober that measures them.
#pragma once

#include "device/link_profile.h"
#include "transfer/link_map.h"
#include "transfer/testing/modelled_links.h"

namespace causeway::transfer::testing {

// Eight H200s with the figures of docs/design/transfer.md's table: GPUs 4–7 near the memory, 0–3
// behind the other socket. Writes to the host from afar cost the memory's socket 1.8 times as much,
// so that all eight together move less D2H than 4–7 alone.
device::LinkProfile eight_h200();

// The rates of a model, without noise.
class ModelProber final : public LinkProber {
 public:
  ModelProber(device::LinkProfile profile, int links)
      : profile_(std::move(profile)), links_(links) {}

  int links() const override { return links_; }
  bool can_copy(int source, int target) const override {
    return profile_.find(source, target) != nullptr;
  }
  Result<double> rate(Direction direction, LinkSet links, std::optional<int> target) override {
    ++probes;
    return steady_rate(profile_, {direction, links, target, {}});
  }
  Result<double> duplex_rate(int link) override;
  Result<double> peer_rate(int source, int target) override;

  int probes = 0;

 private:
  const device::LinkProfile profile_;
  const int links_;
};

LinkMap map_of(const device::LinkProfile& profile, int links);

// The most that any set of links gives a target in the long run: exhaustive.
BestSet exhaustive_best(const device::LinkProfile& profile, int links, SteadyLoad load);

}  // namespace causeway::transfer::testing
