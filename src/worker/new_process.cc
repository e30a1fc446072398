#include "worker/new_process.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "worker/channel.h"

namespace causeway::worker {
namespace {

Result<std::pair<weights::FileDescriptor, weights::FileDescriptor>> connected_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return io_error("connecting to a worker", errno);
  }
  return std::pair(weights::FileDescriptor(ends[0]), weights::FileDescriptor(ends[1]));
}

}  // namespace

NewProcess::NewProcess(const WorkerOptions& options, bool spare, const Clock& clock)
    : options_(options), spare_(spare), clock_(clock), since_(clock.now()) {}

NewProcess::~NewProcess() = default;

Result<std::unique_ptr<NewProcess>> NewProcess::start(const WorkerOptions& options, bool spare,
                                                      const Clock& clock) {
  auto process = std::make_unique<NewProcess>(options, spare, clock);
  CAUSEWAY_TRY(process->begin());
  return process;
}

Status NewProcess::begin() {
  CAUSEWAY_ASSIGN(auto ends, connected_pair());
  CAUSEWAY_ASSIGN(owned_, Channel::open(std::move(ends.first)));
  channel_ = owned_.get();
  // This process's copy of the other end is closed on return, or the child's end would not be seen.
  CAUSEWAY_ASSIGN(child_, Child::start(options_.command, ends.second.get(), options_.environment));
  pid_ = child_.pid();
  return channel_->send(encode(Hello{.version = options_.version}));
}

Status NewProcess::advance(Nanos wait) {
  Nanos left = wait;
  Nanos most;
  if (!prepared()) {
    most = phase_ == Phase::kStarted ? options_.hello_max : options_.prepare_max;
    left = since_ + most - clock_.now();
    if (left <= Nanos(0)) {
      return Error{ErrorCode::kDeadlineExceeded,
                   "it said nothing for " + std::to_string(most / seconds(1)) + " s"};
    }
  }
  CAUSEWAY_ASSIGN(auto received, channel_->receive(std::min(left, wait)));
  if (!received) return {};
  CAUSEWAY_ASSIGN(const Message message, decode(received->message));
  if (phase_ == Phase::kStarted) return take_hello(message);
  if (phase_ == Phase::kGreeted) return take_prepared(message, std::move(received->descriptor));
  return corrupt("it speaks before it is asked to open slices");
}

Status NewProcess::take_hello(const Message& message) {
  const Hello* const theirs = std::get_if<Hello>(&message);
  if (theirs == nullptr) return corrupt("its first message is not its version");
  CAUSEWAY_TRY(check_hello(*theirs, {.version = options_.version}));
  const Nanos now = clock_.now();
  hello_ = now - std::exchange(since_, now);
  phase_ = Phase::kGreeted;
  return channel_->send(encode(Prepare{options_.plan, spare_}));
}

Status NewProcess::take_prepared(const Message& message, weights::FileDescriptor witness) {
  if (const auto* failed = std::get_if<Failed>(&message)) return failed->error;
  if (!std::holds_alternative<Prepared>(message)) {
    return corrupt("it does not say that it is prepared");
  }
  // Its death is noticed at once, by what it hands over when it is prepared.
  channel_->watch(std::move(witness));
  const Nanos now = clock_.now();
  prepare_ = now - std::exchange(since_, now);
  phase_ = Phase::kPrepared;
  return {};
}

}  // namespace causeway::worker
