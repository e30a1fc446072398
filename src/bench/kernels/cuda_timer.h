// How long enqueued work takes on a GPU.
#pragma once

#include <functional>

#include "base/result.h"
#include "base/units.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::bench {

// Calls `enqueue`, waits for what it enqueued on `stream`, and returns the GPU's time from before
// the first to after the last of it. kDeadlineExceeded after a minute.
Result<Nanos> time_on_gpu(const std::function<Status()>& enqueue, CudaStream stream);

}  // namespace causeway::kernels::bench
