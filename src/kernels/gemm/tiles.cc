// What a tile reads lies in a row, so that every load is a whole line of what is used next:
//
//   x [m][k]   ── strips of at most 12 rows ───▶ for each part of k [depth][rows]
//   w [n][k]   ── panels, slivers of 32 rows ──▶ for each part of k [depth][32], widened
//
// (6 and 16 with AVX2.) A panel's part of k stays in the second-level cache while all strips pass
// over it, a strip's in the first while it passes over the slivers.
#include "kernels/gemm/tiles.h"

#include <algorithm>

#include "base/units.h"
#include "kernels/parallel.h"

namespace {

// What a variant's tiles have.
struct TileShape {
  std::int64_t rows = 0;     // of x
  std::int64_t columns = 0;  // rows of w
};

struct TilesArgs {
  const std::byte* w = nullptr;  // [n][k]
  bool w_is_bf16 = false;
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  float* packed_x = nullptr;      // for each part of k all strips, strip_floats apart
  std::int64_t strips = 0;        // of x, as even as can be
  std::int64_t strip_floats = 0;  // of one in a part of k, and the rest of the last vector
  std::int64_t depth = 0;         // of all parts of k but the last
};

}  // namespace

#define CAUSEWAY_SIMD_BODY "kernels/gemm/tiles_body.inc"
#include "kernels/simd/each_variant.inc"

namespace causeway::kernels::gemm {
namespace {

// The most of k in a part: a strip of x in it takes 24 KiB of the first-level cache.
constexpr std::int64_t kDepthMax = 512;
// Rows of w in a panel, at most: with kDepthMax 512 KiB, half the second-level cache. Fewer where
// threads would have none.
constexpr std::int64_t kPanelRowsMax = 256;
// Parts of k are whole vectors of pairs, but for the last.
constexpr std::int64_t kDepthStep = 32;
constexpr std::int64_t kLineFloats = 16;

std::int64_t round_up(std::int64_t a, std::int64_t step) { return ceil_div(a, step) * step; }

TilesArgs arguments(const Params& p, const TileShape& shape) {
  TilesArgs a{.w = p.w.data,
              .w_is_bf16 = p.w.is_bf16(),
              .x = p.x,
              .x_stride = p.x_stride,
              .m = p.m,
              .n = p.n,
              .k = p.k,
              .out = p.out,
              .out_stride = p.out_stride};
  a.strips = ceil_div(round_up(p.m, 2), shape.rows);
  a.depth = round_up(ceil_div(p.k, ceil_div(p.k, kDepthMax)), kDepthStep);
  a.strip_floats = round_up(a.depth * shape.rows + kLineFloats, kLineFloats);
  return a;
}

// Panels end with a tile. Each thread gets several, because threads are not equally fast.
std::int64_t panel_rows(const Params& p, const TileShape& shape) {
  const std::int64_t even = ceil_div(p.n, 4 * thread_count());
  return round_up(std::min(even, kPanelRowsMax), shape.columns);
}

}  // namespace

void Tiles::run(const Params& p) {
  const TileShape shape = CAUSEWAY_SELECT(p.variant, tile_shape)();
  TilesArgs args = arguments(p, shape);
  args.packed_x = x_.ensure(ceil_div(p.k, args.depth) * args.strips * args.strip_floats);
  auto* pack = CAUSEWAY_SELECT(p.variant, pack_strip);
  parallel_ranges(args.strips, 1 + (16 << 10) / (shape.rows * p.k),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t strip = begin; strip < end; ++strip) pack(args, strip);
                  });
  auto* multiply = args.w_is_bf16 ? CAUSEWAY_SELECT(p.variant, multiply_panel_bf16)
                                  : CAUSEWAY_SELECT(p.variant, multiply_panel_f32);
  const std::int64_t rows = panel_rows(p, shape);
  const std::int64_t panel_floats = rows * args.depth;
  float* panels = panels_.ensure(panel_floats * thread_count());
  parallel_items(ceil_div(p.n, rows), [&](std::int64_t item, int part) {
    const std::int64_t begin = item * rows;
    multiply(args, begin, std::min(begin + rows, p.n), panels + part * panel_floats);
  });
}

}  // namespace causeway::kernels::gemm
