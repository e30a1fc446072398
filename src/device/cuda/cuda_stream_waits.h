// Separates two things that would wait for each other for ever: streams that wait for a semaphore,
// and calls of the driver that wait for all work of a GPU (registering and unregistering host
// memory). Such a call blocks the driver; if the work that raises the semaphore has yet to be given
// to the driver, neither would end.
//
//   stream ── note(): this word is to reach that value ──▶ waits
//   whole-GPU call ── Hold: no new waits, and those that are noted are over ──▶ the call
//
// The work that raises a semaphore never waits for a stream to continue, so every hold is granted
// in the end. Thread-safe.
// Private to device/cuda.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/units.h"

namespace causeway::device {

class CudaStreamWaits {
 public:
  // Call it before a stream is told to wait until the word has reached the value. Blocks while
  // another thread has or awaits a hold.
  void note(const std::uint32_t* word, std::uint32_t value);
  // No stream waits for the word any more.
  void forget(const std::uint32_t* word);

  // The constructor returns once no stream waits any more, and the hold lasts until destruction.
  // When a semaphore is not raised for 30 s, that is logged, and the constructor returns. Several
  // threads may have holds at once.
  class Hold {
   public:
    explicit Hold(CudaStreamWaits& waits);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    CudaStreamWaits& waits_;
  };

 private:
  struct Wait {
    const std::uint32_t* word = nullptr;
    std::uint32_t value = 0;
  };
  void drop_ended();  // with mutex_ held

  std::mutex mutex_;  // guards what follows; a leaf
  std::condition_variable changed_;
  std::vector<Wait> waits_;  // some of them have ended
  int holds_ = 0;            // granted or awaited
};

}  // namespace causeway::device
