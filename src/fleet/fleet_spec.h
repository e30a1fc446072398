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
  Bytes weights = {};          // that a step reads; S_m of the paper
  request::Slo slo = {};       // for which it is placed
  double rate = 0;             // requests a second that are expected
  double flops_per_token = 0;  // of a prompt
  Tokens prompt = {};          // that is expected
  Bytes memory_min = {};       // of a slice: a ring, KV of one context
  bool pinned = false;         // never unloaded
};

struct SliceSpec {
  LinkId link = {};             // that its weights cross; invalid: none
  std::int64_t models_max = 0;  // on it at once
  Bytes memory = {};            // for weights and KV
  double memory_bytes_per_second = 0;
  double flops_per_second = 0;
};

struct LinkSpec {
  double bytes_per_second = 0;  // what it grants to weights
};

struct FleetSpec {
  std::vector<ModelSpec> models;  // by ModelId
  std::vector<SliceSpec> slices;  // by SliceId
  std::vector<LinkSpec> links;    // by LinkId
};

// The resources that a model takes of a slice while it is there (paper §6.1, 6.2).
struct Demand {
  Bytes crosses;                       // at every step: S_m less what stays on the slice
  Bytes stays;                         // of the weights, on the slice
  Bytes memory;                        // the least, beside these
  double link_bytes_per_second = 0;    // crosses ÷ TPOT
  double memory_bytes_per_second = 0;  // weights ÷ TPOT
  double flops_per_second = 0;         // of the expected prompt, within TTFT

  Demand& operator+=(const Demand& other);
};

// The demand of a model of which `resident` stays on the slice.
Demand demand_of(const ModelSpec& model, Bytes resident);

}  // namespace causeway::fleet
