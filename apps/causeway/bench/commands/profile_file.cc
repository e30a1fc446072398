#include "bench/commands/profile_file.h"

#include <cerrno>
#include <fstream>
#include <iterator>

namespace causeway::app {
namespace {

Status write_profile(const std::string& file, const std::string& json) {
  std::ofstream out(file, std::ios::binary);
  out << json;
  out.flush();
  return out ? Status() : io_error("cannot write " + file, errno);
}

}  // namespace

using kernels::home_gemm::MachineProfile;

Result<std::vector<MachineProfile>> read_profiles(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return not_found("cannot read the profile " + file);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return kernels::home_gemm::parse_profiles(text).with_context(file);
}

Status write_profiles(const std::string& file, const std::vector<MachineProfile>& machines) {
  return write_profile(file, kernels::home_gemm::profiles_json(machines));
}

Status write_chunk_profile(const std::string& file, const engine::MeasuredChunks& chunks) {
  return write_profile(file, engine::chunk_profile_json(chunks));
}

}  // namespace causeway::app
