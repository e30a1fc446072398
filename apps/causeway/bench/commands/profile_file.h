// Files of profiles: of products at home, which `causeway profile` writes and --profile reads, and
// of chunks.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/chunk_profile.h"
#include "kernels/home_gemm/profile.h"

namespace causeway::app {

// Every entry. kNotFound without the file; the errors of parse_profiles(), with its name.
Result<std::vector<kernels::home_gemm::MachineProfile>> read_profiles(const std::string& file);

// kIo names the file.
Status write_profiles(const std::string& file,
                      const std::vector<kernels::home_gemm::MachineProfile>& machines);

Status write_chunk_profile(const std::string& file, const engine::MeasuredChunks& chunks);

}  // namespace causeway::app
