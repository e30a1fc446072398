// What the preload library costs and gains, as JSON lines.
//
//   preload_gpu_bench order            stand-ins alone: microseconds to place one, from a stream
//                                      that is free to its start notice, from the release to the
//                                      stream's next work
//   preload_gpu_bench blocks           what calls do while a stream is held up, and whether copies
//                                      of the same context, of another of the GPU, and of another
//                                      GPU's that has peer access get through meanwhile
//   preload_gpu_bench sweep [OPTION…]  copies of 64 B to 1 GiB, native and with the library
//   preload_gpu_bench                  a quick sweep, then the stand-ins
//       quick      64 KiB and more only, fewer rounds
//       kernel     stand-ins by kernel instead of by value
//       wait hold  CAUSEWAY_ASYNC for the library (native otherwise: synchronous copies are ours)
//
// A sweep runs itself in processes with and without LD_PRELOAD; each reports the time of a copy to
// its end and the time of the call, the median of some.
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/cuda_physical.h"
#include "preload/stand_in.h"
#include "preload/testing/gpu_program.cuh"

namespace {

using causeway::preload::Flags;
using causeway::preload::Native;
using causeway::preload::Order;
using causeway::preload::testing::kSkipped;
using causeway::preload::testing::library_for;
using causeway::preload::testing::own_path;

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) { return t.tv_sec + 1e-6 * t.tv_usec; };
  return of(usage.ru_utime) + of(usage.ru_stime);
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

void* look_up(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library == nullptr ? nullptr : dlsym(library, name);
}

int order() {
  CHECK_CUDA(cudaFree(nullptr));
  static const Native native = causeway::preload::load_native(look_up);
  CUctx_st* context = nullptr;
  native.api.cuCtxGetCurrent(&context);
  auto flags = Flags::create(native);
  if (!flags.ok()) return std::fprintf(stderr, "%s\n", flags.error().message.c_str()), 1;
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const Order which : {Order::kValue, Order::kKernel}) {
    auto made = causeway::preload::make_stand_in(native, which, {context});
    if (!made.ok()) return std::fprintf(stderr, "%s\n", made.error().message.c_str()), 1;
    // A value that the stream writes next, which shows that the stream has gone on.
    const auto after = (*flags)->take();
    std::vector<double> place, start, release;
    for (int i = 0; i < 400; ++i) {
      const auto use = (*flags)->take();
      const double begin = now_us();
      if (!(*made)->place(reinterpret_cast<CUstream_st*>(stream), *use, true).ok()) return 1;
      place.push_back(now_us() - begin);
      while (!use->started()) {
      }
      start.push_back(now_us() - begin);
      causeway::preload::CudaMemoryOperation next;
      next.operation = causeway::preload::kCudaWriteValue32;
      next.address = reinterpret_cast<unsigned long long>(&after->pair->started);
      next.value = static_cast<unsigned>(i + 1);
      native.cuStreamBatchMemOp_v2(reinterpret_cast<CUstream_st*>(stream), 1, &next, 0);
      const double wait_until = now_us() + 50;
      while (now_us() < wait_until) {
      }
      const double released = now_us();
      use->release();
      while (after->pair->started.load() != static_cast<unsigned>(i + 1)) {
      }
      release.push_back(now_us() - released);
      CHECK_CUDA(cudaStreamSynchronize(stream));
      (*flags)->give_back(*use);
    }
    std::printf(
        "{\"order\": \"%s\", \"place_us\": %.2f, \"start_us\": %.2f, "
        "\"release_us\": %.2f}\n",
        std::string((*made)->name()).c_str(), median(place), median(start), median(release));
  }
  return 0;
}

// ---- Calls that a held stream delays.

constexpr std::size_t kProbeBytes = std::size_t{8} << 20;

template <int>
__global__ void late_kernel(int* word) {
  if (word != nullptr) *word = 1;
}
__global__ void roomy_kernel(int* word, int at) {
  volatile char room[48 * 1024];
  for (int i = 0; i < 48 * 1024; ++i) room[i] = static_cast<char>(i);
  if (word != nullptr) *word = room[at];
}

// A stream of some context that copies onto GPU 0.
struct Way {
  const char* name;
  CUctx_st* context = nullptr;
  CUstream_st* stream = nullptr;
  CUevent_st* event = nullptr;
};

class Blocks {
 public:
  bool set_up() {
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaFree(nullptr));
    native_ = causeway::preload::load_native(look_up);
    native_.api.cuCtxGetCurrent(&primary_);
    auto flags = Flags::create(native_);
    if (!flags.ok()) return false;
    flags_ = std::move(flags).value();
    CHECK_CUDA(cudaStreamCreateWithFlags(&held_, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(&device_, kLarge));
    CHECK_CUDA(cudaMallocHost(&host_, kLarge));
    add("same context", primary_);
    using Create = int (*)(CUctx_st**, unsigned, int);
    using Enable = int (*)(CUctx_st*, unsigned);
    const auto create = reinterpret_cast<Create>(look_up("cuCtxCreate_v2"));
    const auto enable = reinterpret_cast<Enable>(look_up("cuCtxEnablePeerAccess"));
    int gpus = 0;
    CHECK_CUDA(cudaGetDeviceCount(&gpus));
    for (int gpu = 0; gpu < gpus && gpu < 2; ++gpu) {
      CUctx_st* context = nullptr;
      if (create == nullptr || create(&context, 0, gpu) != 0) continue;
      const int enabled = enable(primary_, 0);
      std::printf("{\"context\": %d, \"peer_access_to_primary\": %d}\n", gpu, enabled);
      CUctx_st* popped = nullptr;
      native_.api.cuCtxPopCurrent_v2(&popped);
      add(gpu == 0 ? "own context" : "other GPU", context);
    }
    for (const Way& way : ways_) rate(way);
    return true;
  }

  void run() {
    void* memory = nullptr;
    void* pinned = nullptr;
    void* pageable = std::malloc(kLarge);
    std::memset(pageable, 1, kLarge);
    cudaStream_t stream = nullptr;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    late_kernel<0><<<1, 1, 0, other_>>>(nullptr);
    CHECK_CUDA(cudaStreamSynchronize(other_));
    during("nothing", [] {});
    during("a kernel that is loaded", [&] { late_kernel<0><<<1, 1, 0, other_>>>(nullptr); });
    during("a kernel's first launch", [&] { late_kernel<1><<<1, 1, 0, other_>>>(nullptr); });
    during("a first launch behind it", [&] { late_kernel<2><<<1, 1, 0, held_>>>(nullptr); });
    during("more local memory", [&] { roomy_kernel<<<1, 1, 0, other_>>>(nullptr, 1); });
    during("cudaMalloc", [&] { CHECK_CUDA(cudaMalloc(&memory, kLarge)); });
    during("cudaMallocHost", [&] { CHECK_CUDA(cudaMallocHost(&pinned, kLarge)); });
    during("cudaHostRegister", [&] { CHECK_CUDA(cudaHostRegister(pageable, kLarge, 0)); });
    during("cudaHostUnregister", [&] { CHECK_CUDA(cudaHostUnregister(pageable)); });
    during("cudaFree", [&] { CHECK_CUDA(cudaFree(memory)); });
    during("cudaFreeHost", [&] { CHECK_CUDA(cudaFreeHost(pinned)); });
    during("cudaStreamDestroy", [&] { CHECK_CUDA(cudaStreamDestroy(stream)); });
    during("cudaStreamCreate", [&] { CHECK_CUDA(cudaStreamCreate(&stream)); });
    during("cudaMallocAsync", [&] { CHECK_CUDA(cudaMallocAsync(&memory, kLarge, other_)); });
    during("cudaFreeAsync", [&] { CHECK_CUDA(cudaFreeAsync(memory, other_)); });
    during("cudaMemset", [&] { CHECK_CUDA(cudaMemsetAsync(device_, 0, 4096, other_)); });
    during("a pageable copy", [&] {
      CHECK_CUDA(cudaMemcpyAsync(device_, pageable, kLarge, cudaMemcpyDefault, other_));
    });
    during("a pageable copy in, behind it", [&] {
      CHECK_CUDA(cudaMemcpyAsync(device_, pageable, kLarge, cudaMemcpyDefault, held_));
    });
    during("a pageable copy out, behind it", [&] {
      CHECK_CUDA(cudaMemcpyAsync(pageable, device_, kLarge, cudaMemcpyDefault, held_));
    });
    during("cudaMemcpy of pinned memory, behind it", [&] {
      CHECK_CUDA(cudaStreamWaitEvent(nullptr, behind_held()));
      CHECK_CUDA(cudaMemcpy(host_, device_, 4096, cudaMemcpyDefault));
    });
    during("cudaStreamSynchronize", [&] { CHECK_CUDA(cudaStreamSynchronize(held_)); });
    during("cudaDeviceSynchronize", [&] { CHECK_CUDA(cudaDeviceSynchronize()); });
    streams();
  }

 private:
  static constexpr std::size_t kLarge = std::size_t{64} << 20;

  void add(const char* name, CUctx_st* context) {
    Way way{name, context};
    const causeway::device::CudaScope scope(native_.api, context);
    native_.api.cuStreamCreateWithPriority(&way.stream, 1, 0);
    native_.api.cuEventCreate(&way.event, 2);
    ways_.push_back(way);
  }

  int copy(const Way& way, std::size_t bytes) const {
    const int copied =
        native_.api.cuMemcpyAsync(reinterpret_cast<unsigned long long>(device_),
                                  reinterpret_cast<unsigned long long>(host_), bytes, way.stream);
    return copied != 0 ? copied : native_.api.cuEventRecord(way.event, way.stream);
  }

  void rate(const Way& way) {
    const causeway::device::CudaScope scope(native_.api, way.context);
    double best = 1e9;
    int failed = 0;
    for (int i = 0; i < 4; ++i) {
      std::memset(host_, 17 * i + static_cast<int>(ways_.size()), kLarge);
      const double begin = now_us();
      failed = copy(way, kLarge);
      while (failed == 0 && native_.api.cuEventQuery(way.event) == 600) {
      }
      best = std::min(best, now_us() - begin);
    }
    std::vector<char> back(kLarge);
    {
      const causeway::device::CudaScope home(native_.api, primary_);
      CHECK_CUDA(cudaMemcpy(back.data(), device_, kLarge, cudaMemcpyDefault));
    }
    const bool same = std::memcmp(back.data(), host_, kLarge) == 0;
    std::printf("{\"copies\": \"%s\", \"gbs\": %.1f, \"error\": %d, \"right\": %s}\n", way.name,
                kLarge / best * 1e-3, failed, same ? "true" : "false");
  }

  cudaEvent_t behind_held() const {
    cudaEvent_t event = nullptr;
    CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK_CUDA(cudaEventRecord(event, held_));
    return event;
  }

  // Tells whether a copy is done within a tenth of a second.
  const char* try_way(const Way& way) {
    auto* const state = new std::atomic<int>(0);  // leaked: its thread may be late
    threads_.emplace_back([this, way, state] {
      const causeway::device::CudaScope scope(native_.api, way.context);
      const int failed = copy(way, kProbeBytes);
      *state = failed != 0 ? 4 : 1;
      const double until = now_us() + 1e5;
      while (failed == 0 && now_us() < until) {
        const int result = native_.api.cuEventQuery(way.event);
        if (result == 600) continue;
        *state = result == 0 ? 2 : 4;
        return;
      }
      if (failed == 0) *state = 3;
    });
    const double until = now_us() + 1.5e5;
    while (now_us() < until && (*state == 0 || *state == 1)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const char* const words[] = {"the call blocks", "the query blocks", "done", "waits", "fails"};
    return words[state->load()];
  }

  // Holds until the use is released.
  causeway::preload::FlagUse hold(cudaStream_t stream) {
    const causeway::preload::FlagUse use = *flags_->take();
    causeway::preload::CudaMemoryOperation wait;
    wait.operation = causeway::preload::kCudaWaitValue32;
    wait.address = reinterpret_cast<unsigned long long>(&use.pair->released);
    wait.value = use.number;
    native_.cuStreamBatchMemOp_v2(reinterpret_cast<CUstream_st*>(stream), 1, &wait, 0);
    return use;
  }

  template <typename Call>
  void during(const char* name, Call call) {
    const causeway::preload::FlagUse use = hold(held_);
    std::atomic<bool> returned{false};
    threads_.emplace_back([&] {
      CHECK_CUDA(cudaSetDevice(0));
      call();
      returned = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::printf("{\"while\": \"%s\", \"returns\": %s", name, returned ? "true" : "false");
    for (const Way& way : ways_) std::printf(", \"%s\": \"%s\"", way.name, try_way(way));
    std::printf("}\n");
    std::fflush(stdout);
    use.release();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    CHECK_CUDA(cudaDeviceSynchronize());
  }

  // Measures the number of held streams at which a copy in another stream of the context waits,
  // too. The streams are made before, because making one may wait for held streams.
  void streams() {
    constexpr std::size_t kMost = 64;
    std::vector<cudaStream_t> all(kMost);
    for (cudaStream_t& one : all) {
      CHECK_CUDA(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    }
    std::vector<causeway::preload::FlagUse> uses;
    const char* through = "done";
    while (uses.size() < kMost && std::strcmp(through, "done") == 0) {
      uses.push_back(hold(all[uses.size()]));
      through = try_way(ways_.front());
    }
    std::printf("{\"held_streams\": %zu, \"same context\": \"%s\"}\n", uses.size(), through);
    for (const auto& use : uses) use.release();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    CHECK_CUDA(cudaDeviceSynchronize());
  }

  Native native_;
  CUctx_st* primary_ = nullptr;
  std::unique_ptr<Flags> flags_;
  cudaStream_t held_ = nullptr;
  cudaStream_t other_ = nullptr;
  void* device_ = nullptr;
  void* host_ = nullptr;
  std::vector<Way> ways_;
  std::vector<std::thread> threads_;
};

int blocks() {
  static Blocks probe;
  if (!probe.set_up()) return 1;
  probe.run();
  return 0;
}

// One process's half of a sweep: "<in|out> <async|sync> <bytes> <issue us> <end us> <cpu share>".
int measure(bool quick) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  void* device = nullptr;
  void* host = nullptr;
  CHECK_CUDA(cudaMalloc(&device, kMost));
  CHECK_CUDA(cudaMallocHost(&host, kMost));
  std::memset(host, 1, kMost);
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  // The library opens its session now, if it is loaded.
  CHECK_CUDA(cudaMemcpy(device, host, kMost, cudaMemcpyHostToDevice));
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = quick ? 65536 : 64; bytes <= kMost; bytes *= 2) {
    sizes.push_back(bytes);
    if (bytes >= (4u << 20) && bytes < (128u << 20)) sizes.push_back(bytes + bytes / 2);
  }
  for (const bool in : {true, false}) {
    for (const bool sync : {false, true}) {
      for (const std::size_t bytes : sizes) {
        const int few = bytes >= (256u << 20) ? 9 : 41;
        const int rounds = bytes >= (1u << 20) ? few : (quick ? 201 : 2001);
        std::vector<double> issue, end;
        const double wall = now_us();
        const double cpu = cpu_seconds();
        for (int i = -2; i < rounds; ++i) {
          const cudaMemcpyKind kind = in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
          void* target = in ? device : host;
          void* source = in ? host : device;
          const double begin = now_us();
          if (sync) {
            CHECK_CUDA(cudaMemcpy(target, source, bytes, kind));
          } else {
            CHECK_CUDA(cudaMemcpyAsync(target, source, bytes, kind, stream));
          }
          const double issued = now_us();
          if (!sync) CHECK_CUDA(cudaStreamSynchronize(stream));
          if (i < 0) continue;
          issue.push_back(issued - begin);
          end.push_back(now_us() - begin);
        }
        const double share = (cpu_seconds() - cpu) / ((now_us() - wall) * 1e-6);
        std::printf("%s %s %zu %.3f %.3f %.2f\n", in ? "in" : "out", sync ? "sync" : "async", bytes,
                    median(issue), median(end), share);
      }
    }
  }
  // With nothing pending: measures the processor time that is still used.
  const double cpu = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  std::printf("idle - 0 0 0 %.4f\n", cpu_seconds() - cpu);
  return 0;
}

struct Row {
  double issue = 0;
  double end = 0;
  double cpu = 0;
};
using Rows = std::map<std::pair<std::string, std::size_t>, Row>;

// Quotes a word for the shell, whatever a folder's name contains.
std::string quoted(const std::string& text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

Rows run(const std::string& self, const std::string& library, const std::string& settings,
         bool quick) {
  std::string command;
  if (!library.empty()) {
    const auto loading = causeway::preload::testing::preloading(library);
    command = "LD_PRELOAD=" + quoted(loading.ld_preload) +
              " LD_LIBRARY_PATH=" + quoted(loading.ld_library_path) + " CAUSEWAY_OPEN=wait " +
              settings + " CAUSEWAY_STATISTICS=stderr ";
  }
  command += quoted(self) + (quick ? " measure quick" : " measure");
  Rows rows;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return rows;
  char way[8] = {};
  char how[8] = {};
  std::size_t bytes = 0;
  Row row;
  while (std::fscanf(pipe, "%7s %7s %zu %lf %lf %lf", way, how, &bytes, &row.issue, &row.end,
                     &row.cpu) == 6) {
    rows[{std::string(way) + "," + how, bytes}] = row;
  }
  pclose(pipe);
  return rows;
}

int sweep(const std::string& self, bool quick, const std::string& settings) {
  const std::string library = library_for(self);
  if (library.empty()) return std::fprintf(stderr, "no libcauseway-preload.so here\n"), 1;
  const Rows native = run(self, "", "", quick);
  const Rows ours = run(self, library, settings, quick);
  for (const auto& [key, row] : ours) {
    const auto found = native.find(key);
    if (found == native.end()) continue;
    const Row& base = found->second;
    if (key.second == 0) {
      std::printf("{\"idle_cpu_native\": %.4f, \"idle_cpu\": %.4f}\n", base.cpu, row.cpu);
      continue;
    }
    const double bytes = static_cast<double>(key.second);
    std::printf(
        "{\"way\": \"%s\", \"bytes\": %zu, \"native_us\": %.2f, \"us\": %.2f, "
        "\"native_gbs\": %.2f, \"gbs\": %.2f, \"gain\": %.3f, \"native_issue_us\": %.3f, "
        "\"issue_us\": %.3f, "
        "\"native_cpu\": %.2f, \"cpu\": %.2f}\n",
        key.first.c_str(), key.second, base.end, row.end, bytes / base.end * 1e-3,
        bytes / row.end * 1e-3, base.end / row.end, base.issue, row.issue, base.cpu, row.cpu);
  }
  return ours.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  bool quick = false;
  std::string settings;
  for (int i = 2; i < argc; ++i) {
    quick = quick || std::strcmp(argv[i], "quick") == 0;
    if (std::strcmp(argv[i], "kernel") == 0) settings += " CAUSEWAY_ORDER=kernel";
    for (const char* async : {"wait", "hold"}) {
      if (std::strcmp(argv[i], async) == 0) settings += std::string(" CAUSEWAY_ASYNC=") + async;
    }
  }
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("skipped: no GPU\n");
    return kSkipped;
  }
  if (what == "measure") return measure(quick);
  if (what == "order") return order();
  if (what == "blocks") return blocks();
  const std::string self = own_path();
  if (self.empty()) return 1;
  if (what == "sweep") return sweep(self, quick, settings);
  if (!what.empty()) {
    std::fprintf(stderr, "preload_gpu_bench [order|blocks|sweep [quick] [kernel] [wait|hold]]\n");
    return 1;
  }
  const int failed = sweep(self, true, settings);  // before this process has a context
  return order() + failed;
}
