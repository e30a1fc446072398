// The weights of one model directory: model.safetensors, or the shards that
// model.safetensors.index.json lists. All headers are read and checked; no tensor is.
//
// Errors name the file, and the tensor where there is one. Shards are plain names inside the
// directory: a path in the index is refused. Files may be symbolic links, as in the hub cache.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "weights/file.h"
#include "weights/safetensors.h"

namespace causeway::weights {

inline constexpr Bytes kIndexBytesMax = mib(256);

// Opens a file and reads its header.
struct SafetensorsFile {
  File file;
  SafetensorsHeader tensors;

  static Result<SafetensorsFile> open(const std::filesystem::path& path);
};

class Checkpoint {
 public:
  struct Tensor {
    std::size_t file = 0;  // into files()
    const TensorInfo* info = nullptr;
  };

  // kNotFound when the directory has neither file.
  static Result<Checkpoint> open(const std::filesystem::path& directory);

  const std::vector<SafetensorsFile>& files() const { return files_; }
  // Null when there is no such tensor.
  const Tensor* find(std::string_view name) const;
  // What an error calls the checkpoint: its single file, or its index.
  const std::filesystem::path& path() const { return path_; }

 private:
  static Result<Checkpoint> open_index(const std::filesystem::path& path);

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::unordered_map<std::string_view, Tensor> tensors_;  // keys lie in files_
};

}  // namespace causeway::weights
