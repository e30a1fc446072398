// A worker's spare: a process that is prepared while another serves, and takes over when that is
// lost. What it saves is the time of preparing, which on a GPU also holds up the old one's end.
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "worker/channel.h"
#include "worker/worker_state.h"

namespace causeway::worker {
namespace {

constexpr Nanos kPreparingLook = millis(20);
constexpr Nanos kPreparedLook = seconds(1);  // it only has to be found dead before it is needed

}  // namespace

Result<std::unique_ptr<NewProcess>> Worker::State::next_process() {
  if (!spare_) return NewProcess::start(options_, false, clock_);
  spdlog::info("the spare of {}, process {}, {}", options_.name, spare_->pid(),
               spare_->prepared() ? "takes over" : "is not prepared yet, and goes on");
  const std::scoped_lock lock(mutex_);
  spare_pid_ = -1;
  return std::move(spare_);
}

void Worker::State::tend_spare() {
  const Nanos now = clock_.now();
  if (!options_.spare || now < spare_look_) return;
  (void)all_ended(Nanos(0));  // of spares that were lost
  if (!spare_) {
    auto started = NewProcess::start(options_, true, clock_);
    if (!started.ok()) return lose_spare(started.error());
    spare_ = std::move(started).value();
  }
  const bool was_prepared = spare_->prepared();
  if (const Status said = spare_->advance(Nanos(0)); !said.ok()) return lose_spare(said.error());
  spare_look_ = now + (spare_->prepared() ? kPreparedLook : kPreparingLook);
  if (was_prepared) spare_losses_ = 0;  // it has lived from one look to the next
  if (was_prepared || !spare_->prepared()) return;
  spdlog::info("a spare of {}, process {}, is prepared; start took {:.0f} ms and preparing {:.0f}",
               options_.name, spare_->pid(), to_millis(spare_->hello()),
               to_millis(spare_->prepare()));
  const std::scoped_lock lock(mutex_);
  spare_pid_ = spare_->pid();
}

void Worker::State::lose_spare(const Error& why) {
  const Nanos length = restart_pause(++spare_losses_ + 1, options_.pause_min, options_.pause_max);
  spdlog::warn("the spare of {} is lost: {}; another is started in {:.0f} ms", options_.name,
               why.message.empty() ? "it has ended" : why.message, to_millis(length));
  end_spare();
  spare_look_ = clock_.now() + length;
}

void Worker::State::end_spare() {
  if (!spare_) return;
  Child child = spare_->take_child();
  child.kill();
  spare_.reset();
  ending_.push_back({std::move(child), clock_.now()});
  const std::scoped_lock lock(mutex_);
  spare_pid_ = -1;
}

}  // namespace causeway::worker
