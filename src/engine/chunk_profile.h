// A file of what steps take on a machine, by chunk, slice and shape: the offline table of C2CServe
// §6.3. Measured by `causeway profile`, read by the chunk controller (docs/design/chunks.md).
//
//   {"format": "causeway-chunk-profile", "version": 1,
//    "device": "cuda", "machine": "NVIDIA H200", "driver": "CUDA 13.0", "commit": "35361b83…",
//    "tables": [{"model": "Llama-3.1-8B", "shape": "32 layers of 4096, …", "processors": 132,
//                "decodes": 32, "context": 1024, "runs": 5,
//                "steps": [{"tokens": 1, "ttft_ms": 5.1, "tpot_ms": 6.0, "gamma_x": 1,
//                           "gamma_o": 1.4}, …]}]}
//
// `processors`: SMs of the slice, or threads. What is read may come from anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedule/step_table.h"

namespace causeway::engine {

struct MeasuredStep {
  Tokens tokens{0};    // of one prompt
  double ttft_ms = 0;  // the step alone
  double tpot_ms = 0;  // beside the sequences that decode
  double gamma_x = 1;  // passes over the products' inputs, model/step_traffic.h
  double gamma_o = 1;
};

struct MeasuredTable {
  std::string model = {};  // for people
  std::string shape = {};  // model::shape_text()
  int processors = 0;
  std::int64_t decodes = 0;  // sequences beside a chunk
  std::int64_t context = 0;  // tokens of each of them
  std::int64_t runs = 0;     // of each figure, whose median is kept
  std::vector<MeasuredStep> steps = {};

  schedule::StepTable times() const;
};

struct MeasuredChunks {
  std::string device = {};  // "cuda" or "cpu"
  std::string machine = {};
  std::string driver = {};
  std::string commit = {};
  std::vector<MeasuredTable> tables = {};
};

// kCorrupt, with the table and the field, for whatever else it holds; kUnsupported for another
// version. Unknown fields are ignored.
Result<MeasuredChunks> parse_chunk_profile(std::string_view json);
// What parse_chunk_profile() gives back.
std::string chunk_profile_json(const MeasuredChunks& chunks);

// For the controller: times that never fall (schedule::rising()). `file`: its name, for messages.
schedule::ChunkProfile profile_of(const MeasuredChunks& chunks, std::string file);

}  // namespace causeway::engine
