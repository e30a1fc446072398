// The start of a worker's process, beside the end of the one before it: started, greeted, prepared;
// and opened, when no other has memory any more.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "worker/new_process.h"
#include "worker/worker_state.h"

namespace causeway::worker {
namespace {

constexpr Nanos kStartPoll = seconds(1);  // an upper bound of waits that are woken
constexpr Nanos kStartLook = millis(5);   // of those that are not

Error deadline(std::string message) { return {ErrorCode::kDeadlineExceeded, std::move(message)}; }

Error shutting_down() { return {ErrorCode::kCancelled, "the server is shutting down"}; }

}  // namespace

Status Worker::State::connect() {
  parts_.starts += 1;
  const Nanos began = clock_.now();
  CAUSEWAY_ASSIGN(const auto next, next_process());
  child_ = next->take_child();
  auto channel = next->take_channel();
  Channel& connected = *channel;
  answered_ = false;
  {
    const std::scoped_lock lock(mutex_);
    channel_ = std::move(channel);
    starts_ += 1;
    pid_ = child_.pid();
    hangs_.clear();
  }
  CAUSEWAY_TRY(prepare(*next));
  const Nanos prepared = clock_.now();
  CAUSEWAY_TRY(await_ends(*next));
  const Nanos ended = clock_.now();
  CAUSEWAY_TRY(open(connected));
  // For a spare that was prepared before, both are nothing.
  parts_.hello = next->spare() ? Nanos(0) : next->hello();
  parts_.prepare = prepared - began - parts_.hello;
  parts_.wait = ended - prepared;
  parts_.open = clock_.now() - ended;
  if (lost_at_) spare_look_ = clock_.now() + options_.spare_after;
  tell_restarted();
  return {};
}

// The end of the old process is noticed when it comes.
Status Worker::State::prepare(NewProcess& process) {
  while (!process.prepared()) {
    if (stopping()) return shutting_down();
    CAUSEWAY_TRY(process.advance(all_ended(Nanos(0)) ? kStartPoll : kStartLook));
  }
  return {};
}

// The new process says nothing meanwhile, and may die.
Status Worker::State::await_ends(NewProcess& process) {
  while (!all_ended(Nanos(0))) {
    if (stopping()) return shutting_down();
    CAUSEWAY_TRY(process.advance(kStartLook));
  }
  return {};
}

// The next message that says something.
Result<Message> Worker::State::await(Channel& channel, Nanos timeout) {
  const Nanos until = clock_.now() + timeout;
  while (!stopping()) {
    const Nanos left = until - clock_.now();
    if (left <= Nanos(0)) {
      return deadline("it said nothing for " + std::to_string(timeout / seconds(1)) + " s");
    }
    CAUSEWAY_ASSIGN(const auto received, channel.receive(std::min(left, kStartPoll)));
    if (received) return decode(received->message);
  }
  return shutting_down();
}

Status Worker::State::open(Channel& channel) {
  CAUSEWAY_TRY(channel.send(encode(Open{})));
  CAUSEWAY_ASSIGN(Message answer, await(channel, options_.open_max));
  if (const auto* failed = std::get_if<Failed>(&answer)) return failed->error;
  auto* const opened = std::get_if<Opened>(&answer);
  if (opened == nullptr || opened->slices.size() != slices()) {
    return corrupt("it does not say what it has opened");
  }
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < slices(); ++i) slices_[i].opened = opened->slices[i];
  serves_ = true;
  return {};
}

// One that does not end within end_max is in a call of its driver that does not return. It runs no
// code of ours any more: it was killed. But it may have its memory.
bool Worker::State::all_ended(Nanos timeout) {
  bool all = true;
  for (Ending& one : ending_) {
    const pid_t pid = one.child.pid();
    const bool ended = one.child.reap(all && !one.given_up ? timeout : Nanos(0));
    const Nanos took = clock_.now() - one.killed;
    if (ended) {
      parts_.end = std::max(parts_.end, took);
      if (!stopping()) {
        spdlog::info("the old process {} of {} {}, {:.0f} ms after it was killed", pid,
                     options_.name, one.child.ended(), to_millis(took));
      }
    } else if (!one.given_up && took > options_.end_max) {
      one.given_up = true;
      spdlog::error(
          "the worker of {}, process {}, was killed and has not ended for {:.1f} s; its memory is "
          "taken",
          options_.name, pid, to_seconds(took));
    }
    all = all && (ended || one.given_up);
  }
  std::erase_if(ending_, [](const Ending& one) { return one.child.pid() <= 0; });
  return all;
}

void Worker::State::tell_restarted() {
  if (!lost_at_) return;
  reopened_at_ = clock_.now();
  parts_.all = *reopened_at_ - *lost_at_;
  lost_at_.reset();
  spdlog::info("the worker of {} is open again {}", options_.name, in_words(parts_));
}

void Worker::State::tell_attached() {
  if (!reopened_at_) return;
  spdlog::info("the worker of {} has its first model attached {:.0f} ms after it was open again",
               options_.name, to_millis(clock_.now() - *reopened_at_));
  reopened_at_.reset();
}

}  // namespace causeway::worker
