// Slices of the CPU backend for a plan: weights are read at home, or cached where the plan says so.
#pragma once

#include <memory>

#include "slice/host_slice.h"
#include "worker/worker_server.h"

namespace causeway::worker::testing {

class HostOpener final : public SliceOpener {
 public:
  // `link`: bytes per second of the device's link; 0: as fast as memory is.
  explicit HostOpener(double link = 0) : link_(link) {}
  Result<std::unique_ptr<slice::Machine>> open_machine(const WorkerPlan& plan,
                                                       slice::ModelHome& home,
                                                       const Clock& clock) override {
    device::HostMachineOptions host{.extent_bytes = kib(64)};
    if (link_ > 0) host.links = device::make_link_tree({.link = link_, .link_duplex = 2 * link_});
    return slice::Machine::open_host(host, {.leased = plan.leases()}, home, clock);
  }
  Result<std::unique_ptr<slice::Slice>> open_slice(const WorkerPlan& plan, std::size_t number,
                                                   slice::Machine& machine,
                                                   engine::OutputSink& sink) override {
    const SlicePlan& slice = plan.slices[number];
    return slice::open_host_slice({.kv = slice.kv,
                                   .kv_frame = slice.kv_frame,
                                   .kv_host = {.bytes = slice.kv_host, .ahead = slice.kv_frame * 4},
                                   .cache = slice.weights,
                                   .ring = slice.ring,
                                   .experts = slice.experts,
                                   .threads = slice.processors,
                                   .engine = slice.engine},
                                  machine, sink);
  }

 private:
  const double link_;
};

}  // namespace causeway::worker::testing
