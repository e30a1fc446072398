// A slice on a GPU: models' weights are cached in HBM and come from home when they are asked for.
#pragma once

#include <map>
#include <memory>
#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "slice/machine.h"
#include "slice/slice.h"
#include "slice/switching.h"
#include "slice/twin_home.h"

namespace causeway::slice {

// Sizes are the slice's own, not its GPU's.
struct CudaSliceOptions {
  int gpu = 0;
  int processors = 0;               // SMs, SlicePart::processors; zero: all, the primary context
  double share = 1;                 // SlicePart::share: of what the GPU's memory has for slices
  double memory_utilization = 0.9;  // of the GPU's memory, by all together
  Bytes kv = {};                    // HBM for KV frames; zero: what is left
  Bytes kv_frame = {};              // of one frame
  KvHostOptions kv_host = {};       // to which KV rotates
  Bytes weights = {};               // HBM for cached weights; zero: the slice's choice
  Bytes ring = {};  // HBM that the weights of a streamed model pass through; zero: its choice
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;  // of such a model
  // Of models that are cached; baselines also want StepStart::kAllCached, which the slice sets.
  Switching switching = Switching::kLayers;
  bool graphs = true;                        // decode steps are captured and replayed
  weights::ResidencyOptions residency = {};  // extents and their size are the slice's to set
  engine::EngineOptions engine = {};         // frames are the slice's to set
  LinkFront link_front = {};
  ExecutorFront executor_front = {};
};

// A model that the slice may be asked to run: it is sized for the largest.
struct CudaCandidate {
  ModelId id;
  std::string name;
  Result<model::ModelConfig> config;
  Tokens max_model_len;
  bool pinned = false;
  Bytes max_resident = {};  // of HBM for its weights: beyond it they are streamed; zero: no limit
};

// How every slice of a GPU keeps a model, known before one is open; as Slice::card().
Result<model::ModelCard> cuda_card(model::ModelConfig config, Bytes kv_frame);

// Does ahead what takes a process's first slice of a GPU time, without memory for a slice: the
// primary context (some 0.5 GB of HBM), the CUDA runtime and cuBLASLt in it. What it makes is the
// process's for good. kInvalidArgument, kUnsupported as open_cuda_slice(); kResourceExhausted or
// kDevice when the driver refuses.
Status warm_up_cuda(Machine& machine, int gpu);

// Divides the slice's share of the GPU's memory among cached weights, workspace and KV. Candidates
// that cannot be read or do not fit are left out with a warning, and attaching one fails with the
// reason. kResourceExhausted, with the numbers, or what was wrong when none is left; kUnavailable
// without a GPU; kInvalidArgument for one that is not there; kUnsupported in a build without CUDA.
// The machine (of GPUs) and the sink outlive the slice.
Result<std::unique_ptr<Slice>> open_cuda_slice(const CudaSliceOptions& options,
                                               std::span<const CudaCandidate> candidates,
                                               Machine& machine, engine::OutputSink& sink);

}  // namespace causeway::slice
