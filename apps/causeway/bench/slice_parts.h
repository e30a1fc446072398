// What benchmarks share that run a slice in this process: opening it from settings, as `serve`
// opens its own, models of random weights in it, and requests of random prompts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/token_times.h"
#include "catalogue/named_config.h"
#include "model/config.h"
#include "model/model_card.h"
#include "slice/machine.h"
#include "slice/model_home.h"
#include "slice/slice.h"

namespace causeway::bench {

// Of benchmarks with one model.
inline constexpr ModelId kModel{0};

inline constexpr Nanos kPatience = seconds(300);  // for whatever a benchmark waits for

template <typename T>
Status status_of(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

struct SliceSettings {
  std::string device = "cuda";  // or "cpu"
  int gpu = 0;
  double memory_utilization = 0.9;  // of the GPU
  slice::LinkOptions links = {};
  double modelled_link = 0;  // bytes per second, on the CPU; 0: as fast as memory
  int modelled_links = 1;    // devices with such a link each, on the CPU
  Bytes pool = {};           // host memory for weights; zero: all there is
  Bytes kv_frame = mib(4);
  Bytes kv = {};       // zero: the slice's choice, on the CPU 512 MiB
  Bytes kv_host = {};  // host memory for KV that rotates; zero: it does not
  Bytes weights = {};  // for cached weights; zero: the slice's choice, on the CPU none
  Bytes ring = {};     // of each streamed model; zero: the slice's choice
  weights::ExpertPolicy experts = weights::ExpertPolicy::kFrequency;  // of each that has some
  bool graphs = true;
  engine::EngineOptions engine = {};
  slice::ExecutorFront executor_front = {};

  bool on_gpu() const { return device != "cpu"; }
  Bytes extent() const;        // of which cached weights take whole ones
  Result<Bytes> home() const;  // the budget of a ModelHome
  // How the slice will keep such a model.
  Result<model::ModelCard> card(const model::ModelConfig& config) const;
};

struct BenchModel {
  ModelId id;  // their places in the list: 0, 1, …
  model::ModelConfig config;
  Tokens max_model_len;
  Bytes max_resident = {};  // of HBM for its weights; zero: as the slice has it
  double alpha = schedule::kAlphaDefault;
  // What is done to its random weights when they are made at home; empty: nothing.
  std::function<void(std::span<std::byte>, const model::ModelCard&)> adjust = {};
};

// Until the clock says so; returns at once when that has been.
void pause_until(Nanos when, const Clock& clock);

// A slice and what asks it. One thread.
class LocalSlice {
 public:
  // Home and clock outlive it.
  LocalSlice(slice::ModelHome& home, const Clock& clock)
      : home_(home), clock_(clock), sink_(clock) {}
  ~LocalSlice();
  LocalSlice(const LocalSlice&) = delete;
  LocalSlice& operator=(const LocalSlice&) = delete;

  // Sized for `models`. Errors as open_cuda_slice() and open_host_slice().
  Status open(const SliceSettings& settings, std::vector<BenchModel> models);
  // Makes the model runnable; its weights are random ones, made at home unless they are there.
  Result<model::ModelCard> add(ModelId model);

  // Greedy, unless draw_at() said otherwise.
  Result<RequestId> submit(ModelId model, std::vector<TokenId> prompt, std::int64_t output);
  // A prompt of random tokens, another for each request.
  Result<RequestId> submit(ModelId model, std::int64_t prompt, std::int64_t output);
  // The temperature of requests from now on. A greedy answer of random weights soon repeats itself.
  void draw_at(float temperature) { temperature_ = temperature; }
  // The latency targets of requests from now on.
  void aim_at(request::Slo slo) { slo_ = slo; }
  // Cancels what has not ended, and waits for the ends.
  Status stop(const std::vector<RequestId>& requests);

  Tokens max_model_len(ModelId model) const {
    return models_[static_cast<std::size_t>(model.value)].max_model_len;
  }
  // Of a model that was added.
  const engine::ModelFacts& facts(ModelId model) const { return facts_.at(model); }
  slice::Slice& slice() { return *slice_; }
  TokenTimesSink& sink() { return sink_; }
  const Clock& clock() const { return clock_; }

 private:
  slice::ModelHome& home_;
  const Clock& clock_;
  std::vector<BenchModel> models_;
  std::map<ModelId, engine::ModelFacts> facts_;
  TokenTimesSink sink_;
  std::unique_ptr<slice::Machine> machine_;
  std::unique_ptr<slice::Slice> slice_;  // last: it ends first
  std::int64_t next_request_ = 0;
  float temperature_ = 0;
  request::Slo slo_;
};

}  // namespace causeway::bench
