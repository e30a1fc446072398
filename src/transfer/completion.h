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
  // It is not asked for any more.
  void release(Ticket ticket);
  // Once per ticket, which may have been released. Tells the ticket's listener, on this thread.
  void complete(Ticket ticket, const Status& outcome);
  // The last of its bytes are on their way: a thread that sleeps until its end wakes and polls,
  // because to wake takes longer than is left to lose. Before complete(), any number of times.
  void ends_soon(Ticket ticket);

  Result<bool> done(Ticket ticket) const;
  Status wait(Ticket ticket, Nanos timeout) const;
  std::int64_t size() const;

 private:
  bool known(Ticket ticket) const;  // how it ended

  struct Entry {
    bool released = false;
    TransferListener* listener = nullptr;
    bool soon = false;
    std::optional<Status> outcome;
  };
  // Counts outcomes. Threads that poll look here: the engine's thread would have to wait for a
  // mutex that they took all the time.
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

// Apart by so much, what one thread writes does not slow down another that works beside it.
inline constexpr std::size_t kCacheLine = 64;

// The mark behind a small transfer: its lane's, lent to a ticket.
struct alignas(kCacheLine) ExpressMark {
  ExpressMark(ExpressLane& its_lane, std::unique_ptr<device::Event> made)
      : lane(its_lane), event(std::move(made)) {}
  ExpressLane& lane;
  const std::unique_ptr<device::Event> event;
  bool seen_done = false;         // else it is asked before it is used again
  std::atomic<bool> lent{false};  // while it is, all else is the ticket's
};

// A small transfer. Its mark goes back for reuse.
class ExpressTicket {
 public:
  ExpressTicket() = default;  // of nothing
  explicit ExpressTicket(ExpressMark& mark) : mark_(&mark) {}
  ExpressTicket(ExpressTicket&& other) noexcept : mark_(std::exchange(other.mark_, nullptr)) {}
  ExpressTicket& operator=(ExpressTicket&& other) noexcept {
    std::swap(mark_, other.mark_);
    return *this;
  }
  // Takes no lock.
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

  // Whether all bytes are at their target; the transfer's error when it failed. kDeadlineExceeded
  // from done() means that a copy is stuck: then the memory must not be used again.
  Result<bool> done() const { return express_ ? express_.done() : ticket_.done(); }
  // Blocks until done, or for `timeout` of real time: kDeadlineExceeded. Polls for the first and
  // the last milliseconds.
  Status wait(Nanos timeout) const {
    return express_ ? express_.wait(timeout) : ticket_.wait(timeout);
  }

 private:
  // One of them.
  TicketReference ticket_;
  ExpressTicket express_;
};

}  // namespace causeway::transfer
