// The slices of `serve`: what --slices says, opened in this process or in worker processes, each
// with its part of the memory that the options give, and what the fleet is to know of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "fleet/early_load.h"
#include "fleet/local_fleet.h"
#include "fleet/pool_home.h"
#include "slice/machine.h"
#include "slice/slice.h"
#include "slice/slice_layout.h"

namespace causeway::app {

// Sizes are those of a GPU, or of the CPU backend, whose slices divide them; of zero: the slice's
// choice, on the CPU none.
struct ServedSlicesOptions {
  std::string slices = "all";  // see slice::parse_slices
  int gpu = 0;                 // of which this speaks that names none
  bool isolate = false;        // a worker process for each GPU that has slices
  double memory_utilization = 0.9;
  Bytes kv = {};
  Bytes kv_frame = {};
  Bytes kv_host = {};  // of all GPUs together
  Bytes weights = {};
  Bytes ring = {};  // of each streamed model, not divided
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;
  engine::EngineOptions engine = {};
};

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
  // Every slice keeps a model alike.
  virtual Result<model::ModelCard> card(const fleet::ModelSource& source) const = 0;

  // That any slice can hold of one context.
  std::int64_t frames() const;
  // For the weights of a model: of the slice that has least.
  slice::WeightRoom weight_room() const;
  bool several() const { return slices_.size() > 1; }
  // What each is made of, for the fleet; nothing of one that is alone, which divides all itself.
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
  std::vector<Opened> slices_;
};

}  // namespace causeway::app
