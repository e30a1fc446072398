// Checkpoints for tests: files with any header, generated tensors.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "weights/safetensors_writer.h"

namespace causeway::weights::testing {

inline void write_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  CAUSEWAY_CHECK(file.good(), path.string());
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  CAUSEWAY_CHECK(file.good(), path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// The bytes of a safetensors file with this header, as it is, and `data` behind it.
inline std::string raw_safetensors(std::string_view header, std::string_view data) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return file.append(header).append(data);
}

// Bytes that differ with `seed` and position, and that are finite numbers in every float type.
inline std::string pattern(std::size_t bytes, std::uint64_t seed) {
  std::string content(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    // Exponent bits that are all ones would make infinities and NaN.
    content[i] = static_cast<char>(mix64(seed * 0x9E3779B9u + i) & 0xBB);
  }
  return content;
}

// Writes a file with the given tensors; the content of tensor i is pattern(size, seed + i). Returns
// the content by name.
inline std::map<std::string, std::string> write_tensors(const std::filesystem::path& path,
                                                        const std::vector<TensorSpec>& tensors,
                                                        std::uint64_t seed) {
  std::map<std::string, std::string> contents;
  auto writer = SafetensorsWriter::create(path, tensors);
  CAUSEWAY_CHECK(writer.ok(), writer.ok() ? "" : writer.error().message);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::size_t bytes = to_size(size_of(tensors[i].dtype));
    for (const std::int64_t size : tensors[i].shape) bytes *= static_cast<std::size_t>(size);
    const std::string content = pattern(bytes, seed + i);
    const auto status = (*writer)->write(i, Bytes(0), std::as_bytes(std::span(content)));
    CAUSEWAY_CHECK(status.ok(), "writing a test file");
    contents[tensors[i].name] = content;
  }
  CAUSEWAY_CHECK((*writer)->finish().ok(), "finishing a test file");
  return contents;
}

}  // namespace causeway::weights::testing
