#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <utility>

#include "kernels/activation/activation_cuda.h"
#include "kernels/cuda_status.cuh"
#include "kernels/home_gemm/home_gemm_cuda.h"
#include "kernels/hybrid_gemm/hybrid_gemm.h"

namespace causeway::kernels::home_gemm {
namespace {

// Pieces whose products may be under way at once: an event each. A plan with more pieces uses them
// again: a copy then waits for a later product, which is right too, since products end in order and
// only those in front of the copy have been enqueued.
constexpr std::size_t kEvents = 64;

struct DestroyEvent {
  void operator()(CUevent_st* event) const { (void)cudaEventDestroy(event); }
};
struct DestroyStream {
  void operator()(CUstream_st* stream) const { (void)cudaStreamDestroy(stream); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;
using Stream = std::unique_ptr<CUstream_st, DestroyStream>;

Result<Event> make_event() {
  cudaEvent_t event = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                           "GEMM at home: an event"));
  return Event(event);
}

Status record(const Event& event, cudaStream_t stream) {
  return cuda_status(cudaEventRecord(event.get(), stream), "GEMM at home: an event");
}

Status wait(const Event& event, cudaStream_t stream) {
  return cuda_status(cudaStreamWaitEvent(stream, event.get(), 0), "GEMM at home: waiting");
}

// The same operands from column `first` of out on, with the piece of w in the scratch.
gemm::CudaOperands operands_of(const Plan& plan, const Chunk& chunk, const gemm::CudaOperands& all,
                               const void* w) {
  const auto moved = [&](const void* base, std::int64_t elements, std::int64_t element_bytes) {
    return base == nullptr ? nullptr : static_cast<const char*>(base) + elements * element_bytes;
  };
  gemm::CudaOperands operands = all;
  const std::int64_t out_bytes = plan.request.out == gemm::CudaOut::kF32 ? 4 : 2;
  operands.w = w;
  operands.out = static_cast<char*>(all.out) + chunk.first * out_bytes;
  operands.bias = moved(all.bias, chunk.first, 2);
  operands.residual = moved(all.residual, chunk.first, 2);
  operands.discards = {};
  return operands;
}

// HybridGEMM; of silu_mul its results are gate and up side by side, which are multiplied then.
Status run_hybrid(const Plan& plan, const gemm::CudaOperands& operands,
                  const HomeGemm::Buffers& buffers, CudaStream stream) {
  const gemm::CudaRequest& r = plan.request;
  hybrid_gemm::Operands hybrid = {.x = operands.x,
                                  .w = operands.w,
                                  .o = operands.out,
                                  .x_stride = operands.x_stride,
                                  .w_stride = operands.w_stride,
                                  .o_stride = operands.out_stride,
                                  .workspace = buffers.scratch,
                                  .bias = r.bias ? operands.bias : nullptr,
                                  .residual = r.residual ? operands.residual : nullptr,
                                  .residual_stride = operands.residual_stride};
  if (!r.silu_mul) return hybrid_gemm::launch(plan.hybrid, hybrid, stream);
  hybrid.o = static_cast<char*>(buffers.workspace) + gemm::kFlagBytes.count;
  hybrid.o_stride = 2 * r.n;
  CAUSEWAY_TRY(hybrid_gemm::launch(plan.hybrid, hybrid, stream));
  return activation::run({.rows = r.m,
                          .size = r.n,
                          .gate_up = hybrid.o,
                          .out = operands.out,
                          .out_stride = operands.out_stride},
                         stream);
}

}  // namespace

class HomeGemm::State {
 public:
  explicit State(gemm::CudaGemm& gemm) : gemm_(gemm) {}

  Status prepare() {
    cudaStream_t copies = nullptr;
    CAUSEWAY_TRY(cuda_status(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking),
                             "GEMM at home: a stream"));
    copies_.reset(copies);
    CAUSEWAY_ASSIGN(begun_, make_event());
    CAUSEWAY_ASSIGN(landed_, make_event());
    for (Event& event : used_) {
      CAUSEWAY_ASSIGN(event, make_event());
    }
    return {};
  }

  Status staged(const Plan& plan, const gemm::CudaOperands& operands, const Buffers& buffers,
                cudaStream_t stream) {
    CAUSEWAY_TRY(check_staged(plan, operands, buffers));
    // What is in the scratch may still be read by kernels in front.
    CAUSEWAY_TRY(record(begun_, stream));
    CAUSEWAY_TRY(wait(begun_, copies_.get()));
    for (std::size_t i = 0; i < plan.chunks.size(); ++i) {
      const Chunk& chunk = plan.chunks[i];
      char* const piece = static_cast<char*>(buffers.scratch) + chunk.offset.count;
      if (chunk.waits_for >= 0) {
        CAUSEWAY_TRY(
            wait(used_[static_cast<std::size_t>(chunk.waits_for) % kEvents], copies_.get()));
      }
      CAUSEWAY_TRY(copy(plan.request, chunk, operands.w, piece));
      CAUSEWAY_TRY(record(landed_, copies_.get()));
      CAUSEWAY_TRY(wait(landed_, stream));
      // Not ahead of what is in front: its weight arrives only then.
      CAUSEWAY_TRY(gemm_.run(chunk.product, operands_of(plan, chunk, operands, piece),
                             buffers.workspace, stream, gemm::Overlap::kNo));
      CAUSEWAY_TRY(record(used_[i % kEvents], stream));
    }
    return {};
  }

  Status in_place(const Plan& plan, const gemm::CudaOperands& operands, const Buffers& buffers,
                  CudaStream stream) {
    return gemm_.run(plan.product, operands, buffers.workspace, stream, gemm::Overlap::kYes);
  }

 private:
  Status check_staged(const Plan& plan, const gemm::CudaOperands& operands,
                      const Buffers& buffers) const {
    if (copies_ == nullptr) return invalid_argument("GEMM at home: made for products in place");
    if (buffers.scratch == nullptr) return invalid_argument("GEMM at home: no scratch");
    if (operands.w == nullptr || operands.out == nullptr) {
      return invalid_argument("GEMM at home: an operand is null");
    }
    if (operands.w_stride == plan.request.k) return {};
    return invalid_argument("GEMM at home: rows of a staged weight must be dense");
  }

  // A piece's rows of w; of silu_mul those of gate and then those of up.
  Status copy(const gemm::CudaRequest& r, const Chunk& chunk, const void* w, char* piece) {
    const std::int64_t row = r.k * 2, bytes = chunk.columns * row;
    const auto* const source = static_cast<const char*>(w) + chunk.first * row;
    for (int half = 0; half < (r.silu_mul ? 2 : 1); ++half) {
      CAUSEWAY_TRY(cuda_status(
          cudaMemcpyAsync(piece + half * bytes, source + half * r.n * row,
                          static_cast<std::size_t>(bytes), cudaMemcpyDefault, copies_.get()),
          "GEMM at home: copying a piece"));
    }
    return {};
  }

  gemm::CudaGemm& gemm_;
  Stream copies_;
  Event begun_, landed_;
  std::array<Event, kEvents> used_;
};

HomeGemm::HomeGemm(std::unique_ptr<State> state) : state_(std::move(state)) {}
HomeGemm::~HomeGemm() = default;
HomeGemm::HomeGemm(HomeGemm&&) noexcept = default;
HomeGemm& HomeGemm::operator=(HomeGemm&&) noexcept = default;

Result<HomeGemm> HomeGemm::create(gemm::CudaGemm& gemm, Staging staging) {
  auto state = std::make_unique<State>(gemm);
  if (staging == Staging::kSome) CAUSEWAY_TRY(state->prepare());
  return HomeGemm(std::move(state));
}

Status HomeGemm::run(const Plan& plan, const gemm::CudaOperands& operands, const Buffers& buffers,
                     CudaStream stream) {
  switch (plan.way) {
    case Way::kStaged: return state_->staged(plan, operands, buffers, stream);
    case Way::kSymmetric:
    case Way::kRing: return run_hybrid(plan, operands, buffers, stream);
    case Way::kFewRows:
    case Way::kLibrary: break;
  }
  return state_->in_place(plan, operands, buffers, stream);
}

}  // namespace causeway::kernels::home_gemm
