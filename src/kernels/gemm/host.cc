#include "kernels/gemm/gemm.h"

#include "kernels/buffer.h"
#include "kernels/gemm/onednn.h"
#include "kernels/parallel.h"

namespace {
// What the own loops need beside a range of w's rows.
struct StripeArgs {
  causeway::kernels::WeightsRef w;
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  std::int64_t m = 0;
  std::int64_t k = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
};
}  // namespace

#define CAUSEWAY_SIMD_BODY "kernels/gemm/body.inc"
#include "kernels/simd/each_variant.inc"

namespace causeway::kernels::gemm {
namespace {

// A thread is worth starting for this many bytes of w.
constexpr std::int64_t kBytesPerThread = 64 << 10;

void add_bias(const Params& p) {
  if (!p.bias) return;
  const bool is_bf16 = p.bias.is_bf16();
  parallel_ranges(p.m, 1 + (64 << 10) / p.n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* row = p.out + i * p.out_stride;
      for (std::int64_t j = 0; j < p.n; ++j) {
        row[j] += is_bf16 ? to_float(p.bias.bf16()[j]) : p.bias.f32()[j];
      }
    }
  });
}

}  // namespace

class Gemm::State {
 public:
  void run(const Params& p) {
    if (p.m <= 0 || p.n <= 0) return;
    if (p.m >= kLargeRows && p.path == Path::kBest && OneDnn::can_multiply(p.w.dtype)) {
      run_large(p);
    } else {
      run_own(p);
    }
    add_bias(p);
  }

 private:
  void run_large(const Params& p) {
    OneDnn::Product product{.m = p.m,
                            .n = p.n,
                            .k = p.k,
                            .x_stride = p.x_stride,
                            .out_stride = p.out_stride,
                            .dtype = p.w.dtype};
    const void* x = p.x;
    if (p.w.is_bf16()) {
      x = rounded(p);
      product.x_stride = p.k;
    }
    onednn_.run(product, x, p.w.data, p.out);
  }

  void run_own(const Params& p) {
    StripeArgs args{.w = p.w,
                    .x = p.x,
                    .x_stride = p.x_stride,
                    .m = p.m,
                    .k = p.k,
                    .out = p.out,
                    .out_stride = p.out_stride};
    auto* stripe = CAUSEWAY_SELECT(p.variant, stripe_f32);
    if (p.w.is_bf16()) {
      stripe = CAUSEWAY_SELECT(p.variant, stripe_bf16);
      args.x = spread(p);
      args.x_stride = stride_of(p);
    }
    const std::int64_t row_work = p.k * size_of(p.w.dtype).count * ((p.m + 3) / 4);
    const std::int64_t grain = 1 + kBytesPerThread / (row_work + 1);
    parallel_ranges(p.n, grain,
                    [&](std::int64_t begin, std::int64_t end) { stripe(args, begin, end); });
  }

  // Rows of x in scratch are a line further apart than they are long: rows a power of two apart
  // would fight for the same places of the first-level cache.
  static std::int64_t stride_of(const Params& p) { return (p.k + 31) / 32 * 32 + 32; }

  // x in bf16, for oneDNN: packed, because it takes a slower path for anything else.
  const BFloat16* rounded(const Params& p) {
    BFloat16* out = bf16_.ensure(p.m * p.k);
    auto* round = CAUSEWAY_SELECT(p.variant, round_row);
    parallel_ranges(p.m, 1 + (64 << 10) / p.k, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        round(p.x + i * p.x_stride, p.k, out + i * p.k);
      }
    });
    return out;
  }

  // x rounded to bf16, for the own loops.
  const float* spread(const Params& p) {
    float* out = f32_.ensure(p.m * stride_of(p));
    auto* spread_one = CAUSEWAY_SELECT(p.variant, spread_row);
    for (std::int64_t i = 0; i < p.m; ++i) {
      spread_one(p.x + i * p.x_stride, p.k, out + i * stride_of(p));
    }
    return out;
  }

  Buffer<BFloat16> bf16_;
  Buffer<float> f32_;
  OneDnn onednn_;
};

Gemm::Gemm() : state_(std::make_unique<State>()) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

void Gemm::run(const Params& params) { state_->run(params); }

}  // namespace causeway::kernels::gemm
