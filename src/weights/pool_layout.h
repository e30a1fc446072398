// Where each tensor of a plan lies in a model's host region, and which reads of its files fill it.
//
//   region │ group 0: tensor │ tensor │ … ░░ │ group 1: tensor │ … │
//          ^ 4 KiB             ^ 64 B          ^ 4 KiB
//
// Reads follow the order of the files, not of the region, in runs of adjacent bytes.
#pragma once

#include <vector>

#include "base/result.h"
#include "weights/checkpoint.h"
#include "weights/load_plan.h"

namespace causeway::weights {

inline constexpr Bytes kTensorAlignment = Bytes(64);
inline constexpr Bytes kGroupAlignment = kib(4);
// Long enough for a disk's full rate and few system calls, short enough to share among threads.
inline constexpr Bytes kRunBytesMax = mib(8);
inline constexpr std::size_t kRunSegmentsMax = 512;  // below IOV_MAX, 1024

struct PlacedTensor {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Bytes offset;  // in the region
};

struct PlacedGroup {
  std::string name;
  Bytes offset;  // in the region
  Bytes bytes;
  std::vector<PlacedTensor> tensors;
};

// One read: `bytes` from `offset` of a file, cut into segments for different places of the region.
struct ReadRun {
  struct Segment {
    Bytes source_bytes;  // in the file, whole elements
    Bytes target;        // in the region
  };
  std::size_t file = 0;
  Bytes offset;
  Bytes bytes;
  DType from = DType::kBF16;
  std::vector<Segment> segments;
};

struct PoolLayout {
  Bytes bytes;
  DType dtype = DType::kBF16;
  std::vector<PlacedGroup> groups;
  std::vector<ReadRun> runs;
  Bytes read_bytes;  // of all runs
};

// Checks every tensor of the plan against the files. kNotFound: it is missing; kCorrupt: its shape
// is wrong; kUnsupported: its type is none that weights have. Messages name file and tensor.
Result<PoolLayout> plan_layout(const LoadPlan& plan, const Checkpoint& checkpoint);

}  // namespace causeway::weights
