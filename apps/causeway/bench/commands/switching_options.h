// --step-start, --switching, --hybrid-gemm and --alpha: what changing a simulated slice's model
// costs. One definition for all commands that simulate.
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

  // kInvalidArgument says what is wanted. The targets of an α are the caller's to set.
  Status apply(simulate::SimulationOptions& slice) const;

 private:
  std::string start_, switching_ = "layers";  // start: empty: by default
  bool hybrid_gemm_ = false;
  std::string alpha_;  // empty: none
};

}  // namespace causeway::app
