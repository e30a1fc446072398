// Whether what `serve` was told about memory can be: checked before anything is loaded, so that an
// option that is too small or too large is named, with the numbers.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "slice/slice.h"

namespace causeway::app {

// A model of the catalogue that can be read, and what it takes.
struct ServedModel {
  std::string name;
  Bytes bytes;
  bool pinned = false;
  std::string no_room = {};  // why no slice can hold what of it a step needs; empty: one can
};

struct ServeMemory {
  Bytes pool;                     // host memory for weights
  slice::WeightRoom device = {};  // for cached weights
  bool single = false;            // one model is all that is served
};

// --pin names models of the catalogue: kInvalidArgument lists those.
Status check_pins(const std::vector<std::string>& pins, const std::vector<std::string>& names);
// MODEL=BYTES, where bytes may have a unit.
struct ModelBytes {
  std::string model;
  Bytes bytes;
};
// `option`: which was given so. kInvalidArgument.
Result<ModelBytes> parse_model_bytes(const std::string& text, const std::string& option);
// MODEL=RATE, in requests a second.
struct ModelRate {
  std::string model;
  double rate = 0;
};
// As above.
Result<ModelRate> parse_model_rate(const std::string& text, const std::string& option);
// kResourceExhausted: the pool is less than the single model, or pinned models do not fit together.
Status check_memory(const std::vector<ServedModel>& models, const ServeMemory& memory);
// kResourceExhausted: no model fits a slice, not even streamed; `slices`: how many there are.
Status check_any_fits(const std::vector<ServedModel>& models, std::size_t slices);
// kResourceExhausted: --weights-memory-bytes on the CPU and KV in host memory are more than the
// machine has left. `weights` may be none.
Status check_host_cache(Bytes weights, Bytes kv, Bytes left);

}  // namespace causeway::app
