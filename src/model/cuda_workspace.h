// What all models of one CUDA slice share, because one step runs at a time: activations, the
// kernels' workspaces, and cuBLASLt. Taken once from the slice's arena, sized for the largest step
// of the largest model.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "device/arena.h"
#include "device/device.h"
#include "kernels/cuda_stream.h"
#include "kernels/gemm/gemm_cuda.h"
#include "model/config.h"

namespace causeway::model {

// The largest step that will run.
struct CudaStepLimits {
  std::int64_t rows = 8192;     // tokens
  std::int64_t places = 256;    // sequences, and rows of logits
  std::int64_t frames = 65536;  // of all sequences together
};

// Where a step's intermediate results lie, for one model. bf16 unless said otherwise.
struct CudaActivations {
  std::byte* x = nullptr;         // [rows][hidden], the residual stream
  std::byte* normed = nullptr;    // [rows][hidden]
  std::byte* qkv = nullptr;       // [rows][q heads, k heads, v heads][head_dim]
  std::byte* attended = nullptr;  // [rows][heads][head_dim]
  std::byte* active = nullptr;    // [rows][intermediate]
  std::byte* mixed = nullptr;     // [rows][hidden], what experts add
  float* scores = nullptr;        // f32 [rows][experts]
  float* rope = nullptr;          // f32 [rows][head_dim]
  float* logits = nullptr;        // f32 [places][vocab]
};

class CudaWorkspace {
 public:
  // Enqueues the zeroing of the kernels' workspaces on `stream`. The device outlives the workspace.
  // kResourceExhausted names the numbers.
  static Result<std::unique_ptr<CudaWorkspace>> create(device::Device& device,
                                                       std::span<const ModelConfig> models,
                                                       const CudaStepLimits& limits, int sm_count,
                                                       kernels::CudaStream stream);

  // For create().
  CudaWorkspace(const CudaStepLimits& limits, int sm_count, kernels::gemm::CudaGemm library)
      : limits_(limits), sm_count_(sm_count), library_(std::move(library)) {}

  const CudaStepLimits& limits() const { return limits_; }
  int sm_count() const { return sm_count_; }
  Bytes bytes() const { return extents_.bytes(); }

  CudaActivations activations(const ModelConfig& model) const;
  std::int32_t* tables() const { return reinterpret_cast<std::int32_t*>(at(tables_)); }
  void* gemm_workspace() const { return at(gemm_); }
  void* attention_workspace() const { return at(attention_); }
  void* experts_workspace() const { return at(experts_); }
  kernels::gemm::CudaGemm& gemm() { return library_; }

 private:
  std::byte* at(Bytes offset) const { return extents_.data() + offset.count; }

  CudaStepLimits limits_;
  int sm_count_;
  kernels::gemm::CudaGemm library_;
  device::Extents extents_;
  Bytes tables_, gemm_, attention_, experts_, activations_;  // offsets
};

}  // namespace causeway::model
