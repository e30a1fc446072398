#include "bench/engine_bench.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/random.h"
#include "bench/limit_probe.h"
#include "bench/model_on_gpu.h"
#include "bench/step_recorder.h"
#include "model/step_work.h"
#include "slice/model_home.h"

namespace causeway::bench {
namespace {

// The GPU is this bench's alone; what is left are the limits' buffers.
constexpr double kMemoryUtilization = 0.97;

class EngineBench {
 public:
  EngineBench(const EngineBenchSettings& settings, const Clock& clock, Bytes home)
      : settings_(settings), clock_(clock), home_(clock, home), local_(home_, clock) {}

  Result<EngineReport> run();

 private:
  Status time_decode_alone();
  Status open();
  Result<RunReport> run_trace();
  Result<DecodeReport> decode(std::int64_t batch);
  struct Served {
    Nanos took;
    std::int64_t output_tokens = 0;
    Samples gaps;  // ms
  };
  Result<Served> serve(const std::vector<LoadRequest>& requests);
  std::vector<LoadRequest> decode_requests(std::int64_t batch) const;
  std::int64_t frames_wanted() const;
  std::int64_t longest() const;
  void say(const std::string& what) const {
    if (settings_.progress) settings_.progress(what);
  }

  const EngineBenchSettings& settings_;
  const Clock& clock_;
  model::ModelCard card_;
  DeviceLimits limits_;
  std::vector<Nanos> decode_alone_;   // beside settings_.decode_batches
  StepRecorder* recorder_ = nullptr;  // the slice's
  slice::ModelHome home_;
  LocalSlice local_;
  std::unique_ptr<LimitProbe> probe_;  // last: its memory is the slice's device's
};

std::int64_t tokens_of(const LoadRequest& request) {
  return std::ssize(request.prompt) + request.output_tokens;
}

// For all requests of a run together: none is preempted.
std::int64_t EngineBench::frames_wanted() const {
  const auto of = [&](const std::vector<LoadRequest>& requests) {
    std::int64_t frames = 0;
    for (const LoadRequest& request : requests) {
      frames += tokens_of(request) / card_.kv.tokens.count + 1;
    }
    return frames;
  };
  std::int64_t most = of(settings_.requests);
  for (const std::int64_t batch : settings_.decode_batches) {
    most = std::max(most, of(decode_requests(batch)));
  }
  return most + most / 50 + 1;  // admission keeps a hundredth in reserve
}

std::int64_t EngineBench::longest() const {
  std::int64_t most = settings_.decode_context + settings_.decode_tokens;
  for (const LoadRequest& request : settings_.requests) most = std::max(most, tokens_of(request));
  return most;
}

std::vector<LoadRequest> EngineBench::decode_requests(std::int64_t batch) const {
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

// The forward pass by itself, in the same process and before the slice takes the memory. On the CPU
// there is none: its time is what the executor measures.
Status EngineBench::time_decode_alone() {
  decode_alone_.resize(settings_.decode_batches.size());
  if (settings_.decode_batches.empty() || !settings_.slice.on_gpu()) return {};
  say("decode steps alone");
  const std::int64_t context = settings_.decode_context + settings_.decode_tokens / 2;
  CAUSEWAY_ASSIGN(const auto rows,
                  app::bench_model_on_gpu({.config = settings_.config,
                                           .gpu = settings_.slice.gpu,
                                           .decode_context = context,
                                           .decode_batches = settings_.decode_batches,
                                           .prefill_tokens = 128,
                                           .graphs = settings_.slice.graphs},
                                          clock_, {}));
  for (std::size_t i = 0; i < settings_.decode_batches.size(); ++i) {
    const std::int64_t batch = settings_.decode_batches[i];
    const Bytes read =
        model::decode_weight_bytes(settings_.config, card_.storage, batch) +
        card_.kv.token_stride * (2 * settings_.config.layers * (context + 1) * batch);
    decode_alone_[i] =
        nanos_from_seconds(static_cast<double>(read.count) / (rows[i].measured * 1e9));
  }
  return {};
}

Status EngineBench::open() {
  say("weights and KV");
  SliceSettings settings = settings_.slice;
  settings.memory_utilization = kMemoryUtilization;
  if (settings.kv == Bytes(0)) settings.kv = settings.kv_frame * frames_wanted();
  if (settings.on_gpu()) settings.weights = round_up(card_.layout.bytes, settings.extent());
  // Without the prefix cache: every run computes every prompt.
  settings.engine.core.prefix_caching = false;
  settings.engine.requests_max = std::max<std::int64_t>(4096, std::ssize(settings_.requests));
  settings.executor_front = [this](engine::StepExecutor& executor) {
    auto recorder = std::make_unique<StepRecorder>(executor, card_, clock_);
    recorder_ = recorder.get();
    return recorder;
  };
  CAUSEWAY_TRY(local_.open(settings, {{kModel, settings_.config, Tokens(longest())}}));
  CAUSEWAY_TRY(status_of(local_.add(kModel)));
  // One request, so that the weights come.
  CAUSEWAY_ASSIGN(const RequestId first, local_.submit(kModel, 1, 8));
  CAUSEWAY_TRY(status_of(local_.sink().wait_for_end(first, kPatience)));
  if (!settings.on_gpu()) {
    probe_ = probe_cpu(clock_);
    return {};
  }
  CAUSEWAY_ASSIGN(probe_, probe_gpu(local_.slice().device()));
  return {};
}

// How long the requests took, all submitted at once.
Result<EngineBench::Served> EngineBench::serve(const std::vector<LoadRequest>& requests) {
  recorder_->take();
  std::vector<RequestId> asked;
  auto prompts = requests;  // copied before the time begins
  const Nanos begin = clock_.now();
  for (LoadRequest& one : prompts) {
    CAUSEWAY_ASSIGN(const RequestId id,
                    local_.submit(kModel, std::move(one.prompt), one.output_tokens));
    asked.push_back(id);
  }
  Served served;
  for (const RequestId id : asked) {
    CAUSEWAY_TRY(status_of(local_.sink().wait_for_end(id, kPatience)));
  }
  served.took = clock_.now() - begin;
  for (const RequestId id : asked) {
    const TokenTimes times = local_.sink().of(id);
    served.output_tokens += std::ssize(times.at);
    times.add_gaps(begin, begin + served.took, served.gaps);
  }
  return served;
}

Result<RunReport> EngineBench::run_trace() {
  CAUSEWAY_ASSIGN(const DeviceLimits before, probe_->measure());
  CAUSEWAY_ASSIGN(Served served, serve(settings_.requests));
  const std::vector<StepRecord> steps = recorder_->take();
  CAUSEWAY_ASSIGN(const DeviceLimits after, probe_->measure());
  RunReport report = report_run(steps, mean_of(before, after), served.took);
  report.requests = std::ssize(settings_.requests);
  report.output_tokens = served.output_tokens;
  report.gaps = std::move(served.gaps);
  for (const LoadRequest& request : settings_.requests) {
    report.prompt_tokens += std::ssize(request.prompt);
  }
  return report;
}

Result<DecodeReport> EngineBench::decode(std::int64_t batch) {
  const auto requests = decode_requests(batch);
  CAUSEWAY_TRY(status_of(serve(requests)));  // warms up, and captures
  CAUSEWAY_TRY(status_of(serve(requests)));
  return report_decode(recorder_->take(), batch, limits_);
}

Result<EngineReport> EngineBench::run() {
  CAUSEWAY_ASSIGN(card_, settings_.slice.card(settings_.config));
  CAUSEWAY_TRY(time_decode_alone());
  CAUSEWAY_TRY(open());
  CAUSEWAY_ASSIGN(limits_, probe_->measure());
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

Result<EngineReport> bench_engine(const EngineBenchSettings& settings, const Clock& clock) {
  if (settings.requests.empty() && settings.decode_batches.empty()) {
    return invalid_argument("nothing to measure: give a trace, batch sizes, or both");
  }
  for (const std::int64_t batch : settings.decode_batches) {
    if (batch > settings.slice.engine.core.schedule.running_max) {
      return invalid_argument("a batch of " + std::to_string(batch) +
                              " sequences does not run at once: raise --max-num-seqs");
    }
  }
  CAUSEWAY_ASSIGN(const Bytes home, settings.slice.home());
  return EngineBench(settings, clock, home).run();
}

}  // namespace causeway::bench
