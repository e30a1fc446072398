#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "kernels/buffer.h"
#include "kernels/gemm/onednn.h"
#include "kernels/gemm/tiles.h"
#include "kernels/parallel.h"

namespace {
// What the own loops need beside a range of w's rows.
struct StripeArgs {
  causeway::kernels::WeightsRef w;
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
};
}  // namespace

#define CAUSEWAY_SIMD_BF16
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
    switch (way_of(p)) {
      case Path::kOwnLoops: run_own(p); break;
      case Path::kOwnPairs: run_pairs(p); break;
      case Path::kTiles: tiles_.run(p); break;
      case Path::kBest: run_large(p); break;
    }
    add_bias(p);
  }

 private:
  // kBest: oneDNN, on w as it lies.
  static Path way_of(const Params& p) {
    if (p.path == Path::kTiles) return Path::kTiles;
    const Path own = own_way_of(p);
    if (p.path != Path::kBest || p.m < kLargeRows) return own;
    if (OneDnn::can_multiply(p.w.dtype)) return Path::kBest;
    return p.m >= kTiledRows ? Path::kTiles : own;
  }

  static Path own_way_of(const Params& p) {
    const bool wanted =
        p.path == Path::kOwnPairs || (p.path != Path::kOwnLoops && has_fast_bf16_pairs());
    const bool can = p.w.is_bf16() && p.variant == Variant::kAvx512Bf16;
    return wanted && can ? Path::kOwnPairs : Path::kOwnLoops;
  }

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

  static StripeArgs stripe_args(const Params& p) {
    return {.w = p.w,
            .x = p.x,
            .x_stride = p.x_stride,
            .m = p.m,
            .n = p.n,
            .k = p.k,
            .out = p.out,
            .out_stride = p.out_stride};
  }

  void run_own(const Params& p) {
    StripeArgs args = stripe_args(p);
    auto* stripe = CAUSEWAY_SELECT(p.variant, stripe_f32);
    if (p.w.is_bf16()) {
      stripe = CAUSEWAY_SELECT(p.variant, stripe_bf16);
      args.x = spread(p);
      args.x_stride = stride_of(p.k);
    }
    run_stripes(args, stripe);
  }

  void run_pairs(const Params& p) {
#if defined(__x86_64__)
    StripeArgs args = stripe_args(p);
    args.x_stride = stride_of((p.k + 1) / 2);  // floats, as bf16 they are twice as many
    float* x = f32_.ensure(p.m * args.x_stride);
    for (std::int64_t i = 0; i < p.m; ++i) {
      auto* row = reinterpret_cast<BFloat16*>(x + i * args.x_stride);
      avx512::round_row(p.x + i * p.x_stride, p.k, row);
    }
    args.x = x;
    run_stripes(args, avx512_bf16::stripe_pairs);
#else
    run_own(p);
#endif
  }

  template <typename Stripe>
  static void run_stripes(const StripeArgs& args, const Stripe& stripe) {
    const std::int64_t row_work = args.k * size_of(args.w.dtype).count * ((args.m + 3) / 4);
    const std::int64_t grain = 1 + kBytesPerThread / (row_work + 1);
    parallel_ranges(args.n, grain,
                    [&](std::int64_t begin, std::int64_t end) { stripe(args, begin, end); });
  }

  // Rows of x in scratch are a line further apart than they are long: rows a power of two apart
  // would fight for the same places of the first-level cache.
  static std::int64_t stride_of(std::int64_t k) { return (k + 31) / 32 * 32 + 32; }

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
    const std::int64_t stride = stride_of(p.k);
    float* out = f32_.ensure(p.m * stride);
    auto* spread_one = CAUSEWAY_SELECT(p.variant, spread_row);
    for (std::int64_t i = 0; i < p.m; ++i) {
      spread_one(p.x + i * p.x_stride, p.k, out + i * stride);
    }
    return out;
  }

  Buffer<BFloat16> bf16_;
  Buffer<float> f32_;
  Tiles tiles_;
  OneDnn onednn_;
};

Gemm::Gemm() : state_(std::make_unique<State>()) {}
Gemm::~Gemm() = default;
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;

void Gemm::run(const Params& params) { state_->run(params); }

}  // namespace causeway::kernels::gemm
