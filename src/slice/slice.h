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

// A model that the slice is to run.
struct SliceModel {
  ModelId id;
  const model::ModelCard& card;  // as card() made it; read during attach() only
  std::unique_ptr<weights::PinnedModel> home;
  Tokens max_model_len;
  Bytes max_resident = {};  // of the device for its weights; zero: what the slice has
  double alpha = schedule::kAlphaDefault;  // engine::ModelFacts::alpha
};

// How much memory a slice has for cached weights. No budget: weights are read at home.
struct WeightRoom {
  Bytes budget;
  Bytes extent;  // of which a model takes whole ones

  Bytes taken_by(Bytes model) const {
    return budget > Bytes(0) ? round_up(model, extent) : Bytes(0);
  }
};

// The limits of a slice, by which it is decided which models it gets; 0: not known, or no limit.
struct SliceLimits {
  double link_bytes_per_second = 0;  // that its link would grant its weights now
  double memory_bytes_per_second = 0;
  double flops_per_second = 0;
  Bytes memory;  // of the device, for weights and KV
};

// Puts a device in front of the slice's own, through which every copy of weights goes from then on:
// one that counts them, or has them fail. It borrows the slice's. Empty: none.
using LinkFront = std::function<std::unique_ptr<device::Device>(device::Device&)>;
// Puts an executor in front of the slice's own, through which every step goes: one that measures
// them. It borrows the slice's. Empty: none.
using ExecutorFront = std::function<std::unique_ptr<engine::StepExecutor>(engine::StepExecutor&)>;

class Slice {
 public:
  virtual ~Slice() = default;

  virtual engine::Engine& engine() = 0;
  // KV frames, of all models together, that a request may count on: more than there are now, where
  // memory comes to them from cached weights.
  virtual std::int64_t frames() const = 0;
  virtual WeightRoom weight_room() const = 0;
  // Slices of a GPU share its link: each is granted what is not in use. Any thread.
  virtual SliceLimits limits() const = 0;

  // How this slice keeps a model's weights and KV. kUnsupported: it cannot run such a model.
  virtual Result<model::ModelCard> card(model::ModelConfig config) const = 0;
  // Why this model cannot be run here, as far as that is known before it is loaded.
  virtual Status check(ModelId model, const model::ModelCard& card) const = 0;
  // Makes a model's home reachable for the slice's copies, ahead of their use: in small pieces with
  // pauses while any slice of the process serves, because registering memory holds up the launches
  // of all. Once for all slices, of all GPUs: another's costs nothing then, and it stays when this
  // one ends.
  virtual Status reach(device::HostAddress address, Bytes bytes,
                       const std::function<bool()>& cancelled) = 0;
  // Takes it back before a home is released, for all slices, when no model of it is attached to
  // any, as gently.
  virtual void unreach(device::HostAddress address, Bytes bytes) = 0;
  // Makes the model runnable, without moving a byte of it; then the engine must be told of it
  // (Engine::add_model). kResourceExhausted, with the numbers: it does not fit the slice.
  virtual Result<engine::ModelFacts> attach(SliceModel model) = 0;
  // Undoes attach(), after Engine::remove_model().
  virtual void detach(ModelId model) = 0;

  // Bytes of weights that have come from home since the slice was opened. Any thread.
  virtual Bytes link_bytes() const = 0;
  // Bytes that have gone from the device to host memory by the same ways: of KV. Weights are only
  // dropped. Any thread.
  virtual Bytes link_bytes_out() const = 0;
  // For measuring: the device; the engine that brings weights to it (nullptr: they are read at
  // home); and how much of the device's memory is in use: of a whole GPU by this process and
  // others, of a part of one by the slice.
  virtual device::Device& device() = 0;
  virtual const SliceLinks* links() const = 0;
  virtual Result<Bytes> device_memory_used() = 0;
};

}  // namespace causeway::slice
