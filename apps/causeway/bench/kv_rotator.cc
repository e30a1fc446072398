#include "bench/kv_rotator.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace causeway::bench {
namespace {

constexpr Nanos kRunMax = seconds(300);

}  // namespace

KvRotator::KvRotator(kv::TransferKvMover& mover, const KvPace& pace, const Clock& clock)
    : mover_(mover), pace_(pace), clock_(clock) {
  mover_.set_notify([this] {
    const std::lock_guard lock(mutex_);
    notified_ = true;
    changed_.notify_all();
  });
}

Result<Nanos> KvRotator::move(const BlockMoves& moves) {
  const std::size_t all = std::max(moves.in.size(), moves.out.size());
  const auto per_step = static_cast<std::size_t>(pace_.blocks_per_step);
  steps_.clear();
  submitted_ = ended_ = 0;
  std::size_t taken = 0;
  const Nanos begin = clock_.now();
  while (true) {
    CAUSEWAY_TRY(take_ends());
    while (!steps_.empty() && over(steps_.front())) steps_.pop_front();
    for (; taken < all && std::ssize(steps_) < pace_.steps_in_flight; taken += per_step) {
      submit(moves, taken);
    }
    if (taken >= all && ended_ == submitted_) return clock_.now() - begin;
    if (clock_.now() - begin > kRunMax) {
      return Error{ErrorCode::kDeadlineExceeded, "blocks of KV do not arrive"};
    }
    wait();
  }
}

// Copies out alone raise nothing: of them the ends count, which come in their order.
bool KvRotator::over(const Step& step) const {
  if (step.gates.empty()) return ended_ >= step.submitted;
  return std::all_of(step.gates.begin(), step.gates.end(),
                     [](const kv::CopyGate& gate) { return gate.open(); });
}

void KvRotator::add(std::vector<kv::KvCopy>& copies, Direction direction,
                    std::span<const BlockMove> moves, std::size_t first) {
  const std::size_t begin = std::min(first, moves.size());
  const std::size_t count =
      std::min(moves.size() - begin, static_cast<std::size_t>(pace_.blocks_per_step));
  for (const BlockMove& move : moves.subspan(begin, count)) {
    copies.push_back({.id = kv::CopyId(next_copy_++),
                      .direction = direction,
                      .reason = kv::KvCopy::Reason::kRotation,
                      .frame = move.frame,
                      .twin = move.twin});
  }
}

void KvRotator::submit(const BlockMoves& moves, std::size_t first) {
  std::vector<kv::KvCopy> copies;
  add(copies, Direction::kOut, moves.out, first);
  add(copies, Direction::kIn, moves.in, first);
  mover_.submit(copies);
  submitted_ += std::ssize(copies);
  Step step{.gates = {}, .submitted = submitted_};
  mover_.gates(kv::CopyId(next_copy_ - 1), step.gates);
  steps_.push_back(std::move(step));
}

Status KvRotator::take_ends() {
  for (const kv::KvCopyEnd& end : mover_.poll()) {
    if (end.outcome != kv::KvCopyEnd::Outcome::kOk) {
      return Error{ErrorCode::kDevice, "the copy of a block failed: " + end.why};
    }
    ++ended_;
  }
  return {};
}

// The mover pokes; the engine loop asks every few milliseconds, too.
void KvRotator::wait() {
  std::unique_lock lock(mutex_);
  (void)changed_.wait_for(lock, std::chrono::milliseconds(2), [&] { return notified_; });
  notified_ = false;
}

}  // namespace causeway::bench
