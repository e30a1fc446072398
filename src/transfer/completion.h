// How a caller learns that a transfer is done: a move-only handle. It must not outlive the engine;
// dropping it does not stop the transfer.
//
// Thread-safe, but for one Completion used by two threads at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"
#include "transfer/transfer.h"

namespace causeway::transfer {

// The outcomes of transfers that are under way or still asked about.
class CompletionBoard {
 public:
  using Ticket = Id<struct TicketTag>;

  Ticket open(TransferListener* listener = nullptr);
  // The caller does not ask for the outcome any more.
  void release(Ticket ticket);
  // Called once for each ticket, even a released one. Tells the ticket's listener, on this thread.
  void complete(Ticket ticket, const Status& outcome);
  // Says that the last bytes are on their way. A thread that sleeps until the end wakes up and
  // polls, because waking takes longer than the rest of the transfer. May be called any number of
  // times before complete().
  void ends_soon(Ticket ticket);

  Result<bool> done(Ticket ticket) const;
  Status wait(Ticket ticket, Nanos timeout) const;
  std::int64_t size() const;

 private:
  bool known(Ticket ticket) const;  // whether the outcome is known

  struct Entry {
    bool released = false;
    TransferListener* listener = nullptr;
    bool soon = false;
    std::optional<Status> outcome;
  };
  // Counts outcomes. Waiting threads poll this counter, because polling under the mutex would keep
  // the engine's thread from taking it.
  std::atomic<std::int64_t> outcomes_{0};
  mutable std::mutex mutex_;  // a leaf; guards what follows
  mutable std::condition_variable changed_;
  std::unordered_map<Ticket, Entry> entries_;
  std::int64_t next_ = 0;
};

// Owns a ticket.
class TicketReference {
 public:
  TicketReference() = default;  // to nothing
  TicketReference(CompletionBoard& board, CompletionBoard::Ticket adopted)
      : board_(&board), ticket_(adopted) {}
  TicketReference(TicketReference&& other) noexcept
      : board_(std::exchange(other.board_, nullptr)), ticket_(other.ticket_) {}
  TicketReference& operator=(TicketReference other) noexcept {
    std::swap(board_, other.board_);
    std::swap(ticket_, other.ticket_);
    return *this;
  }
  ~TicketReference() {
    if (board_ != nullptr) board_->release(ticket_);
  }

  Result<bool> done() const { return board_->done(ticket_); }
  Status wait(Nanos timeout) const { return board_->wait(ticket_, timeout); }

 private:
  CompletionBoard* board_ = nullptr;
  CompletionBoard::Ticket ticket_;
};

class ExpressLane;

// Distance at which data that one thread writes does not slow down another thread's data.
inline constexpr std::size_t kCacheLine = 64;

// The event behind a small transfer. It belongs to the lane, which lends it to a ticket.
struct alignas(kCacheLine) ExpressMark {
  ExpressMark(ExpressLane& its_lane, std::unique_ptr<device::Event> made)
      : lane(its_lane), event(std::move(made)) {}
  ExpressLane& lane;
  const std::unique_ptr<device::Event> event;
  bool seen_done = false;         // false: the event is asked again before reuse
  std::atomic<bool> lent{false};  // while true the other fields are the ticket's
};

// The handle of a small transfer. Destroying it gives the mark back for reuse.
class ExpressTicket {
 public:
  ExpressTicket() = default;  // of nothing
  explicit ExpressTicket(ExpressMark& mark) : mark_(&mark) {}
  ExpressTicket(ExpressTicket&& other) noexcept : mark_(std::exchange(other.mark_, nullptr)) {}
  ExpressTicket& operator=(ExpressTicket&& other) noexcept {
    std::swap(mark_, other.mark_);
    return *this;
  }
  // Giving the mark back takes no lock.
  ~ExpressTicket() {
    if (mark_ != nullptr) mark_->lent.store(false, std::memory_order_release);
  }

  explicit operator bool() const { return mark_ != nullptr; }
  Result<bool> done() const;
  Status wait(Nanos timeout) const;

 private:
  Status wait_on(const Result<bool>& done, Nanos timeout) const;

  ExpressMark* mark_ = nullptr;
};

class Completion {
 public:
  explicit Completion(TicketReference ticket) : ticket_(std::move(ticket)) {}
  explicit Completion(ExpressTicket ticket) : express_(std::move(ticket)) {}

  // Whether all bytes are at their target, or the error that the transfer failed with.
  // kDeadlineExceeded from done() means that a copy is stuck, and that the memory must not be used
  // again.
  Result<bool> done() const { return express_ ? express_.done() : ticket_.done(); }
  // Blocks until the transfer is done, or for `timeout` of real time: then kDeadlineExceeded. Polls
  // during the first and the last milliseconds.
  Status wait(Nanos timeout) const {
    return express_ ? express_.wait(timeout) : ticket_.wait(timeout);
  }

 private:
  // Exactly one of the two is set.
  TicketReference ticket_;
  ExpressTicket express_;
};

}  // namespace causeway::transfer
