// Everything at random, for as long as --seconds says, repeatable by --seed: threads on all GPUs,
// each with host and device buffers whose contents are known, and streams; copies of all sizes,
// places and kinds of call, kernels, host functions, graphs, streams and memory that come and go.
// Buffers are ordered by events alone; each is checked, on the GPU or by the host, again and again
// and at the end.
#include <algorithm>
#include <atomic>
#include <memory>

#include "cases.h"
#include "gpu.cuh"

namespace program {

namespace {

constexpr std::size_t kCapacity = 64 * kMiB;
constexpr int kThreads = 4;
constexpr std::size_t kStreams = 4;
constexpr std::size_t kBuffers = 3;           // of a thread: on each side
constexpr std::size_t kLookedAt = 64 * 1024;  // by a host function

// Memory, and which of its bytes hold what once `last` is done.
struct Buffer {
  unsigned char* data;
  bool on_host;
  bool pageable;
  Event last;
  std::size_t begin = 0;
  std::size_t bytes = 0;
  Pattern pattern;

  unsigned char* content() const { return data + begin; }
  void hold(std::size_t at, std::size_t length, Pattern held) {
    begin = at;
    bytes = length;
    pattern = held;
  }
};

// A host function's look at the first bytes of a buffer.
struct Look {
  const unsigned char* memory;
  std::size_t bytes;
  Pattern pattern;
  std::atomic<bool> right{false};
};

void look(void* argument) {
  auto* const one = static_cast<Look*>(argument);
  one->right = first_wrong(one->memory, one->bytes, one->pattern) == one->bytes;
}

class Worker {
 public:
  explicit Worker(std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < kBuffers; ++i) {
      const Host kind = i == 0 ? Host::kPinned : i == 1 ? Host::kRegistered : Host::kPageable;
      hosts_.emplace_back(kCapacity, kind);
      devices_.emplace_back(kCapacity);
      buffers_.push_back({hosts_.back().data(), true, kind == Host::kPageable, Event(), 0, 0, {}});
      buffers_.push_back({devices_.back().data(), false, false, Event(), 0, 0, {}});
    }
    for (std::size_t i = 0; i < kStreams; ++i) streams_.push_back(make_stream());
    for (Buffer& buffer : buffers_) refill(buffer);
  }

  // Nothing that a host function or a copy under way uses may go.
  ~Worker() {
    for (const Buffer& buffer : buffers_) (void)cudaEventSynchronize(buffer.last);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run(double end) {
    while (seconds_now() < end) {
      step();
      if (++steps_ % 64 == 0) settle();
    }
    for (Buffer& buffer : buffers_) verify(buffer);
    settle();
  }

  std::size_t steps() const { return steps_; }
  double copied() const { return copied_; }

 private:
  Stream make_stream() {
    return Stream(random_.below(3) == 0 ? cudaStreamDefault : cudaStreamNonBlocking,
                  -static_cast<int>(random_.below(3)));
  }
  cudaStream_t stream() { return streams_[random_.below(kStreams)]; }
  Buffer& buffer() { return buffers_[random_.below(buffers_.size())]; }

  void step() {
    const std::size_t choice = random_.below(100);
    if (choice < 70) {
      copy();
    } else if (choice < 78) {
      refill(buffer());
    } else if (choice < 88) {
      verify(buffer());
    } else if (choice < 91) {
      look_by_host_function();
    } else if (choice < 93) {
      streams_[random_.below(kStreams)] = make_stream();
    } else if (choice < 95) {
      const DeviceMemory passing(random_.size_up_to(8 * kMiB));
    } else if (choice < 97) {
      spin(stream(), 0.2);
    } else {
      (void)is_pending(stream());
    }
  }

  void refill(Buffer& buffer) {
    const std::size_t at = random_.below(5000);
    buffer.hold(at, kCapacity - at - random_.below(5000), {random_.next(), random_.below(100)});
    if (buffer.on_host) {
      buffer.last.wait();
      fill_host(buffer.content(), buffer.bytes, buffer.pattern);
      return;
    }
    const cudaStream_t where = stream();
    buffer.last.make_wait(where);
    fill_device(where, buffer.content(), buffer.bytes, buffer.pattern);
    buffer.last.record(where);
  }

  void verify(Buffer& buffer) {
    if (buffer.on_host) {
      buffer.last.wait();
      expect_host(buffer.content(), buffer.bytes, buffer.pattern, "stress, a host buffer");
      return;
    }
    const cudaStream_t where = stream();
    buffer.last.make_wait(where);
    check_.add(where, buffer.content(), buffer.bytes, buffer.pattern, "stress, a device buffer");
    buffer.last.record(where);
  }

  std::size_t length(const Buffer& source) {
    const std::size_t most = source.bytes;
    return random_.below(3) == 0 ? random_.size_up_to(most) : random_.between((most + 1) / 2, most);
  }

  void copy() {
    Buffer& source = buffer();
    Buffer& target = buffer();
    if (&source == &target) return;
    if (source.bytes < kMiB) refill(source);
    const std::size_t bytes = length(source);
    const std::size_t from = random_.below(source.bytes - bytes + 1);
    const std::size_t to = random_.below(std::min<std::size_t>(kCapacity - bytes, 10000) + 1);
    move(source, from, target, to, bytes);
    target.hold(to, bytes, source.pattern.from(from));
    if (source.on_host != target.on_host) copied_ += static_cast<double>(bytes);
  }

  // source's content [from, from + bytes) to target's memory at `to`.
  void move(Buffer& source, std::size_t from, Buffer& target, std::size_t to, std::size_t bytes) {
    unsigned char* const out = target.data + to;
    const unsigned char* const in = source.content() + from;
    const std::size_t way = random_.below(10);
    if (way == 0) {
      source.last.wait();
      target.last.wait();
      GPU_OK(cudaMemcpy(out, in, bytes, cudaMemcpyDefault));
      // The next use waits for events of streams: let one say that this copy is done. Copies within
      // the GPU or from pageable memory may still run when cudaMemcpy returns.
      source.last.record(nullptr);
      target.last.record(nullptr);
      return;
    }
    const cudaStream_t where = stream();
    source.last.make_wait(where);
    target.last.make_wait(where);
    const bool plain = source.pageable || target.pageable || (source.on_host && target.on_host);
    if (plain) {
      GPU_OK(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDefault, where));
    } else if (way == 1) {
      in_batch(where, out, in, bytes);
    } else if (way == 2) {
      in_graph(where, out, in, bytes);
    } else {
      GPU_OK(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDefault, where));
    }
    source.last.record(where);
    target.last.record(where);
  }

  void in_batch(cudaStream_t where, unsigned char* out, const unsigned char* in,
                std::size_t bytes) {
    std::vector<void*> to;
    std::vector<const void*> from;
    std::vector<std::size_t> sizes;
    const std::size_t part = std::max<std::size_t>(bytes / (1 + random_.below(40)), 1);
    for (std::size_t at = 0; at < bytes; at += part) {
      to.push_back(out + at);
      from.push_back(in + at);
      sizes.push_back(std::min(part, bytes - at));
    }
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    GPU_OK(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), sizes.size(), &attributes,
                                &first, 1, where));
  }

  void in_graph(cudaStream_t where, unsigned char* out, const unsigned char* in,
                std::size_t bytes) {
    const Stream capturing;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    GPU_OK(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeThreadLocal));
    GPU_OK(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDefault, capturing));
    GPU_OK(cudaStreamEndCapture(capturing, &graph));
    GPU_OK(cudaGraphInstantiate(&executable, graph, 0));
    GPU_OK(cudaGraphLaunch(executable, where));
    // Destroyed when its launches are done.
    GPU_OK(cudaGraphExecDestroy(executable));
    GPU_OK(cudaGraphDestroy(graph));
  }

  void look_by_host_function() {
    Buffer& buffer = buffers_[2 * random_.below(kBuffers)];
    const cudaStream_t where = stream();
    looks_.push_back(std::make_unique<Look>());
    Look& one = *looks_.back();
    one.memory = buffer.content();
    one.bytes = std::min(buffer.bytes, kLookedAt);
    one.pattern = buffer.pattern;
    buffer.last.make_wait(where);
    GPU_OK(cudaLaunchHostFunc(where, look, &one));
    buffer.last.record(where);
  }

  // Waits for the buffers and judges what was checked since.
  void settle() {
    for (Buffer& buffer : buffers_) buffer.last.wait();
    check_.finish();
    for (const auto& one : looks_) expect(one->right, "a host function saw wrong bytes");
    looks_.clear();
  }

  Random random_;
  std::vector<HostMemory> hosts_;
  std::vector<DeviceMemory> devices_;
  DeviceCheck check_;
  std::vector<std::unique_ptr<Look>> looks_;
  std::vector<Buffer> buffers_;
  std::vector<Stream> streams_;
  std::size_t steps_ = 0;
  double copied_ = 0;
};

void stress(Context& context) {
  std::atomic<std::size_t> steps{0};
  std::atomic<std::size_t> mebibytes{0};
  const double begin = seconds_now();
  in_threads(kThreads, [&](int thread) {
    GPU_OK(cudaSetDevice(thread % context.gpus));
    load_kernels();
    Worker worker(context.seed * 1000 + static_cast<std::uint64_t>(thread));
    worker.run(begin + context.seconds);
    steps += worker.steps();
    mebibytes += static_cast<std::size_t>(worker.copied() / static_cast<double>(kMiB));
  });
  context.detail = text("seed %llu: %zu steps, %zu GiB copied in %.0f s on %d GPUs",
                        static_cast<unsigned long long>(context.seed), steps.load(),
                        mebibytes.load() >> 10, seconds_now() - begin, context.gpus);
}

}  // namespace

Cases stress_cases() { return {{"stress", stress, 1, Run::kAlone, 120}}; }

}  // namespace program
