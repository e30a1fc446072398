// The CUDA backend, assembled over one GPU: every attached model has its home in the pool and its
// cached copy in HBM.
#pragma once

#include <memory>
#include <vector>

#include "backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "fleet/local_fleet.h"

namespace causeway::app {

struct CudaBackendOptions {
  Bytes pool;      // budget of host memory for weights
  Bytes kv;        // HBM for KV frames; zero: what is left
  Bytes kv_frame;  // of one frame
  int gpu = 0;
  double memory_utilization = 0.9;
  std::int64_t tokens_per_step_max = 0;
  std::int64_t sequences_max = 0;
  int load_threads = 0;
};

// Divides the GPU's memory among the given models, workspace and KV. Models that cannot be read or
// do not fit beside those before them are left out with a warning, and attaching one fails with the
// reason. kResourceExhausted, with the numbers, or what was wrong when none is left; kUnavailable
// without a GPU; kInvalidArgument for one that is not there; kUnsupported in a build without CUDA.
// `clock` outlives the backend.
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaBackendOptions& options,
                                                   const std::vector<fleet::CatalogueModel>& models,
                                                   const Clock& clock);

}  // namespace causeway::app
