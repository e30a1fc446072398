#include "bench/limit_probe.h"

#include <functional>
#include <vector>

#include "bench/kernels/machine_limits.h"
#include "bench/samples.h"
#include "device/arena.h"
#ifdef CAUSEWAY_CUDA_BUILT
#include "bench/kernels/cuda_limits.h"
#include "device/cuda/cuda_device.h"
#endif

namespace causeway::bench {
namespace {

constexpr int kRuns = 3;  // the median counts

Result<DeviceLimits> median_of(const std::function<Result<DeviceLimits>()>& one) {
  Samples read, operations;
  for (int i = 0; i < kRuns; ++i) {
    CAUSEWAY_ASSIGN(const DeviceLimits limits, one());
    read.add(limits.read_bytes_per_second);
    operations.add(limits.operations_per_second);
  }
  return DeviceLimits{read.median(), operations.median()};
}

class CpuProbe final : public LimitProbe {
 public:
  explicit CpuProbe(const Clock& clock) : clock_(clock), memory_(kRead), product_(kSize) {}
  Result<DeviceLimits> measure() override {
    return median_of([this]() -> Result<DeviceLimits> {
      return DeviceLimits{kernels::bench::read_bandwidth(memory_, clock_),
                          product_.measure(clock_)};
    });
  }

 private:
  static constexpr std::size_t kRead = std::size_t{256} << 20;
  static constexpr std::int64_t kSize = 768;

  const Clock& clock_;
  std::vector<std::byte> memory_;
  kernels::bench::MatmulPeak product_;
};

#ifdef CAUSEWAY_CUDA_BUILT

class CudaProbe final : public LimitProbe {
 public:
  explicit CudaProbe(device::Device& device) : device_(device) {}

  Status prepare() {
    CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(device_));
    CAUSEWAY_ASSIGN(read_, take(kRead));
    CAUSEWAY_ASSIGN(product_, take(kernels::bench::cuda_matmul_bytes()));
    CAUSEWAY_ASSIGN(stream_, device_.make_stream("limits"));
    return kernels::bench::cuda_fill_random_bf16(read_.data(), read_.bytes(), 3, 0.03f,
                                                 device::cuda_stream_of(*stream_));
  }

  Result<DeviceLimits> measure() override {
    CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(device_));
    const kernels::CudaStream cuda = device::cuda_stream_of(*stream_);
    return median_of([&]() -> Result<DeviceLimits> {
      DeviceLimits limits;
      CAUSEWAY_ASSIGN(
          limits.read_bytes_per_second,
          kernels::bench::cuda_read_bandwidth(read_.data(), read_.bytes(), kReadTimes, cuda));
      CAUSEWAY_ASSIGN(limits.operations_per_second,
                      kernels::bench::cuda_matmul_peak(product_.data(), cuda));
      return limits;
    });
  }

 private:
  static constexpr Bytes kRead = gib(2);  // many times what the L2 holds
  static constexpr int kReadTimes = 24;

  Result<device::Extents> take(Bytes bytes) {
    device::Arena& arena = device_.arena();
    return arena.allocate(arena.extents_for(bytes), device::Arena::End::kHigh);
  }

  device::Device& device_;
  device::Extents read_;
  device::Extents product_;
  std::unique_ptr<device::Stream> stream_;
};

#endif

}  // namespace

std::unique_ptr<LimitProbe> probe_cpu(const Clock& clock) {
  return std::make_unique<CpuProbe>(clock);
}

#ifdef CAUSEWAY_CUDA_BUILT

Result<std::unique_ptr<LimitProbe>> probe_gpu(device::Device& device) {
  auto limits = std::make_unique<CudaProbe>(device);
  CAUSEWAY_TRY(limits->prepare());
  return std::unique_ptr<LimitProbe>(std::move(limits));
}

#else

Result<std::unique_ptr<LimitProbe>> probe_gpu(device::Device&) {
  return unsupported("this build has no CUDA parts: build where nvcc is, or use --device cpu");
}

#endif

}  // namespace causeway::bench
