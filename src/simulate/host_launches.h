// The time that launching steps takes of the engine's thread, which launches one step after the
// other. Steps of single tokens run as CUDA graphs by batch size; all others are launched kernel by
// kernel (docs/design/model.md). Pure.
//
//   decode, first step of a size    plain launch
//           second step             plain launch, captured as a graph
//           later steps             no time: it is part of the step's overhead
//   prompts                         plain launch; the first prompt of a number of rows with such
//                                   products also chooses their kernels
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "base/id_map.h"
#include "base/units.h"
#include "request/batch.h"
#include "simulate/cost_model.h"
#include "simulate/hardware_profile.h"

namespace causeway::simulate {

class HostLaunches {
 public:
  explicit HostLaunches(const HardwareProfile& profile);

  // Takes a submitted step, and returns when its kernels may run. The model's shape must stay until
  // forget().
  Nanos launch(const request::Batch& batch, const ModelShape& shape, Nanos now);
  // The same for a step whose sequences have `tokens` in all.
  struct Rows {
    ModelId model;
    std::int64_t sequences = 0;
    std::int64_t tokens = 0;
    bool prompts = false;  // some sequence has more than one token
  };
  Nanos launch(const Rows& rows, const ModelShape& shape, Nanos now);
  // The launch times of a request that runs alone: of its first step, with the prompt, and of each
  // of the next `plain` steps. The steps after these take no time.
  struct Alone {
    Nanos first;
    Nanos each;
    std::int64_t plain = 0;
  };
  Alone alone(ModelId model, Tokens prompt, const ModelShape& shape) const;
  // The thread is busy with launching until then.
  Nanos until() const { return until_; }
  // Whether a step of single tokens like this one would run as a graph.
  bool has_graph(const request::Batch& batch) const;
  // The model is removed, and its graphs with it.
  void forget(ModelId model);

 private:
  // The dimensions of the model, which together with the rows decide which kernel is best for a
  // product.
  using Dimensions = std::array<std::int64_t, 5>;

  struct Model {
    // By index in buckets_: how many steps of this size there were, at most two.
    std::vector<std::uint8_t> decoded;
    std::vector<bool>* chosen = nullptr;  // the entry of the model's dimensions in chosen_
  };

  static Dimensions dimensions_of(const model::ModelConfig& config);
  Model& model_of(ModelId model, const model::ModelConfig& config);
  Nanos takes(const Rows& rows, const ModelShape& shape);
  // Whether this is the model's first step with prompts of so many tokens.
  static bool is_first(std::int64_t tokens, Model& model);
  // The index in buckets_; its size when the step is larger than all buckets.
  std::size_t bucket_of(std::int64_t sequences) const;

  const Nanos plain_, choice_;
  const std::vector<std::int64_t> buckets_;
  std::map<Dimensions, std::vector<bool>> chosen_;  // by rows
  IdMap<ModelId, Model> models_;                    // models that have launched a step
  Nanos until_;
};

}  // namespace causeway::simulate
