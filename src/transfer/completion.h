// How a caller learns that a transfer is done: a move-only handle. It must not outlive the engine;
// dropping it does not stop the transfer.
//
// Thread-safe, but for one Completion used by two threads at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"
#include "transfer/transfer.h"

namespace causeway::transfer {

// The outcomes of transfers that are under way or still asked about.
class CompletionBoard {
 public:
  using Ticket = Id<struct TicketTag>;

  Ticket open(TransferListener* listener = nullptr);  // with one reference
  void add_reference(Ticket ticket);
  void release(Ticket ticket);
  // Once per ticket; its references may be gone. Tells the ticket's listener, on this thread.
  void complete(Ticket ticket, const Status& outcome);

  Result<bool> done(Ticket ticket) const;
  Status wait(Ticket ticket, Nanos timeout) const;
  std::int64_t size() const;

 private:
  bool known(Ticket ticket) const;  // how it ended

  struct Entry {
    int references = 1;
    TransferListener* listener = nullptr;
    std::optional<Status> outcome;
  };
  // Counts outcomes: who polls looks here, because a mutex that somebody takes all the time is one
  // that the engine's thread waits for.
  std::atomic<std::int64_t> outcomes_{0};
  mutable std::mutex mutex_;  // a leaf; guards what follows
  mutable std::condition_variable changed_;
  std::unordered_map<Ticket, Entry> entries_;
  std::int64_t next_ = 0;
};

// A counted reference to a ticket.
class TicketReference {
 public:
  TicketReference(CompletionBoard& board, CompletionBoard::Ticket adopted)
      : board_(&board), ticket_(adopted) {}
  TicketReference(const TicketReference& other) : board_(other.board_), ticket_(other.ticket_) {
    if (board_ != nullptr) board_->add_reference(ticket_);
  }
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
  CompletionBoard* board_;
  CompletionBoard::Ticket ticket_;
};

class ExpressLane;

// The event of a small transfer, given back to its lane for reuse.
class ExpressTicket {
 public:
  ExpressTicket(ExpressLane& lane, std::unique_ptr<device::Event> event)
      : lane_(&lane), event_(std::move(event)) {}
  ExpressTicket(ExpressTicket&&) noexcept = default;
  ExpressTicket& operator=(ExpressTicket&& other) noexcept {
    std::swap(lane_, other.lane_);
    std::swap(event_, other.event_);
    std::swap(seen_done_, other.seen_done_);
    return *this;
  }
  ~ExpressTicket() {
    if (event_ != nullptr) give_back();
  }

  Result<bool> done() const;
  Status wait(Nanos timeout) const;
  const device::Event& event() const { return *event_; }

 private:
  void give_back();

  ExpressLane* lane_;
  std::unique_ptr<device::Event> event_;
  mutable bool seen_done_ = false;
};

class Completion {
 public:
  explicit Completion(TicketReference ticket) : ticket_(std::move(ticket)) {}
  explicit Completion(ExpressTicket ticket) : express_(std::move(ticket)) {}

  // Whether all bytes are at their target; the transfer's error when it failed. kDeadlineExceeded
  // from done() means that a copy is stuck: then the memory must not be used again.
  Result<bool> done() const { return express_ ? express_->done() : ticket_->done(); }
  // Blocks until done, or for `timeout` of real time: kDeadlineExceeded. Polls for the first
  // milliseconds.
  Status wait(Nanos timeout) const {
    return express_ ? express_->wait(timeout) : ticket_->wait(timeout);
  }
  // Later work of the stream waits for the transfer, and is skipped if that fails. The engine must
  // outlive what the stream has queued.
  Status join(device::Stream& stream) const;

 private:
  std::optional<TicketReference> ticket_;
  std::optional<ExpressTicket> express_;
};

}  // namespace causeway::transfer
