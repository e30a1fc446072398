#include "bench/transfer/native_copies.h"

#include <algorithm>

#include "device/arena.h"

namespace causeway::transfer::bench {
namespace {

using device::Copy;
using device::CudaDevicePointer;

constexpr Nanos kTimeMax = seconds(60);
constexpr std::size_t kBatchMax = 4'096;

class StreamCopies final : public NativeCopies {
 public:
  StreamCopies(std::unique_ptr<device::Stream> stream, std::unique_ptr<device::Event> event)
      : stream_(std::move(stream)), event_(std::move(event)) {}

  Status prepare(const std::vector<Copy>& copies) override {
    copies_ = copies;
    return {};
  }
  Status issue(How how) override {
    const std::size_t most = how == How::kBatch ? kBatchMax : 1;
    for (std::size_t at = 0; at < copies_.size(); at += most) {
      const std::size_t count = std::min(most, copies_.size() - at);
      CAUSEWAY_TRY(stream_->copy({&copies_[at], count}, device::CopyPriority::kStep));
    }
    return stream_->record(*event_);
  }
  Result<bool> done() override { return event_->done(); }
  Result<Nanos> time(How how, const Clock& clock, End /*end*/) override {
    const Nanos begin = clock.now();
    CAUSEWAY_TRY(issue(how));
    CAUSEWAY_TRY(event_->wait(kTimeMax));
    return clock.now() - begin;
  }

 private:
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> event_;
  std::vector<Copy> copies_;
};

class DriverCopies final : public NativeCopies {
 public:
  DriverCopies(const device::CudaApi& api, device::Device& device,
               std::vector<device::Device*> devices, std::unique_ptr<device::Stream> stream)
      : api_(api), device_(device), devices_(std::move(devices)), stream_(std::move(stream)) {}
  ~DriverCopies() override {
    if (event_ != nullptr) api_.cuEventDestroy_v2(event_);
  }
  DriverCopies(const DriverCopies&) = delete;
  DriverCopies& operator=(const DriverCopies&) = delete;

  Result<std::optional<device::CudaCurrent>> enter() override {
    CAUSEWAY_ASSIGN(auto current, device::CudaCurrent::enter(device_));
    return std::optional<device::CudaCurrent>(std::move(current));
  }
  Status prepare(const std::vector<Copy>& copies) override {
    targets_.clear();
    sources_.clear();
    bytes_.clear();
    for (const Copy& copy : copies) {
      CAUSEWAY_ASSIGN(const CudaDevicePointer target, pointer(copy.target, copy.bytes));
      CAUSEWAY_ASSIGN(const CudaDevicePointer source, pointer(copy.source, copy.bytes));
      targets_.push_back(target);
      sources_.push_back(source);
      bytes_.push_back(static_cast<std::size_t>(copy.bytes.count));
    }
    return {};
  }
  Status issue(How how) override {
    CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(device_));
    return check(call(how), "cuMemcpyAsync");
  }
  Result<bool> done() override {
    CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(device_));
    const int state = query();
    if (state == device::kCudaNotReady) return false;
    CAUSEWAY_TRY(check(state, "cuStreamQuery"));
    return true;
  }
  Result<Nanos> time(How how, const Clock& clock, End end) override {
    CAUSEWAY_ASSIGN(const auto current, device::CudaCurrent::enter(device_));
    const bool marked = end == End::kEvent;
    if (marked && event_ == nullptr) {
      CAUSEWAY_TRY(
          check(api_.cuEventCreate(&event_, device::kCudaEventDisableTiming), "cuEventCreate"));
    }
    const Nanos begin = clock.now();
    CAUSEWAY_TRY(check(call(how), "cuMemcpyAsync"));
    if (marked) {
      CAUSEWAY_TRY(
          check(api_.cuEventRecord(event_, device::cuda_stream_of(*stream_)), "cuEventRecord"));
    }
    int state = device::kCudaNotReady;
    Nanos now = begin;
    while (state == device::kCudaNotReady && now - begin < kTimeMax) {
      state = marked ? api_.cuEventQuery(event_) : query();
      now = clock.now();
    }
    CAUSEWAY_TRY(check(state, marked ? "cuEventQuery" : "cuStreamQuery"));
    return now - begin;
  }

 private:
  Result<CudaDevicePointer> pointer(const device::MemoryAddress& address, Bytes bytes) {
    if (!address.device.valid()) {
      return device::cuda_address_of(device_, {address.region, address.offset}, bytes);
    }
    const auto owner = std::find_if(devices_.begin(), devices_.end(),
                                    [&](device::Device* d) { return d->id() == address.device; });
    if (owner == devices_.end()) return invalid_argument("a native copy names no known device");
    return reinterpret_cast<CudaDevicePointer>((*owner)->arena().base()) +
           static_cast<CudaDevicePointer>(address.offset.count);
  }
  int query() { return api_.cuStreamQuery(device::cuda_stream_of(*stream_)); }
  int call(How how) {
    CUstream_st* stream = device::cuda_stream_of(*stream_);
    if (how == How::kLoop) {
      for (std::size_t i = 0; i < bytes_.size(); ++i) {
        const int result = api_.cuMemcpyAsync(targets_[i], sources_[i], bytes_[i], stream);
        if (result != device::kCudaSuccess) return result;
      }
      return device::kCudaSuccess;
    }
    device::CudaCopyAttributes attributes;
    attributes.source_order = device::kCudaSourceOrderStream;
    for (std::size_t at = 0; at < bytes_.size(); at += kBatchMax) {
      std::size_t first = 0;
      const int result = api_.cuMemcpyBatchAsync_v2(&targets_[at], &sources_[at], &bytes_[at],
                                                    std::min(kBatchMax, bytes_.size() - at),
                                                    &attributes, &first, 1, stream);
      if (result != device::kCudaSuccess) return result;
    }
    return device::kCudaSuccess;
  }
  Status check(int result, const char* name) const {
    if (result == device::kCudaSuccess) return {};
    return device::cuda_error(api_, result, name);
  }

  const device::CudaApi api_;
  device::Device& device_;
  const std::vector<device::Device*> devices_;
  std::unique_ptr<device::Stream> stream_;
  CUevent_st* event_ = nullptr;
  std::vector<CudaDevicePointer> targets_;
  std::vector<CudaDevicePointer> sources_;
  std::vector<std::size_t> bytes_;
};

}  // namespace

Result<std::unique_ptr<NativeCopies>> make_stream_copies(device::Device& device) {
  CAUSEWAY_ASSIGN(auto stream, device.make_stream("native"));
  CAUSEWAY_ASSIGN(auto event, device.make_event());
  return std::unique_ptr<NativeCopies>(
      std::make_unique<StreamCopies>(std::move(stream), std::move(event)));
}

Result<std::unique_ptr<NativeCopies>> make_driver_copies(
    const device::CudaApi& api, device::Device& device,
    const std::vector<device::Device*>& devices) {
  CAUSEWAY_ASSIGN(auto stream, device.make_stream("native"));
  return std::unique_ptr<NativeCopies>(
      std::make_unique<DriverCopies>(api, device, devices, std::move(stream)));
}

}  // namespace causeway::transfer::bench
