#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/attention/job.h"
#include "kernels/buffer.h"
#include "kernels/parallel.h"

#define CAUSEWAY_SIMD_BODY "kernels/attention/body.inc"
#include "kernels/simd/each_variant.inc"

namespace causeway::kernels::attention {
namespace {

// Query rows of a KV head in a job: enough to pay for bringing a tile of KV, few enough for the
// cache.
constexpr std::int64_t kRowsMax = 96;
// A thread takes at least this many tokens of a context that is cut into ranges.
constexpr std::int64_t kRangeTokens = 256;

std::int64_t group_of(const Heads& heads) { return heads.query / heads.kv; }

void check(const PagedKv& kv, const Heads& heads) {
  CAUSEWAY_CHECK(kv.dtype != DType::kF16, "KV is held as BF16 or F32");
  CAUSEWAY_CHECK(heads.kv > 0 && heads.query % heads.kv == 0,
                 "query heads that do not share KV heads evenly");
}

// The tile of the first token that a query token at `position` sees.
std::int64_t first_tile(const Params& p, std::int64_t position) {
  return std::max<std::int64_t>(0, position + 1 - p.window) / kTileTokens;
}

// A context cut into ranges: `parts` partial results of all heads to merge.
struct Merge {
  std::int64_t sequence = 0;
  std::int64_t first_partial = 0;
  std::int64_t parts = 0;
};

struct Plan {
  std::vector<Job> jobs;
  std::vector<Merge> merges;
  std::int64_t partial_floats = 0;
  std::int64_t rows_max = 0;   // of one KV head in a job
  std::int64_t heads_max = 0;  // KV heads in a job
};

// Few queries: all heads together read each token's KV in one go; the context is cut until every
// thread has work.
void plan_ranges(const Params& p, std::int64_t index, std::int64_t parts_wanted, Plan& plan) {
  const Sequence& s = p.sequences[static_cast<std::size_t>(index)];
  const std::int64_t end = s.context + s.query_count;
  const std::int64_t first = first_tile(p, s.context);
  const std::int64_t parts = std::clamp<std::int64_t>(
      parts_wanted, 1, (end - first * kTileTokens + kRangeTokens - 1) / kRangeTokens);
  const std::int64_t tiles = (end + kTileTokens - 1) / kTileTokens - first;
  const std::int64_t rows = s.query_count * p.heads.query;
  if (parts > 1) plan.merges.push_back({index, plan.partial_floats, parts});
  for (std::int64_t part = 0; part < parts; ++part) {
    Job job{.sequence = index, .queries = s.query_count, .kv_heads = p.heads.kv};
    job.token_begin = (first + tiles * part / parts) * kTileTokens;
    job.token_end = std::min(end, (first + tiles * (part + 1) / parts) * kTileTokens);
    if (parts > 1) {
      job.partial = plan.partial_floats;
      plan.partial_floats += rows * (p.heads.size + kPartialExtra);
    }
    plan.jobs.push_back(job);
  }
  plan.rows_max = std::max(plan.rows_max, s.query_count * group_of(p.heads));
  plan.heads_max = std::max(plan.heads_max, p.heads.kv);
}

// Many queries: a job is a tile of them with one KV head; the longest first.
void plan_tiles(const Params& p, std::int64_t index, std::int64_t tile_queries, Plan& plan) {
  const Sequence& s = p.sequences[static_cast<std::size_t>(index)];
  const std::int64_t tiles = (s.query_count + tile_queries - 1) / tile_queries;
  for (std::int64_t tile = tiles - 1; tile >= 0; --tile) {
    Job job{.sequence = index, .query = tile * tile_queries, .kv_heads = 1};
    job.queries = std::min(tile_queries, s.query_count - job.query);
    job.token_begin = first_tile(p, s.context + job.query) * kTileTokens;
    job.token_end = s.context + job.query + job.queries;
    for (job.kv_head = 0; job.kv_head < p.heads.kv; ++job.kv_head) plan.jobs.push_back(job);
  }
  plan.rows_max = std::max(plan.rows_max, tile_queries * group_of(p.heads));
  plan.heads_max = std::max<std::int64_t>(plan.heads_max, 1);
}

Plan make_plan(const Params& p) {
  Plan plan;
  const std::int64_t tile_queries = std::max<std::int64_t>(1, kRowsMax / group_of(p.heads));
  const auto count = static_cast<std::int64_t>(p.sequences.size());
  const std::int64_t parts_wanted = count >= 4 * thread_count() ? 1 : 4 * thread_count();
  for (std::int64_t i = 0; i < count; ++i) {
    const Sequence& s = p.sequences[static_cast<std::size_t>(i)];
    CAUSEWAY_CHECK(s.query_count > 0, "a sequence without query tokens");
    CAUSEWAY_CHECK((s.context + s.query_count + p.kv.block_tokens - 1) / p.kv.block_tokens <=
                       static_cast<std::int64_t>(s.frames.size()),
                   "a block table that does not cover its tokens");
    if (s.query_count * 4 <= tile_queries || s.query_count == 1) {
      plan_ranges(p, i, parts_wanted, plan);
    } else {
      plan_tiles(p, i, tile_queries, plan);
    }
  }
  return plan;
}

}  // namespace

class Attention::State {
 public:
  void run(const Params& p) {
    check(p.kv, p.heads);
    CAUSEWAY_CHECK(p.window > 0, "a window of no tokens");
    const Plan plan = make_plan(p);
    const std::int64_t thread_floats = scratch_floats(p.heads, plan);
    float* scratch = scratch_.ensure(thread_floats * thread_count());
    partials_.ensure(plan.partial_floats);
    auto* run_job = p.kv.dtype == DType::kBF16 ? CAUSEWAY_SELECT(p.variant, run_job_bf16)
                                               : CAUSEWAY_SELECT(p.variant, run_job_f32);
    const auto jobs = static_cast<std::int64_t>(plan.jobs.size());
    parallel_items(jobs, [&](std::int64_t index, int part) {
      JobArgs args = arguments(p, plan.jobs[static_cast<std::size_t>(index)]);
      args.scratch = carve(p.heads, plan, scratch + part * thread_floats);
      run_job(args);
    });
    const auto merges = static_cast<std::int64_t>(plan.merges.size());
    for (std::int64_t i = 0; i < merges; ++i) merge(p, plan.merges[static_cast<std::size_t>(i)]);
  }

 private:
  static std::int64_t scratch_floats(const Heads& heads, const Plan& plan) {
    const std::int64_t rows = plan.rows_max * plan.heads_max;
    return padded(rows * heads.size) + rows * padded(heads.size) + 2 * padded(rows) +
           plan.rows_max * kTileTokens + heads.size * kTileTokens +
           kTileTokens * padded(heads.size);
  }

  static Scratch carve(const Heads& heads, const Plan& plan, float* memory) {
    const std::int64_t rows = plan.rows_max * plan.heads_max;
    const auto take = [&](std::int64_t count) {
      float* taken = memory;
      memory += count;
      return taken;
    };
    Scratch s;
    s.q = take(padded(rows * heads.size));
    s.out = take(rows * padded(heads.size));
    s.largest = take(padded(rows));
    s.total = take(padded(rows));
    s.scores = take(plan.rows_max * kTileTokens);
    s.keys = take(heads.size * kTileTokens);
    s.values = take(kTileTokens * padded(heads.size));
    return s;
  }

  JobArgs arguments(const Params& p, const Job& job) {
    const Sequence& s = p.sequences[static_cast<std::size_t>(job.sequence)];
    const std::int64_t row = s.query_begin + job.query;
    return {.kv = p.kv,
            .heads = p.heads,
            .scale = p.scale,
            .frames = s.frames.data(),
            .position = s.context + job.query,
            .window = p.window,
            .cap = p.cap,
            .q = p.q + row * p.q_stride,
            .q_stride = p.q_stride,
            .out = p.out + row * p.out_stride,
            .out_stride = p.out_stride,
            .partial = job.partial < 0 ? nullptr : partials_.data() + job.partial,
            .job = job,
            .scratch = {}};
  }

  void merge(const Params& p, const Merge& merge) {
    const Sequence& s = p.sequences[static_cast<std::size_t>(merge.sequence)];
    const std::int64_t rows = s.query_count * p.heads.query;
    const std::int64_t row_floats = p.heads.size + kPartialExtra;
    parallel_ranges(rows, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        merge_row(p, s, row, partials_.data() + merge.first_partial + row * row_floats,
                  rows * row_floats, merge.parts);
      }
    });
  }

  // `partials`: the row's partial result in the first part; the next part's is `stride` further.
  static void merge_row(const Params& p, const Sequence& s, std::int64_t row, const float* partials,
                        std::int64_t stride, std::int64_t parts) {
    const std::int64_t size = p.heads.size;
    const std::int64_t group = group_of(p.heads);
    const std::int64_t per_head = s.query_count * group;
    const std::int64_t token = row % per_head / group;
    const std::int64_t head = row / per_head * group + row % group;
    float* out = p.out + (s.query_begin + token) * p.out_stride + head * size;
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < parts; ++i)
      largest = std::max(largest, partials[i * stride + size]);
    float total = 0;
    std::fill_n(out, size, 0.0f);
    for (std::int64_t i = 0; i < parts; ++i) {
      const float* partial = partials + i * stride;
      const float weight = std::exp(partial[size] - largest);
      total += weight * partial[size + 1];
      for (std::int64_t d = 0; d < size; ++d) out[d] += weight * partial[d];
    }
    for (std::int64_t d = 0; d < size; ++d) out[d] /= total;
  }

  Buffer<float> scratch_;
  Buffer<float> partials_;
};

Attention::Attention() : state_(std::make_unique<State>()) {}
Attention::~Attention() = default;
Attention::Attention(Attention&&) noexcept = default;
Attention& Attention::operator=(Attention&&) noexcept = default;

void Attention::run(const Params& params) { state_->run(params); }

void write_kv(const WriteParams& p) {
  check(p.kv, p.heads);
  auto* write_row = p.kv.dtype == DType::kBF16 ? CAUSEWAY_SELECT(p.variant, write_row_bf16)
                                               : CAUSEWAY_SELECT(p.variant, write_row_f32);
  const std::int64_t row = p.heads.kv * p.heads.size;
  for (const Sequence& s : p.sequences) {
    parallel_ranges(s.query_count, 1 + (16 << 10) / row, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t position = s.context + i;
        const FrameId frame = s.frames[static_cast<std::size_t>(position / p.kv.block_tokens)];
        std::byte* key = p.kv.base + frame.value * p.kv.frame_bytes.count + p.kv.key_offset.count +
                         position % p.kv.block_tokens * p.kv.token_stride.count;
        write_row(p.k + (s.query_begin + i) * p.stride, row, key);
        write_row(p.v + (s.query_begin + i) * p.stride, row, key + p.kv.value_offset.count);
      }
    });
  }
}

}  // namespace causeway::kernels::attention
