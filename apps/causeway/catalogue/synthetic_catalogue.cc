#include "catalogue/synthetic_catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "catalogue/model_files.h"
#include "model/random_model.h"

namespace causeway::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kVocab = 8192;
constexpr Tokens kContext(4096);

// As published, but for the number of layers.
struct Base {
  const char* name;
  model::Family family;
  std::int64_t hidden, intermediate, heads, kv_heads, head_dim;
};
constexpr Base kSmallQwen = {"qwen3", model::Family::kQwen3, 1024, 3072, 16, 8, 128};  // 0.6B
constexpr Base kLlama = {"llama", model::Family::kLlama, 2048, 8192, 32, 8, 64};       // 3.2 1B
constexpr Base kQwen = {"qwen3", model::Family::kQwen3, 2048, 6144, 16, 8, 128};       // 1.7B
constexpr Base kMoe = {"qwen3moe", model::Family::kQwen3Moe, 2048, 768, 32, 4, 128};   // 30B-A3B
constexpr std::int64_t kExperts = 32, kExpertsPerToken = 8;
constexpr Base kTinyMoe = {"qwen3moe", model::Family::kQwen3Moe, 64, 32, 4, 2, 16};
constexpr std::int64_t kTinyExperts = 4;
constexpr Base kTinyQwen = {"qwen3", model::Family::kQwen3, 64, 128, 4, 2, 16};
constexpr Base kTinyLlama = {"llama", model::Family::kLlama, 64, 128, 4, 2, 16};

struct Shape {
  Base base;
  std::int64_t layers;
};
constexpr std::array kShapes = {Shape{kSmallQwen, 16}, Shape{kSmallQwen, 20}, Shape{kSmallQwen, 24},
                                Shape{kSmallQwen, 28}, Shape{kLlama, 8},      Shape{kLlama, 10},
                                Shape{kLlama, 12},     Shape{kLlama, 16},     Shape{kQwen, 12},
                                Shape{kQwen, 16},      Shape{kQwen, 20},      Shape{kQwen, 28}};

constexpr std::array kMoeShapes = {Shape{kMoe, 2}, Shape{kMoe, 3}, Shape{kMoe, 4},
                                   Shape{kMoe, 5}, Shape{kMoe, 6}, Shape{kMoe, 8}};

bool is_moe(const Shape& shape) { return shape.base.family == model::Family::kQwen3Moe; }

std::vector<Shape> shapes_of(CatalogueKind kind) {
  std::vector<Shape> shapes;
  if (kind != CatalogueKind::kMoe) shapes.assign(kShapes.begin(), kShapes.end());
  if (kind != CatalogueKind::kDense) {
    shapes.insert(shapes.end(), kMoeShapes.begin(), kMoeShapes.end());
  }
  return shapes;
}

Shape tiny_of(const Shape& shape) {
  if (is_moe(shape)) return {kTinyMoe, shape.layers};
  const bool llama = shape.base.family == model::Family::kLlama;
  return {llama ? kTinyLlama : kTinyQwen, shape.layers / 4};
}

model::ModelConfig config_of(Shape shape, CatalogueSize size) {
  const bool tiny = size == CatalogueSize::kTiny;
  if (tiny) shape = tiny_of(shape);
  model::ModelConfig config = model::random_model_config(shape.base.family);
  config.hidden = shape.base.hidden;
  if (is_moe(shape)) {
    config.moe->experts = tiny ? kTinyExperts : kExperts;
    config.moe->experts_per_token = tiny ? 2 : kExpertsPerToken;
    config.moe->intermediate = shape.base.intermediate;
  } else {
    config.intermediate = shape.base.intermediate;
  }
  config.heads = shape.base.heads;
  config.kv_heads = shape.base.kv_heads;
  config.head_dim = shape.base.head_dim;
  config.layers = shape.layers;
  config.vocab = tiny ? 512 : kVocab;
  config.max_position = kContext;
  config.tied_embeddings = true;
  return config;
}

Bytes weight_bytes(const model::ModelConfig& config) {
  return size_of(config.dtype) * model::parameter_count(config);
}

// How many models of the catalogue have each of the shapes: by the inverse of its bytes, with the
// largest remainders rounded up.
std::vector<std::int64_t> counts_of(const std::vector<model::ModelConfig>& shapes,
                                    std::int64_t models) {
  double sum = 0;
  for (const auto& shape : shapes) sum += 1 / static_cast<double>(weight_bytes(shape).count);
  std::vector<std::int64_t> counts;
  std::vector<std::pair<double, std::size_t>> remainders;
  std::int64_t left = models;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const double share = 1 / static_cast<double>(weight_bytes(shapes[i]).count) / sum;
    const double wanted = share * static_cast<double>(models);
    counts.push_back(static_cast<std::int64_t>(wanted));
    remainders.emplace_back(std::floor(wanted) - wanted, i);
    left -= counts.back();
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t i = 0; left > 0; ++i, --left) ++counts[remainders[i % remainders.size()].second];
  return counts;
}

std::string name_of(std::int64_t place, std::int64_t models, const model::ModelConfig& config) {
  const std::size_t digits = std::max<std::size_t>(2, std::to_string(models - 1).size());
  const double gigabytes = static_cast<double>(weight_bytes(config).count) * 1e-9;
  const char* family = config.moe                               ? kMoe.name
                       : config.family == model::Family::kLlama ? kLlama.name
                                                                : kQwen.name;
  return gigabytes < 0.1 ? fmt::format("m{:0{}}-{}-{}l", place, digits, family, config.layers)
                         : fmt::format("m{:0{}}-{}-{:.1f}gb", place, digits, family, gigabytes);
}

// Equal for models whose files may be shared.
std::string shape_key(const model::ModelConfig& config) { return model::config_json(config); }

Status link_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (fs::equivalent(from, to, error)) return {};
  error.clear();
  fs::create_hard_link(from, to, error);
  if (!error) return {};
  if (error == std::errc::file_exists) {
    return invalid_argument(to.string() + " is of another model: remove its folder");
  }
  return io_error("cannot link " + to.string() + " to " + from.string(), error.value());
}

// config.json comes last, so that what is incomplete is not taken for a model.
Status link_model(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return io_error("cannot create " + to.string(), error.value());
  for (fs::directory_iterator entry(from, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path name = entry->path().filename();
    if (name != "config.json") CAUSEWAY_TRY(link_file(entry->path(), to / name));
  }
  if (error) return io_error(from.string(), error.value());
  return link_file(from / "config.json", to / "config.json");
}

// What a run that was broken off has left of a model.
Status clear_incomplete(const fs::path& model) {
  std::error_code error;
  if (fs::exists(model / "config.json", error)) return {};
  for (const char* name :
       {"model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    fs::remove(model / name, error);
    if (error) return io_error((model / name).string(), error.value());
  }
  return {};
}

// A server of the folder would serve them as well.
Status check_no_others(const fs::path& folder, const std::vector<NamedConfig>& catalogue) {
  std::set<std::string> names;
  for (const NamedConfig& model : catalogue) names.insert(model.name);
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (names.count(name) == 0 && fs::exists(entry->path() / "config.json", ignored)) {
      return invalid_argument(folder.string() + ": has a model that is not of this catalogue, " +
                              name + ": choose another folder, or remove it");
    }
  }
  return error ? Status(io_error(folder.string(), error.value())) : Status();
}

// Of shapes that are still to be written.
Status check_room(const fs::path& folder, const std::vector<NamedConfig>& catalogue) {
  std::map<std::string, Bytes> shapes;
  for (const NamedConfig& model : catalogue) {
    const bool there = fs::exists(folder / model.name / "config.json");
    const auto [shape, added] = shapes.emplace(shape_key(model.config), weight_bytes(model.config));
    if (there && added) shape->second = Bytes(0);
  }
  Bytes needed;
  for (const auto& [key, bytes] : shapes) needed += bytes;
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return io_error(folder.string(), error.value());
  if (static_cast<double>(needed.count) <= static_cast<double>(space.available)) return {};
  return exhausted(
      fmt::format("{}: the models' files take {:.1f} GB, and the disk has {:.1f} GB "
                  "left",
                  folder.string(), static_cast<double>(needed.count) * 1e-9,
                  static_cast<double>(space.available) * 1e-9));
}

}  // namespace

namespace {

constexpr std::array kKinds = {std::pair("dense", CatalogueKind::kDense),
                               std::pair("moe", CatalogueKind::kMoe),
                               std::pair("mixed", CatalogueKind::kMixed)};

}  // namespace

std::vector<std::string> catalogue_kinds() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kKinds) names.emplace_back(name);
  return names;
}

std::optional<CatalogueKind> catalogue_kind_named(std::string_view name) {
  for (const auto& [known, kind] : kKinds) {
    if (name == known) return kind;
  }
  return std::nullopt;
}

std::vector<NamedConfig> synthetic_catalogue(const CatalogueOptions& options) {
  CAUSEWAY_CHECK(options.models >= 1 && options.models <= kCatalogueModelsMax,
                 "a catalogue of a size that none has");
  std::vector<model::ModelConfig> shapes, all;
  for (const Shape& shape : shapes_of(options.kind)) {
    shapes.push_back(config_of(shape, options.size));
  }
  const auto counts = counts_of(shapes, options.models);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    all.insert(all.end(), static_cast<std::size_t>(counts[i]), shapes[i]);
  }
  Random random(options.seed);
  for (std::size_t i = all.size(); i > 1; --i) {
    std::swap(all[i - 1],
              all[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  }
  std::vector<NamedConfig> catalogue;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    std::string name = name_of(place, options.models, all[i]);
    catalogue.push_back({std::move(name), std::move(all[i])});
  }
  return catalogue;
}

CatalogueBytes bytes_of(const std::vector<NamedConfig>& catalogue) {
  CatalogueBytes bytes;
  std::map<std::string, Bytes> shapes;
  for (const NamedConfig& model : catalogue) {
    bytes.weights += weight_bytes(model.config);
    shapes[shape_key(model.config)] = weight_bytes(model.config);
  }
  for (const auto& [key, one] : shapes) bytes.files += one;
  return bytes;
}

Status write_catalogue(const fs::path& folder, const std::vector<NamedConfig>& catalogue,
                       const std::function<void(const std::string& what)>& progress) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return io_error("cannot create " + folder.string(), error.value());
  CAUSEWAY_TRY(check_no_others(folder, catalogue));
  CAUSEWAY_TRY(check_room(folder, catalogue));
  std::map<std::string, fs::path> written;  // by shape
  for (const NamedConfig& model : catalogue) {
    const auto [first, added] = written.emplace(shape_key(model.config), folder / model.name);
    if (added) {
      if (progress) progress(model.name);
      CAUSEWAY_TRY(clear_incomplete(folder / model.name));
      const auto made = write_model(folder, model.name, model.config);
      if (!made.ok()) return made.error();
    } else {
      CAUSEWAY_TRY(link_model(first->second, folder / model.name));
    }
  }
  return {};
}

}  // namespace causeway::bench
