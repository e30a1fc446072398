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
  KvHostOptions kv_host = {};  // to which KV rotates, over links as those of weights
  Bytes cache = {};            // for cached weights; zero: weights are read at home
  Bytes ring = {};  // that the weights of a streamed model pass through; zero: the slice's choice
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;  // of such a model
  // Of models that are cached; baselines also want StepStart::kAllCached, which the slice sets.
  Switching switching = Switching::kLayers;
  int device = 0;                                                     // of the machine
  int threads = 0;  // on which it computes, and no others; zero: all that there are
  // Lets memory move between KV frames and cached weights: both are then whole extents, and
  // frames_per_extent and kv_max are the slice's to set.
  std::optional<schedule::BorderRules> border = {};
  weights::ResidencyOptions residency = {};  // extents and their size are the slice's to set
  engine::EngineOptions engine = {};         // frames are the slice's to set
  LinkFront link_front = {};
  ExecutorFront executor_front = {};
};

// How every slice of the CPU keeps a model, known before one is open; as Slice::card().
Result<model::ModelCard> host_card(model::ModelConfig config, Bytes kv_frame);

// The machine (of the CPU backend) and the sink outlive the slice. kInvalidArgument: options that
// contradict each other, or threads that are not there; kResourceExhausted: no memory or thread to
// be had.
Result<std::unique_ptr<Slice>> open_host_slice(const HostSliceOptions& options, Machine& machine,
                                               engine::OutputSink& sink);

}  // namespace causeway::slice
