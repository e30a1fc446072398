// A program without any use of the preload library, for tests with the fake driver. It finds the
// driver's functions as the CUDA runtime does, by dlsym() alone, or by linking libcuda.
//
//   unmodified_program runtime|dlsym|linked CASE
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

extern "C" {
// A function of probe_library.cc: labs(), which calls the next labs() and adds a million.
long labs(long);
#ifdef CAUSEWAY_LINKED
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void**, int);
int cuCtxSetCurrent(void*);
int cuMemAlloc_v2(unsigned long long*, std::size_t);
int cuMemFree_v2(unsigned long long);
int cuMemHostAlloc(void**, std::size_t, unsigned);
int cuStreamCreateWithPriority(void**, unsigned, int);
int cuStreamSynchronize(void*);
int cuStreamBeginCapture_v2(void*, int);
int cuStreamEndCapture(void*, void**);
int cuLaunchHostFunc(void*, void (*)(void*), void*);
int cuMemcpy(unsigned long long, unsigned long long, std::size_t);
int cuMemcpyHtoD_v2(unsigned long long, const void*, std::size_t);
int cuMemcpyHtoDAsync_v2(unsigned long long, const void*, std::size_t, void*);
int cuMemcpyDtoH_v2_ptds(void*, unsigned long long, std::size_t);
int cuMemcpyDtoHAsync_v2(void*, unsigned long long, std::size_t, void*);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void*, void**, void**);
int cuDevicePrimaryCtxReset(int);
#endif
}

namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "FAILED: %s\n", what);
  std::abort();
}
void expect(bool condition, const char* what) {
  if (!condition) fail(what);
}

#ifndef CAUSEWAY_LINKED
using GetProcAddress = int (*)(const char*, void**, int, std::uint64_t, int*);

// By its base name, version and whether per thread; or by its symbol.
void* find(const std::string& how, const char* base, int version, bool per_thread,
           const char* symbol) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) fail("no libcuda.so.1");
  if (how == "dlsym") return dlsym(library, symbol);
  static const auto first = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  static const auto get = [] {
    void* found = nullptr;
    first("cuGetProcAddress", &found, 12'000, 0, nullptr);
    return reinterpret_cast<GetProcAddress>(found);
  }();
  void* found = nullptr;
  get(base, &found, version, per_thread ? 2 : 0, nullptr);
  return found;
}
#endif

struct Functions {
  int (*init)(unsigned);
  int (*retain)(void**, int);
  int (*set_current)(void*);
  int (*allocate)(unsigned long long*, std::size_t);
  int (*free)(unsigned long long);
  int (*allocate_host)(void**, std::size_t, unsigned);
  int (*create_stream)(void**, unsigned, int);
  int (*synchronize)(void*);
  int (*begin_capture)(void*, int);
  int (*end_capture)(void*, void**);
  int (*launch)(void*, void (*)(void*), void*);
  int (*copy)(unsigned long long, unsigned long long, std::size_t);
  int (*in)(unsigned long long, const void*, std::size_t);
  int (*in_async)(unsigned long long, const void*, std::size_t, void*);
  int (*out_of_thread)(void*, unsigned long long, std::size_t);
  int (*out_async)(void*, unsigned long long, std::size_t, void*);
  int (*run)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
             void**, void**);
  int (*reset)(int);
};

Functions functions(const std::string& how) {
#ifdef CAUSEWAY_LINKED
  (void)how;
  return {cuInit, cuDevicePrimaryCtxRetain, cuCtxSetCurrent, cuMemAlloc_v2, cuMemFree_v2,
          cuMemHostAlloc, cuStreamCreateWithPriority, cuStreamSynchronize,
          cuStreamBeginCapture_v2, cuStreamEndCapture, cuLaunchHostFunc,
          cuMemcpy, cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, cuMemcpyDtoH_v2_ptds,
          cuMemcpyDtoHAsync_v2, cuLaunchKernel, cuDevicePrimaryCtxReset};
#else
  Functions f = {};
  const auto get = [&](auto& into, const char* base, int version, const char* symbol,
                       bool per_thread = false) {
    void* const found = find(how, base, version, per_thread, symbol);
    if (found == nullptr) fail(symbol);
    std::memcpy(&into, &found, sizeof(found));
  };
  get(f.init, "cuInit", 2000, "cuInit");
  get(f.retain, "cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain");
  get(f.set_current, "cuCtxSetCurrent", 4000, "cuCtxSetCurrent");
  get(f.allocate, "cuMemAlloc", 3020, "cuMemAlloc_v2");
  get(f.free, "cuMemFree", 3020, "cuMemFree_v2");
  get(f.allocate_host, "cuMemHostAlloc", 2020, "cuMemHostAlloc");
  get(f.create_stream, "cuStreamCreateWithPriority", 5050, "cuStreamCreateWithPriority");
  get(f.synchronize, "cuStreamSynchronize", 2000, "cuStreamSynchronize");
  get(f.begin_capture, "cuStreamBeginCapture", 10010, "cuStreamBeginCapture_v2");
  get(f.end_capture, "cuStreamEndCapture", 10000, "cuStreamEndCapture");
  get(f.launch, "cuLaunchHostFunc", 10000, "cuLaunchHostFunc");
  get(f.copy, "cuMemcpy", 4000, "cuMemcpy");
  get(f.in, "cuMemcpyHtoD", 3020, "cuMemcpyHtoD_v2");
  get(f.in_async, "cuMemcpyHtoDAsync", 3020, "cuMemcpyHtoDAsync_v2");
  get(f.out_of_thread, "cuMemcpyDtoH", 7000, "cuMemcpyDtoH_v2_ptds", true);
  get(f.out_async, "cuMemcpyDtoHAsync", 3020, "cuMemcpyDtoHAsync_v2");
  get(f.run, "cuLaunchKernel", 4000, "cuLaunchKernel");
  // The runtime of CUDA 13 does this.
  get(f.reset, "cuDevicePrimaryCtxReset", 7000, "cuDevicePrimaryCtxReset");
  return f;
#endif
}

struct Program {
  explicit Program(const std::string& how) : f(functions(how)) {
    void* context = nullptr;
    expect(f.init(0) == 0 && f.retain(&context, 0) == 0 && f.set_current(context) == 0, "context");
    expect(f.allocate(&device, kBytes) == 0, "device memory");
    void* memory[2] = {};
    for (void*& one : memory) expect(f.allocate_host(&one, kBytes, 0) == 0, "pinned memory");
    host = static_cast<unsigned char*>(memory[0]);
    back = static_cast<unsigned char*>(memory[1]);
    expect(f.create_stream(&stream, 1, 0) == 0, "stream");
  }
  void fill(unsigned seed) const {
    for (std::size_t i = 0; i < kBytes; ++i) {
      host[i] = static_cast<unsigned char>(i * 2654435761u >> 13 ^ seed);
    }
  }
  void same() const { expect(std::memcmp(host, back, kBytes) == 0, "other bytes came back"); }

  const Functions f;
  unsigned long long device = 0;
  unsigned char* host = nullptr;
  unsigned char* back = nullptr;
  void* stream = nullptr;
};

// Six large copies by every function, and a small one.
void copies(Program& p) {
  p.fill(1);
  expect(p.f.in(p.device, p.host, kBytes) == 0, "in");
  expect(p.f.out_of_thread(p.back, p.device, kBytes) == 0, "out");
  p.same();
  p.fill(2);
  expect(p.f.in_async(p.device, p.host, kBytes, p.stream) == 0, "in, stream");
  expect(p.f.out_async(p.back, p.device, kBytes, p.stream) == 0, "out, stream");
  expect(p.f.synchronize(p.stream) == 0, "synchronize");
  p.same();
  p.fill(3);
  const auto host = reinterpret_cast<unsigned long long>(p.host);
  const auto back = reinterpret_cast<unsigned long long>(p.back);
  expect(p.f.copy(p.device, host, kBytes) == 0 && p.f.copy(back, p.device, kBytes) == 0, "copy");
  p.same();
  expect(p.f.in(p.device, p.host, 100) == 0, "small");
}

void frees(Program& p) {
  p.fill(4);
  for (int i = 0; i < 10; ++i) {
    unsigned long long other = 0;
    expect(p.f.allocate(&other, 4096) == 0, "other memory");
    expect(p.f.in_async(p.device, p.host, kBytes, p.stream) == 0, "in, stream");
    expect(p.f.free(other) == 0, "free");
  }
  expect(p.f.out_of_thread(p.back, p.device, kBytes) == 0, "out");
  p.same();
}

void wait_for_ever(void*) { pause(); }

// The process ends while a stream never comes to its copies.
void exits(Program& p) {
  expect(p.f.in(p.device, p.host, kBytes) == 0, "in");
  expect(p.f.launch(p.stream, wait_for_ever, nullptr) == 0, "launch");
  for (int i = 0; i < 5; ++i) {
    expect(p.f.in_async(p.device, p.host, kBytes, p.stream) == 0, "in, stream");
  }
}

void forks(Program& p) {
  p.fill(5);
  expect(p.f.in(p.device, p.host, kBytes) == 0, "in");
  const pid_t child = fork();
  // The child cannot use the driver, but it must end.
  if (child == 0) std::exit(7);
  int status = 0;
  expect(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7,
         "the child's end");
  expect(p.f.out_of_thread(p.back, p.device, kBytes) == 0, "out");
  p.same();
}

// Kernels that are loaded beside copies and after them, half of them twice.
void loads(Program& p) {
  p.fill(6);
  for (int i = 0; i < 10; ++i) {
    expect(p.f.in_async(p.device, p.host, kBytes, p.stream) == 0, "in, stream");
    char* const kernel = reinterpret_cast<char*>(&p) + 1 + i / 2;
    expect(p.f.run(kernel, 1, 1, 1, 1, 1, 1, 0, p.stream, nullptr, nullptr) == 0, "a kernel");
  }
  expect(p.f.out_of_thread(p.back, p.device, kBytes) == 0, "out");
  p.same();
}

// Copies that wait in the driver for earlier copies, whatever their size: of pageable memory, and
// within the host.
void pageable(Program& p) {
  const auto own = std::make_unique<unsigned char[]>(kBytes);
  for (int i = 0; i < 10; ++i) {
    p.fill(static_cast<unsigned>(8 + i));
    const std::size_t bytes = i % 2 == 0 ? kBytes : 100;
    expect(p.f.in_async(p.device, p.host, kBytes, p.stream) == 0, "in, stream");
    expect(p.f.out_async(own.get(), p.device, bytes, p.stream) == 0, "out to pageable memory");
    expect(std::memcmp(own.get(), p.host, bytes) == 0, "other bytes came to pageable memory");
    expect(p.f.in_async(p.device, p.host, kBytes, p.stream) == 0, "in, stream");
    const auto back = reinterpret_cast<unsigned long long>(p.back);
    expect(p.f.in_async(back, p.host, kBytes, p.stream) == 0, "within the host");
    p.same();
  }
  expect(p.f.out_of_thread(p.back, p.device, kBytes) == 0, "out");
  p.same();
}

// All contexts are destroyed while a copy is under way, and are made again.
void resets(Program& p) {
  expect(p.f.in_async(p.device, p.host, kBytes, p.stream) == 0, "in, stream");
  for (int gpu = 0; gpu < 4; ++gpu) expect(p.f.reset(gpu) == 0, "reset");
  p.fill(7);
  expect(p.f.create_stream(&p.stream, 1, 0) == 0, "stream");
  expect(p.f.in_async(p.device, p.host, kBytes, p.stream) == 0, "in, stream");
  expect(p.f.out_async(p.back, p.device, kBytes, p.stream) == 0, "out, stream");
  expect(p.f.synchronize(p.stream) == 0, "synchronize");
  p.same();
}

// The first large copy of the process becomes part of a graph.
void captures_first(Program& p) {
  constexpr int kThreadLocal = 1;
  void* graph = nullptr;
  expect(p.f.begin_capture(p.stream, kThreadLocal) == 0, "begin of a capture");
  expect(p.f.in_async(p.device, p.host, kBytes, p.stream) == 0, "a captured copy");
  expect(p.f.end_capture(p.stream, &graph) == 0, "end of a capture");
  copies(p);
}

// Many programs do this at their start.
void resets_first(Program& p) {
  for (int gpu = 0; gpu < 4; ++gpu) expect(p.f.reset(gpu) == 0, "reset");
  expect(p.f.create_stream(&p.stream, 1, 0) == 0, "stream");
  copies(p);
}

#ifndef CAUSEWAY_LINKED
bool is_of(const char* library, void* function) {
  Dl_info info = {};
  return dladdr(function, &info) != 0 && std::strstr(info.dli_fname, library) != nullptr;
}

// One name for two functions; the version that is asked for decides which.
void looks_up(Program& p) {
  for (const int version : {10'000, 11'000, 11'040, 11'999}) {
    void* const found = find("runtime", "cuGraphInstantiate", version, false, "");
    expect(is_of("libcuda.so", found), "the function of five arguments is the driver's");
  }
  for (const int version : {12'000, 13'000}) {
    void* const found = find("runtime", "cuGraphInstantiate", version, false, "");
    expect(is_of("causeway-preload", found), "the function of three arguments is hooked");
  }
  copies(p);
}
#endif

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 1;
  expect(labs(-5) == 1'000'005, "the next labs()");
  Program program(argv[1]);
  const std::string what = argv[2];
  if (what == "copies") copies(program);
  if (what == "frees") frees(program);
  if (what == "exits") exits(program);
  if (what == "forks") forks(program);
  if (what == "loads") loads(program);
  if (what == "pageable") pageable(program);
  if (what == "captures_first") captures_first(program);
  if (what == "resets") resets(program);
  if (what == "resets_first") resets_first(program);
#ifndef CAUSEWAY_LINKED
  if (what == "looks_up") looks_up(program);
#endif
  std::fprintf(stderr, "all went well\n");
  return 0;
}
