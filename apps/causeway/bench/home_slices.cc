#include "bench/home_slices.h"

#include <algorithm>
#include <utility>

#ifdef CAUSEWAY_CUDA_BUILT
#include <atomic>
#include <barrier>
#include <thread>

#include "base/quantile.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "slice/step_times.h"
#endif

namespace causeway::app {

#ifdef CAUSEWAY_CUDA_BUILT

namespace {

using kernels::home_gemm::HomeBenchOptions;
using kernels::home_gemm::HomeBenchPlace;
using kernels::home_gemm::SliceLoad;

constexpr int kWarmRuns = 2;
constexpr std::size_t kRunsMin = 5;

// A slice with a stream; both go together.
struct OpenSlice {
  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Stream> stream;
  int gpu = 0;

  HomeBenchPlace place() const {
    return {.gpu = gpu,
            .processors = device->capabilities().processors,
            .stream = device::cuda_stream_of(*stream)};
  }
};

Result<std::unique_ptr<SliceLoad>> make_load(const SliceLoadSpec& spec,
                                             const HomeBenchPlace& place) {
  if (spec.reads_hbm) return kernels::home_gemm::make_read_load(spec.read_bytes, place);
  return kernels::home_gemm::make_product_load(spec.product, spec.m, spec.way, place);
}

// What the threads of together() share.
struct Together {
  explicit Together(std::size_t threads) : ready(static_cast<std::ptrdiff_t>(threads)) {}
  std::barrier<> ready;
  std::atomic<bool> failed = false;
  Nanos length;
};

Result<SliceLoadResult> repeat(SliceLoad& load, int processors, Nanos length, const Clock& clock) {
  const Nanos begin = clock.now();
  std::vector<double> ms;
  while (ms.size() < kRunsMin || clock.now() - begin < length) {
    CAUSEWAY_ASSIGN(const Nanos took, load.run());
    ms.push_back(static_cast<double>(took.count) * 1e-6);
  }
  const double seconds = static_cast<double>((clock.now() - begin).count) * 1e-9;
  SliceLoadResult result;
  result.name = load.name();
  result.processors = processors;
  result.runs = static_cast<std::int64_t>(ms.size());
  result.link_bytes_per_s =
      static_cast<double>(load.link_bytes().count) * static_cast<double>(ms.size()) / seconds;
  result.median_ms = median(std::move(ms));
  return result;
}

// One thread's part. Every thread comes to the barrier, also one that has failed before.
Result<SliceLoadResult> take_part(const OpenSlice& slice, const SliceLoadSpec& spec,
                                  Together& together, const Clock& clock) {
  const auto current = device::CudaCurrent::enter(*slice.device);
  Status prepared = current.ok() ? Status() : Status(current.error());
  std::unique_ptr<SliceLoad> load;
  if (prepared.ok()) {
    auto made = make_load(spec, slice.place());
    if (made.ok()) load = std::move(*made);
    if (!made.ok()) prepared = made.error();
  }
  for (int i = 0; i < kWarmRuns && prepared.ok(); ++i) {
    const auto ran = load->run();
    if (!ran.ok()) prepared = ran.error();
  }
  if (!prepared.ok()) together.failed = true;
  together.ready.arrive_and_wait();
  if (!prepared.ok()) return prepared.error();
  if (together.failed) return unavailable("another slice could not be prepared");
  return repeat(*load, slice.place().processors, together.length, clock);
}

class CudaHomeSlices final : public HomeSlices {
 public:
  CudaHomeSlices(int gpu, const Clock& clock) : gpu_(gpu), clock_(clock) {}

  Status prepare() {
    CAUSEWAY_ASSIGN(const auto api, device::load_cuda_api());
    CAUSEWAY_ASSIGN(machine_, device::CudaMachine::create(api, {}, clock_, memory_));
    CAUSEWAY_ASSIGN(described_, machine_->describe(gpu_));
    return {};
  }

  std::string gpu_name() const override { return slice::gpu_machine_name(described_.name); }
  int processors() const override { return described_.sms; }
  bool has_peer() const override {
    const int peer = gpu_ == 0 ? 1 : 0;
    return machine_->gpus() > 1 && machine_->reaches(peer, gpu_);
  }

  Status measure(int processors, const HomeBenchOptions& options, const Row& row) override {
    CAUSEWAY_ASSIGN(const OpenSlice slice, open(processors));
    CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(*slice.device));
    const HomeBenchPlace place = slice.place();
    const auto rows = kernels::home_gemm::run_home_benchmarks(
        options, place, [&](const auto& one) { row(place.processors, one); });
    return rows.ok() ? Status() : Status(rows.error());
  }

  Result<std::vector<SliceLoadResult>> together(std::span<const SliceLoadSpec> specs,
                                                Nanos length) override {
    std::vector<OpenSlice> slices;
    for (const SliceLoadSpec& spec : specs) {
      CAUSEWAY_ASSIGN(OpenSlice slice, open(spec.processors));
      slices.push_back(std::move(slice));
    }
    Together shared(specs.size());
    shared.length = length;
    std::vector<Result<SliceLoadResult>> results(specs.size(), SliceLoadResult());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = take_part(slices[i], specs[i], shared, clock_); });
    }
    for (std::thread& thread : threads) thread.join();
    return sorted_out(std::move(results));
  }

 private:
  Result<OpenSlice> open(int processors) {
    OpenSlice slice;
    slice.gpu = gpu_;
    CAUSEWAY_ASSIGN(slice.device,
                    machine_->open({.name = "bench",
                                    .physical_device = gpu_,
                                    .processors = std::min(processors, described_.sms)}));
    CAUSEWAY_ASSIGN(slice.stream, slice.device->make_stream("bench"));
    return Result<OpenSlice>(std::move(slice));
  }

  // The results, or the error that made others give up.
  static Result<std::vector<SliceLoadResult>> sorted_out(
      std::vector<Result<SliceLoadResult>> results) {
    std::vector<SliceLoadResult> all;
    std::optional<Error> first;
    for (auto& result : results) {
      if (result.ok()) {
        all.push_back(*result);
      } else if (!first || first->code == ErrorCode::kUnavailable) {
        first = result.error();
      }
    }
    if (first) return *first;
    return all;
  }

  int gpu_;
  const Clock& clock_;
  device::HostMemory memory_;
  std::unique_ptr<device::CudaMachine> machine_;
  device::CudaGpu described_;
};

}  // namespace

Result<std::unique_ptr<HomeSlices>> HomeSlices::open(int gpu, const Clock& clock) {
  auto slices = std::make_unique<CudaHomeSlices>(gpu, clock);
  CAUSEWAY_TRY(slices->prepare());
  return std::unique_ptr<HomeSlices>(std::move(slices));
}

#else

Result<std::unique_ptr<HomeSlices>> HomeSlices::open(int, const Clock&) {
  return unsupported("this build has no CUDA parts: build where nvcc is");
}

#endif

}  // namespace causeway::app
