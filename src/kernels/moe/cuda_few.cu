// The kernel for few tokens: how its shared memory is laid out, and its launch.
#include <algorithm>
#include <cstdlib>

#include <string>

#include "kernels/gemm/tensor_map.cuh"
#include "kernels/moe/cuda_few.cuh"

namespace causeway::kernels::moe {
namespace {

constexpr uint32_t kSharedMax = 227 * 1024;
constexpr int kStagesMax = 12;
constexpr int kStagesWanted = 4;  // of the widest; narrower ones where they do not fit

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Equal steps of at most `most` columns: of whole rounds of the warps, so that which warp adds
// which columns does not depend on the step.
int step_of(std::int64_t depth, std::int64_t most) {
  const std::int64_t steps = ceil_div(depth, most);
  return static_cast<int>(ceil_div(ceil_div(depth, steps), kRound) * kRound);
}

uint32_t number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}
uint32_t trial_of() {
  static const uint32_t trial = number_of("CAUSEWAY_MOE_TRIAL");
  return trial;
}

Status add_maps(FewArgs& args) {
  CAUSEWAY_ASSIGN(const gemm::EncodeTiled encoder, gemm::find_encoder());
  const FewLayout& at = args.layout;
  const int wide[] = {at.gated_step, args.hidden % at.gated_step, at.down_step,
                      args.intermediate % at.down_step};
  for (int i = 0; i < kMaps; ++i) {
    const int columns = i % 2 == 0 ? std::min(wide[i], i == 0 ? args.hidden : args.intermediate) : wide[i];
    if (columns == 0) continue;
    args.map_bytes[i] = static_cast<uint32_t>(2 * columns);
    const cuuint64_t sizes[2] = {cuuint64_t{1} << 31, cuuint64_t{1} << 13};
    const cuuint64_t strides[1] = {cuuint64_t{1} << kSlabBits};
    const cuuint32_t box[2] = {args.map_bytes[i] / 8, 1}, ones[2] = {1, 1};
    CUresult code = CUDA_SUCCESS;
    for (const uint64_t base : {uint64_t{0}, uint64_t{16}}) {
      args.map_base = base;
      code = encoder(&args.maps[i], CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 2, reinterpret_cast<void*>(base),
                     sizes, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                     CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
      if (code == CUDA_SUCCESS) break;
    }
    if (code != CUDA_SUCCESS) {
      return Error{ErrorCode::kDevice, "MoE: tensor map: CUresult " + std::to_string(code)};
    }
  }
  return {};
}

struct Need {
  ShapeCuda shape;
  std::int64_t tokens;
  bool front;
};

// With stages of at most `columns`, as many as there is room for.
FewLayout layout_of_columns(const Need& need, std::int64_t columns) {
  const ShapeCuda& s = need.shape;
  const std::int64_t pairs = need.tokens * s.experts_per_token;
  FewLayout at = {};
  at.gated_step = step_of(s.hidden, columns);
  at.down_step = step_of(s.intermediate, columns);
  at.pitch = static_cast<uint32_t>(2 * std::max(at.gated_step, at.down_step));
  at.x_pitch = static_cast<uint32_t>(ceil_div(2 * s.hidden, 128) * 128);
  at.direct = (trial_of() & kDirect) != 0 && need.tokens == 1 &&
              pairs * s.intermediate <= 2 * kDirectWords;
  const std::int64_t token_rows =
      at.direct && need.front ? 0 : std::min<std::int64_t>(need.tokens, kItemRows);
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
    at.active = take(pairs * s.intermediate * 2 + 64);
    at.down_parts = take(pairs * kFewWarps * kWeightRows * 4);
  }
  at.words = take(4 * (4 + kFewWarps));
  at.barriers = take(8 * (2 * kStagesMax + 1));
  static const uint32_t wanted = number_of("MOE_SHARED_KB") << 10;
  const uint32_t most = at.direct && need.front && wanted > 0 ? wanted : kSharedMax;
  const uint32_t room = end < most ? (most - end) / at.stage_bytes : 0;
  at.stages = static_cast<int>(std::min<uint32_t>(kStagesMax, room));
  const uint32_t ring = static_cast<uint32_t>(at.stages) * at.stage_bytes;
  for (uint32_t* offset : {&at.x, &at.partial, &at.sums, &at.items, &at.rows, &at.row_weight,
                           &at.keys, &at.choices, &at.pair_key, &at.active, &at.down_parts, &at.words, &at.barriers}) {
    *offset += ring;
  }
  at.bytes = ring + end;
  return at;
}

FewLayout layout_of(const Need& need, int ctas) {
  FewLayout at = layout_of_columns(need, kColumnsMax);
  if (at.stages < (at.direct ? 3 : kStagesWanted)) at = layout_of_columns(need, kColumnsMax - kRound);
  // Behind the norm's weight and the CTA's rows of the router.
  const std::int64_t rows = 1 + ceil_div(need.shape.experts, ctas);
  at.tables = static_cast<uint32_t>(rows * need.shape.hidden * 2);
  return at;
}

}  // namespace

bool front_fits(const ShapeCuda& shape, std::int64_t tokens, int sm_count) {
  if (tokens < 1 || tokens > kFrontTokens || sm_count < 1 || sm_count > kCtasMax ||
      shape.hidden > kFrontHiddenMax) {
    return false;
  }
  const FewLayout at = layout_of({shape, tokens, true}, sm_count);
  return at.stages >= 3 &&
         at.tables + 24 * shape.experts <= at.stages * std::int64_t{at.stage_bytes};
}

Status run_few(const ParamsCuda& p, const FrontCuda* front, const Scratch& scratch,
               CudaStream stream) {
  FewArgs args = {};
  args.trial = trial_of();
  for (std::size_t i = 0; i < kAheadMax; ++i) {
    static const char* const early[] = {"AHEAD_E0", "AHEAD_E1", "AHEAD_E2", "AHEAD_E3"};
    static const char* const late[] = {"AHEAD_L0", "AHEAD_L1", "AHEAD_L2", "AHEAD_L3"};
    const auto all = static_cast<uint32_t>(p.ahead[i].bytes);
    FewAhead& ahead = args.ahead[i];
    ahead.data = static_cast<const char*>(p.ahead[i].data);
    ahead.early = std::min(all, number_of(early[i]) << 10);
    ahead.late = std::min(all - ahead.early, number_of(late[i]) << 10);
  }
  args.layout = layout_of({p.shape, p.tokens, front != nullptr}, p.sm_count);
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
  if ((args.trial & kTensor) != 0) CAUSEWAY_TRY(add_maps(args));
  const LaunchShape shape = {dim3(static_cast<unsigned>(p.sm_count)), dim3(kFewThreads),
                             static_cast<int>(args.layout.bytes), static_cast<int>(kSharedMax)};
  return launch("experts of few tokens", stream, shape,
                front != nullptr ? few_kernel<true> : few_kernel<false>, args);
}

}  // namespace causeway::kernels::moe
