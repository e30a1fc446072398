// Which tensors of a checkpoint go where in the model pool: plain data that `model` derives from a
// config, and that the loader executes. Each group (the embedding, a layer, the head) becomes one
// contiguous range, in execution order, so that a layer is one copy over the link.
//
//   group "layers.3" │ input_norm │ q|k|v stacked │ o │ post_norm │ gate|up stacked │ down │
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace causeway::weights {

// A tensor of the checkpoint, [rows, cols] row-major, or some rows of one. A vector of the file may
// be a row or a column.
struct SourceTensor {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  // Not 0: the tensor has so many rows, of which these are `rows` from first_row on.
  std::int64_t tensor_rows = 0;
  std::int64_t first_row = 0;

  std::int64_t rows_of_tensor() const { return tensor_rows > 0 ? tensor_rows : rows; }
};

// A tensor of the pool: its sources stacked by rows, all with equal cols.
struct PlannedTensor {
  std::string name;  // e.g. "qkv", unique within its group
  std::vector<SourceTensor> sources;
};

struct PlannedGroup {
  std::string name;  // e.g. "layers.3"
  std::vector<PlannedTensor> tensors;
};

struct LoadPlan {
  DType dtype = DType::kBF16;  // how weights are stored; the loader converts what differs
  std::vector<PlannedGroup> groups;
};

}  // namespace causeway::weights
