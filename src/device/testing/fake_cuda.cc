#include "device/testing/fake_cuda.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "device/cuda/cuda_physical.h"

namespace causeway::device::testing {
namespace {

constexpr int kInvalidValue = 1;
constexpr int kInvalidContext = 201;
constexpr unsigned kSmUnit = 8;

// The driver's functions take no state of ours, so only one driver exists at a time.
FakeCuda* driver = nullptr;

// A mapping over addresses that fails may have given them away, so a test must not go on.
constexpr const char* kMayBeAnothersNow = "no memory for a fake GPU's mapping";

void* pointer(CudaDevicePointer address) { return reinterpret_cast<void*>(address); }
std::atomic_ref<unsigned> word(CudaDevicePointer address) {
  return std::atomic_ref(*reinterpret_cast<unsigned*>(address));
}

}  // namespace

struct FakeCudaEntries {
  using Lock = std::lock_guard<std::mutex>;
  using Context = FakeCuda::Context;

  static int cuDriverGetVersion(int* version) {
    const Lock lock(driver->mutex_);
    *version = driver->options_.driver_version;
    return driver->enter("cuDriverGetVersion");
  }
  static int cuInit(unsigned) {
    const Lock lock(driver->mutex_);
    return driver->enter("cuInit");
  }
  static int cuGetErrorString(int, const char** text) {
    *text = "the driver's own words";
    return 0;
  }
  static int cuDeviceGetCount(int* count) {
    const Lock lock(driver->mutex_);
    *count = driver->options_.gpus;
    return driver->enter("cuDeviceGetCount");
  }
  static int cuDeviceGet(int* device, int ordinal) {
    const Lock lock(driver->mutex_);
    *device = ordinal;
    return driver->enter("cuDeviceGet");
  }
  static int cuDeviceGetName(char* name, int length, int) {
    const Lock lock(driver->mutex_);
    std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU");
    return driver->enter("cuDeviceGetName");
  }
  static int cuDeviceGetAttribute(int* value, int attribute, int) {
    const Lock lock(driver->mutex_);
    const FakeCudaOptions& options = driver->options_;
    switch (attribute) {
      case kCudaAttributeSms: *value = options.sms; break;
      case kCudaAttributeMemoryClock: *value = options.memory_clock; break;
      case kCudaAttributeMemoryBus: *value = options.memory_bus; break;
      case kCudaAttributeRegistersReadOnly: *value = options.read_only ? 1 : 0; break;
      case kCudaAttributeStreamMemoryOperations: *value = options.memory_operations ? 1 : 0; break;
      default: *value = 1;
    }
    return driver->enter("cuDeviceGetAttribute");
  }
  static int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
    const Lock lock(driver->mutex_);
    *bytes = to_size(driver->options_.memory);
    return driver->enter("cuDeviceTotalMem_v2");
  }
  static int cuDeviceGetPCIBusId(char* id, int length, int device) {
    const Lock lock(driver->mutex_);
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", 0x1b + device);
    return driver->enter("cuDeviceGetPCIBusId");
  }
  static int cuDeviceCanAccessPeer(int* can, int, int) {
    const Lock lock(driver->mutex_);
    *can = driver->options_.peers ? 1 : 0;
    return driver->enter("cuDeviceCanAccessPeer");
  }
  static int cuDevicePrimaryCtxRetain(CUctx_st** context, int device) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuDevicePrimaryCtxRetain")) return result;
    const auto gpu = static_cast<std::size_t>(device);
    ++driver->retained_[gpu];
    *context = reinterpret_cast<CUctx_st*>(&driver->primaries_[gpu]);
    return 0;
  }
  static int cuDevicePrimaryCtxRelease_v2(int device) {
    const Lock lock(driver->mutex_);
    --driver->retained_[static_cast<std::size_t>(device)];
    return driver->enter("cuDevicePrimaryCtxRelease_v2");
  }
  static int cuCtxGetCurrent(CUctx_st** context) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuCtxGetCurrent")) return result;
    const auto& stack = driver->current_[std::this_thread::get_id()];
    *context = stack.empty() ? nullptr : reinterpret_cast<CUctx_st*>(stack.back());
    return 0;
  }
  static int cuCtxPushCurrent_v2(CUctx_st* context) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuCtxPushCurrent_v2")) return result;
    driver->current_[std::this_thread::get_id()].push_back(reinterpret_cast<Context*>(context));
    return 0;
  }
  static int cuCtxPopCurrent_v2(CUctx_st** context) {
    const Lock lock(driver->mutex_);
    auto& stack = driver->current_[std::this_thread::get_id()];
    if (stack.empty()) return kInvalidContext;
    *context = reinterpret_cast<CUctx_st*>(stack.back());
    stack.pop_back();
    return driver->enter("cuCtxPopCurrent_v2");
  }
  static int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    const Lock lock(driver->mutex_);
    *least = 0;
    *greatest = -5;
    return driver->enter("cuCtxGetStreamPriorityRange");
  }
  static int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuMemGetInfo_v2")) return result;
    if (!driver->current_is(nullptr)) return kInvalidContext;
    const auto gpu =
        static_cast<std::size_t>(driver->current_[std::this_thread::get_id()].back()->gpu);
    *total = to_size(driver->options_.memory);
    *free = *total - driver->used_[gpu];
    return 0;
  }
  static int cuMemAddressReserve(CudaDevicePointer* address, std::size_t bytes, std::size_t,
                                 CudaDevicePointer, unsigned long long) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuMemAddressReserve")) return result;
    void* base =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return kCudaOutOfMemory;
    *address = reinterpret_cast<CudaDevicePointer>(base);
    driver->reserved_[*address] = bytes;
    return 0;
  }
  static int cuMemAddressFree(CudaDevicePointer address, std::size_t bytes) {
    const Lock lock(driver->mutex_);
    const auto found = driver->reserved_.find(address);
    if (found == driver->reserved_.end() || found->second != bytes) return kInvalidValue;
    const auto mapped = driver->mappings_.lower_bound(address);
    if (mapped != driver->mappings_.end() && mapped->first < address + bytes) return kInvalidValue;
    ::munmap(pointer(address), bytes);
    driver->reserved_.erase(found);
    return driver->enter("cuMemAddressFree");
  }
  static int cuMemCreate(CudaMemoryHandle* handle, std::size_t bytes,
                         const CudaMemoryProperties* properties, unsigned long long) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuMemCreate")) return result;
    if (properties->type != kCudaAllocationPinned || bytes % (2 << 20) != 0) return kInvalidValue;
    auto& used = driver->used_[static_cast<std::size_t>(properties->location.id)];
    if (used + bytes > to_size(driver->options_.memory)) return kCudaOutOfMemory;
    used += bytes;
    *handle = driver->next_handle_++;
    driver->allocations_[*handle] = {properties->location.id, bytes, 0};
    return 0;
  }
  static int cuMemRelease(CudaMemoryHandle handle) {
    const Lock lock(driver->mutex_);
    const auto found = driver->allocations_.find(handle);
    if (found == driver->allocations_.end() || found->second.mappings > 0) return kInvalidValue;
    driver->used_[static_cast<std::size_t>(found->second.gpu)] -= found->second.bytes;
    driver->allocations_.erase(found);
    return driver->enter("cuMemRelease");
  }
  static int cuMemMap(CudaDevicePointer address, std::size_t bytes, std::size_t,
                      CudaMemoryHandle handle, unsigned long long) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuMemMap")) return result;
    const auto found = driver->allocations_.find(handle);
    if (found == driver->allocations_.end() || found->second.bytes != bytes ||
        !driver->may_map(address, bytes)) {
      return kInvalidValue;
    }
    if (found->second.mappings > 0) driver->map_again(address, found->second, handle);
    driver->mappings_[address] = {bytes, handle, {}};
    ++found->second.mappings;
    return 0;
  }
  static int cuMemUnmap(CudaDevicePointer address, std::size_t bytes) {
    const Lock lock(driver->mutex_);
    const auto found = driver->mappings_.find(address);
    if (found == driver->mappings_.end() || found->second.bytes != bytes) return kInvalidValue;
    // Also replaces pages that show at another address.
    constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    CAUSEWAY_CHECK(::mmap(pointer(address), bytes, PROT_NONE, kReserved, -1, 0) != MAP_FAILED,
                   kMayBeAnothersNow);
    auto& allocation = driver->allocations_[found->second.handle];
    if (--allocation.mappings == 0) allocation.shared = false;
    driver->mappings_.erase(found);
    return driver->enter("cuMemUnmap");
  }
  static int cuMemSetAccess(CudaDevicePointer address, std::size_t bytes,
                            const CudaMemoryAccess* access, std::size_t count) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuMemSetAccess")) return result;
    for (std::size_t done = 0; done < bytes;) {
      const auto found = driver->mappings_.find(address + done);
      if (found == driver->mappings_.end()) return kInvalidValue;
      for (std::size_t i = 0; i < count; ++i) found->second.access.insert(access[i].location.id);
      done += found->second.bytes;
    }
    ::mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE);
    // The driver promises nothing about the contents of new memory.
    for (std::size_t i = 0; i < bytes; i += 65'536) {
      static_cast<unsigned char*>(pointer(address))[i] = 0xAB;
    }
    return 0;
  }
  static int cuMemsetD8Async(CudaDevicePointer target, unsigned char value, std::size_t bytes,
                             CUstream_st* stream) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuMemsetD8Async")) return result;
    const Context* context = driver->streams_.at(stream)->context;
    if (!driver->current_is(context)) return kInvalidContext;
    if (!driver->reachable(target, bytes, context->gpu)) return kInvalidValue;
    driver->enqueue(stream, [=] { return std::memset(pointer(target), value, bytes) != nullptr; });
    return 0;
  }
  static int cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned flags) {
    const Lock lock(driver->mutex_);
    if ((flags & kCudaRegisterReadOnly) != 0 && !driver->options_.read_only) {
      return kCudaNotSupported;
    }
    if (const int result = driver->enter("cuMemHostRegister_v2")) return result;
    if (!driver->current_is(nullptr)) return kInvalidContext;
    const auto begin = reinterpret_cast<CudaDevicePointer>(address);
    if (bytes == 0) return kInvalidValue;
    for (const auto& [other, size] : driver->registered_) {
      if (begin < other + size && other < begin + bytes) return 712;  // is registered already
    }
    driver->registered_[begin] = bytes;
    driver->registered_in_[begin] = driver->current_[std::this_thread::get_id()].back();
    return 0;
  }
  static int cuMemHostUnregister(void* address) {
    const Lock lock(driver->mutex_);
    if (driver->registered_.erase(reinterpret_cast<CudaDevicePointer>(address)) == 0) return 713;
    return driver->enter("cuMemHostUnregister");
  }
  static int cuMemHostGetDevicePointer_v2(CudaDevicePointer* seen, void* address, unsigned) {
    const Lock lock(driver->mutex_);
    *seen = reinterpret_cast<CudaDevicePointer>(address);
    return driver->enter("cuMemHostGetDevicePointer_v2");
  }
  static int cuMemcpyAsync(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes,
                           CUstream_st* stream) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuMemcpyAsync")) return result;
    return driver->copy(target, source, bytes, stream);
  }
  static int cuMemcpyBatchAsync_v2(CudaDevicePointer* targets, CudaDevicePointer* sources,
                                   std::size_t* bytes, std::size_t count,
                                   CudaCopyAttributes* attributes, std::size_t* first_of,
                                   std::size_t attribute_count, CUstream_st* stream) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuMemcpyBatchAsync_v2")) return result;
    if (count == 0 || attribute_count != 1 || *first_of != 0 ||
        attributes->source_order != kCudaSourceOrderStream) {
      return kInvalidValue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (const int result = driver->copy(targets[i], sources[i], bytes[i], stream)) return result;
    }
    return 0;
  }

  static int make_stream(CUstream_st** stream, Context* context, int priority) {
    auto made = std::make_unique<FakeCuda::Stream>();
    made->context = context;
    made->priority = priority;
    *stream = reinterpret_cast<CUstream_st*>(made.get());
    driver->streams_[*stream] = std::move(made);
    return 0;
  }
  static int cuStreamCreateWithPriority(CUstream_st** stream, unsigned flags, int priority) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuStreamCreateWithPriority")) return result;
    if (!driver->current_is(nullptr)) return kInvalidContext;
    if (flags != kCudaStreamNonBlocking) return kInvalidValue;
    return make_stream(stream, driver->current_[std::this_thread::get_id()].back(), priority);
  }
  static int cuGreenCtxStreamCreate(CUstream_st** stream, CUgreenCtx_st* green, unsigned flags,
                                    int priority) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuGreenCtxStreamCreate")) return result;
    if (flags != kCudaStreamNonBlocking) return kInvalidValue;
    return make_stream(stream, driver->greens_.at(green).get(), priority);
  }
  static int cuStreamDestroy_v2(CUstream_st* stream) {
    const Lock lock(driver->mutex_);
    driver->advance();
    driver->streams_.erase(stream);
    return driver->enter("cuStreamDestroy_v2");
  }
  static int cuStreamQuery(CUstream_st* stream) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuStreamQuery")) return result;
    FakeCuda::Stream& asked = *driver->streams_.at(stream);
    if (!asked.blocked.empty()) return kCudaNotReady;
    return driver->ready(asked.polls, asked.at) ? 0 : kCudaNotReady;
  }
  static int cuStreamWaitEvent(CUstream_st* stream, CUevent_st* event, unsigned) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuStreamWaitEvent")) return result;
    if (!driver->streams_.contains(stream) || !driver->events_.contains(event)) return 400;
    const std::int64_t record = driver->events_.at(event)->record;
    driver->enqueue(stream, [record] { return !driver->blocked_records_.contains(record); });
    return 0;
  }
  static int cuStreamWaitValue32_v2(CUstream_st* stream, CudaDevicePointer address, unsigned value,
                                    unsigned flags) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuStreamWaitValue32_v2")) return result;
    if (flags != kCudaWaitGreaterOrEqual) return kInvalidValue;
    if (const int result = driver->stream_word(stream, address)) return result;
    driver->enqueue(stream, [address, value] {
      return static_cast<int>(word(address).load(std::memory_order_acquire) - value) >= 0;
    });
    return 0;
  }
  static int cuStreamWriteValue32_v2(CUstream_st* stream, CudaDevicePointer address, unsigned value,
                                     unsigned flags) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuStreamWriteValue32_v2")) return result;
    if (flags != kCudaWriteDefault) return kInvalidValue;
    if (const int result = driver->stream_word(stream, address)) return result;
    driver->enqueue(stream, [address, value] {
      word(address).store(value, std::memory_order_release);
      return true;
    });
    return 0;
  }
  static int cuStreamIsCapturing(CUstream_st*, int* status) {
    const Lock lock(driver->mutex_);
    *status = 0;
    return driver->enter("cuStreamIsCapturing");
  }
  static int cuEventCreate(CUevent_st** event, unsigned) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuEventCreate")) return result;
    if (!driver->current_is(nullptr)) return kInvalidContext;
    auto made = std::make_unique<FakeCuda::Event>();
    made->context = driver->current_[std::this_thread::get_id()].back();
    *event = reinterpret_cast<CUevent_st*>(made.get());
    driver->events_[*event] = std::move(made);
    return 0;
  }
  static int cuEventDestroy_v2(CUevent_st* event) {
    const Lock lock(driver->mutex_);
    driver->events_.erase(event);
    return driver->enter("cuEventDestroy_v2");
  }
  static int cuEventRecord(CUevent_st* event, CUstream_st* stream) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuEventRecord")) return result;
    FakeCuda::Event& recorded = *driver->events_.at(event);
    FakeCuda::Stream& on = *driver->streams_.at(stream);
    if (recorded.context != on.context) return 400;  // as the driver: one context only
    const std::int64_t record = driver->next_record_++;
    recorded.record = record;
    driver->blocked_records_.insert(record);
    driver->enqueue(stream, [&on, event, record] { return reach(on, event, record); });
    return 0;
  }
  // A stream has reached an event's record; the event may be destroyed, or recorded again, by then.
  static bool reach(FakeCuda::Stream& on, CUevent_st* event, std::int64_t record) {
    driver->blocked_records_.erase(record);
    on.polls = driver->options_.polls_until_ready;
    on.at = driver->next_at_++;
    const auto found = driver->events_.find(event);
    if (found == driver->events_.end() || found->second->record != record) return true;
    FakeCuda::Event& recorded = *found->second;
    recorded.polls = driver->options_.polls_until_ready;
    recorded.recorded = true;
    recorded.at = on.at;
    recorded.time = driver->clock_.now();
    return true;
  }
  static int cuEventQuery(CUevent_st* event) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuEventQuery")) return result;
    FakeCuda::Event& asked = *driver->events_.at(event);
    if (driver->blocked_records_.contains(asked.record)) return kCudaNotReady;
    return driver->ready(asked.polls, asked.at) ? 0 : kCudaNotReady;
  }
  static int cuEventElapsedTime_v2(float* milliseconds, CUevent_st* start, CUevent_st* end) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuEventElapsedTime_v2")) return result;
    const FakeCuda::Event& from = *driver->events_.at(start);
    const FakeCuda::Event& to = *driver->events_.at(end);
    if (!from.recorded || !to.recorded) return 400;
    *milliseconds = static_cast<float>(to_millis(to.time - from.time));
    return 0;
  }

  static int cuDeviceGetDevResource(int, CudaResource* resource, int type) {
    const Lock lock(driver->mutex_);
    resource->type = type;
    resource->sm_count = static_cast<unsigned>(driver->options_.sms);
    resource->sm_partition_min = kSmUnit;
    resource->sm_alignment = kSmUnit;
    return driver->enter("cuDeviceGetDevResource");
  }
  static int cuDevSmResourceSplitByCount(CudaResource* groups, unsigned* count,
                                         const CudaResource* input, CudaResource* rest, unsigned,
                                         unsigned sms) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuDevSmResourceSplitByCount")) return result;
    *count = std::min(*count, input->sm_count / sms);
    if (sms == kSmUnit) {
      *count = std::min(*count, static_cast<unsigned>(driver->options_.finest_units_max));
    }
    for (unsigned g = 0; g < *count; ++g) {
      groups[g] = *input;
      groups[g].sm_count = sms;
    }
    *rest = *input;
    rest->sm_count = input->sm_count - *count * sms;
    return 0;
  }
  static int cuDevResourceGenerateDesc(CUdevResourceDesc_st** description, CudaResource*,
                                       unsigned count) {
    const Lock lock(driver->mutex_);
    *description = reinterpret_cast<CUdevResourceDesc_st*>(driver);
    const int result = driver->enter("cuDevResourceGenerateDesc");
    return result == 0 && count == 0 ? kInvalidValue : result;
  }
  static int cuGreenCtxCreate(CUgreenCtx_st** green, CUdevResourceDesc_st*, int device,
                              unsigned flags) {
    const Lock lock(driver->mutex_);
    if (const int result = driver->enter("cuGreenCtxCreate")) return result;
    if (flags != kCudaGreenDefaultStream) return kInvalidValue;
    auto made = std::make_unique<Context>();
    made->gpu = device;
    *green = reinterpret_cast<CUgreenCtx_st*>(made.get());
    driver->greens_[*green] = std::move(made);
    return 0;
  }
  static int cuGreenCtxDestroy(CUgreenCtx_st* green) {
    const Lock lock(driver->mutex_);
    for (const auto& [address, context] : driver->registered_in_) {
      if (context == driver->greens_.at(green).get()) driver->registered_.erase(address);
    }
    driver->greens_.erase(green);
    return driver->enter("cuGreenCtxDestroy");
  }
  static int cuCtxFromGreenCtx(CUctx_st** context, CUgreenCtx_st* green) {
    const Lock lock(driver->mutex_);
    *context = reinterpret_cast<CUctx_st*>(driver->greens_.at(green).get());
    return driver->enter("cuCtxFromGreenCtx");
  }
};

FakeCuda::FakeCuda(FakeCudaOptions options)
    : options_(options),
      retained_(static_cast<std::size_t>(options.gpus), 0),
      used_(static_cast<std::size_t>(options.gpus), 0) {
  CAUSEWAY_CHECK(driver == nullptr, "one fake driver at a time");
  driver = this;
  for (int gpu = 0; gpu < options.gpus; ++gpu) primaries_.push_back({gpu});
}

FakeCuda::~FakeCuda() { driver = nullptr; }

CudaApi FakeCuda::api() const {
  CudaApi table;
#define CAUSEWAY_FAKE_ENTRY(name, parameters) table.name = FakeCudaEntries::name;
  CAUSEWAY_CUDA_ENTRIES(CAUSEWAY_FAKE_ENTRY)
#undef CAUSEWAY_FAKE_ENTRY
  return table;
}

void FakeCuda::fail_call(std::int64_t n, int result) {
  const std::lock_guard lock(mutex_);
  fail_at_ = calls_ + n;
  fail_with_ = result;
}

void FakeCuda::fail_next(const std::string& name, int result) {
  const std::lock_guard lock(mutex_);
  fail_next_[name] = result;
}

void FakeCuda::lose(int result) {
  const std::lock_guard lock(mutex_);
  lost_ = result;
}

void FakeCuda::hold(bool held) {
  const std::lock_guard lock(mutex_);
  held_ = held;
}

std::int64_t FakeCuda::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::int64_t FakeCuda::calls_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_of_.find(name);
  return found == calls_of_.end() ? 0 : found->second;
}

std::string FakeCuda::leaks() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto report = [&](const char* what, std::size_t count) {
    if (count > 0) text += std::string(what) + ": " + std::to_string(count) + "; ";
  };
  report("primary contexts",
         static_cast<std::size_t>(std::accumulate(retained_.begin(), retained_.end(), 0)));
  report("green contexts", greens_.size());
  report("streams", streams_.size());
  report("events", events_.size());
  report("reserved ranges", reserved_.size());
  report("allocations", allocations_.size());
  report("mappings", mappings_.size());
  report("registered host ranges", registered_.size());
  for (const auto& [thread, stack] : current_) report("contexts left current", stack.size());
  return text;
}

int FakeCuda::enter(const char* name) {
  advance();
  ++calls_;
  ++calls_of_[name];
  if (lost_ != 0) return lost_;
  if (const auto found = fail_next_.find(name); found != fail_next_.end()) {
    const int result = found->second;
    fail_next_.erase(found);
    return result;
  }
  return calls_ == fail_at_ ? fail_with_ : 0;
}

bool FakeCuda::current_is(const Context* context) {
  const auto& stack = current_[std::this_thread::get_id()];
  return !stack.empty() && (context == nullptr || stack.back() == context);
}

bool FakeCuda::ready(int& polls, std::int64_t at) {
  if (at <= noticed_) return true;
  if (held_ || polls-- > 0) return false;
  noticed_ = at;
  return true;
}

void FakeCuda::map_again(CudaDevicePointer address, Allocation& allocation,
                         CudaMemoryHandle handle) {
  const auto first = std::find_if(mappings_.begin(), mappings_.end(), [&](const auto& mapping) {
    return mapping.second.handle == handle;
  });
  void* const from = pointer(first->first);
  if (!allocation.shared) {
    constexpr int kShared = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    CAUSEWAY_CHECK(
        ::mmap(from, allocation.bytes, PROT_READ | PROT_WRITE, kShared, -1, 0) != MAP_FAILED,
        kMayBeAnothersNow);
  }
  allocation.shared = true;
  // For shared pages an old size of 0 leaves the old mapping as it is.
  constexpr int kMove = MREMAP_MAYMOVE | MREMAP_FIXED;
  CAUSEWAY_CHECK(::mremap(from, 0, allocation.bytes, kMove, pointer(address)) != MAP_FAILED,
                 kMayBeAnothersNow);
}

// Whether the range is reserved and nothing is mapped in it.
bool FakeCuda::may_map(CudaDevicePointer address, std::size_t bytes) const {
  auto reserved = reserved_.upper_bound(address);
  if (reserved == reserved_.begin()) return false;
  --reserved;
  if (address + bytes > reserved->first + reserved->second) return false;
  auto mapped = mappings_.lower_bound(address + bytes);
  if (mapped == mappings_.begin()) return true;
  --mapped;
  return mapped->first + mapped->second.bytes <= address;
}

bool FakeCuda::reachable(CudaDevicePointer address, std::size_t bytes, int gpu) const {
  for (const auto& [begin, size] : registered_) {
    if (address >= begin && address + bytes <= begin + size) return true;
  }
  while (bytes > 0) {
    auto found = mappings_.upper_bound(address);
    if (found == mappings_.begin()) return false;
    --found;
    const CudaDevicePointer end = found->first + found->second.bytes;
    if (address >= end || !found->second.access.contains(gpu)) return false;
    const std::size_t here = std::min<std::size_t>(bytes, end - address);
    address += here;
    bytes -= here;
  }
  return true;
}

int FakeCuda::copy(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes,
                   CUstream_st* stream) {
  const Context* context = streams_.at(stream)->context;
  if (!current_is(context)) return kInvalidContext;
  if (!reachable(target, bytes, context->gpu) || !reachable(source, bytes, context->gpu)) {
    return kInvalidValue;
  }
  enqueue(stream, [=] { return std::memmove(pointer(target), pointer(source), bytes) != nullptr; });
  return 0;
}

void FakeCuda::enqueue(CUstream_st* stream, std::function<bool()> work) {
  auto& blocked = streams_.at(stream)->blocked;
  if (!blocked.empty() || !work()) blocked.push_back(std::move(work));
}

// Work of one stream may be what another stream waits for.
void FakeCuda::advance() {
  for (bool any = true; any;) {
    any = false;
    for (auto& [handle, stream] : streams_) {
      auto& blocked = stream->blocked;
      for (; !blocked.empty() && blocked.front()(); any = true) blocked.pop_front();
    }
  }
}

// Checks that words that streams wait for or write are reachable and aligned.
int FakeCuda::stream_word(CUstream_st* stream, CudaDevicePointer address) const {
  const Context* context = streams_.at(stream)->context;
  if (address % 4 != 0 || !reachable(address, 4, context->gpu)) return kInvalidValue;
  return 0;
}

}  // namespace causeway::device::testing
