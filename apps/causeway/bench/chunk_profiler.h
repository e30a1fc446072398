// `causeway profile --model-config`: what steps take by chunk, for each model's shape on each size
// of slice (docs/design/chunks.md, engine/chunk_profile.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/chunk_machine.h"
#include "catalogue/named_config.h"
#include "engine/chunk_profile.h"

namespace causeway::bench {

struct ChunkProfileSettings {
  std::vector<NamedConfig> models;            // those of one shape are measured once
  std::vector<std::string> slices = {"all"};  // texts of --slices, whose sizes count
  Tokens most{8192};                          // of the largest step
  std::int64_t decodes = 32;                  // sequences that decode beside a chunk
  std::int64_t context = 1024;                // of each of them, or as much as the model allows
  std::int64_t runs = 5;
  std::function<void(const std::string& what)> progress = {};
  // After each table, with all that there are: what has been measured is kept when the next fails.
  std::function<Status(const engine::MeasuredChunks&)> save = {};
};

// `chunks` has what is known of machine and program; tables are added. kInvalidArgument: no such
// slices, or of another GPU; else the machine's errors, which name model and slice.
Result<engine::MeasuredChunks> profile_chunks(const ChunkProfileSettings& settings,
                                              ChunkMachine& machine, engine::MeasuredChunks chunks);

// A table for people.
std::string to_text(const engine::MeasuredChunks& chunks);

}  // namespace causeway::bench
