// Files of profiles of products at home: what `causeway profile` writes and --profile reads.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/home_gemm/profile.h"

namespace causeway::app {

// Every entry. kNotFound without the file; the errors of parse_profiles(), with its name.
Result<std::vector<kernels::home_gemm::MachineProfile>> read_profiles(const std::string& file);

// kIo names the file.
Status write_profiles(const std::string& file,
                      const std::vector<kernels::home_gemm::MachineProfile>& machines);

}  // namespace causeway::app
