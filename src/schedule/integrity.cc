// Scheduler::check_integrity: compares the scheduler's state with itself and with the cache.
#include <map>
#include <string>

#include "schedule/scheduler_state.h"

namespace causeway::schedule {
namespace {

struct Totals {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t rotary = 0;
  std::int64_t promised = 0;
  std::int64_t outside_frames = 0;
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

Status check_outside(const Slot& slot, const kv::KvCache& kv) {
  const RequestId request = slot.facts.request;
  if (!slot.live || slot.facts.running) return broken(slot, "listed outside HBM, but runs");
  if (slot.facts.rotary ? kv.is_open(request) && !kv.table(request).empty() : kv.is_open(request)) {
    return broken(slot, "outside HBM with a block table");
  }
  if (!slot.facts.rotary && slot.facts.computed.count != 0) {
    return broken(slot, "waiting, but believed to have something computed");
  }
  if (slot.facts.rotary && slot.facts.computed.count == 0) {
    return broken(slot, "rotary with nothing that was computed");
  }
  if (slot.frames != 0 || slot.promised != 0 || slot.owed != 0) {
    return broken(slot, "outside HBM, but believed to hold frames");
  }
  return {};
}

// Checks the sums that rotation keeps of running sequences.
Status check_backlog(const ModelQueue& queue, const SequenceTable& table) {
  std::int64_t backlog = 0, scored = 0;
  std::map<Nanos, std::int64_t> slacks;
  for (const SlotIndex index : queue.running.members()) {
    const Slot& slot = table[index];
    if (slot.just_admitted) return broken(slot, "came in with a decision that is over");
    if (slot.owed != (slot.wanted() - slot.facts.computed).count) {
      return broken(slot, "is owed another number of tokens");
    }
    backlog += slot.owed;
    scored += slot.scores ? slot.owed : 0;
    slacks[idle_slack_of(slot.facts)] += 1;
  }
  if (backlog != queue.backlog || scored != queue.backlog_scored) {
    return corrupt("scheduler: tokens owed are miscounted");
  }
  if (slacks != queue.slacks) return corrupt("scheduler: slacks are miscounted");
  return {};
}

}  // namespace

Status Scheduler::State::check_ranks(const ModelQueue& queue) const {
  if (!queue.ranked_waiting.ordered(positions) || !queue.ranked_rotary.ordered(positions)) {
    return corrupt("scheduler: requests outside HBM are out of order");
  }
  Status status;
  for (const UrgencyHeaps* heaps : {&queue.ranked_waiting, &queue.ranked_rotary}) {
    heaps->each([&](const Ranked& member) {
      const Slot& slot = table[member.index];
      const bool right_heap = slot.facts.rotary == (heaps == &queue.ranked_rotary);
      if (!right_heap || slot.settling || member.id != slot.facts.request.value) {
        status = broken(slot, "ranked where it does not belong");
      } else if (!(member.standing == rotation->outside(slot.facts))) {
        status = broken(slot, "ranked by facts that have changed");
      }
      return status.ok();
    });
  }
  return status;
}

Status Scheduler::State::check_settling() const {
  for (const SlotIndex index : settling) {
    if (!table[index].live || !table[index].settling || table[index].facts.running) {
      return broken(table[index], "listed as settling, but is not");
    }
  }
  return {};
}

Status Scheduler::check_integrity(const kv::KvCache& kv) const {
  Totals totals;
  CAUSEWAY_TRY(state_->check_settling());
  for (const ModelQueue& queue : state_->queues) {
    if (!queue.running.ordered(state_->table)) return corrupt("scheduler: running out of order");
    if (!queue.waiting.ordered(state_->table)) return corrupt("scheduler: waiting out of order");
    for (const SlotIndex index : queue.running.members()) {
      CAUSEWAY_TRY(check_running(state_->table[index], kv, queue));
      totals.promised += state_->table[index].promised;
    }
    if (state_->rotation) {
      CAUSEWAY_TRY(check_backlog(queue, state_->table));
      CAUSEWAY_TRY(state_->check_ranks(queue));
    }
    std::map<std::int64_t, std::int64_t> outside_frames;
    std::int64_t waiting = 0, rotary = 0;
    const auto count = [&](SlotIndex index) {
      const Slot& slot = state_->table[index];
      const std::int64_t frames = queue.frames_for(slot.facts.known);
      outside_frames[frames] += 1;
      totals.outside_frames += frames;
      (slot.facts.rotary ? rotary : waiting) += 1;
      return check_outside(slot, kv);
    };
    Status status;
    queue.each_outside([&](SlotIndex index) {
      status = count(index);
      return status.ok();
    });
    CAUSEWAY_TRY(std::move(status));
    for (const SlotIndex index : state_->settling) {
      if (&state_->queues[static_cast<std::size_t>(state_->table[index].model)] != &queue) continue;
      CAUSEWAY_TRY(count(index));
    }
    if (outside_frames != queue.outside_frames) {
      return corrupt("scheduler: requests outside HBM are miscounted by frames");
    }
    if (waiting != queue.waiting_count || rotary != queue.rotary_count) {
      return corrupt("scheduler: requests outside HBM are miscounted");
    }
    totals.running += queue.running.size();
    totals.waiting += waiting;
    totals.rotary += rotary;
  }
  if (totals.running != state_->running_total || totals.waiting != state_->waiting_total ||
      totals.rotary != state_->rotary_total || totals.promised != state_->promised_total ||
      totals.outside_frames != state_->outside_frames_total) {
    return corrupt("scheduler: totals differ from the sum over models");
  }
  return {};
}

}  // namespace causeway::schedule
