// What launching steps takes of the engine's thread, which does so for one after the other: the GPU
// has steps of single tokens of a size as graphs, and all others are enqueued kernel by kernel
// (docs/design/model.md). Pure.
//
//   decode, a size's first step   plain launch
//                  its second     the same, captured
//                  others         nothing: part of the step's overhead
//   prompts                       plain launch; the first of so many rows and such products also
//                                 asks for their kernels
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

  // A step is submitted: when its kernels may run. A model's shape stays until forget().
  Nanos launch(const request::Batch& batch, const ModelShape& shape, Nanos now);
  // The same of a step with so many tokens of each of so many sequences.
  struct Rows {
    ModelId model;
    std::int64_t sequences = 0;
    std::int64_t tokens = 0;
    bool prompts = false;  // of some more than one
  };
  Nanos launch(const Rows& rows, const ModelShape& shape, Nanos now);
  // What launching takes for a request that runs alone: of its first step, with the prompt, and of
  // each of the `plain` behind it. Those that follow take nothing.
  struct Alone {
    Nanos first;
    Nanos each;
    std::int64_t plain = 0;
  };
  Alone alone(ModelId model, Tokens prompt, const ModelShape& shape) const;
  // Until then the thread launches what was submitted so far.
  Nanos until() const { return until_; }
  // Whether a step like this one, of single tokens, would take nothing.
  bool has_graph(const request::Batch& batch) const;
  // A model goes, and its graphs.
  void forget(ModelId model);

 private:
  // What decides, beside the rows, which kernel is best for a product: the model's dimensions.
  using Dimensions = std::array<std::int64_t, 5>;

  struct Model {
    // Its steps of each size, by the size's place in buckets_: up to two.
    std::vector<std::uint8_t> decoded;
    std::vector<bool>* chosen = nullptr;  // of its dimensions, in chosen_
  };

  static Dimensions dimensions_of(const model::ModelConfig& config);
  Model& model_of(ModelId model, const model::ModelConfig& config);
  Nanos takes(const Rows& rows, const ModelShape& shape);
  // Whether it is the first step with prompts of so many tokens.
  static bool is_first(std::int64_t tokens, Model& model);
  // Its place in buckets_; their number: it is larger than all.
  std::size_t bucket_of(std::int64_t sequences) const;

  const Nanos plain_, choice_;
  const std::vector<std::int64_t> buckets_;
  std::map<Dimensions, std::vector<bool>> chosen_;  // by rows
  IdMap<ModelId, Model> models_;                    // that have been launched
  Nanos until_;
};

}  // namespace causeway::simulate
