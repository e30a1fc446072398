// Scheduler::check_integrity: the scheduler's picture against itself and against the cache.
#include <map>
#include <string>

#include "schedule/scheduler_state.h"

namespace causeway::schedule {
namespace {

struct Totals {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t promised = 0;
};

Error broken(const Slot& slot, const std::string& what) {
  return corrupt("scheduler: request " + std::to_string(slot.facts.request.value) + ": " + what);
}

Status check_running(const Slot& slot, const kv::KvCache& kv, const ModelQueue& queue) {
  const RequestId request = slot.facts.request;
  if (!slot.live || !slot.facts.running) return broken(slot, "listed as running, but is not");
  if (!kv.is_open(request)) return broken(slot, "running without a block table");
  const auto table = static_cast<std::int64_t>(kv.table(request).size());
  if (table != slot.frames) {
    return broken(slot, "believed to hold " + std::to_string(slot.frames) + " frames, holds " +
                            std::to_string(table));
  }
  if (slot.facts.computed >= slot.facts.known) return broken(slot, "has nothing left to compute");
  if (std::ssize(*slot.tokens) + slot.pending != slot.facts.known.count) {
    return broken(slot, "knows another number of tokens than the engine");
  }
  if (slot.pending < 0 || slot.pending > slot.in_flight) return broken(slot, "samples unaccounted");
  const std::int64_t whole = queue.frames_for(slot.wanted());
  if (slot.promised != std::max<std::int64_t>(0, whole - slot.frames)) {
    return broken(slot, "wrong number of promised frames");
  }
  return {};
}

Status check_waiting(const Slot& slot, const kv::KvCache& kv) {
  if (!slot.live || slot.facts.running) return broken(slot, "listed as waiting, but is not");
  if (kv.is_open(slot.facts.request)) return broken(slot, "waiting with a block table");
  if (slot.facts.computed.count != 0 || slot.frames != 0 || slot.promised != 0) {
    return broken(slot, "waiting, but believed to hold frames");
  }
  return {};
}

}  // namespace

Status Scheduler::check_integrity(const kv::KvCache& kv) const {
  Totals totals;
  for (const ModelQueue& queue : state_->queues) {
    if (!queue.running.ordered(state_->table)) return corrupt("scheduler: running out of order");
    if (!queue.waiting.ordered(state_->table)) return corrupt("scheduler: waiting out of order");
    for (const SlotIndex index : queue.running.members()) {
      CAUSEWAY_TRY(check_running(state_->table[index], kv, queue));
      totals.promised += state_->table[index].promised;
    }
    std::map<std::int64_t, std::int64_t> waiting_frames;
    for (const SlotIndex index : queue.waiting.members()) {
      CAUSEWAY_TRY(check_waiting(state_->table[index], kv));
      waiting_frames[queue.frames_for(state_->table[index].facts.known)] += 1;
    }
    if (waiting_frames != queue.waiting_frames) {
      return corrupt("scheduler: waiting sequences are miscounted by frames");
    }
    totals.running += queue.running.size();
    totals.waiting += queue.waiting.size();
  }
  if (totals.running != state_->running_total || totals.waiting != state_->waiting_total ||
      totals.promised != state_->promised_total) {
    return corrupt("scheduler: totals differ from the sum over models");
  }
  return {};
}

}  // namespace causeway::schedule
