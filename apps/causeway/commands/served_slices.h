// The slices of `serve`: what --slices says, opened in this process or in worker processes, each
// with its part of the memory that the options give, and what the fleet is to know of them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "fleet/early_load.h"
#include "fleet/local_fleet.h"
#include "fleet/pool_home.h"
#include "slice/choose_layout.h"
#include "slice/choose_slices.h"
#include "slice/machine.h"
#include "slice/slice.h"
#include "slice/slice_layout.h"
#include "slice/switching.h"
#include "topology/gpu_names.h"

namespace causeway::app {

// Sizes are those of a GPU, or of the CPU backend, whose slices divide them; of zero: the slice's
// choice, on the CPU none.
struct ServedSlicesOptions {
  std::string slices = "all";  // see slice::parse_slices
  // Where `slices` names MIG instances: what they are, in its order. Then `isolate` is set.
  std::vector<topology::ChosenInstance> instances = {};
  int gpu = 0;           // of which this speaks that names none
  bool isolate = false;  // a worker process for each GPU that has slices
  double memory_utilization = 0.9;
  Bytes kv = {};
  Bytes kv_frame = {};
  Bytes kv_host = {};  // of all GPUs together
  Bytes weights = {};
  Bytes ring = {};  // of each streamed model, not divided
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;
  slice::Switching switching = slice::Switching::kLayers;  // not of workers
  engine::EngineOptions engine = {};
  slice::LayoutRules layout_rules = {};  // of "auto": when slices change
};

// What models ask of a slice, by ModelId; without numbers of one that cannot be read.
std::vector<slice::SliceDemand> demands_of(const std::vector<fleet::CatalogueModel>& models);
slice::SliceDemand demand_of(const fleet::CatalogueModel& model);
// Of a prompt in a step, at most.
Tokens step_tokens(const ServedSlicesOptions& options);

// A slice that serves, wherever it is.
class ServedSlice {
 public:
  virtual ~ServedSlice() = default;
  virtual fleet::FleetSlice& seen() = 0;  // by the fleet
  // As those of slice::Slice.
  virtual std::int64_t frames() const = 0;
  virtual slice::WeightRoom weight_room() const = 0;
  virtual slice::SliceLimits limits() const = 0;
  // Ends what it has (kCancelled), at once.
  virtual void stop() = 0;
};

class ServedSlices {
 public:
  virtual ~ServedSlices() = default;

  // Machine and sink outlive the slices, and so does the machine's home. On a GPU the models decide
  // how its memory is divided. kInvalidArgument: no such slices; or as open_cuda_slice(),
  // open_host_slice() and Worker::start(), of the slice or GPU that is named.
  static Result<std::unique_ptr<ServedSlices>> open(
      const ServedSlicesOptions& options, const std::vector<fleet::CatalogueModel>& models,
      slice::Machine& machine, engine::OutputSink& sink);

  // Home and clock outlive what it returns, the slices too. `early` is dropped if no slice is in
  // this process.
  virtual std::unique_ptr<fleet::PoolHome> pool_home(slice::ModelHome& home, const Clock& clock,
                                                     std::unique_ptr<fleet::EarlyLoad> early) = 0;
  // Divides its GPU anew while it serves; nullptr: slices stay as they were opened.
  virtual fleet::SliceOpener* opener() { return nullptr; }
  // A model that is served from now on, or again: slices that are opened later have room for it.
  // The loader's thread.
  virtual void add(const fleet::CatalogueModel& /*model*/) {}
  // Every slice keeps a model alike.
  virtual Result<model::ModelCard> card(const fleet::ModelSource& source) const = 0;

  // That any slice can hold of one context, however a GPU may be divided later.
  std::int64_t frames();
  // For the weights of a model: of the slice that has least, or will.
  slice::WeightRoom weight_room();
  // Likewise of the slice that has most now.
  slice::WeightRoom weight_room_most();
  std::size_t count();
  // Whether one is open.
  bool any();
  bool several() { return slices_.size() > 1 || opener() != nullptr; }
  // What each is made of, for the fleet; nothing of one that stays alone, which divides all itself.
  fleet::FleetSlices fleet();
  // What a model asks of its slice.
  fleet::ModelSpec spec_of(const model::ModelCard& card) const;

  void stop();
  // Of the first of this process whose device hangs, or of all together when none is left; else
  // nothing.
  request::Observation observe_dead() const;

 protected:
  struct Opened {
    slice::SlicePart part;
    std::unique_ptr<ServedSlice> slice;
  };
  // Slices of the same number share a link to host memory.
  virtual int link_of(const slice::SlicePart& part) const { return part.gpu; }
  static fleet::SliceSpec spec_of(const slice::SliceLimits& limits, fleet::LinkId link);
  // How much less a slice may have once its GPU is divided anew; 1: it stays as it is.
  int parts_later();

  mutable std::mutex mutex_;  // guards slices_ once they may change; not while they open or end
  std::vector<Opened> slices_;
};

}  // namespace causeway::app
