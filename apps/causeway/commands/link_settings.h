// The options of commands that open slices on GPUs: where weights come from, and over which links.
#pragma once

#include <string>

#include "options.h"
#include "slice/machine.h"
#include "this_machine.h"

namespace causeway::app {

class LinkSettings {
 public:
  // --links, --link-map-dir and --home. The settings outlive the command.
  void declare(Options& command, const std::string& group);
  slice::LinkOptions options() const;
  bool from_peer() const { return home_gpu() >= 0; }

 private:
  int home_gpu() const;  // negative: host memory

  std::string home_ = "host";
  std::string choice_ = "map";
  std::string folder_ = default_cache_folder();
};

}  // namespace causeway::app
