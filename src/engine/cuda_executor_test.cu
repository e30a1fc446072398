// CudaExecutor and CudaSampler on small models of random weights, driven by EngineCore:
//   - against HostExecutor on the same weights and requests (greedy, seeds, penalties,
//     edits of logits, log-probabilities), in chunks, with arrivals and preemption;
//   - one and two steps in flight: the same to the bit where batches are the same, also where masks
//     follow a step that awaits them;
//   - steps and models that are refused, models that leave;
//   - kernels that are loaded ahead: what that takes, what is left to the first request, and that
//     answers are the same;
//   - how far a greedy answer depends on the company it is computed in.
//   cuda_executor_gpu_test [--seed S]        exit code 77: no GPU
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "engine/cuda_executor.h"
#include "engine/host_executor.h"
#include "engine/testing/tiny_slice.h"
#include "request/constraint.h"

namespace causeway::engine {
namespace {

constexpr Bytes kFrame = kib(24);  // 16 tokens of the small model
constexpr std::int64_t kFrames = 2048;
// bf16 keeps 8 bits, and the two sides round at different places.
constexpr double kCosineMin = 0.999;  // of embeddings, in bf16 either way
constexpr double kLogprobTolerance = 0.02;
// In models whose norms multiply by 1 + weight, so by about 1 instead of 0.09, logits and their
// rounding errors are ten times as large.
constexpr double kLogprobToleranceGemma = 10 * kLogprobTolerance;
// The share of the compared tokens at which an answer differs from the other: the two best of a
// random model are within the rounding error at one token in a hundred, and a draw differs where
// rounding moved a boundary. A wrong computation differs at the first token.
constexpr double kPartedMax = 0.05;

class Report {
 public:
  void check(bool right, const std::string& what) {
    ++checks_;
    if (right) return;
    ++wrong_;
    std::printf("WRONG: %s\n", what.c_str());
  }
  int finish() const {
    std::printf("%s: %d checks, %d wrong\n", wrong_ == 0 ? "PASSED" : "FAILED", checks_, wrong_);
    return wrong_ == 0 && checks_ > 0 ? 0 : 1;
  }

 private:
  int checks_ = 0, wrong_ = 0;
};

// The same weights on both sides; executors of both.
class Slices {
 public:
  Slices(const model::ModelConfig& config, device::Device& device, std::uint64_t seed,
         const model::CudaStepLimits& limits)
      : config_(config),
        placed_(must(weights::lay_out(model::plan_weights(config, DType::kBF16)), "the layout")),
        device_(device) {
    layout_ = must(kv::plan_block(model::kv_shape(config, DType::kBF16), kFrame), "the block");
    host_weights_ = tiny_weights(placed_, seed);
    open_host();
    open_gpu(limits);
  }

  HostExecutor& host() { return *host_; }
  CudaExecutor& gpu() { return *gpu_; }
  Tokens tokens_per_block() const { return layout_.tokens; }

  CudaModel model_on_gpu() {
    const auto current = must(device::CudaCurrent::enter(device_), "the context");
    return {.forward = must(model::CudaForward::create(
                                config_, {.cached = {&placed_, weights_.data()}}, *workspace_, {}),
                            "the forward pass"),
            .layout = layout_};
  }

 private:
  static std::int64_t extents(const device::Arena& arena, Bytes bytes) {
    return (bytes + arena.extent_bytes() - Bytes(1)) / arena.extent_bytes();
  }

  void open_host() {
    const Bytes bytes = kFrame * kFrames;
    const RegionId region = must(memory_.allocate({.name = "kv frames", .bytes = bytes}), "KV");
    host_ = must(HostExecutor::start(
                     {memory_.resolve({region, Bytes(0)}, bytes).data(), kFrame, kFrames}, clock_),
                 "the CPU's executor");
    const weights::PlacedWeights weights{&placed_, host_weights_.data()};
    must(host_->add_model(kTinyModel,
                          {.forward = std::make_unique<model::HostForward>(config_, weights),
                           .layout = layout_,
                           .kv_dtype = DType::kBF16}),
         "the CPU's model");
  }

  void open_gpu(const model::CudaStepLimits& limits) {
    const auto current = must(device::CudaCurrent::enter(device_), "the context");
    device::Arena& arena = device_.arena();
    weights_ = must(
        arena.allocate(extents(arena, Bytes(std::ssize(host_weights_))), device::Arena::End::kHigh),
        "memory for weights");
    kv_ = must(arena.allocate(extents(arena, kFrame * kFrames), device::Arena::End::kLow),
               "memory for KV");
    if (cudaMemcpy(weights_.data(), host_weights_.data(), host_weights_.size(),
                   cudaMemcpyHostToDevice) != cudaSuccess ||
        cudaMemset(kv_.data(), 0xFF, to_size(kFrame * kFrames)) != cudaSuccess ||
        cudaStreamSynchronize(nullptr) != cudaSuccess) {
      must(Status(unavailable("copying")), "weights and KV");
    }
    setup_ = must(device_.make_stream("setup"), "a stream");
    workspace_ = must(
        model::CudaWorkspace::create(device_, config_, limits, device_.capabilities().processors,
                                     device::cuda_stream_of(*setup_)),
        "the workspace");
    must(setup_->synchronize(seconds(10)), "the workspace");
    gpu_ = must(CudaExecutor::start(device_, *workspace_, {kv_.data(), kFrame, kFrames}),
                "the GPU's executor");
    must(gpu_->add_model(kTinyModel, model_on_gpu()), "the GPU's model");
  }

  const model::ModelConfig config_;
  const weights::WeightLayout placed_;
  device::Device& device_;
  RealClock clock_;
  device::HostMemory memory_;
  kv::BlockLayout layout_;
  std::vector<std::byte> host_weights_;
  std::unique_ptr<HostExecutor> host_;
  device::Extents weights_;
  device::Extents kv_;
  std::unique_ptr<device::Stream> setup_;
  std::unique_ptr<model::CudaWorkspace> workspace_;
  std::unique_ptr<CudaExecutor> gpu_;
};

TinyRun make_run(const Slices& slices, std::int64_t frames) {
  TinyRun run;
  run.options.frames = frames;
  run.tokens_per_block = slices.tokens_per_block();
  run.options.schedule.tokens_per_step_max = 256;
  run.options.schedule.running_max = 128;
  return run;
}

// The first token at which two answers differ; -1: there is none.
std::int64_t first_difference(const Answer& a, const Answer& b) {
  const std::size_t both = std::min(a.tokens.size(), b.tokens.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (a.tokens[i].token != b.tokens[i].token) return static_cast<std::int64_t>(i);
  }
  return a.tokens.size() == b.tokens.size() ? -1 : static_cast<std::int64_t>(both);
}

// The values by which a greedy request without penalties chooses: log-probabilities are those of
// raw logits, so its biases must be added.
double score(const request::Request& request, const request::OutputToken& chosen) {
  double bias = 0;
  for (const auto& one : request.logit_bias) {
    if (one.token == chosen.token) bias += one.bias;
  }
  return chosen.logprob + bias;
}

// How far apart the best tokens of two runs are where they choose differently; nearly tied ones are
// close.
double gap(const request::Request& request, const request::OutputToken& a,
           const request::OutputToken& b) {
  return std::fabs(score(request, a) - score(request, b));
}

// 1 for embeddings that point the same way, and when neither has one.
double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return -1;
  double product = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * b[i];
    of_a += double{a[i]} * a[i];
    of_b += double{b[i]} * b[i];
  }
  return a.empty() ? 1 : product / std::sqrt(of_a * of_b);
}

// What is returned for prompts: log-probabilities and embeddings. Returns the distance of the
// former.
double check_prompts(const request::Request& request, const Answer& w, const Answer& g,
                     const std::string& who, Report& report) {
  double worst = 0;
  report.check(w.prompt.size() == g.prompt.size(), who + ": another number of prompt logprobs");
  for (std::size_t i = 0; i < std::min(w.prompt.size(), g.prompt.size()); ++i) {
    report.check(
        w.prompt[i].token == g.prompt[i].token && w.prompt[i].top.size() == g.prompt[i].top.size(),
        who + ": logprobs of another prompt");
    worst = std::max(worst, std::fabs(double{w.prompt[i].logprob} - g.prompt[i].logprob));
  }
  report.check(cosine(w.embedding, g.embedding) > kCosineMin, who + ": another embedding");
  report.check(w.embedding.empty() == (request.pooling == request::Pooling::kNone),
               who + ": an embedding that is not due, or none");
  return worst;
}

struct Compared {
  std::string name;
  double tolerance = kLogprobTolerance;  // of log-probabilities
};

// The answers agree as far as rounding allows: log-probabilities are close while tokens are equal,
// a greedy answer differs from the other only where the two best are nearly tied, and few answers
// do.
void check_near(const std::vector<request::Request>& requests, const TinyReport& want,
                const TinyReport& got, const Compared& compared, Report& report) {
  const std::string& name = compared.name;
  report.check(want.broken.empty() && got.broken.empty(), name + ": " + want.broken + got.broken);
  std::int64_t diverged = 0, drawn = 0, tokens = 0;
  double worst = 0;
  for (const request::Request& request : requests) {
    const std::string who = name + ", request " + std::to_string(request.id.value);
    const Answer& w = want.answers.at(request.id.value);
    const Answer& g = got.answers.at(request.id.value);
    report.check(w.error.empty() && g.error.empty(), who + ": " + w.error + g.error);
    worst = std::max(worst, check_prompts(request, w, g, who, report));
    const std::int64_t parts = first_difference(w, g);
    const std::size_t equal = parts < 0 ? w.tokens.size() : static_cast<std::size_t>(parts);
    tokens += static_cast<std::int64_t>(equal);
    for (std::size_t i = 0; i < equal && request.sampling.top_logprobs >= 0; ++i) {
      worst = std::max(worst, std::fabs(double{w.tokens[i].logprob} - g.tokens[i].logprob));
    }
    if (parts < 0) {
      report.check(w.reason == g.reason, who + " ended for another reason");
      continue;
    }
    ++diverged;
    drawn += request.sampling.greedy() ? 0 : 1;
    const bool plain = request.sampling.greedy() && !request.sampling.penalised();
    if (!plain || request.sampling.top_logprobs < 0 || equal >= w.tokens.size() ||
        equal >= g.tokens.size()) {
      continue;
    }
    const double apart = gap(request, w.tokens[equal], g.tokens[equal]);
    report.check(apart <= compared.tolerance,
                 who + " left the other's answer by " + std::to_string(apart));
  }
  report.check(worst <= compared.tolerance, name + ": log-probabilities " + std::to_string(worst));
  report.check(
      static_cast<double>(diverged) <= kPartedMax * static_cast<double>(tokens + diverged),
      name + ": " + std::to_string(diverged) + " answers part in " + std::to_string(tokens));
  std::printf(
      "%s: %lld tokens equal, %lld of %zu answers part (%lld of them sampled), log-probabilities "
      "within %.4f; %lld and %lld preemptions\n",
      name.c_str(), static_cast<long long>(tokens), static_cast<long long>(diverged),
      requests.size(), static_cast<long long>(drawn), worst,
      static_cast<long long>(want.preemptions), static_cast<long long>(got.preemptions));
}

bool equal_to_the_bit(const Answers& a, const Answers& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [id, answer] : a) {
    const Answer& other = b.at(id);
    if (answer.reason != other.reason || answer.ids() != other.ids()) return false;
    for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
      const auto& x = answer.tokens[i];
      const auto& y = other.tokens[i];
      if (x.logprob != y.logprob || x.top.size() != y.top.size()) return false;
      for (std::size_t t = 0; t < x.top.size(); ++t) {
        if (x.top[t].token != y.top[t].token || x.top[t].logprob != y.top[t].logprob) return false;
      }
    }
  }
  return true;
}

void check_against_host(const char* name, model::Family family, device::Device& device,
                        std::uint64_t seed, Report& report) {
  Slices slices(tiny_config(family), device, seed, {.rows = 256, .slots = 128, .frames = 4096});
  Random random(seed);
  const auto compared = [&](const char* how) {
    const bool gemma = model::traits_of(family).gemma_norms;
    return Compared{name + std::string(how), gemma ? kLogprobToleranceGemma : kLogprobTolerance};
  };
  const auto requests = random_requests(
      {.count = 40, .stops = false, .edited = true, .narrow = true, .top_logprobs = 3}, random);
  TinyRun run = make_run(slices, kFrames);
  const TinyReport host = run_requests(run, slices.host(), requests);
  check_near(requests, host, run_requests(run, slices.gpu(), requests), compared(", CPU and GPU"),
             report);
  run.arrive_each_step = 4;
  run.options.frames = 12;
  run.options.schedule.tokens_per_step_max = 40;
  const auto hard = random_requests(
      {.count = 40, .output_max = 40, .edited = true, .narrow = true, .top_logprobs = 3}, random);
  const TinyReport want = run_requests(run, slices.host(), hard);
  const TinyReport two = run_requests(run, slices.gpu(), hard);
  check_near(hard, want, two, compared(", with little memory"), report);
  run.options.steps_in_flight_max = 1;
  const TinyReport one = run_requests(run, slices.gpu(), hard);
  check_near(hard, want, one, compared(", and one step in flight"), report);
  const auto told = random_requests({.count = 40,
                                     .stops = false,
                                     .narrow = true,
                                     .top_logprobs = 3,
                                     .scored = true,
                                     .embedded = true},
                                    random);
  run = make_run(slices, kFrames);
  check_near(told, run_requests(run, slices.host(), told), run_requests(run, slices.gpu(), told),
             compared(", what is told of prompts"), report);
  report.check(one.preemptions + two.preemptions > 0, std::string(name) + ": nobody was preempted");
}

// Two of three tokens may follow; the last token and the number of tokens before decide which.
class ThirdsMatcher final : public request::TokenMatcher {
 public:
  explicit ThirdsMatcher(std::int64_t vocab) : vocab_(vocab) { fill(0); }
  request::MaskState wait(Nanos) override { return request::MaskState::kReady; }
  std::span<const std::uint32_t> mask() const override { return mask_; }
  void advance(TokenId token) override { fill(++count_ + token); }

 private:
  void fill(std::int64_t turn) {
    mask_.assign(static_cast<std::size_t>(vocab_ + 31) / 32, 0);
    for (std::int64_t t = 0; t < vocab_; ++t) {
      if ((t + turn) % 3 != 0) mask_[static_cast<std::size_t>(t / 32)] |= 1u << (t % 32);
    }
  }

  const std::int64_t vocab_;
  std::int64_t count_ = 0;
  std::vector<std::uint32_t> mask_;
};

class Thirds final : public request::Constraint {
 public:
  explicit Thirds(std::int64_t vocab) : vocab_(vocab) {}
  const request::ConstraintText& text() const override { return text_; }
  std::unique_ptr<request::TokenMatcher> begin(std::vector<TokenId> output) const override {
    auto matcher = std::make_unique<ThirdsMatcher>(vocab_);
    for (const TokenId token : output) matcher->advance(token);
    return matcher;
  }

 private:
  const std::int64_t vocab_;
  const request::ConstraintText text_;
};

bool keeps_form(const Answer& answer) {
  std::int64_t turn = 0, count = 0;
  for (const TokenId token : answer.ids()) {
    if ((token + turn) % 3 == 0) return false;
    turn = ++count + token;
  }
  return true;
}

// Every second request has a form. With two steps in flight its masks come after the step is
// submitted, with one they are there before.
void check_late_masks(device::Device& device, std::uint64_t seed, Report& report) {
  Slices slices(tiny_config(model::Family::kLlama), device, seed,
                {.rows = 256, .slots = 128, .frames = 4096});
  Random random(seed);
  for (const std::int64_t count : {1, 2, 33, 100}) {
    auto requests =
        random_requests({.count = count, .output_max = 40, .stops = false, .top_logprobs = 2},
                        random);
    TinyRun run = make_run(slices, kFrames);
    const auto form = std::make_shared<Thirds>(run.vocab);
    for (std::size_t i = 0; i < requests.size(); i += 2) requests[i].constraint = form;
    const TinyReport two = run_requests(run, slices.gpu(), requests);
    run.options.steps_in_flight_max = 1;
    const TinyReport one = run_requests(run, slices.gpu(), requests);
    const std::string name = std::to_string(count) + " requests, every second with a form";
    report.check(one.broken.empty() && two.broken.empty(), name + ": " + one.broken + two.broken);
    report.check(equal_to_the_bit(one.answers, two.answers),
                 name + ": late masks make a difference");
    report.check(one.steps == two.steps, name + ": another number of steps");
    for (std::size_t i = 0; i < requests.size(); i += 2) {
      report.check(keeps_form(two.answers.at(requests[i].id.value)), name + ": a form is broken");
    }
  }
}

// All come at once and end by length: every step's batch is the same.
void check_in_flight(device::Device& device, std::uint64_t seed, Report& report) {
  Slices slices(tiny_config(model::Family::kLlama), device, seed,
                {.rows = 256, .slots = 128, .frames = 4096});
  Random random(seed);
  for (const std::int64_t count : {1, 5, 33, 100}) {
    const auto requests =
        random_requests({.count = count, .output_max = 40, .stops = false, .edited = true}, random);
    TinyRun run = make_run(slices, kFrames);
    const TinyReport two = run_requests(run, slices.gpu(), requests);
    const TinyReport again = run_requests(run, slices.gpu(), requests);
    run.options.steps_in_flight_max = 1;
    const TinyReport one = run_requests(run, slices.gpu(), requests);
    const std::string name = std::to_string(count) + " requests";
    report.check(one.broken.empty() && two.broken.empty(), name + ": " + one.broken + two.broken);
    report.check(equal_to_the_bit(one.answers, two.answers),
                 name + ": one and two steps in flight differ");
    report.check(equal_to_the_bit(two.answers, again.answers), name + ": it does not repeat");
    report.check(one.steps == two.steps, name + ": another number of steps");
  }
}

// Runs first, so that no kernel is loaded yet.
void check_warm_up(device::Device& device, std::uint64_t seed, Report& report) {
  const RealClock clock;
  const model::CudaStepLimits limits{.rows = 256, .slots = 32, .frames = 1024};
  Slices warm(tiny_config(model::Family::kLlama), device, seed, limits);
  int asked = 0, stops = 0;
  const Nanos start = clock.now();
  while (!warm.gpu().warm_up(kTinyModel, [&] { return ++asked % 7 == 0; })) ++stops;
  const Nanos loaded = clock.now();
  report.check(stops > 10, "a warm-up stops when it is told to");
  Random random(seed);
  const auto requests = random_requests({.count = 1, .stops = false}, random);
  const TinyReport first = run_requests(make_run(warm, kFrames), warm.gpu(), requests);
  const Nanos answered = clock.now();
  const TinyReport second = run_requests(make_run(warm, kFrames), warm.gpu(), requests);
  std::printf(
      "kernels loaded ahead in %.1f ms, %d instructions; a first request then %.1f ms, "
      "a second %.1f\n",
      to_millis(loaded - start), asked - stops, to_millis(answered - loaded),
      to_millis(clock.now() - answered));
  Slices cold(tiny_config(model::Family::kLlama), device, seed, limits);
  const TinyReport other = run_requests(make_run(cold, kFrames), cold.gpu(), requests);
  report.check(first.broken.empty() && equal_to_the_bit(first.answers, other.answers) &&
                   equal_to_the_bit(first.answers, second.answers),
               "answers differ after a warm-up");
}

request::Batch one_token_batch(std::int64_t step, ModelId model) {
  request::Batch batch;
  batch.step = StepId(step);
  batch.model = model;
  batch.tokens = {5};
  batch.frames = {FrameId(0)};
  batch.entries = {{.request = RequestId(1), .token_count = 1, .frame_count = 1, .samples = true}};
  return batch;
}

void check_refusals(device::Device& device, std::uint64_t seed, Report& report) {
  Slices slices(tiny_config(model::Family::kQwen3), device, seed,
                {.rows = 64, .slots = 4, .frames = 64});
  CudaExecutor& gpu = slices.gpu();
  const auto code = [](const Status& status) {
    return status.ok() ? ErrorCode::kIo : status.error().code;
  };
  report.check(code(gpu.submit(one_token_batch(1, ModelId(9)), {})) == ErrorCode::kNotFound,
               "a model that is not there");
  must(gpu.submit(one_token_batch(2, kTinyModel), {}), "the first step");
  must(gpu.submit(one_token_batch(3, kTinyModel), {}), "the second");
  report.check(code(gpu.submit(one_token_batch(4, kTinyModel), {})) == ErrorCode::kUnavailable,
               "a third step in flight");
  report.check(code(gpu.remove_model(kTinyModel)) == ErrorCode::kUnavailable,
               "removing a model that runs");
  for (const std::int64_t step : {2, 3}) {
    const auto result = gpu.wait(seconds(10));
    report.check(result && result->step == StepId(step) && result->error.empty() &&
                     result->sampled.size() == 1 && result->duration > Nanos(0),
                 "the results come in order");
  }
  // More sequences than the workspace has slots for: the requests fail, the engine lives on.
  Random random(seed);
  const auto requests = random_requests({.count = 9, .prompt_max = 4, .stops = false}, random);
  TinyRun run = make_run(slices, kFrames);
  const TinyReport refused = run_requests(run, gpu, requests);
  const auto failed =
      std::count_if(refused.answers.begin(), refused.answers.end(), [](const auto& answer) {
        return answer.second.error.find("exceeds what the workspace") != std::string::npos;
      });
  report.check(refused.broken.empty() && failed > 4,
               "a step beyond the workspace: " + refused.broken);
  run.options.schedule.running_max = 4;
  const TinyReport fits = run_requests(run, gpu, requests);
  for (const auto& [id, answer] : fits.answers) report.check(answer.error.empty(), answer.error);
  must(gpu.remove_model(kTinyModel), "removing the model");
  report.check(code(gpu.submit(one_token_batch(5, kTinyModel), {})) == ErrorCode::kNotFound,
               "a model that has left");
  must(gpu.add_model(kTinyModel, slices.model_on_gpu()), "adding it again");
  report.check(equal_to_the_bit(run_requests(run, gpu, requests).answers, fits.answers),
               "a model that left and came back answers as before");
}

// The same prompt alone and in batches. Products of other shapes sum in another order, so bf16
// rounds differently in places; an answer changes where the two best tokens are nearly tied.
void measure_company(device::Device& device, std::uint64_t seed, Report& report) {
  constexpr std::int64_t kWatched = 8, kTokens = 64;
  Slices slices(tiny_config(model::Family::kLlama), device, seed,
                {.rows = 256, .slots = 128, .frames = 4096});
  Random random(seed);
  const RandomRequests wanted{.count = 128 + kWatched,
                              .output_max = 1,
                              .sampled = false,
                              .stops = false,
                              .penalised = false,
                              .top_logprobs = 5};
  auto all = random_requests(wanted, random);
  for (request::Request& request : all) request.max_tokens = Tokens(kTokens);
  const TinyRun run = make_run(slices, kFrames);
  std::printf("a greedy answer of %lld tokens in company: of %lld prompts\n",
              static_cast<long long>(kTokens), static_cast<long long>(kWatched));
  for (const std::int64_t batch : {2, 3, 4, 8, 16, 32, 64, 128}) {
    std::int64_t same = 0, first = kTokens;
    double widest = 0;
    for (std::int64_t i = 0; i < kWatched; ++i) {
      const request::Request& watched = all[static_cast<std::size_t>(i)];
      std::vector<request::Request> company = {watched};
      for (std::int64_t j = 1; j < batch; ++j) {
        company.push_back(all[static_cast<std::size_t>(kWatched + j)]);
      }
      const Answer alone = run_requests(run, slices.gpu(), {watched}).answers.at(watched.id.value);
      const Answer among = run_requests(run, slices.gpu(), company).answers.at(watched.id.value);
      const std::int64_t parts = first_difference(alone, among);
      if (parts < 0) {
        ++same;
        continue;
      }
      first = std::min(first, parts);
      const auto at = static_cast<std::size_t>(parts);
      widest = std::max(widest, gap(watched, alone.tokens[at], among.tokens[at]));
    }
    std::printf(
        "  batch %3lld: %lld the same; others part at token %lld or later, where the two "
        "best are within %.4f\n",
        static_cast<long long>(batch), static_cast<long long>(same), static_cast<long long>(first),
        widest);
    report.check(widest <= kLogprobTolerance,
                 "batch " + std::to_string(batch) + ": parts where nothing was tied");
  }
}

int run(std::uint64_t seed) {
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
  const auto device = must(machine->open({.name = "test", .arena_bytes = gib(8)}), "the slice");
  Report report;
  check_warm_up(*device, seed, report);
  check_against_host("llama", model::Family::kLlama, *device, seed, report);
  check_against_host("qwen3", model::Family::kQwen3, *device, seed + 1, report);
  check_against_host("qwen3-moe", model::Family::kQwen3Moe, *device, seed + 2, report);
  check_against_host("mistral", model::Family::kMistral, *device, seed + 2, report);
  check_against_host("phi3", model::Family::kPhi3, *device, seed + 5, report);
  check_against_host("qwen2", model::Family::kQwen2, *device, seed + 4, report);
  check_against_host("mixtral", model::Family::kMixtral, *device, seed + 3, report);
  check_against_host("qwen", model::Family::kQwen, *device, seed + 6, report);
  check_against_host("gemma2", model::Family::kGemma2, *device, seed + 7, report);
  check_against_host("gemma3", model::Family::kGemma3Text, *device, seed + 8, report);
  check_in_flight(*device, seed + 3, report);
  check_late_masks(*device, seed + 3, report);
  check_refusals(*device, seed + 4, report);
  measure_company(*device, seed + 5, report);
  return report.finish();
}

}  // namespace
}  // namespace causeway::engine

int main(int argc, char** argv) { return causeway::engine::run(causeway::seed_of(argc, argv)); }
