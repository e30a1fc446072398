// Experts beside their limits, same run: reading the weights of the experts that were chosen once,
// at the rate of a plain read of the HBM, and for prompts cuBLAS's bf16 peak. Six layers in turn,
// with their own weights and routing, so that the L2 holds none.
//
//   moe_gpu_bench [small-batch]      small-batch: one to eight tokens only
#include <cublas_v2.h>

#include "kernels/moe/moe.h"
#include "kernels/moe/moe_cuda.h"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::moe {
namespace {

using testing::Device;
using testing::must;

constexpr std::int64_t kTokensMax = 8192;

struct Model {
  const char* name;
  ShapeCuda shape;
  std::int64_t layers;
};

struct Row {
  std::int64_t tokens;
  bool front;
};

// TFLOP/s of an 8192³ product.
double matmul_peak(cudaStream_t stream) {
  constexpr int kSize = 8192;
  constexpr std::size_t kElements = std::size_t{kSize} * kSize;
  Device<BFloat16> a(kElements), b(kElements), c(kElements);
  testing::fill(a, 7);
  testing::fill(b, 8);
  cublasHandle_t handle;
  const auto check = [](cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS) must(cudaErrorUnknown, "cuBLAS");
  };
  check(cublasCreate(&handle));
  Device<char> workspace(32 << 20);
  check(cublasSetStream(handle, stream));
  check(cublasSetWorkspace(handle, workspace.get(), workspace.size()));
  const float one = 1, zero = 0;
  const double us = testing::graph_us(stream, [&](cudaStream_t) {
    check(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, kSize, kSize, kSize, &one, a.get(),
                       CUDA_R_16BF, kSize, b.get(), CUDA_R_16BF, kSize, &zero, c.get(), CUDA_R_16BF,
                       kSize, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  });
  check(cublasDestroy(handle));
  return 2.0 * kSize * kSize * kSize / us * 1e-6;
}

class Bench {
 public:
  Bench(cudaStream_t stream, const Model& model, double hbm, double peak)
      : stream_(stream), model_(model), s_(model.shape), hbm_(hbm), peak_(peak) {
    weights_ = Device<BFloat16>(static_cast<std::size_t>(model.layers * s_.experts * 3 * matrix()));
    testing::fill(weights_, 1);
    std::vector<const void*> table;
    for (std::int64_t i = 0; i < model.layers * s_.experts * 3; ++i) {
      table.push_back(weights_.get() + i * matrix());
    }
    tables_ = Device<const void*>(table);
    x_ = Device<BFloat16>(static_cast<std::size_t>(kTokensMax * s_.hidden));
    out_ = Device<BFloat16>(x_.size());
    norm_ = Device<BFloat16>(static_cast<std::size_t>(s_.hidden));
    router_ = Device<BFloat16>(static_cast<std::size_t>(model.layers * s_.experts * s_.hidden));
    workspace_ = Device<char>(to_size(workspace_bytes(s_, kTokensMax)));
    testing::fill(x_, 2);
    testing::fill(norm_, 3);
    testing::fill(router_, 4);
    must(cudaDeviceSynchronize(), "poisoning");  // on another stream
    must(prepare(workspace_.get(), stream));
  }

  void run_row(const Row& row) {
    if (row.front && !front_fits(s_, row.tokens, 132)) return;
    Device<float> scores = random_scores(row.tokens);
    Device<std::uint64_t> read(1);
    const auto enqueue = [&](cudaStream_t stream) {
      for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
        ParamsCuda p = params(row, layer, scores.get());
        p.experts_read = read.get();
        const FrontCuda front{norm_.get(), router_.get() + layer * s_.experts * s_.hidden, 1e-6f};
        must(row.front ? run_with_front(front, p, stream) : run(p, stream));
      }
    };
    read.zero();
    enqueue(stream_);
    must(cudaStreamSynchronize(stream_), "experts read");
    const auto experts = static_cast<double>(read.fetch()[0]);
    report(row, experts, testing::graph_us(stream_, enqueue));
  }

 private:
  std::int64_t matrix() const { return s_.hidden * s_.intermediate; }

  Device<float> random_scores(std::int64_t tokens) {
    std::vector<float> scores(static_cast<std::size_t>(model_.layers * tokens * s_.experts));
    for (float& score : scores) score = static_cast<float>(random_.normal());
    return Device<float>(scores);
  }

  ParamsCuda params(const Row& row, std::int64_t layer, const float* scores) const {
    const void* const* first = tables_.get() + layer * 3 * s_.experts;
    return {.shape = s_,
            .tokens = row.tokens,
            .sm_count = 132,
            .x = x_.get(),
            .scores = scores + layer * row.tokens * s_.experts,
            .gate = first,
            .up = first + s_.experts,
            .down = first + 2 * s_.experts,
            .residual = x_.get(),
            .out = out_.get(),
            .workspace = workspace_.get()};
  }

  void report(const Row& row, double experts, double us) const {
    const auto layers = static_cast<double>(model_.layers);
    const double bytes = experts * 3 * static_cast<double>(matrix()) * 2;
    const double floor = bytes / hbm_ * 1e-3;
    const double flop =
        layers * static_cast<double>(row.tokens * s_.experts_per_token * 6 * matrix());
    std::printf("%-12s %6ld %-6s %8.1f %9.1f %9.1f %8.2f %8.0f %8.2f\n", model_.name, row.tokens,
                row.front ? "front" : "", experts / layers, us / layers, floor / layers, us / floor,
                flop / us * 1e-6, flop / us * 1e-6 / peak_);
  }

  cudaStream_t stream_;
  const Model model_;
  const ShapeCuda s_;
  double hbm_, peak_;
  Random random_{3};
  Device<BFloat16> weights_, x_, out_, norm_, router_;
  Device<const void*> tables_;
  Device<char> workspace_;
};

int bench(bool small_batch) {
  if (!testing::has_gpu()) return testing::kSkipped;
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  double hbm = 0;
  {
    Device<BFloat16> memory(std::size_t{3} << 30);
    testing::fill(memory, 1);
    hbm = testing::hbm_read_gb_per_s(stream, memory.get(), std::int64_t{6} << 30);
  }
  const double peak = small_batch ? 1 : matmul_peak(stream);
  std::printf("HBM read %.0f GB/s, cuBLAS 8192³ %.0f TFLOP/s\n\n", hbm, peak);
  std::printf("%-12s %6s %-6s %8s %9s %9s %8s %8s %8s\n", "model", "tokens", "", "experts",
              "us/layer", "floor us", "x floor", "TFLOP/s", "of peak");
  {
    Bench qwen(stream, {"Qwen3-30B", {2048, 768, 128, 8}, 6}, hbm, peak);
    for (const std::int64_t tokens : {1, 2, 4, 8}) qwen.run_row({tokens, true});
    if (small_batch) {
      qwen.run_row({1, false});
      return 0;
    }
    for (const std::int64_t tokens : {1, 8, 32, 64, 128, 512, 2048, 4096, 8192}) {
      qwen.run_row({tokens, false});
    }
  }
  Bench mixtral(stream, {"Mixtral-8x7B", {4096, 14336, 8, 2}, 2}, hbm, peak);
  for (const std::int64_t tokens : {1, 8}) mixtral.run_row({tokens, true});
  for (const std::int64_t tokens : {1, 32, 2048, 8192}) mixtral.run_row({tokens, false});
  return 0;
}

}  // namespace
}  // namespace causeway::kernels::moe

int main(int argc, char**) { return causeway::kernels::moe::bench(argc > 1); }
