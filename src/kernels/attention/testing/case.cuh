// A step of attention on a GPU beside the host kernel, by any of its kernels: decode, prompts and
// empty places mixed; norm, rope and KV writes included; frames poisoned with NaN where no token
// lies, and each input until just before it must be there (kernels/testing/late.cuh).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/attention_cuda.h"
#include "kernels/parallel.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/testing/gpu.cuh"
#include "kernels/testing/late.cuh"
#include "kernels/testing/wrong_row.cuh"

namespace causeway::kernels::attention {

using testing::Device;
using testing::Late;
using testing::must;

struct Shape {
  const char* name;
  std::int64_t block_tokens;
  Heads heads;
  bool norm = false;
};

struct Case {
  Shape shape;
  std::vector<std::int64_t> context;  // KV before the query tokens
  std::vector<std::int64_t> queries;  // 0: an empty place
  std::int64_t decode = 0;
  std::uint64_t seed = 0;
  std::int64_t window = kNoWindow;
  float cap = 0;          // with one norms have an offset of 1, too
  bool offset = false;    // norms have one without a cap
  float sharpness = 1.0;  // scores are multiplied by it

  float norm_offset() const { return cap > 0 || offset ? 1 : 0; }
  float scale() const { return sharpness / std::sqrt(static_cast<float>(shape.heads.size)); }
};

// How a case is run.
struct Way {
  PrefillKernel prefill_kernel = PrefillKernel::kBest;
  DecodeKernel decode_kernel = DecodeKernel::kBest;
  bool fused = false;  // decode rows are prepared by their attention kernel
  int cluster = 0;     // of the kernel for small batches
};

// A case's memory on both sides. Frames of two layers, of which the second is used.
struct Step {
  PagedKv host_kv, device_kv;
  std::vector<BFloat16> pool;
  Device<BFloat16> device_pool, fresh_pool;  // fresh: as it is before the step
  std::vector<std::vector<FrameId>> frames;
  std::vector<std::int32_t> flat, frame_begin, query_begin, length, position, sequence;
  std::int64_t tokens = 0;
};

// Frames that a sequence has but does not use yet.
inline std::int64_t spare_frames(Random& random) {
  return random.chance(0.9) ? 0 : random.between(1, random.chance(0.5) ? 3 : 100);
}

// Rows of `size` random values, drawn by all threads, each from a seed of its own.
inline void draw_rows(Random& random, const std::vector<BFloat16*>& rows, std::int64_t size) {
  const std::uint64_t seed = random.bits();
  parallel_ranges(
      static_cast<std::int64_t>(rows.size()), 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          Random own(mix64(seed + static_cast<std::uint64_t>(i)));
          const auto values = testing::random_bf16(own, size);
          std::copy(values.bf16.begin(), values.bf16.end(), rows[static_cast<std::size_t>(i)]);
        }
      });
}

inline Step make_step(const Case& c, Random& random) {
  Step s;
  std::vector<BFloat16*> rows;  // of K and V
  const Heads& h = c.shape.heads;
  const std::int64_t token = h.kv * h.size, layer = 2 * c.shape.block_tokens * token;
  const std::int64_t frame = (2 * layer + 64 + 7) / 8 * 8;
  s.frame_begin = {0};
  s.query_begin = {0};
  std::size_t next = 0;  // of `order`
  std::int64_t total = 0;
  for (std::size_t i = 0; i < c.queries.size(); ++i) {
    const std::int64_t length = c.queries[i] == 0 ? 0 : c.context[i] + c.queries[i];
    total += (length + c.shape.block_tokens - 1) / c.shape.block_tokens;
  }
  std::vector<std::int32_t> order(static_cast<std::size_t>(total + 3));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(static_cast<long>(i)))]);
  }
  s.pool.assign(static_cast<std::size_t>((total + 3) * frame), BFloat16{0xFFFF});
  for (std::size_t i = 0; i < c.queries.size(); ++i) {
    const std::int64_t length = c.queries[i] == 0 ? 0 : c.context[i] + c.queries[i];
    s.frames.emplace_back();
    for (std::int64_t t = 0; t < length; t += c.shape.block_tokens) {
      s.frames.back().push_back(FrameId(order[next]));
      s.flat.push_back(order[next++]);
    }
    // All of them the same one, which is never written and so poison.
    s.flat.resize(s.flat.size() + static_cast<std::size_t>(spare_frames(random)), order.back());
    s.frame_begin.push_back(static_cast<std::int32_t>(s.flat.size()));
    s.length.push_back(static_cast<std::int32_t>(length));
    // An empty decode place still has its row.
    const std::int64_t queries = i < static_cast<std::size_t>(c.decode) ? 1 : c.queries[i];
    for (std::int64_t t = 0; t < queries; ++t) {
      s.position.push_back(length == 0 ? -1 : static_cast<std::int32_t>(c.context[i] + t));
      s.sequence.push_back(static_cast<std::int32_t>(i));
    }
    s.query_begin.push_back(static_cast<std::int32_t>(s.position.size()));
    for (std::int64_t t = 0; t < (length == 0 ? 0 : c.context[i]); ++t) {
      const std::int64_t at = s.frames[i][static_cast<std::size_t>(t / c.shape.block_tokens)].value;
      for (std::int64_t part = 0; part < 2; ++part) {
        rows.push_back(s.pool.data() + at * frame + layer + part * layer / 2 +
                       t % c.shape.block_tokens * token);
      }
    }
  }
  draw_rows(random, rows, token);
  s.tokens = static_cast<std::int64_t>(s.position.size());
  s.fresh_pool = Device<BFloat16>(s.pool);
  s.device_pool = Device<BFloat16>(s.pool.size());
  s.host_kv = {.base = reinterpret_cast<std::byte*>(s.pool.data()),
               .frame_bytes = Bytes(frame * 2),
               .key_offset = Bytes(layer * 2),
               .value_offset = Bytes(layer),
               .token_stride = Bytes(token * 2),
               .block_tokens = c.shape.block_tokens,
               .dtype = DType::kBF16};
  s.device_kv = s.host_kv;
  s.device_kv.base = reinterpret_cast<std::byte*>(s.device_pool.get());
  return s;
}

inline std::string describe(const Case& c, const Way& way) {
  std::string text = std::string(c.shape.name) + " block " + std::to_string(c.shape.block_tokens) +
                     " heads " + std::to_string(c.shape.heads.query) + "/" +
                     std::to_string(c.shape.heads.kv) + "×" + std::to_string(c.shape.heads.size) +
                     " decode " + std::to_string(c.decode) + " of";
  for (std::size_t i = 0; i < c.queries.size() && i < 12; ++i) {
    text += " " + std::to_string(c.context[i]) + "+" + std::to_string(c.queries[i]);
  }
  return text + " kernels " + std::to_string(static_cast<int>(way.decode_kernel)) + "," +
         std::to_string(static_cast<int>(way.prefill_kernel)) + (way.fused ? " fused" : "") +
         (way.cluster > 0 ? " clusters of " + std::to_string(way.cluster) : std::string()) +
         (c.window < kNoWindow ? " window of " + std::to_string(c.window) : std::string()) +
         (c.cap > 0 ? " cap " + std::to_string(c.cap) : std::string()) + " seed " +
         std::to_string(c.seed);
}

struct HostStep {
  std::vector<float> qkv, out;
};

// The same step by the host kernels, q rounded to bf16 as it is in the GPU's memory.
inline HostStep run_on_host(const Case& c, Step& s, std::vector<float> qkv,
                            const std::vector<float>& norm, const std::vector<float>& table) {
  const Heads& h = c.shape.heads;
  const std::int64_t width = (h.query + 2 * h.kv) * h.size;
  if (c.shape.norm) {
    for (const bool keys : {false, true}) {
      float* x = qkv.data() + (keys ? h.query * h.size : 0);
      rms_norm::run({.outer = s.tokens,
                     .inner = keys ? h.kv : h.query,
                     .size = h.size,
                     .x = x,
                     .x_outer_stride = width,
                     .weight = {reinterpret_cast<const std::byte*>(norm.data()), DType::kF32},
                     .offset = c.norm_offset(),
                     .epsilon = 1e-6f,
                     .out = x,
                     .out_outer_stride = width});
    }
  }
  rope::run({.tokens = s.tokens,
             .heads = h.query + h.kv,
             .size = h.size,
             .table = table.data(),
             .x = qkv.data(),
             .x_stride = width});
  for (float& x : qkv) x = to_float(to_bfloat16(x));
  std::vector<Sequence> sequences;
  for (std::size_t i = 0; i < c.queries.size(); ++i) {
    if (c.queries[i] == 0) continue;
    sequences.push_back({s.frames[i], s.query_begin[i], c.queries[i], c.context[i]});
  }
  write_kv({.kv = s.host_kv,
            .heads = h,
            .sequences = sequences,
            .k = qkv.data() + h.query * h.size,
            .v = qkv.data() + (h.query + h.kv) * h.size,
            .stride = width});
  HostStep result{
      .qkv = qkv,
      .out = std::vector<float>(static_cast<std::size_t>(s.tokens * h.query * h.size), 0.0f)};
  Attention host;
  host.run({.kv = s.host_kv,
            .heads = h,
            .sequences = sequences,
            .scale = c.scale(),
            .q = qkv.data(),
            .q_stride = width,
            .out = result.out.data(),
            .out_stride = h.query * h.size,
            .window = c.window,
            .cap = c.cap});
  return result;
}

// What a case's ways write, one after the other.
struct Outputs {
  Device<BFloat16> out;      // of a run that plans
  Device<BFloat16> planned;  // of one planned before
  Device<BFloat16> next;     // of one behind others by the same plan, as a step's layers are
  Device<char> workspace;
  std::vector<BFloat16> pool;  // fetched
};

// Whose row it is, in one line with what may set it apart from the others.
inline std::string describe_row(const Step& s, const testing::WrongRow& wrong) {
  const auto row = static_cast<std::size_t>(wrong.row);
  const auto sequence = static_cast<std::size_t>(s.sequence[row]);
  return "row " + std::to_string(row) + ": position " + std::to_string(s.position[row]) +
         " of sequence " + std::to_string(sequence) + ", " + std::to_string(s.length[sequence]) +
         " tokens in " + std::to_string(s.frames[sequence].size()) + " of its " +
         std::to_string(s.frame_begin[sequence + 1] - s.frame_begin[sequence]) + " frames, heads" +
         wrong.heads;
}

inline void compare(const Case& c, const Step& s, const std::string& name, const HostStep& host,
                    const Outputs& outputs, testing::Report& report) {
  const auto first = outputs.out.fetch();
  for (const auto* other : {&outputs.planned, &outputs.next}) {
    report.check(
        std::memcmp(first.data(), other->fetch().data(), first.size() * 2) == 0,
        name + ": differs " + (other == &outputs.next ? "by the same plan" : "if planned"));
  }
  const auto floats = testing::to_floats(first);
  report.error_at_most(testing::relative_error(floats, host.out), 8e-3, name);
  const auto wrong =
      testing::first_wrong_row(floats, host.out, c.shape.heads.query, c.shape.heads.size, 0.02);
  if (wrong.row >= 0)
    report.error_at_most(wrong.error, 0.02, describe_row(s, wrong) + " of " + name);
}

// A case's inputs on the device but for the KV. A step changes qkv: fresh_qkv is what it was.
struct Inputs {
  Device<BFloat16> fresh_qkv, qkv, norm;
  Device<float> rope;
  Device<std::int32_t> frames, frame_begin, query_begin, length, position, sequence;

  void add_tables(Late& late) const {
    for (const auto* table : {&frames, &frame_begin, &query_begin, &length, &position, &sequence}) {
      late.add(*table, 0);
    }
    late.add(rope, testing::kNan);
  }
};

// K and V of the tokens of rows [begin, end) of q, in their frames.
inline void add_kv(Late& late, const Step& s, std::int64_t begin, std::int64_t end) {
  const PagedKv& kv = s.device_kv;
  for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) {
    const std::int64_t position = s.position[row];
    if (position < 0) continue;
    const auto& frames = s.frames[static_cast<std::size_t>(s.sequence[row])];
    const auto block = static_cast<std::size_t>(position / kv.block_tokens);
    std::byte* keys = kv.base + frames[block].value * kv.frame_bytes.count + kv.key_offset.count +
                      position % kv.block_tokens * kv.token_stride.count;
    late.add(keys, kv.token_stride.count, testing::kNan);
    late.add(keys + kv.value_offset.count, kv.token_stride.count, testing::kNan);
  }
}

// A case on both sides: its inputs, and what the host makes of them.
struct Problem {
  Step step;
  Inputs in;
  std::int64_t stride = 0;  // of rows of qkv
  HostStep host;
};

inline Problem make_problem(const Case& c) {
  Random random(c.seed);
  Problem p{.step = make_step(c, random)};
  Step& s = p.step;
  const Heads& h = c.shape.heads;
  const std::int64_t width = (h.query + 2 * h.kv) * h.size;
  p.stride = width + 16;
  std::vector<BFloat16> strided(static_cast<std::size_t>(s.tokens * p.stride), BFloat16{0xFFFF});
  std::vector<BFloat16*> rows;
  for (std::int64_t t = 0; t < s.tokens; ++t) rows.push_back(strided.data() + t * p.stride);
  draw_rows(random, rows, width);
  const auto norm = testing::random_bf16(random, h.size);
  std::vector<std::int64_t> positions(s.position.begin(), s.position.end());
  for (auto& position : positions) position = std::max<std::int64_t>(position, 0);
  std::vector<float> table(static_cast<std::size_t>(s.tokens * h.size));
  const std::vector<double> frequencies = rope::frequencies(h.size, 5e5);
  rope::fill_table({.frequencies = frequencies, .size = h.size}, positions, table.data());
  p.in = {Device(strided),       Device<BFloat16>(strided.size()),
          Device(norm.bf16),     Device(table),
          Device(s.flat),        Device(s.frame_begin),
          Device(s.query_begin), Device(s.length),
          Device(s.position),    Device(s.sequence)};
  std::vector<float> qkv(static_cast<std::size_t>(s.tokens * width));
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    std::transform(strided.begin() + t * p.stride, strided.begin() + t * p.stride + width,
                   qkv.begin() + t * width, [](BFloat16 x) { return to_float(x); });
  }
  p.host = run_on_host(c, s, std::move(qkv), norm.f32, table);
  return p;
}

// SMs of a slice: all that the GPU has, or fewer.
inline constexpr int kSmCounts[] = {0, 64, 8, 0};

// prepare(), then run() in both ways, each with poison in its workspace, and wherever the kernel in
// front may still be writing; and once more where another has left its pieces.
inline void run_on_gpu(const Problem& problem, const std::string& name, const PrepareCuda& whole,
                       ParamsCuda params, Outputs& outputs, Late& late, cudaStream_t stream) {
  const Step& s = problem.step;
  const Inputs& in = problem.in;
  const std::int64_t prepared = whole.first;  // rows from here on come through prepare()
  late.clear();
  in.add_tables(late);
  late.add(in.qkv, testing::kNan);
  late.poison(stream);
  late.write([&] { must(prepare(whole, stream)); }, stream, name.c_str());

  add_kv(late, s, prepared, s.tokens);  // beside what it has: all of it
  outputs.workspace.poison(stream);
  late.poison(stream);
  late.write([&] { must(run(params, stream)); }, stream, name.c_str());

  late.clear();
  add_kv(late, s, 0, prepared);
  late.poison(stream);  // for good: the kernel writes them itself
  outputs.workspace.poison(stream);
  params.out = outputs.planned.get();
  params.tables_early = true;
  params.planned = true;
  must(plan(params, stream));
  ParamsCuda next = params, other = params;
  next.out = other.out = outputs.next.get();
  other.scale *= 0.5f;  // leaves other pieces than those wanted, by the plan of the other kind
  if (params.cluster == 0) other.window = params.window < kNoWindow ? kNoWindow : 9;
  must(plan(other, stream));
  late.clear();
  late.add(in.qkv, testing::kNan);
  add_kv(late, s, prepared, s.tokens);
  late.poison(stream);  // behind the plan: it is complete before the kernel in front begins
  const auto layers = [&] {
    for (const auto& layer : {params, other, next}) must(run(layer, stream));
  };
  late.write(layers, stream, name.c_str());
}

inline void run_way(const Case& c, const Way& way, Problem& problem, Outputs& outputs,
                    testing::Report& report, Late& late, cudaStream_t stream) {
  Step& s = problem.step;
  Inputs& in = problem.in;
  const Heads& h = c.shape.heads;
  const auto places = static_cast<std::int64_t>(c.queries.size());
  const PrepareCuda whole{.kv = s.device_kv,
                          .heads = h,
                          .first = way.fused ? c.decode : 0,
                          .tokens = s.tokens,
                          .sequences = places,
                          .position = in.position.get(),
                          .sequence = in.sequence.get(),
                          .frames = in.frames.get(),
                          .frame_begin = in.frame_begin.get(),
                          .rope_table = in.rope.get(),
                          .qkv = in.qkv.get(),
                          .qkv_stride = problem.stride,
                          .q_norm = c.shape.norm ? in.norm.get() : nullptr,
                          .k_norm = c.shape.norm ? in.norm.get() : nullptr,
                          .norm_offset = c.norm_offset()};
  const ParamsCuda params{.kv = s.device_kv,
                          .heads = h,
                          .sequences = places,
                          .decode = c.decode,
                          .tokens = s.tokens,
                          .frames = in.frames.get(),
                          .frame_begin = in.frame_begin.get(),
                          .query_begin = in.query_begin.get(),
                          .length = in.length.get(),
                          .scale = c.scale(),
                          .q = in.qkv.get(),
                          .q_stride = problem.stride,
                          .out = outputs.out.get(),
                          .workspace = outputs.workspace.get(),
                          .fused_prepare = way.fused ? &whole : nullptr,
                          .prefill_kernel = way.prefill_kernel,
                          .decode_kernel = way.decode_kernel,
                          .cluster = way.cluster,
                          .sm_count = kSmCounts[(c.decode + places) % 4],
                          .window = c.window,
                          .cap = c.cap};
  const std::string name = describe(c, way);
  const auto attempt = [&] {
    s.device_pool.copy_from(s.fresh_pool, stream);
    in.qkv.copy_from(in.fresh_qkv, stream);
    outputs.out.poison(stream);
    outputs.planned.poison(stream);
    outputs.next.poison(stream);
    run_on_gpu(problem, name, whole, params, outputs, late, stream);
  };
  report.check(late.repeat(attempt), name + ": inputs came before all was enqueued, each time");
  s.device_pool.fetch_to(outputs.pool);
  report.error_at_most(testing::steps_apart(outputs.pool, s.pool), 1.01,
                       name + ": KV in frames, in bf16 steps");
  compare(c, s, name, problem.host, outputs, report);
}

// The host's side is the same for all ways, and made once.
inline void run_case(const Case& c, const std::vector<Way>& ways, testing::Report& report,
                     Late& late, cudaStream_t stream) {
  Problem problem = make_problem(c);
  const Heads& h = c.shape.heads;
  const std::int64_t tokens = problem.step.tokens;
  const auto places = static_cast<std::int64_t>(c.queries.size());
  const auto values = static_cast<std::size_t>(tokens * h.query * h.size);
  Outputs outputs{.out = Device<BFloat16>(values),
                  .planned = Device<BFloat16>(values),
                  .next = Device<BFloat16>(values),
                  .workspace = Device<char>(to_size(workspace_bytes(h, places, tokens + 5)))};
  for (const Way& way : ways) run_way(c, way, problem, outputs, report, late, stream);
}

inline std::vector<Way> split_ways() {
  return {{.decode_kernel = DecodeKernel::kSplit},
          {.decode_kernel = DecodeKernel::kSplit, .fused = true}};
}

}  // namespace causeway::kernels::attention
