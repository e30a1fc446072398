// A slice, put together: a part of a device with its KV frames, its cached weights, its executor
// and the engine that drives them. It borrows what a process has once (model_home.h, machine.h).
//
//   ModelHome ── pinned home ──▶ attach ─▶ range and semaphores ─▶ forward pass ─▶ executor
//                                               ▲                                     ▲
//                                 WeightCache ──┴── TransferMover                   Engine
//
// attach(), detach(), reach() and unreach() block and may be called from one thread at a time,
// while the engine serves.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "engine/engine.h"
#include "engine/step_executor.h"
#include "model/model_card.h"
#include "schedule/rotation_policy.h"
#include "slice/machine.h"
#include "weights/model_pool.h"

namespace causeway::slice {

// A model to attach.
struct SliceModel {
  ModelId id;
  const model::ModelCard& card;  // as card() made it; used during attach() only
  std::unique_ptr<weights::PinnedModel> home;
  Tokens max_model_len;
  Bytes max_resident = {};  // of the device for its weights; zero: as much as the slice has
  double alpha = schedule::kAlphaDefault;  // engine::ModelFacts::alpha
};

// How much memory the slice has for cached weights. A budget of zero: weights are read at home.
struct WeightRoom {
  Bytes budget;
  Bytes extent;  // a model takes whole extents

  Bytes taken_by(Bytes model) const {
    return budget > Bytes(0) ? round_up(model, extent) : Bytes(0);
  }
};

// The limits of a slice, by which models are assigned to it; 0: unknown, or no limit.
struct SliceLimits {
  double link_bytes_per_second = 0;  // that its link would grant to weights now
  double memory_bytes_per_second = 0;
  double flops_per_second = 0;
  Bytes memory;  // of the device, for weights and KV
};

// Makes a device that is put in front of the slice's own, and gets every copy of weights: to count
// copies, or to make them fail. It borrows the slice's device. Empty: none.
using LinkFront = std::function<std::unique_ptr<device::Device>(device::Device&)>;
// Makes an executor that is put in front of the slice's own, and gets every step: to measure steps.
// It borrows the slice's executor. Empty: none.
using ExecutorFront = std::function<std::unique_ptr<engine::StepExecutor>(engine::StepExecutor&)>;

class Slice {
 public:
  virtual ~Slice() = default;

  virtual engine::Engine& engine() = 0;
  // The number of KV frames, for all models together, that a request may count on. It exceeds the
  // present number when memory can move from cached weights to KV.
  virtual std::int64_t frames() const = 0;
  virtual WeightRoom weight_room() const = 0;
  // The present limits. Slices of a GPU share its link, so each is granted what the others leave.
  // Any thread.
  virtual SliceLimits limits() const = 0;

  // How this slice keeps a model's weights and KV. kUnsupported: it cannot run such a model.
  virtual Result<model::ModelCard> card(model::ModelConfig config) const = 0;
  // An error says why this slice cannot run the model, as far as that is known before it is loaded.
  virtual Status check(ModelId model, const model::ModelCard& card) const = 0;
  // Makes a model's home reachable for the slice's copies, ahead of their use. While any slice of
  // the process serves this is done in small pieces with pauses, because registering memory delays
  // the launches of all. It has effect for all slices of all GPUs: for other slices the call costs
  // nothing then, and the memory stays reachable when this slice ends.
  virtual Status reach(device::HostAddress address, Bytes bytes,
                       const std::function<bool()>& cancelled) = 0;
  // Undoes reach() for all slices, with the same pauses, before a home is released and when no
  // slice has the model attached.
  virtual void unreach(device::HostAddress address, Bytes bytes) = 0;
  // Makes the model runnable without moving any of its bytes; after that the engine must be told of
  // it (Engine::add_model). kResourceExhausted, with the numbers: it does not fit the slice.
  virtual Result<engine::ModelFacts> attach(SliceModel model) = 0;
  // Undoes attach(); call Engine::remove_model() before.
  virtual void detach(ModelId model) = 0;

  // The bytes of weights that have come from home since the slice was opened. Any thread.
  virtual Bytes link_bytes() const = 0;
  // The time for which such bytes were on their way. Any thread.
  virtual Nanos link_busy() const = 0;
  // The bytes of KV that have gone from the device to host memory over the same links; weights are
  // only dropped. Any thread.
  virtual Bytes link_bytes_out() const = 0;
  // For measuring: the device; the engine that brings weights to it (nullptr: weights are read at
  // home); and the device's memory in use: for a whole GPU by all processes, for a part of a GPU by
  // the slice.
  virtual device::Device& device() = 0;
  virtual const SliceLinks* links() const = 0;
  virtual Result<Bytes> device_memory_used() = 0;
};

}  // namespace causeway::slice
