// The safetensors format: what one file holds, checked so that every tensor can be read without
// looking again.
//
//   0        8               8 + n                                        file size
//   │ n: u64 │ header: JSON  │ tensor │ tensor │ … without holes or overlaps │
//
//   header: {"__metadata__": {text: text}, "<name>": {"dtype": "BF16", "shape": [2, 3],
//            "data_offsets": [begin, end]}, …}     offsets count from 8 + n
//
// Files are hostile: length against the file and a cap, nesting, duplicate names and fields,
// unknown types, numbers that are negative, fractional or too large, shape × type against the
// offsets. All errors are kCorrupt (kUnsupported for an unknown type) and name the tensor.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace causeway::weights {

inline constexpr Bytes kSafetensorsHeaderMax = Bytes(100'000'000);  // as the reference reader
inline constexpr std::size_t kSafetensorsRankMax = 8;
inline constexpr std::size_t kSafetensorsTensorsMax = 1'000'000;

struct TensorInfo {
  std::string name;
  std::string_view stored_type;     // as the file spells it: "BF16", "I64", …; static storage
  std::optional<DType> dtype;       // when it is one that weights can have
  std::vector<std::int64_t> shape;  // empty: a scalar
  Bytes offset;                     // from the start of the file
  Bytes bytes;
};

// The tensors of a file in the order of their bytes.
using SafetensorsHeader = std::vector<TensorInfo>;

// Reads the 8 bytes that a file begins with: the length of the header. kCorrupt when the file of
// `file_bytes` cannot hold it, or it exceeds the cap.
Result<Bytes> safetensors_header_bytes(std::span<const std::byte, 8> begin, Bytes file_bytes);

// Parses the header of a file of `file_bytes`.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, Bytes file_bytes);

// A name from a file as an error shows it: short, and without control characters.
std::string shown_name(std::string_view name);

}  // namespace causeway::weights
