// Attention on a GPU against the host kernel: every block size, grouping and head size that follows
// from the catalogue's configurations, and generated ones; mixed steps of decode, prompts and empty
// places; norm, rope and KV writes included; frames poisoned with NaN where no token lies, and each
// input until just before it must be there (testing/late.cuh).
//   attention_gpu_test [--cases N] [--seed S] [--small] [--small-batch]
// --small: for compute-sanitizer, at most 4 cases; --small-batch: the kernel for small batches only
#include <optional>

#include "base/testing/arguments.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/cuda_parts.h"
#include "kernels/parallel.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope/rope.h"
#include "kernels/testing/gpu.cuh"
#include "kernels/testing/late.cuh"
#include "kernels/testing/wrong_row.cuh"

namespace causeway::kernels::attention {
namespace {

using testing::Device;
using testing::Late;
using testing::must;

struct Shape {
  const char* name;
  std::int64_t block_tokens;
  Heads heads;
  bool norm = false;
};

// Tokens of a 4 MiB frame by kv::plan_block, and heads, of the models served.
const Shape kCatalogue[] = {
    {"Llama-3.1-8B", 32, {32, 8, 128}},        {"Llama-3.1-70B", 12, {64, 8, 128}},
    {"Llama-3.2-1B", 128, {32, 8, 64}},        {"Llama-3.2-3B", 36, {24, 8, 128}},
    {"Qwen2.5-7B", 73, {28, 4, 128}},          {"Qwen2.5-32B", 16, {40, 8, 128}},
    {"Qwen3-0.6B", 36, {16, 8, 128}, true},    {"Qwen3-4B", 28, {32, 8, 128}, true},
    {"Qwen3-30B-A3B", 42, {32, 4, 128}, true}, {"Qwen3-32B", 16, {64, 8, 128}, true},
    {"Gemma-2-9B", 12, {16, 8, 256}},          {"Gemma-3-1B", 78, {4, 1, 256}, true},
};

struct Case {
  Shape shape;
  std::vector<std::int64_t> context;  // KV before the query tokens
  std::vector<std::int64_t> queries;  // 0: an empty place
  std::int64_t decode = 0;
  std::uint64_t seed = 0;
  std::int64_t window = kNoWindow;
  float cap = 0;  // with one norms have an offset of 1, too

  float norm_offset() const { return cap > 0 ? 1 : 0; }
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
std::int64_t spare_frames(Random& random) {
  return random.chance(0.9) ? 0 : random.between(1, random.chance(0.5) ? 3 : 100);
}

// Rows of `size` random values, drawn by all threads, each from a seed of its own.
void draw_rows(Random& random, const std::vector<BFloat16*>& rows, std::int64_t size) {
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

Step make_step(const Case& c, Random& random) {
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

std::string describe(const Case& c, const Way& way) {
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
HostStep run_on_host(const Case& c, Step& s, std::vector<float> qkv, const std::vector<float>& norm,
                     const std::vector<float>& table) {
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
            .scale = 1.0f / std::sqrt(static_cast<float>(h.size)),
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
std::string describe_row(const Step& s, const testing::WrongRow& wrong) {
  const auto row = static_cast<std::size_t>(wrong.row);
  const auto sequence = static_cast<std::size_t>(s.sequence[row]);
  return "row " + std::to_string(row) + ": position " + std::to_string(s.position[row]) +
         " of sequence " + std::to_string(sequence) + ", " + std::to_string(s.length[sequence]) +
         " tokens in " + std::to_string(s.frames[sequence].size()) + " of its " +
         std::to_string(s.frame_begin[sequence + 1] - s.frame_begin[sequence]) + " frames, heads" +
         wrong.heads;
}

void compare(const Case& c, const Step& s, const std::string& name, const HostStep& host,
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
void add_kv(Late& late, const Step& s, std::int64_t begin, std::int64_t end) {
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

Problem make_problem(const Case& c) {
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

// Of a slice: all that the GPU has, or fewer.
constexpr int kSmCounts[] = {0, 64, 8, 0};

// prepare(), then run() in both ways, each with poison in its workspace, and wherever the kernel in
// front may still be writing; and once more where another has left its pieces.
void run_on_gpu(const Problem& problem, const std::string& name, const PrepareCuda& whole,
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
  late.clear();
  late.add(in.qkv, testing::kNan);
  add_kv(late, s, prepared, s.tokens);
  late.poison(stream);  // behind the plan: it is complete before the kernel in front begins
  ParamsCuda next = params, other = params;
  next.out = other.out = outputs.next.get();
  other.scale *= 0.5f;  // leaves other pieces than those wanted
  const auto layers = [&] {
    for (const auto& layer : {params, other, next}) must(run(layer, stream));
  };
  late.write(layers, stream, name.c_str());
}

void run_way(const Case& c, const Way& way, Problem& problem, Outputs& outputs,
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
                          .scale = 1.0f / std::sqrt(static_cast<float>(h.size)),
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
void run_case(const Case& c, const std::vector<Way>& ways, testing::Report& report, Late& late,
              cudaStream_t stream) {
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

Case generate(Random& random, const Shape& shape, bool small) {
  Case c{.shape = shape, .seed = random.bits()};
  const std::int64_t longest = small ? 70 : random.chance(0.2) ? 3000 : 300;
  c.decode = random.between(0, small ? 3 : 20);
  for (std::int64_t i = 0; i < c.decode; ++i) {
    c.queries.push_back(random.chance(0.1) ? 0 : 1);
    c.context.push_back(random.chance(0.2) ? random.between(0, 2) : random.between(0, longest));
  }
  const std::int64_t prompts = random.between(c.decode == 0 ? 1 : 0, small ? 1 : 3);
  for (std::int64_t i = 0; i < prompts; ++i) {
    c.queries.push_back(random.between(1, small ? 40 : 200));
    c.context.push_back(random.chance(0.4) ? 0 : random.between(0, longest));
  }
  if (random.chance(0.3)) c.window = random.between(1, random.chance(0.5) ? 40 : longest);
  if (random.chance(0.2)) c.cap = 1.5f;
  return c;
}

std::vector<Way> split_ways() {
  return {{.decode_kernel = DecodeKernel::kSplit},
          {.decode_kernel = DecodeKernel::kSplit, .fused = true}};
}

// Both kernels of decode, for heads that they serve; clusters as `turn` says.
std::vector<Way> decode_ways(std::uint64_t turn) {
  const int cluster = 2 << turn % 4;
  std::vector<Way> ways = split_ways();
  for (const bool fused : {false, true}) {
    ways.push_back({.fused = fused, .cluster = cluster});
  }
  return ways;
}

// By all kernels that may serve the shape.
void run_all_kernels(const Case& c, testing::Report& report, Late& late, cudaStream_t stream) {
  std::vector<Way> ways = {{}};
  const auto decode = choose_decode(c.shape.heads, DecodeKernel::kBest, c.cap > 0);
  if (decode.ok() && *decode == DecodeKernel::kSplit) {
    ways = c.window < kNoWindow ? split_ways() : decode_ways(c.seed);
    ways.push_back({});
  }
  if (choose_decode(c.shape.heads, DecodeKernel::kFlashInfer).ok()) {
    ways.push_back({.decode_kernel = DecodeKernel::kFlashInfer});
    ways.push_back(
        {.prefill_kernel = PrefillKernel::kReference, .decode_kernel = DecodeKernel::kFlashInfer});
  }
  ways.push_back(
      {.prefill_kernel = PrefillKernel::kReference, .decode_kernel = DecodeKernel::kReference});
  run_case(c, ways, report, late, stream);
}

// Slots of many sequences, and of many frames: a worker looks further than its plan reaches. Small
// blocks, because most of them hold a token or two.
void run_many(testing::Report& report, Late& late, cudaStream_t stream, Random& random) {
  const auto run = [&](std::int64_t block, std::int64_t size, bool norm) {
    Case c{.shape = {"many", block, {64, 64, size}, norm}, .decode = 700, .seed = random.bits()};
    for (int i = 0; i < c.decode; ++i) {
      const bool is_long = i == 40 || i == 41 || i == 300;
      c.context.push_back(is_long ? 400 : random.between(0, 2));
      c.queries.push_back(random.chance(0.1) ? 0 : 1);
    }
    run_case(c, split_ways(), report, late, stream);
  };
  for (const std::int64_t block : {1, 3, 7, 12}) run(block, 64, false);
  run(7, 128, true);
}

// Workers of a few tiles, whose sequence changes with their first, second, third … tile. Frames
// smaller than a tile, and larger, where a tile lies in two: these the split kernel serves by
// instances of their own, with norms and without.
void run_changes(testing::Report& report, Late& late, cudaStream_t stream, Random& random) {
  struct Load {
    std::int64_t block, decode;
    bool norm;
  };
  constexpr Load kLoads[] = {{12, 3, false},  {12, 12, false}, {12, 40, false}, {23, 3, true},
                             {23, 12, false}, {23, 40, true},  {16, 40, false}, {31, 12, true}};
  for (const std::int64_t size : {64, 128}) {
    for (const Load& load : kLoads) {
      Case c{.shape = {"changes", load.block, {16, 8, size}, load.norm},
             .decode = load.decode,
             .seed = random.bits()};
      const bool few = load.decode == 3;
      for (std::int64_t i = 0; i < load.decode; ++i) {
        c.context.push_back(random.between(few ? 1500 : 280, few ? 1900 : 420));
        c.queries.push_back(1);
      }
      run_case(c, split_ways(), report, late, stream);
    }
  }
}

// Sequences that many workers share, and whose pieces are added up: more pieces than are asked for
// at once, many query heads of a KV head or one, ends within a worker's tiles, empty places.
void run_shared(testing::Report& report, Late& late, cudaStream_t stream, Random& random,
                bool small) {
  struct Load {
    std::int64_t query_heads, kv_heads, decode, shortest, longest;
    bool also_small;
  };
  constexpr Load kLoads[] = {
      {4, 1, 1, 2200, 2600, true}, {12, 4, 12, 20, 300, true},  {16, 8, 1, 1000, 1400, false},
      {32, 2, 3, 300, 900, false}, {8, 8, 4, 500, 1000, false}, {16, 1, 12, 250, 400, false},
  };
  for (const std::int64_t size : {64, 128}) {
    for (const Load& load : kLoads) {
      if (small && !load.also_small) continue;
      Case c{.shape = {"shared", 12, {load.query_heads, load.kv_heads, size}},
             .decode = load.decode,
             .seed = random.bits()};
      for (std::int64_t i = 0; i < load.decode; ++i) {
        c.context.push_back(random.between(load.shortest, load.longest));
        c.queries.push_back(i == 1 || i == 7 ? 0 : 1);
      }
      run_case(c, decode_ways(c.seed), report, late, stream);
    }
  }
}

// Few sequences, by clusters of any size: fewer tiles than CTAs, tiles that they do not share
// evenly, more than one round, lengths around the borders of tiles, frames and rounds.
void run_small_batch(testing::Report& report, Late& late, cudaStream_t stream, Random& random,
                     bool small) {
  struct Load {
    Shape shape;
    std::vector<std::int64_t> lengths;  // 0: an empty place
  };
  std::vector<Load> loads = {
      {{"small", 12, {32, 4, 128}, true}, {1, 15, 16, 17}},
      {{"small", 42, {32, 4, 128}, true}, {1024}},
      {{"small", 42, {32, 4, 128}, true}, {1025, 0, 129, 2300}},
      {{"small", 32, {32, 8, 128}}, {1025}},
      {{"small", 1, {4, 2, 128}}, {127, 128, 129}},
      {{"small", 128, {32, 8, 64}}, {1025, 33, 0}},
      {{"small", 7, {16, 1, 128}, true}, {700, 161}},
      {{"small", 16, {18, 2, 64}, true}, {515, 1}},
      {{"small", 5, {10, 1, 64}}, {2049}},
      {{"small", 32, {8, 8, 128}}, {160, 1281}},
  };
  if (small) {
    loads = {{{"small", 12, {8, 1, 128}, true}, {1, 40}}, {{"small", 5, {11, 1, 64}, true}, {90}}};
  } else {
    loads.push_back({{"small", 42, {32, 4, 128}, true}, {16384}});
    loads.push_back({{"small", 16, {9, 1, 64}}, {16385}});
  }
  for (const Load& load : loads) {
    Case c{.shape = load.shape, .seed = random.bits()};
    c.decode = static_cast<std::int64_t>(load.lengths.size());
    for (const std::int64_t length : load.lengths) {
      c.context.push_back(std::max<std::int64_t>(length - 1, 0));
      c.queries.push_back(length == 0 ? 0 : 1);
    }
    std::vector<Way> ways;
    for (const int cluster : {2, 4, 8, 16}) {
      if (small && (cluster == 4 || cluster == 16)) continue;
      ways.push_back({.fused = true, .cluster = cluster});
    }
    ways.push_back({.cluster = small ? 2 : 8});
    run_case(c, ways, report, late, stream);
  }
}

// Sequences around a window's length and beyond; windows that end within a tile or a frame.
void run_windows(testing::Report& report, Late& late, cudaStream_t stream, Random& random,
                 bool small) {
  for (const std::int64_t window : {1, 16, 17, 100, 1000}) {
    for (const std::int64_t block : {5, 12, 33}) {
      if (small && (window > 17 || block != 12)) continue;  // under racecheck a case takes seconds
      const Heads heads{16, 4, block == 12 ? 64 : 128};
      Case c = generate(random, {"window", block, heads, block == 33}, small);
      for (std::size_t i = 0; i < c.context.size(); i += 2) {
        c.context[i] = std::max<std::int64_t>(0, window + random.between(-3, small ? 3 : 300));
      }
      c.window = window;
      run_all_kernels(c, report, late, stream);
    }
  }
}

// So many sequences that merging rehearses (from 33 on, cuda_merge.cu) or goes by a list (from 97
// on, cuda_merge_many.cu), of fewer sequences than the workers' slots and of more; sequences of two
// pieces, of one, of none, and one of more pieces than are added up at once.
void run_many_shared(testing::Report& report, Late& late, cudaStream_t stream, Random& random,
                     bool small) {
  struct Load {
    Heads heads;
    std::int64_t decode;
    bool norm;
  };
  std::vector<Load> loads;
  for (const Heads& heads : {Heads{32, 8, 128}, Heads{64, 4, 64}, Heads{36, 4, 128}}) {
    for (const std::int64_t decode : {17, 32, 33, 70, 96, 97, 131, 132, 300}) {
      loads.push_back({heads, decode, false});
    }
  }
  loads.push_back({{64, 8, 128}, 32, true});
  if (small) {  // under racecheck a case takes seconds
    loads = {{{32, 4, 128}, 36, true},
             {{4, 1, 64}, 36, true},
             {{4, 1, 128}, 20, false},
             {{4, 1, 128}, 140, false},
             {{4, 1, 64}, 140, false}};
  }
  for (const auto& [heads, decode, norm] : loads) {
    Case c{.shape = {"many shared", 16, heads, norm}, .decode = decode, .seed = random.bits()};
    const std::int64_t longest = small ? 24 : decode == 300 ? 120 : 220;
    for (std::int64_t i = 0; i < decode; ++i) {
      const bool is_long = i == 20 && decode != 132;
      c.context.push_back(is_long ? (small ? 200 : 2100) : random.between(0, longest));
      c.queries.push_back(i == 1 || i == 40 || i + 1 == decode ? 0 : 1);
    }
    run_case(c, split_ways(), report, late, stream);
  }
}

// Frames far apart: offsets beyond 8 GiB, where 32 bits of elements end. Compared on the device's
// own reference, because the host has no such memory.
void run_far(testing::Report& report, cudaStream_t stream) {
  const Heads h{32, 8, 128};
  const std::int64_t frame_bytes = 4 << 20, count = 5000;
  Device<BFloat16> pool(static_cast<std::size_t>(count * frame_bytes / 2));
  testing::fill(pool, 5);
  const std::vector<std::int32_t> length = {700, 33, 1025, 900};
  std::vector<std::int32_t> frames, frame_begin = {0};
  Random random(3);
  for (const std::int32_t l : length) {
    for (std::int32_t t = 0; t < l; t += 32) {
      frames.push_back(static_cast<std::int32_t>(random.between(2100, count - 1)));
    }
    frame_begin.push_back(static_cast<std::int32_t>(frames.size()));
  }
  const std::int64_t tokens = 3 + 256;
  Device<BFloat16> q(static_cast<std::size_t>(tokens * h.query * h.size)), a(q.size()), b(q.size());
  testing::fill(q, 6);
  Device<std::int32_t> d_frames(frames), d_begin(frame_begin), d_length(length),
      d_query(std::vector<std::int32_t>{0, 1, 2, 3, 259});
  Device<char> workspace(to_size(workspace_bytes(h, 4, tokens)));
  ParamsCuda p{.kv = {.base = reinterpret_cast<std::byte*>(pool.get()),
                      .frame_bytes = Bytes(frame_bytes),
                      .key_offset = Bytes(31 * 32 * 8 * 128 * 4),
                      .value_offset = Bytes(32 * 8 * 128 * 2),
                      .token_stride = Bytes(8 * 128 * 2),
                      .block_tokens = 32,
                      .dtype = DType::kBF16},
               .heads = h,
               .sequences = 4,
               .decode = 3,
               .tokens = tokens,
               .frames = d_frames.get(),
               .frame_begin = d_begin.get(),
               .query_begin = d_query.get(),
               .length = d_length.get(),
               .scale = 0.088f,
               .q = q.get(),
               .q_stride = h.query * h.size,
               .out = a.get(),
               .workspace = workspace.get()};
  must(run(p, stream));
  p.out = b.get();
  p.decode_kernel = DecodeKernel::kReference;
  p.prefill_kernel = PrefillKernel::kReference;
  must(run(p, stream));
  must(cudaStreamSynchronize(stream), "far frames");
  report.error_at_most(
      testing::relative_error(testing::to_floats(a.fetch()), testing::to_floats(b.fetch())), 8e-3,
      "frames beyond 8 GiB");
}

void check_refusals(testing::Report& report) {
  ParamsCuda params;
  params.kv.block_tokens = 16;
  params.heads = {8, 2, 64};
  for (const int cluster : {-1, 1, 3, 32, 8}) {
    params.cluster = cluster;
    params.window = cluster == 8 ? 100 : kNoWindow;
    report.check(!run(params, nullptr).ok(), "clusters of " + std::to_string(cluster));
  }
  params.heads = {8, 2, 96};
  report.check(!run(params, nullptr).ok(), "clusters for heads of 96");
  params.heads = {8, 0, 64};
  report.check(!run(params, nullptr).ok(), "clusters for no heads");
}

void check_clusters(testing::Report& report) {
  const Heads heads{32, 4, 128};
  const auto room = [&](int cluster) { return parts::small_batch_room(heads, cluster); };
  report.check(room(8) > 0 && room(4) >= room(8), "room for clusters");
  report.check(small_batch_cluster(heads, 1) == 8 || room(8) < heads.kv,
               "one sequence is not served by clusters of 8");
}

// For who waits: under compute-sanitizer this takes minutes.
void progress(const char* what) {
  std::printf("%s\n", what);
  std::fflush(stdout);
}

int run_all(int cases, std::uint64_t seed, bool small, bool only_small_batch) {
  if (!testing::has_gpu()) return testing::kSkipped;
  std::printf("seed %lu, FlashInfer %s\n", seed, has_flashinfer() ? "on" : "off");
  cudaStream_t stream;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  testing::Report report;
  Late late;
  check_refusals(report);
  check_clusters(report);
  Random random(seed);
  run_small_batch(report, late, stream, random, small);
  if (only_small_batch) return report.finish();
  for (const Shape& shape : kCatalogue) {
    if (small && shape.heads.query * shape.heads.size > 28 * 128) continue;
    for (int i = 0; i < (small ? 1 : 3); ++i) {
      Case c = generate(random, shape, small);
      if (i == 0) c.decode = std::min<std::int64_t>(c.decode, 1);
      if (i == 0) {
        // Decode, and a prompt of many tiles.
        c.queries = {1, small ? 20 : 333};
        c.context = {small ? 50 : 1023, 0};
        c.decode = 1;
      }
      run_all_kernels(c, report, late, stream);
    }
  }
  for (int i = 0; i < (small ? std::min(cases, 4) : cases); ++i) {
    Shape shape{"generated", random.between(1, 50), {}, random.chance(0.5)};
    const std::int64_t sizes[] = {64, 128, 64, 128, 8, 40, 80, 96, 256, 192};
    shape.heads.kv = random.between(1, 10);
    shape.heads.query = shape.heads.kv * random.between(1, random.chance(0.2) ? 16 : 8);
    shape.heads.size = sizes[random.below(10)];
    run_all_kernels(generate(random, shape, small), report, late, stream);
  }
  progress("few sequences and shapes done");
  run_shared(report, late, stream, random, small);
  progress("shared sequences done");
  run_windows(report, late, stream, random, small);
  run_many_shared(report, late, stream, random, small);
  if (!small) run_many(report, late, stream, random);
  if (!small) run_changes(report, late, stream, random);
  if (!small) run_far(report, stream);
  must(cudaStreamDestroy(stream), "stream");
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels::attention

int main(int argc, char** argv) {
  causeway::Arguments arguments(argc, argv);
  const auto seed = arguments.number("--seed", std::uint64_t{20260101});
  const int cases = arguments.number("--cases", 40);
  const bool small = arguments.flag("--small"), only_small_batch = arguments.flag("--small-batch");
  arguments.finish();
  return causeway::kernels::attention::run_all(cases, seed, small, only_small_batch);
}
