// The link map: what each GPU's link to the host gives alone, and which sets of links give more or
// less together. Measured once per machine in seconds (measure_link_map), kept as JSON by machine
// identity. The number of GPUs is not the number of paths: eight links can move less than the right
// four (shared sockets), and only measuring tells. Beyond the paper.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/link_profile.h"
#include "topology/topology.h"
#include "transfer/path_facts.h"

namespace causeway::transfer {

// Bytes per second of links that carry copies at the same time, all one way.
struct SetRate {
  LinkSet links;
  double rate = 0;
};

// Measured with a target: the links carried its bytes, all but its own as relays.
struct RelayRate {
  int target = 0;
  LinkSet links;
  double rate = 0;
};

struct PeerRate {
  int source = 0;
  int target = 0;
  double rate = 0;
};

struct LinkMap {
  std::string machine;  // identity
  int links = 0;
  // By Direction. Own: each link to (or from) its own GPU; every link alone is among them.
  std::array<std::vector<SetRate>, kDirections> own;
  std::array<std::vector<RelayRate>, kDirections> relayed;  // the best few of each target
  std::vector<double> duplex;   // by link: both ways at once, the sum; 0: unknown
  std::vector<PeerRate> peers;  // ordered pairs that can copy directly
};

// Checks that a map makes sense; kCorrupt names what does not.
Status check(const LinkMap& map);

// The best known set for a large transfer, and its rate. Relayed measurements have precedence over
// own ones. Among sets within 1 % of the best rate the largest one wins, since it loses less to
// other traffic on what it shares, and then one with the target's own link.
struct BestSet {
  LinkSet links;
  double rate = 0;
};
BestSet best_set(const LinkMap& map, int target, Direction direction);

PathFacts facts_of(const LinkMap& map);

// The map as resources: each link each way, its duplex sum, peer ports, and for each direction what
// all links share. On the shared resource a byte of a link outside the best set costs more than one
// byte (fitted to the measured sets). For budgets and for simulating the machine.
device::LinkProfile profile_of(const LinkMap& map);

// Identifies the kind of machine and its wiring: GPUs with their bus ids, processors, driver. No
// serial numbers or host names. "8x-nvidia-h200-0123456789abcdef"; fit for a file name.
std::string machine_identity(const topology::Machine& machine);

inline constexpr int kLinkMapVersion = 1;

std::string write_link_map(const LinkMap& map);
// Accepts text from any source: size, nesting, counts and numbers are bounded. kCorrupt names the
// field; kUnsupported says that the version is newer.
Result<LinkMap> read_link_map(std::string_view text);

// The cache has one file for each machine in `folder`. kNotFound when there is none; kCorrupt when
// it is another machine's or broken, and is to be measured again.
std::string link_map_path(const std::string& folder, const std::string& machine);
Result<LinkMap> load_link_map(const std::string& folder, const std::string& machine);
// Replaces the file atomically; makes the folder.
Status save_link_map(const std::string& folder, const LinkMap& map);

// Measures rates. May be slow and noisy; called by one thread.
class LinkProber {
 public:
  virtual ~LinkProber() = default;
  virtual int links() const = 0;
  virtual bool can_copy(int source, int target) const = 0;  // between two GPUs
  // Bytes per second of `links` at once: to (from) their own GPUs, or for `target`.
  virtual Result<double> rate(Direction direction, LinkSet links, std::optional<int> target) = 0;
  // The sum of both directions at once, of one link.
  virtual Result<double> duplex_rate(int link) = 0;
  virtual Result<double> peer_rate(int source, int target) = 0;
};

struct LinkMapOptions {
  int runs = 3;          // of each probe; the median counts
  int relayed_sets = 3;  // tried for each target and direction
  double worth = 1.02;   // what one more link must bring
};

// For each direction: every link alone, sets grown from each of them and one shrunk from all, by
// one link at a time while that pays, at most some 150 for eight links. Then the best few sets for
// each target, relayed.
Result<LinkMap> measure_link_map(const std::string& machine, LinkProber& prober,
                                 const LinkMapOptions& options = {});

}  // namespace causeway::transfer
