// --chunk and --chunk-profile: how many tokens of prompts a step computes; for all commands that
// schedule.
#pragma once

#include <string>

#include "base/result.h"
#include "options.h"
#include "schedule/scheduler.h"

namespace causeway::app {

class ChunkOption {
 public:
  // `group`: of --help. Beside --max-num-batched-tokens, which the command declares.
  void declare(Options& app, const std::string& group = "Options");

  // Writes what the options say into `schedule`, in which --max-num-batched-tokens is already.
  // kInvalidArgument says what is wanted; of a profile, which is read here, the reader's errors
  // with file and field.
  Status apply(schedule::Options& schedule) const;

 private:
  std::string chunk_ = "fixed";
  std::string profile_;
};

}  // namespace causeway::app
