// Small transfers: one batch on a stream of the target's own link, issued on the caller's thread,
// so that they cost little more than the native call.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transfer/completion.h"
#include "transfer/transfer.h"

namespace causeway::transfer {

// One link, one direction. Must outlive its tickets.
class alignas(kCacheLine) ExpressLane {
 public:
  // The device must outlive the lane.
  static Result<std::unique_ptr<ExpressLane>> create(device::Device& device, std::string name);
  ExpressLane(device::Device& device, std::string name);  // by create()

  // An empty ticket when the device refuses the copy; the engine's lanes may still make it, or tell
  // the reason. The stream raises `signal` before the ticket is done.
  ExpressTicket copy(std::span<const device::Copy> copies, device::CopyPriority priority,
                     TransferSignal signal = {});

  // A copy failed. Streams keep their first failure, so the next copy gets a new stream.
  void note_failure() { failed_.store(true); }
  Bytes moved(device::CopyPriority priority) const {
    return Bytes(moved_[static_cast<std::size_t>(priority)].load());
  }
  // Whether every ticket has been given back.
  bool idle() const;
  std::int64_t marks() const;  // made so far; a few more than were needed at once

 private:
  // With mutex_ held.
  Status renew_stream();
  Status issue(std::span<const device::Copy> copies, device::CopyPriority priority,
               TransferSignal signal, device::Event& mark);
  bool find_free();

  // The fields that a copy needs come first, so that they lie on few cache lines.
  std::atomic<bool> failed_{false};
  // Bytes, by priority; written with mutex_ held.
  std::array<std::atomic<std::int64_t>, device::kCopyPriorities> moved_{};
  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<device::Stream> stream_;
  // The first used_ marks are lent, or were when last looked at; the rest are free.
  std::vector<std::unique_ptr<ExpressMark>> marks_;
  std::size_t used_ = 0;
  std::size_t hand_ = 0;  // where find_free() looks next

  device::Device& device_;
  const std::string name_;
};

}  // namespace causeway::transfer
