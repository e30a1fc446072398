// Executes plans of products at home (home_gemm.h) on a GPU.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/cuda_stream.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/home_gemm/home_gemm.h"

namespace causeway::kernels::home_gemm {

// Whether plans of kStaged will be run: they take a stream and events.
enum class Staging { kNever, kSome };

// One call at a time, on the context that was current at create(). No launch allocates or waits,
// so that all can be captured in a CUDA graph. What create() makes (a stream for copies and its
// events) belongs to that context, which must be current in the destructor too.
class HomeGemm {
 public:
  // `gemm` outlives the object and is used by its calls.
  static Result<HomeGemm> create(gemm::CudaGemm& gemm, Staging staging = Staging::kSome);
  ~HomeGemm();
  HomeGemm(HomeGemm&&) noexcept;
  HomeGemm& operator=(HomeGemm&&) noexcept;

  struct Buffers {
    void* workspace = nullptr;  // gemm's, prepared (gemm_cuda.h): Plan::workspace bytes
    void* scratch = nullptr;    // HBM, 256-byte aligned: Plan::scratch bytes. May be null when 0.
  };

  // Enqueues the product on `stream`; does not block. operands.w is the weight at home, as a kernel
  // and a copy of this context can read it. Copies of kStaged run on a stream of their own, which
  // begins where `stream` is, and `stream` waits for them; the scratch may be used again by what is
  // enqueued behind. Errors: kInvalidArgument for operands that the plan cannot take (kStaged:
  // rows of w must be dense) and for kStaged with Staging::kNever; kDevice; those of gemm and
  // hybrid_gemm.
  Status run(const Plan& plan, const gemm::CudaOperands& operands, const Buffers& buffers,
             CudaStream stream);

 private:
  class State;
  explicit HomeGemm(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace causeway::kernels::home_gemm
