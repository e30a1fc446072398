// What all models of one CUDA slice share, because one step runs at a time: activations, the
// kernels' workspaces, and cuBLASLt. Taken once from the slice's arena, sized for the largest step
// of the largest model.
#pragma once

#include <memory>

#include "base/result.h"
#include "device/arena.h"
#include "device/cuda/cuda_owned.h"
#include "device/device.h"
#include "device/pieces.h"
#include "kernels/cuda_stream.h"
#include "kernels/gemm/gemm_cuda.h"
#include "model/config.h"
#include "model/cuda_array.h"

namespace causeway::model {

// The largest step that will run.
struct CudaStepLimits {
  std::int64_t rows = 8192;     // tokens
  std::int64_t slots = 256;     // sequences, and rows of logits
  std::int64_t frames = 65536;  // of all sequences together
};

// Where a step's intermediate results lie, for one model. bf16 unless said otherwise.
struct CudaActivations {
  std::byte* x = nullptr;         // [rows][hidden], the residual stream
  std::byte* normed = nullptr;    // [rows][hidden]
  std::byte* qkv = nullptr;       // [rows][q heads, k heads, v heads][head_dim]
  std::byte* attended = nullptr;  // [rows][heads][head_dim]
  std::byte* active = nullptr;    // [rows][intermediate]
  std::byte* gate_up = nullptr;   // [rows][2][intermediate], where the activation is a kernel's own
  std::byte* added = nullptr;     // [rows][hidden], of models with output_norms
  float* scores = nullptr;        // f32 [rows][experts]
  float* rope = nullptr;          // f32 [rows][head_dim]
  float* local_rope = nullptr;    // likewise, of models with local_rope_theta
  float* logits = nullptr;        // f32 [slots][vocab]
};

// What the steps of some models need, each part as large as for the model that needs most of it.
// It depends on rows and slots of the limits, not on frames. Pure: models are added one by one,
// since planning a model's products takes 0.1 ms.
struct CudaNeeds {
  std::int64_t models = 0;
  Bytes gemm, attention, experts, activations;

  // kInvalidArgument for limits that the kernels cannot serve: nothing is added.
  Status add(const ModelConfig& model, const CudaStepLimits& limits, int sm_count);
};

class CudaWorkspace {
 public:
  // For `needs` of the same limits and processors. Enqueues the zeroing of the kernels' workspaces
  // on `stream`. The device outlives the workspace. kResourceExhausted names the numbers.
  static Result<std::unique_ptr<CudaWorkspace>> create(device::Device& device,
                                                       const CudaNeeds& needs,
                                                       const CudaStepLimits& limits, int sm_count,
                                                       kernels::CudaStream stream);
  // For one model.
  static Result<std::unique_ptr<CudaWorkspace>> create(device::Device& device,
                                                       const ModelConfig& model,
                                                       const CudaStepLimits& limits, int sm_count,
                                                       kernels::CudaStream stream);

  // What the workspace takes of the arena, together with what models and the executor keep beside
  // it. Pure.
  static Bytes bytes_for(const CudaNeeds& needs, const CudaStepLimits& limits, Bytes extent);

  // For create().
  CudaWorkspace(device::Device& device, const CudaStepLimits& limits, int sm_count,
                kernels::gemm::CudaGemm library, ConstantCopier constants)
      : device_(device),
        limits_(limits),
        sm_count_(sm_count),
        library_(device, std::move(library)),
        pieces_(device.arena()),
        constants_(std::move(constants)) {}

  // kInvalidArgument when this model needs more than those for which the workspace was made.
  Status check_room(const ModelConfig& model) const;

  const CudaStepLimits& limits() const { return limits_; }
  int sm_count() const { return sm_count_; }
  Bytes bytes() const { return extents_.bytes() + pieces_.bytes(); }
  device::Device& device() const { return device_; }
  // For what models and the executor keep beside it: constants, tables, what sampling reads.
  device::Pieces& pieces() { return pieces_; }
  // A copy that is complete when this returns. One thread at a time.
  Result<device::Piece> constant(std::span<const std::byte> bytes) {
    return constants_.copy(bytes, pieces_);
  }

  CudaActivations activations(const ModelConfig& model) const;
  std::int32_t* tables() const { return reinterpret_cast<std::int32_t*>(at(Bytes(0))); }
  void* gemm_workspace() const { return at(parts_.gemm); }
  void* attention_workspace() const { return at(parts_.attention); }
  void* experts_workspace() const { return at(parts_.experts); }
  kernels::gemm::CudaGemm& gemm() { return *library_; }

 private:
  struct Parts {  // offsets, behind the tables
    Bytes gemm, attention, experts, activations, end;
  };
  static Parts parts_of(const CudaNeeds& needs, const CudaStepLimits& limits);
  std::byte* at(Bytes offset) const { return extents_.data() + offset.count; }

  device::Device& device_;
  CudaStepLimits limits_;
  int sm_count_;
  device::CudaOwned<kernels::gemm::CudaGemm> library_;
  device::Extents extents_;
  device::Pieces pieces_;
  ConstantCopier constants_;
  Parts parts_;
};

}  // namespace causeway::model
