// Keeps two things apart that would wait for each other for ever: streams that wait for a
// semaphore, and calls of the driver that wait for all that a GPU has to do (registering and
// unregistering host memory). Such a call holds the driver; where what raises the semaphore has yet
// to be handed to the driver, neither would end.
//
//   stream ── note(): this word is to reach that value ──▶ waits
//   whole-GPU call ── Hold: no new waits, and those that are noted are over ──▶ the call
//
// What raises a semaphore never waits for a stream to go on, so a hold gets its turn. Thread-safe.
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
  // To be called before a stream is told to wait until the word has reached the value. Blocks while
  // another thread has a hold, or asks for one.
  void note(const std::uint32_t* word, std::uint32_t value);
  // Nothing waits for the word any more.
  void forget(const std::uint32_t* word);

  // Had from its construction on, which returns when no stream waits any more. That a semaphore is
  // not raised for 30 s is logged, and ends the wait. Several may be had at once.
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
  std::vector<Wait> waits_;  // some of them over
  int holds_ = 0;            // had or asked for
};

}  // namespace causeway::device
