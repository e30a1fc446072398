#include "bench/commands/slice_options.h"

#include <fmt/format.h>

#include <cstdio>

#include "commands/model_config.h"

namespace causeway::app {
namespace {

}  // namespace

void SliceOptions::declare(Options& app, const std::string& models) {
  app.add_option("--model-config", config_files_, models).one_value().existing_file();
  app.add_option("--device", device_, "device: cpu or cuda").one_of({"cpu", "cuda"}).show_default();
  app.add_option("--gpu", gpu_, "number of the GPU").non_negative();
  app.add_option("--modelled-link", modelled_link_,
                 "on the CPU: bytes per second of a modelled link; 0: no link is modelled")
      .range(0.0, 1e12);
  app.add_option("--modelled-links", modelled_links_,
                 "on the CPU: number of devices, each with a modelled link; see --links")
      .range(1, 8)
      .show_default();
  links_.declare(app, "Links");
  const auto size = [&](const char* name, std::uint64_t& value, const char* what) {
    app.add_option(name, value, what).in_bytes().range(std::uint64_t{0}, std::uint64_t{1} << 50);
  };
  size("--pool-memory-bytes", pool_,
       "host memory for the weights of all models; default: what the machine has left");
  size("--kv-cache-memory-bytes", kv_, "memory for KV; default: what the bench needs");
  size("--kv-host-memory-bytes", kv_host_, "host memory for KV that rotates; default: none");
  size("--kv-frame-bytes", kv_frame_, "size of a KV frame, 4MiB by default; small for tiny models");
}

void SliceOptions::declare_weights(Options& app, Bytes standard) {
  weights_ = static_cast<std::uint64_t>(standard.count);
  weights_declared_ = true;
  app.add_option("--weights-memory-bytes", weights_, "memory of the device that caches weights")
      .in_bytes()
      .show_default();
}

void SliceOptions::apply(bench::SliceSettings& settings) const {
  settings.device = device_;
  settings.gpu = gpu_;
  settings.links = links_.options();
  settings.modelled_link = modelled_link_;
  settings.modelled_links = modelled_links_;
  settings.pool = bytes_of(pool_);
  settings.kv = bytes_of(kv_);
  settings.kv_frame = bytes_of(kv_frame_);
  settings.kv_host = bytes_of(kv_host_);
  if (weights_declared_) settings.weights = bytes_of(weights_);
}

Result<std::vector<bench::NamedConfig>> SliceOptions::configs() const {
  // Not by CLI11, which knows nothing of the environment and the file.
  if (config_files_.empty()) return invalid_argument("--model-config is required: a config.json");
  std::vector<bench::NamedConfig> configs;
  for (const std::string& file : config_files_) {
    CAUSEWAY_ASSIGN(model::ModelConfig config, read_model_config(file));
    configs.push_back({model_name_of(file), std::move(config)});
  }
  return configs;
}

Result<model::ModelConfig> SliceOptions::config() const {
  CAUSEWAY_ASSIGN(auto all, configs());
  if (all.size() > 1) return invalid_argument("--model-config: one is enough here");
  return std::move(all.front().config);
}

}  // namespace causeway::app
