// Tells another process at once that this one is being killed.
//
// The kernel ends the threads of a killed process one by one, and only the last of them has the
// process's memory unmapped, which takes 0.2 s of 97 GB, and behind that the descriptors closed
// that all threads share. The witness is a thread with a table of descriptors of its own, which
// the kernel closes as soon as that thread has ended.
//
//  killed ─┬─ witness ends: its pipe is closed ──▶ POLLHUP at the other process
//          └─ the last thread ends: memory is unmapped ── shared descriptors are closed ──▶
#pragma once

#include <memory>
#include <thread>
#include <utility>

#include "base/result.h"
#include "weights/file.h"

namespace causeway::worker {

class Witness {
 public:
  // Call it before descriptors are opened that must be closed at a time of this process's choosing:
  // the witness has copies of those that there are for some microseconds. kUnsupported: the system
  // gives threads no tables of their own (Linux before 5.9); kIo, kResourceExhausted: no pipe or no
  // thread.
  static Result<std::unique_ptr<Witness>> start();
  Witness(weights::FileDescriptor stop, weights::FileDescriptor end, std::thread thread)
      : stop_(std::move(stop)), end_(std::move(end)), thread_(std::move(thread)) {}  // by start()
  // The thread ends, which its end tells as well.
  ~Witness();
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  // What is to be handed to the other process: poll() reports POLLHUP of it once the witness has
  // ended, and never anything before that. Remains this object's.
  int end() const { return end_.get(); }

 private:
  weights::FileDescriptor stop_;  // closed: the thread is to end
  weights::FileDescriptor end_;
  std::thread thread_;
};

}  // namespace causeway::worker
