#include "kv/transfer_kv_mover.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/check.h"

namespace causeway::kv {
namespace {

using device::CopyPriority;

// How much longer a copy may take, as it shares its links with others of its purpose.
constexpr std::int64_t kSlack = 4;

// A copy that fails so will never end, and may still write.
bool never_ends(const Status& outcome) {
  return !outcome.ok() && outcome.error().code == ErrorCode::kDeadlineExceeded;
}
bool is_worth_another_try(const Status& outcome) {
  return !never_ends(outcome) && outcome.error().code != ErrorCode::kCancelled;
}

}  // namespace

// The copies of one request to the transfer engine; it is the request's listener.
class TransferKvMover::Transfer final : public transfer::TransferListener {
 public:
  Transfer(TransferKvMover& mover, Submission& of, std::vector<KvCopy> moved)
      : submission(of), copies(std::move(moved)), mover_(mover) {}
  void transfer_ended(const Status& outcome) override { mover_.ended(*this, outcome); }

  Submission& submission;
  const std::vector<KvCopy> copies;

 private:
  TransferKvMover& mover_;
};

TransferKvMover::TransferKvMover(const KvMoverOptions& options, const Parts& parts)
    : options_(options), parts_(parts) {
  CAUSEWAY_CHECK(parts.frames.frame_bytes() == parts.twins.frame_bytes(),
                 "twins have another size than frames");
}

// A gate that a transfer may still raise is not given back.
TransferKvMover::~TransferKvMover() {
  open_gates();
  std::unique_lock lock(mutex_);
  // The engine ends every transfer, at the latest with an error of its own.
  changed_.wait(lock, [&] { return inbox_.size() == transfers_.size() && notifying_ == 0; });
  parts_.claim_in.end();
  parts_.claim_out.end();
}

void TransferKvMover::set_notify(std::function<void()> notify) {
  std::unique_lock lock(mutex_);
  notify_ = std::move(notify);
  changed_.wait(lock, [&] { return notifying_ == 0; });
}

void TransferKvMover::submit(std::span<const KvCopy> copies) {
  std::vector<KvCopy> in, out, eager;
  for (const KvCopy& copy : copies) {
    const bool rotates = copy.reason != KvCopy::Reason::kEager;
    (copy.direction == Direction::kIn ? in : rotates ? out : eager).push_back(copy);
  }
  if (!in.empty()) begin(std::move(in), CopyPriority::kKvIn);
  if (!out.empty()) begin(std::move(out), CopyPriority::kKvOut);
  if (!eager.empty()) begin(std::move(eager), CopyPriority::kTwin);
}

void TransferKvMover::begin(std::vector<KvCopy> copies, CopyPriority priority) {
  Submission& submission = submissions_.emplace_back();
  submission.direction = copies.front().direction;
  submission.priority = priority;
  for (const KvCopy& copy : copies) submission.copies.push_back(copy.id);
  submission.first = *std::min_element(submission.copies.begin(), submission.copies.end());
  if (submission.direction == Direction::kIn) {
    const auto gate = parts_.gates.take();
    if (!gate.ok()) {
      for (const CopyId copy : submission.copies) {
        refused_.push_back({copy, KvCopyEnd::Outcome::kFailed, gate.error().message});
      }
      submissions_.pop_back();
      return;
    }
    submission.gate = *gate;
  }
  submission.bytes = parts_.frames.frame_bytes() * std::ssize(copies);
  count(submission.direction, submission.bytes);
  submission.begun = parts_.clock.now();
  submission.late_from = submission.begun + allowed(submission);
  start(submission, std::move(copies), submission.gate ? &*submission.gate : nullptr);
}

// Calculated from all bytes that are under way, including those of this submission.
Nanos TransferKvMover::allowed(const Submission& submission) const {
  const Bytes bytes = submission.direction == Direction::kIn ? bytes_in_ : bytes_out_;
  const double rate = claim(submission.direction).rate();
  if (rate <= 0) return options_.late_max_unknown;
  const bool eager = submission.priority == CopyPriority::kTwin;
  const Nanos late_max =
      eager ? std::max(options_.eager_late_max, options_.late_max) : options_.late_max;
  return late_max + nanos_from_seconds(static_cast<double>(bytes.count * kSlack) / rate);
}

std::string TransferKvMover::lateness(const Submission& submission, Nanos now) const {
  return fmt::format("a copy of KV does not end in time: of {} MiB, after {:.0f} of {:.0f} ms",
                     submission.bytes / mib(1), to_millis(now - submission.begun),
                     to_millis(submission.late_from - submission.begun));
}

transfer::Segment TransferKvMover::segment_of(const KvCopy& copy) const {
  return {.host = parts_.twins.address_of(copy.twin),
          .device = parts_.frames.address_of(copy.frame),
          .bytes = parts_.frames.frame_bytes()};
}

void TransferKvMover::start(Submission& submission, std::vector<KvCopy> copies,
                            const CopyGate* signal) {
  transfer::TransferRequest request{.direction = submission.direction == Direction::kIn
                                                     ? transfer::Direction::kIn
                                                     : transfer::Direction::kOut,
                                    .target = parts_.device.id(),
                                    .segments = {},
                                    .priority = submission.priority};
  for (const KvCopy& copy : copies) request.segments.push_back(segment_of(copy));
  if (signal != nullptr) {
    request.signal = signal->semaphore;
    request.signal_value = signal->value;
  }
  transfers_.push_back(std::make_unique<Transfer>(*this, submission, std::move(copies)));
  Transfer& transfer = *transfers_.back();
  request.listener = &transfer;
  ++submission.transfers;
  const auto submitted = parts_.engine.submit(std::move(request));
  if (!submitted.ok()) ended(transfer, submitted.error());
}

// Once its end is in the inbox the transfer belongs to poll().
void TransferKvMover::ended(Transfer& transfer, const Status& outcome) {
  std::function<void()> notify;
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back({&transfer, outcome});
    notify = notify_;
    ++notifying_;
  }
  if (notify) notify();
  const std::lock_guard lock(mutex_);
  --notifying_;
  changed_.notify_all();
}

std::vector<KvCopyEnd> TransferKvMover::poll() {
  std::vector<KvCopyEnd> ends = std::exchange(refused_, {});
  if (submissions_.empty()) return ends;
  std::vector<End> inbox;
  {
    const std::lock_guard lock(mutex_);
    inbox.swap(inbox_);
  }
  for (const End& end : inbox) take_end(end, ends);
  give_up_late(ends);
  return ends;
}

void TransferKvMover::take_end(const End& end, std::vector<KvCopyEnd>& ends) {
  const auto at = std::find_if(transfers_.begin(), transfers_.end(),
                               [&](const auto& owned) { return owned.get() == end.transfer; });
  const std::unique_ptr<Transfer> transfer = std::move(*at);
  transfers_.erase(at);
  Submission& submission = transfer->submission;
  --submission.transfers;
  if (!end.outcome.ok() && std::ssize(transfer->copies) > 1 && !submission.given_up &&
      is_worth_another_try(end.outcome)) {
    return try_each(*transfer);
  }
  using Outcome = KvCopyEnd::Outcome;
  const bool never = never_ends(end.outcome);
  submission.stuck = submission.stuck || never;
  for (const KvCopy& copy : transfer->copies) {
    std::erase(submission.copies, copy.id);
    // A copy that was given up before, and never ends, is not reported again.
    if (never && submission.given_up) continue;
    const Outcome outcome = never ? Outcome::kGivenUp : Outcome::kFailed;
    ends.push_back({copy.id, end.outcome.ok() ? Outcome::kOk : outcome,
                    end.outcome.ok() ? "" : end.outcome.error().message});
  }
  if (submission.transfers == 0) finish(submission);
}

// The gate opens when the last of its copies has ended.
void TransferKvMover::try_each(const Transfer& failed) {
  for (const KvCopy& copy : failed.copies) start(failed.submission, {copy}, nullptr);
}

// A gate that something may still raise is never lent again.
void TransferKvMover::finish(Submission& submission) {
  if (submission.gate) {
    submission.gate->semaphore->raise(submission.gate->value);
    if (!submission.stuck) parts_.gates.give_back(*submission.gate);
  }
  count(submission.direction, -submission.bytes);
  submissions_.remove_if([&](const Submission& one) { return &one == &submission; });
}

void TransferKvMover::give_up_late(std::vector<KvCopyEnd>& ends) {
  const Nanos now = parts_.clock.now();
  for (Submission& submission : submissions_) {
    if (submission.given_up || now < submission.late_from) continue;
    submission.given_up = true;
    const std::string why = lateness(submission, now);
    for (const CopyId copy : submission.copies) {
      ends.push_back({copy, KvCopyEnd::Outcome::kGivenUp, why});
    }
    if (submission.gate) submission.gate->semaphore->raise(submission.gate->value);
  }
}

void TransferKvMover::gates(CopyId until, std::vector<CopyGate>& gates) const {
  if (!until.valid()) return;
  for (const Submission& submission : submissions_) {
    if (submission.gate && submission.first <= until) gates.push_back(*submission.gate);
  }
}

void TransferKvMover::open_gates() {
  for (const Submission& submission : submissions_) {
    if (submission.gate) submission.gate->semaphore->raise(submission.gate->value);
  }
}

void TransferKvMover::count(Direction direction, Bytes bytes) {
  Bytes& all = under_way(direction);
  if (all == Bytes(0)) claim(direction).begin();
  all += bytes;
  if (all == Bytes(0)) claim(direction).end();
}

}  // namespace causeway::kv
