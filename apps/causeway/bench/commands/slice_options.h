// The options of the benches that run a slice in this process: whose shapes, where, with what
// memory.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/slice_parts.h"
#include "commands/link_settings.h"
#include "options.h"

namespace causeway::app {

class SliceOptions {
 public:
  // `models`: what --model-config is for.
  void declare(Options& app, const std::string& models);
  // --weights-memory-bytes, for benches that leave it to the user.
  void declare_weights(Options& app, Bytes standard);

  // What the options say, into `settings`; the rest of it stays.
  void apply(bench::SliceSettings& settings) const;
  // kInvalidArgument when there is none; names are those of the files.
  Result<std::vector<bench::NamedConfig>> configs() const;
  // kInvalidArgument unless there is one.
  Result<model::ModelConfig> config() const;

 private:
  std::vector<std::string> config_files_;
  std::string device_ = "cuda";
  int gpu_ = 0;
  LinkSettings links_;
  double modelled_link_ = 0;
  int modelled_links_ = 1;
  std::uint64_t pool_ = 0;
  std::uint64_t kv_ = 0;
  std::uint64_t kv_host_ = 0;
  std::uint64_t kv_frame_ = std::uint64_t{4} << 20;
  std::uint64_t weights_ = 0;
  bool weights_declared_ = false;
};

}  // namespace causeway::app
