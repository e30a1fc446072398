#include "device/cuda/cuda_kernel_loading.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

namespace causeway::device::cuda_kernel_loading_test {
namespace {

CUstream_st* stream(std::uintptr_t number) { return reinterpret_cast<CUstream_st*>(number); }

// Streams wait for `word` until it is raised; a launch records when it got through.
struct Waiting {
  std::uint32_t word = 0;
  CudaStreamWaits waits;
  CudaLoadingRespects respects{waits};
  std::promise<void> launched;
  std::future<void> launch = launched.get_future();

  void wait() { waits.note(&word, 1); }
  void raise() { std::atomic_ref(word).store(1, std::memory_order_release); }
  bool launches_within(std::chrono::milliseconds time) {
    return launch.wait_for(time) == std::future_status::ready;
  }
};

constexpr auto kSoon = std::chrono::milliseconds(30);
constexpr auto kLate = std::chrono::seconds(20);

TEST(CudaFirstLaunch, WaitsUntilNoStreamWaits) {
  Waiting here;
  here.wait();
  std::thread stepping([&] {
    const CudaFirstLaunch first(1, stream(1));
    here.launched.set_value();
  });
  EXPECT_FALSE(here.launches_within(kSoon));
  here.raise();
  EXPECT_TRUE(here.launches_within(kLate));
  stepping.join();
}

TEST(CudaFirstLaunch, DoesNotWaitForWhatTheThreadHasLaunchedInTheStream) {
  Waiting here;
  std::thread stepping([&] {
    { const CudaFirstLaunch first(1, stream(1)); }
    here.wait();
    const CudaFirstLaunch again(1, stream(1));
    here.launched.set_value();
  });
  EXPECT_TRUE(here.launches_within(kLate));
  stepping.join();
}

TEST(CudaFirstLaunch, IsFirstAgainInAnotherStreamAndForAnotherKernel) {
  for (const auto& [kernel, where] : {std::pair<std::uintptr_t, std::uintptr_t>{1, 2}, {2, 1}}) {
    Waiting here;
    std::thread stepping([&, kernel = kernel, where = where] {
      { const CudaFirstLaunch first(1, stream(1)); }
      here.wait();
      const CudaFirstLaunch other(kernel, stream(where));
      here.launched.set_value();
    });
    EXPECT_FALSE(here.launches_within(kSoon));
    here.raise();
    EXPECT_TRUE(here.launches_within(kLate));
    stepping.join();
  }
}

TEST(CudaFirstLaunch, NoStreamBeginsToWaitMeanwhile) {
  Waiting here;
  std::promise<void> noted;
  std::future<void> note = noted.get_future();
  std::thread other;
  {
    const CudaFirstLaunch first(7, stream(7));
    other = std::thread([&] {
      here.wait();
      noted.set_value();
    });
    EXPECT_EQ(note.wait_for(kSoon), std::future_status::timeout);
  }
  EXPECT_EQ(note.wait_for(kLate), std::future_status::ready);
  other.join();
  here.raise();
}

TEST(CudaFirstLaunch, AMachineThatIsGoneIsNotRespected) {
  std::uint32_t word = 0;
  CudaStreamWaits waits;
  { const CudaLoadingRespects respects(waits); }
  waits.note(&word, 1);
  const CudaFirstLaunch first(8, stream(8));  // otherwise after 30 s
  EXPECT_EQ(word, 0u);
}

}  // namespace
}  // namespace causeway::device::cuda_kernel_loading_test
