// Shared by the files of the devices' conformance tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <span>

#include "base/random.h"
#include "device/testing/device_conformance.h"

namespace causeway::device::testing {

// Makes the linker take the file, whose tests are referred to by nothing else.
void link_semaphore_conformance();

inline constexpr Nanos kPatience = seconds(60);
inline constexpr Bytes kRegion = mib(8);

inline void fill(std::span<std::byte> bytes, Random& random) {
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = random.bits();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  for (; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random.bits());
}

// A gate at which work of run() waits.
class Door {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  Status pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return open_; })) {
      return Error{ErrorCode::kDeadlineExceeded, "nobody opened the door"};
    }
    return {};
  }
  void wait_for_guest() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return waiting_ > 0; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

}  // namespace causeway::device::testing
