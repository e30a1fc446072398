// Options of a command from four places: command line > environment CAUSEWAY_<OPTION> > YAML file >
// default. The option --max-model-len is CAUSEWAY_MAX_MODEL_LEN there and `max-model-len:` here.
// Variables that are empty, that Kubernetes sets for a service named "causeway", or that the
// preload library reads are not options.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "options.h"

namespace causeway::app {

// nullptr when the variable is not set; std::getenv in the program, a table in tests.
using Environment = std::function<const char*(const char*)>;

// Fills every option of `command` that the command line did not give. `config_file` may be empty.
// kInvalidArgument names the variable, or the file and key, whose value is refused or unknown.
Status apply_settings(const Options& command, const std::string& config_file,
                      const Environment& environment);

}  // namespace causeway::app
