// The kernel for small batches: how its shared memory is laid out, and its launch.
#include <algorithm>

#include "kernels/moe/cuda_small_batch.cuh"

namespace causeway::kernels::moe {
namespace {

constexpr uint32_t kSharedMax = 227 * 1024;
constexpr int kStagesWanted = 4;  // of the widest; narrower ones where they do not fit
constexpr int kStagesLeast = 3;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Equal steps of at most `most` columns: of whole rounds of the warps, so that which warp adds
// which columns does not depend on the step.
int step_of(std::int64_t depth, std::int64_t most) {
  const std::int64_t steps = ceil_div(depth, most);
  return static_cast<int>(ceil_div(ceil_div(depth, steps), kRound) * kRound);
}

struct Need {
  ShapeCuda shape;
  std::int64_t tokens;
  bool front;
};

// With stages of at most `columns`, as many as there is room for.
SmallBatchLayout layout_of_columns(const Need& need, std::int64_t columns) {
  const ShapeCuda& s = need.shape;
  const std::int64_t pairs = need.tokens * s.experts_per_token;
  SmallBatchLayout at = {};
  at.gated_step = step_of(s.hidden, columns);
  at.down_step = step_of(s.intermediate, columns);
  at.pitch = static_cast<uint32_t>(2 * std::max(at.gated_step, at.down_step));
  at.x_pitch = static_cast<uint32_t>(ceil_div(2 * s.hidden, 128) * 128);
  const std::int64_t token_rows = std::min<std::int64_t>(need.tokens, kItemRows);
  at.stage_bytes = static_cast<uint32_t>(at.pitch * (kWeightRows + token_rows));
  uint32_t end = 0;  // of what lies behind the ring
  const auto take = [&end](std::int64_t bytes) {
    const uint32_t begin = end;
    end += static_cast<uint32_t>(ceil_div(bytes, 16) * 16);
    return begin;
  };
  if (need.front) at.x = take(need.tokens * at.x_pitch);
  at.partial = take(2 * kWorkerWarps * 32 * 16);
  at.sums = take(need.tokens * kWeightRows * 4);
  at.items = take(chunks_max(s, need.tokens, kItems) * std::int64_t{sizeof(SmallBatchItem)});
  at.rows = take(pairs * std::int64_t{sizeof(SmallBatchRow)});
  at.row_weight = take(pairs * 4);
  if (need.front) {
    at.keys = take(need.tokens * keys_pitch(s.experts) * 4 + 64);  // 64: are read, and not used
    at.choices = take(s.experts * 8);
    at.pair_key = take(pairs * 4);
  }
  at.words = take(4 * (1 + kWorkerWarps));
  at.barriers = take(8 * (2 * kStagesMax + 3));
  const uint32_t room = end < kSharedMax ? (kSharedMax - end) / at.stage_bytes : 0;
  at.stages = static_cast<int>(std::min<uint32_t>(kStagesMax, room));
  const uint32_t ring = static_cast<uint32_t>(at.stages) * at.stage_bytes;
  for (uint32_t* offset : {&at.x, &at.partial, &at.sums, &at.items, &at.rows, &at.row_weight,
                           &at.keys, &at.choices, &at.pair_key, &at.words, &at.barriers}) {
    *offset += ring;
  }
  at.bytes = ring + end;
  return at;
}

SmallBatchLayout layout_of(const Need& need, int ctas) {
  SmallBatchLayout at = layout_of_columns(need, kColumnsMax);
  if (at.stages < kStagesWanted) at = layout_of_columns(need, kColumnsMax - kRound);
  // Behind the norm's weight and the CTA's rows of the router.
  const std::int64_t rows = 1 + ceil_div(need.shape.experts, ctas);
  at.tables = static_cast<uint32_t>(rows * need.shape.hidden * 2);
  return at;
}

}  // namespace

bool small_batch_front_fits(const ShapeCuda& shape, std::int64_t tokens, int ctas) {
  const SmallBatchLayout at = layout_of({shape, tokens, true}, ctas);
  return at.stages >= kStagesLeast &&
         at.tables + 24 * shape.experts <= at.stages * std::int64_t{at.stage_bytes};
}

Status run_small_batch(const ParamsCuda& p, const FrontCuda* front, const Scratch& scratch,
                       CudaStream stream) {
  SmallBatchArgs args = {experts_args(p, front, scratch)};
  args.layout = layout_of({p.shape, p.tokens, front != nullptr}, p.sm_count);
  if (args.layout.stages < 2) return unsupported("moe: no room for a ring in shared memory");
  args.groups = scratch.groups;
  args.x = static_cast<const __nv_bfloat16*>(p.x);
  args.active = scratch.active;
  args.tokens = static_cast<int>(p.tokens);
  args.by_ctas = Divider(p.sm_count);
  args.by_tiles = Divider(args.intermediate / 8);
  args.by_k = Divider(args.k);
  const LaunchShape shape = {dim3(static_cast<unsigned>(p.sm_count)), dim3(kSmallBatchThreads),
                             static_cast<int>(args.layout.bytes), static_cast<int>(kSharedMax)};
  const auto kernel = front == nullptr ? small_batch_kernel<false> : small_batch_kernel<true>;
  return launch("experts of few tokens", stream, shape, kernel, args);
}

}  // namespace causeway::kernels::moe
