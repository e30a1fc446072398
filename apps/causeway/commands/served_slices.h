// The slices of `serve`: what --slices says, opened one after the other, each with its part of the
// memory that the options give, and what the fleet is to know of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "fleet/engine_slice.h"
#include "fleet/local_fleet.h"
#include "slice/machine.h"
#include "slice/slice.h"
#include "slice/slice_layout.h"

namespace causeway::app {

// Sizes are those of a GPU, or of the CPU backend, whose slices divide them; of zero: the slice's
// choice, on the CPU none.
struct ServedSlicesOptions {
  std::string slices = "all";  // see slice::parse_slices
  int gpu = 0;                 // of which this speaks that names none
  double memory_utilization = 0.9;
  Bytes kv = {};
  Bytes kv_frame = {};
  Bytes kv_host = {};  // of all GPUs together
  Bytes weights = {};
  Bytes ring = {};  // of each streamed model, not divided
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;
  engine::EngineOptions engine = {};
};

class ServedSlices {
 public:
  // Machine and sink outlive the slices, and so does the machine's home. On a GPU the models decide
  // how its memory is divided. kInvalidArgument: no such slices; or as open_cuda_slice() and
  // open_host_slice(), of the slice that is named.
  static Result<std::unique_ptr<ServedSlices>> open(
      const ServedSlicesOptions& options, const std::vector<fleet::CatalogueModel>& models,
      slice::Machine& machine, engine::OutputSink& sink);

  std::vector<slice::Slice*> all() const;
  // Every slice keeps a model alike.
  Result<model::ModelCard> card(const fleet::ModelSource& source) const;
  // That any slice can hold of one context.
  std::int64_t frames() const;
  // For the weights of a model: of the slice that has least.
  slice::WeightRoom weight_room() const;
  bool several() const { return slices_.size() > 1; }

  // What each is made of, for the fleet; nothing of one that is alone, which divides all itself.
  fleet::FleetSlices fleet();
  // What a model asks of its slice.
  fleet::ModelSpec spec_of(const model::ModelCard& card) const;

  // Ends every engine at once.
  void stop();
  // Of the first whose device hangs, or of all together when none is left; else nothing.
  request::Observation observe_dead() const;

 private:
  struct Served {
    slice::SlicePart part;
    std::unique_ptr<slice::Slice> slice;
    std::unique_ptr<fleet::EngineSlice> seen;  // by the fleet
  };

  std::vector<Served> slices_;
};

}  // namespace causeway::app
