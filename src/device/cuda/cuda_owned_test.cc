// Objects of a slice of a CUDA machine outside its arena, over a fake driver: they are destroyed in
// the right context from any thread, and kept on a GPU that is lost.
#include "device/cuda/cuda_owned.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "device/cuda/cuda_machine.h"
#include "device/cuda/cuda_pinned.h"
#include "device/testing/fake_cuda.h"

namespace causeway::device::cuda_owned_test {
namespace {

using testing::FakeCuda;

constexpr Bytes kExtent = mib(2);

// Stands for a graph: as the runtime would, it asks the driver how much memory the current GPU has.
class Graph {
 public:
  Graph(const CudaApi& api, std::size_t& free_seen) : api_(&api), free_seen_(&free_seen) {}
  Graph(Graph&& other) noexcept
      : api_(std::exchange(other.api_, nullptr)), free_seen_(other.free_seen_) {}
  Graph& operator=(Graph&&) = delete;
  ~Graph() {
    if (api_ == nullptr) return;
    std::size_t total = 0;
    result = api_->cuMemGetInfo_v2(free_seen_, &total);
  }
  static inline int result = -1;

 private:
  const CudaApi* api_;
  std::size_t* free_seen_;
};

class CudaOwnedTest : public ::testing::Test {
 protected:
  CudaOwnedTest() {
    Graph::result = -1;
    machine_ = CudaMachine::create(api_, {.extent_bytes = kExtent, .drain_max = millis(20)}, clock_,
                                   memory_)
                   .value();
    for (int gpu : {0, 1}) {
      slices_[gpu] = machine_
                         ->open({.name = "s" + std::to_string(gpu),
                                 .physical_device = gpu,
                                 .arena_bytes = kExtent * 4})
                         .value();
    }
    used_ = slices_[1]->arena().allocate(2, Arena::End::kLow).value();
  }

  RealClock clock_;
  HostMemory memory_;
  FakeCuda driver_;
  const CudaApi api_ = driver_.api();
  std::unique_ptr<CudaMachine> machine_;
  std::unique_ptr<Device> slices_[2];
  Extents used_;  // makes the second GPU differ from the first
};

TEST_F(CudaOwnedTest, IsDestroyedInItsSlicesContextOnAnyThread) {
  std::size_t free_seen = 0;
  CudaOwned<Graph> graph(*slices_[1], Graph(api_, free_seen));
  std::thread([moved = std::move(graph)]() mutable { moved.reset(); }).join();
  EXPECT_EQ(Graph::result, 0) << "no context was current";
  EXPECT_EQ(free_seen, to_size(mib(256) - kExtent * 2)) << "of the other GPU";
  EXPECT_FALSE(graph);  // NOLINT: what a move leaves
}

TEST_F(CudaOwnedTest, IsDestroyedThoughAnotherGpuIsCurrent) {
  std::size_t free_seen = 0;
  const auto current = CudaCurrent::enter(*slices_[0]).value();
  { const CudaOwned<Graph> graph(*slices_[1], Graph(api_, free_seen)); }
  EXPECT_EQ(free_seen, to_size(mib(256) - kExtent * 2));
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(api_.cuMemGetInfo_v2(&free, &total), 0);
  EXPECT_EQ(free, to_size(mib(256))) << "the context before is not current again";
}

TEST_F(CudaOwnedTest, IsReplacedAndEmptiedOnce) {
  std::size_t first = 0;
  std::size_t second = 0;
  CudaOwned<Graph> graph(*slices_[1], Graph(api_, first));
  graph = CudaOwned<Graph>(*slices_[0], Graph(api_, second));
  EXPECT_NE(first, 0u);
  EXPECT_EQ(second, 0u);
  graph.reset();
  EXPECT_EQ(second, to_size(mib(256)));
  Graph::result = -1;
  graph.reset();
  EXPECT_EQ(Graph::result, -1);
}

TEST_F(CudaOwnedTest, IsLeftAloneOnALostGpu) {
  std::size_t free_seen = 0;
  {
    const CudaOwned<Graph> graph(*slices_[1], Graph(api_, free_seen));
    driver_.fail_next("cuCtxPushCurrent_v2", 700);
    EXPECT_FALSE(slices_[1]->make_stream("s").ok());
    ASSERT_FALSE(slices_[1]->health().ok());
  }
  EXPECT_EQ(Graph::result, -1);
}

TEST_F(CudaOwnedTest, PinnedMemoryIsRegisteredAndCopiedFrom) {
  auto pinned = CudaPinned::make(*slices_[1], "test", kib(8)).value();
  EXPECT_EQ(driver_.calls_of("cuMemHostRegister_v2"), 1);
  pinned.data()[100] = std::byte{7};
  const auto stream = slices_[1]->make_stream("s").value();
  const Copy up{MemoryAddress::in_arena(slices_[1]->id(), Bytes(0)), pinned.address(Bytes(100)),
                Bytes(1)};
  ASSERT_TRUE(stream->copy({&up, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->synchronize(seconds(10)).ok());
  EXPECT_EQ(used_.data()[0], std::byte{7});
  const Bytes before = memory_.total_bytes();
  pinned = CudaPinned();
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), 1);
  EXPECT_LT(memory_.total_bytes(), before);
}

TEST_F(CudaOwnedTest, PinnedMemoryThatCannotBeRegisteredIsGivenBack) {
  const Bytes before = memory_.total_bytes();
  driver_.fail_next("cuMemHostRegister_v2", kCudaOutOfMemory);
  EXPECT_EQ(CudaPinned::make(*slices_[0], "test", kib(8)).error().code,
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(memory_.total_bytes(), before);
}

// Unregistering would wait for the work that hangs.
TEST_F(CudaOwnedTest, PinnedMemoryStaysRegisteredOnAGpuThatHangs) {
  auto pinned = CudaPinned::make(*slices_[1], "test", kib(8)).value();
  {
    const auto stream = slices_[1]->make_stream("stuck").value();
    const auto mark = slices_[1]->make_event().value();
    driver_.hold(true);
    ASSERT_TRUE(stream->record(*mark).ok());
  }
  ASSERT_FALSE(slices_[1]->health().ok());
  pinned = CudaPinned();
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), 0);
}

}  // namespace
}  // namespace causeway::device::cuda_owned_test
