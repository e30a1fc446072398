// Small transfers: one batch on a stream of the target's own link, issued on the caller's thread,
// so that they cost little more than the native call.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "transfer/completion.h"
#include "transfer/transfer.h"

namespace causeway::transfer {

// One link, one direction. Must outlive its tickets.
class ExpressLane {
 public:
  // The device must outlive the lane.
  static Result<std::unique_ptr<ExpressLane>> create(device::Device& device, std::string name);
  ExpressLane(device::Device& device, std::string name);  // by create()

  Result<ExpressTicket> copy(std::span<const device::Copy> copies, device::CopyPriority priority);

  // `done`: it is known to be; else it is asked before it is used again.
  void give_back(std::unique_ptr<device::Event> event, bool done);
  // A copy failed; streams keep their first failure, so the next copy gets a new one.
  void note_failure() { failed_.store(true); }
  Bytes moved() const { return Bytes(moved_.load()); }
  // Whether every ticket has been given back.
  bool idle() const { return tickets_.load(std::memory_order_relaxed) == 0; }

 private:
  Status free_an_event();

  device::Device& device_;
  const std::string name_;
  std::atomic<bool> failed_{false};
  std::atomic<std::int64_t> moved_{0};  // bytes; written with mutex_ held
  std::atomic<int> tickets_{0};         // the same
  std::mutex mutex_;                    // guards what follows
  std::unique_ptr<device::Stream> stream_;
  std::vector<std::unique_ptr<device::Event>> free_;   // none is under way
  std::deque<std::unique_ptr<device::Event>> events_;  // the oldest first; may still be under way
};

}  // namespace causeway::transfer
