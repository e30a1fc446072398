// A catalogue of models as people put beside each other on one GPU, dense ones or mixtures of
// experts: shapes of the Qwen and Llama families of 0.5 to 2.9 GB in bf16, with a vocabulary that
// is small, so that a tokenizer is.
// As configs, for the simulator, and in files, for a server.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalogue/named_config.h"

namespace causeway::bench {

enum class CatalogueSize {
  kReal,
  kTiny,  // of about 150 KB each, for tests
};

enum class CatalogueKind {
  kDense,
  kMoe,    // layers of Qwen3-30B-A3B with a quarter of the experts, as many of them for a token
  kMixed,  // both
};
// "dense", "moe", "mixed".
std::vector<std::string> catalogue_kinds();
// nullopt: there is no such kind.
std::optional<CatalogueKind> catalogue_kind_named(std::string_view name);

inline constexpr std::int64_t kCatalogueModelsMax = 10'000;

struct CatalogueOptions {
  std::int64_t models = 87;
  CatalogueSize size = CatalogueSize::kReal;
  CatalogueKind kind = CatalogueKind::kDense;
  std::uint64_t seed = 1;  // which model has which shape
};

// The same for the same options; names are in order, "m00-qwen3-0.9gb" …. Twelve dense shapes, or
// six of experts, or all; each has about an equal part of the catalogue's bytes, so that the small
// ones are many: 87 dense models have 94 GB. 1 to kCatalogueModelsMax models: a CHECK.
std::vector<NamedConfig> synthetic_catalogue(const CatalogueOptions& options);

// Writes each into a folder of its own in `folder`, with random weights. Models of one shape share
// their files (hard links), so that the disk holds each shape once. What is there already stays: a
// run that was broken off goes on. `progress`: what is written next. kResourceExhausted: the disk
// has not room; kInvalidArgument: something else lies there; kIo.
Status write_catalogue(const std::filesystem::path& folder,
                       const std::vector<NamedConfig>& catalogue,
                       const std::function<void(const std::string& what)>& progress);

// Of the models' weights: all, and those that the disk holds.
struct CatalogueBytes {
  Bytes weights;
  Bytes files;
};
CatalogueBytes bytes_of(const std::vector<NamedConfig>& catalogue);

}  // namespace causeway::bench
