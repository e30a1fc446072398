#include "device/cuda/cuda_stream_waits.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace causeway::device::cuda_stream_waits_test {
namespace {

// Long enough for the other thread to do what it must not do.
void pause() {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  (void)never.wait_for(lock, std::chrono::milliseconds(5));
}

TEST(CudaStreamWaits, AHoldBeginsWhenWhatStreamsWaitForIsThere) {
  CudaStreamWaits waits;
  std::uint32_t word = 0;
  waits.note(&word, 3);
  std::atomic<bool> held = false;
  std::thread holder([&] {
    const CudaStreamWaits::Hold hold(waits);
    held = true;
    EXPECT_EQ(std::atomic_ref(word).load(), 3u);
  });
  pause();
  EXPECT_FALSE(held);
  std::atomic_ref(word).store(2);
  pause();
  EXPECT_FALSE(held);
  std::atomic_ref(word).store(3);
  holder.join();
  EXPECT_TRUE(held);
}

TEST(CudaStreamWaits, NoStreamBeginsToWaitDuringAHold) {
  CudaStreamWaits waits;
  std::uint32_t word = 0;
  std::atomic<bool> noted = false;
  std::thread stream;
  {
    const CudaStreamWaits::Hold one(waits);
    const CudaStreamWaits::Hold other(waits);  // as when an error undoes earlier steps
    stream = std::thread([&] {
      waits.note(&word, 1);
      noted = true;
    });
    pause();
    EXPECT_FALSE(noted);
  }
  stream.join();
  EXPECT_TRUE(noted);
  // The word is given to another semaphore, and no stream waits for it.
  waits.forget(&word);
  const CudaStreamWaits::Hold hold(waits);
}

}  // namespace
}  // namespace causeway::device::cuda_stream_waits_test
