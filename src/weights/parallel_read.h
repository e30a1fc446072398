// Fills a model's host region from its files by several threads.
//
// What the page cache has is copied from there straight into place. The rest is read past the cache
// (O_DIRECT) where the file system can, through a buffer of the thread: the pool is the memory
// these bytes live in, a second copy of them in the cache would only push out something else.
// Elements of another type than the pool's are converted on the way.
#pragma once

#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "weights/checkpoint.h"
#include "weights/model_pool.h"
#include "weights/read_plan.h"

namespace causeway::weights {

inline constexpr int kReadThreadsMax = 64;

// Blocks until all runs of `reads` are in `region`. kCancelled when options.cancelled() says so;
// otherwise the first error of a reader.
Status read_into(const ReadPlan& reads, const Checkpoint& checkpoint, std::span<std::byte> region,
                 const LoadOptions& options, const Clock& clock);

}  // namespace causeway::weights
