// Which way a run goes, and its scratch memory.
#include <algorithm>
#include <string>

#include "kernels/cuda_status.cuh"
#include "kernels/moe/cuda_one_token_layout.h"
#include "kernels/moe/cuda_parts.cuh"

namespace causeway::kernels::moe {
namespace {

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

Status check(const ParamsCuda& p) {
  const ShapeCuda& s = p.shape;
  if (s.hidden < 32 || s.hidden % 32 != 0 || s.intermediate < 32 || s.intermediate % 32 != 0 ||
      s.experts < 1 || s.experts > kExpertsMax || s.experts_per_token < 1 ||
      s.experts_per_token > std::min<std::int64_t>(s.experts, kChosenMax) || p.tokens < 0 ||
      p.tokens > 65535) {
    return invalid_argument("moe: cannot run " + std::to_string(s.experts_per_token) + " of " +
                            std::to_string(s.experts) + " experts of " + std::to_string(s.hidden) +
                            " × " + std::to_string(s.intermediate) + " on " +
                            std::to_string(p.tokens) +
                            " tokens: sizes are multiples of 32, at most 32 of 512 experts");
  }
  if (p.sm_count < 1 || p.sm_count > kCtasMax) {
    return invalid_argument("moe: a context of " + std::to_string(p.sm_count) + " SMs");
  }
  return {};
}

// Parts of a workspace; without a base only their end counts.
struct Carving {
  Scratch scratch;
  std::int64_t end;
};

Carving carve(const ShapeCuda& s, std::int64_t tokens, void* workspace) {
  const std::int64_t pairs = tokens * s.experts_per_token;
  char* const base = static_cast<char*>(workspace);
  std::int64_t end = 0;
  const auto take = [base, &end](std::int64_t bytes) -> void* {
    char* const taken = base == nullptr ? nullptr : base + end;
    end += aligned(bytes);
    return taken;
  };
  Scratch scratch;
  scratch.sync = static_cast<Sync*>(take(sizeof(Sync)));
  scratch.groups.chosen = static_cast<int32_t*>(take(pairs * 4));
  scratch.groups.weight = static_cast<float*>(take(pairs * 4));
  scratch.groups.row_pair = static_cast<int32_t*>(take(pairs * 4));
  scratch.groups.pair_row = static_cast<int32_t*>(take(pairs * 4));
  scratch.groups.chunk = static_cast<int4*>(
      take(std::max(chunks_max(s, tokens, kItems), tiles_chunks_max(s, tokens)) * 16));
  scratch.groups.chunks = static_cast<int32_t*>(take(4));
  scratch.active = static_cast<__nv_bfloat16*>(take(pairs * s.intermediate * 2));
  if (tokens > kSmallBatchTokens && tiles_fit(s)) {
    scratch.maps = take(3 * s.experts * 128);
    scratch.down = static_cast<__nv_bfloat16*>(take(pairs * s.hidden * 2));
  }
  return {scratch, end};
}

// Few tokens at a time: for shapes that nothing faster can do.
Status run_slices(const ParamsCuda& p, CudaStream stream) {
  const auto rows = [](const void* base, std::int64_t bytes) -> const void* {
    return base == nullptr ? nullptr : static_cast<const char*>(base) + bytes;
  };
  const Scratch scratch = carve(p.shape, kSmallBatchTokens, p.workspace).scratch;
  for (std::int64_t begin = 0; begin < p.tokens; begin += kSmallBatchTokens) {
    ParamsCuda part = p;
    const std::int64_t bytes = begin * p.shape.hidden * 2;
    part.tokens = std::min(kSmallBatchTokens, p.tokens - begin);
    part.x = rows(p.x, bytes);
    part.scores = p.scores + begin * p.shape.experts;
    part.residual = rows(p.residual, bytes);
    part.out = static_cast<char*>(p.out) + bytes;
    CAUSEWAY_TRY(enqueue_groups(part, scratch, kItems, stream));
    CAUSEWAY_TRY(run_small_batch(part, nullptr, scratch, stream));
  }
  return {};
}

}  // namespace

Bytes workspace_bytes(const ShapeCuda& s, std::int64_t tokens) {
  return Bytes(carve(s, std::max(tokens, kSmallBatchTokens), nullptr).end);
}

Status prepare(void* workspace, CudaStream stream) {
  return cuda_status(cudaMemsetAsync(workspace, 0, sizeof(Sync), stream),
                     "clearing the experts' workspace");
}

Status run(const ParamsCuda& p, CudaStream stream) {
  CAUSEWAY_TRY(check(p));
  if (p.tokens <= kSmallBatchTokens || !tiles_fit(p.shape)) return run_slices(p, stream);
  return run_tiles(p, carve(p.shape, p.tokens, p.workspace).scratch, stream);
}

bool front_fits(const ShapeCuda& shape, std::int64_t tokens, int sm_count) {
  if (tokens < 1 || tokens > kFrontTokens || sm_count < 1 || sm_count > kCtasMax ||
      shape.hidden > kFrontHiddenMax) {
    return false;
  }
  return one_token_fits(shape, tokens, sm_count) || small_batch_front_fits(shape, tokens, sm_count);
}

Status run_with_front(const FrontCuda& front, const ParamsCuda& p, CudaStream stream) {
  CAUSEWAY_TRY(check(p));
  if (!front_fits(p.shape, p.tokens, p.sm_count)) {
    return unsupported("moe: norm and router of " + std::to_string(p.tokens) +
                       " tokens do not fit into the experts' kernel");
  }
  const Scratch scratch = carve(p.shape, p.tokens, p.workspace).scratch;
  if (one_token_fits(p.shape, p.tokens, p.sm_count))
    return run_one_token(p, front, scratch, stream);
  return run_small_batch(p, &front, scratch, stream);
}

}  // namespace causeway::kernels::moe
