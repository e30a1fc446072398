// The preload library around an unmodified program on two GPUs or more. Without arguments, runs
// each case in a process of its own, with the library loaded into it, and looks at what the library
// says it did; a case that does not end counts as hung. Cases use the CUDA runtime only, as any
// program would: this file is built twice, with the static and with the shared runtime.
//
//   preload_gpu_test [CASE…]     CAUSEWAY_PRELOAD_LIBRARY: where the library is
//                                CAUSEWAY_ASYNC=hold unless it is set: then the numbers of copies
//                                that are to be ours are not looked at
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "preload/testing/gpu_program.cuh"

namespace {

using causeway::preload::testing::kSkipped;
using causeway::preload::testing::library_for;
using causeway::preload::testing::own_path;

using Word = unsigned long long;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kLarge = 256 * kMiB;

#define EXPECT(condition)                                                                  \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);         \
      std::_Exit(3);                                                                       \
    }                                                                                      \
  } while (false)

__host__ __device__ Word word_at(Word seed, Word index) {
  Word x = (seed + 1) * 0x9e3779b97f4a7c15ULL + index * 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 31;
  return x * 0x94d049bb133111ebULL;
}

__global__ void fill_kernel(Word* words, std::size_t count, Word seed) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    words[i] = word_at(seed, i);
  }
}

__global__ void count_wrong(const Word* words, std::size_t count, Word seed, Word* wrong) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    if (words[i] != word_at(seed, i)) atomicAdd(wrong, Word{1});
  }
}

__global__ void delay_kernel(long long nanoseconds) {
  Word start = 0;
  Word now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (static_cast<long long>(now - start) < nanoseconds);
}

// Each kernel is used by one case only, so that it is loaded at that moment.
__global__ void late_kernel(Word* words) { words[0] = 41; }
__global__ void later_kernel(Word* words) { words[0] += 1; }

void delay(cudaStream_t stream, int milliseconds) {
  delay_kernel<<<1, 1, 0, stream>>>(milliseconds * 1'000'000LL);
  CHECK_CUDA(cudaGetLastError());
}
void fill(Word* words, std::size_t bytes, Word seed, cudaStream_t stream) {
  fill_kernel<<<256, 256, 0, stream>>>(words, bytes / 8, seed);
  CHECK_CUDA(cudaGetLastError());
}

void fill_host(Word* words, std::size_t bytes, Word seed) {
  for (std::size_t i = 0; i < bytes / 8; ++i) words[i] = word_at(seed, i);
}
std::size_t wrong_on_host(const Word* words, std::size_t bytes, Word seed) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < bytes / 8; ++i) wrong += words[i] != word_at(seed, i);
  return wrong;
}

struct Wrong {
  Wrong() {
    CHECK_CUDA(cudaMalloc(&count, 8));
    CHECK_CUDA(cudaMemset(count, 0, 8));
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  void look(const Word* words, std::size_t bytes, Word seed, cudaStream_t stream) const {
    count_wrong<<<256, 256, 0, stream>>>(words, bytes / 8, seed, count);
    CHECK_CUDA(cudaGetLastError());
  }
  Word read() const {
    CHECK_CUDA(cudaDeviceSynchronize());
    Word host = 0;
    CHECK_CUDA(cudaMemcpy(&host, count, 8, cudaMemcpyDeviceToHost));
    return host;
  }
  Word* count = nullptr;
};

Word* device_words(std::size_t bytes) {
  Word* words = nullptr;
  CHECK_CUDA(cudaMalloc(&words, bytes));
  return words;
}
Word* pinned_words(std::size_t bytes) {
  Word* words = nullptr;
  CHECK_CUDA(cudaMallocHost(&words, bytes));
  return words;
}
// How the library treats asynchronous copies: "native", "wait" or "hold".
bool async_is(const char* way) {
  const char* const set = std::getenv("CAUSEWAY_ASYNC");
  return set != nullptr && std::strcmp(set, way) == 0;
}
cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

// ---- The cases. Each tells the least number of its copies that must have gone over several links.

int synchronous() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  const Wrong wrong;
  for (Word seed = 0; seed < 3; ++seed) {
    fill_host(host, kLarge, seed);
    CHECK_CUDA(cudaMemcpy(device, host, kLarge, cudaMemcpyHostToDevice));
    std::memset(host, 0, kLarge);  // at once: the copy has returned
    wrong.look(device, kLarge, seed, nullptr);
    EXPECT(wrong.read() == 0);
    CHECK_CUDA(cudaMemcpy(host, device, kLarge, cudaMemcpyDefault));
    EXPECT(wrong_on_host(host, kLarge, seed) == 0);
  }
  return 6;
}

int stream_order() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  Word* back = pinned_words(kLarge);
  const Wrong wrong;
  cudaStream_t stream = make_stream();
  for (Word seed = 10; seed < 16; ++seed) {
    fill_host(host, kLarge, seed);
    delay(stream, 5);
    CHECK_CUDA(cudaMemcpyAsync(device, host, kLarge, cudaMemcpyHostToDevice, stream));
    wrong.look(device, kLarge, seed, stream);
    delay(stream, 5);
    CHECK_CUDA(cudaMemcpyAsync(back, device, kLarge, cudaMemcpyDeviceToHost, stream));
    fill(device, kLarge, ~seed, stream);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    EXPECT(wrong_on_host(back, kLarge, seed) == 0);
    EXPECT(wrong.read() == 0);
  }
  return 12;
}

int several_streams() {
  constexpr int kStreams = 6;
  constexpr std::size_t kBytes = 64 * kMiB + 8;
  const Wrong wrong;
  std::vector<cudaStream_t> streams;
  std::vector<Word*> device, host, back;
  for (int s = 0; s < kStreams; ++s) {
    streams.push_back(make_stream());
    device.push_back(device_words(kBytes));
    host.push_back(pinned_words(kBytes));
    back.push_back(pinned_words(kBytes));
    fill_host(host[s], kBytes, 100 + s);
  }
  for (int round = 0; round < 4; ++round) {
    for (int s = 0; s < kStreams; ++s) {
      CHECK_CUDA(cudaMemsetAsync(device[s], round, kBytes, streams[s]));
      CHECK_CUDA(cudaMemcpyAsync(device[s], host[s], kBytes, cudaMemcpyHostToDevice, streams[s]));
      wrong.look(device[s], kBytes, 100 + s, streams[s]);
      CHECK_CUDA(cudaMemcpyAsync(back[s], device[s], kBytes, cudaMemcpyDeviceToHost, streams[s]));
    }
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int s = 0; s < kStreams; ++s) EXPECT(wrong_on_host(back[s], kBytes, 100 + s) == 0);
  EXPECT(wrong.read() == 0);
  return kStreams * 8;
}

// More streams than a GPU has queues, with native and multipath copies in turns. None may block the
// engine's own streams.
int many_streams() {
  constexpr int kStreams = 64;
  constexpr std::size_t kBytes = 16 * kMiB;
  const Wrong wrong;
  std::vector<cudaStream_t> streams;
  Word* device = device_words(kStreams * kBytes);
  Word* host = pinned_words(kBytes);
  Word* small = pinned_words(4096);
  Word* small_device = device_words(4096 * kStreams);
  fill_host(host, kBytes, 7);
  for (int s = 0; s < kStreams; ++s) streams.push_back(make_stream());
  for (int round = 0; round < 3; ++round) {
    for (int s = 0; s < kStreams; ++s) {
      Word* mine = device + s * (kBytes / 8);
      CHECK_CUDA(cudaMemcpyAsync(small_device + s * 512, small, 4096, cudaMemcpyHostToDevice,
                                 streams[s]));
      CHECK_CUDA(cudaMemcpyAsync(mine, host, kBytes, cudaMemcpyHostToDevice, streams[s]));
      CHECK_CUDA(cudaMemcpyAsync(small_device + s * 512, small, 4096, cudaMemcpyHostToDevice,
                                 streams[s]));
      wrong.look(mine, kBytes, 7, streams[s]);
    }
  }
  EXPECT(wrong.read() == 0);
  return 3 * kStreams;
}

// The default stream and blocking ones wait for each other.
int legacy_stream() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  const Wrong wrong;
  cudaStream_t blocking = make_stream(cudaStreamDefault);
  for (Word seed = 30; seed < 34; ++seed) {
    delay(blocking, 5);
    fill(device, kLarge, seed, blocking);
    CHECK_CUDA(cudaMemcpy(host, device, kLarge, cudaMemcpyDeviceToHost));  // after the kernel
    EXPECT(wrong_on_host(host, kLarge, seed) == 0);
    fill_host(host, kLarge, seed + 100);
    CHECK_CUDA(cudaMemcpyAsync(device, host, kLarge, cudaMemcpyHostToDevice, nullptr));
    wrong.look(device, kLarge, seed + 100, blocking);  // after the copy
    EXPECT(wrong.read() == 0);
  }
  return 8;
}

int events() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  const Wrong wrong;
  cudaStream_t copying = make_stream();
  cudaStream_t computing = make_stream();
  cudaEvent_t event = nullptr;
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  fill_host(host, kLarge, 5);
  delay(copying, 10);
  CHECK_CUDA(cudaMemcpyAsync(device, host, kLarge, cudaMemcpyHostToDevice, copying));
  CHECK_CUDA(cudaEventRecord(event, copying));
  // With `wait` the call may have taken as long as the copy.
  if (!async_is("wait")) EXPECT(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK_CUDA(cudaStreamWaitEvent(computing, event, 0));
  wrong.look(device, kLarge, 5, computing);
  CHECK_CUDA(cudaEventSynchronize(event));
  EXPECT(wrong.read() == 0);
  return 1;
}

int free_while_pending() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  const Wrong wrong;
  cudaStream_t stream = make_stream();
  fill_host(host, kLarge, 6);
  for (int round = 0; round < 4; ++round) {
    Word* other = device_words(kMiB);
    Word* other_host = pinned_words(kMiB);
    delay(stream, 20);
    CHECK_CUDA(cudaMemcpyAsync(device, host, kLarge, cudaMemcpyHostToDevice, stream));
    wrong.look(device, kLarge, 6, stream);
    if (round % 2 == 0) CHECK_CUDA(cudaFree(other));
    CHECK_CUDA(cudaFreeHost(other_host));
    if (round % 2 == 1) CHECK_CUDA(cudaFree(other));
  }
  EXPECT(wrong.read() == 0);
  return 4;
}

int allocate_while_pending() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  const Wrong wrong;
  cudaStream_t stream = make_stream();
  fill_host(host, kLarge, 8);
  for (int round = 0; round < 4; ++round) {
    delay(stream, 20);
    CHECK_CUDA(cudaMemcpyAsync(device, host, kLarge, cudaMemcpyHostToDevice, stream));
    wrong.look(device, kLarge, 8, stream);
    device_words(64 * kMiB);
    pinned_words(64 * kMiB);
    make_stream();
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  EXPECT(wrong.read() == 0);
  return 4;
}

int load_while_pending() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  Word* word = device_words(8);
  const Wrong wrong;
  cudaStream_t stream = make_stream();
  cudaStream_t other = make_stream();
  fill_host(host, kLarge, 9);
  delay(stream, 50);
  CHECK_CUDA(cudaMemcpyAsync(device, host, kLarge, cudaMemcpyHostToDevice, stream));
  late_kernel<<<1, 1, 0, other>>>(word);
  CHECK_CUDA(cudaGetLastError());
  wrong.look(device, kLarge, 9, stream);
  CHECK_CUDA(cudaMemcpyAsync(host, device, kLarge, cudaMemcpyDeviceToHost, stream));
  later_kernel<<<1, 1, 0, stream>>>(word);
  CHECK_CUDA(cudaGetLastError());
  CHECK_CUDA(cudaStreamSynchronize(other));
  EXPECT(wrong.read() == 0);
  EXPECT(wrong_on_host(host, kLarge, 9) == 0);
  Word value = 0;
  CHECK_CUDA(cudaMemcpy(&value, word, 8, cudaMemcpyDeviceToHost));
  EXPECT(value == 42);
  return 2;
}

int destroy_stream() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  const Wrong wrong;
  fill_host(host, kLarge, 12);
  for (int round = 0; round < 4; ++round) {
    cudaStream_t stream = make_stream();
    delay(stream, 10);
    CHECK_CUDA(cudaMemcpyAsync(device, host, kLarge, cudaMemcpyHostToDevice, stream));
    wrong.look(device, kLarge, 12, stream);
    CHECK_CUDA(cudaStreamDestroy(stream));
  }
  EXPECT(wrong.read() == 0);
  return 4;
}

int exit_while_pending() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  cudaStream_t stream = make_stream();
  CHECK_CUDA(cudaMemcpy(device, host, kLarge, cudaMemcpyHostToDevice));
  delay(stream, 300);
  for (int i = 0; i < 8; ++i) {
    CHECK_CUDA(cudaMemcpyAsync(device, host, kLarge, cudaMemcpyHostToDevice, stream));
  }
  return 1;
}

int batch() {
  constexpr std::size_t kCount = 64;
  constexpr std::size_t kBytes = 4 * kMiB;
  Word* device = device_words(kCount * kBytes);
  Word* host = pinned_words(kCount * kBytes);
  const Wrong wrong;
  cudaStream_t stream = make_stream();
  fill_host(host, kCount * kBytes, 13);
  std::vector<void*> targets;
  std::vector<const void*> sources;
  std::vector<std::size_t> bytes(kCount, kBytes);
  for (std::size_t i = 0; i < kCount; ++i) {
    targets.push_back(device + i * kBytes / 8);
    sources.push_back(host + i * kBytes / 8);
  }
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  CHECK_CUDA(cudaMemcpyBatchAsync(targets.data(), sources.data(), bytes.data(), kCount,
                                  &attributes, &first, 1, stream));
  wrong.look(device, kCount * kBytes, 13, stream);
  EXPECT(wrong.read() == 0);
  return 1;
}

int registered() {
  std::vector<Word> memory(kLarge / 8);
  Word* device = device_words(kLarge);
  CHECK_CUDA(cudaHostRegister(memory.data(), kLarge, cudaHostRegisterDefault));
  const Wrong wrong;
  fill_host(memory.data(), kLarge, 14);
  CHECK_CUDA(cudaMemcpy(device, memory.data(), kLarge, cudaMemcpyHostToDevice));
  wrong.look(device, kLarge, 14, nullptr);
  EXPECT(wrong.read() == 0);
  CHECK_CUDA(cudaHostUnregister(memory.data()));
  return 1;
}

// Copies that the library leaves to the driver, and that must work all the same.
int passes_through() {
  Word* device = device_words(kLarge);
  Word* other = device_words(kLarge);
  std::vector<Word> pageable(kLarge / 8);
  Word* pinned = pinned_words(kLarge);
  const Wrong wrong;
  fill_host(pageable.data(), kLarge, 15);
  CHECK_CUDA(cudaMemcpy(device, pageable.data(), kLarge, cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy(other, device, kLarge, cudaMemcpyDeviceToDevice));
  wrong.look(other, kLarge, 15, nullptr);
  EXPECT(wrong.read() == 0);
  Word* managed = nullptr;
  CHECK_CUDA(cudaMallocManaged(&managed, kLarge));
  CHECK_CUDA(cudaMemcpy(managed, device, kLarge, cudaMemcpyDefault));
  EXPECT(wrong_on_host(managed, kLarge, 15) == 0);

  cudaStream_t stream = make_stream();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  fill_host(pinned, kLarge, 16);
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_CUDA(cudaMemcpyAsync(device, pinned, kLarge, cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  wrong.look(device, kLarge, 16, stream);
  EXPECT(wrong.read() == 0);
  // Copies beyond an allocation fail as the driver alone would have them fail.
  Word* small = device_words(32 * kMiB);
  EXPECT(cudaMemcpyAsync(small, pinned, kLarge, cudaMemcpyHostToDevice, stream) ==
         cudaErrorInvalidValue);
  return 0;
}

// A global capture on one thread must not be broken by the calls of the engine's thread.
int capture_beside() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  Word* small = device_words(4096);
  const Wrong wrong;
  cudaStream_t stream = make_stream();
  cudaStream_t capturing = make_stream();
  fill_host(host, kLarge, 17);
  CHECK_CUDA(cudaMemcpyAsync(device, host, kLarge, cudaMemcpyHostToDevice, stream));
  delay(stream, 10);
  CHECK_CUDA(cudaMemcpyAsync(device, host, kLarge, cudaMemcpyHostToDevice, stream));
  cudaGraph_t graph = nullptr;
  CHECK_CUDA(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeGlobal));
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
  while (std::chrono::steady_clock::now() < until) {
    CHECK_CUDA(cudaMemsetAsync(small, 0, 4096, capturing));
  }
  CHECK_CUDA(cudaStreamEndCapture(capturing, &graph));
  wrong.look(device, kLarge, 17, stream);
  EXPECT(wrong.read() == 0);
  return 2;
}

int forked() {
  Word* device = device_words(kLarge);
  Word* host = pinned_words(kLarge);
  CHECK_CUDA(cudaMemcpy(device, host, kLarge, cudaMemcpyHostToDevice));
  const pid_t child = fork();
  if (child == 0) {
    // CUDA cannot be used here; the call only has to return.
    (void)cudaMemcpy(device, host, kLarge, cudaMemcpyHostToDevice);
    std::_Exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
  CHECK_CUDA(cudaMemcpy(device, host, kLarge, cudaMemcpyHostToDevice));
  return 2;
}

int threads() {
  constexpr int kThreads = 8;
  constexpr std::size_t kBytes = 32 * kMiB;
  // The first large copy opens the library; without it those of other threads would be native until
  // then.
  {
    Word* device = device_words(kBytes);
    Word* host = pinned_words(kBytes);
    CHECK_CUDA(cudaMemcpy(device, host, kBytes, cudaMemcpyHostToDevice));
  }
  std::vector<std::thread> workers;
  for (int t = 0; t < kThreads; ++t) {
    workers.emplace_back([t] {
      int gpus = 0;
      CHECK_CUDA(cudaGetDeviceCount(&gpus));
      CHECK_CUDA(cudaSetDevice(t % gpus));
      Word* device = device_words(kBytes);
      Word* host = pinned_words(kBytes);
      Word* back = pinned_words(kBytes);
      cudaStream_t stream = make_stream();
      for (int round = 0; round < 20; ++round) {
        fill_host(host, kBytes, t * 100 + round);
        CHECK_CUDA(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream));
        CHECK_CUDA(cudaMemcpyAsync(back, device, kBytes, cudaMemcpyDeviceToHost, stream));
        CHECK_CUDA(cudaStreamSynchronize(stream));
        EXPECT(wrong_on_host(back, kBytes, t * 100 + round) == 0);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  return kThreads * 40;
}

struct Case {
  const char* name;
  int (*run)();
};
const Case kCases[] = {
    {"synchronous", synchronous},
    {"stream_order", stream_order},
    {"several_streams", several_streams},
    {"legacy_stream", legacy_stream},
    {"events", events},
    {"batch", batch},
    {"registered", registered},
    {"passes_through", passes_through},
    {"threads", threads},
    {"forked", forked},
    {"destroy_stream", destroy_stream},
    {"exit_while_pending", exit_while_pending},
    {"free_while_pending", free_while_pending},
    {"allocate_while_pending", allocate_while_pending},
    {"load_while_pending", load_while_pending},
    {"capture_beside", capture_beside},
    {"many_streams", many_streams},
};

// ---- Running the cases.

// The number that the library counted; -1: it printed none.
long long multipath_copies(const std::string& statistics) {
  std::ifstream file(statistics);
  std::string line;
  long long calls = -1;
  while (std::getline(file, line)) {
    if (calls < 0) calls = 0;
    std::sscanf(line.c_str(), "copies multipath: %lld", &calls);
  }
  return calls;
}

// 0, or the number of failures.
int run_case(const Case& test, const std::string& program, const std::string& library) {
  const std::string statistics = "/tmp/causeway-preload-" + std::to_string(getpid()) + ".txt";
  unlink(statistics.c_str());
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const auto loading = causeway::preload::testing::preloading(library);
    setenv("LD_PRELOAD", loading.ld_preload.c_str(), 1);
    setenv("LD_LIBRARY_PATH", loading.ld_library_path.c_str(), 1);
    setenv("CAUSEWAY_OPEN", "wait", 1);
    setenv("CAUSEWAY_ASYNC", "hold", 0);  // or what the caller says
    setenv("CAUSEWAY_STATISTICS", statistics.c_str(), 1);
    execl(program.c_str(), program.c_str(), "--case", test.name, nullptr);
    std::_Exit(126);
  }
  int status = 0;
  bool hung = false;
  while (waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    hung = std::chrono::steady_clock::now() - begin > std::chrono::seconds(30);
    if (!hung) continue;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    break;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const long long copies = multipath_copies(statistics);
  const bool exited = WIFEXITED(status) && !hung;
  const int code = exited ? WEXITSTATUS(status) : -1;
  // The code is 100 + the number wanted, up to 100 of them.
  const bool counted = std::getenv("CAUSEWAY_ASYNC") == nullptr || async_is("hold");
  const bool enough = !counted || copies >= code - 100;
  const bool passed = code >= 100 && enough;
  std::string why;
  if (!exited && !hung) why = ", ended by signal " + std::to_string(WTERMSIG(status));
  if (exited && code < 100) why = ", ended with " + std::to_string(code);
  if (code >= 100 && !enough) why = ", fewer than " + std::to_string(code - 100);
  std::printf("%-7s %-24s %6.2f s  %lld multipath copies%s\n",
              hung ? "HUNG" : (passed ? "ok" : "FAILED"), test.name, seconds, copies, why.c_str());
  if (!passed) {
    std::ifstream file(statistics);
    for (std::string line; std::getline(file, line);) std::printf("        %s\n", line.c_str());
  }
  std::fflush(stdout);
  unlink(statistics.c_str());
  return passed ? 0 : 1;
}

const Case* find_case(const char* name) {
  for (const Case& test : kCases) {
    if (std::strcmp(name, test.name) == 0) return &test;
  }
  return nullptr;
}

int gpus_of_another_process(const std::string& program) {
  const pid_t child = fork();
  if (child == 0) {
    execl(program.c_str(), program.c_str(), "--gpus", nullptr);
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "--gpus") {
    int gpus = 0;
    return cudaGetDeviceCount(&gpus) == cudaSuccess ? gpus : 0;
  }
  if (what == "--case") {
    const Case* const test = argc > 2 ? find_case(argv[2]) : nullptr;
    if (test == nullptr) return 1;
    const int wanted = test->run();
    return 100 + (wanted > 100 ? 100 : wanted);
  }
  std::vector<const Case*> tests;
  for (int i = 1; i < argc; ++i) {
    tests.push_back(find_case(argv[i]));
    if (tests.back() != nullptr) continue;
    std::printf("no such case: %s\n", argv[i]);
    return 2;
  }
  for (const Case& test : kCases) {
    if (argc < 2) tests.push_back(&test);
  }
  const std::string self = own_path();
  if (self.empty()) return 1;
  if (gpus_of_another_process(self) < 2) {
    std::printf("skipped: two GPUs are needed\n");
    return kSkipped;
  }
  const std::string library = library_for(self);
  if (library.empty()) {
    std::printf("no libcauseway-preload.so beside the program: set CAUSEWAY_PRELOAD_LIBRARY\n");
    return 1;
  }
  int failed = 0;
  for (const Case* test : tests) failed += run_case(*test, self, library);
  std::printf("%zu cases, %d failed\n", tests.size(), failed);
  return failed == 0 ? 0 : 1;
}
