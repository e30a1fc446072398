// The forward pass on a GPU against the one on the CPU, on generated models of every family:
// prompts in chunks, mixed steps, and decode plainly, captured, and from the graph; of few
// sequences and of as many as have other kernels, alone and beside a prompt.
//   cuda_forward_gpu_test [--seed S]        exit code 77: no GPU
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "model/cuda_forward.h"
#include "model/model_card.h"
#include "model/random_model.h"
#include "model/step_products.h"
#include "model/step_ranges.h"

namespace causeway::model {
namespace {

constexpr Bytes kFrame = kib(256);
constexpr std::int64_t kFrames = 256;
constexpr std::int32_t kSequences = 160;
constexpr std::int64_t kRows = 320;
constexpr std::int64_t kPartsRows = kernels::gemm::kPartsRowsMax;  // beyond: no parts of a product

// Errors of a step's logits, relative to what they should be.
struct Errors {
  double all = 0;
  double row = 0;  // of the worst row
  std::int64_t rows = 0;
};
// bf16 keeps 8 bits: 2⁻⁹ a rounding, some dozens of them after each other. A row that lacks 16 of
// its 47 tokens is wrong by 0.3, and a hundred others beside it hide that: 0.025 of all.
constexpr Errors kTolerance = {.all = 0.03, .row = 0.06};
// Where two experts score alike, rounding may choose the other: of few rows that is most of all.
constexpr Errors kToleranceMoe = {.all = 0.03, .row = 0.15};
constexpr std::int64_t kFewRowsMoe = 8;

using causeway::must;
void must(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "FAILED: %s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}

struct Part {
  std::int32_t sequence = 0;
  std::int32_t tokens = 1;
  bool samples = true;
};

// Sequences that grow step by step, their frames dealt out in turns.
class Story {
 public:
  Story(std::int64_t vocab, std::int64_t block, std::uint64_t seed)
      : random_(seed), vocab_(vocab), block_(block) {}

  request::Batch step(const std::vector<Part>& parts) {
    request::Batch batch;
    for (const Part& part : parts) {
      Sequence& sequence = sequences_[part.sequence];
      while (std::ssize(sequence.frames) * block_ < sequence.tokens + part.tokens) {
        if (next_frame_ > kFrames) {  // two would write one
          std::fprintf(stderr, "FAILED: a step needs more than %ld frames\n", long{kFrames});
          std::exit(1);
        }
        sequence.frames.emplace_back(next_frame_++ * 7 % kFrames);
      }
      request::BatchEntry entry;
      entry.token_begin = static_cast<std::int32_t>(batch.tokens.size());
      entry.token_count = part.tokens;
      entry.frame_begin = static_cast<std::int32_t>(batch.frames.size());
      entry.frame_count = static_cast<std::int32_t>(sequence.frames.size());
      entry.context = sequence.tokens;
      entry.samples = part.samples;
      for (int i = 0; i < part.tokens; ++i) {
        batch.tokens.push_back(static_cast<TokenId>(random_.below(vocab_)));
      }
      batch.frames.insert(batch.frames.end(), sequence.frames.begin(), sequence.frames.end());
      batch.entries.push_back(entry);
      sequence.tokens += part.tokens;
    }
    return batch;
  }

 private:
  struct Sequence {
    std::int32_t tokens = 0;
    std::vector<FrameId> frames;
  };
  Random random_;
  std::int64_t vocab_;
  std::int64_t block_;
  std::int64_t next_frame_ = 1;
  Sequence sequences_[kSequences];
};

constexpr std::int32_t kMany = 150;

std::vector<Part> decoding(std::int32_t begin, std::int32_t end) {
  std::vector<Part> parts;
  for (std::int32_t s = begin; s < end; ++s) parts.push_back({s});
  return parts;
}

std::vector<std::vector<Part>> script() {
  std::vector<std::vector<Part>> steps = {
      {{0, 37}, {1, 5, false}, {2, 1}},
      {{0, 70}, {1, 1}, {3, 90, false}, {2, 1}},
      {{3, 1}, {0, 1}},
  };
  for (int i = 0; i < 5; ++i) steps.push_back({{0}, {1}, {2}, {3}});
  for (int i = 0; i < 3; ++i) steps.push_back({{2}, {0}, {3}});
  // Many, of which every eighth has a prompt: its tiles are shared among workers. One has so many
  // tiles that more of them share it than are added up at once.
  for (std::int32_t begin = 8; begin < kMany; begin += 48) {
    std::vector<Part> prompts;
    for (std::int32_t s = begin; s < std::min(begin + 48, kMany); s += 8) {
      prompts.push_back({s, 40, s % 16 == 8});
    }
    steps.push_back(prompts);
  }
  steps.push_back({{16, 250}});
  // In buckets of 24, 40, 112, 128, and of as many as have their pieces listed: beyond the 132
  // workers that a head of eight has.
  for (const std::int32_t end : {32, 48, 110, 132, kMany}) {
    for (int i = 0; i < 3; ++i) steps.push_back(decoding(8, end));
  }
  // Beside a prompt's chunk; so that all rows are the most with parts of a product, and one more.
  for (const std::int64_t rows : {std::int64_t{150}, kPartsRows, kPartsRows + 1}) {
    for (const std::int32_t end : {90, kMany}) {
      std::vector<Part> mixed = decoding(8, end);
      const auto chunk = static_cast<std::int32_t>(rows - std::ssize(mixed));
      if (chunk > 0) mixed.push_back({0, chunk});
      steps.push_back(mixed);
    }
  }
  return steps;
}

Errors compare(const std::vector<float>& got, const std::vector<float>& want, std::int64_t row) {
  const auto finite = [](double error) { return std::isfinite(error) ? error : INFINITY; };
  double difference = 0, size = 0;
  Errors errors;
  const auto step = static_cast<std::size_t>(row);
  for (std::size_t begin = 0; begin < want.size(); begin += step) {
    double difference_here = 0, size_here = 0;
    for (std::size_t i = begin; i < begin + step; ++i) {
      difference_here += std::pow(double{got[i]} - double{want[i]}, 2);
      size_here += std::pow(double{want[i]}, 2);
    }
    difference += difference_here;
    size += size_here;
    errors.row = std::max(errors.row, finite(std::sqrt(difference_here / size_here)));
  }
  errors.rows = std::ssize(want) / row;
  errors.all = finite(std::sqrt(difference / size));
  return errors;
}

// How the GPU's steps run.
enum class Steps {
  kWhole,
  kInRanges,  // as a streamed model's
  kAtHome,    // all weights are read in host memory; those in HBM are NaN
};

struct FreeHost {
  void operator()(void* memory) const { (void)cudaFreeHost(memory); }
};

// The same weights on both sides.
class Pair {
 public:
  Pair(const ModelConfig& config, device::Device& device, device::Stream& stream,
       std::uint64_t seed, int sm_count, Steps steps)
      : config_(config), steps_(steps), stream_(device::cuda_stream_of(stream)) {
    const auto plan = plan_weights(config, DType::kBF16);
    layout_ = must(kv::plan_block(kv_shape(config, DType::kBF16), kFrame), "the block");
    const auto placed = must(weights::lay_out(plan), "the layout");
    host_weights_.resize(to_size(placed.bytes));
    fill(seed);
    host_kv_.resize(to_size(kFrame * kFrames));
    host_ = std::make_unique<HostForward>(config,
                                          weights::PlacedWeights{&placed, host_weights_.data()});
    device::Arena& arena = device.arena();
    weights_ =
        must(arena.allocate(extents(arena, std::ssize(host_weights_)), device::Arena::End::kHigh),
             "memory for weights");
    kv_ = must(arena.allocate(extents(arena, std::ssize(host_kv_)), device::Arena::End::kLow),
               "memory for KV");
    place_weights();
    must(cudaMemset(kv_.data(), 0xFF, host_kv_.size()), "poisoning KV");
    // The slice's stream does not wait for the default one.
    must(cudaStreamSynchronize(nullptr), "weights and KV");
    workspace_ = must(
        CudaWorkspace::create(device, config, {.rows = kRows, .slots = kSequences, .frames = 512},
                              sm_count, stream_),
        "the workspace");
    ModelConfig larger = config;
    larger.hidden *= 2;
    if (workspace_->check_room(larger).ok() || !workspace_->check_room(config).ok()) {
      must(invalid_argument("room for another model, or none for its own"), "the workspace");
    }
    forward_ =
        must(CudaForward::create(config,
                                 {.cached = {&placed, weights_.data()},
                                  .home = {&placed, static_cast<const std::byte*>(home_.get())}},
                                 *workspace_, {}),
             "the forward pass");
  }

  Errors step(const request::Batch& batch) {
    constexpr std::int64_t kBuckets[] = {1, 2, 4, 8, 24, 40, 112, 128, kSequences};
    StepShape shape = shape_of(batch, kBuckets, config_.plain_context());
    // Every other step of a small batch as if it were larger: both ways have graphs, in turns.
    shape.small_batch = shape.small_batch && ++small_batches_ % 2 == 1;
    std::vector<std::int32_t> tables(static_cast<std::size_t>(
        table_elements_max(shape.rows, shape.slots, std::ssize(batch.frames))));
    const std::int64_t used = write_tables(batch, shape, tables);
    must(cudaMemcpyAsync(workspace_->tables(), tables.data(), static_cast<std::size_t>(4 * used),
                         cudaMemcpyHostToDevice, stream_),
         "copying tables");
    must(run(shape), "a step");
    std::int64_t rows = 0;
    for (const auto& entry : batch.entries) rows += entry.samples ? 1 : 0;
    std::vector<float> got(static_cast<std::size_t>(rows * config_.vocab));
    std::vector<float> want(got.size());
    must(cudaStreamSynchronize(stream_), "waiting for a step");
    must(cudaMemcpy(got.data(), forward_->logits(), got.size() * sizeof(float),
                    cudaMemcpyDeviceToHost),
         "copying logits");
    must(host_->run(batch, {.base = host_kv_.data(), .layout = layout_}, want), "the CPU's step");
    return compare(got, want, config_.vocab);
  }

  std::int64_t block() const { return layout_.tokens.count; }

 private:
  static std::int64_t extents(const device::Arena& arena, std::int64_t bytes) {
    return (bytes + arena.extent_bytes().count - 1) / arena.extent_bytes().count;
  }
  Status run(const StepShape& shape) {
    const KvMemory kv{.base = kv_.data(), .layout = layout_};
    if (steps_ == Steps::kAtHome) return forward_->run(shape, kv, {.where = views_}, stream_);
    if (steps_ == Steps::kWhole) return forward_->run(shape, kv, stream_);
    CAUSEWAY_TRY(forward_->begin(shape, kv, {}, stream_));
    for (const StepRange& range : step_ranges(config_, {})) {
      CAUSEWAY_TRY(forward_->run_range(range));
    }
    return {};
  }
  void place_weights() {
    if (steps_ != Steps::kAtHome) {
      must(cudaMemcpy(weights_.data(), host_weights_.data(), host_weights_.size(),
                      cudaMemcpyHostToDevice),
           "copying weights");
      return;
    }
    must(cudaMemset(weights_.data(), 0xFF, host_weights_.size()), "poisoning weights");
    void* memory = nullptr;
    must(cudaHostAlloc(&memory, host_weights_.size(), cudaHostAllocMapped), "a home");
    home_.reset(memory);
    std::memcpy(memory, host_weights_.data(), host_weights_.size());
    views_.assign(static_cast<std::size_t>(head_group(config_)) + 1,
                  {.place = weights::WeightPlace::kHome});
  }
  void fill(std::uint64_t seed) {
    Random random(seed);
    for (std::size_t i = 0; i < host_weights_.size(); i += 2) {
      const BFloat16 value = to_bfloat16(static_cast<float>(random.uniform() - 0.5) * 0.3f);
      std::memcpy(&host_weights_[i], &value, 2);
    }
  }

  ModelConfig config_;
  Steps steps_;
  kernels::CudaStream stream_;
  kv::BlockLayout layout_;
  std::vector<std::byte> host_weights_;
  std::vector<std::byte> host_kv_;
  std::unique_ptr<HostForward> host_;
  std::unique_ptr<void, FreeHost> home_;    // of the weights, if they are read there
  std::vector<weights::WeightView> views_;  // then
  device::Extents weights_;
  device::Extents kv_;
  std::unique_ptr<CudaWorkspace> workspace_;
  std::unique_ptr<CudaForward> forward_;
  int small_batches_ = 0;
};

struct Case {
  const char* name;
  Family family;
  std::int64_t heads, kv_heads, head_dim;
  bool tied = false, bias = false;
  std::vector<std::int64_t> dense = {};  // layers of a mixture of experts that are not
  std::int64_t vocab = 1000;
  std::int64_t intermediate = 704;
  int sm_count = 0;  // of which products are dealt out; 0: all
  std::int64_t layers = 3;
  Steps steps = Steps::kWhole;
  std::int64_t window = kNoWindow;
  std::int64_t rotary_dim = 0;
  std::int64_t logn_context = 0;
};

ModelConfig config_of(const Case& c) {
  ModelConfig config = random_model_config(c.family);
  config.layers = c.layers;
  config.vocab = c.vocab;
  if (config.intermediate > 0) config.intermediate = c.intermediate;
  config.heads = c.heads;
  config.kv_heads = c.kv_heads;
  config.head_dim = c.head_dim;
  config.tied_embeddings = c.tied;
  if (c.bias) config.attention_bias = config.output_bias = config.mlp_bias = true;
  if (config.moe) config.moe->dense_layers = c.dense;
  config.sliding_window = c.window;
  config.rotary_dim = c.rotary_dim;
  config.logn_context = c.logn_context;
  return config;
}

bool check(const Case& c, device::Device& device, std::uint64_t seed) {
  const ModelConfig config = config_of(c);
  const auto stream = must(device.make_stream("test"), "a stream");
  const int all = device.capabilities().processors;
  Pair pair(config, device, *stream, seed, c.sm_count > 0 ? c.sm_count : all, c.steps);
  Story story(config.vocab, pair.block(), seed);
  bool good = true;
  const Errors& allowed = config.moe ? kToleranceMoe : kTolerance;
  Errors worst;
  int index = 0;
  for (const auto& parts : script()) {
    const Errors errors = pair.step(story.step(parts));
    const double all_max = config.moe && errors.rows < kFewRowsMoe ? allowed.row : allowed.all;
    if (errors.all > all_max || errors.row > allowed.row) {
      std::printf("FAILED %s, step %d: relative error %g, of a row %g\n", c.name, index, errors.all,
                  errors.row);
      good = false;
    }
    worst.all = std::max(worst.all, errors.all);
    worst.row = std::max(worst.row, errors.row);
    ++index;
  }
  std::printf("%s: worst relative error of %d steps %.2e, of a row %.2e\n", c.name, index,
              worst.all, worst.row);
  return good;
}

// Parts lie in the workspace that is made for a model, whatever else it is made for: here they are
// the most that any product takes. Needs no GPU.
bool check_parts_fit() {
  constexpr int kSms = 132;
  ModelConfig config = random_model_config(Family::kLlama);
  config.hidden = 2048;
  config.intermediate = 512;
  bool good = true;
  for (const std::int64_t rows : {kPartsRows - 1, kPartsRows, kPartsRows + 1}) {
    const Bytes made = must(linear_workspace(config, rows, 1, kSms), "a workspace");
    const kernels::gemm::CudaRequest down{.m = std::min(rows, kPartsRows),
                                          .n = config.hidden,
                                          .k = config.intermediate,
                                          .out = kernels::gemm::CudaOut::kF32,
                                          .parts = kernels::gemm::kPartsMax};
    const auto plan = must(kernels::gemm::choose(down, {.sm_count = kSms}), "parts");
    if (made >= plan.workspace) continue;
    std::printf("FAILED: %ld rows: a workspace of %ld bytes, parts need %ld\n", long{rows},
                long{made.count}, long{plan.workspace.count});
    good = false;
  }
  return good;
}

std::vector<Case> cases_at_home() {
  return {{.name = "llama, 4/4 heads of 64, tied, biases, at home",
           .family = Family::kLlama,
           .heads = 4,
           .kv_heads = 4,
           .head_dim = 64,
           .tied = true,
           .bias = true,
           .steps = Steps::kAtHome},
          {.name = "qwen2, 7/1 heads of 128, at home",
           .family = Family::kQwen2,
           .heads = 7,
           .kv_heads = 1,
           .head_dim = 128,
           .steps = Steps::kAtHome},
          {.name = "qwen3, 8/1 heads of 128, at home",
           .family = Family::kQwen3,
           .heads = 8,
           .kv_heads = 1,
           .head_dim = 128,
           .steps = Steps::kAtHome}};
}

// Steps with and without a sequence beyond the window, or logn attention's context, take turns.
// Heads that each of attention's kernels serves.
std::vector<Case> cases_of_windows() {
  return {{"mistral, 8/2 heads of 128", Family::kMistral, 8, 2, 128, false, false},
          {.name = "mistral, 8/2 heads of 64, a window of 50",
           .family = Family::kMistral,
           .heads = 8,
           .kv_heads = 2,
           .head_dim = 64,
           .window = 50},
          {.name = "mistral, 4/4 heads of 128, a window of 7",
           .family = Family::kMistral,
           .heads = 4,
           .kv_heads = 4,
           .head_dim = 128,
           .window = 7},
          {.name = "mistral, 4/2 heads of 80, a window of 33",
           .family = Family::kMistral,
           .heads = 4,
           .kv_heads = 2,
           .head_dim = 80,
           .window = 33},
          {.name = "qwen, 4/4 heads of 128, logn attention beyond 50",
           .family = Family::kQwen,
           .heads = 4,
           .kv_heads = 4,
           .head_dim = 128,
           .logn_context = 50},
          {.name = "qwen, 4/4 heads of 80, biases, logn attention beyond 7",
           .family = Family::kQwen,
           .heads = 4,
           .kv_heads = 4,
           .head_dim = 80,
           .bias = true,
           .logn_context = 7}};
}

// Norms behind sublayers, soft caps, windows and RoPE by layer; heads that FlashInfer decodes, and
// those that the split kernel does.
std::vector<Case> cases_of_gemma() {
  return {{.name = "gemma2, 4/2 heads of 256, a window of 50",
           .family = Family::kGemma2,
           .heads = 4,
           .kv_heads = 2,
           .head_dim = 256,
           .tied = true,
           .window = 50},
          {.name = "gemma2, 8/4 heads of 128, a window of 33, in two ranges",
           .family = Family::kGemma2,
           .heads = 8,
           .kv_heads = 4,
           .head_dim = 128,
           .layers = 6,
           .steps = Steps::kInRanges,
           .window = 33},
          {.name = "gemma3, 4/1 heads of 256, a window of 50",
           .family = Family::kGemma3Text,
           .heads = 4,
           .kv_heads = 1,
           .head_dim = 256,
           .tied = true,
           .layers = 7,
           .window = 50},
          {.name = "gemma3, 8/2 heads of 128, a window of 20",
           .family = Family::kGemma3Text,
           .heads = 8,
           .kv_heads = 2,
           .head_dim = 128,
           .layers = 7,
           .window = 20},
          {.name = "gemma3, 4/4 heads of 64, at home",
           .family = Family::kGemma3Text,
           .heads = 4,
           .kv_heads = 4,
           .head_dim = 64,
           .tied = true,
           .steps = Steps::kAtHome,
           .window = 40}};
}

std::vector<Case> cases_in_hbm() {
  return {{"llama, 8/2 heads of 64", Family::kLlama, 8, 2, 64, false, false},
          {"llama, 4/4 heads of 64, tied, biases", Family::kLlama, 4, 4, 64, true, true},
          {"llama, 6/2 heads of 128", Family::kLlama, 6, 2, 128, true, false},
          {"qwen3, 8/1 heads of 128", Family::kQwen3, 8, 1, 128, false, false},
          {"qwen3, 10/2 heads of 64", Family::kQwen3, 10, 2, 64, true, false},
          // A head so large that its products are shared along k.
          {"llama, 16/8 heads of 64", Family::kLlama, 16, 8, 64, false, false, {}, 16'640},
          // So few SMs that pairs of CTAs fill them: qkv up to 64 rows, and o and down, whose parts
          // the next norm adds.
          {.name = "llama, 4/2 heads of 64, in pairs",
           .family = Family::kLlama,
           .heads = 4,
           .kv_heads = 2,
           .head_dim = 64,
           .vocab = 16'640,
           .intermediate = 768,
           .sm_count = 8},
          // Gate and up so large that they drop what is not read again.
          {.name = "llama, 4/2 heads of 64, in pairs, 8,192 in between",
           .family = Family::kLlama,
           .heads = 4,
           .kv_heads = 2,
           .head_dim = 64,
           .intermediate = 8192,
           .sm_count = 8},
          // Behind the fourth layer, which leaves no parts, other models' steps may run.
          {.name = "llama, 4/2 heads of 64, in pairs, in two ranges",
           .family = Family::kLlama,
           .heads = 4,
           .kv_heads = 2,
           .head_dim = 64,
           .intermediate = 768,
           .sm_count = 8,
           .layers = 6,
           .steps = Steps::kInRanges},
          {"qwen3-moe, 8/2 heads of 64", Family::kQwen3Moe, 8, 2, 64, false, false},
          {.name = "qwen3-moe, 4/2 heads of 64, in pairs",
           .family = Family::kQwen3Moe,
           .heads = 4,
           .kv_heads = 2,
           .head_dim = 64,
           .sm_count = 8},
          {"phi3, 4/2 heads of 128", Family::kPhi3, 4, 2, 128, false, false},
          {.name = "phi3, 6/2 heads of 128, of which 96 are rotated",
           .family = Family::kPhi3,
           .heads = 6,
           .kv_heads = 2,
           .head_dim = 128,
           .rotary_dim = 96},
          {"qwen2, 14/2 heads of 64, tied", Family::kQwen2, 14, 2, 64, true, false},
          {"qwen2, 7/1 heads of 128", Family::kQwen2, 7, 1, 128, false, false},
          {"mixtral, 8/2 heads of 64", Family::kMixtral, 8, 2, 64, false, false},
          {"mixtral, 4/4 heads of 128, tied", Family::kMixtral, 4, 4, 128, true, false},
          {"qwen3-moe, dense but for the second layer, 8/8 heads of 64",
           Family::kQwen3Moe,
           8,
           8,
           64,
           true,
           false,
           {0, 2}}};
}

int run(std::uint64_t seed) {
  if (!check_parts_fit()) return 1;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no GPU\n");
    return 77;
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const RealClock clock;
  device::HostMemory memory;
  const auto api = must(device::load_cuda_api(), "the driver");
  const auto machine = must(device::CudaMachine::create(api, {}, clock, memory), "the machine");
  const auto device = must(machine->open({.name = "test", .arena_bytes = gib(4)}), "the slice");
  const auto current = must(device::CudaCurrent::enter(*device), "the context");
  bool good = true;
  for (const Case& c : cases_in_hbm()) good = check(c, *device, seed++) && good;
  for (const Case& c : cases_of_windows()) good = check(c, *device, seed++) && good;
  for (const Case& c : cases_of_gemma()) good = check(c, *device, seed++) && good;
  for (const Case& c : cases_at_home()) good = check(c, *device, seed++) && good;
  std::printf(good ? "PASSED\n" : "FAILED\n");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace causeway::model

int main(int argc, char** argv) { return causeway::model::run(causeway::seed_of(argc, argv)); }
