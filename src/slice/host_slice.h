// A slice on the CPU. By default it computes on weights where they are, at home. With a cache it
// does what a slice of a GPU does: its device's memory is an arena of this process, and copies to
// it may be as slow as links that the machine models, so that everything above runs as it does on a
// GPU.
#pragma once

#include <memory>

#include <optional>

#include "schedule/hbm_border.h"
#include "slice/machine.h"
#include "slice/slice.h"
#include "slice/switching.h"
#include "slice/twin_home.h"

namespace causeway::slice {

struct HostSliceOptions {
  Bytes kv;                    // memory for KV frames
  Bytes kv_frame;              // of one frame
  KvHostOptions kv_host = {};  // host memory to which KV rotates, over the same links as weights
  Bytes cache = {};            // for cached weights; zero: weights are read at home
  Bytes ring = {};             // for the ring of a streamed model; zero: the slice chooses
  // For streamed models with experts.
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;
  // For cached models; a baseline also needs StepStart::kAllCached, which the slice sets.
  Switching switching = Switching::kLayers;
  int device = 0;   // index in the machine
  int threads = 0;  // the only threads on which it computes; zero: one for each CPU
  // Lets memory move between KV frames and cached weights. Both are then whole extents, and the
  // slice sets frames_per_extent and kv_max.
  std::optional<schedule::BorderRules> border = {};
  weights::ResidencyOptions residency = {};  // the slice sets the number and size of extents
  engine::EngineOptions engine = {};         // the slice sets the frames
  LinkFront link_front = {};
  ExecutorFront executor_front = {};
};

// How every slice of the CPU keeps the model, as Slice::card(), without an open slice.
Result<model::ModelCard> host_card(model::ModelConfig config, Bytes kv_frame);

// Opens a slice. The machine (of the CPU backend) and the sink must outlive it. kInvalidArgument:
// the options contradict each other, or ask for threads that do not exist; kResourceExhausted: no
// memory or no thread is available.
Result<std::unique_ptr<Slice>> open_host_slice(const HostSliceOptions& options, Machine& machine,
                                               engine::OutputSink& sink);

}  // namespace causeway::slice
