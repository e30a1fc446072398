// Attention on a GPU against the host kernel: every block size, grouping and head size that follows
// from the catalogue's configurations, and generated ones (testing/case.cuh).
//   attention_gpu_test [--cases N] [--seed S] [--small] [--small-batch]
// --small: for compute-sanitizer, at most 4 cases; --small-batch: the kernel for small batches only
#include <optional>

#include "base/testing/arguments.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/attention/cuda_parts.h"
#include "kernels/attention/testing/case.cuh"

namespace causeway::kernels::attention {
namespace {

// Tokens of a 4 MiB frame by kv::plan_block, and heads, of the models served.
const Shape kCatalogue[] = {
    {"Llama-3.1-8B", 32, {32, 8, 128}},        {"Llama-3.1-70B", 12, {64, 8, 128}},
    {"Llama-3.2-1B", 128, {32, 8, 64}},        {"Llama-3.2-3B", 36, {24, 8, 128}},
    {"Qwen2.5-7B", 73, {28, 4, 128}},          {"Qwen2.5-32B", 16, {40, 8, 128}},
    {"Qwen3-0.6B", 36, {16, 8, 128}, true},    {"Qwen3-4B", 28, {32, 8, 128}, true},
    {"Qwen3-30B-A3B", 42, {32, 4, 128}, true}, {"Qwen3-32B", 16, {64, 8, 128}, true},
    {"Gemma-2-9B", 12, {16, 8, 256}},          {"Gemma-3-1B", 78, {4, 1, 256}, true},
    {"Gemma-3-12B", 10, {16, 8, 256}, true},   {"Phi-3-mini", 10, {32, 32, 96}},
    {"heads of 96, shared", 42, {24, 8, 96}, true},
};

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
  const auto decode = choose_decode(c.shape.heads, DecodeKernel::kBest);
  if (decode.ok() && *decode == DecodeKernel::kSplit) {
    const bool clusters =
        small_batch_serves(c.shape.heads) && c.window == kNoWindow && c.cap == 0;
    ways = clusters ? decode_ways(c.seed) : split_ways();
    ways.push_back({});
  }
  if (choose_decode(c.shape.heads, DecodeKernel::kFlashInfer).ok()) {
    ways.push_back({.decode_kernel = DecodeKernel::kFlashInfer});
    ways.push_back(
        {.prefill_kernel = PrefillKernel::kReference, .decode_kernel = DecodeKernel::kFlashInfer});
  }
  if (parts::tensor_serves(c.shape.heads)) {
    ways.push_back(
        {.prefill_kernel = PrefillKernel::kTensor, .decode_kernel = DecodeKernel::kTensor});
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
  run(3, 96, true);
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
  for (const std::int64_t size : {64, 96, 128}) {
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
  for (const std::int64_t size : {64, 96, 128, 256}) {
    for (const Load& load : kLoads) {
      const Heads heads{load.query_heads, load.kv_heads, size};
      if ((small && !load.also_small) || !parts::split_serves(heads)) continue;
      Case c{.shape = {"shared", 12, heads},
             .decode = load.decode,
             .seed = random.bits()};
      for (std::int64_t i = 0; i < load.decode; ++i) {
        c.context.push_back(random.between(load.shortest, load.longest));
        c.queries.push_back(i == 1 || i == 7 ? 0 : 1);
      }
      run_case(c, small_batch_serves(heads) ? decode_ways(c.seed) : split_ways(), report, late,
               stream);
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
      const Heads heads{16, 4, block == 12 ? 64 : block == 5 ? 96 : 128};
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
  for (const std::int64_t decode : {17, 32, 33, 97, 140}) {
    loads.push_back({{32, 32, 96}, decode, false});
    loads.push_back({{16, 4, 96}, decode, true});
  }
  if (small) {  // under racecheck a case takes seconds
    loads = {{{32, 4, 128}, 36, true},
             {{4, 1, 64}, 36, true},
             {{4, 1, 128}, 20, false},
             {{4, 1, 128}, 140, false},
             {{4, 4, 96}, 36, true},
             {{8, 1, 96}, 140, false},
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
  params.window = kNoWindow;
  for (const std::int64_t size : {96, 256}) {
    params.heads = {8, 2, size};
    report.check(!run(params, nullptr).ok(), "clusters for heads of " + std::to_string(size));
  }
  params.heads = {8, 0, 64};
  report.check(!run(params, nullptr).ok(), "clusters for no heads");
  params.heads = {8, 2, 64};
  params.cap = 1;
  report.check(!run(params, nullptr).ok(), "clusters with a soft cap");
  params.cap = 0;
  const float some = 0;
  const PrepareCuda offset{.rope_table = &some, .q_norm = &some, .norm_offset = 1};
  params.fused_prepare = &offset;
  const Status refused = run(params, nullptr);
  report.check(!refused.ok() && refused.error().message.find("offset") != std::string::npos,
               "clusters with norms with an offset");
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
