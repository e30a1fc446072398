#include "preload/testing/fake_driver.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "preload/native.h"

using causeway::device::CudaMemoryAccess;
using causeway::device::CudaMemoryLocation;
using causeway::device::CudaMemoryProperties;
using causeway::device::CudaResource;
using causeway::preload::CudaCopyAttributes;
using causeway::preload::CudaDevicePointer;
using causeway::preload::CudaMemoryOperation;
using causeway::preload::FakeFault;

#define FAKE extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int kGpusMax = 16;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kInvalidContext = 201;
constexpr int kInvalidHandle = 400;
constexpr int kNotReady = 600;
constexpr int kLaunchFailed = 719;
constexpr int kNotSupported = 801;
constexpr int kCaptureInvalidated = 901;

void nap() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::microseconds(20));
}

}  // namespace

struct CUctx_st {
  int gpu = 0;
  std::atomic<bool> dead{false};
  std::atomic<unsigned long long> id{1};
};

// A stream's work, done in order by a thread of its own.
struct CUstream_st {
  using Work = std::function<void()>;

  CUstream_st(CUctx_st* its_context, bool is_blocking)
      : context(its_context),
        life(its_context->id.load()),
        blocking(is_blocking),
        thread([this] { run(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
      changed.notify_all();
    }
    thread.join();
  }
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  std::int64_t add(Work work) {
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
    return enqueued.fetch_add(1) + 1;
  }
  bool reached(std::int64_t position) const { return done.load() >= position; }
  void wait_for(std::int64_t position) const {
    while (!reached(position)) nap();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || !queue.empty(); });
      if (queue.empty()) return;
      Work work = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      while (context->dead.load()) nap();
      work();
      done.fetch_add(1);
      lock.lock();
    }
  }

  // The real driver crashes when it is given a stream of a context that was destroyed.
  void expect_alive() const {
    if (context->id.load() == life) return;
    std::fprintf(stderr, "FAILED: a stream of a context that was reset is used\n");
    std::abort();
  }

  CUctx_st* const context;
  const unsigned long long life;  // of the context
  const bool blocking;
  std::atomic<bool> capturing{false};
  std::atomic<std::int64_t> enqueued{0};
  std::atomic<std::int64_t> done{0};
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  bool stop = false;
  std::thread thread;
};

struct CUevent_st {
  CUctx_st* context = nullptr;
  CUstream_st* stream = nullptr;
  std::int64_t position = 0;
};

namespace {

struct Block {
  CudaDevicePointer begin = 0;
  std::size_t bytes = 0;
  unsigned type = 0;
  bool managed = false;
  int gpu = 0;
  CUctx_st* context = nullptr;
  bool owned = false;
  void* pool = nullptr;
  std::set<int> access = {};       // of mapped memory: the GPUs that may use it
  CUctx_st* pinned_for = nullptr;  // registered for this context alone
};

struct Driver {
  std::mutex lock;  // the one of every call that changes something
  int gpus = 4;
  CUctx_st primaries[kGpusMax];
  std::atomic<int> fault{0};
  std::atomic<int> fault_gpu{-1};
  std::mutex memory_mutex;
  std::map<CudaDevicePointer, Block> blocks;
  std::map<unsigned long long, int> handles;  // of physical memory: its GPU
  unsigned long long next_handle = 1;
  // Destroyed streams live until the process ends, because their work may still be under way.
  std::mutex streams_mutex;
  std::vector<CUstream_st*> streams;
  std::map<CUctx_st*, CUstream_st*> legacy;
};

Driver& driver() {
  static Driver* const one = [] {
    auto made = std::make_unique<Driver>();
    for (int gpu = 0; gpu < kGpusMax; ++gpu) made->primaries[gpu].gpu = gpu;
    if (const char* count = std::getenv("FAKE_CUDA_GPUS")) made->gpus = std::atoi(count);
    return made.release();  // threads use it until the process ends
  }();
  return *one;
}

thread_local std::vector<CUctx_st*> contexts;

CUctx_st* current() { return contexts.empty() ? nullptr : contexts.back(); }

bool faulty(FakeFault fault, int gpu) {
  return driver().fault.load() == static_cast<int>(fault) && driver().fault_gpu.load() == gpu;
}

// A thread's capture, which calls that allocate end unless the thread's mode is relaxed.
struct Capture {
  int mode = 0;
  bool valid = true;
};
thread_local Capture capture;

void disturb_capture() {
  if (capture.mode != causeway::preload::kCudaCaptureRelaxed) capture.valid = false;
}

CUstream_st* add_stream(CUctx_st* context, bool blocking) {
  auto made = std::make_unique<CUstream_st>(context, blocking);
  const std::lock_guard lock(driver().streams_mutex);
  driver().streams.push_back(made.get());
  return made.release();
}

// The default streams by their names.
CUstream_st* real_stream(CUstream_st* stream) {
  if (reinterpret_cast<std::uintptr_t>(stream) > 2) return stream;
  CUctx_st* const context = current();
  if (context == nullptr) return nullptr;
  if (stream == causeway::preload::kThreadStream) {
    thread_local std::map<CUctx_st*, CUstream_st*> own;
    CUstream_st*& mine = own[context];
    if (mine == nullptr || mine->life != context->id.load()) mine = add_stream(context, true);
    return mine;
  }
  Driver& d = driver();
  CUstream_st* found = nullptr;
  {
    const std::lock_guard lock(d.streams_mutex);
    found = d.legacy[context];
  }
  if (found != nullptr) return found;
  CUstream_st* const made = add_stream(context, true);
  const std::lock_guard lock(d.streams_mutex);
  return d.legacy[context] = made;
}

// Blocking streams of a context and its default stream wait for each other.
std::vector<std::pair<CUstream_st*, std::int64_t>> implicit_waits(CUstream_st* stream) {
  std::vector<std::pair<CUstream_st*, std::int64_t>> waits;
  Driver& d = driver();
  const std::lock_guard lock(d.streams_mutex);
  const auto found = d.legacy.find(stream->context);
  if (!stream->blocking || found == d.legacy.end()) return waits;
  if (stream != found->second) return {{found->second, found->second->enqueued.load()}};
  for (CUstream_st* other : d.streams) {
    if (other != stream && other->blocking && other->context == stream->context) {
      waits.emplace_back(other, other->enqueued.load());
    }
  }
  return waits;
}

int enqueue(CUstream_st* named, CUstream_st::Work work) {
  const std::lock_guard lock(driver().lock);
  CUstream_st* const stream = real_stream(named);
  if (stream == nullptr) return kInvalidContext;
  stream->expect_alive();
  if (stream->context->dead.load()) return kLaunchFailed;
  if (stream->capturing.load()) return 0;
  stream->add([waits = implicit_waits(stream), work = std::move(work)] {
    for (const auto& [other, position] : waits) other->wait_for(position);
    work();
  });
  return 0;
}

const Block* block_of(CudaDevicePointer address) {
  auto& blocks = driver().blocks;
  auto found = blocks.upper_bound(address);
  if (found == blocks.begin()) return nullptr;
  --found;
  const Block& block = found->second;
  return address < block.begin + block.bytes ? &block : nullptr;
}

// Device memory must exist from end to end; every other address counts as host memory.
bool valid_range(CudaDevicePointer address, std::size_t bytes) {
  const std::lock_guard lock(driver().memory_mutex);
  const Block* block = block_of(address);
  while (block != nullptr && address + bytes > block->begin + block->bytes) {
    const CudaDevicePointer next = block->begin + block->bytes;
    if (block->type != causeway::preload::kCudaMemoryDevice) return true;
    bytes -= static_cast<std::size_t>(next - address);
    address = next;
    block = block_of(address);
    if (block == nullptr) return false;
  }
  return true;
}

int synchronize(CUstream_st* named) {
  CUstream_st* const stream = real_stream(named);
  if (stream == nullptr) return kInvalidContext;
  const std::int64_t position = stream->enqueued.load();
  while (!stream->reached(position)) {
    if (stream->context->dead.load()) return kLaunchFailed;
    nap();
  }
  return stream->context->dead.load() ? kLaunchFailed : 0;
}

// Pageable memory, and copies within the host: the processor copies.
bool waits(CudaDevicePointer target, CudaDevicePointer source) {
  const std::lock_guard lock(driver().memory_mutex);
  const Block* const to = block_of(target);
  const Block* const from = block_of(source);
  if (to == nullptr || from == nullptr) return true;
  return to->type == causeway::preload::kCudaMemoryHost && to->type == from->type;
}

int copy(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes,
         CUstream_st* named) {
  CUstream_st* const stream = real_stream(named);
  if (stream == nullptr) return kInvalidContext;
  if (!valid_range(target, bytes) || !valid_range(source, bytes)) return kInvalidValue;
  if (faulty(FakeFault::kCopiesFail, stream->context->gpu)) return kInvalidValue;
  const int result = enqueue(named, [=] {
    std::memmove(reinterpret_cast<void*>(target), reinterpret_cast<void*>(source), bytes);
  });
  if (result != 0 || stream->capturing.load()) return result;
  if (!waits(target, source)) return 0;
  const std::lock_guard lock(driver().lock);
  return synchronize(named);
}

int copy_now(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes,
             CUstream_st* named) {
  if (const int result = copy(target, source, bytes, named)) return result;
  return synchronize(named);
}

int batch(const CudaDevicePointer* targets, const CudaDevicePointer* sources,
          const std::size_t* bytes, std::size_t count, CUstream_st* stream) {
  for (std::size_t i = 0; i < count; ++i) {
    if (const int result = copy(targets[i], sources[i], bytes[i], stream)) return result;
  }
  return 0;
}

void add_block(const Block& block) {
  const std::lock_guard lock(driver().memory_mutex);
  driver().blocks[block.begin] = block;
}

void* zeroed(std::size_t bytes) {
  constexpr std::size_t kAlignment = 4096;
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, whole);
  if (memory != nullptr) std::memset(memory, 0, whole);
  return memory;
}

int free_block(CudaDevicePointer address) {
  Driver& d = driver();
  const std::lock_guard lock(d.memory_mutex);
  const auto found = d.blocks.find(address);
  if (found == d.blocks.end()) return kInvalidValue;
  if (found->second.owned) std::free(reinterpret_cast<void*>(address));
  d.blocks.erase(found);
  return 0;
}

// Called with the driver's lock held, as the real one may.
void wait_for_everything() {
  std::vector<CUstream_st*> streams;
  {
    const std::lock_guard lock(driver().streams_mutex);
    streams = driver().streams;
  }
  for (CUstream_st* stream : streams) {
    const std::int64_t position = stream->enqueued.load();
    while (!stream->reached(position) && !stream->context->dead.load()) nap();
  }
}

CudaDevicePointer address(const void* pointer) {
  return reinterpret_cast<CudaDevicePointer>(pointer);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void fake_fault(int fault, int gpu) {
  driver().fault_gpu = gpu;
  driver().fault = fault;
  if (fault == static_cast<int>(FakeFault::kContextDies)) driver().primaries[gpu].dead = true;
  if (fault != static_cast<int>(FakeFault::kNone)) return;
  for (CUctx_st& context : driver().primaries) context.dead = false;
}
extern "C" __attribute__((visibility("default"))) void fake_gpus(int count) {
  driver().gpus = count;
}

// ---- The driver itself, its devices and contexts.

FAKE cuDriverGetVersion(int* version) { return *version = 13'000, 0; }
FAKE cuInit(unsigned) { return 0; }
FAKE cuGetErrorString(int, const char** text) { return *text = "a fake driver's error", 0; }
FAKE cuDeviceGetCount(int* count) { return *count = driver().gpus, 0; }
FAKE cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
FAKE cuDeviceGetName(char* name, int length, int) {
  return std::snprintf(name, static_cast<std::size_t>(length), "fake GPU"), 0;
}
FAKE cuDeviceGetAttribute(int* value, int attribute, int) {
  return *value = attribute == causeway::device::kCudaAttributeSms ? 8 : 1, 0;
}
FAKE cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = std::size_t{1} << 33, 0; }
FAKE cuDeviceGetPCIBusId(char* id, int length, int device) {
  return std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1), 0;
}
FAKE cuDeviceCanAccessPeer(int* can, int, int) {
  return *can = driver().fault.load() == static_cast<int>(FakeFault::kNoPeers) ? 0 : 1, 0;
}
FAKE cuDevicePrimaryCtxRetain(CUctx_st** context, int device) {
  return *context = &driver().primaries[device], 0;
}
FAKE cuDevicePrimaryCtxRelease_v2(int) { return 0; }
// The next context of the same handle has another number.
FAKE cuDevicePrimaryCtxReset_v2(int device) {
  const std::lock_guard lock(driver().lock);
  wait_for_everything();
  CUctx_st& context = driver().primaries[device];
  ++context.id;
  const std::lock_guard streams(driver().streams_mutex);
  driver().legacy.erase(&context);
  return 0;
}
FAKE cuGraphInstantiateWithFlags(CUgraphExec_st**, CUgraph_st*, unsigned long long) {
  return kNotSupported;
}
// The cuGraphInstantiate of before CUDA 12.
FAKE cuGraphInstantiate_v2(CUgraphExec_st**, CUgraph_st*, void**, char*, std::size_t) {
  return kNotSupported;
}
FAKE cuDevicePrimaryCtxReset(int device) { return cuDevicePrimaryCtxReset_v2(device); }
FAKE cuCtxGetId(CUctx_st* context, unsigned long long* id) { return *id = context->id.load(), 0; }
FAKE cuCtxDestroy_v2(CUctx_st*) { return 0; }
FAKE cuCtxPushCurrent_v2(CUctx_st* context) { return contexts.push_back(context), 0; }
FAKE cuCtxPopCurrent_v2(CUctx_st** context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return 0;
}
FAKE cuCtxGetCurrent(CUctx_st** context) { return *context = current(), 0; }
FAKE cuCtxSetCurrent(CUctx_st* context) {
  if (!contexts.empty()) contexts.pop_back();
  return contexts.push_back(context), 0;
}
FAKE cuCtxSynchronize() { return wait_for_everything(), 0; }
FAKE cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}
FAKE cuThreadExchangeStreamCaptureMode(int* mode) { return std::swap(*mode, capture.mode), 0; }
FAKE cuModuleUnload(CUmod_st*) { return 0; }
FAKE cuLibraryUnload(CUlib_st*) { return 0; }
FAKE cuLibraryLoadData(CUlib_st**, const void*, int*, void**, unsigned, int*, void**, unsigned) {
  return kNotSupported;
}
FAKE cuLibraryGetKernel(CUkern_st**, CUlib_st*, const char*) { return kNotSupported; }
FAKE cuKernelGetFunction(CUfunc_st**, CUkern_st*) { return kNotSupported; }
FAKE cuFuncLoad(CUfunc_st*) { return kNotSupported; }
// A kernel that does nothing. Its first launch loads it: the driver waits for all streams.
FAKE cuLaunchKernel(CUfunc_st* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    unsigned, CUstream_st* stream, void**, void**) {
  static std::set<CUfunc_st*> loaded;
  {
    const std::lock_guard lock(driver().lock);
    if (loaded.insert(function).second) wait_for_everything();
  }
  return enqueue(stream, [] {});
}
FAKE cuDeviceGetDevResource(int, CudaResource*, int) { return kNotSupported; }
FAKE cuDevSmResourceSplitByCount(CudaResource*, unsigned*, const CudaResource*, CudaResource*,
                                 unsigned, unsigned) {
  return kNotSupported;
}
FAKE cuDevResourceGenerateDesc(CUdevResourceDesc_st**, CudaResource*, unsigned) {
  return kNotSupported;
}
FAKE cuGreenCtxCreate(CUgreenCtx_st**, CUdevResourceDesc_st*, int, unsigned) {
  return kNotSupported;
}
FAKE cuGreenCtxDestroy(CUgreenCtx_st*) { return kNotSupported; }
FAKE cuCtxFromGreenCtx(CUctx_st**, CUgreenCtx_st*) { return kNotSupported; }
FAKE cuGreenCtxStreamCreate(CUstream_st**, CUgreenCtx_st*, unsigned, int) { return kNotSupported; }

// ---- Memory.

FAKE cuMemAlloc_v2(CudaDevicePointer* memory, std::size_t bytes) {
  if (current() == nullptr) return kInvalidContext;
  *memory = address(zeroed(bytes));
  add_block({*memory, bytes, causeway::preload::kCudaMemoryDevice, false, current()->gpu, current(),
             true});
  return 0;
}
FAKE cuMemAllocManaged(CudaDevicePointer* memory, std::size_t bytes, unsigned) {
  if (current() == nullptr) return kInvalidContext;
  *memory = address(zeroed(bytes));
  add_block({*memory, bytes, causeway::preload::kCudaMemoryDevice, true, current()->gpu, current(),
             true});
  return 0;
}
FAKE cuMemAllocFromPoolAsync(CudaDevicePointer* memory, std::size_t bytes, void* pool,
                             CUstream_st*) {
  *memory = address(zeroed(bytes));
  add_block({*memory, bytes, causeway::preload::kCudaMemoryDevice, false, current()->gpu, nullptr,
             true, pool});
  return 0;
}
FAKE cuMemFree_v2(CudaDevicePointer memory) {
  const std::lock_guard lock(driver().lock);
  wait_for_everything();
  return free_block(memory);
}
FAKE cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = zeroed(bytes);
  add_block(
      {address(*memory), bytes, causeway::preload::kCudaMemoryHost, false, 0, current(), true});
  return 0;
}
FAKE cuMemFreeHost(void* memory) {
  const std::lock_guard lock(driver().lock);
  wait_for_everything();
  return free_block(address(memory));
}
FAKE cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  Block block{address(memory), bytes, causeway::preload::kCudaMemoryHost, false, 0,
              current(),       false};
  const bool portable = (flags & causeway::device::kCudaRegisterPortable) != 0;
  if (!portable) block.pinned_for = current();
  add_block(block);
  return 0;
}
FAKE cuMemHostUnregister(void* memory) { return free_block(address(memory)); }
FAKE cuMemHostGetDevicePointer_v2(CudaDevicePointer* pointer, void* memory, unsigned) {
  return *pointer = address(memory), 0;
}
FAKE cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 33;
  return 0;
}
FAKE cuMemAddressReserve(CudaDevicePointer* memory, std::size_t bytes, std::size_t,
                         CudaDevicePointer, unsigned long long) {
  return *memory = address(zeroed(bytes)), 0;
}
FAKE cuMemAddressFree(CudaDevicePointer memory, std::size_t) {
  std::free(reinterpret_cast<void*>(memory));
  return 0;
}
FAKE cuMemCreate(unsigned long long* handle, std::size_t, const CudaMemoryProperties* properties,
                 unsigned long long) {
  if (faulty(FakeFault::kNoMemory, properties->location.id)) return kOutOfMemory;
  const std::lock_guard lock(driver().memory_mutex);
  *handle = driver().next_handle++;
  driver().handles[*handle] = properties->location.id;
  return 0;
}
FAKE cuMemRelease(unsigned long long) { return 0; }
FAKE cuMemMap(CudaDevicePointer memory, std::size_t bytes, std::size_t, unsigned long long handle,
              unsigned long long) {
  int gpu = 0;
  {
    const std::lock_guard lock(driver().memory_mutex);
    gpu = driver().handles.at(handle);
  }
  add_block({memory, bytes, causeway::preload::kCudaMemoryDevice, false, gpu, nullptr, false});
  return 0;
}
FAKE cuMemUnmap(CudaDevicePointer memory, std::size_t) { return free_block(memory); }
FAKE cuMemSetAccess(CudaDevicePointer memory, std::size_t bytes, const CudaMemoryAccess* access,
                    std::size_t count) {
  const std::lock_guard lock(driver().memory_mutex);
  auto& blocks = driver().blocks;
  for (auto at = blocks.lower_bound(memory); at != blocks.end() && at->first < memory + bytes;
       ++at) {
    for (std::size_t i = 0; i < count; ++i) {
      const int gpu = access[i].location.id;
      at->second.access.erase(gpu);
      if (access[i].flags == causeway::device::kCudaAccessReadWrite) at->second.access.insert(gpu);
    }
  }
  return 0;
}
FAKE cuMemGetAccess(unsigned long long* flags, const CudaMemoryLocation* location,
                    CudaDevicePointer memory) {
  const std::lock_guard lock(driver().memory_mutex);
  const Block* const found = block_of(memory);
  if (found == nullptr || found->context != nullptr || found->pool != nullptr) {
    return kInvalidValue;
  }
  *flags = found->access.contains(location->id) ? 3 : 0;
  return 0;
}
FAKE cuPointerGetAttributes(unsigned count, int* attributes, void** values,
                            CudaDevicePointer pointer) {
  const std::lock_guard lock(driver().memory_mutex);
  const Block* const found = block_of(pointer);
  const Block block = found == nullptr ? Block() : *found;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case 1: *static_cast<CUctx_st**>(values[i]) = block.context; break;
      case 2: *static_cast<unsigned*>(values[i]) = block.type; break;
      case 3: {
        const bool seen = block.pinned_for == nullptr || block.pinned_for == current();
        *static_cast<CudaDevicePointer*>(values[i]) = seen ? pointer : 0;
        break;
      }
      case 8: *static_cast<unsigned*>(values[i]) = block.managed ? 1 : 0; break;
      case 9: *static_cast<int*>(values[i]) = found == nullptr ? -2 : block.gpu; break;
      case 11: *static_cast<CudaDevicePointer*>(values[i]) = block.begin; break;
      case 12: *static_cast<std::size_t*>(values[i]) = block.bytes; break;
      case 17: *static_cast<void**>(values[i]) = block.pool; break;
      default: return kInvalidValue;
    }
  }
  return 0;
}

// ---- Streams and events.

FAKE cuStreamCreateWithPriority(CUstream_st** stream, unsigned flags, int) {
  const std::lock_guard lock(driver().lock);
  if (current() == nullptr) return kInvalidContext;
  disturb_capture();
  return *stream = add_stream(current(), flags == 0), 0;
}
FAKE cuStreamDestroy_v2(CUstream_st* stream) {
  stream->expect_alive();
  return 0;  // ends with the process
}
FAKE cuStreamQuery(CUstream_st* named) {
  const std::lock_guard lock(driver().lock);
  CUstream_st* const stream = real_stream(named);
  if (stream == nullptr) return kInvalidContext;
  if (stream->context->dead.load()) return kLaunchFailed;
  return stream->reached(stream->enqueued.load()) ? 0 : kNotReady;
}
FAKE cuStreamSynchronize(CUstream_st* stream) { return synchronize(stream); }
FAKE cuStreamIsCapturing(CUstream_st* named, int* status) {
  CUstream_st* const stream = real_stream(named);
  if (stream == nullptr) return kInvalidContext;
  return *status = stream->capturing.load() ? 1 : 0, 0;
}
FAKE cuStreamBeginCapture_v2(CUstream_st* stream, int) {
  capture.valid = true;
  return stream->capturing = true, 0;
}
FAKE cuStreamEndCapture(CUstream_st* stream, void** graph) {
  *graph = nullptr;
  stream->capturing = false;
  return capture.valid ? 0 : kCaptureInvalidated;
}
FAKE cuStreamWaitEvent(CUstream_st* stream, CUevent_st* event, unsigned) {
  CUstream_st* const other = event->stream;
  const std::int64_t position = event->position;
  if (other == nullptr) return 0;
  return enqueue(stream, [=] { other->wait_for(position); });
}
FAKE cuEventCreate(CUevent_st** event, unsigned) {
  auto made = std::make_unique<CUevent_st>();
  made->context = current();
  return *event = made.release(), 0;
}
FAKE cuEventDestroy_v2(CUevent_st* event) {
  const std::unique_ptr<CUevent_st> owned(event);
  return 0;
}
FAKE cuStreamGetCtx(CUstream_st* stream, CUctx_st** context) {
  return *context = stream->context, 0;
}
FAKE cuEventRecord(CUevent_st* event, CUstream_st* named) {
  CUstream_st* const stream = real_stream(named);
  if (stream != nullptr && event->context != stream->context) return kInvalidHandle;
  if (const int result = enqueue(named, [] {})) return result;
  event->stream = real_stream(named);
  event->position = event->stream->enqueued.load();
  return 0;
}
FAKE cuEventQuery(CUevent_st* event) {
  const std::lock_guard lock(driver().lock);
  if (event->context != nullptr && event->context->dead.load()) return kLaunchFailed;
  return event->stream == nullptr || event->stream->reached(event->position) ? 0 : kNotReady;
}
FAKE cuEventElapsedTime_v2(float* milliseconds, CUevent_st*, CUevent_st*) {
  return *milliseconds = 0, 0;
}
FAKE cuLaunchHostFunc(CUstream_st* stream, void (*function)(void*), void* argument) {
  return enqueue(stream, [=] { function(argument); });
}
FAKE cuStreamBatchMemOp_v2(CUstream_st* named, unsigned count, CudaMemoryOperation* operations,
                           unsigned) {
  if (driver().fault.load() == static_cast<int>(FakeFault::kNoStandIns)) return kNotSupported;
  const std::vector<CudaMemoryOperation> all(operations, operations + count);
  CUstream_st* const stream = real_stream(named);
  if (stream == nullptr) return kInvalidContext;
  return enqueue(named, [all, context = stream->context] {
    for (const CudaMemoryOperation& operation : all) {
      auto* const word = reinterpret_cast<std::atomic<std::uint32_t>*>(operation.address);
      const auto value = static_cast<std::uint32_t>(operation.value);
      if (operation.operation == causeway::preload::kCudaWriteValue32) {
        word->store(value);
        continue;
      }
      while (static_cast<std::int32_t>(word->load() - value) < 0 && !context->dead.load()) nap();
    }
  });
}
// Entries of device/cuda's table that the preload library does not call.
FAKE cuStreamWaitValue32_v2(CUstream_st*, CudaDevicePointer, unsigned, unsigned) {
  return kNotSupported;
}
FAKE cuStreamWriteValue32_v2(CUstream_st*, CudaDevicePointer, unsigned, unsigned) {
  return kNotSupported;
}

// ---- Copies.

FAKE cuMemsetD8Async(CudaDevicePointer target, unsigned char value, std::size_t bytes,
                     CUstream_st* stream) {
  if (!valid_range(target, bytes)) return kInvalidValue;
  return enqueue(stream, [=] { std::memset(reinterpret_cast<void*>(target), value, bytes); });
}
FAKE cuMemcpy(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes) {
  return copy_now(target, source, bytes, nullptr);
}
FAKE cuMemcpy_ptds(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes) {
  return copy_now(target, source, bytes, causeway::preload::kThreadStream);
}
FAKE cuMemcpyHtoD_v2(CudaDevicePointer target, const void* source, std::size_t bytes) {
  return copy_now(target, address(source), bytes, nullptr);
}
FAKE cuMemcpyHtoD_v2_ptds(CudaDevicePointer target, const void* source, std::size_t bytes) {
  return copy_now(target, address(source), bytes, causeway::preload::kThreadStream);
}
FAKE cuMemcpyDtoH_v2(void* target, CudaDevicePointer source, std::size_t bytes) {
  return copy_now(address(target), source, bytes, nullptr);
}
FAKE cuMemcpyDtoH_v2_ptds(void* target, CudaDevicePointer source, std::size_t bytes) {
  return copy_now(address(target), source, bytes, causeway::preload::kThreadStream);
}
FAKE cuMemcpyAsync(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes,
                   CUstream_st* stream) {
  return copy(target, source, bytes, stream);
}
FAKE cuMemcpyAsync_ptsz(CudaDevicePointer target, CudaDevicePointer source, std::size_t bytes,
                        CUstream_st* stream) {
  return copy(target, source, bytes, stream != nullptr ? stream : causeway::preload::kThreadStream);
}
FAKE cuMemcpyHtoDAsync_v2(CudaDevicePointer target, const void* source, std::size_t bytes,
                          CUstream_st* stream) {
  return copy(target, address(source), bytes, stream);
}
FAKE cuMemcpyHtoDAsync_v2_ptsz(CudaDevicePointer target, const void* source, std::size_t bytes,
                               CUstream_st* stream) {
  return copy(target, address(source), bytes,
              stream != nullptr ? stream : causeway::preload::kThreadStream);
}
FAKE cuMemcpyDtoHAsync_v2(void* target, CudaDevicePointer source, std::size_t bytes,
                          CUstream_st* stream) {
  return copy(address(target), source, bytes, stream);
}
FAKE cuMemcpyDtoHAsync_v2_ptsz(void* target, CudaDevicePointer source, std::size_t bytes,
                               CUstream_st* stream) {
  return copy(address(target), source, bytes,
              stream != nullptr ? stream : causeway::preload::kThreadStream);
}
FAKE cuMemcpyBatchAsync(CudaDevicePointer* targets, CudaDevicePointer* sources, std::size_t* bytes,
                        std::size_t count, CudaCopyAttributes*, std::size_t*, std::size_t,
                        std::size_t*, CUstream_st* stream) {
  return batch(targets, sources, bytes, count, stream);
}
FAKE cuMemcpyBatchAsync_v2(CudaDevicePointer* targets, CudaDevicePointer* sources,
                           std::size_t* bytes, std::size_t count, CudaCopyAttributes*, std::size_t*,
                           std::size_t, CUstream_st* stream) {
  return batch(targets, sources, bytes, count, stream);
}

#include "preload/testing/fake_lookup.inc"
