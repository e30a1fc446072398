// The symbols that programs see: the driver's copies, the calls that may wait for copies, and the
// two ways to look functions up. Programs that link libcuda use the exported symbols. The CUDA
// runtime, shared or static, opens libcuda, asks dlsym() for cuGetProcAddress and that for
// everything else, so that hooking these two covers it without a runtime symbol.
//
// Only libcauseway-preload.so has these; the library that tests link does not.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "preload/library/process.h"
#include "preload/library/real_dlsym.h"

#include "base/dcheck.h"

#define CAUSEWAY_EXPORT extern "C" __attribute__((visibility("default")))

using namespace causeway::preload;
using causeway::device::CudaApi;

namespace {

constexpr int kNotFound = 500;  // CUDA_ERROR_NOT_FOUND
constexpr unsigned long long kPerThreadFlag = 2;

CUstream_st* legacy(CUstream_st* stream) { return stream == nullptr ? kLegacyStream : stream; }
CUstream_st* per_thread(CUstream_st* stream) { return stream == nullptr ? kThreadStream : stream; }

CudaDevicePointer address(CudaDevicePointer pointer) { return pointer; }
CudaDevicePointer address(const void* pointer) {
  return reinterpret_cast<CudaDevicePointer>(pointer);
}

// Whether each copy's source may be read in the order of the stream.
bool orders_allow(const CudaCopyAttributes* attributes, std::size_t count) {
  constexpr int kAny = 3;
  for (std::size_t i = 0; i < count; ++i) {
    const int order = attributes[i].source_order;
    if (order != causeway::device::kCudaSourceOrderStream && order != kAny) return false;
  }
  return true;
}

constexpr std::size_t kCountMax = std::size_t{1} << 20;  // larger batches are the driver's

struct Batch {
  const CudaDevicePointer* targets;
  const CudaDevicePointer* sources;
  const std::size_t* bytes;
  std::size_t count;
};

std::vector<CopyCall> calls_of(const Batch& batch) {
  CAUSEWAY_DCHECK(batch.count <= kCountMax && batch.targets != nullptr &&
                      batch.sources != nullptr && batch.bytes != nullptr,
                  "a batch that the driver would refuse is not looked into");
  std::vector<CopyCall> calls;
  for (std::size_t i = 0; i < batch.count; ++i) {
    calls.push_back({batch.targets[i], batch.sources[i], batch.bytes[i]});
  }
  return calls;
}

template <typename Function>
Function entry_of(const Native& native, Function Native::*member) {
  return native.*member;
}
template <typename Function>
Function entry_of(const Native& native, Function CudaApi::*member) {
  return native.api.*member;
}

// Calls the driver's own function. The driver is loaded, because the program calls a function of
// it.
template <typename Member, typename... Arguments>
int native_call(Member member, Arguments... arguments) {
  const Native* const native = Process::get().native();
  if (native == nullptr || entry_of(*native, member) == nullptr) return kNotFound;
  return entry_of(*native, member)(arguments...);
}

// The open session if its settings allow holding streams, or nullptr.
Session* holding_session() {
  Session* const session = Process::get().session();
  return session != nullptr && session->holds() ? session : nullptr;
}

// Makes the call once no stream is held, or after `most`.
template <typename Member, typename... Arguments>
int settled_call(causeway::Nanos most, Member member, Arguments... arguments) {
  Session* const session = holding_session();
  if (session == nullptr) return native_call(member, arguments...);
  if (const int failure = session->failure()) return failure;
  const Session::Settled settled(*session, most);
  return native_call(member, arguments...);
}

// The memory type of an address; 0: pageable.
unsigned type_of(const Native& native, CudaDevicePointer pointer) {
  unsigned type = kCudaMemoryDevice;
  int attribute = kCudaPointerMemoryType;
  void* value = &type;
  const int result = native.cuPointerGetAttributes(1, &attribute, &value, pointer);
  return result == 0 ? type : kCudaMemoryDevice;
}

// Whether the driver's copy returns only when it is done. That is so for synchronous copies except
// those within or between GPUs, and for asynchronous ones that the processor takes part in: these
// wait for earlier work of their stream.
bool waits(const Native& native, const CopyCall& call, bool synchronous) {
  const unsigned to = type_of(native, call.target), from = type_of(native, call.source);
  if (synchronous) return to != kCudaMemoryDevice || from != kCudaMemoryDevice;
  return to == 0 || from == 0 || (to == kCudaMemoryHost && from == kCudaMemoryHost);
}

// Makes a copy that was not taken over. A copy that waits in the driver behind a held stream would
// keep the engine out of the driver (docs/decisions/0005-stand-in.md).
template <typename Member, typename... Arguments>
int left_copies(std::span<const CopyCall> copies, CUstream_st* stream, bool synchronous,
                Member member, Arguments... arguments) {
  Session* const session = holding_session();
  if (session == nullptr) return native_call(member, arguments...);
  if (const int failure = session->failure()) return failure;
  CAUSEWAY_DCHECK(Process::get().native() != nullptr, "a session without the driver's functions");
  const Native& native = *Process::get().native();
  const bool any = std::any_of(copies.begin(), copies.end(), [&](const CopyCall& call) {
    return waits(native, call, synchronous);
  });
  if (!any || is_capturing(native, stream)) return native_call(member, arguments...);
  const Session::Settled settled(*session);
  if (const auto result = session->copy_outside(copies, stream)) return *result;
  return native_call(member, arguments...);
}

// A copy in the program's stream `named`; null streams go by their names. `rest`: the arguments of
// the call that follow the number of bytes.
template <typename Member, typename Target, typename Source, typename... Rest>
int copy_call(CUstream_st* named, bool synchronous, Member member, Target target, Source source,
              std::size_t bytes, Rest... rest) {
  CAUSEWAY_DCHECK(named != nullptr, "null streams go by their names");
  const CopyCall call{address(target), address(source), bytes};
  if (!Process::is_small(bytes)) {
    if (const auto result = Process::get().copy({&call, 1}, named, synchronous)) return *result;
  }
  return left_copies({&call, 1}, named, synchronous, member, target, source, bytes, rest...);
}

// Null streams and other wrong arguments are errors of these functions, which the driver reports.
template <typename Member, typename... Arguments>
int batch_call(const Batch& batch, const CudaCopyAttributes* attributes,
               std::size_t attribute_count, CUstream_st* stream, Member member,
               Arguments... arguments) {
  if (batch.count == 0 || batch.count > kCountMax || batch.targets == nullptr ||
      batch.sources == nullptr || batch.bytes == nullptr || attributes == nullptr ||
      stream == nullptr) {
    return native_call(member, arguments...);
  }
  const bool large =
      !Process::is_small(std::accumulate(batch.bytes, batch.bytes + batch.count, std::size_t{0})) &&
      attribute_count > 0 && attribute_count <= batch.count &&
      orders_allow(attributes, attribute_count);
  if (!large && !Process::get().holds()) return native_call(member, arguments...);
  const std::vector<CopyCall> calls = calls_of(batch);
  if (large) {
    if (const auto result = Process::get().copy(calls, stream, false)) return *result;
  }
  return left_copies(calls, stream, false, member, arguments...);
}

// Code that is loaded already, as far as was seen: kernels, each in its context, and executable
// graphs.
class LoadedCode {
 public:
  using Code = std::pair<CUctx_st*, const void*>;  // of a graph: without its context

  static LoadedCode& get() {
    static auto& one = *std::make_unique<LoadedCode>().release();  // never destroyed
    return one;
  }
  bool has(const Code& code) {
    const std::lock_guard lock(mutex_);
    return loaded_.contains(code);
  }
  void add(const Code& code) {
    const std::lock_guard lock(mutex_);
    loaded_.insert(code);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    loaded_.clear();
  }
  void remove(const Code& code) {
    const std::lock_guard lock(mutex_);
    loaded_.erase(code);
  }

 private:
  std::mutex mutex_;
  std::set<Code> loaded_;
};

template <typename Member, typename... Arguments>
int launch_of(const LoadedCode::Code& code, Member member, Arguments... arguments) {
  if (LoadedCode::get().has(code)) return native_call(member, arguments...);
  const int result = settled_call(Session::kShortWait, member, arguments...);
  // It is added only now: added earlier, another thread's first launch meanwhile would not wait.
  if (result == 0) LoadedCode::get().add(code);
  return result;
}

template <typename Member, typename... Arguments>
int launch_call(CUfunc_st* function, Member member, Arguments... arguments) {
  CUctx_st* context = nullptr;
  if (holding_session() == nullptr || Process::get().native()->api.cuCtxGetCurrent(&context) != 0) {
    return native_call(member, arguments...);
  }
  return launch_of({context, function}, member, arguments...);
}

template <typename Member>
int graph_launch(Member member, CUgraphExec_st* graph, CUstream_st* stream) {
  if (holding_session() == nullptr) return native_call(member, graph, stream);
  return launch_of({nullptr, graph}, member, graph, stream);
}

template <typename Member, typename... Arguments>
int make_graph(Member member, CUgraphExec_st** made, Arguments... arguments) {
  const int result = settled_call(Session::kShortWait, member, made, arguments...);
  if (result == 0 && made != nullptr) LoadedCode::get().remove({nullptr, *made});
  return result;
}

}  // namespace

CAUSEWAY_EXPORT int cuMemcpy(CudaDevicePointer target, CudaDevicePointer source,
                             std::size_t bytes) {
  return copy_call(kLegacyStream, true, &Native::cuMemcpy, target, source, bytes);
}
CAUSEWAY_EXPORT int cuMemcpy_ptds(CudaDevicePointer target, CudaDevicePointer source,
                                  std::size_t bytes) {
  return copy_call(kThreadStream, true, &Native::cuMemcpy_ptds, target, source, bytes);
}
CAUSEWAY_EXPORT int cuMemcpyHtoD_v2(CudaDevicePointer target, const void* source,
                                    std::size_t bytes) {
  return copy_call(kLegacyStream, true, &Native::cuMemcpyHtoD_v2, target, source, bytes);
}
CAUSEWAY_EXPORT int cuMemcpyHtoD_v2_ptds(CudaDevicePointer target, const void* source,
                                         std::size_t bytes) {
  return copy_call(kThreadStream, true, &Native::cuMemcpyHtoD_v2_ptds, target, source, bytes);
}
CAUSEWAY_EXPORT int cuMemcpyDtoH_v2(void* target, CudaDevicePointer source, std::size_t bytes) {
  return copy_call(kLegacyStream, true, &Native::cuMemcpyDtoH_v2, target, source, bytes);
}
CAUSEWAY_EXPORT int cuMemcpyDtoH_v2_ptds(void* target, CudaDevicePointer source,
                                         std::size_t bytes) {
  return copy_call(kThreadStream, true, &Native::cuMemcpyDtoH_v2_ptds, target, source, bytes);
}

CAUSEWAY_EXPORT int cuMemcpyAsync(CudaDevicePointer target, CudaDevicePointer source,
                                  std::size_t bytes, CUstream_st* stream) {
  return copy_call(legacy(stream), false, &CudaApi::cuMemcpyAsync, target, source, bytes, stream);
}
CAUSEWAY_EXPORT int cuMemcpyAsync_ptsz(CudaDevicePointer target, CudaDevicePointer source,
                                       std::size_t bytes, CUstream_st* stream) {
  return copy_call(per_thread(stream), false, &Native::cuMemcpyAsync_ptsz, target, source, bytes,
                   stream);
}
CAUSEWAY_EXPORT int cuMemcpyHtoDAsync_v2(CudaDevicePointer target, const void* source,
                                         std::size_t bytes, CUstream_st* stream) {
  return copy_call(legacy(stream), false, &Native::cuMemcpyHtoDAsync_v2, target, source, bytes,
                   stream);
}
CAUSEWAY_EXPORT int cuMemcpyHtoDAsync_v2_ptsz(CudaDevicePointer target, const void* source,
                                              std::size_t bytes, CUstream_st* stream) {
  return copy_call(per_thread(stream), false, &Native::cuMemcpyHtoDAsync_v2_ptsz, target, source,
                   bytes, stream);
}
CAUSEWAY_EXPORT int cuMemcpyDtoHAsync_v2(void* target, CudaDevicePointer source, std::size_t bytes,
                                         CUstream_st* stream) {
  return copy_call(legacy(stream), false, &Native::cuMemcpyDtoHAsync_v2, target, source, bytes,
                   stream);
}
CAUSEWAY_EXPORT int cuMemcpyDtoHAsync_v2_ptsz(void* target, CudaDevicePointer source,
                                              std::size_t bytes, CUstream_st* stream) {
  return copy_call(per_thread(stream), false, &Native::cuMemcpyDtoHAsync_v2_ptsz, target, source,
                   bytes, stream);
}

#define CAUSEWAY_BARE(...) __VA_ARGS__
#define CAUSEWAY_BATCH_HOOK(table, name, parameters, arguments)                              \
  CAUSEWAY_EXPORT int name parameters {                                                      \
    return batch_call({targets, sources, bytes, count}, attributes, attribute_count, stream, \
                      &table::name, CAUSEWAY_BARE arguments);                                \
  }
#define CAUSEWAY_PRELOAD_BATCH_HOOK(name, parameters, arguments) \
  CAUSEWAY_BATCH_HOOK(Native, name, parameters, arguments)
CAUSEWAY_PRELOAD_BATCHES(CAUSEWAY_PRELOAD_BATCH_HOOK)
CAUSEWAY_BATCH_HOOK(CudaApi, cuMemcpyBatchAsync_v2,
                    (CudaDevicePointer * targets, CudaDevicePointer* sources, std::size_t* bytes,
                     std::size_t count, CudaCopyAttributes* attributes,
                     std::size_t* first_of_attributes, std::size_t attribute_count,
                     CUstream_st* stream),
                    (targets, sources, bytes, count, attributes, first_of_attributes,
                     attribute_count, stream))

#define CAUSEWAY_SETTLED_HOOK(until, name, parameters, arguments)       \
  CAUSEWAY_EXPORT int name parameters {                                 \
    return settled_call(until, &Native::name, CAUSEWAY_BARE arguments); \
  }
#define CAUSEWAY_PRELOAD_SETTLING_HOOK(name, parameters, arguments) \
  CAUSEWAY_SETTLED_HOOK(Session::kUntilIdle, name, parameters, arguments)
// A kernel that is loaded after an unloaded one may have its address.
#define CAUSEWAY_PRELOAD_UNLOADING_HOOK(name, parameters, arguments)                              \
  CAUSEWAY_EXPORT int name parameters {                                                           \
    const int result = settled_call(Session::kUntilIdle, &Native::name, CAUSEWAY_BARE arguments); \
    LoadedCode::get().clear();                                                                    \
    return result;                                                                                \
  }
#define CAUSEWAY_PRELOAD_LOADING_HOOK(name, parameters, arguments) \
  CAUSEWAY_SETTLED_HOOK(Session::kShortWait, name, parameters, arguments)
CAUSEWAY_PRELOAD_SETTLING(CAUSEWAY_PRELOAD_SETTLING_HOOK)
CAUSEWAY_PRELOAD_UNLOADING(CAUSEWAY_PRELOAD_UNLOADING_HOOK)
CAUSEWAY_PRELOAD_LOADING(CAUSEWAY_PRELOAD_LOADING_HOOK)
#define CAUSEWAY_PRELOAD_GRAPH_HOOK(name, parameters, arguments) \
  CAUSEWAY_EXPORT int name parameters { return make_graph(&Native::name, CAUSEWAY_BARE arguments); }
CAUSEWAY_PRELOAD_GRAPHS(CAUSEWAY_PRELOAD_GRAPH_HOOK)

CAUSEWAY_EXPORT int cuMemHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  return settled_call(Session::kShortWait, &Native::cuMemHostAlloc, address, bytes, flags);
}
CAUSEWAY_EXPORT int cuMemHostRegister_v2(void* address, std::size_t bytes, unsigned flags) {
  return settled_call(Session::kShortWait, &CudaApi::cuMemHostRegister_v2, address, bytes, flags);
}
CAUSEWAY_EXPORT int cuMemHostUnregister(void* address) {
  return settled_call(Session::kUntilIdle, &CudaApi::cuMemHostUnregister, address);
}
CAUSEWAY_EXPORT int cuLibraryLoadData(CUlib_st** library, const void* code, int* jit_options,
                                      void** jit_values, unsigned jit_count, int* options,
                                      void** values, unsigned count) {
  return settled_call(Session::kShortWait, &Native::cuLibraryLoadData, library, code, jit_options,
                      jit_values, jit_count, options, values, count);
}
CAUSEWAY_EXPORT int cuKernelGetFunction(CUfunc_st** function, CUkern_st* kernel) {
  return settled_call(Session::kShortWait, &Native::cuKernelGetFunction, function, kernel);
}
CAUSEWAY_EXPORT int cuFuncLoad(CUfunc_st* function) {
  return settled_call(Session::kShortWait, &Native::cuFuncLoad, function);
}

CAUSEWAY_EXPORT int cuLaunchKernel(CUfunc_st* function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream_st* stream,
                                   void** parameters, void** extra) {
  return launch_call(function, &Native::cuLaunchKernel, function, grid_x, grid_y, grid_z, block_x,
                     block_y, block_z, shared_bytes, stream, parameters, extra);
}
CAUSEWAY_EXPORT int cuLaunchKernel_ptsz(CUfunc_st* function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned shared_bytes,
                                        CUstream_st* stream, void** parameters, void** extra) {
  return launch_call(function, &Native::cuLaunchKernel_ptsz, function, grid_x, grid_y, grid_z,
                     block_x, block_y, block_z, shared_bytes, stream, parameters, extra);
}
CAUSEWAY_EXPORT int cuLaunchKernelEx(const void* settings, CUfunc_st* function, void** parameters,
                                     void** extra) {
  return launch_call(function, &Native::cuLaunchKernelEx, settings, function, parameters, extra);
}
CAUSEWAY_EXPORT int cuLaunchKernelEx_ptsz(const void* settings, CUfunc_st* function,
                                          void** parameters, void** extra) {
  return launch_call(function, &Native::cuLaunchKernelEx_ptsz, settings, function, parameters,
                     extra);
}
CAUSEWAY_EXPORT int cuLaunchCooperativeKernel(CUfunc_st* function, unsigned grid_x, unsigned grid_y,
                                              unsigned grid_z, unsigned block_x, unsigned block_y,
                                              unsigned block_z, unsigned shared_bytes,
                                              CUstream_st* stream, void** parameters) {
  return launch_call(function, &Native::cuLaunchCooperativeKernel, function, grid_x, grid_y, grid_z,
                     block_x, block_y, block_z, shared_bytes, stream, parameters);
}
CAUSEWAY_EXPORT int cuLaunchCooperativeKernel_ptsz(CUfunc_st* function, unsigned grid_x,
                                                   unsigned grid_y, unsigned grid_z,
                                                   unsigned block_x, unsigned block_y,
                                                   unsigned block_z, unsigned shared_bytes,
                                                   CUstream_st* stream, void** parameters) {
  return launch_call(function, &Native::cuLaunchCooperativeKernel_ptsz, function, grid_x, grid_y,
                     grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters);
}
CAUSEWAY_EXPORT int cuGraphLaunch(CUgraphExec_st* graph, CUstream_st* stream) {
  return graph_launch(&Native::cuGraphLaunch, graph, stream);
}
CAUSEWAY_EXPORT int cuGraphLaunch_ptsz(CUgraphExec_st* graph, CUstream_st* stream) {
  return graph_launch(&Native::cuGraphLaunch_ptsz, graph, stream);
}

// Our streams, flags and staging memory are destroyed with the context.
CAUSEWAY_EXPORT int cuDevicePrimaryCtxReset(int device) {
  Process::get().retire();
  return native_call(&Native::cuDevicePrimaryCtxReset, device);
}
CAUSEWAY_EXPORT int cuDevicePrimaryCtxReset_v2(int device) {
  Process::get().retire();
  return native_call(&Native::cuDevicePrimaryCtxReset_v2, device);
}

CAUSEWAY_EXPORT int cuGetProcAddress(const char* name, void** found, int version,
                                     std::uint64_t flags);
CAUSEWAY_EXPORT int cuGetProcAddress_v2(const char* name, void** found, int version,
                                        std::uint64_t flags, int* status);

namespace {

enum class Threading { kEither, kLegacy, kPerThread };

// A hooked function: its symbol, and the name that cuGetProcAddress knows it by.
struct Hook {
  const char* symbol;
  const char* base;
  int version_min;
  int version_max;
  Threading threading;
  void* ours;
  void* (*theirs)(const Native& native);
  bool for_holding = false;  // hooked only when streams may be held
};

constexpr int kAnyVersion = 1'000'000;

#define CAUSEWAY_HOOK_OF(name, member, base, least, most, threading)                    \
  {                                                                                     \
#name, base, least, most, Threading::threading, reinterpret_cast < void*>(&::name), \
        [](const Native& native) { return reinterpret_cast<void*>(native.member); }     \
  }
#define CAUSEWAY_HOOK(name, base, least, most, threading) \
  CAUSEWAY_HOOK_OF(name, name, base, least, most, threading)
#define CAUSEWAY_HOLDING_HOOK_OF(name, member, base, least, threading)                         \
  {                                                                                            \
#name, base, least, kAnyVersion, Threading::threading, reinterpret_cast < void*>(&::name), \
        [](const Native& native) { return reinterpret_cast<void*>(native.member); }, true      \
  }
#define CAUSEWAY_HOLDING_HOOK(name, base, least, threading) \
  CAUSEWAY_HOLDING_HOOK_OF(name, name, base, least, threading)

const Hook kHooks[] = {
    CAUSEWAY_HOOK(cuGetProcAddress, "cuGetProcAddress", 11'030, 11'999, kEither),
    CAUSEWAY_HOOK(cuGetProcAddress_v2, "cuGetProcAddress", 12'000, kAnyVersion, kEither),
    CAUSEWAY_HOOK(cuMemcpy, "cuMemcpy", 4'000, kAnyVersion, kLegacy),
    CAUSEWAY_HOOK(cuMemcpy_ptds, "cuMemcpy", 7'000, kAnyVersion, kPerThread),
    CAUSEWAY_HOOK_OF(cuMemcpyAsync, api.cuMemcpyAsync, "cuMemcpyAsync", 4'000, kAnyVersion,
                     kLegacy),
    CAUSEWAY_HOOK(cuMemcpyAsync_ptsz, "cuMemcpyAsync", 7'000, kAnyVersion, kPerThread),
    CAUSEWAY_HOOK(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3'020, kAnyVersion, kLegacy),
    CAUSEWAY_HOOK(cuMemcpyHtoD_v2_ptds, "cuMemcpyHtoD", 7'000, kAnyVersion, kPerThread),
    CAUSEWAY_HOOK(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3'020, kAnyVersion, kLegacy),
    CAUSEWAY_HOOK(cuMemcpyDtoH_v2_ptds, "cuMemcpyDtoH", 7'000, kAnyVersion, kPerThread),
    CAUSEWAY_HOOK(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3'020, kAnyVersion, kLegacy),
    CAUSEWAY_HOOK(cuMemcpyHtoDAsync_v2_ptsz, "cuMemcpyHtoDAsync", 7'000, kAnyVersion, kPerThread),
    CAUSEWAY_HOOK(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3'020, kAnyVersion, kLegacy),
    CAUSEWAY_HOOK(cuMemcpyDtoHAsync_v2_ptsz, "cuMemcpyDtoHAsync", 7'000, kAnyVersion, kPerThread),
    CAUSEWAY_HOOK(cuMemcpyBatchAsync, "cuMemcpyBatchAsync", 12'080, 12'999, kLegacy),
    CAUSEWAY_HOOK(cuMemcpyBatchAsync_ptsz, "cuMemcpyBatchAsync", 12'080, 12'999, kPerThread),
    CAUSEWAY_HOOK_OF(cuMemcpyBatchAsync_v2, api.cuMemcpyBatchAsync_v2, "cuMemcpyBatchAsync", 13'000,
                     kAnyVersion, kLegacy),
    CAUSEWAY_HOOK(cuMemcpyBatchAsync_v2_ptsz, "cuMemcpyBatchAsync", 13'000, kAnyVersion,
                  kPerThread),
    CAUSEWAY_HOLDING_HOOK(cuMemAlloc_v2, "cuMemAlloc", 3'020, kEither),
    CAUSEWAY_HOLDING_HOOK(cuMemHostAlloc, "cuMemHostAlloc", 2'020, kEither),
    CAUSEWAY_HOLDING_HOOK_OF(cuMemHostRegister_v2, api.cuMemHostRegister_v2, "cuMemHostRegister",
                             6'050, kEither),
    CAUSEWAY_HOLDING_HOOK_OF(cuMemHostUnregister, api.cuMemHostUnregister, "cuMemHostUnregister",
                             4'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuModuleLoadData, "cuModuleLoadData", 2'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2'010, kEither),
    CAUSEWAY_HOLDING_HOOK(cuModuleGetFunction, "cuModuleGetFunction", 2'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuLibraryLoadData, "cuLibraryLoadData", 12'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuKernelGetFunction, "cuKernelGetFunction", 12'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuFuncLoad, "cuFuncLoad", 12'040, kEither),
    CAUSEWAY_HOLDING_HOOK(cuLaunchKernel, "cuLaunchKernel", 4'000, kLegacy),
    CAUSEWAY_HOLDING_HOOK(cuLaunchKernel_ptsz, "cuLaunchKernel", 7'000, kPerThread),
    CAUSEWAY_HOLDING_HOOK(cuLaunchKernelEx, "cuLaunchKernelEx", 11'060, kLegacy),
    CAUSEWAY_HOLDING_HOOK(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11'060, kPerThread),
    CAUSEWAY_HOLDING_HOOK(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9'000, kLegacy),
    CAUSEWAY_HOLDING_HOOK(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9'000,
                          kPerThread),
    CAUSEWAY_HOLDING_HOOK(cuModuleLoad, "cuModuleLoad", 2'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuModuleGetGlobal_v2, "cuModuleGetGlobal", 3'020, kEither),
    CAUSEWAY_HOLDING_HOOK(cuLibraryGetModule, "cuLibraryGetModule", 12'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuLibraryGetGlobal, "cuLibraryGetGlobal", 12'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuLibraryGetManaged, "cuLibraryGetManaged", 12'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11'040,
                          kEither),
    // Before 12000 that name is another function's, of five arguments.
    CAUSEWAY_HOLDING_HOOK(cuGraphInstantiateWithFlags, "cuGraphInstantiate", 12'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12'000,
                          kLegacy),
    CAUSEWAY_HOLDING_HOOK(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12'000,
                          kPerThread),
    CAUSEWAY_HOLDING_HOOK(cuGraphUpload, "cuGraphUpload", 11'010, kLegacy),
    CAUSEWAY_HOLDING_HOOK(cuGraphUpload_ptsz, "cuGraphUpload", 11'010, kPerThread),
    CAUSEWAY_HOLDING_HOOK(cuGraphLaunch, "cuGraphLaunch", 10'000, kLegacy),
    CAUSEWAY_HOLDING_HOOK(cuGraphLaunch_ptsz, "cuGraphLaunch", 10'000, kPerThread),
    CAUSEWAY_HOLDING_HOOK(cuMemFree_v2, "cuMemFree", 3'020, kEither),
    CAUSEWAY_HOLDING_HOOK(cuMemFreeHost, "cuMemFreeHost", 2'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuModuleUnload, "cuModuleUnload", 2'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuLibraryUnload, "cuLibraryUnload", 12'000, kEither),
    CAUSEWAY_HOLDING_HOOK(cuCtxDestroy_v2, "cuCtxDestroy", 4'000, kEither),
    // The runtime of CUDA 13 still asks for this function.
    CAUSEWAY_HOOK(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7'000, 10'999, kEither),
    CAUSEWAY_HOOK(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11'000, kAnyVersion,
                  kEither),
};

bool is_used(const Hook& hook) { return !hook.for_holding || Process::get().holds(); }

bool serves(const Hook& hook, const char* name, int version, std::uint64_t flags) {
  if (!is_used(hook)) return false;
  if (std::strcmp(name, hook.symbol) == 0 && std::strcmp(hook.symbol, hook.base) != 0) return true;
  if (std::strcmp(name, hook.base) != 0) return false;
  if (version < hook.version_min || version > hook.version_max) return false;
  if (hook.threading == Threading::kEither) return true;
  const bool per_thread_wanted = (flags & kPerThreadFlag) != 0;
  return per_thread_wanted == (hook.threading == Threading::kPerThread);
}

// Returns what the driver found under a name, or our function in its place.
void stand_before(const char* name, void** found, int version, std::uint64_t flags) {
  const Native* const native = Process::get().native();
  if (native == nullptr || name == nullptr || found == nullptr || *found == nullptr) return;
  for (const Hook& hook : kHooks) {
    if (!serves(hook, name, version, flags) || hook.theirs(*native) == nullptr) continue;
    *found = hook.ours;
    return;
  }
}

}  // namespace

CAUSEWAY_EXPORT int cuGetProcAddress(const char* name, void** found, int version,
                                     std::uint64_t flags) {
  const int result = native_call(&Native::cuGetProcAddress, name, found, version, flags);
  if (result == 0) stand_before(name, found, version, flags);
  return result;
}
CAUSEWAY_EXPORT int cuGetProcAddress_v2(const char* name, void** found, int version,
                                        std::uint64_t flags, int* status) {
  const int result = native_call(&Native::cuGetProcAddress_v2, name, found, version, flags, status);
  if (result == 0) stand_before(name, found, version, flags);
  return result;
}

namespace causeway::preload {

// The real dlsym, looked up with a version, which our own dlsym does not have. No lock of ours is
// taken (a static that is made at first use would take one), because a thread that holds the
// loader's lock may come here.
DlSym real_dlsym() {
  static std::atomic<DlSym> known{nullptr};
  if (const DlSym found = known.load(std::memory_order_acquire)) return found;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
    if (void* const symbol = ::dlvsym(RTLD_NEXT, "dlsym", version)) {
      known.store(reinterpret_cast<DlSym>(symbol), std::memory_order_release);
      return reinterpret_cast<DlSym>(symbol);
    }
  }
  __builtin_trap();  // glibc without dlsym
}

}  // namespace causeway::preload

// For dlsym() below: our function when `name` is a hooked name of the driver's library. nullptr:
// the caller continues with the real function, which is left in `real`.
extern "C" __attribute__((visibility("hidden"))) void* causeway_find_hook(void* library,
                                                                          const char* name,
                                                                          DlSym* real) {
  *real = real_dlsym();
  if (name == nullptr || name[0] != 'c' || name[1] != 'u' || library == RTLD_NEXT ||
      library == RTLD_DEFAULT) {
    return nullptr;
  }
  for (const Hook& hook : kHooks) {
    if (std::strcmp(name, hook.symbol) != 0 || !is_used(hook)) continue;
    void* const found = (*real)(library, name);
    const Native* const native = found == nullptr ? nullptr : Process::get().native();
    // A function of the same name in another library is not replaced.
    return native != nullptr && found == hook.theirs(*native) ? hook.ours : nullptr;
  }
  return nullptr;
}

// dlsym(RTLD_NEXT, …) depends on its caller, so that the real one must be jumped to with the
// caller's return address in place.
#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".globl dlsym\n"
    ".type dlsym, @function\n"
    "dlsym:\n"
    ".cfi_startproc\n"
    "  endbr64\n"
    "  pushq %rdi\n"
    ".cfi_adjust_cfa_offset 8\n"
    "  pushq %rsi\n"
    ".cfi_adjust_cfa_offset 8\n"
    "  subq $8, %rsp\n"
    ".cfi_adjust_cfa_offset 8\n"
    "  movq %rsp, %rdx\n"
    "  call causeway_find_hook\n"
    "  popq %rdx\n"
    ".cfi_adjust_cfa_offset -8\n"
    "  popq %rsi\n"
    ".cfi_adjust_cfa_offset -8\n"
    "  popq %rdi\n"
    ".cfi_adjust_cfa_offset -8\n"
    "  testq %rax, %rax\n"
    "  jne 1f\n"
    "  jmp *%rdx\n"
    "1:\n"
    "  ret\n"
    ".cfi_endproc\n"
    ".size dlsym, . - dlsym\n");
#else
#error "dlsym() of libcauseway-preload.so is written for x86-64 only"
#endif

namespace {

// Whether dlsym() and cuGetProcAddress() can look the hook up.
bool is_sound(const Hook& hook) {
  return hook.ours != nullptr && hook.version_min <= hook.version_max &&
         std::strncmp(hook.symbol, hook.base, std::strlen(hook.base)) == 0;
}

__attribute__((constructor)) void set_up() {
  CAUSEWAY_DCHECK(std::all_of(std::begin(kHooks), std::end(kHooks), is_sound),
                  "a symbol is the name that programs ask for, and what tells its kind");
  Process::get().set_up();
}

}  // namespace
