// The parts of a process of which there is one, beside its home: the GPUs (or modelled devices of
// the CPU backend), the links over which bytes come to them, and the book of these links'
// bandwidth. Slices borrow it.
//
//   Machine ─┬─ open()     a slice's device, the slice's to keep
//            └─ connect()  the links that bring bytes to it: an engine over its own link and those
//                 │        of relays, and its claim on the bandwidth
//                 ├─ relays  a device each, with room for staging; opened when first needed
//                 ├─ shares  one LinkShares
//                 └─ slices  one SliceBook: which slices are open, serve, have which memory
//
// A process that sees one GPU opens nothing beside it. Slices are opened and closed by one thread
// at a time, while others serve; slices() may be asked by any.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/cuda/cuda_machine.h"
#include "device/host/host_machine.h"
#include "slice/link_plan.h"
#include "slice/model_home.h"
#include "slice/peer_home.h"
#include "slice/slice_book.h"
#include "slice/slice_layout.h"
#include "transfer/engine.h"
#include "transfer/link_lease.h"
#include "transfer/link_shares.h"

namespace causeway::slice {

// A machine's link map, and the PCI bus ids of all of its GPUs.
struct MeasuredLinks {
  transfer::LinkMap map;
  std::vector<std::string> gpus;
};

struct LinkOptions {
  LinkChoice choice = LinkChoice::kMap;
  // For LinkChoice::kMap: called once, when the process sees several GPUs. kNotFound: there is no
  // map. Empty function: as kNotFound.
  std::function<Result<MeasuredLinks>()> measured = {};
  transfer::TransferEngineOptions engine = {};  // staging_bytes_max is for each relay
  // The GPU whose memory is the home of weights, over the links between GPUs; negative: host memory
  // is.
  int home_gpu = -1;
  // Other processes copy over the same links, so this process leases its share of them.
  bool leased = false;
};

// A GPU's processors, how they can be split, and its memory. One that cannot be divided can be had
// whole. kDevice: the driver fails.
Result<SliceGpu> slice_gpu(device::CudaMachine& gpus, int ordinal,
                           const device::CudaGpu& described);

// The links that bring bytes to a slice's device.
struct SliceLinks {
  std::unique_ptr<transfer::LinkClaim> claim;  // for cached weights
  std::unique_ptr<transfer::TransferEngine> engine;
  int links = 1;
  bool from_peer = false;  // weights come from a PeerHome instead of host memory
};

// The mover of a slice's KV between its device and host memory.
struct KvLinks {
  std::unique_ptr<transfer::LinkClaim> claim_in, claim_out;
  std::unique_ptr<transfer::TransferEngine> own;  // null: the engine that brings weights is used
  transfer::TransferEngine* engine = nullptr;
};

class Machine {
 public:
  // The GPUs that this process sees. Home and clock outlive the machine. kUnavailable without a
  // GPU; kUnsupported in a build without CUDA.
  static Result<std::unique_ptr<Machine>> open_gpus(LinkOptions links, ModelHome& home,
                                                    const Clock& clock);
  // Devices of the CPU backend. kInvalidArgument for a bad profile of their links.
  static Result<std::unique_ptr<Machine>> open_host(device::HostMachineOptions host,
                                                    LinkOptions links, ModelHome& home,
                                                    const Clock& clock);
  Machine(LinkOptions links, ModelHome& home, const Clock& clock);  // for these two
  ~Machine();

  ModelHome& home() { return home_; }
  const Clock& clock() const { return clock_; }
  device::CudaMachine* cuda() { return cuda_.get(); }  // nullptr on the CPU
  device::HostMachine* host() { return host_.get(); }  // nullptr on GPUs
  int gpus() const;
  // The facts from which slices can be divided. `gpu`: the GPU that --slices means when it names
  // none. kInvalidArgument: no such GPU; kDevice.
  Result<SliceFacts> slice_facts(int gpu = 0);
  SliceBook& slices() { return slices_; }

  // The other GPU's memory from which weights come; nullptr: they come from host memory.
  PeerHome* peer_home() { return peer_home_.get(); }

  // Opens a device. Errors as CudaMachine::open() and HostMachine::open(). The device must be
  // destroyed before the machine.
  Result<std::unique_ptr<device::Device>> open(const device::SliceSpec& slice);
  // Connects a device of this GPU to its links. The result must be destroyed before the device. A
  // GPU that could relay but cannot be opened is left out with a warning. kInvalidArgument for the
  // GPU that is the home of weights; kUnsupported for a GPU that does not reach it.
  Result<SliceLinks> connect(device::Device& device, int gpu);

  // Connects KV for the device that `weights` is for. KV uses the engine of weights that come from
  // host memory, so that priorities hold between both; otherwise links of its own. `weights`, which
  // may be empty, must outlive the result. Errors as connect().
  Result<KvLinks> connect_kv(device::Device& device, int gpu, const SliceLinks& weights);

  const transfer::LinkShares& shares() const { return *shares_; }
  // For LinkOptions::leased: what the copies under way could use, and the share of the links that
  // the book divides from now on. A machine that does not lease wants nothing, and ignores shares.
  transfer::LinkWants wanted() const;
  void lease(const transfer::LinkRates& rates);

 private:
  Status learn_links();
  Status open_home();
  Result<SliceLinks> connect_to_host(device::Device& device, int gpu);
  Result<SliceLinks> connect_to_home(device::Device& device, int gpu);
  Result<transfer::LinkShares*> shares_of_home(device::Device& device, int gpu);
  Status read_map();
  std::vector<std::string> ids() const;
  bool passes(int source, int target) const;
  LinkPlan plan(int gpu) const;
  // The plan, with the relays of it opened.
  LinkPlan plan_with_relays(int gpu);
  Status open_relay(int gpu);

  const LinkOptions options_;
  ModelHome& home_;
  const Clock& clock_;
  std::unique_ptr<device::CudaMachine> cuda_;  // this, or the next
  std::unique_ptr<device::HostMachine> host_;
  std::optional<transfer::LinkMap> map_;  // for the GPUs that the process sees
  std::unique_ptr<transfer::LinkShares> shares_;
  std::optional<transfer::LeasedWays> leased_;
  transfer::LinkRates lease_;                              // the last share
  std::map<int, std::unique_ptr<device::Device>> relays_;  // by GPU
  std::set<int> left_out_;                                 // relays that could not be opened
  std::unique_ptr<PeerHome> peer_home_;
  // By GPU: the shares of its link to the home.
  std::map<int, std::unique_ptr<transfer::LinkShares>> peer_shares_;
  SliceBook slices_;
};

}  // namespace causeway::slice
