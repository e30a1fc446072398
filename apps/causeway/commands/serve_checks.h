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
};

struct ServeMemory {
  Bytes pool;                     // host memory for weights
  slice::WeightRoom device = {};  // for cached weights
  bool device_wanted = false;  // by --weights-memory-bytes
  bool single = false;         // one model is all that is served
};

// --pin names models of the catalogue: kInvalidArgument lists those.
Status check_pins(const std::vector<std::string>& pins, const std::vector<std::string>& names);
// kResourceExhausted: --weights-memory-bytes is less than the largest model, the pool less than the
// single one, or pinned models do not fit together.
Status check_memory(const std::vector<ServedModel>& models, const ServeMemory& memory);
// kResourceExhausted: --weights-memory-bytes and KV on the CPU are more than the machine has left.
Status check_host_cache(Bytes weights, Bytes kv, Bytes left);

}  // namespace causeway::app
