// --step-start, --switching and --hybrid-gemm: what changing a simulated slice's model costs. One
// definition for all commands that simulate.
#pragma once

#include <string>

#include "base/result.h"
#include "options.h"
#include "simulate/simulate.h"

namespace causeway::app {

class SwitchingOptions {
 public:
  // `group`: of --help.
  void declare(Options& app, const std::string& group = "Options");

  // kInvalidArgument says what is wanted.
  Status apply(simulate::SimulationOptions& slice) const;

 private:
  std::string start_ = "just-in-time", switching_ = "layers";
  bool hybrid_gemm_ = false;
};

}  // namespace causeway::app
