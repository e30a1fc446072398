// Copies by the CUDA driver alone, found as PROGRAM_DRIVER says (driver.cuh; default: dlsym, or
// linked where this program is linked with it). Kernels come from an embedded fat binary.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "driver.cuh"
#include "program.h"

extern "C" unsigned long long preload_kernels_fatbin[];

namespace program {

namespace {

#ifdef PROGRAM_LINKED
constexpr const char* kDefaultWay = "linked";
#else
constexpr const char* kDefaultWay = "dlsym";
#endif

const Driver& driver() {
  static const Driver found = [] {
    const char* const way = std::getenv("PROGRAM_DRIVER");
    return find_driver(way != nullptr ? way : kDefaultWay);
  }();
  return found;
}

void driver_ok(CUresult status, const char* call, int line) {
  if (status == CUDA_SUCCESS) return;
  const char* name = "";
  (void)driver().cuGetErrorName_(status, &name);
  expect(false, "%s in line %d: %s (%d)", call, line, name, static_cast<int>(status));
}
#define DRIVER_OK(call) ::program::driver_ok(driver().call, #call, __LINE__)

CUcontext primary_context(int gpu) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  DRIVER_OK(cuDeviceGet_(&device, gpu));
  DRIVER_OK(cuDevicePrimaryCtxRetain_(&context, device));
  return context;
}

// Mirrors Verdict of kernels.cuh, which needs the runtime's headers.
struct Verdict {
  unsigned long long checked, wrong, first;
};

// A stream with buffers and the kernels, in the context that is current when it is made.
class Lane {
 public:
  explicit Lane(std::size_t bytes, unsigned flags = CU_STREAM_NON_BLOCKING) : bytes_(bytes) {
    DRIVER_OK(cuModuleLoadData_(&module_, preload_kernels_fatbin));
    DRIVER_OK(cuModuleGetFunction_(&fill_, module_, "preload_fill"));
    DRIVER_OK(cuModuleGetFunction_(&check_, module_, "preload_check"));
    DRIVER_OK(cuModuleGetFunction_(&publish_, module_, "preload_publish"));
    DRIVER_OK(cuModuleGetFunction_(&spin_, module_, "preload_spin"));
    DRIVER_OK(cuStreamCreate_(&stream, flags));
    DRIVER_OK(cuMemAlloc_(&device, bytes));
    DRIVER_OK(cuMemAlloc_(&found_, sizeof(Verdict)));
    host = pinned(bytes);
    back = pinned(bytes);
    seen_ = pinned(sizeof(Verdict));
    // The first publication leaves an empty verdict behind, whatever was in the memory.
    launch(publish_, {&found_, &seen_}, stream, 1);
    DRIVER_OK(cuStreamSynchronize_(stream));
  }
  ~Lane() {
    (void)driver().cuStreamSynchronize_(stream);
    (void)driver().cuMemFree_(device);
    (void)driver().cuMemFree_(found_);
    for (void* memory : {static_cast<void*>(host), static_cast<void*>(back), seen_}) {
      (void)driver().cuMemFreeHost_(memory);
    }
    (void)driver().cuStreamDestroy_(stream);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void fill(Pattern pattern) {
    unsigned long long bytes = bytes_;
    launch(fill_, {&device, &bytes, &pattern}, stream);
  }
  void spin(double milliseconds) {
    CUdeviceptr no_flag = 0;
    auto nanoseconds = static_cast<unsigned long long>(milliseconds * 1e6);
    launch(spin_, {&no_flag, &nanoseconds}, stream, 1);
  }
  // Looks at the device buffer on `where` and waits for that stream.
  void check(CUstream where, std::size_t bytes, Pattern pattern, const char* what) {
    unsigned long long count = bytes;
    launch(check_, {&device, &count, &pattern, &found_}, where);
    launch(publish_, {&found_, &seen_}, where, 1);
    DRIVER_OK(cuStreamSynchronize_(where));
    const auto* const seen = static_cast<const volatile Verdict*>(seen_);
    expect(seen->wrong == 0 && seen->checked == bytes,
           "%s: %llu of %zu bytes on the GPU differ, the first at %llu (%llu looked at)", what,
           seen->wrong, bytes, seen->first, seen->checked);
  }

  CUstream stream = nullptr;
  CUdeviceptr device = 0;
  unsigned char* host = nullptr;
  unsigned char* back = nullptr;

 private:
  static unsigned char* pinned(std::size_t bytes) {
    void* made = nullptr;
    DRIVER_OK(cuMemHostAlloc_(&made, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    return static_cast<unsigned char*>(made);
  }
  static void launch(CUfunction kernel, std::vector<void*> arguments, CUstream where,
                     unsigned blocks = 264) {
    DRIVER_OK(cuLaunchKernel_(kernel, blocks, 1, 1, blocks == 1 ? 1 : 256, 1, 1, 0, where,
                              arguments.data(), nullptr));
  }

  std::size_t bytes_;
  CUmodule module_ = nullptr;
  CUfunction fill_ = nullptr;
  CUfunction check_ = nullptr;
  CUfunction publish_ = nullptr;
  CUfunction spin_ = nullptr;
  CUdeviceptr found_ = 0;
  void* seen_ = nullptr;
};

constexpr std::size_t kMost = 80 * kMiB;

CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

// How a copy up and one down are asked for.
enum class Call { kDirectedAsync, kUnifiedAsync, kDirectedSync, kUnifiedSync };

void up(Call call, Lane& lane, std::size_t bytes, CUstream where) {
  switch (call) {
    case Call::kDirectedAsync:
      DRIVER_OK(cuMemcpyHtoDAsync_(lane.device, lane.host, bytes, where));
      break;
    case Call::kUnifiedAsync:
      DRIVER_OK(cuMemcpyAsync_(lane.device, address(lane.host), bytes, where));
      break;
    case Call::kDirectedSync: DRIVER_OK(cuMemcpyHtoD_(lane.device, lane.host, bytes)); break;
    case Call::kUnifiedSync: DRIVER_OK(cuMemcpy_(lane.device, address(lane.host), bytes)); break;
  }
}

void down(Call call, Lane& lane, std::size_t bytes, CUstream where) {
  switch (call) {
    case Call::kDirectedAsync:
      DRIVER_OK(cuMemcpyDtoHAsync_(lane.back, lane.device, bytes, where));
      break;
    case Call::kUnifiedAsync:
      DRIVER_OK(cuMemcpyAsync_(address(lane.back), lane.device, bytes, where));
      break;
    case Call::kDirectedSync: DRIVER_OK(cuMemcpyDtoH_(lane.back, lane.device, bytes)); break;
    case Call::kUnifiedSync: DRIVER_OK(cuMemcpy_(address(lane.back), lane.device, bytes)); break;
  }
}

// Sizes up and down; sync copies leave the source to be overwritten at once.
void sizes_by(Call call, Context& context) {
  const bool sync = call == Call::kDirectedSync || call == Call::kUnifiedSync;
  Lane lane(kMost);
  std::vector<std::size_t> sizes = {1, 4097, kMiB + 1, 16 * kMiB + 3, 33 * kMiB - 1, kMost};
  for (int i = 0; i < 6; ++i) sizes.push_back(context.random.size_up_to(kMost));
  for (const std::size_t bytes : sizes) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(lane.host, bytes, pattern);
    fill_host(lane.back, bytes, {~pattern.seed, 0});
    lane.fill({~pattern.seed, 1});
    if (sync) DRIVER_OK(cuStreamSynchronize_(lane.stream));
    up(call, lane, bytes, lane.stream);
    if (sync) fill_host(lane.host, bytes, {~pattern.seed, 2});
    lane.check(lane.stream, bytes, pattern, "to the GPU");
    lane.spin(1);
    lane.fill(pattern.from(5));
    if (sync) DRIVER_OK(cuStreamSynchronize_(lane.stream));
    down(call, lane, bytes, lane.stream);
    if (!sync) DRIVER_OK(cuStreamSynchronize_(lane.stream));
    expect_host(lane.back, bytes, pattern.from(5), "to the host");
  }
  context.detail = text("%zu sizes", sizes.size());
}

void directed_async(Context& context) { sizes_by(Call::kDirectedAsync, context); }
void unified_async(Context& context) { sizes_by(Call::kUnifiedAsync, context); }
void directed_sync(Context& context) { sizes_by(Call::kDirectedSync, context); }
void unified_sync(Context& context) { sizes_by(Call::kUnifiedSync, context); }

void batch(Context& context) {
  Lane lane(kMost);
  const Pattern pattern{context.random.next(), 0};
  fill_host(lane.host, kMost, pattern);
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  std::size_t first = 0;
  const auto submit = [&](CUdeviceptr to, CUdeviceptr from) {
    std::vector<CUdeviceptr> targets;
    std::vector<CUdeviceptr> sources;
    std::vector<std::size_t> sizes;
    for (std::size_t at = 0; at < kMost;) {
      const std::size_t bytes = std::min(kMost - at, context.random.size_up_to(30 * kMiB));
      targets.push_back(to + at);
      sources.push_back(from + at);
      sizes.push_back(bytes);
      at += bytes;
    }
    DRIVER_OK(cuMemcpyBatchAsync_(targets.data(), sources.data(), sizes.data(), sizes.size(),
                                  &attributes, &first, 1, lane.stream));
  };
  submit(lane.device, address(lane.host));
  lane.check(lane.stream, kMost, pattern, "up in a batch");
  lane.fill(pattern.from(3));
  submit(address(lane.back), lane.device);
  DRIVER_OK(cuStreamSynchronize_(lane.stream));
  expect_host(lane.back, kMost, pattern.from(3), "down in a batch");
}

// The unnamed stream, and both default streams by name.
void default_streams(Context& context) {
  Lane lane(kMost);
  for (const CUstream where : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(lane.host, kMost, pattern);
    up(Call::kDirectedAsync, lane, kMost, where);
    lane.check(where, kMost, pattern, "on a default stream");
    down(Call::kUnifiedAsync, lane, kMost, where);
    DRIVER_OK(cuStreamSynchronize_(where));
    expect_host(lane.back, kMost, pattern, "on a default stream");
  }
}

void events(Context& context) {
  Lane lane(kMost);
  CUstream other = nullptr;
  CUevent copied = nullptr;
  DRIVER_OK(cuStreamCreate_(&other, CU_STREAM_NON_BLOCKING));
  DRIVER_OK(cuEventCreate_(&copied, CU_EVENT_DISABLE_TIMING));
  for (int round = 0; round < 4; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(lane.host, kMost, pattern);
    lane.spin(10);
    up(Call::kDirectedAsync, lane, kMost, lane.stream);
    DRIVER_OK(cuEventRecord_(copied, lane.stream));
    DRIVER_OK(cuStreamWaitEvent_(other, copied, 0));
    lane.check(other, kMost, pattern, "read in another stream");
  }
  DRIVER_OK(cuEventDestroy_(copied));
  DRIVER_OK(cuStreamDestroy_(other));
}

// A context of the program's own beside the primary one, destroyed with copies under way.
void own_context(Context& context) {
  CUcontext before = nullptr;
  DRIVER_OK(cuCtxGetCurrent_(&before));
  for (int round = 0; round < 2; ++round) {
    CUcontext own = nullptr;
    DRIVER_OK(cuCtxCreate_(&own, nullptr, 0, 0));
    {
      Lane lane(kMost);
      const Pattern pattern{context.random.next(), 0};
      fill_host(lane.host, kMost, pattern);
      up(Call::kDirectedAsync, lane, kMost, lane.stream);
      lane.check(lane.stream, kMost, pattern, "in a context of its own");
      down(Call::kDirectedAsync, lane, kMost, lane.stream);
      DRIVER_OK(cuCtxSynchronize_());
      expect_host(lane.back, kMost, pattern, "in a context of its own");
      CUcontext now = nullptr;
      DRIVER_OK(cuCtxGetCurrent_(&now));
      expect(now == own, "another context is current after copies");
    }
    CUdeviceptr device = 0;
    CUstream stream = nullptr;
    void* host = nullptr;
    DRIVER_OK(cuMemAlloc_(&device, kMost));
    DRIVER_OK(cuMemHostAlloc_(&host, kMost, 0));
    DRIVER_OK(cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 4; ++i) DRIVER_OK(cuMemcpyHtoDAsync_(device, host, kMost, stream));
    DRIVER_OK(cuCtxDestroy_(own));  // with memory, stream and copies
    DRIVER_OK(cuCtxSetCurrent_(before));
    sizes_by(Call::kDirectedAsync, context);
  }
}

// A thread without a context is refused as ever; run.py compares the line.
void no_context(Context& context) {
  Lane lane(kMost);
  in_threads(1, [&](int) {
    context.detail =
        std::to_string(driver().cuMemcpyHtoD_(lane.device, lane.host, kMost)) + " " +
        std::to_string(driver().cuMemcpyHtoDAsync_(lane.device, lane.host, kMost, nullptr));
    CUcontext now = nullptr;
    DRIVER_OK(cuCtxGetCurrent_(&now));
    expect(now == nullptr, "a refused copy left a context");
  });
}

void threads(Context& context) {
  const std::uint64_t seed = context.random.next();
  CUcontext shared = nullptr;
  DRIVER_OK(cuCtxGetCurrent_(&shared));
  in_threads(4, [&](int thread) {
    DRIVER_OK(cuCtxSetCurrent_(shared));
    Context own{Random(seed + static_cast<std::uint64_t>(thread)), 0, 0, 0, ""};
    sizes_by(thread % 2 == 0 ? Call::kDirectedAsync : Call::kUnifiedSync, own);
  });
}

void second_gpu(Context& context) {
  CUcontext before = nullptr;
  DRIVER_OK(cuCtxGetCurrent_(&before));
  DRIVER_OK(cuCtxSetCurrent_(primary_context(1)));
  sizes_by(Call::kDirectedAsync, context);
  sizes_by(Call::kUnifiedAsync, context);
  DRIVER_OK(cuCtxSetCurrent_(before));
}

// Returns from main with copies under way and nothing released.
void ends_with_work(Context& context) {
  static Lane* lane = nullptr;
  lane = std::make_unique<Lane>(kMost).release();
  for (int i = 0; i < 8; ++i) up(Call::kDirectedAsync, *lane, kMost, lane->stream);
  context.detail = "not waited for";
}

Cases driver_cases() {
  return {{"directed_async", directed_async},
          {"unified_async", unified_async},
          {"directed_sync", directed_sync},
          {"unified_sync", unified_sync},
          {"batch", batch},
          {"default_streams", default_streams},
          {"events", events},
          {"no_context", no_context},
          {"threads", threads},
          {"second_gpu", second_gpu, 2},
          {"own_context", own_context, 1, Run::kAlone},
          {"ends_with_work", ends_with_work, 1, Run::kAlone}};
}

int count_gpus() {
  try {
    int gpus = 0;
    if (driver().cuInit_(0) != CUDA_SUCCESS) return 0;
    DRIVER_OK(cuDeviceGetCount_(&gpus));
    if (gpus > 0) DRIVER_OK(cuCtxSetCurrent_(primary_context(0)));
    return gpus;
  } catch (const Skip&) {
    return 0;
  }
}

}  // namespace

}  // namespace program

int main(int argc, char** argv) {
  return program::run_program(argc, argv, program::driver_cases(), program::count_gpus);
}
