// Executes a step's program (step_program.h) on a GPU: every instruction is a kernel's launch, a
// wait or a signal, and gets the addresses of weights, results and tables. Chooses nothing, and
// keeps nothing from one instruction to the next.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "device/device.h"
#include "kernels/cuda_stream.h"
#include "kernels/home_gemm/home_gemm_cuda.h"
#include "model/config.h"
#include "model/cuda_experts.h"
#include "model/cuda_workspace.h"
#include "model/forward.h"
#include "model/layers.h"
#include "model/step_program.h"
#include "weights/weight_layout.h"

namespace causeway::model {

// What a step reads where. `where` empty: all is cached. Else `steps` is the stream of the step,
// which waits for staged groups.
struct CudaStepWeights {
  weights::StepWeights where = {};
  device::Stream* steps = nullptr;
};

// What is the same in all steps of a model.
struct CudaStepModel {
  const ModelConfig& config;
  const ModelWeights& weights;  // in memory of the device
  // At home, as the device sees it, and what multiplies there; null: nothing is read there.
  const ModelWeights* home = nullptr;
  kernels::home_gemm::HomeGemm* home_gemm = nullptr;
  const double* frequencies = nullptr;        // rope_frequencies(), memory of the device
  const double* local_frequencies = nullptr;  // local_rope_frequencies(), likewise
  CudaExperts* experts = nullptr;             // of a model that has any
  std::uint64_t* experts_read = nullptr;      // CudaForwardOptions
  CudaWorkspace& workspace;
  const CudaActivations& results;
};

// One step, whose tables are in the workspace or on their way there.
struct CudaStep {
  StepShape shape;
  KvMemory kv;
  CudaStepWeights reads;
  kernels::CudaStream stream = nullptr;
  std::span<const kernels::home_gemm::Plan> home_plans = {};  // StepProgram::home_plans
};

// Enqueues instructions of a program that was made for this model, shape and weight plan. kDevice
// when the GPU refuses; kDeadlineExceeded when the host has waited for weights in vain.
Status run_instructions(std::span<const StepInstruction> instructions, const CudaStepModel& model,
                        const CudaStep& step);

}  // namespace causeway::model
