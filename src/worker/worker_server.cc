#include "worker/worker_server.h"

#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "worker/hosted_slices.h"
#include "worker/witness.h"

namespace causeway::worker {
namespace {

// The next message within `timeout`.
Result<std::pair<Message, weights::FileDescriptor>> await_message(Channel& channel, Nanos timeout,
                                                                  const Clock& clock) {
  const Nanos until = clock.now() + timeout;
  while (clock.now() < until) {
    CAUSEWAY_ASSIGN(auto received, channel.receive(until - clock.now()));
    if (!received) continue;
    CAUSEWAY_ASSIGN(Message message, decode(received->message));
    return std::pair(std::move(message), std::move(received->descriptor));
  }
  return Error{ErrorCode::kDeadlineExceeded, "the supervisor does not say what it wants"};
}

Status greet(Channel& channel, const WorkerServerOptions& options, const Clock& clock) {
  const Hello ours{.version = options.version};
  CAUSEWAY_TRY(channel.send(encode(ours)));
  CAUSEWAY_ASSIGN(const auto first, await_message(channel, options.hello_max, clock));
  const Hello* const theirs = std::get_if<Hello>(&first.first);
  if (theirs == nullptr) return corrupt("the supervisor's first message is not its version");
  return check_hello(*theirs, ours);
}

Result<WorkerPlan> await_plan(Channel& channel, const WorkerServerOptions& options,
                              const Clock& clock) {
  CAUSEWAY_ASSIGN(auto second, await_message(channel, options.hello_max, clock));
  Prepare* const prepare = std::get_if<Prepare>(&second.first);
  if (prepare == nullptr) return corrupt("the supervisor does not say what to open");
  const auto count = static_cast<std::int64_t>(prepare->plan.slices.size());
  if (count < 1 || count > kSlicesMax) {
    return invalid_argument("a worker has 1 to " + std::to_string(kSlicesMax) + " slices, not " +
                            std::to_string(count));
  }
  return std::move(prepare->plan);
}

Status await_open(Channel& channel, const WorkerServerOptions& options, const Clock& clock) {
  CAUSEWAY_ASSIGN(const auto third, await_message(channel, options.open_wait_max, clock));
  if (std::holds_alternative<Open>(third.first)) return {};
  return corrupt("the supervisor does not say when to open slices");
}

Status tell(Channel& channel, Status failed) {
  if (!failed.ok()) (void)channel.send(encode(Failed{failed.error()}));
  return failed;
}

[[noreturn]] void leave(const Status& why) {
  const bool gone = why.error().code == ErrorCode::kUnavailable;
  if (!gone) spdlog::error("worker: {}", why.error().message);
  std::_Exit(gone ? 0 : 1);
}

}  // namespace

Status serve_worker(weights::FileDescriptor socket, const WorkerServerOptions& options,
                    SliceOpener& opener, const Clock& clock) {
  // Without a witness the supervisor learns of this process's end later, and of nothing less.
  const auto witness = Witness::start();
  if (!witness.ok()) spdlog::debug("worker: {}", witness.error().message);
  CAUSEWAY_ASSIGN(const auto channel, Channel::open(std::move(socket)));
  CAUSEWAY_TRY(greet(*channel, options, clock));
  CAUSEWAY_ASSIGN(const WorkerPlan plan, await_plan(*channel, options, clock));
  HostedSlices slices(*channel, options, clock);
  CAUSEWAY_TRY(tell(*channel, slices.prepare(plan, opener, witness.ok() ? (*witness)->end() : -1)));
  CAUSEWAY_TRY(await_open(*channel, options, clock));
  CAUSEWAY_TRY(tell(*channel, slices.open(plan, opener)));
  leave(slices.serve());
}

}  // namespace causeway::worker
