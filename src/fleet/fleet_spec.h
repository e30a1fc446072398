// A fleet in numbers, for its decisions: models, slices and links, and what each model asks of a
// slice. Plain data. A limit of zero means that there is none, or that another part of the program
// divides it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "request/slo.h"

namespace causeway::fleet {

using SliceId = Id<struct SliceTag>;  // an index into FleetSpec::slices
using LinkId = Id<struct LinkTag>;    // an index into FleetSpec::links

struct ModelSpec {
  std::string name;
  Bytes weights = {};          // read by a step; S_m in the paper
  request::Slo slo = {};       // the targets for which it is placed
  double rate = 0;             // expected requests per second
  double flops_per_token = 0;  // for each token of a prompt
  Tokens prompt = {};          // the expected length
  Bytes memory_min = {};       // of a slice: a ring, and KV of one context
  bool pinned = false;         // never unloaded
};

struct SliceSpec {
  LinkId link = {};             // the link that weights cross; invalid: none
  std::int64_t models_max = 0;  // on the slice at the same time
  Bytes memory = {};            // for weights and KV
  double memory_bytes_per_second = 0;
  double flops_per_second = 0;
};

struct LinkSpec {
  double bytes_per_second = 0;  // that the link grants to weights
};

struct FleetSpec {
  std::vector<ModelSpec> models;  // by ModelId
  std::vector<SliceSpec> slices;  // by SliceId
  std::vector<LinkSpec> links;    // by LinkId
};

// What a model takes of its slice while it is there (paper §6.1, 6.2).
struct Demand {
  Bytes crosses;                       // bytes over the link at every step: S_m less `stays`
  Bytes stays;                         // bytes of the weights that stay on the slice
  Bytes memory;                        // the least memory it needs in addition
  double link_bytes_per_second = 0;    // crosses ÷ TPOT
  double memory_bytes_per_second = 0;  // weights ÷ TPOT
  double flops_per_second = 0;         // for the expected prompt, within the TTFT target

  Demand& operator+=(const Demand& other);
};

// The demand of a model when `resident` bytes of its weights stay on the slice.
Demand demand_of(const ModelSpec& model, Bytes resident);

}  // namespace causeway::fleet
