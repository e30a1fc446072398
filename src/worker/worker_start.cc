// The start of a worker's process, beside the end of the one before it: started, greeted, prepared;
// and opened, when no other has memory any more.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "worker/worker_state.h"

namespace causeway::worker {
namespace {

constexpr Nanos kStartPoll = seconds(1);  // an upper bound of waits that are woken
constexpr Nanos kStartLook = millis(5);   // of those that are not

Error deadline(std::string message) { return {ErrorCode::kDeadlineExceeded, std::move(message)}; }

Error shutting_down() { return {ErrorCode::kCancelled, "the server is shutting down"}; }

Result<std::pair<weights::FileDescriptor, weights::FileDescriptor>> connected_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return io_error("connecting to a worker", errno);
  }
  return std::pair(weights::FileDescriptor(ends[0]), weights::FileDescriptor(ends[1]));
}

}  // namespace

Status Worker::State::connect() {
  parts_.starts += 1;
  const Nanos began = clock_.now();
  CAUSEWAY_ASSIGN(auto ends, connected_pair());
  CAUSEWAY_ASSIGN(auto channel, Channel::open(std::move(ends.first)));
  CAUSEWAY_ASSIGN(child_, Child::start(options_.command, ends.second.get(), options_.environment));
  ends.second = weights::FileDescriptor();  // or its end would not be seen
  Channel& connected = *channel;
  answered_ = false;
  {
    const std::scoped_lock lock(mutex_);
    channel_ = std::move(channel);
    starts_ += 1;
    pid_ = child_.pid();
    hangs_.clear();
  }
  CAUSEWAY_TRY(greet(connected));
  const Nanos greeted = clock_.now();
  CAUSEWAY_TRY(prepare(connected));
  const Nanos prepared = clock_.now();
  CAUSEWAY_TRY(await_ends(connected));
  const Nanos ended = clock_.now();
  CAUSEWAY_TRY(open(connected));
  parts_.hello = greeted - began;
  parts_.prepare = prepared - greeted;
  parts_.wait = ended - prepared;
  parts_.open = clock_.now() - ended;
  tell_restarted();
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
    // The end of the old process is noticed when it comes.
    const Nanos look = all_ended(Nanos(0)) ? kStartPoll : kStartLook;
    CAUSEWAY_ASSIGN(auto received, channel.receive(std::min(left, look)));
    if (!received) continue;
    CAUSEWAY_ASSIGN(Message message, decode(received->message));
    // Its death is noticed at once, by what it hands over when it is prepared.
    if (std::holds_alternative<Prepared>(message)) channel.watch(std::move(received->descriptor));
    return message;
  }
  return shutting_down();
}

Status Worker::State::greet(Channel& channel) {
  const Hello ours{.version = options_.version};
  CAUSEWAY_TRY(channel.send(encode(ours)));
  CAUSEWAY_ASSIGN(const Message hello, await(channel, options_.hello_max));
  const Hello* const theirs = std::get_if<Hello>(&hello);
  if (theirs == nullptr) return corrupt("its first message is not its version");
  return check_hello(*theirs, ours);
}

Status Worker::State::prepare(Channel& channel) {
  CAUSEWAY_TRY(channel.send(encode(Prepare{options_.plan})));
  CAUSEWAY_ASSIGN(const Message answer, await(channel, options_.prepare_max));
  if (const auto* failed = std::get_if<Failed>(&answer)) return failed->error;
  if (std::holds_alternative<Prepared>(answer)) return {};
  return corrupt("it does not say that it is prepared");
}

// The new process says nothing meanwhile, and may die.
Status Worker::State::await_ends(Channel& channel) {
  while (!all_ended(Nanos(0))) {
    if (stopping()) return shutting_down();
    CAUSEWAY_ASSIGN(const auto received, channel.receive(kStartLook));
    if (received) return corrupt("it speaks before it is asked to open slices");
  }
  return {};
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
