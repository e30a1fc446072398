// The sparse layers of a model on a GPU: where each expert lies, in tables on the device, so that
// the kernels reach the ones that the router chose without asking the host.
//
// Where experts are cached one by one (docs/design/experts.md), the tables change between steps:
//
//   place() of each layer ─▶ mirror in pinned memory ─ bring() ─▶ tables    in front of a step
//   chosen counts on the device ─ fetch_chosen() ─▶ pinned ─▶ take_chosen()    behind it
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "device/cuda/cuda_pinned.h"
#include "device/pieces.h"
#include "kernels/cuda_stream.h"
#include "kernels/moe/moe_cuda.h"
#include "model/config.h"
#include "model/cuda_array.h"
#include "model/cuda_workspace.h"
#include "model/layers.h"
#include "weights/weight_layout.h"

namespace causeway::model {

struct CudaExpertsStep {
  std::int64_t layer = 0;  // a sparse one
  std::int64_t tokens = 0;
  int sm_count = 0;               // of the stream's context
  const void* x = nullptr;        // bf16 [tokens][hidden]
  const float* scores = nullptr;  // f32 [tokens][experts], the router's
  void* residual = nullptr;       // bf16 [tokens][hidden], to which the experts' sum is added
  void* workspace = nullptr;      // workspace_bytes, prepared
  std::uint64_t* experts_read = nullptr;  // or null: the experts that were chosen are added
};

class CudaExperts {
 public:
  static Bytes workspace_bytes(const ModelConfig& config, std::int64_t tokens);

  // The weights outlive the object and stay where they are; the workspace outlives it too. With
  // slots, `weights` are at home, as the device sees it, and experts move to slots and back.
  static Result<CudaExperts> create(const ModelConfig& config, const ModelWeights& weights,
                                    const weights::ExpertSlots& slots, CudaWorkspace& workspace);
  bool moves() const { return slots_.base != nullptr; }

  // Where the layer's experts are from the next bring() on: in which slot, -1: at home. No step of
  // the model is in flight.
  void place(std::int64_t layer, std::span<const std::int32_t> slots);
  // Enqueues what place() has changed; in front of kernels that let nothing behind them start
  // before they have waited (moe_cuda.h).
  Status bring(kernels::CudaStream stream);
  // Enqueued behind a step; then, when it has ended, how many of its tokens chose each expert:
  // [sparse layers][experts].
  Status fetch_chosen(kernels::CudaStream stream);
  std::vector<std::uint32_t> take_chosen();

  Status run(const CudaExpertsStep& step, kernels::CudaStream stream) const;

  // For few tokens one kernel does the norm in front and the router's product too: x and scores are
  // not used, the norm's input is the residual.
  bool front_fits(const CudaExpertsStep& step) const;
  Status run_with_front(const kernels::moe::FrontCuda& front, const CudaExpertsStep& step,
                        kernels::CudaStream stream) const;

 private:
  kernels::moe::ParamsCuda params(const CudaExpertsStep& step) const;

  Status make_movable(CudaWorkspace& workspace);

  ModelConfig config_;
  std::vector<std::int64_t> table_of_layer_;  // which table; -1: dense
  std::int64_t tables_count_ = 0;             // sparse layers
  device::Piece tables_;  // const void* [sparse layers][gate, up, down][experts]

  // For experts that move between home and slots.
  weights::ExpertSlots slots_;
  std::vector<const void*> home_;    // the tables with all experts at home
  device::CudaPinned mirror_;        // of the tables
  std::vector<std::int32_t> shown_;  // [sparse layers][experts], what the mirror says
  bool changed_ = false;             // the mirror, since the last bring()
  device::Piece chosen_;             // uint32_t [sparse layers][experts], since the start
  device::CudaPinned chosen_mirror_;
  std::vector<std::uint32_t> chosen_before_;
};

}  // namespace causeway::model
