// --step-start and --switching: what changing a simulated slice's model costs. One definition for
// all commands that simulate.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"
#include "simulate/simulate.h"

namespace causeway::app {

class SwitchingOptions {
 public:
  // `group`: of --help.
  void declare(CLI::App& app, const std::string& group = "Options");

  // kInvalidArgument says what is wanted.
  Status apply(simulate::SimulationOptions& slice) const;

 private:
  std::string start_ = "just-in-time", switching_ = "layers";
};

}  // namespace causeway::app
