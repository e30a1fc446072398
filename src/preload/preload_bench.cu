// What the preload library costs and brings, as JSON lines.
//
//   preload_gpu_bench order            stand-ins alone: microseconds to place one, from a stream
//                                      that is free to its start notice, from the release to the
//                                      stream's next work
//   preload_gpu_bench sweep [OPTION…]  copies of 64 B to 1 GiB, native and with the library
//   preload_gpu_bench                  a quick sweep, then the stand-ins
//       quick      64 KiB and more only, fewer rounds
//       kernel     stand-ins by kernel instead of by value
//
// A sweep runs itself in processes with and without LD_PRELOAD; each reports the time of a copy to
// its end and the time of the call, the median of some.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "preload/stand_in.h"

namespace {

using causeway::preload::Flags;
using causeway::preload::Native;
using causeway::preload::Order;

#define CHECK_CUDA(call)                                                                   \
  do {                                                                                     \
    const cudaError_t status = (call);                                                     \
    if (status != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                   \
                   cudaGetErrorString(status));                                            \
      std::_Exit(2);                                                                       \
    }                                                                                      \
  } while (false)

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
  native.cuCtxGetCurrent(&context);
  auto flags = Flags::create(native);
  if (!flags.ok()) return std::fprintf(stderr, "%s\n", flags.error().message.c_str()), 1;
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const Order which : {Order::kValue, Order::kKernel}) {
    auto made = causeway::preload::make_stand_in(native, which, {context});
    if (!made.ok()) return std::fprintf(stderr, "%s\n", made.error().message.c_str()), 1;
    // What tells that the stream has gone on: a value that it writes next.
    const auto after = (*flags)->take();
    std::vector<double> place, start, release;
    for (int i = 0; i < 400; ++i) {
      const auto turn = (*flags)->take();
      const double begin = now_us();
      if (!(*made)->place(reinterpret_cast<CUstream_st*>(stream), *turn, true).ok()) return 1;
      place.push_back(now_us() - begin);
      while (!turn->started()) {
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
      turn->release();
      while (after->pair->started.load() != static_cast<unsigned>(i + 1)) {
      }
      release.push_back(now_us() - released);
      CHECK_CUDA(cudaStreamSynchronize(stream));
      (*flags)->give_back(*turn);
    }
    std::printf("{\"order\": \"%s\", \"place_us\": %.2f, \"start_us\": %.2f, "
                "\"release_us\": %.2f}\n",
                std::string((*made)->name()).c_str(), median(place), median(start),
                median(release));
  }
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
  // The library opens its session now, if there is one.
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
  // Nothing is pending: who still runs?
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

Rows run(const std::string& self, const std::string& library, const char* order, bool quick) {
  const std::string command =
      (library.empty() ? std::string()
                       : "LD_PRELOAD=" + library + " CAUSEWAY_OPEN=wait CAUSEWAY_ORDER=" + order +
                             " CAUSEWAY_STATISTICS=stderr ") +
      self + (quick ? " measure quick" : " measure");
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

int sweep(const std::string& self, bool quick, const char* order) {
  const std::string folder = self.substr(0, self.rfind('/') + 1);
  std::string library;
  for (const char* place : {"libcauseway-preload.so", "../lib/libcauseway-preload.so",
                            "lib/libcauseway-preload.so"}) {
    if (access((folder + place).c_str(), R_OK) == 0) library = folder + place;
  }
  if (const char* given = std::getenv("CAUSEWAY_PRELOAD_LIBRARY")) library = given;
  if (library.empty()) return std::fprintf(stderr, "no libcauseway-preload.so here\n"), 1;
  const Rows native = run(self, "", order, quick);
  const Rows ours = run(self, library, order, quick);
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
  const char* by = "value";
  for (int i = 2; i < argc; ++i) {
    quick = quick || std::strcmp(argv[i], "quick") == 0;
    if (std::strcmp(argv[i], "kernel") == 0) by = "kernel";
  }
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("skipped: no GPU\n");
    return 77;
  }
  if (what == "measure") return measure(quick);
  if (what == "order") return order();
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) return 1;
  if (what == "sweep") return sweep(self, quick, by);
  if (!what.empty()) {
    std::fprintf(stderr, "preload_gpu_bench [order|sweep [quick] [kernel]]\n");
    return 1;
  }
  const int failed = sweep(self, true, by);  // before this process has a context
  return order() + failed;
}
