// The options of commands that open slices on GPUs: which links bring weights.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "slice/machine.h"
#include "this_machine.h"

namespace causeway::app {

class LinkSettings {
 public:
  // --links and --link-map-dir. The settings outlive the command.
  void declare(CLI::App& command, const std::string& group);
  slice::LinkOptions options() const;

 private:
  std::string choice_ = "map";
  std::string folder_ = default_cache_folder();
};

}  // namespace causeway::app
