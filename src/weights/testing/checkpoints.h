// Checkpoints for tests: directories that vanish, files with any header, generated tensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weights/load_plan.h"
#include "weights/safetensors_writer.h"

namespace causeway::weights::testing {

// A new empty directory, removed with all it holds at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, std::string_view content);
std::string read_file(const std::filesystem::path& path);

// The bytes of a safetensors file with this header, as it is, and `data` behind it.
std::string raw_safetensors(std::string_view header, std::string_view data);

// Bytes that differ with `seed` and position, and that are finite numbers in every float type.
std::string pattern(std::size_t bytes, std::uint64_t seed);

// Writes a file with the given tensors; the content of tensor i is pattern(size, seed + i). Returns
// the content by name.
std::map<std::string, std::string> write_tensors(const std::filesystem::path& path,
                                                 const std::vector<TensorSpec>& tensors,
                                                 std::uint64_t seed);

}  // namespace causeway::weights::testing
