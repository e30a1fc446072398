// What the link of a slice gives: batches of copies from a model's home, by the copy engine alone.
#pragma once

#include "base/result.h"
#include "bench/slice_parts.h"
#include "weights/model_pool.h"

namespace causeway::bench {

// Bytes per second, the median of `rounds`; from a peer's memory as the slice has measured it.
// Nothing else may run.
Result<double> measure_link_rate(LocalSlice& local, const weights::PinnedModel& home,
                                 std::int64_t rounds);

}  // namespace causeway::bench
