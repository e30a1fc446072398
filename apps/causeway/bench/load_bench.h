// What loading a model from its files costs: how long a server takes from its start to the first
// token, and what another model that decodes meanwhile feels of a load. Random weights, written
// once.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/figure.h"
#include "bench/neighbour.h"
#include "bench/slice_parts.h"

namespace causeway::bench {

struct LoadBenchSettings {
  NamedConfig config;  // of the model that is loaded, and of the one that decodes
  SliceSettings slice;
  std::filesystem::path disk_dir;  // where files are written; empty: a folder that is removed
  std::int64_t starts = 5;         // of a server; 0: none
  std::int64_t loads = 5;          // beside a model that decodes; 0: none
  std::int64_t tokens_alone = 3000;
  NeighbourSettings decode = {.batch = 1, .context = 512, .output = 20'000};
  std::function<void(const std::string& what)> progress;
};

// Files are in the page cache. Errors as open_cuda_slice(); kIo when the files cannot be written.
Result<std::vector<Figure>> bench_load(const LoadBenchSettings& settings, const Clock& clock);

nlohmann::ordered_json load_json(const std::vector<Figure>& rows);

}  // namespace causeway::bench
