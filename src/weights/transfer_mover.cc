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
  Copy(TransferMover& mover, const WeightCommand& bring, device::Semaphore* signal)
      : command(bring), ready(signal), mover_(mover) {}
  void transfer_ended(const Status& outcome) override { mover_.ended(*this, outcome); }

  const WeightCommand command;
  device::Semaphore* const ready;

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
  if (place.model.stream) {
    for (std::size_t i = 0; i < place.model.stream->groups.size(); ++i) {
      CAUSEWAY_ASSIGN(model->streamed.emplace_back(), device_.make_semaphore());
    }
    CAUSEWAY_ASSIGN(model->consumed, device_.make_semaphore());
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
    // The end of a copy is told before its semaphore is let go.
    const bool copied = std::any_of(copies_.begin(), copies_.end(), [&](const auto& copy) {
      return copy.first->command.model == id;
    });
    return !queued && !copied && !executing_;
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

const device::Semaphore* TransferMover::streamed(ModelId model, int group) const {
  return model_of(model).streamed.at(static_cast<std::size_t>(group)).get();
}

device::Semaphore* TransferMover::consumed(ModelId model) const {
  return model_of(model).consumed.get();
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
  const bool idle = bringing_ == 0;
  for (const WeightCommand& command : ordered) {
    const std::int64_t brings = command.kind == WeightCommand::Kind::kBring ? 1 : 0;
    to_issue_[command.model] += brings;
    const bool loads = command.kind == WeightCommand::Kind::kStream ||
                       command.kind == WeightCommand::Kind::kExpert;
    bringing_ += loads ? 1 : brings;
  }
  if (bringing_ > 0) claim_.begin();
  if (bringing_ > 0 && idle) busy_since_ = clock_.now();
  queue_.insert(queue_.end(), ordered.begin(), ordered.end());
  changed_.notify_all();
}

Bytes TransferMover::moved() const {
  const std::lock_guard lock(mutex_);
  return moved_;
}

Nanos TransferMover::busy() const {
  const std::lock_guard lock(mutex_);
  return bringing_ > 0 ? busy_ + (clock_.now() - busy_since_) : busy_;
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
    // What finds no memory now is tried once more, and told, by the groups that need it.
    case WeightCommand::Kind::kCommit:
      (void)commit(model, {command.first_extent, command.extents}).ok();
      return;
    case WeightCommand::Kind::kBring: bring(model, command); return;
    case WeightCommand::Kind::kStream: stream(model, command); return;
    case WeightCommand::Kind::kExpert: load_expert(model, command); return;
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

// Those of the extents that have no memory yet.
Status TransferMover::commit(Model& model, const ExtentRun& extents) {
  for (std::int64_t at = extents.first; at < extents.first + extents.count;) {
    std::int64_t count = 0;
    while (at + count < extents.first + extents.count && !model.range.committed(at + count, 1)) {
      ++count;
    }
    if (count > 0) CAUSEWAY_TRY(model.range.commit(at, count));
    committed_ += count;
    at += std::max<std::int64_t>(count, 1);
  }
  return {};
}

// An extent for which there was no memory counts as committed for the machine, but is not.
void TransferMover::decommit(Model& model, const WeightCommand& command) {
  if (model.aliased &&
      command.first_extent + command.extents > model.place.model.stream->ring_first) {
    hide_ring(model);
  }
  const Bytes size = device_.arena().extent_bytes();
  const bool told = before_drop_ && !model.place.model.streams() &&
                    model.range.committed(command.first_extent, command.extents);
  if (told) {
    before_drop_(model.range.offset() + size * command.first_extent, size * command.extents);
  }
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
  if (const Status committed = commit(model, extents); !committed.ok()) {
    return finish(command, &semaphore, committed);
  }
  if (group.memory_only) {
    const Status shown = model.place.model.stream ? show_ring(model) : Status();
    if (shown.ok()) semaphore.raise(command.arrival);
    return finish(command, &semaphore, shown);
  }
  copy(model, command,
       {.parts = {{model.place.model.home_of(index), group.offset, group.bytes}},
        .priority = group.readable_at_home ? device::CopyPriority::kPromotion
                                           : device::CopyPriority::kWeightsAhead,
        .ready = &semaphore});
}

void TransferMover::stream(Model& model, const WeightCommand& command) {
  const auto index = static_cast<std::size_t>(command.group);
  const StreamedGroup& group = model.place.model.stream->groups.at(index);
  CAUSEWAY_CHECK(model.aliased, "a group is streamed into a ring that is not there");
  copy(model, command,
       {.parts = {{group.offset, group.offset, group.bytes}},
        .ready = model.streamed.at(index).get()});
}

// Behind memory that counts as in use while loads are under way.
void TransferMover::load_expert(Model& model, const WeightCommand& command) {
  const ExpertPlan& plan = *model.place.model.experts;
  const ExpertLayer& layer = plan.layers.at(static_cast<std::size_t>(command.group));
  const Bytes slot = plan.slot(command.slot);
  copy(model, command,
       {.parts = {{layer.gate_up + plan.gate_up * command.expert, slot, plan.gate_up},
                  {layer.down + plan.down * command.expert, slot + plan.gate_up, plan.down}}});
}

Status TransferMover::show_ring(Model& model) {
  model.aliased = true;
  for (const ExtentAlias& alias : model.place.model.stream->aliases) {
    Status shown = model.range.alias(alias.first, alias.ring, alias.count);
    if (shown.ok()) continue;
    hide_ring(model);
    return shown;
  }
  return {};
}

void TransferMover::hide_ring(Model& model) {
  for (const ExtentAlias& alias : model.place.model.stream->aliases) {
    if (model.range.committed(alias.first, alias.count)) {
      model.range.decommit(alias.first, alias.count);
    }
  }
  model.aliased = false;
}

void TransferMover::copy(Model& model, const WeightCommand& command, const Load& load) {
  auto owned = std::make_unique<Copy>(*this, command, load.ready);
  Copy& copy = *owned;
  {
    const std::lock_guard lock(mutex_);
    copies_.emplace(&copy, std::move(owned));
  }
  transfer::TransferRequest request{.direction = transfer::Direction::kIn,
                                    .target = device_.id(),
                                    .segments = {},
                                    .priority = load.priority,
                                    .listener = &copy,
                                    .signal = load.ready,
                                    .signal_value = command.arrival};
  for (const Part& part : load.parts) {
    device::MemoryAddress home = model.place.home;
    home.offset += part.home;
    request.segments.push_back(
        {home, device::MemoryAddress::in_arena(device_.id(), model.range.offset() + part.offset),
         part.bytes});
  }
  const auto submitted = engine_.submit(std::move(request));
  if (!submitted.ok()) ended(copy, submitted.error());
}

void TransferMover::ended(Copy& copy, const Status& outcome) {
  finish(copy.command, copy.ready, outcome);
  // Last: once it is gone, the mover may go.
  std::unique_ptr<Copy> gone;
  const std::lock_guard lock(mutex_);
  const auto found = copies_.find(&copy);
  gone = std::move(found->second);
  copies_.erase(found);
  changed_.notify_all();
}

void TransferMover::finish(const WeightCommand& command, device::Semaphore* ready,
                           const Status& outcome) {
  {
    const std::lock_guard lock(mutex_);
    if (outcome.ok()) moved_ += bytes_of(*models_.at(command.model), command);
    if (--bringing_ == 0) {
      claim_.end();
      busy_ += clock_.now() - busy_since_;
    }
  }
  WeightEvent event;
  event.model = command.model;
  event.group = command.group;
  event.arrival = command.arrival;
  event.outcome = outcome;
  event.streamed = command.kind == WeightCommand::Kind::kStream;
  if (command.kind == WeightCommand::Kind::kExpert) event.slot = command.slot;
  // First: a step that is released by a failure must find it.
  post(std::move(event));
  if (!outcome.ok() && ready != nullptr) ready->raise(command.arrival);
}

Bytes TransferMover::bytes_of(const Model& model, const WeightCommand& command) {
  const CachedModel& placed = model.place.model;
  const auto group = static_cast<std::size_t>(command.group);
  if (command.kind == WeightCommand::Kind::kStream) return placed.stream->groups.at(group).bytes;
  if (command.kind == WeightCommand::Kind::kExpert) return placed.experts->expert_bytes();
  const ResidentGroup& brought = placed.groups.at(group);
  return brought.memory_only ? Bytes(0) : brought.bytes;
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
