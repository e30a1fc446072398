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

  // A ticket of nothing where the device refuses: the engine's lanes may still do it, or say why.
  // `signal` is raised by the stream before the ticket is done.
  ExpressTicket copy(std::span<const device::Copy> copies, device::CopyPriority priority,
                     TransferSignal signal = {});

  // A copy failed; streams keep their first failure, so the next copy gets a new one.
  void note_failure() { failed_.store(true); }
  Bytes moved(device::CopyPriority priority) const {
    return Bytes(moved_[static_cast<std::size_t>(priority)].load());
  }
  // Whether every ticket has been given back.
  bool idle() const;
  std::int64_t marks() const;  // that were made; as many as were needed at once, and a few

 private:
  // With mutex_ held.
  Status renew_stream();
  Status issue(std::span<const device::Copy> copies, device::CopyPriority priority,
               TransferSignal signal, device::Event& mark);
  bool find_free();

  // What a copy needs comes first, on few cache lines.
  std::atomic<bool> failed_{false};
  // Bytes, by priority; written with mutex_ held.
  std::array<std::atomic<std::int64_t>, device::kCopyPriorities> moved_{};
  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<device::Stream> stream_;
  // The first used_ are lent, or were; the rest are free.
  std::vector<std::unique_ptr<ExpressMark>> marks_;
  std::size_t used_ = 0;
  std::size_t hand_ = 0;  // where to look next for one that was lent

  device::Device& device_;
  const std::string name_;
};

}  // namespace causeway::transfer
