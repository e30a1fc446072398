#include "device/cuda/cuda_arena_memory.h"

#include <atomic>
#include <set>
#include <utility>

#include "device/host_memory.h"

namespace causeway::device {
namespace {

class CudaArenaMemory final : public ArenaMemory {
 public:
  CudaArenaMemory(CudaContext& context, CudaArenaSpec spec)
      : context_(context),
        name_(std::move(spec.name)),
        bytes_(spec.bytes),
        extent_(spec.extent),
        spares_max_(spec.spares_max / spec.extent) {
    spec.peers.push_back(context.physical().ordinal());
    for (const int gpu : spec.peers) {
      access_.push_back({{kCudaLocationDevice, gpu}, kCudaAccessReadWrite});
    }
    handles_.assign(static_cast<std::size_t>(bytes_ / extent_), 0);
  }
  ~CudaArenaMemory() override {
    if (base_ == 0 || context_.physical().hung()) return;
    trim();
    forget(api().cuMemAddressFree(base_, to_size(bytes_)), "cuMemAddressFree");
  }
  CudaArenaMemory(const CudaArenaMemory&) = delete;
  CudaArenaMemory& operator=(const CudaArenaMemory&) = delete;

  Status reserve() {
    if (bytes_.count == 0) return {};
    return call("cuMemAddressReserve",
                [&] { return api().cuMemAddressReserve(&base_, to_size(bytes_), 0, 0, 0); })
        .with_context("slice '" + name_ + "': reserving an arena of " + in_mib(bytes_));
  }

  std::byte* base() const override { return reinterpret_cast<std::byte*>(base_); }

  Status map(Bytes offset, Bytes bytes, Fill fill) override {
    const std::int64_t first = offset / extent_;
    const std::int64_t count = bytes / extent_;
    std::int64_t made = 0;
    Status status = context_.physical().health();
    while (status.ok() && made < count) {
      status = map_one(first + made);
      if (status.ok()) ++made;
    }
    if (status.ok()) status = give_access(offset, bytes);
    if (status.ok() && fill == Fill::kZeroed) status = context_.zero(at(offset), bytes);
    if (status.ok()) return {};
    Error error = explain(status.error());  // before the memory is free again
    unmap(offset, extent_ * made);
    return error;
  }

  void unmap(Bytes offset, Bytes bytes) override {
    if (context_.physical().hung()) return;  // it may be in use
    const std::int64_t first = offset / extent_;
    for (std::int64_t e = first; e < first + bytes / extent_; ++e) {
      const Status unmapped = context_.physical().check(
          api().cuMemUnmap(at(extent_ * e), to_size(extent_)), "cuMemUnmap");
      if (aliases_.erase(e) > 0) continue;  // the memory belongs to the source
      --mapped_;
      CudaMemoryHandle& handle = handles_[static_cast<std::size_t>(e)];
      keep_or_release(std::exchange(handle, 0), unmapped.ok());
    }
  }

  Status alias(Bytes offset, Bytes bytes, Bytes source) override {
    const std::int64_t first = offset / extent_;
    const std::int64_t count = bytes / extent_;
    std::int64_t made = 0;
    Status status = context_.physical().health();
    while (status.ok() && made < count) {
      const CudaMemoryHandle handle = handles_[static_cast<std::size_t>(source / extent_ + made)];
      status = call("cuMemMap", [&] {
        return api().cuMemMap(at(extent_ * (first + made)), to_size(extent_), 0, handle, 0);
      });
      if (status.ok()) aliases_.insert(first + made++);
    }
    if (status.ok()) status = give_access(offset, bytes);
    if (!status.ok()) unmap(offset, extent_ * made);
    return status;
  }

  void trim() override {
    if (context_.physical().hung()) return;
    for (const CudaMemoryHandle spare : spares_) release(spare);
    spares_.clear();
  }

  Bytes taken() const override { return extent_ * taken_.load(); }

 private:
  const CudaApi& api() const { return context_.api(); }
  CudaDevicePointer at(Bytes offset) const {
    return base_ + static_cast<CudaDevicePointer>(offset.count);
  }
  template <typename Call>
  Status call(const char* name, Call&& call) {
    return context_.call(name, std::forward<Call>(call));
  }

  // Gives this GPU and its peers access to the mapped range.
  Status give_access(Bytes offset, Bytes bytes) {
    return call("cuMemSetAccess", [&] {
      return api().cuMemSetAccess(at(offset), to_size(bytes), access_.data(), access_.size());
    });
  }

  // The memory is given back whatever the result, which only reports earlier work.
  void forget(int result, const char* name) { (void)context_.physical().check(result, name).ok(); }

  void release(CudaMemoryHandle handle) {
    forget(api().cuMemRelease(handle), "cuMemRelease");
    --taken_;
  }

  void keep_or_release(CudaMemoryHandle handle, bool sound) {
    if (sound && std::ssize(spares_) < spares_max_) {
      spares_.push_back(handle);
    } else {
      release(handle);
    }
  }

  Result<CudaMemoryHandle> take_or_create() {
    CudaMemoryHandle handle = 0;
    if (!spares_.empty()) {
      handle = spares_.back();
      spares_.pop_back();
      return handle;
    }
    CudaMemoryProperties properties;
    properties.type = kCudaAllocationPinned;
    properties.location = {kCudaLocationDevice, context_.physical().ordinal()};
    CAUSEWAY_TRY(call("cuMemCreate", [&] {
      return api().cuMemCreate(&handle, to_size(extent_), &properties, 0);
    }));
    ++taken_;
    return handle;
  }

  Status map_one(std::int64_t extent) {
    CAUSEWAY_ASSIGN(const CudaMemoryHandle handle, take_or_create());
    const Status mapped = call("cuMemMap", [&] {
      return api().cuMemMap(at(extent_ * extent), to_size(extent_), 0, handle, 0);
    });
    if (!mapped.ok()) {
      release(handle);
      return mapped;
    }
    handles_[static_cast<std::size_t>(extent)] = handle;
    ++mapped_;
    return {};
  }

  Error explain(const Error& cause) {
    Error error = cause;
    std::size_t free = 0;
    std::size_t total = 0;
    const Status asked = call("cuMemGetInfo", [&] { return api().cuMemGetInfo_v2(&free, &total); });
    std::string numbers;
    if (asked.ok()) {
      numbers = "; " + in_mib(Bytes(static_cast<std::int64_t>(free))) + " of " +
                in_mib(Bytes(static_cast<std::int64_t>(total))) + " are free and this arena has " +
                in_mib(extent_ * mapped_) + " (what was just tried included)";
    }
    error.message = "slice '" + name_ + "': " + context_.physical().label() + " gives no more" +
                    numbers + ": " + cause.message;
    return error;
  }

  CudaContext& context_;
  const std::string name_;
  const Bytes bytes_;
  const Bytes extent_;
  const std::int64_t spares_max_;  // in extents
  std::vector<CudaMemoryAccess> access_;
  CudaDevicePointer base_ = 0;
  std::vector<CudaMemoryHandle> handles_;  // by extent; 0: not mapped
  std::set<std::int64_t> aliases_;         // extents that show another's memory
  std::int64_t mapped_ = 0;
  std::atomic<std::int64_t> taken_{0};  // extents with memory, spares included
  std::vector<CudaMemoryHandle> spares_;
};

}  // namespace

Result<std::unique_ptr<ArenaMemory>> reserve_cuda_arena(CudaContext& context, CudaArenaSpec spec) {
  if (spec.bytes.count < 0 || spec.bytes.count > (std::int64_t{1} << 46)) {
    return invalid_argument("slice '" + spec.name + "': an arena cannot have " +
                            std::to_string(spec.bytes.count) + " bytes");
  }
  auto memory = std::make_unique<CudaArenaMemory>(context, std::move(spec));
  CAUSEWAY_TRY(memory->reserve());
  return std::unique_ptr<ArenaMemory>(std::move(memory));
}

}  // namespace causeway::device
