// Slices of the CPU backend for a plan: weights are read at home, or cached where the plan says so.
#pragma once

#include <memory>

#include "slice/host_slice.h"
#include "worker/worker_server.h"

namespace causeway::worker::testing {

class HostOpener final : public SliceOpener {
 public:
  Result<std::unique_ptr<slice::Machine>> open_machine(const WorkerPlan&, slice::ModelHome& home,
                                                       const Clock& clock) override {
    return slice::Machine::open_host({.extent_bytes = kib(64)}, {}, home, clock);
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
};

}  // namespace causeway::worker::testing
