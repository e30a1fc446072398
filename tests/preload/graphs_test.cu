// Batches of copies, copies captured into graphs, and captures beside copies under way.
#include <algorithm>

#include "cases.h"
#include "gpu.cuh"

namespace program {

namespace {

constexpr std::size_t kBytes = 48 * kMiB;

// The lists that cudaMemcpyBatchAsync takes.
struct Batch {
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> bytes;

  void add(void* target, const void* source, std::size_t length) {
    to.push_back(target);
    from.push_back(source);
    bytes.push_back(length);
  }

  void submit(cudaStream_t stream) {
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    GPU_OK(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), bytes.size(), &attributes,
                                &first, 1, stream));
  }
};

// A few large segments up, some down, and one within the GPU, in one call.
void batch_of_large_segments(Context& context) {
  HostMemory up(kBytes);
  HostMemory down(kBytes);
  DeviceMemory up_device(kBytes);
  DeviceMemory down_device(kBytes);
  DeviceMemory inner(kBytes);
  Stream stream;
  DeviceCheck check;
  for (int round = 0; round < 4; ++round) {
    const std::uint64_t seed = context.random.next();
    fill_host(up.data(), kBytes, {seed, 0});
    spin(stream, 5);
    fill_device(stream, down_device.data(), kBytes, {seed, 1});
    Batch batch;
    const std::size_t cut = context.random.between(kMiB, 40 * kMiB) | 1;
    batch.add(up_device.data(), up.data(), cut);
    batch.add(up_device.data() + cut, up.data() + cut, kBytes - cut);
    batch.add(down.data(), down_device.data(), kBytes);
    batch.add(inner.data(), down_device.data(), kBytes);
    batch.submit(stream);
    check.add(stream, up_device.data(), kBytes, {seed, 0}, "up in a batch");
    check.add(stream, inner.data(), kBytes, {seed, 1}, "within the GPU in a batch");
    fill_device(stream, down_device.data(), kBytes, {~seed, 0});
    stream.wait();
    check.finish();
    expect_host(down.data(), kBytes, {seed, 1}, "down in a batch");
  }
}

// Many scattered small segments, shuffled, as KV blocks travel.
void batch_of_scattered_segments(Context& context) {
  const std::size_t segment = 64 * 1024;
  const std::size_t count = 768;
  HostMemory host(count * segment);
  DeviceMemory device(count * segment);
  Stream stream;
  DeviceCheck check;
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[context.random.below(i)]);
  const std::uint64_t seed = context.random.next();
  fill_host(host.data(), host.bytes(), {seed, 0});
  Batch up;
  for (std::size_t i = 0; i < count; ++i) {
    up.add(device.data() + order[i] * segment, host.data() + i * segment, segment);
  }
  up.submit(stream);
  for (std::size_t i = 0; i < count; i += 7) {
    check.add(stream, device.data() + order[i] * segment, segment, {seed, i * segment},
              "scattered");
  }
  xor_device(stream, device.data(), device.data(), device.bytes(), 0x21);
  Batch down;
  for (std::size_t i = 0; i < count; ++i) {
    down.add(host.data() + i * segment, device.data() + order[i] * segment, segment);
  }
  down.submit(stream);
  stream.wait();
  check.finish();
  for (std::size_t i = 0; i < host.bytes(); ++i) host.data()[i] ^= 0x21;
  expect_host(host.data(), host.bytes(), {seed, 0}, "scattered and gathered");
}

class Graph {
 public:
  explicit Graph(cudaStream_t stream) {
    GPU_OK(cudaStreamEndCapture(stream, &graph_));
    GPU_OK(cudaGraphInstantiate(&executable_, graph_, 0));
  }
  ~Graph() {
    (void)cudaGraphExecDestroy(executable_);
    (void)cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(cudaStream_t stream) const { GPU_OK(cudaGraphLaunch(executable_, stream)); }
  std::size_t nodes() const {
    std::size_t count = 0;
    GPU_OK(cudaGraphGetNodes(graph_, nullptr, &count));
    return count;
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

// Copies are captured, not done; the graph does them as often as it is launched.
void captured_copies(Context& context) {
  HostMemory up(kBytes);
  HostMemory down(kBytes);
  DeviceMemory device(kBytes);
  Stream stream;
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
        cudaStreamCaptureModeRelaxed}) {
    fill_host(down.data(), kBytes, {1, 0});
    GPU_OK(cudaStreamBeginCapture(stream, mode));
    GPU_OK(cudaMemcpyAsync(device.data(), up.data(), kBytes, cudaMemcpyHostToDevice, stream));
    xor_device(stream, device.data(), device.data(), kBytes, 0x18);
    GPU_OK(cudaMemcpyAsync(down.data(), device.data(), kBytes, cudaMemcpyDeviceToHost, stream));
    const Graph graph(stream);
    expect(graph.nodes() == 3, "%zu nodes were captured, not 3", graph.nodes());
    expect_host(down.data(), kBytes, {1, 0}, "touched while capturing");
    for (int launch = 0; launch < 3; ++launch) {
      const std::uint64_t seed = context.random.next();
      fill_host(up.data(), kBytes, {seed, 0});
      graph.launch(stream);
      stream.wait();
      for (std::size_t i = 0; i < kBytes; ++i) down.data()[i] ^= 0x18;
      expect_host(down.data(), kBytes, {seed, 0}, "by a graph");
    }
  }
}

// Another stream joins a capture by an event; its copies are captured too.
void capture_that_spreads(Context& context) {
  HostMemory up(kBytes);
  DeviceMemory device(kBytes);
  Stream stream;
  Stream joined;
  DeviceCheck check;
  const Event fork;
  const Event join;
  GPU_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  fork.record(stream);
  fork.make_wait(joined);
  GPU_OK(cudaMemcpyAsync(device.data(), up.data(), kBytes, cudaMemcpyHostToDevice, joined));
  join.record(joined);
  join.make_wait(stream);
  const Graph graph(stream);
  expect(graph.nodes() == 1, "%zu nodes were captured, not 1", graph.nodes());
  const std::uint64_t seed = context.random.next();
  fill_host(up.data(), kBytes, {seed, 0});
  graph.launch(stream);
  check.add(stream, device.data(), kBytes, {seed, 0}, "by a joined stream's node");
  check.finish();
}

// Large copies are under way, and go on beginning, while another stream captures in the mode that
// forbids most; then graphs and plain copies take turns.
void capture_beside_copies(Context& context) {
  HostMemory host(kBytes);
  HostMemory back(kBytes);
  DeviceMemory device(kBytes);
  DeviceMemory other(kBytes);
  Stream stream;
  Stream capturing;
  DeviceCheck check;
  const std::uint64_t seed = context.random.next();
  fill_host(host.data(), kBytes, {seed, 0});
  for (int round = 0; round < 4; ++round) {
    GPU_OK(cudaMemcpyAsync(device.data(), host.data(), kBytes, cudaMemcpyHostToDevice, stream));
    GPU_OK(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeGlobal));
    xor_device(capturing, other.data(), device.data(), kBytes, 0x61);
    GPU_OK(cudaMemcpyAsync(back.data(), device.data(), kBytes, cudaMemcpyDeviceToHost, stream));
    GPU_OK(cudaMemcpyAsync(device.data(), host.data(), kBytes, cudaMemcpyHostToDevice, stream));
    const Graph graph(capturing);
    check.add(stream, device.data(), kBytes, {seed, 0}, "beside a capture");
    graph.launch(stream);
    GPU_OK(cudaMemcpyAsync(back.data(), other.data(), kBytes, cudaMemcpyDeviceToHost, stream));
    stream.wait();
    check.finish();
    for (std::size_t i = 0; i < kBytes; ++i) back.data()[i] ^= 0x61;
    expect_host(back.data(), kBytes, {seed, 0}, "behind a graph");
  }
}

// A sync copy in a thread while another captures in a mode that allows it.
void capture_beside_sync_copies(Context& context) {
  const std::uint64_t seed = context.random.next();
  in_threads(2, [seed](int thread) {
    Stream stream;
    DeviceMemory device(kBytes);
    HostMemory host(kBytes);
    fill_host(host.data(), kBytes, {seed, 0});
    if (thread == 0) {
      for (int i = 0; i < 8; ++i) {
        GPU_OK(cudaMemcpy(device.data(), host.data(), kBytes, cudaMemcpyHostToDevice));
        fill_host(host.data(), kBytes, {~seed, 0});
        GPU_OK(cudaMemcpy(host.data(), device.data(), kBytes, cudaMemcpyDeviceToHost));
      }
      expect_host(host.data(), kBytes, {seed, 0}, "beside a thread that captures");
      return;
    }
    for (int i = 0; i < 40; ++i) {
      GPU_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      fill_device(stream, device.data(), kBytes, {seed, 1});
      const Graph graph(stream);
      graph.launch(stream);
      stream.wait();
    }
  });
}

}  // namespace

Cases graph_cases() {
  return {{"batch_of_large_segments", batch_of_large_segments},
          {"batch_of_scattered_segments", batch_of_scattered_segments},
          {"captured_copies", captured_copies},
          {"capture_that_spreads", capture_that_spreads},
          {"capture_beside_copies", capture_beside_copies},
          {"capture_beside_sync_copies", capture_beside_sync_copies}};
}

}  // namespace program
