#include "weights/transfer_mover.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "weights/command_order.h"

namespace causeway::weights {

// One group on its way; hears of its end.
class TransferMover::Copy final : public transfer::TransferListener {
 public:
  Copy(TransferMover& mover, const WeightCommand& bring, device::Semaphore& ready)
      : command(bring), semaphore(ready), mover_(mover) {}
  void transfer_ended(const Status& outcome) override { mover_.ended(*this, outcome); }

  const WeightCommand command;
  device::Semaphore& semaphore;

 private:
  TransferMover& mover_;
};

Result<std::unique_ptr<TransferMover>> TransferMover::start(device::Device& device,
                                                            transfer::TransferEngine& engine,
                                                            transfer::LinkClaim& claim) {
  auto mover = std::make_unique<TransferMover>(device, engine, claim);
  try {
    mover->thread_ = std::thread([raw = mover.get()] { raw->loop(); });
  } catch (const std::system_error& error) {
    return exhausted(std::string("no thread for moving weights: ") + error.what());
  }
  return mover;
}

TransferMover::TransferMover(device::Device& device, transfer::TransferEngine& engine,
                             transfer::LinkClaim& claim)
    : device_(device), engine_(engine), claim_(claim) {}

TransferMover::~TransferMover() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  // The engine ends every transfer, at the latest with an error of its own.
  changed_.wait(lock, [&] { return !executing_ && copies_.empty(); });
  lock.unlock();
  if (thread_.joinable()) thread_.join();
  claim_.end();  // of commands that were not executed any more
}

void TransferMover::set_notify(std::function<void()> notify) {
  std::unique_lock lock(mutex_);
  notify_ = std::move(notify);
  changed_.wait(lock, [&] { return notifying_ == 0; });
}

Result<std::byte*> TransferMover::add_model(ModelId id, Place place) {
  auto model = std::make_unique<Model>();
  CAUSEWAY_ASSIGN(model->range,
                  device_.arena().reserve(extents_of(place.model, device_.arena().extent_bytes())));
  for (std::size_t i = 0; i < place.model.groups.size(); ++i) {
    CAUSEWAY_ASSIGN(model->semaphores.emplace_back(), device_.make_semaphore());
  }
  model->place = std::move(place);
  std::byte* const base = model->range.data();
  const std::lock_guard lock(mutex_);
  const bool added = models_.emplace(id, std::move(model)).second;
  CAUSEWAY_CHECK(added, "the mover knows the model already");
  return base;
}

void TransferMover::remove_model(ModelId id) {
  std::unique_ptr<Model> model;  // its range goes outside the lock
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    const bool queued = std::any_of(queue_.begin(), queue_.end(),
                                    [&](const auto& command) { return command.model == id; });
    return !queued && !executing_;
  });
  const auto found = models_.find(id);
  if (found == models_.end()) return;
  model = std::move(found->second);
  models_.erase(found);
  lock.unlock();
}

TransferMover::Model& TransferMover::model_of(ModelId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(id);
  CAUSEWAY_CHECK(found != models_.end(), "the mover does not know the model");
  return *found->second;
}

bool TransferMover::issued(ModelId model) const {
  const std::lock_guard lock(mutex_);
  const auto found = to_issue_.find(model);
  return found == to_issue_.end() || found->second == 0;
}

const device::Semaphore* TransferMover::semaphore(ModelId model, int group) const {
  return model_of(model).semaphores.at(static_cast<std::size_t>(group)).get();
}

void TransferMover::submit(std::span<const WeightCommand> commands) {
  if (commands.empty()) return;
  const Bytes extent = device_.arena().extent_bytes();
  std::vector<WeightCommand> ordered;
  interleave(
      commands,
      [&](const WeightCommand& bring) {
        const auto& groups = model_of(bring.model).place.model.groups;
        return extents_of(groups.at(static_cast<std::size_t>(bring.group)), extent);
      },
      ordered);
  const std::lock_guard lock(mutex_);
  for (const WeightCommand& command : ordered) {
    const std::int64_t brings = command.kind == WeightCommand::Kind::kBring ? 1 : 0;
    to_issue_[command.model] += brings;
    bringing_ += brings;
  }
  if (bringing_ > 0) claim_.begin();
  queue_.insert(queue_.end(), ordered.begin(), ordered.end());
  changed_.notify_all();
}

Bytes TransferMover::moved() const {
  const std::lock_guard lock(mutex_);
  return moved_;
}

std::vector<WeightEvent> TransferMover::poll() {
  const std::lock_guard lock(mutex_);
  return std::exchange(outbox_, {});
}

void TransferMover::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const WeightCommand command = queue_.front();
    queue_.pop_front();
    executing_ = true;
    lock.unlock();
    execute(command);
    lock.lock();
    executing_ = false;
    to_issue_[command.model] -= command.kind == WeightCommand::Kind::kBring ? 1 : 0;
    changed_.notify_all();
  }
}

void TransferMover::execute(const WeightCommand& command) {
  if (!command.model.valid()) return execute_of_frames(command);
  Model& model = model_of(command.model);
  switch (command.kind) {
    case WeightCommand::Kind::kDecommit: decommit(model, command); return;
    case WeightCommand::Kind::kCommit: {
      Status committed = model.range.commit(command.first_extent, command.extents);
      if (committed.ok()) committed_ += command.extents;
      if (!committed.ok()) model.committed = std::move(committed);
      return;
    }
    case WeightCommand::Kind::kBring: bring(model, command); return;
  }
}

void TransferMover::execute_of_frames(const WeightCommand& command) {
  CAUSEWAY_CHECK(frames_ != nullptr, "there are no KV frames that memory goes to or comes from");
  if (command.kind == WeightCommand::Kind::kDecommit) {
    return frames_->decommit(command.first_extent, command.extents);
  }
  for (std::int64_t i = 0; i < command.extents; ++i) {
    WeightEvent event;
    event.extent = command.first_extent + i;
    event.outcome = frames_->commit(event.extent, 1);
    post(std::move(event));
  }
}

// An extent for which there was no memory counts as committed for the machine, but is not.
void TransferMover::decommit(Model& model, const WeightCommand& command) {
  for (std::int64_t i = 0; i < command.extents; ++i) {
    const std::int64_t extent = command.first_extent + i;
    if (!model.range.committed(extent, 1)) continue;
    model.range.decommit(extent, 1);
    --committed_;
  }
}

void TransferMover::bring(Model& model, const WeightCommand& command) {
  const auto index = static_cast<std::size_t>(command.group);
  const ResidentGroup& group = model.place.model.groups.at(index);
  device::Semaphore& semaphore = *model.semaphores.at(index);
  const ExtentRun extents = extents_of(group, device_.arena().extent_bytes());
  if (!model.range.committed(extents.first, extents.count)) {
    CAUSEWAY_CHECK(!model.committed.ok(), "a group is brought to where no memory was put");
    return finish(command, semaphore, model.committed);
  }

  auto owned = std::make_unique<Copy>(*this, command, semaphore);
  Copy& copy = *owned;
  {
    const std::lock_guard lock(mutex_);
    copies_.emplace(&copy, std::move(owned));
  }
  const device::HostAddress home{model.place.home.region, model.place.home.offset + group.offset};
  const auto submitted =
      engine_.submit({.direction = transfer::Direction::kIn,
                      .target = device_.id(),
                      .segments = {{device::MemoryAddress::in_host(home),
                                    device::MemoryAddress::in_arena(
                                        device_.id(), model.range.offset() + group.offset),
                                    group.bytes}},
                      .priority = group.readable_at_home ? device::CopyPriority::kPromotion
                                                         : device::CopyPriority::kWeightsAhead,
                      .listener = &copy,
                      .signal = &semaphore,
                      .signal_value = command.arrival});
  if (!submitted.ok()) ended(copy, submitted.error());
}

void TransferMover::ended(Copy& copy, const Status& outcome) {
  finish(copy.command, copy.semaphore, outcome);
  // Last: once it is gone, the mover may go.
  std::unique_ptr<Copy> gone;
  const std::lock_guard lock(mutex_);
  const auto found = copies_.find(&copy);
  gone = std::move(found->second);
  copies_.erase(found);
  changed_.notify_all();
}

void TransferMover::finish(const WeightCommand& command, device::Semaphore& semaphore,
                           const Status& outcome) {
  {
    const std::lock_guard lock(mutex_);
    const auto& groups = models_.at(command.model)->place.model.groups;
    if (outcome.ok()) moved_ += groups.at(static_cast<std::size_t>(command.group)).bytes;
    if (--bringing_ == 0) claim_.end();
  }
  WeightEvent event;
  event.model = command.model;
  event.group = command.group;
  event.arrival = command.arrival;
  event.outcome = outcome;
  // First: a step that is released by a failure must find it.
  post(std::move(event));
  if (!outcome.ok()) semaphore.raise(command.arrival);
}

void TransferMover::post(WeightEvent event) {
  std::function<void()> notify;
  {
    const std::lock_guard lock(mutex_);
    outbox_.push_back(std::move(event));
    notify = notify_;
    ++notifying_;
  }
  if (notify) notify();
  const std::lock_guard lock(mutex_);
  --notifying_;
  changed_.notify_all();
}

}  // namespace causeway::weights
