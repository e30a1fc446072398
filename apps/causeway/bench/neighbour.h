// A model that decodes while something else is measured: its requests, and the gaps between their
// tokens.
#pragma once

#include <vector>

#include "bench/samples.h"
#include "bench/slice_parts.h"

namespace causeway::bench {

struct NeighbourSettings {
  std::int64_t batch = 32;      // sequences
  std::int64_t context = 1024;  // tokens of their prompts
  std::int64_t output = 8000;   // tokens that they decode at the most
};

class Neighbour {
 public:
  // Borrows both.
  Neighbour(LocalSlice& local, const NeighbourSettings& settings)
      : local_(local), settings_(settings) {}

  // Requests of the first model; returns when each has had some tokens.
  Status start();
  Status stop() { return local_.stop(requests_); }
  // For so many tokens more. kUnavailable when its requests are at their end.
  Status wait(std::size_t tokens);
  // Between tokens of a request: every gap of which a part lies in the time, in ms.
  Samples gaps(Nanos from, Nanos to);

 private:
  LocalSlice& local_;
  const NeighbourSettings& settings_;
  std::vector<RequestId> requests_;
};

}  // namespace causeway::bench
