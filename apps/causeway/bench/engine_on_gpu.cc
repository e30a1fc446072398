#include "bench/engine_on_gpu.h"

#ifdef CAUSEWAY_CUDA_BUILT
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/random.h"
#include "bench/step_floor.h"
#include "bench/step_recorder.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "engine/cuda_executor.h"
#include "engine/engine.h"
#include "kernels/bench/cuda_limits.h"
#include "model/cuda_bench.h"
#include "model/step_work.h"
#endif

namespace causeway::bench {

#ifdef CAUSEWAY_CUDA_BUILT

namespace {

constexpr Bytes kFrame = mib(4);
constexpr ModelId kModel(1);
constexpr int kReadTimes = 3;
constexpr int kLimitRuns = 3;              // the median counts
constexpr Nanos kPatience = seconds(300);  // for a run

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Counts what comes until all have ended.
class CountingSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output> outputs) override {
    const std::lock_guard lock(mutex_);
    for (const request::Output& output : outputs) {
      tokens_ += std::ssize(output.tokens);
      if (!output.finished) continue;
      ++ends_;
      if (error_.empty()) error_ = output.error;
    }
    changed_.notify_all();
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    ends_ = tokens_ = 0;
    error_.clear();
  }
  // The tokens that came.
  Result<std::int64_t> wait_for_ends(std::int64_t count) {
    std::unique_lock lock(mutex_);
    const bool all = changed_.wait_for(lock, std::chrono::nanoseconds(kPatience.count),
                                       [&] { return ends_ >= count; });
    if (!error_.empty()) return Error{ErrorCode::kDevice, error_};
    if (!all) {
      return Error{ErrorCode::kDeadlineExceeded, "only " + std::to_string(ends_) + " of " +
                                                     std::to_string(count) + " requests ended"};
    }
    return tokens_;
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::int64_t ends_ = 0;
  std::int64_t tokens_ = 0;
  std::string error_;
};

class Bench {
 public:
  Bench(const EngineBenchSettings& settings, const Clock& clock)
      : settings_(settings), clock_(clock) {}

  Result<EngineReport> run();

 private:
  Status open();
  Status fill(kernels::CudaStream stream);
  Status start();
  Result<GpuLimits> measure_limits();
  Status time_decode_alone();
  Result<RunReport> run_trace();
  Result<DecodeReport> decode(std::int64_t batch);
  Result<Nanos> serve(const std::vector<LoadRequest>& requests, std::int64_t* output_tokens);
  std::vector<LoadRequest> decode_requests(std::int64_t batch) const;
  std::int64_t frames_wanted() const;
  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

  const EngineBenchSettings& settings_;
  const Clock& clock_;
  GpuLimits limits_;
  std::vector<Nanos> decode_alone_;  // beside settings_.decode_batches
  kv::BlockLayout layout_;
  weights::WeightLayout placed_;
  std::int64_t frames_ = 0;
  std::int64_t next_request_ = 0;

  device::HostMemory memory_;
  std::unique_ptr<device::CudaMachine> machine_;
  std::unique_ptr<device::Device> slice_;
  device::Extents weights_memory_;
  device::Extents kv_memory_;
  device::Extents matmul_memory_;
  std::unique_ptr<model::CudaWorkspace> workspace_;
  std::unique_ptr<engine::CudaExecutor> executor_;
  std::unique_ptr<StepRecorder> recorder_;
  CountingSink sink_;
  std::unique_ptr<engine::Engine> engine_;  // last: it ends first
};

Result<device::Extents> take(device::Device& device, Bytes bytes, device::Arena::End end) {
  return device.arena().allocate(device.arena().extents_for(bytes), end);
}

// All requests of a run together: nobody is preempted.
std::int64_t Bench::frames_wanted() const {
  const auto of = [&](const std::vector<LoadRequest>& requests) {
    std::int64_t frames = 0;
    for (const LoadRequest& request : requests) {
      frames += (std::ssize(request.prompt) + request.output_tokens) / layout_.tokens.count + 1;
    }
    return frames;
  };
  std::int64_t most = of(settings_.requests);
  for (const std::int64_t batch : settings_.decode_batches) {
    most = std::max(most, of(decode_requests(batch)));
  }
  return most + most / 50;  // admission keeps a hundredth in reserve
}

std::vector<LoadRequest> Bench::decode_requests(std::int64_t batch) const {
  Random random(11);
  std::vector<LoadRequest> requests(static_cast<std::size_t>(batch));
  for (LoadRequest& request : requests) {
    for (std::int64_t i = 0; i < settings_.decode_context; ++i) {
      request.prompt.push_back(static_cast<TokenId>(random.below(settings_.config.vocab)));
    }
    request.output_tokens = settings_.decode_tokens;
  }
  return requests;
}

Status Bench::open() {
  CAUSEWAY_ASSIGN(const auto api, device::load_cuda_api());
  CAUSEWAY_ASSIGN(machine_, device::CudaMachine::create(api, {}, clock_, memory_));
  CAUSEWAY_ASSIGN(const device::CudaGpu gpu, machine_->describe(settings_.gpu));
  CAUSEWAY_ASSIGN(
      slice_, machine_->open(
                  {.name = "bench", .physical_device = settings_.gpu, .arena_bytes = gpu.memory}));
  return {};
}

Status Bench::fill(kernels::CudaStream stream) {
  CAUSEWAY_TRY(kernels::bench::cuda_fill_random_bf16(weights_memory_.data(),
                                                     weights_memory_.bytes(), 3, 0.03f, stream));
  return kernels::bench::cuda_fill_random_bf16(kv_memory_.data(), kv_memory_.bytes(), 5, 0.5f,
                                               stream);
}

Status Bench::start() {
  const model::ModelConfig& c = settings_.config;
  CAUSEWAY_ASSIGN(placed_, weights::lay_out(model::plan_weights(c, DType::kBF16)));
  CAUSEWAY_ASSIGN(layout_, kv::plan_block(model::kv_shape(c, DType::kBF16), kFrame));
  frames_ = frames_wanted();
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*slice_));
  CAUSEWAY_ASSIGN(weights_memory_, take(*slice_, placed_.bytes, device::Arena::End::kHigh));
  CAUSEWAY_ASSIGN(kv_memory_, take(*slice_, kFrame * frames_, device::Arena::End::kLow));
  CAUSEWAY_ASSIGN(matmul_memory_,
                  take(*slice_, kernels::bench::cuda_matmul_bytes(), device::Arena::End::kHigh));
  CAUSEWAY_ASSIGN(const auto setup, slice_->make_stream("setup"));
  CAUSEWAY_TRY(fill(device::cuda_stream_of(*setup)));
  const model::CudaStepLimits limits{
      .rows = std::max(settings_.tokens_per_step_max, settings_.running_max),
      .places = settings_.running_max,
      .frames = frames_};
  CAUSEWAY_ASSIGN(workspace_, model::CudaWorkspace::create(*slice_, {&c, 1}, limits,
                                                           slice_->capabilities().processors,
                                                           device::cuda_stream_of(*setup)));
  CAUSEWAY_TRY(setup->synchronize(seconds(60)));
  CAUSEWAY_ASSIGN(executor_, engine::CudaExecutor::start(
                                 *slice_, *workspace_,
                                 {.base = kv_memory_.data(), .bytes = kFrame, .count = frames_}));
  CAUSEWAY_ASSIGN(auto forward,
                  model::CudaForward::create(c, {{&placed_, weights_memory_.data()}, {}},
                                             *workspace_, {.graphs = settings_.graphs}));
  CAUSEWAY_TRY(executor_->add_model(kModel, {.forward = std::move(forward), .layout = layout_}));
  recorder_ = std::make_unique<StepRecorder>(*executor_, c, layout_, clock_);
  // Without the prefix cache: every run computes every prompt.
  engine::EngineOptions options;
  options.core.frames = frames_;
  options.core.prefix_caching = false;
  options.core.schedule.tokens_per_step_max = settings_.tokens_per_step_max;
  options.core.schedule.running_max = settings_.running_max;
  options.core.steps_in_flight_max = settings_.steps_in_flight;
  options.requests_max = std::max<std::int64_t>(4096, std::ssize(settings_.requests));
  CAUSEWAY_ASSIGN(engine_, engine::Engine::start(options, clock_, *recorder_, sink_));
  return engine_->add_model(
      kModel,
      {.tokens_per_block = layout_.tokens, .max_model_len = c.max_position, .vocab = c.vocab});
}

Result<GpuLimits> Bench::measure_limits() {
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*slice_));
  CAUSEWAY_ASSIGN(const auto stream, slice_->make_stream("limits"));
  const kernels::CudaStream cuda = device::cuda_stream_of(*stream);
  std::vector<double> read(kLimitRuns), operations(kLimitRuns);
  for (std::size_t i = 0; i < kLimitRuns; ++i) {
    CAUSEWAY_ASSIGN(read[i],
                    kernels::bench::cuda_read_bandwidth(weights_memory_.data(),
                                                        weights_memory_.bytes(), kReadTimes, cuda));
    CAUSEWAY_ASSIGN(operations[i], kernels::bench::cuda_matmul_peak(matmul_memory_.data(), cuda));
  }
  return GpuLimits{median_of(read), median_of(operations)};
}

// The forward pass by itself, in the same process and before the engine takes the memory.
Status Bench::time_decode_alone() {
  if (settings_.decode_batches.empty()) return {};
  say("decode steps alone");
  CAUSEWAY_ASSIGN(const auto layout,
                  kv::plan_block(model::kv_shape(settings_.config, DType::kBF16), kFrame));
  CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*slice_));
  CAUSEWAY_ASSIGN(const auto stream, slice_->make_stream("alone"));
  const std::int64_t context = settings_.decode_context + settings_.decode_tokens / 2;
  CAUSEWAY_ASSIGN(const auto rows,
                  model::run_cuda_benchmarks({.config = settings_.config,
                                              .decode_context = context,
                                              .decode_batches = settings_.decode_batches,
                                              .prefill_tokens = 128,
                                              .graphs = settings_.graphs},
                                             *slice_, device::cuda_stream_of(*stream), {}));
  for (std::size_t i = 0; i < settings_.decode_batches.size(); ++i) {
    const std::int64_t batch = settings_.decode_batches[i];
    const Bytes read = model::decode_weight_bytes(settings_.config, DType::kBF16, batch) +
                       layout.token_stride * (2 * settings_.config.layers * (context + 1) * batch);
    decode_alone_.push_back(
        nanos_from_seconds(static_cast<double>(read.count) / (rows[i].measured * 1e9)));
  }
  return {};
}

// How long the requests took, all submitted at once.
Result<Nanos> Bench::serve(const std::vector<LoadRequest>& requests, std::int64_t* output_tokens) {
  sink_.reset();
  recorder_->take();
  std::vector<request::Request> all;
  for (const LoadRequest& wanted : requests) {
    request::Request& one = all.emplace_back();
    one.id = RequestId(next_request_++);
    one.model = kModel;
    one.prompt = wanted.prompt;
    one.sampling.temperature = 0;
    one.max_tokens = Tokens(wanted.output_tokens);
  }
  const Nanos begin = clock_.now();
  for (request::Request& one : all) {
    one.arrival = begin;
    CAUSEWAY_TRY(engine_->submit(std::move(one)));
  }
  CAUSEWAY_ASSIGN(const std::int64_t tokens, sink_.wait_for_ends(std::ssize(requests)));
  if (output_tokens != nullptr) *output_tokens = tokens;
  return clock_.now() - begin;
}

Result<RunReport> Bench::run_trace() {
  std::int64_t output_tokens = 0;
  CAUSEWAY_ASSIGN(const GpuLimits before, measure_limits());
  CAUSEWAY_ASSIGN(const Nanos total, serve(settings_.requests, &output_tokens));
  const std::vector<StepRecord> steps = recorder_->take();
  CAUSEWAY_ASSIGN(const GpuLimits after, measure_limits());
  RunReport report = report_run(steps, mean_of(before, after), total);
  report.requests = std::ssize(settings_.requests);
  report.output_tokens = output_tokens;
  for (const LoadRequest& request : settings_.requests) {
    report.prompt_tokens += std::ssize(request.prompt);
  }
  return report;
}

Result<DecodeReport> Bench::decode(std::int64_t batch) {
  const auto requests = decode_requests(batch);
  CAUSEWAY_TRY(serve(requests, nullptr));  // warms up, and captures
  CAUSEWAY_TRY(serve(requests, nullptr));
  return report_decode(recorder_->take(), batch, limits_);
}

Result<EngineReport> Bench::run() {
  CAUSEWAY_TRY(open());
  CAUSEWAY_TRY(time_decode_alone());
  say("weights and KV");
  CAUSEWAY_TRY(start());
  CAUSEWAY_ASSIGN(limits_, measure_limits());
  EngineReport report;
  report.limits = limits_;
  for (std::size_t i = 0; i < settings_.decode_batches.size(); ++i) {
    say("decode in the engine, batch " + std::to_string(settings_.decode_batches[i]));
    CAUSEWAY_ASSIGN(DecodeReport one, decode(settings_.decode_batches[i]));
    one.alone = decode_alone_[i];
    report.decodes.push_back(one);
  }
  if (settings_.requests.empty()) return report;
  for (std::int64_t i = 0; i < settings_.runs + 1; ++i) {
    say(i == 0 ? "the trace, to warm up" : "the trace, run " + std::to_string(i));
    CAUSEWAY_ASSIGN(const RunReport one, run_trace());
    if (i > 0) report.runs.push_back(one);
  }
  return report;
}

}  // namespace

Result<EngineReport> bench_engine_on_gpu(const EngineBenchSettings& settings, const Clock& clock) {
  if (settings.requests.empty() && settings.decode_batches.empty()) {
    return invalid_argument("nothing to measure: give a trace, batch sizes, or both");
  }
  for (const std::int64_t batch : settings.decode_batches) {
    if (batch > settings.running_max) {
      return invalid_argument("a batch of " + std::to_string(batch) +
                              " sequences does not run at once: raise --max-num-seqs");
    }
  }
  return Bench(settings, clock).run();
}

#else

Result<EngineReport> bench_engine_on_gpu(const EngineBenchSettings&, const Clock&) {
  return unsupported("this build has no CUDA parts: build where nvcc is");
}

#endif

}  // namespace causeway::bench
