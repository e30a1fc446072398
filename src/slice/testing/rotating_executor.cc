#include "slice/testing/rotating_executor.h"

#include <set>
#include <thread>
#include <utility>

namespace causeway::slice::testing {
namespace {

using kv::KvCopy;
using Direction = KvCopy::Direction;

constexpr Nanos kPatience = seconds(20);

}  // namespace

KvCopy RotatingExecutor::copy(Direction direction, FrameId frame, TwinId twin) {
  const KvCopy made{.id = kv::CopyId(next_++),
                    .direction = direction,
                    .reason = KvCopy::Reason::kRotation,
                    .frame = frame,
                    .twin = twin};
  under_way_[made.id] = made;
  return made;
}

void RotatingExecutor::do_copies(const std::vector<KvCopy>& copies) {
  inner_.begin_copies(copies);
  while (!under_way_.empty()) {
    poll();
    std::this_thread::yield();
  }
}

Status RotatingExecutor::submit(request::Batch batch, weights::StepWeights weights) {
  const std::set<FrameId> frames(batch.frames.begin(), batch.frames.end());
  std::vector<KvCopy> out, spoil;
  for (const FrameId frame : frames) {
    out.push_back(copy(Direction::kOut, frame, TwinId(frame.value)));
  }
  do_copies(out);
  for (const FrameId frame : frames) spoil.push_back(copy(Direction::kIn, frame, zeros_));
  do_copies(spoil);
  for (const FrameId frame : frames) {
    batch.copies_in.push_back(copy(Direction::kIn, frame, TwinId(frame.value)));
  }
  batch.copies_awaited = batch.copies_in.back().id;
  failed_of_step_ = 0;
  return inner_.submit(std::move(batch), weights);
}

std::optional<request::StepResult> RotatingExecutor::wait(Nanos timeout) {
  auto result = inner_.wait(timeout);
  poll();
  if (!result) return result;
  const std::int64_t told = failed_of_step_;
  if (told > 0) {
    result->error = "KV of the step is void";
    return result;
  }
  // That they ended well may be told later.
  const Nanos end = clock_.now() + kPatience;
  while (!under_way_.empty() && clock_.now() < end) poll();
  if (failed_of_step_ > 0 || !under_way_.empty()) seen_.told_first = false;
  return result;
}

void RotatingExecutor::poll() {
  using Outcome = kv::KvCopyEnd::Outcome;
  for (const kv::KvCopyEnd& end : inner_.poll_copies()) {
    const bool in = under_way_.at(end.copy).direction == Direction::kIn;
    if (end.outcome == Outcome::kOk) {
      ++(in ? seen_.in : seen_.out);
    } else {
      ++(end.outcome == Outcome::kGivenUp ? seen_.given_up : seen_.failed);
      ++failed_of_step_;
    }
    if (end.outcome != Outcome::kGivenUp) under_way_.erase(end.copy);
  }
}

}  // namespace causeway::slice::testing
