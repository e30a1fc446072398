// Where `causeway profile` measures chunks: the CPU, or a GPU of this machine, a slice at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/model/chunk_steps.h"
#include "slice/slice_layout.h"

namespace causeway::bench {

class ChunkMachine {
 public:
  virtual ~ChunkMachine() = default;

  // As schedule::ChunkProfile::machine.
  virtual std::string name() const = 0;
  // What --slices is read against.
  virtual const slice::SliceFacts& facts() const = 0;
  virtual bool on_gpu() const = 0;
  // The type that weights and KV are kept in.
  virtual DType storage(const model::ModelConfig& config) const = 0;
  // On a slice of its own, opened for it. Blocks, for minutes where models are large.
  virtual Result<std::vector<model::ChunkSteps>> measure(
      const slice::SlicePart& part, const model::ChunkBenchOptions& options,
      const model::ChunkBenchProgress& progress) = 0;
};

// The clock outlives both. kUnavailable, with the reason, without a GPU; kInvalidArgument for one
// that is not there; kUnsupported in a build without CUDA.
Result<std::unique_ptr<ChunkMachine>> open_cpu_for_chunks(const Clock& clock);
Result<std::unique_ptr<ChunkMachine>> open_gpu_for_chunks(int gpu, const Clock& clock);

}  // namespace causeway::bench
