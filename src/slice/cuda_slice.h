// A slice on a GPU: weights of models are cached in HBM, and brought from home when they are
// needed.
#pragma once

#include <map>
#include <memory>
#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "device/paced_registration.h"
#include "slice/machine.h"
#include "slice/slice.h"
#include "slice/switching.h"
#include "slice/twin_home.h"

namespace causeway::slice {

// The options of one slice; sizes are the slice's, not the whole GPU's.
struct CudaSliceOptions {
  int gpu = 0;
  int processors = 0;  // SMs, as in SlicePart; zero: all, in the primary context
  int unit = 0;        // as in SlicePart
  double share = 1;    // as in SlicePart: of the GPU's memory for slices
  // Share of the GPU's memory that all its users together may take.
  double memory_utilization = 0.9;
  Bytes kv = {};                    // HBM for KV frames; zero: what is left
  Bytes kv_frame = {};              // bytes of one frame
  KvHostOptions kv_host = {};       // host memory to which KV rotates
  Bytes weights = {};               // HBM for cached weights; zero: the slice chooses
  Bytes ring = {};                  // HBM for the ring of a streamed model; zero: the slice chooses
  // For streamed models with experts.
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;
  // For cached models; a baseline also needs StepStart::kAllCached, which the slice sets.
  Switching switching = Switching::kLayers;
  bool graphs = true;                        // capture and replay decode steps
  weights::ResidencyOptions residency = {};  // the slice sets the number and size of extents
  engine::EngineOptions engine = {};         // the slice sets the frames
  Bytes registered_at_once = device::Pace().piece;  // of a home: device/paced_registration.h
  LinkFront link_front = {};
  ExecutorFront executor_front = {};
};

// A model that may be attached; the slice is sized for the largest.
struct CudaCandidate {
  ModelId id;
  std::string name;
  Result<model::ModelConfig> config;
  Tokens max_model_len;
  bool pinned = false;
  // The most HBM for its weights, beyond which they are streamed; zero: no limit.
  Bytes max_resident = {};
};

// How every slice of a GPU keeps the model, as Slice::card(), without an open slice.
Result<model::ModelCard> cuda_card(model::ModelConfig config, Bytes kv_frame);

// Does in advance what takes time when a process opens its first slice of a GPU, without the memory
// of a slice: the primary context (some 0.5 GB of HBM), the CUDA runtime and cuBLASLt in it. The
// result stays until the process ends. kInvalidArgument, kUnsupported as open_cuda_slice();
// kResourceExhausted or kDevice when the driver refuses.
Status warm_up_cuda(Machine& machine, int gpu);

// Opens a slice, and divides its share of the GPU's memory among cached weights, workspace and KV.
// Candidates that cannot be read or do not fit are left out with a warning, and attaching one fails
// with the reason. kResourceExhausted, with the numbers, or the reason why no candidate is left;
// kUnavailable without a GPU; kInvalidArgument for a GPU that does not exist; kUnsupported in a
// build without CUDA. The machine (of GPUs) and the sink must outlive the slice.
Result<std::unique_ptr<Slice>> open_cuda_slice(const CudaSliceOptions& options,
                                               std::span<const CudaCandidate> candidates,
                                               Machine& machine, engine::OutputSink& sink);

}  // namespace causeway::slice
