// Writes one safetensors file whose tensors are known beforehand and whose bytes come in any order,
// from any number of threads: a large model needs no copy of itself in memory.
//
//   SafetensorsWriter::create(path, tensors) ─▶ write(tensor, offset, bytes)… ─▶ finish()
//
// The file appears under its name only with finish(); until then it is NAME.partial, which the
// destructor removes. It is not forced to the disk: a power failure can lose it.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "weights/file.h"

namespace causeway::weights {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kBF16;
  std::vector<std::int64_t> shape;
};

class SafetensorsWriter {
  struct Private {};

 public:
  SafetensorsWriter(Private, std::filesystem::path path) : path_(std::move(path)) {}
  // Tensors lie in the order given. kInvalidArgument: a name twice, a negative size, an overflow.
  static Result<std::unique_ptr<SafetensorsWriter>> create(std::filesystem::path path,
                                                           std::span<const TensorSpec> tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Thread-safe. The range must lie inside the tensor (a CHECK fails otherwise).
  Status write(std::size_t tensor, Bytes offset, std::span<const std::byte> bytes);

  // kInvalidArgument when not every byte was written. The writer is done with afterwards.
  Status finish();

 private:
  struct Range {
    Bytes offset;  // from the start of the file
    Bytes bytes;
  };
  Status begin(std::string header, Bytes data_bytes);

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::vector<Range> ranges_;
  FileDescriptor fd_;
  Bytes data_bytes_;
  std::atomic<std::int64_t> written_{0};
};

}  // namespace causeway::weights
