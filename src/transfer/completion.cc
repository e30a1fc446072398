#include "transfer/completion.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/dcheck.h"
#include "base/spin.h"
#include "transfer/express_lane.h"

namespace causeway::transfer {
namespace {

// Waking a thread takes 60 to 150 µs: 2 to 5 % of a transfer of 3 ms.
constexpr Nanos kSpin = millis(4);
constexpr Nanos kExpressSpin = millis(1);

constexpr Nanos kWaitMax = seconds(365 * 24 * 3600);  // more would overflow the deadline

}  // namespace

CompletionBoard::Ticket CompletionBoard::open(TransferListener* listener) {
  const std::lock_guard lock(mutex_);
  const Ticket ticket(next_++);
  CAUSEWAY_DCHECK(!entries_.contains(ticket), "a ticket is used again");
  entries_[ticket].listener = listener;
  return ticket;
}

void CompletionBoard::release(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(ticket);
  CAUSEWAY_DCHECK(!entry.released, "a transfer is released twice");
  entry.released = true;
  if (entry.outcome) entries_.erase(ticket);
}

void CompletionBoard::complete(Ticket ticket, const Status& outcome) {
  TransferListener* listener = nullptr;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(ticket);
    CAUSEWAY_CHECK(!entry.outcome, "a transfer is completed twice");
    entry.outcome = outcome;
    outcomes_.fetch_add(1, std::memory_order_release);
    listener = entry.listener;
    if (entry.released) entries_.erase(ticket);
    changed_.notify_all();
  }
  if (listener != nullptr) listener->transfer_ended(outcome);
}

void CompletionBoard::ends_soon(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  CAUSEWAY_DCHECK(!entries_.at(ticket).outcome, "a transfer is about to end that has ended");
  if (!std::exchange(entries_.at(ticket).soon, true)) changed_.notify_all();
}

Result<bool> CompletionBoard::done(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  const Entry& entry = entries_.at(ticket);
  if (!entry.outcome) return false;
  CAUSEWAY_TRY(*entry.outcome);
  return true;
}

bool CompletionBoard::known(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return entries_.at(ticket).outcome.has_value();
}

Status CompletionBoard::wait(Ticket ticket, Nanos timeout) const {
  const Nanos limit = std::clamp(timeout, Nanos(0), kWaitMax);
  const RealClock clock;
  const Nanos begin = clock.now();
  std::int64_t seen = -1;
  const auto look = [&] {
    const std::int64_t now = outcomes_.load(std::memory_order_acquire);
    return std::exchange(seen, now) != now && known(ticket);
  };
  const auto left = [&] { return std::max(limit - (clock.now() - begin), Nanos(0)); };
  (void)spin_until(look, std::min(limit, kSpin));
  std::unique_lock lock(mutex_);
  const Entry& entry = entries_.at(ticket);  // stays, because the caller has not released it
  CAUSEWAY_DCHECK(!entry.released, "a caller waits for a transfer that it has let go of");
  changed_.wait_for(lock, std::chrono::nanoseconds(left().count),
                    [&] { return entry.outcome || entry.soon; });
  // This is polled also when the end was near from the start: without it a wait of 5 ms would sleep
  // through its last millisecond.
  if (!entry.outcome) {
    lock.unlock();
    (void)spin_until(look, std::min(left(), kSpin));
    lock.lock();
  }
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(left().count),
                         [&] { return entry.outcome.has_value(); })) {
    return Error{ErrorCode::kDeadlineExceeded,
                 "the transfer was not done within " +
                     std::to_string(static_cast<std::int64_t>(to_millis(limit))) + " ms"};
  }
  return *entry.outcome;
}

std::int64_t CompletionBoard::size() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(entries_);
}

Result<bool> ExpressTicket::done() const {
  Result<bool> done = mark_->event->done();
  if (!done.ok()) mark_->lane.note_failure();
  mark_->seen_done = !done.ok() || *done;
  return done;
}

// What follows the last poll adds to every small transfer, so the usual outcome comes first.
Status ExpressTicket::wait(Nanos timeout) const {
  const Result<bool> done = mark_->event->spin(std::min(timeout, kExpressSpin));
  if (!done.ok() || !*done) [[unlikely]] {
    return wait_on(done, timeout);
  }
  mark_->seen_done = true;
  return {};
}

Status ExpressTicket::wait_on(const Result<bool>& done, Nanos timeout) const {
  mark_->seen_done = !done.ok();
  CAUSEWAY_DCHECK(mark_->lent.load(std::memory_order_relaxed), "a ticket holds its mark");
  Status waited = done.ok() ? mark_->event->wait(timeout) : Status(done.error());
  if (!waited.ok() && waited.error().code != ErrorCode::kDeadlineExceeded) {
    mark_->lane.note_failure();
  }
  return waited;
}

}  // namespace causeway::transfer
