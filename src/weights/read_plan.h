// Which reads of a model's files fill its place in memory. Reads follow the order of the files, not
// of the layout, in runs of adjacent bytes.
#pragma once

#include <vector>

#include "base/result.h"
#include "weights/checkpoint.h"
#include "weights/load_plan.h"
#include "weights/weight_layout.h"

namespace causeway::weights {

// Long enough for a disk's full rate and few system calls, short enough to share among threads.
inline constexpr Bytes kRunBytesMax = mib(8);
inline constexpr std::size_t kRunSegmentsMax = 512;  // below IOV_MAX, 1024

// One read: `bytes` from `offset` of a file, cut into segments for different places of the model.
struct ReadRun {
  struct Segment {
    Bytes source_bytes;  // in the file, whole elements
    Bytes target;        // from the model's base
  };
  std::size_t file = 0;
  Bytes offset;
  Bytes bytes;
  DType from = DType::kBF16;
  std::vector<Segment> segments;
};

struct ReadPlan {
  DType dtype = DType::kBF16;  // to which elements are converted
  std::vector<ReadRun> runs;
  Bytes bytes;  // of all runs
};

// Checks every tensor of the plan against the files; `layout` is the plan's. kNotFound: it is
// missing; kCorrupt: its shape is wrong; kUnsupported: its type is none that weights have. Messages
// name file and tensor.
Result<ReadPlan> plan_reads(const LoadPlan& plan, const WeightLayout& layout,
                            const Checkpoint& checkpoint);

}  // namespace causeway::weights
