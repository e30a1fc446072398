// The kernel for few tokens: how its shared memory is laid out, and its launch.
#include <algorithm>

#include "kernels/moe/cuda_few.cuh"

namespace causeway::kernels::moe {
namespace {

constexpr uint32_t kSharedMax = 227 * 1024;
// One token with front: so that CTAs of the kernels around this one find room beside it. All others
// wait longer for active, and have more of down asked for meanwhile.
constexpr uint32_t kSharedHalf = 104 * 1024;
constexpr int kStagesMax = 12;
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

// Which way shared memory is used.
struct Way {
  bool direct;
  uint32_t bytes;  // of shared memory
};

// With stages of at most `columns`, as many as there is room for.
FewLayout layout_of_columns(const Need& need, const Way& way, std::int64_t columns) {
  const ShapeCuda& s = need.shape;
  const std::int64_t pairs = need.tokens * s.experts_per_token;
  FewLayout at = {};
  at.direct = way.direct;
  at.gated_step = step_of(s.hidden, columns);
  at.down_step = step_of(s.intermediate, columns);
  at.pitch = static_cast<uint32_t>(2 * std::max(at.gated_step, at.down_step));
  at.x_pitch = static_cast<uint32_t>(ceil_div(2 * s.hidden, 128) * 128);
  const bool never = at.direct && need.front;  // bring tokens
  const std::int64_t token_rows = never ? 0 : std::min<std::int64_t>(need.tokens, kItemRows);
  at.stage_bytes = static_cast<uint32_t>(at.pitch * (kWeightRows + token_rows));
  uint32_t end = 0;  // of what lies behind the ring
  const auto take = [&end](std::int64_t bytes) {
    const uint32_t begin = end;
    end += static_cast<uint32_t>(ceil_div(bytes, 16) * 16);
    return begin;
  };
  if (need.front) at.x = take(need.tokens * at.x_pitch);
  at.partial = take(2 * kFewWarps * 32 * 16);
  at.sums = take(need.tokens * kWeightRows * 4);
  at.items = take(chunks_max(s, need.tokens, kItems) * std::int64_t{sizeof(FewItem)});
  at.rows = take(pairs * std::int64_t{sizeof(FewRow)});
  at.row_weight = take(pairs * 4);
  if (need.front) {
    at.keys = take(need.tokens * keys_pitch(s.experts) * 4);
    at.choices = take(need.tokens * s.experts);
    at.pair_key = take(pairs * 4);
  }
  if (at.direct) {
    // A warp reads whole blocks: behind the last pair's columns too.
    at.active = take((pairs * s.intermediate + kGroup) * 2);
    at.down_parts = take(pairs * kFewWarps * kWeightRows * 4);
  }
  at.words = take(4 * (4 + kExpertsMax / 32));
  at.barriers = take(8 * (2 * kStagesMax + 3));
  const uint32_t room = end < way.bytes ? (way.bytes - end) / at.stage_bytes : 0;
  at.stages = static_cast<int>(std::min<uint32_t>(kStagesMax, room));
  const uint32_t ring = static_cast<uint32_t>(at.stages) * at.stage_bytes;
  for (uint32_t* offset :
       {&at.x, &at.partial, &at.sums, &at.items, &at.rows, &at.row_weight, &at.keys, &at.choices,
        &at.pair_key, &at.active, &at.down_parts, &at.words, &at.barriers}) {
    *offset += ring;
  }
  at.bytes = ring + end;
  return at;
}

FewLayout layout_of_way(const Need& need, const Way& way, int ctas) {
  FewLayout at = layout_of_columns(need, way, kColumnsMax);
  if (at.stages < (way.direct ? kStagesLeast : kStagesWanted)) {
    at = layout_of_columns(need, way, kColumnsMax - kRound);
  }
  // Behind the norm's weight and the CTA's rows of the router.
  const std::int64_t rows = 1 + ceil_div(need.shape.experts, ctas);
  at.tables = static_cast<uint32_t>(rows * need.shape.hidden * 2);
  return at;
}

bool fits(const Need& need, const FewLayout& at) {
  const std::int64_t in_ring = need.front ? at.tables + 24 * need.shape.experts : 0;
  return at.stages >= kStagesLeast && in_ring <= at.stages * std::int64_t{at.stage_bytes};
}

FewLayout layout_of(const Need& need, int ctas) {
  const std::int64_t active = need.shape.experts_per_token * need.shape.intermediate;
  if (need.tokens == 1 && active <= 2 * kActiveWords) {
    for (const uint32_t bytes : {kSharedHalf, kSharedMax}) {
      if (bytes == kSharedHalf && !need.front) continue;
      const FewLayout at = layout_of_way(need, {true, bytes}, ctas);
      if (fits(need, at)) return at;
    }
  }
  return layout_of_way(need, {false, kSharedMax}, ctas);
}

}  // namespace

FewLayout few_layout(const ShapeCuda& shape, std::int64_t tokens, bool front, int ctas) {
  return layout_of({shape, tokens, front}, ctas);
}

bool front_fits(const ShapeCuda& shape, std::int64_t tokens, int sm_count) {
  if (tokens < 1 || tokens > kFrontTokens || sm_count < 1 || sm_count > kCtasMax ||
      shape.hidden > kFrontHiddenMax) {
    return false;
  }
  const Need need = {shape, tokens, true};
  return fits(need, layout_of(need, sm_count));
}

Status run_few(const ParamsCuda& p, const FrontCuda* front, const Scratch& scratch,
               CudaStream stream) {
  FewArgs args = {};
  args.layout = few_layout(p.shape, p.tokens, front != nullptr, p.sm_count);
  if (args.layout.stages < 2) return unsupported("moe: no room for a ring in shared memory");
  if (front != nullptr) args.front = *front;
  args.sync = scratch.sync;
  args.groups = scratch.groups;
  args.tables[0] = p.gate;
  args.tables[1] = p.up;
  args.tables[2] = p.down;
  args.x = static_cast<const __nv_bfloat16*>(p.x);
  args.residual = static_cast<const __nv_bfloat16*>(p.residual);
  args.active = scratch.active;
  args.out = static_cast<__nv_bfloat16*>(p.out);
  args.experts_read = reinterpret_cast<unsigned long long*>(p.experts_read);
  args.tokens = static_cast<int>(p.tokens);
  args.hidden = static_cast<int>(p.shape.hidden);
  args.intermediate = static_cast<int>(p.shape.intermediate);
  args.experts = static_cast<int>(p.shape.experts);
  args.k = static_cast<int>(p.shape.experts_per_token);
  args.normalise = p.normalise_top_k;
  const LaunchShape shape = {dim3(static_cast<unsigned>(p.sm_count)), dim3(kFewThreads),
                             static_cast<int>(args.layout.bytes), static_cast<int>(kSharedMax)};
  const auto kernel = front == nullptr      ? few_kernel<false, false>
                      : args.layout.direct ? few_kernel<true, true>
                                           : few_kernel<true, false>;
  return launch("experts of few tokens", stream, shape, kernel, args);
}

}  // namespace causeway::kernels::moe
