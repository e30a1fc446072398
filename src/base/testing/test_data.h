// Real data for tests and benchmarks: $CAUSEWAY_TEST_DATA, which may be unset.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace causeway {

// A path inside the test data, or none when there is no test data or no such path.
inline std::optional<std::filesystem::path> test_data(const std::string& path) {
  const char* root = std::getenv("CAUSEWAY_TEST_DATA");
  if (root == nullptr || *root == '\0') return std::nullopt;
  const std::filesystem::path full = std::filesystem::path(root) / path;
  if (!std::filesystem::exists(full)) return std::nullopt;
  return full;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

}  // namespace causeway

// Sets `variable` to a path of the test data, or skips the test with the reason.
#define CAUSEWAY_TEST_DATA_OR_SKIP(variable, path)   \
  const auto variable = ::causeway::test_data(path); \
  if (!variable) GTEST_SKIP() << "needs " << (path) << " of the test data: set CAUSEWAY_TEST_DATA"
