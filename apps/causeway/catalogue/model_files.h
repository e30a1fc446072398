// A model of random weights in files, as published ones lie, and how fast plain reads bring them.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/config.h"

namespace causeway::bench {

// A folder of the user's, which stays, or one of our own, which is removed.
class BenchFolder {
 public:
  // `folder`: empty: a new one where temporary files go.
  static Result<BenchFolder> open(const std::filesystem::path& folder);
  BenchFolder(BenchFolder&& other) noexcept;
  BenchFolder& operator=(BenchFolder&&) = delete;
  ~BenchFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  BenchFolder(std::filesystem::path path, bool ours) : path_(std::move(path)), ours_(ours) {}

  std::filesystem::path path_;
  bool ours_ = false;
};

// The model's folder in `folder`: written, and forced to the disk, unless it is there already, from
// the same config. Errors as model::make_random_model().
Result<std::filesystem::path> write_model(const std::filesystem::path& folder,
                                          const std::string& name,
                                          const model::ModelConfig& config);

// The safetensors files of a model's folder.
class WeightFiles {
 public:
  static Result<WeightFiles> open(const std::filesystem::path& model);

  Bytes bytes() const { return bytes_; }
  // Forces what was written to the disk.
  Status flush() const;
  // So that the next read comes from the disk.
  Status drop_from_page_cache() const;
  // So that the next read does not.
  Status bring_into_page_cache() const;
  // How long it takes to read all of it by as many threads as there are processors, in large
  // pieces, into memory that is taken for it. `direct`: past the page cache, where the file system
  // can.
  Result<Nanos> read_plainly(bool direct, const Clock& clock) const;

 private:
  std::vector<std::filesystem::path> files_;
  Bytes bytes_;
};

}  // namespace causeway::bench
